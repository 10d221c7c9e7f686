/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The groups of communicators: made at the first blocking collective, left when the communicator is
 * gone.
 */
#include "coll_pmx.h"

#include <opal/util/output.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#define FIRST_ID 0x4D500001u /* of groups */
#define OPEN_US  20000000

static _Atomic uint32_t next_id = FIRST_ID;

/* Groups that are being left: their communicators are gone. */
static struct leaving {
	struct pmx_group *group;
	struct seat seat;
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

	if (e == -EAGAIN)
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

/* Open a group of these members, and wait until it is open. Return 0, or what is wrong with it
 * here. */
static int
open_group(struct module *m, const uint32_t *addrs, uint32_t id)
{
	struct pmx_context *ctx = context_get();
	struct pmx_addr *members = calloc((size_t)m->size, sizeof(*members));
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = id,
		.count = (uint32_t)m->size,
		.members = members,
	};
	pmx_request r;
	int e;

	if (members == NULL)
		return -ENOMEM;
	for (int i = 0; i < m->size; i++)
		members[i] = (struct pmx_addr){(uint16_t)(addrs[i] >> 16), (uint16_t)addrs[i]};
	context_lock();
	e = pmx_group_open(ctx, &p, OPEN_US, &m->group, &r);
	context_unlock();
	free(members);
	while (e == 0) {
		context_lock();
		e = pmx_test(ctx, &r, NULL);
		context_unlock();
		if (e == 0)
			context_turn();
	}
	return e == 1 ? 0 : e;
}

/* A collective by who is to do those that are not taken. */
#define ALL(m, comm, name, ...)                                                                    \
	((m)->before.coll_##name(__VA_ARGS__, comm, (m)->before.coll_##name##_module))

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
agree_on_id(struct module *m, struct ompi_communicator_t *comm)
{
	for (;;) {
		uint32_t id = next_id;
		int claimed;

		if (ALL(m, comm, allreduce, MPI_IN_PLACE, &id, 1, MPI_UINT32_T, MPI_MAX) !=
			MPI_SUCCESS)
			return 0;
		claimed = claim(id);
		if (ALL(m, comm, allreduce, MPI_IN_PLACE, &claimed, 1, MPI_INT, MPI_MIN) !=
			MPI_SUCCESS)
			return 0;
		if (claimed)
			return id;
	}
}

/* Take a slot for a group. Before, wait until the groups of communicators that are gone are left:
 * their other members have freed them, or are about to. */
static bool
reserve(void)
{
	for (;;) {
		context_lock();
		const bool left = group_leave_move(), reserved = left && slots_reserve();
		context_unlock();
		if (left)
			return reserved;
		context_turn();
	}
}

static void
give_back(void)
{
	context_lock();
	slots_give_back();
	context_unlock();
}

/* Return whether all ranks have a context and take the same. Say so where they do not. */
static bool
all_can(struct module *m, struct ompi_communicator_t *comm)
{
	const bool can = context_attach() && reserve();
	/* the least of each */
	int64_t say[3] = {can, choices_hash(), -choices_hash()};
	const int e = ALL(m, comm, allreduce, MPI_IN_PLACE, say, 3, MPI_INT64_T, MPI_MIN);

	if (e == MPI_SUCCESS && say[0] != 0 && say[1] == -say[2])
		return true;
	if (e == MPI_SUCCESS && say[1] != -say[2] && m->rank == 0)
		opal_output(0, "coll/pmx: coll_pmx_take differs between ranks; nothing is taken");
	if (can)
		give_back();
	return false;
}

/* Make the communicator's group, which all of its ranks do at once. They all have it afterwards, or
 * none. */
static void
make(struct module *m, struct ompi_communicator_t *comm)
{
	if (!all_can(m, comm))
		return;
	const uint32_t id = agree_on_id(m, comm);
	const struct pmx_addr own = pmx_context_addr(context_get());
	const uint32_t addr = (uint32_t)own.node << 16 | own.context;
	uint32_t *addrs = calloc((size_t)m->size, sizeof(*addrs));
	int open = id != 0 && addrs != NULL, e = -ENOMEM;

	if (ALL(m, comm, allreduce, MPI_IN_PLACE, &open, 1, MPI_INT, MPI_MIN) == MPI_SUCCESS &&
		open) {
		e = ALL(m, comm, allgather, &addr, 1, MPI_UINT32_T, addrs, 1, MPI_UINT32_T);
		e = e == MPI_SUCCESS ? open_group(m, addrs, id) : -EIO;
		if (e != 0 && context_is_verbose())
			opal_output(0, "coll/pmx: no group for a communicator: %s",
				pmx_strerror(e));
		open = e == 0;
		if (ALL(m, comm, allreduce, MPI_IN_PLACE, &open, 1, MPI_INT, MPI_MIN) !=
			MPI_SUCCESS)
			open = 0;
	}
	free(addrs);
	if (open)
		return;
	context_lock();
	pmx_group_close(m->group);
	context_unlock();
	give_back();
	m->group = NULL;
}

bool
group_is_open(struct module *m, struct ompi_communicator_t *comm, bool blocking)
{
	if (!m->is_asked && blocking) {
		m->is_asked = true;
		make(m, comm);
	}
	return m->group != NULL;
}
