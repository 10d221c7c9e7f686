/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Receiving. As in send.c: no system call except for the doorbell of a sleeping engine and
 * those of yield.c after polls that find nothing; no lock, no allocation, nothing shared but the
 * rings.
 *
 * Short messages are copied out of their LHS entry (one cache line) at once, so an entry is free
 * for the engine as soon as the message is received.
 */
#include <errno.h>

#include "client/client.h"

static inline uint8_t *
at(const struct pmx_context *ctx, int64_t off)
{
	return (uint8_t *)ctx->shm + off;
}

static inline void
fill_message(const struct pmx_context *ctx, struct pmx_message *msg, const struct lhs_entry *e)
{
	uint32_t len = lhs_len(&ctx->lhs, e), bulk = e->bulk;

	msg->len = len;
	msg->seg_len = len;
	msg->source.node = e->src_node;
	msg->source.context = e->src_ctx;
	if (bulk == LHS_NO_BULK) {
		msg->bulk = bulk;
		memcpy(msg->front, e->front, ctx->lhs.split <= 40 ? 40 : PMX_INLINE_MAX);
		msg->data = msg->front;
		return;
	}
	msg->bulk = bulk ^ ctx->life;
	msg->data = at(ctx, e->bulk_off);
	if (unlikely(bulk & LHS_CHAINED)) {
		struct bulk_link link;

		memcpy(&link, (const uint8_t *)msg->data - sizeof(link), sizeof(link));
		msg->seg_len = link.len;
	}
}

static inline void
publish_position(struct pmx_context *ctx)
{
	if (ctx->lhs.pos - ctx->lhs_published < ctx->lhs_publish)
		return;
	ctx->lhs_published = ctx->lhs.pos;
	/* release: this thread's reads of the entries come before the engine writes them again */
	STEP();
	atomic_store_explicit(&ctx->shm->lhs_pos, ctx->lhs.pos, memory_order_release);
	STEP();
	ctx_doorbell(ctx);
	/* who sends more by the engine than is received must not keep pairs waiting */
	ctx->pairs_turn = ctx->pairs != NULL;
}

int
ctx_idle(struct pmx_context *ctx)
{
	if (unlikely(ctx->release_count))
		ctx_flush_releases(ctx);
	if (unlikely(ctx->unread) && lhs_peek(&ctx->lhs) == NULL)
		ctx_take_ring(ctx);
	if (unlikely(ctx->node->polls) && ctx->node->way->poll(ctx->node) != 0)
		ctx_not_idle();
	/* a full completion ring would keep the engine awake */
	ctx_completions(ctx);
	return unlikely(ctx_gone(ctx)) ? -EPIPE : 0;
}

/* Do what is due when a poll of the application found nothing: ctx_idle(), then ctx_yield(). */
static APART int
found_nothing(struct pmx_context *ctx)
{
	int result = ctx_idle(ctx);

	if (result == 0)
		ctx_yield(ctx);
	return result;
}

/* Return whether messages of pairs were sent before the entry. The context may have pairs. */
static inline bool
pairs_precede(const struct pmx_context *ctx, const struct lhs_entry *e)
{
	return unlikely(e->src_node == ctx->near_node) && ctx->aside->precedes(ctx, e);
}

/* Return whether messages of pairs come before the entry, which is there no more if it was a mark.
 * The context may have pairs. */
static APART bool
pairs_first(struct pmx_context *ctx, const struct lhs_entry *e)
{
	if (ctx->pairs_turn || pairs_precede(ctx, e))
		return true;
	if (likely(e->src_node != ctx->pair_node) || !ctx->aside->take_mark(ctx, e))
		return false;
	publish_position(ctx);
	return true;
}

/* Receive up to n messages of pairs, or else of the engine. */
static APART int
receive_elsewhere(struct pmx_context *ctx, struct pmx_message *msgs, unsigned n)
{
	/* a pair that always has some would keep the engine's ring waiting */
	if (unlikely(ctx->unread) && lhs_peek(&ctx->lhs) == NULL)
		ctx_take_ring(ctx);
	const unsigned k = ctx->aside->receive(ctx, msgs, n);

	ctx->pairs_turn = false;
	if (k != 0) {
		ctx_not_idle();
		return (int)k;
	}
	const struct lhs_entry *e = n != 0 ? lhs_peek(&ctx->lhs) : NULL;

	/* those of a pair may wait for memory that the application holds */
	if (e != NULL && !pairs_precede(ctx, e))
		return pmx_receive_burst(ctx, msgs, n);
	return found_nothing(ctx);
}

int
pmx_receive(struct pmx_context *ctx, struct pmx_message *msg)
{
	const struct lhs_entry *e = lhs_peek(&ctx->lhs);

	if (unlikely(ctx->pairs != NULL) && (e == NULL || pairs_first(ctx, e)))
		return receive_elsewhere(ctx, msg, 1);
	if (e == NULL)
		return found_nothing(ctx);
	fill_message(ctx, msg, e);
	ctx->lhs.pos++;
	ctx->stat.received++;
	publish_position(ctx);
	return 1;
}

int
pmx_receive_burst(struct pmx_context *ctx, struct pmx_message *msgs, unsigned n)
{
	const bool paired = ctx->pairs != NULL;
	unsigned k = 0;
	const struct lhs_entry *e;

	while (k < n && (e = lhs_peek(&ctx->lhs)) != NULL) {
		__builtin_prefetch(lhs_at(&ctx->lhs, ctx->lhs.pos + 4));
		if (unlikely(paired) && pairs_first(ctx, e))
			break;
		fill_message(ctx, &msgs[k++], e);
		ctx->lhs.pos++;
	}
	if (k == 0)
		return paired ? receive_elsewhere(ctx, msgs, n) : found_nothing(ctx);
	ctx->stat.received += k;
	publish_position(ctx);
	return (int)k;
}

const void *
pmx_message_data(const struct pmx_message *msg)
{
	return msg->bulk == LHS_NO_BULK ? msg->front : msg->data;
}

int
pmx_message_segment(struct pmx_context *ctx, const struct pmx_message *msg, struct pmx_segment *seg)
{
	struct bulk_link link;

	if (seg->data == NULL) {
		seg->data = pmx_message_data(msg);
		seg->len = msg->seg_len;
		return 1;
	}
	if (msg->bulk == LHS_NO_BULK || !(msg->bulk & LHS_CHAINED))
		return 0;
	memcpy(&link, (const uint8_t *)seg->data - sizeof(link), sizeof(link));
	if (link.next_off == 0)
		return 0;
	seg->data = at(ctx, link.next_off);
	memcpy(&link, (const uint8_t *)seg->data - sizeof(link), sizeof(link));
	seg->len = link.len;
	return 1;
}

int
pmx_message_read(struct pmx_context *ctx, const struct pmx_message *msg, uint32_t off, void *dst,
	uint32_t len)
{
	struct pmx_segment seg = {0};
	uint8_t *to = dst;

	if (off > msg->len || len > msg->len - off)
		return -EINVAL;
	while (len > 0 && pmx_message_segment(ctx, msg, &seg)) {
		if (off >= seg.len) {
			off -= seg.len;
			continue;
		}
		uint32_t n = seg.len - off < len ? seg.len - off : len;

		memcpy(to, (const uint8_t *)seg.data + off, n);
		to += n;
		len -= n;
		off = 0;
	}
	return 0;
}

bool
ctx_peek(struct pmx_context *ctx, struct pmx_message *msg)
{
	const struct lhs_entry *e = lhs_peek(&ctx->lhs);

	if (e == NULL)
		return false;
	fill_message(ctx, msg, e);
	return true;
}
