/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where the bytes of the test of matched messages (matching.c) lie: in memory of pmx_alloc or of
 * malloc, in one piece, in several, in strides, by a bitmap, or as a diff.
 */
#include <stdlib.h>

#include "matching.h"

/* ------------------------------------------------------------------ memory */

uint8_t *
memory_take(struct end *e, uint64_t len, int *slot)
{
	*slot = -1;
	if (len > 4000 && draw() % 2) {
		for (int i = 0; i < SLOTS; i++) {
			if (e->used[i])
				continue;
			e->used[i] = true;
			*slot = i;
			return e->arena + (size_t)i * LONGEST;
		}
	}
	return must(malloc(len ? len : 1));
}

void
memory_put(struct end *e, uint8_t *memory, int slot)
{
	if (slot >= 0)
		e->used[slot] = false;
	else
		free(memory);
}

/* ------------------------------------------------------------------ layouts */

void
spread_choose(struct pmx_matched *m, struct pmx_part *part, uint64_t *bits, struct iovec *iov,
	uint64_t size, uint64_t *spans, uint64_t *total)
{
	unsigned kind = draw() % 10;

	*spans = *total = size;
	if (kind == 0 && size >= 16 && size <= LONGEST / 3) {
		uint64_t block = 1 + draw() % (size < 24 ? 16 : 24), count = size / block,
			 interval = block + draw() % (block < 24 ? block + 1 : 2);

		*part = (struct pmx_part){
			.kind = PMX_PART_STRIDE,
			.dims = 1,
			.block = block,
			.interval = {interval},
			.count = {count},
		};
		*spans = (count - 1) * interval + block;
		*total = count * block;
		m->part = part;
	} else if (kind == 1 && size >= 64 && size <= LONGEST / 3) {
		uint32_t unit = size > 2000 ? 512 : 4;
		uint64_t units = 2 * size / unit;

		units = units > 64 * 64 ? 64 * 64 : units;
		*total = 0;
		for (uint64_t i = 0; i < (units + 63) / 64; i++)
			bits[i] = draw() & draw();
		for (uint64_t i = 0; i < units; i++)
			*total += bits[i / 64] >> i % 64 & 1 ? unit : 0;
		*spans = units * unit;
		*part = (struct pmx_part){.kind = PMX_PART_BITMAP, .unit = unit, .bits = bits};
		m->part = part;
	} else if (kind == 2) {
		m->iov_count = 1 + draw() % 8;
		m->iov = iov;
		*spans = 0;
		for (unsigned i = 0; i < m->iov_count; i++) {
			uint64_t left = size - *spans,
				 piece = i + 1 == m->iov_count ? left : draw() % (left + 1);

			iov[i].iov_len = piece;
			/* made an address by spread_place */
			iov[i].iov_base = (void *)(uintptr_t)*spans;
			*spans += piece;
		}
	}
	m->len = *spans;
}

void
spread_place(struct pmx_matched *m, struct iovec *iov, uint8_t *memory)
{
	for (unsigned i = 0; m->iov != NULL && i < m->iov_count; i++)
		iov[i].iov_base = memory + (uintptr_t)iov[i].iov_base;
	m->data = m->iov != NULL ? NULL : memory;
}

bool
spread_has(const struct pmx_part *p, uint64_t at)
{
	if (p->kind == PMX_PART_STRIDE) {
		uint64_t i = at / p->interval[0];

		return i < p->count[0] && at - i * p->interval[0] < p->block;
	}
	if (p->kind == PMX_PART_BITMAP)
		return p->bits[at / p->unit / 64] >> at / p->unit % 64 & 1;
	return true;
}

uint64_t
size_draw(void)
{
	switch (draw() % 8) {
	case 0:
	case 1:
	case 2:
		return draw() % 30;
	case 3:
	case 4:
		return draw() % 1600;
	case 5:
		return draw() % 20000;
	case 6:
		return 16300 + draw() % 300;
	default:
		return draw() % LONGEST;
	}
}

void
message_make_diff(struct message *m)
{
	m->memory = must(malloc(m->spans ? m->spans : 1));
	m->twin = must(malloc(m->spans ? m->spans : 1));
	m->expect = must(malloc(m->spans ? m->spans : 1));
	m->slot = -1;
	memset(m->expect, GUARD, m->spans);
	for (uint64_t i = 0; i < m->spans; i++) {
		m->memory[i] = m->twin[i] = (uint8_t)(i * 3);
		if (draw() % 16 == 0) {
			m->memory[i] = (uint8_t)~m->twin[i];
			m->expect[i] = m->memory[i];
			m->reach = i + 1;
		}
	}
	m->part = (struct pmx_part){.kind = PMX_PART_DIFF, .twin = m->twin};
}
