/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See park.h.
 */
#include <errno.h>
#include <string.h>

#include "engine/complete.h"
#include "engine/local.h"
#include "engine/quotas.h"
#include "engine/thin.h"
#include "preempt/engine/park.h"

struct parking {
	struct node *n;
	struct channel *ch;
	struct rte_mbuf *spare; /* load: for received frames, chained */
};

bool
park_can(const struct node *n, const struct channel *ch)
{
	return quotas_are_copied(n, ch);
}

/* ------------------------------------------------------------------ parking */

/* Give the slot's mbuf back. len: the bytes of its payload that are needed later. */
static void
park_leave(const struct parking *k, struct send_slot *s, uint32_t len)
{
	if (slot_is_absent(k->n, s))
		return;
	/* the payload of an inline message is nowhere else */
	if (s->number >= k->ch->send_buffers)
		memcpy(thin_send(k->ch->thin, s->number), send_payload(s), len);
	slot_leave_buffer(k->n, s);
}

/* Return the slot that a frame of the core is sent from. NULL: a service sends it, from its own
 * memory. */
static struct send_slot *
slot_of(uint64_t handle)
{
	return handle & SERVICE_TAG ? NULL : (struct send_slot *)(uintptr_t)handle;
}

static uint64_t
park_handle(void *arg, uint64_t handle, uint32_t len, bool sent)
{
	const struct parking *k = arg;

	if (sent) {
		if (slot_of(handle) != NULL)
			park_leave(k, slot_of(handle), len);
		return handle;
	}
	struct rte_mbuf *m = (struct rte_mbuf *)(uintptr_t)handle;

	handle = thin_frame_keep(k->ch, rte_pktmbuf_mtod_offset(m, const uint8_t *, WIRE_HDR_BYTES),
		len);
	rte_pktmbuf_free(m);
	return handle;
}

/* Note a message that did not reach its receiver on this node: note 4 of park.h. */
static void
take_back(void *arg, struct rte_mbuf *first)
{
	const struct parking *k = arg;
	struct thin *t = k->ch->thin;
	struct recalled *r = &t->recalled[t->recalled_count++];

	*r = (struct recalled){.len = buf_priv(first)->msg_len, .dst = buf_priv(first)->dst};
	for (struct rte_mbuf *m = first, *next; m != NULL; m = next) {
		const uint16_t slot = buf_priv(m)->slot;

		next = m->next;
		slot_set_buffer(k->ch, slot, m);
		park_leave(k, &k->ch->slots[slot], m->data_len);
		t->recalled_slot[t->recalled_slots++] = slot;
		r->count++;
	}
}

void
park_context(struct engine *e, struct channel *ch)
{
	struct parking k = {.n = e->node, .ch = ch};
	uint32_t kept = 0;

	engine_complete(e); /* what has ended needs no mbuf */
	proto_ctx_park(e->proto, ch->plain.endpoint, park_handle, &k);
	proto_ctx_park(e->proto, ch->matched.endpoint, park_handle, &k);
	local_recall(e, ch, take_back, &k);
	for (uint32_t i = 0; i < channel_send_slots(ch); i++) {
		if (ch->slots[i].state == SEND_CLIENT)
			park_leave(&k, &ch->slots[i], 0);
		kept += !slot_is_absent(e->node, &ch->slots[i]);
	}
	quotas_give(e->node, ch, kept);
}

/* ------------------------------------------------------------------ loading */

static struct rte_mbuf *
take_spare(struct parking *k)
{
	struct rte_mbuf *m = k->spare;

	k->spare = m->next;
	m->next = NULL;
	return m;
}

static uint64_t
load_handle(void *arg, uint64_t handle, uint32_t len, bool sent)
{
	struct parking *k = arg;

	if (sent) {
		const struct send_slot *s = slot_of(handle);

		if (s != NULL && slot_is_absent(k->n, s)) {
			slot_set_buffer(k->ch, s->number, take_spare(k));
			thin_fill(k->ch, &s->number, 1, len);
		}
		return handle;
	}
	struct rte_mbuf *m = take_spare(k);

	m->data_off = RTE_PKTMBUF_HEADROOM;
	m->data_len = (uint16_t)(WIRE_HDR_BYTES + len);
	m->pkt_len = m->data_len;
	thin_frame_take(k->ch, handle, rte_pktmbuf_mtod_offset(m, uint8_t *, WIRE_HDR_BYTES), len);
	return (uintptr_t)m;
}

/* Allocate that many mbufs and chain them. Return false if they are not there. */
static bool
get_spare(struct parking *k, uint32_t count)
{
	while (count-- > 0) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(k->n->pool);

		if (m == NULL)
			return false;
		m->next = k->spare;
		k->spare = m;
	}
	return true;
}

static void
free_spare(struct parking *k)
{
	while (k->spare != NULL)
		rte_pktmbuf_free(take_spare(k));
}

/* Send the messages again that were taken back. */
static void
send_recalled(struct engine *e, struct channel *ch)
{
	struct thin *t = ch->thin;
	const uint16_t *slots = t->recalled_slot;

	for (uint32_t i = 0; i < t->recalled_count; i++) {
		const struct recalled *r = &t->recalled[i];

		thin_fill(ch, slots, r->count, r->len);
		local_send(e, ch, r->dst % WIRE_CONTEXTS_MAX, wire_endpoint(r->dst), r->len, slots,
			r->count);
		ch->sent--; /* it counts already */
		ch->sent_bytes -= r->len;
		slots += r->count;
	}
	t->recalled_count = t->recalled_slots = 0;
}

int
park_load(struct engine *e, struct channel *ch)
{
	struct parking k = {.n = e->node, .ch = ch};
	uint32_t absent = 0;

	for (uint32_t i = 0; i < channel_send_slots(ch); i++)
		absent += slot_is_absent(e->node, &ch->slots[i]);
	if (ch->thin == NULL || quotas_take(e->node, ch) != 0)
		return -ENOSPC;
	const bool good = get_spare(&k, absent + ch->thin->frames_kept) &&
		proto_ctx_load(e->proto, ch->plain.endpoint, load_handle, &k) == 0 &&
		proto_ctx_load(e->proto, ch->matched.endpoint, load_handle, &k) == 0;
	for (uint32_t i = 0; i < channel_send_slots(ch) && good; i++) {
		if (slot_is_absent(e->node, &ch->slots[i]))
			slot_set_buffer(ch, i, take_spare(&k));
	}
	free_spare(&k);
	if (!good) {
		park_context(e, ch);
		return -ENOSPC;
	}
	send_recalled(e, ch);
	return 0;
}

void
park_abandon(struct engine *e, struct channel *ch)
{
	struct thin *t = ch->thin;

	if (t == NULL)
		return;
	const uint16_t *slots = t->recalled_slot;

	for (uint32_t i = 0; i < t->recalled_count; i++) {
		const struct recalled *r = &t->recalled[i];
		const struct send_failure f = {wire_endpoint(r->dst), (uint16_t)e->node->config.id,
			r->dst % WIRE_CONTEXTS_MAX, ECONNRESET};

		for (uint32_t k = 0; k < r->count; k++)
			slot_failed(e, ch, &ch->slots[*slots++], &f);
	}
	t->recalled_count = t->recalled_slots = 0;
}
