/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sealed frames in the simulator: every node has one lane, which seals what leaves and opens what
 * arrives by the shipped lib/handshake and lib/seal, as lib/engine/sealed.c does, and a keeper of
 * keys, which mirrors lib/node/keeper.c in virtual time. seal.c is the lane, seal_keeper.c the
 * keeper, seal_thief.c somebody who sees all frames, and seal_watch.c says what is allowed. One
 * thread.
 *
 * Design notes
 * 1. What is sealed of a frame are its header, what follows it in its packet's head, and in place
 *    of a payload its identity (struct ident). The receiver has what it opened, not what was sent.
 * 2. Every key is made by a cipher that watches: it notes each nonce, and to whom a key belongs.
 */
#ifndef PMX_SIM_SEAL_H
#define PMX_SIM_SEAL_H

#include "handshake/gate.h"
#include "sim/internal.h"

#define MAIL_MAX      64
#define THIEF_FRAMES  64
#define COOKIES_NOTED 8

/* A frame as it goes over the wire. */
struct wire_bytes {
	union {
		_Alignas(8) uint8_t b[WIRE_HDR_BYTES + HANDSHAKE_MESSAGE_MAX + 2];
		struct wire_hdr h;
	};
};

/* A peer, as a node sees it. */
struct seal_pair {
	struct gate gate;                /* the lane's */
	uint32_t held, held_link;        /* packet, NIL: none */
	struct handshake_peer handshake; /* the keeper's */
	uint8_t told_key[KEY_BYTES];     /* where there are no certificates */
	uint64_t agreed_at;              /* us; 0: never */
	bool listed;
	/* The oracle has: */
	struct keyring_keys *newest;        /* those that must seal */
	struct keyring_keys *answer;        /* those that the peer asked for and has not used yet */
	uint32_t sets;                      /* of keys that are not freed */
	uint64_t starving, deaf;            /* since when there are no keys to seal, to open with;
					     * SIM_NEVER */
	uint64_t cookies[COOKIES_NOTED][2]; /* that the node has sent to the peer in this life */
	uint32_t cookie_count;
};

struct seal_mail {
	uint16_t node, len; /* len 0: keys are wanted */
	uint8_t message[HANDSHAKE_MESSAGE_MAX];
};

struct seal_node {
	struct handshake_self self;
	struct seal_pair **pairs; /* by node; NULL: nothing has happened yet */
	struct seal_mail mail[MAIL_MAX];
	uint32_t written, read;
	uint64_t cookie_secret[2];
	uint64_t boot, wall; /* its clocks at time 0: ns */
	uint32_t life;       /* of its keys: restarts and take-overs */
	uint16_t *asking;
	uint32_t asking_count;
	uint64_t keeper_at, retire_at, cookie_at; /* ns; keeper_at: of its pending event */
	uint64_t any_at;                          /* ticks: gate_message */
	/* The keeper computes this, for that peer; it comes to effect when it is through. */
	bool works;
	uint32_t works_for;
	struct handshake_result result;
};

/* A set of numbers, with what is known of each. */
struct noted {
	uint64_t key, count;
	uint32_t src, dst;
	bool used, opened;
};
struct notes {
	struct noted *table;
	uint32_t mask, count;
};

struct seals {
	struct sim_seal cfg;
	uint64_t random, healed_at;
	uint8_t authority_secret[KEY_BYTES], authority[KEY_BYTES], cluster[KEY_BYTES];
	struct seal_node *nodes;
	struct sim_seal_count counts;
	struct cipher cipher; /* that watches */
	const struct cipher *inner;
	uint32_t node_count;
	/* The oracle has: */
	struct notes nonces, frames;
	uint32_t acting, acting_life; /* whose key is made or used */
	int64_t live_keys;
	/* The thief has: */
	struct {
		uint32_t src, dst, len;
		struct wire_bytes bytes;
	} seen[THIEF_FRAMES], asked[THIEF_FRAMES]; /* asked: messages of handshakes */
	uint32_t seen_count, asked_count;
};

/* ------------------------------------------------------------------ seal.c, seal_nodes.c */

#define HZ 1000000000u /* of a lane's clock */

extern const struct sim_wrapping seal_wrapping;
/* Free keys that came out of a pair's ring. */
void seal_free_old(struct seal_pair *p, struct keyring_keys *old[KEYRING_OLD_MAX]);

void seals_make(struct sim *s);
void seals_free(struct sim *s);
/* Begin a life of a node's keys: at first, by a restart, or by a take-over. */
void seal_begin(struct sim *s, uint32_t node, bool restart);
void seal_act(struct sim *s, uint32_t node, uint32_t peer, enum sim_seal_act what);
/* Open a packet that has arrived. Return false if it is not for the core. */
bool seal_in(struct sim *s, uint32_t packet);
/* Return the place of a packet's bytes. */
uint8_t *seal_bytes(struct sim *s, uint32_t packet);
struct seal_pair *seal_pair_of(struct sim *s, uint32_t node, uint32_t peer);
uint64_t seal_ticks(const struct sim *s, uint32_t node);
uint64_t seal_hz(const struct sim *s); /* of the ages of keys */
/* Send a message of a handshake, or with len 0 the first frame of new keys. */
void seal_say(struct sim *s, uint32_t node, uint32_t peer, uint32_t link, const void *message,
	uint32_t len);
/* Take new keys, or give up old ones. */
void seal_take_keys(struct sim *s, uint32_t node, uint32_t peer, struct keyring_keys *k);
void seal_give_up(struct sim *s, uint32_t node, uint32_t peer, bool all);
void seal_random(void *seals, void *bytes, size_t len);

/* ------------------------------------------------------------------ seal_keeper.c */

void keeper_make_self(struct sim *s, uint32_t node);
/* Have the keeper take a turn then, or before. */
void keeper_plan(struct sim *s, uint32_t node, uint64_t at);
/* Put mail into a node's box. Return false if there is no room. */
bool keeper_post(struct sim *s, uint32_t node, uint32_t peer, const void *message, uint32_t len);
void keeper_turn(struct sim *s, uint32_t node, uint64_t at);
void keeper_new_key(struct sim *s, uint32_t node);
void keeper_learn(struct sim *s, uint32_t node);
void keeper_rekey(struct sim *s, uint32_t node, uint32_t peer);
void keeper_begin(struct sim *s, uint32_t node);

/* ------------------------------------------------------------------ seal_thief.c */

void thief_sees(struct sim *s, uint32_t node, uint32_t packet);
void thief_acts(struct sim *s, uint32_t from, uint32_t to);

/* ------------------------------------------------------------------ seal_watch.c */

void watch_enter(struct sim *s); /* keys are this simulator's now */
void watch_make(struct seals *x);
void watch_free(struct seals *x);
/* Note that this node is the one that makes and uses keys now. */
void watch_acts(struct seals *x, uint32_t node);
/* Judge the keys that a node is about to seal a frame with, and note what came of it. */
void watch_sealing(struct sim *s, uint32_t node, uint32_t peer, const struct keyring_keys *k);
void watch_sealed(struct sim *s, uint32_t node, uint32_t peer, uint64_t count, const void *frame,
	uint32_t len);
/* Judge what came of opening: `frame` is as it arrived. */
void watch_opened(struct sim *s, uint32_t node, uint32_t peer, struct keyring_keys *k,
	uint64_t highest, enum seal_verdict v, const void *frame, uint32_t len);
/* Judge a pair that has no keys: it must have some soon after all is well. */
void watch_starving(struct sim *s, uint32_t node, uint32_t peer);
void watch_deaf(struct sim *s, uint32_t node, uint32_t peer, const void *frame, uint32_t len);
/* Judge an INIT that passes. was_due: it may without a cookie. */
void watch_init(struct sim *s, uint32_t node, uint32_t peer, const void *init, bool was_due);
void watch_ring(struct sim *s, uint32_t node, uint32_t peer);
void watch_leaves(struct sim *s, uint32_t node, uint32_t packet);

#endif
