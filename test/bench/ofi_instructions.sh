#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Instructions of the libfabric provider itself, beyond libpmx's and libfabric's, for a tagged message of 8 bytes: fi_tsend and
# fi_trecv, and the reads of their completions; reads that find nothing are counted apart. callgrind.
# usage: ofi_instructions.sh BUILD_DIR [ROUNDS]
set -u
. "$(dirname "$0")/../system/common.bash"
rounds=${2:-2000}

need_hugepages ofi_instructions 192
command -v valgrind >/dev/null || skip_all ofi_instructions "needs valgrind"
[ -x "$build/test/ofi_instructions" ] || skip_all ofi_instructions "the provider was not built: there is no libfabric-dev"
provider_node 256 || exit 1
export FI_PROVIDER=pmx

# collect FUNCTION: the provider's own instructions in it, in total
collect() {
	valgrind --tool=callgrind --collect-atstart=no --toggle-collect="$1" --callgrind-out-file="$dir/$1.out" \
		"$build/test/ofi_instructions" "$rounds" >"$dir/$1.said" 2>"$dir/$1.log" || { tail -5 "$dir/$1.log" >&2; exit 1; }
	callgrind_annotate --threshold=100 --show=Ir "$dir/$1.out" | awk '/libpmx-fi/ {gsub(",", "", $1); n += $1} END {print n + 0}'
}

all=$(collect rounds)
nothing=$(collect empty_reads)
read -r n found empty <"$dir/rounds.said"
callgrind_annotate --threshold=100 --show=Ir "$dir/rounds.out" | sed -n 's/^ *\([0-9,]*\) .*:\([a-z_]*\).* \[.*libpmx-fi.*/\1 \2/p' |
	awk -v n="$((n + 100))" '{gsub(",", "", $1); if ($1 + 0 >= n) printf "%-20s %7.1f a message\n", $2, $1 / n}'
awk -v all="$all" -v nothing="$nothing" -v n="$n" -v rounds="$rounds" -v empty="$empty" -v found="$found" 'BEGIN {
	each = nothing / rounds
	# the 100 rounds before those that are counted are collected as well
	share = n / (n + 100)
	printf "%d messages, %d completions, %d reads that found nothing, %.1f instructions each\n", n, found, empty, each
	printf "provider, a message with both completions: %.1f instructions\n", all * share / n - each * empty / n
}'
