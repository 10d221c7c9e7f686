# SPDX-License-Identifier: BSD-3-Clause
#
# For benches between two embedded nodes over net_memif, on CPUs 0 and 1, spinning, that have set perf (pmx-perf) and work (a
# folder of their own, which ends with the script): nodes NAME, then pair as often as wanted.

eal="--no-pci --in-memory -m 256 --no-telemetry --log-level=*:error"

# nodes NAME [ENGINE_SETTING...]: configurations $work/0.ini and 1.ini
nodes() {
	local i
	name=$1
	shift
	for i in 0 1; do
		{
			printf '[node]\nid = %s\nname = %s\n[engine]\nidle = spin\n' "$i" "$name$i"
			[ $# -eq 0 ] || printf '%s\n' "$@"
			printf '[link 0]\ndriver = ethdev\nport = net_memif0\nmtu = 9000\n'
			printf '[limits]\nmbufs = 8192\ncontexts = 4\n[nodes]\n0 = auto\n1 = auto\n'
		} >"$work/$i.ini"
	done
}

# pair RESPONDER_ARGS INITIATOR_ARGS: prints what the initiator prints, and both logs on stderr if it fails
pair() {
	local vdev=socket=$work/memif.sock,socket-abstract=no,bsize=9216 pid
	rm -f "$work/memif.sock"
	taskset -c 1 timeout 120 "$perf" $1 -- -l 1 $eal --file-prefix "${name}1" \
		--vdev=net_memif0,role=server,id=0,$vdev >"$work/1.log" 2>&1 &
	pid=$!
	sleep 1
	taskset -c 0 timeout 120 "$perf" $2 -- -l 0 $eal --file-prefix "${name}0" \
		--vdev=net_memif0,role=client,id=0,$vdev 2>"$work/0.log" || cat "$work/0.log" "$work/1.log" >&2
	wait $pid
}
