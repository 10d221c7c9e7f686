/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Replaces secondary.c and embedded.c if the library is built without DPDK: it can then attach only
 * as a thin client.
 */
#include <errno.h>
#include <stdio.h>

#include "client/client.h"

int
secondary_attach(struct pmx_node *node, const char *instance, int cpu)
{
	(void)node;
	(void)instance;
	(void)cpu;
	return -ENOTSUP;
}

void
secondary_let_go(struct pmx_node *node)
{
	(void)node;
}

int
pmx_node_start(struct pmx_node **node, const struct pmx_node_params *params, char *error,
	uint32_t error_len)
{
	(void)node;
	(void)params;
	if (error != NULL)
		snprintf(error, error_len,
			"this libpmx is built without DPDK: attach to a primary, or use the other "
			"build");
	return -ENOTSUP;
}

unsigned
pmx_node_poll(struct pmx_node *node)
{
	(void)node;
	return 0;
}
