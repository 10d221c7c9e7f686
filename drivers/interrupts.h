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
/* End the EAL; the interrupt thread runs nothing from then on. */
void interrupts_end_eal(void);

#endif
