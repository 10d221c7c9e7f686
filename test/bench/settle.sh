#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: settle.sh BUILD_DIR [FREEZES]
# How long a job of 16 busy contexts takes to settle, to be parked and to be loaded, at one of its two nodes: two primaries over
# net_memif, 8 thin processes at each, all sending to all (test/system/preempt.c), stopped FREEZES times (200) at random moments.
# Prints what the driver and the members tell. Primaries and driver go before the 16 processes, which share two CPUs with them
# where there are no more. Root, hugepages.
set -u
. "$(dirname "$0")/../system/common.bash"
freezes=${2:-200}
need_hugepages settle 640
nodes="0 1" suite=settle
. "$(dirname "$0")/../system/preempt.bash"

for i in $nodes; do
	cat >"$dir/$i.ini" <<-END
		[node]
		id = $i
		name = $tag$i
		[engine]
		idle = adaptive
		rendezvous = 8192
		[link 0]
		driver = ethdev
		port = net_memif0
		mtu = 9000
		[access]
		socket = $dir/door/$i.sock
		[limits]
		contexts = 8
		mbufs = 16384
		[nodes]
		0 = auto
		1 = auto
	END
done
PREFIX=(nice -n -19)
at_memif() { # NODE ROLE
	primary "$1" -l "$1" -m 256 --vdev="net_memif0,role=$2,id=0,socket=$dir/memif.sock,socket-abstract=no,rsize=10,bsize=9216" ||
		{ not_ok settle_start "primary $1 does not start"; exit 1; }
	primaries[$1]=$last
}
at_memif 0 server
at_memif 1 client
list=()
for c in {0..7}; do
	list+=("0:$c" "1:$c")
done
members 7 0 "${list[@]}"
sleep 1
timeout 300 nice -n -19 "$preempt" driver 7 "$freezes" 100 "$dir"/door/[01].sock >"$dir/driver.log" 2>&1 || not_ok settle_driver "exit code $?" "$dir/driver.log"
sed 's/^/# /' "$dir/driver.log"
ended settle 7
exit $failed
