/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Plain messages of contexts that share memory (lib/client/plain.c), as pairs.sh runs them:
 *
 *   pairs plain-mix NAME SEED PAIRED  random messages of three contexts by all calls, held and
 *                                     released in any order: order and bytes checked
 *   pairs plain-turns NAME            a context that always has messages by the engine
 *   pairs plain-full NAME             a receiver that releases nothing, and one that is gone
 *   pairs plain-single NAME           a context with one send buffer
 *   pairs plain-stopped NAME          a context that is stopped, and goes on
 *   pairs plain-stream NAME           a stream, whatever the primary does, until a line comes
 *   pairs plain-sleep NAME            both sides sleep between messages
 *   pairs plain-killed NAME           a receiver is killed, and another takes its number
 *   pairs plain-forked NAME           a child of fork() takes nothing of its parent's
 *   pairs plain-apart NAME            processes of different PID namespaces
 *   pairs plain-hostile NAME SEED     one side writes what it must not
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/pairs.h"
#include "helpers.h"
#include "pairs.h"
#include "pmx/preempt.h"

#define CONTEXTS 3
#define STEPS    60000
#define HELD     24
#define LONGEST  60000
#define SENDS    32
#define SECOND   INT64_C(1000000)

static bool
has_come_aside(const struct pmx_context *ctx)
{
	for (const struct pair *p = ctx->pairs != NULL ? ctx->pairs->all : NULL; p != NULL;
		p = p->next) {
		if (p->flow[PAIR_PLAIN].in.pos != 0)
			return true;
	}
	return false;
}

static bool
goes_aside(const struct pmx_context *ctx, uint16_t to)
{
	const struct pair *p = ctx->pairs != NULL ? ctx->pairs->of[to].pair : NULL;

	return p != NULL && p->flow[PAIR_PLAIN].sends;
}

/* ------------------------------------------------------------------ mix */

static struct {
	struct pmx_context *ctx;
	uint64_t sent[CONTEXTS], came[CONTEXTS]; /* messages, by the other side */
	struct pmx_message held[HELD];
	uint64_t held_number[HELD];
	bool holds[HELD];
	pmx_send_id ids[SENDS];
	uint64_t events, told; /* that are to come, and came */
} of[CONTEXTS];

static uint64_t
mixed(unsigned from, unsigned to, uint64_t message)
{
	return mix64((message * CONTEXTS + from) * CONTEXTS + to + seed * 1000003);
}

static uint32_t
len_of(unsigned from, unsigned to, uint64_t message)
{
	const uint64_t x = mixed(from, to, message) >> 8, kind = x % 32, r = x / 32;

	return (uint32_t)(kind == 0 ? r % LONGEST
			: kind < 3  ? PAIR_MESSAGE - 4 + r % 8 /* around the longest by a pair */
			: kind < 8  ? r % 5000
				    : r % 120);
}

static uint8_t
byte_of(unsigned from, unsigned to, uint64_t message, uint64_t i)
{
	return (uint8_t)(mixed(from, to, message) + i * 7);
}

static uint8_t *
bytes_of(unsigned from, unsigned to, uint64_t message)
{
	static uint8_t bytes[4][LONGEST];
	uint8_t *at = bytes[message % 4];
	const uint32_t len = len_of(from, to, message);

	for (uint32_t i = 0; i < len; i++)
		at[i] = byte_of(from, to, message, i);
	return at;
}

static bool
is_no_room(int result)
{
	return result == -EAGAIN || result == -ENOBUFS;
}

static void
note_id(unsigned i, pmx_send_id id)
{
	of[i].ids[draw() % SENDS] = id + 1;
}

static int
send_buffer(unsigned i, unsigned k, bool asks, bool told)
{
	const uint64_t n = of[i].sent[k];
	const uint32_t len = len_of(i, k, n);
	const struct pmx_send_params params = {
		.size = sizeof(params),
		.flags = PMX_EVENT,
		.cookie = of[i].events,
	};
	struct pmx_buffer buf;
	pmx_send_id id;
	/* more than it needs, now and then */
	int result = pmx_get_send_buffer(of[i].ctx, len + (uint32_t)(draw() % 4 == 0 ? 100 : 0),
		&buf);

	if (result != 0)
		return result;
	must_succeed("pmx_truncate_buffer", pmx_truncate_buffer(of[i].ctx, &buf, len));
	pmx_buffer_write(of[i].ctx, &buf, 0, bytes_of(i, k, n), len);
	result = told ? pmx_send_with(of[i].ctx, addr((uint16_t)k), &buf, &params, &id)
		      : pmx_send(of[i].ctx, addr((uint16_t)k), &buf, asks ? &id : NULL);
	if (result != 0) {
		pmx_discard_buffer(of[i].ctx, &buf);
		return result;
	}
	of[i].events += told;
	if (asks)
		note_id(i, id);
	return 0;
}

/* A burst of up to three messages to k, and one to another. */
static int
send_burst(unsigned i, unsigned k)
{
	struct pmx_addr to[4];
	struct pmx_buffer bufs[4];
	pmx_send_id ids[4];
	unsigned whose[4], n = 0;
	uint64_t more[CONTEXTS] = {0};
	bool asks = draw() % 2;

	for (; n < 4; n++) {
		const unsigned t = n == 2 ? (k + 1) % CONTEXTS : k;
		const uint64_t message = of[i].sent[t] + more[t];
		const uint32_t len = len_of(i, t, message);

		if (pmx_get_send_buffer(of[i].ctx, len, &bufs[n]) != 0)
			break;
		pmx_buffer_write(of[i].ctx, &bufs[n], 0, bytes_of(i, t, message), len);
		to[n] = addr((uint16_t)t);
		whose[n] = t;
		more[t]++;
	}
	int result = n != 0 ? pmx_send_burst(of[i].ctx, to, bufs, asks ? ids : NULL, n) : -EAGAIN;

	for (int j = 0; j < result; j++) {
		of[i].sent[whose[j]]++;
		if (asks)
			note_id(i, ids[j]);
	}
	for (unsigned j = result > 0 ? (unsigned)result : 0; j < n; j++)
		pmx_discard_buffer(of[i].ctx, &bufs[j]);
	return result > 0 ? 1 : result;
}

static void
send_random(unsigned i, unsigned k)
{
	const uint64_t n = of[i].sent[k];
	const uint32_t len = len_of(i, k, n);
	uint8_t *bytes = bytes_of(i, k, n);
	const uint32_t cut = len != 0 ? (uint32_t)(draw() % len) : 0;
	const struct iovec pieces[2] = {{bytes, cut}, {bytes + cut, len - cut}};
	pmx_send_id id = 0;
	int result;

	switch (draw() % 7) {
	case 0:
		result = send_burst(i, k);
		break;
	case 1:
		result = send_buffer(i, k, false, false);
		break;
	case 2:
		result = send_buffer(i, k, true, false);
		break;
	case 3:
		result = send_buffer(i, k, false, true);
		break;
	case 4:
		result = pmx_sendv(of[i].ctx, addr((uint16_t)k), pieces, 2, NULL, &id);
		if (result == 0)
			note_id(i, id);
		break;
	case 5:
		result = pmx_send_copy(of[i].ctx, addr((uint16_t)k), bytes, len, &id);
		if (result == 0)
			note_id(i, id);
		break;
	default:
		result = pmx_send_copy(of[i].ctx, addr((uint16_t)k), bytes, len, NULL);
	}
	if (result == 0)
		of[i].sent[k]++;
	else if (result < 0 && !is_no_room(result))
		die_of("a send", result);
}

static void
check_bytes(unsigned to, const struct pmx_message *m, uint64_t number)
{
	static uint8_t bytes[LONGEST];
	const unsigned from = m->source.context;

	must_succeed("pmx_message_read", pmx_message_read(of[to].ctx, m, 0, bytes, m->len));
	for (uint32_t b = 0; b < m->len; b++) {
		if (bytes[b] != byte_of(from, to, number, b))
			die("byte %u of message %lu (%u bytes) from %u to %u is wrong", b, number,
				m->len, from, to);
	}
}

static void
release(unsigned i, unsigned place)
{
	check_bytes(i, &of[i].held[place], of[i].held_number[place]);
	pmx_release_receive_buffer(of[i].ctx, &of[i].held[place]);
	of[i].holds[place] = false;
}

/* Takes up to four messages, and holds them for some time. */
static void
receive(unsigned i)
{
	struct pmx_message got[4];
	const unsigned most = 1 + (unsigned)(draw() % 4);
	int n = most == 1 ? pmx_receive(of[i].ctx, got) : pmx_receive_burst(of[i].ctx, got, most);

	if (n < 0)
		die_of("pmx_receive", n);
	for (int j = 0; j < n; j++) {
		const unsigned from = got[j].source.context, place = (unsigned)(draw() % HELD);

		if (got[j].source.node != pmx_node_number(node) || from >= CONTEXTS ||
			of[i].came[from] >= of[from].sent[i])
			die("%u received a message that %u had not sent", i, from);
		const uint64_t number = of[i].came[from]++;

		if (got[j].len != len_of(from, i, number))
			die("message %lu from %u to %u came with %u bytes instead of %u", number,
				from, i, got[j].len, len_of(from, i, number));
		check_bytes(i, &got[j], number);
		if (of[i].holds[place])
			release(i, place);
		of[i].held[place] = got[j];
		/* of a copy, pmx_message_data() is to be used: `data` is the original's */
		of[i].held_number[place] = number;
		of[i].holds[place] = true;
	}
	for (unsigned j = 0; j < 4; j++) {
		const unsigned place = (unsigned)(draw() % HELD);

		if (of[i].holds[place])
			release(i, place);
	}
}

static void
look_at_sends(unsigned i)
{
	struct pmx_event event;
	const unsigned place = (unsigned)(draw() % SENDS);

	while (pmx_poll_event(of[i].ctx, &event) == 1) {
		if (event.kind != PMX_EVENT_SENT || event.error != 0)
			die("event %d with error %d", event.kind, event.error);
		of[i].told++;
	}
	if (of[i].ids[place] == 0)
		return;
	int result = pmx_is_send_done(of[i].ctx, of[i].ids[place] - 1);

	if (result < 0)
		die_of("pmx_is_send_done", result);
	if (result == 1)
		of[i].ids[place] = 0;
}

static bool
is_over(void)
{
	bool over = true;

	for (unsigned i = 0; i < CONTEXTS; i++) {
		for (unsigned k = 0; k < CONTEXTS; k++)
			over &= of[i].came[k] == of[k].sent[i];
		for (unsigned j = 0; j < SENDS; j++)
			over &= of[i].ids[j] == 0;
		over &= of[i].told == of[i].events;
	}
	return over;
}

static void
mix(bool by_pairs)
{
	uint64_t all = 0, sent = 0;

	for (unsigned i = 0; i < CONTEXTS; i++)
		of[i].ctx = open_context((uint16_t)i);
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)(draw() % CONTEXTS), k = (unsigned)(draw() % CONTEXTS);
		/* for some time much more is sent than received, then the other way round */
		const bool sends = draw() % 8 < (step / 2000 % 2 ? 6 : 3);

		if (sends)
			send_random(i, k); /* also to itself */
		else
			receive(i);
		look_at_sends(i);
	}
	for (int64_t until = now_us() + 60 * SECOND; !is_over();) {
		for (unsigned i = 0; i < CONTEXTS; i++) {
			receive(i);
			look_at_sends(i);
		}
		if (now_us() > until)
			die("not all has come within 60 s");
	}
	for (unsigned i = 0; i < CONTEXTS; i++) {
		struct pmx_context_stat stat;

		pmx_context_read_stat(of[i].ctx, &stat);
		for (unsigned k = 0; k < CONTEXTS; k++) {
			all += of[i].came[k];
			sent += of[i].sent[k];
		}
		if (stat.sent != sent || stat.send_errors != 0)
			die("%u counts %lu messages and %lu errors, and has sent %lu", i, stat.sent,
				stat.send_errors, sent);
		sent = 0;
		if (has_come_aside(of[i].ctx) != by_pairs)
			die("%u received by shared memory: %d", i, !by_pairs);
	}
	printf("# %lu messages\n", all);
}

/* ------------------------------------------------------------------ turns and room */

/* Sends one word, however long there is no room, and receives at `ctx` meanwhile if it is given. */
static void
send_word(struct pmx_context *ctx, uint16_t to, uint64_t word)
{
	const int64_t until = now_us() + 30 * SECOND;
	int result;

	while (is_no_room(result = pmx_send_copy(ctx, addr(to), &word, sizeof(word), NULL))) {
		pmx_progress(ctx);
		if (now_us() > until)
			die("no room for a message within 30 s");
	}
	must_succeed("pmx_send_copy", result);
}

static uint64_t
word_of(struct pmx_context *ctx, struct pmx_message *m)
{
	uint64_t word = 0;

	pmx_message_read(ctx, m, 0, &word, sizeof(word));
	pmx_release_receive_buffer(ctx, m);
	return word;
}

/* Sends from a to b, which receives all of it, until that goes by shared memory. */
static void
join(struct pmx_context *a, uint16_t from, struct pmx_context *b, uint16_t to)
{
	const int64_t until = now_us() + 30 * SECOND;
	struct pmx_message m;
	uint64_t sent = 0, came = 0;

	while (!goes_aside(a, to) || came < sent) {
		if (!goes_aside(a, to))
			send_word(a, to, sent++);
		while (pmx_receive(b, &m) == 1) {
			const uint64_t word = word_of(b, &m);

			if (m.source.context != from || word != came++)
				die("message %lu came in place of %lu", word, came - 1);
		}
		if (now_us() > until)
			die("no shared memory within 30 s");
	}
}

/* A context sends to itself, by the engine, as fast as it receives; what another sends by shared
 * memory must have its turn. */
static void
turns(void)
{
	struct pmx_context *a = open_context(0), *b = open_context(1);
	const int64_t until = now_us() + 60 * SECOND;
	uint64_t word = 0, own = 0, came = 0;
	struct pmx_message m;

	join(a, 0, b, 1);
	for (unsigned i = 0; i < 16; i++)
		send_word(a, 1, i);
	while (came < 16) {
		/* at least two by the engine wait whenever it receives */
		while (own < 2 || lhs_peek(&b->lhs) == NULL) {
			if (pmx_send_copy(b, addr(1), &word, sizeof(word), NULL) == 0)
				own++;
			pmx_progress(b);
		}
		if (pmx_receive(b, &m) == 1) {
			if (m.source.context == 1)
				own--;
			else if (word_of(b, &m) != came++)
				die("message %lu came too early", came - 1);
		}
		if (now_us() > until)
			die("messages by shared memory wait for those by the engine");
	}
}

/* A context that releases nothing gets no more messages than it has places, and the others later.
 * One that closes is noticed. */
static void
full(void)
{
	struct pmx_context *a = open_context(0), *b = open_context(1);
	struct pmx_message *held = must(calloc(2 * buffers, sizeof(*held)));
	uint8_t bytes[1000] = {0};
	uint64_t sent = 0, came = 0;
	int result = 0;

	join(a, 0, b, 1);
	for (bool more = true; more;) {
		more = pmx_receive(b, &held[came]) == 1;
		came += more;
		memset(bytes, (int)sent, sizeof(bytes));
		result = sent < 2 * buffers ? pmx_send_copy(a, addr(1), bytes, sizeof(bytes), NULL)
					    : -EAGAIN;
		more |= result == 0;
		sent += result == 0;
		if (!is_no_room(result) && result != 0)
			die_of("pmx_send_copy", result);
	}
	if (pmx_before_select(b) != 0)
		die("it cannot sleep though it can receive nothing");
	pmx_after_select(b);
	if (came != buffers)
		die("%lu messages were received without a release, by %u places", came, buffers);
	while (came < sent) {
		const uint64_t first = came - buffers;
		const uint8_t *data = pmx_message_data(&held[first]);

		if (data[0] != (uint8_t)first || data[999] != (uint8_t)first)
			die("message %lu was written over while it was held", first);
		pmx_release_receive_buffer(b, &held[first]);
		pmx_release_receive_buffer(b, &held[first]); /* harms nobody */
		if (pmx_receive(b, &held[came]) != 1)
			die("a place was released, and message %lu is not received", came);
		came++;
	}
	pmx_context_close(b);
	for (unsigned i = 0; i < 10000 && goes_aside(a, 1); i++)
		pmx_send_copy(a, addr(1), bytes, 8, NULL);
	if (goes_aside(a, 1))
		die("messages go to a context that is closed");
	free(held);
}

/* A context that is stopped sends and receives nothing by pairs either, and later goes on where it
 * was; it sleeps meanwhile. */
static void
stopped(void)
{
	struct pmx_context *a = open_context(0), *b = open_context(1);
	uint64_t word = 77, got = 0;
	const struct pmx_matched out = {.peer = addr(1), .data = &word, .len = sizeof(word)};
	const struct pmx_matched in = {.peer = addr(0), .data = &got, .len = sizeof(got)};
	pmx_request request;
	struct pmx_message m;

	join(a, 0, b, 1);
	join(b, 1, a, 0);
	for (unsigned i = 0; i < 2; i++) { /* the first is the mark's */
		must_succeed("pmx_irecv", pmx_irecv(b, &in, &request));
		must_succeed("pmx_isend", pmx_isend(a, &out, NULL));
		must_succeed("pmx_wait", pmx_wait(b, &request, NULL, 30 * SECOND));
	}
	if (!a->pairs->of[1].pair->flow[PAIR_MATCHED].sends)
		die("matched messages go by the engine");
	must_succeed("pmx_irecv", pmx_irecv(b, &in, &request));
	if (pmx_before_select(b) == 0) /* requests that ended are told now, and not below */
		pmx_after_select(b);
	send_word(a, 1, 0);
	must_succeed("pmx_context_stop", pmx_context_stop(b));
	must_succeed("pmx_isend", pmx_isend(a, &out, NULL));
	for (unsigned i = 1; i < 100; i++)
		send_word(a, 1, i);
	for (unsigned i = 0; i < 1000; i++) {
		if (pmx_receive(b, &m) != 0)
			die("a context that is stopped receives");
		int result = pmx_send_copy(b, addr(0), &word, sizeof(word), NULL);

		if (result != -EAGAIN)
			die_of("a send of a context that is stopped", result);
		if (pmx_test(b, &request, NULL) != 0)
			die("a context that is stopped receives a matched message");
	}
	if (pmx_before_select(b) != 0)
		die("a context that is stopped does not sleep");
	pmx_after_select(b);
	if (pmx_receive(a, &m) != 0)
		die("a context that is stopped has sent");
	must_succeed("pmx_context_start", pmx_context_start(b));
	for (unsigned i = 0; i < 100; i++) {
		if (pmx_receive_wait(b, &m, 30 * SECOND) != 1 || word_of(b, &m) != i)
			die("message %u did not come when the context went on", i);
	}
	must_succeed("pmx_wait", pmx_wait(b, &request, NULL, 30 * SECOND));
	send_word(b, 0, 7);
	if (pmx_receive_wait(a, &m, 30 * SECOND) != 1 || word_of(a, &m) != 7 || !goes_aside(b, 0))
		die("the context does not go on");
}

/* A context with a single send buffer, which the mark takes. */
static void
single(void)
{
	const int64_t until = now_us() + 30 * SECOND;
	uint64_t sent = 0, came = 0, aside = 0;
	struct pmx_message m;

	buffers = 1;
	struct pmx_context *a = open_context(0);

	buffers = 128;
	struct pmx_context *b = open_context(1);

	while (aside < 100 || came < sent) {
		pmx_send_id id;
		int result = aside < 100
			? pmx_send_copy(a, addr(1), &sent, sizeof(sent), sent % 2 ? &id : NULL)
			: -EAGAIN;

		if (result == 0) {
			sent++;
			aside += goes_aside(a, 1);
		} else if (!is_no_room(result)) {
			die_of("pmx_send_copy", result);
		}
		pmx_progress(a);
		while (pmx_receive(b, &m) == 1) {
			if (word_of(b, &m) != came++)
				die("message %lu is out of order", came - 1);
		}
		if (now_us() > until)
			die("not all has come within 30 s");
	}
}

/* ------------------------------------------------------------------ processes */

static void
stream_in(void)
{
	struct pmx_context *ctx = open_context(1);
	bool said = false;

	for (uint64_t next = 0;; next++) {
		struct pmx_message m;
		int result;

		while ((result = pmx_receive_wait(ctx, &m, -1)) != 1)
			go_on(result);
		const uint32_t len = m.len;
		const uint64_t word = word_of(ctx, &m);

		if (word == UINT64_MAX)
			break;
		if (word != next || len != 8 + len_of(0, 1, next))
			die("message %lu (%u bytes) came in place of %lu", word, len, next);
		if (!said && has_come_aside(ctx))
			printf("paired\n");
		said |= has_come_aside(ctx);
		fflush(stdout);
	}
	if (!said)
		die("nothing came by shared memory");
	pmx_context_close(ctx);
}

static void
stream_out(pid_t receiver)
{
	static uint8_t bytes[8 + LONGEST];
	struct pmx_context *ctx = open_context(0);
	uint64_t n = 0, last = UINT64_MAX - 1;
	int result;

	wait_for(1, receiver);
	for (; n <= last; n++) {
		const uint64_t word = n < last ? n : UINT64_MAX;

		if (last == UINT64_MAX - 1 && n % 64 == 0 && line_waits())
			last = n + 1000; /* as many show that it goes on after what happened */
		memcpy(bytes, &word, sizeof(word));
		while ((result = pmx_send_copy(ctx, addr(1), bytes, 8 + len_of(0, 1, n), NULL)) !=
			0) {
			if (!is_no_room(result))
				go_on(result);
			pmx_progress(ctx);
		}
		/* what an engine has when it dies is lost: the first messages are few */
		if (n < 100)
			usleep(2000);
	}
	printf("# %lu messages\n", n);
	usleep(200000);
	pmx_context_close(ctx);
}

static void
stream(void)
{
	in_two(stream_in, stream_out);
}

static void
sleep_both(void)
{
	pid_t pid = child();
	struct pmx_context *ctx = open_context(pid == 0);
	const uint16_t other = pid != 0;
	struct pmx_message m;

	wait_for(other, pid == 0 ? getppid() : pid);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		usleep(1000);
		if (pid != 0)
			send_word(ctx, other, i);
		if (pmx_receive_wait(ctx, &m, 30 * SECOND) != 1 || word_of(ctx, &m) != i)
			die("message %lu did not come", i);
		usleep(1000);
		if (pid == 0)
			send_word(ctx, other, i);
	}
	check_sleeps();
	if (!has_come_aside(ctx))
		die("nothing came by shared memory");
	if (pid == 0)
		exit(0);
	reap(pid);
}

/* Receives until a 7 comes. */
static void
drain(void)
{
	struct pmx_context *ctx = open_context(1);
	struct pmx_message m;

	do
		must_succeed("pmx_receive_wait",
			pmx_receive_wait(ctx, &m, -1) == 1 ? 0 : -ETIMEDOUT);
	while (word_of(ctx, &m) != 7);
	pmx_context_close(ctx);
	exit(0);
}

/* Send to that context, which may not be open yet, until that goes by shared memory. */
static void
send_until_aside(struct pmx_context *ctx, uint16_t to)
{
	const int64_t until = now_us() + 30 * SECOND;

	while (!goes_aside(ctx, to)) {
		send_word(ctx, to, 1);
		usleep(100);
		if (now_us() > until)
			die("no shared memory within 30 s");
	}
}

static void
killed(void)
{
	pid_t pid = child();
	int result = 0;

	if (pid == 0)
		drain();
	struct pmx_context *ctx = open_context(0);
	const int64_t until = now_us() + 60 * SECOND;
	uint64_t word = 1;
	pmx_send_id id;

	send_until_aside(ctx, 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	while (result == 0) {
		result = pmx_send_copy(ctx, addr(1), &word, sizeof(word), &id);
		while (result == 0 && (result = pmx_is_send_done(ctx, id)) == 0)
			pmx_progress(ctx);
		result = result == 1 || is_no_room(result) ? 0 : result;
		if (now_us() > until)
			die("sends to a killed process go on without an error");
	}
	if (result != -ECONNREFUSED && result != -ECONNRESET)
		die_of("a send to a killed process", result);
	pid = child();
	if (pid == 0) {
		node = NULL;
		drain();
	}
	send_until_aside(ctx, 1);
	send_word(ctx, 1, 7);
	reap(pid);
}

/* Two processes that do not see each other's number, so only one could read the other's memory. */
static void
apart(void)
{
	pid_t pid = child();
	uint64_t words[1000] = {1}, word = 0;

	if (pid == 0) {
		if (unshare(CLONE_NEWPID) != 0)
			die("unshare: %s", strerror(errno));
		pid = child();
		if (pid == 0)
			drain();
		reap(pid);
		exit(0);
	}
	struct pmx_context *ctx = open_context(0);
	const struct pmx_matched m = {.peer = addr(1), .data = &word, .len = sizeof(word)};

	send_until_aside(ctx, 1);
	for (unsigned i = 0; i < 200; i++) {
		int result;

		while (is_no_room(result = pmx_send_copy(ctx, addr(1), words, sizeof(words), NULL)))
			pmx_progress(ctx);
		must_succeed("pmx_send_copy", result);
		pmx_isend(ctx, &m, NULL);
	}
	if (!goes_aside(ctx, 1) || ctx->pairs->of[1].pair->flow[PAIR_MATCHED].sends)
		die("matched messages go to who could not fetch them, or plain ones do not");
	send_word(ctx, 1, 7);
	reap(pid);
}

/* A child has its parent's contexts in its memory; it must neither take nor send by them. */
static void
forked(void)
{
	struct pmx_context *a = open_context(0), *b = open_context(1);
	uint64_t word = 5;
	struct pmx_message m;

	uint8_t bytes[5000];
	struct pmx_message held;

	join(a, 0, b, 1);
	memset(bytes, 1, sizeof(bytes));
	must_succeed("pmx_send_copy", pmx_send_copy(a, addr(1), bytes, sizeof(bytes), NULL));
	if (pmx_receive(b, &held) != 1 || held.len != sizeof(bytes))
		die("no long message");
	send_word(a, 1, 1);
	send_word(a, 1, 2);
	pid_t pid = child();

	if (pid == 0) {
		int in = pmx_receive(b, &m);
		int out = pmx_send_copy(a, addr(1), &word, sizeof(word), NULL);

		if (in != -EPIPE || out != -EPIPE)
			die("a child receives with %d and sends with %d", in, out);
		if (memcmp(pmx_message_data(&held), bytes, sizeof(bytes)) != 0)
			die("a child does not read what its parent had received");
		pmx_release_receive_buffer(b, &held);
		pmx_context_close(a);
		pmx_context_close(b);
		exit(0);
	}
	reap(pid);
	for (word = 1; word <= 2; word++) {
		if (pmx_receive(b, &m) != 1 || word_of(b, &m) != word)
			die("a child took message %lu", word);
	}
	if (pmx_receive(b, &m) != 0)
		die("a child sent a message");
	send_word(a, 1, 3);
	if (!goes_aside(a, 1) || pmx_receive(b, &m) != 1 || word_of(b, &m) != 3)
		die("the parent's pair does not go on");
	/* the child gave nothing back */
	memset(bytes, 2, sizeof(bytes));
	for (unsigned i = 0; i < PAIR_LONGS; i++) {
		must_succeed("pmx_send_copy",
			pmx_send_copy(a, addr(1), bytes, sizeof(bytes), NULL));
		if (pmx_receive(b, &m) != 1 || m.len != sizeof(bytes))
			die("long message %u did not come", i);
		pmx_release_receive_buffer(b, &m);
	}
	memset(bytes, 1, sizeof(bytes));
	if (memcmp(pmx_message_data(&held), bytes, sizeof(bytes)) != 0)
		die("a message was written over while the parent held it");
}

/* Writes records with any word, then random bytes, into what it shares. */
static void
attack(void)
{
	struct pmx_context *ctx = open_context(1);

	send_until_aside(ctx, 0);
	struct pair *p = ctx->pairs->of[0].pair;
	uint8_t *bytes = (uint8_t *)p->shm;

	for (unsigned i = 0; i < 3000000; i++) {
		const uint64_t at = draw() % (sizeof(*p->shm) / 8);
		const uint32_t len = draw() % 8 == 0 ? PAIR_LONG : (uint32_t)(draw() % 200);
		/* words that are nearly right do more harm than others */
		const uint64_t value = draw() % 2 ? draw() : PAIR_WORD(64 * (draw() % 5), len);

		memcpy(bytes + 8 * at, &value, 8);
		if (i % 1000 == 0)
			pair_tell(p);
	}
	_exit(0);
}

static void
hostile(void)
{
	pid_t pid = child();

	if (pid == 0)
		attack();
	struct pmx_context *victim = open_context(0), *friend = open_context(2);
	uint64_t next = 0, word = 0;
	int status = 0;
	bool over = false;

	for (const int64_t until = now_us() + 30 * SECOND; !over || next < 1000;) {
		struct pmx_message m;
		/* without waiting for room: its receiver is this thread */
		int result = pmx_send_copy(friend, addr(0), &word, sizeof(word), NULL);

		word += result == 0;
		if (result != 0 && !is_no_room(result))
			die_of("pmx_send_copy", result);
		while ((result = pmx_receive(victim, &m)) == 1) {
			const uint16_t from = m.source.context;
			const uint64_t got = word_of(victim, &m);

			if (from == 2 && got != next++)
				die("message %lu of another came in place of %lu", got, next - 1);
		}
		if (result < 0)
			die_of("pmx_receive", result);
		over = over || waitpid(pid, &status, WNOHANG) == pid;
		if (now_us() > until)
			die("the other process did not end, or its victim does not go on");
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		die("the attacker failed");
	printf("# %lu messages of another meanwhile\n", next);
}

bool
plain(const char *name, int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {{"turns", turns}, {"full", full}, {"single", single}, {"stopped", stopped},
		{"stream", stream}, {"sleep", sleep_both}, {"killed", killed}, {"forked", forked},
		{"apart", apart}, {"hostile", hostile}};

	buffers = 128;
	if (strcmp(name, "mix") == 0 && argc == 2) {
		mix(atoi(argv[1]) != 0);
		return true;
	}
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(name, cases[i].name) == 0) {
			cases[i].run();
			return true;
		}
	}
	return false;
}
