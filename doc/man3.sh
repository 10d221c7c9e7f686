#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: man3.sh SOURCE_DIR OUTPUT_DIR
# Manual pages of section 3 from the public headers, by Doxygen: a page for each header, libpmx(3) for pmx.h and libpmx-coll(3)
# and so on for the others, and for each function and constant one that leads to its header's.
set -eu
out=$(realpath -m "$2")
cd "$1"
rm -rf "$out" "$out.work"
mkdir -p "$out.work"
{
	cat doc/Doxyfile
	printf 'GENERATE_HTML = NO\nGENERATE_MAN = YES\nMAN_LINKS = YES\nSTRIP_FROM_PATH = include\n'
} | OUTPUT_DIRECTORY="$out.work" doxygen -
mv "$out.work/man/man3" "$out"
rm -rf "$out.work"
cd "$out"
# its names are those of the header files; a terminal has no font C, of which groff warns since 1.23
sed -i 's|\\fC|\\fR|g; s|^\.so man3/pmx\.h\.3|.so man3/libpmx.3|; s|^\.so man3/\([a-z]*\)\.h\.3|.so man3/libpmx-\1.3|' ./*.3
mv pmx.h.3 libpmx.3
for page in *.h.3; do
	mv "$page" "libpmx-${page%.h.3}.3"
done
# Doxygen makes pages of fields too, by their bare names
for page in *.3; do
	case $page in
	PMX_API.3 | PMX_*_H.3) rm "$page" ;;
	PMX_* | pmx_* | libpmx*) ;;
	*) rm "$page" ;;
	esac
done
