/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which primaries can take over from each other.
 */
#ifndef PMX_SERVE_TERMS_H
#define PMX_SERVE_TERMS_H

#include "engine/lane.h"

/* Return a hash of what two primaries must have in common. Nodes with the same value can take over
 * from each other: they are of the same build, and agree in everything that determines their
 * images. */
uint64_t takeover_terms(const struct node *n);

#endif
