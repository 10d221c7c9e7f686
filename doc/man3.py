#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Usage: man3.py SOURCE_DIR OUTPUT_DIR

Manual pages of section 3 from the public headers, by Doxygen's XML: one for each function, structure
and enumeration, and one for each header, libpmx(3) for pmx.h and libpmx-coll(3) and so on for the
others, which has its constants and lists its functions. Names of constants and of types lead to the
page that tells of them.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree


def escaped(text):
    """Text that troff takes as it stands; a line never begins with a request."""
    return re.sub(r"^([.'])", r"\\&\1", text.replace("\\", "\\e").replace("-", "\\-"), flags=re.M)


class Words:
    """What a paragraph of Doxygen's XML says, as troff: plain lines, lists, and apart from them its
    parameters and what it returns."""

    def __init__(self):
        self.body, self.parameters, self.returns = [], [], []

    @staticmethod
    def line(element):
        """The text of an element with what is in it, without its lists and sections."""
        parts = [escaped(element.text or "")]
        for child in element:
            if child.tag not in ("itemizedlist", "parameterlist", "simplesect"):
                inner = Words.line(child)
                parts.append({"computeroutput": "\\fB%s\\fR", "ref": "\\fB%s\\fR", "ndash": "\\(en%s"}.get(child.tag, "%s") % inner)
            parts.append(escaped(child.tail or ""))
        return re.sub(r"\s+", " ", "".join(parts)).strip()

    def take(self, element):
        """Take a description."""
        for para in element.findall("para"):
            text = self.line(para)
            if text:
                # what follows errors tells of more of them
                (self.returns or self.body).append(".PP\n" + text)
            self.sections(para)

    def sections(self, para):
        """Take the lists and sections of a paragraph. What follows a list is in its last item, by Doxygen."""
        for child in para:
            if child.tag == "itemizedlist":
                for item in child.findall("listitem"):
                    self.body.append(".IP \\(bu 2\n" + " ".join(self.line(p) for p in item.findall("para")))
                    for p in item.findall("para"):
                        self.sections(p)
            elif child.tag == "parameterlist":
                for item in child.findall("parameteritem"):
                    name = item.find("parameternamelist/parametername")
                    text = " ".join(self.line(p) for p in item.findall("parameterdescription/para"))
                    entry = ".TP\n\\fB%s\\fR%s\n%s" % (escaped(name.text or ""), {"out": " (out)", "inout": " (in, out)"}.get(name.get("direction"), ""), text or "\\&")
                    (self.returns if child.get("kind") == "retval" else self.parameters).append(entry)
            elif child.tag == "simplesect":
                for p in child.findall("para"):
                    self.returns.append(".PP\n" + self.line(p))


def words(element):
    """What the brief and the detailed description of an element say."""
    said = Words()
    for part in ("briefdescription", "detaileddescription"):
        if element.find(part) is not None:
            said.take(element.find(part))
    return said


def brief(element):
    """The first sentence, without its full stop: what `apropos` shows."""
    text = re.sub(r"\.PP\n|\\f[BR]", "", (words(element).body or ["\\&"])[0])
    return re.split(r"[.:;](?:\s|$)", text)[0].replace("\n", " ")


class Pages:
    """The pages of a folder."""

    def __init__(self, out):
        self.out, self.version = out, re.search(r'PMX_VERSION\s+"([^"]+)"', open("include/pmx/pmx.h").read()).group(1)

    def write(self, name, short, sections):
        """Write a page: sections are pairs of title and troff; empty ones are left out."""
        with open("%s/%s.3" % (self.out, name), "w") as f:
            f.write('.\\" SPDX-License-Identifier: BSD-3-Clause\n.TH "%s" 3 "" "libpmx %s" "Library Functions"\n' % (name, self.version))
            f.write(".SH NAME\n%s \\- %s\n" % (escaped(name), short))
            for title, text in sections:
                if text.strip():
                    f.write(".SH %s\n%s\n" % (title, re.sub(r"^\.PP\n", "", text)))

    def lead(self, name, page):
        """Let a name lead to a page."""
        if not os.path.exists("%s/%s.3" % (self.out, name)):
            with open("%s/%s.3" % (self.out, name), "w") as f:
                f.write(".so man3/%s.3\n" % page)


def text_of(element):
    return re.sub(r"\s+", " ", "".join(element.itertext())).strip() if element is not None else ""


def declaration(kind, name, members):
    """The lines of a structure or an enumeration, comments apart."""
    lines = ["%s %s {" % (kind, name)]
    for m in members:
        if kind == "enum":
            lines.append("\t%s %s," % (m.findtext("name"), text_of(m.find("initializer"))))
        else:
            lines.append("\t%s %s%s;" % (text_of(m.find("type")), m.findtext("name"), m.findtext("argsstring") or ""))
    return "\n".join(re.sub(r" ,$", ",", line) for line in lines + ["};"])


def members_said(members):
    return "\n".join(".TP\n.B %s\n%s" % (escaped(m.findtext("name")), " ".join(re.sub(r"^\.PP\n", "", b) for b in words(m).body) or "\\&") for m in members)


def code(text):
    return ".nf\n%s\n.fi" % escaped(text)


def prototype(function):
    """Its prototype, a parameter a line if one line is not enough."""
    params = [(text_of(p.find("type")) + " " + (p.findtext("declname") or "")).replace("* ", "*").strip() + (p.findtext("array") or "") for p in function.findall("param")]
    head = (text_of(function.find("type")).replace(" *", " *") + " ").replace("* ", "*") + function.findtext("name") + "("
    whole = head + ", ".join(params) + ");"
    return whole if len(whole) <= 76 else head + "\n\t" + ",\n\t".join(params) + ");"


def main():
    source, out = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.chdir(source)
    shutil.rmtree(out, ignore_errors=True)
    os.makedirs(out)
    pages = Pages(out)
    with tempfile.TemporaryDirectory() as work:
        settings = open("doc/Doxyfile").read() + "GENERATE_HTML = NO\nGENERATE_XML = YES\nSTRIP_FROM_PATH = include\n"
        subprocess.run(["doxygen", "-"], input=settings, text=True, env=dict(os.environ, OUTPUT_DIRECTORY=work), check=True)
        xml = lambda ref: ElementTree.parse("%s/xml/%s.xml" % (work, ref)).getroot().find("compounddef")
        index = ElementTree.parse(work + "/xml/index.xml").getroot()
        headers = [xml(c.get("refid")) for c in index if c.get("kind") == "file"]
        structs = [xml(c.get("refid")) for c in index if c.get("kind") == "struct"]
    for header in headers:
        file = header.findtext("compoundname")
        title = "libpmx" if file == "pmx.h" else "libpmx-" + file[:-2]
        include = "#include <pmx/%s>" % file
        of_header = {kind: [m for m in header.iter("memberdef") if m.get("kind") == kind] for kind in ("function", "define", "enum", "typedef")}
        see = "\\fB%s\\fR(3)" % escaped(title)
        for f in of_header["function"]:
            said = words(f)
            others = sorted({r for r in re.findall(r"\\fB(pmx_[a-z_]+)\(\)\\fR", "\n".join(said.body + said.parameters + said.returns))} - {f.findtext("name")})
            pages.write(f.findtext("name"), brief(f), (
                ("SYNOPSIS", code(include + "\n\n" + prototype(f))), ("DESCRIPTION", "\n".join(said.body)),
                ("PARAMETERS", "\n".join(said.parameters)), ("RETURN VALUE", "\n".join(said.returns)),
                ("SEE ALSO", ", ".join(["\\fB%s\\fR(3)" % o for o in others] + [see]))))
        for e in of_header["enum"]:
            pages.write(e.findtext("name"), brief(e), (
                ("SYNOPSIS", code(include + "\n\n" + declaration("enum", e.findtext("name"), e.findall("enumvalue")))),
                ("DESCRIPTION", "\n".join(words(e).body)), ("VALUES", members_said(e.findall("enumvalue"))), ("SEE ALSO", see)))
            for value in e.findall("enumvalue"):
                pages.lead(value.findtext("name"), e.findtext("name"))
        for s in structs:
            location = s.find("location").get("file")
            if os.path.basename(location) != file:
                continue
            fields = [m for m in s.iter("memberdef") if m.get("kind") == "variable"]
            pages.write(s.findtext("compoundname"), brief(s), (
                ("SYNOPSIS", code(include + "\n\n" + declaration("struct", s.findtext("compoundname"), fields))),
                ("DESCRIPTION", "\n".join(words(s).body)), ("FIELDS", members_said(fields)), ("SEE ALSO", see)))
        listed = "\n".join(".TP\n\\fB%s\\fR(3)\n%s" % (escaped(f.findtext("name")), brief(f)) for f in of_header["function"])
        defines = [m for m in of_header["define"] + of_header["typedef"] if not m.findtext("name").endswith("_H") and m.findtext("name") != "PMX_API"]
        constants = "\n".join(".TP\n.B %s\n%s" % (escaped((m.findtext("name") + " " + text_of(m.find("initializer"))).strip()), " ".join(re.sub(r"^\.PP\n", "", b) for b in words(m).body) or "\\&") for m in defines)
        for m in defines:
            pages.lead(m.findtext("name"), title)
        also = ", ".join("\\fB%s\\fR(3)" % escaped("libpmx" if h.findtext("compoundname") == "pmx.h" else "libpmx-" + h.findtext("compoundname")[:-2]) for h in headers if h is not header)
        pages.write(title, brief(header), (("SYNOPSIS", code(include)), ("DESCRIPTION", "\n".join(words(header).body)), ("FUNCTIONS", listed), ("CONSTANTS AND TYPES", constants), ("SEE ALSO", also)))


main()
