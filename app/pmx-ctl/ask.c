/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The client side of DPDK's telemetry, version 2: a SOCK_SEQPACKET socket. The server speaks
 * first: {"version", "pid", "max_output_len"}. Then each packet is a command, "/name,parameter",
 * and its answer one packet, {"/name": value}; null is "no such command, or it failed".
 */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "channel/channel.h"
#include "channel/instance.h"
#include "channel/tell.h"
#include "client/client.h"
#include "ctl.h"

#define SILENCE_S    5 /* after which it says that it waits */
#define GREETING_MAX 1024
#define TAKE_OVER_MS 1000 /* for which no primary may answer */
#define ANSWER_MAX   (1u << 20)

/* Return whether a primary of that name has its socket in the usual place. */
static bool
has_socket(const char *name, struct stat *st)
{
	char path[128];

	return (size_t)snprintf(path, sizeof(path), ATTACH_SOCKET, name) < sizeof(path) &&
		stat(path, st) == 0;
}

/* Return whether a primary of that name serves its socket as another user, who may be asked only
 * by himself. */
static bool
is_of_another(const char *name, struct stat *st)
{
	return has_socket(name, st) && st->st_uid != geteuid();
}

/* Explain in error why there is no connection, and what to do. */
static void
explain(int code, const char *name, const char *path, char *error)
{
	unsigned count;
	struct instance *list = instance_list(&count);
	char *live = instance_names(list, count, INSTANCE_LIVE);
	const int place = instance_find(list, count, name, strlen(name));
	const enum instance_state state = place >= 0 ? list[place].state : INSTANCE_DEAD;
	struct stat other;

	if (state == INSTANCE_SILENT)
		snprintf(error, CTL_ERROR_MAX,
			"instance '%s' runs without telemetry (%s: %s): start it without "
			"--no-telemetry",
			name, path, strerror(code));
	else if (code == ENOENT && is_of_another(name, &other))
		snprintf(error, CTL_ERROR_MAX,
			"instance '%s' is of user %u: run this with sudo, or have the group of its "
			"socket (access.group)",
			name, other.st_uid);
	else if (code == ENOENT)
		snprintf(error, CTL_ERROR_MAX,
			"instance '%s' does not run: there is no %s. Running: %s", name, path,
			*live ? live : "none");
	else if (code == ECONNREFUSED)
		snprintf(error, CTL_ERROR_MAX,
			"instance '%s' is dead: nobody listens at %s. Start it again; 'pmx-ctl "
			"doctor' "
			"tells what it left behind. Running: %s",
			name, path, *live ? live : "none");
	else if (code == EACCES || code == EPERM)
		snprintf(error, CTL_ERROR_MAX,
			"instance '%s': %s: %s. Run this as root or as the user of the primary",
			name, path, strerror(code));
	else if (code == ENAMETOOLONG)
		snprintf(error, CTL_ERROR_MAX,
			"instance '%.80s': the path of its socket, %.200s, is longer than a socket "
			"may "
			"have: is the name right?",
			name, path);
	else
		snprintf(error, CTL_ERROR_MAX, "instance '%s': %s: %s", name, path, strerror(code));
	free(live);
	free(list);
}

/* Receive one packet into the buffer, and terminate it with a 0. */
static int
ask_receive(struct ctl_session *s, const char *what, char *error)
{
	ssize_t n = recv(s->fd, s->buffer, s->size - 1, 0);

	for (int waited = SILENCE_S; n < 0 && errno == EAGAIN && waited < ATTACH_PATIENCE_S;
		waited += SILENCE_S) {
		if (waited == SILENCE_S)
			complain("waits for instance '%s' to answer %s", s->name, what);
		n = recv(s->fd, s->buffer, s->size - 1, 0);
	}
	if (n > 0) {
		s->buffer[n] = 0;
		return 0;
	}
	if (n == 0)
		snprintf(error, CTL_ERROR_MAX,
			"instance '%s' closed the connection before it answered %s: it is ending, "
			"or "
			"ten telemetry clients are connected already. Try again",
			s->name, what);
	else if (errno == EAGAIN || errno == EWOULDBLOCK)
		snprintf(error, CTL_ERROR_MAX,
			"instance '%s' (process %d) did not answer %s for %d s: is it stopped, or "
			"does a "
			"lane take its telemetry thread's CPU?",
			s->name, s->pid, what, ATTACH_PATIENCE_S);
	else
		snprintf(error, CTL_ERROR_MAX, "instance '%s': no answer to %s: %s", s->name, what,
			strerror(errno));
	return -1;
}

static int
set_size(struct ctl_session *s, size_t size, char *error)
{
	char *more = realloc(s->buffer, size);

	if (more == NULL) {
		snprintf(error, CTL_ERROR_MAX, "no memory for answers of %zu bytes", size);
		return -1;
	}
	s->buffer = more;
	s->size = size;
	return 0;
}

static int
read_greeting(struct ctl_session *s, char *error)
{
	json_error_t why;

	if (set_size(s, GREETING_MAX, error) != 0 || ask_receive(s, "the connection", error) != 0)
		return -1;
	json_t *hello = json_loads(s->buffer, 0, &why);
	uint64_t longest = get_u64(hello, "max_output_len");

	if (longest == 0 || longest > ANSWER_MAX) {
		snprintf(error, CTL_ERROR_MAX,
			"instance '%s' greets with '%.200s': no max_output_len from 1 to %u, so "
			"this is "
			"not DPDK's telemetry, version 2",
			s->name, s->buffer, ANSWER_MAX);
		json_decref(hello);
		return -1;
	}
	s->pid = (int)get_u64(hello, "pid");
	snprintf(s->version, sizeof(s->version), "%s", get_text(hello, "version"));
	json_decref(hello);
	return set_size(s, longest + 1, error);
}

/* ------------------------------------------------------------------ by the primary's own socket */

struct pmx_node *
asker_open(const char *name, int *result)
{
	struct pmx_node *asker = calloc(1, sizeof(*asker));

	*result = -ENOMEM;
	if (asker == NULL)
		return NULL;
	pthread_mutex_init(&asker->asking, NULL);
	*result = way_thin_attach(asker, name);
	if (*result == 0)
		return asker;
	free(asker);
	return NULL;
}

void
asker_close(struct pmx_node *asker)
{
	close(asker->socket);
	free(asker);
}

/* Return the number of a command in tell.h, or -1. */
static int
number_of(const char *command)
{
	const size_t len = strcspn(command, ",");

	for (size_t i = 0; i < TELL_COMMANDS; i++) {
		if (strlen(tell_commands[i]) == len && strncmp(tell_commands[i], command, len) == 0)
			return (int)i;
	}
	return -1;
}

/* Ask by that socket, and leave the answer in the buffer. Return 0, or -1 with a message. */
static int
relay_ask(struct ctl_session *s, const char *command, char *error)
{
	const char *comma = strchr(command, ',');
	const int number = number_of(command);
	const struct attach_request request = {
		.abi = CHANNEL_ABI,
		.op = ATTACH_TELL,
		.pid = getpid(),
		.ctx = (uint16_t)number,
		.addr = comma != NULL ? strtoul(comma + 1, NULL, 10) : 0,
	};
	struct attach_reply reply;
	int answer = -1, result = number < 0 ? -EACCES : 0;

	if (result == 0)
		result = way_thin_ask(s->relay, &request, -1, &reply, &answer);
	if (result == 0 &&
		(reply.bytes > ANSWER_MAX || set_size(s, reply.bytes + 1, error) != 0 ||
			pread(answer, s->buffer, reply.bytes, 0) != (ssize_t)reply.bytes))
		result = -EIO;
	if (result == 0) {
		s->buffer[reply.bytes] = 0;
		s->pid = reply.pid;
	} else {
		snprintf(error, CTL_ERROR_MAX, "instance '%s' does not answer %s: %s", s->name,
			command,
			result == -EACCES ? "only root and the primary's user may ask that"
					  : pmx_strerror(result));
	}
	if (answer >= 0)
		close(answer);
	return result == 0 ? 0 : -1;
}

/* ------------------------------------------------------------------ sessions */

void
session_close(struct ctl_session *s)
{
	if (s->relay != NULL)
		asker_close(s->relay);
	else
		close(s->fd);
	free(s->buffer);
	*s = (struct ctl_session){.fd = -1};
}

/* Ask a command, and leave the answer in the buffer. Return 0, or -1 with a message. */
static int
exchange(struct ctl_session *s, const char *command, char *error)
{
	if (s->relay != NULL)
		return relay_ask(s, command, error);
	if (send(s->fd, command, strlen(command), MSG_NOSIGNAL) < 0) {
		snprintf(error, CTL_ERROR_MAX, "instance '%s' cannot be asked %s any more: %s",
			s->name, command, strerror(errno));
		return -1;
	}
	return ask_receive(s, command, error);
}

/* Return the value of the answer, or NULL with a message. */
static json_t *
ask_once(struct ctl_session *s, const char *command, char *error)
{
	size_t len = strcspn(command, ",");
	json_error_t why;

	if (exchange(s, command, error) != 0)
		return NULL;
	json_t *answer = json_loads(s->buffer, 0, &why);

	if (answer == NULL) {
		snprintf(error, CTL_ERROR_MAX,
			"instance '%s': its answer to %s is no JSON: %s in '%.200s'", s->name,
			command, why.text, s->buffer);
		return NULL;
	}
	char *key = text("%.*s", (int)len, command);
	json_t *value = json_incref(json_object_get(answer, key));

	free(key);
	json_decref(answer);
	if (value != NULL && !json_is_null(value))
		return value;
	json_decref(value);
	snprintf(error, CTL_ERROR_MAX,
		"instance '%s' (%s, process %d) does not answer %s: it is not pmx-dpdk, or it is "
		"starting "
		"or ending",
		s->name, s->version, s->pid, command);
	return NULL;
}

/* Connect to the primary that has that directory. Return 0; the errno of connect(), with the path
 * of the socket in path; or -1 with a message. */
static int
open_in(struct ctl_session *s, const char *name, unsigned directory, char *path, char *error)
{
	const struct timeval silence = {.tv_sec = SILENCE_S};

	*s = (struct ctl_session){0};
	snprintf(s->name, sizeof(s->name), "%s", name);
	s->fd = instance_connect(name, directory, path);
	if (s->fd < 0)
		return -s->fd;
	setsockopt(s->fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
	setsockopt(s->fd, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence));
	if (read_greeting(s, error) == 0)
		return 0;
	session_close(s);
	return -1;
}

static bool
answers(struct ctl_session *s)
{
	char unused[CTL_ERROR_MAX];
	json_t *info = ask_once(s, "/pmx/info", unused);

	json_decref(info);
	return info != NULL;
}

/* Connect to the primary of that name; of the two of a take-over, to the one that answers. Return
 * as open_in(), and in *ready whether it answers. */
static int
open_one(struct ctl_session *s, const char *name, char *path, char *error, bool *ready)
{
	char other_path[CTL_PATH_MAX], other_error[CTL_ERROR_MAX];
	struct ctl_session other;
	const int code = open_in(s, name, 0, path, error);

	*ready = code == 0 && answers(s);
	if (*ready || open_in(&other, name, 1, other_path, other_error) != 0)
		return code;
	*ready = answers(&other);
	if (code == 0)
		session_close(*ready ? s : &other);
	if (code != 0 || *ready)
		*s = other;
	return 0;
}

/* Return whether it is a primary of pmx-dpdk, and no other program of DPDK's: those have no socket
 * to attach by. */
static bool
is_primary(const char *name)
{
	struct stat unused;
	bool found = has_socket(name, &unused);

	for (unsigned i = 0; i < INSTANCE_DIRECTORIES && !found; i++) {
		char *prefix = instance_prefix(name, i);
		char *link = text("%s/dpdk/%s/" ATTACH_LINK, eal_base(), prefix);

		found = access(link, F_OK) == 0;
		free(link);
		free(prefix);
	}
	return found;
}

int
session_open(struct ctl_session *s, const char *name, char *error)
{
	char path[CTL_PATH_MAX];
	int code, unused;
	bool ready;

	for (unsigned ms = 0;; ms++) {
		code = open_one(s, name, path, error, &ready);
		/* while one takes over from the other, neither answers for some milliseconds */
		if (code != 0 || ready || ms == TAKE_OVER_MS || !is_primary(name))
			break;
		session_close(s);
		usleep(1000);
	}
	if (code <= 0)
		return code;
	/* a user who may attach, but may not ask telemetry */
	s->relay = asker_open(name, &unused);
	if (s->relay != NULL)
		return 0;
	explain(code, name, path, error);
	return -1;
}

/* Continue with the primary that has taken over from the one that was asked. Return false if there
 * is none. */
static bool
goes_on(struct ctl_session *s)
{
	char unused[CTL_ERROR_MAX];
	struct ctl_session next;

	if (session_open(&next, s->name, unused) != 0)
		return false;
	const bool another = next.relay != NULL || next.pid != s->pid;

	if (!another) {
		session_close(&next);
		return false;
	}
	session_close(s);
	*s = next;
	return true;
}

json_t *
session_ask(struct ctl_session *s, const char *command, char *error)
{
	json_t *answer = ask_once(s, command, error);

	return answer != NULL || !goes_on(s) ? answer : ask_once(s, command, error);
}
