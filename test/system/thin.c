/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A thin client that has nothing but libpmx: linked with the build of it that needs no DPDK.
 * thin.sh runs it as an ordinary user in namespaces of its own.
 *
 *   thin serve INSTANCE CONTEXT sends back what comes, and shares memory; until it is told "end"
 *   thin verbs INSTANCE CONTEXT NODE:CONTEXT every kind of verb once, with all bytes checked
 *   thin ping  INSTANCE CONTEXT NODE:CONTEXT BYTES ROUNDS   prints the median round trip in ns
 *   thin maps  INSTANCE CONTEXT              prints what is mapped shared, and the descriptors
 *   thin open  INSTANCE CONTEXT...           opens them, and says how that ended
 *   thin often INSTANCE CONTEXT TIMES        opens it and closes it so often
 *   thin refused INSTANCE CONTEXT NODE:CONTEXT COUNT sends that are refused, one by one: how long
 *   the
 *                                            median and the slowest took, us
 *   thin process INSTANCE CONTEXT OTHER      says whose process has the other context
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"
#include "pmx/pmx.h"

#define SHARED (1u << 20)
#define AREA   7u

static struct pmx_node *node;
static struct pmx_context *ctx;

static void
open_it(const char *instance, const char *number)
{
	must_succeed("pmx_node_attach", pmx_node_attach(&node, instance, NULL));
	must_succeed("pmx_context_open", pmx_context_open(&ctx, node, atoi(number), NULL));
}

static struct pmx_addr
addr_of(const char *text)
{
	unsigned n = 0, c = 0;

	if (sscanf(text, "%u:%u", &n, &c) != 2)
		die("'%s' is not NODE:CONTEXT", text);
	return (struct pmx_addr){(uint16_t)n, (uint16_t)c};
}

static void
send_bytes(struct pmx_addr to, const void *data, uint32_t len)
{
	int result;

	while ((result = pmx_send_copy(ctx, to, data, len, NULL)) == -EAGAIN || result == -ENOBUFS)
		sched_yield();
	must_succeed("pmx_send_copy", result);
}

static void
receive(struct pmx_message *m)
{
	must_succeed("pmx_receive_wait", pmx_receive_wait(ctx, m, 10000000) == 1 ? 0 : -ETIMEDOUT);
}

static int
serve(void)
{
	struct pmx_remote remote;
	struct pmx_message m;
	void *shared;

	must_succeed("pmx_alloc", pmx_alloc(ctx, SHARED, &shared));
	memset(shared, 0x5A, SHARED);
	must_succeed("pmx_area_register",
		pmx_area_register(ctx, AREA, shared, SHARED,
			PMX_ANYONE | PMX_REMOTE_READ | PMX_REMOTE_WRITE, &remote));
	puts("serving");
	fflush(stdout);
	for (;;) {
		int got = pmx_receive(ctx, &m);

		must_succeed("pmx_receive", got);
		if (got == 0) {
			sched_yield();
			continue;
		}
		bool end = m.len == 3 && memcmp(pmx_message_data(&m), "end", 3) == 0;

		if (end)
			break;
		uint8_t *copy = malloc(m.len ? m.len : 1);

		must_succeed("pmx_message_read", pmx_message_read(ctx, &m, 0, copy, m.len));
		struct pmx_addr to = m.source;
		uint32_t len = m.len;

		pmx_release_receive_buffer(ctx, &m);
		send_bytes(to, copy, len);
		free(copy);
	}
	pmx_node_close(node);
	return 0;
}

/* ------------------------------------------------------------------ verbs */

static void
wait_transfer(const char *what, pmx_transfer_id id)
{
	int64_t end = now_ns() + 10000000000ll;
	int result;

	while ((result = pmx_transfer_done(ctx, id)) == 0 && now_ns() < end)
		sched_yield();
	must_succeed(what, result == 0 ? -ETIMEDOUT : result);
}

static void
transfer(const char *what, struct pmx_addr peer, bool push, void *local, uint64_t at, uint64_t len)
{
	const struct pmx_transfer t = {
		.peer = peer,
		.flags = PMX_AREA,
		.key = AREA,
		.remote = at,
		.local = local,
		.len = len,
	};
	pmx_transfer_id id;
	int result;

	while ((result = push ? pmx_push(ctx, &t, &id) : pmx_pull(ctx, &t, &id)) == -EAGAIN)
		sched_yield();
	must_succeed(what, result);
	wait_transfer(what, id);
}

static void
check_bytes(const char *what, const uint8_t *p, uint64_t len, uint8_t first)
{
	for (uint64_t i = 0; i < len; i++) {
		if (p[i] != (uint8_t)(first + i))
			die("%s: byte %lu is %u", what, i, p[i]);
	}
}

static void
fill(uint8_t *p, uint64_t len, uint8_t first)
{
	for (uint64_t i = 0; i < len; i++)
		p[i] = (uint8_t)(first + i);
}

static void
matched(struct pmx_addr self, uint64_t len)
{
	uint8_t *out = malloc(len), *in = calloc(1, len);
	const struct pmx_matched s = {.peer = self, .comm = 3, .tag = len, .data = out, .len = len};
	const struct pmx_matched r = {
		.peer = PMX_ANY_SOURCE,
		.comm = 3,
		.tag = len,
		.data = in,
		.len = len,
	};
	pmx_request requests[2];

	fill(out, len, 11);
	must_succeed("pmx_irecv", pmx_irecv(ctx, &r, &requests[0]));
	must_succeed("pmx_isend", pmx_isend(ctx, &s, &requests[1]));
	must_succeed("pmx_wait_all", pmx_wait_all(ctx, requests, 2, NULL, 10000000));
	check_bytes("a matched message", in, len, 11);
	free(out);
	free(in);
}

static int
verbs(struct pmx_addr peer)
{
	static const uint32_t sizes[] = {0, 1, 40, 41, 1000, 4000, 100000};
	struct pmx_message m;
	uint8_t *mine = malloc(SHARED);
	void *shared;

	must_succeed("pmx_alloc", pmx_alloc(ctx, SHARED, &shared));
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		fill(mine, sizes[i], (uint8_t)i);
		send_bytes(peer, mine, sizes[i]);
		receive(&m);
		if (m.len != sizes[i])
			die("%u bytes came back of %u", m.len, sizes[i]);
		memset(mine, 0, sizes[i]);
		must_succeed("pmx_message_read", pmx_message_read(ctx, &m, 0, mine, m.len));
		pmx_release_receive_buffer(ctx, &m);
		check_bytes("what came back", mine, sizes[i], (uint8_t)i);
	}
	/* private memory goes by way of memory that both map; the engine does not reach it */
	fill(mine, SHARED, 3);
	transfer("push of private memory", peer, true, mine, 0, SHARED);
	memset(mine, 0, SHARED);
	transfer("pull into private memory", peer, false, mine, 0, SHARED);
	check_bytes("what was pulled into private memory", mine, SHARED, 3);
	fill(shared, SHARED, 5);
	transfer("push of shared memory", peer, true, shared, 0, SHARED);
	memset(shared, 0, SHARED);
	transfer("pull into shared memory", peer, false, shared, 0, SHARED);
	check_bytes("what was pulled into shared memory", shared, SHARED, 5);
	matched(pmx_context_addr(ctx), 8);
	matched(pmx_context_addr(ctx), 2000);
	matched(pmx_context_addr(ctx), 3000000); /* offered, and fetched */
	struct pmx_remote remote;
	int result = pmx_register(ctx, mine, SHARED, PMX_REMOTE_READ, &remote);

	if (result != -EOPNOTSUPP)
		die("registering private memory gave %d", result);
	send_bytes(peer, "end", 3);
	must_succeed("pmx_send_wait", pmx_send_wait(ctx, 10000000));
	pmx_node_close(node);
	puts("all verbs work");
	return 0;
}

static int
compare(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

static int
ping(struct pmx_addr peer, uint32_t bytes, unsigned rounds)
{
	int64_t *ns = malloc(rounds * sizeof(*ns));
	uint8_t *data = calloc(1, bytes + 1);
	struct pmx_message m;

	for (unsigned i = 0; i < rounds; i++) {
		int64_t begin = now_ns();
		int got;

		send_bytes(peer, data, bytes);
		while ((got = pmx_receive(ctx, &m)) == 0)
			sched_yield();
		must_succeed("pmx_receive", got);
		pmx_release_receive_buffer(ctx, &m);
		ns[i] = now_ns() - begin;
	}
	qsort(ns, rounds, sizeof(*ns), compare);
	send_bytes(peer, (const uint8_t *)"end", 3);
	printf("%ld\n", ns[rounds / 2]);
	pmx_node_close(node);
	return 0;
}

static int
refused(struct pmx_addr peer, unsigned count)
{
	int64_t *ns = malloc(count * sizeof(*ns));

	for (unsigned i = 0; i < count; i++) {
		const int64_t begin = now_ns();
		pmx_send_id id;
		int result;

		must_succeed("pmx_send_copy", pmx_send_copy(ctx, peer, "x", 1, &id));
		while ((result = pmx_is_send_done(ctx, id)) == 0)
			sched_yield();
		if (result != -ECONNREFUSED)
			die("send %u ended with %d", i, result);
		ns[i] = now_ns() - begin;
	}
	qsort(ns, count, sizeof(*ns), compare);
	printf("%ld %ld\n", ns[count / 2] / 1000, ns[count - 1] / 1000);
	pmx_node_close(node);
	return 0;
}

static int
maps(void)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "r");
	void *shared;

	must_succeed("pmx_alloc", pmx_alloc(ctx, SHARED, &shared));
	rewind(f);
	while (fgets(line, sizeof(line), f)) {
		char rights[8];

		if (sscanf(line, "%*s %7s", rights) == 1 && rights[3] == 's')
			printf("shared %s", line);
	}
	fclose(f);
	return system("ls -l /proc/$PPID/fd | sed 's/^.*-> /fd /'") ? 1 : 0;
}

int
main(int argc, char **argv)
{
	if (argc < 4)
		die("Usage: see the head of thin.c");
	open_it(argv[2], argv[3]);
	if (strcmp(argv[1], "serve") == 0)
		return serve();
	if (strcmp(argv[1], "maps") == 0)
		return maps();
	if (strcmp(argv[1], "open") == 0) {
		printf("opened %u\n", pmx_context_addr(ctx).context);
		for (int i = 4; i < argc; i++) {
			must_succeed("pmx_context_open",
				pmx_context_open(&ctx, node, atoi(argv[i]), NULL));
			printf("opened %u\n", pmx_context_addr(ctx).context);
		}
		pmx_node_close(node);
		return 0;
	}
	if (strcmp(argv[1], "often") == 0 && argc == 5) {
		for (int i = atoi(argv[4]); i > 1; i--) {
			int result;

			pmx_context_close(ctx);
			while ((result = pmx_context_open(&ctx, node, atoi(argv[3]), NULL)) ==
				-EBUSY)
				sched_yield(); /* it is still closing */
			must_succeed("pmx_context_open", result);
		}
		pmx_node_close(node);
		return 0;
	}
	if (strcmp(argv[1], "process") == 0 && argc == 5) {
		printf("own %d\n", pmx_context_process(node, pmx_context_addr(ctx).context));
		printf("other %d\n", pmx_context_process(node, (uint16_t)atoi(argv[4])));
		return 0;
	}
	if (strcmp(argv[1], "verbs") == 0 && argc == 5)
		return verbs(addr_of(argv[4]));
	if (strcmp(argv[1], "refused") == 0 && argc == 6)
		return refused(addr_of(argv[4]), (unsigned)atoi(argv[5]));
	if (strcmp(argv[1], "ping") == 0 && argc == 7)
		return ping(addr_of(argv[4]), (uint32_t)atoi(argv[5]), (unsigned)atoi(argv[6]));
	die("no such command");
}
