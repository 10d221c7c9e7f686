#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: install.sh [--tests | --tests=full] [--list]
# Installs those packages of Debian 12 or 13 that are missing for building and running pmx-dpdk; with
# --tests also what test/run.sh needs, and with --tests=full what test/run.sh --full needs. Touches nothing, and needs no
# root, when none is missing.
# --list prints their names and installs nothing.
set -u

list=false
packages=(libdpdk-dev dpdk dpdk-dev meson ninja-build pkg-config gcc libnuma-dev numactl iproute2
	libcmocka-dev libhwloc-dev libjansson-dev libmicrohttpd-dev libncurses-dev libfabric-dev libopenmpi-dev libpmix-dev libssl-dev libipsec-mb-dev doxygen ethtool)
for_tests=(g++ valgrind patch clang clang-format libclang-rt-dev man-db python3 python3-yaml procps util-linux kmod systemd
	jq python3-cryptography tshark libfabric-bin openmpi-bin netpipe-openmpi python3-mpi4py)
for_full_tests=(slurmctld slurmd slurm-client slurm-wlm-basic-plugins munge prometheus chromium podman crun abigail-tools qemu-system-x86 busybox-static cpio mmdebstrap hpcc scalapack-mpi-test lammps lammps-examples)

usage() {
	echo "Usage: $0 [--tests | --tests=full] [--list]"
	echo "Installs what is missing of: ${packages[*]}"
	echo "with --tests also: ${for_tests[*]}"
	echo "with --tests=full also: ${for_full_tests[*]}"
	echo "--list prints the names, and installs nothing."
}

die() {
	echo "install.sh: $*" >&2
	exit 1
}

find_missing() {
	local package
	missing=()
	for package in "${packages[@]}"; do
		[ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" = installed ] ||
			missing+=("$package")
	done
}

for argument; do
	case $argument in
	--tests | --tests=default) packages+=("${for_tests[@]}") ;;
	--tests=full) packages+=("${for_tests[@]}" "${for_full_tests[@]}") ;;
	--list) list=true ;;
	--help | -h) usage; exit 0 ;;
	*) usage >&2; exit 2 ;;
	esac
done

if $list; then
	echo "${packages[@]}"
	exit 0
fi
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
	die "this is no Debian: install by hand what these packages of Debian 12 or 13 have: ${packages[*]}"
fi
find_missing
if [ ${#missing[@]} -eq 0 ]; then
	echo "packages: all ${#packages[@]} are installed"
	exit 0
fi
command="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
if [ "$(id -u)" -ne 0 ]; then
	die "missing packages: ${missing[*]}
To install them: sudo sh -c '$command'"
fi
echo "packages: installing ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
wanted=("${missing[@]}")
apt-get update -q || die "'apt-get update' failed: see above; are the network and
/etc/apt/sources.list right?"
apt-get install -q -y --no-install-recommends "${missing[@]}" ||
	die "'apt-get install' failed: see above. To try again: $command"
find_missing
[ ${#missing[@]} -eq 0 ] || die "still missing after apt-get: ${missing[*]}"
echo "packages: ${#wanted[@]} installed"
