#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
#   errors.sh   pmx_strerror() has words for each error that the library returns; errors.py says how that is found
exec python3 "$(dirname "$0")/errors.py" "$(dirname "$0")/../.."
