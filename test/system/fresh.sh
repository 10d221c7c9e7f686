#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: fresh.sh BUILD_DIR
# The README's two commands on a machine that has nothing: in a minimal root of this Debian release, as they stand in the README
# and in that order (test/chroot.sh).
set -u

if [ -n "${PMX_CHROOT:-}" ]; then
	echo "ok fresh # SKIP this is a chroot of test/chroot.sh already"
	exit 0
fi
release=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
exec "$(dirname "$0")/../chroot.sh" "${release:-bookworm}" commands
