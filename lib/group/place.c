/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memberships by their places: taken, given back, found by context, number and address.
 */
#include "group/internal.h"

struct membership *
group_find(const struct groups *g, uint16_t ctx, uint32_t id)
{
	struct membership *m;

	OF_CONTEXT(g, ctx, m) {
		if (m->state != MEMBERSHIP_FREE && m->id == id)
			return m;
	}
	return NULL;
}

struct membership *
group_take_place(struct groups *g, uint16_t ctx)
{
	for (uint32_t w = 0; w < BITS_WORDS(g->cfg.groups_max); w++) {
		if (g->taken[w] == UINT64_MAX)
			continue;
		uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(~g->taken[w]);

		if (i >= g->cfg.groups_max)
			break;
		bit_set(g->taken, i);
		g->memberships[i].next = g->first[ctx];
		g->first[ctx] = (uint16_t)i;
		return &g->memberships[i];
	}
	return NULL;
}

void
group_let_go(struct groups *g, struct membership *m)
{
	uint16_t *link = &g->first[m->ctx];

	while (*link != place_of(g, m))
		link = &g->memberships[*link].next;
	*link = m->next;
	bit_clear(g->taken, place_of(g, m));
}

uint16_t *
group_place_for(const struct membership *m, struct group_addr a)
{
	const uint32_t mask = places_for(m->count) - 1;
	uint32_t i = (((uint32_t)a.node << 16 | a.ctx) * 0x9E3779B1u) >> 8;

	while (m->by_addr[i & mask] != 0 &&
		!same_addr(m->members[m->by_addr[i & mask] - 1].addr, a))
		i++;
	return &m->by_addr[i & mask];
}

struct membership *
group_own(struct groups *g, uint16_t ctx, uint32_t place)
{
	struct membership *m = place < g->cfg.groups_max ? &g->memberships[place] : NULL;

	return m != NULL && m->state != MEMBERSHIP_FREE && m->ctx == ctx && !m->silent ? m : NULL;
}

struct membership *
group_at(struct groups *g, uint16_t ctx, uint32_t place)
{
	struct membership *m = group_own(g, ctx, place);

	return m != NULL && (m->state == MEMBERSHIP_OPEN || m->state == MEMBERSHIP_ENDED) ? m
											  : NULL;
}

bool
groups_has(const struct groups *g, uint16_t ctx, uint32_t id, struct group_addr who)
{
	const struct membership *m = group_find(g, ctx, id);

	if (m == NULL || m->state != MEMBERSHIP_OPEN)
		return false;
	const uint16_t at = *group_place_for(m, who);

	return at != 0 && !m->members[at - 1].gone;
}

bool
group_member_at(const struct groups *g, uint16_t ctx, uint32_t place, uint32_t rank,
	struct group_addr *out)
{
	const struct membership *m = group_at((struct groups *)(uintptr_t)g, ctx, place);

	if (m == NULL || rank >= m->count)
		return false;
	*out = m->members[rank].addr;
	return true;
}

uint64_t
group_key(const struct groups *g, uint16_t ctx, uint32_t place)
{
	const struct membership *m = group_at((struct groups *)(uintptr_t)g, ctx, place);

	return m != NULL && m->state == MEMBERSHIP_OPEN ? m->key : 0;
}

bool
group_has_member(const struct groups *g, uint16_t ctx, uint32_t place, uint16_t rank)
{
	const struct membership *m = group_at((struct groups *)(uintptr_t)g, ctx, place);

	return m != NULL && m->state == MEMBERSHIP_OPEN && rank < m->count &&
		!m->members[rank].gone;
}

static struct group_seat
seat_of(const struct groups *g, const struct membership *m, uint16_t from)
{
	return (struct group_seat){
		.place = (uint16_t)(m - g->memberships),
		.rank = m->rank,
		.count = m->count,
		.from = from,
		.id = m->id,
		.key = m->key,
	};
}

bool
group_seat(const struct groups *g, uint16_t ctx, uint32_t id, uint64_t key, struct group_addr who,
	struct group_seat *out)
{
	const struct membership *m = group_find(g, ctx, id);

	if (m == NULL || m->key != key || key == 0 ||
		(m->state != MEMBERSHIP_JOINS && m->state != MEMBERSHIP_OPEN &&
			m->state != MEMBERSHIP_ENDED))
		return false;
	const uint16_t at = *group_place_for(m, who);

	if (at == 0 || m->members[at - 1].gone)
		return false;
	*out = seat_of(g, m, (uint16_t)(at - 1));
	return true;
}

bool
group_seat_at(const struct groups *g, uint16_t ctx, uint32_t place, struct group_seat *out)
{
	const struct membership *m = group_at((struct groups *)(uintptr_t)g, ctx, place);

	if (m == NULL)
		return false;
	*out = seat_of(g, m, m->rank);
	return true;
}

void
group_took_part(struct groups *g, uint16_t ctx, uint32_t place, uint32_t number)
{
	struct membership *m = group_at(g, ctx, place);

	if (m != NULL)
		m->part = number;
}

/* Return whether a member that has gone is missed in what has that number (see group_took_part): it
 * died, or left before it had done its part. */
static bool
is_missed(const struct member *who, uint32_t number)
{
	return who->why != 0 || (int32_t)(who->part - number) <= 0;
}

uint8_t
group_broken(const struct groups *g, uint16_t ctx, uint32_t place, uint32_t number, uint16_t *rank)
{
	const struct membership *m = group_at((struct groups *)(uintptr_t)g, ctx, place);

	*rank = NO_RANK;
	if (m == NULL)
		return EINVAL;
	for (uint16_t i = 0; i < m->gone_count; i++) {
		const struct member *who = &m->members[m->gone[i]];

		if (!is_missed(who, number))
			continue;
		*rank = m->gone[i];
		return who->why ? who->why : ENOTCONN;
	}
	if (m->state == MEMBERSHIP_OPEN)
		return 0;
	*rank = m->because;
	return m->error;
}
