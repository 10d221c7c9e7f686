/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See relay.h. A connection to this process's own telemetry socket carries the question, so that
 * its answers stay made in one place.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_eal.h>

#include "primary/relay.h"

#define COMMAND_MAX 128
#define ANSWER_MAX  (1u << 20)
#define PATIENCE_S  2

/* Return whether a command only reads. */
static bool
is_harmless(const char *command)
{
	return strncmp(command, "/pmx/", 5) == 0 && strncmp(command, "/pmx/reload", 11) != 0;
}

/* Connect to telemetry. Return the descriptor or -errno. */
static int
connect_to_own(void)
{
	const struct timeval patience = {.tv_sec = PATIENCE_S};
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const int n = snprintf(to.sun_path, sizeof(to.sun_path), "%s/dpdk_telemetry.v2",
		rte_eal_get_runtime_dir());
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if ((size_t)n < sizeof(to.sun_path) && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	const int e = -errno;

	close(fd);
	return e;
}

/* Ask a command, and write the answer to a descriptor. Return its length or -errno. */
static ssize_t
ask(int fd, const char *command, int answer)
{
	static char text[ANSWER_MAX];                /* of the one thread that answers requests */
	ssize_t n = recv(fd, text, sizeof(text), 0); /* the greeting */

	if (n > 0)
		n = send(fd, command, strlen(command), MSG_NOSIGNAL);
	if (n > 0)
		n = recv(fd, text, sizeof(text), 0);
	if (n > 0)
		n = write(answer, text, (size_t)n);
	return n > 0 ? n : n == 0 ? -EPIPE : -errno;
}

int
relay_ask(int question, uint64_t *bytes)
{
	char command[COMMAND_MAX + 1];
	const ssize_t len = pread(question, command, COMMAND_MAX, 0);

	if (len <= 0)
		return -EINVAL;
	command[len] = 0;
	if (!is_harmless(command))
		return -EACCES;
	const int fd = connect_to_own();

	if (fd < 0)
		return fd;
	const int answer = memfd_create("pmx-answer", MFD_CLOEXEC);
	const ssize_t n = answer < 0 ? -errno : ask(fd, command, answer);

	close(fd);
	if (n < 0) {
		close(answer);
		return (int)n;
	}
	*bytes = (uint64_t)n;
	return answer;
}
