#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: group_killed.sh BUILD_DIR [EVERY [thin|secondary]]
# Members of a group that are killed (SIGKILL) at every EVERY-th step (211; 23 in the full tier) of all that a group can do, each rank in turn: so also the
# holder of a lock, its manager, the home of a region, rank 0 (group_killed.c). The others' requests end in bounded time, and nothing
# of the dead is left in the primaries.
set -u
. "$(dirname "$0")/common.bash"
every=211
! full || every=23
every=${2:-$every}
export PMX_ATTACH=${3:-thin}
need_hugepages group_killed 256
killed=$build/test/group_killed

for i in 0 1; do
	node_ini "$i" net_memif0 <<-END
		mtu = 4000
		[engine]
		idle = sleep
		[proto]
		rto_max_us = 50000
		retries = 100
		keepalive_ms = 100
		flow_idle_ms = 1000
		[limits]
		mbufs = 8192
		contexts = 8
	END
done
primary 0 -l 0 -m 96 --vdev=net_memif0,role=server,socket="$dir"/m.sock,socket-abstract=no,bsize=4224 || { not_ok group_killed_start ""; exit 1; }
primaries=("$last")
primary 1 -l 1 -m 96 --vdev=net_memif0,role=client,socket="$dir"/m.sock,socket-abstract=no,bsize=4224 || { not_ok group_killed_start ""; exit 1; }
primaries+=("$last")

# What must be as before: also open contexts and groups.
holdings() {
	local i
	for i in 0 1; do books $i "${primaries[i]}" contexts groups; done
}
# flows are remembered for all retries: at the end of all none may be left
without_flows() { sed 's/flows_[01]=[0-9]* //g' <<<"$1"; }
as_before() { now=$(holdings); [ "$(without_flows "$now")" = "$(without_flows "$before")" ]; }

number=0
# run VICTIM STEP: sets `steps` and `longest` (us)
run() {
	number=$((number + 1))
	timeout 120 "$killed" "${tag}0" "${tag}1" $number "$1" "$2" >"$dir/run.log" 2>&1 && read -r steps _ longest _ < <(tail -1 "$dir/run.log")
}

run 0 0 && ok group_killed__nobody_dies || not_ok group_killed__nobody_dies "" "$dir/run.log"
# flows of what was before have ended
is_quiet() { before=$(holdings); [[ $before == *flows_0=0\ * && $before == *flows_1=0\ * ]]; }
wait_for 60 is_quiet || not_ok group_killed__is_quiet "$before"
for victim in 0 1 2 3; do
	run $victim 0 || { not_ok "group_killed__rank_$victim" "" "$dir/run.log"; continue; }
	all=$steps most=0 n=0 bad=0
	for ((k = 1 + RANDOM % every; k <= all && bad < 5; k += every)); do
		n=$((n + 1))
		if ! run $victim $k; then
			not_ok "group_killed__rank_${victim}_step_$k" "" "$dir/run.log"
			bad=$((bad + 1))
		elif [ "$longest" -gt "$most" ]; then
			most=$longest
		fi
		if ! wait_for 60 as_before; then
			not_ok "group_killed__rank_${victim}_step_$k" "left something"
			echo "# before: $before"
			echo "# after:  $now"
			bad=$((bad + 1))
			before=$now
		fi
	done
	wait_for 60 is_quiet && ok "group_killed__rank_${victim}_leaves_no_flow" || not_ok "group_killed__rank_${victim}_leaves_no_flow" "$before"
	[ $bad -ne 0 ] || ok "group_killed__rank_$victim # $n of $all steps; a request of the others took $((most / 1000)) ms at most"
done
run 0 0 && ok group_killed__nobody_dies_then || not_ok group_killed__nobody_dies_then "" "$dir/run.log"
for i in 0 1; do
	kill -0 "${primaries[i]}" 2>/dev/null && ok "group_killed__primary_${i}_lives" || not_ok "group_killed__primary_${i}_lives" "" "$dir/$i.log"
done
exit $failed
