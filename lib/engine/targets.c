/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The target's side of remote memory: what others ask this lane's contexts for, each access checked
 * against the table of regions before a byte is touched (RMA-3), and the answers. Runs on the lane.
 *
 * Design notes
 * 1. Every message took an entry of the target's room in the core. It is given back at once, or with the
 *    answer: there are as many requests as entries, so one is always free.
 * 2. A frame of a push that is refused is answered at once, in the middle of it, and its asker stops. Its name is kept
 *    until its last frame: that must not be told of, though it may be right by itself. The table is small, and
 *    a name may be lost in it; the asker has the error in any case.
 * 3. Answers to one initiator keep the order of its questions' ends, and several go in one frame.
 */
#include <errno.h>
#include <string.h>

#include <sys/random.h>

#include "engine/engine.h"

/* What a verdict is to the initiator; pmx_strerror() has the sentences. */
static uint8_t
verdict_errno(enum region_verdict v)
{
	static const uint8_t numbers[] = {
		[REGION_OK] = 0,
		[REGION_UNKNOWN] = ENOKEY,
		[REGION_BOUNDS] = ERANGE,
		[REGION_RIGHTS] = EACCES,
		[REGION_STRANGER] = EPERM,
	};

	return numbers[v];
}

/* ------------------------------------------------------------------ requests */

static void
give_back(struct engine *e, struct channel *ch)
{
	proto_ctx_room(e->proto, ch->ctx | WIRE_TARGET, 1, 0, e->now);
}

static void
append(struct engine *e, struct request *r)
{
	struct transfers *x = &e->transfers;

	r->next = NULL;
	if (x->requests.head == NULL)
		x->requests.head = r;
	else
		x->requests.tail->next = r;
	x->requests.tail = r;
}

static struct request *
pop(struct engine *e)
{
	struct request *r = e->transfers.requests.head;

	e->transfers.requests.head = r->next;
	return r;
}

/* For the message at hand, whose entry it keeps. */
static struct request *
request_make(struct engine *e, struct channel *ch, const struct arrival *a, enum request_kind kind)
{
	struct request *r = ch->remote->free_requests;

	if (unlikely(r == NULL)) { /* note 1: cannot be */
		give_back(e, ch);
		return NULL;
	}
	ch->remote->free_requests = r->next;
	r->kind = (uint8_t)kind;
	r->error = 0;
	r->ctx = ch->ctx;
	r->node = a->node;
	r->peer = a->peer;
	r->id = wire_be32(a->head->id);
	return r;
}

static struct request *
request_take(struct engine *e, struct channel *ch, const struct arrival *a, enum request_kind kind)
{
	struct request *r = request_make(e, ch, a, kind);

	if (r != NULL)
		append(e, r);
	return r;
}

/* A notification that its application has no room for; in order with the others. */
static void
event_waits(struct engine *e, struct channel *ch, const struct arrival *a, const struct event_slot *event)
{
	struct remote *remote = ch->remote;
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
	e->transfers.events_waiting++;
}

/* Out of the list already. */
static void
request_put(struct engine *e, struct request *r)
{
	struct channel *ch = &e->node->channels[r->ctx];

	r->next = ch->remote->free_requests;
	ch->remote->free_requests = r;
	give_back(e, ch);
}

static void
answer(struct engine *e, struct channel *ch, const struct arrival *a, uint32_t error)
{
	struct request *r = request_take(e, ch, a, REQUEST_ENDED);

	if (r != NULL)
		r->error = error;
}

/* ------------------------------------------------------------------ access */

/* The region that a message names: by its key, or an area ID of the context that it is for. */
static void
name_region(const struct channel *ch, const struct arrival *a, struct region_access *access)
{
	uint64_t key = wire_be64(a->head->key);

	access->ctx = ch->ctx;
	access->key = a->head->flags & WIRE_T_AREA ? 0 : key;
	access->area = a->head->flags & WIRE_T_AREA && key < REGION_NO_AREA ? (uint32_t)key : REGION_NO_AREA;
}

/* May `right` be had over len bytes at `at` of what the head names? 0 and where they are, or an errno. */
static uint8_t
access_to(struct engine *e, struct channel *ch, const struct arrival *a, uint8_t right, uint64_t at, uint64_t len,
	struct bytes *where, uint64_t *key)
{
	const struct wire_transfer *h = a->head;
	const struct region *region;
	uint64_t offset;
	struct region_access access = {
		.right = right,
		.at = at,
		.len = len,
	};
	enum region_verdict v = REGION_UNKNOWN;

	if (h->flags & WIRE_T_OFFER) {
		struct op *op = transfer_named(ch, a, right == REGION_READ ? TRANSFER_OFFER : TRANSFER_ACCEPT);

		/* it has ended, or was fetched before */
		if (op == NULL || (right == REGION_READ && op->state != OP_OFFERED))
			return ECONNRESET;
		if (len > op->d.len)
			return ERANGE;
		op->seen_at = e->now;
		*where = op->local;
		where->len = len;
		if (key != NULL)
			*key = op->d.id;
		return 0;
	}
	name_region(ch, a, &access);
	v = region_check(&e->transfers.regions, &access, &region, &offset);
	if (v != REGION_OK)
		return verdict_errno(v);
	if (region->watched < REGIONS_WATCHED &&
		atomic_load_explicit(&ch->shm->revoked[region->watched], memory_order_relaxed))
		return ENOKEY;
	*where = (struct bytes){&ch->space, region->memory, region->base + offset, len};
	if (key != NULL)
		*key = region->key;
	return 0;
}

/* Bytes that the runs span; false: they do not fit their frame. */
static bool
measure_runs(const uint8_t *p, uint32_t left, uint64_t *span)
{
	struct wire_runs r = {p, left, 0, 0, 0};

	while (wire_run_next(&r) != NULL)
		;
	*span = r.end;
	return r.left == 0;
}

/* kept: a device copies, target_placed comes later. */
static uint8_t
place(struct engine *e, struct channel *ch, const struct arrival *a, bool *kept)
{
	struct bytes to;
	uint64_t span = a->len, offset = wire_be64(a->head->offset), len = wire_be64(a->head->len);
	bool runs = a->head->flags & WIRE_T_RUNS;

	if ((runs && !measure_runs(a->bytes, a->len, &span)) || offset > len || span > len - offset)
		return EPROTO;
	/* all of the transfer, not just this frame: what is refused touches nothing */
	uint8_t error = access_to(e, ch, a, REGION_WRITE, wire_be64(a->head->at), len, &to, NULL);

	if (unlikely(error))
		return error;
	if (unlikely(runs))
		return memory_place(&to, offset, a->bytes, a->len, &span);
	if (to.memory != NULL && dma_copy(e, ch, a, to.memory, to.memory->base + (to.at - to.memory->client) + offset)) {
		*kept = true;
		return 0;
	}
	return a->len != 0 && memory_write(&to, offset, a->bytes, a->len) != 0 ? EFAULT : 0;
}

/* ------------------------------------------------------------------ pushes */

static bool
put_event(struct engine *e, struct channel *ch, const struct event_slot *event)
{
	struct slot_end *end = &ch->remote->events;

	if (!slot_room(end, 1))
		return false;
	memcpy(slot_at(end, end->pos)->body, event, sizeof(*event));
	slot_publish(end, end->pos++);
	channel_touch(e, ch);
	return true;
}

static struct refusal *
refusal_of(struct engine *e, const struct channel *ch, const struct arrival *a)
{
	uint32_t id = wire_be32(a->head->id);

	return &e->transfers.refused[(id ^ id >> 16 ^ ch->ctx * 5u ^ a->node * 11u ^ a->peer * 17u) % REFUSALS];
}

static bool
is_refusal(const struct refusal *r, const struct channel *ch, const struct arrival *a)
{
	return r->error && r->id == wire_be32(a->head->id) && r->ctx == ch->ctx && r->node == a->node && r->peer == a->peer;
}

/* The last frame of a push is placed. */
static void
push_ends(struct engine *e, struct channel *ch, const struct arrival *a)
{
	const struct event_slot event = {.imm = wire_be64(a->head->imm), .len = wire_be64(a->head->len),
		.node = a->node, .ctx = a->peer};
	struct remote *remote = ch->remote;
	struct refusal *refusal = refusal_of(e, ch, a);

	if (unlikely(is_refusal(refusal, ch, a))) { /* but not all before it was */
		answer(e, ch, a, refusal->error);
		refusal->error = 0;
		return;
	}
	remote->served++;
	if (a->head->flags & WIRE_T_OFFER) {
		struct op *op = transfer_named(ch, a, TRANSFER_ACCEPT);

		if (op != NULL)
			transfer_end(e, ch, op, 0);
	}
	if (!(a->head->flags & WIRE_T_NOTIFY) || (remote->events_waiting == 0 && put_event(e, ch, &event))) {
		answer(e, ch, a, 0);
		return;
	}
	if (remote->events_waiting >= e->node->config.requests / 2) {
		answer(e, ch, a, ENOBUFS);
		return;
	}
	event_waits(e, ch, a, &event);
}

/* The bytes of a frame of a push are in their place. */
void
target_placed(struct engine *e, struct channel *ch, const struct arrival *a)
{
	if (a->head->flags & WIRE_T_LAST)
		push_ends(e, ch, a);
	else
		give_back(e, ch);
}

/* true: a->m is kept. */
static bool
push_arrives(struct engine *e, struct channel *ch, const struct arrival *a)
{
	bool kept = false;
	uint8_t error = place(e, ch, a, &kept);

	if (unlikely(error)) {
		struct refusal *refusal = refusal_of(e, ch, a);

		ENGINE_COUNT(e, refused_accesses);
		ch->remote->refused += !is_refusal(refusal, ch, a);
		*refusal = (struct refusal){wire_be32(a->head->id), ch->ctx, a->node, a->peer, error};
		if (a->head->flags & WIRE_T_LAST)
			refusal->error = 0;
		answer(e, ch, a, error);
		return false;
	}
	if (kept || dma_later(e, ch, a))
		return true;
	target_placed(e, ch, a);
	return false;
}

/* ------------------------------------------------------------------ pulls */

/* Which bytes of what was granted: 0, or an errno. */
static uint8_t
parts_of(struct request *r, const struct arrival *a)
{
	struct part part = {.bytes = r->source.len};

	if (a->head->flags & WIRE_T_STRIDE) {
		struct wire_stride s;

		memcpy(&s, a->bytes, sizeof(s));
		part.kind = PART_STRIDE;
		part.stride.dims = wire_be32(s.dims);
		part.stride.block = wire_be64(s.block);
		for (unsigned i = 0; i < PART_DIMS_MAX; i++) {
			part.stride.interval[i] = wire_be64(s.interval[i]);
			part.stride.count[i] = wire_be64(s.count[i]);
		}
	} else {
		const struct wire_bitmap *b = (const struct wire_bitmap *)a->bytes;

		part.kind = PART_BITMAP;
		part.bitmap.unit = wire_be32(b->unit);
		part.bitmap.bits = r->bits;
		memcpy(r->bits, b->bits, sizeof(r->bits));
		r->base = wire_be64(a->head->offset);
		if (r->base > r->source.len)
			return EINVAL;
		r->source.at += r->base;
		r->source.len -= r->base;
		part.bytes = (uint64_t)part.bitmap.unit * WIRE_BITMAP_UNITS;
		if (part.bytes > r->source.len)
			part.bytes = r->source.len;
	}
	if (part_check(&part) != NULL)
		return EINVAL;
	part_begin(&r->it, &part);
	r->run = (struct part_run){0, 0};
	return 0;
}

static void
pull_arrives(struct engine *e, struct channel *ch, const struct arrival *a)
{
	struct request *r = request_take(e, ch, a, REQUEST_PULL);

	if (r == NULL)
		return;
	r->in_parts = a->head->flags & (WIRE_T_STRIDE | WIRE_T_BITMAP);
	r->of_offer = a->head->flags & WIRE_T_OFFER;
	r->sent = r->base = 0;
	r->error = access_to(e, ch, a, REGION_READ, wire_be64(a->head->at), wire_be64(a->head->len),
		&r->source, &r->key);
	if (r->error == 0 && r->in_parts)
		r->error = parts_of(r, a);
	if (r->error == 0) {
		if (r->of_offer)
			transfer_named(ch, a, TRANSFER_OFFER)->state = OP_WAITS;
		ch->remote->served++;
		return;
	}
	ENGINE_COUNT(e, refused_accesses);
	ch->remote->refused++;
	r->kind = REQUEST_ENDED;
}

static struct wire_transfer *
pulled_head(struct frame *f, const struct request *r, uint64_t at)
{
	struct wire_transfer *h = frame_head(f);

	*h = (struct wire_transfer){.op = WIRE_PULLED, .id = wire_be32(r->id), .offset = wire_be64(at)};
	return h;
}

static void
pull_fails(struct request *r, uint8_t error)
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
		pull_fails(r, EFAULT);
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
				pull_fails(r, (uint8_t)-result);
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
		uint32_t room = e->transfers.payload - used;
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
		pull_fails(r, EFAULT);
		return 1;
	}
	pulled_head(f, r, r->base + at)->flags = WIRE_T_RUNS | (last ? WIRE_T_LAST : 0);
	int result = reply(e, ch, r, f, (uint32_t)used);

	if (result != 0) {
		frame_put(e, f);
		if (result != -EAGAIN)
			pull_fails(r, (uint8_t)-result);
		/* not now: these runs again */
		r->it = it;
		r->run = run;
		r->sent = sent;
		return 0;
	}
	*ended = last;
	return 1;
}

/* ------------------------------------------------------------------ answers */

/* All ends at the head of the list that go to the same initiator, in one frame. 0: not now. */
static unsigned
send_ended(struct engine *e)
{
	struct request *first = e->transfers.requests.head;
	struct channel *ch = &e->node->channels[first->ctx];
	uint32_t most = e->transfers.payload / (uint32_t)sizeof(struct wire_ended), n = 0;
	struct frame *f = frame_take(e, false);

	if (f == NULL)
		return 0;
	struct wire_transfer *h = frame_head(f);

	for (struct request *r = first; r != NULL && n < most && r->kind == REQUEST_ENDED && r->ctx == first->ctx &&
		r->node == first->node && r->peer == first->peer;
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
		request_put(e, pop(e));
	return n;
}

/* Notifications that waited go to their applications; their pushes end. */
static void
pass_events(struct engine *e)
{
	for (unsigned i = 0; i < e->open_count; i++) {
		struct channel *ch = e->open[i];
		struct remote *remote = ch->remote;

		while (remote->event_head != NULL && put_event(e, ch, &remote->event_head->event)) {
			struct request *r = remote->event_head;

			remote->event_head = r->next;
			remote->events_waiting--;
			e->transfers.events_waiting--;
			r->kind = REQUEST_ENDED;
			append(e, r);
		}
	}
}

unsigned
target_step(struct engine *e)
{
	struct transfers *x = &e->transfers;
	unsigned work = 0, burst = e->node->config.burst;
	const struct request *first = NULL;

	if (unlikely(x->events_waiting))
		pass_events(e);

	for (unsigned turn = 0; x->requests.head != NULL && work < burst && x->requests.head != first && turn < 256; turn++) {
		struct request *r = x->requests.head;
		struct channel *ch = &e->node->channels[r->ctx];
		bool ended = false;
		unsigned k = 0;

		if (r->kind == REQUEST_ENDED) {
			k = send_ended(e);
			if (k == 0)
				break;
			work += k;
			continue;
		}
		if (r->kind == REQUEST_PULL && ch->remote->frames - ch->remote->own_frames < x->frames_max / 2)
			k = r->in_parts ? pull_parts(e, ch, r, &ended) : pull_piece(e, ch, r, &ended);
		work += k;
		if (r->kind == REQUEST_ENDED)
			continue;
		pop(e);
		if (ended) {
			request_put(e, r);
			continue;
		}
		append(e, r);
		if (k == 0 && first == NULL)
			first = r;
	}
	return work;
}

/* ------------------------------------------------------------------ in */

/* Somebody has a place for what was offered to it. */
static void
accept_arrives(struct engine *e, struct channel *ch, const struct arrival *a)
{
	struct op *op = transfer_named(ch, a, TRANSFER_OFFER);

	if (op == NULL || op->state != OP_OFFERED) {
		answer(e, ch, a, ECONNRESET);
		return;
	}
	transfer_accepted(e, op, wire_be32(a->head->id), wire_be64(a->head->len));
	give_back(e, ch);
}

/* Is that transfer among those that are still owed something? */
static bool
is_known(const struct engine *e, struct channel *ch, const struct arrival *a)
{
	if (a->head->flags & WIRE_T_OFFER) {
		const struct op *op = transfer_named(ch, a, TRANSFER_OFFER);

		if (op != NULL)
			return true; /* the bytes are on their way, or soon will be */
	}
	for (const struct request *r = e->transfers.requests.head; r != NULL; r = r->next) {
		if (r->ctx == ch->ctx && r->node == a->node && r->peer == a->peer && r->id == wire_be32(a->head->id))
			return true;
	}
	for (const struct request *r = ch->remote->event_head; r != NULL; r = r->next) {
		if (r->node == a->node && r->peer == a->peer && r->id == wire_be32(a->head->id))
			return true;
	}
	return false;
}

/* Memory that can be reached is pinned; it stays so if that is asked for. */
static void
pin_arrives(struct engine *e, struct channel *ch, const struct arrival *a)
{
	uint64_t at = wire_be64(a->head->at), len = wire_be64(a->head->len), key;
	struct bytes where;
	uint8_t error = access_to(e, ch, a, REGION_READ, at, len, &where, &key);

	if (error == EACCES)
		error = access_to(e, ch, a, REGION_WRITE, at, len, &where, &key);
	if (error == 0 && a->head->flags & WIRE_T_HOLD)
		error = pinned_grant(e, ch, a, key);
	ENGINE_COUNT_N(e, pins_refused, error != 0);
	answer(e, ch, a, error);
}

static void
unpin_arrives(struct engine *e, struct channel *ch, const struct arrival *a)
{
	struct region_access access;

	if (a->head->flags & WIRE_T_LAST) {
		pinned_lost(e, ch, a->node, a->peer);
		give_back(e, ch);
		return;
	}
	name_region(ch, a, &access);
	const struct region *region = region_named(&e->transfers.regions, &access);

	answer(e, ch, a, pinned_release(e, ch, a, region != NULL && region->ctx == ch->ctx ? region->key : 0));
}

/* A message to a target, whose entry the core has taken. */
bool
target_message(struct engine *e, struct channel *ch, const struct arrival *a)
{
	bool kept = false;

	if (unlikely(wire_transfer_check(a->head, (uint32_t)sizeof(*a->head) + a->len, true) != WIRE_OK)) {
		ENGINE_COUNT(e, bad_transfers);
		give_back(e, ch);
		return false;
	}
	/* what comes after pushes finds their bytes in place, and its answer behind theirs */
	if (a->head->op != WIRE_PUSH || a->m == NULL)
		dma_drain(e);
	switch ((enum wire_transfer_op)a->head->op) {
	case WIRE_PUSH:
		kept = push_arrives(e, ch, a);
		break;
	case WIRE_PULL:
		pull_arrives(e, ch, a);
		break;
	case WIRE_ACCEPT:
		accept_arrives(e, ch, a);
		break;
	case WIRE_ASK:
		if (is_known(e, ch, a))
			give_back(e, ch);
		else
			answer(e, ch, a, ECONNRESET);
		break;
	case WIRE_PIN:
		pin_arrives(e, ch, a);
		break;
	case WIRE_UNPIN:
		unpin_arrives(e, ch, a);
		break;
	default:
		give_back(e, ch);
	}
	return kept;
}

/* ------------------------------------------------------------------ regions, and what ends */

/* Requests of `ch` that `gone` says have lost what they read end with an error. */
static void
fail_pulls(struct engine *e, struct channel *ch, bool (*gone)(const struct request *, const void *), const void *what,
	uint8_t error)
{
	for (struct request *r = e->transfers.requests.head; r != NULL; r = r->next) {
		if (r->ctx == ch->ctx && r->kind == REQUEST_PULL && gone(r, what))
			pull_fails(r, error);
	}
}

static bool
reads_region(const struct request *r, const void *key)
{
	return !r->of_offer && r->key == *(const uint64_t *)key;
}

static bool
reads_memory(const struct request *r, const void *memory)
{
	return r->source.memory == memory;
}

static bool
reads_offer(const struct request *r, const void *id)
{
	return r->of_offer && r->key == *(const uint32_t *)id;
}

void
target_offer_ends(struct engine *e, struct channel *ch, uint32_t id)
{
	fail_pulls(e, ch, reads_offer, &id, ECONNRESET);
}

struct peer_name {
	uint16_t node, ctx;
};

static bool
is_for(const struct request *r, const void *peer)
{
	const struct peer_name *p = peer;

	return r->node == p->node && r->peer == p->ctx;
}

/* An answer was not Acked: what follows it must not look like all of it. */
void
target_peer_failed(struct engine *e, struct channel *ch, uint16_t node, uint16_t peer, uint8_t error)
{
	const struct peer_name name = {node, peer};

	fail_pulls(e, ch, is_for, &name, ECONNRESET);
	if (error == ECONNREFUSED || error == ETIMEDOUT || error == EHOSTUNREACH)
		pinned_lost(e, ch, node, peer);
}

void
target_memory_gone(struct engine *e, struct channel *ch, const struct memory *m)
{
	struct region *region;
	uint32_t at = 0;

	while ((region = region_of(&e->transfers.regions, ch->ctx, &at)) != NULL) {
		if (region->memory != m)
			continue;
		pinned_ends(e, ch, region->key);
		region_remove(&e->transfers.regions, region);
		ch->remote->regions--;
	}
	fail_pulls(e, ch, reads_memory, m, ENOKEY);
}

static int
add_region(struct engine *e, struct channel *ch, const struct submission *s, uint64_t *key)
{
	struct region region = {
		.base = s->region.addr,
		.len = s->region.len,
		.area = s->region.area,
		.ctx = ch->ctx,
		.rights = s->region.rights < 4 ? (uint8_t)s->region.rights : 0,
		.method = MEMORY_BY_KERNEL,
		.watched = s->region.watched,
	};

	if (s->region.memory != MEMORY_COPIED) {
		const struct memory *m = space_at(&ch->space, s->region.memory, region.base, region.len);

		if (m == NULL)
			return -EFAULT;
		region.memory = (void *)(uintptr_t)m;
		region.method = memory_method(m);
		region.watched = m->watched;
	}
	/* one context never takes all places */
	if (ch->remote->regions >= (e->node->config.regions + 1) / 2)
		return -ENOSPC;
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EAGAIN;
	int result = region_add(&e->transfers.regions, &region, random);

	ch->remote->regions += result == 0;
	*key = region.key;
	return result;
}

/* Answers that are on their way and refer to that memory: the end of a registration waits for them. */
static uint32_t
mark_readers(struct engine *e, const struct channel *ch, const struct memory *m)
{
	struct transfers *x = &e->transfers;
	uint32_t n = 0;

	for (uint32_t i = 0; m != NULL && i < x->frames_max; i++) {
		struct frame *f = &x->frames[i];

		if (f->out && !f->own && f->memory == m && f->src % WIRE_CONTEXTS_MAX == ch->ctx) {
			f->marked = true;
			n++;
		}
	}
	return n;
}

/* One of them came back. */
void
target_unmarked(struct engine *e, struct channel *ch)
{
	struct remote *r = ch->remote;

	if (r->region.waits == 0 || --r->region.waits != 0)
		return;
	r->region.due = true;
	channel_touch(e, ch);
}

/* A client registers a region, or ends it. */
void
target_region(struct engine *e, struct channel *ch, const struct submission *s)
{
	struct remote *remote = ch->remote;
	uint64_t key = s->region.key;
	int result = 0;

	if (s->op == SUBMIT_REGISTER) {
		result = add_region(e, ch, s, &key);
	} else {
		struct region *region = region_find(&e->transfers.regions, key);

		if (region == NULL || region->ctx != ch->ctx) {
			result = -ENOKEY;
		} else if (unlikely(remote->pins != 0) && pinned_by_others(e, ch, key)) {
			result = -EBUSY;
		} else {
			dma_drain(e);
			remote->region.waits = mark_readers(e, ch, region->memory);
			region_remove(&e->transfers.regions, region);
			remote->regions--;
			fail_pulls(e, ch, reads_region, &key, ENOKEY);
		}
	}
	remote->region.due = remote->region.waits == 0;
	remote->region.ticket = s->region.ticket;
	remote->region.error = (uint32_t)-result;
	remote->region.key = key;
	channel_touch(e, ch);
}

/* The context ends: nobody reaches its memory any more. */
void
target_close(struct engine *e, struct channel *ch)
{
	struct transfers *x = &e->transfers;
	struct request *r = x->requests.head;
	struct region *region;
	uint32_t at = 0;

	pinned_ends(e, ch, 0);
	while ((region = region_of(&x->regions, ch->ctx, &at)) != NULL)
		region_remove(&x->regions, region);
	x->requests.head = NULL;
	while (r != NULL) {
		struct request *next = r->next;

		if (r->ctx == ch->ctx) {
			r->next = ch->remote->free_requests;
			ch->remote->free_requests = r;
		} else {
			append(e, r);
		}
		r = next;
	}
	while ((r = ch->remote->event_head) != NULL) {
		ch->remote->event_head = r->next;
		r->next = ch->remote->free_requests;
		ch->remote->free_requests = r;
	}
	x->events_waiting -= ch->remote->events_waiting;
	ch->remote->events_waiting = ch->remote->regions = 0;
}
