/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Marks of the lanes that are inside a port's rx or tx. net_memif unmaps what it shares with its
 * peer as soon as that goes away, on the EAL's interrupt thread; with these marks it waits for the
 * lanes that may be reading there.
 */
#ifndef PMX_MEMIF_LANES_H
#define PMX_MEMIF_LANES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_common.h>

/* A lane's mark, which it alone writes. */
struct memif_lane {
	_Alignas(RTE_CACHE_LINE_SIZE) _Atomic uint32_t turns; /* odd while the lane is inside */
	uint32_t downs; /* of the port when the lane saw that its link is up */
};

struct memif_lanes {
	struct memif_lanes *next;
	uint16_t port, count;
	_Atomic uint32_t downs;   /* how often the port has lost its peer; 0 for other ports */
	struct memif_lane lane[]; /* by queue */
};

/* Return marks of that many lanes, none of them inside, or NULL. */
struct memif_lanes *memif_lanes_new(uint16_t port, uint16_t count);
/* Let net_memif wait for these lanes from now on, until they are freed. Return whether it will: it
 * does not if it is linked statically. Marks at ports of other drivers are not added. */
bool memif_lanes_add(struct memif_lanes *lanes);
/* Free them; none of the lanes may be inside. */
void memif_lanes_free(struct memif_lanes *lanes);
/* Return whether the link of the lanes' port is up. */
bool memif_lanes_up(const struct memif_lanes *lanes);
/* Keep the lanes from calling the port until its link is up again, and wait for those that are
 * inside. Any thread but a lane's. */
void memif_lanes_shut(struct memif_lanes *lanes);
/* Return whether the link is up that was down when the lane last looked, for memif_lane_enter(). */
bool memif_lane_sees_link(const struct memif_lanes *lanes, struct memif_lane *lane);

static inline void
memif_lane_turn(struct memif_lane *lane)
{
	const uint32_t turns = atomic_load_explicit(&lane->turns, memory_order_relaxed);

	atomic_store_explicit(&lane->turns, turns + 1, memory_order_release);
}

/* Begin a turn. Return whether the lane may call the port. */
static inline bool
memif_lane_enter(const struct memif_lanes *lanes, struct memif_lane *lane)
{
	memif_lane_turn(lane);
	/* who waits for lanes makes the processor keep this order too */
	atomic_signal_fence(memory_order_seq_cst);
	return __builtin_expect(atomic_load_explicit(&lanes->downs, memory_order_acquire) ==
			       lane->downs,
		       1) ||
		memif_lane_sees_link(lanes, lane);
}

static inline void
memif_lane_leave(struct memif_lane *lane)
{
	memif_lane_turn(lane);
}

#endif
