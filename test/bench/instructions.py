#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Instructions per message or transfer in every shape, by callgrind.

Two embedded nodes in one process send over the loop link (test/bench/instructions.c). The counts
repeat for one binary, and say nothing of cache misses. Acks go by the number of messages here, not
by time, for valgrind is slow: one for 32 messages of a flow, one for 8 with 8 flows or more, one
for each with 64 or more.

    client send     pmx_get_send_buffer, the payload, pmx_send_burst, and completions
    engine send     the turn that takes submissions and sends frames
    engine receive  the turn of the other node, which writes entries (and an Ack now and then)
    client receive  pmx_receive_burst, a look at the payload, pmx_release_receive_buffer
    ack             the turn of the first node in which Acks arrive, if there are any

usage: instructions.sh [--json] [--check FILE | --record FILE] [BUILD [NEW_BUILD]]
  BUILD      of meson, with test/instructions; without it build-callgrind/ is made with the defaults
  NEW_BUILD  then each case has both, and new / old
  --json     a line a case
  --check    a case of each kind: exit status 1 if one takes over 2 % more than FILE says (8 % for
             an empty turn)
  --record   write FILE for --check
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

TOLERANCE = 1.02
# An empty turn looks whether a slot of its timers has passed, which is more often so where callgrind
# is slower: 332 to 350 instructions of the same program.
TURN_TOLERANCE = 1.08
FEW = "limits=lhs_entries = 64\nmatched_entries = 64\nsubmissions = 64"
ENTRY = "limits=lhs_entry_bytes = 128\nlhs_split = 104"

# What is counted: a name, bursts, and the arguments of test/instructions.
CASES = [
    ("1 flow, 64 B, 32 at once", 50, []),
    ("1 flow, 64 B, 4 at once", 400, ["at_once=4"]),
    ("1 flow, 64 B, 1 at once", 500, ["at_once=1"]),
    ("1 flow, 1 B", 50, ["bytes=1"]),
    ("1 flow, 40 B", 50, ["bytes=40"]),
    ("1 flow, 40 B, by pmx_send_copy", 50, ["bytes=40", "copies=1"]),
    ("1 flow, 40 B, by pmx_send_copy, 1 at once", 50, ["bytes=40", "copies=1", "at_once=1"]),
    ("1 flow, 64 B in entries of 128", 50, [ENTRY]),
    ("1 flow, 1024 B", 50, ["bytes=1024"]),
    ("1 flow, 8 KiB, 4 at once", 50, ["bytes=8192", "at_once=4"]),
    ("2 flows of 1 context", 50, ["fan=2"]),
    ("4 flows of 1 context", 50, ["fan=4"]),
    ("32 flows of 1 context", 50, ["fan=32"]),
    ("1000 flows of 1 context", 100, ["fan=1000", FEW]),
    ("2 contexts, a flow each", 50, ["pairs=2"]),
    ("4 contexts, a flow each", 50, ["pairs=4"]),
    ("32 contexts, a flow each", 50, ["pairs=32"]),
    ("128 contexts, a flow each", 50, ["pairs=128"]),
    ("32 contexts, 1024 flows", 50, ["pairs=32", "fan=32"]),
    ("matched, 8 B, by the client", 50, ["kind=matched", "bytes=8"]),
    ("matched, 8 B, by the engine", 50, ["kind=matched", "bytes=8", "matching=engine"]),
    ("matched, 1000 B, by the client", 50, ["kind=matched", "bytes=1000"]),
    ("matched, 1000 B, by the engine", 50, ["kind=matched", "bytes=1000", "matching=engine"]),
    ("push, 64 B", 50, ["kind=push"]),
    ("push, 32 KiB, 1 at once", 50, ["kind=push", "bytes=32768", "at_once=1"]),
    ("pull, 64 B", 50, ["kind=pull"]),
    ("pull, 32 KiB, 1 at once", 50, ["kind=pull", "bytes=32768", "at_once=1"]),
    ("plain round trip, 8 B", 1000, ["kind=ping"]),
    ("matched round trip, 8 B, client", 1000, ["kind=ping"]),
    ("matched round trip, 8 B, engine", 1000, ["kind=ping", "matching=engine"]),
    ("barrier of 4 members", 200, ["kind=barrier", "pairs=2"]),
    ("bcast of 4 members, 8 B", 200, ["kind=bcast", "pairs=2", "bytes=8"]),
    ("allgather of 4 members, 8 B", 200, ["kind=allgather", "pairs=2", "bytes=8"]),
    ("allreduce of 4 members, 8 B", 200, ["kind=allreduce", "pairs=2", "bytes=8"]),
    ("empty turn, 1 idle context", 4000, ["kind=idle"]),
    ("empty turn, 101 idle contexts", 4000, ["kind=idle", "pairs=101"]),
]

# What --check counts: one case of each kind, for a case takes ten seconds.
CHECKED = ["1 flow, 64 B, 32 at once", "1 flow, 64 B, 1 at once", "1 flow, 40 B", "2 flows of 1 context",
           "32 flows of 1 context", "32 contexts, a flow each", "matched, 8 B, by the client",
           "push, 64 B", "plain round trip, 8 B", "allreduce of 4 members, 8 B", "empty turn, 101 idle contexts"]

# Parts of the path, by the functions of test/instructions that take them.
PARTS = {
    "client send": ["client_send", "client_send_matched", "client_send_push", "client_send_pull",
                    "client_done"],
    "engine send": ["engine_send"],
    "engine receive": ["engine_receive"],
    "client receive": ["client_receive", "client_receive_matched", "client_post_matched"],
    "ack": ["engine_ack"],
}


def count(build, bursts, arguments):
    """Instructions of each bench_ function, and how many messages were sent (0: none is)."""
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "out")
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + out,
             os.path.join(build, "test/instructions"), "bursts=%d" % bursts] + arguments,
            capture_output=True, text=True)
        sent = re.search(r"^messages (\d+)", run.stdout, re.M)
        if run.returncode != 0 or sent is None:
            sys.exit("instructions.sh: %s: %s" % (" ".join(arguments), run.stderr[-600:]))
        text = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", out],
                              capture_output=True, text=True).stdout
    found = {}
    for number, name in re.findall(r"^\s*([\d,]+) .*?\bbench_([a-z_]+)", text, re.M):
        found.setdefault(name, int(number.replace(",", "")))
    return found, int(sent.group(1))


def measure(build, case):
    """A row: instructions per message of each part and of all, or of a round trip, of a turn, or of
    a collective at each member."""
    name, bursts, arguments = case
    found, sent = count(build, bursts, arguments)
    row = {"case": name}
    if "round trip" in name:
        row["all"] = found["plain_ping" if name.startswith("plain") else "matched_ping"] / bursts
    elif "turn" in name:
        row["all"] = found["engine_send"] / bursts
    elif "members" in name:
        row["all"] = found["collective"] / bursts / 4
    else:
        for part, functions in PARTS.items():
            row[part] = sum(found.get(f, 0) for f in functions) / sent
        row["all"] = sum(row[part] for part in PARTS)
    return {key: round(v, 1) if isinstance(v, float) else v for key, v in row.items()}


def measure_within(build, case, limit):
    """The same; again, at most twice, if it is above the limit. Under callgrind everything takes
    fifty times as long, so on a busy machine an Ack may go by the clock that goes by its number
    otherwise. The least of the counts is the one without."""
    row = measure(build, case)
    for _ in range(2):
        if row["all"] <= limit:
            break
        row = min(row, measure(build, case), key=lambda r: r["all"])
    return row


def progress(text):
    if sys.stderr.isatty():
        sys.stderr.write("\r%-60s" % text)


def table(rows):
    head = ["instructions per message"] + list(PARTS) + ["all", "/ first"]
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    for row in rows:
        parts = ["%.0f" % row[p] if p in row else "" for p in PARTS]
        ratio = "%.2f" % (row["all"] / rows[0]["all"]) if "client send" in row else ""
        lines.append("| " + " | ".join([row["case"]] + parts + ["%.0f" % row["all"], ratio]) + " |")
    return "\n".join(lines)


def compared(old, new):
    lines = ["%-34s %10s %10s %8s" % ("instructions per message", "old", "new", "new/old")]
    for a, b in zip(old, new):
        lines.append("%-34s %10.1f %10.1f %8.4f" % (a["case"], a["all"], b["all"],
                                                    b["all"] / a["all"]))
    return "\n".join(lines)


def read_recorded(path):
    with open(path) as f:
        return dict(line.rstrip("\n").rsplit("\t", 1) for line in f if "\t" in line)


def limit_of(recorded, name):
    tolerance = TURN_TOLERANCE if "turn" in name else TOLERANCE
    return float(recorded.get(name, 0)) * tolerance


def check(rows, recorded):
    bad = 0
    for row in rows:
        fine = row["all"] <= limit_of(recorded, row["case"])
        bad += not fine
        print("%s instructions__%s %.1f, recorded %s" %
              ("ok" if fine else "not ok", re.sub(r"\W+", "_", row["case"]), row["all"],
               recorded.get(row["case"], "nowhere")))
    return 1 if bad else 0


def default_build():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    build = os.path.join(root, "build-callgrind")
    if not os.path.isdir(build):
        subprocess.run(["meson", "setup", build, root], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", build, "test/instructions"], check=True,
                   stdout=subprocess.DEVNULL)
    return build


def main():
    p = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    p.add_argument("--json", action="store_true")
    p.add_argument("--check")
    p.add_argument("--record")
    p.add_argument("builds", nargs="*")
    o = p.parse_args()
    recorded = read_recorded(o.check) if o.check else {}
    results = []
    for build in o.builds or [default_build()]:
        # callgrind counts the same whatever else runs
        cases = [case for case in CASES if not o.check or case[0] in CHECKED]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            rows = []
            for row in pool.map(lambda case: measure_within(
                    build, case, limit_of(recorded, case[0]) if o.check else float("inf")),
                    cases):
                rows.append(row)
                progress("%s: %d of %d: %s" % (build, len(rows), len(cases), row["case"]))
            results.append(rows)
    progress("")
    rows = results[-1]
    if o.record:
        with open(o.record, "w") as f:
            f.writelines("%s\t%.1f\n" % (row["case"], row["all"]) for row in rows)
    if o.check:
        return check(rows, recorded)
    if o.json:
        for rows in results:
            for row in rows:
                print(json.dumps(row))
    else:
        print(compared(*results) if len(results) == 2 else table(rows))
    return 0


sys.exit(main())
