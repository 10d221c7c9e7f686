/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Matching by the engine (engine.matching = engine): receives and probes are submitted, and results
 * come in completions. The engine writes messages directly to their places if these are in one
 * piece; others, and runs, it writes into one buffer (staging), from which they are copied here.
 */
#include <errno.h>

#include "match/client/match.h"

/* Submit a request of this kind to the engine. false: the submission ring is full. */
static bool
match_engine_submit(struct pmx_context *ctx, uint32_t i, enum receive_kind kind)
{
	const struct match_request *r = &ctx->match->requests[i];
	bool has_bytes = kind == RECEIVE_POST || kind == RECEIVE_TAKEN;
	void *local = r->staging != NULL ? r->staging : r->layout.data;
	uint64_t len = !has_bytes ? 0 : r->staging != NULL ? r->staged : r->layout.len;

	if (!slot_room(&ctx->sub, 1))
		return false;
	struct submission *s = (struct submission *)slot_at(&ctx->sub, ctx->sub.pos)->body;

	s->op = SUBMIT_RECEIVE;
	s->count = (uint16_t)kind;
	s->receive.index = i;
	s->receive.comm = r->want.comm;
	s->receive.source = r->want.source;
	s->receive.tag = r->want.tag;
	s->receive.ignore = r->want.ignore;
	s->receive.memory = len > 0 ? (uint32_t)piece_of(ctx, local, len) : MEMORY_COPIED;
	s->receive.local = (uintptr_t)local;
	s->receive.len = len;
	slot_publish(&ctx->sub, ctx->sub.pos++);
	ctx_doorbell(ctx);
	return true;
}

/* Submit a request of this kind to the engine. Without room it waits in a list, in order, until
 * there is some. */
static void
submit_later(struct pmx_context *ctx, uint32_t i, enum receive_kind kind)
{
	struct match *x = ctx->match;

	x->requests[i].kind = (uint8_t)kind;
	if (x->starting.head != NO_REQUEST || !match_engine_submit(ctx, i, kind))
		list_append(x, &x->starting, i);
}

static void
match_engine_start(struct pmx_context *ctx)
{
	struct match *x = ctx->match;

	while (x->starting.head != NO_REQUEST &&
		match_engine_submit(ctx, x->starting.head, x->requests[x->starting.head].kind))
		x->starting.head = x->requests[x->starting.head].next;
}

int
offload_progress(struct pmx_context *ctx)
{
	int result = ctx_idle(ctx);

	if (unlikely(ctx->match->starting.head != NO_REQUEST))
		match_engine_start(ctx);
	return result;
}

/* Prepare the local memory for a message: with stage a buffer of so many bytes, otherwise the
 * layout itself; pin it if necessary. 0, or -errno. */
static int
make_place(struct pmx_context *ctx, struct match_request *r, uint64_t bytes, bool stage)
{
	if (stage) {
		r->staging = malloc(bytes ? bytes : 1);
		r->staged = bytes;
		if (r->staging == NULL)
			return -ENOMEM;
	}
	uint64_t len = stage ? bytes : r->layout.len;
	void *local = stage ? r->staging : r->layout.data;
	int64_t memory = len > 0 ? piece_of(ctx, local, len) : 0;
	int result = memory < 0           ? (int)memory
		: memory == MEMORY_COPIED ? pins_get(ctx, local, len, &r->pin)
					  : 0;

	if (result != 0) {
		free(r->staging);
		r->staging = NULL;
	}
	return result;
}

int
offload_receive(struct pmx_context *ctx, uint32_t i)
{
	struct match_request *r = &ctx->match->requests[i];
	int result = make_place(ctx, r, r->layout.total, !is_direct(&r->layout));

	if (result != 0)
		return result;
	r->state = REQUEST_POSTED;
	submit_later(ctx, i, RECEIVE_POST);
	return 0;
}

/* Submit a probe and wait for the engine's answer. Return it: enum receive_result; 0: the engine is
 * gone. */
static uint8_t
match_engine_answer(struct pmx_context *ctx, uint32_t i, enum receive_kind kind)
{
	struct match_request *r = &ctx->match->requests[i];

	r->answer = 0;
	submit_later(ctx, i, kind);
	while (r->answer == 0 && !ctx_gone(ctx)) {
		if (offload_progress(ctx) == 0 && r->answer == 0)
			ctx_wait(ctx);
	}
	return r->answer;
}

int
offload_probe(struct pmx_context *ctx, const struct match_want *want, struct pmx_status *status,
	uint32_t i, bool take)
{
	struct match_request *r = &ctx->match->requests[i];

	r->state = REQUEST_ASKS;
	r->want = *want;
	if (match_engine_answer(ctx, i, take ? RECEIVE_TAKE : RECEIVE_PROBE) != RECEIVE_FOUND)
		return r->answer == 0 ? -EPIPE : r->status.error;
	*status = r->status;
	return 1;
}

int
offload_receive_taken(struct pmx_context *ctx, struct match_request *r)
{
	bool runs = r->flags & WIRE_M_RUNS;
	uint64_t bytes = runs || r->status.len < r->layout.total ? r->status.len : r->layout.total;
	int result = make_place(ctx, r, bytes, runs || !is_direct(&r->layout));

	if (result != 0)
		return result;
	r->state = REQUEST_FETCHES;
	submit_later(ctx, (uint32_t)(r - ctx->match->requests), RECEIVE_TAKEN);
	return 0;
}

static inline bool
was_cancelled(const struct match_request *r)
{
	return r->state == REQUEST_ENDED && r->status.error == -ECANCELED;
}

bool
offload_cancel(struct pmx_context *ctx, struct match_request *r)
{
	struct match *x = ctx->match;
	uint32_t i = (uint32_t)(r - x->requests);
	struct match_list *l = &x->starting;

	for (uint32_t at = l->head, before = NO_REQUEST; at != NO_REQUEST;
		before = at, at = x->requests[at].next) {
		if (at != i)
			continue;
		if (before == NO_REQUEST)
			l->head = r->next;
		else
			x->requests[before].next = r->next;
		if (l->tail == i)
			l->tail = before;
		if (r->pin != PIN_NONE)
			pins_put(r->pin);
		r->pin = PIN_NONE;
		request_end(ctx, r, -ECANCELED);
		return true;
	}
	/* the receive may end by itself while there is no room to submit */
	while (x->starting.head != NO_REQUEST || !match_engine_submit(ctx, i, RECEIVE_CANCEL)) {
		offload_progress(ctx);
		if (r->state != REQUEST_POSTED || ctx_gone(ctx))
			return false;
		ctx_wait(ctx);
	}
	r->answer = 0;
	/* wait for the answer even if the receive has ended, so that a later request cannot get
	 * it */
	while (r->answer != RECEIVE_LATE && !was_cancelled(r) && !ctx_gone(ctx)) {
		if (offload_progress(ctx) == 0 && r->answer != RECEIVE_LATE && !was_cancelled(r))
			ctx_wait(ctx);
	}
	return was_cancelled(r);
}

/* ------------------------------------------------------------------ results */

static void
ended(struct pmx_context *ctx, struct match_request *r, int error)
{
	uint64_t len = r->status.len < r->staged ? r->status.len : r->staged;

	if (r->pin != PIN_NONE)
		pins_put(r->pin);
	r->pin = PIN_NONE;
	ctx->match->stat.matched += error != -ECANCELED;
	if (r->staging != NULL && (error == 0 || error == -EMSGSIZE)) {
		int placed = receive_place(r, r->staging, len);

		error = error != 0 ? error : placed;
	}
	receive_complete(ctx, r, error);
}

/* Go on with a receive that has matched a message of runs: make the buffer of their own that they
 * need, and have them written into it. */
static void
runs_wait(struct pmx_context *ctx, uint32_t i)
{
	struct match *x = ctx->match;
	struct match_request *r = &x->requests[i];

	free(r->staging);
	r->staging = NULL;
	if (r->pin != PIN_NONE)
		pins_put(r->pin);
	r->pin = PIN_NONE;
	r->state = REQUEST_FETCHES;
	int error = make_place(ctx, r, r->status.len <= UINT32_MAX ? r->status.len : 0, true);

	if (error != 0) { /* receive 0 bytes of it all the same, so that its send ends */
		r->status.error = error;
		r->layout = (struct match_layout){0};
	}
	submit_later(ctx, i, RECEIVE_TAKEN);
}

void
offload_results(struct pmx_context *ctx, const struct completion *c)
{
	struct match *x = ctx->match;

	for (uint32_t k = 0; x != NULL && k < (c->count & 0xFFFF) && k < 2; k++) {
		struct completion_receive item;

		memcpy(&item, (const uint8_t *)c->item + k * sizeof(item), sizeof(item));
		struct match_request *r = item.index < x->used ? &x->requests[item.index] : NULL;

		/* whatever state the request is in by now */
		if (r != NULL && item.result == RECEIVE_LATE)
			r->answer = RECEIVE_LATE;
		if (r == NULL || r->state < REQUEST_POSTED || r->state > REQUEST_ASKS)
			continue;
		if (r->state == REQUEST_ASKS)
			r->answer = item.result;
		if (item.result == RECEIVE_LATE || item.result == RECEIVE_NONE) {
			r->status.error = item.result == RECEIVE_NONE ? -(int)item.error
								      : r->status.error;
			continue;
		}
		r->status.source = addr_of(item.source);
		r->status.flags = r->status.label = 0;
		if (unlikely(item.more)) {
			struct completion_immediate immediate;

			memcpy(&immediate, (const uint8_t *)c->item + sizeof(item),
				sizeof(immediate));
			r->status.flags = PMX_IMMEDIATE;
			r->status.label = (uint16_t)immediate.label;
			r->status.immediate = immediate.value;
		}
		r->status.tag = item.tag;
		r->status.len = item.len;
		r->flags = item.runs ? WIRE_M_RUNS : 0;
		if (item.result == RECEIVE_ENDED)
			ended(ctx, r, -(int)item.error);
		else if (item.result == RECEIVE_WAITS)
			runs_wait(ctx, item.index);
	}
}
