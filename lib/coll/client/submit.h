/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A collective as the library describes it to the engine: coll_submit.c. One thread.
 */
#ifndef PMX_CLIENT_COLL_SUBMIT_H
#define PMX_CLIENT_COLL_SUBMIT_H

#include "coll/client/plans.h"
#include "group/client/group.h"
#include "pmx/coll.h"

#define COLL_BYTES_MAX (1ull << 40)

/* How a reduction by a function of the application's ends. */
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

struct call {
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
int coll_call_begin(struct pmx_group *g, struct call *c, const struct coll_plan *p,
	pmx_request *request);

/* What client_coll does: coll.c. */
void collectives_close(struct pmx_context *ctx);
void collectives_results(struct pmx_context *ctx, const struct completion *c);
int collectives_leave(struct pmx_context *ctx);
/* The application has closed the group: its collectives' requests end. */
void collectives_abandon(struct pmx_group *g);
/* The engine has it no more. */
void collectives_end(struct pmx_group *g);

extern const struct client_service client_coll;

#endif
