/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What contexts of this lane owe the initiators of others' transfers: bytes that were pulled, and
 * how transfers ended. Runs on the lane.
 *
 * Design notes
 * 1. Every message took an entry of the target's room in the core. It is given back at once, or
 *    with the answer: there are as many requests as entries, so one is always free.
 * 2. Answers to one initiator keep the order of its questions' ends, and several go in one frame.
 */
#include <errno.h>
#include <string.h>

#include "engine/complete.h"
#include "engine/service/rma/frames.h"
#include "engine/service/rma/requests.h"

static void
request_append(struct engine *e, struct request *r)
{
	struct rma_lane *x = rma_lane(e);

	r->next = NULL;
	if (x->requests.head == NULL)
		x->requests.head = r;
	else
		x->requests.tail->next = r;
	x->requests.tail = r;
	service_busy(e, RMA_SERVICE);
	service_owes(e, RMA_SERVICE);
}

static struct request *
request_pop(struct engine *e)
{
	struct request *r = rma_lane(e)->requests.head;

	rma_lane(e)->requests.head = r->next;
	return r;
}

/* For the message at hand, whose entry it keeps. */
static struct request *
request_make(struct engine *e, struct channel *ch, const struct arrival *a, enum request_kind kind)
{
	struct request *r = rma_context(ch)->free_requests;

	if (unlikely(r == NULL)) { /* note 1: cannot be */
		request_room(e, ch);
		return NULL;
	}
	rma_context(ch)->free_requests = r->next;
	r->kind = (uint8_t)kind;
	r->error = 0;
	r->ctx = ch->ctx;
	r->node = a->node;
	r->peer = a->peer;
	r->id = wire_be32(a->head->id);
	return r;
}

struct request *
request_take(struct engine *e, struct channel *ch, const struct arrival *a, enum request_kind kind)
{
	struct request *r = request_make(e, ch, a, kind);

	if (r != NULL)
		request_append(e, r);
	return r;
}

/* A notification that its application has no room for; in order with the others. */
void
request_event(struct engine *e, struct channel *ch, const struct arrival *a,
	const struct event_slot *event)
{
	struct rma_context *remote = rma_context(ch);
	struct request *r = request_make(e, ch, a, REQUEST_EVENT);

	if (r == NULL)
		return;
	r->event = *event;
	r->next = NULL;
	if (remote->event_head == NULL)
		remote->event_head = r;
	else
		remote->event_tail->next = r;
	remote->event_tail = r;
	remote->events_waiting++;
	rma_lane(e)->events_waiting++;
	service_busy(e, RMA_SERVICE);
}

/* Out of the list already. */
static void
request_put(struct engine *e, struct request *r)
{
	struct channel *ch = &e->node->channels[r->ctx];

	r->next = rma_context(ch)->free_requests;
	rma_context(ch)->free_requests = r;
	request_room(e, ch);
}

void
request_answer(struct engine *e, struct channel *ch, const struct arrival *a, uint32_t error)
{
	struct request *r = request_take(e, ch, a, REQUEST_ENDED);

	if (r != NULL)
		r->error = error;
}

bool
event_put(struct engine *e, struct channel *ch, const struct event_slot *event)
{
	struct slot_end *end = &rma_context(ch)->events;

	if (!slot_room(end, 1))
		return false;
	memcpy(slot_at(end, end->pos)->body, event, sizeof(*event));
	slot_publish(end, end->pos++);
	channel_touch(e, ch);
	return true;
}

static struct wire_transfer *
pulled_head(struct frame *f, const struct request *r, uint64_t at)
{
	struct wire_transfer *h = frame_head(f);

	*h = (struct wire_transfer){
		.op = WIRE_PULLED,
		.id = wire_be32(r->id),
		.offset = wire_be64(at),
	};
	return h;
}

static void
pull_fail(struct request *r, uint8_t error)
{
	r->kind = REQUEST_ENDED;
	r->error = error;
}

static int
reply(struct engine *e, struct channel *ch, const struct request *r, struct frame *f, uint32_t len)
{
	return frame_send(e, ch, f, WIRE_TARGET, r->node, r->peer | WIRE_INITIATOR,
		(uint32_t)sizeof(struct wire_transfer) + len);
}

/* Some frames of bytes in one piece. Returns how many; `ended` when it was the last. */
static unsigned
pull_piece(struct engine *e, struct channel *ch, struct request *r, bool *ended)
{
	struct frame *f[FRAMES_BURST];
	uint32_t len[FRAMES_BURST];
	unsigned n = frames_take(e, false, r->source.len - r->sent, f, len), i;

	if (n == 0)
		return 0;
	if (frames_fill(e, &r->source, r->sent, r->node, f, len, n) != 0) {
		frames_put(e, f, 0, n);
		pull_fail(r, EFAULT);
		return 1;
	}
	for (i = 0; i < n; i++) {
		struct wire_transfer *h = pulled_head(f[i], r, r->sent);

		if (r->sent + len[i] == r->source.len) {
			h->flags |= WIRE_T_LAST;
			f[i]->ends_offer = r->of_offer;
			f[i]->id = (uint32_t)r->key;
		}
		int result = reply(e, ch, r, f[i], len[i]);

		if (result != 0) {
			if (result != -EAGAIN)
				pull_fail(r, (uint8_t)-result);
			break;
		}
		r->sent += len[i];
		*ended = r->sent == r->source.len;
	}
	frames_put(e, f, i, n);
	return i;
}

/* The next runs, packed behind the head of a frame. Returns their bytes; -EFAULT. */
static int
pack_runs(struct engine *e, struct request *r, uint8_t *to, uint64_t *at, bool *last)
{
	uint32_t used = 0;
	uint64_t end = 0; /* of the run before, in the transfer */
	struct scatter s;

	scatter_begin(&s, &r->source, false);
	for (;;) {
		if (r->run.len == 0 && !part_next(&r->it, &r->run)) {
			*last = true;
			break;
		}
		uint32_t room = rma_lane(e)->payload - used;
		struct wire_run run;

		if (used == 0)
			*at = end = r->run.offset;
		if (room <= sizeof(run) || r->run.offset - end > UINT32_MAX)
			break;
		room -= (uint32_t)sizeof(run);
		uint32_t len = r->run.len < room ? (uint32_t)r->run.len : room;

		run = (struct wire_run){wire_be32((uint32_t)(r->run.offset - end)), wire_be32(len)};
		memcpy(to + used, &run, sizeof(run));
		if (scatter_add(&s, r->run.offset, to + used + sizeof(run), len) != 0)
			return -EFAULT;
		used += (uint32_t)sizeof(run) + len;
		r->run.offset += len;
		r->run.len -= len;
		r->sent += len;
		end = r->run.offset;
	}
	return scatter_end(&s) == 0 ? (int)used : -EFAULT;
}

/* One frame of parts. */
static unsigned
pull_parts(struct engine *e, struct channel *ch, struct request *r, bool *ended)
{
	const struct part_iterator it = r->it;
	const struct part_run run = r->run;
	uint64_t sent = r->sent, at = 0;
	struct frame *f = frame_take(e, false);
	bool last = false;

	if (f == NULL)
		return 0;
	int used = pack_runs(e, r, (uint8_t *)(frame_head(f) + 1), &at, &last);

	if (used < 0) {
		frame_put(e, f);
		pull_fail(r, EFAULT);
		return 1;
	}
	pulled_head(f, r, r->base + at)->flags = WIRE_T_RUNS | (last ? WIRE_T_LAST : 0);
	int result = reply(e, ch, r, f, (uint32_t)used);

	if (result != 0) {
		frame_put(e, f);
		if (result != -EAGAIN)
			pull_fail(r, (uint8_t)-result);
		/* not now: these runs again */
		r->it = it;
		r->run = run;
		r->sent = sent;
		return 0;
	}
	*ended = last;
	return 1;
}

/* All ends at the head of the list that go to the same initiator, in one frame. 0: not now. */
static unsigned
ended_send(struct engine *e)
{
	struct request *first = rma_lane(e)->requests.head;
	struct channel *ch = &e->node->channels[first->ctx];
	uint32_t most = rma_lane(e)->payload / (uint32_t)sizeof(struct wire_ended), n = 0;
	struct frame *f = frame_take(e, false);

	if (f == NULL)
		return 0;
	struct wire_transfer *h = frame_head(f);

	for (struct request *r = first; r != NULL && n < most && r->kind == REQUEST_ENDED &&
		r->ctx == first->ctx && r->node == first->node && r->peer == first->peer;
		r = r->next) {
		const struct wire_ended item = {wire_be32(r->id), wire_be32(r->error)};

		memcpy((uint8_t *)(h + 1) + n++ * sizeof(item), &item, sizeof(item));
	}
	*h = (struct wire_transfer){.op = WIRE_ENDED, .len = wire_be64(n)};
	int result = reply(e, ch, first, f, n * (uint32_t)sizeof(struct wire_ended));

	if (result == -EAGAIN) {
		frame_put(e, f);
		return 0;
	}
	if (result != 0)
		frame_put(e, f); /* it cannot be told */
	for (uint32_t i = 0; i < n; i++)
		request_put(e, request_pop(e));
	return n;
}

/* Notifications that waited go to their applications; their pushes end. */
static void
events_pass(struct engine *e)
{
	for (unsigned i = 0; i < e->open_count; i++) {
		struct channel *ch = e->open[i];
		struct rma_context *remote = rma_context(ch);

		while (remote->event_head != NULL && event_put(e, ch, &remote->event_head->event)) {
			struct request *r = remote->event_head;

			remote->event_head = r->next;
			remote->events_waiting--;
			rma_lane(e)->events_waiting--;
			r->kind = REQUEST_ENDED;
			request_append(e, r);
		}
	}
}

unsigned
requests_step(struct engine *e)
{
	struct rma_lane *x = rma_lane(e);
	unsigned work = 0, burst = e->node->config.burst;
	const struct request *first = NULL;

	if (unlikely(x->events_waiting))
		events_pass(e);

	for (unsigned turn = 0;
		x->requests.head != NULL && work < burst && x->requests.head != first && turn < 256;
		turn++) {
		struct request *r = x->requests.head;
		struct channel *ch = &e->node->channels[r->ctx];
		bool ended = false;
		unsigned k = 0;

		if (r->kind == REQUEST_ENDED) {
			k = ended_send(e);
			if (k == 0)
				break;
			work += k;
			continue;
		}
		if (r->kind == REQUEST_PULL &&
			rma_context(ch)->frames - rma_context(ch)->own_frames < x->frames_max / 2)
			k = r->in_parts ? pull_parts(e, ch, r, &ended)
					: pull_piece(e, ch, r, &ended);
		work += k;
		if (r->kind == REQUEST_ENDED)
			continue;
		request_pop(e);
		if (ended) {
			request_put(e, r);
			continue;
		}
		request_append(e, r);
		if (k == 0 && first == NULL)
			first = r;
	}
	if (x->requests.head == NULL)
		service_owes_nothing(e, RMA_SERVICE);
	return work;
}

/* Requests of `ch` that `gone` says have lost what they read end with an error. */
void
requests_fail(struct engine *e, struct channel *ch,
	bool (*gone)(const struct request *, const void *), const void *what, uint8_t error)
{
	for (struct request *r = rma_lane(e)->requests.head; r != NULL; r = r->next) {
		if (r->ctx == ch->ctx && r->kind == REQUEST_PULL && gone(r, what))
			pull_fail(r, error);
	}
}

static bool
reads_offer(const struct request *r, const void *id)
{
	return r->of_offer && r->key == *(const uint32_t *)id;
}

void
requests_offer_ends(struct engine *e, struct channel *ch, uint32_t id)
{
	requests_fail(e, ch, reads_offer, &id, ECONNRESET);
}

void
requests_close(struct engine *e, struct channel *ch)
{
	struct rma_lane *x = rma_lane(e);
	struct rma_context *context = rma_context(ch);
	struct request *r = x->requests.head;

	x->requests.head = NULL;
	while (r != NULL) {
		struct request *next = r->next;

		if (r->ctx == ch->ctx) {
			r->next = context->free_requests;
			context->free_requests = r;
		} else {
			request_append(e, r);
		}
		r = next;
	}
	while ((r = context->event_head) != NULL) {
		context->event_head = r->next;
		r->next = context->free_requests;
		context->free_requests = r;
	}
	x->events_waiting -= context->events_waiting;
	context->events_waiting = 0;
}
