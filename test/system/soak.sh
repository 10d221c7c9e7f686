#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: soak.sh BUILD_DIR [MESSAGES]
# Random messages each way over a link that loses, reorders, doubles and corrupts frames, each
# byte checked (soak.c): both ways of recovery, one thread and two, the loop link and UDP sockets.
# MESSAGES, or PMX_SOAK_MESSAGES (100000; a tenth where the build has sanitizers), each way.
# Needs neither root nor hugepages.
set -u

. "$(dirname "$0")/common.bash"

soak=$build/test/soak
full && default=100000 || default=10000
grep -q __asan_init "$soak" && default=10000
messages=${2:-${PMX_SOAK_MESSAGES:-$default}}
seed=${PMX_SOAK_SEED:-1}

run() # NAME ARGUMENTS...
{
	passes "$1" "$soak" --messages "$messages" --seed "$seed" "${@:2}"
}

run loop_selective
run loop_go_back_n --proto 'recovery = go-back-n'
run loop_paper_congestion_control --proto 'cc = pm'
run loop_two_threads --threads 2
run udp_selective --udp "$port"
run udp_go_back_n_two_threads --udp "$port" --threads 2 --proto 'recovery = go-back-n'
exit $failed
