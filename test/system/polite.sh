#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: polite.sh BUILD_DIR
# More processes that poll than CPUs: two primaries with idle = adaptive, two applications that exchange messages, and two
# that look for messages which never come, in a loop of pmx_receive. These must leave the others the CPU (PM-CPU):
# the round trip beside them, by what they do at an empty poll (PMX_IDLE), in turns.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages polite 128
turns=3
cpus=$(nproc)
for i in 0 1; do
	node_ini $i <<-END
		[limits]
		contexts = 16
	END
	primary $i -l $((i % cpus)) -m 64 || { not_ok polite_start "primary $i does not start"; exit 1; }
done

# pollers POLICY: two a CPU of the first two
pollers() {
	local i
	polling=()
	for i in 0 1; do
		PMX_IDLE=$1 start_fed "$dir/poll$i.log" taskset -c $((i % cpus)) env PMX_ATTACH=thin "$build/test/stopped" "$tag$i" 9 poll
		polling+=("$last")
		wait_for 10 grep -q ready "$dir/poll$i.log" || not_ok polite_poller "" "$dir/poll$i.log"
	done
}

# median round trip, ns
round_trip() {
	start "$dir/respond.log" env PMX_ATTACH=thin "$build/app/pmx-perf" respond --instance "${tag}1" --cpu $((1 % cpus))
	local responder=$last
	PMX_ATTACH=thin timeout 100 "$build/app/pmx-perf" latency --instance "${tag}0" --cpu 0 --to 1:1 --sizes 64 --rounds "$1" \
		--warmup 20 --json 2>"$dir/latency.log" | sed -n 's/.*"p50_ns": *\([0-9]*\).*/\1/p'
	end "$responder"
}

for ((turn = 0; turn < turns; turn++)); do
	for policy in none spin yield; do
		[ $policy = none ] || pollers $policy
		case $policy in spin) rounds=60 ;; *) rounds=1000 ;; esac
		echo "$policy $(round_trip $rounds)"
		[ $policy = none ] || for pid in "${polling[@]}"; do end "$pid"; done
	done
done >"$dir/times"
result=$(sort -k1,1 -k2,2n "$dir/times" | awk -v turns=$turns '
	{ n[$1]++; if (n[$1] == int((turns + 1) / 2)) m[$1] = $2 }
	END { printf "%s %s %s", m["none"], m["spin"], m["yield"] }')
read -r none spin yield <<<"$result"
sed 's/^/# /' "$dir/times"
echo "# median round trip, ns: alone $none, beside pollers that spin $spin, that yield $yield"
if [ -n "${yield:-}" ] && [ $((yield * 4)) -lt "$spin" ]; then
	ok polite_pollers_leave_the_cpu
else
	not_ok polite_pollers_leave_the_cpu "${yield:-?} is not below a quarter of ${spin:-?}" "$dir/latency.log"
fi
if PMX_IDLE=never PMX_ATTACH=thin "$build/test/stopped" "${tag}0" 8 poll 2>&1 </dev/null | grep -q 'out of range'; then
	ok polite_unknown_policy_is_refused
else
	not_ok polite_unknown_policy_is_refused
fi
exit $failed
