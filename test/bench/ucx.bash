# SPDX-License-Identifier: BSD-3-Clause
# UCX as its own benchmark measures it. To be sourced; work: a directory.

# ucx TRANSPORTS ADDRESS SIZES: round trip and bandwidth, as rows of pmx-perf; nothing where ucx_perftest is not installed. The arrays
# first and second: what the two ends are run by.
ucx()
{
	local size test pid
	command -v ucx_perftest >/dev/null || return 0
	export UCX_TLS=$1
	for size in ${3//,/ }; do
		for test in tag_lat tag_bw; do
			"${second[@]}" timeout 60 ucx_perftest -p 7778 >"$work/1.log" 2>&1 &
			pid=$!
			sleep 0.5
			# the last line: iterations, p50 us, average us, overall us, average MB/s, overall MB/s, average and overall messages/s
			"${first[@]}" timeout 60 ucx_perftest "$2" -p 7778 -t $test -s "$size" -n $((size > 65536 ? rounds / 4 : rounds)) -f 2>"$work/0.log" |
				awk -v t=$test -v s="$size" '$1 ~ /^[0-9]+$/ {p = $2; b = $6; r = $8}
					END {if (t == "tag_lat") printf "{\"what\": \"ucx\", \"test\": \"latency\", \"size\": %d, \"p50_ns\": %d}\n", s, p * 2000
						else printf "{\"what\": \"ucx\", \"test\": \"bandwidth\", \"size\": %d, \"gbits\": %.9g, \"per_second\": %.9g}\n", s, b * 8 * 1.048576 / 1000, r}'
			wait $pid
		done
	done
}
