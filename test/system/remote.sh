#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: remote.sh BUILD_DIR [ROUNDS [CASE...]]
# Remote memory between processes (remote.c), over two primaries and net_memif with idle = adaptive: the
# owner of the memory sleeps (asleep), is told by notifications (notify), is killed under long transfers
# (target_killed), or who transfers is (initiator_killed), ROUNDS (2; 10 in the full tier) times each at random moments; and
# nodes of two lanes (lanes). The primaries must live, and hold afterwards what they held before: mbufs,
# descriptors, mappings, hugepages. PMX_REMOTE_SEED (1): other moments.
set -u
. "$(dirname "$0")/common.bash"

rounds=2
! full || rounds=10
rounds=${2:-$rounds}
only=" ${*:3} "
seed=${PMX_REMOTE_SEED:-1}
program=$build/test/remote
need_hugepages remote 640
[ -x "$program" ] || skip_all remote "$program is not there"

wanted() { [ "$only" = "  " ] || [[ $only == *" $1 "* ]]; }

config() { # NODE LANES MTU
	node_ini "$1" net_memif0 <<-END
		mtu = $3
		[engine]
		idle = adaptive
		lanes = $2
		[proto]
		retries = 100
		[limits]
		contexts = 16
		send_buffers = 64
		receive_buffers = 64
		mbufs = 8192
	END
}

# pair LANES MTU: two primaries; their numbers are in primaries[]
pair() {
	local i cores=(0 1) role=(server client)
	for i in 0 1; do
		config $i "$1" "$2"
		[ "$1" -eq 1 ] || cores[i]=0,1
		primary $i -l "${cores[i]}" -m 256 \
			"--vdev=net_memif0,role=${role[i]},id=0,socket=$dir/m.sock,socket-abstract=no,bsize=9216" || return 1
		primaries[i]=$last
	done
}

alive() { # NAME
	local i
	for i in 0 1; do
		if kill -0 "${primaries[i]}" 2>/dev/null &&
			timeout 10 "$build/app/pmx-ctl" --instance "$tag$i" stat >"$dir/stat" 2>&1; then
			ok "${1}__primary_${i}_lives"
		else
			not_ok "${1}__primary_${i}_lives" "" "$dir/$i.log"
		fi
	done
}

# What must be as before once all applications have ended: a line for all of it.
holdings() {
	local i
	for i in 0 1; do
		timeout 10 "$build/app/pmx-ctl" --instance "$tag$i" stat 2>/dev/null |
			awk -v n=$i '$1 == "mbufs_free" || $1 == "mbufs_unpromised" {printf "%s_%d=%s ", $1, n, $2}'
		echo -n "fds_$i=$(find "/proc/${primaries[i]}/fd" -mindepth 1 | wc -l) "
		echo -n "memfds_$i=$(grep -c memfd: "/proc/${primaries[i]}/maps") "
		# also of those who are dead
		echo -n "hugepage_files_$i=$(find /dev/hugepages -name "$tag$i*" | wc -l) "
		awk -v n=$i '/^HugetlbPages/{printf "hugepages_kb_%d=%s ", n, $2}' "/proc/${primaries[i]}/status"
	done
}

# ... when it no longer changes: who asked last may still be closing its connection
settled() {
	local first second
	second=$(holdings)
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		first=$second
		sleep 0.2
		second=$(holdings)
		[ "$first" != "$second" ] || break
	done
	echo "$second"
}

as_before() { now=$(holdings); [ "$now" = "$before" ]; }

# run CASE: and look for what it left
run() {
	wanted "$1" || return 0
	before=$(settled)
	timeout 240 "$program" "$1" "${tag}0" "${tag}1" "$seed" "$rounds" >"$dir/$1.log" 2>&1
	local code=$?
	grep -E '^(ok|not ok|#) ' "$dir/$1.log"
	if [ $code -ne 0 ]; then
		grep -q '^not ok' "$dir/$1.log" || echo "not ok remote_$1 exit code $code"
		grep -vE '^(ok|not ok|#) ' "$dir/$1.log" | tail -5 | sed 's/^/# /'
		echo "# again: PMX_REMOTE_SEED=$seed $0 $build $rounds $1"
		failed=1
	fi
	alive "remote_$1"
	if wait_for 60 as_before; then
		ok "remote_${1}__nothing_left"
	else
		not_ok "remote_${1}__nothing_left" "see below"
		echo "# before: $before"
		echo "# after:  $now"
	fi
}

finish() {
	local i code
	for i in 0 1; do
		end "${primaries[i]}"
		code=$?
		[ $code -eq 0 ] || not_ok "remote__primary_${i}_ends_well" "exit code $code" "$dir/$i.log"
	done
	rm -f /dev/hugepages/"$tag"[01]map_* "$dir"/*.sock
}

pair 1 9000 || { not_ok remote_start "the primaries do not start"; exit 1; }
# the first ones find paths and queues as they never are again
timeout 120 "$program" asleep "${tag}0" "${tag}1" "$seed" >/dev/null 2>&1
sleep 1
for case in asleep notify target_killed initiator_killed; do
	run $case
done
finish
if wanted lanes; then
	pair 2 1500 || { not_ok remote_start "the primaries of two lanes do not start"; exit 1; }
	timeout 120 "$program" asleep "${tag}0" "${tag}1" "$seed" >/dev/null 2>&1
	sleep 1
	run lanes
	finish
fi
exit $failed
