#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What dissector.sh gives tshark to read, and how it judges the answer. Frames are made by doc/reference/wire.md alone."""
import os
import random
import re
import struct
import subprocess
import sys

HEADER = struct.Struct(">BBHHHHHHHHIIIIIIII")
NAMES = "version type flags src_node dst_node src_ctx dst_ctx payload_len credit share session seq ack tstamp echo msg_len frag_off crc".split()
TYPES = {1: "DATA", 2: "ACK", 3: "NACK", 4: "HELLO", 5: "PING", 6: "PONG", 7: "RESET", 8: "MULTI", 9: "LINK"}
GROUP, COLL, TARGET, INITIATOR, MATCHED = 0x4000, 0x5000, 0x1000, 0x2000, 0x3000


def crc32c(data):
    c = 0xFFFFFFFF
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    return c ^ 0xFFFFFFFF


def frame(fields, payload):
    values = dict.fromkeys(NAMES, 0) | {"version": 2, "payload_len": len(payload)} | fields
    head = HEADER.pack(*(values[n] for n in NAMES))
    if values["flags"] & 8:
        values["crc"] = crc32c(head + payload)
        head = HEADER.pack(*(values[n] for n in NAMES))
    return head + payload, values


def ethernet(data):
    return bytes(12) + b"\x88\xb5" + data


def tagged(data):
    return bytes(12) + b"\x81\x00\x00\x07\x88\xb5" + data


def udp(data):
    length = 8 + len(data)
    return bytes(12) + b"\x08\x00" + struct.pack(">BBHHHBBHII", 0x45, 0, 20 + length, 1, 0, 64, 17, 0, 0x0A000001, 0x0A000002) + struct.pack(
        ">HHHH", 4000, 18515, length, 0) + data


def write_pcap(path, packets):
    with open(path, "wb") as f:
        f.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for i, p in enumerate(packets):
            f.write(struct.pack("<IIII", i, 0, len(p), len(p)) + p)


def tshark(plugin, path, *arguments):
    done = subprocess.run(["tshark", "-n", "-X", "lua_script:" + plugin, "-r", path, *arguments], capture_output=True, text=True, check=True)
    warned = [line for line in done.stderr.split("\n") if line and "Running as user" not in line]
    assert not warned, warned
    return done.stdout


def wrong(plugin, path):
    return tshark(plugin, path, "-Y", "_ws.malformed || _ws.lua.error || pmx.expert.wrong || pmx.expert.checksum")


def at_random(rng, kind):
    """A frame of that type that a node takes."""
    number = lambda bits: rng.getrandbits(bits)
    fields = {"type": kind, "src_node": rng.randrange(65535), "dst_node": rng.randrange(65535), "src_ctx": rng.randrange(4096),
              "dst_ctx": rng.randrange(4096), "session": number(32), "seq": number(32), "ack": number(32), "tstamp": number(32),
              "echo": number(32), "credit": number(16), "share": number(16), "flags": rng.choice([0, 2, 4, 6, 8, 14])}
    payload = b""
    if kind == 1:
        endpoint = rng.choice([0, 0, TARGET, INITIATOR, MATCHED, GROUP, COLL])
        fields["dst_ctx"] += endpoint
        fields["flags"] |= rng.choice([0, 1, 0x40])
        payload = {
            0: lambda: rng.randbytes(rng.randrange(200)),
            TARGET: lambda: struct.pack(">BBHIQQQQQ", rng.choice([1, 2, 3, 4, 7, 8]), number(8), 0, number(32), *(number(64) for _ in range(5))),
            INITIATOR: lambda: struct.pack(">BBHIQQQQQ", 6, 0, 0, 0, 0, 0, 1, 0, 0) + struct.pack(">II", number(32), 0),
            MATCHED: lambda: struct.pack(">BBHIQ", 2, 0, 0, number(32), number(64)) + struct.pack(">QII", number(40), number(32), 0),
            GROUP: lambda: struct.pack(">BBHIQIIIHH", rng.randrange(1, 28), number(4), number(10), number(32), number(64), number(32), number(32),
                                       number(32), number(10), 0),
            COLL: lambda: struct.pack(">BBHIIIQQ", rng.randrange(1, 7), number(1), number(16), number(32), number(32), number(32), number(64), number(64)),
        }[endpoint]()
        fields["msg_len"] = len(payload)
        if endpoint == 0 and rng.random() < 0.5:
            fields |= {"msg_len": len(payload) + 1000, "frag_off": 1000}
    elif kind == 3:
        payload = rng.randbytes(rng.randrange(1, 65))
    elif kind == 4:
        payload = struct.pack(">IIIHHQIBBH32s", number(32), number(32), number(32), number(16), number(16), number(64), number(32), number(4), number(1),
                              0, b"node-%d" % number(8))
    elif kind == 8:
        payload = struct.pack(">IIIHBBIHHQ", number(32), number(32), number(32), number(10), 0, number(6), number(32), 1, 0, number(64)) + rng.randbytes(40)
    return frame(fields, payload)


def check_random(plugin, folder, count):
    rng = random.Random(int(os.environ.get("PMX_DISSECTOR_SEED", "1")))
    frames = [at_random(rng, kind) for kind in TYPES for _ in range(int(count))]
    around = [rng.choice([ethernet, tagged, udp]) for _ in frames]
    path = folder + "/random.pcap"
    write_pcap(path, [wrap(data) for wrap, (data, _) in zip(around, frames)])
    out = tshark(plugin, path, "-T", "fields", "-E", "separator=|", *(a for n in NAMES for a in ("-e", "pmx." + n)))
    lines = out.split("\n")[:-1]
    assert len(lines) == len(frames), (len(lines), len(frames))
    for line, (_, values) in zip(lines, frames):
        got = [int(x, 0) for x in line.split("|")]
        assert got == [values[n] for n in NAMES], (line, values)
    found = wrong(plugin, path)
    assert found == "", found[:2000]
    again = tshark(plugin, path, "-2", "-R", "pmx.again", "-Y", "pmx.again")
    print(len(frames), "frames,", again.count("\n"), "with a sequence that their flow has had")


def check_golden(plugin, folder, document):
    frames = {}
    for name, text in re.findall(r"golden: (\w+)\n+```hex\n(.*?)```", open(document).read(), re.S):
        data = bytes.fromhex(text)
        if len(data) >= HEADER.size and data[0] == 2 and data[1] in TYPES and len(data) == HEADER.size + int.from_bytes(data[12:14], "big"):
            frames[name] = data
    write_pcap(folder + "/golden.pcap", [ethernet(d) for d in frames.values()])
    out = tshark(plugin, folder + "/golden.pcap")
    print(out)
    assert len(frames) >= 5 and len(out.split("\n")) - 1 == len(frames), (list(frames), out)
    for line, (name, data) in zip(out.split("\n"), frames.items()):
        assert " PM " in line and TYPES[data[1]] in line, (name, line)
    # the document's vectors show fields, and not all of them are what a node would take
    assert tshark(plugin, folder + "/golden.pcap", "-Y", "_ws.malformed || _ws.lua.error") == ""


def check_experts(plugin, folder):
    data, _ = frame({"type": 1, "src_node": 1, "dst_node": 2, "src_ctx": 3, "dst_ctx": 4, "seq": 7, "session": 9, "msg_len": 5, "flags": 8}, b"hello")
    other, _ = frame({"type": 1, "src_node": 1, "dst_node": 2, "src_ctx": 3, "dst_ctx": 4, "seq": 8, "session": 9, "msg_len": 5}, b"hello")
    nack, _ = frame({"type": 3, "src_node": 2, "dst_node": 1, "src_ctx": 4, "dst_ctx": 3, "ack": 7, "session": 9, "flags": 2}, b"\x05")
    full, _ = frame({"type": 3, "src_node": 2, "dst_node": 1, "src_ctx": 4, "dst_ctx": 3, "ack": 7, "session": 9, "flags": 0x12}, b"\x01")
    reset, _ = frame({"type": 7, "src_node": 2, "dst_node": 1, "src_ctx": 4, "dst_ctx": 3, "seq": 7, "session": 9}, b"")
    bad = data[:-1] + b"0"
    beyond, _ = frame({"type": 1, "src_node": 1, "dst_node": 2, "msg_len": 5, "frag_off": 3, "seq": 9}, b"hello")
    version = b"\x03" + data[1:]
    # in this order; the second but one is two frames in one datagram
    packets = [data, other, data, nack, full, reset, bad, beyond, version, data[:50], data + other]
    path = folder + "/experts.pcap"
    write_pcap(path, [udp(p) for p in packets])
    where = lambda condition: [int(n) for n in tshark(plugin, path, "-Y", condition, "-T", "fields", "-e", "frame.number").split()]
    expected = {"pmx.expert.again": [3, 7, 11], "pmx.expert.nack": [4], "pmx.expert.refused": [5], "pmx.expert.reset": [6], "pmx.expert.checksum": [7],
                "pmx.expert.wrong": [8, 9, 10], "pmx.missing == 9": [4], "pmx.missing == 8": [], "pmx.again == 1": [3, 7, 11], "pmx.flow == 0 && pmx.type == 3": [4, 5],
                "_ws.lua.error": []}
    for condition, numbers in expected.items():
        assert where(condition) == numbers, (condition, where(condition), numbers)
    assert tshark(plugin, path, "-Y", "frame.number == 11", "-T", "fields", "-e", "pmx.seq").strip() == "7,8"


{"random": check_random, "golden": check_golden, "experts": check_experts}[sys.argv[1]](*sys.argv[2:])
