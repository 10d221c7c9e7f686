#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: pins.sh BUILD_DIR [PROGRAM...]
# The pin-down cache in real applications (PIN-5; Tezuka and others, IPSJ 1997, section 8 asks for it): hit ratios by the size of the
# cache, of two ranks on two hosts (namespaces; a CPU and a primary each, ranks are secondaries, udp link, which long messages leave
# from the application's memory). Prints a row for each program and size. Root, hugepages.
#   NPB_DIR=DIR   binaries of the NAS parallel benchmarks, named PROGRAM.CLASS.RANKS; without it LAMMPS alone
#   SIZES="..."   entries of the cache (2 4 16 64 1024); 0: it is switched off
set -u
. "$(dirname "$0")/../system/common.bash"
suite=mpi_pins
. "$(dirname "$0")/two_hosts.bash"
shift
examples=/usr/share/lammps/examples
programs=("$@")
if [ ${#programs[@]} -eq 0 ]; then
	for name in cg ft is lu mg; do
		[ -z "${NPB_DIR:-}" ] || for file in "$NPB_DIR/$name".*.2; do [ ! -x "$file" ] || programs+=("$file"); done
	done
	command -v lmp >/dev/null && programs+=("lmp -log none -in $examples/melt/in.melt" "lmp -log none -in $examples/friction/in.friction")
fi
[ ${#programs[@]} -gt 0 ] || skip_all $suite "neither NPB_DIR is set, nor is lammps installed"

# watch FILE: the counters of both primaries' contexts, again and again, since they end with the ranks
watch() {
	local host
	while sleep 0.03; do
		for host in 0 1; do
			"$build/app/pmx-ctl" --instance "$tag$host" --json memory 2>/dev/null | tr -d ' ",' |
				awk -F: -v host=$host '/^context/ {c = $2} /^pin_hits/ {h = $2} /^pin_misses/ {m = $2} /^pin_evictions/ {e = $2}
					/^pinned_bytes/ {print host "." c, h + 0, m + 0, e + 0, $2 + 0; fflush()}'
		done
	done >"$1"
}

printf '%-28s %8s %10s %10s %10s %10s %8s\n' program entries hits misses evictions "pinned KiB" "hits"
for program in "${programs[@]}"; do
	short=$(basename "${program##*/}")
	[[ $program != lmp* ]] || short="lmp $(basename "$program")"
	for entries in ${SIZES:-2 4 16 64 1024}; do
		for host in 0 1; do
			if [ "$entries" = 0 ]; then
				sed -i '/^pin_/d; /^\[limits\]/a pin_cache = off' "$dir/shared.$host.ini"
			else
				sed -i "/^pin_/d; /^\[limits\]/a pin_entries = $entries" "$dir/shared.$host.ini"
			fi
		done
		primaries
		both=("${pids[@]: -2}")
		watch "$dir/pins" &
		watcher=$!
		pids+=($watcher)
		if ! over attached 2 $program >"$dir/log" 2>&1; then
			not_ok "${suite}_${short//[. ]/_}_$entries" "exit code $?" "$dir/log"
		else
			sleep 0.3
			awk -v p="$short" -v n="$entries" '{h[$1] = $2 > h[$1] ? $2 : h[$1]; m[$1] = $3 > m[$1] ? $3 : m[$1]; e[$1] = $4 > e[$1] ? $4 : e[$1]; b = $5 > b ? $5 : b}
				END {for (k in h) {hits += h[k]; misses += m[k]; evictions += e[k]}
				printf "%-28s %8s %10d %10d %10d %10d %7s%%\n", p, n, hits, misses, evictions, b / 1024, hits + misses ? sprintf("%.1f", 100 * hits / (hits + misses)) : "-"}' "$dir/pins"
		fi
		end "$watcher"
		for pid in "${both[@]}"; do end "$pid"; done
	done
done
exit $failed
