#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: slurm.sh BUILD_DIR
# Slurm itself: munged, slurmctld and a slurmd on each of two hosts, which are namespaces here, with a primary each, and
# dpdk-config/slurm/pmx-slurm.sh as prolog, epilog and prolog of tasks. MPI programs by srun --mpi=pmix; a job that is suspended, goes
# on, and is right; one that is cancelled while it is stopped; a node without a primary. Root.
set -u
. "$(dirname "$0")/../system/common.bash"
suite=slurm
PATH=$PATH:/usr/sbin
for program in munged slurmctld slurmd srun; do
	command -v $program >/dev/null || skip_all $suite "$program is not installed: dpdk-config/install.sh --tests=full"
done
. "$(dirname "$0")/two_hosts.bash"
hook=$(cd "$(dirname "$0")/../.." && pwd)/dpdk-config/slurm/pmx-slurm.sh
export SLURM_CONF=$dir/slurm.conf
# Open MPI's components are those of this build
export "${over_pmx[@]}"

# in_host HOST COMMAND...: C is the host of the controller. A program, so that what `start` notes is the command itself
in_host=$dir/in_host
printf '#!/bin/bash\nexec ip netns exec "%s$1" unshare -u sh -c '"'hostname \"\$0\"; exec \"\$@\"'"' "host$1" "${@:2}"\n' "$tag" >"$in_host"
chmod +x "$in_host"

# ------------------------------------------------------------------ a cluster

cat >"$SLURM_CONF" <<-END
	ClusterName=pmx
	SlurmctldHost=hostC(10.9.0.254)
	NodeName=host0 NodeAddr=10.9.0.1 CPUs=2
	NodeName=host1 NodeAddr=10.9.0.2 CPUs=2
	PartitionName=all Nodes=ALL Default=YES
	SlurmUser=root
	SlurmdUser=root
	AuthType=auth/munge
	AuthInfo=socket=$dir/munge.socket
	CredType=cred/munge
	StateSaveLocation=$dir/state
	SlurmdSpoolDir=$dir/spool.%n
	TmpFS=$dir/tmp.%n
	SlurmctldPidFile=$dir/slurmctld.pid
	SlurmdPidFile=$dir/slurmd.%n.pid
	ProctrackType=proctrack/linuxproc
	TaskPlugin=task/none
	JobAcctGatherType=jobacct_gather/none
	SelectType=select/cons_tres
	SelectTypeParameters=CR_CPU
	ReturnToService=2
	KillWait=5
	Prolog=$dir/hook
	Epilog=$dir/hook
	TaskProlog=$hook
	PrologFlags=Alloc
END
# slurmd asks for control groups also where it uses none; a namespace has none mounted, and systemd did not start it
cat >"$dir/with_cgroups" <<-'END'
	#!/bin/sh
	if grep -q :freezer: /proc/self/cgroup; then
		mount -t tmpfs none /sys/fs/cgroup && mkdir /sys/fs/cgroup/freezer && mount -t cgroup -o freezer none /sys/fs/cgroup/freezer
	else
		mount -t cgroup2 none /sys/fs/cgroup
	fi
	exec "$@"
END
chmod +x "$dir/with_cgroups"
printf 'IgnoreSystemd=yes\nCgroupPlugin=%s\n' "$(grep -q :freezer: /proc/self/cgroup && echo cgroup/v1 || echo cgroup/v2)" >"$dir/cgroup.conf"
# two hosts share what is installed here, and have primaries of different names
cat >"$dir/hook" <<-END
	#!/bin/bash
	host=\$(hostname)
	PATH=$build/app:\$PATH PMX_INSTANCE=$tag\${host#host} PMX_SLURM_STATE=$dir/tmp.\$host exec $hook "\$@"
END
chmod +x "$dir/hook"
mkdir "$dir/state" "$dir"/{spool,tmp}.host{0,1}
head -c 128 /dev/urandom >"$dir/munge.key"
chmod 400 "$dir/munge.key"
start "$dir/munge.log" munged --foreground --force --socket="$dir/munge.socket" --key-file="$dir/munge.key" \
	--pid-file="$dir/munge.pid" --seed-file="$dir/munge.seed" --log-file="$dir/munged.log"
wait_for 60 test -S "$dir/munge.socket" || { not_ok slurm_munged "" "$dir/munge.log"; exit 1; }
primaries
node1=$((${#pids[@]} - 1)) # the last that was started
start "$dir/slurmctld.log" "$in_host" C slurmctld -D -f "$SLURM_CONF"
for host in 0 1; do
	start "$dir/slurmd.$host.log" "$in_host" $host "$dir/with_cgroups" slurmd -D -N host$host -f "$SLURM_CONF"
done
slurm() { "$in_host" C timeout 120 "$@"; }
state_is() { [ "$(slurm sinfo -h -n "$1" -o %T 2>&1)" = "$2" ]; }
are_idle() { state_is host0,host1 idle; }
wait_for 100 are_idle && ok slurm__nodes_are_idle || { not_ok slurm__nodes_are_idle "" "$dir/slurmctld.log"; exit 1; }

# ------------------------------------------------------------------ jobs

# the instance is another one on each host
cat >"$dir/rank" <<-'END'
	#!/bin/bash
	host=$(hostname)
	FI_PMX_INSTANCE=$INSTANCES${host#host} PMX_ATTACH=thin exec "$@"
END
export INSTANCES=$tag
jobs_at() { "$build/app/pmx-ctl" --instance "$tag$1" jobs; }
job_is() { jobs_at "$1" | grep -Eq "^ *$2 +$3 "; }
both_are() { job_is 0 "$1" "$2" && job_is 1 "$1" "$2"; }
delivered() { "$build/app/pmx-ctl" --instance "${tag}0" stat --all | awk '$1 == "proto_messages_delivered" {print $2}'; }

# in place of ssh; what it is asked to run is the hook, which each host has with another instance
printf '#!/bin/bash\nexec %s "${1#host}" %s/hook "${@:3}"\n' "$in_host" "$dir" >"$dir/rsh"
chmod +x "$dir/rsh"

passes slurm__prolog_by_hand "$in_host" 0 "$dir/hook" prolog
says slurm__prolog_without_a_primary 1 'no pmx-dpdk answers here' env PATH="$build/app:$PATH" PMX_INSTANCE=nobody "$hook" prolog
passes slurm__epilog_of_a_job_without_contexts env SLURM_JOB_ID=7 "$dir/rsh" host0 "$hook" epilog
says slurm__wrong_arguments 2 'list.freeze.thaw JOBID' "$hook" freeze x
says slurm__called_by_nobody 2 'Prolog=, Epilog= and TaskProlog=' "$hook"
says slurm__no_such_job 1 'job 102 runs on no node' slurm env PMX_SLURM_RSH="$dir/rsh" "$hook" suspend 102

before=$(delivered)
if slurm srun --mpi=pmix -N2 -n2 "$dir/rank" "$build/test/mpi_figures" 0.01 >"$dir/srun.log" 2>&1 && grep -q '^bandwidth_' "$dir/srun.log" &&
	[ "$(delivered)" -gt $((before + 100)) ]; then
	ok slurm__srun_goes_over_pmx
else
	not_ok slurm__srun_goes_over_pmx "$before messages before, $(delivered) now" "$dir/srun.log"
fi

srun_job() { slurm srun --mpi=pmix -N2 -n4 "$dir/rank" sh -c 'echo "slurm job $SLURM_JOB_ID"; PMX_INSTANCE=$FI_PMX_INSTANCE exec "$0"' "$build/test/job" >"$dir/job.log" 2>&1; }
srun_job && number=$(sed -n 's/^slurm job //p' "$dir/job.log" | sort -u) && [ "$(grep -c " is right, in job $number\$" "$dir/job.log")" = 4 ] &&
	ok slurm__its_job_is_the_pmx_job || not_ok slurm__its_job_is_the_pmx_job "" "$dir/job.log"

# begin NAME: figures that take a while, as job $job, of which both hosts have a rank
begin() {
	start "$dir/$1.log" "$in_host" C timeout 280 srun --mpi=pmix -N2 -n2 "$dir/rank" "$build/test/mpi_figures" 0.2
	running=$last
	wait_for 60 has_job && wait_for 60 both_are "$job" runs || not_ok "slurm__${1}_runs" "" "$dir/$1.log"
}
has_job() { job=$(slurm squeue -h -t R -o %i 2>/dev/null) && [ -n "$job" ]; }
is_gone() { ! jobs_at 0 | grep -q "^ *$job " && ! jobs_at 1 | grep -q "^ *$job "; }
for_all() { slurm env PMX_SLURM_RSH="$dir/rsh" "$hook" "$@" >"$dir/said" 2>&1; }

begin suspended
says slurm__list 0 "^$job\$" "$dir/rsh" host0 "$hook" list "$job"
for_all suspend "$job" && both_are "$job" stopped && [ "$(slurm squeue -h -j "$job" -o %T)" = SUSPENDED ] &&
	ok slurm__is_suspended || not_ok slurm__is_suspended "$(jobs_at 0)" "$dir/said"
before=$(delivered)
sleep 1
[ "$(delivered)" = "$before" ] && ok slurm__nothing_moves || not_ok slurm__nothing_moves "$before, $(delivered)"
for_all resume "$job" && both_are "$job" runs && ok slurm__is_resumed || not_ok slurm__is_resumed "$(jobs_at 0)" "$dir/said"
wait "$running" && grep -q '^bandwidth_' "$dir/suspended.log" && ok slurm__is_right_at_its_end || not_ok slurm__is_right_at_its_end "" "$dir/suspended.log"

begin cancelled
for_all suspend "$job" || not_ok slurm__is_suspended_again "" "$dir/said"
slurm scancel "$job"
wait_for 60 is_gone && wait_for 60 are_idle && ok slurm__cancelled_contexts_are_gone || not_ok slurm__cancelled_contexts_are_gone "$(jobs_at 0)" "$dir/cancelled.log"
[ -z "$(find "$dir"/tmp.host* -name 'slurm.*')" ] && ok slurm__nothing_stays_noted || not_ok slurm__nothing_stays_noted "$(ls "$dir"/tmp.host*)"

end "${pids[node1]}"
"$in_host" C timeout 30 srun -N1 -w host1 true >"$dir/drained.log" 2>&1
state_is host1 drained && ok slurm__a_node_without_a_primary_is_drained || not_ok slurm__a_node_without_a_primary_is_drained "$(slurm sinfo -h -N -o '%n %T')" "$dir/drained.log"
exit $failed
