/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See live.h. Numbers of collectives are serial: they may wrap around.
 */
#include <errno.h>
#include <string.h>

#include "coll/live_state.h"

/* after which a collective that has not ended tells all members its plan, and again */
#define CHECK_NS       100000000ull
#define CHECK_AGAIN_NS 1000000000ull

/* ------------------------------------------------------------------ places */

/* Return the membership's state, made anew if it was another group's. */
static struct live_seat *
seat_for(struct colls *c, const struct colls_seat *of)
{
	struct live_seat *s = &c->seats[of->place];
	const bool works = s->works;
	const uint16_t work_next = s->work_next;

	if (s->of.key == of->key)
		return s;
	*s = (struct live_seat){
		.of = *of,
		.lives = NONE,
		.works = works,
		.work_next = work_next,
		.abort_at = of->count,
	};
	for (uint32_t n = 0; n < WIRE_COLL_AHEAD; n++)
		s->early[n] = NONE;
	for (uint32_t r = 0; r < of->count; r++) {
		peers_of(c, of->place)[r] = (struct live_peer){0};
		for (uint32_t n = 0; n < WIRE_COLL_AHEAD; n++)
			*early_of(c, of->place, r, n) = (struct early){0};
	}
	return s;
}

/* Note that the membership may have something to send. */
static void
works(struct colls *c, struct live_seat *s)
{
	const uint16_t place = (uint16_t)(s - c->seats);

	if (s->works)
		return;
	s->works = true;
	if (c->work == NONE) {
		s->work_next = place;
	} else {
		s->work_next = c->seats[c->work].work_next;
		c->seats[c->work].work_next = place;
	}
	c->work = place;
}

static void
owes(struct colls *c, struct live_seat *s, struct live_peer *p, bool *what)
{
	if (*what)
		return;
	if (!p->owes_begun && !p->owes_ask)
		s->owing++;
	*what = true;
	works(c, s);
}

/* ------------------------------------------------------------------ ends */

static void
runs_no_more(struct colls *c, const struct live *l)
{
	c->load_changes |= (l->load_in | l->load_out) != 0;
	const uint16_t last = c->runs[--c->running];

	c->runs[l->at] = last;
	c->lives[last].at = l->at;
}

static void
live_end(struct colls *c, uint32_t index, uint8_t error, uint16_t rank)
{
	struct live *l = &c->lives[index];
	uint16_t *at = &c->seats[l->place].lives;

	while (*at != index)
		at = &c->lives[*at].next;
	*at = l->next;
	l->state = LIVE_ENDED;
	l->error = error;
	l->rank = rank;
	l->next = NONE;
	if (c->ended == NONE)
		c->ended = (uint16_t)index;
	else
		c->lives[c->ended_last].next = (uint16_t)index;
	c->ended_last = (uint16_t)index;
	runs_no_more(c, l);
}

/* End all collectives of a membership that run, from that number on. */
static void
end_from(struct colls *c, struct live_seat *s, uint32_t number, uint8_t error, uint16_t rank)
{
	for (uint16_t i = s->lives, next; i != NONE; i = next) {
		next = c->lives[i].next;
		if (!before(c->lives[i].number, number))
			live_end(c, i, error, rank);
	}
}

/* Take the verdict on a collective and all later ones: end them, and if this is rank 0, tell all
 * members. */
static void
is_over(struct colls *c, struct live_seat *s, const struct live_verdict *v)
{
	if (s->over.is && !before(v->number, s->over.number))
		return;
	s->over = *v;
	if (s->of.rank == 0) {
		s->abort_at = 1;
		works(c, s);
	}
	end_from(c, s, v->number, v->error, v->rank);
}

/* Return the index of the membership's running collective of that number, or NONE. */
static uint16_t
live_of(const struct colls *c, const struct live_seat *s, uint32_t number)
{
	uint16_t i = s->lives;

	while (i != NONE && c->lives[i].number != number)
		i = c->lives[i].next;
	return i;
}

/* Find with which plan a collective was begun here: one that runs, or one of the last ones. Return
 * false if that is not known. */
static bool
plan_of(const struct colls *c, const struct live_seat *s, uint32_t number, uint32_t *hash)
{
	const uint16_t i = live_of(c, s, number);

	if (i == NONE && (!before(number, s->next) || s->next - number > s->hashes_known))
		return false;
	*hash = i != NONE ? c->lives[i].hash : s->hashes[number % HASHES];
	return true;
}

/* Judge, as rank 0, a collective of which a member says that it cannot go on. */
static void
live_judge(struct colls *c, struct live_seat *s, uint16_t from, const struct live_verdict *v,
	uint32_t hash)
{
	struct live_verdict known = *v;
	uint32_t own;

	if (v->error == EPROTO && !before(v->number, s->next)) {
		/* whose plan is odd is seen when this side has begun it */
		if (!s->doubt.is || before(v->number, s->doubt.number)) {
			s->doubt = *v;
			s->doubter = from;
			s->doubt_hash = hash;
		}
		return;
	}
	if (v->error == EPROTO && plan_of(c, s, v->number, &own) && own != hash)
		known.rank = from;
	is_over(c, s, &known);
}

static void
live_fail(struct colls *c, struct live_seat *s, uint32_t number, uint32_t hash, uint8_t error,
	uint16_t rank)
{
	const struct live_verdict v = {true, error, rank, number};

	if (s->over.is && !before(number, s->over.number))
		return;
	if (s->of.rank == 0) {
		live_judge(c, s, 0, &v, hash);
		return;
	}
	if (s->owes_fail && !before(number, s->fail.number))
		return;
	s->owes_fail = true;
	s->fail = v;
	s->fail_hash = hash;
	works(c, s);
}

void
colls_fail(struct colls *c, uint32_t index, uint8_t error, uint16_t rank)
{
	struct live *l = &c->lives[index];

	if (l->state == LIVE_ENDED) {
		l->error = error;
		l->rank = rank;
	}
	/* what could not be accessed counts as done, so it must not go on */
	if (l->state == LIVE_RUNS)
		l->cannot = true;
	if (l->state == LIVE_RUNS || l->state == LIVE_ENDED)
		live_fail(c, &c->seats[l->place], l->number, l->hash, error, rank);
}

void
colls_break(struct colls *c, uint16_t place, uint32_t number, uint8_t error, uint16_t rank)
{
	struct live_seat *s = &c->seats[place];

	if (!s->over.is || before(number, s->over.number))
		s->over = (struct live_verdict){true, error, rank, number};
	end_from(c, s, number, error, rank);
}

uint32_t
colls_number(struct colls *c, const struct colls_seat *seat)
{
	return seat_for(c, seat)->next;
}

bool
colls_ended(struct colls *c, struct colls_end *out)
{
	if (c->ended == NONE)
		return false;
	const struct live *l = &c->lives[c->ended];

	*out = (struct colls_end){
		.index = c->ended,
		.number = l->number,
		.ctx = l->ctx,
		.place = l->place,
		.rank = l->rank,
		.error = l->error,
	};
	c->ended = l->next;
	return true;
}

/* ------------------------------------------------------------------ beginning */

int
colls_take(struct colls *c, uint32_t like)
{
	const bool is_free = like < c->cfg.live_max && c->lives[like].state == LIVE_FREE;
	const uint16_t i = is_free ? (uint16_t)like : c->free;

	if (i == NONE)
		return -EAGAIN;
	struct live *l = &c->lives[i];

	if (l->at == NONE)
		c->free = l->next;
	else
		c->lives[l->at].next = l->next;
	if (l->next != NONE)
		c->lives[l->next].at = l->at;
	l->state = LIVE_TAKEN;
	return i;
}

void
colls_give(struct colls *c, uint32_t index)
{
	colls_put_free(c, (uint16_t)index);
}

/* Return whether a message of this collective may be the one that its peer gets before it has begun
 * the collective. */
static bool
is_near(const struct live_peer *p, uint32_t number)
{
	return before(number, p->heard + WIRE_COLL_AHEAD);
}

/* Set what of a collective may go to that member. If nothing may but something has to, ask the
 * member to say when it is near. */
static void
set_peer(struct colls *c, struct live_seat *s, const struct live *l, struct coll_exec *x,
	uint16_t rank)
{
	struct live_peer *p = &peers_of(c, l->place)[rank];

	if (before(l->number, p->heard)) {
		coll_peer(x, rank, COLL_PEER_OPEN);
	} else if (is_near(p, l->number)) {
		coll_peer(x, rank, COLL_PEER_ONE);
	} else if (coll_goes_to(x, rank)) {
		p->ask = l->number - WIRE_COLL_AHEAD;
		owes(c, s, p, &p->owes_ask);
	}
}

/* Tell members that have asked for this collective that it has begun, and compare its plan with
 * those of members that have begun it already. */
static void
live_answer(struct colls *c, struct live_seat *s, const struct live *l)
{
	for (uint16_t r = 0; r < s->of.count; r++) {
		struct live_peer *p = &peers_of(c, l->place)[r];
		struct live_claim *claim = &p->claims[l->number % WIRE_COLL_AHEAD];

		/* it may have asked for several: each may be what it waits for */
		if (p->was_asked && !before(l->number, p->told))
			owes(c, s, p, &p->owes_begun);
		if (p->was_asked && !before(l->number, p->asked)) {
			p->was_asked = false;
			s->asks--;
		}
		if (!claim->is || claim->number != l->number)
			continue;
		claim->is = false;
		s->claims--;
		if (claim->hash != l->hash)
			live_fail(c, s, l->number, l->hash, EPROTO, r);
	}
}

/* Set what may go to each member that the list has to do with, and note what members are told at
 * once. Other members cost nothing, except in a group of which some are far ahead. */
static void
greet(struct colls *c, struct live_seat *s, const struct live *l, struct coll_exec *x)
{
	for (uint16_t r = COLL_NONE; (r = coll_peer_after(x, r)) != COLL_NONE;) {
		struct live_peer *p = &peers_of(c, l->place)[r];

		coll_peer(x, r, COLL_PEER_FAR);
		set_peer(c, s, l, x, r);
		if (coll_waits_for(x, r) && !before(l->number, p->told))
			owes(c, s, p, &p->owes_begun);
	}
	if (s->asks > 0 || s->claims > 0)
		live_answer(c, s, l);
}

/* Return whether all that goes without permits can wait at its receiver. */
static bool
is_short(const struct coll_list *list, const struct coll_blocks *blocks)
{
	for (uint32_t i = 0; i < list->count; i++) {
		const struct coll_step *s = &list->steps[i];

		if (s->op <= COLL_RECV && s->flags & COLL_EAGER &&
			coll_run_bytes(&blocks[s->op == COLL_RECV ? s->to : s->from], s->block,
				s->blocks) > WIRE_COLL_EAGER)
			return false;
	}
	return true;
}

/* Return where the bytes of what runs a list are kept as they were made, before it has run. */
static uint8_t *
image_of(const struct colls *c, uint32_t index)
{
	return c->images + index * c->exec_bytes;
}

/* Check a list, and build what runs it. Return false if it cannot be run. */
static bool
coll_live_make(struct colls *c, uint32_t index, const struct coll_list *list,
	const struct coll_blocks *blocks, uint64_t now)
{
	struct made *m = &c->made[index];
	uint32_t step;

	if (list->count > c->cfg.steps_max || coll_check(list, blocks, &step) != 0 ||
		!is_short(list, blocks) ||
		coll_exec_init(colls_exec(c, index), list, blocks, now) == NULL)
		return false;
	*m = (struct made){true, (uint16_t)list->ranks, (uint16_t)list->rank,
		coll_exec_bytes(list)};
	memcpy(image_of(c, index), colls_exec(c, index), m->bytes);
	return true;
}

/* Begin once more the list that was made last. Return false if that is not this one. */
static bool
restart(struct colls *c, uint32_t index, const struct coll_list *list, uint64_t now)
{
	const struct made *m = &c->made[index];

	if (!m->is || m->ranks != list->ranks || m->rank != list->rank)
		return false;
	memcpy(colls_exec(c, index), image_of(c, index), m->bytes);
	coll_exec_again(colls_exec(c, index), now);
	return true;
}

void
colls_begin(struct colls *c, uint32_t index, const struct colls_seat *seat, struct coll_list *list,
	const struct coll_blocks blocks[COLL_BUFFERS], uint32_t hash, bool same, uint64_t now)
{
	struct live_seat *s = seat_for(c, seat);
	struct live *l = &c->lives[index];
	*l = (struct live){
		.state = LIVE_RUNS,
		.ctx = seat->ctx,
		.place = seat->place,
		.next = s->lives,
		.number = s->next++,
		.hash = hash,
		.at = (uint16_t)c->running,
		.check_at = now + CHECK_NS,
		.load_in = list->load_in,
		.load_out = list->load_out,
	};
	c->load_changes |= (l->load_in | l->load_out) != 0;
	c->runs[c->running++] = (uint16_t)index;
	s->lives = (uint16_t)index;
	s->hashes[l->number % HASHES] = hash;
	s->hashes_known += s->hashes_known < HASHES;
	list->ranks = seat->count;
	list->rank = seat->rank;
	/* another list, which perhaps is not made now */
	c->made[index].is &= same;
	if (s->over.is && !before(l->number, s->over.number)) {
		live_end(c, index, s->over.error, s->over.rank);
		return;
	}
	if (!(same && restart(c, index, list, now)) &&
		!coll_live_make(c, index, list, blocks, now)) {
		l->cannot = true;
		live_fail(c, s, l->number, hash, EINVAL, seat->rank);
		return;
	}
	if (s->doubt.is && !before(l->number, s->doubt.number)) {
		const struct live_verdict v = s->doubt;

		s->doubt.is = false;
		live_judge(c, s, s->doubter, &v, s->doubt_hash);
		if (l->state != LIVE_RUNS)
			return;
	}
	greet(c, s, l, colls_exec(c, index));
	if (l->state == LIVE_RUNS && coll_is_done(colls_exec(c, index)))
		live_end(c, index, 0, seat->rank);
}

/* ------------------------------------------------------------------ messages */

static void
bad(struct colls *c)
{
	c->cfg.counters[COLLS_BAD_MESSAGES]++;
}

/* Note that a member is known to have begun all collectives up to that number. */
static void
hears(struct colls *c, struct live_seat *s, uint16_t from, uint32_t number)
{
	struct live_peer *p = &peers_of(c, s->of.place)[from];

	if (before(number, p->heard))
		return;
	p->heard = number + 1;
	if (p->owes_ask && before(p->ask, p->heard)) {
		p->owes_ask = false;
		s->owing -= !p->owes_begun;
	}
	for (uint16_t i = s->lives; i != NONE; i = c->lives[i].next) {
		if (!c->lives[i].cannot)
			set_peer(c, s, &c->lives[i], colls_exec(c, i), from);
	}
}

/* Note that a member wants to know when that collective is begun here, and owe it the answer if it
 * is already. */
static void
is_asked(struct colls *c, struct live_seat *s, uint16_t from, uint32_t number)
{
	struct live_peer *p = &peers_of(c, s->of.place)[from];

	if (before(number, s->next)) {
		if (!before(number, p->told))
			owes(c, s, p, &p->owes_begun);
	} else if (!p->was_asked || before(p->asked, number)) {
		s->asks += !p->was_asked;
		p->was_asked = true;
		p->asked = number;
	}
}

/* Take a piece or permit of a running collective. Return true if bytes are to be placed. */
static bool
live_take(struct colls *c, uint32_t index, uint16_t from, const struct early *m, const void *bytes,
	struct colls_place *out)
{
	struct live *l = &c->lives[index];
	struct live_seat *s = &c->seats[l->place];
	struct coll_exec *x = colls_exec(c, index);
	int step;

	if (l->cannot)
		return false;
	if (m->hash != l->hash) {
		live_fail(c, s, l->number, l->hash, EPROTO, from);
		return false;
	}
	if (m->op == WIRE_C_PERMIT) {
		const int64_t more = coll_permitted(x, from, m->ordinal, m->at);

		out->permitted = more > 0 ? (uint64_t)more : 0;
		step = more < 0 ? -EPROTO : 0;
	} else {
		step = coll_heard(x, from, m->ordinal, m->at, m->len);
		if (step >= 0)
			coll_arrived(x, (uint32_t)step, m->len);
	}
	if (step < 0) {
		bad(c);
		live_fail(c, s, l->number, l->hash, EPROTO, from);
		return false;
	}
	if (coll_is_done(x))
		live_end(c, index, 0, s->of.rank);
	if (m->op == WIRE_C_PERMIT || m->len == 0)
		return false;
	*out = (struct colls_place){
		.index = index,
		.step = (uint16_t)step,
		.offset = m->at,
		.len = m->len,
		.bytes = bytes,
	};
	return true;
}

bool
colls_early(struct colls *c, uint32_t index, struct colls_place *out)
{
	struct live *l = &c->lives[index];
	uint16_t *first = &c->seats[l->place].early[l->number % WIRE_COLL_AHEAD];

	out->permitted = 0;
	while (l->state == LIVE_RUNS && *first != NONE) {
		const uint16_t from = *first;
		struct early *m = early_of(c, l->place, from, l->number);
		const struct early taken = *m;

		*first = m->next;
		m->op = 0;
		if (taken.number == l->number &&
			live_take(c, index, from, &taken, early_bytes_of(c, m), out))
			return true;
	}
	return false;
}

/* Return whether a message can wait here until its collective is begun. */
static bool
can_keep(const struct colls *c, const struct live_seat *s, uint16_t from, const struct early *m)
{
	const struct early *place = early_of(c, s->of.place, from, m->number);

	/* what is there for one that has been begun, nobody has asked for, as it ended at once */
	return m->len <= WIRE_COLL_EAGER && before(m->number, s->next + WIRE_COLL_AHEAD) &&
		(place->op == 0 || before(place->number, s->next));
}

static void
keep(struct colls *c, struct live_seat *s, uint16_t from, const struct early *m, const void *bytes)
{
	struct early *place = early_of(c, s->of.place, from, m->number);
	uint16_t *first = &s->early[m->number % WIRE_COLL_AHEAD];
	const bool is_listed = place->op != 0;
	const uint16_t next = is_listed ? place->next : *first;

	*place = *m;
	memcpy(early_bytes_of(c, place), bytes, m->len);
	place->next = next;
	if (!is_listed)
		*first = from;
}

/* Compare the plan with which a member has begun a collective with the one here, or keep it until
 * the collective is begun here. Return whether it was begun here with another one. */
static bool
live_compare(struct colls *c, struct live_seat *s, uint16_t from, uint32_t number, uint32_t hash)
{
	struct live_claim *claim = &peers_of(c, s->of.place)[from].claims[number % WIRE_COLL_AHEAD];
	uint32_t own;

	if (plan_of(c, s, number, &own) && own != hash) {
		live_fail(c, s, number, own, EPROTO, from);
		return true;
	}
	if (!before(number, s->next) && before(number, s->next + WIRE_COLL_AHEAD)) {
		s->claims += !claim->is;
		*claim = (struct live_claim){true, number, hash};
	}
	return false;
}

static void
about_ends(struct colls *c, struct live_seat *s, uint16_t from, const struct wire_coll *h)
{
	const struct live_verdict v = {true, (uint8_t)wire_be64(h->at), wire_be16(h->ordinal),
		wire_be32(h->number)};

	if (v.rank >= s->of.count || v.error == 0 ||
		(h->op == WIRE_C_FAIL ? s->of.rank : from) != 0)
		bad(c);
	else if (h->op == WIRE_C_FAIL)
		live_judge(c, s, from, &v, wire_be32(h->hash));
	else
		is_over(c, s, &v);
}

bool
colls_message(struct colls *c, const struct colls_seat *seat, uint16_t from, const void *message,
	uint32_t len, struct colls_place *out)
{
	const uint8_t *bytes = (const uint8_t *)message + sizeof(struct wire_coll);
	struct live_seat *s = seat_for(c, seat);
	struct wire_coll h;

	out->permitted = 0;
	if (len < sizeof(h) || from >= seat->count || from == seat->rank) {
		bad(c);
		return false;
	}
	if (s->left)
		return false;
	memcpy(&h, message, sizeof(h));
	const struct early m = {
		.op = h.op,
		.ordinal = wire_be16(h.ordinal),
		.len = len - (uint32_t)sizeof(h),
		.number = wire_be32(h.number),
		.hash = wire_be32(h.hash),
		.at = wire_be64(h.at),
	};

	if (h.op == 0 || h.op >= WIRE_COLL_OPS || h.flags & ~WIRE_C_ASKS ||
		(h.op != WIRE_C_PIECE && m.len != 0)) {
		bad(c);
		return false;
	}
	if (h.op == WIRE_C_FAIL || h.op == WIRE_C_ABORT) {
		about_ends(c, s, from, &h);
		return false;
	}
	const bool goes_on = h.op == WIRE_C_PIECE || h.op == WIRE_C_PERMIT;
	const bool is_early = goes_on && !before(m.number, s->next);

	if (is_early && !can_keep(c, s, from, &m)) {
		bad(c);
		return false;
	}
	hears(c, s, from, m.number);
	if (h.op == WIRE_C_ASK || h.flags & WIRE_C_ASKS)
		is_asked(c, s, from, m.number);
	if (h.op == WIRE_C_BEGUN)
		live_compare(c, s, from, m.number, m.hash);
	if (is_early)
		keep(c, s, from, &m, bytes);
	if (!goes_on || is_early)
		return false;
	const uint16_t index = live_of(c, s, m.number);

	if (index != NONE)
		return live_take(c, index, from, &m, bytes, out);
	if (!live_compare(c, s, from, m.number, m.hash) && !s->over.is)
		bad(c); /* it has ended here, so nothing more can come */
	return false;
}

/* ------------------------------------------------------------------ what is to be sent */

static void
message(struct colls *c, struct live_seat *s, struct colls_do *out, uint16_t to, uint8_t op,
	uint32_t number)
{
	*out = (struct colls_do){
		.what = COLLS_SEND,
		.ctx = s->of.ctx,
		.place = s->of.place,
		.to = to,
		.head =
			{
				.op = op,
				.group = wire_be32(s->of.group),
				.number = wire_be32(number),
				.key = wire_be64(s->of.key),
			},
	};
	s->out++;
	c->out++;
}

static void
tell_verdict(struct colls *c, struct live_seat *s, struct colls_do *out, uint16_t to, uint8_t op,
	const struct live_verdict *v)
{
	message(c, s, out, to, op, v->number);
	out->head.ordinal = wire_be16(v->rank);
	out->head.at = wire_be64(v->error);
}

static void
has_begun(struct colls *c, struct live_seat *s, struct colls_do *out, uint16_t to, uint32_t number,
	uint32_t hash)
{
	message(c, s, out, to, WIRE_C_BEGUN, number);
	out->head.hash = wire_be32(hash);
}

/* Make the next message that the membership owes. Return false if there is none. */
static bool
owed(struct colls *c, struct live_seat *s, struct colls_do *out)
{
	if (s->owes_fail) {
		s->owes_fail = false;
		tell_verdict(c, s, out, 0, WIRE_C_FAIL, &s->fail);
		out->head.hash = wire_be32(s->fail_hash);
		return true;
	}
	if (s->abort_at < s->of.count) {
		tell_verdict(c, s, out, s->abort_at++, WIRE_C_ABORT, &s->over);
		return true;
	}
	while (s->owing > 0 && !s->left) {
		struct live_peer *p = &peers_of(c, s->of.place)[s->owing_at];
		const uint16_t to = s->owing_at;

		if (p->owes_begun) {
			p->owes_begun = false;
			s->owing -= !p->owes_ask;
			has_begun(c, s, out, to, s->next - 1, s->hashes[(s->next - 1) % HASHES]);
			p->told = s->next;
			return true;
		}
		if (p->owes_ask) {
			p->owes_ask = false;
			s->owing--;
			message(c, s, out, to, WIRE_C_ASK, p->ask);
			return true;
		}
		s->owing_at = (uint16_t)(to + 1 < s->of.count ? to + 1 : 0);
	}
	return false;
}

static bool
any_owed(struct colls *c, struct colls_do *out)
{
	while (c->work != NONE) {
		struct live_seat *last = &c->seats[c->work], *s = &c->seats[last->work_next];

		if (s->of.key != 0 && owed(c, s, out))
			return true;
		s->works = false;
		if (s == last)
			c->work = NONE;
		else
			last->work_next = s->work_next;
	}
	return false;
}

/* Make a message of a running collective's piece or permit. */
static void
compose(struct colls *c, uint32_t index, const struct coll_out *o, struct colls_do *out)
{
	struct live *l = &c->lives[index];
	struct live_seat *s = &c->seats[l->place];
	struct live_peer *p = &peers_of(c, l->place)[o->peer];
	const bool piece = o->go == COLL_GO_PIECE;

	message(c, s, out, o->peer, piece ? WIRE_C_PIECE : WIRE_C_PERMIT, l->number);
	out->index = index;
	out->step = o->step;
	out->offset = o->offset;
	out->len = piece ? (uint32_t)o->len : 0;
	out->head.ordinal = wire_be16(o->ordinal);
	out->head.hash = wire_be32(l->hash);
	out->head.at = wire_be64(piece ? o->offset : o->len);
	if (!before(l->number, p->heard) &&
		(o->more || !before(l->number + 2, p->heard + WIRE_COLL_AHEAD)))
		out->head.flags = WIRE_C_ASKS;
	if (!before(l->number, p->told))
		p->told = l->number + 1;
}

/* Tell the next member which plan a collective has that takes long: plans that differ may wait for
 * each other for ever, without a message. Return false: it is not time, or all have been told. */
static bool
live_check(struct colls *c, struct live *l, struct colls_do *out, uint64_t now)
{
	struct live_seat *s = &c->seats[l->place];

	if (now < l->check_at)
		return false;
	l->check_to += l->check_to == s->of.rank;
	if (l->check_to >= s->of.count) {
		l->check_to = 0;
		l->check_at = now + CHECK_AGAIN_NS;
		return false;
	}
	has_begun(c, s, out, l->check_to++, l->number, l->hash);
	return true;
}

static bool
runs_on(struct colls *c, uint32_t index, struct colls_do *out, bool may_send, uint64_t now)
{
	struct coll_exec *x = colls_exec(c, index);
	struct coll_out o;

	may_send &= !c->seats[c->lives[index].place].stopped;
	if (may_send && live_check(c, &c->lives[index], out, now))
		return true;
	if (c->lives[index].cannot || !(may_send ? coll_next(x, &o, now) : coll_next_local(x, &o)))
		return false;
	if (o.go == COLL_GO_LOCAL)
		*out = (struct colls_do){
			.what = COLLS_LOCAL,
			.index = index,
			.step = o.step,
			.offset = o.offset,
			.len = (uint32_t)o.len,
		};
	else
		compose(c, index, &o, out);
	if (coll_is_done(x))
		live_end(c, index, 0, c->seats[c->lives[index].place].of.rank);
	return true;
}

/* Share the node's line anew among the collectives that run. */
static void
share_line(struct colls *c, uint64_t now)
{
	uint32_t in = 0, out = 0;

	for (uint32_t n = 0; n < c->running; n++) {
		const struct live *l = &c->lives[c->runs[n]];
		const bool goes_on = !l->cannot && !c->seats[l->place].stopped;

		in += goes_on ? l->load_in : 0;
		out += goes_on ? l->load_out : 0;
	}
	for (uint32_t n = 0; n < c->running; n++) {
		if (!c->lives[c->runs[n]].cannot)
			coll_exec_share(colls_exec(c, c->runs[n]), coll_share(in, out), now);
	}
	c->load_changes = false;
}

bool
colls_next(struct colls *c, struct colls_do *out, bool may_send, uint64_t now)
{
	if (c->load_changes)
		share_line(c, now);
	if (may_send && any_owed(c, out))
		return true;
	for (uint32_t n = c->running; n > 0; n--) {
		c->cursor = c->cursor + 1 < c->running ? c->cursor + 1 : 0;
		if (runs_on(c, c->runs[c->cursor], out, may_send, now))
			return true;
	}
	return false;
}

void
colls_acked(struct colls *c, uint16_t place, uint64_t key)
{
	struct live_seat *s = &c->seats[place];

	c->out--;
	s->out -= s->of.key == wire_be64(key);
}

uint64_t
colls_deadline(const struct colls *c)
{
	uint64_t first = COLL_NEVER;

	for (uint32_t n = 0; n < c->running; n++) {
		const uint16_t i = c->runs[n];

		if (c->lives[i].cannot || c->seats[c->lives[i].place].stopped)
			continue; /* the verdict comes by itself, or colls_start() */
		const uint64_t at = coll_deadline(colls_exec(c, i)), check = c->lives[i].check_at;

		first = at < first ? at : first;
		first = check < first ? check : first;
	}
	return first;
}

uint32_t
colls_leave(struct colls *c, uint16_t place)
{
	struct live_seat *s = &c->seats[place];
	const uint32_t ran = c->running;

	if (s->of.key == 0)
		return 0;
	for (uint16_t i = s->lives, next; i != NONE; i = next) {
		next = c->lives[i].next;
		runs_no_more(c, &c->lives[i]);
		colls_give(c, i);
	}
	s->left = true;
	s->lives = NONE;
	return ran - c->running;
}
