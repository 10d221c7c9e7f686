/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A script of operations between two embedded nodes, joined by the loop link in one process. Each
 * frame that a node gives to its link is a line (script_record.h), and so is what an application is
 * told; test/unit/script.frames has these lines as they were, and a line that differs fails its
 * step. `test_script --record FILE` writes them anew; with `--all` nothing is folded into digests,
 * so that the files of two builds can be compared line by line.
 *
 * Design notes
 * 1. Engine and client are compiled for this test with a clock and random numbers of its own
 *    (script_clock.h). The clock moves by TICK_NS whenever a node looks at its link, once a poll: a
 *    run takes the same polls on any machine.
 * 2. Each step starts both nodes anew, so that a difference in one is none in the next.
 */
#include <stdio.h>
#include <string.h>

#include <rte_eal.h>

#include "engine/lane.h"
#include "script_clock.h"
#include "script_steps.h"

#define TICK_NS 1000
#define QUIET   1000 /* polls without work: nothing is under way */

struct pmx_node *nodes[NODES];
struct pmx_context *ctx[NODES][CONTEXTS];
unsigned lose_every;
uint8_t bytes_out[REGION], bytes_in[REGION];
static struct link_ops tapped;
static unsigned given;  /* frames to the link, while some are lost */
static FILE *recording; /* NULL: lines are compared */
static bool all_lines;

/* --------------------------------------------------------------- the tap */

static uint16_t
tap_rx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	script_now += TICK_NS;
	return link_loop_ops.rx(l, queue, bufs, n);
}

static uint16_t
tap_tx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	uint16_t i;

	for (i = 0; i < n; i++) {
		record_frame(l->node, bufs[i]);
		if (lose_every != 0 && ++given % lose_every == 0)
			rte_pktmbuf_free(bufs[i]);
		else if (link_loop_ops.tx(l, queue, &bufs[i], 1) == 0)
			fail_msg("the link is full");
	}
	return i;
}

void
script_open_context(unsigned node, uint16_t context)
{
	const struct pmx_context_params p = {.size = sizeof(p), .idle = PMX_IDLE_SPIN};

	assert_int_equal(pmx_context_open(&ctx[node][context], nodes[node], context, &p), 0);
}

void
script_start(const char *step, const char *matching, const char *more)
{
	record_begin(step);
	script_now = SCRIPT_HZ;
	script_randoms = 1;
	for (unsigned n = 0; n < NODES; n++) {
		char text[512], error[256] = "";
		struct pmx_node_params params = {.size = sizeof(params), .config_text = text};

		snprintf(text, sizeof(text),
			"[node]\nid = %u\nname = script%u\n[engine]\nmatching = %s\n"
			"rendezvous = 4000\nidle = spin\n"
			"[link 0]\ndriver = loop\nport = script\nencap = none\n[nodes]\n0 = auto\n"
			"1 = auto\n"
			"[limits]\ncontexts = 2\nmbufs = 8192\npin_watch = off\n%s\n",
			n, n, matching, more);
		if (pmx_node_start(&nodes[n], &params, error, sizeof(error)) != 0)
			fail_msg("%s", error);
		tapped = link_loop_ops;
		tapped.tx = tap_tx;
		tapped.rx = tap_rx;
		nodes[n]->embedded->links[0].ops = &tapped;
		for (uint16_t c = 0; c < CONTEXTS; c++)
			script_open_context(n, c);
	}
}

/* ------------------------------------------------------------------ turns */

unsigned
script_turn(void)
{
	return pmx_node_poll(nodes[0]) + pmx_node_poll(nodes[1]);
}

void
script_turns(unsigned n)
{
	while (n-- > 0)
		script_turn();
}

void
script_settle(void)
{
	for (unsigned quiet = 0, polls = 0; quiet < QUIET; polls++) {
		unsigned work = script_turn();

		for (unsigned n = 0; n < NODES; n++) {
			work += nodes[n]->embedded->engines[0].dirty_count;
			for (unsigned c = 0; c < CONTEXTS; c++)
				work += ctx[n][c] ? pmx_sends_pending(ctx[n][c]) +
						pmx_transfers_pending(ctx[n][c])
						  : 0;
		}
		quiet = work ? 0 : quiet + 1;
		assert_true(polls < PATIENCE);
	}
}

static int
stop(void **state)
{
	(void)state;
	for (unsigned n = 0; n < NODES; n++) {
		for (unsigned c = 0; c < CONTEXTS; c++) {
			if (ctx[n][c] != NULL)
				pmx_context_close(ctx[n][c]);
			ctx[n][c] = NULL;
		}
	}
	lose_every = given = 0;
	for (unsigned n = 0; n < NODES; n++) {
		pmx_node_close(nodes[n]);
		nodes[n] = NULL;
	}
	return 0;
}

void
script_judge(const char *step)
{
	const char *text;

	script_settle();
	text = record_end(all_lines);
	if (recording != NULL)
		fputs(text, recording);
	else
		assert_int_equal(record_compare(SCRIPT_FRAMES, step, text), 0);
}

void
bytes_fill(uint8_t *p, uint32_t len, unsigned salt)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = (uint8_t)(i * 7 + (i >> 8) + salt);
}

/* ------------------------------------------------------------------ */

static int
options(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--all") == 0) {
			all_lines = true;
		} else if (strcmp(argv[i], "--record") == 0 && i + 1 < argc && recording == NULL) {
			recording = fopen(argv[++i], "w");
			if (recording == NULL) {
				perror(argv[i]);
				return -1;
			}
		} else {
			fprintf(stderr, "Usage: test_script [--record FILE [--all]]\n");
			return -1;
		}
	}
	return all_lines && recording == NULL ? -1 : 0;
}

int
main(int argc, char **argv)
{
	char *eal[] = {"test_script", "--no-huge", "-m", "512", "--no-pci", "--no-telemetry",
		"--no-shconf", "--log-level=*:error", NULL};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(plain__short_and_bulk, stop),
		cmocka_unit_test_teardown(plain__chains, stop),
		cmocka_unit_test_teardown(plain__bursts_both_ways, stop),
		cmocka_unit_test_teardown(full__entries, stop),
		cmocka_unit_test_teardown(full__entries_of_own_node, stop),
		cmocka_unit_test_teardown(full__buffers, stop),
		cmocka_unit_test_teardown(full__chains, stop),
		cmocka_unit_test_teardown(lost__every_fifth_frame, stop),
		cmocka_unit_test_teardown(closed__a_message_to_it_ends, stop),
		cmocka_unit_test_teardown(reopened__its_peers_go_on, stop),
		cmocka_unit_test_teardown(matched__both_orders_client, stop),
		cmocka_unit_test_teardown(matched__both_orders_engine, stop),
		cmocka_unit_test_teardown(matched__verbs_client, stop),
		cmocka_unit_test_teardown(matched__verbs_engine, stop),
		cmocka_unit_test_teardown(matched__full_client, stop),
		cmocka_unit_test_teardown(matched__full_engine, stop),
		cmocka_unit_test_teardown(matched__reopened_client, stop),
		cmocka_unit_test_teardown(matched__reopened_engine, stop),
		cmocka_unit_test_teardown(matched__reopened_with_a_short_memory, stop),
		cmocka_unit_test_teardown(transfers__lengths, stop),
		cmocka_unit_test_teardown(transfers__lengths_on_own_node, stop),
		cmocka_unit_test_teardown(transfers__parts, stop),
		cmocka_unit_test_teardown(transfers__order_and_events, stop),
		cmocka_unit_test_teardown(transfers__regions_that_end, stop),
		cmocka_unit_test_teardown(transfers__lost_frames, stop),
		cmocka_unit_test_teardown(pins__count_and_end, stop),
	};

	if (options(argc, argv) != 0 || rte_eal_init(8, eal) < 0)
		return 2;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	return recording != NULL && fclose(recording) != 0 ? 2 : failed;
}
