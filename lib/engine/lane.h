/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The types that all of lib/engine works on: a lane, its channels and their node. Everything in
 * struct engine and in the channels of its lane belongs to the thread that calls engine_poll
 * (loop.h). A node is started in the caller's thread before any lane polls, and stopped after all
 * lanes have stopped.
 *
 * Design notes
 * 1. A context belongs to the lane ctx % lanes, with all its flows. A frame that arrives on
 *    another lane's queue is handed over through that lane's inbox (an rte_ring).
 *    A lane without a transmit queue of its own leaves its frames in the link's handover ring;
 *    lane 0 sends them.
 * 2. Every mbuf has one owner: the pool, a link's queue, the core (as a handle), or a context
 *    (bufs[].owner for received bulk, send_slot for send buffers). Only the engine writes these.
 * 3. After the start nothing is allocated: no rte_malloc, memzone, mempool, no libc heap.
 */
#ifndef PMX_LANE_H
#define PMX_LANE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>
#include <rte_ring.h>

#include "base/contended.h"
#include "channel/channel.h"
#include "config/config.h"
#include "engine/service.h"
#include "link.h"
#include "memory/memory.h"
#include "core/arp/arp.h"
#include "core/proto/proto.h"
#include "core/wire/siphash.h"
#include "core/wire/wire.h"

#define BURST_MAX     64
#define TX_QUEUE      128 /* frames waiting for a link that was full */
#define POOL_CACHE    256
#define HANDOVER_RING 4096                 /* frames */
#define PAYLOAD_START RTE_PKTMBUF_HEADROOM /* of a send buffer, from buf_addr */
#define BUF_FREE      0xFFFF               /* owner: none */
/* The events for which a lane's epoll watches an eventfd. It is edge-triggered, so that each write
 * is an event and nobody has to read the counter back. */
#define RINGS         (EPOLLIN | EPOLLET)
/* The number by which a lane's epoll knows the doorbell of that context; it has 0 for all else. */
#define BELL_OF(ctx)  (1u + (ctx))

/* Counters of a lane: what was received and sent, and what went wrong between link and core. Each
 * lane is the only writer of its own. */
#define ENGINE_COUNTERS(X)                                                                         \
	X(polls, "polls", "turns of the loop")                                                     \
	X(idle_polls, "polls", "turns that found nothing to do")                                   \
	X(sleeps, "events", "times the lcore slept or napped")                                     \
	X(wakeups, "events", "sleeping applications woken")                                        \
	X(rx_frames, "frames", "frames taken from links")                                          \
	X(rx_arp, "frames", "of ARP, on links with encap = udp")                                   \
	X(drop_foreign, "frames", "of other protocols on the same port")                           \
	X(drop_short, "frames", "too short for their encapsulation and header")                    \
	X(drop_bad_ip, "frames",                                                                   \
		"of encap = udp with malformed IPv4 or UDP: version, lengths, checksum")           \
	X(drop_fragment, "frames",                                                                 \
		"of encap = udp that came as IP fragments: link.mtu is above the path's")          \
	X(drop_other_mac, "frames",                                                                \
		"of encap = udp to another MAC address than the port's: mac= of a peer")           \
	X(drop_segmented, "frames", "in several mbufs: link.mtu is below the peer's")              \
	X(drop_no_checksum, "frames", "without checksum, though proto.checksum = on")              \
	X(drop_checksum, "frames", "with a wrong checksum")                                        \
	X(drop_unsealed, "frames", "without a seal, though security.mode is not off")              \
	X(drop_key, "frames", "sealed with keys that this lane does not have (any more)")          \
	X(drop_auth, "frames", "with a wrong seal: forged, or changed on their way")               \
	X(drop_replay, "frames", "sealed, that came a second time or are too old to know")         \
	X(drop_handshake, "frames",                                                                \
		"of handshakes, malformed, not for this key, or more than are answered")           \
	X(keys_begun, "keys", "agreed on with peers and begun")                                    \
	X(cookies, "frames", "that ask a peer under load to show that it is there")                \
	X(tx_no_key, "frames", "not sent: no keys for their peer yet")                             \
	X(handed_over, "frames", "frames passed to the lane that owns their context")              \
	X(drop_inbox, "frames", "lost because another lane's inbox was full")                      \
	X(tx_in_place, "frames",                                                                   \
		"of transfers, sent from the application's memory without a copy")                 \
	X(tx_still_queued, "frames", "retransmissions copied: the port still has the first")       \
	X(tx_no_mbuf, "frames", "control frames not sent: no mbuf")                                \
	X(tx_unknown_node, "frames", "for a node that [nodes] does not have")                      \
	X(tx_no_neighbour, "frames",                                                               \
		"of encap = udp not sent: nobody answers ARP for their next hop")                  \
	X(tx_stuck, "frames", "dropped: their link took none for 1 ms, and others wait")           \
	X(submissions, "messages", "messages taken from applications")                             \
	X(bad_submissions, "slots", "malformed submissions of applications, refused")              \
	X(bad_releases, "buffers", "buffers given back that the application did not own")          \
	X(bad_positions, "events", "impossible ring positions in an application's memory")         \
	X(bad_transfers, "frames",                                                                 \
		"malformed messages to transfer endpoints: the peer's engine is at fault")         \
	X(refused_accesses, "frames", "accesses to memory here that its owner did not allow")      \
	X(pins_granted, "pins", "regions here pinned for others")                                  \
	X(pins_released, "pins",                                                                   \
		"... and no longer: released, or ended with their askers or regions")              \
	X(pins_refused, "pins", "asked for and not granted: no such memory, or no room for more")  \
	X(bad_groups, "messages",                                                                  \
		"malformed messages of groups, or against their protocol: a peer's engine is at "  \
		"fault")                                                                           \
	X(refused_groups, "messages", "of who is no member of that group, or has not its key")     \
	X(bad_collectives, "messages",                                                             \
		"malformed messages of collectives, or against their protocol: a peer's engine "   \
		"is at fault")                                                                     \
	X(refused_collectives, "messages",                                                         \
		"of who is no member of that collective's group, or has not its key")              \
	X(local_messages, "messages", "messages between contexts of this node")                    \
	X(contexts_opened, "contexts", "contexts opened")                                          \
	X(contexts_died, "contexts", "contexts whose process ended without closing them")

enum engine_counter {
#define ENGINE_COUNTER_ENUM(name, unit, help) ENGINE_##name,
	ENGINE_COUNTERS(ENGINE_COUNTER_ENUM) /* one for each */
#undef ENGINE_COUNTER_ENUM
	ENGINE_COUNTER_COUNT
};
extern const struct proto_counter_info engine_counter_info[ENGINE_COUNTER_COUNT];

/* Those that are also counted for each peer, of frames in its name, where security.mode is not
 * off. */
#define SEALED_COUNTERS(X)                                                                         \
	X(drop_unsealed)                                                                           \
	X(drop_key)                                                                                \
	X(drop_auth)                                                                               \
	X(drop_replay)                                                                             \
	X(drop_handshake)                                                                          \
	X(keys_begun)                                                                              \
	X(cookies)

enum sealed_counter {
#define SEALED_COUNTER_ENUM(name) SEALED_##name,
	SEALED_COUNTERS(SEALED_COUNTER_ENUM) /* one for each */
#undef SEALED_COUNTER_ENUM
	SEALED_COUNTER_COUNT
};
extern const struct proto_counter_info *const sealed_counter_info[SEALED_COUNTER_COUNT];

/* The private area of each mbuf. The number never changes; the other fields are set while the mbuf
 * heads a local message on its way. */
struct buf_priv {
	uint32_t number;
	uint32_t msg_len;
	uint16_t src_ctx, dst;     /* dst: number of the endpoint */
	uint16_t slot;             /* sender's first slot */
	uint8_t error;             /* on the way back */
	bool back;                 /* a local message's buffers return to their sender */
	uint32_t generation;       /* of the sender's channel */
	struct rte_mbuf *next_msg; /* next message in an inlet's local queue */
	uint64_t until;            /* tsc: how long it waits for its receiver to be opened */
};

/* Received bulk buffers, by number. */
struct buf_state {
	uint16_t owner; /* context that holds it, or BUF_FREE */
	bool head;      /* first of a message */
	bool matched;   /* it came through channel.matched */
	struct rte_mbuf *m;
	uint32_t next; /* of the same message, UINT32_MAX = last */
};

enum slot_state {
	SEND_CLIENT, /* the application may write it; of the engine's own: it is free */
	SEND_QUEUED, /* the core has it */
	SEND_LOCAL,  /* on its way to a context of this node */
	SEND_LINGER, /* done, but a link still reads it */
};

/* A send buffer. Its address is the core's handle of the frame that is sent from it. Those from
 * channel.send_buffers on are the engine's own, for inline messages. */
struct send_slot {
	struct rte_mbuf *m;
	uint16_t ctx, number;
	uint8_t state; /* enum slot_state */
	uint8_t error;
	bool expires; /* struct send_terms: withdraw.h */
};

/* The part of a send buffer's state that only messages that wait need. */
struct send_terms {
	uint64_t to;      /* SEND_QUEUED, the message's last: its flow, by proto_flow_key();
			   * SEND_LOCAL: the endpoint */
	uint64_t expires; /* send_slot.expires: tsc from which on it is not sent any more ... */
	uint8_t error;    /* ... and errno with which it ends then */
};

/* A message of a client that was not Acked. */
struct send_failure {
	uint16_t endpoint;   /* that it was sent from */
	uint16_t node, peer; /* the context that it was sent to */
	uint8_t error;       /* errno */
};

/* The place where messages for one endpoint of a context land: an LHS ring, a share of the bulk
 * buffers, and the messages from this node that wait for room in them. */
struct inlet {
	struct channel *ch;
	struct lhs_end lhs;
	_Atomic uint32_t *read; /* the reader's position, in shared memory */
	uint32_t lhs_pos;       /* up to where room was given back */
	uint32_t lhs_size;
	uint32_t bulk_quota, bulk_out;
	struct rte_mbuf *local_head, *local_tail;
	uint8_t *chain, *chain_at; /* message being assembled: its first and last payload */
	/* chain_len: of the first fragment */
	uint32_t chain_count, chain_first, chain_last, chain_len;
	uint16_t endpoint; /* number in the core */
	bool local_turn;   /* local senders are next when room is freed */
};

/* A message that was taken back from its way to a context of the same node. */
struct recalled {
	uint32_t len;
	uint16_t dst;   /* number of the endpoint */
	uint16_t count; /* of its slots */
};

/* The buffers of a context whose client maps nothing but its channel. */
struct thin {
	struct memory *memory;   /* one mapping: the channel's region, then the buffers */
	uint8_t *send, *receive; /* payload of the first of each */
	struct buf_state *bufs;  /* receive buffers, by number; without mbufs */
	uint32_t *free;          /* stack of their numbers */
	uint32_t free_count, count;
	uint32_t stride; /* bytes from one to the next */
	/* of a parked context: receive buffers that hold frames of unfinished messages, and the
	 * messages to contexts of this node that were taken back, with their slots: park.h */
	uint32_t frames_kept, recalled_count, recalled_slots;
	struct recalled *recalled;
	uint16_t *recalled_slot;
	int event_fd, doorbell; /* as the channel's, but made anew for each open, since an earlier
				 * client keeps its descriptors */
};

/* The states of a context that may be stopped: lib/preempt. */
enum preempted {
	PREEMPTED_NOT,
	PREEMPTED_DRAINS, /* stopped, and something of it is on its way */
	PREEMPTED_HELD,
	PREEMPTED_PARKED, /* held, and without mbufs */
};

struct channel {
	struct channel_shm *shm;
	struct channel_shm *own;        /* where shm is unless a thin client brings its own
					 * memory */
	const struct rte_memzone *zone; /* holds own */
	_Atomic int64_t *send_off;      /* in shm: where the client finds its send buffers */
	struct thin *thin;              /* NULL: its client maps the node's mbufs */
	struct buf_state *bufs; /* received bulk buffers, by the numbers that the client knows */
	uint32_t bufs_count;
	uint32_t state; /* enum channel_state; the engine's own copy, which decides */
	uint32_t generation;
	uint16_t ctx;
	struct slot_end sub, com;
	struct inlet plain, matched;
	struct send_slot *slots;  /* array of send_buffers + inline_sends */
	struct send_terms *terms; /* likewise, by send_slot.number */
	uint32_t send_buffers, frag_len;
	uint32_t inline_sends, inline_free; /* inline_free: how many of them inline_slot has */
	uint16_t inline_slot[CHANNEL_INLINE_MOST]; /* stack of the free ones' numbers */
	/* channel_shm's, and inline_done as it was last written there */
	uint32_t inline_done, inline_failed, inline_told;
	uint8_t inline_error;
	uint32_t promised;            /* mbufs of the pool reserved for it: quotas.h */
	bool resident;                /* ... all of its quotas */
	uint32_t one_max;             /* longest message that one buffer may hold */
	struct proto_message message; /* scratch for the current submission; ctx and frag_len are
				       * constant */
	uint32_t *done;               /* completions not yet written: ring of done_mask + 1 items */
	uint32_t done_head, done_tail, done_mask;
	uint32_t busy_slots;  /* slots not with the client */
	bool expires;         /* some of them may expire: withdraw.h */
	bool watches;         /* its client may watch nodes: watch.h */
	_Atomic bool aborted; /* its process is gone; other lanes may still hold messages that it
			       * sent (local.c) */
	uint32_t closed_at;   /* CLOSING: position of its submissions when the close began */
	uint64_t close_until; /* CLOSING: tsc until which submissions are still taken */
	bool selects;         /* the client may sleep: engine_flush must check wake_client, after a
			       * fence */
	uint32_t place;       /* in engine.open: turns.h */
	bool stirred;         /* something happened since the last sweep of the lane: turns.h */
	bool rings;           /* its client looks at engine_sleeps */
	bool low;             /* turns look for entries that its client has read: room.h */
	bool dirty;           /* in engine.dirty */
	bool news;            /* a sleeping client must be woken */
	bool stopped;         /* its submissions are not taken: lib/preempt */
	bool parks;           /* it is parked as soon as it is held */
	_Atomic uint8_t preempted; /* enum preempted; other threads may read it */
	uint32_t job;              /* that it belongs to; 0: none */
	uint32_t domain;           /* whose contexts alone may send to it; 0: all */
	uint64_t open_wait; /* ticks that what it sends waits for its receiver to be opened */
	int event_fd;       /* eventfd that wakes the client. The client gets only an epoll that
			     * watches it (context_bell), because whoever has the eventfd itself
			     * can make writes to it block */
	int doorbell;       /* eventfd: the client submitted while the lane slept. Nobody reads it
			     * (RINGS) */
	int own_event_fd, own_doorbell; /* event_fd and doorbell unless a thin client is attached */
	int pid;                        /* process of the client; 0: embedded */
	uint64_t received, sent;        /* messages */
	uint64_t received_bytes, sent_bytes;
	uint64_t bad;                /* malformed input from this client */
	uint32_t burst;              /* most submissions that are taken in a turn */
	struct memory_space space;   /* the client's memory */
	void *service[SERVICES_MAX]; /* state of each service, by its number */
	uint32_t results;    /* services with results for the client, a bit each: 1 << number */
	bool engine_matches; /* the lane matches matched messages, not the client */
};

/* Buffers that a context may have. */
struct quotas {
	uint32_t send, plain, matched; /* plain, matched: received bulk buffers */
	uint32_t inlined;              /* the engine's own, for inline messages */
};

/* The quotas that a context that asks for the default gets at least, however few buffers are
 * left. */
#define QUOTAS_LEAST ((struct quotas){32, 64, 32, 0})

static inline uint32_t
quotas_buffers(const struct quotas *q)
{
	return q->send + q->inlined + q->plain + q->matched;
}

/* The data that the engine needs to send to a node. */
struct peer {
	uint8_t encap[LINK_ENCAP_MAX]; /* its last encap_len bytes */
	uint8_t encap_len;
	uint8_t link;
	bool known;   /* never true of the node itself */
	bool plain;   /* encap needs no finishing, and fits 16 bytes; never true with `several` */
	bool several; /* it has several links: the rest is of the first, rails.h chooses */
	uint32_t neighbour; /* encap = udp: the next hop, whose address replaces the one in encap;
			     * 0: none */
} __rte_cache_aligned;

/* The bound of what waits in a port: link_io.c, note 3. Times in tsc ticks. */
struct pace {
	uint64_t free_at;         /* when it has sent all that it got */
	uint64_t most;            /* time of what may wait in it */
	uint64_t byte_ticks;      /* of a byte, times 2^PACE_SHIFT; 0: the rate is not known */
	uint64_t frames_per_tick; /* full ones, likewise */
};

struct tx_queue {
	struct rte_mbuf *m[TX_QUEUE];
	unsigned n;
	unsigned captured; /* of the first ones: capture.h has seen them */
	unsigned sealed;   /* ... that are as they go over the wire: sealed.h */
	uint64_t stuck_at; /* tsc since when the link took none; 0: it took the last ones */
};

enum command_op {
	COMMAND_OPEN,
	COMMAND_CLOSE,                  /* graceful */
	COMMAND_ABORT,                  /* its process is gone */
	COMMAND_MEMORY,                 /* add memory of the context that the node has mapped */
	COMMAND_FREEZE,                 /* begin a take-over: see engine.frozen */
	COMMAND_ANNOUNCE,               /* engine_announce */
	COMMAND_KEYS,                   /* take `keys`, and send `message`: sealed.h */
	COMMAND_KEYS_OLD,               /* give up those of `node` that are too old */
	COMMAND_KEYS_ALL,               /* ... all of them */
	COMMAND_PAUSE,                  /* wait while engine.paused is that ticket */
	COMMAND_SERVICE,                /* those from here on are a service's */
	COMMAND_STOP = COMMAND_SERVICE, /* preempt_stop for all of `contexts` that are of this
					 * lane */
	COMMAND_START,                  /* preempt_start for them */
	COMMAND_PARK,                   /* preempt_park for them */
	COMMAND_LOAD,                   /* preempt_load for them */
};

struct keyring_keys;

/* A request of another thread to a lane; engine_poll carries it out. */
struct command {
	enum command_op op;
	uint16_t ctx;
	uint32_t generation;   /* CLOSE, ABORT: 0 = any */
	struct quotas quotas;  /* OPEN: as quotas_of computed them */
	struct memory *memory; /* MEMORY: passes to the context if result is its number, >= 0 */
	int pid;
	int mm_fd;            /* OPEN: descriptor of its /proc/PID/mem, which passes to the lane; 0:
			       * none */
	struct thin *thin;    /* OPEN: passes to the context if the open succeeds; NULL: the client
			       * maps all */
	uint32_t job, domain; /* OPEN */
	uint32_t open_wait_us;            /* OPEN: of what the context sends */
	bool parked;                      /* OPEN: without mbufs */
	const uint64_t *contexts;         /* STOP, START, PARK, LOAD: a bit for each */
	uint32_t drain_us;                /* STOP, PARK */
	uint32_t ticket;                  /* PAUSE: not 0, and another one each time */
	uint16_t node;                    /* KEYS* */
	const void *message;              /* KEYS: of a handshake, to `node`; NULL: none */
	uint32_t len;                     /* KEYS: its bytes */
	bool open;                        /* KEYS: struct keys_frame */
	struct keyring_keys *keys;        /* KEYS; NULL: none */
	struct keyring_keys *old_keys[4]; /* KEYS*: come out of use, and back to the keeper */
	int result;
	_Atomic bool done;
};

struct capture;
struct sealed_lane;

struct engine {
	struct node *node;
	struct capture *capture;    /* NULL: nobody captures */
	struct sealed_lane *sealed; /* NULL: security.mode = off */
	unsigned lane;
	struct proto *proto;
	struct lane_rails *rails;        /* NULL: no peer has several links */
	struct lane_rails *rails_memory; /* what `rails` is otherwise; NULL: there is one link */
	const struct peer *peers;        /* the node's table, by node number */
	uint32_t nodes_max;
	uint64_t now;
	uint64_t polled_at; /* tsc when this turn began, and ... */
	uint64_t before;    /* ... when the one before began; 0: the core knows */
	uint64_t due_at;    /* tsc from which on the lane has something to do by itself; 0: it
			     * has */
	struct tx_queue txq[CONFIG_LINKS_MAX];
	struct link *rx_links[CONFIG_LINKS_MAX]; /* those with a receive queue for the lane */
	unsigned rx_link_count;
	struct rte_mbuf *arrived[BURST_MAX]; /* scratch: frames that a link gives */
	unsigned burst;                      /* of the configuration */
	bool hands_over;                     /* there are other lanes */
	bool checks_frames;                  /* each frame received is looked at before the core has
					      * it */
	struct channel **open;               /* channels of this lane that are open or closing */
	unsigned open_count, busy_count;     /* turns.h */
	unsigned mute_count;                 /* of the open ones: do not ring */
	unsigned idle_scan;                  /* where the next look at idle ones begins */
	unsigned sweep;                      /* turns until the next sweep */
	unsigned scan; /* index in open where the next scan of submissions begins */
	struct channel **dirty;
	unsigned dirty_count;
	struct send_slot **lingering;
	unsigned lingering_count;
	uint64_t *handles;      /* scratch: handles of one message's send_slots */
	uint16_t *bufs_scratch; /* scratch: numbers of one message's send buffers */
	struct rte_mbuf **swap; /* scratch: mbufs that replace those of a local message */
	struct rte_ring *inbox;
	_Atomic(struct command *) command;
	struct proto_out *out; /* scratch: BURST_MAX */
	uint64_t counters[ENGINE_COUNTER_COUNT];
	_Atomic bool sleeps; /* other lanes must ring the doorbell after they hand something over */
	int doorbell;        /* eventfd: another thread of this process has something for the
			      * lane */
	int sleep_fd;        /* epoll of that doorbell, the channels' doorbells, and the links */
	bool links_wake;     /* every link has a descriptor */
	uint64_t idle_since;
	struct contended contended;
	uint64_t housekeeping_at; /* tsc of the next local_housekeep */
	struct pace pace;
	bool tx_waiting;         /* frames wait in txq */
	uint32_t straight;       /* ... that came there without proto_tx since they were flushed */
	union {                  /* chores of a turn that few have */
		uint64_t chores; /* != 0: there are some */
		struct {
			bool local_waiting; /* a message waits for a context of this lane */
			bool freezes;       /* the lane's own note that it was frozen */
			bool asks_links;    /* rails != NULL */
			bool watches;       /* a context may watch nodes */
			bool expires;       /* messages of one may expire */
		};
	};
	uint64_t watch_at;    /* tsc of the next look at what is watched */
	uint64_t expire_at;   /* tsc of the next look at what expires */
	uint32_t aborts_seen; /* node.aborts at the last local_housekeep */
	_Atomic bool stop;
	/* Before another primary takes over. frozen: the lane begins nothing new. drained: what it
	 * had begun has ended, and the lane waits for stop to be set or frozen to be cleared. */
	_Atomic bool frozen, drained;
	/* If it has not ended: the first of it, and its context, or -1 for the lane's. For logs. */
	_Atomic(const char *) undrained;
	_Atomic int undrained_ctx;
	_Atomic uint32_t paused; /* the lane waits while it is the command's ticket: others change
				  * what it reads */
	const struct services *services; /* the node's */
	void *service[SERVICES_MAX];     /* their state in this lane, by number */
	uint32_t busy;                   /* services that want turns, a bit each */
	uint32_t owes;                   /* services that owe answers in this turn, a bit each */
	uint32_t attends;                /* services whose landed() is called, a bit each */
};

struct node {
	struct config config;
	int numa[CONFIG_LANES_MAX]; /* the NUMA node of each lane */
	int pool_numa;              /* that of the packet buffers */
	struct rte_mempool *pool;
	uint32_t bufs_count;
	struct buf_state *bufs;
	struct link links[CONFIG_LINKS_MAX];
	unsigned link_count; /* highest used + 1 */
	/* Frames of lanes without a transmit queue of their own; lane 0 sends them. */
	struct rte_ring *handover[CONFIG_LINKS_MAX];
	struct arp arp; /* next hops of links with encap = udp: neighbours.h */
	struct arp_port arp_port[CONFIG_LINKS_MAX];
	_Atomic uint64_t address_taken[CONFIG_LINKS_MAX]; /* who else has the link's IP address, as
							   * twin.mac; 0: nobody */
	struct peer *peers;                               /* by node number */
	struct peer *peers_by_link; /* of each peer on each of its links: node_peer; NULL: there is
				     * one link */
	struct peer multicast[CONFIG_LINKS_MAX]; /* several nodes at once, by the link */
	struct channel *channels;                /* by context number */
	struct channel_geometry geometry;
	struct channel_layout layout;
	struct engine *engines;
	uint32_t frag_len;
	uint32_t frame_room; /* config_frame_room */
	uint32_t epoch;
	uint64_t key[2]; /* struct proto_config.key */
	/* another node with this one's number: engine_announce; written by lanes, for who
	 * watches */
	struct twin {
		_Atomic uint32_t seen; /* times */
		_Atomic uint64_t mac;  /* its bytes, the first one highest */
		_Atomic uint32_t age_ms, epoch;
		_Atomic uint32_t own_age_ms; /* at that moment */
		_Atomic uint64_t at;         /* when it was heard last: TSC */
	} twin;
	/* by node number, from where nodes tell that they have it: two that have one take turns.
	 * Written by lanes, for who watches */
	struct announced {
		_Atomic uint32_t epoch, epoch_before; /* the life that was heard last, and the one
						       * before that; 0: none */
		_Atomic uint64_t mac, before;         /* ... from where, as twin.mac */
		_Atomic uint64_t at;                  /* when that changed: TSC */
		_Atomic uint32_t back; /* times that it soon was the one before again */
	} * announced;
	struct rte_mbuf absent;             /* stands in slots of parked contexts, and in
					     * those that an ending one no longer needs */
	_Atomic int64_t mbufs_left;         /* not reserved for contexts, links or lanes */
	_Atomic uint32_t contexts_promised; /* contexts with a reservation */
	uint32_t context_fair;              /* mbufs for one, if all have as many */
	uint32_t context_least;             /* mbufs kept in reserve for each of the other
					     * contexts */
	uint32_t assembly_frames;           /* per lane, for unfinished messages to thin clients */
	bool ends_as_twin;                  /* another node has its number */
	_Atomic uint32_t aborts;            /* contexts whose processes ended */
	struct mappings mappings;           /* of applications' memory */
	struct services services;
	struct keeper *keeper; /* NULL: security.mode = off */
	pthread_mutex_t command_lock;
	int successor; /* connection to the primary that takes over, set when the lanes have stopped
			* for it; 0: none */
	char error[256];
};

static inline struct engine *
node_lane(struct node *n, uint16_t ctx)
{
	return &n->engines[n->config.lanes == 1 ? 0 : ctx % WIRE_CONTEXTS_MAX % n->config.lanes];
}

/* Return the entry of a peer on one of its several links. */
static inline struct peer *
node_peer(const struct node *n, uint16_t node, unsigned link)
{
	return &n->peers_by_link[(uint32_t)node * CONFIG_LINKS_MAX + link];
}

static inline struct buf_priv *
buf_priv(struct rte_mbuf *m)
{
	return rte_mbuf_to_priv(m);
}

/* Return the inlet of an endpoint: plain or matched. WIRE_TARGET and WIRE_INITIATOR have none. */
static inline struct inlet *
channel_inlet(struct channel *ch, uint16_t endpoint)
{
	return likely(endpoint < WIRE_CONTEXTS_MAX) ? &ch->plain : &ch->matched;
}

/* Return whether that context of the same node may send to the channel's. */
static inline bool
channel_admits(const struct node *n, const struct channel *ch, uint16_t from)
{
	return likely(ch->domain == 0) || n->channels[from].domain == ch->domain;
}

static inline uint8_t *
send_payload(const struct send_slot *s)
{
	return (uint8_t *)s->m->buf_addr + PAYLOAD_START;
}

/* Return where a thin client writes the payload of that send buffer. */
static inline uint8_t *
thin_send(const struct thin *t, uint32_t slot)
{
	return t->send + (uint64_t)slot * t->stride;
}

/* Return the number of all send slots: the client's, then the engine's own for inline messages. */
static inline uint32_t
channel_send_slots(const struct channel *ch)
{
	return ch->send_buffers + ch->inline_sends;
}

static inline bool
slot_is_absent(const struct node *n, const struct send_slot *s)
{
	return s->m == &n->absent;
}

/* Give the slot's buffer back, and put node.absent in its place. */
static inline void
slot_leave_buffer(struct node *n, struct send_slot *s)
{
	if (slot_is_absent(n, s))
		return;
	rte_pktmbuf_free(s->m);
	s->m = &n->absent;
}

/* Tell the client where the slot's buffer is, if the slot is one of the client's. */
static inline void
slot_tell(const struct channel *ch, uint32_t slot)
{
	const struct send_slot *s = &ch->slots[slot];

	if (slot >= ch->send_buffers)
		return;
	atomic_store_explicit(&ch->send_off[slot],
		(ch->thin ? thin_send(ch->thin, slot) : send_payload(s)) - (uint8_t *)ch->shm,
		memory_order_relaxed);
}

/* Make m the slot's buffer. */
static inline void
slot_set_buffer(const struct channel *ch, uint32_t slot, struct rte_mbuf *m)
{
	ch->slots[slot].m = m;
	m->next = NULL; /* after this only data_off and the lengths change */
	m->nb_segs = 1;
	m->ol_flags = 0;
	slot_tell(ch, slot);
}

/* Return the address in the channel's region of an offset of the node's channel layout. */
static inline void *
channel_part(const struct channel *ch, uint64_t offset)
{
	return (uint8_t *)ch->shm + offset;
}

/* Note that something happened in the channel, so that engine_flush looks at it. */
static inline void
channel_touch(struct engine *e, struct channel *ch)
{
	ch->news = true;
	if (ch->dirty)
		return;
	ch->dirty = true;
	e->dirty[e->dirty_count++] = ch;
}

/* Each number that follows from the node's key is for one of these: none tells of another's. */
enum secret_for {
	SECRET_ROUNDS,  /* of rails */
	SECRET_TICKETS, /* of groups */
};

/* Return a number that nobody knows who does not have the node's key. The core makes its own from
 * one or two words; these are made from three. */
static inline uint64_t
node_secret(const struct node *n, enum secret_for what, uint64_t a, uint64_t b)
{
	const uint64_t words[3] = {what, a, b};

	return siphash(n->key, words, 3);
}

#define ENGINE_COUNT(e, name)      ((e)->counters[ENGINE_##name]++)
#define ENGINE_COUNT_N(e, name, k) ((e)->counters[ENGINE_##name] += (k))

/* Count a malformed submission, which had no effect. */
static inline void
submission_bad(struct engine *e, struct channel *ch)
{
	ENGINE_COUNT(e, bad_submissions);
	ch->bad++;
}

/* Let the core know that a turn has begun. To be called before anything of the turn is passed to
 * it. */
static inline void
lane_begin(struct engine *e)
{
	if (e->before != 0)
		proto_begin(e->proto, e->before, e->polled_at);
	e->before = 0;
}

/* Give the service turns (step()) until it calls service_idle. */
static inline void
service_busy(struct engine *e, unsigned number)
{
	e->busy |= 1u << number;
}

static inline void
service_idle(struct engine *e, unsigned number)
{
	e->busy &= ~(1u << number);
}

/* Note that the service owes answers that it can give by itself, so that answer() is called until
 * it calls service_owes_nothing. */
static inline void
service_owes(struct engine *e, unsigned number)
{
	e->owes |= 1u << number;
}

static inline void
service_owes_nothing(struct engine *e, unsigned number)
{
	e->owes &= ~(1u << number);
}

/* Note that the service has results for the channel's client, so that results() is called. */
static inline void
service_has_results(struct engine *e, struct channel *ch, unsigned number)
{
	ch->results |= 1u << number;
	channel_touch(e, ch);
}

/* Return an mbuf for one transmission of a service's short message, which is copied into it, or
 * NULL if there is none. Each transmission has an mbuf of its own, so nothing is to be looked after
 * while a port has it. */
static inline struct rte_mbuf *
service_frame(struct engine *e, const struct proto_out *o, const struct peer *peer,
	const void *message)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(e->node->pool);
	uint32_t head = peer->encap_len + o->head_len;

	if (unlikely(m == NULL))
		return NULL;
	memcpy((uint8_t *)m->buf_addr + PAYLOAD_START, message, o->len);
	m->data_off = (uint16_t)(PAYLOAD_START - head);
	m->data_len = (uint16_t)(head + o->len);
	m->pkt_len = m->data_len;
	m->port = o->node;
	return m;
}

/* Wake the lane if it sleeps. To be called after putting something into one of its rings; any
 * thread may call it. */
void engine_wake(struct engine *e);

#endif
