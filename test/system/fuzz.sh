#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 900
#
# Usage: fuzz.sh BUILD_DIR [SECONDS [keep]]
# libFuzzer on what takes bytes from others: frames (wire), the core (proto), an application's
# shared memory (channel), a peer's transfers (transfer, rma), members of groups (group), a
# topology's text, steps of a collective (coll), collectives of groups (colls). Each target of
# test/fuzz starts from its corpus, test/fuzz/corpus/NAME.tar.gz, and runs for SECONDS (30), two at a
# time. keep: what was found new goes into the corpus, reduced. Builds with clang in a folder of its own.
set -u
. "$(dirname "$0")/common.bash"

seconds=${2:-30}
root=$(cd "$(dirname "$0")/../.." && pwd)
fuzz_build=$root/build-fuzz
targets=(wire topology coll colls proto rma group channel transfer)
export ASAN_OPTIONS=detect_leaks=0 # DPDK's own start leaves memory that nobody frees

command -v clang >/dev/null || skip_all fuzz "needs clang: dpdk-config/install.sh --tests"
if [ ! -f "$fuzz_build/build.ninja" ]; then
	CC=clang meson setup "$fuzz_build" "$root" -Dfuzz=true -Dsanitize=true -Dwerror=true \
		-Dbuildtype=debugoptimized >"$dir/setup.log" 2>&1
fi
ninja -C "$fuzz_build" "${targets[@]/#/test/fuzz_}" >>"$dir/setup.log" 2>&1 || {
	not_ok fuzz_build "see below" "$dir/setup.log"
	exit 1
}

run() { # TARGET
	local name=$1
	mkdir -p "$dir/$name.corpus"
	[ ! -f "$root/test/fuzz/corpus/$name.tar.gz" ] || tar -C "$dir/$name.corpus" -xzf "$root/test/fuzz/corpus/$name.tar.gz"
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
