#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The sources and what is written about them are tidy: formatted, no line too long, nothing declared
# or exported in vain, one library to a prefix, and no name that does not exist. tidy.py does it and
# says what each check asks.
#
#   tidy.sh BUILD_DIR/lib   checks; prints "ok tidy__X", "not ok tidy__X why", "skip tidy__X why"
#   tidy.sh --sources       the same without what a build is needed for, for a commit hook
#   tidy.sh --fix           formats the sources, and wraps their comments and strings, in place
set -u

here=$(cd "$(dirname "$0")" && pwd)
if [ $# -ne 1 ]; then
	echo "usage: tidy.sh BUILD_DIR/lib | --sources | --fix" >&2
	exit 2
fi
exec python3 "$here/tidy.py" "$1"
