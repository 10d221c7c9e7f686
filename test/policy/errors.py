# SPDX-License-Identifier: BSD-3-Clause
#
#   errors.py ROOT
# pmx_strerror() has words for each error that the library returns: those that its headers tell of, and those that its sources return
# or complete something with. Prints "ok" and "not ok" lines.
import errno
import os
import re
import sys

root = sys.argv[1]
# which no call of the library returns: what the system said and is handled, and EMEDIUMTYPE between two functions
INSIDE = {'EINTR', 'ENOTSOCK', 'ESRCH', 'EMEDIUMTYPE'}
RETURNED = ('lib/client', 'lib/channel', 'lib/match', 'lib/group', 'lib/coll', 'lib/rma', 'lib/job', 'lib/dsm', 'lib/memory', 'lib/core/proto')


def text_of(path):
    with open(os.path.join(root, path), encoding='utf-8') as file:
        return file.read()


def sources():
    for name in sorted(os.listdir(os.path.join(root, 'include/pmx'))):
        yield 'include/pmx/' + name, r'-(E[A-Z0-9]+)\b'
    for folder in RETURNED:
        for name in sorted(os.listdir(os.path.join(root, folder))):
            if name.endswith('.c'):
                yield folder + '/' + name, r'(?:return |= |\? |: |, )-?(E[A-Z0-9]{3,})\b(?=[;,) ])'


words = dict(re.findall(r'\{(E[A-Z0-9]+),\s*"((?:[^"\\]|\\.)*)"', text_of('lib/client/node.c')))
failed = False
seen = 0
for path, form in sources():
    for number, line in enumerate(text_of(path).splitlines(), 1):
        for name in re.findall(form, line):
            if not hasattr(errno, name) or name in INSIDE:
                continue
            seen += 1
            same = [other for other in words if getattr(errno, other) == getattr(errno, name)]
            if not same:
                failed = True
                print('not ok errors__%s %s:%d: pmx_strerror() has no words for it' % (name, path, number))
if seen < 300 or len(words) < 30:
    failed = True
    print('not ok errors__are_found %d places and %d texts' % (seen, len(words)))
if not failed:
    print('ok errors__have_words')
    print('# %d places, %d errors' % (seen, len(words)))
sys.exit(failed)
