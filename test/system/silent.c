/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Messages at a receiver that never receives: two embedded nodes in one process, one context floods
 * another with matched messages, and two more exchange pings beside it. The flood must stop, by
 * itself and soon; memory must not grow with what is not taken; the pings must not notice. Then the
 * receiver looks without receiving, then it receives all of them, in order. matching.sh runs it.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>

#include "engine/lane.h"
#include "helpers.h"
#include "pmx/pmx.h"

#define STALLED    20000 /* turns without a message sent */
#define UNEXPECTED 65536
#define RING       1024
#define BUFFERS    256
#define SENDS      (BUFFERS + CHANNEL_INLINE_MOST) /* under way at once */
#define BEYOND     64 /* bytes of memory for each message that waits, beyond its entry */

static struct pmx_node *nodes[2];
static struct pmx_context *flooder, *silent, *a, *b;
static uint64_t total = 1000000, sent;
static uint64_t pings, ping_turns, slowest;
static uint32_t message_len = 8;

static const struct pmx_addr silent_addr = {1, 0};

static uint64_t
resident_kb(void)
{
	char line[256];
	unsigned long pages = 0, all;
	FILE *f = fopen("/proc/self/statm", "r");

	if (f == NULL || fgets(line, sizeof(line), f) == NULL ||
		sscanf(line, "%lu %lu", &all, &pages) != 2)
		fail("/proc/self/statm");
	if (f != NULL)
		fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static void
poll_nodes(void)
{
	pmx_node_poll(nodes[0]);
	pmx_node_poll(nodes[1]);
}

/* One ping, plain and matched in turns, while the flood goes on; its turns of the engines. */
static void
ping(void)
{
	static uint64_t word, began, turn;
	static pmx_request r;
	static bool under_way;
	struct pmx_message m;
	const struct pmx_matched to_b = {.peer = {1, 1}, .data = &word, .len = sizeof(word)};
	const struct pmx_matched at_b = {.peer = {0, 1}, .data = &word, .len = sizeof(word)};
	int e = 0;

	turn++;
	if (!under_way) {
		began = turn;
		e = pings % 2 ? pmx_send_copy(a, (struct pmx_addr){1, 1}, &word, sizeof(word), NULL)
			      : pmx_irecv(b, &at_b, &r);
		if (e == 0 && pings % 2 == 0)
			e = pmx_isend(a, &to_b, NULL);
		under_way = e == 0;
		if (e != 0)
			fail("a ping: %s", pmx_strerror(e));
		return;
	}
	e = pings % 2 ? pmx_receive(b, &m) : pmx_test(b, &r, NULL);
	if (e < 0)
		fail("a ping: %s", pmx_strerror(e));
	if (e != 1)
		return;
	if (pings % 2)
		pmx_release_receive_buffer(b, &m);
	under_way = false;
	pings++;
	ping_turns += turn - began;
	slowest = turn - began > slowest ? turn - began : slowest;
}

/* Send as many as go now. */
static bool
flood(void)
{
	uint8_t data[2000] = {0};
	bool any = false;

	for (unsigned i = 0; i < 32 && sent < total; i++) {
		const struct pmx_matched m = {
			.peer = silent_addr,
			.tag = sent,
			.data = data,
			.len = message_len,
		};
		int e;

		memcpy(data, &sent, sizeof(sent));
		e = pmx_isend(flooder, &m, NULL);
		if (e == -EAGAIN || e == -ENOBUFS)
			break;
		if (e != 0) {
			fail("message %lu: %s", sent, pmx_strerror(e));
			break;
		}
		sent++;
		any = true;
	}
	return any;
}

/* Until nothing more goes; looks: the receiver probes for what nobody sends. */
static void
flood_until_stalled(bool looks)
{
	const struct pmx_matched none = {.peer = silent_addr, .comm = 99};

	for (unsigned idle = 0; idle < STALLED && sent < total && !failed; idle++) {
		if (flood())
			idle = 0;
		poll_nodes();
		ping();
		if (looks && pmx_iprobe(silent, &none, NULL) != 0)
			fail("a probe of nothing");
	}
}

static void
receive_all(void)
{
	uint8_t data[2000];
	double give_up = now_s() + 120;

	for (uint64_t i = 0; i < total && !failed; i++) {
		struct pmx_matched m = {
			.peer = {0, 0},
			.ignore = PMX_ANY_TAG,
			.data = data,
			.len = sizeof(data),
		};
		struct pmx_status status;
		pmx_request r;
		uint64_t word;
		int e = pmx_irecv(silent, &m, &r);

		while (e == 0 && (e = pmx_test(silent, &r, &status)) == 0) {
			flood();
			poll_nodes();
			if (now_s() > give_up) {
				fail("message %lu of %lu does not come", i, sent);
				return;
			}
		}
		memcpy(&word, data, sizeof(word));
		if (e != 1 || word != i || status.tag != i || status.len != message_len)
			fail("message %lu: %s, says %lu, tag %lu, %lu bytes", i, pmx_strerror(e),
				word, status.tag, status.len);
		if (i % 64 == 0) {
			flood();
			poll_nodes();
		}
	}
}

static void
start(unsigned n, const char *matching, const char *more)
{
	char text[1024], error[256];
	struct pmx_node_params params = {.size = sizeof(params), .config_text = text};

	snprintf(text, sizeof(text),
		"[node]\nid = %u\nname = silent%u\n[engine]\nmatching = %s\n[link 0]\n"
		"driver = loop\nport = silent\n[nodes]\n0 = auto\n1 = auto\n"
		"[proto]\nrto_max_us = 5000\nretries = 6\n"
		"[limits]\ncontexts = 2\nunexpected = %u\nmatched_entries = %u\n"
		"send_buffers = %u\n%s\n",
		n, n, matching, UNEXPECTED, RING, BUFFERS, more);
	if (pmx_node_start(&nodes[n], &params, error, sizeof(error)) != 0) {
		fprintf(stderr, "silent: %s\n", error);
		exit(2);
	}
}

static void
open_context(struct pmx_context **ctx, unsigned node, uint16_t number)
{
	int e = pmx_context_open(ctx, nodes[node], number, NULL);

	if (e != 0)
		fail("context %u.%u: %s", node, number, pmx_strerror(e));
}

struct figures {
	double alone, beside;        /* turns of a ping, without the flood and beside it */
	uint64_t before_kb;          /* memory before the flood */
	uint64_t stopped, silent_kb; /* when nobody looked: messages, and memory more */
	uint64_t looked, looked_kb;  /* ... while the receiver looked */
	double each;                 /* bytes of a message that waits, beyond its entry */
};

/* Return how many turns pings take without a flood. */
static double
ping_alone(void)
{
	for (unsigned i = 0; i < 20000 && !failed; i++) {
		poll_nodes();
		ping();
	}
	double alone = (double)ping_turns / (double)pings;

	pings = ping_turns = slowest = 0;
	return alone;
}

/* Check that the flood stops when its receiver does nothing, and that the pings do not notice. */
static void
flood_unseen(struct figures *f, bool by_engine)
{
	flood_until_stalled(false);
	f->silent_kb = resident_kb() - f->before_kb;
	f->stopped = sent;
	f->beside = (double)ping_turns / (double)pings;
	uint64_t most = RING + SENDS + (by_engine ? UNEXPECTED : 0);

	if (f->stopped < RING / 2 || f->stopped > most)
		fail("the flood stopped after %lu messages; the ring has %u entries", f->stopped,
			RING);
	if (f->beside > 2 * f->alone + 1)
		fail("a ping takes %.2f turns, without the flood %.2f", f->beside, f->alone);
}

/* Check that it stops when its receiver looks and takes none, and what those that wait cost. */
static void
flood_looked_at(struct figures *f, bool by_engine)
{
	struct pmx_match_stat stat;

	flood_until_stalled(true);
	f->looked_kb = resident_kb() - f->before_kb;
	f->looked = sent;
	pmx_match_read_stat(silent, &stat);
	if (f->looked > UNEXPECTED + RING + SENDS)
		fail("%lu messages at a receiver that takes none", f->looked);
	f->each = by_engine
		? 0
		: (double)(stat.bytes - (uint64_t)stat.evacuated * 64) / (double)stat.waiting;

	if (!by_engine && message_len <= 24 &&
		(stat.waiting != (total < UNEXPECTED ? total : UNEXPECTED) || f->each > BEYOND))
		fail("%u messages wait in %lu bytes: %.1f each beyond its entry", stat.waiting,
			stat.bytes, f->each);
}

int
main(int argc, char **argv)
{
	const char *matching = argc > 1 ? argv[1] : "client", *more = argc > 4 ? argv[4] : "";
	char *eal[] = {argv[0], "--no-huge", "--no-pci", "-m", "512", "--no-telemetry",
		"--no-shconf", "--log-level=*:error", NULL};
	bool by_engine = strcmp(matching, "engine") == 0;
	struct pmx_match_stat stat;
	struct figures f = {0};

	if (argc > 2)
		total = strtoull(argv[2], NULL, 0);
	if (argc > 3)
		message_len = (uint32_t)strtoul(argv[3], NULL, 0);
	if (rte_eal_init(8, eal) < 0)
		return 2;
	start(0, matching, more);
	start(1, matching, more);
	open_context(&flooder, 0, 0);
	open_context(&silent, 1, 0);
	open_context(&a, 0, 1);
	open_context(&b, 1, 1);

	f.alone = ping_alone();
	/* what the first messages touch is there from then on */
	flood();
	poll_nodes();
	f.before_kb = resident_kb();
	flood_unseen(&f, by_engine);
	flood_looked_at(&f, by_engine);
	receive_all();
	for (unsigned i = 0; i < 1000 && !failed; i++) {
		poll_nodes();
		ping();
	}
	pmx_match_read_stat(silent, &stat);
	if (!failed && (sent != total || stat.waiting != 0))
		fail("%lu sent of %lu, %u wait", sent, total, stat.waiting);
	printf("# %s, %lu messages of %u bytes: stopped after %lu (%lu kB more memory), after %lu "
	       "while the receiver looked (%lu kB, %.1f bytes each beyond their entries; %lu "
	       "bodies copied); all received. Pings: %.2f turns, %.2f beside the flood, slowest "
	       "%lu\n",
		matching, total, message_len, f.stopped, f.silent_kb, f.looked, f.looked_kb, f.each,
		stat.bulk_copied, f.alone, f.beside, slowest);
	if (!failed) {
		pmx_node_close(nodes[0]);
		pmx_node_close(nodes[1]);
	}
	return failed;
}
