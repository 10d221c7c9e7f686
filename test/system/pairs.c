/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts of one host that share memory (lib/client/pairs.h), as pairs.sh runs them:
 *
 *   pairs mix NAME SEED PAIRED      random messages of three contexts, order and bytes checked
 *   pairs large NAME                a first message that is longer than limits.shared_bytes
 *   pairs interrupted NAME          the same while signals are handled
 *   pairs switch NAME               bursts while sharing begins, many times: order
 *   pairs stream NAME               a stream, whatever the primary does, until a line comes
 *   pairs sleep NAME                both sides sleep between messages
 *   pairs killed NAME               a receiver is killed, and another takes its number
 *   pairs hostile NAME SEED         one side writes what it must not
 *   pairs refused NAME USER         the two are of different users
 *   pairs plain-CASE NAME ...       plain messages: pairs_plain.c
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client.h"
#include "client/pairs.h"
#include "helpers.h"
#include "pairs.h"

#define COMM 1

static const char *instance;
struct pmx_node *node;
uint32_t buffers = 32;

struct pmx_context *
open_context(uint16_t number)
{
	const struct pmx_context_params params = {
		.size = sizeof(params),
		.send_buffers = buffers,
		.receive_buffers = buffers,
	};
	struct pmx_context *ctx;
	int result;

	if (node == NULL)
		must_succeed("pmx_node_attach", pmx_node_attach(&node, instance, NULL));
	/* a predecessor may still be ending */
	for (unsigned i = 0;
		(result = pmx_context_open(&ctx, node, number, &params)) == -EBUSY && i < 1000; i++)
		usleep(10000);
	must_succeed("pmx_context_open", result);
	return ctx;
}

static uint64_t
paired(const struct pmx_context *ctx)
{
	struct pmx_match_stat stat;

	pmx_match_read_stat(ctx, &stat);
	return stat.paired;
}

struct pmx_addr
addr(uint16_t context)
{
	return (struct pmx_addr){pmx_node_number(node), context};
}

void
wait_for(uint16_t context, pid_t pid)
{
	for (int64_t until = now_us() + 30000000; pmx_context_process(node, context) != pid;) {
		usleep(1000);
		if (now_us() > until)
			die("process %d did not open context %u within 30 s", pid, context);
	}
}

/* 0, or an error; -EAGAIN and -ENOBUFS: there is no room now. */
static int
try_send(struct pmx_context *ctx, uint16_t to, uint64_t tag, const void *data, uint64_t len,
	uint32_t flags, pmx_request *request)
{
	struct pmx_matched m = {
		.peer = addr(to),
		.comm = COMM,
		.tag = tag,
		.flags = flags | PMX_COPY,
		.data = (void *)(uintptr_t)data,
		.len = len,
		.immediate = ~tag,
		.label = (uint16_t)tag,
	};

	return pmx_isend(ctx, &m, request);
}

/* Sends, however long there is no room. 0, or an error. */
static int
send_to(struct pmx_context *ctx, uint16_t to, uint64_t tag, const void *data, uint64_t len,
	uint32_t flags, pmx_request *request)
{
	int result;

	while ((result = try_send(ctx, to, tag, data, len, flags, request)) == -EAGAIN ||
		result == -ENOBUFS)
		pmx_iprobe(ctx, &(struct pmx_matched){.peer = addr(to), .comm = 99}, NULL);
	return result;
}

static pmx_request
receive_from(struct pmx_context *ctx, struct pmx_addr from, void *data, uint64_t len)
{
	struct pmx_matched m = {
		.peer = from,
		.comm = COMM,
		.ignore = PMX_ANY_TAG,
		.data = data,
		.len = len,
	};
	pmx_request r;
	int result;

	while ((result = pmx_irecv(ctx, &m, &r)) == -EAGAIN)
		pmx_iprobe(ctx, &(struct pmx_matched){.peer = from, .comm = 99}, NULL);
	must_succeed("pmx_irecv", result);
	return r;
}

/* ------------------------------------------------------------------ mix */

#define CONTEXTS 3
#define STEPS    40000
#define POSTED   24
#define LONGEST  50000
#define SENDS    64

struct posted {
	pmx_request request;
	uint64_t order;
	uint8_t *bytes;
};

static struct {
	struct pmx_context *ctx;
	uint64_t sent[CONTEXTS], came[CONTEXTS]; /* messages, by the other side */
	uint64_t *orders[CONTEXTS];              /* by sender and message: order of its receive */
	struct posted posted[POSTED];
	pmx_request sends[SENDS];
	uint64_t posts;
} of[CONTEXTS];

static uint8_t
byte_of(unsigned from, unsigned to, uint64_t message, uint64_t i)
{
	return (uint8_t)(mix64(message * CONTEXTS * CONTEXTS + from * CONTEXTS + to) + i * 7);
}

static uint64_t
draw_len(void)
{
	uint64_t kind = draw() % 20;

	return kind == 0 ? draw() % LONGEST : kind < 4 ? draw() % 5000 : draw() % 100;
}

static void
send_random(unsigned i, unsigned k)
{
	static uint8_t bytes[LONGEST];
	static const uint32_t flags[] = {0, 0, 0, PMX_IMMEDIATE, PMX_DELIVERED, PMX_SYNC};
	uint64_t len = draw_len(), message = of[i].sent[k];
	unsigned place = 0;

	for (; place < SENDS && of[i].sends[place] != 0; place++) {
		if (pmx_test(of[i].ctx, &of[i].sends[place], NULL) != 0)
			break;
	}
	if (place == SENDS)
		return;
	for (uint64_t b = 0; b < len; b++)
		bytes[b] = byte_of(i, k, message, b);
	struct pmx_matched m = {
		.peer = addr((uint16_t)k),
		.comm = COMM,
		.tag = message,
		.flags = flags[draw() % 6] | PMX_COPY,
		.data = bytes,
		.len = len,
		.immediate = ~message,
		.label = (uint16_t)message,
	};
	int result = pmx_isend(of[i].ctx, &m, &of[i].sends[place]);

	if (result == 0)
		of[i].sent[k]++;
	else if (result != -EAGAIN && result != -ENOBUFS)
		die_of("pmx_isend", result);
	memset(bytes, 0xEE, len < 64 ? len : 64);
}

/* any: of any source; otherwise half of them are of one. */
static void
post(unsigned i, bool any)
{
	unsigned from = (unsigned)(draw() % CONTEXTS);

	for (unsigned k = 0; k < POSTED; k++) {
		struct posted *p = &of[i].posted[k];

		if (p->request != 0)
			continue;
		p->request = receive_from(of[i].ctx,
			any || from == i || draw() % 2 ? PMX_ANY_SOURCE : addr((uint16_t)from),
			p->bytes, LONGEST);
		p->order = of[i].posts++;
		return;
	}
}

/* Takes back the receives that wait: those of one source could have all places, and no message be
 * left of it. */
static void
take_back(unsigned i)
{
	for (unsigned k = 0; k < POSTED; k++) {
		struct posted *p = &of[i].posted[k];
		int result = p->request != 0 ? pmx_cancel(of[i].ctx, p->request) : -EINPROGRESS;

		if (result == 0)
			result = pmx_test(of[i].ctx, &p->request, NULL);
		if (result != -EINPROGRESS && result != -ECANCELED)
			die_of("pmx_cancel", result);
	}
}

static void
look_at(unsigned i)
{
	for (unsigned k = 0; k < POSTED; k++) {
		struct posted *p = &of[i].posted[k];
		struct pmx_status s = {0};
		int result = p->request != 0 ? pmx_test(of[i].ctx, &p->request, &s) : 0;

		if (result == 0)
			continue;
		must_succeed("a receive", result);
		unsigned from = s.source.context;

		if (from >= CONTEXTS || s.tag >= of[from].sent[i])
			die("%u received message %lu of %u, which was not sent", i, s.tag, from);
		if (s.flags & PMX_IMMEDIATE &&
			(s.immediate != ~s.tag || s.label != (uint16_t)s.tag))
			die("message %lu has another one's immediate", s.tag);
		for (uint64_t b = 0; b < s.len; b++) {
			if (p->bytes[b] != byte_of(from, i, s.tag, b))
				die("byte %lu of message %lu from %u to %u is wrong", b, s.tag,
					from, i);
		}
		if (of[i].orders[from][s.tag] != 0)
			die("message %lu from %u to %u came twice", s.tag, from, i);
		of[i].orders[from][s.tag] = p->order + 1;
		of[i].came[from]++;
	}
}

static bool
is_all_there(void)
{
	for (unsigned i = 0; i < CONTEXTS; i++) {
		for (unsigned k = 0; k < CONTEXTS; k++) {
			if (of[i].came[k] != of[k].sent[i])
				return false;
		}
	}
	return true;
}

static void
mix(bool by_pairs)
{
	uint64_t all = 0, aside = 0;

	for (unsigned i = 0; i < CONTEXTS; i++) {
		of[i].ctx = open_context((uint16_t)i);
		for (unsigned k = 0; k < CONTEXTS; k++)
			of[i].orders[k] = must(calloc(STEPS, sizeof(uint64_t)));
		for (unsigned k = 0; k < POSTED; k++)
			of[i].posted[k].bytes = must(malloc(LONGEST));
	}
	for (unsigned step = 0; step < STEPS; step++) {
		unsigned i = (unsigned)(draw() % CONTEXTS), k = (unsigned)(draw() % CONTEXTS);
		/* for some time much more is sent than received, then the other way round */
		bool sends = draw() % 8 < (step / 2000 % 2 ? 5 : 2);

		if (sends)
			send_random(i, k); /* also to itself */
		else if (draw() % 2)
			post(i, false);
		else
			look_at(i);
	}
	for (unsigned i = 0; i < CONTEXTS; i++)
		take_back(i);
	for (int64_t until = now_us() + 60000000; !is_all_there();) {
		for (unsigned i = 0; i < CONTEXTS; i++) {
			post(i, true);
			look_at(i);
		}
		if (now_us() > until)
			die("not all has come within 60 s");
	}
	for (unsigned i = 0; i < CONTEXTS; i++) {
		for (unsigned k = 0; k < CONTEXTS; k++) {
			for (uint64_t n = 1; n < of[k].sent[i]; n++) {
				if (of[i].orders[k][n] <= of[i].orders[k][n - 1])
					die("message %lu from %u to %u overtook the one before it",
						n, k, i);
			}
			all += of[i].came[k];
		}
		aside += paired(of[i].ctx);
	}
	if (by_pairs ? aside < all / 3 : aside != 0)
		die("%lu of %lu messages by shared memory", aside, all);
	printf("# %lu of %lu messages by shared memory\n", aside, all);
}

/* ------------------------------------------------------------------ switch */

#define SWITCHES 100
#define BURST    24

/* Messages before the switch are still on their way by the engine when the first one by shared
 * memory is there. */
static void
switch_once(void)
{
	struct pmx_context *a = open_context(0), *b = open_context(1);
	uint64_t sent = 0, came = 0;

	for (int64_t until = now_us() + 30000000; paired(b) < BURST;) {
		for (unsigned i = 0; i < BURST; i++, sent++)
			must_succeed("pmx_isend",
				send_to(a, 1, sent, &sent, sizeof(sent), 0, NULL));
		while (came < sent) {
			uint64_t got;
			struct pmx_status s = {0};
			pmx_request r = receive_from(b, PMX_ANY_SOURCE, &got, sizeof(got));
			int result;

			while ((result = pmx_test(b, &r, &s)) == 0) {
				if (now_us() > until)
					die("no shared memory, or a message lost, within 30 s");
			}
			must_succeed("pmx_test", result);
			if (s.tag != came || got != came)
				die("message %lu came in place of %lu", s.tag, came);
			came++;
		}
	}
	pmx_context_close(a);
	pmx_context_close(b);
}

/* ------------------------------------------------------------------ large */

#define LARGE (8u << 20)

/* The engine could not map a message that long, but a pair needs no memory for it. */
static void
large(void)
{
	struct pmx_context *a = open_context(0), *b = open_context(1);
	uint8_t *from = must(malloc(LARGE)), *to = must(calloc(1, LARGE));
	const int64_t until = now_us() + 30000000;
	pmx_request sent, came = receive_from(b, addr(0), to, LARGE);
	int result;

	for (uint64_t i = 0; i < LARGE; i++)
		from[i] = (uint8_t)mix64(i / 8);
	while ((result = try_send(a, 1, 7, from, LARGE, 0, &sent)) != 0) {
		if (result != -EAGAIN && result != -ENOBUFS)
			die_of("pmx_isend", result);
		pmx_iprobe(b, &(struct pmx_matched){.peer = addr(0), .comm = 99}, NULL);
		if (now_us() > until)
			die("no pair within 30 s");
	}
	while ((result = pmx_test(b, &came, NULL)) == 0)
		;
	must_succeed("pmx_test", result);
	if (memcmp(from, to, LARGE) != 0)
		die("other bytes have come");
	must_succeed("pmx_wait", pmx_wait(a, &sent, NULL, 30000000));
	free(from);
	free(to);
}

/* ------------------------------------------------------------------ stream */

void
go_on(int result)
{
	if (result == -EPIPE)
		result = pmx_reattach(node, 20000000);
	must_succeed("a message", result);
}

static void
stream_in(void)
{
	struct pmx_context *ctx = open_context(1);
	bool said = false;

	for (uint64_t next = 0;; next++) {
		uint64_t got[25];
		struct pmx_status s = {0};
		pmx_request r = receive_from(ctx, PMX_ANY_SOURCE, got, sizeof(got));
		int result;

		while ((result = pmx_wait(ctx, &r, &s, -1)) == -EPIPE)
			go_on(result);
		must_succeed("pmx_wait", result);
		if (s.tag == UINT64_MAX)
			break;
		if (s.tag != next || got[0] != next)
			die("message %lu came in place of %lu", s.tag, next);
		if (!said && paired(ctx) != 0)
			printf("paired\n");
		said |= paired(ctx) != 0;
		if (next == 0)
			printf("begun\n");
		fflush(stdout);
	}
	if (!said)
		die("nothing came by shared memory");
	pmx_context_close(ctx);
}

bool
line_waits(void)
{
	struct pollfd p = {.fd = STDIN_FILENO, .events = POLLIN};

	return poll(&p, 1, 0) != 0;
}

static void
stream_out(pid_t receiver)
{
	struct pmx_context *ctx = open_context(0);
	uint64_t words[25], n = 0, last = UINT64_MAX;
	int result;

	wait_for(1, receiver);
	for (; n < last; n++) {
		if (last == UINT64_MAX && n % 64 == 0 && line_waits())
			last = n + 1000; /* as many show that it goes on after what happened */
		words[0] = n;
		while ((result = send_to(ctx, 1, n, words, 8 + 8 * (n % 25) % 200, 0, NULL)) != 0)
			go_on(result);
		/* what an engine has when it dies is lost: the first messages are few */
		if (n < 100)
			usleep(2000);
	}
	while ((result = send_to(ctx, 1, UINT64_MAX, words, 8, 0, NULL)) != 0)
		go_on(result);
	printf("# %lu messages\n", n);
	usleep(200000);
	pmx_context_close(ctx);
}

/* ------------------------------------------------------------------ sleep */

static unsigned sleeps, unended; /* that had a time: all, and those that it ended */

/* In place of libc's. One sleeps 100 ms at a time, and looks again: only who counts sees that
 * nobody woke it. */
int
poll(struct pollfd *fds, nfds_t n, int ms)
{
	const int ready = (int)syscall(SYS_poll, fds, n, ms);

	if (ms > 0) {
		sleeps++;
		unended += ready == 0;
	}
	return ready;
}

static void
ping(struct pmx_context *ctx, uint16_t other, bool first)
{
	uint64_t got;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		pmx_request r = receive_from(ctx, addr(other), &got, sizeof(got));

		usleep(first ? 1000 : 0);
		if (first)
			must_succeed("pmx_isend", send_to(ctx, other, i, &i, sizeof(i), 0, NULL));
		must_succeed("pmx_wait", pmx_wait(ctx, &r, NULL, 30000000));
		if (got != i)
			die("%lu came in place of %lu", got, i);
		usleep(first ? 0 : 1000);
		if (!first)
			must_succeed("pmx_isend", send_to(ctx, other, i, &i, sizeof(i), 0, NULL));
	}
}

/* ------------------------------------------------------------------ processes */

pid_t
child(void)
{
	pid_t pid = fork();

	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

void
reap(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
		die("the other process failed");
}

void
in_two(void (*in_child)(void), void (*in_parent)(pid_t child))
{
	pid_t pid = child();

	if (pid == 0) {
		in_child();
		exit(0);
	}
	in_parent(pid);
	reap(pid);
}

void
check_sleeps(void)
{
	printf("# %u sleeps, %u ended by their time\n", sleeps, unended);
	if (sleeps < ROUNDS / 4)
		die("it slept %u times in %d rounds", sleeps, ROUNDS);
	if (unended > ROUNDS / 4)
		die("%u sleeps of %d rounds ended by their time", unended, ROUNDS);
}

static void
sleep_both(void)
{
	pid_t pid = child();
	struct pmx_context *ctx = open_context(pid == 0);

	wait_for(pid != 0, pid == 0 ? getppid() : pid);
	ping(ctx, pid != 0, pid != 0);
	check_sleeps();
	if (paired(ctx) == 0)
		die("nothing came by shared memory");
	if (pid == 0)
		exit(0);
	reap(pid);
}

/* Receives for ever. */
static void
drain(void)
{
	struct pmx_context *ctx = open_context(1);
	uint64_t got;

	for (;;) {
		pmx_request r = receive_from(ctx, PMX_ANY_SOURCE, &got, sizeof(got));
		struct pmx_status s = {0};

		must_succeed("pmx_wait", pmx_wait(ctx, &r, &s, -1));
		if (s.tag == 7) {
			pmx_context_close(ctx);
			exit(0);
		}
	}
}

static void
killed(void)
{
	uint64_t word = 0;
	pid_t pid = child();
	int result = 0;

	if (pid == 0)
		drain();
	struct pmx_context *ctx = open_context(0);
	int64_t until = now_us() + 30000000;

	wait_for(1, pid);
	/* until it goes by shared memory: such a message ends at once, though asked for */
	while (ctx->pairs->of[1].pair == NULL ||
		!ctx->pairs->of[1].pair->flow[PAIR_MATCHED].sends) {
		must_succeed("pmx_isend", send_to(ctx, 1, 1, &word, 8, 0, NULL));
		usleep(100);
		if (now_us() > until)
			die("no shared memory within 30 s");
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	while (result == 0) {
		pmx_request r = 0;

		result = send_to(ctx, 1, 1, &word, 8, PMX_DELIVERED, &r);
		if (result == 0)
			result = pmx_wait(ctx, &r, NULL, 30000000);
		result = result == 1 ? 0 : result;
		if (now_us() > until)
			die("sends to a killed process go on without an error");
	}
	if (result != -ECONNREFUSED && result != -ECONNRESET)
		die_of("a send to a killed process", result);
	pid = child();
	if (pid == 0) {
		node = NULL;
		drain();
	}
	wait_for(1, pid);
	for (unsigned i = 0; i < 200; i++)
		must_succeed("pmx_isend", send_to(ctx, 1, 1, &word, 8, 0, NULL));
	must_succeed("pmx_isend", send_to(ctx, 1, 7, &word, 8, 0, NULL));
	reap(pid);
}

/* Writes into what it shares: records with random messages, then random bytes. */
static void
attack(void)
{
	struct pmx_context *ctx = open_context(1);
	int64_t until = now_us() + 20000000;
	uint64_t word = 0;

	while (ctx->pairs->of[0].pair == NULL ||
		!ctx->pairs->of[0].pair->flow[PAIR_MATCHED].sends) {
		must_succeed("pmx_isend", send_to(ctx, 0, 1, &word, 8, 0, NULL));
		usleep(100);
		if (now_us() > until)
			die("no shared memory within 20 s");
	}
	struct pair *p = ctx->pairs->of[0].pair;

	for (unsigned i = 0; i < 2000; i++) {
		uint32_t len = (uint32_t)(draw() % 100);
		uint8_t *to = pair_begin(&p->flow[PAIR_MATCHED].out, len);

		if (to == NULL)
			continue;
		for (uint32_t b = 0; b < len; b++)
			to[b] = (uint8_t)draw();
		if (draw() % 4 && len > 16) { /* a head that is right */
			memset(to, 0, 16);
			to[0] = (uint8_t)(1 + draw() % 2);
			to[7] = COMM;
		}
		pair_send(ctx, p, PAIR_MATCHED, len);
	}
	uint8_t *bytes = (uint8_t *)p->shm;

	for (unsigned i = 0; i < 3000000; i++) {
		uint64_t at = draw() % (sizeof(*p->shm) / 8);
		uint64_t value = draw();

		/* words that are nearly right do more harm than others */
		value = draw() % 2 ? value : PAIR_WORD(64 * (draw() % 5), draw() % 70);
		memcpy(bytes + 8 * at, &value, 8);
	}
	_exit(0);
}

static void
hostile(void)
{
	pid_t pid = child();

	if (pid == 0)
		attack();
	struct pmx_context *victim = open_context(0), *friend = open_context(2);
	uint64_t got[16], next = 0, word = 0;
	int status = 0;
	bool over = false;

	for (int64_t until = now_us() + 30000000; !over || next < 1000;) {
		pmx_request r = receive_from(victim, PMX_ANY_SOURCE, got, sizeof(got));
		struct pmx_status s = {0};
		int result = 0;

		for (unsigned tries = 0; result == 0; tries++) {
			/* without waiting for room: its receiver is this thread */
			if (tries % 64 == 0) {
				int sent = try_send(friend, 0, word, &word, 8, 0, NULL);

				if (sent == 0)
					word++;
				else if (sent != -EAGAIN && sent != -ENOBUFS)
					die_of("pmx_isend", sent);
			}
			result = pmx_test(victim, &r, &s);
		}
		if (s.source.context == 2) {
			if (s.tag != next || got[0] != next)
				die("message %lu of another came in place of %lu", s.tag, next);
			next++;
		}
		over = over || waitpid(pid, &status, WNOHANG) == pid;
		if (now_us() > until)
			die("the other process did not end, or its victim does not go on");
	}
	struct pmx_match_stat stat;

	pmx_match_read_stat(victim, &stat);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		die("the attacker failed");
	if (stat.malformed == 0)
		die("nothing was refused");
	printf("# %lu messages of another meanwhile\n", next);
}

static void
refused(unsigned user)
{
	pid_t pid = child();

	if (pid == 0) {
		if (setgid(user) != 0 || setuid(user) != 0)
			die("setuid: %s", strerror(errno));
		drain();
	}
	struct pmx_context *ctx = open_context(0);
	uint64_t word = 0;

	wait_for(1, pid);
	for (unsigned i = 0; i < 2000; i++)
		must_succeed("pmx_isend", send_to(ctx, 1, 1, &word, 8, 0, NULL));
	if (ctx->pairs->all != NULL)
		die("memory is shared with another user");
	must_succeed("pmx_isend", send_to(ctx, 1, 7, &word, 8, 0, NULL));
	reap(pid);
}

int
main(int argc, char **argv)
{
	const char *what = argc > 2 ? argv[1] : "";

	setenv("PMX_ATTACH", "thin", 0);
	instance = argc > 2 ? argv[2] : "";
	seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
	if (strcmp(what, "mix") == 0 && argc == 5)
		mix(atoi(argv[4]) != 0);
	else if (strcmp(what, "interrupted") == 0) {
		interrupt_every(20);
		mix(true);
		interrupt_every(0);
	} else if (strcmp(what, "switch") == 0)
		for (unsigned i = 0; i < SWITCHES; i++)
			switch_once();
	else if (strcmp(what, "large") == 0)
		large();
	else if (strcmp(what, "stream") == 0)
		in_two(stream_in, stream_out);
	else if (strcmp(what, "sleep") == 0)
		sleep_both();
	else if (strcmp(what, "killed") == 0)
		killed();
	else if (strcmp(what, "hostile") == 0 && argc == 4)
		hostile();
	else if (strcmp(what, "refused") == 0 && argc == 4)
		refused((unsigned)atoi(argv[3]));
	else if (strncmp(what, "plain-", 6) != 0 || !plain(what + 6, argc - 3, argv + 3))
		die("see pairs.c");
	printf("done\n");
	return failed;
}
