#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# Instructions per message or transfer in every shape, by callgrind: see instructions.py --help.
exec python3 "$(dirname "$0")/instructions.py" "$@"
