#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: polite.sh BUILD_DIR [TURNS]
# Round trips beside two applications that look for messages which never come, by what these do at an empty poll (PMX_IDLE), in
# TURNS (3) turns: their medians. Two primaries with idle = adaptive. Root, hugepages.
set -u
. "$(dirname "$0")/../system/common.bash"
turns=${2:-3}
need_hugepages polite 128
. "$(dirname "$0")/../system/polite.bash"
for ((turn = 0; turn < turns; turn++)); do
	for policy in none spin yield; do
		[ $policy = none ] || pollers $policy
		case $policy in spin) rounds=60 ;; *) rounds=1000 ;; esac
		echo "$policy $(round_trip $rounds 20)"
		[ $policy = none ] || end_pollers
	done
done >"$dir/times"
sed 's/^/# /' "$dir/times"
figure() { awk -v p="$1" '$1 == p {print $2}' "$dir/times" | median; }
figures="alone $(figure none), beside pollers that spin $(figure spin), that yield $(figure yield)"
echo "# median round trip, ns: $figures"
[[ $figures != *-* ]] && [ "$(wc -l <"$dir/times")" = $((3 * turns)) ] && ok polite_figures || not_ok polite_figures "$figures" "$dir/latency.log"
exit $failed
