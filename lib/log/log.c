/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See log.h. Each kind may log LINES_MOST lines at once, and one more every LINE_MS. The rest is
 * only counted, and the count is logged.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "log/log.h"

#define LINES_MOST 50
#define LINE_MS    200

RTE_LOG_REGISTER(pmx_log_node, pmx.node, INFO)
RTE_LOG_REGISTER(pmx_log_peer, pmx.peer, INFO)
RTE_LOG_REGISTER(pmx_log_context, pmx.context, INFO)
RTE_LOG_REGISTER(pmx_log_link, pmx.link, INFO)

static const int *const types[LOG_KINDS] = {
	[LOG_NODE] = &pmx_log_node,
	[LOG_PEER] = &pmx_log_peer,
	[LOG_CONTEXT] = &pmx_log_context,
	[LOG_LINK] = &pmx_log_link,
};

static const char *const names[LOG_KINDS] = {"node", "peer", "context", "link"};

/* For each kind: the lines that it may still log, as of `at` (tsc), and the lines that were left
 * out. */
static struct {
	uint64_t at;
	uint32_t left, out;
} buckets[LOG_KINDS];

static int (*pass_to)(uint32_t level, const char *line);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects the buckets */

/* Return whether a line of this kind may be logged now, and count it if so. Called with the
 * lock. */
static bool
take_line(enum log_kind kind)
{
	uint64_t now = rte_rdtsc(), each = rte_get_tsc_hz() / 1000 * LINE_MS;

	if (buckets[kind].at == 0) {
		buckets[kind].at = now;
		buckets[kind].left = LINES_MOST;
	}
	while (buckets[kind].left < LINES_MOST && now - buckets[kind].at >= each) {
		buckets[kind].at += each;
		buckets[kind].left++;
	}
	if (buckets[kind].left == LINES_MOST)
		buckets[kind].at = now;
	if (buckets[kind].left == 0)
		return false;
	buckets[kind].left--;
	return true;
}

void
log_pass_to(int (*to)(uint32_t level, const char *line))
{
	pass_to = to;
}

static __attribute__((format(printf, 3, 4))) void
put_line(enum log_kind kind, uint32_t level, const char *fmt, ...)
{
	char line[600];
	const int head = snprintf(line, sizeof(line), "pmx.%s: ", names[kind]);
	va_list args;

	va_start(args, fmt);
	vsnprintf(line + head, sizeof(line) - (size_t)head, fmt, args);
	va_end(args);
	if (pass_to == NULL || !pass_to(level, line))
		rte_log(level, (uint32_t)*types[kind], "%s\n", line);
}

/* Log how many lines of this kind were left out, if a line may be logged now. */
static void
say_left_out(enum log_kind kind)
{
	uint32_t out = 0;

	pthread_mutex_lock(&lock);
	if (buckets[kind].out > 0 && take_line(kind)) {
		out = buckets[kind].out;
		buckets[kind].out = 0;
	}
	pthread_mutex_unlock(&lock);
	if (out > 0)
		put_line(kind, RTE_LOG_NOTICE, "%u lines were left out", out);
}

void
log_say(enum log_kind kind, uint32_t level, const char *fmt, ...)
{
	uint32_t type = (uint32_t)*types[kind];
	char text[512];
	va_list args;

	if (!rte_log_can_log(type, level))
		return;
	say_left_out(kind);
	pthread_mutex_lock(&lock);
	bool said = take_line(kind);

	buckets[kind].out += !said;
	pthread_mutex_unlock(&lock);
	if (!said)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	put_line(kind, level, "%s", text);
}

void
log_say_left_out(void)
{
	for (unsigned i = 0; i < LOG_KINDS; i++)
		say_left_out(i);
}

static ssize_t
journal_write(void *unused, const char *text, size_t len)
{
	/* sd-daemon(3): a line's level; those of DPDK are one higher */
	const uint32_t level = (uint32_t)rte_log_cur_msg_loglevel();

	(void)unused;
	fprintf(stderr, "<%u>%.*s", level > 0 ? level - 1 : 6, (int)len, text);
	return (ssize_t)len;
}

void
log_to_journal(void)
{
	const char *journal = getenv("JOURNAL_STREAM");
	unsigned long device, inode;
	struct stat st;

	if (journal == NULL || sscanf(journal, "%lu:%lu", &device, &inode) != 2 ||
		fstat(STDERR_FILENO, &st) != 0 || st.st_dev != device || st.st_ino != inode)
		return;
	FILE *stream = fopencookie(NULL, "w", (cookie_io_functions_t){.write = journal_write});

	if (stream == NULL)
		return;
	setvbuf(stream, NULL, _IOLBF, 0);
	rte_openlog_stream(stream);
}
