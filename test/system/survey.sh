#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: survey.sh BUILD_DIR
# pmx-survey finds out what a network looks like: five nodes in namespaces at two bridges, whose trunk is as fast as the hosts' lines, so
# that it shows only by contention, then slower than these. Lines of 100 Mb/s, but one of 25, of which only latency could tell where it is. Which ends share the
# trunk must be found as it is. What others take of the two CPUs makes lines slower and farther than they are, and nothing makes them
# faster: rates are between three tenths and five quarters of the lines', in one of five tries. Root, hugepages.
set -u
. "$(dirname "$0")/common.bash"
need_hugepages survey 320
. "$(dirname "$0")/../bench/ports.bash"

ports_switch "${tag}s" survey
ports_bridge left
ports_bridge right
for i in 0 1; do ports_host $i left 100; done
for i in 2 3; do ports_host $i right 100; done
ports_host 4 right 25
ports_trunk left right 100
ports_primaries || { not_ok survey_start "$ports_why"; exit 1; }

for i in {0..4}; do echo "host$i instance=$tag$i"; done >"$dir/hosts"
cat >"$dir/agent" <<END
#!/bin/bash
host=\${1#host}; shift
exec ip netns exec "$tag\$host" unshare -u sh -c "hostname host\$host; exec \$*"
END
chmod +x "$dir/agent"
export PMX_ATTACH=thin
there=("$build/app/pmx-run" --nodes "$dir/hosts" --agent "$dir/agent" --timeout 120)

# rates: what the text says, Mb/s, in order: of the hosts, and of the one link between switches
rates() {
	awk '
		function mbits(w) { sub("bandwidth=", "", w); return w * (w ~ /G$/ ? 1000 : 1) }
		$1 == "link" && $2 ~ /^n\[/ {
			split($2, r, /[][-]/)
			for (i = r[2]; i <= r[3]; i++) { rate[i] = mbits($4); at[i] = $3 }
		}
		$1 == "link" && $2 ~ /^n[0-9]+$/ { i = substr($2, 2); rate[i] = mbits($4); at[i] = $3 }
		$1 == "link" && $2 ~ /^s/ { trunk = mbits($4); trunks++ }
		END {
			print rate[0], rate[1], rate[2], rate[3], rate[4], trunk
			print at[0] == at[1] && at[2] == at[3] && at[0] != at[2] && trunks == 1 ? "two" : "other"
		}' "$1"
}

# finds NAME TRUNK
finds() {
	local found
	for _ in {1..5}; do
		"${there[@]}" -n 5 "$build/app/pmx-survey" --out "$dir/found.$2" >"$dir/log" 2>&1 || { not_ok "survey_$1" "exit code $?" "$dir/log"; return; }
		found=$(rates "$dir/found.$2")
		{ cat "$dir/found.$2"; sed -n 's/pmx-survey: done/# done/p' "$dir/log"; } | sed 's/^/# /'
		if awk -v t="$2" 'NR == 1 {
				split("100 100 100 100 25 " t, want)
				for (i = 1; i <= 6; i++) if (!($i > 0.3 * want[i] && $i < 1.25 * want[i])) bad = 1
			}
			NR == 2 && $1 != "two" {bad = 1}
			END {exit bad}' <<<"$found"; then
			ok "survey_$1"
			return
		fi
	done
	not_ok "survey_$1" "$found"
}

trunk() { # MBITS
	local end
	for end in left right; do ports_limit "${tag}s" "t$end" "$1" $buffer change; done
}

# follows NAME TOPOLOGY BEFORE AFTER: alltoalls of 100 KB of the four fast hosts, with plans by that topology that follow the network; the
# trunk is slower after BEFORE of them. Their numbers, ms, and how often plans had changed are in $dir/NAME.
follows() {
	rm -f "$dir/go"
	start "$dir/$1" env PMX_TOPOLOGY="$2" PMX_COLL_ADAPT=1 "${there[@]}" -x PMX_TOPOLOGY -x PMX_COLL_ADAPT -n 4 "$build/test/follows" 100000 "$3" "$4" "$dir/go"
	local pid=$last
	wait_for 60 grep -q '^go' "$dir/$1" || { not_ok "survey_$1" "it does not begin" "$dir/$1"; return 1; }
	[ "$3" -eq 0 ] || trunk 40
	touch "$dir/go"
	wait "$pid" || { not_ok "survey_$1" "exit code $?" "$dir/$1"; return 1; }
	sed "s/^/# $1 /" "$dir/$1"
}
least_of() { sort -g | head -1; }

finds a_trunk_that_is_shared 100
# Measured after three, of which what was there before may be some; then as fast as with a topology that was right from the beginning,
# half as much again at most. The quickest of each, and in one of three tries: the machine may be busy during one of them alone.
for try in 1 2 3; do
	[ $try -eq 1 ] || trunk 100
	follows changes "$dir/found.100" 4 14 || exit 1
	[ $try -gt 1 ] || finds a_trunk_that_is_slower 40
	follows fresh "$dir/found.40" 0 8 || exit 1
	first=$(awk '$1 ~ /^[0-9]+$/ && $3 > 0 {print $1 - 3; exit}' "$dir/changes")
	then=$(awk '$1 ~ /^[0-9]+$/ && $3 > 0 {print $2}' "$dir/changes" | least_of)
	knew=$(awk '$1 ~ /^[0-9]+$/ {print $2}' "$dir/fresh" | least_of)
	told="new plans from number ${first:-none} on after the trunk was slower; $then ms after it, $knew with a topology that knew"
	echo "# $told"
	follow=no
	[ -n "$first" ] && [ "$first" -le 5 ] && awk -v a="$then" -v b="$knew" 'BEGIN {exit !(a < 1.5 * b)}' && follow=yes && break
done
if [ $follow = yes ]; then
	ok survey__plans_follow
else
	not_ok survey__plans_follow "$told" "$dir/changes"
fi
if "$build/app/pmx-ctl" topology --topology "$dir/found.40" >"$dir/log" 2>&1; then
	sed 's/^/# /' "$dir/log"
	ok survey__is_drawn
else
	not_ok survey__is_drawn "" "$dir/log"
fi
# a group that measures for itself, and plans by what it finds
if PMX_TOPOLOGY=auto "${there[@]}" -x PMX_TOPOLOGY -n 10 "$build/app/pmx-survey" >"$dir/log" 2>&1; then
	ok survey__two_ranks_a_host
else
	not_ok survey__two_ranks_a_host "" "$dir/log"
fi
exit $failed
