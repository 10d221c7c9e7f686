/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The shared-memory contract between the engine and one application's context: layout, version,
 * slot formats, who may write what. Both sides include this and nothing else of each other.
 *
 * Design notes
 * 1. Offsets only, never pointers: everything is counted from the start of the region ("base"),
 *    bulk memory too. Whoever maps region and bulk memory at equal distances can use a channel.
 * 2. The geometry in struct channel_shm is for the client. The engine keeps its own copy and reads
 *    of the region only: slots and descriptions of transfers (copied once, then checked), positions
 *    (checked), two flags.
 * 3. Send buffers come back in completion slots, up to 14 in one. A separate rte_ring of free
 *    buffers would put a ring header (size, mask) that the engine indexes with into memory that
 *    the client writes: a hostile client could make the engine write anywhere.
 * 4. Sleeping, both ways, is Dekker's: the sleeper sets its flag, full fence, looks again; the
 *    waker fills a slot, full fence, looks at the flag. The fences are paid only when asked for
 *    (wake_client set, engine_may_sleep set).
 * 5. A thin client maps its channel and nothing else: behind the region lie its own send and
 *    receive buffers, and the engine copies between them and mbufs. The pages are the client's, as
 *    those of pmx_alloc are (lib/memory/pieces.c: nothing that it does to them makes an access of
 *    the engine fail).
 */
#ifndef PMX_CHANNEL_H
#define PMX_CHANNEL_H

#include <stdint.h>

#include "channel/slot_ring.h"
#include "lhs/lhs.h"

#define CHANNEL_MAGIC 0x504D5843484E3031u /* "PMXCHN01" */
/* Grows with every change of anything in this file, slot_ring.h or struct lhs_entry. */
#define CHANNEL_ABI   5
#define CHANNEL_NAME  "pmx_%u_ch_%u" /* memzone: node, context */

enum channel_state {
	CHANNEL_CLOSED = 0,
	CHANNEL_OPEN = 1,
	CHANNEL_CLOSING = 2, /* what was submitted is still delivered */
	CHANNEL_DEAD = 3,    /* the engine stopped: every call gives -EPIPE */
};

#define RENDEZVOUS_AUTO 0
#define REGIONS_WATCHED 1024 /* of one process, of memory that pmx_alloc did not give */

/* What the client's pin-down cache did; for pmx-ctl to show. */
struct pin_counters {
	uint64_t hits, misses, evictions;     /* of this context */
	uint64_t invalidations, pinned_bytes; /* of its process */
};

/* Written by the engine, read by the client; except where a line says otherwise. */
struct channel_shm {
	uint64_t magic;
	uint32_t abi;
	uint32_t bytes; /* of the region */
	uint16_t node, ctx;
	uint32_t generation;             /* grows with every open */
	uint32_t submissions;            /* slots, power of two */
	uint32_t completions;            /* slots, power of two */
	struct lhs_config lhs, matched;  /* rings of plain messages and of those that receives
					  * match */
	uint32_t lhs_room, matched_room; /* most entries of each that the engine fills before some
					  * are given back */
	uint32_t send_buffers;           /* numbers 0..send_buffers-1 are the client's at open */
	uint32_t receive_buffers, matched_buffers;       /* quotas, for information */
	uint32_t unexpected, receives, unexpected_bytes; /* most that the client keeps */
	uint32_t rendezvous; /* messages longer than this wait for their receive; bytes,
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
	uint32_t engine_matches;      /* matched messages are the engine's: SUBMIT_RECEIVE */
	uint32_t engine_may_sleep;    /* submissions must look at engine_sleeps */
	uint32_t yields;              /* engine.idle shares CPUs: so shall polls of the client that
				       * find nothing */
	uint32_t kernel_copies;  /* 0: the engine reaches memory that it has mapped, and no other
				  * (MEMORY_COPIED) */
	_Atomic uint32_t rtt_ns; /* to the node of the last OFFER; 0: not known */
	_Atomic uint32_t state;  /* enum channel_state */
	/* positions, a line each so that the two sides do not share one */
	_Alignas(64) _Atomic uint32_t engine_sleeps;   /* engine: ring the doorbell */
	_Alignas(64) _Atomic uint32_t submissions_pos; /* engine's, as consumer */
	_Alignas(64) _Atomic uint32_t completions_pos; /* client's, as consumer */
	_Alignas(64) _Atomic uint32_t lhs_pos;         /* client's, as reader */
	_Alignas(64) _Atomic uint32_t matched_pos;     /* client's, as reader */
	_Alignas(64) _Atomic uint32_t wake_client;     /* client: make my descriptor readable */
	_Alignas(64) _Atomic uint32_t events_pos;      /* client's, as consumer */
	_Alignas(64) struct pin_counters pins;         /* client's */
	_Atomic uint8_t revoked[REGIONS_WATCHED];      /* client's: the memory is no longer what was
							* registered */
};

enum submission_op {
	SUBMIT_SEND = 1,     /* a message; its first buffers */
	SUBMIT_MATCHED = 2,  /* the same, for a receive to match: begins with a struct wire_match */
	SUBMIT_MORE = 11,    /* further buffers of the message before */
	SUBMIT_RELEASE = 3,  /* bulk buffers that the client no longer reads */
	SUBMIT_SELECT = 4,   /* from now on the client sleeps at times: look at wake_client */
	SUBMIT_TRANSFER = 5, /* a remote memory transfer; what it is stands in its place of the
			      * table */
	SUBMIT_FRAME = 6,    /* one frame of a transfer that the client packs itself */
	SUBMIT_REGISTER = 7, /* let others reach a piece of memory */
	SUBMIT_DEREGISTER = 8,
	SUBMIT_CANCEL = 10,  /* a transfer whose frames the client packs goes no further */
	SUBMIT_RECEIVE = 12, /* what a receive or a probe shall match; matching is the engine's */
	SUBMIT_FORGET = 9,   /* memory that the engine mapped is no longer needed */
};

#define SUBMIT_SEND_BUFS    22
#define SUBMIT_MORE_BUFS    28
#define SUBMIT_RELEASE_BUFS 14

/* client -> engine; the bytes after the mark */
struct submission {
	uint8_t op; /* enum submission_op */
	uint8_t pad;
	uint16_t count; /* SEND: buffers of the whole message; MORE, RELEASE: in this slot */
	union {
		struct {
			uint16_t dst_node, dst_ctx;
			uint32_t len; /* bytes of the message */
			uint16_t buf[SUBMIT_SEND_BUFS];
		} send;
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
			uint32_t memory;         /* where it lies, MEMORY_COPIED */
			uint32_t area;           /* REGION_NO_AREA: none */
			uint32_t ticket;         /* comes back with the answer */
			uint32_t rights;         /* enum region_right */
			uint32_t watched;        /* index of channel_shm.revoked; REGIONS_WATCHED:
						  * none */
		} __attribute__((packed, aligned(4))) region;
		uint32_t forget;
		struct {
			uint32_t index; /* the client's, below channel_shm.receives; comes back
					 * with the result */
			uint32_t comm, source; /* source: node << 16 | context,
						* RECEIVE_ANY_SOURCE */
			uint32_t memory;       /* where the bytes go, MEMORY_COPIED */
			uint64_t tag, ignore;
			uint64_t local, len;
		} __attribute__((packed, aligned(4))) receive;
	};
};

#define RECEIVE_ANY_SOURCE UINT32_MAX

/* In submission.count of a RECEIVE. */
enum receive_kind {
	RECEIVE_POST = 1,   /* the next message, or the oldest that waits */
	RECEIVE_PROBE = 2,  /* tell of the oldest that waits */
	RECEIVE_TAKE = 3,   /* ... which becomes this index's */
	RECEIVE_TAKEN = 4,  /* receive the message that is this index's */
	RECEIVE_CANCEL = 5, /* that was posted */
};

#define MEMORY_COPIED UINT32_MAX /* not mapped by the engine: the kernel copies */
#define MEMORIES_MAX  64         /* of a context: pieces that its engine has mapped */

enum transfer_kind {
	TRANSFER_PUSH = 1,
	TRANSFER_PULL = 2,
	TRANSFER_PACKED = 3, /* a push whose frames the client packs (SUBMIT_FRAME) */
	TRANSFER_PIN = 4,    /* remote memory shall stay pinned */
	TRANSFER_UNPIN = 5,  /* ... need not any more */
	TRANSFER_OFFER = 6,  /* the local bytes are the other side's to fetch, once: by its PULL or
			      * ACCEPT with OFFERED */
	TRANSFER_ACCEPT = 7, /* the other side's offer shall be pushed here */
};

#define TRANSFER_AREA    0x01 /* key is an area ID, at an offset in it */
#define TRANSFER_NOTIFY  0x02 /* PUSH: tell the other application, with imm */
#define TRANSFER_ORDERED 0x04 /* not before earlier ones to the same context took effect */
#define TRANSFER_STRIDE  0x08 /* PULL: dims, block, interval, count hold */
#define TRANSFER_BITMAP  0x10 /* PULL: unit, bits hold */
#define TRANSFER_OFFERED 0x20 /* PULL, ACCEPT: key is the id of an offer */
#define TRANSFER_ALL     0x3F

/* Place, and how often it was used, from a random number on. */
#define TRANSFER_ID(place, uses) ((uint32_t)(place) | (uint32_t)(uses) << 10)
#define TRANSFER_PLACE(id)       (0x3FF & (id))

#define TRANSFER_DIMS_MAX 3
#define TRANSFER_UNITS    1024 /* of a bitmap */

/* A transfer, in its place of the channel's table. Written by the client before it submits the
 * place's number; copied once by the engine. */
struct transfer_desc {
	uint8_t kind;           /* enum transfer_kind */
	uint8_t flags;          /* TRANSFER_* */
	uint16_t node, ctx;     /* the other side */
	uint32_t id;            /* TRANSFER_ID: in the frames, so that late answers are known */
	uint32_t memory;        /* where the local bytes lie: number, or MEMORY_COPIED */
	uint32_t status_memory; /* where `status` lies; a number */
	uint64_t key, at;       /* of the remote bytes */
	uint64_t len;           /* bytes that the transfer spans */
	uint64_t imm;
	uint64_t local;  /* address in the client */
	uint64_t status; /* address in the client of a word to write the result to, 0 = none */
	uint64_t offset; /* BITMAP: in the transfer, of the first bit */
	uint32_t dims, unit;
	uint64_t block, interval[TRANSFER_DIMS_MAX], count[TRANSFER_DIMS_MAX];
	uint64_t bits[TRANSFER_UNITS / 64];
} __attribute__((aligned(64)));

/* What an application is told of by the engine; the bytes after the mark. */
struct event_slot {
	uint64_t imm, len;  /* len: bytes that were pushed */
	uint16_t node, ctx; /* by whom */
} __attribute__((packed, aligned(4)));

#define COMPLETION_BUFS             14
#define COMPLETION_ITEM(buf, error) ((uint32_t)(buf) | (uint32_t)(error) << 24)
/* In count: what the items are, if not send buffers. */
#define COMPLETION_TRANSFERS        0x10000u /* places of transfers; each with its error */
/* of matched messages: struct completion_receive, one or two */
#define COMPLETION_RECEIVES         0x40000u
#define COMPLETION_REGION           0x20000u /* ticket, errno, key's halves, low first */

/* engine -> client; the bytes after the mark */
struct completion {
	uint32_t count;                 /* with COMPLETION_* */
	uint32_t item[COMPLETION_BUFS]; /* number, positive errno << 24 */
};

enum receive_result {
	RECEIVE_ENDED = 1, /* with `error` */
	RECEIVE_FOUND = 2, /* by a PROBE or TAKE */
	RECEIVE_NONE = 3,  /* ... not */
	RECEIVE_WAITS = 4, /* TAKEN is to be asked for: what it got are runs, for a buffer of their
			    * own */
	RECEIVE_LATE = 5,  /* CANCEL: it has a message */
};

struct completion_receive {
	uint32_t index;
	uint8_t result; /* enum receive_result */
	uint8_t error;  /* a positive errno */
	uint8_t runs;   /* the message is runs */
	uint8_t zero;
	uint32_t source;
	uint64_t tag, len; /* of the message */
} __attribute__((packed, aligned(4)));
_Static_assert(2 * sizeof(struct completion_receive) <= COMPLETION_BUFS * sizeof(uint32_t),
	"two in a slot");

_Static_assert(sizeof(struct submission) <= SLOT_BYTES - 4, "submission");
_Static_assert(sizeof(struct completion) <= SLOT_BYTES - 4, "completion");
_Static_assert(sizeof(struct event_slot) <= SLOT_BYTES - 4, "event");

/* What stands in bulk memory right before the payload of each buffer of a chain. */
struct bulk_link {
	int64_t next_off; /* payload of the next buffer, from the base; 0 = last */
	uint32_t len;     /* payload bytes of this buffer */
	uint32_t pad;
};
_Static_assert(sizeof(struct bulk_link) == 16, "bulk link");

/* bytes before each payload of a thin client's buffers; a bulk_link is at their end */
#define CHANNEL_BUFFER_HEAD 64

/* Sizes that a region is laid out for: the maximum of what its contexts may ask. */
struct channel_geometry {
	uint32_t submissions, completions; /* slots, powers of two */
	uint32_t send_buffers;             /* most */
	uint32_t transfers;
	uint32_t events; /* slots, a power of two */
	struct lhs_config lhs, matched;
};

/* Where the parts of a region are, in bytes from its start. The engine goes by this, and not by
 * what stands in the region, which is the client's to write. */
struct channel_layout {
	uint64_t submissions, completions, lhs, matched, send_off, transfers, events, bytes;
};
struct channel_layout channel_layout(const struct channel_geometry *g);
/* Bytes of a region. */
uint64_t channel_bytes(const struct channel_geometry *g);
/* Bytes from one buffer of a thin client to the next. */
static inline uint32_t
channel_buffer_bytes(uint32_t frag_len)
{
	return CHANNEL_BUFFER_HEAD + ((frag_len + 63) & ~63u);
}
/* Bytes of a thin client's: the region, then so many buffers. */
uint64_t channel_thin_bytes(const struct channel_geometry *g, uint32_t buffers, uint32_t frag_len);
/* Write the header and zero the rings: a new life of the region. */
void channel_format(struct channel_shm *shm, const struct channel_geometry *g, uint16_t node,
	uint16_t ctx, uint32_t generation);
/* NULL, or what is wrong with a region that a client is about to use. */
const char *channel_check(const struct channel_shm *shm);

/* Where a client finds the parts: by the header. */
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

/* Where the payload of each send buffer is, from the base. Written by the engine. */
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

/* The attach handshake: one request, one reply. Secondaries ask over rte_mp, thin clients over a
 * socket (SOCK_SEQPACKET) in the file system: who can open it may ask, and the kernel says who it
 * is. */
#define ATTACH_ACTION "pmx_attach"
#define ATTACH_SOCKET "/run/pmx-dpdk/%s.sock" /* of a primary that root runs; by its name */
/* in the EAL's runtime directory: points at the socket. Secondaries ask there before their EAL
 * begins */
#define ATTACH_LINK   "pmx_attach"

enum attach_op {
	ATTACH_HELLO = 1, /* versions only */
	ATTACH_OPEN = 2,  /* thin: with a descriptor of bytes of memory, as for MEMORY */
	ATTACH_CLOSE = 3,
	ATTACH_MEMORY = 4,    /* with a descriptor: map it, sealed against shrinking */
	ATTACH_BYTES = 5,     /* thin: how many does an OPEN of these quotas take? */
	ATTACH_TAKE_OVER = 6, /* a primary, by the socket: addr is its takeover_terms; what follows
			       * the reply is in lib/serve/takeover.h */
	ATTACH_BEFORE = 7,    /* by the socket: HELLO of a process that is about to become a
			       * secondary */
};

struct attach_request {
	uint32_t abi;
	uint32_t op; /* enum attach_op */
	int32_t pid;
	uint16_t ctx;
	uint16_t adopted;    /* MEMORY: it was the client's before; index of
			      * channel_shm.revoked + 1, or 0 */
	uint32_t generation; /* CLOSE, MEMORY: of the open that is meant */
	uint32_t send_buffers, receive_buffers;
	uint64_t addr, len; /* MEMORY: where the client has mapped it; OPEN: len */
};

/* With two descriptors on OPEN: readable when a message came; write to wake the engine. */
struct attach_reply {
	uint32_t abi;
	int32_t result; /* 0 or negative errno */
	uint16_t node, ctx;
	uint32_t generation;
	uint32_t memory; /* MEMORY: its number */
	int32_t pid;     /* of the primary */
	uint64_t bytes;  /* BYTES */
	/* BEFORE: what a secondary must agree in, and keep away from */
	uint64_t memory_begin, memory_end; /* addresses that its EAL will map */
	uint16_t lcore; /* nobody else's as long as the connection lasts; 0: there is
			 * none left */
	uint16_t mempool_ops_index;
	char mempool_ops[32];
	char dpdk[32]; /* version */
	uint64_t shm;  /* OPEN, of a secondary: address of the channel, the same there.
			* Looked up by no name: that takes a lock of the primary's,
			* which a process that is killed would keep */
};

#endif
