/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A collective as the library describes it to the engine: submit.c. One thread.
 */
#ifndef PMX_CLIENT_COLL_SUBMIT_H
#define PMX_CLIENT_COLL_SUBMIT_H

#include "coll/client/plans.h"
#include "group/client/group.h"
#include "pmx/coll.h"

#define COLL_BYTES_MAX (1ull << 40)

/* The end of a reduction by a function of the application: what combines, and where the result
 * goes. */
struct by_function {
	pmx_combine combine; /* NULL: it is copied */
	void *arg, *out;
	uint64_t len;
};

/* One of the buffers of a collective: whose blocks it has, and where. */
struct side {
	void *base;
	uint32_t blocks;            /* as many as the plan's: each rank's; 1: only the own one;
				     * 0: none */
	uint64_t each;              /* bytes of a block, if v is NULL */
	const struct pmx_blocks *v; /* by rank */
	bool copied;                /* the engine has a copy */
	bool relays;                /* ... with room for the blocks that are not had, too */
	uint64_t total;             /* bytes of all blocks */
	uint64_t span;              /* ... and from the first to the last one's end */
	uint32_t memory;            /* the engine's number of it, or MEMORY_COPIED: it is copied */
};

struct coll_call {
	enum coll_kind kind;
	uint32_t root;
	uint64_t bytes; /* as of a plan */
	bool any;       /* blocks of any lengths */
	bool vector;    /* both sides are one vector, which the plan cuts */
	uint32_t operation;
	uint64_t *ended_ns; /* NULL, or where the time of its end goes, as of coll_clock_ns() */
	struct side in, out;
	struct by_function by;
};

static inline struct side
coll_side(const void *base, uint32_t blocks, uint64_t each)
{
	return (struct side){.base = (void *)(uintptr_t)base, .blocks = blocks, .each = each};
}

uint64_t coll_clock_ns(void);
/* Begin it by that plan. Errors as of the verbs. */
int coll_call_begin(struct pmx_group *g, struct coll_call *c, const struct coll_plan *p,
	pmx_request *request);

/* ---------------------------------------------------------------- submit.c */

/* Make plans for the group's members, as plans_open() does. */
int collectives_plans(const struct pmx_group *g, struct topology *topology, struct coll_plans **out,
	char *error, uint32_t error_len);
/* Begin a collective of the library's own by such a plan: a barrier, an allgather, an allreduce of
 * the greatest of 64-bit numbers, or a survey's round, in which each member has a block to send and
 * one to receive. Errors are those of the verbs. */
int collectives_begin(struct pmx_group *g, const struct coll_plan *p, const void *in, void *out,
	pmx_request *request);

/* ---------------------------------------------------------------- survey.c */

/* Begin a survey of the group; survey: passes to it, also if this fails. Return 0; -ENOMEM. */
int client_survey_new(struct pmx_survey **out, struct pmx_group *g, struct survey *survey);
/* Go on with a survey. Return 0: it has not ended after up to so long; 1: it has ended; or why it
 * cannot go on. */
int client_survey_go_on(struct pmx_survey *s, int64_t timeout_us);
const struct survey *client_survey_of(const struct pmx_survey *s);
void client_survey_free(struct pmx_survey *s);
/* Take the group away from its survey: the application has closed the group. */
void client_survey_abandon(struct pmx_group *g);

/* ---------------------------------------------------------------- adapt.c */

/* Do what is due before a collective begins. Return 0: it may begin; -EAGAIN: the members have to
 * tell each other something first, or measure. */
int adaptation_due(struct pmx_group *g);
/* Note that a collective begins that was predicted to take so long, ns; 0: nobody knows. Return
 * where the time of its end goes, or NULL: nobody needs it. */
uint64_t *adaptation_begins(struct pmx_group *g, uint64_t predicted_ns);
/* Forget the last adaptation_begins(): that collective could not begin after all. */
void adaptation_has_not_begun(struct pmx_group *g);
void adaptation_free(struct pmx_group *g);

/* Free what the context knows of its collectives. This and the next two are the functions of
 * client_coll: coll.c. */
void collectives_close(struct pmx_context *ctx);
void collectives_results(struct pmx_context *ctx, const struct completion *c);
int collectives_leave(struct pmx_context *ctx);
/* End the requests of the group's collectives: the application has closed the group. */
void collectives_abandon(struct pmx_group *g);
/* Free the places of the group's collectives: the engine has the group no more. */
void collectives_end(struct pmx_group *g);

extern const struct client_service client_coll;

#endif
