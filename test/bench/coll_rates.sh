#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: coll_rates.sh BUILD_DIR [TURNS]
# Collectives beside what is predicted of them, where ports are slow: four nodes in namespaces, joined by a bridge. What leaves a host,
# and what the bridge sends to it, has 100 Mb/s, with room for 128K at the bridge (tbf), so that ports, and not the two CPUs that all of
# this shares, are what takes the time. Two processes on each node, or one (coll_rates.c). Each generator's plan is measured in turns
# with the others: the median, the least and the most of TURNS (3), the frames that ports lost, and beside it
#   predicted   by the evaluator, as the library plans: with so many ranks on each host (coll_predict.c)
#   simulated   by pmx-sim, with as many. It has `at_once` for what is `messages` here, isend and irecv.
# What is asserted: the time of the plan that the planner takes (1.25 of the predicted), the order of plans whose predictions are a fifth
# apart, that permits lose no frame, and that who sleeps delays nobody. A time that misses while others had a CPU is skipped, not failed.
set -u
. "$(dirname "$0")/../system/common.bash"

need_hugepages coll_rates 320
turns=${2:-3}
program=$build/test/coll_rates
nodes=4
switch=${tag}s
rate=(100 100 100 100) # of each node's two ports, Mb/s

. "$(dirname "$0")/ports.bash"

ports_switch "$switch" coll_rates
ports_bridge sw0
for ((i = 0; i < nodes; i++)); do ports_host $i sw0 "${rate[i]}"; done
ports_primaries || { not_ok coll_rates_start "$ports_why"; exit 1; }

# ------------------------------------------------------------------ is it the port that takes the time?

# The payload of full frames, 1448 of 1538 bytes on the line.
full=$(awk -v r="${rate[0]}" 'BEGIN {print r * 1448 / 1538}')
start "$dir/respond.log" "$build/app/pmx-perf" respond --instance "${tag}1" --context 1
responder=$last
sleep 0.5
timeout 30 "$build/app/pmx-perf" bandwidth --instance "${tag}0" --context 2 --to 1:1 --sizes 65536 --seconds 1 --json >"$dir/pair.log" 2>&1
pair=$(sed -n 's/.*"gbits": \([0-9.]*\).*/\1/p' "$dir/pair.log" | awk 'END {print $1 * 1000}')
end "$responder"
echo "# one pair: $pair Mb/s of payload, of $full"
if awk -v p="$pair" -v f="$full" 'BEGIN {exit !(p > 0.8 * f && p < 1.05 * f)}'; then
	ok coll_rates__the_port_is_the_bottleneck
else
	not_ok coll_rates__the_port_is_the_bottleneck "" "$dir/pair.log"
fi

# ------------------------------------------------------------------ networks and predictions

# describe: the network as the library and pmx-sim get it, in $dir/nodes
describe() {
	local i
	{
		echo "switch s buffer=$buffer"
		for ((i = 0; i < nodes; i++)); do printf 'host h%s\nlink h%s s bandwidth=%sM latency=20us\n' $i $i "${rate[i]}"; done
	} >"$dir/nodes"
}

# foresees EACH KIND BYTES GENERATOR...: $dir/predicted and $dir/simulated, a line each: GENERATOR MS
foresees() {
	local each=$1 kind=$2 bytes=$3 plans=()
	shift 3
	for g; do [ "$g" = messages ] || plans+=("$g"); done
	"$build/test/coll_predict" "$dir/nodes" "$each" "$kind" "$bytes" "${plans[@]}" >"$dir/predicted" 2>"$dir/log" ||
		not_ok "coll_rates_${kind}_${bytes}_of_$((nodes * each))__is_predicted" "" "$dir/log"
	"$build/app/pmx-sim" collective --topology "$dir/nodes" --ranks-per-host "$each" --kind "$kind" --size "$bytes" 2>"$dir/log" |
		awk 'NR > 1 {print $1 == "at_once" ? "messages" : $1, $3}' >"$dir/simulated"
	[ -s "$dir/simulated" ] || not_ok "coll_rates_${kind}_${bytes}_of_$((nodes * each))__is_simulated" "" "$dir/log"
}

# ------------------------------------------------------------------ measuring

# frames that the bridge's ports have lost until now
lost() { tc -n "$switch" -s qdisc show | sed -n 's/.*(dropped \([0-9]*\),.*/\1/p' | awk '{n += $1} END {print n + 0}'; }

# CPU time, 1/100 s, that all others than this test have taken: what the CPUs were busy with, the hypervisor took, and nobody of ours had.
# Two numbers: that, and the time.
others() {
	local pid
	for pid in $$ "${primaries[@]}"; do cat "/proc/$pid/stat"; done | sed 's/.*) //' |
		awk '{own += $12 + $13 + (NR == 1 ? $14 + $15 : 0)}
			END {
				while ((getline <"/proc/stat") > 0)
					if ($1 == "cpu") busy = $2 + $3 + $4 + $9
				getline <"/proc/uptime"
				print busy - own, $1 * 100
			}'
}

# measures EACH KIND BYTES SLEEPER GENERATOR...: $dir/rows, a line each: GENERATOR awake|asleep MS LOST; and what others had of a CPU, $busy %
measures() {
	local line before now fd answers at took
	read -r took at < <(others)
	: >"$dir/rows"
	rm -f "$dir/lines"
	mkfifo "$dir/lines"
	# shellcheck disable=SC2016
	start_fed "$dir/measure.log" sh -c 'out=$1; shift; exec timeout 120 "$@" >"$out"' - "$dir/lines" \
		"$program" "$tag" "$1" "$2" "$3" "$turns" "${@:4}"
	answers=$to
	local pid=$last
	exec {fd}<"$dir/lines"
	before=$(lost)
	while read -r -u "$fd" line; do
		now=$(lost)
		awk -v n=$((now - before)) '$4 > 0 {print $3, $5, $6, n}' <<<"$line" >>"$dir/rows"
		before=$now
		echo >&"$answers"
	done
	exec {fd}<&- {answers}>&-
	wait "$pid" || return 1
	busy=$(others | awk -v took="$took" -v at="$at" '{printf "%d", 100 * ($1 - took) / ($2 - at)}')
}

# judges NAME WHY: without a why it is as it must be. If others had more than a quarter of a CPU meanwhile, that may be why.
judges() {
	if [ -z "$2" ]; then
		ok "$1"
	elif [ "$busy" -gt 25 ]; then
		echo "skip $1 others had $busy % of a CPU meanwhile: $2"
	else
		not_ok "$1" "$2"
	fi
}

# medians: of $dir/rows that are awake, in $dir/live: GENERATOR MEDIAN LEAST MOST LOST
medians() {
	awk '$2 == "awake" {print $1, $3, $4}' "$dir/rows" | sort -k1,1 -k2,2g | awk '
		$1 != g {tell(); g = $1; n = lost = 0}
		{v[++n] = $2; lost += $3}
		END {tell()}
		function tell() { if (n) print g, v[int((n + 1) / 2)], v[1], v[n], lost }' >"$dir/live"
}

# The table of what was foreseen and what was measured; or, of a word, what is asked for: those of `taken` that took more than 1.25 of
# the predicted time; pairs in another order than predicted where the slower is predicted to take a fifth more.
table() { # [late|order] TAKEN
	awk -v ask="${1:-}" -v taken="${2:-}" '
		FILENAME ~ /predicted$/ {predicted[$1] = $2; next}
		FILENAME ~ /simulated$/ {simulated[$1] = $2; next}
		{live[$1] = $2; least[$1] = $3; most[$1] = $4; lost[$1] = $5; name[++n] = $1}
		function over(a, b) { return b > 0 ? sprintf("%.2f", a / b) : "-" }
		function ms(a) { return a > 0 ? sprintf("%.1f", a) : "-" }
		END {
			if (ask == "late") {
				if (!(live[taken] > 0 && live[taken] <= 1.25 * predicted[taken]))
					printf "%s takes %s of the predicted time ", taken, over(live[taken], predicted[taken])
				exit
			}
			if (ask == "order") {
				for (a in predicted) for (b in predicted)
					if (predicted[b] > 1.2 * predicted[a] && live[b] <= live[a])
						printf "%s is not faster than %s ", a, b
				exit
			}
			printf "# %-10s %9s %9s %9s %9s %9s %9s %9s %6s\n", "plan", "predicted", "simulated", "median", "least", "most", "/predict.", "/simul.", "lost"
			for (i = 1; i <= n; i++) {
				g = name[i]
				printf "# %-10s %9s %9s %9.1f %9.1f %9.1f %9s %9s %6d\n", g, ms(predicted[g]), ms(simulated[g]),
					live[g], least[g], most[g], over(live[g], predicted[g]), over(live[g], simulated[g]), lost[g]
			}
		}' "$dir/predicted" "$dir/simulated" "$dir/live"
}

# compares EACH KIND BYTES GENERATOR...: the first is the one that the planner takes, whose time must be as predicted. What else runs on
# the machine makes all of it slow: what misses is measured anew, twice at most.
compares() {
	local name=coll_rates_${2}_${3}_of_$((nodes * $1)) late order
	foresees "$@"
	for _ in 1 2 3; do
		measures "$1" "$2" "$3" none "${@:4}" || { not_ok "$name" "it does not run" "$dir/measure.log"; return; }
		medians
		echo "# $2 of $3 bytes, $((nodes * $1)) processes on $nodes nodes, ${rate[*]} Mb/s; others had $busy % of a CPU; ms"
		table
		late=$(table late "$4") order=$(table order)
		[ -n "$late$order" ] && [ $SECONDS -lt 120 ] || break
	done
	judges "${name}__${4}_as_predicted" "$late"
	[ "$(wc -l <"$dir/predicted")" -gt 1 ] || return 0 # no two whose order is predicted
	judges "${name}__order_as_predicted" "$order"
}

# goal GENERATOR: of what was measured last, beside the simulator's time; printed, not demanded
goal() {
	awk -v g="$1" '
		$1 == g && FILENAME ~ /simulated$/ {s = $2}
		$1 == g && FILENAME ~ /live$/ {printf "# goal: %s within 1.1 of the simulated time: %.2f, %s\n", g, $2 / s, $2 <= 1.1 * s ? "met" : "missed"}
		' "$dir/simulated" "$dir/live"
}

# loses_nothing NAME GENERATOR
loses_nothing() {
	if awk -v g="$2" '$1 == g {n += $5; is = 1} END {exit !(is && n == 0)}' "$dir/live"; then ok "$1"; else not_ok "$1" "" "$dir/live"; fi
}

describe
export PMX_TOPOLOGY=$dir/nodes
compares 1 gather 1000000 permits in_turn chain paper binomial messages
goal permits
loses_nothing coll_rates_gather_1000000_of_4__permits_lose_nothing permits
compares 1 alltoall 100000 phases messages
compares 1 bcast 1000000 chain two_trees binomial
compares 2 gather 1000000 permits in_turn chain paper binomial messages
goal permits
loses_nothing coll_rates_gather_1000000_of_8__permits_lose_nothing permits
compares 2 gather 100000 permits in_turn chain paper binomial messages
goal permits
loses_nothing coll_rates_gather_100000_of_8__permits_lose_nothing permits
compares 2 alltoall 100000 phases messages
compares 2 bcast 1000000 chain two_trees binomial two_level spread

# ------------------------------------------------------------------ who sleeps delays nobody

# sleeps KIND BYTES SLEEPER GENERATOR...: the others' time, when that rank sleeps 100 ms as soon as it has begun, beside when it does not
sleeps() {
	local name=coll_rates_${1}__who_sleeps_delays_nobody bad
	for _ in 1 2 3; do
		measures 2 "$1" "$2" "$3" "${@:4}" || { not_ok "$name" "it does not run" "$dir/measure.log"; return; }
		bad=$(sort -k1,1 -k2,2 -k3,3g "$dir/rows" | awk -v who="$1 of $2 bytes, rank $3 asleep" '
			$1 " " $2 != k {n = 0; k = $1 " " $2}
			{v[k, ++n] = $3; count[k] = n; g[$1] = 1}
			function median(k) { return v[k, int((count[k] + 1) / 2)] }
			END {
				for (x in g) {
					a = median(x " awake"); b = median(x " asleep")
					printf "# %s, %s: %.1f ms, and %.1f without\n", who, x, b, a >"/dev/stderr"
					if (!(b > 0 && b <= a + 20))
						printf "%s ", x
				}
			}' 2>"$dir/log")
		cat "$dir/log"
		[ -n "$bad" ] && [ $SECONDS -lt 120 ] || break
	done
	judges "$name" "$bad"
}

sleeps gather 200000 5 permits chain
sleeps bcast 200000 2 chain two_trees binomial
sleeps alltoall 50000 3 phases

# ------------------------------------------------------------------ a node whose port is slower

rate[3]=25
ports_limit "$switch" b3 "${rate[3]}" $buffer change
ports_limit "${tag}3" v3 "${rate[3]}" $ports_own change
describe
compares 2 gather 200000 permits in_turn chain paper binomial messages
loses_nothing coll_rates_slow_port__permits_lose_nothing permits
exit $failed
