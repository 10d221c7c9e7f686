#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: exposed.sh BUILD_DIR
# All that a primary makes on its host while it runs, with a secondary and a thin client: files with their modes, and sockets of the
# network. It is what the tables of doc/guide/security.md say, no more and no less, whatever the umask is. Nothing else of the file
# system but /tmp can be written meanwhile, so a file anywhere would be noticed. When all have ended nothing is left.
set -u
. "$(dirname "$0")/common.bash"

if [ -z "${IN_OWN_PLACE:-}" ]; then
	need_hugepages exposed 128
	rm -rf "$dir"
	unshare --mount true || skip_all exposed "no mount namespaces"
	IN_OWN_PLACE=yes exec unshare --mount sh -c 'mount -t tmpfs own /run && mount -t tmpfs own /dev/shm && mount -t hugetlbfs -o pagesize=2M own /dev/hugepages &&
		mount --bind /tmp /tmp && mount -o remount,bind,ro / && exec "$@"' - "$0" "$@"
fi
unset RUNTIME_DIRECTORY # the places are those of a host
SEAL=seal
page=$(dirname "$0")/../../doc/guide/security.md
group=$(id -gn nobody)

# rows HEADING: the first two columns of its table, a line each
rows() {
	awk -v head="## $1" '$0 == head {on = 1; next} /^## / {on = 0} on && /^\| `/' "$page" | sed 's/^| `\([^`]*\)` | \([^|]*[^| ]\) *|.*/\1 \2/'
}

# made: type, mode and path of all that there is now
made() {
	find /run /dev/shm /dev/hugepages -mindepth 1 ! -path /run/mount -printf '%y %04m %p\n'
	find /tmp -maxdepth 2 -name "*$tag[01]*" -printf '%y %04m %p\n'
}

# fits MODE WANTED [or less]
fits() { [ "$1" = "$2" ] || { [ "${3:-}" = or ] && [ $((0$1 & ~0$2)) -eq 0 ]; }; }

# compare NAME: whether the tables and what there is are the same
compare() {
	local type mode path pattern want wrong="" unseen
	declare -A seen=()
	while read -r type mode path; do
		path=${path//$tag[01]/NAME}
		while read -r pattern want; do
			# shellcheck disable=SC2053,SC2254,SC2086
			case $path in $pattern) seen[$pattern]=1; fits "$mode" $want || [ "$type" = l ] || wrong+="# $path: $mode, and the table says $want"$'\n'; continue 2 ;; esac
		done < <(rows "What a primary makes on its host")
		wrong+="# $path ($type, $mode) is not in the table"$'\n'
	done < <(made)
	while read -r pattern want; do
		[ -n "${seen[$pattern]:-}" ] || wrong+="# $pattern is in the table, and not there"$'\n'
	done < <(rows "What a primary makes on its host")
	[ -z "$wrong" ] && ok "$1" || { not_ok "$1" "doc/guide/security.md"; printf %s "$wrong"; }
}

# sockets PID: those of the network that take what anybody sends, as the kernel lists them, and where
sockets() {
	local inode kind at
	for inode in $(find "/proc/$1/fd" -lname 'socket:*' -printf '%l\n' | tr -cd '0-9\n'); do
		awk -v i="$inode" 'FNR > 1 && ($10 == i || $9 == i) && $3 !~ /[1-9A-F]/ {f = FILENAME; sub(/.*\//, "", f); split($2, a, ":"); print f, a[2]}' \
			/proc/net/{udp,udp6,tcp,tcp6,raw,raw6,packet}
	done | sort -u | while read -r kind at; do echo "$kind $((0x$at))"; done
}

# once NAME UMASK [GROUP]: with that umask, and a group that may attach
once() {
	local i
	umask "$2"
	for i in 0 1; do
		node_ini "$i" <<-END
			[engine]
			idle = adaptive
			[limits]
			contexts = 8
			mbufs = 4096
			[access]
			${3:+group = $3}
			[discovery]
			listen = 127.0.0.1:$((port + 10 + i))
			seed = 127.0.0.1:$((port + 10))
		END
		primary "$i" -l "$i" -m 128 || { not_ok "$1" "node $i does not start" "$dir/$i.log"; exit 1; }
		primaries[i]=$last
	done
	PMX_ATTACH=thin start "$dir/respond.log" "$build/app/pmx-perf" respond --idle yield --instance "${tag}1"
	PMX_ATTACH=secondary start "$dir/load.log" "$build/app/pmx-perf" latency --idle yield --sizes 64 --rounds 1e9 --instance "${tag}0" --to 1:1
	wait_for 60 context_open 1 1 && wait_for 60 test -s "/run/pmx-dpdk/${tag}0.nodes"
}
ends() {
	local pid
	for pid in "${pids[@]}"; do end "$pid"; done
	pids=()
}

primaries=()
for mask in 0 077; do
	once exposed "$mask"
	compare "exposed__files_with_umask_$mask"
	[ "$(sockets "${primaries[0]}")" = "udp $port
udp $((port + 10))" ] && ok "exposed__sockets_with_umask_$mask" || not_ok "exposed__sockets_with_umask_$mask" "" <(sockets "${primaries[0]}")
	ends
	left=$(made | grep -v ' /run/\(dpdk\|pmx-dpdk\)$')
	[ -z "$left" ] && ok "exposed__nothing_is_left_with_umask_$mask" || not_ok "exposed__nothing_is_left_with_umask_$mask" "" <(echo "$left")
done

# a group that may attach gets the socket, and nothing else
once exposed 0 "$group"
[ "$(stat -c '%a %G' "/run/pmx-dpdk/${tag}0.sock")" = "660 $group" ] && ok exposed__a_group_gets_the_socket || not_ok exposed__a_group_gets_the_socket "$(stat -c '%a %G' "/run/pmx-dpdk/${tag}0.sock")"
others=$(find /run /dev/shm /dev/hugepages -mindepth 1 \( -group "$group" -o ! -user root \) ! -name "${tag}[01].sock")
[ -z "$others" ] && ok exposed__and_nothing_else || not_ok exposed__and_nothing_else "$others"
ends
exit $failed
