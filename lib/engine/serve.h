/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a primary offers to other processes: attaching, and telemetry. Both answer on EAL's own
 * threads and reach lanes only by commands and by reading counters.
 */
#ifndef PMX_SERVE_H
#define PMX_SERVE_H

#include "engine/engine.h"

/* Answer attach requests and watch the processes behind them. One node a process. 0 or -errno. */
int attach_serve(struct node *n);
void attach_stop(void);

/* Register /pmx/... with rte_telemetry, for the node last given; NULL: none. */
void telemetry_serve(struct node *n);

#endif
