#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The full shape on two cores: two primaries joined by memif, an application attached to each, all
# yielding; in turns with the same shape without protocol (bare_shape). 64 B round trips. Root,
# hugepages.
# usage: shape.sh BUILD_DIR [REPETITIONS]
set -u
times=${2:-6}
. "$(dirname "$0")/../system/common.bash"
perf=$build/app/pmx-perf
work=$dir
. "$(dirname "$0")/turns.bash"
rounds=(--rounds 30000 --warmup 3000)

for i in 0 1; do
	sed "s/^name = pmx$i\$/name = $tag$i/" \
		"$(dirname "$0")/../../dpdk-config/examples/memif-node$i.ini" >"$dir/$i.ini"
done

pmx() { # prints a JSON row
	local roles=(server client) i primaries=() respond
	local vdev=socket=$dir/memif.sock,socket-abstract=no,bsize=9216
	for i in 0 1; do
		primary "$i" --lcores "0@$i" -m 256 "--vdev=net_memif0,role=${roles[i]},id=0,$vdev" || return 1
		primaries+=("$last")
	done
	start "$dir/respond.log" "$perf" respond --instance "${tag}1" --cpu 1
	respond=$last
	timeout 60 "$perf" latency --instance "${tag}0" --cpu 0 --sizes 64 "${rounds[@]}" --json 2>"$dir/pmx.log" |
		tee -a "${BENCH_ROWS:-/dev/null}" # for compare.sh
	wait "$respond"
	end "${primaries[1]}"
	end "${primaries[0]}"
	rm -f "$dir/memif.sock"
}

us() { sed -n 's/.*"p50_ns": *\([0-9]*\).*"p99_ns": *\([0-9]*\).*/\1 \2/p'; }

turn() {
	local bare full
	bare=$("$build/test/bare_shape" run "${rounds[@]}" --json | us)
	full=$(pmx | us)
	echo "$bare $full"
	echo "$bare $full" | awk '{printf "%6.2f / %5.2f %6.2f / %5.2f %8.2f\n", $1 / 1000, $2 / 1000, $3 / 1000, $4 / 1000, $3 / $1}' >&2
}

printf '%14s %14s %8s\n' "bare p50 / p99" "pmx p50 / p99" ratio >&2
turns "$times" turn | awk '
	{ r[NR] = $3 / $1 }
	END {
		for (i = 1; i <= NR; i++) for (j = i + 1; j <= NR; j++) if (r[j] < r[i]) { t = r[i]; r[i] = r[j]; r[j] = t }
		if (NR) printf "median of the ratios %.2f, %.2f to %.2f\n", (r[int((NR + 1) / 2)] + r[int(NR / 2) + 1]) / 2, r[1], r[NR]
	}'
lines_print
