#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
#
# The source papers' figures on this machine, as tables, CSV and SVG: one command for each, what is compared in turns within one
# run. Root, hugepages.
#   pmudp   PM/UDP (IPSJ 1999) figures 3 and 4: round trip and burst bandwidth from 4 bytes to 8 KiB beside TCP and UDP, over the
#           same veth pair between two namespaces, all spinning, a core each. What the kernel does for a host that receives it does on
#           that host's core, as if each had a network card (RPS; RPS=no: on the sender's)  -> DIR/pmudp/round_trip, bandwidth
#   split   LHS (IPSJ 2007): round trip with entries that hold the front of a message, and with all of it in bulk
#                                                                                -> DIR/split/round_trip
#   search  LHS figure 6: a search among 1 to 100,000 messages                   -> DIR/unexpected
#   copies  pin-down cache (SWoPP 1997) figure 2: bandwidth of messages with and without copies -> DIR/copies
#   copy    its table 1: copy bandwidth by alignment                             -> DIR/copy
# usage: papers.sh BUILD_DIR DIR [REPETITIONS] [FIGURE...]    ROUNDS, SECONDS_EACH, DEPTHS, SIZES, MEMORY (MiB a process): smaller tests; IDLE: another policy
set -u
out=${2:?usage: papers.sh BUILD_DIR DIR [REPETITIONS] [FIGURE...]}
times=${3:-5}
figures=${*:4}
. "$(dirname "$0")/../system/common.bash"
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
perf=$build/app/pmx-perf
sizes=${SIZES:-4,16,64,256,512,1024,1400,2048,4096,8192}
tests=(--rounds "${ROUNDS:-20000}" --warmup $((${ROUNDS:-20000} / 10)) --seconds "${SECONDS_EACH:-0.5}")
eal=(--no-pci --in-memory -m "${MEMORY:-256}" --no-telemetry "--log-level=*:error")
cpus=("${free_cpus[0]}" "${free_cpus[1]:-${free_cpus[0]}}")
idle=${IDLE:-spin} # a core each
[ "${cpus[0]}" != "${cpus[1]}" ] || idle=yield

# config NODE ADDRESS0 ADDRESS1 LINK_LINES [LIMITS_LINES]
config() {
	printf '[node]\nid = %s\nname = %s%s\n[engine]\nidle = %s\n[link 0]\n%b\n[limits]\nmbufs = 8192\ncontexts = 4\n%b\n[nodes]\n0 = %s\n1 = %s\n' \
		"$1" "$tag" "$1" "$idle" "$4" "${5:-}" "$2" "$3" >"$dir/$1.ini"
}

# pair EAL0 EAL1 ARGUMENTS...: two embedded nodes of $dir/0.ini and 1.ini; prints what the initiator does. IN=0 or 1 names the
# namespace that a command is run in, if there are any.
inside() { # NODE COMMAND...
	local n=$1
	shift
	if [ ${#spaces[@]} -gt 0 ]; then
		ip netns exec "${spaces[n]}" "$@"
	else
		"$@"
	fi
}

pair() {
	local eal0=$1 eal1=$2 code=0 responder try
	shift 2
	# shellcheck disable=SC2086
	inside 1 timeout 300 "$perf" respond --embedded "$dir/1.ini" --idle $idle --cpu "${cpus[1]}" -- "${eal[@]}" --file-prefix "${tag}1" \
		$eal1 >"$dir/1.log" 2>&1 &
	responder=$!
	pids+=("$responder")
	for ((try = 0; try < 100; try++)); do # memif's client wants its server there
		case $eal1 in *socket=*) [ -S "$dir/memif.sock" ] && break ;; *) [ $try -ge 10 ] && break ;; esac
		sleep 0.1
	done
	# shellcheck disable=SC2086
	inside 0 timeout 300 "$perf" "$@" --embedded "$dir/0.ini" --idle $idle --cpu "${cpus[0]}" -- "${eal[@]}" --file-prefix "${tag}0" \
		$eal0 2>"$dir/0.log" || code=$?
	if [ $code -ne 0 ]; then
		cat "$dir/0.log" "$dir/1.log" >&2
		end "$responder"
		failed=1
		return $code
	fi
	wait "$responder"
	rm -f "$dir/memif.sock"
}

memif_pair() { # ARGUMENTS...
	local vdev=id=0,socket=$dir/memif.sock,socket-abstract=no,bsize=9216
	pair "--vdev=net_memif0,role=client,$vdev" "--vdev=net_memif0,role=server,$vdev" "$@"
}

kernel() { # tcp|udp
	inside 1 timeout 120 "$perf" baseline "$1" --socket-buffer 0 --respond --cpu "${cpus[1]}" --idle $idle --address 10.9.0.2:7777 >"$dir/1.log" 2>&1 &
	local server=$!
	pids+=("$server")
	inside 0 timeout 120 "$perf" baseline "$1" --initiate --cpu "${cpus[0]}" --idle $idle --json --sizes "$sizes" "${tests[@]}" \
		--address 10.9.0.2:7777 || failed=1
	wait "$server"
}

pmudp() {
	local turn results=$dir/pmudp
	mkdir -p "$results"
	veth 1500 || { echo "papers.sh: no veth pair: root and iproute2 are needed" >&2; return 1; }
	if [ "${RPS:-yes}" = yes ]; then
		for turn in 0 1; do
			inside $turn sh -c "printf '%x' $((1 << cpus[turn])) >/sys/class/net/v$turn/queues/rx-0/rps_cpus" ||
				echo "papers.sh: no RPS here: the sender's core does the receiver's work too" >&2
		done
	fi
	for ((turn = 0; turn < times; turn++)); do
		kernel tcp >>"$results/tcp"
		kernel udp >>"$results/udp"
		config 0 auto auto 'driver = ethdev\nport = net_af_packet0\nmtu = 1500'
		config 1 auto auto 'driver = ethdev\nport = net_af_packet0\nmtu = 1500'
		for test in latency bandwidth; do
			pair --vdev=net_af_packet0,iface=v0 --vdev=net_af_packet0,iface=v1 $test --json --sizes "$sizes" "${tests[@]}" >>"$results/packet"
		done
		config 0 10.9.0.1:7001 10.9.0.2:7001 'driver = udp\nlisten = 10.9.0.1:7001\nmtu = 1472'
		config 1 10.9.0.1:7001 10.9.0.2:7001 'driver = udp\nlisten = 10.9.0.2:7001\nmtu = 1472'
		for test in latency bandwidth; do
			pair "" "" $test --json --sizes "$sizes" "${tests[@]}" >>"$results/link"
		done
	done
	"$perf" report "by af_packet=$results/packet" "by link udp=$results/link" "kernel=$results/tcp" "kernel=$results/udp" \
		--figure "$out/pmudp" || failed=1
	# what was sent into the socket and never came out
	python3 - "$results/udp" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
print("\nUDP without flow control: messages lost of a burst, worst of the repetitions")
for size in sorted({r["size"] for r in rows}):
    print(f"{size:10} {max(r['lost'] for r in rows if r['size'] == size and r['test'] == 'bandwidth'):12}")
PY
	for i in "${spaces[@]}"; do
		ip netns del "$i"
	done
	spaces=()
}

split() {
	local turn results=$dir/split bytes
	mkdir -p "$results"
	for ((turn = 0; turn < times; turn++)); do
		for bytes in 0 40 104; do
			for node in 0 1; do
				config $node auto auto 'driver = ethdev\nport = net_memif0\nmtu = 9000' \
					"lhs_split = $bytes\nlhs_entry_bytes = $([ $bytes = 104 ] && echo 128 || echo 64)"
			done
			memif_pair latency --json --sizes "${SIZES:-4,8,16,24,32,40,48,64,80,96,104,128,256,512}" "${tests[@]}" >>"$results/$bytes"
		done
	done
	"$perf" report "all in bulk=$results/0" "40 bytes in entries=$results/40" "104 in 128-byte entries=$results/104" \
		--figure "$out/split" || failed=1
}

search() {
	for node in 0 1; do
		config $node auto auto 'driver = ethdev\nport = net_memif0\nmtu = 9000' 'matched_entries = 131072\nunexpected = 262144'
	done
	eal+=(--force-max-simd-bitwidth=512) # vectors of 512 bits are the EAL's to allow
	memif_pair unexpected ${DEPTHS:+--sizes $DEPTHS} --figure "$out" || failed=1
}

copies() {
	for node in 0 1; do
		config $node auto auto 'driver = ethdev\nport = net_memif0\nmtu = 9000'
	done
	memif_pair bandwidth ${SIZES:+--sizes $SIZES} "${tests[@]}" --figure "$out" || failed=1
}

copy() {
	"$perf" copy ${COPY_BYTES:+--sizes $COPY_BYTES} --seconds "${SECONDS_EACH:-1}" --cpu "${cpus[0]}" --figure "$out" || failed=1
}

for figure in ${figures:-pmudp split search copies copy}; do
	case $figure in
	pmudp | split | search | copies | copy) echo "== $figure" && "$figure" ;;
	*) echo "papers.sh: no figure $figure" >&2; exit 2 ;;
	esac
done
exit $failed
