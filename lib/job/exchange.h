/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Where a process learns who it is in its job, and what the others have put: from pmx-run (run.c),
 * by PMIx (pmix.c), or from nobody, where it is a job of one (values.c).
 */
#ifndef PMX_JOB_EXCHANGE_H
#define PMX_JOB_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pmx/job.h"

#define VALUES_KEY_MAX (PMX_JOB_KEY_MAX + 1) /* with what the library puts before it */

struct exchange;

struct exchange_ops {
	/* Return whether this process was started in a way that offers this exchange. */
	bool (*is_here)(void);
	/* Sets rank and size, and the job's number if it is told one. 0; or -errno, with a
	 * sentence. */
	int (*begin)(struct exchange *x, char *error, size_t error_len);
	int (*put)(struct exchange *x, const char *key, const void *value, uint32_t len);
	int (*fence)(struct exchange *x, int64_t timeout_us);
	/* Bytes that there are, of which at most len are copied; -ENOENT. */
	int64_t (*get)(struct exchange *x, uint32_t rank, const char *key, void *value,
		uint32_t len);
	void (*end)(struct exchange *x);
};

struct exchange {
	const struct exchange_ops *ops;
	uint32_t rank, size;
	uint32_t number; /* 0: none was told */
	void *state;
};

/* Read a number up to `most` from a variable of the environment. Return whether one is there. */
bool exchange_number(const char *name, uint32_t most, uint32_t *value);

extern const struct exchange_ops exchange_run, exchange_pmix, exchange_alone;

/* Values by rank and key; one replaces the one before. */
struct values {
	struct value **of; /* by rank */
	uint32_t size;
};

int values_init(struct values *v, uint32_t size);
int64_t values_get(const struct values *v, uint32_t rank, const char *key, void *value,
	uint32_t len);
/* Take in as many records as there are. Return 0, -EPROTO or -ENOMEM. */
int values_take(struct values *v, const uint8_t *records, size_t len);
void values_free(struct values *v);

/* Values on their way: one after the other, each its rank, u32, its length, u32, that of its key,
 * u8, the key, the value. */
struct records {
	uint8_t *bytes;
	size_t len, room;
};

int records_add(struct records *r, uint32_t rank, const char *key, uint32_t key_len,
	const void *value, uint32_t len);
void records_free(struct records *r);

#endif
