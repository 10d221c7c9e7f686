#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: test/chroot.sh bookworm|trixie commands|turned
#        test/chroot.sh bookworm|trixie suites NAME...
#        test/chroot.sh bookworm|trixie packages
#        test/chroot.sh arm64
# Builds this tree in a fresh Debian of that release, which has nothing but git and sudo, and tests it there: prints "ok NAME",
# "not ok NAME why", "ok NAME # SKIP why".
#   commands  the README's two commands, as they stand there and in that order
#   turned    the same in the other order
#   suites    builds, with warnings as errors, and runs these suites by test/run.sh
#   packages  builds Debian packages, and in another fresh Debian, booted with systemd, installs, uses, upgrades and purges them;
#             then in containers
#   arm64     trixie's cross compiler and libraries: all is compiled and linked for ARM64; unit tests without an EAL run
#             under qemu-user. As good a CPU as the emulator is: no test of memory order.
# Takes root, mmdebstrap and the network. Unpacked packages are kept in PMX_CHROOTS (/var/cache/pmx-dpdk) for a week.
#
# All mounts are made in namespaces of the processes that run inside, and are gone with them, whatever ends those. So
# nothing is mounted in what is removed at the end.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C.UTF-8
export PATH=$PATH:/usr/sbin:/sbin
release=${1:-} mode=${2:-} suites=("${@:3}")
case $release-$mode-${#suites[@]} in
bookworm-commands-0 | trixie-commands-0 | bookworm-packages-0 | trixie-packages-0 | bookworm-turned-0 | trixie-turned-0 | arm64--0) ;;
bookworm-suites-[1-9]* | trixie-suites-[1-9]*) ;;
*) sed -n '4,20s/^#[ ]\{0,1\}//p' "$0" >&2; exit 2 ;;
esac
name=chroot_$release${mode:+_$mode}
work=$(mktemp -d "${TMPDIR:-/tmp}/pmx-chroot.XXXXXX") || exit 2
tree=$work/tree
log=$work/log
failed=0
child=

clean_up() {
	trap '' INT TERM # timeout(1) sends it twice: the second must not end this
	[ -z "$child" ] || { kill -KILL "$child" && wait "$child"; } 2>/dev/null # unshare blocks SIGTERM; what it started ends with it
	if grep -qF " $work/" /proc/mounts; then
		echo "chroot.sh: something is mounted below $work: left as it is" >&2
	else
		rm -rf --one-file-system "$work"
	fi
}
trap clean_up EXIT
trap 'exit 130' INT TERM

ok() { echo "ok $1"; }

not_ok() { # NAME WHY
	echo "not ok $1 $2"
	tail -30 "$log" | sed 's/^/# /'
	failed=1
}

# run COMMAND...: it can be ended while this waits for it; output to the log
run() {
	"$@" >"$log" 2>&1 </dev/null &
	child=$!
	wait "$child"
	local code=$?
	child=
	return $code
}

# enter WORDS COMMAND...: as root of the chroot, with processes, devices and mounts of its own; WORDS are options of unshare. It is
# no chroot to who is inside, as the kernel lets nobody make user namespaces in one.
# For the background: exec, so that who ends that ends all of it.
enter() {
	# shellcheck disable=SC2016,SC2086
	exec unshare --mount --pid --ipc $1 --fork --kill-child --propagation private bash -euc '
		mount --bind "$1" "$1" # ip netns exec wants / to be a mount
		cd "$1"
		shift
		mount -t proc proc proc
		mount -t sysfs sysfs sys
		mount -t tmpfs tmpfs run
		if [ "$1" = /lib/systemd/systemd ]; then # what a container gives it
			mount -t tmpfs -o mode=755 tmpfs dev
			for name in null zero full random urandom tty; do cp -a "/dev/$name" dev; done
			ln -s /proc/self/fd dev/fd
			mkdir dev/pts dev/shm dev/hugepages
			mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
			ln -s pts/ptmx dev/ptmx
			mount -t cgroup2 cgroup2 sys/fs/cgroup
			ip link set lo up
			export container=pmx
		else
			mount --bind /dev dev
			[ ! -d /dev/pts ] || mount --bind /dev/pts dev/pts
			mkdir -p dev/hugepages
		fi
		mount -t tmpfs tmpfs dev/shm
		mount -t hugetlbfs -o pagesize=2M hugetlbfs dev/hugepages
		mkdir -p .host
		pivot_root . .host
		cd /
		umount -l /.host
		exec chroot / /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root PMX_CHROOT=1 \
			bash -c "cd /pmx-dpdk && exec \"\$@\"" - "$@"' - "$tree" "${@:2}"
}

# inside COMMAND...: with the network, by which packages come
inside() { enter "" "$@"; }

# ------------------------------------------------------------------ the chroot

needed() {
	case $release-$mode in
	arm64-*) echo dash,bash,coreutils,findutils,grep,sed,mawk,diffutils,base-files,libc-bin,procps,iproute2,meson,ninja-build,pkg-config,gcc-aarch64-linux-gnu,binutils-aarch64-linux-gnu,qemu-user-static,python3,libc6-dev:arm64,libdpdk-dev:arm64,libjansson-dev:arm64,libcmocka-dev:arm64,libnuma-dev:arm64,libssl-dev:arm64 ;;
	*-booted) echo systemd,systemd-sysv,dbus,ca-certificates,procps,gcc,libc6-dev,pkgconf ;;
	*) echo git,sudo,ca-certificates ;;
	esac
}

make_tree() {
	case $release in
	arm64) run mmdebstrap --variant=extract --architectures=amd64,arm64 --include="$(needed)" trixie "$1" ;;
	*) run mmdebstrap --variant=minbase --include="$(needed)" "$release" "$1" ;;
	esac
}

# packages that were unpacked within a week for the same list are used again
unpack() {
	kept=${PMX_CHROOTS:-/var/cache/pmx-dpdk}/$release-$(needed | sha256sum | cut -c 1-12).tar
	if [ -f "$kept" ] && [ -n "$(find "$kept" -mtime -7)" ]; then
		mkdir "$tree" && tar -C "$tree" -xpf "$kept"
		return
	fi
	make_tree "$tree" || return 1
	[ "$release" != arm64 ] || { ln -sf mawk "$tree/usr/bin/awk" && chroot "$tree" ldconfig; } # as configured packages have it
	mkdir -p "$(dirname "$kept")" && find "$(dirname "$kept")" -name "$release-*.tar" -mtime +7 -delete &&
		tar -C "$tree" -cpf "$kept.$$" . && mv "$kept.$$" "$kept"
}

# a package that there is not is this project's mistake; all else is the network's, or the mirror's
missing_package() {
	grep -qE "Unable to locate package|has no installation candidate|unmet dependencies" "$log"
}

# the files as a clone has them, and what is not committed yet
copy_sources() {
	local git=(git -c safe.directory='*' -C "$root")
	mkdir "$tree/pmx-dpdk" || return 1
	if "${git[@]}" rev-parse --git-dir >"$log" 2>&1; then
		"${git[@]}" ls-files -z --cached --others --exclude-standard
	else
		cd "$root" && find . -path './build*' -prune -o -type f -print0
	fi | tar -C "$root" --null --ignore-failed-read -T - -cf - | tar -C "$tree/pmx-dpdk" --no-same-owner -xf -
}

# ------------------------------------------------------------------ what is done there

# there NAME COMMAND...: whether it ends well; how long it takes, and its last line
there() {
	local what=$1 begun=$SECONDS code=0
	shift
	if run inside "$@"; then
		ok "$what"
	else
		code=1
		not_ok "$what" "'$*' failed"
		sed -n '/^FAILED:/,/^$/p' "$log" | head -n 60 | sed 's/^/# /'
	fi
	echo "# $*: $((SECONDS - begun)) s; $(tail -n 1 "$log")"
	grep '^!!!' "$log" | sed 's/^/# /'
	return $code
}

# unit_test PROGRAM
unit_test() {
	if run inside timeout 3000 qemu-aarch64-static "build/test/$1" && grep -q '^\[  PASSED  \]' "$log"; then
		ok "${release}_$1"
	else
		not_ok "${release}_$1" "see the end of what it printed"
	fi
}

arm64() {
	cat >"$tree/pmx-dpdk/arm64.ini" <<-END
		[binaries]
		c = 'aarch64-linux-gnu-gcc'
		ar = 'aarch64-linux-gnu-ar'
		strip = 'aarch64-linux-gnu-strip'
		pkg-config = 'pkg-config'
		[properties]
		pkg_config_libdir = ['/usr/lib/aarch64-linux-gnu/pkgconfig', '/usr/share/pkgconfig']
		[host_machine]
		system = 'linux'
		cpu_family = 'aarch64'
		cpu = 'armv8-a'
		endian = 'little'
	END
	# an emulator is some 20 times slower: fewer histories, and time
	there arm64_compiles_and_links dpdk-config/build.sh build -Dwerror=true --cross-file=arm64.ini -Dc_args=-DFEWER=20 -Dlibfabric=disabled -Dmpi=disabled -Dpmix=disabled -Dman=disabled || return
	local program
	for program in "$tree"/pmx-dpdk/build/test/test_*; do
		[ ! -f "$program" ] || [ ! -x "$program" ] || unit_test "$(basename "$program")"
	done
}

# the two commands, each the first line of a block of README's section that begins with sudo
commands() {
	local lines line number=0
	mapfile -t lines < <(sed -n '/^## Two commands/,/^## A node/p' "$root/README.md" | grep '^sudo ')
	[ ${#lines[@]} -eq 2 ] || { : >"$log"; not_ok "$name" "README.md has ${#lines[@]} commands, not two"; return; }
	[ "$mode" = commands ] || lines=("${lines[1]}" "${lines[0]}")
	for line in "${lines[@]}"; do
		number=$((number + 1))
		# shellcheck disable=SC2086
		there "${name}_$number" $line
	done
}

suites() {
	there "${name}_packages" dpdk-config/install.sh --tests &&
		there "${name}_build_without_warnings" dpdk-config/build.sh build -Dwerror=true &&
		there "$name" test/run.sh --jobs 1 "${suites[@]}"
}

# The packages of this tree, built where nothing but what they name is installed; then a system with systemd and nothing else
packages() {
	local build=$tree pid
	there "${name}_needs" bash -ec 'apt-get update && apt-get install -y --no-install-recommends dpkg-dev fakeroot lintian &&
		apt-get build-dep -y --no-install-recommends ./' &&
		there "${name}_build" env DEB_BUILD_OPTIONS=nocheck dpkg-buildpackage -b -us -uc || return
	rm -f "$build"/*-dbgsym_*.deb
	there "${name}_lintian" bash -c 'lintian --allow-root --fail-on error,warning /*.deb'
	grep '^[EW]:' "$log" | sed 's/^/# /'
	mode=booted tree=$work/booted
	unpack || { not_ok "$name" "no system to install them in"; return; }
	printf '127.0.0.1 localhost %s\n' "$(uname -n)" >"$tree/etc/hosts"
	mkdir -p "$tree/pmx-dpdk/later" && cp "$build"/*.deb "$tree/pmx-dpdk" && cp "$root/test/packages_inside.sh" "$build"/pmx-dpdk/obj-*/test/restart "$tree/pmx-dpdk"
	for deb in "$build"/*.deb; do
		dpkg-deb -R "$deb" "$work/later" && sed -i 's/^Version: .*/&+later/; s/(= \([^)]*\))/(= \1+later)/' "$work/later/DEBIAN/control" &&
			dpkg-deb -b "$work/later" "$tree/pmx-dpdk/later" >/dev/null
		rm -rf "$work/later"
	done
	there "${name}_install" bash -c 'apt-get update && apt-get install -y --no-install-recommends ./*.deb' || return
	enter "--uts --net --cgroup" /lib/systemd/systemd --log-target=console --show-status=no >"$work/boot" 2>&1 </dev/null &
	child=$!
	for _ in $(seq 300); do
		pid=$(pgrep -P "$child" 2>/dev/null) && [ "$(nsenter -t "$pid" -m -p systemctl is-system-running 2>/dev/null)" = running ] && break
		sleep 0.1
	done
	nsenter -t "$pid" -m -u -i -n -p -C env PATH=/usr/sbin:/usr/bin:/sbin:/bin timeout -k 5 900 /pmx-dpdk/packages_inside.sh || failed=1
	kill -KILL "$child" && wait "$child" 2>/dev/null
	child=
	if command -v podman >/dev/null; then
		"$root/test/containers.sh" "$tree/pmx-dpdk" "$kept" || failed=1
	else
		echo "ok containers # SKIP needs podman: dpdk-config/install.sh --tests=full"
	fi
}

[ "$(id -u)" -eq 0 ] || { echo "ok $name # SKIP needs root"; exit 0; }
command -v mmdebstrap >/dev/null || { echo "ok $name # SKIP needs mmdebstrap: dpdk-config/install.sh --tests=full"; exit 0; }
start=$SECONDS
if ! unpack; then
	if missing_package; then
		not_ok "$name" "Debian has not all of the packages"
		exit 1
	fi
	echo "ok $name # SKIP no packages from the mirror: $(grep -E '^(E|Err)' "$log" | tail -1)"
	exit 0
fi
echo "# chroot: $((SECONDS - start)) s"
printf '127.0.0.1 localhost %s\n' "$(uname -n)" >"$tree/etc/hosts"
copy_sources || exit 2
case $release-$mode in
arm64-) arm64 ;;
*-suites) suites ;;
*-packages) packages ;;
*) commands ;;
esac
echo "# all: $((SECONDS - start)) s"
exit $failed
