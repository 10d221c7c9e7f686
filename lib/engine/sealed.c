/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See sealed.h.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include <rte_cycles.h>
#include <rte_ether.h>

#include "engine/encap.h"
#include "engine/frame.h"
#include "engine/sealed.h"

/* Count for the node, and for a peer below nodes_max. */
#define COUNT_OF(e, node, name)                                                                    \
	do {                                                                                       \
		ENGINE_COUNT(e, name);                                                             \
		(e)->sealed->peers[node].counters[SEALED_##name]++;                                \
	} while (0)

int
sealed_make(struct engine *e, enum seal_mode mode, int keeper)
{
	struct sealed_lane *s = calloc(1, sizeof(*s));

	if (s == NULL)
		return -1;
	e->sealed = s;
	s->mode = mode;
	s->hz = rte_get_tsc_hz();
	s->keeper = keeper;
	s->mail = calloc(SEALED_MAIL, sizeof(*s->mail));
	s->peers = calloc(e->nodes_max, sizeof(*s->peers));
	e->checks_frames = true;
	return s->mail != NULL && s->peers != NULL ? 0 : -1;
}

void
sealed_free(struct engine *e)
{
	struct sealed_lane *s = e->sealed;
	struct keyring_keys *old[KEYRING_OLD_MAX];

	if (s == NULL)
		return;
	for (uint32_t i = 0; s->peers != NULL && i < e->nodes_max; i++) {
		struct sealed_peer *p = &s->peers[i];

		keyring_take(&p->gate.keys, true, 0, s->hz, old);
		keyring_free_old(old);
		rte_pktmbuf_free(p->held);
	}
	free(s->peers);
	free(s->mail);
	free(s);
	e->sealed = NULL;
}

/* ------------------------------------------------------------------ mail for the keeper */

static bool
mail_is_busy(const struct sealed_lane *s)
{
	return atomic_load_explicit(&s->written, memory_order_relaxed) -
		atomic_load_explicit(&s->read, memory_order_acquire) >=
		SEALED_MAIL / 2;
}

/* Return where the next message for the keeper goes, or NULL if there is no room. */
static struct sealed_mail *
mail_room(struct sealed_lane *s, uint16_t node, enum sealed_news news)
{
	const uint32_t written = atomic_load_explicit(&s->written, memory_order_relaxed);

	if (written - atomic_load_explicit(&s->read, memory_order_acquire) == SEALED_MAIL)
		return NULL;
	struct sealed_mail *m = &s->mail[written % SEALED_MAIL];

	m->node = node;
	m->len = 0;
	m->news = news;
	return m;
}

static void
mail_post(struct sealed_lane *s)
{
	/* release: the message must be visible before its number; pairs with sealed_mail_take */
	atomic_fetch_add_explicit(&s->written, 1, memory_order_release);
	eventfd_write(s->keeper, 1);
}

bool
sealed_mail_take(struct sealed_lane *s, struct sealed_mail *out)
{
	const uint32_t read = atomic_load_explicit(&s->read, memory_order_relaxed);

	if (atomic_load_explicit(&s->written, memory_order_acquire) == read)
		return false;
	*out = s->mail[read % SEALED_MAIL];
	atomic_store_explicit(&s->read, read + 1, memory_order_release);
	return true;
}

/* Return whether there may be keys with that node: it is in [nodes], and another one. */
static bool
may_have_keys(const struct engine *e, uint16_t node)
{
	return e->peers[node].known && node != e->node->config.id;
}

/* Tell the keeper that keys are wanted. */
static __rte_noinline void
want(struct engine *e, uint16_t node, enum sealed_news news)
{
	struct sealed_peer *p = &e->sealed->peers[node];

	if (may_have_keys(e, node) && gate_may_want(&p->gate, e->now, e->sealed->hz) &&
		mail_room(e->sealed, node, news) != NULL)
		mail_post(e->sealed);
}

/* Send the HELLO that waits for keys, if there is one. */
static void
send_held(struct engine *e, uint16_t node)
{
	struct sealed_peer *p = &e->sealed->peers[node];

	if (p->held == NULL)
		return;
	engine_frame_queue(e, p->held_link, p->held);
	p->held = NULL;
}

static __rte_noinline void
sealed_begin(struct engine *e, uint16_t node)
{
	COUNT_OF(e, node, keys_begun);
	send_held(e, node);
	atomic_fetch_add_explicit(&e->sealed->peers[node].begun, 1, memory_order_release);
}

/* ------------------------------------------------------------------ messages of handshakes */

/* Send a message of a handshake. */
static void
send_message(struct engine *e, uint16_t node, const void *message, uint32_t len, bool open)
{
	engine_send_keys(e, node,
		&(struct keys_frame){
			.message = message,
			.len = len,
			.turn = e->sealed->peers[node].turn++,
			.open = open,
		});
}

/* Send the first frame with new keys, to one of the peer's lanes. */
static void
show_keys(struct engine *e, uint16_t node, uint16_t lane)
{
	engine_send_keys(e, node,
		&(struct keys_frame){.lane = lane, .turn = e->sealed->peers[node].turn++});
}

/* Answer an ASK, whoever sends it: as long as it, and no more often than anybody needs. Return
 * whether it was. */
static bool
sealed_tell(struct engine *e, uint16_t node, const void *ask)
{
	struct sealed_lane *s = e->sealed;
	struct handshake_tell tell;

	if (e->now < s->tell_at)
		return false;
	s->tell_at = e->now + SEALED_TELL_US * (s->hz / 1000000);
	tell = s->tell[atomic_load_explicit(&s->told, memory_order_acquire) % 2];
	handshake_tell_for(&tell, ask);
	send_message(e, node, &tell, sizeof(tell), true);
	return true;
}

/* Pass a checked message on to the keeper, or answer it. Return false if it is dropped. */
static bool
take_message(struct engine *e, uint16_t node, const void *message, uint32_t len, bool sealed)
{
	struct sealed_lane *s = e->sealed;
	struct gate *g = &s->peers[node].gate;
	const uint64_t secret[2] = {atomic_load(&s->cookie_secret[0]),
		atomic_load(&s->cookie_secret[1])};
	uint8_t out[sizeof(struct handshake_cookie)];
	struct sealed_mail *m;
	uint64_t cookie[2];

	handshake_cookie_of(secret, node, cookie);
	switch (sealed ? gate_sealed_message(g, message, mail_is_busy(s), e->now, s->hz)
		       : gate_message(g, &s->any_at, message, cookie, mail_is_busy(s), e->now,
				 s->hz)) {
	case GATE_PASS:
		/* one lane is enough for what a peer with keys wants */
		if ((sealed && e->lane != 0) || (m = mail_room(s, node, SEALED_MESSAGE)) == NULL)
			return false;
		m->sealed = sealed;
		m->len = (uint16_t)len;
		memcpy(m->message, message, len);
		mail_post(s);
		return true;
	case GATE_COOKIE:
		handshake_cookie_put(message, cookie, out);
		send_message(e, node, out, sizeof(out), true);
		COUNT_OF(e, node, cookies);
		return false;
	case GATE_TELL:
		return sealed_tell(e, node, message);
	case GATE_DROP:
		break;
	}
	return false;
}

/* Take in a message of a handshake. */
static __rte_noinline void
handshake_in(struct engine *e, uint16_t node, const struct wire_hdr *h, uint32_t len, bool sealed)
{
	struct sealed_lane *s = e->sealed;
	const uint64_t mac1_key[2] = {atomic_load(&s->mac1_key[0]), atomic_load(&s->mac1_key[1])};

	len -= WIRE_HDR_BYTES;
	if (!may_have_keys(e, node) || wire_be16(h->dst_node) != e->node->config.id ||
		wire_be16(h->payload_len) != len || !handshake_check(h + 1, len, mac1_key) ||
		!take_message(e, node, h + 1, len, sealed))
		COUNT_OF(e, node, drop_handshake);
}

/* ------------------------------------------------------------------ receive */

/* Return the keys that a frame of that node names, or NULL, having counted why. */
static struct keyring_keys *
keys_of(struct engine *e, uint16_t node, const struct wire_hdr *h)
{
	enum gate_stranger why;
	struct keyring_keys *k = gate_keys_of(&e->sealed->peers[node].gate, h,
		(uint16_t)e->node->config.id, e->now, e->sealed->hz, &why);

	if (likely(k != NULL))
		return k;
	if (h->type == WIRE_HELLO && h->session == 0)
		COUNT_OF(e, node, drop_unsealed);
	else
		COUNT_OF(e, node, drop_key);
	if (why == GATE_SHOW) /* to the lane that the frame is of: it is in the key's number */
		show_keys(e, node, (uint16_t)(wire_be32(h->session) % HANDSHAKE_LANES_MAX));
	else if (why == GATE_CLAIMED && mail_room(e->sealed, node, SEALED_CLAIMED) != NULL)
		mail_post(e->sealed);
	else if (why == GATE_UNSEALED || why == GATE_KEYLESS)
		want(e, node, why == GATE_UNSEALED ? SEALED_UNSEALED : SEALED_WANTED);
	return NULL;
}

/* Return the frame in an mbuf that is nobody else's, or NULL. */
static struct rte_mbuf *
own_frame(struct engine *e, struct rte_mbuf *m)
{
	if (likely(rte_mbuf_refcnt_read(m) == 1 && RTE_MBUF_DIRECT(m)))
		return m;
	struct rte_mbuf *copy = rte_pktmbuf_copy(m, e->node->pool, 0, UINT32_MAX);

	if (copy != NULL)
		copy->port = m->port;
	rte_pktmbuf_free(m);
	return copy;
}

static bool
drop(struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
	return false;
}

bool
sealed_in(struct engine *e, struct rte_mbuf *m)
{
	struct sealed_lane *s = e->sealed;
	struct wire_hdr *h = rte_pktmbuf_mtod(m, struct wire_hdr *);
	const uint16_t node = wire_be16(h->src_node);
	bool begun;

	if (unlikely(h->version != WIRE_VERSION || node >= e->nodes_max || h->type == WIRE_MULTI)) {
		ENGINE_COUNT(e, drop_unsealed);
		return drop(m);
	}
	if (unlikely(h->type == WIRE_KEYS && h->session == 0)) {
		handshake_in(e, node, h, m->data_len, false);
		return drop(m);
	}
	struct keyring_keys *k = keys_of(e, node, h);

	if (unlikely(k == NULL))
		return drop(m);
	if (unlikely((m = own_frame(e, m)) == NULL))
		return false;
	h = rte_pktmbuf_mtod(m, struct wire_hdr *);
	switch (gate_open(&s->peers[node].gate, k, s->mode, h, m->data_len, e->now, &begun)) {
	case SEAL_OK:
		break;
	case SEAL_REPLAYED:
		COUNT_OF(e, node, drop_replay);
		return drop(m);
	case SEAL_SHORT:
	case SEAL_FORGED:
		COUNT_OF(e, node, drop_auth);
		return drop(m);
	}
	if (unlikely(begun))
		sealed_begin(e, node);
	m->data_len = (uint16_t)(m->data_len - SEAL_TRAILER_BYTES);
	m->pkt_len = m->data_len;
	if (likely(h->type != WIRE_KEYS))
		return true;
	if (h->payload_len != 0)
		handshake_in(e, node, h, m->data_len, true);
	else if (unlikely(gate_lacks(&s->peers[node].gate, k)))
		want(e, node, SEALED_WANTED);
	return drop(m);
}

/* ------------------------------------------------------------------ send */

/* Keep a HELLO until there are keys: note 1. Only the last one counts. NULL: no more. */
static void
sealed_hold(struct sealed_peer *p, unsigned link, struct rte_mbuf *m)
{
	rte_pktmbuf_free(p->held);
	p->held = m;
	p->held_link = (uint8_t)link;
}

/* Return keys for a frame to that node, or NULL: there are none yet. */
static struct keyring_keys *
keys_for(struct engine *e, uint16_t node, const struct wire_hdr *h)
{
	struct sealed_lane *s = e->sealed;
	bool wants;
	struct keyring_keys *k = gate_keys_for(&s->peers[node].gate, h, e->now, s->hz, &wants);

	if (unlikely(wants))
		want(e, node, SEALED_WANTED);
	return k;
}

/* Return a sealed copy of a frame, or NULL if it cannot be sent. The frame stays as it is: its
 * payload may be a buffer that an application still has, and that is sent again. */
static struct rte_mbuf *
sealed_copy(struct engine *e, struct keyring_keys *k, const struct rte_mbuf *m, uint32_t encap)
{
	struct rte_mbuf *out = rte_pktmbuf_alloc(e->node->pool);
	uint8_t *to;

	if (unlikely(out == NULL)) {
		ENGINE_COUNT(e, tx_no_mbuf);
		return NULL;
	}
	out->data_off = (uint16_t)(PAYLOAD_START - WIRE_HDR_BYTES - encap);
	to = rte_pktmbuf_mtod_offset(out, uint8_t *, encap);
	memcpy(to - encap, rte_pktmbuf_mtod(m, const void *), encap);
	const uint32_t len = m->pkt_len - encap;
	/* in one piece; what is in several is gathered first */
	const void *from = m->nb_segs == 1 ? rte_pktmbuf_mtod_offset(m, const void *, encap)
					   : rte_pktmbuf_read(m, encap, len, to);
	bool wants;
	const uint32_t sealed = gate_seal(k, e->sealed->mode, from, len, to, &wants);

	if (unlikely(wants))
		want(e, m->port, SEALED_WANTED);
	if (unlikely(sealed == 0)) {
		rte_pktmbuf_free(out);
		return NULL;
	}
	out->data_len = (uint16_t)(encap + sealed);
	out->pkt_len = out->data_len;
	out->port = m->port;
	if (encap == 42)
		encap_finish(rte_pktmbuf_mtod(out, uint8_t *), sealed);
	return out;
}

static bool
is_arp(const struct rte_mbuf *m)
{
	const struct rte_ether_hdr *eth = rte_pktmbuf_mtod(m, const struct rte_ether_hdr *);

	return m->port == WIRE_NOBODY && eth->ether_type == rte_cpu_to_be_16(RTE_ETHER_TYPE_ARP);
}

/* Return what is to be sent in place of a frame, which it takes; NULL: nothing. */
static struct rte_mbuf *
seal_one(struct engine *e, unsigned link, struct rte_mbuf *m, uint32_t encap)
{
	const struct wire_hdr *h = rte_pktmbuf_mtod_offset(m, const struct wire_hdr *, encap);
	const uint16_t node = m->port;

	if (unlikely(is_arp(m)))
		return m;
	struct keyring_keys *k = node < e->nodes_max ? keys_for(e, node, h) : NULL;

	/* a message of a handshake protects itself, where there are no keys, or the peer may have
	 * lost them */
	if (unlikely(h->type == WIRE_KEYS && h->payload_len != 0) && (k == NULL || h->seq != 0))
		return m;

	if (unlikely(k == NULL)) {
		ENGINE_COUNT(e, tx_no_key);
		if (h->type == WIRE_HELLO && node < e->nodes_max) {
			sealed_hold(&e->sealed->peers[node], link, m);
			return NULL;
		}
	}
	struct rte_mbuf *out = k != NULL ? sealed_copy(e, k, m, encap) : NULL;

	rte_pktmbuf_free(m);
	return out;
}

void
sealed_out(struct engine *e, unsigned link, struct tx_queue *q)
{
	const uint32_t encap = config_encap_bytes(e->node->links[link].config.encap);
	uint32_t bytes = 0;

	while (q->sealed < q->n && bytes < SEALED_AT_ONCE) {
		struct rte_mbuf *m = seal_one(e, link, q->m[q->sealed], encap);

		if (likely(m != NULL)) {
			bytes += m->pkt_len;
			q->m[q->sealed++] = m;
			continue;
		}
		q->n--;
		memmove(&q->m[q->sealed], &q->m[q->sealed + 1],
			(q->n - q->sealed) * sizeof(q->m[0]));
	}
}

/* ------------------------------------------------------------------ new keys */

/* Begin keys that this node has asked for: by an empty frame to each of the peer's lanes, and what
 * waited for them. */
static void
begin_keys(struct engine *e, uint16_t node, uint8_t lanes)
{
	COUNT_OF(e, node, keys_begun);
	for (uint16_t lane = 0; lane < lanes; lane++)
		show_keys(e, node, lane);
	send_held(e, node);
}

static void
take_keys(struct engine *e, struct command *cmd)
{
	struct gate *g = &e->sealed->peers[cmd->node].gate;

	keyring_add(&g->keys, cmd->keys, cmd->old_keys);
	if (!cmd->keys->initiated)
		return;
	g->asked_index = 0;
	begin_keys(e, cmd->node, cmd->keys->lanes);
}

static void
give_up_keys(struct engine *e, struct command *cmd)
{
	struct sealed_peer *p = &e->sealed->peers[cmd->node];

	keyring_take(&p->gate.keys, cmd->op == COMMAND_KEYS_ALL, e->now, e->sealed->hz,
		cmd->old_keys);
	sealed_hold(p, 0, NULL);
}

void
sealed_command(struct engine *e, struct command *cmd)
{
	e->now = rte_rdtsc();
	cmd->result = 0;
	if (cmd->op == COMMAND_KEYS_OLD || cmd->op == COMMAND_KEYS_ALL) {
		give_up_keys(e, cmd);
		return;
	}
	if (cmd->keys != NULL)
		take_keys(e, cmd);
	if (cmd->message != NULL) {
		gate_asks(&e->sealed->peers[cmd->node].gate, cmd->message);
		send_message(e, cmd->node, cmd->message, cmd->len, cmd->open);
	}
}
