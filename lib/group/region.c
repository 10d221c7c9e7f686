/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Shared regions (RHI-SUB; RHiNET, 1999, section 2.9): memory of which each sharer has a copy, and
 * of which each sharer knows who else has one. The home of region r is rank r modulo the number of
 * members. It is asked by whoever wants to share the region, or to share it no more.
 *
 *     n -> home         SUB
 *     home -> sharers   HOLD(ticket)     they begin no more updates
 *     sharer -> home    HELD(ticket)     those that they began have ended
 *     home -> n         SHARERS, COPY    when all have said HELD
 *     n -> home         COPIED           when n has pulled the region from the home
 *     home -> all, n    CHANGED(n)       updates go on, and go to n too
 *
 * Design notes
 * 1. The paper lets updates go on while a newcomer gets its data, and has those that overtake them
 *    refused and sent again. Here updates wait meanwhile. They would end no earlier otherwise,
 *    since an update ends when all have it, the newcomer too; and nothing can overtake the data.
 * 2. An update is the client's: a multicast to those that share the region when it is granted. This
 *    library counts those under way, and the directory changes only when there are none.
 * 3. The home does one thing at a time, and begins the next one when all have been sent the CHANGED
 *    of the last one. So one subject and one error are all there is to tell. HELD names its HOLD
 *    since a subject that goes ends what it asked for before all have answered.
 * 4. The home may share its region, and is the first one to do so, as its bytes are those that all
 *    begin with. If it ends, no more updates begin; the copies stay.
 */
#include "group/internal.h"

#define UNDER_WAY_MAX 255 /* updates of a region by one member */

/* ------------------------------------------------------------------ the home */

static struct share_home *
home_here(const struct membership *m, uint32_t r)
{
	return &m->homes[r / m->count];
}

static struct sharer *
sharer_of(const struct membership *m, uint32_t r, uint16_t rank)
{
	return &m->sharers[index_of(m, r, rank)];
}

static void
owe_sharer(struct groups *g, struct membership *m, uint32_t r, uint16_t rank, uint8_t what)
{
	const uint32_t i = index_of(m, r, rank);

	m->sharers[i].owes |= what;
	owe_by(g, m, BY_SHARER, m->sharers_owing, i);
}

uint32_t
shared_word(const struct membership *m, uint32_t r)
{
	const uint32_t word = home_here(m, r)->word;
	uint32_t bits = 0;

	for (uint32_t i = 0; i < 32 && word * 32 + i < m->count; i++)
		bits |= (uint32_t)sharer_of(m, r, (uint16_t)(word * 32 + i))->in << i;
	return bits;
}

static void
share_tells(struct groups *g, struct membership *m, uint32_t r, uint8_t what)
{
	m->shares[r].tells |= what;
	bit_set(m->shares_telling, r);
	tell(g, m);
}

static void begin_next(struct groups *g, struct membership *m, uint32_t r);

/* End what the subject asked for, which has been done, or cannot be: all that wait go on. */
static void
region_finish(struct groups *g, struct membership *m, uint32_t r, bool in, uint8_t error)
{
	struct share_home *h = home_here(m, r);
	struct sharer *subject = sharer_of(m, r, h->subject);

	h->phase = SHARE_QUIET;
	h->error = error;
	for (uint16_t rank = 0; rank < m->count; rank++) {
		struct sharer *s = sharer_of(m, r, rank);

		s->awaited = false;
		if ((s->in || rank == h->subject) && !m->members[rank].gone) {
			owe_sharer(g, m, r, rank, OWES_CHANGED);
			h->untold++;
		}
	}
	subject->in = in;
	if (in && subject->notifies && !subject->came) {
		subject->came = true;
		h->came++;
		share_tells(g, m, r, 0);
	}
	if (subject->wants != WANTS_NOTHING) {
		subject->wants = WANTS_NOTHING;
		h->wanting--;
	}
	if (h->untold == 0)
		begin_next(g, m, r);
}

/* Go on with what the subject asked for, as no update is under way anywhere. */
static void
all_held(struct groups *g, struct membership *m, uint32_t r)
{
	struct share_home *h = home_here(m, r);

	if (sharer_of(m, r, h->subject)->wants == WANTS_OUT) {
		region_finish(g, m, r, false, 0);
	} else if (h->subject == m->rank) {
		h->len = sharer_of(m, r, m->rank)->len;
		region_finish(g, m, r, true, 0);
	} else {
		h->phase = SHARE_COPIES;
		h->word = 0;
		owe_sharer(g, m, r, h->subject, OWES_SHARERS | OWES_COPY);
	}
}

/* Return whether the home can do now what that member wants. */
static bool
can_begin(const struct membership *m, uint32_t r, uint16_t rank)
{
	const uint8_t wants = sharer_of(m, r, rank)->wants;

	return wants == WANTS_OUT ||
		(wants == WANTS_IN && (rank == m->rank || sharer_of(m, r, m->rank)->in));
}

/* Answer a member with an error, and change nothing. */
static void
refuse(struct groups *g, struct membership *m, uint32_t r, uint16_t rank, uint8_t error)
{
	struct sharer *s = sharer_of(m, r, rank);

	s->wants = WANTS_NOTHING;
	s->error = error;
	home_here(m, r)->wanting--;
	owe_sharer(g, m, r, rank, OWES_REFUSED);
}

/* Return whether others than the home share its region. */
static bool
has_others(const struct membership *m, uint32_t r)
{
	for (uint16_t rank = 0; rank < m->count; rank++) {
		if (rank != m->rank && sharer_of(m, r, rank)->in)
			return true;
	}
	return false;
}

/* Begin what the next member wants, if there is one whose wish can be met. All get their turn. */
static void
begin_next(struct groups *g, struct membership *m, uint32_t r)
{
	struct share_home *h = home_here(m, r);

	for (uint16_t i = 0; i < m->count && h->wanting > 0; i++) {
		const uint16_t rank = (uint16_t)((h->subject + 1u + i) % m->count);
		const struct sharer *s = sharer_of(m, r, rank);

		if (!can_begin(m, r, rank))
			continue;
		if (s->wants == WANTS_OUT && rank == m->rank && has_others(m, r)) {
			refuse(g, m, r, rank, EBUSY);
			continue;
		}
		if (s->wants == WANTS_IN && rank != m->rank && s->len != h->len) {
			refuse(g, m, r, rank, EPROTO);
			continue;
		}
		h->phase = SHARE_HOLDS;
		h->subject = rank;
		h->ticket++;
		h->awaited = 0;
		for (uint16_t other = 0; other < m->count; other++) {
			if (!sharer_of(m, r, other)->in)
				continue;
			sharer_of(m, r, other)->awaited = true;
			h->awaited++;
			owe_sharer(g, m, r, other, OWES_HOLD);
		}
		if (h->awaited == 0)
			all_held(g, m, r);
		return;
	}
}

static void
look_for_next(struct groups *g, struct membership *m, uint32_t r)
{
	const struct share_home *h = home_here(m, r);

	if (h->phase == SHARE_QUIET && h->untold == 0)
		begin_next(g, m, r);
}

static void
wants(struct groups *g, struct membership *m, uint16_t from, uint32_t r, uint8_t what, uint64_t len,
	bool notify)
{
	struct sharer *s = sharer_of(m, r, from);

	if (s->wants != WANTS_NOTHING || s->in != (what == WANTS_OUT)) {
		count(g, GROUP_BAD_MESSAGES);
		return;
	}
	s->wants = what;
	s->notifies = notify;
	s->len = len;
	home_here(m, r)->wanting++;
	look_for_next(g, m, r);
}

/* Note that a sharer has no update under way, or has gone. */
static void
is_held(struct groups *g, struct membership *m, uint32_t r, uint16_t rank)
{
	struct share_home *h = home_here(m, r);
	struct sharer *s = sharer_of(m, r, rank);

	if (h->phase != SHARE_HOLDS || !s->awaited)
		return;
	s->awaited = false;
	h->awaited--;
	if (h->awaited == 0)
		all_held(g, m, r);
}

static void
copied(struct groups *g, struct membership *m, uint16_t from, uint32_t r, uint8_t error)
{
	struct share_home *h = home_here(m, r);

	if (h->phase == SHARE_COPIES && from == h->subject)
		region_finish(g, m, r, error == 0, error);
	else
		count(g, GROUP_BAD_MESSAGES);
}

void
shared_told(struct groups *g, struct membership *m, uint32_t index)
{
	const uint32_t r = thing_at(m, index);
	struct sharer *s = &m->sharers[index];

	if (!(s->owes & OWES_CHANGED))
		return;
	s->owes &= (uint8_t)~OWES_CHANGED;
	home_here(m, r)->untold--;
	look_for_next(g, m, r);
}

void
shared_word_told(struct membership *m, uint32_t index)
{
	struct share_home *h = &m->homes[index / m->count];

	if (++h->word == m->words)
		m->sharers[index].owes &= (uint8_t)~OWES_SHARERS;
}

/* Go on, at the home, without a member that has gone. */
static void
sharer_gone(struct groups *g, struct membership *m, uint32_t r, uint16_t rank)
{
	struct share_home *h = home_here(m, r);
	struct sharer *s = sharer_of(m, r, rank);

	s->in = false;
	shared_told(g, m, index_of(m, r, rank));
	s->owes = 0;
	if (h->phase != SHARE_QUIET && h->subject == rank) {
		region_finish(g, m, r, false, ECONNRESET);
		return;
	}
	if (s->wants != WANTS_NOTHING) {
		s->wants = WANTS_NOTHING;
		h->wanting--;
	}
	is_held(g, m, r, rank);
	look_for_next(g, m, r);
}

/* ------------------------------------------------------------------ a sharer */

static void
owe_share(struct groups *g, struct membership *m, uint32_t r, uint8_t what)
{
	m->shares[r].owes |= what;
	owe_by(g, m, BY_SHARE, m->shares_owing, r);
}

static uint32_t *
directory_of(const struct membership *m, uint32_t r)
{
	return &m->directories[r * m->words];
}

static void
directory_set(struct membership *m, uint32_t r, uint16_t rank, bool in)
{
	uint32_t *word = &directory_of(m, r)[rank / 32];
	const uint32_t before = *word, bit = 1u << rank % 32;

	*word = in && !m->members[rank].gone ? before | bit : before & ~bit;
	if (*word != before)
		m->shares[r].dirty |= 1u << rank / 32;
}

/* Return why a request about the region ends, as an errno: the group has ended, or the home has
 * gone. 0: it does not end. */
static uint8_t
why_over(const struct membership *m, uint32_t r)
{
	return m->state == MEMBERSHIP_ENDED         ? ECONNRESET
		: m->members[manager_of(m, r)].gone ? EHOSTDOWN
						    : 0;
}

int
group_subscribe(struct groups *g, uint16_t ctx, uint32_t place, uint32_t region, uint64_t len,
	bool notify)
{
	struct membership *m = group_at(g, ctx, place);

	if (m == NULL || region >= g->cfg.regions_max)
		return -EINVAL;
	struct group_share *s = &m->shares[region];

	if (s->state != SHARE_OUT || s->tells != 0)
		return -EEXIST;
	if (len == 0 || why_over(m, region) != 0) {
		s->error = len == 0 ? EFAULT : why_over(m, region);
		share_tells(g, m, region, TELLS_SUBSCRIBED);
		return 0;
	}
	memset(directory_of(m, region), 0, m->words * sizeof(uint32_t));
	s->state = SHARE_ASKS;
	s->len = len;
	s->notify = notify;
	s->held = false;
	s->dirty = m->words < 32 ? (1u << m->words) - 1 : UINT32_MAX;
	owe_share(g, m, region, OWES_SUB);
	return 0;
}

int
group_unsubscribe(struct groups *g, uint16_t ctx, uint32_t place, uint32_t region)
{
	struct membership *m = group_at(g, ctx, place);

	if (m == NULL || region >= g->cfg.regions_max || m->shares[region].state != SHARE_IN)
		return -EINVAL;
	struct group_share *s = &m->shares[region];

	if (why_over(m, region) != 0) {
		s->state = SHARE_OUT;
		s->error = 0;
		share_tells(g, m, region, TELLS_UNSUBSCRIBED);
		return 0;
	}
	s->state = SHARE_LEAVES;
	owe_share(g, m, region, OWES_UNSUB);
	return 0;
}

/* Begin the updates that were asked for, or end them if the region has ended. */
static void
grant(struct groups *g, struct membership *m, uint32_t r)
{
	struct group_share *s = &m->shares[r];

	if (s->asked == 0 || s->held)
		return;
	if (why_over(m, r) != 0)
		s->refused += s->asked;
	else
		s->granted += s->asked;
	s->asked = 0;
	share_tells(g, m, r, 0);
}

int
group_update(struct groups *g, uint16_t ctx, uint32_t place, uint32_t region)
{
	struct membership *m = group_at(g, ctx, place);

	if (m == NULL || region >= g->cfg.regions_max)
		return -EINVAL;
	struct group_share *s = &m->shares[region];

	if (s->state != SHARE_IN ||
		s->asked + s->granted + s->refused + s->under_way >= UNDER_WAY_MAX)
		return -EINVAL;
	s->asked++;
	grant(g, m, region);
	return 0;
}

static void
hold_if_quiet(struct groups *g, struct membership *m, uint32_t r)
{
	const struct group_share *s = &m->shares[r];

	if (s->held && s->granted + s->under_way == 0)
		owe_share(g, m, r, OWES_HELD);
}

int
group_updated(struct groups *g, uint16_t ctx, uint32_t place, uint32_t region)
{
	struct membership *m = group_at(g, ctx, place);

	if (m == NULL || region >= g->cfg.regions_max || m->shares[region].under_way == 0)
		return -EINVAL;
	m->shares[region].under_way--;
	if (why_over(m, region) == 0)
		hold_if_quiet(g, m, region);
	return 0;
}

static void
held(struct groups *g, struct membership *m, uint32_t r, uint32_t ticket)
{
	struct group_share *s = &m->shares[r];

	if (s->state != SHARE_IN && s->state != SHARE_LEAVES) {
		count(g, GROUP_BAD_MESSAGES);
		return;
	}
	s->held = true;
	s->ticket = ticket;
	hold_if_quiet(g, m, r);
}

static void
sharers_are(struct groups *g, struct membership *m, uint32_t r, uint32_t word, uint32_t bits)
{
	if (m->shares[r].state != SHARE_ASKS || word >= m->words) {
		count(g, GROUP_BAD_MESSAGES);
		return;
	}
	for (uint32_t i = 0; i < 32 && word * 32 + i < m->count; i++)
		directory_set(m, r, (uint16_t)(word * 32 + i), bits >> i & 1);
}

static void
may_copy(struct groups *g, struct membership *m, uint32_t r)
{
	if (m->shares[r].state != SHARE_ASKS) {
		count(g, GROUP_BAD_MESSAGES);
		return;
	}
	m->shares[r].state = SHARE_READS;
	m->shares[r].copy = ++g->copies_made % GROUP_COPY_NUMBERS;
	bit_set(m->shares_copying, r);
	set_add(&g->copies, place_of(g, m));
}

/* Take the answer of the home to what this member asked for. */
static void
answered(struct groups *g, struct membership *m, uint32_t r, bool in, uint8_t error)
{
	struct group_share *s = &m->shares[r];

	s->error = error;
	if (s->state == SHARE_LEAVES) {
		/* refused: it is as before */
		s->state = error == 0 ? SHARE_OUT : SHARE_IN;
		share_tells(g, m, r, TELLS_UNSUBSCRIBED);
	} else if (s->state == SHARE_ASKS || s->state == SHARE_WAITS) {
		s->state = in ? SHARE_IN : SHARE_OUT;
		if (in)
			directory_set(m, r, m->rank, true);
		share_tells(g, m, r, TELLS_SUBSCRIBED);
	} else {
		count(g, GROUP_BAD_MESSAGES);
	}
}

static void
changed(struct groups *g, struct membership *m, uint32_t r, uint16_t subject, bool in,
	uint8_t error)
{
	struct group_share *s = &m->shares[r];

	if (subject >= m->count) {
		count(g, GROUP_BAD_MESSAGES);
		return;
	}
	s->held = false;
	s->owes &= (uint8_t)~OWES_HELD;
	if (subject == m->rank)
		answered(g, m, r, in, error);
	else
		directory_set(m, r, subject, in);
	grant(g, m, r);
}

/* ------------------------------------------------------------------ copies */

bool
groups_copy(struct groups *g, struct group_copy *out)
{
	for (uint32_t i = set_next(&g->copies, 0); i != UINT32_MAX;
		i = set_next(&g->copies, i + 1)) {
		struct membership *m = &g->memberships[i];
		uint32_t r = bit_next(m->shares_copying, BITS_WORDS(g->cfg.regions_max), 0);

		/* nothing is copied for a member that leaves, which the home may not know yet */
		if (r == UINT32_MAX || m->state != MEMBERSHIP_OPEN) {
			set_remove(&g->copies, i);
			continue;
		}
		*out = (struct group_copy){
			.ctx = m->ctx,
			.place = (uint16_t)i,
			.id = m->id,
			.region = r,
			.number = m->shares[r].copy,
			.len = m->shares[r].len,
			.home = m->members[manager_of(m, r)].addr,
		};
		return true;
	}
	return false;
}

void
group_copying(struct groups *g, const struct group_copy *c)
{
	bit_clear(g->memberships[c->place].shares_copying, c->region);
}

void
group_copied(struct groups *g, uint16_t ctx, uint32_t place, uint32_t region, uint32_t number,
	uint8_t error)
{
	struct membership *m = group_at(g, ctx, place);

	if (m == NULL || region >= g->cfg.regions_max || m->shares[region].state != SHARE_READS ||
		m->shares[region].copy != number)
		return;
	m->shares[region].state = SHARE_WAITS;
	m->shares[region].error = error;
	owe_share(g, m, region, OWES_COPIED);
}

/* ------------------------------------------------------------------ messages */

static bool
is_to_home(uint8_t op)
{
	return op == WIRE_G_SUB || op == WIRE_G_UNSUB || op == WIRE_G_HELD || op == WIRE_G_COPIED;
}

void
shared_message(struct groups *g, struct membership *m, uint16_t from, const struct wire_group *h)
{
	const uint32_t r = wire_be32(h->number), ticket = wire_be32(h->ticket);
	const uint32_t b = wire_be32(h->b);
	const uint16_t home = r < g->cfg.regions_max ? manager_of(m, r) : NO_RANK;
	const uint8_t error = (uint8_t)wire_be16(h->error);

	if (home == NO_RANK || home != (is_to_home(h->op) ? m->rank : from)) {
		count(g, GROUP_BAD_MESSAGES);
		return;
	}
	switch (h->op) {
	case WIRE_G_SUB:
		wants(g, m, from, r, WANTS_IN, wire_group_wide(h), h->flags & WIRE_G_TELL);
		break;
	case WIRE_G_UNSUB:
		wants(g, m, from, r, WANTS_OUT, 0, false);
		break;
	case WIRE_G_HELD:
		if (ticket == home_here(m, r)->ticket)
			is_held(g, m, r, from);
		break;
	case WIRE_G_COPIED:
		copied(g, m, from, r, error);
		break;
	case WIRE_G_HOLD:
		held(g, m, r, ticket);
		break;
	case WIRE_G_SHARERS:
		sharers_are(g, m, r, ticket, b);
		break;
	case WIRE_G_COPY:
		may_copy(g, m, r);
		break;
	case WIRE_G_CHANGED:
		changed(g, m, r, wire_be16(h->other), h->flags & WIRE_G_IN, error);
		break;
	}
}

/* ------------------------------------------------------------------ results */

/* Take, at the home, one of the members of which the application is to be told. */
static uint16_t
next_that_came(struct membership *m, uint32_t r)
{
	uint16_t rank = 0;

	while (!sharer_of(m, r, rank)->came)
		rank++;
	sharer_of(m, r, rank)->came = false;
	home_here(m, r)->came--;
	return rank;
}

bool
shared_result(struct groups *g, struct membership *m, struct group_result *out)
{
	const uint32_t r = bit_next(m->shares_telling, BITS_WORDS(g->cfg.regions_max), 0);

	if (r == UINT32_MAX)
		return false;
	struct group_share *s = &m->shares[r];

	out->number = r;
	if (s->tells & TELLS_SUBSCRIBED) {
		s->tells &= (uint8_t)~TELLS_SUBSCRIBED;
		out->kind = GROUP_SUBSCRIBED;
		out->error = s->error;
		out->rank = ended_because(m, r, out->error);
		return true;
	}
	if (manager_of(m, r) == m->rank && home_here(m, r)->came > 0) {
		out->kind = GROUP_SHARER;
		out->rank = next_that_came(m, r);
		return true;
	}
	if (s->granted > 0 && s->dirty != 0) {
		const uint32_t word = (uint32_t)__builtin_ctz(s->dirty);

		s->dirty &= s->dirty - 1;
		out->kind = GROUP_SHARERS;
		out->rank = (uint16_t)word;
		out->bits = directory_of(m, r)[word];
		return true;
	}
	if (s->granted > 0 || s->refused > 0) {
		out->kind = GROUP_UPDATE;
		if (s->granted > 0) {
			s->granted--;
			s->under_way++;
		} else {
			s->refused--;
			out->error = why_over(m, r);
			out->rank = ended_because(m, r, out->error);
		}
		return true;
	}
	bit_clear(m->shares_telling, r);
	if (s->tells & TELLS_UNSUBSCRIBED) {
		s->tells = 0;
		out->kind = GROUP_UNSUBSCRIBED;
		out->error = s->error;
		return true;
	}
	return shared_result(g, m, out);
}

/* ------------------------------------------------------------------ who goes */

/* End the region for this member. */
static void
share_over(struct groups *g, struct membership *m, uint32_t r)
{
	struct group_share *s = &m->shares[r];

	s->owes = 0;
	s->held = false;
	bit_clear(m->shares_copying, r);
	if (s->state == SHARE_ASKS || s->state == SHARE_READS || s->state == SHARE_WAITS) {
		s->state = SHARE_OUT;
		s->error = why_over(m, r);
		share_tells(g, m, r, TELLS_SUBSCRIBED);
	} else if (s->state == SHARE_LEAVES) {
		s->state = SHARE_OUT;
		s->error = 0;
		share_tells(g, m, r, TELLS_UNSUBSCRIBED);
	}
	grant(g, m, r);
}

void
shared_member_gone(struct groups *g, struct membership *m, uint16_t rank)
{
	for (uint32_t r = 0; r < g->cfg.regions_max; r++) {
		directory_set(m, r, rank, false);
		if (manager_of(m, r) == rank)
			share_over(g, m, r);
		else if (manager_of(m, r) == m->rank)
			sharer_gone(g, m, r, rank);
	}
}

void
shared_group_ended(struct groups *g, struct membership *m)
{
	for (uint32_t r = 0; r < g->cfg.regions_max; r++)
		share_over(g, m, r);
}
