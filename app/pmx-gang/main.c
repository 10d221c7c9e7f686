/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmx-gang stops jobs and lets them go on at all their hosts: gang scheduling on the network
 * (PM-PREEMPT). On each host runs one 'pmx-ctl gang', which takes commands by its standard input.
 *
 * Design notes
 * 1. Each host does what it is told as soon as it hears of it, and no host waits for another one:
 *    nothing depends on an order. That all hear it at once saves time only.
 * 2. alternate holds jobs only as long as its connections last, so when it ends in any way, all go
 *    on.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pmx-run/launch.h"

#define JOBS_MAX  64
#define ANSWER_MS 70000 /* the longest drain, and some */
#define NOTED     65536 /* switches of which the times are kept */

static const char usage[] =
	"Usage: pmx-gang [options] freeze JOB | thaw JOB | switch OUT IN | alternate JOB JOB ...\n"
	"\n"
	"Stops jobs and lets them go on at all their hosts. A job is the number in PMX_JOB of its "
	"processes.\n"
	"\n"
	"  freeze JOB      stop it, until thaw\n"
	"  thaw JOB        let it go on\n"
	"  switch OUT IN   stop one, then let the other one go on\n"
	"  alternate JOB JOB ...\n"
	"                  let them run in turns, until all but one have ended; when this program\n"
	"                  ends, all go on\n"
	"\n"
	"  --nodes FILE    hosts, a line each: HOST [instance=NAME]; NAME is that of its pmx-dpdk\n"
	"  --host A,B      hosts (this one)\n"
	"  --agent COMMAND how to run a command on a host, whose name is appended; \"{}\" stands "
	"for it\n"
	"                  elsewhere (ssh -o BatchMode=yes)\n"
	"  --slice MS      alternate: how long a turn is (100)\n"
	"  --seconds S     alternate: end after so long\n"
	"  --drain MS      how long what is under way may take when a job stops (50)\n"
	"  --processes     stop a job's processes as well, by SIGSTOP\n"
	"  --park          park what stops: its packet buffers are for the other jobs, so that\n"
	"                  limits.resident may be less than the contexts of all jobs together\n"
	"  --json          for programs\n"
	"  -v              say what each host answers\n"
	"\n"
	"Exit code: 0, 1 if a host did not do it, 2 for a wrong command line.\n";

struct gang_host {
	const struct host *host;
	pid_t pid;
	int to, from;
	char line[256]; /* being read */
	size_t len;
	bool awaited; /* its answer */
	bool lost;
};

static struct {
	struct hosts hosts;
	struct gang_host *at;
	const char *how;
	uint32_t drain_us;
	bool json, verbose, failed, processes, parks;
} gang = {.how = "ssh -o BatchMode=yes"};

/* The answers of all hosts to one command, added up. */
struct answers {
	uint32_t contexts, settled;
	double ms; /* until the last one */
};

static volatile sig_atomic_t interrupted;

static void
interrupt(int signal)
{
	(void)signal;
	interrupted = 1;
}

static int64_t
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

__attribute__((format(printf, 2, 3))) static _Noreturn void
die(int code, const char *format, ...)
{
	va_list args;

	fputs("pmx-gang: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(code);
}

static const char *
gang_name_of(const struct gang_host *h)
{
	return *h->host->name != 0 ? h->host->name : "this host";
}

/* ------------------------------------------------------------------ hosts */

static void
lose(struct gang_host *h, const char *why)
{
	fprintf(stderr, "pmx-gang: %s: %s\n", gang_name_of(h), why);
	h->lost = gang.failed = true;
	h->awaited = false;
	close(h->to);
	close(h->from);
}

/* pmx-ctl beside this program, for this host. */
static const char *
own_ctl(void)
{
	static char path[4096];
	const ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - sizeof("pmx-ctl"));
	char *slash = n > 0 ? memrchr(path, '/', (size_t)n) : NULL;

	if (slash == NULL)
		return "pmx-ctl";
	strcpy(slash + 1, "pmx-ctl");
	return access(path, X_OK) == 0 ? path : "pmx-ctl";
}

static void
gang_begin(struct gang_host *h, const struct host *host)
{
	const char *there = *host->name != 0 ? getenv("PMX_CTL") : NULL;
	const char *program[] = {there != NULL ? there : own_ctl(), "gang", NULL, NULL, NULL};
	int to[2], from[2];

	if (host->instance != NULL) {
		program[1] = "--instance";
		program[2] = host->instance;
		program[3] = "gang";
	}
	char **words = hosts_command(gang.how, host, program);

	if (words == NULL || pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
		die(1, "%s", strerror(errno));
	h->host = host;
	h->pid = fork();
	if (h->pid < 0)
		die(1, "%s: %s", words[0], strerror(errno));
	if (h->pid == 0) {
		/* ^C is for pmx-gang, whose end its hosts see by their input */
		setpgid(0, 0);
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		execvp(words[0], words);
		fprintf(stderr, "pmx-gang: %s: %s\n", words[0], strerror(errno));
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	h->to = to[1];
	h->from = from[0];
	h->awaited = true; /* "ready" */
	for (char **w = words; *w != NULL; w++)
		free(*w);
	free(words);
}

static void
gang_tell(struct gang_host *h, const char *line)
{
	const size_t len = strlen(line);

	if (h->lost)
		return;
	if (write(h->to, line, len) == (ssize_t)len)
		h->awaited = true;
	else
		lose(h, "its pmx-ctl has ended");
}

/* Take one line that a host answered, and add its numbers to the sum. Any other line than an answer
 * is an error, which is printed. */
static void
answered(struct gang_host *h, struct answers *sum)
{
	unsigned contexts, settled;
	long long us;

	h->awaited = false;
	if (gang.verbose)
		fprintf(stderr, "%s: %s\n", gang_name_of(h), h->line);
	if (sscanf(h->line, "ok %u %u %lld", &contexts, &settled, &us) == 3) {
		sum->contexts += contexts;
		sum->settled += settled;
	} else if (strcmp(h->line, "ready") != 0) {
		fprintf(stderr, "pmx-gang: %s: %s\n", gang_name_of(h), h->line);
		gang.failed = true;
	}
}

static void
gang_hear(struct gang_host *h, struct answers *sum)
{
	const ssize_t n = read(h->from, h->line + h->len, sizeof(h->line) - 1 - h->len);
	char *end;

	if (n <= 0 || h->len + (size_t)n == sizeof(h->line) - 1) {
		lose(h,
			"its pmx-ctl has ended: is it installed there (PMX_CTL), and does a "
			"primary run?");
		return;
	}
	h->len += (size_t)n;
	h->line[h->len] = 0;
	while ((end = strchr(h->line, '\n')) != NULL) {
		*end = 0;
		answered(h, sum);
		h->len -= (size_t)(end + 1 - h->line);
		memmove(h->line, end + 1, h->len + 1);
	}
}

/* Wait for an answer of each host that owes one. */
static void
await(struct answers *sum)
{
	const int64_t until = now_us() + ANSWER_MS * 1000ll;

	for (;;) {
		struct pollfd p[gang.hosts.count];
		uint32_t n = 0, index[gang.hosts.count];

		for (uint32_t i = 0; i < gang.hosts.count; i++) {
			if (!gang.at[i].awaited)
				continue;
			p[n] = (struct pollfd){.fd = gang.at[i].from, .events = POLLIN};
			index[n++] = i;
		}
		if (n == 0)
			return;
		if (poll(p, n, 1000) < 0 && errno != EINTR)
			die(1, "poll: %s", strerror(errno));
		for (uint32_t i = 0; i < n; i++) {
			if (p[i].revents != 0)
				gang_hear(&gang.at[index[i]], sum);
		}
		for (uint32_t i = 0; now_us() > until && i < gang.hosts.count; i++) {
			if (gang.at[i].awaited)
				lose(&gang.at[i], "does not answer");
		}
	}
}

/* Send one command for a job to all hosts, and return their answers. */
static struct answers
all(const char *verb, uint32_t job)
{
	const int64_t start = now_us();
	struct answers sum = {.contexts = 0};
	char line[64];

	if (*verb != 't')
		snprintf(line, sizeof(line), "%s %u %u%s%s\n", verb, job, gang.drain_us,
			gang.processes ? " processes" : "", gang.parks ? " parked" : "");
	else
		snprintf(line, sizeof(line), "%s %u\n", verb, job);
	for (uint32_t i = 0; i < gang.hosts.count; i++)
		gang_tell(&gang.at[i], line);
	await(&sum);
	sum.ms = (double)(now_us() - start) / 1e3;
	return sum;
}

/* ------------------------------------------------------------------ commands */

static void
say(const char *what, uint32_t job, const struct answers *a)
{
	if (gang.json)
		printf("{\"what\": \"%s\", \"job\": %u, \"hosts\": %u, \"contexts\": %u, "
		       "\"settled\": %u, \"ms\": %.3f}\n",
			what, job, gang.hosts.count, a->contexts, a->settled, a->ms);
	else
		printf("job %u: %u contexts on %u hosts %s, %u settled, after %.2f ms\n", job,
			a->contexts, gang.hosts.count, what, a->settled, a->ms);
	fflush(stdout);
}

static void
freeze(uint32_t job)
{
	const struct answers a = all("freeze", job);

	say("stopped", job, &a);
}

static void
thaw(uint32_t job)
{
	const struct answers a = all("thaw", job);

	say("started", job, &a);
}

static int
gang_compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct turns {
	uint32_t jobs[JOBS_MAX];
	bool seen[JOBS_MAX], ended[JOBS_MAX]; /* seen: it had contexts */
	unsigned count, left;
	double stop_ms[NOTED], start_ms[NOTED];
	uint64_t switches;
};

/* Note whether job number k has begun and ended, which shows in how many contexts the hosts say it
 * has. */
static void
gang_look(struct turns *t, unsigned k, uint32_t contexts)
{
	t->seen[k] |= contexts > 0;
	if (t->seen[k] && contexts == 0 && !t->ended[k] && !gang.failed) {
		t->ended[k] = true;
		t->left--;
		if (!gang.json)
			printf("job %u has ended\n", t->jobs[k]);
	}
}

static unsigned
next_of(const struct turns *t, unsigned k)
{
	do
		k = (k + 1) % t->count;
	while (t->ended[k]);
	return k;
}

static void
summary(struct turns *t, double seconds)
{
	const size_t n = t->switches < NOTED ? t->switches : NOTED;

	if (n == 0)
		return;
	qsort(t->stop_ms, n, sizeof(double), gang_compare);
	qsort(t->start_ms, n, sizeof(double), gang_compare);
	printf(gang.json
			? "{\"switches\": %llu, \"seconds\": %.1f, \"stop_ms_p50\": %.3f, "
			  "\"stop_ms_p99\": %.3f, \"start_ms_p50\": %.3f, \"start_ms_p99\": %.3f}\n"
			: "%llu switches in %.1f s; to stop a job took p50 %.2f ms, p99 %.2f ms; "
			  "to start one %.2f, %.2f\n",
		(unsigned long long)t->switches, seconds, t->stop_ms[n / 2],
		t->stop_ms[n * 99 / 100], t->start_ms[n / 2], t->start_ms[n * 99 / 100]);
}

static void
pause_until(int64_t at)
{
	while (!interrupted && now_us() < at) {
		const int64_t left = at - now_us();
		const struct timespec t = {left / 1000000, left % 1000000 * 1000};

		if (left > 0)
			nanosleep(&t, NULL);
	}
}

static void
alternate(struct turns *t, uint32_t slice_us, double seconds)
{
	const int64_t start = now_us();
	unsigned runs = 0;

	t->left = t->count;
	for (unsigned k = 1; k < t->count; k++)
		gang_look(t, k, all("hold", t->jobs[k]).contexts);
	gang_look(t, 0, all("thaw", t->jobs[0]).contexts);
	while (!interrupted && !gang.failed && t->left > 1 &&
		(seconds <= 0 || (double)(now_us() - start) < seconds * 1e6)) {
		const unsigned next = next_of(t, runs);

		pause_until(now_us() + slice_us);
		const struct answers out = all("hold", t->jobs[runs]);
		const struct answers in = all("thaw", t->jobs[next]);

		if (t->switches < NOTED) {
			t->stop_ms[t->switches] = out.ms;
			t->start_ms[t->switches] = in.ms;
		}
		t->switches++;
		gang_look(t, runs, out.contexts);
		gang_look(t, next, in.contexts);
		runs = next;
		if (t->ended[runs] && t->left > 0)
			runs = next_of(t, runs);
	}
	for (unsigned k = 0; k < t->count; k++)
		all("thaw", t->jobs[k]);
	summary(t, (double)(now_us() - start) / 1e6);
}

/* ------------------------------------------------------------------ command line */

static double
number(const char *text, const char *what, double least, double most)
{
	char *end;
	const double v = strtod(text, &end);

	if (end == text || *end != 0 || !(v >= least && v <= most))
		die(2, "%s %s: a number from %g to %g", what, text, least, most);
	return v;
}

static uint32_t
job_of(const char *text)
{
	const double v = number(text, "job", 1, UINT32_MAX);

	if (v != (double)(uint32_t)v)
		die(2, "job %s: a whole number", text);
	return (uint32_t)v;
}

static void
connect_all(void)
{
	struct answers unused = {.contexts = 0};

	gang.at = calloc(gang.hosts.count, sizeof(*gang.at));
	if (gang.at == NULL)
		die(1, "out of memory");
	for (uint32_t i = 0; i < gang.hosts.count; i++)
		gang_begin(&gang.at[i], &gang.hosts.of[i]);
	await(&unused);
}

/* Close the inputs of the hosts' programs, and wait until these have ended. */
static void
leave_all(void)
{
	for (uint32_t i = 0; i < gang.hosts.count; i++) {
		if (!gang.at[i].lost) {
			close(gang.at[i].to);
			close(gang.at[i].from);
		}
	}
	for (uint32_t i = 0; i < gang.hosts.count; i++)
		waitpid(gang.at[i].pid, NULL, 0);
}

/* The arguments of the command line that struct gang does not have. */
struct gang_command_line {
	const char *file, *list; /* of hosts */
	double slice_ms, seconds;
};

/* Take one option. Ends the program after --help, --version, or one that there is not. */
static void
take_option(struct gang_command_line *c, int option)
{
	switch (option) {
	case 'n':
		c->file = optarg;
		break;
	case 'h':
		c->list = optarg;
		break;
	case 'a':
		gang.how = optarg;
		break;
	case 's':
		c->slice_ms = number(optarg, "--slice", 1, 3600000);
		break;
	case 't':
		c->seconds = number(optarg, "--seconds", 0.001, 1e9);
		break;
	case 'd':
		gang.drain_us = (uint32_t)(1000 * number(optarg, "--drain", 0.001, 60000));
		break;
	case 'j':
		gang.json = true;
		break;
	case 'P':
		gang.processes = true;
		break;
	case 'p':
		gang.parks = true;
		break;
	case 'v':
		gang.verbose = true;
		break;
	case 'V':
		printf("pmx-gang %s\n", PMX_VERSION);
		exit(0);
	default:
		fputs(usage, optopt == 0 ? stdout : stderr);
		exit(optopt == 0 ? 0 : 2);
	}
}

/* Return whether the words are a command with its jobs. */
static bool
is_command(char **words, int n)
{
	if (n < 2)
		return false;
	if (strcmp(words[0], "freeze") == 0 || strcmp(words[0], "thaw") == 0)
		return n == 2;
	if (strcmp(words[0], "switch") == 0)
		return n == 3;
	return strcmp(words[0], "alternate") == 0 && n >= 3 && n <= JOBS_MAX + 1;
}

/* Find out which hosts are meant: those of a file or a list, or this one. */
static void
take_hosts(const struct gang_command_line *c)
{
	static struct host here = {.name = (char *)""};
	char error[512];

	if (c->file == NULL && c->list == NULL) {
		here.instance = getenv("PMX_INSTANCE");
		gang.hosts = (struct hosts){&here, 1};
		return;
	}
	if (c->file != NULL ? !hosts_read(&gang.hosts, c->file, error, sizeof(error))
			    : !hosts_list(&gang.hosts, c->list, error, sizeof(error)))
		die(2, "%s", error);
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {{"nodes", 1, NULL, 'n'}, {"host", 1, NULL, 'h'},
		{"agent", 1, NULL, 'a'}, {"slice", 1, NULL, 's'}, {"seconds", 1, NULL, 't'},
		{"drain", 1, NULL, 'd'}, {"json", 0, NULL, 'j'}, {"processes", 0, NULL, 'P'},
		{"park", 0, NULL, 'p'}, {"help", 0, NULL, '?'}, {"version", 0, NULL, 'V'}, {0}};
	static struct turns turns;
	struct gang_command_line c = {.slice_ms = 100};
	int option;

	while ((option = getopt_long(argc, argv, "v", longs, NULL)) != -1)
		take_option(&c, option);
	char **words = argv + optind;
	const int n = argc - optind;

	if (!is_command(words, n)) {
		fputs(usage, stderr);
		return 2;
	}
	for (int i = 1; i < n; i++)
		turns.jobs[i - 1] = job_of(words[i]);
	turns.count = (unsigned)n - 1;
	take_hosts(&c);
	const struct sigaction act = {.sa_handler = interrupt};

	sigaction(SIGINT, &act, NULL);
	sigaction(SIGTERM, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
	connect_all();
	if (gang.failed) {
		leave_all();
		return 1;
	}
	if (strcmp(words[0], "alternate") == 0) {
		alternate(&turns, (uint32_t)(c.slice_ms * 1000), c.seconds);
	} else if (strcmp(words[0], "thaw") == 0) {
		thaw(turns.jobs[0]);
	} else {
		freeze(turns.jobs[0]);
		if (n == 3)
			thaw(turns.jobs[1]);
	}
	leave_all();
	return gang.failed ? 1 : 0;
}
