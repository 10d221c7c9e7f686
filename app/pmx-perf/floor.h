/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The raw-link floor of pmx-perf: what a DPDK port achieves without any protocol, for comparison
 * with pmx's own figures. One process, the responder, runs floor_echo(); the other, the initiator,
 * calls floor_latency(), floor_rate() and floor_bandwidth(), then floor_quit(). All on the one
 * thread that called floor_port_start(), after rte_eal_init().
 *
 * Every function returns 0 or a negative errno with a sentence in f->error, and ends within
 * f->time_limit_s. Outputs are set on success only. Lost frames cost time, but nothing hangs.
 */
#ifndef PMX_PERF_FLOOR_H
#define PMX_PERF_FLOOR_H

#include <stdint.h>

#include <rte_ether.h>
#include <rte_mempool.h>

#include "hist.h"

#define FLOOR_ETHERTYPE   0x88b6 /* IEEE 802 local experimental 2 */
#define FLOOR_FRAME_MIN   60     /* bytes, without FCS, as all frame_bytes here */
#define FLOOR_HDR_BYTES   46     /* Ethernet and test header: not payload */
#define FLOOR_BURST_MAX   64
#define FLOOR_GROUP_MAX   256 /* frames of one message, see floor_bandwidth() */
/* descriptors requested for each queue; the pool needs twice as many plus 512 */
#define FLOOR_DESCRIPTORS 1024

/* The ways to go on when a poll found nothing. */
enum floor_idle {
	FLOOR_SPIN,  /* poll again: the core is ours alone */
	FLOOR_YIELD, /* sched_yield(): the core is shared */
};

struct floor {
	uint16_t port;              /* ethdev port */
	struct rte_mempool *pool;   /* of every frame, sent and received; the caller's */
	enum floor_idle idle;       /* set by the caller, may change between calls */
	double time_limit_s;        /* bound of each call; floor_port_start() sets 60 */
	double within_s;            /* floor_latency() and those like it: not 0: when so long has
				     * passed, end with the rounds that were made; a tenth of it is
				     * the longest warm-up */
	struct rte_ether_addr mac;  /* own */
	struct rte_ether_addr peer; /* broadcast until the peer's first answer */
	uint32_t run;         /* number of the latest test, by which late frames of earlier ones are
			       * recognised */
	uint16_t group;       /* of the latest test: frames of a message, 0 = none */
	uint16_t part;        /* floor_latency() and those like it: frames of a message that both
			       * sides offer to the port at once, 1..FLOOR_BURST_MAX;
			       * floor_port_start() sets 32 */
	uint16_t fetch_bytes; /* floor_fetch(): of an answer; otherwise 0 */
	uint8_t *user;    /* floor_messages(), floor_fetch(): where payload is copied from and to;
			   * otherwise NULL */
	uint32_t user_at; /* offset of its next bytes */
	char error[256];
};

struct floor_result {
	uint64_t sent;          /* frames the port took */
	uint64_t received;      /* frames the responder counted */
	uint64_t elapsed_ns;    /* responder's clock, from its first to its last of these */
	uint64_t payload_bytes; /* received, without FLOOR_HDR_BYTES of each frame */
	double frames_per_s;
	double gbits_per_s; /* of payload */
};

/* Configure and start `port` with one rx and one tx queue. jumbo_mtu is 0, or the MTU for frames
 * longer than 1514 bytes; it is set only if the port accepts it: net_memif and net_af_packet refuse
 * it and pass long frames without it, given their own options (memif bsize, af_packet framesz). An
 * mbuf must hold the longest frame in one segment, or -EMSGSIZE. The link may still be down: see
 * floor_link_wait(). */
int floor_port_start(struct floor *f, uint16_t port, uint16_t jumbo_mtu, struct rte_mempool *pool);

/* Wait for the carrier, polling every 10 ms; -ETIMEDOUT after `seconds`. */
int floor_link_wait(struct floor *f, double seconds);

/* Stop and close the port. Both sides must have left their loops: with memif, closing under a
 * peer that still polls can crash that peer. floor_echo() and floor_quit() arrange this. */
void floor_port_stop(struct floor *f);

/* Responder: echo and count frames until the peer's floor_quit(); -ETIMEDOUT when `seconds` have
 * passed first. */
int floor_echo(struct floor *f, double seconds);

/* Run, as the initiator, `rounds` ping-pongs after `warmup` unrecorded ones. Each is a group of
 * `group` frames (1..FLOOR_GROUP_MAX) of frame_bytes, echoed when all have arrived. Round trips in
 * ns go into h, which the caller has initialised. *lost counts recorded rounds without an answer
 * within 20 ms; they are not in h. Return -ETIMEDOUT when 50 rounds in a row are lost or time is
 * up. */
int floor_latency(struct floor *f, uint16_t frame_bytes, uint16_t group, uint64_t rounds,
	uint64_t warmup, struct hist *h, uint64_t *lost);

/* Run floor_latency() with the work of an application, which writes what it sends and reads what
 * has come: payload is copied from a user buffer into the frames, and out of those that come
 * back. This is for the initiator. */
int floor_messages(struct floor *f, uint16_t frame_bytes, uint16_t group, uint64_t rounds,
	uint64_t warmup, struct hist *h, uint64_t *lost);

/* Run floor_latency() with 64 bytes there and answer_bytes back, which are copied from the peer's
 * user buffer and into one here. This is for the initiator. */
int floor_fetch(struct floor *f, uint16_t answer_bytes, uint64_t rounds, uint64_t warmup,
	struct hist *h, uint64_t *lost);

/* Send, as the initiator, frames of frame_bytes in bursts of `burst`, 1..FLOOR_BURST_MAX, for
 * `seconds`. Only headers are written and read. The result is what the peer counted. */
int floor_rate(struct floor *f, uint16_t frame_bytes, uint16_t burst, double seconds,
	struct floor_result *result);

/* Run floor_rate() with the work of an application: each payload byte is copied from a user buffer
 * into the frame here, and out of the frame into a user buffer at the peer. group = 1: burst by
 * burst, so that frames stay in the cache. group = 2..FLOOR_GROUP_MAX: as messages of so many
 * frames, each written completely before any of it is sent, and received completely before it is
 * read. This is for the initiator. */
int floor_bandwidth(struct floor *f, uint16_t frame_bytes, uint16_t group, uint16_t burst,
	double seconds, struct floor_result *result);

/* End, as the initiator, the peer's floor_echo(). Return when the peer no longer polls its port; on
 * links that tell so by their carrier, when it has closed it. */
int floor_quit(struct floor *f);

#endif
