#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: slurm.sh BUILD_DIR
# Slurm on two hosts, which are namespaces here: test/mpi/slurm.sh.
exec bash "$(dirname "$0")/../mpi/slurm.sh" "${1:?BUILD_DIR}"
