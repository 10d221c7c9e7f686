/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The memory of a lane's groups: laid out in one piece, and moved to another process.
 */
#include "group/internal.h"

static size_t
aligned(size_t bytes)
{
	return (bytes + 63) & ~(size_t)63;
}

static bool
config_ok(const struct groups_config *c)
{
	return c->groups_max >= 1 && c->groups_max <= GROUPS_MAX && c->members_max >= 1 &&
		c->members_max <= WIRE_GROUP_MEMBERS_MAX && c->locks_max <= WIRE_GROUP_LOCKS_MAX &&
		c->regions_max <= WIRE_GROUP_REGIONS_MAX && c->frames_max >= 1 &&
		c->join_ticks >= 1 && c->round_ticks >= 1 && c->counters != NULL;
}

/* Return a number that places_of() does not exceed for n things in a group of any size. */
static uint32_t
places_max(const struct groups_config *c, uint32_t n)
{
	return n + c->members_max;
}

/* Take bytes of the memory, or only count them if it is NULL. */
static void *
make_take(uint8_t *memory, size_t *used, size_t bytes)
{
	uint8_t *at = memory != NULL ? memory + *used : NULL;

	*used += aligned(bytes);
	return at;
}

/* Lay out what belongs to a membership. */
static void
lay_out_membership(const struct groups_config *c, uint8_t *memory, size_t *at, struct membership *m)
{
	const uint32_t turns = places_max(c, c->locks_max);
	const uint32_t sharers = places_max(c, c->regions_max);
	const uint32_t regions = BITS_WORDS(c->regions_max);
	const size_t members = BITS_WORDS(c->members_max) * sizeof(uint64_t);

	m->members = make_take(memory, at, c->members_max * sizeof(*m->members));
	m->by_addr = make_take(memory, at, places_for(c->members_max) * sizeof(*m->by_addr));
	m->gone = make_take(memory, at, c->members_max * sizeof(*m->gone));
	m->owing = make_take(memory, at, members);
	m->accusers = make_take(memory, at, c->members_max * members);
	m->locks = make_take(memory, at, c->locks_max * sizeof(*m->locks));
	m->locks_owing = make_take(memory, at, BITS_WORDS(c->locks_max) * sizeof(uint64_t));
	m->locks_telling = make_take(memory, at, BITS_WORDS(c->locks_max) * sizeof(uint64_t));
	m->queues = make_take(memory, at, c->locks_max * sizeof(*m->queues));
	m->turns = make_take(memory, at, turns * sizeof(*m->turns));
	m->turns_owing = make_take(memory, at, BITS_WORDS(turns) * sizeof(uint64_t));
	m->shares = make_take(memory, at, c->regions_max * sizeof(*m->shares));
	m->directories = make_take(memory, at,
		c->regions_max * DIRECTORY_WORDS(c->members_max) * sizeof(uint32_t));
	m->shares_owing = make_take(memory, at, regions * sizeof(uint64_t));
	m->shares_telling = make_take(memory, at, regions * sizeof(uint64_t));
	m->shares_copying = make_take(memory, at, regions * sizeof(uint64_t));
	m->homes = make_take(memory, at, c->regions_max * sizeof(*m->homes));
	m->sharers = make_take(memory, at, sharers * sizeof(*m->sharers));
	m->sharers_owing = make_take(memory, at, BITS_WORDS(sharers) * sizeof(uint64_t));
	m->cast.set = make_take(memory, at, members);
	for (unsigned k = 0; k < WIRE_CHUNKS_OPEN; k++) {
		struct group_chunk *chunk = &m->cast.chunks[k];

		chunk->waits = make_take(memory, at, members);
		chunk->tells = make_take(memory, at, members);
		chunk->lacks = make_take(memory, at, c->members_max * sizeof(uint64_t));
	}
}

void
membership_clear(struct groups *g, struct membership *m)
{
	uint8_t *own = (uint8_t *)m->members; /* the first that is laid out */
	const uint16_t next = m->next;
	size_t bytes = 0;

	*m = (struct membership){.next = next};
	lay_out_membership(&g->cfg, own, &bytes, m);
	memset(own, 0, bytes);
}

/* Lay out the memory: what all groups share, then what each membership has. g and memory are NULL:
 * only count. Return the bytes, and in *head those of what is shared. */
static size_t
make_lay_out(const struct groups_config *c, uint8_t *memory, struct groups *g, size_t *head)
{
	size_t used = 0;
	struct groups unused;

	if (g == NULL)
		g = &unused;
	make_take(memory, &used, sizeof(*g));
	g->frames = make_take(memory, &used, c->frames_max * sizeof(*g->frames));
	g->memberships = make_take(memory, &used, c->groups_max * sizeof(*g->memberships));
	g->first = make_take(memory, &used, WIRE_CONTEXTS_MAX * sizeof(*g->first));
	g->taken = make_take(memory, &used, BITS_WORDS(c->groups_max) * sizeof(uint64_t));
	g->marks = make_take(memory, &used, MARKS * sizeof(*g->marks));
	*head = used;
	for (uint32_t i = 0; i < c->groups_max; i++) {
		struct membership blank = {0};

		lay_out_membership(c, memory, &used, memory != NULL ? &g->memberships[i] : &blank);
	}
	return used;
}

size_t
groups_memsize(const struct groups_config *config)
{
	size_t head;

	return config_ok(config) ? make_lay_out(config, NULL, NULL, &head) : 0;
}

static void
free_frames(struct groups *g)
{
	g->free = NULL;
	for (uint32_t i = 0; i < g->cfg.frames_max; i++) {
		g->frames[i].next = g->free;
		g->free = &g->frames[i];
	}
}

struct groups *
groups_init(void *memory, const struct groups_config *config)
{
	struct groups *g = memory;
	size_t head;

	if (!config_ok(config))
		return NULL;
	make_lay_out(config, memory, g, &head);
	g->cfg = *config;
	memset(g->first, 0xFF, WIRE_CONTEXTS_MAX * sizeof(*g->first));
	free_frames(g);
	casts_init(g);
	return g;
}

/* ------------------------------------------------------------------ moving */

bool
groups_out(const struct groups *g)
{
	for (uint32_t i = 0; i < g->cfg.groups_max; i++) {
		if (g->memberships[i].state != MEMBERSHIP_FREE && g->memberships[i].frames > 0)
			return true;
	}
	return false;
}

bool
groups_span(struct groups *g, uint32_t *at, struct group_span *out)
{
	size_t head, each = 0;
	struct membership blank;

	make_lay_out(&g->cfg, NULL, NULL, &head);
	lay_out_membership(&g->cfg, NULL, &each, &blank);
	if (*at == 0) {
		*at = 1;
		*out = (struct group_span){g, head};
		return true;
	}
	for (uint32_t i = *at - 1; i < g->cfg.groups_max; i++) {
		if (g->memberships[i].state == MEMBERSHIP_FREE)
			continue;
		*at = i + 2;
		*out = (struct group_span){(uint8_t *)g + head + i * each, each};
		return true;
	}
	return false;
}

void
groups_adopt(struct groups *g, const struct groups_config *config)
{
	size_t head;

	/* what it points to is where it was, but in this process's memory */
	make_lay_out(config, (uint8_t *)g, g, &head);
	g->cfg = *config;
	free_frames(g);
}
