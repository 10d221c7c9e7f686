# SPDX-License-Identifier: BSD-3-Clause
#
# Members of groups as processes (groups.c) on two primaries over UDP sockets, and what is said to them and heard of them. To be sourced
# after common.bash; $suite: the name of the tests. `lossy` in the environment: links lose 5 %.

need_hugepages $suite 192
program=$build/test/groups
ini() {
	node_ini "$1" <<-END
		${lossy:+fault = loss=5%,seed=$1}
		[engine]
		idle = adaptive
		[proto]
		keepalive_ms = 1000
		[limits]
		mbufs = 8192
		contexts = 8
	END
}
ini 0
ini 1
for i in 0 1; do
	primary $i -l $i -m 96 || { not_ok ${suite}_start "primary $i does not start"; exit 1; }
	primaries[i]=$last
done

declare -A pid in
id=0

# members TIMEOUT_MS NODE:CONTEXT...: a process for each, by its rank, in a group of its own; a node with / does not come. Rank 0 waits
# so long for the others, and they, which may have come before it, longer for its answer.
members() {
	local timeout=$1 rank=0 m list=()
	shift
	id=$((id + 1))
	for m; do list+=("${m%/}"); done
	for m; do
		if [ "$m" = "${m%/}" ]; then
			start_fed "$dir/m$rank.log" "$program" "$tag${m%:*}" "${m#*:}" $id $(((1 + 9 * (rank > 0)) * timeout)) "${list[@]}"
			in[$rank]=$to
			pid[$rank]=$last
		fi
		rank=$((rank + 1))
	done
}

say() { # RANK COMMAND
	echo "$2" >&"${in[$1]}"
}

# hears TEST RANK TEXT: within 60 s that member tells this
hears() {
	if wait_for "${PATIENCE:-60}" grep -qxE -- "$3" "$dir/m$2.log"; then
		ok "$1"
	else
		not_ok "$1" "member $2 did not tell '$3'" "$dir/m$2.log"
	fi
}

# shows TEST NODE PATTERN: within 60 s pmx-ctl groups has such a line
shows() {
	local line
	has_line() { "$build/app/pmx-ctl" --instance "$tag$line" groups >"$dir/ctl.log" && grep -qE -- "$1" "$dir/ctl.log"; }
	line=$2
	if wait_for 60 has_line "$3"; then ok "$1"; else not_ok "$1" "no line '$3'" "$dir/ctl.log"; fi
}

# quits RANK...: these end in good order
quits() {
	local r
	for r; do say "$r" quit; done
	for r; do
		wait "${pid[$r]}" || not_ok "${suite}_quit_$r" "exit code $?" "$dir/m$r.log"
		exec {in[$r]}>&-
	done
}

dies() { # RANK
	kill -KILL "${pid[$1]}"
	wait "${pid[$1]}" 2>/dev/null
	exec {in[$1]}>&-
}

# taken_over TEST NODE
taken_over() {
	local old=${primaries[$2]}
	OPTIONS=(--take-over)
	primary "$2" -l "$2" -m 96 && ok "$1" || not_ok "$1" "the primary of node $2 is not replaced"
	OPTIONS=()
	primaries[$2]=$last
	wait_for 60 sh -c "! kill -0 $old 2>/dev/null" || not_ok "$1" "the old primary of node $2 does not end"
}

# under_take_overs TEST COMMAND ANSWER...: all members do that while the primaries of both nodes are replaced
under_take_overs() {
	local name=$1 turn r
	rm -f "$dir/number".*
	PMX_ATTACH=thin members 10000 0:0 0:1 1:0 1:1
	for r in 0 1 2 3; do hears "${name}__opens_$r" $r 'open: 0'; done
	for r in 0 1 2 3; do say $r "$2"; done
	for turn in 0 1 2 3; do
		taken_over "${name}__$turn" $((turn % 2))
		sleep 0.2
	done
	! grep -qxE "$3" "$dir/m0.log" || not_ok "${name}__meanwhile" "the members had ended before the last primary was replaced"
	: >"$dir/number.enough"
	for r in 0 1 2 3; do PATIENCE=60 hears "${name}__ends_well_$r" $r "$3"; done
	quits 0 1 2 3
}
