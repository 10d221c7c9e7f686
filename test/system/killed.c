/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An application that kills itself (SIGKILL) at a step of its own choice, in the midst of
 * everything that libpmx does, and its partner on another node, which must get over it. The library
 * is built with PMX_STEPS here (lib/channel/step.h). killed.sh runs both, and looks what is left.
 *
 *   killed partner INSTANCE CONTEXT FILE
 *   killed victim INSTANCE CONTEXT NODE:CONTEXT STEP 0: to its end; prints how many steps there
 *   were, and where they were
 *   killed loop INSTANCE CONTEXT NODE:CONTEXT          over and over, until something kills it
 *   killed owes FILE                                   prints what the partner still waits for
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "channel/step.h"
#include "helpers.h"
#include "pmx/pmx.h"

#define BYTES       (64u << 10)
#define AREA        4u
#define PATIENCE_US 60000000

enum ask { ASK_ECHO = 1, ASK_PULL, ASK_PUSH };

struct question {
	uint32_t ask, len;
	struct pmx_remote remote;
};

struct file {
	_Atomic uint32_t ready;
	_Atomic uint32_t owes;      /* sends, transfers and requests of the partner that did not
				     * end */
	_Atomic uint64_t errors;    /* ... that ended with an error */
	_Atomic int64_t longest_us; /* that anything of it was under way */
};

static struct pmx_node *node;
static struct pmx_context *ctx;
static struct pmx_addr peer;
static long steps, wanted;
static const char *phase = "attach";
static struct {
	const char *name;
	long count;
} phases[16];

void
pmx_step(void)
{
	unsigned i = 0;

	steps++;
	while (phases[i].name != NULL && phases[i].name != phase)
		i++;
	phases[i].name = phase;
	phases[i].count++;
	if (steps == wanted)
		kill(getpid(), SIGKILL);
}

static void
tell_phase(const char *why)
{
	(void)why;
	fprintf(stderr, "killed: that was in the phase \"%s\"\n", phase);
}

static void
open_it(const char *instance, const char *number)
{
	const struct pmx_context_params params = {
		.size = sizeof(params),
		.send_buffers = 32,
		.receive_buffers = 32,
	};
	int64_t end = now_us() + PATIENCE_US;
	int result;

	/* a primary that waits for a CPU may be asked again */
	while ((result = pmx_node_attach(&node, instance, NULL)) == -ETIMEDOUT && now_us() < end)
		;
	must_succeed("pmx_node_attach", result);
	phase = "open";
	/* the one before was killed: its number is free as soon as that is seen */
	while ((result = pmx_context_open(&ctx, node, atoi(number), &params)) == -EBUSY &&
		now_us() < end)
		usleep(200);
	must_succeed("pmx_context_open", result);
}

/* ------------------------------------------------------------------ partner */

static struct file *file;

static void
map(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0666);

	if (fd < 0 || ftruncate(fd, sizeof(*file)) != 0)
		die("%s: %s", path, strerror(errno));
	file = mmap(NULL, sizeof(*file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
}

static uint8_t *mine;

static void
answer(const struct pmx_message *m)
{
	struct question q = {0};
	pmx_send_id id;

	if (m->len >= sizeof(q))
		pmx_message_read(ctx, m, 0, &q, sizeof(q));
	const struct pmx_transfer t = {
		.peer = m->source,
		.key = q.remote.key,
		.remote = q.remote.addr,
		.local = mine,
		.len = q.remote.len,
	};
	uint8_t copy[sizeof(q) + 8192];
	uint32_t len = m->len < sizeof(copy) ? m->len : (uint32_t)sizeof(copy);

	if (q.ask == ASK_PULL && q.remote.len <= BYTES)
		pmx_pull(ctx, &t, NULL);
	if (q.ask == ASK_PUSH && q.remote.len <= BYTES)
		pmx_push(ctx, &t, NULL);
	pmx_message_read(ctx, m, 0, copy, len);
	pmx_send_copy(ctx, m->source, copy, len, &id);
}

/* Send back the matched message that came, if one did; keep a receive posted. Return what
 * pmx_test() says of it. */
static int
echo_matched(void *bounce, pmx_request *request)
{
	const struct pmx_matched r = {
		.peer = PMX_ANY_SOURCE,
		.comm = 5,
		.ignore = PMX_ANY_TAG,
		.data = bounce,
		.len = 4 * BYTES,
	};
	struct pmx_status status;

	if (*request == 0)
		must_succeed("pmx_irecv", pmx_irecv(ctx, &r, request));
	int got = pmx_test(ctx, request, &status);

	if (got == 1) {
		const struct pmx_matched s = {
			.peer = status.source,
			.comm = 5,
			.tag = status.tag,
			.data = bounce,
			.len = status.len,
			.flags = PMX_DELIVERED,
		};

		pmx_isend(ctx, &s, NULL);
	}
	return got;
}

static int
partner(char **argv)
{
	struct pmx_remote remote;
	struct pmx_message m;
	void *area, *bounce = malloc(4 * BYTES);
	int64_t since = 0;
	pmx_request request = 0;
	struct pmx_context_stat stat;

	map(argv[2]);
	open_it(argv[0], argv[1]);
	must_succeed("pmx_alloc", pmx_alloc(ctx, BYTES, &area));
	must_succeed("pmx_alloc", pmx_alloc(ctx, BYTES, (void **)&mine));
	must_succeed("pmx_area_register",
		pmx_area_register(ctx, AREA, area, BYTES,
			PMX_ANYONE | PMX_REMOTE_READ | PMX_REMOTE_WRITE, &remote));
	file->ready = 1;
	for (;;) {
		if (echo_matched(bounce, &request) == -EPIPE)
			die("the primary ended");
		int got = pmx_receive(ctx, &m);

		must_succeed("pmx_receive", got);
		if (got == 1) {
			answer(&m);
			pmx_release_receive_buffer(ctx, &m);
		}
		file->owes = pmx_sends_pending(ctx) + pmx_transfers_pending(ctx);
		if (file->owes == 0)
			since = 0;
		else if (since == 0)
			since = now_us();
		else if (got == 0 && now_us() - since > file->longest_us)
			file->longest_us = now_us() - since;
		pmx_context_read_stat(ctx, &stat);
		file->errors = stat.send_errors;
		if (got == 0) /* who sleeps gets a CPU before those that are always busy */
			usleep(100);
	}
}

/* ------------------------------------------------------------------ victim */

static void
wait_reply(void)
{
	struct pmx_message m;

	must_succeed("pmx_receive_wait",
		pmx_receive_wait(ctx, &m, PATIENCE_US) == 1 ? 0 : -ETIMEDOUT);
	STEP();
	pmx_release_receive_buffer(ctx, &m);
	STEP();
}

static void
question(uint32_t ask, uint32_t len, const struct pmx_remote *remote)
{
	struct pmx_buffer buf;
	struct question q = {.ask = ask, .len = len};
	int result;

	if (remote != NULL)
		q.remote = *remote;
	while ((result = pmx_get_send_buffer(ctx, (uint32_t)sizeof(q) + len, &buf)) == -ENOBUFS)
		sched_yield();
	must_succeed("pmx_get_send_buffer", result);
	STEP();
	pmx_buffer_write(ctx, &buf, 0, &q, sizeof(q));
	while ((result = pmx_send(ctx, peer, &buf, NULL)) == -EAGAIN)
		sched_yield();
	must_succeed("pmx_send", result);
}

static void
transfer(bool push, void *local, uint64_t len)
{
	const struct pmx_transfer t = {
		.peer = peer,
		.flags = PMX_AREA,
		.key = AREA,
		.local = local,
		.len = len,
	};
	pmx_transfer_id id;
	int result;

	while ((result = push ? pmx_push(ctx, &t, &id) : pmx_pull(ctx, &t, &id)) == -EAGAIN)
		sched_yield();
	must_succeed("transfer", result);
	for (int64_t end = now_us() + PATIENCE_US; (result = pmx_transfer_done(ctx, id)) == 0;) {
		if (now_us() > end)
			die("a transfer does not end");
		sched_yield();
	}
	must_succeed("transfer", result);
}

static void
matched(void *data, uint64_t len)
{
	uint8_t *in = malloc(len);
	const struct pmx_matched s = {
		.peer = peer,
		.comm = 5,
		.tag = len,
		.data = data,
		.len = len,
	};
	const struct pmx_matched r = {.peer = peer, .comm = 5, .tag = len, .data = in, .len = len};
	pmx_request requests[2];

	must_succeed("pmx_irecv", pmx_irecv(ctx, &r, &requests[0]));
	STEP();
	must_succeed("pmx_isend", pmx_isend(ctx, &s, &requests[1]));
	must_succeed("pmx_wait_all", pmx_wait_all(ctx, requests, 2, NULL, PATIENCE_US));
	free(in);
}

/* With a partner on this node: messages by memory that both map. */
static void
pair_up(uint8_t *data)
{
	struct pmx_match_stat stat;
	const int64_t end = now_us() + PATIENCE_US;

	do {
		matched(data, 16);
		question(ASK_ECHO, 100, NULL);
		wait_reply();
		pmx_match_read_stat(ctx, &stat);
	} while (stat.paired == 0 && now_us() < end);
	if (stat.paired == 0)
		die("no memory is shared with the partner");
	for (unsigned i = 0; i < 3; i++) {
		matched(data, 3000);
		question(ASK_ECHO, 5000, NULL);
		wait_reply();
	}
	matched(data, BYTES);
	matched(data, 16);
}

static void
scenario(const char *instance, const char *number)
{
	struct pmx_remote remote;
	uint8_t *private = aligned_alloc(4096, BYTES), *adopted = aligned_alloc(4096, BYTES);
	void *shared;

	phase = "attach";
	open_it(instance, number);
	phase = "register";
	memset(private, 1, BYTES);
	memset(adopted, 2, BYTES);
	must_succeed("pmx_alloc", pmx_alloc(ctx, BYTES, &shared));
	must_succeed("pmx_register",
		pmx_register(ctx, shared, BYTES, PMX_REMOTE_READ | PMX_REMOTE_WRITE, &remote));
	int result = pmx_register(ctx, adopted, BYTES, PMX_REMOTE_READ | PMX_ADOPT, &remote);

	if (result != 0 && result != -EOPNOTSUPP)
		must_succeed("pmx_register", result);
	phase = "send";
	question(ASK_ECHO, 0, NULL);
	wait_reply();
	phase = "receive";
	question(ASK_ECHO, 5000, NULL);
	wait_reply();
	phase = "push";
	transfer(true, shared, BYTES);
	transfer(true, private, 20000);
	phase = "pull";
	transfer(false, shared, BYTES);
	transfer(false, private, 20000);
	phase = "served";
	if (result == 0) {
		question(ASK_PULL, 0, &remote);
		wait_reply();
	}
	phase = "match";
	matched(private, 16);
	matched(private, 3000);
	matched(private, BYTES);
	matched(shared, BYTES);
	phase = "pair";
	if (peer.node == pmx_node_number(node))
		pair_up(private);
	phase = "sleep";
	if (pmx_before_select(ctx) == 0)
		pmx_after_select(ctx);
	phase = "deregister";
	if (result == 0)
		must_succeed("pmx_deregister", pmx_deregister(ctx, remote.key));
	pmx_free(ctx, shared);
	STEP();
	phase = "detach";
	pmx_context_close(ctx);
	pmx_node_close(node);
	STEP();
	free(private);
	free(adopted);
}

int
main(int argc, char **argv)
{
	at_death = tell_phase;
	if (argc == 5 && strcmp(argv[1], "partner") == 0)
		return partner(argv + 2);
	if (argc == 3 && strcmp(argv[1], "owes") == 0) {
		map(argv[2]);
		printf("%u %llu %lld\n", file->owes, (unsigned long long)file->errors,
			(long long)file->longest_us);
		file->longest_us = 0;
		return !file->ready;
	}
	unsigned n = 0, c = 0;

	if (argc < 5 || sscanf(argv[4], "%u:%u", &n, &c) != 2)
		die("Usage: see the head of killed.c");
	peer = (struct pmx_addr){(uint16_t)n, (uint16_t)c};
	if (strcmp(argv[1], "loop") == 0) {
		const char *as = getenv("PMX_ATTACH");
		/* an EAL begins only once */
		bool once = as != NULL && strcmp(as, "secondary") == 0;

		do
			scenario(argv[2], argv[3]);
		while (!once);
		return 0;
	}
	wanted = argc > 5 ? atol(argv[5]) : 0;
	scenario(argv[2], argv[3]);
	printf("%ld steps:", steps);
	for (unsigned i = 0; phases[i].name != NULL; i++)
		printf(" %s %ld", phases[i].name, phases[i].count);
	putchar('\n');
	return 0;
}
