#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: allpairs.sh BUILD_DIR [SECONDS [LINK]]
# Two nodes, 8 applications attached to each, 4 contexts an application: all 64 talk to all for
# SECONDS (3; 10 in the full tier), with idle = adaptive and all of it on two CPUs. Nothing may be lost, doubled, out
# of order or damaged (allpairs.c), and none of the 64 contexts may starve: the slowest must complete a twentieth of the mean. They are in
# processes, so the rest is for who gives these the CPUs; that an engine serves all contexts alike is for test/unit/test_virtual.c.
# LINK: vhost (net_vhost and net_virtio_user) or veth (net_af_packet).
set -u
. "$(dirname "$0")/common.bash"

seconds=3
! full || seconds=10
seconds=${2:-$seconds}
link=${3:-vhost}
apps=8
each=4
contexts=$((apps * each))
need_hugepages allpairs 160
[ -x "$build/test/allpairs" ] || skip_all allpairs "$build/test/allpairs is not there"

config() { # NODE PORT
	node_ini "$1" "$2" <<-END
		[engine]
		idle = adaptive
		[limits]
		contexts = $contexts
		send_buffers = 64
		receive_buffers = 128
		mbufs = 12288
	END
}

if [ "$link" = vhost ]; then
	config 0 net_vhost0
	config 1 net_virtio_user0
	PREFIX=()
	primary 0 -l 0 -m 128 "--vdev=net_vhost0,iface=$dir/vhost,queues=1" &&
		primary 1 -l 1 -m 128 --single-file-segments \
			"--vdev=net_virtio_user0,path=$dir/vhost,queues=1,queue_size=1024,packed_vq=1,mrg_rxbuf=1,in_order=1"
else
	veth 1500 || skip_all allpairs "no veth pair between namespaces"
	config 0 net_af_packet0
	config 1 net_af_packet0
	PREFIX=(ip netns exec "${tag}0")
	primary 0 -l 0 -m 128 --vdev=net_af_packet0,iface=v0
	PREFIX=(ip netns exec "${tag}1")
	primary 1 -l 1 -m 128 --vdev=net_af_packet0,iface=v1
fi || { not_ok allpairs_start "the primaries do not start"; exit 1; }

ready() { [ "$(cat "$dir"/app.*.log | grep -c -E '^(ready|allpairs:)')" -ge $((2 * apps)) ]; }

apps_pids=()
for i in $(seq 0 $((2 * apps - 1))); do
	start "$dir/app.$i.log" taskset -c 0,1 "$build/test/allpairs" "$tag$((i % 2))" $((i / 2 * each)) \
		$each 2 $contexts "$seconds" "$dir/go"
	apps_pids+=("$last")
done
wait_for 60 ready || { not_ok allpairs_attach "not all applications attached"; }
touch "$dir/go"
codes=0
for pid in "${apps_pids[@]}"; do
	wait "$pid" || codes=$((codes + 1))
done
grep -h '^allpairs:' "$dir"/app.*.log | sed 's/^/# /'
if [ $codes -eq 0 ]; then
	ok allpairs__nothing_lost_doubled_or_out_of_order
else
	not_ok allpairs__nothing_lost_doubled_or_out_of_order "$codes applications failed" "$dir/0.log"
fi
cat "$dir"/app.*.log | awk -v contexts=$contexts -v seconds="$seconds" '
	/^context/ {
		n[$2]++; sum[$2] += $5; total += $7; bytes += $9; sleeps += $11
		if (!($2 in min) || $5 < min[$2]) min[$2] = $5
		if ($5 > max[$2]) max[$2] = $5
	}
	END {
		printf "# %d messages, %.1f MB: %.0f messages/s, %.1f MB/s; %d sleeps\n", total,
			bytes / 1e6, total / seconds, bytes / 1e6 / seconds, sleeps
		for (i = 0; i < 2; i++) {
			if (n[i] != contexts) { printf "# node %d: %d contexts\n", i, n[i]; exit 1 }
			mean = sum[i] / n[i]
			printf "# node %d: completed sends of a context: min %d, mean %.0f, max %d\n",
				i, min[i], mean, max[i]
			slowest = i == 0 || min[i] < slowest ? min[i] : slowest
		}
		mean = (sum[0] + sum[1]) / (n[0] + n[1])
		printf "# the slowest context of both nodes has %.2f of the mean\n", slowest / mean
		exit !(slowest > 0 && slowest >= mean / 20)
	}' && ok allpairs__no_starvation || not_ok allpairs__no_starvation "the slowest is below a twentieth of the mean"
for i in 0 1; do
	"$build/app/pmx-ctl" --instance "$tag$i" drops 2>/dev/null | sed "s/^/# node $i: /"
	end "$(sed -n "1{s/[^0-9]//g;p}" /run/pmx-dpdk/"$tag$i".pid)"
	code=$?
	[ $code -eq 0 ] && ok "allpairs__primary_${i}_ends_well" ||
		not_ok "allpairs__primary_${i}_ends_well" "exit code $code" "$dir/$i.log"
done
exit $failed
