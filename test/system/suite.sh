#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: suite.sh BUILD_DIR
# pmx-perf suite and compare: columns in turns, of pmx-perf and of what ucx_perftest and fi_pingpong print; what is left out, what fails,
# and what is wrong in a file is said; nothing is left of what ran; a run that is worse is found. Loopback, no root.
set -u
. "$(dirname "$0")/common.bash"
perf=$build/app/pmx-perf

# refuses NAME CODE PATTERN COMMAND...: it ends so, and says so
refuses() {
	local name=suite__$1 expected=$2 pattern=$3 code=0
	shift 3
	timeout 100 "$@" >"$dir/out" 2>"$dir/log" || code=$?
	[ $code -eq "$expected" ] && cat "$dir/out" "$dir/log" | grep -qE -- "$pattern" && ok "$name" ||
		not_ok "$name" "exit code $code of ${*@Q}" "$dir/log"
}

file() { # NAME, lines on stdin
	{
		printf '[suite]\ntitle = Test & <title>\nturns = 2\nsizes = 64,1024\ntests = --sizes {sizes} --rounds 20 --warmup 2 --seconds 0.01 --idle yield\n'
		cat
	} >"$dir/$1.suite"
}

tcp='[TCP]
beside = pmx-perf baseline tcp --respond --idle yield --address 127.0.0.1:{port}
wait = 0.5
run = pmx-perf baseline tcp --initiate {tests} --address 127.0.0.1:{port}'

# what the programs of others print, as they do
mkdir "$dir/bin"
cat >"$dir/bin/ucx_perftest" <<'END'
#!/bin/sh
[ "$UCX_TLS" = tcp ] || exit 3
case " $* " in
*" -t "*) ;;
*) exec sleep 0.3 ;;
esac
echo "1000 1.000 1.000 1.000 10.0 10.0 100 100"
echo "2000 2.500 3.000 3.100 20.0 25.0 200 250000"
END
cat >"$dir/bin/fi_pingpong" <<'END'
#!/bin/sh
echo "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec"
echo "64      1k      =1k      125k        0.05s      2.81      22.74       0.04"
END
chmod +x "$dir/bin/"*
export PATH=$dir/bin:$PATH

file all <<END
$tcp
[UCX]
beside = UCX_TLS=tcp ucx_perftest -p {port}
wait = 0
run = UCX_TLS=tcp ucx_perftest 127.0.0.1 -p {port} -t tag_lat -s {size} -f
run2 = UCX_TLS=tcp ucx_perftest 127.0.0.1 -p {port} -t tag_bw -s {size} -f
[libfabric]
run = fi_pingpong -S {size}
[absent]
run = there-is-no-such-program {tests}
END
refuses all 0 'absent is left out: there-is-no-such-program is not installed' "$perf" suite "$dir/all.suite" --out "$dir/a"
python3 - "$dir/a" >"$dir/log" 2>&1 <<'END' && ok suite__results || not_ok suite__results "" "$dir/log"
import html.parser, json, sys
d = json.load(open(sys.argv[1] + "/results.json"))
of = lambda column, test: [r for r in d["results"] if r["column"] == column and r["test"] == test]
assert [c["name"] for c in d["columns"]] == ["TCP", "UCX", "libfabric", "absent"], d["columns"]
assert d["turns"] == 2 and d["machine"]["kernel"] and d["machine"]["dpdk"] and d["commit"], d
for test in "latency", "bandwidth":
    assert sorted((r["turn"], r["size"]) for r in of("TCP", test)) == [(1, 64), (1, 1024), (2, 64), (2, 1024)], of("TCP", test)
assert {(r["size"], r["p50_ns"]) for r in of("UCX", "latency")} == {(64, 5000), (1024, 5000)}
assert all(abs(r["gbits"] - 25 * 8 * 1.048576 / 1000) < 1e-6 and r["per_second"] == 250000 for r in of("UCX", "bandwidth"))
assert [r["p50_ns"] for r in of("libfabric", "latency")] == [45480] * 4
assert [r for r in d["results"] if r["column"] == "" and r["what"] == "away"]

class Page(html.parser.HTMLParser):
    open_tags, seen = [], set()
    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        assert not [v for k, v in attrs if k in ("src", "href")], attrs
        if tag not in ("meta", "br", "rect", "line", "polyline", "circle", "path"):
            self.open_tags.append(tag)
    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)
    def handle_endtag(self, tag):
        if tag in self.open_tags:
            assert self.open_tags.pop() == tag, tag
page, text = Page(), open(sys.argv[1] + "/report.html").read()
page.feed(text)
assert page.open_tags == [] and {"svg", "table", "code"} <= page.seen and "script" not in page.seen, (page.open_tags, page.seen)
assert "Test &amp; &lt;title&gt;" in text and "left out: there-is-no-such-program is not installed" in text
END
[ "$(ls "$dir/a")" = "$(printf 'report.html\nresults.json')" ] && ok suite__two_files || not_ok suite__two_files "$(ls "$dir/a")"

# ------------------------------------------------------------------ what fails

file fails <<END
[bad]
run = sh -c exit
run2 = false
[silent]
with = sleep 41
beside = sleep 47
wait = 0
run = true
[late]
beside = true
ready = {work}/never
run = pmx-perf copy
END
refuses fails 1 'bad: false ended with exit status 1' "$perf" suite "$dir/fails.suite" --out "$dir/b" --turns 1
pgrep -f '^sleep 4[17]$' >"$dir/left" && not_ok suite__nothing_is_left "" "$dir/left" || ok suite__nothing_is_left
for what in 'silent: true printed no result' 'beside did not make .*/never' 'bad has no result' 'late has no result'; do
	cat "$dir/log" | grep -q "$what" && ok "suite__says ${what%% *}" || not_ok "suite__says ${what%% *}" "$what" "$dir/log"
done
echo "timeout = 1" | file slow
printf '[slow]\nrun = sleep 30\n' >>"$dir/slow.suite"
refuses slow 1 'slow: sleep did not end within 1 s' "$perf" suite "$dir/slow.suite" --out "$dir/b" --turns 1
touch "$dir/there"
file there <<<$'[x]\nbeside = sleep 47\nready = {here}/there\nrun = true'
refuses ready_before 1 '/there is there already' "$perf" suite "$dir/there.suite" --out "$dir/b" --turns 1
file unknown <<<$'[x]\nrun = true {nothing}'
refuses unknown_name 1 '\{nothing\} is not defined' "$perf" suite "$dir/unknown.suite" --out "$dir/b"
file key <<<$'[x]\nruns = true'
refuses unknown_key 1 '\[x\] runs = true: no such key' "$perf" suite "$dir/key.suite" --out "$dir/b"
file turns <<<$'turns = 0\n[x]\nrun = true'
refuses bad_turns 1 'turns = 0: a number from 1 to 64' "$perf" suite "$dir/turns.suite" --out "$dir/b"
printf '[suite]\nturns = 1\n' >"$dir/none.suite"
refuses no_column 1 'no column' "$perf" suite "$dir/none.suite" --out "$dir/b"
refuses no_file 1 'No such file' "$perf" suite "$dir/nothing.suite" --out "$dir/b"
refuses no_out 2 'suite FILE --out DIR' "$perf" suite "$dir/all.suite"

# ------------------------------------------------------------------ compare

# run NAME FACTOR: five turns of a column whose round trip is FACTOR times 10 us, and of one that is the same in all
run() {
	python3 - "$dir/$1" "$2" <<'END'
import json, os, sys
os.makedirs(sys.argv[1])
row = lambda column, turn, ns: {"column": column, "turn": turn, "what": "pmx", "test": "latency", "size": 64, "p50_ns": int(ns * (1 + turn / 200))}
json.dump({"machine": {}, "columns": [{"name": "a"}, {"name": "b"}],
           "results": [row("a", t, 10000 * float(sys.argv[2])) for t in range(5)] + [row("b", t, 10000) for t in range(5)]},
          open(sys.argv[1] + "/results.json", "w"))
END
}
run same 1
run slower 1.2
run faster 0.8
refuses compare_same 0 '^0 of 2 figures are worse' "$perf" compare "$dir/same" "$dir/same"
refuses compare_worse 1 '^a .* 0\.833 .*WORSE' "$perf" compare "$dir/same" "$dir/slower"
refuses compare_better 0 '^a .* 1\.250 .*better' "$perf" compare "$dir/same" "$dir/faster"
refuses compare_threshold 0 '^0 of 2 figures are worse by more than 30 %' "$perf" compare "$dir/same" "$dir/slower" --threshold 30
refuses compare_columns 1 '^1 of 1 figures are worse' "$perf" compare "$dir/faster" --columns a,b
refuses compare_json 1 '"ratio": 0\.833.*"verdict": -1' "$perf" compare --json "$dir/same" "$dir/slower"
refuses compare_nothing 2 'no figure in common' "$perf" compare "$dir/same" --columns a,nobody
refuses compare_one 2 'compare OLD NEW' "$perf" compare "$dir/same"
refuses compare_no_run 2 'it is no results.json' "$perf" compare "$dir/same" <(echo '{}')
refuses compare_few_turns 0 '^0 of' "$perf" compare <(sed 's/"turn": [34]/"turn": 9, "test": "x"/g; s/"test": "x", "what": "pmx", "test": "latency"/"what": "pmx", "test": "x"/g' "$dir/same/results.json") \
	<(sed 's/"turn": [34]/"turn": 9, "test": "x"/g; s/"test": "x", "what": "pmx", "test": "latency"/"what": "pmx", "test": "x"/g' "$dir/slower/results.json")
exit $failed
