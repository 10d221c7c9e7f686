/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which primaries of this host take connections of this user, by the sockets that they listen on,
 * and which of their nodes has an address.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <netdb.h>
#include <net/ethernet.h>
#include <netinet/ether.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel/instance.h"
#include "client/client.h"

#define SUFFIX ".sock"

_Static_assert(sizeof(((struct pmx_found *)0)->instance) == INSTANCE_NAME_MAX,
	"pmx_found has room for every name");

/* Write the name of the instance whose socket has that file name. Return false if it is no such
 * socket. */
static bool
find_name_of(const char *file, char *name)
{
	size_t len = strlen(file), suffix = strlen(SUFFIX);

	if (len <= suffix || len - suffix >= INSTANCE_NAME_MAX ||
		strcmp(file + len - suffix, SUFFIX) != 0)
		return false;
	memcpy(name, file, len - suffix);
	name[len - suffix] = 0;
	return instance_name_ok(name);
}

static int
is_socket(const struct dirent *d)
{
	char name[INSTANCE_NAME_MAX];

	return find_name_of(d->d_name, name);
}

static bool
is_known(const struct pmx_found *found, unsigned n, const char *name)
{
	for (unsigned i = 0; i < n; i++) {
		if (strcmp(found[i].instance, name) == 0)
			return true;
	}
	return false;
}

/* Append the instances that listen in that directory to the `have` ones. Return how many there are
 * then, or -ENOMEM. */
static int
find_in(const char *dir, struct pmx_found *found, unsigned have, unsigned n)
{
	struct dirent **files;
	int count = scandir(dir, &files, is_socket, alphasort);

	if (count < 0) /* nobody ever listened there, or not for this user */
		return errno == ENOMEM ? -ENOMEM : (int)have;
	for (int i = 0; i < count; i++) {
		char name[INSTANCE_NAME_MAX], path[256];

		find_name_of(files[i]->d_name, name);
		free(files[i]);
		if (have == n || is_known(found, have, name) ||
			(size_t)snprintf(path, sizeof(path), "%s/%s" SUFFIX, dir, name) >=
				sizeof(path))
			continue;
		int fd = way_thin_connect(path);

		if (fd < 0)
			continue;
		close(fd);
		strcpy(found[have++].instance, name);
	}
	free(files);
	return (int)have;
}

int
pmx_node_find(struct pmx_found *found, unsigned n)
{
	char dir[128];
	int have = find_in(ATTACH_SOCKETS, found, 0, n);

	if (have >= 0 && own_sockets(dir, sizeof(dir)))
		have = find_in(dir, found, (unsigned)have, n);
	return have;
}

/* ------------------------------------------------------------------ nodes */

static bool
is_this_host(const char *instance, const char *text)
{
	char host[256] = "";
	struct in_addr v4;
	struct in6_addr v6;

	gethostname(host, sizeof(host) - 1);
	return strcmp(text, instance) == 0 || strcmp(text, "localhost") == 0 ||
		strcmp(text, host) == 0 ||
		(inet_pton(AF_INET, text, &v4) == 1 && ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET) ||
		(inet_pton(AF_INET6, text, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6));
}

/* Set the address or the name that the request asks for. Return false if the text is neither. */
static bool
set_asked(struct attach_request *request, const char *text)
{
	uint8_t bytes[16] = {0};
	struct ether_addr mac;

	if (inet_pton(AF_INET, text, bytes) == 1) {
		request->ctx = ATTACH_IPV4;
	} else if (inet_pton(AF_INET6, text, bytes) == 1) {
		request->ctx = ATTACH_IPV6;
	} else if (ether_aton_r(text, &mac) != NULL) {
		request->ctx = ATTACH_MAC;
		memcpy(bytes, &mac, sizeof(mac));
	} else if (channel_name_ok(text)) {
		request->ctx = ATTACH_NAME;
		channel_name_hash(text, bytes);
	} else {
		return false;
	}
	memcpy(&request->addr, bytes, 8);
	memcpy(&request->len, bytes + 8, 8);
	return true;
}

/* Ask for the node that has one of the host's addresses. */
static int
ask_by_dns(struct pmx_node *node, struct attach_request *request, struct attach_reply *reply,
	const char *host)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
	struct addrinfo *all, *a;
	int result = -ENOENT;

	if (getaddrinfo(host, NULL, &hints, &all) != 0)
		return -ENOENT;
	for (a = all; a != NULL && result == -ENOENT; a = a->ai_next) {
		char text[INET6_ADDRSTRLEN];

		if (getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof(text), NULL, 0,
			    NI_NUMERICHOST) == 0 &&
			set_asked(request, text))
			result = way_thin_ask(node, request, -1, reply, NULL);
	}
	freeaddrinfo(all);
	return result;
}

int
pmx_node_resolve(const char *instance, const char *text, uint16_t *number)
{
	struct attach_request request = {.abi = CHANNEL_ABI, .op = ATTACH_NODE, .pid = getpid()};
	struct attach_reply reply;
	struct pmx_node node = {.asking = PTHREAD_MUTEX_INITIALIZER};
	char *end;
	unsigned long n = strtoul(text, &end, 10);

	if (text[0] >= '0' && text[0] <= '9' && *end == 0 && n < UINT16_MAX) {
		*number = (uint16_t)n;
		return 0;
	}
	bool own = is_this_host(instance, text);

	if (!own && !set_asked(&request, text))
		return -EINVAL;
	int result = way_thin_attach(&node, instance);

	if (result != 0)
		return result;
	if (!own)
		result = way_thin_ask(&node, &request, -1, &reply, NULL);
	if (result == -ENOENT && request.ctx == ATTACH_NAME)
		result = ask_by_dns(&node, &request, &reply, text);
	close(node.socket);
	if (result == 0)
		*number = own ? node.number : reply.node;
	return result;
}
