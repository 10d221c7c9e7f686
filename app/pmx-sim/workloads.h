/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The sizes of messages in data centres; workloads.c.
 */
#ifndef PMX_SIM_WORKLOADS_H
#define PMX_SIM_WORKLOADS_H

#include <stdint.h>

/* So large a part of all messages, 0 to 1, has at most so many bytes. */
struct size_point {
	uint32_t bytes;
	double part;
};

struct workload {
	const char *name;
	const struct size_point *points;
	uint32_t count;
};

#define WORKLOADS 5
extern const struct workload workloads[WORKLOADS];

/* Return the size that so large a part of all messages does not exceed. */
uint32_t workload_size(const struct workload *w, double part);
/* Return the mean of a function of the size. */
double workload_mean(const struct workload *w, double (*of)(uint32_t bytes));

#endif
