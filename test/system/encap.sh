#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: encap.sh BUILD_DIR [NAME...]
# Frames judged by others than our own nodes: the kernel's UDP and packet sockets, its VLAN interfaces and its routing, and tshark, all
# over veth pairs between namespaces. Then udp over IPv6. NAME: only those cases.
set -u
. "$(dirname "$0")/common.bash"

here=$(dirname "$0")
shift
only=" $* "
wanted() { [ "$only" = "  " ] || [[ $only == *" $1 "* ]]; }
need_hugepages encap 192
perf=$build/app/pmx-perf
ctl=("$build/app/pmx-ctl" --instance "${tag}0")
in0=(ip netns exec "${tag}0") in1=(ip netns exec "${tag}1")
veth 1500 || skip_all encap "no veth pair between namespaces"
mac0=$("${in0[@]}" cat /sys/class/net/v0/address) mac1=$("${in1[@]}" cat /sys/class/net/v1/address)
# nothing of the kernel's own on the wire, and nobody but us has node 0's address; for it who asks is answered by us
for i in 0 1; do
	ip netns exec "$tag$i" sysctl -qw "net.ipv6.conf.v$i.disable_ipv6=1"
done
ip -n "${tag}0" addr flush dev v0

# config NODE LINK-LINES [LINES OF NODES]...
config() {
	cat >"$dir/$1.ini" <<-END
		[node]
		id = $1
		name = $tag$1
		[engine]
		idle = yield
		[proto]
		keepalive_ms = 1000
		[limits]
		mbufs = 4096
		contexts = 8
		send_buffers = 128
		receive_buffers = 256
		[link 0]
		$2
		[nodes]
	END
	printf '%s\n' "${@:3}" >>"$dir/$1.ini"
}

# node NUMBER [EAL arguments]: a primary in its namespace; its process number is in node_pid
node() {
	primary_in "$tag$1" "$1" -l "$1" -m 64 --file-prefix="$tag$1" "${@:2}"
	local code=$?
	node_pid=$last
	return $code
}

packet() { echo "--vdev=net_af_packet0,iface=$1"; }

# ask CONTEXT TO: messages to a node, until it is ended; asks it with HELLO before
ask() {
	start "$dir/ask.log" "$perf" latency --sizes 64 --rounds 1e9 --context "$1" --to "$2" --instance "${tag}0"
}

device=("$(packet v0)") # node 0's

# hands NAME WHERE [WHERE NOT]...: node 0, which $dir/0.ini says, asks node 1, which is a socket of the kernel in the other namespace; then
# both ways are up
hands() {
	local name=$1
	shift
	if ! node 0 ${device[@]+"${device[@]}"}; then
		not_ok "$name" "does not start"
		return
	fi
	ask 2 1:1
	local asker=$last
	if "${in1[@]}" python3 "$here/encap.py" hands "$@" >"$dir/hands.log" 2>&1 &&
		wait_for 60 sh -c "'${ctl[0]}' --instance ${tag}0 peers | grep -q '^ *1  up'"; then
		ok "$name"
		sed 's/^/# /' "$dir/hands.log"
	else
		not_ok "$name" "" "$dir/hands.log"
		"${ctl[@]}" peers | sed 's/^/# /'
	fi
	end "$asker" KILL
}

# ------------------------------------------------------------------ the kernel is node 1

if wanted kernel_ether; then
	config 0 "port = net_af_packet0" "1 = $mac1"
	hands encap_ether__the_kernel_is_a_peer v1
	end "$node_pid"
fi

if wanted kernel_vlan; then
	vlans=()
	for vlan in 5 6; do
		ip -n "${tag}1" link add link v1 name v1.$vlan type vlan id $vlan 2>/dev/null || break
		ip netns exec "${tag}1" sysctl -qw "net.ipv6.conf.v1/$vlan.disable_ipv6=1"
		ip -n "${tag}1" link set v1.$vlan up
		vlans+=(v1.$vlan)
	done
	if [ ${#vlans[@]} -lt 2 ]; then
		echo "# this kernel has no VLAN interfaces: by the tag that it took off (PACKET_AUXDATA)"
		vlans=(v1@5 v1@6)
	fi
	config 0 "port = net_af_packet0
encap = vlan
vlan = 5" "1 = $mac1"
	hands encap_vlan__the_kernel_is_a_peer "${vlans[@]}"
	dropped=$("${ctl[@]}" drops | awk '$1 == "drop_foreign" {print $2}')
	if [ "${dropped:-0}" -eq 1 ]; then
		ok encap_vlan__another_vlan_is_foreign
	else
		not_ok encap_vlan__another_vlan_is_foreign "drop_foreign ${dropped:-0}, not 1"
	fi
	end "$node_pid"
	for vlan in 5 6; do ip -n "${tag}1" link del v1.$vlan 2>/dev/null; done
fi

if wanted kernel_udp; then
	ip -n "${tag}0" addr add 10.9.0.1/24 dev v0
	config 0 "port = net_af_packet0
encap = udp
ip = 10.9.0.1/24" "1 = 10.9.0.2"
	"${in0[@]}" "$build/app/pmx-dpdk" "$(packet v0)" -- --check "$dir/0.ini" 2>&1 | grep -q "is the kernel's address on v0 too" && ok encap_udp__the_kernels_address ||
		not_ok encap_udp__the_kernels_address ""
	ip -n "${tag}0" addr flush dev v0
	config 0 "port = net_af_packet0
encap = udp
ip = 10.9.0.1/24" "1 = 10.9.0.2" "2 = 10.9.0.77"
	hands encap_udp__the_kernel_is_a_peer udp:10.9.0.2
	# both found each other by ARP
	"${ctl[@]}" --json peers | jq -e --arg mac "$mac1" '.[0].next_hop == ($mac | ascii_upcase) and .[0].next_hop_ip == "10.9.0.2"' >"$dir/hop" &&
		"${in1[@]}" ip neigh show 10.9.0.1 dev v1 | grep -qi "$mac0" && ok encap_udp__arp_both_ways ||
		not_ok encap_udp__arp_both_ways "" <("${ctl[@]}" --json peers; "${in1[@]}" ip neigh)
	# an address that nobody has
	"${ctl[@]}" ping 2 >"$dir/ping.log" 2>&1
	grep -q "answers ARP for 10.9.0.77" "$dir/ping.log" && ok encap_udp__ping_says_that_nobody_answers_arp ||
		not_ok encap_udp__ping_says_that_nobody_answers_arp "" "$dir/ping.log"
	# another host that has node 0's address
	"${in1[@]}" python3 "$here/encap.py" take v1 10.9.0.1
	wait_for 10 grep -q "has the IP address of this link" "$dir/0.log" && ok encap_udp__an_address_of_two_hosts_is_logged ||
		not_ok encap_udp__an_address_of_two_hosts_is_logged "" "$dir/0.log"
	# the peer gets another MAC address, and says so to all
	ip -n "${tag}1" link set v1 address 02:00:00:00:00:99
	"${in1[@]}" python3 "$here/encap.py" take v1 10.9.0.2
	wait_for 10 sh -c "'${ctl[0]}' --instance ${tag}0 --json peers | jq -e '.[0].next_hop == \"02:00:00:00:00:99\"' >/dev/null" &&
		ok encap_udp__a_new_mac_address_is_learnt || not_ok encap_udp__a_new_mac_address_is_learnt "" <("${ctl[@]}" --json peers)
	ip -n "${tag}1" link set v1 address "$mac1"
	end "$node_pid"
fi

# af_packet has the kernel put fragments together, so by another port; its MAC address is this by default
if wanted wrong; then
	config 0 "port = net_pcap0
encap = udp
ip = 10.9.0.1" "1 = 10.9.0.2 mac=$mac1"
	if node 0 --vdev=net_pcap0,rx_iface_in=v0,tx_iface=v0; then
		passes encap_udp__wrong_frames_are_counted_as_what_they_are \
			"${in1[@]}" python3 "$here/encap.py" wrong v1 02:70:63:61:70:00 $RANDOM "${ctl[@]}"
		end "$node_pid"
	else
		not_ok encap_udp__wrong_frames_are_counted_as_what_they_are "does not start"
	fi
fi
# ------------------------------------------------------------------ captured between two nodes

# judge FILE...: what tshark has to say against their frames, a line each; to it our header is data, whatever it looks like
judge() {
	local file
	for file; do
		tshark -n -r "$file" -d udp.port==18515,data -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE \
			-Y '_ws.malformed || _ws.expert.severity >= warning' -T fields -e frame.number -e _ws.expert.message 2>"$dir/judge.err" ||
			cat "$dir/judge.err"
	done
}

# perf SIZES TEST...: pmx-perf's tests between the two primaries
perf() {
	local test sizes=$1
	for test in "${@:2}"; do
		start "$dir/respond.log" "$perf" respond --instance "${tag}1"
		local responder=$last
		wait_for 60 context_open 1 1
		timeout 30 "$perf" "$test" --sizes "$sizes" --rounds 20 --warmup 2 --seconds 0.1 --instance "${tag}0" >"$dir/$test.log" 2>&1 ||
			{ tail -5 "$dir/$test.log" | sed 's/^/# /'; end "$responder" KILL; return 1; }
		wait "$responder"
	done
}

# captured ENCAP MTU [DEVICE ARGUMENTS]: traffic of all kinds with losses between nodes 0 and 1, and questions to a node 2 that is not
# there. A capture shows what its end receives: af_packet goes round the place where it would show what leaves.
captured() {
	local encap=$1 mtu=$2 name=encap_$1__frames_are_right addresses=("$mac0" "$mac1" 02:00:00:00:00:33) nodes=() lines=() captures=() primaries=()
	local i files=("$dir/$1.0.pcap" "$dir/$1.1.pcap")
	shift 2
	for i in 0 1 2; do
		nodes+=("$i=${addresses[i]}=10.9.0.$((i + 1))")
		[ "$encap" = udp ] && lines+=("$i = 10.9.0.$((i + 1)) mac=${addresses[i]}") || lines+=("$i = ${addresses[i]}")
	done
	for i in 0 1; do
		config $i "port = net_af_packet0
encap = $encap
vlan = 5
ip = 10.9.0.$((i + 1))
mtu = $mtu
fault = loss=2%,reorder=2%+50us,duplicate=1%,seed=$((i + 7))" "${lines[@]}"
		ip -n "$tag$i" addr flush dev "v$i"
		start "$dir/capture$i.log" ip netns exec "$tag$i" tshark -q -i "v$i" -F pcap -w "${files[i]}"
		captures+=("$last")
	done
	for i in 1 0; do
		node $i "$(packet v$i)$*" || { not_ok "$name" "does not start"; return; }
		primaries+=("$node_pid")
	done
	for i in 0 1; do wait_for 60 grep -q Capturing "$dir/capture$i.log"; done
	ask 3 2:1
	local asker=$last
	perf 1,8192,100000 bandwidth $([ "$encap" = udp ] && echo push) || not_ok "$name" "no messages"
	wait_for 60 python3 "$here/encap.py" kinds "$(IFS=,; echo "${files[*]}")" "$encap" PING,PONG || echo "# neither PING nor PONG"
	end "$asker" KILL
	for i in "${captures[@]}"; do end "$i" INT; done
	for i in "${primaries[@]}"; do end "$i"; done
	passes "$name" python3 "$here/encap.py" captured "$(IFS=,; echo "${files[*]}")" "$encap" 5 DATA,ACK,NACK,HELLO,PING,PONG "${nodes[@]}"
	judge "${files[@]}" >"$dir/judged"
	[ ! -s "$dir/judged" ] && ok "encap_${encap}__tshark_sees_nothing_wrong" ||
		not_ok "encap_${encap}__tshark_sees_nothing_wrong" "$(wc -l <"$dir/judged") frames" "$dir/judged"
}

if ! command -v tshark >/dev/null; then
	echo "ok encap_captured # SKIP tshark is not installed (dpdk-config/install.sh --tests)"
else
	if full; then
		wanted captured_ether && captured ether 1500
		wanted captured_vlan && captured vlan 1500
	fi
	if wanted captured_udp; then
		for i in 0 1; do ip -n "$tag$i" link set "v$i" mtu 9000; done
		captured udp 9000 ,blocksz=36864,framesz=9216,framecnt=1024
		for i in 0 1; do ip -n "$tag$i" link set "v$i" mtu 1500; done
		# and it would see it: a bit of the source address
		python3 "$here/encap.py" break "$dir/udp.1.pcap" "$dir/broken.pcap" 28
		judge "$dir/broken.pcap" >"$dir/judged"
		[ "$(wc -l <"$dir/judged")" -eq 1 ] && ok encap_udp__tshark_sees_a_wrong_bit ||
			not_ok encap_udp__tshark_sees_a_wrong_bit "$(wc -l <"$dir/judged") frames are wrong, not one"
	fi
fi
# ------------------------------------------------------------------ nodes with the kernel between them

# messages NAME: node 0 and node 1, as their .ini say, in two processes without hugepages; EAL arguments in eal0 and eal1
messages() {
	local name=$1
	start "$dir/1.log" "${in1[@]}" "$perf" respond --idle yield --embedded "$dir/1.ini" -- --no-pci --no-huge -m 128 -l 1 \
		"--file-prefix=${tag}m1" ${eal1[@]+"${eal1[@]}"}
	local responder=$last
	sleep 0.7
	if timeout 60 "${in0[@]}" "$perf" all --idle yield --sizes 8,1400,100000 --rounds 50 --warmup 5 --seconds 0.1 --embedded "$dir/0.ini" -- \
		--no-pci --no-huge -m 128 -l 0 "--file-prefix=${tag}m0" ${eal0[@]+"${eal0[@]}"} >"$dir/0.log" 2>&1 &&
		wait_for 60 sh -c "! kill -0 $responder 2>/dev/null"; then
		ok "$name"
	else
		not_ok "$name" "" "$dir/0.log"
		tail -5 "$dir/1.log" | sed 's/^/# responder: /'
	fi
	end "$responder" KILL
}

# a node of the kernel's sockets and one that makes the same frames itself: what is UDP to one is to the other
if wanted mixed; then
	ip -n "${tag}1" addr replace 10.9.0.2/24 dev v1
	config 0 "port = net_af_packet0
encap = udp
ip = 10.9.0.1/24" "1 = 10.9.0.2"
	config 1 "driver = udp
listen = 10.9.0.2:18515
mtu = 1472" "0 = 10.9.0.1"
	eal0=("$(packet v0)") eal1=()
	messages encap_udp__with_a_node_of_driver_udp
fi

# Two subnets, and the kernel routes between them: it judges each IP header, counts the wrong ones, and writes TTL and checksum anew.
if wanted routed; then
	router=${tag}r
	ip netns add "$router" && spaces+=("$router")
	ip netns exec "$router" sysctl -qw net.ipv4.ip_forward=1
	for i in 0 1; do
		ip link add w$i netns "$tag$i" type veth peer name r$i netns "$router"
		ip -n "$tag$i" link set w$i up
		ip -n "$router" link set r$i up
		ip -n "$router" addr add "10.9.$((i + 1)).254/24" dev r$i
	done
	for i in 0 1; do
		config $i "port = net_af_packet0
encap = udp
ip = 10.9.$((i + 1)).1/24
gateway = 10.9.$((i + 1)).254
fault = loss=1%,seed=$((i + 7))" "$((1 - i)) = 10.9.$((2 - i)).1"
	done
	eal0=("$(packet w0)") eal1=("$(packet w1)")
	messages encap_udp__through_a_router
	read -r wrong_headers wrong_addresses forwarded < <(ip netns exec "$router" awk '/^Ip: [0-9]/ {print $5, $6, $7}' /proc/net/snmp)
	[ "$forwarded" -gt 100 ] && [ $((wrong_headers + wrong_addresses)) -eq 0 ] && ok encap_udp__the_router_found_nothing_wrong ||
		not_ok encap_udp__the_router_found_nothing_wrong "$forwarded forwarded, $wrong_headers headers and $wrong_addresses addresses wrong"
fi

# ------------------------------------------------------------------ IPv6

if ! [ -e /proc/net/if_inet6 ]; then
	echo "ok udp_ip6 # SKIP this kernel has no IPv6"
	exit $failed
fi
for i in 0 1; do
	ip netns exec "$tag$i" sysctl -qw "net.ipv6.conf.v$i.disable_ipv6=0" "net.ipv6.conf.v$i.accept_dad=0"
	ip -n "$tag$i" addr replace "2001:db8::$((i + 1))/64" dev "v$i" nodad
	ip -n "$tag$i" addr replace "fe80::$((i + 1))/64" dev "v$i" nodad
done
eal0=() eal1=() device=()

if wanted ip6; then
	for i in 0 1; do
		config $i "driver = udp
listen = [2001:db8::$((i + 1))]:18515
mtu = 4000" "0 = 2001:db8::1" "1 = [2001:db8::2]:18515"
	done
	messages udp_ip6__messages # in fragments of the kernel's: the veth has 1500
fi

if wanted ip6_zone; then
	for i in 0 1; do
		config $i "driver = udp
listen = [fe80::$((i + 1))%v$i]:18515" "0 = fe80::1" "1 = fe80::2"
	done
	messages udp_ip6__messages_of_one_interface
fi

if wanted ip6_kernel; then
	config 0 "driver = udp
listen = [2001:db8::1]:18515" "1 = 2001:db8::2"
	hands udp_ip6__the_kernel_is_a_peer udp:2001:db8::2
	"${ctl[@]}" peers | grep -qF '[2001:db8::2]:18515' && ok udp_ip6__peers_shows_the_address ||
		not_ok udp_ip6__peers_shows_the_address "" <("${ctl[@]}" peers)
	end "$node_pid"
fi
exit $failed
