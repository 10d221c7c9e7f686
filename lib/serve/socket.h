/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The socket that applications attach by, and their connections. On the thread that watches
 * processes (attach.c), but for what is said.
 */
#ifndef PMX_SERVE_SOCKET_H
#define PMX_SERVE_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "channel/channel.h"
#include "serve/takeover.h"

#define SECONDARY (-1)

/* Who asks. */
struct asker {
	int connection;    /* a thin client's; SECONDARY */
	int pid;           /* as this process sees it; thin: 0 = it does not */
	uint32_t uid, gid; /* thin */
};

/* What a secondary on that connection, which is its sign of our life, needs to know before its EAL
 * begins. */
void socket_tell(const struct asker *who, struct attach_reply *reply);

/* Events of that thread; below these: a process. */
#define SOCKET_LISTENER   (UINT64_C(1) << 62)
#define SOCKET_CONNECTION (UINT64_C(1) << 61) /* | its number */

/* Who answers what comes by the connections. */
struct socket_ops {
	/* The reply, and up to two descriptors with it, which are the caller's to close. */
	void (*answer)(const struct asker *who, const struct attach_request *request,
		const int *fds, int count, struct attach_reply *reply, int *out, int *out_count);
	/* That connection ended: so do its contexts. */
	void (*gone)(int connection);
};

int socket_open(struct node *n, int epoll, const struct socket_ops *ops,
	const struct takeover_attachments *door);
/* The asker's connection, to be used by another thread; -errno. */
int socket_of_successor(const struct asker *who);
void socket_save(struct takeover_attachments *door);
/* A primary's own: root's, or its user's. */
bool socket_is_ours(const struct asker *who);
void socket_event(uint64_t tag);
/* With each event, and every LEFT_MS if some wait: who could not be let in for want of descriptors
 * may be now. true: some wait. */
bool socket_again(void);
bool socket_is_in(const struct asker *who, const uint32_t *gids, unsigned count);
void socket_close(void);

#endif
