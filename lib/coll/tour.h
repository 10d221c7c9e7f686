/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A topology as plans see it: paths between hosts, what a message takes, and the tour of the tree.
 */
#ifndef PMX_COLL_TOUR_H
#define PMX_COLL_TOUR_H

#include "coll/plan.h"

/* The way between two hosts. */
struct coll_path {
	double latency_ns;  /* of all cables, and one frame's time at all but the slowest */
	double ns_per_byte; /* of the slowest edge */
	double stream;      /* ns a byte of one flow at least; 0 = no bound */
	uint32_t slowest;   /* that edge, the nearest to the destination; TOPOLOGY_NONE: same
			     * host */
};

/* Ranks of the same host are this far from each other. */
#define COLL_LOCAL_NS          1000
#define COLL_LOCAL_NS_PER_BYTE 0.1

/* The time that a host is thought to take for a message, ns, where a tree is grown and nothing is
 * known. */
#define COLL_MESSAGE_NS 500
/* Return what a node's processor takes for a message of so many bytes, ns. unknown_ns: what a
 * message takes if the topology does not say. */
static inline double
coll_message_ns(const struct topology *t, uint32_t node, uint64_t bytes, uint32_t unknown_ns)
{
	return topology_message_ns(t, node, bytes) +
		(t->vertices[t->hosts[node]].message_ns > 0 ? 0 : unknown_ns);
}

/* Return the busiest edge's time and that of the longest path, together, ns; see struct
 * coll_plan. */
uint64_t coll_bound_ns(const struct coll_task *task);
uint32_t coll_node(const struct coll_task *task, uint32_t rank);
struct coll_path coll_path_between(const struct coll_task *task, uint32_t from, uint32_t to);
double coll_edge_ns_per_byte(const struct topology *t, uint32_t edge);
/* Return the bytes on the wire of a message of so many bytes, in frames. */
uint64_t coll_wire_bytes(const struct coll_params *p, uint64_t bytes);
/* Return the bytes on the wire of a block that is sent in pieces. */
uint64_t coll_block_wire(const struct coll_params *p, uint32_t piece, uint64_t bytes);
/* Return the most bytes that a message has for blocks of that size. */
uint32_t coll_piece(const struct coll_task *task, uint64_t bytes);
/* Return whether all pairs of ranks may connect (topology.h: talk). */
bool coll_may_all_talk(const struct coll_task *task);
/* Return the switch that a rank's host is at: hosts with the same one are a cluster. In the order
 * of the tour they come one after the other, as long as their lines are alike. */
uint32_t coll_cluster(const struct coll_task *task, uint32_t rank);
/* Write the ranks in the order of the tour from the root, the root first: at each switch, subtrees
 * with the best host first: more bandwidth to the root, less latency, lower number (SWoPP 2008,
 * section 4.4.1). Returns 0 or -ENOMEM. */
int coll_tour(const struct coll_task *task, uint16_t *order);

#endif
