#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Instructions per message or transfer, by callgrind. Counts repeat for one binary; they say nothing of cache misses.
# usage: instructions.sh [--json] [BUILD [BUILD_NEW]]
#   without BUILD: the defaults (x86-64-v2), built in build-callgrind/
#   with two: each figure of both, and new / old
#   BUILD may be a file that --json wrote: what was counted then
# --json prints a line a case; of two builds: a line a figure.
# "send" is all of node 0, which sends, pushes or pulls; "receive" all of node 1.
set -u
json=0
bursts=1000
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
builds=()
for argument; do
	case $argument in
	--json) json=1 ;;
	-*) sed -n '4,9s/^# //p' "$0" >&2; exit 2 ;;
	*) builds+=("$(realpath "$argument")") || exit 2 ;;
	esac
done
[ ${#builds[@]} -le 2 ] || { sed -n '4,9s/^# //p' "$0" >&2; exit 2; }
if [ ${#builds[@]} -eq 0 ]; then
	cd "$(dirname "$0")/../.." || exit 2
	builds=("$PWD/build-callgrind")
	[ -d "${builds[0]}" ] || meson setup "${builds[0]}" >/dev/null || exit 1
	meson configure -Dmachine=auto "${builds[0]}" || exit 1
	ninja -C "${builds[0]}" test/instructions >/dev/null || exit 1
fi

count() # BUILD MESSAGES ARGUMENTS... -> lines "function instructions-per-message"
{
	local build=$1 messages=$2
	shift 2
	valgrind --tool=callgrind --callgrind-out-file="$work/out" --dump-instr=no \
		"$build/test/instructions" "$bursts" "$@" >"$work/log" 2>&1 ||
		{ cat "$work/log" >&2; return 1; }
	callgrind_annotate --inclusive=yes --threshold=100 "$work/out" 2>/dev/null |
		awk -v n="$messages" '/bench_[a-z]+_[a-z]+/ {
			gsub(",", "", $1); match($0, /bench_[a-z_]+/)
			name = substr($0, RSTART + 6, RLENGTH - 6);
			sub(/_(matched|push|pull)$/, "", name)
			if (!(name in seen)) { seen[name] = 1; printf "%s %.1f\n", name, $1 / n } }'
}

one() # BUILD TITLE MESSAGES_A_BURST ARGUMENTS...: a line of JSON
{
	local build=$1 title=$2 messages=$(($3 * bursts))
	shift 3
	count "$build" "$messages" "$@" >"$work/rows" || exit 1
	awk -v title="$title" '
		{ v[$1] = $2 }
		function figure(name) { printf ", \"%s\": %.1f", name, v[name] }
		END {
			printf "{\"case\": \"%s\"", title
			if ("matched_ping" in v) {
				figure("plain_ping"); figure("matched_ping")
			} else {
				v["send"] = v["client_send"] + v["client_done"] + v["engine_send"] + v["engine_ack"]
				v["receive"] = v["client_post"] + v["engine_receive"] + v["client_receive"]
				n = split("client_send engine_send engine_ack client_done send client_post engine_receive client_receive receive", names)
				for (i = 1; i <= n; i++) figure(names[i])
			}
			print "}"
		}' "$work/rows"
}

all() # BUILD_OR_FILE: a line of JSON a case
{
	local in_entry='lhs_entry_bytes = 128
lhs_split = 104'
	if [ -f "$1" ]; then
		grep '^{"case": ' "$1"
		return
	fi
	one "$1" "64 B, entry 64 (bulk mbuf)" 32 64 ""
	one "$1" "64 B, entry 128 (in the entry)" 32 64 "$in_entry"
	one "$1" "32 B, entry 64 (in the entry)" 32 32 ""
	one "$1" "8 B matched, by the client" 32 8 "" matched client
	one "$1" "8 B matched, by the engine" 32 8 "" matched engine
	one "$1" "1000 B matched, by the client" 32 1000 "" matched client
	one "$1" "1000 B matched, by the engine" 32 1000 "" matched engine
	one "$1" "push of 64 B" 32 64 "" push
	one "$1" "push of 32 KiB" 1 32768 "" push
	one "$1" "pull of 64 B" 32 64 "" pull
	one "$1" "pull of 32 KiB" 1 32768 "" pull
	one "$1" "round trip, 8 B, client" 1 8 "" ping client
	one "$1" "round trip, 8 B, engine" 1 8 "" ping engine
}

# lines "case|figure|value"
flat='{
	match($0, /"case": "[^"]*"/); title = substr($0, RSTART + 9, RLENGTH - 10); rest = substr($0, RSTART + RLENGTH)
	while (match(rest, /"[a-z_]+": [0-9.]+/)) {
		pair = substr(rest, RSTART, RLENGTH); rest = substr(rest, RSTART + RLENGTH)
		split(pair, half, "\": "); print title "|" substr(half[1], 2) "|" half[2]
	}
}'

for i in "${!builds[@]}"; do
	(all "${builds[i]}") >"$work/$i.json" || exit 1
	awk "$flat" "$work/$i.json" >"$work/$i.flat"
done
if [ ${#builds[@]} -eq 2 ]; then
	awk -F'|' -v json="$json" '
		FILENAME == ARGV[1] { old[$1 "|" $2] = $3; next }
		!(($1 "|" $2) in old) || (old[$1 "|" $2] == 0 && $3 == 0) { next }
		json { printf "{\"case\": \"%s\", \"figure\": \"%s\", \"old\": %.1f, \"new\": %.1f}\n", $1, $2, old[$1 "|" $2], $3; next }
		!header++ { printf "%-34s %-15s %10s %10s %8s\n", "instructions per message", "", "old", "new", "new/old" }
		{ o = old[$1 "|" $2]; printf "%-34s %-15s %10.1f %10.1f %8s\n", $1 == was ? "" : $1, $2, o, $3, o ? sprintf("%.4f", $3 / o) : "-"; was = $1 }
	' "$work/0.flat" "$work/1.flat"
elif [ "$json" = 1 ]; then
	cat "$work/0.json"
else
	awk -F'|' '
		{ v[$1, $2] = $3; if (!($1 in seen)) { seen[$1] = 1; titles[++n] = $1 } }
		function row(t, names,   i, c, k) { c = split(names, k); for (i = 1; i <= c; i++) printf " %9.1f", v[t, k[i]] }
		END {
			printf "%-32s %9s %9s %9s %9s %9s | %9s %9s %9s %9s\n", "instructions per message", "client", "engine", "ack", "done", "= send", "post", "engine", "client", "= receive"
			for (i = 1; i <= n; i++) {
				t = titles[i]
				if ((t, "matched_ping") in v) { printf "%-32s plain %.1f, matched %.1f\n", t, v[t, "plain_ping"], v[t, "matched_ping"]; continue }
				printf "%-32s", t
				row(t, "client_send engine_send engine_ack client_done send"); printf " |"
				row(t, "client_post engine_receive client_receive receive"); printf "\n"
			}
		}' "$work/0.flat"
fi
