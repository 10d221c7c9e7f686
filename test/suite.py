# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: suite.py SECONDS COMMAND...
# Runs one suite for `meson test` and speaks TAP for it: "ok NAME", "not ok NAME why" or "ok NAME # SKIP why" for each
# case, then the plan. All else that the suite prints becomes a comment. A suite that has not ended after SECONDS is told
# to end, and has 20 s to clean up. An end by an error that no case told of, a suite without any case, and a crash of a process that a
# script had started, are failures.
import fcntl
import os
import re
import signal
import subprocess
import sys

# what bash says of a process that it had started
CRASH = re.compile(r'.*: line \d+: +\d+ (Segmentation fault|Bus error|Aborted|Illegal instruction|Floating point exception).*')
CASE = re.compile(r'(?P<bad>not )?ok (?:\d+ )?(?:- )?(?P<rest>.*)')


def why(code, cases, seconds):
    if code == 124:
        return 'it did not end within %s s' % seconds
    if code in (137, -9):
        return 'it was killed after %s s, or by something else' % seconds
    if code < 0 or code > 128:
        return 'it crashed: signal %d' % (-code if code < 0 else code - 128)
    return 'it ended with exit code %d' % code if code else '' if cases else 'it ran no test'


def say(line):
    print(line, flush=True)


def case_of(line):
    """(failed, the line as TAP), or None. cmocka numbers its cases and says "not ok 3 # SKIP name" of what was skipped."""
    m = CASE.fullmatch(line)
    if m is None:
        return None
    skipped = re.fullmatch(r'# SKIP (\S+)', m['rest'])
    if skipped:
        return False, 'ok %s # SKIP' % skipped[1]
    return bool(m['bad']), '%sok %s' % (m['bad'] or '', m['rest'] if m['bad'] is None else m['rest'].replace('#', ':'))


def libraries(program):
    return subprocess.run(['ldd', program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def frees_all(linked):
    """DPDK's own start leaves memory that nobody frees; a program without DPDK frees all."""
    return 'libasan' in linked and 'librte_' not in linked


def take_cpu():
    """Of the CPUs that it may use, the EAL of a unit test takes the first. So that suites beside each other do not share one, each
    gets another, as long as there are, and has it until this process ends."""
    for cpu in sorted(os.sched_getaffinity(0)):
        taken = os.open('/sys/devices/system/cpu/cpu%d' % cpu, os.O_RDONLY)
        try:
            fcntl.flock(taken, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(taken)
            continue
        os.sched_setaffinity(0, {cpu})
        return


def main():
    seconds, command = sys.argv[1], sys.argv[2:]
    linked = libraries(command[0])
    if 'librte_' in linked:
        take_cpu()
    environment = {'ASAN_OPTIONS': 'detect_leaks=%d' % frees_all(linked), 'UBSAN_OPTIONS': 'print_stacktrace=1', **os.environ,
                   'CMOCKA_MESSAGE_OUTPUT': 'TAP',
                   # scripts find this Python, for which Debian's modules are installed, before another one, as pyenv's
                   'PATH': os.path.dirname(sys.executable) + os.pathsep + os.environ.get('PATH', os.defpath)}
    suite = subprocess.Popen(['timeout', '-k', '20', seconds] + command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, env=environment, text=True, errors='replace')
    for ending in signal.SIGTERM, signal.SIGINT:
        signal.signal(ending, lambda *_: suite.terminate())
    name = os.path.basename(command[0]).split('.')[0]
    cases = failed = 0
    for line in suite.stdout:
        line = line.rstrip('\n')
        case = case_of(line)
        if case:
            cases += 1
            failed += case[0]
            say(case[1])
        elif CRASH.fullmatch(line):
            cases, failed = cases + 1, failed + 1
            say('not ok %s a process crashed: %s' % (name, line))
        elif not re.fullmatch(r'1\.\.\d+', line):
            say(line if line.startswith('#') else '# ' + line)
    code = suite.wait()
    reason = why(code, cases, seconds)
    if reason and not failed:
        cases += 1
        say('not ok %s %s' % (name, reason))
    say('1..%d' % cases)
    return 1 if failed or reason else 0


sys.exit(main())
