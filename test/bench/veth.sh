#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Round trip and rate of 64 bytes and bandwidth of 64 KiB over one veth pair between two namespaces,
# a core each, spinning: kernel TCP and UDP, and pmx over the udp, af_packet and af_xdp links.
# Repeated in turns, so that the ratios compare like with like. Root.
# usage: veth.sh BUILD_DIR [REPETITIONS]
set -u
build=$(realpath "${1:?usage: veth.sh BUILD_DIR [REPETITIONS]}")
times=${2:-3}
work=$(mktemp -d)
a=pmxva$$ b=pmxvb$$
perf=$build/app/pmx-perf
. "$(dirname "$0")/turns.bash"
rounds=${ROUNDS:-20000}

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

config() # NODE LINK_LINES
{
	printf '[node]\nid = %s\nname = veth%s\n[engine]\nidle = spin\n[link 0]\n%b\n[limits]\nmbufs = 16384\ncontexts = 4\n[nodes]\n0 = %s\n1 = %s\n' \
		"$1" "$1" "$2" "$3" "$4" >"$work/$1.ini"
}

pmx() # WHAT LINK0 LINK1 PEER0 PEER1 EAL0 EAL1
{
	config 0 "$2" "$4" "$5"
	config 1 "$3" "$4" "$5"
	local common="--no-pci --in-memory -m 256 --no-telemetry --log-level=*:error"
	ip netns exec $b taskset -c 1 timeout 60 "$perf" respond --embedded "$work/1.ini" -- \
		-l 1 $common --file-prefix v1$$ $7 >"$work/1.log" 2>&1 &
	local pid=$!
	sleep 1
	ip netns exec $a taskset -c 0 timeout 60 "$perf" all --sizes 64,65536 --seconds 0.5 --rounds "$rounds" --warmup 500 --json \
		--embedded "$work/0.ini" -- -l 0 $common --file-prefix v0$$ $6 2>"$work/0.log" |
		sed "s/\"what\": \"pmx\"/\"what\": \"$1\"/" | grep '"what"' || cat "$work/0.log" "$work/1.log" >&2
	wait $pid
}

kernel() # tcp|udp
{
	ip netns exec $b timeout 60 "$perf" baseline "$1" --respond --cpu 1 --idle spin \
		--address 10.77.0.2:7777 >"$work/1.log" 2>&1 &
	local pid=$!
	sleep 0.5
	ip netns exec $a timeout 60 "$perf" baseline "$1" --initiate --cpu 0 --idle spin --sizes 64,65536 \
		--seconds 0.5 --rounds "$rounds" --address 10.77.0.2:7777 --json
	wait $pid
}

turn()
{
	kernel tcp
	kernel udp
	pmx udp-link 'driver = udp\nlisten = 10.77.0.1:7001' 'driver = udp\nlisten = 10.77.0.2:7001' \
		10.77.0.1:7001 10.77.0.2:7001 "" ""
	pmx af_packet 'driver = ethdev\nport = net_af_packet0' 'driver = ethdev\nport = net_af_packet0' \
		auto auto --vdev=net_af_packet0,iface=v0 --vdev=net_af_packet0,iface=v1
	pmx af_xdp 'driver = ethdev\nport = net_af_xdp0' 'driver = ethdev\nport = net_af_xdp0' \
		auto auto --vdev=net_af_xdp0,iface=v0 --vdev=net_af_xdp0,iface=v1
	ip -n $a link set v0 xdp off 2>/dev/null
	ip -n $b link set v1 xdp off 2>/dev/null
}

turns "$times" turn >"$work/rows"

awk '
	function field(name) { if (!match($0, "\"" name "\": *\"?[^,\"}]+")) return ""; v = substr($0, RSTART, RLENGTH); sub(/.*: *"?/, "", v); return v }
	function keep(w, what, value) { x[w, what, ++n[w, what]] = value }
	/"what"/ {
		w = field("what"); size = field("size")
		if (field("test") == "latency" && size == 64) { keep(w, "p50", field("p50_ns") / 1000); keep(w, "p99", field("p99_ns") / 1000) }
		if (field("test") == "rate") keep(w, "rate", field("per_second") / 1e6)
		if (field("test") == "bandwidth" && size == 65536) keep(w, "bulk", field("gbits"))
	}
	function median(w, what,   i, j, t, c, v) {
		c = n[w, what]
		for (i = 1; i <= c; i++) v[i] = x[w, what, i] + 0
		for (i = 1; i <= c; i++) for (j = i + 1; j <= c; j++) if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
		low = v[1]; high = v[c]
		return c ? v[int((c + 1) / 2)] : 0
	}
	END {
		printf "%-10s %8s %14s %8s %10s %14s %10s %14s\n", "link", "p50 us", "(range)", "p99 us", "64 B M/s", "(range)", "64 KiB Gb/s", "(range)"
		split("tcp udp udp-link af_packet af_xdp", order, " ")
		for (o = 1; o <= 5; o++) {
			w = order[o]
			if (!n[w, "p50"]) continue
			a = median(w, "p50"); s = sprintf("%.2f-%.2f", low, high)
			printf "%-10s %8.2f %14s %8.2f", w, a, s, median(w, "p99")
			a = median(w, "rate"); s = sprintf("%.2f-%.2f", low, high)
			printf " %10.2f %14s", a, s
			a = median(w, "bulk"); s = sprintf("%.1f-%.1f", low, high)
			printf " %10.1f %14s\n", a, s
		}
	}' "$work/rows"
lines_print
