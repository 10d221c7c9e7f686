#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# libpmx exports the verbs of include/pmx and nothing else, all of one version, which is its soname's and the header's too, and holds nothing of what only a primary does
# (lib/primary). For the library with DPDK and for the one without; libpmx-dsm those of pmx/dsm.h, and libpmx-job those of pmx/job.h.
#
#   exports.sh BUILD_DIR/lib
set -u

root=$(cd "$(dirname "$0")/../.." && pwd)
lib=${1:?usage: exports.sh BUILD_DIR/lib}
failed=0
# the interface that programs are compiled for: the first two numbers of the version
interface=$(sed -nE 's/^#define PMX_VERSION +"([0-9]+\.[0-9]+)\..*/\1/p' "$root/include/pmx/pmx.h")

verdict() { # NAME WHY: good if WHY is empty
	if [ -z "$2" ]; then
		echo "ok $1"
	else
		echo "not ok $1 $2"
		failed=1
	fi
}

headers() { # LIBRARY
	find "$root/include/pmx" -name '*.h' | case $1 in libpmx-*) grep "/${1#libpmx-}\.h$" ;; *) grep -vE '/(dsm|job)\.h$' ;; esac
}

declared() {
	headers "$1" | xargs cat | sed -z 's:/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/::g' | sed 's://.*::' | grep -oE '\bpmx_[a-z_]+\(' | tr -d '(' | sort -u
}

for name in libpmx thin/libpmx libpmx-dsm libpmx-job; do
	so=$(readlink -f "$lib/$name.so")
	title=${name/\//_}
	if [ ! -f "$so" ]; then
		verdict "exports__$title" "there is no $lib/$name.so: build first"
		continue
	fi
	versioned=$(nm -D --defined-only "$so" | awk '$2 != "A" {print $3}' | sort -u)
	exported=$(sed 's/@.*//' <<<"$versioned" | sort -u)
	verdict "exports__${title}_only_verbs" "$(grep -v '^pmx_' <<<"$exported" | head -3 | paste -sd' ')"
	verdict "exports__${title}_all_that_is_declared" \
		"$(comm -23 <(declared "$name") <(echo "$exported") | grep -vxF -f <(sed -n 's/^static inline.*\(pmx_[a-z_]*\)(.*/\1/p' "$root"/include/pmx/*.h) | head -3 | paste -sd' ')"
	verdict "exports__${title}_soname" "$(readelf -d "$so" | grep -q "SONAME.*\[${name##*/}\.so\.$interface\]" || echo "it is not ${name##*/}.so.$interface")"
	verdict "exports__${title}_versions" "$(grep -v "@@PMX_$interface\$" <<<"$versioned" | head -3 | paste -sd' ')"
	# debug builds have names; others are told by strings that only these sources have
	verdict "exports__${title}_nothing_of_a_primary" \
		"$(nm "$so" 2>/dev/null | grep -E ' [Tt] (attach_serve|telemetry_serve|takeover_|socket_open)' | head -1)$(strings -a "$so" | grep -m1 -E '^/pmx/(stat|peers)|pmx-takeover$')"
done
exit $failed
