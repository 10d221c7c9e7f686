/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A changed configuration in a running node: [nodes], and the keys that may change. Nodes come, go
 * and move to other addresses while messages between the others go on.
 */
#ifndef PMX_NODE_RELOAD_H
#define PMX_NODE_RELOAD_H

#include "node/node.h"

/* The changes that a reload made. */
struct reload_result {
	unsigned added, removed, moved; /* nodes */
	uint64_t pause_us;              /* for which the lanes stood still */
};

/* read: the node's configuration as it was read from the file `path`, to compare later ones with
 * it; its peers are not used. 0, or -errno with a sentence. Not thread safe, as all here. */
int reload_begin(struct node *n, const struct config *read, const char *path, char *error,
	uint32_t error_len);
/* Take the file as it is now. Return 0; -EINVAL: it is wrong, or changes what cannot change, and
 * nothing has changed; -ETIMEDOUT: a lane has no CPU, nothing has changed; others: a link cannot
 * reach one of the nodes, which is as if it were not there. Each error comes with a sentence. */
int reload(struct reload_result *result, char *error, uint32_t error_len);
/* Reload like reload() if the shared file of nodes ([nodes] file) has changed since it was looked
 * at last. Return whether it has. */
bool reload_if_changed(int *error_code, struct reload_result *result, char *error,
	uint32_t error_len);
/* A node that discovery has found; peer.links == 0: that has ended. */
struct reload_found {
	uint16_t number;
	struct config_peer peer;
};
/* Take found nodes, as far as [nodes] does not have them. Return 0; -ETIMEDOUT, -ESHUTDOWN: nothing
 * has changed; -EINVAL: all but those that this node cannot reach, of one of which the sentence
 * says why. */
int reload_take_found(const struct reload_found *found, uint32_t count, char *error,
	uint32_t error_len);
/* Call `each` for every number below limits.nodes with what is known of the node, without a reload
 * in between. */
void reload_each_peer(void (*each)(void *arg, uint32_t number, const struct config_peer *peer),
	void *arg);
void reload_end(void);

#endif
