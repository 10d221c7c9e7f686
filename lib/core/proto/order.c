/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which frames are missing when a node sends by several links at once. Owner thread only.
 *
 * Design notes
 * 1. A link keeps the order of its frames, but those of two links overtake each other by as much as
 *    their queues differ. So a hole in the sequence is a loss only when each link that is in use
 *    has brought a later frame of the flow. What one link brought is noted while frames are held,
 *    and only then: as long as all come in order nothing is missing, and the fast path (rx_plain)
 *    need not know of links.
 * 2. A link may bring no more frames of a flow, because it died or has nothing to send. So what was
 *    overtaken more than about a round trip ago counts as a loss as well (RACK's reordering window,
 *    RFC 8985, section 6.2). Time is looked at when a frame comes; the last ones of a burst are the
 *    business of the sender's probes.
 * 3. Links may differ in length. An Ack that comes alone answers the newest frame, and takes the
 *    link by which that came, so its round trip is one of that link; of one that rides on data the
 *    two ways may differ. Congestion control, which looks for queues, is given the round trip less
 *    what the links' smallest ones differ by, but never less than the smallest of all: it takes the
 *    least that it was ever given for a network without queues. This goes on when only a longer
 *    link is left.
 */
#include "core/proto/internal.h"

#define WAIT_LEAST (100 * UNITS_PER_US) /* what hosts take for a turn, on top of the round trip */

void
proto_node_links(struct proto *p, uint16_t node, uint32_t links)
{
	PROTO_ASSERT(p->arrivals != NULL && node < p->cfg.nodes_max);
	p->links_of[node].expected = (uint8_t)links;
}

void
proto_rx_link(struct proto *p, unsigned link)
{
	PROTO_ASSERT(link < p->cfg.links);
	p->rx_link = (uint8_t)link;
}

/* Return whether frames of the node come by several links now. */
bool
order_is_mixed(const struct proto *p, uint16_t node)
{
	const uint32_t links = p->arrivals != NULL ? p->links_of[node].expected : 0;

	return (links & (links - 1)) != 0;
}

/* Return how long a missing frame may still come by another link than later ones: note 2. */
uint32_t
order_wait(const struct path *t)
{
	return t->srtt / 8 + WAIT_LEAST;
}

/* Note that a frame came while others are held, or are about to be. */
static void
note(struct proto *p, struct flow *f, struct arrivals *a, uint32_t seq)
{
	if (!wire_seq_before(seq, a->high[p->rx_link]))
		a->high[p->rx_link] = seq + 1;
	if (p->stamp - a->mark_ts > order_wait(&p->paths[f->path])) {
		a->late = a->mark;
		a->mark = f->rcv_high;
		a->mark_ts = p->stamp;
	}
}

/* Note that a frame out of order is about to be held. */
void
order_hold(struct proto *p, struct flow *f, uint32_t seq)
{
	struct arrivals *a = &p->arrivals[flow_index(p, f)];

	if (list_empty(&f->ooo)) {
		for (unsigned i = 0; i < PROTO_LINKS_MAX; i++)
			a->high[i] = f->rcv_nxt;
		a->told = a->late = f->rcv_nxt;
		a->mark = seq + 1;
		a->mark_ts = p->stamp;
	}
	note(p, f, a, seq);
}

/* Note that the flow's next frame came; others may be held. */
void
order_next(struct proto *p, struct flow *f, uint32_t seq)
{
	if (!list_empty(&f->ooo))
		note(p, f, &p->arrivals[flow_index(p, f)], seq);
}

static inline uint32_t
latest(uint32_t a, uint32_t b)
{
	return wire_seq_before(a, b) ? b : a;
}

/* Return the sequence below which all frames that were not received count as lost: rcv_nxt up to
 * rcv_high. */
uint32_t
order_lost_end(const struct proto *p, const struct flow *f)
{
	if (likely(p->arrivals == NULL) || list_empty(&f->ooo))
		return f->rcv_high;
	const struct arrivals *a = &p->arrivals[flow_index(p, f)];
	const uint32_t links = p->links_of[f->node].expected;
	const uint32_t wait = order_wait(&p->paths[f->path]), age = p->stamp - a->mark_ts;
	uint32_t end = f->rcv_high;

	if ((links & (links - 1)) == 0 || age > 2 * wait)
		return end;
	for (unsigned i = 0; i < PROTO_LINKS_MAX; i++) {
		if (links >> i & 1 && wire_seq_before(a->high[i], end))
			end = a->high[i];
	}
	end = latest(end, age > wait ? a->mark : a->late);
	return latest(end, f->rcv_nxt);
}

/* Return whether there is a lost frame that was none when this was last asked. */
bool
order_new_hole(struct proto *p, struct flow *f)
{
	struct arrivals *a = &p->arrivals[flow_index(p, f)];
	const uint32_t end = order_lost_end(p, f);
	uint32_t at = latest(a->told, f->rcv_nxt);
	bool found = false;

	for (; wire_seq_before(at, end); at++)
		found |= !have_test(f, at);
	a->told = at;
	return found;
}

/* Return the round trip as it would be by the shortest link: note 3. alone: it was measured by an
 * Ack that came by itself. */
uint32_t
order_rtt(struct proto *p, uint16_t node, bool alone, uint32_t rtt)
{
	struct node_links *n = &p->links_of[node];
	/* by which the frame and its Ack may have gone */
	const uint32_t ways = alone || n->expected == 0 ? 1u << p->rx_link : n->expected;
	uint32_t least = 0, most = 0;

	if (alone && (n->base[p->rx_link] == 0 || rtt < n->base[p->rx_link]))
		n->base[p->rx_link] = rtt;
	for (unsigned i = 0; i < PROTO_LINKS_MAX; i++) {
		if (n->base[i] == 0)
			continue;
		least = least == 0 || n->base[i] < least ? n->base[i] : least;
		if (ways >> i & 1 && n->base[i] > most)
			most = n->base[i];
	}
	const uint32_t longer = most > least ? most - least : 0;

	if (rtt > least + longer)
		return rtt - longer;
	return rtt < least ? rtt : least; /* they went by a shorter link than `ways` has */
}

/* Forget the smallest round trips to the node, which is in a new life, maybe elsewhere. */
void
order_forget(struct proto *p, uint16_t node)
{
	for (unsigned i = 0; p->arrivals != NULL && i < PROTO_LINKS_MAX; i++)
		p->links_of[node].base[i] = 0;
}

/* Return whether the newest frame came by the first of the node's links: one-way delays are those
 * of one link. */
bool
order_is_first(const struct proto *p, uint16_t node)
{
	const uint32_t links = p->links_of[node].expected;

	return (links & (links - 1)) == 0 || (links & ((1u << p->rx_link) - 1)) == 0;
}
