/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What remote memory does to the core, without the memory: the questions and answers of
 * doc/wire.md, "Transfers", as the engine exchanges them (lib/engine/service/rma/rma.h), between
 * endpoints of the simulator. Endpoint c of a node is an initiator, `contexts` + c the target of
 * the same context.
 *
 * What must hold, whatever the network does: a transfer ends; well only if all its frames had
 * arrived, each once; and with an error only if something happened that excuses one. A target that
 * owes answers gives no room back, and a node shares its descriptors between what it asks and what
 * it answers, so a circle of nodes that wait for each other would be seen.
 *
 * Design note: nothing is sent before all that failed until then was heard (the engine:
 * engine_complete comes first). Otherwise what follows a lost frame would go out in a new flow, and
 * look like the end of all of it. The seeds find that, within some 1,400.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "sims.h"

#define ASK_AFTER (100 * MS)
#define TICK      (2 * MS)
#define HEAD      48 /* doc/wire.md */

enum op { PUSH, PULL, ASK, PULLED, ENDED };
enum state { OPEN, DONE, FAILED };

/* What a message says, in its tag. */
#define TAG_AGAIN (1u << 25) /* an answer, sent again */
#define TAG(op, last, wrong, number)                                                               \
	((uint32_t)(op) << 28 | (uint32_t)(last) << 27 | (uint32_t)(wrong) << 26 | (number))
#define TAG_LAST   (1u << 27)
#define TAG_WRONG  (1u << 26)
#define TAG_NUMBER (TAG_AGAIN - 1)
#define TAG_NONE   UINT32_MAX /* the sender forgot it */

struct transfer {
	uint32_t node, peer;  /* initiator's, target's */
	uint16_t ctx, target; /* endpoints */
	uint32_t key;         /* the target's life when it began */
	uint32_t frames, len; /* of each frame */
	bool pull;
	/* at the initiator */
	enum state state;
	uint32_t sent, got;
	uint64_t seen_at;
	bool asking;
	/* at the target */
	uint32_t arrived, answered;
	bool owed, wrong; /* an answer: PULLED until all are sent, or ENDED */
	bool unknown;     /* ... to a question about what is not known */
};

struct node_state {
	uint32_t *life;          /* by context */
	uint32_t *owed;          /* transfers that its target owes answers to */
	uint32_t asked, answers; /* frames with the core */
};

struct transfers {
	struct sim *sim;
	struct node_state *nodes;
	uint32_t node_count, payload, frames_max;
	uint32_t head; /* bytes of a frame that carries none */
	uint16_t contexts;
	struct transfer *all;
	uint32_t count, room, open;
	bool ticking, pumping; /* a timer will come */
	struct transfers_count counts;
	char wrong[256];
};

static __attribute__((format(printf, 2, 3))) void
wrong(struct transfers *x, const char *format, ...)
{
	va_list args;

	if (x->wrong[0])
		return;
	va_start(args, format);
	vsnprintf(x->wrong, sizeof(x->wrong), format, args);
	va_end(args);
}

static void
end(struct transfers *x, struct transfer *t, enum state state)
{
	if (t->state != OPEN)
		return;
	t->state = state;
	x->open--;
	*(state == DONE ? &x->counts.done : &x->counts.failed) += 1;
}

static void
owe(struct transfers *x, struct transfer *t, bool owed)
{
	uint32_t *n = &x->nodes[t->peer].owed[t->target - x->contexts];

	if (t->owed == owed)
		return;
	t->owed = owed;
	*n += owed ? 1 : (uint32_t)-1;
	sim_pause(x->sim, t->peer, t->target, *n != 0);
}

/* May that node give the core another frame? Either kind leaves a quarter to the other. */
static bool
has_frame(const struct transfers *x, uint32_t used)
{
	return used < x->frames_max - x->frames_max / 4;
}

/* 0, -EAGAIN, or what is wrong. */
static int
give(struct transfers *x, struct transfer *t, uint32_t tag, uint32_t len)
{
	bool asks = tag >> 28 <= ASK;
	uint32_t *used = asks ? &x->nodes[t->node].asked : &x->nodes[t->peer].answers;

	if (!has_frame(x, *used))
		return -EAGAIN;
	int result = asks ? sim_send(x->sim, t->node, t->ctx, t->peer, t->target, len, tag)
			  : sim_send(x->sim, t->peer, t->target, t->node, t->ctx, len, tag);

	*used += result == 0;
	return result;
}

static void
push_on(struct transfers *x, struct transfer *t, uint32_t number)
{
	uint32_t frames = t->pull ? 1 : t->frames;

	while (t->state == OPEN && t->sent < frames) {
		bool last = t->sent + 1 == frames;
		int result = give(x, t, TAG(t->pull ? PULL : PUSH, last, 0, number),
			t->pull ? x->head : t->len);

		if (result == -EAGAIN)
			return;
		if (result != 0)
			end(x, t, FAILED);
		t->sent++;
		t->seen_at = sim_now(x->sim);
	}
	if (t->state == OPEN && !t->asking && sim_now(x->sim) - t->seen_at > ASK_AFTER &&
		give(x, t, TAG(ASK, 1, 0, number), x->head) == 0)
		t->asking = true;
}

static void
answer_on(struct transfers *x, struct transfer *t, uint32_t number)
{
	while (t->owed) {
		bool data = t->pull && !t->wrong;
		bool last = !data || t->answered + 1 == t->frames;
		int result = give(x, t, TAG(data ? PULLED : ENDED, last, t->wrong, number),
			data ? t->len : x->head);

		if (result == -EAGAIN)
			return;
		t->answered++;
		if (last || result != 0)
			owe(x, t, false);
	}
	if (t->unknown && give(x, t, TAG(ENDED, 1, 1, number), x->head) != -EAGAIN)
		t->unknown = false;
}

/* Whatever can go on. */
static void
pump(struct transfers *x)
{
	for (uint32_t i = 0; i < x->count; i++) {
		struct transfer *t = &x->all[i];

		if (t->state == OPEN)
			push_on(x, t, i);
		if (t->owed || t->unknown)
			answer_on(x, t, i);
	}
}

/* When all that came in this instant was heard. */
static void
pump_soon(struct transfers *x)
{
	if (!x->pumping)
		sim_at(x->sim, sim_now(x->sim), 0, TRANSFERS_PUMP);
	x->pumping = true;
}

void
transfers_pump(struct transfers *x)
{
	x->pumping = false;
	pump(x);
}

/* ------------------------------------------------------------------ what the simulator says */

static void
at_target(struct transfers *x, struct transfer *t, enum op op, bool last)
{
	bool valid = t->key == x->nodes[t->peer].life[t->target - x->contexts];

	if (op == ASK) {
		t->unknown = !t->owed;
		return;
	}
	t->wrong |= !valid;
	t->arrived++;
	if (!last)
		return;
	if (valid && t->state == OPEN && t->arrived != (t->pull ? 1 : t->frames))
		wrong(x, "the last frame of a push from %u.%u to %u.%u came as number %u of %u",
			t->node, t->ctx, t->peer, t->target, t->arrived, t->frames);
	owe(x, t, true);
}

static void
at_initiator(struct transfers *x, struct transfer *t, enum op op, bool last, bool failed)
{
	if (t->state != OPEN)
		return;
	t->seen_at = sim_now(x->sim);
	if (op == PULLED) {
		t->got++;
		if (last && t->got != t->frames)
			wrong(x, "a pull by %u.%u from %u.%u ended with %u of %u frames", t->node,
				t->ctx, t->peer, t->target, t->got, t->frames);
		if (last)
			end(x, t, DONE);
		return;
	}
	if (!failed && (t->pull || t->arrived != t->frames))
		wrong(x, "a push by %u.%u to %u.%u ended well with %u of %u frames there", t->node,
			t->ctx, t->peer, t->target, t->arrived, t->frames);
	end(x, t, failed ? FAILED : DONE);
}

void
transfers_heard(struct transfers *x, uint32_t tag)
{
	if (tag == TAG_NONE)
		return;
	struct transfer *t = &x->all[tag & TAG_NUMBER];
	enum op op = tag >> 28;

	if (op <= ASK)
		at_target(x, t, op, tag & TAG_LAST);
	else
		at_initiator(x, t, op, tag & TAG_LAST, tag & TAG_WRONG);
	pump_soon(x);
}

void
transfers_ended(struct transfers *x, uint32_t tag, int error)
{
	struct transfer *t = &x->all[tag & TAG_NUMBER];
	enum op op = tag >> 28;

	if (op <= ASK) {
		x->nodes[t->node].asked--;
		if (op == ASK)
			t->asking = false;
		if (error != 0)
			end(x, t, FAILED);
	} else {
		x->nodes[t->peer].answers--;
		/* an older life of the initiator may have taken the flow with it */
		if (error == ECONNRESET && !(tag & TAG_AGAIN) &&
			give(x, t, tag | TAG_AGAIN, op == PULLED ? t->len : x->head) == 0)
			return;
		if (error != 0) /* what follows must not look like all of it */
			owe(x, t, false);
	}
	pump_soon(x);
}

/* That endpoint's context is a new one. */
void
transfers_forget(struct transfers *x, uint32_t node, uint16_t endpoint)
{
	uint16_t ctx = endpoint % x->contexts;

	x->nodes[node].life[ctx]++;
	for (uint32_t i = 0; i < x->count; i++) {
		struct transfer *t = &x->all[i];

		if (t->node == node && t->ctx == ctx)
			end(x, t, FAILED);
		if (t->peer == node && t->target == ctx + x->contexts) {
			owe(x, t, false);
			t->unknown = false;
		}
	}
}

/* The node died: what its core had is gone without a word. */
void
transfers_restart(struct transfers *x, uint32_t node)
{
	x->nodes[node].asked = x->nodes[node].answers = 0;
	for (uint16_t c = 0; c < x->contexts; c++)
		transfers_forget(x, node, c);
}

static bool
is_under_way(const struct transfers *x)
{
	for (uint32_t i = 0; i < x->count; i++) {
		if (x->all[i].state == OPEN || x->all[i].owed || x->all[i].unknown)
			return true;
	}
	return false;
}

void
transfers_tick(struct transfers *x)
{
	pump(x);
	x->ticking = is_under_way(x);
	if (x->ticking)
		sim_at(x->sim, sim_now(x->sim) + TICK, 0, TRANSFERS_TICK);
}

/* Some transfers from that node, by random bits. */
void
transfers_begin(struct transfers *x, uint32_t node, uint64_t random)
{
	unsigned n = 1 + (random & 3);

	random >>= 2;
	for (unsigned i = 0; i < n && x->count < x->room;
		i++, random = random * 0xD1342543DE82EF95u + 1) {
		uint64_t r = random >> 16;
		struct transfer *t = &x->all[x->count++];

		*t = (struct transfer){
			.node = node,
			.peer = (node + 1 + (uint32_t)(r % (x->node_count - 1))) % x->node_count,
			.ctx = (uint16_t)((r >> 8) % x->contexts),
			.target = (uint16_t)(x->contexts + (r >> 16) % x->contexts),
			.frames = 1 + (uint32_t)((r >> 24) % (r & 64 ? 8 : 60)),
			.len = x->head + (uint32_t)((r >> 32) % (x->payload - x->head + 1)),
			.pull = r & 128,
			.seen_at = sim_now(x->sim),
		};
		t->key = x->nodes[t->peer].life[t->target - x->contexts];
		x->open++;
		x->counts.begun++;
	}
	if (!x->ticking)
		transfers_tick(x);
}

bool
transfers_open(const struct transfers *x)
{
	return x->open != 0;
}

const char *
transfers_wrong(const struct transfers *x)
{
	return x->wrong[0] ? x->wrong : NULL;
}

struct transfers_count
transfers_counts(const struct transfers *x)
{
	return x->counts;
}

struct transfers *
transfers_new(struct sim *s, uint32_t nodes, uint16_t contexts, uint32_t payload,
	uint32_t frames_max)
{
	struct transfers *x = calloc(1, sizeof(*x));

	x->sim = s;
	x->node_count = nodes;
	x->contexts = contexts;
	x->payload = payload;
	x->head = payload < HEAD ? payload : HEAD;
	x->frames_max = frames_max;
	x->room = 512;
	x->all = calloc(x->room, sizeof(*x->all));
	x->nodes = calloc(nodes, sizeof(*x->nodes));
	for (uint32_t i = 0; i < nodes; i++) {
		x->nodes[i].life = calloc(contexts, sizeof(*x->nodes[i].life));
		x->nodes[i].owed = calloc(contexts, sizeof(*x->nodes[i].owed));
	}
	return x;
}

void
transfers_free(struct transfers *x)
{
	for (uint32_t i = 0; i < x->node_count; i++) {
		free(x->nodes[i].life);
		free(x->nodes[i].owed);
	}
	free(x->nodes);
	free(x->all);
	free(x);
}
