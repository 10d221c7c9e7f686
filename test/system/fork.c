/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A process that exchanges messages between two contexts of its own forks again and again. Children
 * close, exit with a handler that closes, try each call, become daemons that attach anew, or call
 * exec. The parent loses nothing, and what exec runs has no descriptor of the library. fork.sh runs
 * it, attached in each way.
 *
 * Usage: fork INSTANCE MESSAGES
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "pmx/pmx.h"
#include "pmx/preempt.h"

#define CHILDREN 20

static struct pmx_node *node;
static struct pmx_context *from, *to;
static const char *instance;

static void
close_all(void)
{
	pmx_context_close(from);
	pmx_context_close(to);
	pmx_node_close(node);
}

/* Descriptors beyond the standard ones. */
static int
descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	const struct dirent *e;
	char path[300], what[256];
	int n = 0;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.' || atoi(e->d_name) <= 2 || atoi(e->d_name) == dirfd(d))
			continue;
		snprintf(path, sizeof(path), "/proc/self/fd/%s", e->d_name);
		ssize_t len = readlink(path, what, sizeof(what) - 1);

		printf("# inherited: %s %.*s\n", e->d_name, (int)(len > 0 ? len : 0), what);
		n++;
	}
	fflush(stdout);
	return n;
}

#define GONE(call)                                                                                 \
	do {                                                                                       \
		int r_ = (call);                                                                   \
		if (r_ != -EPIPE) {                                                                \
			printf("# in the child %s gives %d\n", #call, r_);                         \
			fflush(stdout);                                                            \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

static int
uses_each_call(void)
{
	char bytes[64] = "";
	struct pmx_matched m = {.peer = pmx_context_addr(to), .data = bytes, .len = 4};
	struct pmx_transfer t = {.peer = pmx_context_addr(to), .len = 0};
	struct pmx_context *more;
	struct pmx_message msg;
	struct pmx_event event;
	pmx_request request;
	void *memory;

	GONE(pmx_context_open(&more, node, PMX_ANY_CONTEXT, NULL));
	GONE(pmx_send_copy(from, pmx_context_addr(to), "x", 1, NULL));
	GONE(pmx_send_copy(from, pmx_context_addr(to), bytes, sizeof(bytes), NULL));
	GONE(pmx_receive(to, &msg));
	GONE(pmx_receive_wait(to, &msg, 1000000));
	GONE(pmx_isend(from, &m, &request));
	GONE(pmx_push(from, &t, NULL));
	GONE(pmx_alloc(from, 4096, &memory));
	GONE(pmx_poll_event(to, &event));
	GONE(pmx_context_stop(from));
	GONE(pmx_context_park(from));
	GONE(pmx_context_start(from));
	GONE(pmx_reattach(node, 0));
	if (pmx_get_fd(to) != -1)
		return 1;
	close_all();
	return 0;
}

/* Becomes a daemon, and has a context of its own. The daemon's result comes by a pipe. */
static int
becomes_a_daemon(void)
{
	struct pmx_context *mine;
	struct pmx_node *again;
	struct pmx_message msg;
	int result[2], e = -EIO;

	if (pipe(result) != 0)
		return 1;
	pid_t daemons = fork();

	if (daemons != 0) {
		close(result[1]);
		if (read(result[0], &e, sizeof(e)) != sizeof(e) || waitpid(daemons, NULL, 0) < 0)
			return 1;
		if (e != 0)
			printf("# the daemon: %s\n", pmx_strerror(e));
		fflush(stdout);
		return e != 0;
	}
	pmx_node_close(node);
	setenv("PMX_ATTACH", "thin", 1);
	if (daemon(1, 1) != 0)
		_exit(1);
	e = *instance == 0 ? 0 : pmx_node_attach(&again, instance, NULL);
	if (e == 0 && *instance != 0) {
		e = pmx_context_open(&mine, again, PMX_ANY_CONTEXT, NULL);
		if (e == 0)
			e = pmx_send_copy(mine, pmx_context_addr(mine), "me", 2, NULL);
		if (e == 0)
			e = pmx_receive_wait(mine, &msg, 20000000) == 1 ? 0 : -ETIMEDOUT;
		pmx_node_close(again);
	}
	_exit(write(result[1], &e, sizeof(e)) != sizeof(e));
}

static int
be_a_child(unsigned k, const char *self)
{
	switch (k % 5) {
	case 0:
		close_all();
		return 0;
	case 1:
		atexit(close_all);
		exit(0);
	case 2:
		return uses_each_call();
	case 3:
		return becomes_a_daemon();
	default:
		execl(self, self, "descriptors", NULL);
		return 1;
	}
}

/* Sends number n, and receives what has come. */
static int
exchange(uint64_t n, uint64_t *received)
{
	struct pmx_message msg;
	int e;

	while ((e = pmx_send_copy(from, pmx_context_addr(to), &n, sizeof(n), NULL)) == -ENOBUFS ||
		e == -EAGAIN || *received + 1000 < n) {
		int got = pmx_receive(to, &msg);

		if (got < 0)
			return got;
		if (got == 1) {
			uint64_t number;

			memcpy(&number, pmx_message_data(&msg), sizeof(number));
			pmx_release_receive_buffer(to, &msg);
			if (number != *received) {
				printf("# number %llu came in the place of number %llu\n",
					(unsigned long long)number, (unsigned long long)*received);
				return -EBADMSG;
			}
			++*received;
		}
		if (e == 0)
			break;
	}
	return e;
}

/* The state of the parent, which its children do not change. */
struct progress {
	uint64_t messages, sent, received;
	unsigned bad; /* children that failed */
};

/* Fork child k; while it lives, exchange more messages, or leave it one that it could write
 * over. */
static int
run_child(struct progress *p, unsigned k, const char *self)
{
	int e = 0, status = 0, start[2];
	char go;

	if (pipe2(start, O_CLOEXEC) != 0)
		return -errno;
	pid_t child = fork();

	if (child == 0) {
		close(start[1]);
		_exit(read(start[0], &go, 1) < 0 ? 1 : be_a_child(k, self));
	}
	/* what no engine of this process has taken is what the child could write over */
	const bool sends = k % 2 == 0 && p->sent + 1 < p->messages &&
		pmx_send_copy(from, pmx_context_addr(to), &(uint64_t){p->sent + 1}, sizeof(p->sent),
			NULL) == 0;

	p->sent += sends;
	close(start[0]);
	close(start[1]);
	/* otherwise the parent goes on meanwhile */
	for (pid_t ended = 0; e == 0 && ended == 0;) {
		ended = waitpid(child, &status, sends ? 0 : WNOHANG);
		if (ended < 0)
			e = -errno;
		if (ended == 0 && p->sent + 1 < p->messages)
			e = exchange(++p->sent, &p->received);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		printf("# child %u of kind %u: status %x\n", k, k % 5, status);
		p->bad++;
	}
	return e;
}

static int
receive_rest(struct progress *p)
{
	int e = 0;

	for (int64_t end = now_us() + 30000000;
		e == 0 && p->received < p->messages && now_us() < end;) {
		struct pmx_message msg;
		int got = pmx_receive(to, &msg);

		e = got < 0 ? got : 0;
		if (got == 1) {
			pmx_release_receive_buffer(to, &msg);
			p->received++;
		}
	}
	return e;
}

int
main(int argc, char **argv)
{
	struct progress p = {0};
	int e;

	if (argc == 2 && strcmp(argv[1], "descriptors") == 0)
		return descriptors() != 0;
	for (int fd = 3; fd < 1024; fd++)
		fcntl(fd, F_SETFD, FD_CLOEXEC); /* what this program was given is not meant */
	if (argc != 3)
		return 2;
	instance = argv[1];
	p.messages = strtoull(argv[2], NULL, 0);
	const uint64_t between = p.messages / CHILDREN;

	e = pmx_node_attach(&node, instance, NULL);
	if (e == 0)
		e = pmx_context_open(&from, node, PMX_ANY_CONTEXT, NULL);
	if (e == 0)
		e = pmx_context_open(&to, node, PMX_ANY_CONTEXT, NULL);
	for (; e == 0 && p.sent < p.messages; p.sent++) {
		e = exchange(p.sent, &p.received);
		if (e == 0 && p.sent % between == between / 2)
			e = run_child(&p, (unsigned)(p.sent / between), argv[0]);
	}
	if (e == 0)
		e = receive_rest(&p);
	printf("# %llu of %llu messages, %u children failed: %s\n", (unsigned long long)p.received,
		(unsigned long long)p.messages, p.bad, pmx_strerror(e));
	return e != 0 || p.bad != 0 || p.received != p.messages;
}
