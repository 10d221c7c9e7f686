# SPDX-License-Identifier: BSD-3-Clause
#
# Jobs of processes that are stopped, parked and go on (preempt.c), on primaries that the test configures, and what is said to them and
# heard of them. To be sourced after common.bash; $nodes: those of the test, $suite: the name of its tests.

preempt=$build/test/preempt
ctl=$build/app/pmx-ctl
nobody=65534
chmod 755 "$dir"
mkdir "$dir/door"
chmod 755 "$dir/door"

begin() { # NODE
	primary "$1" -l $(($1 % 2)) -m 192 || { not_ok ${suite}_start "primary $1 does not start"; exit 1; }
	primaries[$1]=$last
}

# at NODE COMMAND...: pmx-ctl
at() {
	local node=$1
	shift
	timeout 30 "$ctl" --instance "$dir/door/$node.sock" "$@"
}

counter() { timeout 30 "$ctl" --instance "$tag$1" stat --all | awk -v c="$2" '$1 == c {print $2}'; }

# jobs NODE JOB: its line of pmx-ctl jobs, without the number: state, contexts, stopped, settled
jobs() { at "$1" jobs | awk -v j="$2" '$1 == j {$1 = ""; print substr($0, 2)}'; }
is_job() { [[ $(jobs "$1" "$2") == "$3"* ]]; }

# job_is TEST NODE JOB STATE: within 20 s
job_is() {
	if wait_for 60 is_job "$2" "$3" "$4"; then
		ok "$1"
	else
		not_ok "$1" "job $3 of node $2 is '$(jobs "$2" "$3")', not '$4'"
	fi
}

equal() { # TEST VALUE WANTED
	if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "'$2', not '$3'"; fi
}

at_most() { # TEST VALUE BOUND
	if [ -n "$2" ] && [ "$2" -le "$3" ]; then ok "$1"; else not_ok "$1" "${2:-no figure}, more than $3"; fi
}

# What must be as before: flows and contexts. How many mbufs the queues hold is not the same at all times.
holdings() {
	local i
	for i in $nodes; do
		timeout 30 "$ctl" --instance "$tag$i" stat |
			awk -v n=$i '$1 == "mbufs_unpromised" || $1 == "flows" {printf "%s_%d=%s ", $1, n, $2}
				$1 == "mbufs_free" {printf "mbufs_free_%d=%d ", n, ($2 + 64) / 128}'
		timeout 30 "$ctl" --instance "$tag$i" --json contexts | tr -cd '{' | wc -c | tr '\n' ' '
	done
}
as_before() { now=$(holdings); [ "$now" = "$before" ]; }
nothing_is_left() { # TEST
	if wait_for 60 as_before; then ok "$1"; else not_ok "$1" "$now, before: $before"; fi
}

# ------------------------------------------------------------------ clients that obey

declare -A pid in

client() { # NAME NODE JOB [CONTEXT]: no job: 0
	local job=()
	[ "$3" = 0 ] || job=("PMX_JOB=$3")
	start_fed "$dir/$1.log" env "${job[@]}" ${SETPRIV[@]+"${SETPRIV[@]}"} "$preempt" client "$dir/door/$2.sock"
	pid[$1]=$last
	in[$1]=$to
	wait_for 60 grep -q ready "$dir/$1.log" || not_ok "${suite}_client_$1" "it does not attach" "$dir/$1.log"
	[ -z "${4:-}" ] || hears "" "$1" "open $4" 'open: 0'
}

say() { echo "$2" >&"${in[$1]}"; } # CLIENT COMMAND

# hears TEST CLIENT COMMAND ANSWER: empty TEST: only a failure is told; empty COMMAND: one of before
hears() {
	[ -z "$3" ] || { : >"$dir/$2.log"; say "$2" "$3"; }
	if wait_for 60 grep -qxE -- "$4" "$dir/$2.log"; then
		[ -z "$1" ] || ok "$1"
	else
		not_ok "${1:-${suite}_hears}" "client $2 did not tell '$4' of '$3'" "$dir/$2.log"
	fi
}

quits() {
	local c
	for c; do
		say "$c" quit
		wait "${pid[$c]}" || not_ok "${suite}_quit_$c" "exit code $?" "$dir/$c.log"
		exec {in[$c]}>&-
	done
}

dies() { # CLIENT
	kill -KILL "${pid[$1]}"
	wait "${pid[$1]}" 2>/dev/null
	exec {in[$1]}>&-
}

# ------------------------------------------------------------------ jobs that work

# member JOB SELF_MS SEED NODE RANK NODE:CONTEXT...: a process
member() {
	local job=$1 self=$2 seed=$3 node=$4 rank=$5
	shift 5
	PMX_JOB=$job PREEMPT_SEED=$seed start "$dir/j$job.$rank.log" "$preempt" member "$dir/door/$node.sock" "$rank" "$job" "$self" "$@"
	workers+=("$last")
	job_of[$last]=$job
}

# members JOB SELF_MS NODE:CONTEXT...: a process each, that work
members() {
	local job=$1 self=$2 rank=0 m
	shift 2
	for m; do
		member "$job" "$self" "$job" "${m%:*}" $rank "$@"
		rank=$((rank + 1))
	done
	wait_for 60 all_work "$job" $rank || not_ok ${suite}_members "those of job $job do not begin" "$dir/j$job.0.log"
}
all_work() { [ "$(cat "$dir/j$1".*.log | grep -c '^works')" = "$2" ]; }

# ended TEST JOB...: asks one of each job to end, and looks at what they tell. Each of them gives up by itself after 30 s in its last
# barrier and 30 s behind it, and says what it waited for: within 120 s here
ended() {
	local name=$1 job w until=$((SECONDS + 120))
	local -A codes=()
	shift
	kill -USR1 "${workers[@]}" 2>/dev/null
	for w in "${workers[@]}"; do
		if ! wait_for $((until - SECONDS)) gone "$w"; then
			ps -o stat=,wchan:24=,args= -p "$w" | sed 's/^/# does not end: /'
			kill -KILL "$w"
		fi
		wait "$w" || codes[${job_of[$w]}]+=" $?"
	done
	workers=()
	for job; do
		cat "$dir/j$job".*.log >"$dir/together.log"
		awk -v job="$job" '$1 == "done" {m += $2; a += $4; t += $6; c += $8; s += $10; l += $12; d += $14; w += $16; e += $18; n++}
			END {printf "# job %d: %d messages, %d matched, %d transfers, %d collectives, stopped by itself %d times: ", job, m, a, t, c / n, s
				printf "%d lost, %d twice, %d wrong, %d told error\n", l, d, w, e}' "$dir/together.log" | tee "$dir/sum"
		if [ -z "${codes[$job]:-}" ] && grep -q ' 0 lost, 0 twice, 0 wrong, 0 told error' "$dir/sum"; then
			ok "${name}__job_$job"
		else
			grep -vx works "$dir/together.log" >"$dir/told.log"
			not_ok "${name}__job_$job" "exit codes${codes[$job]:- all 0}" "$dir/told.log"
		fi
		rm "$dir/j$job".*.log
	done
}

# ------------------------------------------------------------------ primaries take over

taken_over() { # TEST NODE
	local old=${primaries[$2]}
	OPTIONS=(--take-over)
	primary "$2" -l $(($2 % 2)) -m 192 && ok "$1" || not_ok "$1" "the primary of node $2 is not replaced"
	OPTIONS=()
	primaries[$2]=$last
	wait_for 60 gone "$old" || not_ok "$1" "the old primary of node $2 does not end"
}

export PMX_ATTACH=thin
workers=()
declare -A job_of
