/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What DPDK renamed between 22.11 and 24.11, under its new names. The only place that depends on
 * DPDK's version.
 */
#ifndef PMX_NODE_DPDK_NAMES_H
#define PMX_NODE_DPDK_NAMES_H

#include <pthread.h>

#include <rte_lcore.h>
#include <rte_telemetry.h>
#include <rte_thread.h>
#include <rte_version.h>

#if RTE_VERSION < RTE_VERSION_NUM(23, 3, 0, 0)
static inline int
rte_tel_data_add_dict_uint(struct rte_tel_data *d, const char *name, uint64_t value)
{
	return rte_tel_data_add_dict_u64(d, name, value);
}

static inline int
rte_tel_data_add_array_uint(struct rte_tel_data *d, uint64_t value)
{
	return rte_tel_data_add_array_u64(d, value);
}

#define RTE_TEL_UINT_VAL RTE_TEL_U64_VAL
#endif

/* Control threads do not run on the CPUs of the EAL's lcores, which poll; a thread of
 * pthread_create() would inherit the CPU of its creator. The function returns a control_result,
 * 0. */
#if RTE_VERSION < RTE_VERSION_NUM(23, 11, 0, 0)
typedef pthread_t control_thread;
typedef void *control_result;

static inline int
control_thread_create(control_thread *thread, const char *name, control_result (*run)(void *),
	void *arg)
{
	return rte_ctrl_thread_create(thread, name, NULL, run, arg);
}

static inline void
control_thread_join(control_thread thread)
{
	pthread_join(thread, NULL);
}

static inline void
control_thread_detach(control_thread thread)
{
	pthread_detach(thread);
}
#else
typedef rte_thread_t control_thread;
typedef uint32_t control_result;

static inline int
control_thread_create(control_thread *thread, const char *name, control_result (*run)(void *),
	void *arg)
{
	return rte_thread_create_control(thread, name, run, arg);
}

static inline void
control_thread_join(control_thread thread)
{
	rte_thread_join(thread, NULL);
}

static inline void
control_thread_detach(control_thread thread)
{
	rte_thread_detach(thread);
}
#endif

#endif
