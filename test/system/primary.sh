#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: primary.sh BUILD_DIR
# The primary's start and end: what --check says of a configuration is what the start says, and code 2 is for what would never
# start; EAL arguments however they are written; signals; names, by which an instance removes its own files and no other's.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages primary 192
in_own_place "$@"
top=$(cd "$(dirname "$0")/../.." && pwd)
dpdk=$build/app/pmx-dpdk
thin=$build/test/thin
huge=/dev/hugepages

trap 'umount "$dir/huge" 2>/dev/null; clean' EXIT

config() { # NAME [SED-SCRIPT]: $dir/NAME.ini
	sed -e "${2:-}" >"$dir/$1.ini" <<-END
		[node]
		id = 0
		name = $tag$1
		[engine]
		lanes = 1
		[link 0]
		driver = udp
		listen = 127.0.0.1:$port
		[limits]
		mbufs = 4096
		contexts = 4
		[nodes]
		0 = 127.0.0.1:$port
		1 = 127.0.0.1:$((port + 1))
	END
}

left_of() { # NAME: files that a primary should have removed
	find "$huge" "$dir/huge" -maxdepth 1 -name "$tag$1*" 2>/dev/null
	ls -d "$RUNTIME_DIRECTORY/dpdk/$tag$1" "/run/pmx-dpdk/$tag$1.pid" "/run/pmx-dpdk/$tag$1.sock" 2>/dev/null
}

# ------------------------------------------------------------------ what cannot start
LIMITED=()
# refused NAME PATTERN SED-SCRIPT [EAL arguments]: code 2 and the same sentence from --check and from the start
refused() {
	local name=$1 pattern=$2 check start code
	config bad "$3"
	shift 3
	local run=(timeout -k 5 120 "${LIMITED[@]}" "$dpdk")
	[ $# -gt 0 ] || set -- --no-huge -m 64 -l 0
	check=$("${run[@]}" --no-pci "$@" -- --check "$dir/bad.ini" 2>&1)
	code=$?
	start=$("${run[@]}" --no-pci "$@" -- "$dir/bad.ini" 2>&1)
	code="$code $?"
	if [ "$code" = "2 2" ] && [ "$check" = "$start" ] && grep -qE -- "$pattern" <<<"$check"; then
		ok "refused__$name"
	else
		not_ok "refused__$name" "codes $code, not 2 2, '$check', '$start'"
	fi
}

refused no_link '\[link 0\] is missing' '/^\[link/,/^listen/d'
refused link_without_the_first 'without \[link 0\]' 's/link 0/link 1/'
refused udp_without_listen 'udp: listen ""' '/^listen/d'
refused udp_listens_at_nonsense 'udp: listen "over there"' 's/^listen.*/listen = over there/'
refused udp_port_too_large 'udp: listen "127.0.0.1:70000"' 's/^listen.*/listen = 127.0.0.1:70000/'
refused ethdev_without_port 'ethdev: port is not set' 's/^driver.*/driver = ethdev/; /^listen/d; s/127.0.0.1:.*/auto/'
refused loop_without_port 'loop: port is not set' 's/^driver.*/driver = loop/; /^listen/d; s/127.0.0.1:.*/auto/'
refused fault_of_nonsense 'fault: unknown key' 's/^listen.*/&\nfault = lots/'
refused two_links_one_port 'same port as \[link 0\]' "s/^listen.*/&\n[link 1]\ndriver = udp\nlisten = 127.0.0.1:$port/"
refused mac_for_udp '\[nodes\] 1: .*driver = udp: give its IP' 's/^1 = .*/1 = 02:00:00:00:00:01/'
refused auto_for_udp '\[nodes\] 1: .*driver = udp: give its IP' 's/^1 = .*/1 = auto/'
refused encap_udp_without_own_address '\[link 0\] ip: .*own address' 's/^driver.*/driver = ethdev\nport = net_null0\nencap = udp/; /^listen/d'
refused too_few_mbufs '2000 is too few' 's/^mbufs.*/mbufs = 2000/'
refused channels_of_65_gib 'needs [0-9]+ MiB of hugepages: .* for the channels of limits.contexts = 1024' \
	's/^contexts.*/contexts = 1024\nlhs_entries = 1048576/' -l 0
refused memory_of_no_huge 'needs [0-9]+ MiB of memory: .* there are 64' 's/^mbufs.*/mbufs = 65536/'
refused memory_of_no_huge_and_m 'needs [0-9]+ MiB of memory: .* there are 16' '' --no-huge -m16 -l0
refused flows 'for the protocol' 's/^contexts.*/&\nflows = 1048576/'
refused memory_asked_for 'ask for 500000 MiB' '' -m 500000
refused memory_that_is_no_number "-m 'lots'" '' -m lots
refused socket_limit 'there are 8' '' --socket-limit=8
refused huge_dir 'no hugepages are mounted there' '' --huge-dir=/tmp
refused lanes_without_lcores 'engine.lanes = 2, but the EAL has 1 lcores' 's/^lanes.*/lanes = 2/; s/^mbufs.*/mbufs = 8192/'
refused lanes_and_a_mask 'engine.lanes = 2, but the EAL has 1 lcores' 's/^lanes.*/lanes = 2/; s/^mbufs.*/mbufs = 8192/' --no-huge -m 64 -c1
refused cpu_that_is_not_there 'no CPU 127' '' --no-huge -m 64 -l127
refused lcore_that_cannot_be 'lcores are 0 to' '' --no-huge -m 64 -l999
LIMITED=(bash -c 'ulimit -n 100; exec "$@"' -)
refused descriptors 'takes? [0-9]+ descriptors, but this process may have 100' 's/^contexts.*/contexts = 64/'
LIMITED=()
refused lcores_of_nonsense 'neither a list' '' --no-huge -m 64 --lcores=first
refused other_file_prefix "--file-prefix other: .*node.name" '' --no-huge -m 64 --file-prefix other
refused socket_is_no_path "begins with /" 's/^\[nodes\]/[access]\nsocket = x.sock\n&/'
refused name_with_a_star "'vic\*' is no name: 1 to 31" 's/^name.*/name = vic*/'
refused name_with_a_path "'../x' is no name" 's/^name.*/name = ..\/x/'
# what only the start can see, for good and for now
config bad 's/^driver.*/driver = ethdev\nport = net_nothing0/; /^listen/d; s/127.0.0.1:.*/auto/'
timeout 120 "$dpdk" --no-pci --no-huge -m 64 -l 0 -- "$dir/bad.ini" >"$dir/out" 2>&1
[ $? -eq 2 ] && ok port_that_is_not_there__code_2 || not_ok port_that_is_not_there__code_2 "" "$dir/out"
timeout 120 "$dpdk" --no-such-argument -- "$dir/bad.ini" >"$dir/out" 2>&1
[ $? -eq 2 ] && ok eal_argument_that_there_is_not__code_2 || not_ok eal_argument_that_there_is_not__code_2 "" "$dir/out"
config bad 's/^listen.*/listen = 192.0.2.1:99/'
timeout 120 "$dpdk" --no-pci --no-huge -m 64 -l 0 -- "$dir/bad.ini" >"$dir/out" 2>&1
[ $? -eq 1 ] && ok address_that_may_come__code_1 || not_ok address_that_may_come__code_1 "" "$dir/out"
# systemd goes by the code of the main process: one of ExecStartPre= does not keep it from trying again
if grep -q '^RestartPreventExitStatus=2' "$top/dpdk-config/pmx-dpdk.service.in" && ! grep -q '^ExecStartPre' "$top/dpdk-config/pmx-dpdk.service.in"; then
	ok unit__does_not_try_again
else
	not_ok unit__does_not_try_again ""
fi

# ------------------------------------------------------------------ what passes starts
# starts NAME FILE EAL-ARGUMENTS: --check says ok, and it starts and ends well and leaves nothing
starts() {
	local name=$1
	cp "$2" "$dir/good.ini"
	shift 2
	"$dpdk" --no-pci "$@" -- --check "$dir/good.ini" >"$dir/out" 2>&1 || { not_ok "starts__$name" "--check" "$dir/out"; return; }
	primary good "$@" || { not_ok "starts__$name" ""; return; }
	kill -TERM "$last"
	wait "$last" || { not_ok "starts__$name" "ended with code $?" "$dir/good.log"; return; }
	[ -z "$(left_of good)" ] && ok "starts__$name" || not_ok "starts__$name" "left: $(left_of good | tr '\n' ' ')"
}

# the documents' and examples' configurations, at a port and addresses that are here
mkdir "$dir/docs"
python3 - "$top" "$dir/docs" <<-'END'
	import glob, os, re, sys
	top, out = sys.argv[1:]
	for page in [top + '/README.md'] + sorted(glob.glob(top + '/doc/**/*.md', recursive=True)):
	    for name, body in re.findall(r'<!-- file: ([\w.-]+) -->\n+```\w*\n(.*?)```', open(page).read(), re.S):
	        if '[node]' in body: # others are topologies
	            open(out + '/' + os.path.basename(page) + '-' + name, 'w').write(body)
	for file in glob.glob(top + '/dpdk-config/examples/*.ini'):
	    open(out + '/example-' + os.path.basename(file), 'w').write(open(file).read())
END
for file in "$dir"/docs/*; do
	sed -i -E "s/^(\[node\])/\1\nname = ${tag}good/; /^name = [a-z]+[0-9] *(#.*)?$/d; s/^port = .*/port = net_null0/
		s/^listen = .*/listen = 127.0.0.1:$port/; s/^lanes = .*/lanes = 1/" "$file"
	starts "$(basename "$file" .ini)" "$file" -l 0 --vdev=net_null0
done

# ------------------------------------------------------------------ EAL arguments, joined and apart
mkdir "$dir/huge" && mount -t hugetlbfs -o pagesize=2M none "$dir/huge" || not_ok mount "no hugetlbfs at $dir/huge"
config one
config two 's/^lanes.*/lanes = 2/; s/^name.*/name = '"$tag"'good/; s/^mbufs.*/mbufs = 8192/'
sed -i "s/^name.*/name = ${tag}good/" "$dir/one.ini"
starts joined_lcore "$dir/one.ini" -l0 -m64
starts apart_lcores "$dir/two.ini" -l 0,1 -m 64
starts joined_range "$dir/two.ini" -l0-1 -m64
starts joined_mask "$dir/two.ini" -c3 -m64
starts lcores_at_cpus "$dir/two.ini" '--lcores=(0,1)@0' -m 64
starts joined_huge_dir "$dir/one.ini" -l 0 -m 64 "--huge-dir=$dir/huge"
starts apart_huge_dir "$dir/one.ini" -l 0 -m 64 --huge-dir "$dir/huge"
starts abbreviated "$dir/one.ini" --lco=0 -m 64 --huge-d "$dir/huge"
starts its_own_file_prefix "$dir/one.ini" -l 0 -m 64 --file-prefix "${tag}good"
starts named_twice_and_no_lcores "$dir/two.ini" -m 64

# ------------------------------------------------------------------ signals
for signal in INT TERM HUP QUIT; do
	config s
	primary s -l 0 -m 64 || not_ok "signal__$signal" ""
	kill -$signal "$last"
	wait "$last"
	code=$?
	[ $code -eq 0 ] && [ -z "$(left_of s)" ] && ok "signal__$signal" || not_ok "signal__$signal" "code $code, left: $(left_of s | tr '\n' ' ')"
done
# in the middle of the start
config s
start "$dir/s.log" "$dpdk" --no-pci -l 0 -m 64 -- "$dir/s.ini"
wait_for 60 sh -c "ls $huge/${tag}smap_0 >/dev/null 2>&1"
kill -HUP "$last"
wait "$last"
code=$?
[ $code -eq 0 ] && [ -z "$(left_of s)" ] && ok signal__while_it_starts || not_ok signal__while_it_starts "code $code, left: $(left_of s)" "$dir/s.log"
PREFIX=(bash -c 'trap "" HUP; exec "$@"' -)
primary s -l 0 -m 64 || not_ok signal__nohup ""
PREFIX=()
kill -HUP "$last"
sleep 0.3
kill -0 "$last" && ok signal__nohup || not_ok signal__nohup "it ended"
end "$last"

# ------------------------------------------------------------------ names
# what is there of others: of a live primary, and files of names that patterns would take for those of ${tag}vic
config victim
primary victim -l 0 -m 64 || { not_ok names ""; exit 1; }
victim=$last
locks=()
for file in vicmap_1map_0 vicmap_1x vic2map_7; do
	exec {fd}>"$huge/$tag$file"
	flock -s "$fd" # every EAL that starts removes what nobody holds
	locks+=("$fd")
done
others() {
	find "$huge" "$RUNTIME_DIRECTORY/dpdk/${tag}victim" /run/pmx-dpdk /run -maxdepth 1 -name "*${tag}vic*" -o -path "$RUNTIME_DIRECTORY/*" | sort
}
others >"$dir/before"
untouched() { # NAME
	others >"$dir/after"
	if cmp -s "$dir/before" "$dir/after" && kill -0 $victim; then
		ok "names__$1"
	else
		not_ok "names__$1" "other files: $(diff "$dir/before" "$dir/after" | tr '\n' ' ')"
	fi
}
[ "$(wc -l <"$dir/before")" -gt 40 ] && ok names__there_is_something_to_lose || not_ok names__there_is_something_to_lose "" "$dir/before"
for pattern in 'vic*' 'vic?im' 'v[i]ctim' '*'; do # behind the tag: whose defect this is, it reaches this test's files only
	config star "s/^name.*/name = $tag$pattern/"
	timeout 120 "$dpdk" --no-pci -l 0 -m 64 -- "$dir/star.ini" >"$dir/out" 2>&1
	[ $? -eq 2 ] || not_ok "names__pattern" "'$pattern' was not refused" "$dir/out"
done
untouched of_no_pattern
config vic "s/^listen.*/listen = 127.0.0.1:0/"
primary vic -l 0 -m 64 || not_ok names__prefix_of_another ""
end "$last"
untouched prefix_of_another
primary vic -l 0 -m 64 || not_ok names__killed ""
end "$last" KILL
primary vic -l 0 -m 64 || not_ok names__after_a_kill "" # it removes what the killed one left
end "$last" KILL
"$build/app/pmx-ctl" --json doctor >"$dir/doctor"
python3 - "$dir/doctor" "${tag}vic" >"$dir/mend" <<-'END'
	import json, sys
	for line in json.load(open(sys.argv[1])):
	    if sys.argv[2] in line['found'] and line['check'].startswith('leftover') and 'map_1' not in line['found'] and 'vic2' not in line['found']:
	        print(line['mend'])
END
[ "$(wc -l <"$dir/mend")" -eq 3 ] && ok doctor__names_directory_pages_and_socket || not_ok doctor__names_all "" "$dir/mend"
sh -e "$dir/mend" >"$dir/out" 2>&1 || not_ok doctor__commands_work "" "$dir/out"
# the process number is for the next primary to remove, whatever its name is
[ -e "/run/pmx-dpdk/${tag}vic.pid" ] || not_ok names__killed "no process number is left to be removed"
config next "s/^listen.*/listen = 127.0.0.1:0/"
primary next -l 0 -m 64 || not_ok names__next ""
end "$last"
untouched doctors_commands
PMX_ATTACH=secondary timeout 120 "$thin" open "${tag}victim" 1 >"$dir/out" 2>&1 || not_ok names__secondary "" "$dir/out"
untouched a_secondary_that_came_and_went
for name in '' 'a*' '..' "${tag}vict?m" "${tag}victim+"; do
	for way in thin secondary; do
		PMX_ATTACH=$way timeout 120 "$thin" open "$name" 1 2>&1 | grep -q 'out of range' || not_ok names__attach "$way to '$name'"
	done
done
PMX_ATTACH=secondary timeout 120 "$thin" open "x/../${tag}victim" 1 2>&1 | grep -q 'out of range' && ok names__attach || not_ok names__attach "by a path"
rm -f "$huge/${tag}vicmap_1map_0" "$huge/${tag}vicmap_1x" "$huge/${tag}vic2map_7"
end $victim

# ------------------------------------------------------------------ what it says while it runs
said() { # NAME PATTERN: node 0 says it, once the peers were looked at
	wait_for 60 grep -qE -- "$2" "$dir/node0.log" && ok "says__$1" || not_ok "says__$1" "no line '$2'" "$dir/node0.log"
}
node() { # NUMBER LCORE [EAL arguments]
	local number=$1 lcore=$2
	shift 2
	config "node$number" "s/^id.*/id = $number/; s/^listen.*/listen = 127.0.0.1:$((port + number))\n[proto]\nkeepalive_ms = 100/"
	primary "node$number" -l "$lcore" -m 64 "$@"
}
talk() { # a ping from node 0 to node 1
	PMX_ATTACH=thin start "$dir/serve.log" "$thin" serve "${tag}node1" 1
	wait_for 60 grep -q serving "$dir/serve.log"
	PMX_ATTACH=thin timeout 120 "$thin" ping "${tag}node0" 2 1:1 64 10 >"$dir/ping.log" 2>&1
}
node 0 0 && node 1 1 || not_ok says ""
second=$last
talk && ok says__two_nodes_talk || not_ok says__two_nodes_talk "" "$dir/ping.log"
said link_up '^pmx.link: link 0 \(udp 127.0.0.1:[0-9]+\) is up$'
said peer_up '^pmx.peer: node 1 is up$'
said context_opened "^pmx.context: context 2 opened by process [0-9]+ of user 0, thin$"
said context_closed "^pmx.context: context 2 closed by process [0-9]+ of user 0$"
PMX_ATTACH=thin start "$dir/dies.log" setpriv --reuid=0 "$thin" serve "${tag}node0" 3
wait_for 60 grep -q serving "$dir/dies.log"
end "$last" KILL
said context_died "^pmx.context: context 3 died with process $last of user 0, which did not close it$"
end "$second" KILL
said peer_down '^pmx.peer: node 1 is down'
node 1 1 && talk || not_ok says__two_nodes_talk_again "" "$dir/ping.log"
said peer_restarted '^pmx.peer: node 1 is up, restarted$'
# no flood: some lines at once and then one now and then, and how many there were besides
before=$(wc -l <"$dir/node0.log") began=$SECONDS
timeout 60 "$thin" often "${tag}node0" 2 500 >"$dir/often.log" 2>&1 || not_ok says__often "exit code $?" "$dir/often.log"
said what_was_left_out '^pmx.context: [0-9]+ lines were left out$'
lines=$(($(wc -l <"$dir/node0.log") - before)) most=$((70 + 5 * (SECONDS - began + 1)))
[ $lines -lt $most ] && ok "says__no_flood # $lines lines of 1000" || not_ok says__no_flood "$lines lines of 1000 events, not less than $most"
config quiet "s/^listen.*/listen = 127.0.0.1:0/"
primary quiet -l 0 -m 64 '--log-level=pmx.*:error' || not_ok says__log_level ""
"$thin" open "${tag}quiet" 1 >/dev/null 2>&1
! grep -q '^pmx\.' "$dir/quiet.log" && ok says__nothing_if_told_so || not_ok says__nothing_if_told_so "" "$dir/quiet.log"
end "$last"

# ------------------------------------------------------------------ no primary
for way in '' thin secondary; do
	PMX_ATTACH=$way
	[ -n "$way" ] && export PMX_ATTACH || unset PMX_ATTACH
	timeout 120 "$thin" open "${tag}nobody" 1 2>&1 | grep -q 'no pmx-dpdk primary of that name' && ok "absent__no_primary_${way:-unset}" ||
		not_ok "absent__no_primary_${way:-unset}" "$(timeout 120 "$thin" open "${tag}nobody" 1 2>&1)"
done
exit $failed
