/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What telemetry tells, for processes that may attach but are not the primary's user: DPDK's own
 * socket is for that user alone.
 */
#ifndef PMX_PRIMARY_RELAY_H
#define PMX_PRIMARY_RELAY_H

#include <stdint.h>

/* Ask telemetry the command of that number (channel/tell.h). Return a descriptor with the answer,
 * for the caller to close, and its length; -EACCES: there is no such command; or another -errno. */
int relay_ask(uint16_t number, uint64_t parameter, uint64_t *bytes);

#endif
