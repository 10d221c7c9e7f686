#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Every command that draws a figure, with few rounds: it ends well, its CSV has every row and column and finite numbers, its SVG is
# well-formed and has a curve for each column. What the numbers say is for test/bench/papers.sh on a quiet machine.
# usage: figures.sh BUILD_DIR
set -u
. "$(dirname "$0")/common.bash"
need_hugepages figures 200
here=$(cd "$(dirname "$0")" && pwd)
perf=$build/app/pmx-perf
eal=(--no-huge -m 256 --no-shconf --no-pci --no-telemetry "--log-level=*:error")

# drawn NAME FILE ROWS COLUMNS [BLANK]: FILE.csv and FILE.svg; BLANK figures may be missing
drawn() {
	local name=$1
	shift
	python3 - "$@" <<'PY' >"$dir/drawn.log" 2>&1 && ok "$name" || not_ok "$name" "$*" "$dir/drawn.log"
import csv, math, sys
import xml.etree.ElementTree as xml
path, rows, columns = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
blank = int(sys.argv[4]) if len(sys.argv) > 4 else 0
table = list(csv.reader(open(path + ".csv")))
assert len(table) == rows + 1, f"{len(table) - 1} rows, not {rows}"
for line in table:
    assert len(line) == columns + 1, f"{len(line)} fields in {line}"
cells = [cell for line in table[1:] for cell in line]
assert cells.count("") <= blank, f"{cells.count('')} figures are missing"
assert all(math.isfinite(float(cell)) for cell in cells if cell), "a figure that is no number"
svg = xml.parse(path + ".svg").getroot()
curves = svg.findall("{http://www.w3.org/2000/svg}polyline")
assert len(curves) == columns, f"{len(curves)} curves"
points = [float(v) for c in curves for p in c.get("points").split() for v in p.split(",")]
assert len(points) == 2 * (rows * columns - cells.count("")) and all(0 <= v <= 760 for v in points), "points off the paper"
for text in svg.iter("{http://www.w3.org/2000/svg}text"):
    assert "nan" not in text.text and "inf" not in text.text, text.text
PY
}

# ------------------------------------------------------------------ the source papers'

papers() { # FIGURE REPETITIONS
	IDLE=yield MEMORY=192 ROUNDS=50 SECONDS_EACH=0.1 DEPTHS=1,8,300 SIZES=4,1400,8192 COPY_BYTES=100000 \
		"$here/../bench/papers.sh" "$build" "$dir/papers" "$2" "$1" >"$dir/papers-$1.log" 2>&1 &&
		ok "papers.sh $1" || not_ok "papers.sh $1" "exit code $?" "$dir/papers-$1.log"
}
papers pmudp 1
drawn "PM/UDP figure 3" "$dir/papers/pmudp/round_trip" 3 4
drawn "PM/UDP figure 4" "$dir/papers/pmudp/bandwidth" 3 4
papers split 1
drawn "LHS, with and without the split" "$dir/papers/split/round_trip" 3 3
papers search 1
# draining is not timed where filling took long
drawn "LHS figure 6" "$dir/papers/unexpected" 3 12 6
papers copies 1
drawn "pin-down cache figure 2" "$dir/papers/copies" 3 2
papers copy 1
drawn "pin-down cache table 1" "$dir/papers/copy" 10 10

# ------------------------------------------------------------------ others

for i in 0 1; do
	printf '[node]\nid = %s\nname = %s%s\n[link 0]\ndriver = udp\nlisten = 127.0.0.1:%s\n[limits]\ncontexts = 4\nmbufs = 8192\n[nodes]\n0 = 127.0.0.1:%s\n1 = 127.0.0.1:%s\n' \
		"$i" "$tag" "$i" $((port + i)) "$port" $((port + 1)) >"$dir/$i.ini"
done
pair() { # ARGUMENTS...
	local code=0 pid
	timeout 100 "$perf" respond --idle yield --embedded "$dir/1.ini" -- "${eal[@]}" --file-prefix "${tag}1" >"$dir/1.log" 2>&1 &
	pid=$!
	pids+=("$pid")
	timeout 100 "$perf" "$@" --idle yield --figure "$dir/figures" --embedded "$dir/0.ini" -- "${eal[@]}" --file-prefix "${tag}0" ||
		code=$?
	end "$pid"
	return $code
}
passes "push --figure" pair push --seconds 0.01
drawn "push by hit ratio" "$dir/figures/push" 9 5
passes "overlap --figure" pair overlap --sizes 64,4096
drawn "overlap" "$dir/figures/overlap" 2 2
passes "idle --figure" timeout 60 "$perf" idle --seconds 0.02 --figure "$dir/figures" -- "${eal[@]}" --file-prefix "${tag}i"
drawn "idle policies: round trip" "$dir/figures/idle_round_trip" 6 5
drawn "idle policies: CPU" "$dir/figures/idle_cpu" 6 5

# one size, one row: an axis without a length; names that XML and CSV have their own use for
printf '{"what": "pmx", "test": "latency", "size": 8, "p50_ns": 1000, "p99_ns": 2000}\n' >"$dir/one.json"
passes "report --figure" "$perf" report 'a < b & "c", d'="$dir/one.json" --figure "$dir/report"
drawn "one point" "$dir/report/round_trip" 1 1

exit $failed
