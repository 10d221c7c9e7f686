#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: FABTESTS_DIR=DIR fabtests.sh BUILD_DIR [PROVIDER]
# libfabric's own tests (unit, functional, short) over the provider, between two processes that find each other by node and
# service: "ok" or "not ok" for each. One that is not run must be so for a reason that is listed here. DIR has the programs and
# runfabtests.sh of libfabric's fabtests, built: `./configure --prefix=DIR/.. && make install`, so that they are in DIR.
# PROVIDER: another one, for comparison ("tcp;ofi_rxm").
set -u
. "$(dirname "$0")/../system/common.bash"
provider=${2:-pmx}

need_hugepages fabtests 320
[ -x "${FABTESTS_DIR:-/nowhere}/runfabtests.sh" ] || skip_all fabtests "FABTESTS_DIR has no runfabtests.sh"

provider_node 512 || { not_ok fabtests_start ""; exit 1; }

# both sides run here: what it starts by ssh is started by a shell
mkdir "$dir/bin"
cat >"$dir/bin/ssh" <<-'END'
	#!/bin/bash
	while [[ ${1:-} == -* ]]; do
		case $1 in -o | -p | -i) shift ;; esac
		shift
	done
	shift
	exec bash -c "$*"
END
chmod +x "$dir/bin/ssh"

# reason NAME: why a test is not run
reason() {
	case $1 in
	*dgram*) echo "no datagram endpoints" ;;
	*"-e msg"* | fi_msg | fi_msg_epoll* | fi_msg_sockets* | fi_msg_pingpong* | fi_msg_bw* | fi_cm_data*) echo "no connected endpoints" ;;
	fi_shared_ctx*) echo "no shared contexts" ;;
	fi_scalable_ep*) echo "no scalable endpoints" ;;
	fi_rdm_shared_av*) echo "no address vectors that processes share" ;;
	fi_rdm_rma_trigger*) echo "no triggered operations" ;;
	fi_av_test*) echo "addresses are node and context numbers, not IP addresses" ;;
	*) return 1 ;;
	esac
}

PATH=$dir/bin:$PATH timeout 1500 "$FABTESTS_DIR/runfabtests.sh" -vv -T 30 -t unit,functional,short -p "$FABTESTS_DIR" "$provider" \
	127.0.0.1 127.0.0.1 >"$dir/log" 2>&1
grep -a '^# Total' "$dir/log" || not_ok fabtests "it did not come to its end" "$dir/log"
while IFS=$'\t' read -r result name; do
	label=$(tr -cs 'a-zA-Z0-9\n' _ <<<"${name#fi_}")
	case $result in
	Pass) ok "fabtests__$label" ;;
	Notrun | Excluded) why=$(reason "$name") && echo "# not run: $name: $why" || not_ok "fabtests__$label" "it is not run" ;;
	*) not_ok "fabtests__$label" "$result"; grep -aF -A 16 -- "- name:   $name -p" "$dir/log" | sed 's/^/# /' ;;
	esac
done < <(sed -n 's/^- name: *\(fi_.*\) -p ".*"$/\1/; t keep; s/^ *result: *\([A-Za-z]*\).*/\1/; t tell; d; :keep h; d; :tell G; s/\n/\t/p' "$dir/log")
exit $failed
