#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: preempt.sh BUILD_DIR [FREEZES]
# Network preemption (PM-PREEMPT; preempt.c): a job on three primaries over UDP sockets that lose 5 % is stopped and goes on at random
# nodes and moments, FREEZES times (50; 300 in the full tier), some longer than all retries, beside a job that is not: nothing is lost, nothing
# comes twice, nobody is told an error. Then single cases over links that lose nothing: what a stopped receiver costs others; who is
# killed, stopped (SIGSTOP), closes or opens meanwhile; who may stop whom; primaries that are replaced; wrong arguments.
set -u
. "$(dirname "$0")/common.bash"

freezes=50
! full || freezes=300
freezes=${2:-$freezes}
need_hugepages preempt 320
nodes="0 1 2" suite=preempt
. "$(dirname "$0")/preempt.bash"
# All retries take 4 + 8 + 16 + 32 + 97 * 50 ms: a process without a CPU for that long, or behind a primary that tries in vain to hand over,
# which takes up to 3 s, loses messages that nobody has stopped. In the single cases they are fewer, as flows are remembered for as long.
rto_max_us=50000
retries=100
long_ms=5200

ini() { # NODE FAULT
	local k
	cat >"$dir/$1.ini" <<-END
		[node]
		id = $1
		name = $tag$1
		[engine]
		idle = adaptive
		rendezvous = 8192
		matching = $([ "$1" -eq 2 ] && echo engine || echo client)
		[link 0]
		driver = udp
		listen = 127.0.0.1:$((port + $1))
		$2
		[proto]
		rto_max_us = $rto_max_us
		retries = $retries
		keepalive_ms = 1000
		flow_idle_ms = 1000
		[access]
		socket = $dir/door/$1.sock
		mode = 0666
		[limits]
		mbufs = 16384
		contexts = 8
		[nodes]
	END
	for k in 0 1 2; do
		echo "$k = 127.0.0.1:$((port + k))" >>"$dir/$1.ini"
	done
}

for i in 0 1 2; do
	ini $i "fault = loss=5%,seed=$i"
	begin $i
done
before=$(holdings)
members 7 500 0:0 1:0 2:0 0:1 1:1 2:1
members 8 0 0:2 1:2 2:2 0:3 1:3 2:3
if timeout 300 "$preempt" driver 7 "$freezes" $long_ms "$dir"/door/[012].sock >"$dir/driver.log" 2>&1; then
	ok "preempt_random__freezes"
else
	not_ok "preempt_random__freezes" "exit code $?" "$dir/driver.log"
fi
sed 's/^/# /' "$dir/driver.log"
# before members leave, which tell each other of it
for i in 0 1 2; do
	failures="$(counter $i proto_messages_failed) $(counter $i proto_peer_deaths)"
	equal "preempt_random__no_message_failed_$i" "$failures" "0 0"
	[ "$failures" = "0 0" ] || "$ctl" --instance "$tag$i" stat --all | awk '$2 > 0 {print "#", $1, $2}'
done
ended preempt_random 7 8
nothing_is_left preempt_random__nothing_is_left

# ------------------------------------------------------------------ primaries take over while the job is stopped

# Pulls, offers and messages within the node that wait for who is stopped cannot be moved: then it is refused, and all goes on.
members 7 0 0:0 1:0 2:0 0:1 1:1 2:1
sleep 0.5
at 0 freeze 7 >/dev/null || not_ok preempt_taken_over__freeze ""
for i in 0 1; do
	OPTIONS=(--take-over)
	if start_primary $i -l $i -m 192 >"$dir/taken.log"; then
		old=${primaries[i]}
		primaries[i]=$last
		wait_for 60 gone "$old" || not_ok "preempt_taken_over__$i" "the old primary does not end"
		echo "# the primary of node $i was replaced"
		ok "preempt_taken_over__$i"
	elif grep -q 'transfers or contexts that end do not' "$dir/taken.log" && kill -0 "${primaries[i]}"; then
		echo "# the primary of node $i refused to be replaced"
		ok "preempt_taken_over__$i"
	else
		not_ok "preempt_taken_over__$i" "" "$dir/taken.log"
	fi
	OPTIONS=()
	job_is "preempt_taken_over__stays_stopped_$i" 0 7 'stopped 2 2'
done
job_is preempt_taken_over__runs_elsewhere 1 7 'runs 2 0'
at 0 thaw 7 >/dev/null || not_ok preempt_taken_over__thaw ""
sleep 0.3
ended preempt_taken_over 7

# ------------------------------------------------------------------ single cases, over links that lose nothing

for i in 0 1 2; do
	end "${primaries[i]}" TERM
done
retries=60
for i in 0 1 2; do
	ini $i ""
	begin $i
done
before=$(holdings)

# ---- a receiver that is stopped for seconds, with a sender that floods it
start_fed "$dir/hold.log" env PMX_JOB=9 "$build/test/stopped" "$dir/door/1.sock" 1 hold
holder=$last to_hold=$to
wait_for 60 grep -q ready "$dir/hold.log" || not_ok preempt_receiver__opens "" "$dir/hold.log"
at 1 freeze 9 >/dev/null
start_fed "$dir/flood.log" "$build/test/stopped" "$dir/door/0.sock" 2 flood 1:1
flooder=$last to_flood=$to
asks() { [ "$(counter 0 proto_room_questions)" -gt 0 ]; }
wait_for 60 asks || not_ok preempt_receiver__is_asked "" "$dir/flood.log"
figures() { echo "$(counter 0 proto_window_cuts) $(counter 0 proto_timeouts) $(counter 0 proto_messages_failed)"; }
asked() { [ "$(counter 0 proto_room_questions)" -ge "$1" ]; }
# Questions of a second or more: one each rto_max, by the time between the first look and the last one. A receiver that costs windows
# does so with each of them; a host that takes the CPU away for longer than a timeout causes one now and then.
begun=$(micros)
was=$(figures) questions=$(counter 0 proto_room_questions)
wait_for 60 asked $((questions + 20)) || not_ok preempt_receiver__is_asked_again "" "$dir/flood.log"
now=$(figures) questions=$(($(counter 0 proto_room_questions) - questions))
at_most preempt_receiver__questions "$questions" $((($(micros) - begun) / rto_max_us + 10))
read -r cuts timeouts lost < <(echo "$now $was" | awk '{print $1 - $4, $2 - $5, $3 - $6}')
told="$questions questions: $cuts window cuts, $timeouts timeouts, $lost failed"
echo "# $told"
[ "$lost" = 0 ] && [ $((cuts * 4)) -le "$questions" ] && [ $((timeouts * 2)) -le "$questions" ] && ok preempt_receiver__costs_no_window ||
	not_ok preempt_receiver__costs_no_window "$told"
start "$dir/answer.log" "$build/test/sleepers" "$dir/door/1.sock" 0 answer wait 20
wait_for 60 grep -q ready "$dir/answer.log"
passes preempt_receiver__neighbours_go_on timeout 120 "$build/test/sleepers" "$dir/door/0.sock" 3 1:0 wait 20
at 1 thaw 9 >/dev/null
echo >&"$to_flood"
echo >&"$to_hold"
wait "$flooder" && ok preempt_receiver__all_is_sent || not_ok preempt_receiver__all_is_sent "" "$dir/flood.log"
wait "$holder" || not_ok preempt_receiver__all_came_in_order "" "$dir/hold.log"
exec {to_flood}>&- {to_hold}>&-
equal preempt_receiver__none_lost "$(awk '$1 == "received" {print $2}' "$dir/hold.log")" "$(awk '$1 == "sent" {print $2}' "$dir/flood.log")"
nothing_is_left preempt_receiver__nothing_is_left

# ---- a sender that is stopped
client a 0 9 0
client b 1 0 1
at 0 freeze 9 >/dev/null
hears preempt_sender__submits a 'send 1:1 20' 'send: 20'
hears preempt_sender__begins_nothing b 'none 500' 'none: 0'
at 0 thaw 9 >/dev/null
hears preempt_sender__goes_on b 'take 20' 'take: 20'
hears preempt_sender__sees_it_off a ended 'ended: 0'

# ---- by itself, twice each
for i in 1 2; do
	hears "preempt_self__stop_$i" b stop 'stop: 0'
done
hears "" a 'send 1:1 20' 'send: 20'
hears preempt_self__receives_nothing b 'none 500' 'none: 0'
for i in 1 2; do
	hears "preempt_self__start_$i" b start 'start: 0'
done
hears preempt_self__goes_on b 'take 20' 'take: 20'
hears preempt_self__no_error a ended 'ended: 0'

# ---- SIGSTOP of a process that is stopped, and the network goes on before it does
at 0 freeze 9 >/dev/null
kill -STOP "${pid[a]}"
hears "" b 'send 0:0 50' 'send: 50'
sleep 1
at 0 thaw 9 >/dev/null
sleep 0.5
kill -CONT "${pid[a]}"
hears preempt_sigstop__all_comes a 'take 50' 'take: 50'
hears preempt_sigstop__no_error b ended 'ended: 0'

# ---- the primary of the stopped one, and that of who sends to it, are replaced
at 0 freeze 9 >/dev/null
hears "" b 'send 0:0 50' 'send: 50'
hears "" a 'send 1:1 50' 'send: 50'
for i in 0 1; do
	taken_over "preempt_taken_over__replaced_$i" $i
	job_is "preempt_taken_over__still_stopped_$i" 0 9 'stopped 1 1'
done
hears preempt_taken_over__receives_nothing a 'none 300' 'none: 0'
hears preempt_taken_over__sends_nothing b 'none 300' 'none: 0'
at 0 thaw 9 >/dev/null
hears preempt_taken_over__receives a 'take 50' 'take: 50'
hears preempt_taken_over__sends b 'take 50' 'take: 50'
hears preempt_taken_over__no_error_a a ended 'ended: 0'
hears preempt_taken_over__no_error_b b ended 'ended: 0'

# ---- the coordinator is killed
start "$dir/holds.log" "$ctl" --instance "$dir/door/0.sock" freeze 9 --hold
job_is preempt_hold__stops 0 9 'stopped 1 1 1'
end "$last" KILL
job_is preempt_hold__goes_on_when_killed 0 9 'runs 1 0'
start_fed "$dir/gang.log" "$ctl" --instance "$dir/door/0.sock" gang
gang=$last to_gang=$to
echo 'hold 9' >&"$to_gang"
wait_for 60 grep -qE '^ok 1 1 [0-9]+$' "$dir/gang.log" && ok preempt_gang__freezes || not_ok preempt_gang__freezes "" "$dir/gang.log"
job_is preempt_gang__stops 0 9 'stopped 1 1 1'
printf '%s\n' 'freeze' 'freeze 0x' 'freeze 9 99999999999' 'freeze 0' 'state 9' >&"$to_gang"
wait_for 60 sh -c "[ \$(grep -c ^error '$dir/gang.log') = 4 ]" && ok preempt_gang__wrong_lines || not_ok preempt_gang__wrong_lines "" "$dir/gang.log"
end "$gang" KILL
exec {to_gang}>&-
job_is preempt_gang__goes_on_when_killed 0 9 'runs 1 0'
at 0 freeze 9 >/dev/null
sleep 0.3
job_is preempt_freeze__stays_without_hold 0 9 'stopped 1 1 1'

# ---- a process that begins in a stopped job
client c 0 9 3
job_is preempt_open__is_stopped 0 9 'stopped 2 2'
hears "" b 'send 0:3 5' 'send: 5'
hears preempt_open__receives_nothing c 'none 500' 'none: 0'
at 0 thaw 9 >/dev/null
hears preempt_open__goes_on c 'take 5' 'take: 5'
hears preempt_open__no_error b ended 'ended: 0'

# ---- a stopped context is closed
at 0 freeze 9 >/dev/null
hears "" b 'send 0:3 5' 'send: 5'
hears "" c 'send 1:1 5' 'send: 5'
sleep 0.2
begun=$(date +%s%N)
hears preempt_close__returns c close 'close: 0'
echo "# closing took $((($(date +%s%N) - begun) / 1000000)) ms"
hears preempt_close__peer_is_told b ended 'ended: ECONN(RESET|REFUSED)'
hears preempt_close__what_it_sent_arrives b 'take 5' 'take: 5'
job_is preempt_close__others_stay_stopped 0 9 'stopped 1 1 1'
at 0 thaw 9 >/dev/null
quits a b c
nothing_is_left preempt_close__nothing_is_left

# ---- a client is killed while it is stopped
client a 0 9 0
client b 1 0 1
hears "" a 'send 1:1 1' 'send: 1'
hears "" b 'take 1' 'take: 1'
at 0 freeze 9 >/dev/null
hears "" a 'send 1:1 50' 'send: 50'
hears "" b 'send 0:0 20' 'send: 20'
sleep 0.5
begun=$(date +%s%N)
dies a
hears preempt_killed__peer_is_told b ended 'ended: ECONN(RESET|REFUSED)'
took=$((($(date +%s%N) - begun) / 1000000))
echo "# $took ms from the kill until its peer was told"
quits b
at 0 thaw 9 >/dev/null
nothing_is_left preempt_killed__nothing_is_left

# ---- who may
user=(setpriv --reuid=$nobody --regid=$nobody --clear-groups)
client a 0 12 0
SETPRIV=("${user[@]}")
client b 0 12 1
SETPRIV=()
by_user() { timeout 10 "${user[@]}" "$ctl" --instance "$dir/door/0.sock" "$@"; }
by_user freeze 12 >"$dir/user.log" 2>&1
grep -q '^job 12: 1 of 1 contexts' "$dir/user.log" && ok preempt_user__stops_his_own || not_ok preempt_user__stops_his_own "" "$dir/user.log"
job_is preempt_user__and_no_others 0 12 'partly stopped 2 1'
by_user thaw 12 >/dev/null
job_is preempt_user__starts_his_own 0 12 'runs 2 0'
at 0 freeze 12 >/dev/null
job_is preempt_root__stops_all 0 12 'stopped 2 2'
by_user thaw 12 >/dev/null
job_is preempt_user__does_not_start_others 0 12 'partly stopped 2 1'
hears "" b 'send 0:0 5' 'send: 5'
hears preempt_user__root_stays_stopped a 'none 300' 'none: 0'
at 0 thaw 12 >/dev/null
hears preempt_root__goes_on a 'take 5' 'take: 5'
quits a b
nothing_is_left preempt_user__nothing_is_left

# ---- wrong arguments
wrong() { # TEST CODE ARGUMENTS...
	local name=$1 code=$2 got=0
	shift 2
	at 0 "$@" >"$dir/wrong.log" 2>&1 || got=$?
	[ $got -eq "$code" ] && [ -s "$dir/wrong.log" ] && ok "preempt_wrong__$name" ||
		not_ok "preempt_wrong__$name" "exit code $got, not $code" "$dir/wrong.log"
}
wrong no_job 2 freeze
wrong job_0 2 freeze 0
wrong job_is_no_number 2 thaw x7
wrong job_too_large 2 freeze 4294967296
wrong job_negative 2 thaw -- -1
wrong drain 2 freeze 7 --drain 70000
wrong drain_is_no_number 2 freeze 7 --drain soon
wrong drain_with_thaw 2 thaw 7 --drain 3
wrong hold_with_thaw 2 thaw 7 --hold
wrong two_jobs 2 freeze 7 8
wrong no_such_primary 1 --instance "$dir/door/none.sock" freeze 7
wrong job_without_contexts 0 freeze 99
job_is preempt_wrong__is_noted_all_the_same 0 99 'stopped 0'
at 0 thaw 99 >/dev/null
exit $failed
