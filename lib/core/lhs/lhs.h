/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The LHS ring: limited-length head separation (IPSJ 2007, section 3.1). One writer (the engine)
 * and one reader (the application) over memory that both map. Each message has one entry of a fixed
 * number of cache lines, in order of arrival: an envelope, the message's first bytes and, if the
 * message is longer, where all of it lies in bulk memory. LHS-1 to LHS-5.
 *
 * Design notes
 * 1. The valid mark is in the entry, so a receiver polls one cache line and gets envelope and
 *    payload with it. The mark is the entry's position + 1, so the mark of an earlier lap is never
 *    valid, and zeroed memory is an empty ring.
 * 2. The writer stores the mark last with release order; the reader loads it with acquire order
 *    before it reads anything else of the entry. These two are the ring's only synchronisation.
 * 3. The writer does not read the reader's position here: lib/core/proto grants the room, so a
 *    message for a full ring is refused before it is acknowledged.
 * 4. The first bytes of a bulk message are in its entry too, so searching never touches bulk memory
 *    (LHS-6).
 */
#ifndef PMX_LHS_H
#define PMX_LHS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LHS_ENVELOPE_BYTES 24
#define LHS_ENTRY_MAX      128
#define LHS_SPLIT          40 /* default: room of a 64-byte entry behind its envelope */
#define LHS_SIZE_OFFSET    4  /* default place of the size field */
#define LHS_NO_BULK        UINT32_MAX
/* flag in `bulk`: several buffers, linked by headers before their payload */
#define LHS_CHAINED        0x80000000u

/* One message. `len` is at lhs_config.size_offset, by default here. */
struct lhs_entry {
	_Atomic uint32_t mark; /* position + 1 when valid */
	uint32_t len;          /* bytes of the message */
	uint16_t src_node;
	uint16_t src_ctx;
	uint32_t bulk;    /* number of the first bulk buffer; LHS_NO_BULK: all bytes are in front */
	int64_t bulk_off; /* offset of the first byte in bulk memory from the channel's base */
	uint8_t front[];  /* the message's first bytes */
};

_Static_assert(sizeof(struct lhs_entry) == LHS_ENVELOPE_BYTES, "envelope");

struct lhs_config {
	uint32_t entries;     /* power of two */
	uint32_t entry_bytes; /* 64 or 128 */
	uint32_t split;       /* bytes kept in the entry, 0..entry_bytes - 24 (LHS-2) */
	uint32_t size_offset; /* offset of the size: 4, or behind the front part (LHS-2) */
};

/* One end's private view. */
struct lhs_end {
	uint8_t *base;
	uint32_t pos; /* next entry to write, or to read */
	uint32_t mask;
	uint32_t shift; /* log2(entry_bytes) */
	uint32_t split;
	uint32_t size_offset;
};

/* Return whether the four numbers are consistent. */
bool lhs_config_ok(const struct lhs_config *c);
/* Set up an end at position 0. Memory: entries * entry_bytes zeroed bytes, 64-byte aligned. */
void lhs_end_init(struct lhs_end *end, const struct lhs_config *c, void *memory);

static inline struct lhs_entry *
lhs_at(const struct lhs_end *end, uint32_t pos)
{
	return (struct lhs_entry *)(end->base + ((size_t)(pos & end->mask) << end->shift));
}

/* Front parts are short: a call of memcpy would cost more than this loop. */
static inline void
lhs_copy(uint8_t *to, const uint8_t *from, uint32_t len)
{
	uint32_t i = 0;

	for (; i + 8 <= len; i += 8) {
		uint64_t word;

		memcpy(&word, from + i, sizeof(word));
		memcpy(to + i, &word, sizeof(word));
	}
	for (; i < len; i++)
		to[i] = from[i];
}

/* Writer: write an entry. The caller knows that there is room. front_len <= split. */
static inline void
lhs_write(struct lhs_end *end, uint16_t src_node, uint16_t src_ctx, uint32_t len, uint32_t bulk,
	int64_t bulk_off, const void *front, uint32_t front_len)
{
	struct lhs_entry *e = lhs_at(end, end->pos);

	if (front_len == LHS_SPLIT)
		memcpy(e->front, front, LHS_SPLIT); /* constant size: no loop */
	else
		lhs_copy(e->front, front, front_len);
	memcpy((uint8_t *)e + end->size_offset, &len, sizeof(len));
	e->src_node = src_node;
	e->src_ctx = src_ctx;
	e->bulk = bulk;
	e->bulk_off = bulk_off;
	/* release: the entry's bytes become visible before its mark; pairs with lhs_peek */
	atomic_store_explicit(&e->mark, ++end->pos, memory_order_release);
}

/* Reader: returns the next entry, or NULL. */
static inline const struct lhs_entry *
lhs_peek(const struct lhs_end *end)
{
	const struct lhs_entry *e = lhs_at(end, end->pos);

	/* acquire: the mark is read before the entry's bytes; pairs with lhs_write */
	if (atomic_load_explicit(&e->mark, memory_order_acquire) != end->pos + 1)
		return NULL;
	return e;
}

static inline uint32_t
lhs_len(const struct lhs_end *end, const struct lhs_entry *e)
{
	uint32_t len;

	memcpy(&len, (const uint8_t *)e + end->size_offset, sizeof(len));
	return len;
}

#endif
