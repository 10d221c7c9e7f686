#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What docs.sh asks of the documents' text: docs.py CHECK TOP BUILD_DIR prints what is wrong, a line
each, and ends with 1 if there is any. The documents are README.md and what lies beside it, the pages below doc, and doc/man/*.1, and
for names of keys also the public headers.

example       the verbs of README.md's C block are called in doc/example.c, in that order
generated     what stands between <!-- generated: WHAT --> and <!-- end --> is what the code, or the
              data beside the page, gives now (generate() below); "docs.py write TOP BUILD_DIR"
              writes it
golden        the golden bytes of doc/reference/wire.md are those of test/unit/test_wire.c
links         what a document links to exists
paths         files and folders that a document names exist; doc/README.md names all public
              headers, programs, pages and manual pages
requirements  names of functions and tests in doc/requirements.md exist
keys          keys of the configuration that are named, as limits.contexts, exist
counters      counters that are named exist, and each reason for a lost frame is explained
numbers       numbers that the code knows are the code's: the tables at the end of this file
programs      commands and options in the text and in command blocks exist, and each program's
              --help and manual page have the same ones
marks         each command block has one mark, on the line before it (an empty line may be between):
                <!-- run -->                 docs.sh runs it; it must end with 0
                <!-- run: until stopped -->  docs.sh runs it in the background, as a reader in a
                                             terminal of its own, until the page is through
                <!-- not run: WHY -->        it does not
              Blocks of a page are run in their order in one directory, which looks like a clone
              that was built, and has the page's blocks with <!-- file: NAME --> as files.

docs.py blocks TOP BUILD_DIR OUT NAME PORT writes those files into OUT/PAGE/work, and the blocks that
are run to OUT/PAGE/blocks/NN.run and NN.until. So that two runs do not meet, pmx0 and pmx1 become
NAME0 and NAME1, and the ports 18515, 18516, 18600 and 18601 are moved to PORT and the 20 behind it.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP, BUILD = sys.argv[2:4]
FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.M | re.S)
SHELLS = ("sh", "bash", "console", "shell")
COMMAND = re.compile(r"^\s*(?:\$ |sudo |pmx-\w|build/|test/\w+|dpdk-config/|meson |ninja )", re.M)
HISTORY = re.compile(r"<!-- tidy: history -->.*?<!-- tidy: end -->", re.S)
PROGRAMS = sorted(p for p in os.listdir(TOP + "/app") if os.path.isdir(TOP + "/app/" + p))


def read(name):
    with open(os.path.join(TOP, name), encoding="utf-8") as f:
        return f.read()


def names_of(pattern):
    return sorted(os.path.relpath(f, TOP) for f in glob.glob(os.path.join(TOP, pattern)))


PAGES = names_of("*.md") + names_of("doc/*.md") + names_of("doc/*/*.md")
MANUALS = names_of("doc/man/*.1")
HEADERS = names_of("include/pmx/*.h")


def blanked(pattern, text):
    """The text with what matches replaced by empty lines, as many."""
    return pattern.sub(lambda m: "\n" * m.group().count("\n"), text)


def prose(name):
    return blanked(FENCED, blanked(HISTORY, read(name)))


def place(name, text, offset):
    return "%s:%d" % (name, text.count("\n", 0, offset) + 1)


def spans(name):
    """(place, code) of each piece of inline code."""
    text = prose(name)
    for m in re.finditer(r"`([^`\n]+)`", text):
        yield place(name, text, m.start()), m.group(1)


def manual(name):
    return re.sub(r"\\f[BIRP]|\\,|\\/", "", read(name).replace("\\-", "-"))


# ------------------------------------------------------------------ text against text


def check_example():
    block = re.search(r"^```c\n(.*?)^```$", read("README.md"), re.M | re.S)
    verbs = re.findall(r"^(pmx_\w+)\(", block.group(1), re.M) if block else []
    if not verbs:
        yield "README.md has no C block with verbs"
    elif not re.search(".*".join(r"\b%s\(" % v for v in verbs), read("doc/example.c"), re.S):
        yield "README.md calls %s, and doc/example.c does not, in this order" % ", ".join(verbs)


# ------------------------------------------------------------------ what is generated

GENERATED = re.compile(r"(<!-- generated: (.*?) -->\n)(.*?)(<!-- end -->)", re.S)


def counters(which):
    """A table of the counters that the X-macros of a header list, or one of them."""
    header, _, macro = which.partition(" ")
    rows = ["| counter | unit | |", "|---|---|---|"]
    text = read(header)
    if macro:
        text = re.search(r"#define %s\(X\)((?:.*\\\n)*.*)" % macro, text).group(1)
    listed = re.findall(r"^\tX\((\w+), \"(.*?)\",\s*(\".*?\")\)", text.replace("\\\n", "\n"), re.M | re.S)
    for name, unit, texts in listed:
        rows.append("| `%s` | %s | %s |" % (name, unit, "".join(re.findall(r'"(.*?)"', texts)).replace("|", "\\|")))
    return "\n".join(rows)


def instructions(chosen=None):
    """The recorded instructions a message; of the cases that match, or of all."""
    rows = [line.split("\t") for line in read("test/bench/instructions.recorded").splitlines()]
    first = float(rows[0][1])
    return "\n".join(["| | instructions | of the first |", "|---|---:|---:|"] + [
        "| %s | %.0f | %.2f |" % (case, float(all_), float(all_) / first)
        for case, all_ in rows if chosen is None or re.search(chosen, case)])


def report(folder):
    """What quickstart.sh prints of its results, which it kept there (--json)."""
    files = sorted(glob.glob(os.path.join(TOP, folder, "*.*")))
    files = [f for f in files if re.search(r"/(embedded|attached)\.\w+$", f)]
    order = ["embedded.raw", "embedded.pmx", "embedded.tcp", "attached.pmx", "attached.tcp", "embedded.line"]
    files.sort(key=lambda f: order.index(os.path.basename(f)))
    out = subprocess.run([BUILD + "/app/pmx-perf", "report"] + ["%s=%s" % (os.path.basename(f).split(".")[0].upper(), f)
                                                               for f in files], capture_output=True, text=True, check=True)
    return "```text\n%s```" % out.stdout.lstrip("\n")


def troubles():
    """What may be wrong between two nodes' keys, from the table of lib/handshake."""
    table = re.search(r"\} troubles\[\w*\] = \{(.*?)\n\};", read("lib/handshake/handshake.c"), re.S).group(1)
    rows = ["| name | what it means, and what to do |", "|---|---|"]
    for entry in re.findall(r"\[HANDSHAKE_\w+\] = \{(.*?)\}", table, re.S)[1:]:
        name, *text = re.findall(r'"(.*?)"', entry)
        rows.append("| %s | %s |" % (name, "".join(text)))
    return "\n".join(rows)


def generate(what):
    kind, _, rest = what.partition(" ")
    if kind == "keys":
        return subprocess.run([BUILD + "/app/pmx-dpdk", "--config-doc"], capture_output=True, text=True,
                              check=True).stdout.strip("\n")
    if kind == "file":
        return "```text\n%s\n```" % read(rest).strip("\n")
    return {"counters": counters, "instructions": instructions, "report": report,
            "troubles": troubles}[kind](*([rest] if rest else []))


def generated(name):
    return GENERATED.sub(lambda m: m.group(1) + "\n" + generate(m.group(2)) + "\n\n" + m.group(4), read(name))


def check_generated():
    seen = 0
    for name in PAGES:
        found = GENERATED.findall(read(name))
        seen += len(found)
        if len(found) != read(name).count("<!-- generated:"):
            yield "%s: a generated part has no end of its own" % name
        if generated(name) != read(name):
            yield "%s: a generated part is not what it is made from: python3 test/system/docs.py write . BUILD_DIR" % name
    if seen == 0:
        yield "nothing is generated"
    words = len(GENERATED.sub("", read("doc/performance.md")).split())
    if words > 1500:
        yield "doc/performance.md: has %d words beside what is generated, and 1500 are the most" % words


def check_golden():
    def numbers(text):
        return [int(t, 16) if t.startswith("0x") else ord(t[1])
                for t in re.findall(r"0x[0-9A-Fa-f]{2}|'.'", text)]

    wanted = {}
    for name, body in re.findall(
            r"^(wire_hdr__golden\w+)\(void \*\*state\)\n\{.*?golden\[\w*\] = \{(.*?)\};",
            read("test/unit/test_wire.c"), re.M | re.S):
        wanted[name] = numbers(re.sub(r"/\*.*?\*/", "", body, flags=re.S))
    given = dict(re.findall(r"^golden: (\w+)\n+```hex\n(.*?)```", read("doc/reference/wire.md"), re.M | re.S))
    for name, text in given.items():
        if wanted.get(name) != [int(t, 16) for t in text.split()]:
            yield "golden: %s is not what test_wire.c has" % name
    for name in wanted.keys() - given.keys():
        yield "golden bytes of %s are not in doc/reference/wire.md" % name


def check_links():
    def anchors(path):
        with open(path, encoding="utf-8") as f:
            heads = re.findall(r"^#+ (.*)", blanked(FENCED, f.read()), re.M)
        return [re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads]

    for name in PAGES:
        text = blanked(FENCED, read(name))
        for m in re.finditer(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", m.group(1)):
                continue
            path, _, anchor = m.group(1).partition("#")
            file = os.path.join(TOP, os.path.dirname(name), path) if path else os.path.join(TOP, name)
            if not os.path.exists(file):
                yield "%s: %s does not exist" % (place(name, text, m.start()), m.group(1))
            elif anchor and file.endswith(".md") and anchor not in anchors(file):
                yield "%s: %s: no such heading" % (place(name, text, m.start()), m.group(1))


def check_paths():
    folders = set(os.listdir(TOP)) - {"build"}
    for name in PAGES:
        for where, code in spans(name):
            first = re.match(r"[\w.*\[\]/-]+", code)
            if not first or "/" not in code or code.split("/")[0] not in folders:
                continue
            paths = [first.group()] + re.findall(r", ([\w.]+\.[ch])\b", code)
            for path in paths:
                path = os.path.join(os.path.dirname(paths[0]), path) if "/" not in path else path
                if not glob.glob(os.path.join(TOP, path)) and not glob.glob(os.path.join(TOP, path + ".?")):
                    yield "%s: there is no %s" % (where, path)
    text = read("doc/README.md")
    for name in HEADERS + [page for page in PAGES if "/" in page] + MANUALS:
        if name != "doc/README.md" and os.path.relpath(name, "doc") not in text and name not in text:
            yield "doc/README.md does not name %s" % name
    for name in PROGRAMS:
        if "doc/man/%s.1" % name not in MANUALS:
            yield "%s has no manual page" % name


def check_requirements():
    seen = 0
    for number, line in enumerate(read("doc/requirements.md").split("\n"), 1):
        for path, names in re.findall(r"`([\w./-]+/[\w.-]+\.\w+):([\w, ]+)`", line):
            text = read(path) if os.path.isfile(os.path.join(TOP, path)) else ""
            for name in filter(None, re.split(r"[, ]+", names)):
                seen += 1
                if not re.search(r"\b%s\b" % name, text):
                    yield "doc/requirements.md:%d: %s has no %s" % (number, path, name)
    if seen == 0:
        yield "doc/requirements.md names nothing"


# ------------------------------------------------------------------ keys and counters


def config_keys():
    """{"limits.contexts": (default, least, most)}, as pmx-dpdk prints its table of keys."""
    out = subprocess.run([BUILD + "/app/pmx-dpdk", "--config-doc"], capture_output=True, text=True,
                         check=True).stdout
    keys, section = {}, ""
    for line in out.split("\n"):
        head = re.match(r"## \[(\w+)", line)
        row = re.split(r" *(?<!\\)\| *", line)
        if head:
            section = head.group(1)
        elif len(row) > 5 and row[1][:1] == "`":
            keys[section + "." + row[1].strip("`")] = [row[2]] + (row[4].split(" .. ") + ["", ""])[:2]
    return keys


def check_keys():
    keys = config_keys()
    members = set()
    for name in names_of("lib/*/*.h") + names_of("lib/*/*.c") + names_of("lib/engine/*/*/*.[ch]"):
        members.update(re.findall(r"(?:->|\.)(\w+)", read(name)))
    named = re.compile(r"(?<![\w./])((node|engine|link|proto|limits|access|discovery|security)\.([a-z]\w*))(?![\w.(/]*\w)")
    for name in PAGES + MANUALS + HEADERS:
        text = prose(name) if name.endswith(".md") else manual(name)
        for m in named.finditer(text):
            word, section, member = m.groups()
            if member in ("c", "h", "md") or word in keys:
                continue
            if section in ("node", "engine", "link") and member in members:
                continue  # a member of such a structure
            yield "%s: there is no key %s" % (place(name, text, m.start()), word)
    there = re.search(r"known\[\] = \{(.*?)\}", read("lib/node/config_file.c"), re.S).group(1)
    told = re.search(r"^- Sections: (.*?)\.$", read("doc/reference/configuration.md"), re.M | re.S).group(1)
    for section in re.findall(r'"(\w+)"', there):
        if "`[%s]`" % section not in told:
            yield "doc/reference/configuration.md: its list of sections has no [%s]" % section
    own = {k.split(".")[1] for k in keys} | {"file"}
    for name in ("doc/reference/configuration.md",):
        text = blanked(GENERATED, prose(name))
        for m in re.finditer(r"`([a-z]+_[a-z_]+)(?: = [^`]*)?`", text):
            if m.group(1) not in own and not m.group(1).startswith("drop_"):
                yield "%s: there is no key %s" % (place(name, text, m.start()), m.group(1))


def check_counters():
    engine = set(re.findall(r"^\tX\((\w+), ", read("lib/engine/lane.h"), re.M))
    proto = set(re.findall(r"^\tX\((\w+), ", read("lib/core/proto/proto.h"), re.M))
    links = re.search(r"names\[\] = \{(.*?)\}", read("lib/primary/telemetry.c")).group(1)
    known = engine | proto | {"proto_" + c for c in proto}
    known |= {"link%d_%s" % (i, n) for i in range(4) for n in re.findall(r'"(\w+)"', links)}
    if not engine or not proto:
        yield "the tables of counters were not found"
    said = set()
    for name in PAGES + MANUALS:
        if name in ("doc/requirements.md", "doc/internals/testing.md"):
            continue  # they name functions and tests, or all counters
        text = prose(name) if name.endswith(".md") else manual(name)
        for m in re.finditer(r"(?<![\w/.])((?:drop|bad|refused|link\d)_\w+)\b(?!\.)", text):
            said.add(m.group(1))
            if m.group(1) not in known:
                yield "%s: there is no counter %s" % (place(name, text, m.start()), m.group(1))
        for m in re.finditer(r"counter `(\w+)`|`((?:tx|rx|proto|pins)_\w+)` (?:in|of) `pmx-ctl", text):
            if (m.group(1) or m.group(2)) not in known:
                yield "%s: there is no counter %s" % (place(name, text, m.start()), m.group())
    for name in sorted(c for c in engine | proto if c.startswith(("drop_", "bad_", "refused_"))):
        if name not in said:
            yield "no document says what the counter %s counts" % name


# ------------------------------------------------------------------ command blocks and programs


def blocks(name):
    """(place, mark or None, language, text) of each fenced block."""
    text = blanked(HISTORY, read(name))
    for m in FENCED.finditer(text):
        before = text[:m.start()].rstrip("\n")
        mark = re.search(r"<!-- (.*?) -->$", before[before.rfind("\n") + 1:])
        if len(text[:m.start()]) - len(before) > 2:
            mark = None
        yield place(name, text, m.start()), mark.group(1) if mark else None, m.group(2), m.group(3)


def is_commands(language, text):
    return language in SHELLS or language in ("", "text") and COMMAND.search(text) is not None


def check_marks():
    for name in PAGES:
        for where, mark, language, text in blocks(name):
            marked = mark is not None and re.match(r"(not )?run\b", mark)
            if mark is not None and mark.startswith("file: "):
                continue
            if not is_commands(language, text):
                if marked:
                    yield "%s: a mark of command blocks before something else" % where
            elif not marked or not re.fullmatch(r"run|run: until stopped|not run: \S.+", mark):
                yield ("%s: a command block without a mark: <!-- run -->, <!-- run: until stopped "
                       "--> or <!-- not run: WHY -->" % where)
            else:
                for path in re.findall(r"\b(?:test|lib|doc|dpdk-config)/[\w./-]*\w", mark):
                    if not os.path.exists(os.path.join(TOP, path)):
                        yield "%s: there is no %s" % (where, path)


EVERYWHERE = {"--help", "--version"}
FLAGS = {"--json", "--processes", "--park"}  # options without a value that come before commands


def helps():
    """{program: (text of its --help without arguments of the EAL, its commands)}."""
    found = {}
    for program in PROGRAMS:
        run = subprocess.run(["%s/app/%s" % (BUILD, program), "--help"], capture_output=True, text=True)
        text = run.stdout + run.stderr
        listed = re.findall(r"^  ([a-z][\w-]*(?: \| [a-z]\w*)*)", text, re.M)
        commands = {word for words in listed for word in words.split(" | ")}
        found[program] = re.sub(r" -- --\S+", "", text), commands
    return found


def options_of(text):
    return set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))


def check_command(where, line, known):
    """What of `pmx-...` on that line its program does not know."""
    program, _, rest = line.partition(" ")
    if program not in known:
        if rest:  # a thread has such a name, too
            yield "%s: there is no program %s" % (where, program)
        return
    text, commands = known[program]
    words = rest.split()
    if "--" in words:  # on one side of it are the EAL's
        at = words.index("--")
        words = words[at + 1:] if program == "pmx-dpdk" else words[:at]
    # neither options nor, as far as can be seen, their values
    plain = [i for i, word in enumerate(words) if word[0] != "-" and
             (i == 0 or words[i - 1][0] != "-" or words[i - 1] in FLAGS)]
    if program == "pmx-run" and plain:  # what follows is the job's
        words = words[:plain[0]]
    for option in sorted(options_of(" ".join(words)) - options_of(text) - EVERYWHERE):
        yield "%s: %s has no option %s" % (where, program, option)
    if commands and plain and re.fullmatch(r"[a-z]\w*", words[plain[0]]) and words[plain[0]] not in commands:
        yield "%s: %s has no command %s" % (where, program, words[plain[0]])


def command_lines(text):
    """Lines that call a program of ours, from its name on, without what the shell does with it."""
    for line in text.replace("\\\n", " ").split("\n"):
        for part in re.split(r"&&|\||;|\s#\s.*", line):
            m = re.match(r"\s*(?:\$ )?(?:\w+=\S+ )*(?:sudo |ip netns exec \S+ )*(?:build/app/)?(pmx-[\w-]+.*)", part)
            if m:
                yield re.sub(r"\s*(?:#.*|&|>.*)$", "", m.group(1)).strip()


def check_programs():
    known = helps()
    for name in PAGES:
        for where, code in spans(name):
            if re.match(r"(build/app/)?pmx-[a-z]+( |$)", code):
                yield from check_command(where, code.replace("build/app/", ""), known)
        for where, _, language, text in blocks(name):
            if is_commands(language, text):
                for line in command_lines(text):
                    yield from check_command(where, line, known)
    own = set(re.findall(r"^option\('(\w+)'", read("meson_options.txt"), re.M)) | {"werror", "b_lto"}
    for name in PAGES:
        text = read(name)
        for m in re.finditer(r"(?:meson setup [^`\n]*|`)-D(\w+)=", text):
            if m.group(1) not in own:
                yield "%s: the build has no option %s" % (place(name, text, m.start()), m.group(1))
    for program in PROGRAMS:
        text, commands = known[program]
        page = manual("doc/man/%s.1" % program)
        for option in sorted(options_of(text) - options_of(page)):
            yield "doc/man/%s.1 leaves out %s, which --help has" % (program, option)
        described = set(re.findall(r"^\.TP\n\.BI?R? (--[a-z][\w-]*)", page, re.M))
        for option in sorted(described - options_of(text) - EVERYWHERE):
            yield "doc/man/%s.1 has %s, which --help leaves out" % (program, option)
        for command in sorted(commands):
            if not re.search(r"(?<![\w-])%s(?![\w-])" % command, page):
                yield "doc/man/%s.1 leaves out the command %s" % (program, command)


def write_blocks(page, out, name, port):
    """The page's files and the blocks that are run."""
    def own(text):
        text = re.sub(r"\bpmx(?=[01]\b)", name, text)
        return re.sub(r"\b18[56]([01][0156])\b", lambda m: str(port + int(m.group(1))), text)

    os.makedirs(out + "/blocks")
    os.makedirs(out + "/work")
    for entry in os.listdir(TOP):
        if not entry.startswith((".git", "build", "dpdk-config")):
            os.symlink(os.path.join(TOP, entry), os.path.join(out, "work", entry))
    shutil.copytree(TOP + "/dpdk-config", out + "/work/dpdk-config")
    for example in glob.glob(out + "/work/dpdk-config/examples/*.ini"):
        with open(example, encoding="utf-8") as f:
            text = own(f.read())
        with open(example, "w", encoding="utf-8") as f:
            f.write(text)
    os.symlink(BUILD, out + "/work/build")
    number = 0
    for _, mark, _, text in blocks(page):
        mark = mark or ""
        if mark.startswith("file: "):
            with open(out + "/work/" + own(mark[6:]), "w", encoding="utf-8") as f:
                f.write(own(text))
        elif mark in ("run", "run: until stopped"):
            number += 1
            with open("%s/blocks/%02d.%s" % (out, number, "run" if mark == "run" else "until"),
                      "w", encoding="utf-8") as f:
                f.write(own(text))


# ------------------------------------------------------------------ numbers


def sections(text, heading):
    """The part of the text from that heading to the next one that is not below it."""
    m = re.search(r"^(#+) %s$" % re.escape(heading), text, re.M)
    if m is None:
        return 0, 0
    end = re.search(r"^#{1,%d} " % len(m.group(1)), text[m.end():], re.M)
    return m.start(), m.end() + end.start() if end else len(text)


def macro(m):
    """path:NAME, the text of a macro or of a shell's NAME=${...:-VALUE} there."""
    text = read(m.group(1))
    found = re.search(r"^#\s*define\s+%s\s+(.+?)\s*(?:/\*|$)" % m.group(2), text, re.M) or \
        re.search(r"^%s=\$\{\d:-(\w+)\}" % m.group(2), text, re.M)
    if found is None:
        sys.exit("docs.py: %s has no %s" % m.group(1, 2))
    return "(%s)" % found.group(1)


def evaluate(expressions):
    """Values of C expressions over the headers; also path:NAME and key:SECTION.KEY:WHAT in them."""
    keys = config_keys()

    def key(m):
        default, least, most = keys[m.group(1)]
        return {"default": default, "least": least, "most": most}[m.group(2)]

    lines = []
    for e in expressions:
        e = re.sub(r"key:([\w.]+):(\w+)", key, e)
        lines.append('printf("%%lld\\n", (long long)(%s));' % re.sub(r"([\w/-]+\.\w+):(\w+)", macro, e))
    includes = "".join('#include "%s"\n' % h for h in (
        "channel/channel.h", "channel/pair.h", "core/wire/wire.h", "pmx/pmx.h", "pmx/job.h", "pmx/preempt.h"))
    source = "#include <stddef.h>\n#include <stdio.h>\n%sint main(void) {\n%s\nreturn 0; }\n" % (
        includes, "\n".join(lines))
    with tempfile.TemporaryDirectory(prefix="pmx-docs.") as folder:
        program = folder + "/values"
        run = subprocess.run([os.environ.get("CC", "cc"), "-w", "-x", "c", "-", "-o", program] +
                             ["-I%s/%s" % (TOP, d) for d in ("include", "lib", "drivers")],
                             input=source, text=True, capture_output=True)
        if run.returncode:
            sys.exit("docs.py: its table of numbers: " + run.stderr)
        values = subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()
    return dict(zip(expressions, map(int, values)))


def texts():
    """What is no number: @NAME in the tables."""
    build = read("meson.build")
    version = re.search(r"^  version: '(.*?)'", build, re.M).group(1)
    return {
        "@version": version,
        "@soname": "libpmx.so." + version.rsplit(".", 1)[0],
        "@machine": re.search(r"'x86_64' \? '(.*?)'", build).group(1),
        "@dpdk": re.search(r"dependency\('libdpdk', version: '>= ([\d.]+)'", build).group(1),
    }


def number(text):
    text = text.replace(",", "")
    return int(text, 16) if text.startswith("0x") else int(text)


def check_numbers():
    said, covered = [], []  # (place, text, expression)
    for page, pattern, expression, *count in CLAIMS:
        name, _, heading = page.partition("#")
        for name in PAGES + MANUALS + HEADERS if name == "*" else [name]:
            text = read(name) if name.endswith(".h") else manual(name) if name.endswith(".1") else prose(name)
            begin, end = sections(text, heading) if heading else (0, len(text))
            # prose is wrapped anywhere
            matches = list(re.compile(re.sub(r" |\\n", r"[ \\n]+", pattern), re.M).finditer(text, begin, end))
            for m in matches:
                filled = re.sub(r"\{(\w+)\}", lambda g: m.group(g.group(1)), expression)
                said.append((place(name, text, m.start("v")), m.group("v"), filled))
                if name == "README.md":
                    covered.append(m.span())
            if not matches and page[0] != "*":
                yield "%s: nothing there says %s (%s)" % (page, pattern, expression)
            elif count:
                said.append((page + ", how many", str(len(matches)), count[0]))
    strings = texts()
    values = evaluate(list(dict.fromkeys(e for _, _, e in said if e[0] not in "=@")))
    for where, text, expression in said:
        right = expression[1:] if expression[0] == "=" else strings.get(expression)
        if right is None:
            right = values[expression]
            good = number(text) == right
        else:
            good = text == right
        if not good:
            yield "%s: says %s, but %s %s" % (
                where, text, "docs.py has" if expression[0] == "=" else expression + " is", right)
    text = re.sub(r"^(\d+)\. |\]\([^)]*\)", lambda m: " " * len(m.group()), prose("README.md"), flags=re.M)
    for m in re.finditer(r"(?<![\w#.-])\d+(?:[.,]\d+)*", text):
        if not any(a <= m.start() < b for a, b in covered):
            yield "%s: no row of docs.py says where the number %s comes from" % (
                place("README.md", text, m.start()), m.group())


def fields(page, structure, names=r"\w+"):
    """The rows of a table of fields, "| offset | bytes | `field` |"."""
    row = r"^\| %s \| %s \| `(?P<f>" + names + r")` \|"
    return [(page, row % (r"(?P<v>\d+)", r"\d+"), "offsetof(struct %s, {f})" % structure),
            (page, row % (r"\d+", r"(?P<v>\d+)"), "sizeof(((struct %s *)0)->{f})" % structure)]


# (page, or page#heading, or * for all; pattern, whose group v is the number; where it comes from:
# a C expression over the headers, {group} being another group of the pattern; path:NAME, a macro
# or a shell's default; key:SECTION.KEY:default, least or most; @NAME, of texts(); =TEXT: no code
# knows it, and it is to be changed here as well; and how many matches there are to be)
CLAIMS = [
    # README.md: each of its numbers
    ("README.md", r"IPSJ (?P<v>1999)\)", "=1999"),
    ("README.md", r"IPSJ\s+(?P<v>2007)", "=2007"),
    ("README.md", r"RHiNET \((?P<v>1999)\)", "=1999"),
    ("README.md", r"SWoPP\s+(?P<v>\d+)", "=1997"),
    ("README.md", r"On Debian (?P<v>\d+) or", "=12"),
    ("README.md", r"On Debian 12 or (?P<v>\d+)", "=13"),
    ("README.md", r"Node (?P<v>0):", "=0"),
    ("README.md", r"Node (?P<v>1):", "=1"),
    ("doc/guide/start.md", r"for x86-64-v2 \(SSE(?P<v>[\d.]+)", "=4.2"),
    ("doc/guide/start.md", r"are built for (?P<v>x86-64-v\d)", "@machine"),
    # versions
    ("*", r"`CHANNEL_ABI` is (?P<v>\d+)", "CHANNEL_ABI"),
    ("doc/internals/shared-memory.md", r"`CHANNEL_ABI` is (?P<v>\d+)", "CHANNEL_ABI"),
    ("doc/internals/shared-memory.md", r"`(?P<v>0x\w+)`, and `CHANNEL_ABI`", "CHANNEL_MAGIC"),
    ("doc/internals/shared-memory.md", r"^\| `state` \| `CHANNEL_OPEN` = (?P<v>\d)", "CHANNEL_OPEN"),
    ("doc/reference/wire.md", r"^# Wire format, version (?P<v>\d+)", "WIRE_VERSION"),
    ("doc/reference/wire.md", r"`version`(?: is| is not|`) (?P<v>\d+)", "WIRE_VERSION"),
    ("doc/reference/wire.md#Header", r"^\| 0 \| 1 \| `version` \| (?P<v>\d+) \|", "WIRE_VERSION"),
    ("*", r"lib/thin/(?P<v>libpmx\.so\.\d+\.\d+)", "@soname"),
    ("doc/guide/start.md", r"Debian 12: DPDK (?P<v>[\d.]+\d)", "@dpdk"),
    # limits and defaults
    ("*", r"[Mm]essages? (?:of|up to|above)\s+(?:up to )?(?P<v>\d+) MiB(?! |,| \(8388608)", "WIRE_MESSAGE_MAX >> 20"),
    ("doc/reference/limits.md", r"^\| message \| (?P<v>\d+) MiB", "WIRE_MESSAGE_MAX >> 20"),
    ("doc/reference/wire.md", r"message of up to (?P<v>\d+) MiB", "WIRE_MESSAGE_MAX >> 20"),
    ("doc/reference/wire.md", r"MiB \((?P<v>\d+) bytes\)", "WIRE_MESSAGE_MAX"),
    ("doc/reference/wire.md", r"message above (?P<v>\d+) MiB", "WIRE_MESSAGE_MAX >> 20"),
    ("include/pmx/context.h", r"can send: at most (?P<v>\d+) MiB", "WIRE_MESSAGE_MAX >> 20"),
    ("doc/man/pmx-perf.1", r"sizes from 1 to (?P<v>\d+) bytes", "WIRE_MESSAGE_MAX"),
    ("*", r"EtherType (?P<v>0x\w+)", "WIRE_ETHERTYPE"),
    ("doc/reference/wire.md", r"EtherType `link.ethertype`, default (?P<v>0x\w+)", "WIRE_ETHERTYPE"),
    ("doc/reference/wire.md", r"peer's port, default (?P<v>\d+)", "WIRE_UDP_PORT"),
    ("doc/guide/troubleshooting.md", r"udp port (?P<v>\d+)", "WIRE_UDP_PORT"),
    ("doc/reference/wire.md", r"multiple of 8, at most (?P<v>\d+)", "(key:link.mtu:most - WIRE_HDR_BYTES) / 8 * 8"),
    ("doc/reference/wire.md", r"header, (?P<v>\d+) bytes", "WIRE_HDR_BYTES"),
    ("doc/reference/wire.md", r"exactly (?P<v>\d+) \+ `payload_len`", "WIRE_HDR_BYTES"),
    ("doc/reference/wire.md", r"`link.mtu` − (?P<v>\d+)", "WIRE_HDR_BYTES"),
    ("doc/internals/architecture.md", r"header at (?P<v>\d+) bytes", "WIRE_HDR_BYTES"),
    ("doc/reference/wire.md", r"embedded node; 0 to (?P<v>\d+)\.", "WIRE_NODES_MAX - 1"),
    ("doc/reference/wire.md", r"endpoint on a node; 0 to (?P<v>\d+)\.", "WIRE_CONTEXTS_MAX - 1"),
    ("doc/reference/wire.md", r"\((?P<v>\d+) MHz\)", "WIRE_TSTAMP_HZ / 1000000"),
    ("doc/reference/limits.md", r"^\| nodes \| (?P<v>\d+), numbers", "WIRE_NODES_MAX"),
    ("doc/reference/limits.md", r"^\| nodes \| \d+, numbers 0 to (?P<v>\d+)", "key:node.id:most"),
    ("doc/reference/limits.md", r"^\| contexts of a node \| (?P<v>\d+)", "key:limits.contexts:most"),
    ("doc/reference/limits.md", r"^\| lanes \| (?P<v>\d+)", "lib/config/config.h:CONFIG_LANES_MAX"),
    ("doc/reference/limits.md", r"^\| links \| (?P<v>\d+)", "lib/config/config.h:CONFIG_LINKS_MAX"),
    ("doc/reference/limits.md", r"engine maps of a context \| (?P<v>\d+)", "MEMORIES_MAX"),
    ("doc/reference/limits.md", r"one flow in flight \| (?P<v>\d+)", "WIRE_WINDOW_MAX"),
    ("doc/reference/limits.md", r"runs at once \| (?P<v>\d+), \d+", "GROUPS_OF_CONTEXT"),
    ("doc/reference/limits.md", r"runs at once \| \d+, (?P<v>\d+)", "COLLS_OF_CONTEXT"),
    ("doc/reference/limits.md", r"regions of a group \| (?P<v>\d+) of each", "WIRE_GROUP_MEMBERS_MAX"),
    ("doc/reference/limits.md", r"regions of a group \| (?P<v>\d+) of each", "WIRE_GROUP_LOCKS_MAX"),
    ("doc/reference/limits.md", r"regions of a group \| (?P<v>\d+) of each", "WIRE_GROUP_REGIONS_MAX"),
    ("doc/reference/limits.md", r"^\| channel \| (?P<v>\d+) \+", "sizeof(struct channel_shm)"),
    ("doc/reference/limits.md", r"`send_buffers` \+ (?P<v>\d+) × `transfers`", "sizeof(struct transfer_desc)"),
    ("doc/reference/limits.md", r"some (?P<v>\d+) KiB by default",
     "(sizeof(struct channel_shm) + SLOT_BYTES * key:limits.submissions:default + 64 * SLOT_BYTES + "
     "(key:limits.lhs_entries:default + key:limits.matched_entries:default) * key:limits.lhs_entry_bytes:default + "
     "8 * key:limits.send_buffers:default + sizeof(struct transfer_desc) * key:limits.transfers:default + "
     "SLOT_BYTES * key:limits.events:default) >> 10"),
    ("doc/reference/limits.md", r"of 1500 bytes \((?P<v>\d+) of payload", "(1500 - WIRE_HDR_BYTES) / 8 * 8"),
    ("doc/reference/limits.md", r"a context needs (?P<v>\d+) send buffers",
     "(WIRE_MESSAGE_MAX - 1) / ((1500 - WIRE_HDR_BYTES) / 8 * 8) + 1"),
    ("doc/reference/limits.md", r"`mtu = 9000` \((?P<v>\d+) of payload", "(9000 - WIRE_HDR_BYTES) / 8 * 8"),
    ("doc/reference/limits.md", r"`mtu = 9000` \(\d+ of payload\) (?P<v>\d+)",
     "(WIRE_MESSAGE_MAX - 1) / ((9000 - WIRE_HDR_BYTES) / 8 * 8) + 1"),
    ("doc/internals/architecture.md", r"A message of up to (?P<v>\d+) bytes\nwhose", "SUBMIT_INLINE_BYTES"),
    ("doc/internals/architecture.md", r"`proto.share_target_us` \((?P<v>\d+) us;", "lib/node/sizes.c:SHARE_US"),
    ("doc/internals/architecture.md", r"`proto.share_target_us` \(\d+ us; (?P<v>\d+) us", "lib/node/sizes.c:SHARE_US_SLOW"),
    ("doc/reference/configuration.md", r"`\[link 0\]` to `\[link (?P<v>\d)\]`", "lib/config/config.h:CONFIG_LINKS_MAX - 1"),
    ("doc/reference/configuration.md", r"NUMBER\]` \(up to (?P<v>\d)", "lib/config/config.h:CONFIG_RANGES_MAX"),
    ("doc/reference/configuration.md", r"at most `lhs_entry_bytes` − (?P<v>\d+)", "LHS_ENVELOPE_BYTES"),
    ("doc/reference/configuration.md", r"`lhs_size_offset = (?P<v>\d+)`", "LHS_SIZE_OFFSET"),
    ("doc/guide/messages.md", r"`proto.cc_target_us` lower than (?P<v>\d+)", "lib/node/sizes.c:CC_US"),
    ("doc/guide/messages.md", r"`proto.cc_target_us` lower than \d+ \((?P<v>\d+) over memif", "lib/node/sizes.c:CC_US_COPIED"),
    ("doc/guide/messages.md", r"virtual devices, (?P<v>\d+) over `driver = udp` and with", "lib/node/sizes.c:CC_US_SLOW"),
    ("doc/internals/architecture.md", r"flows with at most (?P<v>\d+) frames left", "lib/core/proto/internal.h:SHORT_FRAMES"),
    ("doc/internals/collectives.md", r"at most (?P<v>\d+) collectives ahead", "WIRE_COLL_AHEAD"),
    ("doc/internals/collectives.md", r"(?P<v>\d+) bytes without a permit\)", "WIRE_COLL_EAGER"),
    ("doc/internals/collectives.md", r"(?:keep|blocks of up to|Up to|kept) (?P<v>1\d{3}) bytes", "WIRE_COLL_EAGER"),
    ("doc/internals/collectives.md", r"No more than (?P<v>\d+) frames of a flow", "WIRE_WINDOW_MAX"),
    ("doc/reference/wire.md", r"`PIECE` of at most (?P<v>\d+) bytes", "WIRE_COLL_EAGER"),
    ("doc/reference/wire.md", r"that are (?P<v>\d+) or more after the last", "WIRE_COLL_AHEAD"),
    ("doc/reference/wire.md", r"when \*n\* - (?P<v>\d+) has been answered", "WIRE_CHUNKS_OPEN"),
    ("doc/reference/wire.md", r"of the chunk, at most (?P<v>\d+)", "WIRE_CHUNK_MAX - 1"),
    ("doc/reference/wire.md", r"ATOMIC changes `len` bytes, 1 to (?P<v>\d+)", "WIRE_ATOMIC_BYTES"),
    ("doc/reference/wire.md", r"0 \(4\), (?P<v>\d+) bits: bit", "WIRE_BITMAP_UNITS"),
    ("doc/reference/wire.md#Types", r"NACK \| 1 to (?P<v>\d+)", "WIRE_HOLES_MAX"),
    ("doc/reference/wire.md#Types", r"HELLO \| (?P<v>\d+) \|", "sizeof(struct wire_hello)"),
    ("doc/reference/wire.md#Types", r"MULTI \| (?P<v>\d+) to", "sizeof(struct wire_multi) + 1"),
    ("doc/guide/mpi.md", r"injected up to (?P<v>\d+) bytes", "ofi/provider.h:OFI_INJECT_MAX"),
    ("doc/guide/mpi.md", r"up to (?P<v>\d+) pieces", "ofi/provider.h:OFI_IOV_MAX"),
    ("doc/guide/mpi.md", r"double, up to (?P<v>\d+) bytes at once", "ofi/provider.h:OFI_ATOMIC_MAX"),
    ("doc/guide/mpi.md", r"that number, modulo (?P<v>\d+)", "ofi/provider.h:OFI_CONTEXTS"),
    ("doc/guide/cpus.md", r"otherwise in one of (?P<v>\d+) polls", "lib/client/yield.c:YIELD_EVERY"),
    ("*", r"after the first (?P<v>\d+) to each other", "lib/client/pairs.c:ASK_AFTER"),
    ("doc/internals/shared-memory.md", r"After (?P<v>\d+) messages to a context", "lib/client/pairs.c:ASK_AFTER"),
    ("doc/internals/shared-memory.md", r"as it has (?P<v>\d+) KiB\)", "lib/client/pairs.h:PAIR_EAGER >> 10"),
    ("doc/internals/shared-memory.md", r"each way a ring of\n(?P<v>\d+) KiB", "PAIR_RING_BYTES >> 10"),
    ("doc/internals/shared-memory.md", r"of more than (?P<v>\d+) KiB lies beside", "lib/client/pairs.h:PAIR_SHORT >> 10"),
    ("doc/internals/shared-memory.md", r"up to (?P<v>\d+) of them,", "PAIR_LONGS"),
    ("doc/internals/shared-memory.md", r"of them, (?P<v>\d+) MiB together", "PAIR_LONG_BYTES >> 20"),
    ("doc/internals/shared-memory.md", r"of over (?P<v>\d+) KiB, and those with", "lib/client/pairs.h:PAIR_EAGER >> 10"),
    ("doc/internals/shared-memory.md", r"after (?P<v>\d+) looks they", "lib/match/client/ring.c:UNPOSTED_MOST"),
    ("doc/internals/shared-memory.md", r"(?P<v>\d+) may be under way each way", "PAIR_OFFERS"),
    ("doc/internals/shared-memory.md", r"once in (?P<v>\d+) messages or looks", "lib/client/pairs.c:LOOK_EVERY"),
    ("doc/internals/shared-memory.md", r"who sends once in (?P<v>\d+) ms", "lib/client/pairs.h:PAIRS_STALE_MS"),
    ("doc/internals/shared-memory.md", r"^\| header, `struct channel_shm` \| (?P<v>\d+) bytes", "sizeof(struct channel_shm)"),
    ("doc/internals/shared-memory.md", r"`limits.transfers` × (?P<v>\d+)", "sizeof(struct transfer_desc)"),
    ("doc/internals/shared-memory.md", r"(?:submissions|events)` × (?P<v>\d+) \|", "SLOT_BYTES", "2"),
    ("doc/internals/shared-memory.md", r"at most (?P<v>\d+); fewer, down to none", "CHANNEL_INLINE_MOST"),
    ("doc/internals/shared-memory.md", r"`revoked` \| client \| (?P<v>\d+) bytes", "REGIONS_WATCHED"),
    ("doc/internals/shared-memory.md", r"then up to (?P<v>\d+) buffer numbers", "SUBMIT_SEND_BUFS"),
    ("doc/internals/shared-memory.md", r"more than (?P<v>\d+) buffers are filled", "SUBMIT_SEND_BUFS"),
    ("doc/internals/shared-memory.md", r"\| up to (?P<v>\d+) buffer numbers \(2", "SUBMIT_MORE_BUFS"),
    ("doc/internals/shared-memory.md", r"up to (?P<v>\d+) bulk numbers", "SUBMIT_RELEASE_BUFS"),
    ("doc/internals/shared-memory.md", r"up to (?P<v>\d+) bytes of payload", "SUBMIT_INLINE_BYTES"),
    ("doc/internals/shared-memory.md", r"`len` at most (?P<v>\d+), one of", "SUBMIT_INLINE_BYTES"),
    ("doc/internals/shared-memory.md", r"then up to (?P<v>\d+) items of 4 bytes", "COMPLETION_BUFS"),
    ("doc/internals/shared-memory.md", r"results of `RECEIVE`, (?P<v>\d+) bytes each", "sizeof(struct completion_receive)"),
    ("doc/internals/shared-memory.md", r"list: up to (?P<v>\d+) times node", "SUBMIT_GROUP_LIST"),
    ("doc/internals/shared-memory.md", r"`(?P<v>0x\w+)`, results of transfers", "COMPLETION_TRANSFERS"),
    ("doc/internals/shared-memory.md", r"`(?P<v>0x\w+)`, the answer to `REGISTER`", "COMPLETION_REGION"),
    ("doc/internals/shared-memory.md", r"`(?P<v>0x\w+)`, one or two results of `RECEIVE`", "COMPLETION_RECEIVES"),
    ("doc/internals/shared-memory.md", r"`(?P<v>0x\w+)`, a result of a group", "COMPLETION_GROUP"),
    ("doc/internals/shared-memory.md", r"`(?P<v>0x\w+)`,\s+a collective has ended", "COMPLETION_COLL"),
    ("doc/internals/simulator.md", r"runs for (?P<v>\d+) s in `test/system/fuzz.sh`", "test/system/fuzz.sh:seconds"),
    ("*", r"context;? number on that node, 0\.\.(?P<v>\d+)", "key:limits.contexts:most - 1"),
    ("include/pmx/context.h", r"context number on that node, 0\.\.(?P<v>\d+)", "key:limits.contexts:most - 1"),
    ("include/pmx/context.h", r"\[nodes\], 0\.\.(?P<v>\d+)", "key:node.id:most"),
    ("include/pmx/context.h", r"Messages of up to (?P<v>\d+)\n \* bytes are fastest", "SUBMIT_INLINE_BYTES"),
    ("include/pmx/remote.h", r"the context has (?P<v>\d+) such pieces", "MEMORIES_MAX"),
    ("include/pmx/preempt.h", r"can note \((?P<v>\d+)\)", "lib/preempt/primary/jobs.c:STOPPED_MAX"),
    ("doc/guide/jobs.md", r"`--drain` \((?P<v>\d+) ms\)", "PMX_DRAIN_US / 1000"),
    ("doc/guide/service.md", r"Each type has (?P<v>\d+) lines at once", "lib/log/log.c:LINES_MOST"),
    # tables of types, flags and operations: each row, and that there are all of them
    ("doc/reference/wire.md#Types", r"^\| (?P<v>\d+) \| (?P<n>[A-Z]+) \|", "WIRE_{n}", "WIRE_TYPE_COUNT - 1"),
    ("doc/reference/wire.md#Flags", r"^\| `(?P<v>0x\w{4})` \| `(?P<n>[A-Z]+)` \|", "WIRE_F_{n}"),
    ("doc/reference/wire.md#Transfers", r"^\| (?P<v>\d) \| (?P<n>[A-Z]+) \| (?:target|initiator)", "WIRE_{n}",
     "WIRE_TRANSFER_OPS - 1"),
    ("doc/reference/wire.md#Transfers", r"^\| `(?P<v>0x\w\w)` \| `(?P<n>[A-Z]+)` \|", "WIRE_T_{n}"),
    ("doc/reference/wire.md#Group messages", r"^\| (?P<v>\d+)(?:, \d+)? \| `(?P<n>[A-Z]+)`", "WIRE_G_{n}"),
    ("doc/reference/wire.md#Group messages", r"^\| \d+, (?P<v>\d+) \| `[A-Z]+`, `(?P<n>[A-Z]+)`", "WIRE_G_{n}"),
    ("doc/reference/wire.md#Collectives of groups", r"^\| (?P<v>\d) \| `(?P<n>[A-Z]+)` \|", "WIRE_C_{n}", "WIRE_COLL_OPS - 1"),
    ("doc/reference/wire.md", r"`(?P<v>0x1000)` \+ \*c\*", "WIRE_TARGET"),
    ("doc/reference/wire.md", r"initiator, `(?P<v>0x\w+)` \+ \*c\*", "WIRE_INITIATOR"),
    ("doc/reference/wire.md", r"\(#matched-messages\), `(?P<v>0x\w+)` \+", "WIRE_MATCHED"),
    ("doc/reference/wire.md", r"\(#group-messages\), `(?P<v>0x\w+)` \+", "WIRE_GROUP"),
    ("doc/reference/wire.md", r"\(#collectives-of-groups\), `(?P<v>0x\w+)` \+", "WIRE_COLL"),
    ("doc/reference/wire.md", r"matched endpoint to another \(`(?P<v>0x\w+)` \+", "WIRE_MATCHED"),
    ("doc/reference/wire.md", r"group endpoint to another \(`(?P<v>0x\w+)` \+", "WIRE_GROUP"),
    ("doc/reference/wire.md", r"collective endpoints \(`(?P<v>0x\w+)` \+", "WIRE_COLL"),
    ("doc/internals/shared-memory.md", r"^\| (?P<v>\d+) `(?P<n>[A-Z_]+)` \|", "SUBMIT_{n}", "SUBMIT_WATCH"),
] + fields("doc/reference/wire.md#Header", "wire_hdr") + fields("doc/reference/wire.md#HELLO", "wire_hello") + \
    fields("doc/reference/wire.md#Transfers", "wire_transfer") + fields("doc/reference/wire.md#Group messages", "wire_group") + \
    fields("doc/reference/wire.md#Collectives of groups", "wire_coll") + fields("doc/reference/wire.md#Multicasts", "wire_multi") + \
    fields("doc/internals/shared-memory.md#LHS ring", "lhs_entry", "(?!front)\\w+")


def main():
    if sys.argv[1] == "write":
        for name in PAGES:
            text = generated(name)
            if text != read(name):
                with open(os.path.join(TOP, name), "w", encoding="utf-8") as f:
                    f.write(text)
                print("wrote %s" % name)
        return 0
    if sys.argv[1] == "blocks":
        for page in PAGES:
            out = os.path.join(sys.argv[4], page[:-3].replace("/", "-"))
            write_blocks(page, out, sys.argv[5], int(sys.argv[6]))
        return 0
    found = list(globals()["check_" + sys.argv[1]]())
    for violation in found:
        print(violation)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
