#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# pmx-perf itself: every command with few rounds and odd sizes prints JSON that a strict reader takes, figures where it
# measured and null where it did not; peers that are not there are named; --cpu means what it says; raw frames stand
# beside messages of their own size only. Embedded nodes over the kernel's UDP: no root, no hugepages.
# usage: perf.sh BUILD_DIR
set -u
. "$(dirname "$0")/common.bash"
perf=$build/app/pmx-perf
eal=(--no-huge -m 256 --no-shconf --no-pci --no-telemetry "--log-level=*:error")
few=(--rounds 5 --warmup 1 --seconds 0.01)

# config NODE [MTU]
config() {
	printf '[node]\nid = %s\nname = %s%s\n[link 0]\ndriver = udp\nlisten = 127.0.0.1:%s\nmtu = %s\n[limits]\ncontexts = 4\nmbufs = 8192\n[nodes]\n0 = 127.0.0.1:%s\n1 = 127.0.0.1:%s\n' \
		"$1" "$tag" "$1" $((port + $1)) "${2:-1500}" "$port" $((port + 1)) >"$dir/$1.ini"
}

# node NODE ARGUMENTS...: sets `command`, an embedded node's pmx-perf
node() {
	local n=$1
	shift
	command=(timeout 100 "$perf" "$@" --embedded "$dir/$n.ini" -- "${eal[@]}" --file-prefix "$tag$n")
}

alone() {
	node "$@"
	"${command[@]}"
}

# pair ARGUMENTS...: the initiator's output and exit code
pair() {
	local code
	node 1 respond --idle yield
	"${command[@]}" >"$dir/respond.log" 2>&1 &
	local pid=$!
	alone 0 "$@" --idle yield
	code=$?
	end "$pid"
	return $code
}

# strict FILE [KEY...]: lines of JSON and nothing else, neither NaN nor Infinity; each KEY has a figure in each line that has it
strict() {
	python3 - "$@" <<'PY'
import json, sys
def refuse(word):
    raise ValueError(word + " is no JSON")
lines = [json.loads(line, parse_constant=refuse) for line in open(sys.argv[1])]
assert lines, "nothing was printed"
for line in lines:
    for key in sys.argv[2:]:
        assert line.get(key, 1) is not None, f"no {key} in {line}"
    if line.get("test") == "latency":
        assert line["p50_ns"] and line["p50_ns"] <= line["p99_ns"] <= line["max_ns"], line
    figures = [v for v in line.values() if isinstance(v, (int, float))]
    assert figures, f"not one figure in {line}"
PY
}

# json NAME KEYS COMMAND...: it ends with 0 and what it prints passes strict()
json() {
	local name=$1 keys=$2 code=0
	shift 2
	"$@" >"$dir/$name.json" 2>"$dir/$name.log" || code=$?
	# shellcheck disable=SC2086
	[ $code -eq 0 ] && strict "$dir/$name.json" $keys >>"$dir/$name.log" 2>&1 && ok "$name" ||
		not_ok "$name" "exit code $code of ${*@Q}" "$dir/$name.log"
}

# refuses NAME CODE PATTERN COMMAND...: ends so, and says so
refuses() {
	local name=$1 expected=$2 pattern=$3 code=0
	shift 3
	"$@" >"$dir/$name.out" 2>"$dir/$name.log" || code=$?
	[ $code -eq "$expected" ] && grep -q -- "$pattern" "$dir/$name.log" && ok "$name" ||
		not_ok "$name" "exit code $code of ${*@Q}" "$dir/$name.log"
}

# refuses_at_once: the same of an embedded node, before its EAL begins, which would complain of an option that it does not know
refuses_at_once() {
	refuses "$@" --no-such-option-of-the-eal
	! grep -q no-such-option "$dir/$1.log" || not_ok "$1" "its EAL began" "$dir/$1.log"
}

config 0
config 1

# ------------------------------------------------------------------ JSON

# 1 MiB is more than a context of this MTU may send plain
sizes=--sizes=1,63,4097,1048576
refuses "a size that is too long is named" 0 "^pmx-perf: 1048576 bytes are left out" pair latency "${few[@]}" --sizes 1,1048576
json latency p50_ns pair latency --json "${few[@]}" "$sizes"
json "latency --within" p50_ns pair latency --json --rounds 1000000000 --warmup 1000000000 --within 0.1 --sizes 1,4097
json rate gbits pair rate --json "${few[@]}"
json bandwidth gbits pair bandwidth --json "${few[@]}" "$sizes"
json push gbits pair push --json "${few[@]}" "$sizes"
json pull gbits pair pull --json "${few[@]}" --sizes 1,4097
json page p50_ns pair page --json "${few[@]}"
json diff p50_ns pair diff --json "${few[@]}" --sizes 65536
json matched "" pair matched --json "${few[@]}" "$sizes"
json posted p50_ns pair posted --json "${few[@]}" --sizes 1,300
json overlap "received sent" pair overlap --json "${few[@]}" --sizes 1,4097
json group p50_ns pair group --json "${few[@]}"
json multicast p50_ns pair multicast --json "${few[@]}" --sizes 8,4096
json coll p50_ns pair coll --json "${few[@]}" --sizes 8,4096
json mixed "" pair mixed --json "${few[@]}" --sizes 64,65536,1048576
# above limits.matched_entries (1024) they are taken in as they come: no drain_ns
json unexpected "exact_ns any_source_ns one_bit_ns cold_exact_ns reverse_ns lhs_walk_ns" \
	pair unexpected --json "${few[@]}" --sizes 300,1,2000
json pin "ns a_ns" "$perf" pin --json
json idle "p50_ns cpu" timeout 60 "$perf" idle --json --seconds 0.02 -- "${eal[@]}" --file-prefix "${tag}i"
json tcp "" "$perf" baseline tcp --json "${few[@]}" --sizes 1,65536 --idle yield --address "127.0.0.1:$((port + 2))"
json "tcp --within" "" "$perf" baseline tcp --json --rounds 1000000000 --warmup 1000000000 --within 0.1 --seconds 0.01 --sizes 1 \
	--idle yield --address "127.0.0.1:$((port + 4))"
json udp "" "$perf" baseline udp --json "${few[@]}" --sizes 1,8192 --idle yield --address "127.0.0.1:$((port + 3))"

relayed() {
	local from=$dir/from.sock to=$dir/to.sock code=0
	start "$dir/relay.log" "$perf" baseline relay --via "$from" --address "$to" --idle yield
	local relay=$last
	start "$dir/served.log" "$perf" baseline tcp --respond --address "$to" --idle yield
	local served=$last
	timeout 30 "$perf" baseline tcp --initiate --json "${few[@]}" --sizes 1,1048576 --idle yield --address "$from" || code=$?
	wait "$served" || code=1
	end "$relay" || code=1
	[ ! -e "$from" ] && [ ! -e "$to" ] && return $code
}
json relay "" relayed

# ------------------------------------------------------------------ who is not there

refuses "depth above limits.unexpected" 1 limits.unexpected pair unexpected --json --sizes 70000
refuses "node not in [nodes]" 1 'node 5 is not in \[nodes\]' pair latency --to 5:1
refuses "context not open" 1 'no context 3 open' pair latency --to 1:3
refuses "node that is down" 1 'node 1 did not answer for' alone 0 latency

# ------------------------------------------------------------------ CPUs

first=${free_cpus[0]}
last_cpu=${free_cpus[-1]}
# What a process's main thread may use; and of timeout(1)'s child
may_use() { sed -n 's/^Cpus_allowed_list:\t//p' "/proc/$1/status"; }
child_may_use() { may_use "$(ps -o pid= --ppid "$1" | tr -d ' ')" 2>/dev/null; }

node 1 respond --cpu "$last_cpu"
start "$dir/cpu.log" "${command[@]}"
is_there() { [ "$(child_may_use "$last")" = "$last_cpu" ]; }
wait_for 60 is_there && ok "--cpu of an embedded node" ||
	not_ok "--cpu of an embedded node" "it may use $(child_may_use "$last")" "$dir/cpu.log"
end "$last"

node 0 latency --cpu 4000
refuses_at_once "--cpu that is not allowed" 2 'may run on CPUs' "${command[@]}"
refuses "--cpu of baseline" 2 'may run on CPUs' timeout 60 "$perf" baseline tcp --cpu 4000
refuses_at_once "--cpu and -l" 2 'give one of them' timeout 60 "$perf" respond --embedded "$dir/1.ini" --cpu "$first" -- \
	"${eal[@]}" -l "$first"
# what is allowed is what this process may use, not what the machine has
refuses "--cpu outside of the mask" 2 "may run on CPUs $first\$" timeout 60 taskset -c "$first" "$perf" pin --cpu 4000
# Whoever polls on the first one: another is taken. In a namespace that has no other programs' pollers.
default_cpu() {
	local poller chooser child until=$((SECONDS + 60))
	node 1 respond
	taskset -c "$first" "${command[@]}" >"$dir/p.log" 2>&1 &
	poller=$!
	# it polls: it has had the CPU for a fifth of a second
	until child=$(ps -o pid= --ppid "$poller" | tr -d ' ') && [ -n "$child" ] &&
		[ "$(awk '{print $14 + $15}' "/proc/$child/stat" 2>/dev/null || echo 0)" -gt 20 ] || [ $SECONDS -ge $until ]; do
		sleep 0.05
	done
	node 0 respond
	taskset -c "$first,$last_cpu" "${command[@]}" >"$dir/c.log" 2>&1 &
	chooser=$!
	until [ "$(child_may_use "$chooser")" = "$last_cpu" ] || [ $SECONDS -ge $until ]; do
		sleep 0.1
	done
	child_may_use "$chooser"
	end "$chooser"
	end "$poller"
}
if [ ${#free_cpus[@]} -lt 2 ]; then
	echo "ok perf__default_cpu # SKIP there is one CPU only"
elif [ "$(id -u)" -ne 0 ]; then
	echo "ok perf__default_cpu # SKIP needs root, for a namespace without others"
else
	export -f default_cpu node end child_may_use may_use
	export perf dir tag first last_cpu
	took=$(unshare -pf --mount-proc bash -c "eal=(${eal[*]@Q}); default_cpu")
	[ "$took" = "$last_cpu" ] && ok "default CPU has no poller" || not_ok "default CPU has no poller" "it may use '$took'" "$dir/c.log"
fi

# ------------------------------------------------------------------ the comparison

row() { # WHAT TEST SIZE P50 GBITS
	printf '{"what": "%s", "test": "%s", "size": %s, "p50_ns": %s, "p99_ns": %s, "per_second": null, "gbits": %s}\n' "$1" "$2" "$3" "$4" "$4" "$5"
}
{
	row pmx latency 1024 2000 null
	row pmx latency 8192 3000 null
	row pmx bandwidth 1024 null 16
} >"$dir/a.json"
{
	row floor latency 114 1230 null
	row floor latency 1514 2030 null
	row raw latency 8192 2500 null
	row floor bandwidth 1514 null 45
} >"$dir/b.json"
"$perf" report E="$dir/a.json" E="$dir/b.json" >"$dir/report" 2>&1
code=$?
line() { awk -v size="$1" '$1 == size {print; exit}' "$dir/report" | tr -s ' '; }
[ $code -eq 0 ] && [ "$(line 1024)" = " 1024 2.00 2.00 - -" ] && [ "$(line 8192)" = " 8192 3.00 3.00 2.50 2.50" ] &&
	ok "raw frames stand beside messages of their size only" ||
	not_ok "raw frames stand beside messages of their size only" "exit code $code" "$dir/report"
# Repetitions: each cell is a median. pmx at 64 bytes is better than the raw link, also where the raw link stands in other columns;
# at 1024 its round trips differ by 0.91 of the median.
for ns in 1200 1000 1100; do row pmx latency 64 $ns null; done >"$dir/pmx"
for ns in 1100 2000 1000; do row pmx latency 1024 $ns null; done >>"$dir/pmx"
for ns in 1200 1300 1250; do row raw latency 64 $ns null; row raw latency 1024 500 null; done >"$dir/raw"
for ns in 5000 4000; do row tcp latency 64 $ns null; done >"$dir/tcp"
row pmx bandwidth 64 null 9 >"$dir/attached"
row raw bandwidth 64 null 8 >>"$dir/raw"
report_of() { # FILE ARGUMENTS...
	"$perf" report "${@:2}" >"$1" 2>&1
}
says() { # NAME PATTERN: the report has such a line
	grep -q -- "$2" "$dir/report" && ok "$1" || not_ok "$1" "no line /$2/" "$dir/report"
}
all=(E="$dir/pmx" E="$dir/raw" E="$dir/tcp" A="$dir/attached")
report_of "$dir/report" "${all[@]}"
[ "$(line 64)" = " 64 1.10! 1.10! 1.25 1.25 4.50 4.50" ] && ok "report: medians, and a floor that is beaten" ||
	not_ok "report: medians, and a floor that is beaten" "'$(line 64)'" "$dir/report"
[ "$(line 1024)" = " 1024 1.10* 1.10* 0.50 0.50 - -" ] && ok "report: a spread above a third" ||
	not_ok "report: a spread above a third" "'$(line 1024)'" "$dir/report"
says "report: a floor that stands in other columns" "^ *64  *8.00  *9.00!$"
says "report: how many turns" "^Medians of 1 to 3 turns"
says "report: what * says" "^\* From turn"
says "report: what ! says" "^! Better than"
[ "$("$perf" report --unsettled "${all[@]}")" = E.pmx ] && ok "report --unsettled" ||
	not_ok "report --unsettled" "'$("$perf" report --unsettled "${all[@]}")'"
report_of "$dir/report" --spread "${all[@]}"
says "report --spread" "^ *1024  *1.00-2.00  *1.00-2.00  *0.50-0.50"
# whatever a cache line took stands with marks only
printf '{"what": "line", "test": "latency", "size": 64, "p50_ns": 500, "min_ns": %s}\n' 80 450 >"$dir/line"
report_of "$dir/report" E="$dir/line" "${all[@]}"
says "report: what a cache line took" "cache line took 80 to 450 ns"
report_of "$dir/report" E="$dir/line" E="$dir/tcp"
! grep -q "^[*!] \|cache line\|[0-9][*!]" "$dir/report" && [ "$(line 64)" = " 64 4.50 4.50" ] && ok "report without marks" ||
	not_ok "report without marks" "'$(line 64)'" "$dir/report"

refuses "report of nothing" 2 'of which files' timeout 60 "$perf" report
echo '{"what": "other"}' >"$dir/c.json"
refuses "report of a file without results" 1 'no result' timeout 60 "$perf" report "$dir/c.json"

exit $failed
