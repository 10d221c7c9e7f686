#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: hosts.sh BUILD_DIR [selection | given] [WAY...]
# MPI on two hosts, which are namespaces here: each with its own addresses, host name and CPU, joined by a bridge; mpirun is in a third
# one. Over pmx and over Open MPI's TCP: figures (figures.c) as a table, and programs that find out themselves whether they are right.
# Ways, all of them where none is named:
#   memif udp packet   a node in each rank's process (PMX_ATTACH=embedded), over memif, datagrams, or raw frames through AF_PACKET
#   loss               as udp, with 5 % of the frames lost each way
#   shared             a primary a host, and its ranks attached to it, over udp
# `selection`: what takes half a minute. Root.
#   NPB_DIR=DIR        binaries of the NAS parallel benchmarks, named PROGRAM.CLASS.RANKS; CLASSES of them (S W A)
#   TURNS=N            measures the figures so often (1), and takes the median
set -u
. "$(dirname "$0")/../system/common.bash"
selection=all turns=${TURNS:-1}
shift
case ${1:-} in selection | given) selection=$1; shift ;; esac
ways=("$@")
[ ${#ways[@]} -gt 0 ] || ways=(memif udp packet loss shared)
[ $selection != selection ] || ways=(memif loss shared)

[ "$(id -u)" -eq 0 ] || skip_all mpi_hosts "needs root, for network namespaces"
[ -e "$build/ofi/libpmx-fi.so" ] || skip_all mpi_hosts "the provider was not built: there is no libfabric-dev"
command -v mpirun >/dev/null || skip_all mpi_hosts "Open MPI is not installed"
need_hugepages mpi_hosts 512

# ------------------------------------------------------------------ two hosts

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
cat >"$dir/agent" <<END
#!/bin/bash
host=\${1#host}; shift
exec ip netns exec "$tag\$host" unshare -u taskset -c \$host sh -c "hostname host\$host; \$*"
END
# rank WAY PROGRAM...: a rank, as that way has it
cat >"$dir/rank" <<END
#!/bin/bash
way=\$1; shift
host=\$(hostname); host=\${host#host}
export FI_PROVIDER_PATH=$build/ofi FI_PROVIDER=pmx OMPI_MCA_mtl=ofi OMPI_MCA_pml=cm OMPI_MCA_btl=self OMPI_MCA_osc=pt2pt
if [ \$way = shared ]; then
	export FI_PMX_INSTANCE=$tag\$host
else
	. $dir/\$way.\$host
	export PMX_ATTACH=embedded PMX_CONFIG=$dir/\$way.\$host.ini LD_LIBRARY_PATH=$build/lib
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
	config memif $host spin "port = net_memif0
mtu = 4096" auto auto
	echo "vdev=--vdev=net_memif0,role=$role,socket=$dir/m.sock,socket-abstract=no,bsize=4224" >"$dir/memif.$host"
	config packet $host spin "port = net_af_packet0" auto auto
	echo "vdev=--vdev=net_af_packet0,iface=v$host,framesz=2048,blocksz=4096,framecnt=512,qpairs=1" >"$dir/packet.$host"
	config udp $host spin "$udp" 10.9.0.1:18600 10.9.0.2:18600
	config loss $host spin "$udp
fault = loss=5%" 10.9.0.1:18600 10.9.0.2:18600
	config shared $host adaptive "$udp" 10.9.0.1:18600 10.9.0.2:18600
	echo "vdev=" | tee "$dir/udp.$host" >"$dir/loss.$host"
done

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_orte_tmpdir_base=$dir OMPI_MCA_plm_rsh_agent=$dir/agent

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

# ------------------------------------------------------------------ figures

# figures WAY
figures() {
	local way=$1 turn transport name
	for ((turn = 0; turn < turns; turn++)); do
		for transport in "$way" tcp; do
			over "$transport" 2 "$build/test/mpi_figures" "${FACTOR:-1}" >"$dir/log" 2>&1 || {
				[ $transport = tcp ] || not_ok "mpi_hosts_${way}_figures" "exit code $?" "$dir/log"
				return
			}
			grep -E '^(latency|rate|bandwidth)_' "$dir/log" | sed "s/^/$transport /" >>"$dir/figures.$way"
		done
	done
	printf '%-8s %-18s %10s %10s %7s\n' way figure pmx TCP ratio
	for name in $(awk '$1 != "tcp" {print $2}' "$dir/figures.$way" | awk '!seen[$1]++'); do
		awk -v way="$way" -v name="$name" -v pmx="$(awk -v n="$name" '$1 != "tcp" && $2 == n {print $3}' "$dir/figures.$way" | median)" \
			-v tcp="$(awk -v n="$name" '$1 == "tcp" && $2 == n {print $3}' "$dir/figures.$way" | median)" \
			'BEGIN {printf "%-8s %-18s %10.3f %10.3f %7.2f\n", way, name, pmx, tcp, pmx / tcp}'
	done
	ok "mpi_hosts_${way}_figures"
}

# ------------------------------------------------------------------ programs

# right NAME WAY RANKS PATTERN PROGRAM...: it ends with 0 and prints the pattern; its time over pmx and over TCP
right() {
	local name=$1 way=$2 ranks=$3 pattern=$4 code=0 transport
	local -A took=([tcp]=-)
	shift 4
	for transport in "$way" tcp; do
		[ $selection$transport != selectiontcp ] || continue
		over "$transport" "$ranks" "$@" >"$dir/log" 2>&1 || code=$?
		[ $code -ne 0 ] || grep -qiE "$pattern" "$dir/log" || code="0, but '$pattern' is not said"
		[ "$code" = 0 ] || break
		took[$transport]=$(awk '/Time in seconds/ {print $5}' "$dir/log")
	done
	if [ "$code" = 0 ]; then
		ok "mpi_hosts_${way}_${name}_$ranks"
		[ -z "${took[$way]}" ] || awk -v n="$name" -v r="$ranks" -v w="$way" -v p="${took[$way]}" -v t="${took[tcp]}" \
			'BEGIN {printf "# %-8s %-12s %d ranks: %.2f s, TCP %s s: %s\n", w, n, r, p, t, (t > 0 ? sprintf("%.2f", p / t) : "-")}'
	elif [ "$transport" = tcp ]; then
		ok "mpi_hosts_${way}_${name}_$ranks (over TCP it fails: exit code $code)"
	else
		not_ok "mpi_hosts_${way}_${name}_$ranks" "exit code $code" "$dir/log"
	fi
}

for way in "${ways[@]}"; do
	if [ "$way" = shared ]; then
		for host in 0 1; do
			cp "$dir/shared.$host.ini" "$dir/$host.ini"
			PREFIX=(ip netns exec "$tag$host")
			primary $host -l $host -m 256 || { not_ok mpi_hosts_start ""; exit 1; }
		done
		PREFIX=()
		counts=(2 4)
	else
		counts=(2)
	fi
	[ "$selection" = given ] || FACTOR=$([ $selection = selection ] && echo 0.05 || echo 1) figures "$way"
	for count in "${counts[@]}"; do
		if [ "$selection" != given ] && command -v NPopenmpi >/dev/null && [ "$count" = 2 ]; then
			right netpipe "$way" 2 'Integrity check passed' NPopenmpi -i -u 100000 -o "$dir/np.out"
		fi
		if [ "$selection" != given ] && /usr/bin/python3 -c 'import mpi4py' 2>/dev/null; then
			right ring "$way" "$count" 'time for .* loops' /usr/bin/python3 -m mpi4py.bench ringtest -l 20 -n 100000
		fi
		[ -n "${NPB_DIR:-}" ] && [ "$selection" != selection ] || continue
		for class in ${CLASSES:-S W A}; do
			for program in "$NPB_DIR"/*."$class"."$count"; do
				[ -x "$program" ] || continue
				name=$(basename "$program" ".$count")
				right "npb_$name" "$way" "$count" 'verification *(=)? *successful' "$program"
			done
		done
	done
done
exit $failed
