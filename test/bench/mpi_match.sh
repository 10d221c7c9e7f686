#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Unexpected messages in Open MPI, over its own shared memory (pml ob1) and over UCX (pml ucx), two ranks on a core each:
# mpi_match.c. Debian's openmpi-bin and libopenmpi-dev.
# usage: mpi_match.sh [REPETITIONS] [DEPTH_MAX]
set -u
here=$(cd "$(dirname "$0")" && pwd)
times=${1:-1}
most=${2:-100000}
if ! command -v mpicc >/dev/null || ! command -v mpirun >/dev/null; then
	echo "mpi_match.sh: no MPI here: apt-get install openmpi-bin libopenmpi-dev" >&2
	exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mpicc -O3 -march=native "$here/mpi_match.c" -o "$work/mpi_match" || exit 1
run() # NAME DEPTH_MAX MCA...
{
	local name=$1 most=$2
	shift 2
	timeout 120 mpirun --allow-run-as-root -n 2 --bind-to core "$@" "$work/mpi_match" "$name" "$most" 2>"$work/log" ||
		cat "$work/log" >&2
}
printf '%-18s %8s %9s %11s %11s %11s\n' "ns" depth around exact "any source" reverse
for _ in $(seq "$times"); do
	# its queue is a list: minutes beyond that
	run "Open MPI ob1" $((most < 10000 ? most : 10000)) --mca pml ob1 --mca btl self,vader
	run "Open MPI ucx" "$most" --mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any -x UCX_TLS=sm,self
done
