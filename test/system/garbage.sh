#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: garbage.sh BUILD_DIR [LIVES [SEED]]
# A client that writes garbage into all of its shared memory while the engine reads it, in LIVES (16, in the full tier 32) contexts one
# after the other, thin and as a secondary, beside round trips of others. The engines must live, and count what was wrong. What others feel
# is what a turn of the engine does for such a client: no more submissions than `burst` allows, and little of the CPU.
set -u
. "$(dirname "$0")/common.bash"

full && lives=32 || lives=16
lives=${2:-$lives}
seed=${3:-$RANDOM}
burst=8       # submissions of the client that a turn takes
turn_ns=20000 # of the CPU that a turn takes at most, in the mean: many times what an undisturbed one does
need_hugepages garbage 320
for i in 0 1; do
	node_ini $i net_memif0 <<-END
		mtu = 4000
		[engine]
		idle = adaptive
		[proto]
		rto_max_us = 50000
		retries = 16
		[limits]
		mbufs = 8192
		contexts = 16
		send_buffers = 64
		receive_buffers = 64
		[contexts 8-9]
		burst = $burst
	END
done
primary 0 -l 0 -m 64 --vdev=net_memif0,role=server,socket="$dir/m.sock",socket-abstract=no,bsize=4224 || { not_ok garbage_start ""; exit 1; }
primaries=("$last")
primary 1 -l 1 -m 64 --vdev=net_memif0,role=client,socket="$dir/m.sock",socket-abstract=no,bsize=4224 || { not_ok garbage_start ""; exit 1; }
primaries+=("$last")

before_is_gone() { ! context_open 1 2; }

# trips: round trips between contexts 2 of both nodes; their median and p99.9 in ns
trips() {
	local code
	wait_for 60 before_is_gone # its context, which would be taken for the next one's
	start "$dir/respond.log" "$build/app/pmx-perf" respond --context 2 --instance "${tag}1"
	wait_for 60 context_open 1 2
	timeout 300 "$build/app/pmx-perf" latency --sizes 64 --rounds "$rounds" --context 2 --to 1:2 --instance "${tag}0" --json >"$dir/trips" 2>&1
	code=$?
	[ $code -ne 0 ] || wait_for 60 gone "$last"
	end "$last"
	[ $code -eq 0 ] || sed 's/^/# others: /' "$dir/trips" "$dir/respond.log"
	sed -n 's/.*"p50_ns": *\([0-9]*\).*"p999_ns": *\([0-9]*\).*/# of others, ns: median \1, p99.9 \2/p' "$dir/trips" | head -1
	return $code
}

# work: turns that primary 0 has made, submissions that it has taken, and ns of the CPU that it has had
work() {
	echo "$("$build/app/pmx-ctl" --instance "${tag}0" stat --all | awk '{n[$1] = $2} END {print n["polls"], n["submissions"] + n["bad_submissions"]}')" \
		"$(cat "/proc/${primaries[0]}"/task/*/schedstat | awk '{n += $1} END {printf "%.0f", n}')"
}

wrong_things() { "$build/app/pmx-ctl" --instance "${tag}0" drops | awk '/^bad_|malformed/ {n += $2} END {print n + 0}'; }

lives() { # NAME
	local i
	for i in 0 1; do
		if kill -0 "${primaries[i]}" 2>/dev/null && timeout 10 "$build/app/pmx-ctl" --instance "$tag$i" stat >/dev/null; then
			ok "garbage_$1__primary_${i}_lives"
		else
			not_ok "garbage_$1__primary_${i}_lives" "" "$dir/$i.log"
		fi
	done
}

rounds=100
[[ $build != *asan* ]] || { rounds=100 turn_ns=$((20 * turn_ns)); }
echo "# $lives lives, from seed $seed"
for way in thin secondary; do
	export PMX_ATTACH=$way
	counted=$(wrong_things)
	read -r polls taken ns < <(work)
	turns=0 bad=0 left=$lives
	# what it writes may end its own connection, and with that it: the next goes on
	while [ $left -gt 0 ]; do
		start "$dir/garbage.log" "$build/test/garbage" "${tag}0" 8 "$left" "$seed"
		garbage=$last
		wait_for 60 context_open 0 8
		while kill -0 "$garbage" 2>/dev/null; do
			trips || bad=$((bad + 1))
			turns=$((turns + 1))
		done
		wait "$garbage" || { not_ok "garbage_${way}__runs" "exit code $?" "$dir/garbage.log"; break; }
		lived=$(sed -n 's/^# \([0-9]*\) lives.*/\1/p' "$dir/garbage.log")
		[ "${lived:-0}" -gt 0 ] || { not_ok "garbage_${way}__runs" "it had no life" "$dir/garbage.log"; break; }
		left=$((left - lived)) seed=$((seed + 1))
	done
	read -r polls_then taken_then ns_then < <(work)
	polls=$((polls_then > polls ? polls_then - polls : 1)) taken=$((taken_then - taken)) ns=$((ns_then - ns))
	lives $way
	sed -n '$p' "$dir/garbage.log"
	counted=$(($(wrong_things) - counted))
	"$build/app/pmx-ctl" --instance "${tag}0" drops | grep -E 'bad_|refused' | sed 's/^/# /'
	[ "$counted" -gt 0 ] && ok "garbage_${way}__counters_say_why" || not_ok "garbage_${way}__counters_say_why" "nothing bad was counted"
	[ $turns -gt 0 ] && [ $bad -eq 0 ] && ok "garbage_${way}__others_are_answered # $turns times $rounds" ||
		not_ok "garbage_${way}__others_are_answered" "$bad of $turns times not"
	# each of the others' round trips is a submission more, and an end that is a few
	most=$((burst * polls + turns * (2 * rounds + 1000)))
	[ $taken -le $most ] && [ $((ns / polls)) -le $turn_ns ] &&
		ok "garbage_${way}__others_are_not_disturbed # $taken submissions in $polls turns, $((ns / polls)) ns of the CPU each" ||
		not_ok "garbage_${way}__others_are_not_disturbed" "$taken submissions in $polls turns, $((ns / polls)) ns of the CPU each"
	seed=$((seed + 1))
done
exit $failed
