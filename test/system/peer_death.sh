#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: peer_death.sh BUILD_DIR [KILLS]
# Two primaries over net_af_packet and a veth pair, an application at each; the responder's primary
# is killed (SIGKILL) while round trips run, KILLS times (1; 3 in the full tier). The initiator's sends must end in an
# error in bounded time, its primary must live, and work again when the peer is back.
set -u
. "$(dirname "$0")/common.bash"

kills=1
! full || kills=3
kills=${2:-$kills}
need_hugepages peer_death 128
veth 1500 || skip_all peer_death "no veth pair between namespaces"
config() {
	node_ini "$1" net_af_packet0 <<-END
		[engine]
		idle = adaptive
		[proto]
		rto_max_us = 20000
		retries = 60
		keepalive_ms = 200
		[limits]
		mbufs = 8192
		contexts = 4
	END
}

trip() { # LOG ROUNDS SECONDS
	timeout "$3" "$build/app/pmx-perf" latency --sizes 64,4096 --rounds "$2" --warmup 1 \
		--instance "${tag}0" >"$1" 2>&1
}

peer() { # the primary of node 1, and its responder
	PREFIX=(ip netns exec "${tag}1")
	primary 1 -l 1 -m 64 --vdev=net_af_packet0,iface=v1 || return 1
	killed=$last
	# nobody answers yet; but the first message to a node in a new life may end with an error that says so
	! trip "$dir/first.log" 1 60 || return 1
	start "$dir/responder.log" "$build/app/pmx-perf" respond --instance "${tag}1"
	responder=$last
	wait_for 60 context_open 1 1
}

counter() { "$build/app/pmx-ctl" --instance "${tag}0" stat --all | awk -v c="$1" '$1 == c {print $2}'; }
more_sent() { [ "$(counter proto_messages_sent)" -gt $(($1 + 50)) ]; }

config 0
config 1
PREFIX=(ip netns exec "${tag}0")
primary 0 -l 0 -m 64 --vdev=net_af_packet0,iface=v0 || { not_ok peer_death_start ""; exit 1; }
survivor=$last
for k in $(seq 1 "$kills"); do
	peer || { not_ok "peer_death_${k}__peer_starts" "see above"; break; }
	start "$dir/trip.log" timeout 90 "$build/app/pmx-perf" latency --sizes 64 --rounds 100000000 \
		--instance "${tag}0"
	running=$last
	wait_for 60 more_sent "$(counter proto_messages_sent)" || not_ok "peer_death_${k}__round_trips" "" "$dir/trip.log"
	kill -0 "$running" 2>/dev/null || not_ok "peer_death_${k}__runs_before" "" "$dir/trip.log"
	end "$killed" KILL
	rm -f /dev/hugepages/"${tag}1"map_*
	rm -rf "$RUNTIME_DIRECTORY/dpdk/${tag}1"
	end "$responder" KILL
	# pmx-perf itself waits 20 s for an answer
	if wait_for 60 gone "$running"; then
		ok "peer_death_${k}__initiator_ends"
	else
		not_ok "peer_death_${k}__initiator_ends" "it hangs" "$dir/trip.log"
	fi
	end "$running" KILL
	kill -0 "$survivor" 2>/dev/null && ok "peer_death_${k}__survivor_lives" ||
		not_ok "peer_death_${k}__survivor_lives" "" "$dir/0.log"
	"$build/app/pmx-ctl" --instance "${tag}0" stat | grep -E 'deaths|restarts|failed' | sed 's/^/# /'
	peer || { not_ok "peer_death_${k}__peer_restarts" "see above"; break; }
	if trip "$dir/again.log" 200 120; then
		ok "peer_death_${k}__works_again"
	else
		not_ok "peer_death_${k}__works_again" "" "$dir/again.log"
	fi
	end "$killed"
	end "$responder" KILL
done
exit $failed
