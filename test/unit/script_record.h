/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What test_script records: a line for each frame that carries data or ends a flow, and for each
 * thing that an application is told; and how these lines are compared with a file, or written to
 * it. One thread.
 */
#ifndef PMX_SCRIPT_RECORD_H
#define PMX_SCRIPT_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <rte_mbuf.h>

/* A step begins: nothing of the one before is known any more. */
void record_begin(const char *step);
/* Memory whose address a frame may say: it is written as an offset in it. */
void record_memory(const void *addr, uint64_t len);
/* A node gives a frame to its link. */
void record_frame(unsigned node, const struct rte_mbuf *m);
/* Record what an application is told. */
void record_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t record_sum(const void *bytes, uint64_t len);
/* The step ends: its frames are counted. All: no lines are folded into digests. The text lives
 * until the next step begins. */
const char *record_end(bool all);
/* The first line that differs from the step's section in a file is printed; 0: none does. */
int record_compare(const char *path, const char *step, const char *text);

#endif
