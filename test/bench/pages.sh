#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# A 4 KiB page pulled, and the same asked for by a message and copied at both ends, in turns, in the full
# shape on two cores: two primaries joined by memif, an application attached to each. The page's
# owner yields at an empty poll, or sleeps until it is needed. Root, hugepages.
# usage: pages.sh BUILD_DIR [REPETITIONS]
set -u
times=${2:-3}
. "$(dirname "$0")/../system/common.bash"
perf=$build/app/pmx-perf

for i in 0 1; do
	sed "s/^name = pmx$i\$/name = $tag$i/" \
		"$(dirname "$0")/../../dpdk-config/examples/memif-node$i.ini" >"$dir/$i.ini"
done

pages() # IDLE of the owner; prints JSON rows
{
	local roles=(server client) i primaries=() respond
	local vdev=socket=$dir/memif.sock,socket-abstract=no,bsize=9216
	for i in 0 1; do
		primary "$i" --lcores "0@$i" -m 256 "--vdev=net_memif0,role=${roles[i]},id=0,$vdev" || return 1
		primaries+=("$last")
	done
	start "$dir/respond.log" "$perf" respond --instance "${tag}1" --cpu 1 --idle "$1"
	respond=$last
	timeout 100 "$perf" page --instance "${tag}0" --cpu 0 --rounds 20000 --json 2>"$dir/pmx.log"
	wait "$respond"
	end "${primaries[1]}"
	end "${primaries[0]}"
	rm -f "$dir/memif.sock"
}

printf '%-6s %-14s %16s %16s %8s\n' turn "owner" "pull p50 / p99" "copied p50 / p99" ratio
for ((turn = 1; turn <= times; turn++)); do
	for idle in yield block; do
		pages "$idle" | sed -n 's/.*"what": "\([a-z]*\)".*"p50_ns": *\([0-9]*\).*"p99_ns": *\([0-9]*\).*/\1 \2 \3/p' |
			awk -v turn="$turn" -v idle="$idle" '
				{ p50[$1] = $2 / 1000; p99[$1] = $3 / 1000 }
				END {
					printf "%-6d %-14s %8.2f / %5.2f %8.2f / %5.2f %8.2f\n", turn, idle, p50["pull"], p99["pull"], p50["copied"], p99["copied"], p50["pull"] / p50["copied"]
				}'
	done
done
