/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Log messages of a running node, with their own log types: --log-level=pmx.*:debug,
 * pmx.peer:error. Thread safe, but not for lanes, which would delay messages.
 */
#ifndef PMX_LOG_H
#define PMX_LOG_H

#include <stdint.h>

#include <rte_log.h>

enum log_kind {
	LOG_NODE,    /* pmx.node: the node as a whole, take-overs */
	LOG_PEER,    /* pmx.peer: peers up, down, restarted */
	LOG_CONTEXT, /* pmx.context: opened, closed, died */
	LOG_LINK,    /* pmx.link: carriers, limits of devices */
	LOG_KINDS,
};

/* Log a line, or only count it if there were too many lines of this kind recently. level:
 * RTE_LOG_*. */
void log_say(enum log_kind kind, uint32_t level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Have lines go to a function, which returns whether it took one; otherwise they are logged as
 * before. Call this before other threads log. */
void log_pass_to(int (*to)(uint32_t level, const char *line));

/* Log for each kind how many lines were left out, if a line may be logged now. */
void log_say_left_out(void);

/* Let DPDK and this node log to systemd's journal with their levels, once each, if stderr leads
 * there; otherwise do nothing, and the EAL logs to stderr and to syslog, which would be twice.
 * Before rte_eal_init(). */
void log_to_journal(void);

#endif
