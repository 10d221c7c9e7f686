/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Steps of the script (test_script.c): remote memory, pushes and pulls whole and in parts, their
 * order and events, regions that end, and pins.
 */
#include "script_steps.h"

/* ------------------------------------------------------------------ remote memory */

static uint8_t *local, *remote; /* shared memory of 0.0 and of the owner */
static struct pmx_remote region;

static void
open_region(unsigned node, unsigned context)
{
	void *p;

	assert_int_equal(pmx_alloc(ctx[0][0], REGION, &p), 0);
	local = p;
	assert_int_equal(pmx_alloc(ctx[node][context], REGION, &p), 0);
	remote = p;
	assert_int_equal(pmx_register(ctx[node][context], remote, REGION,
				 PMX_REMOTE_READ | PMX_REMOTE_WRITE, &region),
		0);
	record_memory(remote, REGION);
	record_memory(bytes_in, REGION);
	bytes_fill(local, REGION, 1);
	bytes_fill(remote, REGION, 2);
	bytes_fill(bytes_out, REGION, 3);
}

static struct pmx_transfer
transfer(void *from, uint64_t len, const struct pmx_part *part, uint32_t flags)
{
	return (struct pmx_transfer){
		.peer = region.owner,
		.key = region.key,
		.remote = region.addr,
		.local = from,
		.len = len,
		.part = part,
		.flags = flags,
	};
}

static void
note_end(pmx_transfer_id id, const char *what)
{
	UNTIL(pmx_transfer_done(ctx[0][0], id) != 0);
	record_note("%s: %d; there %08x, here %08x", what, pmx_transfer_done(ctx[0][0], id),
		(unsigned)(record_sum(remote, REGION) >> 32),
		(unsigned)(record_sum(local, REGION) >> 32));
}

static void
push(const struct pmx_transfer *t, const char *what)
{
	pmx_transfer_id id;

	assert_int_equal(pmx_push(ctx[0][0], t, &id), 0);
	note_end(id, what);
}

static void
pull(const struct pmx_transfer *t, const char *what)
{
	pmx_transfer_id id;

	assert_int_equal(pmx_pull(ctx[0][0], t, &id), 0);
	note_end(id, what);
}

static void
transfers_of_lengths(const char *step, unsigned node, unsigned context)
{
	static const uint64_t lens[] = {0, 8, 100, 1400, 1500, 5000, LONG};

	script_start(step, "client", "");
	open_region(node, context);
	for (unsigned i = 0; i < RTE_DIM(lens); i++) {
		struct pmx_transfer t = transfer(local, lens[i], NULL, 0);

		push(&t, "push");
		t.remote += 1001;
		t.local = local + 3;
		pull(&t, "pull");
		t.local = bytes_out;
		push(&t, "push of private memory");
		t.local = bytes_in;
		pull(&t, "pull into private memory");
	}
	script_judge(step);
}

void
transfers__lengths(void **state)
{
	(void)state;
	transfers_of_lengths(__func__, 1, 0);
}

void
transfers__lengths_on_own_node(void **state)
{
	(void)state;
	transfers_of_lengths(__func__, 0, 1);
}

void
transfers__parts(void **state)
{
	static const uint64_t bits[16] = {0x5, 0xFF00, 0, 1ull << 63, 0, 0xAAAAAAAAAAAAAAAA};
	const struct pmx_part stride = {
		.kind = PMX_PART_STRIDE,
		.dims = 2,
		.block = 24,
		.interval = {100, 5000},
		.count = {30, 4},
	};
	const struct pmx_part wide = {
		.kind = PMX_PART_STRIDE,
		.dims = 1,
		.block = 3000,
		.interval = {5000},
		.count = {4},
	};
	const struct pmx_part bitmap = {.kind = PMX_PART_BITMAP, .unit = 64, .bits = bits};
	struct pmx_part twin = {.kind = PMX_PART_TWIN}, diff = {.kind = PMX_PART_DIFF};
	const struct pmx_part *parts[] = {&stride, &wide, &bitmap};
	void *copy;

	(void)state;
	script_start(__func__, "client", "");
	open_region(1, 0);
	for (unsigned i = 0; i < RTE_DIM(parts); i++) {
		struct pmx_transfer t = transfer(local, i == 2 ? 64 * 64 * 6 : 20000, parts[i], 0);

		push(&t, "push of a part");
		t.remote += 50000;
		pull(&t, "pull of a part");
	}
	copy = bytes_in;
	twin.twin = diff.twin = copy;
	struct pmx_transfer t = transfer(local, 10000, &twin, 0);

	pull(&t, "pull with a twin");
	for (unsigned i = 0; i < 10000; i += 700)
		local[i] ^= 0x55;
	t.part = &diff;
	push(&t, "push of what differs");
	push(&t, "push of nothing that differs");
	script_judge(__func__);
}

/* Check that what is short waits for what is long, and that both sides are told. */
void
transfers__order_and_events(void **state)
{
	struct pmx_event e;

	(void)state;
	script_start(__func__, "client", "");
	open_region(1, 0);
	for (unsigned i = 0; i < 6; i++) {
		struct pmx_transfer t = transfer(local, i % 2 ? 16 : 20000, NULL,
			PMX_ORDERED | PMX_EVENT | (i % 3 != 2 ? PMX_NOTIFY : 0));

		t.immediate = 100 + i;
		t.cookie = 200 + i;
		assert_int_equal(pmx_push(ctx[0][0], &t, NULL), 0);
	}
	script_settle();
	for (unsigned n = 0; n < NODES; n++) {
		while (pmx_poll_event(ctx[n][0], &e) == 1)
			record_note("%u.0 is told: kind %u, of %u.%u, %u bytes, %u, error %d", n,
				e.kind, e.peer.node, e.peer.context, (unsigned)e.len,
				(unsigned)e.immediate, e.error);
	}
	script_judge(__func__);
}

void
transfers__regions_that_end(void **state)
{
	struct pmx_remote own = {.key = 0}, area = {.key = 0};
	struct pmx_transfer t;

	(void)state;
	script_start(__func__, "client", "");
	open_region(1, 0);
	assert_int_equal(pmx_area_register(ctx[1][0], 5, bytes_in, 10000,
				 PMX_ANYONE | PMX_REMOTE_READ, &area),
		0);
	assert_int_equal(pmx_register(ctx[1][1], bytes_out, 100, PMX_REMOTE_WRITE, &own), 0);
	record_memory(bytes_out, REGION);
	t = transfer(local, 300, NULL, PMX_AREA);
	t.key = 5;
	t.remote = 40;
	pull(&t, "pull from an area");
	push(&t, "push to an area that is read only");
	t.remote = 9900;
	pull(&t, "pull beyond the area");
	t = transfer(local, 100, NULL, 0);
	t.key = own.key;
	t.remote = own.addr;
	push(&t, "push to a region of another context");
	record_note("deregistered: %d", pmx_deregister(ctx[1][0], region.key));
	record_note("deregistered again: %d", pmx_deregister(ctx[1][0], region.key));
	t = transfer(local, 100, NULL, 0);
	push(&t, "push to a region that has ended");
	t.len = 20000;
	pull(&t, "pull from a region that has ended");
	script_judge(__func__);
}

void
pins__count_and_end(void **state)
{
	pmx_transfer_id id;
	struct pmx_transfer t;

	(void)state;
	script_start(__func__, "client", "");
	open_region(1, 0);
	t = transfer(local, 4096, NULL, 0);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pmx_remote_pin(ctx[0][0], &t, &id), 0);
		note_end(id, "pin");
	}
	record_note("deregistered: %d", pmx_deregister(ctx[1][0], region.key));
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(pmx_remote_unpin(ctx[0][0], &t, &id), 0);
		note_end(id, "unpin");
	}
	assert_int_equal(pmx_remote_pin(ctx[0][0], &t, &id), 0);
	note_end(id, "pin");
	pmx_context_close(ctx[0][0]); /* with what it had pinned */
	script_open_context(0, 0);
	script_settle();
	record_note("deregistered: %d", pmx_deregister(ctx[1][0], region.key));
	script_judge(__func__);
}

void
transfers__lost_frames(void **state)
{
	struct pmx_transfer t;

	(void)state;
	script_start(__func__, "client", "[proto]\nrto_min_us = 200\nrto_max_us = 5000");
	open_region(1, 0);
	lose_every = 7;
	t = transfer(local, 30000, NULL, 0);
	push(&t, "push");
	t.remote += 100;
	pull(&t, "pull");
	script_judge(__func__);
}
