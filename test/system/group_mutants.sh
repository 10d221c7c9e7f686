#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: group_mutants.sh BUILD_DIR
# timeout: 300
# Bugs that were put into lib/group on purpose (test/unit/group_mutants), each alone: the histories and cases of test_group.c must
# notice them, and must notice nothing in the sound code that is compiled in the same way.
set -u
. "$(dirname "$0")/common.bash"
root=$(cd "$(dirname "$0")/../.." && pwd)

# compile TREE PROGRAM
compile() {
	(cd "$1" && ${CC:-cc} -std=gnu11 -O1 -D_GNU_SOURCE -Iinclude -Ilib -o "$2" "$root/test/unit/test_group.c" lib/group/*.c -lcmocka)
}

# tree NAME: a copy of what is needed
tree() {
	mkdir -p "$dir/$1/lib"
	cp -r "$root/include" "$dir/$1/"
	cp -r "$root/lib/group" "$root/lib/wire" "$dir/$1/lib/"
}

mutant() { # PATCH
	local name log=$dir/log.$BASHPID
	name=$(basename "$1" .patch)
	tree "$name"
	(cd "$dir/$name" && patch -s -F0 -p1 <"$1" && compile . mutant) >"$log" 2>&1 || {
		not_ok "group_mutant__${name//-/_}" "the patch does not apply, or compile" "$log"
		return
	}
	# what crashes or never ends is noticed as well, but by the program's own word if it can be
	GROUP_HISTORIES=300 timeout 120 "$dir/$name/mutant" >"$log" 2>&1
	case $? in
	0) not_ok "group_mutant__${name//-/_}" "no test noticed it" ;;
	*) ok "group_mutant__${name//-/_}" ;;
	esac
}

tree sound
if compile "$dir/sound" sound >"$dir/log" 2>&1 && "$dir/sound/sound" >"$dir/log" 2>&1; then
	ok group_mutants__sound_code_passes
else
	not_ok group_mutants__sound_code_passes "" "$dir/log"
fi
for patch in "$root"/test/unit/group_mutants/*.patch; do
	beside mutant "$patch"
done
all_beside
exit $failed
