/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How two nodes agree on keys: the published vector of the Noise pattern, then two nodes whose
 * messages a test carries, loses, changes, repeats and sends back.
 */
#include "handshake_ends.h"

#include "core/wire/siphash.h"

/* ------------------------------------------------------------------ the vector */

static size_t
bytes_of(const char *hex, uint8_t *out)
{
	size_t n = strlen(hex) / 2;

	for (size_t i = 0; i < n; i++) {
		char two[3] = {hex[2 * i], hex[2 * i + 1], 0};

		out[i] = (uint8_t)strtoul(two, NULL, 16);
	}
	return n;
}

/* The vector is Noise_IKpsk2_25519_AESGCM_SHA256's, from the vectors of cacophony (public domain),
 * which other implementations are tested with as well. */
static const char
	init_static[] = "e61ef9919cde45dd5f82166404bd08e38bceb5dfdfded0a34c8df7ed542214d1",
	init_ephemeral[] = "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a",
	resp_static[] = "4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893",
	resp_public[] = "31e0303fd6418d2f8c0e78b91f22e8caed0fbe48656dcf4767e4834f701b8f62",
	resp_ephemeral[] = "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b",
	psk_text[] = "54686973206973206d7920417573747269616e20706572737065637469766521",
	first_message[] = "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944"
			  "5a1baf339186d7867062b0dd31f5de322d370165d217939b2b7ed9e2bae7840458ea65"
			  "c2ce1554e0e8077fe7334c4bd514c658fd04d97b86d216f58f59714a7e24144155045c"
			  "8f36bed85a2cb0fd9af7",
	second_message[] = "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f1448088432fe8d67"
			   "5e949799d2a968211a66cc7ba2b0f4cad8eda3c2bd37eae737bbf88",
	third_message[] = "38cbf3835c78b7802df0dd0d9640ff8575debd0cb61cfb52590da1";

static void
noise__published_vector(void **state)
{
	static const char prologue[] = "John Galt", one[] = "Ludwig von Mises",
			  two[] = "Murray Rothbard", three[] = "F. A. Hayek";
	uint8_t is[32], ie[32], rs[32], rp[32], re[32], psk[32], want[256], got[256], text[64];
	struct noise a, b;
	struct noise_keys ka, kb;

	(void)state;
	bytes_of(init_static, is);
	bytes_of(init_ephemeral, ie);
	bytes_of(resp_static, rs);
	bytes_of(resp_public, rp);
	bytes_of(resp_ephemeral, re);
	bytes_of(psk_text, psk);
	const size_t n = strlen(one), m = strlen(two);

	assert_true(noise_first(&a, is, rp, ie, prologue, strlen(prologue), one, n, got));
	assert_int_equal(bytes_of(first_message, want), NOISE_FIRST_BYTES + n);
	assert_memory_equal(got, want, NOISE_FIRST_BYTES + n);
	assert_true(noise_first_open(&b, rs, prologue, strlen(prologue), got, n, text));
	assert_memory_equal(text, one, n);
	primitive_public(want, is);
	assert_memory_equal(b.peer, want, 32);

	assert_true(noise_second(&b, psk, re, two, m, got, &kb));
	assert_int_equal(bytes_of(second_message, want), NOISE_SECOND_BYTES + m);
	assert_memory_equal(got, want, NOISE_SECOND_BYTES + m);
	assert_true(noise_second_open(&a, is, psk, got, m, text, &ka));
	assert_memory_equal(text, two, m);
	assert_memory_equal(&ka, &kb, sizeof(ka));

	/* the first message with the new keys */
	primitive_seal(ka.to_responder, 0, NULL, 0, three, strlen(three), got);
	assert_int_equal(bytes_of(third_message, want), strlen(three) + TAG_BYTES);
	assert_memory_equal(got, want, strlen(three) + TAG_BYTES);
}

static void
noise__points_of_low_order_are_refused(void **state)
{
	static const uint8_t zero[32], one[32] = {1};
	uint8_t secret[32] = {5}, out[32];

	(void)state;
	assert_false(primitive_dh(out, secret, zero));
	assert_false(primitive_dh(out, secret, one));
}

/* ------------------------------------------------------------------ two nodes */

static void
handshake__two_nodes_that_know_their_keys(void **state)
{
	(void)state;
	agree(&a, &b);
	const struct noise_keys first = a.r.keys;

	/* and again, with other keys, also the other way round */
	now.us += 1000000;
	now.wall += 1000000000;
	agree(&a, &b);
	assert_memory_not_equal(&first, &a.r.keys, sizeof(first));
	agree(&b, &a);
}

static void
handshake__two_nodes_with_certificates(void **state)
{
	(void)state;
	wanted(&a);
	assert_int_equal(handshake_step_of(a.r.send), HANDSHAKE_ASK);
	carry(&a, &b);
	assert_int_equal(handshake_step_of(b.r.send), HANDSHAKE_TELL);
	assert_int_equal(b.r.send_len, a.r.send_len);
	assert_false(b.peer.has_key); /* a question leaves no state */
	carry(&b, &a);
	assert_int_equal(handshake_step_of(a.r.send), HANDSHAKE_INIT);
	carry(&a, &b);
	struct handshake_result answer = b.r;

	carry(&b, &a);
	b.r = answer;
	assert_agreed(&a, &b);
	/* the key is known now */
	agree(&a, &b);
}

static void
handshake__lanes_have_different_keys(void **state)
{
	uint8_t keys[HANDSHAKE_LANES_MAX * HANDSHAKE_LANES_MAX][CIPHER_KEY_BYTES];
	unsigned n = 0;

	(void)state;
	for (unsigned i = 0; i < HANDSHAKE_LANES_MAX; i++) {
		for (unsigned j = 0; j < HANDSHAKE_LANES_MAX; j++)
			handshake_lane_key(a.self.secret, i, j, keys[n++]);
	}
	for (unsigned i = 0; i < n; i++) {
		for (unsigned j = i + 1; j < n; j++)
			assert_memory_not_equal(keys[i], keys[j], CIPHER_KEY_BYTES);
	}
}

/* ------------------------------------------------------------------ refusals */

/* Have a ask b, which refuses; return what a knows then. */
static enum handshake_trouble
refused(void)
{
	wanted(&a);
	if (handshake_step_of(a.r.send) == HANDSHAKE_ASK) {
		carry(&a, &b);
		carry(&b, &a);
	}
	carry(&a, &b);
	assert_false(b.r.agreed);
	carry(&b, &a);
	assert_false(a.r.agreed);
	assert_int_equal(a.peer.refused, 1);
	/* it does not ask again at once */
	wanted(&a);
	assert_int_equal(a.r.send_len, 0);
	return a.peer.trouble;
}

static void
handshake__unknown_key_is_refused(void **state)
{
	(void)state;
	handshake_peer_key(&b.peer, b.self.public_key);
	assert_int_equal(refused(), HANDSHAKE_KEY_REFUSED);
	/* not by somebody's word, but people may want to know of it */
	assert_int_equal(b.peer.trouble, HANDSHAKE_FINE);
	assert_int_equal(b.peer.claim, HANDSHAKE_PEER_FORGED);
	assert_int_equal(b.peer.claim_at, now.us);
	handshake_begun(&b.peer);
	assert_int_equal(b.peer.claim_at, 0);
}

static void
handshake__expired_certificate_is_refused(void **state)
{
	(void)state;
	certify_until(&a.self, 1, NOW_S - 10, NOW_S);
	assert_int_equal(refused(), HANDSHAKE_CERT_EXPIRED);
	assert_int_equal(b.peer.trouble, HANDSHAKE_PEER_EXPIRED);
}

static void
handshake__certificate_of_later_is_refused(void **state)
{
	(void)state;
	certify_until(&a.self, 1, NOW_S + 1, NOW_S + 1000);
	assert_int_equal(refused(), HANDSHAKE_CERT_NOT_YET);
	assert_int_equal(b.peer.trouble, HANDSHAKE_PEER_NOT_YET);
}

static void
handshake__certificate_of_another_number_is_refused(void **state)
{
	(void)state;
	certify_until(&a.self, 3, NOW_S - 10, NOW_S + 1000);
	assert_int_equal(refused(), HANDSHAKE_KEY_REFUSED);
}

static void
handshake__certificate_of_another_key_is_refused(void **state)
{
	(void)state;
	memcpy(a.self.certificate, b.self.certificate, CERTIFICATE_BYTES);
	assert_int_equal(refused(), HANDSHAKE_KEY_REFUSED);
}

static void
handshake__no_certificate_is_refused(void **state)
{
	(void)state;
	a.self.has_certificate = false;
	assert_int_equal(refused(), HANDSHAKE_KEY_REFUSED);
}

static void
handshake__forged_cookie_does_not_cost_the_answer(void **state)
{
	static const uint64_t forged[2] = {1, 2};
	uint8_t out[sizeof(struct handshake_cookie)];

	(void)state;
	wanted(&a);
	carry(&a, &b);
	handshake_cookie_put(a.r.send, forged, out);
	handshake_message(&a.self, &a.peer, now, out, sizeof(out), &a.r);
	assert_int_equal(handshake_step_of(a.r.send), HANDSHAKE_INIT);
	struct handshake_result answer = b.r;

	carry(&b, &a);
	b.r = answer;
	assert_agreed(&a, &b);
}

static void
handshake__repeated_init_says_nothing_of_the_peer(void **state)
{
	(void)state;
	wanted(&a);
	const struct handshake_result init = a.r;

	carry(&a, &b);
	handshake_message(&b.self, &b.peer, now, init.send, init.send_len, &b.r);
	assert_false(b.r.agreed);
	assert_int_equal(b.peer.trouble, HANDSHAKE_FINE);
}

static void
handshake__both_know_whose_key_it_was(void **state)
{
	(void)state;
	agree(&a, &b);
	assert_memory_equal(a.peer.agreed_key, b.self.public_key, KEY_BYTES);
	assert_memory_equal(b.peer.agreed_key, a.self.public_key, KEY_BYTES);
}

static void
handshake__revoked_key_is_refused(void **state)
{
	(void)state;
	b.self.revoked = &a.self.public_key;
	b.self.revoked_count = 1;
	assert_int_equal(refused(), HANDSHAKE_REVOKED);
	assert_int_equal(b.peer.trouble, HANDSHAKE_PEER_REVOKED);
}

static void
handshake__other_mode_is_refused_and_named(void **state)
{
	(void)state;
	a.self.mode = SEAL_AUTH;
	assert_int_equal(refused(), HANDSHAKE_MODES_DIFFER);
	assert_int_equal(b.peer.trouble, HANDSHAKE_MODES_DIFFER);
}

static void
handshake__lanes_out_of_range_are_refused(void **state)
{
	(void)state;
	a.self.lanes = HANDSHAKE_LANES_MAX + 1;
	assert_int_equal(refused(), HANDSHAKE_MODES_DIFFER);
}

static void
handshake__clock_that_went_back_goes_on(void **state)
{
	(void)state;
	agree(&a, &b);
	/* a begins a new life, with a clock that is an hour behind */
	a.peer.stamp_floor = 0;
	a.self.epoch++;
	now.us += 1000000;
	now.wall -= UINT64_C(3600) * 1000000000;
	wanted(&a);
	carry(&a, &b);
	assert_false(b.r.agreed);
	carry(&b, &a);
	assert_int_equal(a.peer.trouble, HANDSHAKE_CLOCK);
	/* the answer said how late it is: another INIT leaves at once */
	carry(&a, &b);
	struct handshake_result answer = b.r;

	carry(&b, &a);
	b.r = answer;
	assert_agreed(&a, &b);
}

static void
handshake__other_cluster_secret_is_noticed(void **state)
{
	(void)state;
	a.self.cluster[3] = 1;
	wanted(&a);
	carry(&a, &b);
	carry(&b, &a);
	assert_false(a.r.agreed);
	assert_int_equal(a.peer.claim, HANDSHAKE_OTHER_CLUSTER);
	assert_true(a.peer.asking);
	for (unsigned i = 0; i < 3; i++) {
		now.us = handshake_deadline(&a.peer);
		now.wall += 1000000000;
		handshake_tick(&a.self, &a.peer, now, &a.r);
		carry(&a, &b);
		if (b.r.send_len != 0)
			carry(&b, &a);
	}
	assert_int_equal(b.peer.trouble, HANDSHAKE_NOT_BEGUN);
}

static void
handshake__other_key_than_pinned_is_noticed(void **state)
{
	uint8_t other[KEY_BYTES] = {9};

	(void)state;
	handshake_peer_key(&a.peer, other);
	for (unsigned i = 0; i < 20 && a.peer.trouble != HANDSHAKE_OTHER_KEY; i++) {
		if (i == 0)
			wanted(&a);
		else
			handshake_tick(&a.self, &a.peer, now, &a.r);
		if (a.r.send_len != 0) {
			carry(&a, &b); /* MAC1 is of the other key: an INIT is not even looked at */
			if (handshake_step_of(a.r.send) == HANDSHAKE_INIT)
				assert_int_equal(b.r.send_len, 0);
			else
				carry(&b, &a);
		}
		now.us = handshake_deadline(&a.peer);
	}
	assert_int_equal(a.peer.trouble, HANDSHAKE_OTHER_KEY);
	assert_memory_equal(a.peer.public_key, other, KEY_BYTES);
}

static void
handshake__revoked_certificate_of_the_answering_one(void **state)
{
	(void)state;
	a.self.revoked = &b.self.public_key;
	a.self.revoked_count = 1;
	wanted(&a);
	carry(&a, &b);
	carry(&b, &a);
	assert_int_equal(a.r.send_len, 0);
	assert_int_equal(a.peer.trouble, HANDSHAKE_PEER_REVOKED);
}

/* ------------------------------------------------------------------ the network */

static void
handshake__lost_messages_are_sent_again(void **state)
{
	uint64_t last = 0;
	unsigned sent = 0;

	(void)state;
	wanted(&a);
	while (a.peer.asking) {
		const uint64_t at = handshake_deadline(&a.peer);

		sent += a.r.send_len != 0;
		assert_true(at > last);
		last = at;
		now.us = at - 1;
		handshake_tick(&a.self, &a.peer, now, &a.r);
		assert_int_equal(a.r.send_len, 0);
		wanted(&a); /* it is asked already */
		assert_int_equal(a.r.send_len, 0);
		now.us = at;
		handshake_tick(&a.self, &a.peer, now, &a.r);
	}
	assert_in_range(sent, 5, 12);
	assert_int_equal(a.peer.trouble, HANDSHAKE_NO_ANSWER);
	assert_int_equal(handshake_deadline(&a.peer), UINT64_MAX);
	now.us += 10000000;
	agree(&a, &b);
}

static void
handshake__those_that_ask_at_once_do_not_come_back_at_once(void **state)
{
	uint64_t first = UINT64_MAX, last = 0;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		struct end e = a;

		wanted(&e);
		const uint64_t at = handshake_deadline(&e.peer);

		first = at < first ? at : first;
		last = at > last ? at : last;
	}
	assert_true(first >= now.us + 20000 && last < now.us + 30000);
	assert_true(last - first > 8000);
}

/* Give a message another index, and the MAC1 that it needs then. */
static void
change_index(struct handshake_result *r, const uint64_t mac1_key[2], size_t mac1_at)
{
	struct handshake_head *h = (struct handshake_head *)r->send;
	uint64_t words[sizeof(struct handshake_init) / 8 + 1], mac1;

	h->index ^= wire_be32(0x100);
	memcpy(words, r->send, mac1_at);
	mac1 = siphash(mac1_key, words, (uint32_t)(mac1_at / 8));
	memcpy(r->send + mac1_at, &mac1, sizeof(mac1));
	assert_true(handshake_check(r->send, r->send_len, mac1_key));
}

static void
handshake__an_index_that_is_changed_does_no_harm(void **state)
{
	(void)state;
	wanted(&a);
	const struct handshake_result first = a.r;

	change_index(&a.r, b.self.mac1_key, offsetof(struct handshake_init, mac1));
	carry(&a, &b);
	assert_false(b.r.agreed);
	a.r = first;
	carry(&a, &b);
	const struct handshake_result answer = b.r;

	change_index(&b.r, a.self.mac1_key, offsetof(struct handshake_answer, mac1));
	carry(&b, &a);
	b.r = answer;
	assert_agreed(&a, &b);
}

static void
handshake__both_at_once(void **state)
{
	struct end first;

	(void)state;
	wanted(&a);
	wanted(&b);
	const struct handshake_result from_a = a.r, from_b = b.r;

	handshake_message(&b.self, &b.peer, now, from_a.send, from_a.send_len, &b.r);
	handshake_message(&a.self, &a.peer, now, from_b.send, from_b.send_len, &a.r);
	assert_true(a.r.agreed && b.r.agreed);
	const struct handshake_result answer_a = a.r, answer_b = b.r;

	handshake_message(&a.self, &a.peer, now, answer_b.send, answer_b.send_len, &a.r);
	handshake_message(&b.self, &b.peer, now, answer_a.send, answer_a.send_len, &b.r);
	first = b;
	first.r = answer_b;
	assert_agreed(&a, &first);
	first = a;
	first.r = answer_a;
	assert_agreed(&b, &first);
	assert_memory_not_equal(&a.r.keys, &b.r.keys, sizeof(a.r.keys));
}

static void
handshake__an_init_is_taken_once(void **state)
{
	(void)state;
	wanted(&a);
	const struct handshake_result init = a.r;

	carry(&a, &b);
	assert_true(b.r.agreed);
	for (unsigned i = 0; i < 3; i++) {
		handshake_message(&b.self, &b.peer, now, init.send, init.send_len, &b.r);
		assert_false(b.r.agreed);
	}
}

static void
handshake__an_answer_is_taken_once(void **state)
{
	(void)state;
	agree(&a, &b);
	handshake_message(&a.self, &a.peer, now, b.r.send, b.r.send_len, &a.r);
	assert_false(a.r.agreed);
}

static void
handshake__what_comes_back_is_not_taken(void **state)
{
	(void)state;
	wanted(&a);
	handshake_message(&a.self, &a.peer, now, a.r.send, a.r.send_len, &b.r);
	assert_false(b.r.agreed);
	assert_int_equal(b.r.send_len, 0);
	carry(&a, &b);
	const struct handshake_result answer = b.r;

	handshake_message(&b.self, &b.peer, now, answer.send, answer.send_len, &b.r);
	assert_false(b.r.agreed);
}

static void
handshake__messages_of_others_numbers_are_not_taken(void **state)
{
	struct handshake_peer as_other = b.peer;

	(void)state;
	as_other.node = 3; /* the frame said that it was from node 3, with the same key */
	wanted(&a);
	handshake_message(&b.self, &as_other, now, a.r.send, a.r.send_len, &b.r);
	assert_false(b.r.agreed);
	assert_int_equal(b.r.send_len, 0);
}

static void
handshake__every_changed_bit_is_noticed(void **state)
{
	(void)state;
	wanted(&a);
	const struct handshake_result init = a.r;
	const struct handshake_peer asking = a.peer, asked = b.peer;

	for (uint32_t bit = 0; bit < offsetof(struct handshake_init, mac2) * 8; bit += 3) {
		struct handshake_init m;

		memcpy(&m, init.send, sizeof(m));
		((uint8_t *)&m)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		handshake_message(&b.self, &b.peer, now, &m, sizeof(m), &b.r);
		assert_false(b.r.agreed);
		assert_int_equal(b.r.send_len, 0);
		/* also if who changed it could make MAC1, which is no secret */
		m.mac1 = init.send[0] == HANDSHAKE_INIT ? 0 : 1;
	}
	assert_memory_equal(&b.peer, &asked, sizeof(asked));
	carry(&a, &b);
	const struct handshake_result answer = b.r;

	for (uint32_t bit = 0; bit < offsetof(struct handshake_answer, mac2) * 8; bit++) {
		struct handshake_answer m;

		memcpy(&m, answer.send, sizeof(m));
		((uint8_t *)&m)[bit / 8] ^= (uint8_t)(1u << bit % 8);
		handshake_message(&a.self, &a.peer, now, &m, sizeof(m), &a.r);
		assert_false(a.r.agreed);
		assert_memory_equal(&a.peer.noise, &asking.noise, sizeof(asking.noise));
	}
	handshake_message(&a.self, &a.peer, now, answer.send, answer.send_len, &a.r);
	assert_true(a.r.agreed); /* none of them has ended the handshake */
}

/* A forger who knows all public keys, but no secret. */
static void
handshake__who_has_no_secret_key_is_nobody(void **state)
{
	struct end forger = a;

	(void)state;
	draw(NULL, forger.self.secret, KEY_BYTES);
	wanted(&forger);
	carry(&forger, &b);
	assert_false(b.r.agreed);
	/* it cannot answer in b's place either */
	setup(state);
	struct end false_b = b;

	draw(NULL, false_b.self.secret, KEY_BYTES);
	wanted(&a);
	carry(&a, &false_b);
	assert_false(false_b.r.agreed);
	assert_int_equal(false_b.r.send_len, 0);
}

static void
handshake__a_certificate_for_another_authority(void **state)
{
	(void)state;
	authority[0] ^= 1;
	uint8_t right[KEY_BYTES];

	memcpy(right, b.self.authority, sizeof(right));
	certify_until(&a.self, 1, NOW_S - 10, NOW_S + 1000);
	memcpy(a.self.authority, right, sizeof(right));
	assert_int_equal(refused(), HANDSHAKE_KEY_REFUSED);
}

static void
handshake__cookies(void **state)
{
	static const uint64_t secret[2] = {11, 12}, later[2] = {13, 14};
	uint64_t cookie[2], other[2];
	uint8_t out[sizeof(struct handshake_cookie)];

	(void)state;
	handshake_cookie_of(secret, 1, cookie);
	handshake_cookie_of(secret, 3, other);
	wanted(&a);
	assert_false(handshake_mac2_ok(a.r.send, cookie));
	struct handshake_result init = a.r;

	/* one that does not name this INIT changes nothing */
	handshake_cookie_put(init.send, other, out);
	out[8] ^= 1;
	handshake_message(&a.self, &a.peer, now, out, sizeof(out), &a.r);
	assert_int_equal(a.r.send_len, 0);
	handshake_cookie_put(init.send, cookie, out);
	handshake_message(&a.self, &a.peer, now, out, sizeof(out), &a.r);
	assert_int_equal(handshake_step_of(a.r.send), HANDSHAKE_INIT);
	assert_true(handshake_mac2_ok(a.r.send, cookie));
	assert_false(handshake_mac2_ok(a.r.send, other));
	/* the secret has changed since: some more are taken, and then no other for this question */
	handshake_cookie_of(later, 1, cookie);
	handshake_cookie_put(a.r.send, cookie, out);
	handshake_message(&a.self, &a.peer, now, out, sizeof(out), &a.r);
	assert_true(handshake_mac2_ok(a.r.send, cookie));
	const struct handshake_result last = a.r;
	unsigned taken = 2;

	do {
		handshake_message(&a.self, &a.peer, now, out, sizeof(out), &a.r);
		taken += a.r.send_len != 0;
	} while (a.r.send_len != 0 && taken < 100);
	assert_int_equal(taken, 8);
	handshake_message(&b.self, &b.peer, now, last.send, last.send_len, &b.r);
	assert_true(b.r.agreed);
}

static void
handshake__lengths_steps_and_versions(void **state)
{
	uint8_t bytes[HANDSHAKE_MESSAGE_MAX + 8] = {0};
	unsigned taken = 0;

	(void)state;
	for (unsigned step = 0; step < 256; step++) {
		for (uint32_t len = 0; len <= sizeof(bytes); len++) {
			bytes[0] = (uint8_t)step;
			bytes[1] = HANDSHAKE_VERSION;
			taken += handshake_check(bytes, len, b.self.mac1_key);
			bytes[1]++;
			assert_false(handshake_check(bytes, len, b.self.mac1_key));
		}
	}
	assert_int_equal(taken, 3); /* COOKIE, ASK and TELL have no MAC1 */
}

static void
handshake__a_certificate_that_runs_out_is_asked_for_again(void **state)
{
	(void)state;
	handshake__two_nodes_with_certificates(state);
	now.us += 10000000;
	now.wall += UINT64_C(1001) * 1000000000;
	wanted(&a);
	assert_int_equal(handshake_step_of(a.r.send), HANDSHAKE_ASK);
	carry(&a, &b);
	carry(&b, &a);
	assert_int_equal(a.peer.trouble, HANDSHAKE_PEER_EXPIRED);
	assert_int_equal(a.r.send_len, 0);
}

static void
handshake__troubles_have_names_and_texts(void **state)
{
	(void)state;
	for (enum handshake_trouble t = 0; t < HANDSHAKE_TROUBLES; t++) {
		assert_non_null(handshake_trouble_name(t));
		assert_true(strlen(handshake_trouble_text(t)) > 10);
	}
}

#define CASE(name)      cmocka_unit_test_setup(name, setup)
#define CERTIFIED(name) cmocka_unit_test_setup(name, setup_certified)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(noise__published_vector),
		cmocka_unit_test(noise__points_of_low_order_are_refused),
		CASE(handshake__two_nodes_that_know_their_keys),
		CERTIFIED(handshake__two_nodes_with_certificates),
		CASE(handshake__lanes_have_different_keys),
		CASE(handshake__unknown_key_is_refused),
		CERTIFIED(handshake__expired_certificate_is_refused),
		CERTIFIED(handshake__certificate_of_later_is_refused),
		CERTIFIED(handshake__certificate_of_another_number_is_refused),
		CERTIFIED(handshake__certificate_of_another_key_is_refused),
		CERTIFIED(handshake__no_certificate_is_refused),
		CERTIFIED(handshake__revoked_key_is_refused),
		CASE(handshake__other_mode_is_refused_and_named),
		CASE(handshake__lanes_out_of_range_are_refused),
		CASE(handshake__clock_that_went_back_goes_on),
		CASE(handshake__other_cluster_secret_is_noticed),
		CASE(handshake__other_key_than_pinned_is_noticed),
		CERTIFIED(handshake__revoked_certificate_of_the_answering_one),
		CASE(handshake__lost_messages_are_sent_again),
		CASE(handshake__those_that_ask_at_once_do_not_come_back_at_once),
		CASE(handshake__an_index_that_is_changed_does_no_harm),
		CASE(handshake__both_at_once),
		CASE(handshake__an_init_is_taken_once),
		CASE(handshake__an_answer_is_taken_once),
		CASE(handshake__what_comes_back_is_not_taken),
		CASE(handshake__messages_of_others_numbers_are_not_taken),
		CASE(handshake__every_changed_bit_is_noticed),
		CASE(handshake__who_has_no_secret_key_is_nobody),
		CERTIFIED(handshake__a_certificate_for_another_authority),
		CASE(handshake__cookies),
		CASE(handshake__forged_cookie_does_not_cost_the_answer),
		CASE(handshake__repeated_init_says_nothing_of_the_peer),
		CASE(handshake__both_know_whose_key_it_was),
		CASE(handshake__lengths_steps_and_versions),
		CERTIFIED(handshake__a_certificate_that_runs_out_is_asked_for_again),
		CASE(handshake__troubles_have_names_and_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
