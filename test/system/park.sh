#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: park.sh BUILD_DIR [SECONDS]
# Parking (PM-PREEMPT; preempt.c): stopped jobs give their packet buffers to others, on two primaries on which two contexts may have
# any at once (limits.resident). What a parked job has sent and is sent arrives once and in order; buffers return; there is never room
# for one too many; clients are killed and close, primaries are replaced, coordinators die. Then five jobs of 13 contexts take turns
# for SECONDS (5; 12 in the full tier), on primaries that have buffers for one job only.
set -u
. "$(dirname "$0")/common.bash"

seconds=5
! full || seconds=12
seconds=${2:-$seconds}
need_hugepages park 320
nodes="0 1" suite=park
. "$(dirname "$0")/preempt.bash"

ini() { # NODE CONTEXTS RESIDENT [RETRIES FLOW_IDLE_MS]
	node_ini "$1" <<-END
		[engine]
		idle = adaptive
		rendezvous = 8192
		[proto]
		rto_max_us = 50000
		retries = ${4:-40}
		keepalive_ms = 1000
		flow_idle_ms = ${5:-1000}
		[access]
		socket = $dir/door/$1.sock
		mode = 0666
		[limits]
		contexts = $2
		resident = $3
	END
}

unpromised() { counter "$1" mbufs_unpromised; }
refused() { # TEST CODE PATTERN NODE COMMAND...: pmx-ctl does not do it, and says why
	local name=$1 code=$2 pattern=$3 node=$4 got=0
	shift 4
	at "$node" "$@" >"$dir/refused.log" 2>&1 || got=$?
	if [ $got -eq "$code" ] && grep -qE -- "$pattern" "$dir/refused.log"; then
		ok "$name"
	else
		not_ok "$name" "exit code $got, not $code, or no '$pattern'" "$dir/refused.log"
	fi
}

for i in $nodes; do
	ini $i 8 2
	begin $i
done
before=$(holdings)
free=$(unpromised 0)

# ---- what is parked gives its buffers back, and gets them again
client a 0 9 0
client b 1 0 1
used=$((free - $(unpromised 0)))
[ "$used" -ge 256 ] && ok park_buffers__are_promised || not_ok park_buffers__are_promised "$used"
at 0 freeze 9 >/dev/null
hears park_sender__submits a 'send 1:1 20' 'send: 20'
at 0 park 9 >"$dir/park.log" && ok park_sender__parks || not_ok park_sender__parks "" "$dir/park.log"
sed 's/^/# /' "$dir/park.log"
job_is park_sender__is_parked 0 9 'parked 1 1 1 1'
equal park_buffers__come_back "$(unpromised 0)" "$free"
hears park_sender__begins_nothing b 'none 300' 'none: 0'
hears "" b 'send 0:0 30' 'send: 30'
sleep 1
hears park_receiver__gets_nothing a 'none 200' 'none: 0'
at 0 load 9 >"$dir/load.log" && ok park_load__loads || not_ok park_load__loads "" "$dir/load.log"
sed 's/^/# /' "$dir/load.log"
job_is park_load__stays_stopped 0 9 'stopped 1 1 1 0'
equal park_buffers__are_promised_again "$((free - $(unpromised 0)))" "$used"
hears park_load__begins_nothing b 'none 200' 'none: 0'
at 0 thaw 9 >/dev/null
hears park_sender__goes_on b 'take 20' 'take: 20'
hears park_receiver__goes_on a 'take 30' 'take: 30'
hears park_sender__sees_it_off a ended 'ended: 0'
hears park_receiver__no_error b ended 'ended: 0'

# ---- what has left and was not Acked, since the other node stands still
kill -STOP "${primaries[1]}"
hears "" a 'send 1:1 20' 'send: 20'
for i in 1 2; do
	at 0 park 9 >/dev/null && ok park_unacked__parks_$i || not_ok park_unacked__parks_$i ""
	equal park_unacked__buffers_come_back_$i "$(unpromised 0)" "$free"
	at 0 load 9 >/dev/null
done
kill -CONT "${primaries[1]}"
at 0 thaw 9 >/dev/null
hears park_unacked__arrives b 'take 20' 'take: 20'
hears park_unacked__no_error a ended 'ended: 0'

# ---- twice, by thaw alone, and what was taken before
hears "" a 'send 1:1 200' 'send: 200'
for i in 1 2; do
	at 0 park 9 >/dev/null && ok park_twice__$i || not_ok park_twice__$i ""
done
at 0 thaw 9 >/dev/null
hears park_twice__all_arrives b 'take 200' 'take: 200'
hears park_twice__no_error a ended 'ended: 0'
at 0 load 9 >/dev/null && ok park_load__of_what_runs || not_ok park_load__of_what_runs ""
job_is park_load__of_what_runs_changes_nothing 0 9 'runs 1 0'

# ---- by itself
hears park_self__parks a park 'park: 0'
equal park_self__gives_buffers_back "$(unpromised 0)" "$free"
hears "" b 'send 0:0 5' 'send: 5'
hears park_self__receives_nothing a 'none 300' 'none: 0'
hears "" a 'send 1:1 7' 'send: 7'
hears park_self__starts a start 'start: 0'
hears park_self__receives a 'take 5' 'take: 5'
hears park_self__sends b 'take 7' 'take: 7'

# ---- messages within the node that found no room
client c 0 9 1
filled() { # as many messages as there is room for from a to c, N at most; sets sent
	: >"$dir/a.log"
	say a "fill 0:1 ${1:-1000}"
	wait_for 60 grep -q '^fill' "$dir/a.log" || not_ok park_local__fill "" "$dir/a.log"
	sent=$(awk '$1 == "fill:" {print $2}' "$dir/a.log")
}
taken() { # TEST: c takes them, and a sees them off
	: >"$dir/a.log"
	say a ended
	hears "$1" c "take $sent" "take: $sent"
	hears "$1_without_error" a '' 'ended: 0'
}
filled
at 0 park 9 >/dev/null
job_is park_local__parks 0 9 'parked 2 2 2 2'
equal park_local__buffers_come_back "$(unpromised 0)" "$free"
at 0 load 9 >/dev/null
at 0 park 9 >/dev/null
equal park_local__buffers_come_back_again "$(unpromised 0)" "$free"
sleep 0.3
at 0 thaw 9 >/dev/null
taken park_local__all_arrives_in_order
echo "# $sent messages within the node, of which some found no room"
# only their sender is parked
filled
hears "" a park 'park: 0'
hears park_local__what_has_arrived_can_be_taken c 'take 5' 'take: 5'
sent=$((sent - 5))
hears "" a start 'start: 0'
taken park_local__the_rest_arrives
# it ends meanwhile
filled
hears "" a park 'park: 0'
dies a
job_is park_local__sender_dies 0 9 'runs 1 0'
quits c
client a 0 9 0
hears "" a 'send 1:1 1' 'send: 1'
hears park_local__its_successor_works b 'fresh 0:0 1' 'fresh: 1'

# ---- there is room for two
client c 0 10 1
client d 0 11 "" # not yet open
hears park_room__third_is_refused d 'open 2' 'open: ENOSPC'
at 0 park 9 >/dev/null
hears park_room__third_opens d 'open 2' 'open: 0'
refused park_room__no_room_to_load 1 'job 9: others have the packet buffers: park or end another job' 0 load 9
refused park_room__no_room_to_thaw 1 'job 9: others have the packet buffers' 0 thaw 9
job_is park_room__stays_parked 0 9 'parked 1 1 1 1'
hears park_room__nor_by_itself a start 'start: ENOSPC'
at 0 park 10 >/dev/null
at 0 thaw 9 >/dev/null && ok park_room__another_is_parked || not_ok park_room__another_is_parked ""
hears "" a 'send 1:1 3' 'send: 3'
hears park_room__goes_on b 'take 3' 'take: 3'
hears "" a ended 'ended: 0'
# a job of two contexts of which there is room for one: none is loaded
at 0 park 9 >/dev/null
client e 0 9 3
job_is park_open__is_parked 0 9 'parked 2 2 2 2'
refused park_room__all_or_none 1 'job 9: others have' 0 thaw 9
job_is park_room__none_is_loaded 0 9 'parked 2 2 2 2'
hears park_open__submits e 'send 1:1 4' 'send: 4'
hears park_open__begins_nothing b 'none 300' 'none: 0'
hears "" b 'send 0:3 6' 'send: 6'
quits d
at 0 thaw 9 >/dev/null && ok park_open__goes_on || not_ok park_open__goes_on ""
hears park_open__sends b 'take 4' 'take: 4'
hears park_open__receives e 'take 6' 'take: 6'
hears park_open__no_error b ended 'ended: 0'
quits e c
at 0 thaw 10 >/dev/null
job_is park_room__ended 0 9 'runs 1 0'

# ---- primaries are replaced
client c 0 9 1
filled 640
hears "" b 'send 0:0 40' 'send: 40'
hears "" b ended 'ended: 0'
at 0 freeze 9 >/dev/null
hears "" a 'send 1:1 40' 'send: 40'
hears "" b 'send 0:0 60' 'send: 60'
at 0 park 9 >/dev/null
for i in 0 1; do
	taken_over "park_taken_over__replaced_$i" $i
	job_is "park_taken_over__still_parked_$i" 0 9 'parked 2 2 2 2'
done
equal park_taken_over__buffers "$(unpromised 0)" "$free"
hears park_taken_over__receives_nothing b 'none 300' 'none: 0'
at 0 thaw 9 >/dev/null && ok park_taken_over__goes_on || not_ok park_taken_over__goes_on ""
hears park_taken_over__sends b 'take 40' 'take: 40'
hears park_taken_over__receives a 'take 100' 'take: 100'
hears park_taken_over__no_error b ended 'ended: 0'
taken park_taken_over__local_messages_arrive
quits c

# ---- the coordinator is killed
start "$dir/holds.log" "$ctl" --instance "$dir/door/0.sock" park 9 --hold
job_is park_hold__parks 0 9 'parked 1 1 1 1'
end "$last" KILL
job_is park_hold__goes_on_when_killed 0 9 'runs 1 0'
start "$dir/holds.log" "$ctl" --instance "$dir/door/0.sock" park 9 --hold
holder=$last
job_is park_hold__parks_again 0 9 'parked 1 1 1 1'
client c 0 10 1
client d 0 10 2
end "$holder" KILL
says_so() { grep -q 'job 9 stays parked, though who held it has ended' "$dir/0.log"; }
wait_for 60 says_so && ok park_hold__says_so || not_ok park_hold__says_so "" "$dir/0.log"
job_is park_hold__stays_parked_without_room 0 9 'parked 1 1 1 1'

# ---- closes while it is parked: without room what it has sent ends; with room it arrives
hears "" b 'send 0:0 5' 'send: 5'
hears park_close__without_room a close 'close: 0'
hears park_close__peer_is_told b ended 'ended: ECONN(RESET|REFUSED)'
hears "" a 'open 0' 'open: 0'
job_is park_close__job_stays_parked 0 9 'parked 1 1 1 1'
hears "" a 'send 1:1 5' 'send: 5'
quits d
hears park_close__with_room a close 'close: 0'
hears park_close__what_it_sent_arrives b 'fresh 0:0 5' 'fresh: 5'
quits c

# ---- is killed while it is parked
at 0 thaw 9 >/dev/null
hears "" a 'open 0' 'open: 0'
hears "" a 'send 1:1 1' 'send: 1'
hears "" b 'fresh 0:0 1' 'fresh: 1'
at 0 freeze 9 >/dev/null
hears "" a 'send 1:1 50' 'send: 50'
hears "" b 'send 0:0 20' 'send: 20'
at 0 park 9 >/dev/null
dies a
hears park_killed__peer_is_told b ended 'ended: ECONN(RESET|REFUSED)'
quits b
at 0 thaw 9 >/dev/null
nothing_is_left park_killed__nothing_is_left

# ---- who cannot be parked, and wrong arguments
start_fed "$dir/s.log" env PMX_JOB=13 PMX_ATTACH=secondary "$build/test/stopped" "${tag}0" 1 hold
second=$last to_second=$to
wait_for 60 grep -q ready "$dir/s.log" || not_ok park_secondary__attaches "" "$dir/s.log"
refused park_secondary__cannot 1 'job 13: it has contexts of secondaries, .*: freeze it' 0 park 13
job_is park_secondary__runs_on 0 13 'runs 1 0'
echo >&"$to_second"
wait "$second"
exec {to_second}>&-
refused park_wrong__no_job 2 'not the number of a job' 0 park
refused park_wrong__job_0 2 'not the number of a job' 0 load 0
refused park_wrong__drain_with_load 2 'options of freeze and park' 0 load 7 --drain 3
at 0 park 99 >"$dir/none.log" && grep -q 'those that it opens are parked' "$dir/none.log" && ok park_wrong__job_without_contexts ||
	not_ok park_wrong__job_without_contexts "" "$dir/none.log"
at 0 thaw 99 >/dev/null
for i in $nodes; do
	end "${primaries[i]}" TERM
done

# ---- notes: of jobs without contexts, the last ones count
for i in $nodes; do
	ini $i 8 2
	sed -i 's/^retries = .*/retries = 100/' "$dir/$i.ini" # a primary that is stopped answers later
	begin $i
done
before=$(holdings)
for ((i = 0; i < 256; i++)); do echo "freeze $((100 + i)) 0 parked"; done | timeout 20 "$ctl" --instance "$dir/door/0.sock" gang >"$dir/notes.log"
equal park_notes__are_256 "$(grep -c '^ok' "$dir/notes.log")" 256
at 0 freeze 9 >/dev/null && ok park_notes__more_replace_old_ones || not_ok park_notes__more_replace_old_ones ""
client a 0 9 0
job_is park_notes__are_of_one_job 0 9 'stopped 1 1 1 0'
at 0 thaw 9 >/dev/null

# ---- what drains when it is to be parked, since its peer does not answer
client b 1 0 1
drains() { # TEST: the job is to be parked when b's primary has answered
	kill -STOP "${primaries[1]}"
	hears "" a 'send 1:1 5' 'send: 5'
	start "$dir/drains.log" timeout 30 "$ctl" --instance "$dir/door/0.sock" park 9 --drain 9000
	job_is "$1" 0 9 'draining 1 1 0 0'
}
hears "" a 'send 1:1 1' 'send: 1'
hears "" b 'take 1' 'take: 1'
drains park_drains__until_answered
client c 0 9 1
client d 0 10 2
refused park_drains__no_room_to_load 1 'job 9: others have' 0 load 9
kill -CONT "${primaries[1]}"
job_is park_drains__is_parked_after_all 0 9 'parked 2 2 2 2'
quits d
at 0 thaw 9 >/dev/null
hears park_drains__sends b 'take 5' 'take: 5'
hears park_drains__no_error a ended 'ended: 0'
quits c
drains park_drains__again
taken_over park_drains__taken_over 0
job_is park_drains__is_parked_by_the_next_primary 0 9 'parked 1 1 1 1'
kill -CONT "${primaries[1]}"
at 0 thaw 9 >/dev/null
hears park_drains__next_primary_sends b 'take 5' 'take: 5'
hears park_drains__no_error_there a ended 'ended: 0'

# ---- senders that have ended do not keep the buffers that their receiver needs to take what they sent
at 0 park 9 >/dev/null
client c 0 0 1
client d 0 0 2
for k in c d; do hears "" $k 'send 0:0 3' 'send: 3'; done
quits c d
wait_for 60 at 0 thaw 9 >/dev/null && ok park_ended__sender_leaves_its_room || not_ok park_ended__sender_leaves_its_room ""
hears park_ended__what_it_sent_arrives a 'fresh 0:1 6' 'fresh: 6'
quits a b
nothing_is_left park_drains__nothing_is_left
for i in $nodes; do
	end "${primaries[i]}" TERM
done

# ------------------------------------------------------------------ five jobs of 13 contexts, room for one

jobs_of_gang=(21 22 23 24 25)
: >"$dir/gang.nodes"
# A primary that gets no CPU for half of flow_idle opens its flows anew, which ends messages: one of these two may wait long for its CPU.
for i in $nodes; do
	ini $i 35 7 100 4000
	begin $i
	echo "node$i instance=$dir/door/$i.sock" >>"$dir/gang.nodes"
done
before=$(holdings)
start "$dir/gang.log" env PMX_CTL="$ctl" "$build/app/pmx-gang" --nodes "$dir/gang.nodes" --agent 'env HOST={}' --park --processes \
	--slice 100 alternate "${jobs_of_gang[@]}"
gang=$last
for i in $nodes; do
	# before their processes open contexts, for which there is no room
	job_is "park_gang__holds_$i" "$i" 25 'stopped 0'
done
for k in 0 1 2 3 4; do
	list=()
	for c in 0 1 2 3 4 5 6; do
		list+=("0:$((7 * k + c))")
		[ $c = 6 ] || list+=("1:$((6 * k + c))")
	done
	rank=0
	for m in "${list[@]}"; do
		member "${jobs_of_gang[k]}" 0 $k "${m%:*}" $rank "${list[@]}"
		rank=$((rank + 1))
	done
done
sleep "$seconds"
at 0 jobs | sed 's/^/# /'
at_most park_gang__residents "$(at 0 jobs | awk '$3 > 0 {n += $3 - $6} END {print n}')" 7
ended park_gang "${jobs_of_gang[@]}"
wait_for 60 gone "$gang" || { kill -TERM "$gang"; not_ok park_gang__ends "" "$dir/gang.log"; }
wait "$gang" && ok park_gang__takes_turns || not_ok park_gang__takes_turns "exit code $?" "$dir/gang.log"
sed 's/^/# /' "$dir/gang.log"
nothing_is_left park_gang__nothing_is_left
exit $failed
