#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: capture.sh BUILD_DIR
# pmx-ctl capture: of nodes on sockets of the kernel and on a port of DPDK with two lanes, read back by tshark and its plug-in. Frames are
# all there by the counters, in both directions, with right times and reasons of drops; filters; a reader that is stopped costs no message.
set -u
. "$(dirname "$0")/common.bash"
command -v tshark >/dev/null || skip_all capture "needs tshark: dpdk-config/install.sh --tests"
veth 1500 || skip_all capture "no veth pair between namespaces"
export HOME=$dir PMX_ATTACH=thin
perf=$build/app/pmx-perf
ctl() { "$build/app/pmx-ctl" --instance "$tag$1" "${@:2}"; }

# config NODE LANES LINK-LINES
config() {
	cat >"$dir/$1.ini" <<-END
		[node]
		id = $1
		name = $tag$1
		[engine]
		idle = adaptive
		lanes = $2
		[limits]
		mbufs = 8192
		contexts = 8
		[link 0]
		$3
		[nodes]
		0 = ${4:-10.9.0.1}
		1 = ${5:-10.9.0.2}
	END
}
# node NUMBER LCORES [EAL arguments]
node() {
	primary_in "$tag$1" "$1" --lcores "$2" -m 192 --no-huge --file-prefix="$tag$1" "${@:3}" || not_ok "capture__node_$1" "does not start"
	pids[$1]=$last
}
# talk CONTEXT ROUNDS: messages of node 0 to that context of node 1
talk() {
	start "$dir/respond.log" timeout 60 "$perf" respond --context "$1" --instance "${tag}1" --idle yield
	timeout 60 "$perf" latency --context "$1" --rounds "$2" --warmup 0 --sizes 64,5000 --instance "${tag}0" --to "1:$1" --idle yield >"$dir/perf.log" 2>&1 ||
		not_ok capture__messages "" "$dir/perf.log"
}
# begins FILE [ARGUMENTS]: a capture at node 0, in $capture
begins() {
	local before
	before=$(grep -c "a capture begins" "$dir/0.log")
	start "$dir/capture.log" "$build/app/pmx-ctl" --instance "${tag}0" capture -w "$@"
	capture=$last
	wait_for 30 sh -c "[ \$(grep -c 'a capture begins' '$dir/0.log') -gt $before ]" || not_ok capture__begins "" "$dir/capture.log"
}
ended() { end "$capture" INT; wait "$capture" 2>/dev/null; }
# shark FILE ARGUMENTS...
shark() { plainly tshark -n -X lua_script:"$build/pmx.lua" -r "$dir/$1" "${@:2}" 2>"$dir/warned"; }
# count FILE FILTER
count() { shark "$1" -Y "$2" | wc -l; }
stat_of() { ctl 0 --json stat --all | jq --arg n "$1" '.counters[] | select(.name == $n).value'; }
# expect NAME WHAT IS WANTED
expect() { [ "$2" "$3" "$4" ] && ok "$1" || not_ok "$1" "$2, wanted $3 $4"; }

udp() { echo "driver = udp
listen = 10.9.0.$(($1 + 1)):18515"; }
for i in 0 1; do config $i 1 "$(udp $i)"; node $i "0@$i"; done
talk 1 10 # they know each other
sleep 0.2
began=$(date +%s)
begins "$dir/all.pcapng"
was_in=$(stat_of rx_frames) was_out=$(stat_of proto_tx_frames)
talk 1 200
sleep 0.3
now_in=$(stat_of rx_frames) now_out=$(stat_of proto_tx_frames)
ctl 0 capture -w "$dir/second.pcapng" 2>"$dir/second.log" && not_ok capture__one_at_a_time || ok capture__one_at_a_time
grep -q "somebody else captures" "$dir/second.log" && ok capture__says_so || not_ok capture__says_so "" "$dir/second.log"
ended
# a few may come between the looks at the counters and the capture's begin and end
in=$(count all.pcapng 'frame.packet_flags_direction == 1') out=$(count all.pcapng 'frame.packet_flags_direction == 2')
echo "# $in in and $out out, counted $((now_in - was_in)) and $((now_out - was_out)); $(cat "$dir/capture.log")"
expect capture__all_that_came "$in" -ge $((now_in - was_in))
expect capture__no_more_than_came "$in" -le $((now_in - was_in + 20))
expect capture__all_that_left "$out" -ge $((now_out - was_out))
expect capture__no_more_than_left "$out" -le $((now_out - was_out + 20))
expect capture__nothing_malformed "$(count all.pcapng '_ws.malformed || _ws.lua.error || pmx.expert.wrong || !pmx')" -eq 0
# what a busy machine makes late is sent again, and then comes twice
expect capture__nothing_dropped "$(count all.pcapng 'frame.comment && !(frame.comment == "drop_old")')" -eq 0
shark all.pcapng -T fields -e frame.time_epoch >"$dir/times"
awk -v b="$began" -v e="$(date +%s)" '$1 < last || $1 < b - 1 || $1 > e + 1 {print NR, $0; bad = 1} {last = $1} END {exit bad}' "$dir/times" >"$dir/wrong" &&
	ok capture__times || not_ok capture__times "" "$dir/wrong"

# ---- filters, and a number of frames
begins "$dir/context.pcapng" --context 3
talk 1 50
talk 3 50
ended
expect capture__one_context "$(count context.pcapng 'pmx.dst_ctx != 3 && pmx.src_ctx != 3')" -eq 0
expect capture__of_one_context "$(count context.pcapng 'pmx.dst_ctx == 3 && pmx.type == 1')" -ge 100
begins "$dir/peer.pcapng" --peer 7
talk 1 50
ended
expect capture__another_peer "$(count peer.pcapng frame)" -eq 0
begins "$dir/ten.pcapng" --peer 1 -c 10
talk 1 50
wait_for 30 gone "$capture" && expect capture__so_many "$(count ten.pcapng frame)" -eq 10 || not_ok capture__so_many "does not end"

# ---- why they were dropped
begins "$dir/drops.pcapng"
ip netns exec "${tag}1" python3 -c '
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for _ in range(3): s.sendto(b"short", ("10.9.0.1", 18515))
for _ in range(2): s.sendto(b"\x77" * 80, ("10.9.0.1", 18515))'
wait_for 30 sh -c "[ \$('$build/app/pmx-ctl' --instance ${tag}0 --json stat --all | jq '[.counters[] | select(.name == \"drop_short\" or .name == \"drop_version\").value] | add') -ge 5 ]"
sleep 0.2
ended
expect capture__short_ones_say_why "$(count drops.pcapng 'frame.comment == "drop_short"')" -eq 3
expect capture__other_versions_say_why "$(count drops.pcapng 'frame.comment == "drop_version"')" -eq 2

# ---- a reader that is stopped; a primary that ends
begins "$dir/slow.pcapng"
kill -STOP "$capture"
timeout 100 "$perf" respond --context 2 --instance "${tag}1" --idle yield >/dev/null 2>&1 &
others+=($!)
timeout 60 "$perf" bandwidth --context 2 --sizes 8192 --seconds 1 --instance "${tag}0" --to 1:2 --idle yield >"$dir/perf.log" 2>&1 &&
	ok capture__messages_go_on || not_ok capture__messages_go_on "" "$dir/perf.log"
kill -CONT "$capture"
sleep 0.5
end "${pids[0]}"
wait_for 30 gone "$capture" && ok capture__ends_with_the_primary || not_ok capture__ends_with_the_primary "" "$dir/capture.log"
lost=$(awk '{print $3}' "$dir/capture.log")
expect capture__skipped_are_counted "${lost:-0}" -gt 0
expect capture__the_file_is_whole "$(count slow.pcapng pmx)" -eq "$(awk '{print $1}' "$dir/capture.log")"
capinfos -M -c "$dir/slow.pcapng" >/dev/null 2>"$dir/wrong" && ok capture__capinfos || not_ok capture__capinfos "" "$dir/wrong"
end "${pids[1]}"

# ---- a port of DPDK, and two lanes
mac() { ip netns exec "$tag$1" cat "/sys/class/net/v$1/address"; }
for i in 0 1; do
	config $i 2 "port = net_af_packet0" "$(mac 0)" "$(mac 1)"
	node $i "0@0,1@1" "--vdev=net_af_packet0,iface=v$i,qpairs=1"
done
begins "$dir/ether.pcapng"
talk 1 100
talk 2 100
sleep 0.3
ended
expect capture__ethernet "$(count ether.pcapng 'eth.type == 0x88b5 && pmx')" -gt 400
expect capture__ethernet_nothing_malformed "$(count ether.pcapng '_ws.malformed || _ws.lua.error || pmx.expert.wrong')" -eq 0
expect capture__of_both_lanes "$(count ether.pcapng 'pmx.src_ctx == 1')" -gt 100
expect capture__and_of_the_other "$(count ether.pcapng 'pmx.src_ctx == 2')" -gt 100
for i in 0 1; do end "${pids[i]}"; done
exit $failed
