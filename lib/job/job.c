/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Jobs (include/pmx/job.h), over the public verbs and an exchange of values.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/params.h"
#include "job/exchange.h"
#include "pmx/job.h"

#define MINUTE_US 60000000
/* keys of a process's own address, and of what rank 0 has drawn */
#define ADDRESS   "address"
#define DRAWN     "drawn"

struct pmx_job {
	struct exchange exchange;
	struct pmx_node *node;
	struct pmx_context *ctx;
	struct pmx_group *group;
	struct pmx_addr *addresses; /* by rank */
	uint32_t secret;            /* known to its processes alone; not 0 */
};

static struct pmx_job *the_job;

struct complaint {
	char *text;
	size_t len;
};

/* Write what failed into the text, unless a deeper function has done so, which knows better. Return
 * `error`. */
__attribute__((format(printf, 3, 4))) static int
complain(const struct complaint *c, int error, const char *format, ...)
{
	va_list args;

	if (c->len == 0 || c->text[0] != 0)
		return error;
	va_start(args, format);
	vsnprintf(c->text, c->len, format, args);
	va_end(args);
	return error;
}

static int
job_begin(struct pmx_job *j, const struct complaint *c)
{
	static const struct exchange_ops *const all[] = {&exchange_run, &exchange_pmix};
	struct exchange *x = &j->exchange;

	x->ops = &exchange_alone;
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (all[i]->is_here()) {
			x->ops = all[i];
			break;
		}
	}
	/* a part of a job that would take itself for all of it helps nobody */
	if (x->ops == &exchange_alone && getenv("SLURM_PROCID") != NULL &&
		getenv("SLURM_NTASKS") != NULL && strcmp(getenv("SLURM_NTASKS"), "1") != 0)
		return complain(c, -EOPNOTSUPP,
			"Slurm has started %s processes without an exchange of addresses: use srun "
			"--mpi=pmix, or pmx-run in place of srun",
			getenv("SLURM_NTASKS"));
	const int error = x->ops->begin(x, c->text, c->len);

	return error != 0
		? complain(c, error, "who this process is in its job: %s", pmx_strerror(error))
		: 0;
}

/* Draw a random number that is not 0, unless *number has one already. Return 0 or -errno. */
static int
job_draw(uint32_t *number)
{
	while (*number == 0) {
		if (getrandom(number, sizeof(*number), 0) != sizeof(*number))
			return -errno;
	}
	return 0;
}

/* Let rank 0 draw the job's secret for all, which its messages show as their domain, and its
 * number, if no launcher told one. The number is no secret: people see it, and multicasts show it
 * to a whole network. */
static int
draw_for_all(struct pmx_job *j, int64_t timeout_us, const struct complaint *c)
{
	struct exchange *x = &j->exchange;
	/* in the byte order of rank 0, which is that of all */
	struct {
		uint32_t number, secret;
	} drawn = {x->number, 0};
	int error = 0;

	if (x->rank == 0) {
		error = job_draw(&drawn.number);
		error = error != 0 ? error : job_draw(&drawn.secret);
		error = error != 0 ? error : x->ops->put(x, DRAWN, &drawn, sizeof(drawn));
	}
	if (error == 0)
		error = x->ops->fence(x, timeout_us);
	if (error == 0 && x->ops->get(x, 0, DRAWN, &drawn, sizeof(drawn)) != sizeof(drawn))
		error = -EPROTO;
	if (error != 0)
		return complain(c, error, "the job's secret, of rank 0 of %u processes: %s",
			x->size, pmx_strerror(error));
	x->number = drawn.number;
	j->secret = drawn.secret;
	return 0;
}

static int
attach(struct pmx_job *j, const struct pmx_job_params *p, const struct complaint *c)
{
	const char *instance = p->instance != NULL ? p->instance : getenv("PMX_INSTANCE");
	int error = pmx_node_attach(&j->node, p->instance, NULL);

	if (error == -ENOENT && instance == NULL)
		return complain(c, error,
			"no primary runs here to which this user may attach: start pmx-dpdk, or "
			"name one by PMX_INSTANCE");
	instance = instance != NULL ? instance : "of this host";
	if (error != 0)
		return complain(c, error, "primary '%s': %s", instance, pmx_strerror(error));
	/* a job of one talks with whom it likes */
	if (!p->no_domain && j->exchange.size > 1)
		pmx_node_set_domain(j->node, j->secret);
	error = pmx_context_open(&j->ctx, j->node, PMX_ANY_CONTEXT, p->context);
	return error != 0
		? complain(c, error, "a context of '%s': %s", instance, pmx_strerror(error))
		: 0;
}

/* Tell the others this process's address, and learn theirs. */
static int
meet(struct pmx_job *j, int64_t timeout_us, const struct complaint *c)
{
	const struct pmx_addr own = pmx_context_addr(j->ctx);
	const uint8_t bytes[4] = {(uint8_t)(own.node >> 8), (uint8_t)own.node,
		(uint8_t)(own.context >> 8), (uint8_t)own.context};
	struct exchange *x = &j->exchange;
	int error = x->ops->put(x, ADDRESS, bytes, sizeof(bytes));

	if (error == 0)
		error = x->ops->fence(x, timeout_us);
	if (error != 0)
		return complain(c, error, "exchange of addresses with %u processes: %s", x->size,
			pmx_strerror(error));
	j->addresses = calloc(x->size, sizeof(*j->addresses));
	if (j->addresses == NULL)
		return -ENOMEM;
	for (uint32_t r = 0; r < x->size; r++) {
		uint8_t b[4];

		if (x->ops->get(x, r, ADDRESS, b, sizeof(b)) != sizeof(b))
			return complain(c, -EPROTO, "rank %u has told no address", r);
		j->addresses[r] = (struct pmx_addr){(uint16_t)(b[0] << 8 | b[1]),
			(uint16_t)(b[2] << 8 | b[3])};
	}
	return 0;
}

static int
open_group(struct pmx_job *j, int64_t timeout_us, const struct complaint *c)
{
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = j->exchange.number,
		.count = j->exchange.size,
		.members = j->addresses,
	};
	struct pmx_status status = {0};
	pmx_request request;
	int result = pmx_group_open(j->ctx, &p, timeout_us, &j->group, &request);

	if (result == 0) {
		/* the group's own timeout comes first, and names who is missing */
		result = pmx_wait(j->ctx, &request, &status,
			timeout_us < CLOCK_NEVER - MINUTE_US ? timeout_us + MINUTE_US
							     : PMX_FOREVER);
		result = result == 1 ? 0 : result;
		if (result != 0)
			return complain(c, result, "group of all %u processes: rank %u (%u.%u): %s",
				p.count, status.label, status.source.node, status.source.context,
				pmx_strerror(result));
	}
	return result != 0 ? complain(c, result, "group of all %u processes: %s", p.count,
				     pmx_strerror(result))
			   : 0;
}

int
pmx_job_init(struct pmx_job **job, const struct pmx_job_params *params, int64_t timeout_us,
	char *error, uint32_t error_len)
{
	const struct complaint c = {error, error != NULL ? error_len : 0};
	const int64_t deadline = clock_deadline(timeout_us);
	struct pmx_job_params p;
	int result = params_read(&p, sizeof(p), params);

	if (c.len != 0)
		error[0] = 0;
	if (result != 0)
		return complain(&c, result, "size of struct pmx_job_params: %s",
			pmx_strerror(result));
	if (the_job != NULL)
		return complain(&c, -EALREADY, "this process takes part in its job already");
	struct pmx_job *j = the_job = calloc(1, sizeof(*j));

	if (j == NULL)
		return -ENOMEM;
	result = job_begin(j, &c);
	if (result == 0)
		result = draw_for_all(j, timeout_us, &c);
	if (result == 0)
		result = attach(j, &p, &c);
	if (result == 0)
		result = meet(j, timeout_us, &c);
	if (result == 0 && !p.no_group) {
		const int64_t left = clock_left(deadline);

		result = open_group(j, left > 1000000 ? left : 1000000, &c);
		/* who leaves at once must not be missed by those whose group is not open yet */
		if (result == 0)
			result = j->exchange.ops->fence(&j->exchange, timeout_us);
	}
	if (result != 0) {
		complain(&c, result, "%s", pmx_strerror(result));
		pmx_job_finalize(j);
		return result;
	}
	*job = j;
	return 0;
}

void
pmx_job_finalize(struct pmx_job *job)
{
	if (job == NULL)
		return;
	pmx_group_close(job->group);
	if (job->ctx != NULL)
		pmx_context_close(job->ctx);
	pmx_node_close(job->node);
	if (job->exchange.ops != NULL)
		job->exchange.ops->end(&job->exchange);
	free(job->addresses);
	free(job);
	the_job = NULL;
}

uint32_t
pmx_job_number(const struct pmx_job *job)
{
	return job->exchange.number;
}

uint32_t
pmx_job_rank(const struct pmx_job *job)
{
	return job->exchange.rank;
}

uint32_t
pmx_job_size(const struct pmx_job *job)
{
	return job->exchange.size;
}

struct pmx_node *
pmx_job_node(const struct pmx_job *job)
{
	return job->node;
}

struct pmx_context *
pmx_job_context(const struct pmx_job *job)
{
	return job->ctx;
}

struct pmx_group *
pmx_job_group(const struct pmx_job *job)
{
	return job->group;
}

int
pmx_job_address(const struct pmx_job *job, uint32_t rank, struct pmx_addr *address)
{
	if (rank >= job->exchange.size)
		return -EINVAL;
	*address = job->addresses[rank];
	return 0;
}

/* Make the full key of a value of the application, which no key of the library can be. Return false
 * if `key` is not allowed. */
static bool
full_key(char *full, size_t room, const char *key)
{
	const size_t len = key != NULL ? strnlen(key, PMX_JOB_KEY_MAX) : 0;

	if (len == 0 || key[len] != 0)
		return false;
	snprintf(full, room, "=%s", key);
	return true;
}

int
pmx_job_put(struct pmx_job *job, const char *key, const void *value, uint32_t len)
{
	char full[PMX_JOB_KEY_MAX + 2];

	if (!full_key(full, sizeof(full), key) || len > PMX_JOB_VALUE_MAX)
		return -EINVAL;
	return job->exchange.ops->put(&job->exchange, full, value, len);
}

int
pmx_job_fence(struct pmx_job *job, int64_t timeout_us)
{
	return job->exchange.ops->fence(&job->exchange, timeout_us);
}

int
pmx_job_get(struct pmx_job *job, uint32_t rank, const char *key, void *value, uint32_t len)
{
	char full[PMX_JOB_KEY_MAX + 2];

	if (rank >= job->exchange.size || !full_key(full, sizeof(full), key))
		return -EINVAL;
	return (int)job->exchange.ops->get(&job->exchange, rank, full, value, len);
}
