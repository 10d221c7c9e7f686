/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Finds the primaries of this host: each has a runtime directory, made by the EAL and named by its
 * --file-prefix.
 *
 * Design note
 * 1. Directories outlive their primaries. One is alive if its telemetry socket takes a connection,
 *    or if somebody holds the EAL's lock on its `config`. Both are checked without taking a lock or
 *    writing, so that this cannot disturb a start.
 * 2. During a take-over two primaries of one instance run, in two directories. When the older one
 *    has ended, its name becomes a link to the other's directory. For a moment before there is
 *    none, so both directories are looked at.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "channel/instance.h"
#include "ctl.h"
#include "pmx/pmx.h"

#define OTHERS_MOST 16 /* primaries of other users */

char *
instance_prefix(const char *name, unsigned directory)
{
	return text("%s%s", name, directory != 0 ? "+" : "");
}

unsigned
instance_directory(const char *prefix, size_t len)
{
	return len > 1 && prefix[len - 1] == '+';
}

int
instance_find(const struct instance *list, unsigned count, const char *name, size_t len)
{
	for (unsigned i = 0; i < count; i++) {
		if (strlen(list[i].name) == len && strncmp(list[i].name, name, len) == 0)
			return (int)i;
	}
	return -1;
}

int
instance_connect(const char *name, unsigned directory, char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	char *prefix = instance_prefix(name, directory);

	snprintf(path, CTL_PATH_MAX, "%s/dpdk/%s/dpdk_telemetry.v2", eal_base(), prefix);
	free(prefix);
	if (strlen(path) >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	strcpy(to.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0) {
		int error = errno;

		close(fd);
		return -error;
	}
	return fd;
}

/* Return whether a primary with that prefix holds the lock: while it runs, it keeps a write lock on
 * a part of its config file. */
static bool
primary_holds(const char *prefix)
{
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET};
	char path[CTL_PATH_MAX];

	snprintf(path, sizeof(path), "%s/dpdk/%s/config", eal_base(), prefix);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	bool held = fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type == F_WRLCK;

	close(fd);
	return held;
}

static enum instance_state
find_state(const char *name, unsigned directory)
{
	char path[CTL_PATH_MAX];
	int fd = instance_connect(name, directory, path);

	if (fd >= 0) {
		close(fd);
		return INSTANCE_LIVE;
	}
	char *prefix = instance_prefix(name, directory);
	const bool held = primary_holds(prefix);

	free(prefix);
	return held                             ? INSTANCE_SILENT
		: fd == -EACCES || fd == -EPERM ? INSTANCE_DENIED
						: INSTANCE_DEAD;
}

static int
is_instance(const struct dirent *d)
{
	return d->d_name[0] != '.' && (d->d_type == DT_DIR || d->d_type == DT_UNKNOWN);
}

/* Return the instance of that name, which is added to the list if it is not there. */
static struct instance *
entry_of(struct instance *list, unsigned *count, const char *name, size_t len)
{
	const int known = instance_find(list, *count, name, len);

	if (known >= 0)
		return &list[known];
	struct instance *i = &list[(*count)++];

	snprintf(i->name, sizeof(i->name), "%.*s", (int)len, name);
	i->state = INSTANCE_NONE;
	for (unsigned k = 0; k < INSTANCE_DIRECTORIES; k++)
		i->state_of[k] = INSTANCE_NONE;
	return i;
}

static void
add_directory(struct instance *list, unsigned *count, const char *prefix)
{
	const size_t len = strlen(prefix);
	const unsigned directory = instance_directory(prefix, len);
	struct instance *i = entry_of(list, count, prefix, len - directory);

	i->state_of[directory] = find_state(i->name, directory);
	if (i->state > i->state_of[directory])
		i->state = i->state_of[directory];
}

/* Add the primaries of other users that this one may attach to, and so may ask. */
static void
add_others(struct instance *list, unsigned *count)
{
	struct pmx_found found[OTHERS_MOST];
	const int n = pmx_node_find(found, OTHERS_MOST);

	for (int i = 0; i < n && i < OTHERS_MOST; i++) {
		const char *name = found[i].instance;
		struct instance *other = entry_of(list, count, name, strlen(name));

		if (other->state == INSTANCE_NONE)
			other->state = INSTANCE_LIVE;
	}
}

struct instance *
instance_list(unsigned *count)
{
	struct dirent **names;
	char base[CTL_PATH_MAX];

	snprintf(base, sizeof(base), "%s/dpdk", eal_base());
	int n = scandir(base, &names, is_instance, alphasort);

	*count = 0;
	if (n < 0) {
		names = NULL;
		n = 0;
	}
	struct instance *list = calloc((size_t)n + OTHERS_MOST, sizeof(*list));

	for (int i = 0; i < n; i++) {
		if (list != NULL)
			add_directory(list, count, names[i]->d_name);
		free(names[i]);
	}
	free(names);
	if (list != NULL && getuid() != 0)
		add_others(list, count);
	return list;
}

char *
instance_names(const struct instance *list, unsigned count, enum instance_state state)
{
	char *names = text("%s", "");

	for (unsigned i = 0; i < count; i++) {
		if (list[i].state != state)
			continue;
		char *longer = text("%s%s%s", names, *names ? ", " : "", list[i].name);

		free(names);
		names = longer;
	}
	return names;
}

static int
pick_only(const struct instance *list, unsigned count, char *name, size_t size, char *error)
{
	char *live = instance_names(list, count, INSTANCE_LIVE);
	char *silent = instance_names(list, count, INSTANCE_SILENT);
	char *dead = instance_names(list, count, INSTANCE_DEAD);
	int result = -1;

	if (*live && strchr(live, ',') == NULL) {
		snprintf(name, size, "%s", live);
		result = 0;
	} else if (*live) {
		snprintf(error, CTL_ERROR_MAX,
			"several instances run: %s. Choose one with --instance", live);
	} else {
		snprintf(error, CTL_ERROR_MAX,
			"no primary runs: no live telemetry socket in %s/dpdk%s%s%s%s%s. Start "
			"'pmx-dpdk CONFIG'; 'pmx-ctl doctor' tells whether this host is ready",
			eal_base(), *silent ? "; running without telemetry: " : "", silent,
			*dead ? "; left behind by dead ones: " : "", dead,
			getuid() == 0 ? ""
				      : "; those of another user are seen by who may open their "
					"sockets (access.group)");
	}
	free(live);
	free(silent);
	free(dead);
	return result;
}

int
instance_pick(const char *wanted, char *name, size_t size, char *error)
{
	if (wanted != NULL) {
		if (*wanted == 0 || strchr(wanted, '/') != NULL || strlen(wanted) >= size ||
			strcmp(wanted, ".") == 0 || strcmp(wanted, "..") == 0) {
			snprintf(error, CTL_ERROR_MAX,
				"--instance '%.80s': not a name; give the node.name of a primary",
				wanted);
			return -1;
		}
		snprintf(name, size, "%s", wanted);
		return 0;
	}
	unsigned count;
	struct instance *list = instance_list(&count);
	int result = pick_only(list, count, name, size, error);

	free(list);
	return result;
}
