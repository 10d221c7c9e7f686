/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The commands that measure what pmx is compared with: the raw link (floor) and kernel sockets
 * (baseline). Single-threaded; the baseline's server is a child process if both ends are on this
 * host.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include "baseline.h"
#include "floor.h"
#include "interrupts.h"
#include "perf.h"
#include "core/wire/wire.h"

#define FLOOR_MBUFS   8192
/* as the bsize of memif, which then sends bursts by its shortest way */
#define FLOOR_ROOM    9216
#define PMX_HDR_BYTES (RTE_ETHER_HDR_LEN + WIRE_HDR_BYTES)
#define FLOOR_LONGEST 9014 /* longest frame with its Ethernet header, bytes */

static int
raw_fail(const char *what, const char *why)
{
	fprintf(stderr, "pmx-perf: %s: %s\n", what, why);
	return 1;
}

static int
floor_all(struct floor *f, const struct perf_options *o)
{
	static const uint16_t sizes[] = {64, 114, 1514, 9000};
	struct hist h;
	struct floor_result result;
	unsigned n = o->burst >= 64 ? 3 : 4;
	int e = 0;

	for (unsigned i = 0; i < n && e == 0; i++) {
		struct perf_row r = {.what = "floor", .test = "latency", .size = sizes[i]};

		hist_init(&h);
		e = floor_latency(f, sizes[i], 1, o->rounds, o->warmup, &h, &r.lost);
		if (e != 0)
			break;
		row_latency(&r, &h);
		row_print(o, &r);
	}
	if (e == 0 && n == 4) { /* what a pull of a page does to the link */
		struct perf_row r = {.what = "fetch", .test = "latency", .size = 4096};

		hist_init(&h);
		e = floor_fetch(f, 4096 + PMX_HDR_BYTES, o->rounds, o->warmup, &h, &r.lost);
		row_latency(&r, &h);
		if (e == 0)
			row_print(o, &r);
	}
	for (unsigned i = 0; i < n && e == 0; i++) {
		bool rate = sizes[i] < 1000;
		struct perf_row r = {.what = "floor", .size = sizes[i]};

		snprintf(r.test, sizeof(r.test), "%s", rate ? "rate" : "bandwidth");
		e = rate ? floor_rate(f, sizes[i], (uint16_t)o->burst, o->seconds, &result)
			 : floor_bandwidth(f, sizes[i], 1, 32, o->seconds, &result);
		r.per_second = result.frames_per_s;
		r.gbits = result.gbits_per_s;
		r.lost = result.sent - result.received;
		if (e == 0)
			row_print(o, &r);
	}
	if (e == 0 && n == 4) {
		/* what a 1 MiB message costs by its size alone: 117 jumbo frames, each end
		 * processing the message as a whole */
		struct perf_row r = {.what = "floor", .test = "messages", .size = 1048576};

		e = floor_bandwidth(f, 9000, 117, 32, o->seconds, &result);
		r.per_second = result.frames_per_s / 117;
		r.gbits = result.gbits_per_s;
		if (e == 0)
			row_print(o, &r);
	}
	return e;
}

/* Return how many frames of equal length a message of `bytes` takes on the link, headers included;
 * 0 if more than FLOOR_GROUP_MAX. *frame_bytes gets the length of one. */
static uint16_t
frames_of(uint32_t bytes, uint16_t *frame_bytes)
{
	const uint32_t most = FLOOR_LONGEST - PMX_HDR_BYTES;
	uint32_t n = (bytes + most - 1) / most, frame = (bytes + n - 1) / n + PMX_HDR_BYTES;

	*frame_bytes = (uint16_t)frame;
	return n <= FLOOR_GROUP_MAX ? (uint16_t)n : 0;
}

/* The ways to send the frames of a stream. The link, the CPUs and their distance from each other
 * decide which way is fastest. */
static const struct raw_way {
	uint16_t burst; /* frames offered to the port at once */
	bool whole;     /* messages of several frames are written, and received, as a whole */
} ways[] = {{8, true}, {32, true}, {64, true}, {32, false}};

/* Measure messages of n frames in each way. Returns the best result. */
static int
best_bandwidth(struct floor *f, const struct perf_options *o, uint16_t frame, uint16_t n,
	struct floor_result *best)
{
	unsigned tries = n > 1 ? 4 : 3;
	int e = 0;

	*best = (struct floor_result){0};
	for (unsigned i = 0; i < tries && e == 0; i++) {
		struct floor_result r;

		e = floor_bandwidth(f, frame, ways[i].whole ? n : 1, ways[i].burst,
			o->seconds / tries, &r);
		if (e == 0 && r.frames_per_s > best->frames_per_s)
			*best = r;
	}
	return e;
}

/* Measure round trips of messages of n frames, offered to the port in parts of two lengths: one
 * side copies the next part while the other copies this one, but each part costs. Fills the row
 * with those of the lower median. */
static int
best_latency(struct floor *f, const struct perf_options *o, uint16_t frame, uint16_t n,
	struct perf_row *best)
{
	static const uint16_t parts[] = {8, 2};
	unsigned tries = n == 1 ? 1 : 2, less = best->size > 65536 ? 20 : 1;
	int e = 0;

	f->within_s = o->within / tries;
	for (unsigned i = 0; i < tries && e == 0; i++) {
		struct perf_row r = *best;
		struct hist h;

		hist_init(&h);
		f->part = parts[i];
		e = floor_messages(f, frame, n, o->rounds / less + 1, o->warmup / less + 1, &h,
			&r.lost);
		row_latency(&r, &h);
		if (e == 0 && (best->p50_ns == 0 || (r.p50_ns > 0 && r.p50_ns < best->p50_ns)))
			*best = r;
	}
	return e;
}

/* Measure messages of --sizes, for comparison with pmx's of the same sizes. */
static int
raw_messages(struct floor *f, const struct perf_options *o)
{
	struct floor_result result;
	uint16_t frame, n;
	int e = 0;

	for (unsigned i = 0; i < o->size_count && e == 0; i++) {
		struct perf_row r = {.what = "raw", .test = "latency", .size = o->sizes[i]};

		if ((n = frames_of(o->sizes[i], &frame)) == 0)
			continue;
		e = best_latency(f, o, frame, n, &r);
		if (e == 0)
			row_print(o, &r);
	}
	for (unsigned i = 0; i < o->size_count && e == 0; i++) {
		struct perf_row r = {.what = "raw", .test = "bandwidth", .size = o->sizes[i]};

		if ((n = frames_of(o->sizes[i], &frame)) == 0)
			continue;
		e = best_bandwidth(f, o, frame, n, &result);
		if (e != 0)
			break;
		r.per_second = result.frames_per_s / n;
		r.gbits = r.per_second * o->sizes[i] * 8 / 1e9;
		r.lost = result.sent - result.received;
		row_print(o, &r);
		snprintf(r.test, sizeof(r.test), "rate");
		if (o->sizes[i] == 64)
			row_print(o, &r);
	}
	return e;
}

int
run_floor(const struct perf_options *o)
{
	struct floor f;
	int result = 1;

	if (rte_eal_init(o->eal_argc, o->eal_argv) < 0)
		return raw_fail("the DPDK EAL did not start", rte_strerror(rte_errno));
	if (rte_eth_dev_count_avail() == 0) {
		raw_fail("no port",
			"name one behind --, e.g. -- --vdev=net_memif0,role=server,...");
		goto out;
	}
	struct rte_mempool *pool = rte_pktmbuf_pool_create("floor", FLOOR_MBUFS, 256, 0,
		RTE_PKTMBUF_HEADROOM + FLOOR_ROOM, (int)rte_socket_id());

	if (pool == NULL) {
		raw_fail("no memory for mbufs", "reserve hugepages with dpdk-config/hugepages.sh");
		goto out;
	}
	if (floor_port_start(&f, rte_eth_find_next(0), 9000, pool) != 0 ||
		floor_link_wait(&f, 20) != 0) {
		raw_fail("port", f.error);
		goto out;
	}
	f.idle = o->idle == PERF_SPIN ? FLOOR_SPIN : FLOOR_YIELD;
	f.time_limit_s = 120;
	if (o->respond) {
		result = floor_echo(&f, 300) == 0 ? 0 : raw_fail("echo", f.error);
	} else {
		row_head(o);
		result = (o->size_count ? raw_messages(&f, o) : floor_all(&f, o)) == 0
			? 0
			: raw_fail("floor", f.error);
		floor_quit(&f);
	}
	floor_port_stop(&f);
out:
	interrupts_end_eal();
	return result;
}

static int
baseline_tests(struct baseline *b, const struct perf_options *o)
{
	static const uint32_t defaults[] = {8, 64, 1024, 8192, 65536, 1048576};
	const uint32_t *sizes = o->size_count ? o->sizes : defaults;
	unsigned n = o->size_count ? o->size_count : 6;
	struct baseline_flow flow;
	struct hist h;

	row_head(o);
	for (unsigned i = 0; i < n; i++) {
		struct perf_row r = {.test = "latency", .size = sizes[i]};
		uint64_t rounds = sizes[i] > 65536 ? o->rounds / 20 + 1 : o->rounds;

		if (b->kind == BASELINE_UDP && sizes[i] > BASELINE_UDP_MAX)
			continue;
		snprintf(r.what, sizeof(r.what), "%s", o->kind);
		hist_init(&h);
		if (baseline_latency(b, sizes[i], rounds, o->warmup / 10 + 1, &h, &r.lost) != 0)
			return -1;
		row_latency(&r, &h);
		row_print(o, &r);
	}
	for (unsigned i = 0; i < n; i++) {
		struct perf_row r = {.size = sizes[i]};

		snprintf(r.what, sizeof(r.what), "%s", o->kind);
		if (baseline_stream(b, sizes[i], o->seconds, &flow) != 0)
			return -1;
		r.per_second = flow.messages_per_s;
		r.gbits = flow.gbits_per_s;
		r.seconds = (double)flow.received / flow.messages_per_s;
		r.lost = flow.sent - flow.received;
		snprintf(r.test, sizeof(r.test), "bandwidth");
		row_print(o, &r);
		snprintf(r.test, sizeof(r.test), "rate");
		if (sizes[i] == 64)
			row_print(o, &r);
	}
	return 0;
}

int
run_baseline(const struct perf_options *o)
{
	struct baseline b = {
		.kind = strcmp(o->kind, "udp") == 0 ? BASELINE_UDP : BASELINE_TCP,
		.address = o->address ? o->address : "127.0.0.1:17999",
		.idle = o->idle == PERF_SPIN    ? BASELINE_SPIN
			: o->idle == PERF_YIELD ? BASELINE_YIELD
						: BASELINE_BLOCK,
		.time_limit_s = 120,
		.within_s = o->within,
		.socket_bytes = (int)o->socket_bytes,
	};
	pid_t child = -1;
	int status = 0, result;

	if (strcmp(o->kind, "relay") == 0) {
		struct baseline from = b;

		from.address = o->via;
		return cpu_pin(pthread_self(), o->cpu) == 0 ? run_relay(&from, &b) : 1;
	}
	if (o->respond || !o->serve) {
		child = o->respond ? 0 : fork();
		if (child < 0)
			return raw_fail("fork", strerror(errno));
		if (child == 0) {
			if (cpu_pin(pthread_self(), o->respond ? o->cpu : cpu_other(o->cpu)) != 0)
				_exit(1);
			result = baseline_serve(&b, NULL, 300) == 0 ? 0
								    : raw_fail("serving", b.error);
			if (o->respond)
				return result;
			_exit(result);
		}
	}
	if (cpu_pin(pthread_self(), o->cpu) != 0) {
		baseline_quit(&b);
		return 1;
	}
	result = baseline_tests(&b, o) == 0 ? 0 : raw_fail(o->kind, b.error);
	baseline_quit(&b);
	if (child > 0 && (waitpid(child, &status, 0) != child || status != 0))
		result = 1;
	return result;
}
