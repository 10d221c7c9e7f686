/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reading topologies: what is there, the routes of a tree, and every sentence about what is wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "topology_text.h"

static const char two_switches[] = "# two racks\n"
				   "switch s0 buffer=256K\n"
				   "switch s1 buffer=1M   # the other one\n"
				   "host a[0-2]\n"
				   "host b\n"
				   "link a[0-2] s0 bandwidth=10G latency=1us\n"
				   "link b s1 bandwidth=1G latency=500ns\n"
				   "link s0 s1 latency=2.5us bandwidth=100G\n";

static void
topology_parse__hosts_switches_links(void **state)
{
	struct topology *t = parsed(two_switches);

	(void)state;
	assert_int_equal(t->vertex_count, 6);
	assert_int_equal(t->host_count, 4);
	assert_int_equal(t->edge_count, 10);
	assert_string_equal(t->vertices[t->hosts[1]].name, "a1");
	assert_string_equal(t->vertices[t->hosts[3]].name, "b");
	assert_int_equal(t->vertices[0].buffer_bytes, 256 << 10);
	assert_int_equal(t->vertices[1].buffer_bytes, 1 << 20);
	assert_int_equal(t->vertices[0].host, TOPOLOGY_NONE);
	assert_int_equal(t->vertices[0].edge_count, 4);
	for (uint32_t i = 0; i < t->edge_count; i++) {
		const struct topology_edge *e = &t->edges[i], *back = &t->edges[e->reverse];

		assert_int_equal(back->reverse, i);
		assert_int_equal(back->from, e->to);
		assert_int_equal(back->bandwidth_bps, e->bandwidth_bps);
		assert_in_range(i, t->vertices[e->from].first_edge,
			t->vertices[e->from].first_edge + t->vertices[e->from].edge_count - 1);
	}
	const struct topology_edge *up = &t->edges[t->vertices[t->hosts[3]].first_edge];

	assert_int_equal(up->bandwidth_bps, 1000000000);
	assert_int_equal(up->latency_ns, 500);
	topology_free(t);
}

/* A link whose directions differ, and one that shapes flows. */
static void
topology_parse__directions_and_streams(void **state)
{
	struct topology *t = parsed("switch s\nhost a[0-1]\n"
				    "link a[0-1] s bandwidth=100M/1G latency=1us stream=50M\n");

	(void)state;
	for (uint32_t i = 0; i < t->edge_count; i++) {
		const struct topology_edge *e = &t->edges[i];
		const bool from_host = t->vertices[e->from].host != TOPOLOGY_NONE;

		assert_int_equal(e->bandwidth_bps, from_host ? 100000000 : 1000000000);
		assert_int_equal(e->stream_bps, 50000000);
	}
	topology_free(t);
}

/* Check the time that hosts' processors take for a message and for a copy. */
static void
topology_parse__host_costs(void **state)
{
	struct topology *t = parsed("switch s\nhost a[0-1] copy=8G message=1.5us\n"
				    "host b message=20ns\n"
				    "link a[0-1] s bandwidth=1G latency=1us\n"
				    "link b s bandwidth=1G latency=1us\n");

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		assert_true(topology_message_ns(t, i, 0) == 1500);
		assert_true(topology_message_ns(t, i, 1000) == 2500);
		assert_true(topology_copy_ns(t, i, 1000) == 1000);
	}
	assert_true(topology_message_ns(t, 2, 1000) == 20);
	topology_free(t);
}

/* Check who may connect: those of one talk line, of whatever switch; without such a line, all. */
static void
topology_parse__who_may_talk(void **state)
{
	static const char net[] = "switch s\nswitch r\nhost a[0-69]\nhost b[0-1]\nhost c\n"
				  "link a[0-69] s bandwidth=1G latency=1us\n"
				  "link b[0-1] r bandwidth=1G latency=1us\n"
				  "link c r bandwidth=1G latency=1us\n"
				  "link r s bandwidth=1G latency=1us\n";
	char text[600];
	struct topology *t = parsed(net);

	(void)state;
	assert_null(t->talks);
	assert_true(topology_may_talk(t, 0, 72));
	topology_free(t);
	snprintf(text, sizeof(text), "%stalk s\ntalk a69 b0 # gateways\ntalk b[0-1]\n", net);
	t = parsed(text);
	for (uint32_t x = 0; x < 73; x++) {
		for (uint32_t y = 0; y < 73; y++) {
			const uint32_t low = x < y ? x : y, high = x < y ? y : x;
			const bool may = x == y || high < 70 || (low == 69 && high == 70) ||
				(low == 70 && high == 71);

			assert_int_equal(topology_may_talk(t, x, y), may);
		}
	}
	topology_free(t);
}

/* Following the routes leads to every host, in as many steps as the tree has. */
static void
topology_route__leads_to_every_host(void **state)
{
	struct topology *t = parsed(two_switches);

	(void)state;
	for (uint32_t from = 0; from < t->host_count; from++) {
		for (uint32_t to = 0; to < t->host_count; to++) {
			uint32_t at = t->hosts[from], steps = 0, e;

			while ((e = topology_route(t, at, to)) != TOPOLOGY_NONE && ++steps < 10) {
				assert_int_equal(t->edges[e].from, at);
				at = t->edges[e].to;
			}
			assert_int_equal(at, t->hosts[to]);
			assert_int_equal(steps, from == to ? 0 : from == 3 || to == 3 ? 3 : 2);
		}
	}
	topology_free(t);
}

static const struct {
	const char *text, *say;
} wrong[] = {
	{"", "no host"},
	{"router r\n", "line 1: 'router'"},
	{"host a\nhost a\n", "line 2: 'a' is there already"},
	{"host a[3-1]\n", "range"},
	{"host a[0-1]x\n", "range"},
	{"host abcdefghijklmnopqrstuvwxyzabcdef\n", "characters"},
	{"host\n", "host NAME"},
	{"host a message=1\n", "'message=1': message=TIME"},
	{"host a message=2s\n", "1s at most"},
	{"host a copy=10\n", "copy=RATE"},
	{"host a buffer=1K\n", "'buffer=1K': message=TIME"},
	{"host a copy=1G copy=1G copy=1G\n", "host NAME [message=TIME]"},
	{"switch s copy=1G\n", "buffer=SIZE"},
	{"switch s buffer=many\n", "buffer=SIZE"},
	{"switch s buffer=-1\n", "buffer=SIZE"},
	{"host a\nhost b\nlink a c bandwidth=1G latency=1us\n",
		"line 3: no host or switch is named 'c'"},
	{"host a\nlink a a bandwidth=1G latency=1us\n", "itself"},
	{"host a\nhost b\nlink a b latency=1us latency=1us\n", "no bandwidth"},
	{"host a\nhost b\nlink a b bandwidth=0 latency=1us\n", "bandwidth=RATE"},
	{"host a\nhost b\nlink a b bandwidth=1G/ latency=1us\n", "bandwidth=RATE"},
	{"host a\nhost b\nlink a b bandwidth=1G/0 latency=1us\n", "bandwidth=RATE"},
	{"host a\nhost b\nlink a b bandwidth=1G latency=1us stream=0\n", "stream=RATE"},
	{"host a\nhost b\nlink a b bandwidth=1G latency=1us stream=1G x\n", "link NAME"},
	{"host a\nhost b\nlink a b bandwidth=1G stream=1G\n", "link NAME"},
	{"host a\nhost b\nlink a b bandwidth=1G latency=1us latency=1us\n", "link NAME"},
	{"host a\nhost b\nlink a b bandwidth=1G latency=1\n", "latency=TIME"},
	{"host a\nhost b\nlink a b bandwidth=1G\n", "link NAME NAME"},
	{"host a\nhost b\n", "not everything is joined to 'a'"},
	{"host a\nhost b\nhost c\nlink a b bandwidth=1G latency=1us\n"
	 "link b c bandwidth=1G latency=1us\n",
		"host 'b' has 2 links"},
	{"switch r\nswitch s\nswitch t\nhost a\nlink a r bandwidth=1G latency=1us\n"
	 "link r s bandwidth=1G latency=1us\nlink s t bandwidth=1G latency=1us\n"
	 "link t r bandwidth=1G latency=1us\n",
		"loop"},
	{"host a\ntalk\n", "line 2: talk NAME"},
	{"host a\ntalk a b\n", "line 2: no host or switch is named 'b'"},
	{"host a\ntalk a[0-1]\n", "line 2: no host or switch is named 'a0'"},
	{"host a\n"
	 "talk a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a "
	 "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a "
	 "a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a "
	 "a a a a a a a a a a a a\n",
		"too many words"},
};

static void
topology_parse__says_what_is_wrong(void **state)
{
	struct topology *t;
	char error[256];

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_true(topology_parse(wrong[i].text, &t, error, sizeof(error)) < 0);
		if (strstr(error, wrong[i].say) == NULL)
			fail_msg("'%s' is said of: %s", error, wrong[i].text);
	}
}

static void
topology_read__file_and_its_errors(void **state)
{
	char path[] = "/tmp/pmx-topology.XXXXXX", error[256];
	int fd = mkstemp(path);
	struct topology *t;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, two_switches, strlen(two_switches)), strlen(two_switches));
	close(fd);
	assert_int_equal(topology_read(path, &t, error, sizeof(error)), 0);
	assert_int_equal(t->host_count, 4);
	topology_free(t);
	unlink(path);
	assert_true(topology_read(path, &t, error, sizeof(error)) < 0);
	assert_non_null(strstr(error, path));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(topology_parse__hosts_switches_links),
		cmocka_unit_test(topology_parse__directions_and_streams),
		cmocka_unit_test(topology_parse__host_costs),
		cmocka_unit_test(topology_parse__who_may_talk),
		cmocka_unit_test(topology_route__leads_to_every_host),
		cmocka_unit_test(topology_parse__says_what_is_wrong),
		cmocka_unit_test(topology_read__file_and_its_errors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
