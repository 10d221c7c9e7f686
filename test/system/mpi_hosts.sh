#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: mpi_hosts.sh BUILD_DIR
# MPI on two hosts, which are namespaces here: what of test/mpi/hosts.sh takes half a minute.
exec bash "$(dirname "$0")/../mpi/hosts.sh" "${1:?BUILD_DIR}" selection
