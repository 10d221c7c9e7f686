#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: gather.sh BUILD_DIR
# Many to one over memif with the fault link, through a switch with a port of 1 Gb/s and 128K (gather.c): what 1, 4 and 16 nodes send to
# one arrives, and none of it is told an error. How fast is for test/unit/test_virtual.c, in virtual time, and test/bench/gather.sh.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages gather 700
. "$(dirname "$0")/gather.bash"
for senders in 1 4 16; do
	: >"$dir/rows"
	if gather $senders ""; then
		sed 's/^/# /' "$dir/rows"
		grep -q ' failed 0 ' "$dir/rows" && ok "gather_${senders}_to_1" || not_ok "gather_${senders}_to_1" "messages failed"
	else
		not_ok "gather_${senders}_to_1" "not all arrived" "$dir/nodes.log"
	fi
done
exit $failed
