/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The primary's side of attaching: the handshake, and a thread that watches the processes of
 * contexts (by pidfd, or a thin client's connection), aborts the contexts of dead ones at once,
 * frees memory that contexts had, and answers thin clients (socket.c). Secondaries are answered on
 * the EAL's mp thread. Lanes are asked by commands.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>

#include "engine/contexts.h"
#include "engine/quotas.h"
#include "engine/thin.h"
#include "log/log.h"
#include "memory/guard.h"
#include "node/node.h"
#include "preempt/primary/jobs.h"
#include "primary/attach.h"
#include "primary/capture.h"
#include "node/dpdk_names.h"
#include "primary/health.h"
#include "primary/relay.h"
#include "primary/socket.h"
#include "primary/takeover.h"
#include "primary/terms.h"

/* Events of the watcher that are neither processes nor of socket.c. */
#define STOP     UINT64_MAX
#define REAP     (UINT64_MAX - 1)
#define DRAIN_MS 1000 /* time that a take-over gives transfers to end */
#define READY_MS 2000 /* ... and who takes over to say that it is still there */
#define LEFT_MS  100  /* between looks at retired memory that ports still read */

#define PAIRS_WAITING 64

static struct {
	struct node *node;
	int epoll, stop;
	control_thread watcher;
	pthread_mutex_t lock; /* protects what follows, since secondaries are answered on another
			       * thread */
	int pidfd[WIRE_CONTEXTS_MAX];           /* by context; 0: none */
	uint32_t generation[WIRE_CONTEXTS_MAX]; /* of the open that the pidfd watches */
	int owner[WIRE_CONTEXTS_MAX];           /* connection of its thin client, or SECONDARY */
	uint32_t owned[WIRE_CONTEXTS_MAX];      /* generation of the open that the owner has */
	struct {
		int pid;
		uint32_t uid;
	} who[WIRE_CONTEXTS_MAX]; /* who opened it last */
	struct waiting_pair {
		bool used;
		uint16_t from, to;           /* who asked, and for whom */
		uint32_t from_life, to_life; /* generations */
		int socket;                  /* the end of `to` */
	} waiting[PAIRS_WAITING];
	bool given; /* given to another primary, which handles what ends from now
		     * on */
} server = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ------------------------------------------------------------------ death */

/* Return whether a process still has the context open as it was then. */
static bool
is_still(uint16_t ctx, uint32_t generation)
{
	return server.node->channels[ctx].state == CHANNEL_OPEN &&
		server.owned[ctx] == generation &&
		server.node->channels[ctx].generation == generation;
}

static void
drop_waiting(struct waiting_pair *w)
{
	close(w->socket);
	w->used = false;
}

/* Forget the waiting pairs of contexts that ask, or are asked, no more. Return a free place, or
 * NULL. */
static struct waiting_pair *
clear_waiting(void)
{
	struct waiting_pair *free = NULL;

	for (unsigned i = 0; i < PAIRS_WAITING; i++) {
		struct waiting_pair *w = &server.waiting[i];

		if (w->used && !(is_still(w->from, w->from_life) && is_still(w->to, w->to_life)))
			drop_waiting(w);
		if (!w->used)
			free = w;
	}
	return free;
}

static void
forget(uint16_t ctx)
{
	if (server.pidfd[ctx] == 0)
		return;
	epoll_ctl(server.epoll, EPOLL_CTL_DEL, server.pidfd[ctx], NULL);
	close(server.pidfd[ctx]);
	server.pidfd[ctx] = 0;
}

/* Watch the process that has the context open, by its pidfd, and own the pidfd from then on. Return
 * 0 or -errno. */
static int
attach_watch(uint16_t ctx, uint32_t generation, int fd)
{
	struct epoll_event event = {
		.events = EPOLLIN,
		.data.u64 = (uint64_t)generation << 16 | ctx,
	};

	if (fd < 0)
		return -ESRCH;
	forget(ctx);
	server.pidfd[ctx] = fd;
	server.generation[ctx] = generation;
	return epoll_ctl(server.epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static bool
stopping(void)
{
	struct pollfd p = {.fd = server.stop, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void
end_context(uint16_t ctx, uint32_t generation)
{
	struct command cmd = {.op = COMMAND_ABORT, .ctx = ctx, .generation = generation};
	int result;

	/* repeat it for a lane that has no CPU now, since nobody else ends the context */
	while ((result = node_command(server.node, &cmd, true)) == -ETIMEDOUT && !stopping())
		;
	if (result == 0)
		log_say(LOG_CONTEXT, RTE_LOG_NOTICE,
			"context %u died with process %d of user %u, which did not close it", ctx,
			server.who[ctx].pid, server.who[ctx].uid);
}

static void
process_ended(uint16_t ctx, uint32_t generation)
{
	pthread_mutex_lock(&server.lock);
	if (server.generation[ctx] == generation) { /* not handled yet */
		forget(ctx);
		if (server.owned[ctx] == generation)
			server.owner[ctx] = SECONDARY;
	}
	pthread_mutex_unlock(&server.lock);
	end_context(ctx, generation);
	pthread_mutex_lock(&server.lock);
	clear_waiting();
	pthread_mutex_unlock(&server.lock);
}

static void
attach_gone(int connection)
{
	static uint16_t ctx[WIRE_CONTEXTS_MAX];
	static uint32_t generation[WIRE_CONTEXTS_MAX];
	unsigned n = 0;

	pthread_mutex_lock(&server.lock);
	for (uint32_t i = 0; i < server.node->config.contexts; i++) {
		if (server.owner[i] != connection)
			continue;
		server.owner[i] = SECONDARY;
		ctx[n] = (uint16_t)i;
		generation[n++] = server.owned[i];
	}
	pthread_mutex_unlock(&server.lock);
	while (n-- > 0)
		end_context(ctx[n], generation[n]);
	capture_gone(server.node, connection);
	pthread_mutex_lock(&server.lock);
	clear_waiting();
	jobs_gone(connection);
	pthread_mutex_unlock(&server.lock);
}

static control_result
watch_processes(void *arg)
{
	struct epoll_event event;
	bool memory_left = false, deaf = false;
	uint64_t looked_at = 0;
	int n;

	(void)arg;
	while (!server.given &&
		((n = epoll_wait(server.epoll, &event, 1,
			  memory_left || deaf ? LEFT_MS : HEALTH_LOOK_MS)) >= 0 ||
			errno == EINTR)) {
		if (rte_rdtsc() - looked_at >= rte_get_tsc_hz() / 1000 * HEALTH_LOOK_MS) {
			looked_at = rte_rdtsc();
			health_look(server.node);
		}
		if (n > 0 && event.data.u64 == STOP)
			break;
		if (n <= 0 || event.data.u64 == REAP) {
			eventfd_t times;

			(void)eventfd_read(server.node->mappings.reaper, &times);
			memory_left = memory_reap(&server.node->mappings);
		} else if (event.data.u64 >= SOCKET_CONNECTION) {
			socket_event(event.data.u64);
		} else {
			process_ended(event.data.u64 & 0xFFFF, (uint32_t)(event.data.u64 >> 16));
		}
		deaf = socket_again();
	}
	return 0;
}

/* ------------------------------------------------------------------ rights */

#define ALL_RANGES UINT32_MAX

/* Return the ranges of contexts that name the sender, a bit each; ALL_RANGES: they do not apply to
 * it. */
static uint32_t
ranges_of(const struct asker *who)
{
	const struct config *c = &server.node->config;
	uint32_t named = 0;

	if (who->connection == SECONDARY || socket_is_ours(who))
		return ALL_RANGES;
	for (uint32_t i = 0; i < c->range_count; i++) {
		const struct config_range *g = &c->ranges[i];
		bool him = socket_is_in(who, g->gids, g->gid_count);

		for (uint32_t k = 0; k < g->uid_count && !him; k++)
			him = g->uids[k] == who->uid;
		named |= (uint32_t)him << i;
	}
	return named;
}

/* Return whether a sender may open the context. named: the ranges that name the sender, as of
 * ranges_of(). A user whom a range names may open contexts of that range and no others; contexts
 * that are in no such range are for all other users. */
static bool
may_open(uint32_t named, uint32_t ctx)
{
	const struct config *c = &server.node->config;
	const struct config_range *g = config_range(c, ctx);

	if (named == ALL_RANGES)
		return true;
	if (g != NULL && g->uid_count + g->gid_count != 0)
		return named >> (g - c->ranges) & 1;
	return named == 0;
}

/* Return whether the sender itself opened the context, and it is still that open. */
static bool
is_own(const struct asker *who, uint32_t ctx, uint32_t generation)
{
	return ctx < server.node->config.contexts && server.owner[ctx] == who->connection &&
		(who->connection == SECONDARY ||
			server.node->channels[ctx].generation == generation);
}

/* ------------------------------------------------------------------ opening */

/* Choose the requested context, or a free one, numbered `from` or higher. Return it or -errno. */
static int
choose(const struct asker *who, const struct attach_request *request, uint32_t from)
{
	const struct node *n = server.node;
	const uint32_t named = ranges_of(who);
	bool any = false;

	if (request->ctx != 0xFFFF) {
		if (request->ctx >= n->config.contexts)
			return -EINVAL;
		if (!may_open(named, request->ctx))
			return -EACCES;
		/* the lane decides; this check avoids making memory in vain */
		return n->channels[request->ctx].state == CHANNEL_CLOSED ? request->ctx : -EBUSY;
	}
	for (uint32_t i = from; i < n->config.contexts; i++) {
		if (!may_open(named, i))
			continue;
		if (n->channels[i].state == CHANNEL_CLOSED)
			return (int)i;
		any = true;
	}
	return any || from > 0 ? -EBUSY : -EACCES;
}

/* Return the sender's user. A secondary runs as the primary's user, since others cannot map the
 * primary's hugepages. */
static uint32_t
user_of(const struct asker *who)
{
	return who->connection == SECONDARY ? geteuid() : who->uid;
}

static int
open_one(const struct asker *who, const struct attach_request *request, int fd, struct command *cmd)
{
	bool thin = who->connection != SECONDARY;

	cmd->parked = thin && jobs_parks((uint32_t)request->addr, user_of(who));
	int result = quotas_of(server.node, cmd->ctx, request->send_buffers,
		request->receive_buffers, thin, cmd->parked, &cmd->quotas);

	if (result != 0)
		return result;
	if (thin) {
		cmd->thin = thin_make(server.node, &cmd->quotas, fd, request->len, 0);
		if (cmd->thin == NULL)
			return -errno;
	}
	result = node_command(server.node, cmd, true);
	if (result != 0 && cmd->thin != NULL)
		memory_discard(&server.node->mappings, cmd->thin->memory);
	return result;
}

/* Return whether that user, who is neither root nor the primary's, has as many contexts as one may
 * have now. */
static bool
has_enough(uint32_t uid)
{
	const struct config *c = &server.node->config;
	const uint32_t part = (c->contexts + 7) / 8;
	uint32_t own = 0, free = 0;

	for (uint32_t i = 0; i < c->contexts; i++) {
		const bool closed = server.node->channels[i].state == CHANNEL_CLOSED;

		free += closed;
		own += !closed && server.owner[i] != SECONDARY && server.who[i].uid == uid;
	}
	return c->user_contexts != 0 ? own >= c->user_contexts
				     : c->mode & 022 && free <= part && own >= part;
}

static int
open_any(const struct asker *who, const struct attach_request *request, int fd, struct command *cmd)
{
	int ctx = -1, result;

	if (who->connection != SECONDARY && !socket_is_ours(who) && has_enough(who->uid))
		return -EDQUOT;
	do {
		ctx = choose(who, request, (uint32_t)(ctx + 1));
		if (ctx < 0)
			return ctx;
		cmd->ctx = (uint16_t)ctx;
		result = open_one(who, request, fd, cmd);
	} while (result == -EBUSY && request->ctx == 0xFFFF);
	return result;
}

/* Open the process's memory, which after exec or death reads as empty. Return a descriptor of it;
 * 0: none. */
static int
memory_of_process(int pid)
{
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd > 0 ? fd : 0;
}

static int
close_for(const struct asker *who, const struct attach_request *request)
{
	struct command cmd = {
		.op = COMMAND_CLOSE,
		.ctx = request->ctx,
		.generation = request->generation,
	};

	if (!is_own(who, request->ctx, request->generation))
		return -ENOENT;
	int result = node_command(server.node, &cmd, true);

	if (result == 0) {
		log_say(LOG_CONTEXT, RTE_LOG_INFO, "context %u closed by process %d of user %u",
			request->ctx, who->pid, user_of(who));
		server.owner[request->ctx] = SECONDARY;
		forget(request->ctx); /* the process may end now: what it sent is still delivered */
		clear_waiting();
	}
	return result;
}

static int
open_for(const struct asker *who, const struct attach_request *request, int fd,
	struct attach_reply *reply, int *out)
{
	struct command cmd = {
		.op = COMMAND_OPEN,
		.pid = who->pid,
		.mm_fd = who->connection == SECONDARY ? memory_of_process(who->pid) : 0,
		.job = (uint32_t)request->addr,
		.domain = (uint32_t)(request->addr >> 32),
		.open_wait_us = request->open_wait_us,
	};
	int result = open_any(who, request, fd, &cmd);

	if (result != 0) {
		log_say(LOG_CONTEXT, RTE_LOG_DEBUG,
			"context %d refused to process %d of user %u: %s",
			request->ctx == 0xFFFF ? -1 : request->ctx, who->pid, user_of(who),
			strerror(-result));
		if (cmd.mm_fd != 0)
			close(cmd.mm_fd);
		return result;
	}
	struct channel *ch = &server.node->channels[cmd.ctx];

	server.who[cmd.ctx].pid = who->pid;
	server.who[cmd.ctx].uid = user_of(who);
	log_say(LOG_CONTEXT, RTE_LOG_INFO, "context %u opened by process %d of user %u, %s",
		cmd.ctx, who->pid, user_of(who),
		who->connection == SECONDARY ? "secondary" : "thin");
	/* A process of another PID namespace may be invisible (0); the end of a thin client also
	 * shows on its connection. */
	if (who->pid != 0)
		result = attach_watch(cmd.ctx, cmd.generation, socket_process(who));
	if (result != 0) { /* it has ended: who speaks by its connection is another one */
		cmd.op = COMMAND_ABORT;
		node_command(server.node, &cmd, true);
		return result;
	}
	server.owner[cmd.ctx] = who->connection;
	server.owned[cmd.ctx] = cmd.generation;
	jobs_opened(cmd.ctx);
	reply->ctx = cmd.ctx;
	reply->generation = cmd.generation;
	reply->shm = (uintptr_t)ch->own;
	out[0] = context_bell(ch);
	out[1] = fcntl(ch->doorbell, F_DUPFD_CLOEXEC, 3);
	if (out[0] >= 0 && out[1] >= 0)
		return 0;
	if (out[0] >= 0)
		close(out[0]);
	close_for(who, &(struct attach_request){.ctx = cmd.ctx, .generation = cmd.generation});
	return -EMFILE;
}

/* ------------------------------------------------------------------ preemption */

static uint32_t
user_of_context(uint16_t ctx)
{
	return server.who[ctx].uid;
}

uint32_t
attach_user(uint16_t ctx)
{
	return server.owner[ctx] != SECONDARY ? server.who[ctx].uid : UINT32_MAX;
}

static int
process_of_context(uint16_t ctx)
{
	return server.pidfd[ctx];
}

static int
stop_for(const struct asker *who, const struct attach_request *request, struct attach_reply *reply)
{
	if (!is_own(who, request->ctx, request->generation))
		return -ENOENT;
	return jobs_stop_one(request->ctx, request, reply);
}

static int
jobs_for(const struct asker *who, const struct attach_request *request, struct attach_reply *reply)
{
	const struct jobs_asker asker = {
		.connection = who->connection,
		.pid = who->pid,
		.uid = user_of(who),
		.all = socket_is_ours(who),
	};

	return who->connection == SECONDARY ? -EPROTO : jobs_answer(&asker, request, reply);
}

/* ------------------------------------------------------------------ the rest */

/* Answer how many bytes of memory an open needs, and for which context. */
static int
bytes_for(const struct asker *who, const struct attach_request *request, struct attach_reply *reply)
{
	struct quotas q;
	int ctx = choose(who, request, 0);

	if (ctx < 0)
		return ctx;
	reply->ctx = (uint16_t)ctx;
	if (quotas_of(server.node, (uint16_t)ctx, request->send_buffers, request->receive_buffers,
		    true, jobs_parks((uint32_t)request->addr, user_of(who)), &q) != 0)
		return -EINVAL;
	reply->bytes = thin_bytes(server.node, &q);
	return 0;
}

/* Map memory that a client gave. */
static int
map_for(const struct asker *who, const struct attach_request *request, int fd,
	struct attach_reply *reply)
{
	struct command cmd = {.ctx = request->ctx, .generation = request->generation};

	if (!is_own(who, request->ctx, request->generation))
		return -ENOENT;
	/* aligned, so that aligned words in it are aligned here */
	if (request->addr % CHANNEL_BUFFER_HEAD != 0)
		return -EINVAL;
	int result = node_map_memory(server.node, &cmd, true, fd, request->len, request->addr,
		request->adopted);

	if (result < 0)
		return result;
	reply->memory = (uint32_t)result;
	return 0;
}

/* Ask the primary that wants to take over once more whether it is there, since it may have gone
 * meanwhile: from here on there is no way back. Return 0 or -EPIPE. */
static int
still_wants(int heir)
{
	const struct attach_reply question = {.abi = CHANNEL_ABI, .result = TAKEOVER_READY};
	struct pollfd answers = {.fd = heir, .events = POLLIN};
	uint8_t answer;

	return send(heir, &question, sizeof(question), MSG_NOSIGNAL | MSG_DONTWAIT) ==
				(ssize_t)sizeof(question) &&
			poll(&answers, 1, READY_MS) == 1 &&
			recv(heir, &answer, sizeof(answer), MSG_DONTWAIT) == sizeof(answer)
		? 0
		: -EPIPE;
}

/* Write a text that names the transfers or contexts that did not end. */
static void
say_undrained(const struct engine *e, char *text, size_t len)
{
	const char *what = atomic_load(&e->undrained);
	const int ctx = atomic_load(&e->undrained_ctx);

	if (what == NULL)
		snprintf(text, len, ": the lane took no turn");
	else if (ctx < 0)
		snprintf(text, len, ": %s", what);
	else
		snprintf(text, len, ": %s of context %d", what, ctx);
}

/* Give the node to another primary that asks to take over: freeze the lane, and stop it when
 * everything under way has ended. */
static int
give_to(const struct asker *who, const struct attach_request *request)
{
	struct node *n = server.node;
	struct command cmd = {.op = COMMAND_FREEZE};

	if (who->connection == SECONDARY || !socket_is_ours(who))
		return -EACCES;
	if (n->config.lanes != 1)
		return -EOPNOTSUPP;
	if (request->addr != takeover_terms(n))
		return -EINVAL;
	int heir = socket_of_successor(who);

	if (heir < 0)
		return heir;
	struct engine *e = &n->engines[0];
	int result = node_command(n, &cmd, true);

	for (int i = 0; result == 0 && i < DRAIN_MS && !atomic_load(&e->drained); i++) {
		eventfd_write(e->doorbell, 1);
		usleep(1000);
	}
	if (result == 0 && !atomic_load(&e->drained))
		result = -EBUSY;
	else if (result == 0)
		result = still_wants(heir);
	if (result == 0) {
		/* stops the lane; the main thread waits for it and for this thread */
		server.given = true;
		n->successor = heir;
		atomic_store(&e->stop, true);
		log_say(LOG_NODE, RTE_LOG_NOTICE, "process %d takes over", who->pid);
	} else {
		char left[64] = "";

		if (result == -EBUSY)
			say_undrained(e, left, sizeof(left));
		log_say(LOG_NODE, RTE_LOG_WARNING,
			"process %d did not take over: %s%s; this one goes on", who->pid,
			strerror(-result), left);
		/* the lane goes on, whether it had drained or not */
		atomic_store(&e->frozen, false);
		eventfd_write(e->doorbell, 1);
		close(heir);
	}
	return result;
}

static bool
owns_any(const struct asker *who)
{
	for (uint32_t i = 0; i < server.node->config.contexts; i++) {
		if (server.owner[i] == who->connection)
			return true;
	}
	return false;
}

/* Answer which process has a context open. Tell the asker only what it could also learn from the
 * kernel: about its own user's processes, or as root. */
static int
owner_for(const struct asker *who, const struct attach_request *request, struct attach_reply *reply)
{
	const uint16_t ctx = request->ctx;

	if (ctx >= server.node->config.contexts || server.owner[ctx] == SECONDARY)
		return -ENOENT;
	if (user_of(who) != 0 && user_of(who) != server.who[ctx].uid)
		return -EACCES;
	reply->pid = server.who[ctx].pid;
	return 0;
}

/* ------------------------------------------------------------------ pairs */

/* Introduce contexts of one user to each other (lib/channel/pair.h): the first that asks gets one
 * end of a socket, and the other side the other end when it asks. */
static int
pair_for(const struct asker *who, const struct attach_request *request, struct attach_reply *reply,
	int *out)
{
	const uint16_t ctx = request->ctx, peer = (uint16_t)request->addr;
	struct waiting_pair *free = clear_waiting();
	int ends[2];

	if (!is_own(who, ctx, request->generation) || !is_still(ctx, request->generation))
		return -ENOENT;
	for (unsigned i = 0; i < PAIRS_WAITING; i++) {
		struct waiting_pair *w = &server.waiting[i];

		if (!w->used || w->to != ctx ||
			(request->addr != PAIR_ANY && w->from != request->addr))
			continue;
		w->used = false;
		out[0] = w->socket;
		reply->ctx = w->from;
		reply->pid = server.who[w->from].pid;
		reply->memory = 1;
		return 0;
	}
	if (request->addr == PAIR_ANY)
		return -ENOENT;
	if (server.node->config.direct != DIRECT_USER)
		return -EOPNOTSUPP;
	for (unsigned i = 0; i < PAIRS_WAITING; i++) { /* it has asked before, and let go of that */
		struct waiting_pair *w = &server.waiting[i];

		if (w->used && w->from == ctx && w->to == peer) {
			drop_waiting(w);
			free = w;
		}
	}
	if (request->addr >= server.node->config.contexts || peer == ctx ||
		!is_still(peer, server.owned[peer]))
		return -ENOENT;
	if (server.node->channels[peer].engine_matches)
		return -EOPNOTSUPP; /* it has no pairs */
	if (server.who[ctx].uid != server.who[peer].uid ||
		!channel_admits(server.node, &server.node->channels[peer], ctx) ||
		!channel_admits(server.node, &server.node->channels[ctx], peer))
		return -EACCES;
	if (free == NULL)
		return -EAGAIN;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
		return -errno;
	*free = (struct waiting_pair){true, ctx, peer, server.owned[ctx], server.owned[peer],
		ends[1]};
	out[0] = ends[0];
	reply->ctx = peer;
	reply->memory = 0;
	reply->pid = server.who[peer].pid;
	/* of a thin client: its pages may go at any time, but not their mapping, while this thread
	 * frees such */
	atomic_fetch_add(&server.node->channels[peer].shm->pairs_asked, 1);
	return 0;
}

/* Return whether a link address is the one that was asked for, in the form that `kind` says. */
static bool
is_address(const struct link_addr *a, uint16_t kind, const uint8_t asked[16])
{
	uint8_t has[16] = {0};
	rte_be32_t ip = rte_cpu_to_be_32(a->ip);

	if (kind == ATTACH_MAC)
		memcpy(has, &a->mac, sizeof(a->mac));
	else if (kind == ATTACH_IPV4 && !a->v6)
		memcpy(has, &ip, sizeof(ip));
	else if (kind == ATTACH_IPV6 && a->v6)
		memcpy(has, a->ip6, sizeof(has));
	return memcmp(has, (uint8_t[16]){0}, sizeof(has)) != 0 &&
		memcmp(has, asked, sizeof(has)) == 0;
}

/* Find the node that has the name of that hash. Return 0 or -ENOENT. */
static int
node_named(const uint8_t asked[16], struct attach_reply *reply)
{
	const struct config *c = &server.node->config;
	uint8_t hash[16];

	for (uint32_t number = 0; number < c->nodes_max; number++) {
		const char *name = c->peers[number].name;

		if (c->peers[number].links == 0 || *name == 0)
			continue;
		channel_name_hash(name, hash);
		if (memcmp(hash, asked, sizeof(hash)) != 0)
			continue;
		reply->node = (uint16_t)number;
		return 0;
	}
	return -ENOENT;
}

/* Find the node of the table that has the address, on any link. Return 0 or -ENOENT. */
static int
node_for(const struct attach_request *request, struct attach_reply *reply)
{
	const struct config *c = &server.node->config;
	uint8_t asked[16];

	memcpy(asked, &request->addr, 8);
	memcpy(asked + 8, &request->len, 8);
	if (request->ctx == ATTACH_NAME)
		return node_named(asked, reply);
	for (uint32_t number = 0; number < c->nodes_max; number++) {
		const struct config_peer *p = &c->peers[number];

		for (uint32_t left = p->links; left != 0; left &= left - 1) {
			if (!is_address(&p->addr[__builtin_ctz(left)], request->ctx, asked))
				continue;
			reply->node = (uint16_t)number;
			return 0;
		}
	}
	return -ENOENT;
}

/* Do what a request asks. fd: the descriptor that came with it, or -1. Return 0 or a negative
 * errno; *out_count descriptors go back in out. */
static int
do_request(const struct asker *who, const struct attach_request *request, int fd,
	struct attach_reply *reply, int *out, int *out_count)
{
	int result;

	switch (request->op) {
	case ATTACH_HELLO:
		return 0;
	case ATTACH_BEFORE:
		if (who->connection == SECONDARY)
			return -EPROTO;
		if (!socket_is_ours(who) || owns_any(who))
			return -EACCES;
		if (!rte_eal_has_hugepages()) /* no other process can map its memory */
			return -ENODEV;
		socket_tell(who, reply);
		return 0;
	case ATTACH_BYTES:
		return bytes_for(who, request, reply);
	case ATTACH_OPEN:
		result = open_for(who, request, fd, reply, out);
		*out_count = result == 0 ? 2 : 0;
		return result;
	case ATTACH_CLOSE:
		return close_for(who, request);
	case ATTACH_TAKE_OVER:
		return give_to(who, request);
	case ATTACH_PAIR:
		result = pair_for(who, request, reply, out);
		*out_count = result == 0;
		return result;
	case ATTACH_OWNER:
		return owner_for(who, request, reply);
	case ATTACH_NODE:
		return node_for(request, reply);
	case ATTACH_JOBS:
		return jobs_for(who, request, reply);
	case ATTACH_STOP:
		return stop_for(who, request, reply);
	case ATTACH_TELL:
		result = who->connection == SECONDARY
			? -EPROTO
			: relay_ask(request->ctx, request->addr, &reply->bytes);
		out[0] = result;
		*out_count = result >= 0;
		return result < 0 ? result : 0;
	case ATTACH_CAPTURE:
		return capture_for(server.node, who, request, fd);
	case ATTACH_MEMORY:
		return map_for(who, request, fd, reply);
	default:
		return -EPROTO;
	}
}

static void
attach_answer(const struct asker *who, const struct attach_request *request, const int *fds,
	int count, struct attach_reply *reply, int *out, int *out_count)
{
	bool takes_fd = request->op == ATTACH_MEMORY || request->op == ATTACH_CAPTURE ||

		(request->op == ATTACH_OPEN && who->connection != SECONDARY);

	*reply = (struct attach_reply){
		.abi = CHANNEL_ABI,
		.node = (uint16_t)server.node->config.id,
		.pid = getpid(),
	};
	*out_count = 0;
	if (request->abi != CHANNEL_ABI || count != takes_fd) {
		reply->result = -EPROTO;
		return;
	}
	pthread_mutex_lock(&server.lock);
	reply->result = do_request(who, request, takes_fd ? fds[0] : -1, reply, out, out_count);
	pthread_mutex_unlock(&server.lock);
}

/* Answer a request of a secondary. */
static int
primary_attach_answer(const struct rte_mp_msg *msg, const void *peer)
{
	struct attach_request request;
	struct attach_reply reply;
	struct rte_mp_msg out = {.len_param = sizeof(reply)};

	if (msg->len_param != sizeof(request))
		return -1;
	memcpy(&request, msg->param, sizeof(request));
	const struct asker who = {.connection = SECONDARY, .pid = request.pid};

	attach_answer(&who, &request, msg->fds, msg->num_fds, &reply, out.fds, &out.num_fds);
	for (int i = 0; i < msg->num_fds; i++)
		close(msg->fds[i]);
	snprintf(out.name, sizeof(out.name), "%s", ATTACH_ACTION);
	memcpy(out.param, &reply, sizeof(reply));
	int result = rte_mp_reply(&out, peer);

	for (int i = 0; i < out.num_fds; i++)
		close(out.fds[i]);
	return result;
}

static const struct socket_ops answers = {attach_answer, attach_gone};

int
attach_serve(struct node *n, const struct takeover_attachments *door)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = STOP};
	int e;

	guard_begin();
	server.node = n;
	server.epoll = epoll_create1(EPOLL_CLOEXEC);
	server.stop = eventfd(0, EFD_CLOEXEC);
	n->mappings.reaper = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server.epoll < 0 || server.stop < 0 || n->mappings.reaper < 0)
		return -errno;
	if (health_begin(n) != 0)
		return -ENOMEM;
	for (size_t i = 0; i < WIRE_CONTEXTS_MAX; i++) {
		server.owner[i] = door != NULL ? door->owner[i] : SECONDARY;
		server.owned[i] = door != NULL ? door->generation[i] : 0;
	}
	epoll_ctl(server.epoll, EPOLL_CTL_ADD, server.stop, &event);
	event.data.u64 = REAP;
	epoll_ctl(server.epoll, EPOLL_CTL_ADD, n->mappings.reaper, &event);
	e = socket_open(n, server.epoll, &answers, door);
	for (uint32_t i = 0; door != NULL && i < n->config.contexts; i++) {
		const struct channel *ch = &n->channels[i];

		server.who[i].pid = ch->pid;
		for (unsigned k = 0; k < door->connections; k++) {
			if (door->connection[k].number == door->owner[i])
				server.who[i].uid = door->connection[k].uid;
		}
		if (ch->state == CHANNEL_OPEN && ch->pid != 0 && server.owner[i] != SECONDARY)
			/* if it died meanwhile, its connection shows that */
			attach_watch((uint16_t)i, ch->generation,
				socket_process(&(struct asker){.connection = server.owner[i]}));
	}
	jobs_begin(n, user_of_context, process_of_context);
	if (e == 0)
		e = control_thread_create(&server.watcher, "pmx-watch", watch_processes, NULL);
	if (e != 0)
		return e;
	/* without a shared configuration (--no-huge, --in-memory) there are no secondaries, only
	 * thin clients */
	return rte_mp_action_register(ATTACH_ACTION, primary_attach_answer) == 0 ||
			rte_errno == ENOTSUP
		? 0
		: -rte_errno;
}

void
attach_pause(void)
{
	rte_mp_action_unregister(ATTACH_ACTION);
	if (eventfd_write(server.stop, 1) == 0)
		control_thread_join(server.watcher);
}

void
attach_save(struct takeover_attachments *door)
{
	memset(door, 0, sizeof(*door));
	socket_save(door);
	memcpy(door->owner, server.owner, sizeof(door->owner));
	memcpy(door->generation, server.owned, sizeof(door->generation));
}

void
attach_stop(void)
{
	if (server.node == NULL)
		return;
	attach_pause();
	jobs_end(server.given);
	health_end();
	socket_close();
	for (uint32_t i = 0; i < server.node->config.contexts; i++)
		forget((uint16_t)i);
	close(server.epoll);
	close(server.stop);
	close(server.node->mappings.reaper);
	server.node->mappings.reaper = 0;
	server.node = NULL;
}
