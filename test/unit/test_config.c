/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Unit tests of the configuration: defaults, every kind of value, and for each error that the
 * message names line, section and key.
 */
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "discovery/discovery.h"
#include "node/config_file.h"
#include "node/sizes.h"

#define HEAD "[node]\nid = 3\n[link 0]\nport = x\n" /* lines 1 to 4 */

static struct config c;
static char error[512];

static void
good(const char *text)
{
	error[0] = 0;
	if (node_config_read_text(&c, text, error, sizeof(error)) != 0)
		fail_msg("%s", error);
}

/* Refused, and the message has `where` at its beginning and `why` in it. */
static void
bad(const char *text, const char *where, const char *why)
{
	error[0] = 0;
	assert_int_equal(node_config_read_text(&c, text, error, sizeof(error)), -1);
	if (strncmp(error, where, strlen(where)) != 0 || strstr(error, why) == NULL)
		fail_msg("'%s' has not '%s' and '%s'", error, where, why);
}

static int
teardown(void **state)
{
	(void)state;
	config_free(&c);
	return 0;
}

static void
config_read__defaults(void **state)
{
	(void)state;
	good(HEAD);
	assert_int_equal(c.id, 3);
	assert_string_equal(c.name, "pmx0");
	assert_int_equal(c.lanes, 1);
	assert_int_equal(c.idle, IDLE_ADAPTIVE);
	assert_true(c.links[0].used);
	assert_false(c.links[1].used);
	assert_string_equal(c.links[0].link.driver, "ethdev");
	assert_int_equal(c.links[0].link.encap, LINK_ENCAP_ETHER);
	assert_int_equal(c.links[0].link.ethertype, 0x88B5);
	assert_int_equal(c.links[0].link.mtu, 1500);
	assert_int_equal(c.proto.recovery, PROTO_SELECTIVE);
	assert_ptr_equal(c.proto.cc, &cc_delay);
	assert_int_equal(c.proto.window_frames, 512);
	assert_int_equal(c.proto.keepalive_us, 1000000);
	assert_int_equal(c.proto.flow_idle_us, 60000000);
	assert_false(c.checksum);
	assert_int_equal(c.lhs_entry_bytes, 64);
	assert_int_equal(c.lhs_split, 40);
	assert_int_equal(c.message_max, WIRE_MESSAGE_MAX);
}

static void
config_read__every_kind_of_value(void **state)
{
	(void)state;
	good("# comment\n[node]\nid = 0x10\nname = n\n[engine]\nidle = sleep\nlanes = 16\n"
	     "[link 0]\ndriver = ethdev\nport = p\nencap = udp\nip = 10.1.2.3\nudp_port = 99\n"
	     "ethertype = 0x0800\n[link 1]\ndriver = loop\nport = q\n"
	     "[limits]\nmbufs = 200000\n[proto]\nrecovery = go-back-n\ncc = pm\nchecksum = on\n"
	     "[link 2]\nport = r\n"
	     "[nodes]\n0 = 02:00:00:00:00:07 link=2\n1 = 10.0.0.1\n2 = 10.0.0.2:77\n"
	     "3 = auto link=1\n10 = auto link=1\n");
	assert_int_equal(c.id, 16);
	assert_int_equal(c.idle, IDLE_SLEEP);
	assert_int_equal(c.links[0].link.net.ip, 0x0A010203);
	assert_int_equal(c.links[0].link.ethertype, 0x0800);
	assert_int_equal(c.links[1].link.encap, LINK_ENCAP_NONE);
	assert_int_equal(c.proto.recovery, PROTO_GO_BACK_N);
	assert_ptr_equal(c.proto.cc, &cc_pm);
	assert_true(c.checksum);
	assert_int_equal(c.peers[0].addr[2].mac.addr_bytes[5], 7);
	assert_int_equal(c.peers[1].addr[0].ip, 0x0A000001);
	assert_int_equal(c.peers[1].addr[0].port, 99);
	assert_int_equal(c.peers[2].addr[0].port, 77);
	assert_int_equal(c.peers[3].links, 2);
	assert_int_equal(c.peers[3].addr[1].mac.addr_bytes[0], 0x02);
	assert_int_equal(c.peers[3].addr[1].mac.addr_bytes[5], 3);
	assert_int_equal(c.peers[4].links, 0);
	assert_int_equal(c.peers[10].links, 2);
	assert_int_equal(c.peers[11].links, 0);
}

static void
config_read__bounds_are_allowed(void **state)
{
	(void)state;
	good(HEAD "[limits]\nmbufs = 4194304\ncontexts = 1024\nsend_buffers = 32768\n");
	assert_int_equal(c.contexts, 1024);
}

static void
config_read__number(void **state)
{
	(void)state;
	bad(HEAD "[limits]\nmbufs = 255\n", "(text):6: [limits] mbufs:", "from 256 to 4194304");
	bad(HEAD "[limits]\nmbufs = 4194305\n", "(text):6: [limits] mbufs:", "'4194305'");
	bad(HEAD "[limits]\nmbufs = 18446744073709551616\n", "(text):6: [limits] mbufs:", "number");
	bad(HEAD "[limits]\nmbufs = -5\n", "(text):6: [limits] mbufs:", "'-5'");
	bad(HEAD "[limits]\nmbufs = 5k\n", "(text):6: [limits] mbufs:", "'5k'");
	bad(HEAD "vlan = 4095\n", "(text):5: [link 0] vlan:", "from 1 to 4094");
}

static void
config_read__choice_bool_text_ip(void **state)
{
	char text[512];

	(void)state;
	bad(HEAD "driver = tcp\n", "(text):5: [link 0] driver:", "ethdev|udp|loop");
	bad(HEAD "driver = eth\n", "(text):5: [link 0] driver:", "'eth'");
	bad(HEAD "[proto]\nchecksum = yes\n", "(text):6: [proto] checksum:", "on nor off");
	bad(HEAD "ip = 1.2.3\n", "(text):5: [link 0] ip:", "IPv4");
	bad(HEAD "encap = none\n", "(text):5: [link 0] encap:", "udp and loop");
	snprintf(text, sizeof(text), "[node]\nid = 1\nname = %032d\n[link 0]\n", 0);
	bad(text, "(text):3: [node] name:", "longer than 31");
}

static void
config_read__unknown(void **state)
{
	(void)state;
	bad(HEAD "prot = y\n", "(text):5: [link 0] prot:", "unknown key; [link] has: driver, port");
	bad(HEAD "[lnk 1]\n", "(text):5: [lnk 1]", "unknown section");
	bad(HEAD "[link 4]\n", "(text):5: [link 4]", "unknown section");
	bad(HEAD "[link 1x]\n", "(text):5: [link 1x]", "unknown section");
}

static void
config_read__duplicates(void **state)
{
	(void)state;
	bad(HEAD "port = y\n", "(text):5: [link 0] port:", "given twice");
	bad(HEAD "[nodes]\n1 = auto\n1 = auto\n", "(text):7: [nodes] 1:", "given twice");
	bad(HEAD "[nodes]\n1 = auto\n01 = auto\n", "(text):7: [nodes] 01:", "number");
	bad(HEAD "[limits]\n[link 0]\nport = y\n", "(text):6: [link 0]", "given twice");
}

static void
config_read__nodes(void **state)
{
	(void)state;
	bad(HEAD "[nodes]\nx = auto\n", "(text):6: [nodes] x:", "not a node number");
	bad(HEAD "[nodes]\n-1 = auto\n", "(text):6: [nodes] -1:", "not a node number");
	bad(HEAD "[nodes]\n1024 = auto\n", "(text):6: [nodes] 1024:", "from 0 to 1023");
	bad(HEAD "[nodes]\n1 = 02:00:00:00:00:0g\n", "(text):6: [nodes] 1:", "MAC");
	bad(HEAD "[nodes]\n1 = 1.2.3.4:65536\n", "(text):6: [nodes] 1:", "MAC");
	bad(HEAD "[nodes]\n1 = somewhere\n", "(text):6: [nodes] 1:", "'somewhere'");
	bad(HEAD "[nodes]\n1 = auto link=1\n", "(text):6: [nodes] 1:", "link=1");
	bad(HEAD "[nodes]\n1 = auto here\n", "(text):6: [nodes] 1:", "here");
}

#define TWO "[node]\nid = 3\n[link 0]\nport = x\n[link 1]\nport = y\n" /* lines 1 to 6 */
#define UDPS                                                                                       \
	"[node]\nid = 3\n[link 0]\nport = x\nencap = udp\nip = 10.0.0.3\n"                         \
	"[link 1]\nport = y\nencap = udp\nip = 10.1.0.3\nudp_port = 77\n" /* lines 1 to 11 */

static void
config_read__nodes_with_several_links(void **state)
{
	(void)state;
	good(TWO "[nodes]\n7 = auto link=0,1\n8 = auto link=1\n9 = auto\n"
		 "10 = 02:00:00:00:00:0a 02:00:00:00:01:0a link=1\n");
	assert_int_equal(config_link_count(&c), 2);
	assert_int_equal(c.peers[7].links, 3);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(c.peers[7].addr[i].mac.addr_bytes[0], 0x02);
		assert_int_equal(c.peers[7].addr[i].mac.addr_bytes[5], 7);
	}
	assert_int_equal(c.peers[8].links, 2);
	assert_int_equal(c.peers[9].links, 1);
	assert_int_equal(config_peer_link(&c.peers[7]), 0);
	assert_int_equal(config_peer_link(&c.peers[8]), 1);
	assert_int_equal(c.peers[10].links, 3);
	assert_int_equal(c.peers[10].addr[0].mac.addr_bytes[4], 0);
	assert_int_equal(c.peers[10].addr[1].mac.addr_bytes[4], 1);
	good(UDPS "[nodes]\n7 = 10.0.0.7 link=0 10.1.0.7:99 link=1 mac=02:00:00:00:00:09\n"
		  "8 = 10.0.0.8 10.1.0.8 link=1\n"
		  "9 = 10.0.0.9 link=1,0\n");
	assert_int_equal(c.peers[7].links, 3);
	assert_int_equal(c.peers[7].addr[0].ip, 0x0A000007);
	assert_int_equal(c.peers[7].addr[0].port, 18515);
	assert_true(rte_is_zero_ether_addr(&c.peers[7].addr[0].mac));
	assert_int_equal(c.peers[7].addr[1].ip, 0x0A010007);
	assert_int_equal(c.peers[7].addr[1].port, 99);
	assert_int_equal(c.peers[7].addr[1].mac.addr_bytes[5], 9);
	assert_int_equal(c.peers[8].links, 3);
	assert_int_equal(c.peers[8].addr[1].ip, 0x0A010008);
	/* each link has its own port */
	assert_int_equal(c.peers[8].addr[1].port, 77);
	assert_int_equal(c.peers[9].links, 3);
	assert_int_equal(c.peers[9].addr[0].port, 18515);
	assert_int_equal(c.peers[9].addr[1].port, 77);
}

static void
config_read__a_node_has_a_name(void **state)
{
	(void)state;
	good("[node]\nid = 9\n[link 0]\ndriver = udp\nlisten = 127.0.0.1:9\n"
	     "[nodes]\n3 = 127.0.0.3:13 name=third.of-us\n4 = 127.0.0.4:14 name=4th\n");
	assert_string_equal(c.peers[3].name, "third.of-us");
	assert_string_equal(c.peers[4].name, "4th");
}

static void
config_read__a_host_stands_for_its_address(void **state)
{
	const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM};
	struct addrinfo *found;

	(void)state;
	if (getaddrinfo("localhost", NULL, &hints, &found) != 0) {
		print_message("this host's resolver knows no localhost\n");
		skip();
	}
	freeaddrinfo(found);
	good("[node]\nid = 9\n[link 0]\ndriver = udp\nlisten = 127.0.0.1:9\n"
	     "[nodes]\n1 = localhost:11\n2 = localhost:12\n3 = 127.0.0.3:13 name=third.of-us\n"
	     "4 = localhost:14 name=4th\n9 = no-such-host.invalid:1\n");
	/* the resolver's address; the name of the first that has it */
	assert_int_equal(c.peers[1].addr[0].ip, 0x7F000001);
	assert_int_equal(c.peers[1].addr[0].port, 11);
	assert_string_equal(c.peers[1].name, "localhost");
	assert_int_equal(c.peers[2].addr[0].port, 12);
	assert_string_equal(c.peers[2].name, "");
	assert_string_equal(c.peers[3].name, "third.of-us");
	assert_string_equal(c.peers[4].name, "4th");
}

static void
config_read__names_that_are_none(void **state)
{
	static const char head[] =
		"[node]\nid = 9\n[link 0]\ndriver = udp\n"
		"listen = 127.0.0.1:9\n[nodes]\n1 = 127.0.0.1:5 name=first\n2 = ";
	static const struct {
		const char *line, *why;
	} cases[] = {
		{"127.0.0.1:6 name=first\n", "node 1 has the name 'first'"},
		{"127.0.0.1:6 name=\n", "is no name"},
		{"127.0.0.1:6 name=12\n", "is no name"},
		{"127.0.0.1:6 name=a:b\n", "is no name"},
		{"127.0.0.1:6 name=-a\n", "is no name"},
		{"127.0.0.1:6 "
		 "name=a234567890123456789012345678901234567890123456789012345678901234\n",
			"is no name"},
		{"no-such-host.invalid:6\n", "no IPv4 address of that host"},
		{"localhost:0\n", "the port is not a number"},
		{"localhost:65536\n", "the port is not a number"},
		{"localhost:x\n", "the port is not a number"},
		{"1.2.3\n", "neither a MAC address"},
	};
	char text[512];

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "%s%s", head, cases[i].line);
		bad(text, "(text):8: [nodes] 2:", cases[i].why);
	}
	/* on a link with Ethernet addresses a host is where discovery asks */
	good(HEAD "[nodes]\n7 = localhost\n8 = 10.0.0.8:99\n");
	assert_true(c.discovers);
	assert_int_equal(c.peers[7].links + c.peers[8].links, 0);
	assert_int_equal(c.peers[7].host.port, DISCOVERY_PORT);
	assert_int_equal(c.peers[8].host.port, 99);
	config_free(&c);
}

static void
config_read__several_links_name_line_and_key(void **state)
{
	static const struct {
		const char *text, *where, *why;
	} cases[] = {
		{TWO "[nodes]\n7 = auto link=0,2\n",
			"(text):8: [nodes] 7:", "'2' is no link of this file"},
		{TWO "[nodes]\n7 = auto link=0,1,4\n",
			"(text):8: [nodes] 7:", "'4' is no link of this file"},
		{TWO "[nodes]\n7 = auto link=\n", "(text):8: [nodes] 7:", "'' is no link"},
		{TWO "[nodes]\n7 = auto link=0,\n", "(text):8: [nodes] 7:", "'' is no link"},
		{TWO "[nodes]\n7 = auto link=,0\n", "(text):8: [nodes] 7:", "'' is no link"},
		{TWO "[nodes]\n7 = auto link=0,,1\n", "(text):8: [nodes] 7:", "'' is no link"},
		{TWO "[nodes]\n7 = auto link=0;1\n", "(text):8: [nodes] 7:", "'0;1' is no link"},
		{TWO "[nodes]\n7 = auto link=000000000000000000001\n",
			"(text):8: [nodes] 7:", "is no link"},
		{TWO "[nodes]\n7 = auto link=0,0\n",
			"(text):8: [nodes] 7:", "link 0 is given twice"},
		{TWO "[nodes]\n7 = auto link=0 link=1\n",
			"(text):8: [nodes] 7:", "one list of links"},
		{TWO "[nodes]\n7 = auto link=0 auto link=0,1\n",
			"(text):8: [nodes] 7:", "link 0 is given twice"},
		{TWO "[nodes]\n7 = auto link=1 02:00:00:00:00:08 link=1\n",
			"(text):8: [nodes] 7:", "link 1 is given twice"},
		{TWO "[nodes]\n7 = auto auto\n", "(text):8: [nodes] 7:", "link 0 is given twice"},
		{TWO "[nodes]\n7 = auto link=0 somewhere link=1\n",
			"(text):8: [nodes] 7:", "no IPv4 address of that host"},
		{TWO "[nodes]\n7 = auto link=0 mac=02 auto link=1\n",
			"(text):8: [nodes] 7:", "mac=MAC"},
		{TWO "[nodes]\n7 = link=0\n", "(text):8: [nodes] 7:", "neither a MAC address"},
		{UDPS "[nodes]\n7 = 10.0.0.7 link=0 auto link=1\n",
			"(text):13: [nodes] 7:", "[link 1], encap = udp: give its IPv4 address"},
		{UDPS "[nodes]\n7 = 10.0.0.7 link=0 10.1.0.7:0 link=1\n",
			"(text):13: [nodes] 7:", "port 0"},
		{UDPS "[nodes]\n7 = 10.0.0.7 link=0 fe80::7 link=1\n",
			"(text):13: [nodes] 7:", "for driver = udp"},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		bad(cases[i].text, cases[i].where, cases[i].why);
}

static void
config_read__links_are_used_by(void **state)
{
	(void)state;
	good(TWO);
	assert_int_equal(c.links_by, LINKS_SPREAD);
	good(TWO "[engine]\nlinks = spread\n");
	assert_int_equal(c.links_by, LINKS_SPREAD);
	good(TWO "[engine]\nlinks = failover\n");
	assert_int_equal(c.links_by, LINKS_FAILOVER);
	bad(TWO "[engine]\nlinks = both\n", "(text):8: [engine] links:", "spread|failover");
}

static void
config_read__together(void **state)
{
	(void)state;
	bad("[node]\nid = 5\n[limits]\nnodes = 5\n", "(text):2: [node] id:", "limits.nodes = 5");
	bad(HEAD "[limits]\nlhs_entries = 12\n", "(text):6: [limits] lhs_entries:", "power of two");
	bad(HEAD "[limits]\nsubmissions = 6\n", "(text):6: [limits] submissions:", "power of two");
	bad(HEAD "[limits]\nlhs_entry_bytes = 96\n", "(text):6: [limits] lhs_entry_bytes:", "128");
	bad(HEAD "[limits]\nlhs_split = 41\n", "(text):6: [limits] lhs_split:", "40 bytes");
	bad(HEAD "[limits]\nlhs_split = 0\nlhs_size_offset = 26\n",
		"(text):7: [limits] lhs_size_offset:", "multiple of 4");
	bad(HEAD "[limits]\nlhs_size_offset = 60\n", "(text):5: [limits] lhs_split:", "36 bytes");
	bad(HEAD "[proto]\nrto_min_us = 2000\nrto_max_us = 1000\n",
		"(text):6: [proto] rto_min_us:", "rto_max_us = 1000");
}

/* Becomes part of paths and of what is removed: nothing but plain names. */
static void
config_read__name(void **state)
{
	static const char *const refused[] = {"vic*", "../x", "a/b", ".", "..", "-x", "_x", "a b",
		"a?", "[ab]", "x\\", "a+", "\xc3\xa4"};
	static const char *const allowed[] = {"a", "0", "pmx0", "A.b_c-9",
		"n234567890123456789012345678901"};
	char text[256];

	(void)state;
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		snprintf(text, sizeof(text), "[node]\nid = 1\nname = %s\n[link 0]\nport = x\n",
			refused[i]);
		bad(text, "(text):3: [node] name:", "1 to 31 of the characters A-Z a-z 0-9 . _ -");
	}
	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
		snprintf(text, sizeof(text), "[node]\nid = 1\nname = %s\n[link 0]\nport = x\n",
			allowed[i]);
		good(text);
		assert_string_equal(c.name, allowed[i]);
		config_free(&c);
	}
}

/* Check that what would be refused when the node starts is refused when it is read. */
static void
config_read__would_not_start(void **state)
{
	static const struct {
		const char *text, *where, *why;
	} cases[] = {
		{"[node]\nid = 0\n", "(text):0: [link 0]", "missing"},
		{"[node]\nid = 0\n[link 1]\nport = x\n", "(text):3: [link 1]", "without [link 0]"},
		{"[node]\nid = 0\n[link 0]\n", "(text):3: [link 0]", "port is not set"},
		{"[node]\nid = 0\n[link 0]\ndriver = loop\n", "(text):3: [link 0]",
			"port is not set"},
		{"[node]\nid = 0\n[link 0]\ndriver = udp\n", "(text):3: [link 0]", "listen \"\""},
		{"[node]\nid = 0\n[link 0]\ndriver = udp\nlisten = nonsense\n",
			"(text):3: [link 0]", "listen \"nonsense\""},
		{"[node]\nid = 0\n[link 0]\ndriver = udp\nlisten = 127.0.0.1\n",
			"(text):3: [link 0]", "address:port"},
		{"[node]\nid = 0\n[link 0]\ndriver = udp\nlisten = 127.0.0.1:65536\n",
			"(text):3: [link 0]", "address:port"},
		{"[node]\nid = 0\n[link 0]\ndriver = udp\nlisten = 127.0.0.1:99x\n",
			"(text):3: [link 0]", "address:port"},
		{"[node]\nid = 0\n[link 0]\ndriver = udp\nlisten = 127.0.0.1:9\nfault = lots\n",
			"(text):3: [link 0]", "unknown key \"lots\""},
		{"[node]\nid = 0\n[link 0]\nport = x\n[link 1]\nport = x\n", "(text):5: [link 1]",
			"same port as [link 0]"},
		{"[node]\nid = 0\n[link 0]\nport = x\nencap = udp\n",
			"(text):3: [link 0] ip:", "own address"},
		{"[node]\nid = 0\n[link 0]\ndriver = udp\nlisten = 127.0.0.1:9\n[nodes]\n"
		 "1 = 02:00:00:00:00:01\n",
			"(text):7: [nodes] 1:", "driver = udp: give its IP address"},
		{"[node]\nid = 0\n[link 0]\ndriver = udp\nlisten = 127.0.0.1:9\n[nodes]\n1 = "
		 "auto\n",
			"(text):7: [nodes] 1:", "IP"},
		{"[node]\nid = 0\n[link 0]\ndriver = udp\nlisten = 127.0.0.1:9\n[nodes]\n"
		 "1 = 10.0.0.1:0\n",
			"(text):7: [nodes] 1:", "port 0"},
		{HEAD "encap = udp\nip = 10.0.0.3\n[nodes]\n1 = auto\n",
			"(text):8: [nodes] 1:", "encap = udp: give its IPv4 address"},
		{HEAD "[limits]\nmbufs = 2000\n", "(text):6: [limits] mbufs:", "too few"},
		{HEAD "[access]\nsocket = pmx.sock\n",
			"(text):6: [access] socket:", "begins with /"},
		{HEAD "[access]\n"
		      "socket = "
		      "/123456789/123456789/123456789/123456789/123456789/123456789/123456789/"
		      "123456789/123456789/123456789/1234\n",
			"(text):6: [access] socket:", "longer than 103 bytes"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		bad(cases[i].text, cases[i].where, cases[i].why);
	/* the line of the node itself is not used */
	good("[node]\nid = 1\n[link 0]\ndriver = udp\nlisten = 127.0.0.1:9\n[nodes]\n1 = auto\n");
}

static void
config_read__must_be_given(void **state)
{
	(void)state;
	bad("[node]\nname = x\n", "(text):", "must be given");
	bad("[link 0]\nport = x\n", "(text):", "must be given");
}

/* A node without a port of its own has the port of the link that reaches it. */
static void
config_read__peer_has_its_links_port_and_a_mac(void **state)
{
	(void)state;
	good(HEAD "encap = udp\nip = 10.0.0.3\nudp_port = 90\n[link 1]\nport = y\nencap = udp\n"
		  "ip = 10.1.0.3\nudp_port = 91\n"
		  "[nodes]\n1 = 10.0.0.1\n2 = 10.0.0.2 link=1 mac=02:00:00:00:00:09\n");
	assert_int_equal(c.peers[1].addr[0].port, 90);
	assert_int_equal(c.peers[2].addr[1].port, 91);
	assert_int_equal(c.peers[2].addr[1].mac.addr_bytes[5], 9);
}

/* All of the MAC: what looks whether the address is one may leave its beginning where it is
 * none. */
static void
config_read__an_address_leaves_the_mac_whole(void **state)
{
	static const struct rte_ether_addr macs[] = {{{0xAE, 0xDE, 0xC0, 0xFF, 0xEE, 0x01}},
		{{0}} /* found by ARP */, {{0x02, 0x50, 0x4D, 0, 0, 3}},
		{{0xAE, 0xDE, 0xC0, 0xFF, 0xEE, 0x04}}};

	(void)state;
	good(HEAD "encap = udp\nip = 10.9.0.1\n[nodes]\n1 = 10.9.0.2 mac=ae:de:c0:ff:ee:01\n"
		  "2 = 10.9.0.3:77\n");
	for (size_t i = 0; i < 2; i++)
		assert_memory_equal(&c.peers[i + 1].addr[0].mac, &macs[i], sizeof(macs[i]));
	config_free(&c);
	good(HEAD "[nodes]\n3 = auto\n4 = ae:de:c0:ff:ee:04\n");
	for (size_t i = 2; i < 4; i++)
		assert_memory_equal(&c.peers[i + 1].addr[0].mac, &macs[i], sizeof(macs[i]));
}

#define ROUTED HEAD "encap = udp\nip = 10.1.0.5/24\n"

/* Peers of the own network need no router; others need one, or the MAC address of one. */
static void
config_read__network_and_gateway(void **state)
{
	static const struct {
		const char *text, *where, *why;
	} cases[] = {
		{HEAD "encap = udp\nip = 10.1.0.5/0\n", "(text):6: [link 0] ip:", "from 1 to 31"},
		{HEAD "encap = udp\nip = 10.1.0.5/32\n", "(text):6: [link 0] ip:", "from 1 to 31"},
		{HEAD "encap = udp\nip = 10.1.0.5/\n", "(text):6: [link 0] ip:", "from 1 to 31"},
		{HEAD "encap = udp\nip = 10.1.0/24\n", "(text):6: [link 0] ip:", "IPv4 address"},
		{HEAD "encap = udp\nip = 1000.100.100.1000/24\n",
			"(text):6: [link 0] ip:", "IPv4 address"},
		{HEAD "encap = udp\nip = 10.1.0.5\ngateway = 10.1.0.254\n",
			"(text):7: [link 0] gateway:", "IPv4/bits"},
		{ROUTED "gateway = here\n", "(text):7: [link 0] gateway:", "nor auto"},
		{ROUTED "gateway = 0.0.0.0\n", "(text):7: [link 0] gateway:", "nor auto"},
		{ROUTED "gateway = ff:ff:ff:ff:ff:ff\n", "(text):7: [link 0] gateway:", "nor auto"},
		{ROUTED "gateway = 10.1.0.5\n", "(text):7: [link 0] gateway:", "itself"},
		{ROUTED "gateway = 10.1.1.1\n", "(text):7: [link 0] gateway:", "outside"},
		{ROUTED "[nodes]\n1 = 10.1.0.6\n2 = 10.1.1.6\n",
			"(text):9: [nodes] 2:", "link.gateway"},
	};
	static const char *const right[] = {ROUTED "[nodes]\n1 = 10.1.0.6\n",
		ROUTED "gateway = 10.1.0.254\n[nodes]\n2 = 10.2.0.6\n",
		ROUTED "gateway = 02:00:00:00:00:FE\n[nodes]\n2 = 10.2.0.6\n",
		ROUTED "[nodes]\n2 = 10.2.0.6 mac=02:00:00:00:00:FE\n",
		HEAD "encap = udp\nip = 10.1.0.5\n[nodes]\n2 = 10.2.0.6\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		bad(cases[i].text, cases[i].where, cases[i].why);
	for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++) {
		good(right[i]);
		config_free(&c);
	}
	good(ROUTED "gateway = 10.1.0.254\n");
	assert_int_equal(c.links[0].link.net.bits, 24);
	assert_int_equal(c.links[0].link.gateway.ip, 0x0A0100FE);
}

/* Brackets, colons and percent signs are nothing to the INI file. A link has one family. */
static void
config_read__ip6(void **state)
{
	static const char udp6[] = "[node]\nid = 0\n[link 0]\ndriver = udp\n"
				   "listen = [2001:db8::1]:18515\n";
	char text[512];

	(void)state;
	snprintf(text, sizeof(text),
		"%s[nodes]\n0 = [2001:db8::1]:1\n1 = [2001:db8::2]:77\n"
		"2 = 2001:db8::3\n3 = [2001:db8::4] link=0\n"
		"4 = [fe80::5%%lo]:9\n",
		udp6);
	good(text);
	assert_string_equal(c.links[0].link.listen, "[2001:db8::1]:18515");
	assert_true(c.peers[1].addr[0].v6);
	assert_int_equal(c.peers[1].addr[0].port, 77);
	assert_int_equal(c.peers[2].addr[0].port, 18515);
	assert_int_equal(c.peers[2].addr[0].ip6[15], 3);
	assert_int_equal(c.peers[3].addr[0].ip6[15], 4);
	assert_int_not_equal(c.peers[4].addr[0].zone, 0);
	config_free(&c);
	/* its own line may name an interface of another host */
	snprintf(text, sizeof(text), "%s[nodes]\n0 = [fe80::1%%nosuchif]:1\n1 = fe80::2\n", udp6);
	good(text);
	config_free(&c);
	snprintf(text, sizeof(text), "%s[nodes]\n1 = fe80::2%%nosuchif\n", udp6);
	bad(text, "(text):7: [nodes] 1:", "no such interface");
	snprintf(text, sizeof(text), "%s[nodes]\n1 = 10.0.0.2:5\n", udp6);
	bad(text, "(text):7: [nodes] 1: '10.0.0.2:5' is IPv4,",
		"listen = [2001:db8::1]:18515 is IPv6");
	snprintf(text, sizeof(text), "%s[nodes]\n1 = [::ffff:10.0.0.2]:5\n", udp6);
	bad(text, "(text):7: [nodes] 1:", "neither a MAC");
	bad("[node]\nid = 0\n[link 0]\ndriver = udp\nlisten = 10.0.0.1:5\n[nodes]\n"
	    "1 = 2001:db8::2\n",
		"(text):7: [nodes] 1: '2001:db8::2' is IPv6,", "listen = 10.0.0.1:5 is IPv4");
	bad(HEAD "encap = udp\n[nodes]\n1 = 2001:db8::2\n",
		"(text):7: [nodes] 1:", "for driver = udp");
}

/* Check that what follows a number is not left unread, and that no number wraps around to
 * another. */
static void
config_read__numbers_are_read_to_their_end(void **state)
{
	(void)state;
	bad(HEAD "[nodes]\n1 = auto link=0x\n", "(text):6: [nodes] 1:", "link=0x");
	bad(HEAD "[nodes]\n1 = auto link=4294967296\n", "(text):6: [nodes] 1:", "link=4294967296");
	bad(HEAD "[nodes]\n1 = 1.2.3.4:77x\n", "(text):6: [nodes] 1:", "1.2.3.4:77x");
	bad(HEAD "[nodes]\n1 = 1.2.3.4:\n", "(text):6: [nodes] 1:", "1.2.3.4:");
	bad(HEAD "[nodes]\n1 = 1.2.3.4:0\n", "(text):6: [nodes] 1:", "1.2.3.4:0");
	bad(HEAD "[nodes]\n1 = 1.2.3.4junk\n", "(text):6: [nodes] 1:", "1.2.3.4junk");
	bad(HEAD "[nodes]\n1 = 1.2.3.4 mac=02:00:00:00:00:0g\n", "(text):6: [nodes] 1:", "mac=MAC");
	bad(HEAD "[nodes]\n18446744073709551617 = auto\n", "(text):6: [nodes] 1844",
		"not a node number");
	bad(HEAD "[link 00]\nport = y\n", "(text):5: [link 00]", "unknown section");
	bad(HEAD "[link 4294967297]\nport = y\n", "(text):5: [link 4294967297]", "unknown section");
	bad(HEAD "[contexts 1-4294967298]\nuid = 0\n", "(text):5: [contexts 1-4294967298]", "");
	bad(HEAD "[contexts 1]\nuid = 4294967296\n", "(text):6: [contexts 1] uid:", "'4294967296'");
	bad(HEAD "[contexts 1]\nuid = -1\n", "(text):6: [contexts 1] uid:", "'-1'");
	bad(HEAD "[contexts 1]\ngid = 4294967295\n", "(text):6: [contexts 1] gid:", "'4294967295'");
	bad(HEAD "[access]\nowner = 4294967296\n", "(text):6: [access] owner:", "'4294967296'");
	bad(HEAD "[access]\nmode = -7\n", "(text):6: [access] mode:", "'-7'");
}

static void
config_read__no_ini_file(void **state)
{
	(void)state;
	bad("[node]\nid = 3\nhello\n", "(text):3:", "'hello' is none of");
	assert_int_equal(node_config_read(&c, "/nonexistent/x.ini", error, sizeof(error)), -1);
	assert_non_null(strstr(error, "/nonexistent/x.ini: cannot be read"));
}

static void
config_read__short_error_buffer(void **state)
{
	char tiny[8];

	(void)state;
	assert_int_equal(node_config_read_text(&c, HEAD "x = 1\n", tiny, sizeof(tiny)), -1);
	assert_true(memchr(tiny, 0, sizeof(tiny)) != NULL);
}

static void
config_payload_max__smallest_link(void **state)
{
	(void)state;
	good(HEAD);
	assert_int_equal(config_payload_max(&c), (1500 - WIRE_HDR_BYTES) & ~7u);
	config_free(&c);
	good(HEAD "mtu = 9000\n[link 1]\nport = y\nencap = udp\nip = 10.0.0.1\nmtu = 1500\n");
	assert_int_equal(config_payload_max(&c), (1500 - 28 - WIRE_HDR_BYTES) & ~7u);
	config_free(&c);
	good(HEAD "encap = vlan\n");
	assert_int_equal(config_payload_max(&c), (1500 - 4 - WIRE_HDR_BYTES) & ~7u);
	/* where none is given, what fits Ethernet's 1500, with the kernel's own headers */
	config_free(&c);
	good("[node]\nid = 1\n[link 0]\ndriver = udp\nlisten = 127.0.0.1:9\n");
	assert_int_equal(c.links[0].link.mtu, 1472);
	config_free(&c);
	good("[node]\nid = 1\n[link 0]\ndriver = udp\nlisten = [::1]:9\n");
	assert_int_equal(c.links[0].link.mtu, 1452);
	config_free(&c);
	good("[node]\nid = 1\n[link 0]\ndriver = udp\nlisten = 127.0.0.1:9\nmtu = 1500\n");
	assert_int_equal(c.links[0].link.mtu, 1500);
}

static void
config_core__auto_goes_by_the_link(void **state)
{
	(void)state;
	good(HEAD);
	assert_int_equal(node_config_core(&c).share_target_us, 4);
	assert_int_equal(node_config_core(&c).ack_every, 32);
	config_free(&c);
	/* where the kernel takes whole bursts */
	good("[node]\nid = 1\n[link 0]\ndriver = udp\nlisten = 127.0.0.1:9\n");
	assert_int_equal(node_config_core(&c).share_target_us, 200);
	assert_int_equal(node_config_core(&c).ack_every, 64);
	config_free(&c);
	good(HEAD "[proto]\nshare_target_us = 0\n");
	assert_int_equal(node_config_core(&c).share_target_us, 0);
	config_free(&c);
	good("[node]\nid = 1\n[link 0]\ndriver = udp\nlisten = 127.0.0.1:9\n"
	     "[proto]\nshare_target_us = 7\nack_every = 9\n");
	assert_int_equal(node_config_core(&c).share_target_us, 7);
	assert_int_equal(node_config_core(&c).ack_every, 9);
}

static void
config_core__queues_go_by_who_carries_frames(void **state)
{
	static const struct {
		const char *text;
		uint32_t us;
	} cases[] = {{"[link 0]\ndriver = ethdev\nport = 0000:01:00.0\n", 15},
		{"[link 0]\ndriver = ethdev\nport = net_memif0\n", 25},
		{"[link 0]\ndriver = udp\nlisten = 127.0.0.1:9\n", 200},
		{"[link 0]\ndriver = ethdev\nport = 0000:01:00.0\n"
		 "[link 1]\ndriver = ethdev\nport = 0000:01:00.1\n",
			200},
		{"[link 0]\ndriver = udp\nlisten = 127.0.0.1:9\n[proto]\ncc_target_us = 7\n", 7}};
	char text[256];

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		snprintf(text, sizeof(text), "[node]\nid = 1\n%s", cases[i].text);
		good(text);
		assert_int_equal(node_config_core(&c).cc_target_us, cases[i].us);
		config_free(&c);
	}
}

static void
config_print_doc__has_every_section(void **state)
{
	static const char *const heads[] = {"[node]", "[engine]", "[link 0]", "[proto]",
		"[limits]"};
	char *text = NULL;
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	(void)state;
	assert_non_null(f);
	node_config_print_doc(f);
	fclose(f);
	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		assert_non_null(strstr(text, heads[i]));
	assert_non_null(strstr(text, "| `mbufs` | auto |"));
	free(text);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(config_read__defaults, teardown),
		cmocka_unit_test_teardown(config_read__every_kind_of_value, teardown),
		cmocka_unit_test_teardown(config_read__bounds_are_allowed, teardown),
		cmocka_unit_test(config_read__number),
		cmocka_unit_test(config_read__choice_bool_text_ip),
		cmocka_unit_test(config_read__unknown),
		cmocka_unit_test(config_read__duplicates),
		cmocka_unit_test(config_read__nodes),
		cmocka_unit_test(config_read__nodes_with_several_links),
		cmocka_unit_test_teardown(config_read__a_node_has_a_name, teardown),
		cmocka_unit_test_teardown(config_read__a_host_stands_for_its_address, teardown),
		cmocka_unit_test(config_read__names_that_are_none),
		cmocka_unit_test(config_read__several_links_name_line_and_key),
		cmocka_unit_test(config_read__links_are_used_by),
		cmocka_unit_test(config_read__together),
		cmocka_unit_test(config_read__name),
		cmocka_unit_test_teardown(config_read__would_not_start, teardown),
		cmocka_unit_test(config_read__must_be_given),
		cmocka_unit_test(config_read__no_ini_file),
		cmocka_unit_test_teardown(config_read__peer_has_its_links_port_and_a_mac, teardown),
		cmocka_unit_test_teardown(config_read__an_address_leaves_the_mac_whole, teardown),
		cmocka_unit_test_teardown(config_read__network_and_gateway, teardown),
		cmocka_unit_test_teardown(config_read__ip6, teardown),
		cmocka_unit_test(config_read__numbers_are_read_to_their_end),
		cmocka_unit_test(config_read__short_error_buffer),
		cmocka_unit_test_teardown(config_payload_max__smallest_link, teardown),
		cmocka_unit_test(config_core__queues_go_by_who_carries_frames),
		cmocka_unit_test_teardown(config_core__auto_goes_by_the_link, teardown),
		cmocka_unit_test(config_print_doc__has_every_section),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
