/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Short messages that travel in their submission: every length over the link, to this node and to
 * itself, in order with those that have buffers; when there are too many, when they fail, when
 * frames are lost, and what a client that lies about them gets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "embedded_pair.h"

#define TO ((struct pmx_addr){1, 0})

static struct pmx_context_stat
stat_of(const struct pmx_context *x)
{
	struct pmx_context_stat s;

	pmx_context_read_stat(x, &s);
	return s;
}

static uint32_t
under_way(const struct pmx_context *x)
{
	return x->inline_sends - x->inline_left;
}

static void
takes(const uint8_t *bytes, uint32_t len)
{
	struct pmx_message m;

	pair_take(&m);
	assert_int_equal(m.len, len);
	assert_memory_equal(pmx_message_data(&m), bytes, len);
	pmx_release_receive_buffer(ctx[1][0], &m);
}

static void
inline__every_length_in_order(void **state)
{
	uint8_t bytes[80];

	(void)state;
	pair_start("client", "");
	for (unsigned from = 0; from < NODES; from++) {
		struct pmx_context *x = ctx[from][1];

		for (unsigned at_once = 1; at_once <= 7; at_once += 3) {
			for (uint32_t len = 0; len + at_once < sizeof(bytes); len += at_once) {
				for (uint32_t k = 0; k < at_once; k++) {
					pmx_send_id id;

					bytes_fill(bytes, len + k, len + k);
					/* every third has a buffer of its own, for its result */
					assert_int_equal(pmx_send_copy(x, TO, bytes, len + k,
								 k % 3 == 2 ? &id : NULL),
						0);
				}
				for (uint32_t k = 0; k < at_once; k++) {
					bytes_fill(bytes, len + k, len + k);
					takes(bytes, len + k);
				}
			}
		}
		UNTIL(pmx_sends_pending(x) == 0);
		assert_int_equal(stat_of(x).send_errors, 0);
		assert_int_equal(stat_of(x).sent, nodes[from]->embedded->channels[1].sent);
	}
}

static void
inline__a_buffer_is_free_at_once(void **state)
{
	struct pmx_context *x;
	struct pmx_buffer first, second;
	uint8_t bytes[SUBMIT_INLINE_BYTES];

	(void)state;
	pair_start("client", "");
	x = ctx[0][0];
	assert_int_equal(pmx_get_send_buffer(x, sizeof(bytes), &first), 0);
	bytes_fill(bytes, sizeof(bytes), 1);
	memcpy(first.data, bytes, sizeof(bytes));
	assert_int_equal(pmx_send(x, TO, &first, NULL), 0);
	assert_int_equal(x->free_count, x->send_buffers);
	assert_int_equal(under_way(x), 1);
	assert_int_equal(pmx_get_send_buffer(x, sizeof(bytes), &second), 0);
	assert_int_equal(second.first, first.first);
	memset(second.data, 0xFF, sizeof(bytes));
	takes(bytes, sizeof(bytes));
	pmx_discard_buffer(x, &second);
	/* with a result to be asked for, or a byte more, it is not */
	for (unsigned i = 0; i < 2; i++) {
		pmx_send_id id;

		assert_int_equal(pmx_get_send_buffer(x, sizeof(bytes) + i, &first), 0);
		assert_int_equal(pmx_send(x, TO, &first, i == 0 ? &id : NULL), 0);
		assert_int_equal(x->free_count, x->send_buffers - 1);
		UNTIL(pmx_sends_pending(x) == 0);
	}
}

/* Those beyond what may be under way take buffers; all come, in order. */
static void
inline__more_than_may_be_under_way(void **state)
{
	struct pmx_context *x;
	uint32_t most;

	(void)state;
	pair_start("client", "");
	x = ctx[0][0];
	most = x->inline_sends;
	assert_int_equal(most, CHANNEL_INLINE_MOST);
	for (unsigned round = 0; round < 3; round++) {
		for (uint32_t i = 0; i < most + 20; i++)
			assert_int_equal(pmx_send_copy(x, TO, &i, sizeof(i), NULL), 0);
		assert_int_equal(under_way(x), most);
		assert_int_equal(x->free_count, x->send_buffers - 20);
		assert_int_equal(pmx_sends_pending(x), most + 20);
		for (uint32_t i = 0; i < most + 20; i++)
			takes((const uint8_t *)&i, sizeof(i));
		UNTIL(pmx_sends_pending(x) == 0);
		assert_int_equal(under_way(x), 0);
		assert_int_equal(nodes[0]->embedded->channels[0].inline_free, most);
	}
	assert_int_equal(stat_of(x).sent, 3 * (most + 20));
}

/* A context with few send buffers has as many for inline messages, and no more mbufs than that. */
static void
inline__a_context_with_few_buffers(void **state)
{
	const struct pmx_context_params params = {
		.size = sizeof(params),
		.send_buffers = 5,
		.receive_buffers = 8,
	};
	struct pmx_context *x;

	(void)state;
	pair_contexts = CONTEXTS + 1;
	pair_start("client", GIVES_UP_SOON);
	assert_int_equal(pmx_context_open(&x, nodes[0], PMX_ANY_CONTEXT, &params), 0);
	assert_int_equal(x->inline_sends, 5);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(pmx_send_copy(x, TO, &i, sizeof(i), NULL), 0);
	assert_int_equal(pmx_send_copy(x, TO, "late", 4, NULL), -ENOBUFS);
	for (uint32_t i = 0; i < 10; i++)
		takes((const uint8_t *)&i, sizeof(i));
	assert_int_equal(pmx_send_wait(x, PATIENCE_US), 0);
	pmx_context_close(x);
}

/* Check that contexts have fewer inline sends, or none, where mbufs are few, and that all else is
 * as before. */
static void
inline__none_is_refused_for_want_of_them(void **state)
{
	enum { MORE = 14 };
	struct pmx_context *more[MORE];
	uint32_t least = UINT32_MAX;

	(void)state;
	pair_contexts = CONTEXTS + MORE;
	pair_start("client", GIVES_UP_SOON);
	for (unsigned i = 0; i < MORE; i++) {
		uint32_t number = i;

		assert_int_equal(pmx_context_open(&more[i], nodes[0], PMX_ANY_CONTEXT, NULL), 0);
		if (more[i]->inline_sends < least)
			least = more[i]->inline_sends;
		for (unsigned k = 0; k < more[i]->send_buffers; k++)
			assert_int_equal(pmx_send_copy(more[i], TO, &number, sizeof(number), NULL),
				0);
		for (unsigned k = 0; k < more[i]->send_buffers; k++)
			takes((const uint8_t *)&number, sizeof(number));
	}
	assert_int_equal(least, 0);
	for (unsigned i = 0; i < MORE; i++)
		pmx_context_close(more[i]);
}

static void
inline__what_fails_is_counted(void **state)
{
	const struct pmx_addr nowhere[] = {{7, 0}, {1, 2000}, {0, 2000}};
	struct pmx_context *x;

	(void)state;
	pair_start("client", GIVES_UP_SOON);
	x = ctx[0][0];
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(pmx_send_copy(x, nowhere[i], "nobody", 6, NULL), 0);
		assert_int_equal(pmx_send_copy(x, TO, &i, sizeof(i), NULL), 0);
		takes((const uint8_t *)&i, sizeof(i));
		UNTIL(pmx_sends_pending(x) == 0);
		assert_int_equal(stat_of(x).send_errors, i + 1);
		assert_int_equal(stat_of(x).sent, i + 1);
	}
}

static void
inline__frames_are_lost(void **state)
{
	struct pmx_context *x;
	uint32_t sent = 0, got = 0;

	(void)state;
	pair_start("client", "");
	x = ctx[0][0];
	keep_and_lose = 7;
	UNTIL(({
		struct pmx_message m;
		uint8_t bytes[44];

		if (sent < 2000) {
			memset(bytes, (int)sent, sizeof(bytes));
			memcpy(bytes, &sent, sizeof(sent));
			sent += pmx_send_copy(x, TO, bytes, sizeof(bytes), NULL) == 0;
		}
		if (pmx_receive(ctx[1][0], &m) == 1) {
			const uint8_t *p = pmx_message_data(&m);
			uint32_t number;

			assert_int_equal(m.len, sizeof(bytes));
			memcpy(&number, p, sizeof(number));
			assert_int_equal(number, got);
			for (unsigned i = 4; i < sizeof(bytes); i++)
				assert_int_equal(p[i], (uint8_t)got);
			got++;
			pmx_release_receive_buffer(ctx[1][0], &m);
		}
		got == 2000;
	}));
	keep_and_lose = 0;
	UNTIL(pmx_sends_pending(x) == 0);
	assert_int_equal(stat_of(x).sent, 2000);
	assert_true(x->free_count == x->send_buffers);
}

/* Matched ones: the head takes 16 bytes of the place. */
static void
inline__matched_messages(void **state)
{
	uint8_t out[64], in[64];

	(void)state;
	pair_start("client", "");
	for (unsigned from = 0; from < NODES; from++) {
		struct pmx_context *x = ctx[from][1];

		for (uint32_t len = 0; len <= SUBMIT_INLINE_BYTES - 15; len++) {
			struct pmx_matched m = {
				.peer = {1, 0},
				.tag = len,
				.data = out,
				.len = len,
			};
			bool fits = 16 + len <= SUBMIT_INLINE_BYTES;
			pmx_request r;

			bytes_fill(out, len, len);
			assert_int_equal(pmx_isend(x, &m, NULL), 0);
			if (len > 0) /* the first makes what matching needs */
				assert_int_equal(under_way(x), fits);
			m.peer = PMX_ANY_SOURCE;
			m.data = in;
			assert_int_equal(pmx_irecv(ctx[1][0], &m, &r), 0);
			UNTIL(pmx_test(ctx[1][0], &r, NULL) == 1);
			assert_memory_equal(in, out, len);
			UNTIL(pmx_sends_pending(x) == 0);
		}
	}
}

/* A client that breaks the rules: too long, and more than may be under way. What it is refused is
 * counted, and takes no other with it. */
static void
inline__what_is_no_inline_message_is_refused(void **state)
{
	const struct engine *e;
	struct pmx_context *x;

	(void)state;
	pair_start("client", "");
	e = &nodes[0]->embedded->engines[0];
	x = ctx[0][0];
	for (uint32_t i = 0; i < CHANNEL_INLINE_MOST + 10; i++) {
		struct submission *s = (struct submission *)slot_at(&x->sub, x->sub.pos)->body;

		memset(s, 0, sizeof(*s));
		s->op = SUBMIT_INLINE;
		s->count = (uint16_t)(i % 2); /* nobody looks at it */
		s->inlined.dst_node = 1;
		s->inlined.len = i == 0 ? SUBMIT_INLINE_BYTES + 1 : i == 1 ? UINT32_MAX : 4;
		memcpy(s->inlined.payload, &i, sizeof(i));
		slot_publish(&x->sub, x->sub.pos++);
	}
	for (unsigned i = 0; i < 10; i++)
		pmx_node_poll(nodes[0]); /* and no Ack comes */
	assert_int_equal(e->counters[ENGINE_bad_submissions], 2 + 8);
	assert_int_equal(nodes[0]->embedded->channels[0].inline_free, 0);
	for (uint32_t i = 2; i < CHANNEL_INLINE_MOST + 2; i++)
		takes((const uint8_t *)&i, sizeof(i));
	UNTIL(nodes[0]->embedded->channels[0].inline_free == CHANNEL_INLINE_MOST);
	assert_int_equal(pmx_send_copy(x, TO, "good", 4, NULL), 0);
	takes((const uint8_t *)"good", 4);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(inline__every_length_in_order, pair_stop),
		cmocka_unit_test_teardown(inline__a_buffer_is_free_at_once, pair_stop),
		cmocka_unit_test_teardown(inline__more_than_may_be_under_way, pair_stop),
		cmocka_unit_test_teardown(inline__a_context_with_few_buffers, pair_stop),
		cmocka_unit_test_teardown(inline__none_is_refused_for_want_of_them, pair_stop),
		cmocka_unit_test_teardown(inline__what_fails_is_counted, pair_stop),
		cmocka_unit_test_teardown(inline__frames_are_lost, pair_stop),
		cmocka_unit_test_teardown(inline__matched_messages, pair_stop),
		cmocka_unit_test_teardown(inline__what_is_no_inline_message_is_refused, pair_stop),
	};

	if (pair_eal("test_embedded_inline") < 0)
		return 1;
	return cmocka_run_group_tests_name("embedded_inline", tests, NULL, NULL);
}
