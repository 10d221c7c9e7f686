/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Random programs without data races on shared memory, against a model that is as one memory: dsm
 * [-s SEED] [-p PROGRAMS] and what cluster.h wants. All members compute the same programs from the
 * seed. The memory is cut into pieces anew for each program, anywhere in pages. In a phase, which
 * ends with a barrier, a piece is read by anyone; or written by one member, which nobody else
 * reads; or it is a counter that all add to under a lock, next to a copy that must always agree.
 * The model knows what each piece holds after the phase.
 */
#include <string.h>
#include <unistd.h>

#include "../../examples/dsm/cluster.h"
#include "../../lib/base/mix.h"

#define BYTES  (64 * 4096)
#define PIECES 192
#define PHASES 6
#define LOCKS  4

enum role {
	READ,    /* by anyone */
	WRITTEN, /* by its owner */
	COUNTED, /* under lock number % LOCKS */
	ROLES
};

struct counter {
	uint64_t n, copy;
};

static struct piece {
	uint32_t at, len;
	enum role role;
	uint32_t owner;
	bool counts; /* a struct counter fits */
} pieces[PIECES];
static unsigned count;
static uint8_t model[BYTES] __attribute__((aligned(8)));
static struct cluster c;
static uint8_t *shared;
static uint64_t checked;

/* A random number by what it is for; the same at all members. */
static uint64_t
draw(uint64_t a, uint64_t b, uint64_t d)
{
	return mix64(mix64(mix64(a + 1) + b) + d);
}

static void
cut(uint64_t program)
{
	static const uint32_t lens[] = {1, 1, 4, 8, 16, 16, 40, 400, 5000, 9000};
	uint32_t at = 0;

	for (count = 0; count < PIECES; count++) {
		const uint64_t r = draw(program, count, 1);
		struct piece *p = &pieces[count];
		const bool aligned = r >> 50 & 1;

		p->len = lens[r % (sizeof(lens) / sizeof(lens[0]))];
		at += (r >> 20) % 16 == 0 ? (uint32_t)(r >> 24) % 8192 : 0;
		at = aligned ? (at + 7) & ~7u : at;
		if (at + p->len > BYTES)
			return;
		p->at = at;
		p->counts = at % 8 == 0 && p->len >= sizeof(struct counter);
		at += p->len;
	}
}

static void
wrong(const struct piece *p, uint64_t program, unsigned phase, uint32_t at)
{
	fprintf(stderr,
		"rank %u, program %lu, phase %u: byte %u of the piece at %u (page %u, %u bytes) is "
		"%u, not %u\n",
		c.rank, (unsigned long)program, phase, at, p->at, (p->at + at) / 4096, p->len,
		shared[p->at + at], model[p->at + at]);
	exit(1);
}

static void
check(const struct piece *p, uint64_t program, unsigned phase)
{
	for (uint32_t i = 0; i < p->len; i++) {
		if (shared[p->at + i] != model[p->at + i])
			wrong(p, program, phase, i);
	}
	checked += p->len;
}

static void
fill(uint8_t *to, const struct piece *p, uint64_t value)
{
	/* some writes change nothing, or only some bytes */
	const unsigned step = value >> 40 & 1 ? 1 : 7;

	for (uint32_t i = 0; i < p->len; i += step)
		to[p->at + i] = (uint8_t)(value + i * 31);
	if (p->counts)
		*(struct counter *)(to + p->at) = (struct counter){value, ~value};
}

/* Adds to the counter, which must be whole. */
static void
add(struct counter *at, uint64_t n)
{
	at->n += n;
	at->copy = ~at->n;
}

static uint64_t
times_of(uint64_t program, unsigned phase, unsigned piece, uint32_t rank)
{
	return draw(program * PHASES + phase, piece, 100 + rank) % 4;
}

static void
count_up(uint64_t program, unsigned phase, unsigned piece)
{
	const unsigned lock = piece % LOCKS, second = lock + 1 + piece / LOCKS % 3;
	const uint64_t times = times_of(program, phase, piece, c.rank);
	struct counter *at = (struct counter *)(shared + pieces[piece].at);

	for (uint64_t i = 0; i < times; i++) {
		must("lock", pmx_dsm_lock(c.dsm, lock, 0));
		if (second < LOCKS)
			must("lock", pmx_dsm_lock(c.dsm, second, 0));
		if (at->copy != ~at->n && (at->copy != 0 || at->n != 0)) {
			fprintf(stderr,
				"rank %u, program %lu, phase %u: the counter at %u is %lx, its "
				"copy %lx\n",
				c.rank, (unsigned long)program, phase, pieces[piece].at,
				(unsigned long)at->n, (unsigned long)at->copy);
			exit(1);
		}
		add(at, draw(program, phase, piece));
		if (second < LOCKS)
			must("unlock", pmx_dsm_unlock(c.dsm, second));
		must("unlock", pmx_dsm_unlock(c.dsm, lock));
	}
}

/* Note in the model what the piece holds after the phase, when all ranks have done their parts. */
static void
note(uint64_t program, unsigned phase, unsigned piece)
{
	struct piece *p = &pieces[piece];
	uint64_t times = 0;
	struct counter now;

	if (p->role == WRITTEN)
		fill(model, p, draw(program * PHASES + phase, piece, 3));
	if (p->role != COUNTED)
		return;
	for (uint32_t r = 0; r < c.size; r++)
		times += times_of(program, phase, piece, r);
	memcpy(&now, model + p->at, sizeof(now));
	for (uint64_t i = 0; i < times; i++)
		add(&now, draw(program, phase, piece));
	memcpy(model + p->at, &now, sizeof(now));
}

static void
run_phase(uint64_t program, unsigned phase)
{
	for (unsigned i = 0; i < count; i++) {
		const uint64_t r = draw(program * PHASES + phase, i, 2);
		struct piece *p = &pieces[i];

		p->role = r % ROLES;
		if (p->role == COUNTED && !p->counts)
			p->role = READ;
		p->owner = (uint32_t)(r >> 8) % c.size;
	}
	for (unsigned i = 0; i < count; i++) {
		const struct piece *p = &pieces[i];

		if (p->role == READ && draw(program * PHASES + phase, i, 200 + c.rank) % 3 == 0)
			check(p, program, phase);
		if (p->role == WRITTEN && p->owner == c.rank) {
			check(p, program, phase);
			fill(shared, p, draw(program * PHASES + phase, i, 3));
		}
		if (p->role == COUNTED)
			count_up(program, phase, i);
	}
	must("barrier", pmx_dsm_barrier(c.dsm));
	for (unsigned i = 0; i < count; i++)
		note(program, phase, i);
}

/* Counters begin whole: where one fits there is zero. */
static void
run(uint64_t program)
{
	cut(program);
	for (unsigned i = 0; i < count; i++) {
		if (!pieces[i].counts)
			continue;
		memset(model + pieces[i].at, 0, sizeof(struct counter));
		if (i % c.size == c.rank)
			memset(shared + pieces[i].at, 0, sizeof(struct counter));
	}
	must("barrier", pmx_dsm_barrier(c.dsm));
	for (unsigned phase = 0; phase < PHASES; phase++)
		run_phase(program, phase);
}

int
main(int argc, char **argv)
{
	const struct piece all = {.len = BYTES};
	uint64_t seed = 1, programs = 20;
	struct pmx_dsm_stat stat;
	void *memory;
	int opt;

	while ((opt = getopt(argc, argv, "s:p:")) != -1) {
		if (opt == 's')
			seed = strtoull(optarg, NULL, 10);
		if (opt == 'p')
			programs = strtoull(optarg, NULL, 10);
	}
	cluster_join(&c, argc - optind, argv + optind, "dsm [-s SEED] [-p PROGRAMS]", BYTES);
	/* a third each of pages in turns, in blocks, and of one member */
	must("memory", pmx_dsm_alloc(c.dsm, 22 * 4096, PMX_DSM_CYCLIC, &memory));
	shared = memory;
	must("memory", pmx_dsm_alloc(c.dsm, 22 * 4096, PMX_DSM_BLOCKS, &memory));
	must("memory", pmx_dsm_alloc(c.dsm, 20 * 4096, (int)c.size - 1, &memory));
	for (uint64_t i = 0; i < programs; i++) {
		run(seed + i);
		if (i % 10 == 9 || i == programs - 1) {
			check(&all, seed + i, PHASES);
			must("barrier", pmx_dsm_barrier(c.dsm));
		}
	}
	pmx_dsm_read_stat(c.dsm, &stat);
	printf("rank %u: %lu programs, %lu bytes checked; %lu first reads, %lu first writes, %lu "
	       "pages fetched, %lu sent, %lu dropped, %lu notices\n",
		c.rank, (unsigned long)programs, (unsigned long)checked, (unsigned long)stat.reads,
		(unsigned long)stat.writes, (unsigned long)stat.fetched, (unsigned long)stat.sent,
		(unsigned long)stat.dropped, (unsigned long)stat.notices);
	cluster_leave(&c);
	return 0;
}
