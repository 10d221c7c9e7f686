/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A group as its member's library has it, shared by group.c, submit.c, multicast.c
 * and region.c. One thread.
 */
#ifndef PMX_CLIENT_GROUP_H
#define PMX_CLIENT_GROUP_H

#include <errno.h>

#include "client/client.h"
#include "match/client/match.h"
#include "pmx/group.h"

#define NOBODY UINT16_MAX

struct multicast;
struct coll_adaptation;
struct coll_plan;
struct coll_plans;
struct survey;
struct topology;

enum group_state {
	GROUP_OPENS,
	GROUP_IS_OPEN,
	GROUP_IS_OVER, /* it did not open, or has ended */
	GROUP_CLOSES,  /* the application has closed it */
};

struct member_note {
	struct pmx_addr addr;
	bool gone;
	uint8_t why;    /* gone: errno; 0: it left */
	bool reached;   /* multicasts may reach it by the network */
	uint8_t missed; /* frames of these of which it got none, one after the other */
};

struct lock_note {
	uint32_t request; /* that asks for it, or NO_REQUEST */
	bool held;
};

/* A shared region. */
struct region_note {
	uint8_t state;    /* enum region_state */
	uint32_t request; /* that subscribes or unsubscribes, or NO_REQUEST */
	uint64_t addr, len;
	void *twin;        /* NULL, or where a copy goes when it is shared */
	uint32_t *sharers; /* bits of ranks, in words of 32 */
	uint32_t *came;    /* likewise: sharers of which the application is to be told */
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
	uint64_t multicast_age;       /* multicasts begun, but updates */
	uint32_t updates;             /* that were asked for so far */
	struct multicast *network;    /* the one that the engine sends by the network, or NULL */
	void *packed;                 /* bounce buffer of which the engine sends it, or NULL */
	bool network_always;          /* also for one receiver, and however many were missed */
	bool proceeding;              /* multicasts_proceed() is running */
	struct region_note *regions;  /* limits.group_regions of them, or NULL */
	uint32_t came;                /* bits that are set in their `came` */
	bool engine_closed;           /* only its multicasts keep it */
	struct coll_plans *plans;     /* of its collectives; NULL: it has had none */
	bool has_prepared;            /* a buffer is kept for its next collective */
	struct pmx_survey *survey;    /* that is going on, or NULL */
	struct coll_adaptation *adaptation; /* or NULL */
};

/* Return 0 if it is a member still, or why it is not. */
static inline int
member_check(const struct member_note *m)
{
	return !m->gone ? 0 : m->why == 0 ? -ENOTCONN : -(int)m->why;
}

/* Return 0 if the group is open, or why nothing can be asked of it. */
static inline int
ctx_group_check(struct pmx_group *g)
{
	if (g->state == GROUP_IS_OPEN)
		return 0;
	return ctx_gone(g->ctx) ? -EPIPE : -ECONNRESET;
}

/* End a request of the group, if there is one. because: rank, or NOBODY. number: its status's
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

/* ---------------------------------------------------------------- submit.c */

/* Return 0 if something that ends with a request can be asked of the group now, or why it
 * cannot. */
int ctx_group_check_ask(struct pmx_group *g, const pmx_request *request);
/* Return a slot for a command, zeroed but for its handle, or NULL if the ring is full. */
struct submission *ctx_group_begin(struct pmx_group *g, enum group_command command);
void ctx_group_end(struct pmx_group *g);
/* Submit a command that has but a number. 0 or -EAGAIN. */
int ctx_group_submit(struct pmx_group *g, enum group_command command, uint32_t number);

/* ---------------------------------------------------------------- region.c */

void shares_result(struct pmx_group *g, const struct completion *c);
/* End all requests about regions. */
void shares_end(struct pmx_group *g, int error);
void shares_free(struct pmx_group *g);

/* ---------------------------------------------------------------- multicast.c */

#define NO_REGION UINT32_MAX

/* Begin an update of a region, which waits until it is granted. All but m->set is as for
 * pmx_group_multicast(). */
int multicast_update(struct pmx_group *g, uint32_t region, const struct pmx_multicast *m,
	pmx_request *request);
/* Take a sharer of which the application is to be told; g->came must not be 0. */
void shares_next_that_came(struct pmx_group *g, uint32_t *region, uint16_t *rank);
/* Let the region's first update that waits go to all sharers but this one, or end it with an error,
 * because of that rank. */
void multicast_granted(struct pmx_group *g, uint32_t region, const uint32_t *sharers, int error,
	uint16_t because);

/* Take a result of the kind GROUP_REACHES, GROUP_LACKS or GROUP_CAST. */
void multicasts_result(struct pmx_group *g, const struct completion *c);
/* End what the engine did for multicasts, as the group has ended. */
void multicasts_over(struct pmx_group *g);
/* Go on with the group's multicasts. */
void multicasts_proceed(struct pmx_group *g);
/* End the requests of all multicasts; they themselves end when their transfers have. */
void multicasts_abandon(struct pmx_group *g, int error);
/* Free all multicasts, as the context ends, and all transfers with it. */
void multicasts_free(struct pmx_group *g);
/* Give back the frames of the multicast in parts, which the engine needs no more. */
void multicasts_unpack(struct pmx_group *g);

extern const struct client_service client_group;

#endif
