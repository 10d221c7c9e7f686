/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two applications that exchange messages, matched ones, pushes and pulls by public verbs only, so
 * that either can run with the library of another build (LD_LIBRARY_PATH). versions.sh starts them.
 *
 *   versions serve INSTANCE CONTEXT sends back what comes, and shares memory; until it is told
 *   "end"
 *   versions ask   INSTANCE CONTEXT NODE:CONTEXT exchanges all with one that serves
 */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "helpers.h"
#include "pmx/pmx.h"

#define SHARED     (1u << 20)
#define AREA       7u
#define COMM       3u
#define LONG       300000u
#define PATIENCE_S 20

static struct pmx_node *node;
static struct pmx_context *ctx;

/* Nothing takes that long. */
static void
wait_turn(time_t begun)
{
	if (time(NULL) - begun > PATIENCE_S)
		die("nothing came for %d s", PATIENCE_S);
	sched_yield();
}

static void
fill(uint8_t *p, uint64_t len, unsigned first)
{
	for (uint64_t i = 0; i < len; i++)
		p[i] = (uint8_t)(first + i + (i >> 8));
}

static void
check(const char *what, const uint8_t *p, uint64_t len, unsigned first)
{
	for (uint64_t i = 0; i < len; i++) {
		if (p[i] != (uint8_t)(first + i + (i >> 8)))
			die("%s of %lu bytes: byte %lu is %u", what, (unsigned long)len,
				(unsigned long)i, p[i]);
	}
}

static void
send_bytes(struct pmx_addr to, const void *data, uint32_t len)
{
	time_t begun = time(NULL);
	int result;

	while ((result = pmx_send_copy(ctx, to, data, len, NULL)) == -EAGAIN || result == -ENOBUFS)
		wait_turn(begun);
	must_succeed("pmx_send_copy", result);
}

/* ------------------------------------------------------------------ who serves */

/* Sends a matched message back with its tag, when one has come. */
static void
serve_matched(uint8_t *bytes, pmx_request *request)
{
	struct pmx_matched m = {
		.peer = PMX_ANY_SOURCE,
		.comm = COMM,
		.ignore = PMX_ANY_TAG,
		.data = bytes,
		.len = LONG,
	};
	struct pmx_status s;
	int result = *request != 0 ? pmx_test(ctx, request, &s) : 0;

	must_succeed("pmx_test", result);
	if (result == 1) {
		pmx_request back;

		m = (struct pmx_matched){
			.peer = s.source,
			.comm = COMM,
			.tag = s.tag,
			.data = bytes,
			.len = s.len,
		};
		must_succeed("pmx_isend", pmx_isend(ctx, &m, &back));
		must_succeed("pmx_wait", pmx_wait(ctx, &back, NULL, PATIENCE_S * 1000000ll));
		m = (struct pmx_matched){
			.peer = PMX_ANY_SOURCE,
			.comm = COMM,
			.ignore = PMX_ANY_TAG,
			.data = bytes,
			.len = LONG,
		};
	}
	if (*request == 0)
		must_succeed("pmx_irecv", pmx_irecv(ctx, &m, request));
}

static int
serve(void)
{
	uint8_t *copy = malloc(LONG), *matched = malloc(LONG);
	pmx_request request = 0;
	struct pmx_remote remote;
	struct pmx_message m;
	time_t begun = time(NULL);
	unsigned told = 0;
	void *shared;

	must_succeed("pmx_alloc", pmx_alloc(ctx, SHARED, &shared));
	must_succeed("pmx_area_register",
		pmx_area_register(ctx, AREA, shared, SHARED,
			PMX_ANYONE | PMX_REMOTE_READ | PMX_REMOTE_WRITE, &remote));
	puts("serving");
	fflush(stdout);
	for (;;) {
		struct pmx_event e;
		int got = pmx_receive(ctx, &m);

		must_succeed("pmx_receive", got);
		serve_matched(matched, &request);
		told += pmx_poll_event(ctx, &e) == 1 && e.kind == PMX_EVENT_PUSHED &&
			e.immediate == 77;
		if (got == 0) {
			wait_turn(begun);
			continue;
		}
		uint32_t len = m.len;
		struct pmx_addr to = m.source;

		must_succeed("pmx_message_read", pmx_message_read(ctx, &m, 0, copy, len));
		pmx_release_receive_buffer(ctx, &m);
		if (len == 3 && memcmp(copy, "end", 3) == 0)
			break;
		send_bytes(to, copy, len);
		begun = time(NULL);
	}
	if (told == 0)
		die("no push told of itself");
	pmx_node_close(node);
	return 0;
}

/* ------------------------------------------------------------------ who asks */

static void
ask_plain(struct pmx_addr peer, uint8_t *bytes, uint32_t len)
{
	struct pmx_message m;

	fill(bytes, len, len);
	send_bytes(peer, bytes, len);
	memset(bytes, 0, len);
	int result = pmx_receive_wait(ctx, &m, PATIENCE_S * 1000000ll);

	if (result != 1 || m.len != len)
		die("%u bytes did not come back: pmx_receive_wait gives %d", len, result);
	must_succeed("pmx_message_read", pmx_message_read(ctx, &m, 0, bytes, len));
	pmx_release_receive_buffer(ctx, &m);
	check("a message", bytes, len, len);
}

static void
ask_matched(struct pmx_addr peer, uint8_t *bytes, uint32_t len)
{
	uint8_t *back = calloc(1, len + 1);
	const struct pmx_matched s = {
		.peer = peer,
		.comm = COMM,
		.tag = len,
		.data = bytes,
		.len = len,
	};
	const struct pmx_matched r = {
		.peer = peer,
		.comm = COMM,
		.tag = len,
		.data = back,
		.len = len,
	};
	pmx_request requests[2];

	fill(bytes, len, 11);
	must_succeed("pmx_irecv", pmx_irecv(ctx, &r, &requests[0]));
	must_succeed("pmx_isend", pmx_isend(ctx, &s, &requests[1]));
	must_succeed("pmx_wait_all", pmx_wait_all(ctx, requests, 2, NULL, PATIENCE_S * 1000000ll));
	check("a matched message", back, len, 11);
	free(back);
}

static void
move(const char *what, struct pmx_addr peer, bool push, void *local, uint64_t len)
{
	const struct pmx_transfer t = {
		.peer = peer,
		.flags = PMX_AREA | (push ? PMX_NOTIFY : 0),
		.key = AREA,
		.local = local,
		.len = len,
		.immediate = push ? 77 : 0,
	};
	time_t begun = time(NULL);
	pmx_transfer_id id;
	int result;

	while ((result = push ? pmx_push(ctx, &t, &id) : pmx_pull(ctx, &t, &id)) == -EAGAIN)
		wait_turn(begun);
	must_succeed(what, result);
	while ((result = pmx_transfer_done(ctx, id)) == 0)
		wait_turn(begun);
	must_succeed(what, result);
}

static int
ask(struct pmx_addr peer)
{
	static const uint32_t lens[] = {0, 1, 40, 41, 1000, 4000, 100000, LONG};
	uint8_t *private = malloc(SHARED);
	void *shared;

	must_succeed("pmx_alloc", pmx_alloc(ctx, SHARED, &shared));
	for (unsigned i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
		if (lens[i] < LONG)
			ask_plain(peer, private, lens[i]);
		ask_matched(peer, private, lens[i]);
	}
	for (uint64_t len = 64; len <= SHARED; len *= 128) {
		fill(private, len, 3);
		move("push of private memory", peer, true, private, len);
		memset(shared, 0, len);
		move("pull into shared memory", peer, false, shared, len);
		check("pulled into shared memory", shared, len, 3);
		fill(shared, len, 5);
		move("push of shared memory", peer, true, shared, len);
		memset(private, 0, len);
		move("pull into private memory", peer, false, private, len);
		check("pulled into private memory", private, len, 5);
	}
	send_bytes(peer, "end", 3);
	must_succeed("pmx_send_wait", pmx_send_wait(ctx, PATIENCE_S * 1000000ll));
	pmx_node_close(node);
	return 0;
}

int
main(int argc, char **argv)
{
	unsigned n = 0, c = 0;
	Dl_info library;

	if (argc < 4 ||
		(strcmp(argv[1], "ask") == 0 &&
			(argc != 5 || sscanf(argv[4], "%u:%u", &n, &c) != 2)))
		die("see the head of versions.c");
	must_succeed("pmx_node_attach", pmx_node_attach(&node, argv[2], NULL));
	must_succeed("pmx_context_open", pmx_context_open(&ctx, node, atoi(argv[3]), NULL));
	if (dladdr((void *)(uintptr_t)pmx_strerror, &library) != 0)
		printf("by %s\n", library.dli_fname);
	if (strcmp(argv[1], "serve") == 0)
		return serve();
	return ask((struct pmx_addr){(uint16_t)n, (uint16_t)c});
}
