/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The PM core, fed a program: sends, openings, closings, time, frames of a true peer that are lost,
 * doubled, kept and changed, and frames out of nothing. Whatever comes, every payload handle comes
 * back exactly once, the books balance, and once all is closed the pools are whole.
 *
 * Design notes
 * 1. Three cores, so that sessions, flows, Acks and window shares are real; the input decides which
 *    bytes of them are then wrong. Node numbers 3 and more are strangers'.
 * 2. Pools are of a few entries: running out is the rule.
 * 3. Some inputs end in a good network instead: then every send completes, by its Ack or an error.
 */
#include <errno.h>

#include "input.h"
#include "core/proto/internal.h"

#define CORES   3
#define CTXS    3
#define HANDLES 4096 /* a core; an input of the longest length uses fewer */
#define WIRE_Q  48   /* frames on their way */
#define OPS_MAX 1500
#define LINKS   2 /* by which frames come, to all cores but the first */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum where { NOWHERE, INSIDE, OUTSIDE }; /* never given out, in the core, come back */

struct room {
	uint32_t entries, bulks;
};

struct core {
	struct proto *p;
	void *memory;
	uint64_t now;
	uint8_t tx[HANDLES], rx[HANDLES]; /* enum where, by handle */
	uint32_t tx_next, rx_next;
	struct room owed[CTXS]; /* taken by deliveries, not given back */
	bool open[CTXS];
	uint32_t inline_max;
};

struct packet {
	uint8_t bytes[2048];
	uint32_t len;
	uint8_t dst;
	bool used;
};

static struct core cores[CORES];
static struct packet wire[WIRE_Q];

_Noreturn void
proto_assert_failed(const char *what, const char *file, int line)
{
	fprintf(stderr, "%s:%d: assertion: %s\n", file, line, what);
	abort();
}

/* ------------------------------------------------------------------ pulling */

static void
pull_completions(struct core *c)
{
	struct proto_completion done[8];
	unsigned n;

	while ((n = proto_complete(c->p, done, 8)) > 0) {
		for (unsigned i = 0; i < n; i++) {
			MUST(done[i].handle < HANDLES && c->tx[done[i].handle] == INSIDE);
			c->tx[done[i].handle] = OUTSIDE;
		}
	}
}

/* A received message took an entry, and buffers unless it lies in the entry. */
static void
owe(struct core *c, uint16_t ctx, uint32_t msg_len, bool whole, bool last)
{
	MUST(ctx < CTXS);
	c->owed[ctx].entries += last;
	c->owed[ctx].bulks += !(whole && msg_len <= c->inline_max);
}

static void
pull_deliveries(struct core *c)
{
	struct proto_delivery got[4];
	uint64_t back[4];
	unsigned n;

	while ((n = proto_deliver(c->p, got, 4)) > 0) {
		for (unsigned i = 0; i < n; i++) {
			MUST(got[i].handle < HANDLES && c->rx[got[i].handle] == INSIDE);
			c->rx[got[i].handle] = OUTSIDE;
			MUST((uint64_t)got[i].frag_off + got[i].len <= got[i].msg_len);
			MUST(got[i].last == (got[i].frag_off + got[i].len == got[i].msg_len));
			owe(c, got[i].ctx, got[i].msg_len, got[i].len == got[i].msg_len,
				got[i].last);
		}
	}
	while ((n = proto_release(c->p, back, 4)) > 0) {
		for (unsigned i = 0; i < n; i++) {
			MUST(back[i] < HANDLES && c->rx[back[i]] == INSIDE);
			c->rx[back[i]] = OUTSIDE;
		}
	}
}

/* A frame goes onto the wire; if it finds no place there it is lost. */
static void
frame_send(const struct core *c, const struct proto_out *o)
{
	static uint8_t payload[2048];
	struct packet *w = wire;

	MUST(o->head_len >= WIRE_HDR_BYTES && o->head_len <= sizeof(o->head));
	if (o->handle != PROTO_NO_HANDLE)
		MUST(o->handle < HANDLES && c->tx[o->handle] == INSIDE);
	while (w < wire + WIRE_Q && w->used)
		w++;
	if (w == wire + WIRE_Q || o->node >= CORES)
		return;
	w->used = true;
	w->dst = (uint8_t)o->node;
	w->len = o->head_len + o->len;
	MUST(w->len <= sizeof(w->bytes));
	memcpy(w->bytes, o->head, o->head_len);
	memcpy(w->bytes + o->head_len, payload, o->len);
	MUST(wire_check(w->bytes, w->len, 300) == WIRE_OK);
}

/* Up to n frames of core k go onto the wire. */
static void
pull_frames(unsigned k, unsigned n)
{
	struct core *c = &cores[k];
	struct proto_out out[16];

	n = proto_tx(c->p, out, n < 16 ? n : 16, c->now);
	for (unsigned i = 0; i < n; i++)
		frame_send(c, &out[i]);
}

/* ------------------------------------------------------------------ pushing */

static void
push_frame(struct core *c, const uint8_t *bytes, uint32_t len)
{
	uint32_t handle = c->rx_next++;
	uint8_t *frame = malloc(len ? len : 1);

	MUST(handle < HANDLES);
	memcpy(frame, bytes, len);
	c->rx[handle] = INSIDE;
	if (c->p->cfg.links != 0)
		proto_rx_link(c->p, handle % LINKS);
	switch (proto_rx(c->p, frame, len, handle, c->now)) {
	case PROTO_RX_DONE:
		c->rx[handle] = OUTSIDE;
		break;
	case PROTO_RX_MULTI: /* of no flow: it has changed nothing */
		MUST(((struct wire_hdr *)frame)->dst_node == wire_be16(WIRE_NOBODY));
		c->rx[handle] = OUTSIDE;
		break;
	case PROTO_RX_TWIN:
	case PROTO_RX_ANNOUNCED:
		MUST(((struct wire_hdr *)frame)->src_node == wire_be16(c->p->cfg.node));
		c->rx[handle] = OUTSIDE;
		break;
	case PROTO_RX_LINK:
		MUST(len == WIRE_HDR_BYTES);
		c->rx[handle] = OUTSIDE;
		break;
	case PROTO_RX_KEPT:
		break;
	case PROTO_RX_MESSAGE:
		MUST(len >= WIRE_HDR_BYTES);
		c->rx[handle] = OUTSIDE;
		owe(c, wire_be16(((struct wire_hdr *)frame)->dst_ctx), len - WIRE_HDR_BYTES, true,
			true);
		break;
	}
	free(frame);
}

static void
push_message(struct core *c, struct input *in)
{
	uint64_t handles[64] = {0};
	struct proto_message m = {
		.ctx = take8(in) % (CTXS + 1),
		.dst_node = take8(in) % 6,
		.dst_ctx = take8(in) % (CTXS + 1),
		.len = take16(in) % 3000,
		.frag_len = take8(in) & 1 ? 300 : take16(in) % 320,
	};
	uint32_t frags = m.frag_len == 0 || m.len == 0 ? 1 : (m.len + m.frag_len - 1) / m.frag_len;

	if (frags > 64 || c->tx_next + frags > HANDLES)
		return;
	for (uint32_t i = 0; i < frags; i++)
		handles[i] = c->tx_next + i;
	struct proto_out now = {
		.handle = handles[0],
		.len = m.len,
		.node = m.dst_node,
		.head_len = WIRE_HDR_BYTES,
	};
	const struct proto_now one = {handles[0], now.head, m.len};
	bool sent = frags == 1 && m.len <= m.frag_len &&
		proto_send_now(c->p, proto_flow_key(m.ctx, m.dst_node, m.dst_ctx), &one, 1,
			c->now) == 1;

	if (!sent && proto_send(c->p, &m, handles, c->now) != 0)
		return;
	for (uint32_t i = 0; i < frags; i++)
		c->tx[c->tx_next++] = INSIDE;
	if (sent)
		frame_send(c, &now);
}

/* A frame of the input's own making, made likelier to be looked at by `fix`. */
static void
push_forged(unsigned k, struct input *in)
{
	struct core *c = &cores[k];
	uint8_t fix = take8(in), frame[WIRE_HDR_BYTES + 64];
	uint32_t len = take8(in) % (sizeof(frame) + 1);
	struct wire_hdr *h = (struct wire_hdr *)frame;

	if (fix & 1 && len < WIRE_HDR_BYTES)
		len = WIRE_HDR_BYTES;
	take(in, frame, len);
	if (len >= WIRE_HDR_BYTES) {
		if (fix & 2) {
			h->version = WIRE_VERSION;
			h->type = 1 + h->type % (WIRE_TYPE_COUNT - 1);
			h->flags &= wire_be16(WIRE_F_ALL);
			h->payload_len = wire_be16((uint16_t)(len - WIRE_HDR_BYTES));
			h->dst_node = wire_be16((uint16_t)k);
		}
		if (fix & 4) {
			unsigned from = (k + 1 + (fix >> 7)) % CORES;

			h->src_node = wire_be16((uint16_t)from);
			h->session = wire_be32(proto_session(c->p, (uint16_t)from));
			h->src_ctx = wire_be16(wire_be16(h->src_ctx) % CTXS);
			h->dst_ctx = wire_be16(wire_be16(h->dst_ctx) % CTXS);
		}
		uint32_t flow = flow_search(c->p,
			proto_flow_key(wire_be16(h->dst_ctx), wire_be16(h->src_node),
				wire_be16(h->src_ctx)));

		if (fix & 8 && flow != NIL) { /* near what its flow expects */
			h->seq = wire_be32(c->p->flows[flow].rcv_nxt + wire_be32(h->seq) % 16 - 4);
			h->ack = wire_be32(c->p->flows[flow].snd_una + wire_be32(h->ack) % 16 - 4);
		}
	}
	push_frame(c, frame, len);
}

/* One of the frames on their way: lost, delivered, doubled, changed. */
static void
move_frame(struct input *in)
{
	struct packet *w = &wire[take8(in) % WIRE_Q];
	uint8_t how = take8(in);

	if (!w->used)
		return;
	if (how & 8) {
		uint32_t at = take8(in) % w->len;

		w->bytes[at] ^= take8(in);
	}
	if (how & 3)
		push_frame(&cores[w->dst], w->bytes, w->len);
	w->used = (how & 6) == 6;
}

static void
deliver_all(void)
{
	for (unsigned i = 0; i < WIRE_Q; i++) {
		if (wire[i].used)
			push_frame(&cores[wire[i].dst], wire[i].bytes, wire[i].len);
		wire[i].used = false;
	}
}

static void
give_room(struct core *c, uint16_t ctx)
{
	if (c->open[ctx])
		proto_ctx_room(c->p, ctx, c->owed[ctx].entries, c->owed[ctx].bulks, c->now);
	c->owed[ctx] = (struct room){0, 0};
}

static void
open_ctx(struct core *c, uint16_t ctx, uint32_t entries, uint32_t bulks)
{
	if (!c->open[ctx] &&
		proto_ctx_open(c->p, ctx, entries, bulks, c->inline_max, c->now) == 0) {
		c->open[ctx] = true;
		c->owed[ctx] = (struct room){0, 0};
	}
}

static void
close_ctx(struct core *c, uint16_t ctx, bool linger)
{
	if (c->open[ctx])
		proto_ctx_close(c->p, ctx, linger, c->now);
	c->open[ctx] = false;
}

static void
pass_time(struct core *c, uint32_t us)
{
	const uint64_t before = c->now;

	c->now += us * (c->p->cfg.ticks_per_sec / 1000000);
	proto_begin(c->p, before, c->now);
	proto_tick(c->p, c->now);
}

/* ------------------------------------------------------------------ judging */

static void
check_books(const struct core *c)
{
	const uint64_t *n = proto_counters(c->p);
	uint64_t drops = 0;

	for (unsigned i = 0; i < PROTO_COUNTER_COUNT; i++) {
		if (strncmp(proto_counter_info[i].name, "drop_", 5) == 0)
			drops += n[i];
	}
	MUST(n[PROTO_rx_frames] ==
		n[PROTO_rx_accepted] + n[PROTO_rx_multi] + n[PROTO_rx_link] + drops);
	MUST(proto_tx_free(c->p) <= c->p->cfg.tx_frames_max);
	MUST(proto_rx_free(c->p) <= c->p->cfg.rx_frames_max);
	MUST(c->p->share.each <= WIRE_WINDOW_MAX);
	for (unsigned i = 0; i < c->p->cfg.paths_max; i++) {
		const struct path *t = &c->p->paths[i];

		MUST(!t->used ||
			(t->inflight_frames <= c->p->cfg.tx_frames_max &&
				t->inflight_bytes <= t->inflight_frames * (300u + WIRE_HDR_BYTES)));
	}
}

/* Everything ends: nothing may be left inside. */
static void
end_core(struct core *c)
{
	for (uint16_t i = 0; i < CTXS; i++)
		close_ctx(c, i, false);
	for (int i = 0; i < 100; i++) {
		struct proto_out lost[16];

		pass_time(c, 1000);
		while (proto_tx(c->p, lost, 16, c->now) > 0)
			;
		pull_completions(c);
		pull_deliveries(c);
	}
	for (uint32_t i = 0; i < HANDLES; i++)
		MUST(c->tx[i] != INSIDE && c->rx[i] != INSIDE);
	MUST(proto_tx_free(c->p) == c->p->cfg.tx_frames_max);
	MUST(proto_rx_free(c->p) == c->p->cfg.rx_frames_max);
	free(c->memory);
}

static void
begin_core(unsigned k, struct input *in)
{
	struct core *c = &cores[k];
	uint8_t how = take8(in);
	const struct proto_config cfg = {
		.node = (uint16_t)k,
		.epoch = 1000 + k,
		.key = {take8(in)},
		.ticks_per_sec = 1000000000,
		.nodes_max = 5,
		.contexts_max = CTXS,
		.flows_max = 1 + how % 7,
		.paths_max = 1 + how % 5,
		.tx_frames_max = 1 + take8(in) % 16,
		.rx_frames_max = 1 + take8(in) % 16,
		.window_frames = 1 + take8(in) % 16,
		.path_frames = 1 + take8(in) % 16,
		.path_bytes = 1 + take16(in) % 8192,
		.payload_max = 300,
		.rto_min_us = 1 + take8(in),
		.rto_max_us = 1000,
		.retries = 1 + how % 5,
		.hello_us = 1000 * (1 + how % 5),
		.probes = how % 8,
		.ack_delay_us = take8(in),
		.ack_every = 1 + how % 9,
		.keepalive_us = how & 16 ? 300 : 0,
		.flow_idle_us = 1 + take16(in),
		.cc_target_us = 1 + take8(in),
		.share_target_us = how & 32 ? 1 + take8(in) % 16 : 0,
		.links = k != 0 ? LINKS : 0,
		.recovery = how & 64 ? PROTO_GO_BACK_N : PROTO_SELECTIVE,
		.cc = how & 128 ? &cc_pm : &cc_delay,
	};
	size_t bytes = proto_memsize(&cfg);

	MUST(bytes > 0);
	memset(c, 0, sizeof(*c));
	c->inline_max = take8(in) % 105;
	c->memory = aligned_alloc(64, bytes);
	memset(c->memory, 0, bytes);
	c->now = 1000000;
	c->p = proto_init(c->memory, &cfg, c->now);
	MUST(c->p != NULL);
	for (uint16_t i = 0; i < cfg.nodes_max && cfg.links != 0; i++)
		proto_node_links(c->p, i, (1u << LINKS) - 1);
}

/* ------------------------------------------------------------------ */

/* Play a turn of a good network and of good applications: deliver all frames, take all that has
 * come, give room, and let `us` microseconds pass. */
static void
good_turn(uint32_t us)
{
	for (unsigned k = 0; k < CORES; k++)
		pull_frames(k, 16);
	deliver_all();
	for (unsigned k = 0; k < CORES; k++) {
		pull_deliveries(&cores[k]);
		pull_completions(&cores[k]);
		for (uint16_t i = 0; i < CTXS; i++)
			give_room(&cores[k], i);
		pass_time(&cores[k], us);
	}
}

static void
must_complete(void)
{
	bool all = false;

	for (int i = 0; i < 2000 && !all; i++) {
		if (cores[0].rx_next + 2 * WIRE_Q > HANDLES ||
			cores[1].rx_next + 2 * WIRE_Q > HANDLES ||
			cores[2].rx_next + 2 * WIRE_Q > HANDLES)
			return;
		good_turn(50);
		all = true;
		for (unsigned k = 0; k < CORES; k++)
			all &= proto_tx_free(cores[k].p) == cores[k].p->cfg.tx_frames_max;
	}
	MUST(all);
}

static void
step(struct input *in)
{
	uint8_t op = take8(in);
	unsigned k = (op >> 5) % CORES;
	struct core *c = &cores[k];
	uint8_t more;

	switch (op & 15) { /* bits 5 to 7: whose */
	case 0:
	case 1:
		push_message(c, in);
		break;
	case 2:
	case 3:
		pull_frames(k, 1 + take8(in) % 16);
		break;
	case 4:
	case 5:
		move_frame(in);
		break;
	case 6:
		deliver_all();
		break;
	case 7:
		push_forged(k, in);
		break;
	case 8:
		more = take8(in);
		pass_time(c, more & 128 ? (more & 127u) * 64 : more);
		break;
	case 9:
		more = take8(in);
		for (k = 0; k < CORES; k++)
			pass_time(&cores[k], more);
		break;
	case 10:
		pull_deliveries(c);
		break;
	case 11:
		pull_completions(c);
		break;
	case 12:
		give_room(c, take8(in) % CTXS);
		break;
	case 13:
		more = take8(in);
		open_ctx(c, more % CTXS, 1 + take8(in) % 32, 1 + take8(in) % 32);
		break;
	case 14:
		more = take8(in);
		if (more & 16)
			close_ctx(c, more % CTXS, more & 32);
		break;
	default:
		good_turn(10);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	bool good = take8(&in) & 1, full = false;

	memset(wire, 0, sizeof(wire));
	for (unsigned k = 0; k < CORES; k++)
		begin_core(k, &in);
	for (unsigned k = 0; k < CORES; k++) {
		for (uint16_t i = 0; i < 2; i++)
			open_ctx(&cores[k], i, 1 + take8(&in) % 32, 1 + take8(&in) % 32);
	}
	for (int i = 0; in.left && i < OPS_MAX; i++) {
		step(&in);
		for (unsigned k = 0; k < CORES; k++) {
			check_books(&cores[k]);
			full |= cores[k].rx_next + WIRE_Q > HANDLES;
		}
		if (full)
			break;
	}
	if (good && !full)
		must_complete();
	for (unsigned k = 0; k < CORES; k++)
		end_core(&cores[k]);
	return 0;
}
