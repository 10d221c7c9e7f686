#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: litmus.sh BUILD_DIR [OPERATIONS]
# The rings that two processes share, with both ends in one: OPERATIONS (2000000) on each. In the full tier then fewer with
# ThreadSanitizer, which must also find the mistake in a ring whose release order was taken out; and an engine with two applications,
# each in a thread. (memcpy is called there, since what the compiler expands itself ThreadSanitizer does not see.)
set -u
. "$(dirname "$0")/common.bash"

operations=${2:-2000000}
root=$(cd "$(dirname "$0")/../.." && pwd)
tsan=$build-tsan
report() { sed 's/^/# /' "$1" | head -30; }

"$build/test/litmus" "$operations" || failed=1
full || exit $failed

# with_tsan NAME INCLUDE_DIR: litmus.c against these headers
with_tsan() {
	gcc -std=gnu11 -O1 -g -fsanitize=thread -fno-builtin-memcpy -fno-builtin-memcmp -Wno-tsan -I "$2" -I "$root/lib" "$root/test/system/litmus.c" "$root/lib/core/lhs/lhs.c" \
		-o "$dir/$1" -lpthread 2>"$dir/$1.log" || { not_ok "litmus_tsan_$1__builds" "" "$dir/$1.log"; return 2; }
	TSAN_OPTIONS="halt_on_error=1" timeout 300 "$dir/$1" 200000 >"$dir/$1.log" 2>&1
}
if with_tsan right "$root/lib"; then
	ok litmus_tsan__rings_are_clean
else
	not_ok litmus_tsan__rings_are_clean ""
	report "$dir/right.log"
fi
mkdir -p "$dir/headers/channel"
sed '/^slot_publish/,/^}/s/memory_order_release/memory_order_relaxed/' "$root/lib/channel/slot_ring.h" >"$dir/headers/channel/slot_ring.h"
cmp -s "$dir/headers/channel/slot_ring.h" "$root/lib/channel/slot_ring.h" && not_ok litmus_tsan__mutant "nothing was changed"
if with_tsan wrong "$dir/headers"; then
	not_ok litmus_tsan__finds_a_missing_release "it did not"
else
	grep -q 'data race' "$dir/wrong.log" && ok litmus_tsan__finds_a_missing_release ||
		not_ok litmus_tsan__finds_a_missing_release "another way to fail" "$dir/wrong.log"
fi

[ -f "$tsan/build.ninja" ] ||
	meson setup "$tsan" "$root" -Dmpi=disabled -Dman=disabled -Doptimization=1 -Db_sanitize=thread -Db_lundef=false '-Dc_args=-fno-builtin-memcpy -fno-builtin-memcmp -fno-builtin-memset' >"$dir/setup.log" 2>&1 ||
	not_ok litmus_tsan__setup "" "$dir/setup.log"
if ninja -C "$tsan" test/threads >"$dir/ninja.log" 2>&1; then
	if timeout 300 "$tsan/test/threads" 200 --no-huge -m 256 --no-pci --no-shconf --no-telemetry --log-level='*:error' -l 0 \
		>"$dir/threads.log" 2>&1; then
		ok litmus_tsan__engine_and_applications_are_clean
	else
		not_ok litmus_tsan__engine_and_applications_are_clean ""
		report "$dir/threads.log"
	fi
else
	not_ok litmus_tsan__builds "" "$dir/ninja.log"
fi
exit $failed
