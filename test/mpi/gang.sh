#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: gang.sh BUILD_DIR [TURNS]
# Gang scheduling on the network: two MPI jobs on the same two hosts (namespaces, a CPU and a primary each, ranks are thin clients
# over the udp link) in turns of 100 and 40 ms by pmx-gang, whose processes are stopped as well, against one after the other.
# Prints a row for each pair of jobs and length of turn: seconds, their ratio, how long a job takes to stop. Root, hugepages.
#   NPB_DIR=DIR   binaries of the NAS parallel benchmarks, named PROGRAM.CLASS.RANKS
#   PAIRS="cg.A.2:is.A.2 ..."  (cg.A.2:is.A.2 cg.A.2:cg.A.2)
#   RUNS=N        of each program in its job, one after the other (3)
#   PARK=--park   the job that waits is parked
set -u
. "$(dirname "$0")/../system/common.bash"
suite=mpi_gang
turns=${2:-3}
[ -n "${NPB_DIR:-}" ] || skip_all $suite "NPB_DIR is not set: it names a directory with the NAS parallel benchmarks"
. "$(dirname "$0")/two_hosts.bash"
primaries
printf 'host0 instance=%s0\nhost1 instance=%s1\n' "$tag" "$tag" >"$dir/nodes"
printf '#!/bin/bash\nhost=${1#host}; shift\nexec ip netns exec "%s$host" "$@"\n' "$tag" >"$dir/gang_agent"
chmod +x "$dir/gang_agent"

# job NUMBER PROGRAM: its processes belong to that job
job() {
	local k
	for ((k = 0; k < ${RUNS:-3}; k++)); do
		over shared 2 env PMX_JOB="$1" "$NPB_DIR/$2" || return 1
	done
}

seconds() { awk -v b="$1" -v e="$(date +%s.%N)" 'BEGIN {printf "%.2f", e - b}'; }

# all_right NAME LOG...: every run verified
all_right() {
	local log
	for log in "${@:2}"; do
		[ "$(grep -c 'Verification *= *SUCCESSFUL' "$log")" -eq "${RUNS:-3}" ] || { not_ok "$1" "not verified" "$log"; return 1; }
	done
}

printf '%-20s %5s %9s %9s %6s   %s\n' pair slice "in turn" "gang" ratio "switches, ms to stop p50 p99, to start p50 p99"
for pair in ${PAIRS:-cg.A.2:is.A.2 cg.A.2:cg.A.2}; do
	for slice in 100 40; do
		name=mpi_gang_${pair//[.:]/_}_$slice
		for ((turn = 0; turn < turns; turn++)); do
			begun=$(date +%s.%N)
			job 7 "${pair%:*}" >"$dir/first" 2>&1 && job 8 "${pair#*:}" >"$dir/second" 2>&1 ||
				{ not_ok "$name" "one after the other: exit code $?" "$dir/second"; continue 2; }
			alone=$(seconds "$begun")
			all_right "$name" "$dir/first" "$dir/second" || continue 2
			start "$dir/gang" "$build/app/pmx-gang" --nodes "$dir/nodes" --agent "$dir/gang_agent" --processes ${PARK:-} --slice $slice --json alternate 7 8
			gang=$last
			begun=$(date +%s.%N)
			job 7 "${pair%:*}" >"$dir/first" 2>&1 &
			pids+=($!)
			one=$!
			sleep 0.3 # two mpiruns that begin at once may mistake each other's daemons
			job 8 "${pair#*:}" >"$dir/second" 2>&1 &
			pids+=($!)
			wait "$one" && wait $! || { not_ok "$name" "in turns: exit code $?" "$dir/first"; end "$gang"; continue 2; }
			both=$(seconds "$begun")
			end "$gang"
			all_right "$name" "$dir/first" "$dir/second" || continue 2
			awk -v p="$pair" -v s=$slice -v a="$alone" -v b="$both" '/switches/ {gsub(/[",:{}]/, " "); what = $2 ", " $6 " " $8 ", " $10 " " $12}
				END {printf "%-20s %5d %9.2f %9.2f %6.2f   %s\n", p, s, a, b, b / a, what}' "$dir/gang"
		done
		ok "$name"
	done
done
exit $failed
