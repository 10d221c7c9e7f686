/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_common.h>
#include <rte_kvargs.h>

#include "memif_socket.h"

/* Return whether a socket is there at which nobody listens. Whoever listens keeps it, and sees a
 * client that goes at once. */
static bool
is_left(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct stat st;

	if (lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode))
		return false;
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool left = false;

	if (fd < 0)
		return false;
	if (strlen(path) < sizeof(address.sun_path)) {
		strcpy(address.sun_path, path);
		left = connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 &&
			errno == ECONNREFUSED;
	}
	close(fd);
	return left;
}

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
		(says(pairs, "role", "server") || says(pairs, "role", "master")) && is_left(socket))
		unlink(socket);
	rte_kvargs_free(pairs);
}

void
memif_sockets_clear(int argc, char *const argv[])
{
	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], "--vdev=", 7) == 0)
			clear(argv[i] + 7);
		else if (strcmp(argv[i], "--vdev") == 0 && i + 1 < argc)
			clear(argv[++i]);
	}
}
