/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the verbs promise and no byte of a message shows: which memory a receive touches, who moves
 * a long message, that a wait waits, that order is kept. Two embedded nodes in one process, joined
 * by the loop link; a node moves only when it is polled, so what cannot have happened yet is known.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_mempool.h>

#include "client/client.h"
#include "engine/lane.h"
#include "engine/service/rma/rma.h"
#include "rma/internal.h"
#include "node/node.h"
#include "pmx/pmx.h"
#include "wire/wire.h"

#define NODES       2
#define CONTEXTS    2
#define REGION      (1u << 20)
#define PATIENCE_US 20000000

static struct pmx_node *nodes[NODES];
static struct pmx_context *ctx[NODES][CONTEXTS];
static struct link_ops tapped;
static const char *only_second = ""; /* of node 1's configuration */
static unsigned pool_before[NODES];
static unsigned keep_and_lose; /* the link of both nodes holds what it sent for a while, and loses
				* every so many'th frame */
static unsigned sent_ops[NODES][WIRE_TRANSFER_OPS]; /* frames of remote memory that a node gave to
						     * its link */

static int64_t
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void
poll_both(void)
{
	pmx_node_poll(nodes[0]);
	pmx_node_poll(nodes[1]);
}

#define UNTIL(condition)                                                                           \
	do {                                                                                       \
		int64_t end_ = now_us() + PATIENCE_US;                                             \
		while (!(condition)) {                                                             \
			assert_true(now_us() < end_);                                              \
			poll_both();                                                               \
		}                                                                                  \
	} while (0)

/* As a port that gives mbufs back late: who sends one again before that must not write to it. */
static struct late {
	struct rte_mbuf *sent[64];
	unsigned frames;
} late[NODES];

static uint16_t
tx_late(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	struct late *d = &late[l->node];

	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf **place = &d->sent[d->frames % RTE_DIM(d->sent)], *m = bufs[i];

		for (struct rte_mbuf *s = m; s != NULL; s = s->next)
			rte_mbuf_refcnt_update(s, 1);
		if (++d->frames % keep_and_lose == 0) {
			rte_pktmbuf_free(m);
		} else if (link_loop_ops.tx(l, queue, &m, 1) == 0) {
			for (struct rte_mbuf *s = m; s != NULL; s = s->next)
				rte_mbuf_refcnt_update(s, -1);
			return i;
		}
		rte_pktmbuf_free(*place);
		*place = bufs[i];
	}
	return n;
}

static void
late_flush(void)
{
	for (unsigned n = 0; n < NODES; n++) {
		for (unsigned i = 0; i < RTE_DIM(late[n].sent); i++)
			rte_pktmbuf_free(late[n].sent[i]);
	}
	memset(late, 0, sizeof(late));
	keep_and_lose = 0;
}

/* Which transfer messages a node sends: frames begin with the header here. */
static uint16_t
tap_tx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++) {
		const struct wire_hdr *h = rte_pktmbuf_mtod(bufs[i], const struct wire_hdr *);
		uint16_t endpoint = wire_endpoint(wire_be16(h->dst_ctx));
		const struct wire_transfer *t = (const struct wire_transfer *)(h + 1);

		if (h->type == WIRE_DATA &&
			(endpoint == WIRE_TARGET || endpoint == WIRE_INITIATOR) &&
			t->op < WIRE_TRANSFER_OPS)
			sent_ops[l->node][t->op]++;
	}
	return keep_and_lose ? tx_late(l, queue, bufs, n) : link_loop_ops.tx(l, queue, bufs, n);
}

static void
start(const char *matching, const char *limits)
{
	for (unsigned n = 0; n < NODES; n++) {
		char text[512], error[256] = "";
		struct pmx_node_params params = {.config_text = text};

		snprintf(text, sizeof(text),
			"[node]\nid = %u\nname = verbs%u\n[engine]\nmatching = %s\n[link 0]\n"
			"driver = loop\nport = verbs\nencap = none\n"
			"[nodes]\n0 = auto\n1 = auto\n[limits]\ncontexts = 2\nmbufs = 8192\n%s\n"
			"%s\n",
			n, n, matching, limits, n == 1 ? only_second : "");
		if (pmx_node_start(&nodes[n], &params, error, sizeof(error)) != 0)
			fail_msg("%s", error);
		tapped = link_loop_ops;
		tapped.tx = tap_tx;
		nodes[n]->embedded->links[0].ops = &tapped;
		pool_before[n] = rte_mempool_avail_count(nodes[n]->embedded->pool);
		for (uint16_t c = 0; c < CONTEXTS; c++) {
			const struct pmx_context_params p = {.context = c};

			assert_int_equal(pmx_context_open(&ctx[n][c], nodes[n], &p), 0);
		}
	}
	memset(sent_ops, 0, sizeof(sent_ops));
}

/* Once all is done a lane has nothing to look at, turn after turn. */
static bool
is_quiet(void)
{
	int64_t end = now_us() + 10 * 1000 * 1000;
	unsigned quiet = 0;

	while (quiet < 100 && now_us() < end) {
		unsigned work = pmx_node_poll(nodes[0]) + pmx_node_poll(nodes[1]);

		for (unsigned n = 0; n < NODES; n++)
			work += nodes[n]->embedded->engines[0].dirty_count;
		quiet = work ? 0 : quiet + 1;
	}
	return quiet >= 100;
}

static int
stop(void **state)
{
	bool quiet = nodes[0] != NULL && nodes[1] != NULL && is_quiet();

	(void)state;
	if (!quiet)
		print_error("a lane still has something to do\n");
	for (unsigned n = 0; quiet && n < NODES; n++) {
		for (unsigned c = 0; c < CONTEXTS; c++) {
			pmx_context_close(ctx[n][c]);
			ctx[n][c] = NULL;
		}
	}
	late_flush();
	quiet = quiet && is_quiet();
	for (unsigned n = 0; quiet && n < NODES; n++) {
		unsigned have = rte_mempool_avail_count(nodes[n]->embedded->pool);

		if (have != pool_before[n]) {
			print_error("node %u has %u mbufs of %u\n", n, have, pool_before[n]);
			quiet = false;
		}
	}
	for (unsigned n = 0; n < NODES; n++) {
		pmx_node_close(nodes[n]);
		nodes[n] = NULL;
	}
	return quiet ? 0 : -1;
}

static void
fill(uint8_t *p, uint32_t len, unsigned salt)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 7 + salt);
}

/* The next message at context 0 of node 1. */
static void
take(struct pmx_message *msg)
{
	UNTIL(pmx_receive(ctx[1][0], msg) == 1);
}

/* ------------------------------------------------------------------ LHS: where a message lies */

static void
lhs_1__a_short_message_is_whole_in_its_entry(void **state)
{
	struct channel *ch;
	uint8_t bytes[256];

	(void)state;
	start("client", "");
	ch = &nodes[1]->embedded->channels[0];
	for (unsigned from = 0; from < NODES; from++) { /* over the link, and within the node */
		for (uint32_t len = 1; len <= ch->plain.lhs.split + 2; len++) {
			bool is_short = len <= ch->plain.lhs.split;
			const uint8_t *data;
			struct pmx_message msg;

			fill(bytes, len, len + from);
			assert_int_equal(pmx_send_copy(ctx[from][1], (struct pmx_addr){1, 0}, bytes,
						 len, NULL),
				0);
			take(&msg);
			assert_int_equal(msg.len, len);
			assert_memory_equal(pmx_message_data(&msg), bytes, len);
			data = msg.data;
			/* in the entry, so copied from there, and no buffer is held */
			assert_int_equal(data == msg.front, is_short);
			assert_int_equal(msg.bulk == LHS_NO_BULK, is_short);
			assert_int_equal(ch->plain.bulk_out, is_short ? 0 : 1);
			pmx_release_receive_buffer(ctx[1][0], &msg);
			UNTIL(pmx_receive(ctx[1][0], &msg) == 0 && ch->plain.bulk_out == 0);
		}
	}
}

static void
lhs_1__a_short_matched_message_takes_no_buffer(void **state)
{
	uint8_t bytes[256] = {0};

	(void)state;
	start("client", "");
	for (unsigned from = 0; from < NODES; from++) {
		struct channel *ch = &nodes[1]->embedded->channels[from];
		struct pmx_matched m = {
			.peer = {1, (uint16_t)from},
			.tag = 1,
			.data = bytes,
			.len = 8,
		};
		uint32_t before = ch->received;

		assert_int_equal(pmx_isend(ctx[from][1], &m, NULL), 0);
		UNTIL(ch->received == before + 1);
		assert_int_equal(ch->matched.bulk_out, 0);
		m.len = ch->matched.lhs.split + 1;
		assert_int_equal(pmx_isend(ctx[from][1], &m, NULL), 0);
		UNTIL(ch->received == before + 2);
		assert_int_equal(ch->matched.bulk_out, 1);
	}
}

/* ------------------------------------------------------------------ a receiver that is full */

/* One that reads nothing has room for so much; its senders wait, and lose nothing. */
static void
full(const char *limits, unsigned from, uint32_t len)
{
	static uint8_t bytes[4096];
	struct pmx_message msg;
	uint32_t sent = 0;
	struct channel *ch;

	start("client", limits);
	ch = &nodes[1]->embedded->channels[0];
	/* short ones that were read give back what they took, and no more */
	for (unsigned i = 0; i < 64; i++) {
		assert_int_equal(
			pmx_send_copy(ctx[from][1], (struct pmx_addr){1, 0}, bytes, 1, NULL), 0);
		take(&msg);
		pmx_release_receive_buffer(ctx[1][0], &msg);
	}
	UNTIL(pmx_sends_pending(ctx[from][1]) == 0);
	uint32_t before = ch->received;

	for (; sent < 64; sent++) {
		fill(bytes, len, sent);
		UNTIL(pmx_send_copy(ctx[from][1], (struct pmx_addr){1, 0}, bytes, len, NULL) == 0);
	}
	for (unsigned i = 0; i < 1000; i++)
		poll_both();
	assert_true(ch->plain.lhs.pos - ch->plain.lhs_pos <= ch->plain.lhs_size);
	assert_true(ch->plain.bulk_out <= ch->plain.bulk_quota);
	assert_in_range(ch->received - before, 1, sent - 1);
	assert_true(pmx_sends_pending(ctx[from][1]) >= sent - (ch->received - before));
	for (uint32_t i = 0; i < sent; i++) {
		take(&msg);
		fill(bytes, len, i);
		assert_int_equal(msg.len, len);
		uint8_t got[4096];

		assert_int_equal(pmx_message_read(ctx[1][0], &msg, 0, got, len), 0);
		assert_memory_equal(got, bytes, len);
		pmx_release_receive_buffer(ctx[1][0], &msg);
	}
	UNTIL(pmx_receive(ctx[1][0], &msg) == 0 && pmx_sends_pending(ctx[from][1]) == 0);
}

static void
full__entries_from_this_node(void **state)
{
	(void)state;
	full("lhs_entries = 16", 1, 20);
}

static void
full__entries_from_another_node(void **state)
{
	(void)state;
	full("lhs_entries = 16", 0, 20);
}

static void
full__buffers_from_this_node(void **state)
{
	(void)state;
	full("receive_buffers = 16\nmatched_buffers = 8", 1, 1000);
}

static void
full__buffers_from_another_node(void **state)
{
	(void)state;
	full("receive_buffers = 16\nmatched_buffers = 8", 0, 1000);
}

static void
full__chains_from_this_node(void **state)
{
	(void)state;
	full("receive_buffers = 16\nmatched_buffers = 8", 1, 4000);
}

/* ------------------------------------------------------------------ what a client may not say */

/* A submission as the library never writes it: fill it in, then submit_raw(). */
static struct submission *
raw_submission(struct pmx_context *x)
{
	struct submission *s = (struct submission *)slot_at(&x->sub, x->sub.pos)->body;

	memset(s, 0, sizeof(*s));
	return s;
}

static void
submit_raw(struct pmx_context *x)
{
	slot_publish(&x->sub, x->sub.pos++);
	poll_both();
}

static void
client__memory_of_no_such_number_is_not_forgotten(void **state)
{
	const struct memory_space *space;
	void *p;

	(void)state;
	start("client", "");
	assert_int_equal(pmx_alloc(ctx[0][0], 4096, &p), 0);
	poll_both();
	space = &nodes[0]->embedded->channels[0].space;
	assert_int_equal(space->count, 1);
	for (uint32_t number = 1; number != 0;
		number = number == MEMORIES_MAX ? UINT32_MAX : number + 1) {
		struct submission *s = raw_submission(ctx[0][0]);

		s->op = SUBMIT_FORGET;
		s->forget = number;
		submit_raw(ctx[0][0]);
	}
	assert_int_equal(space->count, 1);
	pmx_free(ctx[0][0], p);
	UNTIL(space->count == 0);
}

static void
client__a_bad_submission_takes_no_good_one_with_it(void **state)
{
	struct pmx_message msg;
	struct submission *s;

	(void)state;
	start("client", "");
	s = raw_submission(ctx[0][0]);
	s->op = SUBMIT_SEND; /* of no buffer */
	slot_publish(&ctx[0][0]->sub, ctx[0][0]->sub.pos++);
	assert_int_equal(pmx_send_copy(ctx[0][0], (struct pmx_addr){1, 0}, "good", 4, NULL), 0);
	take(&msg);
	assert_memory_equal(pmx_message_data(&msg), "good", 4);
	assert_int_equal(nodes[0]->embedded->engines[0].counters[ENGINE_bad_submissions], 1);
}

/* One that asks by a request which is a receive already is told so, and does not wait for ever. */
static void
client__a_probe_by_a_posted_receive_is_answered(void **state)
{
	struct pmx_matched m = {.peer = PMX_ANY_SOURCE, .tag = 1};
	const uint64_t *counters;
	struct completion_receive item;
	struct pmx_context *x;
	struct submission *s;
	struct completion c;
	pmx_request r;

	(void)state;
	start("engine", "");
	x = ctx[1][0];
	counters = nodes[1]->embedded->engines[0].counters;
	assert_int_equal(pmx_irecv(x, &m, &r), 0); /* the first one: number 0 */
	UNTIL(nodes[1]->embedded->channels[0].sub.pos == x->sub.pos);
	s = raw_submission(x);
	s->op = SUBMIT_RECEIVE;
	s->count = RECEIVE_PROBE;
	s->receive.memory = MEMORY_COPIED;
	submit_raw(x);
	UNTIL(slot_filled(&x->com, x->com.pos));
	memcpy(&c, slot_at(&x->com, x->com.pos)->body, sizeof(c));
	memcpy(&item, c.item, sizeof(item));
	assert_true(c.count & COMPLETION_RECEIVES);
	assert_int_equal(item.index, 0);
	assert_int_equal(item.result, RECEIVE_NONE);
	assert_int_equal(item.error, EBUSY);
	assert_int_equal(counters[ENGINE_bad_submissions], 1);
}

/* Who asks and takes no answers: there is a place for so many, they stay in order, and what comes
 * then is not answered. */
static void
client__answers_that_nobody_takes_are_not_written_over(void **state)
{
	uint32_t asked = 0, got = 0;
	struct channel *ch;
	struct pmx_context *x;
	struct completion c;
	struct completion_receive item;

	(void)state;
	start("engine", "receives = 8");
	ch = &nodes[1]->embedded->channels[0];
	x = ctx[1][0];
	for (; ch->bad < 100; asked++) {
		struct submission *s = raw_submission(x);

		assert_true(asked < 10000);
		s->op = SUBMIT_RECEIVE;
		s->count = RECEIVE_PROBE;
		s->receive.index = asked % 8;
		s->receive.memory = MEMORY_COPIED;
		submit_raw(x);
	}
	for (unsigned quiet = 0; quiet < 100; quiet++, poll_both()) {
		for (; slot_filled(&x->com, x->com.pos); slot_take(&x->com, 1, true), quiet = 0) {
			memcpy(&c, slot_at(&x->com, x->com.pos)->body, sizeof(c));
			if (!(c.count & COMPLETION_RECEIVES))
				continue;
			for (uint32_t i = 0; i < (c.count & ~COMPLETION_RECEIVES); i++, got++) {
				memcpy(&item, (const uint8_t *)c.item + i * sizeof(item),
					sizeof(item));
				assert_int_equal(item.index, got % 8);
				assert_int_equal(item.result, RECEIVE_NONE);
			}
		}
	}
	assert_int_equal(got, asked - 100);
}

static void
client__memory_that_it_did_not_give_is_not_registered(void **state)
{
	struct rma_channel *r;
	struct submission *s;

	(void)state;
	start("client", "");
	r = rma_channel(&nodes[0]->embedded->channels[0]);
	s = raw_submission(ctx[0][0]);
	s->op = SUBMIT_REGISTER;
	s->region.memory = 5;
	s->region.len = 4096;
	s->region.ticket = UINT32_MAX; /* the library waits for none such */
	s->region.area = REGION_NO_AREA;
	submit_raw(ctx[0][0]);
	assert_int_equal(r->region.ticket, UINT32_MAX);
	assert_int_equal(r->region.error, EFAULT);
	assert_int_equal(r->rma->contexts[0]->kept.regions, 0);
}

/* ------------------------------------------------------------------ what is dropped is counted */

static void
checksum__frames_without_one_are_dropped_and_counted(void **state)
{
	const uint64_t *c;
	struct pmx_message msg;
	uint64_t work = 0;

	(void)state;
	only_second = "checksum = on";
	/* then it asks no more */
	start("client", "[proto]\nrto_min_us = 200\nrto_max_us = 5000\nretries = 6");
	only_second = "";
	c = nodes[1]->embedded->engines[0].counters;
	assert_int_equal(pmx_send_copy(ctx[0][0], (struct pmx_addr){1, 0}, "x", 1, NULL), 0);
	for (int64_t end = now_us() + 20 * 1000 * 1000; c[ENGINE_rx_frames] < 3;) {
		assert_true(now_us() < end);
		pmx_node_poll(nodes[0]); /* asks again and again */
		work += pmx_node_poll(nodes[1]);
	}
	assert_int_equal(pmx_receive(ctx[1][0], &msg), 0);
	assert_true(work >= 3); /* who only drops was busy too */
	assert_int_equal(c[ENGINE_drop_no_checksum], c[ENGINE_rx_frames]);
	assert_int_equal(c[ENGINE_drop_checksum], 0);
}

/* --------------------------------------------------------- LHS-5: which lines a receive touches */

#ifdef __x86_64__
/* All memory that client and engine share is taken away while the client receives. Each access
 * faults: its line is noted, the page comes back for that one instruction, which runs with the trap
 * flag, and goes again. */
#define PAGE   4096u
#define LINES  64
#define RANGES 64

static struct {
	uintptr_t begin, end;
} ranges[RANGES];
static unsigned range_count, line_count, open_count;
static uintptr_t lines[LINES], open_pages[4];

static void
protect(int prot)
{
	for (unsigned i = 0; i < range_count; i++)
		mprotect((void *)ranges[i].begin, ranges[i].end - ranges[i].begin, prot);
}

static void
on_access(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	uintptr_t at = (uintptr_t)info->si_addr, page = at & ~(uintptr_t)(PAGE - 1);
	bool shared = false;

	(void)sig;
	for (unsigned i = 0; i < range_count; i++)
		shared |= at >= ranges[i].begin && at < ranges[i].end;
	if (!shared || open_count == 4 || line_count == LINES) {
		signal(SIGSEGV, SIG_DFL);
		return;
	}
	for (unsigned i = 0; i <= line_count; i++) {
		if (i == line_count)
			lines[line_count++] = at / 64;
		if (lines[i] == at / 64)
			break;
	}
	mprotect((void *)page, PAGE, PROT_READ | PROT_WRITE);
	open_pages[open_count++] = page;
	u->uc_mcontext.gregs[REG_EFL] |= 0x100;
}

static void
on_step(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;

	(void)sig, (void)info;
	while (open_count > 0)
		mprotect((void *)open_pages[--open_count], PAGE, PROT_NONE);
	u->uc_mcontext.gregs[REG_EFL] &= ~0x100;
}

static void
watch(const void *begin, size_t len)
{
	assert_true(range_count < RANGES);
	ranges[range_count].begin = (uintptr_t)begin & ~(uintptr_t)(PAGE - 1);
	ranges[range_count++].end = ((uintptr_t)begin + len + PAGE - 1) & ~(uintptr_t)(PAGE - 1);
}

static void
watch_chunk(struct rte_mempool *pool, void *arg, struct rte_mempool_memhdr *chunk, unsigned i)
{
	(void)pool, (void)arg, (void)i;
	watch(chunk->addr, chunk->len);
}

/* Receive one message, and read all of it; which lines were touched is in lines[]. */
static void
receive_watched(struct pmx_message *msg, uint8_t *bytes)
{
	int got;

	line_count = 0;
	protect(PROT_NONE);
	got = pmx_receive(ctx[1][0], msg);
	if (got == 1)
		memcpy(bytes, pmx_message_data(msg), msg->len);
	protect(PROT_READ | PROT_WRITE);
	assert_int_equal(got, 1);
}

static void
lhs_5__one_line_holds_envelope_and_short_message(void **state)
{
	struct sigaction access = {.sa_sigaction = on_access, .sa_flags = SA_SIGINFO | SA_NODEFER},
			 step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, before[3];
	uint8_t sent[64], got[64];
	unsigned published = 0, of_short = 0;

	(void)state;
	start("client", "");
	const struct channel *ch = &nodes[1]->embedded->channels[0];
	const struct pmx_context *x = ctx[1][0];
	uint32_t each = x->lhs_publish;

	range_count = 0;
	watch(ch->shm, ch->shm->bytes);
	rte_mempool_mem_iter(nodes[1]->embedded->pool, watch_chunk, NULL);
	sigaction(SIGSEGV, &access, &before[0]);
	sigaction(SIGBUS, &access, &before[1]);
	sigaction(SIGTRAP, &step, &before[2]);
	for (unsigned i = 0; i < 3 * each; i++) {
		struct pmx_message msg;
		uint32_t len = 1 + i % (ch->plain.lhs.split + 1), was = x->lhs_published;
		uintptr_t entry = (uintptr_t)lhs_at(&x->lhs, x->lhs.pos) / 64;
		bool is_short = len <= ch->plain.lhs.split;

		fill(sent, len, i);
		assert_int_equal(
			pmx_send_copy(ctx[i % NODES][1], (struct pmx_addr){1, 0}, sent, len, NULL),
			0);
		UNTIL(lhs_peek(&x->lhs) != NULL);
		receive_watched(&msg, got);
		assert_memory_equal(got, sent, len);
		assert_int_equal(lines[0], entry);
		if (x->lhs_published != was) /* its own position, for many messages at once */
			published++;
		else if (is_short) {
			assert_int_equal(line_count, 1);
			of_short++;
		} else {
			assert_int_equal(line_count, 2); /* the other one is the payload's */
		}
		pmx_release_receive_buffer(ctx[1][0], &msg);
	}
	assert_in_range(published, 2, 4);
	assert_true(of_short > 2 * each);
	sigaction(SIGSEGV, &before[0], NULL);
	sigaction(SIGBUS, &before[1], NULL);
	sigaction(SIGTRAP, &before[2], NULL);
}
#endif

/* ------------------------------------------------------------ RHI-MSG: who moves a long message */

#define LONG 100000u

static uint8_t from_bytes[LONG], to_bytes[LONG];

static void
exchange(const char *matching, bool receive_first)
{
	struct pmx_matched s = {.peer = {1, 0}, .tag = 5, .data = from_bytes, .len = LONG};
	struct pmx_matched r = {.peer = PMX_ANY_SOURCE, .tag = 5, .data = to_bytes, .len = LONG};
	struct pmx_status status;
	pmx_request sending, receiving;

	start(matching, "");
	fill(from_bytes, LONG, receive_first);
	memset(to_bytes, 0, LONG);
	if (receive_first)
		assert_int_equal(pmx_irecv(ctx[1][0], &r, &receiving), 0);
	else
		assert_int_equal(pmx_isend(ctx[0][0], &s, &sending), 0);
	/* what the one side has begun is at the other before that begins */
	for (unsigned i = 0; i < 200; i++)
		poll_both();
	if (!receive_first) {
		assert_int_equal(pmx_iprobe(ctx[1][0], &r, &status), 1);
		assert_int_equal(status.len, LONG);
		assert_int_equal(pmx_irecv(ctx[1][0], &r, &receiving), 0);
	} else {
		assert_int_equal(pmx_isend(ctx[0][0], &s, &sending), 0);
	}
	UNTIL(pmx_test(ctx[1][0], &receiving, &status) == 1);
	UNTIL(pmx_test(ctx[0][0], &sending, NULL) == 1);
	assert_int_equal(status.len, LONG);
	assert_memory_equal(to_bytes, from_bytes, LONG);
	if (receive_first) { /* "receive pending: push" */
		assert_true(sent_ops[1][WIRE_ACCEPT] >= 1);
		assert_int_equal(sent_ops[1][WIRE_PULL], 0);
		assert_true(sent_ops[0][WIRE_PUSH] >= LONG / 1500);
		assert_int_equal(sent_ops[0][WIRE_PULLED], 0);
	} else { /* "send pending: pull" */
		assert_true(sent_ops[1][WIRE_PULL] >= 1);
		assert_int_equal(sent_ops[1][WIRE_ACCEPT], 0);
		assert_true(sent_ops[0][WIRE_PULLED] >= LONG / 1500);
		assert_int_equal(sent_ops[0][WIRE_PUSH], 0);
	}
}

static void
rhi_msg__receive_pending_is_pushed_client(void **state)
{
	(void)state;
	exchange("client", true);
}

static void
rhi_msg__receive_pending_is_pushed_engine(void **state)
{
	(void)state;
	exchange("engine", true);
}

static void
rhi_msg__send_pending_is_pulled_client(void **state)
{
	(void)state;
	exchange("client", false);
}

static void
rhi_msg__send_pending_is_pulled_engine(void **state)
{
	(void)state;
	exchange("engine", false);
}

/* A context is opened again under its number, and offers to one that has a flow to its former life:
 * who answers the offer does so by that flow, whose reset is no answer. */
static void
reopened(const char *matching, bool receive_first, unsigned which, bool late_port)
{
	const struct pmx_context_params params = {.context = 0};
	struct pmx_matched s = {.peer = {1, 0}, .tag = 5, .data = from_bytes, .len = LONG};
	struct pmx_matched r = {.peer = PMX_ANY_SOURCE, .tag = 5, .data = to_bytes, .len = LONG};
	struct pmx_status status;
	pmx_request sending, receiving;

	exchange(matching, receive_first);
	assert_true(is_quiet());
	pmx_context_close(ctx[which][0]);
	assert_int_equal(pmx_context_open(&ctx[which][0], nodes[which], &params), 0);
	if (which == 1) { /* it is heard of: what is sent to it is not sent to its former life */
		struct pmx_matched hello = {.peer = {0, 0}, .tag = 6, .data = "hello", .len = 6};

		assert_int_equal(pmx_isend(ctx[1][0], &hello, NULL), 0);
		UNTIL(pmx_iprobe(ctx[0][0], &(struct pmx_matched){.peer = PMX_ANY_SOURCE, .tag = 6},
			      NULL) == 1);
	}
	keep_and_lose = late_port ? UINT32_MAX : 0;
	fill(from_bytes, LONG, 99);
	if (receive_first)
		assert_int_equal(pmx_irecv(ctx[1][0], &r, &receiving), 0);
	assert_int_equal(pmx_isend(ctx[0][0], &s, &sending), 0);
	for (unsigned i = 0; i < 200; i++)
		poll_both();
	if (!receive_first)
		assert_int_equal(pmx_irecv(ctx[1][0], &r, &receiving), 0);
	UNTIL(pmx_test(ctx[1][0], &receiving, &status) != 0);
	assert_int_equal(status.error, 0);
	UNTIL(pmx_test(ctx[0][0], &sending, &status) != 0);
	assert_int_equal(status.error, 0);
	assert_memory_equal(to_bytes, from_bytes, LONG);
}

/* An offer goes by the flow to a life that ended: it ends with that flow, though the new life would
 * answer whoever asks it. */
static void
offered_to_a_former_life(const char *matching)
{
	const struct pmx_context_params params = {.context = 0};
	struct pmx_matched s = {.peer = {1, 0}, .tag = 5, .data = from_bytes, .len = LONG};
	struct pmx_status status;
	pmx_request sending;

	exchange(matching, false);
	assert_true(is_quiet());
	pmx_context_close(ctx[1][0]);
	assert_int_equal(pmx_context_open(&ctx[1][0], nodes[1], &params), 0);
	assert_int_equal(pmx_isend(ctx[0][0], &s, &sending), 0);
	UNTIL(pmx_test(ctx[0][0], &sending, &status) != 0);
	assert_int_equal(status.error, -ECONNRESET);
}

/* What was offered to a context ends with it, though its next life is the first to speak. */
static void
offered_and_reopened(const char *matching)
{
	const struct pmx_context_params params = {.context = 0};
	struct pmx_matched s = {.peer = {1, 0}, .tag = 5, .data = from_bytes, .len = LONG};
	struct pmx_matched hello = {.peer = {0, 0}, .tag = 6, .data = "hello", .len = 6};
	struct pmx_status status;
	pmx_request sending;

	start(matching, "");
	assert_int_equal(pmx_isend(ctx[0][0], &s, &sending), 0);
	UNTIL(pmx_iprobe(ctx[1][0], &(struct pmx_matched){.peer = PMX_ANY_SOURCE, .tag = 5},
		      NULL) == 1);
	for (unsigned i = 0; i < 200; i++)
		poll_both();
	pmx_context_close(ctx[1][0]);
	assert_int_equal(pmx_context_open(&ctx[1][0], nodes[1], &params), 0);
	assert_int_equal(pmx_isend(ctx[1][0], &hello, NULL), 0);
	UNTIL(pmx_iprobe(ctx[0][0], &(struct pmx_matched){.peer = PMX_ANY_SOURCE, .tag = 6},
		      NULL) == 1);
	UNTIL(pmx_test(ctx[0][0], &sending, &status) != 0);
	assert_int_equal(status.error, -ECONNRESET);
}

/* ... and one to a context that is not open, or not there, when that is sure. */
static void
offered_to_nobody(const char *matching)
{
	struct pmx_matched s = {.peer = {0, 1}, .tag = 5, .data = from_bytes, .len = LONG};
	struct pmx_status status;
	pmx_request sending;

	start(matching, "[proto]\nrto_min_us = 200\nrto_max_us = 1000\nretries = 3");
	for (unsigned i = 0; i < 3; i++) {
		s.peer = (struct pmx_addr){i / 2 * 77, i == 1 ? 3000 : 2};
		if (pmx_isend(ctx[0][0], &s, &sending) != 0)
			continue;
		UNTIL(pmx_test(ctx[0][0], &sending, &status) != 0);
		assert_true(status.error == -ECONNREFUSED || status.error == -EHOSTUNREACH);
	}
}

static void
rhi_msg__an_offer_to_nobody_ends_client(void **state)
{
	(void)state;
	offered_to_nobody("client");
}

static void
rhi_msg__an_offer_to_nobody_ends_engine(void **state)
{
	(void)state;
	offered_to_nobody("engine");
}

static void
rhi_msg__an_offer_to_a_former_life_ends_client(void **state)
{
	(void)state;
	offered_to_a_former_life("client");
}

static void
rhi_msg__an_offer_to_a_former_life_ends_engine(void **state)
{
	(void)state;
	offered_to_a_former_life("engine");
}

static void
rhi_msg__an_offer_ends_with_its_receiver_client(void **state)
{
	(void)state;
	offered_and_reopened("client");
}

static void
rhi_msg__an_offer_ends_with_its_receiver_engine(void **state)
{
	(void)state;
	offered_and_reopened("engine");
}

static void
rhi_msg__a_new_life_that_offers_is_answered_client(void **state)
{
	(void)state;
	reopened("client", false, 0, false);
}

static void
rhi_msg__a_new_life_that_offers_is_answered_engine(void **state)
{
	(void)state;
	reopened("engine", false, 0, false);
}

static void
rhi_msg__a_new_life_has_a_place_for_what_is_offered(void **state)
{
	(void)state;
	reopened("client", true, 0, false);
}

static void
rhi_msg__a_new_life_is_pushed_what_it_accepts(void **state)
{
	(void)state;
	reopened("client", true, 1, false);
}

static void
rhi_msg__a_new_life_pulls_what_it_is_offered(void **state)
{
	(void)state;
	reopened("client", false, 1, false);
}

static void
rhi_msg__what_a_new_life_is_pushed_the_port_still_has(void **state)
{
	(void)state;
	reopened("client", true, 1, true);
}

static void
rhi_msg__what_a_new_life_pulls_the_port_still_has(void **state)
{
	(void)state;
	reopened("client", false, 1, true);
}

static void
rhi_msg__what_answers_a_new_life_the_port_still_has(void **state)
{
	(void)state;
	reopened("client", false, 0, true);
}

/* ---------------------------------------------------------------- remote memory: waiting, order */

static uint8_t *local[2], *remote; /* of context 0 of node 0, and where it pushes to */
static struct pmx_remote region;

static void
open_regions(struct pmx_context *owner)
{
	void *p;

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pmx_alloc(ctx[0][0], REGION, &p), 0);
		local[i] = p;
	}
	assert_int_equal(pmx_alloc(owner, REGION, &p), 0);
	remote = p;
	assert_int_equal(
		pmx_register(owner, remote, REGION, PMX_REMOTE_READ | PMX_REMOTE_WRITE, &region),
		0);
}

/* To or from the first `len` bytes of the region. */
static struct pmx_transfer
transfer(uint8_t *from, uint64_t len, const struct pmx_part *part, uint32_t flags)
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

/* Within one node, which nobody polls but the wait: what is pending when it begins is done by it
 * alone. */
static void
rhi_sync__waits_for_all_own_transfers(void **state)
{
	static const uint64_t lens[] = {100, 5000, REGION};
	volatile int32_t status[4];

	(void)state;
	start("client", "");
	open_regions(ctx[0][1]);
	fill(local[0], REGION, 3);
	memset(local[1], 0, REGION);
	for (unsigned i = 0; i < 3; i++) {
		struct pmx_transfer t = transfer(local[0], lens[i], NULL, 0);

		t.status = &status[i];
		assert_int_equal(pmx_push(ctx[0][0], &t, NULL), 0);
		assert_int_equal(status[i], 1);
	}
	struct pmx_transfer pull = transfer(local[1], REGION, NULL, PMX_ORDERED);

	pull.status = &status[3];
	assert_int_equal(pmx_pull(ctx[0][0], &pull, NULL), 0);
	assert_int_equal(pmx_transfers_pending(ctx[0][0]), 4);
	assert_int_equal(pmx_sync_wait(ctx[0][0], 10 * 1000 * 1000), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(status[i], 0);
	assert_int_equal(pmx_transfers_pending(ctx[0][0]), 0);
	assert_memory_equal(remote, local[0], REGION);
	assert_memory_equal(local[1], local[0], REGION);
}

/* The other node stands still: it cannot end, and the wait says so, not before its time. */
static void
rhi_sync__ends_when_its_time_is_over(void **state)
{
	int64_t begin;

	(void)state;
	start("client", "");
	open_regions(ctx[1][0]);
	fill(local[0], REGION, 5);
	const struct pmx_transfer t = transfer(local[0], REGION, NULL, 0);

	assert_int_equal(pmx_push(ctx[0][0], &t, NULL), 0);
	assert_int_equal(pmx_sync_wait(ctx[0][0], 0), -ETIMEDOUT);
	begin = now_us();
	assert_int_equal(pmx_sync_wait(ctx[0][0], 20000), -ETIMEDOUT);
	assert_true(now_us() - begin >= 20000);
	assert_int_equal(pmx_transfers_pending(ctx[0][0]), 1);
	UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
	assert_memory_equal(remote, local[0], REGION);
}

/* Within one node, as above. */
static void
send_wait__waits_for_all_that_was_sent(void **state)
{
	uint8_t bytes[64] = {0};
	struct pmx_message msg;

	(void)state;
	start("client", "");
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(pmx_send_copy(ctx[1][1], (struct pmx_addr){1, 0}, bytes,
					 sizeof(bytes), NULL),
			0);
	assert_int_equal(pmx_sends_pending(ctx[1][1]), 5);
	assert_int_equal(pmx_send_wait(ctx[1][1], 10 * 1000 * 1000), 0);
	assert_int_equal(pmx_sends_pending(ctx[1][1]), 0);
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(pmx_receive(ctx[1][0], &msg), 1);
	/* node 1 stands still now */
	assert_int_equal(
		pmx_send_copy(ctx[0][0], (struct pmx_addr){1, 0}, bytes, sizeof(bytes), NULL), 0);
	int64_t begin = now_us();

	assert_int_equal(pmx_send_wait(ctx[0][0], 20000), -ETIMEDOUT);
	assert_true(now_us() - begin >= 20000);
}

/* All of it, but packed by the library as parts are. */
static const struct pmx_part all_of_it = {
	.kind = PMX_PART_STRIDE, .dims = 1, .block = REGION, .interval = {REGION}, .count = {1}};

/* A push in parts is the library's, what was submitted before is the engine's, which sends it as
 * windows allow. */
static void
ordered__a_push_in_parts_waits_for_a_long_push(void **state)
{
	(void)state;
	start("client", "");
	open_regions(ctx[1][0]);
	memset(local[0], 0x11, REGION);
	memset(local[1], 0x22, REGION);
	const struct pmx_part end = {
		.kind = PMX_PART_BITMAP,
		.unit = 4096,
		.bits = (uint64_t[]){0, 0, 0, 1ull << 63},
	};
	const struct pmx_transfer first = transfer(local[0], REGION, NULL, 0),
				  second = transfer(local[1], REGION, &end, PMX_ORDERED);

	assert_int_equal(pmx_push(ctx[0][0], &first, NULL), 0);
	assert_int_equal(pmx_push(ctx[0][0], &second, NULL), 0);
	UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
	assert_int_equal(remote[0], 0x11);
	assert_int_equal(remote[REGION - 4097], 0x11);
	assert_int_equal(remote[REGION - 4096], 0x22);
	assert_int_equal(remote[REGION - 1], 0x22);
}

/* ... and what it has not begun itself is nobody else's to know. */
static void
ordered__a_long_push_waits_for_one_that_is_held(void **state)
{
	(void)state;
	start("client", "");
	open_regions(ctx[1][0]);
	memset(local[0], 0x11, REGION);
	memset(local[1], 0x22, REGION);
	const struct pmx_transfer first = transfer(local[0], REGION, NULL, 0),
				  second = transfer(local[1], REGION, &all_of_it, PMX_ORDERED),
				  third = transfer(local[0], REGION, NULL, PMX_ORDERED);

	assert_int_equal(pmx_push(ctx[0][0], &first, NULL), 0);
	assert_int_equal(pmx_push(ctx[0][0], &second, NULL), 0);
	assert_int_equal(pmx_push(ctx[0][0], &third, NULL), 0);
	UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
	for (uint32_t i = 0; i < REGION; i++)
		assert_int_equal(remote[i], 0x11);
}

/* Both are the engine's; only it knows when the last answer has come. */
static void
ordered__a_long_push_waits_for_a_pull(void **state)
{
	(void)state;
	start("client", "");
	open_regions(ctx[1][0]);
	memset(remote, 0x33, REGION);
	memset(local[0], 0, REGION);
	memset(local[1], 0x44, REGION);
	const struct pmx_transfer pull = transfer(local[0], REGION, NULL, 0),
				  push = transfer(local[1], REGION, NULL, PMX_ORDERED);

	assert_int_equal(pmx_pull(ctx[0][0], &pull, NULL), 0);
	assert_int_equal(pmx_push(ctx[0][0], &push, NULL), 0);
	UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
	for (uint32_t i = 0; i < REGION; i++) {
		assert_int_equal(local[0][i], 0x33);
		assert_int_equal(remote[i], 0x44);
	}
}

/* ------------------------------------------------- remote memory: what is left, what is refused */

static void
pull__what_the_port_still_has_is_sent_again_as_a_copy(void **state)
{
	const uint64_t *c;

	(void)state;
	start("client", "[proto]\nrto_min_us = 200");
	open_regions(ctx[1][0]);
	c = nodes[1]->embedded->engines[0].counters;
	fill(remote, REGION, 9);
	memset(local[0], 0, REGION);
	keep_and_lose = 10;
	const struct pmx_transfer t = transfer(local[0], REGION, NULL, 0);

	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(pmx_pull(ctx[0][0], &t, NULL), 0);
		UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
	}
	assert_memory_equal(local[0], remote, REGION);
	assert_true(c[ENGINE_tx_still_queued] > 50);
}

static void
send__what_the_port_still_has_is_sent_again_as_a_copy(void **state)
{
	const uint64_t *c;
	uint8_t bytes[500];
	struct pmx_message msg;

	(void)state;
	start("client", "[proto]\nrto_min_us = 200");
	c = nodes[0]->embedded->engines[0].counters;
	keep_and_lose = 5;
	for (unsigned i = 0; i < 500; i++) {
		fill(bytes, sizeof(bytes), i);
		assert_int_equal(pmx_send_copy(ctx[0][0], (struct pmx_addr){1, 0}, bytes,
					 sizeof(bytes), NULL),
			0);
		take(&msg);
		assert_int_equal(msg.len, sizeof(bytes));
		assert_memory_equal(pmx_message_data(&msg), bytes, sizeof(bytes));
		pmx_release_receive_buffer(ctx[1][0], &msg);
	}
	assert_true(c[ENGINE_tx_still_queued] > 50);
}

/* Who asked answers no more: what was to be answered is forgotten, so that others may ask. */
static void
pull__a_peer_that_fails_leaves_no_question(void **state)
{
	const struct rma *x;

	(void)state;
	start("client",
		"transfer_frames = 16\n[proto]\nrto_min_us = 200\nrto_max_us = 1000\n"
		"retries = 3");
	open_regions(ctx[1][0]);
	x = rma_lane(&nodes[1]->embedded->engines[0])->rma;
	const struct pmx_transfer t = transfer(local[0], REGION, NULL, 0);

	assert_int_equal(pmx_pull(ctx[0][0], &t, NULL), 0);
	UNTIL(x->requests.head != NULL);
	memset(sent_ops, 0, sizeof(sent_ops));
	for (int64_t end = now_us() + 20 * 1000 * 1000; x->requests.head != NULL && now_us() < end;)
		pmx_node_poll(nodes[1]); /* node 0 stands still */
	assert_null(x->requests.head);
	/* and not all that was asked for is sent to nobody */
	assert_true(sent_ops[1][WIRE_PULLED] < REGION / 1500 / 2);
	UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
	UNTIL(x->frames_free == x->cfg.frames_max);
}

/* What node 1 has of remote memory of its context 0. */
static const struct context *
remote_context(void)
{
	return rma_lane(&nodes[1]->embedded->engines[0])->rma->contexts[0];
}

/* The place of every question and notification at context 0 of node 1 is free. */
static void
check_requests(void)
{
	uint32_t free = 0;

	for (const struct request *r = remote_context()->free_requests; r != NULL; r = r->next)
		assert_true(++free <= nodes[1]->embedded->config.requests);
	assert_int_equal(free, nodes[1]->embedded->config.requests);
}

/* The ring of events is full: what waits for room is not overtaken by what comes just when there is
 * some. */
static void
rhi_sig__notifications_keep_their_order(void **state)
{
	struct pmx_event event;

	(void)state;
	start("client", "events = 1");
	open_regions(ctx[1][0]);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 5; i++) {
			struct pmx_transfer t = transfer(local[0], 8, NULL, PMX_NOTIFY);

			t.immediate = i;
			assert_int_equal(pmx_push(ctx[0][0], &t, NULL), 0);
			if (i < 4)
				UNTIL(remote_context()->events_waiting == i);
		}
		pmx_node_poll(nodes[0]); /* the last one is on its way */
		assert_int_equal(pmx_event(ctx[1][0], &event), 1);
		assert_int_equal(event.immediate, 0);
		for (unsigned i = 1; i < 5; i++) {
			pmx_node_poll(nodes[1]);
			UNTIL(pmx_event(ctx[1][0], &event) == 1);
			assert_int_equal(event.immediate, i);
		}
		UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
		assert_int_equal(pmx_event(ctx[1][0], &event), 0);
		UNTIL(rma_lane(&nodes[1]->embedded->engines[0])->rma->requests.head == NULL);
	}
	check_requests();
}

/* The place of a question that was refused serves another one, which ends well. */
static void
rhi_sig__a_notification_that_waited_ends_well_after_a_refusal(void **state)
{
	static const int ends[] = {1, -ENOKEY, 1};
	struct pmx_event event;
	pmx_transfer_id id[3];

	(void)state;
	start("client", "events = 1");
	open_regions(ctx[1][0]);
	for (unsigned i = 0; i < 3; i++) {
		struct pmx_transfer t = transfer(local[0], 8, NULL, PMX_NOTIFY);

		t.key += i == 1;
		assert_int_equal(pmx_push(ctx[0][0], &t, &id[i]), 0);
		if (i < 2)
			UNTIL(pmx_transfer_done(ctx[0][0], id[i]) != 0);
	}
	UNTIL(remote_context()->events_waiting == 1);
	for (unsigned i = 0; i < 2; i++)
		UNTIL(pmx_event(ctx[1][0], &event) == 1);
	for (unsigned i = 0; i < 3; i++) {
		UNTIL(pmx_transfer_done(ctx[0][0], id[i]) != 0);
		assert_int_equal(pmx_transfer_done(ctx[0][0], id[i]), ends[i]);
	}
	check_requests();
}

/* ... and what nobody takes any more is forgotten. */
static void
rhi_sig__notifications_that_wait_end_with_their_context(void **state)
{
	const struct pmx_context_params p = {.context = 0};

	(void)state;
	start("client", "events = 1");
	open_regions(ctx[1][0]);
	for (unsigned i = 0; i < 5; i++) {
		const struct pmx_transfer t = transfer(local[0], 8, NULL, PMX_NOTIFY);

		assert_int_equal(pmx_push(ctx[0][0], &t, NULL), 0);
	}
	UNTIL(remote_context()->events_waiting == 4);
	pmx_context_close(ctx[1][0]);
	assert_int_equal(pmx_context_open(&ctx[1][0], nodes[1], &p), 0);
	UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
	check_requests();
}

/* Short and long, out and in: an error, and none that is tried for ever. */
static void
transfers__to_a_node_that_is_not_there_end(void **state)
{
	static const uint64_t lens[] = {100, REGION};

	(void)state;
	start("client", "");
	open_regions(ctx[1][0]);
	for (unsigned i = 0; i < 4; i++) {
		struct pmx_transfer t = transfer(local[0], lens[i % 2], NULL, 0);
		volatile int32_t status = 0;
		pmx_transfer_id id;

		t.peer.node = 77;
		t.status = &status;
		assert_int_equal(
			i < 2 ? pmx_push(ctx[0][0], &t, &id) : pmx_pull(ctx[0][0], &t, &id), 0);
		UNTIL(pmx_transfer_done(ctx[0][0], id) != 0);
		assert_int_equal(pmx_transfer_done(ctx[0][0], id), -EHOSTUNREACH);
		assert_int_equal(status, -EHOSTUNREACH);
	}
}

static void
register__one_context_never_takes_all_places(void **state)
{
	struct pmx_remote r;
	static uint8_t bytes[64];
	int e = 0;
	unsigned n = 0;

	(void)state;
	start("client", "regions = 16\npin_watch = off");
	while (n < 16 &&
		(e = pmx_register(ctx[0][0], bytes, sizeof(bytes), PMX_REMOTE_READ, &r)) == 0)
		n++;
	assert_int_equal(e, -ENOSPC);
	assert_int_equal(n, 8);
	for (n = 0; n < 8; n++)
		assert_int_equal(pmx_register(ctx[0][1], bytes, sizeof(bytes), PMX_REMOTE_READ, &r),
			0);
	assert_int_equal(pmx_register(ctx[0][1], bytes, sizeof(bytes), PMX_REMOTE_READ, &r),
		-ENOSPC);
}

/* Frames that were held for one that was lost go back when their context closes. */
static void
close__held_frames_go_back(void **state)
{
	uint8_t bytes[1000] = {0};

	(void)state;
	start("client", "");
	for (unsigned round = 0; round < 20; round++) {
		const struct pmx_context_params p = {.context = 0};

		for (unsigned i = 0; i < 64; i++) {
			if (pmx_send_copy(ctx[0][0], (struct pmx_addr){1, 0}, bytes, sizeof(bytes),
				    NULL) != 0)
				break;
		}
		keep_and_lose = 3;
		poll_both();
		poll_both();
		pmx_context_close(ctx[1][0]);
		keep_and_lose = 0;
		assert_int_equal(pmx_context_open(&ctx[1][0], nodes[1], &p), 0);
		UNTIL(pmx_sends_pending(ctx[0][0]) == 0);
	}
}

/* Its process is gone: what it sent to one of its node that is full ends with it, and its number is
 * free. */
static void
abort__what_waits_for_room_ends(void **state)
{
	const struct pmx_context_params p = {.context = 1};
	const struct channel *ch;
	struct inlet *in;
	uint8_t byte = 0;
	struct command cmd = {.op = COMMAND_ABORT, .ctx = 1};

	(void)state;
	start("client", "lhs_entries = 16");
	ch = &nodes[1]->embedded->channels[1];
	in = &nodes[1]->embedded->channels[0].plain;
	for (unsigned i = 0; i < 64; i++)
		UNTIL(pmx_send_copy(ctx[1][1], (struct pmx_addr){1, 0}, &byte, 1, NULL) == 0);
	UNTIL(in->local_head != NULL);
	cmd.generation = ch->generation;
	assert_int_equal(node_command(nodes[1]->embedded, &cmd, false), 0);
	UNTIL(ch->state == CHANNEL_CLOSED);
	assert_null(in->local_head);
	pmx_context_close(ctx[1][1]);
	assert_int_equal(pmx_context_open(&ctx[1][1], nodes[1], &p), 0);
}

/* Who sleeps in poll() is woken when the primary ends, and need not wait for the end of its
 * process. In a process of its own, for no lane may run any more. */
static void
end__wakes_who_sleeps(void **state)
{
	int status = -1;
	pid_t child = fork();

	(void)state;
	if (child == 0) {
		struct pollfd p = {.events = POLLIN};
		struct pmx_message msg;
		int before;

		alarm(60);
		start("client", "");
		p.fd = pmx_get_fd(ctx[1][0]);
		before = poll(&p, 1, 0);
		node_end(nodes[1]->embedded);
		_exit(before != 0 || poll(&p, 1, 0) != 1 || pmx_receive(ctx[1][0], &msg) != -EPIPE);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
}

/* -------------------------------------------------------------- PIN-5: what is configured holds */

#define PIECE 131072u /* bytes of a push */

/* Pushes from each of four pieces of heap memory, twice over; what the cache says after that. In a
 * process of its own: there is one cache in each, as its first user has configured it. */
static struct pin_cache_stat
pinned_by(const char *limits)
{
	struct pin_cache_stat *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0),
			      result;
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		uint8_t *heap = aligned_alloc(4096, 8 * PIECE);

		alarm(60);
		start("client", limits);
		open_regions(ctx[1][0]);
		fill(heap, 8 * PIECE, 1);
		for (unsigned i = 0; i < 8; i++) {
			const struct pmx_transfer t = transfer(heap + i / 2 * 2 * PIECE, PIECE,
				NULL, 0);

			assert_int_equal(pmx_push(ctx[0][0], &t, NULL), 0);
			UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
		}
		pins_stat(s);
		_exit(memcmp(remote, heap + 6 * PIECE, PIECE) != 0);
	}
	waitpid(child, &status, 0);
	result = *s;
	munmap(s, sizeof(*s));
	assert_int_equal(status, 0);
	return result;
}

static void
pin_5__what_was_pinned_stays_for_the_next(void **state)
{
	struct pin_cache_stat s = pinned_by("pin_watch = off");

	(void)state;
	assert_int_equal(s.misses, 4);
	assert_int_equal(s.hits, 4);
	assert_int_equal(s.evictions, 0);
	assert_int_equal(s.pinned_bytes, 4 * PIECE);
}

static void
pin_5__bytes_are_bounded(void **state)
{
	struct pin_cache_stat s = pinned_by("pin_watch = off\npin_bytes = 262144");

	(void)state;
	assert_int_equal(s.evictions, 2);
	assert_int_equal(s.pinned_bytes, 2 * PIECE);
}

static void
pin_5__entries_are_bounded(void **state)
{
	struct pin_cache_stat s = pinned_by("pin_watch = off\npin_entries = 3");

	(void)state;
	assert_int_equal(s.evictions, 1);
	assert_int_equal(s.pinned_bytes, 3 * PIECE);
}

static void
pin_5__switched_off_nothing_stays(void **state)
{
	struct pin_cache_stat s = pinned_by("pin_watch = off\npin_cache = off");

	(void)state;
	assert_int_equal(s.hits, 0);
	assert_int_equal(s.pinned_bytes, 0);
}

/* ------------------------------------------------------------------ */

int
main(void)
{
	char *eal[] = {"test_embedded", "--no-huge", "-m", "512", "--no-pci", "--no-telemetry",
		"--no-shconf", "--log-level=*:error", NULL};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(lhs_1__a_short_message_is_whole_in_its_entry, stop),
		cmocka_unit_test_teardown(lhs_1__a_short_matched_message_takes_no_buffer, stop),
		cmocka_unit_test_teardown(full__entries_from_this_node, stop),
		cmocka_unit_test_teardown(full__entries_from_another_node, stop),
		cmocka_unit_test_teardown(full__buffers_from_this_node, stop),
		cmocka_unit_test_teardown(full__buffers_from_another_node, stop),
		cmocka_unit_test_teardown(full__chains_from_this_node, stop),
		cmocka_unit_test_teardown(client__memory_of_no_such_number_is_not_forgotten, stop),
		cmocka_unit_test_teardown(client__a_bad_submission_takes_no_good_one_with_it, stop),
		cmocka_unit_test_teardown(client__a_probe_by_a_posted_receive_is_answered, stop),
		cmocka_unit_test_teardown(client__answers_that_nobody_takes_are_not_written_over,
			stop),
		cmocka_unit_test_teardown(client__memory_that_it_did_not_give_is_not_registered,
			stop),
		cmocka_unit_test_teardown(checksum__frames_without_one_are_dropped_and_counted,
			stop),
#ifdef __x86_64__
		cmocka_unit_test_teardown(lhs_5__one_line_holds_envelope_and_short_message, stop),
#endif
		cmocka_unit_test_teardown(rhi_msg__receive_pending_is_pushed_client, stop),
		cmocka_unit_test_teardown(rhi_msg__receive_pending_is_pushed_engine, stop),
		cmocka_unit_test_teardown(rhi_msg__send_pending_is_pulled_client, stop),
		cmocka_unit_test_teardown(rhi_msg__send_pending_is_pulled_engine, stop),
		cmocka_unit_test_teardown(rhi_msg__an_offer_to_nobody_ends_client, stop),
		cmocka_unit_test_teardown(rhi_msg__an_offer_to_nobody_ends_engine, stop),
		cmocka_unit_test_teardown(rhi_msg__an_offer_to_a_former_life_ends_client, stop),
		cmocka_unit_test_teardown(rhi_msg__an_offer_to_a_former_life_ends_engine, stop),
		cmocka_unit_test_teardown(rhi_msg__a_new_life_that_offers_is_answered_client, stop),
		cmocka_unit_test_teardown(rhi_msg__a_new_life_that_offers_is_answered_engine, stop),
		cmocka_unit_test_teardown(rhi_msg__a_new_life_has_a_place_for_what_is_offered,
			stop),
		cmocka_unit_test_teardown(rhi_msg__an_offer_ends_with_its_receiver_client, stop),
		cmocka_unit_test_teardown(rhi_msg__an_offer_ends_with_its_receiver_engine, stop),
		cmocka_unit_test_teardown(rhi_msg__a_new_life_is_pushed_what_it_accepts, stop),
		cmocka_unit_test_teardown(rhi_msg__a_new_life_pulls_what_it_is_offered, stop),
		cmocka_unit_test_teardown(rhi_msg__what_a_new_life_is_pushed_the_port_still_has,
			stop),
		cmocka_unit_test_teardown(rhi_msg__what_a_new_life_pulls_the_port_still_has, stop),
		cmocka_unit_test_teardown(rhi_msg__what_answers_a_new_life_the_port_still_has,
			stop),
		cmocka_unit_test_teardown(rhi_sync__waits_for_all_own_transfers, stop),
		cmocka_unit_test_teardown(rhi_sync__ends_when_its_time_is_over, stop),
		cmocka_unit_test_teardown(send_wait__waits_for_all_that_was_sent, stop),
		cmocka_unit_test_teardown(ordered__a_push_in_parts_waits_for_a_long_push, stop),
		cmocka_unit_test_teardown(ordered__a_long_push_waits_for_one_that_is_held, stop),
		cmocka_unit_test_teardown(ordered__a_long_push_waits_for_a_pull, stop),
		cmocka_unit_test_teardown(pull__what_the_port_still_has_is_sent_again_as_a_copy,
			stop),
		cmocka_unit_test_teardown(send__what_the_port_still_has_is_sent_again_as_a_copy,
			stop),
		cmocka_unit_test_teardown(pull__a_peer_that_fails_leaves_no_question, stop),
		cmocka_unit_test_teardown(rhi_sig__notifications_keep_their_order, stop),
		cmocka_unit_test_teardown(
			rhi_sig__a_notification_that_waited_ends_well_after_a_refusal, stop),
		cmocka_unit_test_teardown(rhi_sig__notifications_that_wait_end_with_their_context,
			stop),
		cmocka_unit_test_teardown(transfers__to_a_node_that_is_not_there_end, stop),
		cmocka_unit_test_teardown(register__one_context_never_takes_all_places, stop),
		cmocka_unit_test_teardown(close__held_frames_go_back, stop),
		cmocka_unit_test_teardown(abort__what_waits_for_room_ends, stop),
		cmocka_unit_test(end__wakes_who_sleeps),
		cmocka_unit_test(pin_5__what_was_pinned_stays_for_the_next),
		cmocka_unit_test(pin_5__bytes_are_bounded),
		cmocka_unit_test(pin_5__entries_are_bounded),
		cmocka_unit_test(pin_5__switched_off_nothing_stays),
	};

	if (rte_eal_init(8, eal) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
