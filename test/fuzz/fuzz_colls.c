/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The collectives of a lane (lib/coll/live.h), fed a program: groups at several places, whose
 * members begin collectives with lists that are sound, nearly so, or garbage; messages of hostile
 * members, and of honest ones; acknowledgements in any order, bytes that cannot be accessed,
 * members that leave, other groups at the same places, time, and state that moves to other memory.
 * Whatever comes: what was begun ends, and once; bytes are put where the list says, each after the
 * one before it, as far as was permitted, and what lies in scratch stays until it has been used;
 * only members are sent anything, no more than they can keep; a malformed message changes nothing;
 * and when all have left and all has arrived nothing is left over.
 *
 * Design notes
 * 1. Hashes, numbers and ordinals are not guessed: an input's bytes choose among right values and
 *    wrong ones.
 * 2. Two members of one group may be here, at two places: what they send to each other arrives.
 * 3. Here the library is given what an input says, and what it does is looked at. The model of what
 *    it may do is colls_model.c.
 */
#include <errno.h>

#include "colls_model.h"

#define MESSAGE    1500
#define CALLS_MAX  200000 /* of colls_next, without new input */
#define FAR        1000u  /* numbers of collectives */
#define HEAD_BYTES ((uint32_t)sizeof(struct wire_coll))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ------------------------------------------------------------------ members */

/* The library hears of the group at a place. */
static void
touch(struct place *p)
{
	if (p->seen)
		return;
	p->seen = true;
	p->lib = p->of;
	p->left = false;
}

static bool
is_free(const struct world *w, const struct colls_seat *s)
{
	for (unsigned i = 0; i < PLACES; i++) {
		const struct place *p = &w->places[i];

		if (p->used && p->of.key == s->key && p->of.rank == s->rank)
			return false;
	}
	return true;
}

/* Another group comes to a place, or another member of one that is here. */
static void
comes(struct world *w, uint16_t place)
{
	const uint8_t how = take8(&w->in);
	struct place *p = &w->places[place];
	const struct place *other = &w->places[how / 64 % PLACES];
	struct colls_seat seat = {
		.place = place,
		.ctx = FIRST_CTX + how % CTXS,
		.count = 1 + (how / 2 + 1) % MEMBERS,
		.group = 7 + how % 3,
	};

	if (p->used)
		leaves(w, place);
	results(w);
	seat.rank = how / 8 % seat.count;
	seat.key = ++w->keys << 40 | 5;
	if (how & 32 && other->used && other->of.key > p->of.key) {
		seat.key = other->of.key;
		seat.count = other->of.count;
		seat.group = other->of.group;
		seat.rank = (other->of.rank + 1) % seat.count;
	}
	const struct place was = *p;

	p->used = false;
	if (!is_free(w, &seat)) {
		p->used = was.used;
		return;
	}
	*p = (struct place){.of = seat, .lib = was.lib, .left = was.left, .used = true};
}

static void places(struct world *w, const struct colls_place *p);

/* Note what is known of all members when a collective is begun: what may go to each of them, and
 * which steps need no further permit. */
static void
greets(const struct place *p, struct job *j)
{
	for (unsigned r = 0; r < p->of.count; r++) {
		const struct member *m = &p->members[r];

		j->near[r] = m->loose || is_before(j->number, m->heard + WIRE_COLL_AHEAD);
		j->open[r] = m->loose || is_before(j->number, m->heard);
		j->unheard[r] = 0;
	}
	memset(j->at, 0, sizeof(j->at));
	for (uint32_t i = 0; j->valid && i < j->list.count; i++) {
		const struct coll_step *s = &j->steps[i];

		if (s->op != COLL_SEND && s->op != COLL_RECV)
			continue;
		const unsigned n = j->number % WIRE_COLL_AHEAD;
		const struct member *m = &p->members[s->peer];
		const bool said = m->early[n].permits && m->early[n].number == j->number;

		j->at[i].may = s->flags & COLL_EAGER || (s->op == COLL_SEND && said) ? UINT64_MAX
										     : 0;
	}
}

/* Return whether a list can be run; it may be refused for other reasons, too. */
static bool
is_valid(const struct job *j)
{
	uint32_t step;

	if (j->list.count > STEPS || coll_check(&j->list, j->blocks, &step) != 0)
		return false;
	for (uint32_t i = 0; i < j->list.count; i++) {
		const struct coll_step *s = &j->steps[i];

		/* what goes without a permit may have to wait at its receiver */
		if ((s->op == COLL_SEND || s->op == COLL_RECV) && s->flags & COLL_EAGER &&
			run_of(j, s) > WIRE_COLL_EAGER)
			return false;
	}
	return true;
}

/* Takes an index, if one is free. */
static int
takes(struct world *w, uint32_t like)
{
	const int index = colls_take(w->colls, like);
	bool any = false;

	for (unsigned i = 0; i < LIVES; i++)
		any |= !w->jobs[i].runs && !w->jobs[i].ended;
	MUST(index >= 0 ? any && index < LIVES : !any && index == -EAGAIN);
	if (index < 0)
		return index;
	MUST(!w->jobs[index].runs && !w->jobs[index].ended);
	if (like < LIVES && !w->jobs[like].runs && !w->jobs[like].ended)
		MUST((uint32_t)index == like);
	return index;
}

/* Note that the library has taken what came early for a collective, if that still runs. */
static void
early_is_taken(struct world *w, const struct job *j)
{
	struct place *p = &w->places[j->place];
	struct colls_live l;

	for (uint32_t at = 0; colls_running(w->colls, &at, &l);) {
		for (unsigned r = 0; &w->jobs[l.index] == j && r < p->of.count; r++) {
			struct member *m = &p->members[r];

			if (m->early[j->number % WIRE_COLL_AHEAD].number == j->number)
				m->early[j->number % WIRE_COLL_AHEAD].is = false;
		}
	}
}

static void
begins(struct world *w, uint16_t place)
{
	const uint8_t how = take8(&w->in);
	struct place *p = &w->places[place];
	struct colls_place bytes;
	unsigned n = 0;

	if (!p->used || (p->seen && p->left))
		return;
	const int index = takes(w, how % (LIVES + 1));

	if (index < 0)
		return;
	struct job *j = &w->jobs[index];
	const bool same = how & 64 && j->made;

	if (!same)
		take_list(&w->in, j, &p->of);
	MUST(colls_number(w->colls, &p->of) == p->next);
	touch(p);
	if (how == 255)
		breaks(w, place, p->next);
	j->list.ranks = p->of.count;
	j->list.rank = p->of.rank;
	j->valid = is_valid(j);
	j->place = place;
	j->number = p->next++;
	j->hash = 1 + how / 8 % 8 / 7;
	j->made = j->runs = true;
	j->fails = p->is_over && !is_before(j->number, p->over);
	memset(j->shadow, 0, sizeof(j->shadow));
	greets(p, j);
	colls_begin(w->colls, (uint32_t)index, &p->of, &j->list, j->blocks, j->hash, same, w->now);
	while (colls_early(w->colls, (uint32_t)index, &bytes)) {
		MUST(bytes.index == (uint32_t)index && n++ < MEMBERS);
		places(w, &bytes);
	}
	early_is_taken(w, j);
}

/* ------------------------------------------------------------------ messages that come */

/* Bytes have come, and are put into their place. */
static void
places(struct world *w, const struct colls_place *p)
{
	MUST(p->index < LIVES);
	struct job *j = &w->jobs[p->index];

	MUST(j->runs && j->valid && !j->fails && p->step < j->list.count && p->len > 0);
	const struct coll_step *s = &j->steps[p->step];
	uint64_t *done = &j->at[p->step].done;

	MUST(s->op == COLL_RECV && p->len <= WIRE_COLL_EAGER + MESSAGE);
	MUST(p->offset == *done && p->offset + p->len <= run_of(j, s));
	MUST(p->offset + p->len <= j->at[p->step].may);
	for (uint32_t i = 0; i < p->len; i++)
		MUST(((const uint8_t *)p->bytes)[i] == 0x77);
	*done += p->len;
	if (s->to == COLL_SCRATCH)
		in_scratch(w, j, p->step, p->offset, p->len, true);
	is_refused(w, p->index);
}

static bool
is_good(const struct place *p, uint16_t from, const struct wire_coll *h, uint32_t len)
{
	return len >= HEAD_BYTES && from < p->of.count && from != p->of.rank && h->op > 0 &&
		h->op < WIRE_COLL_OPS && !(h->flags & ~WIRE_C_ASKS) &&
		(h->op == WIRE_C_PIECE || len == HEAD_BYTES);
}

/* A verdict that the member may give. Of two that are far from each other it is not known which one
 * is the earlier. */
static void
hears_verdict(struct place *p, uint16_t from, const struct wire_coll *h)
{
	const uint8_t error = (uint8_t)wire_be64(h->at);
	const uint32_t number = wire_be32(h->number);
	const bool allowed = h->op == WIRE_C_ABORT ? from == 0 : p->of.rank == 0;

	if (!allowed || error == 0 || wire_be16(h->ordinal) >= p->of.count)
		return;
	p->is_odd |= number - p->next + FAR > 2 * FAR;
	p->is_over &= !p->is_odd;
	if (h->op == WIRE_C_ABORT || error != EPROTO || is_before(number, p->next))
		is_over(p, number);
}

/* It is early: whether it is kept is known if nothing can be there. */
static void
hears_early(struct place *p, struct member *m, const struct wire_coll *h, uint32_t len)
{
	const uint32_t number = wire_be32(h->number);
	struct early *e = &m->early[number % WIRE_COLL_AHEAD];

	if (e->is || !is_before(number, p->next + WIRE_COLL_AHEAD) ||
		len > HEAD_BYTES + WIRE_COLL_EAGER)
		m->loose = true;
	else
		*e = (struct early){true, h->op == WIRE_C_PERMIT, number};
}

static void
hears(struct world *w, struct place *p, uint16_t from, const struct wire_coll *h, uint32_t len)
{
	const uint32_t number = wire_be32(h->number);
	struct member *m = &p->members[from];

	if (h->op == WIRE_C_FAIL || h->op == WIRE_C_ABORT) {
		hears_verdict(p, from, h);
		return;
	}
	if (!is_before(number, p->next) && (h->op == WIRE_C_PIECE || h->op == WIRE_C_PERMIT))
		hears_early(p, m, h, len);
	if (!is_before(number, m->heard))
		m->heard = number + 1;
	for (unsigned i = 0; i < LIVES; i++) {
		struct job *j = &w->jobs[i];

		if (!j->runs || j->place != p->of.place)
			continue;
		j->near[from] |= m->loose || is_before(j->number, m->heard + WIRE_COLL_AHEAD);
		j->open[from] |= m->loose || is_before(j->number, m->heard);
	}
}

/* A member has permitted more. */
static void
may_send_more(struct world *w, const struct place *p, uint16_t from, const struct wire_coll *h,
	uint64_t more)
{
	struct job *j = job_of(w, p->of.place, wire_be32(h->number));

	MUST(h->op == WIRE_C_PERMIT && j != NULL && j->valid && wire_be32(h->hash) == j->hash);
	const uint32_t step = step_of(j, COLL_SEND, from, wire_be16(h->ordinal));

	MUST(step < j->list.count && wire_be64(h->at) <= run_of(j, &j->steps[step]));
	if (j->at[step].may != UINT64_MAX)
		j->at[step].may += more;
	MUST(j->at[step].may == UINT64_MAX || j->at[step].may == wire_be64(h->at));
}

static void
arrives(struct world *w, struct place *p, uint16_t from, const struct wire_coll *h, uint32_t len)
{
	const bool good = is_good(p, from, h, len), gone = p->seen && p->left;
	const bool nothing = p->seen && (gone || !good);
	uint8_t *bytes = malloc(len > 0 ? len : 1);
	struct colls_place out;

	memset(bytes, 0x77, len);
	memcpy(bytes, h, len < HEAD_BYTES ? len : HEAD_BYTES);
	if (nothing)
		memcpy(w->before, w->colls, w->bytes);
	else if (good)
		hears(w, p, from, h, len);
	touch(p);
	const bool any = colls_message(w->colls, &p->of, from, bytes, len, &out);

	MUST(!nothing || memcmp(w->before, w->colls, w->bytes) == 0);
	MUST((good && !gone) || (!any && out.permitted == 0));
	if (any) {
		MUST(out.index < LIVES && h->op == WIRE_C_PIECE);
		const struct job *j = &w->jobs[out.index];

		MUST(j->place == p->of.place && j->number == wire_be32(h->number));
		MUST(out.step == step_of(j, COLL_RECV, from, wire_be16(h->ordinal)));
		MUST(out.len == len - HEAD_BYTES && wire_be32(h->hash) == j->hash);
		places(w, &out);
	} else if (out.permitted > 0) {
		may_send_more(w, p, from, h, out.permitted);
	}
	free(bytes);
}

/* The next piece or permit that a running collective waits for, or nearly that. */
static void
honest(struct world *w)
{
	const uint8_t which = take8(&w->in), how = take8(&w->in);
	struct job *j = &w->jobs[which % LIVES];

	if (!j->runs || !j->valid || j->list.count == 0)
		return;
	const uint32_t step = which / LIVES % j->list.count;
	const struct coll_step *s = &j->steps[step];
	const uint64_t run = run_of(j, s), done = j->at[step].done;
	struct place *p = &w->places[j->place];

	if (s->op != COLL_SEND && s->op != COLL_RECV)
		return;
	const bool piece = s->op == COLL_RECV;
	const uint64_t may = j->at[step].may < run ? j->at[step].may : run;
	const uint64_t more = may - done < MESSAGE - HEAD_BYTES ? may - done : MESSAGE - HEAD_BYTES;
	const uint32_t len = piece ? (uint32_t)(how & 3 ? more : more * how / 256) : 0;
	const uint64_t permit = how & 3 ? run : (may < run ? may + (run - may) * how / 256 : run);
	uint16_t ordinal = 0;

	for (uint32_t i = 0; i < step; i++)
		ordinal += j->steps[i].op == s->op && j->steps[i].peer == s->peer;
	const struct wire_coll h = {
		.op = piece ? WIRE_C_PIECE : WIRE_C_PERMIT,
		.flags = how / 4 % 2,
		.ordinal = wire_be16(ordinal),
		.number = wire_be32(j->number),
		.hash = wire_be32(j->hash + (how == 252)),
		.at = wire_be64(piece ? done : permit),
	};

	arrives(w, p, s->peer, &h, HEAD_BYTES + len);
}

static void
hostile(struct world *w, uint16_t place)
{
	static const uint32_t lengths[] = {0, 0, 0, 1, 7, 50, 224, 225, MESSAGE - HEAD_BYTES};
	const uint8_t how = take8(&w->in), what = take8(&w->in), more = take8(&w->in);
	struct place *p = &w->places[place];
	const struct job *j = &w->jobs[more % LIVES];
	const uint32_t numbers[] = {p->next, p->next + 1, p->next + 2, p->next + 3, p->next + 4,
		p->next - 1, p->next - 2, j->number, 0, UINT32_MAX - 1, p->next + 0x7FFFFFFF,
		p->next + 0x80000000, p->next - 70, p->next, p->next, j->number};
	const uint8_t len = how / MEMBERS % 16;
	const struct wire_coll h = {
		.op = what == 255 ? 200 : what % (WIRE_COLL_OPS + 1),
		.flags = what / 8 % 8 == 7 ? 2 : what / 8 % 2,
		.ordinal = wire_be16(more == 255 ? 0xFFFF : more / 16 % 4),
		.number = wire_be32(numbers[more % 16]),
		.hash = wire_be32(1 + what / 64 / 3),
		.at = wire_be64(what & 32 ? take8(&w->in) : 0),
	};

	if (!p->used)
		return;
	if (how == 255)
		arrives(w, p, MEMBERS, &h, more % HEAD_BYTES);
	else
		arrives(w, p, how % MEMBERS + (how >= 250), &h,
			HEAD_BYTES + (len < 9 && h.op == WIRE_C_PIECE ? lengths[len] : 0));
}

/* ------------------------------------------------------------------ messages that go */

static void
acknowledge(struct world *w)
{
	if (w->ack_count == 0)
		return;
	const unsigned i = take8(&w->in) % w->ack_count;
	const uint16_t place = w->acks[i].place;
	const uint64_t key = w->acks[i].key;

	w->acks[i] = w->acks[--w->ack_count];
	colls_acked(w->colls, place, key);
}

static void
deliver(struct world *w)
{
	if (w->flight_count == 0)
		return;
	const struct flight f = w->flights[0];

	memmove(w->flights, w->flights + 1, --w->flight_count * sizeof(f));
	for (unsigned i = 0; i < PLACES; i++) {
		struct place *p = &w->places[i];

		if (p->used && p->of.key == f.key && p->of.rank == f.to)
			arrives(w, p, f.from, &f.head, f.len);
	}
}

/* To a member here. */
static void
flies(struct world *w, const struct colls_seat *from, const struct colls_do *d)
{
	if (w->flight_count == FLIGHTS)
		return;
	w->flights[w->flight_count++] = (struct flight){
		.key = from->key,
		.from = from->rank,
		.to = d->to,
		.len = HEAD_BYTES + d->len,
		.head = d->head,
	};
}

/* A piece or permit, which is the next one of its step. */
static void
goes_on(struct world *w, const struct colls_do *d)
{
	const bool piece = d->head.op == WIRE_C_PIECE;
	struct job *j = job_of(w, d->place, wire_be32(d->head.number));
	const uint64_t at = wire_be64(d->head.at);

	MUST(j != NULL && j->valid && wire_be32(d->head.hash) == j->hash);
	const uint32_t i = step_of(j, piece ? COLL_SEND : COLL_RECV, d->to,
		wire_be16(d->head.ordinal));

	MUST(i < j->list.count);
	const struct coll_step *s = &j->steps[i];

	MUST(j->open[d->to] || (j->near[d->to] && j->unheard[d->to]++ == 0));
	if (!piece) {
		MUST(d->len == 0 && at > j->at[i].may && at <= run_of(j, s));
		j->at[i].may = at;
		return;
	}
	MUST(d->len == 0 || (d->index == (uint32_t)(j - w->jobs) && d->step == i));
	MUST(at == j->at[i].done && d->offset == at && d->len <= j->list.piece);
	MUST(at + d->len <= run_of(j, s) && at + d->len <= j->at[i].may);
	j->at[i].done += d->len;
	if (s->from == COLL_SCRATCH)
		in_scratch(w, j, s->source, at, d->len, false);
	if (d->len > 0)
		is_refused(w, d->index);
}

static void
goes(struct world *w, const struct colls_do *d)
{
	MUST(d->place < PLACES && w->ack_count < ACKS);
	const struct place *p = &w->places[d->place];
	const struct wire_coll *h = &d->head;
	const bool verdict = h->op == WIRE_C_FAIL || h->op == WIRE_C_ABORT;

	MUST(p->used && d->ctx == p->lib.ctx && d->to < p->lib.count && d->to != p->lib.rank);
	MUST(h->op > 0 && h->op < WIRE_COLL_OPS && !(h->flags & ~WIRE_C_ASKS));
	MUST(wire_be32(h->group) == p->lib.group && wire_be64(h->key) == p->lib.key);
	MUST(!p->left || verdict);
	MUST(d->len == 0 || h->op == WIRE_C_PIECE);
	w->acks[w->ack_count].place = d->place;
	w->acks[w->ack_count++].key = h->key;
	if (h->op == WIRE_C_PIECE || h->op == WIRE_C_PERMIT)
		goes_on(w, d);
	else if (verdict)
		MUST((h->op == WIRE_C_FAIL ? d->to == 0 : p->lib.rank == 0) &&
			wire_be64(h->at) > 0 && wire_be64(h->at) <= UINT8_MAX &&
			wire_be16(h->ordinal) < p->lib.count);
	else if (p->seen)
		MUST(is_before(wire_be32(h->number), p->next));
	flies(w, &p->lib, d);
}

static void
works(struct world *w, const struct colls_do *d)
{
	MUST(d->what == COLLS_LOCAL && d->index < LIVES);
	struct job *j = &w->jobs[d->index];

	MUST(j->runs && j->valid && d->step < j->list.count);
	const struct coll_step *s = &j->steps[d->step];

	MUST(s->op == COLL_REDUCE || s->op == COLL_COPY);
	MUST(d->offset == j->at[d->step].done && d->len <= j->list.piece);
	MUST(d->offset + d->len <= run_of(j, s));
	j->at[d->step].done += d->len;
	if (s->from == COLL_SCRATCH)
		in_scratch(w, j, s->source, d->offset, d->len, false);
	else if (s->op == COLL_REDUCE && s->to == COLL_SCRATCH && d->len > 0)
		shadow_of(w, j, s->target, d->offset);
	if (d->len > 0)
		is_refused(w, d->index);
}

/* Returns whether there was anything to do. */
static bool
works_on(struct world *w, bool may_send)
{
	struct colls_do d;

	if (!colls_next(w->colls, &d, may_send && w->ack_count < ACKS, w->now))
		return false;
	MUST(may_send || d.what == COLLS_LOCAL);
	if (d.what == COLLS_SEND)
		goes(w, &d);
	else
		works(w, &d);
	return true;
}

/* Until there is nothing to do, which comes. */
static void
runs(struct world *w)
{
	uint32_t most = CALLS_MAX, n = 0;

	for (unsigned i = 0; i < LIVES; i++) {
		if (w->jobs[i].runs && w->jobs[i].huge)
			most = 200;
	}
	do {
		if (w->ack_count == ACKS)
			acknowledge(w);
	} while (works_on(w, true) && ++n < most);
	if (n == most) {
		MUST(most < CALLS_MAX);
		return;
	}
	MUST(colls_deadline(w->colls) > w->now);
	for (uint16_t i = 0; i < PLACES; i++)
		MUST(colls_is_out(w->colls, i) == (count_out(w, i) > 0));
	look_out(w);
}

static void
time_passes(struct world *w)
{
	const uint8_t how = take8(&w->in);
	const uint64_t at = colls_deadline(w->colls);

	if (how & 1 && at != COLL_NEVER && at > w->now && at < w->now + 2000000000)
		w->now = at;
	else
		w->now += how * 5000ull + (how >= 250 ? 100000000ull : 0);
}

/* ------------------------------------------------------------------ moving */

static struct colls *
make(struct world *w)
{
	void *memory = aligned_alloc(64, (w->bytes + 63) / 64 * 64);

	memset(memory, 0, w->bytes);
	return colls_init(memory, &w->config);
}

/* Copy what the spans of w->colls hold to the spans of `to`, and let that adopt it; w->before is
 * the image. */
static void
copy(struct world *w, struct colls *to)
{
	struct colls_span span;
	size_t end = 0, at = 0;

	for (uint32_t n = 0; colls_span(w->colls, &n, &span); end += span.len) {
		MUST(end + span.len <= w->bytes);
		memcpy(w->before + end, span.bytes, span.len);
	}
	for (uint32_t n = 0; colls_span(to, &n, &span); at += span.len) {
		MUST(at + span.len <= end);
		memcpy(span.bytes, w->before + at, span.len);
		colls_adopt(to, &w->config);
	}
	MUST(at == end);
}

static void
moves(struct world *w)
{
	if (w->ack_count > 0)
		return;
	struct colls *to = make(w);

	copy(w, to);
	memset(w->colls, 0x5A, w->bytes);
	free(w->colls);
	w->colls = to;
	for (unsigned i = 0; i < LIVES; i++) {
		struct job *j = &w->jobs[i];
		const size_t bytes = j->list.count * sizeof(*j->steps);
		struct coll_step *steps = malloc(bytes);

		if (j->steps != NULL)
			memcpy(steps, j->steps, bytes);
		free(j->steps);
		j->list.steps = j->steps = steps;
		if (colls_is_used(w->colls, i))
			colls_adopted(w->colls, i, steps);
	}
}

/* ------------------------------------------------------------------ programs */

static void
step(struct world *w)
{
	const uint8_t what = take8(&w->in);
	const uint8_t which = what / 16;
	const uint16_t place = which % PLACES;

	switch (what % 16) {
	case 0:
		if (which < PLACES || !w->places[place].used)
			comes(w, place);
		else if (which == 15)
			leaves(w, place);
		else
			moves(w);
		break;
	case 1:
	case 2:
		begins(w, place);
		break;
	case 3:
	case 4:
	case 5:
		honest(w);
		break;
	case 6:
	case 7:
	case 8:
		hostile(w, place);
		break;
	case 9:
		if (which == 0)
			breaks_one(w);
		else if (which == 1)
			fails(w, take8(&w->in) % LIVES);
		else
			gives(w, which % LIVES);
		break;
	case 10:
		for (unsigned i = 0; i <= which; i++)
			acknowledge(w);
		break;
	case 11:
		time_passes(w);
		break;
	case 12:
		results(w);
		break;
	case 13:
		for (unsigned i = 0; i <= which && works_on(w, which % 4 != 0); i++)
			;
		break;
	case 14:
		for (unsigned i = 0; i <= which; i++)
			deliver(w);
		break;
	default:
		runs(w);
	}
	look(w);
}

/* All leave, and all that was sent arrives. */
static void
end(struct world *w)
{
	w->in.left = 0;
	for (uint16_t i = 0; i < PLACES; i++)
		leaves(w, i);
	results(w);
	runs(w);
	while (w->ack_count > 0)
		acknowledge(w);
	for (unsigned i = 0; i < LIVES; i++)
		gives(w, i);
	MUST(look(w) == 0 && colls_is_quiet(w->colls));
	MUST(colls_deadline(w->colls) == COLL_NEVER);
	for (uint16_t i = 0; i < PLACES; i++)
		MUST(!colls_is_out(w->colls, i));
	look_out(w);
	for (unsigned i = 0; i < LIVES; i++) {
		free(w->jobs[i].steps);
		free(w->jobs[i].ends);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world world;
	struct world *w = &world;

	*w = (struct world){.in = {data, size}, .now = 1000};
	w->config = (struct colls_config){
		.places_max = PLACES,
		.members_max = MEMBERS,
		.live_max = LIVES,
		.steps_max = STEPS,
		.counters = w->counters,
	};
	w->bytes = colls_memsize(&w->config);
	w->before = malloc(w->bytes);
	w->colls = make(w);
	while (w->in.left > 0)
		step(w);
	end(w);
	free(w->before);
	free(w->colls);
	return 0;
}
