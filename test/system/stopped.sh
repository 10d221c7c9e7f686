#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: stopped.sh BUILD_DIR
# Who is stopped (SIGSTOP) hurts nobody else (stopped.c): an application that receives nothing while it is flooded costs
# its neighbours no window and the network few questions; and with its engine stopped an application comes back from every
# call that is not named *_wait, loses nothing, and goes on when the engine does. Two primaries over UDP sockets.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages stopped 128
program=$build/test/stopped
rto_max_us=50000
for i in 0 1; do
	node_ini $i <<-END
		[proto]
		rto_max_us = $rto_max_us
		retries = 100
		[limits]
		mbufs = 8192
		contexts = 4
		submissions = 64
	END
	primary $i -l $i -m 64 || { not_ok stopped_start "primary $i does not start"; exit 1; }
	primaries[i]=$last
done

counter() { timeout 10 "$build/app/pmx-ctl" --instance "$tag$1" stat --all | awk -v c="$2" '$1 == c {print $2}'; }

# begin NAME COMMAND...: with a pipe to its standard input, whose descriptor is in $to
begin() {
	local name=$1
	shift
	start_fed "$dir/$name.log" "$@"
	wait_for 60 grep -q ready "$dir/$name.log" || [ "$name" = flood ]
}

ended() { # NAME PID LOG
	if wait "$2"; then
		ok "$1"
	else
		not_ok "$1" "exit code $?" "$3"
	fi
}

at_most() { # NAME VALUE BOUND
	if [ -n "$2" ] && [ "$2" -le "$3" ]; then
		ok "$1"
	else
		not_ok "$1" "${2:-no figure}, more than $3"
	fi
	echo "# $1: $2, at most $3"
}

# ------------------------------------------------------------------ a receiver

begin hold "$program" "${tag}1" 1 hold
holder=$last to_hold=$to
kill -STOP "$holder"
begin flood "$program" "${tag}0" 2 flood 1:1
flooder=$last to_flood=$to
# drops are counted at the receiver, what is asked at the sender
asked() { [ "$(counter 0 proto_room_questions)" -ge "$1" ]; }
wait_for 60 asked 1 || not_ok stopped_receiver__is_full "nobody asked for room" "$dir/flood.log"
# Questions of a second or more: one each rto_max, by the time between the first look and the last one. Where each cuts the window,
# cuts are as many as questions.
begun=$(micros)
cuts=$(counter 0 proto_window_cuts) questions=$(counter 0 proto_room_questions)
wait_for 60 asked $((questions + 20)) || not_ok stopped_receiver__is_asked_again "" "$dir/flood.log"
cuts=$(($(counter 0 proto_window_cuts) - cuts)) questions=$(($(counter 0 proto_room_questions) - questions))
at_most stopped_receiver__questions "$questions" $((($(micros) - begun) / rto_max_us + 10))
at_most stopped_receiver__window_cuts "$cuts" $((questions / 4))
start "$dir/answer.log" "$build/test/sleepers" "${tag}1" 0 answer wait 50
answerer=$last
wait_for 60 grep -q ready "$dir/answer.log"
if timeout 120 "$build/test/sleepers" "${tag}0" 3 1:0 wait 50 >"$dir/ask.log" 2>&1; then
	ok stopped_receiver__neighbours_go_on
else
	not_ok stopped_receiver__neighbours_go_on "" "$dir/ask.log"
fi
ended stopped_receiver__neighbour_answers "$answerer" "$dir/answer.log"
echo >&"$to_flood"
kill -CONT "$holder"
echo >&"$to_hold"
ended stopped_receiver__all_is_sent "$flooder" "$dir/flood.log"
ended stopped_receiver__all_came_in_order "$holder" "$dir/hold.log"
sent=$(awk '$1 == "sent" {print $2}' "$dir/flood.log") received=$(awk '$1 == "received" {print $2}' "$dir/hold.log")
if [ -n "$sent" ] && [ "$sent" = "$received" ]; then
	ok stopped_receiver__none_lost
	echo "# $received messages"
else
	not_ok stopped_receiver__none_lost "sent ${sent:-?}, received ${received:-?}"
fi

# ------------------------------------------------------------------ an engine

for how in secondary thin; do
	begin calls env PMX_ATTACH=$how "$program" "${tag}0" 1 calls
	caller=$last to_call=$to
	kill -STOP "${primaries[0]}"
	echo >&"$to_call"
	if wait_for 60 grep -q called "$dir/calls.log"; then
		ok "stopped_engine__calls_return_$how"
	else
		not_ok "stopped_engine__calls_return_$how" "" "$dir/calls.log"
	fi
	kill -CONT "${primaries[0]}"
	echo >&"$to_call"
	ended "stopped_engine__nothing_is_lost_$how" "$caller" "$dir/calls.log"
	grep -E ' ms$' "$dir/calls.log" | sed 's/^/# /'
done
exit $failed
