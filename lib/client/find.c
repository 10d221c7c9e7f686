/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which primaries of this host take connections of this user, by the sockets that they listen on.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "channel/instance.h"
#include "client/client.h"

#define SUFFIX ".sock"

_Static_assert(sizeof(((struct pmx_found *)0)->instance) == INSTANCE_NAME_MAX,
	"pmx_found has room for every name");

/* Writes the name of the instance whose socket has that file name; false: it is no such socket. */
static bool
name_of(const char *file, char *name)
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

	return name_of(d->d_name, name);
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

/* Appends the instances that listen in that directory to the `have` ones. Returns how many there
 * are then, or -ENOMEM. */
static int
find_in(const char *dir, struct pmx_found *found, unsigned have, unsigned n)
{
	struct dirent **files;
	int count = scandir(dir, &files, is_socket, alphasort);

	if (count < 0) /* nobody ever listened there, or not for this user */
		return errno == ENOMEM ? -ENOMEM : (int)have;
	for (int i = 0; i < count; i++) {
		char name[INSTANCE_NAME_MAX], path[256];

		name_of(files[i]->d_name, name);
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
	const char *home = getenv("XDG_RUNTIME_DIR");
	char dir[128];
	int have = find_in(ATTACH_SOCKETS, found, 0, n);

	if (have >= 0 && home != NULL &&
		(size_t)snprintf(dir, sizeof(dir), "%s/pmx-dpdk", home) < sizeof(dir))
		have = find_in(dir, found, (unsigned)have, n);
	return have;
}
