#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: quickstart.sh [--embedded] [--turns N] [--rounds N] [--seconds S] [--seal] [--spread] [--json DIR]
#        [--build DIR]
# From a fresh checkout to one table: installs packages, reserves hugepages, builds into build/,
# measures the raw link, kernel TCP and pmx on this host in turns, and stops and removes all that it
# started. Exit code 0 only if every part succeeded.
#
#   as root      over memif, first two embedded nodes, then two primaries with an application attached to each;
#                beside each TCP with as many processes on the same CPUs
#   --embedded   or not as root: only embedded nodes, joined by the kernel's UDP, without hugepages
#   --turns N    of everything, at least (3); what differs has more turns while there is time
#   --rounds N   of each latency test in a turn (2000)   --seconds S   of each other test (0.04)
#   --seal       pmx's frames are encrypted and authenticated; TCP's are not
#   --spread     also each figure's lowest and highest    --json DIR    keep all results there, for pmx-perf report
#   --build DIR  build there
#
# Notes
# 1. Every process runs under timeout(1), which bounds it, and which turns the SIGTERM of stop into
#    a SIGKILL if that is not obeyed: so each 'wait' ends.
# 2. Order of stop: applications (they end by themselves), node 1, node 0: nothing is sent that
#    nobody answers.
# 3. Between turns all processes are new: how near to each other the machine puts two CPUs and the
#    memory that they share changes by the minute and by the process, and a median shall see all.
# 4. The instances are named pmxq0 and pmxq1, from copies of the examples: a pmx0 that runs here is
#    not disturbed. Raw link and embedded nodes keep their EAL files in the temporary directory.
set -u

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
build=$root/build
embedded=false
seal=false
rounds=2000
seconds=0.04
# for turns, of a quickstart that takes 40 s where all is built
patience_ms=34000
spread=()
json=

usage() {
	sed -n '4,18s/^#[ ]\{0,1\}//p' "$0"
}

die() {
	echo "quickstart.sh: $*" >&2
	exit 1
}

while [ $# -gt 0 ]; do
	case $1 in
	--embedded) embedded=true ;;
	--seal) seal=true ;;
	--spread) spread=(--spread) ;;
	--rounds | --seconds | --build | --json | --turns)
		[ $# -ge 2 ] || die "$1 needs a value"
		declare "${1#--}=$2"
		shift
		;;
	--help | -h) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
	shift
done
[[ $rounds =~ ^[1-9][0-9]*$ ]] || die "--rounds '$rounds': a number from 1"
[[ $seconds =~ ^[0-9]+(\.[0-9]+)?$ ]] || die "--seconds '$seconds': a number, as 1 or 0.2"
[[ $build = /* ]] || build=$PWD/$build
[[ ${turns:=3} =~ ^[1-9][0-9]*$ ]] || die "--turns '$turns': a number from 1"
least=$turns
perf=$build/app/pmx-perf
dpdk=$build/app/pmx-dpdk
# of messages, bytes: the tables' rows
sizes=8,64,1024,8192,65536,1048576
# a turn's latency test with fewer rounds where processes wait for CPUs
tests=(--json --sizes "$sizes" --within 0.3 --rounds "$rounds" --warmup $((rounds / 10 + 1)) --seconds "$seconds")
# of one part: a slow machine's 2 ms a round, and some 30 tests of that many seconds
limit=$((120 + rounds / 50 + 30 * (${seconds%.*} + 1)))

# ------------------------------------------------------------------ parts, and what is left of them

started=$(date +%s)
failures=0
work=
declare -A pid_of=()

# begin TEXT, then finish CODE [LOG...]: one line, and the logs of what failed
begin() {
	part=$1
	part_start=$(date +%s%N)
	printf '%-58s' "$part ..."
}

finish() {
	local code=$1 log ms=$((($(date +%s%N) - part_start) / 1000000))

	shift
	if [ "$code" -eq 0 ]; then
		printf ' ok %5d.%d s\n' $((ms / 1000)) $((ms % 1000 / 100))
		return 0
	fi
	printf ' FAILED\n'
	failures=$((failures + 1))
	for log; do
		[ -s "$log" ] || continue
		echo "--- the end of $(basename "$log")"
		tail -n 40 "$log"
	done
	[ $# -eq 0 ] || echo "---"
	return 1
}

# start NAME COMMAND...: in the background; stdout to NAME.json, stderr to NAME.log
start() {
	local name=$1

	shift
	timeout -k 10 "$limit" "$@" >"$work/$name.json" 2>"$work/$name.log" 8<&- &
	pid_of[$name]=$!
}

# reap NAME: its exit code; a word on it to its log if that is not 0
reap() {
	local code

	wait "${pid_of[$1]}" 2>/dev/null
	code=$?
	unset "pid_of[$1]"
	case $code in
	0) ;;
	124 | 137) echo "$1 did not end in time and was killed (exit code $code)" >>"$work/$1.log" ;;
	13[2-9]) echo "$1 crashed: signal $((code - 128))" >>"$work/$1.log" ;;
	*) echo "$1 ended with exit code $code" >>"$work/$1.log" ;;
	esac
	return $code
}

stop() {
	kill -TERM "${pid_of[$1]}" 2>/dev/null
	reap "$1"
}

# the instances' files outside the temporary directory
leftovers() {
	local runtime=${RUNTIME_DIRECTORY:-/var/run} path

	for path in "$runtime"/dpdk/pmxq[01] /run/pmx-dpdk/pmxq[01].pid /run/pmx-dpdk/pmxq[01].sock; do
		[ -e "$path" ] && echo "$path"
	done
	# whole names: those of an instance that is called pmxqueue, or pmxq0map_1, are not ours
	find /dev/hugepages -maxdepth 1 -regextype posix-extended -regex '/dev/hugepages/pmxqf?[01]map_[0-9]+' 2>/dev/null
}

remove_leftovers() {
	leftovers | while IFS= read -r path; do
		rm -rf -- "$path"
	done
}

clean_up() {
	local name

	trap - EXIT
	trap '' INT TERM # a second one must not end this
	for name in line raw raw-echo tcp tcp-served relay0 relay1 pmx respond primary1 primary0; do # note 2
		[ -z "${pid_of[$name]:-}" ] || stop "$name"
	done
	[ -z "$work" ] && return
	$embedded || remove_leftovers
	rm -rf "$work"
}

# ------------------------------------------------------------------ preparing

prepare() {
	begin "packages"
	if ! "$here/install.sh" >"$work/install.log" 2>&1; then
		finish 1 "$work/install.log"
		$embedded && [ -x "$perf" ] || return 1
		echo "pmx-perf is built already: going on with that"
		failures=0
	else
		finish 0
	fi
	begin "build in $build"
	"$here/build.sh" "$build" installed >"$work/build.log" 2>&1
	finish $? "$work/build.log" && return 0
	echo "Another directory: --build DIR"
	return 1
}

# The CPUs of the four processes: node 0, node 1 and their applications; with less than four CPUs,
# node and application share one. On the first one's NUMA node, a core each if there are as many.
choose_cpus() {
	local cpus=() allowed=" " range cpu core node first_node='' siblings=() far=() seen=" "

	while read -r range; do
		allowed+="$(seq -s ' ' "${range%-*}" "${range#*-}") "
	done < <(awk '/^Cpus_allowed_list/ {gsub(",", "\n", $2); print $2}' /proc/self/status)
	while IFS=, read -r cpu core node; do
		[[ $allowed = *" $cpu "* ]] || continue
		first_node=${first_node:-n$node}
		if [ "$first_node" != "n$node" ]; then
			far+=("$cpu")
		elif [[ $seen = *" $core "* ]]; then
			siblings+=("$cpu")
		else
			cpus+=("$cpu")
			seen+="$core "
		fi
	done < <(lscpu -p=CPU,CORE,NODE | grep -v '^#')
	cpus+=(${siblings[@]+"${siblings[@]}"} ${far[@]+"${far[@]}"})
	[ ${#cpus[@]} -gt 0 ] || cpus=(0)
	cpu0=${cpus[0]}
	cpu1=${cpus[1]:-$cpu0}
	app0=$cpu0
	app1=$cpu1
	if [ ${#cpus[@]} -ge 4 ]; then
		app0=${cpus[2]}
		app1=${cpus[3]}
	fi
}

# numa_nodes: with memory, by which hugepages.sh divides
numa_nodes() {
	local n

	n=$(grep -l 'MemTotal: *[1-9]' /sys/devices/system/node/node[0-9]*/meminfo 2>/dev/null | wc -l)
	echo $((n > 0 ? n : 1))
}

# ------------------------------------------------------------------ measuring

# memif ROLE SOCKET: the port's EAL arguments
memif() {
	echo "--vdev=net_memif0,role=$1,id=0,socket=$2,socket-abstract=no,bsize=9216"
}

# wait_for_socket FILE NAME: until process NAME made it
wait_for_socket() {
	local try

	for ((try = 0; try < 300; try++)); do
		[ -S "$1" ] && return 0
		kill -0 "${pid_of[$2]}" 2>/dev/null || return 1
		sleep 0.1
	done
	return 1
}

# idle policy of the shape with a CPU for each process; if there is but one, they give it away
alone() {
	[ "$cpu0" = "$cpu1" ] && echo yield || echo spin
}

# Each of the following measures one column once: start NAME prints to $work/NAME.json what is of it.

# how near the two CPUs are just now: it explains what changes from turn to turn
line() {
	[ "$cpu0" = "$cpu1" ] && return 0
	start line "$perf" floor line --cpu "$cpu0" --other "$cpu1" --json
	reap line && cat "$work/line.json" >>"$work/embedded.line"
	return 0
}

raw() {
	local code=0 socket=$work/raw.sock common=(--no-pci -m 256 --no-telemetry --huge-unlink)

	RUNTIME_DIRECTORY=$work start raw-echo "$perf" floor --respond --idle "$(alone)" -- "${common[@]}" \
		--lcores "0@$cpu1" --file-prefix pmxqf1 "$(memif server "$socket")"
	if wait_for_socket "$socket" raw-echo; then
		RUNTIME_DIRECTORY=$work start raw "$perf" floor --idle "$(alone)" "${tests[@]}" -- "${common[@]}" \
			--lcores "0@$cpu0" --file-prefix pmxqf0 "$(memif client "$socket")"
		await raw raw-echo || code=1
	else
		stop raw-echo
		code=1
	fi
	rm -f "$socket" # there only if the echo had to be stopped
	return $code
}

tcp() {
	port=$((port + 1))
	start tcp-served "$perf" baseline tcp --respond --idle "$(alone)" --cpu "$cpu1" --address "127.0.0.1:$port"
	start tcp "$perf" baseline tcp --initiate --idle "$(alone)" "${tests[@]}" --cpu "$cpu0" --address "127.0.0.1:$port"
	await tcp tcp-served
}

# As pmx with primaries: application, process of its host, the other host's, application
relayed_tcp() {
	local code

	port=$((port + 1))
	start relay1 "$perf" baseline relay --via "127.0.0.1:$port" --address "$work/relay1.sock" --idle yield --cpu "$cpu1"
	start relay0 "$perf" baseline relay --via "$work/relay0.sock" --address "127.0.0.1:$port" --idle yield --cpu "$cpu0"
	start tcp-served "$perf" baseline tcp --respond --idle yield --cpu "$app1" --address "$work/relay1.sock"
	# four processes that yield on two CPUs: each round takes long, and few tell as much
	start tcp "$perf" baseline tcp --initiate --idle yield "${tests[@]}" --rounds $((rounds / 10 + 1)) \
		--cpu "$app0" --address "$work/relay0.sock"
	await tcp tcp-served
	code=$?
	stop relay0 || code=1
	stop relay1 || code=1
	return $code
}

# await INITIATOR RESPONDER: the end of a test between two processes. If the first fails, the second is stopped.
await() {
	if reap "$1"; then
		reap "$2"
	else
		stop "$2"
		return 1
	fi
}

# add_seal NODE: to its configuration, with --seal
add_seal() {
	$seal || return 0
	[ -e "$work/cluster.key" ] || "$build/app/pmx-ctl" key generate "$work/cluster.key" --kind cluster >/dev/null || return 1
	printf '[security]\nmode = seal\ncluster = %s\n' "$work/cluster.key" >>"$work/node$1.ini"
}

# primary NODE CPU ROLE: starts pmxqNODE; 0 when applications can attach
primary() {
	local name=primary$1 fifo=$work/ready$1 line='' fd try

	sed "s/^name = pmx$1\$/name = pmxq$1/" "$here/examples/memif-node$1.ini" >"$work/node$1.ini"
	add_seal "$1"
	[ -p "$fifo" ] || mkfifo "$fifo" || return 1
	exec {fd}<>"$fifo"
	start "$name" "$dpdk" --lcores "0@$2" --no-pci -m 256 "$(memif "$3" "$work/memif.sock")" \
		-- --ready-fd "$fd" "$work/node$1.ini"
	for ((try = 0; try < 60; try++)); do
		read -r -t 0.5 -u "$fd" line && break
		kill -0 "${pid_of[$name]}" 2>/dev/null || break
	done
	exec {fd}<&-
	[ "$line" = "ready pmxq$1" ]
}

attached() {
	local code=0 name

	if primary 0 "$cpu0" server && primary 1 "$cpu1" client; then
		start respond "$perf" respond --instance pmxq1 --cpu "$app1"
		start pmx "$perf" all --instance pmxq0 --cpu "$app0" "${tests[@]}"
		await pmx respond || code=1
	else
		code=1
	fi
	for name in primary1 primary0; do # note 2
		[ -n "${pid_of[$name]:-}" ] || continue
		stop "$name" || code=1
	done
	return $code
}

# embedded_node NAME NODE CPU COMMAND [ARGUMENTS...] [-- EAL ARGUMENTS...]: $work/nodeNODE.ini is its configuration
embedded_node() {
	local name=$1 node=$2 cpu=$3 command=$4 own=()

	shift 4
	while [ $# -gt 0 ] && [ "$1" != -- ]; do
		own+=("$1")
		shift
	done
	shift
	RUNTIME_DIRECTORY=$work start "$name" "$perf" "$command" --embedded "$work/node$node.ini" --cpu "$cpu" \
		--idle "$(alone)" ${own[@]+"${own[@]}"} -- --no-pci --no-telemetry --file-prefix "pmxqe$node" "$@"
}

embedded_udp() {
	local node eal=(--no-huge -m 512 --no-shconf)

	port=$((port + 2))
	for node in 0 1; do
		sed "s/127\.0\.0\.1:18600/127.0.0.1:$((port - 1))/;s/127\.0\.0\.1:18601/127.0.0.1:$port/" \
			"$here/examples/udp-node$node.ini" >"$work/node$node.ini"
		add_seal "$node"
	done
	embedded_node respond 1 "$cpu1" respond -- "${eal[@]}"
	embedded_node pmx 0 "$cpu0" all "${tests[@]}" -- "${eal[@]}"
	await pmx respond
}

embedded_memif() {
	local code=0 node socket=$work/embedded.sock eal=(-m 256 --huge-unlink)

	for node in 0 1; do
		sed "s/^name = pmx$node\$/name = pmxqe$node/;s/^idle = .*/idle = $(alone)/" "$here/examples/memif-node$node.ini" \
			>"$work/node$node.ini"
		add_seal "$node"
	done
	embedded_node respond 1 "$cpu1" respond -- "${eal[@]}" "$(memif server "$socket")"
	if wait_for_socket "$socket" respond; then
		embedded_node pmx 0 "$cpu0" all "${tests[@]}" -- "${eal[@]}" "$(memif client "$socket")"
		await pmx respond || code=1
	else
		stop respond
		code=1
	fi
	rm -f "$socket"
	return $code
}

# ------------------------------------------------------------------ turns

# The columns of the tables, SHAPE.WHAT in the order of their turns, what measures each, its name, and how long that took last, ms.
columns=()
declare -A measure=() name_of=() took=()

# column SHAPE.WHAT FUNCTION NAME
column() {
	columns+=("$1")
	measure[$1]=$2
	name_of[$1]=$3
	took[$1]=0
}

# once COLUMN: measure it, and add what came out to its rows. If that fails, this turn has none of it.
once() {
	local what=${1#*.} from

	from=$(date +%s%N)
	rm -f "$work"/*.log "$work"/*.json
	"${measure[$1]}" || return 1
	grep -q '"what"' "$work/$what.json" || return 1
	cat "$work/$what.json" >>"$work/$1"
	took[$1]=$((($(date +%s%N) - from) / 1000000))
}

# why COLUMN: the last that was said of a failure
why() {
	tail -q -n 1 "$work/${1#*.}.log" "$work"/*.log 2>/dev/null | grep -m 1 . || echo "no result"
}

# turn COLUMN...: each of them once, in turns. Peers wait for each other, but not for ever, which may be too short if the machine is
# busy with other work just then: once more, and say so. What fails again has no result of this turn; whole_columns() tells which
# has none at all.
turn() {
	local column names='' code=0

	turns=$((turns + 1))
	for column; do
		names+="${names:+, }${name_of[$column]}"
	done
	begin "turn $turns: $names"
	line
	for column; do
		once "$column" && continue
		printf '\n%s: %s\n' "${name_of[$column]}" "$(why "$column")"
		echo "It is measured once more: is the machine busy with other work?"
		once "$column" && continue
		code=1
		mkdir -p "$work/failed.$column"
		cp "$work"/*.log "$work/failed.$column"
		printf '%s: %s\n' "${name_of[$column]}" "$(why "$column")"
	done
	[ $code -eq 0 ] && finish 0 || echo "This turn has no result of that."
}

# Each column has a result; the logs of one that has not
whole_columns() {
	local column

	for column in "${columns[@]}"; do
		[ -s "$work/$column" ] && continue
		begin "${name_of[$column]}"
		finish 1 "$work/failed.$column"/*.log
	done
}

# All columns as often as asked for; then those whose figures differ from turn to turn, while there is time.
measure_in_turns() {
	local column again=() files end=$(($(date +%s%N) / 1000000 + patience_ms)) need

	turns=0
	while [ $turns -lt "$least" ]; do
		turn "${columns[@]}"
	done
	whole_columns
	for (( ; ; )); do
		mapfile -t files < <(names_of_files)
		[ ${#files[@]} -gt 0 ] || return
		mapfile -t again < <("$perf" report --unsettled "${files[@]}")
		need=500
		for column in "${again[@]}"; do
			need=$((need + ${took[$column]:-0}))
		done
		[ ${#again[@]} -gt 0 ] && [ $(($(date +%s%N) / 1000000 + need)) -lt "$end" ] || return
		turn "${again[@]}"
	done
}

# A line each: GROUP=FILE, for pmx-perf report
names_of_files() {
	local column

	for column in "${columns[@]}" embedded.line; do
		[ -s "$work/$column" ] && echo "${column%.*}=$work/$column"
	done
}

nothing_left() {
	local socket code=0

	begin "nothing is left behind"
	{
		leftovers
		for socket in "$work"/*.sock; do
			[ -e "$socket" ] && echo "$socket"
		done
		[ ${#pid_of[@]} -eq 0 ] || echo "processes: ${!pid_of[*]}"
	} >"$work/left.log"
	[ -s "$work/left.log" ] && code=1
	finish $code "$work/left.log"
}

# What shares what is said once above the tables, which stand side by side.
report() {
	local files

	mapfile -t files < <(names_of_files)
	[ ${#files[@]} -gt 0 ] || return
	echo
	$seal && echo "pmx: its frames are encrypted and authenticated (--seal); all others are as they are."
	echo "EMBEDDED: two processes, a CPU each, that never wait: the engine is in the application; TCP between two such processes."
	if [ -s "$work/attached.pmx" ]; then
		if [ "$app0" = "$cpu0" ]; then
			echo "ATTACHED: four processes on two CPUs: on each an application and its primary; TCP: and its relay (a Unix socket between)."
		else
			echo "ATTACHED: four processes, a CPU each: applications and their primaries; TCP: and their relays (Unix sockets between)."
		fi
	fi
	if [ -s "$work/embedded.raw" ]; then
		echo "raw link: a message's frames, as long as pmx's, written and read by the application, in the best of several bursts; no protocol."
	fi
	files=("${files[@]/#embedded=/EMBEDDED=}")
	"$perf" report ${spread[@]+"${spread[@]}"} "${files[@]/#attached=/ATTACHED=}" || failures=$((failures + 1))
	[ -z "$json" ] || { mkdir -p "$json" && cp -- "$work"/embedded.* "$work"/attached.* "$json"; } 2>/dev/null
}

# ------------------------------------------------------------------ all of it

run_embedded() {
	column embedded.pmx embedded_udp pmx
	column embedded.tcp tcp TCP
	measure_in_turns
	report
}

run_primaries() {
	column embedded.raw raw "raw link"
	column embedded.pmx embedded_memif pmx
	column embedded.tcp tcp TCP
	column attached.pmx attached "pmx attached"
	column attached.tcp relayed_tcp "TCP relayed"
	remove_leftovers # of a run that was killed
	measure_in_turns
	nothing_left
	report
}

exec 8<"$0"
flock -n 8 || die "another quickstart.sh runs: wait for it"
if [ "$(id -u)" -ne 0 ] && ! $embedded; then
	echo "Not root, which hugepages and memif take: sudo $here/quickstart.sh
Until then, embedded nodes over the kernel's UDP, which any user may run (--embedded):"
	embedded=true
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/pmx-quickstart.XXXXXX") || die "no temporary directory"
trap clean_up EXIT
trap 'exit 130' INT TERM
port=$((20000 + $$ % 200 * 100)) # each test takes others
prepare || exit 1
choose_cpus
if ! $embedded; then
	begin "hugepages"
	# 512 MiB for two processes at a time on any one NUMA node, and some to spare
	"$here/hugepages.sh" $((640 * $(numa_nodes))) >"$work/hugepages.log" 2>&1
	if ! finish $? "$work/hugepages.log"; then
		echo "Until that is mended, embedded nodes over the kernel's UDP (--embedded):"
		embedded=true
	fi
fi
if $embedded; then
	run_embedded
else
	run_primaries
fi
clean_up
echo
if [ $failures -ne 0 ]; then
	echo "quickstart: $failures failed, after $(($(date +%s) - started)) s"
	exit 1
fi
echo "quickstart: all ok, in $(($(date +%s) - started)) s"
