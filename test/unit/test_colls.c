/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives of groups (lib/coll/live.h): random histories of a group whose members begin
 * collectives when they like, with real bytes, over a network that keeps the order of each pair and
 * no other; with plans that differ, lists that cannot be run, bytes that cannot be accessed,
 * members that die or leave, and state that moves to other memory; and single cases.
 *
 * COLLS_HISTORIES=N runs as many (the default is some seconds), COLLS_SEED=S that one alone;
 * COLLS_SHOW=1 prints each seed before its history.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "coll/live.h"
#include "coll_random.h"

#define RANKS      8
#define OPS        100
#define STEPS      256
#define LIVES      (RANKS * 6)
#define PLACES     (RANKS + 2)
#define STUCK_NS   20000000000ull
#define STALL_NS   90000000ull /* before plans are compared again */
#define ACKS       65536
#define MESSAGE    1500
#define NOBODY     UINT32_MAX
#define HEAD_BYTES sizeof(struct wire_coll)

enum fault {
	NO_FAULT,
	OTHER_HASH, /* of the same plan */
	OTHER_PLAN,
	BAD_LIST,
	NO_ACCESS, /* colls_fail */
	DEATH,
	LEAVES,
	FAULTS
};

/* A message on its way. */
struct flight {
	struct flight *next;
	uint32_t len;
	uint8_t bytes[MESSAGE];
};

/* The record that the caller of colls keeps of each index. */
struct job {
	struct coll_list list;
	struct coll_step *steps;
	struct coll_blocks blocks[COLL_BUFFERS];
	const struct coll_plan *plan; /* of which the list is, as it was begun last */
	uint32_t rank, number;
};

struct lane {
	void *memory; /* NULL: there is none, or it has died */
	struct colls *c;
	uint64_t counters[COLLS_COUNTERS];
	struct job jobs[LIVES];
	uint32_t to_give[LIVES]; /* that have ended */
	uint32_t to_give_count;
	bool busy; /* something has been called since it had nothing to do */
};

enum part_state { NOT_YET, RUNS, ENDED, GONE };

/* A member's part in a collective. */
struct part {
	enum part_state state;
	uint8_t error;
	uint16_t because;
	bool is_late; /* it was begun when an earlier one had failed here */
	uint32_t index;
	uint8_t *buffers[COLL_BUFFERS];
};

struct member {
	uint32_t lane;
	struct colls_seat seat;
	uint32_t begun, running, running_most;
	uint32_t last; /* index */
	bool is_slow;  /* it begins as late as it can */
	bool has_failed, is_dead, has_left, is_told;
};

struct ack {
	uint32_t lane;
	uint16_t place;
	uint64_t key;
};

static struct world {
	uint64_t seed, now, progress_ns;
	uint32_t ranks, ops, lanes;
	struct topology *topology;
	struct coll_plan *plans[OPS + 1]; /* the last: of who has another one */
	struct coll_plan *plan_of[OPS];
	uint32_t hash_of[OPS];
	struct lane lane[RANKS];
	struct member members[RANKS];
	struct part parts[OPS][RANKS];
	struct flight *first[RANKS][RANKS], **last[RANKS][RANKS];
	uint32_t flights;
	struct ack acks[ACKS];
	uint32_t ack_count;
	bool local_at_once; /* what goes to another member of the lane is there at once */
	bool moves;
	enum fault fault;
	uint32_t fault_n, fault_rank; /* NOBODY: it has not happened yet */
	uint32_t left_part;
	bool refuses;   /* the next access to the bytes of fault_rank fails */
	uint32_t named; /* the rank because of which, as the first one has heard */
} w;

#define HOLDS(x)                                                                                   \
	do {                                                                                       \
		if (!(x))                                                                          \
			fail_msg("%s:%d: seed %lu (COLLS_SEED): not true: %s", __FILE__, __LINE__, \
				(unsigned long)w.seed, #x);                                        \
	} while (0)

/* ------------------------------------------------------------------ plans */

static bool
fits(const struct coll_plan *p)
{
	for (uint32_t r = 0; r < p->ranks; r++) {
		if (p->lists[r].count > STEPS || p->lists[r].piece > MESSAGE - HEAD_BYTES)
			return false;
	}
	return true;
}

static uint64_t
random_bytes(void)
{
	switch (random_below(8)) {
	case 0:
		return 0;
	case 1:
		return 200 + random_below(50);
	case 2:
		return random_below(3000);
	default:
		return random_below(120);
	}
}

static struct coll_plan *
random_plan(void)
{
	static const uint32_t pieces[] = {64, 64, 64, 100, 224, 225, 1024, 1025};
	uint16_t nodes[RANKS];
	struct coll_plan *p;

	for (uint32_t r = 0; r < w.ranks; r++)
		nodes[r] = (uint16_t)random_below(w.topology->host_count);
	for (;;) {
		const enum coll_kind kind = random_below(COLL_KINDS);
		const enum coll_generator g = random_below(COLL_GENERATORS);
		const struct coll_task task = {
			.kind = kind,
			.topology = w.topology,
			.nodes = nodes,
			.ranks = w.ranks,
			.root = random_below(w.ranks),
			.bytes = kind == COLL_BARRIER ? 0 : random_bytes(),
			.params =
				{
					.frame_payload = 1450,
					.frame_overhead = 88,
					.frame_least = 84,
					.message_head = HEAD_BYTES,
					.piece = pieces[random_below(8)],
					.eager = WIRE_COLL_EAGER,
				},
			.only = COLL_NONE,
		};

		if ((random_below(16) == 0 ? coll_plan_best(&task, &p, NULL)
					   : coll_plan_make(g, &task, &p)) != 0)
			continue;
		if (fits(p))
			break;
		coll_plan_free(p);
	}
	if (random_below(2) == 0)
		without_times(p, 4ull * p->lists[0].piece, 2 * p->lists[0].piece);
	return p;
}

static const struct coll_plan *
plan_for(uint32_t n, uint32_t rank)
{
	if (w.fault == OTHER_PLAN && n == w.fault_n && rank == w.fault_rank)
		return w.plans[OPS];
	return w.plan_of[n];
}

/* ------------------------------------------------------------------ bytes */

/* The address of a byte of a step's buffer. */
static uint8_t *
byte_of(struct lane *l, uint32_t index, uint32_t step, bool to, uint64_t offset)
{
	const struct job *j = &l->jobs[index];
	const struct coll_step *s = &j->steps[step];
	const uint8_t buffer = to ? s->to : s->from;
	uint8_t *bytes = w.parts[j->number][j->rank].buffers[buffer];

	HOLDS(offset < coll_run_bytes(&j->blocks[buffer], s->block, s->blocks));
	if (buffer == COLL_SCRATCH) {
		const uint32_t recv = s->op == COLL_RECV ? step : to ? s->target : s->source;
		const uint64_t at = coll_scratch_place(colls_exec(l->c, index), recv, offset);

		HOLDS(at < j->list.areas * j->list.area_bytes);
		return &bytes[at];
	}
	const struct coll_blocks *b = &j->blocks[buffer];
	const uint64_t at = block_at(b, s->block) + offset, all = coll_run_bytes(b, 0, b->count);

	return &bytes[at >= all ? at - all : at];
}

/* Byte i of what a rank has for another one, or for all. */
static uint8_t
given(uint32_t n, uint32_t rank, uint64_t i)
{
	return (uint8_t)(n * 101 + rank * 37 + i * 11 + (i >> 8) + 5);
}

/* Set *out to what byte i of a block is to be in a rank's OUT. Return false if nothing is said
 * about it. */
static bool
wanted(const struct job *j, uint32_t block, uint64_t i, uint8_t *out)
{
	const struct coll_plan *p = j->plan;
	const struct coll_blocks *b = &j->blocks[COLL_OUT];
	const uint64_t at = block_at(b, block) + i;
	const uint32_t owner = p->block_count == p->ranks ? p->order[block] : 0;
	uint32_t place = 0;

	while (p->order[place] != j->rank)
		place++;
	*out = 0;
	switch (p->kind) {
	case COLL_GATHER:
		*out = given(j->number, owner, at);
		return j->rank == p->root;
	case COLL_ALLGATHER:
		*out = given(j->number, owner, at);
		return true;
	case COLL_SCATTER:
		*out = given(j->number, p->root, at);
		return j->rank == owner;
	case COLL_BCAST:
		*out = given(j->number, p->root, at);
		return true;
	case COLL_ALLTOALL:
		*out = given(j->number, owner, block_at(b, place) + i);
		return true;
	case COLL_REDUCE_TO:
	case COLL_ALLREDUCE:
	case COLL_REDUCE_SCATTER:
		for (uint32_t r = 0; r < p->ranks; r++)
			*out = (uint8_t)(*out + given(j->number, r, at));
		return p->kind == COLL_ALLREDUCE ||
			(p->kind == COLL_REDUCE_TO ? j->rank == p->root : j->rank == owner);
	case COLL_BARRIER:
	case COLL_KINDS:
		break;
	}
	return false;
}

static void
check_result(const struct job *j)
{
	const struct coll_blocks *b = &j->blocks[COLL_OUT];
	const uint8_t *out = w.parts[j->number][j->rank].buffers[COLL_OUT];
	uint8_t want;

	for (uint32_t block = 0; block < b->count; block++) {
		const uint64_t len = coll_run_bytes(b, block, 1);

		for (uint64_t i = 0; i < len && wanted(j, block, i, &want); i++) {
			if (out[block_at(b, block) + i] != want)
				fail_msg("seed %lu (COLLS_SEED): collective %u, %s %s of %u, %lu "
					 "bytes: rank %u, block %u, byte %lu",
					(unsigned long)w.seed, j->number,
					coll_generator_name[j->plan->generator],
					coll_kind_name[j->plan->kind], j->plan->ranks,
					(unsigned long)j->plan->bytes, j->rank, block,
					(unsigned long)i);
		}
	}
}

static void
make_buffers(struct part *p, const struct job *j)
{
	const uint64_t total = coll_run_bytes(&j->blocks[0], 0, j->blocks[0].count);
	const uint64_t bytes[COLL_BUFFERS] = {total, total, j->list.areas * j->list.area_bytes};

	for (unsigned k = 0; k < COLL_BUFFERS; k++) {
		p->buffers[k] = malloc(bytes[k] + 1);
		memset(p->buffers[k], 0xAA, bytes[k] + 1);
	}
	for (uint64_t i = 0; i < total; i++)
		p->buffers[COLL_IN][i] = given(j->number, j->rank, i);
}

static void
free_buffers(struct part *p)
{
	for (unsigned k = 0; k < COLL_BUFFERS; k++) {
		free(p->buffers[k]);
		p->buffers[k] = NULL;
	}
}

/* Bytes of a member cannot be accessed, which happens once. */
static bool
is_refused(struct lane *l, uint32_t index)
{
	const struct job *j = &l->jobs[index];

	if (!w.refuses || j->rank != w.fault_rank)
		return false;
	w.refuses = false;
	w.fault_n = j->number;
	colls_fail(l->c, index, EFAULT, (uint16_t)j->rank);
	return true;
}

static void
put(struct lane *l, const struct colls_place *p)
{
	HOLDS(p->len > 0);
	if (is_refused(l, p->index))
		return;
	HOLDS(l->jobs[p->index].steps[p->step].op == COLL_RECV);
	for (uint32_t i = 0; i < p->len; i++)
		*byte_of(l, p->index, p->step, true,
			p->offset + i) = ((const uint8_t *)p->bytes)[i];
}

static void
work(struct lane *l, const struct colls_do *d)
{
	const struct coll_step *s = &l->jobs[d->index].steps[d->step];

	HOLDS(s->op == COLL_COPY || s->op == COLL_REDUCE);
	if (d->len > 0 && is_refused(l, d->index))
		return;
	for (uint32_t i = 0; i < d->len; i++) {
		uint8_t *to = byte_of(l, d->index, d->step, true, d->offset + i);
		const uint8_t from = *byte_of(l, d->index, d->step, false, d->offset + i);

		*to = s->op == COLL_COPY ? from : (uint8_t)(*to + from);
	}
}

/* ------------------------------------------------------------------ lanes */

static struct colls_config
config_of(struct lane *l)
{
	return (struct colls_config){
		.places_max = PLACES,
		.members_max = RANKS,
		.live_max = LIVES,
		.steps_max = STEPS,
		.counters = l->counters,
	};
}

static struct colls *
make_colls(struct lane *l, void **memory)
{
	const struct colls_config config = config_of(l);

	*memory = calloc(1, colls_memsize(&config) + 64);
	assert_non_null(*memory);
	return colls_init((void *)(((uintptr_t)*memory + 63) / 64 * 64), &config);
}

/* All that the lane has goes to other memory, as it does when another process takes over. */
static void
move(struct lane *l)
{
	const struct colls_config config = config_of(l);
	const size_t len = colls_memsize(&config);
	uint8_t *image = malloc(len);
	struct colls_span span;
	size_t at = 0;
	void *memory;

	for (uint32_t n = 0; colls_span(l->c, &n, &span); at += span.len) {
		HOLDS(at + span.len <= len);
		memcpy(image + at, span.bytes, span.len);
	}
	const size_t end = at;
	struct colls *c = make_colls(l, &memory);
	const bool all = random_below(2) == 0;

	at = 0;
	for (uint32_t n = 0; colls_span(c, &n, &span); at += span.len) {
		HOLDS(at + span.len <= end);
		memcpy(span.bytes, image + at, span.len);
		colls_adopt(c, &config);
	}
	HOLDS(at == end);
	memset(l->memory, 0x5A, len);
	free(l->memory);
	free(image);
	l->memory = memory;
	l->c = c;
	for (uint32_t i = 0; i < LIVES; i++) {
		struct job *j = &l->jobs[i];
		const size_t bytes = j->list.count * sizeof(*j->steps);

		if (j->steps == NULL)
			continue;
		struct coll_step *steps = malloc(bytes + 1);

		memcpy(steps, j->steps, bytes);
		free(j->steps);
		j->steps = steps;
		j->list.steps = steps;
		if (colls_is_used(c, i) && (all || w.parts[j->number][j->rank].state == RUNS))
			colls_adopted(c, i, steps);
	}
}

static bool
may_move(const struct lane *l)
{
	for (uint32_t r = 0; r < w.ranks; r++) {
		const struct member *m = &w.members[r];

		if (&w.lane[m->lane] == l && colls_is_out(l->c, m->seat.place))
			return false;
	}
	return l->memory != NULL;
}

/* ------------------------------------------------------------------ ends */

static struct member *
member_at(const struct lane *l, uint16_t place)
{
	for (uint32_t r = 0; r < w.ranks; r++) {
		if (&w.lane[w.members[r].lane] == l && w.members[r].seat.place == place)
			return &w.members[r];
	}
	fail_msg("no member");
	return NULL;
}

static void
check_part(const struct member *m)
{
	uint32_t part = 0;

	while (part < m->begun && w.parts[part][m->seat.rank].state == ENDED)
		part++;
	/* until it begins one, or hears of one, the group before it may be known at its place */
	if (!m->is_dead && !m->has_left && m->begun > 0)
		HOLDS(colls_part(w.lane[m->lane].c, m->seat.place) == part);
}

/* An error is what the fault says, and because of the rank that all name. */
static void
check_error(const struct part *p, uint32_t n)
{
	static const uint8_t errors[FAULTS] = {0, EPROTO, EPROTO, EINVAL, EFAULT, ECONNRESET,
		ENOTCONN};

	HOLDS(p->error == errors[w.fault]);
	if (w.fault == LEAVES)
		HOLDS(n >= w.left_part);
	else if (w.fault != DEATH)
		HOLDS(n >= w.fault_n);
	if (w.named == NOBODY)
		w.named = p->because;
	HOLDS(p->because == w.named);
	if ((w.fault != OTHER_HASH && w.fault != OTHER_PLAN) || w.fault_rank != 0)
		HOLDS(p->because == w.fault_rank);
}

static bool
pull_ends(struct lane *l)
{
	struct colls_end end;
	bool any = false;

	while (colls_ended(l->c, &end)) {
		struct member *m = member_at(l, end.place);
		const struct job *j = &l->jobs[end.index];
		struct part *p = &w.parts[end.number][m->seat.rank];

		any = true;
		HOLDS(end.ctx == m->seat.ctx);
		HOLDS(l->to_give_count < LIVES);
		l->to_give[l->to_give_count++] = end.index;
		if (m->is_dead)
			continue;
		HOLDS(p->state == RUNS && p->index == end.index);
		HOLDS(j->number == end.number && j->rank == m->seat.rank);
		p->state = ENDED;
		p->error = end.error;
		p->because = end.rank;
		m->running--;
		if (end.error != 0) {
			check_error(p, end.number);
			/* of what it could not access others have yet to hear */
			m->has_failed |= w.fault < NO_ACCESS ||
				(w.fault == NO_ACCESS && m->seat.rank != w.fault_rank);
		} else {
			HOLDS(!p->is_late);
			if (j->plan == w.plan_of[end.number])
				check_result(j);
		}
		free_buffers(p);
		w.progress_ns = w.now;
	}
	return any;
}

static bool
give_some(struct lane *l, bool all)
{
	bool any = false;

	while (l->to_give_count > 0 && (all || !any)) {
		const uint32_t i = random_below(l->to_give_count), index = l->to_give[i];

		l->to_give[i] = l->to_give[--l->to_give_count];
		HOLDS(colls_is_used(l->c, index));
		colls_give(l->c, index);
		HOLDS(!colls_is_used(l->c, index));
		any = true;
	}
	return any;
}

/* ------------------------------------------------------------------ messages */

static void
acked(uint32_t from)
{
	const struct member *m = &w.members[from];

	HOLDS(w.ack_count < ACKS);
	w.acks[w.ack_count++] = (struct ack){m->lane, m->seat.place, m->seat.key};
}

static bool
ack(void)
{
	if (w.ack_count == 0)
		return false;
	const uint32_t i = random_below(w.ack_count);
	const struct ack a = w.acks[i];

	w.acks[i] = w.acks[--w.ack_count];
	if (w.lane[a.lane].memory != NULL)
		colls_acked(w.lane[a.lane].c, a.place, wire_be64(a.key));
	return true;
}

static void
arrives(uint32_t from, uint32_t to, const uint8_t *bytes, uint32_t len)
{
	struct member *m = &w.members[to];
	struct lane *l = &w.lane[m->lane];
	struct colls_place p;

	/* the group knows who has gone */
	if (m->is_dead || (m->is_told && w.members[from].is_dead))
		return;
	l->busy = true;
	if (colls_message(l->c, &m->seat, (uint16_t)from, bytes, len, &p))
		put(l, &p);
	else if (p.permitted > 0)
		HOLDS(bytes[0] == WIRE_C_PERMIT);
}

static bool
deliver(uint32_t from, uint32_t to)
{
	struct flight *f = w.first[from][to];

	if (f == NULL)
		return false;
	w.first[from][to] = f->next;
	if (f->next == NULL)
		w.last[from][to] = &w.first[from][to];
	w.flights--;
	arrives(from, to, f->bytes, f->len);
	acked(from);
	free(f);
	return true;
}

static bool
deliver_some(void)
{
	const uint32_t pairs = w.ranks * w.ranks, at = random_below(pairs);

	for (uint32_t i = 0; w.flights > 0 && i < pairs; i++) {
		const uint32_t k = (at + i) % pairs;

		if (deliver(k / w.ranks, k % w.ranks))
			return true;
	}
	return false;
}

static void
check_head(const struct member *m, const struct colls_do *d)
{
	const struct wire_coll *h = &d->head;

	HOLDS(h->op > 0 && h->op < WIRE_COLL_OPS);
	HOLDS(wire_be32(h->group) == m->seat.group && wire_be64(h->key) == m->seat.key);
	HOLDS(d->to < w.ranks && d->to != m->seat.rank);
	HOLDS(wire_be32(h->number) < w.ops);
	HOLDS(h->op == WIRE_C_PIECE || d->len == 0);
	HOLDS(h->op != WIRE_C_FAIL || d->to == 0);
	HOLDS(h->op != WIRE_C_ABORT || m->seat.rank == 0);
	if (h->op != WIRE_C_BEGUN && h->op != WIRE_C_ASK)
		w.progress_ns = w.now;
}

static void
departs(struct lane *l, const struct colls_do *d)
{
	struct member *m = member_at(l, d->place);
	const uint32_t from = m->seat.rank;

	HOLDS(d->ctx == m->seat.ctx);
	HOLDS(!m->has_left && !m->is_dead);
	check_head(m, d);
	if (d->len > 0 && is_refused(l, d->index)) {
		acked(from);
		return;
	}
	struct flight *f = calloc(1, sizeof(*f));

	memcpy(f->bytes, &d->head, HEAD_BYTES);
	f->len = HEAD_BYTES + d->len;
	HOLDS(f->len <= MESSAGE);
	HOLDS(d->len == 0 || d->len <= l->jobs[d->index].list.piece);
	for (uint32_t i = 0; i < d->len; i++)
		f->bytes[HEAD_BYTES + i] = *byte_of(l, d->index, d->step, false, d->offset + i);
	if (w.members[d->to].is_dead) {
		acked(from);
		free(f);
		return;
	}
	*w.last[from][d->to] = f;
	w.last[from][d->to] = &f->next;
	w.flights++;
	while (w.local_at_once && w.members[d->to].lane == m->lane && deliver(from, d->to))
		;
}

/* Break the collectives of a lane that wait for a rank that has gone, at those members whose group
 * knows of it. */
static void
break_some(struct lane *l)
{
	struct colls_live live;

	for (uint32_t at = 0; colls_running(l->c, &at, &live);) {
		const struct member *m = member_at(l, live.place);

		HOLDS(w.parts[live.number][m->seat.rank].index == live.index);
		if (m->is_told && (w.fault == DEATH || live.number >= w.left_part))
			colls_break(l->c, live.place, live.number,
				w.fault == DEATH ? ECONNRESET : ENOTCONN, (uint16_t)w.fault_rank);
	}
}

static bool
run_lane(struct lane *l, uint32_t most)
{
	struct colls_do d;
	uint32_t n = 0;

	if (l->memory == NULL)
		return false;
	const bool may_send = most > 100 || random_below(8) != 0;

	break_some(l);
	for (; n < most && colls_next(l->c, &d, may_send, w.now); n++) {
		if (d.what == COLLS_SEND)
			departs(l, &d);
		else
			work(l, &d);
	}
	l->busy = n == most || !may_send;
	return pull_ends(l) || n > 0;
}

/* ------------------------------------------------------------------ members */

static void
begin(struct member *m)
{
	struct lane *l = &w.lane[m->lane];
	const uint32_t n = m->begun++, rank = m->seat.rank;
	const int index = colls_take(l->c, m->last);
	struct part *p = &w.parts[n][rank];
	const struct coll_plan *plan = plan_for(n, rank);
	const bool is_odd = w.fault_n == n && w.fault_rank == rank;
	struct colls_place place;

	HOLDS(index >= 0 && index < LIVES);
	struct job *j = &l->jobs[index];
	const bool same = j->plan == plan && j->rank == rank;

	if (!same) {
		free(j->steps);
		j->list = plan->lists[rank];
		j->steps = malloc(j->list.count * sizeof(*j->steps) + 1);
		memcpy(j->steps, plan->lists[rank].steps, j->list.count * sizeof(*j->steps));
		j->list.steps = j->steps;
		coll_plan_blocks(plan, j->blocks);
	}
	j->plan = plan;
	j->rank = rank;
	j->number = n;
	*p = (struct part){.state = RUNS, .index = (uint32_t)index, .is_late = m->has_failed};
	make_buffers(p, j);
	m->last = (uint32_t)index;
	m->running++;
	l->busy = true;
	const bool bad = w.fault == BAD_LIST && is_odd;

	if (bad) {
		j->list.piece = 0;
		j->plan = NULL;
	}
	const uint32_t odd = is_odd && (w.fault == OTHER_HASH || w.fault == OTHER_PLAN);

	colls_begin(l->c, p->index, &m->seat, &j->list, j->blocks, w.hash_of[n] + odd, same && !bad,
		w.now);
	while (colls_early(l->c, p->index, &place)) {
		HOLDS(place.index == p->index);
		put(l, &place);
	}
	w.progress_ns = w.now;
}

static bool
can_begin(const struct member *m)
{
	const uint32_t own = w.fault == LEAVES && w.fault_rank == m->seat.rank ? w.fault_n : w.ops;

	return !m->is_dead && !m->has_left && m->begun < own && m->running < m->running_most;
}

static bool
begin_some(bool slow_too)
{
	const uint32_t at = random_below(w.ranks);

	for (uint32_t i = 0; i < w.ranks; i++) {
		struct member *m = &w.members[(at + i) % w.ranks];
		const struct lane *l = &w.lane[m->lane];

		/* there are as many indices as may run, but some may not have been given back */
		if (!can_begin(m) || (m->is_slow && !slow_too) || l->to_give_count > 0)
			continue;
		begin(m);
		return true;
	}
	return false;
}

static void
drop_from(uint32_t from, uint32_t to, uint32_t keep)
{
	struct flight **at = &w.first[from][to];

	while (*at != NULL && keep-- > 0)
		at = &(*at)->next;
	for (struct flight *f = *at, *next; f != NULL; f = next) {
		next = f->next;
		free(f);
		w.flights--;
		acked(from);
	}
	*at = NULL;
	w.last[from][to] = at;
}

static void
dies(struct member *m)
{
	struct lane *l = &w.lane[m->lane];
	bool is_alone = true;

	m->is_dead = true;
	for (uint32_t r = 0; r < w.ranks; r++) {
		is_alone &= &w.members[r] == m || w.members[r].lane != m->lane;
		drop_from(m->seat.rank, r, random_below(4));
		drop_from(r, m->seat.rank, 0);
	}
	for (uint32_t n = 0; n < w.ops; n++) {
		free_buffers(&w.parts[n][m->seat.rank]);
		w.parts[n][m->seat.rank].state = GONE;
	}
	if (!is_alone) {
		colls_leave(l->c, m->seat.place);
		return;
	}
	free(l->memory);
	l->memory = NULL;
	l->to_give_count = 0;
}

/* Returns whether anything happened. */
static bool
goes_wrong(void)
{
	if (w.fault_rank == NOBODY)
		return false;
	struct member *m = &w.members[w.fault_rank];
	struct lane *l = &w.lane[m->lane];

	if (w.fault == NO_ACCESS && w.fault_n == NOBODY && !w.refuses && random_below(50) == 0)
		return w.refuses = true;
	if (w.fault == DEATH && !m->is_dead && random_below(200) == 0) {
		dies(m);
		return true;
	}
	if (w.fault == LEAVES && !m->has_left && m->begun == w.fault_n && m->running == 0 &&
		!colls_is_out(l->c, m->seat.place)) {
		check_part(m);
		w.left_part = w.fault_n;
		colls_leave(l->c, m->seat.place);
		m->has_left = true;
		return true;
	}
	m = &w.members[random_below(w.ranks)];
	if (m->is_told || m->is_dead || m->has_left ||
		!(w.members[w.fault_rank].is_dead || w.members[w.fault_rank].has_left))
		return false;
	m->is_told = true;
	w.lane[m->lane].busy = true;
	return true;
}

/* ------------------------------------------------------------------ histories */

static bool
all_have_ended(void)
{
	for (uint32_t r = 0; r < w.ranks; r++) {
		const struct member *m = &w.members[r];

		if (!m->is_dead && !m->has_left && (can_begin(m) || m->running > 0))
			return false;
	}
	return true;
}

static void
time_passes(bool idle)
{
	uint64_t next = COLL_NEVER;

	for (uint32_t i = 0; i < w.lanes; i++) {
		const uint64_t at = w.lane[i].memory ? colls_deadline(w.lane[i].c) : COLL_NEVER;

		next = at < next ? at : next;
	}
	if (idle && (next == COLL_NEVER || w.now - w.progress_ns > STUCK_NS))
		fail_msg("seed %lu (COLLS_SEED): nothing goes on", (unsigned long)w.seed);
	/* members that agree tell each other what they need without the time's help */
	if (idle && w.fault == NO_FAULT)
		HOLDS(next - w.progress_ns < STALL_NS);
	if (!idle && random_below(20) != 0)
		next = w.now + random_below(5000);
	if (next != COLL_NEVER && next > w.now)
		w.now = next;
	for (uint32_t i = 0; i < w.lanes; i++)
		w.lane[i].busy = true;
}

static bool
act(void)
{
	struct lane *l = &w.lane[random_below(w.lanes)];

	switch (random_below(16)) {
	case 0:
	case 1:
		return begin_some(random_below(64) == 0);
	case 2:
	case 3:
	case 4:
	case 5:
	case 6:
		return deliver_some();
	case 7:
	case 8:
		return ack();
	case 9:
		if (random_below(8) == 0)
			time_passes(false);
		return false;
	case 10:
		return l->memory != NULL && give_some(l, random_below(2) == 0);
	case 11:
		if (w.moves && random_below(4) == 0 && l->memory != NULL && may_move(l))
			move(l);
		return goes_wrong();
	default:
		return run_lane(l, 1 + random_below(20));
	}
}

/* Everything that can happen without the time. */
static bool
act_all(void)
{
	bool any = begin_some(true) || goes_wrong() || deliver_some() || ack();

	for (uint32_t i = 0; i < w.lanes; i++) {
		if (w.lane[i].memory == NULL)
			continue;
		any |= w.lane[i].busy && run_lane(&w.lane[i], 1000);
		any |= give_some(&w.lane[i], true);
	}
	return any;
}

/* A new world. The lanes are kept if they are the same as before: another group is at their places.
 */
static void
world_begins(uint64_t seed, bool again)
{
	static struct world fresh;
	const uint32_t ranks = w.ranks;

	if (!again) {
		w = fresh;
		w.seed = seed;
		state_of_random = seed * 7919 + 1;
		w.ranks = 1 + random_below(RANKS);
		w.lanes = random_below(2) ? w.ranks : 1 + random_below(w.ranks);
		for (uint32_t i = 0; i < w.lanes; i++)
			w.lane[i].c = make_colls(&w.lane[i], &w.lane[i].memory);
	}
	for (uint32_t r = 0; r < w.ranks; r++) {
		struct member *m = &w.members[r];

		*m = (struct member){
			.lane = r < w.lanes ? r
				: again     ? m->lane
					    : random_below(w.lanes),
			.seat =
				{
					.place = again ? m->seat.place : (uint16_t)(r + 1),
					.ctx = (uint16_t)(20 + r),
					.rank = (uint16_t)r,
					.count = (uint16_t)w.ranks,
					.group = 77 + again,
					.key = 0x123456789ABCDEF0u + again,
				},
			.running_most = 1 + random_below(6),
			.is_slow = random_below(5) == 0,
		};
		for (uint32_t k = 0; k < w.ranks; k++)
			w.last[r][k] = &w.first[r][k];
	}
	HOLDS(!again || ranks == w.ranks);
	w.topology = random_tree(1 + random_below(8), 3);
	w.ops = random_below(20) == 0 ? 70 + random_below(OPS - 70) : 1 + random_below(16);
	for (uint32_t n = 0; n < w.ops; n++) {
		if (n > 0 && random_below(2))
			w.plan_of[n] = w.plan_of[random_below(n)];
		else
			w.plan_of[n] = w.plans[n] = random_plan();
		w.hash_of[n] = (uint32_t)w.plan_of[n]->hash;
	}
	w.local_at_once = random_below(2) == 0;
	w.moves = random_below(3) == 0;
	w.fault = random_below(2) ? NO_FAULT : random_below(FAULTS);
	w.fault_rank = w.fault == NO_FAULT ? NOBODY : random_below(w.ranks);
	w.fault_n = w.fault == NO_FAULT || w.fault == NO_ACCESS || w.fault == DEATH
		? NOBODY
		: random_below(w.ops);
	w.named = NOBODY;
	w.left_part = 0;
	w.refuses = false;
	if (w.fault == OTHER_PLAN)
		w.plans[OPS] = random_plan();
	memset(w.parts, 0, sizeof(w.parts));
}

/* The bytes that go, and what is left at the end. */
static void
group_ends(void)
{
	for (uint32_t r = 0; r < w.ranks; r++) {
		const struct member *m = &w.members[r];

		check_part(m);
		for (uint32_t n = 0; n < w.ops && !m->is_dead && !m->has_left; n++)
			HOLDS(w.parts[n][r].state == ENDED);
		for (uint32_t n = 0; n < w.fault_n && n < w.ops && m->has_left; n++)
			HOLDS(w.parts[n][r].state == ENDED);
	}
	if (w.fault == OTHER_HASH && w.ranks > 1)
		HOLDS(w.named != NOBODY);
	if ((w.fault == BAD_LIST || w.fault == NO_ACCESS) && w.fault_n != NOBODY)
		HOLDS(w.parts[w.fault_n][w.fault_rank].error != 0);
	for (uint32_t n = 0; n <= OPS; n++) {
		coll_plan_free(w.plans[n]);
		w.plans[n] = NULL;
	}
	for (uint32_t i = 0; i < w.lanes; i++) {
		for (uint32_t k = 0; k < LIVES; k++)
			w.lane[i].jobs[k].plan = NULL;
	}
	topology_free(w.topology);
}

static void
world_ends(void)
{
	for (uint32_t i = 0; i < w.lanes; i++) {
		struct lane *l = &w.lane[i];

		for (uint32_t k = 0; l->memory != NULL && k < LIVES; k++)
			HOLDS(!colls_is_used(l->c, k));
		if (l->memory != NULL)
			HOLDS(colls_is_quiet(l->c));
		for (uint16_t k = 0; l->memory != NULL && k < PLACES; k++)
			HOLDS(!colls_is_out(l->c, k));
		free(l->memory);
		for (uint32_t k = 0; k < LIVES; k++)
			free(l->jobs[k].steps);
	}
}

/* All that is under way gets there. */
static void
settles(void)
{
	while (!all_have_ended() || w.flights > 0) {
		if (!act_all())
			time_passes(true);
	}
	while (act_all())
		;
}

static void
history(uint64_t seed)
{
	world_begins(seed, false);
	for (unsigned again = 0;; again++) {
		for (unsigned n = 100 + random_below(4000); n > 0 && !all_have_ended(); n--)
			act();
		settles();
		for (uint32_t i = 0; i < w.lanes; i++) {
			if (w.lane[i].counters[COLLS_BAD_MESSAGES] != 0)
				fail_msg("seed %lu (COLLS_SEED): bad messages, fault %u",
					(unsigned long)seed, w.fault);
		}
		const bool last = again || w.fault == DEATH || random_below(2);

		group_ends();
		if (last)
			break;
		world_begins(seed, true);
	}
	world_ends();
}

static void
colls__histories(void **state)
{
	const char *asked = getenv("COLLS_HISTORIES"), *one = getenv("COLLS_SEED");
	const unsigned n = asked != NULL ? (unsigned)atoi(asked) : 1500;

	(void)state;
	if (one != NULL) {
		history(strtoull(one, NULL, 0));
		return;
	}
	for (unsigned i = 1; i <= n; i++) {
		if (getenv("COLLS_SHOW") != NULL)
			fprintf(stderr, "seed %u\n", i);
		history(i);
	}
}

/* ------------------------------------------------------------------ single cases */

#define SMALL 3 /* members */

/* Members of a group of three, each in a lane of its own; `same` list for each collective. */
static void
small_world(uint32_t ops)
{
	static struct world fresh;

	w = fresh;
	w.ranks = w.lanes = SMALL;
	w.ops = ops;
	w.fault_n = w.fault_rank = w.named = NOBODY;
	for (uint32_t r = 0; r < SMALL; r++) {
		w.lane[r].c = make_colls(&w.lane[r], &w.lane[r].memory);
		w.members[r] = (struct member){
			.lane = r,
			.seat = {1, (uint16_t)(20 + r), (uint16_t)r, SMALL, 77, 0x1234567890u},
			.running_most = LIVES,
		};
		for (uint32_t k = 0; k < SMALL; k++)
			w.last[r][k] = &w.first[r][k];
	}
}

/* The plan of all collectives from `first` on. */
static void
plan_small_from(uint32_t first, enum coll_kind kind, enum coll_generator g, uint32_t root,
	uint64_t bytes)
{
	if (first == 0)
		w.topology = parsed(
			"switch s\nhost h[0-2]\nlink h[0-2] s bandwidth=1G latency=1us\n");
	const struct coll_task task = {
		.kind = kind,
		.topology = w.topology,
		.ranks = SMALL,
		.root = root,
		.bytes = bytes,
		.params = {1450, 88, 84, HEAD_BYTES, 64, WIRE_COLL_EAGER},
		.only = COLL_NONE,
	};

	assert_int_equal(coll_plan_make(g, &task, &w.plans[first]), 0);
	without_times(w.plans[first], 4ull * 64, 2 * 64);
	for (uint32_t n = first; n < w.ops; n++) {
		w.plan_of[n] = w.plans[first];
		w.hash_of[n] = 0xABCD;
	}
}

static void
plan_small(enum coll_kind kind, enum coll_generator g, uint32_t root, uint64_t bytes)
{
	plan_small_from(0, kind, g, root, bytes);
}

static void
small_ends(void)
{
	for (uint32_t r = 0; r < SMALL; r++) {
		for (uint32_t k = 0; k < SMALL; k++)
			drop_from(r, k, 0);
		for (uint32_t n = 0; n < w.ops; n++)
			free_buffers(&w.parts[n][r]);
	}
	for (uint32_t n = 0; n < w.ops; n++)
		coll_plan_free(w.plans[n]);
	topology_free(w.topology);
	for (uint32_t i = 0; i < SMALL; i++) {
		for (uint32_t k = 0; k < LIVES; k++)
			free(w.lane[i].jobs[k].steps);
		free(w.lane[i].memory);
	}
}

static struct wire_coll
head(uint8_t op, uint32_t number, uint16_t ordinal, uint64_t at)
{
	return (struct wire_coll){
		.op = op,
		.ordinal = wire_be16(ordinal),
		.group = wire_be32(77),
		.number = wire_be32(number),
		.hash = wire_be32(0xABCD),
		.at = wire_be64(at),
		.key = wire_be64(0x1234567890u),
	};
}

/* Gives a message to a member. Returns whether bytes are to be placed. */
static bool
gives(uint32_t to, uint16_t from, const struct wire_coll *h, uint32_t len)
{
	uint8_t bytes[MESSAGE] = {0};
	struct colls_place p;

	memcpy(bytes, h, HEAD_BYTES);
	return colls_message(w.lane[to].c, &w.members[to].seat, from, bytes, len, &p);
}

/* It is counted as bad, and nothing else happens. */
static void
is_bad(uint16_t from, struct wire_coll h, uint32_t len)
{
	const struct colls_config config = config_of(&w.lane[1]);
	const size_t bytes = colls_memsize(&config);
	const uint64_t was = w.lane[1].counters[COLLS_BAD_MESSAGES];
	uint8_t *before = malloc(bytes);

	memcpy(before, w.lane[1].c, bytes);
	assert_false(gives(1, from, &h, len));
	assert_int_equal(w.lane[1].counters[COLLS_BAD_MESSAGES], was + 1);
	assert_memory_equal(before, w.lane[1].c, bytes);
	free(before);
}

static void
colls_message__malformed(void **state)
{
	struct wire_coll h;

	(void)state;
	small_world(1);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 100);
	begin(&w.members[1]);
	for (uint32_t len = 0; len < HEAD_BYTES; len++)
		is_bad(0, head(WIRE_C_BEGUN, 0, 0, 0), len);
	is_bad(0, head(0, 0, 0, 0), HEAD_BYTES);
	is_bad(0, head(WIRE_COLL_OPS, 0, 0, 0), HEAD_BYTES);
	is_bad(0, head(0xFF, 0, 0, 0), HEAD_BYTES);
	for (uint8_t flag = 0x80; flag > WIRE_C_ASKS; flag >>= 1) {
		h = head(WIRE_C_BEGUN, 0, 0, 0);
		h.flags = flag;
		is_bad(0, h, HEAD_BYTES);
	}
	is_bad(1, head(WIRE_C_BEGUN, 0, 0, 0), HEAD_BYTES);
	is_bad(SMALL, head(WIRE_C_BEGUN, 0, 0, 0), HEAD_BYTES);
	is_bad(UINT16_MAX, head(WIRE_C_BEGUN, 0, 0, 0), HEAD_BYTES);
	for (uint8_t op = WIRE_C_PERMIT; op < WIRE_COLL_OPS; op++)
		is_bad(0, head(op, 0, 0, 1), HEAD_BYTES + 1);
	is_bad(0, head(WIRE_C_FAIL, 0, 0, EFAULT), HEAD_BYTES);      /* this is rank 1 */
	is_bad(2, head(WIRE_C_ABORT, 0, 0, EFAULT), HEAD_BYTES);     /* not of rank 0 */
	is_bad(0, head(WIRE_C_ABORT, 0, SMALL, EFAULT), HEAD_BYTES); /* because of nobody */
	is_bad(0, head(WIRE_C_ABORT, 0, 0, 0), HEAD_BYTES);          /* no error */
	small_ends();
}

/* Check what is taken, and what is bad, of the messages that come before their collective is
 * begun. */
static void
colls_message__early(void **state)
{
	const struct wire_coll begun = head(WIRE_C_BEGUN, 3, 0, 0),
			       first = head(WIRE_C_PIECE, 0, 0, 0);

	(void)state;
	small_world(1);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	assert_false(gives(1, 0, &begun, HEAD_BYTES));
	assert_int_equal(w.lane[1].counters[COLLS_BAD_MESSAGES], 0);
	is_bad(0, head(WIRE_C_PIECE, 0, 0, 0), HEAD_BYTES + WIRE_COLL_EAGER + 1);
	assert_false(gives(1, 0, &first, HEAD_BYTES + 8));
	assert_int_equal(w.lane[1].counters[COLLS_BAD_MESSAGES], 1);
	is_bad(0, head(WIRE_C_PIECE, 0, 1, 0), HEAD_BYTES + 8); /* a second one */
	is_bad(0, head(WIRE_C_PERMIT, 0, 0, 8), HEAD_BYTES);
	small_ends();
}

/* A collective that is too far ahead tells nothing about who has begun what. */
static void
colls_message__too_far(void **state)
{
	(void)state;
	small_world(1);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	begin(&w.members[1]);
	is_bad(0, head(WIRE_C_PIECE, WIRE_COLL_AHEAD + 1, 0, 0), HEAD_BYTES + 8);
	small_ends();
}

/* A permit that comes twice says nothing new; one that is taken back ends the collective. */
static void
colls_message__permits(void **state)
{
	unsigned begun = 0;
	struct wire_coll h;
	struct lane *l;
	struct colls_do d;

	(void)state;
	small_world(1);
	plan_small(COLL_GATHER, COLL_BINOMIAL, 0, 1000);
	begin(&w.members[1]);
	l = &w.lane[1];
	for (; colls_next(l->c, &d, true, w.now); begun += d.what == COLLS_SEND)
		assert_true(d.what == COLLS_LOCAL || d.head.op == WIRE_C_BEGUN);
	assert_int_equal(begun, 1); /* the root's permit is needed */
	h = head(WIRE_C_PERMIT, 0, 0, 50);
	assert_false(gives(1, 0, &h, HEAD_BYTES));
	assert_true(colls_next(l->c, &d, true, w.now));
	assert_int_equal(d.head.op, WIRE_C_PIECE);
	assert_int_equal(d.len, 50);
	assert_false(gives(1, 0, &h, HEAD_BYTES));
	assert_false(colls_next(l->c, &d, true, w.now));
	assert_int_equal(l->counters[COLLS_BAD_MESSAGES], 0);
	h = head(WIRE_C_PERMIT, 0, 0, 40);
	assert_false(gives(1, 0, &h, HEAD_BYTES));
	assert_int_equal(l->counters[COLLS_BAD_MESSAGES], 1);
	assert_true(colls_next(l->c, &d, true, w.now));
	assert_int_equal(d.head.op, WIRE_C_FAIL);
	assert_int_equal(wire_be64(d.head.at), EPROTO);
	assert_int_equal(wire_be16(d.head.ordinal), 0);
	small_ends();
}

/* Check that a member that runs ahead is held back, and then goes on. */
static void
colls_next__ahead(void **state)
{
	const uint32_t ops = LIVES;
	uint32_t sent[SMALL] = {0};
	struct colls_do d;

	(void)state;
	small_world(ops);
	plan_small(COLL_BCAST, COLL_BINOMIAL, 0, 8);
	for (uint32_t n = 0; n < ops; n++)
		begin(&w.members[0]);
	while (colls_next(w.lane[0].c, &d, true, w.now)) {
		if (d.what == COLLS_LOCAL) {
			work(&w.lane[0], &d);
			continue;
		}
		sent[d.to] += d.head.op == WIRE_C_PIECE;
		assert_true(d.head.op == WIRE_C_PIECE || d.head.op == WIRE_C_ASK);
		departs(&w.lane[0], &d);
	}
	for (uint32_t r = 1; r < SMALL; r++)
		assert_int_equal(sent[r], WIRE_COLL_AHEAD);
	assert_int_equal(w.lane[0].counters[COLLS_BAD_MESSAGES], 0);
	w.lane[0].busy = true;
	settles();
	for (uint32_t n = 0; n < ops; n++) {
		for (uint32_t r = 0; r < SMALL; r++)
			assert_true(w.parts[n][r].state == ENDED && w.parts[n][r].error == 0);
	}
	for (uint32_t r = 0; r < SMALL; r++)
		assert_int_equal(w.lane[r].counters[COLLS_BAD_MESSAGES], 0);
	small_ends();
}

/* A member whose bytes cannot be accessed does not end with success, and sends no more of it. */
static void
colls_fail__ends_with_no_success(void **state)
{
	const struct wire_coll h = head(WIRE_C_PIECE, 0, 0, 0);
	struct colls_end end;
	struct colls_do d;

	(void)state;
	small_world(1);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	begin(&w.members[1]);
	assert_true(gives(1, 0, &h, HEAD_BYTES + 8));
	colls_fail(w.lane[1].c, w.parts[0][1].index, EFAULT, 1);
	gives(1, 2, &h, HEAD_BYTES + 8);
	while (colls_next(w.lane[1].c, &d, true, w.now))
		assert_true(d.what == COLLS_SEND && d.head.op == WIRE_C_FAIL);
	assert_false(colls_ended(w.lane[1].c, &end));
	const struct wire_coll abort = head(WIRE_C_ABORT, 0, 1, EFAULT);

	gives(1, 0, &abort, HEAD_BYTES);
	assert_true(colls_ended(w.lane[1].c, &end));
	assert_int_equal(end.error, EFAULT);
	assert_int_equal(end.rank, 1);
	small_ends();
}

/* Check that what goes without a permit has to fit the memory in which it may wait. */
static void
colls_begin__eager_too_long(void **state)
{
	static const uint64_t bytes[2] = {WIRE_COLL_EAGER, WIRE_COLL_EAGER + 1};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct colls_end end;

		small_world(1);
		plan_small(COLL_ALLTOALL, COLL_PHASES, 0, bytes[i]);
		for (uint64_t k = 0; k < w.plans[0]->step_count; k++) {
			if (w.plans[0]->steps[k].op <= COLL_RECV)
				w.plans[0]->steps[k].flags = COLL_EAGER;
		}
		begin(&w.members[0]);
		assert_int_equal(colls_ended(w.lane[0].c, &end), i);
		assert_true(i == 0 || (end.error == EINVAL && end.rank == 0));
		small_ends();
	}
}

/* Rank 0 says twice that something has failed: the earlier collective counts. */
static void
colls_message__verdicts(void **state)
{
	const struct wire_coll high = head(WIRE_C_ABORT, 2, 2, EFAULT),
			       low = head(WIRE_C_ABORT, 1, 0, EPROTO);
	static const uint8_t errors[5] = {0, EPROTO, EFAULT, EPROTO, EPROTO};
	struct colls_end end;

	(void)state;
	small_world(5);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	for (uint32_t n = 0; n < 3; n++)
		begin(&w.members[1]);
	gives(1, 0, &high, HEAD_BYTES);
	assert_true(colls_ended(w.lane[1].c, &end));
	assert_int_equal(end.number, 2);
	assert_int_equal(end.error, EFAULT);
	assert_int_equal(end.rank, 2);
	assert_false(colls_ended(w.lane[1].c, &end));
	gives(1, 0, &low, HEAD_BYTES);
	gives(1, 0, &high, HEAD_BYTES);
	begin(&w.members[1]);
	begin(&w.members[1]);
	for (uint32_t k = 0; k < 3; k++) {
		assert_true(colls_ended(w.lane[1].c, &end));
		assert_int_equal(end.error, errors[end.number]);
		assert_int_equal(end.rank, 0);
	}
	assert_false(colls_ended(w.lane[1].c, &end));
	assert_int_equal(colls_part(w.lane[1].c, 1), 0);
	assert_int_equal(w.lane[1].counters[COLLS_BAD_MESSAGES], 0);
	small_ends();
}

/* Check that it is noticed when a plan differs from what others have said before this side
 * begins. */
static void
colls_begin__differs_from_what_was_said(void **state)
{
	const struct wire_coll same = head(WIRE_C_BEGUN, 1, 0, 0);
	struct wire_coll other = same;
	struct colls_do d;

	(void)state;
	small_world(2);
	plan_small(COLL_BCAST, COLL_BINOMIAL, 1, 8);
	other.hash = ~other.hash;
	assert_false(gives(1, 0, &same, HEAD_BYTES));
	assert_false(gives(1, 2, &other, HEAD_BYTES));
	for (uint32_t n = 0; n < 2; n++) {
		bool fails = false;

		begin(&w.members[1]);
		while (colls_next(w.lane[1].c, &d, true, w.now)) {
			if (d.what == COLLS_LOCAL) {
				work(&w.lane[1], &d);
				continue;
			}
			if (d.head.op != WIRE_C_FAIL)
				continue;
			fails = true;
			assert_int_equal(wire_be32(d.head.number), 1);
			assert_int_equal(wire_be16(d.head.ordinal), 2);
			assert_int_equal(wire_be64(d.head.at), EPROTO);
		}
		assert_int_equal(fails, n == 1);
	}
	small_ends();
}

/* Check that a plan that differs is noticed as long as its collective runs, whatever has been begun
 * since. */
static void
colls_message__differs_after_many(void **state)
{
	const struct wire_coll ahead = head(WIRE_C_BEGUN, OPS, 0, 0);
	struct wire_coll other = head(WIRE_C_BEGUN, 0, 0, 0);
	struct colls_do d;

	(void)state;
	small_world(OPS);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	plan_small_from(1, COLL_BCAST, COLL_BINOMIAL, 1, 8);
	for (uint16_t from = 0; from < SMALL; from += 2)
		assert_false(gives(1, from, &ahead, HEAD_BYTES));
	begin(&w.members[1]);
	for (uint32_t n = 1; n < OPS; n++) {
		begin(&w.members[1]);
		while (colls_next(w.lane[1].c, &d, true, w.now)) {
			if (d.what == COLLS_LOCAL)
				work(&w.lane[1], &d);
		}
		pull_ends(&w.lane[1]);
		give_some(&w.lane[1], true);
		assert_int_equal(w.parts[n][1].state, ENDED);
	}
	other.hash = ~other.hash;
	assert_false(gives(1, 2, &other, HEAD_BYTES));
	assert_true(colls_next(w.lane[1].c, &d, true, w.now));
	assert_int_equal(d.head.op, WIRE_C_FAIL);
	assert_int_equal(d.head.number, 0);
	assert_int_equal(wire_be64(d.head.at), EPROTO);
	small_ends();
}

/* Nothing is done for who has left. */
static void
colls_leave__hears_nothing(void **state)
{
	const struct wire_coll h[] = {head(WIRE_C_PIECE, 0, 0, 0), head(WIRE_C_ASK, 0, 0, 0),
		head(WIRE_C_BEGUN, 3, 0, 0)};
	struct colls_do d;

	(void)state;
	small_world(1);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	begin(&w.members[1]);
	colls_leave(w.lane[1].c, 1);
	for (unsigned i = 0; i < 3; i++)
		gives(1, 0, &h[i], HEAD_BYTES);
	assert_false(colls_next(w.lane[1].c, &d, true, w.now));
	assert_false(colls_is_used(w.lane[1].c, w.parts[0][1].index));
	assert_int_equal(w.lane[1].counters[COLLS_BAD_MESSAGES], 0);
	small_ends();
}

/* Check that a collective is out as long as a member has yet to tell others of its end, so that the
 * member does not leave before. */
static void
colls_is_out__verdict_to_be_told(void **state)
{
	struct colls_end end;
	struct colls_do d;

	(void)state;
	small_world(1);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	begin(&w.members[0]);
	colls_fail(w.lane[0].c, w.parts[0][0].index, EFAULT, 0);
	assert_true(colls_ended(w.lane[0].c, &end));
	assert_true(colls_is_out(w.lane[0].c, 1));
	for (uint32_t n = 0; n < SMALL - 1; n++) {
		assert_true(colls_next(w.lane[0].c, &d, true, w.now));
		assert_int_equal(d.head.op, WIRE_C_ABORT);
		colls_acked(w.lane[0].c, 1, d.head.key);
	}
	assert_false(colls_is_out(w.lane[0].c, 1));
	small_ends();
}

/* Check that what others still send of a collective that the group has ended here is not against
 * the protocol. */
static void
colls_break__later_messages_are_good(void **state)
{
	const struct wire_coll h = head(WIRE_C_PIECE, 0, 0, 0);

	(void)state;
	small_world(1);
	plan_small(COLL_ALLTOALL, COLL_AT_ONCE, 0, 8);
	begin(&w.members[1]);
	colls_break(w.lane[1].c, 1, 0, ECONNRESET, 0);
	assert_false(gives(1, 2, &h, HEAD_BYTES + 8));
	assert_int_equal(w.lane[1].counters[COLLS_BAD_MESSAGES], 0);
	small_ends();
}

/* When member 0's next piece leaves; *number: of which collective. */
static uint64_t
next_piece(uint32_t *number)
{
	struct colls *c = w.lane[0].c;
	struct colls_do d;

	for (;;) {
		while (!colls_next(c, &d, true, w.now)) {
			assert_true(colls_deadline(c) != COLL_NEVER);
			assert_true(colls_deadline(c) > w.now);
			w.now = colls_deadline(c);
		}
		if (d.what == COLLS_SEND && d.len > 0) {
			*number = wire_be32(d.head.number);
			return w.now;
		}
	}
}

/* Two collectives that want all of the line share it, until one of them has ended; one that is
 * stopped wants nothing. */
static void
colls_next__several_share_the_line(void **state)
{
	uint32_t number;

	(void)state;
	small_world(2);
	plan_small(COLL_SCATTER, COLL_AT_ONCE, 0, 200); /* four pieces for each of two */
	w.plans[0]->lists[0].send_pace = 1000u << 16;   /* 64 us for one */
	w.plans[0]->lists[0].load_out = COLL_WHOLE;
	begin(&w.members[0]);
	for (uint16_t r = 1; r < SMALL; r++) {
		const struct wire_coll h = head(WIRE_C_BEGUN, 1, 0, 0);

		gives(0, r, &h, HEAD_BYTES);
	}
	unsigned pieces[2] = {1, 0};
	uint64_t last[2] = {next_piece(&number), 0};
	struct colls_do d;

	for (; pieces[0] < 4; pieces[0]++) {
		assert_int_equal(next_piece(&number), last[0] + 64000);
		last[0] = w.now;
	}
	begin(&w.members[0]);
	while (pieces[1] < 3) {
		next_piece(&number);
		if (pieces[number] > 1)
			assert_in_range(w.now - last[number],
				number == 0 && pieces[0] == 4 ? 64000 : 128000, 128000);
		last[number] = w.now;
		pieces[number]++;
	}
	while (colls_next(w.lane[0].c, &d, true, w.now))
		pieces[wire_be32(d.head.number)]++;
	colls_stop(w.lane[0].c, w.members[0].seat.ctx);
	assert_false(colls_next(w.lane[0].c, &d, true, w.now));
	w.now += 64000;
	const uint64_t again = w.now;

	colls_start(w.lane[0].c, w.members[0].seat.ctx);
	assert_int_equal(next_piece(&number), again);
	for (pieces[number]++; pieces[0] < 8; pieces[number]++)
		next_piece(&number);
	assert_in_range(pieces[1], 3, 5);
	next_piece(&number);
	for (last[1] = w.now; ++pieces[1] < 7; last[1] = w.now)
		assert_int_equal(next_piece(&number), last[1] + 64000);
	small_ends();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(colls_message__malformed),
		cmocka_unit_test(colls_message__early),
		cmocka_unit_test(colls_message__too_far),
		cmocka_unit_test(colls_message__permits),
		cmocka_unit_test(colls_next__ahead),
		cmocka_unit_test(colls_fail__ends_with_no_success),
		cmocka_unit_test(colls_begin__eager_too_long),
		cmocka_unit_test(colls_message__verdicts),
		cmocka_unit_test(colls_begin__differs_from_what_was_said),
		cmocka_unit_test(colls_message__differs_after_many),
		cmocka_unit_test(colls_leave__hears_nothing),
		cmocka_unit_test(colls_is_out__verdict_to_be_told),
		cmocka_unit_test(colls_break__later_messages_are_good),
		cmocka_unit_test(colls_next__several_share_the_line),
		cmocka_unit_test(colls__histories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
