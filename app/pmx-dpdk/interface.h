/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A configuration for one interface of the kernel, of which nothing else is said: pmx-dpdk --link.
 */
#ifndef PMX_INTERFACE_H
#define PMX_INTERFACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The user says this of it. NULL: nothing. */
struct interface_wish {
	const char *name;   /* of the interface */
	const char *driver; /* udp, af_packet or af_xdp */
	const char *nodes;  /* addresses or hosts, separated by commas: nodes 0, 1, ... */
	const char *node;   /* this node's number */
	const char *instance;
};

struct interface_choice {
	char instance[64];
	char vdev[96]; /* --vdev of the EAL, or "" */
};

/* Write a configuration that suits the interface to `ini`, and tell on `why`, a line each, what it
 * is and why. Return 0, or -EINVAL with a message in error. */
int interface_choose(const struct interface_wish *wish, struct interface_choice *choice, FILE *ini,
	FILE *why, char *error, size_t error_len);

#endif
