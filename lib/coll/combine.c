/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Loops over elements, one for each operation and type. Operations of floats are done in the order
 * of the calls, so the same list gives the same bits.
 */
#include "coll/combine.h"

/* Elements need not be aligned, and may be anything else's bytes. */
#define TYPED(T) T __attribute__((aligned(1), may_alias))

#define LOOP(T, value)                                                                             \
	do {                                                                                       \
		TYPED(T) *a = to;                                                                  \
		const TYPED(T) *b = from;                                                          \
		for (size_t i = 0; i < len / sizeof(T); i++) {                                     \
			const T v = a[i], x = b[i];                                                \
			a[i] = (T)(value);                                                         \
		}                                                                                  \
	} while (0)

#define DO_ALL(T)                                                                                  \
	switch (op) {                                                                              \
	case WIRE_A_MIN:                                                                           \
		LOOP(T, x < v ? x : v);                                                            \
		break;                                                                             \
	case WIRE_A_MAX:                                                                           \
		LOOP(T, x > v ? x : v);                                                            \
		break;                                                                             \
	case WIRE_A_SUM:                                                                           \
		LOOP(T, v + x);                                                                    \
		break;                                                                             \
	case WIRE_A_PROD:                                                                          \
		LOOP(T, 1u * v * x);                                                               \
		break;                                                                             \
	case WIRE_A_LOR:                                                                           \
		LOOP(T, v != 0 || x != 0);                                                         \
		break;                                                                             \
	case WIRE_A_LAND:                                                                          \
		LOOP(T, v != 0 && x != 0);                                                         \
		break;                                                                             \
	case WIRE_A_LXOR:                                                                          \
		LOOP(T, (v == 0) != (x == 0));                                                     \
		break;                                                                             \
	}

#define DO_BITS(T)                                                                                 \
	switch (op) {                                                                              \
	case WIRE_A_BOR:                                                                           \
		LOOP(T, v | x);                                                                    \
		break;                                                                             \
	case WIRE_A_BAND:                                                                          \
		LOOP(T, v &x);                                                                     \
		break;                                                                             \
	case WIRE_A_BXOR:                                                                          \
		LOOP(T, v ^ x);                                                                    \
		break;                                                                             \
	}

#define INTEGER(T)                                                                                 \
	do {                                                                                       \
		DO_ALL(T)                                                                          \
		DO_BITS(T)                                                                         \
	} while (0)

void
coll_combine(unsigned op, unsigned type, void *to, const void *from, size_t len)
{
	switch (type) {
	case WIRE_A_INT8: /* sums and products of signed ones wrap around as of unsigned ones */
		if (op == WIRE_A_MIN || op == WIRE_A_MAX)
			INTEGER(int8_t);
		else
			INTEGER(uint8_t);
		break;
	case WIRE_A_UINT8:
		INTEGER(uint8_t);
		break;
	case WIRE_A_INT16:
		if (op == WIRE_A_MIN || op == WIRE_A_MAX)
			INTEGER(int16_t);
		else
			INTEGER(uint16_t);
		break;
	case WIRE_A_UINT16:
		INTEGER(uint16_t);
		break;
	case WIRE_A_INT32:
		if (op == WIRE_A_MIN || op == WIRE_A_MAX)
			INTEGER(int32_t);
		else
			INTEGER(uint32_t);
		break;
	case WIRE_A_UINT32:
		INTEGER(uint32_t);
		break;
	case WIRE_A_INT64:
		if (op == WIRE_A_MIN || op == WIRE_A_MAX)
			INTEGER(int64_t);
		else
			INTEGER(uint64_t);
		break;
	case WIRE_A_UINT64:
		INTEGER(uint64_t);
		break;
	case WIRE_A_FLOAT:
		DO_ALL(float)
		break;
	case WIRE_A_DOUBLE:
		DO_ALL(double)
		break;
	}
}
