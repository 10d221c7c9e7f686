# SPDX-License-Identifier: BSD-3-Clause
#
# What the system tests share; sourced after `set -u`, with $1 = BUILD_DIR. Each test gets a
# directory of its own, also for the EAL's runtime files, and names that no other run has. At exit
# everything that was started here ends and everything that it left is removed.

build=$(cd "${1:?BUILD_DIR}" && pwd) || exit 2
tag=$(basename "$0" .sh | tr -d _)$$- # no digit last: what begins with it is no other run's
dir=$(mktemp -d /tmp/pmx-test.XXXXXX) || exit 2
export RUNTIME_DIRECTORY=$dir/run
mkdir "$RUNTIME_DIRECTORY"
# A hundred ports that no other run has, for as long as a process of this one lives: there is one of these files in each network
# namespace, also for tests in another root.
port=20000
for lock in /sys/class/net/lo/statistics/*; do
	{ exec {ports}<"$lock"; } 2>/dev/null && flock -n "$ports" && break
	port=$((port + 100))
done
pids=()
spaces=()
failed=0
last=0 # process number of what was started last

crashes=() # processes whose crash was on purpose, or has been told of

# end PID [SIGNAL]: stop one and take its exit code; a crash is a failure
end() {
	local code
	# timeout(1) passes on what it can catch
	[ "${2:-}" != KILL ] || [ "$(cat "/proc/$1/comm" 2>/dev/null)" != timeout ] || pkill -KILL -P "$1"
	kill "-${2:-TERM}" "$1" 2>/dev/null
	wait "$1" 2>/dev/null
	code=$?
	case $code in
	132 | 134 | 135 | 136 | 139)
		[ "${2:-}" = ABRT ] || [[ " ${crashes[*]-} " = *" $1 "* ]] || not_ok "${0##*/}_crash" "process $1 crashed: exit code $code"
		crashes+=("$1")
		;;
	esac
	return $code
}

clean() {
	local pid space
	trap '' INT TERM # timeout(1) sends it twice: the second must not end this
	for pid in ${pids[@]+"${pids[@]}"}; do
		end "$pid" KILL
	done
	for space in ${spaces[@]+"${spaces[@]}"}; do
		ip netns del "$space" 2>/dev/null
	done
	rm -f /dev/hugepages/"$tag"*map_* /run/pmx-dpdk/"$tag"*.pid /run/pmx-dpdk/"$tag"*.sock /run/pmx-dpdk/"$tag"*.ini* /run/pmx-dpdk/"$tag"*.nodes*
	rm -rf "$dir"
}
trap clean EXIT
trap 'exit 130' INT TERM

ok() { echo "ok $1"; }

# not_ok NAME WHY [LOG]
not_ok() {
	echo "not ok $1 $2"
	[ -z "${3:-}" ] || tail -20 "$3" | sed 's/^/# /'
	failed=1
}

# books NODE PID LIST...: what a primary holds, in one line: buffers, promises, flows; how long those lists of pmx-ctl are; descriptors
# and mappings, unless PID is empty
books() {
	local node=$1 pid=$2 list
	shift 2
	timeout 10 "$build/app/pmx-ctl" --instance "$tag$node" stat 2>/dev/null |
		awk -v n="$node" '$1 == "mbufs_free" || $1 == "mbufs_unpromised" || $1 == "flows" {printf "%s_%d=%s ", $1, n, $2}'
	for list; do
		timeout 10 "$build/app/pmx-ctl" --instance "$tag$node" --json "$list" | tr -cd '{' | wc -c | tr '\n' ' '
	done
	[ -z "$pid" ] || echo -n "fds_$node=$(find "/proc/$pid/fd" -mindepth 1 | wc -l) maps_$node=$(grep -c memfd: "/proc/$pid/maps") "
}

# passes NAME COMMAND...: it ends with 0; the end of what it printed
passes() {
	local name=$1 log=$dir/$1.log code=0
	shift
	"$@" >"$log" 2>&1 || code=$?
	[ $code -eq 0 ] && ok "$name" || not_ok "$name" "exit code $code of ${*@Q}"
	tail -20 "$log" | sed '/^#/!s/^/# /'
}

# says NAME CODE PATTERN COMMAND...: it ends with that code and prints the pattern
says() {
	local name=$1 code=$2 pattern=$3 got=0
	shift 3
	"$@" >"$dir/said" 2>&1 || got=$?
	[ $got -eq "$code" ] && grep -Eq "$pattern" "$dir/said" && ok "$name" || not_ok "$name" "exit code $got, not $code; or not $pattern" "$dir/said"
}

# skip_all NAME WHY: nothing can be tested here
skip_all() {
	echo "ok $1 # SKIP $2"
	exit 0
}

# need_hugepages NAME COUNT
need_hugepages() {
	[ "$(id -u)" -eq 0 ] || skip_all "$1" "needs root"
	local total
	total=$(awk '/HugePages_Total/{print $2}' /proc/meminfo)
	[ "${total:-0}" -ge "$2" ] && wait_for 200 hugepages_free "$2" ||
		skip_all "$1" "needs $2 free hugepages of 2 MiB: sudo dpdk-config/hugepages.sh $(($2 * 2))"
}

# in_own_place ARGUMENTS...: go on where no primary of another run is seen and none sees what this one leaves: each that starts
# removes the hugepages and sockets of dead ones, whosever they are
in_own_place() {
	[ -z "${IN_OWN_PLACE:-}" ] || return 0
	rm -rf "$dir"
	mkdir -p /run/pmx-dpdk
	IN_OWN_PLACE=yes exec unshare --mount sh -c 'mount -t tmpfs own /run/pmx-dpdk && mount -t hugetlbfs -o pagesize=2M own /dev/hugepages &&
		exec "$@"' - "$0" "$@"
}

# locks_memory NAME: whether this user may lock what tests of remote memory register at once, 20 MiB at most; else says what is skipped
locks_memory() {
	local most
	most=$(ulimit -l)
	[ "$(id -u)" -eq 0 ] || [ "$most" = unlimited ] || [ "$most" -ge 32768 ] && return
	echo "ok $1 # SKIP needs 32768 KiB of memory that may be locked, and this user has $most (ulimit -l), or root"
	return 1
}

# hugepages_free COUNT: others may be about to give back theirs
hugepages_free() {
	[ "$(awk '/HugePages_Free/{print $2}' /proc/meminfo)" -ge "$1" ]
}

# plainly COMMAND...: not as root, to itself; to files it is root still. For tshark, which as root loads no plug-ins from 4.4 on
plainly() {
	[ "$(id -u)" -ne 0 ] || set -- unshare --user --map-user=1000 "$@"
	"$@"
}

# full: whether all cases are asked for, and not only those of the default tier
full() {
	[ "${TIER:-}" = full ]
}

# start LOG COMMAND...: in the background; its number is in $last
start() {
	local log=$1
	shift
	: >"$log" # here, since who waits for a word must not find it in an earlier run's log
	"$@" >>"$log" 2>&1 &
	last=$!
	pids+=("$last")
}

# start_fed LOG COMMAND...: the same with a pipe to its standard input, whose descriptor is in $to. The command opens it itself,
# since what a script starts in the background gets an empty standard input otherwise.
start_fed() {
	local pipe=$1.in log=$1
	shift
	rm -f "$pipe"
	mkfifo "$pipe"
	exec {to}<>"$pipe"
	# shellcheck disable=SC2016
	start "$log" sh -c 'in=$1; shift; exec "$@" <"$in"' - "$pipe" "$@"
}

# beside FUNCTION...: in the background, on a CPU that no other of these has; waits for one if all are taken. For what no clock
# judges. all_beside waits for the last: what they printed comes in their order.
mapfile -t free_cpus < <(taskset -cp $$ | sed 's/.*: //' | tr , '\n' | awk -F- '{for (i = $1; i <= $NF; i++) print i}')
declare -A cpu_of=() # process number: CPU
logs=()

one_ends() {
	local pid
	wait -n -p pid "${!cpu_of[@]}" || failed=1
	free_cpus+=("${cpu_of[$pid]}")
	unset "cpu_of[$pid]"
}

beside() {
	local cpu log=$dir/beside.${#logs[@]}
	[ ${#free_cpus[@]} -gt 0 ] || one_ends
	cpu=${free_cpus[0]}
	free_cpus=("${free_cpus[@]:1}")
	(failed=0; taskset -cp "$cpu" $BASHPID >/dev/null; "$@"; exit $failed) >"$log" 2>&1 &
	cpu_of[$!]=$cpu
	pids+=($!)
	logs+=("$log")
}

all_beside() {
	while [ ${#cpu_of[@]} -gt 0 ]; do
		one_ends
	done
	cat /dev/null "${logs[@]}"
	logs=()
}

# node_ini NODE [PORT] <<END: $dir/NODE.ini of one of two nodes, 0 and 1, which has the name $tagNODE. They are joined by UDP over
# 127.0.0.1, or by that port of DPDK each, and then find each other. Standard input: more keys of the link, then other sections.
node_ini() {
	{
		printf '[node]\nid = %s\nname = %s\n[nodes]\n' "$1" "$tag$1"
		if [ $# -gt 1 ]; then
			printf '0 = auto\n1 = auto\n[link 0]\nport = %s\n' "$2"
		else
			printf '0 = 127.0.0.1:%s\n1 = 127.0.0.1:%s\n' "$port" $((port + 1))
			printf '[link 0]\ndriver = udp\nlisten = 127.0.0.1:%s\n' $((port + $1))
		fi
		cat
	} >"$dir/$1.ini"
	# on a busy machine a node that is there may not answer for a second
	grep -q '^\[proto\]' "$dir/$1.ini" && sed -i '/^\[proto\]/a hello_ms = 5000' "$dir/$1.ini" || printf '[proto]\nhello_ms = 5000\n' >>"$dir/$1.ini"
}

# seal_ini FILE: with SEAL=auth or seal in the environment, that configuration gets keys, for itself and for each line of [nodes]. So
# each test can be run over sealed frames.
seal_ini() {
	local number
	grep -q '^\[security\]' "$1" && return
	for number in $(sed -n 's/^\([0-9]\+\) *= .*/\1/p; s/^id *= *//p' "$1"); do
		[ -e "$dir/seal.$number" ] || "$build/app/pmx-ctl" key generate "$dir/seal.$number" >/dev/null
		sed -i "/^$number *= /s|\$| key=$("$build/app/pmx-ctl" key public "$dir/seal.$number")|" "$1"
	done
	printf '[security]\nmode = %s\nkey = %s\n' "$SEAL" "$dir/seal.$(sed -n 's/^id *= *//p' "$1")" >>"$1"
}

# alone_ini NAME: the same for a node that has no peers
alone_ini() {
	node_ini "$1" "$tag"
	sed -i 's/^port = /driver = loop\n&/; /^1 = auto/d' "$dir/$1.ini"
}

# provider_node MIB: a primary 0 alone, which libfabric's programs find by the environment
provider_node() {
	alone_ini 0 <<-END
		[engine]
		idle = adaptive
		[limits]
		contexts = 64
	END
	primary 0 -l 0 -m "$1" || return 1
	export FI_PROVIDER_PATH=$build/ofi FI_PMX_INSTANCE=${tag}0
}

# primary NAME [EAL arguments]: a primary with $dir/NAME.ini, node.name = $tag$NAME; 0 when ready.
# PREFIX=(ip netns exec X) puts it into a namespace; OPTIONS are pmx-dpdk's.
primary() {
	local try
	for try in {1..6}; do
		start_primary "$@" && return 0
		# the one that is there gives up a take-over that a busy machine makes long, and goes on; who wants it asks again
		[[ " ${OPTIONS[*]-} " = *" --take-over "* ]] || return 1
		echo "# $1 did not take over at try $try"
	done
	return 1
}

# primary_in NAMESPACE NAME [ARGUMENTS]: a primary in a namespace
primary_in() {
	local code
	PREFIX=(ip netns exec "$1")
	primary "${@:2}"
	code=$?
	PREFIX=()
	return $code
}

# start_primary: the same as primary, asking once
start_primary() {
	local name=$1 fd base=()
	shift
	# where no sanitizer has anything, since secondaries need the same addresses
	[[ $build != *asan* ]] || base=(--base-virtaddr=0x200000000000)
	[ -z "${SEAL:-}" ] || seal_ini "$dir/$name.ini"
	rm -f "$dir/$name.ready"
	mkfifo "$dir/$name.ready"
	exec {fd}<>"$dir/$name.ready"
	start "$dir/$name.log" ${PREFIX[@]+"${PREFIX[@]}"} "$build/app/pmx-dpdk" --no-pci \
		${base[@]+"${base[@]}"} "$@" -- --ready-fd "$fd" ${OPTIONS[@]+"${OPTIONS[@]}"} "$dir/$name.ini"
	local pid=$last tries
	for tries in {1..240}; do
		if read -r -t 0.5 -u "$fd" _; then
			exec {fd}<&-
			return 0
		fi
		kill -0 "$pid" 2>/dev/null || break
	done
	exec {fd}<&-
	echo "# primary $name is not ready (try $tries)"
	tail -20 "$dir/$name.log" | sed 's/^/# /'
	return 1
}

# the median of the numbers on the standard input, "-" if there are none
median() { sort -g | awk '{v[NR] = $1} END {print NR ? v[int((NR + 1) / 2)] : "-"}'; }

# wait_for SECONDS COMMAND...: until it succeeds
wait_for() {
	local until=$((SECONDS + $1))
	shift
	until "$@"; do
		[ $SECONDS -lt $until ] || return 1
		sleep 0.05
	done
}

# context_open NODE CONTEXT: whether the primary $tagNODE has it open
context_open() {
	timeout 10 "$build/app/pmx-ctl" --instance "$tag$1" contexts 2>/dev/null | awk -v c="$2" '$1 == c && $2 == "open" {n++} END {exit !n}'
}

# gone PID: it has ended
gone() {
	! kill -0 "$1" 2>/dev/null
}

# micros: a clock, us
micros() {
	echo "${EPOCHREALTIME/[.,]/}"
}

# veth MTU: namespaces ${tag}0 and ${tag}1, joined by interfaces v0 and v1, 10.9.0.1 and .2
veth() {
	local i
	for i in 0 1; do
		ip netns add "$tag$i" || return 1
		spaces+=("$tag$i")
		ip -n "$tag$i" link set lo up
	done
	ip link add v0 netns "${tag}0" type veth peer name v1 netns "${tag}1" || return 1
	for i in 0 1; do
		ip -n "$tag$i" link set "v$i" mtu "$1" up
		ip -n "$tag$i" addr add "10.9.0.$((i + 1))/24" dev "v$i"
		ip netns exec "$tag$i" ethtool -K "v$i" tx off rx off gso off gro off tso off \
			>/dev/null 2>&1
	done
	wait_for 60 sh -c "ip -n ${tag}0 link show v0 | grep -q 'state UP'"
}
