#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: installed.sh BUILD_DIR
# What `meson install` puts into an empty root is complete: every pkg-config file gives what compiles, links and runs a program that
# uses the library, in C and in C++ (whose compiler takes the headers with all warnings as errors), the examples run with the
# installed programs and libraries, and the unit, configurations and completion are there and right.
set -u
. "$(dirname "$0")/common.bash"

[ -w "$build/meson-private" ] || skip_all installed "the build is another user's, and meson install writes there"
root=$dir/root
log=$dir/log
export DESTDIR=$root
if ! meson install -C "$build" --no-rebuild --quiet >"$log" 2>&1; then
	not_ok installed__no_rebuild "" "$log"
	exit 1
fi
unset DESTDIR
ok installed__no_rebuild
option() { # NAME: of the build
	meson introspect "$build" --buildoptions | python3 -c 'import json, sys
print(next(o["value"] for o in json.load(sys.stdin) if o["name"] == sys.argv[1]))' "$1"
}
prefix=$(option prefix)
bin=$root$prefix/$(option bindir)
lib=$root$prefix/$(option libdir)
share=$root$prefix/$(option datadir)
documents=$share/doc/pmx-dpdk
export PKG_CONFIG_PATH=$lib/pkgconfig PKG_CONFIG_SYSROOT_DIR=$root LD_LIBRARY_PATH=$lib

# links NAME PACKAGE SOURCE...: as a stranger would, and runs what comes out of it
links() {
	local name=$1 package=$2 flags
	shift 2
	# the system's own libraries are not below the root
	flags=$(pkg-config --cflags --libs "$package" | sed "s| -I$root/usr/include[^ ]*||g; s|-L$root/usr/lib[^ ]*||g")
	# shellcheck disable=SC2086
	cc -Wall -Wextra -Werror -O2 "$@" -o "$dir/$name" $flags >"$log" 2>&1
}

declare -A calls=([libpmx]='pmx.h pmx_version()' [libpmx-dsm]='dsm.h (pmx_dsm_close(NULL), pmx_strerror(0))'
	[libpmx-job]='job.h (pmx_job_finalize(NULL), pmx_strerror(0))')
for file in "$lib"/pkgconfig/*.pc; do
	package=$(basename "$file" .pc)
	read -r header call <<<"${calls[$package]:-none none}"
	printf '#include <stdio.h>\n#include <pmx/%s>\nint main(void) { puts(%s); return 0; }\n' "$header" "$call" >"$dir/$package.c"
	if links "$package" "$package" "$dir/$package.c" && "$dir/$package" >"$log" 2>&1 && [ -s "$log" ]; then
		ok "installed_pc__$package"
	else
		not_ok "installed_pc__$package" "" "$log"
	fi
done
ldd "$dir/libpmx" | grep -q 'librte\|not found' && not_ok installed__needs_no_dpdk "" || ok installed__needs_no_dpdk

# each header alone, in the strictest C and C++ that may include it
for header in "$root$prefix/$(option includedir)"/pmx/*.h; do
	name=$(basename "$header" .h)
	for standard in c99 c11 c++17; do
		echo "#include <pmx/$name.h>" | "${CXX:-c++}" -x "${standard//[0-9]/}" "-std=$standard" -pedantic -Wall -Wextra -Werror -Wconversion -Wshadow \
			-fsyntax-only -I"$(dirname "$(dirname "$header")")" - >"$log" 2>&1 ||
			{ not_ok "installed_header__$name" "$standard" "$log"; continue 2; }
	done
	ok "installed_header__$name"
done

# two nodes by the installed programs, the README's example between them
for n in 0 1; do
	node_ini $n <<-END
		mtu = 4000
		[engine]
		idle = adaptive
		[limits]
		mbufs = 8192
		contexts = 8
	END
	start "$dir/$n.log" "$bin/pmx-dpdk" --no-pci --no-huge -m 128 --lcores "0@0" -- "$dir/$n.ini"
	primary[n]=$last
done
for n in 0 1; do
	wait_for 60 grep -q ready "$dir/$n.log" || not_ok installed__primaries "" "$dir/$n.log"
done
# libpmx-dpdk is opened where it is needed; where it is not installed, a process can attach thin, and is told why not otherwise
mkdir "$dir/alone" && ln -s "$lib"/libpmx.so.* "$dir/alone"
printf '#include <pmx/pmx.h>\n#include <stdio.h>\nint main(int argc, char **argv) {
	struct pmx_node *node;
	int result = pmx_node_attach(&node, argv[argc - 1], NULL);
	puts(pmx_strerror(result));
	return -result;
}\n' >"$dir/attach.c"
said() { # NAME TEXT [VARIABLE=VALUE...]
	env "${@:3}" timeout 100 "$dir/attach" "${tag}0" >"$log" 2>&1
	grep -q -- "$2" "$log" && ok "$1" || not_ok "$1" "it does not say '$2'" "$log"
}
links attach libpmx "$dir/attach.c" || not_ok installed__attach "" "$log"
said installed_alone__secondary 'without libpmx-dpdk.so' PMX_ATTACH=secondary LD_LIBRARY_PATH="$dir/alone"
said installed_alone__any '^success' LD_LIBRARY_PATH="$dir/alone"
printf '#include <pmx/pmx.h>\n#include <stdio.h>\nint main(void) {
	struct pmx_node *node;
	const struct pmx_node_params params = {.size = sizeof(params), .config_file = "%s"};
	char error[512] = "started";
	pmx_node_start(&node, &params, error, sizeof(error));
	puts(error);
}\n' "$dir/0.ini" >"$dir/embedded.c"
links attach libpmx "$dir/embedded.c" || not_ok installed__embedded "" "$log"
said installed_alone__embedded 'package libpmx-dpdk): libpmx-dpdk.so' LD_LIBRARY_PATH="$dir/alone"
export PMX_ATTACH=thin
if links example libpmx "$documents/examples/example.c"; then
	start "$dir/serves.log" timeout 100 "$dir/example" "${tag}1"
	timeout 100 "$dir/example" "${tag}0" 1 >"$log" 2>&1 && wait "$last" && ok installed_example__example ||
		not_ok installed_example__example "" "$log"
else
	not_ok installed_example__example "" "$log"
fi
links ring libpmx-job "$documents/examples/ring.c" &&
	PMX_INSTANCE=${tag}0 timeout 100 "$bin/pmx-run" -n 3 "$dir/ring" >"$log" 2>&1 && ok installed_example__ring ||
	not_ok installed_example__ring "" "$log"
for name in matmul sor sort; do
	links "$name" libpmx-dsm "$documents/examples/dsm/$name.c" -lm ||
		{ not_ok "installed_example__$name" "" "$log"; continue; }
	start "$dir/member.log" timeout 100 "$dir/$name" "${tag}1" 1 0:5 1:5
	timeout 100 "$dir/$name" "${tag}0" 0 0:5 1:5 >"$log" 2>&1 && wait "$last" && ok "installed_example__$name" ||
		not_ok "installed_example__$name" "" "$log"
done
"$bin/pmx-ctl" --instance "${tag}0" stat >"$log" 2>&1 && ok installed__ctl || not_ok installed__ctl "" "$log"

unit=$root$prefix/lib/systemd/system/pmx-dpdk.service
grep -q "^ExecStart=$prefix/$(option bindir)/pmx-dpdk " "$unit" && [ -f "$share/pmx-dpdk/configurations/nic.ini" ] &&
	[ -x "$share/pmx-dpdk/hugepages.sh" ] && [ -x "$share/pmx-dpdk/pmx-slurm.sh" ] && ! grep -q '@[a-z]*@' "$unit" &&
	ok installed__unit || not_ok installed__unit "" "$unit"
if [ -x "$(command -v systemd-analyze)" ]; then
	sed "s|$prefix/$(option bindir)|$bin|" "$unit" >"$dir/pmx-dpdk.service"
	systemd-analyze verify --man=no "$dir/pmx-dpdk.service" >"$log" 2>&1
	grep -q pmx-dpdk "$log" && not_ok installed__unit_verified "" "$log" || ok installed__unit_verified
else
	echo "ok installed__unit_verified # SKIP needs systemd-analyze"
fi
for n in "$share"/pmx-dpdk/configurations/*.ini; do
	"$bin/pmx-dpdk" --no-pci --no-huge -m 64 -- --check "$n" >"$log" 2>&1
	grep -q 'unknown key\|unknown section\|is not a' "$log" && not_ok "installed__$(basename "$n")" "" "$log"
done
ok installed__configurations
# what a shell would offer after these words
offers() {
	PATH=$bin:$PATH bash -c '. "$1"; shift; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _pmx "$1"; echo "${COMPREPLY[@]}"' - \
		"$share/bash-completion/completions/$1" "$@"
}
[ "$(offers pmx-ctl do)" = doctor ] && [[ " $(offers pmx-perf --re) " = *" --respond "* ]] && [ -n "$(offers pmx-run --)" ] && ok installed__completion ||
	not_ok installed__completion "$(offers pmx-ctl do), $(offers pmx-perf --re), $(offers pmx-run --)"
for n in 0 1; do
	end "${primary[n]}"
done
exit $failed
