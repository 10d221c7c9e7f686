#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: hugepages.sh [MiB]
# Makes sure that so much memory (default 1536 MiB) is free in hugepages of 2 MiB, the same on each
# NUMA node, and that hugetlbfs is mounted on /dev/hugepages. Never gives hugepages back. Needs no
# root when there is enough already. The reservation lasts until reboot.
set -u

here=$(cd "$(dirname "$0")" && pwd)
size=hugepages-2048kB
mount_point=/dev/hugepages

die() {
	echo "hugepages.sh: $*" >&2
	exit 1
}

need_root() {
	[ "$(id -u)" -eq 0 ] || die "$1: that takes root: sudo $here/hugepages.sh $mib"
}

# counter DIRECTORY nr|free
counter() {
	cat "$1/$2_hugepages"
}

# one directory a NUMA node with memory, or the only one of a kernel without NUMA
find_nodes() {
	local node
	nodes=()
	for node in /sys/devices/system/node/node[0-9]*; do
		[ -d "$node/hugepages/$size" ] || continue
		grep -q 'MemTotal: *[1-9]' "$node/meminfo" && nodes+=("$node/hugepages/$size")
	done
	[ ${#nodes[@]} -gt 0 ] || nodes=("/sys/kernel/mm/hugepages/$size")
	[ -d "${nodes[0]}" ] ||
		die "this kernel or CPU has no hugepages of 2 MiB (${nodes[0]} does not exist)"
}

node_name() {
	local name=${1#/sys/devices/system/node/}

	[ "$name" = "$1" ] && name=all
	echo "${name%%/*}"
}

# too_few DIRECTORY PAGES: the end
too_few() {
	local dir=$1 want=$2 name

	name=$(node_name "$dir")
	die "the kernel gives $name only $(($(counter "$dir" free) * 2)) MiB in free hugepages, not \
$((want * 2)), with $(available) MiB
of memory available. Stop what uses memory or hugepages (ls -l $mount_point shows files that dead
programs left), or reserve them at boot: hugepages=$((want * ${#nodes[@]}))
on the kernel's command line."
}

available() {
	awk '/^MemAvailable:/ {print int($2 / 1024)}' /proc/meminfo
}

# reserve DIRECTORY PAGES: have that many free
reserve() {
	local dir=$1 want=$2 free total before try

	before=$(counter "$dir" nr)
	for try in 1 2 3; do
		free=$(counter "$dir" free)
		[ "$free" -ge "$want" ] && return 0
		need_root "$(node_name "$dir") has $((free * 2)) MiB in free hugepages, not $((want * 2))"
		# to ask for what is not there would take all that is
		[ $(((want - free) * 2)) -lt "$(available)" ] || break
		# memory in small pieces: have it put together, then ask again
		[ "$try" -gt 1 ] && { echo 1 >/proc/sys/vm/compact_memory; } 2>/dev/null
		total=$(counter "$dir" nr)
		{ echo $((total + want - free)) >"$dir/nr_hugepages"; } 2>/dev/null ||
			die "cannot write $dir/nr_hugepages: in a container, run this on its host, or start
the container with --privileged"
	done
	[ "$(counter "$dir" free)" -ge "$want" ] && return 0
	# leave it as it was
	[ "$(counter "$dir" nr)" -le "$before" ] || echo "$before" >"$dir/nr_hugepages"
	too_few "$dir" "$want"
}

mounted() {
	awk -v at="$mount_point" '$2 == at && $3 == "hugetlbfs" {found = 1} END {exit !found}' /proc/mounts
}

mount_hugetlbfs() {
	mounted && return
	need_root "hugetlbfs is not mounted on $mount_point"
	mkdir -p "$mount_point" || die "cannot make $mount_point"
	mount -t hugetlbfs -o pagesize=2M nodev "$mount_point" ||
		die "cannot mount hugetlbfs on $mount_point: in a container, give it the host's with
-v /dev/hugepages:/dev/hugepages, or start it with --privileged"
}

show() {
	local dir

	printf '%-12s %10s %10s\n' "hugepages" "total MiB" "free MiB"
	for dir in "${nodes[@]}"; do
		printf '%-12s %10d %10d\n' "$(node_name "$dir")" $(($(counter "$dir" nr) * 2)) \
			$(($(counter "$dir" free) * 2))
	done
	awk -v at="$mount_point" '$2 == at && $3 == "hugetlbfs" {
		printf "%-12s %s %s\n", "mounted", at, $4; exit}' /proc/mounts
}

mib=${1:-1536}
case $mib in
--help | -h) sed -n '4,7s/^# //p' "$0"; exit 0 ;;
*[!0-9]*) echo "Usage: $0 [MiB]" >&2; exit 2 ;;
esac
[ $# -le 1 ] || { echo "Usage: $0 [MiB]" >&2; exit 2; }

find_nodes
pages=$((((mib + 1) / 2 + ${#nodes[@]} - 1) / ${#nodes[@]}))
for dir in "${nodes[@]}"; do
	reserve "$dir" "$pages"
done
mount_hugetlbfs
show
