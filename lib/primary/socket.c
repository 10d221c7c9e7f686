/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The socket by which thin clients attach: its path and permissions, the connections, and the users
 * behind them. Runs on the thread that watches processes. A request is answered when it is read,
 * and nothing waits for a client: one that does not read its reply is disconnected.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* Linux 6.5; the headers may be older */
#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_memory.h>
#include <rte_mempool.h>
#include <rte_version.h>

#include "base/process.h"
#include "channel/instance.h"
#include "channel/passing.h"
#include "log/log.h"
#include "node/sizes.h"
#include "primary/memory_lock.h"
#include "primary/socket.h"

#define GROUPS_MAX 64
#define SPARE      64  /* connections beyond one for each context */
#define CLOSERS    64  /* threads at a time */
#define FDS_SPARE  256 /* descriptors that a primary needs besides those of contexts */

struct connection {
	int fd; /* 0: the place is free */
	struct asker who;
	int process; /* pidfd of who connected, so that its number's next owner is not taken for it;
		      * -1: it is not seen from here, or has ended */
	bool ends_here; /* with this process, even if another takes over: a secondary's */
};

static struct {
	struct node *node;
	const struct socket_ops *ops;
	int epoll, listener;
	bool deaf; /* not accepting, for lack of descriptors: socket_again() */
	uint64_t deaf_since;
	struct connection *connections;
	unsigned max;
	char path[108];
} door;

/* ------------------------------------------------------------------ descriptors of clients */

struct closing {
	struct closing *next;
	bool connection;
	unsigned n;
	int fds[];
};

static struct {
	pthread_mutex_t lock;
	struct closing *first, **last; /* queue for the threads */
	unsigned threads;
} closer = {.lock = PTHREAD_MUTEX_INITIALIZER, .last = &closer.first};

static struct closing *
next_closing(void)
{
	pthread_mutex_lock(&closer.lock);
	struct closing *c = closer.first;

	if (c == NULL)
		closer.threads--;
	else if ((closer.first = c->next) == NULL)
		closer.last = &closer.first;
	pthread_mutex_unlock(&closer.lock);
	return c;
}

/* Close descriptors of clients. A socket must not linger: its data is not ours. */
static void
close_each(const int *fds, unsigned n)
{
	const struct linger at_once = {.l_onoff = 1};

	for (unsigned i = 0; i < n; i++) {
		setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		close(fds[i]);
	}
}

static void *
close_all(void *arg)
{
	int fds[PASSING_MAX];
	struct closing *c;
	unsigned n;
	char byte;

	while ((c = next_closing()) != NULL) {
		/* of a connection, also close the descriptors in messages that were not read */
		while (c->connection &&
			(passing_receive(c->fds[0], &byte, 1, fds, PASSING_MAX, &n) > 0 || n > 0))
			close_each(fds, n);
		close_each(c->fds, c->n);
		free(c);
	}
	return arg;
}

/* Start another thread that closes descriptors if there are not too many. Called with the lock. */
static void
start_closer(void)
{
	pthread_attr_t attr;
	pthread_t thread;

	if (closer.threads == CLOSERS)
		/* a client can block them all only with descriptors that it keeps open itself */
		return;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 64 << 10);
	closer.threads += pthread_create(&thread, &attr, close_all, NULL) == 0;
	pthread_attr_destroy(&attr);
}

/* Close descriptors of a client on other threads, since a client can make that take arbitrarily
 * long (a lingering socket, a file system of its own). */
static void
close_apart(const int *fds, unsigned n, bool connection)
{
	struct closing *c = n > 0 ? malloc(sizeof(*c) + n * sizeof(*fds)) : NULL;

	if (c == NULL)
		return;
	c->next = NULL;
	c->connection = connection;
	c->n = n;
	memcpy(c->fds, fds, n * sizeof(*fds));
	pthread_mutex_lock(&closer.lock);
	*closer.last = c;
	closer.last = &c->next;
	start_closer();
	pthread_mutex_unlock(&closer.lock);
}

/* Close a connection with all messages that were not read. */
static void
hang_up(int fd)
{
	char byte;

	shutdown(fd, SHUT_RDWR);
	if (recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0)
		close(fd); /* there are none */
	else
		close_apart(&fd, 1, true);
}

/* ------------------------------------------------------------------ the socket */

/* Make the directory of the socket that the configuration names, if its parent is there. It is open
 * to all, whatever the umask is: the socket has the mode that protects it. Return 0 or -errno. */
static int
make_parent(void)
{
	char dir[sizeof(door.path)];

	snprintf(dir, sizeof(dir), "%s", door.path);
	if (mkdir(dirname(dir), 0755) != 0)
		return errno == EEXIST ? 0 : -errno;
	return chmod(dir, 0755) == 0 ? 0 : -errno;
}

/* Log a warning if other users, whom the socket's mode lets in, cannot reach the socket. */
static void
say_who_is_shut_out(const struct config *c)
{
	char path[sizeof(door.path)];
	struct stat st;

	snprintf(path, sizeof(path), "%s", door.path);
	const char *dir = dirname(path);

	if (stat(dir, &st) == 0 && c->mode & 002 && !(st.st_mode & 001))
		log_say(LOG_NODE, RTE_LOG_WARNING,
			"access.mode = %04o lets all users attach, but %s has mode %04o, so only "
			"some can: give it another mode, or set access.socket",
			c->mode, dir, st.st_mode & 07777);
}

/* Make the socket, under another name first, so that it never appears with wrong permissions.
 * Return its descriptor or -errno. */
static int
make_socket(const struct config *c)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	char dir[RUN_DIR_MAX];
	const int made = *c->socket == 0 ? run_dir_make(dir, sizeof(dir)) : make_parent();
	int fd = made == 0 ? socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) : -1;

	if (fd < 0)
		return made != 0 ? made : -errno;
	if ((size_t)snprintf(at.sun_path, sizeof(at.sun_path), "%s.new", door.path) >=
		sizeof(at.sun_path)) {
		close(fd);
		return -ENAMETOOLONG;
	}
	unlink(at.sun_path);
	mode_t before = umask(0777);
	int result = bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 ? 0 : -errno;

	umask(before);
	if (result == 0 &&
		(chmod(at.sun_path, c->mode) != 0 || chown(at.sun_path, c->owner, c->group) != 0 ||
			listen(fd, 64) != 0 || rename(at.sun_path, door.path) != 0))
		result = -errno;
	if (result == 0)
		return fd;
	unlink(at.sun_path);
	close(fd);
	return result;
}

/* Write the path of the link by which secondaries find the socket: in the runtime directory of the
 * EAL. */
static void
link_path(char *out, size_t size)
{
	snprintf(out, size, "%s/" ATTACH_LINK, rte_eal_get_runtime_dir());
}

static void
make_link(void)
{
	char path[4096];

	link_path(path, sizeof(path));
	unlink(path);
	if (symlink(door.path, path) != 0)
		log_say(LOG_NODE, RTE_LOG_NOTICE, "%s: %s: secondaries begin without asking", path,
			strerror(errno));
}

/* Return a pidfd of the process that connected; -1: it is not seen from here, or has ended. */
static int
process_of_peer(int fd, const struct ucred *cred)
{
	int process = -1;
	socklen_t len = sizeof(process);
	char path[32];
	struct stat st;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &process, &len) == 0) {
		fcntl(process, F_SETFD, FD_CLOEXEC);
		return process;
	}
	if (errno != ENOPROTOOPT || cred->pid == 0) /* before Linux 6.5 */
		return -1;
	process = (int)syscall(SYS_pidfd_open, cred->pid, 0);
	snprintf(path, sizeof(path), "/proc/%d", cred->pid);
	/* another one may have its number by now, which is no harm if it is the same user's */
	if (process >= 0 && (stat(path, &st) != 0 || (st.st_uid != cred->uid && st.st_uid != 0))) {
		close(process);
		return -1;
	}
	return process;
}

/* Take over the connections of the previous primary, with their numbers, by which they own
 * contexts. */
static void
inherit(const struct takeover_attachments *from)
{
	for (unsigned i = 0; i < from->connections; i++) {
		unsigned k = (unsigned)from->connection[i].number;
		struct epoll_event event = {.events = EPOLLIN, .data.u64 = SOCKET_CONNECTION | k};

		if (from->connection[i].bad || k >= door.max ||
			epoll_ctl(door.epoll, EPOLL_CTL_ADD, from->connection[i].fd, &event) != 0) {
			hang_up(from->connection[i].fd);
			continue;
		}
		door.connections[k] = (struct connection){from->connection[i].fd,
			{(int)k, from->connection[i].pid, from->connection[i].uid,
				from->connection[i].gid},
			process_of_peer(from->connection[i].fd,
				&(struct ucred){from->connection[i].pid, from->connection[i].uid,
					from->connection[i].gid}),
			false};
	}
}

int
socket_open(struct node *n, int epoll, const struct socket_ops *ops,
	const struct takeover_attachments *from)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = SOCKET_LISTENER};

	door.node = n;
	door.ops = ops;
	door.epoll = epoll;
	door.listener = -1;
	/* a context may take one for each piece of memory */
	uint64_t want = n->config.contexts * (uint64_t)(MEMORIES_MAX + 5) + SPARE + FDS_SPARE,
		 has = descriptors_raise(want);

	if (has < want)
		log_say(LOG_NODE, RTE_LOG_NOTICE,
			"%lu descriptors (ulimit -n) are less than the %lu that limits.contexts = "
			"%u may take: applications that share much memory may find none left",
			has, want, n->config.contexts);
	if (strcmp(n->config.socket, "off") == 0)
		return 0;
	config_socket_path(&n->config, door.path, sizeof(door.path));
	door.max = n->config.contexts + SPARE;
	door.connections = calloc(door.max, sizeof(*door.connections));
	if (door.connections == NULL)
		return -ENOMEM;
	door.listener = from ? from->listener : make_socket(&n->config);
	if (from != NULL)
		inherit(from);
	if (door.listener < 0) {
		log_say(LOG_NODE, RTE_LOG_ERR,
			"access.socket = %s: %s: thin clients cannot attach. Choose another path, "
			"or 'off'",
			door.path,
			door.listener == -EPERM ? "another user has made its directory"
						: strerror(-door.listener));
		return door.listener;
	}
	say_who_is_shut_out(&n->config);
	make_link();
	return epoll_ctl(epoll, EPOLL_CTL_ADD, door.listener, &event) == 0 ? 0 : -errno;
}

/* ------------------------------------------------------------------ connections */

static void
disconnect(unsigned i)
{
	struct connection *c = &door.connections[i];

	epoll_ctl(door.epoll, EPOLL_CTL_DEL, c->fd, NULL);
	hang_up(c->fd);
	if (c->process >= 0)
		close(c->process);
	c->fd = 0;
	door.ops->gone((int)i);
	if (c->ends_here)
		memory_lock_free_soon();
}

/* Find a free place for a connection of that user, who must not use up all of them. Return door.max
 * if there is none. */
static unsigned
find_place(uint32_t uid)
{
	unsigned place = door.max, same = 0;

	for (unsigned i = 0; i < door.max; i++) {
		if (door.connections[i].fd == 0)
			place = place == door.max ? i : place;
		else
			same += door.connections[i].who.uid == uid;
	}
	return uid != 0 && uid != geteuid() && same >= door.max - SPARE / 2 ? door.max : place;
}

static void
welcome(void)
{
	int fd = accept4(door.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (fd < 0) {
		/* a pending connection would wake this thread all the time */
		if (errno == EMFILE || errno == ENFILE)
			door.deaf = epoll_ctl(door.epoll, EPOLL_CTL_DEL, door.listener, NULL) == 0;
		door.deaf_since = rte_rdtsc();
		return;
	}
	unsigned i = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0
		? find_place(cred.uid)
		: door.max;
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = SOCKET_CONNECTION | i};

	if (i == door.max || fd == 0 || epoll_ctl(door.epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
		hang_up(fd);
		return;
	}
	door.connections[i] = (struct connection){fd, {(int)i, cred.pid, cred.uid, cred.gid},
		process_of_peer(fd, &cred), false};
}

int
socket_process(const struct asker *who)
{
	if (who->connection == SECONDARY)
		return (int)syscall(SYS_pidfd_open, who->pid, 0);
	const int process = door.connections[who->connection].process;

	return process < 0 || process_has_ended(process) ? -1 : fcntl(process, F_DUPFD_CLOEXEC, 3);
}

bool
socket_again(void)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = SOCKET_LISTENER};

	if (!door.deaf || rte_rdtsc() - door.deaf_since < rte_get_tsc_hz() / 10)
		return door.deaf;
	door.deaf = epoll_ctl(door.epoll, EPOLL_CTL_ADD, door.listener, &event) != 0;
	return true; /* accepting may fail again */
}

static void
converse(unsigned i)
{
	struct connection *c = &door.connections[i];
	struct attach_request request;
	struct attach_reply reply;
	int given[PASSING_MAX], out[2], out_count = 0;
	unsigned count;

	if (i >= door.max || c->fd == 0)
		return;
	ssize_t n = passing_receive(c->fd, &request, sizeof(request), given, PASSING_MAX, &count);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	const bool short_of = n < 0 && errno == EMFILE;
	const bool whole = short_of || n == (ssize_t)sizeof(request);

	if (short_of)
		reply = (struct attach_reply){.abi = CHANNEL_ABI, .result = -EMFILE};
	else if (whole)
		door.ops->answer(&c->who, &request, given, (int)count, &reply, out, &out_count);
	if (whole && reply.result >= 0 && count == 1)
		close(given[0]); /* it is mapped, so this close does not take long */
	else
		close_apart(given, count, false);
	bool said = whole &&
		passing_send(c->fd, &reply, sizeof(reply), out, (unsigned)out_count,
			MSG_DONTWAIT) == (ssize_t)sizeof(reply);

	for (int k = 0; k < out_count; k++)
		close(out[k]);
	if (!said)
		disconnect(i);
}

void
socket_event(uint64_t tag)
{
	if (tag == SOCKET_LISTENER)
		welcome();
	else
		converse((unsigned)(tag & ~SOCKET_CONNECTION));
}

int
socket_of_successor(const struct asker *who)
{
	int fd = fcntl(door.connections[who->connection].fd, F_DUPFD_CLOEXEC, 3);

	return fd < 0 ? -errno : fd;
}

bool
socket_is_ours(const struct asker *who)
{
	return who->uid == 0 || who->uid == geteuid();
}

void
socket_save(struct takeover_attachments *to)
{
	to->listener = door.listener;
	snprintf(to->path, sizeof(to->path), "%s", door.path);
	for (unsigned i = 0; i < door.max; i++) {
		const struct connection *c = &door.connections[i];

		if (c->fd == 0 || c->ends_here)
			continue;
		to->connection[to->connections].fd = c->fd;
		to->connection[to->connections].number = (int)i;
		to->connection[to->connections].pid = c->who.pid;
		to->connection[to->connections].uid = c->who.uid;
		to->connection[to->connections++].gid = c->who.gid;
	}
}

void
socket_ends_here(const struct asker *who)
{
	door.connections[who->connection].ends_here = true;
}

static int
add_range(const struct rte_memseg_list *msl, void *arg)
{
	struct attach_reply *reply = arg;
	uint64_t begin = (uintptr_t)msl->base_va, end = begin + msl->len;

	if (msl->external)
		return 0;
	if (reply->memory_begin == 0 || begin < reply->memory_begin)
		reply->memory_begin = begin;
	if (end > reply->memory_end)
		reply->memory_end = end;
	return 0;
}

void
socket_tell(const struct asker *who, struct attach_reply *reply)
{
	const struct rte_mempool *pool = door.node->pool;
	/* Lcore numbers must be unique, since mempool caches are per lcore: lanes have the first
	 * numbers, secondaries the last. */
	int lcore = RTE_MAX_LCORE - 1 - who->connection;

	reply->lcore = lcore > (int)door.node->config.lanes ? (uint16_t)lcore : 0;
	reply->mempool_ops_index = (uint16_t)pool->ops_index;
	snprintf(reply->mempool_ops, sizeof(reply->mempool_ops), "%s",
		rte_mempool_get_ops(pool->ops_index)->name);
	snprintf(reply->dpdk, sizeof(reply->dpdk), "%s", rte_version());
	rte_memseg_list_walk(add_range, reply);
	door.connections[who->connection].ends_here = true;
}

bool
socket_is_in(const struct asker *who, const uint32_t *gids, unsigned count)
{
	gid_t groups[GROUPS_MAX];
	socklen_t len = sizeof(groups);
	int n = getsockopt(door.connections[who->connection].fd, SOL_SOCKET, SO_PEERGROUPS, groups,
			&len) == 0
		? (int)(len / sizeof(gid_t))
		: 0;

	for (unsigned i = 0; i < count; i++) {
		if (gids[i] == who->gid)
			return true;
		for (int k = 0; k < n; k++) {
			if (groups[k] == gids[i])
				return true;
		}
	}
	return false;
}

void
socket_close(void)
{
	for (unsigned i = 0; door.connections != NULL && i < door.max; i++) {
		if (door.connections[i].fd == 0)
			continue;
		hang_up(door.connections[i].fd);
		if (door.connections[i].process >= 0)
			close(door.connections[i].process);
	}
	free(door.connections);
	door.connections = NULL;
	if (door.listener < 0)
		return;
	close(door.listener);
	unlink(door.path);
	char link[4096];

	link_path(link, sizeof(link));
	unlink(link);
}
