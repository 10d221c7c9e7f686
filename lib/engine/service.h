/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Services of the engine: what it does besides plain messages (remote memory, matching, groups,
 * collectives). Each is a table of functions, which a lane calls; lib/features/engine.c lists them.
 * A function that a service does not need is NULL. doc/internals/architecture.md says how to add
 * one.
 *
 * Design notes
 * 1. A service has a number, which tags the handles that it gives to the core and is the index of
 *    its state in lanes and channels. A handle is an address that is a multiple of 8, plus the
 *    number; the engine's own handles have the number 0.
 * 2. It owns endpoints of each context (wire.h) and submissions of clients (enum submit_op), and
 *    must check whatever comes to these.
 * 3. It asks for turns by service_busy(), so a lane without work for services pays only for the
 *    test of one word.
 */
#ifndef PMX_ENGINE_SERVICE_H
#define PMX_ENGINE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct channel;
struct command;
struct engine;
struct image_in;
struct image_out;
struct memory;
struct node;
struct peer;
struct proto_out;
struct rte_mbuf;
struct send_failure;
struct send_slot;
struct submission;
struct wire_hdr;

#define SERVICES_MAX    8 /* numbers 1 to 7 */
#define SERVICE_TAG     7u
#define ENDPOINTS_MAX   16
#define SUBMISSIONS_MAX 32

/* Handles a submission of a client; s is the engine's copy. Returns the slots consumed, or 0 if it
 * cannot be taken now. */
typedef unsigned (
	*service_submit)(struct engine *e, struct channel *ch, const struct submission *s);

struct service_ops {
	const char *name;
	uint8_t number;
	uint16_t endpoints;  /* bit N: the endpoint N << 12 */
	uint16_t sends;      /* likewise; failed send buffers of these are reported to
			      * send_failed() */
	uint32_t image_form; /* must change whenever the format that save() writes does */

	/* ---- before lanes poll, and after they stopped: 0, or -errno with a message */
	int (*make)(struct engine *e, char *error, size_t error_len);
	void (*free)(struct engine *e);
	int (*make_context)(struct node *n, struct channel *ch);
	void (*free_context)(struct channel *ch);

	/* ---- a context's life, on its lane */
	/* The channel was formatted, or comes from another primary: reset the state. */
	void (*join)(struct node *n, struct channel *ch);
	/* The context opens: open the endpoints. */
	void (*open)(struct engine *e, struct channel *ch);
	/* The context ends, gracefully if linger: close the endpoints, and end what is under
	 * way. */
	void (*close)(struct engine *e, struct channel *ch, bool linger);
	/* Called in each turn after close(): whether nothing of the context is on its way any
	 * more. */
	bool (*closed)(struct engine *e, struct channel *ch);
	/* The context begins to end; close() follows. Return whether what it has sent can still be
	 * delivered. */
	bool (*ending)(struct engine *e, struct channel *ch);
	/* A piece of the context's memory is about to be removed. Services are told in the reverse
	 * of the list's order. */
	void (*memory_gone)(struct engine *e, struct channel *ch, const struct memory *m);

	/* ---- to and from the core */
	/* A message of len bytes arrived for one of the service's endpoints, in one frame. It lies
	 * behind the PM header in m, which passes to the service. The core has taken one entry of
	 * the endpoint's room for it. The context may have ended meanwhile. */
	void (*message)(struct engine *e, struct channel *ch, struct rte_mbuf *m, uint32_t len);
	/* The mbuf to transmit for a handle of the service, with headroom for the headers and a
	 * reference for the link; NULL: none. */
	struct rte_mbuf *(
		*frame)(struct engine *e, const struct proto_out *o, const struct peer *peer);
	/* The core is done with the handle. error: 0 or an errno. */
	void (*completed)(struct engine *e, struct channel *ch, uint64_t handle, uint8_t error);
	/* A send buffer that the client sent from one of `sends` ended with an error. */
	void (*send_failed)(struct engine *e, struct channel *ch, const struct send_slot *s,
		const struct send_failure *f);
	/* A frame that was sent to several nodes at once arrived: its PM header, then the payload.
	 * One service may have this. */
	void (*multicast)(struct engine *e, const struct wire_hdr *h);
	/* Return whether that context, of any node, is a member of the group `id` of context ctx of
	 * this lane, and ctx itself is one. One service may have this; without it nobody is. */
	bool (*has_member)(const struct engine *e, uint16_t ctx, uint32_t id, uint16_t node,
		uint16_t peer);
	/* Do a command of another thread, COMMAND_SERVICE or above; return its result. One service
	 * may have this. */
	int (*command)(struct engine *e, const struct command *cmd);
	/* Another lane of this node put the handle into this lane's inbox. */
	void (*handed_over)(struct engine *e, uint64_t handle);

	/* ---- to and from clients */
	/* By enum submit_op. */
	service_submit submit[SUBMISSIONS_MAX];
	/* Writes results to the client; called while the service's bit is set in channel.results.
	 * Returns true if all were written, false if the client's ring is full. */
	bool (*results)(struct engine *e, struct channel *ch);
	/* Messages may have landed in the channels of engine.dirty. Called before these are
	 * flushed, if the service's bit is set in engine.attends. */
	void (*landed)(struct engine *e);

	/* ---- turns */
	/* Called in each turn while the service is busy, which it ends by service_idle(). Returns
	 * how much it moved. */
	unsigned (*step)(struct engine *e);
	/* Called after deliveries while the service owes answers (service_owes). Returns how much
	 * it moved. */
	unsigned (*answer)(struct engine *e);
	/* Return whether something is under way whose progress does not wake a sleeping lane.
	 * Called while the service is busy. */
	bool (*awake)(const struct engine *e);
	/* When a sleeping lane must take a turn, by the TSC, UINT64_MAX: never; called while
	 * busy. */
	uint64_t (*deadline)(const struct engine *e);

	/* ---- preemption (lib/preempt) */
	/* The context begins nothing more until start. settled: whether nothing that it began is on
	 * its way. */
	void (*stop)(struct engine *e, struct channel *ch);
	void (*start)(struct engine *e, struct channel *ch);
	bool (*settled)(const struct engine *e, const struct channel *ch);

	/* ---- another primary takes over (lib/primary/takeover.h) */
	/* freeze is called for each context in each turn of a frozen lane: begin nothing new for
	 * it. thaw: the lane goes on after all. */
	void (*freeze)(struct engine *e, struct channel *ch);
	void (*thaw)(struct engine *e, struct channel *ch);
	/* Return whether all that cannot be moved has ended: of the context, or of the lane if ch
	 * is NULL. */
	bool (*drained)(const struct engine *e, const struct channel *ch);
	/* The state that moves: the lane's (save, restore), then each channel's (save_context,
	 * restore_context); restored is called when all are there. false: no primary can have saved
	 * this. */
	void (*save)(const struct engine *e, struct image_out *o);
	bool (*restore)(struct engine *e, struct image_in *in);
	void (*save_context)(const struct channel *ch, struct image_out *o);
	bool (*restore_context)(struct channel *ch, struct image_in *in);
	bool (*restored)(struct engine *e);
};

/* A node's services, indexed by whatever identifies them. */
struct services {
	const struct service_ops *list[SERVICES_MAX]; /* in the order given; NULL after the last */
	unsigned count;                               /* entries of the list */
	const struct service_ops *numbered[SERVICES_MAX];
	const struct service_ops *endpoint[ENDPOINTS_MAX];
	const struct service_ops *sender[ENDPOINTS_MAX];
	service_submit submit[SUBMISSIONS_MAX];
	void (*multicast)(struct engine *e, const struct wire_hdr *h);
	bool (*has_member)(const struct engine *e, uint16_t ctx, uint32_t id, uint16_t node,
		uint16_t peer);
	int (*command)(struct engine *e, const struct command *cmd);
};

/* Loops over the services in their order; the other in the reverse, for what ends. */
#define SERVICE_FOREACH(ops, s)                                                                    \
	for (const struct service_ops *const *at_ = (s)->list, *ops; (ops = *at_) != NULL; at_++)
#define SERVICE_FOREACH_REVERSE(ops, s)                                                            \
	for (const struct service_ops *const *at_ = (s)->list + (s)->count, *ops;                  \
		at_ != (s)->list && (ops = *--at_) != NULL;)

/* Fill *s from a NULL-terminated list. Return 0, or -EINVAL if there are too many, a number is out
 * of range, or two services claim the same number, endpoint or submission, or both have
 * multicast(), has_member() or command(). */
int services_init(struct services *s, const struct service_ops *const *list);

#endif
