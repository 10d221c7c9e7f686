#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two primaries over memif, on CPUs 0 and 1, and an application attached to each on the same CPU: round trip, rate and bandwidth
# while nobody else wants the CPUs, and beside an endless loop on each. TCP by way of a process of each host, all blocking, as the
# other way to share a host's network by processes. Idle policies are the defaults. In turns: medians, lowest to highest. Root, hugepages.
# usage: contended.sh BUILD_DIR [REPETITIONS [LOOPS]]
set -u
. "$(dirname "$0")/../system/common.bash"
. "$(dirname "$0")/turns.bash"
times=${2:-3} loops=${3:-2} perf=$build/app/pmx-perf
need_hugepages contended 260
tests=(--sizes 64,8192,65536 --within 1 --rounds 2000 --seconds 0.3 --json)

memif() { echo "--vdev=net_memif0,role=$1,id=0,socket=$dir/memif.sock,socket-abstract=no,bsize=9216"; }
roles=(server client)
for i in 0 1; do
	printf '[node]\nid = %s\nname = %s\n[link 0]\ndriver = ethdev\nport = net_memif0\nmtu = 9000\n[limits]\nmbufs = 8192\ncontexts = 4\n' \
		$i "$tag$i" >"$dir/$i.ini"
	printf '[nodes]\n0 = auto\n1 = auto\n' >>"$dir/$i.ini"
	primary $i -l $i -m 256 "$(memif "${roles[i]}")" || exit 1
done

pmx() {
	start "$dir/respond.log" timeout 100 "$perf" respond --instance "${tag}1" --cpu 1
	local responder=$last
	wait_for 60 context_open 1 1
	timeout 100 "$perf" all --instance "${tag}0" --cpu 0 --to 1:1 "${tests[@]}" || cat "$dir/respond.log" >&2
	wait_for 10 gone "$responder" || end "$responder"
}

tcp() {
	local port=$((20000 + RANDOM % 20000)) who=() pid
	start "$dir/relay1.log" timeout 100 "$perf" baseline relay --via "127.0.0.1:$port" --address "$dir/relay1.sock" --idle block --cpu 1
	who+=("$last")
	start "$dir/relay0.log" timeout 100 "$perf" baseline relay --via "$dir/relay0.sock" --address "127.0.0.1:$port" --idle block --cpu 0
	who+=("$last")
	start "$dir/served.log" timeout 100 "$perf" baseline tcp --respond --idle block --cpu 1 --address "$dir/relay1.sock"
	who+=("$last")
	timeout 100 "$perf" baseline tcp --initiate --idle block --cpu 0 --address "$dir/relay0.sock" "${tests[@]}"
	for pid in "${who[@]}"; do end "$pid"; done
}

for ((turn = 0; turn < times; turn++)); do
	for beside in quiet loops; do
		busy=()
		for ((i = 0; i < loops; i++)); do
			[ $beside = loops ] || break
			start "$dir/loop.log" timeout 200 taskset -c $((i % 2)) sh -c 'while :; do :; done'
			busy+=("$last")
		done
		as "pmx,$beside" pmx
		as "tcp,$beside" tcp
		for pid in ${busy[@]+"${busy[@]}"}; do end "$pid"; done
	done
done >"$dir/rows"
python3 "$(dirname "$0")/columns.py" "$dir/rows"
echo "loops: $loops endless ones, on CPUs 0 and 1 in turn"
