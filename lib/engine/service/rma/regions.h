/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Regions of this lane's contexts. On the lane.
 */
#ifndef PMX_RMA_REGIONS_H
#define PMX_RMA_REGIONS_H

#include "engine/service/rma/rma.h"

/* A client registers a region, or ends it. */
void registration_submit(struct engine *e, struct channel *ch, const struct submission *s);
/* A frame that a region's end waits for came back. */
void registration_unmarked(struct engine *e, struct channel *ch);
void regions_memory_gone(struct engine *e, struct channel *ch, const struct memory *m);
/* All of the context's end, whoever has pinned them. */
void regions_close(struct engine *e, struct channel *ch);

#endif
