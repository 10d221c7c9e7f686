#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: pairs.sh BUILD_DIR
# Applications of one user that share memory (pairs.c), thin and secondary: order and bytes of random messages, sleeping, primaries that take over or are
# killed under a stream, a receiver that is killed, one that writes what it must not, another user, and access.direct = off.
set -u
. "$(dirname "$0")/common.bash"
need_hugepages pairs 160
pairs=$build/test/pairs

begin() { # KEYS of [access]
	node_ini 0 <<-END
		[engine]
		idle = adaptive
		[access]
		mode = 0666
		$1
		[limits]
		mbufs = 8192
		contexts = 8
		send_buffers = 128
		receive_buffers = 128
		shared_bytes = 4194304
	END
	primary 0 -l 0 -m 64 || { not_ok pairs_start ""; exit 1; }
	daemon=$last
}

check() { # NAME ARGUMENTS
	local name=$1
	shift
	if timeout 100 "$pairs" "$@" >"$dir/$name.log" 2>&1 && grep -q '^done' "$dir/$name.log"; then
		ok "pairs__$name"
		grep '^#' "$dir/$name.log"
	else
		not_ok "pairs__$name" "exit code $?" "$dir/$name.log"
	fi
}

begin "direct = user"
for s in 1 2 3; do check "mix_$s" mix "${tag}0" $s 1; done
check large large "${tag}0"
check interrupted interrupted "${tag}0"
check switch switch "${tag}0"
check sleep sleep "${tag}0"
check killed killed "${tag}0"
for s in 1 2; do check "hostile_$s" hostile "${tag}0" $s; done
check after mix "${tag}0" 4 1
for s in 1 2 3; do check "plain_mix_$s" plain-mix "${tag}0" $s 1; done
for case in turns full single stopped sleep killed forked apart; do check "plain_$case" plain-$case "${tag}0"; done
for s in 1 2; do check "plain_hostile_$s" plain-hostile "${tag}0" $s; done
check plain_after plain-mix "${tag}0" 4 1
export PMX_ATTACH=secondary
check secondary mix "${tag}0" 5 1
check secondary_plain plain-mix "${tag}0" 5 1
unset PMX_ATTACH
[ "$(id -u)" -ne 0 ] && echo "ok pairs__refused # SKIP needs root" || check another_user refused "${tag}0" 65534

# other primaries take over under a stream, then one is killed and started again
streams() { # NAME CASE
	local turn
	start_fed "$dir/$1.log" timeout 120 "$pairs" "$2" "${tag}0"
	stream=$last
	wait_for 60 grep -q paired "$dir/$1.log" || not_ok "pairs__${1}_begins" "" "$dir/$1.log"
	"$build/app/pmx-ctl" --instance "${tag}0" --json contexts >"$dir/contexts"
	python3 -c 'import json, sys
c = {x["context"]: x for x in json.load(sys.stdin)}
sys.exit(not (c[0]["pairs"] == c[1]["pairs"] == 1 and 0 < c[1]["paired_received"] <= c[0]["paired_sent"] + 1000))' <"$dir/contexts" &&
		ok "pairs__${1}_is_shown" || not_ok "pairs__${1}_is_shown" "" "$dir/contexts"
	for turn in 1 2; do
		OPTIONS=(--take-over)
		primary 0 -l 0 -m 64 || not_ok "pairs__${1}_take_over_$turn" ""
		OPTIONS=()
		daemon=$last
		sleep 0.2
	done
	end "$daemon" KILL
	primary 0 -l 0 -m 64 || not_ok "pairs__${1}_again" ""
	daemon=$last
	echo >&"$to"
	wait "$stream" && ok "pairs__$1" || not_ok "pairs__$1" "exit code $?" "$dir/$1.log"
	grep '^#' "$dir/$1.log"
}
streams stream stream
streams plain_stream plain-stream
end "$daemon" TERM
wait "$daemon"

begin "direct = off"
check off mix "${tag}0" 1 0
check plain_off plain-mix "${tag}0" 1 0
exit $failed
