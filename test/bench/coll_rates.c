/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Times of collectives between processes on four nodes, EACH (1 or 2) on each: rank r is context
 * r % EACH of node r / EACH. Usage:
 *   coll_rates PREFIX EACH KIND BYTES TURNS SLEEPER GENERATOR...
 * The nodes' instances are PREFIX0 to PREFIX3; KIND is gather, alltoall, or bcast; root is rank 0.
 * Every turn does it once by each generator (PMX_COLL_GENERATORS), so that a machine that is slow
 * for a while is slow for all. The generator `messages` is none: the program's own pmx_isend and
 * pmx_irecv, all at once. SLEEPER: a rank which, in a second run of each, begins and then
 * sleeps 100 ms; none: nobody. Turn 0 opens flows, and is no measurement.
 *
 * All begin at the same time, by the clock. A line for each: KIND BYTES GENERATOR TURN, awake or
 * asleep, and ms from then until the last rank, but the sleeper, has seen its end. Whoever reads
 * these lines by a pipe answers each with one of its own before the next one begins, and can look
 * at the network meanwhile; the end of the standard input lets all go on. The bytes are checked.
 * Exit code 0: all was as it must be.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pmx/coll.h>
#include <pmx/pmx.h>

#include "../system/helpers.h"

#define NODES       4
#define RANKS_MOST  8
#define GROUPS      16
#define PATIENCE_US 60000000ll
#define QUIET_US    20000 /* before each: ports run empty, Acks go */
#define SLEEP_US    100000
#define NOBODY      UINT32_MAX

/* In memory of all processes. */
struct board {
	_Atomic uint32_t arrived;
	_Atomic int64_t begin_us; /* of the next one */
	_Atomic int64_t ended_us[RANKS_MOST];
};

enum kind { GATHER, ALLTOALL, BCAST, KINDS };
static const char *const kind_names[KINDS] = {"gather", "alltoall", "bcast"};

static struct board *board;
static enum kind kind;
static uint64_t bytes;
static uint32_t each, ranks, turns, sleeper = NOBODY, rank;
static char **generators;
static uint32_t generator_count;

static struct pmx_node *node;
static struct pmx_context *ctx;
static struct pmx_group *groups[GROUPS];
static uint64_t *in, *out;
static uint64_t in_blocks, out_blocks; /* of `bytes` each; 0: not used */

/* ------------------------------------------------------------------ together */

/* Wait until all have come here. */
static void
meet(void)
{
	const uint32_t place = atomic_fetch_add(&board->arrived, 1);
	const uint32_t all = (place / ranks + 1) * ranks;
	const int64_t until = now_us() + PATIENCE_US;

	if (place + 1 == all)
		atomic_store(&board->begin_us, now_us() + QUIET_US);
	while (atomic_load(&board->arrived) < all) {
		if (now_us() > until)
			die("rank %u waits for the others", rank);
		usleep(500);
	}
}

static void
wait_until(int64_t at_us)
{
	const struct timespec t = {at_us / 1000000, at_us % 1000000 * 1000};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
		;
}

/* ------------------------------------------------------------------ bytes */

/* A word of the block that goes from one rank to another. */
static uint64_t
word_of(uint32_t round, uint32_t from, uint32_t to, uint64_t i)
{
	return ((uint64_t)round << 40 | (uint64_t)from << 34 | (uint64_t)to << 28 | i) *
		0x9E3779B97F4A7C15ull;
}

static void
fill(uint64_t *at, uint32_t round, uint32_t from, uint32_t to)
{
	for (uint64_t i = 0; i < bytes / 8; i++)
		at[i] = word_of(round, from, to, i);
}

static void
check(const uint64_t *at, uint32_t round, uint32_t from, uint32_t to)
{
	for (uint64_t i = 0; i < bytes / 8; i++) {
		if (at[i] != word_of(round, from, to, i)) {
			fail("rank %u: word %lu of the block from %u is wrong", rank,
				(unsigned long)i, from);
			return;
		}
	}
}

/* Memory that the engine has mapped, so that nothing is copied before or after. */
static void
prepare(void)
{
	const bool is_root = rank == 0;

	in_blocks = kind == GATHER ? 1 : kind == ALLTOALL ? ranks : 0;
	out_blocks = kind == GATHER ? (is_root ? ranks : 0) : kind == ALLTOALL ? ranks : 1;
	if (in_blocks > 0)
		must_succeed("memory", pmx_alloc(ctx, in_blocks * bytes, (void **)&in));
	if (out_blocks > 0)
		must_succeed("memory", pmx_alloc(ctx, out_blocks * bytes, (void **)&out));
}

static void
put(uint32_t round)
{
	for (uint64_t i = 0; i < in_blocks; i++)
		fill(in + i * bytes / 8, round, rank, (uint32_t)i);
	for (uint64_t i = 0; i < out_blocks; i++)
		memset((uint8_t *)out + i * bytes, 0, bytes);
	if (kind == BCAST && rank == 0)
		fill(out, round, 0, 0);
}

static void
look(uint32_t round)
{
	for (uint64_t i = 0; i < out_blocks; i++)
		check(out + i * bytes / 8, round, (uint32_t)i, kind == ALLTOALL ? rank : 0);
}

/* ------------------------------------------------------------------ a member */

static void
wait_for(const char *what, int result, pmx_request r)
{
	struct pmx_status s = {.label = UINT16_MAX};

	if (result == 0)
		result = pmx_wait(ctx, &r, &s, PATIENCE_US);
	if (result != 1)
		die("rank %u, %s: %s, because of rank %u", rank, what, pmx_strerror(result),
			s.label);
}

/* A block to or from another rank, or to this one, by a message. */
static pmx_request
message(bool sends, uint32_t peer, uint64_t *data)
{
	const struct pmx_matched m = {
		.peer = {(uint16_t)(peer / each), (uint16_t)(peer % each)},
		.data = data,
		.len = bytes,
	};
	pmx_request r = 0;
	int result;

	while ((result = sends ? pmx_isend(ctx, &m, &r) : pmx_irecv(ctx, &m, &r)) == -EAGAIN)
		pmx_sends_pending(ctx);
	must_succeed("a message", result);
	return r;
}

/* Do the same as the collective, but by messages: begin all that this rank has to send and to
 * receive, and then wait for it. */
static void
by_messages(void)
{
	pmx_request r[2 * RANKS_MOST] = {0};

	if (kind == BCAST)
		die("no bcast by messages");
	for (uint32_t i = 0; i < out_blocks; i++)
		r[i] = message(false, i, out + i * bytes / 8);
	for (uint32_t i = 0; i < in_blocks; i++)
		r[ranks + i] = message(true, i, in + i * bytes / 8);
	for (uint32_t i = 0; i < 2 * ranks; i++) {
		const int result = r[i] != 0 ? pmx_wait(ctx, &r[i], NULL, PATIENCE_US) : 1;

		if (result != 1)
			die_of("a message", result);
	}
}

static int
begin(struct pmx_group *g, pmx_request *r)
{
	switch (kind) {
	case GATHER:
		return pmx_gather(g, 0, in, out, bytes, r);
	case ALLTOALL:
		return pmx_alltoall(g, in, out, bytes, r);
	case BCAST:
	case KINDS:
		break;
	}
	return pmx_bcast(g, 0, out, bytes, r);
}

/* One of them, which rank 0 tells of. */
static void
once(uint32_t g, uint32_t turn, bool sleeps)
{
	static uint32_t round;
	pmx_request r = 0;
	int64_t last = 0;

	put(++round);
	meet();
	const int64_t begin_us = atomic_load(&board->begin_us);

	wait_until(begin_us);
	if (strcmp(generators[g], "messages") == 0) {
		by_messages();
	} else {
		const int result = begin(groups[g], &r);

		if (sleeps && rank == sleeper && result == 0)
			usleep(SLEEP_US);
		wait_for(kind_names[kind], result, r);
	}
	atomic_store(&board->ended_us[rank], now_us());
	look(round);
	meet();
	for (uint32_t i = 0; i < ranks; i++) {
		const int64_t at = atomic_load(&board->ended_us[i]);

		if (i != sleeper && at > last)
			last = at;
	}
	if (rank == 0) {
		int c;

		printf("%s %lu %s %u %s %.3f\n", kind_names[kind], (unsigned long)bytes,
			generators[g], turn, sleeps ? "asleep" : "awake",
			(double)(last - begin_us) / 1000);
		fflush(stdout);
		do
			c = getchar();
		while (c != '\n' && c != EOF);
	}
	meet();
}

/* The environment is read when a group has its first collective. */
static void
open_groups(void)
{
	struct pmx_addr list[RANKS_MOST];
	char word[64];

	for (uint32_t r = 0; r < ranks; r++)
		list[r] = (struct pmx_addr){(uint16_t)(r / each), (uint16_t)(r % each)};
	for (uint32_t g = 0; g < generator_count; g++) {
		if (strcmp(generators[g], "messages") == 0)
			continue;
		const struct pmx_group_params p = {
			.size = sizeof(p),
			.id = g + 1,
			.count = ranks,
			.members = list,
		};
		pmx_request r = 0;
		int result = pmx_group_open(ctx, &p, PATIENCE_US, &groups[g], &r);

		wait_for("opening", result, r);
		snprintf(word, sizeof(word), "%s=%s", kind_names[kind], generators[g]);
		setenv("PMX_COLL_GENERATORS", word, 1);
		result = pmx_coll_barrier(groups[g], &r);
		wait_for("barrier", result, r);
	}
}

static int
be_member(const char *prefix)
{
	const double until = now_s() + 5;
	char name[64];
	int result;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(name, sizeof(name), "%s%u", prefix, rank / each);
	must_succeed("attaching", pmx_node_attach(&node, name, NULL));
	/* the process before may have had that number a moment ago */
	while ((result = pmx_context_open(&ctx, node, rank % each, NULL)) == -EBUSY &&
		now_s() < until)
		usleep(1000);
	must_succeed("opening", result);
	prepare();
	open_groups();
	for (uint32_t turn = 0; turn <= turns; turn++) {
		for (uint32_t g = 0; g < generator_count; g++) {
			once(g, turn, false);
			if (sleeper != NOBODY && turn > 0)
				once(g, turn, true);
		}
	}
	for (uint32_t g = 0; g < generator_count; g++) {
		if (groups[g] != NULL)
			pmx_group_close(groups[g]);
	}
	pmx_context_close(ctx);
	pmx_node_close(node);
	return failed;
}

/* ------------------------------------------------------------------ the parent */

static enum kind
kind_named(const char *name)
{
	for (unsigned k = 0; k < KINDS; k++) {
		if (strcmp(name, kind_names[k]) == 0)
			return (enum kind)k;
	}
	die("no such kind: %s", name);
}

int
main(int argc, char **argv)
{
	int bad = 0, status;

	if (argc < 8 || argc - 7 > GROUPS) {
		fputs("Usage: coll_rates PREFIX EACH KIND BYTES TURNS SLEEPER GENERATOR...\n",
			stderr);
		return 2;
	}
	each = (uint32_t)atoi(argv[2]);
	ranks = NODES * each;
	if (each < 1 || ranks > RANKS_MOST)
		die("not 1 or 2: %s", argv[2]);
	kind = kind_named(argv[3]);
	bytes = strtoull(argv[4], NULL, 10) / 8 * 8;
	turns = (uint32_t)atoi(argv[5]);
	if (strcmp(argv[6], "none") != 0)
		sleeper = (uint32_t)atoi(argv[6]);
	generators = argv + 7;
	generator_count = (uint32_t)argc - 7;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		0);
	if (board == MAP_FAILED)
		die("no memory");
	for (rank = 0; rank < ranks; rank++) {
		const pid_t pid = fork();

		if (pid < 0)
			die("fork: %s", strerror(errno));
		if (pid == 0)
			exit(be_member(argv[1]));
	}
	for (uint32_t i = 0; i < ranks; i++) {
		if (wait(&status) < 0 || status != 0)
			bad = 1;
		if (bad != 0)
			break; /* the others end with this process */
	}
	return bad;
}
