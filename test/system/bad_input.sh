#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: bad_input.sh BUILD_DIR [FRAMES]
# Bad configurations (each names file, line, key and what is allowed), too little memory, a second
# instance; bad sends, FRAMES (200000) wrong frames on a link, garbage from a client (bad_input.c).
set -u
. "$(dirname "$0")/common.bash"

frames=${2:-200000}
dpdk=$build/app/pmx-dpdk
[ -x "$dpdk" ] && [ -x "$build/test/bad_input" ] ||
	{ echo "$build has no app/pmx-dpdk or test/bad_input" >&2; exit 2; }
base="[node]
id = 0
name = ${tag}a
[link 0]
driver = udp
listen = 127.0.0.1:$port
[limits]
mbufs = 4096
contexts = 4
[nodes]
0 = 127.0.0.1:$port
1 = 127.0.0.1:$((port + 1))"

# refused NAME PATTERN SED-SCRIPT: the configuration, changed so, is refused with exit code 2 and a
# message that begins with FILE:LINE: of the line that has BAD
refused() {
	local name=$1 pattern=$2 line code
	echo "$base" | sed -e "$3" >"$dir/$name.ini"
	line=$(grep -n -m1 BAD "$dir/$name.ini" | cut -d: -f1)
	sed -i 's/ *# BAD//' "$dir/$name.ini"
	timeout 20 "$dpdk" --check "$dir/$name.ini" >"$dir/out" 2>&1
	code=$?
	if [ $code -eq 2 ] && grep -qF "$dir/$name.ini:$line:" "$dir/out" && grep -qE "$pattern" "$dir/out"; then
		ok "config__$name"
	else
		not_ok "config__$name" "exit code $code, expected line $line, $pattern" "$dir/out"
	fi
}

refused unknown_key '\[limits\] mbuffs: unknown key; \[limits\] has: .*mbufs' 's/^mbufs.*/mbuffs = 4096 # BAD/'
refused unknown_section 'unknown section' 's/^\[limits\]/[limit] # BAD/'
refused key_twice '\[limits\] mbufs: given twice' 's/^contexts.*/mbufs = 5000 # BAD/'
refused node_twice 'node 1 is given twice' '$a 1 = auto # BAD'
refused node_twice_in_other_words 'not a node number|node 1 is given twice' '$a 01 = auto # BAD'
refused node_beyond_limit 'not a node number from 0 to 1023' '$a 1024 = auto # BAD'
refused node_not_a_number 'not a node number' '$a x = auto # BAD'
refused mac_is_no_mac 'neither a MAC address' '$a 2 = 02:00:00:zz:00:01 # BAD'
refused mac_too_short 'neither a MAC address' '$a 2 = 02:00:00:00:01 # BAD'
refused ip_is_no_ip 'neither a MAC address' '$a 2 = 300.1.1.1:99 # BAD'
refused peer_on_no_link "'3' is no link of this file" '$a 2 = auto link=3 # BAD'
refused number_too_large "'99999999' is not a number from 256 to 4194304" 's/^mbufs.*/mbufs = 99999999 # BAD/'
refused number_negative "'-1' is not a number" 's/^mbufs.*/mbufs = -1 # BAD/'
refused number_is_text "'many' is not a number" 's/^mbufs.*/mbufs = many # BAD/'
refused choice "'tcp' is none of ethdev" 's/^driver.*/driver = tcp # BAD/'
refused not_a_power_of_two '1000 is not a power of two' 's/^contexts.*/lhs_entries = 1000 # BAD/'
refused text_too_long 'is longer than 31 bytes' "s/^name.*/name = $(printf 'n%.0s' {1..40}) # BAD/"
refused no_key_nor_section "'mbufs 4096' is none of" 's/^mbufs.*/mbufs 4096 # BAD/'
refused section_twice 'twice' '$a [limits] # BAD
$a contexts = 8'

# fails NAME PATTERN [EAL arguments -- ] CONFIG: a primary does not start, and says why
fails() {
	local name=$1 pattern=$2 code
	shift 2
	timeout 30 "$dpdk" --no-pci "$@" >"$dir/out" 2>&1
	code=$?
	if [ $code -ne 0 ] && [ $code -lt 124 ] && grep -qE "$pattern" "$dir/out"; then
		ok "$name"
	else
		not_ok "$name" "exit code $code, expected $pattern" "$dir/out"
	fi
}

small=(--no-huge -m 64 -l 0)
echo "$base" >"$dir/good.ini"
echo "$base" | sed 's/^driver.*/driver = ethdev\nport = net_nothing0/; s/^listen.*//; s/127.*/auto/' >"$dir/port.ini"
echo "$base" | sed 's/^mbufs.*/mbufs = 4000000/' >"$dir/huge.ini"
echo "$base" | sed 's/^mbufs.*/mbufs = 1024/' >"$dir/few.ini"
echo "$base" | sed 's/^listen.*/listen = 192.0.2.1:99/' >"$dir/listen.ini"
echo "$base" | sed 's/^contexts.*/contexts = 1024\nsend_buffers = 32768/' >"$dir/contexts.ini"
fails no_config 'cannot be read: No such file' "${small[@]}" -- "$dir/nothing.ini"
fails link_does_not_exist "port 'net_nothing0' does not exist" "${small[@]}" -- "$dir/port.ini"
fails too_little_memory_for_mbufs 'the node needs [0-9]+ MiB of memory: [0-9]+ for limits.mbufs = 4000000.*there are 64' "${small[@]}" -- "$dir/huge.ini"
fails too_little_memory_for_contexts 'the node needs [0-9]+ MiB of memory: .*limits.contexts = 1024.*there are 64' "${small[@]}" -- "$dir/contexts.ini"
fails too_few_mbufs_for_queues 'limits. mbufs: 1024 is too few' "${small[@]}" -- "$dir/few.ini"
fails address_not_of_this_host '192.0.2.1' "${small[@]}" -- "$dir/listen.ini"
fails too_few_hugepages 'ask for 500000 MiB of hugepages' -m 500000 -l 0 -- "$dir/good.ini"

timeout 10 "$build/app/pmx-perf" latency --to 1:1x >"$dir/out" 2>&1
code=$?
[ $code -eq 2 ] && grep -q "'1:1x'" "$dir/out" && ok perf__destination_is_read_to_its_end ||
	not_ok perf__destination_is_read_to_its_end "exit code $code" "$dir/out"

cp "$dir/good.ini" "$dir/a.ini"
if primary a "${small[@]}"; then
	first=$last
	fails second_instance "'${tag}a' already runs as process $first" "${small[@]}" -- "$dir/good.ini"
	kill -0 "$first" && ok first_instance_goes_on || not_ok first_instance_goes_on "it ended"
	end "$first"
	code=$?
	[ $code -eq 0 ] && ok first_instance_ends || not_ok first_instance_ends "exit code $code"
else
	not_ok first_instance "does not start"
fi

for part in sends frames client; do
	timeout 250 "$build/test/bad_input" $part $((port + 10)) "$frames" >"$dir/out" 2>"$dir/err"
	code=$?
	cat "$dir/out"
	[ $code -eq 0 ] || not_ok "bad_input_$part" "exit code $code" "$dir/err"
done
exit $failed
