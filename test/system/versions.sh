#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: versions.sh BUILD_DIR
# Primaries and applications of this build and of an older one, which have the same WIRE_VERSION and CHANNEL_ABI, work with each
# other: an application on another build's primary, as a thin client and as a secondary, and nodes of different builds. The old
# build is PMX_OLD_BUILD; without it, that of the commit that versions.base names is made from git. A change that raises one of
# the two numbers names a later commit there.
set -u
. "$(dirname "$0")/common.bash"

root=$(cd "$(dirname "$0")/../.." && pwd)
need_hugepages versions 192
new=$build
program=$new/test/versions

# number NAME TREE: what it is defined as there
number() { grep -rhE "^#define $1 +[0-9]" "$2/lib" | awk '{print $3}'; }

# library TREE: the file that its libpmx is
library() { sed -nE "s/^  version: '(.*)',$/libpmx.so.\1/p" "$1/meson.build"; }

# The build of the commit in versions.base: what is needed of it
make_old() {
	local base name
	base=$(cat "$root/test/system/versions.base")
	git -c safe.directory="*" -C "$root" cat-file -e "$base^{commit}" 2>/dev/null || skip_all versions "no git history with $base; PMX_OLD_BUILD is not set"
	mkdir "$dir/source"
	git -c safe.directory="*" -C "$root" archive "$base" | tar -x -C "$dir/source" || skip_all versions "git cannot give $base"
	for name in WIRE_VERSION CHANNEL_ABI; do
		[ "$(number $name "$root")" = "$(number $name "$dir/source")" ] ||
			skip_all versions "$name differs from that of $base: let versions.base name a later commit"
	done
	old=$dir/old
	(cd "$dir/source" && export CCACHE_BASEDIR=$dir && meson setup "$old" && ninja -C "$old" app/pmx-dpdk "lib/$(library "$dir/source")" &&
		# what secondaries open; builds of before 0.2 have it in libpmx
		{ ! grep -q "shared_library('pmx-dpdk'" lib/meson.build || ninja -C "$old" "lib/$(library "$dir/source" | sed 's/libpmx/libpmx-dpdk/')"; }) >"$dir/make.log" 2>&1 ||
		{ not_ok versions__the_old_build "" "$dir/make.log"; exit 1; }
}

config() { # NODE
	node_ini "$1" <<-END
		mtu = 4000
		[engine]
		idle = adaptive
		[limits]
		mbufs = 8192
		contexts = 8
	END
}

# app BUILD ARGUMENTS...: the program, with that build's library
app() {
	local lib=$1/lib
	shift
	LD_LIBRARY_PATH=$lib timeout 60 "$program" "$@"
}

# exchange NAME WAY BUILD_0 BUILD_1: an application on node 0 with one on node 1
exchange() {
	local server
	PMX_ATTACH=$2 app "$4" serve "${tag}1" 1 >"$dir/serve.log" 2>&1 &
	server=$!
	pids+=("$server")
	if ! wait_for 60 grep -q '^serving' "$dir/serve.log"; then
		not_ok "$1" "no server" "$dir/serve.log"
		end "$server"
		return
	fi
	PMX_ATTACH=$2 app "$3" ask "${tag}0" 1 1:1 >"$dir/ask.log" 2>&1
	local code=$?
	[ $code -eq 0 ] || end "$server"
	wait "$server" || code=$((code + $?))
	# each had the library that was meant
	grep -q "^by $3/" "$dir/ask.log" && grep -q "^by $4/" "$dir/serve.log" || code=1
	cat "$dir/serve.log" >>"$dir/ask.log"
	[ $code -eq 0 ] && ok "$1" || not_ok "$1" "exit code $code" "$dir/ask.log"
}

# nodes BUILD_0 BUILD_1: a primary of each
nodes() {
	build=$1 primary 0 -l 0 -m 128 && primaries=("$last") || return 1
	build=$2 primary 1 -l 0 -m 128 && primaries+=("$last")
}

ends() {
	local pid
	for pid in "${primaries[@]}"; do
		end "$pid"
	done
}

old=${PMX_OLD_BUILD:-}
if [ -n "$old" ]; then
	old=$(cd "$old" && pwd) || exit 2
else
	make_old
fi
config 0
config 1

# interface SOURCE: which one that tree's programs are compiled for
interface() { sed -nE 's/^#define PMX_VERSION +"([0-9]+\.[0-9]+)\..*/\1/p' "$1/include/pmx/pmx.h"; }

# described NAME SOURCE FOLDER: its library without DPDK, which is in that folder of the build, with what tells of types
described() {
	(cd "$2" && meson setup "$dir/$1" -Ddebug=true && ninja -C "$dir/$1" "$3/$(library "$2")") >"$dir/make.log" 2>&1
}

# Within one interface programs run with any later library: no function and no structure changes.
if [ ! -d "$dir/source" ] || [ ! -x "$(command -v abidiff)" ]; then
	echo "ok versions__interface # SKIP needs abidiff, and no PMX_OLD_BUILD: sudo dpdk-config/install.sh --tests=full"
elif [ "$(interface "$root")" != "$(interface "$dir/source")" ]; then
	ok "versions__interface # another one, with another soname: $(interface "$dir/source"), now $(interface "$root")"
elif [ -d "$dir/source/lib/thin" ] && thin=lib/thin || thin=lib; described old_described "$dir/source" "$thin" && described new_described "$root" lib; then
	# what headers only declare is the library's own
	grep -ho '^struct pmx_[a-z_]*;' "$root"/include/pmx/*.h | sort -u | sed 's/^struct \(.*\);$/[suppress_type]\nname = \1/' >"$dir/opaque"
	abidiff --suppressions "$dir/opaque" --no-added-syms --headers-dir1 "$dir/source/include" --headers-dir2 "$root/include" \
		"$dir/old_described/$thin/libpmx.so" "$dir/new_described/lib/libpmx.so" >"$dir/abidiff.log" 2>&1 && ok versions__interface ||
		not_ok versions__interface "it is not what it was at $(cat "$root/test/system/versions.base"): let the second number of the version grow; \
or, if all that changed is longer structures with a size, let versions.base name a later commit" "$dir/abidiff.log"
else
	not_ok versions__interface "no build" "$dir/make.log"
fi

if nodes "$new" "$new"; then
	for way in thin secondary; do
		exchange versions__an_old_application_on_a_new_primary_$way $way "$old" "$new"
		exchange versions__a_new_one_asks_it_$way $way "$new" "$old"
	done
	ends
else
	not_ok versions__new_primaries_start "" "$dir/1.log"
fi
if nodes "$old" "$old"; then
	for way in thin secondary; do
		exchange versions__a_new_application_on_an_old_primary_$way $way "$new" "$old"
		exchange versions__an_old_one_asks_it_$way $way "$old" "$new"
	done
	ends
else
	not_ok versions__old_primaries_start "" "$dir/1.log"
fi
if nodes "$old" "$new"; then
	exchange versions__an_old_node_asks_a_new_one thin "$old" "$new"
	exchange versions__an_old_node_with_new_applications thin "$new" "$new"
	ends
else
	not_ok versions__nodes_of_two_builds_start "" "$dir/1.log"
fi
if nodes "$new" "$old"; then
	exchange versions__a_new_node_asks_an_old_one thin "$new" "$old"
	ends
else
	not_ok versions__nodes_of_two_builds_start "" "$dir/1.log"
fi
exit $failed
