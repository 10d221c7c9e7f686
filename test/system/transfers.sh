#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# sanitize: yes
# timeout: 600
#
# Usage: transfers.sh BUILD_DIR [TRANSFERS]
# Random pushes and pulls between two embedded nodes, each byte of every memory checked against a model
# (transfers.c): over a good link, a bad one (5 % lost, reordered, doubled), jumbo frames, a port that
# reads memory by itself, and with pools as small as they go. TRANSFERS (20000; a tenth where the build has sanitizers) each.
# Needs neither root nor hugepages.
set -u

if [ $# -lt 1 ] || [ ! -x "$1/test/transfers" ]; then
	echo "Usage: $0 BUILD_DIR [TRANSFERS], BUILD_DIR has test/transfers" >&2
	exit 2
fi
program=$1/test/transfers
default=12000
grep -q __asan_init "$program" && default=2000
transfers=${2:-$default}
seed=${PMX_TRANSFERS_SEED:-1}
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
failed=0

run() # NAME ARGUMENTS...
{
	local name=$1
	shift
	if "$program" --transfers "$transfers" --seed "$seed" "$@" >"$log" 2>&1; then
		echo "ok $name"
	else
		echo "not ok $name exit code $?, seed $seed"
		failed=1
	fi
	tail -5 "$log" | sed '/^#/!s/^/# /'
}

run good_link
run bad_link --fault loss=5%,reorder=5%,duplicate=2%,seed=3
run bad_link_checksum_go_back_n --fault loss=5%,reorder=5%,duplicate=2%,corrupt=1%,seed=4 \
	--limits $'[proto]\nchecksum = on\nrecovery = go-back-n\nrto_min_us = 200'
run jumbo --link mtu=9000
run dma_device --dma --link mtu=9000
run dma_device_bad_link --dma --fault loss=5%,seed=6
run device_that_reads_memory --device --link mtu=9000
run device_that_reads_memory_small_pools --device --limits $'requests = 2\ntransfers = 3\ntransfer_frames = 16'
run small_pools --limits $'requests = 2\nsend_buffers = 4\nevents = 1\ntransfers = 3\ntransfer_frames = 16\nregions = 16'
run small_pools_bad_link --fault loss=5%,seed=5 --limits $'requests = 3\nsend_buffers = 2\nevents = 2\ntransfers = 2\ntransfer_frames = 16'
exit $failed
