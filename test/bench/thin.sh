#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: thin.sh BUILD_DIR [ROUNDS [TURNS]]
# 64 bytes there and back, ROUNDS (20000) times, between two processes on one node: as thin clients, and
# as secondaries (test/system/thin.c), in TURNS (21) turns. Prints the medians and that of the quotients. Root, hugepages.
set -u
. "$(dirname "$0")/../system/common.bash"
rounds=${2:-20000} turns=${3:-21}
need_hugepages thin 128
alone_ini 0 <<-END
	[engine]
	idle = adaptive
	[limits]
	contexts = 16
END
primary 0 -l 0 -m 128 || { not_ok thin_start ""; exit 1; }

# The primary has CPU 0, both applications share the next: who shares with whom would otherwise be by chance, and a factor of two.
measure() { # WAY: ns
	PMX_ATTACH=$1 start "$dir/serve.log" taskset -c 1 timeout 100 "$build/test/thin" serve "${tag}0" 4
	server=$last
	wait_for 60 grep -q serving "$dir/serve.log" || return 1
	PMX_ATTACH=$1 taskset -c 1 timeout 100 "$build/test/thin" ping "${tag}0" 5 0:4 64 "$rounds"
	wait "$server"
}
for ((turn = 0; turn < turns; turn++)); do
	echo "$(measure thin) $(measure secondary)"
done >"$dir/trips"
thin=$(awk '{print $1}' "$dir/trips" | median) secondary=$(awk '{print $2}' "$dir/trips" | median)
echo "# medians, ns: thin $thin, secondary $secondary; of the quotients $(awk '$2 > 0 {print $1 / $2}' "$dir/trips" | median)"
awk 'NF == 2 && $1 > 0 && $2 > 0 {n++} END {exit n != NR || n == 0}' "$dir/trips" && ok thin_figures || not_ok thin_figures "" "$dir/serve.log"
exit $failed
