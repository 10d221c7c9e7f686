/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sends with parameters (pieces, cookies, a time after which they are not sent), sends that are
 * taken back, bursts to several contexts in turn, nodes that are watched, and structures of
 * parameters of other versions.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/params.h"
#include "embedded_pair.h"

static struct pmx_event event;

/* The next event, which is of that kind and has that cookie. */
static void
told(struct pmx_context *c, enum pmx_event_kind kind, uint64_t cookie, int error)
{
	int result;

	UNTIL((result = pmx_poll_event(c, &event)) != 0);
	assert_int_equal(result, 1);
	assert_int_equal(event.kind, kind);
	assert_int_equal(event.immediate, cookie);
	assert_int_equal(event.error, error);
}

static struct pmx_send_params
tells(uint64_t cookie)
{
	return (struct pmx_send_params){
		.size = sizeof(struct pmx_send_params),
		.flags = PMX_EVENT,
		.cookie = cookie,
	};
}

static void
sendv__pieces_arrive_as_one(void **state)
{
	static uint8_t bytes[20000], got[20000];
	const struct pmx_send_params p = tells(77);
	struct iovec iov[5] = {{bytes, 1}, {NULL, 0}, {bytes + 1, 9000}, {bytes + 9001, 47},
		{bytes + 9048, 10952}};
	struct pmx_message msg;

	(void)state;
	pair_start("client", "");
	bytes_fill(bytes, sizeof(bytes), 1);
	assert_int_equal(pmx_sendv(ctx[0][0], (struct pmx_addr){1, 0}, iov, 5, &p, NULL), 0);
	pair_take(&msg);
	assert_int_equal(msg.len, sizeof(bytes));
	assert_int_equal(pmx_message_read(ctx[1][0], &msg, 0, got, sizeof(got)), 0);
	assert_memory_equal(got, bytes, sizeof(got));
	pmx_release_receive_buffer(ctx[1][0], &msg);
	told(ctx[0][0], PMX_EVENT_SENT, 77, 0);
	assert_int_equal(event.len, sizeof(bytes));
	assert_int_equal(event.peer.node, 1);
	assert_int_equal(event.peer.context, 0);
	/* no piece is a message of no bytes, and who gives no parameters has no event */
	assert_int_equal(pmx_sendv(ctx[0][0], (struct pmx_addr){1, 0}, NULL, 0, NULL, NULL), 0);
	pair_take(&msg);
	assert_int_equal(msg.len, 0);
	pmx_release_receive_buffer(ctx[1][0], &msg);
	UNTIL(pmx_sends_pending(ctx[0][0]) == 0);
	assert_int_equal(pmx_poll_event(ctx[0][0], &event), 0);
	iov[0].iov_len = UINT32_MAX;
	assert_int_equal(pmx_sendv(ctx[0][0], (struct pmx_addr){1, 0}, iov, 5, NULL, NULL),
		-EMSGSIZE);
}

/* Send five messages of that length in all ways to context 1 of a node, and receive them. */
static void
send_in_all_ways(uint16_t node, uint32_t len)
{
	static uint8_t bytes[50000];
	const struct pmx_addr to[] = {{node, 1}, {node, 1}};
	const struct iovec iov = {bytes, len};
	const struct pmx_send_params p = tells(1);
	struct pmx_buffer buf[2];
	struct pmx_message msg;

	assert_int_equal(pmx_send_copy(ctx[0][0], to[0], bytes, len, NULL), 0);
	assert_int_equal(pmx_sendv(ctx[0][0], to[0], &iov, 1, &p, NULL), 0);
	for (unsigned n = 1; n <= 2; n++) {
		for (unsigned k = 0; k < n; k++)
			assert_int_equal(pmx_get_send_buffer(ctx[0][0], len, &buf[k]), 0);
		assert_int_equal(pmx_send_burst(ctx[0][0], to, buf, NULL, n), (int)n);
	}
	for (unsigned k = 0; k < 5; k++) {
		int got;

		UNTIL((got = pmx_receive(ctx[node][1], &msg)) != 0);
		assert_int_equal(got, 1);
		assert_int_equal(msg.len, len);
		pmx_release_receive_buffer(ctx[node][1], &msg);
	}
	told(ctx[0][0], PMX_EVENT_SENT, 1, 0);
	UNTIL(pmx_sends_pending(ctx[0][0]) == 0);
}

/* Messages and bytes are counted once: within a node and to another one, whichever length is the
 * first, which waits for its flow. */
static void
send__is_counted_once(void **state)
{
	enum { LENGTHS = 6 };
	static const uint32_t lengths[LENGTHS] = {0, 8, 40, 500, 5000, 50000};

	(void)state;
	for (unsigned first = 0; first < LENGTHS; first++) {
		pair_start("client", "");
		const struct engine *e = &nodes[0]->embedded->engines[0];
		const struct channel *mine = &nodes[0]->embedded->channels[0];
		uint64_t count = 0, bytes = 0;

		for (uint16_t node = 0; node < NODES; node++) {
			const struct channel *other = &nodes[node]->embedded->channels[1];
			uint64_t came = 0;

			for (unsigned i = 0; i < LENGTHS; i++) {
				const uint32_t len = lengths[(first + i) % LENGTHS];

				send_in_all_ways(node, len);
				count += 5;
				bytes += 5ull * len;
				came += 5ull * len;
				assert_int_equal(mine->sent, count);
				assert_int_equal(mine->sent_bytes, bytes);
				assert_int_equal(e->counters[ENGINE_submissions], count);
				assert_int_equal(other->received_bytes, came);
			}
		}
		pair_stop(NULL);
	}
}

/* Events come in the order in which the messages ended, each with its cookie and its error. Buffers
 * are in use until then, but wait for nothing. */
static void
send_with__cookies_come_back(void **state)
{
	const uint32_t count = 8;
	struct pmx_send_params p;
	struct pmx_buffer buf;
	struct pmx_message msg;

	(void)state;
	pair_start("client", "send_buffers = 10");
	for (uint32_t round = 0; round < 5; round++) {
		for (uint32_t i = 0; i < count; i++) {
			const struct pmx_addr to = {1, i % 4 == 3 ? 9 : 0};

			p = tells(100 * round + i);
			UNTIL(pmx_get_send_buffer(ctx[0][0], 100, &buf) == 0);
			assert_int_equal(pmx_send_with(ctx[0][0], to, &buf, &p, NULL), 0);
			assert_int_equal(pmx_send_with(ctx[0][0], to, &buf, &p, NULL), -EINVAL);
		}
		for (uint32_t i = 0; i < count - count / 4; i++) {
			pair_take(&msg);
			pmx_release_receive_buffer(ctx[1][0], &msg);
		}
		UNTIL(pmx_sends_pending(ctx[0][0]) == 0);
		assert_int_equal(pmx_send_wait(ctx[0][0], 0), 0);
		assert_int_equal(pmx_before_select(ctx[0][0]), 1);
		uint64_t seen = 0;

		for (uint32_t i = 0; i < count; i++) {
			assert_int_equal(pmx_poll_event(ctx[0][0], &event), 1);
			const uint64_t k = event.immediate - 100 * round;

			assert_int_equal(event.kind, PMX_EVENT_SENT);
			assert_in_range(k, 0, count - 1);
			assert_int_equal(event.error, k % 4 == 3 ? -ECONNREFUSED : 0);
			assert_int_equal(event.peer.context, k % 4 == 3 ? 9 : 0);
			assert_false(seen >> k & 1);
			seen |= 1ull << k;
		}
		assert_int_equal(pmx_poll_event(ctx[0][0], &event), 0);
	}
}

/* The last error is told as well as how many there were, of messages with a buffer and without. */
static void
context_read_stat__last_error(void **state)
{
	struct pmx_context_stat stat;
	pmx_send_id id;

	(void)state;
	pair_start("client", "");
	pmx_context_read_stat(ctx[0][0], &stat);
	assert_int_equal(stat.last_error, 0);
	assert_int_equal(pmx_send_copy(ctx[0][0], (struct pmx_addr){1, 9}, "x", 1, NULL), 0);
	UNTIL(pmx_sends_pending(ctx[0][0]) == 0);
	pmx_context_read_stat(ctx[0][0], &stat);
	assert_int_equal(stat.send_errors, 1);
	assert_int_equal(stat.last_error, -ECONNREFUSED);
	assert_int_equal(pmx_send_copy(ctx[0][0], (struct pmx_addr){9, 0}, "x", 1, &id), 0);
	UNTIL(pmx_sends_pending(ctx[0][0]) == 0);
	pmx_context_read_stat(ctx[0][0], &stat);
	assert_int_equal(stat.send_errors, 2);
	assert_int_equal(stat.last_error, -EHOSTUNREACH);
}

/* Check that what waits for a node that does not answer, and what waits for room at a context of
 * this node, can be taken back: it ends with -ECANCELED, and is not delivered. */
static void
send_cancel__what_has_not_left(void **state)
{
	struct pmx_send_params p = tells(1);
	struct pmx_message msg;
	pmx_send_id id, first;
	char text[8];

	(void)state;
	pair_start("client", "lhs_entries = 16");
	struct iovec iov = {text, sizeof(text)};

	assert_int_equal(pmx_sendv(ctx[0][0], (struct pmx_addr){1, 0}, &iov, 1, &p, &first), 0);
	for (unsigned i = 0; i < 100; i++)
		pmx_node_poll(nodes[0]); /* node 1 does not run */
	assert_int_equal(pmx_is_send_done(ctx[0][0], first), 0);
	assert_int_equal(pmx_send_cancel(ctx[0][0], first), 0);
	while (pmx_poll_event(ctx[0][0], &event) == 0)
		pmx_node_poll(nodes[0]);
	assert_int_equal(event.error, -ECANCELED);
	assert_int_equal(pmx_is_send_done(ctx[0][0], first), -ECANCELED);
	assert_int_equal(pmx_send_cancel(ctx[0][0], first), 0); /* it has ended */
	/* one that arrives cannot be taken back */
	strcpy(text, "stays");
	assert_int_equal(pmx_sendv(ctx[0][0], (struct pmx_addr){1, 0}, &iov, 1, NULL, &id), 0);
	pair_take(&msg);
	assert_string_equal(pmx_message_data(&msg), "stays");
	pmx_release_receive_buffer(ctx[1][0], &msg);
	assert_int_equal(pmx_send_cancel(ctx[0][0], id), 0);
	UNTIL(pmx_is_send_done(ctx[0][0], id) == 1);
	assert_int_equal(pmx_send_cancel(ctx[0][0], 0xFFFF), -EINVAL);
	/* on this node: the receiver takes nothing until its ring is full */
	unsigned sent = 0, got = 0;

	for (unsigned still = 0; still < 3; sent++) {
		snprintf(text, sizeof(text), "%u", sent);
		UNTIL(pmx_sendv(ctx[0][0], (struct pmx_addr){0, 1}, &iov, 1, NULL, &id) == 0);
		for (unsigned i = 0; i < 20; i++)
			pair_poll();
		still = pmx_is_send_done(ctx[0][0], id) == 0 ? still + 1 : 0;
	}
	assert_int_equal(pmx_send_cancel(ctx[0][0], id), 0); /* the last */
	UNTIL(pmx_is_send_done(ctx[0][0], id) == -ECANCELED);
	while (got < sent - 1) {
		UNTIL(pmx_receive(ctx[0][1], &msg) == 1);
		assert_int_equal(atoi(pmx_message_data(&msg)), got++);
		pmx_release_receive_buffer(ctx[0][1], &msg);
	}
	for (unsigned i = 0; i < 1000; i++)
		pair_poll();
	assert_int_equal(pmx_receive(ctx[0][1], &msg), 0);
}

/* A message that has not left when its time is over ends by that, long before its receiver's node
 * is given up; those that have no such time go on. */
static void
send_with__expires(void **state)
{
	struct pmx_send_params p = tells(5);
	struct iovec iov = {(char[]){"once"}, 5};
	struct pmx_message msg;

	(void)state;
	pair_start("client", "[proto]\nhello_ms = 600000");
	p.expire_us = 2000;
	assert_int_equal(pmx_sendv(ctx[0][0], (struct pmx_addr){1, 0}, &iov, 1, &p, NULL), 0);
	iov.iov_base = (char[]){"kept"};
	assert_int_equal(pmx_sendv(ctx[0][0], (struct pmx_addr){1, 0}, &iov, 1, NULL, NULL), 0);
	const int64_t end = now_us() + PATIENCE_US;

	while (pmx_poll_event(ctx[0][0], &event) == 0) {
		assert_true(now_us() < end);
		pmx_node_poll(nodes[0]);
	}
	assert_int_equal(event.kind, PMX_EVENT_SENT);
	assert_int_equal(event.immediate, 5);
	assert_int_equal(event.error, -ETIMEDOUT);
	pair_take(&msg);
	assert_string_equal(pmx_message_data(&msg), "kept");
	pmx_release_receive_buffer(ctx[1][0], &msg);
	/* one that arrives in time does not expire later, nor does the next one in its buffer: each
	 * has arrived if, and only if, its event says so (a machine may pause for that long) */
	p.expire_us = 5000;
	for (unsigned i = 0; i < 400; i++) {
		p.cookie = i;
		assert_int_equal(pmx_sendv(ctx[0][0], (struct pmx_addr){1, 0}, &iov, 1, &p, NULL),
			0);
		UNTIL(pmx_poll_event(ctx[0][0], &event) == 1);
		assert_int_equal(event.immediate, i);
		assert_true(event.error == 0 || event.error == -ETIMEDOUT);
		assert_int_equal(pmx_receive(ctx[1][0], &msg), event.error == 0);
		if (event.error == 0)
			pmx_release_receive_buffer(ctx[1][0], &msg);
	}
	UNTIL(!nodes[0]->embedded->engines[0].expires);
}

static void
watch__tells_when_a_node_comes_and_goes(void **state)
{
	(void)state;
	pair_start("client", "[proto]\nkeepalive_ms = 20\nhello_ms = 50");
	assert_int_equal(pmx_context_unwatch(ctx[0][0], 1), -ENOENT);
	assert_int_equal(pmx_context_watch(ctx[0][0], 0xFFFF), -EINVAL);
	assert_int_equal(pmx_context_watch(ctx[0][0], 1), 0);
	assert_int_equal(pmx_context_watch(ctx[0][0], 1), 0);
	told(ctx[0][0], PMX_EVENT_NODE_UP, 0, 0);
	assert_int_equal(event.peer.node, 1);
	assert_int_equal(event.peer.context, PMX_ANY_CONTEXT);
	assert_int_equal(pmx_context_watch(ctx[0][0], 0), 0); /* this one */
	told(ctx[0][0], PMX_EVENT_NODE_UP, 0, 0);
	assert_int_equal(event.peer.node, 0);
	assert_int_equal(pmx_context_watch(ctx[0][0], 7), 0); /* none of the cluster */
	told(ctx[0][0], PMX_EVENT_NODE_DOWN, 0, -EHOSTUNREACH);
	assert_int_equal(event.peer.node, 7);
	/* node 1 hangs */
	const int64_t end = now_us() + PATIENCE_US;

	while (pmx_poll_event(ctx[0][0], &event) == 0) {
		assert_true(now_us() < end);
		pmx_node_poll(nodes[0]);
	}
	assert_int_equal(event.kind, PMX_EVENT_NODE_DOWN);
	assert_int_equal(event.peer.node, 1);
	told(ctx[0][0], PMX_EVENT_NODE_UP, 0, 0); /* and goes on */
	assert_int_equal(event.peer.node, 1);
	assert_int_equal(pmx_context_unwatch(ctx[0][0], 1), 0);
	assert_int_equal(pmx_context_unwatch(ctx[0][0], 0), 0);
	assert_int_equal(pmx_context_unwatch(ctx[0][0], 7), 0);
	for (uint16_t n = 0; n < 64; n++)
		UNTIL(pmx_context_watch(ctx[0][0], 100 + n) == 0);
	assert_int_equal(pmx_context_watch(ctx[0][0], 1), -ENOSPC);
	for (uint16_t n = 0; n < 64; n++)
		told(ctx[0][0], PMX_EVENT_NODE_DOWN, 0, -EHOSTUNREACH);
	for (uint16_t n = 0; n < 64; n++)
		assert_int_equal(pmx_context_unwatch(ctx[0][0], 100 + n), 0);
	UNTIL(!nodes[0]->embedded->engines[0].watches);
	assert_int_equal(pmx_poll_event(ctx[0][0], &event), 0);
}

/* A program that knows fewer fields gets defaults for the others; one that knows more is served if
 * it does not use them; and who has set no size has set nothing. */
static void
params__of_other_versions(void **state)
{
	struct later {
		struct pmx_context_params p;
		uint64_t more;
	} later = {.p = {.size = sizeof(later), .send_buffers = 5}};
	struct pmx_context_params p = {0}, read;
	struct pmx_context *c;

	(void)state;
	pair_contexts = CONTEXTS + 1;
	pair_start("client", "");
	assert_int_equal(pmx_context_open(&c, nodes[0], 2, &p), -EINVAL);
	assert_int_equal(pmx_context_open(&c, nodes[0], 0x10000, NULL), -EINVAL);
	assert_int_equal(pmx_context_open(&c, nodes[0], 2, &later.p), 0);
	pmx_context_close(c);
	later.more = 1;
	assert_int_equal(pmx_context_open(&c, nodes[0], 2, &later.p), -E2BIG);
	p = (struct pmx_context_params){.size = 8, .send_buffers = 5, .receive_buffers = 9};
	assert_int_equal(params_read(&read, sizeof(read), &p), 0);
	assert_int_equal(read.size, sizeof(read));
	assert_int_equal(read.send_buffers, 5);
	assert_int_equal(read.receive_buffers, 0);
	p.size = PARAMS_BYTES_MAX + 1;
	assert_int_equal(params_read(&read, sizeof(read), &p), -EINVAL);
	assert_int_equal(params_read(&read, sizeof(read), NULL), 0);
	assert_int_equal(read.size, sizeof(read));
	const struct pmx_send_params wrong = {.size = sizeof(wrong), .flags = PMX_SYNC};

	assert_int_equal(pmx_sendv(ctx[0][0], (struct pmx_addr){1, 0}, NULL, 0, &wrong, NULL),
		-EINVAL);
}

/* ------------------------------------------------------------------ to several contexts in turn */

#define TARGETS 3 /* two contexts of the other node, and one of the own */

static const struct {
	struct pmx_addr address;
	unsigned node, context;
} target[TARGETS] = {{{1, 0}, 1, 0}, {{1, 1}, 1, 1}, {{0, 1}, 0, 1}};
static uint32_t sent_to[TARGETS], taken_of[TARGETS];

/* The next message to a target: its number, in a buffer or copied. Returns false if there is no
 * room for it now. */
static bool
send_next(unsigned t, unsigned len, bool copied)
{
	uint8_t bytes[64];
	struct pmx_buffer buf;

	memset(bytes, (int)t, sizeof(bytes));
	memcpy(bytes, &sent_to[t], sizeof(sent_to[t]));
	if (copied) {
		if (pmx_send_copy(ctx[0][0], target[t].address, bytes, len, NULL) != 0)
			return false;
	} else {
		if (pmx_get_send_buffer(ctx[0][0], len, &buf) != 0)
			return false;
		memcpy(buf.data, bytes, len);
		assert_int_equal(pmx_send(ctx[0][0], target[t].address, &buf, NULL), 0);
	}
	sent_to[t]++;
	return true;
}

/* Takes what has come to a target, which is what was sent to it, in order. */
static void
take_all(unsigned t)
{
	struct pmx_context *c = ctx[target[t].node][target[t].context];
	struct pmx_message msg;
	uint32_t number;

	while (pmx_receive(c, &msg) == 1) {
		const uint8_t *data = pmx_message_data(&msg);

		memcpy(&number, data, sizeof(number));
		assert_int_equal(number, taken_of[t]++);
		assert_in_range(msg.len, 5, 64);
		for (uint32_t i = sizeof(number); i < msg.len; i++)
			assert_int_equal(data[i], t);
		pmx_release_receive_buffer(c, &msg);
	}
}

/* Send bursts to the targets, to the first so many messages more: to period of them in turns, or,
 * if it is 0, to all by chance. */
static void
alternate(unsigned period, unsigned messages, uint32_t seed)
{
	const uint32_t goal = sent_to[0] + messages;

	while (sent_to[0] < goal) {
		const unsigned count = 1 + (seed = seed * 1103515245 + 12345) / 65536 % 40;

		for (unsigned i = 0; i < count; i++) {
			seed = seed * 1103515245 + 12345;
			const unsigned t = period ? i % period : seed / 65536 % TARGETS;

			if (!send_next(t, 5 + seed / 256 % 60, seed / 8192 % 3 == 0))
				break;
		}
		pair_poll();
		for (unsigned t = 0; t < TARGETS && seed / 4096 % 3 != 0; t++)
			take_all(t);
	}
	for (unsigned t = 0; t < TARGETS; t++)
		UNTIL((take_all(t), taken_of[t] == sent_to[t]));
	UNTIL(pmx_sends_pending(ctx[0][0]) == 0);
}

/* Those to each context arrive in order and once, also where there is little room, and where frames
 * are lost. */
static void
send__alternates(void **state)
{
	static const char *const limits[] = {"",
		"send_buffers = 48\nreceive_buffers = 16\nlhs_entries = 16\nsubmissions = 64",
		"send_buffers = 48\n" GIVES_UP_SOON "\nwindow = 16"};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		pair_start("client", limits[i]);
		memset(sent_to, 0, sizeof(sent_to));
		memset(taken_of, 0, sizeof(taken_of));
		keep_and_lose = i == 2 ? 13 : 0;
		alternate(2, 1000, 1 + i);
		alternate(3, 700, 2 + i);
		alternate(0, 800, 3 + i);
		if (i < 2)
			assert_int_equal(pair_stop(state), 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(sendv__pieces_arrive_as_one, pair_stop),
		cmocka_unit_test(send__is_counted_once),
		cmocka_unit_test_teardown(send_with__cookies_come_back, pair_stop),
		cmocka_unit_test_teardown(context_read_stat__last_error, pair_stop),
		cmocka_unit_test_teardown(send_cancel__what_has_not_left, pair_stop),
		cmocka_unit_test_teardown(send_with__expires, pair_stop),
		cmocka_unit_test_teardown(send__alternates, pair_stop),
		cmocka_unit_test_teardown(watch__tells_when_a_node_comes_and_goes, pair_stop),
		cmocka_unit_test_teardown(params__of_other_versions, pair_stop),
	};

	if (pair_eal("test_embedded_sends") < 0)
		return 1;
	return cmocka_run_group_tests_name("embedded_sends", tests, NULL, NULL);
}
