#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: polite.sh BUILD_DIR
# More processes that poll than CPUs: two primaries with idle = adaptive, two applications that exchange messages, and two
# that look for messages which never come, in a loop of pmx_receive. These must leave the others the CPU (PM-CPU): with
# PMX_IDLE=yield they give it up at every 300th empty poll at least, and with PMX_IDLE=spin never. What that does to round trips is
# measured by test/bench/polite.sh. Beside a program that never gives its CPU away, pollers and primaries sleep shortly instead of
# yielding, which would give it a time slice each time.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages polite 128
. "$(dirname "$0")/polite.bash"

# told: polls, yields and naps of each poller, "polls N yields M naps K"
told() { cat "$dir"/poll[01].log | grep '^polls'; }

pollers yield
# whom a primary does not answer in its patience may ask again
comes() { [ -n "$(round_trip 20 2)" ]; }
all_come() { # NAME
	if comes || comes || comes; then ok "$1"; else not_ok "$1" "" "$dir/latency.log"; fi
}
all_come polite_round_trips_beside_pollers
end_pollers
told | sed 's/^/# yield: /'
told | awk '$2 > 0 && ($4 + $6) * 300 >= $2 {n++} END {exit n != 2}' && ok polite_pollers_leave_the_cpu ||
	not_ok polite_pollers_leave_the_cpu "they do not give up the CPU at every 300th poll" "$dir/poll0.log"
pollers spin
end_pollers
told | sed 's/^/# spin: /'
told | awk '$2 > 0 && $4 + $6 == 0 {n++} END {exit n != 2}' && ok polite_spinners_do_not ||
	not_ok polite_spinners_do_not "" "$dir/poll0.log"
# beside endless loops, with primaries that yield: what gives up the CPU is counted, whatever time that takes
hogs=()
for ((i = 0; i < cpus; i++)); do
	start "$dir/hog.log" timeout 200 taskset -c $i sh -c 'while :; do :; done'
	hogs+=("$last")
done
for i in 0 1; do
	sed -i 's/^idle = .*/idle = yield/' "$dir/$i.ini"
	"$build/app/pmx-ctl" --instance "$tag$i" reload >"$dir/reload.log" 2>&1 || not_ok polite_reload "" "$dir/reload.log"
done
naps() { "$build/app/pmx-ctl" --instance "$tag$1" stat --all | awk '$1 == "sleeps" {print $2}'; }
were=("$(naps 0)" "$(naps 1)")
napped() { [ $(($(naps 0) - were[0])) -ge 50 ] && [ $(($(naps 1) - were[1])) -ge 50 ]; }
pollers yield
wait_for 60 napped && ok polite_primaries_nap_on_a_contended_cpu ||
	not_ok polite_primaries_nap_on_a_contended_cpu "they slept $(naps 0) and $(naps 1) times, ${were[*]} before"
all_come polite_round_trips_on_a_contended_cpu
end_pollers
told | sed 's/^/# contended: /'
told | awk '$6 >= 50 {n++} END {exit n != 2}' && ok polite_pollers_nap_on_a_contended_cpu ||
	not_ok polite_pollers_nap_on_a_contended_cpu "they yield" "$dir/poll0.log"
for pid in "${hogs[@]}"; do end "$pid"; done

if PMX_IDLE=never PMX_ATTACH=thin "$build/test/stopped" "${tag}0" 8 poll 2>&1 </dev/null | grep -q 'out of range'; then
	ok polite_unknown_policy_is_refused
else
	not_ok polite_unknown_policy_is_refused
fi
exit $failed
