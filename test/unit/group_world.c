/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See group_world.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "group_oracle.h"
#include "group_world.h"

struct world w;
bool trace;

uint32_t
draw(uint32_t n)
{
	w.random ^= w.random << 13;
	w.random ^= w.random >> 7;
	w.random ^= w.random << 17;
	return (uint32_t)(w.random >> 33) % n;
}

void
world_begins(uint64_t seed)
{
	struct groups_config c = {
		.groups_max = 4,
		.members_max = ALL,
		.locks_max = LOCKS,
		.regions_max = REGIONS,
		.frames_max = FRAMES,
		.join_ticks = JOIN,
		.wait_ticks = 5,
		.round_ticks = 40,
	};
	void *memory[NODES], *other[NODES];

	memcpy(memory, w.memory, sizeof(memory));
	memcpy(other, w.other, sizeof(other));
	memset(&w, 0, sizeof(w));
	memcpy(w.memory, memory, sizeof(memory));
	memcpy(w.other, other, sizeof(other));
	w.random = seed * 0x9E3779B97F4A7C15ull | 1;
	for (unsigned i = 0; i < 8; i++)
		draw(2);
	for (unsigned n = 0; n < NODES; n++) {
		size_t bytes = groups_memsize(&c);

		c.counters = w.counters[n];
		bytes = groups_memsize(&c);
		if (w.memory[n] == NULL) {
			assert_int_equal(posix_memalign(&w.memory[n], 64, bytes), 0);
			assert_int_equal(posix_memalign(&w.other[n], 64, bytes), 0);
		}
		memset(w.memory[n], 0, bytes);
		w.groups[n] = groups_init(w.memory[n], &c);
		assert_non_null(w.groups[n]);
		w.up[n] = true;
	}
	w.config = c;
	w.count = (uint16_t)(1 + draw(ALL));
	w.locks = 1 + draw(LOCKS);
	w.regions = 1 + draw(REGIONS);
	for (unsigned i = 0; i < ALL; i++)
		w.who[i] = (uint16_t)i;
	for (unsigned i = 0; i < ALL; i++) {
		unsigned j = i + draw(ALL - i);
		uint16_t other = w.who[j];

		w.who[j] = w.who[i];
		w.who[i] = other;
		w.actors[other].rank = (uint16_t)i;
		w.actors[other].to_do = 5 + draw(40);
	}
}

int
world_ends(void **state)
{
	(void)state;
	for (unsigned n = 0; n < NODES; n++) {
		free(w.memory[n]);
		free(w.other[n]);
	}
	memset(&w, 0, sizeof(w));
	return 0;
}

bool
lives(unsigned a)
{
	return w.up[node_of(a)] && w.actors[a].life == MEMBER && !w.actors[a].expelled;
}

bool
has_membership(unsigned a)
{
	return w.up[node_of(a)] && w.actors[a].life != ABSENT && w.actors[a].life != AWAY;
}

/* ------------------------------------------------------------------ the network */

void
pull(uint16_t node)
{
	struct group_frame *f;

	while (w.up[node] && (f = groups_tx(w.groups[node])) != NULL) {
		unsigned from = node * CTXS + f->ctx, to = actor_at(f->to);
		struct flow *flow = &w.flows[from][to];

		if (draw(20) == 0) {
			groups_sent(w.groups[node], f, EAGAIN);
			return;
		}
		assert_true(flow->tail - flow->head < QUEUE);
		flow->queue[flow->tail++ % QUEUE] = (struct packet){f->message, f};
		groups_sent(w.groups[node], f, 0);
	}
}

bool
deliver(unsigned from, unsigned to)
{
	struct flow *flow = &w.flows[from][to];

	if (flow->head == flow->tail || !w.up[node_of(from)])
		return false;
	struct packet *p = &flow->queue[flow->head++ % QUEUE];
	bool arrives = w.up[node_of(to)] && has_membership(to);

	if (trace)
		fprintf(stderr,
			"%lu: rank %u to %u: op %u flags %u number %u ticket %u other %u b %u "
			"error %u%s\n",
			(unsigned long)w.now, w.actors[from].rank, w.actors[to].rank, p->message.op,
			p->message.flags, wire_be32(p->message.number),
			wire_be32(p->message.ticket), wire_be16(p->message.other),
			wire_be32(p->message.b), wire_be16(p->message.error),
			arrives ? "" : " lost");
	if (arrives)
		groups_message(w.groups[node_of(to)], ctx_of(to), addr_of(from),
			node_of(from) * LIFE, &p->message, sizeof(p->message));
	groups_acked(w.groups[node_of(from)], p->frame,
		arrives                     ? 0
			: w.up[node_of(to)] ? ECONNREFUSED
					    : ETIMEDOUT);
	return true;
}

/* ------------------------------------------------------------------ results */

void
hear(unsigned n)
{
	struct actor *a = &w.actors[n];
	struct group_result r;

	uint32_t at = 0;
	uint16_t any;

	if (!groups_tells(w.groups[node_of(n)], &at, &any))
		return;
	while (w.up[node_of(n)] && group_result(w.groups[node_of(n)], ctx_of(n), &r)) {
		assert_int_equal(r.place, a->place);
		switch (r.kind) {
		case GROUP_OPENED:
			assert_false(a->opened || a->failed);
			a->opened = r.error == 0;
			a->failed = r.error != 0;
			assert_true(r.error == 0 || w.deaths > 0);
			break;
		case GROUP_GONE:
			assert_false(lives(w.who[r.rank]));
			break;
		case GROUP_ENDED:
			assert_true(w.deaths > 0 && (r.rank == 0 || a->expelled));
			a->ended = true;
			break;
		case GROUP_BARRIER:
			passes(a, &r);
			break;
		case GROUP_LOCKED:
			locked(a, &r);
			break;
		case GROUP_SUBSCRIBED:
		case GROUP_SHARER:
		case GROUP_SHARERS:
		case GROUP_UPDATE:
		case GROUP_UNSUBSCRIBED:
			region_hears(n, &r);
			break;
		case GROUP_LACKS:
			cast_lacks(n, &r);
			break;
		case GROUP_CAST:
			cast_ends(n, r.number, r.error);
			break;
		case GROUP_CLOSED:
			assert_int_equal(a->life, LEAVING);
			a->life = AWAY;
			/* its number may become somebody else's now: nobody takes it for a member,
			 * but where all learn one by one that rank 0 has gone */
			for (unsigned i = 0; i < ALL; i++)
				assert_false(lives(i) && lives(w.who[0]) && w.actors[i].opened &&
					group_has_member(w.groups[node_of(i)], ctx_of(i),
						(uint32_t)w.actors[i].place, a->rank));
			break;
		}
	}
}

/* ------------------------------------------------------------------ what actors do */

void
joins(unsigned n)
{
	struct actor *a = &w.actors[n];
	const struct group_params p = {
		.id = ID,
		.rank = a->rank,
		.count = w.count,
		.random = 12345,
		.give_up = w.now + GIVE_UP,
	};
	const struct group_addr own = addr_of(n);

	a->place = group_open(w.groups[node_of(n)], ctx_of(n), &p);
	assert_true(a->place >= 0);
	a->life = MEMBER;
	for (unsigned i = 0; i < w.count; i++) {
		const struct group_addr member = addr_of(w.who[i]);

		assert_int_equal(group_list(w.groups[node_of(n)], ctx_of(n), (uint32_t)a->place,
					 &own, &member, 1, w.now),
			0);
	}
}

void
enters(unsigned n)
{
	struct actor *a = &w.actors[n];

	if (a->in_barrier)
		return;
	int64_t number = group_barrier(w.groups[node_of(n)], ctx_of(n), (uint32_t)a->place);

	assert_int_equal(number, a->entered + 1);
	a->entered = (uint32_t)number;
	a->in_barrier = true;
}

void
stops(unsigned n)
{
	struct actor *a = &w.actors[n];

	if (!w.up[node_of(n)] || a->life == ABSENT)
		return;
	a->stopped = !a->stopped;
	if (a->stopped)
		groups_stop(w.groups[node_of(n)], ctx_of(n), w.now);
	else
		groups_start(w.groups[node_of(n)], ctx_of(n), w.now);
}

void
goes_on(unsigned n)
{
	if (w.actors[n].stopped)
		stops(n);
}

void
dies(unsigned n)
{
	w.deaths++;
	goes_on(n);
	groups_leave(w.groups[node_of(n)], ctx_of(n));
	w.actors[n].life = DEAD;
}

void
closes(unsigned n)
{
	w.deaths++; /* others may notice */
	goes_on(n);
	assert_int_equal(group_close(w.groups[node_of(n)], ctx_of(n), (uint32_t)w.actors[n].place),
		0);
	w.actors[n].life = LEAVING;
}

/* ------------------------------------------------------------------ steps */

/* Another process goes on with a node's groups, in other memory. */
static void
moves(unsigned n)
{
	const size_t bytes = groups_memsize(&w.config);
	struct groups_config c = w.config;
	struct group_span from, to;
	void *old = w.memory[n];

	c.counters = w.counters[n];
	memset(w.other[n], 0, bytes);
	struct groups *next = groups_init(w.other[n], &c);

	assert_non_null(next);
	for (uint32_t at = 0, there = 0; groups_span(w.groups[n], &at, &from);) {
		assert_true(groups_span(next, &there, &to));
		assert_int_equal(from.len, to.len);
		memcpy(to.bytes, from.bytes, from.len);
		groups_adopt(next, &c);
		assert_int_equal(at, there);
	}
	memset(old, 0xA5, bytes);
	w.groups[n] = next;
	w.memory[n] = w.other[n];
	w.other[n] = old;
	w.moves++;
}

void
step(void)
{
	unsigned from = draw(ALL), to = draw(ALL);

	w.now++;
	for (uint16_t n = 0; n < NODES; n++) {
		if (w.up[n] && w.now >= groups_deadline(w.groups[n]))
			groups_tick(w.groups[n], w.now);
		w.frozen[n] |= w.up[n] && draw(200) == 0;
		if (!w.frozen[n])
			pull(n);
		if (w.frozen[n] && !groups_out(w.groups[n])) {
			moves(n);
			w.frozen[n] = false;
		}
	}
	for (unsigned tries = 0; tries < ALL * ALL && !deliver(from, to); tries++) {
		to = (to + 1) % ALL;
		from = to == 0 ? (from + 1) % ALL : from;
	}
	for (unsigned n = 0; n < ALL; n++)
		hear(n);
	for (unsigned i = 0; i < UPDATES; i++) {
		if (w.updates[i].used && draw(10) == 0)
			update_goes_on(&w.updates[i]);
	}
	copies_go_on();
	casts_go_on();
}

/* Nothing is under way, and nobody waits. */
static bool
is_idle(void)
{
	for (unsigned a = 0; a < ALL; a++) {
		for (unsigned b = 0; b < ALL; b++) {
			if (w.flows[a][b].head != w.flows[a][b].tail && w.up[node_of(a)])
				return false;
		}
		for (uint32_t r = 0; r < REGIONS; r++) {
			if (w.actors[a].copies[r].copying)
				return false;
		}
		if (lives(a) && !w.actors[a].ended && w.actors[a].sent.runs)
			return false;
	}
	for (unsigned i = 0; i < AIR; i++) {
		if (w.air[i].used)
			return false;
	}
	for (uint32_t r = 0; r < REGIONS; r++) {
		if (under_way(r) > 0)
			return false;
	}
	return true;
}

void
settle(void)
{
	for (unsigned idle = 0, steps = 0; idle < 300; steps++) {
		step();
		idle = is_idle() ? idle + 1 : 0;
		assert_true(steps < 1000000);
	}
}

void
notice(void)
{
	for (unsigned at = 0; at < NODES * NODES; at++) {
		uint16_t n = (uint16_t)(at / NODES), dead = (uint16_t)(at % NODES);

		if (w.up[n] && !w.up[dead])
			groups_node_gone(w.groups[n], dead, 0);
	}
}

void
all_ends(void)
{
	for (unsigned round = 0; round < 60; round++) {
		uint32_t last = 0;

		notice();
		settle();
		for (unsigned n = 0; n < ALL; n++)
			last = w.actors[n].entered > last ? w.actors[n].entered : last;
		for (unsigned n = 0; n < ALL; n++) {
			struct actor *a = &w.actors[n];

			if (!lives(n) || !a->opened || a->ended)
				continue;
			if (!a->in_barrier && a->entered < last)
				enters(n);
			for (uint32_t l = 0; l < LOCKS; l++) {
				if (a->holds[l])
					group_unlock(w.groups[node_of(n)], ctx_of(n),
						(uint32_t)a->place, l);
				a->holds[l] = false;
			}
		}
	}
	settle();
	for (unsigned n = 0; n < ALL; n++) {
		const struct actor *a = &w.actors[n];

		if (!lives(n))
			continue;
		if (!a->opened && !a->failed) {
			print_error("rank %u waits for the group to open\n", a->rank);
			fail();
		}
		if (a->in_barrier) {
			print_error("rank %u waits in barrier %u\n", a->rank, a->entered);
			fail();
		}
		for (uint32_t l = 0; l < LOCKS; l++) {
			if (a->asks[l]) {
				print_error("rank %u waits for lock %u\n", a->rank, l);
				fail();
			}
		}
	}
}

void
all_go(void)
{
	for (unsigned n = 0; n < ALL; n++) {
		if (lives(n))
			closes(n);
		if (draw(3) == 0)
			settle();
	}
	notice();
	settle();
	for (unsigned n = 0; n < ALL; n++) {
		if (!w.up[node_of(n)] || w.actors[n].life == ABSENT)
			continue;
		if (!groups_left(w.groups[node_of(n)], ctx_of(n))) {
			print_error("rank %u has not left\n", w.actors[n].rank);
			fail();
		}
		assert_true(w.actors[n].life == AWAY || w.actors[n].life == DEAD);
	}
}
