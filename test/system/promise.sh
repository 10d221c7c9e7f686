#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: promise.sh BUILD_DIR
# All the contexts that are configured can be open at once with the default limits, and what each was granted is there, all
# at once (promise.c): thin clients and secondaries of a primary with the memory that README gives it, an embedded node
# with as much, without hugepages, and with the least that it starts with.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages promise 200
contexts=64

# config NAME ID: the default limits
config() {
	cat >"$dir/$1.ini" <<-END
		[node]
		id = $2
		name = $tag$1
		[link 0]
		driver = udp
		listen = 127.0.0.1:$((port + $2))
		[nodes]
		0 = 127.0.0.1:$port
		1 = 127.0.0.1:$((port + 1))
	END
}

config filler 0
config holder 1

# tried NAME HOW FILLER HOLDER MIB: every context of the holder's node is full
tried() {
	local name=$1 how=$2 filler=$3 holder=$4 mib=$5 filler_pid holder_pid hold_pid
	primary "$filler" -l 0 -m 64 || { not_ok "$name" "no primary"; return; }
	filler_pid=$last
	primary "$holder" -l 1 -m "$mib" || { not_ok "$name" "no primary"; end "$filler_pid"; return; }
	holder_pid=$last
	start_fed "$dir/$name.log" env PMX_ATTACH="$how" "$build/test/promise" hold "$tag$holder" $contexts
	hold_pid=$last
	if ! wait_for 60 grep -q ready "$dir/$name.log"; then
		not_ok "${name}__all_open" "" "$dir/$name.log"
	else
		ok "${name}__all_open"
		grep granted "$dir/$name.log" >"$dir/$name.granted"
		if timeout 120 "$build/test/promise" fill "$tag$filler" 1 <"$dir/$name.granted" >"$dir/fill.log" 2>&1; then
			ok "${name}__granted_is_there"
		else
			not_ok "${name}__granted_is_there" "" "$dir/fill.log"
		fi
		echo >&"$to"
		wait_for 60 grep -q full "$dir/$name.log"
		sed 's/[0-9]*$/1/' "$dir/$name.granted" |
			timeout 60 "$build/test/promise" fill "$tag$filler" 1 >"$dir/fill.log" 2>&1 ||
			not_ok "${name}__one_more_goes" "" "$dir/fill.log"
		echo >&"$to"
		if wait "$hold_pid"; then
			ok "${name}__goes_on"
		else
			not_ok "${name}__goes_on" "" "$dir/$name.log"
		fi
		grep hold "$dir/$name.log" | sed 's/^/# /'
		awk '{print $3 " send and " $4 " receive buffers"}' "$dir/$name.granted" | sort | uniq -c | sed 's/^/# /'
	fi
	grep 'packet buffers' "$dir/$holder.log" | sed 's/^/# /'
	exec {to}<&-
	end "$holder_pid"
	end "$filler_pid"
}

tried promise_thin thin filler holder 256
whole=$(awk '$3 == 256 && $4 == 512' "$dir/promise_thin.granted" | wc -l)
[ "$whole" = $contexts ] && ok promise_thin__all_whole || not_ok promise_thin__all_whole "$whole of $contexts"
tried promise_secondary secondary filler holder 256
whole=$(awk '$3 == 256 && $4 == 512' "$dir/promise_secondary.granted" | wc -l)
[ "$whole" = $contexts ] && ok promise_secondary__all_whole || not_ok promise_secondary__all_whole "$whole of $contexts"
for mib in 256 96; do
	passes promise_embedded_$mib timeout 120 "$build/test/promise" alone $contexts -- --no-huge -m $mib --no-pci -l 0 \
		--file-prefix "$tag$mib"
done
exit $failed
