/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Interfaces of the kernel: what it says of one, and a configuration for one of which nothing else
 * is said (pmx-dpdk --link).
 */
#ifndef PMX_INTERFACE_H
#define PMX_INTERFACE_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The user says this of it. NULL: nothing, but `instance` is never NULL. */
struct interface_wish {
	const char *name;   /* of the interface */
	const char *driver; /* udp, af_packet or af_xdp */
	const char *nodes;  /* addresses or hosts, separated by commas: nodes 0, 1, ... */
	const char *node;   /* this node's number */
	const char *seed;   /* hosts that know the other nodes, separated by commas */
	const char *seal;   /* a secret of the cluster, with which frames are sealed */
	const char *instance;
};

#define VDEV_BYTES 96

/* Ask the kernel for something of an interface: `what` is the number of an ioctl. Return whether *r
 * has the answer. */
bool interface_ask(const char *name, unsigned long what, struct ifreq *r);

/* Write a configuration that suits the interface to `ini`, and tell on `why`, a line each, what it
 * is and why. vdev: of VDEV_BYTES, the --vdev argument that the EAL needs, or "". Return 0, or
 * -EINVAL with a message in error. */
int interface_choose(const struct interface_wish *wish, char *vdev, FILE *ini, FILE *why,
	char *error, size_t error_len);

#endif
