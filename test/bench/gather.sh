#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: gather.sh BUILD_DIR [REPETITIONS]
# Many to one over memif with the fault link, through a switch with a port of 1 Gb/s and 128K (test/system/gather.c): the run with the
# median rate of REPETITIONS (3), of 1, 4 and 16 senders, and of 16 with shares off and with cc = pm. Root, hugepages.
set -u
. "$(dirname "$0")/../system/common.bash"
times=${2:-3}
need_hugepages gather 700
. "$(dirname "$0")/../system/gather.bash"

# gathers NAME SENDERS CONFIG_LINES
gathers() {
	local i
	: >"$dir/rows"
	for ((i = 0; i < times; i++)); do
		gather "$2" "$3" || { not_ok "gather_$1" "a run failed" "$dir/nodes.log"; return; }
	done
	echo "# $1: $(sort -k4 "$dir/rows" | sed -n "$(((times + 1) / 2))p")"
	ok "gather_$1"
}
for senders in 1 4 16; do
	gathers "${senders}_delay" $senders ""
done
gathers 16_delay_no_shares 16 "share_target_us = 0"
gathers 16_pm_no_shares 16 $'cc = pm\nshare_target_us = 0'
gathers 16_pm_no_shares_go_back_n 16 $'cc = pm\nrecovery = go-back-n\nshare_target_us = 0'
exit $failed
