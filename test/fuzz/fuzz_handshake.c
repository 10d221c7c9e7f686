/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Handshakes of two true ends, fed a program: wishes, time, clocks that go back, messages that are
 * lost, doubled, kept, sent back and changed, and bytes out of nothing. Keys are agreed on only by
 * what the ends have said themselves, each INIT is taken once, and in a good network they always
 * come to keys.
 */
#include "base/mix.h"
#include "handshake/gate.h"
#include "input.h"

#define OPS_MAX  40
#define KEPT_MAX 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct end {
	struct handshake_self self;
	struct handshake_peer peer;
	struct gate gate; /* of this end, for the other's messages */
	uint64_t wall;
};

struct message {
	uint8_t bytes[HANDSHAKE_MESSAGE_MAX];
	uint32_t len;
	uint8_t from;
	bool taken; /* an INIT by which its receiver agreed */
};

static struct end ends[2], made[2][2]; /* made: with pinned keys, with certificates */
static struct message kept[KEPT_MAX];
static uint32_t kept_count;
static struct noise_keys answered[2][64]; /* keys that an end agreed on by answering */
static uint32_t answered_count[2];
static uint64_t now_us, randoms;

static void
draw(void *arg, void *bytes, size_t len)
{
	(void)arg;
	for (size_t i = 0; i < len; i++)
		((uint8_t *)bytes)[i] = (uint8_t)mix64_next(&randoms);
}

static void
certify(struct end *e, const uint8_t authority[KEY_BYTES])
{
	struct certificate c = {.node = e->self.node, .until = CERTIFICATE_LATEST};

	memcpy(c.public_key, e->self.public_key, KEY_BYTES);
	MUST(certificate_sign(&c, authority, e->self.certificate) == 0);
	MUST(key_public(KEY_AUTHORITY, authority, e->self.authority) == 0);
	e->self.has_certificate = e->self.has_authority = true;
}

static void
make_ends(void)
{
	uint8_t authority[KEY_BYTES] = {9};

	if (made[0][0].self.node != 0)
		return;
	for (int i = 0; i < 2; i++) {
		struct end *e = &made[0][i];

		e->self = (struct handshake_self){
			.node = (uint16_t)(i + 1),
			.mode = SEAL_SEAL,
			.lanes = 1,
			.random = draw,
		};
		draw(NULL, e->self.secret, KEY_BYTES);
		primitive_public(e->self.public_key, e->self.secret);
		handshake_mac1_key(e->self.public_key, e->self.mac1_key);
		e->peer.node = (uint16_t)(2 - i);
		made[1][i] = *e;
		certify(&made[1][i], authority);
	}
	for (int i = 0; i < 2; i++)
		handshake_peer_key(&made[0][i].peer, made[0][1 - i].self.public_key);
}

static struct handshake_time
time_of(const struct end *e)
{
	return (struct handshake_time){now_us, e->wall + now_us * 1000};
}

/* Note what an end came to, whom a message came to as one of its peer's, or that is new. */
static void
note(int to, struct message *m, const struct handshake_result *r)
{
	MUST(r->send_len <= HANDSHAKE_MESSAGE_MAX);
	if (r->send_len != 0) {
		struct message *k = &kept[kept_count++ % KEPT_MAX];

		memcpy(k->bytes, r->send, r->send_len);
		k->len = r->send_len;
		k->from = (uint8_t)to;
		k->taken = false;
	}
	if (!r->agreed)
		return;
	MUST(m != NULL && m->from != to); /* what the peer has said, as it was */
	MUST(r->own_index != 0 && r->own_index % HANDSHAKE_LANES_MAX == 0);
	MUST(r->peer_lanes == 1);
	if (!r->initiated) {
		MUST(!m->taken);
		m->taken = true;
		answered[to][answered_count[to]++ % 64] = r->keys;
		return;
	}
	bool known = false;

	for (uint32_t i = 0; i < 64; i++)
		known |= memcmp(&answered[1 - to][i], &r->keys, sizeof(r->keys)) == 0;
	MUST(known);
}

static void
give(int to, const uint8_t *bytes, uint32_t len, struct message *m)
{
	struct end *e = &ends[to];
	struct message was;
	struct handshake_result r;
	uint8_t *copy = malloc(len ? len : 1);

	if (m != NULL)
		was = *m;
	memcpy(copy, bytes, len);
	handshake_message(&e->self, &e->peer, time_of(e), copy, len, &r);
	free(copy);
	/* the answer may take the place of the message that it answers */
	note(to, m != NULL ? &was : NULL, &r);
	if (m != NULL && m->len == was.len && memcmp(m->bytes, was.bytes, was.len) == 0)
		m->taken = was.taken;
}

static void
give_kept(struct input *in, bool changed)
{
	struct message *m = &kept[take8(in) % KEPT_MAX];
	const uint8_t how = take8(in);
	uint8_t bytes[HANDSHAKE_MESSAGE_MAX];

	if (m->len == 0)
		return;
	const int to = how % 8 == 0 ? m->from : 1 - m->from;

	if (!changed) {
		give(to, m->bytes, m->len, m);
		return;
	}
	memcpy(bytes, m->bytes, m->len);
	const uint32_t at = take16(in) % m->len;

	bytes[at] ^= (uint8_t)(take8(in) | 1);
	/* MAC2 and MAC1 are not what makes an INIT authentic */
	const bool beside = at >= m->len - 16;

	give(to, bytes, m->len - (how >> 4 == 1 ? at : 0), beside ? m : NULL);
}

static void
give_anything(struct input *in)
{
	uint8_t bytes[HANDSHAKE_MESSAGE_MAX + 8];
	const uint8_t how = take8(in);
	static const uint32_t lengths[HANDSHAKE_STEPS] = {8, sizeof(struct handshake_init),
		sizeof(struct handshake_answer), sizeof(struct handshake_cookie),
		sizeof(struct handshake_tell), sizeof(struct handshake_tell)};
	const uint32_t len = how & 1 ? lengths[how / 2 % HANDSHAKE_STEPS]
				     : take16(in) % sizeof(bytes);

	take(in, bytes, len);
	if (how & 1) {
		bytes[0] = how / 2 % HANDSHAKE_STEPS;
		bytes[1] = HANDSHAKE_VERSION;
	}
	give(how >> 7, bytes, len, NULL);
}

static void
pass(struct input *in)
{
	struct handshake_result r;

	now_us += (uint64_t)take16(in) << take8(in) % 12;
	for (int i = 0; i < 2; i++) {
		handshake_tick(&ends[i].self, &ends[i].peer, time_of(&ends[i]), &r);
		note(i, NULL, &r);
		MUST(!ends[i].peer.asking || handshake_deadline(&ends[i].peer) > now_us);
	}
}

static void
want(int i)
{
	struct handshake_result r;

	handshake_want(&ends[i].self, &ends[i].peer, time_of(&ends[i]), &r);
	note(i, NULL, &r);
}

/* A good network: whoever wants keys has some soon. */
static void
must_agree(int who)
{
	const uint64_t end = now_us + 12000000;
	const uint32_t before = ends[who].peer.agreed;

	while (now_us < end && ends[who].peer.agreed == before) {
		uint32_t seen = kept_count;

		want(who);
		for (int i = 0; i < 2; i++) {
			struct handshake_result r;

			handshake_tick(&ends[i].self, &ends[i].peer, time_of(&ends[i]), &r);
			note(i, NULL, &r);
		}
		for (; seen != kept_count; seen++) {
			struct message *m = &kept[seen % KEPT_MAX];

			give(1 - m->from, m->bytes, m->len, m);
		}
		now_us += 10000;
	}
	MUST(ends[who].peer.agreed != before);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	const uint8_t first = take8(&in);

	make_ends();
	memcpy(ends, made[first & 1], sizeof(ends));
	memset(kept, 0, sizeof(kept));
	memset(answered, 0, sizeof(answered));
	memset(answered_count, 0, sizeof(answered_count));
	kept_count = 0;
	now_us = 1000000;
	randoms = 7;
	ends[0].wall = ends[1].wall = UINT64_C(1800000000) * 1000000000;
	for (unsigned i = 0; i < OPS_MAX && in.left > 0; i++) {
		const uint8_t op = take8(&in);

		switch (op % 8) {
		case 0:
			want(op >> 7);
			break;
		case 1:
		case 2:
			give_kept(&in, false);
			break;
		case 3:
			give_kept(&in, true);
			break;
		case 4:
			give_anything(&in);
			break;
		case 5:
			ends[op >> 7].wall -= (uint64_t)take32(&in) << 8;
			break;
		default:
			pass(&in);
			break;
		}
	}
	must_agree(first >> 1 & 1);
	return 0;
}
