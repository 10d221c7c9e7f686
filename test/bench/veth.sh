#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# An ordinary interface: round trips, rate and bandwidth by size over one veth pair of MTU 1500 between two namespaces, a core
# each, spinning. Kernel TCP and UDP, UCX over TCP where ucx_perftest is installed, and pmx over the links udp, af_packet and
# af_xdp: plain messages as long as a context sends them, and matched ones (1 MiB too). All else has its default.
# Repeated in turns, so that columns compare like with like. Root.
# usage: veth.sh BUILD_DIR [REPETITIONS]
set -u
build=$(realpath "${1:?usage: veth.sh BUILD_DIR [REPETITIONS]}")
times=${2:-3}
work=$(mktemp -d)
a=pmxva$$ b=pmxvb$$
perf=$build/app/pmx-perf
. "$(dirname "$0")/turns.bash"
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

ucx()
{
	local size test pid
	command -v ucx_perftest >/dev/null || return 0
	export UCX_TLS=tcp
	for size in ${plain//,/ } 1048576; do
		for test in tag_lat tag_bw; do
			ip netns exec $b taskset -c 1 timeout 60 ucx_perftest -p 7778 >"$work/1.log" 2>&1 &
			pid=$!
			sleep 0.5
			# the last line: iterations, p50 us, average us, overall us, average MB/s, overall MB/s, average and overall messages/s
			ip netns exec $a taskset -c 0 timeout 60 ucx_perftest 10.77.0.2 -p 7778 -t $test -s "$size" -n $((size > 65536 ? 500 : rounds)) -f 2>"$work/0.log" |
				awk -v t=$test -v s="$size" '$1 ~ /^[0-9]+$/ {p = $2; b = $6; r = $8}
					END {if (t == "tag_lat") printf "{\"what\": \"ucx\", \"test\": \"latency\", \"size\": %d, \"p50_ns\": %d}\n", s, p * 2000
						else printf "{\"what\": \"ucx\", \"test\": \"bandwidth\", \"size\": %d, \"gbits\": %.9g, \"per_second\": %.9g}\n", s, b * 8 * 1.048576 / 1000, r}'
			wait $pid
		done
	done
}

# as COLUMN COMMAND...: its lines, each behind the column where it stands
as()
{
	"${@:2}" | sed "s/^/$1 /"
}

turn()
{
	as tcp kernel tcp
	as udp kernel udp
	as ucx ucx
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
python3 - "$work/rows" <<'PY'
import json, statistics, sys
cells, columns = {}, []
for line in open(sys.argv[1]):
    column, row = line.split(" ", 1)
    r = json.loads(row)
    if r["what"] == "matched":
        column += ", matched"
    if column not in columns:
        columns.append(column)
    for key, scale in (("p50_ns", 1e3), ("p99_ns", 1e3), ("gbits", 1), ("per_second", 1e6)):
        if r.get(key) and (key != "per_second" or r["test"] == "rate"):
            cells.setdefault((r["test"] if key[0] != "p" else key, r["size"], column), []).append(r[key] / scale)
for title, what in (("Round trip, us: median, lowest to highest", "p50_ns"), ("... 99th percentile", "p99_ns"),
                    ("Bandwidth, Gb/s", "bandwidth"), ("Messages, millions a second", "per_second")):
    print("%s\n%10s" % (title, "bytes") + "".join("%27s" % c for c in columns))
    for size in sorted({k[1] for k in cells if k[0] == what}):
        print("%10d" % size, end="")
        for c in columns:
            v = sorted(cells.get((what, size, c), []))
            print("%27s" % ("%.2f (%.2f-%.2f)" % (statistics.median(v), v[0], v[-1]) if v else "-"), end="")
        print()
PY
lines_print
