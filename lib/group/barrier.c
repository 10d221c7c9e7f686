/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Barriers (RHI-BAR): each member tells rank 0 that it enters, rank 0 counts, and tells all when
 * all are there.
 *
 * Design notes
 * 1. Barriers are numbered, and nobody enters one before the last one has ended for it, so one
 *    counter at rank 0 suffices: of barrier_done + 1.
 * 2. If a member goes while others are in a barrier, it ends for all with that member's rank, also
 *    for those that enter it later. Barriers after that are of those that are left. It ends only
 *    when all have been told of the one before, so one number and one error are all there is to
 *    tell.
 */
#include "group/internal.h"

/* The client is to hear how its barrier has ended. */
static void
tell_end(struct groups *g, struct membership *m)
{
	m->own_error = m->barrier_error;
	m->own_because = m->barrier_because;
	m->tells |= TELLS_BARRIER;
	tell(g, m);
}

void
barrier_ends(struct groups *g, struct membership *m, uint32_t number, uint8_t error,
	uint16_t because)
{
	m->barrier_done = number;
	m->barrier_error = error;
	m->barrier_because = because;
	/* the next one may end before the client has heard of this one */
	if (m->in_barrier && m->barrier <= number && !(m->tells & TELLS_BARRIER))
		tell_end(g, m);
}

int64_t
group_barrier(struct groups *g, uint16_t ctx, uint32_t place)
{
	struct membership *m = group_at(g, ctx, place);

	if (m == NULL)
		return -EINVAL;
	if (m->in_barrier)
		return -EBUSY;
	m->in_barrier = true;
	m->barrier++;
	if (m->state == MEMBERSHIP_ENDED) {
		barrier_ends(g, m, m->barrier, m->error, m->because);
		return m->barrier;
	}
	if (m->barrier <= m->barrier_done) {
		/* it ended, because a member has gone, before this one came */
		tell_end(g, m);
		return m->barrier;
	}
	m->owes |= OWES_ENTER;
	owe(g, m);
	return m->barrier;
}

/* Rank 0: the barrier that is under way ends for all. */
static void
finish(struct groups *g, struct membership *m, uint8_t error, uint16_t because)
{
	m->entered = 0;
	m->breaks = false;
	for (uint16_t r = 1; r < m->count; r++) {
		if (!m->members[r].gone) {
			owe_member(g, m, r, OWES_DONE);
			m->dones++;
		}
	}
	barrier_ends(g, m, m->barrier_done + 1, error, because);
}

void
barrier_break(struct groups *g, struct membership *m, uint8_t error, uint16_t because)
{
	if (m->entered == 0)
		return;
	m->breaks = true;
	m->break_error = error;
	m->break_because = because;
	if (m->dones == 0)
		finish(g, m, error, because);
}

void
barrier_told(struct groups *g, struct membership *m, uint16_t rank)
{
	if (!(m->members[rank].owes & OWES_DONE))
		return;
	m->members[rank].owes &= (uint8_t)~OWES_DONE;
	m->dones--;
	if (m->dones == 0 && m->breaks)
		finish(g, m, m->break_error, m->break_because);
}

static void
enters(struct groups *g, struct membership *m, uint16_t from, uint32_t number)
{
	struct member *who = &m->members[from];

	/* one that has ended meanwhile: the sender is told of it already */
	if (number <= m->barrier_done && who->entered < number) {
		who->entered = number;
		return;
	}
	if (number != m->barrier_done + 1 || who->entered >= number) {
		count(g, GROUP_BAD_MESSAGES);
		return;
	}
	who->entered = number;
	m->entered++;
	if (!m->breaks && m->entered == m->count - m->gone_count)
		finish(g, m, 0, NO_RANK);
}

void
barrier_message(struct groups *g, struct membership *m, uint16_t from, const struct wire_group *h)
{
	uint32_t number = wire_be32(h->number);

	if (h->op == WIRE_G_ENTER && m->rank == 0) {
		enters(g, m, from, number);
	} else if (h->op == WIRE_G_DONE && from == 0) {
		if (m->rank != 0 && number > m->barrier_done)
			barrier_ends(g, m, number, (uint8_t)wire_be16(h->error), because_of(m, h));
		else
			count(g, GROUP_BAD_MESSAGES);
	} else {
		count(g, GROUP_BAD_MESSAGES);
	}
}
