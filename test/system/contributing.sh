#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: contributing.sh BUILD_DIR
# Does in a copy of the tree what CONTRIBUTING.md says under "How to add ...": a key, a counter, a link driver, a command of
# pmx-ctl and a verb of libpmx. Builds that, and sees whether each is there; says how many files each took. (A service is
# test_service.c.) One line a check, as all system tests; needs neither root nor hugepages.
set -u
. "$(dirname "$0")/common.bash"

top=$(realpath "$(dirname "$0")/../..")
tree=$dir/tree
mkdir "$tree" "$dir/before"
tar -C "$top" --exclude=.git --exclude='./build*' -cf - . | tar -C "$tree" -xf -

# edit FILE TEXT NEW: puts NEW in the place of TEXT, which is there once
edit() {
	python3 - "$tree/$1" "$2" "$3" <<-'END'
		import sys
		path, old, new = sys.argv[1:]
		text = open(path, encoding='utf-8').read()
		if text.count(old) != 1:
		    sys.exit(f'{path}: {text.count(old)} times: {old}')
		open(path, 'w', encoding='utf-8').write(text.replace(old, new))
	END
}

# took NAME MOST: how many files were made or changed since the last call, which are MOST at most
took() {
	local files
	mapfile -t files < <(find "$tree" -newer "$dir/stamp" -type f | sed "s|^$tree/||" | sort)
	echo "# $1: ${files[*]}"
	[ ${#files[@]} -le "$2" ] && ok "contributing_$1__files" || not_ok "contributing_$1__files" "${#files[@]} files, $2 at most"
	sleep 0.02
	touch "$dir/stamp"
}
sleep 0.02
touch "$dir/stamp"
sleep 0.02

tab=$'\t'
edit lib/config/config.h "${tab}uint32_t burst;" "${tab}uint32_t burst, trial;" &&
	edit lib/node/keys.c "${tab}{\"engine\", \"matching\"," "${tab}{\"engine\", \"trial\", KIND_U32, DIFFERS(trial), 1, 7, \"3\", \"trials\", \"what a test adds\"},
${tab}{\"engine\", \"matching\","
took key 2
edit lib/engine/lane.h "${tab}X(sleeps, \"events\"," "${tab}X(trials, \"polls\", \"turns that a test counts\") \\
${tab}X(sleeps, \"events\"," && edit lib/engine/loop.c "${tab}ENGINE_COUNT(e, idle_polls);" "${tab}ENGINE_COUNT(e, idle_polls);
${tab}ENGINE_COUNT(e, trials);"
took counter 2
sed 's/link_loop_ops/link_trial_ops/; s/\.name = "loop"/.name = "trial"/' "$tree/drivers/loop.c" >"$tree/drivers/trial.c"
edit drivers/link.h "X(loop, \"inside one process\")" "X(loop, \"inside one process\") between \\
${tab}X(trial, \"what a test adds\")" && edit lib/meson.build "'../drivers/loop.c'," "'../drivers/loop.c', '../drivers/trial.c',"
took driver 3
cat >"$tree/app/pmx-ctl/trial.c" <<-'END'
	#include "ctl.h"

	int
	show_trial(struct ctl_session *s, const struct ctl_options *o)
	{
		(void)s;
		(void)o;
		puts("a trial");
		return 0;
	}
END
edit app/pmx-ctl/main.c "${tab}{.name = \"drops\"," "${tab}{.name = \"trial\", .show = show_trial, .help = \"  trial            what a test adds\\n\"},
${tab}{.name = \"drops\"," &&
	edit app/pmx-ctl/ctl.h "int show_drops(" "int show_trial(struct ctl_session *s, const struct ctl_options *o);
int show_drops(" && edit app/meson.build "'pmx-ctl/topology.c'" "'pmx-ctl/topology.c', 'pmx-ctl/trial.c'" &&
	printf '.TP\n.B trial\nWhat a test adds.\n' >>"$tree/doc/man/pmx-ctl.1"
took command 5
edit include/pmx/context.h "/** Longest message that this context can send" "/** Return what a test adds. Any thread. */
PMX_API int pmx_trial(void);

/** Longest message that this context can send" && cat >>"$tree/lib/client/context.c" <<-'END'

	int
	pmx_trial(void)
	{
		return 42;
	}
END
took verb 2

if ! meson setup "$dir/build" "$tree" -Dbuildtype=debug -Doptimization=0 -Dlibfabric=disabled -Dmpi=disabled -Dpmix=disabled -Dman=disabled -Dwerror=true >"$dir/log" 2>&1 ||
	! meson compile -C "$dir/build" app/pmx-dpdk:executable pmx-ctl lib/pmx:shared_library >>"$dir/log" 2>&1; then
	not_ok contributing__builds "" "$dir/log"
	exit 1
fi
ok contributing__builds
ctl=$dir/build/app/pmx-ctl

config() { # NAME TRIAL: a node of the new driver
	printf '[node]\nid = 0\nname = %s\n[engine]\ntrial = %s\nidle = yield\n[link 0]\ndriver = trial\nport = pair\n[limits]\ncontexts = 2\nmbufs = 4096\n[nodes]\n0 = auto\n' \
		"$1" "$2" >"$dir/$1.ini"
}
config "${tag}0" 7
config "${tag}1" 8
check() { "$dir/build/app/pmx-dpdk" --no-pci --no-huge -m 128 -- --check "$1" >"$dir/log" 2>&1; }
check "$dir/${tag}0.ini" && ok contributing_key__is_read || not_ok contributing_key__is_read "" "$dir/log"
! check "$dir/${tag}1.ini" && grep -q 'trial' "$dir/log" && ok contributing_key__is_checked || not_ok contributing_key__is_checked "" "$dir/log"
"$dir/build/app/pmx-dpdk" --config-doc | grep -q '^| `trial` | 3 | trials | 1 .. 7 ' &&
	"$dir/build/app/pmx-dpdk" --config-doc | grep -q 'trial: what a test adds' && ok contributing_key__has_help || not_ok contributing_key__has_help ""

"$dir/build/app/pmx-dpdk" --no-pci --no-huge -m 128 --lcores 0@0 -- "$dir/${tag}0.ini" >"$dir/primary.log" 2>&1 &
primary=$!
pids+=($primary)
for ((i = 0; i < 600; i++)); do
	! grep -q ready "$dir/primary.log" || break
	kill -0 $primary 2>/dev/null || break
	sleep 0.1
done
grep -q ready "$dir/primary.log" && ok contributing_driver__runs || not_ok contributing_driver__runs "" "$dir/primary.log"
"$ctl" --instance "${tag}0" stat >"$dir/log" 2>&1 && grep -q '^trials .*turns that a test counts' "$dir/log" && ok contributing_counter__counts ||
	not_ok contributing_counter__counts "" "$dir/log"
[ "$("$ctl" --instance "${tag}0" trial 2>"$dir/log")" = 'a trial' ] && "$ctl" --help | grep -q '^  trial  ' && ok contributing_command__runs ||
	not_ok contributing_command__runs "" "$dir/log"
end $primary
printf '#include <pmx/pmx.h>\nint main(void) { return pmx_trial() != 42; }\n' >"$dir/verb.c"
cc -I"$tree/include" -o "$dir/verb" "$dir/verb.c" -L"$dir/build/lib" -lpmx -Wl,-rpath,"$dir/build/lib" >"$dir/log" 2>&1 && "$dir/verb" &&
	ok contributing_verb__is_exported || not_ok contributing_verb__is_exported "" "$dir/log"
exit $failed
