#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: links.sh BUILD_DIR [NAME...]
# pmx-perf between two embedded nodes in two processes, over every link there is: round trips and
# streams of messages of 8 B to 1 MiB. NAME: only those cases. net_ring joins ports of one process:
# net_ring.c.
set -u
. "$(dirname "$0")/common.bash"

shift
only=" $* "
need_hugepages links 192
perf=$build/app/pmx-perf
rounds=30 seconds=0.05
! full || { rounds=100 seconds=0.2; }

# config NODE LINK-LINES ADDRESS-OF-0 ADDRESS-OF-1
config() {
	cat >"$dir/$1.ini" <<-END
		[node]
		id = $1
		name = $tag$1
		[engine]
		idle = yield
		[limits]
		mbufs = ${mbufs:-12288}
		contexts = 4
		send_buffers = 1024
		receive_buffers = 1024
		[proto]
		retries = 100
		[link 0]
		$2
		[nodes]
		0 = $3
		1 = $4
	END
}

# run NAME: with $dir/0.ini and 1.ini, EAL arguments in eal0 and eal1, commands that go in front in
# in0 and in1. Node 1, which responds, starts first, and has its EAL's sockets before it looks for frames. Node 0 may ask before node 1
# has opened its context: then it is told so, and asks again.
run() {
	local name=$1 code try
	rm -f "$RUNTIME_DIRECTORY/dpdk/${tag}1/dpdk_telemetry.v2"
	start "$dir/1.log" ${in1[@]+"${in1[@]}"} "$perf" respond --idle yield --embedded "$dir/1.ini" -- \
		--no-pci -l 1 "--file-prefix=${tag}1" ${eal1[@]+"${eal1[@]}"}
	local responder=$last
	wait_for 60 test -S "$RUNTIME_DIRECTORY/dpdk/${tag}1/dpdk_telemetry.v2"
	for try in {1..20}; do
		timeout 200 ${in0[@]+"${in0[@]}"} "$perf" all --idle yield --rounds $rounds --warmup 10 --seconds $seconds \
			--embedded "$dir/0.ini" -- --no-pci -l 0 "--file-prefix=${tag}0" \
			${eal0[@]+"${eal0[@]}"} >"$dir/0.log" 2>&1
		code=$?
		[ $code -ne 0 ] && grep -q 'has no context' "$dir/0.log" || break
		echo "# $name: asked again, after $try times"
	done
	if [ $code -eq 0 ] && wait_for 60 gone "$responder"; then
		ok "link_$name"
		grep -E '1048576|(^|[^0-9])8 ' "$dir/0.log" | sed 's/^/# /'
	else
		not_ok "link_$name" "exit code $code" "$dir/0.log"
		tail -5 "$dir/1.log" | sed 's/^/# responder: /'
	fi
	end "$responder" KILL
	rm -f /dev/hugepages/"$tag"[01]map_* "$dir"/*.sock
}

# wanted NAME: and everything as it is by default
wanted() {
	in0=() in1=() eal0=(-m 128) eal1=(-m 128)
	unset mbufs
	[ "$only" = "  " ] || [[ $only == *" $1 "* ]]
}

memif() { # EXTRA [NODE], which is the server
	local -n server=eal${2:-1} client=eal$((1 - ${2:-1}))
	server+=("--vdev=net_memif0,role=server,id=0,socket=$dir/m.sock,socket-abstract=no$1")
	client+=("--vdev=net_memif0,role=client,id=0,socket=$dir/m.sock,socket-abstract=no$1")
}

for encap in ether vlan udp; do
	wanted memif_$encap || continue
	memif ""
	for i in 0 1; do
		config $i "port = net_memif0
encap = $encap
vlan = 7
ip = 10.9.0.$((i + 1))" "$([ $encap = udp ] && echo 10.9.0.1 || echo auto)" \
			"$([ $encap = udp ] && echo 10.9.0.2 || echo auto)"
	done
	run memif_$encap
done

if wanted memif_zero_copy; then
	memif ""
	eal0[-1]+=,zero-copy=yes
	eal0+=(--single-file-segments)
	eal1+=(--single-file-segments)
	for i in 0 1; do config $i "port = net_memif0" auto auto; done
	run memif_zero_copy
fi

if wanted memif_jumbo; then
	memif ",bsize=9216"
	eal0[1]=256 eal1[1]=256
	mbufs=8192
	for i in 0 1; do config $i "port = net_memif0
mtu = 9000" auto auto; done
	run memif_jumbo
fi

# the client begins before its server, which has the socket before it lets anyone in
if wanted memif_client_first; then
	memif "" 0
	for i in 0 1; do config $i "port = net_memif0" auto auto; done
	run memif_client_first
fi

for ring in packed split; do
	wanted vhost_$ring || continue
	eal1+=("--vdev=net_vhost0,iface=$dir/v.sock,queues=1")
	eal0+=(--single-file-segments
		"--vdev=net_virtio_user0,path=$dir/v.sock,queues=1,queue_size=1024,mrg_rxbuf=1,in_order=1,packed_vq=$([ $ring = packed ] && echo 1 || echo 0)")
	config 0 "port = net_virtio_user0" auto auto
	config 1 "port = net_vhost0" auto auto
	run vhost_$ring
done

# its rings are one EAL's memory: two nodes in one process
if wanted net_ring; then
	if "$build/test/net_ring" >"$dir/net_ring.log" 2>&1; then
		ok link_net_ring
	else
		not_ok link_net_ring "exit code $?"
		sed 's/^/# /' "$dir/net_ring.log"
	fi
fi

if wanted udp_loopback; then
	for i in 0 1; do
		config $i "driver = udp
listen = 127.0.0.1:$((port + i))" "127.0.0.1:$port" "127.0.0.1:$((port + 1))"
	done
	run udp_loopback
fi

if ! veth 1500; then
	echo "ok link_veth # SKIP no veth pair between namespaces"
	exit $failed
fi

between() { # wanted, in the two namespaces
	wanted "$1" || return 1
	in0=(ip netns exec "${tag}0")
	in1=(ip netns exec "${tag}1")
}

if between udp_namespaces; then
	for i in 0 1; do
		config $i "driver = udp
listen = 10.9.0.$((i + 1)):18515" 10.9.0.1:18515 10.9.0.2:18515
	done
	run udp_namespaces
fi

# frames longer than the path's datagrams: the kernel fragments, and cannot split as well
if between udp_fragments; then
	for i in 0 1; do
		config $i "driver = udp
listen = 10.9.0.$((i + 1)):18515
mtu = 4000" 10.9.0.1:18515 10.9.0.2:18515
	done
	run udp_fragments
fi

for encap in ether vlan udp; do
	between af_packet_$encap || continue
	for i in 0 1; do
		config $i "port = net_af_packet0
encap = $encap
vlan = 7
ip = 10.9.0.$((i + 1))" "$([ $encap = udp ] && echo 10.9.0.1 || echo auto)" \
			"$([ $encap = udp ] && echo 10.9.0.2 || echo auto)"
	done
	# with encap = udp the kernel must not have the addresses: it would answer too
	eal0+=(--vdev=net_af_packet0,iface=v0)
	eal1+=(--vdev=net_af_packet0,iface=v1)
	[ $encap = udp ] && for i in 0 1; do ip -n "$tag$i" addr flush dev "v$i"; done
	run af_packet_$encap
done

# framesz less 32 bytes must fit an mbuf
if between af_packet_jumbo; then
	for i in 0 1; do
		ip -n "$tag$i" link set "v$i" mtu 9000
		mbufs=8192
		config $i "port = net_af_packet0
mtu = 9000" auto auto
	done
	eal0=(-m 256 --vdev=net_af_packet0,iface=v0,blocksz=36864,framesz=9216,framecnt=1024)
	eal1=(-m 256 --vdev=net_af_packet0,iface=v1,blocksz=36864,framesz=9216,framecnt=1024)
	run af_packet_jumbo
	for i in 0 1; do ip -n "$tag$i" link set "v$i" mtu 1500; done
fi

if between af_xdp; then
	for i in 0 1; do config $i "port = net_af_xdp0" auto auto; done
	eal0+=(--vdev=net_af_xdp0,iface=v0)
	eal1+=(--vdev=net_af_xdp0,iface=v1)
	run af_xdp
fi
exit $failed
