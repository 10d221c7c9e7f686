#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: kubernetes.sh BUILD_DIR
# The Kubernetes manifest is YAML, and its commands and its configuration are those of this build.
set -u
. "$(dirname "$0")/common.bash"
manifest=$(dirname "$0")/../../dpdk-config/kubernetes/pmx-dpdk.yaml

if /usr/bin/python3 -c 'import yaml' 2>/dev/null; then
	passes kubernetes__is_yaml /usr/bin/python3 -c 'import sys, yaml; kinds = [d["kind"] for d in yaml.safe_load_all(open(sys.argv[1]))]; assert kinds == ["ConfigMap", "DaemonSet"], kinds' "$manifest"
else
	echo "ok kubernetes__is_yaml # SKIP python3-yaml is not installed: dpdk-config/install.sh --tests"
fi
# its configuration, as the container's command makes it
sed -n '/^  node.ini: |/,/^  # /p' "$manifest" | sed '1d;$d; s/^    //; s/%NODE%/0/; s|/etc/pmx-dpdk/nodes|nodes|' >"$dir/node.ini"
sed -n '/^  nodes: |/,/^---/p' "$manifest" | sed '1d;$d; s/^    //' >"$dir/nodes"
passes kubernetes__configuration "$build/app/pmx-dpdk" --no-pci --no-huge -m 1024 -l 0 -- --check "$dir/node.ini"
exit $failed
