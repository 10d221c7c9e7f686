#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# sanitize: yes
# timeout: 900
#
# Usage: soak.sh BUILD_DIR [MESSAGES]
# Random messages each way over a link that loses, reorders, doubles and corrupts frames, each
# byte checked (soak.c): both ways of recovery, one thread and two, the loop link and UDP sockets.
# MESSAGES, or PMX_SOAK_MESSAGES (100000; a tenth where the build has sanitizers), each way.
# Needs neither root nor hugepages.
set -u

if [ $# -lt 1 ] || [ ! -x "$1/test/soak" ]; then
	echo "Usage: $0 BUILD_DIR [MESSAGES], BUILD_DIR has test/soak" >&2
	exit 2
fi
soak=$1/test/soak
default=100000
grep -q __asan_init "$soak" && default=10000
messages=${2:-${PMX_SOAK_MESSAGES:-$default}}
seed=${PMX_SOAK_SEED:-1}
port=$((20000 + $$ % 20000))
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
failed=0

# soak NAME ARGUMENTS...
run() {
	local name=$1
	shift
	if "$soak" --messages "$messages" --seed "$seed" "$@" >"$log" 2>&1; then
		echo "ok $name"
	else
		echo "not ok $name exit code $?, seed $seed"
		failed=1
	fi
	tail -20 "$log" | sed '/^#/!s/^/# /'
}

run loop_selective
run loop_go_back_n --proto 'recovery = go-back-n'
run loop_paper_congestion_control --proto 'cc = pm'
run loop_two_threads --threads 2
run udp_selective --udp "$port"
run udp_go_back_n_two_threads --udp "$port" --threads 2 --proto 'recovery = go-back-n'
exit $failed
