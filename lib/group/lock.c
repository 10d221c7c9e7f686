/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Locks (RHI-LOCK): each has a manager, which keeps the queue of turns; a turn is handed on by the
 * member whose turn ends, to the next one, in one message that does not pass the manager.
 *
 *     r -> M   LOCK(ticket)        M: nobody there -> GRANT to r; otherwise NEXT(r) to the last one
 *     t        NEXT: the turn still is -> kept; it has ended -> GRANT to r at once
 *     unlock   next known -> GRANT to it, MOVED to M; otherwise RELEASE to M
 *     M        MOVED, RELEASE: that turn and those before it are over
 *
 * Design notes
 * 1. A ticket is a random number that a member draws for each of its turns. GRANT and NEXT name the
 *    turn that they are for, so one that comes late, or twice, is recognised; and only who has to
 *    grant a turn is told its ticket, so no other member can.
 * 2. The manager has all of the queue, so it can join what a dead member left open. One that died
 *    in the queue's midst stays in it until the turn before it has ended. If the head is dead, or
 *    who was to hand the lock to it, the manager asks the first living one whether it waits (what
 *    the dead one has handed on was sent by another way, and may come or not), and grants it the
 *    lock if so. Then two GRANTs of the same turn may come; the second one changes nothing.
 * 3. Who dies while it holds the lock hands it on by its engine, with the flag DEAD. The flag may
 *    also be set where nobody held it: that is on the safe side.
 */
#include "group/internal.h"
#include "core/wire/siphash.h"

/* ------------------------------------------------------------------ the manager */

static struct queue *
queue_of(const struct membership *m, uint32_t l)
{
	return &m->queues[l / m->count];
}

static struct group_turn *
turn_of(const struct membership *m, uint32_t l, uint16_t rank)
{
	return &m->turns[index_of(m, l, rank)];
}

static void
owe_turn(struct groups *g, struct membership *m, uint32_t l, uint16_t rank, uint8_t what)
{
	const uint32_t i = index_of(m, l, rank);

	m->turns[i].owes |= what;
	owe_by(g, m, BY_TURN, m->turns_owing, i);
}

/* Take the head, whose turn is over, from the queue. Return whether it was not told yet who comes
 * behind it: NEXT was not sent. */
static bool
pop(struct membership *m, uint32_t l)
{
	struct queue *q = queue_of(m, l);
	struct group_turn *t = turn_of(m, l, q->head);
	bool untold = t->owes & OWES_NEXT;

	q->head = t->next;
	if (q->head == NO_RANK)
		q->tail = NO_RANK;
	t->queued = t->dead = false;
	t->owes = 0;
	return untold;
}

/* Give the lock, which the manager has, to the first one in the queue that lives. */
static void
give(struct groups *g, struct membership *m, uint32_t l)
{
	struct queue *q = queue_of(m, l);

	while (q->head != NO_RANK && turn_of(m, l, q->head)->dead)
		pop(m, l);
	if (q->head == NO_RANK)
		return;
	turn_of(m, l, q->head)->flag = q->dead;
	q->dead = false;
	q->giver = NO_RANK;
	owe_turn(g, m, l, q->head, OWES_GRANT);
}

/* Ask the head whether it waits for the lock still. If the queue is empty, the next one is told
 * that a member may have died while it held the lock. */
static void
ask_head(struct groups *g, struct membership *m, uint32_t l)
{
	struct queue *q = queue_of(m, l);

	q->giver = NO_RANK;
	if (q->head != NO_RANK)
		owe_turn(g, m, l, q->head, OWES_QUERY);
	else
		q->dead = true;
}

/* Drop the dead at the head of the queue, and ask the next one if there were any. */
static void
recover(struct groups *g, struct membership *m, uint32_t l)
{
	struct queue *q = queue_of(m, l);
	bool dead = false;

	while (q->head != NO_RANK && turn_of(m, l, q->head)->dead) {
		dead = true;
		pop(m, l);
	}
	if (dead)
		ask_head(g, m, l);
}

static void
asked_for(struct groups *g, struct membership *m, uint16_t from, uint32_t l, uint32_t ticket,
	bool tries)
{
	struct queue *q = queue_of(m, l);
	struct group_turn *t = turn_of(m, l, from);

	if (t->queued) {
		count(g, GROUP_BAD_MESSAGES);
		return;
	}
	*t = (struct group_turn){.ticket = ticket, .next = NO_RANK};
	if (tries && q->head != NO_RANK) {
		owe_turn(g, m, l, from, OWES_BUSY);
		return;
	}
	t->queued = true;
	if (q->head == NO_RANK) {
		q->head = q->tail = from;
		give(g, m, l);
		return;
	}
	struct group_turn *before = turn_of(m, l, q->tail);

	before->next = from;
	if (!before->dead)
		owe_turn(g, m, l, q->tail, OWES_NEXT);
	q->tail = from;
}

/* End the turn of a member, and those before it. handed_on: the one behind it has the lock, or gets
 * it from that member. */
static void
turn_ended(struct groups *g, struct membership *m, uint16_t from, uint32_t l, uint32_t ticket,
	bool handed_on, bool dead)
{
	struct queue *q = queue_of(m, l);
	const struct group_turn *t = turn_of(m, l, from);
	bool untold = false, last;

	if (!t->queued || t->ticket != ticket)
		return; /* it was over already */
	/* those before it are over as well */
	do {
		last = q->head == from;
		untold = pop(m, l);
	} while (!last);
	q->giver = q->head != NO_RANK ? from : NO_RANK;
	if (handed_on) {
		recover(g, m, l);
		return;
	}
	if (!untold && q->head != NO_RANK) {
		/* it hands the lock on when it hears who comes next, with its own flag */
		recover(g, m, l);
		return;
	}
	q->dead |= dead;
	give(g, m, l);
}

/* ------------------------------------------------------------------ who asks */

static void
lock_tells(struct groups *g, struct membership *m, uint32_t l, uint8_t error)
{
	m->locks[l].tells = true;
	m->locks[l].error = error;
	bit_set(m->locks_telling, l);
	tell(g, m);
}

static bool
manager_is_gone(const struct membership *m, uint32_t l)
{
	return m->members[manager_of(m, l)].gone;
}

static uint32_t
draw_ticket(struct groups *g)
{
	const uint64_t drawn = g->tickets++;

	return (uint32_t)siphash(g->cfg.key, &drawn, 1) | 1;
}

int
group_lock(struct groups *g, uint16_t ctx, uint32_t place, uint32_t lock, bool tries)
{
	struct membership *m = group_at(g, ctx, place);

	if (m == NULL || lock >= g->cfg.locks_max)
		return -EINVAL;
	struct lock *k = &m->locks[lock];

	if (k->state != LOCK_FREE || k->tells)
		return -EDEADLK;
	if (m->state == MEMBERSHIP_ENDED || manager_is_gone(m, lock)) {
		lock_tells(g, m, lock, m->state == MEMBERSHIP_ENDED ? ECONNRESET : EHOSTDOWN);
		return 0;
	}
	k->state = LOCK_ASKS;
	k->tries = tries;
	k->ticket = draw_ticket(g);
	k->next_known = false;
	owe_lock(g, m, lock, OWES_LOCK);
	return 0;
}

/* Hand the lock on to the one that comes behind, or back to the manager. */
static void
hand_on(struct groups *g, struct membership *m, uint32_t l, bool dead)
{
	struct lock *k = &m->locks[l];

	k->state = LOCK_FREE;
	k->ended = k->ticket;
	k->hand_dead = dead;
	if (!k->next_known) {
		owe_lock(g, m, l, OWES_RELEASE);
		return;
	}
	k->next_known = false;
	k->after = k->next;
	k->after_ticket = k->next_ticket;
	/* if that one has gone, the manager looks after it */
	owe_lock(g, m, l, m->members[k->after].gone ? OWES_MOVED : OWES_HAND_ON | OWES_MOVED);
}

int
group_unlock(struct groups *g, uint16_t ctx, uint32_t place, uint32_t lock)
{
	struct membership *m = group_at(g, ctx, place);

	if (m == NULL || lock >= g->cfg.locks_max)
		return -EINVAL;
	struct lock *k = &m->locks[lock];

	if (k->state != LOCK_HELD || k->tells)
		return -EPERM;
	if (m->state == MEMBERSHIP_ENDED || manager_is_gone(m, lock)) {
		k->state = LOCK_FREE;
		return -EHOSTDOWN;
	}
	hand_on(g, m, lock, false);
	return 0;
}

static void
granted(struct groups *g, struct membership *m, uint32_t l, uint32_t ticket, bool dead)
{
	struct lock *k = &m->locks[l];

	if (k->state != LOCK_ASKS || k->ticket != ticket)
		return; /* again, or too late */
	k->state = LOCK_HELD;
	k->owes &= (uint8_t)~OWES_WAITS;
	lock_tells(g, m, l, dead ? EOWNERDEAD : 0);
}

static void
next_is(struct groups *g, struct membership *m, uint32_t l, const struct wire_group *h)
{
	struct lock *k = &m->locks[l];
	uint32_t ticket = wire_be32(h->ticket);
	uint16_t next = wire_be16(h->other);

	if (next >= m->count) {
		count(g, GROUP_BAD_MESSAGES);
	} else if (ticket == k->ticket && k->state != LOCK_FREE) {
		k->next_known = true;
		k->next = next;
		k->next_ticket = wire_be32(h->b);
	} else if (ticket != k->ended) {
		count(g, GROUP_BAD_MESSAGES);
	} else if (!m->members[next].gone) {
		/* that turn has ended, and the manager left it to this member to hand it on */
		k->after = next;
		k->after_ticket = wire_be32(h->b);
		owe_lock(g, m, l, OWES_HAND_ON);
	}
}

/* ------------------------------------------------------------------ messages */

static bool
is_to_manager(uint8_t op)
{
	return op == WIRE_G_LOCK || op == WIRE_G_MOVED || op == WIRE_G_RELEASE ||
		op == WIRE_G_WAITS;
}

void
lock_message(struct groups *g, struct membership *m, uint16_t from, const struct wire_group *h)
{
	uint32_t l = wire_be32(h->number), ticket = wire_be32(h->ticket);
	uint16_t manager = l < g->cfg.locks_max ? manager_of(m, l) : NO_RANK;

	if (manager == NO_RANK ||
		(is_to_manager(h->op) ? manager != m->rank
				      : h->op != WIRE_G_GRANT && manager != from)) {
		count(g, GROUP_BAD_MESSAGES);
		return;
	}
	struct lock *k = &m->locks[l];

	switch (h->op) {
	case WIRE_G_LOCK:
		asked_for(g, m, from, l, ticket, h->flags & WIRE_G_TRY);
		break;
	case WIRE_G_MOVED:
	case WIRE_G_RELEASE:
		turn_ended(g, m, from, l, ticket, h->op == WIRE_G_MOVED, h->flags & WIRE_G_DEAD);
		break;
	case WIRE_G_WAITS:
		if (queue_of(m, l)->head == from && turn_of(m, l, from)->ticket == ticket) {
			queue_of(m, l)->dead = true; /* one that died may have held it */
			give(g, m, l);
		}
		break;
	case WIRE_G_BUSY:
		if (k->state == LOCK_ASKS && k->ticket == ticket && k->tries) {
			k->state = LOCK_FREE;
			lock_tells(g, m, l, EBUSY);
		}
		break;
	case WIRE_G_GRANT:
		granted(g, m, l, ticket, h->flags & WIRE_G_DEAD);
		break;
	case WIRE_G_NEXT:
		next_is(g, m, l, h);
		break;
	case WIRE_G_QUERY:
		if (k->state == LOCK_ASKS && k->ticket == ticket)
			owe_lock(g, m, l, OWES_WAITS);
		break;
	}
}

/* ------------------------------------------------------------------ who dies */

void
lock_member_gone(struct groups *g, struct membership *m, uint16_t rank)
{
	for (uint32_t l = 0; l < g->cfg.locks_max; l++) {
		struct lock *k = &m->locks[l];

		if (k->owes & OWES_HAND_ON && k->after == rank)
			k->owes &= (uint8_t)~OWES_HAND_ON;
		if (manager_of(m, l) == rank) {
			k->owes = 0;
			if (k->state == LOCK_ASKS) {
				k->state = LOCK_FREE;
				lock_tells(g, m, l, EHOSTDOWN);
			}
		}
		if (manager_of(m, l) != m->rank)
			continue;
		struct group_turn *t = turn_of(m, l, rank);

		t->owes = 0;
		t->dead = t->queued;
		if (t->dead)
			recover(g, m, l);
		/* it may have come to wait again since */
		if (queue_of(m, l)->giver == rank)
			ask_head(g, m, l);
	}
}

void
lock_leave(struct groups *g, struct membership *m)
{
	for (uint32_t l = 0; l < g->cfg.locks_max; l++) {
		struct lock *k = &m->locks[l];

		if (k->state == LOCK_HELD && !manager_is_gone(m, l))
			hand_on(g, m, l, true);
		k->state = LOCK_FREE;
		k->owes &= (uint8_t) ~(OWES_LOCK | OWES_WAITS);
	}
}

void
lock_group_ended(struct groups *g, struct membership *m)
{
	for (uint32_t l = 0; l < g->cfg.locks_max; l++) {
		struct lock *k = &m->locks[l];

		k->owes = 0;
		if (k->state != LOCK_ASKS)
			continue;
		k->state = LOCK_FREE;
		lock_tells(g, m, l, ECONNRESET);
	}
}
