/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A configuration's file while it is read, for the parts of its reader.
 */
#ifndef PMX_NODE_READER_H
#define PMX_NODE_READER_H

#include "config/config.h"

struct rte_cfgfile;

struct config_reader {
	struct config *config;
	const char *path; /* to open */
	const char *name; /* for messages */
	char *error;
	uint32_t error_len;
	bool found; /* it is the file that discovery writes: nodes have at= and life= too */
};

/* Write to r->error what is wrong with the nth (0 = first) occurrence of a key in a section, or
 * with the section if key is NULL, and in which line it is. Return -1. */
int reader_complain(const struct config_reader *r, const char *section, const char *key, int nth,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* Write the path of a file that the configuration names: relative ones begin where the
 * configuration is. */
void reader_beside(const struct config_reader *r, const char *value, char *out, size_t size);
/* Reject malformed lines, which rte_cfgfile ignores. Return 0 or -1. */
int reader_check_lines(const struct config_reader *r);
/* Read [nodes] into r->config->peers, which is made. Return 0 or -1. */
int reader_nodes(const struct config_reader *r, struct rte_cfgfile *file);

#endif
