#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: agree.sh BUILD_DIR
# What two nodes must agree on, made wrong on purpose over a switch: the frame's size, proto.checksum, the node's number, the
# MTU and address of the interface. Each is named, by the log or by doctor, on both sides.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages agree 200
for i in 0 1 s; do
	ip netns add "$tag$i" 2>/dev/null || { echo "ok agree # SKIP no namespaces"; exit 0; }
	spaces+=("$tag$i")
done
# by a switch, so that the network between can be another than the interfaces
ip -n "${tag}s" link add switch type bridge forward_delay 0
ip -n "${tag}s" link set switch up
for ((i = 0; i < 2; i++)); do
	ip link add v$i netns "$tag$i" type veth peer name b$i netns "${tag}s"
	ip netns exec "${tag}s" sysctl -qw "net.ipv6.conf.b$i.disable_ipv6=1"
	ip -n "${tag}s" link set b$i mtu 9000 master switch up
	ip netns exec "$tag$i" sysctl -qw "net.ipv6.conf.v$i.disable_ipv6=1"
	ip netns exec "$tag$i" ip link set v$i mtu 9000 up
	mac[i]=$(ip netns exec "$tag$i" cat /sys/class/net/v$i/address)
done

# ini SIDE ID MTU [LINE of proto]: $dir/SIDE.ini
ini() {
	cat >"$dir/$1.ini" <<-END
		[node]
		id = $2
		name = $tag$1
		[engine]
		idle = adaptive
		[link 0]
		port = net_af_packet0
		mtu = $3
		[limits]
		mbufs = 4096
		contexts = 4
		[proto]
		${4:-}
		[nodes]
		0 = ${mac[0]}
		1 = ${mac[1]}
	END
}

# begin SIDE: its primary, $last
begin() {
	local frames=blocksz=36864,framesz=9216,framecnt=512
	grep -q 'mtu = 9000' "$dir/$1.ini" || frames=blocksz=4096,framesz=2048,framecnt=2048
	primary_in "$tag$1" "$1" -l "$1" -m 96 --vdev=net_af_packet0,iface=v$1,$frames
}

# says SIDE NAME PATTERN: its log does
says() {
	wait_for 60 grep -q "$3" "$dir/$1.log" && ok "agree_$2" || not_ok "agree_$2" "" "$dir/$1.log"
}

# doctor SIDE NAME PATTERN
doctor() {
	"$build/app/pmx-ctl" --instance "$tag$1" doctor >"$dir/doctor" 2>&1
	grep -q "$3" "$dir/doctor" && ok "agree_$2" || not_ok "agree_$2" "" "$dir/doctor"
}

# talk BYTES: side 0 to side 1, so that they shake hands; $dir/talk says how it went
talk() {
	start "$dir/respond" "$build/app/pmx-perf" respond --instance "${tag}1"
	local other=$last
	timeout 60 "$build/app/pmx-perf" latency --instance "${tag}0" --to 1:1 --sizes "$1" --rounds 500 --warmup 50 >"$dir/talk" 2>&1
	end "$other" TERM
	wait_for 60 not_open # what comes next is not for it
}

not_open() { ! context_open 1 1; }

stop_all() {
	local pid
	for pid in "$@"; do
		end "$pid" TERM
		wait_for 60 sh -c "! kill -0 $pid 2>/dev/null"
	done
}

# ---- frames of two sizes
ini 0 0 9000
ini 1 1 1500
begin 0 || { not_ok agree_start ""; exit 1; }
a=$last
begin 1 || { not_ok agree_start ""; exit 1; }
b=$last
talk 64
says 0 size__said_by_the_larger "node 1 '${tag}1' takes 1448 bytes a frame, this one 8944"
says 1 size__said_by_the_smaller "node 0 '${tag}0' takes 8944 bytes a frame, this one 1448"
doctor 0 size__doctor_of_the_larger "node 1 '${tag}1' takes 1448 bytes a frame, this one 8944"
doctor 1 size__doctor_of_the_smaller "node 0 '${tag}0' takes 8944 bytes a frame, this one 1448"
stop_all $a $b

# ---- a network that passes shorter frames than both nodes and their interfaces have
ini 1 1 9000
begin 0 && a=$last || not_ok agree_start ""
begin 1 && b=$last || not_ok agree_start ""
talk 64
ip -n "${tag}s" link set b1 mtu 1500
talk 5000
says 0 path__said "node 1 '${tag}1' is reached, but not by frames with [0-9]* bytes of payload"
doctor 0 path__doctor "is reached, but not by frames with"
grep -q 'EMSGSIZE\|longer than' "$dir/talk" && ok agree_path__ends_by_that || not_ok agree_path__ends_by_that "" "$dir/talk"
talk 64
grep -q 'latency *64 ' "$dir/talk" && ok agree_path__short_ones_pass || not_ok agree_path__short_ones_pass "" "$dir/talk"
stop_all $a $b
ip -n "${tag}s" link set b1 mtu 9000

# ---- checksums
ini 1 1 9000 'checksum = on'
begin 0 && a=$last || not_ok agree_start ""
begin 1 && b=$last || not_ok agree_start ""
talk 64
says 0 checksum__said_by_who_has_none "node 1 '${tag}1' has proto.checksum = on, this one has off"
says 1 checksum__said_by_who_has_it "node 0 '${tag}0' has proto.checksum = off, this one has on"
doctor 0 checksum__doctor "proto.checksum = on, this one off"
doctor 1 checksum__doctor_of_the_other "proto.checksum = off, this one on"
stop_all $a $b

# ---- two nodes of one number: the one that comes later ends
ini 1 0 9000
begin 0 && a=$last || not_ok agree_start ""
begin 1 && b=$last || not_ok agree_start ""
wait_for 60 sh -c "! kill -0 $b 2>/dev/null" && ok agree_twin__the_younger_ends || not_ok agree_twin__the_younger_ends "" "$dir/1.log"
kill -0 $b 2>/dev/null && end $b KILL
wait $b
code=$?
[ $code -eq 2 ] && ok agree_twin__for_good || not_ok agree_twin__for_good "exit code $code"
says 0 twin__said_by_the_older "another node has number 0 as well: it is at ${mac[1]^^}, this one at ${mac[0]^^}"
says 1 twin__said_by_the_younger "another node has number 0 as well: it is at ${mac[0]^^}, this one at ${mac[1]^^}, and ends"
kill -0 $a 2>/dev/null && ok agree_twin__the_older_stays || not_ok agree_twin__the_older_stays ""
stop_all $a

# ---- two other nodes of one number: who is neither names both, but not one that has moved
ini 0 0 9000
cat >"$dir/announce.py" <<-'END'
	import socket, struct, sys
	interface, turns = sys.argv[1], sys.argv[2]
	s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x88B5))
	s.bind((interface, 0x88B5))
	print("ready", flush=True)
	while True:
	    frame = s.recv(2048)
	    if frame[:6] == b"\xff" * 6:  # node 0 tells its number: the same of node 1
	        break
	numbered = frame[14:18] + struct.pack(">HH", 1, 1) + frame[22:]
	for turn in turns:
	    who = int(turn, 16)  # its address ends so, and its life is that number: the first 4 bytes behind the header
	    s.send(b"\xff" * 6 + bytes([2, 0, 0, 0, 0, who]) + frame[12:14] + numbered[:50] + bytes([0, 0, 0, who]) + numbered[54:])
END
announce() { # TURNS: by who tells it
	start "$dir/announce" ip netns exec "${tag}1" python3 "$dir/announce.py" v1 "$1"
	local sender=$last
	wait_for 60 grep -q ready "$dir/announce"
	begin 0 && a=$last || not_ok agree_start ""
	wait "$sender" || not_ok agree_announce "" "$dir/announce"
}
announce aab
sleep 2
grep -q 'two nodes have number' "$dir/0.log" && not_ok agree_number__one_has_moved "" "$dir/0.log" || ok agree_number__one_has_moved
stop_all "$a"
announce abab
says 0 number__of_two_others 'two nodes have number 1: at 02:00:00:00:00:0[AB] and at 02:00:00:00:00:0[AB]'
stop_all "$a"

# ---- the interface: what --check says, a start says as well
checks() { # NAME PATTERN SIDE ARGUMENTS...
	local name=$1 pattern=$2 side=$3
	shift 3
	ip netns exec "$tag$side" timeout 60 "$build/app/pmx-dpdk" --no-pci -l 0 -m 96 "$@" -- --check "$dir/$side.ini" >"$dir/check" 2>&1
	local code=$?
	grep -q "$pattern" "$dir/check" && ok "agree_$name # code $code" || not_ok "agree_$name" "code $code" "$dir/check"
}
ip netns exec "${tag}1" ip link set v1 mtu 1500
checks check__mtu_of_the_interface 'mtu = 9000, but v1 carries 1500' 1 --vdev=net_af_packet0,iface=v1
checks check__no_such_interface 'there is no interface none7 here' 1 --vdev=net_af_packet0,iface=none7
checks check__no_such_port "port 'net_af_packet0' does not exist" 1
sed -i "s/^0 = .*/0 = 02:00:00:00:00:77/" "$dir/0.ini"
checks check__own_address "node 0 is 02:00:00:00:00:77, but v0 has ${mac[0]^^}" 0 --vdev=net_af_packet0,iface=v0
exit $failed
