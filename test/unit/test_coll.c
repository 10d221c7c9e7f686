/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives: every generator's lists, run by the executor with real bytes, on random trees, with
 * messages that take random times, against what the collective is to give; what the executor
 * refuses; the paper's worked example; and random lists that nobody would write.
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
#include "core/wire/wire.h"

static const struct coll_params params = {
	.frame_payload = 1450,
	.frame_overhead = 88,
	.frame_least = 84,
	.message_head = 24,
};

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
		if (coll_generator_does(other, task.kind) && other != COLL_EARLIEST) {
			e = coll_plan_make(other, &task, &p);
			assert_true(e == 0 || e == -EOPNOTSUPP);
			if (e == 0) {
				assert_true(keeps_to_pairs(p, t, nodes));
				coll_plan_free(p);
				others++;
			}
			/* who makes its own list alone finds the same */
			struct coll_task own = task;

			own.only = random_below(ranks);
			p = NULL;
			assert_int_equal(coll_plan_make(other, &own, &p), e);
			coll_plan_free(p);
		}
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

/* ------------------------------------------------------------------ the executor */

static const struct coll_blocks two_blocks[COLL_BUFFERS] = {{2, 100, NULL}, {2, 100, NULL},
	{2, 100, NULL}};

/* To be freed; NULL: it is refused. */
static struct coll_exec *
begun(const struct coll_list *l)
{
	void *memory = aligned_alloc(16, coll_exec_bytes(l));
	struct coll_exec *c = coll_exec_init(memory, l, two_blocks, 0);

	if (c == NULL)
		free(memory);
	return c;
}

static int
checked(const struct coll_step *steps, uint32_t count)
{
	const struct coll_list l = {
		.steps = steps,
		.count = count,
		.ranks = 3,
		.rank = 1,
		.piece = 64,
		.areas = 2,
		.area_bytes = 128,
	};
	uint32_t bad;

	if (coll_check(&l, two_blocks, &bad) != 0)
		return -EINVAL;
	struct coll_exec *c = begun(&l);
	const bool good = c != NULL;

	free(c);
	return good ? 0 : -EINVAL;
}

static void
coll_run_bytes__goes_around(void **state)
{
	const uint64_t ends[4] = {10, 10, 25, 30};
	const struct coll_blocks even = {4, 7, NULL}, uneven = {4, 0, ends};

	(void)state;
	for (uint32_t block = 0; block < 4; block++) {
		for (uint32_t blocks = 0; blocks <= 4; blocks++) {
			static const uint64_t lens[4] = {10, 0, 15, 5};
			uint64_t sum = 0;

			for (uint32_t i = 0; i < blocks; i++)
				sum += lens[(block + i) % 4];
			assert_int_equal(coll_run_bytes(&uneven, block, blocks), sum);
			assert_int_equal(coll_run_bytes(&even, block, blocks), 7 * blocks);
		}
	}
	/* no blocks are nowhere */
	assert_int_equal(coll_run_bytes(&uneven, UINT16_MAX, 0), 0);
}

#define NOTHING                                                                                    \
	{                                                                                          \
		COLL_NONE, COLL_NONE                                                               \
	}

static void
coll_check__refuses(void **state)
{
	struct coll_step s[2] = {
		{.op = COLL_RECV, .to = COLL_SCRATCH, .after = NOTHING, .blocks = 1},
		{
			.op = COLL_SEND,
			.flags = COLL_STREAM_0,
			.from = COLL_SCRATCH,
			.peer = 2,
			.after = {0, COLL_NONE},
			.blocks = 1,
		}};
	const struct coll_step good[2] = {s[0], s[1]};

#define REFUSED(change)                                                                            \
	do {                                                                                       \
		memcpy(s, good, sizeof(s));                                                        \
		change;                                                                            \
		assert_int_equal(checked(s, 2), -EINVAL);                                          \
	} while (0)
	(void)state;
	assert_int_equal(checked(s, 2), 0);
	REFUSED(s[0].op = COLL_OPS);
	REFUSED(s[0].flags = 0x10);
	REFUSED(s[0].peer = 3);
	REFUSED(s[0].peer = 1);
	REFUSED(s[0].to = COLL_IN);
	REFUSED(s[0].to = COLL_BUFFERS);
	REFUSED(s[0].block = 2);
	REFUSED(s[0].blocks = 3);
	REFUSED(s[0].area = 2);
	REFUSED(s[0].flags = COLL_STREAM_0);
	REFUSED(s[0].early = 1);
	REFUSED(s[0].after[0] = 0);
	REFUSED(s[1].after[0] = 1);
	REFUSED(s[1].after[0] = COLL_NONE);
	REFUSED(s[1].flags = 0); /* from scratch, but not piece by piece */
	REFUSED(s[1].block = 1); /* other bytes than came */
	REFUSED(s[1].source = 1);
	REFUSED(s[1].after[1] = 0);
	REFUSED(s[1].from = COLL_OUT); /* nobody empties the area */
	REFUSED((s[0].flags = COLL_EAGER, s[0].blocks = s[1].blocks = 2)); /* does not fit it */
	assert_int_equal(checked(s, COLL_STEPS_MAX + 1), -EINVAL);
}

/* Check that a step may not stream with one that does not use the scratch: it would empty the
 * scratch before anything came. */
static void
coll_check__streams_with_another(void **state)
{
	struct coll_step s[3] = {
		{.op = COLL_RECV, .to = COLL_SCRATCH, .after = NOTHING, .blocks = 1},
		{.op = COLL_REDUCE, .to = COLL_SCRATCH, .after = {0, COLL_NONE}, .blocks = 1},
		{
			.op = COLL_SEND,
			.flags = COLL_STREAM_0,
			.from = COLL_SCRATCH,
			.peer = 2,
			.after = {1, COLL_NONE},
			.blocks = 1,
		}};

	(void)state;
	s[1].flags = COLL_STREAM_0;
	assert_int_equal(checked(s, 3), 0);
	s[1].to = COLL_OUT;
	assert_int_equal(checked(s, 3), -EINVAL);
	s[1].flags = 0;
	s[1].after[0] = COLL_NONE;
	assert_int_equal(checked(s, 3), -EINVAL);
}

/* A receiver of two senders: what comes without a permit, twice, or beyond one is refused. */
static void
coll_heard__refuses(void **state)
{
	const struct coll_step s[2] = {
		{.op = COLL_RECV, .to = COLL_OUT, .peer = 0, .after = NOTHING, .blocks = 1},
		{
			.op = COLL_RECV,
			.to = COLL_OUT,
			.peer = 2,
			.after = {0, COLL_NONE},
			.block = 1,
			.blocks = 1,
		}};
	const struct coll_list l = {
		.steps = s,
		.count = 2,
		.ranks = 3,
		.rank = 1,
		.piece = 64,
		.window = 64,
	};
	struct coll_exec *c = begun(&l);
	struct coll_out o;

	(void)state;
	assert_int_equal(coll_heard(c, 0, 0, 0, 10), -EPROTO); /* not permitted yet */
	assert_true(coll_next(c, &o, 0));
	assert_int_equal(o.go, COLL_GO_PERMIT);
	assert_int_equal(o.peer, 0);
	assert_int_equal(o.len, 64);
	assert_false(coll_next(c, &o, 0)); /* the window */
	assert_int_equal(coll_heard(c, 0, 0, 0, 65), -EPROTO);
	assert_int_equal(coll_heard(c, 0, 0, 1, 10), -EPROTO);
	assert_int_equal(coll_heard(c, 0, 1, 0, 10), -EPROTO);
	assert_int_equal(coll_heard(c, 2, 0, 0, 10), -EPROTO);
	assert_int_equal(coll_heard(c, 3, 0, 0, 10), -EPROTO);
	assert_int_equal(coll_heard(c, 0, 0, 0, 0), -EPROTO);
	assert_int_equal(coll_permitted(c, 0, 0, 10), -EPROTO); /* there is no SEND */
	assert_int_equal(coll_permitted(c, 9, 0, 10), -EPROTO);
	assert_int_equal(coll_heard(c, 0, 0, 0, 64), 0);
	coll_arrived(c, 0, 64);
	assert_true(coll_next(c, &o, 0));
	assert_int_equal(o.len, 100);
	assert_false(coll_next(c, &o, 0)); /* the other's turn has not come */
	assert_int_equal(coll_heard(c, 0, 0, 64, 36), 0);
	coll_arrived(c, 0, 36);
	assert_true(coll_next(c, &o, 0));
	assert_int_equal(o.peer, 2);
	assert_false(coll_is_done(c));
	free(c);
}

static void
coll_permitted__refuses(void **state)
{
	const struct coll_step s[1] = {
		{.op = COLL_SEND, .from = COLL_IN, .peer = 0, .after = NOTHING, .blocks = 1}};
	const struct coll_list l = {.steps = s, .count = 1, .ranks = 3, .rank = 1, .piece = 64};
	struct coll_exec *c = begun(&l);
	struct coll_out o;

	(void)state;
	assert_false(coll_next(c, &o, 0));
	assert_int_equal(coll_permitted(c, 0, 0, 101), -EPROTO);
	assert_int_equal(coll_permitted(c, 0, 1, 10), -EPROTO);
	assert_int_equal(coll_permitted(c, 2, 0, 10), -EPROTO);
	assert_int_equal(coll_permitted(c, 0, 0, 70), 70);
	assert_int_equal(coll_permitted(c, 0, 0, 60), -EPROTO); /* taken back */
	assert_true(coll_next(c, &o, 0));
	assert_int_equal(o.len, 64);
	assert_true(coll_next(c, &o, 0));
	assert_int_equal(o.offset, 64);
	assert_int_equal(o.len, 6);
	assert_false(coll_next(c, &o, 0));
	assert_int_equal(coll_permitted(c, 0, 0, 100), 30);
	assert_true(coll_next(c, &o, 0));
	assert_int_equal(o.len, 30);
	assert_true(coll_is_done(c));
	free(c);
}

/* Random bytes as a list: it is refused, or runs without touching what is not its own. */
static void
coll_check__random_lists(void **state)
{
	enum { STEPS = 6 };
	unsigned good = 0;

	(void)state;
	for (unsigned i = 0; i < 300000; i++) {
		struct coll_step s[STEPS];
		struct coll_list l = {
			.steps = s,
			.count = 1 + random_below(STEPS),
			.ranks = 3,
			.rank = 1,
			.piece = 1 + random_below(100),
			.areas = 2,
			.area_bytes = 100 + random_below(100),
			.window = random_below(2) * 150,
		};
		uint32_t bad;

		for (uint32_t k = 0; k < l.count; k++) {
			s[k] = (struct coll_step){
				.op = (uint8_t)random_below(4),
				.flags = (uint8_t)(random_below(2) ? random_below(16) : 0),
				.from = (uint8_t)random_below(3),
				.to = (uint8_t)random_below(3),
				.peer = (uint16_t)(2 * random_below(2)),
				.after = {(uint16_t)(random_below(2) ? random_below(k + 1)
								     : COLL_NONE),
					(uint16_t)(random_below(4) ? COLL_NONE
								   : random_below(k + 1))},
				.block = (uint16_t)random_below(2),
				.blocks = (uint16_t)random_below(3),
				.source = (uint16_t)random_below(k + 1),
				.target = (uint16_t)random_below(k + 1),
				.area = (uint8_t)random_below(2),
			};
		}
		if (coll_check(&l, two_blocks, &bad) != 0)
			continue;
		struct coll_exec *c = begun(&l);
		struct coll_out o;

		good += c != NULL;
		for (unsigned k = 0; c != NULL && k < 40; k++) {
			const uint32_t peer = random_below(3), ordinal = random_below(2);
			const uint64_t len = random_below(120);

			while (coll_next(c, &o, k)) {
				assert_true(o.step < l.count);
				assert_true(o.offset + o.len <= 200 || o.go == COLL_GO_PERMIT);
			}
			coll_permitted(c, peer, ordinal, random_below(220));
			const int step = coll_heard(c, peer, ordinal, random_below(3) * 50, len);

			if (step >= 0) {
				assert_int_equal(s[step].op, COLL_RECV);
				coll_arrived(c, (uint32_t)step, len);
			}
		}
		free(c);
	}
	assert_true(good > 1000);
}

/* Takes the timetable of a plan away, and it still comes to its end with a window. */
static void
ends_with_window(const struct coll_task *task, enum coll_generator g, uint64_t window,
	uint32_t grain, uint64_t area)
{
	struct coll_plan *p;
	struct coll_cost cost;

	if (coll_plan_make(g, task, &p) != 0)
		return;
	without_times(p, window, grain);
	for (uint32_t r = 0; r < p->ranks; r++) {
		if (p->lists[r].area_bytes < area)
			p->lists[r].area_bytes = area;
	}
	if (coll_plan_evaluate(p, task, &cost) != 0)
		fail_msg("%s %s of %u, window %lu: does not end", coll_generator_name[g],
			coll_kind_name[task->kind], task->ranks, (unsigned long)window);
	coll_plan_free(p);
}

/* Whatever later steps of a list permit, the window is no reason for an earlier one to wait. */
static void
coll_plan__windows_end(void **state)
{
	struct topology *t = parsed("switch s[0-1] buffer=128K\nhost h[0-7]\n"
				    "link h[0-3] s0 bandwidth=100G latency=1us\n"
				    "link h[4-7] s1 bandwidth=100G latency=1us\n"
				    "link s0 s1 bandwidth=100G latency=1us\n");
	struct coll_task task = {
		.topology = t,
		.params = {1450, 88, 84, sizeof(struct wire_coll), 1400, WIRE_COLL_EAGER},
		.only = COLL_NONE,
	};

	(void)state;
	for (task.ranks = 2; task.ranks <= 8; task.ranks++) {
		for (unsigned i = 0; i < COLL_GENERATORS * COLL_KINDS; i++) {
			task.kind = i % COLL_KINDS;
			task.bytes = task.kind == COLL_BARRIER ? 0 : 600000;
			ends_with_window(&task, i / COLL_KINDS, 256 << 10, 32 << 10, 128 << 10);
			task.bytes /= 10;
			ends_with_window(&task, i / COLL_KINDS, 4 * 1400, 2 * 1400, 0);
		}
	}
	topology_free(t);
}

/* Clusters far apart: whatever the collective, its plan does not pay for the distance again and
 * again, and what has waited for a permit from afar does not overrun a port. */
static void
coll_plan__far_clusters(void **state)
{
	static const struct {
		enum coll_kind kind;
		uint64_t bytes;
		double most; /* of the bound */
	} cases[] = {{COLL_BCAST, 8, 1.1}, {COLL_BCAST, 1 << 20, 1.7}, {COLL_REDUCE_TO, 8, 1.1},
		{COLL_REDUCE_TO, 1 << 20, 1.8}, {COLL_ALLREDUCE, 8, 2.1},
		{COLL_ALLREDUCE, 1 << 20, 1.8}, {COLL_ALLGATHER, 8, 3.1},
		{COLL_ALLGATHER, 64 << 10, 1.4}, {COLL_REDUCE_SCATTER, 8, 3.1},
		{COLL_REDUCE_SCATTER, 64 << 10, 2.0}};
	struct topology *t = parsed("switch wide buffer=4M\nswitch s[0-3] buffer=128K\n"
				    "link s0 wide bandwidth=10G latency=50us\n"
				    "link s[1-2] wide bandwidth=10G latency=2ms\n"
				    "link s3 wide bandwidth=10G latency=5ms\n"
				    "host a[0-11]\nhost b[0-11]\nhost c[0-11]\nhost d[0-11]\n"
				    "link a[0-11] s0 bandwidth=1G latency=5us\n"
				    "link b[0-11] s1 bandwidth=1G latency=5us\n"
				    "link c[0-11] s2 bandwidth=1G latency=5us\n"
				    "link d[0-11] s3 bandwidth=1G latency=5us\n");

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct coll_task task = {
			.kind = cases[i].kind,
			.topology = t,
			.ranks = t->host_count,
			.bytes = cases[i].bytes,
			.params = params,
			.only = COLL_NONE,
		};
		struct coll_plan *p;
		struct coll_cost cost;

		assert_int_equal(coll_plan_best(&task, &p, NULL), 0);
		assert_int_equal(coll_plan_evaluate(p, &task, &cost), 0);
		const double ratio = (double)cost.ns / (double)p->bound_ns;

		if (!cost.fits || ratio > cases[i].most)
			fail_msg("%s of %lu bytes by %s: %.2f of the bound, %lu bytes wait",
				coll_kind_name[p->kind], (unsigned long)p->bytes,
				coll_generator_name[p->generator], ratio,
				(unsigned long)cost.backlog_bytes);
		coll_plan_free(p);
	}
	topology_free(t);
}

/* Check which blocks come without permits: of short ones from afar as many as fit half of the least
 * port, the farthest ones; within a cluster none do, and no long ones. */
static void
coll_plan__unasked_from_afar(void **state)
{
	struct topology *t = parsed("switch wide buffer=4M\nswitch s[0-1] buffer=32K\n"
				    "link s0 wide bandwidth=10G latency=50us\n"
				    "link s1 wide bandwidth=10G latency=5ms\n"
				    "host a[0-19]\nhost b[0-19]\n"
				    "link a[0-19] s0 bandwidth=1G latency=5us\n"
				    "link b[0-19] s1 bandwidth=1G latency=5us\n");
	static const struct {
		uint64_t bytes;
		uint32_t unasked; /* of 16384 bytes, each with 88 and a head */
	} cases[] = {{8, 20}, {1000, 14}, {1024, 14}, {1025, 0}, {20000, 0}};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct coll_task task = {
			.kind = COLL_GATHER,
			.topology = t,
			.ranks = t->host_count,
			.bytes = cases[i].bytes,
			.params = params,
			.only = COLL_NONE,
		};
		struct coll_plan *p;
		struct coll_cost cost;
		uint32_t unasked = 0;

		task.params.eager = 1024;
		assert_int_equal(coll_plan_make(COLL_PERMITS, &task, &p), 0);
		for (uint32_t k = 0; k < p->lists[0].count; k++) {
			const struct coll_step *s = &p->lists[0].steps[k];

			if (s->op != COLL_RECV || !(s->flags & COLL_EAGER))
				continue;
			assert_true(s->peer >= 20);
			unasked++;
		}
		assert_int_equal(unasked, cases[i].unasked);
		assert_int_equal(coll_plan_evaluate(p, &task, &cost), 0);
		assert_true(cost.fits);
		coll_plan_free(p);
	}
	topology_free(t);
}

/* Members of one node take nothing of its line: neither of its time, nor of the root's
 * timetable. */
static void
coll_plan__within_a_node(void **state)
{
	static const struct {
		enum coll_kind kind;
		enum coll_generator generator;
	} cases[] = {{COLL_GATHER, COLL_PERMITS}, {COLL_GATHER, COLL_IN_TURN},
		{COLL_SCATTER, COLL_PERMITS}, {COLL_ALLTOALL, COLL_PHASES}};
	static const uint16_t nodes[] = {0, 0, 1, 1, 2, 2, 3, 3};
	struct topology *t = parsed("switch s buffer=128K\nhost h[0-3]\n"
				    "link h[0-3] s bandwidth=100M latency=20us\n");

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct coll_task task = {
			.kind = cases[i].kind,
			.topology = t,
			.nodes = nodes,
			.ranks = 8,
			.bytes = 1000000,
			.params = params,
			.only = COLL_NONE,
		};
		struct coll_plan *p;
		struct coll_cost cost;

		assert_int_equal(coll_plan_make(cases[i].generator, &task, &p), 0);
		for (uint32_t r = 0; r < 8; r++) {
			for (uint32_t k = 0; k < p->lists[r].count; k++) {
				const struct coll_step *s = &p->lists[r].steps[k];

				assert_int_equal((s->flags & COLL_NEAR) != 0,
					s->op == COLL_SEND && nodes[r] == nodes[s->peer]);
			}
		}
		assert_int_equal(coll_plan_evaluate(p, &task, &cost), 0);
		const double ratio = (double)cost.ns / (double)p->bound_ns;

		if (ratio > 1.05)
			fail_msg("%s by %s: %.2f of the bound", coll_kind_name[p->kind],
				coll_generator_name[p->generator], ratio);
		coll_plan_free(p);
	}
	topology_free(t);
}

/* When the line's next piece leaves, ns, if nobody looks before `now`; UINT64_MAX: none. */
static uint64_t
leaves(struct coll_exec *c, uint64_t now)
{
	struct coll_out out;

	for (;;) {
		if (coll_next(c, &out, now)) {
			assert_int_equal(out.go, COLL_GO_PIECE);
			return now;
		}
		if (coll_deadline(c) == COLL_NEVER)
			return UINT64_MAX;
		now = coll_deadline(c);
	}
}

/* A piece that waits for the line and is looked after late delays none after it; but what has not
 * waited, or is very late, is not made up for. */
static void
coll_next__late_pieces_are_made_up_for(void **state)
{
	static const struct coll_step steps[] = {
		{.op = COLL_SEND, .peer = 1, .after = {COLL_NONE, COLL_NONE}, .blocks = 2},
		{.op = COLL_SEND, .peer = 2, .after = {COLL_NONE, COLL_NONE}, .blocks = 2},
	};
	const struct coll_list l = {
		.steps = steps,
		.count = 2,
		.ranks = 3,
		.piece = 10,
		.send_pace = 1000u << 16, /* 10 us a piece */
	};
	struct coll_exec *c = begun(&l);

	(void)state;
	assert_int_equal(leaves(c, 5000), UINT64_MAX);
	assert_int_equal(coll_permitted(c, 1, 0, 200), 200);
	/* the first one does not wait */
	assert_int_equal(leaves(c, 7000), 7000);
	assert_int_equal(leaves(c, 7001), 17000);
	/* 13 us late: the next one is not, and the one after it is on time */
	assert_int_equal(leaves(c, 40000), 40000);
	assert_int_equal(leaves(c, 40001), 40001);
	assert_int_equal(leaves(c, 40002), 47000);
	/* 53 us late */
	assert_int_equal(leaves(c, 110000), 110000);
	assert_int_equal(leaves(c, 110001), 120000);
	for (unsigned i = 7; i < 20; i++)
		assert_int_equal(leaves(c, 120001), 120000 + (i - 6) * 10000);
	/* nothing waits for 15 us */
	assert_int_equal(leaves(c, 250001), UINT64_MAX);
	assert_int_equal(coll_permitted(c, 2, 0, 200), 200);
	assert_int_equal(leaves(c, 275000), 275000);
	assert_int_equal(leaves(c, 275001), 285000);
	free(c);
}

/* Two that share a line: each one's pieces take twice as long, from the moment on at which that is
 * so, and its window is half as large. */
static void
coll_exec_share__slows_the_clock(void **state)
{
	static const struct coll_step sends[] = {
		{
			.op = COLL_SEND,
			.flags = COLL_EAGER,
			.peer = 1,
			.after = {COLL_NONE, COLL_NONE},
			.blocks = 2,
		},
	};
	static const struct coll_step receives[] = {
		{
			.op = COLL_RECV,
			.to = COLL_OUT,
			.peer = 1,
			.after = {COLL_NONE, COLL_NONE},
			.blocks = 1,
			.at_us = 100,
			.pace = 1000u << 16,
		},
	};
	struct coll_list l = {
		.steps = sends,
		.count = 1,
		.ranks = 3,
		.piece = 10,
		.send_pace = 1000u << 16, /* 10 us a piece */
	};
	struct coll_exec *c = begun(&l);
	struct coll_out out;

	(void)state;
	assert_int_equal(leaves(c, 0), 0);
	assert_int_equal(leaves(c, 1), 10000);
	coll_exec_share(c, 2 * COLL_WHOLE, 15000);
	assert_int_equal(leaves(c, 15000), 25000); /* half of 10 us was over */
	assert_int_equal(leaves(c, 25000), 45000);
	coll_exec_share(c, COLL_WHOLE, 50000);
	assert_int_equal(leaves(c, 50000), 57500); /* a quarter was over */
	/* whatever the share, it is time when the deadline says so */
	uint64_t last = 57500;

	for (uint32_t share = 270; share < 300; share += 3) {
		coll_exec_share(c, share, last);
		assert_false(coll_next(c, &out, last));
		const uint64_t at = coll_deadline(c);

		assert_false(coll_next(c, &out, at - 1));
		assert_true(coll_next(c, &out, at));
		assert_in_range(at - last, 10000ull * share / COLL_WHOLE - 2,
			10000ull * share / COLL_WHOLE + 2);
		last = at;
	}
	free(c);

	l.steps = receives;
	l.send_pace = 0;
	l.window = 40;
	l.grain = 10;
	c = begun(&l);
	coll_exec_share(c, 2 * COLL_WHOLE, 0);
	assert_false(coll_next(c, &out, 199999));
	for (unsigned i = 0; i < 2; i++) { /* two grains of ten */
		assert_true(coll_next(c, &out, 200000 + i * 20000));
		assert_int_equal(out.go, COLL_GO_PERMIT);
	}
	assert_false(coll_next(c, &out, 1000000));
	assert_int_equal(coll_outstanding(c), 20);
	coll_exec_share(c, COLL_WHOLE, 1000000);
	assert_true(coll_next(c, &out, 1000000));
	assert_true(coll_next(c, &out, 1000000));
	assert_false(coll_next(c, &out, 1000000));
	assert_int_equal(coll_outstanding(c), 40);
	free(c);

	l.load_in = COLL_WHOLE + 1; /* of which a client could take more than its share */
	uint32_t step;

	assert_int_equal(coll_check(&l, two_blocks, &step), -EINVAL);
	assert_int_equal(step, l.count);
}

/* Check what plans say of how busy they keep lines. */
static void
coll_plan__says_how_busy_lines_are(void **state)
{
	static const struct {
		enum coll_kind kind;
		enum coll_generator generator;
		uint64_t bytes;
		/* percent, least and most, of rank 0's and of rank 7's line, which is at the other
		 * switch */
		unsigned in_0[2], out_0[2], in_7[2], out_7[2];
	} cases[] = {
		{COLL_GATHER, COLL_PERMITS, 100000, {95, 100}, {1, 15}, {0, 0}, {45, 60}},
		{COLL_SCATTER, COLL_PERMITS, 100000, {0, 0}, {95, 100}, {45, 60}, {0, 5}},
		{COLL_ALLTOALL, COLL_PHASES, 100000, {95, 100}, {95, 100}, {95, 100}, {95, 100}},
		{COLL_ALLGATHER, COLL_RING, 100000, {95, 100}, {95, 100}, {95, 100}, {95, 100}},
		{COLL_ALLREDUCE, COLL_DOUBLING, 8, {0, 0}, {0, 0}, {0, 0}, {0, 0}}, /* eager */
	};
	struct topology *t = parsed("switch s[0-1] buffer=128K\nhost h[0-7]\n"
				    "link h[0-3] s0 bandwidth=1G latency=1us\n"
				    "link h[4-7] s1 bandwidth=1G latency=1us\n"
				    "link s0 s1 bandwidth=1G latency=1us\n");

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct coll_task task = {
			.kind = cases[i].kind,
			.topology = t,
			.ranks = 8,
			.bytes = cases[i].bytes,
			.params = coll_params_of_engines(1408),
			.only = COLL_NONE,
		};
		struct coll_plan *p;

		assert_int_equal(coll_plan_make(cases[i].generator, &task, &p), 0);
		const struct coll_list *l = p->lists;
		const unsigned says[4] = {l[0].load_in, l[0].load_out, l[7].load_in, l[7].load_out};
		const unsigned *range[4] = {cases[i].in_0, cases[i].out_0, cases[i].in_7,
			cases[i].out_7};

		for (unsigned k = 0; k < 4; k++) {
			const unsigned percent = says[k] * 100 / COLL_WHOLE;

			if (percent < range[k][0] || percent > range[k][1])
				fail_msg("case %u, load %u: %u percent", i, k, percent);
		}
		coll_plan_free(p);
	}
	topology_free(t);
}

/* Check that what goes a slower way than its host's line goes at the rate of that way. */
static void
coll_plan__paces_slower_ways(void **state)
{
	struct topology *t = parsed("switch s[0-1] buffer=128K\nhost h[0-3]\n"
				    "link h[0-1] s0 bandwidth=1G latency=1us\n"
				    "link h[2-3] s1 bandwidth=1G latency=1us\n"
				    "link s0 s1 bandwidth=250M latency=1us\n");
	struct coll_task task = {
		.topology = t,
		.ranks = 4,
		.bytes = 100000,
		.params = coll_params_of_engines(1408),
		.only = COLL_NONE,
	};
	const double line = 8 * 1538 / 1408.0 * 65536;
	struct coll_plan *p;
	uint32_t across = 0;

	(void)state;
	task.kind = COLL_ALLTOALL;
	assert_int_equal(coll_plan_make(COLL_PHASES, &task, &p), 0);
	for (uint32_t r = 0; r < 4; r++) {
		assert_true(p->lists[r].send_pace > line && p->lists[r].send_pace < 1.1 * line);
		for (uint32_t i = 0; i < p->lists[r].count; i++) {
			const struct coll_step *s = &p->lists[r].steps[i];

			if (s->op != COLL_SEND || s->peer / 2 == r / 2)
				continue;
			across++;
			assert_true(s->pace > 4 * line && s->pace < 4.4 * line);
		}
	}
	assert_int_equal(across, 8);
	coll_plan_free(p);
	/* who sends nothing but that has no other pace */
	task.kind = COLL_ALLGATHER;
	assert_int_equal(coll_plan_make(COLL_RING, &task, &p), 0);
	across = 0;
	for (uint32_t r = 0; r < 4; r++)
		across += p->lists[r].send_pace > 4 * line && p->lists[r].send_pace < 4.4 * line;
	assert_int_equal(across, 2);
	coll_plan_free(p);
	topology_free(t);
}

/* Timetables of random trees, whose links are slower and faster than the root's line, and slower
 * behind slower ones: each is done in little more than the busiest link takes, and fills no port of
 * 64K. Where ten lanes end at nearly the same time, what comes next waits for all of them. */
static void
coll_plan__timetables_of_any_tree(void **state)
{
	enum { TREES = 400 };
	/* some seeds of such lanes */
	static const uint32_t alike[] = {2668, 3279, 5047, 7769, 9664, 11265, 11759, 33259};
	const uint32_t alike_count = sizeof(alike) / sizeof(alike[0]);
	double sum = 0;

	(void)state;
	for (unsigned i = 0; i < TREES; i++) {
		const uint32_t seed = i < alike_count ? alike[i] : i;

		state_of_random = 9000000 + seed;
		const uint32_t hosts = 2 + random_below(24);
		struct topology *t = random_tree(hosts, 6);
		const struct coll_task task = {
			.kind = seed % 2 ? COLL_GATHER : COLL_SCATTER,
			.topology = t,
			.ranks = hosts,
			.root = random_below(hosts),
			.bytes = 200000 + random_below(300000),
			.params = coll_params_of_engines(1408),
			.only = COLL_NONE,
		};
		struct coll_plan *p;
		struct coll_cost cost;

		/* the planner finds no other plan to be better that is worse */
		assert_int_equal(i % 8 < 2 ? coll_plan_best(&task, &p, NULL)
					   : coll_plan_make(COLL_PERMITS, &task, &p),
			0);
		assert_int_equal(coll_plan_evaluate(p, &task, &cost), 0);
		const double ratio = (double)cost.ns / (double)p->bound_ns;

		double farthest_ns = 0;

		for (uint32_t r = 0; r < hosts; r++) {
			const double ns = r == task.root
				? 0
				: coll_path_between(&task, r, task.root).latency_ns;

			farthest_ns = ns > farthest_ns ? ns : farthest_ns;
		}
		/* permits go first */
		if ((double)cost.ns > 1.1 * (double)p->bound_ns + 2 * farthest_ns ||
			cost.backlog_bytes > 60000)
			fail_msg("tree %u, %s: %.2f of the bound, %lu bytes wait", seed,
				coll_kind_name[task.kind], ratio, cost.backlog_bytes);
		sum += ratio;
		coll_plan_free(p);
		topology_free(t);
	}
	assert_true(sum / TREES < 1.02);
}

/* Blocks from so far that one flow alone does not fill the line come several at a time, and those
 * from near before and after them: together they never come faster than the line. */
static void
coll_plan__streams_from_afar(void **state)
{
	struct topology *t = parsed("switch wide buffer=4M\nswitch s[0-2] buffer=128K\n"
				    "host a[0-3]\nhost b[0-3]\nhost c[0-4]\n"
				    "link a[0-3] s0 bandwidth=1G latency=5us\n"
				    "link b[0-3] s1 bandwidth=1G latency=5us\n"
				    "link c[0-4] s2 bandwidth=1G latency=5us\n"
				    "link s0 wide bandwidth=10G latency=50us\n"
				    "link s1 wide bandwidth=10G latency=2ms\n"
				    "link s2 wide bandwidth=10G latency=5ms\n");
	struct coll_task task = {
		.kind = COLL_GATHER,
		.topology = t,
		.ranks = 13,
		.params = coll_params_of_engines(1408),
		.only = COLL_NONE,
	};

	(void)state;
	for (task.bytes = 100000; task.bytes < 10000000; task.bytes += task.bytes / 3) {
		struct coll_plan *p;
		struct coll_cost cost;
		uint32_t slow = 0;

		assert_int_equal(coll_plan_make(COLL_PERMITS, &task, &p), 0);
		const struct coll_list *l = &p->lists[0];

		for (uint32_t i = 0; i < l->count; i++) {
			const double at = l->steps[i].at_us + 1, line = 8 * 1538 / 1408.0 * 65536;
			double rate = 0; /* of what comes then, in lines */

			if (l->steps[i].op != COLL_RECV)
				continue;
			slow += l->steps[i].pace > 1.5 * line;
			for (uint32_t k = 0; k < l->count; k++) {
				const struct coll_step *s = &l->steps[k];
				const double takes = (double)s->pace / 65536e3 * (double)task.bytes;

				if (s->op == COLL_RECV && s->at_us <= at &&
					at < s->at_us + takes - 2)
					rate += line / s->pace;
			}
			assert_true(rate > 0.98 && rate < 1.01);
		}
		/* 480 frames are on their way in one of two flows over 10 ms; beside the last of
		 * the five comes one from near */
		assert_in_range(slow, task.bytes > 480 * 1408 ? 5 : 0,
			task.bytes > 480 * 1408 ? 6 : 0);
		assert_int_equal(coll_plan_evaluate(p, &task, &cost), 0);
		assert_true(cost.fits);
		assert_true((double)cost.ns < 1.05 * (double)p->bound_ns);
		coll_plan_free(p);
	}
	topology_free(t);
}

/* Check that a plan's text is refused for what it may not say, and with which sentence. */
static void
coll_plan_read__refuses(void **state)
{
#define PLAN  "plan bcast chain ranks=2 root=0 bytes=10 blocks=1\n"
#define SENDS "rank 0 piece=10\nsend peer=1 from=in\n"
	static const struct {
		const char *text, *says;
	} cases[] = {
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
		{PLAN "rank 0 piece=10\nsend peer=1 from=there\n",
			"'from=there': in, out or scratch"},
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
	static const char good[] = "# to two\n" PLAN "order 0 # the root\norder 1\n" SENDS
				   "\nrank 1 piece=10\n  receive\tpeer=0 to=out # all\n";
	struct coll_plan *p;
	char error[200];

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		error[0] = 0;
		assert_int_equal(coll_plan_read(cases[i].text, &p, error, sizeof(error)), -EINVAL);
		if (strstr(error, cases[i].says) == NULL)
			fail_msg("'%s', not '%s', of:\n%s", error, cases[i].says, cases[i].text);
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
	const struct coll_task task = {.kind = COLL_BCAST,
		.topology = t,
		.ranks = 2,
		.bytes = 10,
		.params = params};
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
		cmocka_unit_test(coll_run_bytes__goes_around),
		cmocka_unit_test(coll_check__refuses),
		cmocka_unit_test(coll_check__streams_with_another),
		cmocka_unit_test(coll_heard__refuses),
		cmocka_unit_test(coll_permitted__refuses),
		cmocka_unit_test(coll_check__random_lists),
		cmocka_unit_test(coll_plan__windows_end),
		cmocka_unit_test(coll_plan__far_clusters),
		cmocka_unit_test(coll_plan__unasked_from_afar),
		cmocka_unit_test(coll_plan__within_a_node),
		cmocka_unit_test(coll_next__late_pieces_are_made_up_for),
		cmocka_unit_test(coll_exec_share__slows_the_clock),
		cmocka_unit_test(coll_plan__says_how_busy_lines_are),
		cmocka_unit_test(coll_plan__paces_slower_ways),
		cmocka_unit_test(coll_plan__streams_from_afar),
		cmocka_unit_test(coll_plan__timetables_of_any_tree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
