#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: fuzz.sh BUILD_DIR [SECONDS [keep]]
# Bytes that nobody would send, to what takes bytes from others: frames (wire), the core (proto), an application's
# shared memory (channel), a peer's transfers (transfer, rma), members of groups (group), a
# topology's text, steps of a collective (coll), collectives of groups (colls), sealed frames (seal), two nodes that
# agree on keys (handshake). Each target of
# test/fuzz starts from its corpus, test/fuzz/corpus/NAME.tar.gz: it gets those inputs and many that a seed's random changes make of
# them (replay.c). In the full tier, and with SECONDS, libFuzzer goes on from there for SECONDS (15), two targets at a
# time, built with clang in a folder of its own; keep: what it found new goes into the corpus, reduced.
set -u
. "$(dirname "$0")/common.bash"

seconds=${2:-15}
root=$(cd "$(dirname "$0")/../.." && pwd)
fuzz_build=$root/build-fuzz
targets=(wire topology coll colls proto rma group channel transfer seal handshake)
declare -A changed=([wire]=400000 [topology]=30000 [coll]=400000 [colls]=40000 [proto]=5000 [rma]=100000 [group]=100000 [channel]=600 [transfer]=600 [seal]=20000 [handshake]=1000)
export ASAN_OPTIONS=detect_leaks=0 # DPDK's own start leaves memory that nobody frees

# corpus TARGET: its inputs in $dir/TARGET.corpus; one of zeros where there are none yet
corpus() {
	mkdir "$dir/$1.corpus"
	if [ -f "$root/test/fuzz/corpus/$1.tar.gz" ]; then
		tar -C "$dir/$1.corpus" -xzf "$root/test/fuzz/corpus/$1.tar.gz"
	else
		head -c 200 /dev/zero >"$dir/$1.corpus/zeros"
	fi
}

replayed() { # TARGET
	local log=$dir/$1.replay seed=${SEED:-$RANDOM}
	if (cd "$dir" && timeout 300 "$build/test/fuzzed_$1" "$dir/$1.corpus" "${changed[$1]}" "$seed") >"$log" 2>&1; then
		ok "fuzzed_$1"
		echo "# seed $seed: $(tail -n 1 "$log")"
	else
		not_ok "fuzzed_$1" "exit code $?, SEED=$seed" "$log"
		[ ! -f "$dir/crash-fuzzed_$1" ] || echo "# the input: $(base64 -w 0 "$dir/crash-fuzzed_$1")"
	fi
}

for name in "${targets[@]}"; do
	corpus "$name"
	beside replayed "$name"
done
all_beside
full || [ $# -gt 1 ] || exit $failed

command -v clang >/dev/null || skip_all fuzz "needs clang: dpdk-config/install.sh --tests"
if [ ! -f "$fuzz_build/build.ninja" ]; then
	CC=clang meson setup "$fuzz_build" "$root" -Dfuzz=true -Dsanitize=true -Dwerror=true -Dmpi=disabled -Dman=disabled \
		-Dbuildtype=debugoptimized >"$dir/setup.log" 2>&1
fi
ninja -C "$fuzz_build" "${targets[@]/#/test/fuzz_}" >>"$dir/setup.log" 2>&1 || {
	not_ok fuzz_build "see below" "$dir/setup.log"
	exit 1
}

run() { # TARGET
	local name=$1
	cd "$dir" && start "$dir/$name.log" timeout -k 10 $((seconds + 120)) "$fuzz_build/test/fuzz_$name" \
		-max_total_time="$seconds" -max_len=4000 -timeout=30 -rss_limit_mb=3000 -print_final_stats=1 \
		-artifact_prefix="$dir/$name-" "$dir/$name.corpus"
}

judge() { # TARGET PID
	local name=$1
	if wait "$2"; then
		ok "fuzz_$name"
		awk -v s="$seconds" '/number_of_executed_units/{n = $2} /DONE/{d = $0}
			END {sub(/.*cov:/, "cov:", d); sub(/ exec.*/, "", d); printf "# %d inputs in %d s, %s\n", n, s, d}' "$dir/$name.log"
		return
	fi
	not_ok "fuzz_$name" "exit code $?" "$dir/$name.log"
	for found in "$dir/$name"-*; do
		[ ! -f "$found" ] || echo "# $(basename "$found"): $(base64 -w 0 "$found")"
	done
}

for ((i = 0; i < ${#targets[@]}; i += 2)); do
	run "${targets[i]}"
	first=$last
	[ -z "${targets[i + 1]:-}" ] || run "${targets[i + 1]}"
	judge "${targets[i]}" "$first"
	[ -z "${targets[i + 1]:-}" ] || judge "${targets[i + 1]}" "$last"
done

if [ "${3:-}" = keep ] && [ $failed -eq 0 ]; then
	mkdir -p "$root/test/fuzz/corpus"
	for name in "${targets[@]}"; do
		mkdir "$dir/$name.small"
		"$fuzz_build/test/fuzz_$name" -merge=1 "$dir/$name.small" "$dir/$name.corpus" >"$dir/$name.merge" 2>&1
		tar -C "$dir/$name.small" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf - . |
			gzip -9n >"$root/test/fuzz/corpus/$name.tar.gz"
	done
fi
exit $failed
