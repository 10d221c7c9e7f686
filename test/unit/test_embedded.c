/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the verbs promise of messages and no byte of one shows: which memory a receive touches, what
 * a receiver that is full does, what a client may not say, that a wait waits, and what is left when
 * a context closes. Long messages: test_embedded_offers.c; remote memory: test_embedded_memory.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <rte_mempool.h>

#include "channel/instance.h"
#include "client/say.h"
#include "embedded_pair.h"
#include "log/log.h"
#include "rma/engine/rma.h"
#include "rma/internal.h"

/* ------------------------------------------------------------------ LHS: where a message lies */

static void
lhs_1__a_short_message_is_whole_in_its_entry(void **state)
{
	struct channel *ch;
	uint8_t bytes[256];

	(void)state;
	pair_start("client", "");
	ch = &nodes[1]->embedded->channels[0];
	for (unsigned from = 0; from < NODES; from++) { /* over the link, and within the node */
		for (uint32_t len = 1; len <= ch->plain.lhs.split + 2; len++) {
			bool is_short = len <= ch->plain.lhs.split;
			const uint8_t *data;
			struct pmx_message msg;

			bytes_fill(bytes, len, len + from);
			assert_int_equal(pmx_send_copy(ctx[from][1], (struct pmx_addr){1, 0}, bytes,
						 len, NULL),
				0);
			pair_take(&msg);
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
	pair_start("client", "");
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

	pair_start("client", limits);
	ch = &nodes[1]->embedded->channels[0];
	/* short ones that were read give back what they took, and no more */
	for (unsigned i = 0; i < 64; i++) {
		assert_int_equal(
			pmx_send_copy(ctx[from][1], (struct pmx_addr){1, 0}, bytes, 1, NULL), 0);
		pair_take(&msg);
		pmx_release_receive_buffer(ctx[1][0], &msg);
	}
	UNTIL(pmx_sends_pending(ctx[from][1]) == 0);
	uint32_t before = ch->received;

	for (; sent < 64; sent++) {
		bytes_fill(bytes, len, sent);
		UNTIL(pmx_send_copy(ctx[from][1], (struct pmx_addr){1, 0}, bytes, len, NULL) == 0);
	}
	for (unsigned i = 0; i < 1000; i++)
		pair_poll();
	assert_true(ch->plain.lhs.pos - ch->plain.lhs_pos <= ch->plain.lhs_size);
	assert_true(ch->plain.bulk_out <= ch->plain.bulk_quota);
	assert_in_range(ch->received - before, 1, sent - 1);
	assert_true(pmx_sends_pending(ctx[from][1]) >= sent - (ch->received - before));
	for (uint32_t i = 0; i < sent; i++) {
		pair_take(&msg);
		bytes_fill(bytes, len, i);
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
	pair_poll();
}

static void
client__memory_of_no_such_number_is_not_forgotten(void **state)
{
	const struct memory_space *space;
	void *p;

	(void)state;
	pair_start("client", "");
	assert_int_equal(pmx_alloc(ctx[0][0], 4096, &p), 0);
	pair_poll();
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
	pair_start("client", "");
	s = raw_submission(ctx[0][0]);
	s->op = SUBMIT_SEND; /* of no buffer */
	slot_publish(&ctx[0][0]->sub, ctx[0][0]->sub.pos++);
	assert_int_equal(pmx_send_copy(ctx[0][0], (struct pmx_addr){1, 0}, "good", 4, NULL), 0);
	pair_take(&msg);
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
	pair_start("engine", "");
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

/* Check a client that asks and takes no answers: there is a place for a number of answers, which
 * stay in order, and what it asks beyond that is not answered. */
static void
client__answers_that_nobody_takes_are_not_written_over(void **state)
{
	uint32_t asked = 0, got = 0;
	struct channel *ch;
	struct pmx_context *x;
	struct completion c;
	struct completion_receive item;

	(void)state;
	pair_start("engine", "receives = 8");
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
	for (unsigned quiet = 0; quiet < 100; quiet++, pair_poll()) {
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
	pair_start("client", "");
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
checksum__a_peer_without_one_is_refused_and_counted(void **state)
{
	const uint64_t *c;
	struct pmx_message msg;
	uint64_t work = 0;

	(void)state;
	only_second = "checksum = on";
	/* then it asks no more */
	pair_start("client", GIVES_UP_SOON);
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
	assert_int_equal(proto_counters(nodes[1]->embedded->engines[0].proto)[PROTO_drop_setting],
		c[ENGINE_rx_frames]);
	assert_int_equal(c[ENGINE_drop_checksum] + c[ENGINE_drop_no_checksum], 0);
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
	pair_start("client", "");
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

		bytes_fill(sent, len, i);
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

/* ------------------------------------------------------------------ what was sent, what is left */

/* Within one node, which nobody polls but the wait: what is pending when it begins is done by it
 * alone. */
static void
send_wait__waits_for_all_that_was_sent(void **state)
{
	uint8_t bytes[64] = {0};
	struct pmx_message msg;

	(void)state;
	pair_start("client", "");
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

static void
send__what_the_port_still_has_is_sent_again_as_a_copy(void **state)
{
	const uint64_t *c;
	uint8_t bytes[500];
	struct pmx_message msg;

	(void)state;
	pair_start("client", "[proto]\nrto_min_us = 200");
	c = nodes[0]->embedded->engines[0].counters;
	keep_and_lose = 5;
	for (unsigned i = 0; i < 500; i++) {
		bytes_fill(bytes, sizeof(bytes), i);
		assert_int_equal(pmx_send_copy(ctx[0][0], (struct pmx_addr){1, 0}, bytes,
					 sizeof(bytes), NULL),
			0);
		pair_take(&msg);
		assert_int_equal(msg.len, sizeof(bytes));
		assert_memory_equal(pmx_message_data(&msg), bytes, sizeof(bytes));
		pmx_release_receive_buffer(ctx[1][0], &msg);
	}
	assert_true(c[ENGINE_tx_still_queued] > 50);
}

/* Frames that were held for one that was lost go back when their context closes. */
static void
close__held_frames_go_back(void **state)
{
	uint8_t bytes[1000] = {0};

	(void)state;
	pair_start("client", "");
	for (unsigned round = 0; round < 20; round++) {
		for (unsigned i = 0; i < 64; i++) {
			if (pmx_send_copy(ctx[0][0], (struct pmx_addr){1, 0}, bytes, sizeof(bytes),
				    NULL) != 0)
				break;
		}
		keep_and_lose = 3;
		pair_poll();
		pair_poll();
		pmx_context_close(ctx[1][0]);
		keep_and_lose = 0;
		assert_int_equal(pmx_context_open(&ctx[1][0], nodes[1], 0, NULL), 0);
		UNTIL(pmx_sends_pending(ctx[0][0]) == 0);
	}
}

/* Make something of each kind at context 1 of node 0, half of it unfinished, then close it and open
 * another one. */
static void
live_and_close(void)
{
	static uint8_t heap[200000];
	const struct pmx_addr to = {1, 0};
	const struct pmx_matched long_one = {.peer = to, .data = heap, .len = sizeof(heap)};
	const struct pmx_matched none = {.peer = to, .tag = 99, .data = heap, .len = 10};
	struct pmx_context *c = ctx[0][1];
	struct pmx_remote region;
	struct pmx_message msg;
	pmx_request r;
	void *piece;

	assert_int_equal(pmx_alloc(c, 100000, &piece), 0);
	assert_int_equal(pmx_register(c, piece, 100000, PMX_REMOTE_READ, &region), 0);
	const struct pmx_transfer pull = {
		.peer = region.owner,
		.key = region.key,
		.remote = region.addr,
		.local = heap,
		.len = 100000,
	};

	assert_int_equal(pmx_pull(c, &pull, NULL), 0);
	assert_int_equal(pmx_sync_wait(c, 10 * 1000 * 1000), 0);
	assert_int_equal(pmx_pull(c, &pull, NULL), 0);
	for (unsigned i = 0; i < 3; i++) { /* to itself: one that is taken, and others that wait */
		assert_int_equal(pmx_send_copy(c, (struct pmx_addr){0, 1}, heap, 5000, NULL), 0);
		assert_int_equal(pmx_send_copy(c, to, heap, 5000, NULL), 0);
	}
	pair_take(&msg);
	pmx_release_receive_buffer(ctx[1][0], &msg);
	assert_int_equal(pmx_isend(c, &long_one, &r), 0);
	assert_int_equal(pmx_irecv(c, &none, &r), 0);
	pair_poll();
	pmx_context_close(c);
	assert_int_equal(pmx_context_open(&ctx[0][1], nodes[0], 1, NULL), 0);
}

/* A context that has closed has given back what it took of the process's memory, files and
 * mappings. */
static void
close__gives_all_back_to_the_process(void **state)
{
	size_t bytes[2], files[2], maps[2];

	(void)state;
	pair_start("client", "");
	for (unsigned i = 0; i < 2; i++) {
		for (unsigned life = 0; life < 20; life++)
			live_and_close();
		bytes[i] = mallinfo2().uordblks + mallinfo2().hblkhd;
		files[i] = files_that("/proc/self/fd", is_any, NULL, false);
		maps[i] = files_that("/proc/self/map_files", is_any, NULL, false);
	}
	assert_int_equal(bytes[1], bytes[0]);
	assert_int_equal(files[1], files[0]);
	assert_int_equal(maps[1], maps[0]);
}

/* Its process is gone: what it sent to one of its node that is full ends with it, and its number is
 * free. */
static void
abort__what_waits_for_room_ends(void **state)
{
	const struct channel *ch;
	struct inlet *in;
	uint8_t byte = 0;
	struct command cmd = {.op = COMMAND_ABORT, .ctx = 1};

	(void)state;
	pair_start("client", "lhs_entries = 16");
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
	assert_int_equal(pmx_context_open(&ctx[1][1], nodes[1], 1, NULL), 0);
}

/* Check that whoever sleeps in poll() is woken when the primary ends, and need not wait for the end
 * of its process. This runs in a process of its own, for no lane may run any more. */
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
		pair_start("client", "");
		p.fd = pmx_get_fd(ctx[1][0]);
		before = poll(&p, 1, 0);
		node_end(nodes[1]->embedded);
		_exit(before != 0 || poll(&p, 1, 0) != 1 || pmx_receive(ctx[1][0], &msg) != -EPIPE);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
}

/* ------------------------------------------------------------------ */

/* ------------------------------------------------------------------ what a send answers */

/* Sends to nobody are refused at once, within a node and between nodes, by a reason that stays
 * known until another message in the same buffer fails; then it is no longer known. */
static void
send__a_refusal_comes_at_once_and_is_never_taken_for_success(void **state)
{
	(void)state;
	pair_start("client", "send_buffers = 4");
	for (uint16_t to = 0; to < NODES; to++) {
		const struct pmx_addr nobody = {to, 1}, somebody = {to, 0};
		pmx_send_id refused, later, again;
		struct pmx_message msg;
		int result;

		pmx_context_close(ctx[to][1]);
		int64_t begin = now_us();

		assert_int_equal(pmx_send_copy(ctx[0][0], nobody, "x", 1, &refused), 0);
		UNTIL((result = pmx_is_send_done(ctx[0][0], refused)) != 0);
		assert_int_equal(result, -ECONNREFUSED);
		/* far from the seconds of all retries */
		assert_true(now_us() - begin < 1000000);
		for (unsigned i = 0; i < 12; i++) {
			assert_int_equal(pmx_send_copy(ctx[0][0], somebody, "y", 1, &later), 0);
			UNTIL(pmx_is_send_done(ctx[0][0], later) == 1);
			UNTIL(pmx_receive(ctx[to][0], &msg) == 1);
			pmx_release_receive_buffer(ctx[to][0], &msg);
			assert_int_equal(pmx_is_send_done(ctx[0][0], refused), -ECONNREFUSED);
		}
		/* those after it are known as well, until another one fails in their buffer */
		for (unsigned i = 0; i < 4; i++) {
			assert_int_equal(pmx_send_copy(ctx[0][0], nobody, "x", 1, &again), 0);
			UNTIL(pmx_is_send_done(ctx[0][0], again) == -ECONNREFUSED);
		}
		assert_int_equal(pmx_is_send_done(ctx[0][0], refused), -ESTALE);
		result = pmx_is_send_done(ctx[0][0], later);
		assert_true(result == 1 || result == -ESTALE);
		assert_int_equal(pmx_is_send_done(ctx[0][0], again + (UINT64_C(9) << 16)), -EINVAL);

		assert_int_equal(pmx_context_open(&ctx[to][1], nodes[to], 1, NULL), 0);
	}
}

/* Check that what a context sends waits for its receiver if the context was opened to do so. */
static void
send__waits_for_the_opening_if_asked_to(void **state)
{
	(void)state;
	pair_start("client", "");
	for (uint16_t to = 0; to < NODES; to++) {
		struct pmx_context_params params = {
			.size = sizeof(params),
			.open_wait_us = 20000000,
		};
		struct pmx_message msg;
		pmx_send_id id;

		pmx_context_close(ctx[0][0]);
		assert_int_equal(pmx_context_open(&ctx[0][0], nodes[0], 0, &params), 0);
		pmx_context_close(ctx[to][1]);
		assert_int_equal(pmx_send_copy(ctx[0][0], (struct pmx_addr){to, 1}, "x", 1, &id),
			0);
		for (unsigned i = 0; i < 1000; i++)
			pair_poll();
		assert_int_equal(pmx_is_send_done(ctx[0][0], id), 0);
		assert_int_equal(pmx_context_open(&ctx[to][1], nodes[to], 1, NULL), 0);
		UNTIL(pmx_receive(ctx[to][1], &msg) == 1);
		pmx_release_receive_buffer(ctx[to][1], &msg);
		UNTIL(pmx_is_send_done(ctx[0][0], id) == 1);
	}
	const struct pmx_context_params beyond = {
		.size = sizeof(beyond),
		.open_wait_us = PMX_OPEN_WAIT_MAX + 1,
	};
	struct pmx_context *never;

	pmx_context_close(ctx[0][0]);
	ctx[0][0] = NULL;
	assert_int_equal(pmx_context_open(&never, nodes[0], 0, &beyond), -EINVAL);
}

/* The first message to a context that was closed and opened again arrives there. */
static void
send__the_first_to_a_reopened_context_arrives(void **state)
{
	const struct pmx_addr to = {1, 0};
	struct pmx_message msg;
	pmx_send_id id;

	(void)state;
	pair_start("client", "");
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(pmx_send_copy(ctx[0][0], to, &i, sizeof(i), &id), 0);
		pair_take(&msg);
		assert_memory_equal(pmx_message_data(&msg), &i, sizeof(i));
		pmx_release_receive_buffer(ctx[1][0], &msg);
		UNTIL(pmx_is_send_done(ctx[0][0], id) == 1);
		pmx_context_close(ctx[1][0]);
		assert_int_equal(pmx_context_open(&ctx[1][0], nodes[1], 0, NULL), 0);
	}
}

/* A structure that was sent, discarded or sent in a burst is used up. */
static void
send__a_structure_is_used_once(void **state)
{
	const struct pmx_addr to[2] = {{1, 0}, {1, 0}};
	struct pmx_buffer buf[2];
	struct pmx_message msg;
	uint32_t free_before;

	(void)state;
	pair_start("client", "");
	free_before = ctx[0][0]->free_count;
	for (uint32_t len = 8; len <= 80; len += 72) { /* inline, and not */
		for (unsigned burst = 0; burst < 2; burst++) {
			assert_int_equal(pmx_get_send_buffer(ctx[0][0], len, &buf[0]), 0);
			assert_int_equal(pmx_get_send_buffer(ctx[0][0], len, &buf[1]), 0);
			memset(buf[0].data, 0, len);
			memset(buf[1].data, 0, len);
			if (burst) {
				assert_int_equal(pmx_send_burst(ctx[0][0], to, buf, NULL, 2), 2);
				assert_int_equal(pmx_send_burst(ctx[0][0], to, buf, NULL, 2),
					-EINVAL);
			} else {
				assert_int_equal(pmx_send(ctx[0][0], to[0], &buf[0], NULL), 0);
				assert_int_equal(pmx_send(ctx[0][0], to[0], &buf[1], NULL), 0);
			}
			for (unsigned i = 0; i < 2; i++) {
				assert_int_equal(pmx_send(ctx[0][0], to[0], &buf[i], NULL),
					-EINVAL);
				assert_int_equal(pmx_buffer_write(ctx[0][0], &buf[i], 0, "x", 1),
					-EINVAL);
				assert_int_equal(pmx_truncate_buffer(ctx[0][0], &buf[i], 1),
					-EINVAL);
				pmx_discard_buffer(ctx[0][0], &buf[i]);
				pair_take(&msg);
				pmx_release_receive_buffer(ctx[1][0], &msg);
			}
			UNTIL(pmx_sends_pending(ctx[0][0]) == 0);
			assert_int_equal(pmx_receive(ctx[1][0], &msg), 0);
			assert_int_equal(ctx[0][0]->free_count, free_before);
		}
	}
	assert_int_equal(pmx_get_send_buffer(ctx[0][0], 8, &buf[0]), 0);
	pmx_discard_buffer(ctx[0][0], &buf[0]);
	pmx_discard_buffer(ctx[0][0], &buf[0]);
	assert_int_equal(ctx[0][0]->free_count, free_before);
}

/* Whatever number a timeout is: one of for ever by any means, and one that is over. */
static void
wait__any_timeout(void **state)
{
	static const int64_t for_ever[] = {-1, INT64_MIN, INT64_MAX, INT64_MAX - 1};
	struct pmx_message msg;

	(void)state;
	pair_start("client", "");
	for (unsigned i = 0; i < sizeof(for_ever) / sizeof(for_ever[0]); i++) {
		/* within the node, whose engine the waits run */
		assert_int_equal(pmx_send_copy(ctx[0][0], (struct pmx_addr){0, 1}, "x", 1, NULL),
			0);
		assert_int_equal(pmx_receive_wait(ctx[0][1], &msg, for_ever[i]), 1);
		pmx_release_receive_buffer(ctx[0][1], &msg);
		assert_int_equal(pmx_send_wait(ctx[0][0], for_ever[i]), 0);
		assert_int_equal(pmx_sync_wait(ctx[0][0], for_ever[i]), 0);
	}
	assert_int_equal(pmx_receive_wait(ctx[0][1], &msg, 0), 0);
	assert_int_equal(pmx_send_copy(ctx[0][0], (struct pmx_addr){1, 1}, "x", 1, NULL), 0);
	assert_int_equal(pmx_send_wait(ctx[0][0], 0), -ETIMEDOUT);
	UNTIL(pmx_receive(ctx[1][1], &msg) == 1);
	pmx_release_receive_buffer(ctx[1][1], &msg);
}

/* ------------------------------------------------------------------ what people are told */

static struct {
	enum pmx_log_level level;
	char line[200];
	unsigned lines;
} heard;

static void
hear(void *arg, enum pmx_log_level level, const char *line)
{
	assert_ptr_equal(arg, &heard);
	heard.level = level;
	heard.lines++;
	snprintf(heard.line, sizeof(heard.line), "%s", line);
}

static void
log_to__lines_of_the_node_and_of_the_library(void **state)
{
	(void)state;
	pair_start("client", "");
	pmx_log_to(hear, &heard);
	log_say(LOG_LINK, RTE_LOG_ERR, "link %d is down", 3);
	assert_string_equal(heard.line, "pmx.link: link 3 is down");
	assert_int_equal(heard.level, PMX_LOG_ERROR);
	client_say(PMX_LOG_ERROR, "%s", "no");
	assert_string_equal(heard.line, "no");
	assert_int_equal(heard.level, PMX_LOG_ERROR);
	assert_int_equal(heard.lines, 2);
	pmx_log_to(NULL, NULL);
	log_say(LOG_LINK, RTE_LOG_ERR, "link %d is up", 3);
	assert_int_equal(heard.lines, 2);
}

static void
context__has_a_name_and_counts_bytes(void **state)
{
	const struct pmx_context_params params = {
		.size = sizeof(params),
		.name = "a name that is longer than the thirty-one bytes",
	};
	struct channel *from, *to;
	struct pmx_message msg;
	uint8_t bytes[5000] = {0};

	(void)state;
	pair_start("client", "");
	from = &nodes[0]->embedded->channels[1];
	to = &nodes[1]->embedded->channels[0];
	assert_string_equal(from->shm->name, program_invocation_short_name);
	pmx_context_close(ctx[0][0]);
	assert_int_equal(pmx_context_open(&ctx[0][0], nodes[0], 0, &params), 0);
	assert_string_equal(nodes[0]->embedded->channels[0].shm->name,
		"a name that is longer than the ");
	for (uint32_t len = 1; len <= sizeof(bytes); len = len * 5 + 3) {
		const uint64_t sent = from->sent_bytes, received = to->received_bytes;

		assert_int_equal(
			pmx_send_copy(ctx[0][1], (struct pmx_addr){1, 0}, bytes, len, NULL), 0);
		pair_take(&msg);
		pmx_release_receive_buffer(ctx[1][0], &msg);
		assert_int_equal(from->sent_bytes - sent, len);
		assert_int_equal(to->received_bytes - received, len);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(lhs_1__a_short_message_is_whole_in_its_entry, pair_stop),
		cmocka_unit_test_teardown(log_to__lines_of_the_node_and_of_the_library, pair_stop),
		cmocka_unit_test_teardown(context__has_a_name_and_counts_bytes, pair_stop),
		cmocka_unit_test_teardown(lhs_1__a_short_matched_message_takes_no_buffer,
			pair_stop),
		cmocka_unit_test_teardown(full__entries_from_this_node, pair_stop),
		cmocka_unit_test_teardown(full__entries_from_another_node, pair_stop),
		cmocka_unit_test_teardown(full__buffers_from_this_node, pair_stop),
		cmocka_unit_test_teardown(full__buffers_from_another_node, pair_stop),
		cmocka_unit_test_teardown(full__chains_from_this_node, pair_stop),
		cmocka_unit_test_teardown(client__memory_of_no_such_number_is_not_forgotten,
			pair_stop),
		cmocka_unit_test_teardown(client__a_bad_submission_takes_no_good_one_with_it,
			pair_stop),
		cmocka_unit_test_teardown(client__a_probe_by_a_posted_receive_is_answered,
			pair_stop),
		cmocka_unit_test_teardown(client__answers_that_nobody_takes_are_not_written_over,
			pair_stop),
		cmocka_unit_test_teardown(client__memory_that_it_did_not_give_is_not_registered,
			pair_stop),
		cmocka_unit_test_teardown(checksum__a_peer_without_one_is_refused_and_counted,
			pair_stop),
#ifdef __x86_64__
		cmocka_unit_test_teardown(lhs_5__one_line_holds_envelope_and_short_message,
			pair_stop),
#endif
		cmocka_unit_test_teardown(send_wait__waits_for_all_that_was_sent, pair_stop),
		cmocka_unit_test_teardown(send__what_the_port_still_has_is_sent_again_as_a_copy,
			pair_stop),
		cmocka_unit_test_teardown(
			send__a_refusal_comes_at_once_and_is_never_taken_for_success, pair_stop),
		cmocka_unit_test_teardown(send__waits_for_the_opening_if_asked_to, pair_stop),
		cmocka_unit_test_teardown(send__the_first_to_a_reopened_context_arrives, pair_stop),
		cmocka_unit_test_teardown(send__a_structure_is_used_once, pair_stop),
		cmocka_unit_test_teardown(wait__any_timeout, pair_stop),
		cmocka_unit_test_teardown(close__held_frames_go_back, pair_stop),
		cmocka_unit_test_teardown(close__gives_all_back_to_the_process, pair_stop),
		cmocka_unit_test_teardown(abort__what_waits_for_room_ends, pair_stop),
		cmocka_unit_test(end__wakes_who_sleeps),
	};

	if (pair_eal("test_embedded") < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
