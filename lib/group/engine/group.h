/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups as a service of the engine (RHI-GRP, RHI-LOCK, RHI-BAR, RHI-SUB): carries what lib/group
 * says between the group endpoints of contexts, and pulls shared regions for newcomers. All of it
 * belongs to the lane.
 *
 * Design notes
 * 1. A client names its groups by handles, numbers below GROUPS_OF_CONTEXT that it chooses;
 *    lib/group knows them by their places. So the client need not wait to learn a number.
 * 2. A message is copied into an mbuf of its own for each transmission: it has 32 bytes.
 * 3. Messages within this node go from lane to lane through the inboxes, and back.
 */
#ifndef PMX_ENGINE_GROUP_H
#define PMX_ENGINE_GROUP_H

#include "engine/lane.h"
#include "engine/service.h"
#include "group/group.h"

#define GROUP_SERVICE 3

/* State of a lane. */
struct group_lane {
	struct groups *groups;
	size_t bytes;     /* of its memory, which takes pages only as it is used */
	uint64_t look_at; /* time of the next look at dead nodes */
	uint32_t *lives;  /* of nodes, at the last look; 0: not known */
	uint32_t local;   /* own messages that other lanes have */
	uint32_t copies;  /* of regions, begun so far */
	bool frozen;      /* another primary takes over: nothing is sent */
	/* Another service's: whether a context may leave the group at that place, or all of them
	 * (GROUP_NO_PLACE), now; asked again until it may. NULL: always. */
	bool (*may_leave)(struct engine *e, struct channel *ch, uint16_t place);
};
#define GROUP_NO_PLACE UINT16_MAX

static inline struct group_lane *
group_lane(const struct engine *e)
{
	return e->service[GROUP_SERVICE];
}

/* Return the place of one of a context's groups by its client's handle, or GROUP_NO_PLACE. */
uint16_t service_group_place(const struct channel *ch, unsigned handle);

extern const struct service_ops service_group;

#endif
