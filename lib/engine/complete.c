/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Completions: from the core to send buffers and services, and from both to clients. Runs on the
 * lane.
 *
 * Design notes
 * 1. Completions of one poll are gathered and written 14 to a slot. If the client's ring is full
 *    they wait in the engine's own memory, which has a place for each buffer. Of inline messages
 *    clients learn only how many are done.
 */
#include <sys/eventfd.h>

#include "engine/complete.h"
#include "engine/room.h"
#include "engine/turns.h"

static inline void
push_done(struct engine *e, struct channel *ch, struct send_slot *s, uint8_t error)
{
	s->state = SEND_CLIENT;
	ch->busy_slots--;
	s->expires = false;
	if (s->number < ch->send_buffers) {
		ch->done[ch->done_tail++ & ch->done_mask] = COMPLETION_ITEM(s->number, error);
	} else {
		ch->inline_slot[ch->inline_free++] = s->number;
		ch->inline_done++;
		if (unlikely(error != 0)) {
			ch->inline_failed++;
			ch->inline_error = error;
		}
	}
	channel_touch(e, ch);
}

/* Give the slot another mbuf and leave its own to the port that still has it. Return false if no
 * mbuf is free. */
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

/* Return a send buffer to its client when the core is done with it. Ports may keep what they have
 * sent until their queue runs short of descriptors (virtio does), which may be never, so the slot
 * gets a replacement: the pool has mbufs for that (node.c). */
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

void
slot_failed(struct engine *e, struct channel *ch, struct send_slot *s, const struct send_failure *f)
{
	const struct service_ops *ops = e->services->sender[f->endpoint / WIRE_CONTEXTS_MAX];

	if (ops != NULL)
		ops->send_failed(e, ch, s, f);
	slot_complete(e, ch, s, f->error);
}

static __rte_noinline void
core_failed(struct engine *e, struct channel *ch, struct send_slot *s,
	const struct proto_completion *c)
{
	const struct send_failure f = {
		.endpoint = wire_endpoint(c->ctx),
		.node = c->dst_node,
		.peer = c->dst_ctx % WIRE_CONTEXTS_MAX,
		.error = c->error,
	};

	slot_failed(e, ch, s, &f);
}

unsigned
engine_complete(struct engine *e)
{
	struct proto_completion c[BURST_MAX];
	struct channel *ch = e->node->channels;
	unsigned n, work = 0;

	if (unlikely(e->lingering_count))
		recheck_lingering(e);
	do {
		n = proto_complete(e->proto, c, BURST_MAX);
		for (unsigned i = 0; i < n; i++) {
			/* consecutive completions are mostly of one context */
			if (ch->ctx != c[i].ctx) {
				const unsigned number = c[i].handle & SERVICE_TAG;

				ch = &e->node->channels[c[i].ctx % WIRE_CONTEXTS_MAX];
				if (number != 0) {
					e->services->numbered[number]->completed(e, ch, c[i].handle,
						c[i].error);
					continue;
				}
			}
			struct send_slot *s = (struct send_slot *)(uintptr_t)c[i].handle;

			if (likely(c[i].error == 0))
				slot_complete(e, ch, s, 0);
			else
				core_failed(e, ch, s, &c[i]);
		}
		work += n;
	} while (n == BURST_MAX);
	return work;
}

/* Write the gathered completions to the client. Return false if its ring is full. */
static bool
write_completions(struct channel *ch)
{
	if (ch->inline_done != ch->inline_told) {
		ch->inline_told = ch->inline_done;
		atomic_store_explicit(&ch->shm->inline_failed, ch->inline_failed,
			memory_order_relaxed);
		atomic_store_explicit(&ch->shm->inline_error, ch->inline_error,
			memory_order_relaxed);
		/* release: the failed ones are counted before; pairs with the client's
		 * inline_ended */
		atomic_store_explicit(&ch->shm->inline_done, ch->inline_done, memory_order_release);
	}
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

/* Have the services write their results to the client. Return false if its ring is full. */
static __rte_noinline bool
write_results(struct engine *e, struct channel *ch)
{
	for (uint32_t left = ch->results; left != 0; left &= left - 1) {
		if (e->services->numbered[rte_bsf32(left)]->results(e, ch))
			ch->results &= ~(left & -left);
	}
	return ch->results == 0;
}

static void
client_wake(struct engine *e, struct channel *ch)
{
	if (atomic_load_explicit(&ch->shm->wake_client, memory_order_relaxed) == 0)
		return;
	atomic_store_explicit(&ch->shm->wake_client, 0, memory_order_relaxed);
	if (eventfd_write(ch->event_fd, 1) == 0)
		ENGINE_COUNT(e, wakeups);
}

void
engine_flush(struct engine *e)
{
	unsigned keep = 0;

	for (unsigned i = 0; i < e->dirty_count; i++) {
		struct channel *ch = e->dirty[i];
		bool written = ch->state == CHANNEL_CLOSED || write_completions(ch);
		if (unlikely(ch->results != 0) && ch->state == CHANNEL_OPEN)
			written = write_results(e, ch) && written;

		if (ch->selects && ch->news && ch->state == CHANNEL_OPEN) {
			/* full fence: what was written must be visible before the flag is read;
			 * pairs with pmx_before_select's */
			atomic_thread_fence(memory_order_seq_cst);
			client_wake(e, ch);
		}
		ch->news = false;
		if (likely(ch->state != CHANNEL_CLOSED)) {
			turns_busy(e, ch);
			ch->low |= channel_is_low(ch);
		}
		if (written)
			ch->dirty = false;
		else
			e->dirty[keep++] = ch;
	}
	e->dirty_count = keep;
}
