/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Many nodes in virtual time on one thread: the shipped PM core (lib/proto) at every host of a
 * topology, store-and-forward switches with a drop-tail queue at each port, the fault model of
 * drivers/fault on every host's cable, and a model of each context's receive room. A run is a
 * function of its configuration and seed, bit by bit. Time is in ns from 0; each node has a clock
 * of its own rate.
 *
 * An oracle looks on. It ends the run (sim_error) when a message arrives twice, out of order within
 * its flow, torn, at the wrong place or in a life that it was not meant for; when a send completes
 * without having arrived, twice or not at all; when a handle, descriptor or buffer leaks; when
 * room, windows or pools exceed their bounds; when a core's counters do not add up.
 *
 * Design notes
 * 1. A switch port is one number: when its line will be free. What is queued follows from it, so a
 *    hop costs one event, and drop-tail one compare.
 * 2. Payloads are identities (message, fragment, sender's life) and not bytes: equal identity and
 *    bounds are equal bytes. A frame with a flipped bit is dropped, as the engine's checksum does.
 * 3. A host polls without pause and its CPU takes no time: what is measured is the network's.
 *    A host's port takes frames up to nic_bytes of backlog; the core keeps the rest.
 */
#ifndef PMX_SIM_SIM_H
#define PMX_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "coll/topology.h"
#include "fault_model.h"
#include "proto/proto.h"

#define SIM_NEVER       UINT64_MAX
/* bytes of a frame on the wire beyond the PM header: Ethernet 14, FCS 4, preamble and gap 20 */
#define SIM_FRAME_EXTRA 38

struct sim;

struct sim_config {
	const struct topology *topology;     /* kept; its hosts are the nodes */
	struct proto_config proto;           /* of every node; node, epoch and seed are set here */
	uint32_t entries, bulks, inline_max; /* receive room of every context, as
					      * proto_ctx_open's */
	uint16_t kept; /* contexts below this number keep the entry of a message until sim_room;
			* others give it back when it is delivered */
	uint32_t nic_bytes;        /* most that waits in a host's own port */
	struct fault_config fault; /* on each host's cable, both ways; its seed is mixed with
				    * ours */
	uint32_t drift_ppm;        /* clocks run fast or slow by up to that, each by its own
				    * part */
	bool audit;                /* check books and bounds after every step: half the
				    * speed */
	uint64_t seed;
	FILE *trace; /* NULL: none; a line a frame */
	/* Before a node starts, also after a restart: change what shall differ. May be NULL. */
	void (*configure)(void *arg, uint32_t node, struct proto_config *proto);
	/* What applications hear; may send, may not free. Any may be NULL. tag: the message's. */
	void (*delivered)(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag);
	void (*completed)(void *arg, struct sim *s, uint32_t node, uint32_t tag, int error);
	void (*timer)(void *arg, struct sim *s, uint32_t node, uint32_t tag);
	void *arg;
};

/* What moved over one direction of a link. */
struct sim_edge_stat {
	uint64_t frames, bytes; /* that left, with SIM_FRAME_EXTRA */
	uint64_t drops;         /* for want of queue */
	uint64_t queue_max;     /* bytes */
	uint64_t idle_max;      /* longest that the line waited for a frame, ns */
};

/* A core as the engine configures it by default, for so many nodes; bytes of a frame behind
 * Ethernet. */
struct proto_config sim_defaults(uint32_t nodes, uint32_t mtu);

struct sim *sim_new(const struct sim_config *config);
void sim_free(struct sim *s);

uint64_t sim_now(const struct sim *s);
/* proto_flow_watch, and 0 by proto_flow_unwatch */
uint32_t sim_watch(struct sim *s, uint32_t src, uint16_t src_ctx, uint32_t dst, uint16_t dst_ctx,
	bool on);
/* The node's core, to look at. */
const struct proto *sim_core(const struct sim *s, uint32_t node);
/* The node whose hook runs. */
uint32_t sim_here(const struct sim *s);
/* NULL, or what the oracle found; the run is over then, and every other call returns at once. */
const char *sim_error(const struct sim *s);

int sim_open(struct sim *s, uint32_t node, uint16_t ctx);
void sim_close(struct sim *s, uint32_t node, uint16_t ctx, bool linger);
/* One message; tag comes back with it. 0, or what proto_send says. */
int sim_send(struct sim *s, uint32_t src, uint16_t src_ctx, uint32_t dst, uint16_t dst_ctx,
	uint32_t len, uint32_t tag);
/* Call config.timer at that time. */
void sim_at(struct sim *s, uint64_t at, uint32_t node, uint32_t tag);
/* A context that keeps its entries gives some back. */
void sim_room(struct sim *s, uint32_t node, uint16_t ctx, uint32_t entries);
/* A context's application stops giving room back, or goes on. */
void sim_pause(struct sim *s, uint32_t node, uint16_t ctx, bool paused);
/* The node dies and starts again: new epoch, no context open. */
void sim_restart(struct sim *s, uint32_t node);
/* Another fault model on a host's cable, from now on. */
void sim_fault(struct sim *s, uint32_t node, const struct fault_config *fault);
/* Not a frame passes a host's cable out (and in), until said otherwise. */
void sim_cut(struct sim *s, uint32_t node, bool out, bool in);

/* Let time pass until `until`, or until nothing is left to happen. False: the oracle spoke. */
bool sim_run(struct sim *s, uint64_t until);
/* Let time pass until every send is completed and no core holds a received frame; the oracle speaks
 * if that takes longer than within_ns, and when anything is left then: a descriptor, a handle. */
bool sim_settle(struct sim *s, uint64_t within_ns);

const struct sim_edge_stat *sim_edge(const struct sim *s, uint32_t edge);
/* Count from now on. */
void sim_edge_reset(struct sim *s, uint32_t edge);
uint64_t sim_frames(const struct sim *s);  /* that reached a host */
uint64_t sim_pending(const struct sim *s); /* messages not completed */
uint64_t sim_digest(const struct sim *s);  /* of the whole history so far */

#endif
