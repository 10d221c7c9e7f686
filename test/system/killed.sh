#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: killed.sh BUILD_DIR [EVERY [RANDOM [thin|secondary|near]]]
# Applications that are killed (SIGKILL), with a partner on another node, and on their own (near), with which they share memory: at every EVERY-th step (211; 61 in the full tier) of all that libpmx does, and RANDOM times (8; 40) at random
# moments, four at once. After each nothing of theirs may be left in the primaries, their number opens at once, their partner's
# sends and transfers end, and others' round trips are as with applications that end by themselves.
set -u
. "$(dirname "$0")/common.bash"

every=211 rounds=1000 random=8
! full || { every=61; rounds=5000; random=40; }
every=${2:-$every}
random=${3:-$random}
ways=${4:-thin secondary near}
need_hugepages killed 320
killed=$build/test/killed

config() { # NODE
	node_ini "$1" net_memif0 <<-END
		mtu = 4000
		[engine]
		idle = sleep
		[proto]
		rto_max_us = 50000
		retries = 100
		keepalive_ms = 200
		flow_idle_ms = 1000
		[limits]
		mbufs = 8192
		contexts = 16
		send_buffers = 64
		receive_buffers = 64
	END
}

# What must be as before: also regions and open contexts. Those of node 1 are its partner's alone; what the near partner keeps for
# transfers, 64 KiB a piece with a descriptor and a mapping, is its own too.
holdings() {
	local own=0
	[ "$book" != near ] || own=$("$build/app/pmx-ctl" --instance "${tag}0" --json memory | python3 -c 'import json, sys
print(sum(c["mapped_pieces"] for c in json.load(sys.stdin)["contexts"] if c["context"] == 15))')
	books 0 "${primaries[0]}" contexts memory | awk -v own="$own" '{for (i = 1; i <= NF; i++) {
		if ($i ~ /^(fds|maps)_0=/) {split($i, a, "="); $i = a[1] "=" a[2] - own}; printf "%s ", $i}}'
	books 1 ""
}

descriptors() { find "/proc/${primaries[0]}/fd" -mindepth 1 -printf '%l\n' | sed 's/:\[.*//' | sort | uniq -c; }

# flows of what was before have ended
is_quiet() { before=$(holdings); [[ $before == *flows_0=0\ * && $before == *flows_1=0\ * ]]; }
# ... which others remember for all of their retries: at the end of all none may be left
without_flows() { sed 's/flows_[01]=[0-9]* //g' <<<"$1"; }
as_before() { now=$(holdings); [ "$(without_flows "$now")" = "$(without_flows "$before")" ]; }
partner_is_done() { [ "$("$killed" owes "$dir/partner" | cut -d' ' -f1)" = 0 ]; }

steps() { # WAY: every k-th step
	local all k n=0 bad=0 out
	out=$(timeout 120 "$killed" victim "${tag}0" 1 "$target" 0 2>&1)
	all=${out%% *}
	[ "$all" -gt 0 ] 2>/dev/null || { not_ok "killed_$1__runs" "$out"; return; }
	echo "# $1, $out"
	ok "killed_$1__runs"
	# a first kill: what is found once only, the partner's state among it
	{ timeout 60 "$killed" victim "${tag}0" 1 "$target" $((all / 2)) >/dev/null 2>&1; } 2>/dev/null
	wait_for 60 is_quiet || not_ok "killed_$1__is_quiet" "$before"
	descriptors >"$dir/fds"
	"$killed" owes "$dir/$book" >/dev/null
	for ((k = 1 + RANDOM % every; k <= all; k += every)); do
		# what is not the same in each run (waiting) may take a few steps less
		{ timeout 120 "$killed" victim "${tag}0" 1 "$target" "$k" >"$dir/victim.log" 2>&1; } 2>/dev/null
		code=$?
		if [ $code -ne 137 ] && [ $code -ne 0 ]; then
			bad=$((bad + 1))
			not_ok "killed_$1__step_$k" "exit code $code" "$dir/victim.log"
			[ $bad -lt 5 ] || break
		fi
		n=$((n + 1))
		if ! wait_for 60 as_before; then
			not_ok "killed_$1__step_$k" "left something"
			echo "# before: $before"
			echo "# after:  $now"
			descriptors >"$dir/fds.now"
			diff "$dir/fds" "$dir/fds.now" | sed 's/^/# node 0: /'
			bad=$((bad + 1))
			[ $bad -lt 5 ] || break
			before=$now
		fi
		if ! wait_for 60 partner_is_done; then
			not_ok "killed_$1__step_$k" "its partner waits: $("$killed" owes "$dir/$book")"
			bad=$((bad + 1))
			[ $bad -lt 5 ] || break
		fi
	done
	wait_for 60 is_quiet && ok "killed_$1__no_flow_is_left" || not_ok "killed_$1__no_flow_is_left" "$before"
	read -r _ errors longest < <("$killed" owes "$dir/$book")
	[ $bad -eq 0 ] && ok "killed_$1__no_step_leaves_anything # $n of $all steps; $errors sends of the partner ended with an error, after at most $longest us"
}

at_random() { # WAY
	local left=$random batch=4 i victims start=$SECONDS
	wait_for 60 is_quiet || not_ok "killed_$1__is_quiet" "$before"
	while [ "$left" -gt 0 ]; do
		victims=()
		for ((i = 0; i < batch; i++)); do
			"$killed" loop "${tag}0" $((2 + i)) "$target" >"$dir/loop$i.log" 2>&1 &
			victims+=($!)
			pids+=($!)
		done
		sleep "0.0$((1 + RANDOM % 9))$((RANDOM % 10))"
		[ "$1" = thin ] || sleep 0.05
		for i in "${victims[@]}"; do
			kill -KILL "$i" 2>/dev/null
			wait "$i" 2>/dev/null
			left=$((left - 1))
		done
		pids=("${pids[@]:0:${#pids[@]}-batch}") # they are the last
	done
	if grep -h . "$dir"/loop?.log | grep -v '^EAL' | head -3 | grep .; then
		not_ok "killed_$1__at_random" "an application failed"
	fi
	if wait_for 60 as_before; then
		ok "killed_$1__at_random # $random times in $((SECONDS - start)) s"
	else
		not_ok "killed_$1__at_random" "left something"
		echo "# before: $before"
		echo "# after:  $now"
	fi
}

# A round trip of others while applications come and go: median and p99 in ns, and how many these were
others() { # WAY killed|ended
	local victim responder n=0
	start "$dir/respond.log" "$build/app/pmx-perf" respond --context 9 --instance "${tag}1"
	responder=$last
	wait_for 60 context_open 1 9
	timeout 100 "$build/app/pmx-perf" latency --sizes 64 --rounds $rounds --context 9 --to 1:9 --instance "${tag}0" --json >"$dir/others" 2>&1 &
	local measuring=$!
	while kill -0 $measuring 2>/dev/null; do
		PMX_ATTACH=$1 "$killed" victim "${tag}0" 1 1:1 $([ "$2" = killed ] && echo $((100 + RANDOM % 100)) || echo 0) >/dev/null 2>&1 &
		victim=$!
		wait $victim 2>/dev/null
		n=$((n + 1))
	done
	wait $measuring
	wait_for 60 gone "$responder" || end "$responder"
	wait "$responder" # it closes the context that the next one opens
	grep -q p99_ns "$dir/others" || sed 's/^/# others: /' "$dir/others" "$dir/respond.log" >&2
	sed -n 's/.*"p50_ns": *\([0-9]*\).*"p99_ns": *\([0-9]*\).*/\1 \2/p' "$dir/others" | head -1 | sed "s/$/ $n/"
}

for i in 0 1; do
	config $i
done
primary 0 -l 0 -m 64 --vdev=net_memif0,role=server,socket=$dir/m.sock,socket-abstract=no,bsize=4224 || { not_ok killed_start ""; exit 1; }
primaries=("$last")
primary 1 -l 1 -m 64 --vdev=net_memif0,role=client,socket=$dir/m.sock,socket-abstract=no,bsize=4224 || { not_ok killed_start ""; exit 1; }
primaries+=("$last")
PMX_ATTACH=thin start "$dir/partner.log" "$killed" partner "${tag}1" 1 "$dir/partner"
partner=$last
wait_for 60 "$killed" owes "$dir/partner" >/dev/null || { not_ok killed_partner "" "$dir/partner.log"; exit 1; }
for way in $ways; do
	export PMX_ATTACH=$way target=1:1 book=partner
	if [ "$way" = near ]; then
		export PMX_ATTACH=thin target=0:15 book=near
		start "$dir/near.log" "$killed" partner "${tag}0" 15 "$dir/near"
		near=$last
		wait_for 60 "$killed" owes "$dir/near" >/dev/null || { not_ok killed_near "" "$dir/near.log"; exit 1; }
	fi
	steps "$way"
	at_random "$way"
	[ "$way" != near ] || { kill -0 "$near" 2>/dev/null && ok killed__near_partner_lives || not_ok killed__near_partner_lives "" "$dir/near.log"; }
done
full || exit $failed # what follows compares times, though of the same seconds
PMX_ATTACH=thin
export PMX_ATTACH
# What else runs on the machine comes and goes: what is compared was measured before it and behind it, and what a kill costs comes in
# each of six turns.
verdict=bad
before=$(others thin ended)
for turn in {1..6}; do
	between=$(others thin killed) after=$(others thin ended)
	echo "# others, ns: median, p99, and applications, which ended, were killed, and ended: $before, $between, $after"
	verdict=$(echo "$before $between $after" | awk 'function larger(a, b) {return a > b ? a : b}
		NF == 9 {m = $4 / larger($1, $7); t = $5 / larger($2, $8)
			printf "%s median %.2f and p99 %.2f of that with applications that end", ($6 >= 5 && m <= 2 && t <= 2) ? "ok" : "bad", m, t}')
	[ "${verdict%% *}" != ok ] || break
	before=$after
done
if [ "${verdict%% *}" = ok ]; then
	ok "killed__others_are_not_disturbed # ${verdict#* }, in turn $turn"
else
	not_ok "killed__others_are_not_disturbed" "${verdict#* }"
fi
for i in 0 1; do
	kill -0 "${primaries[i]}" 2>/dev/null && ok "killed__primary_${i}_lives" || not_ok "killed__primary_${i}_lives" "" "$dir/$i.log"
done
kill -0 "$partner" 2>/dev/null && ok killed__partner_lives || not_ok killed__partner_lives "" "$dir/partner.log"
exit $failed
