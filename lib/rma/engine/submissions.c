/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Submissions of clients: transfers, frames that they packed, registrations.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "engine/complete.h"
#include "rma/engine/dma.h"
#include "rma/engine/frames.h"
#include "rma/engine/submissions.h"
#include "engine/thin.h"

void
submission_failed(struct engine *e, struct channel *ch, const struct send_slot *s,
	const struct send_failure *f)
{
	struct wire_transfer h;

	/* if the client has overwritten it since, it harms only itself */
	memcpy(&h, send_payload(s), sizeof(h));
	rma_packed_failed(rma_lane(e)->rma, ch->ctx, wire_be32(h.id), f->error);
	service_rma_called(e);
}

/* Copy a frame that the client packed for a context of this node, and hand it over. Return 1, or
 * -EAGAIN if no frame is free. */
static int
packed_copy(struct engine *e, struct channel *ch, const struct send_slot *slot, uint16_t dst_ctx,
	uint32_t len)
{
	struct wire_transfer h;

	memcpy(&h, send_payload(slot), sizeof(h));
	struct rma_frame *f = rma_packed_copy(rma_lane(e)->rma, ch->ctx, dst_ctx, wire_be32(h.id),
		len);

	if (f == NULL)
		return -EAGAIN;
	memcpy(f->head, send_payload(slot), len);
	frame_hand_over(e, frame_of(f), dst_ctx);
	return 1;
}

/* Send a frame of a transfer that the client packed in a send buffer: to another node from that
 * buffer, within this node as a copy. */
unsigned
submission_frame(struct engine *e, struct channel *ch, const struct submission *s)
{
	struct rma *rma = rma_lane(e)->rma;
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
		s->frame.len < sizeof(struct wire_transfer) ||
		s->frame.dst_ctx >= WIRE_CONTEXTS_MAX) {
		submission_bad(e, ch);
		return 1;
	}
	if (ch->thin != NULL) {
		thin_fill(ch, &s->frame.buf, 1, s->frame.len);
		/* for anything else it must ask the engine, which counts its pins */
		if (unlikely(((const struct wire_transfer *)send_payload(slot))->op != WIRE_PUSH)) {
			submission_bad(e, ch);
			return 1;
		}
	}
	/* earlier errors first: what follows a lost frame must not look like the end of its
	 * transfer */
	engine_complete(e);
	slot->state = SEND_QUEUED;
	ch->busy_slots++;
	if (!rma_is_packed(rma, ch->ctx, s->frame.transfer)) {
		slot_complete(e, ch, slot, 0);
		return 1;
	}
	if (s->frame.dst_node == e->node->config.id)
		result = packed_copy(e, ch, slot, s->frame.dst_ctx, s->frame.len);
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
		submission_failed(e, ch, slot, &(struct send_failure){.error = (uint8_t)-result});
	if (s->count != 0)
		rma_packed(rma, ch->ctx, s->frame.transfer, e->now);
	if (result != 0)
		slot_complete(e, ch, slot, result < 0 ? (uint8_t)-result : 0);
	return 1;
}

/* Tell the client the round-trip time, by which it chooses between offering and copying. */
static void
tell_rtt(struct engine *e, struct channel *ch, uint16_t node)
{
	struct proto_path_stat stat;

	if (node < e->nodes_max && proto_path_stat(e->proto, node, &stat) &&
		stat.rtt_ns < UINT32_MAX)
		atomic_store_explicit(&ch->shm->rtt_ns, (uint32_t)stat.rtt_ns,
			memory_order_relaxed);
}

unsigned
submission_transfer(struct engine *e, struct channel *ch, const struct submission *s)
{
	const struct transfer_desc *shared = &rma_channel(ch)->descs[s->transfer];

	if (unlikely(!rma_submit(rma_lane(e)->rma, ch->ctx, s->transfer, shared, e->now)))
		submission_bad(e, ch);
	else if (unlikely(shared->kind == TRANSFER_OFFER))
		tell_rtt(e, ch, shared->node);
	service_rma_called(e);
	return 1;
}

unsigned
submission_cancel(struct engine *e, struct channel *ch, const struct submission *s)
{
	rma_packed_cancel(rma_lane(e)->rma, ch->ctx, s->transfer);
	service_rma_called(e);
	return 1;
}

/* Register the region that a submission describes. Return 0 and the region's key in *key, or
 * -errno. */
static int
region_register(struct engine *e, struct channel *ch, const struct submission *s, uint64_t *key)
{
	struct region region = {
		.base = s->region.addr,
		.len = s->region.len,
		.area = s->region.area,
		.group = s->region.group,
		.rights = s->region.rights < 8 ? (uint8_t)s->region.rights : 0,
		.method = MEMORY_BY_KERNEL,
		.watched = s->region.watched,
	};
	uint64_t random;

	if (s->region.memory != MEMORY_COPIED) {
		struct memory *m = space_at(&ch->space, s->region.memory, region.base, region.len);

		if (m == NULL)
			return -EFAULT;
		region.memory = m;
		region.method = memory_method(m);
		region.watched = m->watched;
	}
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EAGAIN;
	return rma_register(rma_lane(e)->rma, ch->ctx, &region, random, key);
}

/* Register a region for a client, or end a registration. */
unsigned
submission_region(struct engine *e, struct channel *ch, const struct submission *s)
{
	struct rma_channel *c = rma_channel(ch);
	uint64_t key = s->region.key;
	int result;

	if (ch->state != CHANNEL_OPEN)
		return 1; /* nobody would read the answer */
	if (c->region.due || c->region.waits)
		return 0;
	if (s->op == SUBMIT_REGISTER) {
		result = region_register(e, ch, s, &key);
	} else {
		dma_drain(e);
		result = rma_deregister(rma_lane(e)->rma, ch->ctx, key, e->now);
	}
	c->region.waits = result > 0;
	c->region.due = result <= 0;
	c->region.ticket = s->region.ticket;
	c->region.error = result < 0 ? (uint32_t)-result : 0;
	c->region.key = key;
	if (c->region.due)
		service_has_results(e, ch, RMA_SERVICE);
	service_rma_called(e);
	return 1;
}
