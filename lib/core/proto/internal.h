/* SPDX-License-Identifier: BSD-3-Clause
 *
 * State of the PM core, private to the files of lib/core/proto. All of it belongs to the thread
 * that owns the struct proto. Lists are linked by index, so that the whole state is one block of
 * memory whose only pointers into itself are the array bases.
 *
 * All timers:
 *   flow.rto_at     send probes first, then retransmit what awaits an Ack (PM-S4), or ask for room;
 *                   armed while a sent frame is not Acked, or while frames wait without credit
 *   flow idle       forget a flow that was not used for flow_idle
 *   flow patience   drop what is held for a sender that must have given up itself
 *   flow.ack_at     send an Ack that waited long enough for reverse data (PM-ACKC); in acks_due,
 *                   not in the wheel
 *                   of a frozen context: tell the receiver that there is more to come: freeze.c
 *   path.ask_at     repeat HELLO until it is answered
 *   path keepalive  send a PING to a silent peer that is in use
 */
#ifndef PMX_PROTO_INTERNAL_H
#define PMX_PROTO_INTERNAL_H

#include "base/likely.h"
#include "core/proto/proto.h"

#define NIL          UINT32_MAX
/* After so many questions for room or timeouts, intervals are not doubled further, if rto_max has
 * not bounded them before. */
#define ASKS_MAX     20
/* Payload that is taken to pass wherever anything does: of IPv6's smallest MTU, tunnelled. PINGs of
 * sequence 0 ask for life, others whether frames of so many bytes pass. */
#define PAYLOAD_SURE 1200
#define UNITS_PER_US (WIRE_TSTAMP_HZ / 1000000) /* of time stamps */

#define PROTO_ASSERT(x)                                                                            \
	do {                                                                                       \
		if (__builtin_expect(!(x), 0))                                                     \
			proto_assert_failed(#x, __FILE__, __LINE__);                               \
	} while (0)

#define ALWAYS_INLINE inline __attribute__((always_inline))

enum txd_state {
	TXD_UNSENT,   /* never sent; counted nowhere */
	TXD_INFLIGHT, /* sent; counted as in flight on its path */
	TXD_LOST,     /* believed lost; to be sent again; not in flight */
	TXD_KEPT,     /* a Nack showed that the peer holds it; not in flight */
};

/* A frame from proto_send to its Ack. The core owns the payload until the completion. */
struct txd {
	struct proto_completion done; /* its completion; error is 0 until then */
	uint32_t next; /* in its flow's queue, by sequence; or in the done list or the free list */
	uint32_t seq;
	uint32_t msg_len;
	uint32_t frag_off;
	uint32_t sent_ts; /* time stamp of the last transmission */
	uint32_t len;
	uint8_t state; /* enum txd_state */
	bool sent;     /* the payload was given to the link before */
};

/* A received frame that is held. */
struct rxd {
	uint64_t handle;
	uint32_t next;
	uint32_t seq;
	uint32_t msg_len;
	uint32_t frag_off;
	uint16_t len;
	uint16_t ctx;
	uint16_t src_node, src_ctx;
	bool last;
};

struct proto_list {
	uint32_t head, tail;
};

enum flow_tx_state {
	FLOW_TX_IDLE,    /* nothing sent in this life; the next frame opens the flow */
	FLOW_TX_OPENING, /* the opening frame is not Acked; nothing else is sent; rto_at runs */
	FLOW_TX_OPEN,    /* the peer knows the flow */
};

enum flow_rx_state {
	FLOW_RX_NONE,   /* nothing received */
	FLOW_RX_OPEN,   /* rcv_nxt is expected */
	FLOW_RX_CLOSED, /* given up by either side; frames before rcv_nxt are known to be old */
};

#define FLOW_ACTIVE  0x01 /* in its path's list of flows that may send */
#define FLOW_ACK_DUE 0x02 /* in acks_due */
#define FLOW_URGENT  0x04 /* in acks_urgent */
#define FLOW_NACK    0x08 /* the next Ack shall be a Nack with the holes */
#define FLOW_FULL    0x10 /* ... and says that there was no room */
#define FLOW_BLOCKED 0x20 /* in its context's list of flows that wait for room */
#define FLOW_GRANTED 0x40 /* room is set aside for the next message */
#define FLOW_REFUSED 0x80 /* the peer says that the context is not open */
/* send rcv_nxt and credit to the peer, even if no Ack is owed */
#define FLOW_UPDATE  0x100
#define FLOW_DEMAND  0x200  /* with BLOCKED: a message was refused and will come again */
#define FLOW_PROBE   0x400  /* one lost frame may go beyond the share */
#define FLOW_CLOSING 0x800  /* its context takes no more messages to send */
#define FLOW_FROZEN  0x1000 /* its context is frozen */
/* its context is parked: the frames of its unfinished message do not count in proto.assembling */
#define FLOW_PARKED  0x2000

/* One stream of messages in each direction between a local context and a peer's. */
struct flow {
	/* sending */
	uint64_t rto_at;     /* 0 = nothing awaits an Ack or credit */
	uint32_t snd_una;    /* oldest sequence not Acked */
	uint32_t snd_nxt;    /* next sequence never sent */
	uint32_t snd_end;    /* next sequence to assign */
	uint32_t credit_end; /* the receiver has room below this sequence */
	uint32_t now_end;    /* what is sent below this sequence may leave at once */
	uint32_t tx_head;    /* txd of snd_una */
	uint32_t tx_next;    /* txd of snd_nxt */
	uint32_t tx_tail;
	uint32_t lost;        /* txds in state TXD_LOST */
	uint32_t lost_cursor; /* txd at or before the first lost one */
	int32_t deficit;      /* bytes of this turn (deficit round robin) */
	uint16_t share;       /* frames in flight allowed by the receiver, 0 = window */
	uint8_t asks;         /* questions for room that were answered with "none", in a row */
	uint8_t tx_state;     /* enum flow_tx_state */
	uint8_t rx_state;     /* enum flow_rx_state */
	uint16_t flags;       /* FLOW_* */
	uint8_t retries;      /* timeouts since the peer last answered */
	uint8_t probes;       /* sent since the peer last answered, before the timeout */
	uint16_t kept;        /* txds in state TXD_KEPT */
	uint8_t rx_link;      /* proto_rx_link of the data frame that the next Ack answers */
	uint8_t unanswered;   /* REFUSED: timeouts since the peer last said so */
	uint16_t refused_at;  /* REFUSED: since when, coarse_of() */
	/* receiving */
	uint32_t rcv_nxt;            /* next sequence expected */
	uint32_t rcv_high;           /* one past the newest received */
	struct proto_list ooo;       /* held out of order, by sequence */
	struct proto_list frags;     /* of the message that is being received */
	uint32_t frags_left;         /* fragments missing from it */
	uint32_t frags_bulks;        /* bulk buffers reserved for it */
	uint32_t frag_len;           /* of all its fragments but the last */
	uint32_t need_bulks;         /* blocked or granted: buffers its next message takes; later,
				      * what the last such one took */
	uint32_t echo_base;          /* newest data's time stamp minus its arrival */
	uint32_t echo_gap;           /* time stamp units it may have waited for our poll */
	uint32_t acks_owed;          /* frames received since the last Ack */
	uint32_t nack_ts;            /* time stamp of the last Nack */
	uint32_t heard_ts;           /* ... of the last data received */
	uint32_t ack_next, ack_prev; /* links in the list acks_due or acks_urgent */
	uint64_t ack_at;
	uint64_t have[WIRE_WINDOW_MAX / 64]; /* received beyond rcv_nxt: bit seq %
					      * WIRE_WINDOW_MAX */
	/* place */
	union {
		uint64_t key; /* proto_flow_key of these three; 0 = free */
		struct {      /* little-endian, as all that this runs on */
			uint16_t node, peer_ctx, ctx;
		};
	};
	uint64_t wire_head; /* how its plain data frames begin: wire_head() (wire.h); 0 = free */
	uint32_t wire_ctxs; /* ... and the next word: wire_ctxs() */
	uint32_t path;
	uint32_t hash_next;
	uint16_t life;        /* changes with each flow_fail; not 0 */
	uint16_t watchers;    /* while not 0, silence does not open it anew: proto_flow_watch */
	uint32_t active_next; /* in the path's list */
	uint32_t blocked_next;
	uint64_t used_at; /* last frame in or out */
};

enum path_state {
	PATH_NEW,  /* HELLO not answered: flows wait; the timer of ask_at runs */
	PATH_OPEN, /* session agreed */
};

/* By what it has left to send, a flow sends sooner or later: send.c, note 1. */
enum send_class {
	SEND_SHORT, /* flows that have little to send */
	SEND_LONG,  /* all others */
	SEND_CLASSES,
};
#define SHORT_FRAMES 8 /* so much is little */

/* A flow with a share asks for an Ack after a quarter of it, but after so many frames at the
 * latest. */
#define ASK_SHARE_MAX 8

/* The state kept of one peer node. */
struct path {
	uint32_t session;
	uint32_t peer_epoch; /* 0 = unknown */
	uint32_t nonce;      /* ours; a HELLO that echoes it is fresh */
	uint32_t peer_nonce; /* to be echoed */
	uint16_t node;
	uint16_t hello_src, hello_dst; /* contexts, by which HELLO finds the engines */
	uint8_t state;                 /* enum path_state */
	bool used, ctl_queued;
	uint8_t listed, active; /* a bit for each enum send_class: there are such flows; it is in
				 * that list of paths */
	bool hello_due, hello_asks, ping_due;
	bool unlike;           /* struct proto_path_stat */
	bool wants_keys;       /* ... */
	uint8_t other_version; /* likewise */
	bool dead;             /* did not answer; what waits now was never sent to its old life */
	uint8_t asked;         /* HELLOs or PINGs since the last answer */
	uint32_t payload_max;
	uint32_t too_long;    /* struct proto_path_stat */
	uint16_t probe_len;   /* payload of the frames whose passing is asked for; 0: none */
	uint16_t passes;      /* the longest that is known to pass: PAYLOAD_SURE.. */
	uint8_t probe_shorts; /* those of PAYLOAD_SURE that were answered meanwhile */
	uint8_t probes_due;
	uint32_t window;        /* smaller of both reorder windows */
	struct wire_hello told; /* by the peer's last HELLO that was believed, or by any while there
				 * is no session; as it came */
	struct cc cc;
	struct {               /* the window before a timeout cut it: path_timeout */
		uint32_t flow; /* the flow that timed out; NIL: none */
		uint32_t at;   /* time stamp */
		uint32_t bytes, frames, slow;
	} cut;
	uint32_t srtt, rttvar; /* time stamp units; 0 = not measured; srtt x 8, rttvar x 4 */
	uint64_t rto;          /* ticks */
	uint64_t probe;        /* ticks to the first probe; rto, if there are none */
	uint32_t inflight_bytes, inflight_frames;
	uint32_t unasked; /* bytes sent since an Ack was asked for: send.c, note 5 */
	struct proto_list flows[SEND_CLASSES]; /* flows that may send, by enum send_class */
	uint32_t active_next[SEND_CLASSES];
	uint32_t ctl_next;
	uint32_t isn_floor; /* no flow of this path starts before this sequence */
	uint32_t flow_count;
	uint32_t owd_base, owd_next;  /* smallest one-way delays, each plus the offset of the two
				       * clocks: window_share.c */
	uint16_t owd_life;            /* ... and the `share.life` they are of; 0 = none */
	uint32_t hello_ts, hello_rtt; /* time stamp of the first HELLO with that nonce, 0 = none;
				       * how long the last answer took, time stamp units */
	uint32_t look_ts;             /* time stamp at which share_look last saw it */
	uint64_t heard_at, ask_at;    /* heard_at: also the last time when it was not in use */
	uint64_t asked_since;  /* while `asked`: when a message came that waits for the answer */
	uint64_t ping_at;      /* next PING of a peer that stays silent */
	uint64_t wanted_until; /* proto_node_wanted */
	struct proto_peer_counts count;
};

/* The facts about a flow whose frames come by several links: order.c. */
struct arrivals {
	uint32_t high[PROTO_LINKS_MAX]; /* one past the newest of each link, since frames are
					 * held */
	uint32_t told;                  /* holes below this sequence are known */
	uint32_t late;                  /* what is missing below this sequence is too late */
	uint32_t mark, mark_ts;         /* rcv_high at that time stamp */
};

/* The facts about a node that sends by several links. */
struct node_links {
	uint32_t base[PROTO_LINKS_MAX]; /* smallest round trip by each link, time stamp units; 0 =
					 * not known */
	uint8_t expected;               /* proto_node_links */
};

/* The states of a context that may be frozen: freeze.c. */
enum context_frozen {
	CONTEXT_GOES,   /* it is not */
	CONTEXT_DRAINS, /* it begins nothing, and what it has sent is sent until it is Acked */
	CONTEXT_HELD,   /* nothing of it is in flight any more */
	CONTEXT_PARKED, /* nor has it the memory of its frames */
};

/* A local context's receive room. */
struct context {
	bool open, closing;
	uint8_t frozen;                    /* enum context_frozen */
	bool copied;                       /* proto_ctx_copied */
	bool permits;                      /* proto_ctx_permits */
	uint32_t entries, bulks;           /* free */
	uint32_t bulks_max;                /* all the bulk buffers it has */
	uint32_t inline_max;               /* messages up to this need no bulk buffer */
	struct proto_list blocked;         /* flows that wait for room, first come first
					    * served */
	uint32_t pending;                  /* txds not completed */
	uint32_t flows;                    /* flows of it, counted across its lives */
	uint32_t kept_entries, kept_bulks; /* frozen: free as well, but nobody is told */
	uint32_t domain;                   /* proto_ctx_domain */
	uint16_t open_wait;                /* proto_ctx_open_wait, as coarse_of() */
};

/* An answer to a frame that has no flow or path of its own. */
struct stray {
	uint16_t node, src_ctx, dst_ctx;
	uint16_t flags;
	uint8_t type, link;
	uint32_t session, seq, ack, echo;
	uint16_t len; /* zeros that it carries */
};
#define STRAYS 64

struct timer {
	uint32_t next, prev;
	uint64_t at;   /* when its slot is visited; meaningless if not armed */
	uint16_t slot; /* TIMER_OFF = not armed */
};
#define TIMER_OFF   UINT16_MAX
#define WHEEL_SLOTS 512

struct wheel {
	uint32_t head[WHEEL_SLOTS];
	uint64_t busy[WHEEL_SLOTS / 64];
	uint64_t cursor; /* slot number (not reduced) of the next visit */
	uint32_t shift;  /* a slot is 1 << shift ticks */
};

/* The facts about the senders to this node, with times in time stamp units: window_share.c. */
struct proto_share {
	uint16_t each;              /* frames in flight that every Ack allows, 0 = no bound */
	uint16_t chance;            /* ... plus one, with a probability of chance / 65535 */
	uint16_t life;              /* number of the current period of smallest delays, for
				     * path.owd_life */
	uint16_t rounds;            /* rounds since that period began */
	uint32_t window;            /* of all senders together, sixteenths of a frame */
	uint32_t target, aim;       /* wanted wait: as configured, and at present */
	uint32_t last, wait;        /* wait of the last frame looked at, and as far as it is
				     * believed */
	uint32_t last_path, before; /* the path of that frame; wait of the last frame of another
				     * path */
	uint32_t look_ts, round_ts, life_ts; /* time stamps: of the last look, and when the round
					      * and the period began */
	uint32_t round_frames;               /* frames received until the round began */
	uint32_t senders, senders_before;    /* flows seen in this round, and in the previous one */
	uint32_t nodes, nodes_before;        /* ... of how many nodes */
	uint32_t asks;                       /* frames with which a sender used up what it was
					      * allowed */
	uint32_t holes;                      /* holes in sequences seen */
	uint32_t samples;
	uint32_t least; /* ... the smallest wait of them */
	uint64_t waits; /* ... their sum */
	uint32_t random;
};

/* A long message that is under way to this node: grants.c. */
struct grant {
	uint32_t flow, path;
	uint32_t left; /* frames missing, as of its last Ack */
	uint32_t at;   /* time stamp of that Ack */
	uint32_t told; /* share in it */
	uint16_t turn; /* how far its sender's number is above this node's */
};
#define GRANTS_MAX 32
struct proto_grants {
	uint32_t count;
	uint32_t frames_per_unit; /* that the port carries in a time stamp unit, times 2^16; 0: not
				   * known, no grants */
	struct grant of[GRANTS_MAX];
};

struct proto {
	struct proto_due due;
	struct proto_config cfg;
	struct proto_share share;
	struct proto_grants grants;
	uint64_t counters[PROTO_COUNTER_COUNT];
	struct txd *txds;
	struct rxd *rxds;
	struct flow *flows;
	struct path *paths;
	struct context *ctxs;
	uint32_t *buckets;           /* of flows by key */
	uint32_t *path_of;           /* node number -> path */
	uint64_t *strangers;         /* proto_node_stranger: a bit each */
	struct timer *timers;        /* flows, then paths */
	struct arrivals *arrivals;   /* by flow; NULL: all frames of a node come by one link */
	struct node_links *links_of; /* by node number */
	uint8_t rx_link;             /* proto_rx_link */
	uint32_t bucket_mask;
	uint32_t txd_free, rxd_free, flow_free, path_free;
	uint32_t txd_free_count, rxd_free_count, rxd_reserved, flow_count;
	uint32_t held;       /* frames held out of order */
	uint32_t assembling; /* frames of unfinished messages for copied contexts, those to
			      * come as well */
	struct proto_list ready[SEND_CLASSES]; /* paths that may send */
	uint32_t short_turns;                  /* turns of SEND_SHORT since the last of SEND_LONG */
	struct proto_list ctl;                 /* paths with a HELLO or PING to send */
	struct proto_list acks_due, acks_urgent;
	struct proto_list delivered, done, released;
	struct stray strays[STRAYS];
	uint32_t stray_head, stray_tail;
	uint32_t last_flow;          /* flow of the last frame received: a burst mostly comes from
				      * one flow */
	uint32_t last_tx;            /* flow of the last message sent: successive messages mostly
				      * take one flow */
	uint64_t ts_mult;            /* ticks -> time stamp units, 32.32 */
	uint64_t ticks_per_unit_q30; /* units -> ticks, 34.30 */
	uint64_t rto_min, rto_max, ack_delay, keepalive, flow_idle, rto_first, hello;
	uint32_t patience;   /* time stamp units after which a silent sender has given up:
			      * flow.c */
	uint64_t memory;     /* silence after which a flow may be forgotten if its place is needed:
			      * flow.c */
	uint16_t flow_lives; /* the value assigned last */
	uint64_t reopen;     /* silence after which a receiver may have forgotten a flow */
	uint64_t random;     /* numbers drawn */
	uint64_t born_at;    /* time of proto_init */
	uint64_t begun_at;   /* time of the last proto_begin */
	uint64_t waited;     /* ticks that frames of this turn may have waited: gap_of */
	uint64_t gap_for;    /* the ticks of which `gap` is the conversion to time stamp units */
	uint32_t gap;
	uint64_t grace_from; /* when this thread last ran again after an absence */
	bool graced;         /* no timer has run since then */
	bool backlog;        /* links had more frames than were taken, so those of the next turn
			      * have waited as well */
	bool starved;        /* a message was refused for want of frames: room.c, note 3 */
	uint32_t put_off;    /* turns for which timers were put off because of that */
	uint64_t stamp_at;   /* the time that was last converted to a time stamp */
	uint32_t stamp;      /* ... and that time stamp */
	struct wheel wheel;
	/* flow_drain(), for what lies below it: room.c */
	void (*drain)(struct proto *p, struct flow *f);
};

#define COUNT(p, name)         ((p)->counters[PROTO_##name]++)
#define COUNT_N(p, name, n)    ((p)->counters[PROTO_##name] += (n))
/* ... and of the peer at the other end of path t */
#define COUNT_OF(p, t, name)   (COUNT(p, name), COUNT_PEER(t, name, 1))
#define COUNT_PEER(t, name, n) ((t)->count.counters[PEER_##name] += (n))
#define FLOW_COUNT(p, f, name) COUNT_OF(p, &(p)->paths[(f)->path], name)

/* --- lists by index: LINK(i) is the lvalue of i's link --- */
#define LIST_APPEND(l, i, LINK)                                                                    \
	do {                                                                                       \
		uint32_t i_ = (i);                                                                 \
		LINK(i_) = NIL;                                                                    \
		if ((l)->head == NIL)                                                              \
			(l)->head = i_;                                                            \
		else                                                                               \
			LINK((l)->tail) = i_;                                                      \
		(l)->tail = i_;                                                                    \
	} while (0)
#define LIST_POP(l, LINK)                                                                          \
	do {                                                                                       \
		(l)->head = LINK((l)->head);                                                       \
	} while (0)

/* Note that there is something of that kind to pull. */
#define HAS(p, what) ((p)->due.has |= PROTO_HAS_##what)

static inline bool
list_empty(const struct proto_list *l)
{
	return l->head == NIL;
}

static inline uint32_t
units_of(const struct proto *p, uint64_t ticks)
{
	return (uint32_t)(((unsigned __int128)ticks * p->ts_mult) >> 32);
}

/* Convert a time to a time stamp. It is mostly the same time as in the last call. */
static inline uint32_t
stamp_of(struct proto *p, uint64_t now)
{
	if (unlikely(now != p->stamp_at)) {
		p->stamp_at = now;
		p->stamp = units_of(p, now);
	}
	return p->stamp;
}

/* Returns the same for long times in few bits: it counts 16 ms, and wraps around after 1073 s. */
#define COARSE_SHIFT 18
#define COARSE_MAX   ((1u << COARSE_SHIFT) - 1)
static inline uint16_t
coarse_of(struct proto *p, uint64_t now)
{
	return (uint16_t)(stamp_of(p, now) >> COARSE_SHIFT);
}

/* Return the time stamp units that frames of this turn may have waited in the host. */
static inline uint32_t
gap_of(struct proto *p)
{
	if (unlikely(p->waited != p->gap_for)) {
		p->gap_for = p->waited;
		p->gap = units_of(p, p->waited);
	}
	return p->gap;
}

static inline uint64_t
ticks_of(const struct proto *p, uint32_t units)
{
	return (uint64_t)(((unsigned __int128)units * p->ticks_per_unit_q30) >> 30);
}

static inline uint32_t
rxd_take(struct proto *p)
{
	uint32_t i = p->rxd_free;

	PROTO_ASSERT(i != NIL);
	p->rxd_free = p->rxds[i].next;
	p->rxd_free_count--;
	return i;
}

static inline void
rxd_put(struct proto *p, uint32_t i)
{
	p->rxds[i].next = p->rxd_free;
	p->rxd_free = i;
	p->rxd_free_count++;
}

static inline bool
have_test(const struct flow *f, uint32_t seq)
{
	return f->have[(seq % WIRE_WINDOW_MAX) / 64] >> (seq % 64) & 1;
}

static inline void
have_set(struct flow *f, uint32_t seq)
{
	f->have[(seq % WIRE_WINDOW_MAX) / 64] |= 1ull << (seq % 64);
}

static inline void
have_clear(struct flow *f, uint32_t seq)
{
	f->have[(seq % WIRE_WINDOW_MAX) / 64] &= ~(1ull << (seq % 64));
}

/* Return a random number. Nobody knows the next one. */
uint64_t proto_random(struct proto *p);
/* Return the secret of this node that only that other node is told. It is the same on all lanes. */
uint64_t proto_secret(const struct proto *p, uint16_t node);

/* wheel.c */
void timer_arm(struct proto *p, uint32_t index, uint64_t at);
void timer_stop(struct proto *p, uint32_t index);

/* queue.c */
void flow_close_tx(struct proto *p, struct flow *f);
void flow_begin_tx(struct proto *p, struct flow *f);
void flow_append(struct proto *p, struct flow *f);
void flow_enlist(struct proto *p, struct flow *f);
void path_unlist(struct path *t);
void path_activate(struct proto *p, struct path *t);
void txd_done(struct proto *p, uint32_t index, uint8_t error);
uint64_t flow_backoff(const struct proto *p, const struct flow *f);
void flow_lose_flight(struct proto *p, struct flow *f, struct path *t);
bool flow_say(struct proto *p, const struct flow *f, uint8_t type, uint16_t flags, uint32_t seq);
void stray_reply(struct proto *p, const struct wire_hdr *h, uint8_t type, uint16_t flags,
	const struct flow *ended);

/* owed.c */
void ack_owe(struct proto *p, struct flow *f, uint64_t now);
void ack_urgent(struct proto *p, struct flow *f, uint16_t flags);
void ack_unlist(struct proto *p, struct flow *f);

/* room.c */
bool room_has_frames(const struct proto *p, const struct context *c, uint32_t frames, bool held);
bool room_take(struct proto *p, struct flow *f, uint32_t bulks);
void room_wait(struct proto *p, struct flow *f, uint32_t bulks, bool demand);
void room_starve(struct proto *p, struct flow *f, uint32_t bulks);
void room_unblock(struct proto *p, struct flow *f);
/* Do others wait for room that the flow has taken? */
bool room_is_wanted(const struct proto *p, const struct flow *f);
void room_pass(struct proto *p, struct flow *f);
void room_add(struct proto *p, struct context *c, uint32_t entries, uint32_t bulks);
void room_feed(struct proto *p);
uint16_t room_credit(struct proto *p, struct flow *f);
uint32_t rxds_release(struct proto *p, struct proto_list *l);
void flow_drop_held(struct proto *p, struct flow *f);

/* flow.c */
uint32_t flow_make(struct proto *p, uint16_t ctx, uint16_t node, uint16_t peer_ctx, uint32_t path,
	uint64_t now);
void flow_freeze(struct proto *p, struct flow *f, uint64_t now);
void flow_fail(struct proto *p, struct flow *f, uint8_t error);
void flow_reopen(struct proto *p, struct flow *f, uint64_t now);
void flow_abort_rx(struct proto *p, struct flow *f, enum flow_rx_state state);
/* Give up what is set aside for the flow's sender, which has been silent for too long: flow.c, note
 * 3. */
void flow_give_up_sender(struct proto *p, struct flow *f);
void flow_forget(struct proto *p, uint32_t index);
/* Return whether a part of a message is here, of which the rest is to come. */
bool flow_has_begun(const struct flow *f);
bool flow_holds(const struct flow *f);
bool flow_idle_enough(const struct proto *p, const struct flow *f, uint64_t now, uint64_t idle);

/* swap.c */
void flow_swap_handles(struct proto *p, const struct flow *f, proto_swap swap, void *arg);

/* freeze.c */
uint32_t flow_rest(const struct proto *p, const struct flow *f);
void flow_keep(struct proto *p, struct flow *f, uint32_t seq, uint64_t now);
bool flow_frozen_timer(struct proto *p, struct flow *f, uint64_t now);
void flow_thaw_all(struct proto *p, uint16_t ctx, uint64_t now);

/* path.c */
uint32_t path_get(struct proto *p, uint16_t node, uint64_t now);
/* Do so for the sender of a frame: NIL if that is a stranger, too. */
uint32_t path_of_sender(struct proto *p, uint16_t node, uint64_t now);
void path_greet(struct proto *p, struct path *t, uint16_t src_ctx, uint16_t dst_ctx, bool ask);
/* Ask whether frames with so many bytes of payload pass at all, because one was sent and not
 * answered. */
void path_probe_size(struct proto *p, struct path *t, uint32_t len);
/* Note that a frame with so many bytes of payload, more than path.passes, has reached the peer. */
void path_passes(struct path *t, uint32_t len);
/* Handle a PONG with that sequence number. */
void path_answered(struct proto *p, struct path *t, uint32_t seq);
/* Ask a peer without a session for one, now and by timers. */
void path_ask(struct proto *p, struct path *t, uint16_t src_ctx, uint16_t dst_ctx, uint64_t now);
void path_rx_hello(struct proto *p, const struct wire_hdr *h, uint64_t now);
void path_timer(struct proto *p, uint32_t index, uint64_t now);
void path_rtt(struct proto *p, struct path *t, uint32_t rtt);
void path_timeout(struct proto *p, struct path *t, uint32_t flow, uint32_t now_ts);
void path_acked_late(struct proto *p, struct path *t, uint32_t flow, const struct wire_hdr *h);

/* ack.c */
void ack_received(struct proto *p, struct flow *f, const struct wire_hdr *h, uint64_t now);
void flow_await_credit(struct proto *p, struct flow *f, uint64_t now);
void nack_received(struct proto *p, struct flow *f, const struct wire_hdr *h, uint64_t now);
void flow_peer_began(struct proto *p, struct flow *f);
bool flow_go_on(struct proto *p, struct flow *f, const struct wire_hdr *h, uint64_t now);

/* control.c */
/* Write up to n frames of no flow. Returns how many. */
unsigned control_tx(struct proto *p, struct proto_out *out, unsigned n, uint32_t now_ts);

/* send.c */
void flow_rto(struct proto *p, uint32_t index, uint64_t now);

/* receive.c */
void flow_drain(struct proto *p, struct flow *f);

/* order.c */
void order_hold(struct proto *p, struct flow *f, uint32_t seq);
void order_next(struct proto *p, struct flow *f, uint32_t seq);
bool order_new_hole(struct proto *p, struct flow *f);
uint32_t order_lost_end(const struct proto *p, const struct flow *f);
uint32_t order_wait(const struct path *t);
bool order_is_mixed(const struct proto *p, uint16_t node);
uint32_t order_rtt(struct proto *p, uint16_t node, bool alone, uint32_t rtt);
void order_forget(struct proto *p, uint16_t node);
bool order_is_first(const struct proto *p, uint16_t node);

/* window_share.c */
void share_look(struct proto *p, struct flow *f, const struct wire_hdr *h);
uint16_t share_each(struct proto *p, uint32_t now);

/* grants.c */
/* Note that a long message has begun: all of f->frags_left is missing. */
void grant_begin(struct proto *p, const struct flow *f);
/* Note that the flow's message has ended. */
void grant_end(struct proto *p, const struct flow *f);
/* Return the share that the flow's next Ack carries: frames in flight, 0 = no bound. */
uint16_t grant_share(struct proto *p, const struct flow *f, uint32_t now);
/* Return how many frames in flight to or from that node fill this node's port, whose rate is
 * known. */
uint32_t grant_link_frames(const struct proto *p, const struct path *t);

static inline uint32_t
bucket_of(const struct proto *p, uint64_t key)
{
	return (uint32_t)((key * 0x9E3779B97F4A7C15u) >> 32) & p->bucket_mask;
}

/* Return the flow of that key, or NIL. */
static inline uint32_t
flow_search(const struct proto *p, uint64_t key)
{
	uint32_t i = p->buckets[bucket_of(p, key)];

	while (i != NIL && unlikely(p->flows[i].key != key))
		i = p->flows[i].hash_next;
	return i;
}

/* Return the flow of a received frame, or NIL. Look at `last_flow` first. */
static inline uint32_t
flow_find(struct proto *p, uint16_t ctx, uint16_t node, uint16_t peer_ctx)
{
	uint64_t key = proto_flow_key(ctx, node, peer_ctx);

	return likely(p->flows[p->last_flow].key == key) ? p->last_flow : flow_search(p, key);
}

static inline uint16_t
flow_next_life(struct proto *p)
{
	p->flow_lives += p->flow_lives == UINT16_MAX ? 2 : 1;
	return p->flow_lives;
}

static inline uint32_t
flow_index(const struct proto *p, const struct flow *f)
{
	return (uint32_t)(f - p->flows);
}

/* Check now and then whether the flow's sender is still there, because something is set aside for
 * it. */
static inline void
flow_watch(struct proto *p, struct flow *f)
{
	timer_arm(p, flow_index(p, f), p->stamp_at + p->memory);
}

/* Return the sequence up to which the flow may send before its next Ack, given that none of its
 * frames counts as lost. */
static inline uint32_t
flow_limit(const struct flow *f, const struct path *t)
{
	uint32_t end = f->snd_una + t->window;

	if (unlikely(f->share && f->share + f->kept < t->window))
		end = f->snd_una + f->share + f->kept;
	return wire_seq_before(f->credit_end, end) ? f->credit_end : end;
}

/* Let no message leave at once, because something waits, or is missing. */
static inline void
flow_forbid_now(struct flow *f)
{
	f->now_end = f->snd_nxt;
}

/* Find out anew whether messages may leave at once, after something of the flow's state changed.
 * The last that its window allows may not, for it asks for an Ack. */
static inline void
flow_allow_now(struct flow *f, const struct path *t)
{
	flow_forbid_now(f);
	if (f->tx_state == FLOW_TX_OPEN && f->tx_next == NIL &&
		(f->lost | f->kept | f->share) == 0 && !(f->flags & (FLOW_CLOSING | FLOW_FROZEN)))
		f->now_end = flow_limit(f, t) - 1;
}

/* Stop counting a sent frame as in flight, or as kept by the peer. */
static inline void
txd_landed(struct flow *f, struct path *t, const struct txd *d)
{
	if (d->state == TXD_INFLIGHT) {
		t->inflight_bytes -= d->len + WIRE_HDR_BYTES;
		t->inflight_frames--;
	} else if (d->state == TXD_KEPT) {
		f->kept--;
	}
}

/* Mark a frame to be sent again. The caller sets lost_cursor. */
static inline void
txd_lose(struct flow *f, struct path *t, struct txd *d)
{
	txd_landed(f, t, d);
	d->state = TXD_LOST;
	f->lost++;
	flow_forbid_now(f);
}

/* Return whether share_look() shall see a frame, which is of another flow than the one before it.
 * It shall not if a frame of the same node was the last that it saw, unless this one is the flow's
 * first in this round. */
static inline bool
share_wants(const struct proto *p, const struct flow *f)
{
	return p->share.target != 0 &&
		(f->path != p->share.last_path || (int32_t)(f->heard_ts - p->share.round_ts) < 0);
}

/* Return the same as room_credit(), without a call in the common case. */
static inline uint16_t
flow_credit(struct proto *p, struct flow *f)
{
	const struct context *c = &p->ctxs[f->ctx];
	uint32_t room = c->bulks && c->bulks < c->entries ? c->bulks : c->entries;

	if (unlikely(f->flags & (FLOW_BLOCKED | FLOW_GRANTED) || f->frags_left || room == 0 ||
		    (c->bulks == 0 && f->need_bulks)))
		return room_credit(p, f);
	return (uint16_t)(room < WIRE_WINDOW_MAX ? room : WIRE_WINDOW_MAX);
}

/* Return whether any flow may have something to send. */
static inline bool
any_ready(const struct proto *p)
{
	return (p->ready[SEND_SHORT].head & p->ready[SEND_LONG].head) != NIL; /* NIL is all ones */
}

static inline enum send_class
flow_class(const struct flow *f)
{
	return f->snd_end - f->snd_nxt + f->lost <= SHORT_FRAMES ? SEND_SHORT : SEND_LONG;
}

/* Enlist the flow among those that may send, because it may have something to send now. */
static inline void
flow_activate(struct proto *p, struct flow *f)
{
	const struct path *t = &p->paths[f->path];

	if (unlikely(!(f->flags & FLOW_ACTIVE) || (t->listed & ~t->active) != 0))
		flow_enlist(p, f);
}

static inline uint32_t
path_timer_index(const struct proto *p, const struct path *t)
{
	return p->cfg.flows_max + (uint32_t)(t - p->paths);
}

#endif
