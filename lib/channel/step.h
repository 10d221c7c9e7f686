/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Places at which a client may die: between any two of these it does nothing that another process
 * sees. Built with PMX_STEPS each calls pmx_step(), which test/system/killed.c has kill the process
 * at the one it wants; otherwise they are nothing.
 */
#ifndef PMX_STEP_H
#define PMX_STEP_H

#ifdef PMX_STEPS
void pmx_step(void);
#define STEP() pmx_step()
#else
#define STEP() ((void)0)
#endif

#endif
