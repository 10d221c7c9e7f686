/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Peers with several links: which of them frames take (lib/core/rails), what counts as lost when
 * frames of two links overtake each other (lib/core/proto/order.c), and both together in the
 * simulator.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "core/proto/internal.h"
#include "core/rails/rails.h"
#include "sim/sim.h"

#define US  1000ull
#define MS  1000000ull
#define SEC 1000000000ull

static const struct rails_config spread = {.ticks_per_us = US, .spread = true};
static const struct rails_config first = {.ticks_per_us = US};

/* ------------------------------------------------------------------ rails alone */

static unsigned
send_frame(struct rails *r, const struct rails_config *c, uint32_t bytes, uint64_t now)
{
	unsigned rail = rails_choose(r, c);

	rails_sent(r, rail, bytes, now);
	return rail;
}

static void
send_frames(struct rails *r, const struct rails_config *c, unsigned n, uint32_t bytes, uint64_t now,
	unsigned taken[RAILS_MAX])
{
	memset(taken, 0, RAILS_MAX * sizeof(*taken));
	while (n-- > 0)
		taken[send_frame(r, c, bytes, now)]++;
}

static void
rails__data_takes_all_of_them_in_runs(void **state)
{
	struct rails r = {.all = 7};
	unsigned taken[RAILS_MAX];

	(void)state;
	send_frames(&r, &spread, 3000, 1514, 1, taken);
	for (unsigned i = 0; i < 3; i++)
		assert_in_range(taken[i], 990, 1010);
	send_frames(&r, &spread, 5, 1514, 1, taken);
	assert_true(taken[0] == 5 || taken[1] == 5 || taken[2] == 5 || taken[0] + taken[1] == 5 ||
		taken[1] + taken[2] == 5 || taken[2] + taken[0] == 5);
}

static void
rails__answers_go_the_way_of_the_question(void **state)
{
	struct rails r = {.all = 7};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned k = 0; k < 10; k++)
			assert_int_equal(rails_answer(&r, i), i);
	}
	assert_int_equal(rails_answer(&r, RAILS_MAX), 0);
}

static void
rails__without_spreading_the_first_takes_all(void **state)
{
	struct rails r = {.all = 3};
	unsigned taken[RAILS_MAX];

	(void)state;
	send_frames(&r, &first, 100, 1514, 1, taken);
	assert_int_equal(taken[0], 100);
}

/* More than an int32_t holds. */
static void
rails__bytes_of_one_rail_do_not_wrap(void **state)
{
	struct rails r = {.all = 3};

	(void)state;
	for (unsigned i = 0; i < 8; i++) {
		send_frame(&r, &first, 1u << 30, 1);
		assert_in_range(r.left + (1u << 30), 0, 1u << 30);
	}
}

/* A peer whose rails in `works` answer after `after`; frames are sent to it until `until`, and it
 * is heard on the rails in `heard`. Returns when the set of rails that are up last changed; 0 = it
 * did not. *asked: how many questions there were. */
struct peer {
	uint32_t works, heard;
	uint64_t after;
	const struct rails_config *c;
};

static uint64_t
live(struct rails *r, const struct peer *p, uint64_t *now, uint64_t until, uint32_t *asked)
{
	uint64_t changed_at = 0;
	struct {
		uint64_t at;
		uint32_t round, rails;
	} answer[64] = {0};
	unsigned next = 0;

	for (; *now < until; *now += MS / 10) {
		bool changed = false;

		if (p->c != NULL) {
			send_frame(r, p->c, 5000, *now);
			send_frame(r, p->c, 5000, *now);
			for (unsigned i = 0; i < 2; i++) {
				if (p->heard >> i & 1)
					rails_heard(r, i);
			}
			r->active = true;
		}
		for (unsigned k = 0; k < 64; k++) {
			for (unsigned i = 0; i < 2 && *now >= answer[k].at; i++) {
				if (answer[k].rails >> i & 1)
					changed |= rails_answered(r, i, answer[k].round, *now);
				answer[k].rails &= ~(1u << i);
			}
		}
		if (*now % MS == 0 && r->active) {
			uint32_t ask = rails_step(r, &spread, *now, &changed);

			*asked += (uint32_t)__builtin_popcount(ask);
			answer[next % 64].at = *now + p->after;
			answer[next % 64].round = r->round;
			answer[next++ % 64].rails = ask & p->works;
		}
		if (changed)
			changed_at = *now;
	}
	return changed_at;
}

static void
rails__one_that_dies_is_down_within_10_ms(void **state)
{
	struct rails r = {.all = 3};
	uint64_t now = MS;
	uint32_t asked = 0;
	unsigned taken[RAILS_MAX];

	(void)state;
	assert_int_equal(live(&r, &(struct peer){3, 3, 20 * US, &spread}, &now, 500 * MS, &asked),
		0);
	assert_in_range(asked, 8, 14); /* both, ten times a second */
	uint64_t down = live(&r, &(struct peer){2, 2, 20 * US, &spread}, &now, 1000 * MS, &asked);

	assert_in_range(down, 502 * MS, 510 * MS);
	assert_int_equal(rails_up(&r), 2);
	send_frames(&r, &spread, 100, 1000, now, taken);
	assert_int_equal(taken[0], 0);
	/* it comes back */
	uint64_t up = live(&r, &(struct peer){3, 3, 20 * US, &spread}, &now, 1500 * MS, &asked);

	assert_in_range(up, 1000 * MS, 1110 * MS);
	assert_int_equal(rails_up(&r), 3);
	send_frames(&r, &spread, 100, 1000, now, taken);
	assert_in_range(taken[0], 40, 60);
}

static void
rails__one_that_is_only_heard_is_down_within_200_ms(void **state)
{
	struct rails r = {.all = 3};
	uint64_t now = MS;
	uint32_t asked = 0;

	(void)state;
	/* what the peer sends arrives on both, what it is sent does not on the first */
	uint64_t down = live(&r, &(struct peer){2, 3, 20 * US, &spread}, &now, 1000 * MS, &asked);

	assert_in_range(down, MS, 200 * MS);
	assert_int_equal(rails_up(&r), 2);
}

/* Messages are few, and an answer takes longer than a round does at first. */
static void
rails__one_that_is_rarely_used_is_avoided(void **state)
{
	(void)state;
	for (uint64_t after = 2 * MS; after < 60 * MS; after += 4 * MS) {
		struct rails r = {.all = 3};
		uint64_t now = MS;
		uint32_t asked = 0;

		for (unsigned i = 0; i < 3; i++) {
			send_frame(&r, &spread, 100, now);
			rails_heard(&r, 0); /* the peer asks by it */
			if (!r.active) {
				r.active = true;
				r.check_at = now;
			}
			live(&r, &(struct peer){2, 2, after, NULL}, &now, now + 324 * MS, &asked);
		}
		assert_int_equal(rails_usable(&r), 2);
	}
}

static void
rails__a_peer_that_does_not_answer_has_no_dead_ones(void **state)
{
	struct rails r = {.all = 3};
	uint64_t now = MS;
	uint32_t asked = 0;

	(void)state;
	assert_int_equal(live(&r, &(struct peer){0, 0, 0, &spread}, &now, 5000 * MS, &asked), 0);
	assert_int_equal(rails_up(&r), 3);
	assert_in_range(asked, 20, 100); /* less and less often */
	/* it did not run for so long; then it answers all */
	assert_int_equal(live(&r, &(struct peer){3, 3, 3 * MS, &spread}, &now, 9000 * MS, &asked),
		0);
}

static void
rails__a_slow_answer_is_an_answer(void **state)
{
	struct rails r = {.all = 3};
	uint64_t now = MS;
	uint32_t asked = 0;

	(void)state;
	assert_int_equal(live(&r, &(struct peer){3, 0, 40 * MS, &spread}, &now, 5000 * MS, &asked),
		0);
	assert_int_equal(rails_up(&r), 3);
}

static void
rails__nobody_is_asked_who_is_not_sent_to(void **state)
{
	struct rails r = {.all = 3};
	uint64_t now = MS;
	uint32_t asked = 0;

	(void)state;
	live(&r, &(struct peer){3, 3, 20 * US, &spread}, &now, 500 * MS, &asked);
	live(&r, &(struct peer){3, 3, 20 * US, NULL}, &now, 1000 * MS, &asked);
	assert_false(r.active);
	asked = 0;
	live(&r, &(struct peer){3, 3, 20 * US, NULL}, &now, 5000 * MS, &asked);
	assert_int_equal(asked, 0);
}

static void
rails__the_last_one_is_never_down(void **state)
{
	struct rails r = {.all = 3};
	uint64_t now = MS;
	uint32_t asked = 0;

	(void)state;
	live(&r, &(struct peer){2, 2, 20 * US, &spread}, &now, 100 * MS, &asked);
	assert_int_equal(rails_up(&r), 2);
	live(&r, &(struct peer){0, 0, 20 * US, &spread}, &now, 2000 * MS, &asked);
	assert_int_equal(rails_up(&r), 2);
	/* the other one comes back while the last one is dead: it is found, and then the last one
	 * is down */
	live(&r, &(struct peer){1, 1, 20 * US, &spread}, &now, 3000 * MS, &asked);
	assert_int_equal(rails_up(&r), 1);
}

/* ------------------------------------------------------------------ in the simulator */

static struct topology *net;
static uint32_t delivered, errors;
static uint64_t last_at, longest;

static void
on_delivery(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag)
{
	(void)arg, (void)d, (void)tag;
	delivered++;
	if (sim_now(s) - last_at > longest)
		longest = sim_now(s) - last_at;
	last_at = sim_now(s);
}

struct stream {
	uint32_t messages, bytes, sent;
};

static struct stream stream;

/* Keeps the sender busy. */
static void
pump(struct sim *s)
{
	while (stream.sent < stream.messages &&
		sim_send(s, 0, 0, 1, 0, stream.bytes, stream.sent) == 0)
		stream.sent++;
}

static void
on_completion(void *arg, struct sim *s, uint32_t node, uint32_t tag, int error)
{
	(void)arg, (void)node, (void)tag;
	errors += error != 0;
	pump(s);
}

static struct sim_config
config(uint32_t links, uint64_t skew_ns)
{
	static const char pair[] = "switch s buffer=256K\nhost h[0-1]\n"
				   "link h[0-1] s bandwidth=10G latency=2us\n";
	char error[256];

	delivered = errors = 0;
	longest = last_at = 0;
	if (topology_parse(pair, &net, error, sizeof(error)) != 0)
		fail_msg("%s", error);
	struct sim_config c = {
		.topology = net,
		.proto = sim_defaults(2, 1500),
		.entries = 1024,
		.bulks = 2048,
		.inline_max = 40,
		.links = links,
		.link_skew_ns = skew_ns,
		.spread = true,
		.nic_bytes = 60000,
		.audit = true,
		.seed = 1,
		.delivered = on_delivery,
		.completed = on_completion,
	};
	c.proto.cc_target_us = 200; /* the default of nodes with several links */
	c.proto.contexts_max = 1;
	return c;
}

static struct sim *
begin(const struct sim_config *c, uint32_t messages, uint32_t bytes)
{
	struct sim *s = sim_new(c);

	stream = (struct stream){.messages = messages, .bytes = bytes};
	assert_int_equal(sim_open(s, 0, 0), 0);
	assert_int_equal(sim_open(s, 1, 0), 0);
	pump(s);
	return s;
}

static void
end(struct sim *s)
{
	if (!sim_settle(s, 60 * SEC))
		fail_msg("at %.3f ms: %s", (double)sim_now(s) / 1e6, sim_error(s));
	assert_int_equal(delivered, stream.messages);
	assert_int_equal(errors, 0);
	sim_free(s);
	topology_free(net);
}

/* Returns the bytes a microsecond of a stream over so many links. Nothing is sent twice. */
static double
rate(uint32_t links, uint64_t skew_ns, uint32_t messages, uint32_t bytes)
{
	const struct sim_config c = config(links, skew_ns);
	struct sim *s = begin(&c, messages, bytes);

	while (delivered < messages && sim_error(s) == NULL && sim_run(s, sim_now(s) + MS))
		;
	const uint64_t *sender = proto_counters(sim_core(s, 0));
	double result = (double)messages * bytes * 1e3 / (double)last_at;

	print_message("%u links, skew %llu us, %u bytes: %.0f MB/s, %llu again, %llu Nacks, "
		      "%llu timeouts, %llu cuts\n",
		links, (unsigned long long)(skew_ns / US), bytes, result,
		(unsigned long long)(sender[PROTO_tx_retransmits]),
		(unsigned long long)proto_counters(sim_core(s, 1))[PROTO_tx_nacks],
		(unsigned long long)sender[PROTO_timeouts],
		(unsigned long long)sender[PROTO_window_cuts]);
	assert_int_equal(sender[PROTO_tx_retransmits], sender[PROTO_tx_probes]);
	end(s);
	return result;
}

static void
links__two_carry_twice_as_much(void **state)
{
	(void)state;
	for (uint32_t bytes = 60000; bytes >= 600; bytes /= 10) {
		uint32_t n = bytes == 60000 ? 2000 : 20000;
		double one = rate(1, 0, n, bytes);

		assert_true(rate(2, 0, n, bytes) > 1.8 * one);
		assert_true(rate(4, 0, n, bytes) > 3.2 * one);
		assert_true(rate(2, 10 * US, n, bytes) > 1.8 * one);
	}
}

static void
links__one_dies_and_the_stream_goes_on(void **state)
{
	(void)state;
	for (uint32_t link = 0; link < 2; link++) {
		for (int way = 1; way <= 3; way++) {
			const struct sim_config c = config(2, 0);
			struct sim *s = begin(&c, 100000, 6000);

			sim_run(s, 20 * MS);
			longest = 0;
			sim_cut_link(s, 0, link, way & 1, way & 2);
			sim_run(s, 150 * MS);
			print_message("link %u, way %d: longest pause %.1f ms\n", link, way,
				(double)longest / 1e6);
			assert_true(longest < 20 * MS);
			sim_cut_link(s, 0, link, false, false);
			end(s);
		}
	}
}

/* Otherwise each loss would wait for what the dead link might bring. */
static void
links__nothing_is_expected_of_a_dead_one(void **state)
{
	const struct sim_config c = config(2, 0);
	struct sim *s = begin(&c, 100000, 6000);

	(void)state;
	sim_run(s, 20 * MS);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(sim_core(s, i)->links_of[1 - i].expected, 3);
	sim_cut_link(s, 0, 1, true, true);
	sim_run(s, 150 * MS); /* who only receives asks ten times a second */
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(sim_core(s, i)->links_of[1 - i].expected, 1);
	sim_cut_link(s, 0, 1, false, false);
	sim_run(s, 300 * MS);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(sim_core(s, i)->links_of[1 - i].expected, 3);
	end(s);
}

/* Returns how many frames were sent again when 200 of 20000 are lost. */
static uint64_t
sent_again(uint32_t links, uint64_t skew_ns)
{
	struct sim_config c = config(links, skew_ns);

	c.fault = (struct fault_config){.loss_ppm = 5000, .seed = 3};
	struct sim *s = begin(&c, 20000, 1400);

	assert_true(sim_settle(s, 60 * SEC));
	const uint64_t *sender = proto_counters(sim_core(s, 0));
	uint64_t again = sender[PROTO_tx_retransmits] - sender[PROTO_tx_probes];

	print_message("%u links, skew %llu us: %llu sent again, %llu timeouts, %.0f MB/s\n", links,
		(unsigned long long)(skew_ns / US), (unsigned long long)again,
		(unsigned long long)sender[PROTO_timeouts], 20000 * 1.4e6 / (double)last_at);
	end(s);
	return again;
}

static void
links__losses_are_told_from_what_is_late(void **state)
{
	(void)state;
	uint64_t one = sent_again(1, 0);

	assert_in_range(sent_again(2, 0), 150, one * 5 / 4);
	assert_in_range(sent_again(4, 0), 150, one * 5 / 4);
	assert_in_range(sent_again(2, 2 * US), 150, one * 5 / 4);
	/* one is six times as long as the other */
	assert_in_range(sent_again(2, 20 * US), 150, one * 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rails__data_takes_all_of_them_in_runs),
		cmocka_unit_test(rails__answers_go_the_way_of_the_question),
		cmocka_unit_test(rails__without_spreading_the_first_takes_all),
		cmocka_unit_test(rails__bytes_of_one_rail_do_not_wrap),
		cmocka_unit_test(rails__one_that_dies_is_down_within_10_ms),
		cmocka_unit_test(rails__one_that_is_only_heard_is_down_within_200_ms),
		cmocka_unit_test(rails__one_that_is_rarely_used_is_avoided),
		cmocka_unit_test(rails__a_peer_that_does_not_answer_has_no_dead_ones),
		cmocka_unit_test(rails__a_slow_answer_is_an_answer),
		cmocka_unit_test(rails__nobody_is_asked_who_is_not_sent_to),
		cmocka_unit_test(rails__the_last_one_is_never_down),
		cmocka_unit_test(links__two_carry_twice_as_much),
		cmocka_unit_test(links__one_dies_and_the_stream_goes_on),
		cmocka_unit_test(links__nothing_is_expected_of_a_dead_one),
		cmocka_unit_test(links__losses_are_told_from_what_is_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
