/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The exchange of a process that mpirun, srun --mpi=pmix or another launcher with PMIx has started.
 * Their library is loaded when one has, so that nobody else needs it.
 *
 * Design note
 * 1. What PMIx has told once it may tell for ever, so no key is used twice: all that a process puts
 *    before a fence is one value there, by the fence's number.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "job/exchange.h"

#ifdef PMX_PMIX
#include <dlfcn.h>
#include <pmix.h>

#define PREFIX "pmx." /* of keys, so that they are not anyone else's */

struct pmix {
	void *library;
	pmix_status_t (*init)(pmix_proc_t *, pmix_info_t *, size_t);
	pmix_status_t (*finalize)(const pmix_info_t *, size_t);
	pmix_status_t (*put)(pmix_scope_t, const char *, pmix_value_t *);
	pmix_status_t (*commit)(void);
	pmix_status_t (*fence)(const pmix_proc_t *, size_t, const pmix_info_t *, size_t);
	pmix_status_t (*get)(const pmix_proc_t *, const char *, const pmix_info_t *, size_t,
		pmix_value_t **);
	const char *(*text)(pmix_status_t);
	pmix_proc_t self;
	struct values values;
	struct records waits; /* put since the last fence */
	uint32_t fences;
	uint32_t *taken; /* by rank: fences whose values are in `values` */
	bool begun;
};

static bool
pmix_is_here(void)
{
	return getenv("PMIX_NAMESPACE") != NULL && getenv("PMIX_RANK") != NULL;
}

static bool
load(struct pmix *p, char *error, size_t error_len)
{
	const struct {
		const char *name;
		void *to;
	} symbols[] = {{"PMIx_Init", &p->init}, {"PMIx_Finalize", &p->finalize},
		{"PMIx_Put", &p->put}, {"PMIx_Commit", &p->commit}, {"PMIx_Fence", &p->fence},
		{"PMIx_Get", &p->get}, {"PMIx_Error_string", &p->text}};

	p->library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
	for (unsigned i = 0; p->library != NULL && i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		void *found = dlsym(p->library, symbols[i].name);

		if (found == NULL)
			break;
		memcpy(symbols[i].to, &found, sizeof(found));
	}
	if (p->library != NULL && p->text != NULL)
		return true;
	snprintf(error, error_len, "the launcher speaks PMIx, but its library cannot be loaded: %s",
		dlerror());
	return false;
}

static void
free_value(pmix_value_t *v)
{
	if (v == NULL)
		return;
	if (v->type == PMIX_BYTE_OBJECT)
		free(v->data.bo.bytes);
	free(v);
}

static pmix_info_t
said(const char *key)
{
	pmix_info_t i;

	memset(&i, 0, sizeof(i));
	snprintf(i.key, sizeof(i.key), "%s", key);
	i.value.type = PMIX_BOOL;
	i.value.data.flag = true;
	return i;
}

static pmix_proc_t
everyone(const struct pmix *p)
{
	pmix_proc_t all = p->self;

	all.rank = PMIX_RANK_WILDCARD;
	return all;
}

static int
pmix_begin(struct exchange *x, char *error, size_t error_len)
{
	struct pmix *p = x->state = calloc(1, sizeof(*p));
	pmix_value_t *size = NULL;

	if (p == NULL)
		return -ENOMEM;
	if (!load(p, error, error_len))
		return -EOPNOTSUPP;
	pmix_status_t s = p->init(&p->self, NULL, 0);

	if (s == PMIX_SUCCESS) {
		const pmix_proc_t all = everyone(p);

		p->begun = true;
		s = p->get(&all, PMIX_JOB_SIZE, NULL, 0, &size);
	}
	if (s != PMIX_SUCCESS || size->type != PMIX_UINT32) {
		snprintf(error, error_len, "PMIx: %s", p->text(s));
		free_value(size);
		return -EOPNOTSUPP;
	}
	x->size = size->data.uint32;
	x->rank = p->self.rank;
	/* of a scheduler, or of who started the launcher */
	if (!exchange_number("PMX_JOB", UINT32_MAX, &x->number))
		x->number = 0;
	free_value(size);
	p->taken = calloc(x->size, sizeof(*p->taken));
	return p->taken != NULL ? values_init(&p->values, x->size) : -ENOMEM;
}

static int
pmix_put(struct exchange *x, const char *key, const void *value, uint32_t len)
{
	struct pmix *p = x->state;

	return records_add(&p->waits, x->rank, key, (uint32_t)strlen(key), value, len);
}

/* PMIx counts whole seconds, from 1; 0: no limit. */
static int
fence_seconds(int64_t timeout_us)
{
	if (timeout_us < 0 || timeout_us > (INT_MAX - 1) * INT64_C(1000000))
		return 0;
	return timeout_us > 0 ? (int)((timeout_us + 999999) / 1000000) : 1;
}

static int
pmix_fence(struct exchange *x, int64_t timeout_us)
{
	struct pmix *p = x->state;
	const pmix_proc_t all = everyone(p);
	pmix_info_t info[2] = {said(PMIX_COLLECT_DATA), said(PMIX_TIMEOUT)};
	char key[32];
	pmix_value_t v;

	snprintf(key, sizeof(key), PREFIX "%u", p->fences);
	memset(&v, 0, sizeof(v));
	v.type = PMIX_BYTE_OBJECT;
	v.data.bo.bytes = (char *)p->waits.bytes;
	v.data.bo.size = p->waits.len;
	info[1].value.type = PMIX_INT;
	info[1].value.data.integer = fence_seconds(timeout_us);
	if ((p->waits.len != 0 && p->put(PMIX_GLOBAL, key, &v) != PMIX_SUCCESS) ||
		p->commit() != PMIX_SUCCESS)
		return -EPIPE;
	const pmix_status_t s = p->fence(&all, 1, info, 2);

	if (s != PMIX_SUCCESS)
		return s == PMIX_ERR_TIMEOUT ? -ETIMEDOUT : -EPIPE;
	p->fences++;
	p->waits.len = 0;
	return 0;
}

/* Take in the values that a rank has put before a fence. There may be none. */
static int
pmix_take(struct pmix *p, uint32_t rank, uint32_t fence)
{
	/* who has put nothing is not asked for it, since it might do so some day */
	const pmix_info_t now = said(PMIX_IMMEDIATE);
	pmix_proc_t whose = p->self;
	pmix_value_t *v = NULL;
	char key[32];
	int error = 0;

	snprintf(key, sizeof(key), PREFIX "%u", fence);
	whose.rank = rank;
	if (p->get(&whose, key, &now, 1, &v) == PMIX_SUCCESS && v->type == PMIX_BYTE_OBJECT)
		error = values_take(&p->values, (const uint8_t *)v->data.bo.bytes, v->data.bo.size);
	free_value(v);
	return error;
}

static int64_t
pmix_get(struct exchange *x, uint32_t rank, const char *key, void *value, uint32_t len)
{
	struct pmix *p = x->state;

	for (; p->taken[rank] < p->fences; p->taken[rank]++) {
		const int error = pmix_take(p, rank, p->taken[rank]);

		if (error != 0)
			return error;
	}
	return values_get(&p->values, rank, key, value, len);
}

static void
pmix_end(struct exchange *x)
{
	struct pmix *p = x->state;

	if (p == NULL)
		return;
	/* the library stays: it has threads */
	if (p->begun)
		p->finalize(NULL, 0);
	values_free(&p->values);
	records_free(&p->waits);
	free(p->taken);
	free(p);
}

#else

static bool
pmix_is_here(void)
{
	return getenv("PMIX_NAMESPACE") != NULL && getenv("PMIX_RANK") != NULL;
}

static int
pmix_begin(struct exchange *x, char *error, size_t error_len)
{
	(void)x;
	snprintf(error, error_len,
		"the launcher speaks PMIx, but this build of libpmx-job does not: install "
		"libpmix-dev and build again, or start the job by pmx-run");
	return -EOPNOTSUPP;
}

static int
pmix_put(struct exchange *x, const char *key, const void *value, uint32_t len)
{
	(void)x, (void)key, (void)value, (void)len;
	return -EOPNOTSUPP;
}

static int
pmix_fence(struct exchange *x, int64_t timeout_us)
{
	(void)x, (void)timeout_us;
	return -EOPNOTSUPP;
}

static int64_t
pmix_get(struct exchange *x, uint32_t rank, const char *key, void *value, uint32_t len)
{
	(void)x, (void)rank, (void)key, (void)value, (void)len;
	return -EOPNOTSUPP;
}

static void
pmix_end(struct exchange *x)
{
	(void)x;
}

#endif

const struct exchange_ops exchange_pmix = {
	pmix_is_here,
	pmix_begin,
	pmix_put,
	pmix_fence,
	pmix_get,
	pmix_end,
};
