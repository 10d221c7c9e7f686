#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: rails.sh BUILD_DIR [TIMES]
# Two primaries that reach each other by two links, veth pairs between two namespaces. Under a stream of messages one of the links,
# at one of its ends, is set down, and up again, TIMES (12) times: nothing is lost, doubled or told an error, and the stream goes on.
# Then with one link at a time (engine.links = failover).
# Both links dead for a second: the stream waits, and goes on. Take-overs and reloads of [nodes] under the stream.
set -u
. "$(dirname "$0")/common.bash"
need_hugepages rails 400
ctl="$build/app/pmx-ctl"
times=${2:-12}
export PMX_ATTACH=thin

# the namespaces and a second pair, w0 and w1
veth 1500 || skip_all rails "no veth pair between namespaces"
ip link add w0 netns "${tag}0" type veth peer name w1 netns "${tag}1" || skip_all rails "no second veth pair"
for i in 0 1; do
	ip netns exec "$tag$i" ethtool -K "w$i" tx off rx off gso off gro off tso off >/dev/null 2>&1
	ip -n "$tag$i" link set "w$i" mtu 1500 up
done

# start_node N ENGINE-LINE
start_node() {
	cat >"$dir/$1.ini" <<-END
		[node]
		id = $1
		name = $tag$1
		[engine]
		idle = adaptive
		$2
		[limits]
		contexts = 8
		mbufs = 16384
		flows = 256
		[link 0]
		port = net_af_packet0
		[link 1]
		port = net_af_packet1
		[nodes]
		0 = auto link=0,1
		1 = auto link=0,1
	END
	run_node "$1"
}

run_node() {
	PREFIX=(ip netns exec "$tag$1")
	primary "$1" -m 224 -l "${cpus:-$1}" --vdev="net_af_packet0,iface=v$1" --vdev="net_af_packet1,iface=w$1"
}

# stop_nodes: what they log stays
stop_nodes() {
	local pid
	for pid in ${nodes[@]+"${nodes[@]}"}; do end "$pid"; done
	nodes=()
}

start_nodes() { # ENGINE-LINE
	nodes=()
	local i
	for i in 0 1; do
		start_node $i "$1" || { not_ok rails__start "a primary does not start"; exit 1; }
		nodes+=("$last")
	done
}

links_up() { # HOW MANY: node 0 sees so many links to node 1
	"$ctl" --instance "${tag}0" links | sed -n '/^peers with/,$p' | grep -c ' up *$' | grep -qx "$1"
}

reload() { # telemetry turns clients away now and then
	local try
	for try in {1..20}; do
		"$ctl" --instance "${tag}0" reload >"$dir/answer" 2>&1 && return
		sleep 0.1
	done
	return 1
}

start_stream() {
	start "$dir/receive.log" "$build/test/rails" receive "${tag}1" 1
	receiver=$last
	wait_for 20 grep -q ready "$dir/receive.log"
	start "$dir/send.log" "$build/test/rails" send "${tag}0" 1:1
	sender=$last
	wait_for 20 grep -q ready "$dir/send.log"
	sleep 1
}

# end_stream NAME: it ends whole
end_stream() {
	kill -TERM "$sender"
	local code=0
	wait_for 60 sh -c "! kill -0 $sender 2>/dev/null && ! kill -0 $receiver 2>/dev/null" || code=1
	wait "$sender" || code=1
	wait "$receiver" || code=1
	local sent received
	sent=$(sed -n 's/^sent //p' "$dir/send.log") received=$(sed -n 's/^received //p' "$dir/receive.log")
	[ $code = 0 ] && [ -n "$sent" ] && [ "$sent" = "$received" ] && ok "$1" || {
		not_ok "$1" "sent '$sent', received '$received'" "$dir/send.log"
		tail -5 "$dir/receive.log" | sed 's/^/# /'
	}
	echo "# $sent messages"
}

# die_and_return TIMES NAME BOUND: prints the pauses; the median is below BOUND ms
die_and_return() {
	local k names=(v w) name end p50
	: >"$dir/deaths"
	for ((k = 0; k < $1; k++)); do
		name=${names[RANDOM % 2]} end=$((RANDOM % 2))
		echo "$(date +%s.%N) $name$end" >>"$dir/deaths"
		ip -n "$tag$end" link set "$name$end" down
		sleep 0.4
		[ $k != 0 ] || "$ctl" --instance "${tag}0" doctor >"$dir/doctor" 2>&1
		ip -n "$tag$end" link set "$name$end" up
		wait_for 10 links_up 2 || { not_ok "$2_comes_back" "$name$end, after $k times" "$dir/0.log"; return; }
		sleep 0.$((RANDOM % 3 + 1))
	done
	ok "$2_comes_back"
	# the longest silence that ends within half a second from each death
	awk 'FNR == NR {if ($1 == "gap") {at[n] = $2; ms[n++] = $3}; next}
		{most = 2; for (i = 0; i < n; i++) if (at[i] > $1 && at[i] < $1 + 0.5 && ms[i] > most) most = ms[i]; print most, $2}' \
		"$dir/receive.log" "$dir/deaths" | sort -g >"$dir/pauses"
	p50=$(awk "{print \$1}" "$dir/pauses" | median)
	echo "# pause after a death of $1, in ms: p50 $p50, longest $(tail -1 "$dir/pauses")"
	awk -v p="$p50" -v bound="$3" 'BEGIN {exit !(p < bound)}' && ok "$2_pause" || not_ok "$2_pause" "p50 of $p50 ms, not below $3"
}

RANDOM=1
start_nodes ''
start_stream
wait_for 10 links_up 2 && ok rails__both_are_up || not_ok rails__both_are_up "" "$dir/0.log"
"$ctl" --instance "${tag}0" --json links >"$dir/links"
python3 - "$dir/links" <<'END' && ok rails__both_carry_the_stream || not_ok rails__both_carry_the_stream "" "$dir/links"
import json, sys
tx = [l["tx_bytes_s"] for l in json.load(open(sys.argv[1]))["links"]]
print("# links carry %.0f and %.0f MB/s" % (tx[0] / 1e6, tx[1] / 1e6))
sys.exit(min(tx) <= 0.7 * max(tx))
END
die_and_return "$times" rails__spread 50
grep -Eq 'node 1 is not reached by link [01]' "$dir/doctor" && ok rails__doctor_tells || not_ok rails__doctor_tells "" "$dir/doctor"
# both die
ip -n "${tag}0" link set v0 down
ip -n "${tag}1" link set w1 down
sleep 1
ip -n "${tag}0" link set v0 up
ip -n "${tag}1" link set w1 up
wait_for 10 links_up 2 && ok rails__both_come_back || not_ok rails__both_come_back "" "$dir/0.log"
sleep 0.5
grep -q "not reached by link" "$dir/0.log" "$dir/1.log" && ok rails__a_death_is_logged || not_ok rails__a_death_is_logged "" "$dir/0.log"
# another primary takes over, and knows both links
for i in 0 1; do
	OPTIONS=(--take-over)
	if run_node $i; then
		old=${nodes[i]} nodes[i]=$last
		wait_for 10 sh -c "! kill -0 $old 2>/dev/null" && ok rails__taken_over_$i || not_ok rails__taken_over_$i "the old primary does not end"
	else
		not_ok rails__taken_over_$i "not replaced"
	fi
	OPTIONS=()
done
wait_for 10 links_up 2 && ok rails__taken_over_with_both || not_ok rails__taken_over_with_both ""
die_and_return 3 rails__taken_over 300
# the table has one of them, then the other, then both
for links in 0 1 0,1; do
	sed -i "s/^1 = .*/1 = auto link=$links/" "$dir/0.ini"
	reload || not_ok "rails__reload_$links" "" "$dir/answer"
	sleep 0.3
	case $links in
	?) links_up 0 && ok "rails__reload_$links" || not_ok "rails__reload_$links" "still several links" ;;
	*) wait_for 10 links_up 2 && ok "rails__reload_$links" || not_ok "rails__reload_$links" "not both" ;;
	esac
done
end_stream rails__spread_nothing_lost
"$ctl" --instance "${tag}0" stat | awk '$1 == "proto_messages_failed" {n = $2} END {exit n != 0}' && ok rails__no_errors || not_ok rails__no_errors ""
stop_nodes

start_nodes 'links = failover'
start_stream
"$ctl" --instance "${tag}0" --json links >"$dir/links"
python3 - "$dir/links" <<'END' && ok rails__failover_uses_one || not_ok rails__failover_uses_one "" "$dir/links"
import json, sys
tx = [l["tx_frames_s"] for l in json.load(open(sys.argv[1]))["links"]]
sys.exit(tx[0] < 1000 or tx[1] > 100)
END
die_and_return $(((times + 1) / 2)) rails__failover 50
end_stream rails__failover_nothing_lost
stop_nodes

# with two lanes: the second one's frames come by the first one's queue
cpus=0,1 start_nodes 'lanes = 2'
start_stream
wait_for 10 links_up 2 && ok rails__lanes_both_are_up || not_ok rails__lanes_both_are_up "" "$dir/0.log"
die_and_return 4 rails__lanes 300
end_stream rails__lanes_nothing_lost
stop_nodes

# links with a rate, between two embedded nodes over memif: what two carry, beside one
carries() { # LINKS: prints Gb/s of 8 KiB
	local i l responder list devices
	list=$(seq -s, 0 $(($1 - 1)))
	for i in 0 1; do
		{
			printf '[node]\nid = %s\nname = %s\n[engine]\nidle = yield\n[limits]\nmbufs = 12288\ncontexts = 4\n' $i "$tag$i"
			printf '[nodes]\n0 = auto link=%s\n1 = auto link=%s\n' "$list" "$list"
			for ((l = 0; l < $1; l++)); do printf '[link %s]\nport = net_memif%s\nfault = rate=500M,queue=1M\n' $l $l; done
		} >"$dir/$i.ini"
	done
	devices() { # ROLE LINKS
		for ((l = 0; l < $2; l++)); do echo "--vdev=net_memif$l,role=$1,socket=$dir/memif$l.sock,socket-abstract=no,rsize=10"; done
	}
	mapfile -t devices < <(devices server "$1")
	start "$dir/respond.log" "$build/app/pmx-perf" respond --idle yield --embedded "$dir/1.ini" -- --no-pci -l 1 "--file-prefix=${tag}r" "${devices[@]}"
	responder=$last
	wait_for 10 test -S "$dir/memif$(($1 - 1)).sock"
	sleep 0.5
	mapfile -t devices < <(devices client "$1")
	timeout 60 "$build/app/pmx-perf" bandwidth --json --sizes 8192 --seconds 1 --idle yield --embedded "$dir/0.ini" -- --no-pci -l 0 \
		"--file-prefix=${tag}i" "${devices[@]}" 2>"$dir/carries.log" | sed -n 's/.*"gbits": *\([0-9.]*\).*/\1/p'
	end "$responder"
	rm -f "$dir"/memif*.sock
}
best() { # LINKS: of two calls, as another process may have taken a CPU
	{ carries "$1" && carries "$1"; } | sort -g | tail -1
}
one=$(best 1) two=$(best 2)
echo "# links of 0.5 Gb/s: one carries $one, two carry $two Gb/s"
awk -v a="$one" -v b="$two" 'BEGIN {exit !(a > 0 && b >= 1.8 * a)}' && ok rails__two_carry_twice_as_much || not_ok rails__two_carry_twice_as_much "$one and $two Gb/s" "$dir/carries.log"
exit $failed
