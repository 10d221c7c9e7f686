/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See capture.h. A lane never waits for the reader: a frame for which the ring has no room is
 * counted as skipped.
 */
#include <string.h>

#include <rte_cycles.h>

#include "engine/capture.h"

#define ALIGNED(bytes) (((bytes) + 7) & ~7u)

void
capture_set(struct node *n, struct capture *c)
{
	struct timespec now;

	if (c != NULL) {
		clock_gettime(CLOCK_REALTIME, &now);
		c->base_tsc = rte_rdtsc();
		c->base_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	}
	for (unsigned i = 0; i < n->config.lanes; i++) {
		n->engines[i].capture = c;
		for (unsigned l = 0; l < n->link_count; l++)
			n->engines[i].txq[l].captured = 0;
	}
}

/* Return whether a frame is one that the reader wants: with filters only ours, of that peer or
 * context. */
static bool
is_wanted(const struct engine *e, const struct link *l, const struct rte_mbuf *m)
{
	const struct capture *c = e->capture;
	const uint32_t encap = config_encap_bytes(l->config.encap);
	const struct wire_hdr *h;

	if (c->peer == CAPTURE_ALL && c->context == CAPTURE_ALL)
		return true;
	if (m->data_len < encap + WIRE_HDR_BYTES)
		return false;
	h = rte_pktmbuf_mtod_offset(m, const struct wire_hdr *, encap);
	const uint16_t src = wire_be16(h->src_ctx), dst = wire_be16(h->dst_ctx);

	return h->version == WIRE_VERSION &&
		(c->peer == CAPTURE_ALL || wire_be16(h->src_node) == c->peer ||
			wire_be16(h->dst_node) == c->peer) &&
		(c->context == CAPTURE_ALL || src % WIRE_CONTEXTS_MAX == c->context ||
			dst % WIRE_CONTEXTS_MAX == c->context);
}

/* Return room for a record with that many bytes of a frame, or NULL if there is none now. */
static struct capture_record *
room_for(struct engine *e, uint32_t kept)
{
	struct capture *c = e->capture;
	struct capture_ring *r = &c->rings[e->lane];
	const uint32_t need = ALIGNED((uint32_t)sizeof(struct capture_record) + kept);
	const uint64_t read = atomic_load_explicit(&r->read, memory_order_acquire);
	uint64_t *written = &c->written[e->lane];
	uint32_t at = (uint32_t)(*written % CAPTURE_RING_BYTES);
	const uint32_t left = CAPTURE_RING_BYTES - at, padding = left < need ? left : 0;

	if (*written - read > CAPTURE_RING_BYTES ||
		CAPTURE_RING_BYTES - (*written - read) < need + padding) {
		atomic_fetch_add_explicit(&r->skipped, 1, memory_order_relaxed);
		return NULL;
	}
	struct capture_record *record = (struct capture_record *)(r->bytes + at);

	if (padding != 0) {
		/* its head may be cut off: the reader looks at `bytes` and `kept` only */
		record->bytes = padding;
		record->kept = CAPTURE_PADDING;
		*written += padding;
		record = (struct capture_record *)r->bytes;
	}
	record->bytes = need;
	return record;
}

/* Copy a frame into the lane's ring. Return its record, which record_ends() ends, or NULL. */
static struct capture_record *
record_begins(struct engine *e, unsigned link, const struct rte_mbuf *m,
	enum capture_direction direction)
{
	const struct capture *c = e->capture;
	const uint32_t kept = m->pkt_len < c->keep ? m->pkt_len : c->keep;
	struct capture_record *record;

	if (!is_wanted(e, &e->node->links[link], m) || (record = room_for(e, kept)) == NULL)
		return NULL;
	const unsigned __int128 ticks = rte_rdtsc() - c->base_tsc;

	record->kept = kept;
	record->len = m->pkt_len;
	record->link = (uint8_t)link;
	record->direction = (uint8_t)direction;
	record->lane = (uint16_t)e->lane;
	record->ns = c->base_ns + (uint64_t)(ticks * 1000000000u / rte_get_tsc_hz());
	record->dropped[0] = 0;
	const void *bytes = rte_pktmbuf_read(m, 0, kept, record + 1);

	if (bytes != record + 1) /* of one segment: it points into it */
		memcpy(record + 1, bytes, kept);
	return record;
}

static void
record_ends(struct engine *e, const struct capture_record *record)
{
	struct capture *c = e->capture;
	uint64_t *written = &c->written[e->lane];

	*written += record->bytes;
	atomic_store_explicit(&c->rings[e->lane].written, *written, memory_order_release);
}

/* Return whether a counter is of frames that are not taken. */
static bool
is_reason(const char *name)
{
	return strncmp(name, "drop_", 5) == 0 || strncmp(name, "bad_", 4) == 0 ||
		strncmp(name, "refused_", 8) == 0;
}

/* Return the name of the counter of drops that has grown since it was copied, or "". */
static const char *
grown(const struct engine *e, const uint64_t *engine, const uint64_t *core)
{
	for (unsigned i = 0; i < ENGINE_COUNTER_COUNT; i++) {
		if (e->counters[i] != engine[i] && is_reason(engine_counter_info[i].name))
			return engine_counter_info[i].name;
	}
	for (unsigned i = 0; i < PROTO_COUNTER_COUNT; i++) {
		if (proto_counters(e->proto)[i] != core[i] && is_reason(proto_counter_info[i].name))
			return proto_counter_info[i].name;
	}
	return "";
}

void
capture_in_begins(struct engine *e, const struct link *l, const struct rte_mbuf *m,
	struct capture_look *look)
{
	look->record = record_begins(e, (unsigned)(l - e->node->links), m, CAPTURE_IN);
	memcpy(look->engine, e->counters, sizeof(look->engine));
	memcpy(look->core, proto_counters(e->proto), sizeof(look->core));
}

void
capture_in_ends(struct engine *e, const struct capture_look *look)
{
	struct capture_record *record = look->record;

	if (record == NULL)
		return;
	snprintf(record->dropped, sizeof(record->dropped), "%s",
		grown(e, look->engine, look->core));
	record_ends(e, record);
}

void
capture_out(struct engine *e, unsigned link, struct tx_queue *q, unsigned to)
{
	for (unsigned i = q->captured; i < to; i++) {
		const struct capture_record *record = record_begins(e, link, q->m[i], CAPTURE_OUT);

		if (record != NULL)
			record_ends(e, record);
	}
	q->captured = to;
}
