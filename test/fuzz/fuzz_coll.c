/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A collective's list of steps that somebody else wrote, and peers that say anything: the list is
 * refused, or runs within its own bytes; what peers say is refused, or is the next piece of what
 * was permitted.
 */
#include "coll/exec.h"
#include "input.h"

#define STEPS 24
#define RANKS 4
#define BLOCK 50
#define ALL   (3 * BLOCK)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct coll_blocks blocks[COLL_BUFFERS] = {{3, BLOCK, NULL}, {3, BLOCK, NULL},
	{3, BLOCK, NULL}};

static void
take_step(struct input *in, struct coll_step *s)
{
	*s = (struct coll_step){
		.op = take8(in) % 5,
		.flags = take8(in),
		.from = take8(in) % 4,
		.to = take8(in) % 4,
		.peer = take8(in) % (RANKS + 1),
		.after = {take8(in), take8(in)},
		.block = take8(in) % 4,
		.blocks = take8(in) % 5,
		.source = take8(in),
		.target = take8(in),
		.area = take8(in),
		.early = take8(in),
		.at_us = take8(in),
		.lead_ns = take16(in),
		.pace = take16(in) * 1000u,
	};
	for (unsigned k = 0; k < 2; k++) {
		if (s->after[k] >= 0x80)
			s->after[k] = COLL_NONE;
	}
}

static void
run(struct coll_exec *c, const struct coll_list *l, uint64_t now)
{
	struct coll_out o;

	while (coll_next(c, &o, now)) {
		MUST(o.step < l->count);
		const struct coll_step *s = &l->steps[o.step];
		const uint64_t len = coll_run_bytes(&blocks[COLL_IN], s->block, s->blocks);

		MUST(o.go == COLL_GO_PERMIT ? o.len <= len : o.offset + o.len <= len);
		MUST(o.go == COLL_GO_LOCAL ? s->op == COLL_REDUCE || s->op == COLL_COPY
					   : o.peer < RANKS && o.peer != l->rank);
		if (s->op == COLL_RECV && s->to == COLL_SCRATCH)
			MUST(coll_scratch_place(c, o.step, 0) < l->areas * l->area_bytes);
	}
	MUST(coll_deadline(c) > now);
	if (l->window)
		MUST(coll_outstanding(c) <= ALL * STEPS);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct coll_step steps[STEPS];
	struct coll_list l = {
		.steps = steps,
		.count = take8(&in) % (STEPS + 1),
		.ranks = RANKS,
		.rank = take8(&in) % (RANKS + 1),
		.piece = take8(&in) % 64,
		.areas = take8(&in) % 4,
		.area_bytes = take8(&in),
		.send_pace = take16(&in),
		.window = take8(&in),
	};
	uint32_t bad;

	for (uint32_t i = 0; i < l.count; i++)
		take_step(&in, &steps[i]);
	if (coll_check(&l, blocks, &bad) != 0) {
		MUST(bad <= l.count);
		return 0;
	}
	void *memory = aligned_alloc(16, coll_exec_bytes(&l));
	struct coll_exec *c = coll_exec_init(memory, &l, blocks, 0);
	uint64_t now = 0;

	if (c == NULL) {
		free(memory);
		return 0;
	}
	while (in.left > 0) {
		const uint32_t what = take8(&in), peer = take8(&in) % (RANKS + 1);
		const uint32_t ordinal = take8(&in) % STEPS;
		const uint64_t offset = take8(&in), len = take8(&in);

		run(c, &l, now);
		now += what * 100;
		if (what & 1) {
			coll_permitted(c, peer, ordinal, len);
			continue;
		}
		const int step = coll_heard(c, peer, ordinal, offset, len);

		if (step < 0)
			continue;
		MUST((uint32_t)step < l.count && steps[step].op == COLL_RECV &&
			steps[step].peer == peer);
		MUST(offset + len <=
			coll_run_bytes(&blocks[COLL_OUT], steps[step].block, steps[step].blocks));
		coll_arrived(c, (uint32_t)step, len);
	}
	run(c, &l, now);
	free(memory);
	return 0;
}
