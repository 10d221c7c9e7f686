/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a primary says while it runs, by log types of its own: --log-level=pmx.*:debug, pmx.peer:error. Threads that no
 * message waits for write it; lanes neither write nor leave word of it.
 */
#ifndef PMX_EVENTS_H
#define PMX_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_log.h>

struct node;

enum events_kind {
	EVENTS_NODE,    /* pmx.node: the whole of it, taking over */
	EVENTS_PEER,    /* pmx.peer: peers up, down, restarted */
	EVENTS_CONTEXT, /* pmx.context: opened, closed, died */
	EVENTS_LINK,    /* pmx.link: carriers, what devices cannot do */
	EVENTS_KINDS,
};

/* A line, or, if this kind had too many of late, one more that is left out. level: RTE_LOG_... */
void events_say(enum events_kind kind, uint32_t level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#define EVENTS_LOOK_MS 1000
/* Every EVENTS_LOOK_MS, by one thread: what became of peers and links, and how many lines were left out. */
void events_look(struct node *n);
/* Before the first look, and behind the last. 0, -ENOMEM. */
int events_begin(struct node *n);
void events_end(void);

#endif
