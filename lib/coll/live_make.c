/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The memory of a lane's collectives: laid out in one piece, and moved to another process.
 */
#include "coll/live_state.h"

static size_t
exec_bytes(const struct colls_config *cfg)
{
	const struct coll_list largest = {.count = cfg->steps_max, .ranks = cfg->members_max};

	return rounded(coll_exec_bytes(&largest));
}

static size_t
live_make_lay_out(struct colls *c, const struct colls_config *cfg, uint8_t *at)
{
	const size_t peers = (size_t)cfg->places_max * cfg->members_max;
	const size_t bytes[] = {
		sizeof(struct colls),
		cfg->places_max * sizeof(struct live_seat),
		peers * sizeof(struct live_peer),
		peers * WIRE_COLL_AHEAD * sizeof(struct early),
		peers * WIRE_COLL_AHEAD * WIRE_COLL_EAGER,
		cfg->live_max * sizeof(struct live),
		cfg->live_max * sizeof(uint16_t),
		cfg->live_max * sizeof(struct made),
		cfg->live_max * exec_bytes(cfg),
		cfg->live_max * exec_bytes(cfg),
	};
	size_t offset[11] = {0};

	for (unsigned i = 0; i < 10; i++)
		offset[i + 1] = offset[i] + rounded(bytes[i]);
	if (c != NULL) {
		c->seats = (struct live_seat *)(at + offset[1]);
		c->peers = (struct live_peer *)(at + offset[2]);
		c->early = (struct early *)(at + offset[3]);
		c->early_bytes = at + offset[4];
		c->lives = (struct live *)(at + offset[5]);
		c->runs = (uint16_t *)(at + offset[6]);
		c->made = (struct made *)(at + offset[7]);
		c->execs = at + offset[8];
		c->images = at + offset[9];
	}
	return offset[10];
}

void
colls_put_free(struct colls *c, uint16_t index)
{
	struct live *l = &c->lives[index];

	l->state = LIVE_FREE;
	l->at = NONE;
	l->next = c->free;
	if (c->free != NONE)
		c->lives[c->free].at = index;
	c->free = index;
}

size_t
colls_memsize(const struct colls_config *config)
{
	return live_make_lay_out(NULL, config, NULL);
}

struct colls *
colls_init(void *memory, const struct colls_config *config)
{
	struct colls *c = memory;

	c->cfg = *config;
	c->exec_bytes = exec_bytes(config);
	live_make_lay_out(c, config, memory);
	c->ended = c->ended_last = c->work = NONE;
	c->free = NONE;
	for (uint32_t i = 0; i < config->live_max; i++)
		colls_put_free(c, (uint16_t)(config->live_max - 1 - i));
	return c;
}

/* Return the first part, from `part` on, of the memberships' memory that is in use. Each has these
 * parts: its peers, what came early from them, and the bytes of each of these. */
static uint32_t
next_part(const struct colls *c, uint32_t part)
{
	const uint32_t each = 2 + c->cfg.members_max * WIRE_COLL_AHEAD;

	while (part < c->cfg.places_max * each) {
		const uint32_t place = part / each;
		const uint32_t used = c->seats[place].of.key == 0
			? 0
			: 2 + c->seats[place].of.count * WIRE_COLL_AHEAD;

		if (part % each >= used)
			part = (place + 1) * each;
		else if (part % each >= 2 && early_of(c, place, 0, 0)[part % each - 2].len == 0)
			part++;
		else
			break;
	}
	return part;
}

/* Get the next part of the memory that is in use: first what all others are found by, then those of
 * each membership and of each running collective. Return false: there is none. */
bool
colls_span(struct colls *c, uint32_t *at, struct colls_span *out)
{
	const uint32_t places = c->cfg.places_max;
	const uint32_t each = 2 + c->cfg.members_max * WIRE_COLL_AHEAD;
	const uint32_t n = (*at)++;

	switch (n) {
	case 0:
		*out = (struct colls_span){c, sizeof(*c)};
		return true;
	case 1:
		*out = (struct colls_span){c->seats, places * sizeof(*c->seats)};
		return true;
	case 2:
		*out = (struct colls_span){c->lives, c->cfg.live_max * sizeof(*c->lives)};
		return true;
	case 3:
		*out = (struct colls_span){c->runs, c->cfg.live_max * sizeof(*c->runs)};
		return true;
	}
	uint32_t part = next_part(c, n - 4);

	*at = part + 5;
	if (part < places * each) {
		const uint32_t place = part / each;
		const size_t members = c->seats[place].of.count;
		struct early *early = early_of(c, place, 0, 0);

		part %= each;
		if (part == 0)
			*out = (struct colls_span){peers_of(c, place), members * sizeof(*c->peers)};
		else if (part == 1)
			*out = (struct colls_span){early,
				members * WIRE_COLL_AHEAD * sizeof(*early)};
		else
			*out = (struct colls_span){early_bytes_of(c, &early[part - 2]),
				early[part - 2].len};
		return true;
	}
	part -= places * each;
	if (part >= c->running)
		return false;
	*out = (struct colls_span){colls_exec(c, c->runs[part]), c->exec_bytes};
	return true;
}

void
colls_adopt(struct colls *c, const struct colls_config *config)
{
	c->cfg = *config;
	live_make_lay_out(c, config, (uint8_t *)c);
}

void
colls_adopted(struct colls *c, uint32_t index, const struct coll_step *steps)
{
	if (!c->lives[index].cannot)
		coll_exec_moved(colls_exec(c, index), steps);
}

struct coll_exec *
colls_exec(const struct colls *c, uint32_t index)
{
	return (struct coll_exec *)(c->execs + index * c->exec_bytes);
}
