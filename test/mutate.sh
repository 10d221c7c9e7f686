#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: test/mutate.sh [--json] [--keep DIR] [--again DIR] [--log FILE] [--jobs J] [--patience S] [--list] [FILE | FOLDER]... [N [SEED]]
# Breaks N (300) lines of the code one at a time, chosen by SEED (1): an operator, a constant, a statement, a condition, a
# result. Builds each in a copy of the tree, runs the quick tests, and lists what none of them noticed. FILE or FOLDER:
# default the protocol core, the LHS ring, matching, remote memory, channels, lanes, and the services of groups and collectives,
# each folder by its lines of code. What does not compile, or to the same object code, is replaced by another and counted apart.
# --keep DIR writes each survivor there as a patch; --again DIR judges the patches that are there, and no others; --log FILE
# appends each result, and takes what is there for done, so that a run that was ended goes on; --jobs J works in J copies at once;
# --patience S: what no suite has noticed after S seconds is said to survive, so that fewer are noticed than would be;
# --list only shows what would be done; --json prints the result as JSON.
# Exit code 0 if it ran: it is a tool, and no test. Some 10 s for each on a core of its own, minutes for one that
# nothing notices. Without root and hugepages the system tests among the suites notice nothing.
set -eu

case ${1:-} in
-h | --help)
	sed -n '4,17s/^#[ ]\{0,1\}//p' "$0"
	exit 0
	;;
esac
exec python3 "$(dirname "$0")/mutate.py" "$@"
