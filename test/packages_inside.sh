#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: packages_inside.sh
# Run by test/chroot.sh packages in a Debian that has booted with systemd, with the packages installed, and in /pmx-dpdk: this
# script, example.c, the program `restart`, and in `later` the packages of a later version. Uses the service as a user and an
# administrator would, and prints "ok NAME" or "not ok NAME why". It ends with all packages purged.
set -u
cd /pmx-dpdk || exit 2
failed=0 file=/pmx-dpdk/counts applications=2

ok() { echo "ok $1"; }
not_ok() { # NAME WHY
	echo "not ok $1 $2"
	{ systemctl --no-pager -l status pmx-dpdk; journalctl --no-pager -u pmx-dpdk -n 30; cat log 2>/dev/null | tail -30; } 2>&1 | sed 's/^/# /'
	failed=1
}
# holds NAME COMMAND...
holds() {
	local name=$1
	shift
	"$@" >log 2>&1 && ok "$name" || not_ok "$name" "$*"
}
# wait_for COMMAND...: within a minute
wait_for() {
	local i
	for ((i = 0; i < 600; i++)); do
		"$@" >/dev/null 2>&1 && return
		sleep 0.1
	done
	return 1
}
main_pid() { systemctl show -p MainPID --value pmx-dpdk; }
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }

# ---- a service without a configuration does nothing, and fails nothing
holds packages_unit__waits_for_a_configuration bash -c 'systemctl start pmx-dpdk && ! systemctl is-active pmx-dpdk && ! systemctl is-failed pmx-dpdk'
for n in 0 1; do
	cat >$n.ini <<-END
		[node]
		id = $n
		name = pmx$n
		[engine]
		idle = adaptive
		[link 0]
		driver = udp
		listen = 127.0.0.1:$((19000 + n))
		[proto]
		rto_max_us = 50000
		retries = 100
		keepalive_ms = 200
		[access]
		mode = 0666
		[limits]
		mbufs = 8192
		contexts = 16
		send_buffers = 64
		receive_buffers = 64
		[discovery]
		listen = 127.0.0.1:$((19100 + n))
		seed = 127.0.0.1:19100
		name = node$n
	END
done
cp 0.ini /etc/pmx-dpdk/node.ini
sed -i 's/^PMX_EAL_ARGS=.*/PMX_EAL_ARGS=--no-pci --no-huge -m 128 -l 0/; s/^PMX_HUGEPAGES_MB=.*/&0/' /etc/default/pmx-dpdk
holds packages_unit__starts systemctl start pmx-dpdk
holds packages_unit__is_active systemctl is-active pmx-dpdk pmx-hugepages
exposure=$(systemd-analyze security --no-pager pmx-dpdk.service | sed -n 's/.*exposure level for pmx-dpdk.service: \([0-9.]*\).*/\1/p')
echo "# systemd-analyze security: $exposure"
awk -v e="${exposure:-10}" 'BEGIN {exit !(e < 3)}' && ok packages_unit__exposed_little || not_ok packages_unit__exposed_little "$exposure"
pmx-dpdk --no-pci --no-huge -m 128 -l 1 -- --background 1.ini >1.log 2>&1 && ok packages__in_the_background || not_ok packages__in_the_background "$(tail -3 1.log)"

# ---- an application, built by the packages' own files, and run by nobody
holds packages_dev__builds bash -c 'cc -Wall -Werror -o example /usr/share/doc/libpmx-dev/examples/example.c $(pkg-config --cflags --libs libpmx)'
! ldd ./example | grep -q librte && ok packages_dev__needs_no_dpdk || not_ok packages_dev__needs_no_dpdk "$(ldd ./example)"
for i in 1 2 3; do
	as_nobody timeout 60 ./example pmx1 >served 2>&1 &
	as_nobody timeout 60 ./example pmx0 1 >log 2>&1 && wait $! && ok "packages_hello__$i" || not_ok "packages_hello__$i" "$(cat served)"
done
holds packages_ctl__sees_the_other bash -c 'pmx-ctl --instance pmx0 peers | grep -qw up && pmx-ctl --instance pmx1 stat'

# ---- the exporter, as a service
holds packages_exporter__starts systemctl start pmx-exporter
exported() { bash -c 'exec 3<>/dev/tcp/127.0.0.1/9818; printf "GET /metrics HTTP/1.0\r\n\r\n" >&3; cat <&3' | grep -aq 'pmx_peer_up{primary="pmx0",peer="1",peer_name="node1"} 1'; }
wait_for exported && ok packages_exporter__serves || not_ok packages_exporter__serves "$(systemctl status pmx-exporter)"
exposure=$(systemd-analyze security --no-pager pmx-exporter.service | sed -n 's/.*exposure level for pmx-exporter.service: \([0-9.]*\).*/\1/p')
echo "# systemd-analyze security: $exposure"
awk -v e="${exposure:-10}" 'BEGIN {exit !(e < 3)}' && ok packages_exporter__exposed_little || not_ok packages_exporter__exposed_little "$exposure"
holds packages_exporter__stops systemctl stop pmx-exporter

# one EAL's files, or two while one takes over
files_of_one() { [ "$(find /run/dpdk -mindepth 1 -maxdepth 1 -name 'pmx0*' ! -type l | wc -l)" -eq 1 ]; }
# ---- under load: another program takes over, is upgraded, is restarted
for ((k = 0; k < applications; k++)); do
	as_nobody touch $file 2>/dev/null || { touch $file; chmod 666 $file; }
	PMX_ATTACH=thin as_nobody ./restart app $file pmx0 $((2 * k)) $k 1 $k $((2 * k + 1)) >app$k.log 2>&1 &
	PMX_ATTACH=thin as_nobody ./restart app $file pmx1 $((2 * k + 1)) $k 0 $k $((2 * k)) >peer$k.log 2>&1 &
done
all_move() { wait_for ./restart moved $file $((2 * applications)) "$(./restart now $file)"; }
holds packages_load__moves all_move
before=$(main_pid)
holds packages_reload__takes_over systemctl reload pmx-dpdk
holds packages_reload__goes_on all_move
wait_for files_of_one && ok packages_reload__leaves_no_files || not_ok packages_reload__leaves_no_files "$(ls -lR /run/dpdk)"
after=$(main_pid)
[ "$before" != "$after" ] && ! kill -0 "$before" 2>/dev/null && systemctl -q is-active pmx-dpdk && ok packages_reload__systemd_knows_the_main_process ||
	not_ok packages_reload__systemd_knows_the_main_process "$before, then $after"
for i in 1 2 3 4 5; do
	holds "packages_reload__again_$i" systemctl reload pmx-dpdk
done
holds packages_reload__goes_on_again all_move
[ "$(journalctl -o cat -u pmx-dpdk _PID="$(main_pid)" | grep -c 'took over')" -eq 1 ] &&
	journalctl -o cat -p info -u pmx-dpdk | grep -q 'pmx.peer: node 1 is up' && ! journalctl -o cat -p notice -u pmx-dpdk | grep -q 'pmx.peer: node 1 is up' &&
	ok packages_journal__has_levels_and_each_line_once || not_ok packages_journal__has_levels_and_each_line_once "$(journalctl -u pmx-dpdk -o json-pretty -n 3)"
before=$(main_pid)
holds packages_upgrade__installs dpkg -i later/*.deb
holds packages_upgrade__goes_on all_move
after=$(main_pid)
[ "$before" != "$after" ] && [[ $(readlink "/proc/$after/exe") = /usr/bin/pmx-dpdk ]] && ok packages_upgrade__new_program_runs ||
	not_ok packages_upgrade__new_program_runs "$before, then $after: $(readlink "/proc/$after/exe")"
sed -i 's/^contexts = .*/contexts = 24/' /etc/pmx-dpdk/node.ini
before=$after
systemctl reload pmx-dpdk >log 2>&1 && not_ok packages_reload__another_size "it succeeded" || ok packages_reload__another_size
[ "$(main_pid)" = "$before" ] && systemctl -q is-active pmx-dpdk && all_move && ok packages_reload__fails_and_the_old_goes_on ||
	not_ok packages_reload__fails_and_the_old_goes_on "$before, then $(main_pid)"
wait_for files_of_one && ok packages_reload__that_fails_leaves_no_files || not_ok packages_reload__that_fails_leaves_no_files "$(ls -lR /run/dpdk)"
cp 0.ini /etc/pmx-dpdk/node.ini
./restart stop $file
wait
holds packages_load__nothing_lost_by_them ./restart check $file $((2 * applications))
sed 's/^/# /' log
grep -h . app*.log peer*.log | head -5 | sed 's/^/# /'
rm -f $file
touch $file && chmod 666 $file
for ((k = 0; k < applications; k++)); do
	PMX_ATTACH=thin as_nobody ./restart app $file pmx0 $((2 * k)) $k 1 $k $((2 * k + 1)) >app$k.log 2>&1 &
	PMX_ATTACH=thin as_nobody ./restart app $file pmx1 $((2 * k + 1)) $k 0 $k $((2 * k)) >peer$k.log 2>&1 &
done
holds packages_restart__moves all_move
for i in 1 2 3; do
	holds "packages_restart__$i" systemctl restart pmx-dpdk
	holds "packages_restart__goes_on_$i" all_move
	wait_for files_of_one && ok "packages_restart__leaves_no_files_$i" || not_ok "packages_restart__leaves_no_files_$i" "$(ls -lR /run/dpdk)"
done
./restart stop $file
wait
holds packages_restart__nothing_lost ./restart check $file $((2 * applications))

# ---- remove, purge
pkill -TERM -f 'pmx-dpdk .*1.ini' && wait_for bash -c '! pgrep -f "pmx-dpdk .*1.ini"'
pid=$(main_pid)
mapfile -t names < <(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' | sed -n 's/^ii *\(.*pmx.*\)/\1/p')
holds packages_remove apt-get remove -y "${names[@]}"
! kill -0 "$pid" 2>/dev/null && ok packages_remove__stops_it || not_ok packages_remove__stops_it "$pid"
[ -f /etc/pmx-dpdk/node.ini ] && ok packages_remove__keeps_the_configuration || not_ok packages_remove__keeps_the_configuration ""
holds packages_purge dpkg --purge "${names[@]}"
left=$(find / -xdev \( -path /pmx-dpdk -o -path /proc -o -path /sys -o -path /var/log -o -path /var/cache -o -path /tmp \) -prune -o -iname '*pmx*' -print; find /run -iname '*pmx*' ! -path '/run/systemd/*'; ls -d /dev/hugepages/*pmx* 2>/dev/null)
[ -z "$left" ] && ok packages_purge__leaves_nothing || not_ok packages_purge__leaves_nothing "$left"
exit $failed
