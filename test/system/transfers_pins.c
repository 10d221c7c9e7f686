/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote pins in the test of remote memory (transfers.c): who may pin what, how long a pin holds,
 * pins at random, and when there is no room for more.
 */
#include <stdio.h>
#include <sys/mman.h>

#include "transfers.h"

typedef int (*verb)(struct pmx_context *, const struct pmx_transfer *, pmx_transfer_id *);

/* A pin or its release, to its end; told of in every way there is. */
static int
ask(struct end *by, verb verb, const struct pmx_remote *r, uint64_t len, uint32_t flags)
{
	volatile int32_t status = 77;
	const struct pmx_transfer t = {
		.peer = r->owner,
		.key = r->key,
		.remote = flags & PMX_AREA ? 0 : r->addr,
		.len = len,
		.cookie = 12345,
		.flags = flags,
		.status = &status,
	};
	struct pmx_event event = {0};
	pmx_transfer_id id;
	double end = now_s() + STUCK_S;
	int e = verb(by->ctx, &t, &id);

	if (e == 0 && status != 1)
		fail("the status of a pin under way is %d", status);
	while (e == 0 && now_s() < end) {
		nodes_poll();
		e = pmx_transfer_done(by->ctx, id);
	}
	if (status != (e == 1 ? 0 : e))
		fail("a pin that ended with %d has the status %d", e, status);
	if (flags & PMX_EVENT &&
		(pmx_poll_event(by->ctx, &event) != 1 || event.kind != PMX_EVENT_ENDED ||
			event.immediate != 12345 || event.error != status ||
			event.peer.context != r->owner.context))
		fail("a pin that ended with %d has no such event", e);
	/* the other node polls nowhere else */
	while (pmx_sync_wait(by->ctx, 0) != 0) {
		nodes_poll();
		if (now_s() > end) {
			fail("pmx_sync_wait");
			break;
		}
	}
	return e;
}

static int
ask_pin(struct end *by, const struct pmx_remote *r, uint64_t len)
{
	return ask(by, pmx_remote_pin, r, len, draw() % 2 ? PMX_EVENT : 0);
}

static int
ask_unpin(struct end *by, const struct pmx_remote *r)
{
	return ask(by, pmx_remote_unpin, r, 0, draw() % 2 ? PMX_EVENT : 0);
}

void
result_must_be(int result, int right, const char *what)
{
	if (result != right)
		fail("%s: %d (%s), right is %d", what, result,
			pmx_strerror(result < 0 ? result : 0), right);
}

/* Can it be reached? Asked without touching it. */
void
pins_check(void)
{
	struct pmx_remote wrong = ends[2].remote[BY_KERNEL];

	wrong.key ^= 1ull << 40;
	result_must_be(ask_pin(&ends[0], &ends[2].remote[BY_KERNEL], MEMORY), 1, "a pin");
	result_must_be(ask_pin(&ends[0], &ends[2].read_only, 4096), 1,
		"a pin of what may only be read");
	result_must_be(ask_pin(&ends[0], &ends[2].read_only, 4097), -ERANGE,
		"a pin beyond the region");
	result_must_be(ask_pin(&ends[0], &wrong, 1), -ENOKEY, "a pin of what is not there");
	wrong = ends[2].remote[BY_KERNEL];
	wrong.owner.context = 1;
	result_must_be(ask_pin(&ends[0], &wrong, 1), -EPERM, "a pin of what is another's");
	result_must_be(ask_unpin(&ends[0], &wrong), -ENOKEY, "the release of what another has");
	result_must_be(ask_unpin(&ends[0], &ends[2].remote[BY_KERNEL]), 1, "a release");
	result_must_be(ask_unpin(&ends[0], &ends[2].remote[BY_KERNEL]), -ENOKEY,
		"a second release");
	result_must_be(ask_unpin(&ends[3], &ends[2].read_only), -ENOKEY,
		"the release of another's pin");
	result_must_be(ask_unpin(&ends[0], &ends[2].read_only), 1, "a release");
	if (end_remote_context(&ends[0])->kept.pin_places[RMA_PLACES - 1].held)
		fail("the asker's engine believes that it has pins");
}

static uint64_t
locked_bytes(void)
{
	FILE *f = must(fopen("/proc/self/status", "r"));
	unsigned long kb = 0;
	char line[128];

	while (fgets(line, sizeof(line), f) != NULL)
		sscanf(line, "VmLck: %lu", &kb);
	fclose(f);
	return (uint64_t)kb << 10;
}

#define PINNED 65536u

/* Check that who gives pinned memory up asks nobody. */
static void
pins_check_freed(struct end *owner)
{
	struct pmx_remote gone;
	void *p;

	result_must_be(pmx_alloc(owner->ctx, PINNED, &p), 0, "pmx_alloc");
	result_must_be(pmx_register(owner->ctx, p, PINNED, PMX_REMOTE_READ, &gone), 0,
		"pmx_register");
	result_must_be(ask_pin(&ends[0], &gone, PINNED), 1, "a pin");
	pmx_free(owner->ctx, p);
	result_must_be(pmx_deregister(owner->ctx, gone.key), -ENOKEY,
		"pmx_deregister of memory that was freed");
	result_must_be(ask_pin(&ends[0], &gone, PINNED), -ENOKEY, "a pin of memory that was freed");
	result_must_be(ask_unpin(&ends[0], &gone), -ENOKEY, "the release of memory that was freed");
}

/* While others have it pinned a region stays, and its pages locked; not longer. */
void
pins_check_hold(struct end *owner)
{
	const uint32_t id = 1000;
	uint8_t *memory = memory_mapped(PINNED);
	struct pmx_remote r, area;
	uint64_t before = locked_bytes();

	/* with address sanitizers nothing is ever locked */
	mlock(memory, PINNED);
	const uint64_t locked = locked_bytes() - before;

	munlock(memory, PINNED);

	result_must_be(pmx_register(owner->ctx, memory, PINNED, PMX_REMOTE_WRITE, &r), 0,
		"pmx_register");
	result_must_be(pmx_area_register(owner->ctx, id, memory, 4096, PMX_ANYONE | PMX_REMOTE_READ,
			       &area),
		0, "pmx_area_register");
	const uint64_t area_key = area.key;

	area.key = id;                        /* which others name it by */
	for (unsigned i = 0; i < ENDS; i++) { /* the owner itself among them */
		struct end *by = &ends[i];
		const uint64_t key = r.key;

		result_must_be(ask_pin(by, &r, PINNED), 1, "a pin");
		result_must_be(pmx_deregister(owner->ctx, key), -EBUSY,
			"pmx_deregister of what is pinned");
		result_must_be(ask_pin(by, &r, 1), 1, "a second pin");
		result_must_be(ask(by, pmx_remote_pin, &area, 4096, PMX_AREA), 1,
			"a pin of an area");
		result_must_be(ask_unpin(by, &r), 1, "the release of the second");
		result_must_be(pmx_deregister(owner->ctx, key), -EBUSY,
			"pmx_deregister of what is still pinned once");
		pmx_invalidate(memory, PINNED);
		if (locked_bytes() < before + locked)
			fail("%lu bytes are locked, with pinned memory among them it should be %lu",
				locked_bytes(), before + locked);
		result_must_be(ask_unpin(by, &r), 1, "the release of the first");
		result_must_be(ask_unpin(by, &r), -ENOKEY, "a release too many");
		result_must_be(pmx_deregister(owner->ctx, key), 0,
			"pmx_deregister of what is no longer pinned");
		result_must_be(ask_unpin(by, &r), -ENOKEY, "the release of what is gone");
		result_must_be(ask(by, pmx_remote_unpin, &area, 0, PMX_AREA), 1,
			"the release of an area");
		result_must_be(pmx_register(owner->ctx, memory, PINNED, PMX_REMOTE_WRITE, &r), 0,
			"pmx_register");
	}
	result_must_be(pmx_deregister(owner->ctx, r.key), 0, "pmx_deregister");
	result_must_be(pmx_deregister(owner->ctx, area_key), 0, "pmx_deregister of an area");
	pmx_invalidate(memory, PINNED);
	if (locked_bytes() != before)
		fail("%lu bytes are locked, %lu were before", locked_bytes(), before);
	pins_check_freed(owner);
	munmap(memory, PINNED);
}

/* ------------------------------------------------------------------ pins at random */

#define REGIONS 3

static void
none_must_be_left(void)
{
	for (unsigned n = 0; n < NODES; n++) {
		const struct engine *e = &nodes[n]->embedded->engines[0];

		if (rma_lane(e)->rma->pins_used != 0 ||
			e->counters[ENGINE_pins_granted] != e->counters[ENGINE_pins_released])
			fail("node %u: %u pins are left, %lu were granted, %lu released", n,
				rma_lane(e)->rma->pins_used, e->counters[ENGINE_pins_granted],
				e->counters[ENGINE_pins_released]);
		for (unsigned c = 0; c < CONTEXTS; c++) {
			const struct rma_context *remote = rma_lane(e)->rma->contexts[c];

			if (remote->pins != 0 || pinning_any(remote))
				fail("node %u context %u: pins are left", n, c);
		}
	}
}

/* Any context pins and releases any of some regions; their owners try to end them. */
void
pins_check_random(unsigned steps)
{
	struct pmx_remote r[NODES][REGIONS];
	uint32_t pins[ENDS][NODES][REGIONS] = {0};
	uint8_t *memory = memory_mapped(REGIONS * PINNED);

	for (unsigned n = 0; n < NODES; n++) {
		for (unsigned k = 0; k < REGIONS; k++)
			result_must_be(pmx_register(ends[n * CONTEXTS].ctx, memory + k * PINNED,
					       PINNED, PMX_REMOTE_READ, &r[n][k]),
				0, "pmx_register");
	}
	for (unsigned i = 0; i < steps && !failed; i++) {
		unsigned by = draw() % ENDS, n = draw() % NODES, k = draw() % REGIONS;
		uint32_t *mine = &pins[by][n][k], all = 0, records = 0;

		for (unsigned e = 0; e < ENDS; e++) {
			all += pins[e][n][k];
			for (unsigned of = 0; of < REGIONS; of++)
				records += pins[e][n][of] != 0;
		}
		bool room = *mine != 0 || records < (nodes[n]->embedded->config.regions + 1) / 2;

		switch (draw() % 4) {
		case 0:
			result_must_be(ask_pin(&ends[by], &r[n][k], PINNED), room ? 1 : -ENOSPC,
				"a pin");
			*mine += room;
			break;
		case 1:
		case 2:
			result_must_be(ask_unpin(&ends[by], &r[n][k]), *mine ? 1 : -ENOKEY,
				"a release");
			*mine -= *mine != 0;
			break;
		default:
			result_must_be(pmx_deregister(ends[n * CONTEXTS].ctx, r[n][k].key),
				all ? -EBUSY : 0, "pmx_deregister");
			if (all == 0)
				result_must_be(pmx_register(ends[n * CONTEXTS].ctx,
						       memory + k * PINNED, PINNED, PMX_REMOTE_READ,
						       &r[n][k]),
					0, "pmx_register");
		}
	}
	for (unsigned n = 0; n < NODES; n++) {
		for (unsigned k = 0; k < REGIONS; k++) {
			for (unsigned by = 0; by < ENDS; by++) {
				for (; pins[by][n][k] && !failed; pins[by][n][k]--)
					result_must_be(ask_unpin(&ends[by], &r[n][k]), 1,
						"a release");
			}
			result_must_be(pmx_deregister(ends[n * CONTEXTS].ctx, r[n][k].key), 0,
				"pmx_deregister");
		}
	}
	none_must_be_left();
	munmap(memory, REGIONS * PINNED);
}

/* No room for more, at their owner and at who asks. */
void
pins_check_full(void)
{
	struct end *owner = &ends[2], *by = &ends[0];
	struct rma_context *remote = end_remote_context(by);
	uint32_t most = (owner->ctx->node->embedded->config.regions + 1) / 2, n = 0;
	struct pmx_remote r[ENDS * 4];
	struct end *asker[ENDS * 4];

	for (unsigned i = 0; i < RMA_PLACES; i++)
		remote->kept.pin_places[i] =
			(struct pin_place){.node = 9, .ctx = (uint16_t)i, .held = true};
	result_must_be(ask_pin(by, &owner->read_only, 1), -ENOSPC, "a pin at one context too many");
	remote->kept.pin_places[7].held = false;
	result_must_be(ask_pin(by, &owner->read_only, 1), 1, "a pin in the last place");
	result_must_be(ask_unpin(by, &owner->read_only), 1, "a release");
	memset(remote->kept.pin_places, 0, sizeof(remote->kept.pin_places));
	for (unsigned i = 0; i < ENDS; i++) {
		for (unsigned k = 0; k < PLACES + 1; k++, n++) {
			r[n] = k < PLACES ? owner->remote[k] : owner->read_only;
			asker[n] = &ends[i];
			result_must_be(ask_pin(asker[n], &r[n], 1), n < most ? 1 : -ENOSPC,
				"a pin among many");
		}
	}
	if (n > most) { /* who has one already may have it twice, and one that goes makes room */
		result_must_be(ask_pin(asker[0], &r[0], 1), 1, "a second pin");
		result_must_be(ask_unpin(asker[0], &r[0]), 1, "its release");
		result_must_be(ask_unpin(asker[1], &r[1]), 1, "a release");
		result_must_be(ask_pin(asker[most], &r[most], 1), 1, "a pin in its place");
		result_must_be(ask_pin(asker[1], &r[1], 1), -ENOSPC, "a pin among many");
		result_must_be(ask_unpin(asker[most], &r[most]), 1, "a release");
		result_must_be(ask_pin(asker[1], &r[1], 1), 1, "a pin in its place");
	}
	for (unsigned i = 0; i < n && i < most; i++)
		result_must_be(ask_unpin(asker[i], &r[i]), 1, "a release");
}

/* ends[0] and ends[3] close, and release nothing of what they have pinned at the others. */
void
pins_leave(void)
{
	for (unsigned i = 0; i < ENDS; i++) {
		if (i != 3) /* which is the first to go */
			result_must_be(ask_pin(&ends[0], &ends[i].read_only, 1), 1, "a pin");
		result_must_be(ask_pin(&ends[3], &ends[i].read_only, 1), 1, "a pin");
		result_must_be(pmx_deregister(ends[i].ctx, ends[i].read_only.key), -EBUSY,
			"pmx_deregister of what is pinned");
	}
}
