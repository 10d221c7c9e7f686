/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a client promises while its primaries end and follow each other. A case starts primaries,
 * stops, kills and replaces them at the moment that it is about, and looks at what every call says
 * before, between and after; lives.sh runs all of them.
 *
 *   lives CASE BUILD_DIR DIR INSTANCE PORT exit code 0: it holds; otherwise it says what does not
 *   lives list prints "CASE plain" or "CASE huge" (needs hugepages), a line each
 *
 * The primaries' output is appended to DIR/INSTANCE.log. All that a case starts ends with it,
 * however it ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client/client.h"
#include "clock.h"

#define PATIENCE_US  10000000 /* for what must come; generous, for slow machines */
#define NOTICE_S     2.0      /* until a call tells that its primary is gone; 0.1 is promised */
#define CASE_S       45       /* a case that takes longer hangs */
#define MESSAGE_MAX  4000
#define PIECE        65536u
#define LONG         200000u /* a matched message that waits for its receive */
#define SEND_BUFFERS 64
#define UNEXPECTED   8

/* Of the configuration; what differs between cases. */
struct settings {
	unsigned mtu, rto_max_us, retries;
	const char *idle;         /* NULL: adaptive */
	unsigned lanes, requests; /* 0: 1; 512 */
};

static const struct settings usual = {1500, 80000, 8, NULL, 0, 0};

static const char *build, *dir, *instance;
static int port;
static bool huge;
static unsigned lanes = 1;
static char socket_path[200];
static pid_t primary;
static struct pmx_node *node;
static volatile sig_atomic_t at_line;

/* ----------------------------------------------------------------- what holds and what does not */

static __attribute__((format(printf, 2, 3), noreturn)) void
wrong(int line, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "lives.c:%d: ", line);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

#define MUST(holds, ...)                                                                           \
	do {                                                                                       \
		at_line = __LINE__;                                                                \
		if (!(holds))                                                                      \
			wrong(__LINE__, __VA_ARGS__);                                              \
	} while (0)

/* The call gives that number. */
#define GIVES(wanted, call)                                                                        \
	do {                                                                                       \
		at_line = __LINE__;                                                                \
		const int given_ = (call), wanted_ = (wanted);                                     \
		if (given_ != wanted_)                                                             \
			wrong(__LINE__, "%s gives %d (%s), not %d", #call, given_,                 \
				given_ < 0 ? strerror(-given_) : "", wanted_);                     \
	} while (0)

#define EPIPES(call) GIVES(-EPIPE, call)

/* Only what may be called in a signal handler. */
static void
on_alarm(int number)
{
	char text[] = "lives.c:00000: this does not return\n";
	int line = at_line;

	(void)number;
	for (char *p = text + 12; p >= text + 8; p--, line /= 10)
		*p = (char)('0' + line % 10);
	if (write(2, text, sizeof(text) - 1) < 0)
		_exit(4);
	_exit(3);
}

/* ------------------------------------------------------------------ primaries */

static void
configure(const struct settings *s)
{
	char path[300];

	snprintf(path, sizeof(path), "%s/%s.ini", dir, instance);
	FILE *f = fopen(path, "w");

	MUST(f != NULL, "%s: %s", path, strerror(errno));
	lanes = s->lanes ? s->lanes : 1;
	fprintf(f,
		"[node]\nid = 0\nname = %s\n[engine]\nidle = %s\nlanes = %u\n[link 0]\n"
		"driver = udp\nlisten = 127.0.0.1:%d\nmtu = %u\n"
		"[proto]\nrto_max_us = %u\nretries = %u\n"
		"[limits]\ncontexts = 24\nmbufs = 8192\nsend_buffers = %u\nreceive_buffers = 64\n"
		"unexpected = %u\n"
		"requests = %u\n"
		"[nodes]\n0 = 127.0.0.1:%d\n1 = 127.0.0.1:%d\n",
		instance, s->idle ? s->idle : "adaptive", lanes, port, s->mtu, s->rto_max_us,
		s->retries, SEND_BUFFERS, UNEXPECTED, s->requests ? s->requests : 512, port,
		port + 1);
	fprintf(f, "[access]\nsocket = %s\n", socket_path);
	MUST(fclose(f) == 0, "%s: %s", path, strerror(errno));
}

/* A primary begins; *ready: a descriptor that can be read when applications can attach, or it
 * ended. */
static pid_t
spawn(bool take_over, int *ready)
{
	char program[300], ini[300], log[300], fd[16];
	const char *argv[20] = {"pmx-dpdk", "--no-pci", "--lcores", lanes > 1 ? "0@0,1@0" : "0@0",
		"-m"};
	int ends[2], n = 5;

	snprintf(program, sizeof(program), "%s/app/pmx-dpdk", build);
	snprintf(ini, sizeof(ini), "%s/%s.ini", dir, instance);
	snprintf(log, sizeof(log), "%s/%s.log", dir, instance);
	MUST(pipe2(ends, O_CLOEXEC) == 0, "pipe: %s", strerror(errno));
	snprintf(fd, sizeof(fd), "%d", ends[1]);
	argv[n++] = huge ? "64" : "128";
	if (!huge)
		argv[n++] = "--no-huge";
	argv[n++] = "--";
	argv[n++] = "--ready-fd";
	argv[n++] = fd;
	if (take_over)
		argv[n++] = "--take-over";
	argv[n++] = ini;
	pid_t pid = fork();

	MUST(pid >= 0, "fork: %s", strerror(errno));
	if (pid == 0) {
		int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fcntl(ends[1], F_SETFD, 0);
		dup2(out, 1);
		dup2(out, 2);
		execv(program, (char **)argv);
		_exit(127);
	}
	close(ends[1]);
	*ready = ends[0];
	return pid;
}

/* 0 when it is ready, -1 when it ended, or is not within 30 s. */
static int
until_ready(int ready)
{
	struct pollfd p = {.fd = ready, .events = POLLIN};
	char byte;
	int result = poll(&p, 1, 30000) == 1 && read(ready, &byte, 1) == 1 ? 0 : -1;

	close(ready);
	return result;
}

static void
begin(void)
{
	int ready;

	primary = spawn(false, &ready);
	MUST(until_ready(ready) == 0, "a primary does not start");
}

/* What a process ended with; within PATIENCE_US. */
static int
ended(pid_t pid)
{
	double until = now_s() + PATIENCE_US / 1e6;
	int status = 0;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		MUST(now_s() < until, "process %d does not end", pid);
		sleep_ms(2);
	}
	return status;
}

static void
end(int signal_number)
{
	pid_t pid = primary;

	primary = 0;
	kill(pid, signal_number);
	ended(pid);
}

/* Another primary takes over. false: it is refused, and ended. */
static bool
takes_over(void)
{
	int ready;
	pid_t pid = spawn(true, &ready), old = primary;

	if (until_ready(ready) != 0) {
		int status = ended(pid);

		MUST(WIFEXITED(status) && WEXITSTATUS(status) != 0,
			"a take-over that is refused ends with status %x", status);
		MUST(waitpid(old, &status, WNOHANG) == 0,
			"a take-over fails, and the old primary ends with status %x", status);
		return false;
	}
	primary = pid;
	ended(old);
	return true;
}

static void
clean_up(void)
{
	if (primary <= 0)
		return;
	kill(primary, SIGKILL);
	waitpid(primary, NULL, 0);
}

/* ------------------------------------------------------------------ other processes */

/* A process of the case, and a descriptor of lines to and from it. */
struct child {
	pid_t pid;
	int fd;
};

static void
say(int fd, const char *line)
{
	MUST(write(fd, line, strlen(line)) == (ssize_t)strlen(line) && write(fd, "\n", 1) == 1,
		"nobody hears '%s'", line);
}

static void
hear(int fd, const char *line)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char got[64] = "";
	size_t n = 0;

	while (n < sizeof(got) - 1 && poll(&p, 1, 3 * PATIENCE_US / 1000) == 1 &&
		read(fd, got + n, 1) == 1 && got[n] != '\n')
		n++;
	got[n] = 0;
	MUST(strcmp(got, line) == 0, "another process should have said '%s', and says '%s'", line,
		got);
}

/* It runs what(fd, number) and ends; before this process has threads, or anything that is not to be
 * shared. */
static struct child
child(void (*what)(int fd, unsigned number), unsigned number)
{
	pid_t self = getpid();
	int ends[2];

	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair: %s",
		strerror(errno));
	struct child c = {fork(), ends[0]};

	MUST(c.pid >= 0, "fork: %s", strerror(errno));
	if (c.pid > 0) {
		close(ends[1]);
		return c;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != self)
		_exit(2);
	primary = 0; /* is not this one's to end */
	close(ends[0]);
	alarm(CASE_S);
	what(ends[1], number);
	exit(0);
}

static void
ended_well(struct child *c)
{
	int status = ended(c->pid);

	MUST(status == 0, "process %d ends with status %x", c->pid, status);
	close(c->fd);
}

/* ------------------------------------------------------------------ contexts and messages */

static void
attach(const char *way)
{
	setenv("PMX_ATTACH", way, 1);
	GIVES(0, pmx_node_attach(&node, strcmp(way, "thin") == 0 ? socket_path : instance, -1));
}

static struct pmx_context *
opened(unsigned number)
{
	const struct pmx_context_params params = {.context = (uint16_t)number};
	struct pmx_context *ctx = NULL;

	GIVES(0, pmx_context_open(&ctx, node, &params));
	return ctx;
}

static struct pmx_addr
own(unsigned number)
{
	return (struct pmx_addr){0, (uint16_t)number};
}

/* Its primary ends now, or has: the calls tell. Nothing is received, and nothing sent. */
static void
until_gone(struct pmx_context *ctx)
{
	double until = now_s() + NOTICE_S;
	struct pmx_event event;

	at_line = __LINE__;
	while (pmx_event(ctx, &event) != -EPIPE) {
		MUST(now_s() < until, "no -EPIPE %.1f s after the primary's end", NOTICE_S);
		sleep_ms(1);
	}
}

static void
kill_it(struct pmx_context *ctx)
{
	end(SIGKILL);
	until_gone(ctx);
}

static void
reattach(void)
{
	double until = now_s() + PATIENCE_US / 1e6;
	int result;

	at_line = __LINE__;
	while ((result = pmx_reattach(node, 1000000)) == -ENOENT || result == -ETIMEDOUT)
		MUST(now_s() < until, "pmx_reattach still gives %d", result);
	MUST(result == 0, "pmx_reattach gives %d (%s)", result, strerror(-result));
}

/* Every other one is in bulk buffers. */
static uint32_t
length_of(uint32_t number)
{
	return number % 2 ? 3000 : 8;
}

static void
fill(uint8_t *bytes, uint32_t number)
{
	for (uint32_t i = 0; i < length_of(number); i++)
		bytes[i] = (uint8_t)(number * 31 + i);
}

static void
send_number(struct pmx_context *ctx, unsigned to, uint32_t number)
{
	double until = now_s() + PATIENCE_US / 1e6;
	uint8_t bytes[MESSAGE_MAX];
	int result;

	fill(bytes, number);
	while ((result = pmx_send_copy(ctx, own(to), bytes, length_of(number), NULL)) == -EAGAIN ||
		result == -ENOBUFS)
		MUST(now_s() < until, "message %u cannot be sent", number);
	MUST(result == 0, "pmx_send_copy of message %u gives %d (%s)", number, result,
		strerror(-result));
}

static void
is_number(struct pmx_context *ctx, const struct pmx_message *m, uint32_t number)
{
	uint8_t bytes[MESSAGE_MAX], wanted[MESSAGE_MAX];

	fill(wanted, number);
	MUST(m->len == length_of(number), "a message of %u bytes came for message %u", m->len,
		number);
	GIVES(0, pmx_message_read(ctx, m, 0, bytes, m->len));
	MUST(memcmp(bytes, wanted, m->len) == 0, "other bytes than message %u has", number);
}

/* The next message is that one. */
static void
take_number(struct pmx_context *ctx, uint32_t number)
{
	struct pmx_message m;
	int result = pmx_receive_wait(ctx, &m, PATIENCE_US);

	MUST(result == 1, "pmx_receive_wait gives %d, not message %u", result, number);
	is_number(ctx, &m, number);
	pmx_release_receive_buffer(ctx, &m);
}

/* Nothing comes, however often it is asked. */
static void
nothing_comes(struct pmx_context *ctx, int wanted)
{
	struct pmx_message m;

	for (int i = 0; i < 60; i++) {
		GIVES(wanted, pmx_receive(ctx, &m));
		sleep_ms(5);
	}
}

static void
pull(struct pmx_context *ctx, struct pmx_remote from, void *to)
{
	const struct pmx_transfer t = {
		.peer = from.owner,
		.key = from.key,
		.remote = from.addr,
		.local = to,
		.len = from.len,
	};
	pmx_transfer_id id;

	GIVES(0, pmx_pull(ctx, &t, &id));
	GIVES(0, pmx_sync_wait(ctx, PATIENCE_US));
	GIVES(1, pmx_transfer_done(ctx, id));
}

static void
all_are(const uint8_t *bytes, uint64_t len, uint8_t value)
{
	for (uint64_t i = 0; i < len; i++)
		MUST(bytes[i] == value, "byte %lu is %02x, not %02x", i, bytes[i], value);
}

/* Both of them, and between them, all kinds of calls; nothing is left over. Their numbers: a's,
 * b's. */
static void
all_works(struct pmx_context *a, unsigned na, struct pmx_context *b, unsigned nb)
{
	static uint32_t number = 1000;
	static uint8_t out[LONG], in[LONG];
	const uint32_t lengths[] = {8, 2000, LONG};
	struct pmx_remote remote;
	void *from, *to;

	for (int i = 0; i < 10; i++, number += 2) {
		send_number(a, nb, number);
		send_number(b, na, number + 1);
		take_number(b, number);
		take_number(a, number + 1);
	}
	for (unsigned i = 0; i < 3; i++) {
		struct pmx_matched s = {
			.peer = own(nb),
			.comm = 77,
			.tag = ++number,
			.data = out,
			.len = lengths[i],
		};
		struct pmx_matched r = {
			.peer = own(na),
			.comm = 77,
			.tag = number,
			.data = in,
			.len = sizeof(in),
		};
		pmx_request sent, received;
		struct pmx_status status;

		memset(out, (int)number, lengths[i]);
		memset(in, 0, sizeof(in));
		GIVES(0, pmx_irecv(b, &r, &received));
		GIVES(0, pmx_isend(a, &s, &sent));
		GIVES(1, pmx_wait(b, &received, &status, PATIENCE_US));
		GIVES(1, pmx_wait(a, &sent, NULL, PATIENCE_US));
		MUST(status.len == lengths[i] && status.tag == number,
			"a matched message of %lu bytes, tag %lu", status.len, status.tag);
		all_are(in, lengths[i], (uint8_t)number);
	}
	GIVES(0, pmx_alloc(a, PIECE, &from));
	GIVES(0, pmx_alloc(b, PIECE, &to));
	memset(from, (int)number, PIECE);
	GIVES(0, pmx_register(a, from, PIECE, PMX_REMOTE_READ | PMX_REMOTE_WRITE, &remote));
	pull(b, remote, to);
	all_are(to, PIECE, (uint8_t)number);
	GIVES(0, pmx_deregister(a, remote.key));
	pmx_free(a, from);
	pmx_free(b, to);
	for (int i = 0; i < 2; i++) {
		struct pmx_context *ctx = i ? a : b;

		GIVES(0, pmx_send_wait(ctx, PATIENCE_US));
		GIVES(0, (int)pmx_sends_pending(ctx));
		GIVES(0, (int)pmx_transfers_pending(ctx));
	}
}

/* ------------------------------------------------------------------ 1: messages */

/* What had arrived is received once: before, between and after; in whatever life the application
 * asks. */
static void
unread_messages_come_once(void)
{
	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	for (uint32_t i = 0; i < 5; i++) {
		send_number(other, 0, i);
		send_number(ctx, 1, i);
	}
	GIVES(0, pmx_send_wait(ctx, PATIENCE_US));
	GIVES(0, pmx_send_wait(other, PATIENCE_US));
	for (uint32_t i = 0; i < 3; i++) {
		take_number(ctx, i);
		take_number(other, i);
	}
	kill_it(ctx);
	GIVES(-ENOENT, pmx_reattach(node, 0));
	take_number(ctx, 3);
	take_number(ctx, 4);
	nothing_comes(ctx, -EPIPE);
	/* the other context reads one of its two in each life */
	take_number(other, 3);
	GIVES(-ENOENT, pmx_reattach(node, 0));
	nothing_comes(ctx, -EPIPE);
	begin();
	reattach();
	nothing_comes(ctx, 0);
	take_number(other, 4);
	nothing_comes(other, 0);
	all_works(ctx, 0, other, 1);
}

/* The same of matched messages, and with several ends one after the other. */
static void
unread_matched_messages_come_once(void)
{
	uint32_t value;
	const struct pmx_matched r = {
		.peer = PMX_ANY_SOURCE,
		.ignore = PMX_ANY_TAG,
		.data = &value,
		.len = sizeof(value),
	};
	struct pmx_status status;
	pmx_request request;

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	for (uint32_t i = 0; i < 5; i++) {
		const struct pmx_matched s = {
			.peer = own(0),
			.tag = i,
			.data = &i,
			.len = sizeof(i),
		};

		GIVES(0, pmx_isend(other, &s, NULL));
	}
	GIVES(0, pmx_send_wait(other, PATIENCE_US));
	for (uint32_t i = 0; i < 5; i++) {
		GIVES(0, pmx_irecv(ctx, &r, &request));
		GIVES(1, pmx_wait(ctx, &request, &status, PATIENCE_US));
		MUST(status.tag == i && value == i,
			"matched message %u has the tag %lu and the value %u", i, status.tag,
			value);
		if (i % 2)
			continue;
		kill_it(ctx);
		GIVES(-ENOENT, pmx_reattach(node, 0));
		begin();
		reattach();
	}
	GIVES(0, pmx_iprobe(ctx, &r, &status));
	all_works(ctx, 0, other, 1);
}

/* ----------------------------------------------------------- 2: a context whose primary is gone */

static void
waits_end(struct pmx_context *ctx)
{
	struct pmx_message m;
	pmx_request request = 77;
	char in[64];
	const struct pmx_matched r = {.peer = own(1), .comm = 5, .data = in, .len = sizeof(in)};
	double began = now_s();
	unsigned index;

	EPIPES(pmx_receive_wait(ctx, &m, PATIENCE_US));
	EPIPES(pmx_receive_wait(ctx, &m, -1));
	/* a receive may be posted, for the life to come */
	int result = pmx_irecv(ctx, &r, &request);

	MUST(result == 0 || (result == -EPIPE && request == 77), "pmx_irecv gives %d, request %lx",
		result, request);
	if (result == 0) {
		EPIPES(pmx_test(ctx, &request, NULL));
		EPIPES(pmx_wait(ctx, &request, NULL, PATIENCE_US));
		EPIPES(pmx_wait_any(ctx, &request, 1, &index, NULL, -1));
		EPIPES(pmx_wait_all(ctx, &request, 1, NULL, -1));
		GIVES(0, pmx_cancel(ctx, request));
		GIVES(-ECANCELED, pmx_test(ctx, &request, NULL));
	}
	MUST(now_s() - began < NOTICE_S, "waiting ends after %.1f s only", now_s() - began);
}

/* Each says so, and nothing is begun. piece: of pmx_alloc. */
static void
all_refuse(struct pmx_context *ctx, uint8_t *piece, const struct pmx_remote *remote)
{
	static uint8_t heap[LONG];
	const struct pmx_addr to[] = {own(1), own(1)};
	volatile int32_t word = 77;
	struct pmx_message m;
	struct pmx_event event;
	struct pmx_status status;
	struct pmx_context *new;
	struct pmx_remote unused;
	const struct pmx_context_params params = {.context = PMX_ANY_CONTEXT};
	void *memory;

	for (int turn = 0; turn < 40; turn++) {
		/* a buffer may be had; it is not sent */
		for (uint32_t len = 8; len <= 3008; len += 1500) {
			struct pmx_buffer buf;
			int result = pmx_get_send_buffer(ctx, len, &buf);

			MUST(result == 0 || result == -EPIPE, "pmx_get_send_buffer gives %d",
				result);
			if (result != 0)
				continue;
			EPIPES(pmx_send(ctx, to[0], &buf, NULL));
			EPIPES(pmx_send_burst(ctx, to, &buf, NULL, 1));
			pmx_discard_buffer(ctx, &buf);
		}
		EPIPES(pmx_send_copy(ctx, to[0], heap, 8, NULL));
		EPIPES(pmx_send_copy(ctx, to[0], heap, 1000, NULL));
		EPIPES(pmx_send_copy(ctx, to[0], heap, 5000, NULL));
		for (unsigned flags = 0; flags <= (PMX_SYNC | PMX_DELIVERED); flags++) {
			for (uint32_t len = 16; len <= LONG; len += LONG / 4) {
				const struct pmx_matched s = {
					.peer = to[0],
					.tag = 5,
					.flags = flags,
					.data = heap,
					.len = len,
				};
				pmx_request request = 77;

				EPIPES(pmx_isend(ctx, &s, &request));
				MUST(request == 77, "pmx_isend that fails makes the request %lx",
					request);
				EPIPES(pmx_isend(ctx, &s, NULL));
			}
		}
		for (uint32_t len = 16; len <= PIECE; len += PIECE - 16) {
			for (int from_heap = 0; from_heap < 2; from_heap++) {
				const struct pmx_transfer t = {
					.peer = to[0],
					.key = remote->key,
					.remote = remote->addr,
					.local = from_heap ? heap : piece,
					.len = len,
					.status = &word,
					.flags = turn % 2 ? PMX_EVENT : 0,
				};

				EPIPES(pmx_push(ctx, &t, NULL));
				EPIPES(pmx_pull(ctx, &t, NULL));
				EPIPES(pmx_remote_pin(ctx, &t, NULL));
			}
		}
		MUST(word == 77, "the status of a transfer that was not begun is %d", word);
		EPIPES(pmx_alloc(ctx, PIECE, &memory));
		EPIPES(pmx_register(ctx, piece, PIECE, PMX_REMOTE_READ, &unused));
		EPIPES(pmx_area_register(ctx, 3, piece, PIECE, PMX_REMOTE_READ, &unused));
		EPIPES(pmx_receive(ctx, &m));
		EPIPES(pmx_receive_burst(ctx, &m, 1));
		EPIPES(pmx_event(ctx, &event));
		EPIPES(pmx_iprobe(ctx,
			&(struct pmx_matched){.peer = PMX_ANY_SOURCE, .ignore = PMX_ANY_TAG},
			&status));
		EPIPES(pmx_context_open(&new, node, &params));
	}
	GIVES(0, (int)pmx_sends_pending(ctx));
	GIVES(0, (int)pmx_transfers_pending(ctx));
	waits_end(ctx);
}

static void
all_calls_tell_and_begin_nothing(void)
{
	struct pmx_match_stat stat;
	struct pmx_remote remote;
	struct pmx_buffer buf, all[SEND_BUFFERS];
	void *piece, *other_piece;

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	all_works(ctx, 0, other, 1);
	GIVES(0, pmx_alloc(ctx, PIECE, &piece));
	GIVES(0, pmx_alloc(ctx, PIECE, &other_piece));
	GIVES(0, pmx_register(ctx, piece, PIECE, PMX_REMOTE_READ, &remote));
	GIVES(0, pmx_get_send_buffer(ctx, 100, &buf));
	kill_it(ctx);
	EPIPES(pmx_send(ctx, own(1), &buf, NULL));
	pmx_discard_buffer(ctx, &buf);
	all_refuse(ctx, piece, &remote);
	int result = pmx_deregister(ctx, remote.key);

	MUST(result == -EPIPE || result == -ENOKEY, "pmx_deregister gives %d", result);
	GIVES(-ENOENT, pmx_reattach(node, 0));
	all_refuse(ctx, piece, &remote);
	pmx_free(ctx, other_piece);
	begin();
	reattach();
	GIVES(0, (int)pmx_sends_pending(ctx));
	GIVES(0, (int)pmx_transfers_pending(ctx));
	GIVES(0, pmx_send_wait(ctx, PATIENCE_US));
	GIVES(0, pmx_sync_wait(ctx, PATIENCE_US));
	pmx_match_stat(ctx, &stat);
	MUST(stat.posted == 0 && stat.waiting == 0, "%u receives are posted and %u messages wait",
		stat.posted, stat.waiting);
	/* all its buffers are there, and are different ones */
	for (unsigned i = 0; i < SEND_BUFFERS; i++) {
		GIVES(0, pmx_get_send_buffer(ctx, 8, &all[i]));
		for (unsigned k = 0; k < i; k++)
			MUST(all[k].data != all[i].data, "buffer %u is buffer %u", i, k);
	}
	for (unsigned i = 0; i < SEND_BUFFERS; i++)
		pmx_discard_buffer(ctx, &all[i]);
	memset(piece, 1, PIECE);
	GIVES(0, pmx_register(ctx, piece, PIECE, PMX_REMOTE_READ, &remote));
	all_works(ctx, 0, other, 1);
	struct pmx_message m;

	GIVES(0, pmx_receive(other, &m)); /* none of what was refused went out after all */
}

/* ------------------------------------------------------------------ 3: requests */

/* A long send that fails has a request of its own; the receive that is posted next keeps its
 * one. */
static void
failed_offer_takes_no_request(void)
{
	char nine[64] = "", ten[64] = "";
	static char bytes[LONG];
	struct pmx_matched offer = {
		.peer = own(1),
		.tag = 5,
		.data = bytes,
		.len = sizeof(bytes),
		.flags = PMX_SYNC,
	};
	const struct pmx_matched receive_nine = {
		.peer = own(0),
		.tag = 9,
		.data = nine,
		.len = sizeof(nine),
	};
	const struct pmx_matched receive_ten = {
		.peer = own(0),
		.tag = 10,
		.data = ten,
		.len = sizeof(ten),
	};
	const struct pmx_matched send_nine = {.peer = own(0), .tag = 9, .data = "nine", .len = 5};
	const struct pmx_matched send_ten = {.peer = own(0), .tag = 10, .data = "ten", .len = 4};
	pmx_request nines = 0, tens = 0, unused = 77, sent;
	struct pmx_match_stat stat;
	struct pmx_status status;
	void *piece;

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	all_works(ctx, 0, other, 1);
	GIVES(0, pmx_alloc(ctx, LONG, &piece));
	kill_it(ctx);
	offer.data = piece; /* then the heap's, which takes another way */
	EPIPES(pmx_isend(ctx, &offer, &unused));
	offer.data = bytes;
	EPIPES(pmx_isend(ctx, &offer, &unused));
	MUST(unused == 77, "pmx_isend that fails makes the request %lx", unused);
	int posted = pmx_irecv(ctx, &receive_nine, &nines);

	MUST(posted == 0 || posted == -EPIPE, "pmx_irecv gives %d", posted);
	begin();
	reattach();
	pmx_match_stat(ctx, &stat);
	GIVES(posted == 0, (int)stat.posted);
	if (posted != 0)
		GIVES(0, pmx_irecv(ctx, &receive_nine, &nines));
	GIVES(0, pmx_test(ctx, &nines, &status));
	GIVES(0, pmx_irecv(ctx, &receive_ten, &tens));
	GIVES(0, pmx_isend(ctx, &send_nine, &sent));
	GIVES(1, pmx_wait(ctx, &nines, &status, PATIENCE_US));
	MUST(status.tag == 9 && strcmp(nine, "nine") == 0,
		"the receive of tag 9 gets tag %lu, '%s'", status.tag, nine);
	GIVES(0, pmx_test(ctx, &tens, &status));
	MUST(ten[0] == 0, "the receive of tag 10 has '%s'", ten);
	GIVES(0, pmx_isend(ctx, &send_ten, &sent));
	GIVES(1, pmx_wait(ctx, &tens, &status, PATIENCE_US));
	MUST(status.tag == 10 && strcmp(ten, "ten") == 0,
		"the receive of tag 10 gets tag %lu, '%s'", status.tag, ten);
	all_works(ctx, 0, other, 1);
}

/* ------------------------------------------------------------------ 4: several contexts */

static void *
another_life(void *arg)
{
	pid_t old = primary;

	(void)arg;
	sleep_ms(300);
	primary = 0;
	kill(old, SIGKILL);
	waitpid(old, NULL, 0);
	begin();
	for (;;) /* what it started ends with it */
		pause();
	return NULL;
}

/* A primary that ends marks its channels one after the other, and an application may call in
 * between. */
static void
one_context_is_told_first(void)
{
	pthread_t thread;

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	send_number(ctx, 1, 7);
	GIVES(0, pmx_send_wait(ctx, PATIENCE_US));
	atomic_store(&ctx->shm->state, CHANNEL_DEAD);
	MUST(pthread_create(&thread, NULL, another_life, NULL) == 0, "no thread");
	reattach();
	take_number(other, 7);
	nothing_comes(other, 0);
	nothing_comes(ctx, 0);
	GIVES(0, pmx_reattach(node, 0)); /* nothing is left to do */
	all_works(ctx, 0, other, 1);
}

/* ------------------------------------------------------------------ 5, 6: questions */

static bool
piece_is_pulled(struct pmx_context *ctx, struct pmx_context *other)
{
	struct pmx_remote remote;
	void *piece, *to;
	int result = pmx_alloc(ctx, PIECE, &piece);

	if (result == -EPIPE)
		return false;
	MUST(result == 0, "pmx_alloc gives %d (%s)", result, strerror(-result));
	memset(piece, 0x42, PIECE);
	result = pmx_register(ctx, piece, PIECE, PMX_REMOTE_READ, &remote);
	if (result == -EPIPE)
		return false;
	MUST(result == 0, "pmx_register gives %d (%s)", result, strerror(-result));
	result = pmx_alloc(other, PIECE, &to);
	if (result == -EPIPE)
		return false;
	MUST(result == 0, "pmx_alloc of the other context gives %d (%s)", result,
		strerror(-result));
	memset(to, 0, PIECE);
	pull(other, remote, to);
	all_are(to, PIECE, 0x42);
	return true;
}

/* A question that nobody waits for any more is answered in the end: that answer is not the next
 * question's. */
static void
late_answers_are_nobodys(void)
{
	void *piece;

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	kill(primary, SIGSTOP);
	at_line = __LINE__;
	int result = pmx_alloc(ctx, 2 * PIECE, &piece);

	kill(primary, SIGCONT);
	MUST(result < 0, "memory of a primary that is stopped: pmx_alloc gives %d", result);
	sleep_ms(300);
	if (!piece_is_pulled(ctx, other)) {
		reattach();
		MUST(piece_is_pulled(ctx, other), "-EPIPE again, after pmx_reattach");
	}
	all_works(ctx, 0, other, 1);
}

static _Atomic bool stop;

static void *
alloc_and_free(void *arg)
{
	struct pmx_context *ctx = arg;
	unsigned number = pmx_context_addr(ctx).context;
	uint8_t *copy, *memory;
	uint64_t times = 0;

	/* so that the numbers of their pieces differ: another's answer is seen */
	for (unsigned i = 0; i <= 3 * number; i++)
		GIVES(0, pmx_alloc(ctx, PIECE, (void **)&copy));
	for (; !stop; times++) {
		struct pmx_remote remote;
		uint8_t value = (uint8_t)(times * 4 + number);
		int result = pmx_alloc(ctx, PIECE, (void **)&memory);

		MUST(result == 0, "the %lu. pmx_alloc of context %u gives %d (%s)", times, number,
			result, strerror(-result));
		MUST(memory[0] == 0 && memory[PIECE - 1] == 0, "memory of pmx_alloc is not zero");
		memset(memory, value, PIECE);
		if (times % 8 == 0) {
			GIVES(0, pmx_register(ctx, memory, PIECE, PMX_REMOTE_READ, &remote));
			pull(ctx, remote, copy);
			all_are(copy, PIECE, value);
			GIVES(0, pmx_deregister(ctx, remote.key));
		}
		pmx_free(ctx, memory);
	}
	MUST(times >= 10, "context %u was answered %lu times", number, times);
	return NULL;
}

/* Contexts are independent: their threads may ask the primary at the same time. */
static void
threads_ask_at_once(void)
{
	struct pmx_context *ctx[4];
	pthread_t threads[4];

	begin();
	attach("thin");
	for (unsigned i = 0; i < 4; i++)
		ctx[i] = opened(i);
	for (unsigned i = 0; i < 4; i++)
		MUST(pthread_create(&threads[i], NULL, alloc_and_free, ctx[i]) == 0, "no thread");
	sleep_ms(2000);
	stop = true;
	for (unsigned i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	all_works(ctx[0], 0, ctx[3], 3);
	all_works(ctx[1], 1, ctx[2], 2);
}

/* ------------------------------------------------------------------ 7: waiting */

static double killed_at;

static void *
kill_later(void *arg)
{
	(void)arg;
	sleep_ms(300);
	killed_at = now_s();
	kill(primary, SIGKILL);
	return NULL;
}

/* As many matched messages as may wait do, and more have landed: nobody takes these in, and a wait
 * ends all the same. */
static void
full_queues_do_not_hold_waits(void)
{
	static uint8_t seen[4 * UNEXPECTED];
	const unsigned sent = sizeof(seen);
	struct pmx_status status;
	pmx_request never, request;
	pthread_t thread;
	uint32_t value;
	unsigned index, next = 0;
	const struct pmx_matched r = {
		.peer = own(0),
		.tag = 999,
		.data = &value,
		.len = sizeof(value),
	};

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	GIVES(0, pmx_irecv(ctx, &r, &never));
	for (unsigned i = 0; i < sent; i++) {
		const struct pmx_matched s = {
			.peer = own(0),
			.tag = i,
			.data = &i,
			.len = sizeof(i),
		};

		GIVES(0, pmx_isend(ctx, &s, NULL));
	}
	GIVES(-ETIMEDOUT, pmx_wait(ctx, &never, &status, 200000));
	MUST(pthread_create(&thread, NULL, kill_later, NULL) == 0, "no thread");
	EPIPES(pmx_wait(ctx, &never, &status, -1));
	pthread_join(thread, NULL);
	MUST(now_s() - killed_at < NOTICE_S, "pmx_wait(-1) ended %.1f s after the primary",
		now_s() - killed_at);
	end(SIGKILL);
	double began = now_s();

	EPIPES(pmx_wait(ctx, &never, &status, 4000000));
	EPIPES(pmx_wait_any(ctx, &never, 1, &index, &status, 4000000));
	EPIPES(pmx_wait_all(ctx, &never, 1, &status, 4000000));
	EPIPES(pmx_test(ctx, &never, &status));
	MUST(now_s() - began < NOTICE_S, "pmx_wait(4 s) ends after %.1f s", now_s() - began);
	/* room is made by receiving, as pmx_reattach says; in the order sent, each once */
	begin();
	int result;

	while ((result = pmx_reattach(node, PATIENCE_US)) == -ENOBUFS) {
		const struct pmx_matched any = {
			.peer = own(0),
			.tag = next,
			.data = &value,
			.len = sizeof(value),
		};

		MUST(next < sent, "pmx_reattach still gives -ENOBUFS when all were received");
		GIVES(0, pmx_irecv(ctx, &any, &request));
		GIVES(1, pmx_wait(ctx, &request, &status, PATIENCE_US));
		MUST(value == next, "message %u came for message %u", value, next);
		next++;
	}
	GIVES(0, result);
	const struct pmx_matched any = {
		.peer = own(0),
		.ignore = PMX_ANY_TAG,
		.data = &value,
		.len = sizeof(value),
	};

	while (pmx_iprobe(ctx, &any, &status) == 1) {
		const struct pmx_matched one = {
			.peer = own(0),
			.tag = next,
			.data = &value,
			.len = sizeof(value),
		};

		MUST(status.tag == next, "after message %u comes message %lu", next, status.tag);
		GIVES(0, pmx_irecv(ctx, &one, &request));
		GIVES(1, pmx_wait(ctx, &request, &status, PATIENCE_US));
		next++;
	}
	MUST(next >= UNEXPECTED && next <= sent, "%u messages came of %u", next, sent);
	GIVES(0, pmx_test(ctx, &never, &status));
	GIVES(0, pmx_cancel(ctx, never));
	GIVES(-ECANCELED, pmx_test(ctx, &never, &status));
	all_works(ctx, 0, other, 1);
}

/* ------------------------------------------------------------------ 8: transfers */

/* The word of a transfer that its primary took along is set, wherever it lies: who only looks at it
 * must not wait for ever. */
static void
status_words_are_set(void)
{
	static volatile int32_t heap_word = 77;
	volatile int32_t *words[2] = {NULL, &heap_word};
	pmx_transfer_id ids[2];
	void *piece, *memory;

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	GIVES(0, pmx_alloc(ctx, PIECE, &piece));
	GIVES(0, pmx_alloc(ctx, PIECE, &memory));
	words[0] = memory;
	*words[0] = 77;
	kill(primary, SIGSTOP); /* so that it is under way for certain */
	for (int i = 0; i < 2; i++) {
		const struct pmx_transfer t = {
			.peer = own(1),
			.key = 1,
			.local = piece,
			.len = PIECE,
			.status = words[i],
		};

		GIVES(0, pmx_pull(ctx, &t, &ids[i]));
		GIVES(1, *words[i]);
	}
	kill_it(ctx);
	begin();
	reattach();
	for (int i = 0; i < 2; i++) {
		GIVES(-ECONNRESET, pmx_transfer_done(ctx, ids[i]));
		GIVES(-ECONNRESET, *words[i]);
	}
	GIVES(0, pmx_sync_wait(ctx, PATIENCE_US));
	all_works(ctx, 0, other, 1);
}

/* ------------------------------------------------------------------ 9: other frames */

static void
matched_arrives(struct pmx_context *ctx, uint32_t len)
{
	static uint8_t out[MESSAGE_MAX], in[MESSAGE_MAX];
	static uint64_t tag;
	const struct pmx_matched s = {.peer = own(0), .tag = ++tag, .data = out, .len = len};
	const struct pmx_matched r = {.peer = own(0), .tag = tag, .data = in, .len = sizeof(in)};
	pmx_request sent = 77, received;
	struct pmx_status status;

	memset(out, (int)tag, len);
	memset(in, 0, sizeof(in));
	GIVES(0, pmx_isend(ctx, &s, &sent));
	GIVES(0, pmx_irecv(ctx, &r, &received));
	GIVES(1, pmx_wait(ctx, &received, &status, PATIENCE_US));
	GIVES(1, pmx_wait(ctx, &sent, NULL, PATIENCE_US));
	MUST(status.len == len, "%lu bytes came of %u", status.len, len);
	all_are(in, len, (uint8_t)tag);
}

static void
pushed(struct pmx_context *ctx, uint32_t len)
{
	static uint8_t out[MESSAGE_MAX];
	struct pmx_remote remote;
	pmx_transfer_id id;
	void *piece;

	GIVES(0, pmx_alloc(ctx, PIECE, &piece));
	GIVES(0, pmx_register(ctx, piece, PIECE, PMX_REMOTE_WRITE, &remote));
	memset(out, 0x17, len);
	const struct pmx_transfer t = {
		.peer = own(0),
		.key = remote.key,
		.remote = remote.addr,
		.local = out,
		.len = len,
	};

	GIVES(0, pmx_push(ctx, &t, &id));
	GIVES(0, pmx_sync_wait(ctx, PATIENCE_US));
	GIVES(1, pmx_transfer_done(ctx, id));
	all_are(piece, len, 0x17);
	all_are((uint8_t *)piece + len, PIECE - len, 0);
	GIVES(0, pmx_deregister(ctx, remote.key));
	pmx_free(ctx, piece);
}

/* The next primary's frames may be smaller, or larger: what fitted one buffer may take several. */
static void
frames_may_be_of_another_size(void)
{
	static const unsigned mtus[] = {4000, 600, 9000, 1500};
	struct settings s = usual;
	struct pmx_context *ctx = NULL, *other = NULL;

	for (unsigned i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		s.mtu = mtus[i];
		configure(&s);
		begin();
		if (i == 0) {
			attach("thin");
			ctx = opened(0);
			other = opened(1);
		} else {
			reattach();
		}
		MUST(pmx_get_mtu(ctx) < mtus[i], "frames of %u bytes carry %u", mtus[i],
			pmx_get_mtu(ctx));
		for (uint32_t len = 100; len <= 3500; len += 475) { /* 2000 among them */
			matched_arrives(ctx, len);
			pushed(ctx, len);
		}
		all_works(ctx, 0, other, 1);
		/* two that wait, of which the next life's contexts know the length */
		send_number(ctx, 1, 2);
		send_number(ctx, 1, 3);
		GIVES(0, pmx_send_wait(ctx, PATIENCE_US));
		kill_it(ctx);
		GIVES(-ENOENT, pmx_reattach(node, 0));
		take_number(other, 2);
		take_number(other, 3);
	}
}

/* ------------------------------------------------------------------ 10: secondaries */

static void
echo(struct pmx_context *ctx, unsigned number)
{
	static uint32_t next = 100;

	for (int i = 0; i < 20; i++, next++) {
		send_number(ctx, number, next);
		take_number(ctx, next);
	}
}

#define AWAKE 100 /* it calls all the time, or sleeps */

/* fd's other side: "there", "end" (the primary does), "ended"; then "left", "begun", "again". */
static void
secondary_of_one_that_stops(int fd, unsigned number)
{
	bool awake = number >= AWAKE;
	struct pmx_message held;
	struct pmx_event event;
	struct pmx_buffer buf;
	uint32_t word = 0;
	void *piece;

	number %= AWAKE;
	attach("secondary");
	struct pmx_context *ctx = opened(number);
	const struct pmx_matched s = {
		.peer = own(number),
		.tag = 5,
		.data = &word,
		.len = sizeof(word),
	};

	echo(ctx, number);
	for (uint32_t i = 0; i < 5; i++)
		send_number(ctx, number, i);
	GIVES(0, pmx_send_wait(ctx, PATIENCE_US));
	GIVES(1, pmx_receive_wait(ctx, &held, PATIENCE_US));
	is_number(ctx, &held, 0);
	pmx_release_receive_buffer(ctx, &held);
	GIVES(1, pmx_receive_wait(ctx, &held, PATIENCE_US));
	is_number(ctx, &held, 1);
	say(fd, "there");
	at_line = __LINE__;
	if (awake) {
		/* while it ends: any call, at any moment of that */
		double until = now_s() + PATIENCE_US / 1e6;

		while (pmx_event(ctx, &event) != -EPIPE)
			MUST(now_s() < until, "no -EPIPE");
	}
	hear(fd, "ended");
	until_gone(ctx);
	for (double until = now_s() + 1; now_s() < until; sleep_ms(awake ? 10 : 200)) {
		EPIPES(pmx_send_copy(ctx, own(number), "no", 2, NULL));
		EPIPES(pmx_isend(ctx, &s, NULL));
		EPIPES(pmx_alloc(ctx, PIECE, &piece));
		EPIPES(pmx_event(ctx, &event));
		if (pmx_get_send_buffer(ctx, 1000, &buf) == 0) {
			memset(buf.data, 1, 1000); /* it is there, if for nothing */
			EPIPES(pmx_send(ctx, own(number), &buf, NULL));
			pmx_discard_buffer(ctx, &buf);
		}
		/* what it holds can be read: as it was, or as zeros */
		for (uint32_t i = 0; i < held.seg_len; i++)
			word += ((const uint8_t *)pmx_message_data(&held))[i];
	}
	GIVES(-ENOENT, pmx_reattach(node, 0));
	say(fd, "left");
	hear(fd, "begun");
	reattach();
	pmx_release_receive_buffer(ctx, &held);
	for (uint32_t i = 2; i < 5; i++)
		take_number(ctx, i);
	nothing_comes(ctx, 0);
	echo(ctx, number);
	struct pmx_context *more = opened(number + 1);

	all_works(ctx, number, more, number + 1);
	say(fd, "again");
	pmx_node_close(node);
}

static void
stops_under_a_secondary(bool awake)
{
	begin();
	struct child c = child(secondary_of_one_that_stops, 2 + (awake ? AWAKE : 0));

	hear(c.fd, "there");
	end(SIGTERM);
	if (!awake)
		sleep_ms(300);
	say(c.fd, "ended");
	hear(c.fd, "left");
	begin();
	say(c.fd, "begun");
	hear(c.fd, "again");
	ended_well(&c);
	end(SIGTERM);
}

static void
stops_under_a_secondary_that_sleeps(void)
{
	stops_under_a_secondary(false);
}

static void
stops_under_a_secondary_that_polls(void)
{
	stops_under_a_secondary(true);
}

/* -------------------------------------------------------------- 11: a take-over that is refused */

/* Each "echo" is answered by "echoed"; "end" ends it. "go": its primary is given away, it comes
 * back. */
static void
secondary_that_echoes(int fd, unsigned number)
{
	char line[16];

	attach("secondary");
	struct pmx_context *ctx = opened(number);

	echo(ctx, number);
	say(fd, "there");
	for (;;) {
		size_t n = 0;

		while (n < sizeof(line) - 1 && read(fd, line + n, 1) == 1 && line[n] != '\n')
			n++;
		line[n] = 0;
		if (strcmp(line, "echo") == 0) {
			echo(ctx, number);
			say(fd, "echoed");
		} else if (strcmp(line, "go") == 0) {
			until_gone(ctx);
			reattach();
			echo(ctx, number);
			say(fd, "again");
		} else {
			break;
		}
	}
	pmx_node_close(node);
}

/* pmx-ctl finds the primary, within so many ms. */
static void
is_found(unsigned ms)
{
	double until = now_s() + ms / 1e3;
	char command[600], out[300] = "";
	int status;

	snprintf(command, sizeof(command), "timeout 5 '%s/app/pmx-ctl' --instance '%s' stat 2>&1",
		build, instance);
	do {
		FILE *f = popen(command, "re");
		size_t n = f != NULL ? fread(out, 1, sizeof(out) - 1, f) : 0;

		out[n] = 0;
		while (f != NULL && fgetc(f) != EOF)
			;
		status = f != NULL ? pclose(f) : -1;
	} while (status != 0 && now_s() < until);
	MUST(status == 0, "the primary is not found by its name: %s", out);
}

/* An offer that nobody takes keeps a take-over from its end; it is taken when that was refused. s:
 * a secondary. */
static void
is_refused(struct child *s, struct pmx_context *ctx, struct pmx_context *other)
{
	static uint8_t out[LONG], in[LONG];
	static uint8_t value;
	const struct pmx_matched offer = {
		.peer = own(1),
		.tag = 5,
		.data = out,
		.len = LONG,
		.flags = PMX_SYNC,
	};
	const struct pmx_matched take = {.peer = own(0), .tag = 5, .data = in, .len = LONG};
	pmx_request sent, received;

	memset(out, ++value, LONG);
	GIVES(0, pmx_isend(ctx, &offer, &sent));
	GIVES(0, pmx_test(ctx, &sent, NULL));
	MUST(!takes_over(), "a take-over while an offer waits is not refused");
	say(s->fd, "echo");
	hear(s->fd, "echoed");
	is_found(0);
	struct child fresh = child(secondary_that_echoes, 8);

	hear(fresh.fd, "there");
	say(fresh.fd, "end");
	ended_well(&fresh);
	GIVES(0, pmx_test(ctx, &sent, NULL));
	GIVES(0, pmx_irecv(other, &take, &received));
	GIVES(1, pmx_wait(other, &received, NULL, PATIENCE_US));
	GIVES(1, pmx_wait(ctx, &sent, NULL, PATIENCE_US));
	all_are(in, LONG, value);
	all_works(ctx, 0, other, 1);
	say(s->fd, "echo");
	hear(s->fd, "echoed");
}

static void
refused_take_over_changes_nothing(void)
{
	begin();
	struct child s = child(secondary_that_echoes, 5);

	hear(s.fd, "there");
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	is_refused(&s, ctx, other);
	say(s.fd, "end");
	ended_well(&s);
	pmx_node_close(node);
	end(SIGTERM);
}

/* The second primary's EAL has another name: that, too, must be as it was. */
static void
refused_after_a_take_over_changes_nothing(void)
{
	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	MUST(takes_over(), "a take-over is refused");
	is_found(PATIENCE_US / 1000); /* a moment after the old one's end */
	all_works(ctx, 0, other, 1);
	struct child s = child(secondary_that_echoes, 5);

	hear(s.fd, "there");
	is_refused(&s, ctx, other);
	MUST(takes_over(), "a take-over after one that was refused is refused");
	say(s.fd, "go");
	hear(s.fd, "again");
	all_works(ctx, 0, other, 1);
	is_found(PATIENCE_US / 1000);
	say(s.fd, "end");
	ended_well(&s);
	pmx_node_close(node);
	end(SIGTERM);
}

/* ------------------------------------------------------------ 12: messages to whom there is not */

/* A message whose receiver is not open waits for it, in the primary: a take-over neither loses it
 * nor leaves its sender waiting. */
static void
waiting_messages_are_not_lost(void)
{
	/* it waits longer than a primary takes to start */
	const struct settings patient = {1500, 500000, 16, NULL, 0, 0};
	uint32_t value = 0;
	pmx_send_id id;
	pmx_request sent;
	struct pmx_message m;
	const struct pmx_matched s = {
		.peer = own(8),
		.tag = 5,
		.data = &value,
		.len = sizeof(value),
		.flags = PMX_DELIVERED,
	};
	double until = now_s() + 30;

	configure(&patient);
	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	GIVES(0, pmx_send_copy(ctx, own(7), "seven", 6, &id));
	GIVES(0, pmx_isend(ctx, &s, &sent));
	sleep_ms(50);
	GIVES(0, pmx_is_send_done(ctx, id));
	while (!takes_over()) /* it may be refused as long as they wait */
		MUST(now_s() < until, "a message that waits keeps a take-over from its end");
	struct pmx_context *seven = opened(7), *eight = opened(8);
	char in[16];
	const struct pmx_matched r = {.peer = own(0), .tag = 5, .data = in, .len = sizeof(in)};
	pmx_request received;

	GIVES(0, pmx_irecv(eight, &r, &received));
	GIVES(0, pmx_send_wait(ctx, PATIENCE_US));
	int result = pmx_is_send_done(ctx, id);
	int came = pmx_receive_wait(seven, &m, 300000);

	MUST(result != 0, "pmx_send_wait gives 0, and the message is under way");
	MUST(result == 1 ? came == 1 : came <= 1, "a message ends with %d, and pmx_receive with %d",
		result, came);
	if (came == 1) {
		MUST(m.len == 6 && strcmp(pmx_message_data(&m), "seven") == 0,
			"another message came");
		pmx_release_receive_buffer(seven, &m);
	}
	nothing_comes(seven, 0);
	result = pmx_wait(ctx, &sent, NULL, PATIENCE_US);
	MUST(result != -ETIMEDOUT && result != -EPIPE, "pmx_wait of a matched message gives %d",
		result);
	came = pmx_wait(eight, &received, NULL, 300000);
	MUST(result != 1 || came == 1, "a matched message was delivered, and its receive gives %d",
		came);
	if (came != 1) {
		GIVES(0, pmx_cancel(eight, received));
		GIVES(-ECANCELED, pmx_test(eight, &received, NULL));
	}
	all_works(ctx, 0, other, 1);
	all_works(seven, 7, eight, 8);
}

/* -------------------------------------------------------- 13: a take-over, and clients that die */

#define CLIENTS 14 /* contexts 1 .. */

static _Atomic double *answered_at; /* by the primary, to one that asks all the time */

static void
sleeper(int fd, unsigned number)
{
	struct pmx_message m;

	attach("thin");
	struct pmx_context *ctx = opened(number);

	say(fd, "there");
	pmx_receive_wait(ctx, &m, -1);
}

/* Its transfers, to a node that is not there, are what a take-over waits for. */
static void
puller(int fd, unsigned number)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	void *piece;

	attach("thin");
	struct pmx_context *ctx = opened(number);

	GIVES(0, pmx_alloc(ctx, PIECE, &piece));
	say(fd, "there");
	while (poll(&p, 1, 0) == 0) {
		const struct pmx_transfer t = {
			.peer = {1, 0},
			.key = 5,
			.local = piece,
			.len = PIECE,
		};
		pmx_transfer_id id;

		GIVES(0, pmx_pull(ctx, &t, &id));
		GIVES(0, pmx_sync_wait(ctx, PATIENCE_US));
		int result = pmx_transfer_done(ctx, id);

		MUST(result == -ETIMEDOUT || result == -EHOSTUNREACH,
			"a pull from a node that is not there gives %d", result);
	}
	say(fd, "pulled");
	pmx_node_close(node);
}

static void
asker(int fd, unsigned number)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	(void)number;
	setenv("PMX_ATTACH", "thin", 1);
	while (poll(&p, 1, 0) == 0) {
		if (pmx_node_attach(&node, socket_path, -1) == 0) {
			atomic_store(answered_at, now_s());
			pmx_node_close(node);
		}
		sleep_ms(2);
	}
}

static void
kill_client(struct child *c)
{
	if (c->pid == 0)
		return;
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	close(c->fd);
	c->pid = 0;
}

/* Half of them at the moment when the old primary waits for what is under way, and answers nobody;
 * the others by and by. */
static void
clients_die_in_a_take_over(void)
{
	const struct settings short_waits = {1500, 20000, 8, NULL, 0, 0};
	struct child clients[CLIENTS], pulls, asks;
	double began, frozen = 0;
	int ready, next = CLIENTS / 2;

	configure(&short_waits);
	begin();
	answered_at = mmap(NULL, sizeof(*answered_at), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	MUST(answered_at != MAP_FAILED, "no memory");
	for (unsigned i = 0; i < CLIENTS; i++)
		clients[i] = child(sleeper, 1 + i);
	for (unsigned i = 0; i < CLIENTS; i++)
		hear(clients[i].fd, "there");
	pulls = child(puller, 0);
	hear(pulls.fd, "there");
	atomic_store(answered_at, now_s());
	asks = child(asker, 0);
	sleep_ms(100);
	pid_t old = primary, heir = spawn(true, &ready);
	struct pollfd p = {.fd = ready, .events = POLLIN};

	began = now_s();
	while (poll(&p, 1, 2) == 0) {
		double now = now_s();

		MUST(now - began < 20, "the take-over does not end");
		if (frozen == 0 && now - atomic_load(answered_at) > 0.03) {
			frozen = now;
			for (int i = 0; i < CLIENTS / 2; i++)
				kill_client(&clients[i]);
		}
		if (next < CLIENTS && now - began > 0.15 + 0.06 * (next - CLIENTS / 2))
			kill_client(&clients[next++]);
	}
	double took = now_s() - began;

	MUST(until_ready(ready) == 0, "the take-over fails");
	primary = heir;
	ended(old);
	for (int i = 0; i < CLIENTS; i++)
		kill_client(&clients[i]);
	printf("frozen %.0f ms after it began, ready after %.0f ms\n",
		frozen > 0 ? (frozen - began) * 1e3 : -1.0, took * 1e3);
	MUST(took < 3, "the take-over takes %.1f s", took);
	say(asks.fd, "end");
	ended_well(&asks);
	say(pulls.fd, "end");
	hear(pulls.fd, "pulled");
	ended_well(&pulls);
	attach("thin");
	struct pmx_context *ctx[CLIENTS];

	for (unsigned i = 0; i < CLIENTS; i++) {
		const struct pmx_context_params params = {.context = (uint16_t)(1 + i)};
		double until = now_s() + PATIENCE_US / 1e6;
		int result;

		at_line = __LINE__;
		while ((result = pmx_context_open(&ctx[i], node, &params)) == -EBUSY &&
			now_s() < until)
			sleep_ms(5);
		MUST(result == 0, "context %u of a client that died: pmx_context_open gives %d",
			1 + i, result);
	}
	for (unsigned i = 0; i + 1 < CLIENTS; i += 2)
		all_works(ctx[i], 1 + i, ctx[i + 1], 2 + i);
}

/* --------------------------------------------------- 14: what is taken over, from whom, by whom */

static bool
log_says(const char *text)
{
	static char all[1 << 16];
	char path[300];

	snprintf(path, sizeof(path), "%s/%s.log", dir, instance);
	FILE *f = fopen(path, "r");

	MUST(f != NULL, "%s: %s", path, strerror(errno));
	all[fread(all, 1, sizeof(all) - 1, f)] = 0;
	fclose(f);
	return strstr(all, text) != NULL;
}

/* Who sleeps, and when, may differ; whether anybody has to be woken may not: clients know it from
 * their channels. */
static void
primaries_that_sleep_follow_each_other(void)
{
	const struct settings sleeps = {1500, 80000, 8, "sleep", 0, 0},
			      spins = {1500, 80000, 8, "spin", 0, 0};

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	configure(&spins);
	MUST(!takes_over(), "a primary that never sleeps takes over from one that does");
	all_works(ctx, 0, other, 1);
	configure(&sleeps);
	MUST(takes_over(),
		"a primary that always sleeps does not take over from one that sometimes does");
	all_works(ctx, 0, other, 1);
	pmx_node_close(node);
	end(SIGTERM);
}

/* It is said at once. */
static void
several_lanes_are_not_taken_over(void)
{
	const struct settings two = {1500, 80000, 8, NULL, 2, 0};

	configure(&two);
	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	MUST(!takes_over(), "two lanes are taken over");
	MUST(log_says("the old primary refuses, and goes on: Operation not supported"),
		"who wants to take over is not told why");
	all_works(ctx, 0, other, 1);
	pmx_node_close(node);
	end(SIGTERM);
}

/* What a primary asks that wants to take over: it asks this process, and is ended. */
static size_t
question_of_an_heir(uint8_t *bytes, size_t size)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), ready;
	size_t end_of_path = strlen(socket_path);

	strcat(socket_path, "2");
	configure(&usual);
	snprintf(at.sun_path, sizeof(at.sun_path), "%s", socket_path);
	socket_path[end_of_path] = 0;
	MUST(bind(listener, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(listener, 1) == 0,
		"%s: %s", at.sun_path, strerror(errno));
	pid_t heir = spawn(true, &ready);
	int asks = accept(listener, NULL, NULL);
	ssize_t n = recv(asks, bytes, size, 0);

	kill(heir, SIGKILL);
	ended(heir);
	close(ready);
	close(asks);
	close(listener);
	configure(&usual);
	MUST(n > 0, "who wants to take over asks nothing");
	return (size_t)n;
}

/* It asks, and is gone when it could be given all: the old one goes on. */
static void
heirs_that_do_not_wait_get_nothing(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	uint8_t question[512];

	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);
	size_t n = question_of_an_heir(question, sizeof(question));

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", socket_path);
	for (int i = 0; i < 5; i++) {
		int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		MUST(connect(s, (struct sockaddr *)&at, sizeof(at)) == 0, "%s: %s", at.sun_path,
			strerror(errno));
		MUST(send(s, question, n, MSG_NOSIGNAL) == (ssize_t)n,
			"a question cannot be sent: %s", strerror(errno));
		close(s);
		all_works(ctx, 0, other, 1);
	}
	MUST(log_says("did not take over: Broken pipe"), "nobody was about to take over");
	MUST(takes_over(), "a take-over after some that were given up is refused");
	all_works(ctx, 0, other, 1);
	pmx_node_close(node);
	end(SIGTERM);
}

#define REGIONS 3
#define PULLS   24

/* Each region is in the memory that it was in, and as many questions find room as before, and no
 * more. */
static void
regions_and_room_stay_what_they_are(void)
{
	const struct settings little_room = {1500, 80000, 8, NULL, 0, 4};
	struct pmx_remote remote[REGIONS];
	pmx_transfer_id id[PULLS];
	void *from, *to[PULLS];

	configure(&little_room);
	begin();
	attach("thin");
	struct pmx_context *ctx = opened(0), *other = opened(1);

	for (unsigned i = 0; i < REGIONS; i++) {
		GIVES(0, pmx_alloc(ctx, PIECE, &from));
		memset(from, (int)i + 1, PIECE);
		GIVES(0, pmx_register(ctx, from, PIECE, PMX_REMOTE_READ, &remote[i]));
	}
	for (unsigned i = 0; i < PULLS; i++)
		GIVES(0, pmx_alloc(other, PIECE, &to[i]));
	for (unsigned times = 0; times < 3; times++) {
		MUST(takes_over(), "a take-over is refused");
		for (unsigned i = 0; i < PULLS; i++) {
			const struct pmx_remote *r = &remote[i % REGIONS];
			const struct pmx_transfer t = {
				.peer = r->owner,
				.key = r->key,
				.remote = r->addr,
				.local = to[i],
				.len = PIECE,
			};

			memset(to[i], 0, PIECE);
			GIVES(0, pmx_pull(other, &t, &id[i]));
		}
		GIVES(0, pmx_sync_wait(other, PATIENCE_US));
		for (unsigned i = 0; i < PULLS; i++) {
			GIVES(1, pmx_transfer_done(other, id[i]));
			all_are(to[i], PIECE, (uint8_t)(i % REGIONS + 1));
		}
	}
	pmx_node_close(node);
	end(SIGTERM);
}

/* ------------------------------------------------------------------ */

static const struct {
	const char *name;
	void (*run)(void);
	bool huge;
} cases[] = {
/* clang-format off */
#define CASE(name, huge) {#name, name, huge}
	/* clang-format on */
	CASE(unread_messages_come_once, false),
	CASE(unread_matched_messages_come_once, false),
	CASE(all_calls_tell_and_begin_nothing, false),
	CASE(failed_offer_takes_no_request, false),
	CASE(one_context_is_told_first, false),
	CASE(late_answers_are_nobodys, false),
	CASE(threads_ask_at_once, false),
	CASE(full_queues_do_not_hold_waits, false),
	CASE(status_words_are_set, false),
	CASE(frames_may_be_of_another_size, false),
	CASE(stops_under_a_secondary_that_sleeps, true),
	CASE(stops_under_a_secondary_that_polls, true),
	CASE(refused_take_over_changes_nothing, true),
	CASE(refused_after_a_take_over_changes_nothing, true),
	CASE(waiting_messages_are_not_lost, false),
	CASE(clients_die_in_a_take_over, false),
	CASE(primaries_that_sleep_follow_each_other, false),
	CASE(several_lanes_are_not_taken_over, false),
	CASE(heirs_that_do_not_wait_get_nothing, false),
	CASE(regions_and_room_stay_what_they_are, false),
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

int
main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "list") == 0) {
		for (size_t i = 0; i < CASES; i++)
			printf("%s %s\n", cases[i].name, cases[i].huge ? "huge" : "plain");
		return 0;
	}
	for (size_t i = 0; argc == 6 && i < CASES; i++) {
		if (strcmp(argv[1], cases[i].name) != 0)
			continue;
		build = argv[2];
		dir = argv[3];
		instance = argv[4];
		port = atoi(argv[5]);
		huge = cases[i].huge;
		snprintf(socket_path, sizeof(socket_path), "%s/%s.sock", dir, instance);
		signal(SIGALRM, on_alarm);
		signal(SIGPIPE, SIG_IGN);
		alarm(CASE_S);
		atexit(clean_up);
		configure(&usual);
		cases[i].run();
		return 0;
	}
	fputs("Usage: see the head of lives.c\n", stderr);
	return 2;
}
