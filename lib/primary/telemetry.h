/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What pmx-ctl reads. Requests are answered on threads of the EAL, which only read counters.
 */
#ifndef PMX_SERVE_TELEMETRY_H
#define PMX_SERVE_TELEMETRY_H

struct node;

/* Register /pmx/... with rte_telemetry. Requests are answered for the node that was given last;
 * NULL: for none. None is being answered for the one before when this returns. */
void telemetry_serve(struct node *n);

#endif
