/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What ends while the EAL's interrupt thread must run no callback of it. By any thread but that
 * one.
 */
#ifndef PMX_INTERRUPTS_H
#define PMX_INTERRUPTS_H

#include <stdbool.h>
#include <stdint.h>

/* Close a port of DPDK, and stop it before if it has been started. */
void interrupts_close_port(uint16_t port, bool started);
/* Stop a port of net_memif, if it has been started, and start it. Nothing is logged if its peer is
 * away. Return 0, or a negative errno: then it is stopped; but with -EAGAIN the thread was busy,
 * and nothing is done. No lane may poll it meanwhile. */
int interrupts_restart_port(uint16_t port, bool started);
/* End the EAL; the interrupt thread runs nothing from then on. */
void interrupts_end_eal(void);

#endif
