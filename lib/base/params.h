/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Structures of parameters, which begin with their size (pmx.h): a program that was compiled with
 * an earlier or a later version of them gives fewer fields, or more.
 */
#ifndef PMX_BASE_PARAMS_H
#define PMX_BASE_PARAMS_H

#include <errno.h>
#include <stdint.h>
#include <string.h>

/* No structure of parameters is as long: a size above it was never set. */
#define PARAMS_BYTES_MAX 1024

/* Read the parameters `given`, or defaults if it is NULL, into a structure of `size` bytes. Fields
 * that the caller does not know become 0. Return 0, -EINVAL (the caller did not set the size) or
 * -E2BIG (it sets fields that this library does not know). */
static inline int
params_read(void *into, uint32_t size, const void *given)
{
	uint32_t given_size = size;

	memset(into, 0, size);
	if (given != NULL) {
		memcpy(&given_size, given, sizeof(given_size));
		if (given_size < sizeof(given_size) || given_size > PARAMS_BYTES_MAX)
			return -EINVAL;
		for (uint32_t i = size; i < given_size; i++) {
			if (((const uint8_t *)given)[i] != 0)
				return -E2BIG;
		}
		memcpy(into, given, given_size < size ? given_size : size);
	}
	memcpy(into, &size, sizeof(size));
	return 0;
}

#endif
