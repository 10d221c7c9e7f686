/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a lane decides about frames of a peer with keys: lib/handshake/gate.
 */
#include "handshake_ends.h"

#define HZ 1000000000u

/* Judge what one end has to send, at the lane of the other. */
static enum gate_message
judged(struct gate *g, const struct end *from, const uint64_t cookie[2], bool busy, uint64_t at)
{
	static uint64_t any_at;

	if (at == 0)
		any_at = 0;
	return gate_message(g, &any_at, from->r.send, cookie, busy, at, HZ);
}

static void
gate__two_nodes_that_ask_each_other_at_once(void **state)
{
	static const uint64_t cookie[2] = {1, 2};
	struct gate at_a = {0};
	const uint64_t at = 1000000;

	(void)state;
	wanted(&a);
	wanted(&b);
	gate_asks(&at_a, a.r.send);
	assert_int_equal(judged(&at_a, &b, cookie, true, at), GATE_TELL); /* its ASK */
	carry(&a, &b);
	assert_int_equal(handshake_step_of(b.r.send), HANDSHAKE_TELL);
	assert_int_equal(judged(&at_a, &b, cookie, true, at + 2), GATE_PASS);  /* soon after it */
	assert_int_equal(judged(&at_a, &b, cookie, true, at + HZ), GATE_DROP); /* once */
	/* the next ASK has another nonce */
	b.r.send[8] ^= 1;
	assert_int_equal(judged(&at_a, &b, cookie, true, at + HZ), GATE_DROP);
}

static void
gate__inits_with_a_cookie_pass_and_others_now_and_then(void **state)
{
	const uint64_t secret[2] = {5, 6};
	uint64_t cookie[2], other[2];
	struct gate g = {0}, of_another = {0};

	(void)state;
	wanted(&a);
	handshake_cookie_of(secret, 1, cookie);
	handshake_cookie_of(secret, 7, other);
	assert_int_equal(judged(&g, &a, cookie, false, 0), GATE_PASS);
	assert_int_equal(judged(&g, &a, cookie, false, 2), GATE_COOKIE);
	assert_int_equal(judged(&g, &a, cookie, false, 3), GATE_COOKIE);
	/* nor those of all nodes together */
	assert_int_equal(judged(&of_another, &a, cookie, false, 4), GATE_COOKIE);
	handshake_cookie_put(a.r.send, other, b.r.send);
	handshake_message(&a.self, &a.peer, now, b.r.send, sizeof(struct handshake_cookie), &a.r);
	assert_int_equal(judged(&g, &a, cookie, false, 5), GATE_COOKIE);
	handshake_cookie_put(a.r.send, cookie, b.r.send);
	handshake_message(&a.self, &a.peer, now, b.r.send, sizeof(struct handshake_cookie), &a.r);
	assert_int_equal(judged(&g, &a, cookie, true, 6), GATE_PASS);
	assert_int_equal(judged(&g, &a, cookie, true, 7), GATE_DROP); /* who sees it repeats it */
	/* after a while without, if the keeper is not busy */
	wanted(&b);
	assert_int_equal(judged(&g, &b, cookie, true, HZ), GATE_COOKIE);
	assert_int_equal(judged(&g, &b, cookie, false, 2ull * HZ), GATE_PASS);
}

static void
gate__answers_pass_if_they_were_asked_for(void **state)
{
	static const uint64_t cookie[2] = {1, 2};
	struct gate g = {0};

	(void)state;
	wanted(&a);
	const struct handshake_result init = a.r;

	carry(&a, &b);
	assert_int_equal(judged(&g, &b, cookie, false, 0), GATE_DROP); /* nobody asked */
	assert_int_equal(gate_sealed_message(&g, b.r.send, false, 0, HZ), GATE_DROP);
	gate_asks(&g, init.send);
	assert_int_equal(judged(&g, &b, cookie, true, 0), GATE_PASS);
	assert_int_equal(gate_sealed_message(&g, b.r.send, true, 0, HZ), GATE_PASS);
	/* a COOKIE for it once, one for another INIT not at all */
	handshake_cookie_put(init.send, cookie, b.r.send);
	b.r.send[8] ^= 1;
	assert_int_equal(judged(&g, &b, cookie, false, 0), GATE_DROP);
	b.r.send[8] ^= 1;
	assert_int_equal(judged(&g, &b, cookie, false, 0), GATE_PASS);
	assert_int_equal(judged(&g, &b, cookie, false, 0), GATE_DROP);
	/* sealed INITs come from the peer: now and then is enough */
	assert_int_equal(gate_sealed_message(&g, init.send, false, HZ, HZ), GATE_PASS);
	assert_int_equal(gate_sealed_message(&g, init.send, false, HZ + 1, HZ), GATE_DROP);
	assert_int_equal(gate_sealed_message(&g, init.send, true, 2ull * HZ, HZ), GATE_DROP);
}

/* Give an end's lane the keys that it agreed on. */
static struct keyring_keys *
keys_come(struct gate *g, const struct end *e, unsigned lane)
{
	struct keyring_keys *old[KEYRING_OLD_MAX];
	struct keyring_keys *k = keyring_keys_make(&cipher_openssl, &e->r, lane, 0);

	assert_non_null(k);
	keyring_add(&g->keys, k, old);
	keyring_free_old(old);
	return k;
}

static void
keys_go(struct gate *g)
{
	struct keyring_keys *old[KEYRING_OLD_MAX];

	keyring_take(&g->keys, true, 0, HZ, old);
	keyring_free_old(old);
}

static void
seal_by(struct gate *g, enum wire_type type, uint16_t to,
	uint8_t frame[WIRE_HDR_BYTES + SEAL_TRAILER_BYTES])
{
	bool wants;
	struct keyring_keys *k = keyring_sealing(&g->keys, 0, HZ, &wants);
	const struct wire_hdr h = {
		.version = WIRE_VERSION,
		.type = (uint8_t)type,
		.dst_node = wire_be16(to),
	};

	assert_non_null(k);
	assert_int_not_equal(gate_seal(k, SEAL_SEAL, &h, sizeof(h), frame, &wants), 0);
}

static void
gate__a_peer_that_shows_older_keys_lacks_the_newer(void **state)
{
	uint8_t frame[WIRE_HDR_BYTES + SEAL_TRAILER_BYTES];
	const struct wire_hdr *h = (const struct wire_hdr *)frame;
	struct gate at_a = {0}, at_b = {0};
	enum gate_stranger why;
	bool begun;

	(void)state;
	agree(&b, &a);
	struct keyring_keys *k = keys_come(&at_b, &b, 0);

	keys_come(&at_a, &a, 0);
	seal_by(&at_b, WIRE_KEYS, 1, frame);
	assert_int_equal(gate_open(&at_a, gate_keys_of(&at_a, h, 1, 1, HZ, &why), SEAL_SEAL, frame,
				 sizeof(frame), 1, &begun),
		SEAL_OK);
	assert_true(begun);
	seal_by(&at_a, WIRE_KEYS, 2, frame);
	assert_ptr_equal(gate_keys_of(&at_b, h, 2, 1, HZ, &why), k);
	assert_false(gate_lacks(&at_b, k));
	/* somebody begins in a's name: people are told, if nothing was heard of it, and now and
	 * then */
	const struct wire_hdr hello = {.type = WIRE_HELLO, .dst_node = wire_be16(2)};

	assert_null(gate_keys_of(&at_b, &hello, 2, HZ, HZ, &why));
	assert_int_equal(why, GATE_NO_KEY);
	assert_null(gate_keys_of(&at_b, &hello, 2, 2 * HZ, HZ, &why));
	assert_int_equal(why, GATE_CLAIMED);
	assert_null(gate_keys_of(&at_b, &hello, 2, 2 * HZ + HZ / 4, HZ, &why));
	assert_int_equal(why, GATE_NO_KEY);
	/* b asks for others, and has them; a has answered somebody else since */
	now.wall += 1000;
	agree(&b, &a);
	keys_come(&at_b, &b, 0);
	seal_by(&at_b, WIRE_DATA, 1, frame);
	assert_null(gate_keys_of(&at_a, h, 1, 2, HZ, &why));
	assert_int_equal(why, GATE_SHOW);
	seal_by(&at_a, WIRE_KEYS, 2, frame);
	assert_ptr_equal(gate_keys_of(&at_b, h, 2, 2, HZ, &why), k);
	assert_int_equal(gate_open(&at_b, k, SEAL_SEAL, frame, sizeof(frame), 2, &begun), SEAL_OK);
	assert_true(gate_lacks(&at_b, k));
	keys_go(&at_a);
	keys_go(&at_b);
}

static void
gate__a_first_frame_that_is_lost_is_sent_again(void **state)
{
	uint8_t frame[WIRE_HDR_BYTES + SEAL_TRAILER_BYTES];
	const struct wire_hdr *h = (const struct wire_hdr *)frame;
	struct gate at_a = {0}, at_b = {0};
	enum gate_stranger why;
	bool begun;

	(void)state;
	agree(&b, &a);
	keys_come(&at_b, &b, 0);
	/* a has lost its keys, agrees on others, and its first frame with these is lost */
	now.wall += 1000;
	agree(&a, &b);
	keys_come(&at_a, &a, 0);
	struct keyring_keys *k = keys_come(&at_b, &b, 0);

	seal_by(&at_b, WIRE_DATA, 1, frame);
	assert_null(gate_keys_of(&at_a, h, 1, 1, HZ, &why));
	assert_int_equal(why, GATE_SHOW);
	assert_null(gate_keys_of(&at_a, h, 1, 2, HZ, &why)); /* now and then */
	assert_int_equal(why, GATE_NO_KEY);
	seal_by(&at_b, WIRE_KEYS, 1, frame); /* no answer to an answer */
	assert_null(gate_keys_of(&at_a, h, 1, HZ, HZ, &why));
	assert_int_equal(why, GATE_NO_KEY);
	seal_by(&at_a, WIRE_KEYS, 2, frame);
	assert_ptr_equal(gate_keys_of(&at_b, h, 2, HZ, HZ, &why), k);
	assert_int_equal(gate_open(&at_b, k, SEAL_SEAL, frame, sizeof(frame), HZ, &begun), SEAL_OK);
	assert_true(begun);
	seal_by(&at_b, WIRE_DATA, 1, frame);
	assert_non_null(gate_keys_of(&at_a, h, 1, HZ, HZ, &why));
	keys_go(&at_a);
	/* who has none asks for some */
	assert_null(gate_keys_of(&at_a, h, 1, HZ, HZ, &why));
	assert_int_equal(why, GATE_KEYLESS);
	keys_go(&at_b);
}

#define CASE(name)      cmocka_unit_test_setup(name, setup)
#define CERTIFIED(name) cmocka_unit_test_setup(name, setup_certified)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		CERTIFIED(gate__two_nodes_that_ask_each_other_at_once),
		CASE(gate__inits_with_a_cookie_pass_and_others_now_and_then),
		CASE(gate__answers_pass_if_they_were_asked_for),
		CASE(gate__a_peer_that_shows_older_keys_lacks_the_newer),
		CASE(gate__a_first_frame_that_is_lost_is_sent_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
