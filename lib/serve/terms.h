/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which primaries can take over from each other.
 */
#ifndef PMX_SERVE_TERMS_H
#define PMX_SERVE_TERMS_H

#include "engine/lane.h"

/* Two nodes with equal terms can: they are of one build, and agree in all that their images consist
 * of. */
uint64_t takeover_terms(const struct node *n);

#endif
