#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: instructions.sh BUILD_DIR
# Instructions per message in every shape of test/bench/instructions.py, by callgrind, each at most
# 2 % above what test/bench/instructions.recorded says. A change that makes a shape cheaper or
# dearer records it anew: test/bench/instructions.sh --record test/bench/instructions.recorded BUILD.
set -u
. "$(dirname "$0")/common.bash"

root=$(cd "$(dirname "$0")/../.." && pwd)

command -v valgrind >/dev/null || skip_all instructions "valgrind is not installed: dpdk-config/install.sh --tests"
"$root/test/bench/instructions.sh" --check "$root/test/bench/instructions.recorded" "$build"
