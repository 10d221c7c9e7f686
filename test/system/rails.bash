# SPDX-License-Identifier: BSD-3-Clause
#
# Two primaries that reach each other by two links, veth pairs v and w between two namespaces, and a stream of messages over them
# (rails.c); for rails.sh and test/bench/rails.sh. To be sourced after common.bash.

ctl="$build/app/pmx-ctl"
export PMX_ATTACH=thin

# the namespaces and a second pair, w0 and w1
veth 1500 || skip_all rails "no veth pair between namespaces"
ip link add w0 netns "${tag}0" type veth peer name w1 netns "${tag}1" || skip_all rails "no second veth pair"
for i in 0 1; do
	ip netns exec "$tag$i" ethtool -K "w$i" tx off rx off gso off gro off tso off >/dev/null 2>&1
	ip -n "$tag$i" link set "w$i" mtu 1500 up
done

# start_node N ENGINE-LINE
start_node() {
	cat >"$dir/$1.ini" <<-END
		[node]
		id = $1
		name = $tag$1
		[engine]
		idle = adaptive
		$2
		[limits]
		contexts = 8
		mbufs = 16384
		flows = 256
		[link 0]
		port = net_af_packet0
		[link 1]
		port = net_af_packet1
		[nodes]
		0 = auto link=0,1
		1 = auto link=0,1
	END
	run_node "$1"
}

run_node() {
	PREFIX=(ip netns exec "$tag$1")
	primary "$1" -m 224 -l "${cpus:-$1}" --vdev="net_af_packet0,iface=v$1" --vdev="net_af_packet1,iface=w$1"
}

# stop_nodes: what they log stays
stop_nodes() {
	local pid
	for pid in ${nodes[@]+"${nodes[@]}"}; do end "$pid"; done
	nodes=()
}

start_nodes() { # ENGINE-LINE
	nodes=()
	local i
	for i in 0 1; do
		start_node $i "$1" || { not_ok rails__start "a primary does not start"; exit 1; }
		nodes+=("$last")
	done
}

links_up() { # HOW MANY: node 0 sees so many links to node 1
	"$ctl" --instance "${tag}0" links | sed -n '/^peers with/,$p' | grep -c ' up *$' | grep -qx "$1"
}

reload() { # telemetry turns clients away now and then
	local try
	for try in {1..20}; do
		"$ctl" --instance "${tag}0" reload >"$dir/answer" 2>&1 && return
		sleep 0.1
	done
	return 1
}

start_stream() {
	start "$dir/receive.log" "$build/test/rails" receive "${tag}1" 1
	receiver=$last
	wait_for 60 grep -q ready "$dir/receive.log"
	start "$dir/send.log" "$build/test/rails" send "${tag}0" 1:1
	sender=$last
	wait_for 60 grep -q ready "$dir/send.log"
	wait_for 60 goes_on 0 || not_ok rails__streams "" "$dir/send.log"
}

progress() { awk '$1 == "at" {n = $2} END {print n + 0}' "$dir/receive.log"; }

# goes_on N: more messages have come since there were N than can be under way
goes_on() { [ "$(progress)" -ge $(($1 + 2000)) ]; }

# end_stream NAME: it ends whole
end_stream() {
	kill -TERM "$sender"
	local code=0
	wait_for 60 gone "$sender" && wait_for 60 gone "$receiver" || code=1
	wait "$sender" || code=1
	wait "$receiver" || code=1
	local sent received
	sent=$(sed -n 's/^sent //p' "$dir/send.log") received=$(sed -n 's/^received //p' "$dir/receive.log")
	[ $code = 0 ] && [ -n "$sent" ] && [ "$sent" = "$received" ] && ok "$1" || {
		not_ok "$1" "sent '$sent', received '$received'" "$dir/send.log"
		tail -5 "$dir/receive.log" | sed 's/^/# /'
	}
	echo "# $sent messages"
}

death_is_logged() { grep -q "not reached by link" "$dir/0.log" "$dir/1.log"; }

# die_and_return TIMES NAME: the stream goes on while a link is dead, and so does the link when it is up again; prints the pauses
die_and_return() {
	local k names=(v w) name end n
	: >"$dir/deaths"
	for ((k = 0; k < $1; k++)); do
		name=${names[RANDOM % 2]} end=$((RANDOM % 2))
		n=$(progress)
		echo "$(date +%s.%N) $name$end" >>"$dir/deaths"
		ip -n "$tag$end" link set "$name$end" down
		wait_for 60 goes_on "$n" || { not_ok "$2_goes_on" "not while $name$end is down, after $k times" "$dir/0.log"; return; }
		wait_for 60 links_up 1 || { not_ok "$2_is_known" "that $name$end is down, after $k times" "$dir/0.log"; return; }
		if [ $k = 0 ]; then
			"$ctl" --instance "${tag}0" doctor >"$dir/doctor" 2>&1
			wait_for 60 death_is_logged # which looks now and then
		fi
		ip -n "$tag$end" link set "$name$end" up
		wait_for 60 links_up 2 || { not_ok "$2_comes_back" "$name$end, after $k times" "$dir/0.log"; return; }
		sleep 0.$((RANDOM % 3 + 1))
	done
	ok "$2_goes_on"
	ok "$2_comes_back"
	# the longest silence that ends within half a second from each death
	awk 'FNR == NR {if ($1 == "gap") {at[n] = $2; ms[n++] = $3}; next}
		{most = 2; for (i = 0; i < n; i++) if (at[i] > $1 && at[i] < $1 + 0.5 && ms[i] > most) most = ms[i]; print most, $2}' \
		"$dir/receive.log" "$dir/deaths" | sort -g >"$dir/pauses"
	echo "# pause after a death of $1, in ms: p50 $(awk '{print $1}' "$dir/pauses" | median), longest $(tail -1 "$dir/pauses")"
}
