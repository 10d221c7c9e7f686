/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Plain messages by the memory that two contexts of a host share (pairs.h). Runs in the context's
 * thread.
 *
 * Design notes
 * 1. A short message is copied out of the ring when it is received: into struct pmx_message, or
 *    into a place of this process's own memory. So the application may hold it as long as it likes,
 *    and the other side's ring goes on. A long message stays where its sender wrote it, unless many
 *    are held there: then it is copied as well. There are as many places, of both kinds, as the
 *    context has receive buffers; without a free one, messages wait.
 * 2. Nothing of a message is in its sender's memory only, so it is received though its sender has
 *    ended since.
 * 3. The mark is a message that only the library sends: a word, and the pair's random ID. It is so
 *    short that it needs no receive buffer, all of which the application may hold.
 */
#include <stdlib.h>
#include <string.h>

#include "client/pairs.h"

#define MARK            UINT64_C(0x706D785F61736964)
/* of a pair's long messages, the most that the application holds where their sender wrote them */
#define HELD_MOST       (PAIR_LONGS / 2)
#define HELD_BYTES_MOST (PAIR_LONG_BYTES / 2)

/* A message that the application holds lies here. */
struct place {
	const void *at;
	struct pair *pair; /* whose memory it is in; NULL: in `own` */
	uint32_t len;      /* ... and its bytes and slot there */
	uint8_t slot;
	bool used;
	uint32_t bytes; /* of own */
	void *own;      /* memory of the place; NULL: none yet */
};

struct plain {
	uint32_t count, free_count;
	uint32_t given;      /* places that were given back */
	uint64_t held, most; /* bytes of long messages in own memory: held, and at most */
	uint16_t *free;      /* [0, free_count): places that are free, the last used at the top */
	struct place of[];
};

/* ------------------------------------------------------------------ sending */

static inline void
put(struct pmx_context *ctx, uint8_t *to, const void *data, const struct pmx_buffer *buf,
	uint32_t len)
{
	if (buf != NULL && buf->segments != 1)
		ctx_buffer_read(ctx, buf, to);
	else if (len <= 64)
		lhs_copy(to, buf != NULL ? buf->data : data, len);
	else
		memcpy(to, buf != NULL ? buf->data : data, len);
}

static int
plain_send(struct pmx_context *ctx, struct pmx_addr to, const void *data,
	const struct pmx_buffer *buf, uint32_t len)
{
	if (to.context >= WIRE_CONTEXTS_MAX || len > ctx->max_message)
		return 0;
	struct pair *p = ctx->pairs->of[to.context].pair;
	uint8_t *at, *bytes;
	int result;

	if (unlikely(!pair_sends(ctx, p, PAIR_PLAIN)) &&
		(p = pairs_begin(ctx, to, PAIR_PLAIN, MARK)) == NULL)
		return 0;
	if (len > PAIR_SHORT) {
		result = pair_long_message(ctx, p, PAIR_PLAIN, 0, len, &at, &bytes);
		if (result != 0)
			return result;
		put(ctx, bytes, data, buf, len);
		pair_send_long(ctx, p, PAIR_PLAIN, 0);
		return 1;
	}
	if ((result = pair_message(ctx, p, PAIR_PLAIN, len, &at)) != 0)
		return result;
	put(ctx, at, data, buf, len);
	pair_send(ctx, p, PAIR_PLAIN, len);
	return 1;
}

/* ------------------------------------------------------------------ receiving */

static bool
make_places(struct pmx_context *ctx)
{
	const uint32_t count = ctx->receive_buffers == 0 ? 1
		: ctx->receive_buffers < UINT16_MAX      ? ctx->receive_buffers
							 : UINT16_MAX;
	struct plain *x = calloc(1, sizeof(*x) + count * (sizeof(x->of[0]) + sizeof(x->free[0])));

	if (x == NULL)
		return false;
	x->free = (uint16_t *)(void *)&x->of[count];
	x->count = x->free_count = count;
	x->most = (uint64_t)count * ctx->frag_len;
	for (uint32_t i = 0; i < count; i++)
		x->free[i] = (uint16_t)(count - 1 - i);
	ctx->plain = x;
	return true;
}

static void
plain_close(struct pmx_context *ctx)
{
	for (uint32_t i = 0; ctx->plain != NULL && i < ctx->plain->count; i++)
		free(ctx->plain->of[i].own);
	free(ctx->plain);
	ctx->plain = NULL;
}

/* Return a place that is free, which is taken by place_take(); NULL: none is. */
static struct place *
place_find(struct pmx_context *ctx)
{
	if (unlikely(ctx->plain == NULL) && !make_places(ctx))
		return NULL;
	struct plain *x = ctx->plain;

	return likely(x->free_count != 0) ? &x->of[x->free[x->free_count - 1]] : NULL;
}

static void
place_take(struct pmx_context *ctx, struct place *of, struct pmx_message *msg, const void *at)
{
	of->used = true;
	of->at = msg->data = at;
	msg->bulk = BULK_PLACE | ctx->plain->free[--ctx->plain->free_count];
}

/* Copy a message to a place. Return false if there is none, or not enough memory. */
static bool
place_copy(struct pmx_context *ctx, struct pmx_message *msg, const uint8_t *bytes, uint32_t len)
{
	struct place *of = place_find(ctx);

	if (unlikely(of == NULL))
		return false;
	struct plain *x = ctx->plain;
	const uint32_t room = len > PAIR_SHORT ? len : PAIR_SHORT;

	if (room > PAIR_SHORT && x->held != 0 && x->held + room > x->most)
		return false;
	if (of->bytes < room) {
		free(of->own);
		of->own = malloc(room);
		of->bytes = of->own != NULL ? room : 0;
		if (of->own == NULL)
			return false;
	}
	if (room > PAIR_SHORT)
		x->held += of->bytes;
	memcpy(of->own, bytes, len);
	place_take(ctx, of, msg, of->own);
	return true;
}

static void
plain_give_back(struct pmx_context *ctx, const struct pmx_message *msg)
{
	struct plain *x = ctx->plain;
	const uint32_t number = msg->bulk & ~(BULK_LIFE_MASK | LHS_CHAINED);

	if (ctx->pairs == NULL) /* a child of fork() */
		return;
	if (number >= x->count || !x->of[number].used || msg->data != x->of[number].at)
		return; /* it came by an engine before this one */
	struct place *of = &x->of[number];
	struct pair *p = of->pair;

	if (p != NULL) {
		p->held &= ~(1ull << of->slot);
		p->held_bytes -= of->len;
		pair_long_give(&p->shm->side[p->side], of->slot);
		if (unlikely(p->state == PAIR_LEFT) && p->held == 0)
			pairs_free_left(ctx, p);
	} else if (of->bytes > PAIR_SHORT) { /* such memory is not kept */
		x->held -= of->bytes;
		free(of->own);
		of->own = NULL;
		of->bytes = 0;
	}
	of->pair = NULL;
	of->used = false;
	x->given++;
	x->free[x->free_count++] = (uint16_t)number;
}

/* Describe a message in the ring, which is copied. Return false if there is no room for it now. */
static inline bool
copy_out(struct pmx_context *ctx, const struct pair *p, struct pmx_message *msg,
	const uint8_t *bytes, uint32_t len)
{
	msg->len = msg->seg_len = len;
	msg->source = (struct pmx_addr){ctx->node->number, p->ctx};
	if (unlikely(len > PMX_INLINE_MAX))
		return place_copy(ctx, msg, bytes, len);
	lhs_copy(msg->front, bytes, len);
	msg->data = msg->front;
	msg->bulk = LHS_NO_BULK;
	return true;
}

/* Receive a long message, which is described at `at`. Return what pair_peek() returns: PAIR_NOTHING
 * if there is no room for it now. */
static enum pair_found
receive_long(struct pmx_context *ctx, struct pair *p, struct pmx_message *msg, const void *at)
{
	struct pair_long l;

	memcpy(&l, at, sizeof(l));
	if (!pair_long_ok(&l) || p->held >> l.slot & 1)
		return PAIR_BROKEN;
	const uint8_t *bytes = p->shm->longs[!p->side] + l.start;
	struct place *of = NULL;

	/* the other could change what is read there; it could do worse to a process like itself */
	if (likely(p->in_place && __builtin_popcountll(p->held) < HELD_MOST &&
		    p->held_bytes + l.len <= HELD_BYTES_MOST))
		of = place_find(ctx);
	msg->len = msg->seg_len = l.len;
	msg->source = (struct pmx_addr){ctx->node->number, p->ctx};
	if (likely(of != NULL)) {
		of->pair = p;
		of->slot = (uint8_t)l.slot;
		of->len = l.len;
		p->held |= 1ull << l.slot;
		p->held_bytes += l.len;
		place_take(ctx, of, msg, bytes);
		return PAIR_FOUND;
	}
	if (!place_copy(ctx, msg, bytes, l.len))
		return PAIR_NOTHING;
	pair_long_give(&p->shm->side[p->side], l.slot);
	return PAIR_FOUND;
}

/* Receive up to n messages of a pair, which may be gone afterwards. Return how many. */
static unsigned
receive_from(struct pmx_context *ctx, struct pair *p, struct pmx_message *msgs, unsigned n)
{
	struct pair_end *in = &p->flow[PAIR_PLAIN].in;
	const uint8_t *bytes;
	uint64_t word;
	uint32_t len;
	unsigned k = 0;

	for (; k < n; k++) {
		enum pair_found found = pair_peek(in, &word, &bytes, &len);

		if (found == PAIR_NOTHING || found == PAIR_BROKEN) {
			pair_is_read(ctx, p, found == PAIR_BROKEN);
			break;
		}
		found = found == PAIR_FOUND_LONG ? receive_long(ctx, p, &msgs[k], bytes)
			: likely(copy_out(ctx, p, &msgs[k], bytes, len)) ? PAIR_FOUND
									 : PAIR_NOTHING;
		p->full = found == PAIR_NOTHING;
		if (unlikely(found != PAIR_FOUND)) {
			p->full_at = ctx->plain != NULL ? ctx->plain->given : 0;
			pair_is_read(ctx, p, found == PAIR_BROKEN);
			break;
		}
		pair_take(in, word);
	}
	return k;
}

static unsigned
plain_receive(struct pmx_context *ctx, struct pmx_message *msgs, unsigned n)
{
	struct pairs *x = ctx->pairs;
	const bool landed = ctx->unread || lhs_peek(&ctx->lhs) != NULL;
	unsigned k = 0;

	pairs_look(ctx);
	/* each in turn, from the one behind that which was read last */
	struct pair *p = x->from != NULL ? x->from : x->all;

	for (uint32_t i = x->count; i > 0 && p != NULL && k < n; i--) {
		x->from = p->next;
		if (pair_receives(ctx, p, PAIR_PLAIN, landed))
			k += receive_from(ctx, p, msgs + k, n - k);
		p = x->from != NULL ? x->from : x->all;
	}
	ctx->stat.received += k;
	if (k != 0)
		ctx->shm->paired.received += k;
	return k;
}

static bool
plain_precedes(const struct pmx_context *ctx, const struct lhs_entry *e)
{
	for (const struct pair *p = ctx->pairs->all; p != NULL; p = p->next) {
		if (pair_precedes(p, e->src_ctx, PAIR_PLAIN))
			return true;
	}
	return false;
}

static bool
plain_take_mark(struct pmx_context *ctx, const struct lhs_entry *e)
{
	uint64_t words[2];
	struct pmx_message msg;

	if (lhs_len(&ctx->lhs, e) != sizeof(words))
		return false;
	ctx_peek(ctx, &msg);
	pmx_message_read(ctx, &msg, 0, words, sizeof(words));
	if (words[0] != MARK)
		return false;
	/* that of a pair which is gone tells nothing */
	pairs_mark(ctx, e->src_ctx, wire_be64(words[1]), PAIR_PLAIN);
	pmx_release_receive_buffer(ctx, &msg);
	ctx->lhs.pos++;
	return true;
}

static bool
plain_landed(struct pmx_context *ctx)
{
	for (const struct pair *p = ctx->pairs != NULL ? ctx->pairs->all : NULL; p != NULL;
		p = p->next) {
		if (pair_has(ctx, p, PAIR_PLAIN) &&
			!(p->full && ctx->plain != NULL && p->full_at == ctx->plain->given))
			return true;
	}
	return false;
}

static int
plain_open(struct pmx_context *ctx)
{
	static const struct client_aside aside = {plain_send, plain_receive, plain_precedes,
		plain_take_mark, plain_give_back};

	ctx->aside = &aside;
	return 0;
}

const struct client_service client_plain = {
	.name = "plain",
	.open = plain_open,
	.close = plain_close,
	.landed = plain_landed,
};
