/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The component as Open MPI sees it: its parameters, whether it can be used, its beginning and its
 * end. `ompi_info --param mtl pmx --level 9` shows the parameters.
 */
#include "mtl_pmx.h"

#include <opal/mca/base/mca_base_var.h>
#include <opal/runtime/opal_progress.h>
#include <opal/util/output.h>

#include <pmx/pmx.h>

#include <stdlib.h>

#define PRIORITY  60 /* above pml/ob1's 20: where there is a primary, messages go by pmx */
#define RANKS_MAX 0x10000

static int priority = PRIORITY;
static char *instance;

/* ------------------------------------------------------------------ the module */

static int
add_procs(struct mca_mtl_base_module_t *self, size_t count, struct ompi_proc_t **procs)
{
	(void)self;
	return mtl_learn(procs, count);
}

static int
del_procs(struct mca_mtl_base_module_t *self, size_t count, struct ompi_proc_t **procs)
{
	(void)self, (void)count, (void)procs;
	return OMPI_SUCCESS;
}

static int
take_comm(struct mca_mtl_base_module_t *self, struct ompi_communicator_t *comm)
{
	(void)self;
	return ompi_comm_size(comm) <= RANKS_MAX ? OMPI_SUCCESS : OMPI_ERR_NOT_SUPPORTED;
}

static int
finalize(struct mca_mtl_base_module_t *self)
{
	(void)self;
	opal_progress_unregister(messages_progress);
	mtl_close();
	return OMPI_SUCCESS;
}

static mca_mtl_base_module_t module = {
	.mtl_add_procs = add_procs,
	.mtl_del_procs = del_procs,
	.mtl_finalize = finalize,
	.mtl_add_comm = take_comm,
	.mtl_del_comm = take_comm,
};

/* ------------------------------------------------------------------ the component */

/* Say whether Open MPI may take this component: where there is a primary. */
static int
query(mca_base_module_t **found, int *its_priority)
{
	if (instance != NULL) /* the provider's name for it */
		setenv("FI_PMX_INSTANCE", instance, 1);
	if (priority < 0 || !mtl_can_open())
		return OMPI_ERR_NOT_AVAILABLE;
	*found = (mca_base_module_t *)&module;
	*its_priority = priority;
	return OMPI_SUCCESS;
}

static int register_variables(void);
static mca_mtl_base_module_t *init(bool progress_threads, bool threads
#if OMPI_MAJOR_VERSION >= 5
	,
	bool *accelerator
#endif
);

__attribute__((visibility("default"))) mca_mtl_base_component_2_0_0_t mca_mtl_pmx_component = {
	.mtl_version =
		{
			MCA_MTL_BASE_VERSION_2_0_0,
			.mca_component_name = "pmx",
			MCA_BASE_MAKE_VERSION(component, OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION,
				OMPI_RELEASE_VERSION),
			.mca_query_component = query,
			.mca_register_component_params = register_variables,
		},
	.mtl_data = {MCA_BASE_METADATA_PARAM_NONE},
	.mtl_init = init,
};

static mca_mtl_base_module_t *
init(bool progress_threads, bool threads
#if OMPI_MAJOR_VERSION >= 5
	,
	bool *accelerator
#endif
)
{
	const int e = mtl_open(threads);

	(void)progress_threads;
#if OMPI_MAJOR_VERSION >= 5
	*accelerator = false;
#endif
	if (e != 0) {
		opal_output(0, "mtl/pmx: no endpoint: %s; messages go by other components",
			pmx_strerror(e));
		return NULL;
	}
	if (mtl_publish(&mca_mtl_pmx_component.mtl_version) != OMPI_SUCCESS) {
		mtl_close();
		return NULL;
	}
	messages_set(&module);
	opal_progress_register(messages_progress);
	return &module;
}

static int
register_variables(void)
{
	const mca_base_component_t *c = &mca_mtl_pmx_component.mtl_version;

	mca_base_component_var_register(c, "priority", "Priority of messages by pmx",
		MCA_BASE_VAR_TYPE_INT, NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY,
		&priority);
	mca_base_component_var_register(c, "instance",
		"Name of the primary to attach to; default: FI_PMX_INSTANCE of the environment, or "
		"the first that is found",
		MCA_BASE_VAR_TYPE_STRING, NULL, 0, 0, OPAL_INFO_LVL_4, MCA_BASE_VAR_SCOPE_READONLY,
		&instance);
	return OMPI_SUCCESS;
}
