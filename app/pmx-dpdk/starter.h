/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Whoever starts a primary, and waits until applications can attach to it: a script, by a
 * descriptor or --background, or systemd.
 */
#ifndef PMX_STARTER_H
#define PMX_STARTER_H

#include <sys/types.h>

/* Exit codes: another attempt may succeed (1), or never will (2). dpdk-config/pmx-dpdk.service.in
 * uses them. */
#define EXIT_FAILED 1
#define EXIT_WRONG  2

struct starter {
	int ready_fd, started_fd; /* descriptors of --ready-fd and of --background, or -1 */
};

/* Return the process at the other end of a connected socket, or 0. */
pid_t starter_of_socket(int fd);

/* Tell systemd that this process has given all to that one, which is the service's from now on. */
void starter_hand_over(pid_t next);

/* Tell that applications can attach to the primary of that name. */
void starter_tell(const struct starter *starter, const char *name);

/* Go on in a child, and let this process end when applications can attach to it, or it has failed.
 * Return -1 in the child, and otherwise the exit code. */
int starter_leave(struct starter *starter);

#endif
