#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# The benches memif, shape, remote and matching of two builds in turns, old, new, old, new: of each figure the medians, and the
# median of the rounds' ratios new / old with its quartiles and range. Root, hugepages; a round takes some minutes.
# usage: compare.sh [--json] OLD_BUILD NEW_BUILD [ROUNDS [BENCH...]]
#   ROUNDS: 10; BENCH: memif shape remote matching; all if none is given
# The builds may be of different commits: only their programs are used, and the benches' scripts of this tree.
# "us" is better if less, "Gb/s" and "M/s" if more. floor is the raw link, in which both builds are the same: how far it is from
# 1 is what the machine did meanwhile.
set -u
usage() { sed -n '3,9s/^# //p' "$0" >&2; exit 2; }
json=0
[ "${1:-}" != --json ] || { json=1; shift; }
[ $# -ge 2 ] || usage
here=$(cd "$(dirname "$0")" && pwd)
old=$(realpath -e "$1") && new=$(realpath -e "$2") || exit 2
rounds=${3:-10}
case $rounds in *[!0-9]* | '') usage ;; esac
shift $(($# < 3 ? $# : 3))
benches=(${*:-memif shape remote matching})
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

one() { # BENCH BUILD ROWS
	case $1 in
	matching) BENCH_ROWS=$3 "$here/matching.sh" "$2" 1 "" matched ;;
	memif | remote | shape) BENCH_ROWS=$3 "$here/$1.sh" "$2" 1 ;;
	*) echo "compare.sh: no bench $1" >&2; return 2 ;;
	esac >"$work/out" 2>&1 || { cat "$work/out" >&2; return 1; }
}

# lines "BENCH ROUND WHICH UNIT VALUE WHAT TEST SIZE" of rows of JSON
figures() { # BENCH ROUND WHICH
	awk -v head="$1 $2 $3" '
		function field(name) { if (!match($0, "\"" name "\": *\"?[^,\"}]+")) return ""; v = substr($0, RSTART, RLENGTH); sub(/.*: *"?/, "", v); return v }
		/"what"/ {
			unit = ""
			if (field("test") == "rate") { unit = "M/s"; value = field("per_second") / 1e6 }
			else if (field("gbits") + 0 > 0) { unit = "Gb/s"; value = field("gbits") + 0 }
			else if (field("p50_ns") + 0 > 0) { unit = "us"; value = field("p50_ns") / 1000 }
			if (unit != "" && value > 0) print head, unit, value, field("what"), field("test"), field("size")
		}' "$work/rows"
}

for ((round = 1; round <= rounds; round++)); do
	for bench in "${benches[@]}"; do
		for which in old new; do
			: >"$work/rows"
			one "$bench" "${!which}" "$work/rows" || exit 1
			figures "$bench" "$round" "$which" >>"$work/figures"
		done
	done
	[ "$json" = 1 ] || echo "round $round of $rounds" >&2
done

awk -v json="$json" '
	{
		key = $1 " " $6 " " $7 " " $8
		if (!(key in unit)) { keys[++n] = key; unit[key] = $4 }
		x[key, $2, $3] = $5
		if ($2 > rounds) rounds = $2
	}
	function sort(v, c,   i, j, t) { for (i = 2; i <= c; i++) { t = v[i]; for (j = i - 1; j >= 1 && v[j] > t; j--) v[j + 1] = v[j]; v[j + 1] = t } }
	function at(v, c, part,   p, i) { p = 1 + (c - 1) * part; i = int(p); return i >= c ? v[c] : v[i] + (p - i) * (v[i + 1] - v[i]) }
	END {
		if (!json) printf "%-40s %-5s %9s %9s %8s %15s %15s\n", "median of rounds", "", "old", "new", "new/old", "quartiles", "range"
		for (k = 1; k <= n; k++) {
			key = keys[k]; c = 0
			for (i = 1; i <= rounds; i++) if (((key, i, "old") in x) && ((key, i, "new") in x)) {
				c++; o[c] = x[key, i, "old"]; w[c] = x[key, i, "new"]; r[c] = w[c] / o[c]
			}
			if (c == 0) continue
			sort(o, c); sort(w, c); sort(r, c)
			if (json) printf "{\"figure\": \"%s\", \"unit\": \"%s\", \"rounds\": %d, \"old\": %.4f, \"new\": %.4f, \"ratio\": %.4f, \"q1\": %.4f, \"q3\": %.4f, \"min\": %.4f, \"max\": %.4f}\n",
				key, unit[key], c, at(o, c, 0.5), at(w, c, 0.5), at(r, c, 0.5), at(r, c, 0.25), at(r, c, 0.75), r[1], r[c]
			else printf "%-40s %-5s %9.2f %9.2f %8.3f %7.3f-%-7.3f %7.3f-%-7.3f\n", key, unit[key], at(o, c, 0.5), at(w, c, 0.5),
				at(r, c, 0.5), at(r, c, 0.25), at(r, c, 0.75), r[1], r[c]
		}
	}' "$work/figures"
