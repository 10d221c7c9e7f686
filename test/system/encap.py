# SPDX-License-Identifier: BSD-3-Clause
"""What encap.sh judges frames by, in nothing but the kernel's sockets and doc/reference/wire.md: node 1 as far as HELLO
goes, frames that are wrong in one way each, and the fields of captured ones."""

import collections
import itertools
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time

PORT = 18515
VERSION = 2
ETHERTYPE = 0x88B5
HEADER = struct.Struct(">BBHHHHHHHHIIIIIIII")  # doc/reference/wire.md, header
HELLO = struct.Struct(">IIIHHQIBBH32s")
TYPES = ["", "DATA", "ACK", "NACK", "HELLO", "PING", "PONG", "RESET"]
ASK = 0x40


def fail(what):
    print("encap.py:", what)
    sys.exit(1)


# ---------------------------------------------------------------------- frames as doc/reference/wire.md has them

Frame = collections.namedtuple("Frame", "version type flags src dst src_ctx dst_ctx len credit share session seq ack "
                               "tstamp echo msg_len frag_off crc payload")


def decode(data):
    if len(data) < HEADER.size:
        fail(f"{len(data)} bytes are no frame")
    f = Frame(*HEADER.unpack_from(data), data[HEADER.size:])
    if f.version != VERSION or not 1 <= f.type < len(TYPES) or f.len != len(f.payload):
        fail(f"no frame: version {f.version}, type {f.type}, payload_len {f.len} of {len(f.payload)}")
    return f


def is_announcement(data):
    """Whether it is what a node says to all, at any time: which number it has."""
    if len(data) < HEADER.size:
        return False
    _, kind, _, src, dst = HEADER.unpack_from(data)[:5]
    return kind == TYPES.index("HELLO") and src == dst


def hello(src, dst, flags, epoch, nonce, echo, src_ctx=1, dst_ctx=2, version=VERSION):
    return HEADER.pack(version, TYPES.index("HELLO"), flags, src, dst, src_ctx, dst_ctx, HELLO.size, 0, 0, 0, 0, 0, 0, 0,
                       0, 0, 0) + HELLO.pack(epoch, nonce, echo, 1408, 512, 0x5EC3E7, 0, 1, 0, 0, b"one")


# ---------------------------------------------------------------------- node 1, on sockets of the kernel

class Endpoint:
    """udp:ADDRESS, a UDP socket. INTERFACE, what it gives of our EtherType without headers. INTERFACE@VLAN, the same of
    those frames that the kernel took that tag off, for kernels without VLAN interfaces."""

    ETH_P_ALL, SOL_PACKET, PACKET_AUXDATA, TP_STATUS_VLAN_VALID = 3, 263, 8, 1 << 4

    def __init__(self, where):
        self.where = where
        self.udp = where.startswith("udp:")
        self.vlan = 0
        if self.udp:
            host = where[4:]
            self.s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
            self.s.bind(socket.getaddrinfo(host, PORT, type=socket.SOCK_DGRAM)[0][4])
            return
        interface, _, vlan = where.partition("@")
        self.vlan = int(vlan or 0)
        # all types, for of one type alone the kernel forgets the tag
        self.s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        self.s.setsockopt(self.SOL_PACKET, self.PACKET_AUXDATA, 1)
        self.s.bind((interface, self.ETH_P_ALL))

    def tag(self, ancillary):
        for level, kind, data in ancillary:
            if (level, kind) == (self.SOL_PACKET, self.PACKET_AUXDATA):
                status, _, _, _, _, tci, tpid = struct.unpack("=IIIHHHH", data[:20])
                return tci if status & self.TP_STATUS_VLAN_VALID else 0
        return 0

    def receive(self, seconds):
        """Of whatever is not its VLAN's it knows nothing."""
        end = time.monotonic() + seconds
        while select.select([self.s], [], [], max(end - time.monotonic(), 0))[0]:
            data, ancillary, _, sender = self.s.recvmsg(65536, 256)
            if self.udp or (sender[1] == ETHERTYPE and sender[2] != socket.PACKET_OUTGOING
                            and self.tag(ancillary) == self.vlan and not is_announcement(data)):
                return data, sender
        return None, None

    def send(self, data, to):
        if self.udp:
            self.s.sendto(data, (to[0], PORT) + to[2:])
        elif not self.vlan:
            self.s.sendto(data, (self.s.getsockname()[0], ETHERTYPE, 0, 0, to[4]))
        else:
            raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            raw.bind((self.s.getsockname()[0], 0))
            raw.send(to[4] + raw.getsockname()[4] + struct.pack(">HHH", 0x8100, self.vlan, ETHERTYPE) + data)
            raw.close()


def shake_hands(where, others=()):
    """Node 0 asks; answer as node 1 would, and get what says that the answer came: both ways are proven. On `others`
    nothing comes, and what they send is not taken."""
    s, deaf = Endpoint(where), [Endpoint(o) for o in others]
    end = time.monotonic() + 30
    nonce, epoch, asked = 0x600DCAFE, 0xFEEDBEEF, None
    while True:
        data, sender = s.receive(end - time.monotonic())
        if data is None:
            fail(f"{where}: " + ("no HELLO" if asked is None else "HELLO came, but my answer did not arrive"))
        f = decode(data)
        if TYPES[f.type] != "HELLO" or (f.src, f.dst, f.len) != (0, 1, HELLO.size):
            fail(f"{where}: type {f.type} from {f.src} to {f.dst}, not HELLO from 0 to 1")
        asked = HELLO.unpack(f.payload)
        if asked[2] == nonce:
            break
        s.send(hello(1, 0, ASK, epoch, nonce, asked[1], f.dst_ctx, f.src_ctx), sender)
    for d in deaf:
        d.send(hello(1, 0, ASK, epoch, nonce, 0), sender)
        if d.receive(0.2)[0] is not None:
            fail(f"{d.where} got a frame that is {where}'s, or an answer")
    print(f"{where}: HELLO of node 0 from {sender[:2]}, epoch {asked[0]:08x}, and it knows my answer")
    return s, sender, (nonce, epoch)


# ---------------------------------------------------------------------- wrong frames

def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(payload, to_mac, from_mac, src, dst, options=b"", ethertype=0x0800, version=4, ihl=None, total=None, flags=0x4000,
           proto=17, check=0, port=PORT, udp_len=None, pad=b""):
    """An Ethernet frame with IPv4 and UDP, right but for what is said."""
    udp = struct.pack(">HHHH", 50000, port, len(payload) + 8 if udp_len is None else udp_len, 0)
    words = 5 + len(options) // 4
    ip = struct.pack(">BBHHHBBH4s4s", version << 4 | (words if ihl is None else ihl), 0,
                     words * 4 + len(udp) + len(payload) if total is None else total, 7, flags, 61, proto, 0,
                     socket.inet_aton(src), socket.inet_aton(dst)) + options
    ip = ip[:10] + struct.pack(">H", checksum(ip) ^ check) + ip[12:]
    return to_mac + from_mac + struct.pack(">H", ethertype) + ip + udp + payload + pad


def counters(ctl):
    out = json.loads(subprocess.run(ctl + ["--json", "drops"], check=True, capture_output=True).stdout)
    return {c["name"]: c["value"] for c in out}


def changed(ctl, before, wanted, seconds=20):
    """What was counted since, once it is as wanted or time is up."""
    end = time.monotonic() + seconds
    while True:
        now = counters(ctl)
        got = {k: v - before[k] for k, v in now.items() if v != before[k]}
        if got == wanted or time.monotonic() > end:
            return got


def wrong_frames(interface, mac, seed, *ctl):
    """Each is counted as what it is; then the same again cut and with random bytes, and node 0 still answers."""
    ctl = list(ctl)
    node1 = Endpoint("udp:10.9.0.2")
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    raw.bind((interface, 0))
    mine = raw.getsockname()[4]
    port_mac = bytes.fromhex(mac.replace(":", ""))
    nonce = 1  # of each question, so that each has an answer of its own

    def ask(to=0, version=VERSION):
        return hello(1, to, ASK, 0xFEEDBEEF, nonce, 0, version=version)

    def answered(seconds):
        end = time.monotonic() + seconds
        while True:
            data, _ = node1.receive(max(end - time.monotonic(), 0))
            if data is None:
                return False
            f = decode(data)
            if TYPES[f.type] == "HELLO" and HELLO.unpack(f.payload)[2] == nonce:
                return True

    def make(payload=None, to=port_mac, dst="10.9.0.1", **how):
        return packet(ask() if payload is None else payload, to, mine, "10.9.0.2", dst, **how)

    cases = [
        ("drop_foreign", "IPv6", lambda: make(ethertype=0x86DD)),
        ("drop_foreign", "IPv6", lambda: make(ethertype=0x86DD, version=6)),
        ("drop_foreign", "raw frame", lambda: port_mac + mine + struct.pack(">H", ETHERTYPE) + ask()),
        ("drop_foreign", "TCP", lambda: make(proto=6)),
        ("drop_foreign", "another IP address", lambda: make(dst="10.9.0.3")),
        ("drop_foreign", "another port", lambda: make(port=PORT + 1)),
        ("drop_other_mac", "another MAC", lambda: make(to=bytes.fromhex("02aabbccddee"))),
        ("drop_other_mac", "broadcast", lambda: make(to=b"\xff" * 6)),
        ("drop_bad_ip", "no byte behind the EtherType", lambda: port_mac + mine + b"\x08\x00"),
        ("drop_bad_ip", "half of IP's header", lambda: make()[:24]),
        ("drop_bad_ip", "version 6 as IPv4", lambda: make(version=6)),
        ("drop_bad_ip", "a header of 16 bytes", lambda: make(ihl=4)),
        ("drop_bad_ip", "a header longer than the datagram", lambda: make(payload=b"", ihl=15)),
        ("drop_bad_ip", "a datagram longer than the frame", lambda: make(total=28 + len(ask()) + 1)),
        ("drop_bad_ip", "a datagram shorter than its header", lambda: make(total=19)),
        ("drop_bad_ip", "a wrong checksum", lambda: make(check=0x0100)),
        ("drop_bad_ip", "UDP cut off", lambda: make(total=27)),
        ("drop_bad_ip", "UDP of 7 bytes", lambda: make(udp_len=7)),
        ("drop_bad_ip", "UDP of 0 bytes", lambda: make(udp_len=0)),
        ("drop_bad_ip", "UDP longer than its datagram", lambda: make(udp_len=8 + len(ask()) + 1, pad=b"\0" * 8)),
        ("drop_fragment", "the first fragment", lambda: make(flags=0x2000)),
        ("drop_fragment", "a later fragment", lambda: make(flags=0x0010)),
        ("drop_short", "too short a datagram", lambda: make(payload=ask()[:49])),
        ("drop_short", "an empty datagram", lambda: make(payload=b"")),
        ("drop_version", "another version", lambda: make(payload=ask(version=9))),
        ("drop_truncated", "bytes missing", lambda: make(payload=ask()[:-1])),
        ("drop_oversized", "bytes too many", lambda: make(payload=ask() + b"\0")),
        ("drop_not_mine", "for node 7", lambda: make(payload=ask(to=7))),
        ("", "as it should be", make),
        ("", "with filling behind it", lambda: make(pad=b"\x55" * 30)),
        ("", "with options", lambda: make(options=b"\x01" * 4)),
        ("", "with the most options", lambda: make(options=b"\x01" * 40)),
        ("", "to the made-up MAC", lambda: make(to=bytes.fromhex("02504d000000"))),
        ("", "that may be fragmented", lambda: make(flags=0)),
    ]
    wrong = 0
    for counter, name, frame in cases:
        nonce += 1
        before = counters(ctl)
        raw.send(frame())
        wanted = {counter: 1} if counter else {}
        answer = answered(0.02 if counter else 20)
        got = changed(ctl, before, wanted)
        if got != wanted or answer == bool(counter):
            wrong += 1
            print(f"encap.py: {name}: {got}, {'answered' if answer else 'no answer'}; expected {wanted}")
    random.seed(int(seed))
    count = 20000 if os.environ.get("TIER") == "full" else 5000
    for _ in range(count):
        frame = bytearray(random.choice(cases)[2]())
        for _ in range(random.randrange(4)):
            frame[random.randrange(12 if random.random() < 0.9 and len(frame) > 14 else 0, len(frame))] = random.randrange(256)
        raw.send(bytes(frame[:random.randrange(14, len(frame) + 1)]))
    while node1.receive(0.3)[0] is not None:
        pass
    nonce += 1
    raw.send(make())
    if not answered(20):
        fail("no answer after random frames")
    print(f"{len(cases)} frames, {wrong} of them not as they should be; {count} random ones, seed {seed}")
    sys.exit(1 if wrong else 0)


# ---------------------------------------------------------------------- captured frames

def read_pcap(path):
    with open(path, "rb") as f:
        data = f.read()
    order = "<" if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at = 24
    while at + 16 <= len(data):
        captured, length = struct.unpack_from(order + "II", data, at + 8)
        if at + 16 + captured > len(data):
            break  # it is still being written
        if captured != length:
            fail("a frame was captured in part")
        if data[at + 28:at + 30] != b"\x08\x06":  # ARP
            yield data[at + 16:at + 16 + captured]
        at += 16 + captured


def expect(what, got, wanted):
    if got != wanted:
        fail(f"{what} is {got}, not {wanted}")


def check_captured(paths, encap, vlan, need, *nodes):
    """nodes: NUMBER=MAC[=IP]; every field of every frame, in front of the header too. need: types that must be there"""
    macs, ips = {}, {}
    for n in nodes:
        number, mac, ip = (n + "=").split("=")[:3]
        macs[int(number)] = bytes.fromhex(mac.replace(":", ""))
        ips[int(number)] = socket.inet_aton(ip) if ip else None
    seen, sizes, ports, to = collections.Counter(), set(), {}, set()
    for frame in itertools.chain.from_iterable(map(read_pcap, paths.split(","))):
        ethertype, = struct.unpack_from(">H", frame, 12)
        at = 14
        if encap == "vlan":
            expect("TPID", ethertype, 0x8100)
            tci, ethertype = struct.unpack_from(">HH", frame, 14)
            expect("VLAN", tci, int(vlan))
            at = 18
        if encap == "udp":
            expect("EtherType", ethertype, 0x0800)
            ihl, tos, total, ident, frag, ttl, proto, _, src, dst = struct.unpack_from(">BBHHHBBH4s4s", frame, 14)
            expect("version and IHL", ihl, 0x45)
            expect("TOS", tos, 0)
            expect("total length", total, len(frame) - 14)
            expect("identification", ident, 0)
            expect("flags: DF", frag, 0x4000)
            expect("TTL", ttl, 64)
            expect("protocol", proto, 17)
            expect("header checksum", checksum(frame[14:34]), 0)
            sport, dport, length, check = struct.unpack_from(">HHHH", frame, 34)
            expect("destination port", dport, PORT)
            expect("UDP length", length, total - 20)
            expect("UDP checksum", check, 0)
            at = 42
        else:
            expect("EtherType", ethertype, ETHERTYPE)
        f = decode(frame[at:])
        # who says to all which number it has
        to_all = TYPES[f.type] == "HELLO" and f.src == f.dst and encap != "udp"
        expect(f"destination MAC for node {f.dst}", frame[:6], b"\xFF" * 6 if to_all else macs[f.dst])
        expect(f"source MAC of node {f.src}", frame[6:12], macs[f.src])
        if encap == "udp":
            expect(f"IP of node {f.src}", src, ips[f.src])
            expect(f"IP of node {f.dst}", dst, ips[f.dst])
            expect(f"source port of {f.src} to {f.dst}", sport, ports.setdefault((f.src, f.dst), sport))
        to.add(f.dst)
        seen[TYPES[f.type]] += 1
        sizes.add(len(frame))
    if len(set(ports.values())) != len(ports) or any(p < 49152 for p in ports.values()):
        fail(f"source ports {ports}")
    missing = [t for t in need.split(",") if not seen[t]]
    print(f"{encap}: {sum(seen.values())} frames of {min(sizes, default=0)} to {max(sizes, default=0)} bytes:",
          ", ".join(f"{k} {v}" for k, v in sorted(seen.items())))
    if missing:
        fail(f"no frame of type {missing}")
    expect("nodes that frames went to", to, set(macs))


def has_kinds(paths, encap, need):
    """Whether captures that still go on have frames of these types already."""
    at, seen = {"ether": 14, "vlan": 18, "udp": 42}[encap], set()
    for path in filter(os.path.exists, paths.split(",")):
        seen |= {TYPES[frame[at + 1]] for frame in read_pcap(path) if len(frame) > at + 1}
    sys.exit(not set(need.split(",")) <= seen)


def break_one(path, to, offset):
    """Turn a bit of the first frame that is not of ARP: what judges frames must notice."""
    with open(path, "rb") as f:
        data = bytearray(f.read())
    data[data.index(next(read_pcap(path))) + int(offset)] ^= 1
    with open(to, "wb") as f:
        f.write(data)


def take(interface, ip):
    """Tell all, as a host does that has just got it, that the IP address is at this interface."""
    s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
    s.bind((interface, 0))
    mac, address = s.getsockname()[4], socket.inet_aton(ip)
    s.send(b"\xFF" * 6 + mac + struct.pack(">HHHBBH", 0x0806, 1, 0x0800, 6, 4, 1) + mac + address + bytes(6) + address)


def other_version(host, version):
    """Answer each HELLO as node 1 of another version of the protocol would."""
    s = Endpoint("udp:" + host)
    while True:
        data, sender = s.receive(60)
        if data is None:
            return
        if len(data) == HEADER.size + HELLO.size and not is_announcement(data):
            asked = HELLO.unpack(decode(data).payload)
            s.send(hello(1, 0, ASK, 0xFEEDBEEF, 0x600DCAFE, asked[1], version=int(version)), sender)


if sys.argv[1] == "hands":
    shake_hands(sys.argv[2], sys.argv[3:])
elif sys.argv[1] == "wrong":
    wrong_frames(*sys.argv[2:])
elif sys.argv[1] == "captured":
    check_captured(*sys.argv[2:])
elif sys.argv[1] == "kinds":
    has_kinds(*sys.argv[2:])
elif sys.argv[1] == "break":
    break_one(*sys.argv[2:])
elif sys.argv[1] == "version":
    other_version(*sys.argv[2:])
elif sys.argv[1] == "take":
    take(*sys.argv[2:])
