#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: hostile.sh BUILD_DIR [CASE...]
# Thin clients that try to stop their primary, by what they give it and what it gave them: descriptors, memory, connections,
# messages. Each time one that was there before must go on, a new one must attach, open and close while the hostile one is still
# there, and the primary must end well when it is asked to. Clients are ordinary users, of two kinds; hugepages are not needed.
set -u
. "$(dirname "$0")/common.bash"

shift
cases=${*:-wake kept close large descriptors connections before takeover unread shares reuse}
bound=20 # s, for what must come
hostile=$build/test/hostile
[ "$(id -u)" -eq 0 ] || skip_all hostile "needs root: its clients are other users"

# they end first: nobody ends who waits for one of them
attackers=()
# shellcheck disable=SC2317
clean_up() {
	local pid
	trap '' INT TERM # as in clean
	for pid in ${attackers[@]+"${attackers[@]}"}; do
		end "$pid" KILL
	done
	clean
}
trap clean_up EXIT

# directories that others may enter
chmod 755 "$dir"
mkdir "$dir/door"
chmod 755 "$dir/door"
sock=$dir/door/pmx.sock
cat >"$dir/0.ini" <<END
[node]
id = 0
name = ${tag}0
[engine]
idle = adaptive
[link 0]
driver = loop
port = $tag
[limits]
contexts = 16
shared_bytes = 4194304
[access]
socket = $sock
mode = 0666
[nodes]
0 = auto
END
bad=(setpriv --reuid=65534 --regid=65534 --clear-groups)
good=(setpriv --reuid=12345 --regid=12345 --clear-groups)
small=(--no-huge -m 256 -l 0)

# ---- the one that was there before

# begin CASE: a primary with a bystander
begin() {
	local tries
	if ! primary 0 "${small[@]}"; then
		not_ok "hostile_$1__start" ""
		return 1
	fi
	daemon=$last
	start "$dir/bystander.log" "${good[@]}" "$hostile" bystander "$sock" 0
	bystander=$last
	wait_for 60 grep -sq open "$dir/bystander.log" || { not_ok "hostile_$1__start" "no bystander" "$dir/bystander.log"; return 1; }
	sleep 0.1
	before=$(descriptors)
}

# finish CASE: it has nothing left of those that ended, and ends when it is asked to
finish() {
	local code
	wait_for $bound has_descriptors "$before" && ok "hostile_$1__descriptors_come_back" ||
		not_ok "hostile_$1__descriptors_come_back" "$(descriptors), before $before"
	end "$bystander" KILL
	kill -TERM "$daemon" 2>/dev/null
	if wait_for $bound gone; then
		wait "$daemon" 2>/dev/null
		code=$?
		[ $code -eq 0 ] && ok "hostile_$1__primary_ends_well" || not_ok "hostile_$1__primary_ends_well" "exit code $code" "$dir/0.log"
	else
		end "$daemon" KILL
		not_ok "hostile_$1__primary_ends_well" "it does not end" "$dir/0.log"
	fi
	rm -f "$sock"
}

# shellcheck disable=SC2317
gone() { ! kill -0 "$daemon" 2>/dev/null; }
descriptors() { find "/proc/$daemon/fd" -mindepth 1 2>/dev/null | wc -l; }
# shellcheck disable=SC2317
has_descriptors() { [ "$(descriptors)" -le "$1" ]; }

rounds() { grep -c ^round "$dir/bystander.log"; }
# shellcheck disable=SC2317
more_rounds() { [ "$(rounds)" -gt "$1" ]; }

# goes_on NAME: a whole round of messages, begun now
goes_on() {
	local seen
	seen=$(rounds)
	kill -USR1 "$bystander" 2>/dev/null
	if wait_for $bound more_rounds "$seen"; then
		ok "hostile_$1__bystander_goes_on # $(tail -1 "$dir/bystander.log")"
	else
		not_ok "hostile_$1__bystander_goes_on" "not within $bound s" "$dir/bystander.log"
	fi
}

# opens NAME CONTEXT: a new client can, within the bound; it is given longer to say what it waited for
opens() {
	if timeout -k 1 $((2 * bound)) "${good[@]}" "$hostile" open "$sock" "$2" $bound >"$dir/open.log" 2>&1; then
		ok "hostile_$1 # $(tail -1 "$dir/open.log")"
	else
		not_ok "hostile_$1" "not within $bound s" "$dir/open.log"
	fi
}

# others NAME: who was there and who comes
others() {
	goes_on "$1"
	opens "$1__new_client_attaches" 65535
	kill -0 "$daemon" 2>/dev/null && ok "hostile_$1__primary_lives" || not_ok "hostile_$1__primary_lives" "" "$dir/0.log"
}

# deaths NAME: a client that is killed leaves a context that another can open
deaths() {
	local pid
	start "$dir/hold.log" "${good[@]}" "$hostile" hold "$sock" 9
	pid=$last
	if ! wait_for $bound grep -sq open "$dir/hold.log"; then
		not_ok "hostile_$1__a_death_is_noticed" "it cannot open" "$dir/hold.log"
		end "$pid" KILL
		return
	fi
	end "$pid" KILL
	opens "$1__a_death_is_noticed" 9
}

# turns: of the primary's loop, and how often it slept
turns() { "$build/app/pmx-ctl" --instance "${tag}0" stat --all | awk '{n[$1] = $2} END {print n["polls"], n["sleeps"]}'; }

# ticks: of the CPU that it took
ticks() { awk '{print $14 + $15}' "/proc/$daemon/stat" 2>/dev/null; }

# idles NAME PERCENT [ctl]: when nobody who is right wants anything the primary's threads leave the CPU, and its loop sleeps, which
# pmx-ctl says as long as the primary has descriptors
idles() {
	local polls=0 slept=0 polls_then=0 slept_then=1 used
	kill -STOP "$bystander" 2>/dev/null
	sleep 0.2
	[ -z "${3:-}" ] || read -r polls slept < <(turns)
	used=$(ticks)
	sleep 0.5
	used=$(($(ticks) - used))
	[ -z "${3:-}" ] || read -r polls_then slept_then < <(turns)
	kill -CONT "$bystander" 2>/dev/null
	polls=$((polls_then - polls)) slept=$((slept_then - slept))
	if [ $slept -gt 0 ] && [ $polls -lt 50000 ] && [ $((used * 2 * 100 / $(getconf CLK_TCK))) -lt "$2" ]; then
		ok "hostile_$1__primary_is_idle #${3:+ $polls polls, it slept $slept times,} $used ticks"
	else
		not_ok "hostile_$1__primary_is_idle" "$polls polls, it slept $slept times, $used ticks of $(getconf CLK_TCK) a second"
	fi
}

# attack NAME ARGUMENTS...: a hostile client that has done it; $attacker is its number. 1: not here
attack() {
	local name=$1
	shift
	start "$dir/attack.log" "${bad[@]}" "$hostile" "$@"
	attacker=$last
	attackers+=("$last")
	if ! wait_for 60 grep -sqE '^(done|skip|closed)|^hostile:' "$dir/attack.log" || grep -q ^hostile: "$dir/attack.log"; then
		not_ok "hostile_${name}__attacks" "it could not" "$dir/attack.log"
	elif grep -q ^skip "$dir/attack.log"; then
		echo "ok hostile_$name # SKIP $(sed -n 's/^skip:* *//p' "$dir/attack.log" | head -1)"
		end "$attacker" KILL
		return 1
	fi
	grep '^#' "$dir/attack.log"
	return 0
}

# ---- cases

# A lane must not block on what its client can fill.
case_wake() {
	attack wake wake "$sock" 2
	others wake
	end "$attacker" KILL
	opens wake__its_context_ends 2
}

# Descriptors outlive the context that they came with.
case_kept() {
	local how
	for how in take ring; do
		attack "kept_$how" keep "$sock" 2 $how
		others "kept_$how"
		if timeout -k 1 30 "${good[@]}" "$hostile" sleeper "$sock" 2 >"$dir/sleeper.log" 2>&1; then
			ok "hostile_kept_${how}__next_owner_is_woken # $(tail -1 "$dir/sleeper.log")"
		else
			not_ok "hostile_kept_${how}__next_owner_is_woken" "" "$dir/sleeper.log"
		fi
		idles "kept_$how" 15 ctl
		end "$attacker" KILL
	done
}

# Who closes what a client passed may wait as long as that client likes: a socket that lingers, a file of a file system that the client
# serves itself.
case_close() {
	local how
	for how in hello memory surplus queue nested flood unanswered; do
		attack "close_$how" close "$sock" $how || continue
		others "close_$how"
		deaths "close_$how"
		end "$attacker" KILL
	done
}

# refused NAME LINE RESULT
refused() {
	local result
	result=$(sed -n "s/^$2 \([-0-9]*\) after .*/\1/p" "$dir/large.log")
	[[ ${result:-0} == $3 ]] && ok "hostile_large__$1 # $result" || not_ok "hostile_large__$1" "result ${result:-none}" "$dir/large.log"
}

# To map, touch or clear what is too much takes seconds of a CPU: the primary must not.
case_large() {
	local mib=4096 available before_it took
	available=$(awk '/^MemAvailable/{print int($2 / 1024)}' /proc/meminfo)
	[ "$available" -ge 8192 ] || mib=1024
	[ "$available" -ge 3072 ] || { echo "ok hostile_large # SKIP needs 3 GiB of memory"; return; }
	start_fed "$dir/large.log" timeout -k 1 120 "${bad[@]}" "$hostile" large "$sock" 2 $mib
	attacker=$last
	wait_for 60 grep -qE '^(skip|ready|hostile:)' "$dir/large.log"
	if grep -q ^skip "$dir/large.log"; then
		echo "ok hostile_large # SKIP $(cat "$dir/large.log")"
		return
	fi
	kill -STOP "$bystander"
	before_it=$(ticks)
	echo >&"$to"
	wait_for 60 grep -qE '^(refused|hostile:)' "$dir/large.log"
	took=$(($(ticks) - before_it))
	kill -CONT "$bystander"
	echo >&"$to"
	wait "$attacker"
	refused channel_beyond_what_it_takes open -22
	refused memory_beyond_its_limit memory '-*'
	[ $took -lt 50 ] && ok "hostile_large__refused_untouched # $took ticks of the primary" ||
		not_ok hostile_large__refused_untouched "$took ticks of the primary" "$dir/large.log"
	grep -q '^little -[0-9]* after 4$' "$dir/large.log" && ok hostile_large__memory_within_its_limit ||
		not_ok hostile_large__memory_within_its_limit "4 MiB is allowed" "$dir/large.log"
	others large
}

case_descriptors() {
	attack descriptors hungry "$sock"
	goes_on descriptors
	idles descriptors 50
	kill -0 "$daemon" 2>/dev/null && ok hostile_descriptors__primary_lives || not_ok hostile_descriptors__primary_lives "" "$dir/0.log"
	end "$attacker" KILL
	others descriptors_later
	deaths descriptors_later
}

case_connections() {
	attack connections many "$sock" 400
	others connections
	deaths connections
	end "$attacker" KILL
	others connections_later
}

case_before() {
	timeout -k 1 20 "${bad[@]}" "$hostile" before "$sock" >"$dir/before.log" 2>&1
	grep -q '^before -13, addresses 0, lcore 0' "$dir/before.log" && ok hostile_before__is_not_for_everybody ||
		not_ok hostile_before__is_not_for_everybody "" "$dir/before.log"
	timeout -k 1 20 "$hostile" before "$sock" >"$dir/before.log" 2>&1
	# who is root is told that no other process can map this primary's memory: it runs without hugepages
	grep -q '^before -19, ' "$dir/before.log" && ok hostile_before__is_for_root || not_ok hostile_before__is_for_root "" "$dir/before.log"
	others before
}

# One user cannot have all contexts: another one can always open some.
case_shares() {
	local good=(setpriv --reuid=12346 --regid=12346 --clear-groups)
	attack shares take_all "$sock"
	grep -q '^took [1-9][0-9]*, then -122$' "$dir/attack.log" && ok "hostile_shares__some_are_left # $(grep took "$dir/attack.log")" ||
		not_ok hostile_shares__some_are_left "" "$dir/attack.log"
	others shares
	end "$attacker" KILL
	others shares_later
}

# A process's number is another user's when it has ended, who must not be stopped in its place.
case_reuse() {
	timeout -k 1 30 "$hostile" reuse "$sock" >"$dir/reuse.log" 2>&1
	if grep -q '^skip' "$dir/reuse.log"; then
		echo "ok hostile_reuse # SKIP $(sed -n 's/^skip *//p' "$dir/reuse.log")"
	elif grep -q '^reused: open -3, stop [-0-9]*, state S$' "$dir/reuse.log"; then
		ok "hostile_reuse__nobody_else_is_stopped # $(cat "$dir/reuse.log")"
	else
		not_ok hostile_reuse__nobody_else_is_stopped "" "$dir/reuse.log"
	fi
	others reuse
}

# Another primary must map what the one before has mapped, whatever its owner has made of it meanwhile.
case_takeover() {
	local how number old pid ours
	for how in seal+seal_shared hole+hole_shared+all; do
		ours=()
		number=2
		for pid in ${how//+/ }; do
			attack takeover hole "$sock" $number "$pid"
			ours+=("$attacker")
			number=$((number + 1))
		done
		old=$daemon
		OPTIONS=(--take-over)
		if primary 0 "${small[@]}"; then
			ok "hostile_takeover__${how}__is_taken_over"
			daemon=$last
		else
			not_ok "hostile_takeover__${how}__is_taken_over" ""
		fi
		OPTIONS=()
		[ "$old" = "$daemon" ] || wait_for 60 sh -c "! kill -0 $old 2>/dev/null" || not_ok "hostile_takeover__${how}__the_old_one_ends" ""
		others "takeover__$how"
		for pid in "${ours[@]}"; do
			end "$pid" KILL
		done
		opens "takeover__${how}__their_contexts_end" 2
	done
	before=$(descriptors) # of another process
}

# What a dead one sent to a context that reads nothing is nobody's any more.
case_unread() {
	local reader
	start "$dir/hold.log" "${bad[@]}" "$hostile" hold "$sock" 3
	reader=$last
	wait_for $bound grep -sq open "$dir/hold.log" || not_ok hostile_unread__start "" "$dir/hold.log"
	start "$dir/flood.log" "${bad[@]}" "$hostile" flood "$sock" 2 3
	wait_for 60 grep -sq full "$dir/flood.log" || not_ok hostile_unread__flood "" "$dir/flood.log"
	grep '^#' "$dir/flood.log"
	end "$last" KILL
	opens unread__the_senders_number_is_free 2
	others unread
	end "$reader" KILL
	opens unread__the_readers_number_is_free 3
}

for name in $cases; do
	PREFIX=()
	# the primary's alone: nothing of it passes the limit
	[ "$name" != descriptors ] || PREFIX=(bash -c 'ulimit -n 256; exec "$@"' -)
	begin "$name" || continue
	"case_$name"
	finish "$name"
done
exit $failed
