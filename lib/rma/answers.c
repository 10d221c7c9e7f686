/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Answers to the initiators of transfers: bytes that were pulled, and how transfers ended
 * (RHI-PULL; RHiNET, 1999, sections 2.4 and 2.7).
 *
 * Design notes
 * 1. Every message takes an entry of the target's room in the core, which is given back at once or
 *    with the answer. There are as many requests as entries, so a request is always free.
 * 2. Answers to one initiator are sent in the order in which its transfers ended, several in a
 *    frame.
 */
#include "rma/internal.h"

static void
request_append(struct rma *r, struct rma_request *q)
{
	struct request_list *l = &r->requests;

	if (unlikely(q->c->stopped && q->kind == REQUEST_PULL))
		l = &r->stopped_requests;
	q->next = NULL;
	if (l->head == NULL)
		l->head = q;
	else
		l->tail->next = q;
	l->tail = q;
}

static struct rma_request *
request_pop(struct rma *r)
{
	struct rma_request *q = r->requests.head;

	r->requests.head = q->next;
	return q;
}

/* Take a request for a message, whose entry of room it keeps. */
static struct rma_request *
request_make(struct rma *r, struct rma_context *c, const struct rma_message *m,
	enum request_kind kind)
{
	struct rma_request *q = c->free_requests;

	if (unlikely(q == NULL)) { /* cannot happen: note 1 */
		context_gives_room(r, c);
		return NULL;
	}
	c->free_requests = q->next;
	q->kind = (uint8_t)kind;
	q->error = 0;
	q->c = c;
	q->node = m->node;
	q->peer = m->peer;
	q->id = wire_be32(m->head->id);
	return q;
}

struct rma_request *
request_take(struct rma *r, struct rma_context *c, const struct rma_message *m,
	enum request_kind kind)
{
	struct rma_request *q = request_make(r, c, m, kind);

	if (q != NULL)
		request_append(r, q);
	return q;
}

void
request_event(struct rma *r, struct rma_context *c, const struct rma_message *m,
	const struct event_slot *event)
{
	struct rma_request *q = request_make(r, c, m, REQUEST_EVENT);

	if (q == NULL)
		return;
	q->event = *event;
	q->next = NULL;
	if (c->event_head == NULL)
		c->event_head = q;
	else
		c->event_tail->next = q;
	c->event_tail = q;
	c->events_waiting++;
	r->events_waiting++;
}

const struct event_slot *
rma_event(const struct rma *r, uint16_t ctx)
{
	const struct rma_request *q = r->contexts[ctx]->event_head;

	return q != NULL ? &q->event : NULL;
}

/* End the push of the context's first event, since the application knows of the push now. */
void
rma_event_told(struct rma *r, uint16_t ctx)
{
	struct rma_context *c = r->contexts[ctx];
	struct rma_request *q = c->event_head;

	c->event_head = q->next;
	c->events_waiting--;
	r->events_waiting--;
	q->kind = REQUEST_ENDED;
	request_append(r, q);
}

static void
request_free(struct rma_request *q)
{
	q->next = q->c->free_requests;
	q->c->free_requests = q;
}

/* Free the first request, which has been answered, and give its entry back. */
static void
request_done(struct rma *r)
{
	struct rma_request *q = request_pop(r);

	request_free(q);
	context_gives_room(r, q->c);
}

void
request_answer(struct rma *r, struct rma_context *c, const struct rma_message *m, uint32_t error)
{
	struct rma_request *q = request_take(r, c, m, REQUEST_ENDED);

	if (q != NULL)
		q->error = error;
}

/* ------------------------------------------------------------------ frames */

static void
request_reply(struct rma *r, const struct rma_request *q, struct rma_frame *f, uint32_t head_len,
	uint32_t len)
{
	r->turn.request = (struct rma_request *)(uintptr_t)q;
	frame_out(r, f, q->c, WIRE_TARGET, q->node, q->peer | WIRE_INITIATOR, head_len, len);
}

static void
put_head(struct rma_frame *f, const struct rma_request *q, uint64_t at)
{
	*f->head = (struct wire_transfer){
		.op = WIRE_PULLED,
		.id = wire_be32(q->id),
		.offset = wire_be64(at),
	};
}

static void
request_refuse(struct rma_request *q, uint8_t error)
{
	q->kind = REQUEST_ENDED;
	q->error = error;
}

/* Make the next frames of an answer whose bytes are in one piece. */
static void
pull_piece(struct rma *r, struct rma_request *q)
{
	uint64_t at = q->sent, left;

	r->turn.kind = TURN_PIECE;
	r->turn.bytes = 0;
	do {
		struct rma_frame *f = frame_take(r, false);

		if (f == NULL)
			return;
		left = q->source.len - at;
		uint32_t len = left < r->cfg.payload_max ? (uint32_t)left : r->cfg.payload_max;

		put_head(f, q, at);
		f->source = q->source;
		f->source.at += at;
		f->source.len = len;
		at += len;
		r->turn.bytes += len;
		if (len == left) {
			f->head->flags |= WIRE_T_LAST;
			f->ends_offer = q->of_offer;
			f->id = (uint32_t)q->key;
		}
		request_reply(r, q, f, sizeof(*f->head), (uint32_t)sizeof(*f->head) + len);
	} while (r->turn.n < RMA_BURST && at < q->source.len);
}

/* Write the heads of the next runs, with room behind each for its bytes. Returns the bytes of the
 * frame that they take together; *at is where the first one begins. */
static uint32_t
put_runs(struct rma *r, struct rma_request *q, uint8_t *to, uint64_t *at)
{
	struct turn *t = &r->turn;
	uint32_t used = 0;
	uint64_t end = 0; /* end of the previous run, in the transfer */

	t->it = q->it;
	t->run = q->run;
	t->bytes = 0;
	t->last = false;
	for (;;) {
		if (t->run.len == 0 && !part_next(&t->it, &t->run)) {
			t->last = true;
			return used;
		}
		uint32_t room = r->cfg.payload_max - used;
		struct wire_run run;

		if (used == 0)
			*at = end = t->run.offset;
		if (room <= sizeof(run) || t->run.offset - end > UINT32_MAX)
			return used;
		room -= (uint32_t)sizeof(run);
		uint32_t len = t->run.len < room ? (uint32_t)t->run.len : room;

		run = (struct wire_run){wire_be32((uint32_t)(t->run.offset - end)), wire_be32(len)};
		memcpy(to + used, &run, sizeof(run));
		used += (uint32_t)sizeof(run) + len;
		t->run.offset += len;
		t->run.len -= len;
		t->bytes += len;
		end = t->run.offset;
	}
}

/* Make the next frame of an answer that consists of parts. */
static void
pull_parts(struct rma *r, struct rma_request *q)
{
	struct rma_frame *f = frame_take(r, false);
	uint64_t at = 0;

	r->turn.kind = TURN_PARTS;
	if (f == NULL)
		return;
	uint32_t used = put_runs(r, q, (uint8_t *)(f->head + 1), &at);

	put_head(f, q, q->base + at);
	f->head->flags = WIRE_T_RUNS | (r->turn.last ? WIRE_T_LAST : 0);
	f->source = q->source;
	f->runs = true;
	f->runs_from = at;
	request_reply(r, q, f, sizeof(*f->head), (uint32_t)sizeof(*f->head) + used);
}

/* Make the one frame of an answer to an atomic operation. */
static void
fetch_send(struct rma *r, struct rma_request *q)
{
	struct rma_frame *f = frame_take(r, false);
	const uint32_t len = (uint32_t)(sizeof(*f->head) + q->source.len);

	r->turn.kind = TURN_FETCH;
	if (f == NULL)
		return;
	put_head(f, q, 0);
	f->head->flags = WIRE_T_LAST;
	memcpy(f->head + 1, q->bits, q->source.len);
	request_reply(r, q, f, len, len);
}

/* Put all consecutive ends at the head of the list that go to the same initiator into one frame. */
static void
ended_send(struct rma *r)
{
	struct rma_request *first = r->requests.head;
	uint32_t most = r->cfg.payload_max / (uint32_t)sizeof(struct wire_ended), n = 0;
	struct rma_frame *f = frame_take(r, false);

	r->turn.kind = TURN_ENDED;
	if (f == NULL)
		return;
	for (struct rma_request *q = first; q != NULL && n < most && q->kind == REQUEST_ENDED &&
		q->c == first->c && q->node == first->node && q->peer == first->peer;
		q = q->next) {
		const struct wire_ended item = {wire_be32(q->id), wire_be32(q->error)};

		memcpy((uint8_t *)(f->head + 1) + n++ * sizeof(item), &item, sizeof(item));
	}
	*f->head = (struct wire_transfer){.op = WIRE_ENDED, .len = wire_be64(n)};
	r->turn.items = n;
	uint32_t len = (uint32_t)(sizeof(*f->head) + n * sizeof(struct wire_ended));

	request_reply(r, first, f, len, len);
}

/* Move the request at the head to the end of the list, until the others had their chance. */
static void
request_put_off(struct rma *r, struct rma_request *q)
{
	request_append(r, request_pop(r));
	if (r->first_put_off == NULL)
		r->first_put_off = q;
}

struct rma_frame **
rma_tx_answers(struct rma *r, unsigned *n)
{
	struct turn *t = &r->turn;

	t->n = 0;
	if (unlikely(r->tells != 0))
		remote_pins_tell(r);
	while (t->n == 0 && r->requests.head != NULL && r->requests.head != r->first_put_off &&
		r->answers < 256) {
		struct rma_request *q = r->requests.head;

		r->answers++;
		if (q->kind == REQUEST_ENDED)
			ended_send(r);
		else if (q->kind == REQUEST_FETCH)
			fetch_send(r, q);
		else if (q->c->frames - q->c->own_frames < r->cfg.frames_max / 2)
			q->in_parts ? pull_parts(r, q) : pull_piece(r, q);
		if (t->n != 0)
			break;
		if (q->kind == REQUEST_ENDED)
			return NULL;
		request_put_off(r, q);
	}
	*n = t->n;
	return t->n != 0 ? t->frames : NULL;
}

/* Free the requests whose ends were in a frame that was sent or never can be. If it cannot be sent
 * now, send no more answers in this turn. */
static void
ended_sent(struct rma *r, unsigned count, uint8_t error)
{
	if (count == 0 && (error == 0 || error == EAGAIN)) {
		r->answers = 256; /* so that no other answer overtakes it */
		return;
	}
	/* an initiator that cannot be reached is not told */
	for (uint32_t i = 0; i < r->turn.items; i++)
		request_done(r);
}

void
request_sent(struct rma *r, unsigned count, uint8_t error)
{
	struct turn *t = &r->turn;
	struct rma_request *q = t->request;
	bool ended = false;

	if (t->kind == TURN_ENDED) {
		ended_sent(r, count, error);
		return;
	}
	if (t->kind == TURN_PIECE) {
		q->sent += count == t->n ? t->bytes : (uint64_t)count * r->cfg.payload_max;
		ended = count != 0 && q->sent == q->source.len;
	} else if (t->kind == TURN_FETCH) {
		ended = count != 0;
	} else if (count != 0) {
		q->it = t->it;
		q->run = t->run;
		q->sent += t->bytes;
		ended = t->last;
	}
	if (error != 0 && error != EAGAIN)
		request_refuse(q, error);
	else if (ended)
		request_done(r);
	else if (count == 0)
		request_put_off(r, q);
	else
		request_append(r, request_pop(r));
}

/* ------------------------------------------------------------------ ends */

void
requests_fail(struct rma *r, struct rma_context *c,
	bool (*gone)(const struct rma_request *, const void *), const void *what, uint8_t error)
{
	struct rma_request *const heads[] = {r->requests.head, r->stopped_requests.head};

	for (unsigned i = 0; i < 2; i++) {
		for (struct rma_request *q = heads[i]; q != NULL; q = q->next) {
			if (q->c == c && q->kind == REQUEST_PULL && gone(q, what))
				request_refuse(q, error);
		}
	}
}

/* Put each of the list's requests where it belongs, after a context was stopped or goes on. */
void
requests_sort(struct rma *r, struct request_list *l)
{
	struct rma_request *q = l->head;

	*l = (struct request_list){NULL, NULL};
	while (q != NULL) {
		struct rma_request *next = q->next;

		request_append(r, q);
		q = next;
	}
}

static bool
reads_offer(const struct rma_request *q, const void *id)
{
	return q->of_offer && q->key == *(const uint32_t *)id;
}

void
requests_offer_ends(struct rma *r, struct rma_context *c, uint32_t id)
{
	requests_fail(r, c, reads_offer, &id, ECONNRESET);
}

void
requests_close(struct rma *r, struct rma_context *c)
{
	struct rma_request *q = r->requests.head;

	r->requests.head = NULL;
	while (q != NULL) {
		struct rma_request *next = q->next;

		if (q->c == c)
			request_free(q);
		else
			request_append(r, q);
		q = next;
	}
	while ((q = c->event_head) != NULL) {
		c->event_head = q->next;
		request_free(q);
	}
	r->events_waiting -= c->events_waiting;
	c->events_waiting = 0;
}
