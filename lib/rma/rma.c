/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory: the layout of its memory block, contexts, frames, and what the caller pulls.
 */
#include "rma/internal.h"

/* ------------------------------------------------------------------ memory */

static bool
config_ok(const struct rma_config *g)
{
	return g->contexts_max > 0 && g->contexts_max <= WIRE_CONTEXTS_MAX && g->contexts_by > 0 &&
		g->contexts_from < g->contexts_by && g->transfers_max > 0 &&
		g->transfers_max + g->fetches_max <= 1024 && g->requests_max > 0 &&
		g->regions_max > 0 && g->regions_max <= UINT16_MAX && g->frames_max >= 8 &&
		g->payload_max >= sizeof(struct wire_bitmap) && g->ticks_per_sec >= 1000 &&
		g->counters != NULL && g->life != NULL && g->receiver != NULL &&
		g->memory != NULL && g->revoked != NULL && g->member != NULL;
}

static uint32_t
contexts_of(const struct rma_config *g)
{
	return g->contexts_max <= g->contexts_from
		? 0
		: (g->contexts_max - g->contexts_from + g->contexts_by - 1) / g->contexts_by;
}

/* Take an array from the front of the block. With base NULL, the sizes are only summed up. */
static void *
carve(uint8_t *base, size_t *used, size_t count, size_t size)
{
	size_t at = *used;

	*used = (at + count * size + 63) & ~(size_t)63;
	return base != NULL ? base + at : NULL;
}

static size_t
rma_lay_out(struct rma *r, const struct rma_config *g, uint8_t *base)
{
	uint32_t n = contexts_of(g), ops = g->transfers_max + g->fetches_max;
	size_t used = 0;

	carve(base, &used, 1, sizeof(*r));
	struct rma_context **contexts = carve(base, &used, g->contexts_max,
		sizeof(struct rma_context *));
	struct rma_context *all = carve(base, &used, n, sizeof(*all));
	struct rma_frame *frames = carve(base, &used, g->frames_max, sizeof(*frames));
	struct region *regions = carve(base, &used, g->regions_max, sizeof(*regions));
	struct pin *pins = carve(base, &used, g->regions_max, sizeof(*pins));

	for (uint32_t i = 0; i < n; i++) {
		struct op *o = carve(base, &used, ops, sizeof(*o));
		struct rma_request *q = carve(base, &used, g->requests_max, sizeof(*q));

		if (base == NULL)
			continue;
		all[i].ctx = (uint16_t)(g->contexts_from + i * g->contexts_by);
		all[i].ops = o;
		all[i].ops_max = ops;
		for (uint32_t k = 0; k < ops; k++)
			o[k].result = (struct rma_result){
				.desc = &o[k].d,
				.ctx = all[i].ctx,
				.place = (uint16_t)k,
				.fetched = k >= g->transfers_max,
			};
		all[i].requests = q;
		contexts[all[i].ctx] = &all[i];
	}
	if (base == NULL)
		return used;
	r->contexts = contexts;
	r->all = all;
	r->contexts_count = n;
	r->frames = frames;
	r->pins = pins;
	region_table_init(&r->regions, regions, g->regions_max);
	return used;
}

size_t
rma_memsize(const struct rma_config *config)
{
	return config_ok(config) ? rma_lay_out(NULL, config, NULL) : 0;
}

struct rma *
rma_init(void *memory, const struct rma_config *config)
{
	struct rma *r = memory;

	if (!config_ok(config))
		return NULL;
	r->cfg = *config;
	rma_lay_out(r, config, memory);
	r->look_ticks = config->ticks_per_sec / 1000;
	r->ask_ticks = config->ticks_per_sec * config->ask_us / 1000000;
	r->ask_offer_ticks = config->ticks_per_sec * config->ask_offer_us / 1000000;
	r->tell_ticks = config->ticks_per_sec / 10;
	for (uint32_t i = config->frames_max; i-- > 0;) {
		r->frames[i].next = r->free_frames;
		r->free_frames = &r->frames[i];
	}
	r->frames_free = config->frames_max;
	r->quota = config->frames_max - config->frames_max / 4;
	return r;
}

/* ------------------------------------------------------------------ contexts */

void
rma_open(struct rma *r, uint16_t ctx)
{
	struct rma_context *c = r->contexts[ctx];
	const struct rma_context fresh = {
		.ops = c->ops,
		.ops_max = c->ops_max,
		.requests = c->requests,
		.news = c->news,
		.has_news = c->has_news,
		.ctx = ctx,
		.open = true,
	};

	*c = fresh;
	for (uint32_t i = 0; i < r->cfg.requests_max; i++) {
		c->requests[i].next = c->free_requests;
		c->free_requests = &c->requests[i];
	}
}

void
rma_close(struct rma *r, uint16_t ctx)
{
	struct rma_context *c = r->contexts[ctx];

	rma_start(r, ctx, 0);
	c->open = false;
	registration_close(r, c);
	requests_close(r, c);
	ops_close(r, c);
	c->room = 0;
	c->readers = 0;
}

void
rma_stop(struct rma *r, uint16_t ctx)
{
	struct rma_context *c = r->contexts[ctx];

	if (c->stopped || !c->open)
		return;
	c->stopped = true;
	ops_stop(r, c);
	requests_sort(r, &r->requests);
}

void
rma_start(struct rma *r, uint16_t ctx, uint64_t now)
{
	struct rma_context *c = r->contexts[ctx];

	if (!c->stopped)
		return;
	c->stopped = false;
	ops_start(r, c, now);
	requests_sort(r, &r->stopped_requests);
}

bool
rma_leaves(const struct rma *r, uint16_t ctx)
{
	return pinning_any(r->contexts[ctx]);
}

bool
rma_has_frames(const struct rma *r, uint16_t ctx)
{
	return r->contexts[ctx]->frames != 0;
}

void
rma_memory_gone(struct rma *r, uint16_t ctx, const void *memory)
{
	ops_memory_gone(r, r->contexts[ctx], memory);
	registration_memory_gone(r, r->contexts[ctx], memory);
}

/* ------------------------------------------------------------------ frames */

struct rma_frame *
rma_frame(struct rma *r, uint32_t i)
{
	return &r->frames[i];
}

static void
frame_put(struct rma *r, struct rma_frame *f)
{
	f->next = r->free_frames;
	r->free_frames = f;
	r->frames_free++;
	*(f->own ? &r->own_out : &r->answers_out) -= 1;
	f->out = false;
}

static inline struct rma_context *
context_of(struct rma *r, const struct rma_frame *f)
{
	return r->contexts[f->src % WIRE_CONTEXTS_MAX];
}

struct rma_frame *
rma_packed_copy(struct rma *r, uint16_t ctx, uint16_t dst_ctx, uint32_t id, uint32_t len)
{
	struct rma_context *c = r->contexts[ctx];
	struct rma_frame *f = frame_take(r, true);

	if (f == NULL)
		return NULL;
	r->turn.n = 0;
	frame_out(r, f, c, WIRE_INITIATOR, r->cfg.node, dst_ctx | WIRE_TARGET, len, len);
	f->id = id;
	c->frames++;
	c->own_frames++;
	return f;
}

void
rma_turn(struct rma *r)
{
	r->first_put_off = NULL;
	r->answers = r->pushes = 0;
}

void
rma_sent(struct rma *r, unsigned count, uint8_t error, uint64_t now)
{
	struct turn *t = &r->turn;
	struct rma_context *c = context_of(r, t->frames[0]);

	c->frames += count;
	if (t->frames[0]->own)
		c->own_frames += count;
	switch (t->kind) {
	case TURN_NONE:
		break;
	case TURN_PUSH:
	case TURN_QUESTION:
	case TURN_ASK:
		op_sent(r, count, error, now);
		break;
	case TURN_PIECE:
	case TURN_PARTS:
	case TURN_FETCH:
	case TURN_ENDED:
		request_sent(r, count, error);
		break;
	case TURN_TOLD:
		remote_pin_told(r, count, now);
		break;
	case TURN_LEAVES:
		pinning_left(r, count, error);
		break;
	}
	for (unsigned i = count; i < t->n; i++)
		frame_put(r, t->frames[i]);
	t->kind = TURN_NONE;
	t->n = 0;
}

/* Return whether a frame may be sent once more. Only answers, and transfers that refer to an offer,
 * may be sent twice: a receiver for which they are not meant does not know their id. Frames of a
 * closed context are not sent again. */
bool
rma_again(struct rma *r, struct rma_frame *f)
{
	if (f->retried || (f->own && !(f->head->flags & WIRE_T_OFFER)) || !context_of(r, f)->open ||
		f->node == r->cfg.node)
		return false;
	f->retried = true;
	return true;
}

/* Take note that a frame has come back for which a deregistration waits. */
static void
reader_gone(struct rma *r, struct rma_context *c)
{
	if (c->readers == 0 || --c->readers != 0)
		return;
	c->readers_gone = true;
	context_has_news(r, c);
}

/* Keep later frames of the same transfer from being sent again after a frame that did not arrive,
 * or the transfer would look complete. */
void
rma_lost(struct rma *r, const struct rma_frame *lost)
{
	const uint32_t id = lost->head->id;

	/* id 0: the frame is of several transfers, or of none */
	for (uint32_t i = 0; id != 0 && i < r->cfg.frames_max; i++) {
		struct rma_frame *f = &r->frames[i];

		if (f->out && f->src == lost->src && f->node == lost->node && f->dst == lost->dst &&
			f->head->id == id)
			f->retried = true;
	}
}

void
rma_acked(struct rma *r, struct rma_frame *f, uint8_t error)
{
	struct rma_context *c = context_of(r, f);

	c->frames--;
	c->own_frames -= f->own;
	if (unlikely(f->ends_offer)) {
		struct op *op = op_find(c, f->id);

		if (op != NULL && op->d.kind == TRANSFER_OFFER)
			op_end(r, c, op, error);
	}
	if (unlikely(f->marked))
		reader_gone(r, c);
	if (unlikely(error))
		rma_lost(r, f);
	if (unlikely(f->own && error && f->src / WIRE_CONTEXTS_MAX == 3))
		rma_offers_lost(r, c->ctx, f->node, f->dst % WIRE_CONTEXTS_MAX, error);
	if (unlikely(f->own && (error || f->asks))) {
		struct op *op = op_find(c, f->id);

		if (op != NULL && f->asks)
			op->asking = false;
		if (op != NULL && error)
			op_end(r, c, op, error);
	} else if (unlikely(error)) {
		target_peer_failed(r, c, f->node, f->dst % WIRE_CONTEXTS_MAX, error);
	}
	frame_put(r, f);
}

void
rma_tick(struct rma *r, uint64_t now)
{
	if (r->waiting == 0 || now < r->look_at)
		return;
	r->look_at = now + r->look_ticks;
	ops_look(r, now);
}

uint64_t
rma_deadline(const struct rma *r)
{
	return r->waiting != 0 ? r->look_at : UINT64_MAX;
}

/* ------------------------------------------------------------------ pulled */

unsigned
rma_has(const struct rma *r)
{
	return (r->ended.head != NULL ? RMA_HAS_RESULTS : 0) |
		(r->news != NULL ? RMA_HAS_NEWS : 0) |
		(r->requests.head != NULL || r->tells != 0 ? RMA_HAS_ANSWERS : 0) |
		(r->events_waiting != 0 ? RMA_HAS_EVENTS : 0) |
		(r->waiting != 0 ? RMA_HAS_WORK : 0);
}

bool
rma_news(struct rma *r, struct rma_news *out)
{
	struct rma_context *c = r->news;

	if (c == NULL)
		return false;
	r->news = c->news;
	*out = (struct rma_news){c->ctx, c->room, c->readers_gone};
	c->room = 0;
	c->has_news = c->readers_gone = false;
	return true;
}

/* ------------------------------------------------------------------ looking */

void
rma_stat(const struct rma *r, uint16_t ctx, struct rma_stat *out)
{
	const struct rma_context *c = r->contexts[ctx];

	*out = (struct rma_stat){
		.transfers = c->ops_used,
		.pushed = c->kept.pushed,
		.pulled = c->kept.pulled,
		.failed = c->kept.failed,
		.served = c->kept.served,
		.refused = c->kept.refused,
	};
}

struct region_table *
rma_regions(struct rma *r)
{
	return &r->regions;
}

uint32_t
rma_frames_free(const struct rma *r)
{
	return r->frames_free;
}

/* ------------------------------------------------------------------ going on elsewhere */

bool
rma_is_drained(const struct rma *r, uint32_t ctx)
{
	if (ctx == RMA_ALL)
		return r->requests.head == NULL && r->stopped_requests.head == NULL &&
			r->tells == 0 && r->ended.head == NULL;
	const struct rma_context *c = r->contexts[ctx];

	return c->frames == 0 && c->ops_used == 0 && c->readers == 0 && c->events_waiting == 0;
}

void
rma_spans(struct rma *r, struct rma_span out[RMA_SPANS])
{
	out[0] = (struct rma_span){r->refused, sizeof(r->refused)};
	out[1] = (struct rma_span){&r->pins_used, sizeof(r->pins_used)};
	out[2] = (struct rma_span){r->pins, r->cfg.regions_max * sizeof(*r->pins)};
}

struct rma_span
rma_context_span(struct rma *r, uint16_t ctx)
{
	struct rma_context *c = r->contexts[ctx];

	return (struct rma_span){&c->kept, sizeof(c->kept)};
}

bool
rma_restored(struct rma *r)
{
	if (r->pins_used > r->cfg.regions_max)
		return false;
	for (uint32_t i = 0; i < r->pins_used; i++) {
		struct rma_context *c = r->pins[i].ctx < r->cfg.contexts_max
			? r->contexts[r->pins[i].ctx]
			: NULL;

		if (c == NULL)
			return false;
		c->pins++;
		r->tells += r->pins[i].tell;
	}
	return true;
}
