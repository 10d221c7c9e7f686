#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: ctl.sh BUILD_DIR
# pmx-ctl against a running primary, a stopped one and a killed one: every command as table and as
# JSON, errors and exit codes. One line a check, "ok NAME" or "not ok NAME"; exit code 0 if all
# passed.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages ctl 64
in_own_place "$@"
dpdk=$build/app/pmx-dpdk
ctl=$build/app/pmx-ctl
name=$tag

# check NAME COMMAND...: passes if COMMAND does
check() {
	local what=$1
	shift
	if "$@" >"$dir/check" 2>&1; then
		echo "ok $what"
	else
		echo "not ok $what"
		tail -20 "$dir/check" | sed 's/^/# /'
		failed=1
	fi
}

# says CODE PATTERN ARGUMENTS...: pmx-ctl ends with CODE, and its output, or for an error what it
# says on stderr, has PATTERN
says() {
	local code=$1 pattern=$2 got
	shift 2
	"$ctl" "$@" >"$dir/out" 2>"$dir/err"
	got=$?
	cat "$dir/out" "$dir/err"
	[ $got -eq "$code" ] || { echo "exit code $got, not $code"; return 1; }
	if [ "$code" -eq 0 ]; then
		grep -qE -- "$pattern" "$dir/out"
	else
		grep -qE -- "$pattern" "$dir/err" && [ ! -s "$dir/out" ]
	fi
}

# json EXPRESSION ARGUMENTS...: pmx-ctl's output is JSON, and the Python EXPRESSION of it, d, holds
json() {
	local expression=$1
	shift
	"$ctl" --json "$@" >"$dir/out" || return 1
	cat "$dir/out"
	python3 -m json.tool <"$dir/out" >/dev/null || return 1
	python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
sys.exit(not eval(sys.argv[2]))' "$dir/out" "$expression"
}

# running NAME PORT: a primary; 0 when it is ready. Its process is the last of daemons.
daemons=()
running() {
	cat >"$dir/$1.ini" <<-END
		[node]
		id = 0
		name = $1
		[engine]
		idle = sleep
		[link 0]
		driver = udp
		listen = 127.0.0.1:$2
		mtu = 1500
		[proto]
		retries = 2
		rto_max_us = 20000
		[limits]
		mbufs = 4096
		contexts = 4
		[nodes]
		0 = 127.0.0.1:$2
		1 = 127.0.0.1:$(($2 + 1))
	END
	mkfifo "$dir/$1.ready"
	"$dpdk" --no-pci -m 64 -- --ready-fd 3 "$dir/$1.ini" 3>"$dir/$1.ready" >"$dir/$1.log" 2>&1 &
	pids+=($!)
	daemons+=($!)
	read -r -t 20 _ <"$dir/$1.ready" || { cat "$dir/$1.log"; return 1; }
}

watch_table() {
	local code=0 watching
	"$ctl" stat --watch 0.3 >"$dir/out" &
	watching=$!
	pids+=($watching)
	wait_for 60 grep -q 'a second' "$dir/out" && wait_for 60 grep -q 'mbufs free' "$dir/out" && kill -0 $watching || code=1
	end $watching
	return $code
}

watch_json() {
	timeout 60 "$ctl" --json stat --watch 0.3 | head -n 3 >"$dir/out"
	[ "$(wc -l <"$dir/out")" -eq 3 ] && head -1 "$dir/out" | python3 -m json.tool >/dev/null
}

# frames that no node sent: one too short, one of no version
send_junk() {
	python3 -c 'import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for frame in (b"x", b"y" * 200):
    s.sendto(frame, ("127.0.0.1", int(sys.argv[1])))' "$port"
	wait_for 60 both_are_counted
}
both_are_counted() { [ "$("$ctl" --json drops | grep -oE '"drop_(short|version)"' | sort -u | wc -l)" -eq 2 ]; }

aligned() {
	"$ctl" stat --all | awk '/^polls /{a = index($0, "polls ")} /  (lcores|bytes) /{n++}
		/[ \t]$/{bad = 1} END {exit n < 2 || bad}'
}

doctor_lines() {
	"$ctl" doctor >"$dir/out"
	cat "$dir/out"
	grep -qE '^(ok|warn|FAIL) +hugepages' "$dir/out" && grep -qE '^[0-9]+ ok, ' "$dir/out"
}

# ------------------------------------------------------------------ nothing runs
check help says 0 '^Usage: pmx-ctl' --help
check version says 0 '^pmx-ctl [0-9]+\.[0-9]+' --version
check usage_no_command says 2 'Usage'
check usage_unknown_command says 2 "'nonsense'.*there are stat" nonsense
check usage_watch says 2 "'0'.*seconds" stat --watch 0
check usage_all_of_contexts says 2 'option of stat and peers' contexts --all
check none_runs says 1 "no primary runs.*$RUNTIME_DIRECTORY" stat
check doctor__without_primary doctor_lines
check doctor__mount_over_another unshare --mount sh -c "mount -t hugetlbfs -o pagesize=2M over /dev/hugepages && '$ctl' doctor >'$dir/out'; cat '$dir/out'
	[ \"\$(grep -c '^[a-z]* *hugepage mount .*/dev/hugepages,' '$dir/out')\" = 1 ]"
check doctor__without_primary_json json '{"check", "state", "found", "mend"} == set(d[0])' doctor

# ------------------------------------------------------------------ one runs
check start running "${name}a" "$port"
check stat says 0 '^link_up +1 ' stat
check stat__zeros_hidden bash -c "! '$ctl' stat | grep -q '^drop_'"
check stat__all says 0 '^drop_checksum +0 +frames +with a wrong checksum' stat --all
check stat__aligned aligned
check stat__json json 'd["info"]["lanes"] == 1 and all(c["unit"] for c in d["counters"])' stat
check stat__all_have_meanings json \
	'not any("this pmx-ctl" in c["meaning"] for c in d["counters"])' stat
check stat__watch watch_table
check stat__watch_json watch_json
check peers says 0 '^ *1  unused +127\.0\.0\.1:[0-9]+ ' peers
check peers__json json '[p["node"] for p in d] == [1]' peers
check contexts says 0 'no context is open' contexts
check contexts__json json 'd == []' contexts
check memory says 0 'no context is open' memory
check memory__json json 'd == {"contexts": [], "regions": []}' memory
check groups says 0 'no context is in a group' groups
check groups__json json 'd == []' groups
plan=(plan --topology "$(dirname "$0")/../sim/two_switches")
check plan says 0 '^permits .* no +taken' "${plan[@]}" --kind gather --size 64K
check plan__steps says 0 '^ +[0-9]+ +receive +[ab][0-9] .*when permitted' "${plan[@]}" --kind bcast --size 64K --steps b3
check plan__ranks_per_host says 0 '^gather of 65536 bytes, 16 ranks, root b0: ' "${plan[@]}" --kind gather --size 64K --ranks-per-host 2 --root b0
check plan__ranks_per_host_steps says 0 'rank 9 .b0.; ' "${plan[@]}" --kind bcast --size 64K --ranks-per-host 2 --steps 9
check plan__bad_ranks_per_host says 2 "--ranks-per-host '0': 1 or more" "${plan[@]}" --kind gather --ranks-per-host 0
check plan__root says 0 'root b1:' "${plan[@]}" --kind reduce --size 1M --root b1
check plan__generator says 0 '^ring' "${plan[@]}" --kind allreduce --generator ring --size 1M
check plan__json json 'd["taken"] == "phases" and all(p["ns"] > 0 for p in d["plans"]) and d["rank"] == 2 and len(d["list"]) == 15' \
	"${plan[@]}" --kind alltoall --size 1M --steps 2
check plan__saved says 0 '^chain .* taken' "${plan[@]}" --kind bcast --size 1M --generator chain --save "$dir/saved"
check plan__read says 0 '^chain .* taken' "${plan[@]}" --plan "$dir/saved"
check plan__read_steps says 0 '^ +0 +receive ' "${plan[@]}" --plan "$dir/saved" --steps b3
sed -i '/^send/s/peer=[0-9]*/peer=999/' "$dir/saved"
check plan__read_wrong says 1 'saved: rank [0-9]+: step [0-9]+ cannot be' "${plan[@]}" --plan "$dir/saved"
check plan__read_nothing says 1 '/no/where: No such file' "${plan[@]}" --plan /no/where
check plan__saved_nowhere says 1 '/no/where: No such file' "${plan[@]}" --kind bcast --save /no/where
check plan__unknown_kind says 2 "there are gather, scatter" "${plan[@]}" --kind fly
check plan__unknown_generator says 2 "there are at_once, in_turn" "${plan[@]}" --kind gather --generator fly
check plan__wrong_generator says 1 'ring makes no plan of a gather' "${plan[@]}" --kind gather --generator ring
check plan__bad_size says 2 "--size '1T'" "${plan[@]}" --kind gather --size 1T
check plan__bad_root says 2 "neither a rank from 0 to 7 nor the name of a host" "${plan[@]}" --kind gather --root 8
gateways=$(dirname "$0")/../sim/gateways
check plan__overlay says 0 '^earliest .* taken' plan --topology "$gateways" --kind alltoall --size 64K
check plan__overlay_generator says 1 'ring makes no plan of a allgather that keeps to .* talk lines' plan --topology "$gateways" --kind allgather --generator ring
grep -v 'talk a0 b0' "$gateways" >"$dir/apart"
check plan__overlay_apart says 1 "cannot reach each other by way of others: see the talk lines of $dir/apart" plan --topology "$dir/apart" --kind gather
check plan__without_topology says 2 'needs --topology FILE' plan --kind gather
tree=(topology --topology "$(dirname "$0")/../sim/two_switches")
check topology says 0 'a0 to a3 +4 hosts, nodes 0 to 3 +1G' "${tree[@]}"
check topology__counts says 0 '^8 hosts, 2 switches; the longest way takes' "${tree[@]}"
check topology__json json 'd["hosts"] == 8 and d["switches"] == 2 and sum(r["hosts"] for r in d["tree"]) == 8 and all("at" in r for r in d["tree"][1:])' "${tree[@]}"
check topology__host_costs says 0 'h0 to h15 +16 hosts, .* 1 us, a message takes 1 us, copies at 20G' topology --topology "$(dirname "$0")/../sim/busy_hosts"
check plan__host_costs says 0 '^earliest .* taken' plan --topology "$(dirname "$0")/../sim/busy_hosts" --kind bcast --size 8
check topology__overlay says 0 '^13 of 28 pairs of hosts may connect' topology --topology "$gateways"
check topology__svg says 0 '^8 hosts' "${tree[@]}" --svg "$dir/tree.svg"
check topology__svg_is_xml python3 -c 'import sys, xml.dom.minidom as m; sys.exit(m.parse(sys.argv[1]).documentElement.tagName != "svg")' "$dir/tree.svg"
check topology__bad_svg says 1 'nowhere/tree.svg: No such file' "${tree[@]}" --svg "$dir/nowhere/tree.svg"
check topology__without_file says 2 'needs --topology FILE' topology
check plan__no_such_file says 1 'nowhere: No such file' plan --topology "$dir/nowhere" --kind gather
check drops__none says 0 '^nothing dropped' drops
send_junk
check drops says 0 '^drop_short +1 +frames +too short' drops
check drops__json json '{c["name"]: c["value"] for c in d}["drop_version"] == 1' drops
check drops__all_have_meanings json \
	'not any("this pmx-ctl" in c["meaning"] for c in d)' drops
check doctor doctor_lines
check doctor__running json \
	'any(l["check"] == "'"${name}a"': drop_short" and l["mend"] for l in d)' doctor
check doctor__peers_unused json \
	'any(l["check"] == "'"${name}a"': peers" and l["state"] == "ok" for l in d)' doctor
# nobody runs node 1
PMX_ATTACH=thin timeout 30 "$(dirname "$dpdk")/pmx-perf" latency --instance "${name}a" --to 1:1 --sizes 8 --rounds 1 >"$dir/perf.log" 2>&1
check peers__down says 0 '^ *1  down ' peers
check doctor__peer_down json \
	'any(l["check"] == "'"${name}a"': peers" and l["state"] == "warn" and "node 1" in l["found"] for l in d)' doctor
check instance__named says 0 '^payload_max' --instance "${name}a" stat
check instance__unknown says 1 "'nobody' does not run.*Running: ${name}a" --instance nobody stat
check instance__no_name says 1 "not a name" --instance ../x stat
check instance__too_long says 1 "longer than" --instance "$(printf 'n%.0s' {1..150})" stat

# ------------------------------------------------------------------ two run
check start__second running "${name}b" $((port + 2))
check instance__several says 1 "several instances run: ${name}a, ${name}b" stat
check instance__second says 0 "^name +${name}b" --instance "${name}b" stat

# ------------------------------------------------------------------ one stopped, one killed
kill -TERM "${daemons[1]}"
wait "${daemons[1]}"
check stopped says 1 "'${name}b' does not run" --instance "${name}b" stat
kill -9 "${daemons[0]}"
wait "${daemons[0]}" 2>/dev/null
check killed says 1 "'${name}a' is dead" --instance "${name}a" stat
check killed__default says 1 "no primary runs.*left behind by dead ones: ${name}a" stat
check doctor__leftovers json \
	'any("rm -r" in l["mend"] and "'"${name}a"'" in l["found"] for l in d)' doctor
check doctor__hugepages json 'any(l["check"] == "leftover hugepages" and "'"${name}a"'map_[0-9]+" in l["mend"] for l in d)' doctor
check doctor__socket json 'any(l["check"] == "leftover socket" and l["mend"] == "rm /run/pmx-dpdk/'"${name}a"'.sock" for l in d)' doctor
check doctor__dead_named bash -c "! '$ctl' --instance '${name}a' doctor"
pids=()

exit $failed
