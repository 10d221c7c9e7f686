#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: containers.sh FOLDER BASE
# FOLDER has the Debian packages and an application, example, BASE is an image of the same Debian. Two primaries in containers of
# their own, and applications in others, which have the folder of the sockets and nothing else: no privilege, another user, other
# processes, no network. Prints "ok NAME" or "not ok NAME why". Takes root and podman.
set -u
here=$(cd "$(dirname "$0")/../dpdk-config/containers" && pwd)
base=$(realpath "$2")
cd "$1" || exit 2
failed=0
dir=$(mktemp -d) && chmod 755 "$dir" || exit 2
names=()

ok() { echo "ok $1"; }
not_ok() { # NAME WHY
	echo "not ok $1 $2"
	tail -n 20 log | sed 's/^/# /'
	failed=1
}
# podman where cgroups are what it knows, whatever this machine has; limits are those that any user may have
pod() {
	# shellcheck disable=SC2016
	unshare --mount sh -c 'mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec "$@"' - podman --cgroup-manager=cgroupfs --root "$dir/storage" --runroot "$dir/run" "$@"
}
limits=(--ulimit nofile=1024:1024 --ulimit nproc=4096:4096)
run() { pod run --cgroups=disabled "${limits[@]}" "$@"; }
clean_up() {
	[ ${#names[@]} -eq 0 ] || pod rm -f -t 5 "${names[@]}"
	pod rmi -f pmx-primary pmx-application
	umount -R "$dir/storage/overlay" 2>/dev/null
	rm -rf --one-file-system "$dir"
} >/dev/null 2>&1
trap clean_up EXIT
wait_for() {
	local i
	for ((i = 0; i < 600; i++)); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.1
	done
	return 1
}

pod import --quiet "$base" localhost/pmx-base >log 2>&1 || { not_ok containers_base "podman import $base"; exit 1; }
pod build --isolation=chroot --network=host "${limits[@]}" --build-arg BASE=localhost/pmx-base -t pmx-primary -f "$here/Containerfile.primary" . >log 2>&1 && ok containers_primary__builds ||
	not_ok containers_primary__builds ""
pod build --isolation=chroot --network=host "${limits[@]}" --build-arg BASE=localhost/pmx-base --build-arg PROGRAM=example -t pmx-application -f "$here/Containerfile.application" . >log 2>&1 &&
	ok containers_application__builds || not_ok containers_application__builds ""

[ $failed -eq 0 ] || exit 1
mkdir "$dir/sockets" "$dir/etc"
for n in 0 1; do
	cat >"$dir/etc/$n.ini" <<-END
		[node]
		id = $n
		name = pmx$n
		[engine]
		idle = adaptive
		[link 0]
		driver = udp
		listen = 127.0.0.1:$((19100 + n))
		[access]
		mode = 0666
		[limits]
		mbufs = 8192
		contexts = 16
		[nodes]
		0 = 127.0.0.1:19100
		1 = 127.0.0.1:19101
	END
	names+=("pmx-test-$$-$n")
	run -d --name "pmx-test-$$-$n" --network host --cap-drop all --cap-add CHOWN -v "$dir/sockets:/run/pmx-dpdk" -v "$dir/etc:/etc/pmx-dpdk:ro" \
		localhost/pmx-primary --no-pci --no-huge -m 128 -l $n -- "/etc/pmx-dpdk/$n.ini" >log 2>&1 || not_ok containers_primary__starts_$n ""
	wait_for test -S "$dir/sockets/pmx$n.sock" && ok "containers_primary__starts_$n" || { pod logs "pmx-test-$$-$n" >log 2>&1; not_ok "containers_primary__starts_$n" ""; }
done
# application ARGUMENTS...: nothing but the sockets
application() { run --rm --network none --cap-drop all --security-opt no-new-privileges -v "$dir/sockets:/run/pmx-dpdk" "$@"; }
for i in 1 2 3; do
	application localhost/pmx-application pmx1 >served 2>&1 &
	sleep 1
	application localhost/pmx-application pmx0 1 >log 2>&1 && wait $! && ok "containers_hello__$i" || { cat served >>log; not_ok "containers_hello__$i" ""; }
done
# one that is killed leaves its context to the next
contexts() { pod exec "pmx-test-$$-1" pmx-ctl --instance pmx1 --json contexts | python3 -c 'import json, sys; sys.exit(len(json.load(sys.stdin)) != int(sys.argv[1]))' "$1"; }
application --name "pmx-test-$$-victim" localhost/pmx-application pmx1 >served 2>&1 &
wait_for contexts 1 && ok containers_killed__was_there || { cat served >log; not_ok containers_killed__was_there ""; }
pod kill -s KILL "pmx-test-$$-victim" >log 2>&1
wait_for contexts 0 && ok containers_killed__leaves_nothing || { pod exec "pmx-test-$$-1" pmx-ctl contexts >log 2>&1; not_ok containers_killed__leaves_nothing ""; }
wait 2>/dev/null
exit $failed
