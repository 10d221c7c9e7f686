/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An embedded node whose engine runs in one thread and two contexts in two others: the channel with
 * both of its ends in one process, for ThreadSanitizer (litmus.sh). Every kind of ring is used:
 * submissions, completions, both LHS rings, bulk, events, transfers, and sleeping.
 *
 *   threads ROUNDS [EAL arguments]
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "helpers.h"
#include "pmx/pmx.h"

#define BYTES 20000

static const char config[] = "[node]\nid = 0\n[link 0]\ndriver = loop\nport = threads\n[limits]\n"
			     "mbufs = 4096\ncontexts = 2\n"
			     "send_buffers = 64\nreceive_buffers = 64\n[nodes]\n0 = auto\n";
static struct pmx_node *node;
static struct pmx_context *ctx[2];
static struct pmx_remote remote[2];
static _Atomic bool over;
static unsigned rounds;

static void *
engine(void *arg)
{
	(void)arg;
	while (!over) {
		if (pmx_node_poll(node) == 0)
			sched_yield();
	}
	return NULL;
}

static void
round_trip(struct pmx_context *c, unsigned self, unsigned i)
{
	static const uint32_t sizes[] = {8, 40, 41, 1000, 5000, BYTES};
	uint32_t len = sizes[i % 6];
	uint8_t *data = malloc(len), *in = malloc(len);
	const struct pmx_addr peer = {0, (uint16_t)!self};
	struct pmx_message m;
	int result;

	memset(data, (int)(i + self), len);
	while ((result = pmx_send_copy(c, peer, data, len, NULL)) == -EAGAIN || result == -ENOBUFS)
		sched_yield();
	while (result == 0 && (result = pmx_receive(c, &m)) == 0) {
		if (i % 7 == 0 && pmx_before_select(c) == 0)
			pmx_after_select(c);
		sched_yield();
	}
	if (result != 1 || m.len != len || pmx_message_read(c, &m, 0, in, len) != 0 ||
		in[0] != (uint8_t)(i + !self) || in[len - 1] != in[0])
		fail("context %u: a message: %d", self, result);
	pmx_release_receive_buffer(c, &m);
	free(data);
	free(in);
}

static void
matched(struct pmx_context *c, unsigned self, unsigned i, uint8_t *out, uint8_t *in, uint64_t len)
{
	const struct pmx_addr peer = {0, (uint16_t)!self};
	const struct pmx_matched s = {.peer = peer, .comm = 1, .tag = i, .data = out, .len = len};
	const struct pmx_matched r = {.peer = peer, .comm = 1, .tag = i, .data = in, .len = len};
	pmx_request requests[2];
	int result;

	memset(out, (int)i, len);
	while ((result = pmx_irecv(c, &r, &requests[0])) == -EAGAIN)
		sched_yield();
	while (result == 0 && (result = pmx_isend(c, &s, &requests[1])) == -EAGAIN)
		sched_yield();
	while (result == 0 && (result = pmx_test_all(c, requests, 2, NULL)) == 0)
		sched_yield();
	if (result != 1 || in[0] != (uint8_t)i || in[len - 1] != (uint8_t)i)
		fail("context %u: a matched message: %d", self, result);
}

static void
transfer(struct pmx_context *c, unsigned self, uint8_t *local)
{
	const struct pmx_transfer t = {
		.peer = {0, (uint16_t)!self},
		.key = remote[!self].key,
		.remote = remote[!self].addr + self * BYTES,
		.local = local,
		.len = BYTES,
		.flags = PMX_NOTIFY,
	};
	struct pmx_event event;
	pmx_transfer_id id;
	int result;

	while ((result = pmx_push(c, &t, &id)) == -EAGAIN)
		sched_yield();
	while (result == 0 && (result = pmx_transfer_done(c, id)) == 0)
		sched_yield();
	if (result != 1)
		fail("context %u: a push: %d", self, result);
	while ((result = pmx_poll_event(c, &event)) == 0)
		sched_yield();
	if (result != 1 || event.len != BYTES)
		fail("context %u: a notification: %d", self, result);
}

static void *
application(void *arg)
{
	unsigned self = (unsigned)(uintptr_t)arg;
	struct pmx_context *c = ctx[self];
	uint8_t *out = malloc(BYTES), *in = malloc(BYTES), *local = malloc(BYTES);

	memset(local, 1, BYTES);
	for (unsigned i = 0; i < rounds && !failed; i++) {
		round_trip(c, self, i);
		matched(c, self, i, out, in, i % 3 ? 100 : 3000);
		if (i % 4 == 0)
			transfer(c, self, local);
	}
	free(out);
	free(in);
	free(local);
	return NULL;
}

int
main(int argc, char **argv)
{
	struct pmx_node_params params = {
		.size = sizeof(params),
		.config_text = config,
		.eal_argc = argc - 1,
		.eal_argv = argv + 1,
	};
	pthread_t threads[3];
	char error[256];
	void *shared[2];

	if (argc < 3)
		return 2;
	rounds = (unsigned)atoi(argv[1]);
	if (pmx_node_start(&node, &params, error, sizeof(error)) != 0) {
		fprintf(stderr, "%s\n", error);
		return 1;
	}
	for (unsigned i = 0; i < 2; i++) {
		if (pmx_context_open(&ctx[i], node, i, NULL) != 0 ||
			pmx_alloc(ctx[i], 2 * BYTES, &shared[i]) != 0 ||
			pmx_register(ctx[i], shared[i], 2 * BYTES,
				PMX_REMOTE_READ | PMX_REMOTE_WRITE, &remote[i]) != 0) {
			die("a context does not open");
		}
	}
	pthread_create(&threads[2], NULL, engine, NULL);
	for (unsigned i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, application, (void *)(uintptr_t)i);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	over = true;
	pthread_join(threads[2], NULL);
	pmx_node_close(node);
	printf("%s threads # %u rounds\n", failed ? "not ok" : "ok", rounds);
	return failed;
}
