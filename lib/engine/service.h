/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Services of the engine: what it does beside plain messages (remote memory, matching), each behind
 * one table of functions. A lane calls them; lib/node/services.c lists them. A function that a
 * service has no use for is NULL. doc/architecture.md says how to add one.
 *
 * Design notes
 * 1. A service has a number, which is the tag of the handles that it gives to the core and the
 *    index of its state in lanes and channels. Handles are addresses that 8 divides, with the
 *    number added; 0 is the engine's own.
 * 2. It owns endpoints of each context (wire.h) and submissions of clients (enum submit_op): what
 *    comes for these is its to judge.
 * 3. It says by service_busy() that it wants turns, so a lane without work for it pays for one test
 *    of a word.
 */
#ifndef PMX_ENGINE_SERVICE_H
#define PMX_ENGINE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct channel;
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

#define SERVICES_MAX    8 /* numbers 1 to 7 */
#define SERVICE_TAG     7u
#define ENDPOINTS_MAX   16
#define SUBMISSIONS_MAX 32

/* A submission of a client, copied. Returns slots consumed; 0: not now. */
typedef unsigned (
	*service_submit)(struct engine *e, struct channel *ch, const struct submission *s);

struct service_ops {
	const char *name;
	uint8_t number;
	uint16_t endpoints;  /* bit N: N << 12 */
	uint16_t sends;      /* ... from which it hears of send buffers that failed */
	uint32_t image_form; /* differs if what save() writes does */

	/* ---- before lanes poll, and after: 0, or -errno with a sentence */
	int (*make)(struct engine *e, char *error, size_t error_len);
	void (*free)(struct engine *e);
	int (*make_context)(struct node *n, struct channel *ch);
	void (*free_context)(struct channel *ch);

	/* ---- a context's life, on its lane */
	/* Its channel was formatted, or is another primary's: begin anew. */
	void (*join)(struct node *n, struct channel *ch);
	/* It opens: so do the endpoints. */
	void (*open)(struct engine *e, struct channel *ch);
	/* It ends, gracefully if it lingers: so do the endpoints, and what is under way. */
	void (*close)(struct engine *e, struct channel *ch, bool linger);
	/* ... and afterwards in each turn: true: nothing of it is on its way any more. */
	bool (*closed)(struct engine *e, struct channel *ch);
	/* That piece of its memory goes. Services are told in the order of the list. */
	void (*memory_gone)(struct engine *e, struct channel *ch, const struct memory *m);

	/* ---- to and from the core */
	/* A message of len bytes for one of its endpoints, in one frame, behind the header in m,
	 * which is the service's from now on. The core has given one entry of the endpoint's room
	 * for it. The context may have ended meanwhile. */
	void (*message)(struct engine *e, struct channel *ch, struct rte_mbuf *m, uint32_t len);
	/* The mbuf that carries a handle of the service, with room for headers and a reference for
	 * the link; NULL: none. */
	struct rte_mbuf *(
		*frame)(struct engine *e, const struct proto_out *o, const struct peer *peer);
	/* The core is done with it. error: 0 or an errno. */
	void (*completed)(struct engine *e, struct channel *ch, uint64_t handle, uint8_t error);
	/* A send buffer of the client, sent from one of `sends`, ended with an error. */
	void (*send_failed)(struct engine *e, struct channel *ch, const struct send_slot *s,
		const struct send_failure *f);
	/* Another lane of this node put it into the lane's inbox. */
	void (*handed_over)(struct engine *e, uint64_t handle);

	/* ---- to and from clients */
	/* By enum submit_op: slots consumed; 0: not now. */
	service_submit submit[SUBMISSIONS_MAX];
	/* Results go to the client, which channel.results asks for: true: all of them did; false:
	 * its ring is full. */
	bool (*results)(struct engine *e, struct channel *ch);
	/* Messages may have landed in channels that were touched (engine.dirty); before they are
	 * flushed. Of services that attend. */
	void (*landed)(struct engine *e);

	/* ---- turns */
	/* While it is busy: returns what it moved. It says itself when it is not any more. */
	unsigned (*step)(struct engine *e);
	/* While it owes answers that need nobody else (service_owes), behind deliveries. */
	unsigned (*answer)(struct engine *e);
	/* Something is under way that no event will wake a sleeping lane for. */
	bool (*awake)(const struct engine *e);

	/* ---- another primary takes over (lib/serve/takeover.h) */
	/* Nothing new is begun for the context from now on, in each turn of a frozen lane; and it
	 * goes on after all. */
	void (*freeze)(struct engine *e, struct channel *ch);
	void (*thaw)(struct engine *e, struct channel *ch);
	/* Has all ended that cannot be moved: of the context; of the lane (ch NULL)? */
	bool (*drained)(const struct engine *e, const struct channel *ch);
	/* Of the lane, before channels; of each channel. restored: all of them are there;
	 * each but save: false: it cannot be what another primary had. */
	void (*save)(const struct engine *e, struct image_out *o);
	bool (*restore)(struct engine *e, struct image_in *in);
	void (*save_context)(const struct channel *ch, struct image_out *o);
	bool (*restore_context)(struct channel *ch, struct image_in *in);
	bool (*restored)(struct engine *e);
};

/* A node's services, by what finds them. */
struct services {
	const struct service_ops *list[SERVICES_MAX]; /* in their order; NULL behind the last */
	unsigned count;                               /* of the list */
	const struct service_ops *numbered[SERVICES_MAX];
	const struct service_ops *endpoint[ENDPOINTS_MAX];
	const struct service_ops *sender[ENDPOINTS_MAX];
	service_submit submit[SUBMISSIONS_MAX];
};

/* Each of them, in their order; and in the reverse, for what ends. */
#define SERVICE_FOREACH(ops, s)                                                                    \
	for (const struct service_ops *const *at_ = (s)->list, *ops; (ops = *at_) != NULL; at_++)
#define SERVICE_FOREACH_REVERSE(ops, s)                                                            \
	for (const struct service_ops *const *at_ = (s)->list + (s)->count, *ops;                  \
		at_ != (s)->list && (ops = *--at_) != NULL;)

/* Fills *s from a list. -EINVAL: two of them want the same. */
int services_init(struct services *s, const struct service_ops *const *list);

#endif
