/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See handshake.h. What strangers can make this compute: see its note 1. What they cannot make it
 * do is change a struct handshake_peer, except for counts and, by a TELL that repeats a random
 * number which they have to see, its trouble.
 */
#include <string.h>

#include "core/wire/siphash.h"
#include "handshake/handshake.h"

#define FIRST_WAIT_US   20000
#define LONGEST_WAIT_US 5000000
#define ATTEMPTS_MAX    9
#define ATTEMPTS_SILENT 3 /* after so many the peer is asked for its key */
#define COOKIE_US       110000000
#define COOKIES_MAX     8        /* taken for one question */
#define UNBEGUN_MAX     2        /* INITs in a row that may get lost on the way */
#define UNBEGUN_US      15000000 /* a peer that asks in vain asks more often */
/* A time that is so far ahead is nobody's clock: it must not keep out all later ones. */
#define AHEAD_NS        (UINT64_C(10) * 365 * 86400 * 1000000000)
#define NS_A_SECOND     UINT64_C(1000000000)

struct first {
	struct handshake_terms terms;
	uint8_t certificate[CERTIFICATE_BYTES];
	uint8_t zero[4]; /* to whole words */
} __attribute__((packed));

_Static_assert(sizeof(struct first) + NOISE_FIRST_BYTES ==
		sizeof(((struct handshake_init *)0)->noise),
	"payload of INIT");
_Static_assert(offsetof(struct handshake_init, mac1) % 8 == 0, "MAC1 is of whole words");
_Static_assert(offsetof(struct handshake_answer, mac1) % 8 == 0, "MAC1 is of whole words");

/* ------------------------------------------------------------------ MACs */

static uint64_t
mac_of(const uint64_t key[2], const void *message, size_t len)
{
	uint64_t words[sizeof(struct handshake_init) / 8 + 1];

	memcpy(words, message, len);
	return siphash(key, words, (uint32_t)(len / 8));
}

void
handshake_mac1_key(const uint8_t public_key[KEY_BYTES], uint64_t key[2])
{
	static const char label[] = "pmx-dpdk mac1";
	uint8_t hash[HASH_BYTES];

	primitive_hash(hash, label, sizeof(label), public_key, KEY_BYTES);
	memcpy(key, hash, 2 * sizeof(*key));
}

bool
handshake_check(const void *message, uint32_t len, const uint64_t mac1_key[2])
{
	static const struct {
		uint32_t bytes, mac1;
	} form[HANDSHAKE_STEPS] = {
		[HANDSHAKE_INIT] = {sizeof(struct handshake_init),
			offsetof(struct handshake_init, mac1)},
		[HANDSHAKE_ANSWER] = {sizeof(struct handshake_answer),
			offsetof(struct handshake_answer, mac1)},
		[HANDSHAKE_COOKIE] = {sizeof(struct handshake_cookie), 0},
		[HANDSHAKE_ASK] = {sizeof(struct handshake_tell), 0},
		[HANDSHAKE_TELL] = {sizeof(struct handshake_tell), 0},
	};
	const struct handshake_head *h = message;
	uint64_t mac1;

	if (len < sizeof(*h) || h->version != HANDSHAKE_VERSION || h->step >= HANDSHAKE_STEPS ||
		form[h->step].bytes != len)
		return false;
	if (form[h->step].mac1 == 0)
		return true;
	memcpy(&mac1, (const uint8_t *)message + form[h->step].mac1, sizeof(mac1));
	return mac1 == mac_of(mac1_key, message, form[h->step].mac1);
}

void
handshake_cookie_of(const uint64_t secret[2], uint16_t node, uint64_t cookie[2])
{
	for (uint64_t i = 0; i < 2; i++) {
		const uint64_t word = (uint64_t)node << 1 | i;

		cookie[i] = siphash(secret, &word, 1);
	}
}

bool
handshake_mac2_ok(const void *init, const uint64_t cookie[2])
{
	const size_t at = offsetof(struct handshake_init, mac2);
	uint64_t mac2;

	memcpy(&mac2, (const uint8_t *)init + at, sizeof(mac2));
	return mac2 == mac_of(cookie, init, at);
}

void
handshake_cookie_put(const void *init, const uint64_t cookie[2], void *out)
{
	struct handshake_cookie c = {
		.head = {.step = HANDSHAKE_COOKIE, .version = HANDSHAKE_VERSION},
		.mac1 = ((const struct handshake_init *)init)->mac1,
		.cookie = {cookie[0], cookie[1]},
	};

	memcpy(out, &c, sizeof(c));
}

/* ------------------------------------------------------------------ both ends */

/* index: of INIT, big-endian: note 4. */
static void
write_prologue(uint8_t out[24], uint16_t initiator, uint16_t responder, uint32_t index)
{
	memset(out, 0, 24);
	memcpy(out, "pmx-dpdk keys 1", 16);
	memcpy(out + 16, &index, sizeof(index));
	out[20] = (uint8_t)(initiator >> 8);
	out[21] = (uint8_t)initiator;
	out[22] = (uint8_t)(responder >> 8);
	out[23] = (uint8_t)responder;
}

/* Return an index whose lowest bits are free for the sender's lane, and which is not 0. */
static uint32_t
draw_index(const struct handshake_self *s)
{
	uint32_t index;

	do {
		s->random(s->random_arg, &index, sizeof(index));
		index &= ~(HANDSHAKE_LANES_MAX - 1u);
	} while (index == 0);
	return index;
}

static struct handshake_terms
terms_of(const struct handshake_self *s, uint64_t time, enum handshake_trouble trouble)
{
	return (struct handshake_terms){
		.time = wire_be64(time),
		.epoch = wire_be32(s->epoch),
		.mode = (uint8_t)s->mode,
		.lanes = s->lanes,
		.trouble = (uint8_t)trouble,
	};
}

void
handshake_lane_key(const uint8_t master[HASH_BYTES], unsigned from_lane, unsigned to_lane,
	uint8_t key[CIPHER_KEY_BYTES])
{
	const uint8_t label[] = {'l', 'a', 'n', 'e', (uint8_t)from_lane, (uint8_t)to_lane};
	uint8_t hash[HASH_BYTES];

	primitive_hmac(hash, master, label, sizeof(label), NULL, 0);
	memcpy(key, hash, CIPHER_KEY_BYTES);
	primitive_forget(hash, sizeof(hash));
}

bool
handshake_revoked(const struct handshake_self *s, const uint8_t public_key[KEY_BYTES])
{
	for (uint32_t i = 0; i < s->revoked_count; i++) {
		if (memcmp(s->revoked[i], public_key, KEY_BYTES) == 0)
			return true;
	}
	return false;
}

/* Judge a certificate that a peer shows with a key. Return HANDSHAKE_FINE or a trouble as the
 * peer's is named here. */
static enum handshake_trouble
judge_certificate(const struct handshake_self *s, uint16_t node, uint64_t wall,
	const uint8_t certificate[CERTIFICATE_BYTES], const uint8_t public_key[KEY_BYTES],
	uint64_t *until)
{
	struct certificate c;

	if (!s->has_authority)
		return HANDSHAKE_PEER_FORGED;
	switch (certificate_check(certificate, s->authority, wall / NS_A_SECOND, &c)) {
	case CERTIFICATE_OK:
		break;
	case CERTIFICATE_EXPIRED:
		return HANDSHAKE_PEER_EXPIRED;
	case CERTIFICATE_NOT_YET:
		return HANDSHAKE_PEER_NOT_YET;
	default:
		return HANDSHAKE_PEER_FORGED;
	}
	if (c.node != node || memcmp(c.public_key, public_key, KEY_BYTES) != 0)
		return HANDSHAKE_PEER_FORGED;
	*until = c.until;
	return handshake_revoked(s, public_key) ? HANDSHAKE_PEER_REVOKED : HANDSHAKE_FINE;
}

/* Note what somebody has shown who may not be the peer. It is told beside nothing that is sure. */
static void
note_claim(struct handshake_peer *p, enum handshake_trouble claim, uint64_t now)
{
	p->claim = claim;
	p->claim_at = now;
	if (p->trouble == HANDSHAKE_NOT_BEGUN)
		p->trouble = HANDSHAKE_NO_ANSWER;
}

/* ------------------------------------------------------------------ initiator */

/* Wait twice as long as before, and up to half of that in addition: those that ask the same node at
 * once do not come back at once. */
static void
wait_longer(const struct handshake_self *s, struct handshake_peer *p, uint64_t now)
{
	const uint32_t doubled = p->attempts < 10 ? p->attempts : 10;
	uint64_t wait = (uint64_t)FIRST_WAIT_US << doubled;
	uint32_t drawn;

	s->random(s->random_arg, &drawn, sizeof(drawn));
	wait += drawn % (wait / 2);
	p->attempts++;
	p->again_at = now + (wait < LONGEST_WAIT_US ? wait : LONGEST_WAIT_US);
}

static void
give_up(struct handshake_peer *p)
{
	noise_forget(&p->noise);
	p->asking = p->asks_key = false;
}

static void
put_ask(const struct handshake_self *s, struct handshake_peer *p, struct handshake_result *r)
{
	struct handshake_tell *t = (struct handshake_tell *)r->send;

	s->random(s->random_arg, &p->nonce, sizeof(p->nonce));
	*t = (struct handshake_tell){
		.head = {.step = HANDSHAKE_ASK, .version = HANDSHAKE_VERSION},
		.nonce = p->nonce,
	};
	r->send_len = sizeof(*t);
	p->asks_key = true;
}

/* Return what it means that a node has another key than it is known by. */
static enum handshake_trouble
other_key(const struct handshake_self *s)
{
	return s->derived ? HANDSHAKE_OTHER_CLUSTER : HANDSHAKE_OTHER_KEY;
}

static void
put_init(const struct handshake_self *s, struct handshake_peer *p, struct handshake_time now,
	struct handshake_result *r)
{
	struct handshake_init *m = (struct handshake_init *)r->send;
	uint8_t ephemeral[DH_BYTES], prologue[24];
	uint64_t mac1_key[2];

	/* each INIT has a later time than the one before, also within a tick of the clock */
	p->stamp_floor = now.wall > p->stamp_floor ? now.wall : p->stamp_floor + 1;
	struct first first = {.terms = terms_of(s, p->stamp_floor, HANDSHAKE_FINE)};

	if (s->has_certificate)
		memcpy(first.certificate, s->certificate, sizeof(first.certificate));
	*m = (struct handshake_init){
		.head = {.step = HANDSHAKE_INIT, .version = HANDSHAKE_VERSION},
	};
	p->index = draw_index(s);
	m->head.index = wire_be32(p->index);
	s->random(s->random_arg, ephemeral, sizeof(ephemeral));
	write_prologue(prologue, s->node, p->node, m->head.index);
	const bool ok = noise_first(&p->noise, s->secret, p->public_key, ephemeral, prologue,
		sizeof(prologue), &first, sizeof(first), m->noise);

	primitive_forget(ephemeral, sizeof(ephemeral));
	if (!ok) {
		p->trouble = other_key(s);
		return;
	}
	handshake_mac1_key(p->public_key, mac1_key);
	m->mac1 = mac_of(mac1_key, m, offsetof(struct handshake_init, mac1));
	if (now.us < p->cookie_until)
		m->mac2 = mac_of(p->cookie, m, offsetof(struct handshake_init, mac2));
	memcpy(p->init, m, sizeof(p->init));
	r->send_len = sizeof(*m);
	p->asks_key = false;
}

/* Ask the peer, as far as it is known. */
static void
handshake_ask(const struct handshake_self *s, struct handshake_peer *p, struct handshake_time now,
	struct handshake_result *r)
{
	p->asking = true;
	p->cookies = 0;
	if (p->has_key && !p->pinned && p->key_until <= now.wall / NS_A_SECOND)
		p->has_key = false;
	/* one that does not answer may have another key than this node thinks */
	if (!p->has_key || (p->attempts > ATTEMPTS_SILENT && p->attempts % 2 == 0))
		put_ask(s, p, r);
	else
		put_init(s, p, now, r);
	wait_longer(s, p, now.us);
}

void
handshake_want(const struct handshake_self *s, struct handshake_peer *p, struct handshake_time now,
	struct handshake_result *r)
{
	*r = (struct handshake_result){0};
	if (p->asking || now.us < p->again_at)
		return;
	p->attempts = 0;
	handshake_ask(s, p, now, r);
}

void
handshake_tick(const struct handshake_self *s, struct handshake_peer *p, struct handshake_time now,
	struct handshake_result *r)
{
	*r = (struct handshake_result){0};
	if (!p->asking || now.us < p->again_at)
		return;
	if (p->attempts > ATTEMPTS_SILENT &&
		(p->trouble == HANDSHAKE_FINE ||
			(p->trouble == HANDSHAKE_NOT_BEGUN && now.us - p->taken_at > UNBEGUN_US)))
		p->trouble = HANDSHAKE_NO_ANSWER;
	if (p->attempts >= ATTEMPTS_MAX)
		give_up(p); /* until somebody wants it again */
	else
		handshake_ask(s, p, now, r);
}

uint64_t
handshake_deadline(const struct handshake_peer *p)
{
	return p->asking ? p->again_at : UINT64_MAX;
}

void
handshake_begun(struct handshake_peer *p)
{
	p->unbegun = 0;
	p->trouble = HANDSHAKE_FINE;
	p->claim_at = 0;
}

void
handshake_unsealed(struct handshake_peer *p, struct handshake_time now)
{
	note_claim(p, HANDSHAKE_UNSEALED, now.us);
}

void
handshake_peer_key(struct handshake_peer *p, const uint8_t *public_key)
{
	give_up(p);
	p->pinned = p->has_key = public_key != NULL;
	if (public_key != NULL)
		memcpy(p->public_key, public_key, KEY_BYTES);
	p->stamp_taken = 0; /* of the other key */
	p->again_at = 0;
	handshake_begun(p);
}

static void
take_answer(const struct handshake_self *s, struct handshake_peer *p, struct handshake_time now,
	const struct handshake_answer *m, struct handshake_result *r)
{
	struct handshake_terms terms;
	uint8_t answered_by[KEY_BYTES];

	if (!p->asking || p->asks_key || wire_be32(m->to_index) != p->index)
		return;
	if (!noise_second_open(&p->noise, s->secret, s->cluster, m->noise, sizeof(terms),
		    (uint8_t *)&terms, &r->keys)) {
		p->unreadable++;
		note_claim(p, HANDSHAKE_OTHER_CLUSTER, now.us); /* anybody may have sent it */
		return;
	}
	memcpy(answered_by, p->noise.peer, sizeof(answered_by));
	give_up(p);
	/* a peer that says so again and again must not keep this node busy */
	if (terms.trouble == HANDSHAKE_CLOCK && wire_be64(terms.time) >= p->stamp_floor &&
		p->attempts < ATTEMPTS_MAX) {
		p->stamp_floor = wire_be64(terms.time);
		p->trouble = HANDSHAKE_CLOCK;
		handshake_ask(s, p, now, r);
		return;
	}
	if (terms.trouble != HANDSHAKE_FINE || terms.lanes == 0 ||
		terms.lanes > HANDSHAKE_LANES_MAX || terms.mode != (uint8_t)s->mode) {
		p->refused++;
		p->trouble = terms.trouble > HANDSHAKE_FINE && terms.trouble <= HANDSHAKE_CLOCK
			? (enum handshake_trouble)terms.trouble
			: HANDSHAKE_MODES_DIFFER;
		if (p->trouble == HANDSHAKE_KEY_REFUSED && s->derived)
			p->trouble = HANDSHAKE_OTHER_CLUSTER;
		p->again_at = now.us + LONGEST_WAIT_US;
		return;
	}
	memcpy(p->agreed_key, answered_by, sizeof(p->agreed_key));
	r->agreed = r->initiated = true;
	r->own_index = p->index;
	r->peer_index = (uint32_t)wire_be64(terms.time); /* not what the head says: note 4 */
	r->peer_lanes = terms.lanes;
	r->peer_epoch = wire_be32(terms.epoch);
	p->agreed++;
	handshake_begun(p);
	p->again_at = 0;
}

static void
take_cookie(struct handshake_peer *p, struct handshake_time now, const struct handshake_cookie *m,
	struct handshake_result *r)
{
	struct handshake_init *init = (struct handshake_init *)r->send;

	memcpy(init, p->init, sizeof(*init));
	/* few cookies: who sees the wire must not make this node go round in circles */
	if (!p->asking || p->asks_key || m->mac1 != init->mac1 || p->cookies >= COOKIES_MAX)
		return;
	p->cookies++;
	p->cookie[0] = m->cookie[0];
	p->cookie[1] = m->cookie[1];
	p->cookie_until = now.us + COOKIE_US;
	init->mac2 = mac_of(p->cookie, init, offsetof(struct handshake_init, mac2));
	r->send_len = sizeof(*init);
}

static void
take_tell(const struct handshake_self *s, struct handshake_peer *p, struct handshake_time now,
	const struct handshake_tell *m, struct handshake_result *r)
{
	uint64_t until;

	if (!p->asking || !p->asks_key || m->nonce != p->nonce)
		return;
	p->asks_key = false;
	if (p->pinned) { /* nothing that is not authentic changes it: this is for people */
		if (memcmp(m->public_key, p->public_key, KEY_BYTES) != 0)
			p->trouble = other_key(s);
		return;
	}
	p->trouble = judge_certificate(s, p->node, now.wall, m->certificate, m->public_key, &until);
	if (p->trouble != HANDSHAKE_FINE)
		return;
	p->key_until = until;
	memcpy(p->public_key, m->public_key, KEY_BYTES);
	p->has_key = true;
	p->attempts = 0;
	handshake_ask(s, p, now, r);
}

/* ------------------------------------------------------------------ responder */

void
handshake_tell_put(const struct handshake_self *s, struct handshake_tell *out)
{
	*out = (struct handshake_tell){
		.head = {.step = HANDSHAKE_TELL, .version = HANDSHAKE_VERSION},
	};
	memcpy(out->public_key, s->public_key, KEY_BYTES);
	if (s->has_certificate)
		memcpy(out->certificate, s->certificate, sizeof(out->certificate));
}

/* Judge who asks, and what it says. Return what it is to be told. */
static enum handshake_trouble
judge_init(const struct handshake_self *s, const struct handshake_peer *p, uint64_t wall,
	const uint8_t public_key[KEY_BYTES], const struct first *first)
{
	const struct handshake_terms *t = &first->terms;
	uint64_t until;

	enum handshake_trouble certificate = HANDSHAKE_FINE;

	if (p->pinned && memcmp(p->public_key, public_key, KEY_BYTES) != 0)
		return HANDSHAKE_KEY_REFUSED;
	if (!p->pinned)
		certificate = judge_certificate(s, p->node, wall, first->certificate, public_key,
			&until);
	if (certificate == HANDSHAKE_PEER_FORGED)
		return HANDSHAKE_KEY_REFUSED;
	/* before all that is told of its sender, which may be who repeats it */
	if (wire_be64(t->time) <= p->stamp_taken || wire_be64(t->time) > wall + AHEAD_NS)
		return HANDSHAKE_CLOCK;
	if (handshake_revoked(s, public_key))
		return HANDSHAKE_REVOKED;
	if (certificate == HANDSHAKE_PEER_EXPIRED)
		return HANDSHAKE_CERT_EXPIRED;
	if (certificate == HANDSHAKE_PEER_NOT_YET)
		return HANDSHAKE_CERT_NOT_YET;
	if (t->mode != (uint8_t)s->mode || t->lanes == 0 || t->lanes > HANDSHAKE_LANES_MAX)
		return HANDSHAKE_MODES_DIFFER;
	return HANDSHAKE_FINE;
}

/* Return what people here call the trouble that the peer has with this node. */
static enum handshake_trouble
as_seen_here(enum handshake_trouble told)
{
	switch (told) {
	case HANDSHAKE_KEY_REFUSED:
		return HANDSHAKE_PEER_FORGED;
	case HANDSHAKE_CERT_EXPIRED:
		return HANDSHAKE_PEER_EXPIRED;
	case HANDSHAKE_CERT_NOT_YET:
		return HANDSHAKE_PEER_NOT_YET;
	case HANDSHAKE_REVOKED:
		return HANDSHAKE_PEER_REVOKED;
	default:
		return told;
	}
}

static void
take_init(const struct handshake_self *s, struct handshake_peer *p, struct handshake_time now,
	const struct handshake_init *m, struct handshake_result *r)
{
	struct handshake_answer *a = (struct handshake_answer *)r->send;
	uint8_t prologue[24], ephemeral[DH_BYTES];
	struct noise noise;
	struct first first;
	uint64_t mac1_key[2];

	write_prologue(prologue, p->node, s->node, m->head.index);
	if (!noise_first_open(&noise, s->secret, prologue, sizeof(prologue), m->noise,
		    sizeof(first), (uint8_t *)&first)) {
		p->unreadable++;
		noise_forget(&noise);
		return;
	}
	const enum handshake_trouble told = judge_init(s, p, now.wall, noise.peer, &first);

	r->own_index = draw_index(s);
	const struct handshake_terms terms = terms_of(s,
		told == HANDSHAKE_CLOCK          ? p->stamp_taken
			: told == HANDSHAKE_FINE ? r->own_index
						 : 0,
		told);

	*a = (struct handshake_answer){
		.head = {.step = HANDSHAKE_ANSWER, .version = HANDSHAKE_VERSION},
		.to_index = m->head.index,
	};
	a->head.index = wire_be32(r->own_index);
	s->random(s->random_arg, ephemeral, sizeof(ephemeral));
	if (noise_second(&noise, s->cluster, ephemeral, &terms, sizeof(terms), a->noise,
		    &r->keys)) {
		handshake_mac1_key(noise.peer, mac1_key);
		a->mac1 = mac_of(mac1_key, a, offsetof(struct handshake_answer, mac1));
		r->send_len = sizeof(*a);
		r->agreed = told == HANDSHAKE_FINE;
	}
	if (r->agreed)
		memcpy(p->agreed_key, noise.peer, KEY_BYTES);
	primitive_forget(ephemeral, sizeof(ephemeral));
	noise_forget(&noise);
	/* neither somebody without a good key, nor who repeats a message of the peer's, must change
	 * what people are told of the peer for sure */
	if (told == HANDSHAKE_KEY_REFUSED)
		note_claim(p, s->derived ? HANDSHAKE_OTHER_CLUSTER : as_seen_here(told), now.us);
	else if (told != HANDSHAKE_FINE && told != HANDSHAKE_CLOCK)
		p->trouble = as_seen_here(told);
	p->refused += told != HANDSHAKE_FINE;
	if (!r->agreed)
		return;
	p->stamp_taken = wire_be64(first.terms.time);
	p->taken_at = now.us;
	p->agreed++;
	if (++p->unbegun > UNBEGUN_MAX)
		p->trouble = HANDSHAKE_NOT_BEGUN;
	r->peer_index = wire_be32(m->head.index);
	r->peer_lanes = first.terms.lanes;
	r->peer_epoch = wire_be32(first.terms.epoch);
}

void
handshake_message(const struct handshake_self *s, struct handshake_peer *p,
	struct handshake_time now, const void *message, uint32_t len, struct handshake_result *r)
{
	*r = (struct handshake_result){0};
	if (!handshake_check(message, len, s->mac1_key))
		return;
	switch (handshake_step_of(message)) {
	case HANDSHAKE_INIT:
		take_init(s, p, now, message, r);
		break;
	case HANDSHAKE_ANSWER:
		take_answer(s, p, now, message, r);
		break;
	case HANDSHAKE_COOKIE:
		take_cookie(p, now, message, r);
		break;
	case HANDSHAKE_ASK:
		handshake_tell_put(s, (struct handshake_tell *)r->send);
		handshake_tell_for((struct handshake_tell *)r->send, message);
		r->send_len = sizeof(struct handshake_tell);
		break;
	case HANDSHAKE_TELL:
		take_tell(s, p, now, message, r);
		break;
	default:
		break;
	}
}

/* ------------------------------------------------------------------ for people */

static const struct {
	const char *name, *text;
} troubles[HANDSHAKE_TROUBLES] = {
	[HANDSHAKE_FINE] = {"fine", "keys are agreed on, or nobody has asked yet"},
	[HANDSHAKE_KEY_REFUSED] = {"key refused",
		"it does not take this node's key: give it this node's public key in [nodes] "
		"(key=, pmx-ctl key public), or a certificate of its authority"},
	[HANDSHAKE_CERT_EXPIRED] = {"certificate expired",
		"it refuses this node's certificate, which has expired: pmx-ctl key certify makes "
		"another one"},
	[HANDSHAKE_CERT_NOT_YET] = {"certificate not valid yet",
		"it refuses this node's certificate, which is not valid yet by its clock: set the "
		"clocks (timedatectl)"},
	[HANDSHAKE_REVOKED] = {"key revoked",
		"this node's key is revoked there: make another one, pmx-ctl key generate"},
	[HANDSHAKE_MODES_DIFFER] = {"modes differ",
		"its security.mode is another one: give both the same"},
	[HANDSHAKE_CLOCK] = {"clock went back",
		"this node's clock is behind what it was: it goes on by itself, but certificates "
		"need the right time (timedatectl)"},
	[HANDSHAKE_NO_ANSWER] = {"no answer",
		"it does not answer: is it there, with security.mode, and has it this node in "
		"[nodes]?"},
	[HANDSHAKE_OTHER_KEY] = {"other key",
		"it has another key than key= in [nodes] says, or somebody speaks for it: compare "
		"with pmx-ctl key public there"},
	[HANDSHAKE_OTHER_CLUSTER] = {"other cluster secret",
		"the files of security.cluster differ: compare their fingerprints, pmx-ctl key "
		"show, here and there"},
	[HANDSHAKE_PEER_EXPIRED] = {"its certificate expired",
		"its certificate has expired: make it another one, pmx-ctl key certify"},
	[HANDSHAKE_PEER_NOT_YET] = {"its certificate not valid yet",
		"its certificate is not valid yet by this node's clock: set the clocks "
		"(timedatectl)"},
	[HANDSHAKE_PEER_FORGED] = {"its key is unknown",
		"who asks in its name has a key that is neither in [nodes] (key=) nor certified by "
		"security.authority for that number"},
	[HANDSHAKE_PEER_REVOKED] = {"its key is revoked",
		"its key is in security.revoked: it must have another one"},
	[HANDSHAKE_UNSEALED] = {"peer is unsealed",
		"frames come in its name without a seal: it has security.mode = off, or somebody "
		"else sends them"},
	[HANDSHAKE_NOT_BEGUN] = {"its keys do not begin",
		"it asks for keys again and again and does not use them: its file of "
		"security.cluster is another one, or what goes to it is lost"},
};

const char *
handshake_trouble_name(enum handshake_trouble t)
{
	return t < HANDSHAKE_TROUBLES ? troubles[t].name : "unknown";
}

const char *
handshake_trouble_text(enum handshake_trouble t)
{
	return t < HANDSHAKE_TROUBLES ? troubles[t].text : "";
}
