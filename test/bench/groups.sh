#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Groups between two embedded nodes over net_memif, a core each, spinning: a barrier, locks, regions of two members; a barrier
# and a lock of eight, and multicasts by the network and by a list, beside round trips and pushes; and, in turns with them, locks
# and barriers of Open SHMEM (shmem_lock.c; Debian's liboshmem, from openmpi-bin and libopenmpi-dev) between two processes, a
# core each, by shared memory and by TCP, and between four and eight on the two cores. Root, hugepages.
# usage: groups.sh BUILD_DIR [REPETITIONS]
set -u
build=$(realpath "${1:?usage: groups.sh BUILD_DIR [REPETITIONS]}")
here=$(cd "$(dirname "$0")" && pwd)
perf=$build/app/pmx-perf
times=${2:-5}
work=$(mktemp -d)
. "$here/turns.bash"
. "$here/memif.bash"
export RUNTIME_DIRECTORY=$work
trap 'rm -rf "$work"' EXIT
shmem=$work/shmem_lock
command -v oshcc >/dev/null && oshcc -O3 "$here/shmem_lock.c" -o "$shmem" 2>"$work/log" ||
	echo "no Open SHMEM here: apt-get install openmpi-bin libopenmpi-dev" >&2

# rows LABEL COMMAND: lines "KEY MICROSECONDS"
rows() {
	pair "respond --embedded $work/1.ini" "$2 --embedded $work/0.ini --json" |
		sed -n 's/^{"what": "\([^"]*\)".*"size": \([0-9]*\),.*"p50_ns": \([0-9]*\).*/\1 \2 \3/p' |
		awk -v label="$1" '{ us = $NF / 1000; size = $(NF - 1); NF -= 2; print label ";" $0 ";" size ";" us }'
}

# shmem_rows PROCESSES TRANSPORT COUNT; the program may fail at its end, in Debian's library
shmem_rows() {
	[ -x "$shmem" ] || return
	UCX_TLS=$2,self timeout 60 oshrun --allow-run-as-root --oversubscribe -n "$1" -x UCX_TLS \
		$([ "$1" -gt 2 ] || echo --bind-to core) "$shmem" "$3" 2>/dev/null |
		sed -n "s/^shmem \([0-9]*\) barrier \([0-9]*\) free \([0-9]*\) hand-over \([0-9]*\)/shmem \1, $2;barrier;0;\2\nshmem \1, $2;free lock;0;\3\nshmem \1, $2;hand-over;0;\4/p" |
		awk -F';' -v OFS=';' '{ $4 /= 1000; print }'
}

turn() {
	nodes bg "multicast = list"
	rows pmx "group --rounds 5000"
	rows list "multicast --rounds 5000"
	nodes bg "multicast = network"
	rows network "multicast --rounds 5000"
	shmem_rows 2 sm 5000
	shmem_rows 2 tcp 500
	shmem_rows 4 sm 200
	shmem_rows 8 sm 100
}

turns "$times" turn >"$work/rows"
awk -F';' '
	{ key = $1 ";" $2 ";" $3; if (!(key in n)) order[++keys] = key; x[key, ++n[key]] = $4 + 0
	  if ($2 == "round trip") trips[$1] = key }
	function median(key,   i, j, t, c) {
		c = n[key]
		for (i = 1; i <= c; i++) v[i] = x[key, i]
		for (i = 1; i <= c; i++) for (j = i + 1; j <= c; j++) if (v[j] < v[i]) { t = v[i]; v[i] = v[j]; v[j] = t }
		low = v[1]; high = v[c]
		return c ? v[int((c + 1) / 2)] : 0
	}
	END {
		printf "%-14s %-15s %8s %10s %20s %12s\n", "", "", "bytes", "us", "least to most", "round trips"
		for (k = 1; k <= keys; k++) {
			split(order[k], part, ";")
			trip = part[1] in trips ? median(trips[part[1]]) : 0
			m = median(order[k])
			printf "%-14s %-15s %8s %10.2f %20s %12s\n", part[1], part[2], part[3], m, sprintf("%.2f to %.2f", low, high), trip ? sprintf("%.2f", m / trip) : "-"
		}
	}' "$work/rows"
lines_print
