# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: report.py LOG.json... [FAILURE]...
# What `meson test` wrote into its logs as a table, a line a suite, then what benches measured, what failed and what was skipped,
# and last "N passed, N failed, N skipped". A FAILURE, which is no such file, is a step before the tests that failed.
import json
import os
import re
import sys


def counts(stdout):
    cases = re.findall(r'^(not )?ok (.*)$', stdout, re.M)
    skipped = [rest.partition(' # SKIP') for bad, rest in cases if not bad and ' # SKIP' in rest]
    failed = sum(bool(bad) for bad, _ in cases)
    return len(cases) - failed - len(skipped), failed, [name + ':' + why for name, _, why in skipped]


def failures_of(suite, stdout):
    """Each case that failed, with the first of the comments that follow it."""
    return ['%s: %s' % (suite, found.rstrip('\n')) for found in re.findall(r'^not ok .*\n(?:#.*\n){0,20}', stdout, re.M)]


def main():
    rows, figures, skips, failures, total = [], [], [], [], [0, 0, 0]
    for given in sys.argv[1:]:
        if not given.endswith('.json') or not os.path.exists(given):
            rows.append((given, 0, 1, 0, 0.0))
            continue
        for suite in map(json.loads, open(given)):
            passed, failed, skipped = counts(suite.get('stdout', ''))
            bad = suite['result'] not in ('OK', 'SKIP', 'EXPECTEDFAIL')
            name = suite['name'].split(' / ', 1)[-1] + (' (sanitizers)' if 'asan/' in given else '')
            rows.append((name, passed, failed or int(bad), len(skipped), suite['duration']))
            if name.startswith('bench_'):
                figures += ['%s: %s' % (name, line[2:]) for line in suite.get('stdout', '').splitlines() if line.startswith('# ')]
            failures += failures_of(name, suite.get('stdout', ''))
            skips += ['%s: %s' % (name, s) for s in skipped]
    print('\n%-40s %7s %7s %8s %8s' % ('suite', 'passed', 'failed', 'skipped', 'seconds'))
    for row in sorted(rows, key=lambda row: -row[4]):
        print('%-40s %7d %7d %8d %8.1f' % row)
        total = [a + b for a, b in zip(total, row[1:4])]
    if figures:
        print('\nfigures:')
        print('\n'.join(figures))
    if failures:
        print('\nFAILED:')
        print('\n'.join(failures))
    if skips:
        print('\n!!! SKIPPED, so not tested:')
        print('\n'.join('!!! ' + s for s in skips))
    print('\n%d passed, %d failed, %d skipped' % tuple(total))
    return total[1] > 0


sys.exit(main())
