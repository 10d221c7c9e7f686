#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What tidy.sh runs. The checks, each a function of a tree's root that gives its violations:

format      clang-format 14 would change nothing (.clang-format). `--fix` does most of it. A table
            that is aligned by hand may stand between "clang-format off" and "on": few shall.
lines       No line of a .c or .h is beyond 100 columns, where a tab goes to the next multiple of 8
            and a UTF-8 character counts one. Shell, Python and build files are exempt: their long
            lines are commands, which do not wrap.
prototypes  A header declares no function that is defined nowhere, and no function of lib/ and
            drivers/ is global that no other source uses; the verbs of the API, pmx_*, are.
prefixes    The first word of a global symbol, up to its first underscore, belongs to one of the
            archives of libpmx.so. Those that two still share are in prefixes.allowed, which may
            only shrink.
sentences   A comment on lines of its own does not open as half a sentence does ("Of", "What",
            "Whether", "The same" ...), and one above a function of the product begins with what it
            does, in the imperative.
sizes       No source, header or script has more than 1,000 lines, no function more than 60,
            README.md no more than 120, and no line of a document's prose is beyond 100.
tags        A struct, union or enum of the product has its name alone: no other source defines one
            of that name. A function shares its name with those of three other sources at most.
names       A function or file that a comment or document names exists. A document may name what is
            gone between "<!-- tidy: history -->" and "<!-- tidy: end -->".

Each is tried too: a copy of some sources that is made untidy must be refused, for that reason.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from bisect import bisect_right
from collections import defaultdict

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCES = ("include", "lib", "drivers", "ofi", "mpi", "app", "test", "examples", "doc")
WIDTH = 100
TAB = 8
CLANG_FORMAT = "14"
ALLOWED = "test/policy/prefixes.allowed"
FIX = "run test/policy/tidy.sh --fix"

# ------------------------------------------------------------------ the tree


def walk(root, ends):
    """Paths from root, sorted; hidden folders and those of builds are not the tree's."""
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f[0] != "." and not f.startswith("build")]
        found += [os.path.relpath(os.path.join(folder, f), root) for f in files if f.endswith(ends)]
    return sorted(found)


def sources(root):
    return [f for f in walk(root, (".c", ".h")) if f.split("/")[0] in SOURCES]


def read(root, name):
    with open(os.path.join(root, name), encoding="utf-8", errors="replace") as f:
        return f.read()


class Lines:
    """Line numbers of offsets in a text."""

    def __init__(self, text):
        self.starts = [0] + [m.end() for m in re.finditer("\n", text)]

    def of(self, offset):
        return bisect_right(self.starts, offset)


# Comments, strings and characters: what code is not.
LITERAL = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def spaces(m):
    """What was matched, as spaces on as many lines."""
    return re.sub(r"[^\n]", " ", m.group())


def blank(text, comments_only=False):
    """The text with what is no code replaced by spaces, in the same places."""

    def one(m):
        if comments_only and m.group()[0] != "/":
            return m.group()
        return spaces(m)

    return LITERAL.sub(one, text)


def comments(text):
    return [m for m in LITERAL.finditer(text) if m.group()[0] == "/"]


def columns(line):
    return len(line.expandtabs(TAB))


# ------------------------------------------------------------------ format and lines


def clang_format():
    """Its name, and what is wrong with it or None."""
    for name in ("clang-format-" + CLANG_FORMAT, "clang-format"):
        if shutil.which(name):
            out = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            version = re.search(r"version (\d+)", out)
            if version and version.group(1) == CLANG_FORMAT:
                return name, None
            if name == "clang-format":
                return None, "it is version %s here, and the sources are formatted by %s" % (
                    version.group(1) if version else "?", CLANG_FORMAT)
    return None, "clang-format is not installed: dpdk-config/install.sh --tests"


def in_parallel(root, command, names):
    return subprocess.run(["xargs", "-0", "-P", "2", "-n", "20"] + command, cwd=root, text=True,
                          input="\0".join(names), capture_output=True)


def check_format(root, tool):
    run = in_parallel(root, [tool, "--dry-run", "-Werror"], sources(root))
    found = {}
    for name, line in re.findall(r"^(\S+?):(\d+):\d+: error: ", run.stderr, re.M):
        found["%s:%s: is not as clang-format has it: %s" % (name, line, FIX)] = True
    if run.returncode and not found:
        found["%s failed: %s" % (tool, run.stderr.strip()[:300])] = True
    return list(found)


def check_lines(root):
    found = []
    for name in sources(root):
        for i, line in enumerate(read(root, name).split("\n"), 1):
            if len(line) > WIDTH / TAB and columns(line) > WIDTH:
                found.append("%s:%d: has %d columns, and %d are the most: wrap it, or %s" % (
                    name, i, columns(line), WIDTH, FIX))
    return found


# ------------------------------------------------------------------ prototypes

NO_FUNCTION = {"if", "for", "while", "switch", "return", "sizeof", "defined", "_Static_assert",
               "static_assert", "__attribute__", "_Alignas", "alignas", "_Atomic", "__typeof__",
               "__rte_aligned", "__rte_format_printf", "_Thread_local"}


def declarations(code):
    """(head, ending, offset) of what stands at file scope: ending is ";" or "{"."""
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", spaces, code, flags=re.M)
    code = re.sub(r"extern\s+\{", spaces, code)  # "C" is blanked
    depth = start = 0
    for m in re.finditer(r"[{};]", code):
        c = m.group()
        if c == "{":
            if depth == 0:
                yield code[start:m.start()], c, start
            depth += 1
        elif c == "}":
            depth = max(depth - 1, 0)
            if depth == 0:
                start = m.end()
        elif depth == 0:
            yield code[start:m.start()], c, start
            start = m.end()


def function_of(head):
    """Name of the function that the head declares or defines, and its offset; or None."""
    text = re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", spaces, head)
    text = re.sub(r"\([^()]*\)", lambda m: "(" + " " * (len(m.group()) - 2) + ")", text)
    if re.search(r"\b(typedef)\b", text) or "=" in text:
        return None
    for m in re.finditer(r"\b([A-Za-z_]\w*)\s*\(", text):
        if m.group(1) not in NO_FUNCTION and not m.group(1).isupper():
            before = text[:m.start()].strip()
            return (m.group(1), m.start()) if before and re.search(r"\w", before) else None
    return None


def check_prototypes(root):
    declared, defined, uses = {}, {}, defaultdict(lambda: defaultdict(int))
    pasted = set()
    for name in sources(root):
        code = blank(read(root, name))
        lines = Lines(code)
        for word in re.findall(r"\b[A-Za-z_]\w*", code):
            uses[word][name] += 1
        pasted.update(re.findall(r"(\w+)\s*##", code))
        for head, ending, at in declarations(code):
            f = function_of(head)
            if f is None:
                continue
            where = "%s:%d" % (name, lines.of(at + f[1]))
            static = re.search(r"\bstatic\b", head) is not None
            if ending == "{":
                defined.setdefault(f[0], []).append((name, where, static))
            elif name.endswith(".h") and not static:
                declared.setdefault(f[0], []).append((name, where))
    found = []
    for f, places in sorted(declared.items()):
        if f not in defined and not any(f.startswith(p) for p in pasted if len(p) > 3):
            found += ["%s: %s() is declared and defined nowhere: take it out" % (where, f)
                      for _, where in places]
    for f, places in sorted(defined.items()):
        for name, where, static in places:
            if static or not name.startswith(("lib/", "drivers/")) or not name.endswith(".c"):
                continue
            if f.startswith("pmx_") or f == "main":
                continue
            prototypes = defaultdict(int)
            for header, _ in declared.get(f, ()):
                prototypes[header] += 1
            others = [n for n, count in uses[f].items()
                      if n != name and count > prototypes.get(n, 0)
                      and not any(d[0] == n for d in places)]
            if not others:
                found.append("%s: no other source uses %s(): make it static, or take it out" % (
                    where, f))
    return found


# ------------------------------------------------------------------ prefixes


def archives_of(root, folder):
    build = read(root, "lib/meson.build")
    libpmx = re.search(r"^core_libraries = \[([^]]*)\]", build, re.M)
    return [os.path.join(folder, "lib%s.a" % n) for n in re.findall(r"\w+", libpmx.group(1))]


# declared by a library below its user, to be defined by the one above, as a callback
HOOKS = ("proto_assert_failed",)


def check_prefixes(root, archives):
    owners = defaultdict(lambda: defaultdict(list))
    for archive in archives:
        run = subprocess.run(["nm", "-g", "--defined-only", archive], text=True,
                             capture_output=True)
        if run.returncode:
            return ["%s: nm failed: %s" % (archive, run.stderr.strip()[:200])]
        for symbol in re.findall(r"^[0-9a-f]+ [A-Z] (\w+)$", run.stdout, re.M):
            if symbol in HOOKS:
                continue
            prefix = symbol.split("_")[0] + "_" if "_" in symbol else symbol
            owners[prefix][os.path.basename(archive)].append(symbol)
    shared = {p: o for p, o in owners.items() if p and len(o) > 1 and p != "pmx_"}
    allowed = {}
    if os.path.exists(os.path.join(root, ALLOWED)):
        for i, line in enumerate(read(root, ALLOWED).split("\n"), 1):
            if line.split("#")[0].strip():
                allowed[line.split("#")[0].strip()] = i
    found = []
    for p, o in sorted(shared.items()):
        if p not in allowed:
            found.append("%s: %s have symbols of that prefix (%s): rename all but one library's" % (
                p, " and ".join(sorted(o)), ", ".join(sorted(v[0] for v in o.values()))))
    for p, i in sorted(allowed.items()):
        if p not in shared:
            found.append("%s:%d: no two libraries share %s any more: take the line out" % (
                ALLOWED, i, p))
    return found


# ------------------------------------------------------------------ names

CALL = re.compile(r"(?<![\w./])([A-Za-z]\w*_\w+)\(([^)\s]?)")
FILE = re.compile(r"(?<![\w./*<>{}$-])((?:[\w.-]+/)*[\w-]+(?:\.[\w-]+)*\.(?:c|h|sh|py|md))"
                  r"(?![\w/*.-]*\w)")
HISTORY = re.compile(r"<!-- tidy: history -->.*?<!-- tidy: end -->", re.S)
WRITTEN = (".md", ".1", ".3", ".7", ".8")


def documents(root):
    return [f for f in walk(root, WRITTEN) if "/" not in f or f.startswith("doc/")]


def said(root):
    """(place, text, text where files are named) of every comment and document."""
    for name in sources(root):
        text = read(root, name)
        lines = Lines(text)
        for m in comments(text):
            yield name, lines.of(m.start()), m.group(), m.group()
    for name in documents(root):
        text = HISTORY.sub(spaces, read(root, name))
        if name.endswith(".md"):
            fenced = re.sub(r"^```.*?^```", spaces, text, flags=re.S | re.M)
            spans = " ".join(s if i % 2 else re.sub(r"[^\n]", " ", s)
                            for i, s in enumerate(re.split("`", fenced)))
        else:
            text = re.sub(r"\\f[BIRP]", "", text.replace("\\-", "-"))
            spans = text
        yield name, 1, text, spans


def in_system(words):
    """Those of the words that a header of the system has."""
    if not words:
        return set()
    run = subprocess.run(["grep", "-rhowIFf", "-", "/usr/include"], text=True,
                         input="\n".join(sorted(words)), capture_output=True)
    return set(run.stdout.split())


def check_names(root):
    known = set()
    for name in walk(root, (".c", ".h")):
        known.update(re.findall(r"[A-Za-z_]\w*", blank(read(root, name), True)))
    for name in walk(root, (".sh", ".bash", ".py", ".build", ".txt")):
        if not name.endswith("policy/tidy.py"):
            known.update(re.findall(r"[A-Za-z_]\w*", re.sub(r"(?m)^\s*#.*", "", read(root, name))))
    files = walk(root, "")
    endings, folders = set(), set()
    for name in files:
        parts = name.split("/")
        endings.update("/".join(parts[i:]) for i in range(len(parts)))
        folders.update(parts[:-1] + [".", ".."])
    pending, found = [], []
    for name, first, text, spans in said(root):
        lines = Lines(text)
        for m in CALL.finditer(text):
            if m.group(1) in known or m.group(2).isdigit() or m.group(1).isupper():
                continue
            pending.append((m.group(1), "%s:%d: " % (name, first + lines.of(m.start()) - 1)))
        for m in FILE.finditer(spans):
            path = m.group(1)
            here = os.path.normpath(os.path.join(os.path.dirname(name), path))
            if path.lstrip("./") in endings or here in endings or shutil.which(path):
                continue
            if "/" in path and path.split("/")[0] not in folders:
                continue  # of another project, or of what a build makes
            if any(os.path.exists(os.path.join(d, path)) for d in (
                    "/usr/include", "/usr/include/dpdk", "/usr/include/x86_64-linux-gnu")):
                continue
            found.append("%s:%d: there is no file %s: write its new name, or take it out" % (
                name, first + lines.of(m.start()) - 1, path))
    system = in_system({w for w, _ in pending})
    found += [where + "nothing is called %s(): write its new name, or take it out" % w
              for w, where in pending if w not in system]
    return found


# ------------------------------------------------------------------ sentences

# A comment on lines of its own is sentences. One that opens with these is mostly half a sentence.
HALF = re.compile(r"(Of|What|Whether|How|The same|Who|Whom|Whose|Where|Which|Why|That|As|Than|And|Or|"
                  r"But|Also)\b")
# Above a function of the product, it begins with what the function does, in the imperative.
NO_VERB = re.compile(
    r"(?:(?:The|An?|It|Its|All|One|Two|Three|Both|Each|Every|Any|Nothing|Nobody|Something|Another|"
    r"Other|Others|Those|These|This|There|To|For|From|In|On|At|By|With|Without|Until|After|Before|"
    r"When|If|Only|Once|More|Most|Less|No|Not|None|Own|Is|Are|Was|Has|Does|Can|May|Must|Shall|Here|"
    r"Then|So|Such|Now|Never|Always|Else|First|Last|Next|New|false|true|NULL|[0-9]+|"
    r"Rank|Memory|Initiator|Target|Random|Fast|Found|Ready|Done|Room|Time|Number)\b|"
    r"(?!Pass\b|Process\b|Address\b|Progress\b|Discuss\b|Access\b|Express\b|Guess\b|Press\b|Suppress\b|"
    r"Focus\b|Compress\b|Dismiss\b|Cross\b|Miss\b|Toss\b|Assess\b|Discuss\b)[A-Z][a-z]+s\b)")
PRODUCT = ("include", "lib", "drivers", "ofi", "app", "mpi")


def said_first(comment):
    """The text of a comment, without its marks, on one line."""
    return re.sub(r"\s*\n\s*\*?\s?", " ", comment[:-2].lstrip("/*!<")).strip()


def check_sentences(root):
    found = []
    for name in sources(root):
        text = read(root, name)
        code = blank(text)
        lines = Lines(text)
        heads = {}
        for head, ending, at in declarations(code):
            if function_of(head):
                heads[at + len(head) - len(head.lstrip())] = function_of(head)[0]
        for m in comments(text):
            start = text.rfind("\n", 0, m.start()) + 1
            if not m.group().startswith("/*") or text[start:m.start()].strip():
                continue
            said, where = said_first(m.group()), "%s:%d: " % (name, lines.of(m.start()))
            half = HALF.match(said)
            if half:
                found.append(where + "the comment opens with '%s': write a sentence" % half.group())
                continue
            below = m.end() + len(text[m.end():]) - len(text[m.end():].lstrip())
            if (text[m.end():below] == "\n" and below in heads and name.split("/")[0] in PRODUCT
                    and NO_VERB.match(said)):
                found.append(where + "'%s...': begin with what %s() does, as 'Return', 'Send'" % (
                    said[:20], heads[below]))
    return found


# ------------------------------------------------------------------ sizes

FILE_MOST = 1000
FUNCTION_MOST = 60
NAMESAKES_MOST = 4
README_MOST = 120
# where a document's line does not wrap: tables, code, marks, pictures
UNWRAPPED = re.compile(r"^ *```.*?^ *```$|<!-- .*?-->|^\|.*?$|^!\[.*?$|^    .*?$", re.M | re.S)


def check_sizes(root):
    found = []
    for name in walk(root, (".c", ".h", ".py", ".sh", ".bash")):
        count = read(root, name).count("\n")
        if count > FILE_MOST:
            found.append("%s: has %d lines, and %d are the most: split it at its sections" % (
                name, count, FILE_MOST))
    for name in sources(root):
        if not name.endswith(".c"):
            continue
        code = blank(read(root, name))
        lines = Lines(code)
        for head, ending, at in declarations(code):
            f = function_of(head) if ending == "{" else None
            if f is None:
                continue
            first, last = lines.of(at + f[1]), lines.of(end_of(code, at + len(head)))
            if last - first + 1 > FUNCTION_MOST:
                found.append("%s:%d: %s() has %d lines, and %d are the most: give its parts names" % (
                    name, first, f[0], last - first + 1, FUNCTION_MOST))
    for name in documents(root):
        text = read(root, name)
        if name == "README.md" and text.count("\n") > README_MOST:
            found.append("%s: has %d lines, and %d are the most: move what not everybody needs" % (
                name, text.count("\n"), README_MOST))
        if not name.endswith(".md"):
            continue
        for i, line in enumerate(UNWRAPPED.sub(spaces, HISTORY.sub(spaces, text)).split("\n"), 1):
            if len(line.rstrip()) > WIDTH and " " in line.strip():
                found.append("%s:%d: has %d columns, and %d are the most: wrap it" % (
                    name, i, len(line), WIDTH))
    return found


def end_of(code, at):
    """The offset of the brace that closes the first one from `at` on."""
    depth = 0
    for m in re.finditer(r"[{}]", code[at:]):
        depth += 1 if m.group() == "{" else -1
        if depth == 0:
            return at + m.start()
    return len(code)


# ------------------------------------------------------------------ the checks are tried


def copy_of_some(folder):
    for name in (".clang-format", "lib/core/wire/wire.h", "lib/core/wire/wire.c", "doc/reference/wire.md"):
        os.makedirs(os.path.dirname(os.path.join(folder, name)) or folder, exist_ok=True)
        shutil.copy(os.path.join(ROOT, name), os.path.join(folder, name))


COMPILER = next((c for c in ("cc", "gcc", "clang") if shutil.which(c)), None)


def archive_of(folder, library, code):
    path = os.path.join(folder, library)
    subprocess.run([COMPILER, "-c", "-x", "c", "-", "-o", path + ".o"], input=code, text=True,
                   check=True)
    subprocess.run(["ar", "rcs", path + ".a", path + ".o"], check=True)
    return path + ".a"


def appended(folder, name, text, check):
    """What the check finds more once the text stands at the file's end, and that line's number."""
    before = set(check(folder))
    was = read(folder, name)
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.write(was + text)
    after = [v for v in check(folder) if v not in before]
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        f.write(was)
    return after, "%s:%d: " % (name, was.count("\n") + 1)


def check_tags(root):
    places, functions = defaultdict(list), defaultdict(list)
    for name in sorted(sources(root), key=lambda name: (name.endswith(".c"), name)):
        if name.split("/")[0] in ("test", "examples", "doc"):
            continue
        code = blank(read(root, name))
        lines = Lines(code)
        for m in re.finditer(r"(?m)^(?:static |const )*(?:struct|union|enum) (\w+) \{", code):
            places[m.group(1)].append("%s:%d" % (name, lines.of(m.start())))
        for head, ending, at in declarations(code):
            f = function_of(head) if ending == "{" else None
            if f is not None and f[0] not in ("main", "static_assert"):
                functions[f[0]].append("%s:%d" % (name, lines.of(at + f[1])))
    return ["%s: '%s' is defined at %s too: give it its layer's name" % (place, tag, all_of[0])
            for tag, all_of in sorted(places.items()) for place in all_of[1:]] + [
                "%s: %s() is the name of %d functions: give it its object's name" % (
                    all_of[0], name, len(all_of))
                for name, all_of in sorted(functions.items()) if len(all_of) > NAMESAKES_MOST]

def try_checks(tool):
    """Prints a line for each; false: one let something pass."""
    long_line = "/* " + "w" * (WIDTH - 5) + " */\n"
    exact = "/* " + "w" * (WIDTH - 6) + " */\n"
    tries = [
        ("a_line_of_101_columns", "lib/core/wire/wire.c", long_line, check_lines, "101 columns"),
        ("a_line_of_tabs", "lib/core/wire/wire.c", "\t" * 13 + "\n", check_lines, "104 columns"),
        ("a_dead_prototype", "lib/core/wire/wire.h", "void wire_of_nowhere(void);\n", check_prototypes,
         "wire_of_nowhere() is declared and defined nowhere"),
        ("a_global_that_nobody_uses", "lib/core/wire/wire.c", "void wire_for_nobody(void) {}\n",
         check_prototypes, "no other source uses wire_for_nobody()"),
        ("half_a_sentence", "lib/core/wire/wire.c", "/* Of each frame. */\nint wire_each;\n",
         check_sentences, "opens with 'Of'"),
        ("a_function_without_a_verb", "lib/core/wire/wire.c",
         "/* The length. */\nint\nwire_long(void)\n{\n\treturn 1;\n}\n", check_sentences,
         "begin with what wire_long() does"),
        ("a_function_of_61_lines", "lib/core/wire/wire.c",
         "int wire_long(void) {\n" + "\n" * 59 + "}\n", check_sizes, "has 61 lines"),
        ("a_tag_of_two", "lib/core/wire/wire.c", "struct wire_hdr {\n\tint more;\n};\n", check_tags,
         "'wire_hdr' is defined at lib/core/wire/wire.h"),
        ("a_name_of_five_functions", "lib/core/wire/wire.c", "int wire_same(void) {}\n" * 5, check_tags,
         "wire_same() is the name of 5 functions"),
        ("a_name_of_nothing", "lib/core/wire/wire.c", "/* See wire_that_was(). */\n", check_names,
         "nothing is called wire_that_was()"),
        ("a_name_of_nothing_in_a_document", "doc/reference/wire.md", "`wire_that_was(x)` does it.\n",
         check_names, "nothing is called wire_that_was()"),
        ("a_file_that_is_not_there", "lib/core/wire/wire.h", "/* lib/core/wire/tcp.c does it. */\n",
         check_names, "there is no file lib/core/wire/tcp.c"),
    ]
    if tool is not None:
        tries.append(("a_misformatted_line", "lib/core/wire/wire.c", "int   wire_wide;\n",
                      lambda folder: check_format(folder, tool), "is not as clang-format has it"))
    good = True

    def result(name, why):
        nonlocal good
        good = good and not why
        print("not ok tidy__refuses_%s %s" % (name, why) if why else "ok tidy__refuses_%s" % name)

    with tempfile.TemporaryDirectory(prefix="pmx-tidy.") as folder:
        copy_of_some(folder)
        for name, where, text, check, reason in tries:
            more, place = appended(folder, where, text, check)
            if len(more) != 1 or not more[0].startswith(place) or reason not in more[0]:
                result(name, "said of it: %s" % (more or "nothing"))
            else:
                result(name, None)
        more, _ = appended(folder, "lib/core/wire/wire.c", exact, check_lines)
        if more:
            print("not ok tidy__allows_a_line_of_100_columns said of it: %s" % more)
            good = False
        else:
            print("ok tidy__allows_a_line_of_100_columns")
        if COMPILER:
            try_prefixes(folder, result)
        else:
            print("ok tidy__refuses_a_shared_prefix # SKIP no cc, gcc or clang here")
    return good


def try_prefixes(folder, result):
    archives = [archive_of(folder, "liba", "int same_a, a_one, pmx_a;"),
                archive_of(folder, "libb", "int same_b, b_one, pmx_b;")]
    found = check_prefixes(folder, archives)
    right = len(found) == 1 and found[0].startswith("same_: liba.a and libb.a")
    result("a_shared_prefix", None if right else "said of it: %s" % found)
    os.makedirs(os.path.join(folder, os.path.dirname(ALLOWED)))
    with open(os.path.join(folder, ALLOWED), "w", encoding="utf-8") as f:
        f.write("# a comment\nsame_\nb_\n")
    found = check_prefixes(folder, archives)
    right = len(found) == 1 and "take the line out" in found[0] and ":3:" in found[0]
    result("an_allowed_prefix_that_is_not_shared", None if right else "said of it: %s" % found)


# ------------------------------------------------------------------ --fix


def fill(words, first, rest, last_room):
    """Lines of words: the first has `first` columns, others `rest`; the last leaves last_room."""
    lines, line, width = [], "", first
    for i, word in enumerate(words):
        room = width - (last_room if i == len(words) - 1 else 0)
        longer = line + " " + word if line else word
        if line and len(longer) > room:
            lines.append(line)
            line, width = word, rest
        else:
            line = longer
    return lines + [line]


# What begins an item in a comment, or a command of doxygen: what follows hangs below.
ITEM = re.compile(r"\s*(?:[-*] +|\d+[.)] +|[@\\](?:retval|param\S*) +\S+ +|[@\\]\w+ )")


def goes_on(before, line, hang):
    """Whether a line of a comment goes on with what the line before it says."""
    if not line.strip() or ITEM.match(line) or "  " in line.strip():
        return False
    if len(re.match(r"\s*", line).group()) != hang:
        return False
    fits = len(before) + 1 + len(line.split()[0]) <= WIDTH - 3
    return not (fits and before.endswith((".", ":", ";")) and line.strip()[0].isupper())


def rewrap(comment, indent):
    """A comment on lines of its own, wrapped from where a line is too long on."""
    opening = re.match(r"/\*+<?!?", comment).group()
    lines = comment.split("\n")
    texts = [lines[0][len(opening):].removeprefix(" ")]
    for line in lines[1:]:
        m = re.match(r"\s*\*(?!/) ?(.*)|\s*(.*)", line)
        texts.append(m.group(1) if m.group(1) is not None else m.group(2))
    closed_alone = len(texts) > 1 and texts[-1].strip() == "*/"
    if closed_alone:
        texts.pop()
    else:
        texts[-1] = texts[-1][:-2].rstrip()
    room = WIDTH - indent - 3
    at_first = room - (len(opening) - 2)
    ruler = re.fullmatch(r"(-{8,}) (.*)", texts[0])
    if ruler and len(texts) == 1:
        dashes = max(8, min(len(ruler.group(1)), at_first - 4 - len(ruler.group(2))))
        return "%s %s %s */" % (opening, "-" * dashes, ruler.group(2))
    out, i = [], 0
    while i < len(texts):
        end = i == len(texts) - 1 and not closed_alone
        width = at_first if i == 0 else room
        if len(texts[i]) <= width - (3 if end else 0):
            out.append(texts[i])
            i += 1
            continue
        item = ITEM.match(texts[i])
        head = item.group() if item else re.match(r"\s*", texts[i]).group()
        hang = len(head)
        if item and i + 1 < len(texts) and texts[i + 1].strip() and not ITEM.match(texts[i + 1]):
            hang = len(re.match(r"\s*", texts[i + 1]).group())
        words, j = texts[i][len(head):].split(), i + 1
        while j < len(texts) and goes_on(texts[j - 1], texts[j], hang):
            words += texts[j].split()
            j += 1
        end = j == len(texts) and not closed_alone
        out += [(" " * hang if k else head) + t for k, t in enumerate(
            fill(words, width - len(head), room - hang, 3 if end else 0))]
        i = j
    tabs = "\t" * (indent // TAB) + " " * (indent % TAB)
    text = opening + (" " + out[0] if out[0] else "")
    for line in out[1:]:
        text += "\n" + tabs + (" * " + line).rstrip()
    return text + ("\n" + tabs + " */" if closed_alone else " */")


FIELDS = re.compile(r"(?:\b(?:struct|union|enum)(?:\s+\w+)?(?:\s+__\w+(?:\([^)]*\))?)?|[=,({\]]|"
                    r"\(\s*(?:const )?(?:struct|union) \w+\s*\)|"
                    r"\(\s*(?:const )?[\w ]+\*?\[\w*\]\))\s*$")


def scopes(code):
    """(offset, whether it is a list of fields or values) at each brace."""
    stack, marks = [], [(0, True)]
    for m in re.finditer(r"[{}]", code):
        if m.group() == "{":
            stack.append(FIELDS.search(code[max(0, m.start() - 120):m.start()]) is not None)
        elif stack:
            stack.pop()
        marks.append((m.start(), stack[-1] if stack else True))
    return marks


def hang(comment, at):
    """A comment behind code, wrapped where it is."""
    opening = re.match(r"/\*+<?!?", comment).group()
    words = re.sub(r"\n\s*\*?(?!/)", " ", comment[len(opening):-2]).split()
    out = fill(words, WIDTH - at - len(opening) - 1, WIDTH - at - 3, 3)
    lead = "\t" * ((at + 1) // TAB) + " " * ((at + 1) % TAB)
    return opening + " " + ("\n" + lead + "* ").join(out) + " */"


def wrap_comments(text):
    code = blank(text)
    marks = scopes(code)
    offsets = [m[0] for m in marks]
    edits = []
    for m in comments(text):
        if m.group().startswith("//") or "clang-format o" in m.group():
            continue
        start = text.rfind("\n", 0, m.start()) + 1
        stop = text.find("\n", m.end())
        stop = len(text) if stop < 0 else stop
        whole = text[start:stop]
        define = re.match(r"\s*#", whole) is not None
        # clang-format keeps two columns of a directive for " \\"
        most = WIDTH - 2 if define else WIDTH
        if all(columns(line) <= most for line in whole.split("\n")) and not (
                define and "\n" in whole):
            continue
        before, after = text[start:m.start()], text[m.end():stop]
        if after.strip() or whole.endswith("\\") or text[:start].endswith("\\\n"):
            continue
        if not before.strip():
            edits.append((m.start(), m.end(), rewrap(m.group(), columns(before))))
            continue
        fields = marks[bisect_right(offsets, m.start()) - 1][1]
        if fields and columns(before) <= 56 and not define:
            edits.append((m.start(), m.end(), hang(m.group(), columns(before))))
            continue
        body = re.sub(r"\s*\n\s*(?:\*(?!/))?\s*", " ", m.group())
        lead = re.match(r"\s*", before).group()
        line = before.strip()
        body = body.replace("/**<", "/**", 1)
        inside = line.startswith("}") or re.match(r"else\b", line)
        if inside:
            lead += "\t"
        comment = rewrap(body, columns(lead))
        if inside:
            edits.append((start, stop, before.rstrip() + "\n" + lead + comment))
        else:
            edits.append((start, stop, lead + comment + "\n" + before.rstrip()))
    for start, stop, new in reversed(edits):
        text = text[:start] + new + text[stop:]
    return text


def star_comments(text):
    """Trailing comments that clang-format wrapped get a star on each line, and no end alone."""
    edits = []
    for m in comments(text):
        start = text.rfind("\n", 0, m.start()) + 1
        before = text[start:m.start()]
        lines = m.group().split("\n")
        if len(lines) == 1 or not before.strip() or text[m.end():m.end() + 1] != "\n":
            continue
        if before.lstrip().startswith("#") or any(line.endswith("\\") for line in lines):
            continue
        if all(re.match(r"\s*\* \S", line) for line in lines[1:]):
            continue
        edits.append((m.start(), m.end(), hang(m.group(), columns(before))))
    for start, stop, new in reversed(edits):
        text = text[:start] + new + text[stop:]
    return text


def split_string(line):
    """The line in two where a string in it that is too long has an end of line; or None."""
    for m in LITERAL.finditer(line):
        if m.group()[0] != '"' or columns(line[:m.end()]) <= WIDTH:
            continue
        ends = [n.end() for n in re.finditer(r"(?<!\\)\\n", line[:m.end() - 1])
                if m.start() < n.start() and n.end() < m.end() - 1]
        if ends:
            at = max([e for e in ends if columns(line[:e]) < WIDTH - 1] or ends[:1])
            return [line[:at] + '"', re.match(r"\s*", line).group() + '"' + line[at:]]
    return None


def join_strings(text):
    """A string that is too long takes in the one behind it, for clang-format to break both; where
    it has an end of line it is broken there."""
    lines = text.split("\n")
    i = 0
    while i + 1 < len(lines):
        if lines[i].lstrip().startswith(("*", "/*")):
            i += 1
            continue
        if columns(lines[i]) > WIDTH and lines[i].endswith('"') and not lines[i].endswith('\\n"'):
            m = re.match(r'\s*"(.*)$', lines[i + 1])
            if m and blank(lines[i]).strip() != lines[i].strip():
                lines[i] = lines[i][:-1] + m.group(1)
                del lines[i + 1]
                continue
        if columns(lines[i]) > WIDTH and lines[i][0] != "#" and lines[i][-1] != "\\":
            parts = split_string(lines[i])
            if parts and not (i and lines[i - 1].endswith("\\")):
                lines[i:i + 1] = parts
        i += 1
    return "\n".join(lines)


def end_lists(text):
    """Lists of fields by name over several lines end in a comma: each field gets a line."""
    code = LITERAL.sub(lambda m: spaces(m) if m.group()[0] == "/" else "x" * len(m.group()), text)
    edits = []
    for m in re.finditer(r"\{(?=\.)", code):
        depth = 0
        for n in re.finditer(r"[{}]", code[m.start():]):
            depth += 1 if n.group() == "{" else -1
            if depth == 0:
                break
        stop = m.start() + n.start()
        inside = code[m.start():stop]
        start = code.rfind("\n", 0, m.start()) + 1
        if "\n" not in inside or "#" in inside or "\\\n" in inside or "#define" in code[start:stop]:
            continue
        if inside.rstrip().endswith(","):
            continue
        edits.append(m.start() + len(inside.rstrip()))
    for at in sorted(edits, reverse=True):
        text = text[:at] + "," + text[at:]
    return text


def fix(root, tool, names):
    for turn in range(6):
        changed = []
        for name in names:
            text = read(root, name)
            new = join_strings(wrap_comments(text))
            if turn:
                new = end_lists(star_comments(new))
            if new != text:
                with open(os.path.join(root, name), "w", encoding="utf-8") as f:
                    f.write(new)
            if new != text or turn == 0:
                changed.append(name)
        run = in_parallel(root, [tool, "-i"], changed)
        if run.returncode:
            return run.stderr
        names = names if turn == 0 else changed
        if not changed:
            break
    return None


# ------------------------------------------------------------------ all of it


def report(check, found):
    for violation in found:
        print(violation)
    if found:
        print("not ok tidy__%s %d violations" % (check, len(found)))
    else:
        print("ok tidy__%s" % check)
    return not found


def main():
    tool, why = clang_format()
    if sys.argv[1] == "--fix":
        error = why or fix(ROOT, tool, sources(ROOT))
        if error:
            print("tidy.sh: " + error, file=sys.stderr)
        return 2 if error else 0
    good = True
    if tool is None:
        print("ok tidy__format # SKIP THE FORMAT IS NOT CHECKED: %s" % why)
    else:
        good = report("format", check_format(ROOT, tool))
    good = report("lines", check_lines(ROOT)) and good
    good = report("prototypes", check_prototypes(ROOT)) and good
    good = report("sentences", check_sentences(ROOT)) and good
    good = report("sizes", check_sizes(ROOT)) and good
    good = report("tags", check_tags(ROOT)) and good
    if sys.argv[1] != "--sources":
        good = report("prefixes", check_prefixes(ROOT, archives_of(ROOT, sys.argv[1]))) and good
    good = report("names", check_names(ROOT)) and good
    if sys.argv[1] != "--sources":
        good = try_checks(tool) and good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
