/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One of a job in the test of preemption: preempt member INSTANCE RANK GROUP SELF NODE:CONTEXT...
 * Each member sends messages, matched ones, pushes, pulls and atomic additions to every other,
 * until SIGUSR1 came to any of them, and all take part in barriers and reductions meanwhile. It
 * looks at each byte, at the order, and that all came once, and tells at the end what it counted.
 * SELF: every so many ms, on average, it stops its own context for a moment; 0: never.
 *
 * Design notes
 * 1. That it is time to end is agreed by a reduction, so all members begin as many of them.
 * 2. Who has seen all of its own off tells each other one how much that was (SAYS_TOTALS). Then
 *    there is one more barrier, and all but rank 0 tell rank 0 that they have left it, since rank 0
 *    may leave the group last only.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <pmx/coll.h>
#include <pmx/group.h>

#include "preempt.h"

#define STUCK_S    30
#define SLOTS      2 /* of pushes, and of matched messages, of a flow */
#define SENDS_MAX  200
#define PLAIN_MOST 12 /* messages to one member that have not ended */
#define CONSTANT   65536u
#define WORDS      64
#define ROUND_US   3000 /* between collectives */

enum { AREA_INBOX = 1, AREA_CONSTANT, AREA_COUNTER };

/* The subject of a plain message. */
enum says {
	SAYS_PLAIN,   /* its sequence, then bytes */
	SAYS_PUSHED,  /* that push has ended */
	SAYS_CHECKED, /* that push is as it should be */
	SAYS_TOTALS,  /* see note 2 */
	SAYS_LEFT
};

struct head {
	uint32_t what, number;
};

struct totals {
	struct head head;
	uint64_t of[KINDS];
};

/* A matched message or a transfer under way. */
struct slot {
	bool used;
	bool ended, told, checked; /* of a push: here, to the other side, by the other side */
	uint32_t number;
	pmx_transfer_id id;
	pmx_request request;
	uint8_t *bytes;
};

struct flow {
	struct pmx_addr peer;
	uint32_t rank;
	uint64_t begun[KINDS], came[KINDS];
	struct totals totals; /* of the peer's; valid once `told` */
	bool told, has_told, left;
	unsigned plain_out;
	struct slot push[SLOTS], out[SLOTS], in[SLOTS], pull, add;
	uint64_t in_posted, pull_at, pull_len;
	uint32_t owed[SLOTS]; /* pushes that were looked at, to be confirmed */
	unsigned owed_count;
};

struct sent {
	pmx_send_id id;
	struct flow *flow;
};

static struct pmx_node *node;
static struct pmx_context *ctx;
static struct pmx_group *group;
static struct flow flows[MEMBERS_MAX];
static uint32_t rank, members, group_number;
static uint8_t *inbox;
static _Atomic uint64_t *counter;
static struct sent sents[SENDS_MAX];
static unsigned sent_count;
static int64_t moved_us; /* when something last went on */
static uint64_t lost, twice, wrong, errors, self_stops;
static volatile sig_atomic_t asked_to_end;
static bool ending; /* all members know */

static struct {
	pmx_request request;
	uint64_t in[WORDS], out[WORDS];
	uint32_t round;
	bool runs, is_barrier, last;
	int64_t next_us;
} together;

static void
ask_to_end(int signal)
{
	(void)signal;
	asked_to_end = 1;
}

static void
told_error(const char *what, const struct flow *f, int result)
{
	errors++;
	fail("%s, rank %u with %u: %s", what, rank, f != NULL ? f->rank : rank,
		pmx_strerror(result));
}

static bool
is_later(int result)
{
	return result == -EAGAIN || result == -ENOBUFS;
}

/* ------------------------------------------------------------------ plain messages */

static bool
send_plain(struct flow *f, const void *data, uint32_t len)
{
	if (sent_count == SENDS_MAX)
		return false;
	const int r = pmx_send_copy(ctx, f->peer, data, len, &sents[sent_count].id);

	if (r != 0) {
		if (!is_later(r))
			told_error("pmx_send_copy", f, r);
		return false;
	}
	sents[sent_count++].flow = f;
	f->plain_out++;
	return true;
}

static bool
say(struct flow *f, enum says what, uint32_t number)
{
	const struct head h = {what, number};

	return send_plain(f, &h, sizeof(h));
}

static void
see_sends_off(void)
{
	unsigned keep = 0;

	for (unsigned i = 0; i < sent_count; i++) {
		const int r = pmx_is_send_done(ctx, sents[i].id);

		if (r == 0) {
			sents[keep++] = sents[i];
			continue;
		}
		if (r < 0)
			told_error("a message", sents[i].flow, r);
		sents[i].flow->plain_out--;
		moved_us = now_us();
	}
	sent_count = keep;
}

static bool
send_next(struct flow *f)
{
	static uint8_t bytes[sizeof(struct head) + LONGEST];
	const uint64_t key = content_key(PLAIN, rank, f->rank, f->begun[PLAIN]);
	const uint32_t len = content_len(key);
	const struct head h = {SAYS_PLAIN, (uint32_t)f->begun[PLAIN]};

	memcpy(bytes, &h, sizeof(h));
	content_fill(bytes + sizeof(h), key, len);
	if (!send_plain(f, bytes, sizeof(h) + len))
		return false;
	f->begun[PLAIN]++;
	return true;
}

/* A message or a transfer of that number came. */
static void
came(struct flow *f, enum kind kind, uint64_t number, bool good)
{
	const uint64_t want = f->came[kind];

	if (number < want)
		twice++;
	else
		lost += number - want;
	wrong += !good;
	if (number != want || !good)
		fail("rank %u of %u, kind %u: number %lu came where %lu was due%s", rank, f->rank,
			kind, number, want, good ? "" : ", with wrong bytes");
	if (number >= want)
		f->came[kind] = number + 1;
}

/* A push is said to be here. */
static void
look_at_push(struct flow *f, uint32_t number)
{
	const uint64_t key = content_key(PUSHED, f->rank, rank, number);
	const uint8_t *at = inbox + (f->rank * SLOTS + number % SLOTS) * LONGEST;
	const bool good = content_is(at, key, content_len(key));

	/* several of them may end in any order */
	f->came[PUSHED]++;
	wrong += !good;
	if (!good)
		fail("rank %u: push %u of %u has wrong bytes", rank, number, f->rank);
	if (f->owed_count == SLOTS) {
		twice++;
		fail("rank %u: push %u of %u came twice", rank, number, f->rank);
		return;
	}
	f->owed[f->owed_count++] = number;
}

static void
is_checked(struct flow *f, uint32_t number)
{
	struct slot *s = &f->push[number % SLOTS];

	if (!s->used || s->number != number || s->checked) {
		twice++;
		fail("rank %u: push %u was confirmed twice by %u", rank, number, f->rank);
	}
	s->checked = true;
}

static struct flow *
flow_of(struct pmx_addr a)
{
	for (uint32_t r = 0; r < members; r++) {
		if (flows[r].peer.node == a.node && flows[r].peer.context == a.context)
			return &flows[r];
	}
	die("a message of %u:%u, who is no member", a.node, a.context);
}

static void
read_message(const struct pmx_message *m)
{
	static uint8_t bytes[sizeof(struct head) + LONGEST];
	struct flow *f = flow_of(m->source);
	struct head h = {0};
	uint64_t key;

	if (m->len < sizeof(h) || m->len > sizeof(bytes) ||
		pmx_message_read(ctx, m, 0, bytes, m->len) != 0)
		die("a message of %u bytes", m->len);
	memcpy(&h, bytes, sizeof(h));
	switch (h.what) {
	case SAYS_PLAIN:
		key = content_key(PLAIN, f->rank, rank, h.number);
		came(f, PLAIN, h.number,
			m->len == sizeof(h) + content_len(key) &&
				content_is(bytes + sizeof(h), key, content_len(key)));
		break;
	case SAYS_PUSHED:
		look_at_push(f, h.number);
		break;
	case SAYS_CHECKED:
		is_checked(f, h.number);
		break;
	case SAYS_TOTALS:
		twice += f->told;
		f->told = true;
		memcpy(&f->totals, bytes, sizeof(f->totals));
		break;
	case SAYS_LEFT:
		f->left = true;
		break;
	default:
		wrong++;
		fail("a message about %u", h.what);
	}
}

static void
receive(void)
{
	struct pmx_message m[16];
	struct pmx_event e;
	const int n = pmx_receive_burst(ctx, m, 16);

	if (n < 0)
		told_error("pmx_receive_burst", NULL, n);
	for (int i = 0; i < n; i++) {
		read_message(&m[i]);
		pmx_release_receive_buffer(ctx, &m[i]);
		moved_us = now_us();
	}
	while (pmx_poll_event(ctx, &e) == 1) {
		moved_us = now_us();
		if (e.kind == PMX_EVENT_PUSHED)
			look_at_push(flow_of(e.peer), (uint32_t)e.immediate);
		else if (!ending)
			told_error("an event", NULL, e.error != 0 ? e.error : -ECONNRESET);
	}
}

/* ------------------------------------------------------------------ matched messages */

static void
matched(struct flow *f)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *s = &f->out[f->begun[MATCHED] % SLOTS];
		const uint64_t key = content_key(MATCHED, rank, f->rank, f->begun[MATCHED]);
		const struct pmx_matched m = {
			.peer = f->peer,
			.comm = group_number,
			.tag = f->begun[MATCHED],
			.data = s->bytes,
			.len = content_len(key),
			.flags = draw() % 2 ? PMX_DELIVERED : PMX_SYNC,
		};

		if (s->used || ending)
			break;
		content_fill(s->bytes, key, content_len(key));
		const int r = pmx_isend(ctx, &m, &s->request);

		if (r != 0) {
			if (!is_later(r))
				told_error("pmx_isend", f, r);
			break;
		}
		s->used = true;
		f->begun[MATCHED]++;
	}
	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *s = &f->out[i];
		const int r = s->used ? pmx_test(ctx, &s->request, NULL) : 0;

		if (r < 0)
			told_error("a matched message", f, r);
		if (r != 0) {
			s->used = false;
			moved_us = now_us();
		}
	}
}

static void
matched_in(struct flow *f)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *s = &f->in[f->came[MATCHED] % SLOTS];
		struct pmx_status got;
		const uint64_t key = content_key(MATCHED, f->rank, rank, f->came[MATCHED]);
		const int r = s->used ? pmx_test(ctx, &s->request, &got) : 0;

		if (r == 0)
			break;
		s->used = false;
		moved_us = now_us();
		if (r < 0)
			told_error("a matched receive", f, r);
		else
			came(f, MATCHED, got.tag,
				got.len == content_len(key) &&
					content_is(s->bytes, key, content_len(key)));
	}
	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *s = &f->in[f->in_posted % SLOTS];
		const struct pmx_matched m = {
			.peer = f->peer,
			.comm = group_number,
			.ignore = PMX_ANY_TAG,
			.data = s->bytes,
			.len = LONGEST,
		};

		if (s->used || (f->told && f->came[MATCHED] == f->totals.of[MATCHED]))
			break;
		const int r = pmx_irecv(ctx, &m, &s->request);

		if (r != 0) {
			if (!is_later(r))
				told_error("pmx_irecv", f, r);
			break;
		}
		s->used = true;
		f->in_posted++;
	}
}

static void
cancel_receives(struct flow *f)
{
	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *s = &f->in[i];

		if (!s->used)
			continue;
		const int r = pmx_cancel(ctx, s->request);

		if (r != 0 || pmx_test(ctx, &s->request, NULL) != -ECANCELED)
			told_error("pmx_cancel", f, r);
		s->used = false;
	}
}

/* ------------------------------------------------------------------ remote memory */

static void
push_next(struct flow *f)
{
	struct slot *s = &f->push[f->begun[PUSHED] % SLOTS];
	const uint64_t key = content_key(PUSHED, rank, f->rank, f->begun[PUSHED]);
	const bool notifies = draw() % 2;
	const struct pmx_transfer t = {
		.peer = f->peer,
		.flags = PMX_AREA | (notifies ? PMX_NOTIFY : 0),
		.key = AREA_INBOX,
		.remote = (rank * SLOTS + f->begun[PUSHED] % SLOTS) * LONGEST,
		.local = s->bytes,
		.len = content_len(key),
		.immediate = f->begun[PUSHED],
	};

	if (s->used)
		return;
	content_fill(s->bytes, key, content_len(key));
	const int r = pmx_push(ctx, &t, &s->id);

	if (r != 0) {
		if (!is_later(r))
			told_error("pmx_push", f, r);
		return;
	}
	s->used = true;
	s->ended = s->checked = false;
	s->told = notifies;
	s->number = (uint32_t)f->begun[PUSHED]++;
}

/* Return whether a transfer has ended, now or before. */
static bool
has_ended(struct flow *f, struct slot *s, const char *what)
{
	const int r = pmx_transfer_done(ctx, s->id);

	if (r < 0)
		told_error(what, f, r);
	if (r != 0)
		moved_us = now_us();
	return r != 0;
}

static void
push(struct flow *f)
{
	if (!ending)
		push_next(f);
	for (unsigned i = 0; i < SLOTS; i++) {
		struct slot *s = &f->push[i];

		if (!s->used)
			continue;
		if (!s->ended)
			s->ended = has_ended(f, s, "a push");
		if (s->ended && !s->told)
			s->told = say(f, SAYS_PUSHED, s->number);
		if (s->ended && s->checked)
			s->used = false;
	}
}

static uint64_t
constant_key(uint32_t of)
{
	return content_key(PULLED, of, of, 0);
}

static void
pull(struct flow *f)
{
	struct slot *s = &f->pull;

	if (!s->used && !ending) {
		f->pull_len = 8 + draw() % (LONGEST - 8);
		f->pull_at = draw() % (CONSTANT - LONGEST) / 8;
		const struct pmx_transfer t = {
			.peer = f->peer,
			.flags = PMX_AREA,
			.key = AREA_CONSTANT,
			.remote = f->pull_at * 8,
			.local = s->bytes,
			.len = f->pull_len,
		};
		const int r = pmx_pull(ctx, &t, &s->id);

		if (r != 0 && !is_later(r))
			told_error("pmx_pull", f, r);
		s->used = r == 0;
		f->begun[PULLED] += r == 0;
	} else if (s->used && has_ended(f, s, "a pull")) {
		s->used = false;
		if (content_is(s->bytes, constant_key(f->rank) + f->pull_at * 0x9E3779B97F4A7C15u,
			    (uint32_t)f->pull_len))
			return;
		wrong++;
		fail("rank %u: a pull of %lu bytes at %lu of %u has wrong bytes", rank, f->pull_len,
			f->pull_at * 8, f->rank);
	}
}

static void
add(struct flow *f)
{
	static const uint64_t one = 1;
	const struct pmx_atomic_transfer a = {
		.peer = f->peer,
		.flags = PMX_AREA,
		.key = AREA_COUNTER,
		.op = PMX_ATOMIC_SUM,
		.type = PMX_UINT64,
		.count = 1,
		.operands = &one,
	};
	struct slot *s = &f->add;

	if (!s->used && !ending) {
		const int r = pmx_atomic(ctx, &a, &s->id);

		if (r != 0 && !is_later(r))
			told_error("pmx_atomic", f, r);
		s->used = r == 0;
		f->begun[ADDED] += r == 0;
	} else if (s->used && has_ended(f, s, "an addition")) {
		s->used = false;
	}
}

/* ------------------------------------------------------------------ all together */

/* Word i of what a member gives to a reduction. */
static uint64_t
given(uint32_t by, uint32_t round, uint32_t i)
{
	return mix64(round * 1000003ull + by * WORDS + i);
}

static void
begin_together(void)
{
	int r;

	together.is_barrier = together.round % 4 == 3;
	together.in[0] = asked_to_end;
	for (uint32_t i = 1; i < WORDS; i++)
		together.in[i] = given(rank, together.round, i);
	if (together.is_barrier)
		r = together.round % 8 == 3 ? pmx_group_barrier(group, &together.request)
					    : pmx_coll_barrier(group, &together.request);
	else
		r = pmx_allreduce(group, together.in, together.out, WORDS, PMX_UINT64,
			PMX_ATOMIC_SUM, &together.request);
	if (r != 0 && !is_later(r))
		told_error("a collective", NULL, r);
	together.runs = r == 0;
}

static void
check_reduction(void)
{
	for (uint32_t i = 1; i < WORDS; i++) {
		uint64_t sum = 0;

		for (uint32_t m = 0; m < members; m++)
			sum += given(m, together.round, i);
		if (sum == together.out[i])
			continue;
		wrong++;
		fail("rank %u: word %u of reduction %u is wrong", rank, i, together.round);
	}
	if (together.out[0] != 0) /* note 1 */
		ending = true;
}

static void
go_together(void)
{
	if (!together.runs) {
		if (!ending && now_us() >= together.next_us)
			begin_together();
		return;
	}
	const int r = pmx_test(ctx, &together.request, NULL);

	if (r == 0)
		return;
	moved_us = now_us();
	if (r < 0)
		told_error("a collective", NULL, r);
	else if (!together.is_barrier)
		check_reduction();
	together.runs = false;
	together.round++;
	together.next_us = now_us() + ROUND_US;
}

/* ------------------------------------------------------------------ running */

static void
stop_self(unsigned every_ms)
{
	static int64_t next_us;

	if (every_ms == 0 || now_us() < next_us)
		return;
	if (next_us != 0) {
		must_succeed("pmx_context_stop", pmx_context_stop(ctx));
		usleep((useconds_t)(draw() % 20000));
		must_succeed("pmx_context_start", pmx_context_start(ctx));
		self_stops++;
		moved_us = now_us();
	}
	next_us = now_us() + (int64_t)(draw() % (every_ms * 2000u));
}

/* Return whether all that this member has begun with a peer has ended, so that it may tell its
 * totals. */
static bool
is_idle(const struct flow *f)
{
	bool idle = f->plain_out == 0 && !f->pull.used && !f->add.used && f->owed_count == 0;

	for (unsigned i = 0; i < SLOTS; i++)
		idle = idle && !f->push[i].used && !f->out[i].used;
	return idle;
}

static bool
has_all(const struct flow *f)
{
	return f->has_told && f->told && f->plain_out == 0 && f->owed_count == 0 &&
		f->came[PLAIN] == f->totals.of[PLAIN] && f->came[MATCHED] == f->totals.of[MATCHED];
}

static void
serve(struct flow *f)
{
	while (f->owed_count > 0 && say(f, SAYS_CHECKED, f->owed[f->owed_count - 1]))
		f->owed_count--;
	if (!ending && f->plain_out < PLAIN_MOST)
		send_next(f);
	matched(f);
	matched_in(f);
	push(f);
	pull(f);
	add(f);
	if (ending && !f->has_told && is_idle(f)) {
		struct totals t = {.head = {SAYS_TOTALS, 0}};

		memcpy(t.of, f->begun, sizeof(t.of));
		f->has_told = send_plain(f, &t, sizeof(t));
	}
}

static bool
is_stuck(void)
{
	if (now_us() - moved_us < STUCK_S * 1000000ll)
		return false;
	fail("rank %u: nothing went on for %d s", rank, STUCK_S);
	return true;
}

static void
work(unsigned self_ms)
{
	bool all = false;

	moved_us = now_us();
	while (!all && !is_stuck()) {
		const int64_t before = moved_us;

		all = ending && !together.runs;
		receive();
		see_sends_off();
		go_together();
		for (uint32_t r = 0; r < members; r++) {
			if (r == rank)
				continue;
			serve(&flows[r]);
			all = all && has_all(&flows[r]);
		}
		stop_self(self_ms);
		if (before == moved_us)
			usleep(100);
	}
}

/* Note 2. */
static void
leave(void)
{
	pmx_request barrier;
	bool all = rank != 0;
	int r = pmx_coll_barrier(group, &barrier);

	if (r == 0)
		r = pmx_wait(ctx, &barrier, NULL, STUCK_S * 1000000ll);
	if (r < 0)
		told_error("the last barrier", NULL, r);
	for (uint32_t i = 0; i < members; i++)
		cancel_receives(&flows[i]);
	while (rank != 0 && !say(&flows[0], SAYS_LEFT, 0))
		see_sends_off();
	moved_us = now_us();
	while ((!all || sent_count > 0) && !is_stuck()) {
		see_sends_off();
		receive();
		all = true;
		for (uint32_t i = 1; rank == 0 && i < members; i++)
			all = all && flows[i].left;
		usleep(100);
	}
	pmx_group_close(group);
}

static void
report(void)
{
	uint64_t messages = 0, matches = 0, transfers = 0, added = 0;
	struct pmx_context_stat s;

	pmx_context_read_stat(ctx, &s);
	for (uint32_t r = 0; r < members; r++) {
		const struct flow *f = &flows[r];

		if (r == rank)
			continue;
		errors += !f->told;
		for (enum kind k = PLAIN; f->told && k <= PUSHED; k++)
			lost += f->totals.of[k] - f->came[k];
		messages += f->came[PLAIN];
		matches += f->came[MATCHED];
		transfers += f->came[PUSHED] + f->begun[PULLED] + f->begun[ADDED];
		added += f->totals.of[ADDED];
	}
	if (*counter != added) {
		wrong++;
		fail("rank %u: %lu was added, not %lu", rank, *counter, added);
	}
	errors += s.send_errors;
	printf("done %lu messages %lu matched %lu transfers %u collectives %lu self_stops %lu lost "
	       "%lu twice %lu wrong %lu errors\n",
		messages, matches, transfers, together.round, self_stops, lost, twice, wrong,
		errors);
	if (lost + twice + wrong + errors != 0)
		fail("see above");
}

/* ------------------------------------------------------------------ the beginning */

static void *
memory(uint64_t len)
{
	void *at;

	if (rank % 2 == 1) {
		at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		return must(at != MAP_FAILED ? at : NULL);
	}
	must_succeed("pmx_alloc", pmx_alloc(ctx, len, &at));
	return at;
}

static void
share(uint32_t area, void *at, uint64_t len, unsigned access)
{
	struct pmx_remote remote;

	must_succeed("pmx_area_register",
		pmx_area_register(ctx, area, at, len,
			access | PMX_ANYONE | (rank % 2 == 1 ? PMX_ADOPT : 0), &remote));
}

static void
begin(char **list)
{
	struct pmx_addr addrs[MEMBERS_MAX];
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = group_number,
		.count = members,
		.members = addrs,
	};
	pmx_request opened;

	for (uint32_t r = 0; r < members; r++) {
		struct flow *f = &flows[r];
		unsigned a = 0, b = 0;

		if (sscanf(list[r], "%u:%u", &a, &b) != 2)
			die("'%s' is not NODE:CONTEXT", list[r]);
		f->peer = addrs[r] = (struct pmx_addr){(uint16_t)a, (uint16_t)b};
		f->rank = r;
	}

	must_succeed("pmx_context_open", pmx_context_open(&ctx, node, addrs[rank].context, NULL));
	for (uint32_t r = 0; r < members; r++) {
		uint8_t *bytes = memory((3 * SLOTS + 1) * LONGEST);

		for (unsigned i = 0; i < SLOTS; i++) {
			flows[r].push[i].bytes = bytes + i * LONGEST;
			flows[r].out[i].bytes = bytes + (SLOTS + i) * LONGEST;
			flows[r].in[i].bytes = bytes + (2 * SLOTS + i) * LONGEST;
		}
		flows[r].pull.bytes = bytes + 3 * SLOTS * LONGEST;
	}
	inbox = memory(MEMBERS_MAX * SLOTS * LONGEST);
	uint8_t *constant = memory(CONSTANT);

	counter = memory(4096);
	content_fill(constant, constant_key(rank), CONSTANT);
	share(AREA_INBOX, inbox, MEMBERS_MAX * SLOTS * LONGEST, PMX_REMOTE_WRITE);
	share(AREA_CONSTANT, constant, CONSTANT, PMX_REMOTE_READ);
	share(AREA_COUNTER, (void *)counter, 8, PMX_REMOTE_READ | PMX_REMOTE_WRITE);
	int r = pmx_group_open(ctx, &p, STUCK_S * 1000000ll, &group, &opened);

	if (r == 0)
		r = pmx_wait(ctx, &opened, NULL, 2 * STUCK_S * 1000000ll);
	must_succeed("pmx_group_open", r);
}

int
member_main(int argc, char **argv)
{
	const struct sigaction act = {.sa_handler = ask_to_end, .sa_flags = SA_RESTART};

	if (argc < 6 || argc - 4 > MEMBERS_MAX)
		return 2;
	rank = (uint32_t)atoi(argv[1]);
	group_number = (uint32_t)atoi(argv[2]);
	members = (uint32_t)(argc - 4);
	seed = seed * 1000 + rank;
	sigaction(SIGUSR1, &act, NULL);
	must_succeed("attaching", pmx_node_attach(&node, argv[0], NULL));
	begin(argv + 4);
	puts("works");
	work((unsigned)atoi(argv[3]));
	leave();
	report();
	pmx_context_close(ctx);
	pmx_node_close(node);
	return failed;
}
