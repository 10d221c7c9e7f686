/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What one lane decides about frames of one peer, where frames are sealed: with which keys a frame
 * goes or was sealed, when others are to be asked for, and which messages of handshakes may cost
 * the keeper of keys (lib/node/keeper.h) time. lib/engine/sealed.c brings frames, clock and
 * counters to it; lib/sim does so in virtual time. Sans-IO: the time comes in, in ticks of hz a
 * second. One thread for each struct gate.
 *
 * Design notes
 * 1. What strangers send must not make this node compute: so frames of unknown keys make it ask for
 *    others only where it has none.
 * 2. Who has asked for keys begins them by a frame, which may be lost. If it has nothing more to
 *    say, its peer goes on with the old keys, which it may have lost by a restart or a take-over.
 *    It answers such a frame by another first one, so that its peer changes over.
 */
#ifndef PMX_HANDSHAKE_GATE_H
#define PMX_HANDSHAKE_GATE_H

#include "handshake/keyring.h"

/* Zeroed at first. */
struct gate {
	struct keyring keys;
	uint64_t want_at, init_at, show_at, cookie_at, claim_at; /* ticks: not again before */
	/* The last INIT or ASK to the peer said these, by which its answer is known; 0: none is
	 * awaited. They are as in the messages. */
	uint32_t asked_index;
	uint64_t asked_mac1, asked_nonce;
	uint8_t answers;   /* that have passed for it */
	uint64_t heard_at; /* ticks: when a frame of the peer was opened last */
	uint8_t unheard;   /* questions of the core that were sealed since then */
};

enum gate_message {
	GATE_DROP,
	GATE_PASS,   /* to the keeper */
	GATE_COOKIE, /* its sender has to show first that it gets frames: answer with a COOKIE */
	GATE_TELL,   /* answer with a TELL, which is the same for all but the nonce */
};

enum gate_stranger {
	GATE_KNOWN,
	GATE_UNSEALED, /* it begins without a seal, and there are no keys: the keeper may be told */
	GATE_CLAIMED,  /* ... there are some, by which nothing was heard lately: it may be told that
			* somebody speaks in the peer's name, but others are not to be asked for */
	GATE_NO_KEY,   /* of keys that this lane does not have (any more) */
	GATE_SHOW,     /* ... and its sender is to be shown those that it has: note 2 */
	GATE_KEYLESS,  /* ... and it has none to seal with: they are to be asked for */
};

/* Return whether the keeper may be told now that keys are wanted, and note that it is. */
bool gate_may_want(struct gate *g, uint64_t now, uint64_t hz);
/* Note by what the answer to a message of a handshake, which goes to the peer, is known. */
void gate_asks(struct gate *g, const void *message);
/* Judge a message of a handshake that handshake_check() has passed: notes 3 and 4. any_at: of all
 * peers of the lane, ticks: no INIT without a cookie before. */
enum gate_message gate_message(struct gate *g, uint64_t *any_at, const void *message,
	const uint64_t cookie[2], bool busy, uint64_t now, uint64_t hz);
/* Judge one that came sealed, and so from the peer. */
enum gate_message gate_sealed_message(struct gate *g, const void *message, bool busy, uint64_t now,
	uint64_t hz);
/* Return the keys that a received frame names, or NULL and why there are none. own: this node. */
struct keyring_keys *gate_keys_of(struct gate *g, const struct wire_hdr *h, uint16_t own,
	uint64_t now, uint64_t hz, enum gate_stranger *why);
/* Return whether a peer that shows those keys, by an empty frame, does not have the ones that this
 * node seals with: then others are to be asked for. */
bool gate_lacks(const struct gate *g, const struct keyring_keys *k);
/* Open a frame where it lies, with those keys. *begun: they begin by it. */
enum seal_verdict gate_open(struct gate *g, struct keyring_keys *k, enum seal_mode mode,
	void *frame, uint32_t len, uint64_t now, bool *begun);
/* Return the keys for a frame to the peer, or NULL. *wants: others are to be asked for. */
struct keyring_keys *gate_keys_for(struct gate *g, const struct wire_hdr *h, uint64_t now,
	uint64_t hz, bool *wants);
/* Seal a frame with keys of gate_keys_for(), as seal_frame(). *wants: the keys have few counts
 * left, and others are to be asked for. */
uint32_t gate_seal(struct keyring_keys *k, enum seal_mode mode, const void *frame, uint32_t len,
	void *to, bool *wants);

#endif
