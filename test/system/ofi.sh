#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: ofi.sh BUILD_DIR
# The libfabric provider: what programs that were written for libfabric and for MPI get, without being rebuilt and without an
# option but where the provider is. Its own cases (ofi.c), libfabric's fi_info and fi_pingpong, Open MPI (ofi_mpi.c).
set -u
. "$(dirname "$0")/common.bash"

need_hugepages ofi 288
[ -e "$build/ofi/libpmx-fi.so" ] || skip_all ofi "the provider was not built: there is no libfabric-dev"

provider_node 256 || { not_ok ofi_start ""; exit 1; }

# the sanitizers' runtime must come first in programs that were built without it
preload=()
case $(ldd "$build/ofi/libpmx-fi.so") in
*libasan*) preload=(env LD_PRELOAD="$(gcc -print-file-name=libasan.so)") ;;
esac

# says NAME TEXT COMMAND...: it prints TEXT
says() {
	local name=$1 text=$2 log=$dir/$1.log
	shift 2
	timeout 60 "${preload[@]}" "$@" >"$log" 2>&1
	grep -aq -- "$text" "$log" && ok "$name" || not_ok "$name" "it does not say '$text': ${*@Q}" "$log"
}

# ours PROGRAM...: it prints "ok NAME" itself
ours() {
	local log=$dir/ours.log
	timeout 120 "$@" >"$log" 2>&1
	local code=$?
	grep -a '^ok ' "$log"
	[ $code -eq 0 ] || not_ok "$(basename "$1")_${*: -1}" "exit code $code" "$log"
}

ours "$build/test/ofi" all
ours "$build/test/ofi_rma" all
# long messages are read from memory to memory, from the length on that is given
for program in ofi $(! full || echo ofi_rma); do
	FI_PMX_DIRECT=5000 timeout 120 "$build/test/$program" all >"$dir/direct.log" 2>&1 && ok "${program}__direct" ||
		not_ok "${program}__direct" "exit code $?" "$dir/direct.log"
done

if command -v fi_info >/dev/null; then
	says ofi__fi_info "domain: ${tag}0" fi_info -p pmx
	says ofi__fi_info_of_another "getinfo: -61" env FI_PMX_INSTANCE=nobody fi_info -p pmx
	control=$((port + 7))
	# that somebody listens there
	listens() { grep -q "$(printf ':%04X [0:]* 0A ' $control)" /proc/net/tcp /proc/net/tcp6; }
	for kind in msg tagged; do
		control=$((control + 1))
		start "$dir/pong.log" timeout 60 "${preload[@]}" fi_pingpong -p pmx -e rdm -m $kind -c -B $control
		wait_for 60 listens
		says "ofi__fi_pingpong_$kind" "^1m " fi_pingpong -p pmx -e rdm -m $kind -c -P $control 127.0.0.1
	done
else
	echo "ok ofi__fi_info # SKIP libfabric-bin is not installed"
fi

if [ -x "$build/test/ofi_mpi" ] && command -v mpirun >/dev/null; then
	# nothing else may be taken instead, or left in /dev/shm by a rank that is killed
	. "$(dirname "$0")/../mpi/open_mpi.bash"
	export "${over_ofi[@]}"
	for ranks in 2 5; do
		ours "${preload[@]}" mpirun --oversubscribe -np $ranks "$build/test/ofi_mpi"
	done
	# one-sided, by the provider's remote memory and atomics instead of messages
	for ranks in 2 4; do
		ours env "${remote_memory[@]}" "${preload[@]}" mpirun --oversubscribe -np $ranks "$build/test/ofi_mpi" _rma
	done
	# a rank that is killed ends the job, and the next job, on the same context numbers, is as any other
	start "$dir/killed.log" timeout 60 "${preload[@]}" mpirun --oversubscribe -np 3 "$build/test/ofi_mpi" forever
	killed=$last
	wait_for 60 grep -q ring "$dir/killed.log" || not_ok ofi_mpi__killed_start "" "$dir/killed.log"
	# whose parent is mpirun, or what that has started
	kill -KILL "$(pgrep -P "$(pgrep -d , -P "$killed"),$killed" ofi_mpi | head -n 1)"
	wait $killed && not_ok ofi_mpi__a_killed_rank_ends_the_job "exit code 0" || ok ofi_mpi__a_killed_rank_ends_the_job
	ours "${preload[@]}" mpirun --oversubscribe -np 3 "$build/test/ofi_mpi"
	# other primaries take over under a job, which does not notice; not where all is ten times slower
	if [ ${#preload[@]} -eq 0 ]; then
		start "$dir/over.log" timeout 100 mpirun --oversubscribe -np 4 "$build/test/mpi_figures" 2
		job=$last
		wait_for 60 grep -q latency_8 "$dir/over.log"
		for turn in $(seq $(full && echo 3 || echo 1)); do
			OPTIONS=(--take-over)
			primary 0 -l 0 -m 256 || not_ok "ofi_mpi__take_over_$turn" ""
			OPTIONS=()
		done
		kill -0 $job 2>/dev/null || not_ok ofi_mpi__taken_over "the job had ended before"
		wait $job && ok ofi_mpi__taken_over || not_ok ofi_mpi__taken_over "exit code $?" "$dir/over.log"
	fi
	# two nodes, joined by a link that loses, reorders and doubles frames
	for node in 2 3; do
		node_ini $node <<-END
			fault = loss=5%,reorder=2%,duplicate=1%,seed=$node
			[engine]
			idle = adaptive
			[proto]
			retries = 100
		END
		sed -i "s/^id = $node/id = $((node - 2))/; s/:$((port + node))\$/:$((port + node - 2))/; s/^1 = .*/&\n5 = 192.0.2.5 name=fifth.node/" "$dir/$node.ini"
		primary $node -l $((node - 2)) -m 128 || not_ok "ofi_start_$node" ""
	done
	# shellcheck disable=SC2016
	ours "${preload[@]}" mpirun --oversubscribe -np 2 sh -c 'FI_PMX_INSTANCE=$0$((OMPI_COMM_WORLD_RANK + 2)) exec "$@"' "$tag" "$build/test/ofi_mpi" _lossy
	provider="mtl:ofi:provider\(:domain\)*: ${tag}0" # the latter in Open MPI 5
	# nodes by what people call them, as a program asks for them that libfabric has nothing to do with
	resolves() { # TEXT NUMBER
		"${preload[@]}" python3 -c 'import ctypes, sys
number = ctypes.c_uint16(9999)
library, instance, text, wanted = sys.argv[1:]
result = ctypes.CDLL(library).pmx_node_resolve(instance.encode(), text.encode(), ctypes.byref(number))
sys.exit(str(number.value if result == 0 else result) != wanted)' "$build/lib/libpmx.so" "${tag}3" "$1" "$2" && ok "resolve__$1" ||
			not_ok "resolve__$1" "it is not $2"
	}
	resolves 0 0
	resolves 192.0.2.5 5
	resolves 192.0.2.6 -2
	resolves ::1 1
	resolves 127.0.0.1 1
	resolves "${tag}3" 1
	resolves 02:50:4d:00:00:77 -2
	resolves fifth.node 5
	resolves nobody.invalid -2
	resolves no:body -22
	resolves 65535 -22
	says ofi_mpi__is_over_pmx "$provider" mpirun -np 2 --oversubscribe --mca mtl_base_verbose 100 --mca opal_common_ofi_verbose 100 "$build/test/ofi_mpi"
	# without a variable or an option: by the file of doc/guide/mpi.md
	mkdir -p "$dir/home/.openmpi"
	sed -n "s/^mkdir.*printf '\(mtl = ofi.*pmx\).*$/\1/p" "$(dirname "$0")/../../doc/guide/mpi.md" | sed 's/\\n/\n/g' >"$dir/home/.openmpi/mca-params.conf"
	says ofi_mpi__by_its_file "$provider" env -u OMPI_MCA_mtl -u FI_PROVIDER HOME="$dir/home" \
		mpirun -np 2 --oversubscribe --mca mtl_base_verbose 100 --mca opal_common_ofi_verbose 100 "$build/test/ofi_mpi"
else
	echo "ok ofi__mpi # SKIP Open MPI is not installed"
fi

# doctor says what stands between Open MPI and the provider
doctor() { # NAME STATE CHECK COMMAND...
	local name=$1 state=$2 check=$3
	shift 3
	"$@" "$build/app/pmx-ctl" doctor | grep -q "^$state *$check" && ok "$name" || not_ok "$name" "doctor does not say '$state' of '$check'"
}
doctor ofi_doctor__provider ok "mpi: provider" env
doctor ofi_doctor__no_provider warn "mpi: provider" env FI_PROVIDER_PATH=/nowhere:$dir
if [ -e /etc/openmpi/openmpi-mca-params.conf ]; then
	doctor ofi_doctor__component ok "mpi: component" env -u OMPI_MCA_mtl "$components"
	doctor ofi_doctor__component_left_out warn "mpi: component" env OMPI_MCA_mtl=^psm,pmx "$components"
	doctor ofi_doctor__component_behind_another warn "mpi: component" env -u OMPI_MCA_mtl OMPI_MCA_pml=ob1 "$components"
	doctor ofi_doctor__no_component warn "mpi: component" env OMPI_MCA_mca_base_component_path=/nowhere:$dir
	doctor ofi_doctor__left_out warn "mpi: Open MPI" env OMPI_MCA_mtl=^ofi
	doctor ofi_doctor__let_in ok "mpi: Open MPI" env OMPI_MCA_mtl=ofi
	doctor ofi_doctor__not_first warn "mpi: choice" env -u FI_PROVIDER HOME="$dir"
	doctor ofi_doctor__first ok "mpi: choice" env FI_PROVIDER=pmx
	doctor ofi_doctor__let_in_by_its_file ok "mpi: Open MPI" env -u OMPI_MCA_mtl HOME="$dir/home"
	doctor ofi_doctor__first_by_its_file ok "mpi: choice" env -u FI_PROVIDER HOME="$dir/home"
fi

# who waits when the primary ends is told so
orphans=()
for program in ofi ofi_rma; do
	start "$dir/orphan.$program" timeout 60 "$build/test/$program" orphan
	orphans+=($last)
	wait_for 60 grep -q waiting "$dir/orphan.$program"
done
end "$(sed -n "1{s/[^0-9]//g;p}" "/run/pmx-dpdk/${tag}0.pid")" KILL
wait "${orphans[@]}"
for program in ofi ofi_rma; do
	grep '^ok ' "$dir/orphan.$program" || not_ok "${program}__primary_ends" "" "$dir/orphan.$program"
done
says ofi__no_primary "getinfo: -61" fi_info -p pmx
exit $failed
