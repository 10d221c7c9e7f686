/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives: every generator's lists, run by the executor with real bytes, on random trees, with
 * messages that take random times, against what the collective is to give, and again as they were
 * written and read as texts; the paper's worked example; and what is refused of tasks and texts.
 *
 * COLL_HISTORIES=N test_coll: so many random runs instead of 3000.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "coll/tour.h"
#include "coll_random.h"

/* ------------------------------------------------------------------ a run with real bytes */

#define RANKS_MAX  40
#define FLIGHT_MAX 4096

struct flight {
	struct coll_out o;
	uint32_t from, to;
	uint8_t *bytes;
	uint64_t number;
};

struct world {
	struct coll_plan *plan;
	struct coll_blocks blocks[COLL_BUFFERS];
	struct coll_exec *execs[RANKS_MAX];
	uint8_t *buffers[RANKS_MAX][COLL_BUFFERS];
	uint8_t *want[RANKS_MAX];
	struct flight *flights; /* in no order: of each pair, by their numbers */
	uint64_t sent;
	uint32_t flight_count, flight_cap;
	uint64_t now, total;
	uint64_t outstanding_most;
};

/* Return where byte `offset` of a step's buffer lies. At most *len bytes from there on lie
 * together; set *len to how many. */
static uint8_t *
bytes_of(struct world *w, uint32_t rank, const struct coll_step *s, bool to, uint32_t index,
	uint64_t offset, uint64_t *len)
{
	const uint8_t buffer = to ? s->to : s->from;
	const struct coll_list *l = &w->plan->lists[rank];
	uint64_t at, end;

	if (buffer != COLL_SCRATCH) {
		end = w->total;
		at = block_at(&w->blocks[buffer], s->block) + offset;
		at -= at >= end ? end : 0; /* a run goes on at block 0 */
	} else {
		const uint32_t recv = s->op == COLL_RECV ? index : to ? s->target : s->source;

		at = coll_scratch_place(w->execs[rank], recv, offset);
		end = (at / l->area_bytes + 1) * l->area_bytes;
	}
	*len = *len < end - at ? *len : end - at;
	return &w->buffers[rank][buffer][at];
}

/* Copies between a message and a step's buffer. */
static void
copy(struct world *w, uint32_t rank, uint32_t step, uint64_t offset, uint8_t *bytes, uint64_t len,
	bool to)
{
	const struct coll_step *s = &w->plan->lists[rank].steps[step];

	for (uint64_t n; len > 0; len -= n, offset += n, bytes += n) {
		n = len;
		uint8_t *at = bytes_of(w, rank, s, to, step, offset, &n);

		if (to)
			memcpy(at, bytes, n);
		else
			memcpy(bytes, at, n);
	}
}

/* A REDUCE or COPY. */
static void
work(struct world *w, uint32_t rank, const struct coll_out *o)
{
	const struct coll_step *s = &w->plan->lists[rank].steps[o->step];

	for (uint64_t done = 0, n; done < o->len; done += n) {
		n = o->len - done;
		uint8_t *to = bytes_of(w, rank, s, true, o->step, o->offset + done, &n);
		const uint8_t *from = bytes_of(w, rank, s, false, o->step, o->offset + done, &n);

		for (uint64_t i = 0; i < n; i++)
			to[i] = s->op == COLL_COPY ? from[i] : (uint8_t)(to[i] + from[i]);
	}
}

static void
depart(struct world *w, uint32_t rank, const struct coll_out *o)
{
	if (o->go == COLL_GO_LOCAL) {
		work(w, rank, o);
		return;
	}
	if (w->flight_count == w->flight_cap) {
		w->flight_cap = w->flight_cap ? 2 * w->flight_cap : 256;
		w->flights = realloc(w->flights, w->flight_cap * sizeof(*w->flights));
		assert_non_null(w->flights);
	}
	struct flight *f = &w->flights[w->flight_count++];

	*f = (struct flight){*o, rank, o->peer, NULL, w->sent++};
	if (o->go == COLL_GO_PIECE) {
		assert_in_range(o->len, 0, w->plan->lists[rank].piece);
		f->bytes = malloc(o->len + 1);
		copy(w, rank, o->step, o->offset, f->bytes, o->len, false);
	}
}

static void
pump(struct world *w, uint32_t rank)
{
	struct coll_out o;

	while (coll_next(w->execs[rank], &o, w->now))
		depart(w, rank, &o);
	const struct coll_list *l = &w->plan->lists[rank];

	if (l->window)
		assert_true(coll_outstanding(w->execs[rank]) <=
			l->window + (l->grain > l->piece ? l->grain : l->piece));
}

/* Deliver a random message that is the first of its pair. */
static void
deliver(struct world *w)
{
	uint32_t i = random_below(w->flight_count);

	for (uint32_t k = 0; k < w->flight_count; k++) {
		if (w->flights[k].from == w->flights[i].from &&
			w->flights[k].to == w->flights[i].to &&
			w->flights[k].number < w->flights[i].number)
			i = k;
	}
	const struct flight f = w->flights[i];

	w->flights[i] = w->flights[--w->flight_count];
	struct coll_exec *c = w->execs[f.to];

	if (f.o.go == COLL_GO_PERMIT) {
		assert_true(coll_permitted(c, f.from, f.o.ordinal, f.o.len) >= 0);
	} else {
		const int step = coll_heard(c, f.from, f.o.ordinal, f.o.offset, f.o.len);

		assert_true(step >= 0);
		copy(w, f.to, (uint32_t)step, f.o.offset, f.bytes, f.o.len, true);
		coll_arrived(c, (uint32_t)step, f.o.len);
		/* the same piece again is refused */
		if (f.o.len > 0)
			assert_int_equal(coll_heard(c, f.from, f.o.ordinal, f.o.offset, f.o.len),
				-EPROTO);
		free(f.bytes);
	}
	pump(w, f.to);
}

static bool
all_done(const struct world *w)
{
	for (uint32_t r = 0; r < w->plan->ranks; r++) {
		if (!coll_is_done(w->execs[r]))
			return false;
	}
	return true;
}

/* Byte i of what a rank has for another one, or for all. */
static uint8_t
given(uint32_t rank, uint64_t i)
{
	return (uint8_t)(rank * 37 + i * 11 + (i >> 8) + 5);
}

/* Set *out to what byte i of a block is to be in the OUT of the rank at a place. Return false if
 * nothing is said about it. */
static bool
wanted(const struct world *w, uint32_t place, uint32_t block, uint64_t i, uint8_t *out)
{
	const struct coll_plan *p = w->plan;
	const struct coll_blocks *b = &w->blocks[COLL_OUT];
	const uint64_t at = block_at(b, block) + i;
	const uint32_t owner = p->block_count == p->ranks ? p->order[block] : 0;
	const uint32_t rank = p->order[place];

	*out = 0;
	switch (p->kind) {
	case COLL_GATHER:
		*out = given(owner, at);
		return rank == p->root;
	case COLL_ALLGATHER:
		*out = given(owner, at);
		return true;
	case COLL_SCATTER:
		*out = given(p->root, at);
		return rank == owner;
	case COLL_BCAST:
		*out = given(p->root, at);
		return true;
	case COLL_ALLTOALL:
		*out = given(owner, block_at(b, place) + i);
		return true;
	case COLL_REDUCE_TO:
	case COLL_ALLREDUCE:
	case COLL_REDUCE_SCATTER:
		for (uint32_t r = 0; r < p->ranks; r++)
			*out = (uint8_t)(*out + given(r, at));
		return p->kind == COLL_ALLREDUCE ||
			(p->kind == COLL_REDUCE_TO ? rank == p->root : rank == owner);
	case COLL_BARRIER:
	case COLL_KINDS:
		break;
	}
	return false;
}

static void
check_results(const struct world *w)
{
	const struct coll_blocks *b = &w->blocks[COLL_OUT];

	for (uint32_t place = 0; place < w->plan->ranks; place++) {
		const uint32_t r = w->plan->order[place];

		for (uint32_t block = 0; block < b->count; block++) {
			const uint64_t len = coll_run_bytes(b, block, 1);

			for (uint64_t i = 0; i < len; i++) {
				uint8_t want;

				if (!wanted(w, place, block, i, &want))
					break;
				if (w->buffers[r][COLL_OUT][block_at(b, block) + i] != want)
					fail_msg("%s %s of %u, %lu bytes: rank %u, block %u, byte "
						 "%lu",
						coll_generator_name[w->plan->generator],
						coll_kind_name[w->plan->kind], w->plan->ranks,
						w->plan->bytes, r, block, i);
			}
		}
	}
}

static void
run_plan(struct coll_plan *p)
{
	static struct world w;
	uint32_t bad;

	memset(&w, 0, sizeof(w));
	w.plan = p;
	coll_plan_blocks(p, w.blocks);
	w.total = coll_run_bytes(&w.blocks[0], 0, p->block_count);
	assert_int_equal(w.total,
		p->block_count == p->ranks && p->ends == NULL ? p->ranks * p->bytes : p->bytes);
	for (uint32_t r = 0; r < p->ranks; r++) {
		const struct coll_list *l = &p->lists[r];

		if (coll_check(l, w.blocks, &bad) != 0)
			fail_msg("%s %s, rank %u: step %u is refused",
				coll_generator_name[p->generator], coll_kind_name[p->kind], r, bad);
		for (unsigned k = 0; k < COLL_BUFFERS; k++) {
			w.buffers[r][k] = calloc(1, w.total + l->areas * l->area_bytes + 1);
			for (uint64_t i = 0; k == COLL_IN && i < w.total; i++)
				w.buffers[r][k][i] = given(r, i);
		}
		w.execs[r] = coll_exec_init(aligned_alloc(16, coll_exec_bytes(l)), l, w.blocks, 0);
	}
	/* some begin late */
	for (uint32_t r = 0; r < p->ranks; r++)
		pump(&w, r);
	while (!all_done(&w)) {
		if (w.flight_count > 0 && random_below(8) != 0) {
			deliver(&w);
			continue;
		}
		uint64_t next = COLL_NEVER;

		for (uint32_t r = 0; r < p->ranks; r++) {
			const uint64_t at = coll_deadline(w.execs[r]);

			next = at < next ? at : next;
		}
		if (next == COLL_NEVER && w.flight_count == 0)
			fail_msg("%s %s of %u, %lu bytes: nothing goes on",
				coll_generator_name[p->generator], coll_kind_name[p->kind],
				p->ranks, p->bytes);
		if (next != COLL_NEVER && next > w.now)
			w.now = next;
		for (uint32_t r = 0; r < p->ranks; r++)
			pump(&w, r);
	}
	assert_int_equal(w.flight_count, 0);
	check_results(&w);
	for (uint32_t r = 0; r < p->ranks; r++) {
		assert_int_equal(coll_outstanding(w.execs[r]), 0);
		free(w.execs[r]);
		for (unsigned k = 0; k < COLL_BUFFERS; k++)
			free(w.buffers[r][k]);
	}
	free(w.flights);
}

/* The plan as it is after it was written and read, to be freed; the other one is. What is read is
 * written the same again. */
static struct coll_plan *
again(struct coll_plan *p)
{
	char *texts[2], error[200] = "";
	struct coll_plan *read[2];
	size_t len;

	for (unsigned i = 0; i < 2; i++) {
		FILE *f = open_memstream(&texts[i], &len);

		assert_int_equal(coll_plan_write(i ? read[0] : p, f), 0);
		fclose(f);
		if (coll_plan_read(texts[i], &read[i], error, sizeof(error)) != 0)
			fail_msg("%s:\n%s", error, texts[i]);
	}
	assert_string_equal(texts[0], texts[1]);
	assert_int_equal(read[0]->hash, read[1]->hash);
	assert_int_equal(read[0]->step_count, p->step_count);
	for (unsigned i = 0; i < 2; i++)
		free(texts[i]);
	coll_plan_free(read[1]);
	coll_plan_free(p);
	return read[0];
}

/* The most bytes of a block that a generator does; 0: any. */
static uint64_t
bytes_most(enum coll_generator g, enum coll_kind kind, uint32_t ranks)
{
	const uint64_t piece = params.frame_payload - params.message_head;

	if (g == COLL_DOUBLING && kind == COLL_REDUCE_SCATTER)
		return piece / ranks;
	return g == COLL_AT_ONCE &&
			(kind == COLL_ALLGATHER || kind == COLL_ALLREDUCE ||
				kind == COLL_REDUCE_SCATTER)
		? piece
		: 0;
}

static void
run_one(enum coll_generator g, enum coll_kind kind, const struct topology *t, uint32_t ranks,
	uint32_t root, uint64_t bytes, const uint16_t *nodes)
{
	const struct coll_task task = {
		.kind = kind,
		.topology = t,
		.nodes = nodes,
		.ranks = ranks,
		.root = root,
		.bytes = bytes,
		.params = params,
		.only = COLL_NONE,
	};
	struct coll_plan *p = NULL;
	struct coll_cost cost;

	const int e = coll_plan_make(g, &task, &p);

	if (e == -EOPNOTSUPP && bytes > bytes_most(g, kind, ranks) &&
		bytes_most(g, kind, ranks) > 0)
		return;
	assert_int_equal(e, 0);
	if (coll_plan_evaluate(p, &task, &cost) != 0)
		fail_msg("%s %s of %u, %lu bytes does not end", coll_generator_name[g],
			coll_kind_name[kind], ranks, bytes);
	run_plan(p);
	p = again(p);
	run_plan(p);
	coll_plan_free(p);
}

/* ------------------------------------------------------------------ tests */

/* Every generator, for few and many ranks, and for sizes around what is a piece. */
static void
coll_plan__every_generator(void **state)
{
	static const uint32_t counts[] = {1, 2, 3, 4, 5, 7, 8, 13, 16, 17};
	static const uint64_t sizes[] = {0, 1, 8, 1000, 2876, 2877, 40000};
	const bool quick = getenv("COLL_HISTORIES") != NULL;

	(void)state;
	for (unsigned g = 0; g < COLL_GENERATORS; g++) {
		for (unsigned kind = 0; kind < COLL_KINDS; kind++) {
			if (!coll_generator_does(g, kind))
				continue;
			for (unsigned i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
				struct topology *t = random_tree(counts[i], 4);
				/* the longest among many take most of the time */
				const unsigned n = sizeof(sizes) / sizeof(sizes[0]) -
					(quick && counts[i] > 8);

				for (unsigned k = 0; k < n; k++)
					run_one(g, kind, t, counts[i], random_below(counts[i]),
						kind == COLL_BARRIER ? 0 : sizes[k], NULL);
				topology_free(t);
			}
		}
	}
}

static void
coll_plan__random(void **state)
{
	const char *histories = getenv("COLL_HISTORIES");
	const unsigned n = histories ? (unsigned)atoi(histories) : 3000;

	(void)state;
	for (unsigned i = 0; i < n; i++) {
		state_of_random = 1000 + i;
		const uint32_t hosts = 1 + random_below(24), ranks = 1 + random_below(32);
		const unsigned g = random_below(COLL_GENERATORS), kind = random_below(COLL_KINDS);
		uint16_t nodes[32];

		if (!coll_generator_does(g, kind))
			continue;
		struct topology *t = random_tree(hosts, 4);

		for (uint32_t r = 0; r < ranks; r++)
			nodes[r] = (uint16_t)random_below(hosts);
		run_one(g, kind, t, ranks, random_below(ranks),
			kind == COLL_BARRIER ? 0 : random_below(random_below(2) ? 20000 : 300),
			nodes);
		topology_free(t);
	}
}

/* Return whether a plan's messages are all between those that may connect. */
static bool
keeps_to_pairs(const struct coll_plan *p, const struct topology *t, const uint16_t *nodes)
{
	for (uint32_t r = 0; r < p->ranks; r++) {
		for (uint32_t i = 0; i < p->lists[r].count; i++) {
			const struct coll_step *s = &p->lists[r].steps[i];

			if (s->op <= COLL_RECV && !topology_may_talk(t, nodes[r], nodes[s->peer]))
				return false;
		}
	}
	return true;
}

/* Return whether the first rank reaches all others, directly or by way of others. */
static bool
are_joined(const struct topology *t, const uint16_t *nodes, uint32_t ranks)
{
	bool is_in[32] = {true};
	uint32_t wave[32] = {0}, count = 1;

	for (uint32_t at = 0; at < count; at++) {
		for (uint32_t q = 0; q < ranks; q++) {
			if (!is_in[q] && topology_may_talk(t, nodes[wave[at]], nodes[q])) {
				is_in[q] = true;
				wave[count++] = q;
			}
		}
	}
	return count == ranks;
}

/* Check that a generator that knows nothing of overlays keeps to this one, or makes no plan. Return
 * whether it makes one. */
static bool
check_other(unsigned other, const struct coll_task *task)
{
	struct coll_task own = *task;
	struct coll_plan *p;
	const int e = coll_plan_make(other, task, &p);

	assert_true(e == 0 || e == -EOPNOTSUPP);
	if (e == 0) {
		assert_true(keeps_to_pairs(p, task->topology, task->nodes));
		coll_plan_free(p);
	}
	/* who makes its own list alone finds the same */
	own.only = random_below(task->ranks);
	p = NULL;
	assert_int_equal(coll_plan_make(other, &own, &p), e);
	coll_plan_free(p);
	return e == 0;
}

/* Random overlays: sites whose hosts may talk, a few gateways between them, some pairs besides.
 * What is planned keeps to that and comes to its end, or some cannot be reached. Also by a
 * generator that knows nothing of overlays, if it happens to keep to them. */
static void
coll_plan__overlays(void **state)
{
	const char *histories = getenv("COLL_HISTORIES");
	const unsigned n = histories ? (unsigned)atoi(histories) : 3000;
	unsigned relayed = 0, unreached = 0, others = 0;

	(void)state;
	for (unsigned i = 0; i < n; i++) {
		state_of_random = 770000 + i;
		const uint32_t hosts = 1 + random_below(20), ranks = 1 + random_below(24);
		const unsigned kind = random_below(COLL_KINDS),
			       other = random_below(COLL_GENERATORS);
		struct topology *t = random_overlay(hosts);
		uint16_t nodes[32];
		struct coll_plan *p;

		for (uint32_t r = 0; r < ranks; r++)
			nodes[r] = (uint16_t)random_below(hosts);
		const struct coll_task task = {
			.kind = (enum coll_kind)kind,
			.topology = t,
			.nodes = nodes,
			.ranks = ranks,
			.root = random_below(ranks),
			.bytes = kind == COLL_BARRIER ? 0
						      : random_below(random_below(2) ? 20000 : 300),
			.params = params,
			.only = COLL_NONE,
		};
		const bool joined = are_joined(t, nodes, ranks);
		int e = coll_plan_make(COLL_EARLIEST, &task, &p);

		assert_int_equal(e, joined ? 0 : -EHOSTUNREACH);
		if (e == 0) {
			assert_true(keeps_to_pairs(p, t, nodes));
			coll_plan_free(p);
			run_one(COLL_EARLIEST, task.kind, t, ranks, task.root, task.bytes, nodes);
			relayed += !coll_may_all_talk(&task);
		}
		unreached += e != 0;
		e = i % 4 == 0 ? coll_plan_best(&task, &p, NULL) : -EAGAIN;
		assert_true(e == -EAGAIN || e == (joined ? 0 : -EHOSTUNREACH));
		if (e == 0) {
			assert_true(keeps_to_pairs(p, t, nodes));
			coll_plan_free(p);
		}
		if (coll_generator_does(other, task.kind) && other != COLL_EARLIEST)
			others += check_other(other, &task);
		topology_free(t);
	}
	/* all three were met often enough to count */
	assert_true(relayed > n / 4 && unreached > n / 50 && others > n / 50);
}

/* The worked example of the design: its section 2. */
static const char worked[] = "switch s0\nswitch s1\nhost r\nhost a\nhost b\nhost c\nhost d\n"
			     "link r s0 bandwidth=1G latency=5us\n"
			     "link a s0 bandwidth=%s latency=5us\n"
			     "link b s0 bandwidth=1G latency=5us\n"
			     "link c s1 bandwidth=1G latency=5us\n"
			     "link d s1 bandwidth=1G latency=5us\n"
			     "link s0 s1 bandwidth=1G latency=100us\n";

static struct coll_plan *
paper_plan(const char *a)
{
	char text[1024];

	snprintf(text, sizeof(text), worked, a);
	struct topology *t = parsed(text);
	/* no headers, and frames that take no time, as in the page's example */
	const struct coll_task task = {
		.kind = COLL_GATHER,
		.topology = t,
		.ranks = 5,
		.bytes = 125000,
		.params = {.frame_payload = 1, .frame_least = 0, .piece = 125000},
		.only = COLL_NONE,
	};
	struct coll_plan *p = NULL;

	assert_int_equal(coll_plan_make(COLL_PAPER, &task, &p), 0);
	topology_free(t);
	return p;
}

static void
coll_plan__paper_example(void **state)
{
	static const uint16_t tour[] = {0, 1, 2, 3, 4};
	struct coll_plan *p = paper_plan("1G");

	(void)state;
	assert_memory_equal(p->order, tour, sizeof(tour));
	for (unsigned i = 1; i < 5; i++) {
		static const uint64_t us[] = {0, 1010, 2020, 3130, 4140};

		assert_in_range(p->paper_ns[i], us[i] * 1000 - 100, us[i] * 1000 + 100);
	}
	coll_plan_free(p);
	/* a slow host comes last, in turn */
	p = paper_plan("100M");
	assert_int_equal(p->order[4], 1);
	assert_in_range(p->paper_ns[1], 13150000 - 300, 13150000 + 300);
	coll_plan_free(p);
}

static void
coll_plan__refuses(void **state)
{
	struct topology *t = parsed("switch s\nhost h[0-3]\n"
				    "link h[0-3] s bandwidth=1G latency=1us\n");
	struct coll_task task = {
		.kind = COLL_GATHER,
		.topology = t,
		.ranks = 4,
		.bytes = 100,
		.params = params,
		.only = COLL_NONE,
	};
	struct coll_plan *p = NULL;

	(void)state;
	assert_int_equal(coll_plan_make(COLL_RING, &task, &p), -EOPNOTSUPP);
	task.ranks = 5; /* there is no node 4 */
	assert_int_equal(coll_plan_make(COLL_AT_ONCE, &task, &p), -EINVAL);
	task.ranks = 4;
	task.root = 4;
	assert_int_equal(coll_plan_make(COLL_AT_ONCE, &task, &p), -EINVAL);
	task.root = 0;
	task.ranks = 0;
	assert_int_equal(coll_plan_make(COLL_AT_ONCE, &task, &p), -EINVAL);
	assert_null(p);
	topology_free(t);
}

/* All ranks get the same hash, and one rank's list alone is what it is among all. */
static void
coll_plan__one_rank(void **state)
{
	struct topology *t = random_tree(9, 4);

	(void)state;
	for (unsigned g = 0; g < COLL_GENERATORS; g++) {
		for (unsigned kind = 0; kind < COLL_KINDS; kind++) {
			struct coll_task task = {
				.kind = kind,
				.topology = t,
				.ranks = 9,
				.root = 4,
				.bytes = bytes_most(g, kind, 9) > 0 ? 100 : 5000,
				.params = params,
				.only = COLL_NONE,
			};
			struct coll_plan *all, *one;

			if (!coll_generator_does(g, kind))
				continue;
			assert_int_equal(coll_plan_make(g, &task, &all), 0);
			for (uint32_t r = 0; r < 9; r++) {
				task.only = r;
				assert_int_equal(coll_plan_make(g, &task, &one), 0);
				assert_int_equal(one->hash, all->hash);
				assert_int_equal(one->step_count, all->lists[r].count);
				assert_memory_equal(one->lists[r].steps, all->lists[r].steps,
					one->step_count * sizeof(struct coll_step));
				coll_plan_free(one);
			}
			coll_plan_free(all);
		}
	}
	topology_free(t);
}

/* ------------------------------------------------------------------ texts */

#define PLAN  "plan bcast chain ranks=2 root=0 bytes=10 blocks=1\n"
#define SENDS "rank 0 piece=10\nsend peer=1 from=in\n"

static const struct {
	const char *text, *says;
} unreadable[] = {
	{"", "0 of 0 ranks"},
	{"rank 0\n", "line 1: 'rank': the first line is plan"},
	{"plan bcast trees ranks=2\n", "line 1: plan KIND GENERATOR"},
	{"plan all chain ranks=2\n", "line 1: plan KIND GENERATOR"},
	{"plan bcast\n", "line 1: plan KIND GENERATOR"},
	{"plan bcast chain ranks=0 blocks=1\n", "line 1: 1 to 4096 ranks"},
	{"plan bcast chain ranks=5000 blocks=1\n", "line 1: 1 to 4096 ranks"},
	{"plan bcast chain ranks=2 root=2 blocks=1\n", "of which root is one"},
	{"plan bcast chain ranks=2 blocks=0\n", "1 block or as many"},
	{"plan bcast chain ranks=2 blocks=9\n", "1 block or as many"},
	{"plan bcast chain ranks=two\n", "line 1: ranks=two: a number is expected"},
	{"plan bcast chain ranks=-1\n", "line 1: ranks=-1: a number is expected"},
	{"plan bcast chain nodes=2\n", "line 1: 'nodes': unknown"},
	{PLAN PLAN, "line 2: there is a plan already"},
	{PLAN "order 0 2\n", "line 2: order: 2 ranks, each from 0 to 1"},
	{PLAN "order 0 0\n", "line 2: order: rank 0 is there already"},
	{PLAN "order 0 1 1\n", "line 2: order: 2 ranks"},
	{PLAN "ends 1 2\n", "line 2: ends: 1 numbers"},
	{PLAN "send peer=1\n", "line 2: a step before the first rank"},
	{PLAN "rank 1\n", "line 2: rank 0 is next, of 2"},
	{PLAN "rank 0\nrank 0\n", "line 3: rank 1 is next, of 2"},
	{PLAN "rank 0 piece=99999999999\n", "of 32 bits at most"},
	{PLAN "rank 0 piece=10\nfly peer=1\n", "line 3: 'fly': a line begins with"},
	{PLAN "rank 0 piece=10\nsend peer=1 from=out of\n", "line 3: 'of': unknown"},
	{PLAN "rank 0 piece=10\nsend peer=1 from=there\n", "'from=there': in, out or scratch"},
	{PLAN "order 0 1\n" SENDS, "1 of 2 ranks"},
	{PLAN SENDS "rank 1 piece=10\n", "2 of 2 ranks, 0 of them in order"},
	{PLAN "order 0 1\nrank 0\nrank 1\n", "rank 0: its numbers cannot be"},
	{PLAN "order 0 1\nrank 0 piece=10\nsend peer=0 from=in\nrank 1 piece=10\n",
		"rank 0: step 0 cannot be"},
	{PLAN "order 0 1\nrank 0 piece=10\nsend peer=1 from=in after_0=0\nrank 1 "
	      "piece=10\n",
		"rank 0: step 0 cannot be"},
	{PLAN "order 0 1\n" SENDS "rank 1 piece=10\n", "step 0 of rank 0: rank 1 does not"},
	{PLAN "order 0 1\n" SENDS "rank 1 piece=10\nreceive peer=0 to=out eager\n",
		"step 0 of rank 0: rank 1 does not"},
	{PLAN "order 0 1\n" SENDS "rank 1 piece=10\nreceive peer=0 to=out\nreceive peer=0 "
	      "to=out\n",
		"1 steps receive what nobody sends"},
};

/* Check that a plan's text is refused for what it may not say, and with which sentence. */
static void
coll_plan_read__refuses(void **state)
{
	static const char good[] = "# to two\n" PLAN "order 0 # the root\norder 1\n" SENDS
				   "\nrank 1 piece=10\n  receive\tpeer=0 to=out # all\n";
	struct coll_plan *p;
	char error[200];

	(void)state;
	for (unsigned i = 0; i < sizeof(unreadable) / sizeof(*unreadable); i++) {
		error[0] = 0;
		assert_int_equal(coll_plan_read(unreadable[i].text, &p, error, sizeof(error)),
			-EINVAL);
		if (strstr(error, unreadable[i].says) == NULL)
			fail_msg("'%s', not '%s', of:\n%s", error, unreadable[i].says,
				unreadable[i].text);
	}
	assert_int_equal(coll_plan_read(good, &p, error, sizeof(error)), 0);
	assert_int_equal(p->lists[1].count, 1);
	coll_plan_free(p);
}

/* A plan that is written by hand may receive into scratch what no step takes from there. */
static void
coll_plan_evaluate__refuses_scratch_that_nobody_empties(void **state)
{
	static const char text[] = PLAN
		"order 0 1\n" SENDS
		"rank 1 piece=10 areas=1 area_bytes=10\nreceive peer=0 to=scratch\n";
	struct topology *t = parsed("switch s\nhost h[0-1]\n"
				    "link h[0-1] s bandwidth=1G latency=1us\n");
	const struct coll_task task = {
		.kind = COLL_BCAST,
		.topology = t,
		.ranks = 2,
		.bytes = 10,
		.params = params,
	};
	struct coll_plan *p;
	struct coll_cost cost;
	char error[200];

	(void)state;
	assert_int_equal(coll_plan_read(text, &p, error, sizeof(error)), 0);
	assert_int_equal(coll_plan_evaluate(p, &task, &cost), -EINVAL);
	coll_plan_free(p);
	topology_free(t);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(coll_plan_read__refuses),
		cmocka_unit_test(coll_plan_evaluate__refuses_scratch_that_nobody_empties),
		cmocka_unit_test(coll_plan__every_generator),
		cmocka_unit_test(coll_plan__random),
		cmocka_unit_test(coll_plan__overlays),
		cmocka_unit_test(coll_plan__paper_example),
		cmocka_unit_test(coll_plan__refuses),
		cmocka_unit_test(coll_plan__one_rank),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
