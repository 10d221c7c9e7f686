/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Barriers (RHI-BAR): members tell rank 0 that they enter, rank 0 counts, and tells all when all
 * are there.
 *
 * Design notes
 * 1. Barriers are numbered, and nobody enters one before the last one has ended for it, so one
 *    counter at rank 0 suffices: of barrier_done + 1.
 * 2. If a member goes while others are in a barrier, it ends for all with that member's rank, also
 *    for those that enter it later. Barriers after that are of those that are left. It ends only
 *    when all have been told of the one before, so one number and one error are all there is to
 *    tell.
 * 3. The members of one lane (and of 64 ranks that are next to each other: its house) enter
 *    together: the last of them is what the others wait for anyway, so ENTER is sent when it has
 *    come, by one of them, the speaker, for the whole company; and DONE comes to the speaker for
 *    the company. So what rank 0 has to do grows with the number of lanes, not of members.
 * 4. If a member goes while others wait for their house, these enter at once, and say because of
 *    whom: that barrier ends with it, as if rank 0 had heard of them before; but only one barrier
 *    does because of one member. If a speaker goes, its company is told one by one.
 */
#include "group/internal.h"

/* ------------------------------------------------------------------ houses */

/* Return the rank that bit 0 stands for in a set of ranks to which this one belongs. */
static inline uint16_t
first_of(uint16_t rank)
{
	return rank & (uint16_t)~63u;
}

static inline uint64_t
bit_of(uint16_t rank)
{
	return 1ull << rank % 64;
}

/* Take the lowest rank from the bits, of which there are some, and return it. */
static inline uint16_t
take_rank(uint64_t *bits, uint16_t first)
{
	const uint16_t rank = (uint16_t)(first + __builtin_ctzll(*bits));

	*bits &= *bits - 1;
	return rank;
}

/* Return the members of the house that are in its group still, this member too. They are looked for
 * when it enters its first barrier: the group is open, so all are there that ever will be. */
static uint64_t
house_of(const struct groups *g, const struct membership *m)
{
	const uint16_t first = first_of(m->rank);
	const uint16_t end = m->count - first < 64 ? m->count : first + 64;
	uint64_t house = 0;

	for (uint16_t r = first; r < end; r++) {
		const struct group_addr a = m->members[r].addr;

		if (a.node == m->members[m->rank].addr.node && group_find(g, a.ctx, m->id) != NULL)
			house |= bit_of(r);
	}
	return house;
}

/* Return the membership of the house's member of that rank, or NULL if it is in the group no more,
 * as far as m knows. It may not have heard yet that the group is open. */
static struct membership *
mate(const struct groups *g, const struct membership *m, uint16_t rank)
{
	if (m->members[rank].gone)
		return NULL;
	struct membership *k = group_find(g, m->members[rank].addr.ctx, m->id);

	return k != NULL && k->key == m->key &&
			(k->state == MEMBERSHIP_OPEN || k->state == MEMBERSHIP_JOINS)
		? k
		: NULL;
}

/* Enter the member's barrier for those of its house that wait in it, by one of them that is not
 * stopped if there is one. because: rank of a member that went while they waited, or NO_RANK. */
static void
house_enters(struct groups *g, struct membership *m, uint16_t because)
{
	struct membership *speaker = NULL;
	uint64_t company = 0;

	for (uint64_t left = m->house; left != 0;) {
		const uint16_t r = take_rank(&left, first_of(m->rank));
		struct membership *k = mate(g, m, r);

		if (k == NULL || !k->waits || k->barrier != m->barrier)
			continue;
		k->waits = false;
		company |= bit_of(r);
		if (speaker == NULL || speaker->stopped)
			speaker = k;
	}
	if (speaker == NULL)
		return;
	speaker->company = company;
	speaker->enters_because = because;
	speaker->owes |= OWES_ENTER;
	owe(g, speaker);
}

/* Return whether all of the house that are in the group still have entered the member's barrier.
 * Some of them may have done so before the others, because a member went. */
static bool
is_house_complete(const struct groups *g, const struct membership *m)
{
	for (uint64_t left = m->house; left != 0;) {
		const struct membership *k = mate(g, m, take_rank(&left, first_of(m->rank)));

		if (k != NULL && k->barrier < m->barrier)
			return false;
	}
	return true;
}

/* Let the company of an ENTER of that barrier wait again, since it will not be sent, or has
 * failed. */
static void
company_waits(struct groups *g, const struct membership *m, uint64_t company, uint32_t number)
{
	while (company != 0) {
		struct membership *k = mate(g, m, take_rank(&company, first_of(m->rank)));

		if (k != NULL && k->in_barrier && k->barrier == number && k->barrier_done < number)
			k->waits = true;
	}
}

/* Let those of the house that wait enter without m, which is in the group no more. */
static void
house_goes_on(struct groups *g, const struct membership *m)
{
	for (uint64_t left = m->house; left != 0;) {
		struct membership *k = mate(g, m, take_rank(&left, first_of(m->rank)));

		if (k != NULL && k->waits)
			house_enters(g, k, m->rank);
	}
}

/* Take back the ENTER that the member owes, if it does: it will not be sent. Return whether it
 * did. */
static bool
take_back(struct groups *g, struct membership *m)
{
	if (!(m->owes & OWES_ENTER))
		return false;
	m->owes &= (uint8_t)~OWES_ENTER;
	company_waits(g, m, m->company, m->barrier);
	return true;
}

void
barrier_unsaid(struct groups *g, struct membership *m)
{
	take_back(g, m);
	m->waits = false;
	house_goes_on(g, m);
}

void
barrier_enter_failed(struct groups *g, struct membership *m, const struct wire_group *h)
{
	company_waits(g, m, wire_group_wide(h), wire_be32(h->number));
	m->waits = false;
	house_goes_on(g, m);
}

void
barrier_stops(struct groups *g, struct membership *m)
{
	if (m->state == MEMBERSHIP_OPEN && take_back(g, m))
		house_enters(g, m, m->enters_because);
}

void
barrier_starts(struct groups *g, struct membership *m)
{
	for (uint64_t left = m->house; left != 0;) {
		struct membership *k = mate(g, m, take_rank(&left, first_of(m->rank)));

		if (k != NULL && k->stopped)
			barrier_stops(g, k);
	}
}

void
barrier_member_gone(struct groups *g, struct membership *m, uint16_t rank)
{
	if (m->waits)
		house_enters(g, m, rank);
}

/* ------------------------------------------------------------------ ends */

/* Have the client told how its barrier has ended. */
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
	if (m->barrier <= number) { /* rank 0 need not hear that it has entered */
		m->waits = false;
		m->owes &= (uint8_t)~OWES_ENTER;
	}
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
	if (m->house == 0)
		m->house = house_of(g, m);
	m->waits = true;
	if (is_house_complete(g, m))
		house_enters(g, m, NO_RANK);
	return m->barrier;
}

/* End the barrier for the company of the member, which is its speaker. */
static void
company_ends(struct groups *g, struct membership *m, uint64_t company, uint32_t number,
	uint8_t error, uint16_t because)
{
	for (company &= m->house & ~bit_of(m->rank); company != 0;) {
		struct membership *k = mate(g, m, take_rank(&company, first_of(m->rank)));

		if (k != NULL && number > k->barrier_done)
			barrier_ends(g, k, number, error, because);
	}
}

/* ------------------------------------------------------------------ rank 0 */

/* Return whether a member is told of the end of a barrier by another one, its speaker. */
static bool
has_speaker(const struct membership *m, uint16_t rank, uint32_t number)
{
	const struct member *who = &m->members[rank];

	return who->entered == number && who->speaker != rank && !m->members[who->speaker].gone;
}

uint64_t
barrier_company(const struct membership *m, uint16_t rank)
{
	const struct member *who = &m->members[rank];

	return who->entered == m->barrier_done && who->speaker == rank ? who->company : 0;
}

static void
owe_done(struct groups *g, struct membership *m, uint16_t rank)
{
	if (m->members[rank].gone || m->members[rank].owes & OWES_DONE)
		return;
	owe_member(g, m, rank, OWES_DONE);
	m->dones++;
}

/* End the barrier that is under way, for all. */
static void
barrier_finish(struct groups *g, struct membership *m, uint8_t error, uint16_t because)
{
	const uint32_t number = m->barrier_done + 1;

	m->entered = 0;
	m->breaks = false;
	for (uint16_t r = 1; r < m->count; r++) {
		if (!has_speaker(m, r, number))
			owe_done(g, m, r);
	}
	barrier_ends(g, m, number, error, because);
	company_ends(g, m, barrier_company(m, 0), number, error, because);
}

void
barrier_break(struct groups *g, struct membership *m, uint16_t because)
{
	const uint8_t error = m->members[because].why != 0 ? m->members[because].why : ECONNRESET;

	if (m->entered == 0)
		return;
	m->breaks = true;
	m->break_error = error;
	m->break_because = because;
	if (m->dones == 0)
		barrier_finish(g, m, error, because);
}

static void
done_over(struct groups *g, struct membership *m)
{
	m->dones--;
	if (m->dones == 0 && m->breaks)
		barrier_finish(g, m, m->break_error, m->break_because);
}

void
barrier_untold(struct groups *g, struct membership *m, uint16_t rank)
{
	if (!(m->members[rank].owes & OWES_DONE))
		return;
	m->members[rank].owes &= (uint8_t)~OWES_DONE;
	done_over(g, m);
}

/* Return whether the DONE is for others than its receiver, too. They hear of the next one in other
 * flows, so that must wait until this has arrived. */
static bool
is_for_company(const struct group_frame *f)
{
	return (wire_group_wide(&f->message) & ~bit_of(f->rank)) != 0;
}

void
barrier_told(struct groups *g, struct membership *m, const struct group_frame *f)
{
	m->members[f->rank].owes &= (uint8_t)~OWES_DONE;
	if (!is_for_company(f))
		done_over(g, m);
}

void
barrier_heard(struct groups *g, struct membership *m, const struct group_frame *f)
{
	if (is_for_company(f))
		done_over(g, m);
}

void
barrier_speaker_gone(struct groups *g, struct membership *m, uint16_t rank)
{
	struct member *who = &m->members[rank];

	who->barrier = m->barrier_done + 1;
	for (uint64_t company = barrier_company(m, rank); company != 0;) {
		const uint16_t r = take_rank(&company, first_of(rank));

		if (r != 0 && m->members[r].speaker == rank)
			owe_done(g, m, r);
	}
}

/* Note, at rank 0, that the member `rank` enters, as its speaker says. */
static void
enters_one(struct membership *m, uint16_t rank, uint16_t speaker, uint32_t number)
{
	struct member *who = &m->members[rank];

	if (who->gone || who->entered >= number)
		return;
	who->entered = number;
	who->speaker = speaker;
	who->company = 0;
	/* one that has ended meanwhile: all are told of it already, one by one */
	m->entered += number > m->barrier_done;
}

/* Return whether the sender may enter for these: they are of its node, and it is one of them. */
static bool
is_company(const struct membership *m, uint16_t from, uint64_t company)
{
	const uint16_t first = first_of(from);

	if (!(company & bit_of(from)) || first + 63 - __builtin_clzll(company) >= m->count)
		return false;
	while (company != 0) {
		const uint16_t r = take_rank(&company, first);

		if (m->members[r].addr.node != m->members[from].addr.node)
			return false;
	}
	return true;
}

static void
enters(struct groups *g, struct membership *m, uint16_t from, const struct wire_group *h)
{
	const uint32_t number = wire_be32(h->number);
	const uint64_t company = wire_group_wide(h);
	const uint16_t because = h->flags & WIRE_G_DEAD ? because_of(m, h) : NO_RANK;
	struct member *who = &m->members[from];

	if (number == 0 || number > m->barrier_done + 1 || !is_company(m, from, company)) {
		count(g, GROUP_BAD_MESSAGES);
		return;
	}
	enters_one(m, from, from, number);
	/* not one that has gone, or for which another one spoke already */
	const bool speaks = !who->gone && who->entered == number && who->speaker == from;

	if (speaks)
		who->company |= company;
	for (uint64_t left = company; left != 0;) {
		const uint16_t r = take_rank(&left, first_of(from));

		enters_one(m, r, speaks ? from : r, number);
	}
	if (m->breaks || number <= m->barrier_done)
		return;
	if (because != NO_RANK && m->members[because].gone && m->members[because].barrier == number)
		barrier_break(g, m, because);
	else if (m->entered == m->count - m->gone_count)
		barrier_finish(g, m, 0, NO_RANK);
}

void
barrier_message(struct groups *g, struct membership *m, uint16_t from, const struct wire_group *h)
{
	const uint32_t number = wire_be32(h->number);
	const uint8_t error = (uint8_t)wire_be16(h->error);

	if (h->op == WIRE_G_ENTER && m->rank == 0) {
		enters(g, m, from, h);
	} else if (h->op == WIRE_G_DONE && from == 0 && m->rank != 0) {
		/* its speaker may have told it before it went */
		if (number > m->barrier_done)
			barrier_ends(g, m, number, error, because_of(m, h));
		company_ends(g, m, wire_group_wide(h), number, error, because_of(m, h));
	} else {
		count(g, GROUP_BAD_MESSAGES);
	}
}
