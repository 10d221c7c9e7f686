/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The oracle of group_world.h: one holder of a lock at a time, and a member; a barrier ends for
 * nobody before all that live have entered it, and alike for all; all copies of a shared region are
 * equal, each update placed once at each sharer and at nobody else, none while a newcomer copies
 * the region; who is said to have a frame of a multicast has it. It also carries updates, copies
 * and frames of multicasts, which are not the library's own.
 */
#ifndef GROUP_ORACLE_H
#define GROUP_ORACLE_H

#include "group_world.h"

/* An actor hears that a barrier has ended, or how its wish for a lock did. */
void passes(struct actor *a, const struct group_result *r);
void locked(struct actor *a, const struct group_result *r);

/* An actor hears of a shared region. */
void region_hears(unsigned n, const struct group_result *r);
/* Updates of a region that are under way. */
unsigned under_way(uint32_t region);
/* One more sharer gets the update, or it ends. */
void update_goes_on(struct update *u);
/* Bytes that are to be copied from a home begin to be, and those that are being copied are. */
void copies_go_on(void);

/* Frames of multicasts leave their nodes, and some arrive; some are lost, some doubled. */
void casts_go_on(void);
/* An actor hears who lacks frames of its multicast. */
void cast_lacks(unsigned n, const struct group_result *r);
/* All have answered: who is said to have a frame has it, and the others get it by a push. */
void cast_ends(unsigned n, uint32_t frames, uint8_t error);

#endif
