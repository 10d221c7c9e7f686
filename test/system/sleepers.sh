#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: sleepers.sh BUILD_DIR
# Everybody sleeps: two primaries with idle = sleep over UDP sockets, an application at each, a
# message every 20 ms (sleepers.c). Messages must come, and everybody must sleep between two of them: how often they do, and how often
# they look, does not depend on who else wants the CPU.
set -u
. "$(dirname "$0")/common.bash"

rounds=50
! full || rounds=150
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

counters() { "$build/app/pmx-ctl" --instance "$tag$1" stat --all | awk '$1 == "sleeps" {s = $2} $1 == "idle_polls" {p = $2} END {print s, p}'; }
cpu_of() { awk '{print $14 + $15}' "/proc/$1/stat"; } # ticks of 10 ms

for how in epoll wait; do
	before=($(cpu_of "${primaries[0]}") $(cpu_of "${primaries[1]}"))
	were=("$(counters 0)" "$(counters 1)")
	start "$dir/answer.log" "$build/test/sleepers" "${tag}1" 1 answer $how $rounds
	answerer=$last
	wait_for 60 grep -q ready "$dir/answer.log"
	if timeout 120 "$build/test/sleepers" "${tag}0" 2 1:1 $how $rounds >"$dir/ask.log" 2>&1 &&
		wait "$answerer"; then
		ok "sleepers_$how"
	else
		not_ok "sleepers_$how" "see below" "$dir/ask.log"
		sed 's/^/# answerer: /' "$dir/answer.log"
	fi
	grep -hE 'cpu|worst' "$dir/ask.log" "$dir/answer.log" | sed 's/^/# /'
	for i in 0 1; do
		used=$(($(cpu_of "${primaries[i]}") - before[i]))
		read -r slept looked < <(echo "$(counters $i) ${were[i]}" | awk '{print $1 - $3, $2 - $4}')
		told="it slept $slept times, looked in vain $looked times, and used $used ticks of CPU"
		# one that is late finds several events at once; before a sleep it looks for as long as something is due within 20 us, a few
		# thousand times; one that never sleeps looks tens of millions of times
		if [ "$slept" -ge $((rounds / 2)) ] && [ "$looked" -le $((10000 * slept)) ] && [ "$used" -le $((30 + rounds)) ]; then
			ok "sleepers_${how}__primary_${i}_sleeps"
		else
			not_ok "sleepers_${how}__primary_${i}_sleeps" "$told"
		fi
		echo "# primary $i: $told"
	done
done
exit $failed
