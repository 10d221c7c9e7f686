/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What generators build plans with; see generate.h.
 */
#include <errno.h>

#include "coll/generate.h"

/* proto.ack_delay_us of an engine that is not told otherwise: no flow Acks more often */
#define ACK_NS       25000.0
#define LEAST_SLACK  0.006
#define GRAIN_PIECES 4  /* at least */
#define GRAINS       64 /* under way, at most */

/* Return whether receivers can keep what a step sends without permits, and whether its two ranks
 * may connect. All ranks' steps are counted, also if one list alone is made, so all ranks find the
 * same. */
static bool
is_allowed(const struct coll_builder *b, uint32_t rank, const struct coll_step *s)
{
	const struct coll_task *task = b->task;

	if (s->op > COLL_RECV)
		return true;
	return (!(s->flags & COLL_EAGER) || task->params.eager == 0 ||
		       coll_run_bytes(&b->blocks, s->block, s->blocks) <= task->params.eager) &&
		topology_may_talk(task->topology, coll_node(task, rank), coll_node(task, s->peer));
}

uint16_t
coll_add(struct coll_builder *b, uint32_t rank, const struct coll_step *s)
{
	struct coll_list *l = &b->plan->lists[rank];
	const uint32_t i = b->used[rank]++;

	if (b->counting && !is_allowed(b, rank, s))
		b->error = -EOPNOTSUPP;
	if (s->op == COLL_RECV && s->to == COLL_SCRATCH && s->area >= l->areas)
		l->areas = s->area + 1u;
	if (i >= COLL_STEPS_MAX)
		b->error = -E2BIG;
	else if (!b->counting && i < l->count) {
		struct coll_step *step = &((struct coll_step *)l->steps)[i];

		*step = *s;
		if (s->op == COLL_SEND && coll_node(b->task, rank) == coll_node(b->task, s->peer))
			step->flags |= COLL_NEAR;
	}
	return (uint16_t)i;
}

void
coll_widen_area(struct coll_builder *b, uint32_t relay, uint32_t child, uint64_t most)
{
	const struct coll_path up = coll_path_between(b->task, child, relay);
	const struct coll_path down = coll_path_between(b->task, relay, child);
	struct coll_list *l = &b->plan->lists[relay];
	const double under_way = (up.latency_ns + down.latency_ns) / up.ns_per_byte +
		AREA_PIECES * (double)l->piece;
	const uint64_t bytes = under_way < (double)most ? (uint64_t)under_way : most;

	if (l->area_bytes < bytes)
		l->area_bytes = bytes;
}

uint32_t
coll_grain(const struct coll_builder *b, uint32_t node, double under_way)
{
	const struct topology *t = b->task->topology;
	const struct topology_vertex *host = &t->vertices[t->hosts[node]];
	const uint32_t piece = b->plan->lists[0].piece;
	const uint64_t buffer = host->edge_count
		? t->vertices[t->edges[host->first_edge].to].buffer_bytes
		: 0;
	double grain = under_way / GRAINS;

	if (buffer > 0 && grain > (double)buffer / 8)
		grain = (double)buffer / 8;
	const uint32_t pieces = (uint32_t)(grain / piece);

	return (pieces > GRAIN_PIECES ? pieces : GRAIN_PIECES) * piece;
}

uint32_t
coll_cluster_end(const struct coll_builder *b, uint32_t first)
{
	const uint16_t *order = b->plan->order;
	const uint32_t cluster = coll_cluster(b->task, order[first]);
	uint32_t last = first;

	while (last + 1 < b->task->ranks && coll_cluster(b->task, order[last + 1]) == cluster)
		last++;
	return last;
}

double
coll_slack(const struct coll_task *task, double ns_per_byte, bool both)
{
	const double least = task->params.frame_least;
	const double frame = task->params.frame_payload + task->params.frame_overhead;
	/* one for each frame, or for all that comes while one waits */
	const double each = ACK_NS / ns_per_byte > frame ? ACK_NS / ns_per_byte : frame;

	return ns_per_byte * (1 + LEAST_SLACK + (both ? least / each : 0));
}

uint32_t
coll_pace(const struct coll_plan *p, const struct coll_task *task, double ns_per_byte)
{
	const uint32_t piece = p->lists[0].piece;
	const double each = task->bytes == 0 ? 1
		: task->bytes < piece
		? (double)coll_wire_bytes(&task->params, task->bytes) / (double)task->bytes
		: (double)coll_wire_bytes(&task->params, piece) / piece;
	const double pace = ns_per_byte * each * 65536;

	return pace > (double)UINT32_MAX ? UINT32_MAX : (uint32_t)(pace + 0.5);
}
