/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The socket by which applications attach, and their connections. All functions run on the thread
 * that watches processes (attach.c) unless they say otherwise.
 */
#ifndef PMX_SERVE_SOCKET_H
#define PMX_SERVE_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "channel/channel.h"
#include "primary/takeover.h"

#define SECONDARY (-1)

/* The sender of a request. */
struct asker {
	int connection;    /* number of its connection, or SECONDARY */
	int pid;           /* as this process sees it; thin: 0 if it cannot */
	uint32_t uid, gid; /* thin */
};

/* Fill in what a process needs to know before its EAL starts as a secondary. The process keeps the
 * connection, to see by it when this primary ends. */
void socket_tell(const struct asker *who, struct attach_reply *reply);

/* Tags of epoll events of that thread; lower values are those of processes. */
#define SOCKET_LISTENER   (UINT64_C(1) << 62)
#define SOCKET_CONNECTION (UINT64_C(1) << 61) /* ORed with its number */

/* Handlers for the connections. */
struct socket_ops {
	/* Answers a request: fills in the reply, and up to two descriptors, which the caller
	 * closes. */
	void (*answer)(const struct asker *who, const struct attach_request *request,
		const int *fds, int count, struct attach_reply *reply, int *out, int *out_count);
	/* The connection has ended: ends its contexts. */
	void (*gone)(int connection);
};

int socket_open(struct node *n, int epoll, const struct socket_ops *ops,
	const struct takeover_attachments *door);
/* Duplicate the sender's connection, for use by another thread. Return the descriptor, or
 * -errno. */
int socket_of_successor(const struct asker *who);
/* Let the sender's connection end with this process: a primary that takes over does not get it. */
void socket_ends_here(const struct asker *who);
void socket_save(struct takeover_attachments *door);
/* Return a pidfd of the sender, for the caller to close; -1: it is not seen from here, or has
 * ended. */
int socket_process(const struct asker *who);
/* Return whether the sender is root or the primary's own user. */
bool socket_is_ours(const struct asker *who);
void socket_event(uint64_t tag);
/* Try again to accept connections after there were no descriptors for them. Call this after each
 * event, and every LEFT_MS while it returns true: some may wait. */
bool socket_again(void);
bool socket_is_in(const struct asker *who, const uint32_t *gids, unsigned count);
void socket_close(void);

#endif
