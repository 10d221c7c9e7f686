/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a primary offers to other processes: attaching, and telemetry. Both answer on threads of their own
 * and reach lanes only by commands and by reading counters.
 */
#ifndef PMX_SERVE_H
#define PMX_SERVE_H

#include "engine/lane.h"
#include "serve/takeover.h"

/* Answer attach requests and watch the processes behind them. One node a process. door: what the primary before had, or NULL. 0 or
 * -errno. */
int attach_serve(struct node *n, const struct takeover_door *door);
/* Answer and watch no more; what is open stays so, for another: attach_door. */
void attach_pause(void);
void attach_door(struct takeover_door *door);
void attach_stop(void);

/* Register /pmx/... with rte_telemetry, for the node last given; NULL: none. */
void telemetry_serve(struct node *n);

/* ---- between attach.c and access.c, on the thread that watches processes */

#define SECONDARY (-1)

/* Who asks. */
struct asker {
	int connection;  /* a thin client's; SECONDARY */
	int pid;         /* as this process sees it; thin: 0 = it does not */
	uint32_t uid, gid; /* thin */
};

/* What a secondary on that connection, which is its sign of our life, needs to know before its EAL begins. */
void access_tell(const struct asker *who, struct attach_reply *reply);

/* Events of that thread; below these: a process. */
#define ACCESS_LISTENER   (UINT64_C(1) << 62)
#define ACCESS_CONNECTION (UINT64_C(1) << 61) /* | its number */

/* The reply, and up to two descriptors with it, which are the caller's to close. */
void attach_answer(const struct asker *who, const struct attach_request *request, const int *fds, int count,
	struct attach_reply *reply, int *out, int *out_count);
/* That connection ended: so do its contexts. */
void attach_gone(int connection);

int access_open(struct node *n, int epoll, const struct takeover_door *door);
/* The asker's connection, to be used by another thread; -errno. */
int access_heir(const struct asker *who);
void access_door(struct takeover_door *door);
/* A primary's own: root's, or its user's. */
bool access_is_ours(const struct asker *who);
void access_event(uint64_t tag);
/* With each event, and every LEFT_MS if some wait: who could not be let in for want of descriptors may be now. true: some wait. */
bool access_again(void);
bool access_is_in(const struct asker *who, const uint32_t *gids, unsigned count);
void access_close(void);

#endif
