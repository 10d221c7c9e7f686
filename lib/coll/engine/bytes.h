/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The bytes of a collective: from its description to where a step's bytes lie in the client's
 * memory, and what is copied or combined there. On the lane.
 */
#ifndef PMX_ENGINE_COLL_BYTES_H
#define PMX_ENGINE_COLL_BYTES_H

#include "coll/live.h"
#include "engine/lane.h"

/* One collective that a client has asked for. Its tables are of the lane, as long as the largest
 * list. */
struct coll_job {
	struct coll_desc desc;
	struct coll_list list;
	struct coll_blocks blocks[COLL_BUFFERS];
	uint16_t ctx;
	uint32_t ticket;
	bool is_read; /* the tables are those of the last description, which was good */
	/* when it has ended */
	uint16_t next, rank; /* next: of its channel's, or JOB_NONE */
	uint8_t error;
	uint32_t number;
	struct coll_step *steps;      /* steps_max */
	uint64_t *ends[COLL_BUFFERS]; /* members_max of each, likewise: */
	uint64_t *begins[2];          /* where the blocks of IN and OUT are */
};
#define JOB_NONE UINT16_MAX

/* Return the bytes of a job's tables, which job_lay_out() then puts into that much memory. */
size_t job_bytes(uint32_t steps_max, uint32_t members_max);
void job_lay_out(struct coll_job *j, uint8_t *tables, uint32_t steps_max, uint32_t members_max);
/* Return whether a description is the same as the one that was read last, but for where the buffers
 * are, and take that over. A description that is not mapped here counts as another one. */
bool job_is_same(struct coll_job *j, const struct bytes *from);
/* Copy a description from the client, and its tables as far as they may be that long. Return 0;
 * -EFAULT, -EINVAL: then j->list is one that cannot be run. */
int job_read(struct coll_job *j, const struct channel *ch, const struct bytes *from,
	uint32_t steps_max, uint32_t members_max);

/* Copy len bytes of a step from its source; to its target. 0; -EFAULT: they are not in the
 * client's memory, or not in the buffer. */
int job_get(struct coll_job *j, struct channel *ch, const struct coll_exec *x, uint16_t step,
	uint64_t offset, void *to, uint32_t len);
int job_put(struct coll_job *j, struct channel *ch, const struct coll_exec *x, uint16_t step,
	uint64_t offset, const void *from, uint32_t len);
/* Do a REDUCE or COPY. scratch: two times list.piece bytes. Likewise. */
int job_work(struct coll_job *j, struct channel *ch, const struct coll_exec *x, uint16_t step,
	uint64_t offset, uint32_t len, uint8_t *scratch);

#endif
