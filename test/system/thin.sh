#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: thin.sh BUILD_DIR [ROUNDS]
# Thin clients, linked with the library that has no DPDK, as an ordinary user in user, mount and PID namespaces of their own:
# every kind of verb, their round trip beside a secondary's, who may attach, and one that tries to reach what is another's.
set -u
. "$(dirname "$0")/common.bash"

rounds=${2:-2000}
need_hugepages thin 192
nobody=65534
thin=$build/test/thin

# a directory that the ordinary user may enter: nothing of the host's runtime is in it
chmod 755 "$dir"
mkdir "$dir/door"
chmod 755 "$dir/door"
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
[access]
socket = $dir/door/pmx.sock
mode = 0660
group = $nobody
[contexts 8-9]
uid = 12345
[contexts 10-11]
gid = 23456
send_buffers = 8
receive_buffers = 16
shared_bytes = 1048576
[contexts 12-13]
send_buffers = 4
[nodes]
0 = auto
END
primary 0 -l 0 -m 128 || { not_ok thin_start ""; exit 1; }
daemon=$last
sock=$dir/door/pmx.sock

# an ordinary user in fresh user, mount and PID namespaces; another one
user=(timeout -k 5 60 setpriv --reuid=$nobody --regid=$nobody --clear-groups unshare --user --mount --pid --fork --kill-child)
other=(timeout -k 5 60 setpriv --reuid=12345 --regid=12345 --clear-groups)
# one of a group, which is not his first; and one whom two ranges name
member=(timeout -k 5 60 setpriv --reuid=34567 --regid=34567 --groups=23456)
both=(timeout -k 5 60 setpriv --reuid=12345 --regid=23456 --clear-groups)

if ! "${user[@]}" true 2>"$dir/unshare"; then
	not_ok thin_namespaces "an ordinary user cannot make namespaces here: $(cat "$dir/unshare")"
	exit 1
fi

says() { # NAME TEXT COMMAND...: it prints TEXT
	local name=$1 text=$2
	shift 2
	"$@" >"$dir/said" 2>&1
	if grep -q -- "$text" "$dir/said"; then
		ok "$name"
	else
		not_ok "$name" "did not say '$text':" "$dir/said"
	fi
}

serve() { # CONTEXT
	start "$dir/serve.log" "${user[@]}" "$thin" serve "$sock" "$1"
	server=$last
	wait_for 60 grep -q serving "$dir/serve.log" || not_ok thin_serves "" "$dir/serve.log"
}

# ---- what it needs
ldd "$thin" | grep -q librte && not_ok thin__no_dpdk "linked with DPDK" || ok thin__no_dpdk
serve 1
says thin__all_verbs "all verbs work" "${user[@]}" "$thin" verbs "$sock" 2 0:1
wait "$server" && ok thin__other_side_ends || not_ok thin__other_side_ends "" "$dir/serve.log"
"${user[@]}" "$thin" maps "$sock" 2 >"$dir/maps" 2>&1
if grep -q '^shared' "$dir/maps" && ! grep '^shared' "$dir/maps" | grep -qv 'memfd:pmx'; then
	ok thin__maps_its_own_memory_only
else
	not_ok thin__maps_its_own_memory_only "" "$dir/maps"
fi

# ---- who may attach
says access__other_user_may_not "you may not" "${other[@]}" "$thin" open "$sock" 2
chmod 666 "$sock"
says access__range_of_a_user opened "${other[@]}" "$thin" open "$sock" 8
says access__range_of_another_user "you may not" "${user[@]}" "$thin" open "$sock" 8
says access__range_of_a_group opened "${member[@]}" "$thin" open "$sock" 10
says access__range_of_another_group "you may not" "${other[@]}" "$thin" open "$sock" 10
says access__quota_of_shared_memory "pmx_alloc" "${member[@]}" "$thin" verbs "$sock" 10 0:1
# whom a range names has no other context, whether another is named for it or nobody
for ctx in 0 1 12 15; do
	says "access__named_user_has_no_context_$ctx" "you may not" "${other[@]}" "$thin" open "$sock" $ctx
	says "access__named_group_has_no_context_$ctx" "you may not" "${member[@]}" "$thin" open "$sock" $ctx
done
says access__named_by_two_ranges_has_the_first opened "${both[@]}" "$thin" open "$sock" 8
says access__named_by_two_ranges_has_the_second opened "${both[@]}" "$thin" open "$sock" 11
says access__range_of_nobody opened "${user[@]}" "$thin" open "$sock" 12
says access__root_has_all "opened 8" timeout 60 "$thin" open "$sock" 8
says access__any_of_a_named_user "opened 9" "${other[@]}" "$thin" open "$sock" 65535 65535
says access__any_of_a_group "opened 10" "${member[@]}" "$thin" open "$sock" 65535
says access__any_of_others "opened 0" "${user[@]}" "$thin" open "$sock" 65535
says access__any_when_all_of_a_range_are_open "in use" "${other[@]}" "$thin" open "$sock" 65535 65535 65535
# a secondary is of the primary's own user, and not bound
PMX_ATTACH=secondary says access__secondary_has_all "opened 8" timeout 60 "$thin" open "${tag}0" 8
says access__no_such_socket "no pmx-dpdk primary" "${user[@]}" "$thin" open "$dir/door/nobody.sock" 1
echo "[node]
id = 1
name = x
[access]
mode = 0888
owner = nobody-of-that-name" >"$dir/bad.ini"
says access__bad_mode "octal" "$build/app/pmx-dpdk" --check "$dir/bad.ini"
# who may not ask a primary is told so, and not that it does not run
cp "$build/app/pmx-ctl" "$dir/door/ctl"
says ctl__names_who_may_ask "only he and root may ask\|as root or as the user of the primary" "${other[@]}" "$dir/door/ctl" --instance "${tag}0" stat

serve 1

# ---- which process has a context: told of one's own user's, and to root
server_pid=$(pgrep -f "$thin serve $sock 1\$" | tail -n 1)
says process__of_the_same_user "^other $server_pid$" "${user[@]}" "$thin" process "$sock" 2 1
says process__of_another_user "^other -13$" "${other[@]}" "$thin" process "$sock" 8 1
says process__to_root "^other $server_pid$" timeout 60 "$thin" process "$sock" 8 1
says process__not_open "^other -2$" "${user[@]}" "$thin" process "$sock" 2 3
says process__no_such_context "^other -2$" "${user[@]}" "$thin" process "$sock" 2 1000
PMX_ATTACH=secondary says process__of_a_secondary "^own -95$" timeout 60 "$thin" process "${tag}0" 8 1

# ---- one that tries
"$build/test/spy" "$sock" 3 1 || failed=1
says thin__victim_as_before "all verbs work" "${user[@]}" "$thin" verbs "$sock" 2 0:1
wait "$server" || not_ok thin__victim_ends "" "$dir/serve.log"
kill -0 "$daemon" 2>/dev/null && ok thin__primary_lives || not_ok thin__primary_lives "" "$dir/0.log"
# it closed what clients gave, and nothing of its own
[ "$(readlink "/proc/$daemon/fd/1")" = "$dir/0.log" ] && ok thin__primary_keeps_its_output ||
	not_ok thin__primary_keeps_its_output "" "$dir/0.log"

# ---- round trip, the same program both ways. The primary has CPU 0, both applications share the next: who shares with whom would
# otherwise be by chance, and a factor of two. What else runs comes and goes: what is compared was measured before it and behind it,
# and what a thin client costs comes in each of six turns. test/bench/thin.sh prints the figures.
if full && [[ $build != *asan* ]]; then # it compares times, though of the same seconds
	measure() { # WAY: ns
		local run=(taskset -c 1 "${user[@]}") where=$sock
		[ "$1" = thin ] || { run=(taskset -c 1 timeout -k 5 60) where=${tag}0; }
		PMX_ATTACH=$1 start "$dir/serve.log" "${run[@]}" "$thin" serve "$where" 4
		server=$last
		wait_for 60 grep -q serving "$dir/serve.log" || return 1
		PMX_ATTACH=$1 "${run[@]}" "$thin" ping "$where" 5 0:4 64 "$rounds"
		wait "$server"
	}
	verdict=bad before=$(measure secondary)
	for turn in {1..6}; do
		between=$(measure thin) after=$(measure secondary)
		echo "# round trips of a secondary, a thin client and a secondary, ns: $before, $between, $after"
		verdict=$(echo "$before $between $after" | awk 'NF == 3 {m = $2 / ($1 > $3 ? $1 : $3); print (m <= 1.25 ? "ok" : "bad"), m}')
		[ "${verdict%% *}" != ok ] || break
		before=$after
	done
	if [ "${verdict%% *}" = ok ]; then
		ok "thin__round_trip # ${verdict#* } of a secondary's, in turn $turn"
	else
		not_ok "thin__round_trip" "${verdict#* } of a secondary's"
	fi
fi
exit $failed
