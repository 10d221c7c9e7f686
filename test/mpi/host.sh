#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: host.sh BUILD_DIR [WHAT...]
# MPI on one host, over pmx and over what else Open MPI has there: figures as tables, medians (least to most). Of WHAT there are
#   pairs        two ranks, a core each: figures.c over pmx, by libfabric (ofi), over shared memory (vader) and TCP on loopback
#   many         8 ranks on the CPUs that there are: barrier and alltoall, over pmx and TCP
#   remote       one-sided, by osc/rdma over btl/ofi
#   waiting      10,000 receives that wait for any source; 1,000 over pmx and libfabric's tcp;ofi_rxm, with which 10,000 hang
#   start        16 ranks that meet once: seconds of mpirun, over pmx, by libfabric (ofi), over TCP and tcp;ofi_rxm
#   flood        10,000 messages of 1 MiB and 100,000 of 8 bytes each way before any receive
#   jobs         100 jobs of 4 ranks one after the other, and 20 times two at once
#   TURNS=N      measures each so often (5)
set -u
. "$(dirname "$0")/../system/common.bash"
turns=${TURNS:-5}
shift
what=("$@")
[ ${#what[@]} -gt 0 ] || what=(pairs many remote waiting start flood jobs)

need_hugepages mpi_host 320
[ -e "$build/ofi/libpmx-fi.so" ] || skip_all mpi_host "the provider was not built: there is no libfabric-dev"
command -v mpirun >/dev/null || skip_all mpi_host "Open MPI is not installed"
provider_node 512 || { not_ok mpi_host_start ""; exit 1; }
. "$(dirname "$0")/open_mpi.bash"

# over WAY RANKS PROGRAM...: a CPU each where there are as many
over() {
	local way=$1 ranks=$2 bind=(--bind-to none)
	shift 2
	[ "$ranks" -gt "$(nproc)" ] || bind=(--bind-to core)
	case $way in
	pmx) set -- env "${over_pmx[@]}" mpirun --oversubscribe "${bind[@]}" -np "$ranks" "$@" ;;
	ofi) set -- env "${over_ofi[@]}" mpirun --oversubscribe "${bind[@]}" -np "$ranks" "$@" ;;
	remote) set -- env "${over_ofi[@]}" "${remote_memory[@]}" mpirun --oversubscribe "${bind[@]}" -np "$ranks" "$@" ;;
	rxm) set -- env "FI_PROVIDER=tcp;ofi_rxm" OMPI_MCA_mtl=ofi OMPI_MCA_pml=cm OMPI_MCA_btl=self OMPI_MCA_mtl_ofi_provider_include="tcp;ofi_rxm" \
		mpirun --oversubscribe "${bind[@]}" -np "$ranks" "$@" ;;
	vader) set -- mpirun --oversubscribe "${bind[@]}" --mca pml ob1 --mca btl vader,self -np "$ranks" "$@" ;;
	tcp) set -- mpirun --oversubscribe "${bind[@]}" --mca pml ob1 --mca btl tcp,self -np "$ranks" "$@" ;;
	esac
	timeout "${LIMIT:-120}" "$@"
}

# measure NAME WAYS RANKS PROGRAM...: lines "WAY FIGURE VALUE UNIT" of all turns, then a row for each figure
measure() {
	local name=$1 ways=$2 ranks=$3 turn way
	shift 3
	: >"$dir/$name"
	for ((turn = 0; turn < turns; turn++)); do
		for way in $ways; do
			over "$way" "$ranks" "$@" >"$dir/log" 2>&1 || { not_ok "mpi_host_${name}_$way" "exit code $?" "$dir/log"; return 1; }
			grep -E '^[a-z_0-9]+ [0-9.]+ [A-Za-z/]+$' "$dir/log" | sed "s/^/$way /" >>"$dir/$name"
		done
	done
	table "$name" "$ways"
}

# table NAME WAYS
table() {
	local figure way
	printf '%-20s' "$1"
	for way in $2; do printf ' %26s' "$way"; done
	printf '   first / others\n'
	for figure in $(awk '!seen[$2]++ {print $2}' "$dir/$1"); do
		for way in $2; do
			awk -v w="$way" -v f="$figure" '$1 == w && $2 == f {print $3, $4}' "$dir/$1" | sort -g |
				awk '{v[NR] = $1; unit = $2} END {printf "%s %s..%s %s\n", v[int((NR + 1) / 2)], v[1], v[NR], unit}'
		done | awk -v f="$figure" '{cell[NR] = sprintf("%s (%s)", $1, $2); m[NR] = $1; unit = $3} END {
			printf "%-20s", f " " unit
			for (i = 1; i <= NR; i++) printf " %26s", cell[i]
			printf "  "
			for (i = 2; i <= NR; i++) printf " %.2f", m[1] / m[i]
			print ""}'
	done
	ok "mpi_host_$1"
}

# mpirun's own seconds
timed() {
	local way=$1 begun
	shift
	begun=$(date +%s.%N)
	over "$way" "$@" >"$dir/log" 2>&1 || return 1
	awk -v b="$begun" -v e="$(date +%s.%N)" -v w="$way" 'BEGIN {printf "%s seconds %.2f s\n", w, e - b}'
}

start_all() {
	: >"$dir/start"
	for ((turn = 0; turn < turns; turn++)); do
		for way in pmx ofi tcp rxm; do
			timed $way 16 "$build/test/mpi_shapes" meet >>"$dir/start" || not_ok "mpi_host_start_$way" "" "$dir/log"
		done
	done
	table start "pmx ofi tcp rxm"
}

jobs_all() {
	local n one two
	for n in {1..100}; do
		over pmx 4 "$build/test/mpi_shapes" meet >"$dir/log" 2>&1 || { not_ok "mpi_host_jobs_$n" "exit code $?" "$dir/log"; return; }
	done
	ok mpi_host_jobs_100
	for n in {1..20}; do
		start "$dir/one.log" over pmx 4 "$build/test/ofi_mpi"
		one=$last
		start "$dir/two.log" over pmx 4 "$build/test/ofi_mpi"
		two=$last
		wait "$one" || not_ok "mpi_host_jobs_at_once_$n" "exit code $?" "$dir/one.log"
		wait "$two" || not_ok "mpi_host_jobs_at_once_$n" "exit code $?" "$dir/two.log"
	done
	ok mpi_host_jobs_two_at_once
}

for each in "${what[@]}"; do
	case $each in
	pairs) measure pairs "pmx ofi vader tcp" 2 "$build/test/mpi_figures" 1 ;;
	many) measure many "pmx tcp" 8 "$build/test/mpi_shapes" collectives ;;
	remote) measure remote "remote" 2 "$build/test/mpi_shapes" remote ;;
	waiting) measure waiting "pmx" 2 "$build/test/mpi_shapes" waiting 10000
		measure waiting_1000 "pmx rxm" 2 "$build/test/mpi_shapes" waiting 1000 ;;
	start) start_all ;;
	flood) measure flood "pmx" 2 "$build/test/mpi_shapes" flood 10000 100000 ;;
	jobs) jobs_all ;;
	*) echo "host.sh: there is no '$each'" >&2; exit 2 ;;
	esac
done
exit $failed
