#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: simgrid.sh BUILD_DIR
# Collectives on 16 hosts at a switch, and on 56 at three (1 Gb/s, 5 us a cable): what the planner takes, simulated by pmx-sim, beside what
# MPI libraries take by an independent simulator, SimGrid's SMPI (Debian: apt install simgrid libsimgrid-dev), with the algorithms that Open
# MPI and MPICH select. SMPI shares links among flows without loss or queues, so it is kind to who sends all at once; its messages have the
# headers of TCP with 1500 bytes (94.15 % of the line), and cost hosts nothing. pmx-sim has frames, queues, Acks and permits.
#   KINDS="gather ..." SIZES="8 1024 65536"
set -u
. "$(dirname "$0")/../system/common.bash"
command -v smpicc >/dev/null || skip_all simgrid "needs SimGrid: apt install simgrid libsimgrid-dev"
smpicc -O2 "$(dirname "$0")/simgrid.c" -o "$dir/collective" >"$dir/log" 2>&1 || { not_ok simgrid_build "" "$dir/log"; exit 1; }

# network NAME SWITCHES HOSTS: $dir/NAME for pmx-sim, $dir/NAME.xml for SMPI; hosts in equal parts, but one more at the first
network() {
	local name=$1 switches=$2 hosts=$3 s h from to
	{
		echo "switch s[0-$((switches - 1))] buffer=64K"
		for ((s = 0, from = 0; s < switches; s++, from = to)); do
			to=$((from + hosts / switches + (s < hosts % switches)))
			for ((h = from; h < to; h++)); do printf 'host h%s\nlink h%s s%s bandwidth=1G latency=5us\n' $h $h $s; done
		done
		for ((s = 1; s < switches; s++)); do echo "link s$s s0 bandwidth=1G latency=5us"; done
	} >"$dir/$name"
	awk '
		BEGIN {print "<?xml version=\"1.0\"?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<platform version=\"4.1\">\n<zone id=\"z\" routing=\"Floyd\">"}
		/^switch/ {split($2, n, /[\[\]-]/); for (i = n[2]; i <= n[3]; i++) nodes = nodes "<router id=\"s" i "\"/>\n"}
		/^host/ {nodes = nodes "<host id=\"" $2 "\" speed=\"1Gf\"/>\n"}
		/^link/ {
			links = links "<link id=\"l" NR "\" bandwidth=\"1Gbps\" latency=\"5us\" sharing_policy=\"SPLITDUPLEX\"/>\n"
			ways = ways "<route src=\"" $2 "\" dst=\"" $3 "\" symmetrical=\"NO\"><link_ctn id=\"l" NR "\" direction=\"UP\"/></route>\n"
			ways = ways "<route src=\"" $3 "\" dst=\"" $2 "\" symmetrical=\"NO\"><link_ctn id=\"l" NR "\" direction=\"DOWN\"/></route>\n"
		}
		END {print nodes links ways "</zone>\n</platform>"}' "$dir/$name" >"$dir/$name.xml"
	sed -n 's/^host //p' "$dir/$name" >"$dir/$name.hosts"
}

# smpi NETWORK SELECTOR KIND BYTES: ms
smpi() {
	timeout 300 smpirun -platform "$dir/$1.xml" -hostfile "$dir/$1.hosts" --cfg=smpi/coll-selector:"$2" --cfg=smpi/simulate-computation:no \
		--cfg=network/model:CM02 --cfg=network/bandwidth-factor:0.9415 --cfg=network/latency-factor:1 --cfg=network/crosstraffic:0 \
		--log=root.thres:critical "$dir/collective" "$3" "$4" 2>"$dir/log" | awk '/^took/ {print $2}'
}

# planned NETWORK KIND BYTES: the generator that the planner takes, and ms
planned() {
	local taken
	taken=$("$build/app/pmx-ctl" plan --topology "$dir/$1" --kind "$2" --size "$3" 2>"$dir/log" | awk '$NF == "taken" {print $1}')
	[ -n "$taken" ] || taken=phases # what is guessed is not in the table
	"$build/app/pmx-sim" collective --topology "$dir/$1" --kind "$2" --size "$3" --generator "$taken" 2>"$dir/log" |
		awk -v g="$taken" '$1 == g {print g, $3}'
}

network 16 1 16
network 56 3 56
printf '# %-6s %-14s %8s %-10s %10s %10s %10s %9s %9s\n' hosts collective bytes plan ours "Open MPI" MPICH OMPI/ours MPICH/ours
for name in 16 56; do
	for kind in ${KINDS:-gather scatter bcast reduce allgather alltoall allreduce reduce_scatter barrier}; do
		for bytes in $([ "$kind" = barrier ] && echo 0 || echo "${SIZES:-8 1024 65536}"); do
			read -r plan ours < <(planned "$name" "$kind" "$bytes")
			ompi=$(smpi "$name" ompi "$kind" "$bytes")
			mpich=$(smpi "$name" mpich "$kind" "$bytes")
			if [ -z "${ours:-}" ] || [ -z "$ompi" ] || [ -z "$mpich" ]; then
				not_ok "simgrid_${name}_${kind}_$bytes" "ours '${ours:-}', Open MPI '$ompi', MPICH '$mpich'" "$dir/log"
				continue
			fi
			awk -v n="$name" -v k="$kind" -v b="$bytes" -v p="$plan" -v o="$ours" -v x="$ompi" -v y="$mpich" 'BEGIN {
				printf "# %-6s %-14s %8d %-10s %10.3f %10.3f %10.3f %9.2f %9.2f\n", n, k, b, p, o, x, y, x / o, y / o}'
			ours=
		done
	done
	ok "simgrid_$name"
done
exit $failed
