#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: pmx-slurm.sh                            as Prolog=, Epilog= and TaskProlog= of slurm.conf, which tell it what they are
#        pmx-slurm.sh prolog | epilog | task     the same, by name: on each node as root; as the user of a task
#        pmx-slurm.sh list|freeze|thaw JOBID     on one node: the contexts of the processes of that Slurm job
#        pmx-slurm.sh suspend|resume JOBID       on all its nodes, with 'scontrol suspend' and 'resume'
# A Slurm job's processes are found by SLURM_JOB_ID in their environment, whatever started them (srun, mpirun, pmx-run). What was
# frozen is written down, so that epilog can undo it when they are gone.
# Environment: PMX_INSTANCE: the primary, if several run here. PMX_SLURM_STATE: directory (/run/pmx-dpdk). PMX_SLURM_RSH: how a
# command is run on a node, whose name is appended (ssh -o BatchMode=yes).
set -u

self=$(realpath "$0")
state=${PMX_SLURM_STATE:-/run/pmx-dpdk}
rsh=${PMX_SLURM_RSH:-ssh -o BatchMode=yes}
ctl=(pmx-ctl ${PMX_INSTANCE:+--instance "$PMX_INSTANCE"})

die() {
	echo "pmx-slurm.sh: $*" >&2
	exit 1
}

usage() {
	sed -n '4,6s/^# *//p' "$self" >&2
	exit 2
}

# the pmx jobs of that Slurm job's processes here, a number a line
jobs_of() {
	local pid job
	"${ctl[@]}" --json contexts | tr -d ' ",' | awk -F: '
		$1 == "pid" {pid = $2} $1 == "job" {job = $2}
		/^}/ {if (pid > 0 && job > 0) print pid, job; pid = job = 0}' | sort -u |
		while read -r pid job; do
			tr '\0' '\n' 2>/dev/null <"/proc/$pid/environ" | grep -qx "SLURM_JOB_ID=$1" && echo "$job"
		done | sort -un
}

noted() { cat "$state/slurm.$1" 2>/dev/null; }

freeze() {
	local job
	for job in $(jobs_of "$1"); do
		echo "$job" >>"$state/slurm.$1" || die "$state/slurm.$1: cannot be written"
		"${ctl[@]}" freeze "$job" || exit 1
	done
}

thaw() {
	local job
	for job in $({ jobs_of "$1"; noted "$1"; } | sort -un); do
		"${ctl[@]}" thaw "$job" || exit 1
	done
	rm -f "$state/slurm.$1"
}

# everywhere freeze|thaw JOBID
everywhere() {
	local nodes node failed=0
	nodes=$(scontrol show hostnames "$(squeue -h -j "$2" -o %N)") && [ -n "$nodes" ] || die "job $2 runs on no node: squeue -j $2"
	for node in $nodes; do
		$rsh "$node" "$self" "$1" "$2" || { echo "pmx-slurm.sh: $node: $1 failed" >&2; failed=1; }
	done
	return $failed
}

# Slurm passes no arguments, but says in this variable what it calls
[ $# -gt 0 ] || case ${SLURM_SCRIPT_CONTEXT:-} in
prolog_slurmd) set -- prolog ;;
epilog_slurmd) set -- epilog ;;
prolog_task) set -- task ;;
*) usage ;;
esac
case $1 in
prolog)
	# a node without its primary takes no job: Slurm drains it
	timeout 10 "${ctl[@]}" jobs >/dev/null || die "no pmx-dpdk answers here: systemctl status pmx-dpdk"
	;;
epilog)
	[ -n "${SLURM_JOB_ID:-}" ] || die "SLURM_JOB_ID is not set"
	thaw "$SLURM_JOB_ID"
	;;
task)
	# Slurm reads it, and gives it to the task: the number of the pmx job is that of the Slurm job
	[ -z "${SLURM_JOB_ID:-}" ] || echo "export PMX_JOB=$SLURM_JOB_ID"
	;;
list | freeze | thaw | suspend | resume)
	[ $# -eq 2 ] && [[ $2 =~ ^[0-9]+$ ]] || usage
	case $1 in
	list) jobs_of "$2" ;;
	freeze) freeze "$2" ;;
	thaw) thaw "$2" ;;
	# first the network, so that nothing of the job is on its way when its processes stop
	suspend) everywhere freeze "$2" && scontrol suspend "$2" ;;
	resume) scontrol resume "$2" && everywhere thaw "$2" ;;
	esac
	;;
*) usage ;;
esac
