#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: pins.sh BUILD_DIR
# Remote pins between processes (pins.c): their askers are killed, on the owner's node and on another; other primaries take over from
# both nodes'; and the primary of an asker is killed. The owner can end its registration after that, and not before. Of an asker's
# death its own node tells: no node is taken for dead before one is killed.
set -u
. "$(dirname "$0")/common.bash"
need_hugepages pins 160

for i in 0 1; do
	node_ini $i <<-END
		[engine]
		idle = adaptive
		[proto]
		rto_max_us = 100000
		retries = 40
		[limits]
		mbufs = 4096
		contexts = 8
		send_buffers = 64
		receive_buffers = 64
	END
	primary $i -l $i -m 64 || { not_ok pins_start ""; exit 1; }
	primaries[i]=$last
done
mkfifo "$dir/said"
exec {said}<>"$dir/said"
PMX_ATTACH=thin start "$dir/log" sh -c "exec '$build/test/pins' ${tag}0 ${tag}1 <'$dir/said'"
program=$last

nobody_counts_as_dead() { # NAME
	local i deaths
	for i in 0 1; do
		deaths=$("$build/app/pmx-ctl" --instance "$tag$i" stat --all | awk '$1 == "proto_peer_deaths" {print $2}')
		[ "$deaths" = 0 ] && ok "pins__$1_${i}" || not_ok "pins__$1_${i}" "node $i counts ${deaths:-no} deaths of nodes"
	done
}

now() { # WHAT: the program waits for it
	wait_for 60 sh -c "grep -q '^# now $1' '$dir/log' || ! kill -0 $program 2>/dev/null" && grep -q "^# now $1" "$dir/log"
}

for i in 0 1; do
	now "take over $i" || break
	[ $i -eq 1 ] || nobody_counts_as_dead askers_death_is_told
	OPTIONS=(--take-over)
	primary $i -l $i -m 64 || { not_ok "pins__takes_over_$i" ""; exit 1; }
	OPTIONS=()
	wait "${primaries[i]}"
	primaries[i]=$last
	wait_for 60 "$build/app/pmx-ctl" --instance "${tag}0" stat >/dev/null 2>&1
	"$build/app/pmx-ctl" --instance "${tag}0" memory | sed -n '/region/,$s/^/# /p'
	echo >&"$said"
done
if now 'kill 1'; then
	nobody_counts_as_dead askers_death_is_told_after_take_overs
	end "${primaries[1]}" KILL
	echo >&"$said"
fi
wait "$program" || not_ok pins "exit code $?"
grep -E '^(ok|not ok)' "$dir/log" || not_ok pins "" "$dir/log"
[ $failed -eq 0 ] || sed "s/^/# /" "$dir/log" "$dir/0.log" "$dir/1.log"
exit $failed
