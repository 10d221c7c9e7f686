#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Instructions per 64-byte message, by callgrind: test/bench/instructions.sh [--json]
# Counts repeat exactly for one binary; they say nothing of cache misses. Built by the
# defaults, x86-64-v2, in build-callgrind/.
set -u
cd "$(dirname "$0")/../.."
build=build-callgrind
[ -d $build ] || meson setup $build >/dev/null || exit 1
meson configure -Dmachine=auto $build || exit 1
ninja -C $build test/instructions >/dev/null || exit 1
bursts=1000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

count() # MESSAGE_LEN CONFIG_LINES -> lines "function instructions-per-message"
{
	valgrind --tool=callgrind --callgrind-out-file="$work/out" --dump-instr=no \
		"$build/test/instructions" $bursts "$1" "$2" >"$work/log" 2>&1 ||
		{ cat "$work/log" >&2; return 1; }
	callgrind_annotate --inclusive=yes --threshold=100 "$work/out" 2>/dev/null |
		awk -v n=$((bursts * 32)) '/bench_(client|engine)_[a-z]+/ {
			gsub(",", "", $1); match($0, /bench_[a-z_]+/)
			name = substr($0, RSTART, RLENGTH)
			if (!(name in seen)) { seen[name] = 1; printf "%s %.1f\n", name, $1 / n } }'
}

report() # TITLE MESSAGE_LEN CONFIG_LINES
{
	count "$2" "$3" >"$work/rows" || exit 1
	awk -v title="$1" -v json="${json:-0}" '
		{ v[$1] = $2 }
		END {
			send = v["bench_client_send"] + v["bench_engine_send"] + v["bench_engine_ack"]
			recv = v["bench_engine_receive"] + v["bench_client_receive"]
			if (json) {
				printf "{\"case\": \"%s\", \"client_send\": %.1f, \"engine_send\": %.1f, \"engine_ack\": %.1f, \"engine_receive\": %.1f, \"client_receive\": %.1f, \"send\": %.1f, \"receive\": %.1f}\n",
					title, v["bench_client_send"], v["bench_engine_send"], v["bench_engine_ack"], v["bench_engine_receive"], v["bench_client_receive"], send, recv
			} else
				printf "%-34s %8.1f %8.1f %8.1f %8.1f | %8.1f %8.1f %8.1f\n", title,
					v["bench_client_send"], v["bench_engine_send"], v["bench_engine_ack"], send,
					v["bench_engine_receive"], v["bench_client_receive"], recv
		}' "$work/rows"
}

[ "${1:-}" = --json ] && json=1
[ "${json:-0}" = 1 ] || printf '%-34s %8s %8s %8s %8s | %8s %8s %8s\n' "instructions per message" \
	client engine "ack" "= send" engine client "= receive"
report "64 B, entry 64 (bulk mbuf)" 64 ""
report "64 B, entry 128 (in the entry)" 64 "lhs_entry_bytes = 128
lhs_split = 104"
report "32 B, entry 64 (in the entry)" 32 ""
