/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory that two contexts of a host share: in each direction a ring of plain messages and one of
 * matched messages, so that what one sends to the other passes no engine. One of them makes the
 * memory and seals it; each trusts only its private struct pair_end.
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
 * 5. There are two rings, since a message that the application does not receive yet would keep
 *    those of the other kind waiting.
 * 6. A long message lies beside the rings, in one piece, and may be held there by its reader, while
 *    later ones are given back. Its writer puts it as near to the beginning as it can, so
 *    only as many pages are used, and in caches, as are under way at once.
 */
#ifndef PMX_PAIR_H
#define PMX_PAIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "channel/step.h"

/* changes with each change of this file */
#define PAIR_MAGIC      0x50414953u
#define PAIR_RING_BYTES 131072u /* a power of two */
#define PAIR_LINE       64u
#define PAIR_HEAD       8u /* the word before the message */
/* Longest message: a quarter of the ring, so that several are under way. */
#define PAIR_MESSAGE    (PAIR_RING_BYTES / 4 - PAIR_HEAD)

#define PAIR_OFFERS     64         /* of each side under way */
#define PAIR_LONGS      64         /* long messages under way, each way */
#define PAIR_LONG_BYTES (8u << 20) /* ... and their bytes */
/* The writer looks for what was given back after each so many that are not longer together than
 * PAIR_NEAR, since a look takes a cache line from the reader. */
#define PAIR_LONGS_NEAR 8
#define PAIR_NEAR       65536u

/* The kinds of messages, each with a ring of its own each way. */
enum pair_kind {
	PAIR_MATCHED,
	PAIR_PLAIN,
	PAIR_KINDS,
};

/* Each side tells this of the messages of one kind. */
struct pair_say {
	_Alignas(PAIR_LINE) _Atomic uint32_t taken;   /* bytes of the ring to me that I have read */
	_Alignas(PAIR_LINE) _Atomic uint32_t engines; /* what I sent by engines to the other side
						       * has come there or never will */
};

/* In pair_side.met; 0: it has not met the other side yet. */
enum pair_met {
	PAIR_MEETS = 1,
	PAIR_READS = 2, /* and may read its memory, as matched messages need */
};

/* The part of the shared memory that one side writes. */
struct pair_side {
	_Alignas(PAIR_LINE) _Atomic uint32_t sleeps;  /* wake me after a message; cleared by who
						       * does */
	_Atomic uint32_t closed;                      /* I read nothing more */
	_Atomic uint32_t met;                         /* enum pair_met: the other side may send */
	_Alignas(PAIR_LINE) _Atomic uint32_t fetched; /* changes with each of these */
	_Atomic uint32_t results[PAIR_OFFERS];        /* of the other side's offers that I fetched:
						       * errno + 1; cleared by it */
	_Atomic uint64_t offers[PAIR_OFFERS];         /* addresses of the bytes that I offer */
	struct pair_say say[PAIR_KINDS];
	_Alignas(PAIR_LINE) _Atomic uint64_t longs; /* a bit for each slot of long messages to me:
						     * changes when I have given it back */
};

struct pair_shm {
	struct pair_side side[2]; /* 0: who made the memory */
	/* from side 0 to side 1, and back */
	_Alignas(PAIR_LINE) uint8_t ring[2][PAIR_KINDS][PAIR_RING_BYTES];
	uint8_t longs[2][PAIR_LONG_BYTES];
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

/* In the word: the record's bytes, below those its message's; PAIR_EMPTY: it has none; PAIR_LONG:
 * it has a struct pair_long, and behind that a head that belongs to the message. */
#define PAIR_WORD(bytes, len) ((uint64_t)(bytes) << 32 | (len))
#define PAIR_EMPTY            UINT32_MAX
#define PAIR_LONG             (UINT32_MAX - 1)

/* A message that lies in pair_shm.longs. */
struct pair_long {
	uint32_t start, len;
	uint32_t slot; /* its number among those under way */
	uint32_t zero;
};

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

/* Writer: publish the record of len bytes that was begun, with `what` in its word. */
static inline void
pair_publish_as(struct pair_end *e, uint32_t len, uint32_t what)
{
	uint32_t n = pair_record(len), left = PAIR_RING_BYTES - (e->pos & (PAIR_RING_BYTES - 1)),
		 skip = n <= left ? 0 : left;
	uint32_t at = e->pos + skip;

	atomic_store_explicit(pair_word(e, at + n), 0, memory_order_relaxed);
	STEP();
	/* release: the message is visible before its word; pairs with pair_peek's acquire */
	atomic_store_explicit(pair_word(e, at), PAIR_WORD(n, what), memory_order_release);
	STEP();
	if (skip != 0)
		atomic_store_explicit(pair_word(e, e->pos), PAIR_WORD(skip, PAIR_EMPTY),
			memory_order_release);
	STEP();
	e->pos = at + n;
}

static inline void
pair_publish(struct pair_end *e, uint32_t len)
{
	pair_publish_as(e, len, len);
}

/* The results of pair_peek(). */
enum pair_found {
	PAIR_NOTHING,
	PAIR_FOUND,
	PAIR_FOUND_LONG, /* *message is a struct pair_long */
	PAIR_BROKEN,     /* no record that a writer makes */
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
		*word = w;
		*len = l;
		*message = (const uint8_t *)pair_word(e, e->pos) + PAIR_HEAD;
		if (__builtin_expect(l <= n - PAIR_HEAD, 1))
			return PAIR_FOUND;
		if (l == PAIR_LONG)
			return PAIR_FOUND_LONG;
		if (l != PAIR_EMPTY)
			return PAIR_BROKEN;
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

/* The writer's view of the long messages to the other side. */
struct pair_longs {
	uint8_t *at;
	const _Atomic uint64_t *given; /* the reader's pair_side.longs */
	uint64_t used, seen;           /* slots under way, and *given as last seen, a bit each */
	uint32_t count, look_at;       /* under way; as many as make it look at *given */
	struct pair_place {
		uint32_t start, end, slot;
	} of[PAIR_LONGS]; /* those under way, by start */
};

/* Writer: take back what the reader has given back. */
static inline void
pair_longs_look(struct pair_longs *x)
{
	/* acquire: the reader's reads come before these bytes are written again */
	const uint64_t given = atomic_load_explicit(x->given, memory_order_acquire),
		       back = (given ^ x->seen) & x->used;
	uint32_t n = 0;

	if (back == 0)
		return;
	x->used &= ~back;
	x->seen ^= back;
	for (uint32_t i = 0; i < x->count; i++) {
		if (!(back >> x->of[i].slot & 1))
			x->of[n++] = x->of[i];
	}
	x->count = n;
}

/* Writer: take room for a message of len bytes, which are to be written at l->start. Return false
 * if there is none now. */
static inline bool
pair_long_begin(struct pair_longs *x, uint32_t len, struct pair_long *l)
{
	const uint32_t room = (len + PAIR_LINE - 1) & ~(PAIR_LINE - 1);
	uint32_t start = 0, i = 0;

	if (x->count >= x->look_at || x->count == PAIR_LONGS) {
		pair_longs_look(x);
		x->look_at = x->count + (len <= PAIR_NEAR / PAIR_LONGS_NEAR ? PAIR_LONGS_NEAR : 1);
	}
	if (x->count == PAIR_LONGS || len > PAIR_LONG_BYTES)
		return false;
	for (; i < x->count && x->of[i].start - start < room; i++)
		start = x->of[i].end;
	if (i == x->count && room > PAIR_LONG_BYTES - start) {
		x->look_at = 0; /* what was given back meanwhile may be enough */
		return false;
	}
	*l = (struct pair_long){start, len, (uint32_t)__builtin_ctzll(~x->used), 0};
	for (uint32_t k = x->count++; k > i; k--)
		x->of[k] = x->of[k - 1];
	x->of[i] = (struct pair_place){start, start + room, l->slot};
	x->used |= 1ull << l->slot;
	return true;
}

/* Reader: return whether it describes what a writer makes. */
static inline bool
pair_long_ok(const struct pair_long *l)
{
	return l->slot < PAIR_LONGS && l->len <= PAIR_LONG_BYTES &&
		l->start <= PAIR_LONG_BYTES - l->len;
}

/* Reader: give a slot back to the writer. */
static inline void
pair_long_give(struct pair_side *mine, uint32_t slot)
{
	/* only this thread writes it; release: its reads of the message come before the writer's
	 * next bytes there */
	const uint64_t given = atomic_load_explicit(&mine->longs, memory_order_relaxed);

	STEP();
	atomic_store_explicit(&mine->longs, given ^ 1ull << slot, memory_order_release);
	STEP();
}

#endif
