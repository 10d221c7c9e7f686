#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: build.sh DIR [-Doption=value]... [--cross-file=FILE] [TARGET]...
# Configures DIR with all parts of the project, whatever is in it, and builds there: what TARGET names (`installed`: all that
# is installed), or all. The quickstart and the tests build by this, so that it does not matter which of them came first. What it
# says of a DIR that is there:
#   other options     those that decide what is built or tested are set anew; others, such as machine, stay
#   moved, older      it was made for another folder, or by another meson: made anew
#   of another user   root builds as the owner of the sources, and gives them DIR; others use what is built, or are told
set -u

root=$(cd "$(dirname "$0")/.." && pwd)
options=(-Dbuildtype=release -Db_sanitize=none -Dsanitize=false -Dfuzz=false -Dlibfabric=enabled -Dmpi=enabled -Dpmix=enabled -Dman=enabled)
targets=()
installed=false
setup=() # of meson, for a DIR that is new

die() {
	echo "build.sh: $*" >&2
	exit 1
}

[ $# -gt 0 ] && [[ $1 != -* ]] || { sed -n '4,11s/^#[ ]\{0,1\}//p' "$0" >&2; exit 2; }
dir=$(realpath -m "$1")
shift
for argument; do
	case $argument in
	-D*) options+=("$argument") ;;
	installed) installed=true ;;
	--cross-file=*) setup+=("$argument") ;;
	*) targets+=("$argument") ;;
	esac
done

# find_installed: names what is installed in targets, if that was asked for
find_installed() {
	! $installed || mapfile -t -O ${#targets[@]} targets < <(python3 - "$dir" <<-'END'
		import json, os, sys
		for target in json.load(open(sys.argv[1] + '/meson-info/intro-targets.json')):
		    if target['installed'] and target['build_by_default']:
		        print('\n'.join(os.path.relpath(name, sys.argv[1]) for name in target['filename']))
		END
	)
}

# What root builds in a user's tree is the user's, who could not build there again otherwise.
owner=$(stat -c %u:%g "$root")
as_owner=(env)
if [ "$(id -u)" -eq 0 ] && [ "${owner%:*}" -ne 0 ]; then
	as_owner=(setpriv --reuid "${owner%:*}" --regid "${owner#*:}" --clear-groups env "HOME=${TMPDIR:-/tmp}")
	mkdir -p "$dir" && chown -R "$owner" "$dir" || die "cannot give $dir to the owner of $root"
elif [ -e "$dir" ] && [ ! -w "$dir" ]; then
	[ -f "$dir/build.ninja" ] && find_installed && ninja -C "$dir" -n ${targets[@]+"${targets[@]}"} 2>/dev/null | grep -q 'no work to do' ||
		die "$dir belongs to $(stat -c %U "$dir") and is not up to date: sudo chown -R $(id -un) $dir, or give another directory"
	echo "$dir belongs to $(stat -c %U "$dir"): used as it is"
	exit 0
fi

# differing: the wanted options that DIR does not have, or "anew"
differing() {
	python3 - "$dir" "$root" ${options[@]+"${options[@]}"} <<-'END'
	import json, os, subprocess, sys
	build, source, wanted = sys.argv[1], sys.argv[2], dict(o[2:].split('=', 1) for o in sys.argv[3:])
	try:
	    info = json.load(open(build + '/meson-info/meson-info.json'))
	    version = subprocess.check_output(['meson', '--version'], text=True).strip()
	    if info['directories']['source'] != source or info['directories']['build'] != build or info['meson_version']['full'] != version:
	        raise KeyError
	    have = {o['name']: o['value'] for o in json.load(open(build + '/meson-info/intro-buildoptions.json'))}
	except (OSError, KeyError, ValueError):
	    print('anew')
	else:
	    print(' '.join('-D%s=%s' % o for o in wanted.items() if str(have.get(o[0])).lower() != o[1]))
	END
}

if [ ! -f "$dir/build.ninja" ]; then
	"${as_owner[@]}" meson setup "$dir" "$root" ${setup[@]+"${setup[@]}"} "${options[@]}" || exit 1
else
	differ=$(differing)
	if [ "$differ" = anew ]; then
		[ -d "$dir/meson-info" ] || die "$dir was not made by meson: give another directory"
		echo "$dir was made for another folder or by another meson: made anew"
		find "$dir" -mindepth 1 -maxdepth 1 -exec rm -rf {} + && "${as_owner[@]}" meson setup "$dir" "$root" ${setup[@]+"${setup[@]}"} "${options[@]}" || exit 1
	elif [ -n "$differ" ]; then
		echo "$dir was configured otherwise; set: $differ"
		# shellcheck disable=SC2086
		"${as_owner[@]}" meson configure "$dir" $differ || exit 1
	fi
fi
find_installed
"${as_owner[@]}" ninja -C "$dir" ${targets[@]+"${targets[@]}"}
