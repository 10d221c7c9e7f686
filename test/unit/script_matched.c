/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Steps of the script (test_script.c): matched messages, the receive before or after, with matching
 * by the client and by the engine.
 */
#include <string.h>
#include <sys/uio.h>

#include "script_steps.h"

/* ------------------------------------------------------------------ matched messages */

static void
note_status(const char *what, int result, const struct pmx_status *s)
{
	record_note("%s: %d, %u bytes of %u.%u, tag %u, error %d", what, result, (unsigned)s->len,
		s->source.node, s->source.context, (unsigned)s->tag, s->error);
}

static void
finish(unsigned node, unsigned context, pmx_request request, const char *what)
{
	struct pmx_status s = {.error = 0};
	int result = 0;

	UNTIL((result = pmx_test(ctx[node][context], &request, &s)) != 0);
	note_status(what, result, &s);
}

/* One message, the receive before it or after. */
static void
match_one(unsigned from, uint64_t len, bool receive_first, uint32_t flags)
{
	struct pmx_matched s = {
		.peer = {1, 0},
		.tag = len,
		.flags = flags,
		.data = bytes_out,
		.len = len,
	};
	struct pmx_matched r = {
		.peer = receive_first ? PMX_ANY_SOURCE : (struct pmx_addr){(uint16_t)from, 1},
		.tag = len,
		.data = bytes_in,
		.len = len,
	};
	pmx_request sending = 0, receiving = 0;

	bytes_fill(bytes_out, (uint32_t)len, from + receive_first);
	memset(bytes_in, 0, LONG);
	if (receive_first)
		assert_int_equal(pmx_irecv(ctx[1][0], &r, &receiving), 0);
	else
		assert_int_equal(pmx_isend(ctx[from][1], &s, &sending), 0);
	script_turns(60);
	if (receive_first)
		assert_int_equal(pmx_isend(ctx[from][1], &s, &sending), 0);
	else
		assert_int_equal(pmx_irecv(ctx[1][0], &r, &receiving), 0);
	finish(1, 0, receiving, "received");
	finish(from, 1, sending, "sent");
	assert_memory_equal(bytes_in, bytes_out, len);
}

static void
matched_orders(const char *step, const char *matching)
{
	static const uint64_t lens[] = {0, 8, 40, 600, 3000, LONG};

	script_start(step, matching, "");
	for (unsigned i = 0; i < RTE_DIM(lens); i++) {
		for (unsigned k = 0; k < 4; k++)
			match_one(k / 2, lens[i], k % 2, i % 2 ? PMX_DELIVERED : 0);
	}
	match_one(0, 8, false, PMX_SYNC);
	script_judge(step);
}

void
matched__both_orders_client(void **state)
{
	(void)state;
	matched_orders(__func__, "client");
}

void
matched__both_orders_engine(void **state)
{
	(void)state;
	matched_orders(__func__, "engine");
}

/* Send three pieces to a receive that is too short, then pieces that are longer than what is eager.
 * any: how they are received. */
static void
send_pieces(struct pmx_matched any)
{
	struct iovec pieces[3] = {{bytes_out, 100}, {bytes_out + 1000, 500}, {bytes_out + 4000, 7}};
	const struct pmx_matched m = {.peer = {1, 0}, .tag = 9, .iov = pieces, .iov_count = 3};
	struct pmx_context *to = ctx[1][0];
	pmx_request request, receiving;

	any.len = 10; /* shorter than the message */
	assert_int_equal(pmx_irecv(to, &any, &request), 0);
	assert_int_equal(pmx_isend(ctx[0][0], &m, NULL), 0);
	finish(1, 0, request, "too short");
	any.len = LONG;
	pieces[1].iov_len = 2900;
	pieces[2].iov_len = 2000; /* longer than what is eager */
	assert_int_equal(pmx_isend(ctx[0][0], &m, &request), 0);
	script_turns(30);
	assert_int_equal(pmx_irecv(to, &any, &receiving), 0);
	finish(1, 0, receiving, "in pieces");
	finish(0, 0, request, "sent in pieces");
}

/* Tags, masks, probes, a receive that is taken back, pieces. */
static void
matched_verbs(const char *step, const char *matching)
{
	struct pmx_context *to;
	struct pmx_status status = {.error = 0};
	struct pmx_matched m = {.peer = {1, 0}, .data = bytes_out, .len = 30};
	struct pmx_matched any = {
		.peer = PMX_ANY_SOURCE,
		.ignore = PMX_ANY_TAG,
		.data = bytes_in,
		.len = LONG,
	};
	pmx_request request, receiving[4];
	int result;

	script_start(step, matching, "");
	to = ctx[1][0];
	bytes_fill(bytes_out, LONG, 1);
	for (unsigned i = 0; i < 8; i++) {
		m.tag = i % 4;
		m.comm = i / 4;
		assert_int_equal(pmx_isend(ctx[i % 2][1], &m, NULL), 0);
	}
	script_turns(60);
	for (unsigned i = 0; i < 4; i++) { /* the second communicator's, last first */
		struct pmx_matched r = {
			.peer = PMX_ANY_SOURCE,
			.comm = 1,
			.tag = 3 - i,
			.data = bytes_in,
			.len = 100,
		};

		assert_int_equal(pmx_irecv(to, &r, &receiving[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++)
		finish(1, 0, receiving[i], "of communicator 1");
	for (unsigned i = 0; i < 2; i++) {
		result = pmx_iprobe(to, &any, &status);
		note_status("probed", result, &status);
		result = pmx_improbe(to, &any, &request, &status);
		note_status("taken", result, &status);
		assert_int_equal(pmx_imrecv(to, &any, &request), 0);
		finish(1, 0, request, "received");
	}
	for (unsigned i = 0; i < 3; i++) { /* two are there */
		assert_int_equal(pmx_irecv(to, &any, &request), 0);
		if (i == 2)
			record_note("taken back: %d", pmx_cancel(to, request));
		finish(1, 0, request, "any");
	}
	send_pieces(any);
	script_judge(step);
}

void
matched__verbs_client(void **state)
{
	(void)state;
	matched_verbs(__func__, "client");
}

void
matched__verbs_engine(void **state)
{
	(void)state;
	matched_verbs(__func__, "engine");
}

/* More wait than the ring has entries and buffers for. */
static void
matched_full(const char *step, const char *matching)
{
	struct pmx_matched m = {.peer = {1, 0}, .data = bytes_out};
	struct pmx_matched any = {
		.peer = PMX_ANY_SOURCE,
		.ignore = PMX_ANY_TAG,
		.data = bytes_in,
		.len = 1000,
	};
	pmx_request request;

	script_start(step, matching,
		"matched_entries = 16\nreceive_buffers = 16\n"
		"matched_buffers = 8");
	for (unsigned i = 0; i < 40; i++) {
		bytes_fill(bytes_out, 1000, i);
		m.tag = i;
		m.len = i % 3 ? 1000 : 16;
		UNTIL(pmx_isend(ctx[0][0], &m, NULL) == 0);
	}
	script_turns(300);
	for (unsigned i = 0; i < 40; i++) {
		assert_int_equal(pmx_irecv(ctx[1][0], &any, &request), 0);
		finish(1, 0, request, "received");
	}
	script_judge(step);
}

void
matched__full_client(void **state)
{
	(void)state;
	matched_full(__func__, "client");
}

void
matched__full_engine(void **state)
{
	(void)state;
	matched_full(__func__, "engine");
}

/* A receiver that closes and opens between offer and receive. Its peer hears of that when it asks,
 * after 100 ms, or after a quarter of rto_max: before the flow would be opened anew. */
static void
matched_reopened(const char *step, const char *matching, const char *limits)
{
	struct pmx_matched m = {.peer = {1, 0}, .tag = 1, .data = bytes_out, .len = LONG};
	struct pmx_matched r = {.peer = PMX_ANY_SOURCE, .tag = 1, .data = bytes_in, .len = LONG};
	pmx_request sending, receiving;

	script_start(step, matching, limits);
	match_one(0, LONG, true, 0);
	assert_int_equal(pmx_isend(ctx[0][0], &m, &sending), 0);
	script_turns(30);
	pmx_context_close(ctx[1][0]);
	script_open_context(1, 0);
	finish(0, 0, sending, "to the life before");
	assert_int_equal(pmx_isend(ctx[0][0], &m, &sending), 0);
	script_turns(30);
	assert_int_equal(pmx_irecv(ctx[1][0], &r, &receiving), 0);
	finish(1, 0, receiving, "received");
	finish(0, 0, sending, "sent");
	script_judge(step);
}

void
matched__reopened_client(void **state)
{
	(void)state;
	matched_reopened(__func__, "client", "");
}

void
matched__reopened_engine(void **state)
{
	(void)state;
	matched_reopened(__func__, "engine", "");
}

void
matched__reopened_with_a_short_memory(void **state)
{
	(void)state;
	matched_reopened(__func__, "client", "[proto]\nrto_min_us = 200\nrto_max_us = 5000");
}
