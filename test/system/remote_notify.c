/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Notifications: in order, in floods, with transfers under way.
 * See remote.c.
 */
#include "remote.h"

/* ------------------------------------------------------------------ notifications */

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
	return i % 50 == 7 && phase != ORDERED_SHORT ? 20000 : mix64(i) % 3000;
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
		app_fails("an event of kind %d, immediate %lx, %lu bytes", event->kind,
			event->immediate, event->len);
	w = i % PLACES;
	if (phase >= ORDERED_SHORT && i != arrived[phase])
		app_fails("immediate %u came instead of %u", i, arrived[phase]);
	if (phase != FLOOD &&
		differs(memory[w] + slot_of(i), event->len, w, event->immediate, slot_of(i)) >= 0)
		app_fails("push %u of phase %u is told, and its bytes are not there", i, phase);
	if (phase == PING) {
		int r = pmx_send_copy(ctx, event->peer, &event->immediate, 8, NULL);

		if (r != 0)
			app_fails("answering a notification: %s", pmx_strerror(r));
	}
	if (seen[i] == phase)
		app_fails("immediate %u of phase %u came twice", i, phase);
	seen[i] = (uint8_t)phase;
	arrived[phase]++;
}

void
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
		while ((r = pmx_poll_event(ctx, &event)) == 1)
			take_event(&event);
		if (r < 0)
			app_fails("pmx_poll_event: %s", pmx_strerror(r));
		if (!word_waits()) {
			sleeps++;
			by_fd += sleep_till_told();
			continue;
		}
		next_word(word);
		if (strcmp(word, "end") == 0)
			leave();
		if (strcmp(word, "nap") == 0) {
			say("napping");
			expect_word("wake");
		} else if (sscanf(word, "expect %u %u", &phase, &wanted) == 2 && phase < PHASES) {
			/* all were told to be here: no more may come, and none later */
			while ((r = pmx_poll_event(ctx, &event)) == 1)
				take_event(&event);
			if (arrived[phase] != wanted)
				app_fails("%u notifications came in phase %u, not %u",
					arrived[phase], phase, wanted);
			say("counted after %u sleeps, %u ended by the descriptor", sleeps, by_fd);
			sleeps = by_fd = 0;
		} else {
			app_fails("it was told '%s'", word);
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
		app_fails("push %u of phase %u: %s", i, phase, pmx_strerror(r));
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
		int r = pmx_receive_wait(ctx, &m, TRANSFER_S * 1000000);

		if (r != 1)
			app_fails("push %u did not wake its receiver in %d s: %d %s, the push %d",
				i, TRANSFER_S, r, pmx_strerror(r), pmx_transfer_done(ctx, id));
		worst = now_s() - began > worst ? now_s() - began : worst;
		pmx_release_receive_buffer(ctx, &m);
		if ((r = wait_for(ctx, id)) != 1)
			app_fails("push %u: %d %s", i, r, pmx_strerror(r));
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
					app_fails("push %u of phase %u, %lu bytes from %s to %s: "
						  "%d %s",
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
			app_fails("phase %u: %u of %u were pushed in %d s, %u are under way", phase,
				i, n, WORK_S / 2, busy);
		sched_yield();
	}
	say("pushed %u %u in %.2f s", n, lost, now_s() - began);
}

#define STANDS_S 1 /* nothing more has ended for so long */

/* Until all have ended, or no more do since the receiver naps; how they ended, 0: not yet. */
static void
some_end(struct pmx_context **more, const pmx_transfer_id *id, int *ended, unsigned n)
{
	double last = now_s();
	unsigned left = n;

	while (left != 0 && now_s() - last < STANDS_S) {
		left = 0;
		for (uint32_t i = 0; i < n; i++) {
			if (ended[i] == 0 &&
				(ended[i] = pmx_transfer_done(more[i / UNDER_WAY], id[i])) != 0)
				last = now_s();
			left += ended[i] == 0;
		}
		sched_yield();
	}
}

/* More contexts than a sleeper has places for: 64 of each. */
static void
flood(unsigned n)
{
	static int ended[16 * UNDER_WAY];
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
			app_fails("push %u of a flood: %s", i, pmx_strerror(r));
	}
	some_end(more, id, ended, n);
	say("flooded");
	for (uint32_t i = 0; i < n; i++) {
		int r = ended[i] != 0 ? ended[i] : wait_for(more[i / UNDER_WAY], id[i]);

		if (r != 1 && r != -ENOBUFS)
			app_fails("push %u of a flood: %d %s", i, r, pmx_strerror(r));
		lost += r == -ENOBUFS;
	}
	for (unsigned c = 0; c < contexts; c++)
		pmx_context_close(more[c]);
	say("pushed %u %u", n, lost);
}

void
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
			app_fails("it was told '%s'", word);
		else if (phase == PING)
			ping(n);
		else if (phase == FLOOD)
			flood(n);
		else
			stream(phase, n);
	}
}
