/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that two contexts of a host share: a ring of messages in each direction, so that what one
 * sends to the other passes no engine. One of them makes the memory and seals it; each trusts only
 * its private struct pair_end.
 *
 * Design notes
 * 1. A record is a word and a message, in as many whole cache lines as that takes, and lies in one
 *    piece: where the ring's end is too near, an empty record goes before it. So a short message is
 *    one cache line, and a longer one is written and read without a copy in between.
 * 2. The word is 0 where no record is. The writer clears the word behind a record before it
 *    publishes the record, so whatever an earlier lap left there is never taken for one.
 * 3. The reader loads the word once and checks it. The writer can change bytes that the reader has
 *    not taken yet; a reader copies what it decides by.
 * 4. Sleeping is as in channel.h, note 5.
 */
#ifndef PMX_PAIR_H
#define PMX_PAIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "channel/step.h"

#define PAIR_MAGIC      0x50414952u
#define PAIR_RING_BYTES 131072u /* a power of two */
#define PAIR_LINE       64u
#define PAIR_HEAD       8u /* the word before the message */
/* Longest message: a quarter of the ring, so that several are under way. */
#define PAIR_MESSAGE    (PAIR_RING_BYTES / 4 - PAIR_HEAD)

#define PAIR_OFFERS 64 /* of each side under way */

/* The part of the shared memory that one side writes. */
struct pair_side {
	_Alignas(PAIR_LINE) _Atomic uint32_t sleeps;  /* wake me after a message; cleared by who
						       * does */
	_Atomic uint32_t closed;                      /* I read nothing more */
	_Atomic uint32_t met;                         /* the other side may send */
	_Alignas(PAIR_LINE) _Atomic uint32_t fetched; /* changes with each of these */
	_Atomic uint32_t results[PAIR_OFFERS];        /* of the other side's offers that I fetched:
						       * errno + 1; cleared by it */
	_Atomic uint64_t offers[PAIR_OFFERS];         /* addresses of the bytes that I offer */
	_Alignas(PAIR_LINE) _Atomic uint32_t taken;   /* bytes of the ring to me that I have read */
	_Alignas(PAIR_LINE) _Atomic uint32_t engines; /* what I sent by engines to the other side
						       * has come there or never will */
};

struct pair_shm {
	struct pair_side side[2]; /* 0: who made the memory */
	/* from side 0 to side 1, and back */
	_Alignas(PAIR_LINE) uint8_t ring[2][PAIR_RING_BYTES];
};

/* The first message of each side over the pair's socket, with descriptors: its process (pidfd), and
 * from side 0 the memory. Later ones, of any content, wake the other side. */
struct pair_hello {
	uint32_t magic, abi;
	uint64_t id; /* of the pair, a random number, from side 0: in messages WIRE_ASIDE */
	/* a word of this process at `at`, by which the other sees that it may read its memory, and
	 * that its number, which the primary told, means this process to it */
	uint64_t at, word;
};

/* The view of one ring from one end. */
struct pair_end {
	uint8_t *ring;
	_Atomic uint32_t *taken; /* the reader's position, in shared memory */
	uint32_t pos;            /* bytes written, or read; modulo 2^32 */
	uint32_t other; /* writer: the last position of the reader that it saw; reader: the last
			 * that it published */
};

/* In the word: the record's bytes, below those its message's; PAIR_EMPTY: it has none. */
#define PAIR_WORD(bytes, len) ((uint64_t)(bytes) << 32 | (len))
#define PAIR_EMPTY            UINT32_MAX

static inline _Atomic uint64_t *
pair_word(const struct pair_end *e, uint32_t pos)
{
	return (_Atomic uint64_t *)(void *)(e->ring + (pos & (PAIR_RING_BYTES - 1)));
}

static inline uint32_t
pair_record(uint32_t len)
{
	return (PAIR_HEAD + len + PAIR_LINE - 1) & ~(PAIR_LINE - 1);
}

/* Writer: whether n bytes and the line behind them are free. */
static inline bool
pair_room(struct pair_end *e, uint32_t n)
{
	if (__builtin_expect(e->pos + n + PAIR_LINE - e->other <= PAIR_RING_BYTES, 1))
		return true;
	/* acquire: the reader's reads come before these bytes are written again */
	uint32_t seen = atomic_load_explicit(e->taken, memory_order_acquire);

	if (e->pos - seen > PAIR_RING_BYTES)
		return false; /* impossible: the reader's error, and its ring stays full */
	e->other = seen;
	return e->pos + n + PAIR_LINE - seen <= PAIR_RING_BYTES;
}

/* Writer: where a message of len bytes, at most PAIR_MESSAGE, is to be written; NULL: no room. It
 * is sent by pair_publish() with the same len. */
static inline uint8_t *
pair_begin(struct pair_end *e, uint32_t len)
{
	uint32_t n = pair_record(len), left = PAIR_RING_BYTES - (e->pos & (PAIR_RING_BYTES - 1));

	if (__builtin_expect(n <= left, 1))
		return pair_room(e, n) ? (uint8_t *)pair_word(e, e->pos) + PAIR_HEAD : NULL;
	return pair_room(e, left + n) ? e->ring + PAIR_HEAD : NULL;
}

static inline void
pair_publish(struct pair_end *e, uint32_t len)
{
	uint32_t n = pair_record(len), left = PAIR_RING_BYTES - (e->pos & (PAIR_RING_BYTES - 1)),
		 skip = n <= left ? 0 : left;
	uint32_t at = e->pos + skip;

	atomic_store_explicit(pair_word(e, at + n), 0, memory_order_relaxed);
	STEP();
	/* release: the message is visible before its word; pairs with pair_peek's acquire */
	atomic_store_explicit(pair_word(e, at), PAIR_WORD(n, len), memory_order_release);
	STEP();
	if (skip != 0)
		atomic_store_explicit(pair_word(e, e->pos), PAIR_WORD(skip, PAIR_EMPTY),
			memory_order_release);
	STEP();
	e->pos = at + n;
}

/* The results of pair_peek(). */
enum pair_found {
	PAIR_NOTHING,
	PAIR_FOUND,
	PAIR_BROKEN, /* no record that a writer makes */
};

/* Reader: the next message. It is taken by pair_take() with the same *word. */
static inline enum pair_found
pair_peek(struct pair_end *e, uint64_t *word, const uint8_t **message, uint32_t *len)
{
	for (;;) {
		uint64_t w = atomic_load_explicit(pair_word(e, e->pos), memory_order_acquire);
		uint32_t n = (uint32_t)(w >> 32), l = (uint32_t)w;

		if (w == 0)
			return PAIR_NOTHING;
		uint32_t left = PAIR_RING_BYTES - (e->pos & (PAIR_RING_BYTES - 1));

		if (__builtin_expect(
			    n == 0 || n % PAIR_LINE != 0 || n > left || n > PAIR_RING_BYTES / 4, 0))
			return PAIR_BROKEN;
		if (__builtin_expect(l != PAIR_EMPTY, 1)) {
			*word = w;
			*len = l;
			*message = (const uint8_t *)pair_word(e, e->pos) + PAIR_HEAD;
			return l <= n - PAIR_HEAD ? PAIR_FOUND : PAIR_BROKEN;
		}
		/* only before the ring's end, so never twice in a row */
		if (n != left)
			return PAIR_BROKEN;
		e->pos += n;
	}
}

/* Reader: the message is not needed any more. Tells the writer of it now and then. */
static inline void
pair_take(struct pair_end *e, uint64_t word)
{
	e->pos += (uint32_t)(word >> 32);
	if (e->pos - e->other < PAIR_RING_BYTES / 8)
		return;
	e->other = e->pos;
	STEP();
	/* release: this thread's reads of the messages come before the writer's next ones */
	atomic_store_explicit(e->taken, e->pos, memory_order_release);
	STEP();
}

#endif
