/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of lib/discovery: many nodes on a network that loses, delays and doubles datagrams, in
 * virtual time; and datagrams that nobody means well with.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/mix.h"
#include "discovery/record.h"

#define HOSTS_MAX 128
#define NODES_MAX 128
#define FLIGHT    65536

/* A host with one node, or none. */
struct host {
	struct discovery *d;
	void *memory;
	struct discovery_addr at;
	uint32_t events[DISCOVERY_SEED + 1];
	struct discovery_record refused_by, claimant;
	uint64_t next;
};

struct datagram {
	uint64_t at;
	struct discovery_addr from, to;
	uint32_t len;
	uint8_t bytes[DISCOVERY_BYTES];
};

static struct {
	struct host hosts[HOSTS_MAX];
	struct datagram *flight;
	uint32_t in_flight;
	uint64_t now, random, sent;
	unsigned loss; /* in 100 */
	bool apart;    /* hosts of even and odd number do not reach each other */
} net;

static struct host *
host_at(const struct discovery_addr *at)
{
	const uint32_t i = at->ip[15];

	return i < HOSTS_MAX && discovery_same_addr(&net.hosts[i].at, at) ? &net.hosts[i] : NULL;
}

static void
post(void *arg, const struct discovery_addr *to, const uint8_t *bytes, uint32_t len)
{
	const struct host *h = arg;
	unsigned copies = mix64_next(&net.random) % 100 < 5 ? 2 : 1;

	net.sent++;
	if (net.apart && (h->at.ip[15] ^ to->ip[15]) & 1)
		return;
	for (; copies > 0; copies--) {
		if (mix64_next(&net.random) % 100 < net.loss)
			continue;
		assert_true(net.in_flight < FLIGHT);
		struct datagram *d = &net.flight[net.in_flight++];

		*d = (struct datagram){
			.at = net.now + 1 + mix64_next(&net.random) % 5,
			.from = h->at,
			.to = *to,
			.len = len,
		};
		memcpy(d->bytes, bytes, len);
	}
}

static void
told(void *arg, enum discovery_event event, const struct discovery_record *node,
	const struct discovery_record *other)
{
	struct host *h = arg;

	h->events[event]++;
	if (event == DISCOVERY_REFUSED)
		h->refused_by = *node;
	if (event == DISCOVERY_CLAIMED)
		h->claimant = *other;
}

static void
begin(void)
{
	struct datagram *flight = net.flight != NULL ? net.flight
						     : malloc(FLIGHT * sizeof(*net.flight));

	for (unsigned i = 0; i < HOSTS_MAX; i++)
		free(net.hosts[i].memory);
	memset(&net, 0, sizeof(net));
	net.flight = flight;
	net.random = 7;
	net.now = 1000;
}

static struct discovery_addr
addr_of(unsigned host)
{
	struct discovery_addr a = {.ip = {[10] = 0xFF, [11] = 0xFF, 10}, .port = DISCOVERY_PORT};

	a.ip[15] = (uint8_t)host;
	return a;
}

/* Start a node on a host that has none. It asks that seed. */
static struct host *
start_in(unsigned host, uint16_t number, unsigned seed, const char *cluster)
{
	struct host *h = &net.hosts[host];
	struct discovery_config c = {
		.self =
			{
				.number = number,
				.generation = (uint32_t)mix64_next(&net.random) | 1,
				.kind = {DISCOVERY_IP, DISCOVERY_MAC},
				.link = {{.port = 18515}},
			},
		.nodes_max = NODES_MAX,
		.key = {mix64_next(&net.random), 1},
		.arg = h,
		.send = post,
		.tell = told,
	};
	const struct discovery_addr at = addr_of(seed);

	snprintf(c.self.name, sizeof(c.self.name), "host%u", host);
	snprintf(c.cluster, sizeof(c.cluster), "%s", cluster);
	c.self.link[1].ip[5] = (uint8_t)host;
	free(h->memory);
	*h = (struct host){.at = addr_of(host), .memory = calloc(1, discovery_bytes(NODES_MAX))};
	h->d = discovery_init(h->memory, &c, net.now);
	discovery_seeds(h->d, &at, 1, net.now);
	return h;
}

static struct host *
start(unsigned host, uint16_t number, unsigned seed)
{
	return start_in(host, number, seed, "");
}

/* End a node, orderly or not. */
static void
stop(unsigned host, bool orderly)
{
	if (orderly)
		discovery_leave(net.hosts[host].d);
	net.hosts[host].d = NULL;
}

static void
run(uint64_t ms)
{
	for (const uint64_t end = net.now + ms; net.now < end; net.now++) {
		for (uint32_t i = 0; i < net.in_flight;) {
			const struct datagram d = net.flight[i];

			if (d.at > net.now) {
				i++;
				continue;
			}
			net.flight[i] = net.flight[--net.in_flight];
			struct host *h = host_at(&d.to);

			if (h == NULL || h->d == NULL)
				continue;
			discovery_in(h->d, &d.from, d.bytes, d.len, net.now);
			h->next = 0;
		}
		for (unsigned i = 0; i < HOSTS_MAX; i++) {
			struct host *h = &net.hosts[i];

			if (h->d != NULL && h->next <= net.now)
				h->next = discovery_tick(h->d, net.now);
		}
	}
}

/* Check that `count` hosts from `first` on know each other, by number = host. */
static bool
all_know(unsigned first, unsigned count)
{
	for (unsigned i = first; i < first + count; i++) {
		for (unsigned k = first; k < first + count; k++) {
			const struct discovery_record *r = discovery_node(net.hosts[i].d, k);

			if (i == k)
				continue;
			if (r == NULL || r->at.ip[15] != k || r->link[0].ip[15] != k ||
				r->link[0].port != 18515 || r->link[1].ip[5] != k)
				return false;
		}
	}
	return true;
}

static void
one_seed_is_enough(void **state)
{
	(void)state;
	begin();
	start(0, 0, 0);
	start(1, 1, 0);
	start(2, 2, 0);
	run(200);
	assert_true(all_know(0, 3));
	start(3, 3, 0);
	run(100);
	assert_true(all_know(0, 4));
	assert_string_equal(discovery_node(net.hosts[2].d, 3)->name, "host3");
	assert_int_equal(net.hosts[3].events[DISCOVERY_LEARNT], 3);
	assert_int_equal(net.hosts[3].events[DISCOVERY_SEED], 1);
}

/* Return the time until all that begin at once, with a network that loses so many of 100, know each
 * other; and then that all is quiet. */
static uint64_t
many(unsigned count, unsigned loss)
{
	uint64_t began, all;

	begin();
	net.loss = loss;
	began = net.now;
	for (unsigned i = 0; i < count; i++)
		start(i, (uint16_t)i, i / 2); /* a chain of seeds, not one that all have */
	while (net.now - began < 60000 && !all_know(0, count))
		run(10);
	assert_true(all_know(0, count));
	all = net.now - began;
	run(20000);
	const uint64_t sent = net.sent;

	run(20000);
	/* digests each 2 to 4 s, and seeds each 5 s */
	assert_in_range(net.sent - sent, 0, count * 40);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(net.hosts[i].events[DISCOVERY_LEARNT], count - 1);
		assert_int_equal(net.hosts[i].events[DISCOVERY_REFUSED], 0);
	}
	return all;
}

static void
many_at_once(void **state)
{
	(void)state;
	printf("# 100 nodes at once: %llu ms; 20 %% lost: %llu ms\n",
		(unsigned long long)many(100, 0), (unsigned long long)many(100, 20));
}

static void
a_seed_comes_last(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 1; i < 5; i++)
		start(i, (uint16_t)i, 0);
	run(30000);
	assert_int_equal(net.hosts[1].events[DISCOVERY_LEARNT], 0);
	start(0, 0, 0);
	run(6000);
	assert_true(all_know(0, 5));
}

static void
networks_that_were_apart(void **state)
{
	(void)state;
	begin();
	net.apart = true;
	for (unsigned i = 0; i < 8; i++)
		start(i, (uint16_t)i, i % 2);
	run(5000);
	assert_false(all_know(0, 8));
	net.apart = false;
	start(9, 9, 0); /* it alone knows nobody of the odd ones */
	run(1000);
	start(10, 10, 1);
	run(1000);
	/* nobody has told the halves of each other; one that knows both does */
	const struct discovery_addr both[2] = {addr_of(0), addr_of(1)};

	discovery_seeds(net.hosts[9].d, both, 2, net.now);
	run(30000);
	assert_true(all_know(0, 8));
}

static void
a_newcomer_with_a_number_of_another_is_refused(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 4; i++)
		start(i, (uint16_t)i, 0);
	run(2000);
	for (unsigned seed = 0; seed < 4; seed++) {
		struct host *h = start(20 + seed, 2, seed);

		run(7000);
		assert_true(h->events[DISCOVERY_REFUSED] > 0);
		assert_int_equal(h->refused_by.number, 2);
		assert_string_equal(h->refused_by.name, "host2");
		assert_true(net.hosts[seed].events[DISCOVERY_CLAIMED] > 0);
		assert_int_equal(net.hosts[seed].claimant.at.ip[15], 20 + seed);
		assert_true(all_know(0, 4));
		stop(20 + seed, false);
	}
}

/* A node is ready when nobody can refuse it any more. Its seed asks a holder that is gone. */
static void
a_seed_that_runs_is_undecided_until_it_judges(void **state)
{
	unsigned ms = 0;

	(void)state;
	begin();
	for (unsigned i = 0; i < 3; i++)
		start(i, (uint16_t)i, 0);
	run(2000);
	stop(2, false);
	struct host *silent = start(21, 5, 2), *h = start(20, 2, 0);

	assert_int_equal(discovery_seeds_undecided(h->d), 0);
	for (run(30); discovery_seeds_answered(h->d) == 0; ms++) {
		assert_int_equal(discovery_seeds_undecided(h->d), 1);
		assert_in_range(ms, 0, 5000);
		run(1);
	}
	assert_in_range(ms, 500, 5000);
	assert_int_equal(discovery_seeds_undecided(h->d), 0);
	assert_int_equal(discovery_seeds_undecided(silent->d), 0);
}

static void
a_node_that_moved_or_restarted_replaces_its_old_life(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 4; i++)
		start(i, (uint16_t)i, 0);
	run(2000);
	stop(2, false);
	start(2, 2, 0); /* at the same address: at once */
	run(100);
	assert_true(all_know(0, 4));
	assert_int_equal(discovery_node(net.hosts[3].d, 2)->generation,
		discovery_node(net.hosts[1].d, 2)->generation);
	stop(2, false);
	start(30, 2, 0); /* at another one: as soon as the old one has not answered */
	run(3000);
	for (unsigned i = 0; i < 4; i += i == 1 ? 2 : 1) {
		assert_int_equal(discovery_node(net.hosts[i].d, 2)->at.ip[15], 30);
		assert_int_equal(net.hosts[i].events[DISCOVERY_CLAIMED], 0);
	}
	assert_int_equal(net.hosts[30].events[DISCOVERY_REFUSED], 0);
	/* the seed restarts elsewhere, and another one tells it all */
	stop(0, false);
	start(31, 0, 3);
	run(10000);
	for (unsigned i = 1; i < 4; i += 2) {
		assert_int_equal(discovery_node(net.hosts[i].d, 0)->at.ip[15], 31);
		assert_int_equal(discovery_node(net.hosts[31].d, i)->at.ip[15], i);
	}
}

static void
who_leaves_is_forgotten(void **state)
{
	(void)state;
	begin();
	for (unsigned i = 0; i < 4; i++)
		start(i, (uint16_t)i, 0);
	run(2000);
	stop(3, true);
	run(20000);
	for (unsigned i = 0; i < 3; i++) {
		assert_null(discovery_node(net.hosts[i].d, 3));
		assert_int_equal(net.hosts[i].events[DISCOVERY_LEFT], 1);
	}
	start(40, 3, 1);
	run(200);
	assert_int_equal(discovery_node(net.hosts[2].d, 3)->at.ip[15], 40);
}

static void
clusters_stay_apart(void **state)
{
	(void)state;
	begin();
	start_in(0, 0, 0, "red");
	start_in(1, 1, 0, "red");
	start_in(2, 2, 0, "blue");
	run(5000);
	assert_non_null(discovery_node(net.hosts[0].d, 1));
	assert_null(discovery_node(net.hosts[0].d, 2));
	assert_null(discovery_node(net.hosts[2].d, 0));
	assert_true(net.hosts[2].events[DISCOVERY_OTHER] > 0);
}

/* A node that is its own seed begins again, and knows nobody. */
static void
the_only_seed_restarts(void **state)
{
	(void)state;
	for (unsigned orderly = 0; orderly < 2; orderly++) {
		begin();
		for (unsigned i = 0; i < 3; i++)
			start(i, (uint16_t)i, 0);
		run(2000);
		stop(0, orderly);
		run(1000);
		start(0, 0, 0);
		run(orderly ? 1500 : 6000);
		assert_true(all_know(0, 3));
		/* also if nobody has it as a seed: by digests */
		begin();
		for (unsigned i = 1; i < 3; i++)
			start(i, (uint16_t)i, i);
		start(0, 0, 1);
		run(500);
		const struct discovery_addr other = addr_of(2);

		discovery_seeds(net.hosts[0].d, &other, 1, net.now);
		run(5000);
		assert_true(all_know(0, 3));
		stop(0, false);
		run(100);
		start(0, 0, 0);
		run(20000);
		assert_true(all_know(0, 3));
	}
}

/* A node that has run for longer than its age can say keeps its number. */
static void
an_old_holder_keeps_its_number(void **state)
{
	(void)state;
	begin();
	start(0, 0, 0);
	start(1, 1, 0);
	run(500);
	for (uint64_t days = 10; days < 120; days += 23) {
		net.now = days * 86400000;
		for (unsigned i = 0; i < 2; i++)
			net.hosts[i].next = 0;
		run(3000);
		struct host *h = start(30, 1, 0);

		run(5000);
		assert_true(h->events[DISCOVERY_REFUSED] > 0);
		stop(30, false);
		h = start(30, 0, 1);
		run(5000);
		assert_true(h->events[DISCOVERY_REFUSED] > 0);
		assert_int_equal(net.hosts[0].events[DISCOVERY_REFUSED], 0);
		stop(30, false);
		assert_true(all_know(0, 2));
	}
}

/* A forged word that a node ends, even from its address, is not believed while it runs. */
static void
forged_leave_is_not_believed(void **state)
{
	struct discovery_writer w;
	struct discovery_head h = {.type = DISCOVERY_LEAVE};

	(void)state;
	begin();
	start(0, 0, 0);
	start(1, 1, 0);
	run(500);
	const struct discovery_record *r = discovery_node(net.hosts[0].d, 1);

	/* the hash of the cluster is no secret: that of a real datagram */
	post(&net.hosts[1], &net.hosts[0].at, (const uint8_t *)"", 0);
	net.in_flight = 0;
	discovery_leave(net.hosts[0].d);
	assert_true(net.in_flight > 0);
	discovery_read(net.flight[0].bytes, net.flight[0].len, &h);
	net.in_flight = 0;
	discovery_write(&w, &h);
	discovery_add(&w, r);
	discovery_in(net.hosts[0].d, &net.hosts[1].at, w.bytes, w.len, net.now);
	net.hosts[0].next = 0;
	run(3000);
	assert_non_null(discovery_node(net.hosts[0].d, 1));
	assert_int_equal(net.hosts[0].events[DISCOVERY_LEFT], 0);
}

/* Nodes begin, end, vanish and move at random; when that ends, those that are there know each
 * other, and each number has one holder. */
static void
lives_at_random(void **state)
{
	unsigned at[16]; /* the host of each number; 0: none */

	(void)state;
	for (unsigned history = 0; history < 200; history++) {
		begin();
		net.random = 100 + history;
		net.loss = history % 3 * 10;
		memset(at, 0, sizeof(at));
		for (unsigned step = 0; step < 40; step++) {
			const uint64_t dice = mix64_next(&net.random);
			const unsigned n = dice % 16, host = 16 + (unsigned)(dice >> 8) % 100;

			if (at[n] != 0) {
				stop(at[n], dice >> 16 & 1);
				at[n] = 0;
			} else if (net.hosts[host].d == NULL) {
				start(host, (uint16_t)n, 16 + (unsigned)(dice >> 20) % 100);
				const struct discovery_addr seeds[2] = {addr_of(at[0]),
					addr_of(at[1 + n % 15])};

				discovery_seeds(net.hosts[host].d, seeds, 2, net.now);
				at[n] = host;
			}
			run(dice >> 24 & 2047);
		}
		/* whoever is left gets one seed that all have */
		const struct discovery_addr first = addr_of(0);

		start(0, 100, 0);
		for (unsigned n = 0; n < 16; n++) {
			if (at[n] != 0)
				discovery_seeds(net.hosts[at[n]].d, &first, 1, net.now);
		}
		net.loss = 0;
		run(60000);
		for (unsigned n = 0; n < 16; n++) {
			for (unsigned k = 0; k < 16; k++) {
				if (at[n] == 0 || at[k] == 0 || n == k)
					continue;
				const struct discovery_record *r =
					discovery_node(net.hosts[at[n]].d, k);

				if (r == NULL || r->at.ip[15] != at[k])
					fail_msg("history %u: node %u knows node %u at %d, not %u",
						history, n, k, r != NULL ? r->at.ip[15] : -1,
						at[k]);
			}
		}
	}
}

/* Strangers make no entry, whatever they send; who floods gets no more bytes than he sends. */
static void
strangers_get_nothing(void **state)
{
	struct host *h;
	struct discovery_record r = {.number = 9, .generation = 1};
	struct discovery_writer w;
	uint64_t bytes = 0;

	(void)state;
	begin();
	h = start(0, 0, 0);
	start(1, 1, 0);
	run(500);
	net.in_flight = 0;
	for (unsigned type = 1; type < DISCOVERY_TYPES; type++) {
		for (unsigned i = 0; i < 1000; i++) {
			const struct discovery_head head = {(uint8_t)type, i & 1,
				mix64_next(&net.random), i < 500 ? 0 : mix64_next(&net.random), 0};
			const struct discovery_addr from = addr_of(50 + i % 20);

			discovery_write(&w, &head);
			/* the cluster's hash is no secret */
			memcpy(w.bytes + 24, (uint8_t[8]){0}, 8);
			discovery_add(&w, &r);
			discovery_in(h->d, &from, w.bytes, w.len, net.now);
			bytes += w.len;
		}
	}
	assert_null(discovery_node(h->d, 9));
	assert_non_null(discovery_node(h->d, 1));
	for (uint32_t i = 0; i < net.in_flight; i++)
		bytes -= net.flight[i].len;
	assert_true((int64_t)bytes >= 0);
}

static void
random_bytes(void **state)
{
	struct host *h;

	(void)state;
	begin();
	h = start(0, 0, 0);
	start(1, 1, 0);
	run(20);
	for (unsigned round = 0; round < 300000; round++) {
		const struct datagram *real = &net.flight[mix64_next(&net.random) % 64];
		const uint32_t len = (uint32_t)(mix64_next(&net.random) % (DISCOVERY_BYTES + 40));
		uint8_t *bytes = malloc(len + 1); /* of its own, for sanitizers */

		for (uint32_t k = 0; k < len; k++)
			bytes[k] = k < real->len ? real->bytes[k] : 0;
		for (unsigned n = mix64_next(&net.random) % 6; n > 0 && len > 0; n--)
			bytes[mix64_next(&net.random) % (len < 160 ? len : 160)] =
				(uint8_t)mix64_next(&net.random);
		discovery_in(h->d, &net.hosts[1].at, bytes, len, net.now);
		if (net.in_flight > FLIGHT / 2)
			net.in_flight = 64;
		free(bytes);
	}
	start(2, 2, 0);
	net.in_flight = 0;
	run(5000);
	assert_non_null(discovery_node(h->d, 2));
}

static void
records_are_read_as_written(void **state)
{
	uint64_t random = 5;

	(void)state;
	for (unsigned i = 0; i < 20000; i++) {
		struct discovery_record r =
						{
							.number = (uint16_t)(mix64_next(&random) %
								65535),
							.generation =
								(uint32_t)mix64_next(&random) | 1,
							.age_ms = (uint32_t)mix64_next(&random),
						},
					back;
		const struct discovery_head h = {(uint8_t)(1 + i % (DISCOVERY_TYPES - 1)), i & 1, i,
			i, i};
		struct discovery_head head;
		struct discovery_writer w;
		uint32_t at = DISCOVERY_HEAD_BYTES;

		for (unsigned k = 0; k < mix64_next(&random) % DISCOVERY_NAME_MAX; k++)
			r.name[k] = "abzAZ09.-_"[mix64_next(&random) % 10];
		for (unsigned k = 0; k < DISCOVERY_LINKS_MAX; k++) {
			r.kind[k] = mix64_next(&random) % DISCOVERY_KINDS;
			for (unsigned b = 0; r.kind[k] != 0 && b < 16; b++)
				r.link[k].ip[b] = (uint8_t)mix64_next(&random);
			r.link[k].port = r.kind[k] != 0 ? (uint16_t)mix64_next(&random) : 0;
		}
		discovery_write(&w, &h);
		assert_true(discovery_add(&w, &r));
		assert_true(discovery_read(w.bytes, w.len, &head));
		assert_int_equal(head.type, h.type);
		assert_int_equal(head.flags, h.flags);
		assert_int_equal(head.nonce + head.cookie + head.cluster, 3ull * i);
		assert_true(discovery_next(w.bytes, w.len, &at, &back));
		assert_int_equal(at, w.len);
		assert_memory_equal(&r, &back, sizeof(r));
		for (uint32_t len = DISCOVERY_HEAD_BYTES; len < w.len; len++) {
			at = DISCOVERY_HEAD_BYTES;
			assert_false(discovery_next(w.bytes, len, &at, &back));
		}
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_are_read_as_written),
		cmocka_unit_test(one_seed_is_enough),
		cmocka_unit_test(many_at_once),
		cmocka_unit_test(a_seed_comes_last),
		cmocka_unit_test(networks_that_were_apart),
		cmocka_unit_test(a_newcomer_with_a_number_of_another_is_refused),
		cmocka_unit_test(a_seed_that_runs_is_undecided_until_it_judges),
		cmocka_unit_test(a_node_that_moved_or_restarted_replaces_its_old_life),
		cmocka_unit_test(who_leaves_is_forgotten),
		cmocka_unit_test(the_only_seed_restarts),
		cmocka_unit_test(an_old_holder_keeps_its_number),
		cmocka_unit_test(forged_leave_is_not_believed),
		cmocka_unit_test(clusters_stay_apart),
		cmocka_unit_test(lives_at_random),
		cmocka_unit_test(strangers_get_nothing),
		cmocka_unit_test(random_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
