/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Parts in the test of remote memory (transfers.c): which verb refuses which, and what the diffs of
 * two writers leave in a page of both.
 */
#include <stdlib.h>

#include "transfers.h"

#define PAGE 4096u

/* A writer's page, as it is and as it was. */
struct writer {
	struct pmx_context *ctx;
	uint8_t *now, *twin;
	struct pmx_part part; /* of the transfer under way */
	pmx_transfer_id id;
};

static bool
writer_pushes(struct writer *w, uint8_t *home, const struct pmx_remote *r)
{
	const struct pmx_transfer t = {
		.peer = r->owner,
		.key = r->key,
		.remote = (uintptr_t)home,
		.local = w->now,
		.len = PAGE,
		.part = &w->part,
	};
	double end = now_s() + STUCK_S;
	int e;

	w->part = (struct pmx_part){.kind = PMX_PART_DIFF, .twin = w->twin};
	while ((e = pmx_push(w->ctx, &t, &w->id)) == -EAGAIN && now_s() < end) {
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
	}
	if (e != 0)
		fail("two writers: %s", pmx_strerror(e));
	return e == 0;
}

/* RHiNET, section 2.7: two nodes change different bytes of one page at once; their diffs leave all
 * changes in it. */
void
parts_check_two_writers(unsigned rounds)
{
	const struct pmx_remote *r = &ends[3].remote[BY_ENGINE];
	uint8_t *home = ends[3].memory[BY_ENGINE], model[PAGE];
	struct writer w[2] = {{.ctx = ends[0].ctx}, {.ctx = ends[2].ctx}};

	bytes_fill(home, PAGE);
	memcpy(model, home, PAGE);
	for (unsigned i = 0; i < 2; i++) {
		w[i].now = must(malloc(PAGE));
		w[i].twin = must(malloc(PAGE));
	}
	for (unsigned k = 0; k < rounds && !failed; k++) {
		double end = now_s() + STUCK_S;
		int e[2] = {0, 0};

		for (unsigned i = 0; i < 2; i++) {
			memcpy(w[i].now, model, PAGE);
			memcpy(w[i].twin, model, PAGE);
		}
		/* each byte has one writer at most, the neighbour of one's may be the other's */
		for (unsigned n = draw() % 200, at = 0; n > 0 && (at += 1 + draw() % 40) < PAGE;
			n--)
			model[at] = w[draw() % 2].now[at] = (uint8_t)draw();
		if (!writer_pushes(&w[0], home, r) || !writer_pushes(&w[1], home, r))
			break;
		while ((e[0] == 0 || e[1] == 0) && now_s() < end) {
			pmx_node_poll(nodes[0]);
			pmx_node_poll(nodes[1]);
			for (unsigned i = 0; i < 2; i++)
				e[i] = e[i] ? e[i] : pmx_transfer_done(w[i].ctx, w[i].id);
		}
		if (e[0] != 1 || e[1] != 1)
			fail("two writers, round %u: %d %d", k, e[0], e[1]);
		else if (memcmp(home, model, PAGE) != 0)
			fail("two writers, round %u: the page is another", k);
	}
	for (unsigned i = 0; i < 2; i++) {
		free(w[i].now);
		free(w[i].twin);
	}
}

/* RHiNET's table 1: which verb takes which part. */
void
parts_check_refused(void)
{
	const struct pmx_remote *r = &ends[2].remote[BY_ENGINE];
	static const uint64_t bits = 5;
	struct pmx_part part = {.twin = ends[0].tasks[0].twin};
	struct pmx_transfer t = {
		.peer = r->owner,
		.key = r->key,
		.remote = r->addr,
		.local = ends[0].local[BY_ENGINE],
		.len = 64,
		.part = &part,
	};

	part.kind = PMX_PART_TWIN;
	if (pmx_push(ends[0].ctx, &t, NULL) != -EOPNOTSUPP)
		fail("a push with a twin");
	part.kind = PMX_PART_DIFF;
	if (pmx_pull(ends[0].ctx, &t, NULL) != -EOPNOTSUPP)
		fail("a pull with a diff");
	part.kind = 9;
	if (pmx_push(ends[0].ctx, &t, NULL) != -EINVAL || pmx_part_problem(&part, 64) == NULL)
		fail("a part of no kind");
	part = (struct pmx_part){
		.kind = PMX_PART_STRIDE,
		.dims = 1,
		.block = 8,
		.interval = {16},
		.count = {5},
	};
	if (pmx_pull(ends[0].ctx, &t, NULL) != -EINVAL || pmx_part_problem(&part, 64) == NULL)
		fail("a stride beyond its transfer");
	part = (struct pmx_part){.kind = PMX_PART_BITMAP, .unit = 8, .bits = &bits};
	t.flags = PMX_NOTIFY;
	if (pmx_pull(ends[0].ctx, &t, NULL) != -EOPNOTSUPP)
		fail("a pull by a bitmap with a notification");
}
