/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Captures of a node's frames, one at a time, that a connection asks for. All functions run on the
 * thread that watches processes.
 */
#ifndef PMX_PRIMARY_CAPTURE_H
#define PMX_PRIMARY_CAPTURE_H

#include "primary/socket.h"

/* Begin the capture that a request asks for, into memory that `fd` is. Return 0; -EACCES: only root
 * and the primary's user may; -EBUSY: somebody captures already; or another -errno. */
int capture_for(struct node *n, const struct asker *who, const struct attach_request *request,
	int fd);
/* End the capture of that connection, if it has one. */
void capture_gone(struct node *n, int connection);

#endif
