/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sealed frames of a lane, where security.mode is not off: between the links and all else. Whatever
 * leaves by a link is sealed here, and nothing comes in that was not. The keys are agreed on by the
 * keeper (lib/node/keeper.h), on a thread of its own: a lane computes ciphers and keyed hashes, no
 * more. Lane only, unless it says otherwise.
 *
 * Design notes
 * 1. The first frames to a peer have no keys yet. They are lost, as the network may lose them, and
 *    the keeper is told. A HELLO, by which a core begins, is kept until the keys are there, so that
 *    nothing waits for its repetition.
 * 2. Keys lie in memory of the keeper's, which is locked, in no core dump and in no child; those of
 *    OpenSSL's cipher, where the CPU has no instructions for AES, in OpenSSL's. Hugepages that
 *    other processes map do not have them.
 */
#ifndef PMX_ENGINE_SEALED_H
#define PMX_ENGINE_SEALED_H

#include "engine/lane.h"
#include "handshake/gate.h"

#define SEALED_MAIL    64   /* messages of a lane that the keeper has not taken yet */
#define SEALED_AT_ONCE 8192 /* bytes */
#define SEALED_TELL_US 50   /* at least, between two TELLs of a lane */

enum sealed_news {
	SEALED_MESSAGE,  /* of a handshake */
	SEALED_WANTED,   /* keys for frames to the node */
	SEALED_UNSEALED, /* the same, and one without a seal came in the node's name */
	SEALED_CLAIMED,  /* that alone */
};

/* News of a lane for the keeper. */
struct sealed_mail {
	uint16_t node, len;
	enum sealed_news news;
	bool sealed; /* it came so */
	uint8_t message[HANDSHAKE_MESSAGE_MAX];
};

/* The state of a peer in a lane. */
struct sealed_peer {
	struct gate gate;
	/* how often a frame came with new keys that the node had asked for; the keeper reads it */
	_Atomic uint32_t begun;
	uint64_t counters[SEALED_COUNTER_COUNT];
	struct rte_mbuf *held; /* note 1 */
	uint8_t held_link;
	uint8_t turn; /* of its links, for messages of handshakes */
};

struct sealed_lane {
	enum seal_mode mode;
	_Atomic uint64_t mac1_key[2], cookie_secret[2]; /* of the keeper */
	uint64_t hz;                                    /* of TSC */
	int keeper;                                     /* eventfd: there is mail */
	/* From the lane to the keeper. */
	struct sealed_mail *mail;
	_Atomic uint32_t written, read;
	struct sealed_peer *peers; /* by node */
	uint64_t any_at;           /* TSC: gate_message */
	/* The keeper writes the one that the lane does not read. */
	struct handshake_tell tell[2];
	_Atomic uint32_t told; /* which one it reads */
	uint64_t tell_at;      /* TSC: none before */
};

/* Make a lane's part, before it polls. Free it, with all keys, when it polls no more. */
int sealed_make(struct engine *e, enum seal_mode mode, int keeper);
void sealed_free(struct engine *e);
/* Take a message for the keeper out. Keeper only. Return false if there is none. */
bool sealed_mail_take(struct sealed_lane *s, struct sealed_mail *out);

/* Open a frame that a link has received, whose data begins with the PM header. Return false if it
 * was not for the core: then it is freed. */
bool sealed_in(struct engine *e, struct rte_mbuf *m);
/* Seal the next frames of a link's queue that are not sealed yet, some SEALED_AT_ONCE bytes of
 * them: what is ready goes while others are being sealed. Those that cannot be sealed are lost. */
void sealed_out(struct engine *e, unsigned link, struct tx_queue *q);

/* Carry out one of COMMAND_KEYS*: take new keys, give up old ones, which come back in cmd->retired,
 * or send a message of a handshake. */
void sealed_command(struct engine *e, struct command *cmd);

#endif
