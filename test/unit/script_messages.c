/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Steps of the script (test_script.c): plain messages, short, in bulk and in chains, at receivers
 * that are full and over a link that loses frames; and contexts that come and go.
 */
#include "script_steps.h"

/* ------------------------------------------------------------------ plain messages */

static void
send_plain(unsigned node, unsigned context, struct pmx_addr to, uint32_t len, unsigned salt)
{
	bytes_fill(bytes_out, len, salt);
	UNTIL(pmx_send_copy(ctx[node][context], to, bytes_out, len, NULL) == 0);
}

/* All that a context has, read and released. */
static unsigned
drain(unsigned node, unsigned context)
{
	struct pmx_message m;
	unsigned n = 0;

	for (; pmx_receive(ctx[node][context], &m) == 1; n++) {
		assert_int_equal(pmx_message_read(ctx[node][context], &m, 0, bytes_in, m.len), 0);
		record_note("%u.%u receives %u from %u.%u %08x", node, context, m.len,
			m.source.node, m.source.context,
			(unsigned)(record_sum(bytes_in, m.len) >> 32));
		pmx_release_receive_buffer(ctx[node][context], &m);
	}
	return n;
}

static void
drain_all(void)
{
	for (unsigned n = 0; n < NODES; n++) {
		for (unsigned c = 0; c < CONTEXTS; c++)
			drain(n, c);
	}
}

static void
note_sends(void)
{
	for (unsigned n = 0; n < NODES; n++) {
		for (unsigned c = 0; c < CONTEXTS; c++) {
			struct pmx_context_stat s;

			pmx_context_read_stat(ctx[n][c], &s);
			record_note("%u.%u: sent %u, errors %u, received %u", n, c,
				(unsigned)s.sent, (unsigned)s.send_errors, (unsigned)s.received);
		}
	}
}

void
plain__short_and_bulk(void **state)
{
	static const uint32_t lens[] = {0, 1, 8, 24, 40, 41, 64, 104, 105, 500, 1400};

	(void)state;
	script_start(__func__, "client", "");
	for (unsigned i = 0; i < RTE_DIM(lens); i++) {
		for (unsigned from = 0; from < NODES; from++) {
			send_plain(from, 1, (struct pmx_addr){1, 0}, lens[i], i);
			script_turns(20);
			drain_all();
		}
	}
	script_settle();
	note_sends();
	script_judge(__func__);
}

void
plain__chains(void **state)
{
	static const uint32_t lens[] = {1450, 1451, 3000, 4000, 20000};

	(void)state;
	script_start(__func__, "client", "");
	for (unsigned i = 0; i < RTE_DIM(lens); i++) {
		for (unsigned from = 0; from < NODES; from++) {
			send_plain(from, 1, (struct pmx_addr){1, 0}, lens[i], i);
			script_turns(40);
			drain_all();
		}
	}
	script_settle();
	note_sends();
	script_judge(__func__);
}

void
plain__bursts_both_ways(void **state)
{
	(void)state;
	script_start(__func__, "client", "");
	for (unsigned round = 0; round < 6; round++) {
		for (unsigned from = 0; from < NODES; from++) {
			for (unsigned i = 0; i < 12; i++)
				send_plain(from, i % CONTEXTS,
					(struct pmx_addr){(uint16_t)!from,
						(uint16_t)(i / 2 % CONTEXTS)},
					10 + 60 * i, i + round);
		}
		script_turns(3);
		drain_all();
	}
	script_settle();
	drain_all();
	note_sends();
	script_judge(__func__);
}

/* One that reads nothing for a while. */
static void
full(const char *step, const char *limits, unsigned from, uint32_t len, unsigned count)
{
	unsigned got = 0;

	script_start(step, "client", limits);
	for (unsigned i = 0; i < count; i++)
		send_plain(from, 1, (struct pmx_addr){1, 0}, len, i);
	script_turns(300);
	record_note("%u.1 has %u pending", from, pmx_sends_pending(ctx[from][1]));
	UNTIL((got += drain(1, 0)) == count);
	script_settle();
	note_sends();
	script_judge(step);
}

void
full__entries(void **state)
{
	(void)state;
	full(__func__, "lhs_entries = 16", 0, 20, 48);
}

void
full__entries_of_own_node(void **state)
{
	(void)state;
	full(__func__, "lhs_entries = 16", 1, 20, 48);
}

void
full__buffers(void **state)
{
	(void)state;
	full(__func__, "receive_buffers = 16\nmatched_buffers = 8", 0, 1000, 48);
}

void
full__chains(void **state)
{
	(void)state;
	full(__func__, "receive_buffers = 16\nmatched_buffers = 8", 0, 4000, 20);
}

void
lost__every_fifth_frame(void **state)
{
	(void)state;
	script_start(__func__, "client", "[proto]\nrto_min_us = 200\nrto_max_us = 5000");
	lose_every = 5;
	for (unsigned i = 0; i < 40; i++) {
		send_plain(0, 0, (struct pmx_addr){1, 0}, 30 + i * 80, i);
		send_plain(1, 0, (struct pmx_addr){0, 0}, 20, i);
		script_turns(5);
		drain_all();
	}
	UNTIL(pmx_sends_pending(ctx[0][0]) + pmx_sends_pending(ctx[1][0]) == 0);
	drain_all();
	note_sends();
	script_judge(__func__);
}

/* ------------------------------------------------------------------ contexts that come and go */

static void
note_send(struct pmx_context *c, pmx_send_id id, const char *what)
{
	UNTIL(pmx_is_send_done(c, id) != 0);
	record_note("%s: %d", what, pmx_is_send_done(c, id));
}

void
closed__a_message_to_it_ends(void **state)
{
	pmx_send_id id;

	(void)state;
	script_start(__func__, "client",
		"[proto]\nrto_min_us = 200\nrto_max_us = 1000\nretries = 3");
	pmx_context_close(ctx[1][0]);
	ctx[1][0] = NULL;
	for (unsigned from = 0; from < NODES; from++) {
		assert_int_equal(
			pmx_send_copy(ctx[from][1], (struct pmx_addr){1, 0}, "closed", 6, &id), 0);
		note_send(ctx[from][1], id, "to a context that is closed");
		assert_int_equal(
			pmx_send_copy(ctx[from][1], (struct pmx_addr){7, 0}, "nobody", 6, &id), 0);
		note_send(ctx[from][1], id, "to a node that is not there");
	}
	script_open_context(1, 0);
	send_plain(0, 1, (struct pmx_addr){1, 0}, 10, 1);
	script_settle();
	drain_all();
	script_judge(__func__);
}

void
reopened__its_peers_go_on(void **state)
{
	(void)state;
	script_start(__func__, "client", "[proto]\nrto_min_us = 200\nrto_max_us = 1000");
	for (unsigned round = 0; round < 4; round++) {
		unsigned node = round % 2;

		for (unsigned i = 0; i < 3; i++) {
			send_plain(0, 0, (struct pmx_addr){1, 0}, 100, i);
			send_plain(1, 0, (struct pmx_addr){0, 0}, 1000, i);
		}
		script_settle();
		drain_all();
		/* it is never read */
		send_plain(!node, 0, (struct pmx_addr){(uint16_t)node, 0}, 50, round);
		script_turns(4);
		pmx_context_close(ctx[node][0]);
		script_open_context(node, 0);
	}
	script_settle();
	drain_all();
	script_judge(__func__);
}
