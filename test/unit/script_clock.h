/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The clock and the random numbers of test_script.c and test_virtual.c. Every source of the engine
 * and the client is compiled once more with this header before its first line, so that a run is a
 * function of its script: time passes only when a node looks at its link. The header is compiled
 * once for all of them, and so has what takes most of their time, rte_mbuf.h.
 */
#ifndef PMX_SCRIPT_CLOCK_H
#define PMX_SCRIPT_CLOCK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/random.h>

/* as some of those sources do, which DPDK's headers must see first */
#define ALLOW_EXPERIMENTAL_API
#include <rte_cycles.h>
#include <rte_mbuf.h>
#include <rte_random.h>

#define SCRIPT_HZ 1000000000u

extern uint64_t script_now;     /* ns */
extern uint64_t script_randoms; /* the seed, and what became of it */

uint64_t script_rdtsc(void);
uint64_t script_hz(void);
uint64_t script_rand(void);
ssize_t script_getrandom(void *to, size_t len, unsigned flags);

#define rte_rdtsc      script_rdtsc
#define rte_get_tsc_hz script_hz
#define rte_rand       script_rand
#define getrandom      script_getrandom

#endif
