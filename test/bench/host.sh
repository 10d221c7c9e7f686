#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Two programs of one host, a core each: round trip, rate and bandwidth by size. UCX over POSIX and over System V shared memory where
# ucx_perftest is installed; pmx between two thin clients, plain messages as long as a context sends them and matched ones; the same
# by the engine (access.direct = off), whose primary then shares a core where there are only two. All else has its default.
# Repeated in turns, each beside what a cache line takes between the two cores and back. Root.
# usage: host.sh BUILD_DIR [REPETITIONS]
set -u
. "$(dirname "$0")/../system/common.bash"
. "$(dirname "$0")/turns.bash"
. "$(dirname "$0")/ucx.bash"
times=${2:-3} work=$dir rounds=${ROUNDS:-20000}
perf=$build/app/pmx-perf
sizes=64,1024,8192,65536
first=(taskset -c 0) second=(taskset -c 1)
need_hugepages host 256

pmx() # DIRECT TESTS
{
	local test pid daemon
	alone_ini 0 <<-END
		[engine]
		idle = adaptive
		[access]
		direct = $1
		[limits]
		mbufs = 16384
		contexts = 8
	END
	primary 0 -l 0 -m 128 >&2 || return 1
	daemon=$last
	for test in $2; do
		PMX_ATTACH=thin "${second[@]}" timeout 60 "$perf" respond --instance "${tag}0" --context 1 >"$work/1.log" 2>&1 &
		pid=$!
		sleep 0.5
		PMX_ATTACH=thin "${first[@]}" timeout 60 "$perf" "$test" --instance "${tag}0" --context 2 --to 0:1 --json \
			--sizes $sizes$([ "$test" != matched ] || echo ,1048576) --seconds 0.5 --rounds "$rounds" 2>"$work/0.log" | grep '"what"' ||
			cat "$work/0.log" "$work/1.log" >&2
		wait $pid
	done
	end "$daemon"
}

turn()
{
	as posix ucx posix,self 127.0.0.1 $sizes,1048576
	as sysv ucx sysv,self 127.0.0.1 $sizes,1048576
	as pairs pmx user "all matched"
	as engine pmx off all
}

turns "$times" turn >"$work/rows"
python3 "$(dirname "$0")/columns.py" "$work/rows"
lines_print
