/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives of groups (lib/coll/live.h), case by case, at one member of a group of three:
 * messages that are malformed, early, too far ahead or late; members that run ahead, fail, leave or
 * have another plan; and what shares the line.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "colls_world.h"

#define SMALL 3 /* members */

/* Members of a group of three, each in a lane of its own; `same` list for each collective. */
static void
small_world(uint32_t ops)
{
	static struct world fresh;

	w = fresh;
	w.ranks = w.lanes = SMALL;
	w.ops = ops;
	w.fault_n = w.fault_rank = w.named = NOBODY;
	for (uint32_t r = 0; r < SMALL; r++) {
		w.lane[r].c = lane_colls(&w.lane[r], &w.lane[r].memory);
		w.members[r] = (struct member){
			.lane = r,
			.seat = {1, (uint16_t)(20 + r), (uint16_t)r, SMALL, 77, 0x1234567890u},
			.running_most = LIVES,
		};
		for (uint32_t k = 0; k < SMALL; k++)
			w.last[r][k] = &w.first[r][k];
	}
}

/* The plan of all collectives from `first` on. */
static void
plan_small_from(uint32_t first, enum coll_kind kind, enum coll_generator g, uint32_t root,
	uint64_t bytes)
{
	if (first == 0)
		w.topology = parsed(
			"switch s\nhost h[0-2]\nlink h[0-2] s bandwidth=1G latency=1us\n");
	const struct coll_task task = {
		.kind = kind,
		.topology = w.topology,
		.ranks = SMALL,
		.root = root,
		.bytes = bytes,
		.params = {1450, 88, 84, HEAD_BYTES, 64, WIRE_COLL_EAGER},
		.only = COLL_NONE,
	};

	assert_int_equal(coll_plan_make(g, &task, &w.plans[first]), 0);
	without_times(w.plans[first], 4ull * 64, 2 * 64);
	for (uint32_t n = first; n < w.ops; n++) {
		w.plan_of[n] = w.plans[first];
		w.hash_of[n] = 0xABCD;
	}
}

static void
plan_small(enum coll_kind kind, enum coll_generator g, uint32_t root, uint64_t bytes)
{
	plan_small_from(0, kind, g, root, bytes);
}

static void
small_ends(void)
{
	for (uint32_t r = 0; r < SMALL; r++) {
		for (uint32_t k = 0; k < SMALL; k++)
			world_drop(r, k, 0);
		for (uint32_t n = 0; n < w.ops; n++)
			part_free(&w.parts[n][r]);
	}
	for (uint32_t n = 0; n < w.ops; n++)
		coll_plan_free(w.plans[n]);
	topology_free(w.topology);
	for (uint32_t i = 0; i < SMALL; i++) {
		for (uint32_t k = 0; k < LIVES; k++)
			free(w.lane[i].jobs[k].steps);
		free(w.lane[i].memory);
	}
}

static struct wire_coll
head(uint8_t op, uint32_t number, uint16_t ordinal, uint64_t at)
{
	return (struct wire_coll){
		.op = op,
		.ordinal = wire_be16(ordinal),
		.group = wire_be32(77),
		.number = wire_be32(number),
		.hash = wire_be32(0xABCD),
		.at = wire_be64(at),
		.key = wire_be64(0x1234567890u),
	};
}

/* Gives a message to a member. Returns whether bytes are to be placed. */
static bool
gives(uint32_t to, uint16_t from, const struct wire_coll *h, uint32_t len)
{
	uint8_t bytes[MESSAGE] = {0};
	struct colls_place p;

	memcpy(bytes, h, HEAD_BYTES);
	return colls_message(w.lane[to].c, &w.members[to].seat, from, bytes, len, &p);
}

/* It is counted as bad, and nothing else happens. */
static void
is_bad(uint16_t from, struct wire_coll h, uint32_t len)
{
	const struct colls_config config = lane_config(&w.lane[1]);
	const size_t bytes = colls_memsize(&config);
	const uint64_t was = w.lane[1].counters[COLLS_BAD_MESSAGES];
	uint8_t *before = malloc(bytes);

	memcpy(before, w.lane[1].c, bytes);
	assert_false(gives(1, from, &h, len));
	assert_int_equal(w.lane[1].counters[COLLS_BAD_MESSAGES], was + 1);
	assert_memory_equal(before, w.lane[1].c, bytes);
	free(before);
}

static void
colls_message__malformed(void **state)
{
	struct wire_coll h;

	(void)state;
	small_world(1);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 100);
	member_begins(&w.members[1]);
	for (uint32_t len = 0; len < HEAD_BYTES; len++)
		is_bad(0, head(WIRE_C_BEGUN, 0, 0, 0), len);
	is_bad(0, head(0, 0, 0, 0), HEAD_BYTES);
	is_bad(0, head(WIRE_COLL_OPS, 0, 0, 0), HEAD_BYTES);
	is_bad(0, head(0xFF, 0, 0, 0), HEAD_BYTES);
	for (uint8_t flag = 0x80; flag > WIRE_C_ASKS; flag >>= 1) {
		h = head(WIRE_C_BEGUN, 0, 0, 0);
		h.flags = flag;
		is_bad(0, h, HEAD_BYTES);
	}
	is_bad(1, head(WIRE_C_BEGUN, 0, 0, 0), HEAD_BYTES);
	is_bad(SMALL, head(WIRE_C_BEGUN, 0, 0, 0), HEAD_BYTES);
	is_bad(UINT16_MAX, head(WIRE_C_BEGUN, 0, 0, 0), HEAD_BYTES);
	for (uint8_t op = WIRE_C_PERMIT; op < WIRE_COLL_OPS; op++)
		is_bad(0, head(op, 0, 0, 1), HEAD_BYTES + 1);
	is_bad(0, head(WIRE_C_FAIL, 0, 0, EFAULT), HEAD_BYTES);      /* this is rank 1 */
	is_bad(2, head(WIRE_C_ABORT, 0, 0, EFAULT), HEAD_BYTES);     /* not of rank 0 */
	is_bad(0, head(WIRE_C_ABORT, 0, SMALL, EFAULT), HEAD_BYTES); /* because of nobody */
	is_bad(0, head(WIRE_C_ABORT, 0, 0, 0), HEAD_BYTES);          /* no error */
	small_ends();
}

/* Check what is taken, and what is bad, of the messages that come before their collective is
 * begun. */
static void
colls_message__early(void **state)
{
	const struct wire_coll begun = head(WIRE_C_BEGUN, 3, 0, 0),
			       first = head(WIRE_C_PIECE, 0, 0, 0);

	(void)state;
	small_world(1);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	assert_false(gives(1, 0, &begun, HEAD_BYTES));
	assert_int_equal(w.lane[1].counters[COLLS_BAD_MESSAGES], 0);
	is_bad(0, head(WIRE_C_PIECE, 0, 0, 0), HEAD_BYTES + WIRE_COLL_EAGER + 1);
	assert_false(gives(1, 0, &first, HEAD_BYTES + 8));
	assert_int_equal(w.lane[1].counters[COLLS_BAD_MESSAGES], 1);
	is_bad(0, head(WIRE_C_PIECE, 0, 1, 0), HEAD_BYTES + 8); /* a second one */
	is_bad(0, head(WIRE_C_PERMIT, 0, 0, 8), HEAD_BYTES);
	small_ends();
}

/* A collective that is too far ahead tells nothing about who has begun what. */
static void
colls_message__too_far(void **state)
{
	(void)state;
	small_world(1);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	member_begins(&w.members[1]);
	is_bad(0, head(WIRE_C_PIECE, WIRE_COLL_AHEAD + 1, 0, 0), HEAD_BYTES + 8);
	small_ends();
}

/* A permit that comes twice says nothing new; one that is taken back ends the collective. */
static void
colls_message__permits(void **state)
{
	unsigned begun = 0;
	struct wire_coll h;
	struct lane *l;
	struct colls_do d;

	(void)state;
	small_world(1);
	plan_small(COLL_GATHER, COLL_BINOMIAL, 0, 1000);
	member_begins(&w.members[1]);
	l = &w.lane[1];
	for (; colls_next(l->c, &d, true, w.now); begun += d.what == COLLS_SEND)
		assert_true(d.what == COLLS_LOCAL || d.head.op == WIRE_C_BEGUN);
	assert_int_equal(begun, 1); /* the root's permit is needed */
	h = head(WIRE_C_PERMIT, 0, 0, 50);
	assert_false(gives(1, 0, &h, HEAD_BYTES));
	assert_true(colls_next(l->c, &d, true, w.now));
	assert_int_equal(d.head.op, WIRE_C_PIECE);
	assert_int_equal(d.len, 50);
	assert_false(gives(1, 0, &h, HEAD_BYTES));
	assert_false(colls_next(l->c, &d, true, w.now));
	assert_int_equal(l->counters[COLLS_BAD_MESSAGES], 0);
	h = head(WIRE_C_PERMIT, 0, 0, 40);
	assert_false(gives(1, 0, &h, HEAD_BYTES));
	assert_int_equal(l->counters[COLLS_BAD_MESSAGES], 1);
	assert_true(colls_next(l->c, &d, true, w.now));
	assert_int_equal(d.head.op, WIRE_C_FAIL);
	assert_int_equal(wire_be64(d.head.at), EPROTO);
	assert_int_equal(wire_be16(d.head.ordinal), 0);
	small_ends();
}

/* Check that a member that runs ahead is held back, and then goes on. */
static void
colls_next__ahead(void **state)
{
	const uint32_t ops = LIVES;
	uint32_t sent[SMALL] = {0};
	struct colls_do d;

	(void)state;
	small_world(ops);
	plan_small(COLL_BCAST, COLL_BINOMIAL, 0, 8);
	for (uint32_t n = 0; n < ops; n++)
		member_begins(&w.members[0]);
	while (colls_next(w.lane[0].c, &d, true, w.now)) {
		if (d.what == COLLS_LOCAL) {
			lane_work(&w.lane[0], &d);
			continue;
		}
		sent[d.to] += d.head.op == WIRE_C_PIECE;
		assert_true(d.head.op == WIRE_C_PIECE || d.head.op == WIRE_C_ASK);
		lane_departs(&w.lane[0], &d);
	}
	for (uint32_t r = 1; r < SMALL; r++)
		assert_int_equal(sent[r], WIRE_COLL_AHEAD);
	assert_int_equal(w.lane[0].counters[COLLS_BAD_MESSAGES], 0);
	w.lane[0].busy = true;
	world_settles();
	for (uint32_t n = 0; n < ops; n++) {
		for (uint32_t r = 0; r < SMALL; r++)
			assert_true(w.parts[n][r].state == ENDED && w.parts[n][r].error == 0);
	}
	for (uint32_t r = 0; r < SMALL; r++)
		assert_int_equal(w.lane[r].counters[COLLS_BAD_MESSAGES], 0);
	small_ends();
}

/* A member whose bytes cannot be accessed does not end with success, and sends no more of it. */
static void
colls_fail__ends_with_no_success(void **state)
{
	const struct wire_coll h = head(WIRE_C_PIECE, 0, 0, 0);
	struct colls_end end;
	struct colls_do d;

	(void)state;
	small_world(1);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	member_begins(&w.members[1]);
	assert_true(gives(1, 0, &h, HEAD_BYTES + 8));
	colls_fail(w.lane[1].c, w.parts[0][1].index, EFAULT, 1);
	gives(1, 2, &h, HEAD_BYTES + 8);
	while (colls_next(w.lane[1].c, &d, true, w.now))
		assert_true(d.what == COLLS_SEND && d.head.op == WIRE_C_FAIL);
	assert_false(colls_ended(w.lane[1].c, &end));
	const struct wire_coll abort = head(WIRE_C_ABORT, 0, 1, EFAULT);

	gives(1, 0, &abort, HEAD_BYTES);
	assert_true(colls_ended(w.lane[1].c, &end));
	assert_int_equal(end.error, EFAULT);
	assert_int_equal(end.rank, 1);
	small_ends();
}

/* Check that what goes without a permit has to fit the memory in which it may wait. */
static void
colls_begin__eager_too_long(void **state)
{
	static const uint64_t bytes[2] = {WIRE_COLL_EAGER, WIRE_COLL_EAGER + 1};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct colls_end end;

		small_world(1);
		plan_small(COLL_ALLTOALL, COLL_PHASES, 0, bytes[i]);
		for (uint64_t k = 0; k < w.plans[0]->step_count; k++) {
			if (w.plans[0]->steps[k].op <= COLL_RECV)
				w.plans[0]->steps[k].flags = COLL_EAGER;
		}
		member_begins(&w.members[0]);
		assert_int_equal(colls_ended(w.lane[0].c, &end), i);
		assert_true(i == 0 || (end.error == EINVAL && end.rank == 0));
		small_ends();
	}
}

/* Rank 0 says twice that something has failed: the earlier collective counts. */
static void
colls_message__verdicts(void **state)
{
	const struct wire_coll high = head(WIRE_C_ABORT, 2, 2, EFAULT),
			       low = head(WIRE_C_ABORT, 1, 0, EPROTO);
	static const uint8_t errors[5] = {0, EPROTO, EFAULT, EPROTO, EPROTO};
	struct colls_end end;

	(void)state;
	small_world(5);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	for (uint32_t n = 0; n < 3; n++)
		member_begins(&w.members[1]);
	gives(1, 0, &high, HEAD_BYTES);
	assert_true(colls_ended(w.lane[1].c, &end));
	assert_int_equal(end.number, 2);
	assert_int_equal(end.error, EFAULT);
	assert_int_equal(end.rank, 2);
	assert_false(colls_ended(w.lane[1].c, &end));
	gives(1, 0, &low, HEAD_BYTES);
	gives(1, 0, &high, HEAD_BYTES);
	member_begins(&w.members[1]);
	member_begins(&w.members[1]);
	for (uint32_t k = 0; k < 3; k++) {
		assert_true(colls_ended(w.lane[1].c, &end));
		assert_int_equal(end.error, errors[end.number]);
		assert_int_equal(end.rank, 0);
	}
	assert_false(colls_ended(w.lane[1].c, &end));
	assert_int_equal(colls_part(w.lane[1].c, 1), 0);
	assert_int_equal(w.lane[1].counters[COLLS_BAD_MESSAGES], 0);
	small_ends();
}

/* Check that it is noticed when a plan differs from what others have said before this side
 * begins. */
static void
colls_begin__differs_from_what_was_said(void **state)
{
	const struct wire_coll same = head(WIRE_C_BEGUN, 1, 0, 0);
	struct wire_coll other = same;
	struct colls_do d;

	(void)state;
	small_world(2);
	plan_small(COLL_BCAST, COLL_BINOMIAL, 1, 8);
	other.hash = ~other.hash;
	assert_false(gives(1, 0, &same, HEAD_BYTES));
	assert_false(gives(1, 2, &other, HEAD_BYTES));
	for (uint32_t n = 0; n < 2; n++) {
		bool fails = false;

		member_begins(&w.members[1]);
		while (colls_next(w.lane[1].c, &d, true, w.now)) {
			if (d.what == COLLS_LOCAL) {
				lane_work(&w.lane[1], &d);
				continue;
			}
			if (d.head.op != WIRE_C_FAIL)
				continue;
			fails = true;
			assert_int_equal(wire_be32(d.head.number), 1);
			assert_int_equal(wire_be16(d.head.ordinal), 2);
			assert_int_equal(wire_be64(d.head.at), EPROTO);
		}
		assert_int_equal(fails, n == 1);
	}
	small_ends();
}

/* Check that a plan that differs is noticed as long as its collective runs, whatever has been begun
 * since. */
static void
colls_message__differs_after_many(void **state)
{
	const struct wire_coll ahead = head(WIRE_C_BEGUN, OPS, 0, 0);
	struct wire_coll other = head(WIRE_C_BEGUN, 0, 0, 0);
	struct colls_do d;

	(void)state;
	small_world(OPS);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	plan_small_from(1, COLL_BCAST, COLL_BINOMIAL, 1, 8);
	for (uint16_t from = 0; from < SMALL; from += 2)
		assert_false(gives(1, from, &ahead, HEAD_BYTES));
	member_begins(&w.members[1]);
	for (uint32_t n = 1; n < OPS; n++) {
		member_begins(&w.members[1]);
		while (colls_next(w.lane[1].c, &d, true, w.now)) {
			if (d.what == COLLS_LOCAL)
				lane_work(&w.lane[1], &d);
		}
		lane_pull_ends(&w.lane[1]);
		lane_give(&w.lane[1], true);
		assert_int_equal(w.parts[n][1].state, ENDED);
	}
	other.hash = ~other.hash;
	assert_false(gives(1, 2, &other, HEAD_BYTES));
	assert_true(colls_next(w.lane[1].c, &d, true, w.now));
	assert_int_equal(d.head.op, WIRE_C_FAIL);
	assert_int_equal(d.head.number, 0);
	assert_int_equal(wire_be64(d.head.at), EPROTO);
	small_ends();
}

/* Nothing is done for who has left. */
static void
colls_leave__hears_nothing(void **state)
{
	const struct wire_coll h[] = {head(WIRE_C_PIECE, 0, 0, 0), head(WIRE_C_ASK, 0, 0, 0),
		head(WIRE_C_BEGUN, 3, 0, 0)};
	struct colls_do d;

	(void)state;
	small_world(1);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	member_begins(&w.members[1]);
	colls_leave(w.lane[1].c, 1);
	for (unsigned i = 0; i < 3; i++)
		gives(1, 0, &h[i], HEAD_BYTES);
	assert_false(colls_next(w.lane[1].c, &d, true, w.now));
	assert_false(colls_is_used(w.lane[1].c, w.parts[0][1].index));
	assert_int_equal(w.lane[1].counters[COLLS_BAD_MESSAGES], 0);
	small_ends();
}

/* Check that a collective is out as long as a member has yet to tell others of its end, so that the
 * member does not leave before. */
static void
colls_is_out__verdict_to_be_told(void **state)
{
	struct colls_end end;
	struct colls_do d;

	(void)state;
	small_world(1);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	member_begins(&w.members[0]);
	colls_fail(w.lane[0].c, w.parts[0][0].index, EFAULT, 0);
	assert_true(colls_ended(w.lane[0].c, &end));
	assert_true(colls_is_out(w.lane[0].c, 1));
	for (uint32_t n = 0; n < SMALL - 1; n++) {
		assert_true(colls_next(w.lane[0].c, &d, true, w.now));
		assert_int_equal(d.head.op, WIRE_C_ABORT);
		colls_acked(w.lane[0].c, 1, d.head.key);
	}
	assert_false(colls_is_out(w.lane[0].c, 1));
	small_ends();
}

/* Check that what others still send of a collective that the group has ended here is not against
 * the protocol. */
static void
colls_break__later_messages_are_good(void **state)
{
	const struct wire_coll h = head(WIRE_C_PIECE, 0, 0, 0);

	(void)state;
	small_world(1);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	member_begins(&w.members[1]);
	colls_break(w.lane[1].c, 1, 0, ECONNRESET, 0);
	assert_false(gives(1, 2, &h, HEAD_BYTES + 8));
	assert_int_equal(w.lane[1].counters[COLLS_BAD_MESSAGES], 0);
	small_ends();
}

/* When member 0's next piece leaves; *number: of which collective. */
static uint64_t
next_piece(uint32_t *number)
{
	struct colls *c = w.lane[0].c;
	struct colls_do d;

	for (;;) {
		while (!colls_next(c, &d, true, w.now)) {
			assert_true(colls_deadline(c) != COLL_NEVER);
			assert_true(colls_deadline(c) > w.now);
			w.now = colls_deadline(c);
		}
		if (d.what == COLLS_SEND && d.len > 0) {
			*number = wire_be32(d.head.number);
			return w.now;
		}
	}
}

/* Two collectives that want all of the line share it, until one of them has ended; one that is
 * stopped wants nothing. */
static void
colls_next__several_share_the_line(void **state)
{
	uint32_t number;

	(void)state;
	small_world(2);
	plan_small(COLL_SCATTER, COLL_AT_ONCE, 0, 200); /* four pieces for each of two */
	w.plans[0]->lists[0].send_pace = 1000u << 16;   /* 64 us for one */
	w.plans[0]->lists[0].load_out = COLL_WHOLE;
	member_begins(&w.members[0]);
	for (uint16_t r = 1; r < SMALL; r++) {
		const struct wire_coll h = head(WIRE_C_BEGUN, 1, 0, 0);

		gives(0, r, &h, HEAD_BYTES);
	}
	unsigned pieces[2] = {1, 0};
	uint64_t last[2] = {next_piece(&number), 0};
	struct colls_do d;

	for (; pieces[0] < 4; pieces[0]++) {
		assert_int_equal(next_piece(&number), last[0] + 64000);
		last[0] = w.now;
	}
	member_begins(&w.members[0]);
	while (pieces[1] < 3) {
		next_piece(&number);
		if (pieces[number] > 1)
			assert_in_range(w.now - last[number],
				number == 0 && pieces[0] == 4 ? 64000 : 128000, 128000);
		last[number] = w.now;
		pieces[number]++;
	}
	while (colls_next(w.lane[0].c, &d, true, w.now))
		pieces[wire_be32(d.head.number)]++;
	colls_stop(w.lane[0].c, w.members[0].seat.ctx);
	assert_false(colls_next(w.lane[0].c, &d, true, w.now));
	w.now += 64000;
	const uint64_t again = w.now;

	colls_start(w.lane[0].c, w.members[0].seat.ctx);
	assert_int_equal(next_piece(&number), again);
	for (pieces[number]++; pieces[0] < 8; pieces[number]++)
		next_piece(&number);
	assert_in_range(pieces[1], 3, 5);
	next_piece(&number);
	for (last[1] = w.now; ++pieces[1] < 7; last[1] = w.now)
		assert_int_equal(next_piece(&number), last[1] + 64000);
	small_ends();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(colls_message__malformed),
		cmocka_unit_test(colls_message__early),
		cmocka_unit_test(colls_message__too_far),
		cmocka_unit_test(colls_message__permits),
		cmocka_unit_test(colls_next__ahead),
		cmocka_unit_test(colls_fail__ends_with_no_success),
		cmocka_unit_test(colls_begin__eager_too_long),
		cmocka_unit_test(colls_message__verdicts),
		cmocka_unit_test(colls_begin__differs_from_what_was_said),
		cmocka_unit_test(colls_message__differs_after_many),
		cmocka_unit_test(colls_leave__hears_nothing),
		cmocka_unit_test(colls_is_out__verdict_to_be_told),
		cmocka_unit_test(colls_break__later_messages_are_good),
		cmocka_unit_test(colls_next__several_share_the_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
