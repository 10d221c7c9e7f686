/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include <rte_common.h>
#include <rte_kvargs.h>

#include "channel/instance.h"
#include "node/memif_socket.h"

static bool
says(const struct rte_kvargs *pairs, const char *key, const char *text)
{
	const char *value = rte_kvargs_get(pairs, key);

	return value != NULL && strstr(value, text) != NULL;
}

/* Clear the socket of a virtual device, "net_memif0,role=server,socket=PATH,socket-abstract=no". */
static void
clear(const char *device)
{
	const char *arguments = strchr(device, ',');
	struct rte_kvargs *pairs;

	if (strncmp(device, "net_memif", 9) != 0 || arguments == NULL ||
		(pairs = rte_kvargs_parse(arguments + 1, NULL)) == NULL)
		return;
	const char *socket = rte_kvargs_get(pairs, "socket");

	if (socket != NULL && says(pairs, "socket-abstract", "no") &&
		(says(pairs, "role", "server") || says(pairs, "role", "master")) &&
		is_stale_socket(socket))
		unlink(socket);
	rte_kvargs_free(pairs);
}

void
node_memif_sockets_clear(int argc, char *const argv[])
{
	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], "--vdev=", 7) == 0)
			clear(argv[i] + 7);
		else if (strcmp(argv[i], "--vdev") == 0 && i + 1 < argc)
			clear(argv[++i]);
	}
}
