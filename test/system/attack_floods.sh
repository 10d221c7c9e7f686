#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: attack_floods.sh BUILD_DIR
# What the good nodes of attack.sh have left beside floods and beside a node that lies.
exec "$(dirname "$0")/attack.sh" "${1:?BUILD_DIR}" floods
