/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See colls_world.h.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "colls_world.h"

struct world w;

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

void
part_free(struct part *p)
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

void
lane_work(struct lane *l, const struct colls_do *d)
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

struct colls_config
lane_config(struct lane *l)
{
	return (struct colls_config){
		.places_max = PLACES,
		.members_max = RANKS,
		.live_max = LIVES,
		.steps_max = STEPS,
		.counters = l->counters,
	};
}

struct colls *
lane_colls(struct lane *l, void **memory)
{
	const struct colls_config config = lane_config(l);

	*memory = calloc(1, colls_memsize(&config) + 64);
	assert_non_null(*memory);
	return colls_init((void *)(((uintptr_t)*memory + 63) / 64 * 64), &config);
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

void
member_check_part(const struct member *m)
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

bool
lane_pull_ends(struct lane *l)
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
		part_free(p);
		w.progress_ns = w.now;
	}
	return any;
}

bool
lane_give(struct lane *l, bool all)
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

bool
world_ack(void)
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

bool
world_deliver(void)
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

void
lane_departs(struct lane *l, const struct colls_do *d)
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

bool
lane_run(struct lane *l, uint32_t most)
{
	struct colls_do d;
	uint32_t n = 0;

	if (l->memory == NULL)
		return false;
	const bool may_send = most > 100 || random_below(8) != 0;

	break_some(l);
	for (; n < most && colls_next(l->c, &d, may_send, w.now); n++) {
		if (d.what == COLLS_SEND)
			lane_departs(l, &d);
		else
			lane_work(l, &d);
	}
	l->busy = n == most || !may_send;
	return lane_pull_ends(l) || n > 0;
}

/* ------------------------------------------------------------------ members */

void
member_begins(struct member *m)
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

bool
world_begin_some(bool slow_too)
{
	const uint32_t at = random_below(w.ranks);

	for (uint32_t i = 0; i < w.ranks; i++) {
		struct member *m = &w.members[(at + i) % w.ranks];
		const struct lane *l = &w.lane[m->lane];

		/* there are as many indices as may run, but some may not have been given back */
		if (!can_begin(m) || (m->is_slow && !slow_too) || l->to_give_count > 0)
			continue;
		member_begins(m);
		return true;
	}
	return false;
}

void
world_drop(uint32_t from, uint32_t to, uint32_t keep)
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
		world_drop(m->seat.rank, r, random_below(4));
		world_drop(r, m->seat.rank, 0);
	}
	for (uint32_t n = 0; n < w.ops; n++) {
		part_free(&w.parts[n][m->seat.rank]);
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

bool
world_goes_wrong(void)
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
		member_check_part(m);
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

/* ------------------------------------------------------------------ time */

bool
world_has_ended(void)
{
	for (uint32_t r = 0; r < w.ranks; r++) {
		const struct member *m = &w.members[r];

		if (!m->is_dead && !m->has_left && (can_begin(m) || m->running > 0))
			return false;
	}
	return true;
}

void
world_time_passes(bool idle)
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

bool
world_act_all(void)
{
	bool any = world_begin_some(true) || world_goes_wrong() || world_deliver() || world_ack();

	for (uint32_t i = 0; i < w.lanes; i++) {
		if (w.lane[i].memory == NULL)
			continue;
		any |= w.lane[i].busy && lane_run(&w.lane[i], 1000);
		any |= lane_give(&w.lane[i], true);
	}
	return any;
}

void
world_settles(void)
{
	while (!world_has_ended() || w.flights > 0) {
		if (!world_act_all())
			world_time_passes(true);
	}
	while (world_act_all())
		;
}
