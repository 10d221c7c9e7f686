/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The groups of communicators: made at the first blocking collective, left when the communicator is
 * gone.
 */
#include "coll_pmx.h"

#include <ompi/mca/coll/base/coll_base_functions.h>
#include <opal/util/output.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ID 0x4D500001u /* of groups */
#define OPEN_US  20000000
#define TRIES    64 /* of a communicator, while groups are being left */

static _Atomic uint32_t next_id = FIRST_ID;

/* Groups that are being left: their communicators are gone. */
static struct leaving {
	struct pmx_group *group;
	struct mpi_seat seat;
	pmx_request barrier;
	bool has_begun;
	struct leaving *next;
} * leaving;

/* ------------------------------------------------------------------ leaving */

/* Return whether the group is left. */
static bool
goes_on(struct leaving *x)
{
	struct pmx_context *ctx = context_get();
	int e = x->has_begun ? 0 : pmx_coll_barrier(x->group, &x->barrier);

	if (e == -EAGAIN || e == -ENOMEM)
		return false;
	/* a group that cannot have a barrier any more is left at once */
	if (!x->has_begun)
		slots_begun(&x->seat);
	x->has_begun = true;
	if (e == 0)
		e = pmx_test(ctx, &x->barrier, NULL);
	if (e == 0)
		return false;
	pmx_group_close(x->group);
	slots_ended(&x->seat);
	slots_give_back();
	return true;
}

bool
group_leave_move(void)
{
	for (struct leaving **at = &leaving, *x; (x = *at) != NULL;) {
		if (!goes_on(x)) {
			at = &x->next;
			continue;
		}
		*at = x->next;
		free(x);
		context_watch(false);
	}
	return leaving == NULL;
}

void
group_leave(struct pmx_group *group)
{
	struct leaving *x = calloc(1, sizeof(*x));

	context_lock();
	if (x != NULL) {
		*x = (struct leaving){.group = group, .next = leaving};
		leaving = x;
		context_watch(true);
		group_leave_move();
	} else {
		pmx_group_close(group);
		slots_give_back();
	}
	context_unlock();
}

/* ------------------------------------------------------------------ groups */

/* Begin to open a group of these members. Return 0, or what is wrong with it here. */
static int
open_group(const struct module *m, const uint32_t *addrs, uint32_t id, struct pmx_group **group,
	pmx_request *request)
{
	struct pmx_addr *members = calloc((size_t)m->size, sizeof(*members));
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = id,
		.count = (uint32_t)m->size,
		.members = members,
	};

	if (members == NULL)
		return -ENOMEM;
	for (int i = 0; i < m->size; i++)
		members[i] = (struct pmx_addr){(uint16_t)(addrs[i] >> 16), (uint16_t)addrs[i]};
	context_lock();
	const int e = pmx_group_open(context_get(), &p, OPEN_US, group, request);
	context_unlock();
	free(members);
	return e;
}

/* Wait until a group is open. Return 0, or why it is not. */
static int
wait_until_open(pmx_request *request)
{
	for (;;) {
		context_lock();
		const int e = pmx_test(context_get(), request, NULL);
		context_unlock();
		if (e != 0)
			return e == 1 ? 0 : e;
		context_turn();
	}
}

/* Measure the network if the environment asks for that, as long as all members are here: it waits
 * for them. Return 0, or why it cannot be. */
static int
coll_group_measure(struct pmx_group *group)
{
	const char *topology = getenv("PMX_TOPOLOGY");
	char error[256];

	if (topology == NULL || strcmp(topology, "auto") != 0)
		return 0;
	context_lock();
	const int e = pmx_coll_topology(group, topology, error, sizeof(error));
	context_unlock();
	if (e != 0)
		opal_output(0, "coll/pmx: %s", error);
	return e;
}

int
agree(struct ompi_communicator_t *comm, void *values, int count, MPI_Datatype type, MPI_Op op)
{
	return ompi_coll_base_allreduce_intra_recursivedoubling(MPI_IN_PLACE, values, count, type,
		op, comm, NULL);
}

/* Take a number that no group of this process has had. Return false if it has had this one. */
static bool
claim(uint32_t id)
{
	uint32_t next = next_id;

	while (id >= next) {
		if (atomic_compare_exchange_weak(&next_id, &next, id + 1))
			return true;
	}
	return false;
}

/* Find a number for the group that none of its members has used, also where threads make groups of
 * other communicators at once. Return 0 if the communicator fails. */
static uint32_t
agree_on_id(struct ompi_communicator_t *comm)
{
	for (;;) {
		uint32_t id = next_id;
		int claimed;

		if (agree(comm, &id, 1, MPI_UINT32_T, MPI_MAX) != MPI_SUCCESS)
			return 0;
		claimed = claim(id);
		if (agree(comm, &claimed, 1, MPI_INT, MPI_MIN) != MPI_SUCCESS)
			return 0;
		if (claimed)
			return id;
	}
}

/* A rank can have a group for a communicator: */
enum ability {
	NEVER,
	LATER, /* groups whose communicators are gone are being left */
	NOW    /* it has taken a slot */
};

static enum ability
ability(void)
{
	if (!context_attach())
		return NEVER;
	context_lock();
	const bool left = group_leave_move(), reserved = slots_reserve();
	context_unlock();
	return reserved ? NOW : left ? NEVER : LATER;
}

static void
give_back(void)
{
	context_lock();
	slots_give_back();
	context_unlock();
}

/* Return what all ranks can, of those that take the same. Say so where they do not. */
static enum ability
all_can(struct module *m, struct ompi_communicator_t *comm)
{
	const enum ability own = ability();
	/* the least of each */
	int64_t say[3] = {own, choices_hash(), -choices_hash()};
	const int e = agree(comm, say, 3, MPI_INT64_T, MPI_MIN);

	if (e != MPI_SUCCESS || say[1] != -say[2]) {
		if (e == MPI_SUCCESS && m->rank == 0)
			opal_output(0,
				"coll/pmx: coll_pmx_take differs between ranks; nothing is taken");
		say[0] = NEVER;
	}
	if (own == NOW && say[0] != NOW)
		give_back();
	return (enum ability)say[0];
}

/* Return whether all ranks say yes. */
static bool
all_agree(struct ompi_communicator_t *comm, bool yes)
{
	int all = yes;
	const int e = agree(comm, &all, 1, MPI_INT, MPI_MIN);

	return e == MPI_SUCCESS && all;
}

/* Make the communicator's group, which all of its ranks do at once. Return the group, or NULL: none
 * of them has it. Before they agree nobody uses it, not even a collective in which they do. */
static struct pmx_group *
coll_group_make(struct module *m, struct ompi_communicator_t *comm)
{
	const uint32_t id = agree_on_id(comm);
	const struct pmx_addr own = pmx_context_addr(context_get());
	const uint32_t addr = (uint32_t)own.node << 16 | own.context;
	uint32_t *addrs = calloc((size_t)m->size, sizeof(*addrs));
	struct pmx_group *group = NULL;
	pmx_request request;
	int e = -ENOMEM;

	if (all_agree(comm, id != 0 && addrs != NULL)) {
		e = ompi_coll_base_allgather_intra_ring(&addr, 1, MPI_UINT32_T, addrs, 1,
			MPI_UINT32_T, comm, NULL);
		e = e == MPI_SUCCESS ? open_group(m, addrs, id, &group, &request) : -EIO;
		if (all_agree(comm, e == 0)) {
			e = wait_until_open(&request);
			if (all_agree(comm, e == 0) &&
				all_agree(comm, coll_group_measure(group) == 0)) {
				free(addrs);
				return group;
			}
		}
	}
	free(addrs);
	if (e != 0 && context_is_verbose())
		opal_output(0, "coll/pmx: no group for a communicator: %s", pmx_strerror(e));
	context_lock();
	pmx_group_close(group);
	context_unlock();
	give_back();
	return NULL;
}

bool
group_is_open(struct module *m, struct ompi_communicator_t *comm, bool blocking)
{
	if (!m->is_asked && blocking) {
		m->is_asked = true; /* also while it is asked, by collectives as well */
		const enum ability can = all_can(m, comm);

		if (can == NOW)
			m->group = coll_group_make(m, comm);
		else if (can == LATER && ++m->tries < TRIES)
			m->is_asked = false;
	}
	return m->group != NULL;
}
