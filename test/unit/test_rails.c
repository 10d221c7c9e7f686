/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A lane's rails when the table of nodes changes, or the core (lib/engine/rails.c). The node and
 * its lane are no more than what that reads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/rails.h"
#include "core/proto/internal.h"

#define NODES 4

static struct node node;
static struct engine lane;
static struct config_peer table[NODES];

static int
setup(void **state)
{
	const struct proto_config c = {
		.ticks_per_sec = 1000000000,
		.epoch = 1,
		.nodes_max = NODES,
		.contexts_max = 1,
		.flows_max = 16,
		.paths_max = NODES,
		.tx_frames_max = 256,
		.rx_frames_max = 256,
		.window_frames = 64,
		.path_frames = 64,
		.path_bytes = 1 << 20,
		.payload_max = 1024,
		.rto_min_us = 500,
		.rto_max_us = 50000,
		.retries = 8,
		.hello_us = 400000,
		.ack_delay_us = 50,
		.ack_every = 16,
		.flow_idle_us = 2000000,
		.links = 2,
		.cc = &cc_delay,
	};

	(void)state;
	memset(&node, 0, sizeof(node));
	memset(table, 0, sizeof(table));
	node.config.peers = table;
	node.config.links_by = LINKS_SPREAD;
	node.config.links[0].used = node.config.links[1].used = true;
	size_t size = proto_memsize(&c);
	void *memory = aligned_alloc(64, size);

	assert_true(size != 0 && memory != NULL);
	memset(memory, 0, size);
	lane = (struct engine){
		.node = &node,
		.nodes_max = NODES,
		.proto = proto_init(memory, &c, 1),
	};
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	lane_rails_free(&lane);
	free(lane.proto);
	return 0;
}

static uint32_t
expected(uint32_t number)
{
	return lane.proto->links_of[number].expected;
}

static void
lane_rails_make__the_core_expects_frames_by_all_links(void **state)
{
	(void)state;
	table[0].links = 3; /* the node itself */
	table[1].links = 3;
	table[2].links = 2;
	assert_int_equal(lane_rails_make(&lane), 0);
	assert_int_equal(expected(0), 0);
	assert_int_equal(expected(1), 3);
	assert_int_equal(expected(2), 0);
	assert_int_equal(expected(3), 0);
	node.config.links_by = LINKS_FAILOVER;
	assert_int_equal(lane_rails_make(&lane), 0);
	assert_int_equal(expected(1), 0);
}

static void
lane_rails_make__the_core_forgets_links_that_are_gone(void **state)
{
	(void)state;
	table[1].links = 3;
	assert_int_equal(lane_rails_make(&lane), 0);
	table[1].links = 1;
	assert_int_equal(lane_rails_make(&lane), 0);
	assert_null(lane.rails);
	assert_int_equal(expected(1), 0);
}

/* Telemetry and the log look at rails while the table is read anew. */
static void
lane_rails_make__what_others_read_stays_there(void **state)
{
	(void)state;
	table[1].links = 3;
	assert_int_equal(lane_rails_make(&lane), 0);
	const struct lane_rails *rails = lane.rails;

	table[1].links = 2;
	assert_int_equal(lane_rails_make(&lane), 0);
	assert_int_equal(lane_rails_up(&lane, 1), 2);
	table[1].links = 3;
	assert_int_equal(lane_rails_make(&lane), 0);
	assert_ptr_equal(lane.rails, rails);
	assert_int_equal(lane_rails_up(&lane, 1), 3);
}

/* A primary that found link 1 dead is followed by one that begins with all. */
static void
lane_rails_expect__a_core_that_was_taken_over_expects_what_is_up(void **state)
{
	(void)state;
	table[1].links = 3;
	assert_int_equal(lane_rails_make(&lane), 0);
	proto_node_links(lane.proto, 1, 1);
	lane_rails_expect(&lane);
	assert_int_equal(expected(1), 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			lane_rails_make__the_core_expects_frames_by_all_links, setup, teardown),
		cmocka_unit_test_setup_teardown(
			lane_rails_make__the_core_forgets_links_that_are_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(lane_rails_make__what_others_read_stays_there,
			setup, teardown),
		cmocka_unit_test_setup_teardown(
			lane_rails_expect__a_core_that_was_taken_over_expects_what_is_up, setup,
			teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
