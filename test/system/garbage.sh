#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: garbage.sh BUILD_DIR [TURNS [SEED]]
# A client that writes garbage into all of its shared memory while the engine reads it, thin and as a secondary: first so many
# submissions and all that it can do wrong beside these, after which the engines must live, and their counters say why. Then beside
# round trips of others, which in one of TURNS (6) turns must take at most twice what they take beside a process that takes as much of
# the CPU and is no client. Both run at idle priority: what others feel is what the engine does for it, and not who has the CPU.
set -u
. "$(dirname "$0")/common.bash"

turns=6 submissions=32000
! full || submissions=400000
turns=${2:-$turns}
seed=${3:-$RANDOM}
need_hugepages garbage 320
for i in 0 1; do
	node_ini $i net_memif0 <<-END
		mtu = 4000
		[engine]
		idle = adaptive
		[proto]
		rto_max_us = 50000
		[limits]
		mbufs = 8192
		contexts = 16
		send_buffers = 64
		receive_buffers = 64
		[contexts 8-9]
		burst = 8
	END
done
primary 0 -l 0 -m 64 --vdev=net_memif0,role=server,socket="$dir/m.sock",socket-abstract=no,bsize=4224 || { not_ok garbage_start ""; exit 1; }
primaries=("$last")
primary 1 -l 1 -m 64 --vdev=net_memif0,role=client,socket="$dir/m.sock",socket-abstract=no,bsize=4224 || { not_ok garbage_start ""; exit 1; }
primaries+=("$last")

# trips: median and p99.9 in ns of round trips between contexts 2 of both nodes
trips() {
	start "$dir/respond.log" "$build/app/pmx-perf" respond --context 2 --instance "${tag}1"
	wait_for 20 context_open 1 2
	timeout 120 "$build/app/pmx-perf" latency --sizes 64 --rounds "$rounds" --context 2 --to 1:2 --instance "${tag}0" --json >"$dir/trips" 2>&1
	end "$last"
	grep -q p999_ns "$dir/trips" || sed 's/^/# others: /' "$dir/trips" "$dir/respond.log" >&2
	sed -n 's/.*"p50_ns": *\([0-9]*\).*"p999_ns": *\([0-9]*\).*/\1 \2/p' "$dir/trips" | head -1
}

# next_to INSTANCE CONTEXT: the same while it runs
next_to() {
	local other
	chrt --idle 0 taskset -c 0 "$build/test/garbage" "$1" "$2" 0 "$seed" >>"$dir/garbage.log" 2>&1 &
	other=$!
	pids+=("$other")
	[ "$1" = - ] || wait_for 20 context_open 0 "$2"
	trips
	end $other || not_ok "garbage_${PMX_ATTACH:-}__runs" "" "$dir/garbage.log" >&2
}

lives() { # NAME
	local i
	for i in 0 1; do
		if kill -0 "${primaries[i]}" 2>/dev/null && timeout 10 "$build/app/pmx-ctl" --instance "$tag$i" stat >/dev/null; then
			ok "garbage_$1__primary_${i}_lives"
		else
			not_ok "garbage_$1__primary_${i}_lives" "" "$dir/$i.log"
			failed=1
		fi
	done
}

rounds=8000
[[ $build != *asan* ]] || rounds=800 submissions=$((submissions / 10))
echo "# from seed $seed"
for way in thin secondary; do
	export PMX_ATTACH=$way
	: >"$dir/garbage.log"
	timeout 300 "$build/test/garbage" "${tag}0" 8 $submissions "$seed" >"$dir/garbage.log" 2>&1 || not_ok "garbage_${way}__runs" "exit code $?" "$dir/garbage.log"
	lives $way
	sed -n '$p' "$dir/garbage.log"
	bad=$("$build/app/pmx-ctl" --instance "${tag}0" drops | awk '/^bad_|malformed/ {n++} END {print n + 0}')
	"$build/app/pmx-ctl" --instance "${tag}0" drops | grep -E 'bad_|refused' | sed 's/^/# /'
	[ "$bad" -gt 0 ] && ok "garbage_${way}__counters_say_why" || not_ok "garbage_${way}__counters_say_why" "no counter of bad things"
	[[ $build != *asan* ]] || turns=1 # times mean nothing
	# What else runs on the machine comes and goes: what is compared was measured before it and behind it, and what garbage costs
	# comes in each turn. Tails are the kernel's: a third process that may run wants one of two CPUs, and a slice of it is milliseconds.
	verdict=bad before=$(next_to - -)
	for ((t = 0; t < turns; t++)); do
		between=$(next_to "${tag}0" 8) after=$(next_to - -)
		echo "# of others, ns: median and p99.9 beside one that is no client, garbage, and one that is none: $before, $between, $after"
		verdict=$(echo "$before $between $after" | awk 'NF == 6 {m = $3 / ($1 > $5 ? $1 : $5)
			printf "%s median %.2f of that beside one that is no client", m <= 2 ? "ok" : "bad", m}')
		seed=$((seed + 1))
		[ "${verdict%% *}" != ok ] || break
		before=$after
	done
	lives ${way}_with_others
	if [[ $build == *asan* ]]; then
		continue
	fi
	if [ "${verdict%% *}" = ok ]; then
		ok "garbage_${way}__others_are_not_disturbed # ${verdict#* }"
	else
		not_ok "garbage_${way}__others_are_not_disturbed" "${verdict#* }"
	fi
done
exit $failed
