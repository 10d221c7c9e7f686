#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Remote memory between two embedded nodes over net_memif, a core each, spinning, in turns with the raw
# link: pages, push and pull bandwidth by method, and their ratios. Root, hugepages.
# usage: remote.sh BUILD_DIR [REPETITIONS] [FIGURE_DIR]
set -u
perf=$(realpath "${1:?usage: remote.sh BUILD_DIR [REPETITIONS] [FIGURE_DIR]}")/app/pmx-perf
times=${2:-5}
figure=${3:-}
work=$(mktemp -d)
. "$(dirname "$0")/turns.bash"
export RUNTIME_DIRECTORY=$work
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/memif.bash"
nodes br

rows() # LABEL RESPONDER_ARGS INITIATOR_ARGS
{
	pair "$2" "$3 --json" | sed -n "s/^{\"what\": \"/{\"what\": \"$1/p"
}

respond="respond --embedded $work/1.ini"
initiate="--embedded $work/0.ini --seconds 0.5"
turn()
{
	rows "" "floor --respond --idle spin" "floor --idle spin --rounds 10000 --seconds 0.5"
	rows "" "$respond" "page $initiate --rounds 30000"
	for verb in push pull; do
		rows "ss-" "$respond" "$verb $initiate --sizes 4096,65536,1048576"
		rows "sp-" "$respond" "$verb $initiate --sizes 1048576 --remote private"
		rows "ps-" "$respond" "$verb $initiate --sizes 1048576 --local private"
		rows "pp-" "$respond" "$verb $initiate --sizes 1048576 --local private --remote private"
	done
	rows "" "$respond" "bandwidth $initiate --sizes 1048576"
}

turns "$times" turn >"$work/rows"
[ -z "${BENCH_ROWS:-}" ] || cat "$work/rows" >>"$BENCH_ROWS" # for compare.sh

awk "$awk_rows"'
	{
		key = field("what") " " field("test") " " field("size")
		value = field("test") == "latency" ? field("p50_ns") / 1000 : field("gbits")
		n[key]++; x[key, n[key]] = value + 0
	}
	function line(title, a, b,   ma, mb, s) {
		ma = median(a); s = sprintf("%.2f-%.2f", low, high)
		mb = median(b)
		printf "%-40s %8.2f %14s %9.2f %6.2f-%-6.2f %7.2f\n", title, ma, s, mb, low, high, mb ? ma / mb : 0
	}
	END {
		printf "%-40s %8s %14s %9s %13s %7s\n", "median of repetitions", "pmx", "(range)", "other", "(range)", "ratio"
		line("4 KiB page: pull, by messages; us", "pull latency 4096", "copied latency 4096")
		line("4 KiB page: pull, raw 64 B there, 4 KiB back", "pull latency 4096", "fetch latency 4096")
		split("push pull", verbs)
		for (k = 1; k <= 2; k++) {
			w = verbs[k]
			line(w " 4 KiB, raw link; Gb/s", "ss-" w " bandwidth 4096", "floor bandwidth 9000")
			line(w " 64 KiB, raw link", "ss-" w " bandwidth 65536", "floor bandwidth 9000")
			line(w " 1 MiB, raw link", "ss-" w " bandwidth 1048576", "floor bandwidth 9000")
			line(w " 1 MiB, shared to private", "sp-" w " bandwidth 1048576", "floor bandwidth 9000")
			line(w " 1 MiB, private to shared", "ps-" w " bandwidth 1048576", "floor bandwidth 9000")
			line(w " 1 MiB, private to private", "pp-" w " bandwidth 1048576", "floor bandwidth 9000")
		}
		line("1 MiB messages, copied at both ends", "pmx bandwidth 1048576", "floor bandwidth 9000")
		line("1 MiB push, memcpy of the same bytes", "ss-push bandwidth 1048576", "ss-memcpy bandwidth 1048576")
	}' "$work/rows"
lines_print

if [ -n "$figure" ]; then
	mkdir -p "$figure"
	for verb in push pull; do
		pair "$respond" "$verb --embedded $work/0.ini --seconds 0.1 --figure $figure"
	done
fi
