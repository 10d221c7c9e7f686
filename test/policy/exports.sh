#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# libpmx exports the verbs of include/pmx, all of one version, which is its soname's and the header's too; beside them what its part with DPDK calls, pmxprivate_* of
# PMX_PRIVATE, and nothing else. It needs no DPDK. libpmx-dpdk exports itself alone; libpmx-dsm the verbs of pmx/dsm.h, and libpmx-job those of pmx/job.h. None holds what
# only a primary does (lib/primary).
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

for name in libpmx libpmx-dpdk libpmx-dsm libpmx-job; do
	so=$(readlink -f "$lib/$name.so")
	if [ ! -f "$so" ]; then
		verdict "exports__$name" "there is no $lib/$name.so: build first"
		continue
	fi
	all=$(nm -D --defined-only "$so" | awk '$2 != "A" {print $3}' | sort -u)
	private=$(grep '^pmxprivate_.*@@PMX_PRIVATE$' <<<"$all" | sed 's/@.*//')
	versioned=$(grep -v '^pmxprivate_.*@@PMX_PRIVATE$' <<<"$all")
	exported=$(sed 's/@.*//' <<<"$versioned" | sort -u)
	# what the part with DPDK takes of libpmx, each of it and no more
	case $name in
	libpmx) wanted=$(nm -D --undefined-only "$lib/libpmx-dpdk.so" | grep -o 'pmxprivate_[a-z_]*' | sort) ;;
	libpmx-dpdk) wanted=pmxprivate_dpdk_part ;;
	*) wanted= ;;
	esac
	verdict "exports__${name}_private" "$(diff <(echo "$private") <(echo "$wanted") | grep '^[<>]' | paste -sd' ')"
	[ $name = libpmx-dpdk ] || verdict "exports__${name}_without_dpdk" "$(readelf -d "$so" | grep -o 'NEEDED.*librte[^]]*' | head -1)"
	verdict "exports__${name}_only_verbs" "$(grep -v '^pmx_' <<<"$exported" | head -3 | paste -sd' ')"
	verdict "exports__${name}_all_that_is_declared" \
		"$(comm -23 <(declared "$name") <(echo "$exported") | grep -vxF -f <(sed -n 's/^static inline.*\(pmx_[a-z_]*\)(.*/\1/p' "$root"/include/pmx/*.h) | head -3 | paste -sd' ')"
	verdict "exports__${name}_soname" "$(readelf -d "$so" | grep -q "SONAME.*\[$name\.so\.$interface\]" || echo "it is not $name.so.$interface")"
	verdict "exports__${name}_versions" "$(grep -v "@@PMX_$interface\$" <<<"$versioned" | head -3 | paste -sd' ')"
	# debug builds have names; others are told by strings that only these sources have
	verdict "exports__${name}_nothing_of_a_primary" \
		"$(nm "$so" 2>/dev/null | grep -E ' [Tt] (attach_serve|telemetry_serve|takeover_|socket_open)' | head -1)$(strings -a "$so" | grep -m1 -E '^/pmx/(stat|peers)|pmx-takeover$')"
done
exit $failed
