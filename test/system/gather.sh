#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 300
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

run() { # SENDERS CONFIG_LINES: one line
	local socket=$dir/s.sock
	rm -f "$socket"
	start "$dir/switch.log" "$gather" switch "$1" "$socket" 1000 131072
	local switch=$last
	wait_for 20 grep -q ready "$dir/switch.log" || return 1
	timeout 80 "$gather" nodes "$1" "$socket" 1000 "$2" >"$dir/nodes.log" 2>&1 || return 1
	end "$switch"
	echo "$(grep senders "$dir/nodes.log") $(grep drops "$dir/switch.log")"
}

# median rate of `times` runs, in thousandths
rate() { # NAME SENDERS CONFIG_LINES
	local i
	for ((i = 0; i < times; i++)); do
		run "$2" "$3" || { cat "$dir/nodes.log" "$dir/switch.log" >&2; return 1; }
	done | sort -k4 | awk -v name="$1" '{row[NR] = $0} END {print "# " name ": " row[int((NR + 1) / 2)] > "/dev/stderr"
		split(row[int((NR + 1) / 2)], f, " "); printf "%d\n", f[4] * 1000}'
}

for senders in 1 4 16; do
	got=$(rate "cc = delay" $senders "" 2>"$dir/said")
	cat "$dir/said"
	# a CPU that is shared makes its own pauses: far above the collapse (below 0.5), below 0.95
	if [ "${got:-0}" -ge 800 ]; then
		ok "gather_${senders}_to_1"
	else
		not_ok "gather_${senders}_to_1" "rate 0.${got:-000} of the port, not 0.800"
	fi
done
rate "cc = delay, no shares" 16 "share_target_us = 0" 2>&1 >/dev/null
rate "cc = pm, no shares" 16 $'cc = pm\nshare_target_us = 0' 2>&1 >/dev/null
rate "cc = pm, no shares, go-back-n" 16 $'cc = pm\nrecovery = go-back-n\nshare_target_us = 0' 2>&1 >/dev/null
exit $failed
