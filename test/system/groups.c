/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A member of a group that does what its standard input says, a command a line, and tells how each
 * ends; groups.sh says who does what when. Usage:
 *   groups INSTANCE CONTEXT GROUP TIMEOUT_MS NODE:CONTEXT... opens that group of those members
 * Commands: barrier, lock L, try L, unlock L, close, reattach; work N L FILE: N times the number in
 * FILE grows by one under lock L, with a barrier before and after; share N WRITERS [FILE]: N
 * rounds in which the first members write a shared region, and the others come and go; casts RANK N
 * BYTES [stride|bitmap|diff]: N multicasts of that member to all, which check the bytes; subscribe
 * R, update R N: bytes of region R become N; byte R: tells the last one; collectives N SLOW [FILE]:
 * N rounds of an allreduce, a bcast and an allgather, whose results are checked; the last SLOW
 * ranks sleep after each beginning; quit. With N 0 they go on until there is a file FILE.enough. It
 * tells "COMMAND: ERROR", with the rank because of which; "gone RANK: ERROR", "over RANK: ERROR".
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <pmx/coll.h>
#include <pmx/pmx.h>

#include "helpers.h"

#define PATIENCE_US 60000000ll
#define MEMBERS     64
#define REQUESTS    16

static struct pmx_node *node;
static struct pmx_context *ctx;
static struct pmx_group *group;
/* what was asked for and has not ended */
static struct {
	char what[80];
	pmx_request request;
} asked[REQUESTS];

static const char *
name_of(int error)
{
	const char *name = strerrorname_np(-error);

	return error == 0 ? "0" : name != NULL ? name : "?";
}

static void
tell(const char *what, int error, unsigned rank)
{
	printf("%s: %s", what, name_of(error));
	if (rank != UINT16_MAX)
		printf(" %u", rank);
	puts("");
	fflush(stdout);
}

/* Remembers a request that was begun, or tells why it was not. */
static void
begun(const char *what, int result, pmx_request request)
{
	unsigned i = 0;

	if (result != 0) {
		tell(what, result, UINT16_MAX);
		return;
	}
	while (asked[i].request != 0) {
		if (++i == REQUESTS)
			die("more than %u requests", REQUESTS);
	}
	snprintf(asked[i].what, sizeof(asked[i].what), "%s", what);
	asked[i].request = request;
}

static void
open_group(uint32_t id, int64_t timeout_ms, char **members, unsigned count)
{
	static struct pmx_addr list[MEMBERS];
	struct pmx_group_params p = {
		.size = sizeof(p),
		.id = id,
		.count = count,
		.members = list,
	};
	pmx_request r = 0;
	unsigned a, b;

	if (count > MEMBERS)
		die("more than %u members", MEMBERS);
	for (unsigned i = 0; i < count; i++) {
		if (sscanf(members[i], "%u:%u", &a, &b) != 2)
			die("not NODE:CONTEXT: %s", members[i]);
		list[i] = (struct pmx_addr){(uint16_t)a, (uint16_t)b};
	}
	int result = pmx_group_open(ctx, &p, timeout_ms * 1000, &group, &r);

	begun("open", result, r);
}

static void
wait_for(const char *what, int result, pmx_request r)
{
	if (result == 0)
		result = pmx_wait(ctx, &r, NULL, PATIENCE_US);
	if (result != 1)
		die_of(what, result);
}

static void
meet(void)
{
	pmx_request r = 0;
	int result = pmx_group_barrier(group, &r);

	wait_for("barrier", result, r);
}

/* Add one to the number at that place of a file. */
static void
add_one(int fd, const char *path, unsigned place)
{
	const off_t at = (off_t)(place * sizeof(uint64_t));
	uint64_t n = 0;

	if (pread(fd, &n, sizeof(n), at) < 0)
		die("%s: %s", path, strerror(errno));
	n++;
	if (pwrite(fd, &n, sizeof(n), at) != sizeof(n))
		die("%s: %s", path, strerror(errno));
}

/* Return whether the file has as many at its beginning as all members have counted behind that. */
static bool
adds_up(int fd)
{
	uint64_t n[1 + MEMBERS] = {0};

	if (pread(fd, n, sizeof(n), 0) < (ssize_t)sizeof(n[0]))
		return false;
	for (unsigned i = 1; i <= MEMBERS; i++)
		n[0] -= n[i];
	return n[0] == 0 && n[1 + pmx_group_rank(group)] != 0;
}

/* Nobody else does anything to the beginning of the file between the lock and the unlock. times: 0:
 * until there is a file PATH.enough. */
static void
work(const char *what, unsigned times, unsigned lock, const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	char enough[80];
	pmx_request r = 0;
	int result;

	if (fd < 0)
		die("%s: %s", path, strerror(errno));
	snprintf(enough, sizeof(enough), "%s.enough", path);
	meet();
	for (unsigned i = 0; times != 0 ? i < times : access(enough, F_OK) != 0; i++) {
		result = pmx_group_lock(group, lock, 0, &r);
		wait_for("lock", result, r);
		add_one(fd, path, 0);
		add_one(fd, path, 1 + pmx_group_rank(group));
		while ((result = pmx_group_unlock(group, lock)) == -EAGAIN)
			pmx_sends_pending(ctx);
		if (result != 0)
			die_of("unlock", result);
	}
	meet();
	if (!adds_up(fd))
		fail("the numbers do not add up");
	close(fd);
	tell(what, failed ? -EIO : 0, UINT16_MAX);
}

/* Return whether there is that round: one of `times`, or, with times 0, until there is a file
 * PATH.enough. Rank 0 then names the number of rounds in PATH.last. It does so before the last but
 * one, which nobody ends before rank 0 has begun it, so all know in time. */
static bool
has_round(unsigned round, unsigned times, const char *path)
{
	char enough[80], last[80], draft[80];
	unsigned all = UINT32_MAX;
	FILE *f;

	if (times != 0)
		return round < times;
	snprintf(enough, sizeof(enough), "%s.enough", path);
	snprintf(last, sizeof(last), "%s.last", path);
	snprintf(draft, sizeof(draft), "%s.draft", path);
	if (pmx_group_rank(group) == 0 && access(enough, F_OK) == 0 && access(last, F_OK) != 0) {
		f = fopen(draft, "w");
		if (f == NULL || fprintf(f, "%u", round + 2) < 0 || fclose(f) != 0 ||
			rename(draft, last) != 0)
			die("%s: %s", last, strerror(errno));
	}
	f = fopen(last, "r");
	if (f != NULL && fscanf(f, "%u", &all) != 1)
		die("%s has no number", last);
	if (f != NULL)
		fclose(f);
	return round < all;
}

/* ------------------------------------------------------------------ a shared region */

#define REGION       1
#define REGION_BYTES 20000
#define REGION_LOCK  3

/* bytes: of pmx_alloc(), the only memory that a thin client can offer */
static uint8_t *bytes, twin[REGION_BYTES], model[REGION_BYTES];

static uint32_t
draw_from(uint64_t *random)
{
	*random = *random * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*random >> 33);
}

/* Change the bytes as a writer does in a round: anywhere in a round under the lock, otherwise only
 * those that are its own. */
static void
change(uint8_t *to, unsigned rank, unsigned round, unsigned writers)
{
	uint64_t random = (uint64_t)round << 32 | rank;

	for (unsigned n = 1 + draw_from(&random) % 40; n > 0; n--) {
		uint32_t at = draw_from(&random) % REGION_BYTES;

		if (round % 2 == 1)
			at = (at / writers * writers + rank) % REGION_BYTES / writers * writers +
				rank;
		to[at] += (uint8_t)(1 + draw_from(&random) % 100);
	}
}

static void
write_round(unsigned round, unsigned writers)
{
	const struct pmx_part diff = {.kind = PMX_PART_DIFF, .twin = twin};
	const struct pmx_update u = {.region = REGION, .len = REGION_BYTES, .part = &diff};
	pmx_request r = 0;
	int result = 0;

	if (round % 2 == 0) {
		result = pmx_group_lock(group, REGION_LOCK, 0, &r);
		wait_for("lock", result, r);
	}
	/* what others have written is no change of one's own */
	memcpy(twin, bytes, sizeof(twin));
	change(bytes, pmx_group_rank(group), round, writers);
	result = pmx_group_update(group, &u, &r);
	wait_for("update", result, r);
	if (round % 2 == 1)
		return;
	while ((result = pmx_group_unlock(group, REGION_LOCK)) == -EAGAIN)
		pmx_sends_pending(ctx);
	if (result != 0)
		die_of("unlock", result);
}

/* In the end all copies are what the rounds make of the home's bytes. */
static void
share(const char *what, unsigned times, unsigned writers, const char *path)
{
	struct pmx_remote copy;
	pmx_request r = 0;
	bool writes = pmx_group_rank(group) < writers, in = writes;
	int result;

	must_succeed("allocating", pmx_alloc(ctx, REGION_BYTES, (void **)&bytes));
	memset(bytes, pmx_group_rank(group) == REGION ? 7 : 0, REGION_BYTES);
	must_succeed("registering",
		pmx_group_area_register(group, PMX_REGION(REGION), bytes, REGION_BYTES,
			PMX_REMOTE_READ | PMX_REMOTE_WRITE, &copy));
	if (writes) {
		result = pmx_group_subscribe(group, REGION, 0, &copy, NULL, &r);
		wait_for("subscribe", result, r);
	}
	unsigned rounds = 0;

	meet();
	for (; has_round(rounds, times, path); rounds++) {
		if (writes) {
			write_round(rounds, writers);
		} else {
			result = in ? pmx_group_unsubscribe(group, REGION, &r)
				    : pmx_group_subscribe(group, REGION, 0, &copy, NULL, &r);
			wait_for(in ? "unsubscribe" : "subscribe", result, r);
			in = !in;
		}
		meet();
	}
	if (!in) {
		result = pmx_group_subscribe(group, REGION, 0, &copy, NULL, &r);
		wait_for("subscribe", result, r);
	}
	memset(model, 7, sizeof(model));
	for (unsigned round = 0; round < rounds; round++) {
		for (unsigned rank = 0; rank < writers; rank++)
			change(model, rank, round, writers);
	}
	for (unsigned i = 0; i < REGION_BYTES && !failed; i++) {
		if (bytes[i] != model[i])
			fail("byte %u is %u and not %u", i, bytes[i], model[i]);
	}
	meet();
	tell(what, failed ? -EIO : 0, UINT16_MAX);
}

/* Regions of the commands subscribe, update, byte. */
#define SMALL_BYTES 100000

static uint8_t *small[4];

static void
subscribe(const char *what, unsigned region)
{
	struct pmx_remote copy;
	pmx_request r = 0;
	void *memory;

	/* thin clients can offer no other memory */
	must_succeed("allocating", pmx_alloc(ctx, SMALL_BYTES, &memory));
	small[region % 4] = memory;
	int result = pmx_group_area_register(group, PMX_REGION(region), memory, SMALL_BYTES,
		PMX_REMOTE_READ | PMX_REMOTE_WRITE, &copy);

	if (result == 0)
		result = pmx_group_subscribe(group, region, 0, &copy, NULL, &r);
	begun(what, result, r);
}

static void
update(const char *what, unsigned region, unsigned value)
{
	const struct pmx_update u = {.region = region, .len = SMALL_BYTES};
	pmx_request r = 0;

	memset(small[region % 4], (int)value, SMALL_BYTES);
	int result = pmx_group_update(group, &u, &r);

	begun(what, result, r);
}

#define CASTS_AREA  9
#define CASTS_BYTES (8u << 20)

/* Parts of a multicast, in words: three of ten; eight of twenty-four; those that have changed, two
 * of seven. */
static const char *const parts[] = {"all", "stride", "bitmap", "diff"};

static bool
is_in(unsigned part, unsigned words, unsigned i)
{
	switch (part) {
	case 1:
		return i % 10 < 3 && i / 10 < words / 10;
	case 2:
		return i / 8 % 3 == 0;
	case 3:
		return i % 7 < 2;
	default:
		return true;
	}
}

/* Writes the words of a round that are in the part; others: what the other ones become. */
static void
cast_write(uint64_t *at, unsigned words, unsigned part, uint64_t round, uint64_t others)
{
	for (unsigned i = 0; i < words; i++) {
		if (is_in(part, words, i))
			at[i] = (round << 32 | i) * 0x9E3779B97F4A7C15ull;
		else if (others != 0)
			at[i] = others;
	}
}

struct casts_memory {
	uint64_t *area, *local; /* where the others' multicasts arrive, and what ours reads */
	uint64_t *wanted;       /* the area as it must be */
	uint64_t *twin, *bits;  /* which words are in the part */
};

static void
casts_make_memory(struct casts_memory *m)
{
	struct pmx_remote r;

	must_succeed("allocating", pmx_alloc(ctx, CASTS_BYTES, (void **)&m->area));
	must_succeed("allocating", pmx_alloc(ctx, CASTS_BYTES, (void **)&m->local));
	must_succeed("registering",
		pmx_group_area_register(group, CASTS_AREA, m->area, CASTS_BYTES,
			PMX_REMOTE_READ | PMX_REMOTE_WRITE, &r));
	m->wanted = calloc(1, CASTS_BYTES);
	m->twin = calloc(1, CASTS_BYTES);
	m->bits = calloc(1, CASTS_BYTES / 512);
	if (m->wanted == NULL || m->twin == NULL || m->bits == NULL)
		die("no memory");
}

/* Make the set of all members but this one. */
static struct pmx_group_set *
set_of_others(void)
{
	struct pmx_group_set *set = NULL;
	uint32_t ranks[MEMBERS], others = 0;

	for (uint32_t i = 0; i < pmx_group_size(group); i++) {
		if (i != pmx_group_rank(group))
			ranks[others++] = i;
	}
	must_succeed("set", pmx_group_set_make(group, ranks, others, &set));
	return set;
}

/* Multicast a round's words. Return how long that took, in seconds. */
static double
cast_send(const struct pmx_multicast *m, uint64_t *words, unsigned part, uint64_t round)
{
	pmx_request q = 0;

	cast_write(words, (unsigned)m->len / 8, part, round, part == 3 ? 0 : ~round);
	const double from = now_s();
	const int result = pmx_group_multicast(group, m, &q);

	wait_for("multicast", result, q);
	return now_s() - from;
}

/* A barrier separates the rounds, so each multicast must be complete when it has ended; nothing
 * else of the area changes. */
static void
casts(const char *what, unsigned sender, unsigned rounds, unsigned len, unsigned part)
{
	static struct casts_memory own;
	static uint64_t round;
	static unsigned reach; /* of all so far */
	struct pmx_group_set *set = NULL;
	const uint32_t rank = pmx_group_rank(group);
	int error = 0;
	double took = 0;

	if (own.area == NULL)
		casts_make_memory(&own);
	reach = len > reach ? len : reach;
	for (unsigned i = 0; i < len / 64; i += 3)
		own.bits[i / 64] |= 1ull << i % 64;
	const struct pmx_part kinds[] = {
		[1] =
			{
				.kind = PMX_PART_STRIDE,
				.dims = 1,
				.block = 24,
				.interval = {80},
				.count = {len / 80},
			},
		[2] = {.kind = PMX_PART_BITMAP, .unit = 64, .bits = own.bits},
		[3] = {.kind = PMX_PART_DIFF, .twin = own.twin},
	};

	if (rank == sender) {
		set = set_of_others();
		memcpy(own.twin, own.local, len);
	}
	meet();
	for (unsigned i = 0; i < rounds; i++) {
		const struct pmx_multicast m = {
			.set = set,
			.area = CASTS_AREA,
			.local = own.local,
			.len = len,
			.part = part != 0 ? &kinds[part] : NULL,
		};

		round++;
		if (rank == sender) {
			took += cast_send(&m, own.local, part, round);
			if (part == 3 && memcmp(own.twin, own.local, len) != 0)
				error = -EILSEQ;
		} else {
			cast_write(own.wanted, len / 8, part, round, 0);
		}
		meet();
		if (rank != sender && error == 0 && memcmp(own.area, own.wanted, reach) != 0)
			error = -EIO;
		meet();
	}
	pmx_group_set_free(set);
	if (rank == sender)
		printf("# %.3f ms each\n", took * 1000 / rounds);
	tell(what, error, UINT16_MAX);
}

/* ------------------------------------------------------------------ collectives */

#define BLOCK     3000
#define VECTOR    20000
#define SLEEPS_US 3000

static uint8_t
brought(unsigned round, unsigned rank, unsigned i)
{
	return (uint8_t)(round * 13 + rank * 37 + i * 11 + (i >> 8));
}

/* The end of one collective that was begun. 0; or how it ended, with the rank because of which. */
static int
ends(int result, pmx_request r, bool sleeps, unsigned *because)
{
	struct pmx_status status = {.label = UINT16_MAX};

	if (sleeps && result == 0)
		usleep(SLEEPS_US);
	if (result == 0)
		result = pmx_wait(ctx, &r, &status, PATIENCE_US);
	*because = status.label;
	return result == 1 ? 0 : result == 0 ? -ETIMEDOUT : result;
}

/* One round. */
static int
round_of(unsigned round, bool sleeps, unsigned *because)
{
	static uint8_t vector[VECTOR], block[BLOCK], all[MEMBERS * BLOCK];
	const unsigned rank = pmx_group_rank(group), size = pmx_group_size(group);
	const unsigned root = round % size;
	double mine = rank + round, sum = 0;
	pmx_request r = 0;
	int e = pmx_allreduce(group, &mine, &sum, 1, PMX_DOUBLE, PMX_ATOMIC_SUM, &r);

	e = ends(e, r, sleeps, because);
	if (e == 0 && sum != size * (size - 1) / 2.0 + (double)size * round)
		die("round %u: the sum is %f", round, sum);
	for (unsigned i = 0; i < VECTOR; i++)
		vector[i] = rank == root ? brought(round, root, i) : 0;
	e = e == 0 ? pmx_bcast(group, root, vector, VECTOR, &r) : e;
	e = e == 0 ? ends(0, r, sleeps, because) : e;
	for (unsigned i = 0; e == 0 && i < VECTOR; i++) {
		if (vector[i] != brought(round, root, i))
			die("round %u: byte %u of the bcast is wrong", round, i);
	}
	for (unsigned i = 0; i < BLOCK; i++)
		block[i] = brought(round, rank, i);
	e = e == 0 ? pmx_allgather(group, block, all, BLOCK, &r) : e;
	e = e == 0 ? ends(0, r, sleeps, because) : e;
	for (unsigned i = 0; e == 0 && i < size * BLOCK; i++) {
		if (all[i] != brought(round, i / BLOCK, i % BLOCK))
			die("round %u: byte %u of the allgather is wrong", round, i);
	}
	return e;
}

/* A collective could not begin, as the group has ended: because of which rank is said by an
 * event. */
static unsigned
ended_by(void)
{
	struct pmx_event e = {.len = UINT16_MAX};

	while (pmx_poll_event(ctx, &e) == 1 && e.kind != PMX_EVENT_GROUP)
		;
	return (unsigned)e.len;
}

static void
collectives(const char *what, unsigned times, unsigned slow, const char *path)
{
	const bool sleeps = pmx_group_rank(group) + slow >= pmx_group_size(group);
	unsigned because = UINT16_MAX;
	int e = 0;

	for (unsigned i = 0; e == 0 && has_round(i, times, path); i++)
		e = round_of(i, sleeps, &because);
	if (e == -ECONNRESET && because == UINT16_MAX)
		because = ended_by();
	tell(what, e, e == 0 ? UINT16_MAX : because);
}

/* Returns false for "quit". */
static bool
obey(char *line)
{
	pmx_request r = 0;
	unsigned n = 0, times, rank;
	char path[64];

	if (strcmp(line, "quit") == 0)
		return false;
	if (strcmp(line, "barrier") == 0) {
		int result = pmx_group_barrier(group, &r);

		begun(line, result, r);
	} else if (sscanf(line, "lock %u", &n) == 1) {
		int result = pmx_group_lock(group, n, 0, &r);

		begun(line, result, r);
	} else if (sscanf(line, "try %u", &n) == 1) {
		int result = pmx_group_lock(group, n, PMX_TRY, &r);

		begun(line, result, r);
	} else if (sscanf(line, "unlock %u", &n) == 1) {
		tell(line, pmx_group_unlock(group, n), UINT16_MAX);
	} else if (strcmp(line, "close") == 0) {
		pmx_group_close(group);
		group = NULL;
		tell(line, 0, UINT16_MAX);
	} else if (strcmp(line, "reattach") == 0) {
		tell(line, pmx_reattach(node, PATIENCE_US), UINT16_MAX);
	} else if (sscanf(line, "work %u %u %63s", &times, &n, path) == 3) {
		work("work", times, n, path);
	} else if (sscanf(line, "share %u %u %63s", &times, &n, path) >= 2) {
		share("share", times, n, path);
	} else if (sscanf(line, "casts %u %u %u %63s", &rank, &times, &n, path) >= 3 &&
		n <= CASTS_BYTES) {
		unsigned part = sizeof(parts) / sizeof(parts[0]);

		while (--part > 0 && strcmp(path, parts[part]) != 0)
			;
		casts("casts", rank, times, n, part);
	} else if (sscanf(line, "subscribe %u", &n) == 1) {
		subscribe(line, n);
	} else if (sscanf(line, "update %u %u", &n, &times) == 2) {
		update(line, n, times);
	} else if (sscanf(line, "byte %u", &n) == 1) {
		printf("byte: %u\n", small[n % 4][SMALL_BYTES - 1]);
		fflush(stdout);
	} else if (sscanf(line, "collectives %u %u %63s", &times, &n, path) >= 2) {
		collectives("collectives", times, n, path);
	} else {
		die("no such command: %s", line);
	}
	return true;
}

/* Tells what has ended, and what happened. */
static void
look(void)
{
	struct pmx_event e;
	struct pmx_status s = {.label = UINT16_MAX};

	for (unsigned i = 0; i < REQUESTS; i++) {
		if (asked[i].request == 0)
			continue;
		int result = pmx_test(ctx, &asked[i].request, &s);

		/* -EPIPE: it has not ended, but will when the node is attached to again */
		if (asked[i].request == 0)
			tell(asked[i].what, result == 1 ? 0 : result, s.label);
	}
	while (pmx_poll_event(ctx, &e) == 1)
		tell(e.kind == PMX_EVENT_GONE ? "gone" : "over", e.error, (unsigned)e.len);
}

int
main(int argc, char **argv)
{
	char line[256];
	unsigned len = 0;
	bool goes_on = true;

	if (argc < 6) {
		fputs("Usage: groups INSTANCE CONTEXT GROUP TIMEOUT_MS NODE:CONTEXT...\n", stderr);
		return 2;
	}

	must_succeed("attaching", pmx_node_attach(&node, argv[1], NULL));
	/* the process before may have had that number a moment ago */
	double until = now_s() + 5;
	int result;

	while ((result = pmx_context_open(&ctx, node, atoi(argv[2]), NULL)) == -EBUSY &&
		now_s() < until)
		usleep(1000);
	must_succeed("opening", result);
	open_group((uint32_t)atoi(argv[3]), atoi(argv[4]), argv + 5, (unsigned)argc - 5);
	while (goes_on) {
		struct pollfd p[2] = {{.fd = 0, .events = POLLIN},
			{.fd = pmx_get_fd(ctx), .events = POLLIN}};
		char c;

		look();
		/* if the primary is gone, its end is told for ever */
		int wakes = pmx_before_select(ctx);

		poll(p, 2, wakes ? 1 : 1000);
		if (!wakes)
			pmx_after_select(ctx);
		if (p[0].revents == 0)
			continue;
		if (read(0, &c, 1) != 1)
			break;
		if (c != '\n' && len < sizeof(line) - 1) {
			line[len++] = c;
			continue;
		}
		line[len] = 0;
		len = 0;
		goes_on = obey(line);
	}
	pmx_context_close(ctx);
	pmx_node_close(node);
	return failed;
}
