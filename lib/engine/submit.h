/* SPDX-License-Identifier: BSD-3-Clause
 *
 * From channels to the core: what clients submitted. On the lane.
 */
#ifndef PMX_ENGINE_SUBMIT_H
#define PMX_ENGINE_SUBMIT_H

#include "engine/lane.h"

/* Takes as many submissions as a turn has; returns how many. */
unsigned submissions_scan(struct engine *e, struct channel *ch);

#endif
