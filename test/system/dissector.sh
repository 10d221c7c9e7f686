#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: dissector.sh BUILD_DIR
# Wireshark's plug-in, by tshark: 200 frames of each type (1,000 in the full tier) with fields at random, on Ethernet, tagged, and in UDP, are read back as
# they were written; all of doc/reference/wire.md's vectors; what it says of frames that are wrong or sent again; and what two
# nodes send each other.
set -u
. "$(dirname "$0")/common.bash"

command -v tshark >/dev/null || skip_all dissector "needs tshark: dpdk-config/install.sh --tests"
top=$(cd "$(dirname "$0")/../.." && pwd)
plugin=$build/pmx.lua
export HOME=$dir # no preferences of this user's
# shark ARGUMENTS...: what it warns of, other than being root, goes to the log and is a failure
shark() {
	plainly tshark -n -X lua_script:"$plugin" "$@" 2>"$dir/warned"
	grep -v 'Running as user\|^$' "$dir/warned" && return 1
	return 0
}
count=200
! full || count=1000
passes dissector__fields_are_read_back plainly python3 "$top/test/system/dissector.py" random "$plugin" "$dir" $count
passes dissector__vectors_of_the_document plainly python3 "$top/test/system/dissector.py" golden "$plugin" "$dir" "$top/doc/reference/wire.md"
passes dissector__experts plainly python3 "$top/test/system/dissector.py" experts "$plugin" "$dir"

# ---- two nodes
if [ "$(id -u)" -eq 0 ]; then
	netns=$tag
	ip netns add "$netns" && trap 'ip netns del "$netns"; clean' EXIT
	ip -n "$netns" link set lo up
	PREFIX=(ip netns exec "$netns")
	for n in 0 1; do
		node_ini $n <<-END
			mtu = 1400
			fault = loss=3%,seed=$n
			[engine]
			idle = adaptive
			[proto]
			checksum = on
			[limits]
			mbufs = 8192
			contexts = 8
		END
	done
	start "$dir/capture.log" ip netns exec "$netns" tshark -q -i lo -F pcap -w "$dir/live.pcap"
	capture=$last
	wait_for 60 grep -q Capturing "$dir/capture.log"
	for n in 0 1; do
		primary $n --no-huge -m 128 --lcores "0@0" || not_ok dissector_start_$n "" "$dir/$n.log"
	done
	export PMX_ATTACH=thin
	start "$dir/respond.log" "${PREFIX[@]}" timeout 100 "$build/app/pmx-perf" respond --instance "${tag}1" --idle yield
	"${PREFIX[@]}" timeout 100 "$build/app/pmx-perf" latency --rounds 200 --warmup 0 --sizes 64,9000 --instance "${tag}0" --to 1:1 --idle yield >"$dir/perf.log" 2>&1 &&
		ok dissector_live__messages || not_ok dissector_live__messages "" "$dir/perf.log"
	sleep 0.5
	end "$capture" INT
	ports=(-d "udp.port==$port,pmx" -d "udp.port==$((port + 1)),pmx")
	shark -r "$dir/live.pcap" "${ports[@]}" -o pmx.port:"$port" -Y 'pmx' -T fields -e pmx.type >"$dir/types" 2>&1
	[ "$(grep -c . "$dir/types")" -gt 400 ] && ok dissector_live__frames || not_ok dissector_live__frames "$(wc -l <"$dir/types")" "$dir/types"
	shark -r "$dir/live.pcap" "${ports[@]}" -Y '_ws.malformed || _ws.lua.error || pmx.expert.wrong || pmx.expert.checksum' >"$dir/wrong" 2>&1 && [ ! -s "$dir/wrong" ] &&
		ok dissector_live__nothing_is_wrong || not_ok dissector_live__nothing_is_wrong "" "$dir/wrong"
	shark -r "$dir/live.pcap" "${ports[@]}" -Y 'pmx.again && pmx.expert.again' >"$dir/again" 2>&1
	[ -s "$dir/again" ] && ok dissector_live__what_was_sent_again || not_ok dissector_live__what_was_sent_again "" "$dir/again"
else
	echo "ok dissector_live # SKIP needs root"
fi
exit $failed
