/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See handshake_ends.h.
 */
#include "handshake_ends.h"

#include "base/mix.h"

static uint64_t randoms;

void
draw(void *arg, void *bytes, size_t len)
{
	(void)arg;
	for (size_t i = 0; i < len; i++)
		((uint8_t *)bytes)[i] = (uint8_t)mix64_next(&randoms);
}

struct end a, b;
struct handshake_time now;
uint8_t authority[KEY_BYTES];

static void
self_make(struct handshake_self *s, uint16_t node)
{
	*s = (struct handshake_self){
		.node = node,
		.mode = SEAL_SEAL,
		.lanes = (uint8_t)(node + 1),
		.epoch = node * 100u,
		.random = draw,
	};
	draw(NULL, s->secret, KEY_BYTES);
	primitive_public(s->public_key, s->secret);
	handshake_mac1_key(s->public_key, s->mac1_key);
}

void
certify_until(struct handshake_self *s, uint16_t node, uint64_t from, uint64_t until)
{
	struct certificate c = {.node = node, .name = "n", .from = from, .until = until};

	memcpy(c.public_key, s->public_key, KEY_BYTES);
	assert_int_equal(certificate_sign(&c, authority, s->certificate), 0);
	s->has_certificate = s->has_authority = true;
	assert_int_equal(key_public(KEY_AUTHORITY, authority, s->authority), 0);
}

int
setup(void **state)
{
	(void)state;
	randoms = 1;
	now = (struct handshake_time){1000000, NOW_S * 1000000000};
	draw(NULL, authority, sizeof(authority));
	self_make(&a.self, 1);
	self_make(&b.self, 2);
	a.peer = (struct handshake_peer){.node = 2};
	b.peer = (struct handshake_peer){.node = 1};
	handshake_peer_key(&a.peer, b.self.public_key);
	handshake_peer_key(&b.peer, a.self.public_key);
	a.r = b.r = (struct handshake_result){0};
	return 0;
}

int
setup_certified(void **state)
{
	setup(state);
	handshake_peer_key(&a.peer, NULL);
	handshake_peer_key(&b.peer, NULL);
	certify_until(&a.self, 1, NOW_S - 10, NOW_S + 1000);
	certify_until(&b.self, 2, NOW_S - 10, NOW_S + 1000);
	return 0;
}

void
carry(struct end *from, struct end *to)
{
	assert_int_not_equal(from->r.send_len, 0);
	assert_true(from->r.send_len <= HANDSHAKE_MESSAGE_MAX);
	handshake_message(&to->self, &to->peer, now, from->r.send, from->r.send_len, &to->r);
}

void
wanted(struct end *e)
{
	handshake_want(&e->self, &e->peer, now, &e->r);
}

void
assert_agreed(const struct end *initiator, const struct end *responder)
{
	const struct handshake_result *i = &initiator->r, *r = &responder->r;

	assert_true(i->agreed && i->initiated && r->agreed && !r->initiated);
	assert_memory_equal(&i->keys, &r->keys, sizeof(i->keys));
	assert_memory_not_equal(i->keys.to_initiator, i->keys.to_responder, HASH_BYTES);
	assert_int_equal(i->own_index, r->peer_index);
	assert_int_equal(i->peer_index, r->own_index);
	assert_int_not_equal(i->own_index, 0);
	assert_int_equal(i->own_index % HANDSHAKE_LANES_MAX, 0);
	assert_int_equal(i->peer_lanes, responder->self.lanes);
	assert_int_equal(r->peer_lanes, initiator->self.lanes);
	assert_int_equal(i->peer_epoch, responder->self.epoch);
	assert_int_equal(r->peer_epoch, initiator->self.epoch);
	assert_int_equal(initiator->peer.trouble, HANDSHAKE_FINE);
	assert_memory_equal(initiator->peer.agreed_key, responder->self.public_key, KEY_BYTES);
	assert_memory_equal(responder->peer.agreed_key, initiator->self.public_key, KEY_BYTES);
}

void
agree(struct end *from, struct end *to)
{
	wanted(from);
	carry(from, to);
	struct handshake_result answer = to->r;

	carry(to, from);
	to->r = answer;
	assert_agreed(from, to);
	handshake_begun(&to->peer); /* by the initiator's first frame */
	assert_int_equal(to->peer.trouble, HANDSHAKE_FINE);
}
