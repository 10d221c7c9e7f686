#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: survey.sh BUILD_DIR
# sanitize: no
# pmx-survey finds out what a network looks like: five nodes in namespaces at two bridges, whose trunk is as fast as the hosts' lines, so
# that it shows only by contention, then slower than these. Lines of 100 Mb/s, but one of 25, of which only latency could tell where it is. What others take of the two CPUs makes lines
# slower and farther than they are, so rates have to be within a fifth, in one of three tries. Root, hugepages.
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
there=("$build/app/pmx-run" --nodes "$dir/hosts" --agent "$dir/agent" --timeout 60)

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
	for _ in 1 2 3; do
		"${there[@]}" -n 5 "$build/app/pmx-survey" --out "$dir/found" >"$dir/log" 2>&1 || { not_ok "survey_$1" "exit code $?" "$dir/log"; return; }
		found=$(rates "$dir/found")
		{ cat "$dir/found"; sed -n 's/pmx-survey: done/# done/p' "$dir/log"; } | sed 's/^/# /'
		if awk -v t="$2" 'NR == 1 {
				split("100 100 100 100 25 " t, want)
				for (i = 1; i <= 6; i++) if (!($i > 0.8 * want[i] && $i < 1.2 * want[i])) bad = 1
			}
			NR == 2 && $1 != "two" {bad = 1}
			END {exit bad}' <<<"$found"; then
			ok "survey_$1"
			return
		fi
	done
	not_ok "survey_$1" "$found"
}

finds a_trunk_that_is_shared 100
for end in left right; do ports_limit "${tag}s" "t$end" 40 $buffer change; done
finds a_trunk_that_is_slower 40
if "$build/app/pmx-ctl" topology --topology "$dir/found" >"$dir/log" 2>&1; then
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
