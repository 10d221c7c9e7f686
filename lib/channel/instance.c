/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See instance.h. Called when processes start and end, by any thread.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <linux/magic.h>

#include "channel/channel.h"
#include "channel/instance.h"

#define HUGE_MOUNTS_MAX 64
#define TURN_MS         10000 /* that others' EALs are waited for */

static bool
is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool
instance_name_ok(const char *name)
{
	size_t len = strlen(name);

	if (len == 0 || len >= INSTANCE_NAME_MAX || !is_plain(*name))
		return false;
	for (const char *s = name; *s; s++) {
		if (!is_plain(*s) && strchr("._-", *s) == NULL)
			return false;
	}
	return true;
}

void
run_dir(char *dir, size_t size)
{
	const char *base = getenv("XDG_RUNTIME_DIR");

	if (geteuid() == 0)
		snprintf(dir, size, "%s", ATTACH_SOCKETS);
	else if (base != NULL && *base != 0)
		snprintf(dir, size, "%s/pmx-dpdk", base);
	else
		snprintf(dir, size, "/tmp/pmx-dpdk-%u", geteuid());
}

int
run_dir_make(char *dir, size_t size)
{
	const mode_t mode = geteuid() == 0 ? 0755 : 0700;
	struct stat st;

	run_dir(dir, size);
	/* whatever the umask is */
	if (mkdir(dir, mode) == 0 ? chmod(dir, mode) != 0 : errno != EEXIST)
		return -errno;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int result = fd < 0              ? -errno
		: fstat(fd, &st) != 0    ? -errno
		: st.st_uid != geteuid() ? -EPERM
		: fchmod(fd, mode) != 0  ? -errno
					 : 0;

	if (fd >= 0)
		close(fd);
	return result;
}

bool
own_sockets(char *dir, size_t size)
{
	char path[RUN_DIR_MAX];
	struct stat st;

	/* others may write in /tmp: who waits for us there is to be nobody else */
	run_dir(path, sizeof(path));
	return (size_t)snprintf(dir, size, "%s", path) < size && strcmp(dir, ATTACH_SOCKETS) != 0 &&
		lstat(dir, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

bool
is_stale_socket(const char *path)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	struct stat st;

	if (lstat(path, &st) != 0 || !S_ISSOCK(st.st_mode) || strlen(path) >= sizeof(to.sun_path))
		return false;
	strcpy(to.sun_path, path);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	bool stale = fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0 &&
		errno == ECONNREFUSED;

	if (fd >= 0)
		close(fd);
	return stale;
}

const char *
eal_base(void)
{
	const char *base = getenv("RUNTIME_DIRECTORY");

	if (base == NULL)
		base = getuid() == 0 ? "/var/run" : getenv("XDG_RUNTIME_DIR");
	return base ? base : "/tmp";
}

bool
instance_turn_take(int config)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (unsigned ms = 0; ms < TURN_MS; ms++) {
		if (flock(config, LOCK_EX | LOCK_NB) == 0)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

void
each_huge_mount(void (*visit)(void *arg, const char *dir, uint64_t page_bytes), void *arg)
{
	FILE *mounts = setmntent("/proc/self/mounts", "r");
	char *seen[HUGE_MOUNTS_MAX];
	unsigned count = 0, i;
	struct statfs top;
	struct mntent *m;

	if (mounts == NULL)
		return;
	while (count < HUGE_MOUNTS_MAX && (m = getmntent(mounts)) != NULL) {
		/* another file system may be mounted over this one */
		if (strcmp(m->mnt_type, "hugetlbfs") != 0 || statfs(m->mnt_dir, &top) != 0 ||
			top.f_type != HUGETLBFS_MAGIC)
			continue;
		for (i = 0; i < count && strcmp(seen[i], m->mnt_dir) != 0; i++)
			;
		if (i < count || (seen[count] = strdup(m->mnt_dir)) == NULL)
			continue;
		count++;
		visit(arg, m->mnt_dir, (uint64_t)top.f_bsize);
	}
	while (count > 0)
		free(seen[--count]);
	endmntent(mounts);
}

size_t
eal_map_owner(const char *file)
{
	const char *end = file + strlen(file), *digits = end;

	while (digits > file && isdigit((unsigned char)digits[-1]))
		digits--;
	if (digits == end || digits - file < 4 || strncmp(digits - 4, "map_", 4) != 0)
		return 0;
	return (size_t)(digits - 4 - file);
}

bool
is_map_of(const char *file, const void *prefix)
{
	size_t len = strlen(prefix);

	return len > 0 && eal_map_owner(file) == len && strncmp(file, prefix, len) == 0;
}

bool
is_any(const char *file, const void *unused)
{
	(void)file;
	(void)unused;
	return true;
}

size_t
files_that(const char *dir, bool (*is)(const char *file, const void *arg), const void *arg,
	bool remove)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	size_t count = 0;

	while (d != NULL && (e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
			!is(e->d_name, arg))
			continue;
		count++;
		if (remove)
			unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d != NULL)
		closedir(d);
	return count;
}
