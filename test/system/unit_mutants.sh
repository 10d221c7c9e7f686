#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: unit_mutants.sh BUILD_DIR [record]
# Bugs that were put into lib/group and lib/coll on purpose (test/unit/*_mutants), each alone: the histories and cases of the
# programs below must notice them, and must notice nothing in the sound code that is compiled in the same way.
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
# the library that a test is about; its programs (test/unit/*.c), as they run; and the sources that these have in common
declare -A library=([group]=group [coll]=coll [colls]=coll)
declare -A programs=([group]="test_group test_group_histories" [coll]="test_coll test_coll_exec test_coll_times" [colls]="test_colls_cases test_colls")
declare -A common=([group]="case_filter group_oracle group_world" [coll]="case_filter coll_random" [colls]="case_filter coll_random colls_world")

# compile TREE SOURCE OBJECT
compile() {
	${CC:-cc} -std=gnu11 -O2 -D_GNU_SOURCE -I"$1/include" -I"$1/lib" -c -o "$3" "$2"
}

# link_programs TEST FOLDER: of the folder's objects and the programs' own
link_programs() {
	local program
	for program in ${programs[$1]}; do
		${CC:-cc} -o "$2/$program" "$2"/*.o "$dir/$1/$program.o" -lcmocka || return 1
	done
}

# run_programs TEST FOLDER: until one fails; one that never ends does so after $limit seconds, if that is set
run_programs() {
	local program
	for program in ${programs[$1]}; do
		timeout "${limit:-0}" "$2/$program" || return 1
	done
}

# sound_objects TEST: of the library and the sources in common in $dir/TEST/sound, of the programs in $dir/TEST
sound_objects() {
	local at=$dir/$1/sound source name
	mkdir -p "$at"
	for source in "$root/lib/${library[$1]}"/*.c "$root/lib/core/wire"/*.c; do
		compile "$root" "$source" "$at/$(basename "$source" .c).o" || return 1
	done
	for name in ${common[$1]}; do
		compile "$root" "$root/test/unit/$name.c" "$at/$name.o" || return 1
	done
	for name in ${programs[$1]}; do
		compile "$root" "$root/test/unit/$name.c" "$dir/$1/$name.o" || return 1
	done
	link_programs "$1" "$at"
}

# mutant_programs TEST NAME PATCH: in $dir/TEST/NAME, of the sound objects but the one that is patched
mutant_programs() {
	local at=$dir/$1/$2 source
	source=$(sed -n 's/^+++ b\///p' "$3")
	mkdir -p "$at" && (cd "$root" && cp -r --parents include "lib/${library[$1]}" lib/core/wire lib/base "$at/") && cp "$dir/$1/sound"/*.o "$at/" &&
		(cd "$at" && patch -s -F0 -p1 <"$3") && compile "$at" "$at/$source" "$at/$(basename "$source" .c).o" &&
		link_programs "$1" "$at"
}

mutant() { # TEST PATCH
	local name log=$dir/log.$BASHPID
	name=$(basename "$2" .patch)
	mutant_programs "$1" "$name" "$2" >"$log" 2>&1 || {
		not_ok "$1_mutant__${name//-/_}" "the patch does not apply, or compile" "$log"
		return
	}
	# what crashes or never ends is noticed as well; the first test that fails is enough
	local first limit=60
	local -x CMOCKA_TEST_ABORT=1
	first=$(awk -v mutant="$1/$name" '$1 == mutant {print $2}' "$noticed")
	if [ -n "$first" ] && [ -z "$record" ] && ! TEST_CASE=$first run_programs "$1" "$dir/$1/$name" >"$log" 2>&1; then
		ok "$1_mutant__${name//-/_}"
	elif run_programs "$1" "$dir/$1/$name" >"$log" 2>&1; then
		not_ok "$1_mutant__${name//-/_}" "no test noticed it"
	else
		ok "$1_mutant__${name//-/_}"
		[ -z "$record" ] || sed -n "s|^\[ RUN *\] |$1/$name |p" "$log" | tail -n 1 >"$dir/$1-$name.noticed"
	fi
}

for test in group coll colls; do
	if sound_objects $test >"$dir/log" 2>&1 && run_programs $test "$dir/$test/sound" >"$dir/log" 2>&1; then
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
