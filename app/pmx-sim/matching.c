/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Matching in the simulator: the shipped queues (lib/match) over LHS rings that the shipped core
 * fills, and a random program at every context: sends, receives, probes and cancels, with exact
 * keys and wildcards. Next to each queue there is a model made of plain lists, which tells what
 * every receive must get (RHI-MSG, LHS-7).
 *
 * Whatever the network does, this must hold: the queue returns what the model returns, each message
 * once; heads that are moved to the store remain the same messages; and at the end everything that
 * arrived is received.
 */
#include <stdarg.h>
#include <stdlib.h>

#include "match/queue.h"
#include "sims.h"

#define RING       64  /* entries: few, so that heads are moved to the store all the time */
#define MOST       400 /* about the most messages that wait at a context */
#define RECEIVES   512
#define UNEXPECTED 65536

struct matching_message {
	struct matching_message *next; /* in the list of messages that landed, then of those that
					* wait */
	struct match_key key;
	uint32_t number;
	bool offer, matched;
};

struct matching_receive {
	struct matching_receive *next; /* in the list of posted receives, in order */
	struct match_want want;
	uint32_t posted; /* its number in the queue */
	bool used;
};

struct matching_list {
	struct matching_message *head, *tail;
	uint32_t count;
};

struct matching_endpoint {
	struct match_queue queue;
	struct lhs_end ring; /* the writer's */
	uint8_t *memory;
	struct matching_list landed, waits; /* the model's */
	struct matching_receive *posted_head, *posted_tail;
	struct matching_receive receives[RECEIVES];
	uint32_t free, posted;
};

struct matching_world {
	struct sim *sim;
	struct matching_endpoint *ends; /* by node, context */
	uint32_t nodes, contexts;
	struct matching_message *all;
	uint32_t count, room;
	struct matching_count counts;
	char wrong[256];
};

static const struct lhs_config config = {RING, 64, 64 - LHS_ENVELOPE_BYTES, LHS_SIZE_OFFSET};

static __attribute__((format(printf, 2, 3))) void
wrong(struct matching_world *x, const char *format, ...)
{
	va_list args;

	if (x->wrong[0])
		return;
	va_start(args, format);
	vsnprintf(x->wrong, sizeof(x->wrong), format, args);
	va_end(args);
}

static struct matching_endpoint *
end_of(struct matching_world *x, uint32_t node, uint32_t ctx)
{
	return &x->ends[node * x->contexts + ctx];
}

static void
append(struct matching_list *l, struct matching_message *m)
{
	m->next = NULL;
	if (l->head == NULL)
		l->head = m;
	else
		l->tail->next = m;
	l->tail = m;
	l->count++;
}

static void
unlink_after(struct matching_list *l, struct matching_message *before, struct matching_message *m)
{
	if (before == NULL)
		l->head = m->next;
	else
		before->next = m->next;
	if (l->tail == m)
		l->tail = before;
	l->count--;
}

/* ------------------------------------------------------------------ the model */

static struct matching_receive *
model_posted(struct matching_endpoint *e, const struct match_key *key)
{
	struct matching_receive *before = NULL, *r = e->posted_head;

	for (; r != NULL && !match_accepts(&r->want, key); r = r->next)
		before = r;
	if (r == NULL)
		return NULL;
	if (before == NULL)
		e->posted_head = r->next;
	else
		before->next = r->next;
	if (e->posted_tail == r)
		e->posted_tail = before;
	e->posted--;
	return r;
}

static struct matching_message *
model_waiting(struct matching_endpoint *e, const struct match_want *want, bool take)
{
	struct matching_message *before = NULL, *m = e->waits.head;

	for (; m != NULL && !match_accepts(want, &m->key); m = m->next)
		before = m;
	if (m != NULL && take)
		unlink_after(&e->waits, before, m);
	return m;
}

/* ------------------------------------------------------------------ the queue, beside it */

static uint32_t
number_of(const struct match_message *m)
{
	uint32_t number;

	memcpy(&number, m->entry->front + sizeof(struct wire_match) + sizeof(uint64_t),
		sizeof(number));
	return number;
}

static void
matched(struct matching_world *x, struct matching_endpoint *e, const struct match_message *m,
	struct matching_message *by_model)
{
	struct matching_message *got = &x->all[number_of(m)];

	if (got != by_model)
		wrong(x, "a receive got message %u, not %d", got->number,
			by_model ? (int)by_model->number : -1);
	if (got->matched)
		wrong(x, "message %u was received twice", got->number);
	if (m->key.tag != got->key.tag || m->key.comm != got->key.comm ||
		m->key.source != got->key.source)
		wrong(x, "message %u has another key", got->number);
	got->matched = true;
	x->counts.matched++;
	match_queue_done(&e->queue, m);
}

static void
receive_put(struct matching_endpoint *e, uint32_t i)
{
	e->receives[i].used = false;
	e->receives[i].next = NULL;
}

/* Let both the queue and the model take in what landed. */
static void
progress(struct matching_world *x, struct matching_endpoint *e)
{
	struct match_message m;
	struct matching_message *landed;
	uint64_t handle;

	while (match_queue_next(&e->queue, &m, &handle)) {
		struct matching_receive *r = NULL;

		if (handle == MATCH_MALFORMED) {
			wrong(x, "a message is taken for none");
			return;
		}
		/* the model goes on to the same message */
		while (r == NULL && (landed = e->landed.head) != NULL) {
			unlink_after(&e->landed, NULL, landed);
			r = model_posted(e, &landed->key);
			if (r == NULL)
				append(&e->waits, landed);
		}
		if (r == NULL || (uint64_t)(r - e->receives) != handle)
			wrong(x, "receive %lu got a message, the model gives it to %ld", handle,
				r ? (long)(r - e->receives) : -1);
		matched(x, e, &m, landed);
		receive_put(e, (uint32_t)handle);
	}
	while ((landed = e->landed.head) != NULL) {
		unlink_after(&e->landed, NULL, landed);
		if (model_posted(e, &landed->key) != NULL)
			wrong(x, "message %u was for a receive that was posted", landed->number);
		append(&e->waits, landed);
	}
	match_queue_spare(&e->queue);
}

/* ------------------------------------------------------------------ operations */

static struct match_want
some_want(const struct matching_world *x, const struct matching_endpoint *e, uint64_t r)
{
	const struct matching_message *m = e->waits.head;
	struct match_want w = {
		.comm = (uint32_t)(r & 1),
		.source = (uint32_t)(((r >> 8) % x->nodes) << 16 | (r >> 16) % x->contexts),
		.tag = (r >> 24) % 5 | ((r >> 28) % 5) << 45,
	};

	for (unsigned skip = (r >> 32) % 16; m != NULL && m->next != NULL && skip > 0; skip--)
		m = m->next;
	if (m != NULL && r >> 40 & 3)
		w = (struct match_want){m->key.comm, m->key.source, m->key.tag, 0};
	if ((r >> 42 & 3) == 0)
		w.source = MATCH_ANY_SOURCE;
	switch (r >> 44 & 7) {
	case 0:
		w.ignore = MATCH_ANY_TAG;
		break;
	case 1:
		w.ignore = 1ull << 45;
		break;
	case 2:
		w.ignore = 3;
		break;
	default:
		break;
	}
	return w;
}

static void
sim_matching_receive(struct matching_world *x, struct matching_endpoint *e,
	const struct match_want *want)
{
	struct match_message m;
	uint32_t i = 0;

	progress(x, e);
	while (i < RECEIVES && e->receives[i].used)
		i++;
	if (i == RECEIVES)
		return;
	uint32_t found = match_queue_find(&e->queue, want, &m);
	struct matching_message *by_model = model_waiting(e, want, true);

	if ((found != MATCH_NONE) != (by_model != NULL)) {
		wrong(x, "a search finds %s, the model %s", found != MATCH_NONE ? "one" : "none",
			by_model ? "one" : "none");
		return;
	}
	if (found != MATCH_NONE) {
		match_unexpected_take(&e->queue.unexpected, found);
		matched(x, e, &m, by_model);
		return;
	}
	struct matching_receive *r = &e->receives[i];

	*r = (struct matching_receive){
		.want = *want,
		.used = true,
		.posted = match_posted_add(&e->queue.posted, want, i),
	};
	if (e->posted_head == NULL)
		e->posted_head = r;
	else
		e->posted_tail->next = r;
	e->posted_tail = r;
	e->posted++;
}

static void
probe(struct matching_world *x, struct matching_endpoint *e, const struct match_want *want)
{
	struct match_message m;

	progress(x, e);
	uint32_t found = match_queue_find(&e->queue, want, &m);
	const struct matching_message *by_model = model_waiting(e, want, false);

	if ((found != MATCH_NONE) != (by_model != NULL) ||
		(by_model != NULL && number_of(&m) != by_model->number))
		wrong(x, "a probe finds another message than the model");
}

static void
cancel(struct matching_world *x, struct matching_endpoint *e, uint64_t r)
{
	struct matching_receive *chosen = e->posted_head, *before = NULL;

	/* cancelling does not take in what landed, in the model neither */
	for (unsigned skip = r % 8; chosen != NULL && chosen->next != NULL && skip > 0; skip--) {
		before = chosen;
		chosen = chosen->next;
	}
	if (chosen == NULL)
		return;
	if (!match_posted_cancel(&e->queue.posted, chosen->posted))
		wrong(x, "a receive that is posted cannot be cancelled");
	if (before == NULL)
		e->posted_head = chosen->next;
	else
		before->next = chosen->next;
	if (e->posted_tail == chosen)
		e->posted_tail = before;
	e->posted--;
	receive_put(e, (uint32_t)(chosen - e->receives));
	x->counts.cancelled++;
}

/* Send a message. The network carries only lengths; the contents of messages are in `all`. */
static void
matching_send(struct matching_world *x, uint32_t node, uint32_t ctx, uint64_t r, uint32_t longest)
{
	uint32_t peer = (uint32_t)(r % x->nodes),
		 len = (uint32_t)((r >> 8) % (1 + (r & 128 && longest > 64 ? 64 : longest)));

	if (peer == node || x->count == x->room)
		peer = (node + 1) % x->nodes;
	if (x->count == x->room)
		return;
	struct matching_message *m = &x->all[x->count];

	*m = (struct matching_message){
		.number = x->count,
		.key = {(uint32_t)(r >> 30 & 1), node << 16 | ctx,
			(r >> 32) % 5 | ((r >> 36) % 5) << 45},
		.offer = r >> 40 & 1,
	};
	if (sim_send(x->sim, node, (uint16_t)ctx, peer, (uint16_t)((r >> 48) % x->contexts), len,
		    x->count) == 0)
		x->count++;
}

void
matching_act(struct matching_world *x, uint32_t node, uint64_t random, uint32_t longest)
{
	for (unsigned i = 0; i < 24 && !x->wrong[0]; i++) {
		uint32_t ctx = (uint32_t)(random >> 60) % x->contexts;
		struct matching_endpoint *e = end_of(x, node, ctx);
		uint64_t r = random * 0xD1342543DE82EF95u;
		const struct match_want want = some_want(x, e, r),
					any = {(uint32_t)(r & 1), MATCH_ANY_SOURCE, 0,
						MATCH_ANY_TAG};
		unsigned what = random >> 50 & 15;

		r ^= r >> 29;
		if (what < 7)
			matching_send(x, node, ctx, r, longest);
		else if (what < 12)
			sim_matching_receive(x, e, e->waits.count > MOST ? &any : &want);
		else if (what < 14)
			probe(x, e, &want);
		else if (what < 15)
			cancel(x, e, r);
		else
			progress(x, e);
		x->counts.operations++;
		random = random * 6364136223846793005u + 1442695040888963407u;
	}
}

/* ------------------------------------------------------------------ what the simulator says */

/* Put the head of a message that is complete into the ring, as the engine writes it. */
void
matching_heard(struct matching_world *x, const struct proto_delivery *d, uint32_t tag)
{
	struct matching_endpoint *e = end_of(x, sim_here(x->sim), d->ctx);

	struct matching_message *m = &x->all[tag];
	struct {
		struct wire_match h;
		uint64_t len;
		uint32_t number, zero;
	} front = {{m->offer ? WIRE_OFFER : WIRE_EAGER, 0, 0, wire_be32(m->key.comm),
			   wire_be64(m->key.tag)},
		0, m->number, 0};

	if (match_heads_held(&e->queue.heads) + (e->ring.pos - e->queue.heads.ring.pos) == RING)
		progress(x, e); /* let the application take messages in before the ring is full */
	if (m->key.source != ((uint32_t)d->src_node << 16 | d->src_ctx))
		wrong(x, "message %u comes from another context", m->number);
	lhs_write(&e->ring, d->src_node, d->src_ctx, sizeof(front), LHS_NO_BULK, 0, &front,
		sizeof(front));
	append(&e->landed, m);
}

/* Empty a context that is in a new life: nothing waits there any more. */
void
matching_forget(struct matching_world *x, uint32_t node, uint16_t ctx)
{
	struct matching_endpoint *e = end_of(x, node, ctx);

	match_queue_clear(&e->queue);
	memset(e->memory, 0, RING * 64);
	e->ring.pos = 0;
	e->landed = e->waits = (struct matching_list){0};
	e->posted_head = e->posted_tail = NULL;
	e->posted = 0;
	for (uint32_t i = 0; i < RECEIVES; i++)
		receive_put(e, i);
}

/* Receive at the end, with wildcards, all that arrived, and check that nothing is left. */
void
matching_settle(struct matching_world *x)
{
	for (uint32_t i = 0; i < x->nodes * x->contexts && !x->wrong[0]; i++) {
		struct matching_endpoint *e = &x->ends[i];

		progress(x, e);
		while (e->posted_head != NULL)
			cancel(x, e, 0);
		for (uint32_t comm = 0; comm < 2; comm++) {
			const struct match_want any = {comm, MATCH_ANY_SOURCE, 0, MATCH_ANY_TAG};
			struct match_message m;

			while (match_queue_find(&e->queue, &any, &m) != MATCH_NONE && !x->wrong[0])
				sim_matching_receive(x, e, &any);
		}
		if (e->waits.count != 0 || e->queue.unexpected.live != 0)
			wrong(x, "%u messages wait at the end, the model has %u",
				e->queue.unexpected.live, e->waits.count);
		if (match_heads_held(&e->queue.heads) != 0 || e->queue.heads.stored != 0)
			wrong(x, "%u entries and %u places of the store never came back",
				match_heads_held(&e->queue.heads), e->queue.heads.stored);
		x->counts.evacuated += e->queue.heads.evacuated;
	}
}

const char *
matching_wrong(const struct matching_world *x)
{
	return x->wrong[0] ? x->wrong : NULL;
}

struct matching_count
matching_counts(const struct matching_world *x)
{
	return x->counts;
}

struct matching_world *
matching_new(struct sim *s, uint32_t nodes, uint32_t contexts)
{
	struct matching_world *x = calloc(1, sizeof(*x));

	x->sim = s;
	x->nodes = nodes;
	x->contexts = contexts;
	x->room = 16384;
	x->all = calloc(x->room, sizeof(*x->all));
	x->ends = calloc(nodes * contexts, sizeof(*x->ends));
	for (uint32_t i = 0; i < nodes * contexts; i++) {
		struct matching_endpoint *e = &x->ends[i];

		e->memory = aligned_alloc(64, RING * 64);
		memset(e->memory, 0, RING * 64);
		lhs_end_init(&e->ring, &config, e->memory);
		if (match_queue_init(&e->queue, &config, e->memory, NULL, UNEXPECTED, RECEIVES,
			    512) != 0)
			wrong(x, "no memory");
	}
	return x;
}

void
matching_free(struct matching_world *x)
{
	for (uint32_t i = 0; i < x->nodes * x->contexts; i++) {
		match_queue_free(&x->ends[i].queue);
		free(x->ends[i].memory);
	}
	free(x->ends);
	free(x->all);
	free(x);
}
