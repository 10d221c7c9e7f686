/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which collectives may run at once. The engine has slots for a few (limits.collectives); ranks may
 * begin those of different communicators in different orders, and each waits for its like at the
 * others. So that they never wait for each other in a circle, each group has a slot that no other
 * group takes, and a group begins its own in their order. Under the lock.
 */
#include "coll_pmx.h"

static unsigned slots, groups;
static unsigned running; /* collectives of all groups */
static unsigned idle;    /* groups of which none runs */

void
slots_set(unsigned count)
{
	slots = count;
}

bool
slots_reserve(void)
{
	if (groups >= slots)
		return false;
	groups++;
	idle++;
	return true;
}

void
slots_give_back(void)
{
	groups--;
	idle--;
}

bool
slots_may_begin(const struct mpi_seat *s)
{
	return s->running == 0 || slots - running > idle;
}

void
slots_begun(struct mpi_seat *s)
{
	idle -= s->running++ == 0;
	running++;
}

void
slots_ended(struct mpi_seat *s)
{
	idle += --s->running == 0;
	running--;
}
