/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The shared-memory contract between the engine and one application's context: layout, version,
 * slot formats, and who may write what. Each side includes this and no other header of the other
 * side.
 *
 * Design notes
 * 1. There are offsets only, no pointers: all of them, those into bulk memory included, count from
 *    the start of the region ("base"). So a process can use a channel if it maps region and bulk
 *    memory at the same distance from each other.
 * 2. The geometry in struct channel_shm is for the client. The engine keeps its own copy. It reads
 *    nothing of the region but slots and descriptions of transfers (copied once, then checked),
 *    positions (checked), and two flags.
 * 3. A short message whose sender does not ask for its result travels in the submission slot
 *    itself. It needs no buffer of the client's, and all that comes back is a count.
 * 4. Send buffers come back in completion slots, up to 14 in one. A separate rte_ring of free
 *    buffers would put a ring header (size, mask) that the engine indexes with into memory that the
 *    client writes: a hostile client could make the engine write anywhere.
 * 5. Sleeping, in both directions, uses Dekker's pattern: the sleeper sets its flag, issues a full
 *    fence and checks again for slots; the waker fills a slot, issues a full fence and checks the
 *    flag. The fences are issued only if needed (wake_client set, engine_may_sleep set).
 * 6. A thin client maps its channel and nothing else: behind the region lie its own send and
 *    receive buffers, and the engine copies between them and mbufs. The pages are the client's,
 *    like those of pmx_alloc: nothing that it does to them makes an access of the engine fail
 *    (lib/memory/pieces.c).
 */
#ifndef PMX_CHANNEL_H
#define PMX_CHANNEL_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "channel/slot_ring.h"
#include "core/lhs/lhs.h"

#define CHANNEL_MAGIC 0x504D5843484E3031u /* "PMXCHN01" */
/* Incremented with every change of anything in this file, slot_ring.h or struct lhs_entry. */
#define CHANNEL_ABI   21
#define CHANNEL_NAME  "pmx_%u_ch_%u" /* memzone: node, context */

enum channel_state {
	CHANNEL_CLOSED = 0,
	CHANNEL_OPEN = 1,
	CHANNEL_CLOSING = 2, /* what was submitted is still delivered */
	CHANNEL_DEAD = 3,    /* the engine stopped: every call returns -EPIPE */
};

#define RENDEZVOUS_AUTO 0
/* watched regions of one process, in memory that pmx_alloc did not provide */
#define REGIONS_WATCHED 1024

/* nodes that a context may watch: pmx_context_watch() */
#define WATCHES_MAX 64
/* A word tells what is known of one: WATCH_WORD() */
#define WATCH_UP    1u /* there is a session with it */
/* it did not answer, or is none of the cluster; neither: not known yet */
#define WATCH_DOWN  2u
#define WATCH_WORD(node, state, life)                                                              \
	((uint64_t)(node) << 48 | (uint64_t)(state) << 32 | (uint32_t)(life))

/* The counters of the client's pin-down cache, for pmx-ctl to show. */
struct pin_counters {
	uint64_t hits, misses, evictions;     /* of this context */
	uint64_t invalidations, pinned_bytes; /* of its process */
};

/* The client's messages past the engine, plain and matched, for pmx-ctl to show. */
#define CONTEXT_NAME_MAX 32

struct pair_counters {
	uint64_t pairs; /* contexts with which it shares memory now */
	uint64_t sent, received;
};

/* Written by the engine and read by the client, except where a comment says otherwise. */
struct channel_shm {
	uint64_t magic;
	uint32_t abi;
	uint32_t bytes; /* of the region */
	uint16_t node, ctx;
	uint32_t generation;             /* incremented with every open */
	uint32_t submissions;            /* slots, power of two */
	uint32_t completions;            /* slots, power of two */
	struct lhs_config lhs, matched;  /* rings of plain messages and of matched ones */
	uint32_t lhs_room, matched_room; /* most entries of each ring that the engine fills before
					  * some are given back */
	uint32_t send_buffers;           /* the client owns the numbers 0..send_buffers-1 at open */
	uint32_t inline_sends;           /* most inline messages under way */
	uint32_t receive_buffers, matched_buffers;       /* quotas, for information */
	uint32_t unexpected, receives, unexpected_bytes; /* most that the client may keep */
	uint32_t groups, group_members, group_locks;     /* groups of the context; members, locks */
	uint32_t group_regions;                          /* and shared regions of one */
	uint32_t collectives;                            /* of the context that may run at once */
	uint32_t rendezvous; /* longer messages are offered, and wait for their receive; bytes;
			      * RENDEZVOUS_AUTO: measured */
	uint32_t frag_len;   /* payload bytes of a send buffer */
	uint32_t max_message;
	uint32_t transfers; /* places for transfers under way */
	uint32_t events;    /* slots, power of two */
	uint64_t submissions_off, completions_off, lhs_off, matched_off, send_off_off,
		transfers_off, events_off;
	uint64_t pin_bytes; /* limits of the client's pin-down cache */
	uint32_t pin_entries;
	uint8_t pin_cache, pin_watch; /* 0 = off */
	uint32_t engine_matches;      /* the engine does the matching: SUBMIT_RECEIVE */
	uint32_t engine_may_sleep;    /* the client must check engine_sleeps after a submission */
	uint32_t yields;              /* engine.idle shares CPUs, so the client's polls that find
				       * nothing shall yield too */
	uint32_t kernel_copies;       /* 0: the engine can access only memory that it has mapped, no
				       * MEMORY_COPIED */
	uint32_t pairs;               /* contexts of one user may share memory: pair.h */
	_Atomic uint32_t pairs_asked; /* changes when another context asks for it */
	_Atomic uint32_t rtt_ns;      /* round trip to the node of the last OFFER; 0: not known */
	_Atomic uint32_t stopped;     /* the context is stopped: it sends and receives nothing past
				       * the engine either */
	_Atomic uint32_t state;       /* enum channel_state */
	/* positions, each in a cache line of its own, so that the two sides share none */
	_Alignas(64) _Atomic uint32_t engine_sleeps;   /* written by the engine: enum
							* engine_sleep */
	_Alignas(64) _Atomic uint32_t submissions_pos; /* written by the engine as consumer */
	_Alignas(64) _Atomic uint32_t inline_done;     /* written by the engine: inline messages
							* that ended since the channel was opened */
	_Atomic uint32_t inline_failed;                /* those of them that failed */
	_Atomic uint32_t inline_error;                 /* errno of the last of these */
	_Alignas(64) _Atomic uint32_t completions_pos; /* written by the client as consumer */
	_Alignas(64) _Atomic uint32_t lhs_pos;         /* written by the client as reader */
	_Alignas(64) _Atomic uint32_t matched_pos;     /* written by the client as reader */
	_Alignas(64) _Atomic uint32_t wake_client;     /* written by the client: make its descriptor
							* readable */
	_Alignas(64) _Atomic uint32_t events_pos;      /* written by the client as consumer */
	_Alignas(64) _Atomic uint32_t watches; /* written by the client: the first so many of */
	_Atomic uint16_t watched[WATCHES_MAX]; /* ... these nodes are watched */
	/* written by the engine, by the place in watched: WATCH_WORD(). The client checks that the
	 * word is of the node that it watches by that place, and writes 0 when that is another
	 * one */
	_Alignas(64) _Atomic uint64_t watch[WATCHES_MAX];
	_Alignas(64) struct pair_counters paired; /* written by the client */
	char name[CONTEXT_NAME_MAX];              /* written by the client, for people; may have no
						   * 0 */
	_Alignas(64) struct pin_counters pins;    /* written by the client */
	_Atomic uint8_t revoked[REGIONS_WATCHED]; /* written by the client: the memory is no
						   * longer what was registered */
};

static_assert(offsetof(struct channel_shm, pins) == offsetof(struct channel_shm, paired) + 64,
	"name lies where older versions have nothing");

/* When a client must ring the engine's doorbell. */
enum engine_sleep {
	ENGINE_AWAKE = 0,
	ENGINE_SLEEPS = 1, /* at once when it has submitted something */
	ENGINE_NAPS = 2,   /* it wakes by itself within CONTENDED_NAP_US: only before it sleeps
			    * too */
};

enum submission_op {
	SUBMIT_SEND = 1,           /* a message; its first buffers */
	SUBMIT_MATCHED = 2,        /* the same, to be matched by a receive; begins with a struct
				    * wire_match */
	SUBMIT_INLINE = 3,         /* a message with its payload */
	SUBMIT_INLINE_MATCHED = 4, /* the same, to be matched by a receive */
	SUBMIT_MORE = 11,          /* further buffers of the preceding message */
	SUBMIT_RELEASE = 13,       /* bulk buffers that the client no longer reads */
	SUBMIT_SELECT = 14,        /* from now on the client may sleep: check wake_client */
	SUBMIT_TRANSFER = 5, /* a remote memory transfer, described in its place of the table */
	SUBMIT_FRAME = 6,    /* one frame of a transfer that the client packs itself */
	SUBMIT_REGISTER = 7, /* let others access a piece of memory */
	SUBMIT_DEREGISTER = 8,
	SUBMIT_CANCEL = 10,   /* cancel a transfer whose frames the client packs */
	SUBMIT_RECEIVE = 12,  /* what a receive or a probe shall match, if the engine does the
			       * matching */
	SUBMIT_FORGET = 9,    /* memory that the engine mapped is no longer needed */
	SUBMIT_WITHDRAW = 17, /* a message is no longer to be sent, at once or from a time on */
	SUBMIT_WATCH = 18,    /* look at channel_shm.watches */
	SUBMIT_GROUP = 15,    /* of a group: enum group_command */
	SUBMIT_COLL = 16,     /* begin a collective of a group */
};

#define SUBMIT_INLINE_BYTES 48
#define SUBMIT_SEND_BUFS    22
#define SUBMIT_MORE_BUFS    28
#define SUBMIT_RELEASE_BUFS 14
#define SUBMIT_GROUP_LIST   12
#define GROUPS_OF_CONTEXT   16
#define COLLS_OF_CONTEXT    64 /* most that may run at once */

/* client -> engine; the bytes after the mark */
struct submission {
	uint8_t op; /* enum submission_op */
	uint8_t pad;
	uint16_t count; /* SEND: buffers of the whole message; MORE, RELEASE: in this slot;
			 * INLINE: 1 */
	union {
		struct {
			uint16_t dst_node, dst_ctx;
			uint32_t len; /* bytes of the message */
			uint16_t buf[SUBMIT_SEND_BUFS];
		} send;
		struct {
			uint16_t dst_node, dst_ctx;
			uint32_t len; /* at most SUBMIT_INLINE_BYTES */
			uint8_t payload[SUBMIT_INLINE_BYTES];
		} inlined;
		uint16_t more[SUBMIT_MORE_BUFS];
		uint32_t release[SUBMIT_RELEASE_BUFS];
		uint32_t transfer; /* its place */
		struct {
			uint16_t dst_node, dst_ctx;
			uint32_t len;
			uint16_t buf;
			uint16_t transfer; /* its place */
		} frame;
		struct {
			uint64_t addr, len, key; /* DEREGISTER: key alone, or area */
			uint32_t memory;         /* number of the memory it lies in, or
						  * MEMORY_COPIED */
			uint32_t area;           /* REGION_NO_AREA: none */
			uint32_t group;          /* the area's; 0: none */
			uint32_t ticket;         /* returned with the answer */
			uint32_t rights;         /* enum region_right */
			uint32_t watched;        /* index of channel_shm.revoked; REGIONS_WATCHED:
						  * none */
		} __attribute__((packed, aligned(4))) region;
		uint32_t forget;
		struct {
			int64_t at_us;  /* CLOCK_MONOTONIC */
			uint16_t buf;   /* the message's last */
			uint16_t error; /* with which it then ends */
		} __attribute__((packed, aligned(4))) withdraw;
		struct {
			uint32_t index;        /* chosen by the client, below channel_shm.receives;
						* returned with the result */
			uint32_t comm, source; /* source: node << 16 | context,
						* RECEIVE_ANY_SOURCE */
			uint32_t memory;       /* number of the memory for the bytes, or
						* MEMORY_COPIED */
			uint64_t tag, ignore;
			uint64_t local, len;
		} __attribute__((packed, aligned(4))) receive;
		struct {
			uint16_t handle;  /* chosen by the client, below GROUPS_OF_CONTEXT; returned
					   * with results */
			uint16_t rank;    /* OPEN: own */
			uint16_t members; /* OPEN: of the group; LIST: in this slot */
			uint16_t zero;
			union {
				struct {
					uint32_t number;     /* OPEN: the group's; of a lock or
							      * region: its own */
					uint64_t value;      /* OPEN, rank 0: the random key;
							      * SUBSCRIBE: the group's
							      * number, and
							      * SUBSCRIBE_NOTIFY;
							      * CAST_TO: the bits */
					uint64_t timeout_us; /* OPEN */
				} __attribute__((packed, aligned(4)));
				uint32_t list[SUBMIT_GROUP_LIST]; /* node << 16 | context */
				struct {
					uint64_t at;        /* offset in the receivers' area */
					uint64_t from, len; /* the client's bytes */
					uint32_t area, unit;
					uint32_t memory; /* its number, or MEMORY_COPIED */
					uint32_t runs;   /* 1: each unit of them is runs */
				} __attribute__((packed, aligned(4))) cast;
			};
		} group;
		struct {
			uint16_t handle; /* the group's */
			uint16_t zero;
			uint32_t ticket; /* returned with the result */
			uint32_t memory; /* number of the memory of the description, or
					  * MEMORY_COPIED */
			uint32_t len;    /* of the description with its tables, bytes */
			uint64_t at;     /* the description: struct coll_desc */
		} __attribute__((packed, aligned(4))) coll;
	};
};

/* A collective: one rank's list of steps (lib/coll/exec.h), and where its bytes are in the client.
 * Behind it lie the steps, then for each bit of `ends` a table of the blocks' ends, then two tables
 * of where each block of IN and OUT begins in its buffer, all of them of 64 bits. Copied once by
 * the engine. */
struct coll_desc {
	uint32_t hash; /* of the plan, the same at all ranks */
	uint32_t steps;
	uint32_t blocks;    /* of each buffer */
	uint32_t ends;      /* bit i: buffer i has a table; otherwise all blocks have `each` */
	uint32_t piece;     /* most bytes of a message */
	uint32_t send_pace; /* as coll_list's */
	uint32_t areas;     /* of scratch ... */
	uint32_t operation; /* REDUCE: TRANSFER_OPERATION */
	uint32_t grain;     /* as coll_list's */
	uint16_t load_in, load_out; /* likewise */
	uint64_t area_bytes, window, each;
	struct {
		uint64_t at, len;
		uint32_t memory; /* number, or MEMORY_COPIED */
		uint32_t zero;
	} buffer[3]; /* IN, OUT, SCRATCH, which is the areas one after the other */
};

#define RECEIVE_ANY_SOURCE UINT32_MAX

/* In submission.count of a RECEIVE. */
enum receive_kind {
	RECEIVE_POST = 1,   /* receive the oldest message that waits and matches, or else the next
			     * one */
	RECEIVE_PROBE = 2,  /* report the oldest message that waits and matches */
	RECEIVE_TAKE = 3,   /* ... and reserve it for this index */
	RECEIVE_TAKEN = 4,  /* receive the message that is reserved for this index */
	RECEIVE_CANCEL = 5, /* cancel the receive that was posted */
};

/* In submission.count of a GROUP. */
enum group_command {
	GROUP_OPEN = 1,  /* ends with a result, as ENTER, LOCK, TRY and CLOSE do */
	GROUP_LIST = 2,  /* members, in the order of their ranks: as many slots as it takes */
	GROUP_CLOSE = 3, /* leave it */
	GROUP_ENTER = 4, /* a barrier */
	GROUP_LOCK = 5,
	GROUP_TRY = 6,
	GROUP_UNLOCK = 7,
	/* of a shared region; all but UPDATED end with a result */
	GROUP_SUBSCRIBE = 8,
	GROUP_UNSUBSCRIBE = 9,
	GROUP_UPDATES = 10, /* an update wants to begin */
	GROUP_UPDATED = 11, /* one that began has ended */
	/* multicast by the network */
	GROUP_CAST_TO = 12,    /* number: of a word of 32 ranks; value: its bits */
	GROUP_CAST_BEGIN = 13, /* it goes to those that were given; ends with a result */
};

#define SUBSCRIBE_NOTIFY (1ull << 32) /* the home's application is told */

/* The ways in which multicasts in groups go to members on other nodes. */
enum multicast_by {
	MULTICAST_AUTO,    /* by the network to those whom it reaches, if there are several */
	MULTICAST_LIST,    /* by a copy for each */
	MULTICAST_NETWORK, /* by the network wherever a link can do that */
};

/* ID of the group's area that is a shared region's copy; above those of applications, and below
 * those of libraries on top. */
#define AREA_OF_REGION 0xFFFF0000u

#define MEMORY_COPIED UINT32_MAX /* memory that the engine has not mapped: the kernel copies */
/* most pieces of memory of a context that its engine has mapped */
#define MEMORIES_MAX  64

enum transfer_kind {
	TRANSFER_PUSH = 1,
	TRANSFER_PULL = 2,
	TRANSFER_PACKED = 3, /* a push whose frames the client packs (SUBMIT_FRAME) */
	TRANSFER_PIN = 4,    /* keep remote memory pinned */
	TRANSFER_UNPIN = 5,  /* ... no longer */
	TRANSFER_OFFER = 6,  /* let the other side fetch the local bytes, once: by its PULL or
			      * ACCEPT with OFFERED */
	TRANSFER_ACCEPT = 7, /* have what the other side offered pushed here */
	TRANSFER_ATOMIC = 8, /* have the other side's engine change its memory; the operands are in
			      * bits */
};

#define TRANSFER_AREA    0x01 /* key is an area ID, and `at` an offset in that area */
#define TRANSFER_NOTIFY  0x02 /* PUSH, PULL: tell the other application, with imm */
#define TRANSFER_ORDERED 0x04 /* takes effect after earlier ones to the same context */
#define TRANSFER_STRIDE  0x08 /* PULL: dims, block, interval and count are valid */
#define TRANSFER_BITMAP  0x10 /* PULL: unit and bits are valid */
#define TRANSFER_OFFERED 0x20 /* PULL, ACCEPT: key is the id of an offer */
#define TRANSFER_FETCH   0x40 /* ATOMIC: the engine writes what was there before to bits */
#define TRANSFER_ALL     0x7F
#define TRANSFER_TAKEN   0x80 /* the engine's own: a PULL that tells its target */

/* An id consists of the place and of how often it was used, counted from a random number. */
#define TRANSFER_ID(place, uses) ((uint32_t)(place) | (uint32_t)(uses) << 10)
#define TRANSFER_PLACE(id)       (0x3FF & (id))

#define TRANSFER_DIMS_MAX 3
#define TRANSFER_UNITS    1024 /* units of a bitmap */

/* A transfer, in its place of the channel's table. Written by the client before it submits the
 * place's number; copied once by the engine. */
struct transfer_desc {
	uint8_t kind;           /* enum transfer_kind */
	uint8_t flags;          /* TRANSFER_* */
	uint16_t node, ctx;     /* the other side */
	uint32_t id;            /* TRANSFER_ID: carried in the frames, so that late answers are
				 * recognised */
	uint32_t memory;        /* number of the memory of the local bytes, or MEMORY_COPIED */
	uint32_t status_memory; /* number of the memory of `status` */
	uint64_t key, at;       /* of the remote bytes */
	uint64_t len;           /* bytes that the transfer spans */
	uint64_t imm;
	uint64_t local;      /* address in the client */
	uint64_t status;     /* address in the client of a word to write the result to, 0 = none */
	uint64_t offset;     /* BITMAP: offset of the first bit's unit in the transfer */
	uint32_t dims, unit; /* unit: ATOMIC: TRANSFER_OPERATION */
	uint64_t block, interval[TRANSFER_DIMS_MAX], count[TRANSFER_DIMS_MAX];
	uint64_t bits[TRANSFER_UNITS / 64]; /* ATOMIC: operands, and TRANSFER_COMPARED */
} __attribute__((aligned(64)));

#define TRANSFER_OPERATION(op, type) ((uint32_t)(op) | (uint32_t)(type) << 8)
#define TRANSFER_OP(operation)       (0xFF & (operation))
#define TRANSFER_TYPE(operation)     ((operation) >> 8)
/* Index in bits from which on those compared with are. */
#define TRANSFER_COMPARED            (TRANSFER_UNITS / 64 / 2)

#define EVENT_TAKEN (1ull << 63)

/* A push or pull with NOTIFY, of which the engine tells the application; the bytes after the
 * mark. */
struct event_slot {
	uint64_t imm, len;  /* len: bytes that were pushed; with EVENT_TAKEN: pulled */
	uint16_t node, ctx; /* who did */
} __attribute__((packed, aligned(4)));

#define COMPLETION_BUFS             14
#define COMPLETION_ITEM(buf, error) ((uint32_t)(buf) | (uint32_t)(error) << 24)
/* Flags in count: what the items are, if they are not send buffers. */
#define COMPLETION_TRANSFERS        0x10000u /* places of transfers, each with its error */
/* results of matched receives: one or two struct completion_receive */
#define COMPLETION_RECEIVES         0x40000u
/* enum group_kind | errno << 8 | handle << 16, rank, number, bits; number of one that opened: 1: it
 * was refused, and is not to be closed */
#define COMPLETION_GROUP            0x80000u
/* ticket, errno | rank << 16, number: a collective has ended */
#define COMPLETION_COLL             0x100000u
#define COMPLETION_REGION           0x20000u /* ticket, errno, key's halves, low first */

/* engine -> client; the bytes after the mark */
struct completion {
	uint32_t count;                 /* with COMPLETION_* */
	uint32_t item[COMPLETION_BUFS]; /* number and positive errno << 24: COMPLETION_ITEM */
};

enum receive_result {
	RECEIVE_ENDED = 1, /* with `error` */
	RECEIVE_FOUND = 2, /* a PROBE or TAKE found a message */
	RECEIVE_NONE = 3,  /* ... did not */
	RECEIVE_WAITS = 4, /* submit RECEIVE_TAKEN for it: the bytes are runs, which need a buffer
			    * of their own */
	RECEIVE_LATE = 5,  /* CANCEL: too late, the receive has a message */
};

struct completion_receive {
	uint32_t index;
	uint8_t result; /* enum receive_result */
	uint8_t error;  /* a positive errno */
	uint8_t runs;   /* the message consists of runs */
	uint8_t more;   /* a struct completion_immediate follows; no other is in its slot */
	uint32_t source;
	uint64_t tag, len; /* of the message */
} __attribute__((packed, aligned(4)));
_Static_assert(2 * sizeof(struct completion_receive) <= COMPLETION_BUFS * sizeof(uint32_t),
	"two in a slot");

struct completion_immediate {
	uint64_t value;
	uint32_t label;
} __attribute__((packed, aligned(4)));
_Static_assert(sizeof(struct completion_receive) + sizeof(struct completion_immediate) <=
		COMPLETION_BUFS * sizeof(uint32_t),
	"both in a slot");

_Static_assert(sizeof(struct submission) <= SLOT_BYTES - 4, "submission");
_Static_assert(sizeof(struct completion) <= SLOT_BYTES - 4, "completion");
_Static_assert(sizeof(struct event_slot) <= SLOT_BYTES - 4, "event");

/* The link that lies in bulk memory right before the payload of each buffer of a chain. */
struct bulk_link {
	int64_t next_off; /* offset of the next buffer's payload from the base; 0 = last */
	uint32_t len;     /* payload bytes of this buffer */
	uint32_t pad;
};
_Static_assert(sizeof(struct bulk_link) == 16, "bulk link");

/* bytes before the payload of each buffer of a thin client; they end with the bulk_link */
#define CHANNEL_BUFFER_HEAD 64

#define CHANNEL_INLINE_MOST 128
/* Return the most buffers of its own that the engine has for inline messages of a context with so
 * many send buffers; it may have fewer. They have the numbers that follow the client's. A thin
 * client's memory has room for them as well, so that what is under way can pass to another
 * primary. */
static inline uint32_t
channel_inline_sends(uint32_t send_buffers)
{
	return send_buffers < CHANNEL_INLINE_MOST ? send_buffers : CHANNEL_INLINE_MOST;
}

/* The sizes for which a region is laid out: the maximum of what its contexts may ask for. */
struct channel_geometry {
	uint32_t submissions, completions; /* slots, powers of two */
	uint32_t send_buffers;             /* most */
	uint32_t transfers;
	uint32_t events; /* slots, a power of two */
	struct lhs_config lhs, matched;
};

/* The places of a region's parts, in bytes from its start. The engine uses this and not the offsets
 * in the region, which the client can write. */
struct channel_layout {
	uint64_t submissions, completions, lhs, matched, send_off, transfers, events, bytes;
};
struct channel_layout channel_layout(const struct channel_geometry *g);
/* Return the bytes of a region. */
uint64_t channel_bytes(const struct channel_geometry *g);
/* Return the distance in bytes between the buffers of a thin client. */
static inline uint32_t
channel_buffer_bytes(uint32_t frag_len)
{
	return CHANNEL_BUFFER_HEAD + ((frag_len + 63) & ~63u);
}
/* Return the bytes of a thin client's memory: the region, then so many buffers. */
uint64_t channel_thin_bytes(const struct channel_geometry *g, uint32_t buffers, uint32_t frag_len);
/* Zero the region and write its header, for a new life of the region. */
void channel_format(struct channel_shm *shm, const struct channel_geometry *g, uint16_t node,
	uint16_t ctx, uint32_t generation);
/* Return NULL if a client can use the region, otherwise a static string that says what is wrong. */
const char *channel_check(const struct channel_shm *shm);

/* Return the region's submission slots. This function and the next ones find a part by the offset
 * in the region's header, so they are for the client only. */
static inline struct slot *
channel_submissions(struct channel_shm *shm)
{
	return (struct slot *)((uint8_t *)shm + shm->submissions_off);
}

static inline struct slot *
channel_completions(struct channel_shm *shm)
{
	return (struct slot *)((uint8_t *)shm + shm->completions_off);
}

static inline void *
channel_lhs(struct channel_shm *shm)
{
	return (uint8_t *)shm + shm->lhs_off;
}

static inline void *
channel_matched(struct channel_shm *shm)
{
	return (uint8_t *)shm + shm->matched_off;
}

/* Return the offsets of the send buffers' payloads from the base. The engine writes them. */
static inline _Atomic int64_t *
channel_send_off(struct channel_shm *shm)
{
	return (_Atomic int64_t *)((uint8_t *)shm + shm->send_off_off);
}

static inline struct transfer_desc *
channel_transfers(struct channel_shm *shm)
{
	return (struct transfer_desc *)((uint8_t *)shm + shm->transfers_off);
}

static inline struct slot *
channel_events(struct channel_shm *shm)
{
	return (struct slot *)((uint8_t *)shm + shm->events_off);
}

/* The attach handshake: one request, one reply. Secondaries use rte_mp, thin clients a socket
 * (SOCK_SEQPACKET) in the file system: its permissions decide who may attach, and the kernel tells
 * who the peer is. */
#define ATTACH_ACTION     "pmx_attach"
/* A client waits so long for the answer of a primary that lives, so that a machine on which all
 * stands still for a while is not taken for a primary that hangs. The end of the primary is noticed
 * at once. */
#define ATTACH_PATIENCE_S 30
/* directory and socket of primaries that root runs; %s is the primary's name */
#define ATTACH_SOCKETS    "/run/pmx-dpdk"
#define ATTACH_SOCKET     ATTACH_SOCKETS "/%s.sock"
/* symbolic link to the socket in the EAL's runtime directory, which secondaries use before they
 * initialise their EAL */
#define ATTACH_LINK       "pmx_attach"

enum attach_op {
	ATTACH_HELLO = 1, /* versions only */
	ATTACH_OPEN = 2,  /* thin: with the descriptor of its memory, to be mapped as for MEMORY */
	ATTACH_CLOSE = 3,
	ATTACH_MEMORY = 4,    /* with a descriptor: map its memory, which is sealed against
			       * shrinking */
	ATTACH_BYTES = 5,     /* thin: how many bytes does an OPEN of these quotas need? */
	ATTACH_TAKE_OVER = 6, /* from a primary, over the socket: addr holds its takeover_terms;
			       * lib/primary/takeover.h says what follows the reply */
	ATTACH_BEFORE = 7,    /* over the socket: HELLO of a process that is about to become a
			       * secondary */
	ATTACH_OWNER = 8,     /* which process has that context of this node open, thin? */
	ATTACH_PAIR = 9,      /* thin: a socket to that context (addr; PAIR_ANY: to one that has
			       * asked for it), for memory that both map: pair.h */
	ATTACH_NODE = 10,     /* which node has the address in addr and len? `ctx` is enum
			       * attach_address */
	ATTACH_JOBS = 11,     /* over the socket: `ctx` is enum attach_jobs, addr the job; STOP,
			       * PARK: len: drain, us, with ATTACH_HOLD, ATTACH_PROCESSES */
	ATTACH_TELL = 14,     /* over the socket: `ctx` is a number of tell.h, addr its parameter:
			       * returns a descriptor with telemetry's answer, of `bytes` */
	ATTACH_CAPTURE = 13,  /* over the socket, with a descriptor of capture.h's memory: copy
			       * frames there while the connection lasts; addr: capture_filter() */
	ATTACH_STOP = 12,     /* addr: enum attach_stop, of that context; len: drain, us */
};

enum attach_jobs {
	ATTACH_JOBS_STOP = 1,
	ATTACH_JOBS_START = 2,
	ATTACH_JOBS_STATE = 3,
	ATTACH_JOBS_NEXT = 4, /* the state of the next job above that number */
	ATTACH_JOBS_PARK = 5,
	ATTACH_JOBS_LOAD = 6,
};

enum attach_stop {
	ATTACH_STOP_START, /* it goes on */
	ATTACH_STOP_STOP,
	ATTACH_STOP_PARK,
};
#define ATTACH_DRAIN_MOST_US 60000000u
#define ATTACH_HOLD          (1ull << 32) /* the job goes on when the connection ends */
#define ATTACH_PROCESSES     (1ull << 33) /* its processes are stopped as well */

/* The kinds of address that the 16 bytes of attach_request.addr and len can hold. The address lies
 * there from the first byte on, in the order in which it is sent; 0 behind it. */
enum attach_address {
	ATTACH_IPV4,
	ATTACH_IPV6,
	ATTACH_MAC,
	ATTACH_NAME, /* channel_name_hash() */
};

#define ATTACH_NAME_MAX 64 /* of a node, with its 0 */

/* Return whether a text may be the name of a node or a host: letters, digits and ".-_", one letter
 * at least, so that it is no number and no address. */
bool channel_name_ok(const char *text);
/* Write the hash that stands for a name where only 16 bytes have room. No two names are likely to
 * have the same. */
void channel_name_hash(const char *name, uint8_t hash[16]);

struct attach_request {
	uint32_t abi;
	uint32_t op; /* enum attach_op */
	int32_t pid;
	uint16_t ctx;
	uint16_t adopted;    /* MEMORY: the memory was the client's own before; index of
			      * channel_shm.revoked + 1, or 0 */
	uint32_t generation; /* CLOSE, MEMORY: that of the open they refer to */
	uint32_t send_buffers, receive_buffers;
	uint32_t open_wait_us; /* OPEN */
	uint32_t zero;
	uint64_t addr, len; /* MEMORY: where the client has mapped it; OPEN: addr: the job, and
			     * << 32 its domain */
};

#define PAIR_ANY UINT64_MAX

/* OPEN returns two descriptors: one becomes readable when a message arrives, writing to the other
 * wakes the engine. PAIR returns one, and in ctx the other side. */
struct attach_reply {
	uint32_t abi;
	int32_t result;      /* 0 or negative errno */
	uint16_t node, ctx;  /* node: the primary's; NODE: what was asked for */
	uint32_t generation; /* JOBS: the job */
	uint32_t memory; /* MEMORY: its number; JOBS: contexts of it; PAIR: 0: make the memory, 1:
			  * the other side does */
	int32_t pid;     /* of the primary; OWNER, PAIR: of the other context's process */
	uint64_t bytes;  /* BYTES; JOBS: contexts that are stopped, and << 32 that are settled;
			  * STOP: whether it is settled, or parked if that was asked */
	/* BEFORE: what a secondary must have in common with the primary, and what it must avoid */
	uint64_t memory_begin, memory_end; /* addresses that its EAL will map */
	uint16_t lcore; /* exclusive while the connection lasts; 0: none is left */
	uint16_t mempool_ops_index;
	char mempool_ops[32];
	char dpdk[32]; /* version */
	uint64_t shm;  /* JOBS: contexts that are parked.
			* OPEN of a secondary: address of the channel, the same in both processes.
			* Looking it up by name would take a lock of the primary, which a secondary
			* that is killed would keep */
};

#endif
