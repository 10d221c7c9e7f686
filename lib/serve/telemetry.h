/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What pmx-ctl reads. Answers on threads of the EAL, which read counters.
 */
#ifndef PMX_SERVE_TELEMETRY_H
#define PMX_SERVE_TELEMETRY_H

struct node;

/* Register /pmx/... with rte_telemetry, for the node last given; NULL: none. */
void telemetry_serve(struct node *n);

#endif
