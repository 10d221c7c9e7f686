/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the fault link did, in more detail than link_stats has. For pmx-ctl and tests; read by
 * any thread that may also call link_ops.stats.
 */
#ifndef PMX_DRIVERS_FAULT_H
#define PMX_DRIVERS_FAULT_H

#include "fault_model.h"
#include "link.h"

/*
 * When all verdicts are used up and the inner link accepted what it was given:
 * frames taken by tx = model.frames - pending, and
 * frames taken + model.duplicated = frames given to the inner link + held
 *                                 + sum of model.dropped[] + heap_full + no_mbuf.
 */
struct fault_link_counters {
	struct fault_counters model; /* verdicts */
	uint64_t heap_full;          /* copies lost: too many were held back */
	uint64_t no_mbuf;            /* copies lost: pool empty, or frame too long for an mbuf */
	uint32_t held;               /* copies that wait for their time now */
	uint32_t pending;            /* verdicts drawn for frames that were then not taken */
};

/**
 * Read the counters of one tx queue of a fault link.
 *
 * @param l      open link
 * @param queue  0..tx_queues - 1
 * @param out    set on success
 * @return 0, -ENOTSUP if l is no fault link, -EINVAL if it has no such queue
 */
int fault_link_counters(const struct link *l, uint16_t queue, struct fault_link_counters *out);

#endif
