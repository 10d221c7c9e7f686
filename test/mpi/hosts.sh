#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: hosts.sh BUILD_DIR [selection | given] [WAY...]
# MPI on two hosts, which are namespaces here: each with its own addresses, host name and CPU, joined by a bridge; mpirun is in a third
# one. Over pmx and over Open MPI's TCP: figures (figures.c) as a table, and programs that find out themselves whether they are right.
# Ways, all of them where none is named:
#   memif udp packet   a node in each rank's process (PMX_ATTACH=embedded), over memif, datagrams, or raw frames through AF_PACKET
#   loss               as udp, with 5 % of the frames lost each way
#   shared             a primary a host, and its ranks attached to it, over udp
# `selection`: what takes half a minute: a few of each figure, which must end well, and no TCP beside them. Root.
#   NPB_DIR=DIR        binaries of the NAS parallel benchmarks, named PROGRAM.CLASS.RANKS; CLASSES of them (S W A)
#   TURNS=N            measures the figures so often (1), and takes the median
set -u
. "$(dirname "$0")/../system/common.bash"
selection=all turns=${TURNS:-1}
shift
case ${1:-} in selection | given) selection=$1; shift ;; esac
ways=("$@")
[ ${#ways[@]} -gt 0 ] || ways=(memif udp packet loss shared)
transports=(tcp) perturbed=() # NetPIPE takes lengths beside the powers of two as well
[ $selection != selection ] || ways=(memif loss shared) transports=() perturbed=(-p 0) idle=yield

suite=mpi_hosts
. "$(dirname "$0")/two_hosts.bash"

# ------------------------------------------------------------------ figures

# figures WAY
figures() {
	local way=$1 turn transport name
	for ((turn = 0; turn < turns; turn++)); do
		for transport in "$way" ${transports[@]+"${transports[@]}"}; do
			over "$transport" 2 "$build/test/mpi_figures" "${FACTOR:-1}" >"$dir/log" 2>&1 || {
				[ $transport = tcp ] || not_ok "mpi_hosts_${way}_figures" "exit code $?" "$dir/log"
				return
			}
			grep -E '^(latency|rate|bandwidth)_' "$dir/log" | sed "s/^/$transport /" >>"$dir/figures.$way"
		done
	done
	if [ $selection = selection ]; then
		ok "mpi_hosts_${way}_figures"
		return
	fi
	printf '%-8s %-18s %10s %10s %7s\n' way figure pmx TCP ratio
	for name in $(awk '$1 != "tcp" {print $2}' "$dir/figures.$way" | awk '!seen[$1]++'); do
		awk -v way="$way" -v name="$name" -v pmx="$(awk -v n="$name" '$1 != "tcp" && $2 == n {print $3}' "$dir/figures.$way" | median)" \
			-v tcp="$(awk -v n="$name" '$1 == "tcp" && $2 == n {print $3}' "$dir/figures.$way" | median)" \
			'BEGIN {printf "%-8s %-18s %10.3f %10.3f %7.2f\n", way, name, pmx, tcp, pmx / tcp}'
	done
	ok "mpi_hosts_${way}_figures"
}

# ------------------------------------------------------------------ programs

# right NAME WAY RANKS PATTERN PROGRAM...: it ends with 0 and prints the pattern; its time over pmx and over TCP
right() {
	local name=$1 way=$2 ranks=$3 pattern=$4 code=0 transport
	local -A took=([tcp]=-)
	shift 4
	for transport in "$way" tcp; do
		[ $selection$transport != selectiontcp ] || continue
		over "$transport" "$ranks" "$@" >"$dir/log" 2>&1 || code=$?
		[ $code -ne 0 ] || grep -qiE "$pattern" "$dir/log" || code="0, but '$pattern' is not said"
		[ "$code" = 0 ] || break
		took[$transport]=$(awk '/Time in seconds/ {print $5}' "$dir/log")
	done
	if [ "$code" = 0 ]; then
		ok "mpi_hosts_${way}_${name}_$ranks"
		[ -z "${took[$way]}" ] || awk -v n="$name" -v r="$ranks" -v w="$way" -v p="${took[$way]}" -v t="${took[tcp]}" \
			'BEGIN {printf "# %-8s %-12s %d ranks: %.2f s, TCP %s s: %s\n", w, n, r, p, t, (t > 0 ? sprintf("%.2f", p / t) : "-")}'
	elif [ "$transport" = tcp ]; then
		ok "mpi_hosts_${way}_${name}_$ranks (over TCP it fails: exit code $code)"
	else
		not_ok "mpi_hosts_${way}_${name}_$ranks" "exit code $code" "$dir/log"
	fi
}

for way in "${ways[@]}"; do
	if [ "$way" = shared ]; then
		primaries
		counts=(2 4)
	else
		counts=(2)
	fi
	[ "$selection" = given ] || FACTOR=$([ $selection = selection ] && echo 0.002 || echo 1) figures "$way"
	for count in "${counts[@]}"; do
		# it takes longest, and says the same of each way
		if [ $selection = all ] || [ $selection$way = selectionmemif ] && command -v NPopenmpi >/dev/null && [ "$count" = 2 ]; then
			right netpipe "$way" 2 'Integrity check passed' NPopenmpi -i -u 100000 ${perturbed[@]+"${perturbed[@]}"} -o "$dir/np.out"
		fi
		if [ "$selection" != given ] && /usr/bin/python3 -c 'import mpi4py' 2>/dev/null; then
			right ring "$way" "$count" 'time for .* loops' /usr/bin/python3 -m mpi4py.bench ringtest -l 20 -n 100000
		fi
		[ -n "${NPB_DIR:-}" ] && [ "$selection" != selection ] || continue
		for class in ${CLASSES:-S W A}; do
			for program in "$NPB_DIR"/*."$class"."$count"; do
				[ -x "$program" ] || continue
				name=$(basename "$program" ".$count")
				right "npb_$name" "$way" "$count" 'verification *(=)? *successful' "$program"
			done
		done
	done
done
exit $failed
