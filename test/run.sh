#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: test/run.sh [--quick]
# Builds and runs every test; the last line is "N passed, N failed, N skipped". Exit code 0 only if
# nothing failed. --quick leaves out the build with sanitizers. As root it first installs what is
# missing and reserves hugepages.
#
# Suites, each found by its place:
#   test/unit    build/test/test_*: cmocka programs; each cmocka test counts
#   test/policy  *.sh BUILD_DIR/lib: one test by its exit code, or what it prints as below
#   test/system  *.sh BUILD_DIR: prints "ok NAME", "not ok NAME why", "skip NAME why"; exit code 0
#                or 1; another line is its output. A failure without "not ok" counts as one.
# A script may declare, in its first 30 lines, "# timeout: SECONDS" (default 300), and a system
# script "# sanitize: yes": it then runs with the sanitizers' build as well, and "# beside: yes": it
# needs one CPU, no hugepages and no quiet. These, unit tests and policies run beside each other, as
# many as there are CPUs. A file without "#!" is no suite: suites may source it.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root" || exit 2
build=$root/build
build_asan=$root/build-asan
default_timeout=300
build_timeout=1800
quick=false

usage() {
	sed -n '4,20s/^#[ ]\{0,1\}//p' "$0"
}

for argument; do
	case $argument in
	--quick) quick=true ;;
	--help | -h) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done

passed=0
failed=0
skipped=0
summary=()
skips=()
cpus=$(nproc)
started=0
declare -A running=() # "KIND SECONDS NUMBER START NAME" by process id
work=$(mktemp -d "${TMPDIR:-/tmp}/pmx-test.XXXXXX") || exit 2

# timeout(1) hands the signal to the suite's process group
clean_up() {
	[ ${#running[@]} -eq 0 ] || { kill -TERM "${!running[@]}" && wait "${!running[@]}"; } 2>/dev/null
	rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

# ------------------------------------------------------------------ counting

# Each prints "PASSED FAILED SKIPPED" of an output. cmocka's totals are one line a group.
count_cmocka() {
	awk '
		/^\[  PASSED  \] [0-9]+ test/ { p += $4 }
		/^\[  FAILED  \] .*[0-9]+ test\(s\), listed below/ { f += total() }
		/^\[  SKIPPED \] .*[0-9]+ test\(s\), listed below/ { s += total() }
		function total() { match($0, /[0-9]+ test\(s\)/); return substr($0, RSTART) + 0 }
		END { print p + 0, f + 0, s + 0 }' "$1"
}

count_script() {
	awk '
		$1 == "ok" { p++ }
		$1 == "not" && $2 == "ok" { f++ }
		$1 == "skip" { s++ }
		END { print p + 0, f + 0, s + 0 }' "$1"
}

note_skips() {
	local name=$1 out=$2 line

	while IFS= read -r line; do
		skips+=("$name: $line")
	done < <(sed -n 's/^skip //p' "$out"
		awk '/^\[  SKIPPED \] .*listed below/ {list = 1; next}
			list && /^\[  SKIPPED \]/ {print $4 " (cmocka)"}' "$out")
}

why_ended() {
	case $1 in
	124) echo "it did not end within $2 s" ;;
	137) echo "it was killed after $2 s, or by something else" ;;
	13[2-9]) echo "it crashed: signal $(($1 - 128))" ;;
	*) echo "it ended with exit code $1" ;;
	esac
}

# start NAME SECONDS KIND COMMAND...: run it beside what runs. KIND is cmocka, script, or step:
# preparation, which counts only if it fails
start() {
	local name=$1 seconds=$2 kind=$3

	shift 3
	started=$((started + 1))
	timeout -k 20 "$seconds" "$@" >"$work/out.$started" 2>&1 </dev/null &
	running[$!]="$kind $seconds $started $(date +%s%N) $name"
}

# finish: wait for one of those that run, and count it: one line; its output if it failed
finish() {
	local pid code name seconds kind number start out p=0 f=0 s=0 time why=''

	wait -n -p pid "${!running[@]}" 2>/dev/null
	code=$?
	read -r kind seconds number start name <<<"${running[$pid]}"
	unset "running[$pid]"
	out=$work/out.$number
	time=$((($(date +%s%N) - start) / 100000000))
	[ "$kind" = step ] || read -r p f s < <("count_$kind" "$out")
	if [ $code -ne 0 ] && [ "$f" -eq 0 ]; then
		f=1
		why=$(why_ended $code "$seconds")
	elif [ "$kind" != step ] && [ $((p + f + s)) -eq 0 ]; then
		# a policy is one test by itself; other suites must have tested something
		case $name in
		policy/*) p=1 ;;
		*) f=1 why="it ran no test" ;;
		esac
	fi
	note_skips "$name" "$out"
	passed=$((passed + p))
	failed=$((failed + f))
	skipped=$((skipped + s))
	time=$((time / 10)).$((time % 10))
	summary+=("$(printf '%-36s %7d %7d %8d %8s' "$name" "$p" "$f" "$s" "$time")")
	if [ "$f" -eq 0 ]; then
		[ "$kind" = step ] || why="$p passed, $s skipped"
		printf '%-36s ok     %8s s  %s\n' "$name" "$time" "$why"
		return 0
	fi
	printf '%-36s FAILED %8s s  %s\n' "$name" "$time" "${why:-$f of $((p + f))}"
	echo "--- output of $name"
	cat "$out"
	echo "--- end of $name"
	return 1
}

# suite NAME SECONDS KIND COMMAND...: run it alone. Its exit code: whether it failed
suite() {
	all_finish
	start "$@"
	finish
}

# beside NAME SECONDS KIND COMMAND...: run it beside others of these
beside() {
	[ ${#running[@]} -lt "$cpus" ] || finish
	start "$@"
}

all_finish() {
	while [ ${#running[@]} -gt 0 ]; do
		finish
	done
}

# ------------------------------------------------------------------ suites

# declared FILE KEY: the value of "# KEY: VALUE" near the top
declared() {
	sed -n "1,30s/^# $2: *//p" "$1" | head -n 1
}

is_suite() {
	[ -f "$1" ] && [ "$(head -c 2 "$1")" = "#!" ]
}

build_in() {
	local dir=$1

	shift
	# shellcheck disable=SC2016
	suite "build $(basename "$dir")" "$build_timeout" step bash -c '
		dir=$1
		shift
		if [ ! -f "$dir/build.ninja" ]; then
			meson setup "$dir" -Dwerror=true "$@" || exit 1
		fi
		ninja -C "$dir"' - "$dir" "$@"
}

unit() {
	local dir=$1 label=$2 program any=false run

	for program in "$dir"/test/test_*; do
		if [ ! -f "$program" ] || [ ! -x "$program" ]; then
			continue
		fi
		any=true
		run=("$program")
		# DPDK's own start leaves memory that nobody frees; who has no DPDK frees all
		[ -z "$label" ] || ldd "$program" | grep -q librte_ || run=(env ASAN_OPTIONS="$ASAN_OPTIONS:detect_leaks=1" "$program")
		beside "unit/$(basename "$program")$label" "$default_timeout" cmocka "${run[@]}"
	done
	$any || suite "unit$label" 10 step bash -c "echo 'no test program in $dir/test'; exit 1"
}

# script HOW FOLDER/NAME.sh ARGUMENT LABEL: HOW is suite or beside
script() {
	local script=test/$2 seconds run

	seconds=$(declared "$script" timeout)
	run=("$script")
	[ -x "$script" ] || run=(bash "$script")
	"$1" "${2%.sh}$4" "${seconds:-$default_timeout}" script "${run[@]}" "$3"
}

# policies ARGUMENT
policies() {
	local path

	for path in test/policy/*.sh; do
		! is_suite "$path" || script beside "policy/$(basename "$path")" "$1" ""
	done
}

# systems ARGUMENT LABEL [sanitize]: first those that run beside each other
systems() {
	local path how

	for how in beside suite; do
		for path in test/system/*.sh; do
			is_suite "$path" || continue
			[ -z "${3:-}" ] || [ "$(declared "$path" sanitize)" = yes ] || continue
			[ "$([ "$(declared "$path" beside)" = yes ] && echo beside || echo suite)" = $how ] || continue
			script $how "system/$(basename "$path")" "$1" "$2"
		done
	done
	all_finish
}

sanitized() {
	# what is used wrongly ends the program; leaks: see unit
	export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=0:abort_on_error=0}
	export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
	build_in "$build_asan" -Dsanitize=true -Doptimization=1 || return # as fast as with 3, and built in half the time
	unit "$build_asan" " (sanitizers)"
	systems "$build_asan" " (sanitizers)" sanitize
}

report() {
	local line

	printf '\n%-36s %7s %7s %8s %8s\n' "suite" "passed" "failed" "skipped" "seconds"
	printf '%s\n' "${summary[@]}"
	if [ ${#skips[@]} -gt 0 ]; then
		printf '\n!!! SKIPPED, so not tested:\n'
		for line in "${skips[@]}"; do
			echo "!!! $line"
		done
	fi
	printf '\n%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
}

if [ "$(id -u)" -eq 0 ]; then
	suite "packages" 1800 step dpdk-config/install.sh --tests
	suite "hugepages" 60 step dpdk-config/hugepages.sh
fi
if build_in "$build"; then
	unit "$build" ""
	policies "$build/lib"
	systems "$build" ""
fi
$quick || sanitized
report
[ $failed -eq 0 ]
