/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A hostile client that passes descriptors to the primary whose last close, or any, takes long: a
 * connection that lingers, also in the queue of a socket that is passed, or a file of a file system
 * that never answers. Nothing of that may stop the primary. See hostile.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "channel/passing.h"
#include "client/client.h"

#include "hostile.h"

#define GIVEN_MAX 250 /* descriptors of a message: the kernel's limit is 253 */
#define LINGER_S  30

/* ------------------------------------------------------------------ lingering closes */

static int listener;
static struct sockaddr_in listens;

/* A connection whose last close waits for bytes that nobody reads. */
static int
lingering(void)
{
	static const char bytes[65536];
	const struct linger linger = {1, LINGER_S};
	const int little = 4096;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (fd < 0)
		die_of("socket", -errno);
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &little, sizeof(little));
	if (connect(fd, (struct sockaddr *)&listens, sizeof(listens)) != 0 ||
		accept(listener, NULL, NULL) < 0)
		die_of("connect", -errno);
	set_blocking(fd, false);
	while (write(fd, bytes, sizeof(bytes)) > 0)
		;
	set_blocking(fd, true);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	return fd;
}

static void
listen_here(void)
{
	const int little = 4096;
	socklen_t len = sizeof(listens);

	listener = socket(AF_INET, SOCK_STREAM, 0);
	listens = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &little, sizeof(little));
	if (listener < 0 || bind(listener, (struct sockaddr *)&listens, sizeof(listens)) != 0 ||
		listen(listener, 128) != 0 ||
		getsockname(listener, (struct sockaddr *)&listens, &len) != 0)
		die_of("listen", -errno);
}

/* ------------------------------------------------------------------ unanswered closes */

static void
write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die_of(path, -errno);
	close(fd);
}

static void
fuse_answer(int fuse, uint64_t unique, const void *data, size_t len)
{
	struct fuse_out_header head = {.len = (uint32_t)(sizeof(head) + len), .unique = unique};
	char all[sizeof(head) + 256];

	memcpy(all, &head, sizeof(head));
	memcpy(all + sizeof(head), data, len);
	if (write(fuse, all, head.len) < 0)
		return; /* who asked has gone */
}

static int ends; /* readable when the process that was started is killed */

/* A file system of one file, which opens, and whose close is never answered. Who has the file open
 * cannot end before this. */
static void
fuse_serve(int fuse)
{
	static char bytes[1 << 17];
	struct pollfd p[] = {{.fd = fuse, .events = POLLIN}, {.fd = ends, .events = POLLIN}};
	struct fuse_in_header in;

	while (poll(p, 2, -1) > 0 && p[1].revents == 0 &&
		read(fuse, bytes, sizeof(bytes)) >= (ssize_t)sizeof(in)) {
		memcpy(&in, bytes, sizeof(in));
		struct fuse_init_out init = {
			.major = FUSE_KERNEL_VERSION,
			.minor = FUSE_KERNEL_MINOR_VERSION,
			.max_readahead = PAGE,
			.max_background = 16,
			.congestion_threshold = 12,
			.max_write = PAGE,
		};
		struct fuse_attr_out attr = {
			.attr_valid = LIFE_S,
			.attr = {.ino = 1, .mode = S_IFREG | 0666, .nlink = 1, .blksize = PAGE},
		};
		struct fuse_open_out out = {.fh = 1};

		if (in.opcode == FUSE_INIT)
			fuse_answer(fuse, in.unique, &init, sizeof(init));
		else if (in.opcode == FUSE_GETATTR)
			fuse_answer(fuse, in.unique, &attr, sizeof(attr));
		else if (in.opcode == FUSE_OPEN)
			fuse_answer(fuse, in.unique, &out, sizeof(out));
	}
}

/* A file whose every close, not only the last, asks a process of ours that never answers. Nobody
 * needs rights for that but those of an own user namespace. -1: not on this host. */
static int
unanswered(void)
{
	char text[128], at[] = "/tmp/pmx-hostile.XXXXXX";
	unsigned uid = getuid(), gid = getgid();
	int place = mkstemp(at);

	if (place < 0)
		return -1;
	close(place);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
		unlink(at);
		return -1;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* new rights have cleared it */
	write_text("/proc/self/setgroups", "deny");
	snprintf(text, sizeof(text), "0 %u 1", uid);
	write_text("/proc/self/uid_map", text);
	snprintf(text, sizeof(text), "0 %u 1", gid);
	write_text("/proc/self/gid_map", text);
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC); /* of the namespace that mounts it */

	snprintf(text, sizeof(text), "fd=%d,rootmode=100000,user_id=0,group_id=0", fuse);
	int result = mount("hostile", at, "fuse", MS_NODEV | MS_NOSUID, text);

	if (result != 0) {
		unlink(at);
		return -1;
	}
	pid_t server = fork();

	if (server == 0) {
		fuse_serve(fuse);
		_exit(0);
	}
	close(fuse);
	int fd = open(at, O_RDWR | O_CLOEXEC);

	umount2(at, MNT_DETACH);
	unlink(at);
	return fd;
}

/* ------------------------------------------------------------------ passing them */

/* Return a socket in whose queue such a connection is. */
static int
nesting(void)
{
	int pair[2], inner = lingering();

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0 ||
		passing_send(pair[0], "x", 1, &inner, 1, 0) != 1)
		die_of("socketpair", -errno);
	close(inner);
	close(pair[0]);
	return pair[1];
}

/* Pass more at once than anybody waits for, and then many that would be closed quickly. */
static void
pass_flood(int sock, struct attach_request *request, int *fds)
{
	for (unsigned i = 0; i < 10; i++) {
		fds[0] = lingering();
		passing_send(sock, request, sizeof(*request), fds, 1, 0);
		close(fds[0]);
		ask(sock, request, -1, &(struct attach_reply){0}, NULL);
	}
	usleep(200000);
	for (unsigned i = 0; i < GIVEN_MAX; i++)
		fds[i] = open("/dev/null", O_RDONLY);
	for (unsigned i = 0; i < 10; i++)
		passing_send(sock, request, sizeof(*request), fds, GIVEN_MAX, 0);
}

/* Ask without taking answers, and pass some behind that: who does so is disconnected, with these
 * unread. */
static void
fill_queue(int sock, const struct attach_request *request, int *fds)
{
	for (unsigned i = 0; i < 60; i++)
		fds[i] = lingering();
	for (unsigned i = 0; i < 270; i++)
		passing_send(sock, request, sizeof(*request), NULL, 0, 0);
	for (unsigned i = 0; i < 60 &&
		passing_send(sock, request, sizeof(*request), &fds[i], 1, MSG_DONTWAIT) > 0;
		i++)
		close(fds[i]);
}

/* Put the descriptors that are to be passed to fds, or pass them here, as `how` says. Return how
 * many are still to be passed; 0: nothing more is to be sent. */
static unsigned
slow_things(const char *how, int sock, struct attach_request *request, int *fds)
{
	unsigned n = 0;

	if (strcmp(how, "hello") == 0) {
		/* with a question that takes none */
		fds[n++] = lingering();
	} else if (strcmp(how, "memory") == 0) {
		/* in the place of memory */
		*request = (struct attach_request){
			.abi = CHANNEL_ABI,
			.op = ATTACH_OPEN,
			.ctx = PMX_ANY_CONTEXT,
			.len = 1u << 30,
		};
		fds[n++] = lingering();
	} else if (strcmp(how, "surplus") == 0) {
		/* more than anybody has room for: the last ones never become descriptors there */
		for (; n < 200; n++)
			fds[n] = n % 40 == 0 || n >= 195 ? lingering()
							 : open("/dev/null", O_RDONLY);
	} else if (strcmp(how, "nested") == 0) {
		fds[n++] = nesting();
	} else if (strcmp(how, "unanswered") == 0) {
		fds[n++] = unanswered();
		if (fds[0] < 0)
			stay("skip: an ordinary user cannot mount a file system here");
	} else if (strcmp(how, "flood") == 0) {
		pass_flood(sock, request, fds);
	} else if (strcmp(how, "queue") == 0) {
		fill_queue(sock, request, fds);
	} else {
		die_of(how, -EINVAL);
	}
	return n;
}

void
slow_close(const char *instance, const char *how)
{
	const unsigned tries = strcmp(how, "unanswered") == 0 ? 1
		: strcmp(how, "flood") == 0                   ? 10
							      : 8;

	int alive[2];

	if (pipe2(alive, O_CLOEXEC) != 0)
		die_of("pipe2", -errno);
	ends = alive[0];
	for (unsigned i = 0; i < tries; i++) {
		if (fork() != 0)
			continue;
		close(alive[1]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		struct attach_request request = {.abi = CHANNEL_ABI, .op = ATTACH_HELLO};
		int fds[GIVEN_MAX], sock = dial_or_die(instance);

		listen_here();
		unsigned n = slow_things(how, sock, &request, fds);

		/* what a user has under way is limited: what other tries have sent is to arrive
		 * first */
		while (n > 0 &&
			passing_send(sock, &request, sizeof(request), fds, n, 0) !=
				(ssize_t)sizeof(request)) {
			if (errno != ETOOMANYREFS)
				die_of("sendmsg", -errno);
			usleep(1000);
		}
		while (n-- > 0 && tries > 1)
			close(fds[n]);
		for (;;)
			pause();
	}
	usleep(500000);
	stay("done");
}
