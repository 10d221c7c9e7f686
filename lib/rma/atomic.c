/* SPDX-License-Identifier: BSD-3-Clause */
#include "rma/atomic.h"

#include <string.h>

uint32_t
atomic_bytes(unsigned type)
{
	static const uint8_t bytes[WIRE_A_TYPES] = {
		[WIRE_A_INT8] = 1,
		[WIRE_A_UINT8] = 1,
		[WIRE_A_INT16] = 2,
		[WIRE_A_UINT16] = 2,
		[WIRE_A_INT32] = 4,
		[WIRE_A_UINT32] = 4,
		[WIRE_A_INT64] = 8,
		[WIRE_A_UINT64] = 8,
		[WIRE_A_FLOAT] = 4,
		[WIRE_A_DOUBLE] = 8,
	};

	return type < WIRE_A_TYPES ? bytes[type] : 0;
}

bool
atomic_compares(unsigned op)
{
	return op >= WIRE_A_CSWAP && op <= WIRE_A_MSWAP;
}

bool
atomic_is_valid(unsigned op, unsigned type)
{
	bool bits = op == WIRE_A_BOR || op == WIRE_A_BAND || op == WIRE_A_BXOR ||
		op == WIRE_A_MSWAP;

	return op < WIRE_A_OPS && type < WIRE_A_TYPES &&
		!(bits && (type == WIRE_A_FLOAT || type == WIRE_A_DOUBLE));
}

bool
atomic_len_is_valid(unsigned type, uint64_t len)
{
	return len != 0 && len <= WIRE_ATOMIC_BYTES && len % atomic_bytes(type) == 0;
}

uint32_t
atomic_operands(unsigned op, uint32_t len)
{
	return op == WIRE_A_READ ? 0 : atomic_compares(op) ? 2 * len : len;
}

/* Operations of all types; DO(op, value): the value is what is put in place of v, whose operand is
 * x, compared with c. */
#define OF_ALL_TYPES(DO)                                                                           \
	DO(WIRE_A_MIN, x < v ? x : v)                                                              \
	DO(WIRE_A_MAX, x > v ? x : v)                                                              \
	DO(WIRE_A_PROD, v *x)                                                                      \
	DO(WIRE_A_SUM, v + x)                                                                      \
	DO(WIRE_A_LOR, v || x)                                                                     \
	DO(WIRE_A_LAND, v &&x)                                                                     \
	DO(WIRE_A_LXOR, !v != !x)                                                                  \
	DO(WIRE_A_READ, v)                                                                         \
	DO(WIRE_A_WRITE, x)                                                                        \
	DO(WIRE_A_CSWAP, c == v ? x : v)                                                           \
	DO(WIRE_A_CSWAP_NE, c != v ? x : v)                                                        \
	DO(WIRE_A_CSWAP_LE, c <= v ? x : v)                                                        \
	DO(WIRE_A_CSWAP_LT, c < v ? x : v)                                                         \
	DO(WIRE_A_CSWAP_GE, c >= v ? x : v)                                                        \
	DO(WIRE_A_CSWAP_GT, c > v ? x : v)
#define OF_INTEGERS(DO)                                                                            \
	DO(WIRE_A_BOR, v | x)                                                                      \
	DO(WIRE_A_BAND, v &x)                                                                      \
	DO(WIRE_A_BXOR, v ^ x)                                                                     \
	DO(WIRE_A_MSWAP, (x & c) | (v & ~c))
#define OF_NONE(DO)
#define RESULT(op, value)                                                                          \
	case op:                                                                                   \
		return (result_of)(value);

/* Sums and products of signed integers wrap around. */
#define CHANGED(name, type, MORE)                                                                  \
	__attribute__((no_sanitize("undefined"))) static type name(unsigned op, type v, type x,    \
		type c)                                                                            \
	{                                                                                          \
		typedef type result_of;                                                            \
		switch (op) {                                                                      \
			OF_ALL_TYPES(RESULT)                                                       \
			MORE(RESULT)                                                               \
		default:                                                                           \
			return v;                                                                  \
		}                                                                                  \
	}

CHANGED(changed_int8, int8_t, OF_INTEGERS)
CHANGED(changed_uint8, uint8_t, OF_INTEGERS)
CHANGED(changed_int16, int16_t, OF_INTEGERS)
CHANGED(changed_uint16, uint16_t, OF_INTEGERS)
CHANGED(changed_int32, int32_t, OF_INTEGERS)
CHANGED(changed_uint32, uint32_t, OF_INTEGERS)
CHANGED(changed_int64, int64_t, OF_INTEGERS)
CHANGED(changed_uint64, uint64_t, OF_INTEGERS)
CHANGED(changed_float, float, OF_NONE)
CHANGED(changed_double, double, OF_NONE)

/* Elements of one type; `word` is the unsigned integer of its size. */
#define APPLY(id, type, word, changed)                                                             \
	case id:                                                                                   \
		for (size_t i = 0; i < len / sizeof(type); i++) {                                  \
			word *to = (word *)at + i, now, then;                                      \
			type v, x = 0, c = 0;                                                      \
                                                                                                   \
			if (op != WIRE_A_READ)                                                     \
				memcpy(&x, (const uint8_t *)operands + i * sizeof(x), sizeof(x));  \
			if (atomic_compares(op))                                                   \
				memcpy(&c, (const uint8_t *)compared + i * sizeof(c), sizeof(c));  \
			now = __atomic_load_n(to, __ATOMIC_ACQUIRE);                               \
			do {                                                                       \
				memcpy(&v, &now, sizeof(v));                                       \
				v = changed(op, v, x, c);                                          \
				memcpy(&then, &v, sizeof(then));                                   \
			} while (then != now &&                                                    \
				!__atomic_compare_exchange_n(to, &now, then, false,                \
					__ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));                      \
			if (before != NULL)                                                        \
				memcpy((uint8_t *)before + i * sizeof(now), &now, sizeof(now));    \
		}                                                                                  \
		break;

void
atomic_apply(unsigned op, unsigned type, void *at, size_t len, const void *operands,
	const void *compared, void *before)
{
	switch (type) {
		APPLY(WIRE_A_INT8, int8_t, uint8_t, changed_int8)
		APPLY(WIRE_A_UINT8, uint8_t, uint8_t, changed_uint8)
		APPLY(WIRE_A_INT16, int16_t, uint16_t, changed_int16)
		APPLY(WIRE_A_UINT16, uint16_t, uint16_t, changed_uint16)
		APPLY(WIRE_A_INT32, int32_t, uint32_t, changed_int32)
		APPLY(WIRE_A_UINT32, uint32_t, uint32_t, changed_uint32)
		APPLY(WIRE_A_INT64, int64_t, uint64_t, changed_int64)
		APPLY(WIRE_A_UINT64, uint64_t, uint64_t, changed_uint64)
		APPLY(WIRE_A_FLOAT, float, uint32_t, changed_float)
		APPLY(WIRE_A_DOUBLE, double, uint64_t, changed_double)
	default:
		break;
	}
}
