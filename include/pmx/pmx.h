/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file pmx.h
 * Reliable messages between the processes of a cluster, over plain Ethernet.
 *
 * A node is a host (its pmx-dpdk primary, or a node embedded in one process). A context is one
 * application's endpoint on a node. A message goes from a context to any other context, arrives
 * exactly once, in the order sent between these two, or ends in an error completion.
 *
 * The verbs are those of PM (PM/UDP, IPSJ 1999): get a send buffer, write into it, send it; receive
 * a message, read it in place, release it. Only functions named *_wait block, and those that need
 * an answer of the primary or the engine: attaching, opening and closing; allocating, registering
 * and their counterparts; with engine.matching = engine also pmx_iprobe(), pmx_improbe() and
 * pmx_cancel(). A running engine answers within microseconds; if it has ended, calls return -EPIPE.
 *
 * Thread safety: a context is used by one thread at a time; different contexts are independent.
 * fork(): nodes and contexts stay the parent's, which notices nothing. In the child calls of them
 * return -EPIPE, descriptors are closed, and closing frees what is the child's; it attaches anew,
 * thin, for contexts of its own. So a program that becomes a daemon attaches after that. Memory of
 * pmx_alloc() is shared by both. exec() closes all that this library opened.
 * Errors: 0 or a count on success, a negative errno on failure; outputs are set only on success.
 * pmx_strerror() says in words what an error means here and what to do about it.
 * Times: timeout_us is the longest wait in microseconds of CLOCK_MONOTONIC; 0: the call does not
 * wait; below 0 (PMX_FOREVER): no limit. So everywhere.
 * Flags: each has a bit of its own in all headers, so one that a call does not have is -EINVAL.
 * Parameters: a struct pmx_*_params begins with its size, which the caller sets (sizeof); what it
 * does not set is 0 and stands for the default, and so does NULL instead of the structure. A size
 * of 0 is -EINVAL; a longer one, of a later version, is -E2BIG if it has anything but zeros there.
 *
 * What may change: while the first number of the version is 0, each change of the second one may
 * change the interface, and with it the name of the library (libpmx.so.0.2), so that a program
 * runs with the one that it was compiled for or does not start. A change of the third one adds at
 * most functions, flags, and fields at the end of structures with a size.
 */
#ifndef PMX_H
#define PMX_H

#include <pmx/context.h>
#include <pmx/match.h>
#include <pmx/remote.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The version that a program is compiled for. */
#define PMX_VERSION        "0.2.0"
/** Is the same for comparing: 10000 times the first number, 100 times the second, and the third. */
#define PMX_VERSION_NUMBER 200

/** Return the version of the library that runs, as PMX_VERSION. Any thread. */
PMX_API const char *pmx_version(void);

/** Tells how serious a line of the log is, by the numbers of syslog(3). */
enum pmx_log_level {
	PMX_LOG_ERROR = 3,
	PMX_LOG_WARNING = 4,
	PMX_LOG_NOTICE = 5,
	PMX_LOG_INFO = 6,
	PMX_LOG_DEBUG = 7,
};

/** Takes a line of the log, without an end of line. Any thread of the library calls it, also
 * several at once; it must not call functions of the library. */
typedef void (*pmx_log_function)(void *arg, enum pmx_log_level level, const char *line);

/** Have this process's library pass what it has to say to a function, in place of stderr: its own
 * words, and those of embedded nodes about peers, contexts and links. DPDK's words stay on stderr.
 * @param to   NULL: stderr again. A call that has begun may still come.
 * @param arg  for the function
 */
PMX_API void pmx_log_to(pmx_log_function to, void *arg);

#ifdef __cplusplus
}
#endif
#endif
