/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The raw-link floor: two processes, one port each, no protocol. floor.h says who calls what.
 *
 * Design notes
 * 1. The link may lose frames. Therefore a control frame is repeated every 2 ms until it is
 *    answered, and what it requests is idempotent: a repeated START or FINISH of the same run is
 *    only answered again.
 * 2. Requests and answers have different types, so a link that returns our own frames to us (a
 *    bridge, a packet socket) cannot cause an echo of an echo.
 * 3. The responder's clock times a stream, from its first to its last frame: no two clocks are
 *    compared, and the time for which frames were still in the sender's rings is not counted.
 * 4. The responder closes its port first. memif crashes where one side closes while the other
 *    polls, or while the EAL's thread there learns of it: so the initiator polls no more once QUIT
 *    is answered, and closes once the carrier is gone, or, on links that keep it, after CLOSE_US.
 * 5. User buffers are FLOOR_USER_BYTES long and walked through cyclically, so they stay in the
 *    second-level cache, like the working set of an application that has just written its message.
 */
#include <errno.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>
#include <rte_pause.h>

#include "floor.h"
#include "interrupts.h"

#define FLOOR_MAGIC      UINT32_C(0x504d5846) /* "PMXF" */
/* user buffer that payloads are copied from and to */
#define FLOOR_USER_BYTES (256u * 1024)
#define LOST_US          20000 /* a ping without an answer after this time counts as lost */
#define LOST_IN_A_ROW    50    /* after so many lost pings in a row the link counts as dead */
/* between two sends of an unanswered control frame */
#define REPEAT_US        2000
/* a control frame unanswered for this time: the peer is not there; long, for a peer that shares its
 * CPU with many others */
#define CONTROL_US       30000000
#define START_US         5000000 /* how long a port may refuse to start */
/* how long the responder answers repeated QUITs before it leaves */
#define LINGER_US        50000
/* how long the initiator waits for the responder to close its port first */
#define CLOSE_US         500000
#define POLLS_PER_CLOCK  64 /* empty polls between two checks of the clock */

enum floor_type {
	FLOOR_PING, /* echo it as PONG */
	FLOOR_PONG,
	FLOOR_START, /* reset the count, answer READY */
	FLOOR_READY,
	FLOOR_DATA,   /* count it; mode says whether to copy it out */
	FLOOR_FINISH, /* answer RESULT */
	FLOOR_RESULT,
	FLOOR_QUIT, /* answer GONE and leave */
	FLOOR_GONE,
	FLOOR_FETCH, /* answer FETCHED, of as many bytes as it asks for */
	FLOOR_FETCHED,
};

enum floor_mode {
	FLOOR_COUNT, /* count DATA frames */
	FLOOR_COPY,  /* count them and copy their payload to a user buffer */
};

struct floor_hdr {
	rte_be32_t magic;      /* FLOOR_MAGIC */
	uint8_t type;          /* enum floor_type; an answer is its request's plus one */
	uint8_t mode;          /* enum floor_mode, in START */
	rte_be16_t group;      /* START, PING: frames to be held before they are copied, echoed; 0
				* or 1: none */
	rte_be32_t run;        /* test that the frame belongs to */
	rte_be32_t seq;        /* of a PING and its PONG */
	rte_be64_t frames;     /* RESULT: DATA frames received; FETCH: bytes of the answer; PING:
				* frames that are offered to the port at once */
	rte_be64_t elapsed_ns; /* RESULT: between the first and the last of them */
} __attribute__((packed, aligned(2)));

struct floor_frame {
	struct rte_ether_hdr ether;
	struct floor_hdr hdr;
} __attribute__((packed, aligned(2)));

_Static_assert(sizeof(struct floor_frame) == FLOOR_HDR_BYTES, "FLOOR_HDR_BYTES");

/* The responder's view of the running test. */
struct floor_responder {
	uint32_t run;
	bool started; /* a START was seen, run and mode are valid */
	bool quit;    /* a QUIT was seen */
	enum floor_mode mode;
	uint64_t frames;
	uint64_t first; /* ticks, arrival of the first burst with DATA */
	uint64_t last;  /* ticks, end of work on the latest burst with DATA */
	uint8_t *user;  /* FLOOR_USER_BYTES and one frame */
	uint32_t user_at;
	uint16_t group, held_count;
	rte_be32_t ping_seq;                    /* seq of the PING that the held frames belong to,
						 * if they are PINGs */
	struct rte_mbuf *held[FLOOR_GROUP_MAX]; /* frames of the message that is not complete */
};

static __attribute__((format(printf, 3, 4))) int
floor_fail(struct floor *f, int error, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(f->error, sizeof(f->error), format, ap);
	va_end(ap);
	return error;
}

static uint64_t
ticks_of_us(double us)
{
	return (uint64_t)(us * 1e-6 * (double)rte_get_tsc_hz());
}

/* Longest frame that one mbuf of the pool holds. */
static uint32_t
frame_room(const struct rte_mempool *pool)
{
	return rte_pktmbuf_data_room_size((struct rte_mempool *)(uintptr_t)pool) -
		RTE_PKTMBUF_HEADROOM;
}

static inline void
idle(const struct floor *f)
{
	if (f->idle == FLOOR_YIELD)
		sched_yield();
}

/* Pause after the port took fewer frames than offered: leave it and the memory bus alone, longer
 * each time. */
static inline void
back_off(const struct floor *f, uint32_t *tries)
{
	if (f->idle == FLOOR_YIELD) {
		sched_yield();
		return;
	}
	for (uint32_t i = 0; i < 1u << *tries; i++)
		rte_pause();
	if (*tries < 5)
		++*tries;
}

/* Offer n frames until the port took all or `deadline` (ticks) passed; those it did not take are
 * freed. Returns how many it took. */
static uint16_t
send_all(const struct floor *f, struct rte_mbuf **bufs, uint16_t n, uint64_t deadline)
{
	uint16_t done = rte_eth_tx_burst(f->port, 0, bufs, n);
	uint32_t tries = 0;

	while (unlikely(done < n)) {
		uint16_t took;

		back_off(f, &tries);
		took = rte_eth_tx_burst(f->port, 0, bufs + done, n - done);
		if (took)
			tries = 0;
		done += took;
		if (done < n && rte_rdtsc() > deadline) {
			rte_pktmbuf_free_bulk(bufs + done, n - done);
			break;
		}
	}
	return done;
}

/* Return the frame in m if it is one of ours and in one segment, else NULL. */
static inline struct floor_frame *
frame_of(struct rte_mbuf *m)
{
	struct floor_frame *fr = rte_pktmbuf_mtod(m, struct floor_frame *);

	if (m->data_len < sizeof(*fr) || m->nb_segs != 1 ||
		fr->ether.ether_type != RTE_BE16(FLOOR_ETHERTYPE) ||
		fr->hdr.magic != RTE_BE32(FLOOR_MAGIC))
		return NULL;
	return fr;
}

static void
frame_fill(const struct floor *f, struct floor_frame *fr, enum floor_type type,
	enum floor_mode mode, uint32_t seq)
{
	*fr = (struct floor_frame){
		.ether.dst_addr = f->peer,
		.ether.src_addr = f->mac,
		.ether.ether_type = RTE_BE16(FLOOR_ETHERTYPE),
		.hdr.magic = RTE_BE32(FLOOR_MAGIC),
		.hdr.type = (uint8_t)type,
		.hdr.mode = (uint8_t)mode,
		.hdr.group = rte_cpu_to_be_16(f->group),
		.hdr.run = rte_cpu_to_be_32(f->run),
		.hdr.seq = rte_cpu_to_be_32(seq),
		.hdr.frames = rte_cpu_to_be_64(f->fetch_bytes ? f->fetch_bytes : f->part),
	};
}

/* ---- port ---- */

static int
queues_start(struct floor *f, uint16_t port)
{
	uint16_t rx = FLOOR_DESCRIPTORS, tx = FLOOR_DESCRIPTORS;
	int node = rte_eth_dev_socket_id(port);
	int rc;

	rc = rte_eth_dev_adjust_nb_rx_tx_desc(port, &rx, &tx);
	if (rc == 0)
		rc = rte_eth_rx_queue_setup(port, 0, rx, (unsigned int)node, NULL, f->pool);
	if (rc == 0)
		rc = rte_eth_tx_queue_setup(port, 0, tx, (unsigned int)node, NULL);
	if (rc != 0)
		return floor_fail(f, rc, "port %u: setting up queues of %u and %u descriptors: %s",
			port, rx, tx, rte_strerror(-rc));
	return 0;
}

/* Start the port, and retry for a while: a memif client does not start before its server's socket
 * exists. */
static int
start_patiently(struct floor *f)
{
	uint64_t deadline = rte_rdtsc() + ticks_of_us(START_US);
	int rc;

	while ((rc = rte_eth_dev_start(f->port)) != 0) {
		if (rte_rdtsc() > deadline)
			return floor_fail(f, rc,
				"port %u does not start: %s; if it is a memif client, start its "
				"server first",
				f->port, rte_strerror(-rc));
		rte_delay_us_sleep(100000);
	}
	return 0;
}

int
floor_port_start(struct floor *f, uint16_t port, uint16_t jumbo_mtu, struct rte_mempool *pool)
{
	uint32_t longest = (jumbo_mtu ? jumbo_mtu : RTE_ETHER_MTU) + RTE_ETHER_HDR_LEN;
	struct rte_eth_conf conf = {0};
	struct rte_eth_dev_info info;
	int rc;

	*f = (struct floor){.port = port, .pool = pool, .time_limit_s = 60, .part = 32};
	f->run = (uint32_t)rte_rdtsc();
	memset(&f->peer, 0xff, sizeof(f->peer));
	if (frame_room(pool) < longest)
		return floor_fail(f, -EMSGSIZE,
			"mbufs of pool %s hold %u bytes, a frame has %u: make the pool "
			"with a data room of %u",
			pool->name, frame_room(pool), longest, longest + RTE_PKTMBUF_HEADROOM);
	rc = rte_eth_dev_info_get(port, &info);
	if (rc != 0)
		return floor_fail(f, rc, "no port %u: %s; give it by --vdev or -a", port,
			rte_strerror(-rc));
	if (jumbo_mtu && info.max_mtu >= jumbo_mtu && info.max_rx_pktlen >= longest)
		conf.rxmode.mtu = jumbo_mtu;
	rc = rte_eth_dev_configure(port, 1, 1, &conf);
	if (rc != 0)
		return floor_fail(f, rc, "port %u refuses 1 rx and 1 tx queue, mtu %u: %s", port,
			conf.rxmode.mtu, rte_strerror(-rc));
	rc = queues_start(f, port);
	if (rc == 0)
		rc = start_patiently(f);
	if (rc == 0)
		rc = rte_eth_macaddr_get(port, &f->mac);
	return rc;
}

int
floor_link_wait(struct floor *f, double seconds)
{
	uint64_t deadline = rte_rdtsc() + ticks_of_us(seconds * 1e6);
	struct rte_eth_link link;

	do {
		if (rte_eth_link_get_nowait(f->port, &link) == 0 &&
			link.link_status == RTE_ETH_LINK_UP)
			return 0;
		rte_delay_us_sleep(10000);
	} while (rte_rdtsc() < deadline);
	return floor_fail(f, -ETIMEDOUT,
		"port %u has no carrier after %.1f s: start the other side, or check "
		"that both use the same socket or cable",
		f->port, seconds);
}

void
floor_port_stop(struct floor *f)
{
	interrupts_close_port(f->port, true);
}

/* ---- responder ---- */

/* Return the offset of the next `bytes` of a user buffer, which is walked through cyclically. */
static inline uint32_t
user_next(uint32_t *user_at, uint32_t bytes)
{
	uint32_t at = *user_at + bytes > FLOOR_USER_BYTES ? 0 : *user_at;

	*user_at = at + bytes;
	return at;
}

static inline void
copy_out(struct floor_responder *r, const struct rte_mbuf *m)
{
	uint32_t bytes = m->data_len - FLOOR_HDR_BYTES;

	rte_memcpy(r->user + user_next(&r->user_at, bytes),
		rte_pktmbuf_mtod(m, struct floor_frame *) + 1, bytes);
}

/* Process the held frames of a message that is complete, or never will be. */
static void
take_held(struct floor_responder *r)
{
	for (uint16_t i = 0; i < r->held_count; i++)
		copy_out(r, r->held[i]);
	rte_pktmbuf_free_bulk(r->held, r->held_count);
	r->held_count = 0;
}

/* Count a DATA frame, and hold it if it belongs to a message. Returns true if the frame is kept. */
static inline bool
take_data(struct floor_responder *r, struct rte_mbuf *m, const struct floor_frame *fr)
{
	if (unlikely(!r->started || fr->hdr.run != rte_cpu_to_be_32(r->run)))
		return false;
	r->frames++;
	if (r->mode == FLOOR_COUNT)
		return false;
	if (r->group <= 1) {
		copy_out(r, m);
		return false;
	}
	r->held[r->held_count++] = m;
	if (r->held_count == r->group)
		take_held(r);
	return true;
}

/* Act on a request and turn the frame into its answer. */
static void
floor_answer(const struct floor *f, struct floor_responder *r, struct floor_frame *fr)
{
	uint32_t run = rte_be_to_cpu_32(fr->hdr.run);

	if (fr->hdr.type == FLOOR_START && !(r->started && r->run == run)) {
		r->started = true;
		r->run = run;
		r->mode = fr->hdr.mode == FLOOR_COPY ? FLOOR_COPY : FLOOR_COUNT;
		r->group = RTE_MIN(rte_be_to_cpu_16(fr->hdr.group), FLOOR_GROUP_MAX);
		take_held(r);
		r->frames = r->first = r->last = r->user_at = 0;
	} else if (fr->hdr.type == FLOOR_FINISH && r->started && r->run == run) {
		double ns = (double)(r->last - r->first) * 1e9 / (double)rte_get_tsc_hz();

		fr->hdr.frames = rte_cpu_to_be_64(r->frames);
		fr->hdr.elapsed_ns = rte_cpu_to_be_64((uint64_t)ns);
	} else if (fr->hdr.type == FLOOR_QUIT) {
		r->quit = true;
	}
	fr->hdr.type++;
	fr->ether.dst_addr = fr->ether.src_addr;
	fr->ether.src_addr = f->mac;
}

/* Answer a FETCH in its own mbuf, with bytes copied from the user buffer. */
static void
answer_fetch(const struct floor *f, struct floor_responder *r, struct rte_mbuf *m,
	struct floor_frame *fr)
{
	uint64_t bytes = rte_be_to_cpu_64(fr->hdr.frames), room = frame_room(f->pool);

	if (bytes > room)
		bytes = room;
	if (bytes > FLOOR_HDR_BYTES) {
		uint32_t payload = (uint32_t)bytes - FLOOR_HDR_BYTES;

		rte_memcpy(fr + 1, r->user + user_next(&r->user_at, payload), payload);
		m->data_len = (uint16_t)bytes;
		m->pkt_len = (uint32_t)bytes;
	}
	floor_answer(f, r, fr);
}

/* Hold a frame of a ping, which is echoed once it is complete. */
static void
hold_ping(const struct floor *f, struct floor_responder *r, struct rte_mbuf *m,
	struct floor_frame *fr)
{
	uint16_t group = RTE_MIN(rte_be_to_cpu_16(fr->hdr.group), FLOOR_GROUP_MAX);
	uint64_t most = RTE_MAX(rte_be_to_cpu_64(fr->hdr.frames), UINT64_C(1));

	if (r->held_count > 0 && r->ping_seq != fr->hdr.seq) {
		/* the rest of that ping was lost */
		rte_pktmbuf_free_bulk(r->held, r->held_count);
		r->held_count = 0;
	}
	r->ping_seq = fr->hdr.seq;
	floor_answer(f, r, fr);
	r->held[r->held_count++] = m;
	if (r->held_count < group)
		return;
	for (uint16_t i = 0, part; i < group; i += part) {
		part = (uint16_t)RTE_MIN((uint64_t)(group - i), most);
		send_all(f, r->held + i, part, rte_rdtsc() + ticks_of_us(LOST_US));
	}
	r->held_count = 0;
}

/* Process one burst: requests are answered in their own mbufs, which are moved to the front of
 * bufs; mbufs that are no longer needed are moved to `done`. Returns the number of answers. */
static uint16_t
respond(const struct floor *f, struct floor_responder *r, struct rte_mbuf **bufs, uint16_t n,
	struct rte_mbuf **done, uint16_t *done_count)
{
	uint16_t answers = 0, k = 0;

	for (uint16_t i = 0; i < n; i++) {
		struct floor_frame *fr = frame_of(bufs[i]);

		if (likely(fr && fr->hdr.type == FLOOR_DATA)) {
			if (take_data(r, bufs[i], fr))
				continue;
		} else if (fr &&
			(fr->hdr.type == FLOOR_PING || fr->hdr.type == FLOOR_FETCH ||
				fr->hdr.type == FLOOR_START || fr->hdr.type == FLOOR_FINISH ||
				fr->hdr.type == FLOOR_QUIT)) {
			if (fr->hdr.type == FLOOR_PING && rte_be_to_cpu_16(fr->hdr.group) > 1) {
				hold_ping(f, r, bufs[i], fr);
				continue;
			}
			if (fr->hdr.type == FLOOR_FETCH)
				answer_fetch(f, r, bufs[i], fr);
			else
				floor_answer(f, r, fr);
			bufs[answers++] = bufs[i];
			continue;
		}
		done[k++] = bufs[i];
	}
	*done_count = k;
	return answers;
}

/* Poll once. Returns false if nothing was there. */
static inline bool
echo_poll(const struct floor *f, struct floor_responder *r)
{
	struct rte_mbuf *bufs[FLOOR_BURST_MAX], *done[FLOOR_BURST_MAX];
	uint16_t n = rte_eth_rx_burst(f->port, 0, bufs, FLOOR_BURST_MAX);
	uint64_t before = r->frames, now;
	uint16_t answers, done_count;

	if (n == 0)
		return false;
	/* A ping must not pay for reading a clock that only streams need. */
	now = r->started && r->frames == 0 ? rte_rdtsc() : 0;
	answers = respond(f, r, bufs, n, done, &done_count);
	if (answers)
		send_all(f, bufs, answers, rte_rdtsc() + ticks_of_us(LOST_US));
	if (done_count)
		rte_pktmbuf_free_bulk(done, done_count);
	if (r->frames != before) {
		r->last = rte_rdtsc();
		if (before == 0)
			r->first = now ? now : r->last;
	}
	return true;
}

int
floor_echo(struct floor *f, double seconds)
{
	uint64_t deadline = rte_rdtsc() + ticks_of_us(seconds * 1e6);
	struct floor_responder r = {0};
	uint32_t empty = 0;
	bool leaving = false;

	r.user = rte_zmalloc("floor_user", FLOOR_USER_BYTES + UINT16_MAX, RTE_CACHE_LINE_SIZE);
	if (r.user == NULL)
		return floor_fail(f, -ENOMEM,
			"no %u bytes for the user buffer: give EAL more memory (-m)",
			FLOOR_USER_BYTES + UINT16_MAX);
	for (;;) {
		if (likely(echo_poll(f, &r))) {
			empty = POLLS_PER_CLOCK - 1;
			continue;
		}
		idle(f);
		if (r.quit && !leaving) {
			leaving = true;
			deadline = rte_rdtsc() + ticks_of_us(LINGER_US);
		}
		if (++empty % POLLS_PER_CLOCK == 0 && rte_rdtsc() > deadline)
			break;
	}
	take_held(&r);
	rte_free(r.user);
	if (!leaving)
		return floor_fail(f, -ETIMEDOUT,
			"no stop frame within %.0f s: did the initiator die?", seconds);
	return 0;
}

/* ---- initiator ---- */

static int
check_frame_bytes(struct floor *f, uint16_t frame_bytes)
{
	uint32_t room = frame_room(f->pool);

	if (frame_bytes < FLOOR_FRAME_MIN || frame_bytes > room)
		return floor_fail(f, -EINVAL,
			"frame of %u bytes: must be %u to %u (the room of an mbuf)", frame_bytes,
			FLOOR_FRAME_MIN, room);
	return 0;
}

/* Copy the payload of a frame of so many bytes from the user buffer, or to it. */
static inline void
copy_payload(struct floor *f, struct floor_frame *fr, uint16_t frame_bytes, bool in)
{
	uint32_t bytes = frame_bytes - FLOOR_HDR_BYTES;
	uint8_t *user = f->user + user_next(&f->user_at, bytes);

	if (in)
		rte_memcpy(fr + 1, user, bytes);
	else
		rte_memcpy(user, fr + 1, bytes);
}

/* Write a request of so many bytes; a PING's payload comes from the user buffer, if there is
 * one. */
static void
request_fill(struct floor *f, struct rte_mbuf *m, enum floor_type type, enum floor_mode mode,
	uint32_t seq, uint16_t frame_bytes)
{
	struct floor_frame *fr = rte_pktmbuf_mtod(m, struct floor_frame *);

	frame_fill(f, fr, type, mode, seq);
	m->data_len = frame_bytes;
	m->pkt_len = frame_bytes;
	if (type == FLOOR_PING && f->user != NULL)
		copy_payload(f, fr, frame_bytes, true);
}

/* Send one frame. One that is refused or fails counts as lost, and its sender repeats it. */
static void
send_one(struct floor *f, enum floor_type type, enum floor_mode mode, uint32_t seq,
	uint16_t frame_bytes)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(f->pool);

	if (unlikely(m == NULL))
		return;
	request_fill(f, m, type, mode, seq, frame_bytes);
	if (unlikely(rte_eth_tx_burst(f->port, 0, &m, 1) != 1))
		rte_pktmbuf_free(m);
}

/* Wait until `deadline` (ticks) for the answer of `type` to (run, seq), which has so many frames.
 * Copies the last one's header to *out, and its payload to the user buffer if there is one, and
 * learns the peer's address. Everything else that arrives is dropped. */
static bool
wait_answer(struct floor *f, enum floor_type type, uint32_t seq, uint16_t frames, uint64_t deadline,
	struct floor_hdr *out)
{
	struct rte_mbuf *bufs[FLOOR_BURST_MAX];
	uint32_t empty = 0;
	uint16_t found = 0;

	do {
		uint16_t n = rte_eth_rx_burst(f->port, 0, bufs, FLOOR_BURST_MAX);

		if (n == 0) {
			idle(f);
			if (++empty % POLLS_PER_CLOCK == 0 && rte_rdtsc() > deadline)
				return false;
			continue;
		}
		for (uint16_t i = 0; i < n; i++) {
			struct floor_frame *fr = frame_of(bufs[i]);

			if (fr && fr->hdr.type == type && fr->hdr.run == rte_cpu_to_be_32(f->run) &&
				fr->hdr.seq == rte_cpu_to_be_32(seq)) {
				found++;
				*out = fr->hdr;
				f->peer = fr->ether.src_addr;
				if (f->user != NULL)
					copy_payload(f, fr, bufs[i]->data_len, false);
			}
		}
		rte_pktmbuf_free_bulk(bufs, n);
		/* A flood of foreign frames must not outlast the deadline either. */
	} while (found < frames && rte_rdtsc() <= deadline);
	return found >= frames;
}

/* Send a control frame until it is answered. */
static int
control(struct floor *f, enum floor_type type, enum floor_mode mode, struct floor_hdr *out)
{
	uint64_t end = rte_rdtsc() + ticks_of_us(CONTROL_US);

	do {
		send_one(f, type, mode, 0, FLOOR_FRAME_MIN);
		if (wait_answer(f, type + 1, 0, 1, rte_rdtsc() + ticks_of_us(REPEAT_US), out))
			return 0;
	} while (rte_rdtsc() < end);
	return floor_fail(f, -ETIMEDOUT,
		"port %u: the responder did not answer a control frame (type %u) for "
		"%u s: is it running on the other end of this link?",
		f->port, type, CONTROL_US / 1000000);
}

/* Send the frames of one ping; those that the port does not take are lost. */
static void
send_ping(struct floor *f, enum floor_type type, uint32_t seq, uint16_t frame_bytes, uint16_t group)
{
	struct rte_mbuf *bufs[FLOOR_BURST_MAX];

	if (group == 1) {
		send_one(f, type, FLOOR_COUNT, seq, frame_bytes);
		return;
	}
	for (uint16_t sent = 0, part; sent < group; sent += part) {
		part = RTE_MIN(group - sent, f->part);
		if (rte_pktmbuf_alloc_bulk(f->pool, bufs, part) != 0)
			return;
		for (uint16_t i = 0; i < part; i++)
			request_fill(f, bufs[i], type, FLOOR_COUNT, seq, frame_bytes);
		send_all(f, bufs, part, rte_rdtsc() + ticks_of_us(LOST_US));
	}
}

int
floor_latency(struct floor *f, uint16_t frame_bytes, uint16_t group, uint64_t rounds,
	uint64_t warmup, struct hist *h, uint64_t *lost)
{
	const uint64_t ns_per_tick_q32 = (UINT64_C(1000000000) << 32) / rte_get_tsc_hz();
	const uint64_t begin = rte_rdtsc(), within = ticks_of_us(f->within_s * 1e6);
	uint64_t end = begin + ticks_of_us(f->time_limit_s * 1e6);
	const uint64_t patience = ticks_of_us(LOST_US);
	const enum floor_type type = f->fetch_bytes ? FLOOR_FETCH : FLOOR_PING;
	uint64_t lost_now = 0;
	uint32_t in_a_row = 0;
	struct floor_hdr pong;
	int rc = check_frame_bytes(f, frame_bytes);

	if (rc != 0)
		return rc;
	if (group == 0 || group > FLOOR_GROUP_MAX || f->part == 0 || f->part > FLOOR_BURST_MAX)
		return floor_fail(f, -EINVAL, "messages of %u frames, %u at once: 1 to %u, 1 to %u",
			group, f->part, FLOOR_GROUP_MAX, FLOOR_BURST_MAX);
	f->run++;
	f->group = group;
	for (uint64_t i = 0; i < warmup + rounds; i++) {
		uint64_t start = rte_rdtsc(), ticks;

		if (unlikely(within && start - begin > within / 10 && i < warmup))
			warmup = i;
		if (unlikely(within && start - begin > within && i > warmup))
			break;
		send_ping(f, type, (uint32_t)i, frame_bytes, group);
		if (likely(wait_answer(f, type + 1, (uint32_t)i, group, start + patience, &pong))) {
			ticks = rte_rdtsc() - start;
			/* The product overflows after 4.2 s; patience is 20 ms. */
			if (i >= warmup)
				hist_record(h, (ticks * ns_per_tick_q32) >> 32);
			in_a_row = 0;
			if (unlikely(start > end))
				return floor_fail(f, -ETIMEDOUT,
					"%u bytes: %.0f s were up after %lu of %lu rounds: "
					"ask for fewer",
					frame_bytes, f->time_limit_s, i, warmup + rounds);
			continue;
		}
		lost_now += i >= warmup;
		if (++in_a_row == LOST_IN_A_ROW || start > end)
			return floor_fail(f, -ETIMEDOUT,
				"%u bytes: %u pings in a row unanswered after %lu rounds: "
				"is the responder running, does the link pass this size?",
				frame_bytes, in_a_row, i);
	}
	*lost = lost_now;
	return 0;
}

/* Return a user buffer for one call; the caller frees it with rte_free(). */
static uint8_t *
user_new(struct floor *f)
{
	uint8_t *user = rte_zmalloc("floor_user", FLOOR_USER_BYTES + UINT16_MAX,
		RTE_CACHE_LINE_SIZE);

	if (user == NULL)
		floor_fail(f, -ENOMEM, "no %u bytes for the user buffer: give EAL more memory (-m)",
			FLOOR_USER_BYTES + UINT16_MAX);
	else
		memset(user, 0x5a, FLOOR_USER_BYTES);
	return user;
}

int
floor_messages(struct floor *f, uint16_t frame_bytes, uint16_t group, uint64_t rounds,
	uint64_t warmup, struct hist *h, uint64_t *lost)
{
	int rc;

	f->user = user_new(f);
	f->user_at = 0;
	if (f->user == NULL)
		return -ENOMEM;
	rc = floor_latency(f, frame_bytes, group, rounds, warmup, h, lost);
	rte_free(f->user);
	f->user = NULL;
	return rc;
}

int
floor_fetch(struct floor *f, uint16_t answer_bytes, uint64_t rounds, uint64_t warmup,
	struct hist *h, uint64_t *lost)
{
	int rc = check_frame_bytes(f, answer_bytes);

	if (rc != 0)
		return rc;
	f->fetch_bytes = answer_bytes;
	rc = floor_messages(f, 64, 1, rounds, warmup, h, lost);
	f->fetch_bytes = 0;
	return rc;
}

/* The state of the sender of a stream. */
struct floor_stream {
	struct floor_frame head; /* of each frame */
	uint16_t frame_bytes;
	uint16_t burst;      /* frames offered to the port at once */
	uint16_t group;      /* frames of a message, 1..FLOOR_GROUP_MAX */
	const uint8_t *user; /* payload source, NULL = headers only */
	uint32_t user_at;
};

static inline void
stream_fill(struct floor_stream *s, struct rte_mbuf *m)
{
	struct floor_frame *fr = rte_pktmbuf_mtod(m, struct floor_frame *);
	uint32_t bytes = s->frame_bytes - FLOOR_HDR_BYTES;

	*fr = s->head;
	m->data_len = s->frame_bytes;
	m->pkt_len = s->frame_bytes;
	if (s->user == NULL)
		return;
	rte_memcpy(fr + 1, s->user + user_next(&s->user_at, bytes), bytes);
}

static uint64_t
stream_send(struct floor *f, struct floor_stream *s, double seconds)
{
	uint64_t end = rte_rdtsc() + ticks_of_us(seconds * 1e6);
	struct rte_mbuf *bufs[FLOOR_GROUP_MAX];
	/* written before any is sent: whole messages, and a burst at least */
	uint16_t n = s->group * (s->burst / s->group > 0 ? s->burst / s->group : 1), part;
	uint64_t sent = 0;
	uint32_t tries = 0;

	do {
		if (unlikely(rte_pktmbuf_alloc_bulk(f->pool, bufs, n) != 0)) {
			/* The port still holds the mbufs: an empty burst makes drivers check for
			 * sent ones. */
			rte_eth_tx_burst(f->port, 0, bufs, 0);
			back_off(f, &tries);
			continue;
		}
		tries = 0;
		for (uint16_t i = 0; i < n; i++)
			stream_fill(s, bufs[i]);
		for (uint16_t i = 0; i < n; i += part) {
			part = RTE_MIN(n - i, s->burst);
			sent += send_all(f, bufs + i, part, end);
		}
	} while (rte_rdtsc() < end);
	return sent;
}

static int
stream_run(struct floor *f, struct floor_stream *s, double seconds, struct floor_result *result)
{
	enum floor_mode mode = s->user ? FLOOR_COPY : FLOOR_COUNT;
	struct floor_hdr hdr;
	struct floor_result r = {0};
	int rc;

	if (s->burst == 0 || s->burst > FLOOR_BURST_MAX)
		return floor_fail(f, -EINVAL, "burst of %u: must be 1 to %u", s->burst,
			FLOOR_BURST_MAX);
	if (seconds <= 0 || seconds > f->time_limit_s)
		return floor_fail(f, -EINVAL, "%.3f seconds: must be more than 0 and at most %.0f",
			seconds, f->time_limit_s);
	f->run++;
	f->group = s->group;
	rc = control(f, FLOOR_START, mode, &hdr);
	if (rc != 0)
		return rc;
	frame_fill(f, &s->head, FLOOR_DATA, mode, 0);
	r.sent = stream_send(f, s, seconds);
	rc = control(f, FLOOR_FINISH, mode, &hdr);
	if (rc != 0)
		return rc;
	r.received = rte_be_to_cpu_64(hdr.frames);
	r.elapsed_ns = rte_be_to_cpu_64(hdr.elapsed_ns);
	r.payload_bytes = r.received * (s->frame_bytes - FLOOR_HDR_BYTES);
	if (r.received < 2 || r.elapsed_ns == 0)
		return floor_fail(f, -EIO,
			"%u bytes: %lu of %lu frames arrived: does the link pass this size?",
			s->frame_bytes, r.received, r.sent);
	r.frames_per_s = (double)r.received * 1e9 / (double)r.elapsed_ns;
	r.gbits_per_s = (double)r.payload_bytes * 8 / (double)r.elapsed_ns;
	*result = r;
	return 0;
}

int
floor_rate(struct floor *f, uint16_t frame_bytes, uint16_t burst, double seconds,
	struct floor_result *result)
{
	struct floor_stream s = {.frame_bytes = frame_bytes, .burst = burst, .group = 1};
	int rc = check_frame_bytes(f, frame_bytes);

	if (rc != 0)
		return rc;
	return stream_run(f, &s, seconds, result);
}

int
floor_bandwidth(struct floor *f, uint16_t frame_bytes, uint16_t group, uint16_t burst,
	double seconds, struct floor_result *result)
{
	struct floor_stream s = {.frame_bytes = frame_bytes, .burst = burst, .group = group};
	uint8_t *user;
	int rc = check_frame_bytes(f, frame_bytes);

	if (rc != 0)
		return rc;
	if (group == 0 || group > FLOOR_GROUP_MAX)
		return floor_fail(f, -EINVAL, "messages of %u frames: 1 to %u", group,
			FLOOR_GROUP_MAX);
	s.user = user = user_new(f);
	if (user == NULL)
		return -ENOMEM;
	rc = stream_run(f, &s, seconds, result);
	rte_free(user);
	return rc;
}

int
floor_quit(struct floor *f)
{
	struct floor_hdr hdr;
	int rc;

	struct rte_eth_link link = {.link_status = RTE_ETH_LINK_UP};

	f->run++;
	rc = control(f, FLOOR_QUIT, FLOOR_COUNT, &hdr);
	if (rc != 0)
		return rc;
	for (uint32_t us = 0; us < CLOSE_US && link.link_status == RTE_ETH_LINK_UP;
		us += LINGER_US / 2) {
		rte_delay_us_sleep(LINGER_US / 2);
		if (rte_eth_link_get_nowait(f->port, &link) != 0)
			break;
	}
	/* the EAL's own thread is through with that, too */
	rte_delay_us_sleep(LINGER_US);
	return 0;
}
