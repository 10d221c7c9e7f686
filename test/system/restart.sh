#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: restart.sh BUILD_DIR [TIMES] [thin|secondary|takeover]
# Three nodes over the udp link; 4 applications (8 in the full tier) on node 0 exchange messages with half as many on each of nodes 1 and 2. The primary of
# node 0 is killed (SIGKILL; every third time it is asked to end) and started again, TIMES times (3 for each way to attach): every application must
# notice by that alone, within 100 ms of its own CPU time, and go on, and no message may be lost that its sender was told delivered, or
# come twice. Or another primary takes over (--take-over) from it as many times: there must be no error at all, and an application may
# pause only for a part of the time that the start of the other one takes. Retries last 5 s, and hand-overs
# 3 at most.
set -u
. "$(dirname "$0")/common.bash"

rounds=${2:-3}
ways=${3:-thin secondary takeover}
applications=4
! full || applications=8
need_hugepages restart 512
restart=$build/test/restart

host=127.0.0.1
[ -e /proc/sys/net/ipv6/conf/lo ] && [ "$(cat /proc/sys/net/ipv6/conf/lo/disable_ipv6)" = 0 ] && host='[::1]'

config() { # NODE
	local k
	cat >"$dir/$1.ini" <<-END
		[node]
		id = $1
		name = $tag$1
		[engine]
		idle = adaptive
		[link 0]
		driver = udp
		listen = $host:$((port + $1))
		mtu = 4000
		[proto]
		rto_max_us = 50000
		retries = 100
		keepalive_ms = 200
		[limits]
		mbufs = 8192
		contexts = 16
		send_buffers = 64
		receive_buffers = 64
		[nodes]
	END
	for k in 0 1 2; do
		echo "$k = $host:$((port + k))" >>"$dir/$1.ini"
	done
}

apps() { # WAY FILE: starts 16; their process numbers are in applications_pids
	local k peer
	applications_pids=()
	for k in $(seq 0 $((applications - 1))); do
		peer=$((1 + k % 2))
		PMX_ATTACH=$1 start "$dir/app$k.log" "$restart" app "$2" "${tag}0" $((2 * k)) "$k" $peer $((k / 2)) $((2 * k + 1))
		applications_pids+=("$last")
		PMX_ATTACH=thin start "$dir/peer$k.log" "$restart" app "$2" "$tag$peer" $((2 * k + 1)) $((k / 2)) 0 "$k" $((2 * k))
		applications_pids+=("$last")
	done
}

median_and_most() { sort -n | awk '{v[NR] = $1} END {printf "%.1f %.1f\n", v[int((NR + 1) / 2)] / 1000, v[NR] / 1000}'; }

# all_move: each application has had a message since now
all_move() {
	wait_for 60 "$restart" moved "$file" $((2 * applications)) "$("$restart" now "$file")"
}

round() { # NAME NUMBER: kill, start again, wait until all work
	local at line
	at=$("$restart" now "$file")
	end "$killed" $([ $(($2 % 3)) -eq 0 ] && echo TERM || echo KILL)
	"$restart" now "$file" $((2 * applications)) >/dev/null # from here on they may notice
	if ! wait_for 60 "$restart" told "$file" $applications "$2"; then
		not_ok "$1__applications_notice" "time $2" "$dir/app0.log"
		return 1
	fi
	primary 0 -l 0 -m 64 || { not_ok "$1__primary_restarts" "time $2"; return 1; }
	killed=$last
	if ! wait_for 60 "$restart" noticed "$file" $applications "$2"; then
		not_ok "$1__applications_go_on" "time $2" "$dir/app0.log"
		return 1
	fi
	line=$("$restart" latest "$file" $applications "$at" "$2")
	echo "${line%% *}" >>"$dir/noticed"
	line=${line#* }
	echo "${line% *}" >>"$dir/cpu"
	echo "${line#* }" >>"$dir/again"
	all_move
}

kills() { # WAY
	local name=restart_$1 k pid
	file=$dir/$1.file
	rm -f "$dir/noticed" "$dir/cpu" "$dir/again"
	apps "$1" "$file"
	wait_for 60 "$restart" ready "$file" $((2 * applications)) || { not_ok "${name}__starts" "" "$dir/app0.log"; return; }
	all_move || not_ok "${name}__all_move" "" "$dir/app0.log"
	for k in $(seq 1 "$rounds"); do
		round "$name" "$k" || break
	done
	"$restart" stop "$file"
	for pid in "${applications_pids[@]}"; do
		wait_for 60 gone "$pid" || not_ok "${name}__applications_end" "process $pid"
		wait "$pid" || not_ok "${name}__applications_end_well" "process $pid: $(cat "$dir"/app*.log "$dir"/peer*.log | head -3)"
	done
	if "$restart" check "$file" $((2 * applications)); then
		ok "${name}__none_lost_none_twice"
	else
		not_ok "${name}__none_lost_none_twice" "see above"
	fi
	local noticed cpu again
	noticed=$(median_and_most <"$dir/noticed")
	cpu=$(median_and_most <"$dir/cpu")
	again=$(median_and_most <"$dir/again")
	echo "# $1, $k times: -EPIPE after ${noticed% *} ms, at most ${noticed#* }, and ${cpu#* } of its own CPU time; all work again after ${again% *} ms, at most ${again#* }"
	if awk -v most="${cpu#* }" 'BEGIN {exit !(most != "" && most <= 100)}'; then
		ok "${name}__noticed_within_100_ms_of_its_time"
	else
		not_ok "${name}__noticed_within_100_ms_of_its_time" "at most ${cpu#* } ms"
	fi
	rm -f "$file"
}

# looks: ask for the primary's peers without end; each look that fails is a line
looks() {
	while :; do
		"$build/app/pmx-ctl" --instance "${tag}0" peers >"$dir/look" 2>&1 || sed 's/^/failed: /' "$dir/look"
	done
}

takeovers() {
	local name=restart_takeover k pid line begun looker
	file=$dir/takeover.file
	rm -f "$dir/pauses"
	apps thin "$file"
	wait_for 60 "$restart" ready "$file" $((2 * applications)) || { not_ok "${name}__starts" "" "$dir/app0.log"; return; }
	PMX_ATTACH=secondary start "$dir/again.log" "$build/test/secondaries" again "${tag}0"
	start "$dir/looks.log" looks
	looker=$last
	all_move || not_ok "${name}__all_move" "" "$dir/app0.log"
	for k in $(seq 1 "$rounds"); do
		"$restart" times "$file" $((2 * applications)) >/dev/null
		pid=$killed
		begun=$(micros)
		OPTIONS=(--take-over)
		primary 0 -l 0 -m 64 || { not_ok "${name}__takes_over" "time $k"; OPTIONS=(); break; }
		OPTIONS=()
		killed=$last
		wait_for 60 gone "$pid" || not_ok "${name}__the_old_one_ends" "time $k"
		begun=$(($(micros) - begun))
		all_move || not_ok "${name}__all_move" "time $k" "$dir/app0.log"
		line=$("$restart" times "$file" $((2 * applications)))
		echo "${line##* } $begun" >>"$dir/pauses"
	done
	# who looks finds one primary of that name all the time, whatever the EAL calls itself
	end "$looker"
	[ ! -s "$dir/looks.log" ] && ok "${name}__each_look_is_answered" || not_ok "${name}__each_look_is_answered" "" "$dir/looks.log"
	"$build/app/pmx-ctl" --instance "${tag}0" doctor >"$dir/doctor" 2>&1
	grep -q "^FAIL\|leftover.*${tag}0" "$dir/doctor" && not_ok "${name}__doctor_finds_nothing_wrong" "" "$dir/doctor" || ok "${name}__doctor_finds_nothing_wrong"
	[ "$("$build/app/pmx-exporter" --once --instance "${tag}0" | grep -c '^pmx_up{.*} 1')" -eq 1 ] && ok "${name}__exporter_has_its_name" ||
		not_ok "${name}__exporter_has_its_name" ""
	# nor need anyone wait until the one before has ended: here that takes long, and the name becomes a link later still
	OPTIONS=(--take-over)
	runtime=$RUNTIME_DIRECTORY/dpdk
	if [ ! -L "$runtime/${tag}0" ]; then
		primary 0 -l 0 -m 64 || not_ok "${name}__to_the_other_prefix" ""
		killed=$last
		wait_for 60 test -L "$runtime/${tag}0" || not_ok "${name}__is_a_link" ""
	fi
	rm "$runtime/${tag}0"
	mkdir "$runtime/${tag}0"
	start "$dir/ends.log" python3 -c "import fcntl, os, sys, time
f = open(sys.argv[1] + '/config', 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print('locked', flush=True); time.sleep(1)
os.unlink(f.name); os.rmdir(sys.argv[1]); f.close(); time.sleep(0.08); os.symlink(sys.argv[2], sys.argv[1])" "$runtime/${tag}0" "${tag}0+"
	wait_for 60 grep -q locked "$dir/ends.log"
	for k in 1 2 3 4; do
		primary 0 -l 0 -m 64 && ok "${name}__at_once_$k" || { not_ok "${name}__at_once_$k" ""; break; }
		killed=$last
	done
	OPTIONS=()
	# a secondary's memory was the old one's: it sees the end, and comes back
	wait_for 60 grep -q '^again success' "$dir/again.log" && ok "${name}__a_secondary_comes_back" ||
		not_ok "${name}__a_secondary_comes_back" "" "$dir/again.log"
	# who looks for the name finds it, whatever the EAL calls itself now
	timeout 20 "$build/app/pmx-ctl" --instance "${tag}0" stat >/dev/null 2>&1 && ok "${name}__is_found_by_name" ||
		not_ok "${name}__is_found_by_name" "" "$dir/0.log"
	if PMX_ATTACH=secondary timeout 60 "$build/test/thin" open "${tag}0" 15 >"$dir/secondary.log" 2>&1; then
		ok "${name}__secondaries_attach"
	else
		not_ok "${name}__secondaries_attach" "" "$dir/secondary.log"
	fi
	"$restart" stop "$file"
	for pid in "${applications_pids[@]}"; do
		wait_for 60 gone "$pid" || not_ok "${name}__applications_end" "process $pid"
		wait "$pid" || not_ok "${name}__applications_end_well" "process $pid: $(cat "$dir"/app*.log "$dir"/peer*.log | head -3)"
	done
	"$restart" check "$file" $((2 * applications)) | tee "$dir/check"
	grep -q ' 0 told error, 0 told nothing; 0 told delivered that did not come, 0 that came twice' "$dir/check" &&
		grep -q ' 0 of them ended with an error; [0-9]* matched messages, 0 with an error' "$dir/check" &&
		grep -q '^# [1-9][0-9]* messages asked for no result, 0 of them did not come' "$dir/check" &&
		ok "${name}__no_error_none_lost_none_twice" || not_ok "${name}__no_error_none_lost_none_twice" "see above"
	line=$("$restart" times "$file" $((2 * applications)))
	[ "${line%% *}" = 0 ] && ok "${name}__nobody_noticed" || not_ok "${name}__nobody_noticed" "$line"
	line=$(cut -d' ' -f1 "$dir/pauses" | median_and_most)
	echo "# $rounds take-overs: the longest pause of an application was ${line% *} ms, at most ${line#* }"
	# who is not served while the other one starts pauses as long as that takes, each time
	line=$(awk '{print $1 / $2}' "$dir/pauses" | sort -g | head -1)
	awk -v part="$line" 'BEGIN {exit !(part > 0 && part <= 0.5)}' && ok "${name}__paused_for_a_part_of_it # $line" ||
		not_ok "${name}__paused_for_a_part_of_it" "$line of the whole take-over"
	rm -f "$file"
}

for k in 0 1 2; do
	config $k
done
primary 1 -l 1 -m 64 && primary 2 -l 1 -m 64 && primary 0 -l 0 -m 64 || { not_ok restart_start ""; exit 1; }
killed=$last
for way in $ways; do
	if [ "$way" = takeover ]; then
		takeovers
	else
		kills "$way"
	fi
done
exit $failed
