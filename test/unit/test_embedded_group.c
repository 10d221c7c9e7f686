/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups by the public verbs, between embedded nodes whose link loses frames: opening, barriers,
 * locks, members that leave and a node that dies; and submissions that the library would not make.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#include <rte_eal.h>

#include "client/client.h"
#include "pmx/group.h"
#include "pmx/pmx.h"

#define NODES      2
#define CTXS       3 /* of a node */
#define ALL        (NODES * CTXS)
#define PATIENCE_S 60
#define NUMBER     77

static struct pmx_node *nodes[NODES];
static struct pmx_context *ctx[ALL];
static struct pmx_group *group[ALL];
/* of each context: its last request, how it ended (1: it has not), and what it said */
static pmx_request request[ALL];
static int ended[ALL];
static struct pmx_status said[ALL];
static struct pmx_event event[ALL];
static unsigned events[ALL];      /* so many came */
static unsigned takes_none = ALL; /* a context whose application takes no events */

static void
poll_all(void)
{
	for (unsigned n = 0; n < NODES; n++) {
		if (nodes[n] != NULL)
			pmx_node_poll(nodes[n]);
	}
	for (unsigned n = 0; n < ALL; n++) {
		if (ctx[n] == NULL || nodes[n / CTXS] == NULL)
			continue;
		events[n] += n != takes_none && pmx_poll_event(ctx[n], &event[n]) == 1;
		if (request[n] == 0)
			continue;
		ended[n] = pmx_test(ctx[n], &request[n], &said[n]);
		ended[n] = ended[n] == 0 ? 1 : ended[n] == 1 ? 0 : ended[n];
	}
}

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		time_t end_ = time(NULL) + PATIENCE_S;                                             \
		while (!(condition)) {                                                             \
			assert_true(time(NULL) < end_);                                            \
			poll_all();                                                                \
		}                                                                                  \
	} while (0)

static void
poll_some(void)
{
	for (unsigned i = 0; i < 1000; i++)
		poll_all();
}

static struct pmx_addr
member(unsigned n)
{
	return (struct pmx_addr){(uint16_t)(n / CTXS), (uint16_t)(n % CTXS)};
}

static bool
is_member(struct pmx_addr a, unsigned n)
{
	return a.node == member(n).node && a.context == member(n).context;
}

static int
opens(unsigned n, uint32_t count, int64_t timeout_us)
{
	struct pmx_addr members[ALL];
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = NUMBER,
		.count = count,
		.members = members,
	};

	for (unsigned i = 0; i < count; i++)
		members[i] = member(i);
	ended[n] = 1;
	return pmx_group_open(ctx[n], &p, timeout_us, &group[n], &request[n]);
}

static void
enters(unsigned n)
{
	ended[n] = 1;
	assert_int_equal(pmx_group_barrier(group[n], &request[n]), 0);
}

static void
asks(unsigned n, uint32_t lock, unsigned flags)
{
	ended[n] = 1;
	assert_int_equal(pmx_group_lock(group[n], lock, flags, &request[n]), 0);
}

static void
closes(unsigned n)
{
	pmx_group_close(group[n]);
	group[n] = NULL;
}

static int
start(void **state)
{
	(void)state;
	memset(request, 0, sizeof(request));
	memset(events, 0, sizeof(events));
	memset(group, 0, sizeof(group));
	for (unsigned n = 0; n < NODES; n++) {
		char text[512], error[256] = "";
		const struct pmx_node_params params = {.size = sizeof(params), .config_text = text};

		snprintf(text, sizeof(text),
			"[node]\nid = %u\nname = group%u\n[link 0]\ndriver = loop\nport = group\n"
			"encap = none\nfault = loss=2%%,seed=%u\n[nodes]\n0 = auto\n1 = auto\n"
			"[proto]\nkeepalive_ms = 100\nrto_max_us = 20000\nretries = 10\n"
			"[limits]\ncontexts = 4\nmbufs = 8192\n"
			"groups = 2\ngroup_members = 6\ngroup_locks = 8\ntransfers = 8\n",
			n, n, n + 1);
		if (pmx_node_start(&nodes[n], &params, error, sizeof(error)) != 0) {
			print_error("%s\n", error);
			return -1;
		}
	}
	for (unsigned n = 0; n < ALL; n++) {
		if (pmx_context_open(&ctx[n], nodes[n / CTXS], n % CTXS, NULL) != 0)
			return -1;
	}
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	/* closing a context polls its own node only, so the others hear of it here first */
	for (unsigned n = 0; n < ALL; n++) {
		if (group[n] != NULL)
			closes(n);
	}
	for (unsigned i = 0; i < 100; i++)
		poll_some();
	for (unsigned n = 0; n < ALL; n++) {
		if (ctx[n] != NULL)
			pmx_context_close(ctx[n]);
		ctx[n] = NULL;
	}
	for (unsigned n = 0; n < NODES; n++) {
		if (nodes[n] != NULL)
			pmx_node_close(nodes[n]);
		nodes[n] = NULL;
	}
	return 0;
}

static void
all_open(uint32_t count)
{
	for (unsigned n = count; n-- > 0;)
		assert_int_equal(opens(n, count, 30000000), 0);
	for (unsigned n = 0; n < count; n++) {
		UNTIL(ended[n] != 1);
		assert_int_equal(ended[n], 0);
		assert_int_equal(pmx_group_rank(group[n]), n);
		assert_int_equal(pmx_group_size(group[n]), count);
	}
}

static void
group__barriers(void **state)
{
	(void)state;
	all_open(ALL);
	for (unsigned b = 1; b <= 200; b++) {
		for (unsigned n = 0; n < ALL; n++) {
			enters(n);
			poll_all();
			for (unsigned i = 0; i <= n && n < ALL - 1; i++)
				assert_int_equal(ended[i], 1);
		}
		for (unsigned n = 0; n < ALL; n++) {
			UNTIL(ended[n] != 1);
			assert_int_equal(said[n].tag, b);
			assert_int_equal(ended[n], 0);
		}
	}
}

/* All want the same three locks again and again. */
static void
group__locks(void **state)
{
	unsigned had[ALL] = {0}, all = 0, holder[3] = {ALL, ALL, ALL};
	bool asked[ALL] = {false};
	time_t end = time(NULL) + PATIENCE_S;

	(void)state;
	all_open(ALL);
	for (unsigned step = 0; all < 600; step++) {
		unsigned n = step % ALL, l = step / ALL % 3;

		assert_true(time(NULL) < end);
		if (holder[l] == n) {
			assert_int_equal(pmx_group_unlock(group[n], l), 0);
			holder[l] = ALL;
		} else if (!asked[n]) {
			asks(n, l, 0);
			asked[n] = true;
		}
		poll_all();
		for (unsigned i = 0; i < ALL; i++) {
			if (!asked[i] || ended[i] == 1)
				continue;
			assert_int_equal(ended[i], 0);
			assert_int_equal(holder[said[i].tag], ALL);
			asked[i] = false;
			holder[said[i].tag] = i;
			had[i]++;
			all++;
		}
	}
	for (unsigned n = 0; n < ALL; n++)
		assert_true(had[n] > 0);
}

static void
group__tries(void **state)
{
	(void)state;
	all_open(3);
	asks(1, 5, 0);
	UNTIL(ended[1] == 0);
	asks(2, 5, PMX_TRY);
	UNTIL(ended[2] != 1);
	assert_int_equal(ended[2], -EBUSY);
	assert_int_equal(pmx_group_unlock(group[1], 5), 0);
	do {
		asks(2, 5, PMX_TRY);
		UNTIL(ended[2] != 1);
	} while (ended[2] == -EBUSY);
	assert_int_equal(ended[2], 0);
}

/* Check that what is wrong is refused by the library, with a reason, and that nothing happens. */
static void
group__refuses_what_is_wrong(void **state)
{
	struct pmx_addr twice[] = {member(0), member(1), member(0)}, other[] = {member(1)};
	struct pmx_group_params p = {.size = sizeof(p), .id = 1, .count = 3, .members = twice};
	struct pmx_group *g;
	pmx_request r;

	(void)state;
	assert_int_equal(pmx_group_open(ctx[0], &p, 10000000, &g, &r), -EINVAL);
	p = (struct pmx_group_params){.size = sizeof(p), .id = 1, .count = 1, .members = other};
	assert_int_equal(pmx_group_open(ctx[0], &p, 10000000, &g, &r), -EINVAL);
	p.count = 0;
	assert_int_equal(pmx_group_open(ctx[0], &p, 10000000, &g, &r), -EINVAL);
	p.count = 7; /* limits.group_members = 6 */
	assert_int_equal(pmx_group_open(ctx[0], &p, 10000000, &g, &r), -EINVAL);
	/* without a number */
	p = (struct pmx_group_params){.size = sizeof(p), .count = 2, .members = twice};
	assert_int_equal(pmx_group_open(ctx[0], &p, 10000000, &g, &r), -EINVAL);
	all_open(3);
	assert_int_equal(pmx_group_barrier(group[0], NULL), -EINVAL);
	assert_int_equal(pmx_group_lock(group[0], 8, 0, &r), -EINVAL);
	assert_int_equal(pmx_group_lock(group[0], 0, 8, &r), -EINVAL);
	assert_int_equal(pmx_group_unlock(group[0], 8), -EINVAL);
	assert_int_equal(pmx_group_unlock(group[0], 0), -EPERM);
	asks(0, 0, 0);
	assert_int_equal(pmx_group_lock(group[0], 0, 0, &r), -EDEADLK);
	UNTIL(ended[0] == 0);
	assert_int_equal(pmx_group_lock(group[0], 0, 0, &r), -EDEADLK);
	enters(0);
	assert_int_equal(pmx_group_barrier(group[0], &r), -EBUSY);
	assert_int_equal(pmx_group_member(group[0], 3, NULL), -EINVAL);
	assert_int_equal(pmx_group_member(group[0], 2, &twice[0]), 0);
	assert_true(is_member(twice[0], 2));
	/* the same number again: the engine knows it; a third group: limits.groups = 2 */
	pmx_request mine = request[0];
	struct pmx_group *first = group[0];

	assert_int_equal(opens(0, 3, 0), 0);
	UNTIL(ended[0] != 1);
	assert_int_equal(ended[0], -EEXIST);
	p = (struct pmx_group_params){.size = sizeof(p), .id = 2, .count = 3, .members = twice};
	twice[0] = member(0), twice[2] = member(2);
	assert_int_equal(pmx_group_open(ctx[0], &p, 10000000, &g, &r), -ENOSPC);
	closes(0);
	assert_int_equal(pmx_group_open(ctx[0], &p, 10000000, &g, &r), 0);
	pmx_group_close(g);
	assert_int_equal(pmx_test(ctx[0], &r, NULL), -ECANCELED);
	group[0] = first;
	request[0] = mine;
	enters(1);
	enters(2);
	UNTIL(ended[0] == 0 && ended[1] == 0 && ended[2] == 0);
}

/* Submissions that the library never makes: the engine counts them, and goes on. */
static void
group__the_engine_refuses(void **state)
{
	static const struct submission bad[] = {
		{.op = SUBMIT_GROUP, .count = GROUP_OPEN, .group = {.handle = 0, .members = 3}},
		{.op = SUBMIT_GROUP, .count = GROUP_OPEN, .group = {.handle = 99, .members = 3}},
		{.op = SUBMIT_GROUP, .count = GROUP_LIST, .group = {.handle = 0, .members = 60}},
		{.op = SUBMIT_GROUP, .count = GROUP_LIST, .group = {.handle = 0, .members = 1}},
		{.op = SUBMIT_GROUP, .count = GROUP_LOCK, .group = {.handle = 0, .number = 8}},
		{.op = SUBMIT_GROUP, .count = GROUP_UNLOCK, .group = {.handle = 0, .number = 0}},
		{.op = SUBMIT_GROUP, .count = GROUP_CLOSE, .group = {.handle = 1}},
		{.op = SUBMIT_GROUP, .count = GROUP_ENTER, .group = {.handle = 65535}},
		{.op = SUBMIT_GROUP, .count = 77, .group = {.handle = 0}},
	};

	(void)state;
	all_open(3);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct slot_end *sub = &ctx[2]->sub;

		assert_true(slot_room(sub, 1));
		memcpy(slot_at(sub, sub->pos)->body, &bad[i], sizeof(bad[i]));
		slot_publish(sub, sub->pos++);
		poll_some();
	}
	assert_int_equal(events[0] + events[1] + events[2], 0);
	for (unsigned n = 0; n < 3; n++)
		enters(n);
	UNTIL(ended[0] == 0 && ended[1] == 0 && ended[2] == 0);
}

static void
group__does_not_open_without_all(void **state)
{
	const unsigned there[] = {0, 1, 3};

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(opens(there[i], 4, 2000000), 0);
	for (unsigned i = 0; i < 3; i++) {
		unsigned n = there[i];

		UNTIL(ended[n] != 1);
		assert_int_equal(ended[n], -ETIMEDOUT);
		assert_int_equal(pmx_group_barrier(group[n], &request[n]), -ECONNRESET);
		closes(n);
	}
	assert_int_equal(said[0].label, 2);
	assert_true(is_member(said[0].source, 2));
}

/* One that leaves hands its lock on, and ends the barrier that the others are in. */
static void
group__a_member_ends(void **state)
{
	(void)state;
	all_open(ALL);
	asks(4, 1, 0);
	UNTIL(ended[4] == 0);
	asks(5, 1, 0);
	for (unsigned n = 0; n < 4; n++)
		enters(n);
	poll_some();
	assert_int_equal(ended[5], 1);
	/* as when its context ends; pmx_context_close() would wait here for a node that this thread
	 * polls */
	closes(4);
	UNTIL(ended[5] != 1);
	assert_int_equal(ended[5], -EOWNERDEAD);
	for (unsigned n = 0; n < 4; n++) {
		UNTIL(ended[n] != 1 && events[n] == 1);
		assert_int_equal(ended[n], -ECONNRESET);
		assert_int_equal(said[n].label, 4);
		assert_int_equal(event[n].kind, PMX_EVENT_GONE);
		assert_int_equal(event[n].len, 4);
		assert_int_equal(event[n].immediate, NUMBER);
		assert_int_equal(event[n].error, 0);
		assert_int_equal(pmx_group_member(group[n], 4, NULL), -ENOTCONN);
	}
	/* those that are left go on */
	assert_int_equal(pmx_group_unlock(group[5], 1), 0);
	enters(5);
	UNTIL(ended[5] != 1);
	assert_int_equal(ended[5], -ECONNRESET);
	for (unsigned n = 0; n < ALL; n++) {
		if (n != 4)
			enters(n);
	}
	for (unsigned n = 0; n < ALL; n++) {
		if (n != 4)
			UNTIL(ended[n] == 0);
	}
	/* its lock is nobody's */
	asks(0, 4, 0);
	UNTIL(ended[0] != 1);
	assert_int_equal(ended[0], -EHOSTDOWN);
	assert_int_equal(said[0].label, 4);
}

/* A node that is not polled any more is dead for the others, in the time that keepalive takes. */
static void
group__a_node_dies(void **state)
{
	struct pmx_node *dead = nodes[1];

	(void)state;
	all_open(ALL);
	asks(5, 1, 0);
	UNTIL(ended[5] == 0);
	asks(0, 1, 0);
	enters(1);
	poll_some();
	nodes[1] = NULL;
	UNTIL(ended[0] != 1);
	assert_int_equal(ended[0], -EOWNERDEAD);
	UNTIL(ended[1] != 1);
	assert_int_equal(ended[1], -ECONNRESET);
	UNTIL(events[0] == CTXS);
	assert_true(event[0].error < 0);
	for (unsigned n = 0; n < CTXS; n++)
		closes(n);
	/* when all have left, another one can be opened with that number */
	all_open(CTXS);
	nodes[1] = dead;
}

/* Pushes to an area, and returns how that ended. */
static int
pushes(unsigned n, unsigned to, uint64_t key)
{
	static uint64_t local;
	const struct pmx_transfer t = {
		.peer = member(to),
		.flags = PMX_AREA,
		.key = key,
		.local = &local,
		.len = sizeof(local),
	};
	pmx_transfer_id id;
	int result;

	local++;
	UNTIL((result = pmx_push(ctx[n], &t, &id)) != -EAGAIN);
	assert_int_equal(result, 0);
	UNTIL((result = pmx_transfer_done(ctx[n], id)) != 0);
	return result;
}

/* Areas of a group are for its members, others for who owns them, unless they are for anyone. */
static void
group__areas(void **state)
{
	const uint64_t key = (uint64_t)NUMBER << 32 | 5;
	struct pmx_remote unused;
	static uint64_t bytes[3];

	(void)state;
	all_open(4); /* 4 and 5 are strangers, on the owner's node */
	assert_int_equal(pmx_area_register(ctx[3], 5, &bytes[0], 8, PMX_REMOTE_WRITE, &unused), 0);
	assert_int_equal(
		pmx_group_area_register(group[3], 5, &bytes[1], 8, PMX_REMOTE_WRITE, &unused), 0);
	assert_int_equal(
		pmx_area_register(ctx[3], 6, &bytes[2], 8, PMX_ANYONE | PMX_REMOTE_WRITE, &unused),
		0);
	assert_int_equal(pushes(0, 3, 5), -EACCES);
	assert_int_equal(pushes(4, 3, 5), -EACCES);
	assert_int_equal(bytes[0], 0);
	assert_int_equal(pushes(3, 3, 5), 1);
	assert_true(bytes[0] != 0);
	assert_int_equal(pushes(4, 3, key), -ENOTCONN);
	assert_int_equal(pushes(5, 3, key), -ENOTCONN);
	assert_int_equal(pushes(0, 3, key + (1ull << 32)), -ENOKEY);
	assert_int_equal(bytes[1], 0);
	assert_int_equal(pushes(0, 3, key), 1);
	assert_int_equal(pushes(2, 3, key), 1);
	assert_int_equal(pushes(3, 3, key), 1);
	assert_true(bytes[1] != 0);
	assert_int_equal(pushes(5, 3, 6), 1);
	assert_int_equal(pushes(0, 3, 6), 1);
	/* who left is a stranger */
	closes(2);
	UNTIL(events[3] == 1);
	assert_int_equal(pushes(2, 3, key), -ENOTCONN);
	assert_int_equal(pushes(1, 3, key), 1);
	closes(0);
	UNTIL(events[3] == 2);
	assert_int_equal(pushes(1, 3, key), -ENOTCONN);
	assert_int_equal(
		pmx_group_area_register(group[3], 9, &bytes[1], 8, PMX_REMOTE_WRITE, &unused),
		-ECONNRESET);
	assert_int_equal(pmx_register(ctx[3], bytes, 8, PMX_ANYONE | PMX_REMOTE_WRITE, &unused),
		-EINVAL);
	assert_int_equal(pmx_area_register(ctx[3], 9, bytes, 8, PMX_ANYONE, &unused), -EINVAL);
}

#define AREA       5
#define AREA_BYTES 20000

static uint8_t areas[ALL][AREA_BYTES];

/* All are in a group, with an area each. */
static void
all_have_areas(void)
{
	struct pmx_remote unused;

	memset(areas, 0, sizeof(areas));
	all_open(ALL);
	for (unsigned n = 0; n < ALL; n++)
		assert_int_equal(pmx_group_area_register(group[n], AREA, areas[n], AREA_BYTES,
					 PMX_REMOTE_WRITE, &unused),
			0);
}

static struct pmx_group_set *
set_of(unsigned n, uint32_t count, const uint32_t *ranks)
{
	struct pmx_group_set *set = NULL;

	assert_int_equal(pmx_group_set_make(group[n], ranks, count, &set), 0);
	return set;
}

static void
multicasts(unsigned n, const struct pmx_multicast *m)
{
	ended[n] = 1;
	assert_int_equal(pmx_group_multicast(group[n], m, &request[n]), 0);
	UNTIL(ended[n] != 1);
}

static void
fill(uint8_t *bytes, unsigned salt)
{
	for (unsigned i = 0; i < AREA_BYTES; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256 + salt);
}

/* All bytes, whole frames of them and none; to oneself as well; notifications. */
static void
group__multicast(void **state)
{
	static const uint64_t lens[] = {0, 1, 1000, AREA_BYTES};
	static uint8_t local[AREA_BYTES];
	const uint32_t ranks[] = {5, 1, 2, 3};
	uint64_t failed = UINT64_MAX;

	(void)state;
	all_have_areas();
	struct pmx_group_set *set = set_of(2, 4, ranks);

	for (unsigned i = 0; i < 4; i++) {
		const struct pmx_multicast m = {
			.set = set,
			.flags = PMX_NOTIFY,
			.area = AREA,
			.remote = AREA_BYTES - lens[i],
			.local = local,
			.len = lens[i],
			.immediate = 100 + i,
			.failed = &failed,
		};
		fill(local, i);
		memset(events, 0, sizeof(events));
		multicasts(2, &m);
		assert_int_equal(ended[2], 0);
		assert_int_equal(failed, 0);
		for (unsigned k = 0; k < 4; k++) {
			UNTIL(events[ranks[k]] == 1);
			assert_int_equal(event[ranks[k]].kind, PMX_EVENT_PUSHED);
			assert_int_equal(event[ranks[k]].immediate, 100 + i);
			assert_memory_equal(areas[ranks[k]] + m.remote, local, lens[i]);
		}
	}
	/* those that are not in it have nothing */
	for (unsigned i = 0; i < AREA_BYTES; i++)
		assert_int_equal(areas[0][i] | areas[4][i], 0);
	pmx_group_set_free(set);
}

/* Stride, bitmap, diff: each receiver has those bytes, and no others have changed. */
static void
group__multicast_in_parts(void **state)
{
	static uint8_t local[AREA_BYTES], twin[AREA_BYTES], wanted[AREA_BYTES];
	static uint64_t bits[AREA_BYTES / 8 / 64 + 1];
	const uint32_t ranks[] = {0, 1, 2, 3, 4, 5};
	const struct pmx_part parts[] = {
		{
			.kind = PMX_PART_STRIDE,
			.dims = 1,
			.block = 10,
			.interval = {100},
			.count = {200},
		},
		{.kind = PMX_PART_BITMAP, .unit = 8, .bits = bits},
		{.kind = PMX_PART_DIFF, .twin = twin},
	};

	(void)state;
	all_have_areas();
	struct pmx_group_set *set = set_of(3, ALL, ranks);

	for (unsigned k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
		const struct pmx_multicast m = {
			.set = set,
			.area = AREA,
			.local = local,
			.len = AREA_BYTES,
			.part = &parts[k],
		};

		memset(areas, 0xEE, sizeof(areas));
		memset(wanted, 0xEE, sizeof(wanted));
		fill(local, k);
		memcpy(twin, local, sizeof(twin));
		for (unsigned i = 0; i < AREA_BYTES; i++) {
			const bool is_set = i % 1000 < 500 && i / 8 % 3 == 0;

			bits[i / 8 / 64] |= (uint64_t)is_set << i / 8 % 64;
			if (k == 2 && i % 999 < 20)
				local[i]++;
			if (k == 0               ? i % 100 < 10
					: k == 1 ? bits[i / 512] >> i / 8 % 64 & 1
						 : i % 999 < 20)
				wanted[i] = local[i];
		}
		multicasts(3, &m);
		assert_int_equal(ended[3], 0);
		for (unsigned n = 0; n < ALL; n++)
			assert_memory_equal(areas[n], wanted, AREA_BYTES);
		if (k == 2)
			assert_memory_equal(twin, local, AREA_BYTES);
	}
	pmx_group_set_free(set);
}

/* Check that what differs from one twin may go to two sets at once: neither ends the other's. */
static void
group__multicasts_of_one_twin(void **state)
{
	static uint8_t local[AREA_BYTES], twin[AREA_BYTES];
	const uint32_t ranks[2][3] = {{3, 4, 5}, {1, 2, 0}};
	const struct pmx_part part = {.kind = PMX_PART_DIFF, .twin = twin};
	struct pmx_group_set *sets[2];
	pmx_request r[2] = {0};

	(void)state;
	all_have_areas();
	for (unsigned i = 0; i < AREA_BYTES; i += 10)
		local[i] = 7;
	for (unsigned k = 0; k < 2; k++) {
		sets[k] = set_of(0, 3, ranks[k]);
		const struct pmx_multicast m = {
			.set = sets[k],
			.area = AREA,
			.local = local,
			.len = AREA_BYTES,
			.part = &part,
		};

		assert_int_equal(pmx_group_multicast(group[0], &m, &r[k]), 0);
	}
	for (unsigned k = 0; k < 2; k++) {
		UNTIL((ended[0] = pmx_test(ctx[0], &r[k], NULL)) != 0);
		assert_int_equal(ended[0], 1);
		pmx_group_set_free(sets[k]);
	}
	for (unsigned n = 0; n < ALL; n++)
		assert_memory_equal(areas[n], local, AREA_BYTES);
	assert_memory_equal(twin, local, AREA_BYTES);
}

/* More receivers than the context may have transfers, several at once, beside own transfers. */
static void
group__multicasts_at_once(void **state)
{
	static uint8_t local[8][AREA_BYTES / 8];
	const uint32_t ranks[] = {0, 1, 2, 3, 4, 5};
	pmx_request r[9] = {0};

	(void)state;
	all_have_areas();
	struct pmx_group_set *set = set_of(0, ALL, ranks);

	for (unsigned i = 0; i < 9; i++) {
		const struct pmx_multicast m = {
			.set = set,
			.area = AREA,
			.remote = i * sizeof(local[0]),
			.local = local[i % 8],
			.len = sizeof(local[0]),
		};

		memset(local[i % 8], 0x11 * (int)i + 1, sizeof(local[0]));
		assert_int_equal(pmx_group_multicast(group[0], &m, &r[i]), i < 8 ? 0 : -EAGAIN);
	}
	/* a set may be freed while it is used */
	pmx_group_set_free(set);
	assert_int_equal(pushes(0, 4, (uint64_t)NUMBER << 32 | AREA), 1);
	for (unsigned i = 0; i < 8; i++) {
		UNTIL((ended[0] = pmx_test(ctx[0], &r[i], NULL)) != 0);
		assert_int_equal(ended[0], 1);
	}
	for (unsigned n = 0; n < ALL; n++)
		assert_memory_equal(areas[n] + 8, &local[0][8], sizeof(local) - 8);
}

/* Long ones and short ones, to all: with PMX_ORDERED each receiver is told of them in the order in
 * which they were begun, and has the bytes of those before. */
static void
group__multicasts_in_order(void **state)
{
	static uint8_t local[8][AREA_BYTES / 8];
	const uint32_t ranks[] = {1, 2, 3, 4, 5};
	unsigned told[ALL] = {0}, before[ALL];
	pmx_request r[8];

	(void)state;
	all_have_areas();
	memcpy(before, events, sizeof(before));
	struct pmx_group_set *set = set_of(0, ALL - 1, ranks);

	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = 0; i < 8; i++) {
			const struct pmx_multicast m = {
				.set = set,
				.flags = PMX_NOTIFY | PMX_ORDERED,
				.area = AREA,
				.remote = i * sizeof(local[0]),
				.local = local[i],
				.len = i % 2 != 0 ? 8 : sizeof(local[0]),
				.immediate = 8 * round + i,
			};

			memset(local[i], (int)(0x10 * round + i + 1), sizeof(local[0]));
			assert_int_equal(pmx_group_multicast(group[0], &m, &r[i]), 0);
		}
		for (bool all = false; !all;) {
			all = true;
			poll_all(); /* takes one event of each */
			for (unsigned n = 1; n < ALL; n++) {
				if (events[n] - before[n] != told[n]) {
					assert_int_equal(event[n].kind, PMX_EVENT_PUSHED);
					assert_int_equal(event[n].immediate, told[n]);
					const unsigned i = told[n]++ % 8;

					assert_int_equal(areas[n][i * sizeof(local[0])],
						0x10 * round + i + 1);
				}
				all &= told[n] == 8 * round + 8;
			}
			pmx_progress(ctx[0]);
		}
		for (unsigned i = 0; i < 8; i++) {
			UNTIL((ended[0] = pmx_test(ctx[0], &r[i], NULL)) != 0);
			assert_int_equal(ended[0], 1);
		}
	}
	pmx_group_set_free(set);
}

/* Check that a multicast names the member that has left, or has no such area, and that the others
 * have the bytes. */
static void
group__multicast_says_who_has_it_not(void **state)
{
	static uint8_t local[AREA_BYTES];
	const uint32_t ranks[] = {1, 5, 4, 2};
	uint64_t failed = 0;

	(void)state;
	all_have_areas();
	struct pmx_group_set *set = set_of(0, 4, ranks);
	struct pmx_multicast m = {
		.set = set,
		.area = AREA,
		.local = local,
		.len = AREA_BYTES,
		.failed = &failed,
	};

	fill(local, 3);
	closes(4);
	multicasts(0, &m);
	assert_true(ended[0] < 0);
	assert_int_equal(failed, 4);
	assert_int_equal(said[0].label, 4);
	assert_true(is_member(said[0].source, 4));
	for (unsigned i = 0; i < 4; i++) {
		if (ranks[i] != 4)
			assert_memory_equal(areas[ranks[i]], local, AREA_BYTES);
	}
	/* known before */
	UNTIL(pmx_group_member(group[0], 4, NULL) == -ENOTCONN);
	multicasts(0, &m);
	assert_int_equal(ended[0], -ENOTCONN);
	assert_int_equal(failed, 4);
	m.area = AREA + 1;
	multicasts(0, &m);
	assert_int_equal(ended[0], -ENOKEY);
	assert_int_equal(said[0].label, 1);
	assert_int_equal(failed, 15);
	m = (struct pmx_multicast){
		.set = set,
		.area = AREA,
		.local = local,
		.remote = 1,
		.len = AREA_BYTES,
	};
	multicasts(0, &m);
	assert_int_equal(ended[0], -ERANGE);
	pmx_group_set_free(set);
}

static void
group__multicast_refuses(void **state)
{
	static uint8_t local[64], twin[64];
	const uint32_t twice[] = {1, 2, 1}, none[] = {ALL};
	const struct pmx_part part = {.kind = PMX_PART_TWIN, .twin = twin},
			      stride = {.kind = PMX_PART_STRIDE, .dims = 4};
	struct pmx_group_set *set;
	pmx_request r;

	(void)state;
	all_have_areas();
	assert_int_equal(pmx_group_set_make(group[0], twice, 3, &set), -EINVAL);
	assert_int_equal(pmx_group_set_make(group[0], none, 1, &set), -EINVAL);
	assert_int_equal(pmx_group_set_make(group[0], twice, 0, &set), -EINVAL);
	set = set_of(0, 2, twice);
	const struct pmx_multicast good = {.set = set, .area = AREA, .local = local, .len = 64};
	struct pmx_multicast m = good;

	assert_int_equal(pmx_group_multicast(group[0], &good, NULL), -EINVAL);
	m.set = NULL;
	assert_int_equal(pmx_group_multicast(group[0], &m, &r), -EINVAL);
	m = good, m.flags = PMX_EVENT;
	assert_int_equal(pmx_group_multicast(group[0], &m, &r), -EINVAL);
	m = good, m.local = NULL;
	assert_int_equal(pmx_group_multicast(group[0], &m, &r), -EINVAL);
	m = good, m.part = &part;
	assert_int_equal(pmx_group_multicast(group[0], &m, &r), -EOPNOTSUPP);
	m = good, m.part = &stride;
	assert_int_equal(pmx_group_multicast(group[0], &m, &r), -EINVAL);
	pmx_group_set_free(set);
	pmx_group_set_free(NULL);
}

/* Rank 0 goes, and the group with it, at any moment of a multicast: it ends. */
static void
group__ends_under_a_multicast(void **state)
{
	static uint8_t local[AREA_BYTES];
	const uint32_t ranks[] = {3, 4, 5, 2};

	(void)state;
	for (unsigned moment = 0; moment < 12; moment++) {
		all_have_areas();
		struct pmx_group_set *set = set_of(1, 4, ranks);
		const struct pmx_multicast m = {
			.set = set,
			.area = AREA,
			.local = local,
			.len = AREA_BYTES,
		};

		ended[1] = 1;
		assert_int_equal(pmx_group_multicast(group[1], &m, &request[1]), 0);
		for (unsigned i = 0; i < moment * moment; i++)
			poll_all();
		closes(0);
		UNTIL(ended[1] != 1);
		pmx_group_set_free(set);
		assert_int_equal(stop(NULL), 0);
		assert_int_equal(start(NULL), 0);
	}
}

/* The group is closed under a multicast, whose request ends; and another one is opened. */
static void
group__is_closed_under_a_multicast(void **state)
{
	static uint8_t local[AREA_BYTES];
	const uint32_t ranks[] = {3, 4, 5};

	(void)state;
	all_have_areas();
	struct pmx_group_set *set = set_of(0, 3, ranks);
	const struct pmx_multicast m = {
		.set = set,
		.area = AREA,
		.local = local,
		.len = AREA_BYTES,
	};

	assert_int_equal(pmx_group_multicast(group[0], &m, &request[0]), 0);
	pmx_group_set_free(set);
	closes(0);
	assert_int_equal(pmx_test(ctx[0], &request[0], NULL), -ECANCELED);
	for (unsigned n = 1; n < ALL; n++)
		UNTIL(events[n] != 0);
	for (unsigned n = 1; n < ALL; n++)
		closes(n);
	UNTIL(pmx_transfers_pending(ctx[0]) == 0);
	all_open(ALL);
}

/* The group ends for all when rank 0 does. */
static void
group__rank_0_ends(void **state)
{
	(void)state;
	all_open(4);
	asks(2, 3, 0);
	UNTIL(ended[2] == 0);
	enters(3);
	closes(0);
	for (unsigned n = 1; n < 4; n++) {
		UNTIL(events[n] == 1);
		assert_int_equal(event[n].kind, PMX_EVENT_GROUP);
		assert_int_equal(event[n].len, 0);
		assert_int_equal(event[n].error, -ECONNRESET);
	}
	UNTIL(ended[3] != 1);
	assert_int_equal(ended[3], -ECONNRESET);
	assert_int_equal(said[3].label, 0);
	assert_int_equal(pmx_group_unlock(group[2], 3), -EHOSTDOWN);
	assert_int_equal(pmx_group_unlock(group[2], 3), -EPERM);
	for (unsigned n = 1; n < 4; n++)
		closes(n);
	/* and another one can be opened */
	all_open(4);
}

/* ------------------------------------------------------------------ shared regions */

#define REGION 3 /* its home is rank 3 */

static uint8_t twins[ALL][AREA_BYTES];
static struct pmx_remote copies[ALL];

static void
registers(unsigned n, uint64_t len)
{
	assert_int_equal(pmx_group_area_register(group[n], PMX_REGION(REGION), areas[n], len,
				 PMX_REMOTE_READ | PMX_REMOTE_WRITE, &copies[n]),
		0);
}

static void
asks_to_share(unsigned n, unsigned flags)
{
	ended[n] = 1;
	assert_int_equal(
		pmx_group_subscribe(group[n], REGION, flags, &copies[n], twins[n], &request[n]), 0);
}

static void
subscribes(unsigned n)
{
	asks_to_share(n, 0);
}

static void
shares(unsigned n)
{
	registers(n, AREA_BYTES);
	subscribes(n);
	UNTIL(ended[n] != 1);
	assert_int_equal(ended[n], 0);
}

static void
unsubscribes(unsigned n)
{
	ended[n] = 1;
	assert_int_equal(pmx_group_unsubscribe(group[n], REGION, &request[n]), 0);
	UNTIL(ended[n] != 1);
}

static void
updates(unsigned n, uint64_t at, uint64_t len, const struct pmx_part *part)
{
	const struct pmx_update u = {.region = REGION, .at = at, .len = len, .part = part};

	ended[n] = 1;
	assert_int_equal(pmx_group_update(group[n], &u, &request[n]), 0);
}

static void
all_open_for_regions(void)
{
	memset(areas, 0, sizeof(areas));
	memset(twins, 0, sizeof(twins));
	all_open(ALL);
}

/* The home is told of who wants it to be, once until it takes the event; nobody waits for that. */
static void
rhi_sig__the_home_is_told_of_a_sharer(void **state)
{
	(void)state;
	all_open_for_regions();
	shares(3);
	for (unsigned n = 0; n < ALL; n += 5) { /* on another node, and on its own */
		registers(n, AREA_BYTES);
		asks_to_share(n, PMX_NOTIFY);
		UNTIL(ended[n] != 1 && events[3] == 1 + n / 5);
		assert_int_equal(ended[n], 0);
		assert_int_equal(event[3].kind, PMX_EVENT_SHARED);
		assert_int_equal(event[3].peer.node, member(n).node);
		assert_int_equal(event[3].peer.context, member(n).context);
		assert_int_equal(event[3].len, n);
		assert_int_equal(event[3].immediate,
			(uint64_t)pmx_group_id(group[n]) << 32 | REGION);
		unsubscribes(n);
	}
	subscribes(0);
	UNTIL(ended[0] != 1);
	assert_int_equal(ended[0], 0);
	poll_some();
	assert_int_equal(events[3], 2);
	unsubscribes(0);
	takes_none = 3;
	for (unsigned i = 0; i < 10; i++) {
		asks_to_share(i % 2 * 5, PMX_NOTIFY);
		UNTIL(ended[i % 2 * 5] != 1);
		assert_int_equal(ended[i % 2 * 5], 0);
		unsubscribes(i % 2 * 5);
	}
	takes_none = ALL;
	poll_some();
	assert_int_equal(events[3], 4);
}

/* The home's bytes are what a region begins with, whoever asks first; updates of any sharer reach
 * all others, and nobody else. */
static void
rhi_sub__copies_are_equal(void **state)
{
	static const unsigned sharers[] = {0, 3, 5};

	(void)state;
	all_open_for_regions();
	registers(0, AREA_BYTES);
	subscribes(0);
	poll_some();
	assert_int_equal(ended[0], 1); /* the home does not share it yet */
	fill(areas[3], 1);
	shares(3);
	assert_memory_equal(twins[3], areas[3], AREA_BYTES);
	UNTIL(ended[0] != 1);
	assert_int_equal(ended[0], 0);
	assert_int_equal(said[0].tag, REGION);
	assert_memory_equal(areas[0], areas[3], AREA_BYTES);
	assert_memory_equal(twins[0], areas[3], AREA_BYTES);
	shares(5);
	for (unsigned i = 0; i < 3; i++) {
		const unsigned n = sharers[i];

		memset(areas[n] + 100 * i, 0xA0 + (int)i, 50 + 5000 * i);
		updates(n, 100 * i, 50 + 5000 * i, NULL);
		UNTIL(ended[n] != 1);
		assert_int_equal(ended[n], 0);
		for (unsigned k = 0; k < 3; k++)
			assert_memory_equal(areas[sharers[k]], areas[n], AREA_BYTES);
	}
	assert_int_equal(areas[1][0] | areas[2][0] | areas[4][0], 0);
	/* who shares it no more gets nothing, and may come back */
	unsubscribes(0);
	assert_int_equal(ended[0], 0);
	areas[5][7] = 77;
	updates(5, 7, 1, NULL);
	UNTIL(ended[5] != 1);
	assert_int_equal(areas[3][7], 77);
	assert_int_not_equal(areas[0][7], 77);
	subscribes(0);
	UNTIL(ended[0] != 1);
	assert_int_equal(ended[0], 0);
	assert_memory_equal(areas[0], areas[3], AREA_BYTES);
}

/* Several members write different bytes of the same pages at once, by diffs; others come and go
 * meanwhile. In the end all copies are equal. */
static void
rhi_sub__writers_at_once(void **state)
{
	const struct pmx_part diff[ALL] = {
		{.kind = PMX_PART_DIFF, .twin = twins[0]},
		{.kind = PMX_PART_DIFF, .twin = twins[1]},
		{.kind = PMX_PART_DIFF, .twin = twins[2]},
		{.kind = PMX_PART_DIFF, .twin = twins[3]},
		{.kind = PMX_PART_DIFF, .twin = twins[4]},
		{.kind = PMX_PART_DIFF, .twin = twins[5]},
	};
	static uint8_t wanted[AREA_BYTES];
	bool comes = true;

	(void)state;
	all_open_for_regions();
	for (unsigned n = 0; n < ALL; n++) {
		registers(n, AREA_BYTES);
		subscribes(n);
	}
	for (unsigned n = 0; n < ALL; n++) {
		UNTIL(ended[n] != 1);
		assert_int_equal(ended[n], 0);
	}
	for (unsigned round = 1; round <= 100; round++) {
		for (unsigned n = 0; n < 4; n++) {
			for (unsigned i = n; i < AREA_BYTES; i += 4 * (1 + round % 50))
				wanted[i] = areas[n][i] = (uint8_t)(areas[n][i] + round + n);
			updates(n, 0, AREA_BYTES, &diff[n]);
		}
		comes = !comes;
		for (unsigned n = 4; n < 6; n++) {
			if (!comes) {
				ended[n] = 1;
				assert_int_equal(
					pmx_group_unsubscribe(group[n], REGION, &request[n]), 0);
			} else {
				subscribes(n);
			}
		}
		for (unsigned n = 0; n < ALL; n++) {
			UNTIL(ended[n] != 1);
			assert_int_equal(ended[n], 0);
		}
		for (unsigned n = 0; n < (comes ? 6u : 4u); n++)
			assert_memory_equal(areas[n], wanted, AREA_BYTES);
		/* the others' bytes are no changes of one's own */
		for (unsigned n = 0; n < 4; n++)
			memcpy(twins[n], areas[n], AREA_BYTES);
	}
}

/* A sharer that goes holds nobody up; with the home the region ends, and the copies stay. */
static void
rhi_sub__sharers_end(void **state)
{
	(void)state;
	all_open_for_regions();
	fill(areas[3], 9);
	shares(3);
	for (unsigned n = 0; n < 3; n++)
		shares(n);
	closes(2);
	areas[1][0] = 200;
	updates(1, 0, 1, NULL);
	UNTIL(ended[1] != 1); /* it may have begun before this one was known to go */
	assert_int_equal(areas[0][0], 200);
	assert_int_equal(areas[3][0], 200);
	UNTIL(events[1] == 1);
	updates(1, 0, 100, NULL);
	UNTIL(ended[1] != 1);
	assert_int_equal(ended[1], 0);
	closes(3);
	UNTIL(events[1] == 2);
	updates(1, 0, 100, NULL);
	UNTIL(ended[1] != 1);
	assert_int_equal(ended[1], -EHOSTDOWN);
	assert_int_equal(said[1].label, 3);
	assert_memory_equal(areas[0], areas[1], AREA_BYTES);
	registers(4, AREA_BYTES);
	subscribes(4);
	UNTIL(ended[4] != 1);
	assert_int_equal(ended[4], -EHOSTDOWN);
	unsubscribes(0);
	assert_int_equal(ended[0], 0);
	closes(0); /* ... and the group */
	UNTIL(events[1] == 3 || events[1] == 4);
	const struct pmx_update u = {.region = REGION, .len = 1};

	UNTIL(pmx_group_update(group[1], &u, &request[1]) == -ECONNRESET);
}

enum verb { PUSH, MULTICAST, UPDATE, ISEND, PULL, IRECV, VERBS };

/* Member 0 begins that with a part, and member 3 does what it needs for it. Returns how it ended,
 * or that it did not begin. */
static int
tries(enum verb verb, const struct pmx_part *part, const struct pmx_group_set *set)
{
	static uint8_t local[512], other[512];
	const struct pmx_transfer t = {
		.peer = member(3),
		.flags = PMX_AREA,
		.key = (uint64_t)NUMBER << 32 | PMX_REGION(REGION),
		.local = local,
		.len = sizeof(local),
		.part = part,
	};
	const struct pmx_multicast m = {
		.set = set,
		.area = PMX_REGION(REGION),
		.local = local,
		.len = sizeof(local),
		.part = part,
	};
	const struct pmx_update u = {.region = REGION, .len = sizeof(local), .part = part};
	const struct pmx_matched own = {
		.peer = member(3),
		.data = local,
		.len = sizeof(local),
		.part = part,
	};
	const struct pmx_matched theirs = {
		.peer = member(0),
		.data = other,
		/* as long as what is received */
		.len = verb != IRECV || part == NULL    ? sizeof(other)
			: part->kind == PMX_PART_STRIDE ? part->block * part->count[0]
			: part->kind == PMX_PART_BITMAP ? 4 * part->unit
							: sizeof(other),
	};
	pmx_transfer_id id;
	int result;

	local[16]++; /* it differs from its twin */
	if (verb == PUSH || verb == PULL) {
		result = verb == PUSH ? pmx_push(ctx[0], &t, &id) : pmx_pull(ctx[0], &t, &id);
		if (result != 0)
			return result;
		UNTIL((result = pmx_transfer_done(ctx[0], id)) != 0);
		return result == 1 ? 0 : result;
	}
	result = verb == MULTICAST ? pmx_group_multicast(group[0], &m, &request[0])
		: verb == UPDATE   ? pmx_group_update(group[0], &u, &request[0])
		: verb == ISEND    ? pmx_isend(ctx[0], &own, &request[0])
				   : pmx_irecv(ctx[0], &own, &request[0]);
	if (result != 0)
		return result;
	if (verb == ISEND || verb == IRECV)
		assert_int_equal(verb == ISEND ? pmx_irecv(ctx[3], &theirs, &request[3])
					       : pmx_isend(ctx[3], &theirs, &request[3]),
			0);
	ended[0] = request[0] != 0; /* short ones may have ended at once */
	UNTIL(ended[0] != 1 && request[3] == 0);
	return ended[0];
}

/* Table 1, row by row: which verb takes which part. Subscribing has a twin as an argument, and can
 * say nothing else. */
static void
rhi_t1__which_verb_takes_which_part(void **state)
{
	static const uint64_t bits = 0x0F; /* four units */
	static uint8_t twin[512];
	static const uint32_t ranks[] = {3, 4, 5}; /* by the network */
	const struct pmx_part stride = {
		.kind = PMX_PART_STRIDE,
		.dims = 1,
		.block = 8,
		.interval = {16},
		.count = {30},
	};
	const struct pmx_part bitmap = {.kind = PMX_PART_BITMAP, .unit = 8, .bits = &bits},
			      diff = {.kind = PMX_PART_DIFF, .twin = twin},
			      with_twin = {.kind = PMX_PART_TWIN, .twin = twin};

	(void)state;
	all_open_for_regions();
	for (unsigned n = 3; n < ALL; n++)
		shares(n);
	shares(0);
	struct pmx_group_set *set = set_of(0, 3, ranks);

	for (enum verb v = PUSH; v < VERBS; v++) {
		const bool reads = v == PULL || v == IRECV;

		assert_int_equal(tries(v, NULL, set), 0);
		assert_int_equal(tries(v, &stride, set), 0);
		assert_int_equal(tries(v, &bitmap, set), 0);
		assert_int_equal(tries(v, &diff, set), reads ? -EOPNOTSUPP : 0);
		assert_int_equal(tries(v, &with_twin, set), reads ? 0 : -EOPNOTSUPP);
	}
	pmx_group_set_free(set);
}

static void
rhi_sub__refuses(void **state)
{
	const struct pmx_remote none = {.addr = (uintptr_t)areas[1], .len = AREA_BYTES};
	struct pmx_update u = {.region = REGION, .at = AREA_BYTES - 10, .len = 11};
	pmx_request r;

	(void)state;
	all_open_for_regions();
	shares(3);
	assert_int_equal(pmx_group_subscribe(group[3], REGION, 0, &copies[3], NULL, &r), -EEXIST);
	assert_int_equal(pmx_group_subscribe(group[3], 64, 0, &copies[3], NULL, &r), -EINVAL);
	assert_int_equal(pmx_group_subscribe(group[3], REGION, 0, NULL, NULL, &r), -EINVAL);
	assert_int_equal(pmx_group_subscribe(group[3], REGION, 0, &copies[3], NULL, NULL), -EINVAL);
	assert_int_equal(pmx_group_unsubscribe(group[2], REGION, &r), -EINVAL);
	assert_int_equal(pmx_group_update(group[3], &u, &r), -EINVAL);
	u.len = 1;
	assert_int_equal(pmx_group_update(group[2], &u, &r), -EINVAL);
	u.flags = PMX_EVENT;
	assert_int_equal(pmx_group_update(group[3], &u, &r), -EINVAL);
	u.flags = 0;
	assert_int_equal(pmx_group_update(group[3], &u, NULL), -EINVAL);
	/* another length, and no area at all */
	registers(2, AREA_BYTES - 1);
	subscribes(2);
	UNTIL(ended[2] != 1);
	assert_int_equal(ended[2], -EPROTO);
	ended[1] = 1;
	assert_int_equal(pmx_group_subscribe(group[1], REGION, 0, &none, NULL, &request[1]), 0);
	UNTIL(ended[1] != 1);
	assert_int_equal(ended[1], -EFAULT);
	shares(0);
	ended[3] = 1;
	assert_int_equal(pmx_group_unsubscribe(group[3], REGION, &request[3]), 0);
	UNTIL(ended[3] != 1);
	assert_int_equal(ended[3], -EBUSY);
	/* it goes on */
	areas[3][5] = 5;
	updates(3, 5, 1, NULL);
	UNTIL(ended[3] != 1);
	assert_int_equal(ended[3], 0);
	assert_int_equal(areas[0][5], 5);
	unsubscribes(0);
	unsubscribes(3);
	assert_int_equal(ended[3], 0);
	/* the area is an ordinary one again */
	assert_int_equal(pmx_deregister(ctx[3], copies[3].key), 0);
}

/* Check that what a group was asked for counts like a transfer in pmx_sync_wait(). */
static void
rhi_sync__waits_for_groups(void **state)
{
	(void)state;
	all_open_for_regions();
	shares(3);
	assert_int_equal(pmx_sync_wait(ctx[3], 0), 0);
	asks(3, 0, 0);
	UNTIL(ended[3] == 0); /* rank 3 has the lock, so rank 0 waits for it */
	assert_int_equal(pmx_group_lock(group[0], 0, 0, &request[0]), 0);
	poll_some();
	assert_int_equal(pmx_sync_wait(ctx[0], 0), -ETIMEDOUT);
	assert_int_equal(pmx_group_unlock(group[3], 0), 0);
	UNTIL(pmx_sync_wait(ctx[0], 0) == 0);
	for (unsigned n = 0; n < ALL; n++)
		enters(n);
	UNTIL(pmx_sync_wait(ctx[0], 0) == 0);
	updates(3, 0, AREA_BYTES, NULL);
	UNTIL(pmx_sync_wait(ctx[3], 0) == 0);
}

int
main(void)
{
	char *eal[] = {(char[]){"test_embedded_group"}, (char[]){"--no-huge"}, (char[]){"--no-pci"},
		(char[]){"--no-shconf"}, (char[]){"--no-telemetry"}, (char[]){"-m"},
		(char[]){"256"}, (char[]){"--log-level=*:error"}, NULL};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(group__barriers, start, stop),
		cmocka_unit_test_setup_teardown(group__locks, start, stop),
		cmocka_unit_test_setup_teardown(group__tries, start, stop),
		cmocka_unit_test_setup_teardown(group__refuses_what_is_wrong, start, stop),
		cmocka_unit_test_setup_teardown(group__the_engine_refuses, start, stop),
		cmocka_unit_test_setup_teardown(group__does_not_open_without_all, start, stop),
		cmocka_unit_test_setup_teardown(group__a_member_ends, start, stop),
		cmocka_unit_test_setup_teardown(group__a_node_dies, start, stop),
		cmocka_unit_test_setup_teardown(group__areas, start, stop),
		cmocka_unit_test_setup_teardown(group__rank_0_ends, start, stop),
		cmocka_unit_test_setup_teardown(group__multicast, start, stop),
		cmocka_unit_test_setup_teardown(group__multicast_in_parts, start, stop),
		cmocka_unit_test_setup_teardown(group__multicasts_of_one_twin, start, stop),
		cmocka_unit_test_setup_teardown(group__multicasts_at_once, start, stop),
		cmocka_unit_test_setup_teardown(group__multicasts_in_order, start, stop),
		cmocka_unit_test_setup_teardown(group__multicast_says_who_has_it_not, start, stop),
		cmocka_unit_test_setup_teardown(group__multicast_refuses, start, stop),
		cmocka_unit_test_setup_teardown(group__is_closed_under_a_multicast, start, stop),
		cmocka_unit_test_setup_teardown(group__ends_under_a_multicast, start, stop),
		cmocka_unit_test_setup_teardown(rhi_sub__copies_are_equal, start, stop),
		cmocka_unit_test_setup_teardown(rhi_sig__the_home_is_told_of_a_sharer, start, stop),
		cmocka_unit_test_setup_teardown(rhi_sub__writers_at_once, start, stop),
		cmocka_unit_test_setup_teardown(rhi_sub__sharers_end, start, stop),
		cmocka_unit_test_setup_teardown(rhi_t1__which_verb_takes_which_part, start, stop),
		cmocka_unit_test_setup_teardown(rhi_sub__refuses, start, stop),
		cmocka_unit_test_setup_teardown(rhi_sync__waits_for_groups, start, stop),
	};

	if (rte_eal_init((int)(sizeof(eal) / sizeof(eal[0])) - 1, eal) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
