#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: multicast.sh BUILD_DIR
# Multicasts by the network (RHI-MC, multicast A) over a real switch: a Linux bridge, to which four primaries in namespaces of
# their own are joined by af_packet ports. The bytes, what leaves the sender, loss, each encapsulation, and the list beside it.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages multicast 384
program=$build/test/groups
nodes=4
switch=${tag}s
if ! ip netns add "$switch"; then
	echo "ok multicast # SKIP no namespaces"
	exit 0
fi
spaces+=("$switch")
if ! ip netns exec "$switch" ip link add name sw0 type bridge mcast_snooping 0; then
	echo "ok multicast # SKIP no bridge"
	exit 0
fi
ip netns exec "$switch" ip link set sw0 up
for ((i = 0; i < nodes; i++)); do
	ip netns add "$tag$i" && spaces+=("$tag$i")
	ip link add v$i netns "$tag$i" type veth peer name b$i netns "$switch"
	ip netns exec "$switch" sysctl -qw "net.ipv6.conf.b$i.disable_ipv6=1"
	ip netns exec "$switch" ip link set b$i mtu 9000 master sw0 up
	ip netns exec "$tag$i" sysctl -qw "net.ipv6.conf.v$i.disable_ipv6=1"
	ip netns exec "$tag$i" ip link set v$i mtu 9000 up
	mac[i]=$(ip netns exec "$tag$i" cat /sys/class/net/v$i/address)
done

# begin MODE ENCAP [FAULT]: the primaries
begin() {
	local i j frames=blocksz=4096,framesz=2048,framecnt=2048
	[ "$mtu" -lt 2000 ] || frames=blocksz=36864,framesz=9216,framecnt=1024
	for ((i = 0; i < nodes; i++)); do
		{
			printf '[node]\nid = %s\nname = %s\n[nodes]\n' $i "$tag$i"
			for ((j = 0; j < nodes; j++)); do
				if [ "$2" = udp ]; then
					echo "$j = 10.9.0.$((j + 1)) mac=${mac[j]}"
				else
					echo "$j = ${mac[j]}"
				fi
			done
			printf '[link 0]\nport = net_af_packet0\nencap = %s\nmtu = %s\n' "$2" "$mtu"
			[ "$2" != udp ] || echo "ip = 10.9.0.$((i + 1))"
			[ -z "${3:-}" ] || echo "fault = $3,seed=$((i + 1))"
			printf '[engine]\nidle = adaptive\nmulticast = %s\n[limits]\nmbufs = 8192\ncontexts = 4\n' "$1"
			printf '[proto]\nkeepalive_ms = 1000\n'
		} >"$dir/$i.ini"
		PREFIX=(ip netns exec "$tag$i")
		primary $i -l $((i % 2)) -m 96 --vdev=net_af_packet0,iface=v$i,"$frames" ||
			not_ok "multicast_start_$i" ""
		PREFIX=()
		primaries[i]=$last
	done
}

finish() {
	local i
	for ((i = 0; i < nodes; i++)); do end "${primaries[i]}"; done
}

# of that node: frames sent to several at once that it took; bytes that its interface sent, and at most so many of them again: what
# went out again because an Ack was late says nothing of copies
multi() { "$build/app/pmx-ctl" --instance "$tag$1" stat | awk '$1 ~ /rx_multi/ {n = $2} END {print n + 0}'; }
again() { "$build/app/pmx-ctl" --instance "$tag$1" stat --all | awk -v mtu=$mtu '$1 == "proto_tx_retransmits" {print $2 * (mtu + 100)}'; }
sent() { ip netns exec "$tag$1" cat /sys/class/net/v$1/statistics/tx_bytes; }

group=0
# members NODE:CONTEXT...: a process for each, which joins the next group
members() {
	local rank=0 m
	group=$((group + 1))
	for m; do
		start_fed "$dir/m$rank.log" "$program" "$tag${m%:*}" "${m#*:}" $group 10000 "$@"
		in[rank]=$to
		rank=$((rank + 1))
	done
	count=$rank
	for ((rank = 0; rank < count; rank++)); do
		wait_for 60 grep -qx 'open: 0' "$dir/m$rank.log" || not_ok "multicast_opens" "" "$dir/m$rank.log"
	done
}

all() { for ((r = 0; r < count; r++)); do echo "$1" >&"${in[r]}"; done; }

quits() {
	all quit
	for ((r = 0; r < count; r++)); do
		local fd=${in[r]}
		exec {fd}>&-
	done
}

# casts NAME RANK N BYTES [KIND]: all of them arrive, whole or in parts of that kind
casts() {
	local r
	for ((r = 0; r < count; r++)); do : >"$dir/m$r.log"; done
	all "casts $2 $3 $4 ${5:-all}"
	for ((r = 0; r < count; r++)); do
		if ! wait_for 60 grep -q '^casts: ' "$dir/m$r.log" || ! grep -qx 'casts: 0' "$dir/m$r.log"; then
			not_ok "$1" "member $r" "$dir/m$r.log"
			return
		fi
	done
	ok "$1"
	grep '^#' "$dir/m$2.log"
}

# one_copy NAME BYTES MOST CASTS-ARGUMENTS...: of BYTES bytes each at most MOST percent leave the sender, which is rank 0, and most go by
# multicast
one_copy() {
	local name=$1 bytes=$2 most=$3 before after twice frames
	shift 3
	before=$(sent 0) frames=$(multi 1) twice=$(again 0)
	casts "${name}__arrive" 0 10 "$@"
	after=$(sent 0) frames=$(($(multi 1) - frames)) twice=$(($(again 0) - twice))
	echo "# $(((after - before) / 10)) bytes sent for each of $bytes, $((twice / 10)) of them again, $frames frames by multicast"
	if [ $((after - before - twice)) -lt $((bytes / 10 * most)) ] && [ $frames -ge $((bytes * 10 / 9000)) ]; then
		ok "${name}__one_copy"
	else
		not_ok "${name}__one_copy" "$((after - before)) bytes, $frames frames"
	fi
}

bytes=$((1 << 20))
for encap in ether $(full && echo udp); do
	mtu=9000
	begin auto $encap
	members 0:0 1:0 2:0 3:0 1:1 3:1
	one_copy multicast_$encap $bytes 110 $bytes
	casts multicast_${encap}__by_another 4 10 100000
	casts multicast_${encap}__short 0 200 64
	# packed: 24 of 80 bytes, 64 of 192, 16 of 56, each run with a head of 8
	one_copy multicast_${encap}_stride $((bytes * 32 / 80)) 110 $bytes stride
	one_copy multicast_${encap}_bitmap $((bytes * 72 / 192)) 110 $bytes bitmap
	casts multicast_${encap}_diff__same 0 1 $bytes # what a diff is of
	one_copy multicast_${encap}_diff $((bytes * 24 / 56)) 120 $bytes diff
	casts multicast_${encap}_stride__short 4 50 1600 stride
	quits
	finish
done

mtu=1500
begin auto ether loss=1%,reorder=1%,duplicate=1%
members 0:0 1:0 2:0 3:0 1:1
before=$(sent 0)
casts multicast_loss__arrive 0 20 $bytes
echo "# $((($(sent 0) - before) / 20)) bytes sent for each of $bytes"
casts multicast_loss__short 2 100 3000
for kind in stride bitmap all diff; do casts multicast_loss_${kind}__arrive 0 20 $bytes $kind; done
quits
finish

# switches that do not let such frames through: all gets there even so, and nobody waits for them again
mtu=9000
for ((i = 0; i < nodes; i++)); do ip netns exec "$switch" ip link set b$i type bridge_slave mcast_flood off; done
begin auto ether
members 0:0 1:0 2:0 3:0
casts multicast_blocked__arrive 0 3 $bytes
frames=$(multi 1) before=$(sent 0) twice=$(again 0)
casts multicast_blocked__by_the_list 0 10 $bytes
after=$(sent 0) twice=$(($(again 0) - twice))
echo "# $(((after - before) / 10)) bytes sent for each of $bytes, $((twice / 10)) of them again"
if [ "$frames" -eq 0 ] && [ $((after - before)) -gt $((10 * bytes * 3)) ] && [ $((after - before - twice)) -lt $((10 * bytes * 33 / 10)) ]; then
	ok multicast_blocked__gives_up
else
	not_ok multicast_blocked__gives_up "$frames frames got through, $((after - before)) bytes"
fi
quits
finish
for ((i = 0; i < nodes; i++)); do ip netns exec "$switch" ip link set b$i type bridge_slave mcast_flood on; done

begin list ether
members 0:0 1:0 2:0 3:0
casts multicast_list__arrive 0 10 $bytes
casts multicast_list_stride__arrive 0 3 $bytes stride
[ "$(multi 1)" -eq 0 ] && ok multicast_list__no_multicast || not_ok multicast_list__no_multicast ""
quits
finish

# a host that is no node sends in the names of those that are, and nothing comes of it: not here, and not later; nor if a node does it
ip netns add "${tag}h" && spaces+=("${tag}h")
ip link add vh netns "${tag}h" type veth peer name bh netns "$switch"
ip netns exec "$switch" sysctl -qw "net.ipv6.conf.bh.disable_ipv6=1"
ip netns exec "$switch" ip link set bh mtu 9000 master sw0 up
ip netns exec "${tag}h" sysctl -qw "net.ipv6.conf.vh.disable_ipv6=1"
ip netns exec "${tag}h" ip link set vh mtu 9000 up
counter() { "$build/app/pmx-ctl" --instance "${tag}1" stat --all | awk -v name="$1" '$1 == name {print $2}'; }
# forge SPACE INTERFACE MEMBERS [COUNTER LEAST]...: 10,000 frames of each kind, and as many again until enough are counted, since a
# port's ring loses most of them where its lane gets little of a CPU
forge() {
	local turn at enough
	for turn in {1..20}; do
		ip netns exec "$1" python3 "$(dirname "$0")/forge.py" "$2" 10000 $group "$3" "${mac[@]:0:$3}" || return 1
		enough=true
		for ((at = 4; at < $#; at += 2)); do
			[ "$(counter "${!at}")" -ge "${@:at+1:1}" ] || enough=false
		done
		! $enough || return 0
	done
}
begin auto ether
members 0:0 1:0 2:0 3:0
casts multicast_forged__before 0 5 $bytes
start "$dir/forge.log" forge "${tag}h" vh 4 refused_groups 5000 drop_session 5000
forger=$last
casts multicast_forged__arrive_meanwhile 0 20 $bytes
wait_for 240 gone "$forger"
grep -q '^10000 of each' "$dir/forge.log" || not_ok multicast_forged__are_sent "" "$dir/forge.log"
casts multicast_forged__later 0 20 $bytes
casts multicast_forged__of_another 2 5 100000
refused=$(counter refused_groups) strangers=$(counter drop_session)
if [ "${refused:-0}" -ge 5000 ] && [ "${strangers:-0}" -ge 5000 ]; then
	ok "multicast_forged__are_counted # $refused refused_groups, $strangers drop_session"
else
	not_ok multicast_forged__are_counted "$refused refused_groups, $strangers drop_session"
fi
quits

if ! full; then
	finish
	exit $failed
fi

# a node whose context is in no group does the same from its own host
members 0:0 1:0 2:0
casts multicast_no_member__before 0 5 $bytes
start "$dir/forge3.log" forge "${tag}3" v3 3 refused_groups $((refused + 5000))
forger=$last
casts multicast_no_member__arrive_meanwhile 0 20 $bytes
wait_for 240 gone "$forger"
grep -q '^10000 of each' "$dir/forge3.log" || not_ok multicast_no_member__are_sent "" "$dir/forge3.log"
casts multicast_no_member__later 0 20 $bytes
casts multicast_no_member__of_another 2 5 100000
more=$(counter refused_groups)
if [ "${more:-0}" -ge $((refused + 5000)) ]; then
	ok "multicast_no_member__are_counted # $((more - refused)) refused_groups"
else
	not_ok multicast_no_member__are_counted "$((more - refused)) refused_groups"
fi
quits
finish

exit $failed
