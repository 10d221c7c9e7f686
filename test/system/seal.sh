#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: seal.sh BUILD_DIR
# Sealed frames between two hosts, which are namespaces: with one secret of the cluster, with a key for each node, with certificates;
# what is on the wire; why there are no keys, in the words of pmx-ctl; keys that are revoked, renewed and replaced; and that no key is in a core dump
# or in hugepages. Who attacks them is in attack.sh.
set -u
. "$(dirname "$0")/common.bash"
here=$(cd "$(dirname "$0")" && pwd)
veth 1500 || skip_all seal "no veth pair between namespaces"
in0=(ip netns exec "${tag}0") in1=(ip netns exec "${tag}1")
ctl=$build/app/pmx-ctl

# config NODE [LINE OF SECURITY...]: KEY0 and KEY1 are added to [nodes], LANES lanes
config() {
	cat >"$dir/$1.ini" <<-END
		[node]
		id = $1
		name = $tag$1
		[engine]
		idle = adaptive
		lanes = ${LANES:-1}
		[limits]
		mbufs = 8192
		contexts = 16
		[link 0]
		driver = udp
		listen = 10.9.0.$(($1 + 1)):18515
		[nodes]
		0 = ${WAY0:-10.9.0.1} ${KEY0:-}
		1 = ${WAY1:-10.9.0.2} ${KEY1:-}
	END
	[ -z "${WAY0:-}" ] || printf '[link 1]\ndriver = udp\nlisten = 10.9.0.%s:18516\n' $(($1 + 1)) >>"$dir/$1.ini"
	[ $# -lt 2 ] || printf '%s\n' "[security]" "${@:2}" >>"$dir/$1.ini"
}
# node NUMBER [EAL arguments]
node() {
	primary_in "$tag$1" "$1" -l 0,1 -m 128 ${MEMORY---no-huge} --file-prefix="$tag$1" "${@:2}" || not_ok "seal__node_$1" "does not start"
	pid[$1]=$last
}
both() { node 0; node 1; }
stop() { local i; for i; do end "${pid[i]}"; done; }

cc -o "$dir/example" -I"$here/../../include" "$here/../../doc/example.c" -L"$build/lib" -lpmx -Wl,-rpath,"$build/lib" || skip_all seal "no compiler"
# talks NAME: three hellos from node 1 to node 0 and back
talks() {
	local responder code
	start "$dir/respond.log" "${in0[@]}" env PMX_ATTACH=thin "$dir/example" "${tag}0"
	responder=$last
	timeout 40 "${in1[@]}" env PMX_ATTACH=thin "$dir/example" "${tag}1" 0 >"$dir/ask.log" 2>&1
	code=$?
	wait "$responder" 2>/dev/null
	[ $code -eq 0 ] && [ "$(grep -c 'hello back' "$dir/ask.log")" = 3 ] && ok "seal__$1" || not_ok "seal__$1" "exit code $code" "$dir/ask.log"
}
# keys WORD NODE OF: what node OF says of its keys with node NODE
keys() { [ "$("$ctl" --instance "$tag$3" --json peers | jq -r ".[] | select(.node == $2) | if .keys_trouble != \"\" then .keys_trouble else .keys end")" = "$1" ]; }
sniff='
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.bind(("v0", 0))
print("listens")
n = k = 0
while True:
    f = s.recv(65536)
    n += f[12:14] == bytes((8, 0))
    k += b"hello" in f
    print(n, k)
'
# settled: whether the sniffer has read what there is, which a busy machine may put off
settled() {
	local before
	before=$(tail -1 "$dir/sniffed")
	sleep 0.3
	[ "$before" = "$(tail -1 "$dir/sniffed")" ]
}
# on_wire: frames with "hello" in them while they talk
on_wire() {
	local sniffer
	start "$dir/sniffed" timeout 60 "${in0[@]}" python3 -u -c "$sniff"
	sniffer=$last
	wait_for 20 grep -q listens "$dir/sniffed"
	talks "$1"
	wait_for 20 settled
	end "$sniffer" KILL
	grep -E '^[0-9]+ [0-9]+$' "$dir/sniffed" | tail -1
}
# wire NAME hidden | plain: whether the text of messages can be read there
wire() {
	local all plain
	on_wire "$1" >"$dir/on_wire"
	grep -v '^[0-9]' "$dir/on_wire"
	read -r all plain < <(tail -1 "$dir/on_wire")
	echo "# $all frames, $plain with the text of a message"
	[ "${all:-0}" -ge 6 ] && { [ "$2" = hidden ] && [ "$plain" -eq 0 ] || [ "$2" = plain -a "$plain" -ge 6 ]; } && ok "seal__$1_is_$2" ||
		not_ok "seal__$1_is_$2" "$all frames, $plain with text"
}

# ---------------------------------------------------------------- one secret

"$ctl" key generate "$dir/cluster.key" --kind cluster >/dev/null
for i in 0 1; do config $i "mode = seal" "cluster = cluster.key"; done
both
wire cluster_secret hidden
keys seal 1 0 && keys seal 0 1 && ok seal__peers_say_seal || not_ok seal__peers_say_seal "$("$ctl" --instance "${tag}0" peers)"
"$ctl" --instance "${tag}0" ping 1 >/dev/null && ok seal__ping || not_ok seal__ping
# the other life of a node that was killed
end "${pid[1]}" KILL
node 1
talks after_a_restart
stop 0 1

for i in 0 1; do config $i "mode = auth" "cluster = cluster.key"; done
both
wire auth plain
stop 0 1

# several lanes, whose keys differ
for i in 0 1; do LANES=$((i + 1)) config $i "mode = seal" "cluster = cluster.key"; done
both
talks several_lanes
"$ctl" --instance "${tag}1" ping 0 >/dev/null && ok seal__several_lanes_ping || not_ok seal__several_lanes_ping
stop 0 1

# two links, one of which leads nowhere: handshakes go by the other
for dead in first second; do
	for i in 0 1; do
		if [ $dead = first ]; then
			WAY0="10.9.0.77 link=0 10.9.0.1:18516 link=1" WAY1="10.9.0.77 link=0 10.9.0.2:18516 link=1" config $i "mode = seal" "cluster = cluster.key"
		else
			WAY0="10.9.0.1 link=0 10.9.0.77:18516 link=1" WAY1="10.9.0.2 link=0 10.9.0.77:18516 link=1" config $i "mode = seal" "cluster = cluster.key"
		fi
	done
	both
	talks "${dead}_link_is_dead"
	stop 0 1
done

# ---------------------------------------------------------------- a key each

for i in 0 1 2; do public[i]=$("$ctl" key generate "$dir/$i.key"); done
KEY0="key=${public[0]}" KEY1="key=${public[1]}"
for i in 0 1; do config $i "mode = seal" "key = $i.key"; done
both
talks key_each
# another key of node 1 that everybody is told of
stop 1
cp "$dir/1.key" "$dir/old.key"
rm "$dir/1.key"
public[1]=$("$ctl" key generate "$dir/1.key")
KEY1="key=${public[1]}" config 1 "mode = seal" "key = 1.key"
node 1
# says NAME ANSWER: what ping says at node 0, at the latest when it has asked for keys again
why() {
	"${in0[@]}" "$ctl" --instance "${tag}0" --json ping 1 --times 1 >"$dir/ping" 2>&1
	jq -r '.why // ""' "$dir/ping" 2>/dev/null | grep -q "$1"
}
says() {
	wait_for 20 why "$2" && ok "seal__says_$1" || not_ok "seal__says_$1" "" "$dir/ping"
}
says other_key "its key is unknown\|other key"
sed -i "s|^1 = .*|1 = 10.9.0.2 key=${public[1]}|" "$dir/0.ini"
"$ctl" --instance "${tag}0" reload >"$dir/reload" && talks key_replaced_by_reload || not_ok seal__key_replaced_by_reload "" "$dir/reload"
stop 1
# node 1 knows another key of node 0's than it has
KEY0="key=${public[2]}" KEY1="key=${public[1]}" config 1 "mode = seal" "key = 1.key"
node 1
says no_answer_from_who_expects_another_key "no keys\|no answer\|key refused"
"${in1[@]}" "$ctl" --instance "${tag}1" ping 0 --times 1 >"$dir/ping" 2>&1
grep -q "other key" "$dir/ping" && ok seal__says_other_key_there || not_ok seal__says_other_key_there "" "$dir/ping"
stop 1

# ---------------------------------------------------------------- what does not go together

# differs NAME WORD LINE...: node 1 has those lines, and node 0 says why not
differs() {
	KEY0="key=${public[0]}" KEY1="key=${public[1]}" config 1 "${@:3}"
	node 1
	# it says something, too, since who hears nothing of it has nothing to tell of it
	start "$dir/ping.1" "${in1[@]}" "$ctl" --instance "${tag}1" ping 0 --times 60
	says "$1" "$2"
	end "$last" KILL
	stop 1
}
differs modes "modes differ" "mode = auth" "key = 1.key"
differs cluster "its keys do not begin" "mode = seal" "key = 1.key" "cluster = cluster.key"
differs unsealed "peer is unsealed\|security.mode = off" "mode = off"
stop 0
KEY0="key=${public[0]}" KEY1="key=${public[1]}" config 0 "mode = off"
node 0
differs sealed "has security.mode, this one has not" "mode = seal" "key = 1.key"
"$ctl" --instance "${tag}0" doctor >"$dir/doctor" 2>&1
stop 0

# refused NAME WORD LINE...: no start, and why
refused() {
	KEY0="key=${public[0]}" KEY1="key=${public[1]}" config 0 "${@:3}"
	"$build/app/pmx-dpdk" --no-pci --no-huge -m 128 -- --check "$dir/0.ini" >"$dir/refused" 2>&1
	local code=$?
	[ $code -eq 2 ] && grep -q "$2" "$dir/refused" && ok "seal__refused_$1" || not_ok "seal__refused_$1" "exit code $code" "$dir/refused"
}
refused no_file "No such file" "mode = seal" "key = none.key"
refused no_key "needs cluster" "mode = seal"
refused kind "secret of a cluster" "mode = seal" "key = cluster.key"
cp "$dir/0.key" "$dir/read.key" && chmod 644 "$dir/read.key"
refused readable "chmod" "mode = seal" "key = read.key"
(unset KEY1; KEY0="key=${public[0]}"; KEY1=''; config 0 "mode = seal" "key = 0.key"; "$build/app/pmx-dpdk" --no-pci --no-huge -m 128 -- --check "$dir/0.ini") >"$dir/refused" 2>&1
grep -q "has no key" "$dir/refused" && ok seal__refused_peer_without_key || not_ok seal__refused_peer_without_key "" "$dir/refused"

# ---------------------------------------------------------------- certificates

authority=$("$ctl" key generate "$dir/authority.key" --kind authority)
KEY0='' KEY1=''
for i in 0 1; do
	"$ctl" key certify --authority "$dir/authority.key" --node $i --name n$i "$dir/$i.key" -w "$dir/$i.certificate" >/dev/null
	config $i "mode = seal" "key = $i.key" "certificate = $i.certificate" "authority = $authority" "revoked = revoked.keys"
done
"$ctl" key revoke "$dir/revoked.keys" "${public[2]}" >/dev/null
both
talks certificates
"$ctl" key certify --authority "$dir/authority.key" --node 1 --name n1 --days 60 "$dir/1.key" -w "$dir/1.certificate" >/dev/null
"$ctl" --instance "${tag}1" reload >/dev/null && talks certificate_renewed || not_ok seal__certificate_renewed
# said NODE WHAT: what its log has of a reload
said() { grep -q "security: new: $2" "$dir/$1.log" && ok "seal__log_says_${2%% *}" || not_ok "seal__log_says_${2%% *}" "$2" "$dir/$1.log"; }
said 1 "certificate; 1 keys are revoked; keys with 0 peers ended"
"$ctl" key revoke "$dir/revoked.keys" "$("$ctl" key public "$dir/1.key")" >/dev/null
"$ctl" --instance "${tag}0" reload >/dev/null
says revoked "its key is revoked\|key revoked"
said 0 "revoked; 2 keys are revoked; keys with 1 peers ended"
# a new key and certificate, taken by reload
rm "$dir/1.key"
public[1]=$("$ctl" key generate "$dir/1.key")
"$ctl" key certify --authority "$dir/authority.key" --node 1 "$dir/1.key" -w "$dir/1.certificate" >/dev/null
"$ctl" --instance "${tag}1" reload >"$dir/reload" && talks new_key_and_certificate || not_ok seal__new_key_and_certificate "" "$dir/reload"
said 1 "key certificate revoked; 2 keys are revoked; keys with [01] peers ended"
stop 0 1
"$ctl" key certify --authority "$dir/authority.key" --node 5 "$dir/1.key" -w "$dir/5.certificate" >/dev/null
own=${public[0]} public[0]=${public[1]}
refused another_node "is node 5's" "mode = seal" "key = 1.key" "certificate = 5.certificate" "authority = $authority"
public[0]=$own
refused own_key "is not this node's public key" "mode = seal" "key = 1.key"
refused secret_itself "has a key itself" "mode = seal" "key = $(cat "$dir/1.key")"
grep -q "$(cut -d" " -f2 "$dir/1.key")" "$dir/refused" && not_ok seal__shows_no_secret || ok seal__shows_no_secret
refused no_mode "must be given beside keys" "key = 1.key"
KEY0="key=${public[0]}" KEY1="key=${public[1]}"

# ---------------------------------------------------------------- where keys lie

# bytes_of FILE: the secret in that file as a pattern for grep -P
pattern() { cut -d' ' -f2 "$1" | base64 -d | od -An -v -tx1 | tr -d '\n' | sed 's/ /\\x/g'; }
if ! ulimit -c unlimited 2>/dev/null; then
	echo "ok seal__no_key_in_core # SKIP no cores may be written (ulimit -Hc is $(ulimit -Hc), as sudo sets it, and may not be raised)"
elif [ "$(cat /proc/sys/kernel/core_pattern)" = core ] && [ "$(awk '/HugePages_Free/{print $2}' /proc/meminfo)" -ge 256 ]; then
	for i in 0 1; do config $i "mode = seal" "key = $i.key" "cluster = cluster.key"; done
	cd "$dir" || exit 2 # where the core goes
	MEMORY='' node 0
	MEMORY=--no-huge node 1
	talks in_hugepages
	for file in 0.key cluster.key; do
		if LC_ALL=C grep -qaP "$(pattern "$dir/$file")" /dev/hugepages/"$tag"*map_*; then
			not_ok "seal__no_${file%.key}_in_hugepages" "found"
		else
			ok "seal__no_${file%.key}_in_hugepages"
		fi
	done
	end "${pid[0]}" ABRT
	core=$(ls "$dir"/core* 2>/dev/null | head -1)
	if [ -s "$core" ]; then
		LC_ALL=C grep -qa "$tag" "$core" && ok seal__core_is_one || not_ok seal__core_is_one
		for file in 0.key cluster.key; do
			if LC_ALL=C grep -qaP "$(pattern "$dir/$file")" "$core"; then not_ok "seal__no_${file%.key}_in_core" "found"; else ok "seal__no_${file%.key}_in_core"; fi
		done
		rm -f "$core"
	else
		not_ok seal__core_is_one "there is none"
	fi
	stop 1
else
	echo "ok seal__no_key_in_core # SKIP needs core_pattern = core, and 256 free hugepages"
fi
exit $failed
