/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Usage: pair_histories COUNT [SEED]
 * Random histories of contexts of one node whose messages to each other go by the engine and, from
 * some time on, by memory that both map (lib/client/pairs.h). Contexts open, close, vanish as if
 * their process was killed, and are stopped and let go on; they send plain and matched messages of
 * all lengths, and hold what they received. An embedded node and all contexts run in this thread,
 * and what a primary does for pairs is done here, so a seed gives the same history again. Checked:
 * between two contexts that live, each message comes once, whole and in order, however the way of
 * them changes; of one that has ended, what comes is in order and never after its successor's.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/client.h"
#include "client/pairs.h"
#include "engine/contexts.h"
#include "helpers.h"
#include "match/client/match.h"
#include "node/node.h"

#define CONTEXTS   3
#define STEPS      240
#define HELD       12
#define POSTED     12
#define SENDS      12
#define PLAIN_MOST 20000 /* bytes */
#define LONGEST    90000 /* ... of a matched message: above PAIR_EAGER, so it is offered */
#define RECORDS    4096  /* receives of a life */
#define DRAIN_US   20000000

/* Begins each message. */
struct head {
	uint32_t from_life, to_life, number, zero;
};

/* The message of one context that has to come next. */
struct came {
	uint32_t from_life, to_life, next;
};

static struct of {
	struct pmx_context *ctx; /* NULL: closed */
	uint32_t life;
	bool stopped;
	uint32_t sent[PAIR_KINDS][CONTEXTS]; /* messages of this life to that life of the other */
	struct came came[PAIR_KINDS][CONTEXTS];
	struct pmx_message held[HELD];
	struct head heads[HELD];
	bool holds[HELD];
	uint64_t plain_paired; /* plain messages that came by pairs, by the context's own count */
	/* matched: receives, of any source, by their order, and sends */
	struct record {
		struct head head;
		uint8_t from;
		bool done;
	} records[RECORDS];
	uint32_t posts, looked; /* receives: posted, and judged */
	pmx_request posted[POSTED];
	uint32_t order[POSTED];
	uint8_t *to[POSTED];
	pmx_request sends[SENDS];
	uint8_t *from[SENDS];
} of[CONTEXTS];

/* Bytes that were offered by those that have vanished stay until the history's end: in a process
 * that was killed it could not be read any more, which a look at the process shows, but here it
 * can. */
static void *old[STEPS * SENDS];
static unsigned olds;

static struct pmx_node *node;
static struct way way;
static uint64_t history, paired, sent_in_all, pairs_made;

/* ------------------------------------------------------------------ the primary's part */

static struct asked {
	bool used;
	uint16_t from, to;
	uint32_t from_life, to_life;
	int socket;
} asked[CONTEXTS * CONTEXTS];

static bool
is_life(uint16_t ctx, uint32_t life)
{
	return of[ctx].ctx != NULL && of[ctx].life == life;
}

/* Answer as pair_for() of lib/primary/attach.c does. */
static int
introduce(struct pmx_node *n, const struct attach_request *request, int give,
	struct attach_reply *reply, int *fds)
{
	const uint16_t ctx = request->ctx, peer = (uint16_t)request->addr;
	struct asked *free = NULL;
	int ends[2];

	(void)n;
	(void)give;
	*reply = (struct attach_reply){.pid = getpid()};
	for (struct asked *w = asked; w < asked + CONTEXTS * CONTEXTS; w++) {
		if (w->used &&
			!(is_life(w->from, w->from_life) && is_life(w->to, w->to_life) &&
				!(w->from == ctx && w->to == peer && request->addr != PAIR_ANY))) {
			close(w->socket);
			w->used = false;
		}
		if (!w->used)
			free = w;
	}
	for (struct asked *w = asked; w < asked + CONTEXTS * CONTEXTS; w++) {
		if (!w->used || w->to != ctx || (request->addr != PAIR_ANY && w->from != peer))
			continue;
		w->used = false;
		fds[0] = w->socket;
		reply->ctx = w->from;
		reply->memory = 1;
		pairs_made++;
		return 0;
	}
	if (request->addr == PAIR_ANY || of[peer].ctx == NULL)
		return -ENOENT;
	if (draw() % 16 == 0)
		return -EAGAIN;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
		die("socketpair: %s", strerror(errno));
	*free = (struct asked){true, ctx, peer, of[ctx].life, of[peer].life, ends[1]};
	fds[0] = ends[0];
	reply->ctx = peer;
	atomic_fetch_add(&of[peer].ctx->shm->pairs_asked, 1);
	return 0;
}

/* Leave the context, which the engine frees when what it sent is delivered: that may be after
 * others have received, so it is not waited for. */
static void
leave(struct pmx_context *ctx)
{
	struct command cmd = {.op = COMMAND_CLOSE, .ctx = ctx->ctx, .generation = ctx->generation};

	must_succeed("COMMAND_CLOSE", node_command(ctx->node->embedded, &cmd, false));
}

/* ------------------------------------------------------------------ messages */

static struct pmx_addr
addr(unsigned ctx)
{
	return (struct pmx_addr){pmx_node_number(node), (uint16_t)ctx};
}

static uint8_t
byte_of(const struct head *h, unsigned from, unsigned to, uint64_t i)
{
	return (uint8_t)(mix64(((uint64_t)h->from_life << 32 | h->number) + from * 8 + to) + i * 7);
}

static void
fill(uint8_t *at, const struct head *h, unsigned from, unsigned to, uint64_t len)
{
	memcpy(at, h, sizeof(*h));
	for (uint64_t i = sizeof(*h); i < len; i++)
		at[i] = byte_of(h, from, to, i);
}

static void
check_bytes(const uint8_t *at, const struct head *h, unsigned from, unsigned to, uint64_t len)
{
	for (uint64_t i = sizeof(*h); i < len; i++) {
		if (at[i] != byte_of(h, from, to, i))
			die("history %lu: byte %lu of %lu of message %u from %u to %u is wrong",
				history, i, len, h->number, from, to);
	}
}

static uint32_t
draw_len(enum pair_kind kind)
{
	const uint64_t what = draw() % 16;
	const uint32_t most = what == 0 ? (kind == PAIR_PLAIN ? PLAIN_MOST : LONGEST)
		: what < 3              ? 4000
		: what < 5              ? PAIR_SHORT + 8
					: 100;

	return (uint32_t)sizeof(struct head) + (uint32_t)(draw() % (most - sizeof(struct head)));
}

/* Judge a message that comes next to `to` in its kind. */
static void
judge(unsigned to, unsigned from, enum pair_kind kind, const struct head *h)
{
	struct came *c = &of[to].came[kind][from];
	const bool alive = is_life((uint16_t)from, h->from_life);

	if (h->from_life > of[from].life || h->to_life > of[to].life)
		die("history %lu: %u received what %u had not sent", history, to, from);
	if (h->from_life < c->from_life ||
		(h->from_life == c->from_life && h->to_life < c->to_life))
		die("history %lu: from %u to %u, %s message %u of lives %u and %u came after one "
		    "of lives %u and %u",
			history, from, to, kind == PAIR_PLAIN ? "plain" : "matched", h->number,
			h->from_life, h->to_life, c->from_life, c->to_life);
	if (h->from_life != c->from_life || h->to_life != c->to_life)
		*c = (struct came){h->from_life, h->to_life, 0};
	if (h->number < c->next || (alive && h->to_life == of[to].life && h->number != c->next))
		die("history %lu: from %u to %u, %s message %u of lives %u and %u came in the "
		    "place of %u",
			history, from, to, kind == PAIR_PLAIN ? "plain" : "matched", h->number,
			h->from_life, h->to_life, c->next);
	c->next = h->number + 1;
}

/* Count a send of i to k, or bear that there was no room for it. */
static void
note_sent(unsigned i, unsigned k, enum pair_kind kind, int result)
{
	if (result != 0 && result != -EAGAIN && result != -ENOBUFS)
		die_of(kind == PAIR_PLAIN ? "a send" : "pmx_isend", result);
	of[i].sent[kind][k] += result == 0;
	sent_in_all += result == 0;
}

/* ------------------------------------------------------------------ plain */

static void
send_plain(unsigned i, unsigned k)
{
	static uint8_t bytes[PLAIN_MOST];
	const struct head h = {of[i].life, of[k].life, of[i].sent[PAIR_PLAIN][k], 0};
	const uint32_t len = draw_len(PAIR_PLAIN);
	struct pmx_buffer buf;
	int result;

	fill(bytes, &h, i, k, len);
	if (draw() % 2) {
		result = pmx_send_copy(of[i].ctx, addr(k), bytes, len, NULL);
	} else {
		result = pmx_get_send_buffer(of[i].ctx, len, &buf);
		if (result == 0) {
			pmx_buffer_write(of[i].ctx, &buf, 0, bytes, len);
			result = pmx_send(of[i].ctx, addr(k), &buf, NULL);
			if (result != 0)
				pmx_discard_buffer(of[i].ctx, &buf);
		}
	}
	note_sent(i, k, PAIR_PLAIN, result);
}

static void
release(unsigned i, unsigned place)
{
	static uint8_t bytes[PLAIN_MOST];
	struct pmx_message *m = &of[i].held[place];

	if (!of[i].holds[place])
		return;
	must_succeed("pmx_message_read", pmx_message_read(of[i].ctx, m, 0, bytes, m->len));
	check_bytes(bytes, &of[i].heads[place], m->source.context, i, m->len);
	pmx_release_receive_buffer(of[i].ctx, m);
	of[i].holds[place] = false;
}

static void
receive_plain(unsigned i)
{
	struct pmx_message got[4];
	const uint64_t before = of[i].ctx->shm->paired.received;
	int n = pmx_receive_burst(of[i].ctx, got, 1 + (unsigned)(draw() % 4));

	of[i].plain_paired += of[i].ctx->shm->paired.received - before;

	if (n < 0)
		die_of("pmx_receive_burst", n);
	for (int j = 0; j < n; j++) {
		const unsigned place = (unsigned)(draw() % HELD);
		struct head h;

		must_succeed("pmx_message_read",
			pmx_message_read(of[i].ctx, &got[j], 0, &h, sizeof(h)));
		judge(i, got[j].source.context, PAIR_PLAIN, &h);
		release(i, place);
		of[i].held[place] = got[j];
		of[i].heads[place] = h;
		of[i].holds[place] = true;
	}
	release(i, (unsigned)(draw() % HELD));
}

/* ------------------------------------------------------------------ matched */

static void
send_matched(unsigned i, unsigned k)
{
	const struct head h = {of[i].life, of[k].life, of[i].sent[PAIR_MATCHED][k], 0};
	const unsigned place = (unsigned)(draw() % SENDS);
	const uint32_t len = draw_len(PAIR_MATCHED);

	if (of[i].sends[place] != 0 && pmx_test(of[i].ctx, &of[i].sends[place], NULL) == 0)
		return;
	fill(of[i].from[place], &h, i, k, len);
	struct pmx_matched m = {
		.peer = addr(k),
		.tag = h.number,
		.flags = draw() % 4 ? 0 : PMX_DELIVERED,
		.data = of[i].from[place],
		.len = len,
	};

	note_sent(i, k, PAIR_MATCHED, pmx_isend(of[i].ctx, &m, &of[i].sends[place]));
}

/* Judge those receives that have ended and before which all have: receives of any source take
 * messages in the order in which they were posted. */
static void
judge_matched(unsigned i)
{
	for (; of[i].looked < of[i].posts; of[i].looked++) {
		const struct record *r = &of[i].records[of[i].looked % RECORDS];

		if (!r->done)
			return;
		if (r->from < CONTEXTS)
			judge(i, r->from, PAIR_MATCHED, &r->head);
	}
}

static void
receive_matched(unsigned i)
{
	struct of *x = &of[i];

	for (unsigned k = 0; k < POSTED; k++) {
		struct pmx_status s = {0};
		int result = x->posted[k] != 0 ? pmx_test(x->ctx, &x->posted[k], &s) : 0;

		if (result != 0) {
			struct record *r = &x->records[x->order[k] % RECORDS];

			/* the sender has ended before its bytes were fetched */
			*r = (struct record){.from = CONTEXTS, .done = true};
			if (result == 1) {
				r->from = (uint8_t)s.source.context;
				memcpy(&r->head, x->to[k], sizeof(r->head));
				check_bytes(x->to[k], &r->head, r->from, i, s.len);
			} else if (result != -ECONNRESET && result != -ECONNREFUSED) {
				die_of("a receive", result);
			}
			x->posted[k] = 0;
		}
		if (x->posted[k] != 0 || draw() % 2 || x->posts - x->looked >= RECORDS)
			continue;
		struct pmx_matched m = {
			.peer = PMX_ANY_SOURCE,
			.ignore = PMX_ANY_TAG,
			.data = x->to[k],
			.len = LONGEST,
		};

		result = pmx_irecv(x->ctx, &m, &x->posted[k]);
		if (result == 0) {
			x->order[k] = x->posts++;
			x->records[x->order[k] % RECORDS].done = false;
		} else if (result != -EAGAIN) {
			die_of("pmx_irecv", result);
		}
	}
	judge_matched(i);
}

/* ------------------------------------------------------------------ life */

/* Have a context look now, and ask for pairs sooner than after the first 32 messages. */
static void
look_now(unsigned i)
{
	if (of[i].ctx == NULL || of[i].ctx->pairs == NULL)
		return;
	for (unsigned k = 0; k < CONTEXTS; k++)
		of[i].ctx->pairs->of[k].left = (uint16_t)RTE_MIN(of[i].ctx->pairs->of[k].left,
			draw() % 16);
	of[i].ctx->pairs->turns = UINT16_MAX;
	of[i].ctx->pairs->looked_at = 0;
	of[i].ctx->pairs->ask_at = 0;
	pairs_look(of[i].ctx);
}

static void
stop(unsigned i, bool stops)
{
	bool settled;

	if (of[i].ctx == NULL || of[i].stopped == stops)
		return;
	must_succeed("way.stop",
		way.stop(of[i].ctx, 0, stops ? ATTACH_STOP_STOP : ATTACH_STOP_START, &settled));
	of[i].stopped = stops;
}

static void
open_one(unsigned i)
{
	struct of *x = &of[i];

	if (x->ctx != NULL)
		return;
	int result = pmx_context_open(&x->ctx, node, i, NULL);

	if (result == -EBUSY) /* what it sent before is still under way */
		return;
	must_succeed("pmx_context_open", result);
	x->life++;
	memset(x->sent, 0, sizeof(x->sent));
	memset(x->came, 0, sizeof(x->came));
	x->posts = x->looked = 0;
	x->plain_paired = 0;
	for (unsigned k = 0; k < CONTEXTS; k++) {
		for (unsigned kind = 0; kind < PAIR_KINDS; kind++)
			of[k].sent[kind][i] = 0;
	}
}

static void
free_pairs(struct pair *p)
{
	for (struct pair *next; p != NULL; p = next) {
		next = p->next;
		if (p->shm != NULL)
			munmap(p->shm, sizeof(*p->shm));
		free(p);
	}
}

/* Let go of all pairs as the kernel does it for a process that is killed: the other side is told
 * by its socket only. */
static void
vanish(struct pmx_context *ctx)
{
	struct pairs *x = ctx->pairs;

	if (x == NULL)
		return;
	pairs_forget(ctx);
	free_pairs(x->all);
	free_pairs(x->left);
	free(x);
}

static void
close_one(unsigned i, bool killed)
{
	struct of *x = &of[i];

	if (x->ctx == NULL)
		return;
	for (unsigned k = 0; k < HELD; k++)
		release(i, k);
	stop(i, false);
	if (x->ctx->match != NULL &&
		x->ctx->shm->paired.received != x->plain_paired + x->ctx->match->stat.paired)
		die("history %lu: %u counts %lu messages by pairs, and %lu plain and %lu matched "
		    "ones came",
			history, i, x->ctx->shm->paired.received, x->plain_paired,
			x->ctx->match->stat.paired);
	paired += x->ctx->shm->paired.sent;
	if (killed)
		vanish(x->ctx);
	pmx_context_close(x->ctx);
	x->ctx = NULL;
	memset(x->posted, 0, sizeof(x->posted));
	memset(x->sends, 0, sizeof(x->sends));
	for (unsigned k = 0; k < SENDS; k++) {
		old[olds++] = x->from[k];
		x->from[k] = must(malloc(LONGEST));
	}
	/* who sends within PAIRS_STALE_MS of it to its successor, and received nothing meanwhile,
	 * does not know yet (pairs.h, note 4) */
	for (unsigned k = 0; killed && k < CONTEXTS; k++)
		look_now(k);
}

/* Return whether all has come that was sent between contexts that live, and the others' numbers are
 * free. */
static bool
is_all_there(void)
{
	for (unsigned i = 0; i < CONTEXTS; i++) {
		const struct channel *ch = &node->embedded->channels[i];

		if (of[i].ctx == NULL && (ch->state != CHANNEL_CLOSED || ch->dirty))
			return false;
		for (unsigned k = 0; k < CONTEXTS; k++) {
			for (unsigned kind = 0; kind < PAIR_KINDS; kind++) {
				const struct came *c = &of[i].came[kind][k];
				const bool now = c->from_life == of[k].life &&
					c->to_life == of[i].life;

				if (of[i].ctx != NULL && of[k].ctx != NULL &&
					of[k].sent[kind][i] != (now ? c->next : 0))
					return false;
			}
		}
	}
	return true;
}

/* Tell what has not come, and end. */
static void
tell_missing(void)
{
	for (unsigned i = 0; i < CONTEXTS; i++) {
		fprintf(stderr, "%u: life %u, %s, receives posted %u, judged %u\n", i, of[i].life,
			of[i].ctx != NULL ? "open" : "closed", of[i].posts, of[i].looked);
		for (unsigned k = 0; k < CONTEXTS; k++) {
			for (unsigned kind = 0; kind < PAIR_KINDS; kind++) {
				const struct came *c = &of[i].came[kind][k];

				fprintf(stderr, "  from %u %s: %u of lives %u and %u, sent %u\n", k,
					kind == PAIR_PLAIN ? "plain" : "matched", c->next,
					c->from_life, c->to_life, of[k].sent[kind][i]);
			}
		}
	}
	die("history %lu: not all has come", history);
}

static void
drain(void)
{
	for (unsigned i = 0; i < CONTEXTS; i++)
		stop(i, false);
	for (const int64_t until = clock_us() + DRAIN_US; !is_all_there();) {
		if (clock_us() > until)
			tell_missing();
		for (unsigned i = 0; i < CONTEXTS; i++) {
			pmx_node_poll(node);
			if (of[i].ctx == NULL)
				continue;
			look_now(i);
			receive_plain(i);
			receive_matched(i);
			for (unsigned k = 0; k < SENDS; k++)
				pmx_test(of[i].ctx, &of[i].sends[k], NULL);
		}
	}
}

static void
step(unsigned sends)
{
	const unsigned i = (unsigned)(draw() % CONTEXTS), k = (unsigned)(draw() % CONTEXTS);

	if (draw() % 64 == 0)
		close_one(i, draw() % 2);
	if (of[i].ctx == NULL) {
		if (draw() % 4 == 0)
			open_one(i);
		return;
	}
	if (draw() % 48 == 0)
		stop(i, !of[i].stopped);
	if (draw() % 8 < sends) {
		for (uint64_t n = 1 + draw() % 12; n > 0; n--)
			draw() % 2 ? send_plain(i, k) : send_matched(i, k);
	} else {
		draw() % 2 ? receive_plain(i) : receive_matched(i);
	}
	if (draw() % 3 == 0)
		look_now(i);
	for (uint64_t n = draw() % 3; n > 0; n--)
		pmx_node_poll(node);
}

static void
start(void)
{
	char *eal[] = {(char *)(uintptr_t) "pair_histories", "--no-huge", "-m", "256", "--no-pci",
		"--no-telemetry", "--no-shconf", "--log-level=*:error", NULL};
	char error[256] = "";
	struct pmx_node_params params = {
		.size = sizeof(params),
		.config_text = "[node]\nid = 0\nname = histories\n[link 0]\ndriver = loop\n"
			       "port = histories\nencap = none\n[nodes]\n0 = auto\n"
			       "[limits]\ncontexts = 3\nmbufs = 8192\n",
		.eal_argc = 8,
		.eal_argv = eal,
	};

	if (pmx_node_start(&node, &params, error, sizeof(error)) != 0)
		die("%s", error);
	way = *node->way;
	way.ask = introduce;
	way.close = leave;
	node->way = &way;
	for (unsigned i = 0; i < CONTEXTS; i++) {
		for (unsigned k = 0; k < POSTED; k++)
			of[i].to[k] = must(malloc(LONGEST));
		for (unsigned k = 0; k < SENDS; k++)
			of[i].from[k] = must(malloc(LONGEST));
	}
}

int
main(int argc, char **argv)
{
	if (argc < 2)
		die("usage: pair_histories COUNT [SEED]");
	const uint64_t count = strtoull(argv[1], NULL, 10),
		       first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

	start();
	for (history = first; history < first + count; history++) {
		seed = mix64(history);
		for (unsigned i = 0; i < CONTEXTS; i++)
			open_one(i);
		for (unsigned n = 0; n < STEPS; n++)
			step(n / 60 % 2 ? 2 : 5);
		drain();
		for (unsigned i = 0; i < CONTEXTS; i++)
			close_one(i, draw() % 2);
		for (struct asked *w = asked; w < asked + CONTEXTS * CONTEXTS; w++) {
			if (w->used)
				close(w->socket);
			w->used = false;
		}
		while (olds > 0)
			free(old[--olds]);
	}
	pmx_node_close(node);
	printf("# %lu histories, %lu pairs, %lu of %lu messages by them\n", count, pairs_made,
		paired, sent_in_all);
	if (paired < sent_in_all / 8)
		die("too few messages went by pairs");
	return 0;
}
