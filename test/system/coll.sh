#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: coll.sh BUILD_DIR
# Collectives of eight processes on two primaries over UDP sockets (coll_worker.c): random ones with checked bytes, as thin clients
# and as secondaries; one that sleeps; who dies (SIGKILL, KILLS times, default 10) and what the others then hear, and when; one that
# begins another collective; members that leave; primaries that are replaced meanwhile; lanes and a link that loses.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages coll 256
program=$build/test/coll_worker
ini() { # NODE LANES [LINE OF THE LINK]
	node_ini "$1" <<-END
		${3:-}
		[engine]
		idle = adaptive
		lanes = $2
		[proto]
		keepalive_ms = 1000
		retries = 100
		[limits]
		mbufs = 8192
		contexts = 8
		collectives = 4
	END
}

# does TEST CASE [OPTION]
does() {
	local name=$1
	shift
	passes "$name" timeout $((150 + ${KILLS:-0})) "$program" "${tag}0" "${tag}1" "$@"
}

ini 0 1
ini 1 1
for i in 0 1; do
	primary $i -l $i -m 96 || { not_ok coll_start "primary $i does not start"; exit 1; }
	primaries[i]=$last
done

export PMX_ATTACH=thin
does coll_thin__each each
does coll_thin__empty empty
does coll_thin__random random
PMX_ATTACH=secondary does coll_secondary__random random
COLL_MIXED=1 COLL_SEED=2 does coll_mixed__random random 100
does coll_alone__random alone
does coll_late__others_do_not_wait late
does coll_many__one_too_many_goes_later many
does coll_odd__is_named odd
does coll_leave__others_end leave
does coll_closed__others_are_told gone 0
does coll_context_closed__others_are_told gone 1
does coll_exit__others_are_told gone 2
does coll_topology__is_asked topology
PMX_TOPOLOGY=$dir/none does coll_topology__file_is_missing environment
printf 'switch s\nhost a\nlink a s bandwidth=1G latency=1us\n' >"$dir/small.topology"
PMX_TOPOLOGY=$dir/small.topology does coll_topology__node_is_missing environment
printf 'switch s buffer=128K\nhost h[0-1]\nlink h[0-1] s bandwidth=10G latency=1us\n' >"$dir/two.topology"
PMX_TOPOLOGY=$dir/two.topology does coll_topology__random random 100
does coll_killed__rank_0 killed 0
does coll_killed__another_rank killed 1
KILLS=${KILLS:-2} PMX_ATTACH=secondary does coll_killed__a_secondary killed 1
# what they heard came from who died, and no node was taken for dead
for i in 0 1; do
	deaths=$("$build/app/pmx-ctl" --instance "$tag$i" stat --all | awk '$1 == "proto_peer_deaths" {print $2}')
	[ "$deaths" = 0 ] && ok "coll_killed__no_node_is_taken_for_dead_$i" ||
		not_ok "coll_killed__no_node_is_taken_for_dead_$i" "${deaths:-no} deaths are counted"
done

# ------------------------------------------------------------------ primaries take over from each other, and nobody notices

start_fed "$dir/stream.log" "$program" "${tag}0" "${tag}1" stream
stream=$last
wait_for 60 grep -qx streams "$dir/stream.log" || not_ok coll_taken_over__streams "" "$dir/stream.log"
OPTIONS=(--take-over)
for turn in 0 1 $(full && echo 2 3); do
	node=$((turn % 2))
	old=${primaries[node]}
	primary $node -l $node -m 96 || not_ok "coll_taken_over__$turn" "the primary of node $node is not replaced"
	primaries[node]=$last
	if wait_for 60 sh -c "! kill -0 $old 2>/dev/null"; then
		ok "coll_taken_over__$turn"
	else
		not_ok "coll_taken_over__$turn" "the old primary of node $node does not end"
	fi
	sleep 0.3
done
OPTIONS=()
kill -0 "$stream" 2>/dev/null || not_ok coll_taken_over__goes_on "it had ended before" "$dir/stream.log"
echo >&"$to"
if wait "$stream"; then ok coll_taken_over__ends_well; else not_ok coll_taken_over__ends_well "exit code $?" "$dir/stream.log"; fi
grep '^#' "$dir/stream.log"

# ------------------------------------------------------------------ more lanes, short frames, a link that loses

for i in 0 1; do end "${primaries[i]}" TERM; done
for i in 0 1; do
	ini $i 2 "fault = loss=2%,seed=$i
mtu = 700"
	primary $i -l 0-1 -m 96 || { not_ok coll_lossy__start "primary $i does not start"; exit 1; }
done
COLL_SEED=3 does coll_lossy__random random 100
does coll_lossy__leave leave
exit $failed
