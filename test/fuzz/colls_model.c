/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See colls_model.h.
 */
#include <errno.h>

#include "colls_model.h"

#define BLOCKS     3
#define HUGE_BLOCK (1ull << 40)

/* ------------------------------------------------------------------ lists */

static uint32_t
barrier(struct coll_step *s, uint16_t rank, uint16_t count)
{
	uint32_t n = 0;

	for (uint16_t d = 1; d < count; d *= 2) {
		s[n] = (struct coll_step){
			.op = COLL_SEND,
			.flags = COLL_EAGER,
			.peer = (rank + d) % count,
			.after = {n > 0 ? (uint16_t)(n - 1) : COLL_NONE, COLL_NONE},
		};
		s[n + 1] = (struct coll_step){
			.op = COLL_RECV,
			.flags = COLL_EAGER,
			.to = COLL_OUT,
			.peer = (rank + count - d) % count,
			.after = {COLL_NONE, COLL_NONE},
		};
		n += 2;
	}
	return n;
}

/* Between rank 0 and each other one; all: the same bytes, otherwise each one's block. */
static uint32_t
star(struct coll_step *s, uint16_t rank, uint16_t count, bool to_root, uint8_t flags, bool all)
{
	uint32_t n = 0;

	for (uint16_t r = 1; r < count; r++) {
		if (rank != 0 && r != rank)
			continue;
		s[n++] = (struct coll_step){
			.op = (rank == 0) == to_root ? COLL_RECV : COLL_SEND,
			.flags = flags,
			.to = COLL_OUT,
			.peer = rank == 0 ? r : 0,
			.after = {COLL_NONE, COLL_NONE},
			.block = all ? 0 : r % BLOCKS,
			.blocks = all ? BLOCKS : 1,
		};
	}
	return n;
}

/* A reduction along the ranks, which comes back to rank 0. */
static uint32_t
chain(struct coll_step *s, uint16_t rank, uint16_t count)
{
	const uint16_t left = (rank + count - 1) % count, right = (rank + 1) % count;
	const struct coll_step base = {
		.after = {COLL_NONE, COLL_NONE},
		.block = 1,
		.blocks = BLOCKS,
	};

	for (unsigned i = 0; i < 3; i++)
		s[i] = base;
	s[0].op = COLL_RECV;
	s[0].peer = left;
	s[0].to = rank == 0 ? COLL_OUT : COLL_SCRATCH;
	if (rank == 0) {
		s[1].op = COLL_SEND;
		s[1].peer = right;
		return 2;
	}
	s[1].op = COLL_REDUCE;
	s[1].to = COLL_SCRATCH;
	s[1].after[0] = 0;
	s[1].flags = COLL_STREAM_0;
	s[2].op = COLL_SEND;
	s[2].from = COLL_SCRATCH;
	s[2].peer = right;
	s[2].after[0] = 1;
	s[2].flags = COLL_STREAM_0;
	return 3;
}

/* Make the steps that combine in scratch what comes from two members, and send it to a third one,
 * or to one of them. Return how many steps these are. */
static uint32_t
tree(struct coll_step *s, uint16_t rank, uint16_t count)
{
	static const uint8_t ops[] = {COLL_SEND, COLL_SEND, COLL_RECV, COLL_RECV, COLL_REDUCE,
		COLL_SEND};
	const uint16_t left = (rank + count - 1) % count, right = (rank + 1) % count;

	for (uint16_t i = 0; i < 6; i++)
		s[i] = (struct coll_step){
			.op = ops[i],
			.to = COLL_SCRATCH,
			.peer = i == 0 || i == 2 ? left : right,
			.after = {COLL_NONE, COLL_NONE},
			.block = 0,
			.blocks = BLOCKS,
			.area = i == 3,
		};
	/* of step 3 into what step 2 got */
	s[4].from = COLL_SCRATCH;
	s[4].source = s[4].after[1] = 3;
	s[4].target = s[4].after[0] = 2;
	s[4].flags = COLL_STREAM_0 | COLL_STREAM_1;
	s[5].from = COLL_SCRATCH;
	s[5].source = 2;
	s[5].after[0] = 4;
	s[5].flags = COLL_STREAM_0;
	/* the third one gets it */
	s[6] = s[3];
	s[6].peer = left;
	s[6].to = COLL_OUT;
	return 7;
}

/* Each block goes to the right, and comes by way of one area. */
static uint32_t
ring(struct coll_step *s, uint16_t rank, uint16_t count)
{
	const uint16_t left = (rank + count - 1) % count, right = (rank + 1) % count;

	for (uint16_t b = 0; b < BLOCKS; b++, s += 3) {
		for (unsigned i = 0; i < 3; i++)
			s[i] = (struct coll_step){
				.after = {COLL_NONE, COLL_NONE},
				.block = b,
				.blocks = 1,
			};
		s[0].op = COLL_SEND;
		s[0].flags = COLL_TURNS;
		s[0].peer = right;
		s[1].op = COLL_RECV;
		s[1].to = COLL_SCRATCH;
		s[1].peer = left;
		s[2].op = b == 1 ? COLL_REDUCE : COLL_COPY;
		s[2].from = COLL_SCRATCH;
		s[2].to = COLL_OUT;
		s[2].source = s[2].after[0] = (uint16_t)(3 * b + 1);
		s[2].flags = COLL_STREAM_0;
	}
	return 3 * BLOCKS;
}

static uint32_t
sound(struct coll_step *s, uint8_t kind, uint16_t rank, uint16_t count)
{
	switch (kind) {
	case 0:
		return barrier(s, rank, count);
	case 1:
		return star(s, rank, count, false, 0, true);
	case 2:
		return star(s, rank, count, true, 0, false);
	case 3:
		return star(s, rank, count, true, COLL_EAGER, false);
	case 4:
		return chain(s, rank, count);
	case 5:
		return ring(s, rank, count);
	default:
		return tree(s, rank, count);
	}
}

/* COLL_NONE, or a step. */
static uint16_t
take_after(struct input *in)
{
	const uint8_t v = take8(in);

	return v >= 0x80 ? COLL_NONE : v % (STEPS + 1);
}

static void
take_step(struct input *in, struct coll_step *s)
{
	const uint8_t how = take8(in), where = take8(in), run = take8(in);

	*s = (struct coll_step){
		.op = how == 255 ? COLL_OPS : how % COLL_OPS,
		.flags = how / 4 % 16,
		.from = where % 4,
		.to = where / 4 % 4,
		.peer = where / 16 % (MEMBERS + 1),
		.after = {take_after(in), take_after(in)},
		.block = run == 255 ? 0xFFF0 : run % (BLOCKS + 1),
		.blocks = run == 255 ? 0 : run / 4 % (BLOCKS + 2),
		.source = run / 32,
		.target = where / 128,
		.area = where / 64 % 2,
		.at_us = how / 64 * 100,
	};
}

/* A field of a step gets another value. */
static void
spoil(struct input *in, struct coll_step *steps, uint32_t count)
{
	const uint8_t how = take8(in), value = take8(in), few = value % 4;
	struct coll_step *s = &steps[how / 16 % count];
	uint8_t *const bytes[] = {&s->op, &s->flags, &s->from, &s->to, &s->area};
	uint16_t *const numbers[] = {&s->peer, &s->after[0], &s->after[1], &s->block, &s->blocks,
		&s->source, &s->target};

	if (how % 16 < 5)
		*bytes[how % 16] = value < 128 ? few : value % 32;
	else if (how % 16 < 12)
		*numbers[how % 16 - 5] = value < 128 ? few : value < 192 ? COLL_NONE : value;
	else if (how % 16 == 12)
		s->early = value;
	else if (how % 16 == 13)
		s->at_us = value * 10u;
	else
		((uint8_t *)s)[value % sizeof(*s)] = take8(in);
}

static void
take_times(struct input *in, struct coll_step *steps, uint32_t count)
{
	const uint8_t how = take8(in);

	for (uint32_t i = 0; i < count; i++) {
		if (steps[i].op != COLL_SEND && steps[i].op != COLL_RECV)
			continue;
		steps[i].at_us = i * (how % 8) * 10;
		steps[i].lead_ns = how / 8 % 4 * 9000u;
		steps[i].pace = how / 32 * 65536u * 8;
	}
}

static void
take_blocks(struct input *in, struct job *j)
{
	static const uint64_t each[] = {0, 1, 7, 50, 100, 224, 300, HUGE_BLOCK};
	const uint8_t how = take8(in);
	const uint32_t count = how / 64 == 3 ? how % (BLOCKS + 1) : BLOCKS;

	j->huge = how % 8 == 7;
	free(j->ends);
	j->ends = NULL;
	if (how & 8) {
		j->ends = malloc(count * sizeof(*j->ends));
		for (uint32_t i = 0; i < count; i++)
			j->ends[i] = (i > 0 ? j->ends[i - 1] : 0) + take8(in);
		j->huge = false;
	}
	for (unsigned b = 0; b < COLL_BUFFERS; b++)
		j->blocks[b] = (struct coll_blocks){
			.count = count,
			.each = each[how % 8],
			/* of some buffers only */
			.ends = b == COLL_SCRATCH && how & 16 ? NULL : j->ends,
		};
	j->huge |= how & 16 && how % 8 == 7;
}

void
take_list(struct input *in, struct job *j, const struct colls_seat *seat)
{
	static const uint32_t pieces[] = {64, 8, 1, 224, 1468, 100, 64, 0};
	const uint8_t how = take8(in), more = take8(in), kind = how % 8;
	struct coll_step steps[STEPS + 1];
	uint32_t count;

	if (kind < 7) {
		count = sound(steps, kind, seat->rank, seat->count);
		if (how & 8)
			take_times(in, steps, count);
		for (unsigned i = 0; how & 16 && count > 0 && i <= how / 32; i++)
			spoil(in, steps, count);
	} else {
		count = how / 8 % (STEPS + 2);
		for (uint32_t i = 0; i < count; i++)
			take_step(in, &steps[i]);
	}
	take_blocks(in, j);
	free(j->steps);
	j->steps = malloc(count * sizeof(*steps));
	memcpy(j->steps, steps, count * sizeof(*steps));
	j->list = (struct coll_list){
		.steps = j->steps,
		.count = count,
		.piece = pieces[more % 8],
		.areas = more / 64,
		.area_bytes = pieces[more % 8] + more / 8 % 8 * 20,
		.send_pace = more / 8 % 4 == 3 ? 65536 * 8 : 0,
		.window = how & 32 ? more : 0,
		.grain = more % 5 * 10,
	};
	if (kind < 7 && j->list.areas < 2)
		j->list.areas = 2;
}

uint64_t
run_of(const struct job *j, const struct coll_step *s)
{
	return coll_run_bytes(&j->blocks[s->op == COLL_RECV ? s->to : s->from], s->block,
		s->blocks);
}

uint32_t
step_of(const struct job *j, uint8_t op, uint16_t peer, uint16_t ordinal)
{
	uint32_t i = 0;

	for (; i < j->list.count; i++) {
		if (j->steps[i].op == op && j->steps[i].peer == peer && ordinal-- == 0)
			break;
	}
	return i;
}

/* ------------------------------------------------------------------ scratch */

uint32_t *
shadow_of(struct world *w, struct job *j, uint16_t recv, uint64_t offset)
{
	const struct coll_exec *x = colls_exec(w->colls, (uint32_t)(j - w->jobs));
	const uint64_t at = coll_scratch_place(x, recv, offset), area = j->steps[recv].area;

	MUST(at >= area * j->list.area_bytes && at < (area + 1) * j->list.area_bytes);
	MUST(area < j->list.areas);
	return at < SHADOW ? &j->shadow[at] : NULL;
}

void
in_scratch(struct world *w, struct job *j, uint16_t recv, uint64_t offset, uint64_t len, bool come)
{
	MUST(len <= j->list.area_bytes);
	for (uint64_t i = offset; i < offset + len; i++) {
		uint32_t *s = shadow_of(w, j, recv, i);
		const uint32_t tag = (uint32_t)(recv + 1) << 24 | (uint32_t)(i & 0xFFFFFF);

		if (s == NULL)
			return;
		MUST(come || *s == tag);
		*s = tag;
	}
}

/* ------------------------------------------------------------------ looking */

struct job *
job_of(struct world *w, uint16_t place, uint32_t number)
{
	for (unsigned i = 0; i < LIVES; i++) {
		if (w->jobs[i].runs && w->jobs[i].place == place && w->jobs[i].number == number)
			return &w->jobs[i];
	}
	return NULL;
}

unsigned
look(struct world *w)
{
	struct colls_live l;
	bool seen[LIVES] = {false};
	unsigned n = 0;

	for (uint32_t at = 0; colls_running(w->colls, &at, &l); n++) {
		MUST(l.index < LIVES && l.place < PLACES && !seen[l.index]);
		const struct job *j = &w->jobs[l.index];
		const struct place *p = &w->places[l.place];

		seen[l.index] = true;
		MUST(j->runs && j->place == l.place && j->number == l.number);
		MUST(p->used && p->seen && !p->left && l.ctx == p->of.ctx);
		MUST(!p->is_over || is_before(l.number, p->over));
	}
	for (unsigned i = 0; i < LIVES; i++)
		MUST(colls_is_used(w->colls, i) == (w->jobs[i].runs || w->jobs[i].ended));
	return n;
}

/* Look, and those that run are all that were begun, if what has ended has been told. */
static void
look_well(struct world *w)
{
	unsigned n = 0;

	for (unsigned i = 0; i < LIVES; i++)
		n += w->jobs[i].runs;
	MUST(look(w) == n);
	for (uint16_t i = 0; i < PLACES; i++) {
		const struct place *p = &w->places[i];
		uint32_t first = p->next;

		for (unsigned k = 0; k < LIVES; k++) {
			const struct job *j = &w->jobs[k];

			if (j->runs && j->place == i && is_before(j->number, first))
				first = j->number;
		}
		MUST(!p->seen || colls_part(w->colls, i) == first);
		MUST(p->lib.key != 0 || colls_part(w->colls, i) == 0);
	}
}

unsigned
count_out(const struct world *w, uint16_t place)
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->ack_count; i++)
		n += w->acks[i].place == place &&
			w->acks[i].key == wire_be64(w->places[place].lib.key);
	return n;
}

void
look_out(const struct world *w)
{
	for (uint16_t ctx = FIRST_CTX; ctx < FIRST_CTX + CTXS; ctx++) {
		bool any = false;

		for (uint16_t i = 0; i < PLACES; i++)
			any |= w->places[i].lib.ctx == ctx && colls_is_out(w->colls, i);
		MUST(colls_ctx_is_out(w->colls, ctx) == any);
	}
}

/* ------------------------------------------------------------------ ends */

void
results(struct world *w)
{
	struct colls_end e;

	while (colls_ended(w->colls, &e)) {
		MUST(e.index < LIVES && e.place < PLACES);
		struct job *j = &w->jobs[e.index];
		const struct place *p = &w->places[e.place];

		MUST(j->runs && j->number == e.number && j->place == e.place);
		MUST(p->used && p->seen && e.ctx == p->of.ctx && e.rank < p->of.count);
		MUST(e.error != 0 || (j->valid && !j->fails));
		j->runs = false;
		j->ended = true;
	}
	look_well(w);
}

void
gives(struct world *w, unsigned i)
{
	if (!w->jobs[i].ended)
		return;
	w->jobs[i].ended = false;
	colls_give(w->colls, i);
}

void
is_over(struct place *p, uint32_t number)
{
	if (!p->is_over || is_before(number, p->over))
		p->over = number;
	p->is_over = !p->is_odd;
}

void
breaks(struct world *w, uint16_t place, uint32_t number)
{
	struct place *p = &w->places[place];
	const uint8_t how = take8(&w->in);

	is_over(p, number);
	colls_break(w->colls, place, number, 1 + how / 4, how % p->of.count);
}

void
breaks_one(struct world *w)
{
	const uint8_t how = take8(&w->in);
	const struct job *j = &w->jobs[how % LIVES];
	const uint16_t place = how / LIVES % PLACES;

	if (j->runs)
		breaks(w, j->place, j->number);
	else if (w->places[place].seen)
		breaks(w, place, w->places[place].next + how / 64);
}

void
fails(struct world *w, unsigned index)
{
	struct job *j = &w->jobs[index];

	if (!j->runs)
		return;
	j->fails = true;
	colls_fail(w->colls, index, EFAULT, w->places[j->place].of.rank);
}

bool
is_refused(struct world *w, unsigned index)
{
	if (take8(&w->in) % 16 != 15)
		return false;
	fails(w, index);
	return true;
}

void
leaves(struct world *w, uint16_t place)
{
	struct place *p = &w->places[place];
	struct colls_live l;
	uint32_t n = 0;

	for (uint32_t at = 0; colls_running(w->colls, &at, &l);) {
		if (l.place != place)
			continue;
		w->jobs[l.index].runs = false;
		n++;
	}
	MUST(colls_leave(w->colls, place) == n);
	p->left = true;
}
