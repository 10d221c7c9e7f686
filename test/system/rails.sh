#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: rails.sh BUILD_DIR [TIMES]
# Two primaries that reach each other by two links, veth pairs between two namespaces. Under a stream of messages one of the links,
# at one of its ends, is set down, TIMES (2; 12 in the full tier) times, and up again when the stream has gone on by the other one: nothing
# is lost, doubled or told an error. Then with one link at a time (engine.links = failover).
# Both links dead for a second: the stream waits, and goes on. Take-overs and reloads of [nodes] under the stream.
# That two links carry twice as much as one is for test/unit/test_virtual.c; how long the stream pauses, for test/bench/rails.sh.
set -u
. "$(dirname "$0")/common.bash"
need_hugepages rails 400
. "$(dirname "$0")/rails.bash"
times=2
! full || times=12
times=${2:-$times}
RANDOM=1
start_nodes ''
start_stream
wait_for 60 links_up 2 && ok rails__both_are_up || not_ok rails__both_are_up "" "$dir/0.log"
# sent LINK: what node 0 has sent by it since the first look, packets or bytes
sent() { echo $(($(ip netns exec "${tag}0" cat "/sys/class/net/$1/statistics/tx_$2") - ${was[$1]:-0})); }
look() { was=([v0]=$(was=(); sent v0 "$1") [w0]=$(was=(); sent w0 "$1")); }
declare -A was
look bytes
sent_enough() { [ $(($(sent v0 bytes) + $(sent w0 bytes))) -ge 30000000 ]; }
wait_for 60 sent_enough
told="$(sent v0 bytes) and $(sent w0 bytes)"
echo "# of the same bytes links carried $told"
awk '{exit !($1 > 0 && $3 > 0 && $1 > 0.7 * $3 && $3 > 0.7 * $1)}' <<<"$told" && ok rails__both_carry_the_stream || not_ok rails__both_carry_the_stream "$told bytes"
die_and_return "$times" rails__spread
grep -Eq 'node 1 is not reached by link [01]' "$dir/doctor" && ok rails__doctor_tells || not_ok rails__doctor_tells "" "$dir/doctor"
# both die
ip -n "${tag}0" link set v0 down
ip -n "${tag}1" link set w1 down
sleep 1
ip -n "${tag}0" link set v0 up
ip -n "${tag}1" link set w1 up
wait_for 60 links_up 2 && ok rails__both_come_back || not_ok rails__both_come_back "" "$dir/0.log"
death_is_logged && ok rails__a_death_is_logged || not_ok rails__a_death_is_logged "" "$dir/0.log"
# another primary takes over, and knows both links
for i in 0 1; do
	OPTIONS=(--take-over)
	if run_node $i; then
		old=${nodes[i]} nodes[i]=$last
		wait_for 60 gone "$old" && ok rails__taken_over_$i || not_ok rails__taken_over_$i "the old primary does not end"
	else
		not_ok rails__taken_over_$i "not replaced"
	fi
	OPTIONS=()
done
wait_for 60 links_up 2 && ok rails__taken_over_with_both || not_ok rails__taken_over_with_both ""
die_and_return $(((times + 1) / 2)) rails__taken_over
# the table has one of them, then the other, then both
for links in 0 1 0,1; do
	sed -i "s/^1 = .*/1 = auto link=$links/" "$dir/0.ini"
	reload || not_ok "rails__reload_$links" "" "$dir/answer"
	case $links in
	?) wait_for 60 links_up 0 && ok "rails__reload_$links" || not_ok "rails__reload_$links" "still several links" ;;
	*) wait_for 60 links_up 2 && ok "rails__reload_$links" || not_ok "rails__reload_$links" "not both" ;;
	esac
done
end_stream rails__spread_nothing_lost
"$ctl" --instance "${tag}0" stat | awk '$1 == "proto_messages_failed" {n = $2} END {exit n != 0}' && ok rails__no_errors || not_ok rails__no_errors ""
stop_nodes

start_nodes 'links = failover'
start_stream
look packets
begun=$(micros)
sent_some() { [ "$(sent v0 packets)" -ge 10000 ]; }
wait_for 60 sent_some
told="$(sent v0 packets) and $(sent w0 packets)"
# the other one is asked now and then whether it lives
awk -v s=$((($(micros) - begun) / 1000000 + 1)) '{exit !($1 >= 10000 && $3 * 20 <= $1 + 2000 * s)}' <<<"$told" && ok rails__failover_uses_one ||
	not_ok rails__failover_uses_one "$told packets"
die_and_return $(((times + 1) / 2)) rails__failover
end_stream rails__failover_nothing_lost
stop_nodes

# with two lanes: the second one's frames come by the first one's queue
cpus=0,1 start_nodes 'lanes = 2'
start_stream
wait_for 60 links_up 2 && ok rails__lanes_both_are_up || not_ok rails__lanes_both_are_up "" "$dir/0.log"
die_and_return "$times" rails__lanes
end_stream rails__lanes_nothing_lost
stop_nodes
exit $failed
