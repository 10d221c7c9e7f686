/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PM core, sans-IO: reliable, ordered messages between contexts of nodes. One `struct proto`
 * belongs to one engine lcore (or one simulated node), and only that thread calls it. The caller
 * passes in frames, commands and the time, and pulls frames, deliveries and completions. The core
 * reads no clock, allocates nothing after proto_init, logs nothing, and calls nothing but mem* and
 * the assert hook. Sources: PM/UDP (IPSJ 1999) sections 2 and 3; what goes beyond is marked "ours".
 *
 * Design notes
 * 1. A caller exerts backpressure by not pulling. What it does not pull stays here, in descriptors
 *    that exist since proto_init, so nothing overflows.
 * 2. Payloads are opaque: a 64-bit handle that comes back exactly once, as a completion (sent
 *    frames) or as a delivery or release (received frames).
 * 3. Sequence numbers count frames of a flow; a message of k fragments takes k of them.
 * 4. A flow opens with one frame (WIRE_F_FIRST); the rest waits for that frame's Ack, so that its
 *    receiver never has to guess where the flow began. This costs one round trip for each life of a
 *    flow.
 * 5. Room is reserved before it is used: the first fragment of a message takes an LHS entry and all
 *    bulk buffers of its message from the context's room, or is refused (PM-R2). So several partly
 *    received messages can never starve each other.
 */
#ifndef PMX_PROTO_H
#define PMX_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire/wire.h"

struct proto;
struct cc_ops;

#define PROTO_LINKS_MAX 4

enum proto_recovery {
	PROTO_SELECTIVE, /* keep what arrived out of order, Nack the holes (ours) */
	PROTO_GO_BACK_N, /* discard until the first-Nacked frame arrives (PM-R5) */
};

/* All limits are fixed at init. Times in microseconds. */
struct proto_config {
	uint16_t node;          /* own number */
	uint32_t epoch;         /* random, not 0, another one at every start */
	uint64_t key[2];        /* random, and known to nobody else: all secrets, nonces and first
				 * sequences follow from it. The same in all lanes of a node */
	uint32_t lane;          /* of its node: each lane draws other numbers */
	uint64_t ticks_per_sec; /* rate of every `now`: 1 kHz .. 5 GHz */
	uint32_t nodes_max;     /* node numbers 0..nodes_max-1 */
	uint32_t contexts_max;  /* local contexts 0..contexts_max-1 */
	uint32_t flows_max;
	uint32_t context_flows;   /* most flows of one endpoint of a context, 0 = flows_max */
	uint32_t paths_max;       /* peer nodes at once */
	uint32_t tx_frames_max;   /* frames waiting for their Ack or to be sent, all flows */
	uint32_t rx_frames_max;   /* frames held: reordering, unfinished messages, undelivered */
	uint32_t hold_frames_max; /* ... of them for reordering; 0 = all */
	uint32_t assembly_frames_max; /* frames of unfinished messages for all proto_ctx_copied
				       * contexts together */
	uint32_t window_frames;       /* of a flow, 1..WIRE_WINDOW_MAX */
	uint32_t path_frames;         /* PM-ADV: most frames in flight to one node */
	uint32_t path_bytes;          /* PM-ADV: most bytes in flight to one node */
	uint32_t payload_max;         /* longest payload of a frame, bytes */
	uint32_t rto_min_us, rto_max_us;
	uint32_t retries;         /* unanswered timeouts before an error completion */
	uint32_t hello_us;        /* silence of a node that HELLO asks, after which it is absent */
	uint32_t probes;          /* probes for a lost tail before the first timeout: 0..7 */
	uint32_t ack_delay_us;    /* longest time that an Ack waits for reverse data */
	uint32_t ack_every;       /* frames received before an Ack is sent at once */
	uint32_t keepalive_us;    /* silence of a peer in use before it is sent a PING; 0 = never */
	uint32_t flow_idle_us;    /* silence after which a flow is forgotten; (retries + 4) *
				   * rto_max_us at least */
	uint32_t cc_target_us;    /* cc = delay: queueing delay that is accepted */
	uint32_t share_target_us; /* queueing delay that all senders to this node together may
				   * cause; 0 = no shares */
	uint64_t port_bps;        /* rate of this node's port, bit/s, if it is known, up to 1
				   * Tbit/s; 0: no grants */
	uint32_t links;           /* most links by which frames of one node come at a time, up to
				   * PROTO_LINKS_MAX; 0 = 1 */
	enum proto_recovery recovery;
	const struct cc_ops *cc;
	/* what HELLO tells the peers, besides */
	uint8_t lanes;
	bool checksum;
	char name[WIRE_NAME_BYTES]; /* 0 behind it, if there is room */
};

/* Counters: why received frames were not accepted, and what else happened. They have one writer and
 * are not atomic. Tests check that rx_frames = rx_accepted + rx_multi + rx_link + the sum of all
 * drop_*. */
#define PROTO_COUNTERS(X)                                                                          \
	X(rx_frames, "frames", "frames given to the protocol")                                     \
	X(rx_accepted, "frames", "frames accepted: in order, kept for later, or control")          \
	X(drop_truncated, "frames", "shorter than the header or than its length field says")       \
	X(drop_oversized, "frames", "longer than its length field says or than this node takes")   \
	X(drop_version, "frames", "another version of the protocol")                               \
	X(drop_type, "frames", "unknown frame type")                                               \
	X(drop_flags, "frames", "reserved flags set")                                              \
	X(drop_field, "frames", "a field outside its range, or fragments that do not fit")         \
	X(drop_not_mine, "frames", "for another node")                                             \
	X(drop_no_node, "frames", "from a node number outside the node table")                     \
	X(drop_stranger, "frames", "from a node that [nodes] does not have")                       \
	X(drop_no_path, "frames", "more peers at once than limits.peers")                          \
	X(drop_session, "frames", "of another life of this node or of the peer")                   \
	X(drop_nonce, "frames", "HELLO that answers no question of ours")                          \
	X(drop_absent, "frames", "for a context that is not open")                                 \
	X(drop_domain, "frames", "of a context of another domain than the one that they are for")  \
	X(drop_setting, "frames", "HELLO of a node with another proto.checksum")                   \
	X(drop_sealed, "frames", "of a node with security.mode, which this one has not")           \
	X(drop_no_flow, "frames",                                                                  \
		"no flow free: limits.flows, or limits.context_flows of its context")              \
	X(drop_unopened, "frames", "of a flow that was not opened, or no longer is")               \
	X(drop_old, "frames", "sequence already received (PM-R3)")                                 \
	X(drop_beyond, "frames", "sequence beyond the reorder window")                             \
	X(drop_gap, "frames", "out of order under recovery = go-back-n (PM-R5)")                   \
	X(drop_full, "frames", "no room at the receiving context (PM-R2)")                         \
	X(drop_no_hold, "frames", "no descriptor free to hold it: limits.mbufs")                   \
	X(tx_frames, "frames", "frames given to the link")                                         \
	X(tx_data, "frames", "data frames sent for the first time")                                \
	X(tx_retransmits, "frames", "data frames sent again")                                      \
	X(tx_acks, "frames", "frames that were nothing but an Ack")                                \
	X(tx_nacks, "frames", "Nacks sent")                                                        \
	X(tx_shares, "events", "a sender was told its window share: several nodes send")           \
	X(rx_acks, "frames", "frames received that were nothing but an Ack")                       \
	X(rx_nacks, "frames", "Nacks received")                                                    \
	X(rx_multi, "frames", "frames received that were sent to several nodes at once")           \
	X(rx_link, "frames", "... that ask whether their link works, or answer that")              \
	X(timeouts, "events", "retransmission timeouts (PM-S4)")                                   \
	X(tx_probes, "frames", "data frames sent again to learn whether the last were lost")       \
	X(room_questions, "frames",                                                                \
		"asked a receiver without room whether it has some now (PM-R2)")                   \
	X(window_cuts, "events", "windows shrunk by congestion control (PM-ADV)")                  \
	X(cuts_undone, "events", "windows given back: what a timeout took for lost was late")      \
	X(messages_sent, "messages", "messages whose every frame was Acked")                       \
	X(messages_failed, "messages", "messages that ended in an error completion")               \
	X(messages_delivered, "messages", "messages handed to their context")                      \
	X(messages_aborted, "messages", "half-received messages given up")                         \
	X(peer_restarts, "events", "peers that came back in a new life")                           \
	X(peer_deaths, "events", "peers that no longer answered")                                  \
	X(flows_opened, "flows", "flows made")                                                     \
	X(flows_reclaimed, "flows", "idle flows forgotten")                                        \
	X(flow_quota, "messages", "put off: their context has limits.context_flows under way")

enum proto_counter {
#define PROTO_COUNTER_ENUM(name, unit, help) PROTO_##name,
	PROTO_COUNTERS(PROTO_COUNTER_ENUM) /* one for each */
#undef PROTO_COUNTER_ENUM
	PROTO_COUNTER_COUNT
};

struct proto_counter_info {
	const char *name, *unit, *help;
};
extern const struct proto_counter_info proto_counter_info[PROTO_COUNTER_COUNT];

/* Counters of each peer, since this node first met it: X(name, unit, help). */
#define PROTO_PEER_COUNTERS(X)                                                                     \
	X(rx_frames, "frames", "frames of its session that came, taken or not")                    \
	X(rx_bytes, "bytes", "... with the protocol's headers, without those of the link")         \
	X(tx_frames, "frames", "data frames sent to it for the first time")                        \
	X(tx_bytes, "bytes", "... with the protocol's headers, without those of the link")         \
	X(tx_retransmits, "frames", "data frames sent to it again")                                \
	X(timeouts, "events", "retransmission timeouts (PM-S4)")                                   \
	X(window_cuts, "events", "windows shrunk by congestion control (PM-ADV)")                  \
	X(messages_failed, "messages", "messages to it that ended in an error completion")         \
	X(peer_restarts, "events", "new lives in which it came back")                              \
	X(drop_session, "frames", "of another life of this node or of it")                         \
	X(drop_absent, "frames", "for a context that is not open")                                 \
	X(drop_domain, "frames", "of a context of another domain than the one that they are for")  \
	X(drop_old, "frames", "sequence already received (PM-R3)")                                 \
	X(drop_beyond, "frames", "sequence beyond the reorder window")                             \
	X(drop_gap, "frames", "out of order under recovery = go-back-n (PM-R5)")                   \
	X(drop_full, "frames", "no room at the receiving context (PM-R2)")                         \
	X(drop_no_hold, "frames", "no descriptor free to hold it: limits.mbufs")

enum proto_peer_counter {
#define PROTO_PEER_ENUM(name, unit, help) PEER_##name,
	PROTO_PEER_COUNTERS(PROTO_PEER_ENUM) /* one for each */
#undef PROTO_PEER_ENUM
	PROTO_PEER_COUNTER_COUNT
};
extern const struct proto_counter_info proto_peer_counter_info[PROTO_PEER_COUNTER_COUNT];

/* Round trips are counted by powers of two: number i has those below PROTO_ROUND_TRIP_NS << i, and
 * the last one all others. */
#define PROTO_ROUND_TRIPS   24
#define PROTO_ROUND_TRIP_NS 62.5

/* One message to send. */
struct proto_message {
	uint16_t dst_node;
	uint16_t dst_ctx;
	uint32_t len;      /* bytes, 0..WIRE_MESSAGE_MAX */
	uint16_t ctx;      /* local context, open */
	uint32_t frag_len; /* bytes of every fragment but the last, 1..payload_max */
};

/* A frame to put on the link. */
struct proto_out {
	uint64_t handle;   /* payload of the frame, or PROTO_NO_HANDLE */
	uint32_t len;      /* bytes of that payload; without a handle: zeros behind head[] */
	uint16_t node;     /* destination */
	uint16_t head_len; /* bytes of head[]: header, and the payload of frames without a handle */
	bool again;        /* the payload was given out before, so the link may still hold it */
	uint8_t link;      /* without a handle: it answers what came by that link (proto_rx_link) */
	_Alignas(64) uint8_t head[WIRE_HDR_BYTES + WIRE_HOLES_MAX + 14];
};
#define PROTO_NO_HANDLE UINT64_MAX

/* A received fragment, in order. The fragments of a message come one right after the other. */
struct proto_delivery {
	uint64_t handle;
	uint32_t msg_len;  /* bytes of the whole message */
	uint32_t frag_off; /* bytes before this fragment */
	uint16_t len;      /* bytes of this fragment */
	uint16_t ctx;      /* local */
	uint16_t src_node, src_ctx;
	bool last; /* message complete */
};

/* A sent fragment that the core no longer needs. */
struct proto_completion {
	uint64_t handle;
	uint16_t ctx;
	uint8_t error;              /* 0, or a positive errno: ETIMEDOUT, ECONNRESET, ECONNREFUSED,
				     * EHOSTUNREACH */
	bool last;                  /* the message's last fragment */
	uint16_t dst_node, dst_ctx; /* with an error: the destination */
};

/* The results of proto_rx, which tell what it did with the handle. */
enum proto_rx_result {
	PROTO_RX_DONE,    /* not kept: the caller frees it */
	PROTO_RX_KEPT,    /* kept: it comes back by proto_deliver or proto_release */
	PROTO_RX_MESSAGE, /* this frame is a whole message, next in order, and room has been taken
			   * for it: deliver it now to the context that its header names. This
			   * spares the common case the detour through proto_deliver. */
	PROTO_RX_MULTI,   /* not kept: a well-formed MULTI frame of a node that may be there, whose
			   * payload is checked no further: for whoever knows the group */
	PROTO_RX_TWIN,    /* not kept: a HELLO of another node that has this one's number; its
			   * payload is a struct wire_hello */
	PROTO_RX_ANNOUNCED, /* not kept: another node tells all which number it has; its number
			     * is in the node table */
	PROTO_RX_LINK,      /* not kept: a well-formed LINK frame of a node that may be there: a
			     * question, or an answer of the session, if there is one */
};

struct proto_path_stat {
	uint32_t peer_epoch; /* 0 = not known */
	bool established;
	bool dead;             /* it did not answer when it was last asked */
	uint8_t other_version; /* of the protocol, which a frame of it had; 0: none had */
	bool wants_keys;       /* it sends frames of a handshake: it has security.mode */
	bool unlike;           /* its proto.checksum is another one, so there is no session */
	uint32_t too_long;     /* payload bytes of frames that do not reach it though others do;
				* 0: none */
	uint64_t rtt_ns, rtt_var_ns, rto_ns;
	uint32_t cwnd_bytes, cwnd_frames, inflight_bytes, inflight_frames;
	uint32_t flows;
	/* what the peer's last HELLO told; all 0 if peer_epoch is */
	uint32_t payload_max, window;
	uint8_t lanes;
	bool checksum;
	char name[WIRE_NAME_BYTES + 1];
};

struct proto_peer_counts {
	uint64_t counters[PROTO_PEER_COUNTER_COUNT];
	uint32_t round_trips[PROTO_ROUND_TRIPS];
	uint64_t heard_at; /* time of the last frame, in ticks; 0: none came */
};

/* Return the bytes of memory that a proto of this configuration needs; 0 if the configuration is
 * invalid. */
size_t proto_memsize(const struct proto_config *config);
/* Build a proto in `memory` (64-byte aligned, zeroed, proto_memsize bytes, owned by the caller).
 * Returns NULL if the configuration is invalid. */
struct proto *proto_init(void *memory, const struct proto_config *config, uint64_t now);

/* Go on with a core in other memory, even of another process: copy its block byte for byte, then
 * adopt the copy. All of its state goes on, including its epoch, so its peers notice nothing.
 * Handles mean something else there: replace them with proto_swap_handles. The original block must
 * not be used any more. Returns NULL if *config does not match the core's own (all but epoch, key,
 * what HELLO tells besides, a tick rate within 1/64, and cc, which must be the same algorithm). */
struct proto *proto_adopt(void *memory, const struct proto_config *config);
/* Return a number that differs between builds whose layouts of that memory differ. */
uint32_t proto_form(void);
/* Returns the handle that replaces `handle`. len: bytes of its payload; sent: whether it belongs to
 * a message sent or to a received frame. */
typedef uint64_t (*proto_swap)(void *arg, uint64_t handle, uint32_t len, bool sent);
/* Replace the handles of all frames that the core has. */
void proto_swap_handles(struct proto *p, proto_swap swap, void *arg);

/* Local contexts. Opening a context gives it the room of its receive side; proto_ctx_room adds room
 * as the application frees it, in LHS entries and bulk buffers. Closing with `linger` lets what was
 * submitted be delivered; without it, everything ends at once with ECONNRESET completions. */
int proto_ctx_open(struct proto *p, uint16_t ctx, uint32_t entries, uint32_t bulks,
	uint32_t inline_max, uint64_t now);
/* Declare that what arrives for this context is copied out of its frames once it is complete. Until
 * then the frames are not buffers of the context: the unfinished messages of all such contexts
 * together may take assembly_frames_max frames, and wait for them in turn. To be called right after
 * the context was opened, with at most that many bulk buffers. */
void proto_ctx_copied(struct proto *p, uint16_t ctx);
/* Declare that nobody sends more to this context than it has permitted by messages of its own
 * (lib/coll). So those who send to it are told no window share: a permit is one. To be called right
 * after the context was opened. */
void proto_ctx_permits(struct proto *p, uint16_t ctx);
/* Note that a receiver at that node has permitted so many bytes, which are about to be sent. While
 * the path's window still grows exponentially, because no frame was lost or late yet, each of them
 * counts as one that was Acked: the receiver knows the way to it, and would otherwise wait round
 * trips for what it has asked for. */
void proto_path_permitted(struct proto *p, uint16_t node, uint32_t bytes);
void proto_ctx_room(struct proto *p, uint16_t ctx, uint32_t entries, uint32_t bulks, uint64_t now);
/* Take room for a message that did not come through the core (a local sender's). Returns true if
 * there was room and, unless `jump` is set, no flow waits for it. */
bool proto_ctx_take(struct proto *p, uint16_t ctx, uint32_t entries, uint32_t bulks, bool jump);
void proto_ctx_close(struct proto *p, uint16_t ctx, bool linger, uint64_t now);
/* Return how many frames of the context are not completed yet. Once it is closed, 0 means that all
 * has ended. */
uint32_t proto_ctx_pending(const struct proto *p, uint16_t ctx);

/* Set for how long messages of this context to another one that is not open are tried again, before
 * they end with ECONNREFUSED. 0, as at first: they end at once. To be called right after the
 * context was opened. */
#define PROTO_OPEN_WAIT_MAX_US 600000000u
void proto_ctx_open_wait(struct proto *p, uint16_t ctx, uint32_t wait_us);

/* Whoever sends to the context must be of the same domain, a number that the frame tells that opens
 * its flow; 0: anybody may. What others send is refused as if the context were not open. To be
 * called right after the context was opened; of one that is not open nothing happens. */
void proto_ctx_domain(struct proto *p, uint16_t ctx, uint32_t domain);

/* Network preemption (PM-PREEMPT; PM/UDP, IPSJ 1999, sections 1 and 2): a context can be held up
 * for any time, and its peers see nothing but delay.
 *
 * freeze: from now on it begins no message, and takes none that begins: those are refused as for
 * want of room. What it has sent is sent until it is Acked or refused, with the rest of its
 * message, and the rest of what others have begun is received. No retry counts against it. settled:
 * nothing of it is on its way any more. hold: what still is counts as lost and waits, so it is
 * settled in any case; receivers are told now and then that more is to come. thaw: all goes on
 * where it was. Idempotent; of a context that is not open nothing happens. Messages may still be
 * given to proto_send() meanwhile: they wait. settled looks at all flows. */
void proto_ctx_freeze(struct proto *p, uint16_t ctx, uint64_t now);
bool proto_ctx_settled(const struct proto *p, uint16_t ctx);
void proto_ctx_hold(struct proto *p, uint16_t ctx, uint64_t now);
void proto_ctx_thaw(struct proto *p, uint16_t ctx, uint64_t now);

/* Parking: a held context gives up the memory of its frames until it is loaded. park replaces each
 * handle by what swap makes of it, by which the frame comes back should it be completed or released
 * meanwhile; none is given to proto_tx or proto_deliver. (What waits for proto_deliver,
 * proto_complete or proto_release already keeps its handle.) What came out of order is released;
 * the rest of a message that has begun is refused, as if there were no room. Returns false, having
 * done nothing, if the context is not held. load calls swap again for each frame that is still
 * there, after which the context is held. It returns -ENOSPC, having done nothing, while the frames
 * for unfinished messages of copied contexts do not suffice for its own; otherwise 0. thaw does
 * nothing to a parked context; closing it is as ever. */
bool proto_ctx_park(struct proto *p, uint16_t ctx, proto_swap swap, void *arg);
int proto_ctx_load(struct proto *p, uint16_t ctx, proto_swap swap, void *arg);

/* Say whether nobody here knows the node: then what it sends begins nothing, and it is not
 * answered. At first all are known. */
void proto_node_stranger(struct proto *p, uint16_t node, bool is);

/* Speak to the node no longer: what is sent to it ends with EHOSTUNREACH, and what it has sent in
 * part is given up. If it is spoken to again, that begins anew. */
void proto_node_gone(struct proto *p, uint16_t node);

/* Send one message of ceil(len / frag_len) fragments, with one handle for each (len 0: one).
 * Returns 0; -EAGAIN if no descriptor or flow is free now; -EHOSTUNREACH if there is no such node;
 * -EMSGSIZE; or -EINVAL. On an error no handle was taken; otherwise each handle comes back by
 * proto_complete. */
int proto_send(struct proto *p, const struct proto_message *m, const uint64_t *handles,
	uint64_t now);

/* Take back a message of that flow of which no frame was ever sent: `handle` is that of its last
 * fragment. Its handles come back by proto_complete with the error `error`, and it is never
 * delivered. Returns false, having done nothing, if there is no such message, or it is too late.
 * Looks at all frames of the flow. */
bool proto_withdraw(struct proto *p, uint64_t flow_key, uint64_t handle, uint8_t error);

/* Return the key that names the flow from a local context to another node's. Its low 32 bits are
 * node and context as they stand in a struct proto_message. */
static inline uint64_t
proto_flow_key(uint16_t ctx, uint16_t node, uint16_t dst_ctx)
{
	return 1ull << 48 | (uint64_t)ctx << 32 | (uint32_t)dst_ctx << 16 | node;
}

/* A message of one frame. */
struct proto_now {
	uint64_t handle;
	void *head;   /* its header is written there, WIRE_HDR_BYTES */
	uint32_t len; /* 0..frag_len bytes */
};

/* Send messages of one flow as long as they can leave at once: the flow is open, nothing waits to
 * be sent before them, and they do not use up any window. Their headers are written, and they count
 * as sent: the caller gives header and payload to the link. Spares the common message the way
 * through proto_tx. Returns how many of the n, n > 0, left; proto_send() is for the next one. */
unsigned proto_send_now(struct proto *p, uint64_t flow_key, const struct proto_now *messages,
	unsigned n, uint64_t now);

/* Pass in a received frame, without its encapsulation. `frame` is read only during the call. */
enum proto_rx_result proto_rx(struct proto *p, const void *frame, uint32_t len, uint64_t handle,
	uint64_t now);

/* Set the links by which frames of that node are to be expected now, a bit each. Nodes may send by
 * several links at once, on which frames overtake each other. A frame then counts as missing only
 * when each of these links has brought a later one, or after about a round trip. Fewer than two
 * links: it counts so at once, as with one link. With config.links > 1 only. */
void proto_node_links(struct proto *p, uint16_t node, uint32_t links);
/* Note that what is passed in from now on came by that link, below config.links. */
void proto_rx_link(struct proto *p, unsigned link);

/* Begin a turn of the caller's loop: what it receives may have waited since `before`, when the
 * previous turn began. A caller that passes in each frame at the moment it arrives (a simulator)
 * need not call this, nor need one in a turn in which it calls nothing else of the core. */
void proto_begin(struct proto *p, uint64_t before, uint64_t now);
/* Note that in this turn a link had more frames than were taken. The next ones have waited as long,
 * and the Acks that timers wait for may be among them. */
void proto_backlog(struct proto *p);
/* Return the time of the next timer, UINT64_MAX = none. It is never early by more than a timer
 * slot. */
uint64_t proto_deadline(const struct proto *p);

/* These bits say what there is to pull. */
#define PROTO_HAS_FRAMES      0x1u /* proto_tx */
#define PROTO_HAS_COMPLETIONS 0x2u /* proto_complete */
#define PROTO_HAS_DELIVERIES  0x4u /* proto_deliver, proto_release */

/* Every struct proto begins with what it has to give, and when it has to do something by itself.
 * The core writes it; the next three functions read it, so that a turn that finds nothing to do
 * costs little. */
struct proto_due {
	uint64_t tick_at; /* the timers have nothing to do before */
	uint64_t ack_at;  /* when the first Ack that waits for company is sent without it */
	unsigned has;     /* PROTO_HAS_ bits; one may be set though there is nothing any more */
};

/* Return what there is to pull now, in PROTO_HAS_ bits; an Ack that still waits for company is not
 * yet a frame. */
static inline unsigned
proto_has(const struct proto *p, uint64_t now)
{
	const struct proto_due *due = (const struct proto_due *)p;

	return due->has | (now >= due->ack_at ? PROTO_HAS_FRAMES : 0);
}

/* Return from which time on the core has something to give, or timers to run; 0 = now. Nothing
 * changes before unless something is passed in. */
static inline uint64_t
proto_due(const struct proto *p)
{
	const struct proto_due *due = (const struct proto_due *)p;

	if (due->has != 0)
		return 0;
	return due->ack_at < due->tick_at ? due->ack_at : due->tick_at;
}

bool proto_run_timers(struct proto *p, uint64_t now);

/* Run the timers, after received frames were passed in. Call it at proto_deadline at the latest.
 * Returns whether any timer may have run. */
static inline bool
proto_tick(struct proto *p, uint64_t now)
{
	return now >= ((const struct proto_due *)p)->tick_at && proto_run_timers(p, now);
}

/* Pull up to n items. Each returns how many it gave, 0 = nothing now. */
unsigned proto_tx(struct proto *p, struct proto_out *out, unsigned n, uint64_t now);
unsigned proto_deliver(struct proto *p, struct proto_delivery *out, unsigned n);
unsigned proto_complete(struct proto *p, struct proto_completion *out, unsigned n);
unsigned proto_release(struct proto *p, uint64_t *handles, unsigned n);

const uint64_t *proto_counters(const struct proto *p);
/* Write what is known of that node to *out. Return false if nothing is. */
bool proto_path_stat(const struct proto *p, uint16_t node, struct proto_path_stat *out);
/* Add the counts of that node to *out, which another core's may stand in already. Return false if
 * nothing is known of it. */
bool proto_peer_add(const struct proto *p, uint16_t node, struct proto_peer_counts *out);
/* Write a frame to head, WIRE_HDR_BYTES and a struct wire_hello, by which all that hear it and have
 * this node's number learn that there are two. */
void proto_announce(struct proto *p, void *head, uint64_t now);
/* Return how old this node is in its life, ms. */
uint32_t proto_age_ms(const struct proto *p);
/* Return the session with that node, which its frames must have; 0: there is none. */
uint32_t proto_session(const struct proto *p, uint16_t node);
/* Return the life of a node, a number that changes when it restarts; 0: there is no session with
 * it. */
uint32_t proto_peer_epoch(const struct proto *p, uint16_t node);
/* Have that node asked, until then, whether it is there: a local context wants to know. The node is
 * asked as if messages for it waited, or had been sent to it. proto_path_stat() tells what is
 * found. */
void proto_node_wanted(struct proto *p, uint16_t ctx, uint16_t node, uint64_t until, uint64_t now);
/* Return a number that changes when what a context sends to that other one has to begin anew:
 * because the receiver or its node is in a later life, or because nobody answered. What was Acked
 * before that may have reached a life that has ended. 0: nothing is known of that flow. */
uint32_t proto_flow_life(const struct proto *p, uint16_t ctx, uint16_t node, uint16_t dst_ctx);
/* Watch the flow, and return the number that proto_flow_life() returns. Until proto_flow_unwatch,
 * which is to be called as often, silence does not open the flow anew, so that what is sent next
 * shows whether the receiver is still in the same life. Return 0, watching nothing, if no flow is
 * free now. */
uint32_t proto_flow_watch(struct proto *p, uint16_t ctx, uint16_t node, uint16_t dst_ctx,
	uint64_t now);
void proto_flow_unwatch(struct proto *p, uint16_t ctx, uint16_t node, uint16_t dst_ctx);
uint32_t proto_flows_used(const struct proto *p);
uint32_t proto_tx_free(const struct proto *p);
uint32_t proto_rx_free(const struct proto *p);
/* Return the bytes of one flow's state, at most 256. */
size_t proto_flow_bytes(void);

/* Report a programming error that was detected, and do not return. To be defined by the program
 * that links the core. */
_Noreturn void proto_assert_failed(const char *what, const char *file, int line);

/* Congestion control, with one file for each algorithm. All hooks get the path's state; times are
 * in units of WIRE_TSTAMP_HZ. on_ack must not divide. */
struct cc {
	uint32_t window_bytes, window_frames; /* most that may be in flight */
	uint32_t max_bytes, max_frames;       /* the configured bound, PM-ADV */
	uint32_t min_bytes;                   /* never below: two full frames */
	uint32_t acc;                         /* Acked bytes since the window last grew */
	uint32_t slow;                        /* below this the window grows by the bytes Acked
					       * (slow start) */
	uint32_t base_rtt;                    /* smallest whole one, units; 0 = none */
	uint32_t target;                      /* delay: accepted queueing delay above base, units */
	uint32_t target_max;                  /* ... as configured */
	uint32_t full;                        /* delay: queueing delay at which frames were lost; 0
					       * = not known */
	uint32_t last_rtt;                    /* newest round trip without the hosts' waits; 0 =
					       * none */
	uint32_t step;                        /* bytes added a round trip: one full frame */
	uint32_t last_cut;                    /* time stamp of the last cut */
	uint32_t low;                         /* delay: smallest round trip of the last samples */
	uint32_t samples;                     /* how many samples those are */
};

struct cc_ops {
	const char *name;
	void (*on_ack)(struct cc *c, uint32_t acked_bytes, uint32_t rtt, uint32_t srtt,
		uint32_t now);
	/* A Nack names lost or refused frames. many: they are at least 4, and more than a third of
	 * the frames in flight. Returns true if the window was cut. */
	bool (*on_nack)(struct cc *c, bool many, uint32_t srtt, uint32_t now);
	bool (*on_timeout)(struct cc *c, uint32_t now);
	bool full_cuts;  /* a Nack because the receiver has no room calls on_nack too */
	bool slow_start; /* begins with few frames and with `slow` at the bound; otherwise the
			  * window begins at the bound */
};

extern const struct cc_ops cc_pm;    /* PM/UDP (IPSJ 1999), section 3 */
extern const struct cc_ops cc_delay; /* after Swift (SIGCOMM 2020), section 3.1 */

#endif
