/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmx-perf: round trip, message rate and bandwidth of pmx, and of what it is compared with. This
 * file has the options and the table of commands.
 */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "perf.h"

static const char usage[] =
	"Usage: pmx-perf COMMAND [options] [-- EAL arguments]\n"
	"\n"
	"Over pmx; one side responds, the other measures:\n"
	"  respond                  answer until the other side ends\n"
	"  latency | rate | bandwidth | all\n"
	"    --figure DIR           bandwidth: with and without copies, DIR/copies.svg, .csv\n"
	"    --in-place             bandwidth: written and read in the messages, not copied\n"
	"    --instance NAME        attach to that pmx-dpdk primary (default pmx0)\n"
	"    --embedded CONFIG      or be a node; EAL arguments behind --\n"
	"    --context N            own context (default: respond 1, otherwise 2)\n"
	"    --to NODE:CONTEXT      the responder (default 1:1)\n"
	"  push | pull              bandwidth of remote memory, and of memcpy\n"
	"    --depth N (8)          transfers under way\n"
	"    --local private, --remote private\n"
	"                           memory of malloc there, not of pmx_alloc\n"
	"    --hit-ratio PERCENT (100)  transfers whose memory is pinned already; private memory\n"
	"    --figure DIR           all sizes at 0, 25, 50, 75, 100 %: DIR/push.svg, .csv\n"
	"  page                     4 KiB pulled, and asked for by a message and copied\n"
	"  diff                     a region pushed, and what changed of it: 1 %, in one run or in "
	"words\n"
	"  matched                  isend/irecv: round trip beside plain messages', bandwidth of "
	"offers\n"
	"  unexpected               a search among --sizes (1 to 100000) messages that nobody "
	"waits for;\n"
	"    --figure DIR           DIR/unexpected.svg, .csv. Wants limits.matched_entries and "
	"unexpected above that\n"
	"  posted                   round trip with --sizes receives posted ahead "
	"(limits.receives)\n"
	"  overlap                  share of a transfer that hides behind computation "
	"(engine.matching)\n"
	"  mixed                    round trip of short messages beside bulk of --sizes from "
	"another context\n"
	"  group                    barrier, free lock and hand-over of a lock between the two "
	"sides, beside a round trip;\n"
	"                           updates of a shared region and subscribing, beside a push and "
	"a pull\n"
	"  multicast                to one, two and four contexts of the other side, of --sizes "
	"(64 to 1048576), by the\n"
	"                           network or by a list as engine.multicast says, beside as many "
	"pushes; a barrier of\n"
	"                           eight contexts and a lock that all of them want, beside a "
	"round trip. Wants\n"
	"                           limits.contexts 4\n"
	"  dsm                      shared memory: first touches of pages beside a page pulled, an "
	"update under a lock, barriers\n"
	"  coll                     collectives of four contexts, two a side, of --sizes (8 to "
	"262144), beside a message one way\n"
	"  idle                     round trip and CPU time of the engine, by its idle policy and "
	"the gap\n"
	"    --beside N (0)         contexts that are open and never used\n"
	"    --figure DIR           DIR/idle_round_trip.svg, idle_cpu.svg, .csv; EAL arguments "
	"behind --\n"
	"  pin                      what pinning costs here, and a hit of the pin-down cache\n"
	"  copy                     memcpy by alignment of source and destination, memory beyond "
	"the caches; needs no node\n"
	"    --figure DIR           DIR/copy.svg, .csv\n"
	"What it is compared with:\n"
	"  floor                    the raw link; a port behind --, e.g. -- --vdev=net_memif0,... "
	"With --sizes: of frames\n"
	"                           as messages of these sizes are sent in; without, of 64 to 9000 "
	"bytes\n"
	"    --respond              be the echoing side\n"
	"  floor line               a cache line between two CPUs and back; --cpu, and --other N\n"
	"  floor away               how often the machine takes a CPU away from a program that "
	"spins; --cpu, --seconds\n"
	"  baseline tcp | udp       kernel sockets; both ends here, or\n"
	"    --respond | --initiate one end, at --address IP:PORT, or the path of a Unix socket\n"
	"    --socket-buffer N (4194304)  bytes asked for with udp, 0: the system's own\n"
	"  baseline relay           between two such ends: from --via ADDRESS to --address "
	"ADDRESS, until SIGTERM\n"
	"  report [NAME=]FILE...    one table out of --json outputs; files of one NAME stand "
	"together, of repeated tests\n"
	"                           the median, * if they differ by more than a third of it; ! "
	"better than the raw link\n"
	"    --spread               and each figure's lowest and highest\n"
	"    --unsettled            instead NAME.WHAT of columns with a *, the 99th percentiles' "
	"aside\n"
	"    --figure DIR           DIR/round_trip.svg, bandwidth.svg, .csv\n"
	"Repeatable runs:\n"
	"  suite FILE --out DIR     measure what the file says in turns, other programs too; "
	"DIR/results.json, report.html\n"
	"    --turns N              of each column, instead of the file's\n"
	"    --cpu N, --other N     the CPUs of what is measured and of what is beside it\n"
	"  compare OLD NEW          two such directories: ratios of medians, with intervals; exit "
	"status 1 if some are worse\n"
	"    --columns OLD,NEW      or two columns of one such directory, which were measured in "
	"turns\n"
	"    --threshold N (5)      by more than so many percent\n"
	"\n"
	"  --sizes N,N,...          bytes; defaults 8 to 1048576\n"
	"  --rounds N (20000)  --warmup N (2000)  --seconds S (1)  --burst N (32)\n"
	"  --within S               latency: end after S seconds with the rounds that were made\n"
	"  --idle spin|yield|block  at an empty poll (default yield; embedded: spin)\n"
	"  --cpu N                  the CPU to run on (default: one that no pmx-dpdk or pmx-perf "
	"polls on)\n"
	"  --json                   a line a result, for machines\n";

enum {
	OPT_INSTANCE = 256,
	OPT_EMBEDDED,
	OPT_CONTEXT,
	OPT_TO,
	OPT_SIZES,
	OPT_ROUNDS,
	OPT_WARMUP,
	OPT_SECONDS,
	OPT_BURST,
	OPT_IDLE,
	OPT_CPU,
	OPT_JSON,
	OPT_RESPOND,
	OPT_INITIATE,
	OPT_ADDRESS,
	OPT_HELP,
	OPT_VERSION,
	OPT_DEPTH,
	OPT_HIT,
	OPT_LOCAL,
	OPT_REMOTE,
	OPT_FIGURE,
	OPT_VIA,
	OPT_SOCKET,
	OPT_OTHER,
	OPT_IN_PLACE,
	OPT_SPREAD,
	OPT_WITHIN,
	OPT_UNSETTLED,
	OPT_OUT,
	OPT_TURNS,
	OPT_THRESHOLD,
	OPT_COLUMNS,
	OPT_BESIDE
};

static const struct option longs[] = {{"instance", 1, NULL, OPT_INSTANCE},
	{"embedded", 1, NULL, OPT_EMBEDDED}, {"context", 1, NULL, OPT_CONTEXT},
	{"to", 1, NULL, OPT_TO}, {"sizes", 1, NULL, OPT_SIZES}, {"rounds", 1, NULL, OPT_ROUNDS},
	{"warmup", 1, NULL, OPT_WARMUP}, {"seconds", 1, NULL, OPT_SECONDS},
	{"burst", 1, NULL, OPT_BURST}, {"idle", 1, NULL, OPT_IDLE}, {"cpu", 1, NULL, OPT_CPU},
	{"json", 0, NULL, OPT_JSON}, {"respond", 0, NULL, OPT_RESPOND},
	{"initiate", 0, NULL, OPT_INITIATE}, {"address", 1, NULL, OPT_ADDRESS},
	{"depth", 1, NULL, OPT_DEPTH}, {"hit-ratio", 1, NULL, OPT_HIT},
	{"local", 1, NULL, OPT_LOCAL}, {"remote", 1, NULL, OPT_REMOTE},
	{"figure", 1, NULL, OPT_FIGURE}, {"via", 1, NULL, OPT_VIA},
	{"socket-buffer", 1, NULL, OPT_SOCKET}, {"other", 1, NULL, OPT_OTHER},
	{"in-place", 0, NULL, OPT_IN_PLACE}, {"spread", 0, NULL, OPT_SPREAD},
	{"within", 1, NULL, OPT_WITHIN}, {"unsettled", 0, NULL, OPT_UNSETTLED},
	{"out", 1, NULL, OPT_OUT}, {"turns", 1, NULL, OPT_TURNS},
	{"threshold", 1, NULL, OPT_THRESHOLD}, {"columns", 1, NULL, OPT_COLUMNS},
	{"beside", 1, NULL, OPT_BESIDE}, {"help", 0, NULL, OPT_HELP},
	{"version", 0, NULL, OPT_VERSION}, {0}};

static const struct perf_command perf_commands[] = {
	{"respond", run_respond, NULL, NULL},
	{"latency", run_test, test_latency, &message_responder},
	{"rate", run_test, test_rate, &message_responder},
	{"bandwidth", run_test, test_bandwidth, &message_responder},
	{"all", run_test, test_all, &message_responder},
	{"push", run_test, test_transfers, &remote_responder},
	{"pull", run_test, test_transfers, &remote_responder},
	{"page", run_test, test_page, &remote_responder},
	{"diff", run_test, test_diff, &remote_responder},
	{"matched", run_test, test_matched, &match_responder},
	{"unexpected", run_test, test_unexpected, &match_responder},
	{"posted", run_test, test_posted, &match_responder},
	{"overlap", run_test, test_overlap, &match_responder},
	{"mixed", run_test, test_mixed, &match_responder},
	{"group", run_test, test_group, &group_responder},
	{"multicast", run_test, test_multicast, &multicast_responder},
	{"dsm", run_test, test_dsm, &dsm_responder},
	{"coll", run_test, test_coll, &coll_responder},
	{"idle", run_idle, NULL, NULL},
	{"pin", run_pin, NULL, NULL},
	{"copy", run_copy, NULL, NULL},
	{"floor", run_floor, NULL, NULL},
	{"baseline", run_baseline, NULL, NULL},
	{"report", run_report, NULL, NULL},
	{"suite", run_suite, NULL, NULL},
	{"compare", run_compare, NULL, NULL},
	{NULL, NULL, NULL, NULL},
};

static const struct perf_command line_command = {"floor line", run_line, NULL, NULL},
				 away_command = {"floor away", run_away, NULL, NULL};

/* ------------------------------------------------------------------ options */

static int
bad(const char *name, const char *value, const char *allowed)
{
	fprintf(stderr, "pmx-perf: %s '%s': %s\n", name, value, allowed);
	return -1;
}

static int
parse_sizes(struct perf_options *o, const char *text)
{
	char *end;

	for (o->size_count = 0; *text; text = *end ? end + 1 : end) {
		unsigned long v = strtoul(text, &end, 10);

		if (end == text || (*end && *end != ',') || v == 0 || v > 1u << 30 ||
			o->size_count == PERF_SIZES_MAX)
			return bad("--sizes", text, "up to 16 numbers from 1 to 1073741824");
		o->sizes[o->size_count++] = (uint32_t)v;
	}
	return 0;
}

static int
parse_idle(struct perf_options *o, const char *text)
{
	if (strcmp(text, "spin") == 0)
		o->idle = PERF_SPIN;
	else if (strcmp(text, "yield") == 0)
		o->idle = PERF_YIELD;
	else if (strcmp(text, "block") == 0)
		o->idle = PERF_BLOCK;
	else
		return bad("--idle", text, "spin, yield or block");
	return 0;
}

static int
parse_number(const char *name, const char *text, double min, double max, double *out)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || v < min || v > max) {
		fprintf(stderr, "pmx-perf: %s '%s': a number from %g to %g\n", name, text, min,
			max);
		return -1;
	}
	*out = v;
	return 0;
}

static int
parse_memory(const char *name, const char *text, bool *private)
{
	*private = strcmp(text, "private") == 0;
	return *private || strcmp(text, "shared") == 0 ? 0 : bad(name, text, "shared or private");
}

static int
parse_address(const char *name, const char *text, struct pmx_addr *out)
{
	unsigned node, ctx;
	char rest;

	if (sscanf(text, "%u:%u%c", &node, &ctx, &rest) != 2 || node > 65534 || ctx > 65534)
		return bad(name, text, "NODE:CONTEXT, e.g. 1:1");
	*out = (struct pmx_addr){(uint16_t)node, (uint16_t)ctx};
	return 0;
}

static int
parse_unsigned(const char *name, const char *text, unsigned min, unsigned max, unsigned *out)
{
	double v = 0;
	int e = parse_number(name, text, min, max, &v);

	*out = (unsigned)v;
	return e;
}

static int
parse_cpu(const char *name, const char *text, int *out)
{
	unsigned v;
	int e = parse_unsigned(name, text, 0, 4095, &v);

	*out = (int)v;
	return e;
}

/* Parse an option that is a number. Returns 1 if the option is none of these. */
static int
parse_number_option(struct perf_options *o, int opt, const char *arg)
{
	double v = 0;
	int e;

	switch (opt) {
	case OPT_SOCKET:
		return parse_unsigned("--socket-buffer", arg, 0, 1 << 30, &o->socket_bytes);
	case OPT_DEPTH:
		return parse_unsigned("--depth", arg, 1, 64, &o->depth);
	case OPT_HIT:
		return parse_number("--hit-ratio", arg, 0, 100, &o->hit_ratio);
	case OPT_CONTEXT:
		e = parse_number("--context", arg, 0, 65535, &v);
		o->context = (uint16_t)v;
		return e;
	case OPT_ROUNDS:
		e = parse_number("--rounds", arg, 1, 1e12, &v);
		o->rounds = (uint64_t)v;
		return e;
	case OPT_WARMUP:
		e = parse_number("--warmup", arg, 0, 1e12, &v);
		o->warmup = (uint64_t)v;
		return e;
	case OPT_SECONDS:
		return parse_number("--seconds", arg, 0.001, 86400, &o->seconds);
	case OPT_BURST:
		return parse_unsigned("--burst", arg, 1, 64, &o->burst);
	case OPT_WITHIN:
		return parse_number("--within", arg, 0.001, 86400, &o->within);
	case OPT_CPU:
		return parse_cpu("--cpu", arg, &o->cpu);
	case OPT_BESIDE:
		return parse_unsigned("--beside", arg, 0, PERF_BESIDE_MAX, &o->beside);
	case OPT_TURNS:
		return parse_unsigned("--turns", arg, 1, 64, &o->turns);
	case OPT_THRESHOLD:
		e = parse_number("--threshold", arg, 0, 1000, &v);
		o->threshold = v / 100;
		return e;
	case OPT_OTHER:
		return parse_cpu("--other", arg, &o->other);
	default:
		return 1;
	}
}

static int
parse_option(struct perf_options *o, int opt, const char *arg)
{
	int e = parse_number_option(o, opt, arg);

	if (e <= 0)
		return e;
	switch (opt) {
	case OPT_SIZES:
		return parse_sizes(o, arg);
	case OPT_IDLE:
		return parse_idle(o, arg);
	case OPT_TO:
		return parse_address("--to", arg, &o->to);
	case OPT_LOCAL:
		return parse_memory("--local", arg, &o->local_private);
	case OPT_REMOTE:
		return parse_memory("--remote", arg, &o->remote_private);
	case OPT_INSTANCE:
		o->instance = arg;
		return 0;
	case OPT_EMBEDDED:
		o->embedded = arg;
		return 0;
	case OPT_ADDRESS:
		o->address = arg;
		return 0;
	case OPT_VIA:
		o->via = arg;
		return 0;
	case OPT_OUT:
		o->out = arg;
		return 0;
	case OPT_COLUMNS:
		o->columns = arg;
		return 0;
	case OPT_FIGURE:
		o->figure = arg;
		return 0;
	case OPT_JSON:
		o->json = true;
		return 0;
	case OPT_IN_PLACE:
		o->in_place = true;
		return 0;
	case OPT_SPREAD:
		o->spread = true;
		return 0;
	case OPT_UNSETTLED:
		o->unsettled = true;
		return 0;
	case OPT_RESPOND:
		o->respond = true;
		return 0;
	case OPT_INITIATE:
		o->serve = true;
		return 0;
	default:
		return -1;
	}
}

static const struct perf_command *
command_named(const char *name)
{
	for (const struct perf_command *c = perf_commands; c->name != NULL; c++) {
		if (strcmp(name, c->name) == 0)
			return c;
	}
	return NULL;
}

/* Split "... -- EAL arguments"; returns the number of our own arguments. */
static int
split_eal(struct perf_options *o, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			o->eal_argc = argc - i;
			o->eal_argv = argv + i;
			argv[i] = argv[0];
			return i;
		}
	}
	o->eal_argc = 1;
	o->eal_argv = argv + argc - 1;
	return argc;
}

static int
parse(struct perf_options *o, int argc, char **argv)
{
	int opt;
	bool idle_given = false;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		if (opt == OPT_HELP) {
			fputs(usage, stdout);
			exit(0);
		}
		if (opt == OPT_VERSION) {
			printf("pmx-perf %s\n", PMX_VERSION);
			exit(0);
		}
		if (parse_option(o, opt, optarg) != 0)
			return -1;
		idle_given |= opt == OPT_IDLE;
	}
	o->command = optind < argc ? command_named(argv[optind]) : NULL;
	if (o->command == NULL)
		return bad("command", optind < argc ? argv[optind] : "", "see pmx-perf --help");
	optind++;
	if (o->command->run == run_baseline) {
		o->kind = optind < argc ? argv[optind++] : "";
		if (strcmp(o->kind, "tcp") != 0 && strcmp(o->kind, "udp") != 0 &&
			strcmp(o->kind, "relay") != 0)
			return bad("baseline", o->kind, "tcp, udp or relay");
		if (strcmp(o->kind, "relay") == 0 && (o->via == NULL || o->address == NULL))
			return bad("baseline", o->kind,
				"needs --via, where it listens, and --address, where it connects "
				"to");
	}
	if (o->command->run == run_floor && optind < argc) {
		o->kind = argv[optind++];
		if (strcmp(o->kind, "line") != 0 && strcmp(o->kind, "away") != 0)
			return bad("floor", o->kind, "line, away, or nothing for the link");
		o->command = strcmp(o->kind, "line") == 0 ? &line_command : &away_command;
	}
	o->files = argv + optind;
	o->file_count = argc - optind;
	if (o->context == PMX_ANY_CONTEXT)
		o->context = o->command->run == run_respond ? 1 : 2;
	if (!idle_given && o->embedded)
		o->idle = PERF_SPIN;
	o->progress = !o->json && isatty(2);
	return 0;
}

int
main(int argc, char **argv)
{
	struct perf_options o = {
		.commands = perf_commands,
		.instance = "pmx0",
		.context = PMX_ANY_CONTEXT,
		.to = {1, 1},
		.rounds = 20000,
		.warmup = 2000,
		.seconds = 1,
		.socket_bytes = 4 << 20,
		.burst = 32,
		.depth = 8,
		.hit_ratio = 100,
		.threshold = 0.05,
		.cpu = -1,
		.other = -1,
		.idle = PERF_YIELD,
	};
	char *name[] = {argv[0], NULL};

	argc = split_eal(&o, argc, argv);
	if (o.eal_argv == argv + argc - 1 && o.eal_argc == 1)
		o.eal_argv = name;
	if (parse(&o, argc, argv) != 0)
		return 2;
	if (o.figure != NULL && mkdir(o.figure, 0777) != 0 && errno != EEXIST) {
		fprintf(stderr, "pmx-perf: --figure %s: %s\n", o.figure, strerror(errno));
		return 1;
	}
	/* these only read files */
	if (o.command->run != run_report && o.command->run != run_compare &&
		cpu_settle(&o, o.embedded || o.command->run == run_floor) != 0)
		return 2;
	return o.command->run(&o);
}
