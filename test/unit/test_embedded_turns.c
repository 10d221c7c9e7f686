/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts that are idle: what they submit is found, and their clients ring (lib/engine/turns.h).
 * What a turn left in a link's queue is given to the link by the next one.
 */
#include <sys/epoll.h>
#include <sys/uio.h>

#include "embedded_pair.h"
#include "engine/turns.h"

/* A lane looks at idle contexts in turn. What they submit at last is taken within a round, and they
 * close as others do. */
static void
turns__idle_contexts_are_heard(void **state)
{
	enum { MORE = 14 };
	struct pmx_context *idle[MORE];
	struct engine *e;
	struct pmx_message msg;

	(void)state;
	pair_contexts = CONTEXTS + MORE;
	pair_start("client", "");
	e = &nodes[0]->embedded->engines[0];
	for (unsigned i = 0; i < MORE; i++) {
		const struct pmx_context_params params = {
			.size = sizeof(params),
			.send_buffers = 32,
			.receive_buffers = 64,
		};

		assert_int_equal(pmx_context_open(&idle[i], nodes[0], PMX_ANY_CONTEXT, &params), 0);
	}
	for (unsigned round = 0; round < 3; round++) {
		UNTIL(e->busy_count <= TURNS_FEW);
		assert_int_equal(e->open_count, CONTEXTS + MORE);
		for (unsigned i = 0; i < MORE; i++) {
			uint32_t number = i;

			assert_int_equal(pmx_send_copy(idle[i], (struct pmx_addr){1, 0}, &number,
						 sizeof(number), NULL),
				0);
		}
		/* each turn looks at TURNS_IDLE of them */
		for (unsigned i = 0; i < (CONTEXTS + MORE) / TURNS_IDLE + 1; i++)
			pmx_node_poll(nodes[0]);
		for (unsigned i = 0; i < MORE; i++)
			assert_int_equal(e->node->channels[idle[i]->ctx].sub.pos, idle[i]->sub.pos);
		for (unsigned i = 0; i < MORE; i++) {
			pair_take(&msg);
			pmx_release_receive_buffer(ctx[1][0], &msg);
		}
	}
	UNTIL(e->busy_count <= TURNS_FEW);
	for (unsigned i = 0; i < MORE; i++)
		pmx_context_close(idle[i]);
	UNTIL(e->open_count == CONTEXTS);
	assert_true(e->busy_count <= CONTEXTS);
}

/* A client whose context is idle rings with what it submits, whether the lane sleeps or not, and
 * the lane's epoll tells which one rang; others need not. */
static void
turns__idle_contexts_ring(void **state)
{
	enum { MORE = 6 };
	struct pmx_context *idle[MORE];
	struct epoll_event events[MORE + 1];
	struct pmx_message msg;
	struct engine *e;

	(void)state;
	pair_contexts = CONTEXTS + MORE;
	pair_start("client", "");
	e = &nodes[0]->embedded->engines[0];
	for (unsigned i = 0; i < MORE; i++)
		assert_int_equal(pmx_context_open(&idle[i], nodes[0], PMX_ANY_CONTEXT, NULL), 0);
	UNTIL(e->busy_count <= TURNS_FEW);
	while (epoll_wait(e->sleep_fd, events, MORE + 1, 0) > 0)
		;
	for (unsigned i = 0; i < MORE; i++) {
		struct channel *ch = &e->node->channels[idle[i]->ctx];
		const bool rings = ch->place >= e->busy_count;

		assert_int_equal(ch->shm->engine_sleeps, rings);
		/* as if its node was another process's, and might sleep */
		idle[i]->doorbell = ch->own_doorbell;
		idle[i]->engine_may_sleep = true;
		assert_int_equal(pmx_send_copy(idle[i], (struct pmx_addr){1, 0}, "", 1, NULL), 0);
		assert_int_equal(epoll_wait(e->sleep_fd, events, MORE + 1, 0), rings);
		if (rings)
			assert_int_equal(events[0].data.u32, BELL_OF(idle[i]->ctx));
		pair_take(&msg);
		pmx_release_receive_buffer(ctx[1][0], &msg);
		/* now it is busy, and need not ring */
		assert_int_equal(ch->shm->engine_sleeps, 0);
		assert_int_equal(pmx_send_copy(idle[i], (struct pmx_addr){1, 0}, "", 1, NULL), 0);
		assert_int_equal(epoll_wait(e->sleep_fd, events, MORE + 1, 0), 0);
		pair_take(&msg);
		pmx_release_receive_buffer(ctx[1][0], &msg);
		idle[i]->doorbell = -1;
		idle[i]->engine_may_sleep = false;
	}
	for (unsigned i = 0; i < MORE; i++)
		pmx_context_close(idle[i]);
}

/* The core's frames are pulled four bursts a turn. None of the last burst may wait for something
 * else to happen, also where these bursts were all there was. */
static void
turns__leave_no_frames(void **state)
{
	static uint8_t bytes[400 * 1500];
	struct pmx_message msg;
	struct engine *e;
	unsigned most = 0;

	(void)state;
	pair_start("client", "send_buffers = 512\nreceive_buffers = 1024");
	e = &nodes[0]->embedded->engines[0];
	for (uint32_t frames = 4 * e->burst; frames <= 12 * e->burst; frames += 4 * e->burst) {
		for (unsigned round = 0; round < 20; round++) {
			const struct iovec iov = {bytes, (size_t)frames * e->node->frag_len};

			assert_true(iov.iov_len <= sizeof(bytes));
			UNTIL(pmx_sendv(ctx[0][0], (struct pmx_addr){1, 0}, &iov, 1, NULL, NULL) ==
				0);
			for (unsigned i = 0; i < 20; i++) {
				const unsigned before = e->txq[0].n;

				most = before > most ? before : most;
				pmx_node_poll(nodes[0]);
				assert_true(e->txq[0].n == 0 || e->tx_waiting);
			}
			pair_take(&msg);
			assert_int_equal(msg.len, iov.iov_len);
			pmx_release_receive_buffer(ctx[1][0], &msg);
		}
	}
	assert_int_not_equal(most, 0); /* some had to wait, or nothing was tested */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(turns__idle_contexts_are_heard, pair_stop),
		cmocka_unit_test_teardown(turns__idle_contexts_ring, pair_stop),
		cmocka_unit_test_teardown(turns__leave_no_frames, pair_stop),
	};

	if (pair_eal("test_embedded_turns") < 0)
		return 1;
	return cmocka_run_group_tests_name("embedded_turns", tests, NULL, NULL);
}
