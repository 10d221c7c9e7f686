/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A single-producer single-consumer ring of 64-byte slots in memory that two processes map. The
 * producer's progress is the sequence number in each slot; the consumer's is a position that it
 * publishes now and then. Each end trusts only its private struct slot_end: nothing that the other
 * side writes can make it leave the ring.
 *
 * Design notes
 * 1. slot.mark = position + 1, stored last with release order by the producer, loaded with acquire
 *    order by the consumer. A producer that is killed leaves either a complete slot or none.
 * 2. The consumer publishes its position (release) after it copied the slots out; the producer
 *    loads it (acquire) only when the ring is full by the position it remembers. An impossible
 *    position is the other side's error; the ring then counts as full.
 */
#ifndef PMX_SLOT_RING_H
#define PMX_SLOT_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "channel/step.h"

#define SLOT_BYTES 64

struct slot {
	_Atomic uint32_t mark; /* position + 1 when filled */
	uint8_t body[SLOT_BYTES - 4];
} __attribute__((aligned(SLOT_BYTES)));

_Static_assert(sizeof(struct slot) == SLOT_BYTES, "slot");

/* One end's private view. */
struct slot_end {
	struct slot *slots;
	_Atomic uint32_t *published; /* the consumer's position, in shared memory */
	uint32_t mask;
	uint32_t pos;     /* next slot to fill, or to take */
	uint32_t other;   /* producer: last position of the consumer that it read; consumer: last
			   * position published */
	uint32_t publish; /* consumer: publish after so many slots */
};

static inline void
slot_end_init(struct slot_end *end, struct slot *slots, uint32_t count, _Atomic uint32_t *published)
{
	*end = (struct slot_end){
		.slots = slots,
		.published = published,
		.mask = count - 1,
		.publish = count / 8 ? count / 8 : 1,
	};
}

/* Producer: is there room for n more? */
static inline bool
slot_room(struct slot_end *end, uint32_t n)
{
	uint32_t size = end->mask + 1;

	if (__builtin_expect(end->pos + n - end->other <= size, 1))
		return true;
	/* acquire: the consumer's reads of old slots happen before we fill them again */
	uint32_t seen = atomic_load_explicit(end->published, memory_order_acquire);

	if (end->pos - seen > size)
		return false; /* impossible position */
	end->other = seen;
	return end->pos + n - seen <= size;
}

static inline struct slot *
slot_at(const struct slot_end *end, uint32_t pos)
{
	return &end->slots[pos & end->mask];
}

/* Producer: make the slot at `pos` visible. Several slots may be filled ahead; if the first is
 * published last, the group appears at once. */
static inline void
slot_publish(struct slot_end *end, uint32_t pos)
{
	STEP();
	atomic_store_explicit(&slot_at(end, pos)->mark, pos + 1, memory_order_release);
	STEP();
}

/* Consumer: is the slot at position `pos` filled? */
static inline bool
slot_filled(const struct slot_end *end, uint32_t pos)
{
	return atomic_load_explicit(&slot_at(end, pos)->mark, memory_order_acquire) == pos + 1;
}

/* Consumer: n slots were taken. Publish the position if enough have been taken, or if `now` is
 * set. */
static inline void
slot_take(struct slot_end *end, uint32_t n, bool now)
{
	end->pos += n;
	if (end->pos - end->other >= end->publish || now) {
		end->other = end->pos;
		STEP();
		atomic_store_explicit(end->published, end->pos, memory_order_release);
		STEP();
	}
}

#endif
