#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: debian.sh BUILD_DIR [RELEASE]
# The other Debian of the two that are promised (12: DPDK 22.11, gcc 12, Open MPI 4; 13: DPDK 24.11, gcc 14, Open MPI 5), or RELEASE: the
# tree is built there, warnings being errors; then, on a machine that has nothing, the README's two commands run as they stand
# there, the second of which runs the default tier (test/chroot.sh).
set -u

if [ -n "${PMX_CHROOT:-}" ]; then
	echo "ok debian # SKIP this is a chroot of test/chroot.sh already"
	exit 0
fi
case $(. /etc/os-release && echo "${VERSION_CODENAME:-}") in
trixie) release=bookworm ;;
*) release=trixie ;;
esac
failed=0
for mode in build commands; do
	"$(dirname "$0")/../chroot.sh" "${2:-$release}" $mode || failed=1
done
exit $failed
