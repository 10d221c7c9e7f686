#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# A switch that is narrower than its hosts: 1, 4 and 16 of them send to one over a kernel bridge, whose port to that one is limited
# to RATE (1gbit) with a queue of LATENCY (5ms), and which loses LOSS (0) per cent of the frames each way. Goodput of all together,
# and the least share of one (1: all have the same), of TCP and of pmx over the links udp and af_packet, in turns; the primaries
# have the default settings but idle = adaptive, and their applications are thin. Root, hugepages, iproute2; nft if LOSS is above 0.
# usage: bridge.sh BUILD_DIR [REPETITIONS [PEERS...]]
set -u
. "$(dirname "$0")/../system/common.bash"
times=${2:-3}
peers=("${@:3}")
[ $# -ge 3 ] || peers=(1 4 16)
rate=${RATE:-1gbit} latency=${LATENCY:-5ms} loss=${LOSS:-0} sizes=${SIZES:-8192,65536} seconds=${SECONDS_EACH:-3}
most=0
for n in "${peers[@]}"; do [ "$n" -le "$most" ] || most=$n; done
need_hugepages bridge $((32 * most + 80))
dpdk=$build/app/pmx-dpdk perf=$build/app/pmx-perf

space() { # NAME
	ip netns add "$tag$1" || exit 1
	spaces+=("$tag$1")
	ip -n "$tag$1" link set lo up
}
loses() { # NAME INTERFACE
	[ "$loss" != 0 ] || return 0
	ip netns exec "$tag$1" nft "add table netdev t; add chain netdev t c { type filter hook ingress device $2 priority 0; };
		add rule netdev t c numgen random mod 1000 lt $(awk -v l="$loss" 'BEGIN {print int(l * 10)}') drop"
}
space sw
ip -n "${tag}sw" link add name sw0 type bridge forward_delay 0
ip -n "${tag}sw" link set sw0 up
for ((i = 0; i <= most; i++)); do
	space $i
	ip link add "e$i" netns "${tag}$i" type veth peer name "p$i" netns "${tag}sw"
	ip -n "$tag$i" addr add "10.78.0.$((i + 1))/24" dev "e$i"
	ip netns exec "$tag$i" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 2>/dev/null
	ip -n "$tag$i" link set "e$i" up
	macs[i]=$(ip -n "$tag$i" -br link show "e$i" | awk '{print $3}') # what the bridge does not know it sends to all
	ip -n "${tag}sw" link set "p$i" master sw0
	ip -n "${tag}sw" link set "p$i" up
	loses $i "e$i"
done
[ "$rate" = none ] || ip netns exec "${tag}sw" tc qdisc add dev p0 root tbf rate "$rate" burst 128kb latency "$latency"

now() { date +%s%N; }

row() { # WHAT PEERS SIZE BEGIN: of the rows of all senders; the time is until the last one has told its own, since processes end late
	python3 - "$@" "$dir"/s[0-9]*.log <<-'END'
		import json, os, sys
		what, peers, size, begin = sys.argv[1:5]
		end = max(os.stat(f).st_mtime_ns for f in sys.argv[5:])
		rows = [json.loads(l) for f in sys.argv[5:] for l in open(f) if l.startswith('{')]
		got = [r['gbits'] for r in rows if r['gbits']]
		bits = sum(r['gbits'] * r['seconds'] for r in rows if r['gbits'])
		print(what, peers, size, len(got), f'{bits * 1e9 / (int(end) - int(begin)):.3f}', f'{min(got) * len(got) / sum(got):.2f}')
	END
	grep -hv '^{' "$dir"/s[0-9]*.log >&2
	rm -f "$dir"/s[0-9]*.log
}

tcp() { # PEERS SIZE
	local i size=$2 who=() begin
	for ((i = 1; i <= $1; i++)); do
		start "$dir/r$i.log" ip netns exec "${tag}0" timeout 60 "$perf" baseline tcp --respond --idle block --address "10.78.0.1:$((7000 + i))"
		who+=("$last")
	done
	sleep 0.5
	begin=$(now)
	for ((i = 1; i <= $1; i++)); do
		start "$dir/s$i.log" ip netns exec "$tag$i" timeout 60 "$perf" baseline tcp --initiate --idle block --sizes "$size" --rounds 1 --warmup 0 \
			--seconds "$seconds" --address "10.78.0.1:$((7000 + i))" --json
		who+=("$last")
	done
	wait "${who[@]}"
	row tcp "$1" "$2" "$begin"
}

all_open() { [ "$(timeout 10 "$build/app/pmx-ctl" --instance "${tag}0" --json contexts 2>/dev/null | tr -cd '{' | wc -c)" -ge "$1" ]; }

pmx() { # LINK PEERS SIZE
	local i n=$2 size=$3 begin who=() daemons=() link eal
	for ((i = 0; i <= n; i++)); do
		link="driver = udp\nlisten = 10.78.0.$((i + 1)):7000" eal=()
		[ "$1" = udp ] || link="driver = ethdev\nport = net_af_packet0" eal=("--vdev=net_af_packet0,iface=e$i")
		{
			printf '[node]\nid = %s\nname = %s\n[engine]\nidle = '"${IDLE:-adaptive}"'\n[link 0]\n%b\n[limits]\nmbufs = %s\ncontexts = 20\n'"${PROTO:+[proto]\n$PROTO\n}"'[nodes]\n' \
				"$i" "$tag$i" "$link" $((i == 0 ? 32768 : 8192))
			for ((k = 0; k <= n; k++)); do
				[ "$1" = udp ] && echo "$k = 10.78.0.$((k + 1)):7000" || echo "$k = ${macs[k]}"
			done
		} >"$dir/$i.ini"
		start "$dir/d$i.log" ip netns exec "$tag$i" "$dpdk" -l $((i % 2)) -m $((i == 0 ? 160 : 64)) --no-pci --log-level='*:error' ${eal[@]+"${eal[@]}"} -- "$dir/$i.ini"
		daemons+=("$last")
	done
	for ((i = 0; i <= n; i++)); do wait_for 30 grep -q ready "$dir/d$i.log" || cat "$dir/d$i.log" >&2; done
	for ((i = 1; i <= n; i++)); do
		start "$dir/r$i.log" ip netns exec "${tag}0" env PMX_ATTACH=thin timeout 60 "$perf" respond --instance "${tag}0" --context $i --idle block
		who+=("$last")
	done
	wait_for 60 all_open "$n"
	begin=$(now)
	for ((i = 1; i <= n; i++)); do
		start "$dir/s$i.log" ip netns exec "$tag$i" env PMX_ATTACH=thin timeout 60 "$perf" bandwidth --instance "$tag$i" --context 1 --to 0:$i --idle block --sizes "$size" \
			--warmup 0 --seconds "$seconds" --json
		who+=("$last")
	done
	wait "${who[@]}"
	row "$1" "$n" "$size" "$begin"
	for i in "${daemons[@]}"; do end "$i"; done
}

for ((turn = 0; turn < times; turn++)); do
	for n in "${peers[@]}"; do
		for size in ${sizes//,/ }; do
			tcp "$n" "$size"
			pmx udp "$n" "$size"
			pmx af_packet "$n" "$size"
		done
	done
done >"$dir/rows"
python3 - "$dir/rows" <<-'END'
	import sys, statistics as st
	rows = {}
	for l in open(sys.argv[1]):
	    what, peers, size, n, gbits, share = l.split()
	    rows.setdefault((int(peers), int(size)), {}).setdefault(what, []).append((float(gbits), float(share), int(n)))
	print(f'{"peers":>5} {"bytes":>8}' + ''.join(f'{w:>10} {"share":>6}' for w in ('tcp', 'udp', 'af_packet')) + f'{"udp/tcp":>9}{"raw/tcp":>9}')
	for (peers, size), by in sorted(rows.items()):
	    mid = {w: st.median(g for g, _, _ in v) for w, v in by.items()}
	    line = f'{peers:5} {size:8}'
	    for w in ('tcp', 'udp', 'af_packet'):
	        line += f'{mid[w]:10.2f} {st.median(s for _, s, _ in by[w]):6.2f}' if w in by else f'{"-":>10} {"-":>6}'
	    line += ''.join(f'{mid[w] / mid["tcp"]:9.2f}' if w in mid and mid.get('tcp') else f'{"-":>9}' for w in ('udp', 'af_packet'))
	    print(line + ('' if all(n == peers for v in by.values() for _, _, n in v) else '  not all ended'))
END
