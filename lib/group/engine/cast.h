/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Multicasts by the network, of the group service (group.c). On the lane.
 */
#ifndef PMX_ENGINE_CAST_H
#define PMX_ENGINE_CAST_H

#include "group/engine/group.h"

/* Return which of the 32 members from rank word * 32 on can be reached by multicasts, as bits. */
uint32_t service_cast_reaches(const struct engine *e, uint16_t ctx, uint32_t place, uint32_t word);
/* Do what a client submits as GROUP_CAST_TO and GROUP_CAST_BEGIN. *links: those by which the
 * receivers are reached, so far. 0 or -errno. */
int service_cast_to(struct engine *e, struct channel *ch, uint32_t place,
	const struct submission *s, uint32_t *links);
int service_cast_begin(struct engine *e, struct channel *ch, uint32_t place,
	const struct submission *s, uint32_t links);
/* Send frames, as many as may be sent in a turn. Return how many. */
unsigned service_casts_send(struct engine *e);
/* Take a frame of a multicast that has arrived: service_ops.multicast. */
void service_cast_heard(struct engine *e, const struct wire_hdr *h);

#endif
