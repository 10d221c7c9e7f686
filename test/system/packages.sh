#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: packages.sh BUILD_DIR [RELEASE]
# Debian packages of this release, or of RELEASE: built, installed in a system that boots with systemd, used, upgraded, purged, and in
# containers (test/chroot.sh).
set -u

if [ -n "${PMX_CHROOT:-}" ]; then
	echo "ok packages # SKIP this is a chroot of test/chroot.sh already"
	exit 0
fi
case $(. /etc/os-release && echo "${VERSION_CODENAME:-}") in
trixie) release=trixie ;;
*) release=bookworm ;;
esac
exec "$(dirname "$0")/../chroot.sh" "${2:-$release}" packages
