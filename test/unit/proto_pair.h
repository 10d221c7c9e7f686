/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A few PM cores in virtual time, joined by a network that loses, duplicates, delays and reorders
 * by seed or by a test's script. Each node has an application with bounded room. The harness owns
 * every payload handle and fails the test when one does not come back exactly once, when a message
 * arrives twice, out of order, torn or in the wrong place, when a frozen context begins something,
 * and when the core's books do not balance. Used by test_proto*.c, one thread.
 */
#ifndef PROTO_PAIR_H
#define PROTO_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/proto/internal.h"

#define NET_NODES 6
#ifndef NET_CTXS
#define NET_CTXS 4
#endif
#define NET_SEC 1000000000ull /* virtual time is in ns; each node converts to its own ticks */
#define NET_MS  1000000ull
#define NET_US  1000ull

/* A frame on its way, in host order: what scripts see and what the log keeps. */
struct net_frame {
	uint64_t at; /* when it was sent */
	uint16_t src, dst, src_ctx, dst_ctx;
	uint8_t type;
	uint16_t flags, credit, len;
	uint32_t session, seq, ack, msg_len, frag_off;
	uint64_t delay; /* a script may change it */
};

enum net_verdict {
	NET_PASS,
	NET_DROP,
	NET_DUP,
};

struct net_message {
	uint16_t src, src_ctx, dst, dst_ctx;
	uint32_t life; /* of the source, when it was sent */
	uint32_t len, frags;
	uint32_t completed; /* fragments that came back by completion */
	uint32_t arrived;   /* fragments delivered */
	uint32_t last;      /* number of its last fragment's payload */
	uint8_t error;      /* of its last completion */
	bool gone;          /* the source was restarted */
	bool begun;         /* a frame of it has left */
	uint64_t sent_at, done_at;
};

struct net_app {
	uint32_t entries, bulks, inline_max; /* all its room */
	uint32_t held_entries, held_bulks;   /* delivered and not given back */
	uint32_t generation;                 /* counts openings */
	uint32_t message, frag;              /* being delivered: message + 1, next fragment */
	uint64_t hold;                       /* ns from delivery to giving room back */
	uint64_t frozen_at;
	bool open, paused;         /* paused: gives no room back */
	bool frozen, held, parked; /* net_freeze, net_hold, net_park */
};

struct net_node {
	struct proto *p;
	struct proto_config cfg;
	struct net_app apps[NET_CTXS];
	uint32_t life;
	uint32_t tx_out, rx_out; /* handles that the core holds */
	unsigned burst;          /* frames asked of proto_tx at a time */
	bool dead;               /* neither runs nor answers */
};

struct net_payload;
struct net_rx;
struct net_packet;
struct net_return;

struct net {
	struct net_node nodes[NET_NODES];
	unsigned count;
	uint64_t now, seed, random;
	uint32_t loss, dup; /* in 1/1000 */
	uint64_t delay, jitter;
	enum net_verdict (*script)(struct net *net, struct net_frame *f);
	uint32_t script_left; /* for scripts */
	uint32_t order;
	struct net_message *messages;
	struct net_payload *payloads;
	struct net_rx *rxs;
	struct net_packet *packets;
	struct net_return *returns;
	struct net_frame *log;
	uint32_t message_count, payload_count, rx_count, packet_count, return_count, log_count;
	uint32_t message_cap, payload_cap, rx_cap, packet_cap, return_cap, log_cap;
	uint32_t last_seen[NET_NODES][NET_CTXS][NET_NODES][NET_CTXS]; /* newest message + 1 */
	bool logging, audit;
	bool at_once;          /* net_send tries proto_send_now first */
	unsigned left_at_once; /* ... and so many messages left so */
};

/* A configuration that the tests vary. */
struct proto_config net_config(void);
struct net *net_new(unsigned nodes, const struct proto_config *cfg, uint64_t seed);
void net_free(struct net *net);
void net_restart(struct net *net, unsigned node);
/* The node's core moves to other memory, as for another process that takes over; handles and
 * all. */
void net_move(struct net *net, unsigned node);
uint32_t net_random(struct net *net, uint32_t below);
_Noreturn void net_fail(const struct net *net, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void net_open(struct net *net, unsigned node, unsigned ctx, uint32_t entries, uint32_t bulks);
void net_open_all(struct net *net, uint32_t entries, uint32_t bulks);
void net_close(struct net *net, unsigned node, unsigned ctx, bool linger);
/* Freeze a context, hold it, let it go on. It fails the test if the context begins a message or is
 * given one that was sent later, while it is frozen, or sends data while it is held. */
void net_freeze(struct net *net, unsigned node, unsigned ctx);
void net_hold(struct net *net, unsigned node, unsigned ctx);
void net_thaw(struct net *net, unsigned node, unsigned ctx);
/* Park a context that is held, and load it; net_thaw loads what is parked. The handle of each frame
 * that the context has is marked meanwhile: it may come back with its mark, but it fails the test
 * if a marked one is to be sent or is delivered, or if a frame is kept for a parked context.
 * net_park: whether it is parked now. net_load: 0 or a negative errno. */
bool net_park(struct net *net, unsigned node, unsigned ctx);
int net_load(struct net *net, unsigned node, unsigned ctx);
/* Sends; the message's number, or a negative errno. */
int net_send(struct net *net, unsigned src, unsigned src_ctx, unsigned dst, unsigned dst_ctx,
	uint32_t len);
/* Take a message back that was sent; whether it was. It fails the test if a frame of it had
 * left. */
bool net_withdraw(struct net *net, int message);
/* Give all held room of an application back now. */
void net_give_room(struct net *net, unsigned node, unsigned ctx);
/* Give a node a frame as it is; what proto_rx said. */
enum proto_rx_result net_inject(struct net *net, unsigned node, const void *frame, uint32_t len);
/* Bytes of a well-formed data frame of this session. */
struct wire_hdr net_data(const struct net *net, unsigned src, unsigned dst, uint32_t seq,
	uint16_t len, uint16_t flags);

/* Let virtual time pass. net_settle: until every message sent is completed; fails after limit. */
void net_run(struct net *net, uint64_t ns);
void net_settle(struct net *net, uint64_t limit_ns);
/* Nothing is left in any core: descriptors, flight, handles; and the books balance. */
void net_check_clean(struct net *net);
void net_check_books(struct net *net, unsigned node);

uint64_t net_count(const struct net *net, unsigned node, enum proto_counter c);
struct flow *net_flow(struct net *net, unsigned node, unsigned ctx, unsigned peer,
	unsigned peer_ctx);
struct path *net_path(struct net *net, unsigned node, unsigned peer);
uint64_t net_ticks(const struct net *net, unsigned node);
/* Frames in the log of this source, type and flags. */
uint32_t net_logged(const struct net *net, unsigned src, unsigned type, uint16_t flags);
bool net_delivered(const struct net *net, int message);
void net_expect_delivered(struct net *net, int message);
void net_expect_error(struct net *net, int message, int error);

#endif
