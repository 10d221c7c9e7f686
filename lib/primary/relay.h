/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What telemetry tells, for processes that may attach but are not the primary's user: DPDK's own
 * socket is for that user alone.
 */
#ifndef PMX_PRIMARY_RELAY_H
#define PMX_PRIMARY_RELAY_H

#include <stdint.h>

/* Ask telemetry the command that the descriptor has as its bytes, and return a descriptor with the
 * answer, for the caller to close, and its length. Only what changes nothing is asked: -EACCES for
 * all else. Or another -errno. */
int relay_ask(int question, uint64_t *bytes);

#endif
