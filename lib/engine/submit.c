/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From channels into the PM core, and completions back. Each submission is copied once, checked,
 * and only the copy is used: whatever a client writes, it gets an error and a counter. Runs on the
 * lane.
 *
 * Design notes
 * 1. A submission that the core cannot take now stays in its ring, and that ring alone waits.
 * 2. Lanes look at their channels in turn, up to a burst each, from another one every time.
 * 3. Completions of one poll are gathered and written 14 to a slot. A client that does not take
 *    them finds them later: they wait in the engine's own memory, one place for each buffer.
 */
#include <errno.h>
#include <string.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/engine.h"

_Static_assert(offsetof(struct proto_message, ctx) == 8 && offsetof(struct proto_message, len) == 4 &&
		offsetof(struct submission, send.len) == offsetof(struct submission, send.dst_node) + 4,
	"to_core copies a submission's node, context and length in one piece");

/* ------------------------------------------------------------------ completions */

static inline void
push_done(struct engine *e, struct channel *ch, struct send_slot *s, uint8_t error)
{
	s->state = SEND_CLIENT;
	ch->busy_slots--;
	ch->done[ch->done_tail++ & ch->done_mask] = COMPLETION_ITEM(s->number, error);
	channel_touch(e, ch);
}

/* The slot gets another mbuf, its own is left to the port that has it; false: none is free. */
static bool
replace_buffer(struct engine *e, struct channel *ch, const struct send_slot *s)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(e->node->pool);

	if (unlikely(m == NULL))
		return false;
	rte_pktmbuf_free(s->m);
	slot_set_buffer(ch, s->number, m);
	return true;
}

/* The core is done with a send buffer: back to its client. Ports may keep what they have sent
 * until their queue runs short of descriptors (virtio does), which may be never: their share of
 * the pool (node.c) pays for a replacement. */
void
slot_complete(struct engine *e, struct channel *ch, struct send_slot *s, uint8_t error)
{
	if (unlikely(rte_mbuf_refcnt_read(s->m) > 1) && !replace_buffer(e, ch, s)) {
		s->state = SEND_LINGER;
		s->error = error;
		e->lingering[e->lingering_count++] = s;
		return;
	}
	push_done(e, ch, s, error);
}

static void
recheck_lingering(struct engine *e)
{
	unsigned keep = 0;

	for (unsigned i = 0; i < e->lingering_count; i++) {
		struct send_slot *s = e->lingering[i];

		if (rte_mbuf_refcnt_read(s->m) > 1)
			e->lingering[keep++] = s;
		else
			push_done(e, &e->node->channels[s->ctx], s, s->error);
	}
	e->lingering_count = keep;
}

/* A completion of another context than the one before, or of its endpoints for remote memory. true: done. */
static __rte_noinline bool
transfer_completed(struct engine *e, struct channel *ch, const struct proto_completion *c)
{
	if (c->ctx < WIRE_CONTEXTS_MAX)
		return false;
	if (is_transfer(c->handle)) {
		frame_done(e, frame_of_handle(c->handle), c->error);
		return true;
	}
	if (c->error && wire_endpoint(c->ctx) == WIRE_INITIATOR)
		transfer_packed_failed(e, ch, ((struct send_slot *)(uintptr_t)c->handle)->m, c->error);
	return false;
}

unsigned
engine_complete(struct engine *e)
{
	struct proto_completion c[BURST_MAX];
	struct channel *ch = e->node->channels;
	unsigned n, work = 0;

	if (unlikely(e->lingering_count))
		recheck_lingering(e);
	if (unlikely(e->transfers.lingering != NULL))
		frames_recheck(e);
	do {
		n = proto_complete(e->proto, c, BURST_MAX);
		for (unsigned i = 0; i < n; i++) {
			if (ch->ctx != c[i].ctx) { /* runs are of one context */
				ch = &e->node->channels[c[i].ctx % WIRE_CONTEXTS_MAX];
				if (transfer_completed(e, ch, &c[i]))
					continue;
			}
			slot_complete(e, ch, (struct send_slot *)(uintptr_t)c[i].handle,
				c[i].error);
		}
		work += n;
	} while (n == BURST_MAX);
	return work;
}

/* Write gathered completions; false if the client's ring is full. */
static bool
write_completions(struct channel *ch)
{
	while (ch->done_head != ch->done_tail) {
		if (!slot_room(&ch->com, 1))
			return false;
		struct slot *slot = slot_at(&ch->com, ch->com.pos);
		struct completion *c = (struct completion *)slot->body;
		uint32_t n = ch->done_tail - ch->done_head;

		c->count = n = n < COMPLETION_BUFS ? n : COMPLETION_BUFS;
		for (uint32_t i = 0; i < n; i++)
			c->item[i] = ch->done[ch->done_head++ & ch->done_mask];
		slot_publish(&ch->com, ch->com.pos++);
	}
	return true;
}

/* Results of transfers and registrations. */
static __rte_noinline bool
write_results(struct channel *ch)
{
	struct remote *r = ch->remote;

	while (r->ended_head != r->ended_tail || r->region.due) {
		if (!slot_room(&ch->com, 1))
			return false;
		struct completion *c = (struct completion *)slot_at(&ch->com, ch->com.pos)->body;

		if (r->region.due) {
			c->count = COMPLETION_REGION;
			c->item[0] = r->region.ticket;
			c->item[1] = r->region.error;
			c->item[2] = (uint32_t)r->region.key;
			c->item[3] = (uint32_t)(r->region.key >> 32);
			r->region.due = false;
		} else {
			uint32_t n = 0;

			while (n < COMPLETION_BUFS && r->ended_head != r->ended_tail)
				c->item[n++] = r->ended[r->ended_head++ & r->ended_mask];
			c->count = COMPLETION_TRANSFERS | n;
		}
		slot_publish(&ch->com, ch->com.pos++);
	}
	return true;
}

static inline bool
has_results(const struct remote *r)
{
	return r->ended_head != r->ended_tail || r->region.due;
}

static void
wake(struct engine *e, struct channel *ch)
{
	if (atomic_load_explicit(&ch->shm->wake_client, memory_order_relaxed) == 0)
		return;
	atomic_store_explicit(&ch->shm->wake_client, 0, memory_order_relaxed);
	if (eventfd_write(ch->event_fd, 1) == 0)
		ENGINE_COUNT(e, wakeups);
}

/* The end of a poll: what happened in channels becomes visible to their clients. */
void
engine_flush(struct engine *e)
{
	unsigned keep = 0;

	for (unsigned i = 0; i < e->dirty_count; i++) {
		struct channel *ch = e->dirty[i];
		bool written = ch->state == CHANNEL_CLOSED || write_completions(ch);
		if (unlikely(has_results(ch->remote)) && ch->state == CHANNEL_OPEN)
			written = write_results(ch) && written;
		if (unlikely(ch->matching != NULL) && ch->state == CHANNEL_OPEN)
			written = matching_results(ch) && written;

		if (ch->selects && ch->news && ch->state == CHANNEL_OPEN) {
			/* full fence: marks before the flag; pairs with pmx_before_select's */
			atomic_thread_fence(memory_order_seq_cst);
			wake(e, ch);
		}
		ch->news = false;
		if (written)
			ch->dirty = false;
		else
			e->dirty[keep++] = ch;
	}
	e->dirty_count = keep;
}

/* ------------------------------------------------------------------ submissions */

static void
bad_submission(struct engine *e, struct channel *ch)
{
	ENGINE_COUNT(e, bad_submissions);
	ch->bad++;
}

/* The numbers of a message's buffers, copied out of its slots. Slots beyond the first were
 * published before it. Returns how many slots the message takes, 0 = malformed. */
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

/* Are these the client's own buffers, and as many as the length needs? Marks them taken. */
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

/* Which of the receiver's endpoints a message is for, and which of its sender's it comes from. */
static inline uint16_t
endpoint_of(const struct submission *s)
{
	return s->op == SUBMIT_MATCHED ? WIRE_MATCHED : 0;
}

static inline int
to_core(struct engine *e, struct channel *ch, const struct submission *s, const uint64_t *handles)
{
	uint16_t endpoint = endpoint_of(s);

	if (unlikely(s->send.dst_node >= e->nodes_max || s->send.dst_ctx >= WIRE_CONTEXTS_MAX ||
		    !e->peers[s->send.dst_node].known))
		return s->send.dst_node < e->nodes_max && e->peers[s->send.dst_node].known ? -ECONNREFUSED : -EHOSTUNREACH;
	/* node, context and length stand in the same order in both */
	memcpy(&ch->message, &s->send, offsetof(struct proto_message, ctx));
	ch->message.dst_ctx |= endpoint;
	ch->message.ctx = ch->ctx | endpoint;
	return proto_send(e->proto, &ch->message, handles, e->now);
}

/* Any message. Returns slots consumed, 0 = the core cannot take it now. */
static __rte_noinline unsigned
submit_checked(struct engine *e, struct channel *ch, const struct submission *s)
{
	unsigned slots = collect_buffers(e, ch, s);

	if (slots == 0 || !take_buffers(e, ch, s->send.len, s->count)) {
		bad_submission(e, ch);
		return slots ? slots : 1;
	}
	if (s->send.dst_node == e->node->config.id) {
		ENGINE_COUNT(e, submissions);
		if (ch->thin != NULL)
			thin_fill(ch, e->bufs_scratch, s->count, s->send.len);
		local_send(e, ch, s->send.dst_ctx, endpoint_of(s), s->send.len, e->bufs_scratch, s->count);
		return slots;
	}
	int result = to_core(e, ch, s, e->handles);

	if (result == -EAGAIN) {
		for (unsigned i = 0; i < s->count; i++)
			ch->slots[e->bufs_scratch[i]].state = SEND_CLIENT;
		ch->busy_slots -= s->count;
		return 0;
	}
	ENGINE_COUNT(e, submissions);
	if (ch->thin != NULL && result == 0)
		thin_fill(ch, e->bufs_scratch, s->count, s->send.len);
	ch->sent += result == 0;
	for (unsigned i = 0; result != 0 && i < s->count; i++)
		slot_complete(e, ch, &ch->slots[e->bufs_scratch[i]], (uint8_t)-result);
	return slots;
}

/* The common message in one piece: one buffer, to another node. */
static inline unsigned
submit_send(struct engine *e, struct channel *ch, const struct submission *s)
{
	struct send_slot *slot = &ch->slots[s->send.buf[0]];
	const uint64_t handle = (uintptr_t)slot;

	if (unlikely(s->count != 1 || s->send.buf[0] >= ch->send_buffers ||
		    slot->state != SEND_CLIENT || s->send.len > ch->one_max ||
		    to_core(e, ch, s, &handle) != 0))
		return submit_checked(e, ch, s);
	if (unlikely(ch->thin != NULL)) /* the core has it, and no link yet */
		thin_fill(ch, s->send.buf, 1, s->send.len);
	slot->state = SEND_QUEUED;
	ch->busy_slots++;
	ch->sent++;
	ENGINE_COUNT(e, submissions);
	return 1;
}

/* Copied once: what is checked is what is used. Most have one buffer: two words. */
static inline void
copy_submission(struct submission *s, const uint8_t *body)
{
	memcpy(s, body, 16);
	if (unlikely(s->op > SUBMIT_MATCHED || s->count > 2))
		memcpy((uint8_t *)s + 16, body + 16, sizeof(*s) - 16);
}

/* A frame of a transfer that the client packed: to another node in the client's buffer, within this node
 * as a copy. Returns slots consumed, 0 = not now. */
static unsigned
submit_frame(struct engine *e, struct channel *ch, const struct submission *s)
{
	struct send_slot *slot = s->frame.buf < ch->send_buffers ? &ch->slots[s->frame.buf] : NULL;
	const struct proto_message m = {
		.dst_node = s->frame.dst_node,
		.dst_ctx = s->frame.dst_ctx | WIRE_TARGET,
		.len = s->frame.len,
		.ctx = ch->ctx | WIRE_INITIATOR,
		.frag_len = ch->frag_len,
	};
	const uint64_t handle = (uintptr_t)slot;
	int result;

	if (slot == NULL || slot->state != SEND_CLIENT || s->frame.len > ch->frag_len ||
		s->frame.len < sizeof(struct wire_transfer) || s->frame.dst_ctx >= WIRE_CONTEXTS_MAX) {
		bad_submission(e, ch);
		return 1;
	}
	if (ch->thin != NULL) {
		thin_fill(ch, &s->frame.buf, 1, s->frame.len);
		/* what else it may ask for, it asks the engine for, which keeps count of its pins */
		if (unlikely(((const struct wire_transfer *)send_payload(slot))->op != WIRE_PUSH)) {
			bad_submission(e, ch);
			return 1;
		}
	}
	/* first what went wrong before: what follows a lost frame must not look like its transfer's end */
	engine_complete(e);
	slot->state = SEND_QUEUED;
	ch->busy_slots++;
	if (!transfer_is_packed(ch, s->frame.transfer)) {
		slot_complete(e, ch, slot, 0);
		return 1;
	}
	if (s->frame.dst_node == e->node->config.id)
		result = transfer_copy(e, ch, slot->m, &m);
	else if (s->frame.dst_node >= e->nodes_max || !e->peers[s->frame.dst_node].known)
		result = -EHOSTUNREACH;
	else
		result = proto_send(e->proto, &m, &handle, e->now);
	if (result == -EAGAIN) {
		slot->state = SEND_CLIENT;
		ch->busy_slots--;
		return 0;
	}
	if (result < 0)
		transfer_packed_failed(e, ch, slot->m, (uint8_t)-result);
	transfer_packed(e, ch, s->frame.transfer, s->count != 0);
	if (result != 0)
		slot_complete(e, ch, slot, result < 0 ? (uint8_t)-result : 0);
	return 1;
}

/* Anything but a message to send. Returns slots consumed, 0 = not now. */
static __rte_noinline unsigned
submit_other(struct engine *e, struct channel *ch, const struct submission *s)
{
	switch (s->op) {
	case SUBMIT_RELEASE:
		engine_release(e, ch, s->release,
			s->count < SUBMIT_RELEASE_BUFS ? s->count : SUBMIT_RELEASE_BUFS, ch->matching == NULL);
		break;
	case SUBMIT_SELECT:
		ch->selects = true;
		channel_touch(e, ch);
		break;
	case SUBMIT_TRANSFER:
		if (!transfer_submit(e, ch, s->transfer))
			bad_submission(e, ch);
		break;
	case SUBMIT_FRAME:
		return submit_frame(e, ch, s);
	case SUBMIT_REGISTER:
	case SUBMIT_DEREGISTER:
		if (ch->state != CHANNEL_OPEN)
			break; /* nobody would hear the answer */
		if (ch->remote->region.due || ch->remote->region.waits)
			return 0;
		target_region(e, ch, s);
		break;
	case SUBMIT_RECEIVE:
		if (ch->matching == NULL || !matching_submit(e, ch, s))
			bad_submission(e, ch);
		break;
	case SUBMIT_CANCEL:
		transfer_cancel(e, ch, s->transfer);
		break;
	case SUBMIT_FORGET:
		context_forget(e, ch, s->forget);
		break;
	default:
		bad_submission(e, ch);
	}
	return 1;
}

unsigned
channel_scan(struct engine *e, struct channel *ch)
{
	unsigned burst = ch->burst, work = 0;

	while (work < burst && slot_filled(&ch->sub, ch->sub.pos)) {
		struct submission s;
		unsigned slots = 1;

		copy_submission(&s, slot_at(&ch->sub, ch->sub.pos)->body);
		if (likely(s.op == SUBMIT_SEND || s.op == SUBMIT_MATCHED))
			slots = submit_send(e, ch, &s);
		else
			slots = submit_other(e, ch, &s);
		if (unlikely(slots == 0))
			break;
		ch->sub.pos += slots;
		work++;
	}
	if (work)
		slot_take(&ch->sub, 0, false);
	return work;
}

/* Are more than half of the ring's entries the reader's? */
static inline bool
lhs_is_low(const struct inlet *in)
{
	return in->lhs.pos - in->lhs_pos > in->lhs_size / 2;
}

unsigned
engine_submissions(struct engine *e)
{
	unsigned work = 0, n = e->open_count;

	if (unlikely(n == 0))
		return 0;
	if (++e->scan >= n)
		e->scan = 0;
	const bool frozen = atomic_load_explicit(&e->frozen, memory_order_relaxed);

	for (unsigned k = 0, i = e->scan; k < n && i < e->open_count; k++) {
		struct channel *ch = e->open[i];

		if (unlikely(ch->state != CHANNEL_OPEN)) {
			work += engine_reap(e, ch);
		} else {
			if (!frozen && slot_filled(&ch->sub, ch->sub.pos))
				work += channel_scan(e, ch);
			if (unlikely(lhs_is_low(&ch->plain)))
				engine_room(e, &ch->plain);
			if (unlikely(lhs_is_low(&ch->matched)))
				engine_room(e, &ch->matched);
		}
		if (++i >= n)
			i = 0;
	}
	return work;
}
