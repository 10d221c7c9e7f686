/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Kernel TCP and UDP baselines with plain sockets; baseline.h says who calls what.
 *
 * Design notes
 * 1. Every test is one TCP connection: the client sends a request, the server answers it with the
 *    same bytes when it is ready, the test runs, the client shuts down its sending side, and the
 *    server answers a stream with a result. With UDP the connection is only for control, so that no
 *    control message can be lost; data goes through two datagram sockets on the same addresses.
 * 2. Sockets stay blocking, with 50 ms receive and send timeouts, and the idle policies other than
 *    BLOCK pass MSG_DONTWAIT: so there is one code path, and a blocked call still notices its
 *    deadline.
 * 3. A UDP server learns of the end of a stream from the connection, which it checks only when the
 *    datagram socket has been empty for a while, so that what the kernel has queued is read first.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "baseline.h"

#define MAGIC           UINT32_C(0x504d5842) /* "PMXB" */
#define TICK_MS         50                   /* longest sleep in a blocking call */
/* a UDP ping without an answer after this time counts as lost */
#define LOST_NS         INT64_C(20000000)
#define LOST_IN_A_ROW   50
#define CONNECT_S       5.0 /* how long a client waits for its server to listen */
/* after its end, a UDP stream is over when nothing comes for this time */
#define UDP_QUIET_NS    INT64_C(20000000)
#define READ_BYTES      (256u << 10) /* server's buffer for streams */
#define POLLS_PER_CLOCK 256          /* empty polls between two checks of clock and flags */

enum test {
	TEST_ECHO = 1, /* send back each message */
	TEST_COUNT,    /* count until the end, then send a result */
	TEST_QUIT,     /* end the service */
};

/* First bytes of each connection, and the server's answer to them. Big endian. */
struct request_hdr {
	uint32_t magic;    /* MAGIC */
	uint16_t test;     /* enum test */
	uint16_t udp_port; /* client's datagram port, 0 = test runs on this connection */
	uint32_t size;     /* bytes of a message */
	uint32_t reserved; /* 0 */
};

/* The server's answer at the end of a TEST_COUNT. Big endian. */
struct result_hdr {
	uint64_t bytes;       /* read */
	uint64_t timed_bytes; /* bytes after the first read, because how long that one took is not
			       * known */
	uint64_t elapsed_ns;  /* from first to last read */
};

/* One test as one side sees it. */
struct baseline_session {
	struct baseline *b;
	int tcp;       /* the connection */
	int data;      /* socket of the data: the connection or a datagram socket */
	int flags;     /* of send and recv on `data` */
	uint32_t size; /* bytes of a message */
	int64_t deadline_ns;
	const atomic_bool *stop; /* server's, or NULL */
	uint8_t *buffer;         /* size or READ_BYTES bytes, the longer */
};

static __attribute__((format(printf, 3, 4))) int
baseline_fail(struct baseline *b, int error, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(b->error, sizeof(b->error), format, ap);
	va_end(ap);
	return error;
}

static int64_t
deadline_after(double seconds)
{
	return clock_ns() + (int64_t)(seconds * 1e9);
}

static double
time_limit_s(const struct baseline *b)
{
	return b->time_limit_s > 0 ? b->time_limit_s : 60;
}

static const char *
kind_name(const struct baseline *b)
{
	return b->kind == BASELINE_UDP ? "udp" : "tcp";
}

/* ---- moving bytes ---- */

/* Decide what to do when a socket call would have had to wait. Return 0 to try again, -ECANCELED if
 * the stop flag is set, or -ETIMEDOUT after the deadline. Deadline and flag are checked so rarely
 * that this does not affect the measurement. `polls` counts over the caller's wait. */
static int
wait_more(const struct baseline_session *s, uint32_t *polls)
{
	if (s->b->idle == BASELINE_YIELD)
		sched_yield();
	/* A blocking call has slept for TICK_MS, so check now. */
	if (s->b->idle != BASELINE_BLOCK && ++*polls % POLLS_PER_CLOCK != 0)
		return 0;
	if (s->stop && atomic_load_explicit(s->stop, memory_order_relaxed))
		return -ECANCELED;
	return clock_ns() > s->deadline_ns ? -ETIMEDOUT : 0;
}

static bool
would_wait(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* Send all n bytes over a stream, or one datagram. A datagram that the kernel refuses for lack of
 * buffers, or because the peer's port is not open, counts as sent, because UDP may lose
 * datagrams. */
static int
send_all(const struct baseline_session *s, int fd, const uint8_t *bytes, size_t n)
{
	uint32_t polls = 0;
	int rc;

	while (n > 0) {
		ssize_t k = send(fd, bytes, n, s->flags | MSG_NOSIGNAL);

		if (k > 0) {
			bytes += k;
			n -= (size_t)k;
			continue;
		}
		if (fd != s->tcp && (errno == ECONNREFUSED || errno == ENOBUFS))
			return 0;
		if (!would_wait(errno))
			return -errno;
		rc = wait_more(s, &polls);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* Receive all n bytes of a stream. Returns -EPIPE at its end. */
static int
recv_all(const struct baseline_session *s, int fd, uint8_t *bytes, size_t n)
{
	uint32_t polls = 0;
	int rc;

	while (n > 0) {
		ssize_t k = recv(fd, bytes, n, s->flags);

		if (k > 0) {
			bytes += k;
			n -= (size_t)k;
			continue;
		}
		if (k == 0)
			return -EPIPE;
		if (!would_wait(errno))
			return -errno;
		rc = wait_more(s, &polls);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/* ---- sockets ---- */

static int
resolve(struct baseline *b, struct sockaddr_storage *sa, socklen_t *len)
{
	struct addrinfo hints = {
		.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM,
	};
	struct addrinfo *found;
	const char *text = b->address ? b->address : "";
	const char *colon = strrchr(text, ':');
	char host[80];
	size_t n = colon ? (size_t)(colon - text) : 0;
	int rc;

	if (strchr(text, '/') != NULL) {
		struct sockaddr_un *local = (struct sockaddr_un *)sa;

		*local = (struct sockaddr_un){.sun_family = AF_UNIX};
		*len = sizeof(*local);
		if (snprintf(local->sun_path, sizeof(local->sun_path), "%s", text) >=
			(int)sizeof(local->sun_path))
			return baseline_fail(b, -ENAMETOOLONG, "address \"%s\": %zu bytes at most",
				text, sizeof(local->sun_path) - 1);
		return 0;
	}
	if (n >= 2 && text[0] == '[' && text[n - 1] == ']') {
		text++;
		n -= 2;
	}
	if (n == 0 || n >= sizeof(host))
		return baseline_fail(b, -EINVAL,
			"address \"%s\": give it as 10.0.0.1:7000 or [fd00::1]:7000",
			b->address ? b->address : "");
	memcpy(host, text, n);
	host[n] = '\0';
	rc = getaddrinfo(host, colon + 1, &hints, &found);
	if (rc != 0)
		return baseline_fail(b, -EINVAL,
			"address \"%s\": %s; give it as 10.0.0.1:7000 or [fd00::1]:7000",
			b->address, gai_strerror(rc));
	memcpy(sa, found->ai_addr, found->ai_addrlen);
	*len = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

static void
set_timeouts(int fd, int ms)
{
	struct timeval t = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
	int one = 1;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof(t));
	/* Fails on datagram sockets, where it has no meaning. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* Return a datagram socket bound to the local address of `tcp`, or a negative errno with a message
 * in b->error. any_port: with any free port instead of the port of `tcp`. */
static int
datagram_socket(struct baseline *b, int tcp, bool any_port)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	int size = b->socket_bytes;
	int fd, rc;

	if (getsockname(tcp, (struct sockaddr *)&sa, &len) != 0)
		return baseline_fail(b, -errno, "udp %s: local address: %s", b->address,
			strerror(errno));
	/* sin_port and sin6_port are in the same place. */
	if (any_port)
		((struct sockaddr_in *)&sa)->sin_port = 0;
	fd = socket(sa.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, len) != 0) {
		rc = baseline_fail(b, -errno,
			"udp %s: no datagram socket on it: %s; is the port taken?", b->address,
			strerror(errno));
		if (fd >= 0)
			close(fd);
		return rc;
	}
	if (size > 0) {
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	}
	/* Short, because a lost ping must be noticed after LOST_NS also when blocking. */
	set_timeouts(fd, (int)(LOST_NS / 1000000));
	return fd;
}

/* Connect datagram socket `fd` to the peer of `tcp` at `port` (host order, 0 = tcp's own). */
static int
datagram_connect(struct baseline *b, int fd, int tcp, uint16_t port)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);

	if (getpeername(tcp, (struct sockaddr *)&sa, &len) != 0)
		return baseline_fail(b, -errno, "udp %s: the client is gone: %s", b->address,
			strerror(errno));
	if (port)
		((struct sockaddr_in *)&sa)->sin_port = htons(port);
	if (connect(fd, (struct sockaddr *)&sa, len) != 0)
		return baseline_fail(b, -errno, "udp %s: connect to the peer's port %u: %s",
			b->address, port, strerror(errno));
	return 0;
}

static int
session_open(struct baseline_session *s, struct baseline *b, int tcp, uint32_t size)
{
	*s = (struct baseline_session){.b = b, .tcp = tcp, .data = tcp, .size = size};
	s->flags = b->idle == BASELINE_BLOCK ? 0 : MSG_DONTWAIT;
	s->deadline_ns = deadline_after(time_limit_s(b));
	set_timeouts(tcp, TICK_MS);
	/* The memory is touched, so that no page fault is measured. */
	s->buffer = malloc(size > READ_BYTES ? size : READ_BYTES);
	if (s->buffer == NULL)
		return baseline_fail(b, -ENOMEM, "no memory for messages of %u bytes", size);
	memset(s->buffer, 0x5a, size > READ_BYTES ? size : READ_BYTES);
	return 0;
}

static void
session_close(struct baseline_session *s)
{
	if (s->data != s->tcp)
		close(s->data);
	close(s->tcp);
	free(s->buffer);
}

/* ---- server ---- */

/* Return whether the client has shut down its side of the connection. */
static bool
client_ended(const struct baseline_session *s)
{
	char c;
	ssize_t k = recv(s->tcp, &c, 1, MSG_DONTWAIT | MSG_PEEK);

	return k == 0 || (k < 0 && !would_wait(errno));
}

static int
serve_echo_tcp(struct baseline_session *s)
{
	int rc;

	do {
		rc = recv_all(s, s->data, s->buffer, s->size);
		if (rc == 0)
			rc = send_all(s, s->data, s->buffer, s->size);
	} while (rc == 0);
	return rc == -EPIPE ? 0 : rc;
}

/* Receive one datagram into the buffer. Returns its length, 0 if the client has ended the test, or
 * -errno. */
static ssize_t
serve_datagram(struct baseline_session *s)
{
	int64_t quiet_since = 0;
	uint32_t polls = 0;
	int rc;

	for (;;) {
		ssize_t k = recv(s->data, s->buffer, READ_BYTES, s->flags);

		if (k > 0)
			return k;
		if (k < 0 && !would_wait(errno) && errno != ECONNREFUSED)
			return -errno;
		rc = wait_more(s, &polls);
		if (rc != 0)
			return rc;
		if (s->b->idle != BASELINE_BLOCK && polls % POLLS_PER_CLOCK != 0)
			continue;
		if (quiet_since == 0)
			quiet_since = clock_ns();
		else if (clock_ns() - quiet_since > UDP_QUIET_NS && client_ended(s))
			return 0;
	}
}

static int
serve_echo_udp(struct baseline_session *s)
{
	for (;;) {
		ssize_t k = serve_datagram(s);
		int rc;

		if (k <= 0)
			return (int)k;
		rc = send_all(s, s->data, s->buffer, (size_t)k);
		if (rc != 0)
			return rc;
	}
}

/* Receive some bytes of a stream. Returns how many, 0 at its end, or -errno. */
static ssize_t
serve_read(struct baseline_session *s)
{
	uint32_t polls = 0;

	for (;;) {
		ssize_t k = recv(s->data, s->buffer, READ_BYTES, s->flags);
		int rc;

		if (k >= 0)
			return k;
		if (!would_wait(errno))
			return -errno;
		rc = wait_more(s, &polls);
		if (rc != 0)
			return rc;
	}
}

static int
serve_count(struct baseline_session *s)
{
	struct result_hdr result;
	int64_t ready = clock_ns(), first = 0, last = 0;
	uint64_t bytes = 0, untimed = 0;
	ssize_t k;

	while ((k = s->data == s->tcp ? serve_read(s) : serve_datagram(s)) > 0) {
		bytes += (uint64_t)k;
		last = clock_ns();
		if (first == 0) {
			first = last;
			untimed = bytes;
		}
	}
	if (k < 0)
		return (int)k;
	if (bytes > 0 && first == last) {
		/* everything came in one read, which took at most the time since we were ready */
		first = ready;
		untimed = 0;
	}
	result.bytes = htobe64(bytes);
	result.timed_bytes = htobe64(bytes - untimed);
	result.elapsed_ns = htobe64((uint64_t)(last - first));
	return send_all(s, s->tcp, (const uint8_t *)&result, sizeof(result));
}

/* Prepare the data socket that the request asks for and tell the client that we are ready. */
static int
serve_ready(struct baseline_session *s, struct request_hdr *request)
{
	uint16_t port = ntohs(request->udp_port);
	int rc;

	if (port != 0) {
		int fd = datagram_socket(s->b, s->tcp, false);

		if (fd < 0)
			return fd;
		s->data = fd;
		rc = datagram_connect(s->b, fd, s->tcp, port);
		if (rc != 0)
			return rc;
	}
	rc = send_all(s, s->tcp, (const uint8_t *)request, sizeof(*request));
	if (rc != 0)
		return baseline_fail(s->b, rc, "answering a request: %s", strerror(-rc));
	return 0;
}

/* Serve one connection. *quit is set if it asked for the end of the service. */
static int
serve_client(struct baseline *b, int tcp, const atomic_bool *stop, bool *quit)
{
	struct request_hdr request;
	struct baseline_session s;
	uint32_t size;
	uint16_t test;
	int rc = session_open(&s, b, tcp, 0);

	if (rc != 0)
		goto out;
	s.stop = stop;
	rc = recv_all(&s, tcp, (uint8_t *)&request, sizeof(request));
	size = ntohl(request.size);
	test = ntohs(request.test);
	if (rc != 0 || ntohl(request.magic) != MAGIC || size > BASELINE_SIZE_MAX) {
		rc = baseline_fail(b, rc ? rc : -EPROTO,
			"a client sent no valid request: is it pmx-perf?");
		goto out;
	}
	if (size > READ_BYTES) {
		uint8_t *longer = realloc(s.buffer, size);

		if (longer == NULL) {
			rc = baseline_fail(b, -ENOMEM, "no memory for messages of %u bytes", size);
			goto out;
		}
		s.buffer = longer;
	}
	s.size = size;
	rc = serve_ready(&s, &request);
	if (rc != 0)
		goto out;
	*quit = test == TEST_QUIT;
	if (test == TEST_ECHO)
		rc = s.data == tcp ? serve_echo_tcp(&s) : serve_echo_udp(&s);
	else if (test == TEST_COUNT)
		rc = serve_count(&s);
	if (rc != 0)
		baseline_fail(b, rc, "test %u of %u bytes ended early: %s", test, size,
			strerror(-rc));
out:
	session_close(&s);
	return rc;
}

int
baseline_listen(struct baseline *b)
{
	struct sockaddr_storage sa;
	socklen_t len;
	int fd, one = 1, rc;

	rc = resolve(b, &sa, &len);
	if (rc != 0)
		return rc;
	fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return baseline_fail(b, -errno, "no socket for %s: %s", b->address,
			strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (sa.ss_family == AF_UNIX)
		unlink(((struct sockaddr_un *)&sa)->sun_path); /* left by a server that was
								* killed */
	if (bind(fd, (struct sockaddr *)&sa, len) != 0 || listen(fd, 4) != 0) {
		rc = baseline_fail(b, -errno,
			"cannot listen at %s: %s; choose an address of this host and a free "
			"port",
			b->address, strerror(errno));
		close(fd);
		return rc;
	}
	return fd;
}

void
baseline_unlisten(const struct baseline *b, int fd)
{
	close(fd);
	if (strchr(b->address, '/') != NULL)
		unlink(b->address);
}

int
baseline_serve(struct baseline *b, const atomic_bool *stop, double seconds)
{
	int64_t deadline = deadline_after(seconds);
	bool quit = false;
	int fd = baseline_listen(b);
	int rc = 0;

	if (fd < 0)
		return fd;
	while (!quit && !(stop && atomic_load_explicit(stop, memory_order_relaxed))) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		int tcp;

		if (clock_ns() > deadline) {
			rc = baseline_fail(b, -ETIMEDOUT,
				"%s: %.0f s are up and no client ended the service", b->address,
				seconds);
			break;
		}
		if (poll(&p, 1, TICK_MS) <= 0)
			continue;
		tcp = accept(fd, NULL, NULL);
		if (tcp >= 0 && serve_client(b, tcp, stop, &quit) != 0)
			fprintf(stderr, "baseline server %s: %s\n", b->address, b->error);
	}
	baseline_unlisten(b, fd);
	return rc;
}

/* ---- client ---- */

/* Connect, retrying while nobody listens, because the server may just be starting. */
int
baseline_connect(struct baseline *b)
{
	int64_t deadline = deadline_after(CONNECT_S);
	const struct timespec pause = {.tv_nsec = 20000000};
	struct sockaddr_storage sa;
	socklen_t len;
	int fd, rc;

	rc = resolve(b, &sa, &len);
	if (rc != 0)
		return rc;
	for (;;) {
		fd = socket(sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return baseline_fail(b, -errno, "no socket for %s: %s", b->address,
				strerror(errno));
		/* The send timeout bounds connect() too. */
		set_timeouts(fd, (int)(CONNECT_S * 1000));
		if (connect(fd, (struct sockaddr *)&sa, len) == 0)
			return fd;
		rc = -errno;
		close(fd);
		if (clock_ns() > deadline || (rc != -ECONNREFUSED && rc != -ENOENT && rc != -EINTR))
			return baseline_fail(b, rc,
				"cannot connect to %s: %s; start the server there first",
				b->address, strerror(-rc));
		nanosleep(&pause, NULL);
	}
}

static int
exchange_request(struct baseline_session *s, enum test test, uint16_t udp_port)
{
	struct request_hdr request = {
		.magic = htonl(MAGIC),
		.test = htons((uint16_t)test),
		.udp_port = htons(udp_port),
		.size = htonl(s->size),
	};
	struct request_hdr answer;
	int rc;

	rc = send_all(s, s->tcp, (const uint8_t *)&request, sizeof(request));
	if (rc == 0)
		rc = recv_all(s, s->tcp, (uint8_t *)&answer, sizeof(answer));
	if (rc == 0 && memcmp(&answer, &request, sizeof(answer)) != 0)
		rc = -EPROTO;
	if (rc != 0)
		return baseline_fail(s->b, rc,
			"the server at %s refused the test (%s): see its own message",
			s->b->address, rc == -EPIPE ? "it closed the connection" : strerror(-rc));
	return 0;
}

/* Make a datagram socket on any port, connected to the server's; *port is its port, for the
 * request. */
static int
client_datagrams(struct baseline_session *s, uint16_t *port)
{
	struct sockaddr_storage sa;
	socklen_t len = sizeof(sa);
	int fd = datagram_socket(s->b, s->tcp, true);

	if (fd < 0)
		return fd;
	s->data = fd;
	if (getsockname(fd, (struct sockaddr *)&sa, &len) != 0)
		return baseline_fail(s->b, -errno, "udp: own port: %s", strerror(errno));
	*port = ntohs(((struct sockaddr_in *)&sa)->sin_port);
	return datagram_connect(s->b, fd, s->tcp, 0);
}

static int
client_open(struct baseline_session *s, struct baseline *b, enum test test, uint32_t size)
{
	uint16_t port = 0;
	int tcp, rc;

	if (test != TEST_QUIT && (size == 0 || size > BASELINE_SIZE_MAX))
		return baseline_fail(b, -EINVAL, "message of %u bytes: must be 1 to %u", size,
			BASELINE_SIZE_MAX);
	tcp = baseline_connect(b);
	if (tcp < 0)
		return tcp;
	rc = session_open(s, b, tcp, size);
	if (rc == 0 && b->kind == BASELINE_UDP && test != TEST_QUIT)
		rc = client_datagrams(s, &port);
	if (rc == 0)
		rc = exchange_request(s, test, port);
	if (rc != 0)
		session_close(s);
	return rc;
}

static int
ping_tcp(struct baseline_session *s)
{
	int rc = send_all(s, s->data, s->buffer, s->size);

	return rc ? rc : recv_all(s, s->data, s->buffer, s->size);
}

/* Send one datagram and wait for its answer. The first bytes of a datagram are its number, so that
 * a late answer is not taken for the current one. Return 0, 1 if the datagram or its answer was
 * lost, or a negative errno. */
static int
ping_udp(struct baseline_session *s, uint64_t number, int64_t start)
{
	size_t stamp = s->size < sizeof(number) ? s->size : sizeof(number);
	uint32_t polls = 0;
	int rc;

	memcpy(s->buffer, &number, stamp);
	rc = send_all(s, s->data, s->buffer, s->size);
	if (rc != 0)
		return rc;
	for (;;) {
		ssize_t k = recv(s->data, s->buffer, s->size, s->flags);

		if (k == (ssize_t)s->size && memcmp(s->buffer, &number, stamp) == 0)
			return 0;
		if (k < 0 && !would_wait(errno) && errno != ECONNREFUSED)
			return -errno;
		rc = k < 0 ? wait_more(s, &polls) : 0;
		if (rc != 0)
			return rc;
		if ((s->flags == 0 || polls % POLLS_PER_CLOCK == 0) && clock_ns() - start > LOST_NS)
			return 1;
	}
}

static int
ping_rounds(struct baseline_session *s, uint64_t rounds, uint64_t warmup, struct hist *h,
	uint64_t *lost)
{
	bool udp = s->data != s->tcp;
	const int64_t within = (int64_t)(s->b->within_s * 1e9), begin = clock_ns();
	uint32_t in_a_row = 0;
	int64_t start = begin;

	for (uint64_t i = 0; i < warmup + rounds; i++) {
		if (within && start - begin > within / 10 && i < warmup)
			warmup = i;
		if (within && start - begin > within && i > warmup)
			break;
		int rc = udp ? ping_udp(s, i, start) : ping_tcp(s);
		int64_t end = clock_ns();

		if (rc < 0)
			return baseline_fail(s->b, rc, "%s %s, %u bytes: ping %lu of %lu: %s",
				kind_name(s->b), s->b->address, s->size, i, warmup + rounds,
				rc == -EPIPE ? "the server closed the connection" : strerror(-rc));
		in_a_row = rc ? in_a_row + 1 : 0;
		if (in_a_row == LOST_IN_A_ROW)
			return baseline_fail(s->b, -ETIMEDOUT,
				"udp %s, %u bytes: %u pings in a row unanswered: does a "
				"filter drop them, or fragments?",
				s->b->address, s->size, in_a_row);
		if (end > s->deadline_ns)
			return baseline_fail(s->b, -ETIMEDOUT,
				"%s %s, %u bytes: %.0f s were up after %lu of %lu rounds: "
				"ask for fewer",
				kind_name(s->b), s->b->address, s->size, time_limit_s(s->b), i,
				warmup + rounds);
		if (i >= warmup && rc == 0)
			hist_record(h, (uint64_t)(end - start));
		else if (i >= warmup)
			++*lost;
		start = end;
	}
	return 0;
}

int
baseline_latency(struct baseline *b, uint32_t size_bytes, uint64_t rounds, uint64_t warmup,
	struct hist *h, uint64_t *lost)
{
	uint64_t lost_now = 0;
	/* for the compiler, which does not see that it is opened */
	struct baseline_session s = {0};
	int rc;

	if (b->kind == BASELINE_UDP && size_bytes > BASELINE_UDP_MAX)
		return baseline_fail(b, -EMSGSIZE,
			"udp ping of %u bytes: a datagram has at most %u", size_bytes,
			BASELINE_UDP_MAX);
	rc = client_open(&s, b, TEST_ECHO, size_bytes);
	if (rc != 0)
		return rc;
	rc = ping_rounds(&s, rounds, warmup, h, &lost_now);
	session_close(&s);
	if (rc == 0)
		*lost = lost_now;
	return rc;
}

/* Send one message, over UDP in as many datagrams as it takes. */
static int
send_message(const struct baseline_session *s)
{
	size_t at = 0;

	if (s->data == s->tcp)
		return send_all(s, s->data, s->buffer, s->size);
	do {
		size_t n = s->size - at < BASELINE_UDP_MAX ? s->size - at : BASELINE_UDP_MAX;
		int rc = send_all(s, s->data, s->buffer + at, n);

		if (rc != 0)
			return rc;
		at += n;
	} while (at < s->size);
	return 0;
}

static int
stream_result(struct baseline_session *s, uint64_t sent, struct baseline_flow *flow)
{
	struct baseline_flow f = {.sent = sent};
	struct result_hdr result;
	int rc;

	shutdown(s->tcp, SHUT_WR);
	rc = recv_all(s, s->tcp, (uint8_t *)&result, sizeof(result));
	if (rc != 0)
		return baseline_fail(s->b, rc, "%s %s, %u bytes: no result from the server: %s",
			kind_name(s->b), s->b->address, s->size, strerror(-rc));
	f.bytes = be64toh(result.bytes);
	f.elapsed_ns = be64toh(result.elapsed_ns);
	f.received = f.bytes / s->size;
	if (f.elapsed_ns == 0)
		return baseline_fail(s->b, -EIO,
			"%s %s, %u bytes: %lu of %lu messages arrived, too few to time: "
			"measure for longer",
			kind_name(s->b), s->b->address, s->size, f.received, sent);
	f.gbits_per_s = (double)be64toh(result.timed_bytes) * 8 / (double)f.elapsed_ns;
	f.messages_per_s = f.gbits_per_s * 1e9 / 8 / s->size;
	*flow = f;
	return 0;
}

int
baseline_stream(struct baseline *b, uint32_t size_bytes, double seconds, struct baseline_flow *flow)
{
	struct baseline_session s;
	uint64_t sent = 0;
	int64_t end;
	int rc;

	if (seconds <= 0 || seconds > time_limit_s(b))
		return baseline_fail(b, -EINVAL,
			"%.3f seconds: must be more than 0 and at most %.0f", seconds,
			time_limit_s(b));
	rc = client_open(&s, b, TEST_COUNT, size_bytes);
	if (rc != 0)
		return rc;
	end = deadline_after(seconds);
	/* Waiting for the result may take additional time after the stream. */
	s.deadline_ns = end + (int64_t)(CONNECT_S * 1e9);
	do {
		rc = send_message(&s);
		if (rc != 0) {
			baseline_fail(b, rc, "%s %s, %u bytes: sending message %lu: %s",
				kind_name(b), b->address, size_bytes, sent, strerror(-rc));
			break;
		}
		sent++;
	} while (clock_ns() < end);
	if (rc == 0)
		rc = stream_result(&s, sent, flow);
	session_close(&s);
	return rc;
}

int
baseline_run(struct baseline *b, const uint32_t *sizes, size_t n, uint64_t rounds, uint64_t warmup,
	double seconds, struct baseline_row *rows)
{
	struct hist *h = malloc(sizeof(*h));
	int rc = 0;

	if (h == NULL)
		return baseline_fail(b, -ENOMEM, "no memory for a histogram");
	for (size_t i = 0; i < n && rc == 0; i++) {
		struct baseline_row row = {.size_bytes = sizes[i]};

		hist_init(h);
		rc = baseline_latency(b, sizes[i], rounds, warmup, h, &row.lost);
		if (rc == 0)
			rc = baseline_stream(b, sizes[i], seconds, &row.stream);
		if (rc != 0)
			break;
		row.p50_ns = hist_percentile(h, 500000);
		row.p99_ns = hist_percentile(h, 990000);
		row.p999_ns = hist_percentile(h, 999000);
		row.min_ns = hist_min(h);
		row.max_ns = hist_max(h);
		row.mean_ns = hist_mean(h);
		rows[i] = row;
	}
	free(h);
	return rc;
}

int
baseline_quit(struct baseline *b)
{
	struct baseline_session s;
	int rc = client_open(&s, b, TEST_QUIT, 0);

	if (rc == 0)
		session_close(&s);
	return rc;
}
