/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The cases of coll_worker.c, in the order of the list at the end: what each member does, in its
 * process, and what the parent does and asks of the outcomes.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "coll_worker.h"

/* ------------------------------------------------------------------ streams */

/* The collectives of a series that run. */
struct stream {
	struct call calls[SLOTS];
	struct outcome outcomes[SLOTS];
	bool runs[SLOTS];
	uint32_t running, next, window;
	uint64_t series, len_max;
	uint32_t error_rank;
	int error; /* the first */
};

static void
stream_takes(struct member *m, struct stream *s, unsigned slot)
{
	const struct outcome *o = &s->outcomes[slot];

	/* of those that ran at once its own part of a later one may have ended before */
	if (s->error != 0 && o->error != 0 && o->error != s->error)
		fail("rank %u: collective %u ends with %s after an earlier one with %s", m->rank,
			s->calls[slot].number, error_name(o->error), error_name(s->error));
	if (s->error == 0 && o->error != 0) {
		s->error = o->error;
		s->error_rank = o->rank;
	}
	call_free(&s->calls[slot]);
}

static void
stream_waits(struct member *m, struct stream *s, unsigned slot)
{
	member_wait(m, &s->calls[slot], &s->outcomes[slot]);
	s->runs[slot] = false;
	s->running--;
	stream_takes(m, s, slot);
}

/* Begin the next one in a slot that is free; or wait for the oldest that runs. */
static void
stream_goes_on(struct member *m, struct stream *s, bool begins)
{
	const unsigned slot = s->next % SLOTS;
	struct call *c = &s->calls[slot];

	if (s->runs[slot] || !begins || s->running >= s->window) {
		/* slots are used in turns, so the oldest is the one behind the youngest */
		for (uint32_t i = 0; i < SLOTS; i++) {
			if (s->runs[(s->next + i) % SLOTS]) {
				stream_waits(m, s, (s->next + i) % SLOTS);
				return;
			}
		}
		return;
	}
	call_draw(c, s->series, s->next++, m->group, s->len_max);
	s->runs[slot] = member_begin(m, c, slot, &s->outcomes[slot]);
	s->running += s->runs[slot];
	if (!s->runs[slot])
		stream_takes(m, s, slot);
	if (draw() % 16 == 0)
		s->window = 1 + (uint32_t)draw() % SLOTS;
}

/* count collectives without an error */
static void
stream_of(struct member *m, uint64_t series, uint32_t count, uint64_t len_max)
{
	struct stream s = {.window = 1, .series = series, .len_max = len_max};

	while (s.error == 0 && (s.next < count || s.running > 0))
		stream_goes_on(m, &s, s.next < count);
	if (s.error != 0)
		fail("rank %u: an error after %u collectives: %s, because of %u", m->rank, s.next,
			error_name(s.error), s.error_rank);
}

/* A group is left when all have done all. */
static void
close_together(struct member *m)
{
	board_meet(m);
	member_close(m);
}

static void
do_random(struct member *m)
{
	const uint64_t series = seed;

	calls_init(m->ctx, LEN_MAX);
	member_open(m, NO_RANK);
	seed = seed * 64 + m->rank; /* how many at once is one's own */
	stream_of(m, series, m->option > 0 ? m->option : 200, LEN_MAX);
	close_together(m);
}

/* ------------------------------------------------------------------ one sleeps */

#define LATE_CALLS 20
#define LATE_RANK  5

static const struct {
	enum verb verb;
	uint32_t root;
	uint64_t len;
} late_calls[] = {
	{BCAST, 0, 100},
	{BCAST, 3, 100},
	{BCAST, 0, 65536},
	{BCAST, 3, 200000},
	{ALLREDUCE, 0, 8},
	{ALLREDUCE, 0, 65536},
	{ALLGATHER, 0, 65536},
	{ALLTOALL, 0, 20000},
	{REDUCE, 2, 65536},
	{BARRIER, 0, 0},
};

/* Until as many collectives of all ranks but two have ended; without any call of the library. */
static bool
others_ended(const struct member *m, uint32_t count, uint32_t but)
{
	const int64_t until = now_us() + PATIENCE_US / 2;

	for (uint32_t r = 0; r < MEMBERS; r++) {
		while (r != m->rank && r != but &&
			atomic_load(&m->board->member[r].ended) < count) {
			if (now_us() > until)
				return false;
			usleep(200);
		}
	}
	return true;
}

static void
do_late(struct member *m)
{
	struct call c;

	calls_init(m->ctx, LEN_MAX);
	member_open(m, NO_RANK);
	for (uint32_t i = 0; i < LATE_CALLS; i++) {
		const unsigned k = i % (sizeof(late_calls) / sizeof(late_calls[0]));
		struct outcome o;

		call_set(&c, late_calls[k].verb, late_calls[k].root, late_calls[k].len, i,
			m->group);
		board_meet(m);
		if (member_begin(m, &c, 0, &o)) {
			if (m->rank == LATE_RANK && !others_ended(m, i + 1, NO_RANK))
				fail("collective %u: they wait for the one that sleeps", i);
			member_wait(m, &c, &o);
		}
		if (o.error != 0)
			fail("rank %u: %s", m->rank, error_name(o.error));
		call_free(&c);
	}
	close_together(m);
}

static int
by_value(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void
late_parent(struct world *w)
{
	int64_t took[LATE_CALLS * MEMBERS];
	uint32_t n = 0;

	world_start(w, &cases[1]);
	world_ends(w, NO_RANK);
	for (uint32_t i = 0; i < LATE_CALLS; i++) {
		int64_t began = 0;

		for (uint32_t r = 0; r < MEMBERS; r++) {
			const int64_t at = w->board->member[r].outcome[i].began_ns;

			began = at > began ? at : began;
		}
		for (uint32_t r = 0; r < MEMBERS; r++) {
			if (r != LATE_RANK)
				took[n++] = w->board->member[r].outcome[i].ended_ns - began;
		}
	}
	qsort(took, n, sizeof(took[0]), by_value);
	printf("# from the last begin to the end at those that do not sleep: median %.2f, 90 %% "
	       "%.2f, most %.2f ms\n",
		(double)took[n / 2] / 1e6, (double)took[n * 9 / 10] / 1e6,
		(double)took[n - 1] / 1e6);
}

/* ------------------------------------------------------------------ one is killed */

#define KILL_LEN  (32u << 10)
/* ns; who is told of nothing waits longer, and then has another error */
#define TOLD_MOST (PATIENCE_US * 1000 * 2 / 3)
#define RUNS_MOST 2000

/* Collectives until an error, which the next one must end with as well; then the rest go on in a
 * group of their own. */
static void
do_killed(struct member *m)
{
	struct stream s = {.window = 1 + m->rank % SLOTS, .series = m->id, .len_max = KILL_LEN};
	struct outcome o;
	struct call c;
	int64_t took;

	calls_init(m->ctx, KILL_LEN);
	member_open(m, NO_RANK);
	atomic_fetch_add(&m->board->ready, 1);
	seed = m->id * 64 + m->rank;
	while (s.error == 0)
		stream_goes_on(m, &s, true);
	while (s.running > 0)
		stream_goes_on(m, &s, false);
	took = now_ns();
	call_draw(&c, s.series, s.next, m->group, KILL_LEN);
	if (member_begin(m, &c, 0, &o))
		member_wait(m, &c, &o);
	took = now_ns() - took;
	call_free(&c);
	if (o.error != s.error)
		fail("rank %u: the next collective ends with %s instead of %s", m->rank,
			error_name(o.error), error_name(s.error));
	if (took > TOLD_MOST)
		fail("rank %u: the next collective takes %ld us to end", m->rank, took / 1000);
	/* that the group is over was known before it could begin */
	if (s.error_rank == NO_RANK && s.error == -ECONNRESET)
		s.error_rank = 0;
	if (s.error_rank >= MEMBERS) {
		fail("rank %u: %s, because of nobody", m->rank, error_name(s.error));
		return;
	}
	/* when rank 0 leaves, the group ends */
	board_meet(m);
	member_close(m);
	member_open(m, s.error_rank);
	stream_of(m, s.series + 1, 5, KILL_LEN);
	board_meet(m);
	member_close(m);
}

/* Whoever ended a collective with an error has the same one as the others. */
static void
check_killed(const struct world *w, uint32_t victim)
{
	for (uint32_t n = 0; n < NUMBERS; n++) {
		const struct outcome *first = NULL;

		for (uint32_t r = 0; r < MEMBERS; r++) {
			const struct outcome *o = &w->board->member[r].outcome[n];

			if (r == victim || o->ended_ns == 0 || o->error == 0)
				continue;
			if (o->error != -ECONNRESET && o->error != -ENOTCONN)
				fail("turn %u, rank %u, collective %u: %s", w->turn, r, n,
					error_name(o->error));
			/* that a group is over can be told before anything begins */
			if (o->rank != victim && !(victim == 0 && o->rank == NO_RANK))
				fail("turn %u, rank %u, collective %u: %s because of %u, not %u",
					w->turn, r, n, error_name(o->error), o->rank, victim);
			if (first != NULL && o->error != first->error)
				fail("turn %u, collective %u: %s at one and %s at rank %u", w->turn,
					n, error_name(first->error), error_name(o->error), r);
			first = first != NULL ? first : o;
		}
	}
}

static void
kill_one(struct world *w, int64_t *took, uint32_t errors[2])
{
	const uint32_t victim = w->option == 0 ? 0 : 1 + (uint32_t)draw() % (MEMBERS - 1);
	int64_t at, last = 0;

	world_start(w, &cases[2]);
	atomic_store(&w->board->expected, MEMBERS - 1);
	for (int64_t until = now_us() + PATIENCE_US; atomic_load(&w->board->ready) < MEMBERS;) {
		if (now_us() > until || failed) {
			fail("turn %u: the members do not begin", w->turn);
			world_ends(w, NO_RANK);
			return;
		}
		usleep(200);
	}
	usleep((useconds_t)(draw() % 20000));
	at = now_ns();
	kill(w->pids[victim], SIGKILL);
	world_ends(w, victim);
	for (uint32_t r = 0; r < MEMBERS; r++) {
		const struct board_member *b = &w->board->member[r];

		if (r == victim)
			continue;
		if (!b->over || b->error_ns < at)
			fail("turn %u, rank %u: no error, or before the kill", w->turn, r);
		last = b->error_ns > last ? b->error_ns : last;
	}
	check_killed(w, victim);
	*took = last - at;
	if (*took > TOLD_MOST)
		fail("turn %u: the last one was told after %ld ms", w->turn, *took / 1000000);
	for (uint32_t n = 0; n < NUMBERS; n++) {
		const int e = w->board->member[victim == 1 ? 2 : 1].outcome[n].error;

		if (e != 0) {
			errors[e == -ENOTCONN]++;
			break;
		}
	}
}

/* option: 0: rank 0 is killed; otherwise another one. KILLS: how often. */
static void
killed_parent(struct world *w)
{
	static int64_t took[RUNS_MOST];
	const char *kills = getenv("KILLS");
	uint32_t n = kills != NULL ? (uint32_t)atoi(kills) : 10, errors[2] = {0, 0};

	n = n < 1 ? 1 : n > RUNS_MOST ? RUNS_MOST : n;
	for (uint32_t i = 0; i < n && !failed; i++)
		kill_one(w, &took[i], errors);
	qsort(took, n, sizeof(took[0]), by_value);
	printf("# %u kills, from the kill until the last survivor was told: median %.2f, 99 %% "
	       "%.2f, most %.2f ms; ECONNRESET %u, ENOTCONN %u\n",
		n, (double)took[n / 2] / 1e6, (double)took[n * 99 / 100] / 1e6,
		(double)took[n - 1] / 1e6, errors[0], errors[1]);
}

/* ------------------------------------------------------------------ one begins another one */

static const struct odd {
	const char *what;
	enum verb verb, odd_verb;
	uint32_t root, odd_root;
	uint64_t len, odd_len;
	enum pmx_atomic_op odd_op;
	enum pmx_atomic_type odd_type;
	bool all; /* nobody's can end well */
} odds[] = {
	{"length", ALLGATHER, ALLGATHER, 0, 0, 100, 104, PMX_ATOMIC_SUM, PMX_UINT32, true},
	{"long length", ALLGATHER, ALLGATHER, 0, 0, 65536, 65532, PMX_ATOMIC_SUM, PMX_UINT32, true},
	{"length", ALLREDUCE, ALLREDUCE, 0, 0, 8, 12, PMX_ATOMIC_SUM, PMX_UINT32, true},
	{"operation", ALLREDUCE, ALLREDUCE, 0, 0, 8, 8, PMX_ATOMIC_MIN, PMX_UINT32, true},
	{"long operation", ALLREDUCE, ALLREDUCE, 0, 0, 65536, 65536, PMX_ATOMIC_MIN, PMX_UINT32,
		true},
	{"type", ALLREDUCE, ALLREDUCE, 0, 0, 64, 64, PMX_ATOMIC_SUM, PMX_FLOAT, true},
	{"verb", ALLREDUCE, BARRIER, 0, 0, 64, 64, PMX_ATOMIC_SUM, PMX_UINT32, true},
	{"verb", BARRIER, ALLGATHER, 0, 0, 64, 64, PMX_ATOMIC_SUM, PMX_UINT32, true},
	{"root", BCAST, BCAST, 0, 7, 64, 64, PMX_ATOMIC_SUM, PMX_UINT32, false},
	{"root", BCAST, BCAST, 2, 7, 65536, 65536, PMX_ATOMIC_SUM, PMX_UINT32, false},
	{"root", GATHER, GATHER, 2, 0, 20000, 20000, PMX_ATOMIC_SUM, PMX_UINT32, false},
	{"length", GATHER, GATHER, 0, 0, 20000, 20001, PMX_ATOMIC_SUM, PMX_UINT32, false},
	{"root", REDUCE, REDUCE, 3, 4, 64, 64, PMX_ATOMIC_SUM, PMX_UINT32, false},
	{"length", ALLTOALL, ALLTOALL, 0, 0, 5000, 5001, PMX_ATOMIC_SUM, PMX_UINT32, true},
	{"length", SCATTER, SCATTER, 0, 0, 5000, 200, PMX_ATOMIC_SUM, PMX_UINT32, false},
	{"topology", ALLGATHER, ALLGATHER, 0, 0, 100, 100, PMX_ATOMIC_SUM, PMX_UINT32, true},
};
#define ODDS (sizeof(odds) / sizeof(odds[0]))

#define THE_NETWORK "switch s buffer=128K\nhost h[0-1]\nlink h[0-1] s bandwidth=10G latency=1us\n"
#define ANOTHER_NETWORK                                                                            \
	"switch s buffer=128K\nhost h[0-1]\nlink h[0-1] s bandwidth=1G latency=1us\n"

/* Return which member is the odd one in case i. It is never rank 0, by which the others are
 * judged. */
static uint32_t
odd_rank(uint32_t i)
{
	return 1 + i * 3 % (MEMBERS - 1);
}

/* Each in a group of its own, in which nothing can follow. */
static void
do_odd(struct member *m)
{
	calls_init(m->ctx, LEN_MAX);
	for (uint32_t i = 0; i < ODDS; i++) {
		const struct odd *d = &odds[i];
		const bool is_odd = m->rank == odd_rank(i);
		struct outcome o;
		struct call c;

		member_open(m, NO_RANK);
		if (strcmp(d->what, "topology") == 0)
			must_succeed("topology",
				pmx_coll_topology(m->group, is_odd ? ANOTHER_NETWORK : THE_NETWORK,
					NULL, 0));
		call_set(&c, is_odd ? d->odd_verb : d->verb, is_odd ? d->odd_root : d->root,
			is_odd ? d->odd_len : d->len, 2 * i, m->group);
		if (is_odd) {
			c.op = d->odd_op;
			c.type = d->odd_type;
		}
		if (member_begin(m, &c, 0, &o)) {
			struct pmx_status s = {.label = UINT16_MAX};

			o.error = pmx_wait(m->ctx, &c.request, &s, PATIENCE_US);
			o.rank = s.label;
			o.ended_ns = now_ns();
		}
		m->own->outcome[2 * i] = o;
		call_free(&c);
		call_set(&c, ALLREDUCE, 0, 8, 2 * i + 1, m->group);
		if (member_begin(m, &c, 0, &o)) {
			struct pmx_status s = {.label = UINT16_MAX};

			o.error = pmx_wait(m->ctx, &c.request, &s, PATIENCE_US);
			o.rank = s.label;
			o.ended_ns = now_ns();
		}
		m->own->outcome[2 * i + 1] = o;
		call_free(&c);
		close_together(m);
	}
}

static void
odd_parent(struct world *w)
{
	world_start(w, &cases[3]);
	world_ends(w, NO_RANK);
	for (uint32_t n = 0; n < 2 * ODDS; n++) {
		const struct odd *d = &odds[n / 2];
		const uint32_t odd = odd_rank(n / 2);

		for (uint32_t r = 0; r < MEMBERS; r++) {
			const struct outcome *o = &w->board->member[r].outcome[n];
			const bool may_end = n % 2 == 0 && !d->all;

			if (may_end && o->error == 1)
				continue;
			if (o->error != -EPROTO || o->rank != odd) {
				printf("# %s of %s, rank %u is odd; %s: rank %u ends with %s "
				       "because of %u\n",
					d->what, verb_names[d->verb], odd,
					n % 2 == 0 ? "that one" : "the next", r,
					o->error == 1 ? "0" : error_name(o->error), o->rank);
				fail("not EPROTO because of the odd one");
			}
		}
	}
}

/* ------------------------------------------------------------------ members that leave */

#define LEAVES 60

/* Each member but rank 0 closes the group as soon as its own part has ended. */
static void
do_leave(struct member *m)
{
	calls_init(m->ctx, LEN_MAX);
	for (uint32_t i = 0; i < LEAVES; i++) {
		struct outcome o;
		struct call c;

		member_open(m, NO_RANK);
		call_draw(&c, seed + 7 + i, 0, m->group, LEN_MAX);
		if (member_begin(m, &c, i % SLOTS, &o))
			member_wait(m, &c, &o);
		if (o.error != 0)
			fail("group %u, %s of %lu, root %u: rank %u ends with %s because of %u", i,
				verb_names[c.verb], (unsigned long)c.len, c.root, m->rank,
				error_name(o.error), o.rank);
		if (m->rank != 0)
			member_close(m);
		board_meet(m);
		if (m->rank == 0)
			member_close(m);
		call_free(&c);
	}
}

/* ---------------------------------------------------------------- alone, too many, closed, gone */

static void
do_alone(struct member *m)
{
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = m->id + m->rank,
		.count = 1,
		.members = &m->list[m->rank],
	};
	pmx_request r = 0;
	int result;

	calls_init(m->ctx, LEN_MAX);
	result = pmx_group_open(m->ctx, &p, PATIENCE_US, &m->group, &r);
	if (result == 0)
		result = pmx_wait(m->ctx, &r, NULL, PATIENCE_US);
	if (result != 1)
		die_of("opening", result);
	stream_of(m, seed, 200, 20000);
	member_close(m);
}

/* One more than limits.collectives is refused, and goes later. */
static void
do_many(struct member *m)
{
	struct call calls[SLOTS], more;
	struct outcome o[SLOTS], last;
	int result;

	calls_init(m->ctx, LEN_MAX);
	member_open(m, NO_RANK);
	for (uint32_t turn = 0; turn < 5; turn++) {
		const uint32_t first = turn * (SLOTS + 1);

		/* rank `turn` begins first, and has to wait for the others */
		if (m->rank != turn)
			board_meet(m);
		for (uint32_t i = 0; i < SLOTS; i++) {
			call_set(&calls[i], i % 2 ? ALLREDUCE : ALLGATHER, 0, 1000, first + i,
				m->group);
			result = call_begin(&calls[i], m->group, i);
			if (result != 0)
				fail("rank %u, %u of %u: %s", m->rank, i, SLOTS,
					error_name(result));
		}
		call_set(&more, BARRIER, 0, 0, first + SLOTS, m->group);
		if (m->rank == turn) {
			result = call_begin(&more, m->group, 0);
			if (result != -EAGAIN)
				fail("one more than limits.collectives: %s", error_name(result));
			board_meet(m);
		}
		for (uint32_t i = 0; i < SLOTS; i++) {
			member_wait(m, &calls[i], &o[i]);
			if (o[i].error != 0)
				fail("rank %u: %s", m->rank, error_name(o[i].error));
			call_free(&calls[i]);
		}
		if (member_begin(m, &more, 0, &last))
			member_wait(m, &more, &last);
		if (last.error != 0)
			fail("rank %u: the one more: %s", m->rank, error_name(last.error));
		call_free(&more);
	}
	close_together(m);
}

/* Rank 4 closes the group, or its context, or ends, while its collectives run, which rank 7 begins
 * only when that has been heard of: its requests end, and the others' with its rank. */
static void
do_gone(struct member *m)
{
	enum { LEAVER = 4, LAST = 7 };
	struct call calls[3];
	struct outcome o;

	calls_init(m->ctx, LEN_MAX);
	member_open(m, NO_RANK);
	if (m->rank == LEAVER) {
		for (uint32_t i = 0; i < 3; i++) {
			call_set(&calls[i], i % 2 ? ALLGATHER : ALLREDUCE, 0, 60000, i, m->group);
			if (!member_begin(m, &calls[i], i, &o))
				fail("beginning: %s", error_name(o.error));
		}
		usleep(10000);
		atomic_store(&m->board->ready, 1);
		if (m->option == 2)
			_exit(0);
		if (m->option == 0) {
			member_close(m);
			for (uint32_t i = 0; i < 3; i++) {
				const int result = pmx_wait(m->ctx, &calls[i].request, NULL,
					PATIENCE_US);

				if (result != -ECANCELED)
					fail("request of a closed group: %s", error_name(result));
			}
		}
		return; /* 1: the context is closed with all that runs */
	}
	for (uint32_t i = 0; i < 3; i++) {
		call_set(&calls[i], i % 2 ? ALLGATHER : ALLREDUCE, 0, 60000, i, m->group);
		if (i == 0)
			usleep(m->rank * 4000);
		while (m->rank == LAST && !atomic_load(&m->board->ready))
			usleep(1000);
		if (m->rank == LAST && i == 0 && !others_ended(m, 3, LEAVER))
			fail("the others are not told before the last one begins");
		if (member_begin(m, &calls[i], i, &o))
			member_wait(m, &calls[i], &o);
		if (o.rank != LEAVER || o.error != -ENOTCONN)
			fail("rank %u, collective %u: %s because of %u", m->rank, i,
				error_name(o.error), o.rank);
		call_free(&calls[i]);
	}
	/* when rank 0 leaves, the group ends */
	atomic_store(&m->board->expected, MEMBERS - 1);
	board_meet(m);
	member_close(m);
	member_open(m, LEAVER);
	stream_of(m, seed, 5, LEN_MAX);
	board_meet(m);
	member_close(m);
}

/* ------------------------------------------------------------------ until it is told to stop */

#define AGREE 16

/* A stream; every 16th collective says whether there is another one. */
static void
do_stream(struct member *m)
{
	struct stream s = {.window = 1, .series = seed, .len_max = KILL_LEN};
	uint32_t stops = 0, rounds = 0;
	pmx_request r = 0;

	calls_init(m->ctx, KILL_LEN);
	member_open(m, NO_RANK);
	atomic_fetch_add(&m->board->ready, 1);
	while (stops == 0) {
		int result;

		for (uint32_t end = s.next + AGREE; s.next < end || s.running > 0;) {
			stream_goes_on(m, &s, s.next < end);
			if (s.error != 0)
				die("rank %u: %s because of %u", m->rank, error_name(s.error),
					s.error_rank);
		}
		stops = m->rank == 0 ? atomic_load(&m->board->stop) : 0;
		while ((result = pmx_bcast(m->group, 0, &stops, sizeof(stops), &r)) == -EAGAIN)
			pmx_sends_pending(m->ctx);
		if (result == 0)
			result = pmx_wait(m->ctx, &r, NULL, PATIENCE_US);
		if (result != 1)
			die_of("whether to stop", result);
		s.next++;
		rounds++;
	}
	if (m->rank == 0)
		atomic_store(&m->board->said, rounds * (AGREE + 1));
	close_together(m);
}

static void
stream_parent(struct world *w)
{
	char c;

	world_start(w, &cases[8]);
	while (atomic_load(&w->board->ready) < MEMBERS && !failed)
		usleep(1000);
	puts("streams");
	fflush(stdout);
	while (read(0, &c, 1) == 1 && c != '\n')
		;
	atomic_store(&w->board->stop, 1);
	world_ends(w, NO_RANK);
	printf("# %u collectives\n", atomic_load(&w->board->said));
	printf("streamed: %d\n", (int)failed);
}

/* ------------------------------------------------------------------ each verb */

/* Each verb with lengths around what plans change at, and a sum behind it, in a group of its own,
 * so that what does not end is told of all. */
static void
do_each(struct member *m)
{
	static const uint64_t lens[] = {0, 4, 224, 228, 20000};

	calls_init(m->ctx, LEN_MAX);
	for (uint32_t i = 0; i < VERBS * sizeof(lens) / sizeof(lens[0]); i++) {
		const enum verb verb = (enum verb)(i % VERBS);
		struct call c[2];

		member_open(m, NO_RANK);
		call_set(&c[0], verb, i % MEMBERS, lens[i / VERBS], 0, m->group);
		call_set(&c[1], ALLREDUCE, 0, 8, 1, m->group);
		for (unsigned k = 0; k < 2; k++) {
			int result = call_begin(&c[k], m->group, k);

			if (result == 0)
				result = pmx_wait(m->ctx, &c[k].request, NULL, PATIENCE_US);
			if (result == 1) {
				call_check(&c[k]);
				continue;
			}
			printf("# rank %u: %s of %lu, root %u%s: %s\n", m->rank, verb_names[verb],
				(unsigned long)lens[i / VERBS], c[0].root,
				k == 1 ? ", what is behind it" : "", error_name(result));
			fflush(stdout);
			fail("rank %u: not all end well", m->rank);
			break;
		}
		close_together(m);
		call_free(&c[0]);
		call_free(&c[1]);
	}
}

/* Collectives of no bytes, one behind the other. */
static void
do_empty(struct member *m)
{
	static const enum verb verbs[] = {ALLGATHER, REDUCE_SCATTER, ALLTOALL, ALLREDUCE};

	calls_init(m->ctx, LEN_MAX);
	member_open(m, NO_RANK);
	for (uint32_t i = 0; i < 200; i++) {
		struct outcome o;
		struct call c;

		call_set(&c, verbs[i / 50], 0, 0, i, m->group);
		if (member_begin(m, &c, 0, &o))
			member_wait(m, &c, &o);
		if (o.error != 0)
			die("rank %u, collective %u: %s", m->rank, i, error_name(o.error));
		call_free(&c);
	}
	close_together(m);
}

/* ------------------------------------------------------------------ topologies */

/* Check that what is wrong with a topology is told. */
static void
do_topology(struct member *m)
{
	char error[200] = "";
	struct outcome o;
	struct call c;
	int result;

	calls_init(m->ctx, LEN_MAX);
	member_open(m, NO_RANK);
	result = pmx_coll_topology(m->group,
		"switch s\nhost a\nlink a s bandwidth=1G latency=1us\n", error, sizeof(error));
	if (result != -EINVAL || strstr(error, "node 1") == NULL)
		fail("a topology without node 1: %s, '%s'", error_name(result), error);
	result = pmx_coll_topology(m->group, THE_NETWORK, error, sizeof(error));
	if (result != 0)
		fail("%s, '%s'", error_name(result), error);
	call_set(&c, ALLGATHER, 0, 20000, 0, m->group);
	if (member_begin(m, &c, 0, &o))
		member_wait(m, &c, &o);
	if (o.error != 0)
		fail("by a topology: %s", error_name(o.error));
	call_free(&c);
	result = pmx_coll_topology(m->group, THE_NETWORK, error, sizeof(error));
	if (result != -EBUSY)
		fail("a topology after a collective: %s", error_name(result));
	close_together(m);
}

/* By PMX_TOPOLOGY, which is wrong: nothing begins. */
static void
do_environment(struct member *m)
{
	pmx_request r = 0;
	int result;

	member_open(m, NO_RANK);
	result = pmx_coll_barrier(m->group, &r);
	if (result == 0)
		result = pmx_wait(m->ctx, &r, NULL, PATIENCE_US);
	if (m->rank == 0)
		printf("# barrier: %s\n", result == 1 ? "0" : error_name(result));
	fflush(stdout);
	if (result >= 0)
		fail("a barrier by a topology that is wrong");
	close_together(m);
}

const struct test_case cases[] = {
	{"random", do_random, NULL},
	{"late", do_late, late_parent},
	{"killed", do_killed, killed_parent},
	{"odd", do_odd, odd_parent},
	{"leave", do_leave, NULL},
	{"alone", do_alone, NULL},
	{"many", do_many, NULL},
	{"gone", do_gone, NULL},
	{"stream", do_stream, stream_parent},
	{"topology", do_topology, NULL},
	{"each", do_each, NULL},
	{"empty", do_empty, NULL},
	{"environment", do_environment, NULL},
	{NULL, NULL, NULL},
};
