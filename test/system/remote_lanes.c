/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts of several lanes, in pairs of every kind.
 * See remote.c.
 */
#include "remote.h"

/* ------------------------------------------------------------------ lanes */

#define LANES         2
#define LANE_CONTEXTS 4 /* on each node */
#define ENDS          (2 * LANE_CONTEXTS)
#define LANE_TASKS    4
/* of a task in each memory of each end; its margins stay as they were */
#define SLICE         (64u << 10)
#define MARGIN        64
#define LANE_MEMORY   ((uint64_t)ENDS * LANE_TASKS * SLICE)
#define AREA          5

const char *const pairs_name[PAIRS] = {"between_nodes", "within_a_node_same_lane",
	"within_a_node_other_lane", "all_at_once"};

struct lane_task {
	bool busy, pull;
	unsigned to, where, from; /* end, memory there, memory here */
	uint64_t off, len;
	uint8_t *at;
	pmx_transfer_id id;
};

static struct lane_end {
	struct pmx_context *ctx;
	unsigned number; /* of ENDS */
	uint8_t *memory[PLACES], *local[PLACES];
	struct pmx_remote mine[PLACES], remote[ENDS][PLACES];
	unsigned known;
	struct lane_task tasks[LANE_TASKS];
	uint8_t *mirror[LANE_TASKS][ENDS][PLACES]; /* what the slices must hold */
} lane_ends[LANE_CONTEXTS];

static uint64_t
lane_slice(const struct lane_end *by, unsigned task)
{
	return ((uint64_t)by->number * LANE_TASKS + task) * SLICE;
}

static void
open_lane_end(unsigned on, unsigned number)
{
	struct lane_end *e = &lane_ends[number];
	int r;

	e->number = on * LANE_CONTEXTS + number;
	e->ctx = open_context((uint16_t)number);
	get_pages(e->ctx, e->memory, LANE_MEMORY);
	get_pages(e->ctx, e->local, LANE_TASKS * SLICE);
	for (unsigned w = 0; w < PLACES; w++) {
		fill(e->memory[w], LANE_MEMORY, w, e->number, 0);
		r = w == BY_ENGINE ? pmx_area_register(e->ctx, AREA, e->memory[w], LANE_MEMORY,
					     PMX_ANYONE | access_to(w), &e->mine[w])
				   : pmx_register(e->ctx, e->memory[w], LANE_MEMORY, access_to(w),
					     &e->mine[w]);
		if (r != 0)
			app_fails("registering memory of %s: %s", where_name[w], pmx_strerror(r));
	}
	for (unsigned k = 0; k < LANE_TASKS; k++) {
		for (unsigned to = 0; to < ENDS; to++) {
			for (unsigned w = 0; w < PLACES; w++) {
				e->mirror[k][to][w] = malloc(SLICE);
				if (e->mirror[k][to][w] == NULL)
					app_fails("no memory");
				fill(e->mirror[k][to][w], SLICE, w, to, lane_slice(e, k));
			}
		}
	}
}

/* Every end tells every end; its own included. */
void
introduce(void)
{
	double end = now_s() + TRANSFER_S;
	unsigned known = 0;

	for (unsigned c = 0; c < LANE_CONTEXTS; c++) {
		for (unsigned to = 0; to < ENDS; to++) {
			const struct pmx_addr peer = {(uint16_t)(to / LANE_CONTEXTS),
				(uint16_t)(to % LANE_CONTEXTS)};
			int r = pmx_send_copy(lane_ends[c].ctx, peer, lane_ends[c].mine,
				sizeof(lane_ends[c].mine), NULL);

			if (r != 0)
				app_fails("introducing: %s", pmx_strerror(r));
		}
	}
	while (known < LANE_CONTEXTS * ENDS && now_s() < end) {
		for (unsigned c = 0; c < LANE_CONTEXTS; c++) {
			struct pmx_message m;

			while (pmx_receive(lane_ends[c].ctx, &m) == 1) {
				unsigned from = m.source.node * LANE_CONTEXTS + m.source.context;

				if (from >= ENDS || m.len != sizeof(lane_ends[c].mine))
					app_fails("a message of %u bytes", m.len);
				pmx_message_read(lane_ends[c].ctx, &m, 0, lane_ends[c].remote[from],
					m.len);
				pmx_release_receive_buffer(lane_ends[c].ctx, &m);
				known++;
			}
		}
		sched_yield();
	}
	if (known < LANE_CONTEXTS * ENDS)
		app_fails("%u of %u introductions came", known, LANE_CONTEXTS * ENDS);
	say("done");
}

static bool
is_pair(enum pairs pairs, unsigned a, unsigned b)
{
	bool same_node = a / LANE_CONTEXTS == b / LANE_CONTEXTS;
	bool same_lane = a % LANE_CONTEXTS % LANES == b % LANE_CONTEXTS % LANES;

	return pairs == ANY ||
		(pairs == OTHER_NODE ? !same_node : same_node && same_lane == (pairs == SAME_LANE));
}

static void
name_task(const struct lane_end *e, const struct lane_task *t, char name[WORD_MAX])
{
	snprintf(name, WORD_MAX, "a %s of %lu bytes by %u:%u in %s, %u:%u in %s",
		t->pull ? "pull" : "push", t->len, e->number / LANE_CONTEXTS,
		e->number % LANE_CONTEXTS, where_name[t->from], t->to / LANE_CONTEXTS,
		t->to % LANE_CONTEXTS, where_name[t->where]);
}

static void
begin_task(struct lane_end *e, struct lane_task *t, enum pairs pairs)
{
	unsigned k = (unsigned)(t - e->tasks);
	char name[WORD_MAX];

	do
		t->to = draw() % ENDS;
	while (!is_pair(pairs, e->number, t->to));
	t->pull = draw() % 2;
	t->where = draw() % PLACES;
	t->from = draw() % PLACES;
	t->len = draw() % (1ull << (3 + draw() % 14)) % (SLICE - 2 * MARGIN);
	t->off = MARGIN + draw() % (SLICE - 2 * MARGIN - t->len + 1);
	t->at = e->local[t->from] + k * SLICE + draw() % 8;

	const struct pmx_remote *remote = &e->remote[t->to][t->where];
	struct pmx_transfer x = {
		.peer = remote->owner,
		.key = remote->key,
		.remote = remote->addr + lane_slice(e, k) + t->off,
		.local = t->at,
		.len = t->len,
		.flags = draw() % 4 ? 0 : PMX_ORDERED,
	};

	if (t->where == BY_ENGINE && draw() % 2) {
		x.flags |= PMX_AREA;
		x.key = AREA;
		x.remote -= remote->addr;
	}
	if (t->pull)
		memset(t->at, 0, t->len);
	else
		fill(t->at, t->len, 0, draw(), 0);
	int r = issue(e->ctx, t->pull, &x, &t->id);

	if (r != 0) {
		name_task(e, t, name);
		app_fails("%s: %s", name, pmx_strerror(r));
	}
	t->busy = true;
}

static bool
end_task(struct lane_end *e, struct lane_task *t)
{
	uint8_t *mirror = e->mirror[t - e->tasks][t->to][t->where] + t->off;
	int r = pmx_transfer_done(e->ctx, t->id);
	char name[WORD_MAX];

	if (r == 0)
		return false;
	t->busy = false;
	name_task(e, t, name);
	if (r != 1)
		app_fails("%s: %d %s", name, r, pmx_strerror(r));
	if (!t->pull)
		memcpy(mirror, t->at, t->len);
	else if (memcmp(mirror, t->at, t->len) != 0)
		app_fails("%s: other bytes", name);
	return true;
}

static void
run_lanes(enum pairs pairs, unsigned n)
{
	unsigned begun = 0, ended = 0;
	double since = now_s(), start = since;

	while (ended < n) {
		unsigned before = ended;

		for (unsigned c = 0; c < LANE_CONTEXTS; c++) {
			for (unsigned k = 0; k < LANE_TASKS; k++) {
				struct lane_task *t = &lane_ends[c].tasks[k];

				if (t->busy)
					ended += end_task(&lane_ends[c], t);
				if (!t->busy && begun < n) {
					begin_task(&lane_ends[c], t, pairs);
					begun++;
				}
			}
		}
		if (ended != before)
			since = now_s();
		else
			sched_yield();
		if (now_s() - since < TRANSFER_S)
			continue;
		for (unsigned i = 0; i < LANE_CONTEXTS * LANE_TASKS; i++) {
			struct lane_task *t = &lane_ends[i / LANE_TASKS].tasks[i % LANE_TASKS];
			char name[WORD_MAX];

			name_task(&lane_ends[i / LANE_TASKS], t, name);
			if (t->busy)
				app_fails("no transfer ended for %d s, %u of %u did; %s",
					TRANSFER_S, ended, n, name);
		}
	}
	say("done %u transfers in %.2f s", n, now_s() - start);
}

/* All of their slices, margins as well. */
static void
compare_slices(enum pairs pairs)
{
	for (unsigned c = 0; c < LANE_CONTEXTS; c++) {
		struct lane_end *e = &lane_ends[c];

		ctx = e->ctx;
		for (unsigned i = 0; i < LANE_TASKS * ENDS * PLACES; i++) {
			unsigned k = i / PLACES / ENDS, to = i / PLACES % ENDS, w = i % PLACES;
			const struct pmx_remote *remote = &e->remote[to][w];

			if (!is_pair(pairs, e->number, to))
				continue;
			struct pmx_transfer t = {
				.peer = remote->owner,
				.key = remote->key,
				.remote = remote->addr + lane_slice(e, k),
				.local = e->local[k % PLACES],
				.len = SLICE,
			};
			int r = transfer(true, &t);

			if (r != 1 || memcmp(t.local, e->mirror[k][to][w], SLICE) != 0)
				app_fails("slice %u of end %u at end %u in %s: %d, %s", k,
					e->number, to, where_name[w], r,
					r == 1 ? "other bytes" : pmx_strerror(r));
		}
	}
	say("done");
}

static void
lanes_application(unsigned on)
{
	char word[WORD_MAX];
	unsigned pairs, n;

	attach(on);
	expect_word("open");
	seed += on * 1000;
	for (unsigned c = 0; c < LANE_CONTEXTS; c++)
		open_lane_end(on, c);
	say("opened");
	for (;;) {
		next_word(word);
		if (strcmp(word, "end") == 0)
			leave();
		if (strncmp(word, "introduce ", 10) == 0)
			introduce();
		else if (sscanf(word, "compare %u", &pairs) == 1)
			compare_slices(pairs);
		else if (sscanf(word, "run %u %u", &pairs, &n) == 2)
			run_lanes(pairs, n);
		else
			app_fails("it was told '%s'", word);
	}
}

void
lanes_node_0(bool unused)
{
	(void)unused;
	lanes_application(0);
}

void
lanes_node_1(bool unused)
{
	(void)unused;
	lanes_application(1);
}
