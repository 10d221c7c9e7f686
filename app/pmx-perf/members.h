/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A group with several contexts of each side as members: the session's own context, and others that
 * are opened for it.
 */
#ifndef PMX_PERF_MEMBERS_H
#define PMX_PERF_MEMBERS_H

#include "match.h"
#include "pmx/group.h"

#define MEMBERS_A_SIDE 4 /* at most */

/* One side of it. Ranks: the initiator's contexts, then the responder's. */
struct members {
	unsigned here; /* contexts of this side, and of the other one */
	struct pmx_context *contexts[MEMBERS_A_SIDE];
	struct pmx_group *groups[MEMBERS_A_SIDE];
	struct pmx_addr all[2 * MEMBERS_A_SIDE]; /* by rank */
};

/* Open a group with several contexts at each side. The initiator calls members_open(), which sends
 * the order o, with the number of contexts a side in o->size and that of the group in o->count; the
 * responder passes the order to members_join(). Both end when the group is open, with 0 or a
 * negative errno; after an error, call members_close(). */
int members_open(struct members *m, struct perf_session *s, struct pmx_addr to,
	const struct order *o);
int members_join(struct members *m, struct perf_session *s, struct pmx_message *asked);

/* Wait for one request of each member here, up to PATIENCE_S. Return 0 or a negative errno. */
int members_wait(struct members *m, struct perf_session *s, pmx_request r[]);

/* Close the group and the contexts but the session's own; m is zeroed, as it is before opening. */
void members_close(struct members *m);

#endif
