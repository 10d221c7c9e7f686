#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Tables by size and column, with medians and extremes, of a file of rows: a column's name, then a line of pmx-perf's --json."""
import json
import statistics
import sys

cells, columns = {}, []
for line in open(sys.argv[1]):
    column, row = line.split(" ", 1)
    r = json.loads(row)
    if r["what"] == "plain":  # stands beside the matched ones, and again in a test of its own
        continue
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
