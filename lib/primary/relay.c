/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See relay.h. A connection to this process's own telemetry socket carries the question, so that
 * its answers stay made in one place.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_eal.h>

#include "channel/tell.h"
#include "primary/relay.h"

#define COMMAND_MAX 64
#define ANSWER_MAX  (1u << 20)
/* of each step: telemetry's threads answer at once if they have a CPU */
#define PATIENCE_US 500000

/* Connect to telemetry. Return the descriptor or -errno. */
static int
connect_to_own(void)
{
	const struct timeval patience = {.tv_usec = PATIENCE_US};
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	const int n = snprintf(to.sun_path, sizeof(to.sun_path), "%s/dpdk_telemetry.v2",
		rte_eal_get_runtime_dir());
	const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)); /* connect() too */
	if ((size_t)n < sizeof(to.sun_path) && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0)
		return fd;
	const int e = -errno;

	close(fd);
	return e;
}

/* Ask a command, and write the answer to a descriptor. Return its length or -errno. */
static ssize_t
primary_relay_ask(int fd, const char *command, int answer)
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
relay_ask(uint16_t number, uint64_t parameter, uint64_t *bytes)
{
	char command[COMMAND_MAX];

	if (number >= TELL_COMMANDS)
		return -EACCES;
	snprintf(command, sizeof(command), "%s,%" PRIu32, tell_commands[number],
		(uint32_t)parameter);
	const int fd = connect_to_own();

	if (fd < 0)
		return fd;
	const int answer = memfd_create("pmx-answer", MFD_CLOEXEC);
	const ssize_t n = answer < 0 ? -errno : primary_relay_ask(fd, command, answer);

	close(fd);
	if (n >= 0) {
		*bytes = (uint64_t)n;
		return answer;
	}
	if (answer >= 0)
		close(answer);
	return (int)n;
}
