#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: matching.sh BUILD_DIR [OPERATIONS]
# Random programs of isend, irecv, probes and cancels at 8 contexts of two embedded nodes, each receive checked against a
# model (matching.c), with matching by the client and by the engine: over a good link, a bad one (5 % lost, reordered, doubled),
# memif (root), and with rings and pools as small as they go. OPERATIONS (20000; a tenth where the build has sanitizers)
# each. Then a flood of a million messages at a receiver that takes none (silent.c). Needs neither root nor
# hugepages but for memif, and by the engine memory that may be locked.
set -u

. "$(dirname "$0")/common.bash"

program=$build/test/matching
full && default=20000 flood=1000000 || default=1500 flood=100000
if grep -q __asan_init "$program"; then
	default=2000
	flood=100000
fi
operations=${2:-$default}
seed=${PMX_MATCHING_SEED:-1}

cases()
{
	"$build/test/matched_cases" 2>"$dir/cases.log" || failed=1
	sed 's/^/# /' "$dir/cases.log"
}

programs() # NAME ARGUMENTS...: by either, which is @ in an argument
{
	local name=$1 by
	shift
	for by in client engine; do
		[ $by = client ] || locks_memory "${name}_by_$by" || continue
		beside passes "${name}_by_$by" "$program" --operations "$operations" --seed "$seed" --matching $by "${@//@/$by}"
	done
}

programs good_link
programs bad_link --fault loss=5%,reorder=5%,duplicate=2%,seed=3
programs small_rings --limits $'matched_entries = 64\nmatched_buffers = 16\nunexpected = 4096'
programs all_is_offered --rendezvous 1
programs memif --memif "$dir/memif_@.sock"
if full; then
	programs bad_link_checksum_go_back_n --fault loss=5%,reorder=5%,duplicate=2%,corrupt=1%,seed=4 \
		--limits $'[proto]\nchecksum = on\nrecovery = go-back-n\nrto_min_us = 200'
	programs jumbo --link mtu=9000
	programs long_entries --limits $'lhs_entry_bytes = 128\nlhs_split = 104'
	programs small_pools --limits $'transfers = 2\nsend_buffers = 16\nmatched_entries = 64\nsubmissions = 4'
	programs memif_bad_link --memif "$dir/memif_bad_@.sock" --fault loss=5%,reorder=5%,duplicate=2%,seed=3
fi
for by in client engine; do
	beside passes flood_of_${flood}_by_$by "$build/test/silent" $by $flood
	beside passes flood_of_bulk_by_$by "$build/test/silent" $by $((flood / 20)) 1000
done
beside cases
all_beside
exit $failed
