#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: discovery.sh BUILD_DIR
# Nodes that find each other: hosts are namespaces at one bridge. They know one seed, and nothing of each other. One joins under load; one
# has a number that is taken; one restarts elsewhere; one is taken over; one ends. Then nodes of raw Ethernet that [nodes] has by IP address.
set -u
. "$(dirname "$0")/common.bash"
hosts=5
ip netns add "${tag}b" 2>/dev/null || skip_all discovery "no namespaces"
spaces+=("${tag}b")
ip -n "${tag}b" link add br0 type bridge || skip_all discovery "no bridges"
ip -n "${tag}b" link set br0 up
for ((i = 0; i < hosts; i++)); do
	ip netns add "$tag$i" && spaces+=("$tag$i")
	ip link add v$i netns "$tag$i" type veth peer name p$i netns "${tag}b"
	ip -n "${tag}b" link set p$i master br0 up
	ip -n "$tag$i" link set lo up
	ip -n "$tag$i" link set v$i up
	ip -n "$tag$i" addr add "10.9.0.$((i + 1))/24" dev v$i
done

# config NODE HOST SEED [LINK] [NODES]: the configuration of a primary, host-NODE-HOST.ini
config() {
	cat >"$dir/$1-$2.ini" <<-END
		[node]
		id = $1
		name = $tag-$1-$2
		[engine]
		idle = adaptive
		[limits]
		contexts = 8
		mbufs = 4096
		[discovery]
		seed = $3
		name = host$2
		[link 0]
		${4:-driver = udp
		listen = 0.0.0.0:18515}
		[nodes]
		${5:-}
	END
}

# node NODE HOST [EAL arguments]: that primary, on that host; its process number is in node_pid
node() {
	local name=$1-$2 code
	primary_in "$tag$2" "$name" -l "$((${1} % 2))" -m 96 --no-huge --file-prefix="$tag-$name" "${@:3}"
	code=$?
	node_pid=$last
	return $code
}
ctl() { "$build/app/pmx-ctl" --instance "$tag-$1" "${@:2}"; }

# knows WHO NODE HOST: whether primary WHO has that node at that host
knows() { ctl "$1" --json peers 2>/dev/null | jq -e --argjson n "$2" --arg a "10.9.0.$(($3 + 1)):" 'any(.[]; .node == $n and (.address | startswith($a)))' >/dev/null; }
forgot() { ctl "$1" --json peers 2>/dev/null | jq -e --argjson n "$2" 'all(.[]; .node != $n)' >/dev/null; }
# check NAME LOG COMMAND...
check() {
	if wait_for 30 "${@:3}"; then ok "$1"; else not_ok "$1" "${*:3}" "$2"; fi
}
all() { knows 0-0 1 1 && knows 0-0 2 2 && knows 1-1 0 0 && knows 1-1 2 2 && knows 2-2 0 0 && knows 2-2 1 1; }

for i in 0 1 2; do
	config $i $i 10.9.0.1
	node $i $i || { not_ok discovery__starts "node $i" "$dir/$i-$i.log"; exit 1; }
	pids[i]=$node_pid
done
check discovery__one_seed_is_enough "$dir/2-2.log" all
ctl 0-0 ping host2 >"$dir/ping" 2>&1 && ok discovery__by_name || not_ok discovery__by_name "" "$dir/ping"
ctl 1-1 doctor >"$dir/doctor" 2>&1
grep -q "2 nodes found; all 1 seeds answer" "$dir/doctor" && ok discovery__doctor_says_so || not_ok discovery__doctor_says_so "" "$dir/doctor"

# ------------------------------------------------------------------ one joins under load

export PMX_ATTACH=thin
load() {
	start "$dir/respond.log" ip netns exec "${tag}1" "$build/app/pmx-perf" respond --idle yield --instance "$tag-1-1"
	responder=$last
	sleep 0.5
	start "$dir/load.log" ip netns exec "${tag}0" "$build/app/pmx-perf" latency --idle yield --sizes 64 --rounds 1e9 --to 1:1 --instance "$tag-0-0"
	load=$last
	sleep 1
}
load_goes_on() {
	kill -0 "$load" 2>/dev/null && ok "$1" || not_ok "$1" "" "$dir/load.log"
	end "$load" KILL
	end "$responder" KILL
}
load
config 3 3 10.9.0.1
begin=$(date +%s%N)
node 3 3 || not_ok discovery__joins "does not start" "$dir/3-3.log"
ready=$(date +%s%N)
pids[3]=$node_pid
joined() { knows 0-0 3 3 && knows 1-1 3 3 && knows 2-2 3 3; }
until joined || [ $(($(date +%s%N) - ready)) -gt 30000000000 ]; do :; done
end=$(date +%s%N)
joined && ok discovery__joins_under_load || not_ok discovery__joins_under_load "" "$dir/3-3.log"
echo "# node 3 was known to nodes 0, 1 and 2 $(((end - ready) / 1000000)) ms after it was ready (looks at telemetry included; it started within $(((ready - begin) / 1000000)) ms)"
ctl 2-2 ping 3 >"$dir/ping" 2>&1 && ok discovery__the_new_node_answers || not_ok discovery__the_new_node_answers "" "$dir/ping"
load_goes_on discovery__the_load_goes_on

# ------------------------------------------------------------------ numbers and lives

config 2 4 10.9.0.2
start "$dir/2-4.log" ip netns exec "${tag}4" "$build/app/pmx-dpdk" --no-pci --no-huge -m 96 -l 0 --file-prefix="$tag-2-4" -- "$dir/2-4.ini"
twin=$last
check discovery__a_taken_number_ends_the_newcomer "$dir/2-4.log" gone "$twin"
ip netns exec "${tag}4" timeout 20 "$build/app/pmx-dpdk" --no-pci --no-huge -m 96 -l 0 --file-prefix="$tag-2-4" -- --background "$dir/2-4.ini" >"$dir/background.log" 2>&1
[ $? -eq 2 ] && ! grep -q ready "$dir/background.log" && ok discovery__is_not_ready_before || not_ok discovery__is_not_ready_before "" "$dir/background.log"
grep -q "number 2 is that of node 'host2' at 10.9.0.3:18514" "$dir/2-4.log" && ok discovery__the_newcomer_names_the_holder ||
	not_ok discovery__the_newcomer_names_the_holder "" "$dir/2-4.log"
grep -q "node 'host4' at 10.9.0.5:18514 has number 2, which is that of node 'host2' at 10.9.0.3:18514" "$dir/1-1.log" &&
	ok discovery__the_seed_names_both || not_ok discovery__the_seed_names_both "" "$dir/1-1.log"
all && ok discovery__the_holder_stays || not_ok discovery__the_holder_stays "" <(ctl 0-0 peers)

# the same number again, when its holder has been killed
end "${pids[2]}" KILL
node 2 4 || not_ok discovery__moves "does not start" "$dir/2-4.log"
pids[2]=$node_pid
moved() { knows 0-0 2 4 && knows 1-1 2 4 && knows 3-3 2 4; }
check discovery__a_number_moves_with_its_node "$dir/2-4.log" moved
wait_for 20 ctl 0-0 ping 2 >"$dir/ping" 2>&1 && ok discovery__and_answers_there || not_ok discovery__and_answers_there "" "$dir/ping"

# another primary takes over, under load: it knows what was found from the start, and learns none of it again
load
OPTIONS=(--take-over)
old=${pids[1]}
node 1 1 && wait_for 60 gone "$old" && ok discovery__taken_over || not_ok discovery__taken_over "" "$dir/1-1.log"
pids[1]=$node_pid
OPTIONS=()
knows 1-1 0 0 && knows 1-1 3 3 && ok discovery__taken_over_with_all || not_ok discovery__taken_over_with_all "" <(ctl 1-1 peers)
load_goes_on discovery__taken_over_under_load
once() { [ "$(grep -c "discovery: node [023] .* found" "$dir/1-1.log")" -eq 3 ]; }
answers() { ctl 1-1 doctor 2>&1 | grep -q "all 1 seeds answer"; }
wait_for 30 answers && once && ok discovery__taken_over_and_learns_nothing_again || not_ok discovery__taken_over_and_learns_nothing_again "" "$dir/1-1.log"
ctl 1-1 ping 3 >"$dir/ping" 2>&1 && ok discovery__taken_over_and_answers || not_ok discovery__taken_over_and_answers "" "$dir/ping"
grep -q "is refused" "$dir/0-0.log" && not_ok discovery__taken_over_is_no_twin "" "$dir/0-0.log" || ok discovery__taken_over_is_no_twin

# the seed itself is taken over: it forgets nobody
OPTIONS=(--take-over)
old=${pids[0]}
node 0 0 && wait_for 60 gone "$old" && ok discovery__seed_taken_over || not_ok discovery__seed_taken_over "" "$dir/0-0.log"
pids[0]=$node_pid
OPTIONS=()
knows 0-0 1 1 && knows 0-0 3 3 && knows 0-0 2 4 && ok discovery__seed_taken_over_with_all || not_ok discovery__seed_taken_over_with_all "" <(ctl 0-0 peers)
sleep 3
knows 0-0 1 1 && knows 0-0 3 3 && knows 0-0 2 4 && ok discovery__and_keeps_them || not_ok discovery__and_keeps_them "" <(ctl 0-0 peers)

# a node that others cannot reach, since its link is another one, keeps nobody else from being found
cat >"$dir/9-4.ini" <<-END
	[node]
	id = 9
	name = $tag-9-4
	[limits]
	contexts = 8
	mbufs = 4096
	[discovery]
	listen = 0.0.0.0:18900
	seed = 10.9.0.1
	[link 0]
	driver = loop
	port = nowhere
END
node 9 4 && ok discovery__without_an_address || not_ok discovery__without_an_address "" "$dir/9-4.log"
pids[9]=$node_pid
# one joins, and is killed; its file does not hinder another start with other links
config 8 3 10.9.0.1
sed -i 's/0.0.0.0:18515/0.0.0.0:18601/; s/^seed = .*/&\nlisten = 0.0.0.0:18600/' "$dir/8-3.ini"
node 8 3
pids[8]=$node_pid
eighth() { ctl 0-0 --json peers | jq -e 'any(.[]; .node == 8)' >/dev/null; }
check discovery__joins_beside_it "$dir/8-3.log" eighth
end "${pids[8]}" KILL
[ -e "/run/pmx-dpdk/$tag-8-3.nodes" ] && ok discovery__a_killed_one_leaves_its_file || not_ok discovery__a_killed_one_leaves_its_file "" <(ls /run/pmx-dpdk)
ctl 8-3 doctor 2>&1 | grep -q "$tag-8-3.nodes" && ok discovery__doctor_names_it || not_ok discovery__doctor_names_it "" <(ctl 8-3 doctor 2>&1)
sed -i 's/^driver = udp/driver = ethdev\nport = net_af_packet0/; /^listen = 0.0.0.0:18601/d' "$dir/8-3.ini"
node 8 3 --vdev=net_af_packet0,iface=v3 && ok discovery__starts_again_with_another_link || not_ok discovery__starts_again_with_another_link "" "$dir/8-3.log"
end "$node_pid"
end "${pids[9]}"

# a resolver that is silent keeps nobody waiting
mkdir -p "/etc/netns/${tag}4"
echo "nameserver 10.9.0.77" >"/etc/netns/${tag}4/resolv.conf"
config 7 4 slow.example.com,10.9.0.1
sed -i 's/0.0.0.0:18515/0.0.0.0:18701/; s/^seed = .*/&\nlisten = 0.0.0.0:18700/' "$dir/7-4.ini"
node 7 4
rm -rf "/etc/netns/${tag}4"
OPTIONS=(--take-over)
old=$node_pid
node 7 4 && wait_for 10 gone "$old" && ok discovery__taken_over_beside_a_silent_resolver || not_ok discovery__taken_over_beside_a_silent_resolver "" "$dir/7-4.log"
OPTIONS=()
kill -TERM "$node_pid"
wait_for 4 gone "$node_pid" && ok discovery__ends_beside_a_silent_resolver || not_ok discovery__ends_beside_a_silent_resolver "" "$dir/7-4.log"

# one ends
end "${pids[3]}"
left() { forgot 0-0 3 && forgot 1-1 3 && forgot 2-4 3; }
check discovery__who_ends_is_forgotten "$dir/0-0.log" left
ctl 0-0 ping 3 >"$dir/ping" 2>&1
grep -q "was not found: 1 of 1 seeds answer\|has no node of that name" "$dir/ping" && ok discovery__ping_says_that_it_was_not_found ||
	not_ok discovery__ping_says_that_it_was_not_found "" "$dir/ping"
[ "$(find /run/pmx-dpdk -name "$tag-3-3*" | wc -l)" -eq 0 ] && ok discovery__leaves_no_file || not_ok discovery__leaves_no_file "" <(ls /run/pmx-dpdk)
for i in 0 1 2; do end "${pids[i]}"; done

# ------------------------------------------------------------------ wrong seeds, and raw Ethernet

config 0 0 nowhere.invalid,10.9.0.4
node 0 0
unanswered() { ctl 0-0 doctor 2>&1 | grep -q "a seed has no address: nowhere.invalid"; }
check discovery__doctor_names_a_seed_without_address "$dir/0-0.log" unanswered
end "$node_pid"
config 0 0 10.9.0.4
node 0 0
unanswered() { ctl 0-0 doctor 2>&1 | grep -q "1 of 1 seeds have not answered: 10.9.0.4"; }
check discovery__doctor_names_a_silent_seed "$dir/0-0.log" unanswered
end "$node_pid"
table='0 = 10.9.0.1
1 = 10.9.0.2'
for i in 1 0; do
	config $i $i "" "port = net_af_packet0" "$table"
	sed -i '/^\[discovery\]/,/^name = host/d' "$dir/$i-$i.ini"
	node $i $i "--vdev=net_af_packet0,iface=v$i" || not_ok discovery__ethernet "does not start" "$dir/$i-$i.log"
	pids[i]=$node_pid
done
by_mac() { ctl 0-0 --json peers | jq -e --arg m "$(ip netns exec "${tag}1" cat /sys/class/net/v1/address)" '.[0].address == ($m | ascii_upcase)' >/dev/null; }
check discovery__an_ip_address_gives_the_ethernet_address "$dir/0-0.log" by_mac
ctl 0-0 ping 1 >"$dir/ping" 2>&1 && ok discovery__ethernet_by_ip_answers || not_ok discovery__ethernet_by_ip_answers "" "$dir/ping"
for i in 0 1; do end "${pids[i]}"; done
exit $failed
