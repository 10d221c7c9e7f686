#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: secondaries.sh BUILD_DIR
# Secondaries done right: an lcore number of their own each; versions, and addresses that they cannot have, are found before their EAL
# begins; their end touches no port, and leaves nothing on the shared heap.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages secondaries 192
program=$build/test/secondaries
cat >"$dir/0.ini" <<END
[node]
id = 0
name = ${tag}0
[link 0]
driver = loop
port = $tag
[nodes]
0 = auto
END
primary 0 -l 0 -m 128 || { not_ok secondaries_start ""; exit 1; }
daemon=$last

# ---- lcores
for k in 1 2 3; do
	PMX_ATTACH=secondary start "$dir/lcore$k" "$program" lcore "${tag}0"
	held[k]=$last
	wait_for 60 grep -q lcore "$dir/lcore$k" || not_ok secondaries__attach "" "$dir/lcore$k"
done
numbers=$(sed -n 's/^lcore //p' "$dir"/lcore?)
if [ "$(sort -u <<<"$numbers" | wc -l)" -eq 3 ] && ! grep -qx 0 <<<"$numbers"; then
	ok "secondaries__have_lcores_of_their_own # $(tr '\n' ' ' <<<"$numbers")"
else
	not_ok secondaries__have_lcores_of_their_own "$numbers"
fi
for k in 1 2 3; do
	end "${held[k]}" KILL
done

# ---- what cannot go well is said before
says() { # NAME TEXT COMMAND...
	local name=$1 text=$2
	shift 2
	timeout 30 "$@" >"$dir/said" 2>&1 </dev/null
	grep -q -- "$text" "$dir/said" && ok "$name" || not_ok "$name" "did not say '$text'" "$dir/said"
}
PMX_ATTACH=secondary says secondaries__addresses_in_use "base-virtaddr" "$program" occupied "${tag}0"
says secondaries__addresses_in_use_attach_thin "^0 success" "$program" occupied "${tag}0"
mkdir -p "$RUNTIME_DIRECTORY/dpdk/pretender"
: >"$RUNTIME_DIRECTORY/dpdk/pretender/config"
ln -s "$dir/pretender.sock" "$RUNTIME_DIRECTORY/dpdk/pretender/pmx_attach"
start "$dir/pretender.log" "$program" pretend "$dir/pretender.sock"
wait_for 60 test -S "$dir/pretender.sock"
PMX_ATTACH=secondary says secondaries__another_dpdk "another version" "$program" other pretender
PMX_ATTACH=secondary says secondaries__nobody_listens "no pmx-dpdk primary" "$program" other pretender

# ---- EALs start one after the other: who holds the turn is waited for
start_fed "$dir/turn.log" flock "$RUNTIME_DIRECTORY/dpdk/${tag}0/config" sh -c 'echo mine; read -r word; echo over'
turn=$last
wait_for 60 grep -q mine "$dir/turn.log"
PMX_ATTACH=secondary start "$dir/said" "$program" other "${tag}0"
waiting=$last
asks_for_the_turn() { find "/proc/$waiting/fd" -lname '*/config' 2>/dev/null | grep -q .; }
wait_for 60 asks_for_the_turn
sleep 0.3
[ ! -s "$dir/said" ]
early=$?
echo >&"$to"
if [ $early -eq 0 ] && wait "$waiting" && grep -q "^0 success" "$dir/said" && grep -q over "$dir/turn.log"; then
	ok secondaries__take_turns
else
	not_ok secondaries__take_turns "" "$dir/said"
fi
wait "$turn" 2>/dev/null

# ---- signals that an application handles do not disturb it, also where the EAL waits
start "$dir/flock.log" sh -c 'for k in $(seq 150); do flock /dev/hugepages sleep 0.02; done'
PMX_ATTACH=secondary says secondaries__interrupted "^8 times" sh -c 'for k in 1 2 3 4 5 6 7 8; do "$0" "$@" || exit 1; done; echo 8 times' \
	"$program" interrupted "${tag}0"
end "$last" TERM

# ---- they come and go
held() { awk '/^HugetlbPages/{print $2}' "/proc/$daemon/status"; }
ups() { timeout 10 "$build/app/pmx-ctl" --instance "${tag}0" --json stat | tr -d ' ' | grep -o '"link_up":1'; }
before=$(held)
full && times=30 || times=12
for k in $(seq 1 $times); do
	PMX_ATTACH=secondary timeout 30 "$program" once "${tag}0" >"$dir/once" 2>&1 </dev/null || not_ok secondaries__again "time $k" "$dir/once"
done
after=$(held)
if [ "$before" = "$after" ]; then
	ok "secondaries__leave_nothing_on_the_heap # $times of them, $after kB"
else
	not_ok secondaries__leave_nothing_on_the_heap "$before kB before, $after kB after"
fi

# ---- one that is killed as its EAL begins holds DPDK's lock of memory: the primary gives it back, also as it ends
dies() { PMX_ATTACH=secondary timeout 30 "$program" dies "${tag}0" >"$dir/dies" 2>&1 </dev/null; [ $? -eq 137 ] || not_ok secondaries__dies "" "$dir/dies"; }
dies
dies
PMX_ATTACH=secondary says secondaries__lock_of_the_dead "^locked" "$program" locks "${tag}0"

kill -0 "$daemon" 2>/dev/null && [ -n "$(ups)" ] && ok secondaries__the_port_is_as_it_was || not_ok secondaries__the_port_is_as_it_was "" "$dir/0.log"
dies
kill -TERM "$daemon"
wait_for 60 gone "$daemon" && wait "$daemon" && ok secondaries__the_dead_do_not_hold_its_end || not_ok secondaries__the_dead_do_not_hold_its_end "" "$dir/0.log"
exit $failed
