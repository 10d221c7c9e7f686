/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Thin clients that do what they can against the primary and others, and those others. hostile.sh
 * runs them side by side. The descriptors that are slow to close are in hostile_close.c.
 *
 * Others, by the library:
 *   hostile bystander INSTANCE CONTEXT messages between CONTEXT and the one after it, sleeping for
 *   each; a line at SIGUSR1
 *   hostile open INSTANCE CONTEXT SECONDS attaches, opens, sends itself a message, closes: within
 *   so many seconds
 *   hostile hold      INSTANCE CONTEXT   opens it, and never looks at it
 *   hostile sleeper   INSTANCE CONTEXT   is every wake-up there, and none that nobody caused?
 *   hostile flood     INSTANCE CONTEXT TO  sends to context TO until no more can be sent
 *
 * Hostile ones, by the socket. They say what they did, and stay until they are killed:
 *   hostile wake INSTANCE CONTEXT makes its descriptors block who writes to them, and asks to be
 *   woken
 *   hostile keep   INSTANCE CONTEXT HOW  uses the descriptors of a context that it has closed
 *   hostile close  INSTANCE HOW          passes descriptors that are slow to close
 *   hostile large  INSTANCE CONTEXT MIB  gives more memory than it may
 *   hostile hungry INSTANCE              shares memory until that is refused
 *   hostile many   INSTANCE COUNT        connects so often
 *   hostile before INSTANCE              asks what a secondary asks
 *   hostile hole   INSTANCE CONTEXT HOW  makes holes in what it gave, or seals it
 *   hostile take_all INSTANCE            opens contexts until that is refused
 *   hostile reuse  INSTANCE              has the primary stop a process that has an ended one's
 *   number; as root, it makes both
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "channel/passing.h"
#include "client/client.h"

#include "hostile.h"

#define ANSWER_MS 30000 /* hostile ones wait so long for an answer */
#define MIB       (1ul << 20)

/* ------------------------------------------------------------------ others */

static struct pmx_node *node;
static volatile sig_atomic_t asked;

static void
on_usr1(int number)
{
	(void)number;
	asked = 1;
}

static struct pmx_context *
open_it(uint16_t number)
{
	struct pmx_context *ctx;
	int result = pmx_context_open(&ctx, node, number, NULL);

	if (result != 0)
		die_of("pmx_context_open", result);
	return ctx;
}

static void
attach(const char *instance)
{
	setenv("PMX_ATTACH", "thin", 1);
	int result = pmx_node_attach(&node, instance, NULL);

	if (result != 0)
		die_of("pmx_node_attach", result);
}

static void
say(const char *line)
{
	puts(line);
	fflush(stdout);
}

void
stay(const char *line)
{
	puts(line);
	fflush(stdout);
	for (;;)
		pause();
}

static void
send_number(struct pmx_context *from, const struct pmx_context *to, uint64_t n)
{
	int result;

	while ((result = pmx_send_copy(from, pmx_context_addr(to), &n, sizeof(n), NULL)) ==
			-EAGAIN ||
		result == -ENOBUFS)
		sched_yield();
	if (result != 0)
		die_of("pmx_send_copy", result);
}

static void
take_number(struct pmx_context *ctx, uint64_t n, double seconds)
{
	struct pmx_message m;
	uint64_t got;
	int result = pmx_receive_wait(ctx, &m, (int64_t)(seconds * 1e6));

	if (result != 1)
		die_of("pmx_receive_wait", result == 0 ? -ETIMEDOUT : result);
	if (m.len != sizeof(n) || (memcpy(&got, pmx_message_data(&m), sizeof(got)), got != n)) {
		fail("another message than %lu came", n);
		exit(1);
	}
	pmx_release_receive_buffer(ctx, &m);
}

static __attribute__((noreturn)) void
bystander(const char *instance, uint16_t number)
{
	attach(instance);
	struct pmx_context *a = open_it(number), *b = open_it((uint16_t)(number + 1));
	double longest = 0;

	signal(SIGUSR1, on_usr1);
	say("open");
	for (uint64_t n = 0;; n++) {
		bool answer = asked; /* by a whole round that begins now */
		double begin = now_s();

		send_number(a, b, n);
		take_number(b, n, LIFE_S);
		send_number(b, a, ~n);
		take_number(a, ~n, LIFE_S);
		double took = now_s() - begin;

		longest = took > longest ? took : longest;
		if (answer) {
			asked = 0;
			printf("round %lu, the longest took %.1f ms\n", n, longest * 1000);
			fflush(stdout);
			longest = 0;
		}
		usleep(2000);
	}
}

/* Open a context as a thin client, with as many tries as time allows, and let it send itself a
 * number. Its own number may be still in use, and a primary that is busy may turn one away. */
static int
open_within(const char *instance, uint16_t number, double seconds)
{
	double begin = now_s();
	struct pmx_context *ctx;
	const char *what = "pmx_node_attach";
	int result = -1;

	setenv("PMX_ATTACH", "thin", 1);
	while (now_s() - begin < seconds) {
		if (node == NULL && (result = pmx_node_attach(&node, instance, NULL)) != 0) {
			node = NULL;
			what = "pmx_node_attach";
		} else if ((result = pmx_context_open(&ctx, node, number, NULL)) != 0) {
			what = "pmx_context_open";
		} else {
			break;
		}
		usleep(5000);
	}
	if (result != 0)
		die_of(what, result);
	send_number(ctx, ctx, 1);
	take_number(ctx, 1, seconds);
	pmx_context_close(ctx);
	pmx_node_close(node);
	printf("opened after %.1f ms\n", (now_s() - begin) * 1000);
	return now_s() - begin > seconds;
}

static __attribute__((noreturn)) void
hold(const char *instance, uint16_t number)
{
	attach(instance);
	open_it(number);
	stay("open");
}

/* It looks only some time after the message: who takes wake-ups that are others' has had time for
 * it. */
static int
sleeper(const char *instance, uint16_t number)
{
	attach(instance);
	struct pmx_context *a = open_it(number), *b = open_it(PMX_ANY_CONTEXT);
	struct pollfd p = {.fd = pmx_get_fd(a), .events = POLLIN};
	unsigned missing = 0, nobodys = 0;

	for (uint64_t n = 0; n < 20; n++) {
		if (pmx_before_select(a) != 0)
			fail("a message in round %lu that nobody has sent", n);
		send_number(b, a, n);
		usleep(20000);
		missing += poll(&p, 1, ANSWER_MS) != 1;
		pmx_after_select(a);
		take_number(a, n, LIFE_S);
	}
	for (unsigned i = 0; i < 10; i++) {
		if (pmx_before_select(a) != 0)
			fail("a message that nobody has sent");
		nobodys += poll(&p, 1, 50) != 0;
		pmx_after_select(a);
	}
	printf("%u of 20 wake-ups missing, %u of 10 that nobody caused\n", missing, nobodys);
	pmx_node_close(node);
	return failed || missing != 0 || nobodys != 0;
}

static __attribute__((noreturn)) void
flood(const char *instance, uint16_t number, uint16_t to)
{
	attach(instance);
	struct pmx_context *ctx = open_it(number);
	const struct pmx_addr peer = {pmx_context_addr(ctx).node, to};
	double last = now_s();
	uint64_t n = 0;

	while (now_s() - last < 0.5) {
		int result = pmx_send_copy(ctx, peer, &n, sizeof(n), NULL);

		if (result == 0) {
			n++;
			last = now_s();
		} else if (result != -EAGAIN && result != -ENOBUFS) {
			die_of("pmx_send_copy", result);
		} else {
			pmx_sends_pending(ctx);
			sched_yield();
		}
	}
	printf("# %lu messages\n", n);
	stay("full");
}

/* ------------------------------------------------------------------ by the socket */

static int
dial(const char *path, int flags)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | flags, 0);

	snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

int
dial_or_die(const char *path)
{
	int fd = dial(path, 0);

	if (fd < 0)
		die_of(path, -errno);
	return fd;
}

int
ask(int sock, struct attach_request *request, int give, struct attach_reply *reply, int *got)
{
	struct pollfd p = {.fd = sock, .events = POLLIN};
	char room[CMSG_SPACE(2 * sizeof(int))];
	struct iovec iov = {reply, sizeof(*reply)};
	struct msghdr m = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = room,
		.msg_controllen = sizeof(room),
	};

	request->abi = CHANNEL_ABI;
	request->pid = getpid();
	if (passing_send(sock, request, sizeof(*request), &give, give >= 0, 0) !=
		(ssize_t)sizeof(*request))
		return -EPIPE;
	if (poll(&p, 1, ANSWER_MS) != 1)
		return -ETIMEDOUT;
	if (recvmsg(sock, &m, 0) != (ssize_t)sizeof(*reply))
		return -EPIPE;
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int fds[2] = {-1, -1};

	if (c != NULL && c->cmsg_type == SCM_RIGHTS && c->cmsg_len <= CMSG_LEN(sizeof(fds)))
		memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	if (got != NULL) {
		memcpy(got, fds, sizeof(fds));
	} else {
		for (unsigned i = 0; i < 2; i++) {
			if (fds[i] >= 0)
				close(fds[i]);
		}
	}
	return reply->result;
}

/* Memory as the engine takes it: sealed, and with all its pages. */
static int
memory_file(uint64_t len)
{
	int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, (off_t)len) != 0 || fallocate(fd, 0, 0, (off_t)len) != 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
		printf("skip no memory of %lu MiB: %s\n", len / MIB, strerror(errno));
		exit(0);
	}
	return fd;
}

/* A context, opened without the library. */
struct raw {
	int sock, memory, fds[2];
	uint16_t number;
	uint32_t generation;
	uint64_t len;
	struct channel_shm *shm;
	struct slot_end sub;
};

static uint32_t raw_job; /* of contexts that are opened from now on */

static int
raw_open(struct raw *r, int sock, uint16_t number)
{
	struct attach_request request = {.op = ATTACH_BYTES, .ctx = number};
	struct attach_reply reply;
	int result = ask(sock, &request, -1, &reply, NULL);

	if (result != 0)
		return result;
	*r = (struct raw){.sock = sock, .len = (reply.bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1)};
	r->memory = memory_file(r->len);
	request = (struct attach_request){
		.op = ATTACH_OPEN,
		.ctx = reply.ctx,
		.addr = raw_job,
		.len = r->len,
	};
	result = ask(sock, &request, r->memory, &reply, r->fds);
	if (result != 0) {
		close(r->memory);
		return result;
	}
	r->number = reply.ctx;
	r->generation = reply.generation;
	r->shm = mmap(NULL, r->len, PROT_READ | PROT_WRITE, MAP_SHARED, r->memory, 0);
	if (r->shm == MAP_FAILED)
		die_of("mmap", -errno);
	slot_end_init(&r->sub, channel_submissions(r->shm), r->shm->submissions,
		&r->shm->submissions_pos);
	return 0;
}

static void
raw_open_or_die(struct raw *r, const char *instance, uint16_t number)
{
	int result = raw_open(r, dial_or_die(instance), number);

	if (result != 0)
		die_of("opening", result);
}

static int
share(const struct raw *r, int fd, uint64_t len)
{
	struct attach_request request = {
		.op = ATTACH_MEMORY,
		.ctx = r->number,
		.generation = r->generation,
		.addr = MIB,
		.len = len,
	};
	struct attach_reply reply;

	return ask(r->sock, &request, fd, &reply, NULL);
}

/* ------------------------------------------------------------------ bells */

void
set_blocking(int fd, bool blocking)
{
	int flags = fcntl(fd, F_GETFL);

	fcntl(fd, F_SETFL, blocking ? flags & ~O_NONBLOCK : flags | O_NONBLOCK);
}

/* Fill the engine's descriptors and make them block, so that the engine would block when it rings
 * them: flags are the file's, and not the descriptor's. */
static __attribute__((noreturn)) void
wake(const char *instance, uint16_t number)
{
	const uint64_t most = UINT64_MAX - 1;
	struct raw r;

	raw_open_or_die(&r, instance, number);
	for (unsigned i = 0; i < 2; i++) {
		set_blocking(r.fds[i], false);
		if (write(r.fds[i], &most, sizeof(most)) < 0)
			printf("# descriptor %u cannot be written: %s\n", i, strerror(errno));
		set_blocking(r.fds[i], true);
	}
	/* messages to itself, and the wish to be woken for each; who is awake sees them without a
	 * doorbell */
	for (uint32_t i = 0; i < 64; i++) {
		struct submission s = {.op = i == 0 ? SUBMIT_SELECT : SUBMIT_SEND, .count = i != 0};

		s.send.dst_node = r.shm->node;
		s.send.dst_ctx = r.number;
		s.send.len = i == 0 ? 0 : 8;
		s.send.buf[0] = (uint16_t)(i % r.shm->send_buffers);
		atomic_store(&r.shm->wake_client, 1);
		memcpy(slot_at(&r.sub, r.sub.pos)->body, &s, sizeof(s));
		slot_publish(&r.sub, r.sub.pos++);
		usleep(2000);
	}
	stay("done");
}

/* Close the context, but keep its bells, and go on to ring them or to take what rings: whose are
 * they when the context has another owner? */
static __attribute__((noreturn)) void
keep(const char *instance, uint16_t number, const char *how)
{
	struct epoll_event event;
	struct attach_reply reply;
	struct raw r;

	raw_open_or_die(&r, instance, number);
	struct attach_request request = {
		.op = ATTACH_CLOSE,
		.ctx = r.number,
		.generation = r.generation,
	};
	int result = ask(r.sock, &request, -1, &reply, NULL);

	if (result != 0)
		die_of("closing", result);
	set_blocking(r.fds[0], false);
	set_blocking(r.fds[1], false);
	say("closed");
	for (bool ring = strcmp(how, "ring") == 0;; sched_yield()) {
		for (unsigned i = 0; i < 2; i++) {
			uint64_t count = 1;
			ssize_t n = ring ? write(r.fds[i], &count, sizeof(count))
					 : read(r.fds[i], &count, sizeof(count));

			if (n < 0 && !ring)
				/* then it may be one of those */
				epoll_wait(r.fds[i], &event, 1, 0);
		}
	}
}

/* ------------------------------------------------------------------ too much */

#define LARGE_TRIES 5

static int
large(const char *instance, uint16_t number, uint64_t len)
{
	struct attach_request request = {.op = ATTACH_BYTES, .ctx = number};
	struct attach_reply reply;
	double begin;
	struct raw r;
	int sock = dial_or_die(instance), result;
	int memory = memory_file(len);

	result = ask(sock, &request, -1, &reply, NULL);
	if (result != 0)
		die_of("asking for a size", result);
	printf("# %lu KiB are needed\n", (unsigned long)reply.bytes >> 10);
	say("ready"); /* from now on what the primary does is counted */
	getchar();
	begin = now_s();
	for (unsigned i = 0; i < LARGE_TRIES; i++) {
		request = (struct attach_request){.op = ATTACH_OPEN, .ctx = number, .len = len};
		result = ask(sock, &request, memory, &reply, NULL);
		if (result != -EINVAL)
			break;
	}
	printf("open %d after %.1f ms\n", result, (now_s() - begin) * 1000);
	close(sock);
	result = raw_open(&r, dial_or_die(instance), PMX_ANY_CONTEXT);
	if (result != 0)
		die_of("opening", result);
	begin = now_s();
	for (unsigned i = 0; i < LARGE_TRIES; i++) {
		result = share(&r, memory, len);
		if (result >= 0)
			break;
	}
	printf("memory %d after %.1f ms\n", result, (now_s() - begin) * 1000);
	say("refused");
	getchar();
	/* what fits still does, and only so often */
	close(memory);
	memory = memory_file(MIB);
	unsigned pieces = 0;

	while (pieces < 2 * MEMORIES_MAX && (result = share(&r, memory, MIB)) == 0)
		pieces++;
	printf("little %d after %u\n", result, pieces);
	fflush(stdout);
	return 0;
}

static __attribute__((noreturn)) void
hungry(const char *instance)
{
	int sock = dial_or_die(instance), memory = memory_file(PAGE), result;
	unsigned pieces = 0, contexts = 0;
	struct raw r;

	while ((result = raw_open(&r, sock, PMX_ANY_CONTEXT)) == 0) {
		contexts++;
		while ((result = share(&r, memory, PAGE)) == 0)
			pieces++;
		if (result != -ENOSPC)
			break;
	}
	printf("# %u contexts, %u pieces, then %s\n", contexts, pieces, strerror(-result));
	/* these wait to be let in, if nobody can */
	for (unsigned i = 0; i < 8; i++)
		dial(instance, SOCK_NONBLOCK);
	stay("done");
}

/* Keep `count` connections open: for each one that ends, dial again. */
static __attribute__((noreturn)) void
many(const char *instance, unsigned count)
{
	struct rlimit limit;
	struct pollfd *p = must(calloc(count, sizeof(*p)));
	unsigned open = 0;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
	for (unsigned i = 0; i < count; i++)
		p[i] = (struct pollfd){.fd = -1, .events = POLLIN};
	for (unsigned turn = 0;; turn++) {
		poll(p, count, 10);
		open = 0;
		for (unsigned i = 0; i < count; i++) {
			if (p[i].fd >= 0 && p[i].revents != 0) {
				close(p[i].fd);
				p[i].fd = -1;
			}
			if (p[i].fd < 0)
				p[i].fd = dial(instance, SOCK_NONBLOCK);
			open += p[i].fd >= 0;
		}
		if (turn == 20) {
			printf("# %u connections\n", open);
			say("done");
		}
	}
}

static int
before(const char *instance)
{
	struct attach_request request = {.op = ATTACH_BEFORE};
	struct attach_reply reply = {0};
	int result = ask(dial_or_die(instance), &request, -1, &reply, NULL);

	printf("before %d, addresses %lx, lcore %u\n", result, (unsigned long)reply.memory_begin,
		reply.lcore);
	return 0;
}

/* Take as many contexts as the primary gives. */
static __attribute__((noreturn)) void
take_all(const char *instance)
{
	struct raw r;
	unsigned n = 0;
	int result;

	while ((result = raw_open(&r, dial_or_die(instance), 0xFFFF)) == 0)
		n++;
	printf("took %u, then %d\n", n, result);
	stay("done");
}

/* The one who is left of a process that connected and has ended, whose number is another's now. */
static __attribute__((noreturn)) void
intrude(int sock, int go, int told)
{
	struct attach_request stop = {
		.op = ATTACH_JOBS,
		.ctx = ATTACH_JOBS_STOP,
		.addr = 77,
		.len = ATTACH_PROCESSES | 1000,
	};
	struct attach_reply reply;
	struct raw r;
	int results[2];

	if (read(go, results, 1) != 1)
		_exit(1);
	raw_job = 77;
	results[0] = raw_open(&r, sock, 0xFFFF);
	results[1] = ask(sock, &stop, -1, &reply, NULL);
	_exit(write(told, results, sizeof(results)) != sizeof(results));
}

/* Makes a process of that number, if it is free. 0: it could not. */
static pid_t
process_with(pid_t number)
{
	for (unsigned i = 0; i < 1000; i++) {
		FILE *last = fopen("/proc/sys/kernel/ns_last_pid", "w");

		if (last == NULL || fprintf(last, "%d", number - 1) < 0 || fclose(last) != 0)
			return 0;
		pid_t pid = fork();

		if (pid == 0) {
			for (;;)
				pause();
		}
		if (pid == number)
			return pid;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return 0;
}

/* To be run by root. */
static int
reuse(const char *instance)
{
	int go[2], told[2], results[2] = {1, 1};
	char path[64], state = 0;

	if (pipe(go) != 0 || pipe(told) != 0)
		die_of("pipe", -errno);
	pid_t first = fork();

	if (first == 0) {
		struct attach_request hello = {.op = ATTACH_HELLO};
		struct attach_reply reply;

		if (setgid(65534) != 0 || setuid(65534) != 0)
			_exit(1);
		int sock = dial_or_die(instance), result = ask(sock, &hello, -1, &reply, NULL);

		if (result == 0 && fork() == 0)
			intrude(sock, go[0], told[1]);
		_exit(result != 0);
	}
	waitpid(first, NULL, 0);
	pid_t victim = process_with(first);

	if (victim == 0) {
		printf("skip no process can have that number\n");
		return 0;
	}
	if (write(go[1], "", 1) != 1 || read(told[0], results, sizeof(results)) != sizeof(results))
		die_of("the intruder", -EPIPE);
	snprintf(path, sizeof(path), "/proc/%d/stat", victim);
	FILE *f = fopen(path, "r");

	if (f == NULL || fscanf(f, "%*d %*s %c", &state) != 1)
		die_of(path, -errno);
	fclose(f);
	printf("reused: open %d, stop %d, state %c\n", results[0], results[1], state);
	kill(victim, SIGKILL);
	waitpid(victim, NULL, 0);
	return 0;
}

/* ------------------------------------------------------------------ for who takes over */

static __attribute__((noreturn)) void
hole(const char *instance, uint16_t number, const char *how)
{
	const int make = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
	int memory = memory_file(MIB), result;
	struct raw r;

	raw_open_or_die(&r, instance, number);
	result = share(&r, memory, MIB);
	if (result != 0)
		die_of("sharing", result);
	if (strcmp(how, "seal") == 0) {
		if (fcntl(r.memory, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0)
			die_of("sealing", -errno);
	} else if (strcmp(how, "seal_shared") == 0) {
		if (fcntl(memory, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0)
			die_of("sealing", -errno);
	} else if (strcmp(how, "hole") == 0) {
		if (fallocate(r.memory, make, (off_t)(r.len - 2 * PAGE), 2 * PAGE) != 0)
			die_of("a hole", -errno);
	} else if (strcmp(how, "hole_shared") == 0) {
		if (fallocate(memory, make, 0, MIB) != 0)
			die_of("a hole", -errno);
	} else if (strcmp(how, "all") == 0) {
		if (fallocate(r.memory, make, 0, (off_t)r.len) != 0)
			die_of("a hole", -errno);
	}
	stay("done");
}

int
main(int argc, char **argv)
{
	if (argc < 3) {
		fputs("Usage: see the head of hostile.c\n", stderr);
		return 2;
	}
	const char *what = argv[1], *instance = argv[2], *third = argc > 3 ? argv[3] : "65535",
		   *fourth = argc > 4 ? argv[4] : "1";
	uint16_t number = (uint16_t)atoi(third);

	alarm(LIFE_S);
	if (strcmp(what, "bystander") == 0)
		bystander(instance, number);
	if (strcmp(what, "open") == 0)
		return open_within(instance, number, atof(fourth));
	if (strcmp(what, "hold") == 0)
		hold(instance, number);
	if (strcmp(what, "sleeper") == 0)
		return sleeper(instance, number);
	if (strcmp(what, "flood") == 0)
		flood(instance, number, (uint16_t)atoi(fourth));
	if (strcmp(what, "wake") == 0)
		wake(instance, number);
	if (strcmp(what, "keep") == 0)
		keep(instance, number, fourth);
	if (strcmp(what, "close") == 0)
		slow_close(instance, third);
	if (strcmp(what, "large") == 0)
		return large(instance, number, (uint64_t)atoi(fourth) * MIB);
	if (strcmp(what, "hungry") == 0)
		hungry(instance);
	if (strcmp(what, "many") == 0)
		many(instance, number);
	if (strcmp(what, "before") == 0)
		return before(instance);
	if (strcmp(what, "take_all") == 0)
		take_all(instance);
	if (strcmp(what, "reuse") == 0)
		return reuse(instance);
	if (strcmp(what, "hole") == 0)
		hole(instance, number, fourth);
	fprintf(stderr, "hostile: no such command: %s\n", what);
	return 2;
}
