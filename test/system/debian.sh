#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: debian.sh BUILD_DIR [RELEASE]
# The other Debian of the two that are promised (12: DPDK 22.11, gcc 12, Open MPI 4; 13: DPDK 24.11, gcc 14, Open MPI 5), or RELEASE: on
# a machine that has nothing the tree is built, warnings being errors, and tested by all unit tests and by the suites of what
# other versions of libraries may change (test/chroot.sh, which by hand also runs the README's commands there).
set -u

if [ -n "${PMX_CHROOT:-}" ]; then
	echo "ok debian # SKIP this is a chroot of test/chroot.sh already"
	exit 0
fi
case $(. /etc/os-release && echo "${VERSION_CODENAME:-}") in
trixie) release=bookworm ;;
*) release=trixie ;;
esac
exec "$(dirname "$0")/../chroot.sh" "${2:-$release}" suites 'test_*' links mpi mpi_collectives ofi primary run secondaries
