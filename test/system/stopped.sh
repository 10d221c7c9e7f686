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
for i in 0 1; do
	node_ini $i <<-END
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
	wait_for 10 grep -q ready "$dir/$name.log" || [ "$name" = flood ]
}

ended() { # NAME PID LOG
	if wait "$2"; then
		ok "$1"
	else
		not_ok "$1" "exit code $?" "$3"
	fi
}

below() { # NAME VALUE BOUND
	if [ -n "$2" ] && [ "$2" -lt "$3" ]; then
		ok "$1"
	else
		not_ok "$1" "${2:-no figure}, not below $3"
	fi
	echo "# $1: $2"
}

# ------------------------------------------------------------------ a receiver

begin hold "$program" "${tag}1" 1 hold
holder=$last to_hold=$to
kill -STOP "$holder"
begin flood "$program" "${tag}0" 2 flood 1:1
flooder=$last to_flood=$to
# drops are counted at the receiver, what is asked at the sender
is_full() { [ "$(counter 0 proto_room_questions)" -gt 0 ]; }
wait_for 10 is_full || not_ok stopped_receiver__is_full "nobody asked for room" "$dir/flood.log"
cuts=$(counter 0 proto_window_cuts) questions=$(counter 0 proto_room_questions)
start "$dir/answer.log" "$build/test/sleepers" "${tag}1" 0 answer wait 150
answerer=$last
wait_for 10 grep -q ready "$dir/answer.log"
if timeout 60 "$build/test/sleepers" "${tag}0" 3 1:0 wait 150 >"$dir/ask.log" 2>&1; then
	ok stopped_receiver__neighbours_go_on
else
	not_ok stopped_receiver__neighbours_go_on "" "$dir/ask.log"
fi
ended stopped_receiver__neighbour_answers "$answerer" "$dir/answer.log"
# in 3 s it was asked at most every 4 ms before, and each question cut the window
below stopped_receiver__window_cuts "$(($(counter 0 proto_window_cuts) - cuts))" 20
below stopped_receiver__questions "$(($(counter 0 proto_room_questions) - questions))" 40
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
	if wait_for 40 grep -q called "$dir/calls.log"; then
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
