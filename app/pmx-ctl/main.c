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

static const char usage[] =
	"Usage: pmx-ctl [--instance NAME] [--json] COMMAND [options]\n"
	"\n"
	"Looks at a running pmx-dpdk and at the host that it runs on, and stops jobs on the "
	"network.\n"
	"\n"
	"  stat             counters and state of the node: name, value, unit, meaning\n"
	"    --all          also those that are zero\n"
	"    --watch SECS   every SECS seconds, how much they grow a second; ends with ^C\n"
	"  peers            paths to other nodes\n"
	"  links            links of this node: traffic now, and which reach peers that have "
	"several\n"
	"  contexts         open endpoints of this node\n"
	"  memory           remote memory: transfers, pins, and what others may reach\n"
	"  groups           members of groups here: state, barriers, locks, shared regions\n"
	"  drops            why frames were lost\n"
	"  jobs             jobs with contexts here: PMX_JOB of their processes\n"
	"  freeze JOB       stops a job on the network: its peers see delay, no error\n"
	"    --drain MS     how long what it has under way may take (50)\n"
	"    --hold         until this program ends; otherwise until thaw\n"
	"    --processes    stops its processes as well, by SIGSTOP, until it goes on\n"
	"  park JOB         stops it, and gives its packet buffers to others; options as of "
	"freeze\n"
	"  load JOB         gives it packet buffers again: it stays stopped\n"
	"  thaw JOB         lets it go on, after loading it if it is parked\n"
	"  gang             reads 'freeze JOB [DRAIN_US [processes] [parked]]', 'hold ...', 'load "
	"JOB', 'thaw\n"
	"                   JOB' and 'state JOB', a line each: for pmx-gang; what it holds goes on "
	"when it ends\n"
	"  reload           takes [nodes] of the primary's configuration as it is now\n"
	"  doctor           is this host ready, and is what runs well? Needs no running primary\n"
	"  plan             how a collective would go on a network; needs no running primary\n"
	"    --topology FILE --kind gather|scatter|bcast|reduce|allgather|alltoall|allreduce|"
	"reduce_scatter|barrier\n"
	"    --size BYTES   of a rank's block, or of the vector (0; with K, M, G)\n"
	"    --root RANK    or the name of its host (0)\n"
	"    --ranks-per-host N  (1), next to each other\n"
	"    --generator G  this one's plan, not the fastest one\n"
	"    --steps RANK   also what this rank does\n"
	"    --save FILE    write the plan, for --plan and for PMX_COLL_PLANS\n"
	"    --plan FILE    in place of --kind: one that was saved\n"
	"  topology         what a topology file describes, as a tree\n"
	"    --topology FILE\n"
	"    --svg FILE     the same as a picture\n"
	"\n"
	"  --instance NAME  node.name of the primary; needed only where several run\n"
	"  --json           for programs\n"
	"  --help, --version\n"
	"\n"
	"Exit code: 0, 1 after an error or if doctor has a FAIL, 2 for a wrong command line.\n";

/* ------------------------------------------------------------------ commands */

static const struct command {
	const char *name;
	int (*show)(struct session *s, const struct options *o);
} commands[] = {
	{"stat", show_stat}, {"peers", show_peers}, {"links", show_links},
	{"contexts", show_contexts}, {"memory", show_memory}, {"groups", show_groups},
	{"reload", show_reload}, {"drops", show_drops}, {"doctor", NULL}, {"plan", NULL},
	{"topology", NULL}, {"jobs", NULL}, {"gang", NULL}, /* need no session */
};
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static int
run(const struct command *c, const struct options *o)
{
	char name[256], error[CTL_ERROR_MAX];
	struct session s;

	if (strcmp(c->name, "plan") == 0)
		return show_plan(&o->plan, o->json);
	if (strcmp(c->name, "topology") == 0)
		return show_topology(&o->plan, o->json);
	if (strcmp(c->name, "jobs") == 0)
		return show_jobs(o);
	if (strcmp(c->name, "gang") == 0)
		return serve_gang(o);
	if (c->show == NULL)
		return doctor(o);
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

static int
run_named(const char *name, const struct options *o)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++) {
		if (strcmp(commands[i].name, name) != 0)
			continue;
		if ((o->all || o->watch_s > 0) && commands[i].show != show_stat)
			return wrong("command", name, "--all and --watch are options of stat");
		return run(&commands[i], o);
	}
	return wrong("command", name,
		"there are stat, peers, links, contexts, memory, groups, drops, jobs, freeze, "
		"park, load, thaw, gang, reload, doctor, plan, topology");
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {{"instance", required_argument, NULL, 'i'},
		{"json", no_argument, NULL, 'j'}, {"all", no_argument, NULL, 'a'},
		{"watch", required_argument, NULL, 'w'}, {"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'}, {"topology", required_argument, NULL, 't'},
		{"kind", required_argument, NULL, 'k'}, {"root", required_argument, NULL, 'r'},
		{"size", required_argument, NULL, 's'}, {"generator", required_argument, NULL, 'g'},
		{"ranks-per-host", required_argument, NULL, 'n'},
		{"steps", required_argument, NULL, 'S'}, {"svg", required_argument, NULL, 'V'},
		{"save", required_argument, NULL, 'W'}, {"plan", required_argument, NULL, 'L'},
		{"drain", required_argument, NULL, 'd'}, {"hold", no_argument, NULL, 'H'},
		{"processes", no_argument, NULL, 'P'}, {0}};
	struct options o = {0};
	int opt;

	while ((opt = getopt_long(argc, argv, "i:jaw:h", longs, NULL)) != -1) {
		switch (opt) {
		case 'i':
			o.instance = optarg;
			break;
		case 'j':
			o.json = true;
			break;
		case 'a':
			o.all = true;
			break;
		case 'w':
			if (read_seconds(optarg, &o.watch_s) != 0)
				return 2;
			break;
		case 't':
			o.plan.topology = optarg;
			break;
		case 'k':
			o.plan.kind = optarg;
			break;
		case 'r':
			o.plan.root = optarg;
			break;
		case 's':
			o.plan.size = optarg;
			break;
		case 'g':
			o.plan.generator = optarg;
			break;
		case 'n':
			o.plan.ranks_per_host = optarg;
			break;
		case 'S':
			o.plan.steps = optarg;
			break;
		case 'W':
			o.plan.save = optarg;
			break;
		case 'L':
			o.plan.load = optarg;
			break;
		case 'V':
			o.plan.svg = optarg;
			break;
		case 'd':
			if (read_drain(optarg, &o.drain_us) != 0)
				return 2;
			break;
		case 'H':
			o.hold = true;
			break;
		case 'P':
			o.processes = true;
			break;
		case 'v':
			printf("pmx-ctl %s\n", PMX_VERSION);
			return 0;
		case 'h':
			fputs(usage, stdout);
			return 0;
		default:
			fputs(usage, stderr);
			return 2;
		}
	}
	const struct job_command *job = optind < argc ? job_command(argv[optind]) : NULL;

	if ((o.drain_us != 0 || o.hold || o.processes) && (job == NULL || !job->stops))
		return wrong("command", optind < argc ? argv[optind] : "",
			"--drain, --hold and --processes are options of freeze and park");
	if (job != NULL && optind >= argc - 2)
		return change_job(&o, job, argv[optind + 1]);
	if (optind != argc - 1) {
		fputs(usage, stderr);
		return 2;
	}
	/* if a primary ends while it is asked, that is an error, and must not end this program */
	signal(SIGPIPE, SIG_IGN);
	return run_named(argv[optind], &o);
}
