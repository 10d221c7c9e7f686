/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memberships (RHI-GRP): opening, coming, leaving, dying. See group.h.
 *
 *     LISTS -> JOINS -> OPEN -> LEAVES -> DRAINS -> FREE
 *              JOINS -> FAILED -> DRAINS; rank 0: LEAVES -> DRAINS
 *                       OPEN -> ENDED -> DRAINS              rank 0 has gone
 *
 * Design notes
 * 1. All members give the same list, whose hash the JOIN has in the place of the key. When all have
 *    joined, rank 0 gives them the key (OPEN), and when all have it the group is open (GO): members
 *    that were told so may speak at once to those that were not. Or it does not open, and all are
 *    told because of whom.
 * 2. A member that leaves says so to rank 0, which tells all others, one after the other in the
 *    order in which members go, and then the leaver (LEFT): its context's number can be another's
 *    from then on. A member that nobody reaches any more has gone for all.
 * 3. What arrives before this member has joined, or after it has left, is refused. A JOIN comes
 *    again until it is answered.
 * 4. A member whose message to another one is lost cannot go on with it, so one of both has to go.
 *    Rank 0 asks the one that is accused. If that does not answer, it has gone; if it does, the
 *    accuser has, since it is the one who loses messages, or does not say the truth.
 */
#include "group/internal.h"

#define GIVE_UP_LATER  20   /* in join_ticks */
#define ANSWERS_WITHIN 2000 /* likewise; who is dead is mostly noticed before by its flow */

/* ------------------------------------------------------------------ opening */

int
group_open(struct groups *g, uint16_t ctx, const struct group_params *p)
{
	if (p->id == 0 || p->count == 0 || p->count > g->cfg.members_max || p->rank >= p->count ||
		(p->rank == 0 && p->random == 0))
		return -EINVAL;
	if (group_find(g, ctx, p->id) != NULL)
		return -EEXIST;
	struct membership *m = group_take_place(g, ctx);

	if (m == NULL)
		return -ENOSPC;
	g->used++;
	membership_clear(g, m);
	m->state = MEMBERSHIP_LISTS;
	m->ctx = ctx;
	m->user = p->user;
	m->rank = p->rank;
	m->count = p->count;
	m->id = p->id;
	m->key = p->rank == 0 ? p->random : 0;
	m->hash = 14695981039346656037ull;
	m->give_up = p->give_up;
	m->words = DIRECTORY_WORDS(p->count);
	for (uint32_t i = 0; i < m->count; i++)
		m->members[i].marks = NO_MARK;
	for (uint32_t i = 0; i < g->cfg.locks_max; i++)
		m->queues[i] = (struct queue){NO_RANK, NO_RANK, NO_RANK, false};
	return (int)place_of(g, m);
}

/* FNV-1a: which lists are the same; not against those who try to make one that only seems so. */
static uint64_t
hashed(uint64_t hash, struct group_addr a)
{
	const uint8_t bytes[4] = {(uint8_t)(a.node >> 8), (uint8_t)a.node, (uint8_t)(a.ctx >> 8),
		(uint8_t)a.ctx};

	for (unsigned i = 0; i < sizeof(bytes); i++)
		hash = (hash ^ bytes[i]) * 1099511628211ull;
	return hash;
}

int
group_list(struct groups *g, uint16_t ctx, uint32_t place, const struct group_addr *self,
	const struct group_addr *members, uint32_t n, uint64_t now)
{
	struct membership *m = group_own(g, ctx, place);

	if (m == NULL || m->state != MEMBERSHIP_LISTS || n > (uint32_t)m->count - m->listed)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		uint16_t *at = group_place_for(m, members[i]);

		if (*at != 0 || (m->listed == m->rank) != same_addr(members[i], *self))
			return -EINVAL;
		m->members[m->listed++].addr = members[i];
		*at = m->listed;
		m->hash = hashed(m->hash, members[i]);
	}
	if (m->listed < m->count)
		return 0;
	m->state = MEMBERSHIP_JOINS;
	m->ask_at = now + g->cfg.join_ticks;
	/* rank 0 knows who is missing, so it is the first to give up */
	m->give_up += m->rank != 0 ? GIVE_UP_LATER * g->cfg.join_ticks : 0;
	m->owes |= OWES_JOIN;
	set_add(&g->timed, place_of(g, m));
	owe(g, m);
	return 0;
}

/* End the opening in the given state, and have the client told: the membership waits for nothing by
 * the clock any more. */
static void
opened(struct groups *g, struct membership *m, uint8_t state, uint8_t error, uint16_t because)
{
	set_remove(&g->timed, place_of(g, m));
	m->state = state;
	m->owes &= (uint8_t)~OWES_JOIN;
	m->error = error;
	m->because = because;
	m->tells |= TELLS_OPENED;
	tell(g, m);
}

/* Owe OPEN, at rank 0, to all that have joined. */
static void
answer_all(struct groups *g, struct membership *m)
{
	for (uint16_t r = 1; r < m->count; r++) {
		if (m->members[r].joined && !m->members[r].gone)
			owe_member(g, m, r, OWES_OPEN);
	}
}

static void
open_fails(struct groups *g, struct membership *m, uint8_t error, uint16_t because)
{
	m->fails = true;
	opened(g, m, MEMBERSHIP_FAILED, error, because);
	if (m->rank == 0)
		answer_all(g, m);
}

static void
joins(struct groups *g, struct membership *m, uint16_t from, uint64_t hash)
{
	struct member *who = &m->members[from];

	if (m->state == MEMBERSHIP_JOINS && hash != m->hash) {
		who->joined = true;
		open_fails(g, m, EPROTO, from);
	} else if (m->state == MEMBERSHIP_JOINS && !who->joined) {
		who->joined = true;
		m->joined++;
		if (m->joined == m->count) {
			answer_all(g, m);
			if (m->count == 1)
				opened(g, m, MEMBERSHIP_OPEN, 0, NO_RANK);
		}
	} else if (m->state == MEMBERSHIP_FAILED && from != 0) {
		who->joined = true;
		owe_member(g, m, from, OWES_OPEN);
	}
}

void
group_keyed(struct groups *g, struct membership *m)
{
	if (m->state != MEMBERSHIP_JOINS || ++m->keyed < m->count - 1)
		return;
	opened(g, m, MEMBERSHIP_OPEN, 0, NO_RANK);
	for (uint16_t r = 1; r < m->count; r++)
		owe_member(g, m, r, OWES_GO);
}

/* Take the answer of rank 0 to JOIN: the key, or why the group does not open. */
static void
is_opened(struct groups *g, struct membership *m, const struct wire_group *h)
{
	uint8_t error = (uint8_t)wire_be16(h->error);

	if (error != 0 && m->state == MEMBERSHIP_LEAVES) {
		group_drain(g, m);
	} else if (m->state == MEMBERSHIP_JOINS && error != 0) {
		m->refused = true;
		open_fails(g, m, error, because_of(m, h));
	} else if (m->state == MEMBERSHIP_JOINS) {
		m->key = wire_be64(h->key);
		m->owes &= (uint8_t)~OWES_JOIN;
	}
}

/* ------------------------------------------------------------------ going */

/* Return, at rank 0, how many of the members that have gone all others have been told of. */
static uint16_t
least_told(const struct membership *m)
{
	uint16_t told = m->gone_count;

	for (uint16_t r = 1; r < m->count; r++) {
		if (!m->members[r].gone && m->members[r].told < told)
			told = m->members[r].told;
	}
	return told;
}

/* Take back all that is owed to members, or about locks, regions and multicasts. */
static void
owe_nothing(struct groups *g, struct membership *m)
{
	memset(m->owing, 0, BITS_WORDS(m->count) * sizeof(uint64_t));
	memset(m->locks_owing, 0, BITS_WORDS(g->cfg.locks_max) * sizeof(uint64_t));
	memset(m->turns_owing, 0, BITS_WORDS(places_of(m, g->cfg.locks_max)) * sizeof(uint64_t));
	memset(m->shares_owing, 0, BITS_WORDS(g->cfg.regions_max) * sizeof(uint64_t));
	memset(m->shares_copying, 0, BITS_WORDS(g->cfg.regions_max) * sizeof(uint64_t));
	memset(m->sharers_owing, 0,
		BITS_WORDS(places_of(m, g->cfg.regions_max)) * sizeof(uint64_t));
	cast_over(g, m);
}

void
group_drain(struct groups *g, struct membership *m)
{
	m->state = MEMBERSHIP_DRAINS;
	set_remove(&g->timed, place_of(g, m));
	owe_nothing(g, m);
	m->owes &= OWES_LEAVE;
	group_settle(g, m);
}

void
group_settle(struct groups *g, struct membership *m)
{
	if (m->frames > 0)
		return;
	if (m->state == MEMBERSHIP_LEAVES && m->rank == 0 &&
		(m->fails || (m->leavers == 0 && least_told(m) == m->gone_count)) &&
		bit_next(m->owing, BITS_WORDS(m->count), 0) == UINT32_MAX)
		m->state = MEMBERSHIP_DRAINS;
	if (m->state != MEMBERSHIP_DRAINS || m->owes != 0)
		return;
	m->state = MEMBERSHIP_FREE;
	g->used--;
	m->tells = m->silent ? 0 : TELLS_CLOSED;
	set_remove(&g->work, place_of(g, m));
	tell(g, m);
	if (m->silent)
		group_let_go(g, m);
}

/* End the group for this member: rank 0 cannot be reached or has gone, or this member is one no
 * more. */
static void
ends(struct groups *g, struct membership *m, uint8_t error, uint16_t because)
{
	if (m->state == MEMBERSHIP_JOINS) {
		open_fails(g, m, error, because);
	} else if (m->state == MEMBERSHIP_LEAVES) {
		group_drain(g, m);
	} else if (m->state == MEMBERSHIP_OPEN) {
		m->state = MEMBERSHIP_ENDED;
		barrier_unsaid(g, m);
		m->error = error;
		m->because = because;
		m->tells |= TELLS_ENDED;
		m->owes = 0;
		cast_group_ended(g, m);
		owe_nothing(g, m);
		tell(g, m);
		lock_group_ended(g, m);
		shared_group_ended(g, m);
		if (m->in_barrier)
			barrier_ends(g, m, m->barrier, error, because);
	}
}

/* Note that a member has gone. All are told so in the same order. */
static void
member_gone(struct groups *g, struct membership *m, uint16_t rank, uint8_t why)
{
	struct member *who = &m->members[rank];

	if (who->gone)
		return;
	who->gone = true;
	who->why = why;
	m->gone[m->gone_count++] = rank;
	if (m->rank == 0) {
		/* its company first: the next barrier may end when all know of the last one */
		barrier_speaker_gone(g, m, rank);
		barrier_untold(g, m, rank);
	}
	barrier_member_gone(g, m, rank);
	who->asked = false;
	who->owes &= OWES_EXPEL | OWES_LEFT;
	lock_member_gone(g, m, rank);
	shared_member_gone(g, m, rank);
	cast_member_gone(g, m, rank);
	if (m->state == MEMBERSHIP_OPEN)
		tell(g, m);
}

/* Owe LEFT, at rank 0, to those that left, when all others have been told of it. */
static void
look_at_leavers(struct groups *g, struct membership *m)
{
	uint16_t told = least_told(m);

	for (uint16_t i = 0; i < told; i++) {
		struct member *who = &m->members[m->gone[i]];

		if (who->awaits_left) {
			who->awaits_left = false;
			m->leavers--;
			owe_member(g, m, m->gone[i], OWES_LEFT);
		}
	}
	owe(g, m); /* it may be rank 0 itself that waits for this */
}

/* Declare, at rank 0, that a member has gone, and tell all others. While members join the group
 * fails to open instead, if that one had joined; why: errno, or 0 if it left. */
static void
declare_gone(struct groups *g, struct membership *m, uint16_t rank, uint8_t why)
{
	struct member *who = &m->members[rank];

	if (who->gone)
		return;
	if (m->state == MEMBERSHIP_JOINS) {
		/* who comes back joins again */
		bool joined = who->joined;

		who->joined = false;
		if (joined && rank != 0)
			open_fails(g, m, why != 0 ? why : ECONNRESET, rank);
		return;
	}
	if (m->fails || (m->state != MEMBERSHIP_OPEN && m->state != MEMBERSHIP_LEAVES))
		return;
	member_gone(g, m, rank, why);
	for (uint16_t r = 1; r < m->count; r++) {
		if (!m->members[r].gone && !m->members[r].telling)
			owe_member(g, m, r, OWES_GONE);
	}
	if (why != 0 && rank != 0)
		owe_member(g, m, rank, OWES_EXPEL);
	barrier_break(g, m, rank);
	look_at_leavers(g, m);
}

void
group_told(struct groups *g, struct membership *m, uint16_t rank)
{
	struct member *who = &m->members[rank];

	if (who->gone)
		return;
	who->telling = false;
	if (++who->told < m->gone_count)
		owe_member(g, m, rank, OWES_GONE);
	look_at_leavers(g, m);
}

void
group_lost(struct groups *g, struct membership *m, uint16_t rank)
{
	if (m->members[rank].gone)
		return;
	if (m->rank == 0)
		declare_gone(g, m, rank, ECONNRESET);
	else if (rank == 0)
		ends(g, m, ECONNRESET, 0);
	else if (m->state == MEMBERSHIP_OPEN)
		owe_member(g, m, rank, OWES_SUSPECT);
}

/* Return the set of the ranks that cannot reach member `rank`, as bits. */
static uint64_t *
accusers_of(const struct membership *m, uint16_t rank)
{
	return m->accusers + rank * BITS_WORDS(m->count);
}

/* Note, at rank 0, that member `from` cannot reach member `rank`, and ask the latter whether it is
 * a member still (note 4). */
static void
accuses(struct groups *g, struct membership *m, uint16_t from, uint16_t rank)
{
	if (rank == 0 || rank >= m->count || rank == from) {
		count(g, GROUP_BAD_MESSAGES);
		return;
	}
	struct member *who = &m->members[rank];

	if (who->gone || m->state != MEMBERSHIP_OPEN)
		return;
	bit_set(accusers_of(m, rank), from);
	if (who->asked)
		return;
	who->asked = true;
	who->answer_by = m->ask_at = 0;
	set_add(&g->timed, place_of(g, m));
	owe_member(g, m, rank, OWES_GO);
}

/* Owe HERE to rank 0, which wants to know whether this member is one still. */
static void
says_here(struct groups *g, struct membership *m)
{
	m->owes |= OWES_HERE;
	owe(g, m);
}

/* Note, at rank 0, that the member has said that it is one still. Those that could not reach it
 * have gone instead. */
static void
is_here(struct groups *g, struct membership *m, uint16_t rank)
{
	uint64_t *accusers = accusers_of(m, rank);
	const uint32_t words = BITS_WORDS(m->count);

	if (!m->members[rank].asked)
		return;
	m->members[rank].asked = false;
	for (uint32_t r; (r = bit_next(accusers, words, 0)) != UINT32_MAX;) {
		bit_clear(accusers, r);
		declare_gone(g, m, (uint16_t)r, ECONNRESET);
	}
}

/* Declare, at rank 0, that those have gone that are asked and have not answered in time. Return
 * when to look again; UINT64_MAX: there are none. */
static uint64_t
look_at_accused(struct groups *g, struct membership *m, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (uint16_t r = 1; r < m->count; r++) {
		struct member *who = &m->members[r];

		if (!who->asked)
			continue;
		if (who->answer_by == 0)
			who->answer_by = now + ANSWERS_WITHIN * g->cfg.join_ticks;
		if (now >= who->answer_by)
			declare_gone(g, m, r, ECONNRESET);
		else if (who->answer_by < next)
			next = who->answer_by;
	}
	return next;
}

void
group_unreachable(struct groups *g, uint16_t ctx, uint32_t place, uint16_t rank)
{
	struct membership *m = group_at(g, ctx, place);

	if (m == NULL || rank >= m->count)
		return;
	group_lost(g, m, rank);
	group_settle(g, m);
}

/* Let a member go, at rank 0, that leaves or has given up to open the group. */
static void
leaves(struct groups *g, struct membership *m, uint16_t from, uint32_t part)
{
	struct member *who = &m->members[from];

	if (!who->gone)
		who->part = part;
	declare_gone(g, m, from, 0);
	if (m->fails || m->state == MEMBERSHIP_JOINS) {
		owe_member(g, m, from, OWES_LEFT);
		return;
	}
	if (!who->awaits_left && !(who->owes & OWES_LEFT)) {
		who->awaits_left = true;
		m->leavers++;
		look_at_leavers(g, m);
	}
}

/* Take the word of rank 0 that another member has gone, or that this one is a member no more. */
static void
hears_of(struct groups *g, struct membership *m, const struct wire_group *h)
{
	uint16_t rank = wire_be16(h->other);

	if (rank >= m->count) {
		count(g, GROUP_BAD_MESSAGES);
		return;
	}
	if (!m->members[rank].gone)
		m->members[rank].part = wire_be32(h->number);
	if (rank == m->rank || rank == 0)
		ends(g, m, rank == m->rank ? ECONNABORTED : ECONNRESET, rank);
	else
		member_gone(g, m, rank, (uint8_t)wire_be16(h->error));
}

static void
leave(struct groups *g, struct membership *m)
{
	switch (m->state) {
	case MEMBERSHIP_JOINS:
		open_fails(g, m, ECONNRESET, m->rank);
		m->tells = 0;
		/* fall through */
	case MEMBERSHIP_FAILED:
		if (m->rank == 0) { /* those that are there are told */
			m->state = MEMBERSHIP_LEAVES;
			group_settle(g, m);
			return;
		}
		m->owes = OWES_LEAVE;
		owe(g, m);
		if (m->refused) {
			group_drain(g, m);
			return;
		}
		/* it may be open for others, or become so; unless rank 0 is not there yet, which
		 * does not answer then */
		m->state = MEMBERSHIP_LEAVES;
		if (m->key == 0) {
			m->give_up = m->ask_at + GIVE_UP_LATER * g->cfg.join_ticks;
			m->ask_at = UINT64_MAX;
			set_add(&g->timed, place_of(g, m));
		}
		return;
	case MEMBERSHIP_OPEN:
		lock_leave(g, m);
		cast_over(g, m);
		set_remove(&g->timed, place_of(g, m));
		m->state = MEMBERSHIP_LEAVES;
		barrier_unsaid(g, m);
		if (m->rank == 0) {
			declare_gone(g, m, 0, 0);
			group_settle(g, m); /* there may be nobody to tell */
		} else {
			m->owes = OWES_LEAVE;
			owe(g, m);
		}
		return;
	default:
		group_drain(g, m);
	}
}

int
group_close(struct groups *g, uint16_t ctx, uint32_t place)
{
	struct membership *m = group_own(g, ctx, place);

	if (m == NULL || m->state == MEMBERSHIP_LEAVES || m->state == MEMBERSHIP_DRAINS)
		return -EINVAL;
	m->tells = 0;
	leave(g, m);
	return 0;
}

void
groups_leave(struct groups *g, uint16_t ctx)
{
	struct membership *m;

	OF_CONTEXT(g, ctx, m) {
		set_remove(&g->tell, place_of(g, m));
		m->silent = true;
		if (m->state == MEMBERSHIP_FREE)
			group_let_go(g, m);
		else if (m->state != MEMBERSHIP_LEAVES && m->state != MEMBERSHIP_DRAINS)
			leave(g, m);
	}
}

bool
groups_left(const struct groups *g, uint16_t ctx)
{
	const struct membership *m;

	OF_CONTEXT(g, ctx, m) {
		if (m->state != MEMBERSHIP_FREE)
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ messages */

/* Take the message of a member that has the group's key. */
static void
member_message(struct groups *g, struct membership *m, uint16_t rank, const struct wire_group *h)
{
	if (h->op == WIRE_G_GO && rank == 0 && m->state == MEMBERSHIP_JOINS)
		opened(g, m, MEMBERSHIP_OPEN, 0, NO_RANK);
	else if (h->op == WIRE_G_GO && rank == 0 && m->state == MEMBERSHIP_LEAVES)
		return;
	else if (h->op == WIRE_G_GO && rank == 0)
		says_here(g, m);
	else if (h->op == WIRE_G_HERE && m->rank == 0)
		is_here(g, m, rank);
	else if (h->op == WIRE_G_GONE && rank == 0)
		hears_of(g, m, h);
	else if (h->op == WIRE_G_SUSPECT && m->rank == 0)
		accuses(g, m, rank, wire_be16(h->other));
	else if (h->op == WIRE_G_ENTER || h->op == WIRE_G_DONE)
		barrier_message(g, m, rank, h);
	else if (h->op == WIRE_G_LEFT && rank == 0)
		return; /* it was told so before */
	else if (h->op == WIRE_G_ROUND || h->op == WIRE_G_GOT)
		cast_message(g, m, rank, h);
	else if (h->op >= WIRE_G_SUB && h->op < WIRE_G_ROUND)
		shared_message(g, m, rank, h);
	else if (h->op >= WIRE_G_LOCK && h->op < WIRE_G_SUB)
		lock_message(g, m, rank, h);
	else
		count(g, GROUP_BAD_MESSAGES);
}

void
groups_message(struct groups *g, uint16_t ctx, struct group_addr from, uint32_t life,
	const void *message, uint32_t len)
{
	struct wire_group h;

	if (wire_group_check(message, len) != WIRE_OK) {
		count(g, GROUP_BAD_MESSAGES);
		return;
	}
	memcpy(&h, message, sizeof(h));
	uint16_t rank = wire_be16(h.rank);
	struct membership *m = group_find(g, ctx, wire_be32(h.group));

	if (m == NULL || m->state <= MEMBERSHIP_LISTS || m->state >= MEMBERSHIP_DRAINS ||
		!is_of(m, rank, from)) {
		g->cfg.counters[GROUP_REFUSED] += h.op != WIRE_G_JOIN;
		return;
	}
	if (h.op == WIRE_G_JOIN && m->rank == 0) {
		m->members[rank].life = life;
		joins(g, m, rank, wire_be64(h.key));
		return;
	}
	if (h.op == WIRE_G_OPEN && rank == 0) {
		m->members[0].life = life;
		is_opened(g, m, &h);
		return;
	}
	/* who left before it had the key cannot tell whether this is the right one */
	if (h.op == WIRE_G_LEFT && rank == 0 && m->state == MEMBERSHIP_LEAVES &&
		(m->key == 0 || wire_be64(h.key) == m->key)) {
		group_drain(g, m);
		return;
	}
	if ((wire_be64(h.key) != m->key || m->key == 0) &&
		!(h.op == WIRE_G_LEAVE && wire_be64(h.key) == 0)) {
		count(g, GROUP_REFUSED);
		return;
	}
	if (h.op == WIRE_G_LEAVE && m->rank == 0 && rank != 0) {
		leaves(g, m, rank, wire_be32(h.number));
		return;
	}
	/* what it sent before it went does not matter any more, but for those for whom it spoke */
	if (m->members[rank].gone && h.op != WIRE_G_ENTER)
		return;
	if (m->state == MEMBERSHIP_OPEN || m->state == MEMBERSHIP_LEAVES ||
		m->state == MEMBERSHIP_JOINS)
		member_message(g, m, rank, &h);
}

/* Return whether a member has gone that was let in in life `life` of its node, if the node is in
 * life `now`; now 0: the node is dead. */
static bool
is_past(uint32_t life, uint32_t now)
{
	return now == 0 || (life != 0 && life != now);
}

void
groups_node_gone(struct groups *g, uint16_t node, uint32_t life)
{
	for (uint32_t i = 0; i < g->cfg.groups_max; i++) {
		struct membership *m = &g->memberships[i];
		/* others hear of the rest by rank 0 */
		const uint16_t looks_at = m->rank == 0 ? m->count : 1;

		for (uint16_t r = 0; m->state >= MEMBERSHIP_OPEN && m->state <= MEMBERSHIP_LEAVES &&
			r < looks_at;
			r++) {
			if (m->members[r].addr.node == node && is_past(m->members[r].life, life))
				group_lost(g, m, r);
		}
	}
}

/* ------------------------------------------------------------------ time */

void
groups_tick(struct groups *g, uint64_t now)
{
	for (uint32_t i = set_next(&g->timed, 0); i != UINT32_MAX; i = set_next(&g->timed, i + 1)) {
		struct membership *m = &g->memberships[i];
		uint16_t missing = 0;

		if (m->stopped)
			continue;
		if (m->state == MEMBERSHIP_OPEN) {
			m->ask_at = look_at_accused(g, m, now);
			if (m->ask_at == UINT64_MAX)
				set_remove(&g->timed, i);
			continue;
		}
		while (m->rank == 0 && missing + 1 < m->count && m->members[missing].joined)
			missing++;
		if (now >= m->give_up && m->state == MEMBERSHIP_LEAVES) {
			group_drain(g, m);
		} else if (now >= m->give_up) {
			open_fails(g, m, ETIMEDOUT, missing);
		} else if (now >= m->ask_at) {
			m->ask_at = now + g->cfg.join_ticks;
			if (m->key != 0)
				continue; /* it has been answered */
			m->owes |= OWES_JOIN;
			owe(g, m);
		}
	}
	casts_tick(g, now);
}

uint64_t
groups_deadline(const struct groups *g)
{
	uint64_t first = casts_deadline(g);

	for (uint32_t i = set_next(&g->timed, 0); i != UINT32_MAX; i = set_next(&g->timed, i + 1)) {
		const struct membership *m = &g->memberships[i];

		if (m->stopped)
			continue;
		if (m->state != MEMBERSHIP_OPEN)
			first = m->give_up < first ? m->give_up : first;
		first = m->ask_at < first ? m->ask_at : first;
	}
	return first;
}

/* ------------------------------------------------------------------ preemption */

void
groups_stop(struct groups *g, uint16_t ctx, uint64_t now)
{
	for (uint16_t i = g->first[ctx]; i != NO_PLACE; i = g->memberships[i].next) {
		struct membership *m = &g->memberships[i];

		if (m->stopped)
			continue;
		m->stopped = true;
		m->stopped_at = now;
		barrier_stops(g, m);
	}
}

/* Give those that are asked all of their time to answer again. */
static void
ask_anew(struct membership *m)
{
	m->ask_at = 0;
	for (uint16_t r = 1; r < m->count; r++)
		m->members[r].answer_by = 0;
}

void
groups_start(struct groups *g, uint16_t ctx, uint64_t now)
{
	for (uint16_t i = g->first[ctx]; i != NO_PLACE; i = g->memberships[i].next) {
		struct membership *m = &g->memberships[i];

		if (!m->stopped)
			continue;
		m->stopped = false;
		if (m->state == MEMBERSHIP_OPEN) {
			ask_anew(m);
		} else {
			m->ask_at += now - m->stopped_at;
			m->give_up += now - m->stopped_at;
		}
		barrier_starts(g, m);
		owe(g, m);
	}
}

bool
groups_are_settled(const struct groups *g, uint16_t ctx)
{
	for (uint16_t i = g->first[ctx]; i != NO_PLACE; i = g->memberships[i].next) {
		if (g->memberships[i].frames != 0)
			return false;
	}
	return true;
}

/* ------------------------------------------------------------------ results */

bool
groups_tells(const struct groups *g, uint32_t *at, uint16_t *ctx)
{
	uint32_t i = set_next(&g->tell, *at);

	if (i == UINT32_MAX)
		return false;
	*at = i + 1;
	*ctx = g->memberships[i].ctx;
	return true;
}

bool
groups_is_quiet(const struct groups *g)
{
	return g->used == 0;
}

/* Take the next result of a membership. false: there is none. */
static bool
next_result(struct groups *g, struct membership *m, struct group_result *out)
{
	uint32_t l;

	*out = (struct group_result){
		.place = (uint16_t)place_of(g, m),
		.user = m->user,
		.rank = NO_RANK,
	};
	if (m->tells & TELLS_CLOSED) {
		m->tells = 0;
		out->kind = GROUP_CLOSED;
		group_let_go(g, m);
		return true;
	}
	if (m->tells & TELLS_OPENED) {
		m->tells &= (uint8_t)~TELLS_OPENED;
		out->kind = GROUP_OPENED;
		out->error = m->error;
		out->rank = m->because;
		return true;
	}
	if (m->state != MEMBERSHIP_OPEN && m->state != MEMBERSHIP_ENDED)
		return false;
	if (m->gone_told < m->gone_count) {
		out->kind = GROUP_GONE;
		out->rank = m->gone[m->gone_told++];
		out->error = m->members[out->rank].why;
		return true;
	}
	if (m->tells & TELLS_BARRIER) {
		m->tells &= (uint8_t)~TELLS_BARRIER;
		m->in_barrier = false;
		out->kind = GROUP_BARRIER;
		out->number = m->barrier;
		out->error = m->own_error;
		out->rank = m->own_because;
		return true;
	}
	l = bit_next(m->locks_telling, BITS_WORDS(g->cfg.locks_max), 0);
	if (l != UINT32_MAX) {
		bit_clear(m->locks_telling, l);
		m->locks[l].tells = false;
		out->kind = GROUP_LOCKED;
		out->number = l;
		out->error = m->locks[l].error;
		out->rank = ended_because(m, l, out->error);
		return true;
	}
	if (shared_result(g, m, out) || cast_result(g, m, out))
		return true;
	if (m->tells & TELLS_ENDED) {
		m->tells &= (uint8_t)~TELLS_ENDED;
		out->kind = GROUP_ENDED;
		out->error = m->error;
		out->rank = m->because;
		return true;
	}
	return false;
}

bool
group_result(struct groups *g, uint16_t ctx, struct group_result *out)
{
	for (uint32_t i = set_next(&g->tell, 0); i != UINT32_MAX; i = set_next(&g->tell, i + 1)) {
		struct membership *m = &g->memberships[i];

		if (m->ctx != ctx)
			continue;
		if (next_result(g, m, out))
			return true;
		set_remove(&g->tell, i);
	}
	return false;
}

/* ------------------------------------------------------------------ for people */

uint32_t
groups_places(const struct groups *g)
{
	return g->cfg.groups_max;
}

bool
group_stat(const struct groups *g, uint32_t place, struct group_stat *out)
{
	static const char *const states[] = {"free", "opening", "opening", "open", "failed", "over",
		"leaving", "leaving"};
	const struct membership *m = &g->memberships[place];

	if (m->state == MEMBERSHIP_FREE)
		return false;
	*out = (struct group_stat){
		.id = m->id,
		.ctx = m->ctx,
		.rank = m->rank,
		.count = m->count,
		.gone = m->gone_count,
		.state = states[m->state],
		.barrier = m->barrier,
		.in_barrier = m->in_barrier,
	};
	for (uint32_t l = 0; l < g->cfg.locks_max; l++)
		out->held += m->locks[l].state == LOCK_HELD;
	return true;
}

uint32_t
group_queue(const struct groups *g, uint32_t place, uint32_t lock, uint16_t *ranks, uint32_t n)
{
	const struct membership *m = &g->memberships[place];
	uint32_t i = 0;

	if (m->state != MEMBERSHIP_OPEN || manager_of(m, lock) != m->rank)
		return 0;
	/* the lane may change it meanwhile, so it may even seem to be a circle */
	for (uint16_t r = m->queues[lock / m->count].head; r < m->count && i < m->count; i++) {
		if (i < n)
			ranks[i] = r;
		r = m->turns[index_of(m, lock, r)].next;
	}
	return i;
}

uint32_t
group_sharers(const struct groups *g, uint32_t place, uint32_t region, uint16_t *ranks, uint32_t n)
{
	const struct membership *m = &g->memberships[place];
	uint32_t found = 0;

	if (m->state != MEMBERSHIP_OPEN || manager_of(m, region) != m->rank)
		return 0;
	for (uint16_t rank = 0; rank < m->count; rank++) {
		if (!m->sharers[index_of(m, region, rank)].in)
			continue;
		if (found < n)
			ranks[found] = rank;
		found++;
	}
	return found;
}
