#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: pair_histories.sh BUILD_DIR [COUNT [SEED]]
# COUNT (400; full tier: 10000) random histories of contexts whose messages go by shared memory from some time on
# (pair_histories.c), in two processes. Needs no privilege.
set -u
. "$(dirname "$0")/common.bash"

full && count=10000 || count=400
count=${2:-$count} seed=${3:-1}
[ -x "$build/test/pair_histories" ] || skip_all pair_histories "$build/test/pair_histories is not there"
start "$dir/0.log" "$build/test/pair_histories" $((count / 2)) "$seed"
first=$last
start "$dir/1.log" "$build/test/pair_histories" $((count / 2)) $((seed + count / 2))
for i in 0 1; do
	wait "$first" && ok "pair_histories__from_$((seed + i * (count / 2)))" ||
		not_ok "pair_histories__from_$((seed + i * (count / 2)))" "exit code $?" "$dir/$i.log"
	grep -h histories, "$dir/$i.log"
	first=$last
done
exit $failed
