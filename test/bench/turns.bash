# SPDX-License-Identifier: BSD-3-Clause
#
# For benches that measure by the clock with CPUs 0 and 1, and have set perf (pmx-perf) and work (a folder of their own). A
# hypervisor may move the two nearer to each other or apart while a bench runs. What a cache line takes there and back says so:
# it is measured before and behind each turn, and a turn in which it changed by more than a half does not count.

line_ns() { "$perf" floor line --cpu 0 --other 1 --json | sed -n 's/.*"p50_ns": *\([0-9]*\).*/\1/p'; }

# turns TIMES FUNCTION: calls it so many times, and prints what it printed in the turns that count.
turns() {
	local i before after
	for ((i = 0; i < $1; i++)); do
		before=$(line_ns)
		"$2" >"$work/turn"
		after=$(line_ns)
		if awk -v a="${before:-0}" -v b="${after:-0}" 'BEGIN {exit !(a <= 1.5 * b && b <= 1.5 * a)}'; then
			cat "$work/turn"
			echo "${before:-0} ${after:-0} kept" >>"$work/lines"
		else
			echo "${before:-0} ${after:-0} dropped" >>"$work/lines"
		fi
	done
}

# as COLUMN COMMAND...: its lines, each behind the column where it stands in the tables of columns.py
as() { "${@:2}" | sed "s/^/$1 /"; }

# What the line took, to stand beside each figure.
lines_print() {
	awk '{ n++; if ($3 == "dropped") d++
		for (i = 1; i <= 2; i++) { if (low == 0 || $i < low) low = $i; if ($i > high) high = $i; if ($3 == "kept") v[++c] = $i } }
		END {
			for (i = 1; i <= c; i++) for (j = i + 1; j <= c; j++) if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
			if (high == 0) { print "a cache line from CPU 0 to CPU 1 and back: this pmx-perf cannot measure it"; exit }
			printf "a cache line from CPU 0 to CPU 1 and back, ns: median %d, %d to %d; it changed in %d of %d turns, which do not count\n", v[int((c + 1) / 2)], low, high, d, n
		}' "$work/lines"
}

# awk's functions for what turns printed: field(NAME) of a line of JSON, and median(KEY) of x[KEY, 1 to n[KEY]], which also sets
# low and high.
awk_rows='
	function field(name) { match($0, "\"" name "\": \"?[^,\"}]+"); v = substr($0, RSTART, RLENGTH); sub(/.*: "?/, "", v); return v }
	function median(key,   i, j, t, c, v) {
		c = n[key]
		for (i = 1; i <= c; i++) v[i] = x[key, i]
		for (i = 1; i <= c; i++) for (j = i + 1; j <= c; j++) if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
		low = v[1]; high = v[c]
		return c ? v[int((c + 1) / 2)] : 0
	}
'
