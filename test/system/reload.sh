#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: reload.sh BUILD_DIR [CHANGES]
# [nodes] of a running primary changes: nodes come, go and move at random, CHANGES (300 in the full tier, or 80; 60 with sanitizers) times, while round trips
# between two that stay go on; what is removed, and comes back; tables that are wrong; keys that cannot change; a shared file.
# Needs neither root nor hugepages.
set -u
. "$(dirname "$0")/common.bash"
ctl="$build/app/pmx-ctl"
full && changes=300 || changes=80
grep -q __asan_init "$build/app/pmx-dpdk" && changes=60
changes=${2:-$changes}
export PMX_ATTACH=thin

# node N PORT: its configuration; the table is in a file of its own, which all share
node() {
	cat >"$dir/$1.ini" <<-END
		[node]
		id = $1
		name = $tag$1
		[engine]
		idle = adaptive
		[limits]
		contexts = 8
		mbufs = 4096
		flows = 256
		[proto]
		retries = 50
		rto_max_us = 100000
		[link 0]
		driver = udp
		listen = 127.0.0.1:$2
		mtu = 1472
		[nodes]
		file = nodes
	END
}

table() { # LINES: written aside first, as who watches it must not see half of it
	printf '[nodes]\n0 = 127.0.0.1:%s\n1 = 127.0.0.1:%s\n%b' "$port" $((port + 1)) "$1" >"$dir/new" && mv "$dir/new" "$dir/nodes"
}

# DPDK's telemetry turns clients away while it counts ten, with those that have just left
reload() {
	local try
	for try in {1..20}; do
		"$ctl" --instance "${tag}0" --json reload >"$dir/answer" 2>&1 && break
		grep -q 'Try again' "$dir/answer" || { cat "$dir/answer"; return 1; }
		sleep 0.1
	done
	cat "$dir/answer"
	[ "$try" -lt 20 ]
}

peers() { "$ctl" --instance "${tag}0" --json peers | tr -d ' \n' | grep -o '"node":[0-9]*' | sort -t: -k2 -n | sed 's/.*://' | paste -sd' '; }

for i in 0 1 2; do node $i $((port + i)); done
table "2 = 127.0.0.1:$((port + 2))\n"
for i in 0 1 2; do
	primary $i --no-huge -m 128 -l $((i % $(nproc))) --no-shconf || { not_ok reload__start ""; exit 1; }
done
for i in 1 2; do
	start "$dir/respond$i.log" "$build/app/pmx-perf" respond --instance "$tag$i"
	wait_for 60 sh -c "'$ctl' --instance $tag$i contexts | grep -q open"
done

# random changes beside round trips
start "$dir/latency.log" "$build/app/pmx-perf" latency --instance "${tag}0" --to 1:1 --sizes 64 --rounds 100000000 --json
latency=$last
RANDOM=1 sum=0 bad=0
declare -A at=()
for ((k = 0; k < changes; k++)); do
	for n in {1..3}; do
		other=$((3 + RANDOM % 40))
		if [ -n "${at[$other]:-}" ] && [ $((RANDOM % 2)) = 0 ]; then
			unset "at[$other]"
		else
			at[$other]=$((port + 100 + RANDOM % 1000))
		fi
	done
	lines="2 = 127.0.0.1:$((port + 2))\n"
	for other in "${!at[@]}"; do lines+="$other = 127.0.0.1:${at[$other]}\n"; done
	table "$lines"
	reload >"$dir/one" 2>&1 || { bad=$((bad + 1)); cp "$dir/one" "$dir/why"; }
	cat "$dir/one" >>"$dir/reloads"
	sum=$((sum + 1))
done
[ $bad = 0 ] && ok reload__"${changes}"_random_tables || not_ok reload__"${changes}"_random_tables "$bad of $sum were refused" "$dir/why"
[ "$(peers)" = "$(printf '%s\n' 1 2 "${!at[@]}" | sort -n | paste -sd' ')" ] && ok reload__the_table_is_the_last_one ||
	not_ok reload__the_table_is_the_last_one "$(peers), not ${!at[*]}"
kill -0 "$latency" 2>/dev/null && ! grep -qi "error\|refused\|timed" "$dir/latency.log" && ok reload__who_stays_goes_on || not_ok reload__who_stays_goes_on "" "$dir/latency.log"
# two that ask at once: the lanes stand still twice in a row
ask() {
	local k
	for k in {1..40}; do
		"$ctl" --instance "${tag}0" --json reload >"$dir/ask$1" 2>&1 || grep -q 'Try again' "$dir/ask$1" || return 1
	done
}
ask 1 &
pids+=($!)
ask 2 && wait $! && ok reload__two_at_once || not_ok reload__two_at_once "" "$dir/ask2"
received() { "$ctl" --instance "${tag}0" --json contexts | grep -o '"received": [0-9]*' | head -1; }
more_came() { [ "$before" != "$(received)" ]; }
before=$(received)
wait_for 60 more_came && ok reload__messages_still_come ||
	not_ok reload__messages_still_come "$before" "$dir/latency.log"
end "$latency"
grep -o '"pause_us": [0-9]*' "$dir/reloads" | sed 's/.*: //' | sort -n |
	awk '{v[NR] = $1} END {printf "# lanes stood still for p50 %d, p99 %d, at most %d us, %d times\n", v[int((NR + 1) / 2)], v[int(NR * 0.99)], v[NR], NR}'
"$ctl" --instance "${tag}0" stat --all >"$dir/stat"
grep '^proto_timeouts' "$dir/stat" | sed 's/^/# /'

# who is removed, and comes back
table ""
# the table may have been seen already: the shared file is looked at once a second
says reload__removed 0 '"error": ""' reload
[ "$(peers)" = 1 ] && ok reload__they_are_gone || not_ok reload__they_are_gone "$(peers)"
says reload__it_is_not_sent_to 1 'in \[nodes\]' timeout 20 "$build/app/pmx-perf" latency --instance "${tag}0" --to 2:1 --sizes 64 --rounds 100
table "2 = 127.0.0.1:$((port + 2))\n"
says reload__it_comes_back 0 '"error": ""' reload
passes reload__and_answers timeout 60 "$build/app/pmx-perf" latency --instance "${tag}0" --to 2:1 --sizes 64 --rounds 100

# moved: node 2 starts again at another address
end "${pids[2]}"
node 2 $((port + 50))
primary 2 --no-huge -m 128 -l 0 --no-shconf || not_ok reload__start_again ""
start "$dir/respond3.log" "$build/app/pmx-perf" respond --instance "${tag}2"
wait_for 60 sh -c "'$ctl' --instance ${tag}2 contexts | grep -q open"
table "2 = 127.0.0.1:$((port + 50))\n"
says reload__moved 0 '"error": ""' reload
# the first message may have been for its former life
wait_for 60 timeout 60 "$build/app/pmx-perf" latency --instance "${tag}0" --to 2:1 --sizes 64 --rounds 100 >"$dir/there.log" 2>&1 &&
	ok reload__and_answers_there || not_ok reload__and_answers_there "" "$dir/there.log"

# wrong tables change nothing
table "2 = nowhere\n"
says reload__a_wrong_address 1 "nodes:4: \[nodes\] 2: 'nowhere': no IPv4 address" reload
table "2 = 127.0.0.1:1\n2 = 127.0.0.1:2\n"
says reload__given_twice 1 'nodes:5: \[nodes\] 2: node 2 is given twice' reload
table "1024 = 127.0.0.1:2\n"
says reload__beyond_the_limit 1 'nodes:4: \[nodes\] 1024: not a node number from 0 to 1023' reload
table "this is no line\n"
says reload__no_line 1 "nodes:4: 'this is no line' is none of" reload
rm "$dir/nodes"
says reload__no_file 1 '0.ini:[0-9]+: \[nodes\] file: .*nodes: cannot be read' reload
printf '[node]\nid = 1\n' >"$dir/nodes"
says reload__another_section 1 'is to have a section \[nodes\], and no other' reload
[ "$(peers)" = "1 2" ] && ok reload__nothing_changed || not_ok reload__nothing_changed "$(peers)"
table "2 = 127.0.0.1:$((port + 50))\n"
sed -i 's/^contexts = 8/contexts = 9/' "$dir/0.ini"
says reload__a_key_that_cannot_change 1 '\[limits\] contexts differs: it cannot change in a running node' reload
sed -i 's/^contexts = 9/contexts = 8/; s/^mtu = .*/mtu = 1400/' "$dir/0.ini"
says reload__a_link_cannot_change 1 '\[link 0\] mtu differs' reload
sed -i 's/^mtu = .*/mtu = 1472/; s/^idle = .*/idle = yield/' "$dir/0.ini"
says reload__a_key_that_can 0 '"error": ""' reload
says reload__is_told 0 '^idle +yield' "$ctl" --instance "${tag}0" stat --all

# the shared file is looked at by itself
table "2 = 127.0.0.1:$((port + 50))\n7 = 127.0.0.1:9\n"
wait_for 60 sh -c "\"$ctl\" --instance ${tag}0 --json peers | grep -q '\"node\": 7'" && ok reload__the_shared_file_is_seen || not_ok reload__the_shared_file_is_seen "$(peers)"
table "2 = 127.0.0.1:$((port + 50))\n7 = wrong\n"
wait_for 60 grep -q "the file of nodes changed, and is not taken: .*nodes:5: \[nodes\] 7" "$dir/0.log" && ok reload__a_wrong_one_is_said ||
	not_ok reload__a_wrong_one_is_said "" "$dir/0.log"
exit $failed
