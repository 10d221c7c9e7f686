/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads a node's configuration from an INI file, by a table of keys and rte_cfgfile, before
 * anything starts. doc/reference/configuration.md is generated from the same table.
 */
#ifndef PMX_NODE_CONFIG_FILE_H
#define PMX_NODE_CONFIG_FILE_H

#include <stdio.h>

#include "config/config.h"

/* Read the file `path`. Return 0, or -1 with "file:line: [section] key = value: what is allowed" in
 * error. The result owns memory: config_free(). */
int node_config_read(struct config *c, const char *path, char *error, uint32_t error_len);
/* Read a text in memory like node_config_read(). `name` stands for the file in messages. */
int node_config_read_text(struct config *c, const char *text, char *error, uint32_t error_len);
/* Call value() for each value in which a primary that takes over must agree with the previous one,
 * in the order of the table. */
void node_config_agreed(const struct config *c,
	void (*value)(void *arg, const void *bytes, size_t len), void *arg);
/* Return whether a running node may change its configuration from `before` to `after`: they differ
 * in nothing but [nodes] and keys that may change. Otherwise put a sentence that names the first
 * other difference into error. */
bool node_config_may_become(const struct config *before, const struct config *after, char *error,
	uint32_t error_len);
/* Add the nodes that an earlier primary of the name has found, as far as [nodes] does not have them
 * and this node can reach them. For one that takes over from it. */
void node_config_read_found(struct config *c);
/* Print the table of keys as Markdown. */
void node_config_print_doc(FILE *out);

#endif
