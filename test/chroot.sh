#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: test/chroot.sh bookworm|trixie [quick|full]
#        test/chroot.sh arm64
# Builds this tree in a fresh Debian of that release and tests it there: prints "ok NAME", "not ok NAME why", "skip NAME why".
#   quick  has the packages that the build takes, unpacked and not configured; unit tests and policies
#   full   has what dpdk-config/install.sh --tests installs, by that script; all of test/run.sh --quick
#   arm64  trixie's cross compiler and libraries: all is compiled and linked for ARM64; unit tests without an EAL run
#          under qemu-user. As good a CPU as the emulator is: no test of memory order.
# Takes root, mmdebstrap and the network. PMX_CHROOTS=DIR keeps the chroot there for the next time.
#
# All mounts are made in namespaces of the processes that run inside, and are gone with them, whatever ends those. So
# nothing is mounted in what is removed at the end.
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
export LC_ALL=C.UTF-8
export PATH=$PATH:/usr/sbin:/sbin
release=${1:-} mode=${2:-quick}
case $release-$mode in
bookworm-quick | trixie-quick | bookworm-full | trixie-full | arm64-quick) ;;
*) sed -n '4,14s/^#[ ]\{0,1\}//p' "$0" >&2; exit 2 ;;
esac
name=chroot_${release}_$mode
work=$(mktemp -d "${TMPDIR:-/tmp}/pmx-chroot.XXXXXX") || exit 2
tree=${PMX_CHROOTS:-$work}/$release-$mode
log=$work/log
failed=0
child=
patience=300 # seconds, for a test program

clean_up() {
	[ -z "$child" ] || { kill "$child" && wait "$child"; } 2>/dev/null
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

# inside COMMAND...: as root of the chroot, with processes, network and hugetlbfs of its own. For the background: exec, so that who
# ends that ends all of it.
inside() {
	# shellcheck disable=SC2016
	exec unshare --mount --pid --net --ipc --fork --kill-child --propagation private bash -euc '
		mount --bind "$1" "$1" # ip netns exec wants / to be a mount
		cd "$1"
		shift
		mount -t proc proc proc
		mount -t sysfs sysfs sys
		mount -t tmpfs tmpfs run
		mount --rbind /dev dev
		mkdir -p dev/hugepages
		mount -t tmpfs tmpfs dev/shm
		mount -t hugetlbfs -o pagesize=2M hugetlbfs dev/hugepages
		exec chroot . /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin PMX_CHROOT=1 \
			bash -c "ip link set lo up 2>/dev/null; cd /pmx-dpdk && exec \"\$@\"" - "$@"' - "$tree" "$@"
}

# ------------------------------------------------------------------ the chroot

make_tree() {
	local packages
	packages=$("$root/dpdk-config/install.sh" --list | tr ' ' ,)
	case $release-$mode in
	*-full)
		run mmdebstrap --variant=minbase --customize-hook='copy-in '"$root"'/dpdk-config/install.sh /root' \
			--customize-hook='chroot "$1" /root/install.sh --tests' "$release" "$tree"
		;;
	arm64-*)
		run mmdebstrap --variant=extract --architectures=amd64,arm64 \
			--include=dash,bash,coreutils,findutils,grep,sed,mawk,diffutils,iproute2,base-files,libc-bin \
			--include=meson,ninja-build,pkg-config,gcc-aarch64-linux-gnu,binutils-aarch64-linux-gnu,qemu-user-static \
			--include=libc6-dev:arm64,libdpdk-dev:arm64,libjansson-dev:arm64,libcmocka-dev:arm64,libnuma-dev:arm64 \
			trixie "$tree"
		;;
	*)
		run mmdebstrap --variant=extract \
			--include=dash,bash,coreutils,findutils,grep,sed,mawk,diffutils,base-files,libc-bin,libc6-dev,"$packages" \
			"$release" "$tree"
		;;
	esac
}

# a package that there is not is this project's mistake; all else is the network's, or the mirror's
missing_package() {
	grep -qE "Unable to locate package|has no installation candidate|unmet dependencies" "$log"
}

copy_sources() {
	rm -rf --one-file-system "$tree/pmx-dpdk"
	mkdir "$tree/pmx-dpdk" && tar -C "$root" --exclude='./build*' --exclude=./.git -cf - . | tar -C "$tree/pmx-dpdk" -xf -
}

# ------------------------------------------------------------------ what is done there

# build NAME MESON_ARGUMENTS...
build() {
	local what=$1
	shift
	if run inside bash -c 'meson setup build -Dwerror=true "$@" && ninja -k 0 -C build' - "$@"; then
		ok "$what"
	else
		not_ok "$what" "see the end of what it printed"
		return 1
	fi
}

# unit_test PROGRAM [RUNNER...]
unit_test() {
	local program=$1
	shift
	if run inside timeout "$patience" "$@" "build/test/$program" && grep -q '^\[  PASSED  \]' "$log"; then
		ok "${release}_$program"
	else
		not_ok "${release}_$program" "see the end of what it printed"
	fi
}

unit_tests() {
	local program
	for program in "$tree"/pmx-dpdk/build/test/test_*; do
		[ ! -f "$program" ] || [ ! -x "$program" ] || unit_test "$(basename "$program")" "$@"
	done
}

policies() {
	local script
	for script in "$root"/test/policy/*.sh; do
		script=$(basename "$script" .sh)
		if ! run inside "test/policy/$script.sh" build/lib; then
			not_ok "${release}_$script" "see the end of what it printed"
		elif ! grep -E '^ok .*# SKIP' "$log"; then
			ok "${release}_$script"
		fi
	done
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
	build arm64_compiles_and_links --cross-file arm64.ini -Dc_args=-DFEWER=20 || return
	patience=3000 # an emulator is some 20 times slower: fewer histories, and time
	unit_tests qemu-aarch64-static
}

full() {
	inside test/run.sh --quick </dev/null &
	child=$!
	wait "$child" && ok "$name" || { : >"$log"; not_ok "$name" "see above"; }
	child=
}

[ "$(id -u)" -eq 0 ] || { echo "ok $name # SKIP needs root"; exit 0; }
command -v mmdebstrap >/dev/null || { echo "ok $name # SKIP needs mmdebstrap: dpdk-config/install.sh --tests"; exit 0; }
start=$SECONDS
if [ ! -e "$tree/complete" ]; then
	rm -rf --one-file-system "$tree"
	if ! make_tree; then
		if missing_package; then
			not_ok "$name" "Debian has not all of the packages"
			exit 1
		fi
		echo "ok $name # SKIP no packages from the mirror: $(grep -E '^(E|Err)' "$log" | tail -1)"
		exit 0
	fi
	[ "$mode" = full ] || { ln -sf mawk "$tree/usr/bin/awk" && chroot "$tree" ldconfig; } # as configured packages have it
	touch "$tree/complete"
fi
echo "# chroot: $((SECONDS - start)) s"
copy_sources || exit 2
case $release-$mode in
*-full) full ;;
arm64-*) arm64 ;;
*) build "${release}_builds" && unit_tests && policies ;;
esac
echo "# all: $((SECONDS - start)) s"
exit $failed
