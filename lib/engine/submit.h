/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Takes what clients submitted to the core and to services. On the lane.
 */
#ifndef PMX_ENGINE_SUBMIT_H
#define PMX_ENGINE_SUBMIT_H

#include "engine/lane.h"

/* Take up to a burst of submissions from the channel. Return how many. */
unsigned submissions_scan(struct engine *e, struct channel *ch);

#endif
