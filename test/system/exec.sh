#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: exec.sh BUILD_DIR
# An application whose memory others may write calls exec: its new program's memory is not written
# (exec.c). Root, hugepages.
set -u
. "$(dirname "$0")/common.bash"

need_hugepages exec 64
cat >"$dir/0.ini" <<INI
[node]
id = 0
name = ${tag}0
[link 0]
driver = loop
port = exec
[limits]
contexts = 4
mbufs = 8192
[nodes]
0 = auto
INI
primary 0 --lcores 0@0 -m 128 || { not_ok exec__primary "it did not start" "$dir/0.log"; exit 1; }
if timeout 60 "$build/test/exec" "${tag}0" >"$dir/exec.log" 2>&1; then
	ok exec__new_programs_memory_is_not_written
	grep '^#' "$dir/exec.log"
else
	not_ok exec__new_programs_memory_is_not_written "exit code $?" "$dir/exec.log"
fi
exit $failed
