/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The simulator's state, shared by sim.c (what happens) and oracle.c (what is allowed). One thread.
 */
#ifndef PMX_SIM_INTERNAL_H
#define PMX_SIM_INTERNAL_H

#include <setjmp.h>
#include <string.h>

#include "sim/sim.h"

#define NIL        UINT32_MAX
#define NS_PER_SEC 1000000000ull

/* The identity of a payload. */
struct ident {
	uint32_t message, generation; /* message: its slot; NIL: a frame without payload */
	uint32_t stream, order;       /* the order'th message of its stream */
	uint32_t frag, frag_len;
	uint32_t len;   /* of the message */
	uint32_t epoch; /* of the sender's life */
	uint32_t tag;
};

/* A message between sim_send and its completion. */
struct sim_message {
	uint32_t generation, stream, order, len, frags, frag_len, tag, epoch;
	uint32_t completed; /* fragments */
	uint64_t at;        /* when it was sent */
	uint8_t error;
	bool used, delivered, begun; /* begun: a frame of it has left */
	uint32_t next_free;
};

/* Messages from one context to another, in order. */
struct sim_stream {
	uint64_t key;
	uint32_t src, dst;
	uint16_t src_ctx, dst_ctx;
	uint32_t sent; /* next order */
	uint32_t seen; /* order + 1 of the newest delivered */
};

/* A received frame that was given to a core, which may keep it. */
struct sim_held {
	struct ident id;
	uint32_t node, next_free;
	bool used, kept;
};

struct packet {
	struct ident id;
	uint32_t edge; /* the edge that it travels on */
	uint32_t dst;  /* node, or NIL: all but its sender */
	uint32_t len;  /* PM header and payload, bytes */
	uint32_t next_free;
	uint16_t head_len;
	uint16_t sealed_len; /* bytes of it in sim.wires, as they go over the wire; 0: not sealed */
	bool judged_out, judged_in; /* whether each fault model has judged it */
	bool taken;                 /* by its receiver's processor */
	_Alignas(8) uint8_t head[WIRE_HDR_BYTES + WIRE_HOLES_MAX + 14];
};

enum event_kind {
	EVENT_ARRIVAL, /* a packet is at the end of its edge */
	EVENT_NODE,    /* a node has something to do */
	EVENT_TIMER,   /* an application's timer, of timers[] */
	EVENT_LEAVES,  /* a packet that its sender's processor is through with */
	EVENT_KEEPER,  /* a node's keeper of keys has something to do */
};

struct sim_event {
	uint64_t at;
	uint32_t order; /* orders events of the same time */
	uint32_t index;
	uint8_t kind; /* enum event_kind */
};

struct app_timer {
	uint32_t node, tag, next_free;
};

struct edge {
	struct sim_edge_stat stat;
	uint64_t free_at;     /* the line is busy until then */
	uint64_t ns_per_byte; /* 44.20 */
	uint64_t latency_ns;
	uint64_t buffer_bytes; /* 0 = no bound */
	/* what one host sends to one other gets no more, and its frames wait behind the link until
	 * it is their time; NULL: there is no such bound */
	uint64_t *pair_free_at; /* [src * hosts + dst] */
	uint64_t pair_ns_per_byte;
	uint32_t to;      /* vertex */
	uint32_t to_host; /* node, or NIL */
	uint32_t from_host;
	/* a switch's port: the last long frames that came, each of another pair than the one before
	 * it */
	struct {
		uint64_t until; /* when it leaves */
		uint32_t src, dst;
	} queued[8];
	uint32_t queued_next;
};

struct sim_context {
	bool open, paused, frozen, held, parked;
	uint64_t frozen_at;
	uint32_t held_entries, held_bulks;   /* delivered and not given back */
	uint32_t later_entries, later_bulks; /* ... of these, to be given back when it is no longer
					      * paused */
	uint32_t frag;                       /* next fragment of the message being delivered */
	struct ident part;                   /* that message */
};

struct sim_node {
	struct proto *core;
	struct proto_config cfg;
	uint64_t offset;     /* offset of its clock, ticks */
	uint64_t rate;       /* ticks per second of its clock, which the core believes to be
			      * ticks_per_sec */
	uint64_t wake_at;    /* time of its pending EVENT_NODE, SIM_NEVER = none */
	uint32_t uplink;     /* edge */
	uint64_t busy_until; /* its processor, by the topology's costs */
	struct sim_context *contexts;
	uint32_t handles; /* handles of its messages that the core has */
	uint32_t kept;    /* received frames that the core holds */
	uint32_t steps;
	bool faulty_out, faulty_in, cut_out, cut_in;
	uint8_t links_cut_out, links_cut_in; /* a bit each */
	struct rails *rails;                 /* of each peer; NULL: there is one link */
	uint64_t rails_at;                   /* next rails_step, SIM_NEVER = none */
	struct fault_model fault_out, fault_in;
};

struct seals;
struct wire_bytes;

/* Frames that carry bytes of their own, of whoever makes them (seal.c). */
struct sim_wrapping {
	void (*enter)(struct sim *s); /* this simulator runs now */
	/* Wrap a packet of a node's core. Return false if it does not leave now: then it is
	 * taken. */
	bool (*out)(struct sim *s, uint32_t node, uint32_t link, uint32_t packet);
	/* Look at a packet that leaves its node. */
	void (*leaves)(struct sim *s, uint32_t node, uint32_t packet);
	/* Copy, and flip a bit of, a wrapped packet's bytes. */
	void (*twin)(struct sim *s, uint32_t twin, uint32_t packet);
	void (*flip)(struct sim *s, uint32_t packet, uint32_t bit);
};

struct sim {
	struct sim_config cfg;
	struct seals *seals;                 /* seal.c; NULL: frames are not sealed */
	const struct sim_wrapping *wrapping; /* NULL: frames have no bytes of their own */
	struct wire_bytes *wires;            /* of packets, by index */
	uint32_t wire_cap;
	uint64_t now, random, digest, frames, pending;
	uint64_t kept; /* received frames that cores hold */
	uint32_t node_count, event_order, here;
	uint32_t edge_count; /* of one network; those of the second link's follow in `edges` */
	struct rails_config rails;
	struct sim_node *nodes;
	struct edge *edges;
	struct sim_event *events; /* 4-ary heap */
	struct sim_message *messages;
	struct sim_stream *streams;
	struct sim_held *held;
	struct packet *packets;
	struct app_timer *timers;
	uint32_t *stream_table; /* open addressing: index + 1 */
	uint32_t event_count, event_cap, message_count, message_cap, stream_count, stream_cap;
	uint32_t held_count, held_cap, packet_count, packet_cap, timer_count, timer_cap;
	uint32_t message_free, held_free, packet_free, timer_free, stream_mask;
	char error[256];
	jmp_buf *out; /* where a violation jumps to: into the outermost call */
};

/* events.c */
void *sim_grown(struct sim *s, void *array, uint32_t count, uint32_t *cap, size_t size);
uint64_t sim_random(struct sim *s);
void sim_digest_add(struct sim *s, uint64_t value);
uint64_t sim_ticks(const struct sim *s, const struct sim_node *n);
/* Return the first time at which the node's clock shows `ticks`. */
uint64_t sim_moment(const struct sim_node *n, uint64_t ticks);
void sim_schedule(struct sim *s, uint64_t at, enum event_kind kind, uint32_t index);
struct sim_event sim_next_event(struct sim *s);

/* In a handle: its frame is of a parked context, and its payload out of reach. */
#define PARKED_BIT (1ull << 63)

/* Take or give back a place of a pool, whose free places are linked by next_free. */
#define TAKE(s, array, name, index)                                                                \
	do {                                                                                       \
		if ((s)->name##_free != NIL) {                                                     \
			(index) = (s)->name##_free;                                                \
			(s)->name##_free = (s)->array[index].next_free;                            \
		} else {                                                                           \
			(s)->array = sim_grown(s, (s)->array, (s)->name##_count, &(s)->name##_cap, \
				sizeof(*(s)->array));                                              \
			(index) = (s)->name##_count++;                                             \
			memset(&(s)->array[index], 0, sizeof((s)->array[index]));                  \
		}                                                                                  \
	} while (0)
#define GIVE(s, array, name, index)                                                                \
	do {                                                                                       \
		(s)->array[index].next_free = (s)->name##_free;                                    \
		(s)->name##_free = (index);                                                        \
	} while (0)

/* oracle.c */
void sim_enter(struct sim *s); /* the core's assertions now belong to this simulator */
_Noreturn void sim_violation(struct sim *s, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void oracle_delivery(struct sim *s, uint32_t node, const struct ident *id,
	const struct proto_delivery *d);
void oracle_frame(struct sim *s, uint32_t node, uint32_t slot);
void oracle_completion(struct sim *s, uint32_t node, const struct proto_completion *c);
void oracle_books(struct sim *s, uint32_t node);
void oracle_clean(struct sim *s, uint32_t node);

/* ------------------------------------------------------------------ network.c */

/* Drop a frame, and give back its packet. */
void net_drop(struct sim *s, uint32_t packet);
void net_leave(struct sim *s, uint32_t node, uint32_t edge, uint32_t packet);
/* Handle a frame at the end of a cable. Return true if the node that it is for takes it now. */
bool net_arrive(struct sim *s, uint32_t packet);
/* Put a frame into the queue of a port. */
void net_enter(struct sim *s, uint32_t edge, uint32_t packet);
void net_trace(const struct sim *s, const char *what, const struct packet *k);
uint32_t net_link_of(const struct sim *s, const struct packet *k);
/* Return the one of the node's ports that has the longest queue. */
const struct edge *net_port(const struct sim *s, uint32_t node);
/* Return the bytes that wait in a port. */
uint64_t net_backlog(const struct sim *s, const struct edge *e);
/* Return the time that so many bytes take on a cable. */
uint64_t net_serialisation(const struct edge *e, uint32_t bytes);
uint64_t net_ns_per_byte(uint64_t bandwidth_bps); /* times 2^20 */
void net_transmit(struct sim *s, uint32_t node, const struct proto_out *o, uint32_t link);
uint32_t net_packet(struct sim *s); /* a new one */

/* ------------------------------------------------------------------ links.c */

uint32_t links_choose(struct sim *s, uint32_t node, const struct proto_out *o);
void links_expect(struct sim *s, uint32_t node, uint32_t peer);
void links_step(struct sim *s, uint32_t node);
void links_hear(struct sim *s, uint32_t node, uint32_t link, const struct wire_hdr *h);

#endif
