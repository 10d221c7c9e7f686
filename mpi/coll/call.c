/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How a collective runs, whichever it is: whether it is taken, its agreement if it is long, its
 * beginning, and its end, which a call waits for or a request of MPI tells of.
 */
#include "coll_pmx.h"

#include <opal/util/output.h>

#include <errno.h>

#define LONG_BYTES  (4u << 20) /* of all blocks: from here on all ranks agree first */
#define PENDING_MAX 64         /* as the engine has of a context */
#define PREPARE_MS  200        /* memory that is short may come back */

/* A collective that runs beside the program, or for one of its threads. */
typedef struct mca_coll_pmx_request_t {
	ompi_coll_base_nbc_request_t super;
	struct mpi_call call;
	struct mca_coll_pmx_request_t *next; /* of the queue, or of those that have ended */
} mca_coll_pmx_request_t;

/* Those that have not ended: pending_count of them. */
static pmx_request pending[PENDING_MAX];
static mca_coll_pmx_request_t *owners[PENDING_MAX];
static _Atomic unsigned pending_count;
/* Those that have not begun, in the order in which they shall. */
static mca_coll_pmx_request_t *queue, **queue_end = &queue;

/* ------------------------------------------------------------------ taking */

bool
call_takes(struct mpi_call *x, enum call_kind kind, uint64_t bytes)
{
	x->kind = kind;
	x->bytes = bytes;
	return choices_take(kind, bytes);
}

static void
end_data(struct mpi_call *x, bool has_been)
{
	data_end(&x->out, has_been);
	data_end(&x->in, has_been);
}

/* Return whether an error of a collective that could not begin is of the plan that all ranks have,
 * so that it goes on at all of them. */
static bool
is_of_plan(int error)
{
	return error == -EMSGSIZE || error == -EHOSTUNREACH || error == -EOPNOTSUPP;
}

/* Return whether it is long, as all ranks know, or may be long for some. */
static bool
is_long(const struct mpi_call *x)
{
	if (x->kind == KIND_BARRIER)
		return false;
	if (x->bytes == ANY_BYTES)
		return x->blocks;
	return x->bytes > LONG_BYTES || x->bytes * (uint64_t)x->module->size > LONG_BYTES;
}

/* Take the memory for a long one. Return whether it is there. What holds it may itself wait for the
 * ranks that wait for this one, so it is waited for only a while. */
static bool
prepare(struct mpi_call *x)
{
	const int64_t end = context_ms() + PREPARE_MS;

	for (;;) {
		context_lock();
		const int e = x->verb(x, PMX_COLL_PREPARE);
		context_unlock();
		if (e != -EAGAIN || context_ms() > end)
			return e == 0;
		context_turn();
	}
}

/* Return whether all ranks have the memory for a long one. */
static bool
all_prepared(struct mpi_call *x)
{
	const struct module *m = x->module;
	int all = !x->no_memory && prepare(x);
	const int e = agree(x->comm, &all, 1, MPI_INT, MPI_MIN);

	if (e == MPI_SUCCESS && all)
		return true;
	context_lock();
	pmx_coll_forget(m->group);
	context_unlock();
	return false;
}

/* ------------------------------------------------------------------ errors */

/* Say what has failed, and return it as MPI has it. MPI's error handler decides what becomes of the
 * program. */
static int
failed(const struct mpi_call *x, int error, const struct pmx_status *s)
{
	const struct module *m = x->module;

	if (s != NULL && s->label < m->size)
		opal_output(0, "coll/pmx: rank %d: because of rank %u: %s", m->rank, s->label,
			pmx_strerror(error));
	else
		opal_output(0, "coll/pmx: rank %d: %s", m->rank, pmx_strerror(error));
	return error == -ENOMEM ? MPI_ERR_NO_MEM : MPI_ERR_OTHER;
}

/* ------------------------------------------------------------------ requests */

static int
free_request(ompi_request_t **request)
{
	mca_coll_pmx_request_t *r = (mca_coll_pmx_request_t *)*request;

	if (!REQUEST_COMPLETE(*request))
		return MPI_ERR_REQUEST; /* MPI forbids it */
	OMPI_REQUEST_FINI(&r->super.super);
	OBJ_RELEASE(r->call.comm);
	OBJ_RELEASE(r);
	*request = MPI_REQUEST_NULL;
	return OMPI_SUCCESS;
}

static void
construct(mca_coll_pmx_request_t *r)
{
	ompi_request_t *mpi = &r->super.super;

	OMPI_REQUEST_INIT(mpi, false);
	mpi->req_type = OMPI_REQUEST_COLL;
	mpi->req_status = ompi_status_empty;
	mpi->req_free = free_request;
	mpi->req_cancel = NULL; /* collectives cannot be cancelled */
	mpi->req_state = OMPI_REQUEST_ACTIVE;
}

static OBJ_CLASS_INSTANCE(mca_coll_pmx_request_t, ompi_coll_base_nbc_request_t, construct, NULL);

/* Begin a collective if it may now. Return 0, -EAGAIN, or why it cannot begin at all. */
static int
try_to_begin(mca_coll_pmx_request_t *r)
{
	struct module *m = r->call.module;

	if (!slots_may_begin(&m->seat) || pending_count == PENDING_MAX)
		return -EAGAIN;
	const int e = r->call.verb(&r->call, &pending[pending_count]);

	if (e == 0) {
		slots_begun(&m->seat);
		owners[pending_count++] = r;
	}
	return e;
}

/* Begin what may begin of the queue. Return what cannot, before those of `ended`. */
static mca_coll_pmx_request_t *
begin_queued(mca_coll_pmx_request_t *ended)
{
	mca_coll_pmx_request_t **at = &queue, *r;

	while ((r = *at) != NULL) {
		struct module *m = r->call.module;
		const int e = try_to_begin(r);

		if (e == -EAGAIN && slots_may_begin(&m->seat))
			break;      /* there is no room for any */
		if (e == -EAGAIN) { /* nor may those of its group that are behind it */
			at = &r->next;
			continue;
		}
		*at = r->next;
		m->queued--;
		if (e != 0) {
			r->super.super.req_status.MPI_ERROR = failed(&r->call, e, NULL);
			r->next = ended;
			ended = r;
		}
	}
	for (queue_end = &queue; *queue_end != NULL; queue_end = &(*queue_end)->next)
		(*queue_end)->call.module->is_blocked = false;
	return ended;
}

/* Look at the collectives under way. Return those that have ended, with their results. */
static mca_coll_pmx_request_t *
take_ended(void)
{
	mca_coll_pmx_request_t *ended = NULL, *r;
	struct pmx_status status;

	for (;;) {
		unsigned i = PENDING_MAX, last;
		const int e = pending_count == 0
			? 0
			: pmx_test_any(context_get(), pending, pending_count, &i, &status);

		if (e == 0 || i >= pending_count)
			return begin_queued(ended);
		r = owners[i];
		last = --pending_count;
		pending[i] = pending[last];
		owners[i] = owners[last];
		slots_ended(&r->call.module->seat);
		r->super.super.req_status.MPI_ERROR = e < 0 ? failed(&r->call, e, &status)
							    : MPI_SUCCESS;
		r->next = ended;
		ended = r;
	}
}

int
call_progress(void)
{
	mca_coll_pmx_request_t *r, *next;
	int count = 0;

	context_lock();
	next = take_ended();
	context_unlock();
	while ((r = next) != NULL) {
		next = r->next;
		context_watch(false);
		end_data(&r->call, r->super.super.req_status.MPI_ERROR == MPI_SUCCESS);
		ompi_request_complete(&r->super.super, true);
		count++;
	}
	return count;
}

/* ------------------------------------------------------------------ running */

/* Begin a collective, now or in its turn, and leave it to Open MPI's progress. */
static int
call_start(struct mpi_call *x, mca_coll_pmx_request_t *r)
{
	r->call = *x;
	r->super.super.req_mpi_object.comm = x->comm;
	OBJ_RETAIN(x->comm);
	context_watch(true);
	/* it is pending before another thread can see its end */
	context_lock();
	int e = x->module->queued == 0 ? try_to_begin(r) : -EAGAIN;

	if (e == -EAGAIN) {
		r->next = NULL;
		*queue_end = r;
		queue_end = &r->next;
		x->module->queued++;
		e = 0;
	}
	context_unlock();
	if (e != 0) {
		context_watch(false);
		OBJ_RELEASE(x->comm);
	}
	return e;
}

/* Begin a collective when it may: where there is one thread. Return 0, or why it cannot. */
static int
begin(struct mpi_call *x, pmx_request *request)
{
	const struct module *m = x->module;
	int e;

	while (m->queued != 0 || !slots_may_begin(&m->seat) || (e = x->verb(x, request)) == -EAGAIN)
		context_turn();
	return e;
}

/* Wait for the end of a collective that has just begun. */
static int
call_finish(struct mpi_call *x, pmx_request *request)
{
	struct pmx_status status;
	int e;

	slots_begun(&x->module->seat);
	while ((e = pmx_test(context_get(), request, &status)) == 0)
		context_turn();
	slots_ended(&x->module->seat);
	return e < 0 ? failed(x, e, &status) : MPI_SUCCESS;
}

/* Wait for a collective that is left to Open MPI's progress. Open MPI lets one thread poll, and the
 * others sleep. */
static int
wait_for(mca_coll_pmx_request_t *r)
{
	ompi_request_t *waited = &r->super.super;

	while (!REQUEST_COMPLETE(waited))
		ompi_request_wait_completion(waited);
	const int error = waited->req_status.MPI_ERROR;

	free_request(&waited);
	return error;
}

/* Let a collective go on, which has not begun. Return false. */
static bool
goes_on(struct mpi_call *x)
{
	end_data(x, false);
	choices_give_back(x->kind);
	return false;
}

bool
call_run(struct mpi_call *x, ompi_request_t **request, int *error)
{
	const bool alone = request == NULL && !context_has_threads();
	mca_coll_pmx_request_t *r = NULL;
	pmx_request own;
	int e = -ENOMEM;

	if (is_long(x) && (!x->blocks || !all_prepared(x)))
		return goes_on(x);
	if (!x->no_memory && alone)
		e = begin(x, &own);
	else if (!x->no_memory && (r = OBJ_NEW(mca_coll_pmx_request_t)) != NULL)
		e = call_start(x, r);
	if (e != 0) {
		if (r != NULL)
			OBJ_RELEASE(r);
		if (is_of_plan(e))
			return goes_on(x);
		*error = failed(x, e, NULL);
		end_data(x, false);
	} else if (alone) {
		*error = call_finish(x, &own);
		end_data(x, *error == MPI_SUCCESS);
	} else if (request != NULL) {
		*request = &r->super.super;
		*error = MPI_SUCCESS;
	} else {
		*error = wait_for(r);
	}
	return true;
}
