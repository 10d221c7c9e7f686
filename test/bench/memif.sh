#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# pmx between two embedded nodes over net_memif, a core each, spinning, in turns with the raw link:
# round trip, rate and bandwidth, and their ratios. Root, hugepages.
# usage: memif.sh BUILD_DIR [REPETITIONS]
set -u
perf=$(realpath "${1:?usage: memif.sh BUILD_DIR [REPETITIONS]}")/app/pmx-perf
times=${2:-5}
work=$(mktemp -d)
. "$(dirname "$0")/turns.bash"
export RUNTIME_DIRECTORY=$work
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/memif.bash"
nodes bm

turn()
{
	{
		pair "floor --respond --idle spin" "floor --json --idle spin --rounds 10000 --warmup 1000 --seconds 0.2"
		pair "floor --respond --idle spin" \
			"floor --json --idle spin --rounds 10000 --warmup 1000 --seconds 0.2 --sizes 32,64,8192,1048576"
		pair "respond --embedded $work/1.ini" \
			"all --json --embedded $work/0.ini --sizes 32,64,8192,1048576 --rounds 10000 --warmup 1000 --seconds 0.2"
		pair "respond --embedded $work/1.ini" \
			"bandwidth --json --in-place --embedded $work/0.ini --sizes 8192,1048576 --seconds 0.2"
	} | grep '"what"'
}

turns "$times" turn >"$work/rows"
[ -z "${BENCH_ROWS:-}" ] || cat "$work/rows" >>"$BENCH_ROWS" # for compare.sh

awk "$awk_rows"'
	{
		key = field("what") " " field("test") " " field("size")
		value = field("test") == "latency" ? field("p50_ns") / 1000 : field("test") == "rate" ? field("per_second") / 1e6 : field("gbits")
		n[key]++; x[key, n[key]] = value + 0
	}
	function line(title, a, b,   ma, mb, s) {
		ma = median(a); s = sprintf("%.2f-%.2f", low, high)
		mb = median(b)
		printf "%-34s %8.2f %14s %9.2f %6.2f-%-6.2f %7.2f\n", title, ma, s, mb, low, high, mb ? ma / mb : 0
	}
	END {
		printf "%-34s %8s %14s %9s %13s %7s\n", "median of repetitions", "pmx", "(range)", "raw link", "(range)", "ratio"
		line("round trip 32 B, us", "pmx latency 32", "floor latency 64")
		line("round trip 64 B, us", "pmx latency 64", "floor latency 64")
		line("same, raw copies its payload", "pmx latency 64", "raw latency 64")
		line("rate 64 B, burst 32, M/s", "pmx rate 64", "floor rate 64")
		line("same, raw frames as long", "pmx rate 64", "raw rate 64")
		line("bandwidth 8 KiB, Gb/s", "pmx bandwidth 8192", "floor bandwidth 9000")
		line("same, raw frames as long", "pmx bandwidth 8192", "raw bandwidth 8192")
		line("same, written and read in place", "in place bandwidth 8192", "raw bandwidth 8192")
		line("bandwidth 1 MiB, Gb/s", "pmx bandwidth 1048576", "floor bandwidth 9000")
		line("1 MiB, raw in whole messages", "pmx bandwidth 1048576", "floor messages 1048576")
		line("same, written and read in place", "in place bandwidth 1048576", "floor messages 1048576")
	}' "$work/rows"
lines_print
