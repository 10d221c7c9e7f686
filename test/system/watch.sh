#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: watch.sh BUILD_DIR
# What users watch nodes by, with two nodes between which messages go: counters of peers (pmx-ctl peers --all), pmx-ctl top on a
# terminal and in a file, and pmx-exporter: metrics in both formats, by a parser of this test's and by promtool where it is
# installed; the page, by Chromium where it is installed; added delay, a node that is killed, and 256 peers.
set -u
. "$(dirname "$0")/common.bash"

unset PMX_INSTANCE PMX_ATTACH
ctl=$build/app/pmx-ctl
exporter=$build/app/pmx-exporter
root=$(cd "$(dirname "$0")/../.." && pwd)
export PMX_ATTACH=thin

node() { # NUMBER [FAULT]: a primary; its process is in primaries
	node_ini "$1" <<-END
		mtu = 4000
		${2:+fault = $2}
		[engine]
		idle = adaptive
		[proto]
		keepalive_ms = 200
		retries = 8
		rto_max_us = 100000
		[limits]
		mbufs = 8192
		contexts = 8
		[access]
		group = $(id -gn nobody)
		mode = 0660
	END
	primary "$1" --no-huge -m 128 --lcores "0@0" || { not_ok "watch__node_$1" "" "$dir/$1.log"; exit 1; }
	primaries[$1]=$last
}
exchange() { # ROUNDS
	start "$dir/respond.log" timeout 100 "$build/app/pmx-perf" respond --instance "${tag}1" --idle yield
	local responder=$last
	timeout 100 "$build/app/pmx-perf" latency --rounds "$1" --warmup 0 --sizes 64 --instance "${tag}0" --to 1:1 --idle yield >"$dir/perf.log" 2>&1
	local code=$?
	[ $code -eq 0 ] && wait "$responder" || end "$responder"
	return $code
}
# holds NAME EXPRESSION: of Python, where c is the JSON of that command: node 0's and node 1's peers, and the counters of node 0
holds() {
	"$ctl" --instance "${tag}0" --json peers --all >"$dir/peers0" && "$ctl" --instance "${tag}1" --json peers --all >"$dir/peers1" &&
		"$ctl" --instance "${tag}0" --json stat --all >"$dir/stat" &&
		python3 - "$dir" "$2" >"$dir/said" 2>&1 <<-'END' && ok "$1" || not_ok "$1" "$2" "$dir/said"
			import json, sys
			load = lambda name: json.load(open(sys.argv[1] + "/" + name))
			p0, p1 = load("peers0")[0], load("peers1")[0]
			stat = {c["name"]: c["value"] for c in load("stat")["counters"]}
			print(p0, p1)
			sys.exit(not eval(sys.argv[2]))
		END
}

node 0
node 1
exchange 2000 && ok watch__messages || not_ok watch__messages "" "$dir/perf.log"

# ---- counters of peers
holds peers__are_these_nodes 'p0["node"] == 1 and p1["node"] == 0'
holds peers__count_each_message 'p0["tx_frames"] == stat["proto_messages_sent"] >= 2000'
holds peers__bytes 'p0["tx_bytes"] >= 96 * 2000 and p0["rx_bytes"] >= 32 * p0["rx_frames"]'
holds peers__hear_what_is_sent 'p1["rx_frames"] >= p0["tx_frames"] and p0["rx_frames"] >= p1["tx_frames"]'
holds peers__round_trips 'len(p0["round_trips"]) == 24 and 0 < sum(p0["round_trips"]) <= p0["rx_frames"]'
holds peers__silence 'p0["silent_ms"] < 60000'
"$ctl" --instance "${tag}0" peers --all >"$dir/out" && grep -q '^ *1 .* us' "$dir/out" && ok peers__table || not_ok peers__table "" "$dir/out"

# ---- ping: whether it answers, and why not
# pings NAME CODE TEXT ARGUMENTS...
pings() {
	says() {
		timeout 100 "$ctl" --instance "${tag}0" ping "${@:4}" >"$dir/ping" 2>&1
		[ $? -eq "$2" ] && grep -q -- "$3" "$dir/ping"
	}
	# a node that did not answer, and is there now, is asked again after a pause
	wait_for 30 says "$@" && ok "ping__$1" || not_ok "ping__$1" "no '$3'" "$dir/ping"
}
pings answers 0 'node 1: 5 of 5 messages of 8 bytes were answered; there and back: least' 1
pings by_address 0 '2 of 2 messages of 100000 bytes' 127.0.0.1 --size 100000 --times 2 --watch 0.1
pings unknown 1 'node 7 is not in \[nodes\]' 7
pings unknown_name 1 "has no node of that name" nobody.invalid
timeout 60 "$ctl" --instance "${tag}0" --json ping 1 --times 3 --watch 0.1 >"$dir/ping" && python3 -c 'import json, sys
d = json.load(sys.stdin)
sys.exit(not (d["answered"] == d["sent"] == 3 and 0 < d["round_trip_us"]["least"] <= d["round_trip_us"]["most"]))' <"$dir/ping" && ok ping__json || not_ok ping__json "" "$dir/ping"

# ---- contexts have names and users
start "$dir/named.log" env PMX_ATTACH=thin "$build/app/pmx-perf" respond --idle yield --instance "${tag}0" --context 5
named=$last
named() { "$ctl" --instance "${tag}0" contexts | awk '$1 == 5 && $(NF - 1) == "pmx-perf" && $NF == "root" {found = 1} END {exit !found}'; }
wait_for 30 named && ok contexts__name_and_user || not_ok contexts__name_and_user "" <("$ctl" --instance "${tag}0" contexts)
"$build/app/pmx-exporter" --once 2>/dev/null | grep -q 'context="5",context_name="pmx-perf"' && ok contexts__exporter_has_names || not_ok contexts__exporter_has_names
end "$named" KILL

# ---- top
"$ctl" --instance "${tag}0" top --batch --times 2 --watch 0.2 >"$dir/top" 2>&1 && [ "$(grep -c "^pmx-ctl top .*${tag}0" "$dir/top")" -eq 2 ] &&
	grep -q '^node\*' "$dir/top" && ok top__prints || not_ok top__prints "" "$dir/top"
awk 'length($0) > 80 {exit 1}' "$dir/top" && ok top__prints_80_columns || not_ok top__prints_80_columns "" "$dir/top"
"$ctl" --instance "${tag}0" top </dev/null >"$dir/out" 2>&1 && not_ok top__needs_a_terminal "" "$dir/out" || ok top__needs_a_terminal
# screen KEYS: what stands on a terminal of 80x24 after each key; it ends with q
screen() {
	TERM=xterm timeout 60 python3 - "$ctl" "${tag}0" "$1" <<-'END'
		import fcntl, os, pty, re, select, struct, sys, termios, time
		child, fd = pty.fork()
		if child == 0:
		    os.execv(sys.argv[1], [sys.argv[1], "--instance", sys.argv[2], "top", "--watch", "0.2"])
		fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
		seen = b""
		for key in [None] + list(sys.argv[3].encode().decode("unicode_escape")) + ["q"]:
		    if key is not None:
		        os.write(fd, key.encode())
		    until = time.monotonic() + 0.6
		    while (left := until - time.monotonic()) > 0 and select.select([fd], [], [], left)[0]:
		        try:
		            seen += os.read(fd, 65536)
		        except OSError:
		            break
		print(re.sub(rb"\x1b[\[(][0-9;?]*[A-Za-z]|\x1b[=>]", b"\n", seen).decode(errors="replace"))
		sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
	END
}
screen 'scn\tp\n' >"$dir/screen" 2>&1 && ok top__ends || not_ok top__ends "exit code $?" "$dir/screen"
for word in 'lanes 1' 'context' 'meaning' 'round trips below' Enter; do
	grep -q "$word" "$dir/screen" && ok "top__shows_${word// /_}" || not_ok "top__shows_${word// /_}" "" "$dir/screen"
done

# ---- without root: who may open the socket may look, and change nothing
group=$(id -g nobody)
as() { setpriv --reuid 12345 --regid "$1" --clear-groups "$ctl" "${@:2}"; }
as "$group" --instance "${tag}0" peers --all >"$dir/out" 2>&1 && grep -q '^ *1 ' "$dir/out" && ok group__may_look || not_ok group__may_look "" "$dir/out"
as "$group" --instance "${tag}0" top --batch --times 1 >"$dir/out" 2>&1 && grep -q '^node' "$dir/out" && ok group__top || not_ok group__top "" "$dir/out"
as "$group" --instance "${tag}0" reload >"$dir/out" 2>&1 && not_ok group__changes_nothing "" "$dir/out" || ok group__changes_nothing
grep -q "only root and the primary's user may ask that" "$dir/out" && ok group__says_so || not_ok group__says_so "" "$dir/out"
as "$group" --instance "${tag}0" capture -w "$dir/x.pcapng" >"$dir/out" 2>&1 && not_ok group__captures_nothing || ok group__captures_nothing
as 12345 --instance "${tag}0" peers >"$dir/out" 2>&1 && not_ok others__may_not_look "" "$dir/out" || ok others__may_not_look

# ---- metrics
start "$dir/exporter.log" "$exporter" --listen "127.0.0.1:$((port + 9))"
served=$last
url=http://127.0.0.1:$((port + 9))
# asks FILE PATH [HEADER [METHOD]]: the code; the answer in FILE
asks() {
	python3 - "$url$2" "$1" "${3:-}" "${4:-GET}" <<-'END'
		import sys, urllib.request, urllib.error
		url, out, header, method = sys.argv[1:]
		request = urllib.request.Request(url, headers={"Accept": header} if header else {}, method=method)
		try:
		    answer = urllib.request.urlopen(request, timeout=60)
		except urllib.error.HTTPError as e:
		    answer = e
		open(out, "wb").write(answer.read())
		print(answer.status, answer.headers["Content-Type"])
	END
}
serves() { asks "$dir/any" /metrics >/dev/null 2>&1; }
wait_for 60 serves && ok exporter__serves || not_ok exporter__serves "" "$dir/exporter.log"
[ "$(asks "$dir/text" /metrics)" = "200 text/plain; version=0.0.4; charset=utf-8" ] && ok exporter__text || not_ok exporter__text "$(asks "$dir/text" /metrics)"
[[ $(asks "$dir/open" /metrics 'application/openmetrics-text;version=1.0.0') = "200 application/openmetrics-text"* ]] && ok exporter__openmetrics || not_ok exporter__openmetrics ""
[[ $(asks "$dir/any" /nothing) = 404* ]] && ok exporter__no_other_path || not_ok exporter__no_other_path ""
[[ $(asks "$dir/any" / '' POST) = 405* ]] && ok exporter__reads_only || not_ok exporter__reads_only ""
"$exporter" --listen "127.0.0.1:$((port + 9))" >"$dir/out" 2>&1
[ $? -eq 1 ] && grep -q 'already in use' "$dir/out" && ok exporter__address_in_use || not_ok exporter__address_in_use "" "$dir/out"

# well_formed FILE [open]: a family's samples stand together behind its type; counters end with _total, histograms add up, labels are quoted
well_formed() {
	python3 - "$1" "${2:-}" <<-'END'
		import re, sys
		lines, open_format = open(sys.argv[1]).read().split("\n"), sys.argv[2] == "open"
		assert lines.pop() == "", "the last line has no end"
		if open_format:
		    assert lines.pop() == "# EOF", "no # EOF"
		family, kind, seen, samples, buckets = None, None, set(), set(), {}
		for line in lines:
		    if line.startswith("# HELP "):
		        assert re.fullmatch(r"# HELP pmx_[a-z0-9_]+ \S.*", line), line
		        continue
		    if m := re.fullmatch(r"# TYPE (pmx_[a-z0-9_]+) (counter|gauge|histogram)", line):
		        family, kind = m.groups()
		        assert family not in seen, "twice: " + family
		        seen.add(family)
		        continue
		    m = re.fullmatch(r'(\w+)\{((?:[a-z_]+="(?:[^"\\\n]|\\.)*",?)+)\} (\S+)', line)
		    assert m, line
		    name, labels, value = m.group(1), m.group(2), float(m.group(3))
		    ends = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}[kind]
		    assert name in [(family[:-6] if kind == "counter" and not open_format else family) + e for e in ends], line
		    assert line.split(" ")[0] not in samples, "twice: " + line
		    assert 'primary="' in labels, line
		    samples.add(line.split(" ")[0])
		    if name.endswith("_bucket"):
		        le = re.search(r'le="(.*?)"', labels).group(1)
		        of = re.sub(r',le=".*"', "", labels)
		        assert value >= buckets.get(of, (0, 0))[1] and float(le) > buckets.get(of, (-1, 0))[0], line
		        buckets[of] = (float(le), value)
		    if kind == "histogram" and name.endswith("_count"):
		        assert buckets[labels] == (float("inf"), value), line
		assert len(seen) > 80 and buckets, "%d families" % len(seen)
		print("%d families, %d samples" % (len(seen), len(samples)))
	END
}
passes exporter__text_is_well_formed well_formed "$dir/text"
passes exporter__openmetrics_is_well_formed well_formed "$dir/open" open
value() { # FILE NAME LABELS: of the sample that has these labels
	sed -n "s/^$2{[^}]*$3[^}]*} //p" "$1" | head -1
}
[ "$(value "$dir/text" pmx_up "primary=\"${tag}0\"")" = 1 ] && ok exporter__up || not_ok exporter__up "" "$dir/text"
[ "$(value "$dir/text" pmx_peer_up "primary=\"${tag}0\",peer=\"1\"")" = 1 ] && ok exporter__peer_up || not_ok exporter__peer_up "" "$dir/text"
holds exporter__has_what_pmx_ctl_has "int(float('$(value "$dir/text" pmx_peer_tx_frames_total "primary=\"${tag}0\",peer=\"1\"")')) == p0['tx_frames']"
"$exporter" --once --instance "${tag}1" >"$dir/once" && passes exporter__once well_formed "$dir/once" && ! grep -q "${tag}0" "$dir/once" || not_ok exporter__one_instance "" "$dir/once"
if [ -x "$(command -v promtool)" ]; then
	promtool check metrics <"$dir/text" >"$dir/out" 2>&1 && [ ! -s "$dir/out" ] && ok exporter__promtool || not_ok exporter__promtool "" "$dir/out"
	passes exporter__rules promtool check rules "$root/dpdk-config/prometheus/pmx-alerts.yml"
elif full; then
	echo "ok exporter__promtool # SKIP needs promtool: dpdk-config/install.sh --tests=full"
fi
# ---- Prometheus itself scrapes both nodes, and has as many bytes as were sent
# asked QUERY: the values of its answer, a line each
asked() {
	python3 - "http://127.0.0.1:$((port + 8))" "$1" <<-'END'
		import json, sys, urllib.parse, urllib.request
		url = sys.argv[1] + "/api/v1/query?query=" + urllib.parse.quote(sys.argv[2])
		for r in json.load(urllib.request.urlopen(url, timeout=30))["data"]["result"]:
		    print(int(float(r["value"][1])))
	END
}
if [ -x "$(command -v prometheus)" ]; then
	printf '%s\n' 'global: {scrape_interval: 1s}' 'scrape_configs:' '- job_name: pmx' '  static_configs:' "  - targets: ['127.0.0.1:$((port + 9))']" \
		"rule_files: ['$root/dpdk-config/prometheus/pmx-alerts.yml']" >"$dir/prometheus.yml"
	start "$dir/prometheus.log" prometheus --config.file "$dir/prometheus.yml" --storage.tsdb.path "$dir/tsdb" --web.listen-address "127.0.0.1:$((port + 8))"
	prometheus=$last
	both_up() { [ "$(asked "pmx_peer_up{primary=~\"${tag}[01]\"}" 2>/dev/null | grep -c 1)" -eq 2 ]; }
	wait_for 60 both_up && ok prometheus__scrapes_both || not_ok prometheus__scrapes_both "" "$dir/prometheus.log"
	bytes="pmx_peer_tx_bytes_total{primary=\"${tag}0\",peer=\"1\"}"
	before=$(asked "$bytes")
	exchange 4000 || not_ok prometheus__messages "" "$dir/perf.log"
	sent=$((4000 * (64 + 50))) # with the protocol's header
	enough() { now=$(asked "$bytes") && [ $(((now - before - sent) * 1000)) -ge $((-sent)) ]; }
	wait_for 60 enough
	awk -v got=$((now - before)) -v sent=$sent 'BEGIN {d = got / sent - 1; exit !(d < 0.001 && d > -0.001)}' && ok prometheus__bytes ||
		not_ok prometheus__bytes "$((now - before)), sent $sent"
	end "$prometheus"
elif full; then
	echo "ok prometheus # SKIP needs prometheus: dpdk-config/install.sh --tests=full"
fi

# what rules and the dashboard ask for is there
python3 - "$root/dpdk-config/prometheus" "$dir/text" >"$dir/out" 2>&1 <<-'END' && ok exporter__what_rules_ask_for || not_ok exporter__what_rules_ask_for "" "$dir/out"
	import json, re, sys
	there = set(re.findall(r"^(pmx_\w+)\{", open(sys.argv[2]).read(), re.M))
	panels = json.load(open(sys.argv[1] + "/pmx-grafana.json"))["panels"]
	asked = open(sys.argv[1] + "/pmx-alerts.yml").read() + " ".join(t["expr"] for p in panels for t in p["targets"])
	# those of contexts are there while one is open
	missing = [m for m in re.findall(r"\bpmx_(?!context_)[a-z_]+\b(?!\()", re.sub(r'__name__=~"[^"]*"', "", asked)) if m not in there]
	print(missing)
	sys.exit(bool(missing))
END

# ---- the page
[[ $(asks "$dir/page" /) = "200 text/html"* ]] && grep -q "${tag}0 <span class=up>" "$dir/page" && grep -q 'Round trips by peer' "$dir/page" && ok page__is_there || not_ok page__is_there "" "$dir/page"
! grep -qi '<script\|src=\|@import\|http:' "$dir/page" && ok page__has_nothing_from_elsewhere || not_ok page__has_nothing_from_elsewhere "" "$dir/page"
# 50 ms each way are seen where round trips are
end "${primaries[1]}"
node 1 delay=50000us
# the first message to a node in a new life may fail
exchange 20 || exchange 20 || not_ok watch__messages_with_delay "" "$dir/perf.log"
holds page__added_delay 'sum(p0["round_trips"][20:]) >= 10'
# a node that is killed is dead, and lost for its peer
end "${primaries[1]}" KILL
is_seen() {
	asks "$dir/page" / >/dev/null && asks "$dir/text" /metrics >/dev/null && grep -q "${tag}1 <span class=dead>dead" "$dir/page" && grep -q 'class="t down">down' "$dir/page" &&
		[ "$(value "$dir/text" pmx_up "primary=\"${tag}1\"")" = 0 ] && [ "$(value "$dir/text" pmx_peer_up "primary=\"${tag}0\",peer=\"1\"")" = 0 ]
}
wait_for 60 is_seen && ok page__death_of_a_node || not_ok page__death_of_a_node "" "$dir/page"
passes exporter__death_is_well_formed well_formed "$dir/text"
if [ -x "$(command -v chromium)" ] && full; then
	HOME=$dir timeout -k 5 100 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking --disable-component-update \
		--disable-sync --enable-logging=stderr --user-data-dir="$dir/chromium" --window-size=1300,900 --dump-dom "$url/" >"$dir/dom" 2>"$dir/chromium.log"
	grep -q "${tag}0" "$dir/dom" && ! grep -q 'CONSOLE' "$dir/chromium.log" && ok page__in_a_browser || not_ok page__in_a_browser "" "$dir/chromium.log"
elif full; then
	echo "ok page__in_a_browser # SKIP needs chromium: dpdk-config/install.sh --tests=full"
fi
end "$served"
wait "$served" 2>/dev/null

# ---- many peers: pages of answers, and every one of them
{
	sed '/^\[nodes\]/,/^\[link/{/^[0-9]* = /d}' "$dir/0.ini" | sed 's/^contexts = .*/&\nnodes = 300\npeers = 300/'
	echo '[nodes]'
	for n in {0..256}; do
		echo "$n = 127.0.0.1:$((port + n % 2))"
	done
} >"$dir/many.ini"
sed -i "s/^name = .*/name = ${tag}many/; s/^listen = .*/listen = 127.0.0.1:$((port + 5))/; 0,/^\[nodes\]/{/^\[nodes\]/d}" "$dir/many.ini"
if primary many --no-huge -m 128 --lcores "0@0"; then
	begun=$(micros)
	"$exporter" --once --instance "${tag}many" >"$dir/many.txt"
	echo "# 256 peers, their start included: $(($(micros) - begun)) us"
	[ "$(grep -c '^pmx_peer_up{' "$dir/many.txt")" -eq 256 ] && ok exporter__256_peers || not_ok exporter__256_peers "$(grep -c '^pmx_peer_up{' "$dir/many.txt")"
else
	not_ok watch__many "" "$dir/many.log"
fi
exit $failed
