/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Litmus tests of the rings that two processes share, with both ends in one: each slot and entry
 * must be whole and in order, no position may allow what was not given back, and who sleeps must be
 * woken. litmus.sh runs them, also with ThreadSanitizer.
 *
 *   litmus OPERATIONS [slots|entries|sleep]
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "channel/slot_ring.h"
#include "clock.h"
#include "core/lhs/lhs.h"

#define SLOTS   64
#define ENTRIES 64

static uint64_t operations, wrong;

static void
waiting(unsigned *turns)
{
	if (++*turns % 64 == 0)
		sched_yield();
}

/* ---------------------------------------------------------- slots: sub- and completions, events */

static struct slot slots[SLOTS];
static _Atomic uint32_t taken;

/* Every word of a slot tells of its number. */
static void
fill_slot(struct slot *s, uint64_t n)
{
	uint32_t words[15];

	for (unsigned i = 0; i < 15; i++)
		words[i] = (uint32_t)(n * 2654435761u + i);
	memcpy(s->body, words, sizeof(words));
}

static void *
produce_slots(void *arg)
{
	struct slot_end end;
	unsigned turns = 0;

	(void)arg;
	slot_end_init(&end, slots, SLOTS, &taken);
	for (uint64_t n = 0; n < operations;) {
		/* now and then a group, whose first is published last, as a long message is */
		uint32_t group = n % 97 == 0 && n + 3 <= operations ? 3 : 1;

		if (!slot_room(&end, group)) {
			waiting(&turns);
			continue;
		}
		for (uint32_t i = group; i-- > 0;) {
			fill_slot(slot_at(&end, end.pos + i), n + i);
			slot_publish(&end, end.pos + i);
		}
		end.pos += group;
		n += group;
	}
	return NULL;
}

static void
consume_slots(void)
{
	struct slot_end end;
	unsigned turns = 0;

	slot_end_init(&end, slots, SLOTS, &taken);
	for (uint64_t n = 0; n < operations;) {
		uint32_t group = n % 97 == 0 && n + 3 <= operations ? 3 : 1;

		if (!slot_filled(&end, end.pos)) {
			waiting(&turns);
			continue;
		}
		for (uint32_t i = 0; i < group; i++, n++) {
			struct slot want;
			uint8_t got[sizeof(want.body)];

			/* the rest of a group is there with its first */
			wrong += !slot_filled(&end, end.pos + i);
			memcpy(got, slot_at(&end, end.pos + i)->body, sizeof(got));
			fill_slot(&want, n);
			wrong += memcmp(got, want.body, sizeof(got)) != 0;
		}
		slot_take(&end, group, false);
	}
}

/* ------------------------------------------------------------------ entries: the LHS ring */

static _Alignas(64) uint8_t entries[ENTRIES * 64];
static _Atomic uint32_t read_pos;
static const struct lhs_config lhs_config = {ENTRIES, 64, LHS_SPLIT, LHS_SIZE_OFFSET};

static void
fill_front(uint8_t *front, uint64_t n)
{
	for (unsigned i = 0; i < LHS_SPLIT; i++)
		front[i] = (uint8_t)(n * 31 + i);
}

static void *
write_entries(void *arg)
{
	struct lhs_end end;
	uint8_t front[LHS_SPLIT];
	uint32_t given = 0;
	unsigned turns = 0;

	(void)arg;
	lhs_end_init(&end, &lhs_config, entries);
	for (uint64_t n = 0; n < operations;) {
		if (end.pos - given == ENTRIES) {
			/* acquire: the reader's last reads of an entry before it is written again;
			 * as engine_room does */
			given = atomic_load_explicit(&read_pos, memory_order_acquire);
			waiting(&turns);
			continue;
		}
		fill_front(front, n);
		lhs_write(&end, (uint16_t)n, (uint16_t)(n >> 16), (uint32_t)n, (uint32_t)(n * 7),
			(int64_t)n, front, LHS_SPLIT);
		n++;
	}
	return NULL;
}

static void
read_entries(void)
{
	struct lhs_end end;
	uint8_t front[LHS_SPLIT];
	unsigned turns = 0;

	lhs_end_init(&end, &lhs_config, entries);
	for (uint64_t n = 0; n < operations;) {
		const struct lhs_entry *e = lhs_peek(&end);

		if (e == NULL) {
			waiting(&turns);
			continue;
		}
		fill_front(front, n);
		wrong += lhs_len(&end, e) != (uint32_t)n || e->src_node != (uint16_t)n ||
			e->src_ctx != (uint16_t)(n >> 16) || e->bulk != (uint32_t)(n * 7) ||
			e->bulk_off != (int64_t)n || memcmp(e->front, front, LHS_SPLIT) != 0;
		end.pos++;
		n++;
		if (end.pos % 8 == 0)
			/* release: as publish_position does */
			atomic_store_explicit(&read_pos, end.pos, memory_order_release);
	}
}

/* -------------------------------------------------------------- sleep: flag and slot, both ways */

/* The sleeper sets its flag, fences, looks again; the waker fills, fences, looks at the flag. If
 * both could miss the other, a turn would never end: here each waits for the other's answer, and
 * "sleeps" by waiting for the wake-up alone. */
static _Atomic uint32_t flag[2], word[2], bell[2];

static bool
go_on(unsigned self, uint32_t n)
{
	unsigned other = !self;
	uint64_t turns = 0;

	/* tell the other */
	atomic_store_explicit(&word[other], n, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&flag[other], memory_order_relaxed)) {
		atomic_store_explicit(&flag[other], 0, memory_order_relaxed);
		atomic_fetch_add_explicit(&bell[other], 1, memory_order_release);
	}
	/* wait for its answer: asleep whenever it is not there yet */
	for (;;) {
		uint32_t before = atomic_load_explicit(&bell[self], memory_order_acquire);

		atomic_store_explicit(&flag[self], 1, memory_order_relaxed);
		atomic_thread_fence(memory_order_seq_cst);
		if (atomic_load_explicit(&word[self], memory_order_acquire) >= n) {
			atomic_store_explicit(&flag[self], 0, memory_order_relaxed);
			return true;
		}
		while (atomic_load_explicit(&bell[self], memory_order_acquire) == before) {
			if (++turns % 64 == 0)
				sched_yield();
			if (turns > 4000000000u)
				return false; /* nobody wakes it */
		}
	}
}

static void *
answer(void *arg)
{
	(void)arg;
	for (uint64_t n = 1; n <= operations; n++) {
		if (!go_on(1, (uint32_t)n))
			break;
	}
	return NULL;
}

static void
ask(void)
{
	for (uint64_t n = 1; n <= operations && wrong == 0; n++)
		wrong += !go_on(0, (uint32_t)n);
}

/* ------------------------------------------------------------------ */

static int
run(const char *name, void *(*one)(void *), void (*other)(void))
{
	double begin = now_s();
	pthread_t thread;

	wrong = 0;
	if (pthread_create(&thread, NULL, one, NULL) != 0)
		return 1;
	other();
	if (wrong != 0 && strcmp(name, "sleep") == 0) {
		printf("not ok litmus_%s a wake-up was lost\n", name);
		exit(1); /* the other waits for ever */
	}
	pthread_join(thread, NULL);
	if (wrong == 0)
		printf("ok litmus_%s # %lu operations, %.1f s\n", name, operations,
			now_s() - begin);
	else
		printf("not ok litmus_%s %lu of %lu operations are wrong\n", name, wrong,
			operations);
	return wrong != 0;
}

int
main(int argc, char **argv)
{
	const char *only = argc > 2 ? argv[2] : "";
	int failed = 0;

	operations = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000000;
	if (*only == 0 || strcmp(only, "slots") == 0)
		failed |= run("slots", produce_slots, consume_slots);
	if (*only == 0 || strcmp(only, "entries") == 0)
		failed |= run("entries", write_entries, read_entries);
	if (*only == 0 || strcmp(only, "sleep") == 0)
		failed |= run("sleep", answer, ask);
	return failed;
}
