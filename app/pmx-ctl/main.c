/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmx-ctl looks at a running pmx-dpdk by its telemetry socket, and at the host that it runs on.
 * Options and commands; each command is in a file of its own (see ctl.h).
 */
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

static const char usage_head[] =
	"Usage: pmx-ctl [--instance NAME] [--json] COMMAND [options]\n"
	"\n"
	"Looks at a running pmx-dpdk and at the host that it runs on, and stops jobs on the "
	"network.\n"
	"\n";

static const char usage_tail[] =
	"\n"
	"  --instance NAME  node.name of the primary; needed only where several run\n"
	"  --json           for programs\n"
	"  --help, --version\n"
	"\n"
	"Exit code: 0, 1 after an error or if doctor has a FAIL, 2 for a wrong command line.\n";

/* ------------------------------------------------------------------ commands */

/* A command: it asks a primary (show), or needs none (run). What has neither is in jobs.c. */
static const struct ctl_command {
	const char *name;
	int (*show)(struct ctl_session *s, const struct ctl_options *o);
	int (*run)(const struct ctl_options *o);
	const char *help; /* its lines of --help */
} commands[] = {
	{
		.name = "stat",
		.show = show_stat,
		.help = "  stat             counters and state of the node: name, value, unit, "
			"meaning\n"
			"    --all          also those that are zero\n"
			"    --watch SECS   every SECS seconds, how much they grow a second; ends "
			"with ^C\n",
	},
	{
		.name = "top",
		.run = show_top,
		.help = "  top              what the node does just now: traffic, peers, contexts, "
			"one of them\n"
			"    --watch SECS   so often (1)\n"
			"    --batch        print it; --times N, and end\n",
	},
	{
		.name = "peers",
		.show = show_peers,
		.help = "  peers            paths to other nodes\n"
			"    --all          what went over them: frames, losses, round trips\n",
	},
	{
		.name = "ping",
		.help = "  ping NODE        does it answer, how fast, and if not, why? A number, "
			"name or address\n"
			"    --size BYTES   of a message (8); --times N (5); --watch SECS between "
			"them (0.2)\n"
			"    --context N    also whether its context N is open\n",
	},
	{
		.name = "capture",
		.show = capture,
		.help = "  capture -w FILE  frames of the node, with times, directions and why "
			"they were dropped (pcapng)\n"
			"    --peer NODE    only those from and to it; --context N; -c N: so many, "
			"and end\n",
	},
	{
		.name = "links",
		.show = show_links,
		.help = "  links            links of this node: traffic now, and which reach peers "
			"that have several\n",
	},
	{
		.name = "contexts",
		.show = show_contexts,
		.help = "  contexts         open endpoints of this node\n",
	},
	{
		.name = "memory",
		.show = show_memory,
		.help = "  memory           remote memory: transfers, pins, and what others may "
			"reach\n",
	},
	{
		.name = "groups",
		.show = show_groups,
		.help = "  groups           members of groups here: state, barriers, locks, shared "
			"regions\n",
	},
	{.name = "drops", .show = show_drops, .help = "  drops            why frames were lost\n"},
	{
		.name = "jobs",
		.run = show_jobs,
		.help = "  jobs             jobs with contexts here: PMX_JOB of their processes\n",
	},
	{
		.name = "freeze",
		.help = "  freeze JOB       stops a job on the network: its peers see delay, no "
			"error\n"
			"    --drain MS     how long what it has under way may take (50)\n"
			"    --hold         until this program ends; otherwise until thaw\n"
			"    --processes    stops its processes as well, by SIGSTOP, until it goes "
			"on\n",
	},
	{
		.name = "park",
		.help = "  park JOB         stops it, and gives its packet buffers to others; "
			"options as of freeze\n",
	},
	{
		.name = "load",
		.help = "  load JOB         gives it packet buffers again: it stays stopped\n",
	},
	{
		.name = "thaw",
		.help = "  thaw JOB         lets it go on, after loading it if it is parked\n",
	},
	{
		.name = "gang",
		.run = serve_gang,
		.help = "  gang             reads 'freeze JOB [DRAIN_US [processes] [parked]]', "
			"'hold ...', 'load JOB', 'thaw\n"
			"                   JOB' and 'state JOB', a line each: for pmx-gang; what "
			"it holds goes on when it ends\n",
	},
	{
		.name = "reload",
		.show = show_reload,
		.help = "  reload           takes [nodes] of the primary's configuration, and the "
			"files of [security], as\n"
			"                   they are now\n",
	},
	{
		.name = "doctor",
		.run = doctor,
		.help = "  doctor           is this host ready, and is what runs well? Needs no "
			"running primary\n",
	},
	{
		.name = "key",
		.help = "  key WHAT         keys of nodes, and certificates of them; needs no "
			"running primary\n"
			"    generate FILE  a new secret; --kind node|authority|cluster (node)\n"
			"    public FILE    its public key\n"
			"    certify PUBLIC --authority FILE --node N -w FILE  a certificate for a "
			"node's public key\n"
			"    --name NAME    of the node; --days N (30)\n"
			"    show FILE      what it is; with --authority KEY, whether that one "
			"signed it\n"
			"    revoke FILE PUBLIC  adds a key to a list of those that are revoked\n",
	},
	{
		.name = "plan",
		.run = show_plan,
		.help = "  plan             how a collective would go on a network; needs no "
			"running primary\n"
			"    --topology FILE --kind gather|scatter|bcast|reduce|allgather|alltoall|"
			"allreduce|reduce_scatter|barrier\n"
			"    --size BYTES   of a rank's block, or of the vector (0; with K, M, G)\n"
			"    --root RANK    or the name of its host (0)\n"
			"    --ranks-per-host N  (1), next to each other\n"
			"    --generator G  this one's plan, not the fastest one\n"
			"    --steps RANK   also what this rank does\n"
			"    --save FILE    write the plan, for --plan and for PMX_COLL_PLANS\n"
			"    --plan FILE    in place of --kind: one that was saved\n",
	},
	{
		.name = "topology",
		.run = show_topology,
		.help = "  topology         what a topology file describes, as a tree\n"
			"    --topology FILE\n"
			"    --svg FILE     the same as a picture\n",
	},
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void
print_usage(FILE *f)
{
	fputs(usage_head, f);
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fputs(commands[i].help, f);
	fputs(usage_tail, f);
}

static int
ctl_run(const struct ctl_command *c, const struct ctl_options *o)
{
	char name[256], error[CTL_ERROR_MAX];
	struct ctl_session s;

	if (c->run != NULL)
		return c->run(o);
	if (instance_pick(o->instance, name, sizeof(name), error) != 0 ||
		session_open(&s, name, error) != 0)
		return complain("%s", error);
	int result = c->show(&s, o);

	session_close(&s);
	return result;
}

static int
wrong(const char *what, const char *which, const char *allowed)
{
	complain("%s '%s': %s", what, which, allowed);
	fputs("Try 'pmx-ctl --help'.\n", stderr);
	return 2;
}

static int
no_command(const char *name)
{
	if (strcmp(name, "ping") == 0)
		return wrong("command", name, "which node? ping NODE");
	char *names = text("there are");

	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		char *longer = text("%s%s%s", names, i > 0 ? ", " : " ", commands[i].name);

		free(names);
		names = longer;
	}
	int result = wrong("command", name, names);

	free(names);
	return result;
}

static int
run_named(const char *name, const struct ctl_options *o)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (strcmp(commands[i].name, name) != 0 ||
			(commands[i].run == NULL && commands[i].show == NULL))
			continue;
		if (o->peer != NULL && commands[i].show != capture)
			return wrong("command", name, "--peer is an option of capture");
		if ((o->all && commands[i].show != show_stat && commands[i].show != show_peers) ||
			(o->watch_s > 0 && commands[i].show != show_stat &&
				commands[i].run != show_top) ||
			(o->batch && commands[i].run != show_top) ||
			(o->times > 0 && commands[i].run != show_top &&
				commands[i].show != capture))
			return wrong("command", name,
				"--all is an option of stat and peers, --watch of stat and top, "
				"--batch and --times of top");
		return ctl_run(&commands[i], o);
	}
	return no_command(name);
}

/* ------------------------------------------------------------------ options */

static int
read_seconds(const char *value, double *out)
{
	char *end;
	double v = strtod(value, &end);

	if (end == value || *end || !(v >= 0.1 && v <= 86400))
		return wrong("--watch", value, "not a number of seconds from 0.1 to 86400");
	*out = v;
	return 0;
}

static int
read_drain(const char *value, uint32_t *us)
{
	char *end;
	double ms = strtod(value, &end);

	if (end == value || *end || !(ms >= 0.001 && ms <= 60000))
		return wrong("--drain", value, "not a number of milliseconds from 0.001 to 60000");
	*us = (uint32_t)(ms * 1000);
	return 0;
}

static const struct option longs[] = {{"instance", required_argument, NULL, 'i'},
	{"json", no_argument, NULL, 'j'}, {"all", no_argument, NULL, 'a'},
	{"watch", required_argument, NULL, 'w'}, {"help", no_argument, NULL, 'h'},
	{"version", no_argument, NULL, 'v'}, {"topology", required_argument, NULL, 't'},
	{"kind", required_argument, NULL, 'k'}, {"root", required_argument, NULL, 'r'},
	{"size", required_argument, NULL, 's'}, {"generator", required_argument, NULL, 'g'},
	{"ranks-per-host", required_argument, NULL, 'n'}, {"steps", required_argument, NULL, 'S'},
	{"svg", required_argument, NULL, 'V'}, {"save", required_argument, NULL, 'W'},
	{"plan", required_argument, NULL, 'L'}, {"drain", required_argument, NULL, 'd'},
	{"context", required_argument, NULL, 'x'}, {"peer", required_argument, NULL, 'p'},
	{"count", required_argument, NULL, 'c'}, {"write", required_argument, NULL, 'w'},
	{"batch", no_argument, NULL, 'b'}, {"times", required_argument, NULL, 'T'},
	{"hold", no_argument, NULL, 'H'}, {"processes", no_argument, NULL, 'P'},
	{"authority", required_argument, NULL, 'A'}, {"node", required_argument, NULL, 'N'},
	{"name", required_argument, NULL, 'M'}, {"days", required_argument, NULL, 'D'}, {0}};

/* Return where the text of an option goes, or NULL if it is none that has a text. */
static const char **
ctl_place_of(struct ctl_options *o, int option)
{
	switch (option) {
	case 'i':
		return &o->instance;
	case 'x':
		return &o->context;
	case 'p':
		return &o->peer;
	case 'w': /* seconds, unless the command is capture or key */
		return &o->file;
	case 't':
		return &o->plan.topology;
	case 'k':
		return &o->plan.kind;
	case 'r':
		return &o->plan.root;
	case 's':
		return &o->plan.size;
	case 'g':
		return &o->plan.generator;
	case 'n':
		return &o->plan.ranks_per_host;
	case 'S':
		return &o->plan.steps;
	case 'W':
		return &o->plan.save;
	case 'L':
		return &o->plan.load;
	case 'V':
		return &o->plan.svg;
	case 'A':
		return &o->key.authority;
	case 'N':
		return &o->key.node;
	case 'M':
		return &o->key.name;
	case 'D':
		return &o->key.days;
	default:
		return NULL;
	}
}

/* Set an option. Return 0; or, if the program is to end, its exit code + 1. */
static int
set_option(struct ctl_options *o, int option, const char *value)
{
	const char **place = ctl_place_of(o, option);

	if (place != NULL) {
		*place = value;
		return 0;
	}
	switch (option) {
	case 'j':
		o->json = true;
		return 0;
	case 'a':
		o->all = true;
		return 0;
	case 'd':
		return read_drain(value, &o->drain_us) != 0 ? 2 + 1 : 0;
	case 'b':
		o->batch = true;
		return 0;
	case 'c':
	case 'T':
		o->times = (unsigned)strtoul(value, NULL, 10);
		return o->times > 0
			? 0
			: wrong(option == 'c' ? "-c" : "--times", value, "not a number from 1 on") +
				1;
	case 'H':
		o->hold = true;
		return 0;
	case 'P':
		o->processes = true;
		return 0;
	case 'v':
		printf("pmx-ctl %s\n", PMX_VERSION);
		return 0 + 1;
	case 'h':
		print_usage(stdout);
		return 0 + 1;
	default:
		print_usage(stderr);
		return 2 + 1;
	}
}

int
main(int argc, char **argv)
{
	struct ctl_options o = {0};
	int option;

	while ((option = getopt_long(argc, argv, "i:jaw:c:h", longs, NULL)) != -1) {
		int ends = set_option(&o, option, optarg);

		if (ends != 0)
			return ends - 1;
	}
	const char *const name = optind < argc ? argv[optind] : "";
	const bool key = strcmp(name, "key") == 0;

	if (o.file != NULL && !key && strcmp(name, "capture") != 0 &&
		read_seconds(o.file, &o.watch_s) != 0)
		return 2;
	const struct job_command *job = job_command(name);

	if ((o.drain_us != 0 || o.hold || o.processes) && (job == NULL || !job->stops))
		return wrong("command", name,
			"--drain, --hold and --processes are options of freeze and park");
	if (!key && (o.key.authority || o.key.node || o.key.name || o.key.days))
		return wrong("command", name,
			"--authority, --node, --name and --days are options of key");
	if (key)
		return key_command(&o, argc - optind - 1, argv + optind + 1);
	if (job != NULL && optind >= argc - 2)
		return change_job(&o, job, argv[optind + 1]);
	if (optind == argc - 2 && strcmp(name, "ping") == 0)
		return ping_node(&o, argv[optind + 1]);
	if (optind != argc - 1) {
		print_usage(stderr);
		return 2;
	}
	/* if a primary ends while it is asked, that is an error, and must not end this program */
	signal(SIGPIPE, SIG_IGN);
	return run_named(name, &o);
}
