/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmx-run: starts the processes of a job on one host or many, lets them exchange addresses
 * (include/pmx/job.h), prints what they print, and ends them all when one fails.
 *
 * Design notes
 * 1. One agent a host (agent.c), which is this program too: started directly on this host, and by
 *    ssh, srun or what else is asked for on others. All they say goes by that command's standard
 *    input and output.
 * 2. What an agent is to be told waits in a queue, so that pmx-run always reads: an agent may block
 *    in writing.
 * 3. A rank that fails ends the job. One that ends well while others wait for it in an exchange
 *    would let them wait for ever, so it ends the job as well.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "job/exchange.h"
#include "launch.h"

static const char usage_text[] =
	"Usage: pmx-run [options] COMMAND [ARGUMENTS]\n"
	"\n"
	"Starts a job: COMMAND so many times, on one host or many, as processes that find each "
	"other by\n"
	"pmx_job_init(). Ends all of them when one fails, and names it.\n"
	"\n"
	"  -n N            processes (as many as the hosts have slots, or one a host)\n"
	"  --nodes FILE    hosts, a line each: HOST [slots=N] [instance=NAME]; NAME is that of "
	"its\n"
	"                  pmx-dpdk\n"
	"  --host A,B      hosts\n"
	"  --agent COMMAND how to run a command on a host, whose name is appended; \"{}\" stands "
	"for it\n"
	"                  elsewhere (ssh -o BatchMode=yes; in an allocation of Slurm srun)\n"
	"  --wdir DIR      where the processes run (here, if there is such a directory)\n"
	"  -x NAME[=VALUE] an environment variable for them; PMX_* and FI_* are passed on anyway\n"
	"  --label         each line with the rank that wrote it\n"
	"  --timeout S     end the job after so many seconds\n"
	"  -v              say where they run, and when they have met\n"
	"\n"
	"Without --nodes and --host: the hosts of Slurm's allocation, or this one. The exit code "
	"is that\n"
	"of the first process that failed (128 + the signal's number), 124 after --timeout.\n";

struct output_chunk {
	struct output_chunk *next;
	uint32_t len, done;
	uint8_t bytes[];
};

struct run_agent {
	const struct host *host;
	pid_t pid;
	int to, from; /* -1: closed */
	struct stream_in in;
	struct output_chunk *head, *tail; /* to be written */
	uint32_t running;
};

struct run_rank {
	const struct run_agent *agent;
	uint32_t pid;
	uint32_t fences;
	bool runs;
	bool left;          /* it has ended, or its part of the job */
	bool begun_line[2]; /* of its output, and of its errors */
};

static struct {
	uint32_t number, size;
	struct hosts hosts;
	struct run_agent *agents;
	struct run_rank *ranks;
	struct records put;       /* since the last fence */
	uint32_t fences, waiting; /* fences that have ended; ranks in the next one */
	int code;                 /* of the job; -1: none yet */
	int64_t began_ms, end_ms; /* end_ms 0: never */
	bool label, verbose;
} job = {.code = -1};

__attribute__((noreturn, format(printf, 1, 2))) static void
die(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "pmx-run: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	exit(2);
}

static void *
must(void *p)
{
	if (p == NULL)
		die("out of memory");
	return p;
}

static const char *
run_name_of(const struct host *h)
{
	return *h->name != 0 ? h->name : "this host";
}

/* ------------------------------------------------------------------ to the agents */

/* Tell the agent nothing more: it sees the end of its input. */
static void
hang_up(struct run_agent *a)
{
	if (a->to >= 0)
		shutdown(a->to, SHUT_WR); /* the other direction is the same socket */
	close_fd(&a->to);
}

static void
flush(struct run_agent *a)
{
	while (a->to >= 0 && a->head != NULL) {
		struct output_chunk *c = a->head;
		const ssize_t n = write(a->to, c->bytes + c->done, c->len - c->done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			hang_up(a); /* its end is seen at the other stream */
			return;
		}
		c->done += (uint32_t)n;
		if (c->done < c->len)
			continue;
		a->head = c->next;
		free(c);
	}
}

static void
run_tell(struct run_agent *a, uint8_t op, const void *body, uint32_t len)
{
	struct output_chunk *c = must(malloc(sizeof(*c) + STREAM_HEAD + len));

	*c = (struct output_chunk){.len = STREAM_HEAD + len};
	stream_head(c->bytes, op, 0, len);
	if (len != 0)
		memcpy(c->bytes + STREAM_HEAD, body, len);
	if (a->head == NULL)
		a->head = c;
	else
		a->tail->next = c;
	a->tail = c;
	flush(a);
}

static void
signal_all(int number)
{
	uint8_t body[4];

	stream_put_u32(body, (uint32_t)number);
	for (uint32_t i = 0; i < job.hosts.count; i++)
		run_tell(&job.agents[i], STREAM_SIGNAL, body, sizeof(body));
}

/* End the job with that exit code, if it does not end already. */
static void
end_job(int code)
{
	if (job.code >= 0)
		return;
	job.code = code;
	signal_all(SIGTERM);
}

/* ------------------------------------------------------------------ the exchange */

static void
values_add(uint32_t rank, const uint8_t *body, uint32_t len)
{
	if (len < 1 || body[0] > VALUES_KEY_MAX || len - 1 < body[0])
		return;
	const uint32_t key_len = body[0], value_len = len - 1 - key_len;

	if (job.put.len + len > STREAM_MAX / 2) {
		fprintf(stderr, "pmx-run: rank %u: more than %u MiB are put in one exchange\n",
			rank, STREAM_MAX >> 21);
		end_job(1);
		return;
	}
	if (records_add(&job.put, rank, (const char *)body + 1, key_len, body + 1 + key_len,
		    value_len) != 0)
		die("out of memory");
}

/* End the job if a rank has left it and others wait for that rank in an exchange. */
static void
look_for_missing(void)
{
	for (uint32_t r = 0; job.waiting > 0 && job.code < 0 && r < job.size; r++) {
		if (!job.ranks[r].left || job.ranks[r].fences > job.fences)
			continue;
		fprintf(stderr,
			"pmx-run: rank %u (process %u on %s) has left the job, but %u others wait "
			"for it in an exchange\n",
			r, job.ranks[r].pid, run_name_of(job.ranks[r].agent->host), job.waiting);
		end_job(1);
	}
}

static void
fence(uint32_t rank)
{
	struct run_rank *r = &job.ranks[rank];

	if (r->fences > job.fences)
		return; /* it waits already */
	r->fences++;
	if (++job.waiting == job.size) {
		for (uint32_t i = 0; i < job.hosts.count; i++)
			run_tell(&job.agents[i], STREAM_VALUES, job.put.bytes,
				(uint32_t)job.put.len);
		job.put.len = 0;
		job.waiting = 0;
		if (job.fences++ == 0 && job.verbose)
			fprintf(stderr, "pmx-run: all %u processes have met after %.3f s\n",
				job.size, (double)(clock_ms() - job.began_ms) / 1e3);
	}
	look_for_missing();
}

/* ------------------------------------------------------------------ from the agents */

static void
print_output(uint32_t rank, int which, const uint8_t *bytes, uint32_t len)
{
	FILE *to = which == 0 ? stdout : stderr;
	bool *begun = &job.ranks[rank].begun_line[which];

	for (uint32_t at = 0; at < len;) {
		const uint8_t *end = memchr(bytes + at, '\n', len - at);
		const uint32_t n = end != NULL ? (uint32_t)(end - bytes) + 1 - at : len - at;

		if (job.label && !*begun)
			fprintf(to, "[%u] ", rank);
		fwrite(bytes + at, 1, n, to);
		*begun = end == NULL;
		at += n;
	}
	fflush(to);
}

static void
rank_ended(struct run_agent *a, uint32_t rank, int status)
{
	struct run_rank *r = &job.ranks[rank];
	const bool signalled = WIFSIGNALED(status);
	const int code = signalled ? 128 + WTERMSIG(status) : WEXITSTATUS(status);

	if (!r->runs)
		return;
	r->runs = false;
	r->left = true;
	a->running--;
	if (code != 0 && job.code < 0) {
		fprintf(stderr, "pmx-run: rank %u (process %u on %s) ", rank, r->pid,
			run_name_of(a->host));
		if (signalled)
			fprintf(stderr, "was ended by signal %d (%s)", WTERMSIG(status),
				strsignal(WTERMSIG(status)));
		else
			fprintf(stderr, "ended with code %d", code);
		fprintf(stderr, "%s\n", job.size > 1 ? ": the others are ended too" : "");
		end_job(code);
	}
	look_for_missing();
	if (a->running == 0)
		hang_up(a);
}

/* Note that the agent's ranks from that one on do not run. */
static void
none_run(struct run_agent *a, uint32_t from)
{
	for (uint32_t r = from; r < a->host->first + a->host->ranks; r++) {
		a->running -= job.ranks[r].runs;
		job.ranks[r].runs = false;
	}
}

static void
message(struct run_agent *a, const struct stream_message *m)
{
	const uint32_t rank = m->rank;

	/* an agent speaks for its own ranks only */
	if (rank < a->host->first || rank - a->host->first >= a->host->ranks)
		return;
	struct run_rank *r = &job.ranks[rank];

	switch (m->op) {
	case STREAM_STARTED:
		if (m->len < 4)
			break;
		r->pid = stream_u32(m->body);
		if (job.verbose)
			fprintf(stderr, "pmx-run: rank %u is process %u on %.*s\n", rank, r->pid,
				(int)(m->len - 4), (const char *)m->body + 4);
		break;
	case STREAM_OUTPUT:
	case STREAM_ERRORS:
		print_output(rank, m->op == STREAM_ERRORS, m->body, m->len);
		break;
	case STREAM_ENDED:
		if (m->len == 4)
			rank_ended(a, rank, (int)stream_u32(m->body));
		break;
	case STREAM_FAILED:
		if (job.code < 0)
			fprintf(stderr, "pmx-run: rank %u on %s cannot be started: %.*s\n", rank,
				run_name_of(a->host), (int)m->len, (const char *)m->body);
		end_job(127);
		none_run(a, rank); /* nor do those after it */
		if (a->running == 0)
			hang_up(a);
		break;
	case STREAM_HELLO:
		if (m->len != 4 || stream_u32(m->body) != STREAM_VERSION) {
			fprintf(stderr,
				"pmx-run: rank %u has a libpmx-job of another version than this "
				"pmx-run: use the same build\n",
				rank);
			end_job(1);
		}
		break;
	case STREAM_PUT:
		values_add(rank, m->body, m->len);
		break;
	case STREAM_FENCE:
		fence(rank);
		break;
	case STREAM_LEAVE:
		r->left = true;
		look_for_missing();
		break;
	}
}

/* Note that the agent's stream has ended. If ranks of it still ran, the job ends with code 1. */
static void
agent_ended(struct run_agent *a)
{
	int status = 0;

	close_fd(&a->from);
	hang_up(a);
	waitpid(a->pid, &status, 0);
	if (a->running == 0)
		return;
	if (job.code < 0)
		fprintf(stderr, "pmx-run: %s: the way to it, or its pmx-run, has ended%s\n",
			run_name_of(a->host),
			WIFEXITED(status) && WEXITSTATUS(status) == 127
				? " (no such command: is pmx-run installed there? --agent, PMX_RUN)"
				: "");
	end_job(1);
	none_run(a, a->host->first);
}

static void
run_hear(struct run_agent *a)
{
	struct stream_message m;
	int r = stream_read(a->from, &a->in), n = 0;

	while (r == 1 && (n = stream_next(&a->in, &m)) == 1)
		message(a, &m);
	if (n < 0) {
		fprintf(stderr, "pmx-run: %s: what answers there is no pmx-run\n",
			run_name_of(a->host));
		kill(a->pid, SIGTERM);
		r = 0;
	}
	if (r != 1 && r != -EAGAIN)
		agent_ended(a);
}

/* ------------------------------------------------------------------ starting */

static const char *
own_path(void)
{
	static char path[4096];
	const ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		die("/proc/self/exe: %s", strerror(errno));
	path[n] = 0;
	return path;
}

static void
agent_start(struct run_agent *a, const struct host *h, const char *how)
{
	const char *there = *h->name != 0 ? getenv("PMX_RUN") : NULL;
	const char *const program[] = {there != NULL ? there : own_path(), "--serve-a-host", NULL};
	char **words = must(hosts_command(how, h, program));
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
		die("a socket: %s", strerror(errno));
	a->host = h;
	a->pid = fork();
	if (a->pid < 0)
		die("%s: %s", words[0], strerror(errno));
	if (a->pid == 0) {
		sigset_t none;

		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		signal(SIGPIPE, SIG_DFL);
		dup2(pair[1], STDIN_FILENO);
		dup2(pair[1], STDOUT_FILENO);
		execvp(words[0], words);
		fprintf(stderr, "pmx-run: %s: %s\n", words[0], strerror(errno));
		_exit(127);
	}
	close(pair[1]);
	/* one socket, but its directions end on their own */
	a->from = pair[0];
	a->to = fcntl(pair[0], F_DUPFD_CLOEXEC, 3);
	fcntl(pair[0], F_SETFL, O_NONBLOCK);
	a->running = h->ranks;
	for (uint32_t r = h->first; r < h->first + h->ranks; r++)
		job.ranks[r] = (struct run_rank){.agent = a, .runs = true};
	for (char **w = words; *w != NULL; w++)
		free(*w);
	free(words);
}

/* ------------------------------------------------------------------ options */

extern char **environ;

struct run_options {
	uint32_t n;
	const char *nodes, *names, *how, *directory;
	char **variables;
	uint32_t variable_count;
	char **command;
};

static void
variable_add(struct run_options *o, const char *text)
{
	char *with = NULL;

	if (strchr(text, '=') == NULL) {
		if (getenv(text) == NULL)
			return;
		if (asprintf(&with, "%s=%s", text, getenv(text)) < 0)
			die("out of memory");
	}
	o->variables = must(realloc(o->variables, (o->variable_count + 2) * sizeof(char *)));
	o->variables[o->variable_count++] = with != NULL ? with : must(strdup(text));
	o->variables[o->variable_count] = NULL;
}

static uint32_t
number(const char *text, const char *what, uint32_t most)
{
	char *end;
	const unsigned long v = strtoul(text, &end, 10);

	if (*text < '0' || *text > '9' || *end != 0 || v < 1 || v > most)
		die("%s %s: a number from 1 to %u", what, text, most);
	return (uint32_t)v;
}

static void
parse(struct run_options *o, int argc, char **argv)
{
	enum { NODES = 256, HOST, AGENT, WDIR, LABEL, TIMEOUT, HELP, VERSION, SERVE };
	static const struct option longs[] = {{"nodes", 1, NULL, NODES}, {"host", 1, NULL, HOST},
		{"agent", 1, NULL, AGENT}, {"wdir", 1, NULL, WDIR}, {"label", 0, NULL, LABEL},
		{"timeout", 1, NULL, TIMEOUT}, {"help", 0, NULL, HELP},
		{"version", 0, NULL, VERSION}, {"serve-a-host", 0, NULL, SERVE},
		{NULL, 0, NULL, 0}};
	int opt;

	/* "+": what follows the command is the command's */
	while ((opt = getopt_long(argc, argv, "+n:x:vh", longs, NULL)) != -1) {
		switch (opt) {
		case 'n':
			o->n = number(optarg, "-n", RANKS_MAX);
			break;
		case 'x':
			variable_add(o, optarg);
			break;
		case 'v':
			job.verbose = true;
			break;
		case NODES:
			o->nodes = optarg;
			break;
		case HOST:
			o->names = optarg;
			break;
		case AGENT:
			o->how = optarg;
			break;
		case WDIR:
			o->directory = optarg;
			break;
		case LABEL:
			job.label = true;
			break;
		case TIMEOUT:
			job.end_ms = clock_ms() + 1000ll * number(optarg, "--timeout", 1u << 30);
			break;
		case HELP:
		case 'h':
			fputs(usage_text, stdout);
			exit(0);
		case VERSION:
			printf("pmx-run %s\n", PMX_VERSION);
			exit(0);
		case SERVE:
			exit(agent_run());
		default:
			fputs("pmx-run --help says what there is\n", stderr);
			exit(2);
		}
	}
	if (optind >= argc)
		die("what is to be run? pmx-run --help");
	o->command = argv + optind;
	if (o->nodes != NULL && o->names != NULL)
		die("--nodes and --host: one of them");
}

/* Add the hosts of Slurm's allocation, which its own tool knows how to write out. Return false if
 * there are none, or that tool failed. */
static bool
slurm_hosts(struct hosts *h, char *error, uint32_t error_len)
{
	FILE *f = popen("scontrol show hostnames", "re");
	char line[256];
	bool good = f != NULL;

	while (good && fgets(line, sizeof(line), f) != NULL) {
		line[strcspn(line, "\n")] = 0;
		good = hosts_list(h, line, error, error_len);
	}
	const bool failed = f == NULL || pclose(f) != 0 || h->count == 0;

	if (failed && *error == 0)
		snprintf(error, error_len,
			"SLURM_JOB_NODELIST is set, but 'scontrol show hostnames' names no host: "
			"name them by --nodes or --host");
	return good && !failed;
}

static void
find_hosts(struct run_options *o)
{
	struct hosts *h = &job.hosts;
	char error[512] = "";
	bool good;

	if (o->nodes != NULL) {
		good = hosts_read(h, o->nodes, error, sizeof(error));
	} else if (o->names != NULL) {
		good = hosts_list(h, o->names, error, sizeof(error));
	} else if (getenv("SLURM_JOB_NODELIST") != NULL) {
		good = slurm_hosts(h, error, sizeof(error));
		if (o->how == NULL)
			o->how = "srun --overlap --nodes=1 --ntasks=1 --nodelist={}";
	} else {
		h->of = must(calloc(1, sizeof(*h->of)));
		h->of[0].name = must(strdup(""));
		h->count = 1;
		good = true;
		o->n = o->n != 0 ? o->n : 1;
	}
	if (good)
		good = hosts_place(h, o->n, error, sizeof(error));
	if (!good)
		die("%s", error);
	if (o->how == NULL)
		o->how = "ssh -o BatchMode=yes";
}

static void
pass_variables(struct run_options *o)
{
	/* those that were asked for come last, and count */
	char **asked = o->variables;
	const uint32_t n = o->variable_count;

	o->variables = NULL;
	o->variable_count = 0;
	for (char **e = environ; *e != NULL; e++) {
		if (strncmp(*e, "PMX_", 4) == 0 || strncmp(*e, "FI_", 3) == 0)
			variable_add(o, *e);
	}
	for (uint32_t i = 0; i < n; i++) {
		variable_add(o, asked[i]);
		free(asked[i]);
	}
	free(asked);
	if (o->variables == NULL)
		o->variables = must(calloc(1, sizeof(char *)));
}

static void
start_job(struct run_options *o)
{
	static char here[4096];

	for (uint32_t i = 0; i < job.hosts.count; i++)
		job.size += job.hosts.of[i].ranks;
	job.agents = must(calloc(job.hosts.count, sizeof(*job.agents)));
	job.ranks = must(calloc(job.size, sizeof(*job.ranks)));
	job.began_ms = clock_ms();
	while (job.number == 0) {
		if (getrandom(&job.number, sizeof(job.number), 0) != sizeof(job.number))
			die("random numbers: %s", strerror(errno));
	}
	if (o->directory == NULL && getcwd(here, sizeof(here)) != NULL)
		o->directory = here;
	for (uint32_t i = 0; i < job.hosts.count; i++) {
		struct run_agent *a = &job.agents[i];
		const struct host *h = &job.hosts.of[i];
		const struct launch l = {
			.number = job.number,
			.size = job.size,
			.first = h->first,
			.ranks = h->ranks,
			.directory = (char *)(uintptr_t)o->directory,
			.instance = h->instance != NULL ? h->instance : "",
			.variables = o->variables,
			.command = o->command,
		};
		uint32_t len;

		a->from = a->to = -1;
		if (h->ranks == 0)
			continue;
		uint8_t *body = launch_write(&l, &len);

		if (body == NULL)
			die("a command and variables of more than %u MiB", STREAM_MAX >> 20);
		agent_start(a, h, o->how);
		run_tell(a, STREAM_START, body, len);
		free(body);
	}
}

/* ------------------------------------------------------------------ the loop */

/* Wait for whatever comes first from the agents, from signals or from the clock, and take it.
 * Return false if no agent is left. */
static bool
run_turn(struct pollfd *fds, int signals)
{
	const int64_t left = job.end_ms - clock_ms();
	bool any = false;
	uint32_t n = 0;

	fds[n++] = (struct pollfd){signals, POLLIN, 0};
	for (uint32_t i = 0; i < job.hosts.count; i++) {
		struct run_agent *a = &job.agents[i];

		fds[n++] = (struct pollfd){a->from,
			(short)(POLLIN | (a->to >= 0 && a->head != NULL ? POLLOUT : 0)), 0};
		any |= a->from >= 0;
	}
	if (!any)
		return false;
	poll(fds, n,
		job.end_ms == 0 || job.code >= 0 ? -1
			: left > 0               ? (int)(left < 1000000 ? left : 1000000)
						 : 0);
	if (job.end_ms != 0 && job.code < 0 && clock_ms() >= job.end_ms) {
		fprintf(stderr, "pmx-run: the time is over (--timeout): all are ended\n");
		end_job(124);
	}
	if (fds[0].revents) {
		struct signalfd_siginfo info;

		if (read(signals, &info, sizeof(info)) == sizeof(info)) {
			/* twice: at once, also where an agent does not answer */
			for (uint32_t i = 0; job.code >= 0 && i < job.hosts.count; i++) {
				if (job.agents[i].from >= 0)
					kill(job.agents[i].pid, SIGKILL);
			}
			end_job(128 + (int)info.ssi_signo);
		}
	}
	for (uint32_t i = 0; i < job.hosts.count; i++) {
		struct run_agent *a = &job.agents[i];

		if (fds[1 + i].revents & POLLOUT)
			flush(a);
		if (fds[1 + i].revents & ~POLLOUT)
			run_hear(a);
	}
	return true;
}

static void
job_free(struct run_options *o)
{
	for (uint32_t i = 0; i < job.hosts.count; i++) {
		struct run_agent *a = &job.agents[i];

		stream_free(&a->in);
		while (a->head != NULL) {
			struct output_chunk *c = a->head;

			a->head = c->next;
			free(c);
		}
	}
	free(job.agents);
	free(job.ranks);
	records_free(&job.put);
	hosts_free(&job.hosts);
	for (uint32_t i = 0; i < o->variable_count; i++)
		free(o->variables[i]);
	free(o->variables);
}

int
main(int argc, char **argv)
{
	struct run_options o = {0};
	sigset_t set;

	parse(&o, argc, argv);
	find_hosts(&o);
	pass_variables(&o);
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	const int signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);

	start_job(&o);
	struct pollfd *fds = must(calloc(1 + job.hosts.count, sizeof(*fds)));

	while (run_turn(fds, signals))
		;
	free(fds);
	job_free(&o);
	return job.code < 0 ? 0 : job.code;
}
