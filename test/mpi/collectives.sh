#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: collectives.sh BUILD_DIR
# Collectives of MPI programs by pmx (libpmx-mpicoll.so) on two hosts, as two_hosts.bash makes them, with a primary a host: random ones
# are compared byte by byte with the MPI library's own. Root.
#   CALLS=N      so many of them (600)
#   MPICOLL=...  what is taken, as PMX_MPICOLL (all)
#   OSU_DIR=DIR  binaries of the OSU micro-benchmarks' collectives: a table of their times with and without this library, and over TCP
#   OSU_TCP=off  without TCP, which takes most of the time
#   OSU_RANKS=N OSU_SIZES=MIN:MAX OSU="osu_gather ..." TURNS=N   their ranks (4), sizes, which ones, and how often (3; the median counts)
set -u
. "$(dirname "$0")/../system/common.bash"
suite=mpi_collectives
. "$(dirname "$0")/two_hosts.bash"
[ -e "$build/mpi/libpmx-mpicoll.so" ] || skip_all $suite "it was not built: there is no libopenmpi-dev"

primaries

# right NAME WAY RANKS CALLS SEED
right() {
	local code=0
	over "$2" "$3" "$build/test/mpi_collectives" "$4" "$5" >"$dir/log" 2>&1 || code=$?
	if [ $code = 0 ] && grep -q "calls were right" "$dir/log"; then
		ok "${suite}_$1"
	else
		not_ok "${suite}_$1" "exit code $code" "$dir/log"
	fi
}

right 4_ranks shared+coll 4 "${CALLS:-600}" 1
right 2_ranks shared+coll 2 "${CALLS:-600}" 2
right without_it shared 4 50 3

# ------------------------------------------------------------------ OSU

# osu WAY BENCHMARK: writes "SIZE TIME" lines
osu() {
	local way=$1 name=$2
	over "$way" "${OSU_RANKS:-4}" "$OSU_DIR/$name" ${OSU_SIZES:+-m "$OSU_SIZES"} ${OSU_TIMES:+-i $OSU_TIMES} >"$dir/log" 2>&1 ||
		{ not_ok "${suite}_${name}_$way" "exit code $?" "$dir/log"; return 1; }
	awk 'NF >= 2 && $1 ~ /^[0-9]+$/ {print $1, $2} NF == 1 && $1 ~ /^[0-9.]+$/ {print 0, $1}' "$dir/log"
}

if [ -n "${OSU_DIR:-}" ]; then
	printf '%-20s %8s %10s %10s %10s %8s %8s\n' benchmark bytes pmx MPI TCP pmx/MPI pmx/TCP
	for name in ${OSU:-osu_barrier osu_bcast osu_gather osu_scatter osu_allgather osu_alltoall osu_reduce osu_allreduce osu_reduce_scatter}; do
		rm -f "$dir"/osu.*
		for ((turn = 0; turn < ${TURNS:-3}; turn++)); do
			for way in shared+coll shared $([ "${OSU_TCP:-}" = off ] || echo tcp); do
				osu $way "$name" >>"$dir/osu.$way"
			done
		done
		for size in $(awk '!seen[$1]++ {print $1}' "$dir/osu.shared+coll"); do
			for way in shared+coll shared tcp; do
				{ [ -e "$dir/osu.$way" ] && awk -v s="$size" '$1 == s {print $2}' "$dir/osu.$way" || echo 0; } | median
			done | paste -sd' ' | awk -v n="$name" -v s="$size" \
				'{printf "%-20s %8d %10.2f %10.2f %10.2f %8.2f %8.2f\n", n, s, $1, $2, $3, $1 / $2, ($3 > 0 ? $1 / $3 : 0)}'
		done
	done
	ok "${suite}_osu"
fi
exit $failed
