/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A group as its member's library has it, shared by group.c and multicast.c. One thread.
 */
#ifndef PMX_CLIENT_GROUP_H
#define PMX_CLIENT_GROUP_H

#include <errno.h>

#include "client/client.h"
#include "client/match.h"
#include "pmx/group.h"

#define NOBODY UINT16_MAX

struct multicast;

enum group_state {
	GROUP_OPENS,
	GROUP_IS_OPEN,
	GROUP_IS_OVER, /* it did not open, or has ended */
	GROUP_CLOSES,  /* the application has closed it */
};

struct member_note {
	struct pmx_addr addr;
	bool gone;
	uint8_t why; /* gone: errno; 0: it left */
};

struct lock_note {
	uint32_t request; /* that asks for it, or NO_REQUEST */
	bool held;
};

struct pmx_group {
	struct pmx_context *ctx;
	uint8_t state; /* enum group_state */
	bool waits;    /* it has something to submit; counted in context.unfinished */
	bool no_place; /* the engine has no such group: it need not be closed there */
	bool close_submitted;
	uint16_t handle;
	uint32_t id, rank, count;
	uint64_t random;    /* rank 0: the key */
	int64_t timeout_us; /* of the opening */
	uint32_t listed;    /* members that were submitted; NO_REQUEST: not even OPEN was */
	/* IS_OVER */
	int error;
	uint16_t because;          /* rank */
	bool over_told;            /* the application need not be told, or was */
	uint32_t opening, barrier; /* requests, or NO_REQUEST */
	struct lock_note *locks;   /* by number, lock_count of them */
	uint32_t lock_count;
	struct member_note *members;
	uint16_t *gone; /* ranks, in the order in which they went */
	uint32_t gone_count, gone_told;
	struct multicast *multicasts; /* MULTICASTS_MAX of them, or NULL */
	uint32_t multicasting;        /* of them, in use */
	bool proceeding;              /* multicasts_proceed() is running */
	bool engine_closed;           /* only its multicasts keep it */
};

/* Whether it is a member still: 0, or why not. */
static inline int
member_check(const struct member_note *m)
{
	return !m->gone ? 0 : m->why == 0 ? -ENOTCONN : -(int)m->why;
}

/* Whether the group is open: 0, or why nothing can be asked of it. */
static inline int
ctx_group_check(struct pmx_group *g)
{
	if (g->state == GROUP_IS_OPEN)
		return 0;
	return ctx_gone(g->ctx) ? -EPIPE : -ECONNRESET;
}

/* Ends a request of the group, if there is one. because: rank, or NOBODY. number: its status's
 * tag. */
static inline void
ctx_group_request_ends(struct pmx_group *g, uint32_t *request, int error, uint16_t because,
	uint32_t number)
{
	const struct pmx_status status = {
		.source = because < g->count ? g->members[because].addr : PMX_ANY_SOURCE,
		.label = because,
		.tag = number,
		.error = error,
	};

	if (*request == NO_REQUEST)
		return;
	lent_request_ends(g->ctx, *request, &status);
	*request = NO_REQUEST;
}

/* ---------------------------------------------------------------- multicast.c */

/* Goes on with the group's multicasts. */
void multicasts_proceed(struct pmx_group *g);
/* Their requests end; they themselves when their transfers have. */
void multicasts_abandon(struct pmx_group *g, int error);
/* The context ends, and all transfers with it. */
void multicasts_free(struct pmx_group *g);

#endif
