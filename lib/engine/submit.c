/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From channels into the PM core, and to services. Each submission is copied once and checked, and
 * only the copy is used: malformed ones only cause an error and a count, whatever a client writes.
 * Runs on the lane.
 *
 * Design notes
 * 1. A submission that the core cannot take now stays in its ring, and blocks only that ring.
 * 2. A message of one frame for which nothing has to wait leaves here: its header is written where
 *    the link reads it, and the flow's turn, the list of descriptors and the array of frames
 *    (proto_tx) are for all others.
 * 3. Messages to one context that follow each other leave as a run, which costs half of what each
 *    alone does. Where they alternate between contexts, those of a burst are sorted by where they
 *    go first. Of each flow they stay in order.
 */
#include <errno.h>
#include <string.h>

#include "engine/complete.h"
#include "engine/contexts.h"
#include "engine/link_io.h"
#include "engine/local.h"
#include "engine/rails.h"
#include "engine/room.h"
#include "engine/submit.h"
#include "engine/thin.h"
#include "engine/watch.h"
#include "engine/withdraw.h"

_Static_assert(offsetof(struct proto_message, ctx) == 8 &&
		offsetof(struct proto_message, len) == 4 &&
		offsetof(struct submission, send.len) ==
			offsetof(struct submission, send.dst_node) + 4,
	"to_core copies a submission's node, context and length in one piece");

/* Copy the numbers of a message's buffers out of its slots into bufs_scratch. Clients publish the
 * first slot after the others. Return how many slots the message takes, 0 = malformed. */
static unsigned
collect_buffers(struct engine *e, const struct channel *ch, const struct submission *s)
{
	unsigned count = s->count, have = count < SUBMIT_SEND_BUFS ? count : SUBMIT_SEND_BUFS;
	unsigned slots = 1;

	if (count == 0 || count > ch->send_buffers)
		return 0;
	memcpy(e->bufs_scratch, s->send.buf, have * sizeof(uint16_t));
	while (have < count) {
		uint32_t pos = ch->sub.pos + slots++;
		struct submission more;

		if (slots > ch->sub.mask + 1 || !slot_filled(&ch->sub, pos))
			return 0;
		memcpy(&more, slot_at(&ch->sub, pos)->body, sizeof(more));
		unsigned n = count - have < SUBMIT_MORE_BUFS ? count - have : SUBMIT_MORE_BUFS;

		if (more.op != SUBMIT_MORE || more.count != n)
			return 0;
		memcpy(e->bufs_scratch + have, more.more, n * sizeof(uint16_t));
		have += n;
	}
	return slots;
}

/* Mark the buffers as taken. Return false if they are not the client's, or not exactly as many as
 * the length needs. */
static bool
take_buffers(struct engine *e, struct channel *ch, uint32_t len, unsigned count)
{
	uint64_t room = (uint64_t)count * ch->frag_len;
	unsigned i;

	if (len > e->node->config.message_max || len > room ||
		(count > 1 && len <= room - ch->frag_len))
		return false;
	for (i = 0; i < count; i++) {
		uint16_t b = e->bufs_scratch[i];

		if (b >= ch->send_buffers || ch->slots[b].state != SEND_CLIENT)
			break;
		ch->slots[b].state = SEND_QUEUED;
		e->handles[i] = (uintptr_t)&ch->slots[b];
	}
	if (likely(i == count)) {
		ch->busy_slots += count;
		return true;
	}
	while (i-- > 0)
		ch->slots[e->bufs_scratch[i]].state = SEND_CLIENT;
	return false;
}

static inline bool
is_message(const struct submission *s)
{
	return s->op - 1u < SUBMIT_INLINE_MATCHED;
}

/* Return whether a message is an inline one. */
static inline bool
is_inline(const struct submission *s)
{
	return s->op >= SUBMIT_INLINE;
}

/* Return the endpoint of both a message's sender and its receiver. */
static inline uint16_t
endpoint_of(const struct submission *s)
{
	return s->op & 1 ? 0 : WIRE_MATCHED;
}
_Static_assert(SUBMIT_SEND == 1 && SUBMIT_MATCHED == 2 && SUBMIT_INLINE == 3 &&
		SUBMIT_INLINE_MATCHED == 4,
	"messages are told apart by the order of their kinds");

static inline int
to_core(struct engine *e, struct channel *ch, const struct submission *s, const uint64_t *handles,
	unsigned count)
{
	uint16_t endpoint = endpoint_of(s);

	if (unlikely(s->send.dst_node >= e->nodes_max || s->send.dst_ctx >= WIRE_CONTEXTS_MAX ||
		    !e->peers[s->send.dst_node].known))
		return s->send.dst_node < e->nodes_max && e->peers[s->send.dst_node].known
			? -ECONNREFUSED
			: -EHOSTUNREACH;
	/* node, context and length are in the same order in both */
	memcpy(&ch->message, &s->send, offsetof(struct proto_message, ctx));
	ch->message.dst_ctx |= endpoint;
	ch->message.ctx = ch->ctx | endpoint;
	ch->terms[((const struct send_slot *)(uintptr_t)handles[count - 1])->number].to =
		proto_flow_key(ch->message.ctx, ch->message.dst_node, ch->message.dst_ctx);
	return proto_send(e->proto, &ch->message, handles, e->now);
}

/* Pass on a message of `count` buffers, which are in bufs_scratch and handles. Return false if the
 * core cannot take it now. */
static bool
dispatch(struct engine *e, struct channel *ch, const struct submission *s, unsigned count)
{
	bool fill = ch->thin != NULL && !is_inline(s);

	if (s->send.dst_node == e->node->config.id) {
		ENGINE_COUNT(e, submissions);
		if (fill)
			thin_fill(ch, e->bufs_scratch, count, s->send.len);
		local_send(e, ch, s->send.dst_ctx, endpoint_of(s), s->send.len, e->bufs_scratch,
			count);
		return true;
	}
	int result = to_core(e, ch, s, e->handles, count);

	if (result == -EAGAIN)
		return false;
	ENGINE_COUNT(e, submissions);
	if (fill)
		thin_fill(ch, e->bufs_scratch, count, s->send.len);
	ch->sent += result == 0;
	ch->sent_bytes += result == 0 ? s->send.len : 0;
	if (unlikely(result != 0)) {
		const struct send_failure f = {endpoint_of(s), s->send.dst_node, s->send.dst_ctx,
			(uint8_t)-result};

		for (unsigned i = 0; i < count; i++)
			slot_failed(e, ch, &ch->slots[e->bufs_scratch[i]], &f);
	}
	return true;
}

/* Submit a message by the general path, which takes any number of buffers. Return the slots
 * consumed, 0 = the core cannot take it now. */
static __rte_noinline unsigned
submit_checked(struct engine *e, struct channel *ch, const struct submission *s)
{
	unsigned slots = collect_buffers(e, ch, s);

	if (slots == 0 || !take_buffers(e, ch, s->send.len, s->count)) {
		submission_bad(e, ch);
		return slots ? slots : 1;
	}
	if (dispatch(e, ch, s, s->count))
		return slots;
	for (unsigned i = 0; i < s->count; i++)
		ch->slots[e->bufs_scratch[i]].state = SEND_CLIENT;
	ch->busy_slots -= s->count;
	return 0;
}

/* Copy a submission, so that what is checked is what is used. Two words are enough for a message of
 * one buffer, and for an inline one, whose payload is copied once. */
static inline void
copy_submission(struct submission *s, const uint8_t *body)
{
	memcpy(s, body, 16);
	if (unlikely(!is_message(s) || s->count > 2))
		memcpy((uint8_t *)s + 16, body + 16, sizeof(*s) - 16);
}

/* The beginning of a submission that is a message of one buffer or none: its kind and where it
 * goes, then what is its own. */
struct short_submission {
	uint64_t kind_and_target;
	uint32_t len;
	uint16_t buf; /* not of an inline one */
};
_Static_assert(offsetof(struct submission, send.len) == offsetof(struct short_submission, len) &&
		offsetof(struct submission, send.buf) == offsetof(struct short_submission, buf),
	"a submission begins like a short one");

/* Take the buffer of a message. Return false if the message has to be looked at more closely. */
static inline bool
take_buffer(const struct channel *ch, const struct short_submission *s, struct proto_now *out)
{
	struct send_slot *slot = &ch->slots[s->buf];

	if (unlikely(s->buf >= ch->send_buffers || slot->state != SEND_CLIENT ||
		    s->len > ch->one_max))
		return false;
	slot->state = SEND_QUEUED;
	*out = (struct proto_now){(uintptr_t)slot, slot_header(slot->m), s->len};
	return true;
}

/* Copy the payload of the inline message in the slot at pos, whose length is `len`, into one of the
 * engine's buffers. Return false if it is too long or no buffer is free. A client that keeps to
 * channel_shm's inline_sends always finds one free. */
static inline bool
take_inline(struct channel *ch, uint32_t pos, uint32_t len, struct proto_now *out)
{
	const struct submission *s = (const struct submission *)slot_at(&ch->sub, pos)->body;

	if (unlikely(len > SUBMIT_INLINE_BYTES || len > ch->one_max || ch->inline_free == 0))
		return false;
	struct send_slot *slot = &ch->slots[ch->inline_slot[--ch->inline_free]];

	memcpy(send_payload(slot), s->inlined.payload, SUBMIT_INLINE_BYTES);
	slot->state = SEND_QUEUED;
	*out = (struct proto_now){(uintptr_t)slot, slot_header(slot->m), len};
	return true;
}

/* Take the buffers of up to n messages of one buffer each, or none, to the same context, of which
 * *first is the first. Return how many messages. */
static __rte_always_inline unsigned
take_run(struct channel *ch, const struct submission *first, struct proto_now *out, unsigned n,
	bool inlined)
{
	struct short_submission s;
	uint64_t same;
	unsigned k = 0;

	memcpy(&s, first, sizeof(s));
	same = s.kind_and_target;
	do {
		if (unlikely(inlined ? !take_inline(ch, ch->sub.pos + k, s.len, &out[k])
				     : !take_buffer(ch, &s, &out[k])))
			break;
		k++;
		if (k == n || !slot_filled(&ch->sub, ch->sub.pos + k))
			break;
		memcpy(&s, slot_at(&ch->sub, ch->sub.pos + k)->body, sizeof(s));
	} while (s.kind_and_target == same);
	return k;
}

/* Queue the first `left` of the taken frames for their link, and take the buffers of the others
 * back. Return the bytes that were queued. */
static __rte_always_inline uint64_t
queue_run(struct channel *ch, struct tx_queue *q, const struct peer *peer, uint16_t node,
	const struct proto_now *run, unsigned taken, unsigned left)
{
	const struct frame_head head = frame_head_of(peer, node);
	struct rte_mbuf **queue = &q->m[q->n];
	uint64_t bytes = 0;

	for (unsigned i = 0; i < taken; i++) {
		struct send_slot *slot = (struct send_slot *)(uintptr_t)run[i].handle;

		if (unlikely(i >= left)) {
			slot->state = SEND_CLIENT;
			continue;
		}
		bytes += run[i].len;
		rte_mbuf_refcnt_update(slot->m, 1);
		frame_ready(slot->m, &head, run[i].len);
		queue[i] = slot->m;
		if (unlikely(ch->thin != NULL) && slot->number < ch->send_buffers)
			thin_fill(ch, &slot->number, 1, run[i].len); /* no link has it yet */
	}
	return bytes;
}

/* Note that so many messages of the channel were queued for their link. */
static __rte_always_inline void
run_left(struct engine *e, struct channel *ch, struct tx_queue *q, unsigned left)
{
	q->n += left;
	ch->busy_slots += left;
	ch->sent += left;
	ENGINE_COUNT_N(e, submissions, left);
	e->tx_waiting |= left != 0;
	e->straight += left;
	if (unlikely(e->straight >= e->burst))
		engine_tx_queued(e);
}

/* Send up to n messages to one context at once, of which *s is the first. Most messages can leave
 * so: their headers are written where they go, and the link has them next. Return how many left, 0
 * = submit_send() or submit_inline() is for it. The compiler inlines this for one message and for
 * several, with and without a buffer. */
static __rte_always_inline unsigned
submit_run(struct engine *e, struct channel *ch, const struct submission *s, unsigned n,
	bool inlined)
{
	struct proto_now run[BURST_MAX];
	uint16_t endpoint = endpoint_of(s), node = s->send.dst_node;

	if (unlikely(s->count != 1 || node >= e->nodes_max || s->send.dst_ctx >= WIRE_CONTEXTS_MAX))
		return 0;
	const struct peer *peer = &e->peers[node];

	if (unlikely(!peer->plain)) {
		if (!peer->several)
			return 0;
		peer = lane_rails_choose(e, node);
		if (!peer->plain)
			return 0;
	}
	struct tx_queue *q = &e->txq[peer->link];
	unsigned taken, left;

	if (unlikely(q->n >= BURST_MAX))
		return 0;
	if (n > 1 && n > BURST_MAX - q->n)
		n = BURST_MAX - q->n;
	taken = take_run(ch, s, run, n, inlined);
	if (unlikely(taken == 0))
		return 0;
	left = proto_send_now(e->proto,
		proto_flow_key(ch->ctx | endpoint, node, s->send.dst_ctx | endpoint), run, taken,
		e->now);
	ch->sent_bytes += queue_run(ch, q, peer, node, run, taken, left);
	if (unlikely(e->peers[node].several) && left != 0)
		lane_rails_sent(e, node, peer, left * (run[0].len + WIRE_HDR_BYTES));
	if (inlined)
		ch->inline_free += taken - left; /* the last ones are still on the stack */
	run_left(e, ch, q, left);
	return left;
}

#define ALTERNATE_MOST 8 /* contexts in turn */

/* Return whether the submissions behind the next one, which differs from *s, come back to its kind
 * and context soon. */
static inline bool
alternates(const struct channel *ch, const struct submission *s)
{
	for (uint32_t k = 2; k <= ALTERNATE_MOST && slot_filled(&ch->sub, ch->sub.pos + k); k++) {
		if (memcmp(slot_at(&ch->sub, ch->sub.pos + k)->body, s, sizeof(uint64_t)) == 0)
			return true;
	}
	return false;
}

/* Submit a message that cannot leave at once. The message of one buffer, to another node, is done
 * here, any other in submit_checked(). Return the slots consumed, 0 = not now. */
static unsigned
submit_send(struct engine *e, struct channel *ch, const struct submission *s)
{
	struct send_slot *slot = &ch->slots[s->send.buf[0]];
	const uint64_t handle = (uintptr_t)slot;

	if (unlikely(s->count != 1 || s->send.buf[0] >= ch->send_buffers ||
		    slot->state != SEND_CLIENT || s->send.len > ch->one_max ||
		    to_core(e, ch, s, &handle, 1) != 0))
		return submit_checked(e, ch, s);
	if (unlikely(ch->thin != NULL)) /* no link has it yet */
		thin_fill(ch, s->send.buf, 1, s->send.len);
	slot->state = SEND_QUEUED;
	ch->busy_slots++;
	ch->sent++;
	ch->sent_bytes += s->send.len;
	ENGINE_COUNT(e, submissions);
	return 1;
}

/* Submit an inline message that cannot leave at once. Return the slots consumed, 0 = not now. */
static __rte_noinline unsigned
submit_inline(struct engine *e, struct channel *ch, const struct submission *s)
{
	struct proto_now m;

	if (!take_inline(ch, ch->sub.pos, s->send.len, &m)) {
		submission_bad(e, ch);
		return 1;
	}
	struct send_slot *slot = (struct send_slot *)(uintptr_t)m.handle;

	e->bufs_scratch[0] = slot->number;
	e->handles[0] = m.handle;
	ch->busy_slots++;
	if (dispatch(e, ch, s, 1))
		return 1;
	slot->state = SEND_CLIENT;
	ch->inline_free++;
	ch->busy_slots--;
	return 0;
}

/* Send up to n inline messages at once, as submit_run() does. Return how many left. The compiler
 * makes one message a case of its own. */
static __rte_noinline unsigned
submit_inline_run(struct engine *e, struct channel *ch, const struct submission *s, unsigned n)
{
	return n > 1 ? submit_run(e, ch, s, n, true) : submit_run(e, ch, s, 1, true);
}

/* The messages of a burst to one context. */
struct bundle {
	uint64_t key; /* proto_flow_key() */
	uint16_t node, dst_ctx, endpoint;
	uint8_t first, last; /* numbers of messages */
	uint8_t count;
};

#define BUNDLE_PLACES 128

/* Messages of a burst, sorted by where they go. */
struct bundles {
	unsigned count, messages;
	struct bundle bundle[BURST_MAX];
	struct proto_now message[BURST_MAX];
	uint8_t next[BURST_MAX];      /* message of the same bundle */
	uint8_t place[BUNDLE_PLACES]; /* 1 + number of the bundle, by its key; 0: none */
};
_Static_assert(BUNDLE_PLACES >= 2 * BURST_MAX, "a search for a place ends");

/* Return the bundle of messages that go where this one does, made if there is none; NULL if there
 * is no flow yet that goes there. */
static inline struct bundle *
bundle_of(struct engine *e, struct channel *ch, struct bundles *b, const struct submission *s)
{
	const uint16_t endpoint = endpoint_of(s), node = s->send.dst_node;
	const uint16_t peer = s->send.dst_ctx | endpoint;
	const uint64_t key = proto_flow_key(ch->ctx | endpoint, node, peer);
	uint32_t at = (uint32_t)(key ^ key >> 16 ^ key >> 32);

	for (;; at++) {
		uint8_t *place = &b->place[at % BUNDLE_PLACES];

		if (*place == 0) {
			if (proto_flow_life(e->proto, ch->ctx | endpoint, node, peer) == 0)
				return NULL;
			*place = (uint8_t)++b->count;
			b->bundle[b->count - 1] = (struct bundle){
				.key = key,
				.node = node,
				.dst_ctx = s->send.dst_ctx,
				.endpoint = endpoint,
			};
		}
		if (b->bundle[*place - 1].key == key)
			return &b->bundle[*place - 1];
	}
}

/* Take up to n messages out of the ring and sort them, as long as they are to contexts of other
 * nodes to which this one sends already: the core takes each of them then, now or later. */
static void
bundle_messages(struct engine *e, struct channel *ch, struct bundles *b, unsigned n)
{
	const uint32_t room = proto_tx_free(e->proto);

	n = n < BURST_MAX ? n : BURST_MAX;
	n = n < room ? n : room;
	for (unsigned k = 0; k < n && slot_filled(&ch->sub, ch->sub.pos + k); k++) {
		struct short_submission t;
		struct submission s;

		memcpy(&s, slot_at(&ch->sub, ch->sub.pos + k)->body, sizeof(t));
		memcpy(&t, &s, sizeof(t));
		if (!is_message(&s) || s.count != 1 || s.send.dst_node >= e->nodes_max ||
			s.send.dst_ctx >= WIRE_CONTEXTS_MAX || !e->peers[s.send.dst_node].plain)
			return;
		struct bundle *to = bundle_of(e, ch, b, &s);

		if (to == NULL ||
			(is_inline(&s) ? !take_inline(ch, ch->sub.pos + k, t.len, &b->message[k])
				       : !take_buffer(ch, &t, &b->message[k])))
			return;
		if (to->count++ == 0)
			to->first = (uint8_t)k;
		else
			b->next[to->last] = (uint8_t)k;
		to->last = (uint8_t)k;
		b->messages = k + 1;
	}
}

/* Give the core what did not leave at once of a bundle. It takes it: bundle_messages(). */
static __rte_noinline void
bundle_wait(struct engine *e, struct channel *ch, const struct bundle *to,
	const struct proto_now *message)
{
	const struct send_slot *slot = (const struct send_slot *)(uintptr_t)message->handle;
	struct submission s = {.count = 1};

	s.op = slot->number < ch->send_buffers ? SUBMIT_SEND : SUBMIT_INLINE;
	s.op += to->endpoint != 0; /* the matched kind of each comes next */
	s.send.dst_node = to->node;
	s.send.dst_ctx = to->dst_ctx;
	s.send.len = message->len;
	e->bufs_scratch[0] = slot->number;
	e->handles[0] = message->handle;
	ch->busy_slots++;
	dispatch(e, ch, &s, 1);
}

/* Send the messages of one bundle. */
static void
bundle_send(struct engine *e, struct channel *ch, const struct bundles *b, const struct bundle *to)
{
	const struct peer *peer = &e->peers[to->node];
	struct tx_queue *q = &e->txq[peer->link];
	struct proto_now run[BURST_MAX];
	unsigned left = 0, room = q->n < BURST_MAX ? BURST_MAX - q->n : 0;

	for (unsigned i = 0, k = to->first; i < to->count; i++, k = b->next[k])
		run[i] = b->message[k];
	room = room < to->count ? room : to->count;
	if (likely(room != 0))
		left = proto_send_now(e->proto, to->key, run, room, e->now);
	ch->sent_bytes += queue_run(ch, q, peer, to->node, run, left, left);
	run_left(e, ch, q, left);
	for (unsigned i = left; unlikely(i < to->count); i++)
		bundle_wait(e, ch, to, &run[i]);
}

/* Send up to n messages that alternate between contexts. Return how many were taken; 0: the first
 * one is for submit_run() and those after it. */
static __rte_noinline unsigned
submit_bundles(struct engine *e, struct channel *ch, unsigned n)
{
	struct bundles b;

	b.count = b.messages = 0;
	memset(b.place, 0, sizeof(b.place));
	bundle_messages(e, ch, &b, n);
	for (unsigned i = 0; i < b.count && b.bundle[i].count != 0; i++)
		bundle_send(e, ch, &b, &b.bundle[i]);
	return b.messages;
}

/* Forget the piece of memory of that number, which the client gives up. Services drop it first, in
 * the reverse of their order. */
static void
memory_forget(struct engine *e, struct channel *ch, uint32_t number)
{
	struct memory *m = number < MEMORIES_MAX ? ch->space.pieces[number] : NULL;

	if (m == NULL)
		return;
	SERVICE_FOREACH_REVERSE(ops, e->services) {
		if (ops->memory_gone != NULL)
			ops->memory_gone(e, ch, m);
	}
	space_remove(&e->node->mappings, &ch->space, number);
}

/* Handle any submission but a message. Return the slots consumed, 0 = not now. */
static __rte_noinline unsigned
submit_other(struct engine *e, struct channel *ch, const struct submission *s)
{
	if (s->op < SUBMISSIONS_MAX && e->services->submit[s->op] != NULL)
		return e->services->submit[s->op](e, ch, s);
	switch (s->op) {
	case SUBMIT_RELEASE:
		inlet_release(e, ch, s->release,
			s->count < SUBMIT_RELEASE_BUFS ? s->count : SUBMIT_RELEASE_BUFS,
			!ch->engine_matches);
		break;
	case SUBMIT_SELECT:
		ch->selects = true;
		channel_touch(e, ch);
		break;
	case SUBMIT_FORGET:
		memory_forget(e, ch, s->forget);
		break;
	case SUBMIT_WITHDRAW:
		withdraw(e, ch, s);
		break;
	case SUBMIT_WATCH:
		watch_begin(e, ch);
		break;
	default:
		submission_bad(e, ch);
	}
	return 1;
}

unsigned
submissions_scan(struct engine *e, struct channel *ch)
{
	unsigned burst = ch->burst, work = 0, alone = 0;

	while (work < burst && slot_filled(&ch->sub, ch->sub.pos)) {
		struct submission s;
		unsigned slots = 1;

		copy_submission(&s, slot_at(&ch->sub, ch->sub.pos)->body);
		if (likely(is_message(&s))) {
			unsigned left = 0, most = 1;

			if (slot_filled(&ch->sub, ch->sub.pos + 1)) {
				if (memcmp(slot_at(&ch->sub, ch->sub.pos + 1)->body, &s,
					    sizeof(uint64_t)) == 0)
					most = burst - work;
				else if (alone != 0)
					alone--;
				else if (alternates(ch, &s))
					left = submit_bundles(e, ch, burst - work);
				else
					alone = ALTERNATE_MOST; /* look no more for a while */
			}
			if (likely(left == 0))
				left = is_inline(&s) ? submit_inline_run(e, ch, &s, most)
					: most > 1   ? submit_run(e, ch, &s, most, false)
						     : submit_run(e, ch, &s, 1, false);

			if (likely(left != 0)) {
				ch->sub.pos += left;
				work += left;
				continue;
			}
			slots = is_inline(&s) ? submit_inline(e, ch, &s) : submit_send(e, ch, &s);
		} else {
			slots = submit_other(e, ch, &s);
		}
		if (unlikely(slots == 0))
			break;
		ch->sub.pos += slots;
		work++;
	}
	if (work)
		slot_take(&ch->sub, 0, false);
	return work;
}
