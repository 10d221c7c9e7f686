/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The wire format of the PM protocol: every packet structure, limit and version. Pure data and pure
 * functions: any thread may call them. Source: PM/UDP (IPSJ 1999) section 2 for sequence numbers,
 * Ack and Nack; fragmentation, epochs, credit and time stamps are ours.
 *
 * Adding a frame type: give it a number in enum wire_type, a row in wire_types[] (wire.c), a
 * handler in lib/core/proto/receive.c, golden bytes in test/unit/test_wire.c, a section in
 * doc/reference/wire.md.
 */
#ifndef PMX_WIRE_H
#define PMX_WIRE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WIRE_VERSION     2
#define WIRE_HDR_BYTES   50 /* 14 (Ethernet) + 50 = 64: the payload starts a cache line */
/* bytes of a frame on the wire in addition to PM header and payload: Ethernet 14, FCS 4, preamble
 * and gap 20 */
#define WIRE_FRAME_EXTRA 38
#define WIRE_ETHERTYPE   0x88B5 /* IEEE local experimental; config key link.ethertype */
#define WIRE_UDP_PORT    18515  /* default port of both UDP encapsulations */
#define WIRE_NODES_MAX   65535  /* node and context numbers are 0..65534 */
#define WIRE_NOBODY      0xFFFF /* no node, no context */
#define WIRE_MESSAGE_MAX (8u << 20)
#define WIRE_PAYLOAD_MAX (65507 - WIRE_HDR_BYTES)
/* frames of one flow between expected and newest */
#define WIRE_WINDOW_MAX  512
#define WIRE_HOLES_MAX   (WIRE_WINDOW_MAX / 8) /* bytes of a Nack's bitmap */
#define WIRE_TSTAMP_HZ   16000000u             /* time stamps count 62.5 ns on every node */

enum wire_type {
	WIRE_DATA = 1,  /* one fragment of a message, with a piggybacked Ack */
	WIRE_ACK = 2,   /* cumulative Ack with credit, no payload */
	WIRE_NACK = 3,  /* Ack, and a bitmap of what is missing */
	WIRE_HELLO = 4, /* epochs of both nodes: a handshake of three steps */
	WIRE_PING = 5,  /* asks whether the peer is alive; carries nothing, or zeros to be as
			 * long as a frame that may be too long for the network between */
	WIRE_PONG = 6,  /* the answer to PING */
	WIRE_RESET = 7, /* the named flow is unknown here, or its sender gave it up */
	/* bytes for members of a group, on any nodes: of no flow and no session, and nobody answers
	 * for it but by messages of the group; dst_node, dst_ctx: WIRE_NOBODY */
	WIRE_MULTI = 8,
	WIRE_LINK = 9, /* with ASK: does this link carry frames? Without: it does. Session 0: there
			* is none yet */
	/* of nodes with keys (lib/handshake); sealed and without payload: these are the first
	 * ones with new keys */
	WIRE_KEYS = 10,
	WIRE_TYPE_COUNT
};

/* Flags. All other bits are sent as 0, and frames that have one set are refused. */
#define WIRE_F_FIRST  0x0001 /* DATA: opens the flow, its sequence is the initial one */
#define WIRE_F_ACK    0x0002 /* ack, credit and share are valid */
#define WIRE_F_ECHO   0x0004 /* echo is valid */
#define WIRE_F_CRC    0x0008 /* crc is valid: CRC32C of header (crc = 0) and payload */
/* NACK: discarded because there is no room (PM-R2), wait for credit; RESET: the message is longer
 * than the context can ever hold */
#define WIRE_F_FULL   0x0010
#define WIRE_F_ABSENT 0x0020 /* NACK: the destination context is not open */
/* HELLO: asks for an answer; DATA: the sender's window is used up, so Ack at once; ACK: its sender
 * is frozen and has more to send in this flow, so what was received of it shall be kept */
#define WIRE_F_ASK    0x0040
#define WIRE_F_SENDER 0x0080 /* RESET: sent by the flow's sender; otherwise by its receiver */
#define WIRE_F_ALL    0x00FF

/* The header of every frame. Big-endian; a frame's bytes follow the link's encapsulation. */
struct wire_hdr {
	uint8_t version;      /* WIRE_VERSION */
	uint8_t type;         /* enum wire_type */
	uint16_t flags;       /* WIRE_F_* */
	uint16_t src_node;    /* who sent this frame */
	uint16_t dst_node;    /* the node it is for */
	uint16_t src_ctx;     /* sending context; identifies the flow together with dst_* */
	uint16_t dst_ctx;     /* receiving context; selects the engine at the receiver */
	uint16_t payload_len; /* bytes after this header that belong to the frame */
	uint16_t credit;      /* frames beyond ack that the receiver has room for, of this flow */
	uint16_t share;       /* frames that this flow may have in flight, 0 = no bound but its
			       * window */
	uint32_t session;     /* wire_session() of both nodes; 0 in HELLO */
	uint32_t seq;         /* DATA, RESET: sequence number of this frame in its flow; LINK: of
			       * the question */
	uint32_t ack;         /* next sequence number expected in the reverse flow */
	uint32_t tstamp;      /* sender's clock, 62.5 ns */
	uint32_t echo;        /* tstamp of the frame that this answers plus the time it was held; of
			       * FIRST without ECHO: the sending context's domain, 0 = none */
	uint32_t msg_len;     /* DATA: bytes of the whole message, 0..WIRE_MESSAGE_MAX; ACK, NACK:
			       * how long the answered frame may have waited in the host, 62.5 ns */
	uint32_t frag_off;    /* DATA: offset of this fragment in the message */
	uint32_t crc;         /* CRC32C, 0 without WIRE_F_CRC */
} __attribute__((packed, aligned(2)));

#define WIRE_NAME_BYTES 32
#define WIRE_H_CHECKSUM 0x01 /* its node sends all frames with CRC, and takes no others */
#define WIRE_H_ALL      0x01

/* HELLO's payload. A peer's epoch is accepted only with our own nonce echoed. */
struct wire_hello {
	uint32_t epoch;       /* random number of the sending node's start */
	uint32_t nonce;       /* random, to be echoed by the peer */
	uint32_t echo;        /* the peer's nonce, 0 = none known */
	uint16_t payload_max; /* longest payload that the sending node accepts, bytes */
	uint16_t window;      /* widest reorder window of the sending node, frames */
	uint64_t secret;      /* random, for this peer alone, the same in all of this life */
	uint32_t age;         /* of the sending node's life, ms */
	uint8_t lanes;        /* of the sending node */
	uint8_t flags;        /* WIRE_H_*; all other bits are 0 */
	uint16_t zero;
	uint8_t name[WIRE_NAME_BYTES]; /* the sending node's, for people; 0 behind it, if there is
					* room */
} __attribute__((packed, aligned(2)));

static_assert(sizeof(struct wire_hdr) == WIRE_HDR_BYTES, "header size");
static_assert(offsetof(struct wire_hdr, flags) == 2, "flags");
static_assert(offsetof(struct wire_hdr, src_node) == 4, "src_node");
static_assert(offsetof(struct wire_hdr, dst_node) == 6, "dst_node");
static_assert(offsetof(struct wire_hdr, src_ctx) == 8, "src_ctx");
static_assert(offsetof(struct wire_hdr, dst_ctx) == 10, "dst_ctx");
static_assert(offsetof(struct wire_hdr, payload_len) == 12, "payload_len");
static_assert(offsetof(struct wire_hdr, credit) == 14, "credit");
static_assert(offsetof(struct wire_hdr, share) == 16, "share");
static_assert(offsetof(struct wire_hdr, session) == 18, "session");
static_assert(offsetof(struct wire_hdr, seq) == 22, "seq");
static_assert(offsetof(struct wire_hdr, ack) == 26, "ack");
static_assert(offsetof(struct wire_hdr, tstamp) == 30, "tstamp");
static_assert(offsetof(struct wire_hdr, echo) == 34, "echo");
static_assert(offsetof(struct wire_hdr, msg_len) == 38, "msg_len");
static_assert(offsetof(struct wire_hdr, frag_off) == 42, "frag_off");
static_assert(offsetof(struct wire_hdr, crc) == 46, "crc");
static_assert(sizeof(struct wire_hello) == 64, "hello size");
static_assert(offsetof(struct wire_hello, secret) == 16, "secret");
static_assert(offsetof(struct wire_hello, name) == 32, "name");

/* Contexts of a node have the numbers 0..WIRE_CONTEXTS_MAX - 1. Each has five more endpoints. Two
 * are for remote memory: requests go from an initiator to a target, and answers go back. They are
 * separate so that a context whose target has no room for more requests still accepts answers. The
 * third is for messages that are matched by receives: those that nobody receives must not block the
 * others. The fourth is for what the engines of a group's members tell each other, and the fifth
 * for their collectives. */
#define WIRE_CONTEXTS_MAX 0x1000
#define WIRE_TARGET       0x1000
#define WIRE_INITIATOR    0x2000
#define WIRE_MATCHED      0x3000
#define WIRE_GROUP        0x4000
#define WIRE_COLL         0x5000
#define WIRE_ENDPOINTS    0x6000 /* all endpoint numbers are below this */

/* Most members of a group, and most locks and shared regions. */
#define WIRE_GROUP_MEMBERS_MAX 1024
#define WIRE_GROUP_LOCKS_MAX   1024
#define WIRE_GROUP_REGIONS_MAX 1024

/* Return which endpoint of its context a number denotes: 0, WIRE_TARGET, WIRE_INITIATOR,
 * WIRE_MATCHED, WIRE_GROUP or WIRE_COLL. */
static inline uint16_t
wire_endpoint(uint16_t number)
{
	return number & (uint16_t) ~(WIRE_CONTEXTS_MAX - 1);
}

/* The kinds of messages between an initiator and a target; each is one frame. RHiNET (1999),
 * section 2.4. */
enum wire_transfer_op {
	WIRE_PUSH = 1,   /* to the target: bytes for its memory */
	WIRE_PULL = 2,   /* to the target: asks for bytes of its memory */
	WIRE_ASK = 3,    /* to the target: has that transfer ended? */
	WIRE_PIN = 4,    /* to the target: make sure that this memory can be accessed, and answer;
			  * with HOLD: keep it so */
	WIRE_PULLED = 5, /* to the initiator: bytes that it asked for */
	WIRE_ENDED = 6,  /* to the initiator: transfers that ended, successfully or not */
	WIRE_ACCEPT = 7, /* to the target: push what you offered */
	WIRE_UNPIN = 8,  /* to the target: undo one PIN with HOLD of that region; with LAST: undo
			  * all of this initiator's, without an answer */
	WIRE_ATOMIC = 9, /* to the target: change this memory, as the struct wire_atomic that
			  * follows says; with FETCH the answer is PULLED, with what was there */
	WIRE_TRANSFER_OPS
};

/* PUSH, PULLED: the last frame of its transfer; UNPIN: the last one of its initiator, which ends */
#define WIRE_T_LAST   0x01
/* PUSH, PULL, PIN, UNPIN, ATOMIC: key is an area ID, and `at` an offset in that area */
#define WIRE_T_AREA   0x02
#define WIRE_T_NOTIFY 0x04 /* PUSH with LAST: tell the application, with imm */
/* PUSH, PULLED: the bytes are runs, each preceded by a struct wire_run */
#define WIRE_T_RUNS   0x08
#define WIRE_T_STRIDE 0x10 /* PULL: a struct wire_stride follows */
/* PUSH without bytes, with LAST and NOTIFY: its initiator has pulled these, so it needs the right
 * to read them */
#define WIRE_T_TAKEN  0x10
#define WIRE_T_FETCH  0x10 /* ATOMIC: answer with the bytes as they were before */
#define WIRE_T_BITMAP 0x20 /* PULL: a struct wire_bitmap follows */
/* PUSH, PULL, ACCEPT, ASK: key is the id of a transfer of the target: its offer, or its ACCEPT */
#define WIRE_T_OFFER  0x40
/* PIN: keep the memory pinned until UNPIN, or until its initiator or the region ends */
#define WIRE_T_HOLD   0x80
#define WIRE_T_ALL    0xFF

/* The beginning of a message between an initiator and a target. Big-endian. */
struct wire_transfer {
	uint8_t op;    /* enum wire_transfer_op */
	uint8_t flags; /* WIRE_T_* */
	uint16_t zero;
	uint32_t id;     /* the initiator's number of the transfer; two lives of a context use the
			  * same one only by chance, 1 in 2^23; ENDED: 0 */
	uint64_t key;    /* of the target's region, or its area ID; otherwise 0 */
	uint64_t at;     /* PUSH, PULL, PIN, ATOMIC: where the transfer begins: an address, or an
			  * offset in the area */
	uint64_t len;    /* PUSH, PULL, PIN, ATOMIC: bytes that the transfer spans; ENDED: items
			  * that follow */
	uint64_t offset; /* offset of this frame's bytes in the transfer; PULL with BITMAP: offset
			  * of the first bit's unit */
	uint64_t imm;    /* NOTIFY: for the application; otherwise 0 */
} __attribute__((packed, aligned(2)));

/* Precedes each run. The run begins `skip` bytes behind the end of the previous one, the first run
 * `skip` bytes behind the frame's offset. */
struct wire_run {
	uint32_t skip, len;
} __attribute__((packed, aligned(2)));

struct wire_stride {
	uint32_t dims; /* 1..3, innermost first */
	uint32_t zero;
	uint64_t block, interval[3], count[3];
} __attribute__((packed, aligned(2)));

#define WIRE_BITMAP_UNITS 1024
struct wire_bitmap {
	uint32_t unit; /* bytes: a power of two, 4..4096 */
	uint32_t zero;
	uint8_t bits[WIRE_BITMAP_UNITS / 8]; /* bit k of byte j: unit 8 j + k */
} __attribute__((packed, aligned(2)));

enum wire_atomic_op {
	WIRE_A_MIN,
	WIRE_A_MAX,
	WIRE_A_SUM,
	WIRE_A_PROD,
	WIRE_A_LOR,
	WIRE_A_LAND,
	WIRE_A_BOR,
	WIRE_A_BAND,
	WIRE_A_LXOR,
	WIRE_A_BXOR,
	WIRE_A_READ,
	WIRE_A_WRITE,
	WIRE_A_CSWAP,
	WIRE_A_CSWAP_NE,
	WIRE_A_CSWAP_LE,
	WIRE_A_CSWAP_LT,
	WIRE_A_CSWAP_GE,
	WIRE_A_CSWAP_GT,
	WIRE_A_MSWAP,
	WIRE_A_OPS
};

enum wire_atomic_type {
	WIRE_A_INT8,
	WIRE_A_UINT8,
	WIRE_A_INT16,
	WIRE_A_UINT16,
	WIRE_A_INT32,
	WIRE_A_UINT32,
	WIRE_A_INT64,
	WIRE_A_UINT64,
	WIRE_A_FLOAT,
	WIRE_A_DOUBLE,
	WIRE_A_TYPES
};

/* Follows the head of an ATOMIC; then the operands, unless op is READ, and those compared with, if
 * op compares: each `len` of the head long, little-endian as the memory that they change. */
#define WIRE_ATOMIC_BYTES 64
struct wire_atomic {
	uint8_t op;   /* enum wire_atomic_op */
	uint8_t type; /* enum wire_atomic_type; IEEE 754 */
	uint16_t zero;
	uint32_t zero2;
} __attribute__((packed, aligned(2)));

/* in the answer to UNPIN: the initiator has no pins at that context any more */
#define WIRE_NONE_LEFT 0x80000000u

/* One transfer that ended. */
struct wire_ended {
	uint32_t id;
	uint32_t error; /* 0, or the error that the target's engine reports: an errno of
			 * doc/reference/wire.md; may include WIRE_NONE_LEFT */
} __attribute__((packed, aligned(2)));

static_assert(sizeof(struct wire_transfer) == 48, "transfer size");
static_assert(offsetof(struct wire_transfer, id) == 4, "id");
static_assert(offsetof(struct wire_transfer, key) == 8, "key");
static_assert(offsetof(struct wire_transfer, at) == 16, "at");
static_assert(offsetof(struct wire_transfer, len) == 24, "len");
static_assert(offsetof(struct wire_transfer, offset) == 32, "offset");
static_assert(offsetof(struct wire_transfer, imm) == 40, "imm");
static_assert(sizeof(struct wire_run) == 8, "run size");
static_assert(sizeof(struct wire_stride) == 64, "stride size");
static_assert(sizeof(struct wire_bitmap) == 8 + WIRE_BITMAP_UNITS / 8, "bitmap size");
static_assert(sizeof(struct wire_ended) == 8, "ended size");
static_assert(sizeof(struct wire_atomic) == 8, "atomic size");

/* The kinds of messages between matched endpoints. */
enum wire_match_op {
	WIRE_EAGER = 1, /* the bytes follow */
	WIRE_OFFER = 2, /* a struct wire_offer follows; the receiver is to fetch the bytes */
	WIRE_MATCH_OPS,
	WIRE_NOTHING = WIRE_MATCH_OPS, /* no message: lets its sender learn whether the flow still
					* has its receiver */
	WIRE_ASIDE, /* no message, and never between nodes: what follows of this source comes by the
		     * memory that both contexts share (lib/channel/pair.h); tag: its id */
};

/* the bytes are runs of a larger whole, each preceded by a struct wire_run */
#define WIRE_M_RUNS      0x01
/* a struct wire_immediate follows the head, before all else */
#define WIRE_M_IMMEDIATE 0x02
#define WIRE_M_ALL       0x03

/* The beginning of a message between matched endpoints. Big-endian. */
struct wire_match {
	uint8_t op;     /* enum wire_match_op */
	uint8_t flags;  /* WIRE_M_* */
	uint16_t label; /* with WIRE_M_IMMEDIATE for the receiver, otherwise 0 */
	uint32_t comm;
	uint64_t tag;
} __attribute__((packed, aligned(2)));

/* With WIRE_M_IMMEDIATE: what the receiver is told of the message, and by probes too. */
struct wire_immediate {
	uint64_t value;
} __attribute__((packed, aligned(2)));

/* OFFER: follows the head, and nothing follows it. */
struct wire_offer {
	uint64_t len; /* bytes */
	uint32_t id;  /* the sender's transfer, for PULL and ACCEPT with WIRE_T_OFFER */
	uint32_t zero;
} __attribute__((packed, aligned(2)));

static_assert(sizeof(struct wire_match) == 16, "match size");
static_assert(offsetof(struct wire_match, comm) == 4, "comm");
static_assert(offsetof(struct wire_match, tag) == 8, "tag");
static_assert(sizeof(struct wire_immediate) == 8, "immediate size");
static_assert(sizeof(struct wire_offer) == 16, "offer size");

/* The kinds of messages between group endpoints; each is one frame, a struct wire_group. What the
 * others do not say is 0. `lock` is the number of a lock; `ticket` distinguishes the turns that a
 * member has at a lock. */
enum wire_group_op {
	/* between a member and rank 0 */
	WIRE_G_JOIN = 1, /* to rank 0: here; key: hash of the list of members */
	WIRE_G_OPEN,     /* all are there: the key. error: because of member `other` the group does
			  * not open */
	WIRE_G_GO,       /* all have the key; of a group that is open: say HERE */
	WIRE_G_LEAVE,    /* to rank 0: its sender leaves */
	WIRE_G_GONE,     /* member `other` is there no more; error: why; 0: it left */
	WIRE_G_LEFT,     /* all others know that the receiver has left */
	WIRE_G_SUSPECT,  /* to rank 0: member `other` cannot be reached, so one of both goes */
	WIRE_G_ENTER,    /* to rank 0: ranks of its node enter barrier `number`: bits of
			  * ticket << 32 | b, from its own & ~63 on; flag DEAD: member `other` went
			  * while they waited for each other */
	WIRE_G_DONE,     /* barrier `number` has ended, also for such ranks, from the receiver's on;
			  * error: because of member `other` */
	/* between a member and the manager of a lock */
	WIRE_G_LOCK,    /* to the manager: wants it; flag TRY */
	WIRE_G_BUSY,    /* wanted by TRY, and it is not free */
	WIRE_G_GRANT,   /* the receiver's turn begins; also of the member before it. Flag DEAD */
	WIRE_G_NEXT,    /* of the manager: behind the turn `ticket` comes `other` with ticket `b` */
	WIRE_G_MOVED,   /* to the manager: that turn has ended, the one behind it was granted */
	WIRE_G_RELEASE, /* to the manager: that turn has ended. Flag DEAD */
	WIRE_G_QUERY,   /* of the manager: does that turn wait? */
	WIRE_G_WAITS,   /* to the manager: it does */
	/* between a member and the home of region `number` */
	WIRE_G_SUB,     /* to the home: wants to share it; its bytes: ticket << 32 | b */
	WIRE_G_UNSUB,   /* to the home: wants to share it no more */
	WIRE_G_HOLD,    /* of the home, to a sharer: no updates until CHANGED */
	WIRE_G_HELD,    /* to the home: none is under way; of the HOLD with that ticket */
	WIRE_G_SHARERS, /* of the home: which of the ranks from ticket * 32 on share it: bits of
			 * b */
	WIRE_G_COPY,    /* of the home: its bytes can be pulled now */
	WIRE_G_COPIED,  /* to the home: they were; error: not */
	WIRE_G_CHANGED, /* of the home: member `other` shares it (flag IN), or not. error: why
			 * not */
	/* between a member that sends MULTI frames and one that gets them */
	WIRE_G_ROUND, /* chunk `number` of `b` frames has been sent: which are not here? */
	WIRE_G_GOT,   /* of chunk `number` these are not: bits of ticket << 32 | b */
	WIRE_G_HERE,  /* to rank 0: its sender is a member still; answers GO */
	WIRE_GROUP_OPS
};

#define WIRE_G_TRY  0x01
#define WIRE_G_DEAD 0x02 /* a member may have died while it held the lock; has, in the barrier */
#define WIRE_G_IN   0x04
#define WIRE_G_TELL 0x08 /* SUB: the home's application is told */
#define WIRE_G_ALL  0x0F

/* Big-endian. */
struct wire_group {
	uint8_t op;     /* enum wire_group_op */
	uint8_t flags;  /* WIRE_G_* */
	uint16_t rank;  /* the sender's */
	uint32_t group; /* its number */
	uint64_t key;
	uint32_t number; /* of the barrier, lock or region */
	uint32_t ticket;
	uint32_t b;
	uint16_t other; /* rank */
	uint16_t error; /* positive errno */
} __attribute__((packed, aligned(2)));

/* The beginning of the payload of a MULTI frame. It is followed by words of 64 bits, where the bit
 * k of word j means that the frame is also for rank 64 j + k; then by the bytes. They come in
 * chunks of up to WIRE_CHUNK_MAX frames, which are answered as one. A sender's chunks in a group
 * are numbered from 1, and number n begins only when n - WIRE_CHUNKS_OPEN has been answered by all.
 * Big-endian. */
#define WIRE_CHUNK_MAX   64
#define WIRE_CHUNKS_OPEN 4
struct wire_multi {
	uint32_t group;  /* its number */
	uint32_t tag;    /* wire_multi_tag() */
	uint32_t number; /* of the chunk */
	uint16_t rank;   /* the sender's */
	uint8_t frame;   /* of the chunk, from 0 */
	uint8_t last;    /* the last one of the chunk; who gets it answers with GOT */
	uint32_t area;   /* ID of an area of the group at each receiver */
	uint16_t words;  /* of ranks */
	uint16_t flags;  /* WIRE_MULTI_RUNS */
	uint64_t at;     /* offset of these bytes in it; RUNS: where the first skip begins */
} __attribute__((packed, aligned(2)));

/* The bytes are runs, each preceded by a struct wire_run, and behind the last one up to
 * sizeof(struct wire_run) bytes that mean nothing. */
#define WIRE_MULTI_RUNS 0x01

/* Bytes before those of a frame, in a group of so many members. */
#define WIRE_MULTI_HEAD(members) (sizeof(struct wire_multi) + ((members) + 63u) / 64 * 8)

static_assert(sizeof(struct wire_multi) == 32, "multi size");
static_assert(offsetof(struct wire_multi, rank) == 12, "rank");
static_assert(offsetof(struct wire_multi, at) == 24, "at");

static_assert(sizeof(struct wire_group) == 32, "group size");
static_assert(offsetof(struct wire_group, key) == 8, "key");
static_assert(offsetof(struct wire_group, other) == 28, "other");

/* The kinds of messages between the engines of a group's members about its collectives; each is one
 * frame. What a message does not say is 0. */
enum wire_coll_op {
	WIRE_C_PIECE = 1, /* bytes of the sender's SEND `ordinal`, from `at` on, follow */
	WIRE_C_PERMIT,    /* the receiver may send its SEND `ordinal` up to byte `at` */
	WIRE_C_BEGUN,     /* the sender has begun that collective, with that plan */
	WIRE_C_ASK,       /* tell me when you have begun it */
	WIRE_C_FAIL,      /* to rank 0: this collective cannot go on; `ordinal`: the rank because of
			   * which, `at`: a positive errno. EPROTO: its plan differs from the
			   * sender's */
	WIRE_C_ABORT,     /* of rank 0: this one and all later ones have ended, likewise */
	WIRE_COLL_OPS
};

#define WIRE_C_ASKS 0x01 /* PIECE, PERMIT: as ASK, too */

/* Most bytes of a piece that may go without a permit. */
#define WIRE_COLL_EAGER 1024
/* A member begins no message about a collective that is so many after the last one that it knows
 * its receiver to have begun. Of one that it does not know to have begun it sends one message. */
#define WIRE_COLL_AHEAD 4

/* The beginning of a message about a collective. Big-endian. */
struct wire_coll {
	uint8_t op;       /* enum wire_coll_op */
	uint8_t flags;    /* WIRE_C_* */
	uint16_t ordinal; /* the k-th SEND to, or RECV from this peer: k */
	uint32_t group;   /* its number */
	uint32_t number;  /* of the collective in its group, from 0 */
	uint32_t hash;    /* of its plan, which must be the same at all */
	uint64_t at;
	uint64_t key; /* the group's */
} __attribute__((packed, aligned(2)));

static_assert(sizeof(struct wire_coll) == 32, "coll size");
static_assert(offsetof(struct wire_coll, number) == 8, "number");
static_assert(offsetof(struct wire_coll, at) == 16, "at");

/* The verdict on a frame: what is wrong with it. There is a drop counter for each fault. */
enum wire_verdict {
	WIRE_OK = 0,
	WIRE_TRUNCATED,   /* shorter than its header, or than its payload_len says */
	WIRE_OVERSIZED,   /* longer than its payload_len says, or than the node accepts */
	WIRE_BAD_VERSION, /* another version of the protocol */
	WIRE_BAD_TYPE,    /* unknown type */
	WIRE_BAD_FLAGS,   /* reserved flags set */
	WIRE_BAD_FIELD,   /* payload shorter than its type needs; fragment beyond its message */
};

static inline uint16_t
wire_be16(uint16_t v)
{
	return __builtin_bswap16(v);
}

static inline uint32_t
wire_be32(uint32_t v)
{
	return __builtin_bswap32(v);
}

static inline uint64_t
wire_be64(uint64_t v)
{
	return __builtin_bswap64(v);
}

/* Return the value that takes both `ticket` and `b`. */
static inline uint64_t
wire_group_wide(const struct wire_group *h)
{
	return (uint64_t)wire_be32(h->ticket) << 32 | wire_be32(h->b);
}

static inline void
wire_group_set_wide(struct wire_group *h, uint64_t value)
{
	h->ticket = wire_be32((uint32_t)(value >> 32));
	h->b = wire_be32((uint32_t)value);
}

/* Return whether sequence a is before b. This is serial arithmetic modulo 2^32; windows are far
 * below 2^31. */
static inline bool
wire_seq_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/* A header in host order, to be written in one go. */
struct wire_fields {
	uint8_t type;
	uint16_t flags, src_node, dst_node, src_ctx, dst_ctx, payload_len, credit, share;
	uint32_t session, seq, ack, tstamp, echo, msg_len, frag_off;
};

static inline void
wire_put64(uint8_t *at, uint64_t v)
{
	v = __builtin_bswap64(v);
	__builtin_memcpy(at, &v, sizeof(v));
}

/* Write a header of WIRE_HDR_BYTES at `to`: crc 0, version ours. Six wide stores: copying a
 * prepared header and changing four fields takes fewer instructions, but then a copy of it right
 * afterwards stalls on the narrow stores (measured: 8 % of the message rate). */
static inline void
wire_put(void *to, const struct wire_fields *f)
{
	uint8_t *at = (uint8_t *)to;
	uint16_t share = wire_be16(f->share);

	wire_put64(at,
		(uint64_t)WIRE_VERSION << 56 | (uint64_t)f->type << 48 | (uint64_t)f->flags << 32 |
			(uint64_t)f->src_node << 16 | f->dst_node);
	wire_put64(at + 8,
		(uint64_t)f->src_ctx << 48 | (uint64_t)f->dst_ctx << 32 |
			(uint64_t)f->payload_len << 16 | f->credit);
	__builtin_memcpy(at + 16, &share, sizeof(share));
	wire_put64(at + 18, (uint64_t)f->session << 32 | f->seq);
	wire_put64(at + 26, (uint64_t)f->ack << 32 | f->tstamp);
	wire_put64(at + 34, (uint64_t)f->echo << 32 | f->msg_len);
	wire_put64(at + 42, (uint64_t)f->frag_off << 32);
}

/* Write the header of a frame of a flow as wire_put() does. head and ctxs are wire_head and
 * wire_ctxs of the flow's received frames, the first with the type of this frame: both have the two
 * ends the other way round. Type, nodes and contexts of *f are not used, and frag_off is 0. */
static inline void
wire_put_flow(void *to, uint64_t head, uint32_t ctxs, const struct wire_fields *f)
{
	uint8_t *at = (uint8_t *)to;
	uint32_t nodes = (uint32_t)(head >> 32);
	uint64_t first = (uint32_t)head | (uint64_t)wire_be16(f->flags) << 16 |
		(uint64_t)(nodes << 16 | nodes >> 16) << 32;
	uint64_t second = (ctxs << 16 | ctxs >> 16) |
		(uint64_t)wire_be32((uint32_t)f->payload_len << 16 | f->credit) << 32;
	uint16_t share = wire_be16(f->share);

	__builtin_memcpy(at, &first, sizeof(first));
	__builtin_memcpy(at + 8, &second, sizeof(second));
	__builtin_memcpy(at + 16, &share, sizeof(share));
	wire_put64(at + 18, (uint64_t)f->session << 32 | f->seq);
	wire_put64(at + 26, (uint64_t)f->ack << 32 | f->tstamp);
	wire_put64(at + 34, (uint64_t)f->echo << 32 | f->msg_len);
	wire_put64(at + 42, 0);
}

/* Add flags to a header that has been written already. */
static inline void
wire_add_flags(void *header, uint16_t flags)
{
	((struct wire_hdr *)header)->flags |= wire_be16(flags);
}

/* Return the first eight bytes of a header as a word, for comparing: version, type, flags (0), both
 * nodes. */
static inline uint64_t
wire_head(uint8_t type, uint16_t src_node, uint16_t dst_node)
{
	return __builtin_bswap64((uint64_t)WIRE_VERSION << 56 | (uint64_t)type << 48 |
		(uint64_t)src_node << 16 | dst_node);
}

/* Return the word `head`, made by wire_head(), for frames of another type. */
static inline uint64_t
wire_head_as(uint64_t head, uint8_t type)
{
	return (head & ~UINT64_C(0xFF00)) | (uint64_t)type << 8;
}

/* Return the four bytes of a header after those of wire_head() as a word: both contexts. */
static inline uint32_t
wire_ctxs(uint16_t src_ctx, uint16_t dst_ctx)
{
	return wire_be32((uint32_t)src_ctx << 16 | dst_ctx);
}

/* Return whether this is the common frame, which few comparisons can tell: data of the flow with
 * the given wire_head and wire_ctxs, with no flags but ACK, ECHO and CRC, that is a whole message
 * of len - WIRE_HDR_BYTES bytes. A frame that this does not accept may still be valid: wire_check
 * decides. */
static inline bool
wire_is_plain(const struct wire_hdr *h, uint32_t len, uint64_t head, uint32_t ctxs)
{
	const uint64_t flags = __builtin_bswap64(
		(uint64_t)(WIRE_F_ACK | WIRE_F_ECHO | WIRE_F_CRC) << 32);
	const uint8_t *at = (const uint8_t *)h;
	uint32_t payload = len - WIRE_HDR_BYTES, has_ctxs;
	uint64_t has_head, lens;

	if (len < WIRE_HDR_BYTES)
		return false;
	__builtin_memcpy(&has_head, at, sizeof(has_head));
	__builtin_memcpy(&has_ctxs, at + offsetof(struct wire_hdr, src_ctx), sizeof(has_ctxs));
	/* msg_len, and frag_off, which is 0 */
	__builtin_memcpy(&lens, at + offsetof(struct wire_hdr, msg_len), sizeof(lens));
	return (has_head & ~flags) == head && has_ctxs == ctxs && lens == wire_be32(payload) &&
		wire_be16(h->payload_len) == payload;
}

/* Return whether this is an Ack of that flow's frames, with the flag ACK, with no others but ECHO
 * and CRC, and with nothing behind its header. What it says of the flow is not judged. */
static inline bool
wire_is_ack(const struct wire_hdr *h, uint32_t len, uint64_t head, uint32_t ctxs)
{
	const uint64_t flags = __builtin_bswap64((uint64_t)(WIRE_F_ECHO | WIRE_F_CRC) << 32),
		       ack = __builtin_bswap64((uint64_t)WIRE_F_ACK << 32);
	const uint8_t *at = (const uint8_t *)h;
	uint64_t has_head;
	uint32_t has_ctxs;

	if (len != WIRE_HDR_BYTES)
		return false;
	__builtin_memcpy(&has_head, at, sizeof(has_head));
	__builtin_memcpy(&has_ctxs, at + offsetof(struct wire_hdr, src_ctx), sizeof(has_ctxs));
	return (has_head & ~flags) == (wire_head_as(head, WIRE_ACK) | ack) && has_ctxs == ctxs &&
		h->payload_len == 0;
}

/* Check `len` bytes that claim to be a frame: header first, encapsulation already removed. No frame
 * is short enough for Ethernet to pad it. payload_max: longest payload accepted, bytes. Reads only
 * within len. All fields of a frame that passes are within their ranges. */
enum wire_verdict wire_check(const void *frame, uint32_t len, uint32_t payload_max);

/* Check the payload of a message to a transfer endpoint: a target if to_target, otherwise an
 * initiator. Runs are not checked. */
enum wire_verdict wire_transfer_check(const void *payload, uint32_t len, bool to_target);

/* Return the tag by which the sender of a MULTI frame shows that it knows the group's key. The tag
 * is of all that is before the frame's bytes, with that many words of ranks, but the tag itself. So
 * what one frame shows is of no use for another one. */
uint32_t wire_multi_tag(uint64_t key, const void *head, uint16_t words);

/* Check the payload of a MULTI frame, len bytes. */
static inline enum wire_verdict
wire_multi_check(const void *payload, uint32_t len)
{
	struct wire_multi h;

	if (len <= sizeof(h))
		return WIRE_TRUNCATED;
	memcpy(&h, payload, sizeof(h));
	return h.last < WIRE_CHUNK_MAX && h.frame <= h.last &&
			!(wire_be16(h.flags) & ~WIRE_MULTI_RUNS) &&
			wire_be16(h.words) <= WIRE_GROUP_MEMBERS_MAX / 64 &&
			len > sizeof(h) + wire_be16(h.words) * sizeof(uint64_t)
		? WIRE_OK
		: WIRE_BAD_FIELD;
}

/* Check a message of len bytes to a group endpoint. */
static inline enum wire_verdict
wire_group_check(const void *message, uint32_t len)
{
	struct wire_group h;

	if (len < sizeof(h))
		return WIRE_TRUNCATED;
	memcpy(&h, message, sizeof(h));
	if (h.op == 0 || h.op >= WIRE_GROUP_OPS)
		return WIRE_BAD_TYPE;
	if (h.flags & ~WIRE_G_ALL)
		return WIRE_BAD_FLAGS;
	return len == sizeof(h) ? WIRE_OK : WIRE_BAD_FIELD;
}

#define WIRE_MATCH_HEAD_MAX (sizeof(struct wire_match) + sizeof(struct wire_immediate))

/* Return how many bytes precede those of a message with these flags, or its offer. */
static inline uint32_t
wire_match_head(uint8_t flags)
{
	return (uint32_t)sizeof(struct wire_match) +
		(flags & WIRE_M_IMMEDIATE ? (uint32_t)sizeof(struct wire_immediate) : 0);
}

/* Check a message of len bytes to a matched endpoint. `message` has its first bytes, at least
 * min(len, sizeof(struct wire_match)) of them. */
static inline enum wire_verdict
wire_match_check(const void *message, uint32_t len)
{
	struct wire_match h;

	if (len < sizeof(h))
		return WIRE_TRUNCATED;
	memcpy(&h, message, sizeof(h));
	if (h.op == 0 || h.op >= WIRE_MATCH_OPS)
		return WIRE_BAD_TYPE;
	if (h.flags & ~WIRE_M_ALL)
		return WIRE_BAD_FLAGS;
	uint32_t head = wire_match_head(h.flags);

	if (len < head)
		return WIRE_TRUNCATED;
	if ((h.label != 0 && !(h.flags & WIRE_M_IMMEDIATE)) ||
		(h.op == WIRE_OFFER && len != head + sizeof(struct wire_offer)))
		return WIRE_BAD_FIELD;
	return WIRE_OK;
}

/* The secret and the epoch of a node, which two nodes must know of each other to be in one
 * session. */
struct wire_end {
	uint64_t secret; /* of HELLO */
	uint32_t epoch;
};
/* Return the session of two nodes: the same from both ends, never 0, and not to be known without
 * both secrets. */
uint32_t wire_session(struct wire_end a, struct wire_end b);

/* The state of an iteration over the runs of a frame. Initialise it with {bytes of the frame, how
 * many, the frame's offset in the transfer}. */
struct wire_runs {
	const uint8_t *next;
	uint32_t left;
	uint64_t end; /* end of the previous run */
	uint64_t at;  /* where the current run begins in the transfer */
	uint32_t len;
};

/* Return the bytes of the next run, with `at` and `len` set. NULL: there are no more if `left` is
 * 0; otherwise the rest does not fit the frame. */
static inline const uint8_t *
wire_run_next(struct wire_runs *r)
{
	struct wire_run run;

	if (r->left < sizeof(run))
		return NULL;
	memcpy(&run, r->next, sizeof(run));
	uint32_t len = wire_be32(run.len), room = r->left - (uint32_t)sizeof(run);

	if (len == 0 || len > room)
		return NULL;
	const uint8_t *bytes = r->next + sizeof(run);

	r->at = r->end + wire_be32(run.skip);
	r->len = len;
	r->end = r->at + len;
	r->next = bytes + len;
	r->left = room - len;
	return bytes;
}

#endif
