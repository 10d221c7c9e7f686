# SPDX-License-Identifier: BSD-3-Clause
#
# What Open MPI is told by tests; version 5 has other names for it, and other parts. To be sourced after common.bash; $agent, if it is
# set: the command that takes ssh's place.

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=$dir PRTE_MCA_prte_tmpdir_base=$dir
[ -z "${agent:-}" ] || export OMPI_MCA_plm_rsh_agent=$agent PRTE_MCA_plm_ssh_agent=$agent
# Settings of a run over pmx and nothing else: by the component of Open MPI (mpi/mtl), or by libfabric, which Debian's configuration
# leaves out, and which names its own providers first.
components=OMPI_MCA_mca_base_component_path=$build/mpi:SYSTEM_DEFAULT:USER_DEFAULT
remote_memory=(FI_PROVIDER=pmx OMPI_MCA_osc=rdma OMPI_MCA_btl=ofi,self)
if mpirun --version 2>/dev/null | grep -q ' 4\.'; then
	nothing_else=(OMPI_MCA_pml=cm OMPI_MCA_osc=pt2pt OMPI_MCA_btl=self)
else
	# One-sided operations by remote memory are all that there is; up to 5.0.8 only where pml/cm is chosen and not asked for (Open MPI's
	# issue 13298)
	nothing_else=("${remote_memory[@]}")
fi
over_pmx=(OMPI_MCA_mtl=pmx "$components" "${nothing_else[@]}")
over_ofi=(FI_PROVIDER=pmx OMPI_MCA_mtl=ofi "${nothing_else[@]}")
