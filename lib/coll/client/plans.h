/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Plans of a group's collectives, as its member's library makes and keeps them. All members come to
 * the same ones, since nothing but what all know decides. One thread.
 */
#ifndef PMX_CLIENT_COLL_PLANS_H
#define PMX_CLIENT_COLL_PLANS_H

#include "coll/survey.h"
#include "pmx/pmx.h"

struct coll_plans;

/* Make room for the plans of a group whose members are at these addresses; rank: own. piece: most
 * bytes of a message. topology: passes to the plans, also if this fails; NULL: all nodes are at one
 * switch. Return 0; -ENOMEM; -EINVAL, with a sentence in error: a member's node is not in the
 * topology. */
int plans_open(struct coll_plans **out, const struct pmx_addr *members, uint32_t count,
	uint32_t rank, uint32_t piece, struct topology *topology, char *error, uint32_t error_len);
/* Take a kind's plans by a generator, as PMX_COLL_GENERATORS says, "gather=chain,alltoall=phases":
 * all members must ask for the same. Before the first plan. 0; -ENOMEM; -EINVAL, with a sentence in
 * error. */
int plans_ask_for(struct coll_plans *p, const char *generators, char *error, uint32_t error_len);
/* Take plans from files, as PMX_COLL_PLANS says, "FILE:FILE": where a collective is of the kind,
 * root and bytes of one of them, that one. Likewise. */
int plans_load(struct coll_plans *p, const char *paths, char *error, uint32_t error_len);
void plans_free(struct coll_plans *p);
/* Return what frames cost in this group's plans. */
struct coll_params plans_params(const struct coll_plans *p);
/* Return how long such a collective takes, as predicted when its generator was chosen: ns; 0:
 * nobody knows, since the network is not known, or a generator was asked for. Call it after
 * plans_get(). */
uint64_t plans_predicted(const struct coll_plans *p, enum coll_kind kind, uint32_t root,
	uint64_t bytes);
/* Begin to measure again what the known network's links carry: of lib/coll/survey.h. */
int plans_survey(const struct coll_plans *p, struct survey **out);
/* Plan from now on by what that survey has found, if it differs. Return whether it does. */
bool plans_measured(struct coll_plans *p, const struct survey *s);
/* Get the plan of a collective; only the own rank's list is there. It stays until the next call.
 * Return 0 and *out, or an error of coll_plan_make(). */
int plans_get(struct coll_plans *p, enum coll_kind kind, uint32_t root, uint64_t bytes,
	const struct coll_plan **out);
/* Get the plan of a collective whose blocks may have any lengths, which not all members know: no
 * time of the plan holds for these. It stays until the next call. Return as plans_get(). */
int plans_get_any(struct coll_plans *p, enum coll_kind kind, uint32_t root,
	const struct coll_plan **out);

#endif
