/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How two nodes agree on keys: the messages, and for each peer the state of it. Messages and the
 * time come in, and a message and keys come out. No I/O, no clock; random bytes come from the
 * caller. A struct handshake_peer belongs to one thread; none of its calls are for a lane, except
 * for those below "on a lane".
 *
 *     initiator                              responder
 *     ASK      who are you?             ->
 *                                       <-   TELL    my certificate         (keeps no state)
 *     INIT     key, terms, certificate  ->
 *                                       <-   COOKIE  say it again with this (only under load)
 *                                       <-   ANSWER  terms
 *
 * ASK is left out where the peer's key is known. INIT and ANSWER are the two messages of
 * Noise_IKpsk2 (noise.h). Who answers sends with the new keys only when a frame with them has
 * arrived: the one that begins them.
 *
 * Design notes
 * 1. Whoever knows a node's public key can make it compute: so INIT and ANSWER carry MAC1, by which
 *    a lane drops what strangers send, and under load INIT must carry MAC2, which only who gets
 *    frames at the sender's address can make (after WireGuard, Donenfeld, NDSS 2017, section 5.3).
 * 2. An INIT is taken once: its time must be later than that of the last one. A node whose clock
 *    went back learns the last time by the refusal, which is authentic, and goes on from there.
 * 3. Who is asked for a cookie says the same INIT again, so that an ANSWER to the first one is not
 *    lost: whoever sees the INIT can make a COOKIE for it, and be faster than who answers.
 * 4. Both may begin at once. Then there are two sets of keys, and each is used until it is old.
 * 5. Heads are not encrypted, and who knows the receiver's public key can make MAC1 anew. So that
 *    nobody changes the index by which keys are known, that of INIT is in the prologue, and that of
 *    ANSWER among its terms.
 */
#ifndef PMX_HANDSHAKE_HANDSHAKE_H
#define PMX_HANDSHAKE_HANDSHAKE_H

#include "handshake/noise.h"
#include "keys/keys.h"
#include "seal/seal.h"

#define HANDSHAKE_LANES_MAX 16 /* an index has its sender's lane in its lowest bits */
#define HANDSHAKE_VERSION   1

enum handshake_step {
	HANDSHAKE_INIT = 1,
	HANDSHAKE_ANSWER,
	HANDSHAKE_COOKIE,
	HANDSHAKE_ASK,
	HANDSHAKE_TELL,
	HANDSHAKE_STEPS
};

/* The reasons why two nodes have no keys, for people. Those up to HANDSHAKE_CLOCK are said in
 * ANSWER. */
enum handshake_trouble {
	HANDSHAKE_FINE,
	HANDSHAKE_KEY_REFUSED,   /* the peer does not take this node's key */
	HANDSHAKE_CERT_EXPIRED,  /* ... its certificate, which is no longer valid */
	HANDSHAKE_CERT_NOT_YET,  /* ... not valid yet, by the peer's clock */
	HANDSHAKE_REVOKED,       /* ... which is revoked there */
	HANDSHAKE_MODES_DIFFER,  /* one has auth, the other seal */
	HANDSHAKE_CLOCK,         /* this node's clock went back: it goes on by itself */
	HANDSHAKE_NO_ANSWER,     /* nobody answers */
	HANDSHAKE_OTHER_KEY,     /* the peer has another key than [nodes] says */
	HANDSHAKE_OTHER_CLUSTER, /* its answer cannot be opened: another `cluster` secret */
	HANDSHAKE_PEER_EXPIRED,  /* the peer's certificate is no longer valid */
	HANDSHAKE_PEER_NOT_YET,  /* ... not yet, by this node's clock */
	HANDSHAKE_PEER_FORGED,   /* ... is not of this cluster's authority, or of another node */
	HANDSHAKE_PEER_REVOKED,  /* the peer's key is revoked here */
	HANDSHAKE_UNSEALED,      /* the peer has security.mode = off */
	HANDSHAKE_NOT_BEGUN,     /* the peer asks for keys, and does not use them */
	HANDSHAKE_TROUBLES
};

/* Return the name of a trouble, few words; and a sentence that says what to do. */
const char *handshake_trouble_name(enum handshake_trouble t);
const char *handshake_trouble_text(enum handshake_trouble t);

/* Both ends of a handshake say this, encrypted. All big-endian. */
struct handshake_terms {
	/* of INIT, ns since 1970; in a refusal for HANDSHAKE_CLOCK: the last one; in an ANSWER that
	 * agrees: its index */
	uint64_t time;
	uint32_t epoch; /* of the node's life */
	uint8_t mode;   /* enum seal_mode */
	uint8_t lanes;
	uint8_t trouble; /* of ANSWER: enum handshake_trouble */
	uint8_t zero;
} __attribute__((packed));

struct handshake_head {
	uint8_t step, version;
	uint16_t zero;
	uint32_t index; /* by which the sender of this knows the keys */
} __attribute__((packed));

struct handshake_init {
	struct handshake_head head;
	uint8_t noise[NOISE_FIRST_BYTES + sizeof(struct handshake_terms) + CERTIFICATE_BYTES + 4];
	uint64_t mac1, mac2;
} __attribute__((packed));

struct handshake_answer {
	struct handshake_head head;
	uint32_t to_index, zero;
	uint8_t noise[NOISE_SECOND_BYTES + sizeof(struct handshake_terms)];
	uint64_t mac1, mac2; /* mac2: 0 */
} __attribute__((packed));

struct handshake_cookie {
	struct handshake_head head; /* index 0 */
	uint64_t mac1;              /* of the INIT that this answers */
	uint64_t cookie[2];
} __attribute__((packed));

/* ASK and TELL are of one length, so that no small question makes a long answer. */
struct handshake_tell {
	struct handshake_head head; /* index 0 */
	uint64_t nonce;             /* of ASK, which TELL repeats */
	uint8_t public_key[KEY_BYTES];
	uint8_t certificate[CERTIFICATE_BYTES]; /* all 0: there is none */
	uint32_t zero;
} __attribute__((packed));

#define HANDSHAKE_MESSAGE_MAX sizeof(struct handshake_init)

/* This node. Kept by the caller; secret. */
struct handshake_self {
	uint16_t node;
	uint8_t secret[KEY_BYTES], public_key[KEY_BYTES];
	uint8_t cluster[KEY_BYTES];   /* all 0: none */
	uint8_t authority[KEY_BYTES]; /* public */
	bool has_authority, has_certificate;
	bool derived; /* the nodes' keys are made from the cluster's secret */
	uint8_t certificate[CERTIFICATE_BYTES]; /* this node's */
	uint8_t (*revoked)[KEY_BYTES];
	uint32_t revoked_count;
	enum seal_mode mode;
	uint8_t lanes;
	uint32_t epoch;
	uint64_t mac1_key[2]; /* of handshake_mac1_key() */
	void (*random)(void *arg, void *bytes, size_t len);
	void *random_arg;
};

struct handshake_time {
	uint64_t us;   /* monotonic */
	uint64_t wall; /* ns since 1970 */
};

/* The state of a peer at this node. Zeroed, and `node` set, at first. */
struct handshake_peer {
	uint16_t node;
	bool pinned;   /* public_key is from [nodes] */
	bool has_key;  /* public_key is set */
	bool asking;   /* an INIT or an ASK is not answered yet */
	bool asks_key; /* ... an ASK */
	uint8_t public_key[KEY_BYTES];
	uint64_t key_until;                          /* not pinned: end of its certificate, s */
	struct noise noise;                          /* of the INIT that was sent */
	uint32_t index;                              /* of that INIT */
	uint8_t init[sizeof(struct handshake_init)]; /* it, to be sent again with a cookie */
	uint64_t nonce;                              /* of the ASK */
	uint32_t attempts;
	uint64_t again_at; /* us: when to ask again; before that, nobody is asked */
	uint64_t cookie[2], cookie_until;
	uint8_t cookies;               /* taken since it was asked last */
	uint64_t stamp_taken;          /* time of the last INIT that was taken from it */
	uint64_t stamp_floor;          /* own INITs are later than this */
	uint8_t agreed_key[KEY_BYTES]; /* public: the one that it has shown, with the last keys */
	uint32_t unbegun;              /* INITs taken since a frame with their keys came */
	uint64_t taken_at;             /* us: when the last one was */
	enum handshake_trouble trouble;
	/* Somebody who may not be the peer has shown this, and when, us; 0: nobody has. */
	enum handshake_trouble claim;
	uint64_t claim_at;
	/* Counts. */
	uint32_t agreed, refused, unreadable;
};

/* The result of an event. The keys are secret. */
struct handshake_result {
	uint32_t send_len; /* 0: nothing is to be sent to the peer */
	uint8_t send[HANDSHAKE_MESSAGE_MAX];
	bool agreed;
	bool initiated; /* by this node: it may send at once */
	struct noise_keys keys;
	uint32_t own_index, peer_index; /* by which each end knows the keys */
	uint8_t peer_lanes;
	uint32_t peer_epoch;
};

/* Ask for keys, since a lane wants to send frames to the peer. */
void handshake_want(const struct handshake_self *s, struct handshake_peer *p,
	struct handshake_time now, struct handshake_result *r);
/* Take in a message, of which nothing has been checked but handshake_check(). */
void handshake_message(const struct handshake_self *s, struct handshake_peer *p,
	struct handshake_time now, const void *message, uint32_t len, struct handshake_result *r);
/* Note that a frame has come with keys that the peer had asked for. */
void handshake_begun(struct handshake_peer *p);
/* Note that a frame without a seal has come in the peer's name. */
void handshake_unsealed(struct handshake_peer *p, struct handshake_time now);
/* Do what is due. To be called at handshake_deadline() at the latest. */
void handshake_tick(const struct handshake_self *s, struct handshake_peer *p,
	struct handshake_time now, struct handshake_result *r);
/* Return when something is due, us; UINT64_MAX: never. */
uint64_t handshake_deadline(const struct handshake_peer *p);
/* Give the peer another key, or none that is known; what was under way ends. */
void handshake_peer_key(struct handshake_peer *p, const uint8_t *public_key);
/* Return whether a key is one of those that are revoked. */
bool handshake_revoked(const struct handshake_self *s, const uint8_t public_key[KEY_BYTES]);

/* Write the key for frames from one lane to another. master: of struct noise_keys, by direction. */
void handshake_lane_key(const uint8_t master[HASH_BYTES], unsigned from_lane, unsigned to_lane,
	uint8_t key[CIPHER_KEY_BYTES]);

/* ------------------------------------------------------------------ on a lane: a keyed hash */

/* Write the key of MAC1 of messages to who has that public key. Not on a lane. */
void handshake_mac1_key(const uint8_t public_key[KEY_BYTES], uint64_t key[2]);
/* Return whether the message is a whole one, and if it needs MAC1, has the one of that key. */
bool handshake_check(const void *message, uint32_t len, const uint64_t mac1_key[2]);
/* Write the TELL that answers an ASK, sizeof(struct handshake_tell), but for its nonce. Not on a
 * lane, where handshake_tell_for() completes it. */
void handshake_tell_put(const struct handshake_self *s, struct handshake_tell *out);
static inline void
handshake_tell_for(struct handshake_tell *tell, const void *ask)
{
	tell->nonce = ((const struct handshake_tell *)ask)->nonce;
}
/* Return the step of a checked message. */
static inline enum handshake_step
handshake_step_of(const void *message)
{
	return ((const struct handshake_head *)message)->step;
}
/* Write the cookie for a node's INITs. secret: random, and another one now and then. */
void handshake_cookie_of(const uint64_t secret[2], uint16_t node, uint64_t cookie[2]);
/* Return whether an INIT has the MAC2 of that cookie. */
bool handshake_mac2_ok(const void *init, const uint64_t cookie[2]);
/* Write the COOKIE that answers an INIT, sizeof(struct handshake_cookie). */
void handshake_cookie_put(const void *init, const uint64_t cookie[2], void *out);

#endif
