/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The process's node and context, who may use them, and their part of Open MPI's progress.
 */
#include "coll_pmx.h"

#include <opal/runtime/opal_progress.h>
#include <opal/util/output.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TURNS 16 /* polls between turns of Open MPI */

static struct context_options options;
static struct pmx_node *node;
static struct pmx_context *context;
static bool is_attached, is_embedded; /* is_attached: tried to, with a result */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic unsigned watched; /* collectives under way and groups being left */

void
context_set(const struct context_options *o)
{
	options = *o;
}

bool
context_is_verbose(void)
{
	return options.is_verbose;
}

bool
context_has_threads(void)
{
	return options.has_threads;
}

void
context_lock(void)
{
	if (options.has_threads)
		pthread_mutex_lock(&lock);
}

void
context_unlock(void)
{
	if (options.has_threads)
		pthread_mutex_unlock(&lock);
}

static int
progress(void)
{
	struct pmx_event event;

	/* an embedded node moves only here */
	if (watched == 0 && !is_embedded)
		return 0;
	if (options.has_threads && pthread_mutex_trylock(&lock) != 0)
		return 0;
	/* members that have gone are told by the requests, too */
	pmx_poll_event(context, &event);
	context_unlock();
	return options.progress();
}

static void
attach(void)
{
	const char *how = getenv("PMX_ATTACH");
	/* with threads nobody yields under the lock: Open MPI's progress does it outside */
	const struct pmx_context_params params = {
		.size = sizeof(params),
		.idle = options.has_threads ? PMX_IDLE_SPIN : PMX_IDLE_AUTO,
	};
	/* as ofi/fabric.c does */
	const struct pmx_attach_params attach_params = {
		.size = sizeof(attach_params),
		.how = how != NULL ? PMX_ATTACH_AUTO : PMX_ATTACH_THIN,
	};
	int e = pmx_node_attach(&node, options.instance, &attach_params);

	if (e == 0)
		e = pmx_context_open(&context, node, PMX_ANY_CONTEXT, &params);
	if (e == 0) {
		slots_set(pmx_coll_limit(context));
		opal_progress_register(progress);
	} else if (options.is_verbose || e != -ENOENT) {
		opal_output(0, "coll/pmx: %s: %s; collectives go by other components",
			options.instance != NULL ? options.instance : "no primary",
			pmx_strerror(e));
	}
	is_embedded = how != NULL && strcmp(how, "embedded") == 0;
	is_attached = true;
}

bool
context_attach(void)
{
	context_lock();
	if (!is_attached)
		attach();
	context_unlock();
	return context != NULL;
}

struct pmx_context *
context_get(void)
{
	return context;
}

int64_t
context_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000ll + t.tv_nsec / 1000000;
}

void
context_watch(bool more)
{
	watched += more ? 1u : -1u;
}

void
context_turn(void)
{
	static unsigned polls;
	struct pmx_event event;

	if (options.has_threads || ++polls % TURNS == 0)
		opal_progress();
	else
		pmx_poll_event(context, &event);
}

void
context_close(void)
{
	if (context != NULL) {
		opal_progress_unregister(progress);
		pmx_context_close(context);
		context = NULL;
	}
	/* others in this process may still use an embedded node, which ends with its last user */
	pmx_node_close(node);
	node = NULL;
}
