/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a node says while it runs, by log types of its own: --log-level=pmx.*:debug, pmx.peer:error.
 * Threads that no message waits for call it; lanes do not. Thread safe.
 */
#ifndef PMX_LOG_H
#define PMX_LOG_H

#include <stdint.h>

#include <rte_log.h>

enum log_kind {
	LOG_NODE,    /* pmx.node: the whole of it, taking over */
	LOG_PEER,    /* pmx.peer: peers up, down, restarted */
	LOG_CONTEXT, /* pmx.context: opened, closed, died */
	LOG_LINK,    /* pmx.link: carriers, what devices cannot do */
	LOG_KINDS,
};

/* Says a line, or leaves it out and counts it if this kind had too many of late. level:
 * RTE_LOG_... */
void log_say(enum log_kind kind, uint32_t level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Says of each kind how many lines were left out, if a line may be said now. */
void log_say_left_out(void);

#endif
