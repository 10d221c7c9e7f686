/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Numbers as bytes of the network, the highest first, at any address and of any length up to 8.
 * Pure; any thread.
 */
#ifndef PMX_BASE_BYTES_H
#define PMX_BASE_BYTES_H

#include <stdint.h>

static inline void
put_be(uint8_t *at, uint64_t value, unsigned bytes)
{
	while (bytes-- > 0) {
		at[bytes] = (uint8_t)value;
		value >>= 8;
	}
}

static inline uint64_t
get_be(const uint8_t *at, unsigned bytes)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

#endif
