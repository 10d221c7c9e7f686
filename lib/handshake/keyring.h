/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The keys of one lane for one peer while they are in use: which of them seals, which of them open,
 * and when others are needed. Sans-IO: the time comes in, in ticks of the caller. One thread for
 * each struct keyring, but keys may be made and freed by another.
 *
 * Design notes
 * 1. A lane has its own part of the keys of two nodes: one for its frames to each lane of the peer,
 *    and one for those that each of these sends to it. So no key has two threads.
 * 2. Keys that this node has asked for seal at once. Those that the peer asked for seal when a
 *    frame with them has come: only then is it sure that the peer has them, and that it is the
 *    peer, not somebody who repeats its question.
 * 3. Those of before open what is still on its way.
 */
#ifndef PMX_HANDSHAKE_KEYRING_H
#define PMX_HANDSHAKE_KEYRING_H

#include "handshake/handshake.h"
#include "seal/seal.h"

#define KEYRING_SOON_S  120 /* age at which who asked for the keys asks for others */
#define KEYRING_LATER_S 130 /* ... at which the other one does */
#define KEYRING_DEAD_S  180 /* age from which keys are not used */
#define KEYRING_OLD_MAX 4

/* Secret. */
struct keyring_keys {
	bool initiated;     /* by this node */
	uint8_t lanes;      /* of the peer */
	uint32_t own_index; /* by which the peer's frames name them */
	uint64_t made_at;   /* ticks */
	size_t bytes;       /* of this memory */
	const struct cipher *cipher;
	struct seal_tx tx[HANDSHAKE_LANES_MAX]; /* by the peer's lane */
	struct seal_rx *rx;                     /* ... `lanes` of them */
};

/* Zeroed at first. */
struct keyring {
	struct keyring_keys *current;  /* it seals, and opens */
	struct keyring_keys *previous; /* it opens */
	struct keyring_keys *next;     /* it opens, and then becomes current: note 2 */
	struct keyring_keys *oldest;   /* not used any more, and not taken out yet */
};

/* Make one lane's part of what two nodes agreed on. Return NULL if there is no memory. Any
 * thread. */
struct keyring_keys *keyring_keys_make(const struct cipher *c,
	const struct handshake_result *agreed, unsigned own_lane, uint64_t now);
/* Wipe and free them. Any thread; they must be in no ring. */
void keyring_keys_free(struct keyring_keys *k);
/* Wipe and free all that came out of use. */
void keyring_free_old(struct keyring_keys *const old[KEYRING_OLD_MAX]);

/* Add keys. Write those that came out of use to old[]; those that are not NULL are the caller's. */
void keyring_add(struct keyring *r, struct keyring_keys *k,
	struct keyring_keys *old[KEYRING_OLD_MAX]);
/* Take out keys that are too old, or all. */
void keyring_take(struct keyring *r, bool all, uint64_t now, uint64_t hz,
	struct keyring_keys *old[KEYRING_OLD_MAX]);
/* Return the keys that a received frame names, or NULL. */
struct keyring_keys *keyring_named(const struct keyring *r, uint32_t index, uint64_t now,
	uint64_t hz);
/* Note that a frame was opened with these keys of the ring. Return whether they begin by that. */
bool keyring_opened(struct keyring *r, const struct keyring_keys *k);
/* Return the keys to seal with, or NULL. *wants: others are to be asked for. */
struct keyring_keys *keyring_sealing(const struct keyring *r, uint64_t now, uint64_t hz,
	bool *wants);

#endif
