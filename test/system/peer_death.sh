#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: peer_death.sh BUILD_DIR [KILLS [LINK...]]
# Two primaries, an application at each; the responder's primary is killed (SIGKILL) while round trips run, KILLS times (1; 3 in the
# full tier, where it also ends by SIGTERM each time). The initiator's sends must end in an error in bounded time, its primary must live, and
# work again when the peer is back. LINK: packet (net_af_packet and a veth pair); server, client (net_memif, of which the initiator
# is the one or the other).
set -u
. "$(dirname "$0")/common.bash"

kills=1
! full || kills=3
kills=${2:-$kills}
links=("${@:3}")
[ ${#links[@]} -gt 0 ] || links=(packet server client)
need_hugepages peer_death 128

config() { # NODE PORT
	node_ini "$1" "$2" <<-END
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

# over LINK: configurations, EAL arguments of a node, and what stands in front
over() {
	local port=net_memif0 role i memif=socket=$dir/m.sock,socket-abstract=no
	PREFIX=() spaces_of=()
	role=$([ "$1" = server ] && echo client || echo server)
	devices=("--vdev=net_memif0,role=$1,$memif" "--vdev=net_memif0,role=$role,$memif")
	if [ "$1" = packet ]; then
		veth 1500 || return 1
		port=net_af_packet0
		devices=(--vdev=net_af_packet0,iface=v0 --vdev=net_af_packet0,iface=v1)
		spaces_of=("${tag}0" "${tag}1")
	fi
	for i in 0 1; do config "$i" "$port"; done
}

node() { # NODE
	PREFIX=()
	[ ${#spaces_of[@]} -eq 0 ] || PREFIX=(ip netns exec "${spaces_of[$1]}")
	primary "$1" -l "$1" -m 64 "${devices[$1]}"
}

trip() { # LOG ROUNDS SECONDS
	timeout "$3" "$build/app/pmx-perf" latency --sizes 64,4096 --rounds "$2" --warmup 1 \
		--instance "${tag}0" >"$1" 2>&1
}

respond() {
	start "$dir/responder.log" "$build/app/pmx-perf" respond --instance "${tag}1"
	responder=$last
	wait_for 60 context_open 1 1
}

counter() { "$build/app/pmx-ctl" --instance "${tag}0" stat --all | awk -v c="$1" '$1 == c {print $2}'; }
more_sent() { [ "$(counter proto_messages_sent)" -gt $(($1 + 50)) ]; }

# dies NAME SIGNAL: the peer, under load, and comes back
dies() {
	respond || { not_ok "${1}__responder" "" "$dir/responder.log"; return 1; }
	start "$dir/trip.log" timeout 90 "$build/app/pmx-perf" latency --sizes 64 --rounds 100000000 \
		--instance "${tag}0"
	local running=$last
	wait_for 60 more_sent "$(counter proto_messages_sent)" || not_ok "${1}__round_trips" "" "$dir/trip.log"
	kill -0 "$running" 2>/dev/null || not_ok "${1}__runs_before" "" "$dir/trip.log"
	end "$peer" "$2"
	end "$responder" KILL
	# pmx-perf itself waits 20 s for an answer
	if wait_for 60 gone "$running"; then
		ok "${1}__initiator_ends"
	else
		not_ok "${1}__initiator_ends" "it hangs" "$dir/trip.log"
	fi
	end "$running" KILL
	kill -0 "$survivor" 2>/dev/null && ok "${1}__survivor_lives" ||
		not_ok "${1}__survivor_lives" "" "$dir/0.log"
	"$build/app/pmx-ctl" --instance "${tag}0" stat | grep -E 'deaths|restarts|failed' | sed 's/^/# /'
	node 1 && peer=$last && respond || { not_ok "${1}__peer_restarts" "see above"; return 1; }
	# the first message to a node in a new life may end with an error that says so
	if trip "$dir/again.log" 200 120 || trip "$dir/again.log" 200 120; then
		ok "${1}__works_again"
	else
		not_ok "${1}__works_again" "" "$dir/again.log"
	fi
}

for link in "${links[@]}"; do
	over "$link" || { echo "ok peer_death_$link # SKIP no veth pair between namespaces"; continue; }
	# a server first; the other comes while its server runs, or waits for it
	order=(0 1)
	[ "$link" != client ] || order=(1 0)
	nodes=()
	for i in "${order[@]}"; do
		node "$i" || { not_ok "peer_death_${link}_start" ""; exit 1; }
		nodes[i]=$last
	done
	survivor=${nodes[0]} peer=${nodes[1]}
	for k in $(seq 1 "$kills"); do
		dies "peer_death_${link}_killed_$k" KILL || break
		! full || dies "peer_death_${link}_ended_$k" TERM || break
	done
	for i in "$responder" "$peer" "$survivor"; do end "$i"; done
done
exit $failed
