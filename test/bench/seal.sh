#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# What seals cost: two embedded nodes over net_memif, a core each, spinning, with security.mode = off, auth and seal in turns: round
# trip, rate and bandwidth, and what each mode adds. Root, hugepages.
# usage: seal.sh BUILD_DIR [REPETITIONS]
set -u
build=$(realpath "${1:?usage: seal.sh BUILD_DIR [REPETITIONS]}")
perf=$build/app/pmx-perf
times=${2:-5}
work=$(mktemp -d)
. "$(dirname "$0")/turns.bash"
export RUNTIME_DIRECTORY=$work
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/memif.bash"
for i in 0 1; do
	public[i]=$("$build/app/pmx-ctl" key generate "$work/$i.key" | grep -oE '[A-Za-z0-9+/]{43}=')
done

# with MODE: the two configurations
with() {
	local i
	nodes "bs$1"
	for i in 0 1; do
		sed -i "s|^0 = auto|& key=${public[0]}|; s|^1 = auto|& key=${public[1]}|" "$work/$i.ini"
		printf '[security]\nmode = %s\nkey = %s\n' "$1" "$work/$i.key" >>"$work/$i.ini"
	done
}

turn() {
	local mode
	for mode in off auth seal; do
		with "$mode"
		pair "respond --embedded $work/1.ini" \
			"all --json --embedded $work/0.ini --sizes 64,1024,8192,1048576 --rounds 10000 --warmup 1000 --seconds 0.2" |
			sed -n "s/\"what\": \"pmx\"/\"what\": \"$mode\"/p"
	done
}

turns "$times" turn >"$work/rows"
awk "$awk_rows"'
	{
		key = field("what") " " field("test") " " field("size")
		value = field("test") == "latency" ? field("p50_ns") : field("test") == "rate" ? field("per_second") / 1e6 : field("gbits")
		n[key]++; x[key, n[key]] = value + 0
	}
	function line(title, test,   i, m, s) {
		printf "%-28s", title
		for (i = 1; i <= 3; i++) {
			m[i] = median(mode[i] " " test)
			printf " %9.2f %-17s", m[i], sprintf("(%.2f-%.2f)", low, high)
		}
		printf " %6.2f %6.2f\n", m[1] ? m[2] / m[1] : 0, m[1] ? m[3] / m[1] : 0
	}
	END {
		split("off auth seal", mode, " ")
		printf "%-28s %9s %-17s %9s %-17s %9s %-17s %6s %6s\n", "medians, and their ranges", "off", "", "auth", "", "seal", "", "auth", "seal"
		line("round trip 64 B, ns", "latency 64")
		line("round trip 1 KiB, ns", "latency 1024")
		line("rate 64 B, burst 32, M/s", "rate 64")
		line("bandwidth 8 KiB, Gb/s", "bandwidth 8192")
		line("bandwidth 1 MiB, Gb/s", "bandwidth 1048576")
	}' "$work/rows"
lines_print
"$build/test/seal_peers"
