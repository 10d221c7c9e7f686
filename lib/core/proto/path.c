/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Paths: the state of a peer node. They agree on epochs by HELLO, notice restarts and deaths, and
 * measure the round trip. Only the owner of the struct proto calls this.
 *
 * Design notes
 * 1. HELLO has three steps: ask(nonce a); ask(nonce b, echo a); tell(echo b). A node accepts an
 *    epoch only together with its own newest nonce, so a delayed HELLO of an earlier life can
 *    neither reset a path nor bring an old session back.
 * 2. Frames carry a digest of both epochs and of both secrets, which HELLO tells the peer alone.
 *    A frame of any other session is dropped and answered by
 *    HELLO (at most one in rto_min), so whichever side was restarted is noticed at once.
 * 3. HELLO names contexts only to reach the engine that owns them: every engine of a node does its
 *    own handshakes.
 * 4. A host that was descheduled answers after the timeout, though nothing was lost. The echo shows
 *    that: if the Ack is for a frame that was sent before the timeout, the window goes back to what
 *    it was (the Eifel detection and response, RFC 3522 and RFC 4015).
 */
#include <errno.h>
#include <string.h>

#include "core/proto/internal.h"

#define CTL_LINK(i)  p->paths[i].ctl_next
#define START_FRAMES 10

uint32_t
path_get(struct proto *p, uint16_t node, uint64_t now)
{
	uint32_t index = p->path_of[node];

	if (likely(index != NIL))
		return index;
	index = p->path_free;
	if (index == NIL)
		return NIL;
	struct path *t = &p->paths[index];
	const struct proto_config *c = &p->cfg;
	uint32_t frame = c->payload_max + WIRE_HDR_BYTES;

	p->path_free = t->ctl_next;
	p->path_of[node] = index;
	*t = (struct path){
		.used = true,
		.node = node,
		.state = PATH_NEW,
		.nonce = (uint32_t)proto_random(p) | 1,
		.isn_floor = (uint32_t)proto_random(p),
		.flows = {{NIL, NIL}, {NIL, NIL}},
		.payload_max = c->payload_max,
		.passes = PAYLOAD_SURE,
		.window = c->window_frames,
		.rto = p->rto_first,
		.probe = p->rto_first,
		.cut.flow = NIL,
		.heard_at = now,
		.cc =
			{
				.max_bytes = c->path_bytes > 2 * frame ? c->path_bytes : 2 * frame,
				.max_frames = c->path_frames,
				.min_bytes = 2 * frame,
				.step = frame,
				.target = c->cc_target_us * UNITS_PER_US,
			},
	};
	t->cc.window_bytes = t->cc.max_bytes;
	t->cc.window_frames = t->cc.max_frames;
	if (c->cc->slow_start) {
		/* begin like TCP (RFC 6928), because the network's capacity is not known yet */
		if (START_FRAMES * frame < t->cc.max_bytes)
			t->cc.window_bytes = START_FRAMES * frame;
		t->cc.slow = t->cc.max_bytes;
	}
	t->cc.target_max = t->cc.target;
	return index;
}

void
proto_node_stranger(struct proto *p, uint16_t node, bool is)
{
	const uint64_t bit = UINT64_C(1) << node % 64;

	if (node >= p->cfg.nodes_max)
		return;
	p->strangers[node / 64] = is ? p->strangers[node / 64] | bit
				     : p->strangers[node / 64] & ~bit;
}

uint32_t
path_of_sender(struct proto *p, uint16_t node, uint64_t now)
{
	if (p->path_of[node] == NIL && p->strangers[node / 64] >> node % 64 & 1)
		return NIL;
	return path_get(p, node, now);
}

static void
queue_control(struct proto *p, struct path *t)
{
	if (t->ctl_queued)
		return;
	t->ctl_queued = true;
	LIST_APPEND(&p->ctl, (uint32_t)(t - p->paths), CTL_LINK);
	HAS(p, FRAMES);
}

void
path_greet(struct proto *p, struct path *t, uint16_t src_ctx, uint16_t dst_ctx, bool ask)
{
	t->hello_src = src_ctx;
	t->hello_dst = dst_ctx;
	t->hello_due = true;
	t->hello_asks |= ask;
	queue_control(p, t);
}

void
path_ask(struct proto *p, struct path *t, uint16_t src_ctx, uint16_t dst_ctx, uint64_t now)
{
	if (now >= t->ask_at) {
		path_greet(p, t, src_ctx, dst_ctx, true);
		t->ask_at = now + p->rto_first;
	}
	if (t->asked == 0)
		t->asked_since = now;
	timer_arm(p, path_timer_index(p, t), t->ask_at);
}

void
proto_node_wanted(struct proto *p, uint16_t ctx, uint16_t node, uint64_t until, uint64_t now)
{
	const uint32_t index = node < p->cfg.nodes_max ? path_get(p, node, now) : NIL;

	if (index == NIL)
		return;
	struct path *t = &p->paths[index];

	if (now >= t->wanted_until && t->state == PATH_OPEN && p->keepalive != 0) {
		if (t->flow_count == 0) /* its silence begins to count */
			t->heard_at = now;
		timer_arm(p, path_timer_index(p, t), now + p->keepalive);
	}
	t->wanted_until = until;
	/* one that did not answer is asked again and again, with pauses */
	if (t->state == PATH_NEW && t->asked == 0 && now >= t->ping_at) {
		t->ping_at = now + 2 * p->hello + p->keepalive;
		path_ask(p, t, ctx, ctx, now);
	}
}

/* End all flows of the peer's old life, when it is in a new life or dead. */
static void
reset_flows(struct proto *p, struct path *t, uint8_t error, enum flow_rx_state rx)
{
	uint32_t path = (uint32_t)(t - p->paths);

	for (uint32_t i = 0; i < p->cfg.flows_max; i++) {
		struct flow *f = &p->flows[i];

		if (f->key == 0 || f->path != path)
			continue;
		flow_fail(p, f, error);
		flow_abort_rx(p, f, rx);
		f->flags &= ~FLOW_ACTIVE;
	}
	path_unlist(t);
}

/* Forget what the flows have received, when the peer is in a new life after a death. The flows
 * ended at its death, but still remember their sequences, and the new life may begin with any
 * sequence. */
static void
forget_received(struct proto *p, struct path *t)
{
	uint32_t path = (uint32_t)(t - p->paths);

	for (uint32_t i = 0; i < p->cfg.flows_max; i++) {
		if (p->flows[i].key != 0 && p->flows[i].path == path)
			flow_abort_rx(p, &p->flows[i], FLOW_RX_NONE);
	}
}

void
proto_node_gone(struct proto *p, uint16_t node)
{
	if (node >= p->cfg.nodes_max || p->path_of[node] == NIL)
		return;
	struct path *t = &p->paths[p->path_of[node]];

	reset_flows(p, t, EHOSTUNREACH, FLOW_RX_CLOSED);
	t->state = PATH_NEW;
	t->dead = true;
	t->asked = 0;
}

/* End the flows that have a frame longer than the peer takes. Messages that wait for the handshake
 * were cut into frames for this node's own links. */
static void
refuse_long(struct proto *p, const struct path *t)
{
	const uint32_t path = (uint32_t)(t - p->paths);

	for (uint32_t i = 0; i < p->cfg.flows_max; i++) {
		struct flow *f = &p->flows[i];
		uint32_t d = f->key != 0 && f->path == path ? f->tx_head : NIL;

		while (d != NIL && p->txds[d].len <= t->payload_max)
			d = p->txds[d].next;
		if (d != NIL)
			flow_fail(p, f, EMSGSIZE);
	}
}

/* Rounds of a PING as long as what surely passes and of a longer one, as many as timeouts. In a
 * full queue both fare much alike, and so do the frames that are sent again, of which one that
 * arrives ends it; so hardly ever do so many of the one come back before any of the others has got
 * through.
 */
#define PROBE_ROUNDS 12

void
path_probe_size(struct proto *p, struct path *t, uint32_t len)
{
	if (len <= t->passes || t->too_long != 0 || t->state != PATH_OPEN)
		return;
	if (len > t->probe_len) {
		t->probe_len = (uint16_t)len;
		t->probe_shorts = 0;
	}
	t->probes_due = 2;
	queue_control(p, t);
}

void
path_passes(struct path *t, uint32_t len)
{
	t->passes = (uint16_t)len;
	t->probe_shorts = 0;
	if (t->probe_len <= len)
		t->probe_len = t->probes_due = 0;
}

void
path_answered(struct proto *p, struct path *t, uint32_t seq)
{
	t->asked = 0;
	if (t->probe_len == 0)
		return;
	if (seq > t->passes && seq <= t->probe_len) {
		path_passes(t, seq);
	} else if (seq == PAYLOAD_SURE && ++t->probe_shorts >= PROBE_ROUNDS) {
		t->too_long = t->probe_len;
		t->probe_len = 0;
		t->payload_max = PAYLOAD_SURE;
		refuse_long(p, t);
	}
}

static void
adopt_epoch(struct proto *p, struct path *t, const struct wire_hello *hello)
{
	uint32_t epoch = wire_be32(hello->epoch);
	uint32_t payload_max = wire_be16(hello->payload_max), window = wire_be16(hello->window);

	if (t->peer_epoch != epoch || t->dead) { /* it may be reached by another way */
		t->too_long = 0;
		t->passes = PAYLOAD_SURE;
		t->probe_len = 0;
	}
	if (t->peer_epoch != epoch) {
		if (t->peer_epoch != 0) {
			COUNT_OF(p, t, peer_restarts);
			if (t->dead)
				forget_received(p, t);
			else
				reset_flows(p, t, ECONNRESET, FLOW_RX_NONE);
		}
		t->peer_epoch = epoch;
		t->srtt = t->rttvar = 0;
		t->rto = t->probe = p->rto_first;
		t->cc.base_rtt = 0;
		order_forget(p, t->node);
		t->owd_life = 0;
	}
	t->session = wire_session((struct wire_end){proto_secret(p, t->node), p->cfg.epoch},
		(struct wire_end){wire_be64(hello->secret), epoch});
	t->told = *hello;
	t->payload_max = payload_max < p->cfg.payload_max ? payload_max : p->cfg.payload_max;
	if (t->too_long != 0 && t->payload_max > PAYLOAD_SURE)
		t->payload_max = PAYLOAD_SURE;
	t->window = window && window < p->cfg.window_frames ? window : p->cfg.window_frames;
	if (t->payload_max < p->cfg.payload_max)
		refuse_long(p, t);
	t->nonce = (uint32_t)proto_random(p) | 1;
	t->asked = 0;
	t->dead = t->wants_keys = false;
	t->state = PATH_OPEN;
	path_activate(p, t);
}

void
path_rx_hello(struct proto *p, const struct wire_hdr *h, uint64_t now)
{
	uint16_t node = wire_be16(h->src_node);
	uint32_t index = path_of_sender(p, node, now);

	if (index == NIL) {
		if (p->path_free == NIL)
			COUNT(p, drop_no_path);
		else
			COUNT(p, drop_stranger);
		return;
	}
	struct path *t = &p->paths[index];
	struct wire_hello hello;
	bool asks = h->flags & wire_be16(WIRE_F_ASK);

	memcpy(&hello, h + 1, sizeof(hello));
	const bool unlike = !(hello.flags & WIRE_H_CHECKSUM) != !p->cfg.checksum;

	if (t->state != PATH_OPEN) { /* for people, until there is an answer that is believed */
		t->unlike = unlike;
		t->told = hello;
	}
	if (unlike) { /* one of the two takes no frame of the other but this */
		COUNT(p, drop_setting);
		if (asks)
			path_greet(p, t, wire_be16(h->dst_ctx), wire_be16(h->src_ctx), false);
		return;
	}
	bool fresh = wire_be32(hello.echo) == t->nonce;

	if (!fresh && !asks) {
		COUNT(p, drop_nonce);
		return;
	}
	COUNT(p, rx_accepted);
	t->peer_nonce = wire_be32(hello.nonce);
	t->other_version = 0;
	t->heard_at = now;
	if (fresh) {
		t->hello_rtt = stamp_of(p, now) - t->hello_ts;
		t->hello_ts = 0;
		adopt_epoch(p, t, &hello);
	}
	if (asks) {
		bool known = t->state == PATH_OPEN && t->peer_epoch == wire_be32(hello.epoch);

		path_greet(p, t, wire_be16(h->dst_ctx), wire_be16(h->src_ctx), !known);
	}
	if (p->keepalive)
		timer_arm(p, path_timer_index(p, t), now + p->keepalive);
}

/* End what does not wait for longer to be opened, when nobody has answered for `silence` ticks.
 * Return whether anything waits for longer. */
static bool
is_awaited(struct proto *p, struct path *t, uint64_t silence)
{
	uint32_t path = (uint32_t)(t - p->paths), waited = units_of(p, silence) >> COARSE_SHIFT;
	bool any = false;

	path_unlist(t);
	for (uint32_t i = 0; i < p->cfg.flows_max; i++) {
		struct flow *f = &p->flows[i];

		if (f->key == 0 || f->path != path)
			continue;
		f->flags &= ~FLOW_ACTIVE;
		if (f->tx_head != NIL && waited < p->ctxs[f->ctx].open_wait) {
			flow_enlist(p, f);
			any = true;
		} else {
			flow_fail(p, f, EHOSTUNREACH);
		}
	}
	return any;
}

static void
ask_again(struct proto *p, struct path *t, uint64_t now)
{
	if (now < t->ask_at) {
		timer_arm(p, path_timer_index(p, t), t->ask_at);
		return;
	}
	uint64_t silence = now - t->asked_since;

	if (silence >= p->hello && !is_awaited(p, t, silence)) {
		COUNT(p, peer_deaths);
		t->asked = 0;
		reset_flows(p, t, EHOSTUNREACH, FLOW_RX_CLOSED);
		t->dead = true;
		return;
	}
	t->asked += t->asked != UINT8_MAX;
	uint64_t wait = p->rto_first << (t->asked < 20 ? t->asked : 20);

	path_greet(p, t, t->hello_src, t->hello_dst, true);
	if (wait > p->rto_max)
		wait = p->rto_max;
	if (silence < p->hello && wait > p->hello - silence)
		wait = p->hello - silence;
	t->ask_at = now + wait;
	timer_arm(p, path_timer_index(p, t), t->ask_at);
}

static void
keep_alive(struct proto *p, struct path *t, uint64_t now)
{
	if (p->keepalive == 0)
		return;
	if (t->flow_count == 0 && now >= t->wanted_until)
		t->heard_at = now; /* only silence of a peer that is in use counts */
	if (now - t->heard_at < p->keepalive) {
		t->asked = 0;
		t->ping_at = t->heard_at + p->keepalive;
	}
	if (now < t->ping_at) {
		timer_arm(p, path_timer_index(p, t), t->ping_at);
		return;
	}
	if (++t->asked > 3) {
		COUNT(p, peer_deaths);
		t->asked = 0;
		t->state = PATH_NEW;
		reset_flows(p, t, ETIMEDOUT, FLOW_RX_CLOSED);
		t->dead = true;
		return;
	}
	t->ping_due = true;
	queue_control(p, t);
	t->ping_at = now + p->keepalive;
	timer_arm(p, path_timer_index(p, t), t->ping_at);
}

void
path_timer(struct proto *p, uint32_t index, uint64_t now)
{
	struct path *t = &p->paths[index];

	if (!t->used)
		return;
	if (t->state == PATH_OPEN)
		keep_alive(p, t, now);
	else if (t->listed != 0 || now < t->wanted_until)
		ask_again(p, t, now);
	else
		t->asked = 0; /* who wants it next begins anew */
}

/* RFC 6298 with shifts: srtt is kept x 8, rttvar x 4. */
void
path_rtt(struct proto *p, struct path *t, uint32_t rtt)
{
	if (rtt == 0)
		rtt = 1;
	const unsigned bucket = 32 - (unsigned)__builtin_clz(rtt);

	t->count.round_trips[bucket < PROTO_ROUND_TRIPS ? bucket : PROTO_ROUND_TRIPS - 1]++;
	if (t->srtt == 0) {
		t->srtt = rtt * 8;
		t->rttvar = rtt * 2;
	} else {
		int32_t err = (int32_t)(rtt - t->srtt / 8);

		t->srtt += (uint32_t)err;
		t->rttvar += (uint32_t)(err < 0 ? -err : err) - t->rttvar / 4;
		if (t->srtt == 0)
			t->srtt = 1;
	}
	uint64_t rto = ticks_of(p, t->srtt / 8 + t->rttvar);

	t->rto = rto < p->rto_min ? p->rto_min : rto > p->rto_max ? p->rto_max : rto;
	/* wait at least two round trips: by then an Ack that comes at all has come */
	uint64_t probe = 2 * rto > p->rto_min / 8 ? 2 * rto : p->rto_min / 8;

	t->probe = p->cfg.probes && probe < t->rto ? probe : t->rto;
}

/* Cut the window, because the flow's frames in flight were not Acked in time. */
void
path_timeout(struct proto *p, struct path *t, uint32_t flow, uint32_t now_ts)
{
	uint32_t cut = t->cut.flow;
	const struct cc before = t->cc;

	if (!p->cfg.cc->on_timeout(&t->cc, now_ts))
		return;
	COUNT_OF(p, t, window_cuts);
	/* of several timeouts without an Ack, only the first one took the window away */
	if (cut == NIL || p->flows[cut].retries == 0 ||
		(cut == flow && p->flows[flow].retries == 1)) {
		t->cut.flow = flow;
		t->cut.at = now_ts;
		t->cut.bytes = before.window_bytes;
		t->cut.frames = before.window_frames;
		t->cut.slow = before.slow;
	}
}

void
proto_path_permitted(struct proto *p, uint16_t node, uint32_t bytes)
{
	const uint32_t index = node < p->cfg.nodes_max ? p->path_of[node] : NIL;

	if (index == NIL)
		return;
	struct cc *c = &p->paths[index].cc;

	if (c->window_bytes >= c->slow)
		return;
	c->window_bytes = bytes < c->max_bytes - c->window_bytes ? c->window_bytes + bytes
								 : c->max_bytes;
	path_activate(p, &p->paths[index]);
}

/* Take in the first Ack of the flow after its timeout, which may undo the cut of the window. */
void
path_acked_late(struct proto *p, struct path *t, uint32_t flow, const struct wire_hdr *h)
{
	if (t->cut.flow != flow)
		return;
	t->cut.flow = NIL;
	/* an Ack for what was sent before the timeout shows that nothing was lost: note 4 */
	if (!(h->flags & wire_be16(WIRE_F_ECHO)) ||
		!wire_seq_before(wire_be32(h->echo), t->cut.at) ||
		t->cut.bytes < t->cc.window_bytes)
		return;
	COUNT(p, cuts_undone);
	t->cc.window_bytes = t->cut.bytes;
	t->cc.window_frames = t->cut.frames;
	t->cc.slow = t->cut.slow;
}
