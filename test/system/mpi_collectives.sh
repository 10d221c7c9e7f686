#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: mpi_collectives.sh BUILD_DIR
# Collectives of MPI programs by pmx on two hosts, which are namespaces here: random ones beside the MPI library's own.
exec bash "$(dirname "$0")/../mpi/collectives.sh" "${1:?BUILD_DIR}"
