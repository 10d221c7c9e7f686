#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: docs.sh BUILD_DIR
# Do the documents say what the code does? docs.py, beside this file, asks that of their text, and
# says how command blocks are marked. Here the blocks that are to be run are run, as a reader would
# who pastes them one after the other: README's two nodes, what is measured between them, and its
# example; configurations are accepted (the ready-made ones of dpdk-config too); pages of the
# reference and manual pages can be made. One line a check: "ok NAME", "not ok NAME why" or
# "ok NAME # SKIP why"; all other lines begin with "# ". Exit code 0 if nothing failed. README's
# blocks need root, two CPUs and 256 free hugepages of 2 MiB. Nothing of them is left behind.
set -u

if [ $# -ne 1 ] || [ ! -x "$1/app/pmx-dpdk" ] || [ ! -f "$1/build.ninja" ]; then
	echo "Usage: $0 BUILD_DIR, a meson build directory with app/pmx-dpdk" >&2
	exit 2
fi
build=$(realpath "$1")
top=$(realpath "$(dirname "$0")/../..")
dpdk=$build/app/pmx-dpdk
dir=$(mktemp -d /tmp/pmx-docs-test.XXXXXX) || exit 2
name=docs$$n # the instances of README: name0 and name1
port=$((20000 + $$ % 20000))
terminals=() # process groups of blocks that run until they are stopped
running=     # that of the block that is run to its end
failed=0

left_behind() {
	local path
	for path in /dev/hugepages/"$name"[01]map_* /run/pmx-dpdk/"$name"[01].pid /run/pmx-dpdk/"$name"[01].sock \
		/var/run/dpdk/"$name"[01]; do
		[ ! -e "$path" ] || echo "$path"
	done
}

stop_all() {
	local group
	trap '' INT TERM # timeout(1) sends it twice: the second must not end this
	for group in $running ${terminals[@]+"${terminals[@]}"}; do
		kill -9 -- "-$group" 2>/dev/null && wait "$group" 2>/dev/null
	done
	left_behind | xargs -r rm -rf
	rm -rf "$dir"
}
trap stop_all EXIT
trap 'exit 130' INT TERM

# check NAME COMMAND...: passes if COMMAND does; its first line of output says why not
check() {
	local what=$1 why
	shift
	if "$@" >"$dir/check" 2>&1; then
		echo "ok $what"
		return 0
	fi
	why=$(head -1 "$dir/check")
	echo "not ok $what ${why:-failed}"
	sed -n '2,20s/^/# /p' "$dir/check"
	failed=1
	return 1
}

skip() { # NAME WHY
	echo "ok $1 # SKIP $2"
}

text() { # CHECK [ARGUMENTS...]
	python3 "$top/test/system/docs.py" "$1" "$top" "$build" "${@:2}"
}

# the command of doc/README.md, as it stands there, in a tree that nothing was built in
reference_pages() {
	local command
	command=$(grep -o '`[^`]*doxygen doc/Doxyfile`' "$top/doc/README.md" | tr -d '`')
	[ -n "$command" ] || { echo "doc/README.md has no doxygen command"; return 1; }
	mkdir -p "$dir/tree/doc" && cp -r "$top/include" "$dir/tree" && cp "$top/doc/Doxyfile" "$dir/tree/doc" || return 1
	(cd "$dir/tree" && bash -c "$command") && [ -f "$dir/tree/pages/html/index.html" ]
}

# who installs the library is told of ldconfig wherever that is said
ldconfig_is_named() {
	! grep -rn 'meson install' "$top/README.md" "$top"/doc/*.md "$top"/doc/*/*.md "$top"/dpdk-config | grep -v ldconfig
}

# the pages that the build makes: one for each function of the public headers, which shows it and no other, and those of the headers and of the configuration
function_pages() {
	local name page
	mkdir "$dir/man"
	for page in "$build"/man3/*.3 "$build"/pmx-dpdk.ini.5; do
		grep -q '^\.so man3/' "$page" && { [ -f "$build/$(sed -n 's/^\.so //p' "$page")" ] && continue || { echo "$page leads nowhere"; return 1; }; }
		name=$(basename "$page")
		LC_ALL=C.UTF-8 man --warnings -P cat -l "$page" >"$dir/man/$name" 2>"$dir/man/said" && [ ! -s "$dir/man/said" ] || { cat "$page" "$dir/man/said"; return 1; }
		[ "$(wc -l <"$dir/man/$name")" -lt 200 ] || [[ $name = libpmx*.3 || $name = *.5 ]] || { echo "$name is too long"; return 1; }
	done
	for name in $(sed -n '/^PMX_API/,/;/p' "$top"/include/pmx/*.h | tr '\n' ' ' | grep -oE 'pmx_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u); do
		grep -q "^NAME" "$dir/man/$name.3" && grep -q "^DESCRIPTION" "$dir/man/$name.3" && [ "$(grep -c "^ *[a-z].*[ *]pmx_[a-z_]*(\S*\|^ *[a-z].*[ *]pmx_[a-z_]*($" <(sed -n '/^SYNOPSIS/,/^DESC/p' "$dir/man/$name.3"))" -eq 1 ] ||
			{ echo "man3/$name.3 does not show that function alone"; return 1; }
	done
	for name in $("$build/app/pmx-dpdk" --config-doc | sed -n 's/^| `\([a-z_]*\)` .*/\1/p'); do
		grep -qw "$name" "$dir/man/pmx-dpdk.ini.5" || { echo "pmx-dpdk.ini.5 has no $name"; return 1; }
	done
	MANPATH=$build man -P cat 3 pmx_send 2>&1 | cmp - "$dir/man/pmx_send.3"
}

manual_pages() {
	local page said
	for page in "$top"/doc/man/*.1; do
		said=$(MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
		[ -z "$said" ] || { echo "$(basename "$page"): $said"; return 1; }
	done
}

# ------------------------------------------------------------------ configurations, commands
# the blocks of every page: $dir/PAGE/blocks and $dir/PAGE/work, where they are run
marked_blocks() {
	text blocks "$dir" "$name" "$port"
}

configurations() {
	local file count=0
	for file in "$dir"/*/work/*.ini "$top"/dpdk-config/examples/*.ini; do
		[ -f "$file" ] || continue
		count=$((count + 1))
		"$dpdk" --check "$file" >"$dir/out" 2>&1 || { cat "$dir/out"; return 1; }
	done
	[ $count -gt 0 ] || { echo "no configuration is marked"; return 1; }
}

# the rest of a block: every program that it started has ended well
all_ended='for job in $(jobs -p); do wait "$job"; done'

run_block() { # FILE: to its end, in the page's directory; each of its commands must end with 0
	local log=${1%.run}.log code
	(cd "$(dirname "$1")/../work" && exec timeout -k 10 400 bash -ec "$(cat "$1")
$all_ended") >"$log" 2>&1 &
	running=$!
	wait "$running"
	code=$?
	kill -9 -- "-$running" 2>/dev/null # what a block that failed has left in the background
	running=
	[ $code -ne 0 ] || return 0
	tail -1 "$log"
	sed 's/^/    /' "$1" "$log"
	return 1
}

start_block() { # FILE: in the background, until it says that it is ready
	local log=${1%.until}.log try
	# timeout makes a process group of its own, and passes the signal of stop_terminals on to it
	(cd "$(dirname "$1")/../work" && exec timeout -k 10 800 bash -c "$(cat "$1")") >"$log" 2>&1 &
	terminals+=($!)
	for ((try = 0; try < 300; try++)); do
		! grep -q ready "$log" || return 0
		kill -0 $! 2>/dev/null || break
		sleep 0.1
	done
	cat "$log"
	return 1
}

run_page() { # PAGE: its blocks in their order, up to the first that fails
	local page=$1 block
	for block in "$dir/$page"/blocks/*; do
		case $block in
		*.run) check "docs__${page}_block_$(basename "$block" .run)_runs" run_block "$block" || return 1 ;;
		*.until) check "docs__${page}_block_$(basename "$block" .until)_starts" start_block "$block" || return 1 ;;
		esac
	done
}

# as Ctrl-C does
stop_terminals() {
	local group code=0
	for group in "${terminals[@]}"; do
		kill -INT "$group" && wait "$group" || { echo "a program that was stopped ended with an error"; code=1; }
	done
	terminals=()
	return $code
}

nothing_is_left() {
	left_behind >"$dir/left"
	cat "$dir/left"
	[ ! -s "$dir/left" ]
}

# ------------------------------------------------------------------ the example
# against an installed libpmx, by pkg-config, as an application outside the tree is built
compile_example() {
	local pc flags
	DESTDIR= meson install -C "$build" --no-rebuild --quiet --destdir "$dir/root" || return 1
	pc=$(find "$dir/root" -name libpmx.pc)
	[ -n "$pc" ] || { echo "no libpmx.pc was installed"; return 1; }
	libs=$(dirname "$(dirname "$pc")")
	# the prefix of this one file is below the staging directory; DPDK's is not
	sed -i "s|^prefix=|prefix=$dir/root|" "$pc"
	flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs libpmx) || return 1
	# shellcheck disable=SC2086
	"${CC:-cc}" -std=c11 -Wall -Wextra -Werror -O1 -o "$dir/example" "$top/doc/example.c" $flags
}

# without arguments it says how it is used
example_usage() {
	LD_LIBRARY_PATH=$libs timeout 30 "$dir/example" >"$dir/out" 2>&1
	[ $? -eq 2 ] && grep -q '^Usage: example INSTANCE' "$dir/out" && return 0
	cat "$dir/out"
	return 1
}

# the nodes of guide/start.md have the defaults, so their mbufs are those that limits.md tells of
default_mbufs() {
	local said
	said=$(tr '\n' ' ' <doc/reference/limits.md | grep -oE '[0-9]+ by default, [0-9]+ MiB' | cut -d' ' -f1)
	cat "$dir"/doc-guide-start/blocks/*.log | grep -qE "^mbufs +${said:-none} " && return 0
	echo "doc/reference/limits.md says '$said' mbufs, pmx-ctl stat: $(cat "$dir"/doc-guide-start/blocks/*.log | grep '^mbufs ')"
	return 1
}

# what README's last block printed: both sides
example_answers() {
	cat "$dir"/README/blocks/*.log
	[ "$(cat "$dir"/README/blocks/*.log | grep -c '^hello back from node 1 context 7$')" -eq 3 ] &&
		[ "$(cat "$dir"/README/blocks/*.log | grep -c '^hello from node 0 context ')" -eq 3 ]
}

# a node that is in no configuration: the send fails, and the example says why
example_says_why() {
	timeout 30 "$dir/README/work/example" "${name}0" 99 >"$dir/out" 2>&1
	[ $? -eq 1 ] && grep -q 'not in \[nodes\]' "$dir/out" && return 0
	cat "$dir/out"
	return 1
}

readme_as_written() {
	local free
	free=$(cat /sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages 2>/dev/null || echo 0)
	if [ "$(id -u)" -ne 0 ]; then
		skip docs__README_runs "needs root: sudo $0 $build"
	elif [ "$(nproc)" -lt 2 ]; then
		skip docs__README_runs "needs two CPUs"
	elif [ "$free" -lt 256 ]; then
		skip docs__README_runs "needs 256 free hugepages of 2 MiB, $free are: sudo dpdk-config/hugepages.sh"
	else
		if run_page README; then
			check docs__example_answers example_answers
			check docs__example_says_what_is_wrong example_says_why
		fi
		check docs__README_programs_stop stop_terminals
		if run_page doc-guide-start; then
			check docs__default_mbufs default_mbufs
		fi
		check docs__doc-guide-start_programs_stop stop_terminals
		check docs__nothing_is_left nothing_is_left
	fi
}

# ------------------------------------------------------------------
cd "$top" || exit 2
check docs__generated text generated
check docs__readme_verbs_are_the_example text example
check docs__golden_bytes text golden
check docs__links text links
check docs__paths text paths
check docs__requirements_name_what_exists text requirements
check docs__keys text keys
check docs__counters text counters
check docs__numbers text numbers
check docs__programs text programs
check docs__marks text marks
check docs__reference_pages reference_pages
check docs__ldconfig_is_named ldconfig_is_named
check docs__manual_pages manual_pages
check docs__function_pages function_pages
if check docs__marked_blocks marked_blocks; then
	check docs__configurations configurations
	# programs are called by name in doc/: they are installed there. As root nothing asks for a password
	mkdir "$dir/bin" && printf '#!/bin/sh\nexec "$@"\n' >"$dir/bin/sudo" && chmod +x "$dir/bin/sudo"
	export PATH=$dir/bin:$build/app:$PATH
	for page in doc/*.md doc/*/*.md; do
		page=${page%.md} page=${page//\//-}
		[ "$page" = doc-guide-start ] || run_page "$page"
		[ ${#terminals[@]} -eq 0 ] || check "docs__${page}_programs_stop" stop_terminals
	done
	readme_as_written
fi
if check docs__example_compiles compile_example; then
	check docs__example_says_its_usage example_usage
fi
exit $failed
