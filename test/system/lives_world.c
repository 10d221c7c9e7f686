/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Primaries, other processes, contexts and messages, as the cases of lives.c want them.
 */
#include "lives.h"

const struct settings usual = {1500, 80000, 8, NULL, 0, 0};
const char *build, *dir, *instance;
int port;
bool huge;
unsigned lanes = 1;
char socket_path[200];
pid_t primary;
struct pmx_node *node;
volatile sig_atomic_t at_line;

/* ----------------------------------------------------------------- what holds and what does not */

void
wrong(const char *file, int line, const char *fmt, ...)
{
	va_list args;

	fprintf(stderr, "%s:%d: ", file, line);
	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

/* Only what may be called in a signal handler. */
void
on_alarm(int number)
{
	char text[] = "lives:00000: this does not return\n";
	int line = at_line;

	(void)number;
	for (char *p = text + 10; p >= text + 6; p--, line /= 10)
		*p = (char)('0' + line % 10);
	if (write(2, text, sizeof(text) - 1) < 0)
		_exit(4);
	_exit(3);
}

/* ------------------------------------------------------------------ primaries */

void
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
pid_t
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
int
until_ready(int ready)
{
	struct pollfd p = {.fd = ready, .events = POLLIN};
	char byte;
	int result = poll(&p, 1, 30000) == 1 && read(ready, &byte, 1) == 1 ? 0 : -1;

	close(ready);
	return result;
}

void
begin(void)
{
	int ready;

	primary = spawn(false, &ready);
	MUST(until_ready(ready) == 0, "a primary does not start");
}

/* Return the status with which a process ended. It has to end within PATIENCE_US. */
int
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

void
end(int signal_number)
{
	pid_t pid = primary;

	primary = 0;
	kill(pid, signal_number);
	ended(pid);
}

/* Another primary takes over. false: it is refused, and ended. */
bool
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

void
clean_up(void)
{
	if (primary <= 0)
		return;
	kill(primary, SIGKILL);
	waitpid(primary, NULL, 0);
}

/* ------------------------------------------------------------------ other processes */

void
say(int fd, const char *line)
{
	MUST(write(fd, line, strlen(line)) == (ssize_t)strlen(line) && write(fd, "\n", 1) == 1,
		"nobody hears '%s'", line);
}

void
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
struct child
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

void
ended_well(struct child *c)
{
	int status = ended(c->pid);

	MUST(status == 0, "process %d ends with status %x", c->pid, status);
	close(c->fd);
}

/* ------------------------------------------------------------------ contexts and messages */

void
attach(const char *way)
{
	setenv("PMX_ATTACH", way, 1);
	GIVES(0, pmx_node_attach(&node, strcmp(way, "thin") == 0 ? socket_path : instance, NULL));
}

struct pmx_context *
opened(unsigned number)
{
	struct pmx_context *ctx = NULL;

	GIVES(0, pmx_context_open(&ctx, node, number, NULL));
	return ctx;
}

struct pmx_addr
own(unsigned number)
{
	return (struct pmx_addr){0, (uint16_t)number};
}

/* Its primary ends now, or has: the calls tell. Nothing is received, and nothing sent. */
void
until_gone(struct pmx_context *ctx)
{
	double until = now_s() + NOTICE_S;
	struct pmx_event event;

	at_line = __LINE__;
	while (pmx_poll_event(ctx, &event) != -EPIPE) {
		MUST(now_s() < until, "no -EPIPE %.1f s after the primary's end", NOTICE_S);
		sleep_ms(1);
	}
}

void
kill_it(struct pmx_context *ctx)
{
	end(SIGKILL);
	until_gone(ctx);
}

void
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
uint32_t
length_of(uint32_t number)
{
	return number % 2 ? 3000 : 8;
}

void
fill(uint8_t *bytes, uint32_t number)
{
	for (uint32_t i = 0; i < length_of(number); i++)
		bytes[i] = (uint8_t)(number * 31 + i);
}

void
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

void
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
void
take_number(struct pmx_context *ctx, uint32_t number)
{
	struct pmx_message m;
	int result = pmx_receive_wait(ctx, &m, PATIENCE_US);

	MUST(result == 1, "pmx_receive_wait gives %d, not message %u", result, number);
	is_number(ctx, &m, number);
	pmx_release_receive_buffer(ctx, &m);
}

/* Nothing comes, however often it is asked. */
void
nothing_comes(struct pmx_context *ctx, int wanted)
{
	struct pmx_message m;

	for (int i = 0; i < 60; i++) {
		GIVES(wanted, pmx_receive(ctx, &m));
		sleep_ms(5);
	}
}

void
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

void
all_are(const uint8_t *bytes, uint64_t len, uint8_t value)
{
	for (uint64_t i = 0; i < len; i++)
		MUST(bytes[i] == value, "byte %lu is %02x, not %02x", i, bytes[i], value);
}

/* Both of them, and between them, all kinds of calls; nothing is left over. Their numbers: a's,
 * b's. */
void
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

void
echo(struct pmx_context *ctx, unsigned number)
{
	static uint32_t next = 100;

	for (int i = 0; i < 20; i++, next++) {
		send_number(ctx, number, next);
		take_number(ctx, next);
	}
}
