/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The keeper of a node's keys, where security.mode is not off: a thread that agrees on keys with
 * the peers (lib/handshake) and gives them to the lanes (lib/engine/sealed.h).
 */
#ifndef PMX_NODE_KEEPER_H
#define PMX_NODE_KEEPER_H

#include "engine/lane.h"
#include "handshake/handshake.h"

/* Read the files that [security] names. Return 0, or -errno and a sentence. */
int keeper_check(const struct config *c, char *error, uint32_t error_len);
/* Begin, when the lanes are made and do not poll yet. Does nothing where security.mode is off.
 * Return 0, or -errno and a sentence. */
int keeper_begin(struct node *n, char *error, uint32_t error_len);
/* End, when the lanes do not poll any more. All keys are wiped. */
void keeper_end(struct node *n);
/* Keep the keeper from n->config.peers while these change. */
void keeper_lock(struct node *n);
void keeper_unlock(struct node *n);
/* Take the key that a peer must have by n->config.peers, which has changed. What was agreed on with
 * another one ends. While lanes poll, with the lock. */
void keeper_peer_changed(struct node *n, uint16_t node);
/* Take keys and files as they are now in n->config, whose peers have changed already, and in
 * `files`, of which [security] counts. Keys that are agreed on with a peer whose key is another
 * one, or is revoked, end. While lanes poll, with the lock. Return 0, or -errno and a sentence:
 * nothing has changed. */
int keeper_reload(struct node *n, const struct config *files, char *error, uint32_t error_len);

/* The state of a peer's keys, for people. */
struct keeper_view {
	enum handshake_trouble trouble;
	enum handshake_trouble claim;         /* of the last minute: struct handshake_peer */
	bool has_keys;                        /* that are not too old */
	uint32_t age_s;                       /* of these */
	uint32_t agreed, refused, unreadable; /* handshakes */
	bool pinned;
};
/* Return when this node's certificate ends, s since 1970; 0: it has none. Any thread. */
uint64_t keeper_certificate_until(const struct node *n);
/* Return false if there is nothing. Any thread. */
bool keeper_view(const struct node *n, uint16_t node, struct keeper_view *out);

#endif
