/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Cases of lives.c: what a client hears while its primary is gone, and after.
 */
#include "lives.h"

/* ------------------------------------------------------------------ 1: messages */

/* Check that what had arrived is received once, whenever the application asks: before its primary
 * ends, between two primaries, and in whatever life comes after. */
void
unread_messages_come_once(void)
{
	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	for (uint32_t i = 0; i < 5; i++) {
		send_number(other, 0, i);
		send_number(ctx, 1, i);
	}
	GIVES(0, pmx_send_wait(ctx, PATIENCE_US));
	GIVES(0, pmx_send_wait(other, PATIENCE_US));
	for (uint32_t i = 0; i < 3; i++) {
		take_number(ctx, i);
		take_number(other, i);
	}
	kill_it(ctx);
	GIVES(-ENOENT, pmx_reattach(node, 0));
	take_number(ctx, 3);
	take_number(ctx, 4);
	nothing_comes(ctx, -EPIPE);
	/* the other context reads one of its two in each life */
	take_number(other, 3);
	GIVES(-ENOENT, pmx_reattach(node, 0));
	nothing_comes(ctx, -EPIPE);
	begin();
	reattach();
	nothing_comes(ctx, 0);
	take_number(other, 4);
	nothing_comes(other, 0);
	all_works(ctx, 0, other, 1);
}

/* Check that matched messages that had arrived are received once, too, and with several ends of the
 * primary one after the other. */
void
unread_matched_messages_come_once(void)
{
	uint32_t value;
	const struct pmx_matched r = {
		.peer = PMX_ANY_SOURCE,
		.ignore = PMX_ANY_TAG,
		.data = &value,
		.len = sizeof(value),
	};
	struct pmx_status status;
	pmx_request request;

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	for (uint32_t i = 0; i < 5; i++) {
		const struct pmx_matched s = {
			.peer = own(0),
			.tag = i,
			.data = &i,
			.len = sizeof(i),
		};

		GIVES(0, pmx_isend(other, &s, NULL));
	}
	GIVES(0, pmx_send_wait(other, PATIENCE_US));
	for (uint32_t i = 0; i < 5; i++) {
		GIVES(0, pmx_irecv(ctx, &r, &request));
		GIVES(1, pmx_wait(ctx, &request, &status, PATIENCE_US));
		MUST(status.tag == i && value == i,
			"matched message %u has the tag %lu and the value %u", i, status.tag,
			value);
		if (i % 2)
			continue;
		kill_it(ctx);
		GIVES(-ENOENT, pmx_reattach(node, 0));
		begin();
		reattach();
	}
	GIVES(0, pmx_iprobe(ctx, &r, &status));
	all_works(ctx, 0, other, 1);
}

/* ----------------------------------------------------------- 2: a context whose primary is gone */

static void
waits_end(struct pmx_context *ctx)
{
	struct pmx_message m;
	pmx_request request = 77;
	char in[64];
	const struct pmx_matched r = {.peer = own(1), .comm = 5, .data = in, .len = sizeof(in)};
	double began = now_s();
	unsigned index;

	EPIPES(pmx_receive_wait(ctx, &m, WAIT_US));
	EPIPES(pmx_receive_wait(ctx, &m, -1));
	/* a receive may be posted, for the life to come */
	int result = pmx_irecv(ctx, &r, &request);

	MUST(result == 0 || (result == -EPIPE && request == 77), "pmx_irecv gives %d, request %lx",
		result, request);
	if (result == 0) {
		EPIPES(pmx_test(ctx, &request, NULL));
		EPIPES(pmx_wait(ctx, &request, NULL, WAIT_US));
		EPIPES(pmx_wait_any(ctx, &request, 1, &index, NULL, -1));
		EPIPES(pmx_wait_all(ctx, &request, 1, NULL, -1));
		GIVES(0, pmx_cancel(ctx, request));
		GIVES(-ECANCELED, pmx_test(ctx, &request, NULL));
	}
	MUST(now_s() - began < NOTICE_S, "waiting ends after %.1f s only", now_s() - began);
}

/* Check that sends of each kind and length say so. heap: LONG bytes. */
static void
all_sends_refuse(struct pmx_context *ctx, uint8_t *heap)
{
	const struct pmx_addr to[] = {own(1), own(1)};

	/* a buffer may be had; it is not sent */
	for (uint32_t len = 8; len <= 3008; len += 1500) {
		struct pmx_buffer buf;
		int result = pmx_get_send_buffer(ctx, len, &buf);

		MUST(result == 0 || result == -EPIPE, "pmx_get_send_buffer gives %d", result);
		if (result != 0)
			continue;
		EPIPES(pmx_send(ctx, to[0], &buf, NULL));
		EPIPES(pmx_send_burst(ctx, to, &buf, NULL, 1));
		pmx_discard_buffer(ctx, &buf);
	}
	EPIPES(pmx_send_copy(ctx, to[0], heap, 8, NULL));
	EPIPES(pmx_send_copy(ctx, to[0], heap, 1000, NULL));
	EPIPES(pmx_send_copy(ctx, to[0], heap, 5000, NULL));
	for (unsigned flags = 0; flags <= (PMX_SYNC | PMX_DELIVERED); flags += PMX_SYNC) {
		for (uint32_t len = 16; len <= LONG; len += LONG / 4) {
			const struct pmx_matched s = {
				.peer = to[0],
				.tag = 5,
				.flags = flags,
				.data = heap,
				.len = len,
			};
			pmx_request request = 77;

			EPIPES(pmx_isend(ctx, &s, &request));
			MUST(request == 77, "pmx_isend that fails makes the request %lx", request);
			EPIPES(pmx_isend(ctx, &s, NULL));
		}
	}
}

/* Check that t is refused for short and long pieces of the heap and of memory of pmx_alloc. */
static void
all_transfers_refuse(struct pmx_context *ctx, struct pmx_transfer t, uint8_t *heap, uint8_t *piece)
{
	for (t.len = 16; t.len <= PIECE; t.len += PIECE - 16) {
		for (int from_heap = 0; from_heap < 2; from_heap++) {
			t.local = from_heap ? heap : piece;
			EPIPES(pmx_push(ctx, &t, NULL));
			EPIPES(pmx_pull(ctx, &t, NULL));
			EPIPES(pmx_remote_pin(ctx, &t, NULL));
		}
	}
}

/* Each says so, and nothing is begun. piece: of pmx_alloc. */
static void
all_refuse(struct pmx_context *ctx, uint8_t *piece, const struct pmx_remote *remote)
{
	static uint8_t heap[LONG];
	volatile int32_t word = 77;
	struct pmx_transfer t = {
		.peer = own(1),
		.key = remote->key,
		.remote = remote->addr,
		.status = &word,
	};
	struct pmx_message m;
	struct pmx_event event;
	struct pmx_status status;
	struct pmx_context *new;
	struct pmx_remote unused;
	void *memory;

	for (int turn = 0; turn < 40; turn++) {
		all_sends_refuse(ctx, heap);
		t.flags = turn % 2 ? PMX_EVENT : 0;
		all_transfers_refuse(ctx, t, heap, piece);
		MUST(word == 77, "the status of a transfer that was not begun is %d", word);
		EPIPES(pmx_alloc(ctx, PIECE, &memory));
		EPIPES(pmx_register(ctx, piece, PIECE, PMX_REMOTE_READ, &unused));
		EPIPES(pmx_area_register(ctx, 3, piece, PIECE, PMX_ANYONE | PMX_REMOTE_READ,
			&unused));
		EPIPES(pmx_receive(ctx, &m));
		EPIPES(pmx_receive_burst(ctx, &m, 1));
		EPIPES(pmx_poll_event(ctx, &event));
		EPIPES(pmx_iprobe(ctx,
			&(struct pmx_matched){.peer = PMX_ANY_SOURCE, .ignore = PMX_ANY_TAG},
			&status));
		EPIPES(pmx_context_open(&new, node, PMX_ANY_CONTEXT, NULL));
	}
	GIVES(0, (int)pmx_sends_pending(ctx));
	GIVES(0, (int)pmx_transfers_pending(ctx));
	waits_end(ctx);
}

void
all_calls_tell_and_begin_nothing(void)
{
	struct pmx_match_stat stat;
	struct pmx_remote remote;
	struct pmx_buffer buf, all[SEND_BUFFERS];
	void *piece, *other_piece;

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	all_works(ctx, 0, other, 1);
	GIVES(0, pmx_alloc(ctx, PIECE, &piece));
	GIVES(0, pmx_alloc(ctx, PIECE, &other_piece));
	GIVES(0, pmx_register(ctx, piece, PIECE, PMX_REMOTE_READ, &remote));
	GIVES(0, pmx_get_send_buffer(ctx, 100, &buf));
	kill_it(ctx);
	EPIPES(pmx_send(ctx, own(1), &buf, NULL));
	pmx_discard_buffer(ctx, &buf);
	all_refuse(ctx, piece, &remote);
	int result = pmx_deregister(ctx, remote.key);

	MUST(result == -EPIPE || result == -ENOKEY, "pmx_deregister gives %d", result);
	GIVES(-ENOENT, pmx_reattach(node, 0));
	all_refuse(ctx, piece, &remote);
	pmx_free(ctx, other_piece);
	begin();
	reattach();
	GIVES(0, (int)pmx_sends_pending(ctx));
	GIVES(0, (int)pmx_transfers_pending(ctx));
	GIVES(0, pmx_send_wait(ctx, PATIENCE_US));
	GIVES(0, pmx_sync_wait(ctx, PATIENCE_US));
	pmx_match_read_stat(ctx, &stat);
	MUST(stat.posted == 0 && stat.waiting == 0, "%u receives are posted and %u messages wait",
		stat.posted, stat.waiting);
	/* all its buffers are there, and are different ones */
	for (unsigned i = 0; i < SEND_BUFFERS; i++) {
		GIVES(0, pmx_get_send_buffer(ctx, 8, &all[i]));
		for (unsigned k = 0; k < i; k++)
			MUST(all[k].data != all[i].data, "buffer %u is buffer %u", i, k);
	}
	for (unsigned i = 0; i < SEND_BUFFERS; i++)
		pmx_discard_buffer(ctx, &all[i]);
	memset(piece, 1, PIECE);
	GIVES(0, pmx_register(ctx, piece, PIECE, PMX_REMOTE_READ, &remote));
	all_works(ctx, 0, other, 1);
	struct pmx_message m;

	GIVES(0, pmx_receive(other, &m)); /* none of what was refused went out after all */
}

/* ------------------------------------------------------------------ 3: requests */

/* Check that a long send fails, both of memory of pmx_alloc and of the heap, which takes another
 * way. piece: LONG bytes. */
static void
long_sends_refuse(struct pmx_context *ctx, void *piece)
{
	static char bytes[LONG];
	void *const from[] = {piece, bytes};
	pmx_request unused = 77;

	for (unsigned i = 0; i < 2; i++) {
		const struct pmx_matched offer = {
			.peer = own(1),
			.tag = 5,
			.data = from[i],
			.len = LONG,
			.flags = PMX_SYNC,
		};

		EPIPES(pmx_isend(ctx, &offer, &unused));
	}
	MUST(unused == 77, "pmx_isend that fails makes the request %lx", unused);
}

/* A long send that fails has a request of its own; the receive that is posted next keeps its
 * one. */
void
failed_offer_takes_no_request(void)
{
	char nine[64] = "", ten[64] = "";
	const struct pmx_matched receive_nine = {
		.peer = own(0),
		.tag = 9,
		.data = nine,
		.len = sizeof(nine),
	};
	const struct pmx_matched receive_ten = {
		.peer = own(0),
		.tag = 10,
		.data = ten,
		.len = sizeof(ten),
	};
	const struct pmx_matched send_nine = {.peer = own(0), .tag = 9, .data = "nine", .len = 5};
	const struct pmx_matched send_ten = {.peer = own(0), .tag = 10, .data = "ten", .len = 4};
	pmx_request nines = 0, tens = 0, sent;
	struct pmx_match_stat stat;
	struct pmx_status status;
	void *piece;

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	all_works(ctx, 0, other, 1);
	GIVES(0, pmx_alloc(ctx, LONG, &piece));
	kill_it(ctx);
	long_sends_refuse(ctx, piece);
	int posted = pmx_irecv(ctx, &receive_nine, &nines);

	MUST(posted == 0 || posted == -EPIPE, "pmx_irecv gives %d", posted);
	begin();
	reattach();
	pmx_match_read_stat(ctx, &stat);
	GIVES(posted == 0, (int)stat.posted);
	if (posted != 0)
		GIVES(0, pmx_irecv(ctx, &receive_nine, &nines));
	GIVES(0, pmx_test(ctx, &nines, &status));
	GIVES(0, pmx_irecv(ctx, &receive_ten, &tens));
	GIVES(0, pmx_isend(ctx, &send_nine, &sent));
	GIVES(1, pmx_wait(ctx, &nines, &status, PATIENCE_US));
	MUST(status.tag == 9 && strcmp(nine, "nine") == 0,
		"the receive of tag 9 gets tag %lu, '%s'", status.tag, nine);
	GIVES(0, pmx_test(ctx, &tens, &status));
	MUST(ten[0] == 0, "the receive of tag 10 has '%s'", ten);
	GIVES(0, pmx_isend(ctx, &send_ten, &sent));
	GIVES(1, pmx_wait(ctx, &tens, &status, PATIENCE_US));
	MUST(status.tag == 10 && strcmp(ten, "ten") == 0,
		"the receive of tag 10 gets tag %lu, '%s'", status.tag, ten);
	all_works(ctx, 0, other, 1);
}

/* ------------------------------------------------------------------ 4: several contexts */

static void *
another_life(void *arg)
{
	pid_t old = primary;

	(void)arg;
	sleep_ms(300);
	primary = 0;
	kill(old, SIGKILL);
	waitpid(old, NULL, 0);
	begin();
	for (;;) /* what it started ends with it */
		pause();
	return NULL;
}

/* A primary that ends marks its channels one after the other, and an application may call in
 * between. */
void
one_context_is_told_first(void)
{
	pthread_t thread;

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	send_number(ctx, 1, 7);
	GIVES(0, pmx_send_wait(ctx, PATIENCE_US));
	atomic_store(&ctx->shm->state, CHANNEL_DEAD);
	MUST(pthread_create(&thread, NULL, another_life, NULL) == 0, "no thread");
	reattach();
	take_number(other, 7);
	nothing_comes(other, 0);
	nothing_comes(ctx, 0);
	GIVES(0, pmx_reattach(node, 0)); /* nothing is left to do */
	all_works(ctx, 0, other, 1);
}

/* ------------------------------------------------------------------ 5, 6: questions */

static bool
piece_is_pulled(struct pmx_context *ctx, struct pmx_context *other)
{
	struct pmx_remote remote;
	void *piece, *to;
	int result = pmx_alloc(ctx, PIECE, &piece);

	if (result == -EPIPE)
		return false;
	MUST(result == 0, "pmx_alloc gives %d (%s)", result, strerror(-result));
	memset(piece, 0x42, PIECE);
	result = pmx_register(ctx, piece, PIECE, PMX_REMOTE_READ, &remote);
	if (result == -EPIPE)
		return false;
	MUST(result == 0, "pmx_register gives %d (%s)", result, strerror(-result));
	result = pmx_alloc(other, PIECE, &to);
	if (result == -EPIPE)
		return false;
	MUST(result == 0, "pmx_alloc of the other context gives %d (%s)", result,
		strerror(-result));
	memset(to, 0, PIECE);
	pull(other, remote, to);
	all_are(to, PIECE, 0x42);
	return true;
}

/* A question that nobody waits for any more is answered in the end: that answer is not the next
 * question's. */
void
late_answers_are_nobodys(void)
{
	void *piece;

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	kill(primary, SIGSTOP);
	at_line = __LINE__;
	int result = pmx_alloc(ctx, 2 * PIECE, &piece);

	kill(primary, SIGCONT);
	MUST(result < 0, "memory of a primary that is stopped: pmx_alloc gives %d", result);
	if (!piece_is_pulled(ctx, other)) {
		reattach(); /* perhaps before the thread that watches has noticed anything */
		MUST(piece_is_pulled(ctx, other), "-EPIPE again, after pmx_reattach");
	}
	all_works(ctx, 0, other, 1);
}

#define ANSWERS 200 /* of each thread */

static _Atomic bool stop;
static _Atomic uint64_t answers[4];

static void *
alloc_and_free(void *arg)
{
	struct pmx_context *ctx = arg;
	unsigned number = pmx_context_addr(ctx).context;
	uint8_t *copy, *memory;
	uint64_t times = 0;

	/* so that the numbers of their pieces differ: another's answer is seen */
	for (unsigned i = 0; i <= 3 * number; i++)
		GIVES(0, pmx_alloc(ctx, PIECE, (void **)&copy));
	for (; !stop; times++) {
		struct pmx_remote remote;
		uint8_t value = (uint8_t)(times * 4 + number);
		int result = pmx_alloc(ctx, PIECE, (void **)&memory);

		MUST(result == 0, "the %lu. pmx_alloc of context %u gives %d (%s)", times, number,
			result, strerror(-result));
		MUST(memory[0] == 0 && memory[PIECE - 1] == 0, "memory of pmx_alloc is not zero");
		memset(memory, value, PIECE);
		if (times % 8 == 0) {
			GIVES(0, pmx_register(ctx, memory, PIECE, PMX_REMOTE_READ, &remote));
			pull(ctx, remote, copy);
			all_are(copy, PIECE, value);
			GIVES(0, pmx_deregister(ctx, remote.key));
		}
		pmx_free(ctx, memory);
		atomic_store(&answers[number], times + 1);
	}
	return NULL;
}

/* Contexts are independent: their threads may ask the primary at the same time. */
void
threads_ask_at_once(void)
{
	struct pmx_context *ctx[4];
	pthread_t threads[4];
	double until;

	begin();
	attach("thin");
	for (unsigned i = 0; i < 4; i++)
		ctx[i] = opened(i);
	for (unsigned i = 0; i < 4; i++)
		MUST(pthread_create(&threads[i], NULL, alloc_and_free, ctx[i]) == 0, "no thread");
	/* all go on until the last one has as many */
	until = now_s() + PATIENCE_US / 1e6;
	for (unsigned i = 0; i < 4; i++) {
		while (atomic_load(&answers[i]) < ANSWERS) {
			MUST(now_s() < until, "context %u was answered %lu times", i,
				atomic_load(&answers[i]));
			sleep_ms(5);
		}
	}
	stop = true;
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	all_works(ctx[0], 0, ctx[3], 3);
	all_works(ctx[1], 1, ctx[2], 2);
}

/* ------------------------------------------------------------------ 7: waiting */

static double killed_at;

static void *
kill_later(void *arg)
{
	(void)arg;
	sleep_ms(300);
	killed_at = now_s();
	kill(primary, SIGKILL);
	return NULL;
}

/* Check that all that wait for never know within NOTICE_S that the primary was killed. */
static void
waits_notice_kill(struct pmx_context *ctx, pmx_request never)
{
	struct pmx_status status;
	pthread_t thread;
	unsigned index;

	MUST(pthread_create(&thread, NULL, kill_later, NULL) == 0, "no thread");
	EPIPES(pmx_wait(ctx, &never, &status, -1));
	pthread_join(thread, NULL);
	MUST(now_s() - killed_at < NOTICE_S, "pmx_wait(-1) ended %.1f s after the primary",
		now_s() - killed_at);
	end(SIGKILL);
	double began = now_s();

	EPIPES(pmx_wait(ctx, &never, &status, WAIT_US));
	EPIPES(pmx_wait_any(ctx, &never, 1, &index, &status, WAIT_US));
	EPIPES(pmx_wait_all(ctx, &never, 1, &status, WAIT_US));
	EPIPES(pmx_test(ctx, &never, &status));
	MUST(now_s() - began < NOTICE_S, "waits end after %.1f s only", now_s() - began);
}

/* Receive the matched message of that tag. Return its value. */
static uint32_t
take_tagged(struct pmx_context *ctx, uint64_t tag)
{
	uint32_t value;
	const struct pmx_matched r = {
		.peer = own(0),
		.tag = tag,
		.data = &value,
		.len = sizeof(value),
	};
	struct pmx_status status;
	pmx_request request;

	GIVES(0, pmx_irecv(ctx, &r, &request));
	GIVES(1, pmx_wait(ctx, &request, &status, PATIENCE_US));
	return value;
}

/* Check that a wait ends although as many matched messages wait as may, and more have landed, which
 * nobody takes in. */
void
full_queues_do_not_hold_waits(void)
{
	const unsigned sent = 4 * UNEXPECTED;
	struct pmx_status status;
	pmx_request never;
	uint32_t value;
	unsigned next = 0;
	const struct pmx_matched r = {
		.peer = own(0),
		.tag = 999,
		.data = &value,
		.len = sizeof(value),
	};

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	GIVES(0, pmx_irecv(ctx, &r, &never));
	for (unsigned i = 0; i < sent; i++) {
		const struct pmx_matched s = {
			.peer = own(0),
			.tag = i,
			.data = &i,
			.len = sizeof(i),
		};

		GIVES(0, pmx_isend(ctx, &s, NULL));
	}
	GIVES(-ETIMEDOUT, pmx_wait(ctx, &never, &status, 200000));
	waits_notice_kill(ctx, never);
	/* room is made by receiving, as pmx_reattach says; in the order sent, each once */
	begin();
	int result;

	while ((result = pmx_reattach(node, PATIENCE_US)) == -ENOBUFS) {
		MUST(next < sent, "pmx_reattach still gives -ENOBUFS when all were received");
		value = take_tagged(ctx, next);
		MUST(value == next, "message %u came for message %u", value, next);
		next++;
	}
	GIVES(0, result);
	const struct pmx_matched any = {
		.peer = own(0),
		.ignore = PMX_ANY_TAG,
		.data = &value,
		.len = sizeof(value),
	};

	while (pmx_iprobe(ctx, &any, &status) == 1) {
		MUST(status.tag == next, "after message %u comes message %lu", next, status.tag);
		take_tagged(ctx, next);
		next++;
	}
	MUST(next >= UNEXPECTED && next <= sent, "%u messages came of %u", next, sent);
	GIVES(0, pmx_test(ctx, &never, &status));
	GIVES(0, pmx_cancel(ctx, never));
	GIVES(-ECANCELED, pmx_test(ctx, &never, &status));
	all_works(ctx, 0, other, 1);
}

/* ------------------------------------------------------------------ 8: transfers */

/* The word of a transfer that its primary took along is set, wherever it lies: who only looks at it
 * must not wait for ever. */
void
status_words_are_set(void)
{
	static volatile int32_t heap_word = 77;
	volatile int32_t *words[2] = {NULL, &heap_word};
	pmx_transfer_id ids[2];
	void *piece, *memory;

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	GIVES(0, pmx_alloc(ctx, PIECE, &piece));
	GIVES(0, pmx_alloc(ctx, PIECE, &memory));
	words[0] = memory;
	*words[0] = 77;
	kill(primary, SIGSTOP); /* so that it is under way for certain */
	for (int i = 0; i < 2; i++) {
		const struct pmx_transfer t = {
			.peer = own(1),
			.key = 1,
			.local = piece,
			.len = PIECE,
			.status = words[i],
		};

		GIVES(0, pmx_pull(ctx, &t, &ids[i]));
		GIVES(1, *words[i]);
	}
	kill_it(ctx);
	begin();
	reattach();
	for (int i = 0; i < 2; i++) {
		GIVES(-ECONNRESET, pmx_transfer_done(ctx, ids[i]));
		GIVES(-ECONNRESET, *words[i]);
	}
	GIVES(0, pmx_sync_wait(ctx, PATIENCE_US));
	all_works(ctx, 0, other, 1);
}

/* ------------------------------------------------------------------ 9: other frames */

static void
matched_arrives(struct pmx_context *ctx, uint32_t len)
{
	static uint8_t out[MESSAGE_MAX], in[MESSAGE_MAX];
	static uint64_t tag;
	const struct pmx_matched s = {.peer = own(0), .tag = ++tag, .data = out, .len = len};
	const struct pmx_matched r = {.peer = own(0), .tag = tag, .data = in, .len = sizeof(in)};
	pmx_request sent = 77, received;
	struct pmx_status status;

	memset(out, (int)tag, len);
	memset(in, 0, sizeof(in));
	GIVES(0, pmx_isend(ctx, &s, &sent));
	GIVES(0, pmx_irecv(ctx, &r, &received));
	GIVES(1, pmx_wait(ctx, &received, &status, PATIENCE_US));
	GIVES(1, pmx_wait(ctx, &sent, NULL, PATIENCE_US));
	MUST(status.len == len, "%lu bytes came of %u", status.len, len);
	all_are(in, len, (uint8_t)tag);
}

static void
pushed(struct pmx_context *ctx, uint32_t len)
{
	static uint8_t out[MESSAGE_MAX];
	struct pmx_remote remote;
	pmx_transfer_id id;
	void *piece;

	GIVES(0, pmx_alloc(ctx, PIECE, &piece));
	GIVES(0, pmx_register(ctx, piece, PIECE, PMX_REMOTE_WRITE, &remote));
	memset(out, 0x17, len);
	const struct pmx_transfer t = {
		.peer = own(0),
		.key = remote.key,
		.remote = remote.addr,
		.local = out,
		.len = len,
	};

	GIVES(0, pmx_push(ctx, &t, &id));
	GIVES(0, pmx_sync_wait(ctx, PATIENCE_US));
	GIVES(1, pmx_transfer_done(ctx, id));
	all_are(piece, len, 0x17);
	all_are((uint8_t *)piece + len, PIECE - len, 0);
	GIVES(0, pmx_deregister(ctx, remote.key));
	pmx_free(ctx, piece);
}

/* The next primary's frames may be smaller, or larger: what fitted one buffer may take several. */
void
frames_may_be_of_another_size(void)
{
	static const unsigned mtus[] = {4000, 600, 9000, 1500};
	struct settings s = usual;
	struct pmx_context *ctx = NULL, *other = NULL;

	for (unsigned i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		s.mtu = mtus[i];
		configure(&s);
		begin();
		if (i == 0) {
			attach("thin");
			ctx = opened(0);
			other = opened(1);
		} else {
			reattach();
		}
		MUST(pmx_get_mtu(ctx) < mtus[i], "frames of %u bytes carry %u", mtus[i],
			pmx_get_mtu(ctx));
		for (uint32_t len = 100; len <= 3500; len += 475) { /* 2000 among them */
			matched_arrives(ctx, len);
			pushed(ctx, len);
		}
		all_works(ctx, 0, other, 1);
		/* two that wait, of which the next life's contexts know the length */
		send_number(ctx, 1, 2);
		send_number(ctx, 1, 3);
		GIVES(0, pmx_send_wait(ctx, PATIENCE_US));
		kill_it(ctx);
		GIVES(-ENOENT, pmx_reattach(node, 0));
		take_number(other, 2);
		take_number(other, 3);
	}
}

/* ------------------------------------------------------------------ 10: secondaries */

#define AWAKE 100 /* it calls all the time, or sleeps */

/* Check for a second that calls say so, and that what the context holds can be read. */
static void
all_refuse_while_gone(struct pmx_context *ctx, unsigned number, const struct pmx_message *held,
	unsigned pause_ms)
{
	struct pmx_event event;
	struct pmx_buffer buf;
	uint32_t word = 0;
	void *piece;
	const struct pmx_matched s = {
		.peer = own(number),
		.tag = 5,
		.data = &word,
		.len = sizeof(word),
	};

	for (double until = now_s() + 1; now_s() < until; sleep_ms(pause_ms)) {
		EPIPES(pmx_send_copy(ctx, own(number), "no", 2, NULL));
		EPIPES(pmx_isend(ctx, &s, NULL));
		EPIPES(pmx_alloc(ctx, PIECE, &piece));
		EPIPES(pmx_poll_event(ctx, &event));
		if (pmx_get_send_buffer(ctx, 1000, &buf) == 0) {
			memset(buf.data, 1, 1000); /* it is there, if for nothing */
			EPIPES(pmx_send(ctx, own(number), &buf, NULL));
			pmx_discard_buffer(ctx, &buf);
		}
		/* what it holds can be read: as it was, or as zeros */
		for (uint32_t i = 0; i < held->seg_len; i++)
			word += ((const uint8_t *)pmx_message_data(held))[i];
	}
}

/* fd's other side: "there", "end" (the primary does), "ended"; then "left", "begun", "again". */
static void
secondary_of_one_that_stops(int fd, unsigned number)
{
	bool awake = number >= AWAKE;
	struct pmx_message held;
	struct pmx_event event;

	number %= AWAKE;
	attach("secondary");
	struct pmx_context *ctx = opened(number);

	echo(ctx, number);
	for (uint32_t i = 0; i < 5; i++)
		send_number(ctx, number, i);
	GIVES(0, pmx_send_wait(ctx, PATIENCE_US));
	GIVES(1, pmx_receive_wait(ctx, &held, PATIENCE_US));
	is_number(ctx, &held, 0);
	pmx_release_receive_buffer(ctx, &held);
	GIVES(1, pmx_receive_wait(ctx, &held, PATIENCE_US));
	is_number(ctx, &held, 1);
	say(fd, "there");
	at_line = __LINE__;
	if (awake) {
		/* while it ends: any call, at any moment of that */
		double until = now_s() + PATIENCE_US / 1e6;

		while (pmx_poll_event(ctx, &event) != -EPIPE)
			MUST(now_s() < until, "no -EPIPE");
	}
	hear(fd, "ended");
	until_gone(ctx);
	all_refuse_while_gone(ctx, number, &held, awake ? 10 : 200);
	GIVES(-ENOENT, pmx_reattach(node, 0));
	say(fd, "left");
	hear(fd, "begun");
	reattach();
	pmx_release_receive_buffer(ctx, &held);
	for (uint32_t i = 2; i < 5; i++)
		take_number(ctx, i);
	nothing_comes(ctx, 0);
	echo(ctx, number);
	struct pmx_context *more = opened(number + 1);

	all_works(ctx, number, more, number + 1);
	say(fd, "again");
	pmx_node_close(node);
}

static void
stops_under_a_secondary(bool awake)
{
	begin();
	struct child c = child(secondary_of_one_that_stops, 2 + (awake ? AWAKE : 0));

	hear(c.fd, "there");
	end(SIGTERM);
	if (!awake)
		sleep_ms(300);
	say(c.fd, "ended");
	hear(c.fd, "left");
	begin();
	say(c.fd, "begun");
	hear(c.fd, "again");
	ended_well(&c);
	end(SIGTERM);
}

void
stops_under_a_secondary_that_sleeps(void)
{
	stops_under_a_secondary(false);
}

void
stops_under_a_secondary_that_polls(void)
{
	stops_under_a_secondary(true);
}
