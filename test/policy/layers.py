# SPDX-License-Identifier: BSD-3-Clause
#
# The checks of layers.sh. Each returns its violations, a line each: where, what, and what to do.
#
# Design notes
# 1. A file belongs to the row of the table that names the longest part of its path. Rows are strangers to each other, also
#    one within another: lib/engine/x may use lib/engine only if its row says so.
# 2. Symbols find what includes do not show: a function that is declared where it is used. An object is known by the name
#    that meson gives it, which is the source's path from the meson.build that builds it, with _ for /.
# 3. A circle of calls is a set of sources each of which reaches each other, by symbols that one needs and another defines. A
#    source that is in two libraries has the calls that it has in either.
# 4. That the checks refuse is tried on a copy of the tree, with errors that are made from what the table and the tree hold,
#    so that it stays true when folders move; and for objects on a tree of five sources.
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TABLE = 'doc/internals/architecture.md'
INCLUDE_DIRS = ('include', 'lib', 'drivers')  # `inc` in meson.build
NOT_SOURCES = ('doc',)  # it has an example
PROGRAMS = ('app', 'mpi', 'ofi')  # with objects that are in no static library
# declared by a library, and defined by what uses it, as a callback
HOOKS = ('proto_assert_failed', 'features_engine', 'features_client')
FOLDER_ROW = re.compile(r'^\| `([^`]+)` \|.*\| ([^|]*) \|$')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
NM_LINE = re.compile(r'^(.*):([0-9a-f]*) +([A-Za-z]) (\S+)$')


def read(path):
    with open(path, encoding='utf-8', errors='replace') as file:
        return file.read()


# ------------------------------------------------------------------ graphs: node -> {successor: label}

def reached(graph, start):
    seen, todo = set(), [start]
    while todo:
        for node in graph.get(todo.pop(), ()):
            if node not in seen:
                seen.add(node)
                todo.append(node)
    return seen


def circles(graph):
    """Sets of nodes that reach each other; one that points to itself is a set as well."""
    reach = {node: reached(graph, node) for node in graph}
    found = {frozenset(n for n in reach[node] if node in reach.get(n, ())) for node in graph if node in reach[node]}
    return sorted(found, key=sorted)


def way_around(graph, start):
    """A shortest way from start to itself: [start, ..., start]."""
    before, todo = {}, [start]
    while todo:
        following = []
        for node in todo:
            for successor in sorted(graph.get(node, ())):
                if successor not in before:
                    before[successor] = node
                    following.append(successor)
        if start in before:
            break
        todo = following
    way = [start, before[start]]
    while way[-1] != start:
        way.append(before[way[-1]])
    return way[::-1]


def shortest_way_around(graph, nodes):
    return min((way_around(graph, node) for node in sorted(nodes)), key=len)


# ------------------------------------------------------------------ the tree and its table

class Tree:
    """Sources and headers below a root, and the table's rows: rows[folder] = line, uses[folder] = its entries."""

    def __init__(self, root):
        self.root = root
        self.sources = sorted(self.find_sources())
        self.rows, self.uses, self.table_errors = {}, {}, []
        self.read_table()

    def find_sources(self):
        for folder, below, names in os.walk(self.root):
            if folder == self.root:
                below[:] = [name for name in below if name not in NOT_SOURCES]
            # hidden folders and those that meson builds in
            below[:] = [name for name in below if name[0] != '.' and
                        not os.path.isdir(os.path.join(folder, name, 'meson-private'))]
            for name in names:
                if name.endswith(('.c', '.h')):
                    yield os.path.relpath(os.path.join(folder, name), self.root)

    def text(self, path):
        return read(os.path.join(self.root, path))

    def read_table(self):
        cells, inside = {}, False
        for number, line in enumerate(self.text(TABLE).splitlines(), 1):
            if line.startswith('## '):
                inside = line == '## Folders'
            row = FOLDER_ROW.match(line) if inside else None
            if row:
                if row[1] in self.rows:
                    self.table_errors.append(f'{TABLE}:{number}: {row[1]} has a row already: make one of them')
                self.rows[row[1]], cells[row[1]] = number, row[2]
        if not self.rows:
            self.table_errors.append(f'{TABLE}: no table of folders found below "## Folders": put it back')
        for folder, cell in cells.items():
            names = re.sub(r'\([^)]*\)', '', cell).replace('`', '').split(',')
            self.uses[folder] = [entry for name in names if name.strip() != '-' for entry in self.resolve(folder, name.strip())]

    def resolve(self, folder, name):
        if name == 'all':
            return [row for row in self.rows if row != folder]
        for path in (name, 'lib/' + name):
            if path in self.rows or path + '.h' in self.sources:
                return [path]
        self.table_errors.append(f'{TABLE}:{self.rows[folder]}: "{name}" is no folder of the table: '
                                 'name one, or write in () what is no folder')
        return []

    def folder(self, path):
        """The row that a file belongs to, or None."""
        while path:
            path = os.path.dirname(path)
            if path in self.rows:
                return path
        return None

    def checked(self):
        """Sources of rows other than the tests', which may use all."""
        return [path for path in self.sources if path.split('/')[0] != 'test' and self.folder(path)]

    def may_use(self, path, target):
        own, other = self.folder(path), self.folder(target)
        return own == other or other in self.uses[own] or os.path.splitext(target)[0] in self.uses[own]

    def is_verb(self, path, symbol):
        """It is one of include/pmx, and the source may use these."""
        return symbol.startswith('pmx_') and 'include/pmx' in self.uses[self.folder(path)]

    def rule(self, path):
        folder = self.folder(path)
        return f'{folder} may not use by {TABLE}:{self.rows[folder]}'

    def line_of(self, path, word):
        """path:line of the first line with the word that is no comment."""
        for number, line in enumerate(self.text(path).splitlines(), 1):
            if re.search(rf'\b{re.escape(word)}\b', line) and not line.lstrip().startswith(('*', '/')):
                return f'{path}:{number}'
        return path

    def includes(self, path):
        """(line, name, found path or None) of each include that is not the system's."""
        for number, line in enumerate(self.text(path).splitlines(), 1):
            include = INCLUDE.match(line)
            if not include:
                continue
            quote, name = include.groups()
            places = ((os.path.dirname(path),) if quote == '"' else ()) + INCLUDE_DIRS
            found = [os.path.normpath(os.path.join(place, name)) for place in places]
            found = [target for target in found if target in self.sources]
            if quote == '"':  # an application may have another's folder in its include path
                found += [target for target in self.sources if target.startswith('app/') and path.startswith('app/') and
                          target.endswith('/' + name)]
            if found or quote == '"':
                yield number, name, found[0] if found else None


def check_table(tree):
    bad = list(tree.table_errors)
    for folder, line in tree.rows.items():
        if not any(path.startswith(folder + '/') for path in tree.sources):
            bad.append(f'{TABLE}:{line}: {folder} has no sources in the tree: take its row out of the table')
    for folder in sorted({os.path.dirname(path) for path in tree.sources if tree.folder(path) is None}):
        bad.append(f'{folder}: has sources and is in no row of the table of folders in {TABLE}: '
                   'add one, which says what it may use')
    graph = {folder: {entry if entry in tree.rows else tree.folder(entry): '' for entry in uses if entry != folder}
             for folder, uses in tree.uses.items()}
    for circle in circles(graph):
        way = shortest_way_around(graph, circle)
        bad.append(f'{TABLE}:{tree.rows[way[0]]}: the table goes in a circle: {" -> ".join(way)}: '
                   'take one of them out of the row of the one before')
    return bad


def check_includes(tree):
    bad = []
    for path in tree.checked():
        for line, name, target in tree.includes(path):
            if target is None:
                bad.append(f'{path}:{line}: includes "{name}", which is not in the tree: write <{name}> if it is the system\'s')
            elif tree.folder(target) and not tree.may_use(path, target):
                bad.append(f'{path}:{line}: includes {target}, which {tree.rule(path)}: '
                           'take what is needed as an argument or a callback, or move it to a folder below both')
    return bad


def include_graph(tree):
    graph = {path: {} for path in tree.checked()}
    for path in graph:
        for line, _, target in tree.includes(path):
            if target:
                graph[path].setdefault(target, line)
    return graph


def check_include_circles(tree):
    bad, graph = [], include_graph(tree)
    for circle in circles(graph):
        way = shortest_way_around(graph, circle)
        bad.append(f'{way[0]}:{graph[way[0]][way[1]]}: headers include each other in a circle: {" -> ".join(way)}: '
                   'declare a struct instead of an include, or move what both need to a header of its own')
    return bad


# ------------------------------------------------------------------ objects

class Object:
    def __init__(self, archive, name):
        self.archive, self.name, self.source = archive, name, None
        self.defines, self.needs = set(), set()


def read_objects(tree, lib):
    """Objects of the static libraries below `lib`, the folder of that name in the build, and of the programs and modules beside
    it, and what is wrong with them."""
    build, objects, bad = os.path.dirname(os.path.abspath(lib)), [], []
    archives = sorted(os.path.join(folder, name) for folder, _, names in os.walk(os.path.abspath(lib))
                      for name in names if name.endswith('.a'))
    if not archives:
        sys.exit(f'{lib} has no static libraries')
    targets = [(archive, [archive]) for archive in archives]
    for folder in PROGRAMS:
        for below, _, names in os.walk(os.path.join(build, folder)):
            objects_there = sorted(os.path.join(below, name) for name in names if name.endswith('.o'))
            if below.endswith('.p') and objects_there:
                targets.append((below, objects_there))
    for target, files in targets:
        meson_dir = os.path.relpath(os.path.dirname(target), build)
        names = defaultdict(list)
        for path in tree.sources:
            names[os.path.relpath(path, meson_dir).replace('/', '_') + '.o'].append(path)
        members = {}
        listing = subprocess.run(['nm', '-A', '-g'] + files, stdout=subprocess.PIPE, text=True, check=True).stdout
        for line in listing.splitlines():
            found = NM_LINE.match(line)
            if not found:
                continue
            where, _, kind, symbol = found.groups()
            name = os.path.basename(where[len(target) + 1:])
            member = members.setdefault(name, Object(os.path.relpath(target, build), name))
            (member.needs if kind in 'Uvw' else member.defines).add(symbol)
        for name, member in members.items():
            if name.startswith('meson-generated'):  # the number of the commit: it needs and is needed by its own program
                continue
            if len(names[name]) == 1:
                member.source = names[name][0]
                objects.append(member)
            else:
                bad.append(f'{member.archive}: its object {name} is of {" or ".join(names[name]) or "no source in the tree"}: '
                           + ('give one of them another name' if names[name] else 'build again'))
    built = {member.source for member in objects}
    for path in tree.sources:
        if path.endswith('.c') and path.startswith(('lib/', 'drivers/', 'app/')) and path not in built:
            bad.append(f'{path}: is in no library and no program of the build: build again, or take it out of the tree')
    return objects, bad


def needs_of(objects):
    """(object, symbol, sources that define it) of each symbol that another object defines, of the same library if it can."""
    inside, anywhere = defaultdict(set), defaultdict(set)
    for member in objects:
        for symbol in member.defines:
            inside[member.archive, symbol].add(member.source)
            anywhere[symbol].add(member.source)
    for member in objects:
        for symbol in sorted(member.needs):
            sources = inside.get((member.archive, symbol)) or anywhere.get(symbol)
            if sources:
                yield member, symbol, sorted(sources)


def check_symbols(tree, objects):
    bad = set()
    for member, symbol, sources in needs_of(objects):
        for source in sources:
            if symbol not in HOOKS and tree.folder(source) and not tree.may_use(member.source, source) and not tree.is_verb(member.source, symbol):
                bad.add(f'{tree.line_of(member.source, symbol)}: needs {symbol} of {source}, which {tree.rule(member.source)}: '
                        'take it as an argument or a callback, or move it to a folder below both')
    return sorted(bad)


def call_graph(objects):
    """source -> {source: a symbol}"""
    graph = defaultdict(dict)
    for member, symbol, sources in needs_of(objects):
        for source in sources:
            if source != member.source and symbol not in HOOKS:
                graph[member.source].setdefault(source, symbol)
    return dict(graph)


def arrows(graph, way):
    return way[0] + ''.join(f' -[{graph[a][b]}]-> {b}' for a, b in zip(way, way[1:]))


def check_calls(tree, objects):
    bad, graph = [], call_graph(objects)
    for circle in circles(graph):
        way = shortest_way_around(graph, circle)
        bad.append(f'{tree.line_of(way[0], graph[way[0]][way[1]])}: a circle of calls among {len(circle)} sources '
                   f'({" ".join(sorted(circle))}): {arrows(graph, way)}: '
                   'move what both call to a source below both, or call back by a pointer')
    return bad


# ------------------------------------------------------------------ that they refuse

def report(name, violations, why):
    for violation in violations:
        print(violation)
    print(f'not ok {name} {why}' if violations else f'ok {name}')
    return not violations


def unnumbered(violation):
    return re.sub(r':\d+', '', violation)


def refused(name, before, after, pattern):
    """What a check adds, after an error was put in, is one violation with these words."""
    known = {unnumbered(violation) for violation in before}
    added = [violation for violation in after if unnumbered(violation) not in known]
    if len(added) == 1 and re.search(pattern, added[0]):
        print(f'ok layers__refuses_{name}')
        return True
    print(f'expected one violation like: {pattern}', *(f'found: {violation}' for violation in added), sep='\n')
    print(f'not ok layers__refuses_{name} {"it gave other violations" if added else "it was not noticed"}')
    return False


def write(root, path, text):
    path = os.path.join(root, path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def refuses_in_a_copy(tree, work):
    root = os.path.join(work, 'copy')
    for path in tree.sources + [TABLE]:
        os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
        shutil.copy(os.path.join(tree.root, path), os.path.join(root, path))

    def tried(name, check, path, text, pattern):
        """Add text to a file, and put it back."""
        old = read(os.path.join(root, path)) if os.path.exists(os.path.join(root, path)) else None
        write(root, path, (old or '') + text)
        good = refused(name, check(tree), check(Tree(root)), pattern)
        if old is None:
            os.remove(os.path.join(root, path))
        else:
            write(root, path, old)
        return good

    # A lower folder that a higher one may use, a header of each, and two of one folder of which the first includes the second.
    headers = [path for path in tree.checked() if path.startswith('lib/') and path.endswith('.h')]
    high, low = next((a, b) for a in headers for b in headers
                     if tree.folder(a) != tree.folder(b) and tree.may_use(a, b) and not tree.may_use(b, a))
    first, second = next((a, b) for a, targets in include_graph(tree).items() for b in targets
                         if a.endswith('.h') and tree.folder(a) == tree.folder(b))
    text = tree.text(TABLE)
    row = text.splitlines(keepends=True)[tree.rows[tree.folder(low)] - 1]

    good = tried('upward_include', check_includes, low, f'\n#include "{os.path.relpath(high, "lib")}"\n',
                 rf'^{re.escape(low)}:\d+: includes {re.escape(high)}, which {tree.folder(low)} may not use')
    good &= tried('include_circle', check_include_circles, second, f'\n#include "{os.path.basename(first)}"\n',
                  rf'in a circle: ({re.escape(first)} -> )?{re.escape(second)} -> {re.escape(first)}')
    good &= tried('unknown_folder', check_table, 'lib/unheard_of/x.c', 'int x;\n',
                  r'^lib/unheard_of: has sources and is in no row')
    good &= tried('include_of_nothing', check_includes, low, '\n#include "unheard_of.h"\n',
                  r'"unheard_of.h", which is not in the tree')

    def with_table(name, new, pattern):
        """Put something else in the place of the lower folder's row, and put it back."""
        write(root, TABLE, text.replace(row, new, 1))
        done = refused(name, check_table(tree), check_table(Tree(root)), pattern)
        write(root, TABLE, text)
        return done

    upward = re.sub(r'\| [^|]* \|$', f'| {tree.folder(high)} |', row.rstrip()) + '\n'
    good &= with_table('row_of_no_folder', row + '| `lib/unheard_of` | nothing | - |\n', r'lib/unheard_of has no sources in the tree')
    good &= with_table('word_of_no_folder', row.rstrip().rstrip('|') + ', unheard_of |\n', r'"unheard_of" is no folder')
    good &= with_table('table_in_a_circle', upward, r'goes in a circle: .*-> ')
    return good


def refuses_objects(work):
    root = os.path.join(work, 'objects')
    lib = os.path.join(root, 'build/lib')
    write(root, TABLE, '## Folders\n\n| `lib/wire` | - | - |\n| `lib/engine` | - | wire |\n')
    compiler = next(filter(shutil.which, ('cc', 'gcc', 'clang')), 'cc')
    calls = {'lib/engine/a.c': 'bc', 'lib/engine/b.c': 'a', 'lib/engine/c.c': 'a', 'lib/engine/d.c': 'aw', 'lib/wire/w.c': ''}
    os.makedirs(lib)

    def build(calls):
        objects = defaultdict(list)
        for path, called in calls.items():
            _, folder, name = path.split('/')
            write(root, path, ''.join(f'void {other}(void);\n' for other in called + name[0]) +
                  f'void {name[0]}(void) {{ {" ".join(other + "();" for other in called)} }}\n')
            objects[folder].append(os.path.join(lib, f'{folder}_{name}.o'))
            subprocess.run([compiler, '-c', '-o', objects[folder][-1], os.path.join(root, path)], check=True)
        for folder, names in objects.items():
            subprocess.run(['ar', 'crs', os.path.join(lib, f'lib{folder}.a')] + names, check=True)
        tree = Tree(root)
        members, bad = read_objects(tree, lib)
        return tree, members, bad

    def found(name, *patterns):
        violations = check_calls(tree, members)
        good = len(violations) == len(patterns) and all(map(re.search, patterns, violations))
        if not good:
            print(f'expected: {patterns}, found: {violations}')
        print(f'{"ok" if good else "not ok"} layers__{name}' + ('' if good else ' it gave other violations'))
        return good

    tree, members, bad = build(calls)
    good = found('refuses_circle_of_calls', r'^lib/engine/a\.c:1: a circle of calls among 3 sources .*: lib/engine/a\.c -\[b\]-> '
                 r'lib/engine/b\.c -\[a\]-> lib/engine/a\.c')
    os.remove(os.path.join(root, 'lib/engine/d.c'))
    good &= refused('object_of_no_source', bad, read_objects(Tree(root), lib)[1], r'engine_d\.c\.o is of no source')
    write(root, 'lib/engine/d.c', '')
    before = check_symbols(tree, members)
    tree, members, bad = build({'lib/wire/w.c': 'd'})
    good &= refused('upward_symbol', before, check_symbols(tree, members),
                    r'^lib/wire/w\.c:1: needs d of lib/engine/d\.c, which lib/wire may not use')
    return good


# ------------------------------------------------------------------ main

def print_circles(objects):
    graph = call_graph(objects)
    for circle in circles(graph):
        print(*sorted(circle))
        for source in sorted(circle):
            print('\t' + arrows(graph, way_around(graph, source)))


def main(arguments):
    listing = arguments[:1] == ['--circles']
    if len(arguments) != 1 + listing or not os.path.isdir(arguments[-1]):
        sys.exit('usage: layers.sh [--circles] DIR_WITH_LIB')
    tree = Tree(ROOT)
    objects, unknown = read_objects(tree, arguments[-1])
    if listing:
        print_circles(objects)
        return 0
    good = report('layers__table', check_table(tree), 'the table and the tree differ')
    good &= report('layers__includes', check_includes(tree), 'includes that the table forbids')
    good &= report('layers__symbols', unknown + check_symbols(tree, objects), 'symbols that the table forbids')
    good &= report('layers__no_include_circle', check_include_circles(tree), 'headers include each other')
    good &= report('layers__no_circle_of_calls', check_calls(tree, objects), 'sources call each other')
    with tempfile.TemporaryDirectory() as work:
        good &= refuses_in_a_copy(tree, work)
        good &= refuses_objects(work)
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
