# SPDX-License-Identifier: BSD-3-Clause
"""attack.py INTERFACE MODE BUILD TAG MAC0 MAC1: somebody on the segment of nodes 0 and 1, whose every frame it sees, and who has no
key. It obeys a line of its standard input each: `old` what was seen is of lives that have ended; `case NAME...` attacks while messages
go from node 0 to node 1 and back, and says what came of it; `flood NAME SECONDS` sends as fast as it can, in a process of its own;
`quit`. After each command it says `done`. Frames are as doc/reference/wire.md and lib/handshake/handshake.h have them."""

import base64
import json
import hashlib
import hmac
import os
import random
import socket
import struct
import subprocess
import sys
import time

ETHERTYPE, VERSION = 0x88B5, 2
HEADER = struct.Struct(">BBHHHHHHHHIIIIIIII")
FIELDS = ("version type flags src dst src_ctx dst_ctx len credit share session seq ack tstamp echo msg_len frag_off crc").split()
HELLO = struct.Struct(">IIIHHQIBBH32s")
GROUP_MESSAGE = struct.Struct(">BBHIQIIIHH")
MULTI = struct.Struct(">IIIHBBIHHQ")
TYPE = {"DATA": 1, "ACK": 2, "NACK": 3, "HELLO": 4, "PING": 5, "PONG": 6, "RESET": 7, "MULTI": 8, "LINK": 9, "KEYS": 10}
F = {"FIRST": 1, "ACK": 2, "ECHO": 4, "FULL": 16, "ABSENT": 32, "ASK": 64, "SENDER": 128}
GROUP_ENDPOINT, MATCHED_ENDPOINT, COLLECTIVE_ENDPOINT, NOBODY = 0x4000, 0x3000, 0x5000, 0xFFFF
TRAILER = 20
ABSENT = range(2, 42)  # nodes that [nodes] names and that are not there
# messages of handshakes: their sizes, and where MAC1 is
INIT, ANSWER, COOKIE, ASK, TELL = range(1, 6)
CERTIFICATE = 1 + 1 + 2 + 32 + 32 + 8 + 8 + 64
NOISE = 32 + 32 + 16 + 16 + 16 + CERTIFICATE + 4
SIZE = {INIT: 8 + NOISE + 16, ANSWER: 8 + 8 + 32 + 16 + 16 + 16, COOKIE: 8 + 8 + 16, ASK: 8 + 8 + 32 + CERTIFICATE + 4,
        TELL: 8 + 8 + 32 + CERTIFICATE + 4}

interface, mode, build, tag = sys.argv[1:5]
macs = [bytes.fromhex(m.replace(":", "")) for m in sys.argv[5:7]]
draw = random.Random(7)
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
raw.bind((interface, 0))
own_mac = raw.getsockname()[4]
ears = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
ears.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
ears.bind((interface, 3))
ears.setblocking(False)


# ---------------------------------------------------------------------- frames

class Frame:
    """One of ours, as it was seen."""

    def __init__(self, data):
        self.to, self.by, self.pm = data[:6], data[6:12], data[14:]
        self.__dict__.update(zip(FIELDS, HEADER.unpack_from(self.pm)))
        self.rest = self.pm[HEADER.size:]

    def is_sealed(self):
        return mode != "off" and self.session != 0

    def with_(self, rest=None, **changes):
        """The same with other fields. len is not made to fit."""
        values = [changes.get(name, getattr(self, name)) for name in FIELDS]
        return HEADER.pack(*values) + (self.rest if rest is None else rest)


seen, old = [], []
open_keys = []  # of them the messages of handshakes, which are rare


def hear(seconds=0.0):
    """What was sent since, and until then; it is added to `seen`, of which the newest are kept."""
    new, end = [], time.monotonic() + seconds
    while True:
        try:
            data, sender = ears.recvfrom(2048)
        except BlockingIOError:
            if time.monotonic() >= end:
                break
            time.sleep(0.001)
            continue
        if sender[2] != socket.PACKET_OUTGOING and data[12:14] == b"\x88\xb5" and len(data) >= 64:
            new.append(Frame(data))
    seen.extend(new)
    del seen[:-40000]
    open_keys.extend(f for f in new if f.type == TYPE["KEYS"] and f.session == 0)
    del open_keys[:-2000]
    return new


def put(to, pm, by=None):
    try:
        raw.send(macs[to] + (by or macs[1 - to]) + struct.pack(">H", ETHERTYPE) + pm)
    except OSError:  # the interface's queue is full
        time.sleep(0.001)


def frame(kind, rest=b"", flags=0, src=1, dst=0, src_ctx=1, dst_ctx=2, **more):
    values = {"version": VERSION, "type": TYPE[kind], "flags": flags, "src": src, "dst": dst, "src_ctx": src_ctx, "dst_ctx": dst_ctx,
              "len": len(rest), **more}
    return HEADER.pack(*(values.get(name, 0) for name in FIELDS)) + rest


def hello(src, dst, flags=0, nonce=None, echo=0, epoch=None, age=0):
    return frame("HELLO", HELLO.pack(epoch or draw.getrandbits(32) | 1, draw.getrandbits(32) if nonce is None else nonce, echo, 1424, 512,
                                     draw.getrandbits(64), age, 1, 0, 0, b"liar"), flags, src, dst)


# ---------------------------------------------------------------------- messages of handshakes

def siphash(key, data):
    mask = (1 << 64) - 1
    v = [key[0] ^ 0x736F6D6570736575, key[1] ^ 0x646F72616E646F6D, key[0] ^ 0x6C7967656E657261, key[1] ^ 0x7465646279746573]

    def rotate(x, n):
        return (x << n | x >> (64 - n)) & mask

    def rounds(n):
        for _ in range(n):
            v[0] = v[0] + v[1] & mask
            v[2] = v[2] + v[3] & mask
            v[1] = rotate(v[1], 13) ^ v[0]
            v[3] = rotate(v[3], 16) ^ v[2]
            v[0] = rotate(v[0], 32)
            v[2] = v[2] + v[1] & mask
            v[0] = v[0] + v[3] & mask
            v[1] = rotate(v[1], 17) ^ v[2]
            v[3] = rotate(v[3], 21) ^ v[0]
            v[2] = rotate(v[2], 32)

    for word in struct.unpack(f"<{len(data) // 8}Q", data) + ((len(data) << 56) & mask,):
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def mac1_key(public):
    return struct.unpack("<QQ", hashlib.sha256(b"pmx-dpdk mac1\0" + public).digest()[:16])


def keys(message, src=1, dst=0):
    return frame("KEYS", message, 0, src, dst, 0, 0)


def head(step, index=0):
    return struct.pack(">BBHI", step, 1, 0, index)


def random_bytes(n):
    return draw.getrandbits(8 * n).to_bytes(n, "big") if n else b""


def init_noise(secret, to_public, src, dst):
    """A first message of Noise_IKpsk2 from who has that secret; without the curve's library, random bytes."""
    try:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives import serialization as ser
    except ImportError:
        return random_bytes(NOISE)

    def public(key):
        return key.public_key().public_bytes(ser.Encoding.Raw, ser.PublicFormat.Raw)

    def mix(chain, data):
        temp = hmac.new(chain, data, hashlib.sha256).digest()
        first = hmac.new(temp, b"\1", hashlib.sha256).digest()
        return first, hmac.new(temp, first + b"\2", hashlib.sha256).digest()

    own, theirs = X25519PrivateKey.from_private_bytes(secret), X25519PublicKey.from_public_bytes(to_public)
    ephemeral = X25519PrivateKey.from_private_bytes(random_bytes(32))
    chain = h = b"Noise_IKpsk2_25519_AESGCM_SHA256"
    for part in (b"pmx-dpdk keys 1\0" + bytes(4) + struct.pack(">HH", src, dst), to_public, public(ephemeral)):
        h = hashlib.sha256(h + part).digest()
    chain, key = mix(chain, public(ephemeral))
    chain, key = mix(chain, ephemeral.exchange(theirs))
    sealed_static = AESGCM(key).encrypt(bytes(12), public(own), h)
    h = hashlib.sha256(h + sealed_static).digest()
    chain, key = mix(chain, own.exchange(theirs))
    terms = struct.pack(">QIBBBB", time.time_ns(), draw.getrandbits(32), {"auth": 1, "seal": 2}.get(mode, 2), 1, 0, 0)
    return public(ephemeral) + sealed_static + AESGCM(key).encrypt(bytes(12), terms + bytes(CERTIFICATE + 4), h)


def init(to_public, src, dst, good=False):
    """An INIT whose MAC1 is right; good: also its curve, of a key that nobody has agreed to."""
    noise = init_noise(random_bytes(32), to_public, src, dst) if good else random_bytes(NOISE)
    message = head(INIT, draw.getrandbits(28) << 4 | 16) + noise
    return message + struct.pack("<QQ", siphash(mac1_key(to_public), message), draw.getrandbits(64))


def answer(to_public, to_index):
    message = head(ANSWER, draw.getrandbits(28) << 4) + struct.pack(">II", to_index, 0) + random_bytes(32 + 16 + 16)
    return message + struct.pack("<QQ", siphash(mac1_key(to_public), message), 0)


def public_of(node):
    """What a node tells anybody who asks."""
    hear()
    for _ in range(50):
        nonce = random_bytes(8)
        put(node, keys((head(ASK) + nonce).ljust(SIZE[ASK], b"\0"), 1 - node, node))
        for f in hear(0.05):
            if f.type == TYPE["KEYS"] and f.session == 0 and f.src == node and f.rest[:1] == bytes([TELL]) and f.rest[8:16] == nonce:
                return f.rest[16:48]
    return None


# ---------------------------------------------------------------------- the nodes

def counters(node):
    out = subprocess.run([f"{build}/app/pmx-ctl", "--instance", f"{tag}{node}", "--json", "stat", "--all"], capture_output=True, timeout=20)
    if out.returncode != 0:
        return None
    stat = json.loads(out.stdout)
    return {"flows": stat["info"]["flows"], **{c["name"]: c["value"] for c in stat["counters"]}}


def perf(node, *what):
    return subprocess.Popen([f"{build}/app/pmx-perf", *what, "--instance", f"{tag}{node}"], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True)


class Traffic:
    """Round trips between the two nodes while something happens; each message has to come, once and whole."""

    def __init__(self, seconds):
        self.responder = perf(1, "respond")
        end = time.monotonic() + 20
        while time.monotonic() < end:
            contexts = subprocess.run([f"{build}/app/pmx-ctl", "--instance", f"{tag}1", "contexts"], capture_output=True, text=True,
                                      timeout=20)
            if any(line.split()[:2] == ["1", "open"] for line in contexts.stdout.splitlines()):
                break
            time.sleep(0.02)
        self.end = time.monotonic() + seconds
        self.asker = perf(0, "latency", "--json", "--sizes", "64,1400,20000", "--rounds", "100000", "--warmup", "1", "--within",
                          str(seconds / 3))

    def lost(self):
        """What the good nodes lost: "" is nothing."""
        try:
            out, _ = self.asker.communicate(timeout=6)
            self.responder.communicate(timeout=3)
        except subprocess.TimeoutExpired:
            self.asker.kill()
            self.responder.kill()
            self.asker.communicate()
            self.responder.communicate()
            return "a message"
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        if self.asker.returncode != 0:
            return "the flow: " + " ".join(out.split())[-150:]
        return "" if len(lines) == 3 and not any(line["lost"] for line in lines) else "messages"


def newest(src, kind=None, count=1, sealed=True):
    """The newest frames of a node that were seen, the last first."""
    hear()
    out = []
    for f in reversed(seen):
        if f.src == src and (kind is None or f.type == TYPE[kind]) and f.is_sealed() == (sealed and mode != "off"):
            out.append(f)
            if len(out) == count:
                break
    return out


def handshakes(step, frames=None, src=None):
    hear()
    return [f for f in (open_keys if frames is None else frames)
            if f.type == TYPE["KEYS"] and f.session == 0 and f.rest[:1] == bytes([step]) and (src is None or f.src == src)]


def between(frames):
    return [f for f in frames if f.src < 2 and f.dst < 2]


def wait_for_frames(src, count=20):
    """Until so many more have been sent by a node. Return whether there is traffic."""
    end, had = time.monotonic() + 0.5, 0
    while time.monotonic() < end and had < count:
        had += sum(f.src == src and f.is_sealed() == (mode != "off") for f in hear(0.005))
    return had > 0


# ---------------------------------------------------------------------- attacks that need nothing seen

def as_whom():
    """Names to speak in: the peer, nodes that are not there, numbers of nobody, the node itself."""
    return draw.choice((1, 1, 1, 5, 40, 200, NOBODY, 0))


def forge(n=100):
    """Frames of all types with random fields, as if they had seals and as if not."""
    for kind in TYPE:
        for _ in range(n):
            rest = random_bytes(draw.choice((0, 8, 33, 64, 200)) + draw.choice((0, TRAILER)))
            if kind == "HELLO":
                rest = rest[:64].ljust(64, b"\0")
            put(0, frame(kind, rest, draw.getrandbits(8), as_whom(), 0, draw.choice((0, 1, 2, 9)), draw.choice((0, 1, 2, 9)),
                         session=draw.choice((0, draw.getrandbits(32))), seq=draw.getrandbits(32), ack=draw.getrandbits(32),
                         msg_len=draw.choice((len(rest), 1 << 20)), credit=draw.getrandbits(16), share=draw.getrandbits(16),
                         crc=draw.getrandbits(32)))
    return n * len(TYPE)


def hello_flood(n=3000):
    for i in range(n):
        put(i % 2, hello(1 - i % 2 if i % 3 else 5, i % 2, F["ASK"]))
    return n


def announce(n=5):
    """HELLO to all with the node's own number, of a life that is older: of two with one number the younger ends."""
    for _ in range(n):
        raw.send(b"\xff" * 6 + own_mac + struct.pack(">H", ETHERTYPE) + hello(1, 1, nonce=0, age=3600000))
        time.sleep(0.02)
    return n


def group(n=300, session=None):
    """What a group's members tell each other: LEAVE, SUSPECT, GRANT."""
    for i in range(n):
        message = GROUP_MESSAGE.pack(draw.choice((4, 7, 12)), 0, i % 2, 1, draw.getrandbits(64), 1, 1, 0, draw.randrange(2), 0)
        put(0, frame("DATA", message, F["FIRST"], 1, 0, GROUP_ENDPOINT | 1, GROUP_ENDPOINT | 2,
                     session=draw.getrandbits(32) if session is None else session, seq=draw.getrandbits(32), msg_len=len(message)))
    return n


def multi(n=300):
    hashed = (0x9E3779B1 & 0xFFFFFFFF) >> 8
    to = bytes([3, 0x50, 0x4D, hashed >> 16 & 255, hashed >> 8 & 255, hashed & 255])
    for _ in range(n):
        body = MULTI.pack(1, draw.getrandbits(32), draw.choice((1, 2, 3, 1 << 30)), 1, 0, 0, 7, 1, 0, 0) + b"\xFF" * 8 + b"forged"
        raw.send(to + macs[1] + struct.pack(">H", ETHERTYPE) + frame("MULTI", body, 0, 1, NOBODY, GROUP_ENDPOINT, NOBODY))
    return n


def link(n=300):
    for i in range(n):
        put(0, frame("LINK", b"", draw.choice((0, F["ASK"])), 1, 0, 0, 0, seq=i, session=draw.choice((0, draw.getrandbits(32)))))
    return n


def half(n=300, session=None):
    """The beginnings of messages of 8 MiB, whose rest never comes."""
    for i in range(n):
        put(0, frame("DATA", b"h" * 1000, F["FIRST"], 1, 0, i % 4, 2, session=draw.getrandbits(32) if session is None else session,
                     seq=draw.getrandbits(32), msg_len=8 << 20))
    return n


def drain(n=300):
    """Acks that give no room: who believes them sends nothing."""
    for _ in range(n):
        put(0, frame("ACK", b"", F["ACK"], session=draw.getrandbits(32), ack=draw.getrandbits(32), credit=0))
    return n


def offers(n=300):
    for i in range(n):
        put(0, frame("DATA", random_bytes(64), F["FIRST"], 1, 0, MATCHED_ENDPOINT | i % 4, MATCHED_ENDPOINT | 2,
                     session=draw.getrandbits(32), seq=draw.getrandbits(32), msg_len=64))
    return n


def arp(n=20):
    for _ in range(n):
        raw.send(b"\xff" * 6 + macs[1] + struct.pack(">HHHBBH6s4s6s4s", 0x0806, 1, 0x0800, 6, 4, 1, macs[1], bytes(4), bytes(6), bytes(4)))
    return n


def blind(n=4000):
    """An outsider that never saw a frame of the pair: a RESET needs the session, one of 2^32, and then the flow's sequence."""
    for _ in range(n):
        put(0, frame("RESET", b"", 0, 1, 0, 1, 2, session=draw.getrandbits(32), seq=draw.getrandbits(32)))
    return n


# ---------------------------------------------------------------------- attacks with what was seen

def resend(frames, to, most=1500):
    frames = frames[:most]
    for f in frames:
        put(to, f.pm)
    return len(frames)


def replay(n=1500):
    """What node 1 has just sent, again."""
    wait_for_frames(1)
    return resend(newest(1, count=n), 0)


def replay_old():
    return resend([f for f in reversed(old) if f.src == 1 and f.dst == 0 and f.type != TYPE["KEYS"]], 0)


def reflect(n=500):
    """What node 0 sends, back to it: as it is, and with the nodes exchanged."""
    wait_for_frames(0)
    frames = newest(0, count=n)
    for f in frames:
        put(0, f.pm)
        put(0, f.with_(src=1, dst=0, src_ctx=f.dst_ctx, dst_ctx=f.src_ctx))
    return 2 * len(frames)


def spoof(n=300):
    """The same frames and random ones by the MAC address of the peer, of the node, of all."""
    wait_for_frames(1)
    sent = 0
    for f in newest(1, count=n):
        for by in (macs[0], macs[1], own_mac):
            put(0, f.with_(seq=draw.getrandbits(32)), by)
            sent += 1
    return sent


def lie(**lies):
    """Frames of the peer's as it sends them, with later counts and other fields."""
    wait_for_frames(1)
    sent = 0
    for f in newest(1, count=300):
        fields = {k: v() for k, v in lies.items()}
        put(0, f.with_(crc=f.crc + 3 + draw.randrange(5000) & 0xFFFFFFFF if mode != "off" else 0, **fields))
        sent += 1
    return sent


def lying_ack():
    return lie(type=lambda: 2, flags=lambda: F["ACK"], ack=lambda: draw.getrandbits(32), credit=lambda: 1000)


def lying_credit():
    return lie(credit=lambda: draw.choice((0, 0xFFFF)))


def lying_echo():
    return lie(flags=lambda: F["ACK"] | F["ECHO"], echo=lambda: draw.getrandbits(32))


def lying_share():
    return lie(share=lambda: draw.choice((1, 0xFFFF)))


def lying_hole():
    return lie(type=lambda: 3, flags=lambda: F["ACK"])


def cut():
    """Sealed frames cut, extended, with another index, another count, another lane."""
    wait_for_frames(1)
    sent = 0
    for f in newest(1, count=200):
        later = f.crc + 9000 & 0xFFFFFFFF
        for pm in (f.pm[:-1], f.pm[:51], f.pm[:50], f.pm[:69], f.pm[:70], f.pm + b"\0", f.pm + bytes(700), f.with_(session=f.session ^ 16),
                   f.with_(session=f.session ^ 1), f.with_(session=f.session | 15), f.with_(crc=later), f.with_(crc=f.crc ^ 0x80000000),
                   f.with_(crc=0), f.with_(crc=later, len=0xFFFF), f.with_(crc=later, rest=f.rest[:-TRAILER]),
                   f.with_(crc=later, dst_ctx=0xFFFF), f.with_(crc=later, type=TYPE["KEYS"])):
            put(0, pm)
            sent += 1
    return sent


def flip(n=3000):
    """A bit or two changed anywhere in what the peer has sent."""
    wait_for_frames(1)
    frames = newest(1, count=500)
    for _ in range(n):
        pm = bytearray(draw.choice(frames).pm)
        for _ in range(draw.choice((1, 2))):
            pm[draw.randrange(len(pm))] ^= 1 << draw.randrange(8)
        put(0, bytes(pm))
    return n


def nobody():
    """What the peer sends, in the name of others."""
    wait_for_frames(1)
    sent = 0
    for f in newest(1, count=100):
        for src in (0, 5, 40, 63, 64, 65534, NOBODY):
            put(0, f.with_(src=src, crc=f.crc + 9000 & 0xFFFFFFFF))
            sent += 1
    return sent


def guess(n=3000):
    """Keys: the right index, and a tag that is one of 2^128; an index, one of 2^28 for each lane."""
    wait_for_frames(1)
    f = newest(1)[0]
    for i in range(n):
        put(0, f.with_(crc=f.crc + 1 + i & 0xFFFFFFFF, rest=f.rest[:-16] + random_bytes(16),
                       session=f.session if i % 2 else draw.getrandbits(32)))
    return n


# ---------------------------------------------------------------------- attacks on handshakes

def init_wrong_key(n=12):
    """INITs as who has another key can make them, one a 60 ms: each is opened, judged and refused."""
    public = public_of(0)
    for _ in range(n):
        put(0, keys(init(public, 1, 0, good=True)))
        time.sleep(0.06)
    return n


def init_replay():
    """The INITs and ANSWERs of these lives, again, at a rate at which they are opened."""
    sent = 0
    for f in between(handshakes(INIT) + handshakes(ANSWER))[-8:]:
        for _ in range(3):
            put(f.dst, f.pm)
            sent += 1
            time.sleep(0.06)
    return sent


def init_replay_old():
    sent = 0
    for f in between(handshakes(INIT, old) + handshakes(ANSWER, old) + handshakes(TELL, old))[-20:]:
        put(f.dst, f.pm)
        sent += 1
        time.sleep(0.06)
    return sent


def forged_answers(n=1500):
    """ANSWER, COOKIE and TELL that nobody has asked for, with MAC1 where it is needed."""
    publics = [public_of(i) for i in (0, 1)]
    made = [keys(answer(publics[i], draw.getrandbits(32)), 1 - i, i) for i in (0, 1) for _ in range(40)]
    for i in range(n):
        put(0, made[draw.randrange(40)])
        put(0, keys(head(COOKIE) + random_bytes(24)))
        put(1, keys((head(TELL) + random_bytes(8 + 32 + CERTIFICATE)).ljust(SIZE[TELL], b"\0"), 0, 1))
    return 3 * n


def ask_flood(n=6000):
    for i in range(n):
        put(0, keys((head(ASK) + random_bytes(8)).ljust(SIZE[ASK], b"\0"), 1 if i % 2 else ABSENT[i % len(ABSENT)], 0))
    return n


def init_flood(n=6000):
    """INITs with right MAC1 in the names of all nodes."""
    public = public_of(0)
    made = [keys(init(public, src, 0), src, 0) for src in (1, *ABSENT) for _ in range(4)]
    for i in range(n):
        put(0, made[i % len(made)])
    return n


def unsealed_hello(n=200):
    """HELLO without a seal in the peer's name, one a 5 ms: keys that are there must stay."""
    for i in range(n):
        put(i % 2, hello(1 - i % 2, i % 2, F["ASK"]))
        time.sleep(0.005)
    return n


def mangled(n=2000):
    """Messages of all steps, cut, extended, with changed bits, of other versions and steps."""
    publics = [public_of(i) for i in (0, 1)]
    known = [f.rest for f in handshakes(INIT) + handshakes(ANSWER) + handshakes(TELL)] + [
        init(publics[0], 1, 0), answer(publics[0], draw.getrandbits(32)), head(COOKIE) + random_bytes(24),
        (head(ASK) + random_bytes(8)).ljust(SIZE[ASK], b"\0"), (head(TELL) + random_bytes(40)).ljust(SIZE[TELL], b"\0")]
    for _ in range(n):
        message = bytearray(draw.choice(known))
        how = draw.randrange(4)
        if how == 0:
            message = message[:draw.randrange(len(message))]
        elif how == 1:
            message += random_bytes(draw.randrange(1, 600))
        elif how == 2:
            message[draw.randrange(2)] = draw.getrandbits(8)
        for _ in range(draw.randrange(1, 4)):
            if message:
                message[draw.randrange(len(message))] ^= 1 << draw.randrange(8)
        pm = frame("KEYS", bytes(message), draw.choice((0, 0, 0, 64)), 1, draw.choice((0, 0, 0, 1, 5)), 0, 0)
        put(0, pm if draw.randrange(4) else pm[:draw.randrange(20, len(pm))].ljust(50, b"\0"))
    return n


# ---------------------------------------------------------------------- attacks that succeed with mode = off

def seen_reset(n=200):
    """RESET of the flow as its receiver says it, with session and sequence as they were seen."""
    sent = 0
    for _ in range(n):
        if not wait_for_frames(0, 1):
            break
        f = newest(0, "DATA")[0]
        for ahead in range(8):
            put(0, frame("RESET", b"", 0, 1, 0, f.dst_ctx, f.src_ctx, session=f.session, seq=f.seq + ahead & 0xFFFFFFFF))
        sent += 8
    return sent


def seen_data(n=200):
    """The peer's next frame, before it sends it: bytes of the attacker's reach the context."""
    sent = 0
    for _ in range(n):
        if not wait_for_frames(1, 1):
            break
        f = newest(1, "DATA")[0]
        for ahead in range(1, 9):
            put(0, f.with_(seq=f.seq + ahead & 0xFFFFFFFF, flags=0, msg_len=6, frag_off=0, len=6, rest=b"forged"))
        sent += 8
    return sent


def seen_nack(n=60):
    """Nacks of what was not lost: it is sent again."""
    sent = 0
    for _ in range(n):
        if not wait_for_frames(0, 3):
            break
        f = newest(0, "DATA")[0]
        put(0, frame("NACK", b"\xff" * 8, F["ACK"], 1, 0, f.dst_ctx, f.src_ctx, session=f.session, ack=f.seq, credit=500))
        sent += 1
    return sent


# ---------------------------------------------------------------------- cases

# name: (attack, counters of node 0 one of which must rise by nearly as much as was sent; None: none needs to)
DROPS = ("drop_unsealed", "drop_key", "drop_auth", "drop_replay", "drop_handshake", "cookies")
SEALED = {
    "forge": (forge, DROPS), "hello_flood": (hello_flood, None), "announce": (announce, None), "group": (group, ("drop_key",)),
    "multi": (multi, ("drop_unsealed",)), "link": (link, ("drop_key",)), "half": (half, ("drop_key",)), "drain": (drain, ("drop_key",)),
    "offers": (offers, ("drop_key",)), "arp": (arp, ("drop_foreign",)), "blind": (blind, ("drop_key",)), "replay": (replay, DROPS),
    "replay_old": (replay_old, DROPS), "reflect": (reflect, DROPS), "spoof": (spoof, DROPS), "lying_ack": (lying_ack, DROPS),
    "lying_credit": (lying_credit, DROPS), "lying_echo": (lying_echo, DROPS), "lying_share": (lying_share, DROPS),
    "lying_hole": (lying_hole, DROPS), "cut": (cut, DROPS + ("drop_short",)), "flip": (flip, DROPS), "nobody": (nobody, DROPS),
    "guess": (guess, DROPS), "init_wrong_key": (init_wrong_key, None), "init_replay": (init_replay, None),
    "init_replay_old": (init_replay_old, None), "forged_answers": (forged_answers, None), "ask_flood": (ask_flood, None),
    "init_flood": (init_flood, None), "unsealed_hello": (unsealed_hello, None), "mangled": (mangled, None),
}
# name: (attack, what it is expected to come to: "" nothing, "flow" the traffic ends with an error, or a counter that rises)
OFF = {
    "blind": (blind, ""), "forge": (forge, ""), "hello_flood": (hello_flood, ""), "group": (group, ""), "multi": (multi, ""),
    "link": (link, ""), "half": (half, ""), "drain": (drain, ""), "offers": (offers, ""), "arp": (arp, ""), "replay": (replay, ""),
    "replay_old": (replay_old, ""),
    # The session is the same from both ends, and stands in every frame: what is reflected is taken for the peer's and is as far as
    # the sequence, which may fit.
    "seen_nack": (seen_nack, "proto_rx_nacks"), "reflect": (reflect, "drop_old"), "seen_data": (seen_data, "flow"),
    "seen_reset": (seen_reset, "flow"),
}


def rose(before, after):
    """What of it says something about the attack."""
    usual = ("polls", "idle_polls", "sleeps", "wakeups", "submissions", "contexts_opened", "rx_frames", "flows")
    traffic = ("proto_rx_frames", "proto_rx_accepted", "proto_tx_frames", "proto_tx_data", "proto_messages_sent",
               "proto_messages_delivered", "proto_tx_acks", "proto_rx_acks")
    return {k: v - before.get(k, 0) for k, v in after.items() if v != before.get(k, 0) and k not in usual + traffic}


def run(name, attack):
    before = [counters(0), counters(1)]
    hear()
    traffic = Traffic(0.5)
    begun = time.monotonic()
    sent = attack()
    took = time.monotonic() - begun
    late = max(0.0, traffic.end - time.monotonic())
    if attack in (seen_reset, seen_data, reflect):
        late = 0
    time.sleep(late)
    lost = traffic.lost()
    after = [counters(0), counters(1)]
    if None in after:
        return sent, took, lost, None, None
    return sent, took, lost, [rose(b, a) for b, a in zip(before, after)], after


def judge_sealed(name):
    attack, wanted = SEALED[name]
    tells = len(handshakes(TELL, src=0))
    sent, took, lost, gains, after = run(name, attack)
    wrong, note = [], f"{sent} frames in {took:.2f} s"
    if gains is None:
        wrong.append("a node is not there any more")
        gains = [{}, {}]
    else:
        if lost:
            wrong.append("the good nodes lost " + lost)
        for i in (0, 1):
            for what in ("contexts_died", "proto_messages_failed", "proto_peer_restarts", "proto_peer_deaths", "proto_messages_aborted"):
                if gains[i].get(what, 0) > 0:
                    wrong.append(f"{what} of node {i} rose by {gains[i][what]}")
            if after[i]["flows"] > 4:
                wrong.append(f"node {i} holds {after[i]['flows']} flows")
            if gains[i].get("keys_begun", 0) > 1:
                wrong.append(f"node {i} agreed on keys {gains[i]['keys_begun']} times: who has no key made it do so")
        dropped = sum(gains[0].get(w, 0) for w in wanted or ())
        if sent == 0 or (wanted and dropped < 0.8 * sent):
            wrong.append(f"{sent} frames were sent, and {dropped} dropped as they should be")
        if name == "ask_flood":
            answers = len(handshakes(TELL, src=0)) - tells
            note += f", {answers} answers"
            if answers > 20000 * took + 1:
                wrong.append(f"{answers} answers")
        if name == "init_flood" and gains[0].get("cookies", 0) == 0:
            wrong.append("no cookie was demanded")
    say(f"{mode}_{name}", wrong, note, gains, lost)


def judge_off(name):
    attack, expected = OFF[name]
    sent, took, lost, gains, after = run(name, attack)
    if lost:
        Traffic(0.1).lost()  # which notices what is left of that
    wrong = []
    note = f"{sent} frames in {took:.2f} s"
    if gains is None:
        wrong.append("a node is not there any more")
        gains = [{}, {}]
    elif expected == "flow":
        note = "EXPECTED TO SUCCEED, and did: " * bool(lost) + note
        if not lost:
            wrong.append("it was expected to end the flow")
    elif expected:
        note = "EXPECTED TO SUCCEED, and did: " * (gains[0].get(expected, 0) > 0) + note
        if gains[0].get(expected, 0) == 0:
            wrong.append(f"{expected} was expected to rise")
    elif lost:
        wrong.append("the good nodes lost " + lost)
    if name == "blind" and gains[0]:
        got = gains[0].get("drop_session", 0)
        if got < 0.8 * sent:
            wrong.append(f"{got} of {sent} frames were of a wrong session")
        note += f"; {got} wrong sessions of 2^32, so {2 ** 31 / (sent / took) / 3600:.0f} hours at this rate for one, and then a sequence"
    say(f"{mode}_{name}", wrong, note, gains, lost)


def say(name, wrong, note, gains, lost):
    print(f"not ok attack__{name} {'; '.join(wrong)}" if wrong else f"ok attack__{name}")
    print(f"# {note}; lost: {lost or 'nothing'}")
    for i, g in enumerate(gains):
        if g:
            print(f"# node {i}: " + ", ".join(f"{k} +{v}" for k, v in g.items()))
    sys.stdout.flush()


# ---------------------------------------------------------------------- floods beside a measurement

def flood(name, seconds):
    """As fast as one process can: frames that are made before. `idle` sends to nobody's port."""
    made, where = [], raw
    if name.startswith("init"):
        publics = [public_of(i) for i in (0, 1)]
        made = [(i, keys(init(publics[i], src, i), src, i)) for i in (0, 1) for src in ((1 - i,) * len(ABSENT) + tuple(ABSENT)) * 2
                if publics[i]]
        made += [(i, keys(head(COOKIE) + random_bytes(24), 1 - i, i)) for i in (0, 1) for _ in range(40)]
        made += [(i, keys((head(ASK) + random_bytes(8)).ljust(SIZE[ASK], b"\0"), 1 - i, i)) for i in (0, 1) for _ in range(40)]
        made += [(i, keys(answer(publics[i], draw.getrandbits(32)), 1 - i, i)) for i in (0, 1) for _ in range(20) if publics[i]]
    else:
        frames = newest(1, count=200) or [Frame(bytes(14) + frame("DATA", random_bytes(64), session=7))]
        made = [(0, f.with_(crc=f.crc + 5000 & 0xFFFFFFFF)) for f in frames]
        made += [(0, frame("DATA", random_bytes(64), session=draw.getrandbits(32), seq=draw.getrandbits(32))) for _ in range(200)]
        made += [(0, hello(draw.choice((1, 5)), 0, F["ASK"])) for _ in range(200)]
    draw.shuffle(made)
    if name == "idle":
        where = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        where.bind(("idle0", 0))
    packets = [macs[to] + macs[1 - to] + struct.pack(">H", ETHERTYPE) + pm for to, pm in made]
    print(f"# ready with {len(packets)} frames" + (", publics of both" if name == "init" and all(publics) else ""), flush=True)
    sent, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for p in packets:
            try:
                where.send(p)
            except OSError:
                pass
        sent += len(packets)
    print(f"# {name}: {sent / seconds:.0f} frames a second", flush=True)


def race(seconds):
    """Answer each question of a handshake before who is asked does: COOKIE and TELL that name it, ANSWERs that cannot be opened, and
    send what the nodes say again at once."""
    publics = [public_of(i) for i in (0, 1)]
    made = [answer(p, 0) for p in publics if p]
    print("# ready to race" + ("" if len(made) == 2 else " without MAC1"), flush=True)
    hear()
    end, sent = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        for f in hear(0.0005):
            if f.type != TYPE["KEYS"] or f.session != 0 or f.src > 1 or f.dst > 1:
                continue
            if f.rest[0] == INIT:
                mac1 = f.rest[-16:-8]
                for _ in range(4):
                    put(f.src, keys(head(COOKIE) + mac1 + random_bytes(16), f.dst, f.src))
                if publics[f.src]:
                    for _ in range(4):
                        put(f.src, keys(answer(publics[f.src], struct.unpack_from(">I", f.rest, 4)[0]), f.dst, f.src))
                sent += 8
            elif f.rest[0] == ASK:
                put(f.src, keys((head(TELL) + f.rest[8:16] + random_bytes(32)).ljust(SIZE[TELL], b"\0"), f.dst, f.src))
                sent += 1
            put(f.dst, f.pm)
    print(f"# race: {sent} forged answers", flush=True)


def main():
    print("# listening", flush=True)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "old":
            hear(0.1)
            old.extend(seen + open_keys)
            seen.clear()
            open_keys.clear()
        elif words[0] == "hear":
            hear()
        elif words[0] == "case":
            for name in words[1:] if words[1:] != ["all"] else (OFF if mode == "off" else SEALED):
                (judge_off if mode == "off" else judge_sealed)(name)
        elif words[0] == "announce":
            announce()
        elif words[0] == "flood":
            hear()
            if os.fork() == 0:
                if words[1] == "race":
                    race(float(words[2]))
                else:
                    flood(words[1], float(words[2]))
                os._exit(0)
            continue
        elif words[0] == "quit":
            break
        print("done", flush=True)


main()
