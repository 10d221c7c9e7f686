#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: ofi.sh BUILD_DIR
# sanitize: yes
# timeout: 300
# The libfabric provider: what programs that were written for libfabric and for MPI get, without being rebuilt and without an
# option but where the provider is. Its own cases (ofi.c), libfabric's fi_info and fi_pingpong, Open MPI (ofi_mpi.c).
set -u
. "$(dirname "$0")/common.bash"

need_hugepages ofi 192
[ -e "$build/ofi/libpmx-fi.so" ] || skip_all ofi "the provider was not built: there is no libfabric-dev"

{
	node_ini 0 "$tag" <<-END
		[engine]
		idle = adaptive
		[limits]
		contexts = 64
	END
	sed -i 's/^port = /driver = loop\n&/; /^1 = auto/d' "$dir/0.ini"
}
primary 0 -l 0 -m 256 || { not_ok ofi_start ""; exit 1; }
export FI_PROVIDER_PATH=$build/ofi FI_PMX_INSTANCE=${tag}0

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
	grep -q -- "$text" "$log" && ok "$name" || not_ok "$name" "it does not say '$text': ${*@Q}" "$log"
}

# ours PROGRAM...: it prints "ok NAME" itself
ours() {
	local log=$dir/ours.log
	timeout 120 "$@" >"$log" 2>&1
	local code=$?
	grep '^ok ' "$log"
	[ $code -eq 0 ] || not_ok "$(basename "$1")_${*: -1}" "exit code $code" "$log"
}

ours "$build/test/ofi" all

start "$dir/orphan.log" timeout 60 "$build/test/ofi" orphan
orphan=$last

if command -v fi_info >/dev/null; then
	says ofi__fi_info "domain: ${tag}0" fi_info -p pmx
	says ofi__fi_info_of_another "getinfo: -61" env FI_PMX_INSTANCE=nobody fi_info -p pmx
	for kind in msg tagged; do
		control=$((port + 7))
		start "$dir/pong.log" timeout 60 "${preload[@]}" fi_pingpong -p pmx -e rdm -m $kind -c -B $control
		for try in {1..50}; do
			grep -q "$(printf ':%04X ' $control)" /proc/net/tcp && break
			sleep 0.1
		done
		says "ofi__fi_pingpong_$kind" "^1m " fi_pingpong -p pmx -e rdm -m $kind -c -P $control 127.0.0.1
	done
else
	echo "skip ofi__fi_info libfabric-bin is not installed"
fi

if [ -x "$build/test/ofi_mpi" ] && command -v mpirun >/dev/null; then
	# Debian's configuration leaves mtl/ofi out, and libfabric names its own providers first: the
	# environment goes before both
	export OMPI_MCA_mtl=ofi FI_PROVIDER=pmx OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
	export OMPI_MCA_orte_tmpdir_base=$dir
	for ranks in 2 5; do
		ours "${preload[@]}" mpirun --oversubscribe -np $ranks "$build/test/ofi_mpi"
	done
	says ofi_mpi__is_over_pmx "mtl:ofi:provider: ${tag}0" mpirun -np 2 --oversubscribe --mca mtl_base_verbose 100 "$build/test/ofi_mpi"
else
	echo "skip ofi__mpi Open MPI is not installed"
fi

# who waits when the primary ends is told so
wait_for 60 grep -q waiting "$dir/orphan.log"
end "$(sed -n "1{s/[^0-9]//g;p}" "/run/pmx-dpdk-${tag}0.pid")" KILL
wait $orphan
grep '^ok ' "$dir/orphan.log" || not_ok ofi__primary_ends "" "$dir/orphan.log"
says ofi__no_primary "getinfo: -61" fi_info -p pmx
exit $failed
