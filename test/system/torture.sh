#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: torture.sh BUILD_DIR [CHANGES]
# Threads map, unmap, move, protect, give up and fork memory that is pushed from and pulled
# (torture.c): never old bytes, never a pin too many. And the same without being told by the kernel,
# which must be found out. Root, or vm.unprivileged_userfaultfd = 1.
set -u

if [ $# -lt 1 ] || [ ! -x "$1/test/torture" ]; then
	echo "Usage: $0 BUILD_DIR [CHANGES], BUILD_DIR has test/torture" >&2
	exit 2
fi
torture=$1/test/torture
[ "${TIER:-}" = full ] && changes=8000 || changes=1500
changes=${2:-$changes}
log=$(mktemp) || exit 2
trap 'rm -f "$log"' EXIT
failed=0

if [ "$(id -u)" -ne 0 ] && [ "$(cat /proc/sys/vm/unprivileged_userfaultfd 2>/dev/null)" != 1 ]; then
	echo "ok torture # SKIP needs root, or vm.unprivileged_userfaultfd = 1"
	exit 0
fi
if "$torture" "$changes" "${PMX_TORTURE_SEED:-1}" >"$log" 2>&1; then
	echo "ok never_stale_never_leaking"
else
	echo "not ok never_stale_never_leaking exit code $?"
	failed=1
fi
sed '/^#/!s/^/# /' "$log"
# it ends when they are found
if "$torture" 1000000 1 off >"$log" 2>&1; then
	echo "not ok unwatched_memory_is_found_out it was not"
	failed=1
else
	echo "ok unwatched_memory_is_found_out"
fi
exit $failed
