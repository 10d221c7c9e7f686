/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Would a node of this configuration start?
 */
#ifndef PMX_NODE_CHECK_H
#define PMX_NODE_CHECK_H

#include "config/config.h"

/* What no single key can see: section, key ("" = the section), and what is wrong. */
struct config_fault {
	char section[32], key[32], text[384];
};
/* 0; -1: no node of this configuration would start anywhere. config_read asks it. */
int node_config_check(const struct config *c, struct config_fault *f);

/* What the host and the EAL arguments give a node. */
struct config_host {
	unsigned lcores;
	uint64_t descriptors; /* that this process may have */
	uint64_t page_files;  /* that the EAL keeps open */
	uint64_t memory_most; /* bytes that the EAL may have if nobody else takes any */
	uint64_t memory_free; /* ... now */
	uint64_t page_bytes;
	const char *memory_of;   /* "hugepages" */
	const char *memory_more; /* how to have more: end of a sentence */
};
/* 0 and a node would start, as far as can be told without touching devices. -EINVAL: it cannot,
 * -EAGAIN: not now, with a sentence in error. */
int node_config_check_start(const struct config *c, const struct config_host *h, char *error,
	uint32_t error_len);

#endif
