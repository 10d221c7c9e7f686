/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The program that test/bench/instructions.sh runs under callgrind: two embedded nodes in one
 * process, joined by the loop link, moving messages or remote memory in bursts of 32. Each part of
 * the path is a function of its own, so that its instructions can be read off by name. usage:
 * instructions [BURSTS [BYTES [LINES_OF_LIMITS [plain|matched|push|pull|ping [client|engine]]]]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pmx/pmx.h"

#define BURST    32
#define NOINLINE __attribute__((noinline))

static struct pmx_context *from, *to;
static struct pmx_node *nodes[2];
static uint32_t message_len = 64;

static const char *matching = "client";

static const char config[] = "[node]\nid = %d\nname = bench%d\n"
			     "[engine]\nidle = spin\nmatching = %s\nrendezvous = 4000\n"
			     "[link 0]\ndriver = loop\nport = bench\nmtu = 1500\n"
			     /* valgrind is slow */
			     "[proto]\nrto_min_us = 400000\nrto_max_us = 400000\n"
			     "[limits]\nmbufs = 6144\ncontexts = 2\n"
			     "%s\n[nodes]\n0 = auto\n1 = auto\n";

NOINLINE unsigned bench_client_send(void);
NOINLINE unsigned bench_client_receive(void);
NOINLINE void bench_engine_send(void);
NOINLINE void bench_engine_receive(void);
NOINLINE void bench_engine_ack(void);

/* The application's side of sending: buffers, payload, submissions. */
unsigned
bench_client_send(void)
{
	struct pmx_buffer bufs[BURST];
	const struct pmx_addr address = {1, 1};
	struct pmx_addr addresses[BURST];
	unsigned n = 0;

	while (n < BURST && pmx_get_send_buffer(from, message_len, &bufs[n]) == 0) {
		memset(bufs[n].data, (int)n, 64);
		addresses[n++] = address;
	}
	return n ? (unsigned)pmx_send_burst(from, addresses, bufs, NULL, n) : 0;
}

/* The engine's: submissions to link. */
void
bench_engine_send(void)
{
	pmx_node_poll(nodes[0]);
}

/* Link to LHS ring and Ack. */
void
bench_engine_receive(void)
{
	pmx_node_poll(nodes[1]);
}

/* The Ack's arrival and the completions. */
void
bench_engine_ack(void)
{
	pmx_node_poll(nodes[0]);
}

unsigned
bench_client_receive(void)
{
	struct pmx_message m[BURST];
	int n = pmx_receive_burst(to, m, BURST);

	for (int i = 0; i < n; i++) {
		if (*(const uint8_t *)pmx_message_data(&m[i]) > BURST)
			abort();
		pmx_release_receive_buffer(to, &m[i]);
	}
	return n > 0 ? (unsigned)n : 0;
}

/* ------------------------------------------- matched messages, whose receives are posted before */

NOINLINE void bench_client_post_matched(void);
NOINLINE unsigned bench_client_send_matched(void);
NOINLINE unsigned bench_client_receive_matched(void);

static pmx_request posted[BURST];
static uint8_t matched_in[BURST][2048], matched_out[2048];

void
bench_client_post_matched(void)
{
	for (unsigned i = 0; i < BURST; i++) {
		const struct pmx_matched m = {
			.peer = {0, 0},
			.tag = i,
			.data = matched_in[i],
			.len = message_len,
		};

		if (pmx_irecv(to, &m, &posted[i]) != 0)
			abort();
	}
}

unsigned
bench_client_send_matched(void)
{
	unsigned n = 0;

	for (; n < BURST; n++) {
		const struct pmx_matched m = {
			.peer = {1, 1},
			.tag = n,
			.data = matched_out,
			.len = message_len,
		};

		if (pmx_isend(from, &m, NULL) != 0)
			break;
	}
	return n;
}

unsigned
bench_client_receive_matched(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < BURST; i++)
		n += posted[i] != 0 && pmx_test(to, &posted[i], NULL) == 1;
	return n;
}

/* ------------------------------------------------------------------ remote memory of node 1 */

NOINLINE unsigned bench_client_send_push(void);
NOINLINE unsigned bench_client_send_pull(void);
NOINLINE unsigned bench_client_done(void);

static struct pmx_remote region;
static pmx_transfer_id moves[BURST];
static uint8_t *local;
static unsigned at_once; /* transfers */

static void
open_region(void)
{
	uint64_t bytes = (uint64_t)BURST * message_len;
	void *here, *there;

	if (pmx_alloc(from, bytes, &here) != 0 || pmx_alloc(to, bytes, &there) != 0 ||
		pmx_register(to, there, bytes, PMX_REMOTE_READ | PMX_REMOTE_WRITE, &region) != 0)
		abort();
	local = here;
}

static struct pmx_transfer
move(unsigned i)
{
	return (struct pmx_transfer){
		.peer = {1, 1},
		.key = region.key,
		.remote = region.addr + (uint64_t)i * message_len,
		.local = local + (uint64_t)i * message_len,
		.len = message_len,
	};
}

unsigned
bench_client_send_push(void)
{
	unsigned n = 0;

	for (; n < at_once; n++) {
		const struct pmx_transfer t = move(n);

		if (pmx_push(from, &t, &moves[n]) != 0)
			break;
	}
	return n;
}

unsigned
bench_client_send_pull(void)
{
	unsigned n = 0;

	for (; n < at_once; n++) {
		const struct pmx_transfer t = move(n);

		if (pmx_pull(from, &t, &moves[n]) != 0)
			break;
	}
	return n;
}

/* All that were begun have ended. */
unsigned
bench_client_done(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < at_once; i++) {
		int e = pmx_transfer_done(from, moves[i]);

		if (e < 0)
			abort();
		if (e == 0)
			return 0;
		n++;
	}
	return n;
}

/* ------------------------------------------------------------------ round trips */

/* A round trip of 8 bytes, without turns of the engines that find nothing. */
NOINLINE void bench_plain_ping(void);
NOINLINE void bench_matched_ping(void);

void
bench_plain_ping(void)
{
	struct pmx_message m;
	uint64_t word = 1;

	pmx_send_copy(from, (struct pmx_addr){1, 1}, &word, sizeof(word), NULL);
	pmx_node_poll(nodes[0]);
	pmx_node_poll(nodes[1]);
	if (pmx_receive(to, &m) != 1)
		abort();
	memcpy(&word, pmx_message_data(&m), sizeof(word));
	pmx_release_receive_buffer(to, &m);
	pmx_send_copy(to, (struct pmx_addr){0, 0}, &word, sizeof(word), NULL);
	pmx_node_poll(nodes[1]);
	pmx_node_poll(nodes[0]);
	if (pmx_receive(from, &m) != 1)
		abort();
	memcpy(&word, pmx_message_data(&m), sizeof(word));
	pmx_release_receive_buffer(from, &m);
}

void
bench_matched_ping(void)
{
	static pmx_request at_to;
	static uint64_t there;
	struct pmx_matched there_m = {
		.peer = {0, 0},
		.tag = 1,
		.data = &there,
		.len = sizeof(there),
	};
	uint64_t word = 1;
	struct pmx_matched m = {.peer = {1, 1}, .tag = 1, .data = &word, .len = sizeof(word)};
	pmx_request r;

	if (at_to == 0 && pmx_irecv(to, &there_m, &at_to) != 0)
		abort();
	if (pmx_irecv(from, &m, &r) != 0 || pmx_isend(from, &m, NULL) != 0)
		abort();
	pmx_node_poll(nodes[0]);
	pmx_node_poll(nodes[1]);
	if (pmx_test(to, &at_to, NULL) != 1 || pmx_isend(to, &there_m, NULL) != 0 ||
		pmx_irecv(to, &there_m, &at_to) != 0)
		abort();
	pmx_node_poll(nodes[1]);
	pmx_node_poll(nodes[0]);
	if (pmx_test(from, &r, NULL) != 1)
		abort();
}

/* The first message of a flow takes a round trip of its own. */
static void
open_flows(void)
{
	const struct pmx_matched a = {.peer = {1, 1}}, b = {.peer = {0, 0}};
	struct pmx_message m;

	pmx_isend(from, &a, NULL);
	pmx_isend(to, &b, NULL);
	pmx_send_copy(to, (struct pmx_addr){0, 0}, "\1", 1, NULL);
	for (unsigned i = 0; i < 1000; i++) {
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
	}
	while (pmx_receive(from, &m) == 1)
		pmx_release_receive_buffer(from, &m);
	pmx_irecv(from, &a, NULL);
	pmx_irecv(to, &b, NULL);
}

static int
start(int i, int argc, char **argv, const char *more)
{
	char text[1024], error[256];
	struct pmx_node_params params = {.config_text = text, .eal_argc = argc, .eal_argv = argv};

	snprintf(text, sizeof(text), config, i, i, matching, more);
	if (pmx_node_start(&nodes[i], &params, error, sizeof(error)) == 0)
		return 0;
	fprintf(stderr, "instructions: %s\n", error);
	return 1;
}

static void
run_plain(unsigned bursts, unsigned *sent, unsigned *received)
{
	/* the flow opens with its first message */
	for (int i = 0; i < 1000; i++) {
		if (i == 0)
			pmx_send_copy(from, (struct pmx_addr){1, 1}, "\1", 1, NULL);
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
	}
	while (bench_client_receive())
		;
	for (unsigned i = 0; i < bursts; i++) {
		*sent += bench_client_send();
		bench_engine_send();
		bench_engine_receive();
		*received += bench_client_receive();
		bench_engine_ack();
	}
	for (unsigned i = 0; i < 100; i++) {
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
		*received += bench_client_receive();
	}
}

static void
run_matched(unsigned bursts, unsigned *sent, unsigned *received)
{
	open_flows();
	for (unsigned i = 0; i < bursts; i++) {
		unsigned n = 0;

		bench_client_post_matched();
		*sent += bench_client_send_matched();
		/* one, or two where completions fill more than a slot */
		for (unsigned turn = 0; n < BURST && turn < 1000; turn++) {
			bench_engine_send();
			bench_engine_receive();
			n += bench_client_receive_matched();
			bench_engine_ack();
		}
		*received += n;
	}
}

static void
run_transfers(unsigned bursts, bool is_push, unsigned *sent, unsigned *received)
{
	struct pmx_transfer first;

	open_region();
	first = move(0);
	if (pmx_push(from, &first, NULL) != 0)
		abort();
	for (unsigned i = 0; i < 1000 || pmx_transfers_pending(from) != 0; i++) {
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
	}
	for (unsigned i = 0; i < bursts; i++) {
		unsigned n;

		*sent += is_push ? bench_client_send_push() : bench_client_send_pull();
		do {
			bench_engine_send();
			bench_engine_receive();
			bench_engine_ack();
		} while ((n = bench_client_done()) == 0);
		*received += n;
	}
}

static void
run_pings(unsigned bursts)
{
	open_flows();
	for (unsigned i = 0; i < bursts; i++)
		bench_plain_ping();
	for (unsigned i = 0; i < bursts; i++)
		bench_matched_ping();
}

int
main(int argc, char **argv)
{
	char *eal[] = {argv[0], "--no-huge", "-m", "256", "--no-pci", "--no-telemetry",
		"--no-shconf", "-l", "0", "--log-level=*:error", NULL};
	unsigned bursts = argc > 1 ? (unsigned)atoi(argv[1]) : 1000, sent = 0, received = 0,
		 each = BURST;
	const char *more = argc > 3 ? argv[3] : "", *what = argc > 4 ? argv[4] : "plain";
	struct pmx_context_params a = {.context = 0}, b = {.context = 1};

	message_len = argc > 2 ? (uint32_t)atoi(argv[2]) : 64;
	matching = argc > 5 ? argv[5] : matching;
	if (start(0, 10, eal, more) || start(1, 0, NULL, more) ||
		pmx_context_open(&from, nodes[0], &a) || pmx_context_open(&to, nodes[1], &b))
		return 1;
	if (strcmp(what, "plain") == 0) {
		run_plain(bursts, &sent, &received);
	} else if (strcmp(what, "matched") == 0 && message_len <= sizeof(matched_out)) {
		run_matched(bursts, &sent, &received);
	} else if (strcmp(what, "push") == 0 || strcmp(what, "pull") == 0) {
		at_once = each = message_len > 2048 ? 1 : BURST;
		run_transfers(bursts, what[2] == 's', &sent, &received);
	} else if (strcmp(what, "ping") == 0) {
		run_pings(bursts);
		each = 0;
	} else {
		fprintf(stderr, "instructions: %s of %u bytes is none that is known\n", what,
			message_len);
		return 2;
	}
	pmx_node_close(nodes[1]);
	pmx_node_close(nodes[0]);
	printf("messages %u %u\n", sent, received);
	return sent == received && sent == bursts * each ? 0 : 1;
}
