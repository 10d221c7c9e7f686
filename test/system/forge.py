# SPDX-License-Identifier: BSD-3-Clause
"""forge.py INTERFACE COUNT GROUP MEMBERS MAC...: a host that is no node sends COUNT frames of each kind that needs no session of its
own, in the name of nodes that are there: MULTI, LINK, and the LEAVE, SUSPECT and GRANT of a group's members. MAC: of nodes 0, 1, ..."""

import random
import socket
import struct
import sys

ETHERTYPE, VERSION = 0x88B5, 2
HEADER = struct.Struct(">BBHHHHHHHHIIIIIIII")  # doc/reference/wire.md, header
GROUP_MESSAGE = struct.Struct(">BBHIQIIIHH")    # doc/reference/wire.md, groups
MULTI = struct.Struct(">IIIHBBIHHQ")            # doc/reference/wire.md, multicasts
TYPE = {"DATA": 1, "MULTI": 8, "LINK": 9}
OPS = {"LEAVE": 4, "SUSPECT": 7, "GRANT": 12}
FIRST, ASK, GROUP_ENDPOINT, NOBODY = 0x01, 0x40, 0x4000, 0xFFFF

interface, count, group, members = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
macs = [bytes.fromhex(m.replace(":", "")) for m in sys.argv[5:]]
draw = random.Random(1)
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind((interface, 0))
own = raw.getsockname()[4]


def send(to, kind, flags, src, dst, src_ctx, dst_ctx, session, seq, payload=b"", msg_len=0):
    header = HEADER.pack(VERSION, TYPE[kind], flags, src, dst, src_ctx, dst_ctx, len(payload), 0, 0, session, seq, 0, 0, 0, msg_len, 0, 0)
    raw.send(to + own + struct.pack(">H", ETHERTYPE) + header + payload)


hashed = (group * 0x9E3779B1 & 0xFFFFFFFF) >> 8
to_group = bytes([3, 0x50, 0x4D, hashed >> 16 & 255, hashed >> 8 & 255, hashed & 255])
for i in range(count):
    src = draw.randrange(len(macs))
    dst = (src + 1 + draw.randrange(len(macs) - 1)) % len(macs)
    # chunks that are next, two ahead, and far ahead
    number = draw.choice((1, 2, 3, 4, 5, 1 << 30, draw.getrandbits(32)))
    body = MULTI.pack(group, draw.getrandbits(32), number, draw.randrange(members), 0, draw.choice((0, 7)), draw.choice((0, 7, 0xFFFF0000)),
                      1, 0, draw.randrange(4096)) + b"\xFF" * 8 + b"forged"
    send(to_group, "MULTI", 0, src, NOBODY, GROUP_ENDPOINT, NOBODY, 0, 0, body)
    send(macs[dst], "LINK", draw.choice((0, 0, ASK)), src, dst, 0, 0, draw.choice((0, draw.getrandbits(32))), draw.getrandbits(32))
    for name, op in OPS.items():
        message = GROUP_MESSAGE.pack(op, 0, src % members, group, draw.choice((0, draw.getrandbits(64))), 1, 1, 0, draw.randrange(members), 0)
        send(macs[dst], "DATA", FIRST, src, dst, GROUP_ENDPOINT, GROUP_ENDPOINT, draw.getrandbits(32), draw.getrandbits(32), message,
             len(message))
print(f"{count} of each kind")
