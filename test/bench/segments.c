/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Usage: segments respond|initiate LOCAL PEER COPIES ROUNDS BYTES...
 * Round trips of messages over a UDP socket that the kernel splits into datagrams of SEGMENT bytes
 * and joins again (UDP_SEGMENT, UDP_GRO), spinning, with no protocol at all: what the link udp can
 * at best be. COPIES: 1: each message is copied to what is sent and out of what was received, as
 * the applications of a message stack do; 0: it is not. LOCAL, PEER: IPv4 addresses; port 7070.
 * Prints a line {"what": "segments", ...} a size, in nanoseconds. A datagram that is lost ends it
 * after a second.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../system/clock.h"

#define PORT     7070
#define SEGMENT  1448
#define CALL_MAX (45 * SEGMENT) /* bytes of one call */
#define MOST     (1 << 20)

static uint8_t bytes[MOST], mine[MOST];
static int fd;
static bool copies;

static void
fail(const char *what)
{
	fprintf(stderr, "segments: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct sockaddr_in
address(const char *text)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(PORT)};

	if (inet_pton(AF_INET, text, &a.sin_addr) != 1) {
		errno = EINVAL;
		fail(text);
	}
	return a;
}

static void
begin(const char *local, const char *peer)
{
	const struct sockaddr_in here = address(local), there = address(peer);
	const int segment = SEGMENT, on = 1, room = 8 << 20;

	fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&here, sizeof(here)) != 0 ||
		connect(fd, (const struct sockaddr *)&there, sizeof(there)) != 0)
		fail("socket");
	if (setsockopt(fd, SOL_UDP, UDP_SEGMENT, &segment, sizeof(segment)) != 0 ||
		setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof(on)) != 0)
		fail("UDP_SEGMENT, UDP_GRO");
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
}

static void
send_all(size_t len)
{
	if (copies)
		memcpy(bytes, mine, len);
	for (size_t at = 0; at < len;) {
		size_t n = len - at < CALL_MAX ? len - at : CALL_MAX;
		ssize_t sent = send(fd, bytes + at, n, 0);

		if (sent < 0 && errno != EAGAIN && errno != ECONNREFUSED)
			fail("send");
		at += sent > 0 ? (size_t)sent : 0;
	}
}

/* Receive len bytes. Return false if they do not come within a second. */
static bool
receive_all(size_t len)
{
	const int64_t until = now_ns() + 1000000000;

	for (size_t at = 0; at < len;) {
		ssize_t n = recv(fd, bytes + at, MOST - at, 0);

		if (n < 0 && now_ns() > until)
			return false;
		at += n > 0 ? (size_t)n : 0;
	}
	if (copies)
		memcpy(mine, bytes, len);
	return true;
}

static int
compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static void
initiate(size_t len, unsigned rounds)
{
	uint64_t *times = calloc(rounds, sizeof(*times));

	for (unsigned i = 0; times != NULL && i < rounds; i++) {
		const int64_t start = now_ns();

		send_all(len);
		if (!receive_all(len)) {
			fprintf(stderr, "segments: a datagram of %zu bytes was lost\n", len);
			exit(1);
		}
		times[i] = (uint64_t)(now_ns() - start);
	}
	if (times == NULL)
		fail("memory");
	qsort(times, rounds, sizeof(*times), compare);
	printf("{\"what\": \"segments\", \"test\": \"latency\", \"size\": %zu, \"p50_ns\": %lu, "
	       "\"p99_ns\": %lu}\n",
		len, (unsigned long)times[rounds / 2], (unsigned long)times[rounds * 99 / 100]);
	free(times);
}

int
main(int argc, char **argv)
{
	const unsigned rounds = argc > 6 ? (unsigned)atoi(argv[5]) : 0;

	if (rounds == 0) {
		fprintf(stderr,
			"usage: segments respond|initiate LOCAL PEER COPIES ROUNDS BYTES...\n");
		return 2;
	}
	copies = atoi(argv[4]) != 0;
	begin(argv[2], argv[3]);
	for (int i = 6; i < argc; i++) {
		const size_t len = strtoul(argv[i], NULL, 10);

		if (len == 0 || len > MOST)
			return 2;
		if (strcmp(argv[1], "initiate") == 0) {
			initiate(len, rounds);
			continue;
		}
		for (unsigned k = 0; k < rounds; k++) {
			if (k == 0 && i == 6) /* until the initiator has started */
				while (!receive_all(len))
					;
			else if (!receive_all(len))
				return 1;
			send_all(len);
		}
	}
	return 0;
}
