#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# sanitize: yes
# timeout: 600
#
# Usage: matching.sh BUILD_DIR [OPERATIONS]
# Random programs of isend, irecv, probes and cancels at 8 contexts of two embedded nodes, each receive checked against a
# model (matching.c), with matching by the client and by the engine: over a good link, a bad one (5 % lost, reordered, doubled),
# memif (root), and with rings and pools as small as they go. OPERATIONS (20000; a tenth where the build has sanitizers)
# each. Then a flood of a million messages at a receiver that takes none (silent.c). Needs neither root nor
# hugepages but for memif.
set -u

if [ $# -lt 1 ] || [ ! -x "$1/test/matching" ]; then
	echo "Usage: $0 BUILD_DIR [OPERATIONS], BUILD_DIR has test/matching" >&2
	exit 2
fi
program=$1/test/matching
silent=$1/test/silent
default=20000
flood=1000000
if grep -q __asan_init "$program"; then
	default=2000
	flood=100000
fi
operations=${2:-$default}
seed=${PMX_MATCHING_SEED:-1}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
log=$work/log
failed=0

verdict() # NAME CODE
{
	if [ "$2" -eq 0 ]; then
		echo "ok $1"
	else
		echo "not ok $1 exit code $2, seed $seed"
		failed=1
	fi
	tail -5 "$log" | sed '/^#/!s/^/# /'
}

run() # NAME ARGUMENTS...: by either
{
	local name=$1 by
	shift
	for by in client engine; do
		rm -f "$work/memif.sock"
		"$program" --operations "$operations" --seed "$seed" $([ $by = engine ] && echo --engine) "$@" >"$log" 2>&1
		verdict "${name}_by_$by" $?
	done
}

run good_link
run bad_link --fault loss=5%,reorder=5%,duplicate=2%,seed=3
run bad_link_checksum_go_back_n --fault loss=5%,reorder=5%,duplicate=2%,corrupt=1%,seed=4 \
	--limits $'[proto]\nchecksum = on\nrecovery = go-back-n\nrto_min_us = 200'
run jumbo --link mtu=9000
run long_entries --limits $'lhs_entry_bytes = 128\nlhs_split = 104'
run small_rings --limits $'matched_entries = 64\nmatched_buffers = 16\nunexpected = 4096'
run small_pools --limits $'transfers = 2\nsend_buffers = 16\nmatched_entries = 64\nsubmissions = 4'
run all_is_offered --rendezvous 1
run memif --memif "$work/memif.sock"
run memif_bad_link --memif "$work/memif.sock" --fault loss=5%,reorder=5%,duplicate=2%,seed=3

"$1/test/matched_cases" 2>"$log" || failed=1
sed 's/^/# /' "$log"

for by in client engine; do
	"$silent" $by $flood >"$log" 2>&1
	verdict "flood_of_${flood}_by_$by" $?
	"$silent" $by $((flood / 20)) 1000 >"$log" 2>&1
	verdict "flood_of_bulk_by_$by" $?
done
exit $failed
