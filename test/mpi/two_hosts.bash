# SPDX-License-Identifier: BSD-3-Clause
#
# Two hosts for MPI, which are namespaces here: each with its own addresses, host name and CPU, joined by a bridge; mpirun is in a third
# one. To be sourced after common.bash; $suite: the name of the tests. Gives `over WAY RANKS PROGRAM...` (ways: hosts.sh says which; with
# +coll behind it, collectives by pmx; with +ofi, by libfabric's provider), and `primaries`, which starts those of the way `shared`.

[ "$(id -u)" -eq 0 ] || skip_all $suite "needs root, for network namespaces"
[ -e "$build/ofi/libpmx-fi.so" ] || skip_all $suite "the provider was not built: there is no libfabric-dev"
command -v mpirun >/dev/null || skip_all $suite "Open MPI is not installed"
need_hugepages $suite 512

ip netns add "${tag}C" && spaces+=("${tag}C") && ip -n "${tag}C" link set lo up || exit 2
ip -n "${tag}C" link add name lan type bridge && ip -n "${tag}C" link set lan up && ip -n "${tag}C" addr add 10.9.0.254/24 dev lan || exit 2
for host in 0 1; do
	ip netns add "$tag$host" && spaces+=("$tag$host") || exit 2
	ip link add name v$host netns "$tag$host" type veth peer name p$host netns "${tag}C" || exit 2
	ip -n "$tag$host" link set lo up
	ip -n "$tag$host" link set v$host up
	ip -n "$tag$host" addr add 10.9.0.$((host + 1))/24 dev v$host
	ip netns exec "$tag$host" sysctl -qw net.ipv6.conf.v$host.disable_ipv6=1 2>/dev/null
	ip -n "${tag}C" link set p$host master lan up
done

# what mpirun calls in place of ssh: a process of the other host
agent=$dir/agent
. "$(dirname "${BASH_SOURCE[0]}")/open_mpi.bash"
cat >"$agent" <<END
#!/bin/bash
host=\${1#host}; shift
exec ip netns exec "$tag\$host" unshare -u taskset -c \$host sh -c "hostname host\$host; \$*"
END
# rank WAY PROGRAM...: a rank, as that way has it
cat >"$dir/rank" <<END
#!/bin/bash
way=\$1; shift
export OMPI_MCA_coll=^pmx
case \$way in *+coll) way=\${way%+coll}; unset OMPI_MCA_coll; export OMPI_MCA_coll_pmx_verbose_end=1 OMPI_MCA_coll_pmx_take=${MPICOLL:-all} ;; esac
host=\$(hostname); host=\${host#host}
export FI_PROVIDER_PATH=$build/ofi
case \$way in *+ofi) way=\${way%+ofi}; export $components ${over_ofi[*]} ;; *) export ${over_pmx[*]} ;; esac
if [ \$way = shared ]; then
	export FI_PMX_INSTANCE=$tag\$host
elif [ \$way = attached ]; then # as secondaries of the same primaries
	export FI_PMX_INSTANCE=$tag\$host PMX_ATTACH=secondary
else
	. $dir/\$way.\$host
	export PMX_ATTACH=embedded PMX_CONFIG=$dir/\$way.\$host.ini
	export PMX_EAL="--no-pci --no-huge -m 512 --no-telemetry --log-level=*:error --file-prefix=$tag\$host -l \$host \$vdev"
fi
exec "\$@"
END
chmod +x "$dir/agent" "$dir/rank"

# config WAY HOST IDLE LINK-LINES ADDRESS-OF-0 ADDRESS-OF-1
config() {
	cat >"$dir/$1.$2.ini" <<-END
		[node]
		id = $2
		name = $tag$2
		[engine]
		idle = $3
		[limits]
		contexts = 16
		receives = 65536
		transfers = 512
		mbufs = 16384
		[link 0]
		$4
		[nodes]
		0 = $5
		1 = $6
	END
}

for host in 0 1; do
	role=$([ $host = 0 ] && echo server || echo client)
	udp="driver = udp
listen = 10.9.0.$((host + 1)):18600
mtu = 1472"
	config memif $host "${idle:-spin}" "port = net_memif0
mtu = 4096" auto auto
	echo "vdev=--vdev=net_memif0,role=$role,socket=$dir/m.sock,socket-abstract=no,bsize=4224" >"$dir/memif.$host"
	config packet $host "${idle:-spin}" "port = net_af_packet0" auto auto
	echo "vdev=--vdev=net_af_packet0,iface=v$host,framesz=2048,blocksz=4096,framecnt=512,qpairs=1" >"$dir/packet.$host"
	config udp $host "${idle:-spin}" "$udp" 10.9.0.1:18600 10.9.0.2:18600
	config loss $host "${idle:-spin}" "$udp
fault = loss=5%" 10.9.0.1:18600 10.9.0.2:18600
	config shared $host adaptive "$udp" 10.9.0.1:18600 10.9.0.2:18600
	echo "vdev=" | tee "$dir/udp.$host" >"$dir/loss.$host"
done


# over WAY|tcp RANKS PROGRAM...: half of the ranks on each host
over() {
	local way=$1 each=$(($2 / 2))
	shift 2
	rm -f "$dir/m.sock"
	case $way in
	tcp) set -- --mca pml ob1 --mca btl tcp,self "$@" ;;
	*) set -- "$dir/rank" "$way" "$@" ;;
	esac
	timeout "${LIMIT:-300}" ip netns exec "${tag}C" mpirun --bind-to none --oversubscribe --host "host0:$each,host1:$each" \
		-np $((2 * each)) "$@"
}

primaries() {
	local host
	for host in 0 1; do
		cp "$dir/shared.$host.ini" "$dir/$host.ini"
		PREFIX=(ip netns exec "$tag$host")
		primary $host -l $host -m 256 || { not_ok "${suite}_start" ""; exit 1; }
	done
	PREFIX=()
}
