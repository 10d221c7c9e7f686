#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: collectives.sh BUILD_DIR
# Collectives of processes on two primaries: as secondaries and as thin clients, with members that sleep, over links that lose, and
# while primaries are replaced; and members that are killed in their midst: all others hear of the same one.
#   KILLS=N   so many of these (8)
set -u
. "$(dirname "$0")/common.bash"
suite=collectives
. "$(dirname "$0")/group_members.bash"

eight=(0:0 1:0 0:1 1:1 0:2 1:2 0:3 1:3)

# together TEST COMMAND ANSWER MEMBER...
together() {
	local name=$1 command=$2 answer=$3 r
	shift 3
	members 60000 "$@"
	for ((r = 0; r < $#; r++)); do hears "${name}__opens_$r" $r 'open: 0'; done
	for ((r = 0; r < $#; r++)); do say $r "$command"; done
	for ((r = 0; r < $#; r++)); do hears "${name}__ends_$r" $r "$answer"; done
	quits $(seq 0 $(($# - 1)))
}

PMX_ATTACH=secondary together collectives_secondary 'collectives 100 0' 'collectives: 0' 0:0 0:1 1:0 1:1
PMX_ATTACH=thin together collectives_thin 'collectives 100 0' 'collectives: 0' "${eight[@]}"
PMX_ATTACH=thin together collectives_sleeping 'collectives 30 2' 'collectives: 0' "${eight[@]}"

under_take_overs collectives_taken_over "collectives 0 0 $dir/number" 'collectives: 0'

# ------------------------------------------------------------------ killed

# What all that are left have said, if it is the same: "ERROR RANK"
verdict() { # VICTIM
	local r
	for r in 0 1 2 3 4 5 6 7; do
		[ $r = "$1" ] || grep -m 1 '^collectives: ' "$dir/m$r.log"
	done | sort | uniq -c | awk '{print $1, $3, $4} END {exit NR != 1 || $1 != 7}'
}

export PMX_ATTACH=thin
slowest=0 bad=0
full && kills=8 || kills=3
for ((turn = 0; turn < ${KILLS:-$kills}; turn++)); do
	victim=$(((turn * 3 + 1) % 8))
	members 60000 "${eight[@]}"
	for r in 0 1 2 3 4 5 6 7; do wait_for 60 grep -qx 'open: 0' "$dir/m$r.log"; done
	for r in 0 1 2 3 4 5 6 7; do say $r 'collectives 1000000 0'; done
	sleep "0.$((RANDOM % 200 + 100))"
	began=$(date +%s%N)
	dies $victim
	said() { verdict $victim >"$dir/verdict"; }
	if wait_for 60 said && grep -qxE "7 E(NOTCONN|CONNRESET) $victim" "$dir/verdict"; then
		took=$((($(date +%s%N) - began) / 1000000))
		[ $took -le $slowest ] || slowest=$took
	else
		bad=$((bad + 1))
		grep -H '^collectives' "$dir"/m?.log >"$dir/log"
		not_ok "collectives_killed__turn_$turn" "member $victim was killed, and the others say:" "$dir/log"
	fi
	for r in 0 1 2 3 4 5 6 7; do
		[ $r = $victim ] || { say $r quit; wait "${pid[$r]}"; exec {in[$r]}>&-; }
	done
done
[ $bad -ne 0 ] || ok "collectives_killed__all_name_the_same"
echo "# $turn kills; all had said so after $slowest ms at most, as seen from here"
unset PMX_ATTACH

# ------------------------------------------------------------------ over links that lose

for i in 0 1; do end "${primaries[i]}" TERM; done
lossy=1
for i in 0 1; do
	ini $i
	primary $i -l $i -m 96 || not_ok collectives_lossy_start ""
done
PMX_ATTACH=thin together collectives_lossy 'collectives 50 0' 'collectives: 0' 0:0 0:1 1:0 1:1
exit $failed
