/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory between applications that are processes of their own, attached to two running
 * primaries: their owners sleep, are told, are killed, ask from killed processes, and belong to
 * several lanes. remote.sh starts the primaries and looks for what was left behind; one case at a
 * time: remote CASE INSTANCE-0 INSTANCE-1 [SEED [ROUNDS]].
 *
 * Design notes
 * 1. This process attaches to nothing. It forks the applications (each attaches, and says so),
 *    tells them by a socket what to do next, hears that it is done, and kills them with nothing
 *    between its decision and the signal. No word is waited for longer than it may take, so a case
 *    ends in bounded time whatever hangs.
 * 2. Every byte of every memory is known from where it stands and a "salt": 0 at first; whoever
 *    pushes uses another salt. So a byte that came to a wrong place is seen, and memory that a push
 *    may or may not have reached, because its process died, is checked as well: each byte has one
 *    of the salts.
 * 3. Memory that can be reached is much more than what is asked for: guards lie between what is
 *    pushed to, what is pulled from, and the ends, and are in the region as well.
 * 4. A process that follows a killed one is attached before, and opens the same context number at
 *    once, while what the dead one asked for, or was asked for, is still on its way.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "pmx/pmx.h"

#define WORD_MAX   256 /* what a process says, or is told */
#define OPEN_S     10  /* a context number is free again */
#define TRANSFER_S 10  /* a transfer ends */
#define WORK_S     60  /* an application does what it was told */
#define CONTEXT    1   /* of the application on either node, but for the lanes */

#define GUARD     (64ull << 10)
#define LONG      (64ull << 20) /* of one long transfer */
#define SMALL     (8ull << 20)  /* for transfers of all sizes */
#define WRITE_AT  GUARD
#define READ_AT   (WRITE_AT + LONG + GUARD)
#define SMALL_AT  (READ_AT + LONG + GUARD)
#define MEMORY    (SMALL_AT + SMALL + GUARD)
#define LONG_SALT 1000000

enum where { BY_ENGINE, BY_KERNEL, PLACES }; /* pmx_alloc, malloc */

static const char *const where_name[] = {"pmx_alloc", "malloc"};
static const char *instances[2];
static uint64_t seed = 1;
static unsigned rounds = 10;
static bool failed, told;

static uint64_t
mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
	z = (z ^ z >> 27) * 0x94D049BB133111EBu;
	return z ^ z >> 31;
}

static uint64_t
draw(void)
{
	static uint64_t x;

	return mix((x += 0x9E3779B97F4A7C15u) + seed * 0x1234567u);
}

/* ------------------------------------------------------------------ patterns */

static inline uint64_t
pattern(unsigned where, uint64_t salt, uint64_t number)
{
	return mix(
		(number + 1) * 0x9E3779B97F4A7C15u + (salt * PLACES + where) * 0xD1342543DE82EF95u);
}

static inline uint8_t
pattern_byte(unsigned where, uint64_t salt, uint64_t at)
{
	return (uint8_t)(pattern(where, salt, at / 8) >> at % 8 * 8);
}

/* What stands at `at` and behind it. */
static void
fill(uint8_t *p, uint64_t len, unsigned where, uint64_t salt, uint64_t at)
{
	uint64_t i = 0;

	for (; i < len && (at + i) % 8 != 0; i++)
		p[i] = pattern_byte(where, salt, at + i);
	for (; len - i >= 8; i += 8) {
		uint64_t word = pattern(where, salt, (at + i) / 8);

		memcpy(p + i, &word, 8);
	}
	for (; i < len; i++)
		p[i] = pattern_byte(where, salt, at + i);
}

/* The first byte that is another, or -1. */
static int64_t
differs(const uint8_t *p, uint64_t len, unsigned where, uint64_t salt, uint64_t at)
{
	uint64_t i = 0;

	while (i < len) {
		uint64_t word = pattern(where, salt, (at + i) / 8);

		if ((at + i) % 8 == 0 && len - i >= 8 && memcmp(p + i, &word, 8) == 0)
			i += 8;
		else if (p[i] == pattern_byte(where, salt, at + i))
			i++;
		else
			return (int64_t)i;
	}
	return -1;
}

/* The first byte that has none of the salts 0 and from..to, or -1. */
static int64_t
differs_from_all(const uint8_t *p, uint64_t len, unsigned where, uint64_t from, uint64_t to,
	uint64_t at)
{
	uint64_t last = 0;

	for (uint64_t i = 0; i < len;) {
		if (differs(p + i, len - i < 8 ? len - i : 8, where, last, at + i) < 0) {
			i += 8;
			continue;
		}
		bool word = false, byte = p[i] == pattern_byte(where, 0, at + i);

		for (uint64_t salt = to + 1; salt-- >= from && !word;) {
			uint64_t s = salt < from ? 0 : salt; /* all, then 0 */

			byte |= p[i] == pattern_byte(where, s, at + i);
			word = differs(p + i, len - i < 8 ? len - i : 8, where, s, at + i) < 0;
			if (word)
				last = s;
		}
		if (!word && !byte)
			return (int64_t)i;
		i += word ? 8 : 1;
	}
	return -1;
}

/* ------------------------------------------------------------------ an application: its words */

static int control = -1;
static struct pmx_node *node;
static struct pmx_context *ctx;

static __attribute__((format(printf, 1, 2))) void
say(const char *fmt, ...)
{
	char word[WORD_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(word, sizeof(word), fmt, args);
	va_end(args);
	if (send(control, word, strlen(word) + 1, MSG_NOSIGNAL) < 0)
		_exit(3);
}

static __attribute__((format(printf, 1, 2), noreturn)) void
die(const char *fmt, ...)
{
	char word[WORD_MAX] = "failed ";
	va_list args;

	va_start(args, fmt);
	vsnprintf(word + 7, sizeof(word) - 7, fmt, args);
	va_end(args);
	say("%s", word);
	_exit(1);
}

static bool
word_waits(void)
{
	struct pollfd p = {.fd = control, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void
next_word(char *word)
{
	ssize_t n = recv(control, word, WORD_MAX - 1, 0);

	if (n <= 0)
		_exit(3);
	word[n] = 0;
}

static void
expect_word(const char *wanted)
{
	char word[WORD_MAX];

	next_word(word);
	if (strcmp(word, wanted) != 0)
		die("it was told '%s', not '%s'", word, wanted);
}

static __attribute__((noreturn)) void
leave(void)
{
	pmx_node_close(node);
	say("ended");
	_exit(0);
}

/* --------------------------------------------------------- an application: memory and transfers */

struct hello {
	uint32_t pid; /* of whose memory it is */
	struct pmx_remote remote[PLACES];
};

static uint8_t *memory[PLACES], *local[PLACES];
static struct pmx_remote mine[PLACES], theirs[PLACES];

static void
attach(unsigned number)
{
	int r = pmx_node_attach(&node, instances[number], -1);

	if (r != 0)
		die("attaching to %s: %s", instances[number], pmx_strerror(r));
	say("ready");
}

/* The number may have been of a process that just died. */
static struct pmx_context *
open_context(uint16_t number)
{
	struct pmx_context_params params = {.context = number};
	struct pmx_context *c;
	double end = now_s() + OPEN_S;
	int r;

	while ((r = pmx_context_open(&c, node, &params)) == -EBUSY && now_s() < end)
		usleep(1000);
	if (r != 0)
		die("opening context %u: %s", number, pmx_strerror(r));
	return c;
}

/* As a thin client no engine reaches memory of malloc: it is adopted. */
static bool
thin(void)
{
	const char *as = getenv("PMX_ATTACH");

	return as != NULL && strcmp(as, "thin") == 0;
}

static unsigned
access_to(unsigned where)
{
	return PMX_REMOTE_READ | PMX_REMOTE_WRITE | (thin() && where == BY_KERNEL ? PMX_ADOPT : 0);
}

static void
get_pages(struct pmx_context *c, uint8_t **pages, uint64_t len)
{
	void *p;
	int r = pmx_alloc(c, len, &p);

	if (r != 0)
		die("pmx_alloc of %lu bytes: %s", len, pmx_strerror(r));
	pages[BY_ENGINE] = p;
	/* whole pages, where they are to be adopted */
	pages[BY_KERNEL] = thin() ? aligned_alloc(4096, (len + 4095) & ~4095ul) : malloc(len);
	if (pages[BY_KERNEL] == NULL)
		die("no memory");
}

static void
get_memory(uint64_t len)
{
	get_pages(ctx, memory, len);
	for (unsigned w = 0; w < PLACES; w++) {
		fill(memory[w], len, w, 0, 0);
		int r = pmx_register(ctx, memory[w], len, access_to(w), &mine[w]);

		if (r != 0)
			die("registering memory of %s: %s", where_name[w], pmx_strerror(r));
	}
}

/* How it ended, as pmx_transfer_done; -ETIME: it did not. */
static int
wait_for(struct pmx_context *c, pmx_transfer_id id)
{
	double end = now_s() + TRANSFER_S;
	int r;

	while ((r = pmx_transfer_done(c, id)) == 0) {
		if (now_s() > end)
			return -ETIME;
		sched_yield();
	}
	return r;
}

static int
issue(struct pmx_context *c, bool pull, const struct pmx_transfer *t, pmx_transfer_id *id)
{
	double end = now_s() + TRANSFER_S;
	int r;

	while ((r = pull ? pmx_pull(c, t, id) : pmx_push(c, t, id)) == -EAGAIN && now_s() < end) {
		pmx_transfers_pending(c);
		sched_yield();
	}
	return r;
}

static int
transfer(bool pull, const struct pmx_transfer *t)
{
	pmx_transfer_id id;
	int r = issue(ctx, pull, t, &id);

	return r != 0 ? r : wait_for(ctx, id);
}

/* -------------------------------------------------------- transfers of all sizes, one at a time */

static const uint64_t sizes[] = {1, 7, 8, 63, 64, 1000, 1408, 1409, 4096, 8904, 8905, 65536, 100001,
	1 << 20, 4 << 20};

#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

/* Where those of size k go: at any alignment, with something between them. */
static uint64_t
slice_at(unsigned k)
{
	uint64_t at = SMALL_AT;

	for (unsigned i = 0; i < k; i++)
		at += sizes[i] + 4000 + i;
	return at;
}

static void
push_and_pull(unsigned k, unsigned where, unsigned from, uint64_t salt)
{
	uint64_t len = sizes[k], at = slice_at(k);
	struct pmx_transfer t = {
		.peer = theirs[where].owner,
		.key = theirs[where].key,
		.remote = theirs[where].addr + at,
		.local = local[from] + k,
		.len = len,
		.flags = k % 2 ? PMX_ORDERED : 0,
	};

	fill(t.local, len, where, salt, at);
	int r = transfer(false, &t);

	if (r != 1)
		die("a push of %lu bytes from %s to %s: %d %s", len, where_name[from],
			where_name[where], r, pmx_strerror(r));
	t.local = local[!from] + k;
	memset(t.local, 0, len);
	r = transfer(true, &t);
	if (r != 1)
		die("a pull of %lu bytes to %s from %s: %d %s", len, where_name[!from],
			where_name[where], r, pmx_strerror(r));
	int64_t i = differs(t.local, len, where, salt, at);

	if (i >= 0)
		die("a pull of %lu bytes to %s from %s: byte %ld is wrong", len, where_name[!from],
			where_name[where], i);
}

static void
all_sizes(uint64_t salt)
{
	for (unsigned k = 0; k < SIZES; k++) {
		for (unsigned w = 0; w < PLACES; w++) {
			push_and_pull(k, w, BY_ENGINE, salt + LONG_SALT / 2);
			push_and_pull(k, w, BY_KERNEL, salt);
		}
	}
	say("done");
}

/* ------------------------------------------------------------------ the target */

static void
check_same(unsigned w, uint64_t from, uint64_t to, uint64_t salt, const char *what)
{
	int64_t i = differs(memory[w] + from, to - from, w, salt, from);

	if (i >= 0)
		die("memory of %s: byte %ld of %s changed: it is at %lu, of salt %lu, and %02x",
			where_name[w], i, what, from + (uint64_t)i, salt,
			memory[w][from + (uint64_t)i]);
}

/* All is as it was made, but for the slices, if `salt`, and what long pushes may have reached. */
static void
check_memory(unsigned w, uint64_t salt, unsigned long_first, unsigned long_last)
{
	uint64_t at = SMALL_AT;

	check_same(w, 0, WRITE_AT, 0, "the first guard");
	int64_t i = differs_from_all(memory[w] + WRITE_AT, LONG, w, LONG_SALT + long_first,
		LONG_SALT + long_last, WRITE_AT);

	if (i >= 0)
		die("memory of %s: byte %ld of what is pushed to has what nobody pushed",
			where_name[w], i);
	check_same(w, WRITE_AT + LONG, SMALL_AT, 0, "what is only read");
	for (unsigned k = 0; k < SIZES && salt; k++) {
		check_same(w, at, slice_at(k), 0, "the space between slices");
		at = slice_at(k) + sizes[k];
		check_same(w, slice_at(k), at, salt, "a slice");
	}
	check_same(w, at, MEMORY, 0, "the end");
}

static void
answer_hellos(void)
{
	struct hello h = {.pid = (uint32_t)getpid()};
	struct pmx_message m;
	int r;

	memcpy(h.remote, mine, sizeof(mine));
	while ((r = pmx_receive(ctx, &m)) == 1) {
		r = pmx_send_copy(ctx, m.source, &h, sizeof(h), NULL);
		if (r != 0 && r != -ENOBUFS && r != -EAGAIN) /* it asks again */
			die("answering: %s", pmx_strerror(r));
		pmx_release_receive_buffer(ctx, &m);
	}
	if (r < 0)
		die("pmx_receive: %s", pmx_strerror(r));
}

/* Sleep until there is a message, an event, or a word. */
static unsigned
sleep_till_told(void)
{
	struct pollfd p[2] = {{.fd = control, .events = POLLIN},
		{.fd = pmx_get_fd(ctx), .events = POLLIN}};

	if (pmx_before_select(ctx) != 0)
		return 0;
	poll(p, 2, -1);
	pmx_after_select(ctx);
	return p[1].revents != 0;
}

static volatile sig_atomic_t woken;

static void
on_signal(int number)
{
	(void)number;
	woken = 1;
}

/* Not one call of the library until a signal comes. */
static void
sleep_till_signal(void)
{
	sigset_t before, block;

	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	sigprocmask(SIG_BLOCK, &block, &before);
	signal(SIGUSR1, on_signal);
	say("asleep");
	while (!woken)
		sigsuspend(&before);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

static void
target(bool sleeps)
{
	char word[WORD_MAX];
	uint64_t salt;
	unsigned first, last;

	attach(1);
	expect_word("open");
	ctx = open_context(CONTEXT);
	get_memory(MEMORY);
	say("opened");
	for (;;) {
		answer_hellos();
		if (!word_waits()) {
			sleep_till_told();
			continue;
		}
		next_word(word);
		if (strcmp(word, "end") == 0)
			leave();
		if (strcmp(word, "sleep") == 0 && sleeps) {
			sleep_till_signal();
		} else if (sscanf(word, "check %lu %u %u", &salt, &first, &last) == 3) {
			check_memory(BY_ENGINE, salt, first, last);
			check_memory(BY_KERNEL, salt, first, last);
			say("checked");
		} else {
			die("it was told '%s'", word);
		}
	}
}

/* ------------------------------------------------------------------ the initiator */

static void
say_hello(uint32_t pid)
{
	const struct pmx_addr to = {1, CONTEXT};
	double end = now_s() + TRANSFER_S;
	struct pmx_message m;
	struct hello h;
	unsigned asked = 0;
	int r = 0;

	while (now_s() < end) {
		asked++;
		int sent = pmx_send_copy(ctx, to, "hello", 5, NULL);

		while ((r = pmx_receive_wait(ctx, &m, 500000)) == 1) {
			bool good = m.len == sizeof(h) &&
				pmx_message_read(ctx, &m, 0, &h, sizeof(h)) == 0 && h.pid == pid;

			pmx_release_receive_buffer(ctx, &m);
			if (good) {
				memcpy(theirs, h.remote, sizeof(theirs));
				say("done %u", asked);
				return;
			}
		}
		if (r < 0 || sent == -EPIPE)
			break;
	}
	die("no answer of process %u: %d %s", pid, r, pmx_strerror(r));
}

struct task {
	bool pull, busy;
	unsigned where; /* there */
	uint8_t *at;    /* here */
	volatile int32_t *status;
	pmx_transfer_id id;
	unsigned ended;
	int error;
};

static struct task tasks[2 * PLACES];
static volatile int32_t words[2 * PLACES];

#define TASKS (sizeof(tasks) / sizeof(tasks[0]))

static void
start_long(struct task *k)
{
	struct pmx_transfer t = {
		.peer = theirs[k->where].owner,
		.key = theirs[k->where].key,
		.remote = theirs[k->where].addr + (k->pull ? READ_AT : WRITE_AT),
		.local = k->at,
		.len = LONG,
		.status = k->status,
	};

	if (k->pull)
		memset(k->at, 0, LONG);
	int r = issue(ctx, k->pull, &t, &k->id);

	if (r != 0)
		die("a long %s: %s", k->pull ? "pull" : "push", pmx_strerror(r));
	k->busy = true;
	k->error = 0;
}

static void
look_at_long(struct task *k, bool again)
{
	int r = pmx_transfer_done(ctx, k->id);

	if (r == 0)
		return;
	k->busy = false;
	if (*k->status != (r == 1 ? 0 : r))
		die("a long %s, %s, ended with %d, and its status is %d", k->pull ? "pull" : "push",
			where_name[k->where], r, *k->status);
	if (r != 1) {
		k->error = r;
		return;
	}
	k->ended++;
	if (k->pull && differs(k->at, LONG, k->where, 0, READ_AT) >= 0)
		die("a long pull from %s ended well, and its bytes are wrong",
			where_name[k->where]);
	if (again)
		start_long(k);
}

/* Long pushes and pulls, all at once, again and again until told that the target is dead; then all
 * must end. */
static void
run_long(unsigned round)
{
	unsigned busy = 0, well = 0, bad = 0;
	char codes[64] = "";

	for (unsigned i = 0; i < TASKS; i++) {
		struct task *k = &tasks[i];

		*k = (struct task){.pull = i % 2, .where = i / 2};
		k->at = local[(k->where + round + k->pull) % 2] + (k->pull ? LONG : 0);
		k->status = (round + i) % 3 ? (volatile int32_t *)(local[BY_ENGINE] + 2 * LONG) + i
					    : &words[i];
		if (!k->pull)
			fill(k->at, LONG, k->where, LONG_SALT + round, WRITE_AT);
	}
	for (unsigned i = 0; i < TASKS; i++)
		start_long(&tasks[i]);
	say("running");
	while (!word_waits()) {
		for (unsigned i = 0; i < TASKS; i++) {
			if (tasks[i].busy)
				look_at_long(&tasks[i], true);
		}
		sched_yield();
	}
	expect_word("killed");
	double killed = now_s(), worst;

	do {
		busy = 0;
		for (unsigned i = 0; i < TASKS; i++) {
			if (tasks[i].busy)
				look_at_long(&tasks[i], false);
			busy += tasks[i].busy;
		}
		sched_yield();
		worst = now_s() - killed;
	} while (busy && worst < TRANSFER_S);
	for (unsigned i = 0; i < TASKS; i++) {
		const struct task *k = &tasks[i];

		if (k->busy)
			die("a long %s, %s, is still under way %d s after its target was killed; "
			    "%u of %u are",
				k->pull ? "pull" : "push", where_name[k->where], TRANSFER_S, busy,
				(unsigned)TASKS);
		well += k->ended;
		bad += k->error != 0;
		snprintf(codes + strlen(codes), sizeof(codes) - strlen(codes), " %d", k->error);
	}
	if (pmx_transfers_pending(ctx) != 0)
		die("all transfers ended, and %u are under way", pmx_transfers_pending(ctx));
	say("all-ended %u well %u errors after %.3f s:%s", well, bad, worst, codes);
}

#define MANY      48u
#define MANY_STEP 30000u

/* Several at once, as the first ones of this process: nothing that a dead one on its context number
 * was still owed may be taken for an answer to them. */
static void
many(unsigned round)
{
	pmx_transfer_id id[MANY];
	uint8_t *bytes = calloc(MANY, MANY_STEP);

	if (bytes == NULL)
		die("no memory");
	for (unsigned i = 0; i < MANY; i++) {
		unsigned w = i / 2 % PLACES;
		struct pmx_transfer t = {
			.peer = theirs[w].owner,
			.key = theirs[w].key,
			.remote = theirs[w].addr + (i % 2 ? READ_AT : WRITE_AT) + i * MANY_STEP,
			.local = bytes + i * MANY_STEP,
			.len = i % 3 ? 2000 : 25000,
		};

		if (i % 2 == 0)
			fill(t.local, t.len, w, LONG_SALT + round, WRITE_AT + i * MANY_STEP);
		int r = issue(ctx, i % 2, &t, &id[i]);

		if (r != 0)
			die("%s %u of many: %s", i % 2 ? "pull" : "push", i, pmx_strerror(r));
	}
	unsigned bad = 0, wrong = 0;
	char codes[WORD_MAX / 2] = "";

	for (unsigned i = 0; i < MANY; i++) {
		unsigned w = i / 2 % PLACES;
		int r = wait_for(ctx, id[i]);

		wrong += r == 1 && i % 2 &&
			differs(bytes + i * MANY_STEP, i % 3 ? 2000 : 25000, w, 0,
				READ_AT + i * MANY_STEP) >= 0;
		bad += r != 1;
		if (r != 1 && strlen(codes) < sizeof(codes) - 20)
			snprintf(codes + strlen(codes), sizeof(codes) - strlen(codes), " %s %u: %d",
				i % 2 ? "pull" : "push", i, r);
	}
	if (wrong)
		die("%u pulls of many ended well with wrong bytes", wrong);
	free(bytes);
	say("done %u%s", bad, codes);
}

/* The keys of a dead process, at its successor. */
static void
try_old_keys(void)
{
	for (unsigned i = 0; i < 8; i++) {
		bool pull = i & 1, is_long = i & 2;
		unsigned w = i >> 2;
		struct pmx_transfer t = {
			.peer = theirs[w].owner,
			.key = theirs[w].key,
			.remote = theirs[w].addr + (pull ? READ_AT : WRITE_AT),
			.local = local[w],
			.len = is_long ? 1 << 20 : 100,
		};
		int r = transfer(pull, &t);

		if (r != -ENOKEY)
			die("a %s of %lu bytes by an old key of %s ends with %d %s, not %d",
				pull ? "pull" : "push", t.len, where_name[w], r, pmx_strerror(r),
				-ENOKEY);
	}
	say("done");
}

static void
initiator(bool unused)
{
	char word[WORD_MAX];
	uint64_t number;

	(void)unused;
	attach(0);
	expect_word("open");
	ctx = open_context(CONTEXT);
	say("opened");
	for (;;) {
		next_word(word);
		if (strcmp(word, "end") == 0)
			leave();
		if (sscanf(word, "hello %lu", &number) == 1) {
			say_hello((uint32_t)number);
			continue;
		}
		if (sscanf(word, "many %lu", &number) == 1) {
			many((unsigned)number);
			continue;
		}
		if (local[0] == NULL) /* takes long */
			get_pages(ctx, local, 2 * LONG + 4096);
		if (strcmp(word, "old") == 0)
			try_old_keys();
		else if (sscanf(word, "sizes %lu", &number) == 1)
			all_sizes(number);
		else if (sscanf(word, "long %lu", &number) == 1)
			run_long((unsigned)number);
		else
			die("it was told '%s'", word);
	}
}

/* ------------------------------------------------------------------ notifications */

enum phase { PING = 1, UNORDERED, FLOOD, ORDERED_SHORT, ORDERED, PHASES };

#define SLOTS               512u /* more than events can wait and transfers be under way */
#define SLOT                (24ull << 10)
#define UNDER_WAY           64
#define IMMEDIATE(phase, i) ((uint64_t)(phase) << 32 | (i))

static uint64_t
slot_of(uint32_t i)
{
	return (i % SLOTS) / PLACES * SLOT;
}

static uint64_t
notified_len(unsigned phase, uint32_t i)
{
	if (phase == PING || phase == FLOOD)
		return 100;
	return i % 50 == 7 && phase != ORDERED_SHORT ? 20000 : mix(i) % 3000;
}

static uint8_t seen[1 << 20];
static uint32_t arrived[PHASES];

static void
take_event(const struct pmx_event *event)
{
	unsigned phase = (unsigned)(event->immediate >> 32), w;
	uint32_t i = (uint32_t)event->immediate;

	if (event->kind != PMX_EVENT_PUSHED || phase == 0 || phase >= PHASES || i >= sizeof(seen) ||
		event->len != notified_len(phase, i) || event->peer.node != 0)
		die("an event of kind %d, immediate %lx, %lu bytes", event->kind, event->immediate,
			event->len);
	w = i % PLACES;
	if (phase >= ORDERED_SHORT && i != arrived[phase])
		die("immediate %u came instead of %u", i, arrived[phase]);
	if (phase != FLOOD &&
		differs(memory[w] + slot_of(i), event->len, w, event->immediate, slot_of(i)) >= 0)
		die("push %u of phase %u is told, and its bytes are not there", i, phase);
	if (phase == PING) {
		int r = pmx_send_copy(ctx, event->peer, &event->immediate, 8, NULL);

		if (r != 0)
			die("answering a notification: %s", pmx_strerror(r));
	}
	if (seen[i] == phase)
		die("immediate %u of phase %u came twice", i, phase);
	seen[i] = (uint8_t)phase;
	arrived[phase]++;
}

static void
notify_target(bool unused)
{
	char word[WORD_MAX];
	unsigned phase, wanted, sleeps = 0, by_fd = 0;
	struct pmx_event event;
	int r;

	(void)unused;
	attach(1);
	expect_word("open");
	ctx = open_context(CONTEXT);
	get_memory(SLOTS / PLACES * SLOT);
	say("opened");
	for (;;) {
		answer_hellos();
		while ((r = pmx_event(ctx, &event)) == 1)
			take_event(&event);
		if (r < 0)
			die("pmx_event: %s", pmx_strerror(r));
		if (!word_waits()) {
			sleeps++;
			by_fd += sleep_till_told();
			continue;
		}
		next_word(word);
		if (strcmp(word, "end") == 0)
			leave();
		if (sscanf(word, "nap %u", &wanted) == 1) {
			say("napping");
			usleep(wanted * 1000);
		} else if (sscanf(word, "expect %u %u", &phase, &wanted) == 2 && phase < PHASES) {
			/* all were told to be here: no more may come, and none later */
			while ((r = pmx_event(ctx, &event)) == 1)
				take_event(&event);
			if (arrived[phase] != wanted)
				die("%u notifications came in phase %u, not %u", arrived[phase],
					phase, wanted);
			say("counted after %u sleeps, %u ended by the descriptor", sleeps, by_fd);
			sleeps = by_fd = 0;
		} else {
			die("it was told '%s'", word);
		}
	}
}

struct notify_task {
	bool busy;
	uint32_t number;
	pmx_transfer_id id;
};

static void
notify_one(unsigned phase, uint32_t i, uint8_t *at, pmx_transfer_id *id)
{
	unsigned w = i % PLACES;
	struct pmx_transfer t = {
		.peer = theirs[w].owner,
		.key = theirs[w].key,
		.remote = theirs[w].addr + slot_of(i),
		.local = at,
		.len = notified_len(phase, i),
		.immediate = IMMEDIATE(phase, i),
		.flags = PMX_NOTIFY | (phase >= ORDERED_SHORT ? PMX_ORDERED : 0),
	};

	fill(at, t.len, w, t.immediate, slot_of(i));
	int r = issue(ctx, false, &t, id);

	if (r != 0)
		die("push %u of phase %u: %s", i, phase, pmx_strerror(r));
}

/* One after the other, each answered by a message of who was woken by it. */
static void
ping(unsigned n)
{
	pmx_transfer_id id;
	struct pmx_message m;
	double worst = 0;

	for (uint32_t i = 0; i < n; i++) {
		usleep(5000); /* it sleeps again */
		double began = now_s();

		notify_one(PING, i, local[i % PLACES], &id);
		int r = pmx_receive_wait(ctx, &m, 5000000);

		if (r != 1)
			die("push %u did not wake its receiver in 5 s: %d %s, the push %d", i, r,
				pmx_strerror(r), pmx_transfer_done(ctx, id));
		worst = now_s() - began > worst ? now_s() - began : worst;
		pmx_release_receive_buffer(ctx, &m);
		if ((r = wait_for(ctx, id)) != 1)
			die("push %u: %d %s", i, r, pmx_strerror(r));
	}
	say("pushed %u 0 worst %.1f ms", n, worst * 1e3);
}

static void
stream(unsigned phase, unsigned n)
{
	static struct notify_task under_way[UNDER_WAY];
	unsigned lost = 0, busy = 0;
	double began = now_s();

	for (uint32_t i = 0; i < n || busy;) {
		busy = 0;
		for (unsigned k = 0; k < UNDER_WAY; k++) {
			struct notify_task *t = &under_way[k];

			if (t->busy) {
				int r = pmx_transfer_done(ctx, t->id);

				if (r < 0 && r != -ENOBUFS)
					die("push %u of phase %u, %lu bytes from %s to %s: %d %s",
						t->number, phase, notified_len(phase, t->number),
						where_name[t->number / PLACES % PLACES],
						where_name[t->number % PLACES], r, pmx_strerror(r));
				lost += r == -ENOBUFS;
				t->busy = r == 0;
			}
			if (!t->busy && i < n) {
				notify_one(phase, i, local[i / PLACES % PLACES] + k * SLOT, &t->id);
				t->busy = true;
				t->number = i++;
			}
			busy += t->busy;
		}
		if (now_s() - began > WORK_S / 2)
			die("phase %u: %u of %u were pushed in %d s, %u are under way", phase, i, n,
				WORK_S / 2, busy);
		sched_yield();
	}
	say("pushed %u %u in %.2f s", n, lost, now_s() - began);
}

/* More contexts than a sleeper has places for: 64 of each. */
static void
flood(unsigned n)
{
	struct pmx_context *more[16];
	pmx_transfer_id id[16 * UNDER_WAY];
	unsigned contexts = n / UNDER_WAY, lost = 0;

	for (unsigned c = 0; c < contexts; c++)
		more[c] = open_context((uint16_t)(CONTEXT + 1 + c));
	for (uint32_t i = 0; i < n; i++) {
		struct pmx_transfer t = {
			.peer = theirs[0].owner,
			.key = theirs[0].key,
			.remote = theirs[0].addr,
			.local = local[BY_KERNEL],
			.len = 100,
			.immediate = IMMEDIATE(FLOOD, i),
			.flags = PMX_NOTIFY,
		};
		int r = issue(more[i / UNDER_WAY], false, &t, &id[i]);

		if (r != 0)
			die("push %u of a flood: %s", i, pmx_strerror(r));
	}
	for (uint32_t i = 0; i < n; i++) {
		int r = wait_for(more[i / UNDER_WAY], id[i]);

		if (r != 1 && r != -ENOBUFS)
			die("push %u of a flood: %d %s", i, r, pmx_strerror(r));
		lost += r == -ENOBUFS;
	}
	for (unsigned c = 0; c < contexts; c++)
		pmx_context_close(more[c]);
	say("pushed %u %u", n, lost);
}

static void
notify_initiator(bool unused)
{
	char word[WORD_MAX];
	unsigned phase, n;

	(void)unused;
	attach(0);
	expect_word("open");
	ctx = open_context(CONTEXT);
	get_pages(ctx, local, UNDER_WAY * SLOT);
	say("opened");
	for (;;) {
		next_word(word);
		if (strcmp(word, "end") == 0)
			leave();
		if (sscanf(word, "hello %u", &n) == 1)
			say_hello(n);
		else if (sscanf(word, "push %u %u", &phase, &n) != 2)
			die("it was told '%s'", word);
		else if (phase == PING)
			ping(n);
		else if (phase == FLOOD)
			flood(n);
		else
			stream(phase, n);
	}
}

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

enum pairs { OTHER_NODE, SAME_LANE, OTHER_LANE, ANY, PAIRS };

static const char *const pairs_name[] = {"between_nodes", "within_a_node_same_lane",
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
					     access_to(w), &e->mine[w])
				   : pmx_register(e->ctx, e->memory[w], LANE_MEMORY, access_to(w),
					     &e->mine[w]);
		if (r != 0)
			die("registering memory of %s: %s", where_name[w], pmx_strerror(r));
	}
	for (unsigned k = 0; k < LANE_TASKS; k++) {
		for (unsigned to = 0; to < ENDS; to++) {
			for (unsigned w = 0; w < PLACES; w++) {
				e->mirror[k][to][w] = malloc(SLICE);
				if (e->mirror[k][to][w] == NULL)
					die("no memory");
				fill(e->mirror[k][to][w], SLICE, w, to, lane_slice(e, k));
			}
		}
	}
}

/* Every end tells every end; its own included. */
static void
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
				die("introducing: %s", pmx_strerror(r));
		}
	}
	while (known < LANE_CONTEXTS * ENDS && now_s() < end) {
		for (unsigned c = 0; c < LANE_CONTEXTS; c++) {
			struct pmx_message m;

			while (pmx_receive(lane_ends[c].ctx, &m) == 1) {
				unsigned from = m.source.node * LANE_CONTEXTS + m.source.context;

				if (from >= ENDS || m.len != sizeof(lane_ends[c].mine))
					die("a message of %u bytes", m.len);
				pmx_message_read(lane_ends[c].ctx, &m, 0, lane_ends[c].remote[from],
					m.len);
				pmx_release_receive_buffer(lane_ends[c].ctx, &m);
				known++;
			}
		}
		sched_yield();
	}
	if (known < LANE_CONTEXTS * ENDS)
		die("%u of %u introductions came", known, LANE_CONTEXTS * ENDS);
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
		die("%s: %s", name, pmx_strerror(r));
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
		die("%s: %d %s", name, r, pmx_strerror(r));
	if (!t->pull)
		memcpy(mirror, t->at, t->len);
	else if (memcmp(mirror, t->at, t->len) != 0)
		die("%s: other bytes", name);
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
				die("no transfer ended for %d s, %u of %u did; %s", TRANSFER_S,
					ended, n, name);
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
				die("slice %u of end %u at end %u in %s: %d, %s", k, e->number, to,
					where_name[w], r, r == 1 ? "other bytes" : pmx_strerror(r));
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
			die("it was told '%s'", word);
	}
}

static void
lanes_node_0(bool unused)
{
	(void)unused;
	lanes_application(0);
}

static void
lanes_node_1(bool unused)
{
	(void)unused;
	lanes_application(1);
}

/* ------------------------------------------------------------- who starts, tells and kills them */

struct app {
	pid_t pid;
	int socket;
	const char *what;
	char said[WORD_MAX];
};

static char why[2 * WORD_MAX];

static __attribute__((format(printf, 1, 2))) void
fail(const char *fmt, ...)
{
	va_list args;

	if (failed)
		return;
	failed = true;
	va_start(args, fmt);
	vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
}

static void
kill_app(struct app *a)
{
	if (a->pid > 0) {
		kill(a->pid, SIGKILL);
		waitpid(a->pid, NULL, 0);
		close(a->socket);
	}
	a->pid = 0;
}

static bool
hear(struct app *a, const char *wanted, double seconds)
{
	struct pollfd p = {.fd = a->socket, .events = POLLIN};

	if (failed)
		return false;
	if (poll(&p, 1, (int)(seconds * 1e3)) != 1) {
		fail("%s (process %d) does not say '%s' within %.0f s", a->what, a->pid, wanted,
			seconds);
		return false;
	}
	ssize_t n = recv(a->socket, a->said, WORD_MAX - 1, 0);

	if (n <= 0) {
		int status = 0;

		waitpid(a->pid, &status, 0);
		fail("%s (process %d) ended before it said '%s', status %x", a->what, a->pid,
			wanted, (unsigned)status);
		a->pid = 0;
		close(a->socket);
		return false;
	}
	a->said[n] = 0;
	if (strncmp(a->said, wanted, strlen(wanted)) == 0)
		return true;
	if (strncmp(a->said, "failed ", 7) == 0)
		fail("%s: %s", a->what, a->said + 7);
	else
		fail("%s says '%s', not '%s'", a->what, a->said, wanted);
	return false;
}

static __attribute__((format(printf, 2, 3))) void
tell(struct app *a, const char *fmt, ...)
{
	char word[WORD_MAX];
	va_list args;

	if (failed)
		return;
	va_start(args, fmt);
	vsnprintf(word, sizeof(word), fmt, args);
	va_end(args);
	if (send(a->socket, word, strlen(word), MSG_NOSIGNAL) < 0)
		fail("%s (process %d) is not there to be told '%s'", a->what, a->pid, word);
}

static struct app
start(const char *what, void (*role)(bool), bool argument)
{
	struct app a = {.what = what};
	int s[2];

	if (failed)
		return a;
	fflush(stdout);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, s) != 0 || (a.pid = fork()) < 0) {
		perror("remote");
		exit(2);
	}
	if (a.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(s[0]);
		control = s[1];
		role(argument);
		_exit(0);
	}
	close(s[1]);
	a.socket = s[0];
	hear(&a, "ready", 20);
	return a;
}

static void
open_app(struct app *a)
{
	tell(a, "open");
	hear(a, "opened", OPEN_S + WORK_S);
}

static void
end_app(struct app *a)
{
	int status = 0;

	tell(a, "end");
	if (hear(a, "ended", TRANSFER_S)) {
		waitpid(a->pid, &status, 0);
		if (status != 0)
			fail("%s: status %x", a->what, (unsigned)status);
		close(a->socket);
		a->pid = 0;
	}
}

/* What the initiator and the target do in turn. */

/* How often it asked. */
static unsigned
do_hello(struct app *i, const struct app *t)
{
	tell(i, "hello %d", t->pid);
	return hear(i, "done", TRANSFER_S + 5) ? (unsigned)atoi(i->said + 5) : 0;
}

static void
do_sizes(struct app *i, unsigned salt)
{
	tell(i, "sizes %u", salt);
	hear(i, "done", WORK_S);
}

static void
do_check(struct app *t, unsigned salt, unsigned long_first, unsigned long_last)
{
	tell(t, "check %u %u %u", salt, long_first, long_last);
	hear(t, "checked", WORK_S);
}

/* What the others had to say when one failed: the cause may be theirs. */
static void
print_last_words(void)
{
	char word[WORD_MAX];

	for (int fd = 3; fd < 64; fd++) {
		ssize_t n = recv(fd, word, sizeof(word) - 1, MSG_DONTWAIT);

		if (n > 0)
			printf("# another says: %.*s\n", (int)n, word);
	}
}

/* After what goes wrong first the rest is not done, and not told. */
static void
result(const char *name)
{
	if (!failed)
		printf("ok remote_%s\n", name);
	else if (!told) {
		printf("not ok remote_%s %s\n", name, why);
		usleep(200000);
		print_last_words();
	}
	told = failed;
	fflush(stdout);
}

static void
asleep(void)
{
	struct app t = start("the target", target, true),
		   i = start("the initiator", initiator, false);

	open_app(&t);
	open_app(&i);
	do_hello(&i, &t);
	tell(&t, "sleep");
	hear(&t, "asleep", TRANSFER_S);
	do_sizes(&i, 1);
	result("asleep__bytes_come_and_go");
	if (!failed)
		kill(t.pid, SIGUSR1);
	do_check(&t, 1, 1, 0);
	result("asleep__all_is_there_when_it_wakes");
	end_app(&i);
	end_app(&t);
	result("asleep__ends_well");
	kill_app(&i);
	kill_app(&t);
}

static void
notify(void)
{
	static const struct {
		enum phase phase;
		unsigned count;
		const char *name;
	} phases[] = {
		{PING, 100, "notify__wakes_a_sleeper"},
		{UNORDERED, 3000, "notify__none_lost_without_order"},
		{FLOOD, 640, "notify__lost_ones_are_told"},
		{ORDERED_SHORT, 10000, "notify__short_ones_in_order_and_none_lost"},
		{ORDERED, 10000, "notify__short_and_long_in_order_and_none_lost"},
	};
	struct app t = start("the receiver", notify_target, false),
		   i = start("the sender", notify_initiator, false);
	unsigned pushed, lost;

	open_app(&t);
	open_app(&i);
	do_hello(&i, &t);
	for (unsigned p = 0; p < sizeof(phases) / sizeof(phases[0]) && !failed; p++) {
		if (phases[p].phase == FLOOD) {
			tell(&t, "nap 2000");
			hear(&t, "napping", TRANSFER_S);
		}
		tell(&i, "push %u %u", phases[p].phase, phases[p].count);
		if (!hear(&i, "pushed ", WORK_S) ||
			sscanf(i.said, "pushed %u %u", &pushed, &lost) != 2)
			break;
		printf("# sender: %s\n", i.said);
		if ((phases[p].phase == FLOOD) != (lost != 0))
			fail("%u notifications of %u were lost", lost, pushed);
		usleep(300000); /* the last ones are taken */
		tell(&t, "expect %u %u", phases[p].phase, pushed - lost);
		if (hear(&t, "counted", TRANSFER_S))
			printf("# receiver: %s\n", t.said);
		result(phases[p].name);
	}
	end_app(&i);
	end_app(&t);
	result("notify__ends_well");
	kill_app(&i);
	kill_app(&t);
}

/* From the middle of the first frames to that of the second transfers. */
static void
wait_a_while(void)
{
	usleep((useconds_t)(draw() % (draw() % 3 ? 300000 : 5000)));
}

static void
target_killed(void)
{
	struct app i = start("the initiator", initiator, false),
		   t = start("the target", target, false),
		   next = start("the next target", target, false);
	double opened;

	open_app(&t);
	open_app(&i);
	do_hello(&i, &t);
	for (unsigned r = 1; r <= rounds && !failed; r++) {
		tell(&i, "long %u", r);
		hear(&i, "running", WORK_S);
		wait_a_while();
		kill_app(&t);
		tell(&i, "killed");
		open_app(&next);
		opened = now_s();
		if (hear(&i, "all-ended", TRANSFER_S + 5))
			printf("# round %u: %s\n", r, i.said);
		tell(&i, "old");
		hear(&i, "done", WORK_S);
		if (!failed && now_s() < opened + 1)
			usleep((useconds_t)((opened + 1 - now_s()) * 1e6));
		do_check(&next, 0, 1, 0);
		do_hello(&i, &next);
		do_sizes(&i, r);
		do_check(&next, r, 1, 0);
		t = next;
		next = start("the next target", target, false);
		if (failed)
			printf("# round %u of seed %lu\n", r, seed);
	}
	end_app(&i);
	end_app(&t);
	result("target_killed");
	kill_app(&i);
	kill_app(&t);
	kill_app(&next);
}

static void
initiator_killed(void)
{
	struct app t = start("the target", target, false),
		   i = start("the initiator", initiator, false),
		   next = start("the next initiator", initiator, false);
	unsigned resets = 0, asked = 0;

	open_app(&t);
	open_app(&i);
	do_hello(&i, &t);
	for (unsigned r = 1; r <= rounds && !failed; r++) {
		do_sizes(&i, r);
		do_check(&t, r, 1, r - 1);
		tell(&i, "long %u", r);
		hear(&i, "running", WORK_S);
		wait_a_while();
		kill_app(&i);
		double killed = now_s();

		open_app(&next);
		asked += do_hello(&next, &t);
		/* what the dead one is owed must not end what its successor asks for; counted, and
		 * tried again */
		for (unsigned tries = 0, bad = 1; bad && tries < 20 && !failed; tries++) {
			if (tries)
				usleep(250000);
			tell(&next, "many %u", r);
			if (hear(&next, "done ", WORK_S))
				bad = (unsigned)atoi(next.said + 5);
			if (bad && !failed)
				printf("# round %u: of %u transfers of the next one these failed: "
				       "%s\n",
					r, MANY, next.said + 5);
			if (bad && tries == 19)
				fail("the next one's transfers fail for 5 s: %s", next.said + 5);
			resets += bad;
		}
		if (!failed)
			printf("# round %u: the next one talks after %.3f s\n", r,
				now_s() - killed);
		do_check(&t, r, 1, r);
		i = next;
		next = start("the next initiator", initiator, false);
		if (failed)
			printf("# round %u of seed %lu\n", r, seed);
	}
	do_sizes(&i, rounds + 1);
	do_check(&t, rounds + 1, 1, rounds);
	end_app(&i);
	end_app(&t);
	result("initiator_killed");
	if (!failed && resets)
		fail("%u transfers of processes that lived ended with an error", resets);
	result("initiator_killed__the_next_is_not_taken_for_the_dead");
	if (!failed && asked > rounds + rounds / 2)
		fail("%u processes that followed a killed one asked %u times until they were "
		     "answered",
			rounds, asked);
	result("initiator_killed__the_next_is_answered_at_once");
	kill_app(&i);
	kill_app(&t);
	kill_app(&next);
}

/* Those of one kind, by applications of their own: what goes wrong with one kind does not keep
 * others from it. */
static void
lanes_pairs(enum pairs pairs)
{
	struct app a[2] = {start("node 0", lanes_node_0, false),
		start("node 1", lanes_node_1, false)};
	const char *const words_to[] = {"introduce", "run", "compare"};
	char name[64];

	open_app(&a[0]);
	open_app(&a[1]);
	for (unsigned k = 0; k < 3; k++) {
		for (unsigned n = 0; n < 2; n++)
			tell(&a[n], "%s %u %u", words_to[k], pairs, 500 * rounds);
		for (unsigned n = 0; n < 2; n++) {
			if (hear(&a[n], "done", WORK_S) && k == 1)
				printf("# node %u: %s\n", n, a[n].said);
		}
	}
	end_app(&a[0]);
	end_app(&a[1]);
	snprintf(name, sizeof(name), "lanes__%s", pairs_name[pairs]);
	result(name);
	kill_app(&a[0]);
	kill_app(&a[1]);
}

static void
lanes(void)
{
	bool any = false;

	for (unsigned p = 0; p < PAIRS; p++) {
		failed = told = false;
		lanes_pairs((enum pairs)p);
		any |= failed;
	}
	failed = any;
}

int
main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} cases[] = {{"asleep", asleep}, {"notify", notify}, {"target_killed", target_killed},
		{"initiator_killed", initiator_killed}, {"lanes", lanes}};

	if (argc < 4 || argc > 6) {
		fputs("Usage: remote asleep|notify|target_killed|initiator_killed|lanes INSTANCE-0 "
		      "INSTANCE-1 [SEED [ROUNDS]]\n",
			stderr);
		return 2;
	}
	instances[0] = argv[2];
	instances[1] = argv[3];
	if (argc > 4)
		seed = strtoull(argv[4], NULL, 0);
	if (argc > 5)
		rounds = (unsigned)strtoul(argv[5], NULL, 0);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(cases[i].name, argv[1]) != 0)
			continue;
		cases[i].run();
		return failed;
	}
	fprintf(stderr, "remote: no case '%s'\n", argv[1]);
	return 2;
}
