/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One primary takes over from another of the same node, while applications and peers go on: it gets
 * the contexts of thin clients with their memory and connections, and the protocol core. Everything
 * is passed over the old primary's attach socket: an image of the engine's own state, and
 * descriptors of what it shares.
 *
 * Design notes
 * 1. As little as possible is moved while under way: the old primary begins nothing new
 *    (engine.frozen) and goes on until its transfers have ended; submissions stay where the clients
 *    wrote them. Frames may be in flight: the core moves with its sequence numbers, and retransmits
 *    what is lost while there is no port.
 * 2. Sent messages are in the clients' own buffers: only received frames that the core holds are
 *    copied.
 * 3. Both must be of the same build and configuration, since the image is a copy of their memory.
 *    Otherwise the old primary refuses, and goes on.
 * 4. A client may have changed its memory so that another process cannot map it, or written
 *    nonsense there. Then only its own contexts and connection end.
 * 5. Secondaries map the old primary's hugepages, which DPDK cannot pass to another process: their
 *    contexts end, and pmx_reattach() opens them again.
 */
#ifndef PMX_TAKEOVER_H
#define PMX_TAKEOVER_H

#include "engine/lane.h"

/* Result of the reply by which the old primary asks whether the other is still there, which answers
 * with one byte. The reply that says how it ends comes after that. */
#define TAKEOVER_READY 1

/* ---- the old primary */
/* Give everything to node->successor, and close the ports. Lanes and the watcher must have stopped.
 * Return 0, or -errno if the other did not get it. */
int takeover_give(struct node *n);

/* ---- the new primary */
struct takeover;
/* Ask the primary that listens at path to hand over. It stops, and its state is in the result.
 * Return NULL with a message in error. */
struct takeover *takeover_ask(struct node *n, const char *path, char *error, uint32_t error_len);
/* Continue in the node, whose ports must be open, where the other stopped. Return 0, or -errno with
 * a message in error. */
int takeover_resume(struct node *n, struct takeover *t, char *error, uint32_t error_len);
/* Free the state of a take-over. Call this after attach_serve() with its attachments. */
void takeover_free(struct takeover *t);

/* ---- for attach.c and socket.c: what they pass on */
struct takeover_attachments {
	int listener;
	char path[108];
	unsigned connections;
	struct {
		int fd;
		int number; /* in the table of socket.c */
		int pid;
		uint32_t uid, gid;
		bool bad; /* to be closed, since one of its contexts could not go on */
	} connection[1024 + 64];
	int owner[WIRE_CONTEXTS_MAX];           /* by context: number of its connection, or
						 * SECONDARY */
	uint32_t generation[WIRE_CONTEXTS_MAX]; /* of the open that it owns */
};
const struct takeover_attachments *takeover_attachments(const struct takeover *t);

#endif
