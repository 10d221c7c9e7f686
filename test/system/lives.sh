#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: lives.sh BUILD_DIR [CASE...]
# What a client promises while its primaries end and follow each other, case by case: which these are, and what each looks at, stands in
# lives.c. A case is a process with primaries of its own; those that need hugepages have secondaries.
set -u
. "$(dirname "$0")/common.bash"

lives=$build/test/lives
case_seconds=150 # more than a case gives itself
shift

free_hugepages() { awk '/HugePages_Free/{print $2}' /proc/meminfo; }

n=0
while read -r name needs; do
	[ $# -eq 0 ] || [[ " $* " = *" $name "* ]] || continue
	n=$((n + 1))
	# two primaries of 64 MiB, and their secondaries
	if [ "$needs" = huge ] && { [ "$(id -u)" -ne 0 ] || [ "$(free_hugepages)" -lt 96 ]; }; then
		echo "ok lives__$name # SKIP needs root and 96 free hugepages of 2 MiB"
		continue
	fi
	# its own memory is where a primary's would have to be mapped
	[ "$needs" = plain ] || ! grep -q __asan_init "$lives" || continue
	begun=$(date +%s%N)
	start "$dir/$name.out" timeout "$case_seconds" "$lives" "$name" "$build" "$dir" "$tag$n" $((port + 2 * n))
	if wait "$last"; then
		ok "lives__$name # $((($(date +%s%N) - begun) / 1000000)) ms"
	else
		not_ok "lives__$name" "exit code $?: $(grep -m1 '^lives' "$dir/$name.out")"
		sed 's/^/# /' "$dir/$name.out" | tail -8
		tail -4 "$dir/$tag$n.log" 2>/dev/null | sed 's/^/# primary: /'
	fi
done < <("$lives" list)
rm -f /run/pmx-dpdk/"$tag"*.sock # of primaries that were killed
[ $n -gt 0 ] || not_ok lives "no such case"
exit $failed
