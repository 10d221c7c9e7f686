#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: transfers.sh BUILD_DIR [TRANSFERS]
# Random pushes and pulls between two embedded nodes, each byte of every memory checked against a model
# (transfers.c): over a good link, a bad one (5 % lost, reordered, doubled), jumbo frames, a port that
# reads memory by itself, and with pools as small as they go. TRANSFERS (12000; 2000 where the build has sanitizers) each.
# Needs neither root nor hugepages, but memory that may be locked.
set -u

. "$(dirname "$0")/common.bash"

program=$build/test/transfers
full && default=12000 || default=1500
grep -q __asan_init "$program" && default=2000
transfers=${2:-$default}
seed=${PMX_TRANSFERS_SEED:-1}

run() # NAME ARGUMENTS...
{
	beside passes "$1" "$program" --transfers "$transfers" --seed "$seed" "${@:2}"
}

locks_memory transfers || exit 0
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
run pins_without_cache --limits 'pin_cache = off'
run small_pools_bad_link --fault loss=5%,seed=5 --limits $'requests = 3\nsend_buffers = 2\nevents = 2\ntransfers = 2\ntransfer_frames = 16'
all_beside
exit $failed
