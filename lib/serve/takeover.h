/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One primary takes over from another of the same node, while applications and peers go on: the
 * contexts of thin clients with their memory, their connections, and the protocol core. Everything
 * is given over the old one's attach socket: an image of what is the engine's own, and descriptors
 * of what it shares.
 *
 * Design notes
 * 1. What is under way is not moved if it need not be: the old one begins nothing new
 *    (engine.frozen) and goes on until its transfers have ended; submissions stay where the clients
 *    wrote them. Frames in flight stay in flight: the core moves with its sequence numbers, and
 *    sends again what is lost while there is no port.
 * 2. What was sent is in the clients' own buffers: only what was received and is held by the core
 *    travels as bytes.
 * 3. Both must be of one build and one configuration: the image is their memory as it is. Others
 *    are refused, and the old one goes on.
 * 4. A client may have made its memory such that another process cannot map it, or its numbers
 *    nonsense. Its context ends then, and its connection, and nobody else's.
 * 5. Secondaries map the old one's hugepages, and DPDK has no way to give these to another process:
 *    their contexts end, and pmx_reattach() opens them again.
 */
#ifndef PMX_TAKEOVER_H
#define PMX_TAKEOVER_H

#include "engine/lane.h"

/* ---- the old one */
/* Give all of it to node->successor. Lanes and the watcher have stopped; the ports close. 0 or
 * -errno: the other has not got it. */
int takeover_give(struct node *n);

/* ---- the new one */
struct takeover;
/* Ask the primary that listens at path: it stops, and its state is here. NULL, with a sentence. */
struct takeover *takeover_ask(struct node *n, const char *path, char *error, uint32_t error_len);
/* The node, which has its ports, goes on where the other stopped. 0, or -errno with a sentence. */
int takeover_resume(struct node *n, struct takeover *t, char *error, uint32_t error_len);
/* After attach_serve with it. */
void takeover_free(struct takeover *t);

/* ---- for attach.c and socket.c: what they hand on */
struct takeover_attachments {
	int listener;
	char path[108];
	unsigned connections;
	struct {
		int fd;
		int number; /* in the table */
		int pid;
		uint32_t uid, gid;
		bool bad; /* it ends: a context of its could not go on */
	} connection[1024 + 64];
	int owner[WIRE_CONTEXTS_MAX];           /* by context: number of a connection, SECONDARY */
	uint32_t generation[WIRE_CONTEXTS_MAX]; /* of the open that it owns */
};
const struct takeover_attachments *takeover_attachments(const struct takeover *t);

#endif
