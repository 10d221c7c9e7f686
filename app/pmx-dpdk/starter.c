/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What whoever starts a primary is told: see starter.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "starter.h"

/* Send systemd a state, as sd_notify(3) has them, if it has started this service. */
static void
tell_systemd(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	if (path == NULL || strlen(path) >= sizeof(to.sun_path))
		return;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	strcpy(to.sun_path, path);
	if (to.sun_path[0] == '@')
		to.sun_path[0] = 0;
	if (fd < 0 ||
		sendto(fd, state, strlen(state), 0, (struct sockaddr *)&to,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))) < 0)
		fprintf(stderr, "pmx-dpdk: NOTIFY_SOCKET %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
}

pid_t
starter_of_socket(int fd)
{
	struct ucred other;
	socklen_t len = sizeof(other);

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &len) == 0 ? other.pid : 0;
}

void
starter_hand_over(pid_t next)
{
	char state[32];

	if (next <= 0)
		return;
	snprintf(state, sizeof(state), "MAINPID=%d", next);
	tell_systemd(state);
}

void
starter_tell(const struct starter *starter, const char *name)
{
	if (starter->ready_fd >= 0 && dprintf(starter->ready_fd, "ready %s\n", name) < 0)
		fprintf(stderr, "pmx-dpdk: --ready-fd %d: %s\n", starter->ready_fd,
			strerror(errno));
	tell_systemd("READY=1");
	if (starter->started_fd >= 0 && write(starter->started_fd, "", 1) == 1)
		close(starter->started_fd);
}

int
starter_leave(struct starter *starter)
{
	int started[2], status;
	char byte;
	pid_t child;
	ssize_t n;

	if (pipe2(started, O_CLOEXEC) != 0 || (child = fork()) < 0) {
		fprintf(stderr, "pmx-dpdk: --background: %s\n", strerror(errno));
		return EXIT_FAILED;
	}
	close(started[child == 0 ? 0 : 1]);
	if (child == 0) {
		starter->started_fd = started[1];
		setsid();
		return -1;
	}
	while ((n = read(started[0], &byte, 1)) < 0 && errno == EINTR)
		continue;
	if (n == 1)
		return 0;
	/* the pipe's other end was closed by the child's own end */
	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status)
									: EXIT_FAILED;
}
