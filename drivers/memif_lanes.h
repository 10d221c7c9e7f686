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

struct memif_lane {
	/* odd while the lane is inside; it alone writes it */
	_Alignas(RTE_CACHE_LINE_SIZE) _Atomic uint32_t turns;
};

struct memif_lanes {
	struct memif_lanes *next;
	uint16_t count;
	struct memif_lane lane[]; /* by queue */
};

/* Return marks of that many lanes, none of them inside, or NULL. */
struct memif_lanes *memif_lanes_new(uint16_t count);
/* Let net_memif wait for these lanes from now on, until they are freed. Return whether it will: it
 * does not if it is linked statically. The marks of other ports need not be added. */
bool memif_lanes_add(struct memif_lanes *lanes);
/* Free them; none of the lanes may be inside. */
void memif_lanes_free(struct memif_lanes *lanes);
/* Wait until each lane that is inside has been outside once. It sees on its next turn what was
 * written before. Any thread but a lane's. */
void memif_lanes_wait(const struct memif_lanes *lanes);

static inline void
memif_lane_turn(struct memif_lane *lane)
{
	const uint32_t turns = atomic_load_explicit(&lane->turns, memory_order_relaxed);

	atomic_store_explicit(&lane->turns, turns + 1, memory_order_release);
}

static inline void
memif_lane_enter(struct memif_lane *lane)
{
	memif_lane_turn(lane);
	/* memif_lanes_wait() makes the processor keep this order too */
	atomic_signal_fence(memory_order_seq_cst);
}

static inline void
memif_lane_leave(struct memif_lane *lane)
{
	memif_lane_turn(lane);
}

#endif
