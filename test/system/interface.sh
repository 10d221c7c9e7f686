#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: interface.sh BUILD_DIR
# pmx-dpdk --link INTERFACE: two network namespaces joined by a veth pair, a primary in each, no configuration. Messages between
# them by each driver; numbers by addresses and by a list; what is said when it cannot be; ordinary users, without hugepages.
set -u
. "$(dirname "$0")/common.bash"
[ "$(id -u)" -eq 0 ] || skip_all interface "needs root, for namespaces"
need_hugepages interface 260
dpdk=$build/app/pmx-dpdk perf=$build/app/pmx-perf
run=/run/pmx-dpdk # of root, whatever RUNTIME_DIRECTORY says
for i in a b; do
	ip netns add "$tag$i" || exit 1
	spaces+=("$tag$i")
	ip -n "$tag$i" link set lo up
done
ip link add v0 netns "${tag}a" type veth peer name v1 netns "${tag}b"
in_a=(ip netns exec "${tag}a") in_b=(ip netns exec "${tag}b")

# says NAME TEXT COMMAND...: it ends with an error and these words
says() {
	local name=$1 text=$2 code=0
	shift 2
	timeout 30 "$@" >"$dir/$name.log" 2>&1 || code=$?
	if [ $code -ne 0 ] && [ $code -lt 124 ] && grep -qF -- "$text" "$dir/$name.log"; then
		ok "interface__$name"
	else
		not_ok "interface__$name" "exit code $code, without '$text'" "$dir/$name.log"
	fi
}

# talks NAME FROM TO ARGUMENTS-OF-A -- ARGUMENTS-OF-B: primaries a and b with these, and a round trip from node FROM to node TO
talks() {
	local name=$1 from=$2 to=$3 one=() a b code
	shift 3
	while [ "$1" != -- ]; do one+=("$1"); shift; done
	shift
	start "$dir/a.log" "${in_a[@]}" "$dpdk" -l 0 -- --link v0 --name "${tag}0" "${one[@]}"
	a=$last
	start "$dir/b.log" "${in_b[@]}" "$dpdk" -l 1 -- --link v1 --name "${tag}1" "$@"
	b=$last
	if ! wait_for 100 grep -q "node $from .* ready" "$dir/a.log" || ! wait_for 100 grep -q "node $to .* ready" "$dir/b.log"; then
		not_ok "interface__$name" "not ready" "$dir/a.log"
		sed 's/^/# b: /' "$dir/b.log"
	else
		start "$dir/respond.log" "$perf" respond --instance "${tag}1"
		for _ in {1..20}; do # the responder may not have opened its context yet
			timeout 60 "$perf" latency --sizes 64,8192 --rounds 100 --warmup 10 --instance "${tag}0" --to "$to:1" >"$dir/perf.log" 2>&1
			code=$?
			[ $code -ne 0 ] && grep -q 'has no context' "$dir/perf.log" || break
		done
		[ $code -eq 0 ] && grep -q 'latency *8192' "$dir/perf.log" && ok "interface__$name" ||
			not_ok "interface__$name" "exit code $code" "$dir/perf.log"
		! grep -q '^EAL' "$dir/perf.log" && ok "interface__${name}_attaches_quietly" || not_ok "interface__${name}_attaches_quietly" "" "$dir/perf.log"
		grep -h '^v[01]: driver' "$dir/a.log" | sed 's/^/# /'
		# one that comes too late changes nothing
		sum=$(cksum "$run/${tag}0.ini")
		timeout 30 "${in_b[@]}" "$dpdk" -l 1 -- --link v1 --name "${tag}0" "$@" >"$dir/late.log" 2>&1 || code=$?
		grep -q 'already runs' "$dir/late.log" && [ -n "$sum" ] && [ "$(cksum "$run/${tag}0.ini"*)" = "$sum" ] &&
			ok "interface__${name}_stays" || not_ok "interface__${name}_stays" "" "$dir/late.log"
	fi
	end "$a"
	end "$b"
	ls "$run/$tag"*.ini* >/dev/null 2>&1 && not_ok "interface__${name}_leaves_nothing" "$(ls "$run")" ||
		ok "interface__${name}_leaves_nothing"
}

says no_such_interface "no such interface here, but lo, v0" "${in_a[@]}" "$dpdk" --link eth77
says is_down "ip link set v0 up" "${in_a[@]}" "$dpdk" --link v0
ip -n "${tag}a" link set v0 up
ip -n "${tag}b" link set v1 up
says no_number "--node 0 or --node 1" "${in_a[@]}" "$dpdk" --link v0
talks without_address 0 1 --node 0 -- --node 1
ip -n "${tag}a" addr add 10.91.4.1/24 dev v0
ip -n "${tag}b" addr add 10.91.4.2/24 dev v1
talks by_addresses 1 2 -- # one flag
talks by_list 1 0 --nodes 10.91.4.2,10.91.4.1 -- --nodes 10.91.4.2,10.91.4.1
talks by_seed 1 2 --seed 10.91.4.1 -- --seed 10.91.4.1
talks by_seed_numbered 300 301 --seed 10.91.4.1,10.91.4.2 --node 300 -- --seed 10.91.4.1 --node 301
talks by_seed_of_frames 7 9 --driver af_packet --seed 10.91.4.1 --node 7 -- --driver af_packet --seed 10.91.4.1 --node 9
says seed_and_list "not together with --nodes" "${in_a[@]}" "$dpdk" --link v0 --seed 10.91.4.1 --nodes 10.91.4.1
says seed_without_number "say this node's number" "${in_a[@]}" "$dpdk" --link v0 --seed 10.91.4.1 --driver af_packet
talks af_xdp 0 1 --driver af_xdp --node 0 -- --driver af_xdp --node 1
says not_in_list "none of them is this host, whose v0 has 10.91.4.1" "${in_a[@]}" "$dpdk" --link v0 --nodes 10.91.4.7,10.91.4.9
says number_without_list "without --nodes numbers are those of the addresses" "${in_a[@]}" "$dpdk" --link v0 --node 1
says no_number_at_all "--node x: not a number" "${in_a[@]}" "$dpdk" --link v0 --nodes 10.91.4.1 --node x
says no_driver "udp, af_packet or af_xdp" "${in_a[@]}" "$dpdk" --link v0 --driver tcp
says list_of_frames "write a configuration with their MAC addresses" "${in_a[@]}" "$dpdk" --link v0 --driver af_packet --nodes 10.91.4.1,10.91.4.2
says and_a_configuration "Usage:" "${in_a[@]}" "$dpdk" --link v0 "$dir/a.ini"
says wrong_name "--name a/b" "${in_a[@]}" "$dpdk" --link v0 --name a/b
# a configuration that --check prints is one that --check takes
if "${in_a[@]}" "$dpdk" --check --link v0 >"$dir/printed.ini" 2>"$dir/why" &&
	"$dpdk" --check "$dir/printed.ini" >"$dir/check.log" 2>&1 && grep -q '^254 = 10.91.4.254' "$dir/printed.ini" && grep -q 'node 1' "$dir/why"; then
	ok interface__check_prints_it
else
	not_ok interface__check_prints_it "" "$dir/check.log"
fi
ip -n "${tag}a" link set v0 mtu 9000
ip -n "${tag}b" link set v1 mtu 9000
talks jumbo 1 2 --nodes 10.91.4.9,10.91.4.1,10.91.4.2 -- --nodes 10.91.4.9,10.91.4.1,10.91.4.2
grep -q 'frames are of 8972 bytes' "$dir/a.log" && ok interface__jumbo_is_said || not_ok interface__jumbo_is_said "" "$dir/a.log"
ip -n "${tag}a" addr add 10.92.0.1/16 dev v0
ip -n "${tag}a" addr del 10.91.4.1/24 dev v0
says large_network "too large for node numbers" "${in_a[@]}" "$dpdk" --link v0
ip -n "${tag}a" addr del 10.92.0.1/16 dev v0
ip -n "${tag}a" -6 addr add fd00:91::1/64 dev v0 nodad
ip -n "${tag}b" addr del 10.91.4.2/24 dev v1
ip -n "${tag}b" -6 addr add fd00:91::2/64 dev v1 nodad
says ipv6_without_list "--nodes fd00:91::1" "${in_a[@]}" "$dpdk" --link v0
talks ipv6 0 1 --nodes fd00:91::1,fd00:91::2 -- --nodes fd00:91::1,fd00:91::2

# an ordinary user, who may use no hugepages
mkdir -m 0700 "$dir/user"
chmod 0755 "$dir"
chown nobody "$dir/user"
start "$dir/user.log" "${in_a[@]}" setpriv --reuid nobody --regid nogroup --clear-groups env -u RUNTIME_DIRECTORY XDG_RUNTIME_DIR="$dir/user" "$dpdk" -l 0 -- \
	--link lo --nodes 127.0.0.1 --name "${tag}2"
user=$last
if wait_for 100 grep -q ready "$dir/user.log" && grep -q 'ordinary memory' "$dir/user.log"; then
	passes interface__ordinary_user "${in_a[@]}" setpriv --reuid nobody --regid nogroup --clear-groups env -u RUNTIME_DIRECTORY XDG_RUNTIME_DIR="$dir/user" \
		timeout 60 "$build/app/pmx-ctl" --instance "${tag}2" stat
else
	not_ok interface__ordinary_user "" "$dir/user.log"
fi
end "$user"
exit $failed
