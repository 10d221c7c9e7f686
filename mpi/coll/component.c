/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The component as Open MPI sees it: its parameters, a module for each communicator, and its end.
 * `ompi_info --param coll pmx --level 9` shows the parameters.
 */
#include "coll_pmx.h"

#include <opal/mca/base/mca_base_var.h>

#include <stdlib.h>

#define PRIORITY 80    /* above those that are for networks of any kind */
#define LEAVE_MS 10000 /* the most that the end of the process waits for other ranks to leave */

/* The parameters. */
static int component_priority = PRIORITY;
static char *take, *instance;
static bool is_verbose, adopts;

static bool is_first; /* in MPI_COMM_WORLD */

/* ------------------------------------------------------------------ modules */

static void
construct(struct module *m)
{
	const mca_coll_base_comm_coll_t nobody = {0};

	m->before = nobody;
	m->is_asked = false;
	m->tries = 0;
	m->group = NULL;
	m->seat.running = m->queued = 0;
	m->is_blocked = false;
}

#define RELEASE(name)                                                                              \
	if (m->before.coll_##name##_module != NULL)                                                \
		OBJ_RELEASE(m->before.coll_##name##_module);
#define RELEASE_BOTH(name) RELEASE(name) RELEASE(i##name)

static void
destruct(struct module *m)
{
	if (m->group != NULL)
		group_leave(m->group);
	COLLECTIVES(RELEASE_BOTH)
}

/* a class of Open MPI has the name of its type */
typedef struct module mca_coll_pmx_module_t;
static OBJ_CLASS_INSTANCE(mca_coll_pmx_module_t, mca_coll_base_module_t, construct, destruct);

#define RETAIN(name)                                                                               \
	if (m->before.coll_##name##_module == NULL)                                                \
		all = false;                                                                       \
	else                                                                                       \
		OBJ_RETAIN(m->before.coll_##name##_module);
#define RETAIN_BOTH(name) RETAIN(name) RETAIN(i##name)

static int
enable(mca_coll_base_module_t *module, struct ompi_communicator_t *comm)
{
	struct module *m = (struct module *)module;
	bool all = true;

	m->before = *comm->c_coll;
	COLLECTIVES(RETAIN_BOTH)
	return all ? OMPI_SUCCESS : OMPI_ERR_NOT_FOUND;
}

static mca_coll_base_module_t *
query(struct ompi_communicator_t *comm, int *priority)
{
	if (OMPI_COMM_IS_INTER(comm) || ompi_comm_size(comm) < 2 || component_priority < 0)
		return NULL;
	struct module *m = OBJ_NEW(mca_coll_pmx_module_t);

	if (m == NULL)
		return NULL;
	m->rank = ompi_comm_rank(comm);
	m->size = ompi_comm_size(comm);
	m->super.coll_module_enable = enable;
	verbs_set(&m->super);
	is_first |= comm == &ompi_mpi_comm_world.comm && m->rank == 0;
	*priority = component_priority;
	return &m->super;
}

/* ------------------------------------------------------------------ what Open MPI calls */

static int register_variables(void);

/* Go on with what is under way. */
static int
progress(void)
{
	context_lock();
	group_leave_move();
	context_unlock();
	return call_progress();
}

static int
query_init(bool progress_threads, bool mpi_threads)
{
	(void)progress_threads;
	context_set(&(struct context_options){
		.has_threads = mpi_threads,
		.is_verbose = is_verbose,
		.instance = instance,
		.progress = progress,
	});
	return OMPI_SUCCESS;
}

static int
close_component(void)
{
	const int64_t end = context_ms() + LEAVE_MS;

	if (is_verbose && is_first)
		choices_say();
	while (context_get() != NULL && !group_leave_move() && context_ms() < end)
		context_turn();
	context_close();
	return OMPI_SUCCESS;
}

__attribute__((visibility("default"))) mca_coll_base_component_t mca_coll_pmx_component = {
	.collm_version =
		{
#if OMPI_MAJOR_VERSION >= 5
			MCA_COLL_BASE_VERSION_2_4_0,
#else
			MCA_COLL_BASE_VERSION_2_0_0,
#endif
			.mca_component_name = "pmx",
			MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
				OMPI_RELEASE_VERSION),
			.mca_close_component = close_component,
			.mca_register_component_params = register_variables,
		},
	.collm_data = {MCA_BASE_METADATA_PARAM_NONE},
	.collm_init_query = query_init,
	.collm_comm_query = query,
};

static void
add(const char *name, const char *what, mca_base_var_type_t type, void *at)
{
	mca_base_component_var_register(&mca_coll_pmx_component.collm_version, name, what, type,
		NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY, at);
}

static int
register_variables(void)
{
	instance = getenv("FI_PMX_INSTANCE"); /* as for the libfabric provider */
	add("priority", "Priority of collectives by pmx", MCA_BASE_VAR_TYPE_INT,
		&component_priority);
	add("take",
		"What is taken: off, all, or KIND=LEAST-MOST,... (bytes of a block), KIND=all, "
		"KIND=off",
		MCA_BASE_VAR_TYPE_STRING, &take);
	add("instance", "Name of the primary to attach to; default: the first that is found",
		MCA_BASE_VAR_TYPE_STRING, &instance);
	add("verbose_end", "Say at the end how many collectives were taken", MCA_BASE_VAR_TYPE_BOOL,
		&is_verbose);
	add("adopt", "Let the engine reach long buffers that are used again (doc/guide/mpi.md)",
		MCA_BASE_VAR_TYPE_BOOL, &adopts);
	if (take != NULL)
		choices_read(take);
	adopt_set(adopts);
	return OMPI_SUCCESS;
}
