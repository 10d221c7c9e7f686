/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What lib/match costs, without an engine: N unexpected messages wait, and the youngest is searched
 * for: with its exact key, from any source, with any tag, with one bit of the tag ignored. Beside
 * it the paper's two queues (IPSJ 2007, figure 6): envelopes in LHS entries walked in order, and
 * envelopes in the bulk buffers. ns, the best of repetitions; "cold": after 8 MiB of other memory
 * were touched. Usage: match [512 | 256 | 0], the width of vectors.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "core/lhs/lhs.h"
#include "match/match.h"

#define DEPTH_MAX  100000
#define SOURCES    64
#define BULK_BYTES 2304 /* an mbuf of MTU 1500, as far apart as they are */
#define COLD_BYTES (8u << 20)
#define TURNS      9
#define BURST      64 /* messages that a drain finds in the ring */

static const uint32_t depths[] = {1, 10, 100, 1000, 4096, 10000, 32768, DEPTH_MAX};

struct envelope {
	struct match_key key;
	struct envelope *next; /* in bulk buffers only */
};

static uint8_t *entries, *bulk, *other;
static struct envelope *first;
static struct match_unexpected queue;
static volatile uint64_t sink;

static double
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *
memory(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

	if (p == MAP_FAILED)
		exit(1);
	madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

static struct match_key
key_of(uint32_t i)
{
	return (struct match_key){1, i % SOURCES, i};
}

static struct envelope *
entry(uint32_t i)
{
	return (struct envelope *)(entries + (size_t)i * 64 + LHS_ENVELOPE_BYTES);
}

/* Bulk buffers come back in any order: neighbours in time are none in memory. */
static struct envelope *
bulk_at(uint32_t i)
{
	return (struct envelope *)(bulk + (size_t)((uint64_t)i * 61803 % DEPTH_MAX) * BULK_BYTES);
}

static void
fill(uint32_t n)
{
	struct envelope **last = &first;

	for (uint32_t i = 0; i < n; i++) {
		entry(i)->key = key_of(i);
		*last = bulk_at(i);
		(*last)->key = key_of(i);
		last = &(*last)->next;
	}
	*last = NULL;
}

/* From the ring into the index, as a receiver drains it. */
static void
drain(uint32_t n)
{
	struct match_key keys[BURST];
	uint32_t where[BURST];

	for (uint32_t i = 0; i < n;) {
		uint32_t k = 0;

		for (; k < BURST && i < n; k++, i++) {
			keys[k] = entry(i)->key;
			where[k] = i;
		}
		match_unexpected_add(&queue, keys, where, k);
	}
}

static void
take_all(uint32_t n)
{
	for (uint32_t i = n; i-- > 0;) {
		const struct match_key k = key_of(i);
		uint32_t place = match_unexpected_find(&queue,
			&(struct match_want){k.comm, k.source, k.tag, 0});

		sink += match_unexpected_take(&queue, place);
	}
}

/* ------------------------------------------------------------------ the searches */

enum column { EXACT, ANY_SOURCE, ANY_TAG, ONE_BIT, WALK, IN_BULK, COLUMNS };

static void
search(enum column c, uint32_t n)
{
	const struct match_key k = key_of(n - 1);
	const struct match_want wants[] = {
		[EXACT] = {1, k.source, k.tag, 0},
		[ANY_SOURCE] = {1, MATCH_ANY_SOURCE, k.tag, 0},
		/* of a source that sent one message, the last */
		[ANY_TAG] = {1, SOURCES, 0, MATCH_ANY_TAG},
		[ONE_BIT] = {1, MATCH_ANY_SOURCE, k.tag | 1ull << 40, 1ull << 40},
	};
	struct match_want any = wants[ANY_SOURCE];

	if (c <= ONE_BIT) {
		sink += match_unexpected_find(&queue, &wants[c]);
	} else if (c == WALK) {
		uint32_t i = 0;

		while (i < n && !match_accepts(&any, &entry(i)->key))
			i++;
		sink += i;
	} else {
		struct envelope *e = first;

		while (e != NULL && !match_accepts(&any, &e->key))
			e = e->next;
		sink += (uintptr_t)e;
	}
}

static double
timed(enum column c, uint32_t n, uint32_t times, bool cold)
{
	double best = 1e18;

	for (int turn = 0; turn < TURNS; turn++) {
		if (cold) {
			for (uint32_t i = 0; i < COLD_BYTES; i += 64)
				other[i]++;
		}
		double begin = now_ns();

		for (uint32_t i = 0; i < times; i++) {
			search(c, n);
			__asm__ volatile("" ::: "memory");
		}
		double ns = (now_ns() - begin) / times;

		best = ns < best ? ns : best;
	}
	return best;
}

static void
row(uint32_t n)
{
	double in = 1e18, out = 1e18, value[COLUMNS], cold[COLUMNS];
	uint32_t rounds = n < 10000 ? 20000 / n : 2;

	fill(n);
	for (int turn = 0; turn < TURNS; turn++) {
		double begin, a = 0, b = 0;

		for (uint32_t r = 0; r < rounds; r++) {
			begin = now_ns();
			drain(n);
			a += now_ns() - begin;
			begin = now_ns();
			take_all(n);
			b += now_ns() - begin;
		}
		in = a / rounds / n < in ? a / rounds / n : in;
		out = b / rounds / n < out ? b / rounds / n : out;
	}
	drain(n);
	const struct match_key last = {1, SOURCES, 5};
	uint32_t where = n;

	match_unexpected_add(&queue, &last, &where, 1);
	for (int c = 0; c < COLUMNS; c++) {
		uint32_t times = c == IN_BULK || c == WALK ? 1 + 20000 / n
							   : 1 + 2000000 / (n + 1000);

		value[c] = timed((enum column)c, n, times, false);
		cold[c] = timed((enum column)c, n, 1, true) - 27; /* the clock's own */
	}
	printf("%7u %7.1f %7.1f %8.1f %8.1f %8.1f %9.1f %10.0f %12.0f %9.0f %9.0f %9.0f %7.1f\n", n,
		in, out, value[EXACT], value[ANY_SOURCE], value[ANY_TAG], value[ONE_BIT],
		value[WALK], value[IN_BULK], cold[EXACT], cold[ANY_SOURCE], cold[ONE_BIT],
		value[IN_BULK] / value[ANY_SOURCE]);
	match_unexpected_take(&queue,
		match_unexpected_find(&queue, &(struct match_want){1, SOURCES, 5, 0}));
	take_all(n);
}

int
main(int argc, char **argv)
{
	unsigned bits = argc > 1 ? (unsigned)atoi(argv[1]) : 512;

	entries = memory((size_t)DEPTH_MAX * 64);
	bulk = memory((size_t)DEPTH_MAX * BULK_BYTES);
	other = memory(COLD_BYTES);
	if (match_unexpected_init(&queue, 2 * DEPTH_MAX, bits) != 0)
		return 1;
	printf("ns; in, out: a message; others: a search of that depth; bulk/any: envelopes in "
	       "bulk buffers against any source\n"
	       "%7s %7s %7s %8s %8s %8s %9s %10s %12s %9s %9s %9s %7s\n",
		"depth", "in", "out", "exact", "any src", "any tag", "one bit", "LHS walk",
		"bulk list", "cold ex.", "cold any", "cold bit", "bulk/any");
	for (size_t i = 0; i < sizeof(depths) / sizeof(depths[0]); i++)
		row(depths[i]);
	match_unexpected_free(&queue);
	return 0;
}
