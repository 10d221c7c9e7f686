/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The data path of libpmx: send buffers, submissions, completions, receiving. Runs in the
 * application's thread, touches its own channel and nothing else: no system call but the doorbell
 * of a sleeping engine, no lock, no allocation, nothing shared but the rings.
 *
 * Design notes
 * 1. Free send buffers are a stack in private memory; the completion ring fills it. The hottest
 *    buffer is used first.
 * 2. Short messages are copied out of their LHS entry (one cache line) at once, so an entry is
 *    free for the engine as soon as it was received, whatever the application does later.
 * 3. Bulk buffers go back gathered, up to 14 in one submission; at the latest when the application
 *    finds nothing to receive, or sleeps. The list has a place for each that it may hold, so giving
 *    one back never waits for an engine that is behind.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"
#include "wire/wire.h"

#define NO_BUFFER   UINT16_MAX
#define YIELD_EVERY 32   /* empty polls, when nobody else ran the last time */
#define CROWDED_NS  1500 /* a yield that nobody takes is back in 200 to 500 */

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

static inline bool
engine_gone(const struct pmx_context *ctx)
{
	return atomic_load_explicit(&ctx->shm->state, memory_order_relaxed) != CHANNEL_OPEN;
}

static inline void
ring_doorbell(struct pmx_context *ctx)
{
	uint64_t one = 1;

	if (!ctx->engine_may_sleep)
		return;
	/* full fence: our slot before the flag; pairs with engine_sleep's */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&ctx->shm->engine_sleeps, memory_order_relaxed) &&
		write(ctx->doorbell, &one, sizeof(one)) < 0 && errno == EBADF)
		ctx->engine_may_sleep = false;
	STEP();
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

static APART void
services_progress(struct pmx_context *ctx)
{
	for (const struct client_service *const *s = ctx->node->services; *s != NULL; s++) {
		if ((*s)->progress != NULL)
			(*s)->progress(ctx);
	}
}

static bool
services_landed(struct pmx_context *ctx)
{
	for (const struct client_service *const *s = ctx->node->services; *s != NULL; s++) {
		if ((*s)->landed != NULL && (*s)->landed(ctx))
			return true;
	}
	return false;
}

static APART void
take_completions(struct pmx_context *ctx)
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
		for (uint32_t i = 0; i < c->count; i++) {
			uint32_t item = c->item[i], buf = item & 0xFFFFFF;
			struct send_note *n = &ctx->notes[buf];
			bool last = n->next == NO_BUFFER; /* the message's last buffer */

			n->uses++;
			n->before = n->error;
			n->error = (uint8_t)(item >> 24);
			messages += last;
			errors += last & (n->error != 0);
			*free++ = (uint16_t)buf;
		}
		slot_take(&ctx->com, 1, false);
	}
	ctx->free_count = (uint32_t)(free - ctx->free);
	ctx->stat.sent += messages - errors;
	ctx->stat.send_errors += errors;
	if (unlikely(ctx->tracked | ctx->unfinished))
		services_progress(ctx);
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
		take_completions(ctx);
		if (ctx->free_count < n)
			return engine_gone(ctx) ? -EPIPE : -ENOBUFS;
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

	if (len > buf->len)
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

	if (off > buf->len || len > buf->len - off)
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

/* ------------------------------------------------------------------ sending */

/* The slots behind the first, of a message of many buffers. */
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

/* Any message. */
static APART int
submit_checked(struct pmx_context *ctx, struct pmx_addr to, const struct pmx_buffer *buf,
	uint8_t op)
{
	uint32_t in_first = buf->segments, slots = 0;
	uint16_t b = buf->first;

	if (unlikely(buf->segments == 0 || buf->first >= ctx->send_buffers))
		return -EINVAL;
	if (unlikely(engine_gone(ctx)))
		return -EPIPE;
	if (unlikely(in_first > SUBMIT_SEND_BUFS)) {
		in_first = SUBMIT_SEND_BUFS;
		slots = (buf->segments - in_first + SUBMIT_MORE_BUFS - 1) / SUBMIT_MORE_BUFS;
	}
	if (unlikely(!slot_room(&ctx->sub, slots + 1)))
		return engine_gone(ctx) ? -EPIPE : slots >= ctx->sub.mask ? -EMSGSIZE : -EAGAIN;
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
	/* now and then, so that the completion ring does not fill up while buffers last */
	if (ctx->sub.pos % 16 <= slots)
		take_completions(ctx);
	return 0;
}

/* A message of one buffer, into a slot that is known to be free. */
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

/* The common message in one piece. */
static inline int
submit(struct pmx_context *ctx, struct pmx_addr to, const struct pmx_buffer *buf, uint8_t op)
{
	uint32_t pos = ctx->sub.pos;

	if (unlikely(buf->segments != 1 || buf->first >= ctx->send_buffers ||
		    pos - ctx->sub.other > ctx->sub.mask || pos % 16 == 15 || engine_gone(ctx)))
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
	return (pmx_send_id)ctx->notes[b].uses << 16 | b;
}

static inline int
send_as(struct pmx_context *ctx, struct pmx_addr to, const struct pmx_buffer *buf, uint8_t op,
	pmx_send_id *id)
{
	int result = submit(ctx, to, buf, op);

	if (unlikely(result != 0))
		return result;
	if (id != NULL)
		*id = send_id(ctx, buf);
	ring_doorbell(ctx);
	return 0;
}

int
pmx_send(struct pmx_context *ctx, struct pmx_addr to, struct pmx_buffer *buf, pmx_send_id *id)
{
	return send_as(ctx, to, buf, SUBMIT_SEND, id);
}

int
ctx_send_matched(struct pmx_context *ctx, struct pmx_addr to, const struct pmx_buffer *buf,
	pmx_send_id *id)
{
	return send_as(ctx, to, buf, SUBMIT_MATCHED, id);
}

/* Get, write and submit as three steps pass the buffer through memory: this is half as long. */
int
ctx_send_short(struct pmx_context *ctx, struct pmx_addr to, const uint64_t head[2],
	const void *data, uint32_t len)
{
	uint32_t pos = ctx->sub.pos;

	if (unlikely(ctx->free_count == 0 || pos - ctx->sub.other > ctx->sub.mask ||
		    pos % 16 == 15 || engine_gone(ctx))) {
		struct pmx_buffer buf;
		int result = engine_gone(ctx) ? -EPIPE : get_segments(ctx, 16 + len, &buf);

		if (result != 0)
			return result;
		memcpy(buf.data, head, 16);
		if (len != 0)
			memcpy((uint8_t *)buf.data + 16, data, len);
		result = submit_checked(ctx, to, &buf, SUBMIT_MATCHED);
		if (result != 0)
			put_back(ctx, buf.first);
		ring_doorbell(ctx);
		return result;
	}
	uint16_t b = ctx->free[--ctx->free_count];
	uint8_t *data_at = send_data(ctx, b);

	ctx->notes[b].next = NO_BUFFER;
	memcpy(data_at, &head[0], 8);
	memcpy(data_at + 8, &head[1], 8);
	if (len <= 64)
		lhs_copy(data_at + 16, data, len);
	else
		memcpy(data_at + 16, data, len);
	submit_one(ctx, to, SUBMIT_MATCHED, 16 + len, b);
	ring_doorbell(ctx);
	return 0;
}

int
pmx_send_burst(struct pmx_context *ctx, const struct pmx_addr *to, struct pmx_buffer *bufs,
	pmx_send_id *ids, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		int result = submit(ctx, to[i], &bufs[i], SUBMIT_SEND);

		if (unlikely(result != 0)) {
			if (i == 0)
				return result;
			n = i;
			break;
		}
		if (ids != NULL)
			ids[i] = send_id(ctx, &bufs[i]);
	}
	ring_doorbell(ctx);
	return (int)n;
}

int
pmx_send_copy(struct pmx_context *ctx, struct pmx_addr to, const void *data, uint32_t len,
	pmx_send_id *id)
{
	struct pmx_buffer buf;
	int result = pmx_get_send_buffer(ctx, len, &buf);

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
	const struct send_note *n = &ctx->notes[id & 0xFFFF];
	uint32_t since = n->uses - (uint32_t)(id >> 16);

	if (since == 0)
		return 0;
	uint8_t error = since == 1 ? n->error : since == 2 ? n->before : 0;

	return error ? -(int)error : 1;
}

int
pmx_is_send_done(struct pmx_context *ctx, pmx_send_id id)
{
	if ((id & 0xFFFF) >= ctx->send_buffers)
		return -EINVAL;
	int result = ctx_send_result(ctx, id);

	if (result == 0) {
		take_completions(ctx);
		result = ctx_send_result(ctx, id);
	}
	return result == 0 && engine_gone(ctx) ? -EPIPE : result;
}

uint32_t
pmx_sends_pending(struct pmx_context *ctx)
{
	take_completions(ctx);
	return ctx->send_buffers - ctx->free_count;
}

/* ------------------------------------------------------------------ receiving */

/* As many as the ring has room for. */
static void
flush_releases(struct pmx_context *ctx)
{
	if (ctx->release_count == 0 || !slot_room(&ctx->sub, 1))
		return;
	do {
		struct submission *s = (struct submission *)slot_at(&ctx->sub, ctx->sub.pos)->body;
		uint32_t n = ctx->release_count < SUBMIT_RELEASE_BUFS ? ctx->release_count
								      : SUBMIT_RELEASE_BUFS;

		ctx->release_count -= n;
		s->op = SUBMIT_RELEASE;
		s->count = (uint16_t)n;
		memcpy(s->release, ctx->release + ctx->release_count, n * sizeof(ctx->release[0]));
		slot_publish(&ctx->sub, ctx->sub.pos++);
	} while (unlikely(ctx->release_count != 0 && slot_room(&ctx->sub, 1)));
	ring_doorbell(ctx);
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
	/* release: our reads of the entries before the engine writes them again */
	STEP();
	atomic_store_explicit(&ctx->shm->lhs_pos, ctx->lhs.pos, memory_order_release);
	STEP();
	ring_doorbell(ctx);
}

/* Receive from the channel's own ring. */
static void
take_ring(struct pmx_context *ctx)
{
	ctx->unread = false;
	ctx->lhs = ctx->next_lhs;
	ctx->lhs_published = 0;
	ctx->lhs_publish = ctx->shm->lhs_room / 8 ? ctx->shm->lhs_room / 8 : 1;
}

/* What this thread's polls have found of late, of whatever context. */
static _Thread_local struct {
	uint32_t empty; /* polls in a row, since it yielded */
	bool crowded;   /* when it yielded last, others ran */
} thread;

/* PM/UDP (IPSJ 1999) section 3: a library that polls gives the CPU away where others need it. Each
 * empty poll does, once all contexts had their turn, where others run; where nobody does it costs a
 * system call in 32 polls. */
void
ctx_yield(struct pmx_context *ctx)
{
	uint32_t turn = atomic_load_explicit(&ctx->node->context_count, memory_order_relaxed);
	struct timespec before, after;

	if (!ctx->yields || ++thread.empty < (thread.crowded ? turn : turn + YIELD_EVERY))
		return;
	clock_gettime(CLOCK_MONOTONIC, &before);
	sched_yield();
	clock_gettime(CLOCK_MONOTONIC, &after);
	thread.empty = 0;
	thread.crowded = after.tv_sec != before.tv_sec ||
		after.tv_nsec - before.tv_nsec > CROWDED_NS;
}

static int
nothing(struct pmx_context *ctx)
{
	if (unlikely(ctx->release_count))
		flush_releases(ctx);
	if (unlikely(ctx->unread) && lhs_peek(&ctx->lhs) == NULL)
		take_ring(ctx);
	if (unlikely(ctx->node->polls) && ctx->node->way->poll(ctx->node) != 0)
		thread.empty = 0;
	/* a full completion ring would keep the engine awake */
	take_completions(ctx);
	return unlikely(engine_gone(ctx)) ? -EPIPE : 0;
}

/* A poll of the application's. */
static APART int
found_nothing(struct pmx_context *ctx)
{
	int result = nothing(ctx);

	if (result == 0)
		ctx_yield(ctx);
	return result;
}

int
pmx_receive(struct pmx_context *ctx, struct pmx_message *msg)
{
	const struct lhs_entry *e = lhs_peek(&ctx->lhs);

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
	unsigned k = 0;
	const struct lhs_entry *e;

	while (k < n && (e = lhs_peek(&ctx->lhs)) != NULL) {
		__builtin_prefetch(lhs_at(&ctx->lhs, ctx->lhs.pos + 4));
		fill_message(ctx, &msgs[k++], e);
		ctx->lhs.pos++;
	}
	if (k == 0)
		return found_nothing(ctx);
	ctx->stat.received += k;
	publish_position(ctx);
	return (int)k;
}

static APART void
release_checked(struct pmx_context *ctx, uint32_t bulk)
{
	/* more than there are: the application gave some back twice, which the engine would
	 * refuse */
	if (ctx->release_count < ctx->release_room)
		ctx->release[ctx->release_count++] = bulk;
	if (ctx->release_count >= ctx->release_most)
		flush_releases(ctx);
}

static inline void
release(struct pmx_context *ctx, uint32_t bulk)
{
	if (unlikely(ctx->release_count + 1 >= ctx->release_most))
		release_checked(ctx, bulk);
	else
		ctx->release[ctx->release_count++] = bulk;
}

void
pmx_release_receive_buffer(struct pmx_context *ctx, struct pmx_message *msg)
{
	uint32_t bulk = msg->bulk;

	if (bulk == LHS_NO_BULK)
		return;
	msg->bulk = LHS_NO_BULK;
	if (likely(((bulk ^ ctx->life) & BULK_LIFE_MASK) == 0))
		release(ctx, bulk & ~BULK_LIFE_MASK);
}

void
ctx_release(struct pmx_context *ctx, uint32_t bulk)
{
	release(ctx, bulk);
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

/* ------------------------------------------------------------------ waiting */

int
pmx_get_fd(const struct pmx_context *ctx)
{
	return ctx->event_fd;
}

int
pmx_before_select(struct pmx_context *ctx)
{
	flush_releases(ctx);
	take_completions(ctx);
	if (unlikely(ctx->unread) && lhs_peek(&ctx->lhs) == NULL)
		take_ring(ctx);
	STEP();
	atomic_store_explicit(&ctx->shm->wake_client, 1, memory_order_relaxed);
	STEP();
	if (!ctx->selects && slot_room(&ctx->sub, 1)) {
		struct submission *s = (struct submission *)slot_at(&ctx->sub, ctx->sub.pos)->body;

		s->op = SUBMIT_SELECT;
		s->count = 0;
		slot_publish(&ctx->sub, ctx->sub.pos++);
		ctx->selects = true;
	}
	ring_doorbell(ctx);
	/* full fence: our flag before our last look; pairs with engine_flush's */
	atomic_thread_fence(memory_order_seq_cst);
	bool ended = ctx->places_free != ctx->transfer_count &&
		slot_filled(&ctx->com, ctx->com.pos);

	if (ctx->selects && lhs_peek(&ctx->lhs) == NULL && !ctx->news && !ended &&
		!services_landed(ctx) && !engine_gone(ctx))
		return 0;
	ctx->news = false;
	pmx_after_select(ctx);
	return 1;
}

void
pmx_after_select(struct pmx_context *ctx)
{
	struct epoll_event event;

	atomic_store_explicit(&ctx->shm->wake_client, 0, memory_order_relaxed);
	epoll_wait(ctx->event_fd, &event, 1, 0); /* an edge: taken, if it was there */
}

static int64_t
now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

/* One step of waiting: run the embedded engine, or sleep on the descriptor. */
static void
wait_step(struct pmx_context *ctx, int64_t left_us)
{
	struct pollfd p = {.fd = ctx->event_fd, .events = POLLIN};
	int64_t ms = left_us < 0 || left_us > 100000 ? 100 : left_us / 1000;

	if (ctx->node->embedded != NULL) {
		if (ctx->node->way->poll(ctx->node) == 0)
			sched_yield();
		return;
	}
	if (pmx_before_select(ctx) != 0)
		return;
	poll(&p, 1, ms ? (int)ms : 1);
	pmx_after_select(ctx);
}

int
pmx_receive_wait(struct pmx_context *ctx, struct pmx_message *msg, int64_t timeout_us)
{
	int64_t end = timeout_us < 0 ? INT64_MAX : now_us() + timeout_us;
	int result;

	while ((result = pmx_receive(ctx, msg)) == 0) {
		int64_t left = timeout_us < 0 ? -1 : end - now_us();

		if (timeout_us >= 0 && left <= 0)
			return 0;
		wait_step(ctx, left);
	}
	return result;
}

int
pmx_send_wait(struct pmx_context *ctx, int64_t timeout_us)
{
	int64_t end = timeout_us < 0 ? INT64_MAX : now_us() + timeout_us;

	while (pmx_sends_pending(ctx) != 0) {
		if (engine_gone(ctx))
			return -EPIPE;
		if (timeout_us >= 0 && now_us() >= end)
			return -ETIMEDOUT;
		ctx_wait(ctx);
	}
	return 0;
}

/* ------------------------------------------------------------------ life */

/* ---------------------------------------------------------------- for the library's other files */

bool
ctx_gone(const struct pmx_context *ctx)
{
	return engine_gone(ctx);
}

void
ctx_doorbell(struct pmx_context *ctx)
{
	ring_doorbell(ctx);
}

void
ctx_completions(struct pmx_context *ctx)
{
	take_completions(ctx);
}

int
ctx_idle(struct pmx_context *ctx)
{
	return nothing(ctx);
}

void
ctx_sleep(struct pmx_context *ctx, int64_t left_us)
{
	wait_step(ctx, left_us);
}

int64_t
ctx_now_us(void)
{
	return now_us();
}

void
ctx_wait(struct pmx_context *ctx)
{
	if (ctx->node->embedded == NULL || ctx->node->way->poll(ctx->node) == 0)
		sched_yield();
}

struct pmx_addr
pmx_context_addr(const struct pmx_context *ctx)
{
	return (struct pmx_addr){ctx->node->number, ctx->ctx};
}

uint32_t
pmx_get_mtu(const struct pmx_context *ctx)
{
	return ctx->frag_len;
}

uint32_t
pmx_get_max_message(const struct pmx_context *ctx)
{
	return ctx->max_message;
}

void
pmx_context_stat(const struct pmx_context *ctx, struct pmx_context_stat *stat)
{
	*stat = ctx->stat; /* as of the completions taken so far */
	stat->send_buffers = ctx->send_buffers;
	stat->receive_buffers = ctx->receive_buffers;
}

/* Ends of the channel's rings, and what it says. */
static void
join(struct pmx_context *ctx, struct channel_shm *shm, int event_fd, int doorbell)
{
	ctx->shm = shm;
	slot_end_init(&ctx->sub, channel_submissions(shm), shm->submissions, &shm->submissions_pos);
	slot_end_init(&ctx->com, channel_completions(shm), shm->completions, &shm->completions_pos);
	lhs_end_init(&ctx->next_lhs, &shm->lhs, channel_lhs(shm));
	ctx->send_off = channel_send_off(shm);
	ctx->frag_len = shm->frag_len;
	/* a message must fit the submission ring too */
	uint64_t most = (uint64_t)((shm->submissions - 1) * SUBMIT_MORE_BUFS) * shm->frag_len;

	ctx->max_message = shm->max_message < most ? shm->max_message : (uint32_t)most;
	ctx->one_max = ctx->max_message < ctx->frag_len ? ctx->max_message : ctx->frag_len;
	ctx->release_most = (shm->receive_buffers < shm->matched_buffers ? shm->receive_buffers
									 : shm->matched_buffers) /
		4;
	if (ctx->release_most > SUBMIT_RELEASE_BUFS)
		ctx->release_most = SUBMIT_RELEASE_BUFS;
	ctx->engine_may_sleep = shm->engine_may_sleep;
	ctx->yields = ctx->idle == PMX_IDLE_YIELD || (ctx->idle == PMX_IDLE_AUTO && shm->yields);
	ctx->no_kernel = !shm->kernel_copies;
	ctx->generation = shm->generation;
	ctx->selects = false;
	ctx->event_fd = event_fd;
	ctx->doorbell = doorbell;
}

/* A place for each buffer that messages of this channel may hold. */
static int
make_release_list(struct pmx_context *ctx, const struct channel_shm *shm)
{
	uint32_t room = shm->receive_buffers + shm->matched_buffers;
	uint32_t *list = room > ctx->release_room ? realloc(ctx->release, room * sizeof(*list))
						  : ctx->release;

	if (list == NULL)
		return -ENOMEM;
	ctx->release = list;
	ctx->release_room = room > ctx->release_room ? room : ctx->release_room;
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

void
ctx_reset_sends(struct pmx_context *ctx)
{
	bool *is_free = calloc(ctx->send_buffers, sizeof(*is_free));

	if (is_free == NULL)
		return; /* those of the last life are lost with their answers: -EPIPE for ever */
	for (uint32_t i = 0; i < ctx->free_count; i++)
		is_free[ctx->free[i]] = true;
	for (uint32_t i = 0; i < ctx->send_buffers; i++) {
		struct send_note *n = &ctx->notes[i];

		if (is_free[i])
			continue;
		n->uses++;
		n->before = n->error;
		n->error = ECONNRESET;
		ctx->stat.send_errors += n->next == NO_BUFFER;
		ctx->free[ctx->free_count++] = (uint16_t)i;
	}
	free(is_free);
	if (ctx->tracked)
		services_progress(ctx);
}

int
ctx_rejoin(struct pmx_context *ctx, struct channel_shm *shm, uint64_t mapped, int event_fd,
	int doorbell)
{
	const struct channel_sizes sizes = {CHANNEL_SIZES(shm)};
	struct channel_shm *old = ctx->shm;

	if (memcmp(&sizes, &ctx->sizes, sizeof(sizes)) != 0)
		return -EPROTO;
	if (make_release_list(ctx, shm) != 0)
		return -ENOMEM;
	if (ctx->past != NULL)
		munmap(ctx->past, ctx->past_bytes);
	ctx->past = ctx->mapped ? old : NULL;
	ctx->past_bytes = ctx->mapped;
	ctx->mapped = mapped;
	/* whoever polls the descriptor keeps its number */
	dup2(event_fd, ctx->event_fd);
	close(event_fd);
	close(ctx->doorbell);
	if (ctx->alarm >= 0)
		close(ctx->alarm);
	ctx->alarm = -1;
	join(ctx, shm, ctx->event_fd, doorbell);
	ctx->life = BULK_LIFE(++ctx->lives);
	/* what was kept is found from the new channel */
	for (uint32_t i = 0; ctx->unread && i <= ctx->lhs.mask; i++)
		lhs_at(&ctx->lhs, i)->bulk_off += (uint8_t *)old - (uint8_t *)shm;
	if (!ctx->unread)
		take_ring(ctx);
	slot_end_init(&ctx->events, channel_events(shm), shm->events, &shm->events_pos);
	ctx->transfer_payload = shm->frag_len - (uint32_t)sizeof(struct wire_transfer);
	for (const struct client_service *const *s = ctx->node->services; *s != NULL; s++) {
		int result = (*s)->rejoin != NULL ? (*s)->rejoin(ctx) : 0;

		if (result != 0)
			return result;
	}
	pthread_mutex_lock(&ctx->node->lock);
	ctx->adrift = false;
	if (ctx->node->gone)
		atomic_store(&shm->state, CHANNEL_DEAD);
	pthread_mutex_unlock(&ctx->node->lock);
	for (const struct client_service *const *s = ctx->node->services; *s != NULL; s++) {
		if ((*s)->rejoined != NULL)
			(*s)->rejoined(ctx);
	}
	return 0;
}

int
ctx_idle_policy(const struct pmx_context_params *params)
{
	const char *by_user = getenv("PMX_IDLE");

	if (params->idle != PMX_IDLE_AUTO || by_user == NULL || *by_user == 0)
		return params->idle <= PMX_IDLE_YIELD ? (int)params->idle : -EINVAL;
	return strcmp(by_user, "spin") == 0     ? PMX_IDLE_SPIN
		: strcmp(by_user, "yield") == 0 ? PMX_IDLE_YIELD
						: -EINVAL;
}

int
ctx_make(struct pmx_context **out, struct pmx_node *node, const struct pmx_context_params *params,
	struct channel_shm *shm, int event_fd, int doorbell)
{
	struct pmx_context *ctx = calloc(1, sizeof(*ctx));

	if (ctx == NULL) {
		close(event_fd);
		if (doorbell >= 0)
			close(doorbell);
		return -ENOMEM;
	}
	ctx->event_fd = event_fd;
	ctx->doorbell = doorbell;
	ctx->alarm = -1;
	ctx->notes = calloc(shm->send_buffers, sizeof(*ctx->notes));
	ctx->free = calloc(shm->send_buffers, sizeof(*ctx->free));
	if (ctx->notes == NULL || ctx->free == NULL || make_release_list(ctx, shm) != 0) {
		ctx_free(ctx);
		return -ENOMEM;
	}
	/* pmx_context_open has looked at it */
	ctx->idle = (enum pmx_idle)ctx_idle_policy(params);
	join(ctx, shm, event_fd, doorbell);
	take_ring(ctx);
	ctx->send_buffers = shm->send_buffers;
	ctx->receive_buffers = shm->receive_buffers;
	ctx->sizes = (struct channel_sizes){CHANNEL_SIZES(shm)};
	ctx->node = node;
	ctx->ctx = shm->ctx;
	for (uint32_t i = shm->send_buffers; i-- > 0;)
		ctx->free[ctx->free_count++] = (uint16_t)i;
	for (const struct client_service *const *s = node->services; *s != NULL; s++) {
		if ((*s)->open != NULL && (*s)->open(ctx) != 0) {
			ctx_free(ctx);
			return -ENOMEM;
		}
	}
	STEP();
	pthread_mutex_lock(&node->lock);
	ctx->next = node->contexts;
	node->contexts = ctx;
	atomic_fetch_add(&node->context_count, 1);
	if (node->gone) /* it ended just now, and its watcher did not see this one */
		atomic_store(&shm->state, CHANNEL_DEAD);
	pthread_mutex_unlock(&node->lock);
	*out = ctx;
	return 0;
}

void
ctx_free(struct pmx_context *ctx)
{
	struct pmx_node *node = ctx->node;
	struct pmx_context **link = node ? &node->contexts : NULL;

	if (node != NULL)
		pthread_mutex_lock(&node->lock);
	while (link != NULL && *link != NULL && *link != ctx)
		link = &(*link)->next;
	if (link != NULL && *link == ctx) {
		*link = ctx->next;
		atomic_fetch_sub(&node->context_count, 1);
	}
	if (node != NULL)
		pthread_mutex_unlock(&node->lock);
	/* only now: the thread that watches the primary wakes who is in the list */
	close(ctx->event_fd);
	if (ctx->doorbell >= 0)
		close(ctx->doorbell);
	if (ctx->alarm >= 0)
		close(ctx->alarm);
	for (const struct client_service *const *s = node != NULL ? node->services : NULL;
		s != NULL && *s != NULL; s++) {
		if ((*s)->close != NULL)
			(*s)->close(ctx);
		STEP();
	}
	if (ctx->mapped)
		munmap(ctx->shm, ctx->mapped);
	STEP();
	if (ctx->past != NULL)
		munmap(ctx->past, ctx->past_bytes);
	while (ctx->kept != NULL) {
		struct kept *k = ctx->kept;

		ctx->kept = k->next;
		free(k);
	}
	free(ctx->kept_events);
	free(ctx->notes);
	free(ctx->free);
	free(ctx->release);
	free(ctx);
}
