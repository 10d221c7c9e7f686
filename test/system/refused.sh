#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: refused.sh BUILD_DIR
# Sends to a context that is not open are refused as soon as its node says so, a thousand of them one by one: over memif, UDP and
# AF_PACKET, and on one node. What it takes is told; what counts is that none is sent again and none waits for a timeout.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages refused 96
more='[engine]
idle = adaptive
[limits]
mbufs = 8192
contexts = 4'

# counter NODE NAME
counter() { "$build/app/pmx-ctl" --instance "$tag$1" stat --all | awk -v n="$2" '$1 == n {print $2}'; }

# refused NAME FROM TO: those of node FROM to node TO
refused() {
	local name=refused_$1 before after timeouts
	before=$(counter "$2" tx_data)
	timeouts=$(counter "$2" timeouts)
	if PMX_ATTACH=thin timeout 150 "$build/test/thin" refused "$tag$2" 1 "$3:3" 1000 >"$dir/log" 2>&1; then
		after=$(($(counter "$2" tx_data) - before))
		timeouts=$(($(counter "$2" timeouts) - timeouts))
		# a busy machine may keep a node from answering for as long as a timeout; not as often as a hundredth
		[ "$after" -le 1000 ] && [ "$timeouts" -le 10 ] && ok "$name" || not_ok "$name" "$after frames, $timeouts timeouts"
		sed 's/\(.*\) \(.*\)/# median \1 us, slowest \2 us/' "$dir/log"
	else
		not_ok "$name" "" "$dir/log"
	fi
}

# both EAL-OF-0 EAL-OF-1: the primaries
both() {
	# shellcheck disable=SC2086
	PREFIX=(${in0[@]+"${in0[@]}"}) && primary 0 -l 0 $1 && node[0]=$last &&
		PREFIX=(${in1[@]+"${in1[@]}"}) && primary 1 -l 1 $2 && node[1]=$last
	local result=$?
	PREFIX=()
	return $result
}

stop() {
	end "${node[0]}"
	end "${node[1]}"
}

for n in 0 1; do node_ini $n <<<"$more"; done
both "--no-huge -m 96" "--no-huge -m 96" && refused udp 0 1 && refused one_node 0 0 && stop

for n in 0 1; do node_ini $n net_memif0 <<<"$more"; done
memif=socket=$dir/m.sock,socket-abstract=no
both "-m 64 --vdev=net_memif0,role=server,$memif" "-m 64 --vdev=net_memif0,role=client,$memif" && refused memif 0 1 && stop

for n in 0 1; do
	ip netns add "$tag$n" 2>/dev/null || { echo "ok refused_af_packet # SKIP no namespaces"; exit $failed; }
	spaces+=("$tag$n")
done
ip link add v0 netns "${tag}0" type veth peer name v1 netns "${tag}1"
for n in 0 1; do
	ip netns exec "$tag$n" sysctl -qw "net.ipv6.conf.v$n.disable_ipv6=1"
	ip netns exec "$tag$n" ip link set v$n up
	node_ini $n net_af_packet0 <<<"$more"
done
in0=(ip netns exec "${tag}0") in1=(ip netns exec "${tag}1")
both "-m 64 --vdev=net_af_packet0,iface=v0" "-m 64 --vdev=net_af_packet0,iface=v1" && refused af_packet 0 1 && stop
exit $failed
