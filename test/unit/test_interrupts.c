/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What ends while the interrupt thread is in a callback: drivers/interrupts.c.
 */
#define ALLOW_EXPERIMENTAL_API /* rte_intr_instance_alloc */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include <sys/eventfd.h>

#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_malloc.h>

#include "interrupts.h"

#define RUNS_US 100000

static struct {
	int event;
	atomic_uint begun, ended;
	atomic_bool ends;          /* it runs until then */
	volatile uint32_t *memory; /* of DPDK, which a callback uses until it ends */
} callback;

static void
run(void *arg)
{
	eventfd_t unused;

	(void)arg;
	eventfd_read(callback.event, &unused);
	atomic_fetch_add(&callback.begun, 1);
	while (!atomic_load(&callback.ends)) {
		++*callback.memory;
		usleep(1000);
	}
	++*callback.memory;
	atomic_fetch_add(&callback.ended, 1);
}

static void *
end_later(void *arg)
{
	usleep(RUNS_US);
	atomic_store(&callback.ends, true);
	return arg;
}

static void
wait_for_end(void)
{
	while (atomic_load(&callback.ended) != atomic_load(&callback.begun))
		usleep(100);
}

/* Have the interrupt thread begin its callback, and return when it has. It ends later if `ends`. */
static void
begin_callback(bool ends)
{
	const unsigned before = atomic_load(&callback.begun);
	pthread_t thread;

	atomic_store(&callback.ends, false);
	if (ends) {
		assert_int_equal(pthread_create(&thread, NULL, end_later, NULL), 0);
		pthread_detach(thread);
	}
	assert_int_equal(eventfd_write(callback.event, 1), 0);
	while (atomic_load(&callback.begun) == before)
		usleep(100);
}

/* Close the port of that name while a callback runs, which ends later if `ends`. */
static void
close_meanwhile(const char *name, bool ends)
{
	uint16_t port;

	assert_int_equal(rte_eth_dev_get_port_by_name(name, &port), 0);
	begin_callback(ends);
	interrupts_close_port(port, false);
	assert_false(rte_eth_dev_is_valid_port(port));
}

static void
interrupts_close_port__waits_for_memif(void **state)
{
	(void)state;
	close_meanwhile("net_memif0", true);
	assert_int_equal(atomic_load(&callback.ended), 1);
	/* and others run again */
	begin_callback(true);
	wait_for_end();
}

static void
interrupts_close_port__others_need_theirs(void **state)
{
	(void)state;
	close_meanwhile("net_null0", false);
	assert_int_equal(atomic_load(&callback.ended), 2);
	atomic_store(&callback.ends, true);
	wait_for_end();
}

/* The last, since there is no EAL after it. */
static void
interrupts_end_eal__lets_none_run(void **state)
{
	(void)state;
	begin_callback(true);
	interrupts_end_eal();
	assert_int_equal(atomic_load(&callback.ended), 4);
	assert_int_equal(eventfd_write(callback.event, 1), 0);
	usleep(RUNS_US);
	assert_int_equal(atomic_load(&callback.begun), 4);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interrupts_close_port__waits_for_memif),
		cmocka_unit_test(interrupts_close_port__others_need_theirs),
		cmocka_unit_test(interrupts_end_eal__lets_none_run),
	};
	char memif[128],
		*eal[] = {"test_interrupts", "--no-huge", "--no-pci", "-m", "64", "--no-telemetry",
			"--no-shconf", "--log-level=*:error", "--vdev=net_null0", memif, NULL};
	struct rte_intr_handle *handle;

	snprintf(memif, sizeof(memif), "--vdev=net_memif0,role=server,socket=@pmx-test-%d",
		getpid());
	if (rte_eal_init((int)(sizeof(eal) / sizeof(eal[0])) - 1, eal) < 0)
		return 1;
	handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	callback.event = eventfd(0, EFD_NONBLOCK);
	callback.memory = rte_zmalloc(NULL, sizeof(*callback.memory), 0);
	if (handle == NULL || callback.memory == NULL ||
		rte_intr_fd_set(handle, callback.event) != 0 ||
		rte_intr_type_set(handle, RTE_INTR_HANDLE_EXT) != 0 ||
		rte_intr_callback_register(handle, run, NULL) != 0)
		return 1;
	return cmocka_run_group_tests_name("interrupts", tests, NULL, NULL);
}
