# SPDX-License-Identifier: BSD-3-Clause
#
# One gather (gather.c) through a switch in another process; for gather.sh and test/bench/gather.sh. To be sourced after common.bash.

# has_ended_or_said PID WORD LOG
has_ended_or_said() {
	grep -q "$2" "$3" || gone "$1"
}

# gather SENDERS CONFIG_LINES: a line more in $dir/rows; false: not all has arrived
gather() {
	local socket=$dir/s.sock switch nodes= code=1
	rm -f "$socket"
	start "$dir/switch.log" "$build/test/gather" switch "$1" "$socket" 1000 131072
	switch=$last
	if wait_for 60 grep -q ready "$dir/switch.log"; then
		start "$dir/nodes.log" "$build/test/gather" nodes "$1" "$socket" 1000 "$2"
		nodes=$last
		wait_for 200 has_ended_or_said "$nodes" senders "$dir/nodes.log"
		grep -q senders "$dir/nodes.log" && code=0
	fi
	# in this order, since a memif port that is polled may crash when its peer ends
	end "$switch" || code=1
	[ -z "$nodes" ] || end "$nodes" KILL
	[ $code -eq 0 ] || return 1
	echo "$(grep senders "$dir/nodes.log") $(grep drops "$dir/switch.log")" >>"$dir/rows"
}
