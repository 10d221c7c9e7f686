/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A node: its links, channels and lanes, made from a configuration before any lane polls, and ended
 * after all have stopped. Not thread safe but for commands.
 */
#ifndef PMX_NODE_H
#define PMX_NODE_H

#include "engine/lane.h"

/* What its lanes do beside plain messages; NULL behind the last. services.c. */
extern const struct service_ops *const node_services[];

/* Start from a configuration, which the node takes over. eal must run. 0, or negative errno with
 * a sentence in error. node_stop ends what node_start began; lanes must not poll any more. */
int node_start(struct node **out, struct config *config, char *error, uint32_t error_len);
void node_stop(struct node *n);
/* A primary that is about to end: applications see it, ports close. What other processes map stays
 * for them, until they let it go. */
void node_end(struct node *n);

/* How the lane's core is configured; without a seed. */
struct proto_config node_proto_config(const struct engine *e);
/* The two parts of node_start, for a node that takes over between them: what takes long, and what
 * needs the ports. */
int node_make(struct node **out, struct config *config, char *error, uint32_t error_len);
int node_link(struct node *n, char *error, uint32_t error_len);

/* Ask the lane that owns cmd->ctx, from another thread (wait = true), or from the lane's own
 * thread (wait = false). Returns the result, -ETIMEDOUT if the lane does not answer. */
int node_command(struct node *n, struct command *cmd, bool wait);

/* A client's descriptor, mapped here, and for the links' devices if they can, becomes memory of
 * cmd's context: its number, or -errno. adopted: as attach_request.adopted; wait: as
 * node_command's. Any thread but a lane that others wait for. */
int node_map_memory(struct node *n, struct command *cmd, bool wait, int fd, uint64_t len,
	uint64_t client, uint16_t adopted);

#endif
