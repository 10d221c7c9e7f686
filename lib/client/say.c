/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See say.h.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "client/say.h"

static struct {
	pthread_mutex_t lock;
	pmx_log_function to; /* NULL: stderr */
	void *arg;
} log_to = {.lock = PTHREAD_MUTEX_INITIALIZER};

void
pmx_log_to(pmx_log_function to, void *arg)
{
	pthread_mutex_lock(&log_to.lock);
	log_to.to = to;
	log_to.arg = arg;
	pthread_mutex_unlock(&log_to.lock);
}

int
client_pass(enum pmx_log_level level, const char *line)
{
	pthread_mutex_lock(&log_to.lock);
	const pmx_log_function to = log_to.to;
	void *const arg = log_to.arg;

	pthread_mutex_unlock(&log_to.lock);
	if (to != NULL)
		to(arg, level, line);
	return to != NULL;
}

void
client_say(enum pmx_log_level level, const char *fmt, ...)
{
	char line[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	if (!client_pass(level, line))
		fprintf(stderr, "pmx: %s\n", line);
}
