/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The keepers of keys, in virtual time: see seal.h, and lib/node/keeper.c, which this mirrors. A
 * keeper does one thing after the other, and what it computes takes time.
 */
#include <stdlib.h>

#include "base/mix.h"
#include "keys/keys.h"
#include "sim/seal.h"

#define RETIRE_US        UINT64_C(10000000)
#define COOKIE_SECRET_US UINT64_C(120000000)

static struct handshake_time
time_of(const struct sim *s, uint32_t node)
{
	const struct seal_node *n = &s->seals->nodes[node];

	return (struct handshake_time){(s->now + n->boot) / 1000, s->now + n->wall};
}

/* ------------------------------------------------------------------ keys of nodes */

static void
certify(struct seals *x, struct handshake_self *self)
{
	struct certificate c = {
		.node = self->node,
		.until = CERTIFICATE_LATEST,
	};

	memcpy(c.public_key, self->public_key, KEY_BYTES);
	self->has_certificate = certificate_sign(&c, x->authority_secret, self->certificate) == 0;
	self->has_authority = true;
	memcpy(self->authority, x->authority, KEY_BYTES);
}

void
keeper_make_self(struct sim *s, uint32_t node)
{
	struct seals *x = s->seals;
	struct handshake_self *self = &x->nodes[node].self;

	*self = (struct handshake_self){
		.node = (uint16_t)node,
		.mode = x->cfg.mode,
		.lanes = 1,
		.epoch = s->nodes[node].cfg.epoch,
		.random = seal_random,
		.random_arg = x,
	};
	memcpy(self->cluster, x->cluster, KEY_BYTES);
	seal_random(x, self->secret, KEY_BYTES);
	primitive_public(self->public_key, self->secret);
	handshake_mac1_key(self->public_key, self->mac1_key);
	if (x->cfg.certificates)
		certify(x, self);
}

void
keeper_begin(struct sim *s, uint32_t node)
{
	struct seal_node *n = &s->seals->nodes[node];

	seal_random(s->seals, n->cookie_secret, sizeof(n->cookie_secret));
	n->cookie_at = s->now + COOKIE_SECRET_US * 1000;
	n->retire_at = s->now + RETIRE_US * 1000 / s->seals->cfg.speed;
	n->keeper_at = SIM_NEVER;
	keeper_plan(s, node, n->retire_at);
}

/* ------------------------------------------------------------------ what handshakes come to */

/* Have some keys begin as if they had been used for long: both ends agree on where. */
static void
begin_far(const struct seals *x, const struct handshake_result *r, struct keyring_keys *k)
{
	static const uint64_t starts[] = {1, (UINT64_C(1) << 32) - 40, (UINT64_C(1) << 33) + 7,
		SEAL_COUNT_SOON - 60, SEAL_COUNT_MAX - 30, (UINT64_C(1) << 31) - 9};
	uint64_t start;

	if (!x->cfg.far)
		return;
	start = starts[r->keys.to_responder[0] % 6];
	k->tx[0].count = start;
	k->rx[0].highest = start - 1;
}

static void
install(struct sim *s, uint32_t node, uint32_t peer, const struct handshake_result *r)
{
	struct seals *x = s->seals;
	/* a lane's clock may be a little before the keeper's */
	const uint64_t made_at = seal_ticks(s, node) + mix64_next(&x->random) % 2000;

	watch_acts(x, node);
	struct keyring_keys *k = keyring_keys_make(&x->cipher, r, 0, made_at);

	if (k == NULL)
		sim_violation(s, "out of memory for keys");
	begin_far(x, r, k);
	x->counts.agreed++;
	seal_take_keys(s, node, peer, k);
	seal_pair_of(s, node, peer)->agreed_at = time_of(s, node).us;
}

/* Do what a handshake came to. */
static void
act(struct sim *s, uint32_t node, uint32_t peer, const struct handshake_result *r)
{
	struct seal_node *n = &s->seals->nodes[node];
	struct seal_pair *p = seal_pair_of(s, node, peer);
	const uint32_t links = s->cfg.links > 1 ? s->cfg.links : 1;

	if (r->agreed)
		install(s, node, peer, r);
	if (r->send_len != 0) {
		gate_asks(&p->gate, r->send);
		seal_say(s, node, peer, p->handshake.attempts % links, r->send, r->send_len);
	}
	if (p->handshake.asking && !p->listed) {
		p->listed = true;
		n->asking[n->asking_count++] = (uint16_t)peer;
	}
}

/* Return how long the keeper computes, ns: by what came in and what goes out. A public key takes
 * half as long as a shared secret. */
static uint64_t
cost_of(const struct seals *x, const void *message, uint32_t len, bool expected,
	const struct handshake_result *r)
{
	uint64_t halves = 0;

	if (len != 0 && handshake_step_of(message) == HANDSHAKE_ANSWER && expected)
		halves += 2 * 2; /* ee, se */
	if (r->send_len != 0 && handshake_step_of(r->send) == HANDSHAKE_INIT)
		halves += 2 * 2 + 2; /* es, ss; own two public keys */
	if (r->send_len != 0 && handshake_step_of(r->send) == HANDSHAKE_ANSWER)
		halves += 2 * 4 + 2; /* es, ss, ee, se; own two public keys */
	return halves * x->cfg.dh_ns / 2;
}

/* End what is being computed, or plan its end. */
static void
compute(struct sim *s, uint32_t node, uint32_t peer, const struct seal_mail *m,
	const struct handshake_result *r, bool expected)
{
	struct seal_node *n = &s->seals->nodes[node];
	const uint64_t cost = cost_of(s->seals, m->message, m->len, expected, r);

	if (cost == 0) {
		act(s, node, peer, r);
		return;
	}
	n->works = true;
	n->works_for = peer;
	n->result = *r;
	keeper_plan(s, node, s->now + cost);
}

static void
seal_keeper_finish(struct sim *s, uint32_t node)
{
	struct seal_node *n = &s->seals->nodes[node];
	const struct handshake_result r = n->result;

	if (!n->works)
		return;
	n->works = false;
	act(s, node, n->works_for, &r);
}

/* ------------------------------------------------------------------ its turns */

static void
take_mail(struct sim *s, uint32_t node)
{
	struct seal_node *n = &s->seals->nodes[node];
	const struct seal_mail *m = &n->mail[n->read++ % MAIL_MAX];
	struct handshake_peer *p = &seal_pair_of(s, node, m->node)->handshake;
	const bool expected = p->asking && !p->asks_key;
	struct handshake_result r;

	if (m->len != 0)
		handshake_message(&n->self, p, time_of(s, node), m->message, m->len, &r);
	else
		handshake_want(&n->self, p, time_of(s, node), &r);
	compute(s, node, m->node, m, &r, expected);
}

/* Let one of those that are being asked be asked again. Return false if no time has come. */
static bool
tick(struct sim *s, uint32_t node)
{
	struct seal_node *n = &s->seals->nodes[node];
	static const struct seal_mail none;

	for (uint32_t i = 0; i < n->asking_count;) {
		const uint32_t peer = n->asking[i];
		struct seal_pair *p = seal_pair_of(s, node, peer);
		const bool due = handshake_deadline(&p->handshake) <= time_of(s, node).us;
		struct handshake_result r = {0};

		if (due)
			handshake_tick(&n->self, &p->handshake, time_of(s, node), &r);
		if (!p->handshake.asking) {
			p->listed = false;
			n->asking[i] = n->asking[--n->asking_count];
			continue;
		}
		if (due) {
			compute(s, node, peer, &none, &r, false);
			return true;
		}
		i++;
	}
	return false;
}

static void
look_after(struct sim *s, uint32_t node)
{
	struct seals *x = s->seals;
	struct seal_node *n = &x->nodes[node];
	const uint64_t dead_us = KEYRING_DEAD_S * UINT64_C(1000000) / x->cfg.speed;

	if (s->now >= n->cookie_at) {
		seal_random(x, n->cookie_secret, sizeof(n->cookie_secret));
		n->cookie_at = s->now + COOKIE_SECRET_US * 1000;
	}
	if (s->now < n->retire_at)
		return;
	n->retire_at = s->now + RETIRE_US * 1000 / x->cfg.speed;
	for (uint32_t i = 0; i < s->node_count; i++) {
		struct seal_pair *p = n->pairs[i];

		if (p == NULL || p->agreed_at == 0 || time_of(s, node).us - p->agreed_at < dead_us)
			continue;
		seal_give_up(s, node, i, false);
		p->agreed_at = 0;
	}
}

static void
sleep_until(struct sim *s, uint32_t node)
{
	const struct seal_node *n = &s->seals->nodes[node];
	const uint64_t now_us = time_of(s, node).us;

	for (uint32_t i = 0; i < n->asking_count; i++) {
		const uint64_t at = handshake_deadline(
			&seal_pair_of(s, node, n->asking[i])->handshake);

		keeper_plan(s, node, at <= now_us ? s->now : s->now + (at - now_us) * 1000);
	}
	keeper_plan(s, node, n->retire_at);
}

void
keeper_turn(struct sim *s, uint32_t node, uint64_t at)
{
	struct seal_node *n = &s->seals->nodes[node];

	if (at != n->keeper_at)
		return; /* it was woken earlier */
	n->keeper_at = SIM_NEVER;
	seal_keeper_finish(s, node);
	look_after(s, node);
	while (!n->works && n->read != n->written)
		take_mail(s, node);
	while (!n->works && tick(s, node))
		;
	if (!n->works)
		sleep_until(s, node);
}

/* ------------------------------------------------------------------ other keys */

void
keeper_rekey(struct sim *s, uint32_t node, uint32_t peer)
{
	seal_pair_of(s, node, peer);
	keeper_post(s, node, peer, NULL, 0);
}

/* Give the peers' keys up, and ask anew: keeper_reload(). */
static void
key_changes(struct sim *s, uint32_t node, uint32_t peer)
{
	struct seal_pair *p = seal_pair_of(s, node, peer);

	handshake_peer_key(&p->handshake, p->handshake.pinned ? p->told_key : NULL);
	if (p->agreed_at == 0)
		return;
	seal_give_up(s, node, peer, true);
	p->agreed_at = 0;
}

void
keeper_new_key(struct sim *s, uint32_t node)
{
	struct seal_node *n = &s->seals->nodes[node];

	seal_keeper_finish(s, node);
	keeper_make_self(s, node);
	for (uint32_t i = 0; i < s->node_count; i++) {
		if (n->pairs[i] != NULL)
			key_changes(s, node, i);
	}
}

void
keeper_learn(struct sim *s, uint32_t node)
{
	struct seals *x = s->seals;
	struct seal_node *n = &x->nodes[node];

	if (x->cfg.certificates)
		return;
	seal_keeper_finish(s, node);
	for (uint32_t i = 0; i < s->node_count; i++) {
		const uint8_t *key = x->nodes[i].self.public_key;

		if (n->pairs[i] == NULL || memcmp(n->pairs[i]->told_key, key, KEY_BYTES) == 0)
			continue;
		memcpy(n->pairs[i]->told_key, key, KEY_BYTES);
		key_changes(s, node, i);
	}
}
