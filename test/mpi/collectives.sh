#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: collectives.sh BUILD_DIR
# Collectives of MPI programs by pmx (coll/pmx) on two hosts, as two_hosts.bash makes them, with a primary a host: random ones
# are compared byte by byte with the MPI library's own. Root.
#   CALLS=N      so many of them (600; in the full tier 10000)
#   MPICOLL=...  what is taken, as coll_pmx_take (all; barrier=all: as without it)
#   OSU_DIR=DIR  binaries of the OSU micro-benchmarks' collectives: a table of their times with and without this library, and over TCP
#   LOOPS=N      the same of N steps of a collective and a barrier each, LOOP_SIZES="BYTES ..." (loops.c)
#   TIMES_TCP=off  without TCP, which takes most of the time
#   TIMES_RANKS=N TURNS=N OSU_SIZES=MIN:MAX OSU_TIMES=N OSU="osu_gather ..."   their ranks (4), how often (3; the median counts), and OSU's sizes, repetitions, and which ones
set -u
. "$(dirname "$0")/../system/common.bash"
suite=mpi_collectives
. "$(dirname "$0")/two_hosts.bash"
[ -e "$build/mpi/mca_coll_pmx.so" ] || skip_all $suite "it was not built: there is no libopenmpi-dev"

primaries

# right NAME WAY RANKS CALLS SEED
right() {
	local code=0
	over "$2" "$3" "$build/test/mpi_collectives" "$4" "$5" >"$dir/log" 2>&1 || code=$?
	# of each kind, coll/pmx took some where it was asked to, and none where it was not
	taken=$(grep -cE 'coll/pmx: [a-z_]+ +[1-9][0-9]* by pmx' "$dir/log")
	if [ $code = 0 ] && grep -q "calls were right" "$dir/log" && [ "$taken" = "$([[ $2 = *+coll ]] && echo 13 || echo 0)" ]; then
		ok "${suite}_$1"
	else
		not_ok "${suite}_$1" "exit code $code, $taken kinds taken" "$dir/log"
	fi
}

# corner NAME RANKS WHAT TAKEN [BYTES]: TAKEN: what must have been taken by coll/pmx, as a pattern of its lines; "": nothing is looked at
corner() {
	local code=0
	over ${WAY:-shared+coll} "$2" "$build/test/mpi_corners" "$3" ${5:-} >"$dir/log" 2>&1 || code=$?
	[ $code = 0 ] && [ "$(grep -c "is through" "$dir/log")" = "$2" ] && { [ -z "${4:-}" ] || grep -qE "coll/pmx: ($4) by others" "$dir/log"; } &&
		ok "${suite}_$1" || not_ok "${suite}_$1" "exit code $code" "$dir/log"
}

[ -n "${CORNER:-}" ] && { corner $CORNER "" ${BYTES:-}; exit; }
calls=${CALLS:-$(full && echo 10000 || echo 600)}
right 4_ranks shared+coll 4 "$calls" 1
right 2_ranks shared+coll 2 "$calls" 2
right without_it shared 4 50 3

for what in types comms nothing unused self; do
	corner early_$what 2 $what ""
done
corner fortran 4 fortran "allreduce +100 by pmx, +0"
corner errors_return 2 errors "barrier +[0-9]+ by pmx, +0"
corner threads 4 threads "allgather +2000 by pmx, +0"
corner orders 4 orders "allreduce +[0-9]+ by pmx, +0"
corner idup 4 idup "allreduce +[0-9]+ by pmx, +0"
corner held_and_freed 4 held "barrier +[0-9]+ by pmx, +0"
corner many_communicators 4 many "allreduce +[0-9]+ by pmx, +0"
corner matched 4 matched ""
corner big 4 big "" 41000000 # in pieces: ofi/pieces.c
! full || corner over_a_gigabyte 2 big "" 1300000000
# what the engines' memory has no room for goes on
corner long 2 long "allgather +1 by pmx, +0" 8388608
corner longer_than_memory 2 long "allgather +0 by pmx, +1" 419430400

# ------------------------------------------------------------------ times

# times: lines "NAME BYTES TIME" of all turns in $dir/times.WAY as a table of medians, with and without pmx, and over TCP
times() {
	printf '%-20s %8s %10s %10s %10s %8s %8s\n' what bytes pmx MPI TCP pmx/MPI pmx/TCP
	awk '!seen[$1, $2]++ {print $1, $2}' "$dir/times.shared+coll" | while read -r name size; do
		for way in shared+coll shared tcp; do
			{ [ -e "$dir/times.$way" ] && awk -v n="$name" -v s="$size" '$1 == n && $2 == s {print $3}' "$dir/times.$way" || echo 0; } | median
		done | paste -sd' ' | awk -v n="$name" -v s="$size" \
			'{printf "%-20s %8d %10.2f %10.2f %10.2f %8.2f %8.2f\n", n, s, $1, $2, $3, $1 / $2, ($3 > 0 ? $1 / $3 : 0)}'
	done
	rm -f "$dir"/times.*
}

ways="shared+coll shared $([ "${TIMES_TCP:-}" = off ] || echo tcp)"

# osu WAY BENCHMARK
osu() {
	over "$1" "${TIMES_RANKS:-4}" "$OSU_DIR/$2" ${OSU_SIZES:+-m "$OSU_SIZES"} ${OSU_TIMES:+-i $OSU_TIMES} >"$dir/log" 2>&1 ||
		{ not_ok "${suite}_${2}_$1" "exit code $?" "$dir/log"; return 1; }
	awk -v n="$2" 'NF >= 2 && $1 ~ /^[0-9]+$/ {print n, $1, $2} NF == 1 && $1 ~ /^[0-9.]+$/ {print n, 0, $1}' "$dir/log"
}

if [ -n "${OSU_DIR:-}" ]; then
	for name in ${OSU:-osu_barrier osu_bcast osu_gather osu_scatter osu_allgather osu_alltoall osu_reduce osu_allreduce osu_reduce_scatter}; do
		for ((turn = 0; turn < ${TURNS:-3}; turn++)); do
			for way in $ways; do
				osu $way "$name" >>"$dir/times.$way"
			done
		done
		times
	done
	ok "${suite}_osu"
fi

if [ -n "${LOOPS:-}" ]; then
	for ((turn = 0; turn < ${TURNS:-3}; turn++)); do
		for way in $ways; do
			over $way "${TIMES_RANKS:-4}" "$build/test/mpi_loops" "$LOOPS" ${LOOP_SIZES:-8 1024 16384 65536 262144} >"$dir/log" 2>&1 ||
				{ not_ok "${suite}_loops_$way" "exit code $?" "$dir/log"; continue; }
			grep -E '^[a-z_]+ [0-9]+ [0-9.]+$' "$dir/log" >>"$dir/times.$way"
		done
	done
	times
	ok "${suite}_loops"
fi
exit $failed
