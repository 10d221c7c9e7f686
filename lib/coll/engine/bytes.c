/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See bytes.h. Nothing of a client's description is trusted but what is checked here: where bytes
 * lie, each time they are accessed, and by coll_check what the steps say.
 */
#include <errno.h>
#include <string.h>

#include "coll/combine.h"
#include "coll/engine/bytes.h"
#include "rma/atomic.h"

size_t
job_bytes(uint32_t steps_max, uint32_t members_max)
{
	const size_t bytes = steps_max * sizeof(struct coll_step) +
		(size_t)members_max * (COLL_BUFFERS + 2) * sizeof(uint64_t);

	return (bytes + 63) / 64 * 64;
}

void
job_lay_out(struct coll_job *j, uint8_t *tables, uint32_t steps_max, uint32_t members_max)
{
	uint64_t *table = (uint64_t *)(tables + steps_max * sizeof(struct coll_step));

	j->steps = (struct coll_step *)tables;
	j->list.steps = j->steps;
	for (unsigned i = 0; i < COLL_BUFFERS; i++, table += members_max) {
		j->ends[i] = table;
		j->blocks[i].ends = j->desc.ends >> i & 1 ? table : NULL;
	}
	for (unsigned i = 0; i < 2; i++, table += members_max)
		j->begins[i] = table;
}

/* Return whether the ends of blocks never go backwards: if they did, the lengths would be
 * nonsense. */
static bool
is_rising(const uint64_t *ends, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++) {
		if (ends[i] < ends[i - 1])
			return false;
	}
	return true;
}

bool
job_is_same(struct coll_job *j, const struct bytes *from)
{
	const struct coll_desc *d = &j->desc;
	const size_t head = offsetof(struct coll_desc, buffer);
	const size_t table = d->blocks * sizeof(uint64_t), steps = d->steps * sizeof(*j->steps);

	if (!j->is_read || from->memory == NULL ||
		from->len < sizeof(*d) + steps + (COLL_BUFFERS + 2) * table ||
		d->ends != (1u << COLL_BUFFERS) - 1)
		return false;
	const uint8_t *at = from->memory->base + (from->at - from->memory->client);

	if (memcmp(at, d, head) != 0)
		return false;
	const uint8_t *tables = at + sizeof(*d);

	if (memcmp(tables, j->steps, steps) != 0)
		return false;
	tables += steps;
	for (unsigned i = 0; i < COLL_BUFFERS; i++, tables += table) {
		if (memcmp(tables, j->ends[i], table) != 0)
			return false;
	}
	for (unsigned i = 0; i < 2; i++, tables += table) {
		if (memcmp(tables, j->begins[i], table) != 0)
			return false;
	}
	memcpy(&j->desc.buffer, at + head, sizeof(j->desc.buffer));
	return true;
}

/* Copy the next bytes of a description. Return false if it is shorter, or not there. */
static bool
pull(const struct bytes *from, uint64_t *at, void *to, size_t len)
{
	if (len > from->len - *at || memory_read(from, *at, to, (uint32_t)len) != 0)
		return false;
	*at += len;
	return true;
}

int
job_read(struct coll_job *j, const struct channel *ch, const struct bytes *from, uint32_t steps_max,
	uint32_t members_max)
{
	struct coll_desc *d = &j->desc;
	uint64_t at = 0;

	j->is_read = false;
	j->list = (struct coll_list){.steps = j->steps};
	memset(j->blocks, 0, sizeof(j->blocks));
	if ((from->memory == NULL && ch->thin != NULL) || !pull(from, &at, d, sizeof(*d)))
		return -EFAULT;
	/* lengths are sums of some of these */
	if (d->steps > steps_max || d->blocks > members_max || d->each > 1ull << 40 ||
		d->area_bytes > 1ull << 40 || d->ends >> COLL_BUFFERS)
		return -EINVAL;
	if (!pull(from, &at, j->steps, d->steps * sizeof(*j->steps)))
		return -EFAULT;
	const size_t table = d->blocks * sizeof(uint64_t);

	for (unsigned i = 0; i < COLL_BUFFERS; i++) {
		j->blocks[i] = (struct coll_blocks){.count = d->blocks, .each = d->each};
		if (!(d->ends >> i & 1))
			continue;
		if (!pull(from, &at, j->ends[i], table))
			return -EFAULT;
		if (!is_rising(j->ends[i], d->blocks) ||
			(d->blocks > 0 && j->ends[i][d->blocks - 1] > 1ull << 48))
			return -EINVAL;
		j->blocks[i].ends = j->ends[i];
	}
	for (unsigned i = 0; i < 2; i++) {
		if (!pull(from, &at, j->begins[i], table))
			return -EFAULT;
	}
	j->list.count = d->steps;
	j->list.piece = d->piece;
	j->list.areas = d->areas;
	j->list.area_bytes = d->area_bytes;
	j->list.send_pace = d->send_pace;
	j->list.window = d->window;
	j->list.grain = d->grain;
	j->list.load_in = d->load_in;
	j->list.load_out = d->load_out;
	j->is_read = true;
	return 0;
}

/* ------------------------------------------------------------------ where a step's bytes are */

/* Copy between bytes here and [at, at + len) of one of the job's buffers; write: to the buffer. */
static int
access_buffer(struct coll_job *j, struct channel *ch, unsigned buffer, uint64_t at, void *mine,
	uint32_t len, bool write)
{
	const uint64_t most = j->desc.buffer[buffer].len, base = j->desc.buffer[buffer].at;
	const uint32_t number = j->desc.buffer[buffer].memory;
	struct memory *memory = NULL;

	if (at > most || len > most - at)
		return -EFAULT;
	if (number != MEMORY_COPIED)
		memory = space_at(&ch->space, number, base + at, len);
	if (memory == NULL && (number != MEMORY_COPIED || ch->thin != NULL))
		return -EFAULT;
	const struct bytes there = {&ch->space, memory, base + at, len};

	return write ? memory_write(&there, 0, mine, len) : memory_read(&there, 0, mine, len);
}

/* Copy between bytes here and what a RECV has put into its area of scratch. What an area holds may
 * go on at the area's beginning. */
static int
access_scratch(struct coll_job *j, struct channel *ch, const struct coll_exec *x, uint32_t recv,
	uint64_t offset, uint8_t *mine, uint32_t len, bool write)
{
	const uint64_t at = coll_scratch_place(x, recv, offset);
	const uint64_t end = (j->steps[recv].area + 1ull) * j->list.area_bytes;
	const uint32_t first = len < end - at ? len : (uint32_t)(end - at);
	int e = access_buffer(j, ch, COLL_SCRATCH, at, mine, first, write);

	if (e == 0 && first < len)
		e = access_buffer(j, ch, COLL_SCRATCH, end - j->list.area_bytes, mine + first,
			len - first, write);
	return e;
}

/* Copy between bytes here and a run of blocks of IN or OUT, which lie where the client says. */
static int
access_blocks(struct coll_job *j, struct channel *ch, unsigned buffer, const struct coll_step *s,
	uint64_t offset, uint8_t *mine, uint32_t len, bool write)
{
	const struct coll_blocks *b = &j->blocks[buffer];

	if (likely(s->blocks == 1)) {
		const uint64_t begin = j->begins[buffer][s->block];

		return begin > UINT64_MAX - offset
			? -EFAULT
			: access_buffer(j, ch, buffer, begin + offset, mine, len, write);
	}
	for (uint32_t k = 0, block = s->block; len > 0 && k < s->blocks; k++) {
		const uint64_t bytes = coll_run_bytes(b, block, 1);

		if (offset < bytes) {
			const uint64_t here = bytes - offset;
			const uint32_t n = len < here ? len : (uint32_t)here;
			const uint64_t begin = j->begins[buffer][block];

			if (begin > UINT64_MAX - offset ||
				access_buffer(j, ch, buffer, begin + offset, mine, n, write) != 0)
				return -EFAULT;
			mine += n;
			len -= n;
			offset = 0;
		} else {
			offset -= bytes;
		}
		block = block + 1 < b->count ? block + 1 : 0;
	}
	return len == 0 ? 0 : -EFAULT;
}

/* Return where the engine has a step's bytes, if they lie together in memory that it has mapped;
 * NULL: they do not. recv: the step that filled SCRATCH. */
static uint8_t *
bytes_here(const struct coll_job *j, const struct channel *ch, const struct coll_exec *x,
	unsigned buffer, const struct coll_step *s, uint32_t recv, uint64_t offset, uint32_t len)
{
	const uint64_t most = j->desc.buffer[buffer].len, base = j->desc.buffer[buffer].at;
	const uint32_t number = j->desc.buffer[buffer].memory;
	uint64_t at;

	if (number == MEMORY_COPIED)
		return NULL;
	if (buffer == COLL_SCRATCH) {
		at = coll_scratch_place(x, recv, offset);
		if (len > (j->steps[recv].area + 1ull) * j->list.area_bytes - at)
			return NULL;
	} else {
		if (s->blocks != 1 || j->begins[buffer][s->block] > UINT64_MAX - offset)
			return NULL;
		at = j->begins[buffer][s->block] + offset;
	}
	if (at > most || len > most - at)
		return NULL;
	const struct memory *m = space_at(&ch->space, number, base + at, len);

	return m != NULL ? m->base + (base + at - m->client) : NULL;
}

/* Return where the engine has the bytes that a step reads, or NULL; target_here() returns this for
 * those that it writes. */
static uint8_t *
source_here(const struct coll_job *j, const struct channel *ch, const struct coll_exec *x,
	uint16_t step, uint64_t offset, uint32_t len)
{
	const struct coll_step *s = &j->steps[step];

	return bytes_here(j, ch, x, s->from, s, s->source, offset, len);
}

static uint8_t *
target_here(const struct coll_job *j, const struct channel *ch, const struct coll_exec *x,
	uint16_t step, uint64_t offset, uint32_t len)
{
	const struct coll_step *s = &j->steps[step];

	return bytes_here(j, ch, x, s->to, s, s->op == COLL_RECV ? step : s->target, offset, len);
}

int
job_get(struct coll_job *j, struct channel *ch, const struct coll_exec *x, uint16_t step,
	uint64_t offset, void *to, uint32_t len)
{
	const struct coll_step *s = &j->steps[step];
	const uint8_t *from = source_here(j, ch, x, step, offset, len);

	if (likely(from != NULL)) {
		memcpy(to, from, len);
		return 0;
	}
	return s->from == COLL_SCRATCH ? access_scratch(j, ch, x, s->source, offset, to, len, false)
				       : access_blocks(j, ch, s->from, s, offset, to, len, false);
}

/* Write a step's bytes to its target, or read what is there before. In SCRATCH the target is the
 * bytes of a RECV: of this step itself, or of the one whose bytes it combines with. */
static int
access_target(struct coll_job *j, struct channel *ch, const struct coll_exec *x, uint16_t step,
	uint64_t offset, uint8_t *mine, uint32_t len, bool write)
{
	const struct coll_step *s = &j->steps[step];

	return s->to == COLL_SCRATCH
		? access_scratch(j, ch, x, s->op == COLL_RECV ? step : s->target, offset, mine, len,
			  write)
		: access_blocks(j, ch, s->to, s, offset, mine, len, write);
}

int
job_put(struct coll_job *j, struct channel *ch, const struct coll_exec *x, uint16_t step,
	uint64_t offset, const void *from, uint32_t len)
{
	uint8_t *to = target_here(j, ch, x, step, offset, len);

	if (likely(to != NULL)) {
		memmove(to, from, len); /* a COPY's buffers may overlap, if the client wants that */
		return 0;
	}
	return access_target(j, ch, x, step, offset, (uint8_t *)(uintptr_t)from, len, true);
}

/* Return whether a step copies bytes to where they are, as in a collective in place. */
static bool
is_there_already(const struct coll_job *j, const struct coll_step *s)
{
	return s->op == COLL_COPY && s->from == COLL_IN && s->to == COLL_OUT && s->blocks == 1 &&
		j->desc.buffer[COLL_IN].at + j->begins[0][s->block] ==
		j->desc.buffer[COLL_OUT].at + j->begins[1][s->block];
}

int
job_work(struct coll_job *j, struct channel *ch, const struct coll_exec *x, uint16_t step,
	uint64_t offset, uint32_t len, uint8_t *scratch)
{
	const struct coll_step *s = &j->steps[step];
	const uint32_t op = TRANSFER_OP(j->desc.operation);
	const uint32_t type = TRANSFER_TYPE(j->desc.operation);
	const uint8_t *from;
	uint8_t *sum;
	int e;

	if (len == 0 || is_there_already(j, s))
		return 0;
	from = source_here(j, ch, x, step, offset, len);
	if (unlikely(from == NULL)) {
		e = job_get(j, ch, x, step, offset, scratch, len);
		if (e != 0)
			return e;
		from = scratch;
	}
	if (s->op == COLL_COPY)
		return job_put(j, ch, x, step, offset, from, len);
	if (op > COLL_COMBINES_LAST || !atomic_is_valid(op, type))
		return -EINVAL;
	sum = target_here(j, ch, x, step, offset, len);
	if (likely(sum != NULL)) {
		coll_combine(op, type, sum, from, len);
		return 0;
	}
	sum = scratch + j->list.piece;
	e = access_target(j, ch, x, step, offset, sum, len, false);
	if (e != 0)
		return e;
	coll_combine(op, type, sum, from, len);
	return job_put(j, ch, x, step, offset, sum, len);
}
