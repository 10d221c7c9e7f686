#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: unit_mutants.sh BUILD_DIR [record]
# Bugs that were put into lib/group and lib/coll on purpose (test/unit/*_mutants), each alone: the histories and cases of test_group.c,
# test_coll.c and test_colls.c must notice them, and must notice nothing in the sound code that is compiled in the same way.
# The case that test/unit/mutants.noticed names for a bug is run first, and the others only if it notices nothing;
# record: writes that file anew, of what is the first to notice when all run in their order.
set -u
. "$(dirname "$0")/common.bash"
root=$(cd "$(dirname "$0")/../.." && pwd)
# as many as notice every bug; the programs' own numbers are for sound code
export GROUP_HISTORIES=200 COLL_HISTORIES=200 COLLS_HISTORIES=300
ulimit -c 0
noticed=$root/test/unit/mutants.noticed
record=${2:-}
# the library that a test is about
declare -A library=([group]=group [coll]=coll [colls]=coll)

# compile TREE SOURCE OBJECT
compile() {
	${CC:-cc} -std=gnu11 -O2 -D_GNU_SOURCE -I"$1/include" -I"$1/lib" -c -o "$3" "$2"
}

# sound_objects TEST: of the library and the test, in $dir/TEST/sound
sound_objects() {
	local at=$dir/$1/sound source
	mkdir -p "$at"
	for source in "$root/lib/${library[$1]}"/*.c "$root/lib/core/wire"/*.c "$root/test/unit/test_$1.c" "$root/test/unit/case_filter.c"; do
		compile "$root" "$source" "$at/$(basename "$source" .c).o" || return 1
	done
	${CC:-cc} -o "$at/test" "$at"/*.o -lcmocka
}

# mutant_program TEST NAME PATCH: $dir/TEST/NAME/test, of the sound objects but the one that is patched
mutant_program() {
	local at=$dir/$1/$2 source
	source=$(sed -n 's/^+++ b\///p' "$3")
	mkdir -p "$at" && (cd "$root" && cp -r --parents include "lib/${library[$1]}" lib/core/wire "$at/") && cp "$dir/$1/sound"/*.o "$at/" &&
		(cd "$at" && patch -s -F0 -p1 <"$3") && compile "$at" "$at/$source" "$at/$(basename "$source" .c).o" &&
		${CC:-cc} -o "$at/test" "$at"/*.o -lcmocka
}

mutant() { # TEST PATCH
	local name log=$dir/log.$BASHPID
	name=$(basename "$2" .patch)
	mutant_program "$1" "$name" "$2" >"$log" 2>&1 || {
		not_ok "$1_mutant__${name//-/_}" "the patch does not apply, or compile" "$log"
		return
	}
	# what crashes or never ends is noticed as well; the first test that fails is enough
	local first
	first=$(awk -v mutant="$1/$name" '$1 == mutant {print $2}' "$noticed")
	if [ -n "$first" ] && [ -z "$record" ] && ! TEST_CASE=$first CMOCKA_TEST_ABORT=1 timeout 60 "$dir/$1/$name/test" >"$log" 2>&1; then
		ok "$1_mutant__${name//-/_}"
	elif CMOCKA_TEST_ABORT=1 timeout 60 "$dir/$1/$name/test" >"$log" 2>&1; then
		not_ok "$1_mutant__${name//-/_}" "no test noticed it"
	else
		ok "$1_mutant__${name//-/_}"
		[ -z "$record" ] || sed -n "s|^\[ RUN *\] |$1/$name |p" "$log" | tail -n 1 >"$dir/$1-$name.noticed"
	fi
}

for test in group coll colls; do
	if sound_objects $test >"$dir/log" 2>&1 && "$dir/$test/sound/test" >"$dir/log" 2>&1; then
		ok ${test}_mutants__sound_code_passes
	else
		not_ok ${test}_mutants__sound_code_passes "" "$dir/log"
	fi
	for patch in "$root"/test/unit/${test}_mutants/*.patch; do
		beside mutant $test "$patch"
	done
done
all_beside
[ -z "$record" ] || sort "$dir"/*.noticed >"$noticed"
exit $failed
