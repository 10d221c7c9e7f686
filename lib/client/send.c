/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sending: send buffers, submissions, completions. Runs in the application's thread and uses only
 * the context's own channel: no system call except for the doorbell of a sleeping engine, no lock,
 * no allocation, nothing shared but the rings.
 *
 * Design notes
 * 1. Free send buffers are a stack in private memory, which completions refill, so the buffer that
 *    was used last, which is most likely in the cache, is used first.
 * 2. A short message of which no result is asked goes inline: the engine reads one cache line and
 *    not two, and tells only how many such messages are done. Its buffer, if it has one, is free
 *    again at once.
 */
#include <errno.h>

#include "client/client.h"
#include "client/told.h"
#include "core/wire/wire.h"

static inline uint8_t *
at(const struct pmx_context *ctx, int64_t off)
{
	return (uint8_t *)ctx->shm + off;
}

static inline uint8_t *
send_data(const struct pmx_context *ctx, uint16_t buf)
{
	return at(ctx, atomic_load_explicit(&ctx->send_off[buf], memory_order_relaxed));
}

/* ------------------------------------------------------------------ completions */

static APART void
services_results(struct pmx_context *ctx, const struct completion *c)
{
	for (const struct client_service *const *s = ctx->node->services; *s != NULL; s++) {
		if (c->count & (*s)->completions) {
			(*s)->results(ctx, c);
			return;
		}
	}
}

APART void
ctx_services_progress(struct pmx_context *ctx)
{
	for (const struct client_service *const *s = ctx->node->services; *s != NULL; s++) {
		if ((*s)->progress != NULL)
			(*s)->progress(ctx);
	}
}

bool
ctx_services_landed(struct pmx_context *ctx)
{
	for (const struct client_service *const *s = ctx->node->services; *s != NULL; s++) {
		if ((*s)->landed != NULL && (*s)->landed(ctx))
			return true;
	}
	return false;
}

bool
ctx_services_event(struct pmx_context *ctx, struct pmx_event *event)
{
	for (const struct client_service *const *s = ctx->node->services; *s != NULL; s++) {
		if ((*s)->event != NULL && (*s)->event(ctx, event))
			return true;
	}
	return false;
}

/* Take note of inline messages that ended. */
static inline void
inline_ended(struct pmx_context *ctx)
{
	/* acquire: pairs with the engine's write_completions */
	uint32_t done = atomic_load_explicit(&ctx->shm->inline_done, memory_order_acquire);
	uint32_t n = done - ctx->inline_done, failed;

	if (n == 0)
		return;
	failed = atomic_load_explicit(&ctx->shm->inline_failed, memory_order_relaxed) -
		ctx->inline_failed;
	if (failed > n)
		failed = n; /* some are of messages that ended since */
	if (unlikely(failed != 0))
		ctx->stat.last_error = -(
			int32_t)atomic_load_explicit(&ctx->shm->inline_error, memory_order_relaxed);
	ctx->inline_done = done;
	ctx->inline_failed += failed;
	ctx->inline_left += n;
	ctx->stat.sent += n - failed;
	ctx->stat.send_errors += failed;
}

APART void
ctx_completions(struct pmx_context *ctx)
{
	uint16_t *free = ctx->free + ctx->free_count;
	uint64_t messages = 0, errors = 0;

	while (slot_filled(&ctx->com, ctx->com.pos)) {
		const struct completion *c =
			(const struct completion *)slot_at(&ctx->com, ctx->com.pos)->body;

		if (unlikely(c->count > COMPLETION_BUFS)) {
			services_results(ctx, c);
			slot_take(&ctx->com, 1, false);
			continue;
		}
		const uint32_t tells = ctx->tells;
		for (uint32_t i = 0; i < c->count; i++) {
			uint32_t item = c->item[i], buf = item & 0xFFFFFF;
			struct send_note *n = &ctx->notes[buf];
			bool last = n->next == NO_BUFFER; /* the message's last buffer */

			outcome_add(&n->ended, (uint8_t)(item >> 24));
			if (unlikely(item >> 24 != 0))
				ctx->stat.last_error = -(int32_t)(item >> 24);
			messages += last;
			errors += last & (item >> 24 != 0);
			if (unlikely(tells) && n->told == SEND_TELLS)
				told_ended(ctx, (uint16_t)buf);
			else
				*free++ = (uint16_t)buf;
		}
		slot_take(&ctx->com, 1, false);
	}
	ctx->free_count = (uint32_t)(free - ctx->free);
	ctx->stat.sent += messages - errors;
	ctx->stat.send_errors += errors;
	inline_ended(ctx);
	if (unlikely(ctx->tracked | ctx->unfinished))
		ctx_services_progress(ctx);
}

/* ------------------------------------------------------------------ buffers */

static inline uint32_t
segments_for(const struct pmx_context *ctx, uint32_t len)
{
	return likely(len <= ctx->frag_len) ? 1 : (len + ctx->frag_len - 1) / ctx->frag_len;
}

static APART int
get_segments(struct pmx_context *ctx, uint32_t len, struct pmx_buffer *buf)
{
	uint32_t n = segments_for(ctx, len);

	if (unlikely(len > ctx->max_message))
		return -EMSGSIZE;
	if (ctx->free_count < n) {
		ctx_completions(ctx);
		if (ctx->free_count < n)
			return ctx_gone(ctx) ? -EPIPE : -ENOBUFS;
	}
	uint16_t first = ctx->free[--ctx->free_count], last = first;

	for (uint32_t i = 1; unlikely(i < n); i++) {
		uint16_t b = ctx->free[--ctx->free_count];

		ctx->notes[last].next = b;
		last = b;
	}
	ctx->notes[last].next = NO_BUFFER;
	buf->data = send_data(ctx, first);
	buf->len = len;
	buf->seg_len = len < ctx->frag_len ? len : ctx->frag_len;
	buf->first = first;
	buf->segments = (uint16_t)n;
	return 0;
}

int
pmx_get_send_buffer(struct pmx_context *ctx, uint32_t len, struct pmx_buffer *buf)
{
	if (likely(len <= ctx->one_max && ctx->free_count != 0)) {
		uint16_t b = ctx->free[--ctx->free_count];

		ctx->notes[b].next = NO_BUFFER;
		*buf = (struct pmx_buffer){send_data(ctx, b), len, len, b, 1};
		return 0;
	}
	return get_segments(ctx, len, buf);
}

static void
put_back(struct pmx_context *ctx, uint16_t b)
{
	while (b != NO_BUFFER) {
		ctx->free[ctx->free_count++] = b;
		b = ctx->notes[b].next;
	}
}

int
pmx_truncate_buffer(struct pmx_context *ctx, struct pmx_buffer *buf, uint32_t len)
{
	uint32_t keep = segments_for(ctx, len);
	uint16_t b = buf->first;

	if (len > buf->len || buf->segments == 0)
		return -EINVAL;
	for (uint32_t i = 1; i < keep; i++)
		b = ctx->notes[b].next;
	put_back(ctx, ctx->notes[b].next);
	ctx->notes[b].next = NO_BUFFER;
	buf->len = len;
	buf->seg_len = len < ctx->frag_len ? len : ctx->frag_len;
	buf->segments = (uint16_t)keep;
	return 0;
}

void
pmx_discard_buffer(struct pmx_context *ctx, struct pmx_buffer *buf)
{
	if (buf->segments != 0)
		put_back(ctx, buf->first);
	buf->data = NULL;
	buf->segments = 0;
}

void *
pmx_buffer_segment(struct pmx_context *ctx, const struct pmx_buffer *buf, uint32_t i, uint32_t *len)
{
	uint32_t left = buf->len - i * ctx->frag_len;
	uint16_t b = buf->first;

	if (i >= buf->segments)
		return NULL;
	while (i-- > 0)
		b = ctx->notes[b].next;
	*len = left < ctx->frag_len ? left : ctx->frag_len;
	return send_data(ctx, b);
}

int
pmx_buffer_write(struct pmx_context *ctx, const struct pmx_buffer *buf, uint32_t off,
	const void *src, uint32_t len)
{
	uint16_t b = buf->first;
	const uint8_t *from = src;

	if (off > buf->len || len > buf->len - off || buf->segments == 0)
		return -EINVAL;
	while (len > 0) {
		if (off >= ctx->frag_len) {
			off -= ctx->frag_len;
			b = ctx->notes[b].next;
			continue;
		}
		uint32_t n = ctx->frag_len - off < len ? ctx->frag_len - off : len;

		memcpy(send_data(ctx, b) + off, from, n);
		from += n;
		len -= n;
		off += n;
	}
	return 0;
}

void
ctx_buffer_read(const struct pmx_context *ctx, const struct pmx_buffer *buf, uint8_t *to)
{
	uint16_t b = buf->first;

	for (uint32_t left = buf->len, n; left > 0; left -= n, to += n, b = ctx->notes[b].next) {
		n = left < ctx->frag_len ? left : ctx->frag_len;
		memcpy(to, send_data(ctx, b), n);
	}
}

/* ------------------------------------------------------------------ sending */

/* Write the additional slots of a message of many buffers. */
static void
write_more(struct pmx_context *ctx, uint16_t b, uint32_t left, uint32_t slots)
{
	for (uint32_t k = 1; k <= slots; k++) {
		uint32_t pos = ctx->sub.pos + k;
		struct submission *s = (struct submission *)slot_at(&ctx->sub, pos)->body;
		uint32_t n = left < SUBMIT_MORE_BUFS ? left : SUBMIT_MORE_BUFS;

		s->op = SUBMIT_MORE;
		s->count = (uint16_t)n;
		for (uint32_t i = 0; i < n; i++, b = ctx->notes[b].next)
			s->more[i] = b;
		left -= n;
		slot_publish(&ctx->sub, pos);
	}
}

/* Submit a message by the general path: it may have many buffers, and is checked. */
static APART int
submit_checked(struct pmx_context *ctx, struct pmx_addr to, const struct pmx_buffer *buf,
	uint8_t op)
{
	uint32_t in_first = buf->segments, slots = 0;
	uint16_t b = buf->first;

	if (unlikely(buf->segments == 0 || buf->first >= ctx->send_buffers))
		return -EINVAL;
	if (unlikely(ctx_gone(ctx)))
		return -EPIPE;
	if (unlikely(in_first > SUBMIT_SEND_BUFS)) {
		in_first = SUBMIT_SEND_BUFS;
		slots = (buf->segments - in_first + SUBMIT_MORE_BUFS - 1) / SUBMIT_MORE_BUFS;
	}
	if (unlikely(!slot_room(&ctx->sub, slots + 1)))
		return ctx_gone(ctx) ? -EPIPE : slots >= ctx->sub.mask ? -EMSGSIZE : -EAGAIN;
	struct submission *s = (struct submission *)slot_at(&ctx->sub, ctx->sub.pos)->body;

	s->op = op;
	s->count = buf->segments;
	s->send.dst_node = to.node;
	s->send.dst_ctx = to.context;
	s->send.len = buf->len;
	for (uint32_t i = 0; i < in_first; i++, b = ctx->notes[b].next)
		s->send.buf[i] = b;
	if (unlikely(slots))
		write_more(ctx, b, buf->segments - in_first, slots);
	slot_publish(&ctx->sub, ctx->sub.pos);
	ctx->sub.pos += slots + 1;
	/* every 16 slots, so that the completion ring does not fill up while there are free
	 * buffers */
	if (ctx->sub.pos % 16 <= slots)
		ctx_completions(ctx);
	return 0;
}

/* Submit a message of one buffer into a slot that is known to be free. */
static inline void
submit_one(struct pmx_context *ctx, struct pmx_addr to, uint8_t op, uint32_t len, uint16_t buf)
{
	uint32_t pos = ctx->sub.pos;
	struct submission *s = (struct submission *)slot_at(&ctx->sub, pos)->body;

	s->op = op;
	s->count = 1;
	s->send.dst_node = to.node;
	s->send.dst_ctx = to.context;
	s->send.len = len;
	s->send.buf[0] = buf;
	slot_publish(&ctx->sub, pos);
	ctx->sub.pos = pos + 1;
}

/* Return whether a message of that length can go inline now. */
static inline bool
inline_fits(struct pmx_context *ctx, uint32_t len)
{
	if (len > SUBMIT_INLINE_BYTES || len > ctx->one_max || !slot_room(&ctx->sub, 1) ||
		ctx_gone(ctx))
		return false;
	if (unlikely(ctx->inline_left == 0))
		inline_ended(ctx);
	return ctx->inline_left != 0;
}

/* Write the slot of an inline message without its payload. Return the place for the payload. op:
 * that of a message with a buffer. */
static inline uint8_t *
inline_begin(const struct slot_end *sub, struct pmx_addr to, uint8_t op, uint32_t len)
{
	struct submission *s = (struct submission *)slot_at(sub, sub->pos)->body;

	s->op = (uint8_t)(op + SUBMIT_INLINE - SUBMIT_SEND);
	s->count = 1;
	s->inlined.dst_node = to.node;
	s->inlined.dst_ctx = to.context;
	s->inlined.len = len;
	return s->inlined.payload;
}

/* Copy up to SUBMIT_INLINE_BYTES. Pieces that overlap need no loop, and a call of memcpy would cost
 * more. */
static inline void
inline_copy(uint8_t *to, const uint8_t *from, uint32_t len)
{
	if (len >= 16) {
		if (len > 32)
			memcpy(to + 16, from + 16, 16);
		memcpy(to, from, 16);
		memcpy(to + len - 16, from + len - 16, 16);
	} else if (len >= 8) {
		memcpy(to, from, 8);
		memcpy(to + len - 8, from + len - 8, 8);
	} else {
		for (uint32_t i = 0; i < len; i++)
			to[i] = from[i];
	}
}

static inline void
inline_end(struct pmx_context *ctx)
{
	slot_publish(&ctx->sub, ctx->sub.pos++);
	ctx->inline_left--;
	ctx_doorbell(ctx);
}

/* Submit the first of n messages inline, as many as can be. Return how many. The context's fields
 * are copied, because any store to a slot might change them for all that the compiler knows. */
static inline unsigned
submit_inline(struct pmx_context *ctx, const struct pmx_addr *to, const struct pmx_buffer *bufs,
	unsigned n, uint8_t op)
{
	uint32_t send_buffers = ctx->send_buffers;
	uint32_t longest = ctx->one_max < SUBMIT_INLINE_BYTES ? ctx->one_max : SUBMIT_INLINE_BYTES;
	uint16_t *free = ctx->free + ctx->free_count;
	unsigned k = 0;

	if (bufs->len > longest || ctx_gone(ctx))
		return 0;
	if (unlikely(ctx->inline_left < n))
		inline_ended(ctx);
	if (n > ctx->inline_left)
		n = ctx->inline_left;
	if (unlikely(!slot_room(&ctx->sub, n)))
		return 0;
	struct slot_end sub = ctx->sub;

	for (; k < n; k++) {
		const struct pmx_buffer *b = &bufs[k];

		if (unlikely(b->len > longest || b->segments != 1 || b->first >= send_buffers))
			break;
		/* a buffer has more bytes than that, and a constant size needs no loop */
		memcpy(inline_begin(&sub, to[k], op, b->len), b->data, SUBMIT_INLINE_BYTES);
		slot_publish(&sub, sub.pos++);
		free[k] = b->first;
	}
	ctx->sub.pos = sub.pos;
	ctx->inline_left -= k;
	ctx->free_count += k;
	return k;
}

/* Submit a message by the fast path, which is for the common message of one buffer. */
static inline int
send_submit(struct pmx_context *ctx, struct pmx_addr to, const struct pmx_buffer *buf, uint8_t op)
{
	uint32_t pos = ctx->sub.pos;

	if (unlikely(buf->segments != 1 || buf->first >= ctx->send_buffers ||
		    pos - ctx->sub.other > ctx->sub.mask || pos % 16 == 15 || ctx_gone(ctx)))
		return submit_checked(ctx, to, buf, op);
	submit_one(ctx, to, op, buf->len, buf->first);
	return 0;
}

static inline pmx_send_id
send_id(const struct pmx_context *ctx, const struct pmx_buffer *buf)
{
	uint16_t b = buf->first;

	/* the last buffer of a message is Acked last */
	for (uint32_t i = 1; unlikely(i < buf->segments); i++)
		b = ctx->notes[b].next;
	return ctx->notes[b].ended.uses << 16 | b;
}

pmx_send_id
ctx_send_id(const struct pmx_context *ctx, const struct pmx_buffer *buf)
{
	return send_id(ctx, buf);
}

static inline int
send_as(struct pmx_context *ctx, struct pmx_addr to, const struct pmx_buffer *buf, uint8_t op,
	pmx_send_id *id)
{
	int result = id == NULL && submit_inline(ctx, &to, buf, 1, op)
		? 0
		: send_submit(ctx, to, buf, op);

	if (unlikely(result != 0))
		return result;
	if (id != NULL)
		*id = send_id(ctx, buf);
	ctx_doorbell(ctx);
	return 0;
}

int
ctx_submit(struct pmx_context *ctx, struct pmx_addr to, const struct pmx_buffer *buf, uint8_t op,
	pmx_send_id *id)
{
	return send_as(ctx, to, buf, op, id);
}

/* Send a message of this node past the engine, if there is a way. Return what client_aside.send
 * does, or -EINVAL. */
static APART int
send_aside(struct pmx_context *ctx, struct pmx_addr to, const struct pmx_buffer *buf,
	pmx_send_id *id)
{
	if (unlikely(buf->segments == 0 || buf->first >= ctx->send_buffers))
		return -EINVAL;
	const int result = ctx->aside->send(ctx, to, NULL, buf, buf->len);

	if (result != 1)
		return result;
	if (id != NULL)
		*id = send_id(ctx, buf);
	for (uint16_t b = buf->first, next; b != NO_BUFFER; b = next) {
		next = ctx->notes[b].next;
		outcome_add(&ctx->notes[b].ended, 0);
		if (ctx->notes[b].told == SEND_TELLS)
			told_ended(ctx, b);
		else
			ctx->free[ctx->free_count++] = b;
	}
	return 1;
}

int
pmx_send(struct pmx_context *ctx, struct pmx_addr to, struct pmx_buffer *buf, pmx_send_id *id)
{
	int result = unlikely(to.node == ctx->pair_node) ? send_aside(ctx, to, buf, id) : 0;

	if (likely(result == 0))
		result = send_as(ctx, to, buf, SUBMIT_SEND, id);
	if (unlikely(result < 0))
		return result;
	buf->segments = 0; /* it is used up */
	return 0;
}

/* Copy two or three words; `bytes` is a constant. */
static inline __attribute__((always_inline)) void
put_words(uint8_t *to, const uint64_t *words, uint32_t bytes)
{
	memcpy(to, &words[0], 8);
	memcpy(to + 8, &words[1], 8);
	if (bytes > 16)
		memcpy(to + 16, &words[2], 8);
}

/* Faster than its three steps (get, write, submit) one by one, which would pass the buffer's
 * description through memory. */
static inline __attribute__((always_inline)) int
send_short(struct pmx_context *ctx, struct pmx_addr to, const uint64_t *head, uint32_t head_len,
	const void *data, uint32_t len)
{
	uint32_t pos = ctx->sub.pos;

	if (likely(inline_fits(ctx, head_len + len))) {
		uint8_t *at = inline_begin(&ctx->sub, to, SUBMIT_MATCHED, head_len + len);

		put_words(at, head, head_len);
		inline_copy(at + head_len, data, len);
		inline_end(ctx);
		return 0;
	}
	if (unlikely(ctx->free_count == 0 || pos - ctx->sub.other > ctx->sub.mask ||
		    pos % 16 == 15 || ctx_gone(ctx))) {
		struct pmx_buffer buf;
		int result = ctx_gone(ctx) ? -EPIPE : get_segments(ctx, head_len + len, &buf);

		if (result != 0)
			return result;
		memcpy(buf.data, head, head_len);
		if (len != 0)
			memcpy((uint8_t *)buf.data + head_len, data, len);
		result = submit_checked(ctx, to, &buf, SUBMIT_MATCHED);
		if (result != 0)
			put_back(ctx, buf.first);
		ctx_doorbell(ctx);
		return result;
	}
	uint16_t b = ctx->free[--ctx->free_count];
	uint8_t *data_at = send_data(ctx, b);

	ctx->notes[b].next = NO_BUFFER;
	put_words(data_at, head, head_len);
	if (len <= 64)
		lhs_copy(data_at + head_len, data, len);
	else
		memcpy(data_at + head_len, data, len);
	submit_one(ctx, to, SUBMIT_MATCHED, head_len + len, b);
	ctx_doorbell(ctx);
	return 0;
}

int
ctx_send_short(struct pmx_context *ctx, struct pmx_addr to, const uint64_t head[2],
	const void *data, uint32_t len)
{
	return send_short(ctx, to, head, 16, data, len);
}

int
ctx_send_immediate(struct pmx_context *ctx, struct pmx_addr to, const uint64_t head[3],
	const void *data, uint32_t len)
{
	return send_short(ctx, to, head, 24, data, len);
}

/* Return how many of the first messages are for other nodes. */
static APART unsigned
before_pairs(const struct pmx_context *ctx, const struct pmx_addr *to, unsigned n)
{
	unsigned k = 0;

	while (k < n && to[k].node != ctx->pair_node)
		k++;
	return k;
}

int
pmx_send_burst(struct pmx_context *ctx, const struct pmx_addr *to, struct pmx_buffer *bufs,
	pmx_send_id *ids, unsigned n)
{
	const unsigned apart = unlikely(ctx->pairs != NULL) ? before_pairs(ctx, to, n) : n;
	unsigned first = ids == NULL && apart > 0 ? submit_inline(ctx, to, bufs, apart, SUBMIT_SEND)
						  : 0;

	for (unsigned i = 0; i < first; i++)
		bufs[i].segments = 0;
	for (unsigned i = first; i < n; i++) {
		int result = unlikely(to[i].node == ctx->pair_node)
			? send_aside(ctx, to[i], &bufs[i], ids != NULL ? &ids[i] : NULL)
			: 0;

		if (likely(result == 0)) {
			result = send_submit(ctx, to[i], &bufs[i], SUBMIT_SEND);
			if (ids != NULL && result == 0)
				ids[i] = send_id(ctx, &bufs[i]);
		}
		if (unlikely(result < 0)) {
			if (i == 0)
				return result;
			n = i;
			break;
		}
		bufs[i].segments = 0;
	}
	ctx_doorbell(ctx);
	return (int)n;
}

/* Send a message as send_aside() does, without a buffer; but one gives it its ID. */
static APART int
copy_aside(struct pmx_context *ctx, struct pmx_addr to, const void *data, uint32_t len,
	pmx_send_id *id)
{
	if (id != NULL && ctx->free_count == 0) {
		ctx_completions(ctx);
		if (ctx->free_count == 0)
			return ctx_gone(ctx) ? -EPIPE : -ENOBUFS;
	}
	/* kept back, as what begins a pair needs a buffer too */
	const uint16_t b = id != NULL ? ctx->free[--ctx->free_count] : NO_BUFFER;
	const int result = ctx->aside->send(ctx, to, data, NULL, len);

	if (id == NULL)
		return result;
	ctx->free[ctx->free_count++] = b;
	if (result == 1) {
		*id = ctx->notes[b].ended.uses << 16 | b;
		outcome_add(&ctx->notes[b].ended, 0);
	}
	return result;
}

int
pmx_send_copy(struct pmx_context *ctx, struct pmx_addr to, const void *data, uint32_t len,
	pmx_send_id *id)
{
	struct pmx_buffer buf;
	int result = unlikely(to.node == ctx->pair_node) ? copy_aside(ctx, to, data, len, id) : 0;

	if (unlikely(result != 0))
		return result < 0 ? result : 0;
	if (id == NULL && inline_fits(ctx, len)) {
		inline_copy(inline_begin(&ctx->sub, to, SUBMIT_SEND, len), data, len);
		inline_end(ctx);
		return 0;
	}
	result = pmx_get_send_buffer(ctx, len, &buf);

	if (unlikely(result != 0))
		return result;
	if (likely(buf.segments == 1))
		memcpy(buf.data, data, len);
	else
		pmx_buffer_write(ctx, &buf, 0, data, len);
	result = pmx_send(ctx, to, &buf, id);
	if (unlikely(result != 0))
		pmx_discard_buffer(ctx, &buf);
	return result;
}

int
ctx_send_result(const struct pmx_context *ctx, pmx_send_id id)
{
	return outcome_of(&ctx->notes[id & 0xFFFF].ended, id >> 16);
}

int
pmx_is_send_done(struct pmx_context *ctx, pmx_send_id id)
{
	if ((id & 0xFFFF) >= ctx->send_buffers)
		return -EINVAL;
	int result = ctx_send_result(ctx, id);

	if (result == 0) {
		ctx_completions(ctx);
		result = ctx_send_result(ctx, id);
	}
	return result == 0 && ctx_gone(ctx) ? -EPIPE : result;
}

uint32_t
pmx_sends_pending(struct pmx_context *ctx)
{
	ctx_completions(ctx);
	return ctx->send_buffers - ctx->free_count - ctx->told_count + ctx->inline_sends -
		ctx->inline_left;
}
