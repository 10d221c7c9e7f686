#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: test/chroot.sh bookworm|trixie [build|commands|turned]
#        test/chroot.sh arm64
# Builds this tree in a fresh Debian of that release and tests it there: prints "ok NAME", "not ok NAME why", "ok NAME # SKIP why".
#   build     has the packages that the build takes, unpacked and not configured; warnings are errors
#   commands  has nothing but git and sudo: the README's two commands, as they stand there and in that order
#   turned    the same in the other order
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
release=${1:-} mode=${2:-build}
case $release-$mode in
bookworm-build | trixie-build | bookworm-commands | trixie-commands | bookworm-turned | trixie-turned | arm64-build) ;;
*) sed -n '4,15s/^#[ ]\{0,1\}//p' "$0" >&2; exit 2 ;;
esac
name=chroot_${release}_$mode
work=$(mktemp -d "${TMPDIR:-/tmp}/pmx-chroot.XXXXXX") || exit 2
tree=$work/tree
log=$work/log
failed=0
child=

clean_up() {
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

# inside COMMAND...: as root of the chroot, with processes and hugetlbfs of its own, and, but for the README's commands, which
# install packages, without network. Those see a machine, not a chroot, in which the kernel lets nobody make user namespaces.
# For the background: exec, so that who ends that ends all of it.
inside() {
	local net=(--net)
	[ "$mode" = build ] || net=()
	# shellcheck disable=SC2016
	exec unshare --mount --pid ${net[@]+"${net[@]}"} --ipc --fork --kill-child --propagation private bash -euc '
		mount --bind "$1" "$1" # ip netns exec wants / to be a mount
		cd "$1"
		mode=$2
		shift 2
		mount -t proc proc proc
		mount -t sysfs sysfs sys
		mount -t tmpfs tmpfs run
		mount --bind /dev dev
		[ ! -d /dev/pts ] || mount --bind /dev/pts dev/pts
		mkdir -p dev/hugepages
		mount -t tmpfs tmpfs dev/shm
		mount -t hugetlbfs -o pagesize=2M hugetlbfs dev/hugepages
		if [ "$mode" = build ]; then
			root=.
		else
			root=/
			mkdir -p .host
			pivot_root . .host
			cd /
			umount -l /.host
		fi
		exec chroot $root /usr/bin/env PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root PMX_CHROOT=1 \
			bash -c "ip link set lo up 2>/dev/null; cd /pmx-dpdk && exec \"\$@\"" - "$@"' - "$tree" "$mode" "$@"
}

# ------------------------------------------------------------------ the chroot

tools=dash,bash,coreutils,findutils,grep,sed,mawk,diffutils,base-files,libc-bin,procps
packages() {
	case $release-$mode in
	arm64-*) echo $tools,iproute2,meson,ninja-build,pkg-config,gcc-aarch64-linux-gnu,binutils-aarch64-linux-gnu,qemu-user-static,python3,libc6-dev:arm64,libdpdk-dev:arm64,libjansson-dev:arm64,libcmocka-dev:arm64,libnuma-dev:arm64 ;;
	*-build) echo "$tools,libc6-dev,python3,$("$root/dpdk-config/install.sh" --list | tr ' ' ,)" ;;
	*) echo git,sudo,ca-certificates ;;
	esac
}

make_tree() {
	case $release-$mode in
	arm64-*) run mmdebstrap --variant=extract --architectures=amd64,arm64 --include="$(packages)" trixie "$1" ;;
	*-build) run mmdebstrap --variant=extract --include="$(packages)" "$release" "$1" ;;
	*) run mmdebstrap --variant=minbase --include="$(packages)" "$release" "$1" ;;
	esac
}

# packages that were unpacked within a week for the same list are used again
unpack() {
	local kept
	kept=${PMX_CHROOTS:-/var/cache/pmx-dpdk}/$release-$mode-$(packages | sha256sum | cut -c 1-12).tar
	if [ -f "$kept" ] && [ -n "$(find "$kept" -mtime -7)" ]; then
		mkdir "$tree" && tar -C "$tree" -xpf "$kept"
		return
	fi
	make_tree "$tree" || return 1
	[ "$mode" != build ] || { ln -sf mawk "$tree/usr/bin/awk" && chroot "$tree" ldconfig; } # as configured packages have it
	mkdir -p "$(dirname "$kept")" && rm -f "$(dirname "$kept")/$release-$mode"-*.tar &&
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

# build NAME MESON_ARGUMENTS...
build() {
	local what=$1
	shift
	if run inside dpdk-config/build.sh build -Dwerror=true "$@"; then
		ok "$what"
	else
		not_ok "$what" "see the end of what it printed"
		return 1
	fi
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
	build arm64_compiles_and_links --cross-file=arm64.ini -Dc_args=-DFEWER=20 -Dlibfabric=disabled -Dmpi=disabled -Dpmix=disabled -Dman=disabled || return
	local program
	for program in "$tree"/pmx-dpdk/build/test/test_*; do
		[ ! -f "$program" ] || [ ! -x "$program" ] || unit_test "$(basename "$program")"
	done
}

# the two commands, each the first line of a block of README's section that begins with sudo
commands() {
	local lines line number=0 start
	mapfile -t lines < <(sed -n '/^## Two commands/,/^## A node/p' "$root/README.md" | grep '^sudo ')
	[ ${#lines[@]} -eq 2 ] || { : >"$log"; not_ok "$name" "README.md has ${#lines[@]} commands, not two"; return; }
	[ "$mode" = commands ] || lines=("${lines[1]}" "${lines[0]}")
	for line in "${lines[@]}"; do
		number=$((number + 1))
		start=$SECONDS
		# shellcheck disable=SC2086
		if run inside $line; then
			ok "${name}_$number"
		else
			not_ok "${name}_$number" "'$line' failed"
			sed -n '/^FAILED:/,/^$/p' "$log" | head -n 60 | sed 's/^/# /'
		fi
		echo "# $line: $((SECONDS - start)) s; $(tail -n 1 "$log")"
		grep '^!!!' "$log" | sed 's/^/# /'
	done
}

[ "$(id -u)" -eq 0 ] || { echo "ok $name # SKIP needs root"; exit 0; }
command -v mmdebstrap >/dev/null || { echo "ok $name # SKIP needs mmdebstrap: dpdk-config/install.sh --tests"; exit 0; }
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
arm64-*) arm64 ;;
*-build) build "${release}_builds_without_warnings" ;;
*) commands ;;
esac
echo "# all: $((SECONDS - start)) s"
exit $failed
