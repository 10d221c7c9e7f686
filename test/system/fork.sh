#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: fork.sh BUILD_DIR
# What a process may do with itself: it forks while it exchanges messages, attached in each way (fork.c); it unloads the library
# (unload.c); it has few descriptors (descriptors.c). Root, hugepages.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages fork 128
alone_ini 0 <<INI
[engine]
idle = adaptive
[limits]
contexts = 16
mbufs = 16384
INI
primary 0 --lcores 0@0 -m 192 || { not_ok fork__primary "it did not start" "$dir/0.log"; exit 1; }
# what a child does wrong in a node of its parent's shows in one of four runs
for way in thin secondary embedded embedded embedded; do
	export PMX_ATTACH=$way PMX_CONFIG=$dir/0.ini PMX_EAL="--no-pci --no-huge -m 128 --lcores 0@1 --file-prefix=${tag}e"
	passes "fork_${way}__the_parent_loses_nothing" timeout 200 "$build/test/fork" "${tag}0" 100000
done
unset PMX_CONFIG PMX_EAL
export PMX_ATTACH=thin
passes descriptors__few_of_them timeout 100 "$build/test/descriptors" "${tag}0"
closed() { "$build/app/pmx-ctl" --instance "${tag}0" contexts | grep -q 'no context is open'; }
wait_for 60 closed && ok descriptors__no_context_stays_open || not_ok descriptors__no_context_stays_open ""
for way in thin secondary; do
	PMX_ATTACH=$way passes "unload_${way}__nothing_is_left_running" timeout 60 "$build/test/unload" "$build/lib/libpmx.so" "${tag}0"
done
exit $failed
