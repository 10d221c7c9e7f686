/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The fault link: wraps any link and applies the fault model to the frames that are sent. Owns the
 * inner link and the copies that wait for their release time. Queue q's tx and rx run on the lcore
 * of q's engine; each tx queue has its own model and its own heap, so there is no lock. Open, close
 * and stats run on the control thread.
 *
 * Design notes
 * 1. An undisturbed frame that is due now passes straight through by reference. One that is
 *    delayed, doubled or changed is copied first: the engine may rewrite the header of a frame that
 *    it holds, and what it sends again must not contain a flipped bit.
 * 2. tx must accept a prefix of the frames, and the inner link may accept fewer than it is offered.
 *    A verdict drawn for a frame that is then not accepted is kept for the next frame offered, so
 *    that refusals neither skew the odds nor break the counts. All such verdicts except possibly
 *    the last are "pass", so a counter and one stored verdict are enough.
 * 3. Held copies leave in the tx or rx call that follows their release; rx comes in every poll.
 *    While the inner link refuses copies that are due, tx accepts nothing, so that new frames do
 *    not overtake them by accident.
 */
#include "fault.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_malloc.h>

#define HEAP_SIZE   8192 /* copies held back by one queue */
#define FAULT_BURST 32   /* copies given to the inner link at once */
#define CLOCK_SHIFT 32

__extension__ typedef unsigned __int128 fault_u128;

/* A copy that waits for its release time. */
struct fault_held {
	uint64_t release_ns;
	struct rte_mbuf *mbuf; /* this link holds the only reference */
	uint32_t order;        /* order of arrival: with equal release times, copies leave in this
				* order; wraps */
};

struct fault_queue {
	struct fault_model model;
	struct fault_verdict stored; /* note 2: the verdict after the passes, if has_stored */
	bool has_stored;
	uint32_t passes; /* note 2: "pass" verdicts not yet used */
	uint32_t held_count;
	uint32_t order;          /* of the next copy held */
	uint64_t disturbed;      /* frames dropped, doubled, delayed or changed */
	uint64_t heap_full;      /* copies lost: heap full */
	uint64_t no_mbuf;        /* copies lost: no mbuf, or too long for one */
	struct fault_held *heap; /* HEAP_SIZE entries; [0] leaves next */
} __rte_cache_aligned;

struct fault_link {
	struct link inner;
	uint64_t clock_start; /* TSC at open, which is 0 ns */
	uint64_t clock_mult;  /* ns of a TSC tick, 2^-CLOCK_SHIFT */
	uint32_t encap_bytes; /* these bytes are never corrupted, or the frame would reach nobody or
			       * somebody else */
	struct fault_held *heaps;   /* of all queues */
	struct fault_queue *queues; /* inner.tx_queues */
};

static uint64_t
fault_now(const struct fault_link *f)
{
	return (uint64_t)((fault_u128)(rte_rdtsc() - f->clock_start) * f->clock_mult >>
		CLOCK_SHIFT);
}

static bool
leaves_before(const struct fault_held *a, const struct fault_held *b)
{
	if (a->release_ns != b->release_ns)
		return a->release_ns < b->release_ns;
	return (int32_t)(a->order - b->order) < 0;
}

/* Put a held copy into the queue's heap. The caller has made sure that the heap has room. */
static void
heap_push(struct fault_queue *q, const struct fault_held *held)
{
	uint32_t i = q->held_count++;

	while (i > 0 && leaves_before(held, &q->heap[(i - 1) / 2])) {
		q->heap[i] = q->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	q->heap[i] = *held;
}

/* Take the copy that leaves first out of the queue's heap, which must not be empty. */
static struct fault_held
heap_pop(struct fault_queue *q)
{
	struct fault_held first = q->heap[0];
	struct fault_held last = q->heap[--q->held_count];
	uint32_t i = 0, child;

	while ((child = 2 * i + 1) < q->held_count) {
		if (child + 1 < q->held_count &&
			leaves_before(&q->heap[child + 1], &q->heap[child]))
			child++;
		if (!leaves_before(&q->heap[child], &last))
			break;
		q->heap[i] = q->heap[child];
		i = child;
	}
	q->heap[i] = last;
	return first;
}

/*
 * Send the copies that are due. Returns false if the inner link refused one: it and all later ones
 * stay in the heap.
 */
static bool
flush_due(struct fault_link *f, uint16_t queue, uint64_t now_ns)
{
	struct fault_queue *q = &f->queues[queue];
	struct fault_held due[FAULT_BURST];
	struct rte_mbuf *bufs[FAULT_BURST];
	uint16_t n, sent;

	while (q->held_count > 0 && q->heap[0].release_ns <= now_ns) {
		for (n = 0; n < FAULT_BURST && q->held_count > 0 && q->heap[0].release_ns <= now_ns;
			n++) {
			due[n] = heap_pop(q);
			bufs[n] = due[n].mbuf;
		}
		sent = f->inner.ops->tx(&f->inner, queue, bufs, n);
		if (likely(sent == n))
			continue;
		for (; sent < n; sent++)
			heap_push(q, &due[sent]);
		return false;
	}
	return true;
}

/* Copy a frame into one mbuf of the node's pool. Return the copy, or NULL. */
static struct rte_mbuf *
copy_frame(const struct rte_mbuf *frame, struct rte_mempool *pool)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);
	uint32_t len = frame->data_len;

	if (unlikely(m == NULL))
		return NULL;
	/* A frame that does not fit otherwise may use the headroom. */
	if (unlikely(len > rte_pktmbuf_tailroom(m)))
		m->data_off = 0;
	if (unlikely(len > rte_pktmbuf_tailroom(m))) {
		rte_pktmbuf_free(m);
		return NULL;
	}
	m->ol_flags = frame->ol_flags & ~(RTE_MBUF_F_INDIRECT | RTE_MBUF_F_EXTERNAL);
	m->tx_offload = frame->tx_offload;
	m->packet_type = frame->packet_type;
	m->vlan_tci = frame->vlan_tci;
	m->port = frame->port;
	m->hash = frame->hash;
	m->data_len = (uint16_t)len;
	m->pkt_len = len;
	memcpy(rte_pktmbuf_mtod(m, void *), rte_pktmbuf_mtod(frame, const void *), len);
	return m;
}

/* Flip a bit behind the encapsulation; a frame without bytes there stays as it is. */
static void
flip_bit(struct rte_mbuf *m, uint32_t bit, uint32_t encap_bytes)
{
	uint8_t *data = rte_pktmbuf_mtod(m, uint8_t *);

	if (m->data_len <= encap_bytes)
		return;
	bit %= (m->data_len - encap_bytes) * 8;
	data[encap_bytes + bit / 8] ^= (uint8_t)(1u << bit % 8);
}

/* Apply the verdict to one frame, which is accepted. */
static void
disturb(struct fault_link *f, struct fault_queue *q, struct rte_mbuf *frame,
	const struct fault_verdict *verdict)
{
	struct fault_held held;
	uint32_t i;

	q->disturbed++;
	for (i = 0; i < verdict->copies; i++) {
		if (q->held_count == HEAP_SIZE) {
			q->heap_full++;
			continue;
		}
		held.mbuf = copy_frame(frame, f->inner.pool);
		if (held.mbuf == NULL) {
			q->no_mbuf++;
			continue;
		}
		if (verdict->copy[i].flip_bit != FAULT_NO_FLIP)
			flip_bit(held.mbuf, verdict->copy[i].flip_bit, f->encap_bytes);
		held.release_ns = verdict->copy[i].release_ns;
		held.order = q->order++;
		heap_push(q, &held);
	}
	rte_pktmbuf_free(frame);
}

/* Get the verdict on the next frame: one that is left over (note 2), or a new one. Returns true if
 * the frame passes. */
static bool
next_verdict(struct fault_queue *q, uint64_t now_ns, uint32_t len_bytes,
	struct fault_verdict *verdict)
{
	if (unlikely(q->passes > 0)) {
		q->passes--;
		return true;
	}
	if (unlikely(q->has_stored)) {
		q->has_stored = false;
		*verdict = q->stored;
		return false;
	}
	fault_model_frame(&q->model, now_ns, len_bytes, verdict);
	return verdict->copies == 1 && verdict->copy[0].flip_bit == FAULT_NO_FLIP &&
		verdict->copy[0].release_ns <= now_ns;
}

/*
 * Send bufs[first..end), which all pass. Returns false if the inner link accepted fewer; *first is
 * then the first that it did not accept, and the verdicts of the rest are kept.
 */
static bool
pass_through(struct fault_link *f, uint16_t queue, struct rte_mbuf **bufs, uint16_t *first,
	uint16_t end)
{
	uint16_t n = (uint16_t)(end - *first);

	if (n == 0)
		return true;
	*first += f->inner.ops->tx(&f->inner, queue, bufs + *first, n);
	f->queues[queue].passes += (uint32_t)(end - *first);
	return *first == end;
}

static uint16_t
fault_tx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	struct fault_link *f = l->priv;
	struct fault_queue *q = &f->queues[queue];
	uint64_t now_ns = fault_now(f);
	struct fault_verdict verdict;
	uint16_t taken = 0, i;

	if (unlikely(!flush_due(f, queue, now_ns)))
		return 0;
	/* bufs[taken..i) pass and are sent together. */
	for (i = 0; i < n; i++) {
		if (next_verdict(q, now_ns, bufs[i]->pkt_len, &verdict))
			continue;
		if (unlikely(!pass_through(f, queue, bufs, &taken, i))) {
			q->stored = verdict;
			q->has_stored = true;
			return taken;
		}
		disturb(f, q, bufs[i], &verdict);
		taken = (uint16_t)(i + 1);
		if (unlikely(!flush_due(f, queue, now_ns)))
			return taken;
	}
	pass_through(f, queue, bufs, &taken, n);
	return taken;
}

static uint16_t
fault_rx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	struct fault_link *f = l->priv;

	if (queue < l->tx_queues && f->queues[queue].held_count > 0)
		flush_due(f, queue, fault_now(f));
	return f->inner.ops->rx(&f->inner, queue, bufs, n);
}

static uint32_t
encap_bytes(enum link_encap encap)
{
	switch (encap) {
	case LINK_ENCAP_ETHER:
		return 14;
	case LINK_ENCAP_VLAN:
		return 18;
	case LINK_ENCAP_UDP:
		return 14 + 20 + 8;
	case LINK_ENCAP_NONE:
		break;
	}
	return 0;
}

/* Copy to the outer link what the engine reads of it, as the inner link has set it. */
static void
mirror_inner(struct link *l, const struct link *inner)
{
	char fault[LINK_OPTIONS_MAX];

	memcpy(fault, l->config.fault, sizeof(fault));
	l->config = inner->config;
	memcpy(l->config.fault, fault, sizeof(fault));
	l->rx_queues = inner->rx_queues;
	l->tx_queues = inner->tx_queues;
	l->mtu = inner->mtu;
	l->multicast = inner->multicast;
	l->up = inner->up;
	l->mac = inner->mac;
}

/* Set up the queues for the opened inner link; -ENOMEM leaves nothing allocated. */
static int
open_queues(struct fault_link *f, const struct fault_config *faults)
{
	const uint16_t n = f->inner.tx_queues;
	struct fault_config config = *faults;
	uint16_t i;

	f->queues = rte_zmalloc("pmx_fault", n * sizeof(*f->queues), RTE_CACHE_LINE_SIZE);
	f->heaps = rte_malloc("pmx_fault", (size_t)n * HEAP_SIZE * sizeof(*f->heaps),
		RTE_CACHE_LINE_SIZE);
	if (f->queues == NULL || f->heaps == NULL) {
		rte_free(f->queues);
		rte_free(f->heaps);
		return -ENOMEM;
	}
	for (i = 0; i < n; i++) {
		/* The node number is part of the seed too: both ends of a test read the same
		 * options, and must not lose the same frames. */
		config.seed = faults->seed + i + ((uint64_t)f->inner.node << 32);
		fault_model_init(&f->queues[i].model, &config);
		f->queues[i].heap = f->heaps + (size_t)i * HEAP_SIZE;
	}
	f->encap_bytes = encap_bytes(f->inner.config.encap);
	f->clock_mult = (UINT64_C(1000000000) << CLOCK_SHIFT) / rte_get_tsc_hz();
	f->clock_start = rte_rdtsc();
	return 0;
}

static int
no_memory(struct link *l)
{
	snprintf(l->error, sizeof(l->error),
		"fault: no memory for %u held frames a queue; give "
		"EAL more (-m)",
		HEAP_SIZE);
	return -ENOMEM;
}

static int
fault_open(struct link *l)
{
	struct fault_config faults;
	struct fault_link *f;
	int rc;

	/* Read the options first: a typing error should not start and stop a port. */
	rc = fault_config_parse(&faults, l->config.fault, l->error, sizeof(l->error));
	if (rc != 0)
		return rc;
	/* The inner link is opened at its final address, because a driver may keep that address. */
	f = rte_zmalloc("pmx_fault", sizeof(*f), RTE_CACHE_LINE_SIZE);
	if (f == NULL)
		return no_memory(l);
	f->inner = *l;
	f->inner.config.fault[0] = '\0';
	rc = f->inner.ops->open(&f->inner);
	if (rc != 0) {
		memcpy(l->error, f->inner.error, sizeof(l->error));
		goto free_link;
	}
	rc = open_queues(f, &faults);
	if (rc != 0) {
		no_memory(l);
		goto close_inner;
	}
	mirror_inner(l, &f->inner);
	l->priv = f;
	l->ops = &link_fault_ops;
	return 0;
close_inner:
	f->inner.ops->close(&f->inner);
free_link:
	rte_free(f);
	return rc;
}

static void
fault_close(struct link *l)
{
	struct fault_link *f = l->priv;
	uint16_t i;
	uint32_t k;

	for (i = 0; i < l->tx_queues; i++)
		for (k = 0; k < f->queues[i].held_count; k++)
			rte_pktmbuf_free(f->queues[i].heap[k].mbuf);
	f->inner.ops->close(&f->inner);
	rte_free(f->heaps);
	rte_free(f->queues);
	rte_free(f);
}

static int
fault_add_peer(struct link *l, uint16_t node, const struct link_addr *addr)
{
	struct fault_link *f = l->priv;

	if (f->inner.ops->add_peer == NULL)
		return 0;
	return f->inner.ops->add_peer(&f->inner, node, addr);
}

/*
 * Return the inner link's descriptor, or -1 if copies can be held back: a lane that sleeps on the
 * descriptor would not release them in time, so the link must then be polled.
 */
static int
fault_rx_fd(struct link *l, uint16_t queue)
{
	struct fault_link *f = l->priv;
	const struct fault_model *model = &f->queues[0].model;

	if (model->delay_ns != 0 || model->jitter_ns != 0 || model->reorder != 0 ||
		model->byte_ns != 0)
		return -1;
	return f->inner.ops->rx_fd != NULL ? f->inner.ops->rx_fd(&f->inner, queue) : -1;
}

static void
fault_revive(struct link *l)
{
	struct fault_link *f = l->priv;

	if (f->inner.ops->revive != NULL)
		f->inner.ops->revive(&f->inner);
}

static void
fault_stats(struct link *l, struct link_stats *out)
{
	struct fault_link *f = l->priv;
	uint16_t i;

	f->inner.ops->stats(&f->inner, out);
	/* Written only when it changes, because all engines read this cache line. */
	if (l->up != f->inner.up)
		l->up = f->inner.up;
	for (i = 0; i < l->tx_queues; i++) {
		out->faults += f->queues[i].disturbed;
		out->tx_refused += f->queues[i].heap_full + f->queues[i].no_mbuf;
	}
}

int
fault_link_counters(const struct link *l, uint16_t queue, struct fault_link_counters *out)
{
	const struct fault_link *f = l->priv;
	const struct fault_queue *q;

	if (l->ops != &link_fault_ops)
		return -ENOTSUP;
	if (queue >= l->tx_queues)
		return -EINVAL;
	q = &f->queues[queue];
	out->model = q->model.counters;
	out->heap_full = q->heap_full;
	out->no_mbuf = q->no_mbuf;
	out->held = q->held_count;
	out->pending = q->passes + q->has_stored;
	return 0;
}

const struct link_ops link_fault_ops = {
	.name = "fault",
	.open = fault_open,
	.close = fault_close,
	.rx = fault_rx,
	.tx = fault_tx,
	.add_peer = fault_add_peer,
	.rx_fd = fault_rx_fd,
	.revive = fault_revive,
	.stats = fault_stats,
};
