#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: sleepers.sh BUILD_DIR
# Everybody sleeps: two primaries with idle = sleep over UDP sockets, an application at each, a
# message every 20 ms (sleepers.c). Messages must come, and nobody may use much CPU.
set -u
. "$(dirname "$0")/common.bash"

rounds=150
need_hugepages sleepers 128
for i in 0 1; do
	node_ini $i <<-END
		[engine]
		idle = sleep
		[limits]
		mbufs = 4096
		contexts = 4
	END
	primary $i -l $i -m 64 || { not_ok sleepers_start "primary $i does not start"; exit 1; }
	primaries[i]=$last
done

# what a primary says of its sleeps: where others take its CPU, one that never sleeps uses little of it too
sleeps_of() { "$build/app/pmx-ctl" --instance "$tag$1" stat | awk '$1 == "sleeps" {print $2}'; }
cpu_of() { awk '{print $14 + $15}' "/proc/$1/stat"; } # ticks of 10 ms

for how in epoll wait; do
	before=($(cpu_of "${primaries[0]}") $(cpu_of "${primaries[1]}"))
	slept=($(sleeps_of 0) $(sleeps_of 1))
	began=$(date +%s%N)
	start "$dir/answer.log" "$build/test/sleepers" "${tag}1" 1 answer $how $rounds
	answerer=$last
	wait_for 10 grep -q ready "$dir/answer.log"
	if timeout 60 "$build/test/sleepers" "${tag}0" 2 1:1 $how $rounds >"$dir/ask.log" 2>&1 &&
		wait "$answerer"; then
		ok "sleepers_$how"
	else
		not_ok "sleepers_$how" "see below" "$dir/ask.log"
		sed 's/^/# answerer: /' "$dir/answer.log"
	fi
	grep -hE 'cpu|worst' "$dir/ask.log" "$dir/answer.log" | sed 's/^/# /'
	took=$((($(date +%s%N) - began) / 10000000))
	for i in 0 1; do
		used=$(($(cpu_of "${primaries[i]}") - before[i]))
		slept[i]=$(($(sleeps_of $i) - slept[i]))
		if [ $((used * 4)) -lt $took ] && [ "${slept[i]}" -ge $rounds ]; then
			ok "sleepers_${how}__primary_${i}_sleeps"
		else
			not_ok "sleepers_${how}__primary_${i}_sleeps" "it used $used of $took ticks, and slept ${slept[i]} times"
		fi
		echo "# primary $i: $used of $took ticks of CPU, ${slept[i]} sleeps"
	done
done
exit $failed
