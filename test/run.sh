#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: test/run.sh [--full] [NAME...] [--build DIR] [--jobs N]
# Builds, and runs the default tier of the tests by `meson test` (some 10 minutes on two cores), with --full everything (three
# quarters of an hour), or the suites whose names match a NAME, as perf or 'test_proto*', and those that have a test of that name;
# --full runs all of their cases. N suites run beside each other (as many as CPUs, at most 4). As root it first installs what is
# missing and reserves hugepages; without root it tests what needs none, and says what it left out. The last line is "N passed,
# N failed, N skipped"; exit code 0 only if nothing failed. doc/internals/testing.md tells more.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build setup=default jobs= child=
names=() chosen=() steps=() logs=() # what is asked for, the suites that it means, steps that failed, and what meson test wrote
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT

while [ $# -gt 0 ]; do
	case $1 in
	--full) setup=full ;;
	--jobs) jobs=${2:?--jobs needs a number}; shift ;;
	--build) build=$(realpath -m "${2:?--build needs a directory}"); shift ;;
	-*) sed -n '4,9s/^#[ ]\{0,1\}//p' "$0"; [[ $1 = -h || $1 = --help ]]; exit $(($? * 2)) ;;
	*) names+=("$1") ;;
	esac
	shift
done
cd "$root" || exit 2

# step NAME COMMAND...: one before the tests, which counts if it fails; a line, and what it printed if it failed
step() {
	local name=$1 begun=$SECONDS
	shift
	printf '%-40s' "$name ..."
	if "$@" >"$log" 2>&1 </dev/null; then
		printf ' ok %6d s\n' $((SECONDS - begun))
	else
		printf ' FAILED\n'
		tail -n 60 "$log"
		steps+=("$name")
		return 1
	fi
}

# choose NAME: the suites that it names, into chosen; or those whose sources name it as a test, of which unit tests run that one
choose() {
	local found=() sources
	mapfile -t found < <(for suite in "${known[@]}"; do case $suite in $1) echo "$suite" ;; esac; done)
	if [ ${#found[@]} -eq 0 ]; then
		mapfile -t sources < <(grep -lwF -- "$1" test/unit/*.c test/system/*.sh test/system/*.c test/policy/* | sed 's|.*/||; s|\..*||')
		mapfile -t found < <(printf '%s\n' ${sources[@]+"${sources[@]}"} | grep -xF -f <(printf '%s\n' "${known[@]}") | sort -u)
		export TEST_CASE=$1
	fi
	[ ${#found[@]} -gt 0 ] || { echo "run.sh: no suite and no test is called '$1'; meson test -C $build --setup full --list shows the suites" >&2; exit 2; }
	chosen+=("${found[@]}")
}

# tested DIR ARGUMENTS...: two suites beside each other, or more where there are more CPUs, and hugepages for them
tested() {
	logs+=("$1/meson-logs/testlog-$setup.json")
	rm -f "${logs[-1]}"
	meson test -C "$1" --no-rebuild --setup "$setup" --num-processes "$jobs" --print-errorlogs "${@:2}" </dev/null &
	child=$!
	wait "$child"
}
trap '[ -z "$child" ] || { kill -TERM "$child" && wait "$child"; } 2>/dev/null; exit 130' INT TERM

: "${jobs:=$(($(nproc) < 4 ? $(nproc) : 4))}"
if [ "$(id -u)" -eq 0 ]; then
	autogroup=/proc/sys/kernel/sched_autogroup_enabled # doc/internals/testing.md, "CPU time"
	[ "$(cat $autogroup 2>/dev/null)" != 1 ] || { trap 'rm -f "$log"; echo 1 >$autogroup' EXIT; echo 0 >$autogroup; }
	step packages dpdk-config/install.sh "--tests=$setup"
	step hugepages dpdk-config/hugepages.sh $((1400 * jobs)) || { jobs=1; steps=(); step "hugepages for one suite at a time" dpdk-config/hugepages.sh; }
fi
if step "build in $build" dpdk-config/build.sh "$build"; then
	if [ ${#names[@]} -gt 0 ]; then
		listed=$(meson test -C "$build" --setup full --list 2>/dev/null) # PROJECT:LABEL+LABEL / NAME
		mapfile -t known < <(sed -n 's|^.* / ||p' <<<"$listed")
		for name in "${names[@]}"; do choose "$name"; done
		# what the default tier leaves out may be asked for by its name
		sed -n 's|^.*[:+]full / ||p' <<<"$listed" | grep -qxF -f <(printf '%s\n' "${chosen[@]}") && setup=full
	fi
	tested "$build" ${chosen[@]+"${chosen[@]}"}
fi
if [ $setup = full ] && [ ${#names[@]} -eq 0 ] && step "build with sanitizers" dpdk-config/build.sh "$build-asan" -Dsanitize=true -Doptimization=1 -Dwerror=true; then
	tested "$build-asan"
fi
python3 test/report.py ${logs[@]+"${logs[@]}"} ${steps[@]+"${steps[@]}"}
