#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: gather.sh BUILD_DIR [REPETITIONS]
# Many to one over memif with the fault link, through a switch with a port of 1 Gb/s and 128K (gather.c):
# what the simulator says of 16 senders must be so on real links, in kind: no collapse. The same
# with shares off and with cc = pm, for comparison: nothing is demanded of those.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages gather 700
times=${2:-3}
gather=$build/test/gather

run() { # SENDERS CONFIG_LINES: a line more in $dir/rows
	local socket=$dir/s.sock
	rm -f "$socket"
	: >"$dir/switch.log"
	start "$dir/switch.log" "$gather" switch "$1" "$socket" 1000 131072
	local switch=$last code=1
	if wait_for 20 grep -q ready "$dir/switch.log"; then
		timeout 80 "$gather" nodes "$1" "$socket" 1000 "$2" >"$dir/nodes.log" 2>&1
		code=$?
	fi
	end "$switch"
	[ $code -eq 0 ] || return 1
	echo "$(grep senders "$dir/nodes.log") $(grep drops "$dir/switch.log")" >>"$dir/rows"
}

# gathers NAME SENDERS CONFIG_LINES: the run with the median rate, in $row; false: a run failed
gathers() {
	local i
	: >"$dir/rows"
	for ((i = 0; i < times; i++)); do
		run "$2" "$3" || return 1
	done
	row=$(sort -k4 "$dir/rows" | sed -n "$(((times + 1) / 2))p")
	echo "# $1: $row"
}

one=
for senders in 1 4 16; do
	if ! gathers "cc = delay" $senders ""; then
		not_ok "gather_${senders}_to_1" "a run failed" "$dir/nodes.log"
		continue
	fi
	[ $senders -gt 1 ] || one=$row
	# against one sender in the same run: a CPU that is shared makes everything slow, not a collapse
	if awk -v one="$(awk '{print $4}' <<<"$one")" '{exit !($4 >= 0.7 * one)}' <<<"$row"; then
		ok "gather_${senders}_to_1"
	else
		not_ok "gather_${senders}_to_1" "less than 0.7 of one sender's rate"
	fi
done
gathers "cc = delay, no shares" 16 "share_target_us = 0"
gathers "cc = pm, no shares" 16 $'cc = pm\nshare_target_us = 0'
gathers "cc = pm, no shares, go-back-n" 16 $'cc = pm\nrecovery = go-back-n\nshare_target_us = 0'
exit $failed
