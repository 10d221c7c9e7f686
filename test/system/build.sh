#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: build.sh BUILD_DIR
# dpdk-config/build.sh, by which the quickstart and the tests build: whatever was in the directory before, it ends with all
# parts, and what is missing is named. In a copy of the tree, of which one small library is built.
set -u
. "$(dirname "$0")/common.bash"
root=$(cd "$(dirname "$0")/../.." && pwd)
tree=$dir/tree
target=lib/libwire.a

mkdir "$tree"
(cd "$root" && find . -path './build*' -prune -o -path ./.git -prune -o -type f -print0 | tar --null -T - -cf -) | tar -C "$tree" -xf -
chmod 755 "$dir" "$tree"

# built NAME PATTERN [TREE [USER]]: it ends with 0, says PATTERN, and the library is there
built() {
	local code=0 tree=${3:-$tree} as=()
	[ -z "${4:-}" ] || as=(setpriv --reuid "$4" --regid "$4" --clear-groups env "HOME=$dir")
	"${as[@]}" "$tree/dpdk-config/build.sh" "$tree/build" $target >"$dir/log" 2>&1 </dev/null || code=$?
	if [ $code -eq 0 ] && grep -qE -- "$2" "$dir/log" && [ -f "$tree/build/$target" ]; then
		ok "build__$1"
	else
		not_ok "build__$1" "exit code $code" "$dir/log"
	fi
}

# option NAME: its value in that build directory
option() {
	meson introspect --buildoptions "$tree/build" | sed -n 's/.*"name": "'"$1"'", "value": "\([^"]*\)".*/\1/p'
}

built new_directory 'Linking static target'
built second_run_does_nothing 'no work to do'
meson configure "$tree/build" -Dmpi=disabled -Dbuildtype=debug -Dmachine=native
built other_options 'set: .*-Dmpi=enabled'
[ "$(option mpi) $(option buildtype)" = "enabled release" ] && ok build__parts_are_on_again || not_ok build__parts_are_on_again "mpi is $(option mpi)"
[ "$(option machine)" = native ] && ok build__other_options_stay || not_ok build__other_options_stay "machine is '$(option machine)'"

mv "$tree" "$dir/moved"
built moved_folder 'made anew' "$dir/moved"
mv "$dir/moved" "$tree"
rm -rf "$tree/build/meson-info"
"$tree/dpdk-config/build.sh" "$tree/build" $target >"$dir/log" 2>&1 && not_ok build__foreign_directory_is_left "it was taken" ||
	{ grep -q 'was not made by meson' "$dir/log" && [ -f "$tree/build/build.ninja" ] && ok build__foreign_directory_is_left || not_ok build__foreign_directory_is_left "" "$dir/log"; }
rm -rf "$tree/build"

# a package that is not there stops the configuration, and is named, with what to do
mkdir "$dir/pc"
pkg-config --variable pc_path pkg-config | tr : '\n' | while read -r folder; do
	[ ! -d "$folder" ] || find "$folder" -name '*.pc' ! -name 'ompi*' -exec ln -sf {} "$dir/pc/" \;
done
PKG_CONFIG_LIBDIR=$dir/pc "$tree/dpdk-config/build.sh" "$tree/build" $target >"$dir/log" 2>&1 && not_ok build__missing_package "it went on" ||
	{ grep -q 'libopenmpi-dev is not installed: dpdk-config/install.sh' "$dir/log" && ok build__missing_package || not_ok build__missing_package "" "$dir/log"; }
rm -rf "$tree/build"

[ "$(id -u)" -eq 0 ] || skip_all build__of_another_user "needs root"
built of_root 'Linking static target'
built of_another_user_up_to_date 'used as it is' "$tree" 65534
echo >>"$tree/lib/core/wire/wire.c"
setpriv --reuid 65534 --regid 65534 --clear-groups "$tree/dpdk-config/build.sh" "$tree/build" $target >"$dir/log" 2>&1 && not_ok build__of_another_user_old "it was used" ||
	{ grep -q "sudo chown -R nobody $tree/build" "$dir/log" && ok build__of_another_user_old || not_ok build__of_another_user_old "" "$dir/log"; }
chown -R 65534:65534 "$tree"
built root_builds_as_the_owner 'Linking static target'
[ -z "$(find "$tree/build" ! -uid 65534 -print -quit)" ] && ok build__stays_the_owners || not_ok build__stays_the_owners "$(find "$tree/build" ! -uid 65534 | head -1) is not"
built and_so_can_the_owner 'no work to do' "$tree" 65534
exit $failed
