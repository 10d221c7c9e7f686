/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Finding out what a network looks like by measuring it (contention-free adaptive collectives,
 * SWoPP 2008, section 6: the topology is measured): rounds in which hosts exchange blocks, how long
 * each host's part took, and at the end a topology as a text. Pure but for memory: who runs the
 * rounds, on nodes or in the simulator, runs the plans that are made here. All members that are
 * told the same times come to the same next round and the same text. One thread.
 *
 * Design notes
 * 1. Every pair meets once (a tournament), half of all hosts' pairs at a time, first with a few
 *    short messages back and forth, then with a long block each way, at once. So a pair whose way
 *    shares a line with others' takes longer than the hosts' own lines tell, also where that line
 *    is no slower than these: what is shared shows by contention, what is far by latency.
 * 2. Load is bounded: a host sends to one other at a time, and a round of long blocks takes
 *    round_us where nothing is in its way. There are 3 rounds of short messages and 4 of blocks,
 *    of two lengths, there and back, for each of the tournament's hosts - 1, and 8 for each switch
 *    found.
 * 3. Hosts are joined by average linkage of how much longer a pair takes than the better of what
 *    its hosts do elsewhere; where that grows at once by SPLIT, there is a switch of its own below.
 * 4. Lengths of links are fitted so that sums along the ways are the latencies measured (least
 *    squares at each switch). What is within a host, engine and application, is in its link.
 *    A host whose line is much slower than the others' meets no contention, so where it is, only
 *    latency tells.
 * 5. Then the hosts below each switch exchange with as many outside, all at once: the rate of its
 *    link upwards. A switch that is no farther than its hosts, and whose link holds nobody up, is
 *    none.
 * 6. Of a known topology only rates are measured again: neighbours exchange, so that each host's
 *    line is filled, and then note 5.
 */
#ifndef PMX_COLL_SURVEY_H
#define PMX_COLL_SURVEY_H

#include "coll/plan.h"

#define SURVEY_HOSTS_MAX 1024
#define SURVEY_ROUND_US  10000 /* of 8 hosts and less; of more, less in proportion */

struct survey;

struct survey_config {
	uint32_t ranks;        /* that begin the rounds; of each node, the lowest measures */
	const uint16_t *nodes; /* [ranks], borrowed for the call; NULL: rank = node */
	struct coll_params params;
	uint32_t round_us; /* 0: SURVEY_ROUND_US */
};

/* Open a survey. Return 0 and *out; -EINVAL: no rank, or too many; -E2BIG: too many hosts, or too
 * large a node number for a topology's text; -ENOMEM. */
int survey_open(struct survey **out, const struct survey_config *config);
void survey_close(struct survey *s);
/* Return how many rounds come next, before survey_measured(); 0: all has been measured. */
uint32_t survey_rounds(const struct survey *s);
/* Return the bytes of a block in the longest of these rounds, and so of buffers to send and to
 * receive. */
uint64_t survey_bytes(const struct survey *s);
/* Make the plan of one of them: of one rank's list, or of all (only: COLL_NONE). All ranks are to
 * begin at the same time. Returns 0 and *out, to be freed with coll_plan_free; -ENOMEM. */
int survey_plan(const struct survey *s, uint32_t round, uint32_t only, struct coll_plan **out);
/* Take how long each rank's part of these rounds took: ns[rank * rounds + round]. Return 0 or
 * -ENOMEM. */
int survey_measured(struct survey *s, const uint64_t *ns);
/* Open a survey of a topology that is known: only rates are measured. The topology's hosts are
 * nodes. Errors are those of survey_open(). */
int survey_again(struct survey **out, const struct survey_config *config,
	const struct topology *topology);
/* Write the rates to that topology, when all has been measured, where they differ by more than a
 * tenth. Return whether any does. */
bool survey_rates(const struct survey *s, struct topology *topology);
/* Write the topology as a text, when all has been measured: *out is to be freed. Nodes that have no
 * rank, between those that have one, are hosts at the highest switch. Return 0 or -ENOMEM. */
int survey_text(const struct survey *s, char **out);

#endif
