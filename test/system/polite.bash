# SPDX-License-Identifier: BSD-3-Clause
#
# Two primaries over UDP sockets, processes at each that look for messages which never come, and round trips beside them; for
# polite.sh and test/bench/polite.sh. To be sourced after common.bash.

cpus=$(nproc)
for i in 0 1; do
	node_ini $i <<-END
		[engine]
		idle = adaptive
		[limits]
		contexts = 16
	END
	primary $i -l $((i % cpus)) -m 64 || { not_ok polite_start "primary $i does not start"; exit 1; }
done

# pollers POLICY: one at each node, on the CPU of its primary
pollers() {
	local i
	polling=() lines=()
	for i in 0 1; do
		PMX_IDLE=$1 start_fed "$dir/poll$i.log" taskset -c $((i % cpus)) env PMX_ATTACH=thin "$build/test/stopped" "$tag$i" 9 poll
		polling+=("$last") lines+=("$to")
		wait_for 60 grep -q ready "$dir/poll$i.log" || not_ok polite_poller "" "$dir/poll$i.log"
	done
}

end_pollers() {
	local i
	for i in 0 1; do
		echo >&"${lines[i]}"
		wait_for 60 sh -c "! kill -0 ${polling[i]} 2>/dev/null" || end "${polling[i]}" KILL
		wait "${polling[i]}" || not_ok polite_poller "exit code $?" "$dir/poll$i.log"
	done
}

# round_trip ROUNDS WARMUP: the median, ns
round_trip() {
	start "$dir/respond.log" env PMX_ATTACH=thin "$build/app/pmx-perf" respond --instance "${tag}1" --cpu $((1 % cpus))
	local responder=$last
	wait_for 60 context_open 1 1
	PMX_ATTACH=thin timeout 100 "$build/app/pmx-perf" latency --instance "${tag}0" --cpu 0 --to 1:1 --sizes 64 --rounds "$1" \
		--warmup "$2" --json 2>"$dir/latency.log" | sed -n 's/.*"p50_ns": *\([0-9]*\).*/\1/p'
	end "$responder"
}
