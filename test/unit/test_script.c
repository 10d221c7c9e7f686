/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A script of operations between two embedded nodes, joined by the loop link in one process. Each
 * frame that a node gives to its link is a line (script_record.h), and so is what an application is
 * told; test/unit/script.frames has these lines as they were, and a line that differs fails its
 * step. `test_script --record FILE` writes them anew; with `--all` nothing is folded into digests,
 * so that the files of two builds can be compared line by line.
 *
 * Design notes
 * 1. Engine and client are compiled for this test with a clock and random numbers of its own
 *    (script_clock.h). The clock moves by TICK_NS whenever a node looks at its link, once a poll: a
 *    run takes the same polls on any machine.
 * 2. Each step starts both nodes anew, so that a difference in one is none in the next.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <rte_eal.h>

#include "client/client.h"
#include "engine/lane.h"
#include "engine/service/rma/rma.h"
#include "pmx/pmx.h"
#include "script_clock.h"
#include "script_record.h"

#define NODES    2
#define CONTEXTS 2
#define TICK_NS  1000
#define REGION   (1u << 18)
#define LONG     50000u
#define QUIET    1000    /* polls without work: nothing is under way */
#define PATIENCE 2000000 /* polls */

static struct pmx_node *nodes[NODES];
static struct pmx_context *ctx[NODES][CONTEXTS];
static struct link_ops tapped;
static uint64_t clock_now, randoms;
static unsigned lose_every, given; /* every so many'th frame is lost, 0: none */
static uint8_t bytes_out[REGION], bytes_in[REGION];
static FILE *recording; /* NULL: lines are compared */
static bool all_lines;

/* --------------------------------------------------------------- clock, random numbers, the tap */

uint64_t
script_rdtsc(void)
{
	return clock_now;
}

uint64_t
script_hz(void)
{
	return SCRIPT_HZ;
}

uint64_t
script_rand(void)
{
	uint64_t x = (randoms += 0x9E3779B97F4A7C15u);

	x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
	return x ^ x >> 27;
}

ssize_t
script_getrandom(void *to, size_t len, unsigned flags)
{
	uint8_t *at = to;

	(void)flags;
	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)(script_rand() >> 32);
	return (ssize_t)len;
}

static uint16_t
tap_rx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	clock_now += TICK_NS;
	return link_loop_ops.rx(l, queue, bufs, n);
}

static uint16_t
tap_tx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n; i++) {
		record_frame(l->node, bufs[i]);
		if (lose_every != 0 && ++given % lose_every == 0)
			rte_pktmbuf_free(bufs[i]);
		else if (link_loop_ops.tx(l, queue, &bufs[i], 1) == 0)
			fail_msg("the link is full");
	}
	return i;
}

static void
open_context(unsigned node, uint16_t context)
{
	const struct pmx_context_params p = {.context = context, .idle = PMX_IDLE_SPIN};

	assert_int_equal(pmx_context_open(&ctx[node][context], nodes[node], &p), 0);
}

static void
start(const char *step, const char *matching, const char *more)
{
	record_begin(step);
	clock_now = SCRIPT_HZ;
	randoms = 1;
	for (unsigned n = 0; n < NODES; n++) {
		char text[512], error[256] = "";
		struct pmx_node_params params = {.config_text = text};

		snprintf(text, sizeof(text),
			"[node]\nid = %u\nname = script%u\n[engine]\nmatching = %s\n"
			"rendezvous = 4000\nidle = spin\n"
			"[link 0]\ndriver = loop\nport = script\nencap = none\n[nodes]\n0 = auto\n"
			"1 = auto\n"
			"[limits]\ncontexts = 2\nmbufs = 8192\npin_watch = off\n%s\n",
			n, n, matching, more);
		if (pmx_node_start(&nodes[n], &params, error, sizeof(error)) != 0)
			fail_msg("%s", error);
		tapped = link_loop_ops;
		tapped.tx = tap_tx;
		tapped.rx = tap_rx;
		nodes[n]->embedded->links[0].ops = &tapped;
		for (uint16_t c = 0; c < CONTEXTS; c++)
			open_context(n, c);
	}
}

/* ------------------------------------------------------------------ turns */

static unsigned
turn(void)
{
	return pmx_node_poll(nodes[0]) + pmx_node_poll(nodes[1]);
}

static void
turns(unsigned n)
{
	while (n-- > 0)
		turn();
}

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		unsigned polls_ = 0;                                                               \
		while (!(condition)) {                                                             \
			assert_true(++polls_ < PATIENCE);                                          \
			turn();                                                                    \
		}                                                                                  \
	} while (0)

static void
settle(void)
{
	for (unsigned quiet = 0, polls = 0; quiet < QUIET; polls++) {
		unsigned work = turn();

		for (unsigned n = 0; n < NODES; n++) {
			work += nodes[n]->embedded->engines[0].dirty_count;
			for (unsigned c = 0; c < CONTEXTS; c++)
				work += ctx[n][c] ? pmx_sends_pending(ctx[n][c]) +
						pmx_transfers_pending(ctx[n][c])
						  : 0;
		}
		quiet = work ? 0 : quiet + 1;
		assert_true(polls < PATIENCE);
	}
}

static int
stop(void **state)
{
	(void)state;
	for (unsigned n = 0; n < NODES; n++) {
		for (unsigned c = 0; c < CONTEXTS; c++) {
			if (ctx[n][c] != NULL)
				pmx_context_close(ctx[n][c]);
			ctx[n][c] = NULL;
		}
	}
	lose_every = given = 0;
	for (unsigned n = 0; n < NODES; n++) {
		pmx_node_close(nodes[n]);
		nodes[n] = NULL;
	}
	return 0;
}

/* The step's lines are written, or are those that were. */
static void
judge(const char *step)
{
	const char *text;

	settle();
	text = record_end(all_lines);
	if (recording != NULL)
		fputs(text, recording);
	else
		assert_int_equal(record_compare(SCRIPT_FRAMES, step, text), 0);
}

static void
fill(uint8_t *p, uint32_t len, unsigned salt)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 7 + (i >> 8) + salt);
}

/* ------------------------------------------------------------------ plain messages */

static void
send_plain(unsigned node, unsigned context, struct pmx_addr to, uint32_t len, unsigned salt)
{
	fill(bytes_out, len, salt);
	UNTIL(pmx_send_copy(ctx[node][context], to, bytes_out, len, NULL) == 0);
}

/* All that a context has, read and released. */
static unsigned
drain(unsigned node, unsigned context)
{
	struct pmx_message m;
	unsigned n = 0;

	for (; pmx_receive(ctx[node][context], &m) == 1; n++) {
		assert_int_equal(pmx_message_read(ctx[node][context], &m, 0, bytes_in, m.len), 0);
		record_note("%u.%u receives %u from %u.%u %08x", node, context, m.len,
			m.source.node, m.source.context,
			(unsigned)(record_sum(bytes_in, m.len) >> 32));
		pmx_release_receive_buffer(ctx[node][context], &m);
	}
	return n;
}

static void
drain_all(void)
{
	for (unsigned n = 0; n < NODES; n++) {
		for (unsigned c = 0; c < CONTEXTS; c++)
			drain(n, c);
	}
}

static void
note_sends(void)
{
	for (unsigned n = 0; n < NODES; n++) {
		for (unsigned c = 0; c < CONTEXTS; c++) {
			struct pmx_context_stat s;

			pmx_context_stat(ctx[n][c], &s);
			record_note("%u.%u: sent %u, errors %u, received %u", n, c,
				(unsigned)s.sent, (unsigned)s.send_errors, (unsigned)s.received);
		}
	}
}

static void
plain__short_and_bulk(void **state)
{
	static const uint32_t lens[] = {0, 1, 8, 24, 40, 41, 64, 104, 105, 500, 1400};

	(void)state;
	start(__func__, "client", "");
	for (unsigned i = 0; i < RTE_DIM(lens); i++) {
		for (unsigned from = 0; from < NODES; from++) {
			send_plain(from, 1, (struct pmx_addr){1, 0}, lens[i], i);
			turns(20);
			drain_all();
		}
	}
	settle();
	note_sends();
	judge(__func__);
}

static void
plain__chains(void **state)
{
	static const uint32_t lens[] = {1450, 1451, 3000, 4000, 20000};

	(void)state;
	start(__func__, "client", "");
	for (unsigned i = 0; i < RTE_DIM(lens); i++) {
		for (unsigned from = 0; from < NODES; from++) {
			send_plain(from, 1, (struct pmx_addr){1, 0}, lens[i], i);
			turns(40);
			drain_all();
		}
	}
	settle();
	note_sends();
	judge(__func__);
}

static void
plain__bursts_both_ways(void **state)
{
	(void)state;
	start(__func__, "client", "");
	for (unsigned round = 0; round < 6; round++) {
		for (unsigned from = 0; from < NODES; from++) {
			for (unsigned i = 0; i < 12; i++)
				send_plain(from, i % CONTEXTS,
					(struct pmx_addr){(uint16_t)!from,
						(uint16_t)(i / 2 % CONTEXTS)},
					10 + 60 * i, i + round);
		}
		turns(3);
		drain_all();
	}
	settle();
	drain_all();
	note_sends();
	judge(__func__);
}

/* One that reads nothing for a while. */
static void
full(const char *step, const char *limits, unsigned from, uint32_t len, unsigned count)
{
	unsigned got = 0;

	start(step, "client", limits);
	for (unsigned i = 0; i < count; i++)
		send_plain(from, 1, (struct pmx_addr){1, 0}, len, i);
	turns(300);
	record_note("%u.1 has %u pending", from, pmx_sends_pending(ctx[from][1]));
	UNTIL((got += drain(1, 0)) == count);
	settle();
	note_sends();
	judge(step);
}

static void
full__entries(void **state)
{
	(void)state;
	full(__func__, "lhs_entries = 16", 0, 20, 48);
}

static void
full__entries_of_own_node(void **state)
{
	(void)state;
	full(__func__, "lhs_entries = 16", 1, 20, 48);
}

static void
full__buffers(void **state)
{
	(void)state;
	full(__func__, "receive_buffers = 16\nmatched_buffers = 8", 0, 1000, 48);
}

static void
full__chains(void **state)
{
	(void)state;
	full(__func__, "receive_buffers = 16\nmatched_buffers = 8", 0, 4000, 20);
}

static void
lost__every_fifth_frame(void **state)
{
	(void)state;
	start(__func__, "client", "[proto]\nrto_min_us = 200\nrto_max_us = 5000");
	lose_every = 5;
	for (unsigned i = 0; i < 40; i++) {
		send_plain(0, 0, (struct pmx_addr){1, 0}, 30 + i * 80, i);
		send_plain(1, 0, (struct pmx_addr){0, 0}, 20, i);
		turns(5);
		drain_all();
	}
	UNTIL(pmx_sends_pending(ctx[0][0]) + pmx_sends_pending(ctx[1][0]) == 0);
	drain_all();
	note_sends();
	judge(__func__);
}

/* ------------------------------------------------------------------ contexts that come and go */

static void
note_send(struct pmx_context *c, pmx_send_id id, const char *what)
{
	UNTIL(pmx_is_send_done(c, id) != 0);
	record_note("%s: %d", what, pmx_is_send_done(c, id));
}

static void
closed__a_message_to_it_ends(void **state)
{
	pmx_send_id id;

	(void)state;
	start(__func__, "client", "[proto]\nrto_min_us = 200\nrto_max_us = 1000\nretries = 3");
	pmx_context_close(ctx[1][0]);
	ctx[1][0] = NULL;
	for (unsigned from = 0; from < NODES; from++) {
		assert_int_equal(
			pmx_send_copy(ctx[from][1], (struct pmx_addr){1, 0}, "closed", 6, &id), 0);
		note_send(ctx[from][1], id, "to a context that is closed");
		assert_int_equal(
			pmx_send_copy(ctx[from][1], (struct pmx_addr){7, 0}, "nobody", 6, &id), 0);
		note_send(ctx[from][1], id, "to a node that is not there");
	}
	open_context(1, 0);
	send_plain(0, 1, (struct pmx_addr){1, 0}, 10, 1);
	settle();
	drain_all();
	judge(__func__);
}

static void
reopened__its_peers_go_on(void **state)
{
	(void)state;
	start(__func__, "client", "[proto]\nrto_min_us = 200\nrto_max_us = 1000");
	for (unsigned round = 0; round < 4; round++) {
		unsigned node = round % 2;

		for (unsigned i = 0; i < 3; i++) {
			send_plain(0, 0, (struct pmx_addr){1, 0}, 100, i);
			send_plain(1, 0, (struct pmx_addr){0, 0}, 1000, i);
		}
		settle();
		drain_all();
		/* it is never read */
		send_plain(!node, 0, (struct pmx_addr){(uint16_t)node, 0}, 50, round);
		turns(4);
		pmx_context_close(ctx[node][0]);
		open_context(node, 0);
	}
	settle();
	drain_all();
	judge(__func__);
}

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

	fill(bytes_out, (uint32_t)len, from + receive_first);
	memset(bytes_in, 0, LONG);
	if (receive_first)
		assert_int_equal(pmx_irecv(ctx[1][0], &r, &receiving), 0);
	else
		assert_int_equal(pmx_isend(ctx[from][1], &s, &sending), 0);
	turns(60);
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

	start(step, matching, "");
	for (unsigned i = 0; i < RTE_DIM(lens); i++) {
		for (unsigned k = 0; k < 4; k++)
			match_one(k / 2, lens[i], k % 2, i % 2 ? PMX_DELIVERED : 0);
	}
	match_one(0, 8, false, PMX_SYNC);
	judge(step);
}

static void
matched__both_orders_client(void **state)
{
	(void)state;
	matched_orders(__func__, "client");
}

static void
matched__both_orders_engine(void **state)
{
	(void)state;
	matched_orders(__func__, "engine");
}

/* Tags, masks, probes, a receive that is taken back, pieces. */
static void
matched_verbs(const char *step, const char *matching)
{
	struct pmx_context *to;
	struct pmx_status status = {.error = 0};
	struct iovec pieces[3] = {{bytes_out, 100}, {bytes_out + 1000, 500}, {bytes_out + 4000, 7}};
	struct pmx_matched m = {.peer = {1, 0}, .data = bytes_out, .len = 30};
	struct pmx_matched any = {
		.peer = PMX_ANY_SOURCE,
		.ignore = PMX_ANY_TAG,
		.data = bytes_in,
		.len = LONG,
	};
	pmx_request request, receiving[4];
	int result;

	start(step, matching, "");
	to = ctx[1][0];
	fill(bytes_out, LONG, 1);
	for (unsigned i = 0; i < 8; i++) {
		m.tag = i % 4;
		m.comm = i / 4;
		assert_int_equal(pmx_isend(ctx[i % 2][1], &m, NULL), 0);
	}
	turns(60);
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
	any.len = 10; /* shorter than the message */
	assert_int_equal(pmx_irecv(to, &any, &request), 0);
	m = (struct pmx_matched){.peer = {1, 0}, .tag = 9, .iov = pieces, .iov_count = 3};
	assert_int_equal(pmx_isend(ctx[0][0], &m, NULL), 0);
	finish(1, 0, request, "too short");
	any.len = LONG;
	pieces[1].iov_len = 2900;
	pieces[2].iov_len = 2000; /* longer than what is eager */
	assert_int_equal(pmx_isend(ctx[0][0], &m, &request), 0);
	turns(30);
	assert_int_equal(pmx_irecv(to, &any, &receiving[0]), 0);
	finish(1, 0, receiving[0], "in pieces");
	finish(0, 0, request, "sent in pieces");
	judge(step);
}

static void
matched__verbs_client(void **state)
{
	(void)state;
	matched_verbs(__func__, "client");
}

static void
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

	start(step, matching, "matched_entries = 16\nreceive_buffers = 16\nmatched_buffers = 8");
	for (unsigned i = 0; i < 40; i++) {
		fill(bytes_out, 1000, i);
		m.tag = i;
		m.len = i % 3 ? 1000 : 16;
		UNTIL(pmx_isend(ctx[0][0], &m, NULL) == 0);
	}
	turns(300);
	for (unsigned i = 0; i < 40; i++) {
		assert_int_equal(pmx_irecv(ctx[1][0], &any, &request), 0);
		finish(1, 0, request, "received");
	}
	judge(step);
}

static void
matched__full_client(void **state)
{
	(void)state;
	matched_full(__func__, "client");
}

static void
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

	start(step, matching, limits);
	match_one(0, LONG, true, 0);
	assert_int_equal(pmx_isend(ctx[0][0], &m, &sending), 0);
	turns(30);
	pmx_context_close(ctx[1][0]);
	open_context(1, 0);
	finish(0, 0, sending, "to the life before");
	assert_int_equal(pmx_isend(ctx[0][0], &m, &sending), 0);
	turns(30);
	assert_int_equal(pmx_irecv(ctx[1][0], &r, &receiving), 0);
	finish(1, 0, receiving, "received");
	finish(0, 0, sending, "sent");
	judge(step);
}

static void
matched__reopened_client(void **state)
{
	(void)state;
	matched_reopened(__func__, "client", "");
}

static void
matched__reopened_engine(void **state)
{
	(void)state;
	matched_reopened(__func__, "engine", "");
}

static void
matched__reopened_with_a_short_memory(void **state)
{
	(void)state;
	matched_reopened(__func__, "client", "[proto]\nrto_min_us = 200\nrto_max_us = 5000");
}

/* ------------------------------------------------------------------ remote memory */

static uint8_t *local, *remote; /* shared memory of 0.0 and of the owner */
static struct pmx_remote region;

static void
open_region(unsigned node, unsigned context)
{
	void *p;

	assert_int_equal(pmx_alloc(ctx[0][0], REGION, &p), 0);
	local = p;
	assert_int_equal(pmx_alloc(ctx[node][context], REGION, &p), 0);
	remote = p;
	assert_int_equal(pmx_register(ctx[node][context], remote, REGION,
				 PMX_REMOTE_READ | PMX_REMOTE_WRITE, &region),
		0);
	record_memory(remote, REGION);
	record_memory(bytes_in, REGION);
	fill(local, REGION, 1);
	fill(remote, REGION, 2);
	fill(bytes_out, REGION, 3);
}

static struct pmx_transfer
transfer(void *from, uint64_t len, const struct pmx_part *part, uint32_t flags)
{
	return (struct pmx_transfer){
		.peer = region.owner,
		.key = region.key,
		.remote = region.addr,
		.local = from,
		.len = len,
		.part = part,
		.flags = flags,
	};
}

static void
note_end(pmx_transfer_id id, const char *what)
{
	UNTIL(pmx_transfer_done(ctx[0][0], id) != 0);
	record_note("%s: %d; there %08x, here %08x", what, pmx_transfer_done(ctx[0][0], id),
		(unsigned)(record_sum(remote, REGION) >> 32),
		(unsigned)(record_sum(local, REGION) >> 32));
}

static void
push(const struct pmx_transfer *t, const char *what)
{
	pmx_transfer_id id;

	assert_int_equal(pmx_push(ctx[0][0], t, &id), 0);
	note_end(id, what);
}

static void
pull(const struct pmx_transfer *t, const char *what)
{
	pmx_transfer_id id;

	assert_int_equal(pmx_pull(ctx[0][0], t, &id), 0);
	note_end(id, what);
}

static void
transfers_of_lengths(const char *step, unsigned node, unsigned context)
{
	static const uint64_t lens[] = {0, 8, 100, 1400, 1500, 5000, LONG};

	start(step, "client", "");
	open_region(node, context);
	for (unsigned i = 0; i < RTE_DIM(lens); i++) {
		struct pmx_transfer t = transfer(local, lens[i], NULL, 0);

		push(&t, "push");
		t.remote += 1001;
		t.local = local + 3;
		pull(&t, "pull");
		t.local = bytes_out;
		push(&t, "push of private memory");
		t.local = bytes_in;
		pull(&t, "pull into private memory");
	}
	judge(step);
}

static void
transfers__lengths(void **state)
{
	(void)state;
	transfers_of_lengths(__func__, 1, 0);
}

static void
transfers__lengths_on_own_node(void **state)
{
	(void)state;
	transfers_of_lengths(__func__, 0, 1);
}

static void
transfers__parts(void **state)
{
	static const uint64_t bits[16] = {0x5, 0xFF00, 0, 1ull << 63, 0, 0xAAAAAAAAAAAAAAAA};
	const struct pmx_part stride = {
		.kind = PMX_PART_STRIDE,
		.dims = 2,
		.block = 24,
		.interval = {100, 5000},
		.count = {30, 4},
	};
	const struct pmx_part wide = {
		.kind = PMX_PART_STRIDE,
		.dims = 1,
		.block = 3000,
		.interval = {5000},
		.count = {4},
	};
	const struct pmx_part bitmap = {.kind = PMX_PART_BITMAP, .unit = 64, .bits = bits};
	struct pmx_part twin = {.kind = PMX_PART_TWIN}, diff = {.kind = PMX_PART_DIFF};
	const struct pmx_part *parts[] = {&stride, &wide, &bitmap};
	void *copy;

	(void)state;
	start(__func__, "client", "");
	open_region(1, 0);
	for (unsigned i = 0; i < RTE_DIM(parts); i++) {
		struct pmx_transfer t = transfer(local, i == 2 ? 64 * 64 * 6 : 20000, parts[i], 0);

		push(&t, "push of a part");
		t.remote += 50000;
		pull(&t, "pull of a part");
	}
	copy = bytes_in;
	twin.twin = diff.twin = copy;
	struct pmx_transfer t = transfer(local, 10000, &twin, 0);

	pull(&t, "pull with a twin");
	for (unsigned i = 0; i < 10000; i += 700)
		local[i] ^= 0x55;
	t.part = &diff;
	push(&t, "push of what differs");
	push(&t, "push of nothing that differs");
	judge(__func__);
}

/* What is short waits for what is long; both sides are told. */
static void
transfers__order_and_events(void **state)
{
	struct pmx_event e;

	(void)state;
	start(__func__, "client", "");
	open_region(1, 0);
	for (unsigned i = 0; i < 6; i++) {
		struct pmx_transfer t = transfer(local, i % 2 ? 16 : 20000, NULL,
			PMX_ORDERED | PMX_EVENT | (i % 3 != 2 ? PMX_NOTIFY : 0));

		t.immediate = 100 + i;
		t.cookie = 200 + i;
		assert_int_equal(pmx_push(ctx[0][0], &t, NULL), 0);
	}
	settle();
	for (unsigned n = 0; n < NODES; n++) {
		while (pmx_event(ctx[n][0], &e) == 1)
			record_note("%u.0 is told: kind %u, of %u.%u, %u bytes, %u, error %d", n,
				e.kind, e.peer.node, e.peer.context, (unsigned)e.len,
				(unsigned)e.immediate, e.error);
	}
	judge(__func__);
}

static void
transfers__regions_that_end(void **state)
{
	struct pmx_remote own = {.key = 0}, area = {.key = 0};
	struct pmx_transfer t;

	(void)state;
	start(__func__, "client", "");
	open_region(1, 0);
	assert_int_equal(pmx_area_register(ctx[1][0], 5, bytes_in, 10000, PMX_REMOTE_READ, &area),
		0);
	assert_int_equal(pmx_register(ctx[1][1], bytes_out, 100, PMX_REMOTE_WRITE, &own), 0);
	record_memory(bytes_out, REGION);
	t = transfer(local, 300, NULL, PMX_AREA);
	t.key = 5;
	t.remote = 40;
	pull(&t, "pull from an area");
	push(&t, "push to an area that is read only");
	t.remote = 9900;
	pull(&t, "pull beyond the area");
	t = transfer(local, 100, NULL, 0);
	t.key = own.key;
	t.remote = own.addr;
	push(&t, "push to a region of another context");
	record_note("deregistered: %d", pmx_deregister(ctx[1][0], region.key));
	record_note("deregistered again: %d", pmx_deregister(ctx[1][0], region.key));
	t = transfer(local, 100, NULL, 0);
	push(&t, "push to a region that has ended");
	t.len = 20000;
	pull(&t, "pull from a region that has ended");
	judge(__func__);
}

static void
pins__count_and_end(void **state)
{
	pmx_transfer_id id;
	struct pmx_transfer t;

	(void)state;
	start(__func__, "client", "");
	open_region(1, 0);
	t = transfer(local, 4096, NULL, 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pmx_remote_pin(ctx[0][0], &t, &id), 0);
		note_end(id, "pin");
	}
	record_note("deregistered: %d", pmx_deregister(ctx[1][0], region.key));
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(pmx_remote_unpin(ctx[0][0], &t, &id), 0);
		note_end(id, "unpin");
	}
	assert_int_equal(pmx_remote_pin(ctx[0][0], &t, &id), 0);
	note_end(id, "pin");
	pmx_context_close(ctx[0][0]); /* with what it had pinned */
	open_context(0, 0);
	settle();
	record_note("deregistered: %d", pmx_deregister(ctx[1][0], region.key));
	judge(__func__);
}

static void
transfers__lost_frames(void **state)
{
	struct pmx_transfer t;

	(void)state;
	start(__func__, "client", "[proto]\nrto_min_us = 200\nrto_max_us = 5000");
	open_region(1, 0);
	lose_every = 7;
	t = transfer(local, 30000, NULL, 0);
	push(&t, "push");
	t.remote += 100;
	pull(&t, "pull");
	judge(__func__);
}

/* ------------------------------------------------------------------ */

static int
options(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--all") == 0) {
			all_lines = true;
		} else if (strcmp(argv[i], "--record") == 0 && i + 1 < argc && recording == NULL) {
			recording = fopen(argv[++i], "w");
			if (recording == NULL) {
				perror(argv[i]);
				return -1;
			}
		} else {
			fprintf(stderr, "Usage: test_script [--record FILE [--all]]\n");
			return -1;
		}
	}
	return all_lines && recording == NULL ? -1 : 0;
}

int
main(int argc, char **argv)
{
	char *eal[] = {"test_script", "--no-huge", "-m", "512", "--no-pci", "--no-telemetry",
		"--no-shconf", "--log-level=*:error", NULL};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(plain__short_and_bulk, stop),
		cmocka_unit_test_teardown(plain__chains, stop),
		cmocka_unit_test_teardown(plain__bursts_both_ways, stop),
		cmocka_unit_test_teardown(full__entries, stop),
		cmocka_unit_test_teardown(full__entries_of_own_node, stop),
		cmocka_unit_test_teardown(full__buffers, stop),
		cmocka_unit_test_teardown(full__chains, stop),
		cmocka_unit_test_teardown(lost__every_fifth_frame, stop),
		cmocka_unit_test_teardown(closed__a_message_to_it_ends, stop),
		cmocka_unit_test_teardown(reopened__its_peers_go_on, stop),
		cmocka_unit_test_teardown(matched__both_orders_client, stop),
		cmocka_unit_test_teardown(matched__both_orders_engine, stop),
		cmocka_unit_test_teardown(matched__verbs_client, stop),
		cmocka_unit_test_teardown(matched__verbs_engine, stop),
		cmocka_unit_test_teardown(matched__full_client, stop),
		cmocka_unit_test_teardown(matched__full_engine, stop),
		cmocka_unit_test_teardown(matched__reopened_client, stop),
		cmocka_unit_test_teardown(matched__reopened_engine, stop),
		cmocka_unit_test_teardown(matched__reopened_with_a_short_memory, stop),
		cmocka_unit_test_teardown(transfers__lengths, stop),
		cmocka_unit_test_teardown(transfers__lengths_on_own_node, stop),
		cmocka_unit_test_teardown(transfers__parts, stop),
		cmocka_unit_test_teardown(transfers__order_and_events, stop),
		cmocka_unit_test_teardown(transfers__regions_that_end, stop),
		cmocka_unit_test_teardown(transfers__lost_frames, stop),
		cmocka_unit_test_teardown(pins__count_and_end, stop),
	};

	if (options(argc, argv) != 0 || rte_eal_init(8, eal) < 0)
		return 2;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	return recording != NULL && fclose(recording) != 0 ? 2 : failed;
}
