/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages of groups, made from what is owed when the core takes them.
 *
 * Design notes
 * 1. What is owed is forgotten when the core has the message. If the message fails, its receiver
 *    has gone for the group: nothing is sent twice but JOIN.
 * 2. LEAVE goes behind all messages about locks: those that it hands on must come first.
 */
#include "group/internal.h"

/* Return the lowest one of a set of bits. */
static inline uint8_t
lowest(uint8_t bits)
{
	return (uint8_t)(bits & -bits);
}

/* Set what all messages of the membership to that rank have. */
static void
frames_begin(const struct groups *g, const struct membership *m, struct group_frame *f, uint8_t op,
	uint16_t to)
{
	f->ctx = m->ctx;
	f->to = m->members[to].addr;
	f->membership = (uint16_t)place_of(g, m);
	f->rank = to;
	f->message = (struct wire_group){
		.op = op,
		.rank = wire_be16(m->rank),
		.group = wire_be32(m->id),
		.key = wire_be64(m->key),
	};
}

static bool
by_membership(const struct groups *g, const struct membership *m, struct group_frame *f)
{
	if (m->owes & OWES_JOIN) {
		frames_begin(g, m, f, WIRE_G_JOIN, 0);
		f->message.key = wire_be64(m->hash);
		f->what = OWES_JOIN;
	} else if (m->owes & OWES_ENTER) {
		frames_begin(g, m, f, WIRE_G_ENTER, 0);
		f->message.number = wire_be32(m->barrier);
		wire_group_set_wide(&f->message, m->company);
		if (m->enters_because != NO_RANK) {
			f->message.flags = WIRE_G_DEAD;
			f->message.other = wire_be16(m->enters_because);
		}
		f->what = OWES_ENTER;
	} else if (m->owes & OWES_HERE) {
		frames_begin(g, m, f, WIRE_G_HERE, 0);
		f->what = OWES_HERE;
	} else {
		frames_begin(g, m, f, WIRE_G_LEAVE, 0);
		f->message.number = wire_be32(m->part);
		f->what = OWES_LEAVE;
	}
	return true;
}

/* Write what is owed to a member, or about it. false: there is nobody to tell it any more, or
 * nothing to ask. */
static bool
by_member(const struct groups *g, const struct membership *m, struct group_frame *f)
{
	const uint16_t rank = (uint16_t)f->index;
	const struct member *who = &m->members[rank];

	f->what = lowest(who->owes);
	switch (f->what) {
	case OWES_OPEN:
		frames_begin(g, m, f, WIRE_G_OPEN, rank);
		f->message.error = wire_be16(m->fails ? m->error : 0);
		f->message.other = wire_be16(m->because);
		if (m->fails)
			f->message.key = 0;
		break;
	case OWES_GO:
		frames_begin(g, m, f, WIRE_G_GO, rank);
		break;
	case OWES_GONE:
		frames_begin(g, m, f, WIRE_G_GONE, rank);
		f->message.other = wire_be16(m->gone[who->told]);
		f->message.error = wire_be16(m->members[m->gone[who->told]].why);
		f->message.number = wire_be32(m->members[m->gone[who->told]].part);
		break;
	case OWES_DONE:
		frames_begin(g, m, f, WIRE_G_DONE, rank);
		f->message.number = wire_be32(m->barrier_done);
		f->message.error = wire_be16(m->barrier_error);
		f->message.other = wire_be16(m->barrier_because);
		wire_group_set_wide(&f->message, barrier_company(m, rank));
		break;
	case OWES_EXPEL:
		frames_begin(g, m, f, WIRE_G_GONE, rank);
		f->message.other = wire_be16(rank);
		break;
	case OWES_LEFT:
		frames_begin(g, m, f, WIRE_G_LEFT, rank);
		break;
	case OWES_SUSPECT:
		frames_begin(g, m, f, WIRE_G_SUSPECT, 0);
		f->message.other = wire_be16(rank);
		break;
	case OWES_ROUND: {
		const struct group_chunk *k = cast_awaits(m, rank);

		frames_begin(g, m, f, WIRE_G_ROUND, rank);
		if (k == NULL)
			return false;
		f->message.number = wire_be32(k->number);
		f->message.b = wire_be32(k->frames);
		break;
	}
	}
	return !who->gone || f->what & (OWES_EXPEL | OWES_LEFT);
}

static bool
by_lock(const struct groups *g, const struct membership *m, struct group_frame *f)
{
	const struct lock *k = &m->locks[f->index];
	const uint16_t manager = manager_of(m, f->index);

	f->what = lowest(k->owes);
	switch (f->what) {
	case OWES_HAND_ON:
		frames_begin(g, m, f, WIRE_G_GRANT, k->after);
		f->message.ticket = wire_be32(k->after_ticket);
		f->message.flags = k->hand_dead ? WIRE_G_DEAD : 0;
		break;
	case OWES_MOVED:
	case OWES_RELEASE:
		frames_begin(g, m, f, f->what == OWES_MOVED ? WIRE_G_MOVED : WIRE_G_RELEASE,
			manager);
		f->message.ticket = wire_be32(k->ended);
		f->message.flags = f->what == OWES_RELEASE && k->hand_dead ? WIRE_G_DEAD : 0;
		break;
	case OWES_LOCK:
	case OWES_WAITS:
		frames_begin(g, m, f, f->what == OWES_LOCK ? WIRE_G_LOCK : WIRE_G_WAITS, manager);
		f->message.ticket = wire_be32(k->ticket);
		f->message.flags = f->what == OWES_LOCK && k->tries ? WIRE_G_TRY : 0;
		break;
	}
	f->message.number = wire_be32(f->index);
	return !m->members[f->rank].gone;
}

static bool
by_turn(const struct groups *g, const struct membership *m, struct group_frame *f)
{
	static const uint8_t ops[] = {
		[OWES_GRANT] = WIRE_G_GRANT,
		[OWES_NEXT] = WIRE_G_NEXT,
		[OWES_BUSY] = WIRE_G_BUSY,
		[OWES_QUERY] = WIRE_G_QUERY,
	};
	const struct group_turn *t = &m->turns[f->index];
	const uint16_t rank = (uint16_t)(f->index % m->count);
	const uint32_t l = thing_at(m, f->index);

	f->what = lowest(t->owes);
	frames_begin(g, m, f, ops[f->what], rank);
	f->message.number = wire_be32(l);
	f->message.ticket = wire_be32(t->ticket);
	if (f->what == OWES_GRANT && t->flag)
		f->message.flags = WIRE_G_DEAD;
	if (f->what == OWES_NEXT) {
		f->message.other = wire_be16(t->next);
		f->message.b = wire_be32(m->turns[f->index - rank + t->next].ticket);
	}
	return !m->members[rank].gone;
}

static bool
by_share(const struct groups *g, const struct membership *m, struct group_frame *f)
{
	static const uint8_t ops[] = {
		[OWES_SUB] = WIRE_G_SUB,
		[OWES_UNSUB] = WIRE_G_UNSUB,
		[OWES_HELD] = WIRE_G_HELD,
		[OWES_COPIED] = WIRE_G_COPIED,
	};
	const struct group_share *s = &m->shares[f->index];

	f->what = lowest(s->owes);
	frames_begin(g, m, f, ops[f->what], manager_of(m, f->index));
	f->message.number = wire_be32(f->index);
	if (f->what == OWES_SUB) {
		wire_group_set_wide(&f->message, s->len);
		f->message.flags = s->notify ? WIRE_G_TELL : 0;
	} else if (f->what == OWES_HELD) {
		f->message.ticket = wire_be32(s->ticket);
	} else if (f->what == OWES_COPIED) {
		f->message.error = wire_be16(s->error);
	}
	return !m->members[f->rank].gone;
}

static bool
by_sharer(const struct groups *g, const struct membership *m, struct group_frame *f)
{
	static const uint8_t ops[] = {
		[OWES_REFUSED] = WIRE_G_CHANGED,
		[OWES_HOLD] = WIRE_G_HOLD,
		[OWES_SHARERS] = WIRE_G_SHARERS,
		[OWES_COPY] = WIRE_G_COPY,
		[OWES_CHANGED] = WIRE_G_CHANGED,
	};
	const struct sharer *s = &m->sharers[f->index];
	const struct share_home *h = &m->homes[f->index / m->count];
	const uint16_t rank = (uint16_t)(f->index % m->count);
	const uint32_t r = thing_at(m, f->index);

	f->what = lowest(s->owes);
	frames_begin(g, m, f, ops[f->what], rank);
	f->message.number = wire_be32(r);
	switch (f->what) {
	case OWES_REFUSED:
		f->message.other = wire_be16(rank);
		f->message.error = wire_be16(s->error);
		break;
	case OWES_HOLD:
		f->message.ticket = wire_be32(h->ticket);
		break;
	case OWES_SHARERS:
		f->message.ticket = wire_be32(h->word);
		f->message.b = wire_be32(shared_word(m, r));
		break;
	case OWES_CHANGED:
		f->message.other = wire_be16(h->subject);
		f->message.error = wire_be16(h->error);
		f->message.flags = m->sharers[f->index - rank + h->subject].in ? WIRE_G_IN : 0;
		break;
	}
	return !m->members[rank].gone;
}

static bool
by_mark(const struct groups *g, const struct membership *m, struct group_frame *f)
{
	const struct mark *k = &g->marks[f->index];
	const uint64_t lacks = ~k->got & chunk_bits(k->frames);

	frames_begin(g, m, f, WIRE_G_GOT, k->rank);
	f->what = OWES_GOT;
	f->message.number = wire_be32(k->number);
	wire_group_set_wide(&f->message, lacks);
	return !m->members[k->rank].gone;
}

/* Return the bits of what is owed, of which the frame's message is one, and in *set the set of
 * their table; NULL: they are the membership's own. */
static uint8_t *
owed(struct groups *g, const struct group_frame *f, uint64_t **set)
{
	struct membership *m = &g->memberships[f->membership];

	switch (f->table) {
	case BY_MEMBER:
		*set = m->owing;
		return &m->members[f->index].owes;
	case BY_LOCK:
		*set = m->locks_owing;
		return &m->locks[f->index].owes;
	case BY_TURN:
		*set = m->turns_owing;
		return &m->turns[f->index].owes;
	case BY_SHARE:
		*set = m->shares_owing;
		return &m->shares[f->index].owes;
	case BY_SHARER:
		*set = m->sharers_owing;
		return &m->sharers[f->index].owes;
	case BY_MARK:
		*set = m->marks_owing;
		return &g->marks[f->index].owes;
	default:
		*set = NULL;
		return &m->owes;
	}
}

/* Note that the frame's message is owed no more. */
static void
forget(struct groups *g, const struct group_frame *f)
{
	uint64_t *set;
	uint8_t *bits = owed(g, f, &set);

	if (f->table == BY_MEMBER && f->what == OWES_DONE)
		barrier_told(g, &g->memberships[f->membership], f);
	else if (f->table == BY_SHARER && f->what == OWES_SHARERS)
		shared_word_told(&g->memberships[f->membership], f->index);
	else if (f->table == BY_SHARER && f->what == OWES_CHANGED)
		shared_told(g, &g->memberships[f->membership], f->index);
	else if (f->table == BY_MARK)
		cast_answered(g, &g->memberships[f->membership], (uint16_t)f->index);
	else
		*bits &= (uint8_t)~f->what;
	if (set != NULL && *bits == 0)
		bit_clear(set, f->index);
}

/* Find the first thing of the frame's table that owes something. false: there is none. */
static bool
first_owing(const struct groups *g, struct membership *m, struct group_frame *f)
{
	uint64_t *set = m->owing;
	const uint8_t *owes = &m->members->owes;
	size_t each = sizeof(*m->members);
	uint32_t count = m->count;

	switch (f->table) {
	case BY_LOCK:
		set = m->locks_owing;
		owes = &m->locks->owes;
		each = sizeof(*m->locks);
		count = g->cfg.locks_max;
		break;
	case BY_TURN:
		set = m->turns_owing;
		owes = &m->turns->owes;
		each = sizeof(*m->turns);
		count = places_of(m, g->cfg.locks_max);
		break;
	case BY_SHARE:
		set = m->shares_owing;
		owes = &m->shares->owes;
		each = sizeof(*m->shares);
		count = g->cfg.regions_max;
		break;
	case BY_SHARER:
		set = m->sharers_owing;
		owes = &m->sharers->owes;
		each = sizeof(*m->sharers);
		count = places_of(m, g->cfg.regions_max);
		break;
	case BY_MARK:
		set = m->marks_owing;
		owes = &g->marks->owes;
		each = sizeof(*g->marks);
		count = MARKS;
		break;
	default:
		break;
	}
	while ((f->index = bit_next(set, BITS_WORDS(count), 0)) != UINT32_MAX) {
		if (owes[f->index * each] != 0)
			return true;
		bit_clear(set, f->index); /* nothing any more */
	}
	return false;
}

/* Choose what is next, and note its table and index in the frame. false: nothing is owed. */
static bool
choose(const struct groups *g, struct membership *m, struct group_frame *f)
{
	f->membership = (uint16_t)place_of(g, m);
	if (!(m->owes & (OWES_JOIN | OWES_ENTER))) {
		while (m->owed_by != 0) {
			f->table = (uint8_t)__builtin_ctz(m->owed_by);
			if (first_owing(g, m, f))
				return true;
			m->owed_by &= (uint8_t)(m->owed_by - 1);
		}
	}
	f->table = BY_MEMBERSHIP;
	f->index = 0;
	return m->owes != 0;
}

/* Write the next message of the membership. false: there is none. */
static bool
group_frames_make(struct groups *g, struct membership *m, struct group_frame *f)
{
	static bool (*const by[])(const struct groups *, const struct membership *,
		struct group_frame *) = {
		[BY_MEMBERSHIP] = by_membership,
		[BY_MEMBER] = by_member,
		[BY_LOCK] = by_lock,
		[BY_TURN] = by_turn,
		[BY_SHARE] = by_share,
		[BY_SHARER] = by_sharer,
		[BY_MARK] = by_mark,
	};

	while (choose(g, m, f)) {
		if (by[f->table](g, m, f))
			return true;
		forget(g, f); /* its receiver has gone */
	}
	return false;
}

struct group_frame *
groups_tx(struct groups *g)
{
	struct group_frame *f = g->free;
	uint32_t i;

	while (f != NULL) {
		i = set_next(&g->work, g->cursor);
		if (i == UINT32_MAX && g->cursor != 0)
			i = set_next(&g->work, 0);
		if (i == UINT32_MAX)
			return NULL;
		struct membership *m = &g->memberships[i];

		if (likely(!m->stopped) && group_frames_make(g, m, f)) {
			g->free = f->next;
			g->cursor = i + 1 < g->cfg.groups_max ? i + 1 : 0;
			return f;
		}
		set_remove(&g->work, i); /* groups_start() looks at what a stopped one owes */
		group_settle(g, m);
	}
	return NULL;
}

static void
put_back(struct groups *g, struct group_frame *f)
{
	f->next = g->free;
	g->free = f;
}

void
groups_sent(struct groups *g, struct group_frame *f, uint8_t error)
{
	struct membership *m = &g->memberships[f->membership];

	if (error == EAGAIN) {
		put_back(g, f);
		return;
	}
	m->frames++;
	forget(g, f);
	if (f->table == BY_MEMBER && f->what == OWES_GONE)
		m->members[f->index].telling = true;
	if (error != 0)
		groups_acked(g, f, error);
}

void
groups_acked(struct groups *g, struct group_frame *f, uint8_t error)
{
	struct membership *m = &g->memberships[f->membership];
	const uint16_t to = f->rank;
	const uint8_t op = f->message.op;

	m->frames--;
	if (error != 0 && op == WIRE_G_ENTER)
		barrier_enter_failed(g, m, &f->message);
	if (error != 0 && op == WIRE_G_LEAVE && m->state == MEMBERSHIP_LEAVES)
		group_drain(g, m); /* rank 0 is not there any more */
	else if (error != 0 && op != WIRE_G_JOIN)
		group_lost(g, m, to);
	else if (error == 0 && op == WIRE_G_OPEN)
		group_keyed(g, m);
	else if (op == WIRE_G_GONE && m->rank == 0 && !m->members[to].gone)
		group_told(g, m, to);
	if (op == WIRE_G_DONE)
		barrier_heard(g, m, f);
	put_back(g, f);
	group_settle(g, m);
}
