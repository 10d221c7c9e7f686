#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Usage: make.py SOURCE_DIR OUTPUT_FILE

Wireshark's plug-in for pmx-dpdk's frames: pmx.lua.in, with the structures, types and flags that
lib/core/wire/wire.h has in place of its line `-- from wire.h`.
"""
import os
import re
import sys


def number(text, known):
    text = re.sub(r"\bWIRE_\w+\b", lambda m: str(known[m.group()]), text)
    return eval(re.sub(r"u\b", "", text))  # numbers and + - * / of the header


def sentence(comment):
    return re.sub(r"\s+", " ", re.sub(r"\n\s*\*", " ", comment)).strip().replace('"', "'")


def structures(header, known):
    """struct wire_NAME {...} -> NAME: fields of name, size, offset, what it is; arrays of bytes are one field"""
    for name, body in re.findall(r"^struct wire_(\w+) \{\n(.*?)^\} __attribute__\(\(packed", header, re.M | re.S):
        at, fields = 0, []
        for bits, names, comment in re.findall(r"^\tuint(\d+)_t ([^;]+);(?:\s*/\*(.*?)\*/)?", body, re.M | re.S):
            for field in names.split(","):
                field, _, count = field.strip().partition("[")
                many = number(count.rstrip("]"), known) if count else 1
                size = int(bits) // 8
                if size > 1 and many > 1:
                    fields += [("%s%d" % (field, i), size, at + i * size, sentence(comment)) for i in range(many)]
                else:
                    fields.append((field, size * many, at, sentence(comment)))
                at += size * many
        yield name, at, fields


def enumerations(header):
    """enum wire_NAME {...} -> NAME: {value: name}"""
    for name, body in re.findall(r"^enum wire_(\w+) \{\n(.*?)^\};", header, re.M | re.S):
        values, next_value = {}, 0
        for item, value in re.findall(r"^\tWIRE_(?:[A-Z]_)?(\w+)(?: = (\w+))?,?", re.sub(r"/\*.*?\*/", "", body, flags=re.S), re.M):
            next_value = int(value) if value.isdigit() else next_value
            if not item.endswith(("OPS", "COUNT", "TYPES")):
                values[next_value] = item
            next_value += 1
        yield name, values


def main():
    source, out = sys.argv[1:]
    header = open(os.path.join(source, "lib/core/wire/wire.h")).read()
    known = {}
    for name, value in re.findall(r"^#define (WIRE_\w+) +([^\n]*?)(?:\s*/\*.*)?$", header, re.M):
        try:
            known[name] = number(re.sub(r"(\d)u\b", r"\1", value), known)
        except (SyntaxError, KeyError, NameError):
            pass  # it is no number
    lines = ["local version, header_bytes, ethertype, udp_port = %d, %d, 0x%04X, %d" % (
        known["WIRE_VERSION"], known["WIRE_HDR_BYTES"], known["WIRE_ETHERTYPE"], known["WIRE_UDP_PORT"]),
        "local endpoints = {[0] = \"\", %s}" % ", ".join("[0x%04X] = \"%s\"" % (known["WIRE_" + e], e.lower()) for e in (
            "TARGET", "INITIATOR", "MATCHED", "GROUP", "COLL")),
        "local contexts_max, payload_max, message_max = 0x%X, %d, %d" % (known["WIRE_CONTEXTS_MAX"], known["WIRE_PAYLOAD_MAX"], known["WIRE_MESSAGE_MAX"]),
        "local structs, enums, flags = {}, {}, {}"]
    for name, size, fields in structures(header, known):
        lines.append("structs.%s = {bytes = %d," % (name, size))
        lines += ['\t{"%s", %d, %d, "%s"},' % field for field in fields]
        lines.append("}")
    for name, values in enumerations(header):
        lines.append("enums.%s = {%s}" % (name, ", ".join('[%d] = "%s"' % item for item in sorted(values.items()))))
    for letter, of in {"F": "hdr", "T": "transfer", "M": "match", "G": "group", "C": "coll", "H": "hello"}.items():
        bits = {}
        for name, value in re.findall(r"^#define WIRE_%s_(\w+) +(0x[0-9A-F]+)\b" % letter, header, re.M):
            if name != "ALL":
                bits.setdefault(int(value, 16), []).append(name)
        lines.append("flags.%s = {%s}" % (of, ", ".join('[0x%X] = "%s"' % (bit, "/".join(names)) for bit, names in sorted(bits.items()))))
    text = open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "pmx.lua.in")).read()
    with open(out, "w") as f:
        f.write(text.replace("-- from wire.h\n", "\n".join(lines) + "\n"))


main()
