# SPDX-License-Identifier: BSD-3-Clause
#
# One gather (gather.c) through a switch in another process; for gather.sh and test/bench/gather.sh. To be sourced after common.bash.

# gather SENDERS CONFIG_LINES: a line more in $dir/rows; false: not all has arrived
gather() {
	local socket=$dir/s.sock switch code=1
	rm -f "$socket"
	start "$dir/switch.log" "$build/test/gather" switch "$1" "$socket" 1000 131072
	switch=$last
	if wait_for 60 grep -q ready "$dir/switch.log"; then
		timeout 200 "$build/test/gather" nodes "$1" "$socket" 1000 "$2" >"$dir/nodes.log" 2>&1
		code=$?
	fi
	end "$switch"
	[ $code -eq 0 ] || return 1
	echo "$(grep senders "$dir/nodes.log") $(grep drops "$dir/switch.log")" >>"$dir/rows"
}
