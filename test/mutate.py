# SPDX-License-Identifier: BSD-3-Clause
#
# The mutator of mutate.sh: which lines may be broken and how, the builds, the tests, the table.
#
# Design notes
# 1. A seed decides all: each folder has its lines in a random order, of each line one mutation. One that does not compile, or to
#    the same objects, is followed by the folder's next, so the n that are judged are the same in every run.
# 2. Test programs are linked when it is their turn. One whose bytes a mutation does not change cannot notice it, and is not run.
# 3. Objects of the unbroken code are kept and put back after each mutation: nothing is compiled twice for it.
# 4. Each suite runs once in a build with gcov's counters, which say what it reaches: one that does not reach a line cannot notice
#    that it is broken. Where gcov counts nothing, as of a constant's line, all suites run. What a process that was killed had
#    reached is not counted: a mutation that its code alone would notice is said to survive.
import argparse
import concurrent.futures
import hashlib
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FOLDERS = ['lib/core/proto', 'lib/core/lhs', 'lib/match', 'lib/rma', 'lib/channel', 'lib/engine', 'lib/preempt/engine', 'lib/group/engine', 'lib/coll/engine']
LEAST = 15  # of each folder, of 300
MEMORY = 8 << 30  # private memory of a test, most
JUDGED = ('killed', 'by time', 'survived')

LOSSY = 'loss=5%,reorder=5%,duplicate=2%,seed=3'
SMALL = 'requests = 2\nsend_buffers = 4\nevents = 1\ntransfers = 3\ntransfer_frames = 16\nregions = 16'
# a primary without hugepages, two thin clients with all verbs
THIN = r"""
d=$(mktemp -d) && export RUNTIME_DIRECTORY=$d && cd "$d" || exit 2
printf '[node]\nid = 0\nname = mutate%s\n[link 0]\ndriver = loop\nport = m\n[limits]\ncontexts = 16\nmbufs = 8192\n[access]\nsocket = %s/sock\n[nodes]\n0 = auto\n' "$1" "$d" >ini
"$0/app/pmx-dpdk" --no-pci --no-huge -m 256 -l 0 -- ini &
daemon=$!
trap 'kill -9 $(jobs -p); rm -rf "$d" /run/pmx-dpdk/mutate$1.pid' EXIT
trap 'exit 1' TERM
for i in {1..100}; do [ -S sock ] && break; sleep 0.05; done
"$0/test/thin" serve "$d/sock" 1 >serving &
server=$!
for i in {1..100}; do [ -s serving ] && break; sleep 0.05; done
"$0/test/thin" verbs "$d/sock" 2 0:1 && wait $server && kill -TERM $daemon && wait $daemon
"""
# a fuzz target with its corpus and changed inputs
FUZZED = 'd=$(mktemp -d) && trap "rm -rf $d" EXIT && tar -C "$d" -xzf "$1/test/fuzz/corpus/$2.tar.gz" && cd "$d" && "$0/test/fuzzed_$2" "$d" "$3" 1'
# libpmx, and what it opens for secondaries, by their names in a build
VERSION = re.search(r"\bversion: '([\d.]+)'", open(os.path.join(ROOT, 'meson.build')).read()).group(1)
LIBRARY, DPDK_PART = 'lib/libpmx.so.' + VERSION, 'lib/libpmx-dpdk.so.' + VERSION
# system tests: the script, and the programs that it runs beside pmx-dpdk
SCRIPTS = {
    'refused': ['app/pmx-ctl', 'test/thin'],
    'thin.sh': ['app/pmx-ctl', 'test/spy', 'test/thin', DPDK_PART],
    'peer_death': ['app/pmx-ctl', 'app/pmx-perf'],
    'sleepers': ['app/pmx-ctl', 'test/sleepers'],
    'secondaries': ['app/pmx-ctl', 'test/secondaries'],
    'restart': ['app/pmx-ctl', 'app/pmx-exporter', 'test/restart', 'test/secondaries', 'test/thin', DPDK_PART],
    'rails': ['app/pmx-ctl', 'test/rails'],
    'links': ['app/pmx-perf', 'test/net_ring'],
    'preempt': ['app/pmx-ctl', 'test/preempt', 'test/sleepers', 'test/stopped'],
    'park': ['app/pmx-ctl', 'app/pmx-gang', 'test/preempt', 'test/stopped'],
    'pins': ['app/pmx-ctl', 'test/pins'],
    'fork': ['test/fork', 'test/descriptors', 'test/unload', LIBRARY, DPDK_PART],
    'groups': ['app/pmx-ctl', 'test/groups'],
    'multicast': ['app/pmx-ctl', 'test/groups'],
    'encap': ['app/pmx-ctl', 'app/pmx-perf'],
    'ctl': ['app/pmx-ctl'],
    'pairs': ['app/pmx-ctl', 'test/pairs'],
    'coll': ['app/pmx-ctl', 'test/coll_worker'],
    'remote': ['app/pmx-ctl', 'test/remote'],
    'hostile': ['app/pmx-ctl', 'test/hostile'],
    'seal': ['app/pmx-ctl', 'app/pmx-perf', LIBRARY],
}
# included by each source of the build with gcov's counters, which a process does not write at _exit()
WRITES = '#include <unistd.h>\nextern void __gcov_dump(void);\n#define _exit(code) (__gcov_dump(), _exit(code))\n'
# a network of its own: nobody else's ports
APART = ['unshare', '--net', 'sh', '-c', 'ip link set lo up; exec "$@"', '-'] if os.getuid() == 0 else []
# these go by the clock, which a busy machine stops: they must fail twice
CLOCKED = ('torture', 'thin', 'lives', *SCRIPTS)
LIVES = ['waiting_messages_are_not_lost', 'clients_die_in_a_take_over', 'status_words_are_set', 'primaries_that_sleep_follow_each_other',
         'several_lanes_are_not_taken_over', 'heirs_that_do_not_wait_get_nothing', 'regions_and_room_stay_what_they_are']
# name, programs that it is about, command; the quickest and most telling first. BUILD, PORT, SRC are replaced
SUITES = [(name, [program], ['BUILD/' + program] + arguments) for name, program, arguments in [
    ('test_wire', 'test/test_wire', []),
    ('test_lhs', 'test/test_lhs', []),
    ('test_slot_ring', 'test/test_slot_ring', []),
    ('test_channel', 'test/test_channel', []),
    ('test_image', 'test/test_image', []),
    ('test_region', 'test/test_region', []),
    ('test_rma', 'test/test_rma', []),
    ('test_config', 'test/test_config', []),
    ('test_proto', 'test/test_proto', []),
    ('test_proto_receive', 'test/test_proto_receive', []),
    ('test_proto_lives', 'test/test_proto_lives', []),
    ('test_proto_send', 'test/test_proto_send', []),
    ('test_proto_contexts', 'test/test_proto_contexts', []),
    ('test_proto_peers', 'test/test_proto_peers', []),
    ('test_proto_now', 'test/test_proto_now', []),
    ('test_proto_preempt', 'test/test_proto_preempt', []),
    ('test_proto_preempt_held', 'test/test_proto_preempt_held', []),
    ('test_proto_preempt_parked', 'test/test_proto_preempt_parked', []),
    ('test_proto_links', 'test/test_proto_links', []),
    ('test_group', 'test/test_group', []),
    ('test_group_histories', 'test/test_group_histories', []),
    ('test_rails', 'test/test_rails', []),
    ('test_part', 'test/test_part', []),
    ('test_pin_cache', 'test/test_pin_cache', []),
    ('test_embedded', 'test/test_embedded', []),
    ('test_embedded_memory', 'test/test_embedded_memory', []),
    ('test_embedded_offers', 'test/test_embedded_offers', []),
    ('test_embedded_ended', 'test/test_embedded_ended', []),
    ('test_embedded_sends', 'test/test_embedded_sends', []),
    ('test_embedded_turns', 'test/test_embedded_turns', []),
    ('test_service', 'test/test_service', []),
    ('test_virtual', 'test/test_virtual', []),
    ('test_pair', 'test/test_pair', []),
    ('test_script', 'test/test_script', []),
    ('soak', 'test/soak', ['--messages', '2000']),
    ('matching client', 'test/matching', ['--operations', '1000', '--matching', 'client', '--fault', LOSSY]),
    ('matching engine', 'test/matching', ['--operations', '1000', '--matching', 'engine', '--fault', LOSSY]),
    ('transfers', 'test/transfers', ['--transfers', '600']),
    ('test_link', 'test/test_link', []),
    ('test_link_fault', 'test/test_link_fault', []),
    ('test_link_udp', 'test/test_link_udp', []),
    ('transfers, small', 'test/transfers', ['--transfers', '300', '--fault', LOSSY, '--limits', SMALL]),
    ('transfers, device', 'test/transfers', ['--transfers', '300', '--device', '--link', 'mtu=9000']),
    ('transfers, dma', 'test/transfers', ['--transfers', '300', '--dma', '--link', 'mtu=9000']),
    ('bad_input sends', 'test/bad_input', ['sends', 'PORT', '2000']),
    ('bad_input client', 'test/bad_input', ['client', 'PORT', '2000']),
    ('bad_input frames', 'test/bad_input', ['frames', 'PORT', '2000']),
    ('test_match', 'test/test_match', []),
    ('torture', 'test/torture', ['1']),
    ('test_links', 'test/test_links', []),
    ('test_embedded_immediate', 'test/test_embedded_immediate', []),
    ('test_embedded_coll', 'test/test_embedded_coll', []),
    ('test_embedded_coll_plans', 'test/test_embedded_coll_plans', []),
    ('test_embedded_atomic', 'test/test_embedded_atomic', []),
    ('test_embedded_inline', 'test/test_embedded_inline', []),
    ('test_embedded_preempt', 'test/test_embedded_preempt', []),
    ('test_embedded_group', 'test/test_embedded_group', []),
    ('test_embedded_group_multicast', 'test/test_embedded_group_multicast', []),
    ('test_embedded_group_regions', 'test/test_embedded_group_regions', []),
]] + [
    ('fuzzed ' + name, ['test/fuzzed_' + name], ['bash', '-c', FUZZED, 'BUILD', 'SRC', name, count])
    for name, count in [('wire', '20000'), ('rma', '20000'), ('proto', '3000'), ('channel', '300'), ('transfer', '300')]
] + [
    ('thin', ['app/pmx-dpdk', 'test/thin'], ['bash', '-c', THIN, 'BUILD', 'PORT']),
    ('lives', ['app/pmx-dpdk', 'test/lives'], ['bash', 'SRC/test/system/lives.sh', 'BUILD'] + LIVES),
] + [(name, [program], ['BUILD/' + program] + arguments) for name, program, arguments in [
    ('test_sim', 'test/test_sim', []),
    ('fuzz', 'app/pmx-sim', ['fuzz', '--quiet', '--seeds', '400']),
    ('fuzz preempt', 'app/pmx-sim', ['fuzz', '--quiet', '--preempt', '--seeds', '400']),
    ('test_proto_random', 'test/test_proto_random', []),
    ('matched_cases', 'test/matched_cases', []),
    ('fuzz matching', 'app/pmx-sim', ['fuzz', '--quiet', '--matching', '--seeds', '400']),
    ('fuzz transfers', 'app/pmx-sim', ['fuzz', '--quiet', '--transfers', '--seeds', '400']),
]] + [
    (name, ['app/pmx-dpdk'] + programs, ['bash', 'SRC/test/system/%s.sh' % name.removesuffix('.sh'), 'BUILD'])
    for name, programs in SCRIPTS.items()
]

# ------------------------------------------------------------------ which mutations there are


def blanked(text):
    """Comments become spaces and the insides of strings underlines: positions stay."""
    def blank(m):
        fill = ' ' if m.group(0)[0] == '/' else '_'
        inner = re.sub(r'[^\n]', fill, m.group(0))
        return inner if fill == ' ' else m.group(0)[0] + inner[1:-1] + m.group(0)[-1]
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


# what only tells: logging, texts, assertions, prefetching, names of threads
TELLS = re.compile(r'\s*(\(void\)|if \(0\))?\s*(RTE_LOG|rte_log|fprintf|printf|snprintf|complain|assert|PROTO_ASSERT|_Static_assert|'
                   r'rte_prefetch\w*|__builtin_prefetch|rte_tel_\w+|pthread_setname_np|rte_thread_setname)\b')
DECLARES = re.compile(r'\s*(static |const |struct |enum |union |unsigned |u?int\w* |_Atomic|char |bool |void |size_t |double |'
                      r'\w+_t |rte_\w+_t |typedef |extern |volatile |case |default:|goto |break;|else\b|do\b)')
SWAPS = [(' <= ', ' < '), (' < ', ' <= '), (' >= ', ' > '), (' > ', ' >= '), (' == ', ' != '), (' != ', ' == '), (' + ', ' - '),
         (' - ', ' + '), (' && ', ' || '), (' || ', ' && '), (' & ', ' | '), (' | ', ' & '), (' << ', ' >> '), (' >> ', ' << '),
         (' += ', ' -= '), (' -= ', ' += '), (' |= ', ' &= '), (' &= ', ' |= '), ('++', '--'), ('--', '++')]


def closing(line, at):
    depth = 0
    for i in range(at, len(line)):
        depth += (line[i] == '(') - (line[i] == ')')
        if depth == 0:
            return i
    return -1


def mutations_of(line, code, whole):
    """[(kind, new line)] of one line; code: the line blanked; whole: it is a statement by itself."""
    out = []

    def put(kind, begin, end, new):
        if code[begin:end] != new:
            out.append((kind, line[:begin] + new + line[end:]))

    for old, new in SWAPS:
        for m in re.finditer(re.escape(old), code):
            put('operator', m.start(), m.end(), new)
    for m in re.finditer(r'(?<![\w.])(\d+)([uUlL]*)\b(?!\.)', code):
        if re.match(r'\s*case ', code):
            break
        value = int(m.group(1), 8 if re.match(r'0\d', m.group(1)) else 10)
        for new in {1} if value == 0 else {value - 1, value + 1}:
            put('constant', m.start(), m.end(), '%d%s' % (new, m.group(2)))
    for m in re.finditer(r'\b(true|false)\b', code):
        put('constant', m.start(), m.end(), 'false' if m.group(1) == 'true' else 'true')
    m = re.search(r'\b(if|while) (\()', code)
    if m and not re.match(r'\s*} while', code):
        begin, end = m.start(2), closing(code, m.start(2))
        if end > 0:
            inner = line[begin:end + 1]
            put('condition', begin, end + 1, '(!%s)' % inner if m.group(1) == 'if' else '(%s && 0)' % inner)
            put('condition', begin, end + 1, '(%s && 0)' % inner)
            if m.group(1) == 'if':
                put('condition', begin, end + 1, '(%s || 1)' % inner)
    if whole:
        indent = re.match(r'\s*', line).group(0)
        m = re.match(r'\s*return (.*);$', code.rstrip())
        if m and m.group(1) not in ('0', 'true', 'false'):
            out.append(('return', indent + ('return 1;' if m.group(1) == '1' else 'return 0;')))
        elif code.strip() == 'return;' or not m and not DECLARES.match(code):
            out.append(('statement', indent + '(void)0;'))
    return out


def candidates(path):
    """[(line number, old, [(kind, new)])] of a file."""
    text = open(os.path.join(ROOT, path)).read()
    lines, code = text.split('\n'), blanked(text).split('\n')
    inside = directive = False
    tells = False  # the statement that we are in
    begins = True  # a statement
    out = []
    for number, (line, c) in enumerate(zip(lines, code), 1):
        stripped = c.strip()
        if directive or stripped.startswith('#'):
            directive = c.endswith('\\')
            continue
        if c == '{':
            inside = begins = True
            continue
        if c.startswith('}'):
            inside = False
            continue
        if not inside or not stripped:
            continue
        if begins:
            tells = bool(TELLS.match(c))
        found = [] if tells else mutations_of(line, c, begins and stripped.endswith(';') and '{' not in stripped)
        if found:
            out.append((number, line, found))
        # the line after the condition of an if, a for or a while begins a statement too
        head = re.match(r'\s*(} )?(else )?(if|for|while) \(', c)
        begins = stripped[-1] in ';{}:' or stripped in ('else', 'do', '} else') or \
            bool(head and closing(c, c.index('(')) == len(c.rstrip()) - 1)
    return out


def plan(files, seed):
    """folder: its mutations in the seed's order, and how many lines could be broken"""
    folders = {}
    for path in files:
        folder = next((f for f in FOLDERS if path.startswith(f + '/')), os.path.dirname(path))
        folders.setdefault(folder, []).extend((path,) + c for c in candidates(path))
    for folder, lines in folders.items():
        r = random.Random('%s/%s' % (seed, folder))
        r.shuffle(lines)
        folders[folder] = [(path, number, old) + r.choice(found) for path, number, old, found in lines]
    return folders


def quotas(folders, n):
    least = max(1, LEAST * n // 300)
    total = sum(map(len, folders.values()))
    quota = {f: min(len(m), max(least, n * len(m) // total)) for f, m in folders.items()}
    while sum(quota.values()) != n:
        step = 1 if sum(quota.values()) < n else -1
        able = [f for f in quota if (quota[f] < len(folders[f]) if step > 0 else quota[f] > 1)]
        if not able:
            break
        quota[max(able, key=lambda f: quota[f])] += step
    return quota


# ------------------------------------------------------------------ building and testing


def digest(path):
    return hashlib.sha256(open(path, 'rb').read()).digest()


class Tree:
    """A copy of the tree with a build directory, unbroken between two mutations."""

    def __init__(self, top, number):
        self.port = 20000 + os.getpid() % 20000 + 100 * number
        self.src, self.build, self.kept = top + '/src', top + '/build', top + '/kept'
        self.top = top
        names = subprocess.check_output(['git', '-C', ROOT, 'ls-files', '-z', '--cached', '--others', '--exclude-standard'])
        for name in sorted(set(filter(None, names.decode().split('\0')))):
            if os.path.isfile(os.path.join(ROOT, name)):
                os.makedirs(os.path.dirname(os.path.join(self.src, name)), exist_ok=True)
                shutil.copy2(os.path.join(ROOT, name), os.path.join(self.src, name))
        self.run(['meson', 'setup', self.build, self.src, '-Dwerror=false'])
        known = self.run(['ninja', '-C', self.build, '-t', 'targets', 'all'])
        self.suites = [s for s in SUITES if all('\n%s:' % p in known for p in s[1])]
        self.programs = sorted({p for s in self.suites for p in s[1]})
        self.run(['ninja', '-C', self.build] + self.programs)
        self.objects = sorted(os.path.relpath(os.path.join(d, f), self.build)
                              for d, _, fs in os.walk(self.build) for f in fs if f.endswith('.o'))
        self.sound = {}
        for o in self.objects:
            kept = os.path.join(self.kept, o)
            os.makedirs(os.path.dirname(kept), exist_ok=True)
            shutil.copy2(os.path.join(self.build, o), kept)
            self.sound[o] = digest(kept)
        self.stamps = {o: os.stat(os.path.join(self.build, o)).st_mtime_ns for o in self.objects}
        self.sound_programs = {p: digest(os.path.join(self.build, p)) for p in self.programs}
        self.seconds = {}

    def run(self, command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=dict(os.environ, LC_ALL='C'))
        if done.returncode != 0:
            sys.exit('mutate: %s:\n%s' % (' '.join(command[:4]), done.stdout[-3000:]))
        return done.stdout

    def ninja(self, targets):
        return subprocess.run(['ninja', '-C', self.build] + targets, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              env=dict(os.environ, CCACHE_DISABLE='1')).returncode == 0

    def changed(self):
        """objects that are not the sound code's, by their time and then by their bytes"""
        out = []
        for o in self.objects:
            path = os.path.join(self.build, o)
            if not os.path.exists(path):
                out.append(o)
            elif os.stat(path).st_mtime_ns != self.stamps[o] and digest(path) != self.sound[o]:
                out.append(o)
        return out

    def break_line(self, path, number, new):
        file = os.path.join(self.src, path)
        self.file, self.stat, self.text = file, os.stat(file), open(file).read()
        lines = self.text.split('\n')
        lines[number - 1] = new
        open(file, 'w').write('\n'.join(lines))

    def restore(self):
        open(self.file, 'w').write(self.text)
        os.utime(self.file, ns=(self.stat.st_atime_ns, self.stat.st_mtime_ns))
        for o in self.objects:
            path = os.path.join(self.build, o)
            stat = os.stat(path) if os.path.exists(path) else None
            if stat is not None and stat.st_mtime_ns == self.stamps[o]:
                continue
            shutil.copyfile(os.path.join(self.kept, o), path)
            if stat is not None:
                # ninja holds an object that is younger than its last compilation for outdated: it keeps that one's time, and
                # what it is linked into goes
                os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
                linked = os.path.join(self.build, o.split('.p/')[0])
                if os.path.isfile(linked):
                    os.unlink(linked)
            self.stamps[o] = os.stat(path).st_mtime_ns

    def suite(self, suite, limit, build=None):
        """'passed', 'failed' or 'hung', and the seconds it took"""
        begin = time.monotonic()
        port = self.port + 50 * (build is not None)
        words = [w.replace('BUILD', build or self.build).replace('SRC', self.src).replace('PORT', str(port)) for w in suite[2]]
        child = subprocess.Popen(APART + words, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, cwd=self.top,
                                 preexec_fn=lambda: (resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
                                                     resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))))
        try:
            result = 'passed' if child.wait(limit) == 0 else 'failed'
        except subprocess.TimeoutExpired:
            result = 'hung'
            os.killpg(child.pid, signal.SIGTERM)  # a script ends what it started
            try:
                child.wait(5)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        return result, time.monotonic() - begin

    def first_run(self, say):
        for s in list(self.suites):
            result, seconds = self.suite(s, 120)
            if result != 'passed':
                say('%s fails without any mutation, and is left out' % s[0])
                self.suites.remove(s)
            self.seconds[s[0]] = seconds
            say('  %-20s %5.1f s' % (s[0], seconds))
        say('%d suites, %.1f s' % (len(self.suites), sum(self.seconds[s[0]] for s in self.suites)))

    def reach(self):
        """Learn which suites reach which lines: path: line: their names. In a build of its own: beside the first run."""
        build, header, self.reached = self.top + '/covered', self.top + '/writes.h', {}
        open(header, 'w').write(WRITES)
        self.run(['meson', 'setup', build, self.src, '-Dwerror=false', '-Db_coverage=true', '-Dc_args=-include ' + header])
        self.run(['ninja', '-C', build] + self.programs)
        counted = lambda ending: [os.path.relpath(os.path.join(d, f), build) for d, _, fs in os.walk(build) for f in fs if f.endswith(ending)]
        for s in list(self.suites):
            for counts in counted('.gcda'):
                os.unlink(os.path.join(build, counts))
            passed = self.suite(s, 600, build)[0] == 'passed'
            for line in self.gcov(build, counted('.gcda' if passed else '.gcno')):
                path = os.path.relpath(os.path.join(build, line[0]), self.src)
                names = self.reached.setdefault(path, {}).setdefault(line[1], set())
                if line[2] or not passed:
                    names.add(s[0])

    @staticmethod
    def gcov(build, files):
        """(file, line, count) of each line that is counted"""
        out = subprocess.run(['gcov', '--json-format', '--stdout'] + files, cwd=build, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        for document in out.splitlines():
            for file in json.loads(document)['files']:
                yield from ((file['file'], line['line_number'], line['count']) for line in file['lines'])

    def judge(self, path, number, new, patience):
        """(verdict, who noticed)"""
        end = time.monotonic() + patience
        reaching = self.reached.get(path, {}).get(number)
        self.break_line(path, number, new)
        try:
            # of a header many depend: what they are is compiled when it is their turn
            if path.endswith('.c'):
                if not self.ninja(self.objects):
                    return 'not compiled', None
                if not self.changed():
                    return 'equivalent', None
            reached = {}  # what has been linked so far: is it another one?
            for s in self.suites:
                if reaching is not None and s[0] not in reaching:
                    continue
                missing = [p for p in s[1] if p not in reached]
                if missing and not self.ninja(missing):
                    return 'not compiled', None
                for p in missing:
                    reached[p] = digest(os.path.join(self.build, p)) != self.sound_programs[p]
                if not any(reached[p] for p in s[1]):
                    continue
                if time.monotonic() > end:
                    break
                limit = 4 * self.seconds[s[0]] + 10
                result, _ = self.suite(s, limit)
                if result != 'passed' and s[0] in CLOCKED:
                    result, _ = self.suite(s, limit)
                if result != 'passed':
                    return ('killed' if result == 'failed' else 'by time'), s[0]
            return ('equivalent' if reached and not any(reached.values()) else 'survived'), None
        finally:
            self.restore()


# ------------------------------------------------------------------ the whole


def named(m):
    return {'file': m[0], 'line': m[1], 'kind': m[3], 'old': m[2].strip(), 'new': m[4].strip()}


def what(result):
    """The same for the same mutation of the same code."""
    return tuple(result[k] for k in ('file', 'line', 'kind', 'old', 'new'))


def patch_of(m):
    path, number, old, _, new = m
    return '--- a/%s\n+++ b/%s\n@@ -%d +%d @@\n-%s\n+%s\n' % (path, path, number, number, old, new)


def kept_in(folder):
    """The mutations of the patches that --keep wrote to a folder, by folder of the code, as plan() has them."""
    folders = {}
    for name in sorted(n for n in os.listdir(folder) if n.endswith('.patch')):
        lines = open(os.path.join(folder, name)).read().split('\n')
        path, number, old, new = lines[0][6:], int(re.match(r'@@ -(\d+)', lines[2]).group(1)), lines[3][1:], lines[4][1:]
        if open(os.path.join(ROOT, path)).read().split('\n')[number - 1] != old:
            sys.exit('mutate: %s: line %d of %s is another one by now: use the commit that it was made of' % (name, number, path))
        folders.setdefault(next((f for f in FOLDERS if path.startswith(f + '/')), os.path.dirname(path)), []).append((path, number, old, 'again', new))
    return folders


def table(results):
    verdicts = ['killed', 'by time', 'survived', 'not compiled', 'equivalent']
    rows = [['folder', 'mutations'] + verdicts]
    for f in sorted({r['folder'] for r in results}) + ['all']:
        mine = [r for r in results if f in (r['folder'], 'all')]
        counts = [sum(r['verdict'] == v for r in mine) for v in verdicts]
        rows.append([f, sum(counts[:3])] + counts)
    out = [('%-14s' + ' %12s' * 6) % tuple(r) for r in rows]
    by = {}
    for r in results:
        if r['by']:
            by.setdefault(r['by'], {}).setdefault(r['folder'], 0)
            by[r['by']][r['folder']] += 1
    out += ['', 'noticed by']
    for s in SUITES:
        if s[0] in by:
            out.append('  %-20s %4d  %s' % (s[0], sum(by[s[0]].values()),
                                           ', '.join('%s %d' % (f[4:], n) for f, n in sorted(by[s[0]].items()))))
    return '\n'.join(out)


def main():
    p = argparse.ArgumentParser(usage='test/mutate.sh [--json] [--keep DIR] [--again DIR] [--log FILE] [--jobs J] [--patience S] [--list] [FILE | FOLDER]... [N [SEED]]')
    p.add_argument('--json', action='store_true')
    p.add_argument('--list', action='store_true')
    p.add_argument('--keep')
    p.add_argument('--again')
    p.add_argument('--log')
    p.add_argument('--jobs', type=int, default=1)
    p.add_argument('--patience', type=float, default=float('inf'))
    p.add_argument('words', nargs='*')
    args = p.parse_args()
    paths = [os.path.relpath(os.path.abspath(w), ROOT) for w in args.words if not w.isdigit()]
    numbers = [int(w) for w in args.words if w.isdigit()]
    n, seed = (numbers + [300, 1][len(numbers):])[:2]
    say = lambda *words: print(*words, file=sys.stderr if args.json else sys.stdout, flush=True)
    if len(numbers) > 2:
        p.error('numbers are N and SEED, nothing more')
    for path in paths:
        if not os.path.exists(os.path.join(ROOT, path)):
            p.error('%s does not exist' % path)
    files = subprocess.check_output(['git', '-C', ROOT, 'ls-files', '-z', '--'] + (paths or FOLDERS), text=True).split('\0')
    folders = kept_in(args.again) if args.again else plan([f for f in files if f.endswith(('.c', '.h'))], seed)
    quota = quotas(folders, sum(map(len, folders.values())) if args.again else n)
    if not sum(quota.values()):
        p.error('no line there can be broken')
    if args.list:
        for f in sorted(folders):
            print('\n'.join('%s:%d: %s: %s' % (m[0], m[1], m[3], m[4].strip()) for m in folders[f][:quota[f]]))
        return
    known = {}
    if args.log and os.path.exists(args.log):
        known = {what(r): (r['verdict'], r['by']) for r in map(json.loads, open(args.log))}
    results = []
    want, under_way = dict(quota), dict.fromkeys(quota, 0)
    left = {f: iter(m) for f, m in folders.items()}
    lock = threading.Condition()

    def take():
        """The next mutation: folders in turn, none more often than it is wanted."""
        with lock:
            while any(want.values()):
                able = [f for f in sorted(want) if want[f] > under_way[f]]
                if not able:
                    lock.wait()
                    continue
                f = max(able, key=lambda f: (want[f] - under_way[f]) / quota[f])
                m = next(left[f], None)
                if m is None:
                    want[f] = under_way[f]
                    continue
                under_way[f] += 1
                return f, m
        return None, None

    def report(f, m, verdict, by, seconds):
        with lock:
            results.append(dict(named(m), folder=f, verdict=verdict, by=by, seconds=round(seconds, 1)))
            if args.log and what(results[-1]) not in known:
                print(json.dumps(results[-1]), file=open(args.log, 'a'))
            under_way[f] -= 1
            if verdict in JUDGED:
                want[f] -= 1
            done = sum(r['verdict'] in JUDGED for r in results)
            say('%3d/%d %5.1f s %s:%d %s: %s%s: %s' % (done, sum(quota.values()), seconds, m[0], m[1], m[3], verdict,
                                                    ' by ' + by if by else '', m[4].strip()))
            lock.notify_all()
        if args.keep and verdict == 'survived':
            os.makedirs(args.keep, exist_ok=True)
            name = '%s-%d.patch' % (m[0].replace('/', '_'), m[1])
            open(os.path.join(args.keep, name), 'w').write(patch_of(m))

    def work(tree):
        try:
            f, m = take()
            while f is not None:
                begin = time.monotonic()
                verdict, by = known.get(what(named(m))) or tree.judge(m[0], m[1], m[4], args.patience)
                report(f, m, verdict, by, time.monotonic() - begin)
                f, m = take()
        except Exception:
            traceback.print_exc()
            os._exit(2)

    with tempfile.TemporaryDirectory(prefix='pmx-mutate.') as top:
        os.chmod(top, 0o755)  # some tests run programs as another user
        say('building ...')
        trees = [Tree(os.path.join(top, str(i)), i) for i in range(args.jobs)]
        with concurrent.futures.ThreadPoolExecutor() as beside:
            reach = beside.submit(trees[0].reach)
            trees[0].first_run(say)
            reach.result()
        lines = [bool(names) for f in trees[0].reached.values() for names in f.values()]
        say('%d lines are reached by a suite, %d by none' % (lines.count(True), lines.count(False)))
        for t in trees[1:]:
            t.suites, t.seconds, t.reached = trees[0].suites, trees[0].seconds, trees[0].reached
        threads = [threading.Thread(target=work, args=(t,), daemon=True) for t in trees]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    if args.json:
        commit = subprocess.check_output(['git', '-C', ROOT, 'rev-parse', '--short', 'HEAD'], text=True).strip()
        print(json.dumps({'seed': seed, 'commit': commit, 'results': results}, indent=1))
        return
    print('\n' + table(results))
    survivors = [r for r in results if r['verdict'] == 'survived']
    if survivors:
        print('\nsurvived')
    for r in survivors:
        print('%s:%d: %s\n    -%s\n    +%s' % (r['file'], r['line'], r['kind'], r['old'], r['new']))


main()
