/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the parts of a lane share: the names of its counters, and how another thread wakes it.
 */
#include <sys/eventfd.h>

#include "engine/lane.h"

const struct proto_counter_info engine_counter_info[ENGINE_COUNTER_COUNT] = {
#define ENGINE_COUNTER_INFO(name, unit, help) {#name, unit, help},
	ENGINE_COUNTERS(ENGINE_COUNTER_INFO)
#undef ENGINE_COUNTER_INFO
};

const struct proto_counter_info *const sealed_counter_info[SEALED_COUNTER_COUNT] = {
#define SEALED_COUNTER_INFO(name) &engine_counter_info[ENGINE_##name],
	SEALED_COUNTERS(SEALED_COUNTER_INFO)
#undef SEALED_COUNTER_INFO
};

void
engine_wake(struct engine *e)
{
	/* full fence: the ring's entry must be visible before the flag is read; pairs with
	 * engine_sleep's */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&e->sleeps, memory_order_relaxed))
		/* an error means that the counter is full: the lane is awake all the same */
		eventfd_write(e->doorbell, 1);
}
