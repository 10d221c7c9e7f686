#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: dsm.sh BUILD_DIR [PROGRAMS]
# Shared memory between processes of three nodes over UDP sockets: random programs against a model (dsm.c; PROGRAMS for each
# shape, 4; 8 in the full tier), also over a link that loses frames, single cases (dsm_cases.c), and the examples, each of which compares its result
# with that of one process.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages dsm 256
programs=4
! full || programs=8
programs=${2:-$programs}
ini() { # NODE KEYS-OF-THE-LINK
	node_ini "$1" <<-END
		$2
		[engine]
		idle = adaptive
		[proto]
		keepalive_ms = 1000
		[limits]
		mbufs = 8192
		contexts = 8
	END
	# a third node in all tables
	sed -i "s/^1 = 127.*/&\n2 = 127.0.0.1:$((port + 2))/" "$dir/$1.ini"
}

begin() { # KEYS-OF-THE-LINK
	local i
	primaries=()
	for i in 0 1 2; do
		ini $i "$1"
		primary $i -l $((i % 2)) -m 128 || { not_ok dsm_start "primary $i does not start"; exit 1; }
		primaries+=("$last")
	done
}

# together TEST COMMAND... -- NODE:CONTEXT...: a process for each member; good if all end with 0
together() {
	local name=$1 command=() ranks=() rank=0 code=0 m
	shift
	while [ "$1" != -- ]; do
		command+=("$1")
		shift
	done
	shift
	for m; do
		start "$dir/dsm$rank.log" timeout 300 "${command[@]}" "$tag${m%:*}" $rank "$@"
		ranks+=("$last")
		rank=$((rank + 1))
	done
	for m in "${ranks[@]}"; do
		wait "$m" 2>/dev/null || code=$?
	done
	[ "${expected:-0}" -eq 0 ] || crashes+=("${ranks[@]}")
	cat "$dir"/dsm*.log >"$dir/together.log"
	rm "$dir"/dsm*.log
	[ $code -eq ${expected:-0} ] && ok "$name" || not_ok "$name" "exit code $code" "$dir/together.log"
}

begin ""
for way in thin $(full && echo secondary); do
	export PMX_ATTACH=$way
	together "dsm_${way}__random_2" "$build/test/dsm" -s 1 -p "$programs" -- 0:1 1:1
	together "dsm_${way}__random_one_node" "$build/test/dsm" -s 100 -p "$programs" -- 0:1 0:2 0:3
	together "dsm_${way}__random_6" "$build/test/dsm" -s 200 -p "$programs" -- 0:1 1:1 2:1 0:2 1:2 2:2
	for case in threads arguments system_calls layouts elsewhere member_dies; do
		together "dsm_${way}__$case" "$build/test/dsm_cases" -c $case -- 0:1 1:1
	done
	expected=139 together "dsm_${way}__home_dies" "$build/test/dsm_cases" -c home_dies -- 0:1 1:1
	grep -q 'page 0 of the shared memory, whose home is rank 1, cannot be had' "$dir/together.log" && ok "dsm_${way}__home_is_named" ||
		not_ok "dsm_${way}__home_is_named" "" "$dir/together.log"
done
unset PMX_ATTACH
teams=("0:1 1:1 2:1 0:2 1:2 2:2 0:3 1:3")
! full || teams+=("0:1" "0:1 1:1")
for members in "${teams[@]}"; do
	count=$(wc -w <<<"$members")
	# shellcheck disable=SC2086
	for example in "sor -n 500 -t 20" "matmul -n 200" "sort -n 50000"; do
		together "dsm_example__${example%% *}_$count" "$build/examples/dsm/dsm_"$example -- $members
		sed 's/^/# /' "$dir/together.log"
	done
done
for k in "${primaries[@]}"; do
	end "$k"
done
begin "fault = loss=5%,reorder=2%,duplicate=1%,seed=7"
together dsm_lossy__random "$build/test/dsm" -s 300 -p "$programs" -- 0:1 1:1 2:1 0:2
together dsm_lossy__sort "$build/examples/dsm/dsm_sort" -n 50000 -- 0:1 1:1 2:1
exit $failed
