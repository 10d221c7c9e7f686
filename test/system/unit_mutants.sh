#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: unit_mutants.sh BUILD_DIR
# timeout: 600
# Bugs that were put into lib/group and lib/coll on purpose (test/unit/group_mutants, coll_mutants), each alone: the histories and
# cases of test_group.c and test_coll.c must notice them, and must notice nothing in the sound code that is compiled in the same way.
set -u
. "$(dirname "$0")/common.bash"
root=$(cd "$(dirname "$0")/../.." && pwd)
# as many as notice every bug; the programs' own numbers are for sound code
export GROUP_HISTORIES=200 COLL_HISTORIES=200

# compile LIBRARY TREE PROGRAM
compile() {
	(cd "$2" && ${CC:-cc} -std=gnu11 -O1 -D_GNU_SOURCE -Iinclude -Ilib -o "$3" "$root/test/unit/test_$1.c" lib/"$1"/*.c -lcmocka)
}

# tree LIBRARY NAME: a copy of what is needed
tree() {
	mkdir -p "$dir/$1/$2/lib"
	cp -r "$root/include" "$dir/$1/$2/"
	cp -r "$root/lib/$1" "$root/lib/wire" "$dir/$1/$2/lib/"
}

mutant() { # LIBRARY PATCH
	local name log=$dir/log.$BASHPID
	name=$(basename "$2" .patch)
	tree "$1" "$name"
	(cd "$dir/$1/$name" && patch -s -F0 -p1 <"$2" && compile "$1" . mutant) >"$log" 2>&1 || {
		not_ok "$1_mutant__${name//-/_}" "the patch does not apply, or compile" "$log"
		return
	}
	# what crashes or never ends is noticed as well, but by the program's own word if it can be
	if timeout 120 "$dir/$1/$name/mutant" >"$log" 2>&1; then
		not_ok "$1_mutant__${name//-/_}" "no test noticed it"
	else
		ok "$1_mutant__${name//-/_}"
	fi
}

for library in group coll; do
	tree $library sound
	if compile $library "$dir/$library/sound" sound >"$dir/log" 2>&1 && "$dir/$library/sound/sound" >"$dir/log" 2>&1; then
		ok ${library}_mutants__sound_code_passes
	else
		not_ok ${library}_mutants__sound_code_passes "" "$dir/log"
	fi
	for patch in "$root"/test/unit/${library}_mutants/*.patch; do
		beside mutant $library "$patch"
	done
done
all_beside
exit $failed
