/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A context that is stopped (pmx/preempt.h) between two embedded nodes: embedded_pair.h. For each
 * kind of verb: what may not go on does not, what may does, and all ends without an error when the
 * context goes on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "embedded_pair.h"
#include "pmx/coll.h"
#include "pmx/group.h"
#include "pmx/preempt.h"

#define REGION     (1u << 20)
#define PASS_US    30000 /* many times what anything here takes, */
#define PASS_TURNS 2000  /* also where this process was not let run meanwhile */
#define MESSAGES   20
#define LONG       200000u

static const struct pmx_addr own = {0, 0}, beside = {0, 1}, other = {1, 0};

static void
time_passes(void)
{
	const int64_t end = now_us() + PASS_US;

	for (unsigned turns = 0; turns < PASS_TURNS || now_us() < end; turns++)
		pair_poll();
}

static void
stop(struct pmx_context *c)
{
	assert_int_equal(pmx_context_stop(c), 0);
}

static void
start(struct pmx_context *c)
{
	assert_int_equal(pmx_context_start(c), 0);
}

static pmx_send_id
send_one(struct pmx_context *from, struct pmx_addr to, uint32_t number, uint32_t len)
{
	uint8_t bytes[4000];
	pmx_send_id id;

	bytes_fill(bytes, len, number);
	assert_int_equal(pmx_send_copy(from, to, bytes, len, &id), 0);
	return id;
}

static void
takes(struct pmx_context *at, uint32_t number, uint32_t len)
{
	uint8_t want[4000], got[4000];
	struct pmx_message m;

	UNTIL(pmx_receive(at, &m) == 1);
	bytes_fill(want, len, number);
	assert_int_equal(m.len, len);
	assert_int_equal(pmx_message_read(at, &m, 0, got, len), 0);
	assert_memory_equal(got, want, len);
	pmx_release_receive_buffer(at, &m);
}

static void
has_none(struct pmx_context *at)
{
	struct pmx_message m;

	assert_int_equal(pmx_receive(at, &m), 0);
}

/* ------------------------------------------------------------------ plain messages */

static void
stop__sends_nothing(void **state)
{
	static const uint32_t lens[] = {8, 500, 4000};
	pmx_send_id ids[2 * MESSAGES];

	(void)state;
	pair_start("client", "");
	stop(ctx[0][0]);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		ids[2 * i] = send_one(ctx[0][0], other, i, lens[i % 3]);
		ids[2 * i + 1] = send_one(ctx[0][0], beside, i, lens[i % 3]);
	}
	time_passes();
	has_none(ctx[1][0]);
	has_none(ctx[0][1]);
	for (uint32_t i = 0; i < 2 * MESSAGES; i++)
		assert_int_equal(pmx_is_send_done(ctx[0][0], ids[i]), 0);
	start(ctx[0][0]);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		takes(ctx[1][0], i, lens[i % 3]);
		takes(ctx[0][1], i, lens[i % 3]);
	}
	for (uint32_t i = 0; i < 2 * MESSAGES; i++)
		UNTIL(pmx_is_send_done(ctx[0][0], ids[i]) == 1);
}

static void
stop__receives_nothing(void **state)
{
	pmx_send_id far[MESSAGES], near[MESSAGES];

	(void)state;
	pair_start("client", "");
	stop(ctx[0][0]);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		far[i] = send_one(ctx[1][0], own, i, 500);
		near[i] = send_one(ctx[0][1], own, i, 8);
	}
	time_passes();
	has_none(ctx[0][0]);
	for (uint32_t i = 0; i < MESSAGES; i++) {
		assert_int_equal(pmx_is_send_done(ctx[1][0], far[i]), 0);
		assert_int_equal(pmx_is_send_done(ctx[0][1], near[i]), 0);
	}
	/* others do not wait behind it */
	send_one(ctx[1][0], beside, 7, 500);
	takes(ctx[0][1], 7, 500);
	start(ctx[0][0]);
	for (uint32_t from_far = 0, from_near = 0; from_far + from_near < 2 * MESSAGES;) {
		struct pmx_message m;
		uint8_t want[500];

		UNTIL(pmx_receive(ctx[0][0], &m) == 1);
		bytes_fill(want, 500, m.source.node == 1 ? from_far++ : from_near++);
		assert_int_equal(m.len, m.source.node == 1 ? 500 : 8);
		assert_memory_equal(pmx_message_data(&m), want, m.seg_len < 8 ? m.seg_len : 8);
		pmx_release_receive_buffer(ctx[0][0], &m);
	}
	for (uint32_t i = 0; i < MESSAGES; i++) {
		UNTIL(pmx_is_send_done(ctx[1][0], far[i]) == 1);
		UNTIL(pmx_is_send_done(ctx[0][1], near[i]) == 1);
	}
}

/* Check that what a stopped context submits is bounded, and that none of it is lost. */
static void
stop__submissions_wait(void **state)
{
	uint32_t taken = 0;
	int result;

	(void)state;
	pair_start("client", "submissions = 16");
	stop(ctx[0][0]);
	while ((result = pmx_send_copy(ctx[0][0], other, &taken, sizeof(taken), NULL)) == 0)
		assert_true(++taken < 1000);
	assert_int_equal(result, -EAGAIN);
	time_passes();
	has_none(ctx[1][0]);
	start(ctx[0][0]);
	for (uint32_t i = 0; i < taken; i++) {
		struct pmx_message m;

		pair_take(&m);
		assert_memory_equal(pmx_message_data(&m), &i, sizeof(i));
		pmx_release_receive_buffer(ctx[1][0], &m);
	}
	UNTIL(pmx_sends_pending(ctx[0][0]) == 0);
}

static void
stop__is_idempotent(void **state)
{
	(void)state;
	pair_start("client", GIVES_UP_SOON);
	start(ctx[0][0]); /* it runs */
	stop(ctx[0][0]);
	stop(ctx[0][0]);
	send_one(ctx[1][0], own, 1, 100);
	time_passes();
	has_none(ctx[0][0]);
	start(ctx[0][0]);
	start(ctx[0][0]);
	takes(ctx[0][0], 1, 100);
	for (uint32_t i = 0; i < 10; i++) {
		stop(ctx[0][0]);
		send_one(ctx[0][0], other, i, 100);
		start(ctx[0][0]);
		takes(ctx[1][0], i, 100);
	}
}

/* A stopped context closes as others do; who sent to it is told. */
/* An embedded node's client reads the node's buffers, so it cannot give them up. */
static void
park__is_for_thin_clients(void **state)
{
	(void)state;
	pair_start("client", "");
	assert_int_equal(pmx_context_park(ctx[0][0]), -EOPNOTSUPP);
	send_one(ctx[0][0], other, 0, 8);
	takes(ctx[1][0], 0, 8);
	stop(ctx[0][0]);
	assert_int_equal(pmx_context_park(ctx[0][0]), -EOPNOTSUPP);
	start(ctx[0][0]);
	send_one(ctx[0][0], other, 1, 8);
	takes(ctx[1][0], 1, 8);
}

static void
stop__closes(void **state)
{
	pmx_send_id id;

	(void)state;
	pair_start("client", GIVES_UP_SOON);
	stop(ctx[0][0]);
	id = send_one(ctx[1][0], own, 1, 100);
	send_one(ctx[0][0], other, 2, 100);
	time_passes();
	pmx_context_close(ctx[0][0]);
	takes(ctx[1][0], 2, 100);
	UNTIL(pmx_is_send_done(ctx[1][0], id) != 0);
	assert_true(pmx_is_send_done(ctx[1][0], id) < 0);
	UNTIL(pmx_context_open(&ctx[0][0], nodes[0], 0, NULL) == 0);
	send_one(ctx[1][0], own, 3, 100);
	takes(ctx[0][0], 3, 100);
}

/* ------------------------------------------------------------------ matched messages */

static uint8_t out[2][LONG], in[2][LONG];

/* One that is short and one that is long, while context 0 of a node is stopped. */
static void
matched_waits(const char *matching, unsigned node)
{
	const uint64_t lens[] = {100, LONG};
	pmx_request sends[2], receives[2];
	struct pmx_status s;

	pair_start(matching, "");
	stop(ctx[node][0]);
	for (unsigned i = 0; i < 2; i++) {
		const struct pmx_matched to = {
			.peer = other,
			.tag = i,
			.data = out[i],
			.len = lens[i],
			.flags = PMX_DELIVERED,
		};
		const struct pmx_matched from = {.peer = own, .tag = i, .data = in[i], .len = LONG};

		bytes_fill(out[i], LONG, i);
		memset(in[i], 0, LONG);
		assert_int_equal(pmx_isend(ctx[0][0], &to, &sends[i]), 0);
		assert_int_equal(pmx_irecv(ctx[1][0], &from, &receives[i]), 0);
	}
	time_passes();
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pmx_test(ctx[0][0], &sends[i], NULL), 0);
		assert_int_equal(pmx_test(ctx[1][0], &receives[i], NULL), 0);
	}
	start(ctx[node][0]);
	for (unsigned i = 0; i < 2; i++) {
		int result;

		UNTIL((result = pmx_test(ctx[1][0], &receives[i], &s)) != 0);
		assert_int_equal(result, 1);
		assert_int_equal(s.len, lens[i]);
		assert_memory_equal(in[i], out[i], lens[i]);
		UNTIL((result = pmx_test(ctx[0][0], &sends[i], NULL)) != 0);
		assert_int_equal(result, 1);
	}
}

static void
matched__waits_for_its_sender(void **state)
{
	(void)state;
	matched_waits("client", 0);
}

static void
matched__waits_for_its_receiver(void **state)
{
	(void)state;
	matched_waits("client", 1);
}

static void
matched_engine__waits_for_its_sender(void **state)
{
	(void)state;
	matched_waits("engine", 0);
}

static void
matched_engine__waits_for_its_receiver(void **state)
{
	(void)state;
	matched_waits("engine", 1);
}

/* ------------------------------------------------------------------ remote memory */

static uint8_t *mine, *theirs; /* of context 0 of node 0, and of that of node 1 */
static struct pmx_transfer whole;

static void
open_memory(void)
{
	struct pmx_remote r;
	void *p;

	pair_start("client", "");
	assert_int_equal(pmx_alloc(ctx[0][0], REGION, &p), 0);
	mine = p;
	assert_int_equal(pmx_alloc(ctx[1][0], REGION, &p), 0);
	theirs = p;
	assert_int_equal(
		pmx_register(ctx[1][0], theirs, REGION, PMX_REMOTE_READ | PMX_REMOTE_WRITE, &r), 0);
	whole = (struct pmx_transfer){
		.peer = other,
		.key = r.key,
		.remote = r.addr,
		.local = mine,
		.len = REGION,
	};
}

static void
ends_well(pmx_transfer_id id)
{
	UNTIL(pmx_transfer_done(ctx[0][0], id) != 0);
	assert_int_equal(pmx_transfer_done(ctx[0][0], id), 1);
}

static void
push__waits_for_its_initiator(void **state)
{
	pmx_transfer_id id;

	(void)state;
	open_memory();
	bytes_fill(mine, REGION, 3);
	stop(ctx[0][0]);
	assert_int_equal(pmx_push(ctx[0][0], &whole, &id), 0);
	time_passes();
	assert_int_equal(pmx_transfer_done(ctx[0][0], id), 0);
	for (uint32_t i = 0; i < REGION; i++)
		assert_int_equal(theirs[i], 0);
	start(ctx[0][0]);
	ends_well(id);
	assert_memory_equal(theirs, mine, REGION);
}

/* Stopped in its midst: it stands still, and goes on from there. */
static void
push__stops_in_its_midst(void **state)
{
	pmx_transfer_id id;
	static uint8_t then[REGION];

	(void)state;
	open_memory();
	bytes_fill(mine, REGION, 3);
	assert_int_equal(pmx_push(ctx[0][0], &whole, &id), 0);
	UNTIL(theirs[REGION / 8] != 0);
	stop(ctx[0][0]);
	time_passes();
	assert_int_equal(pmx_transfer_done(ctx[0][0], id), 0);
	memcpy(then, theirs, REGION);
	assert_memory_not_equal(then, mine, REGION);
	time_passes();
	assert_memory_equal(then, theirs, REGION);
	start(ctx[0][0]);
	ends_well(id);
	assert_memory_equal(theirs, mine, REGION);
}

/* One-sided: the target need not run. A notification waits until it does. */
static void
push__goes_on_to_a_stopped_target(void **state)
{
	struct pmx_event e;
	pmx_transfer_id id;

	(void)state;
	open_memory();
	bytes_fill(mine, REGION, 5);
	stop(ctx[1][0]);
	assert_int_equal(pmx_push(ctx[0][0], &whole, &id), 0);
	ends_well(id);
	assert_memory_equal(theirs, mine, REGION);
	whole.flags = PMX_NOTIFY;
	whole.immediate = 77;
	assert_int_equal(pmx_push(ctx[0][0], &whole, &id), 0);
	time_passes();
	start(ctx[1][0]);
	ends_well(id);
	UNTIL(pmx_poll_event(ctx[1][0], &e) == 1);
	assert_int_equal(e.immediate, 77);
}

static void
pull__stops_with_its_target(void **state)
{
	pmx_transfer_id id;
	static uint8_t then[REGION];

	(void)state;
	open_memory();
	bytes_fill(theirs, REGION, 3);
	assert_int_equal(pmx_pull(ctx[0][0], &whole, &id), 0);
	UNTIL(mine[REGION / 8] != 0);
	stop(ctx[1][0]);
	time_passes(); /* what was asked for before may still come */
	assert_int_equal(pmx_transfer_done(ctx[0][0], id), 0);
	memcpy(then, mine, REGION);
	time_passes();
	assert_memory_equal(then, mine, REGION);
	start(ctx[1][0]);
	ends_well(id);
	assert_memory_equal(mine, theirs, REGION);
}

static void
pull__waits_for_its_initiator(void **state)
{
	pmx_transfer_id id;

	(void)state;
	open_memory();
	bytes_fill(theirs, REGION, 3);
	stop(ctx[0][0]);
	assert_int_equal(pmx_pull(ctx[0][0], &whole, &id), 0);
	time_passes();
	assert_int_equal(pmx_transfer_done(ctx[0][0], id), 0);
	assert_int_equal(mine[0], 0);
	start(ctx[0][0]);
	ends_well(id);
	assert_memory_equal(mine, theirs, REGION);
}

static void
atomic__waits_for_its_initiator_only(void **state)
{
	const uint64_t one = 1;
	uint64_t before = 99, now;
	pmx_transfer_id id;

	(void)state;
	open_memory();
	const struct pmx_atomic_transfer a = {
		.peer = other,
		.key = whole.key,
		.remote = whole.remote,
		.op = PMX_ATOMIC_SUM,
		.type = PMX_UINT64,
		.count = 1,
		.operands = &one,
		.before = &before,
	};

	stop(ctx[0][0]);
	assert_int_equal(pmx_atomic(ctx[0][0], &a, &id), 0);
	time_passes();
	assert_int_equal(pmx_transfer_done(ctx[0][0], id), 0);
	memcpy(&now, theirs, sizeof(now));
	assert_int_equal(now, 0);
	start(ctx[0][0]);
	ends_well(id);
	assert_int_equal(before, 0);
	stop(ctx[1][0]);
	assert_int_equal(pmx_atomic(ctx[0][0], &a, &id), 0);
	ends_well(id);
	assert_int_equal(before, 1);
	memcpy(&now, theirs, sizeof(now));
	assert_int_equal(now, 2);
	start(ctx[1][0]);
}

/* ------------------------------------------------------------------ groups */

#define MEMBERS 3

static struct pmx_group *group[MEMBERS];

static struct pmx_context *
member(unsigned i)
{
	return ctx[i / 2][i % 2];
}

static bool
have_ended(pmx_request *requests)
{
	bool all = true;

	for (unsigned i = 0; i < MEMBERS; i++) {
		const int r = requests[i] != 0 ? pmx_test(member(i), &requests[i], NULL) : 1;

		assert_true(r >= 0);
		all = all && r == 1;
	}
	return all;
}

static void
open_groups(void)
{
	const struct pmx_addr list[MEMBERS] = {own, beside, other};
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = 5,
		.count = MEMBERS,
		.members = list,
	};
	pmx_request opened[MEMBERS];

	pair_start("client", "");
	for (unsigned i = 0; i < MEMBERS; i++)
		assert_int_equal(pmx_group_open(member(i), &p, 10000000, &group[i], &opened[i]), 0);
	UNTIL(have_ended(opened));
}

/* Whichever of them is stopped, nobody passes, and all do when it goes on. */
static void
waits_for_all(int (*begin)(struct pmx_group *g, pmx_request *r))
{
	pmx_request r[MEMBERS];

	open_groups();
	for (unsigned stopped = 0; stopped < MEMBERS; stopped++) {
		stop(member(stopped));
		for (unsigned i = 0; i < MEMBERS; i++)
			assert_int_equal(begin(group[i], &r[i]), 0);
		time_passes();
		for (unsigned i = 0; i < MEMBERS; i++)
			assert_int_equal(pmx_test(member(i), &r[i], NULL), 0);
		start(member(stopped));
		UNTIL(have_ended(r));
	}
	/* rank 0 last */
	for (unsigned i = MEMBERS; i > 0; i--) {
		pmx_group_close(group[i - 1]);
		time_passes();
	}
}

static void
barrier__waits_for_who_is_stopped(void **state)
{
	(void)state;
	waits_for_all(pmx_group_barrier);
}

static void
collective__waits_for_who_is_stopped(void **state)
{
	(void)state;
	waits_for_all(pmx_coll_barrier);
}

int
main(int argc, char **argv)
{
#define TEST(f) cmocka_unit_test_teardown(f, pair_stop)
	const struct CMUnitTest tests[] = {
		TEST(stop__sends_nothing),
		TEST(stop__receives_nothing),
		TEST(stop__submissions_wait),
		TEST(stop__is_idempotent),
		TEST(park__is_for_thin_clients),
		TEST(stop__closes),
		TEST(matched__waits_for_its_sender),
		TEST(matched__waits_for_its_receiver),
		TEST(matched_engine__waits_for_its_sender),
		TEST(matched_engine__waits_for_its_receiver),
		TEST(push__waits_for_its_initiator),
		TEST(push__stops_in_its_midst),
		TEST(push__goes_on_to_a_stopped_target),
		TEST(pull__waits_for_its_initiator),
		TEST(pull__stops_with_its_target),
		TEST(atomic__waits_for_its_initiator_only),
		TEST(barrier__waits_for_who_is_stopped),
		TEST(collective__waits_for_who_is_stopped),
	};

	(void)argc;
	if (pair_eal(argv[0]) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
