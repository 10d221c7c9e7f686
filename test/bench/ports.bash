# SPDX-License-Identifier: BSD-3-Clause
#
# Slow ports: nodes in namespaces, joined by bridges whose ports, and the hosts' own, send no faster than a rate (tbf), so that these,
# and not the two CPUs that all of it shares, are what takes the time. To be sourced after common.bash; root.
#   buffer      bytes of room at a bridge's port
#   ports_own   ... at a host's: it keeps what it has not sent, as one with a port of its own does
buffer=131072
ports_own=4000000
ports_hosts=()

# ports_limit NAMESPACE INTERFACE RATE ROOM add|change: that port sends no faster, Mb/s. Ethernet's preamble, checksum and gap count as well.
ports_limit() {
	tc -n "$1" qdisc "$5" dev "$2" root tbf rate "$3"mbit burst 6000 limit "$4" overhead 24 linklayer ethernet 2>"$dir/tc.log"
}

# ports_switch NAMESPACE SUITE: where the bridges are; skips the suite if that cannot be
ports_switch() {
	ports_space=$1 ports_suite=$2
	ip netns add "$1" 2>/dev/null || skip_all "$2" "no namespaces"
	spaces+=("$1")
}

ports_bridge() { # NAME
	ip -n "$ports_space" link add name "$1" type bridge mcast_snooping 0 2>/dev/null || skip_all "$ports_suite" "no bridge"
	ip -n "$ports_space" link set "$1" up
}

# ports_up NAMESPACE INTERFACE: frames as they are on a line
ports_up() {
	ip netns exec "$1" sysctl -qw "net.ipv6.conf.$2.disable_ipv6=1"
	ip netns exec "$1" ethtool -K "$2" tx off rx off gso off gro off tso off >/dev/null 2>&1
	ip -n "$1" link set "$2" mtu 1500 up
}

# ports_host I BRIDGE RATE: namespace $tag$I, its interface vI, bI at the bridge
ports_host() {
	ip netns add "$tag$1" && spaces+=("$tag$1")
	ip link add "v$1" netns "$tag$1" type veth peer name "b$1" netns "$ports_space"
	ports_up "$tag$1" "v$1"
	ports_up "$ports_space" "b$1"
	ip -n "$ports_space" link set "b$1" master "$2"
	ports_hosts+=("$1")
	ports_limit "$ports_space" "b$1" "$3" $buffer add || skip_all "$ports_suite" "no queueing discipline tbf"
	ports_limit "$tag$1" "v$1" "$3" $ports_own add
}

# ports_trunk A B RATE: tA at bridge A, tB at bridge B
ports_trunk() {
	local end
	ip -n "$ports_space" link add "t$1" type veth peer name "t$2"
	for end in "$1" "$2"; do
		ports_up "$ports_space" "t$end"
		ip -n "$ports_space" link set "t$end" master "$end"
		ports_limit "$ports_space" "t$end" "$3" $buffer add
	done
}

# Starts a primary $tag$I for each host, in ${primaries[I]}. Returns 1, with $ports_why, if one does not start.
ports_primaries() {
	local i j
	for i in "${ports_hosts[@]}"; do
		{
			printf '[node]\nid = %s\nname = %s\n[nodes]\n' "$i" "$tag$i"
			for j in "${ports_hosts[@]}"; do echo "$j = $(ip netns exec "$tag$j" cat "/sys/class/net/v$j/address")"; done
			printf '[link 0]\nport = net_af_packet0\nmtu = 1500\n[engine]\nidle = adaptive\n[limits]\nmbufs = 16384\ncontexts = 4\n'
		} >"$dir/$i.ini"
		PREFIX=(ip netns exec "$tag$i")
		# Without qdisc_bypass=0 frames would pass the host's tbf.
		primary "$i" -l $((i % 2)) -m 128 "--vdev=net_af_packet0,iface=v$i,blocksz=4096,framesz=2048,framecnt=4096,qdisc_bypass=0" ||
			{ ports_why="primary $i does not start" PREFIX=(); return 1; }
		PREFIX=()
		primaries[i]=$last
	done
}
