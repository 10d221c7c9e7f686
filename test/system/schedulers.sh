#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: schedulers.sh BUILD_DIR
# What schedulers call: dpdk-config/slurm/pmx-slurm.sh with commands in place of Slurm's, which say what they were asked; the
# Kubernetes manifest is YAML, and its commands are those of this build. Needs root, since it reads environments.
set -u
. "$(dirname "$0")/common.bash"
[ "$(id -u)" -eq 0 ] || skip_all schedulers "needs root, to read the environments of processes"
hook=$(cd "$(dirname "$0")/../.." && pwd)/dpdk-config/slurm/pmx-slurm.sh
manifest=$(dirname "$hook")/../kubernetes/pmx-dpdk.yaml

cat >"$dir/0.ini" <<-END
	[node]
	id = 0
	name = ${tag}0
	[engine]
	idle = adaptive
	[limits]
	contexts = 8
	mbufs = 4096
	flows = 256
	[link 0]
	driver = udp
	listen = 127.0.0.1:$port
	mtu = 1472
END
primary 0 --no-huge -m 128 -l 0 --no-shconf || { not_ok schedulers__start ""; exit 1; }
mkdir "$dir/bin"
ln -s "$build/app/pmx-ctl" "$dir/bin/pmx-ctl"
printf '#!/bin/sh\necho "squeue $*" >>%s/asked\n[ "$3" = 100 ] && echo "here[0-1]"\n' "$dir" >"$dir/bin/squeue"
printf '#!/bin/sh\necho "scontrol $*" >>%s/asked\n[ "$1" != show ] || [ -z "$3" ] || printf "here0\\nhere1\\n"\n' "$dir" >"$dir/bin/scontrol"
printf '#!/bin/sh\nshift\nexec "$@"\n' >"$dir/bin/rsh"
chmod +x "$dir/bin"/*
export PATH=$dir/bin:$PATH PMX_INSTANCE=${tag}0 PMX_SLURM_STATE=$dir PMX_SLURM_RSH=$dir/bin/rsh PMX_ATTACH=thin

for job in 100:5 101:6; do
	start "$dir/${job%:*}.log" env SLURM_JOB_ID="${job%:*}" PMX_JOB="${job#*:}" "$build/app/pmx-perf" respond --instance "$PMX_INSTANCE" --context "${job#*:}"
	wait_for 60 sh -c "pmx-ctl --instance $PMX_INSTANCE jobs | grep -q '^ *${job#*:} '" || not_ok schedulers__client "" "$dir/${job%:*}.log"
done
one=${pids[-2]}

# says NAME CODE PATTERN COMMAND...
says() {
	local name=$1 code=$2 pattern=$3 got=0
	shift 3
	"$@" >"$dir/said" 2>&1 || got=$?
	[ $got -eq "$code" ] && grep -Eq "$pattern" "$dir/said" && ok "$name" || not_ok "$name" "exit code $got, not $code; or not $pattern" "$dir/said"
}
job_is() { says "$1" 0 "^ *$2 +$3 " pmx-ctl --instance "$PMX_INSTANCE" jobs; }

passes slurm__prolog "$hook" prolog
says slurm__prolog_without_a_primary 1 'no pmx-dpdk answers here' env PMX_INSTANCE=nobody "$hook" prolog
says slurm__list 0 '^5$' "$hook" list 100
says slurm__freeze 0 'job 5: 1 of 1 contexts stopped' "$hook" freeze 100
job_is slurm__is_frozen 5 stopped
job_is slurm__the_other_runs 6 runs
says slurm__thaw 0 'job 5: 0 of 1 contexts stopped' "$hook" thaw 100
job_is slurm__goes_on 5 runs
says slurm__suspend 0 'job 5: 1 of 1' "$hook" suspend 100
job_is slurm__is_suspended 5 stopped
says slurm__resume 0 'job 5: 0 of 1' "$hook" resume 100
job_is slurm__is_resumed 5 runs
[ "$(grep -v show "$dir/asked")" = "$(printf 'squeue -h -j 100 -o %%N\nscontrol suspend 100\nscontrol resume 100\nsqueue -h -j 100 -o %%N')" ] &&
	ok slurm__is_asked_in_order || not_ok slurm__is_asked_in_order "" "$dir/asked"
says slurm__no_such_job 1 'job 102 runs on no node' "$hook" suspend 102
"$hook" freeze 100 >/dev/null
end "$one" KILL
wait_for 60 sh -c '! pmx-ctl --instance "$PMX_INSTANCE" --json contexts | grep -q "\"job\": 5"' || not_ok slurm__client_ends ""
says slurm__epilog 0 'job 5 has no contexts here; nothing goes on' env SLURM_JOB_ID=100 "$hook" epilog
pmx-ctl --instance "$PMX_INSTANCE" jobs | grep -q '^ *5 ' && not_ok slurm__nothing_stays "" || ok slurm__nothing_stays
passes slurm__epilog_of_a_job_without_contexts env SLURM_JOB_ID=7 "$hook" epilog
says slurm__wrong_arguments 2 'prolog \| epilog' "$hook" freeze x

if /usr/bin/python3 -c 'import yaml' 2>/dev/null; then
	passes kubernetes__is_yaml /usr/bin/python3 -c 'import sys, yaml; kinds = [d["kind"] for d in yaml.safe_load_all(open(sys.argv[1]))]; assert kinds == ["ConfigMap", "DaemonSet"], kinds' "$manifest"
else
	echo "ok kubernetes__is_yaml # SKIP python3-yaml is not installed: dpdk-config/install.sh --tests"
fi
# its configuration, as the container's command makes it
sed -n '/^  node.ini: |/,/^  # /p' "$manifest" | sed '1d;$d; s/^    //; s/%NODE%/0/; s|/etc/pmx-dpdk/nodes|nodes|' >"$dir/node.ini"
sed -n '/^  nodes: |/,/^---/p' "$manifest" | sed '1d;$d; s/^    //' >"$dir/nodes"
passes kubernetes__configuration "$build/app/pmx-dpdk" --no-pci --no-huge -m 1024 -l 0 -- --check "$dir/node.ini"
exit $failed
