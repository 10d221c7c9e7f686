/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Kernel TCP and UDP baselines of pmx-perf: the same tests of latency, rate and bandwidth over
 * sockets. One process or thread runs baseline_serve(), the other calls baseline_latency(),
 * baseline_stream() or, for both and several sizes, baseline_run(). Whether they use loopback, veth
 * or a real network depends only on the address. Plain sockets, no DPDK.
 *
 * Every function returns 0 or a negative errno with a sentence in b->error, and ends within
 * b->time_limit_s. Outputs are set on success only.
 */
#ifndef PMX_PERF_BASELINE_H
#define PMX_PERF_BASELINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hist.h"

#define BASELINE_SIZE_MAX (64u << 20) /* bytes of a message */
#define BASELINE_UDP_MAX  65000u      /* bytes of a datagram; longer messages go as several */

enum baseline_kind {
	BASELINE_TCP, /* one connection, TCP_NODELAY */
	BASELINE_UDP, /* connected datagram sockets; tests are set up over a TCP connection */
};

/* The ways to wait when a socket has nothing for us, or no room. */
enum baseline_idle {
	BASELINE_SPIN,  /* non-blocking calls, repeated at once: the core is ours alone */
	BASELINE_YIELD, /* non-blocking calls, sched_yield() between them */
	BASELINE_BLOCK, /* blocking calls */
};

struct baseline {
	enum baseline_kind kind;
	const char *address; /* "10.0.0.1:7000", "[fd00::1]:7000" or, for TCP's tests, a Unix
			      * socket's path; the server's on both sides */
	enum baseline_idle idle;
	double time_limit_s; /* bound of each call; 0 = 60 */
	double within_s;     /* baseline_latency(): not 0: when so long has passed, end with the
			      * rounds that were made; a tenth of it is the longest warm-up */
	int socket_bytes;    /* UDP: receive and send buffer asked for, of which the system's limit
			      * admits some; 0 = the system's own */
	char error[256];
};

struct baseline_flow {
	uint64_t sent;       /* messages handed to the kernel */
	uint64_t received;   /* messages of which the server read all; UDP: arrived bytes / size */
	uint64_t bytes;      /* that the server read into its buffer */
	uint64_t elapsed_ns; /* server's clock, from its first to its last read */
	double messages_per_s;
	double gbits_per_s;
};

/* One line of baseline_run(). */
struct baseline_row {
	uint32_t size_bytes;
	uint64_t p50_ns, p99_ns, p999_ns, min_ns, max_ns, mean_ns; /* round trip */
	uint64_t lost;                                             /* UDP pings without an answer */
	struct baseline_flow stream; /* back-to-back messages of this size */
};

/* Serve tests, one at a time, at b->address until a client's baseline_quit() (0), until *stop is
 * set (0; checked every 50 ms or less; NULL = none), or until `seconds` have passed (-ETIMEDOUT).
 * b->idle applies during a test; between tests it always blocks. A test that fails is reported on
 * stderr and does not end the service. */
int baseline_serve(struct baseline *b, const atomic_bool *stop, double seconds);

/* `rounds` ping-pongs of size_bytes (1..BASELINE_SIZE_MAX; UDP: ..BASELINE_UDP_MAX) after `warmup`
 * unrecorded ones, round trips in ns into h (which the caller has initialised). *lost counts UDP
 * rounds without an answer within 20 ms; they are not in h. -ETIMEDOUT: 50 in a row were lost. */
int baseline_latency(struct baseline *b, uint32_t size_bytes, uint64_t rounds, uint64_t warmup,
	struct hist *h, uint64_t *lost);

/* Send messages of size_bytes, one system call each, back to back for `seconds`: 64 bytes measure
 * the message rate, long ones the bandwidth. Each payload byte is copied by the kernel from the
 * sender's buffer and into the server's, as floor_bandwidth() copies from and to user buffers. */
int baseline_stream(struct baseline *b, uint32_t size_bytes, double seconds,
	struct baseline_flow *flow);

/* Latency and stream of each of n sizes; rows is an array of n. */
int baseline_run(struct baseline *b, const uint32_t *sizes, size_t n, uint64_t rounds,
	uint64_t warmup, double seconds, struct baseline_row *rows);

/* End the server's baseline_serve(). */
int baseline_quit(struct baseline *b);

/* Make only the sockets: baseline_listen() listens at b->address, baseline_connect() connects to it
 * within 5 s. Both return a descriptor or a negative errno. */
int baseline_listen(struct baseline *b);
void baseline_unlisten(const struct baseline *b, int fd);
int baseline_connect(struct baseline *b);

#endif
