/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Random collectives. All members draw the same of a number, and each one for itself where its
 * buffers are: memory of pmx_alloc() or of its own, at any alignment, in place or not. What is to
 * come out is made beside it, also the bytes around and between blocks, which must stay.
 */
#include <errno.h>
#include <string.h>

#include "coll_worker.h"

#define AROUND 64
#define UNUSED 0xA5

const char *const verb_names[VERBS] = {"barrier", "bcast", "gather", "scatter", "allgather",
	"alltoall", "gatherv", "scatterv", "allgatherv", "alltoallv", "reduce", "allreduce",
	"reduce_scatter"};

static struct {
	uint8_t *shared[2], *own[2]; /* in, out */
} memory[SLOTS];
static uint64_t memory_len;

/* ------------------------------------------------------------------ random numbers, data */

static uint64_t
below(uint64_t *random, uint64_t n)
{
	return mix64_next(random) % n;
}

static uint64_t
draw_len(uint64_t *random, uint64_t most)
{
	static const uint64_t up_to[] = {1, 9, 225, 1500, 8192, 65536, LEN_MAX + 1};
	const uint64_t limit = up_to[below(random, sizeof(up_to) / sizeof(up_to[0]))];

	return below(random, limit < most + 1 ? limit : most + 1);
}

static void
fill(uint8_t *to, uint64_t len, uint64_t key)
{
	uint64_t word;

	for (uint64_t i = 0; i < len; i += sizeof(word)) {
		word = mix64(key + i);
		memcpy(to + i, &word, len - i < sizeof(word) ? len - i : sizeof(word));
	}
}

/* The block that one rank has for another one. */
static uint64_t
block_key(const struct call *c, uint32_t from, uint32_t to)
{
	return mix64(c->key + from * 64 + to);
}

static bool
is_float(enum pmx_atomic_type type)
{
	return type == PMX_FLOAT || type == PMX_DOUBLE;
}

static uint64_t
element(const struct call *c)
{
	return pmx_atomic_bytes(c->op, c->type);
}

/* Elements of a rank. Floats are such that any order gives the same. */
static void
fill_elements(const struct call *c, uint32_t rank, uint8_t *to, uint64_t count)
{
	static const double factors[] = {1, -1, 2, 0.5}, terms[] = {0, 3, -2, 1};
	const double *from = c->op == PMX_ATOMIC_PROD ? factors : terms;
	const uint64_t key = block_key(c, rank, 63);

	if (!is_float(c->type)) {
		fill(to, count * element(c), key);
		return;
	}
	for (uint64_t i = 0; i < count; i++) {
		const double d = from[mix64(key + i) % 4];
		const float f = (float)d;

		if (c->type == PMX_DOUBLE)
			memcpy(to + i * sizeof(d), &d, sizeof(d));
		else
			memcpy(to + i * sizeof(f), &f, sizeof(f));
	}
}

#define COMBINE(T, wide)                                                                           \
	for (uint64_t i = 0; i < count; i++) {                                                     \
		T v, x, y = 0;                                                                     \
		memcpy(&v, to + i * sizeof(T), sizeof(T));                                         \
		memcpy(&x, from + i * sizeof(T), sizeof(T));                                       \
		switch (op) {                                                                      \
		case PMX_ATOMIC_MIN:                                                               \
			y = x < v ? x : v;                                                         \
			break;                                                                     \
		case PMX_ATOMIC_MAX:                                                               \
			y = x > v ? x : v;                                                         \
			break;                                                                     \
		case PMX_ATOMIC_SUM:                                                               \
			y = (T)((wide)v + (wide)x);                                                \
			break;                                                                     \
		case PMX_ATOMIC_PROD:                                                              \
			y = (T)((wide)v * (wide)x);                                                \
			break;                                                                     \
		case PMX_ATOMIC_LOR:                                                               \
			y = v != 0 || x != 0;                                                      \
			break;                                                                     \
		case PMX_ATOMIC_LAND:                                                              \
			y = v != 0 && x != 0;                                                      \
			break;                                                                     \
		case PMX_ATOMIC_LXOR:                                                              \
			y = (v != 0) != (x != 0);                                                  \
			break;                                                                     \
		case PMX_ATOMIC_BOR:                                                               \
			y = (T)((uint64_t)v | (uint64_t)x);                                        \
			break;                                                                     \
		case PMX_ATOMIC_BAND:                                                              \
			y = (T)((uint64_t)v & (uint64_t)x);                                        \
			break;                                                                     \
		default:                                                                           \
			y = (T)((uint64_t)v ^ (uint64_t)x);                                        \
			break;                                                                     \
		}                                                                                  \
		memcpy(to + i * sizeof(T), &y, sizeof(T));                                         \
	}                                                                                          \
	break

static void
combine(enum pmx_atomic_type type, enum pmx_atomic_op op, uint8_t *to, const uint8_t *from,
	uint64_t count)
{
	switch (type) {
	case PMX_INT8:
		COMBINE(int8_t, uint64_t);
	case PMX_UINT8:
		COMBINE(uint8_t, uint64_t);
	case PMX_INT16:
		COMBINE(int16_t, uint64_t);
	case PMX_UINT16:
		COMBINE(uint16_t, uint64_t);
	case PMX_INT32:
		COMBINE(int32_t, uint64_t);
	case PMX_UINT32:
		COMBINE(uint32_t, uint64_t);
	case PMX_INT64:
		COMBINE(int64_t, uint64_t);
	case PMX_UINT64:
		COMBINE(uint64_t, uint64_t);
	case PMX_FLOAT:
		COMBINE(float, float);
	case PMX_DOUBLE:
		COMBINE(double, double);
	}
}

/* Elements from that one on, of all ranks together. */
static void
combine_all(const struct call *c, uint8_t *to, uint64_t first, uint64_t count, uint64_t all)
{
	const uint64_t bytes = all * element(c);
	uint8_t *one = must(malloc(bytes + 1)), *sum = must(malloc(bytes + 1));

	fill_elements(c, 0, sum, all);
	for (uint32_t r = 1; r < c->size; r++) {
		fill_elements(c, r, one, all);
		combine(c->type, c->op, sum, one, all);
	}
	memcpy(to, sum + first * element(c), count * element(c));
	free(one);
	free(sum);
}

/* ------------------------------------------------------------------ drawing */

void
calls_init(struct pmx_context *ctx, uint64_t len_max)
{
	void *all;

	memory_len = (MEMBERS * (len_max + AROUND) + 4 * AROUND + 63) / 64 * 64;
	must_succeed("allocating", pmx_alloc(ctx, SLOTS * 2 * memory_len, &all));
	for (unsigned i = 0; i < SLOTS; i++) {
		for (unsigned k = 0; k < 2; k++) {
			memory[i].shared[k] = (uint8_t *)all + (i * 2 + k) * memory_len;
			memory[i].own[k] = must(malloc(memory_len));
		}
	}
}

static void
draw_operation(struct call *c, uint64_t *random)
{
	do {
		c->type = (enum pmx_atomic_type)below(random, PMX_DOUBLE + 1);
		c->op = (enum pmx_atomic_op)below(random, PMX_ATOMIC_BXOR + 1);
	} while (pmx_atomic_bytes(c->op, c->type) == 0);
}

static void
draw_lens(struct call *c, uint64_t *random, uint64_t len_max)
{
	c->symmetric = below(random, 2) == 0;
	for (uint32_t i = 0; i < c->size; i++) {
		for (uint32_t k = 0; k < c->size; k++) {
			c->lens[i][k] = draw_len(random, len_max);
			if (c->symmetric && k < i)
				c->lens[i][k] = c->lens[k][i];
		}
	}
}

static void
draw_shared(struct call *c, uint64_t series, uint32_t number, struct pmx_group *group)
{
	memset(c, 0, sizeof(*c));
	c->number = number;
	c->size = pmx_group_size(group);
	c->rank = pmx_group_rank(group);
	c->key = mix64(series * 1000003 + number);
}

void
call_draw(struct call *c, uint64_t series, uint32_t number, struct pmx_group *group,
	uint64_t len_max)
{
	uint64_t random;

	draw_shared(c, series, number, group);
	random = c->key;
	c->verb = (enum verb)below(&random, VERBS);
	c->root = (uint32_t)below(&random, c->size);
	draw_operation(c, &random);
	c->len = draw_len(&random, len_max);
	if (c->verb >= REDUCE)
		c->len /= element(c);
	draw_lens(c, &random, len_max);
}

void
call_set(struct call *c, enum verb verb, uint32_t root, uint64_t len, uint32_t number,
	struct pmx_group *group)
{
	draw_shared(c, pmx_group_id(group), number, group);
	c->verb = verb;
	c->root = root;
	c->type = PMX_UINT32;
	c->op = PMX_ATOMIC_SUM;
	c->len = verb >= REDUCE ? len / 4 : len;
	for (uint32_t i = 0; i < MEMBERS; i++) {
		for (uint32_t k = 0; k < MEMBERS; k++)
			c->lens[i][k] = len;
	}
	c->symmetric = true;
}

/* ------------------------------------------------------------------ buffers */

/* The members whose blocks a side has: none, only itself, or all. */
enum has { NONE, ONE, ALL };

static enum has
has_in(const struct call *c)
{
	const bool is_root = c->rank == c->root;

	switch (c->verb) {
	case BARRIER:
	case BCAST:
		return NONE;
	case SCATTER:
	case SCATTERV:
		return is_root ? ALL : NONE;
	case ALLTOALL:
	case ALLTOALLV:
	case REDUCE_SCATTER:
		return ALL;
	default:
		return ONE;
	}
}

static enum has
has_out(const struct call *c)
{
	const bool is_root = c->rank == c->root;

	switch (c->verb) {
	case BARRIER:
		return NONE;
	case GATHER:
	case GATHERV:
		return is_root ? ALL : NONE;
	case REDUCE:
		return is_root ? ONE : NONE;
	case ALLGATHER:
	case ALLTOALL:
	case ALLGATHERV:
	case ALLTOALLV:
		return ALL;
	default:
		return ONE;
	}
}

static bool
is_vector(const struct call *c)
{
	return c->verb >= GATHERV && c->verb <= ALLTOALLV;
}

/* Bytes of a block from one rank to another one. */
static uint64_t
len_of(const struct call *c, uint32_t from, uint32_t to)
{
	if (c->verb >= REDUCE)
		return c->len * element(c);
	switch (c->verb) {
	case GATHERV:
	case ALLGATHERV:
		return c->lens[from][0];
	case SCATTERV:
		return c->lens[0][to];
	case ALLTOALLV:
		return c->lens[from][to];
	default:
		return c->len;
	}
}

/* Choose where the blocks of a side lie: those of a vector in any order, with gaps. Return all
 * bytes. */
static uint64_t
lay_out(const struct call *c, bool out, uint64_t *lens, uint64_t *begins, uint64_t *random)
{
	const uint32_t first = is_vector(c) ? (uint32_t)below(random, c->size) : 0;
	uint64_t at = 0;

	for (uint32_t i = 0; i < c->size; i++) {
		const uint32_t r = (i + first) % c->size;

		lens[r] = out ? len_of(c, r, c->rank) : len_of(c, c->rank, r);
		at += is_vector(c) ? below(random, AROUND) : 0;
		begins[r] = at;
		at += lens[r];
	}
	return at;
}

/* The bytes that a block of `in` has. */
static void
put_in(const struct call *c, uint8_t *to, uint32_t block, uint64_t len)
{
	if (c->verb == REDUCE_SCATTER)
		return;
	if (c->verb >= REDUCE)
		fill_elements(c, c->rank, to, c->len);
	else if (c->verb == GATHER || c->verb == GATHERV || c->verb == ALLGATHER ||
		c->verb == ALLGATHERV)
		fill(to, len, block_key(c, c->rank, 0));
	else
		fill(to, len, block_key(c, c->rank, block));
}

/* The bytes that a block of `out` must have at the end. */
static void
put_out(const struct call *c, uint8_t *to, uint32_t block, uint64_t len)
{
	switch (c->verb) {
	case BCAST:
		fill(to, len, block_key(c, c->root, 0));
		break;
	case SCATTER:
	case SCATTERV:
		fill(to, len, block_key(c, c->root, c->rank));
		break;
	case GATHER:
	case GATHERV:
	case ALLGATHER:
	case ALLGATHERV:
		fill(to, len, block_key(c, block, 0));
		break;
	case ALLTOALL:
	case ALLTOALLV:
		fill(to, len, block_key(c, block, c->rank));
		break;
	case REDUCE_SCATTER:
		combine_all(c, to, c->rank * c->len, c->len, c->size * c->len);
		break;
	default:
		combine_all(c, to, 0, c->len, c->len);
		break;
	}
}

static bool
may_be_in_place(const struct call *c)
{
	switch (c->verb) {
	case GATHER:
	case GATHERV:
	case SCATTER:
	case SCATTERV:
	case REDUCE:
		return c->rank == c->root;
	case ALLGATHER:
	case ALLGATHERV:
	case ALLTOALL:
	case ALLREDUCE:
		return true;
	case ALLTOALLV:
		return c->symmetric;
	default:
		return false;
	}
}

static void
make_in(struct call *c, uint8_t *base, uint64_t *random)
{
	const enum has has = has_in(c);
	uint64_t all = lay_out(c, false, c->in_lens, c->in_begins, random);

	if (has == NONE)
		return;
	if (has == ONE)
		all = len_of(c, c->rank, 0);
	c->in = base + below(random, AROUND);
	c->in_len = all;
	memset(c->in, UNUSED, all);
	for (uint32_t r = 0; has == ALL && r < c->size; r++)
		put_in(c, c->in + c->in_begins[r], r, c->in_lens[r]);
	if (has == ONE)
		put_in(c, c->in, 0, all);
	if (c->verb == REDUCE_SCATTER)
		fill_elements(c, c->rank, c->in, c->size * c->len);
	c->want_in = must(malloc(all + 1));
	memcpy(c->want_in, c->in, all);
}

static void
make_out(struct call *c, uint8_t *base, uint64_t *random)
{
	const enum has has = has_out(c);
	uint64_t all = lay_out(c, true, c->out_lens, c->out_begins, random);

	if (has == NONE)
		return;
	if (has == ONE)
		all = len_of(c, c->root, c->rank);
	c->out = base + AROUND + below(random, AROUND);
	c->out_len = all;
	memset(c->out - AROUND, UNUSED, all + 2 * AROUND);
	c->want = must(malloc(all + 2 * AROUND));
	memset(c->want, UNUSED, all + 2 * AROUND);
	for (uint32_t r = 0; has == ALL && r < c->size; r++)
		put_out(c, c->want + AROUND + c->out_begins[r], r, c->out_lens[r]);
	if (has == ONE)
		put_out(c, c->want + AROUND, 0, all);
}

/* Make the collective one in place: what is contributed goes to where the result will be, except
 * that the root of a scatter has no output. */
static void
go_in_place(struct call *c)
{
	if (c->verb == SCATTER || c->verb == SCATTERV) {
		free(c->want);
		c->out = c->want = NULL;
		return;
	}
	if (c->verb == ALLTOALL || c->verb == ALLTOALLV) {
		for (uint32_t r = 0; r < c->size; r++)
			memcpy(c->out + c->out_begins[r], c->in + c->in_begins[r], c->in_lens[r]);
	} else {
		const uint64_t at = has_out(c) == ALL ? c->out_begins[c->rank] : 0;

		memcpy(c->out + at, c->in, c->in_len);
	}
	free(c->want_in);
	c->in = c->want_in = NULL;
}

static void
make_buffers(struct call *c, unsigned slot)
{
	uint64_t random = mix64(c->key + 977 * (c->rank + 1));
	const bool in_shared = below(&random, 2) == 0, out_shared = below(&random, 2) == 0;
	uint64_t *tables = must(calloc(4 * MEMBERS, sizeof(*tables)));

	c->in_lens = tables;
	c->in_begins = tables + MEMBERS;
	c->out_lens = tables + 2 * MEMBERS;
	c->out_begins = tables + 3 * MEMBERS;
	make_in(c, in_shared ? memory[slot].shared[0] : memory[slot].own[0], &random);
	make_out(c, out_shared ? memory[slot].shared[1] : memory[slot].own[1], &random);
	c->in_place = may_be_in_place(c) && below(&random, 2) == 0;
	if (c->in_place)
		go_in_place(c);
	if (c->verb == BCAST && c->rank == c->root)
		memcpy(c->out, c->want + AROUND, c->out_len);
	c->in_blocks = (struct pmx_blocks){c->in_lens, c->in_begins};
	c->out_blocks = (struct pmx_blocks){c->out_lens, c->out_begins};
}

/* ------------------------------------------------------------------ doing */

int
call_begin(struct call *c, struct pmx_group *g, unsigned slot)
{
	const void *in;

	if (c->in_lens == NULL)
		make_buffers(c, slot);
	in = c->in_place ? PMX_IN_PLACE : c->in;
	switch (c->verb) {
	case BARRIER:
		return pmx_coll_barrier(g, &c->request);
	case BCAST:
		return pmx_bcast(g, c->root, c->out, c->len, &c->request);
	case GATHER:
		return pmx_gather(g, c->root, in, c->out, c->len, &c->request);
	case SCATTER:
		return pmx_scatter(g, c->root, c->in, c->out, c->len, &c->request);
	case ALLGATHER:
		return pmx_allgather(g, in, c->out, c->len, &c->request);
	case ALLTOALL:
		return pmx_alltoall(g, in, c->out, c->len, &c->request);
	case GATHERV:
		return pmx_gatherv(g, c->root, in, len_of(c, c->rank, 0), c->out, &c->out_blocks,
			&c->request);
	case SCATTERV:
		return pmx_scatterv(g, c->root, c->in, &c->in_blocks, c->out,
			len_of(c, c->root, c->rank), &c->request);
	case ALLGATHERV:
		return pmx_allgatherv(g, in, len_of(c, c->rank, 0), c->out, &c->out_blocks,
			&c->request);
	case ALLTOALLV:
		return pmx_alltoallv(g, in, &c->in_blocks, c->out, &c->out_blocks, &c->request);
	case REDUCE:
		return pmx_reduce(g, c->root, in, c->out, c->len, c->type, c->op, &c->request);
	case ALLREDUCE:
		return pmx_allreduce(g, in, c->out, c->len, c->type, c->op, &c->request);
	case REDUCE_SCATTER:
		return pmx_reduce_scatter(g, in, c->out, c->len, c->type, c->op, &c->request);
	case VERBS:
		break;
	}
	return -EINVAL;
}

static void
differs(const struct call *c, const char *what, const uint8_t *has, const uint8_t *want,
	uint64_t len, uint64_t before)
{
	uint64_t i = 0, last = len - 1;

	while (has[i] == want[i])
		i++;
	while (has[last] == want[last])
		last--;
	fail("rank %u of %u, collective %u, %s, root %u, length %lu, type %d, operation %d%s: "
	     "%s differs from byte %ld to %ld of %lu: %02x instead of %02x",
		c->rank, c->size, c->number, verb_names[c->verb], c->root, (unsigned long)c->len,
		(int)c->type, (int)c->op, c->in_place ? ", in place" : "", what, (long)(i - before),
		(long)(last - before), (unsigned long)(len - 2 * before), has[i], want[i]);
}

void
call_check(struct call *c)
{
	const uint64_t all = c->out_len + 2 * AROUND;

	if (c->want != NULL && memcmp(c->out - AROUND, c->want, all) != 0)
		differs(c, "out", c->out - AROUND, c->want, all, AROUND);
	if (c->want_in != NULL && c->in_len > 0 && memcmp(c->in, c->want_in, c->in_len) != 0)
		differs(c, "in", c->in, c->want_in, c->in_len, 0);
}

void
call_free(struct call *c)
{
	free(c->in_lens);
	free(c->want_in);
	free(c->want);
	c->in_lens = NULL;
	c->want_in = c->want = NULL;
}
