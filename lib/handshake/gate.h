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
	/* ticks: not again before; open_at: by enum handshake_step, of INIT: a cookie */
	uint64_t want_at, init_at, show_at, open_at[HANDSHAKE_STEPS];
	uint64_t heard_at; /* ticks: when a frame of the peer was opened last */
};

enum gate_message {
	GATE_DROP,
	GATE_PASS,   /* to the keeper */
	GATE_COOKIE, /* its sender has to show first that it gets frames: answer with a COOKIE */
};

enum gate_stranger {
	GATE_KNOWN,
	GATE_UNSEALED, /* the peer begins without a seal: the keeper may be told */
	GATE_NO_KEY,   /* of keys that this lane does not have (any more) */
	GATE_SHOW,     /* ... and its sender is to be shown those that it has: note 2 */
	GATE_KEYLESS,  /* ... and it has none to seal with: they are to be asked for */
};

/* Return whether the keeper may be told now that keys are wanted, and note that it is. */
bool gate_may_want(struct gate *g, uint64_t now, uint64_t hz);
/* Judge a message of a handshake that handshake_check() has passed. INITs pass now and then while
 * the keeper is not busy, and always with the MAC2 of the sender's cookie. */
enum gate_message gate_message(struct gate *g, const void *message, const uint64_t cookie[2],
	bool busy, uint64_t now, uint64_t hz);
/* Return the keys that a received frame names, or NULL and why there are none. */
struct keyring_keys *gate_keys_of(struct gate *g, const struct wire_hdr *h, uint64_t now,
	uint64_t hz, enum gate_stranger *why);
/* Open a frame where it lies, with those keys. *begun: they begin by it. */
enum seal_verdict gate_open(struct gate *g, struct keyring_keys *k, enum seal_mode mode,
	void *frame, uint32_t len, uint64_t now, bool *begun);
/* Return the keys for a frame to the peer, or NULL. *wants: others are to be asked for. */
struct keyring_keys *gate_keys_for(const struct gate *g, const struct wire_hdr *h, uint64_t now,
	uint64_t hz, bool *wants);
/* Seal a frame with keys of gate_keys_for(), as seal_frame(). *wants: the keys have few counts
 * left, and others are to be asked for. */
uint32_t gate_seal(struct keyring_keys *k, enum seal_mode mode, const void *frame, uint32_t len,
	void *to, bool *wants);

#endif
