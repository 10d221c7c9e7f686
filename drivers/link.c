/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Opens and closes links: finds the driver by its name in the config and wraps it in the fault link
 * if faults are configured. Owns nothing but the table of drivers. Called by the thread that starts
 * and stops the node, never while an engine polls the link.
 */
#include "link.h"

#include "fault_model.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The fault link is not in this table: the config does not name it, but asks for it by `fault`. */
#define DRIVER_ROW(name, what) &link_##name##_ops,
static const struct link_ops *const drivers[] = {LINK_DRIVERS(DRIVER_ROW, )};

#define DRIVERS (sizeof(drivers) / sizeof(drivers[0]))

const struct link_ops *
link_driver(const char *name)
{
	size_t i;

	for (i = 0; i < DRIVERS; i++)
		if (strcmp(drivers[i]->name, name) == 0)
			return drivers[i];
	return NULL;
}

enum link_peers
link_peers(const struct link_config *config)
{
	const struct link_ops *ops = link_driver(config->driver);

	return ops != NULL ? ops->peers : LINK_PEERS_NONE;
}

bool
link_by_ip(const struct link_config *config)
{
	return link_peers(config) == LINK_PEERS_IP || config->encap == LINK_ENCAP_UDP;
}

void
link_peer_text(const struct link_config *config, const struct link_addr *a,
	char text[LINK_ADDR_MAX])
{
	*text = 0;
	if (link_by_ip(config))
		link_addr_text(a, text);
	else if (link_peers(config) == LINK_PEERS_MAC)
		rte_ether_format_addr(text, LINK_ADDR_MAX, &a->mac);
}

static int
unknown_driver(const char *name, char *error, size_t error_size)
{
	char known[LINK_NAME_MAX] = "";
	size_t i, used = 0;

	for (i = 0; i < DRIVERS && used < sizeof(known); i++)
		used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s",
			i == 0 ? "" : ", ", drivers[i]->name);
	snprintf(error, error_size, "link: unknown driver \"%s\"; allowed are %s", name, known);
	return -EINVAL;
}

int
link_check(const struct link_config *config, char *error, size_t error_size)
{
	const struct link_ops *ops = link_driver(config->driver);
	struct fault_config unused;

	if (ops == NULL)
		return unknown_driver(config->driver, error, error_size);
	if (fault_config_parse(&unused, config->fault, error, error_size) != 0)
		return -EINVAL;
	return ops->check(config, error, error_size);
}

int
link_open(struct link *l, const struct link_config *config, uint16_t node, struct rte_mempool *pool)
{
	int rc;

	memset(l, 0, sizeof(*l));
	l->config = *config;
	l->node = node;
	l->pool = pool;
	rc = link_check(config, l->error, sizeof(l->error));
	if (rc != 0)
		return rc;
	l->ops = link_driver(config->driver);
	l->slow = l->ops->slow;
	if (config->rate_mbps != LINK_RATE_AUTO)
		l->rate_bps = config->rate_mbps * UINT64_C(1000000);
	rc = config->fault[0] != '\0' ? link_fault_ops.open(l) : l->ops->open(l);
	if (rc != 0)
		l->ops = NULL;
	return rc;
}

void
link_close(struct link *l)
{
	if (l->ops == NULL)
		return;
	l->ops->close(l);
	l->ops = NULL;
	l->priv = NULL;
	l->up = false;
}
