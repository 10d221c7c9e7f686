/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A group of four processes on two primaries, of which one kills itself (SIGKILL) at a step of its
 * own choice, in the midst of everything that a group can do. The others go through the same and
 * must get over it: each request ends, in bounded time, well or with an error that names who died;
 * a lock has one holder; what the others have written is there. The library is built with PMX_STEPS
 * here (lib/channel/step.h). group_killed.sh runs it, and looks what is left.
 *
 *   group_killed INSTANCE-0 INSTANCE-1 GROUP VICTIM STEP   0: nobody dies
 *
 * Prints how many steps the victim has taken, and the longest time, in us, that a request of the
 * others took from when it had died.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <pmx/coll.h>
#include <pmx/pmx.h>

#include "channel/step.h"
#include "helpers.h"

#define MEMBERS     4u
#define AREA        5u
#define PART        5000u /* bytes that a member writes at all others */
#define BYTES       (MEMBERS * PART)
#define LONG        (100u << 10)
#define OPEN_US     15000000 /* nobody dies */
#define DYING_US    5000000  /* ... or one does, perhaps before it comes */
#define PATIENCE_US 20000000

struct together {
	_Atomic uint32_t holder[MEMBERS]; /* of a lock: rank + 1 */
	_Atomic int64_t died_us;          /* 0: nobody yet */
	_Atomic int64_t longest_us;
	_Atomic long steps;
	_Atomic unsigned done; /* members that are about to leave */
};

static struct together *together;
static struct pmx_node *node;
static struct pmx_context *ctx;
static struct pmx_group *group;
static bool is_open = true;
static uint32_t rank, victim, group_number;
static long wanted;
static const char *phase = "attach";

void
pmx_step(void)
{
	if (rank != victim || atomic_fetch_add(&together->steps, 1) + 1 != wanted)
		return;
	together->died_us = now_us();
	kill(getpid(), SIGKILL);
}

static void
tell_phase(const char *why)
{
	(void)why;
	fprintf(stderr, "group_killed: rank %u, in the phase \"%s\"\n", rank, phase);
}

/* ------------------------------------------------------------------ requests */

static void
took(int64_t since)
{
	const int64_t died = together->died_us;
	const int64_t us = now_us() - (since > died ? since : died);
	int64_t longest = together->longest_us;

	while (died != 0 && us > longest &&
		!atomic_compare_exchange_weak(&together->longest_us, &longest, us))
		;
}

/* Return whether somebody's death may end what a member asks for with this error. */
static bool
is_of_death(int error)
{
	const int errors[] = {-ECONNRESET, -ECONNREFUSED, -EHOSTDOWN, -EOWNERDEAD, -ENOTCONN};

	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (error == errors[i])
			return true;
	}
	return false;
}

/* Waits for what `begun` tells to be under way, and returns how it has ended. */
static int
ended(const char *what, int begun, pmx_request request)
{
	const int64_t since = now_us();
	const bool casts = strcmp(what, "multicast") == 0 || strcmp(what, "update") == 0;
	struct pmx_status status = {.label = victim};
	int result = begun;

	phase = what;
	if (result == 0) {
		result = pmx_wait(ctx, &request, &status, PATIENCE_US);
		if (result == 0)
			die("%s: it does not end", what);
	}
	took(since);
	if (result == 1 || result == 0)
		return 0;
	if (wanted == 0 || !is_of_death(result))
		die("%s: %s (rank %u)", what, pmx_strerror(result), status.label);
	/* who gets a lock that was another's is told that, and not whose; a multicast ends for the
	 * first who lacks it, and without rank 0 the group has ended at all */
	if (status.label != victim && result != -EOWNERDEAD && !(victim == 0 && casts))
		die("%s: %s because of rank %u, and %u died", what, pmx_strerror(result),
			status.label, victim);
	return result;
}

/* Calls `begin` as long as there is no room for it. */
#define ENDED(what, begin)                                                                         \
	({                                                                                         \
		pmx_request request = 0;                                                           \
		int result;                                                                        \
		while ((result = (begin)) == -EAGAIN)                                              \
			pmx_sends_pending(ctx);                                                    \
		ended(what, result, request);                                                      \
	})

/* Waits until all who live have come here. A death ends a barrier, and the next is theirs. false:
 * the group has ended. */
static bool
meet(void)
{
	for (int tries = 0; tries < 2; tries++) {
		if (ENDED("barrier", pmx_group_barrier(group, &request)) == 0)
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------ what a group can do */

static uint8_t
byte_of(uint32_t writer, uint32_t what)
{
	return (uint8_t)(1 + writer * 16 + what);
}

/* Check that all living members' parts are there. */
static void
look_for(const char *what, const uint8_t *bytes, uint32_t kind)
{
	for (uint32_t r = 0; r < MEMBERS; r++) {
		const bool excused = wanted != 0 && r == victim;

		for (uint32_t i = 0; i < PART && !excused; i++) {
			if (bytes[r * PART + i] != byte_of(r, kind))
				die("%s: byte %u of rank %u's is %u", what, i, r,
					bytes[r * PART + i]);
		}
	}
}

static void
join(char **instances)
{
	struct pmx_addr list[MEMBERS];
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = group_number,
		.count = MEMBERS,
		.members = list,
	};
	const struct pmx_context_params params = {
		.size = sizeof(params),
		.send_buffers = 64,
		.receive_buffers = 64,
	};
	const int64_t until = now_us() + PATIENCE_US;
	pmx_request request = 0;
	struct pmx_status status = {0};
	int result;

	for (uint16_t r = 0; r < MEMBERS; r++)
		list[r] = (struct pmx_addr){r % 2, r / 2};
	/* a primary that waits for a CPU may be asked again */
	while ((result = pmx_node_attach(&node, instances[rank % 2], NULL)) == -ETIMEDOUT &&
		now_us() < until)
		;
	must_succeed("pmx_node_attach", result);
	phase = "open";
	while ((result = pmx_context_open(&ctx, node, rank / 2, &params)) == -EBUSY &&
		now_us() < until)
		usleep(200);
	must_succeed("pmx_context_open", result);
	must_succeed("pmx_group_open",
		pmx_group_open(ctx, &p, wanted == 0 ? OPEN_US : DYING_US, &group, &request));
	result = pmx_wait(ctx, &request, &status, PATIENCE_US);
	if (result == 1)
		return;
	if (wanted == 0 || (result != -ETIMEDOUT && !is_of_death(result)) || status.label != victim)
		die("open: %s because of rank %u", pmx_strerror(result), status.label);
	is_open = false;
}

static void
locks(void)
{
	for (uint32_t l = 0; l < MEMBERS; l++) {
		int result = ENDED("lock", pmx_group_lock(group, l, 0, &request));

		if (result != 0 && result != -EOWNERDEAD)
			continue;
		const uint32_t other = atomic_exchange(&together->holder[l], rank + 1);

		STEP();
		if (other != 0 && (wanted == 0 || other != victim + 1))
			die("lock %u: rank %u has it", l, other - 1);
		together->holder[l] = 0;
		while ((result = pmx_group_unlock(group, l)) == -EAGAIN)
			pmx_sends_pending(ctx);
		if (result != 0)
			ended("unlock", result, 0);
	}
}

/* false: the group has ended. */
static bool
area(uint32_t id, uint8_t *at, struct pmx_remote *copy)
{
	const int result = pmx_group_area_register(group, id, at, BYTES,
		PMX_REMOTE_READ | PMX_REMOTE_WRITE, copy);

	return ended("pmx_group_area_register", result != 0 ? result : 1, 0) == 0;
}

static void
multicast(uint8_t *bytes, uint8_t *local)
{
	const uint32_t all[] = {0, 1, 2, 3};
	uint64_t missed = 0;
	struct pmx_group_set *set;
	struct pmx_remote r;

	if (!area(AREA, bytes, &r))
		return;
	meet(); /* who is left has registered it */
	must_succeed("pmx_group_set", pmx_group_set_make(group, all, MEMBERS, &set));
	const struct pmx_multicast m = {
		.set = set,
		.area = AREA,
		.remote = rank * PART,
		.local = local,
		.len = PART,
		.failed = &missed,
	};

	memset(local, byte_of(rank, 1), PART);
	ENDED("multicast", pmx_group_multicast(group, &m, &request));
	if (missed & ~(wanted != 0 ? 1ull << victim : 0) && (wanted == 0 || victim != 0))
		die("multicast: it has failed for %lx", (unsigned long)missed);
	if (meet())
		look_for("multicast", bytes, 1);
	pmx_group_set_free(set);
}

/* Every member is the home of one. */
static void
regions(uint8_t *copies)
{
	bool shared[MEMBERS], written[MEMBERS];

	for (uint32_t g = 0; g < MEMBERS; g++) {
		struct pmx_remote copy;

		if (!area(PMX_REGION(g), copies + g * BYTES, &copy))
			return;
		shared[g] = ENDED("subscribe",
				    pmx_group_subscribe(group, g, 0, &copy, NULL, &request)) == 0;
	}
	for (uint32_t g = 0; g < MEMBERS; g++) {
		const struct pmx_update u = {.region = g, .at = rank * PART, .len = PART};

		memset(copies + g * BYTES + u.at, byte_of(rank, 2 + g), PART);
		written[g] = shared[g] &&
			ENDED("update", pmx_group_update(group, &u, &request)) != -EHOSTDOWN;
	}
	if (meet()) {
		for (uint32_t g = 0; g < MEMBERS; g++) {
			if (written[g] && (wanted == 0 || g != victim))
				look_for("region", copies + g * BYTES, 2 + g);
		}
	}
	for (uint32_t g = 0; g < MEMBERS; g++) {
		if (shared[g] && g != rank)
			ENDED("unsubscribe", pmx_group_unsubscribe(group, g, &request));
	}
}

static void
collectives(uint8_t *bytes)
{
	uint64_t in = rank + 1, out = 0;

	if (ENDED("allreduce",
		    pmx_allreduce(group, &in, &out, 1, PMX_UINT64, PMX_ATOMIC_SUM, &request)) ==
			0 &&
		out != 10)
		die("allreduce: %lu", (unsigned long)out);
	memset(bytes, rank == 1 ? 77 : 0, LONG);
	if (ENDED("bcast", pmx_bcast(group, 1, bytes, LONG, &request)) == 0 &&
		bytes[LONG - 1] != 77)
		die("bcast: %u", bytes[LONG - 1]);
	ENDED("coll_barrier", pmx_coll_barrier(group, &request));
}

static void
member(char **instances)
{
	uint8_t *memory;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	join(instances);
	if (is_open) {
		must_succeed("pmx_alloc",
			pmx_alloc(ctx, (1 + MEMBERS) * BYTES + LONG, (void **)&memory));
		meet();
		locks();
		multicast(memory, memory + (1 + MEMBERS) * BYTES);
		regions(memory + BYTES);
		collectives(memory + (1 + MEMBERS) * BYTES);
		meet();
	}
	/* who leaves early would be missed by the others as who dies is */
	for (together->done++; together->done < MEMBERS - (together->died_us != 0);)
		pmx_sends_pending(ctx);
	phase = "close";
	pmx_group_close(group);
	pmx_context_close(ctx);
	STEP();
	pmx_node_close(node);
	STEP();
}

int
main(int argc, char **argv)
{
	pid_t pids[MEMBERS];
	int status;

	at_death = tell_phase;
	if (argc != 6)
		die("Usage: see the head of group_killed.c");
	group_number = (uint32_t)atoi(argv[3]);
	victim = (uint32_t)atoi(argv[4]);
	wanted = atol(argv[5]);
	together = mmap(NULL, sizeof(*together), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	must(together != MAP_FAILED ? together : NULL);
	for (rank = 0; rank < MEMBERS; rank++) {
		pids[rank] = fork();
		if (pids[rank] == 0) {
			member(argv + 1);
			return 0;
		}
	}
	for (uint32_t r = 0; r < MEMBERS; r++) {
		if (waitpid(pids[r], &status, 0) != pids[r] ||
			(!(r == victim && wanted != 0 && WIFSIGNALED(status) &&
				 WTERMSIG(status) == SIGKILL) &&
				(!WIFEXITED(status) || WEXITSTATUS(status) != 0)))
			fail("rank %u failed", r);
	}
	printf("%ld steps, %ld us\n", together->steps, together->longest_us);
	return failed;
}
