#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Matched messages between two embedded nodes over net_memif, a core each, spinning: pmx-perf matched, push (in turns with it),
# unexpected, posted, mixed, overlap (a primary each, applications attached, matching = engine and client), and the same
# search in Open MPI over ob1 and over UCX where they are installed. Root, hugepages.
# usage: matching.sh BUILD_DIR [REPETITIONS] [FIGURE_DIR] [TEST...]
#   TEST: matched unexpected posted mixed overlap mpi; all if none is given
set -u
build=$(realpath "${1:?usage: matching.sh BUILD_DIR [REPETITIONS] [FIGURE_DIR] [TEST...]}")
here=$(cd "$(dirname "$0")" && pwd)
perf=$build/app/pmx-perf
times=${2:-3}
figure=${3:-}
shift $(($# < 3 ? $# : 3))
tests=${*:-matched unexpected posted mixed overlap mpi}
work=$(mktemp -d)
. "$here/turns.bash"
export RUNTIME_DIRECTORY=$work
pids=()
trap '[ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null; wait; rm -rf "$work"' EXIT
# vectors of 512 bits are the EAL's to allow
eal="--no-pci --in-memory -m 512 --no-telemetry --log-level=*:error --force-max-simd-bitwidth=512"

config() # NODE IDLE EXTRA
{
	printf '[node]\nid = %s\nname = bx%s\n[engine]\nidle = %s\n%s\n[link 0]\ndriver = ethdev\nport = net_memif0\nmtu = 9000\n[limits]\nmbufs = 8192\ncontexts = 4\nmatched_entries = 131072\nunexpected = 262144\nreceives = 131072\n[nodes]\n0 = auto\n1 = auto\n' \
		"$1" "$1" "$2" "$3"
}

vdev=socket=$work/memif.sock,socket-abstract=no,bsize=9216

pair() # INITIATOR_ARGS
{
	rm -f "$work/memif.sock"
	taskset -c 1 timeout 120 "$perf" respond --embedded "$work/1.ini" -- -l 1 $eal --file-prefix bx1 \
		--vdev=net_memif0,role=server,id=0,$vdev >"$work/1.log" 2>&1 &
	local pid=$!
	sleep 1
	taskset -c 0 timeout 120 "$perf" $1 --embedded "$work/0.ini" -- -l 0 $eal --file-prefix bx0 \
		--vdev=net_memif0,role=client,id=0,$vdev 2>"$work/0.log" || cat "$work/0.log" "$work/1.log" >&2
	wait $pid
}

attached() # INITIATOR_ARGS: two primaries share core 1, both applications core 0; the responder sleeps
{
	local i
	rm -f "$work/memif.sock"
	for i in 1 0; do
		"$build/app/pmx-dpdk" -l 1 --no-pci -m 384 --log-level='*:error' \
			--vdev=net_memif0,role=$([ $i = 1 ] && echo server || echo client),id=0,$vdev -- "$work/a$i.ini" >"$work/p$i.log" 2>&1 &
		pids+=($!)
		sleep 2
	done
	timeout 120 "$perf" respond --instance bx1 --cpu 0 --idle block >"$work/1.log" 2>&1 &
	local pid=$!
	sleep 1
	timeout 120 "$perf" $1 --instance bx0 --cpu 0 2>"$work/0.log" || cat "$work/0.log" "$work/1.log" "$work"/p?.log >&2
	wait $pid
	kill "${pids[@]}"
	wait "${pids[@]}" 2>/dev/null
	pids=()
}

matched_turn()
{
	pair "matched --rounds 40000 --seconds 0.5 ${BENCH_ROWS:+--json}"
	pair "push --sizes 1048576 --seconds 0.5 ${BENCH_ROWS:+--json}"
}

for i in 0 1; do
	config $i spin "" >"$work/$i.ini"
done
for test in $tests; do
	case $test in
	matched)
		turns "$times" matched_turn | tee -a "${BENCH_ROWS:-/dev/null}" # for compare.sh
		lines_print ;;
	unexpected)
		for _ in $(seq "$times"); do
			pair "unexpected ${figure:+--figure $figure}"
		done ;;
	posted) pair "posted --rounds 10000" ;;
	mixed) pair "mixed --rounds 10000" ;;
	overlap)
		for by in engine client; do
			for i in 0 1; do
				config $i yield "matching = $by" | sed 's/^matched_entries.*/matched_entries = 1024/;/^unexpected/d;/^receives/d' >"$work/a$i.ini"
			done
			echo "matching = $by"
			attached "overlap $([ $by = engine ] && echo "${figure:+--figure $figure}")"
		done ;;
	mpi) "$here/mpi_match.sh" "$times" ;;
	*) echo "matching.sh: no test $test" >&2; exit 2 ;;
	esac
done
