#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: mpi.sh BUILD_DIR
# MPI programs of Debian over pmx, those of test/mpi/full.sh that take a minute together.
exec bash "$(dirname "$0")/../mpi/full.sh" "${1:?BUILD_DIR}" selection
