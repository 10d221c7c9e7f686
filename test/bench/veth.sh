#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An ordinary interface: round trips, rate and bandwidth by size over one veth pair of MTU 1500 between two namespaces, a core
# each, spinning. Kernel TCP and UDP, UDP that the kernel splits and joins without a protocol (segments.c), UCX over TCP where
# ucx_perftest is installed, and pmx over the links udp, af_packet and af_xdp: plain messages as long as a context sends them, and matched ones (1 MiB too). All else has its default.
# Repeated in turns, so that columns compare like with like. Root.
# usage: veth.sh BUILD_DIR [REPETITIONS]
set -u
build=$(realpath "${1:?usage: veth.sh BUILD_DIR [REPETITIONS]}")
times=${2:-3}
work=$(mktemp -d)
a=pmxva$$ b=pmxvb$$
perf=$build/app/pmx-perf
. "$(dirname "$0")/turns.bash"
. "$(dirname "$0")/ucx.bash"
first=(ip netns exec $a taskset -c 0) second=(ip netns exec $b taskset -c 1)
rounds=${ROUNDS:-2000}
plain=64,1024,8192,65536 matched=64,8192,65536,1048576

cleanup()
{
	ip netns del $a 2>/dev/null
	ip netns del $b 2>/dev/null
	rm -rf "$work"
}
trap cleanup EXIT

ip netns add $a && ip netns add $b || { echo "veth.sh: needs root and iproute2" >&2; exit 1; }
ip link add v0 netns $a type veth peer name v1 netns $b
ip -n $a addr add 10.77.0.1/24 dev v0
ip -n $b addr add 10.77.0.2/24 dev v1
for n in $a $b; do ip -n $n link set lo up; done
ip -n $a link set v0 up
ip -n $b link set v1 up
for n in $a:v0 $b:v1; do
	ip netns exec ${n%:*} sysctl -qw net.ipv6.conf.${n#*:}.disable_ipv6=1 2>/dev/null
done

config() # NODE LINK_LINES PEER0 PEER1
{
	printf '[node]\nid = %s\nname = veth%s\n[engine]\nidle = spin\n[link 0]\n%b\n[limits]\nmbufs = 16384\ncontexts = 4\n[nodes]\n0 = %s\n1 = %s\n' \
		"$1" "$1" "$2" "$3" "$4" >"$work/$1.ini"
}

pmx() # LINK0 LINK1 PEER0 PEER1 EAL0 EAL1
{
	config 0 "$1" "$3" "$4"
	config 1 "$2" "$3" "$4"
	local common="--no-pci --in-memory -m 256 --no-telemetry --log-level=*:error" test pid
	for test in all matched; do
		# shellcheck disable=SC2086
		ip netns exec $b taskset -c 1 timeout 60 "$perf" respond --embedded "$work/1.ini" -- \
			-l 1 $common --file-prefix v1$$ $6 >"$work/1.log" 2>&1 &
		pid=$!
		sleep 1
		local sizes=$plain
		[ $test = all ] || sizes=$matched
		# shellcheck disable=SC2086
		ip netns exec $a taskset -c 0 timeout 60 "$perf" $test --sizes $sizes --seconds 0.5 --rounds "$rounds" --warmup 50 --json \
			--embedded "$work/0.ini" -- -l 0 $common --file-prefix v0$$ $5 2>"$work/0.log" | grep '"what"' ||
			cat "$work/0.log" "$work/1.log" >&2
		wait $pid
	done
}

kernel() # tcp|udp
{
	ip netns exec $b timeout 60 "$perf" baseline "$1" --respond --cpu 1 --idle spin \
		--address 10.77.0.2:7777 >"$work/1.log" 2>&1 &
	local pid=$!
	sleep 0.5
	ip netns exec $a timeout 60 "$perf" baseline "$1" --initiate --cpu 0 --idle spin --sizes $plain,1048576 \
		--seconds 0.5 --rounds "$rounds" --address 10.77.0.2:7777 --json
	wait $pid
}

segments()
{
	# shellcheck disable=SC2086
	"${second[@]}" timeout 60 "$build/test/segments" respond 10.77.0.2 10.77.0.1 1 "$rounds" ${plain//,/ } >"$work/1.log" 2>&1 &
	local pid=$!
	sleep 0.3
	# shellcheck disable=SC2086
	"${first[@]}" timeout 60 "$build/test/segments" initiate 10.77.0.1 10.77.0.2 1 "$rounds" ${plain//,/ }
	wait $pid
}

turn()
{
	as tcp kernel tcp
	as udp kernel udp
	as segments segments
	as ucx ucx tcp 10.77.0.2 $plain,1048576
	as link pmx 'driver = udp\nlisten = 10.77.0.1:7001' 'driver = udp\nlisten = 10.77.0.2:7001' \
		10.77.0.1:7001 10.77.0.2:7001 "" ""
	as af_packet pmx 'driver = ethdev\nport = net_af_packet0' 'driver = ethdev\nport = net_af_packet0' \
		auto auto --vdev=net_af_packet0,iface=v0 --vdev=net_af_packet0,iface=v1
	as af_xdp pmx 'driver = ethdev\nport = net_af_xdp0' 'driver = ethdev\nport = net_af_xdp0' \
		auto auto --vdev=net_af_xdp0,iface=v0 --vdev=net_af_xdp0,iface=v1
	ip -n $a link set v0 xdp off 2>/dev/null
	ip -n $b link set v1 xdp off 2>/dev/null
}

turns "$times" turn >"$work/rows"
python3 "$(dirname "$0")/columns.py" "$work/rows"
lines_print
