#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: debian.sh BUILD_DIR
# The other Debian of the two that are promised (12: DPDK 22.11, gcc 12; 13: DPDK 24.11, gcc 14): the tree is built in a chroot of
# it, warnings being errors; unit tests and policies run there.
set -u

if [ -n "${PMX_CHROOT:-}" ]; then
	echo "ok debian # SKIP this is a chroot of test/chroot.sh already"
	exit 0
fi
case $(. /etc/os-release && echo "${VERSION_CODENAME:-}") in
trixie) other=bookworm ;;
*) other=trixie ;;
esac
exec "$(dirname "$0")/../chroot.sh" "$other" quick
