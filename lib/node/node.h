/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A node: its links, channels and lanes, made from a configuration before any lane polls, and freed
 * after all have stopped. Not thread safe, except for commands.
 */
#ifndef PMX_NODE_H
#define PMX_NODE_H

#include "engine/lane.h"

/* The services of every node; NULL after the last. Defined by what lists the features:
 * lib/features/engine.c. */
extern const struct service_ops *const features_engine[];

/* Start a node from a configuration, which then belongs to the node. The EAL must run. Return 0, or
 * a negative errno with a message in error. node_stop() frees what node_start() made; lanes must
 * not poll any more. */
int node_start(struct node **out, struct config *config, char *error, uint32_t error_len);
void node_stop(struct node *n);
/* End the node of a primary that is about to end: close the ports, and tell applications. Memory
 * that other processes map is not freed. */
void node_end(struct node *n);

/* Return the configuration of a lane's core, with all that is known at its start. */
struct proto_config node_proto_config(const struct engine *e);
/* Do a part of node_start(): node_make() does what takes long, and node_link() what needs the
 * ports. A node that takes over asks the other primary between them. */
int node_make(struct node **out, struct config *config, char *error, uint32_t error_len);
int node_link(struct node *n, char *error, uint32_t error_len);

/* Tell the lane's core which nodes [nodes] does not have. While the lane does not poll. */
void node_tell_strangers(const struct engine *e);

/* Have the lane that owns cmd->ctx carry out a command, from another thread (wait = true) or from
 * the lane's own thread (wait = false). Return the result; -ETIMEDOUT if the lane does not answer,
 * -ESHUTDOWN if it has stopped. */
int node_command(struct node *n, struct command *cmd, bool wait);
/* Have all lanes wait between two turns, until node_resume(), so that what they read, and what is
 * theirs, may be changed. Return 0; -ETIMEDOUT or -ESHUTDOWN: they go on. Any thread but a lane. */
int node_pause(struct node *n);
void node_resume(struct node *n);

/* Map the memory behind a client's descriptor as memory of cmd's context, for the links' devices as
 * well if they can read it. Return its number, or -errno. adopted: as attach_request.adopted; wait:
 * as node_command's. Any thread but a lane that others wait for. */
int node_map_memory(struct node *n, struct command *cmd, bool wait, int fd, uint64_t len,
	uint64_t client, uint16_t adopted);

#endif
