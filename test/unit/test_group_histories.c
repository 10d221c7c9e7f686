/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups as a library (lib/group): random histories of the nodes of group_world.h. Processes are
 * killed and nodes die at any step. The oracle watches; what was asked for ends; in the end all
 * copies of a shared region are equal, and nothing is left.
 * GROUP_HISTORIES=N runs as many (the default is some seconds), GROUP_SEED=S that one alone,
 * GROUP_SHOW says each seed, and GROUP_TRACE what is delivered.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "group_oracle.h"
#include "group_world.h"

/* ------------------------------------------------------------------ what actors do */

static void
asks(unsigned n)
{
	struct actor *a = &w.actors[n];
	struct groups *g = w.groups[node_of(n)];
	uint32_t l = draw(w.locks);

	if (a->holds[l]) {
		int result = group_unlock(g, ctx_of(n), (uint32_t)a->place, l);

		assert_true(result == 0 || (result == -EHOSTDOWN && w.deaths > 0));
		a->holds[l] = false;
	} else if (!a->asks[l] && a->to_do > 0) {
		a->to_do--;
		assert_int_equal(group_lock(g, ctx_of(n), (uint32_t)a->place, l, draw(4) == 0), 0);
		a->asks[l] = true;
	}
}

static void
shares(unsigned n)
{
	const uint32_t r = draw(w.regions), place = (uint32_t)w.actors[n].place;
	struct groups *g = w.groups[node_of(n)];
	struct copy *c = &w.actors[n].copies[r];

	if (c->asks || c->leaves)
		return;
	if (!c->in) {
		if (draw(3) == 0) {
			const bool notify = draw(2);

			assert_int_equal(group_subscribe(g, ctx_of(n), place, r, 100, notify), 0);
			c->wishes += notify;
			c->asks = true;
			c->sharers = 0;
			c->sum = 0;
		}
	} else if (draw(6) != 0) {
		if (c->asked < 3 && under_way(r) < UPDATES / REGIONS / 2) {
			assert_int_equal(group_update(g, ctx_of(n), place, r), 0);
			c->asked++;
		}
	} else if (c->asked == 0) {
		assert_int_equal(group_unsubscribe(g, ctx_of(n), place, r), 0);
		c->leaves = true;
	}
}

static void
casts(unsigned n)
{
	struct actor *a = &w.actors[n];
	struct groups *g = w.groups[node_of(n)];
	const uint32_t place = (uint32_t)a->place, to = draw(1u << w.count);

	if (a->sent.runs)
		return;
	a->sent = (struct sent){
		.runs = true,
		.value = ++w.cast_value,
		.frames = 1 + draw(draw(2) ? 10 : CAST),
		.to = to,
	};
	const struct group_cast c = {
		.at = a->rank * CAST,
		.from = 1000,
		.len = a->sent.frames,
		.unit = 1,
	};

	assert_int_equal(group_cast_to(g, ctx_of(n), place, 0, to & 0xF), 0);
	assert_int_equal(group_cast_to(g, ctx_of(n), place, 0, to & ~0xFu), 0);
	assert_int_equal(group_cast(g, ctx_of(n), place, &c), 0);
	assert_int_equal(group_cast(g, ctx_of(n), place, &c), -EBUSY);
}

/* All of a node is gone at once; the others notice when their messages fail, or by keepalive. */
static void
node_dies(uint16_t node)
{
	w.deaths++;
	w.up[node] = false;
	for (unsigned a = node * CTXS; a < (node + 1u) * CTXS; a++)
		w.actors[a].life = w.actors[a].life == ABSENT ? ABSENT : DEAD;
	/* what it has sent may arrive still, or not */
	for (unsigned a = node * CTXS; a < (node + 1u) * CTXS; a++) {
		for (unsigned to = 0; to < ALL; to++) {
			struct flow *f = &w.flows[a][to];

			while (f->head != f->tail && draw(2) == 0 && has_membership(to)) {
				groups_message(w.groups[node_of(to)], ctx_of(to), addr_of(a), 0,
					&f->queue[f->head % QUEUE].message,
					sizeof(struct wire_group));
				f->head++;
			}
			f->head = f->tail;
		}
	}
}

static void
act(unsigned n)
{
	struct actor *a = &w.actors[n];

	if (!w.up[node_of(n)] || a->life != MEMBER || a->stopped)
		return;
	if (a->failed || a->ended) {
		if (draw(3) == 0)
			closes(n);
		return;
	}
	if (!a->opened)
		return;
	switch (draw(4)) {
	case 0:
		enters(n);
		break;
	case 1:
		asks(n);
		break;
	case 2:
		casts(n);
		break;
	default:
		shares(n);
	}
}

/* ------------------------------------------------------------------ histories */

/* All that share a region have the same updates. */
static void
copies_are_equal(void)
{
	for (uint32_t r = 0; r < w.regions; r++) {
		unsigned home = w.who[r % w.count];

		if (w.torn[r] || !lives(home) || w.actors[home].ended)
			continue;
		for (unsigned n = 0; n < ALL; n++) {
			const struct copy *c = &w.actors[n].copies[r];

			if (!lives(n) || w.actors[n].ended)
				continue;
			if (c->asks && w.actors[home].copies[r].in) {
				print_error("rank %u waits to share region %u\n", w.actors[n].rank,
					r);
				fail();
			}
			assert_false(c->leaves || c->asked > 0);
			if (c->in && c->sum != w.actors[home].copies[r].sum) {
				print_error("rank %u has other bytes of region %u than its home\n",
					w.actors[n].rank, r);
				fail();
			}
		}
	}
}

static void
history(uint64_t seed, unsigned deaths, bool stopping)
{
	unsigned joined = 0;

	world_begins(seed);
	for (unsigned steps = 200 + draw(3000); steps > 0; steps--) {
		if (joined < w.count && draw(10) == 0)
			joins(w.who[joined++]);
		if (deaths > 0 && draw(2000 / (1 + deaths)) == 0) {
			unsigned n = w.who[draw(w.count)];

			deaths--;
			switch (draw(3)) {
			case 0:
				if (w.up[node_of(n)])
					node_dies(node_of(n));
				break;
			case 1:
				if (lives(n))
					dies(n);
				break;
			default:
				if (lives(n))
					closes(n);
			}
		}
		if (w.deaths > 0 && draw(500) == 0)
			notice();
		act(draw(ALL));
		if (stopping && draw(50) == 0)
			stops(draw(ALL));
		step();
	}
	for (unsigned n = 0; n < ALL; n++) {
		if (w.up[node_of(n)])
			goes_on(n);
	}
	while (joined < w.count) {
		unsigned n = w.who[joined++];

		if (w.up[node_of(n)])
			joins(n);
	}
	all_ends();
	copies_are_equal();
	all_go();
}

static unsigned
histories(unsigned usual)
{
	const char *asked = getenv("GROUP_HISTORIES");

	return asked != NULL ? (unsigned)atoi(asked) : usual;
}

static void
run(unsigned deaths, bool stopping)
{
	const char *one = getenv("GROUP_SEED");

	trace = getenv("GROUP_TRACE") != NULL;
	for (unsigned i = 1; i <= histories(100); i++) {
		uint64_t seed = one != NULL ? strtoull(one, NULL, 0) : i;

		if (one != NULL || getenv("GROUP_SHOW") != NULL)
			fprintf(stderr, "seed %lu\n", (unsigned long)seed);
		history(seed, deaths, stopping);
		if (one != NULL)
			break;
	}
}

static void
group__histories(void **state)
{
	(void)state;
	run(0, false);
}

static void
group__histories_with_deaths(void **state)
{
	(void)state;
	run(3, false);
}

static void
group__histories_with_many_deaths(void **state)
{
	(void)state;
	run(9, false);
}

static void
group__histories_with_stops(void **state)
{
	(void)state;
	run(2, true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(group__histories),
		cmocka_unit_test(group__histories_with_deaths),
		cmocka_unit_test(group__histories_with_many_deaths),
		cmocka_unit_test(group__histories_with_stops),
	};

	return cmocka_run_group_tests(tests, NULL, world_ends);
}
