/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The target and the initiator of long transfers.
 * See remote.c.
 */
#include "remote.h"

/* ------------------------------------------------------------------ the target */

static void
check_same(unsigned w, uint64_t from, uint64_t to, uint64_t salt, const char *what)
{
	int64_t i = differs(memory[w] + from, to - from, w, salt, from);

	if (i >= 0)
		app_fails(
			"memory of %s: byte %ld of %s changed: it is at %lu, of salt %lu, and %02x",
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
		app_fails("memory of %s: byte %ld of what is pushed to has what nobody pushed",
			where_name[w], i);
	check_same(w, WRITE_AT + LONG, SMALL_AT, 0, "what is only read");
	for (unsigned k = 0; k < SIZES && salt; k++) {
		check_same(w, at, slice_at(k), 0, "the space between slices");
		at = slice_at(k) + sizes[k];
		check_same(w, slice_at(k), at, salt, "a slice");
	}
	check_same(w, at, MEMORY, 0, "the end");
}

void
answer_hellos(void)
{
	struct hello h = {.pid = (uint32_t)getpid()};
	struct pmx_message m;
	int r;

	memcpy(h.remote, mine, sizeof(mine));
	while ((r = pmx_receive(ctx, &m)) == 1) {
		r = pmx_send_copy(ctx, m.source, &h, sizeof(h), NULL);
		if (r != 0 && r != -ENOBUFS && r != -EAGAIN) /* it asks again */
			app_fails("answering: %s", pmx_strerror(r));
		pmx_release_receive_buffer(ctx, &m);
	}
	if (r < 0)
		app_fails("pmx_receive: %s", pmx_strerror(r));
}

/* Sleep until there is a message, an event, or a word. */
unsigned
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

void
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
			app_fails("it was told '%s'", word);
		}
	}
}

/* ------------------------------------------------------------------ the initiator */

/* An answer that comes late must not count as lost. */
#define ASK_US 5000000

void
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

		while ((r = pmx_receive_wait(ctx, &m, ASK_US)) == 1) {
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
	app_fails("no answer of process %u: %d %s", pid, r, pmx_strerror(r));
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
		app_fails("a long %s: %s", k->pull ? "pull" : "push", pmx_strerror(r));
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
		app_fails("a long %s, %s, ended with %d, and its status is %d",
			k->pull ? "pull" : "push", where_name[k->where], r, *k->status);
	if (r != 1) {
		k->error = r;
		return;
	}
	k->ended++;
	if (k->pull && differs(k->at, LONG, k->where, 0, READ_AT) >= 0)
		app_fails("a long pull from %s ended well, and its bytes are wrong",
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
			app_fails("a long %s, %s, is still under way %d s after its target was "
				  "killed; %u of %u are",
				k->pull ? "pull" : "push", where_name[k->where], TRANSFER_S, busy,
				(unsigned)TASKS);
		well += k->ended;
		bad += k->error != 0;
		snprintf(codes + strlen(codes), sizeof(codes) - strlen(codes), " %d", k->error);
	}
	if (pmx_transfers_pending(ctx) != 0)
		app_fails("all transfers ended, and %u are under way", pmx_transfers_pending(ctx));
	say("all-ended %u well %u errors after %.3f s:%s", well, bad, worst, codes);
}

/* Several at once, as the first ones of this process: nothing that a dead one on its context number
 * was still owed may be taken for an answer to them. */
void
many(unsigned round)
{
	pmx_transfer_id id[MANY];
	uint8_t *bytes = calloc(MANY, MANY_STEP);

	if (bytes == NULL)
		app_fails("no memory");
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
			app_fails("%s %u of many: %s", i % 2 ? "pull" : "push", i, pmx_strerror(r));
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
		app_fails("%u pulls of many ended well with wrong bytes", wrong);
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
			app_fails("a %s of %lu bytes by an old key of %s ends with %d %s, not %d",
				pull ? "pull" : "push", t.len, where_name[w], r, pmx_strerror(r),
				-ENOKEY);
	}
	say("done");
}

void
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
			app_fails("it was told '%s'", word);
	}
}
