/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Many nodes in virtual time on one thread: the shipped PM core (lib/core/proto) at every host of a
 * topology, store-and-forward switches with a drop-tail queue at each port, the fault model of
 * drivers/fault on every host's cable, and a model of each context's receive room. A run depends
 * only on its configuration and seed, and is reproducible bit by bit. Time is in ns from 0; each
 * node has a clock of its own rate.
 *
 * An oracle checks the run. It ends it (sim_error) when a message arrives twice, out of order
 * within its flow, incomplete, at the wrong place or in a life that it was not meant for; when a
 * send completes without having arrived, completes twice, or does not complete; when a handle,
 * descriptor or buffer leaks; when room, windows or pools exceed their bounds; and when a core's
 * counters do not add up.
 *
 * Design notes
 * 1. A switch port is represented by one number, the time when its line will be free. The length of
 *    its queue follows from that, so a hop costs one event, and drop-tail one comparison.
 * 2. Payloads are identities (message, fragment, sender's life), not bytes: if identity and bounds
 *    are equal, so are the bytes. A frame with a flipped bit is dropped, as the engine's checksum
 *    would do.
 * 3. Hosts poll without pause, and their CPUs take no time, so what is measured is the network. A
 *    host's port accepts frames up to a backlog of nic_bytes; the core keeps the rest.
 */
#ifndef PMX_SIM_SIM_H
#define PMX_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "coll/topology.h"
#include "fault_model.h"
#include "core/proto/proto.h"
#include "core/rails/rails.h"
#include "seal/seal.h"

#define SIM_NEVER        UINT64_MAX
#define SIM_RATE_OF_LINK UINT64_MAX /* proto_config.port_bps: as the topology says */

struct sim;

/* A network whose frames are sealed: seal.h. */
struct sim_seal {
	const struct cipher *cipher; /* NULL: one that is none, and fast */
	enum seal_mode mode;
	bool certificates;     /* of one authority; otherwise each node is told the keys of the
				* others */
	bool cluster;          /* all have a secret in common */
	bool far;              /* keys begin near the ends of their counts */
	uint32_t speed;        /* keys grow old so many times as fast; at least 1 */
	uint32_t keeper_ns;    /* a keeper needs up to so long until it looks at its mail */
	uint32_t dh_ns;        /* it computes so long for a shared secret, half as long for a public
				* key */
	uint32_t withheld_ppm; /* messages of handshakes that are delayed by up to withheld_ns */
	uint64_t withheld_ns;
	uint32_t unbegun_ppm; /* first frames of new keys that are lost */
	uint64_t clocks_ns;   /* clocks differ by up to so much, and a restart sets them anew */
};

struct sim_config {
	const struct topology *topology;     /* must outlive the simulator; its hosts are the
					      * nodes */
	struct proto_config proto;           /* configuration of every node; node, epoch and key
					      * are set by the simulator */
	uint32_t entries, bulks, inline_max; /* receive room of every context, as for
					      * proto_ctx_open */
	bool permits;                        /* proto_ctx_permits for all contexts */
	uint16_t kept;  /* contexts below this number keep the entry of a message until sim_room;
			 * others give it back when the message is delivered */
	uint32_t links; /* nodes have so many links, each to a network like that of
			 * `topology`; up to RAILS_MAX; 0 = 1 */
	uint64_t link_skew_ns;     /* each network is slower than the one before it by so much */
	bool spread;               /* frames go by all links that work (lib/core/rails) */
	uint32_t nic_bytes;        /* most bytes that wait in a host's own port */
	struct fault_config fault; /* faults on each host's cable, in both directions; its seed is
				    * mixed with that of the simulator */
	uint32_t drift_ppm;        /* each clock runs fast or slow by a random part of this */
	bool audit;                /* check counters and bounds after every step, which halves the
				    * speed */
	uint64_t seed;
	const struct sim_seal *seal; /* NULL: frames are not sealed; it must outlive the
				      * simulator */
	FILE *trace;                 /* NULL, or where to write a line for each frame */
	/* Called before a node starts, also after a restart, to change its configuration. May be
	 * NULL. */
	void (*configure)(void *arg, uint32_t node, struct proto_config *proto);
	/* Called when something happens to an application. They may send, but not free the
	 * simulator. Any may be NULL. tag: the message's. */
	void (*delivered)(void *arg, struct sim *s, const struct proto_delivery *d, uint32_t tag);
	void (*completed)(void *arg, struct sim *s, uint32_t node, uint32_t tag, int error);
	void (*timer)(void *arg, struct sim *s, uint32_t node, uint32_t tag);
	/* A frame of sim_multicast arrived at sim_here(s). */
	void (*multicast)(void *arg, struct sim *s, uint32_t src, uint32_t tag);
	void *arg;
};

/* Statistics of one direction of a link. */
struct sim_edge_stat {
	uint64_t frames, bytes; /* sent, including WIRE_FRAME_EXTRA */
	uint64_t drops;         /* frames dropped because the queue was full */
	uint64_t queue_max;     /* bytes */
	uint64_t idle_max;      /* longest time that the line was idle, ns */
	uint32_t senders_max;   /* most senders of one destination with long frames in its queue,
				 * beside the one that is on the line; told apart up to 8 */
};

/* Return a configuration like the engine's default, for so many nodes. mtu: bytes of a frame behind
 * its Ethernet header. */
struct proto_config sim_defaults(uint32_t nodes, uint32_t mtu);

struct sim *sim_new(const struct sim_config *config);
void sim_free(struct sim *s);

uint64_t sim_now(const struct sim *s);
/* on: call proto_flow_watch and return its result; otherwise call proto_flow_unwatch and return
 * 0. */
uint32_t sim_watch(struct sim *s, uint32_t src, uint16_t src_ctx, uint32_t dst, uint16_t dst_ctx,
	bool on);
/* Return the node's core, for inspection. */
const struct proto *sim_core(const struct sim *s, uint32_t node);
/* Return the node for which a hook is running. */
uint32_t sim_here(const struct sim *s);
/* Return NULL, or the violation that the oracle found. The run is over then, and every other call
 * returns at once. */
const char *sim_error(const struct sim *s);

int sim_open(struct sim *s, uint32_t node, uint16_t ctx);
void sim_close(struct sim *s, uint32_t node, uint16_t ctx, bool linger);
/* Send a message; tag is passed to the hooks. Returns 0 or the error of proto_send; -ENOMEM; -EPIPE
 * after a violation. */
int sim_send(struct sim *s, uint32_t src, uint16_t src_ctx, uint32_t dst, uint16_t dst_ctx,
	uint32_t len, uint32_t tag);
/* proto_path_permitted */
void sim_permitted(struct sim *s, uint32_t src, uint32_t dst, uint32_t len);
/* Send one frame with len bytes of payload to all other nodes: switches copy it. tag is passed to
 * the hook. 0; -EAGAIN: the port is full; -EPIPE after a violation. */
int sim_multicast(struct sim *s, uint32_t src, uint16_t src_ctx, uint32_t len, uint32_t tag);
/* Return whether the node's own port takes no more frames now. */
bool sim_port_is_full(const struct sim *s, uint32_t node);
/* Have config.timer called at that time. */
void sim_at(struct sim *s, uint64_t at, uint32_t node, uint32_t tag);
/* Give back some entries of a context that keeps them (sim_config.kept). */
void sim_room(struct sim *s, uint32_t node, uint16_t ctx, uint32_t entries);
/* Let a context's application stop giving room back, or resume. */
void sim_pause(struct sim *s, uint32_t node, uint16_t ctx, bool paused);
/* Freeze a context (proto_ctx_freeze), hold it, hold and park it, or load it if it is parked and
 * let it go on. It is a violation if it begins a message meanwhile, takes one that was sent later,
 * sends anything while it is held, or takes anything or needs a payload while it is parked. */
void sim_freeze(struct sim *s, uint32_t node, uint16_t ctx);
void sim_hold(struct sim *s, uint32_t node, uint16_t ctx);
void sim_park(struct sim *s, uint32_t node, uint16_t ctx);
void sim_thaw(struct sim *s, uint32_t node, uint16_t ctx);
/* Restart a node, with a new epoch and no context open. */
void sim_restart(struct sim *s, uint32_t node);
/* Events of nodes that seal their frames. */
enum sim_seal_act {
	SIM_TAKE_OVER, /* another process goes on for the node: its keys are gone, its core stays */
	SIM_REKEY,     /* keys for `peer` are wanted, though there may be good ones */
	SIM_NEW_KEY,   /* the node has another key of its own from now on */
	SIM_LEARN,     /* the node reads the others' keys anew, where it was told them */
	SIM_THIEF,     /* who sees all frames sends some to `peer`, from the node's place: as they
			* were, changed, or put together */
	SIM_BURST,     /* the network loses a long row of frames to `peer` */
	SIM_HEALED,    /* all is well from now on: all nodes must soon have keys */
};
void sim_seal_act(struct sim *s, uint32_t node, uint32_t peer, enum sim_seal_act what);
struct sim_seal_count {
	uint64_t sealed, opened, forged, replayed, unknown; /* frames; the last three: refused */
	uint64_t agreed, messages; /* handshakes that came to keys at one end; their messages */
};
struct sim_seal_count sim_seal_counts(const struct sim *s);
/* Return whether the node has keys to seal frames to the peer with. */
bool sim_is_sealed(const struct sim *s, uint32_t node, uint32_t peer);
/* Use another fault model on a host's cable from now on. */
void sim_fault(struct sim *s, uint32_t node, const struct fault_config *fault);
/* Cut a host's cable for outgoing and for incoming frames, until the next call. */
void sim_cut(struct sim *s, uint32_t node, bool out, bool in);

/* Cut one of a host's links, for outgoing and for incoming frames, until the next call. */
void sim_cut_link(struct sim *s, uint32_t node, uint32_t link, bool out, bool in);

/* Run until the time `until`, or until no event is left. Returns false if the oracle found a
 * violation. */
bool sim_run(struct sim *s, uint64_t until);
/* Run until every send is completed and no core holds a received frame. It is a violation if that
 * takes longer than within_ns, or if a descriptor or handle is left then. Returns false if the
 * oracle found a violation. */
bool sim_settle(struct sim *s, uint64_t within_ns);

/* Set how fast frames leave by that edge from now on: bit/s, at least 1000. */
void sim_edge_rate(struct sim *s, uint32_t edge, uint64_t bandwidth_bps);
const struct sim_edge_stat *sim_edge(const struct sim *s, uint32_t edge);
/* Reset the statistics. */
void sim_edge_reset(struct sim *s, uint32_t edge);
uint64_t sim_frames(const struct sim *s);  /* frames that reached a host */
uint64_t sim_pending(const struct sim *s); /* messages sent and not completed */
uint64_t sim_digest(const struct sim *s);  /* digest of the whole history so far */

#endif
