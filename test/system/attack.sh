#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: attack.sh BUILD_DIR [floods]
# Two primaries and somebody without a key on one segment, who sees and sends whatever there is (attack.py), in each security.mode.
# floods: what the two have beside somebody who sends as fast as he can, and beside a node that lies, as a share of what they have else.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages attack 384
in_own_place "$@"
here=$(dirname "$0")
ctl=$build/app/pmx-ctl
perf=$build/app/pmx-perf
switch=${tag}s

# hub: a bridge that gives every frame to every port, with ports of nodes 0 and 1, of the attacker, and of a node that lies
hub() {
	local i
	ip netns add "$switch" && spaces+=("$switch") && ip -n "$switch" link add name sw0 type bridge mcast_snooping 0 ageing_time 0 || return 1
	ip -n "$switch" link set sw0 up
	for i in 0 1 2 x; do
		ip netns add "$tag$i" && spaces+=("$tag$i") && ip link add "v$i" netns "$tag$i" type veth peer name "b$i" netns "$switch" || return 1
		ip netns exec "$switch" sysctl -qw "net.ipv6.conf.b$i.disable_ipv6=1"
		ip netns exec "$tag$i" sysctl -qw "net.ipv6.conf.v$i.disable_ipv6=1"
		ip -n "$switch" link set "b$i" mtu 1500 master sw0 up
		ip -n "$tag$i" link set "v$i" mtu 1500 up
	done
	# where frames go that are to reach nobody
	ip -n "${tag}x" link add idle0 type veth peer name idle1 && ip -n "${tag}x" link set idle0 up && ip -n "${tag}x" link set idle1 up
}

hub || skip_all attack "no namespaces or no bridge"
for i in 0 1 2; do
	mac[i]=$(ip netns exec "$tag$i" cat "/sys/class/net/v$i/address")
	public[i]=$("$ctl" key generate "$dir/key$i") || exit 1
done
nobodys=$("$ctl" key generate "$dir/nobody")

# node I: the primary, in a new life
node() {
	local i=$1 j
	{
		printf '[node]\nid = %s\nname = %s\n[nodes]\n' "$i" "$tag$i"
		for j in 0 1 2; do echo "$j = ${mac[j]} key=${public[j]}"; done
		for ((j = 3; j < 42; j++)); do printf '%d = 02:00:00:00:00:%02x key=%s\n' $j $j "$nobodys"; done
		printf '[link 0]\nport = net_af_packet0\nencap = ether\nmtu = 1500\n[engine]\nidle = adaptive\n'
		printf '[limits]\nmbufs = 16384\ncontexts = 8\nnodes = 64\n[proto]\nhello_ms = 5000\n'
		[ "$mode" = off ] || printf '[security]\nmode = %s\nkey = %s\n' "$mode" "$dir/key$i"
	} >"$dir/$i.ini"
	primary_in "$tag$i" "$i" -l $((i % 2)) -m 128 --vdev="net_af_packet0,iface=v$i,blocksz=4096,framesz=2048,framecnt=2048" || return 1
	primaries[i]=$last
}

stop() {
	local i
	for i; do
		end "${primaries[i]}"
		[ $? -eq 0 ] || not_ok "attack__${mode}_exit_$i" "the primary ended with an error" "$dir/$i.log"
	done
}

# tell COMMAND...: have the attacker do it, and print what it says
tell() {
	local from
	from=$(grep -c . "$dir/attack.log")
	echo "$*" >&"$attack"
	wait_for 300 sh -c "tail -n +$((from + 1)) '$dir/attack.log' | grep -qx done || ! kill -0 $attacker"
	tail -n +$((from + 1)) "$dir/attack.log" | grep -qx done || not_ok "attack__${mode}_$1" "no end" "$dir/attack.log"
	tail -n +$((from + 1)) "$dir/attack.log" | grep -vx done
	! tail -n +$((from + 1)) "$dir/attack.log" | grep -q '^not ok' || failed=1
}

# meets: messages go from node 0 to node 1, of which one has just begun. The first may be lost to the life that has ended.
meets() {
	local try
	for try in 1 2; do
		figure latency --sizes 64 --rounds 200 >/dev/null && return
	done
	return 1
}

# floods KIND SECONDS: have the attacker send as fast as it can
floods() {
	local had
	had=$(grep -c '^# ready' "$dir/attack.log")
	echo "flood $1 $2" >&"$attack"
	wait_for 20 sh -c "[ \$(grep -c '^# ready' '$dir/attack.log') -gt $had ]" || not_ok "attack__${mode}_flood" "" "$dir/attack.log"
}

# flood_over KIND: the one that was begun last has ended
flood_over() { tail -1 "$dir/attack.log" | grep -q "^# $1: "; }

# figure TEST...: messages a second, or nothing
figure() {
	start "$dir/respond.log" "$perf" respond --instance "${tag}1"
	local responder=$last
	wait_for 20 context_open 1 1
	timeout 30 "$perf" "$@" --json --warmup 2 --instance "${tag}0" >"$dir/figure.log" 2>&1 || { end "$responder" KILL; return 1; }
	wait "$responder"
	sed -n 's/.*"per_second": \([0-9.]*\).*/\1/p' "$dir/figure.log"
}

# share NAME LEAST WITH... / WITHOUT...: of messages a second, the best of each, since whatever else this machine does only lowers them
share() {
	local name=$1 least=$2 best=0 other=0 value line="# with, without:"
	shift 2
	while [ $# -gt 1 ]; do
		line+=" ${1%.*}/${2%.*}"
		best=$(awk -v a="$best" -v b="$1" 'BEGIN {print (b > a ? b : a)}')
		other=$(awk -v a="$other" -v b="$2" 'BEGIN {print (b > a ? b : a)}')
		shift 2
	done
	echo "$line messages a second"
	value=$(awk -v a="$best" -v b="$other" 'BEGIN {printf "%.2f", (b > 0 ? a / b : 0)}')
	awk -v v="$value" -v l="$least" 'BEGIN {exit !(v >= l)}' && ok "$name" || not_ok "$name" "$value, and not $least"
	echo "# $value"
}

# goodput FLOOD TURNS LEAST: messages a second beside it, as a share of those beside as many frames to nobody, in turns
goodput() {
	local kind=$1 turn all=()
	for ((turn = 0; turn < $2; turn++)); do
		floods "$kind" 1.8
		all+=("$(figure bandwidth --sizes 1400 --seconds 1 || echo 0)")
		wait_for 20 flood_over "$kind"
		floods idle 1.8
		all+=("$(figure bandwidth --sizes 1400 --seconds 1 || echo 0)")
		wait_for 20 flood_over idle
	done
	grep 'a second' "$dir/attack.log" | sort -u | tail -2
	share "attack__${mode}_goodput_$kind" "$3" "${all[@]}"
}

# begins_under FLOOD: node 1 begins anew beside it, and messages go
begins_under() {
	local from
	floods "$1" 4
	end "${primaries[1]}"
	node 1
	from=$(micros)
	if meets; then
		ok "attack__${mode}_begins_under_$1"
		echo "# traffic was through after $((($(micros) - from) / 1000)) ms"
	else
		not_ok "attack__${mode}_begins_under_$1" "" "$dir/figure.log"
	fi
	"$ctl" --instance "${tag}0" stat | awk '/^(cookies|drop_handshake|keys_begun) / {print "# node 0:", $1, $2}'
	"$ctl" --instance "${tag}1" stat | awk '/^(cookies|drop_handshake|keys_begun) / {print "# node 1:", $1, $2}'
	wait_for 20 flood_over "$1"
	tail -1 "$dir/attack.log"
}

# lies: what an application of node 2 does to node 0's and 1's, until it is ended: it takes nothing of what node 0 sends to it, and
# ends in the middle of long messages to node 1, again and again
lies() {
	local mine=() responder
	trap 'kill -KILL "${mine[@]}" 2>/dev/null; exit 0' TERM
	"$perf" respond --context 1 --instance "${tag}2" >/dev/null 2>&1 &
	mine=($!)
	wait_for 10 context_open 2 1
	"$perf" bandwidth --sizes 1400 --seconds 60 --context 5 --to 2:1 --instance "${tag}0" >/dev/null 2>&1 &
	mine+=($!)
	sleep 0.3
	kill -STOP "${mine[0]}"
	while :; do
		"$perf" respond --context 3 --instance "${tag}1" >/dev/null 2>&1 &
		responder=$!
		mine[2]=$responder
		wait_for 10 context_open 1 3
		timeout -s KILL 0.3 "$perf" bandwidth --sizes 4000000 --seconds 60 --context 4 --to 1:3 --instance "${tag}2" >/dev/null 2>&1
		kill -KILL "$responder"
		wait "$responder" 2>/dev/null
	done
}

# beside_liar TURNS LEAST: messages a second from node 0 to node 1 beside it, as a share of those beside
# somebody who takes as much of the CPUs, in turns
beside_liar() {
	local turn all=() before
	before=$(books 0 "${primaries[0]}" contexts)
	for ((turn = 0; turn < $1; turn++)); do
		lies 2>/dev/null &
		local liar=$!
		pids+=("$liar")
		sleep 1
		all+=("$(figure bandwidth --sizes 1400 --seconds 1 || echo 0)")
		end "$liar"
		sleep 0.5
		floods idle 1.8 # what it takes of the CPUs is not what is asked here
		all+=("$(figure bandwidth --sizes 1400 --seconds 1 || echo 0)")
		wait_for 20 flood_over idle
	done
	echo "# node 0 before: $before; after: $(books 0 "${primaries[0]}" contexts)"
	share "attack__${mode}_goodput_liar" "$2" "${all[@]}"
}

# beside_floods: messages a second of the two nodes, beside each of those who take what they can
beside_floods() {
	goodput frames "${TURNS:-3}" 0.9
	[ "$mode" = off ] || goodput init "${TURNS:-3}" 0.9
	if node 2; then
		beside_liar "${TURNS:-3}" 0.5
		stop 2
	else
		not_ok "attack__${mode}_start_2" ""
	fi
}

# what of the cases the default tier has
declare -A cases=([off]="blind forge seen_nack seen_reset" [auth]="forge lying_credit")
cases[seal]="forge replay lying_ack cut unsealed_hello init_flood"

# attacks: each case, of which none may succeed
attacks() {
	tell old
	stop 0 1
	node 0 && node 1 || not_ok "attack__${mode}_restart" ""
	if [ "$mode" = off ]; then
		# a node that is younger than 10 s ends when another one has its number
		tell announce
		wait_for 10 gone "${primaries[1]}" && ok attack__off_announce && echo "# EXPECTED TO SUCCEED, and did: the younger of two twins ended" ||
			not_ok attack__off_announce "node 1 was expected to end"
		wait "${primaries[1]}" 2>/dev/null
		node 1 || not_ok "attack__${mode}_restart" ""
	fi
	meets || not_ok "attack__${mode}_traffic" "" "$dir/figure.log"
	! full || CASES=${CASES:-all}
	tell case ${CASES:-${cases[$mode]}}
	if [ "$mode" != off ]; then
		# a node begins while its peer is under load, and while somebody answers in its peer's place
		full || [ "$mode" = seal ] && begins_under init
		full || [ "$mode" = seal ] && begins_under race
	fi
}

for mode in ${MODES:-off auth seal}; do
	rm -f "$dir/attack.log"
	start_fed "$dir/attack.log" ip netns exec "${tag}x" python3 "$here/attack.py" vx "$mode" "$build" "$tag" "${mac[0]}" "${mac[1]}"
	attack=$to attacker=$last
	wait_for 20 grep -q listening "$dir/attack.log"
	node 0 && node 1 || { not_ok "attack__${mode}_start" ""; continue; }
	meets || not_ok "attack__${mode}_traffic" "" "$dir/figure.log"
	if [ "${2:-}" = floods ]; then
		beside_floods
	else
		attacks
	fi
	stop 0 1
	echo quit >&"$attack"
	exec {attack}>&-
done
exit $failed
