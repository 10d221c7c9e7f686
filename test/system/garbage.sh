#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: garbage.sh BUILD_DIR [SECONDS [SEED]]
# A client that writes garbage into all of its shared memory while the engine reads it, for SECONDS (12) in all, thin and as a
# secondary, beside round trips of others. The engines must live, its own counters say why, and others' p99.9 must be at most twice
# that beside a process that takes as much of the CPU and is no client. It runs at idle priority: what others feel is what the engine
# does for it, and not who has the CPU.
set -u
. "$(dirname "$0")/common.bash"

seconds=${2:-12}
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
	sleep 0.3
	timeout 120 "$build/app/pmx-perf" latency --sizes 64 --rounds "$rounds" --context 2 --to 1:2 --instance "${tag}0" --json >"$dir/trips" 2>&1
	end "$last"
	grep -q p999_ns "$dir/trips" || sed 's/^/# others: /' "$dir/trips" "$dir/respond.log" >&2
	sed -n 's/.*"p50_ns": *\([0-9]*\).*"p999_ns": *\([0-9]*\).*/\1 \2/p' "$dir/trips" | head -1
}

# next_to SECONDS INSTANCE CONTEXT: the same while it runs
next_to() {
	local for=$1 other
	chrt --idle 0 taskset -c 0 "$build/test/garbage" "$2" "$3" "$for" "$seed" >>"$dir/garbage.log" 2>&1 &
	other=$!
	pids+=("$other")
	sleep 0.4
	trips
	wait $other || not_ok "garbage_${PMX_ATTACH:-}__runs" "" "$dir/garbage.log" >&2
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

turns=$((seconds / 12 + 2))
each=$((seconds / turns / 2))
[ $each -ge 3 ] || each=3
rounds=$((each * 8000))
[[ $build != *asan* ]] || rounds=$((each * 800))
echo "# $turns turns of $each s each way, from seed $seed"
for way in thin secondary; do
	export PMX_ATTACH=$way
	: >"$dir/garbage.log"
	for ((t = 0; t < turns; t++)); do
		a=$(next_to $each - -) b=$(next_to $each "${tag}0" 8)
		seed=$((seed + 1))
		echo "$a $b"
	done >"$dir/trips.all"
	lives $way
	sed -n '$p' "$dir/garbage.log"
	sed 's/^/# of others, ns: median and p99.9 beside one that is no client, and beside garbage: /' "$dir/trips.all"
	bad=$("$build/app/pmx-ctl" --instance "${tag}0" drops | awk '/^bad_|malformed/ {n++} END {print n + 0}')
	"$build/app/pmx-ctl" --instance "${tag}0" drops | grep -E 'bad_|refused' | sed 's/^/# /'
	[ "$bad" -gt 0 ] && ok "garbage_${way}__counters_say_why" || not_ok "garbage_${way}__counters_say_why" "no counter of bad things"
	if [[ $build == *asan* ]]; then
		continue # times mean nothing
	fi
	# what else runs on the machine only ever adds: the least of each way is what the way costs. Tails are the
	# kernel's: a third process that may run wants one of two CPUs, and a slice of it is milliseconds.
	verdict=$(awk 'NF == 4 {n++; a = a && a < $1 ? a : $1; b = b && b < $3 ? b : $3; t = t && t < $4 ? t : $4}
		END {printf "%s median %.2f of that beside one that is no client, p99.9 %.2f ms", (n > 0 && b <= 2 * a && t <= 200e6) ? "ok" : "bad", a ? b / a : 99, t / 1e6}' "$dir/trips.all")
	if [ "${verdict%% *}" = ok ]; then
		ok "garbage_${way}__others_are_not_disturbed # ${verdict#* }"
	else
		not_ok "garbage_${way}__others_are_not_disturbed" "${verdict#* }"
	fi
done
exit $failed
