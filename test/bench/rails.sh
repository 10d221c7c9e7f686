#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: rails.sh BUILD_DIR [DEATHS]
# How long a stream over two links pauses when one of them dies, DEATHS (20) times each: with both in use, with one at a time, and with
# two lanes; two primaries, veth pairs between two namespaces. Then what one link and two carry that have a rate (memif behind the fault
# link, two embedded nodes). Root, hugepages.
set -u
. "$(dirname "$0")/../system/common.bash"
deaths=${2:-20}
need_hugepages rails 400
. "$(dirname "$0")/../system/rails.bash"
RANDOM=1
for how in spread failover lanes; do
	case $how in
	spread) start_nodes '' ;;
	failover) start_nodes 'links = failover' ;;
	lanes) cpus=0,1 start_nodes 'lanes = 2' ;;
	esac
	start_stream
	wait_for 60 links_up 2 || not_ok "rails_$how" "not both links are up" "$dir/0.log"
	echo "# $how:"
	die_and_return "$deaths" "rails_$how"
	end_stream "rails_${how}_nothing_lost"
	stop_nodes
done

carries() { # LINKS: prints Gb/s of 8 KiB
	local i l responder list devices
	list=$(seq -s, 0 $(($1 - 1)))
	for i in 0 1; do
		{
			printf '[node]\nid = %s\nname = %s\n[engine]\nidle = yield\n[limits]\nmbufs = 12288\ncontexts = 4\n' $i "$tag$i"
			printf '[nodes]\n0 = auto link=%s\n1 = auto link=%s\n' "$list" "$list"
			for ((l = 0; l < $1; l++)); do printf '[link %s]\nport = net_memif%s\nfault = rate=500M,queue=1M\n' $l $l; done
		} >"$dir/$i.ini"
	done
	devices() { # ROLE LINKS
		for ((l = 0; l < $2; l++)); do echo "--vdev=net_memif$l,role=$1,socket=$dir/memif$l.sock,socket-abstract=no,rsize=10"; done
	}
	mapfile -t devices < <(devices server "$1")
	start "$dir/respond.log" "$build/app/pmx-perf" respond --idle yield --embedded "$dir/1.ini" -- --no-pci -l 1 "--file-prefix=${tag}r" "${devices[@]}"
	responder=$last
	wait_for 60 test -S "$dir/memif$(($1 - 1)).sock"
	sleep 0.5
	mapfile -t devices < <(devices client "$1")
	timeout 60 "$build/app/pmx-perf" bandwidth --json --sizes 8192 --seconds 1 --idle yield --embedded "$dir/0.ini" -- --no-pci -l 0 \
		"--file-prefix=${tag}i" "${devices[@]}" 2>"$dir/carries.log" | sed -n 's/.*"gbits": *\([0-9.]*\).*/\1/p'
	end "$responder"
	rm -f "$dir"/memif*.sock
}
one=$(carries 1) two=$(carries 2)
echo "# links of 0.5 Gb/s: one carries $one, two carry $two Gb/s"
awk -v a="$one" -v b="$two" 'BEGIN {exit !(a > 0 && b > 0)}' && ok rails_figures || not_ok rails_figures "$one and $two Gb/s" "$dir/carries.log"
exit $failed
