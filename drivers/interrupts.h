/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Keeps the EAL's interrupt thread from running callbacks while a port closes, or the EAL ends.
 */
#ifndef PMX_INTERRUPTS_H
#define PMX_INTERRUPTS_H

/* Wait until the interrupt thread runs no callback, and keep it so until as many calls of
 * interrupts_release(). Any thread but that one. */
void interrupts_hold(void);
void interrupts_release(void);
/* End the EAL; the interrupt thread is kept for good. */
void interrupts_end_eal(void);

#endif
