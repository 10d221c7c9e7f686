/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the verbs promise of remote memory and no byte of it shows: that a wait waits and ends in
 * time, that order is kept, what is left of a transfer that fails, how notifications wait for room,
 * and that the limits of the cache of pinned memory hold. Two embedded nodes: embedded_pair.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "embedded_pair.h"
#include "rma/client/rma.h"
#include "rma/engine/rma.h"
#include "rma/internal.h"

#define REGION (1u << 20)

/* ---------------------------------------------------------------- remote memory: waiting, order */

static uint8_t *local[2], *remote; /* of context 0 of node 0, and where it pushes to */
static struct pmx_remote region;

static void
open_regions(struct pmx_context *owner)
{
	void *p;

	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pmx_alloc(ctx[0][0], REGION, &p), 0);
		local[i] = p;
	}
	assert_int_equal(pmx_alloc(owner, REGION, &p), 0);
	remote = p;
	assert_int_equal(
		pmx_register(owner, remote, REGION, PMX_REMOTE_READ | PMX_REMOTE_WRITE, &region),
		0);
}

/* To or from the first `len` bytes of the region. */
static struct pmx_transfer
transfer(uint8_t *from, uint64_t len, const struct pmx_part *part, uint32_t flags)
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

/* Within one node, which nobody polls but the wait: what is pending when it begins is done by it
 * alone. */
static void
rhi_sync__waits_for_all_own_transfers(void **state)
{
	static const uint64_t lens[] = {100, 5000, REGION};
	volatile int32_t status[4];

	(void)state;
	pair_start("client", "");
	open_regions(ctx[0][1]);
	bytes_fill(local[0], REGION, 3);
	memset(local[1], 0, REGION);
	for (unsigned i = 0; i < 3; i++) {
		struct pmx_transfer t = transfer(local[0], lens[i], NULL, 0);

		t.status = &status[i];
		assert_int_equal(pmx_push(ctx[0][0], &t, NULL), 0);
		assert_int_equal(status[i], 1);
	}
	struct pmx_transfer pull = transfer(local[1], REGION, NULL, PMX_ORDERED);

	pull.status = &status[3];
	assert_int_equal(pmx_pull(ctx[0][0], &pull, NULL), 0);
	assert_int_equal(pmx_transfers_pending(ctx[0][0]), 4);
	assert_int_equal(pmx_sync_wait(ctx[0][0], 10 * 1000 * 1000), 0);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(status[i], 0);
	assert_int_equal(pmx_transfers_pending(ctx[0][0]), 0);
	assert_memory_equal(remote, local[0], REGION);
	assert_memory_equal(local[1], local[0], REGION);
}

/* A part is packed in send buffers as these become free: there are fewer than it has frames. */
static void
rhi_part__longer_than_all_send_buffers(void **state)
{
	const struct pmx_part every_second = {
		.kind = PMX_PART_STRIDE,
		.dims = 1,
		.block = 64,
		.interval = {128},
		.count = {REGION / 128},
	};

	(void)state;
	pair_start("client", "send_buffers = 4");
	open_regions(ctx[1][0]);
	bytes_fill(local[0], REGION, 7);
	memset(remote, 0, REGION);
	const struct pmx_transfer t = transfer(local[0], REGION, &every_second, 0);

	assert_int_equal(pmx_push(ctx[0][0], &t, NULL), 0);
	UNTIL(pmx_transfers_pending(ctx[0][0]) == 0);
	for (uint32_t at = 0; at < REGION; at += 128) {
		assert_memory_equal(remote + at, local[0] + at, 64);
		assert_int_equal(remote[at + 64] | remote[at + 127], 0);
	}
}

/* The engine writes the bytes of a pull, and its status; a twin is written by the library, so then
 * the status is too, in its next call. */
static void
rhi_twin__status_comes_with_the_twin(void **state)
{
	static uint8_t twin[5000];
	const struct pmx_part part = {.kind = PMX_PART_TWIN, .twin = twin};

	(void)state;
	pair_start("client", "");
	open_regions(ctx[1][0]);
	volatile int32_t *const status = (void *)local[1]; /* where the engine can write it */

	for (unsigned with_twin = 0; with_twin < 2; with_twin++) {
		struct pmx_transfer t = transfer(local[0], sizeof(twin), with_twin ? &part : NULL,
			0);

		t.status = status;
		bytes_fill(remote, sizeof(twin), 11 + with_twin);
		memset(local[0], 0, sizeof(twin));
		assert_int_equal(pmx_pull(ctx[0][0], &t, NULL), 0);
		UNTIL(memcmp(local[0], remote, sizeof(twin)) == 0);
		for (unsigned i = 0; i < 100; i++)
			pair_poll();
		assert_int_equal(*status, with_twin);
		assert_int_equal(pmx_transfers_pending(ctx[0][0]), 0);
		assert_int_equal(*status, 0);
		assert_int_equal(memcmp(twin, remote, sizeof(twin)) == 0, with_twin);
	}
}

/* The other node stands still: it cannot end, and the wait says so, not before its time. */
static void
rhi_sync__ends_when_its_time_is_over(void **state)
{
	int64_t begin;

	(void)state;
	pair_start("client", "");
	open_regions(ctx[1][0]);
	bytes_fill(local[0], REGION, 5);
	const struct pmx_transfer t = transfer(local[0], REGION, NULL, 0);

	assert_int_equal(pmx_push(ctx[0][0], &t, NULL), 0);
	assert_int_equal(pmx_sync_wait(ctx[0][0], 0), -ETIMEDOUT);
	begin = now_us();
	assert_int_equal(pmx_sync_wait(ctx[0][0], 20000), -ETIMEDOUT);
	assert_true(now_us() - begin >= 20000);
	assert_int_equal(pmx_transfers_pending(ctx[0][0]), 1);
	UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
	assert_memory_equal(remote, local[0], REGION);
}

/* All of it, but packed by the library as parts are. */
static const struct pmx_part all_of_it = {
	.kind = PMX_PART_STRIDE, .dims = 1, .block = REGION, .interval = {REGION}, .count = {1}};

/* A push in parts is the library's, what was submitted before is the engine's, which sends it as
 * windows allow. */
static void
ordered__a_push_in_parts_waits_for_a_long_push(void **state)
{
	(void)state;
	pair_start("client", "");
	open_regions(ctx[1][0]);
	memset(local[0], 0x11, REGION);
	memset(local[1], 0x22, REGION);
	const struct pmx_part end = {
		.kind = PMX_PART_BITMAP,
		.unit = 4096,
		.bits = (uint64_t[]){0, 0, 0, 1ull << 63},
	};
	const struct pmx_transfer first = transfer(local[0], REGION, NULL, 0),
				  second = transfer(local[1], REGION, &end, PMX_ORDERED);

	assert_int_equal(pmx_push(ctx[0][0], &first, NULL), 0);
	assert_int_equal(pmx_push(ctx[0][0], &second, NULL), 0);
	UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
	assert_int_equal(remote[0], 0x11);
	assert_int_equal(remote[REGION - 4097], 0x11);
	assert_int_equal(remote[REGION - 4096], 0x22);
	assert_int_equal(remote[REGION - 1], 0x22);
}

/* ... and what it has not begun itself is nobody else's to know. */
static void
ordered__a_long_push_waits_for_one_that_is_held(void **state)
{
	(void)state;
	pair_start("client", "");
	open_regions(ctx[1][0]);
	memset(local[0], 0x11, REGION);
	memset(local[1], 0x22, REGION);
	const struct pmx_transfer first = transfer(local[0], REGION, NULL, 0),
				  second = transfer(local[1], REGION, &all_of_it, PMX_ORDERED),
				  third = transfer(local[0], REGION, NULL, PMX_ORDERED);

	assert_int_equal(pmx_push(ctx[0][0], &first, NULL), 0);
	assert_int_equal(pmx_push(ctx[0][0], &second, NULL), 0);
	assert_int_equal(pmx_push(ctx[0][0], &third, NULL), 0);
	UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
	for (uint32_t i = 0; i < REGION; i++)
		assert_int_equal(remote[i], 0x11);
}

/* Both are the engine's; only it knows when the last answer has come. */
static void
ordered__a_long_push_waits_for_a_pull(void **state)
{
	(void)state;
	pair_start("client", "");
	open_regions(ctx[1][0]);
	memset(remote, 0x33, REGION);
	memset(local[0], 0, REGION);
	memset(local[1], 0x44, REGION);
	const struct pmx_transfer pull = transfer(local[0], REGION, NULL, 0),
				  push = transfer(local[1], REGION, NULL, PMX_ORDERED);

	assert_int_equal(pmx_pull(ctx[0][0], &pull, NULL), 0);
	assert_int_equal(pmx_push(ctx[0][0], &push, NULL), 0);
	UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
	for (uint32_t i = 0; i < REGION; i++) {
		assert_int_equal(local[0][i], 0x33);
		assert_int_equal(remote[i], 0x44);
	}
}

/* ------------------------------------------------- remote memory: what is left, what is refused */

static void
pull__what_the_port_still_has_is_sent_again_as_a_copy(void **state)
{
	const uint64_t *c;

	(void)state;
	pair_start("client", "[proto]\nrto_min_us = 200");
	open_regions(ctx[1][0]);
	c = nodes[1]->embedded->engines[0].counters;
	bytes_fill(remote, REGION, 9);
	memset(local[0], 0, REGION);
	keep_and_lose = 10;
	const struct pmx_transfer t = transfer(local[0], REGION, NULL, 0);

	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(pmx_pull(ctx[0][0], &t, NULL), 0);
		UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
	}
	assert_memory_equal(local[0], remote, REGION);
	assert_true(c[ENGINE_tx_still_queued] > 50);
}

/* Check that what was to be answered is forgotten when the one who asked answers no more, so that
 * others may ask. */
static void
pull__a_peer_that_fails_leaves_no_question(void **state)
{
	const struct rma *x;

	(void)state;
	pair_start("client",
		"transfer_frames = 16\n[proto]\nrto_min_us = 200\nrto_max_us = 1000\n"
		"retries = 3");
	open_regions(ctx[1][0]);
	x = rma_lane(&nodes[1]->embedded->engines[0])->rma;
	const struct pmx_transfer t = transfer(local[0], REGION, NULL, 0);

	assert_int_equal(pmx_pull(ctx[0][0], &t, NULL), 0);
	UNTIL(x->requests.head != NULL);
	memset(sent_ops, 0, sizeof(sent_ops));
	for (int64_t end = now_us() + 20 * 1000 * 1000; x->requests.head != NULL && now_us() < end;)
		pmx_node_poll(nodes[1]); /* node 0 stands still */
	assert_null(x->requests.head);
	/* and not all that was asked for is sent to nobody */
	assert_true(sent_ops[1][WIRE_PULLED] < REGION / 1500 / 2);
	UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
	UNTIL(x->frames_free == x->cfg.frames_max);
}

/* Return what node 1 has of remote memory of its context 0. */
static const struct rma_context *
remote_context(void)
{
	return rma_lane(&nodes[1]->embedded->engines[0])->rma->contexts[0];
}

/* The place of every question and notification at context 0 of node 1 is free. */
static void
check_requests(void)
{
	uint32_t free = 0;

	for (const struct rma_request *r = remote_context()->free_requests; r != NULL; r = r->next)
		assert_true(++free <= nodes[1]->embedded->config.requests);
	assert_int_equal(free, nodes[1]->embedded->config.requests);
}

/* The ring of events is full: what waits for room is not overtaken by what comes just when there is
 * some. */
static void
rhi_sig__notifications_keep_their_order(void **state)
{
	struct pmx_event event;

	(void)state;
	pair_start("client", "events = 1");
	open_regions(ctx[1][0]);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned i = 0; i < 5; i++) {
			struct pmx_transfer t = transfer(local[0], 8, NULL, PMX_NOTIFY);

			t.immediate = i;
			assert_int_equal(pmx_push(ctx[0][0], &t, NULL), 0);
			if (i < 4)
				UNTIL(remote_context()->events_waiting == i);
		}
		pmx_node_poll(nodes[0]); /* the last one is on its way */
		assert_int_equal(pmx_poll_event(ctx[1][0], &event), 1);
		assert_int_equal(event.immediate, 0);
		for (unsigned i = 1; i < 5; i++) {
			pmx_node_poll(nodes[1]);
			UNTIL(pmx_poll_event(ctx[1][0], &event) == 1);
			assert_int_equal(event.immediate, i);
		}
		UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
		assert_int_equal(pmx_poll_event(ctx[1][0], &event), 0);
		UNTIL(rma_lane(&nodes[1]->embedded->engines[0])->rma->requests.head == NULL);
	}
	check_requests();
}

/* The place of a question that was refused serves another one, which ends well. */
static void
rhi_sig__a_notification_that_waited_ends_well_after_a_refusal(void **state)
{
	static const int ends[] = {1, -ENOKEY, 1};
	struct pmx_event event;
	pmx_transfer_id id[3];

	(void)state;
	pair_start("client", "events = 1");
	open_regions(ctx[1][0]);
	for (unsigned i = 0; i < 3; i++) {
		struct pmx_transfer t = transfer(local[0], 8, NULL, PMX_NOTIFY);

		t.key += i == 1;
		assert_int_equal(pmx_push(ctx[0][0], &t, &id[i]), 0);
		if (i < 2)
			UNTIL(pmx_transfer_done(ctx[0][0], id[i]) != 0);
	}
	UNTIL(remote_context()->events_waiting == 1);
	for (unsigned i = 0; i < 2; i++)
		UNTIL(pmx_poll_event(ctx[1][0], &event) == 1);
	for (unsigned i = 0; i < 3; i++) {
		UNTIL(pmx_transfer_done(ctx[0][0], id[i]) != 0);
		assert_int_equal(pmx_transfer_done(ctx[0][0], id[i]), ends[i]);
	}
	check_requests();
}

/* ... and what nobody takes any more is forgotten. */
static void
rhi_sig__notifications_that_wait_end_with_their_context(void **state)
{
	(void)state;
	pair_start("client", "events = 1");
	open_regions(ctx[1][0]);
	for (unsigned i = 0; i < 5; i++) {
		const struct pmx_transfer t = transfer(local[0], 8, NULL, PMX_NOTIFY);

		assert_int_equal(pmx_push(ctx[0][0], &t, NULL), 0);
	}
	UNTIL(remote_context()->events_waiting == 4);
	pmx_context_close(ctx[1][0]);
	assert_int_equal(pmx_context_open(&ctx[1][0], nodes[1], 0, NULL), 0);
	UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
	check_requests();
}

/* Check that the owner of memory that was pulled is told when the puller has it. For that a puller
 * needs the right to read, and no other right. */
static void
rhi_sig__a_pull_tells_its_target(void **state)
{
	static const uint64_t lens[] = {0, 8, REGION};
	const struct pmx_part stride = {
		.kind = PMX_PART_STRIDE,
		.dims = 1,
		.block = 8,
		.interval = {64},
		.count = {4},
	};
	const uint64_t bits[1] = {5};
	const struct pmx_part bitmap = {.kind = PMX_PART_BITMAP, .unit = 8, .bits = bits};
	static uint8_t only_read[64];
	struct pmx_remote read, write;
	struct pmx_event event;
	pmx_transfer_id id;

	(void)state;
	pair_start("client", "");
	open_regions(ctx[1][0]);
	for (unsigned i = 0; i < 4; i++) {
		struct pmx_transfer t = transfer(local[0], i < 3 ? lens[i] : 4 * 64, NULL,
			PMX_NOTIFY);

		t.immediate = 70 + i;
		t.part = i == 3 ? &stride : NULL;
		memset(local[0], 0, REGION);
		assert_int_equal(pmx_pull(ctx[0][0], &t, &id), 0);
		UNTIL(pmx_transfer_done(ctx[0][0], id) != 0);
		assert_int_equal(pmx_transfer_done(ctx[0][0], id), 1);
		UNTIL(pmx_poll_event(ctx[1][0], &event) == 1);
		assert_int_equal(event.kind, PMX_EVENT_PULLED);
		assert_int_equal(event.immediate, 70 + i);
		assert_int_equal(event.len, t.len);
		assert_int_equal(event.peer.node, 0);
		assert_int_equal(pmx_poll_event(ctx[1][0], &event), 0);
	}
	/* the right to read is what it takes */
	assert_int_equal(pmx_register(ctx[1][0], only_read, 64, PMX_REMOTE_READ, &read), 0);
	assert_int_equal(pmx_register(ctx[1][0], only_read, 64, PMX_REMOTE_WRITE, &write), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct pmx_transfer t = transfer(local[0], 64, NULL, PMX_NOTIFY);

		t.key = i == 0 ? read.key : write.key;
		t.remote = (uintptr_t)only_read;
		assert_int_equal(pmx_pull(ctx[0][0], &t, &id), 0);
		UNTIL(pmx_transfer_done(ctx[0][0], id) != 0);
		assert_int_equal(pmx_transfer_done(ctx[0][0], id), i == 0 ? 1 : -EACCES);
	}
	UNTIL(pmx_poll_event(ctx[1][0], &event) == 1);
	assert_int_equal(event.kind, PMX_EVENT_PULLED);
	assert_int_equal(pmx_poll_event(ctx[1][0], &event), 0);
	struct pmx_transfer t = transfer(local[0], 64, NULL, PMX_NOTIFY);

	t.part = &bitmap;
	assert_int_equal(pmx_pull(ctx[0][0], &t, NULL), -EOPNOTSUPP);
	check_requests();
}

/* It is refused, and nobody is killed for want of memory. */
static void
alloc__more_than_there_is_is_refused(void **state)
{
	void *at;

	(void)state;
	pair_start("client", "");
	assert_int_equal(pmx_alloc(ctx[0][0], 1ull << 40, &at), -ENOMEM);
	assert_int_equal(pmx_alloc(ctx[0][0], available_memory() + (1ull << 30), &at), -ENOMEM);
	assert_int_equal(pmx_alloc(ctx[0][0], (1ull << 40) + 1, &at), -EINVAL);
	assert_int_equal(pmx_alloc(ctx[0][0], 8u << 20, &at), 0);
	pmx_free(ctx[0][0], at);
}

/* Short and long, out and in: an error, and none that is tried for ever. */
static void
transfers__to_a_node_that_is_not_there_end(void **state)
{
	static const uint64_t lens[] = {100, REGION};

	(void)state;
	pair_start("client", "");
	open_regions(ctx[1][0]);
	for (unsigned i = 0; i < 4; i++) {
		struct pmx_transfer t = transfer(local[0], lens[i % 2], NULL, 0);
		volatile int32_t status = 0;
		pmx_transfer_id id;

		t.peer.node = 77;
		t.status = &status;
		assert_int_equal(
			i < 2 ? pmx_push(ctx[0][0], &t, &id) : pmx_pull(ctx[0][0], &t, &id), 0);
		UNTIL(pmx_transfer_done(ctx[0][0], id) != 0);
		assert_int_equal(pmx_transfer_done(ctx[0][0], id), -EHOSTUNREACH);
		assert_int_equal(status, -EHOSTUNREACH);
	}
}

static void
register__one_context_never_takes_all_places(void **state)
{
	struct pmx_remote r;
	static uint8_t bytes[64];
	int e = 0;
	unsigned n = 0;

	(void)state;
	pair_start("client", "regions = 16\npin_watch = off");
	while (n < 16 &&
		(e = pmx_register(ctx[0][0], bytes, sizeof(bytes), PMX_REMOTE_READ, &r)) == 0)
		n++;
	assert_int_equal(e, -ENOSPC);
	assert_int_equal(n, 8);
	for (n = 0; n < 8; n++)
		assert_int_equal(pmx_register(ctx[0][1], bytes, sizeof(bytes), PMX_REMOTE_READ, &r),
			0);
	assert_int_equal(pmx_register(ctx[0][1], bytes, sizeof(bytes), PMX_REMOTE_READ, &r),
		-ENOSPC);
}

/* -------------------------------------------------------------- PIN-5: what is configured holds */

#define PIECE 131072u /* bytes of a push */

/* Pushes from each of four pieces of heap memory, twice over; what the cache says after that. In a
 * process of its own: there is one cache in each, as its first user has configured it. */
static struct pin_cache_stat
pinned_by(const char *limits)
{
	struct pin_cache_stat *s = mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE,
				      MAP_SHARED | MAP_ANONYMOUS, -1, 0),
			      result;
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		uint8_t *heap = aligned_alloc(4096, 8 * PIECE);

		alarm(60);
		pair_start("client", limits);
		open_regions(ctx[1][0]);
		bytes_fill(heap, 8 * PIECE, 1);
		for (unsigned i = 0; i < 8; i++) {
			const struct pmx_transfer t = transfer(heap + i / 2 * 2 * PIECE, PIECE,
				NULL, 0);

			assert_int_equal(pmx_push(ctx[0][0], &t, NULL), 0);
			UNTIL(pmx_sync_wait(ctx[0][0], 0) == 0);
		}
		pins_stat(s);
		_exit(memcmp(remote, heap + 6 * PIECE, PIECE) != 0);
	}
	waitpid(child, &status, 0);
	result = *s;
	munmap(s, sizeof(*s));
	assert_int_equal(status, 0);
	return result;
}

static void
pin_5__what_was_pinned_stays_for_the_next(void **state)
{
	struct pin_cache_stat s = pinned_by("pin_watch = off");

	(void)state;
	assert_int_equal(s.misses, 4);
	assert_int_equal(s.hits, 4);
	assert_int_equal(s.evictions, 0);
	assert_int_equal(s.pinned_bytes, 4 * PIECE);
}

static void
pin_5__bytes_are_bounded(void **state)
{
	struct pin_cache_stat s = pinned_by("pin_watch = off\npin_bytes = 262144");

	(void)state;
	assert_int_equal(s.evictions, 2);
	assert_int_equal(s.pinned_bytes, 2 * PIECE);
}

static void
pin_5__entries_are_bounded(void **state)
{
	struct pin_cache_stat s = pinned_by("pin_watch = off\npin_entries = 3");

	(void)state;
	assert_int_equal(s.evictions, 1);
	assert_int_equal(s.pinned_bytes, 3 * PIECE);
}

static void
pin_5__switched_off_nothing_stays(void **state)
{
	struct pin_cache_stat s = pinned_by("pin_watch = off\npin_cache = off");

	(void)state;
	assert_int_equal(s.hits, 0);
	assert_int_equal(s.pinned_bytes, 0);
}

/* ------------------------------------------------------------------ */

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(rhi_sync__waits_for_all_own_transfers, pair_stop),
		cmocka_unit_test_teardown(rhi_part__longer_than_all_send_buffers, pair_stop),
		cmocka_unit_test_teardown(rhi_twin__status_comes_with_the_twin, pair_stop),
		cmocka_unit_test_teardown(rhi_sync__ends_when_its_time_is_over, pair_stop),
		cmocka_unit_test_teardown(ordered__a_push_in_parts_waits_for_a_long_push,
			pair_stop),
		cmocka_unit_test_teardown(ordered__a_long_push_waits_for_one_that_is_held,
			pair_stop),
		cmocka_unit_test_teardown(ordered__a_long_push_waits_for_a_pull, pair_stop),
		cmocka_unit_test_teardown(pull__what_the_port_still_has_is_sent_again_as_a_copy,
			pair_stop),
		cmocka_unit_test_teardown(pull__a_peer_that_fails_leaves_no_question, pair_stop),
		cmocka_unit_test_teardown(rhi_sig__notifications_keep_their_order, pair_stop),
		cmocka_unit_test_teardown(
			rhi_sig__a_notification_that_waited_ends_well_after_a_refusal, pair_stop),
		cmocka_unit_test_teardown(rhi_sig__a_pull_tells_its_target, pair_stop),
		cmocka_unit_test_teardown(rhi_sig__notifications_that_wait_end_with_their_context,
			pair_stop),
		cmocka_unit_test_teardown(alloc__more_than_there_is_is_refused, pair_stop),
		cmocka_unit_test_teardown(transfers__to_a_node_that_is_not_there_end, pair_stop),
		cmocka_unit_test_teardown(register__one_context_never_takes_all_places, pair_stop),
		cmocka_unit_test(pin_5__what_was_pinned_stays_for_the_next),
		cmocka_unit_test(pin_5__bytes_are_bounded),
		cmocka_unit_test(pin_5__entries_are_bounded),
		cmocka_unit_test(pin_5__switched_off_nothing_stays),
	};

	if (pair_eal("test_embedded_memory") < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
