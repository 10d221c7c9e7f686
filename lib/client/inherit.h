/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the EAL and its drivers open is not closed by exec(): they set no FD_CLOEXEC. So this sets
 * it for all that was opened between inherit_begin() and inherit_end(), also for what another
 * thread opens meanwhile. On the thread that starts the EAL.
 */
#ifndef PMX_INHERIT_H
#define PMX_INHERIT_H

void inherit_begin(void);
void inherit_end(void);

/* Have exec() close the epoll instances that were made since inherit_begin() as well. This is to be
 * called before a fork: a thread of the EAL makes an epoll instance anew whenever its interrupts
 * change. */
void inherit_forks(void);

#endif
