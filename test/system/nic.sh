#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Usage: nic.sh BUILD_DIR [TRANSFERS]
# NICs on a PCI bus, by DPDK's own drivers, on a machine that has none to spare: qemu emulates two of Intel's
# (82540EM, net_e1000_em), joined, in a guest whose root is this host's, read-only. The byte model of
# transfers.c, TRANSFERS (2000) each, where the NICs read applications' memory by DMA: through an IOMMU (VFIO, IOVA
# as VA) and by physical addresses (uio_pci_generic, IOVA as PA); and two processes attached to two primaries
# (remote.c). The IOMMU is the judge of what was mapped: it must see no fault, and it must see one when nothing is
# mapped; where it cannot reach that far (39 bits), bytes are copied. In another guest, with two NUMA nodes, the lanes of a primary have
# their memory where their CPUs are. The guest's CPU is emulated: times mean nothing.
# The guest runs BUILD_DIR's programs; if those were built for a CPU of the builder's choice, others from build-guest, where the
# kernel is, Debian's.
set -u
. "$(dirname "$0")/common.bash"

transfers=${2:-2000}
root=$(cd "$(dirname "$0")/../.." && pwd)
guest_build=$build
kernel=$root/build-guest/kernel
programs=(app/pmx-dpdk app/pmx-ctl test/transfers test/remote)
modules=(virtio_pci 9p 9pnet_virtio vfio-pci vfio_iommu_type1 uio_pci_generic)
export PATH=$PATH:/usr/sbin:/sbin

for tool in qemu-system-x86_64 busybox cpio depmod modprobe; do
	command -v $tool >/dev/null || skip_all nic "needs $tool: dpdk-config/install.sh --tests=full"
done

# ------------------------------------------------------------------ the guest

get_kernel() {
	local package
	[ -e "$kernel/vmlinuz" ] && return
	rm -rf "$kernel"
	mkdir -p "$kernel/package"
	package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image-[0-9]/{print $2; exit}')
	(cd "$kernel" && apt-get download -q "${package:-linux-image-amd64}") >"$dir/kernel.log" 2>&1 &&
		dpkg-deb -x "$kernel"/*.deb "$kernel/package" &&
		version=$(basename "$kernel"/package/lib/modules/*) &&
		depmod -b "$kernel/package" "$version" &&
		echo "$version" >"$kernel/version" &&
		cp "$kernel/package/boot/vmlinuz-$version" "$kernel/vmlinuz"
}

# What the kernel starts: it mounts this host's root and runs guest.sh there.
make_initrd() {
	local tree=$dir/initrd module file
	mkdir -p "$tree"/{bin,mods,root}
	cp "$(command -v busybox)" "$tree/bin/busybox"
	for module in "${modules[@]}"; do
		modprobe -d "$kernel/package" -S "$(cat "$kernel/version")" --show-depends $module
	done | awk '$1 == "insmod" && !seen[$2]++ {print $2}' >"$dir/modules"
	while read -r file; do
		cp "$file" "$tree/mods/" && basename "$file" >>"$tree/mods/order"
	done <"$dir/modules"
	cat >"$tree/init" <<-END
		#!/bin/busybox sh
		b=/bin/busybox
		\$b mkdir -p /proc /sys /dev
		\$b mount -t proc proc /proc
		for m in \$(\$b cat /mods/order); do \$b insmod /mods/\$m; done
		\$b mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose,ro,msize=262144 root /root
		\$b mount -t proc proc /root/proc
		\$b mount -t sysfs sys /root/sys
		\$b mount -t devtmpfs dev /root/dev
		\$b mkdir -p /root/dev/hugepages /root/dev/shm
		\$b mount -t tmpfs tmpfs /root/run
		\$b mount -t tmpfs tmpfs /root/dev/shm
		\$b chroot /root /bin/bash $dir/guest.sh
		\$b poweroff -f
	END
	chmod +x "$tree/init"
	(cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$dir/initrd.gz"
}

# What runs in the guest; the kernel's command line says with which driver.
make_script() {
	cat >"$dir/guest.sh" <<-'END'
		export PATH=/usr/sbin:/usr/bin:/sbin:/bin RUNTIME_DIRECTORY=/run
		driver=$(sed -n 's/.*pmx_driver=\([^ ]*\).*/\1/p' /proc/cmdline)
		nics=(0000:00:03.0 0000:00:04.0)
		for nic in "${nics[@]}"; do
			echo "$driver" >/sys/bus/pci/devices/$nic/driver_override
			echo $nic >/sys/bus/pci/drivers_probe
			echo "nic $nic $(basename "$(readlink -f /sys/bus/pci/devices/$nic/driver)")"
		done
		echo 600 >/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages
		mount -t hugetlbfs none /dev/hugepages
		faults() { dmesg | grep -c "DMAR: \[DMA"; }
		model() {
			timeout 200 "$build/test/transfers" --transfers "$transfers" --ports ${nics[0]},${nics[1]} "$@" 2>&1
			echo "model $* code $? faults $(faults)"
		}
		processes() {
			cd /run
			for i in 0 1; do
				printf '[node]\nid = %s\nname = nic%s\n[engine]\nidle = adaptive\n[link 0]\ndriver = ethdev\nport = %s\nmtu = 1500\n[limits]\nmbufs = 8192\ncontexts = 4\n[nodes]\n0 = 52:54:00:00:00:01\n1 = 52:54:00:00:00:02\n' \
					$i $i ${nics[i]} >$i.ini
				timeout 300 "$build/app/pmx-dpdk" -m 160 -l $i -a ${nics[i]} -- $i.ini >$i.log 2>&1 &
			done
			for k in {1..200}; do
				grep -q ready 0.log && grep -q ready 1.log && break
				sleep 0.2
			done
			timeout 200 "$build/test/remote" asleep nic0 nic1 1 1 2>&1 | grep -vE "EAL|TELEMETRY"
			echo "processes code ${PIPESTATUS[0]} faults $(faults)"
			for i in 0 1; do
				"$build/app/pmx-ctl" --instance nic$i stat --all | grep -E '^(tx_in_place|sleeps)'
				tail -n 2 $i.log
			done
		}
		# a primary with a lane on each of two NUMA nodes, and what it says of its memory
		numa() {
			cd /run
			printf '[node]\nid = 0\nname = numa\n[engine]\nidle = adaptive\nlanes = 2\n[link 0]\ndriver = loop\nport = numa\n[limits]\nmbufs = 8192\ncontexts = 4\n' >numa.ini
			timeout 300 "$build/app/pmx-dpdk" -m 128 -l 0,1 --no-pci -- numa.ini >numa.log 2>&1 &
			pid=$!
			for k in {1..200}; do
				grep -q ready numa.log && break
				sleep 0.2
			done
			"$build/app/pmx-ctl" --instance numa stat --all | grep -E '^numa' | sed "s/^/$1: /"
			"$build/app/pmx-ctl" --instance numa doctor | sed -n "s/.*\(NUMA  *.*\)/$1: doctor \1/p"
			for zone in {0..60}; do echo "/eal/memzone_info,$zone"; done | dpdk-telemetry.py -f numa |
				grep -oE '"(Name|Socket)": [^,}]*' | paste - - | sed -n "s/.*\"\(pmx_0_ch_[^\"]*\|.*inbox[^\"]*\)\".*: /$1: zone \1 on /p"
			grep -m1 'has no memory left' numa.log | sed "s/^/$1: /"
			grep '^pmx-dpdk: ' numa.log | sed "s/^/$1: /"
			kill $pid
			wait $pid
			echo "$1: code $?"
		}
		if grep -q pmx_numa /proc/cmdline; then
			numa both
			echo 0 >/sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages
			numa poor
			exit
		fi
		model $(grep -o 'pmx_copied=1' /proc/cmdline | sed 's/.*/--copied/')
		[ "$driver" != vfio-pci ] || grep -q pmx_copied /proc/cmdline || { model --unmapped; dmesg -C; processes; }
	END
	sed -i "1i build=$guest_build transfers=$transfers" "$dir/guest.sh"
}

# boot LOG DRIVER KERNEL_ARGUMENT [QEMU_ARGUMENTS...]
boot() {
	timeout --foreground -k 10 400 qemu-system-x86_64 -accel tcg,thread=multi -machine q35 -cpu max -m 3072 -smp 2 -nographic -no-reboot \
		-kernel "$kernel/vmlinuz" -initrd "$dir/initrd.gz" \
		-append "console=ttyS0 quiet panic=-1 intel_iommu=on pmx_driver=$2 $3" "${@:4}" \
		-fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
		-device virtio-9p-pci,fsdev=root,mount_tag=root,addr=2 -nic none \
		-netdev hubport,id=a,hubid=0 -device e1000,netdev=a,mac=52:54:00:00:00:01,addr=3,romfile= \
		-netdev hubport,id=b,hubid=0 -device e1000,netdev=b,mac=52:54:00:00:00:02,addr=4,romfile= \
		</dev/null >"$1" 2>&1
	sed -i 's/\r$//' "$1"
}

# judge NAME LOG PATTERN: a line of the log matches it
judge() {
	if grep -qE "$3" "$2"; then
		ok "$1"
	else
		not_ok "$1" "no line /$3/ in what the guest said:" "$2"
	fi
}

# ------------------------------------------------------------------ what they need

get_kernel || skip_all nic "no kernel for the guest: apt-get download linux-image-amd64: $(tail -1 "$dir/kernel.log")"
if ! meson introspect --buildoptions "$build" | grep -q '"name": "machine", "value": "auto"'; then
	guest_build=$root/build-guest/build
	[ -f "$guest_build/build.ninja" ] || meson setup "$guest_build" "$root" >"$dir/build.log" 2>&1
fi
if ! ninja -C "$guest_build" "${programs[@]}" >>"$dir/build.log" 2>&1; then
	not_ok nic_build "for the guest's CPU" "$dir/build.log"
	exit 1
fi
make_initrd
make_script

# ------------------------------------------------------------------ the guests

vfio() {
	local log=$dir/vfio.log
	boot "$log" vfio-pci '' -device intel-iommu,caching-mode=on,aw-bits=48
	judge nic_vfio__bound "$log" "^nic 0000:00:04.0 vfio-pci"
	judge nic_vfio__transfers_read_in_place_without_fault "$log" "^model  code 0 faults 0$"
	judge nic_vfio__between_processes "$log" "^processes code 0 faults 0$"
	judge nic_vfio__primaries_send_in_place "$log" '^tx_in_place +[1-9]'
	judge nic_vfio__unmapped_memory_is_found_out "$log" "^model --unmapped code 1 faults [1-9]"
	grep '^# ' "$log"
}

short_vfio() {
	local log=$dir/short_vfio.log
	boot "$log" vfio-pci pmx_copied=1 -device intel-iommu,caching-mode=on,aw-bits=39
	judge nic_vfio__an_iommu_that_does_not_reach_gets_copies "$log" "^model --copied code 0 faults 0$"
	grep '^# ' "$log"
}

uio() {
	local log=$dir/uio.log
	boot "$log" uio_pci_generic ''
	judge nic_uio__bound "$log" "^nic 0000:00:04.0 uio_pci_generic"
	judge nic_uio__transfers_read_in_place "$log" "^model  code 0 "
	grep '^# ' "$log"
}

numa() {
	local log=$dir/numa.log zone
	boot "$log" none pmx_numa=1 -object memory-backend-ram,id=m0,size=1536M -object memory-backend-ram,id=m1,size=1536M \
		-numa node,nodeid=0,cpus=0,memdev=m0 -numa node,nodeid=1,cpus=1,memdev=m1
	judge nic_numa__lanes_are_where_their_cpus_are "$log" '^both: numa +0 1 '
	judge nic_numa__doctor_is_content "$log" '^both: doctor NUMA .* on nodes of lanes'
	for zone in 0 1 2 3; do judge nic_numa__channel_$zone "$log" "^both: zone pmx_0_ch_$zone on $((zone % 2))"; done
	judge nic_numa__inbox "$log" '^both: zone .*inbox_1 on 1'
	judge nic_numa__ends "$log" '^both: code 0'
	judge nic_numa__poor_node_is_named "$log" '^poor: .*NUMA node 1 has no memory left for .*hugepages.sh'
	judge nic_numa__poor_node_runs "$log" '^poor: code 0'
}

beside numa
beside vfio
beside short_vfio
beside uio
all_beside
exit $failed
