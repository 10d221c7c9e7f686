#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# The folders use each other as the table in doc/internals/architecture.md says, and nothing goes in circles: neither headers nor
# calls. layers.py does it, and tries as well that it refuses what it should.
#
#   layers.sh DIR_WITH_LIB             (the static libraries below it)
#   layers.sh --circles DIR_WITH_LIB   prints the circles of calls, and a shortest way around from each source
exec python3 "$(dirname "$0")/layers.py" "$@"
