#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: docs.sh BUILD_DIR
# Do the documents say what the code does? The key table is what pmx-dpdk prints, README's example
# is doc/example.c and runs, golden bytes are the unit test's, configurations and commands are
# accepted (the ready-made ones of dpdk-config too), and what is named exists. One line a check: "ok NAME", "not ok NAME why" or
# "skip NAME why". Exit code 0 if nothing failed. The example's run needs root and 128 free
# hugepages of 2 MiB.
#
# Marks in the documents, each on the line before a fenced block:
#   golden: NAME           bytes of `golden` in function NAME of test/unit/test_wire.c
#   <!-- file: NAME -->    a configuration: pmx-dpdk --check must accept it
#   <!-- run -->           commands: options and command words must be known to the programs;
#                          a pmx-dpdk is run with --check, so its file must be one of the above
set -u

if [ $# -ne 1 ] || [ ! -x "$1/app/pmx-dpdk" ] || [ ! -f "$1/build.ninja" ]; then
	echo "Usage: $0 BUILD_DIR, a meson build directory with app/pmx-dpdk" >&2
	exit 2
fi
build=$(realpath "$1")
top=$(realpath "$(dirname "$0")/../..")
dpdk=$build/app/pmx-dpdk
dir=$(mktemp -d /tmp/pmx-docs-test.XXXXXX) || exit 2
name=docs$$
port=$((20000 + $$ % 20000))
pids=()
failed=0

stop_all() {
	for pid in ${pids[@]+"${pids[@]}"}; do
		kill -9 "$pid" 2>/dev/null && wait "$pid" 2>/dev/null
	done
	rm -f /dev/hugepages/"$name"[ab]map_* /run/pmx-dpdk-"$name"[ab].pid /run/pmx-dpdk/"$name"[ab].sock
	rm -rf "/var/run/dpdk/${name}a" "/var/run/dpdk/${name}b" "$dir"
}
trap stop_all EXIT
trap 'exit 130' INT TERM

# check NAME COMMAND...: passes if COMMAND does; its first line of output says why not
check() {
	local what=$1 why
	shift
	if "$@" >"$dir/check" 2>&1; then
		echo "ok $what"
		return 0
	fi
	why=$(head -1 "$dir/check")
	echo "not ok $what ${why:-failed}"
	sed -n '2,20s/^/# /p' "$dir/check"
	failed=1
	return 1
}

# ------------------------------------------------------------------ text against text
key_table() {
	"$dpdk" --config-doc >"$dir/printed" || return 1
	sed -n '/<!-- keys: begin -->/,/<!-- keys: end -->/p' "$top/doc/configuration.md" |
		sed '1d;$d' >"$dir/documented"
	diff "$dir/documented" "$dir/printed" >"$dir/diff" && return 0
	echo "doc/configuration.md is not what pmx-dpdk --config-doc prints; put that between its marks"
	cat "$dir/diff"
	return 1
}

example_text() {
	awk '/^```c$/ {inside = 1; next} /^```$/ {inside = 0} inside' "$top/README.md" >"$dir/readme.c"
	diff "$dir/readme.c" "$top/doc/example.c" >"$dir/diff" && return 0
	echo "the C block of README.md is not doc/example.c"
	cat "$dir/diff"
	return 1
}

golden_bytes() {
	python3 - "$top" <<-'END'
	import re, sys
	top = sys.argv[1]
	source = open(top + '/test/unit/test_wire.c').read()
	wanted = {}
	for name, size, body in re.findall(
	        r'^(wire_hdr__golden\w+)\(void \*\*state\)\n\{.*?golden\[(\w*)\] = \{(.*?)\n\t\};', source, re.M | re.S):
	    body = re.sub(r'/\*.*?\*/', '', body, flags=re.S)
	    wanted[name] = [int(t, 16) if t.startswith('0x') else ord(t[1])
	                    for t in re.findall(r"0x[0-9A-Fa-f]{2}|'.'", body)]
	given = re.findall(r'^golden: (\w+)\n+```hex\n(.*?)```', open(top + '/doc/wire.md').read(), re.M | re.S)
	bad = [] if given else ['doc/wire.md has no golden bytes']
	for name, text in given:
	    if name not in wanted:
	        bad.append('golden: %s is no function of test_wire.c with golden bytes' % name)
	    elif [int(t, 16) for t in text.split()] != wanted[name]:
	        bad.append('golden: %s differs from test_wire.c' % name)
	bad += ['golden bytes of %s are not in doc/wire.md' % n for n in wanted if n not in dict(given)]
	print('\n'.join(bad))
	sys.exit(bool(bad))
	END
}

links() {
	python3 - "$top" <<-'END'
	import glob, os, re, sys
	top = sys.argv[1]
	bad = []
	def anchors(path):
	    heads = re.findall(r'^#+ (.*)', re.sub(r'```.*?```', '', open(path).read(), flags=re.S), re.M)
	    return [re.sub(r'[^\w\- ]', '', h.lower()).replace(' ', '-') for h in heads]
	for page in [top + '/README.md'] + glob.glob(top + '/doc/*.md'):
	    text = re.sub(r'```.*?```', '', open(page).read(), flags=re.S)
	    for target in re.findall(r'\]\(([^)\s]+)\)', text):
	        if re.match(r'[a-z]+:', target):
	            continue
	        path, _, anchor = target.partition('#')
	        file = os.path.join(os.path.dirname(page), path) if path else page
	        if not os.path.exists(file):
	            bad.append('%s: %s does not exist' % (os.path.relpath(page, top), target))
	        elif anchor and file.endswith('.md') and anchor not in anchors(file):
	            bad.append('%s: %s: no such heading' % (os.path.relpath(page, top), target))
	print('\n'.join(bad))
	sys.exit(bool(bad))
	END
}

# every `file:name`, and every `path/with.ext`, of the table exists
requirement_names() {
	python3 - "$top" <<-'END'
	import os, re, sys
	top = sys.argv[1]
	bad, seen = [], 0
	for number, line in enumerate(open(top + '/doc/requirements.md'), 1):
	    for path, names in re.findall(r'`([\w./-]+/[\w.-]+\.(?:c|h|sh|md|build))(?::([\w, ]+))?`', line):
	        if not os.path.isfile(os.path.join(top, path)):
	            bad.append('line %d: %s does not exist' % (number, path))
	            continue
	        text = open(os.path.join(top, path)).read()
	        for name in filter(None, re.split(r'[, ]+', names)):
	            seen += 1
	            if not re.search(r'\b%s\b' % name, text):
	                bad.append('line %d: %s has no %s' % (number, path, name))
	if seen == 0:
	    bad.append('doc/requirements.md names nothing')
	print('\n'.join(bad))
	sys.exit(bool(bad))
	END
}

# the command of README, as it stands there, in a tree that nothing was built in
reference_pages() {
	local command
	command=$(grep -o '`[^`]*doxygen doc/Doxyfile`' "$top/README.md" | tr -d '`')
	[ -n "$command" ] || { echo "README.md has no doxygen command"; return 1; }
	mkdir -p "$dir/tree/doc" && cp -r "$top/include" "$dir/tree" && cp "$top/doc/Doxyfile" "$dir/tree/doc" || return 1
	(cd "$dir/tree" && bash -c "$command") && [ -f "$dir/tree/build/doc/html/index.html" ]
}

# who installs the library is told of ldconfig wherever that is said
ldconfig_is_named() {
	! grep -rn 'meson install' "$top/README.md" "$top"/doc/*.md "$top"/dpdk-config | grep -v ldconfig
}

# the pages of section 3 that the build makes: one for each function of the public headers, which leads to its text
function_pages() {
	local name page said
	for name in $(sed -n '/^PMX_API/,/;/p' "$top"/include/pmx/*.h | tr '\n' ' ' | grep -oE 'pmx_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u); do
		page=$(man -M "$build" -w 3 "$name") || { echo "$name has no manual page in $build/man3"; return 1; }
		said=$(MANPATH=$build man -P cat 3 "$name" 2>&1 | grep -c "$name")
		[ "$said" -gt 0 ] || { echo "$page does not tell of $name"; return 1; }
	done
}

manual_pages() {
	local page said
	for page in "$top"/doc/man/*.1; do
		said=$(MANWIDTH=80 man --warnings -E UTF-8 -l -Tutf8 -Z "$page" 2>&1 >/dev/null)
		[ -z "$said" ] || { echo "$(basename "$page"): $said"; return 1; }
	done
}

# ------------------------------------------------------------------ configurations, commands
# the marked blocks: files into $dir/work, commands, one a line, into $dir/commands
marked_blocks() {
	mkdir "$dir/work" || return 1
	python3 - "$top" "$dir" <<-'END'
	import glob, re, sys
	top, out = sys.argv[1:]
	commands = open(out + '/commands', 'w')
	for page in [top + '/README.md'] + sorted(glob.glob(top + '/doc/*.md')):
	    text = open(page).read()
	    for name, body in re.findall(r'<!-- file: ([\w.-]+) -->\n+```\w*\n(.*?)```', text, re.S):
	        open(out + '/work/' + name, 'w').write(body)
	    for body in re.findall(r'<!-- run -->\n+```\w*\n(.*?)```', text, re.S):
	        body = body.replace('\\\n', ' ')
	        commands.writelines(l.strip() + '\n' for l in body.splitlines()
	                            if re.match(r'\s*(sudo |ip netns exec \S+ )*pmx-', l))
	END
}

configurations() {
	local file count=0
	for file in "$dir"/work/* "$top"/dpdk-config/examples/*.ini; do
		[ -f "$file" ] || continue
		count=$((count + 1))
		"$dpdk" --check "$file" >"$dir/out" 2>&1 || { cat "$dir/out"; return 1; }
	done
	[ $count -gt 0 ] || { echo "no configuration is marked"; return 1; }
}

# command PROGRAM ARGUMENTS...: are its options and its command word known?
command_is_known() {
	local program=$1 word known=1 arguments=()
	shift
	if [ "$program" = pmx-dpdk ]; then
		while [ $# -gt 0 ] && [[ " $* " = *" -- "* ]]; do
			shift # the EAL's
		done
		"$dpdk" --check "$@"
		return
	fi
	for word; do
		[ "$word" = -- ] && break
		arguments+=("$word")
	done
	"$build/app/$program" "${arguments[@]}" --help >"$dir/help" || return 1
	[[ "${arguments[*]}" = --* ]] && [ "$program" = pmx-ctl ] && known=0
	for word in "${arguments[@]}"; do
		[[ "$word" = -* ]] || ! grep -qw -- "$word" "$dir/help" || known=0
	done
	[ $known -eq 0 ] || { echo "no command of $program is in it"; return 1; }
}

commands() ( # its own shell, for its own directory
	line= count=0 words=()
	cd "$dir/work" || return 1
	while IFS= read -r line; do
		count=$((count + 1))
		line=${line%%#*}
		line=${line% &}
		line=pmx-${line#*pmx-}
		eval "words=($line)"
		command_is_known "${words[@]}" >"$dir/out" 2>&1 ||
			{ echo "'$line': $(head -1 "$dir/out")"; return 1; }
	done <"$dir/commands"
	[ $count -gt 0 ] || { echo "no command is marked"; return 1; }
)

# ------------------------------------------------------------------ the example
# against an installed libpmx, by pkg-config, as an application outside the tree is built
compile_example() {
	local pc flags
	DESTDIR= meson install -C "$build" --no-rebuild --quiet --destdir "$dir/root" || return 1
	pc=$(find "$dir/root" -name libpmx.pc)
	[ -n "$pc" ] || { echo "no libpmx.pc was installed"; return 1; }
	libs=$(dirname "$(dirname "$pc")")
	# the prefix of this one file is below the staging directory; DPDK's is not
	sed -i "s|^prefix=|prefix=$dir/root|" "$pc"
	flags=$(PKG_CONFIG_PATH=$(dirname "$pc") pkg-config --cflags --libs libpmx) || return 1
	# shellcheck disable=SC2086
	"${CC:-cc}" -std=c11 -Wall -Wextra -Werror -O1 -o "$dir/example" "$top/doc/example.c" $flags
}

# start LETTER NODE: a primary, ready
start() {
	cat >"$dir/$1.ini" <<-END
		[node]
		id = $2
		name = $name$1
		[engine]
		idle = sleep
		[link 0]
		driver = udp
		listen = 127.0.0.1:$((port + $2))
		[limits]
		mbufs = 4096
		contexts = 8
		[nodes]
		0 = 127.0.0.1:$port
		1 = 127.0.0.1:$((port + 1))
	END
	mkfifo "$dir/$1.ready"
	"$dpdk" --no-pci -m 128 -- --ready-fd 3 "$dir/$1.ini" 3>"$dir/$1.ready" >"$dir/$1.log" 2>&1 &
	pids+=($!)
	read -r -t 20 _ <"$dir/$1.ready" || { cat "$dir/$1.log"; return 1; }
}

run_example() {
	local answers
	export LD_LIBRARY_PATH=$libs
	timeout 30 "$dir/example" "${name}b" >"$dir/answering" 2>&1 &
	answers=$!
	pids+=($answers)
	timeout 30 "$dir/example" "${name}a" 1 >"$dir/asking" 2>&1 || { cat "$dir/asking"; return 1; }
	wait $answers || { cat "$dir/answering"; return 1; }
	cat "$dir/asking" "$dir/answering"
	[ "$(grep -c '^hello back from node 1 context 7$' "$dir/asking")" -eq 3 ] &&
		[ "$(grep -c '^hello from node 0 context ' "$dir/answering")" -eq 3 ]
}

# a node that is in no configuration: the send fails, and the example says why
example_says_why() {
	timeout 30 "$dir/example" "${name}a" 99 >"$dir/out" 2>&1
	[ $? -eq 1 ] && grep -q 'not in \[nodes\]' "$dir/out" && return 0
	cat "$dir/out"
	return 1
}

# without arguments it says how it is used
example_usage() {
	LD_LIBRARY_PATH=$libs timeout 30 "$dir/example" >"$dir/out" 2>&1
	[ $? -eq 2 ] && grep -q '^Usage: example INSTANCE' "$dir/out" && return 0
	cat "$dir/out"
	return 1
}

stop_primaries() {
	local pid
	for pid in "${pids[@]:0:2}"; do
		kill -TERM "$pid" && wait "$pid" || { echo "a primary ended with an error"; return 1; }
	done
	pids=()
}

# ------------------------------------------------------------------
check docs__key_table key_table
check docs__readme_example_is_the_file example_text
check docs__golden_bytes golden_bytes
check docs__links links
check docs__requirements_name_what_exists requirement_names
check docs__reference_pages reference_pages
check docs__ldconfig_is_named ldconfig_is_named
check docs__manual_pages manual_pages
check docs__function_pages function_pages
check docs__marked_blocks marked_blocks
check docs__configurations configurations
check docs__commands commands
if check docs__example_compiles compile_example; then
	check docs__example_says_its_usage example_usage
	free=$(cat /sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages 2>/dev/null || echo 0)
	if [ "$(id -u)" -ne 0 ]; then
		echo "ok docs__example_runs # SKIP needs root: sudo $0 $1"
	elif [ "$free" -lt 128 ]; then
		echo "ok docs__example_runs # SKIP needs 128 free hugepages of 2 MiB, $free are:" \
			"sudo dpdk-config/hugepages.sh"
	elif check docs__example_first_primary start a 0 && check docs__example_second_primary start b 1; then
		check docs__example_runs run_example
		check docs__example_says_what_is_wrong example_says_why
		check docs__example_primaries_stop stop_primaries
	fi
fi
exit $failed
