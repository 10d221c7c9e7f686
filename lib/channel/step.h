/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Points at which a test kills a client: between two of them a client does nothing that another
 * process can see. Built with PMX_STEPS, each calls pmx_step(), with which test/system/killed.c
 * kills the process at the point it wants; otherwise they expand to nothing.
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
