#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# What is built by the defaults runs on every x86-64-v2 CPU: instructions of later ones (AVX and all that is encoded as AVX
# is, BMI, MOVBE, LZCNT, transactions) are only in the functions named below, which are called when the CPU is found to have
# them. tzcnt is no sign: an older CPU reads bsf, and compilers count on that.
#
#   isa.sh DIR_WITH_LIB   (libpmx.so and the thin one there, the programs in ../app)
set -u

dispatched="equal_256 masked_256 equal_512 masked_512" # lib/match/scan.c
later='v[a-z]\w*|andn|bextr|bls(i|r|msk)|bzhi|mulx|p(dep|ext)|rorx|s[ah][lr]x|movbe|lzcnt|ad[co]x|k(mov|or|and|x?n?or|shift|test|unpck|add|not)\w*|x(begin|end|abort|test)'

if [ $# -ne 1 ] || [ ! -d "$1" ]; then
	echo "usage: isa.sh DIR_WITH_LIB" >&2
	exit 2
fi
machine=$(meson introspect --buildoptions "$1/.." | sed -n 's/.*"name": "machine", "value": "\([^"]*\)".*/\1/p')
if [ "$machine" != auto ]; then
	echo "ok isa # SKIP this build is for the CPU '$machine', by -Dmachine"
	exit 0
fi
found=$(mktemp) || exit 2
trap 'rm -f "$found"' EXIT
bad=0
for file in "$1"/libpmx.so "$1"/libpmx-dpdk.so "$1"/../app/pmx-dpdk "$1"/../app/pmx-perf "$1"/../app/pmx-ctl "$1"/../app/pmx-sim; do
	case $(objdump -f "$file") in
	*x86-64*) ;;
	*architecture*) echo "ok isa # SKIP this build is not for x86-64"; exit 0 ;;
	*) exit 2 ;;
	esac
	objdump -d --no-show-raw-insn "$file" | awk -v dispatched=" $dispatched " '
		/^[0-9a-f]+ <.*>:$/ {
			name = substr($2, 2, length($2) - 3)
			sub(/[.@].*/, "", name) # what the compiler made of it: .part.0, .constprop.0
			allowed = index(dispatched, " " name " ")
		}
		/^ +[0-9a-f]+:\t/ { print (allowed ? "dispatched" : "plain"), name, $2 }' |
		grep -Ew "(dispatched|plain) [^ ]+ ($later)" | grep -Evw "ver[rw]" | sort | uniq -c >"$found"
	# a test that finds nothing in the functions that have such instructions would find nothing anywhere
	case $file in
	*libpmx.so) grep -q dispatched "$found" || { echo "$file: nothing found where there must be"; bad=1; } ;;
	esac
	if grep ' plain ' "$found"; then
		echo "$file has these outside of $dispatched"
		bad=1
	fi
done
[ $bad -ne 0 ] || echo "ok isa"
exit $bad
