#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: ping.sh BUILD_DIR
# Faults made on purpose between two hosts, which are namespaces, each with another answer of pmx-ctl ping, and some of doctor. That nobody
# answers ARP for frames of our own is in encap.sh; a path that does not pass long frames in agree.sh; a node that was not found in discovery.sh.
set -u
. "$(dirname "$0")/common.bash"
here=$(dirname "$0")
veth 1500 || skip_all ping "no veth pair between namespaces"
in0=(ip netns exec "${tag}0") in1=(ip netns exec "${tag}1")

# config NODE LINK-LINES [LINES OF NODES]...
config() {
	cat >"$dir/$1.ini" <<-END
		[node]
		id = $1
		name = $tag$1
		[engine]
		idle = adaptive
		[limits]
		mbufs = 4096
		contexts = 8
		[proto]
		${PROTO:-}
		[link 0]
		$2
		[nodes]
	END
	printf '%s\n' "${@:3}" >>"$dir/$1.ini"
}
udp() { echo "driver = udp
listen = 10.9.0.$(($1 + 1)):18515
${2:-}"; }

# node NUMBER [EAL arguments]: a primary in its namespace; its process number is in node_pid
node() {
	primary_in "$tag$1" "$1" -l "$1" -m 96 --no-huge --file-prefix="$tag$1" "${@:2}" || not_ok "ping__node_$1" "does not start"
	node_pid=$last
}

answers=()
# says NAME ANSWER PING ARGUMENTS...
says() {
	"${in0[@]}" "$build/app/pmx-ctl" --instance "${tag}0" --json ping "${@:3}" >"$dir/ping" 2>&1
	local code=$? why
	why=$(jq -r '.why // ""' "$dir/ping" 2>/dev/null)
	if grep -q "$2" <<<"$why"; then
		ok "ping__$1"
		answers+=("$2")
	else
		not_ok "ping__$1" "exit code $code" "$dir/ping"
	fi
}
doctor() { "$build/app/pmx-ctl" --instance "${tag}0" doctor >"$dir/doctor" 2>&1; grep -q "$2" "$dir/doctor" && ok "ping__doctor_$1" || not_ok "ping__doctor_$1" "" "$dir/doctor"; }
# stop 0 1: those primaries
stop() { local i; for i; do end "${pids[i]}"; done; }

table=("0 = 10.9.0.1" "1 = 10.9.0.2" "2 = 10.9.0.77" "3 = 10.200.0.1" "4 = 10.9.0.2:19999")
config 0 "$(udp 0)" "${table[@]}"
config 1 "$(udp 1)" "${table[@]}"
node 0; pids[0]=$node_pid
says nobody_listens "nobody listens at that port" 1
says another_port "nobody listens at that port" 4
node 1; pids[1]=$node_pid
"$build/app/pmx-ctl" --instance "${tag}0" --json ping 1 >"$dir/ping" && jq -e '.answered == 5 and .why == null' "$dir/ping" >/dev/null && ok ping__answers ||
	not_ok ping__answers "" "$dir/ping"
says in_no_table "is not in \[nodes\]" 5
says no_arp "no answer to ARP" 2
says no_route "no route" 3
says a_context_that_is_not_open "its context 3 is not open" 1 --context 3
start "$dir/respond.log" "${in1[@]}" env PMX_ATTACH=thin "$build/app/pmx-perf" respond --idle yield --instance "${tag}1"
responder=$last
opened() { "$build/app/pmx-ctl" --instance "${tag}0" --json ping 1 --times 1 --context 1 >"$dir/ping" && jq -e '.context_open and .why == null' "$dir/ping" >/dev/null; }
wait_for 30 opened && ok ping__a_context_that_is_open || not_ok ping__a_context_that_is_open "" "$dir/ping"
end "$responder" KILL
"$build/app/pmx-ctl" --instance "${tag}0" ping 10.9.0.2 >"$dir/ping" && ok ping__by_address || not_ok ping__by_address "" "$dir/ping"
"$build/app/pmx-ctl" --instance "${tag}0" ping 1 --size 99999999 >"$dir/ping" 2>&1 && not_ok ping__bad_size || ok ping__bad_size
stop 1

# its table has another address for this node
config 1 "$(udp 1)" "0 = 10.9.0.66"
node 1; pids[1]=$node_pid
says no_answer "no answer from 10.9.0.2:18515" 1
stop 1
PROTO="checksum = on" config 1 "$(udp 1)" "${table[@]}"
node 1; pids[1]=$node_pid
says checksum "has proto.checksum = on, this one off" 1
doctor checksum "has proto.checksum = on, this one off"
stop 1
config 1 "$(udp 1 "mtu = 1000")" "${table[@]}"
node 1; pids[1]=$node_pid
says mtu "takes 944 bytes a frame" 1 --size 1300
doctor mtu "takes 944 bytes a frame"
stop 1
config 1 "$(udp 1 "fault = delay=60ms")" "${table[@]}"
node 1; pids[1]=$node_pid
says late "it answers late" 1 --times 2
stop 0 1
# another version: whoever answers there is no primary of ours
config 0 "$(udp 0)" "${table[@]}"
node 0; pids[0]=$node_pid
start "$dir/version.log" timeout 60 "${in1[@]}" python3 "$here/encap.py" version 10.9.0.2 9
version=$last
sleep 0.3
says version "speaks version 9 of the protocol" 1
doctor version "speaks version 9 of the protocol"
end "$version" KILL
stop 0
# no carrier
config 0 "port = net_af_packet0" "0 = auto" "1 = auto"
node 0 "--vdev=net_af_packet0,iface=v0"; pids[0]=$node_pid
ip -n "${tag}1" link set v1 down
wait_for 20 sh -c "'$build/app/pmx-ctl' --instance ${tag}0 --json links | jq -e '.links[0].up == 0' >/dev/null"
says no_carrier "has no carrier" 1
stop 0
distinct=$(printf '%s\n' "${answers[@]}" | sort -u | wc -l)
[ "$distinct" -ge 11 ] && ok ping__answers_differ || not_ok ping__answers_differ "$distinct"
echo "# $distinct different answers"
exit $failed
