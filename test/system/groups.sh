#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: groups.sh BUILD_DIR
# Groups of processes on two primaries over UDP sockets (groups.c): as secondaries and as thin clients; who dies (SIGKILL), and
# what the others then hear: a member, the holder of a lock, a lock's manager, rank 0, a whole primary.
set -u
. "$(dirname "$0")/common.bash"

suite=groups
. "$(dirname "$0")/group_members.bash"

# ------------------------------------------------------------------ at work

for how in secondary thin; do
	export PMX_ATTACH=$how
	members 60000 0:0 0:1 1:0 1:1
	for r in 0 1 2 3; do hears "groups_${how}__opens_$r" $r 'open: 0'; done
	rm -f "$dir/number"
	for r in 0 1 2 3; do say $r "work 500 2 $dir/number"; done
	for r in 0 1 2 3; do hears "groups_${how}__locks_exclude_$r" $r 'work: 0'; done
	# nobody polls: who waits, sleeps
	for r in 0 1 2; do say $r barrier; done
	sleep 0.3
	if grep -q barrier "$dir"/m[012].log; then
		not_ok "groups_${how}__waits_for_all" "" "$dir/m0.log"
	else
		ok "groups_${how}__waits_for_all"
	fi
	say 3 barrier
	for r in 0 1 2 3; do hears "groups_${how}__barrier_$r" $r 'barrier: 0'; done
	say 1 'lock 0'
	hears "groups_${how}__lock" 1 'lock 0: 0'
	say 2 'try 0'
	hears "groups_${how}__try" 2 'try 0: EBUSY'
	say 3 'lock 0'
	shows "groups_${how}__ctl_members" 0 "^ *$id +1 +4 +0 +1 +open +3 +1$"
	shows "groups_${how}__ctl_locks" 0 "^ *$id +0 +0 +1 3$"
	quits 0 1 2 3
done
unset PMX_ATTACH

# ------------------------------------------------------------------ who does not come, or leaves

members 4000 0:0 0:1/ 1:0
hears groups_open__names_who_is_missing 0 'open: ETIMEDOUT 1'
hears groups_open__names_who_is_missing_there 2 'open: ETIMEDOUT 1'
quits 0 2

members 60000 0:0 0:1 1:0 1:1
for r in 0 1 2 3; do hears groups_leave__opens_$r $r 'open: 0'; done
say 3 'lock 1'
hears groups_leave__lock 3 'lock 1: 0'
say 0 'lock 1'
say 1 barrier
shows groups_leave__waits 0 "^ *$id +1 .* in 1 "
say 3 close
hears groups_leave__lock_goes_on 0 'lock 1: EOWNERDEAD'
hears groups_leave__barrier_ends 1 'barrier: ECONNRESET 3'
hears groups_leave__event 2 'gone: 0 3'
quits 0 1 2 3

# ------------------------------------------------------------------ who dies

for how in thin $(full && echo secondary); do
	export PMX_ATTACH=$how
	members 60000 0:0 0:1 1:0 1:1
	for r in 0 1 2 3; do hears "groups_kill_${how}__opens_$r" $r 'open: 0'; done
	say 3 'lock 2'
	hears "groups_kill_${how}__lock" 3 'lock 2: 0'
	for r in 0 1; do say $r 'lock 2'; done
	for r in 0 1 2; do say $r barrier; done
	sleep 0.2
	began=$(date +%s%N)
	dies 3
	for r in 0 1 2; do hears "groups_kill_${how}__barrier_ends_$r" $r 'barrier: ECONNRESET 3'; done
	echo "# $((($(date +%s%N) - began) / 1000000)) ms from the kill until all were told"
	if wait_for 60 grep -qxE 'lock 2: EOWNERDEAD' "$dir/m0.log" "$dir/m1.log"; then
		ok "groups_kill_${how}__lock_goes_on"
	else
		not_ok "groups_kill_${how}__lock_goes_on" "" "$dir/m0.log"
	fi
	# a lock's manager
	dies 2
	hears "groups_kill_${how}__event" 0 'gone: 0 2'
	say 0 'lock 6'
	hears "groups_kill_${how}__manager" 0 'lock 6: EHOSTDOWN 2'
	# rank 0
	say 1 barrier
	sleep 0.2
	dies 0
	hears "groups_kill_${how}__rank_0" 1 'over: ECONNRESET 0'
	hears "groups_kill_${how}__rank_0_barrier" 1 'barrier: ECONNRESET 0'
	quits 1
done
unset PMX_ATTACH

# sharers of a region, and its home: who shares it goes on, until the home has gone
for how in thin $(full && echo secondary); do
	export PMX_ATTACH=$how
	members 60000 0:0 0:1 1:0 1:1
	for r in 0 1 2 3; do hears "groups_region_${how}__opens_$r" $r 'open: 0'; done
	for r in 2 0 3 1; do say $r 'subscribe 1'; done
	for r in 0 1 2 3; do hears "groups_region_${how}__subscribes_$r" $r 'subscribe 1: 0'; done
	say 3 'update 1 5'
	hears "groups_region_${how}__update" 3 'update 1 5: 0'
	say 2 'byte 1'
	hears "groups_region_${how}__byte" 2 'byte: 5'
	# in the midst of an update, or before, or behind it
	say 3 'update 1 6'
	dies 3
	say 0 'update 1 7'
	hears "groups_region_${how}__goes_on" 0 'update 1 7: (0|(ECONN(RESET|REFUSED)|ENOTCONN) 3)'
	hears "groups_region_${how}__sharer_gone" 0 'gone: .* 3'
	say 2 'update 1 8'
	hears "groups_region_${how}__goes_on_without" 2 'update 1 8: 0'
	say 0 'byte 1'
	hears "groups_region_${how}__byte_then" 0 'byte: 8'
	dies 1
	hears "groups_region_${how}__home_gone" 0 'gone: .* 1'
	say 0 'update 1 9'
	hears "groups_region_${how}__ends" 0 'update 1 9: EHOSTDOWN 1'
	say 2 'byte 1'
	hears "groups_region_${how}__copies_stay" 2 'byte: 8'
	quits 0 2
done
unset PMX_ATTACH

# their contexts are free, and there is room: the same again, at once
members 60000 0:0 0:1 1:0 1:1
for r in 0 1 2 3; do hears groups_again__opens_$r $r 'open: 0'; done
say 2 'lock 0'
hears groups_again__lock 2 'lock 0: 0'

# ------------------------------------------------------------------ a primary dies

for r in 0 3; do say $r barrier; done
sleep 0.2
end "${primaries[1]}" KILL
rm -f /dev/hugepages/"${tag}1"map_*
rm -rf "$RUNTIME_DIRECTORY/dpdk/${tag}1"
hears groups_primary__barrier_ends 0 'barrier: ECONNRESET [23]'
for r in 2 3; do hears groups_primary__members_gone_$r 0 "gone: .* $r"; done
say 1 'lock 0'
hears groups_primary__lock_goes_on 1 'lock 0: EOWNERDEAD'
ini 1
primary 1 -l 1 -m 96 || not_ok groups_primary__restart ""
primaries[1]=$last
for r in 2 3; do say $r reattach; done
for r in 2 3; do hears groups_primary__reattach_$r $r 'reattach: 0'; done
hears groups_primary__request_ends 3 'barrier: ECONNRESET 3'
hears groups_primary__over 2 'over: ECONNRESET 2'
# the barrier that member 0 was in ended so for member 1 as well
say 1 barrier
hears groups_primary__barrier_ends_later 1 'barrier: ECONNRESET [23]'
for r in 0 1; do say $r barrier; done
for r in 0 1; do hears groups_primary__others_go_on_$r $r 'barrier: 0'; done
quits 0 1 2 3
members 60000 0:0 0:1 1:0 1:1
for r in 0 1 2 3; do hears groups_restarted__opens_$r $r 'open: 0'; done
rm -f "$dir/number"
for r in 0 1 2 3; do say $r "work 50 1 $dir/number"; done
for r in 0 1 2 3; do hears groups_restarted__works_$r $r 'work: 0'; done
quits 0 1 2 3

# ------------------------------------------------------------------ primaries take over from each other, and nobody notices

rm -f "$dir/number"
under_take_overs groups_taken_over__locks "work 0 2 $dir/number" 'work: 0'
under_take_overs groups_taken_over__region "share 0 4 $dir/number" 'share: 0'

# ------------------------------------------------------------------ a shared region, over a link that loses

for i in 0 1; do end "${primaries[i]}" TERM; done
lossy=1
for i in 0 1; do
	ini $i
	primary $i -l $i -m 96 || not_ok groups_shared__start ""
done
members 60000 0:0 0:1 1:0 1:1 0:2 1:2
for r in 0 1 2 3 4 5; do hears groups_shared__opens_$r $r 'open: 0'; done
for r in 0 1 2 3 4 5; do say $r "share ${GROUP_ROUNDS:-200} 4"; done
shows groups_shared__ctl 0 "^ *$id +1 +1 +0 1 2 3"
for r in 0 1 2 3 4 5; do PATIENCE=${GROUP_PATIENCE:-120} hears groups_shared__copies_equal_$r $r 'share: 0'; done
quits 0 1 2 3 4 5
exit $failed
