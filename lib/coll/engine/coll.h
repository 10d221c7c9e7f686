/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives as a service of the engine: carries what lib/coll/live says between the collective
 * endpoints of a group's members, and copies and combines bytes in clients' memory, while their
 * programs compute or sleep. All of it belongs to the lane.
 *
 * Design notes
 * 1. A client describes a collective in memory (struct coll_desc); the description is copied, and
 *    nothing of it is read again.
 * 2. Bytes that are sent are copied into a frame of the service's own, once, because scratch and
 *    OUT change meanwhile; and from there into an mbuf for each transmission. Bytes that arrive go
 *    straight to their place.
 * 3. A collective ends at its client when its list has; the service goes on until all of its frames
 *    have arrived. A member leaves its group only after that.
 */
#ifndef PMX_ENGINE_COLL_H
#define PMX_ENGINE_COLL_H

#include "engine/service.h"

#define COLL_SERVICE 4

extern const struct service_ops service_coll;

#endif
