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
eal="--no-pci --in-memory -m 256 --no-telemetry --log-level=*:error"

for i in 0 1; do
	printf '[node]\nid = %s\nname = bm%s\n[engine]\nidle = spin\n[link 0]\ndriver = ethdev\nport = net_memif0\nmtu = 9000\n[limits]\nmbufs = 8192\ncontexts = 4\n[nodes]\n0 = auto\n1 = auto\n' \
		$i $i >"$work/$i.ini"
done

pair() # RESPONDER_ARGS -- INITIATOR_ARGS
{
	local vdev=socket=$work/memif.sock,socket-abstract=no,bsize=9216
	rm -f "$work/memif.sock"
	taskset -c 1 timeout 60 "$perf" $1 -- -l 1 $eal --file-prefix bm1 \
		--vdev=net_memif0,role=server,id=0,$vdev >"$work/1.log" 2>&1 &
	local pid=$!
	sleep 1
	taskset -c 0 timeout 60 "$perf" $2 --json -- -l 0 $eal --file-prefix bm0 \
		--vdev=net_memif0,role=client,id=0,$vdev 2>"$work/0.log" | grep '"what"' ||
		cat "$work/0.log" "$work/1.log" >&2
	wait $pid
}

turn()
{
	pair "floor --respond --idle spin" "floor --idle spin --rounds 10000 --warmup 1000 --seconds 0.2"
	pair "floor --respond --idle spin" "floor --idle spin --rounds 10000 --warmup 1000 --seconds 0.2 --sizes 32,64,8192,1048576"
	pair "respond --embedded $work/1.ini" \
		"all --embedded $work/0.ini --sizes 32,64,8192,1048576 --rounds 10000 --warmup 1000 --seconds 0.2"
	pair "respond --embedded $work/1.ini" \
		"bandwidth --in-place --embedded $work/0.ini --sizes 8192,1048576 --seconds 0.2"
}

turns "$times" turn >"$work/rows"
[ -z "${BENCH_ROWS:-}" ] || cat "$work/rows" >>"$BENCH_ROWS" # for compare.sh

awk '
	function field(name) { match($0, "\"" name "\": \"?[^,\"}]+"); v = substr($0, RSTART, RLENGTH); sub(/.*: "?/, "", v); return v }
	{
		key = field("what") " " field("test") " " field("size")
		value = field("test") == "latency" ? field("p50_ns") / 1000 : field("test") == "rate" ? field("per_second") / 1e6 : field("gbits")
		n[key]++; x[key, n[key]] = value + 0
	}
	function median(key,   i, j, t, c, v) {
		c = n[key]
		for (i = 1; i <= c; i++) v[i] = x[key, i]
		for (i = 1; i <= c; i++) for (j = i + 1; j <= c; j++) if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
		low = v[1]; high = v[c]
		return c ? v[int((c + 1) / 2)] : 0
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
