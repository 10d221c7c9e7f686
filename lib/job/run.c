/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The exchange of a process that pmx-run has started: by a socket that its agent has made for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "job/exchange.h"
#include "job/stream.h"
#include "pmx/job.h"

struct job_run {
	int fd;
	struct stream_in in;
	struct values values;
	bool waits; /* in a fence that did not end in time */
};

static bool
run_is_here(void)
{
	return getenv("PMX_JOB_FD") != NULL;
}

bool
exchange_number(const char *name, uint32_t most, uint32_t *value)
{
	const char *text = getenv(name);
	char *end;

	if (text == NULL || *text == 0)
		return false;
	errno = 0;
	const unsigned long long v = strtoull(text, &end, 10);

	*value = (uint32_t)v;
	return errno == 0 && *end == 0 && v <= most;
}

static int
run_begin(struct exchange *x, char *error, size_t error_len)
{
	uint8_t version[4];
	struct stat st;
	uint32_t fd;

	if (!exchange_number("PMX_JOB_FD", INT32_MAX, &fd) || fstat((int)fd, &st) != 0 ||
		!S_ISSOCK(st.st_mode) || !exchange_number("PMX_JOB", UINT32_MAX, &x->number) ||
		!exchange_number("PMX_SIZE", UINT32_MAX, &x->size) ||
		!exchange_number("PMX_RANK", x->size - 1, &x->rank)) {
		snprintf(error, error_len,
			"PMX_JOB_FD, PMX_JOB, PMX_SIZE, PMX_RANK: these are not what pmx-run set "
			"for this process; a child of a process of a job is no part of it: unset "
			"them");
		return -EINVAL;
	}
	struct job_run *r = x->state = calloc(1, sizeof(*r));

	if (r == NULL || values_init(&r->values, x->size) != 0)
		return -ENOMEM;
	r->fd = (int)fd;
	/* what this process starts is no part of the job */
	fcntl(r->fd, F_SETFD, FD_CLOEXEC);
	unsetenv("PMX_JOB_FD");
	stream_put_u32(version, STREAM_VERSION);
	return stream_write(r->fd, STREAM_HELLO, x->rank, version, sizeof(version));
}

static int
run_put(struct exchange *x, const char *key, const void *value, uint32_t len)
{
	const struct job_run *r = x->state;
	const uint8_t key_len = (uint8_t)strlen(key);
	uint8_t *body = malloc(1u + key_len + len);

	if (body == NULL)
		return -ENOMEM;
	body[0] = key_len;
	memcpy(body + 1, key, key_len);
	if (len != 0)
		memcpy(body + 1 + key_len, value, len);
	const int error = stream_write(r->fd, STREAM_PUT, x->rank, body, 1 + key_len + len);

	free(body);
	return error == -ENOMEM ? error : error != 0 ? -EPIPE : 0;
}

static int
run_fence(struct exchange *x, int64_t timeout_us)
{
	struct job_run *r = x->state;
	const int64_t deadline = clock_deadline(timeout_us);
	struct stream_message m;
	int n;

	if (!r->waits && stream_write(r->fd, STREAM_FENCE, x->rank, NULL, 0) != 0)
		return -EPIPE;
	r->waits = true;
	for (;;) {
		while ((n = stream_next(&r->in, &m)) == 1) {
			if (m.op != STREAM_VALUES)
				return -EPROTO;
			r->waits = false;
			return values_take(&r->values, m.body, m.len);
		}
		if (n < 0)
			return n;
		struct pollfd p = {r->fd, POLLIN, 0};

		if (clock_left(deadline) == 0)
			return -ETIMEDOUT;
		if (poll(&p, 1, clock_poll_ms(deadline, 1000)) <= 0)
			continue;
		n = stream_read(r->fd, &r->in);
		if (n == 0)
			return -EPIPE;
		if (n < 0 && n != -EAGAIN)
			return n;
	}
}

static int64_t
run_get(struct exchange *x, uint32_t rank, const char *key, void *value, uint32_t len)
{
	const struct job_run *r = x->state;

	return values_get(&r->values, rank, key, value, len);
}

static void
run_end(struct exchange *x)
{
	struct job_run *r = x->state;

	if (r == NULL)
		return;
	if (r->fd > 0) {
		stream_write(r->fd, STREAM_LEAVE, x->rank, NULL, 0);
		close(r->fd);
	}
	stream_free(&r->in);
	values_free(&r->values);
	free(r);
}

const struct exchange_ops exchange_run = {
	run_is_here,
	run_begin,
	run_put,
	run_fence,
	run_get,
	run_end,
};
