#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Usage: man5.py SOURCE_DIR OUTPUT_FILE

The manual page pmx-dpdk.ini(5), from doc/reference/configuration.md, whose tables are those of
`pmx-dpdk --config-doc`.
"""
import os
import re
import sys


def troff(text):
    """A line of Markdown as troff."""
    text = re.sub(r"\[([^]]+)\]\([^)]+\)", r"\1", text).replace("\\|", "|").replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]+)`|\*\*([^*]+)\*\*", lambda m: "\\fB%s\\fR" % (m.group(1) or m.group(2)), text)
    return re.sub(r"^([.'])", r"\\&\1", text)


def row(line):
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]


def table(lines):
    """A table of keys as an entry each; another one as a list of its rows."""
    head, rows = row(lines[0]), [row(line) for line in lines[2:]]
    for cells in rows:
        named = dict(zip(head, cells))
        if head[0] == "key" and "meaning" in named:
            about = ["%s: %s" % (title, named[title]) for title in ("default", "unit or values", "range") if named.get(title)]
            about = "; ".join(about + (["changed by reload"] if named.get("reload") else []))
            yield ".TP\n%s\n%s.\n%s." % (troff(cells[0]), troff(about[:1].upper() + about[1:]), troff(named["meaning"]).rstrip("."))
        else:
            yield ".TP\n%s\n%s" % (troff(cells[0]), "; ".join("%s: %s" % (troff(t), troff(c)) for t, c in list(zip(head, cells))[1:] if c))


def page(text):
    lines = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S).split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line.startswith("```"):
            end = lines.index("```", at)
            yield ".PP\n.nf\n%s\n.fi" % "\n".join(re.sub(r"^([.'])", r"\\&\1", l.replace("\\", "\\e").replace("-", "\\-")) for l in lines[at:end])
            at = end + 1
        elif line.startswith("# "):
            continue
        elif line.startswith("#"):
            yield ".SH %s" % troff(line.lstrip("# ")).upper().replace("\\FB", "").replace("\\FR", "")
        elif line.startswith("|"):
            end = at
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            yield from table(lines[at - 1:end])
            at = end
        elif re.match(r"- |\d+\. ", line):
            yield ".IP \\(bu 2\n" + troff(line.split(" ", 1)[1])
        elif line.strip() == "":
            yield None
        else:
            yield troff(line.strip())


def main():
    source, out = sys.argv[1:]
    version = re.search(r'PMX_VERSION\s+"([^"]+)"', open(os.path.join(source, "include/pmx/pmx.h")).read()).group(1)
    said = ['.\\" SPDX-License-Identifier: BSD-3-Clause', '.TH PMX\\-DPDK.INI 5 "" "pmx\\-dpdk %s" "File Formats"' % version,
            ".SH NAME\npmx\\-dpdk.ini \\- configuration of a node of pmx\\-dpdk", ".SH DESCRIPTION"]
    for part in page(open(os.path.join(source, "doc/reference/configuration.md")).read()):
        if part is None:
            if said[-1] != ".PP" and not said[-1].startswith(".SH"):
                said.append(".PP")
        else:
            if said[-1] == ".PP" and part.startswith("."):
                said.pop()
            said.append(part)
    said.append(".SH SEE ALSO\n\\fBpmx\\-dpdk\\fR(1), \\fBpmx\\-ctl\\fR(1)")
    with open(out, "w") as f:
        f.write("\n".join(said) + "\n")


main()
