#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: run.sh BUILD_DIR
# Jobs: pmx-run on this host and on three (network namespaces, a primary each), what it says and leaves behind when processes fail,
# and pmx_job_init() (job.c) under pmx-run and mpirun. Without root only what needs no primary.
set -u
. "$(dirname "$0")/common.bash"
run=$build/app/pmx-run
log=$dir/log

# says NAME CODE PATTERN COMMAND...: its exit code, and a line that it prints
says() {
	local name=$1 want=$2 pattern=$3 code=0
	shift 3
	timeout -k 5 60 "$@" >"$log" 2>&1 </dev/null || code=$?
	if [ $code != "$want" ]; then
		not_ok "$name" "exit code $code, not $want: ${*@Q}" "$log"
	elif ! grep -Eq -- "$pattern" "$log"; then
		not_ok "$name" "it does not say '$pattern': ${*@Q}" "$log"
	else
		ok "$name"
	fi
}

# ------------------------------------------------------------------ without a primary

# shellcheck disable=SC2016
{
	says run__ranks_and_sizes 0 '^0 of 3$' "$run" -n 3 sh -c 'echo $PMX_RANK of $PMX_SIZE'
	[ "$(sort "$log" | tr '\n' ' ')" = "0 of 3 1 of 3 2 of 3 " ] || not_ok run__each_rank_once "" "$log"
	says run__label 0 '^\[2\] two$' "$run" -n 3 --label sh -c '[ $PMX_RANK != 2 ] || printf "one\ntwo\n"'
	says run__errors_are_passed_on 0 '^to stderr$' "$run" sh -c 'echo to stderr >&2'
	says run__a_code_ends_the_job 7 'rank 1 \(process [0-9]+ on this host\) ended with code 7: the others are ended too' \
		"$run" -n 3 sh -c '[ $PMX_RANK != 1 ] || exit 7; sleep 50'
	says run__a_signal_ends_the_job 139 'rank 0 .* was ended by signal 11 \(Segmentation fault\)' "$run" -n 2 sh -c \
		'[ $PMX_RANK != 0 ] || kill -SEGV $$; sleep 50'
	says run__who_ignores_the_end_is_killed 1 'rank 0 .* ended with code 1' "$run" -n 2 sh -c \
		'[ $PMX_RANK = 1 ] && trap "" TERM && while :; do sleep 1; done; sleep 0.5; exit 1'
	says run__variables 0 '^given and passed$' env ONE=passed PMX_THAT=given "$run" -x ONE -x TWO=more sh -c 'echo $PMX_THAT and $ONE'
	says run__directory 0 "^/usr/lib$" "$run" --wdir /usr/lib pwd
	says run__output_without_a_line_end 0 '^abc$' "$run" printf abc
	says run__all_output_comes 0 '^200000$' sh -c '"$0" -n 2 sh -c "seq 100000" | wc -l' "$run"
	says run__what_is_started_ends_too 0 '^done$' "$run" sh -c 'sleep 61.$$ & echo done'
}
# who is killed is gone when it has had the CPU for that
wait_for 60 sh -c '! pgrep -f "^sleep 61\." >/dev/null' && ok run__nothing_is_left || not_ok run__nothing_is_left "a process of a process runs on"
says run__timeout 124 'the time is over' "$run" --timeout 1 -n 2 sleep 50
says run__no_such_command 127 'rank 0 on this host cannot be started: /no/such: No such file or directory' "$run" -n 2 /no/such
says run__no_such_directory 127 'cannot be started: /no/such: No such file' "$run" --wdir /no/such true
says run__nothing_to_run 2 'what is to be run' "$run"
says run__bad_number 2 "-n 0: a number from 1 to 65536" "$run" -n 0 true
printf 'a slots=2\n\n# none\nb slots=zero\n' >"$dir/bad"
says run__bad_file 2 "bad:4: 'slots=zero': a line is HOST" "$run" --nodes "$dir/bad" true
printf -- '-oProxyCommand=x\n' >"$dir/bad"
says run__a_host_is_no_option 2 "bad:1: '-oProxyCommand=x'" "$run" --nodes "$dir/bad" true
printf 'a slots=2\nb\n' >"$dir/slots"
says run__too_few_slots 2 '4 processes, but the hosts have 3 slots' "$run" --nodes "$dir/slots" -n 4 true
says run__no_such_agent 1 'the way to it, or its pmx-run, has ended' "$run" --host nowhere --agent /no/such true
says run__no_agent_answers 1 'what answers there is no pmx-run' "$run" --host nowhere --agent 'echo this is something else entirely' true
says job__not_what_was_set 1 'these are not what pmx-run set' env PMX_JOB_FD=0 PMX_JOB=1 PMX_SIZE=1 PMX_RANK=0 "$build/test/job"
says job__slurm_without_an_exchange 1 'srun --mpi=pmix, or pmx-run' env SLURM_PROCID=0 SLURM_NTASKS=4 "$build/test/job"

# pmx-run is killed: its agent and its processes end
start "$dir/orphans.log" "$run" -n 3 sleep 62.5
wait_for 60 sh -c '[ "$(pgrep -fc "^sleep 62\.5")" = 3 ]' || not_ok run__killed_start "" "$dir/orphans.log"
end "$last" KILL
wait_for 60 sh -c '! pgrep -f "^sleep 62\.5" >/dev/null' && ok run__killed_leaves_nothing || not_ok run__killed_leaves_nothing "processes run on"
start "$dir/orphans.log" "$run" -n 3 sleep 62.5
wait_for 60 sh -c '[ "$(pgrep -fc "^sleep 62\.5")" = 3 ]'
kill -KILL "$(pgrep -P "$last")"
wait "$last"
[ $? = 1 ] && wait_for 60 sh -c '! pgrep -f "^sleep 62\.5" >/dev/null' && ok run__a_killed_agent_leaves_nothing ||
	not_ok run__a_killed_agent_leaves_nothing "" "$dir/orphans.log"
start "$dir/orphans.log" "$run" -n 3 sleep 62.5
wait_for 60 sh -c '[ "$(pgrep -fc "^sleep 62\.5")" = 3 ]'
kill -INT "$last"
wait "$last"
[ $? = 130 ] && wait_for 60 sh -c '! pgrep -f "^sleep 62\.5" >/dev/null' && ok run__interrupted || not_ok run__interrupted "" "$dir/orphans.log"

# ------------------------------------------------------------------ with primaries

[ "$(id -u)" -eq 0 ] || { echo "ok run__jobs # SKIP needs root"; exit $failed; }
need_hugepages run__jobs 448
provider_node 128 || { not_ok run__start ""; exit 1; }
export PMX_INSTANCE=${tag}0 PMX_ATTACH=thin

says job__alone 0 'rank 0 of 1 is right' "$build/test/job"
says job__one_host 0 'rank 3 of 4 is right' "$run" -n 4 "$build/test/job"
says job__a_rank_dies 137 'rank 2 \(process [0-9]+ on this host\) was ended by signal 9' "$run" -n 4 "$build/test/job" die 2
says job__a_rank_leaves 1 'rank 1 .* has left the job, but [0-9] others wait for it in an exchange' "$run" -n 3 "$build/test/job" leave 1
says job__a_rank_ends_in_the_midst 1 'rank 1 .* has left the job, but' "$run" -n 3 "$build/test/job" end 1
says job__no_primary 1 "primary 'nobody': " env PMX_INSTANCE=nobody "$build/test/job"
start "$dir/one.log" "$run" -n 3 "$build/test/job"
one=$last
says job__two_at_once 0 'rank 2 of 3 is right' "$run" -n 3 "$build/test/job"
wait "$one" && ok job__two_at_once_the_other || not_ok job__two_at_once_the_other "" "$dir/one.log"
if ! command -v mpirun >/dev/null; then
	echo "ok job__mpirun # SKIP Open MPI is not installed"
elif [[ $build == *asan* ]]; then
	echo "ok job__mpirun # SKIP PMIx's library leaks, and sanitizers count that"
else
	. "$(dirname "$0")/../mpi/open_mpi.bash"
	says job__mpirun 0 'rank 3 of 4 is right' mpirun --oversubscribe -np 4 -x PMX_INSTANCE "$build/test/job"
	numbers=$(sed -n 's/.* in job //p' "$log" | sort | uniq -c)
	[[ $numbers =~ ^\ *4\ [1-9][0-9]*$ ]] && ok "job__mpirun_all_have_one_number" || not_ok job__mpirun_all_have_one_number "'$numbers'"
	says job__mpirun_is_told_the_number 0 'rank 1 of 2 is right, in job 77$' env PMX_JOB=77 mpirun --oversubscribe -np 2 -x PMX_INSTANCE -x PMX_JOB "$build/test/job"
fi

# three hosts: each its namespace, host name, primary; the agent runs there by a command that takes ssh's place
ip netns add "${tag}C" && spaces+=("${tag}C") && ip -n "${tag}C" link add name lan type bridge && ip -n "${tag}C" link set lan up || exit 2
for host in 0 1 2; do
	ip netns add "$tag$host" && spaces+=("$tag$host") || exit 2
	ip link add name v$host netns "$tag$host" type veth peer name p$host netns "${tag}C" || exit 2
	ip -n "$tag$host" link set lo up
	ip -n "$tag$host" link set v$host up
	ip -n "$tag$host" addr add 10.9.0.$((host + 1))/24 dev v$host
	ip -n "${tag}C" link set p$host master lan up
	cat >"$dir/h$host.ini" <<-END
		[node]
		id = $host
		name = ${tag}h$host
		[engine]
		idle = adaptive
		[limits]
		contexts = 16
		[link 0]
		driver = udp
		listen = 10.9.0.$((host + 1)):18600
		mtu = 1472
		[nodes]
		0 = 10.9.0.1:18600
		1 = 10.9.0.2:18600
		2 = 10.9.0.3:18600
	END
	PREFIX=(ip netns exec "$tag$host")
	primary h$host -l $((host % $(nproc))) -m 128 || { not_ok run__hosts_start "$host"; exit 1; }
	echo "host$host instance=${tag}h$host # the $host."
done >"$dir/hosts"
PREFIX=()
cat >"$dir/agent" <<END
#!/bin/bash
host=\${1#host}; shift
exec ip netns exec "$tag\$host" unshare -u sh -c "hostname host\$host; exec \$*"
END
chmod +x "$dir/agent"
there=("$run" --nodes "$dir/hosts" --agent "$dir/agent")

says job__three_hosts 0 'rank 15 of 16 is right' "${there[@]}" -v -n 16 "$build/test/job"
[ "$(grep -c 'of 16 is right' "$log")" = 16 ] || not_ok job__three_hosts_all "" "$log"
grep -Eq 'rank 15 is process [0-9]+ on host2' "$log" && ok job__blocks_of_ranks || not_ok job__blocks_of_ranks "" "$log"
grep -E 'have met after' "$log" | sed 's/^pmx-run/#/'
says job__three_hosts_begin 0 '^met ' env BEGAN="$(date +%s.%N)" "${there[@]}" -n 16 "$build/test/job" meet
sed -n 's/^met/# 16 ranks on three hosts have their addresses and their group after/p' "$log"
says job__a_rank_of_another_host_dies 137 'rank 9 \(process [0-9]+ on host1\) was ended by signal 9' "${there[@]}" -n 16 "$build/test/job" die 9
# no other job reaches a job, nor does a process of none: on the same host and on others
start "$dir/alone.log" "${there[@]}" -n 6 "$build/test/job" alone "$dir/addresses"
alone=$last
if wait_for 60 [ -e "$dir/addresses" ]; then
	says job__another_job_is_refused 0 '^refused by 6$' "${there[@]}" -n 3 "$build/test/job" intrude "$dir/addresses"
	says job__a_stranger_is_refused 0 '^refused by 6$' ip netns exec "${tag}0" env PMX_INSTANCE="${tag}h0" "$build/test/job" strange "$dir/addresses"
fi
: >"$dir/addresses.over"
wait "$alone" && [ "$(grep -c 'was left alone' "$dir/alone.log")" = 6 ] && ok job__others_hear_nothing || not_ok job__others_hear_nothing "" "$dir/alone.log"
# the way to a host is cut
start "$dir/cut.log" "${there[@]}" -n 6 sleep 63.5
cut=$last
wait_for 60 sh -c '[ "$(pgrep -fc "^sleep 63\.5")" = 6 ]' || not_ok run__cut_start "" "$dir/cut.log"
kill -KILL "$(pgrep -P "$cut" | sed -n 2p)"
wait "$cut"
[ $? = 1 ] && grep -q 'host1: the way to it, or its pmx-run, has ended' "$dir/cut.log" && wait_for 60 sh -c '! pgrep -f "^sleep 63\.5" >/dev/null' &&
	ok run__a_host_that_is_lost_ends_the_job || not_ok run__a_host_that_is_lost_ends_the_job "" "$dir/cut.log"
exit $failed
