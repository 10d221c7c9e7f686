#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The pure libraries call nothing: no clock, no I/O, no allocation, no log. Of the symbols that the
# given static libraries leave undefined, only those defined among them, mem*, the linker's table, and
# proto_assert_failed may be there.
#
#   pure.sh DIR_WITH_LIB   (libwire.a, libproto.a, liblhs.a, librma.a, libgroup.a, libcoll_exec.a, librails.a below it, those that exist)
#   pure.sh LIB.a...
set -u

if [ $# -eq 1 ] && [ -d "$1" ]; then
	set -- $(find "$1" -name libwire.a -o -name libproto.a -o -name liblhs.a -o \
		-name librma.a -o -name libgroup.a -o -name libcoll_exec.a -o -name librails.a)
fi
if [ $# -eq 0 ]; then
	echo "usage: pure.sh DIR_WITH_LIB | LIB.a..." >&2
	exit 2
fi
for lib in "$@"; do
	nm -g "$lib" > /dev/null || exit 2
done

{
	nm -g --defined-only "$@" 2> /dev/null | awk 'NF == 3 { print "defined", $3 }'
	nm -A -u "$@" | awk 'NF > 1 && $(NF - 1) ~ /^[Uvw]$/ { print "needs", $NF, $1 }'
} | awk '
	BEGIN {
		n = split("memcpy memset memmove memcmp proto_assert_failed _GLOBAL_OFFSET_TABLE_", names, " ")
		for (i = 1; i <= n; i++)
			allowed[names[i]] = 1
	}
	$1 == "defined" { allowed[$2] = 1 }
	$1 == "needs" && !($2 in allowed) { print $3 " needs " $2; bad = 1 }
	END { if (!bad) print "ok pure"; exit bad }'
