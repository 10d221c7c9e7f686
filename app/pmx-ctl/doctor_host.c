/* SPDX-License-Identifier: BSD-3-Clause
 *
 * doctor, the machine: rights, hugepages, IOVA mode, DPDK, CPUs, clocks, limits. Only reads /proc
 * and /sys; it reports what a virtual machine or container hides, and does not guess.
 */
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <rte_version.h>

#include "channel/instance.h"
#include "ctl.h"

#define HUGE_2M      (2u << 20)
#define NODE_DIRS    "/sys/devices/system/node/node[0-9]*"
#define HUGEPAGES_SH "sudo dpdk-config/hugepages.sh"

/* ------------------------------------------------------------------ DPDK, rights */

static void
check_dpdk(struct doctor *d)
{
	unsigned year = 0, month = 0;

	if (sscanf(rte_version(), "DPDK %u.%u", &year, &month) != 2 || 100 * year + month < 2211)
		found(d, FAIL, "DPDK", "sudo apt-get install libdpdk-dev, of Debian 12 or newer",
			"%s: older than 22.11", rte_version());
	else
		found(d, OK, "DPDK", NULL, "%s", rte_version());
}

struct rights {
	unsigned mounts, writable;
};

static struct rights rights;

static void
count_writable(void *unused, const char *dir, uint64_t page_bytes)
{
	(void)unused, (void)page_bytes;
	rights.mounts++;
	rights.writable += access(dir, W_OK) == 0;
}

static void
check_rights(struct doctor *d)
{
	rights = (struct rights){0};
	each_huge_mount(count_writable, NULL);
	if (geteuid() == 0)
		found(d, OK, "rights", NULL, "root");
	else if (rights.writable)
		found(d, OK, "rights", NULL,
			"user %u, %u of %u hugepage mounts writable: enough for link drivers udp "
			"and loop",
			geteuid(), rights.writable, rights.mounts);
	else
		found(d, FAIL, "rights",
			"run pmx-dpdk as root, or mount hugepages for this user: "
			"mount -t hugetlbfs -o uid=UID,pagesize=2M none DIR, and --huge-dir DIR",
			"user %u, and none of %u hugepage mounts is writable", geteuid(),
			rights.mounts);
}

/* ------------------------------------------------------------------ hugepages */

static void
check_pages_of(struct doctor *d, const char *node_dir, uint64_t *total, uint64_t *free_pages)
{
	char path[CTL_PATH_MAX], check[64];

	snprintf(path, sizeof(path), "%s/hugepages/hugepages-2048kB/nr_hugepages", node_dir);
	uint64_t pages = read_u64(path, 0);

	snprintf(path, sizeof(path), "%s/hugepages/hugepages-2048kB/free_hugepages", node_dir);
	uint64_t unused = read_u64(path, 0);

	snprintf(check, sizeof(check), "hugepages, %s", strrchr(node_dir, '/') + 1);
	*total += pages;
	*free_pages += unused;
	if (pages == 0)
		found(d, WARN, check, HUGEPAGES_SH,
			"no pages of 2 MiB: lanes there get remote memory");
	else
		found(d, OK, check, NULL,
			"%" PRIu64 " pages of 2 MiB (%" PRIu64 " MiB), %" PRIu64 " free (%" PRIu64
			" MiB)",
			pages, 2 * pages, unused, 2 * unused);
}

static void
check_pages(struct doctor *d)
{
	uint64_t total = 0, unused = 0;
	glob_t nodes = {0};

	if (glob(NODE_DIRS, 0, NULL, &nodes) == 0) {
		for (size_t i = 0; i < nodes.gl_pathc; i++)
			check_pages_of(d, nodes.gl_pathv[i], &total, &unused);
	} else {
		/* the kernel is built without NUMA */
		total = read_u64("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", 0);
		unused = read_u64("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", 0);
	}
	globfree(&nodes);
	if (total == 0)
		found(d, FAIL, "hugepages", HUGEPAGES_SH, "no pages of 2 MiB are reserved");
	else if (unused == 0)
		found(d, WARN, "hugepages",
			HUGEPAGES_SH " reserves more; leftovers are named below",
			"%" PRIu64 " pages of 2 MiB, none free: another primary cannot start",
			total);
	else
		found(d, OK, "hugepages", NULL,
			"%" PRIu64 " of %" PRIu64 " pages of 2 MiB are free", unused, total);
}

static unsigned mounts_2m;

static void
check_mount(void *doctor, const char *dir, uint64_t page_bytes)
{
	struct doctor *d = doctor;
	char check[128];
	bool writable = access(dir, W_OK) == 0;

	snprintf(check, sizeof(check), "hugepage mount");
	mounts_2m += page_bytes == HUGE_2M;
	found(d, writable ? OK : WARN, check,
		writable ? NULL : "run pmx-dpdk as the user that owns it",
		"%s, pages of %" PRIu64 " KiB, %s", dir, page_bytes >> 10,
		writable ? "writable" : "not writable");
}

static void
check_mounts(struct doctor *d)
{
	mounts_2m = 0;
	each_huge_mount(check_mount, d);
	if (mounts_2m == 0)
		found(d, FAIL, "hugepage mount",
			"mount -t hugetlbfs -o pagesize=2M none /dev/hugepages; " HUGEPAGES_SH,
			"no hugetlbfs with pages of 2 MiB is mounted");
}

/* ------------------------------------------------------------------ IOVA */

static void
check_iova(struct doctor *d)
{
	char noiommu[8];
	glob_t groups = {0};
	size_t count = glob("/sys/kernel/iommu_groups/[0-9]*", 0, NULL, &groups) == 0
		? groups.gl_pathc
		: 0;

	globfree(&groups);
	read_line("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode", noiommu,
		sizeof(noiommu));
	if (count > 0)
		found(d, OK, "IOVA mode", NULL, "VA: %zu IOMMU groups; vfio-pci is safe", count);
	else if (geteuid() == 0)
		found(d, OK, "IOVA mode", NULL,
			"PA: no IOMMU groups (intel_iommu=on or amd_iommu=on on the kernel command "
			"line, "
			"where there is one); ports on vfio-pci need its no-IOMMU mode (%s)",
			*noiommu == 'Y' ? "on" : "off");
	else
		found(d, WARN, "IOVA mode",
			"link drivers udp and loop need none of this; for PCI ports run as root",
			"VA without IOMMU groups: physical addresses are hidden from user %u",
			geteuid());
}

/* ------------------------------------------------------------------ CPUs */

static void
check_cpus(struct doctor *d)
{
	char isolated[256];
	cpu_set_t set;
	int mine = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 0;
	long online = sysconf(_SC_NPROCESSORS_ONLN);

	if (online < 2)
		found(d, WARN, "CPUs", "engine.idle = yield, adaptive or sleep",
			"one: a lane and applications share it, and spin or pause would starve "
			"them");
	else
		found(d, OK, "CPUs", NULL, "%ld online, %d for this process: engine.lanes up to %d",
			online, mine, mine > 1 ? mine - 1 : 1);
	read_line("/sys/devices/system/cpu/isolated", isolated, sizeof(isolated));
	if (*isolated)
		found(d, OK, "isolated CPUs", NULL, "%s: place lanes there with '-l %s --'",
			isolated, isolated);
	else
		found(d, OK, "isolated CPUs", NULL,
			"none; for engine.idle = spin: isolcpus=LIST nohz_full=LIST rcu_nocbs=LIST "
			"on the "
			"kernel command line");
}

static void
check_governor(struct doctor *d)
{
	const char *governors = "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor";
	char first[64] = "", name[64];
	unsigned count = 0, slow = 0;
	glob_t files = {0};

	if (glob(governors, 0, NULL, &files) == 0) {
		for (size_t i = 0; i < files.gl_pathc; i++) {
			if (!read_line(files.gl_pathv[i], name, sizeof(name)))
				continue;
			count++;
			if (strcmp(name, "performance") == 0)
				continue;
			slow++;
			snprintf(first, sizeof(first), "%s", name);
		}
	}
	globfree(&files);
	if (count == 0)
		found(d, OK, "CPU governor", NULL,
			"not visible: the hypervisor or firmware decides");
	else if (slow)
		found(d, WARN, "CPU governor", "sudo cpupower frequency-set -g performance",
			"'%s' on %u of %u CPUs: adds microseconds after each pause", first, slow,
			count);
	else
		found(d, OK, "CPU governor", NULL, "performance on %u CPUs", count);
}

/* ------------------------------------------------------------------ clock, memory, limits */

/* Return whether `flag` is a word of the first "flags" line of /proc/cpuinfo; -1: there is no such
 * line. */
static int
cpu_flag(const char *flag)
{
	FILE *f = fopen("/proc/cpuinfo", "r");
	char *line = NULL, *rest, *word;
	size_t size = 0;
	int has = -1;

	while (f != NULL && has < 0 && getline(&line, &size, f) > 0) {
		if (strncmp(line, "flags", 5) != 0)
			continue;
		has = 0;
		for (word = strtok_r(line, " \t\n", &rest); word;
			word = strtok_r(NULL, " \t\n", &rest))
			has |= strcmp(word, flag) == 0;
	}
	free(line);
	if (f != NULL)
		fclose(f);
	return has;
}

static void
check_clock(struct doctor *d)
{
	int constant = cpu_flag("constant_tsc"), nonstop = cpu_flag("nonstop_tsc");
	char source[64];

	read_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
		sizeof(source));
	if (constant == 0 || nonstop == 0)
		found(d, WARN, "time stamp counter",
			"a hypervisor that passes invariant TSC to the guest (cpu "
			"host-passthrough)",
			"not %s: round-trip times and timers drift with the frequency (clock "
			"source %s)",
			constant ? "nonstop_tsc" : "constant_tsc", source);
	else if (constant < 0)
		found(d, OK, "time stamp counter", NULL, "not x86: a constant generic timer");
	else
		found(d, OK, "time stamp counter", NULL,
			"constant_tsc, nonstop_tsc; clock source %s",
			*source ? source : "not visible");
}

static void
check_thp(struct doctor *d)
{
	char modes[128];

	if (!read_line("/sys/kernel/mm/transparent_hugepage/enabled", modes, sizeof(modes)))
		found(d, OK, "transparent hugepages", NULL, "not in this kernel");
	else if (strstr(modes, "[always]"))
		found(d, WARN, "transparent hugepages",
			"echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled",
			"%s: compaction stalls processes at random; DPDK has hugepages of its own",
			modes);
	else
		found(d, OK, "transparent hugepages", NULL, "%s", modes);
}

static const char *
limit_text(rlim_t v, char *out, size_t size)
{
	if (v == RLIM_INFINITY)
		return "unlimited";
	snprintf(out, size, "%llu", (unsigned long long)v);
	return out;
}

/* Check that the limits of descriptors and of locked memory suffice. The EAL keeps a descriptor for
 * each hugepage, the primary two for each context. */
static void
check_limits(struct doctor *d)
{
	uint64_t pages = read_u64("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", 0);
	const uint64_t others = 2 * 64 + 64;
	struct rlimit r;
	char soft[32], hard[32];

	if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
		bool few = r.rlim_cur != RLIM_INFINITY && r.rlim_cur < pages + others;

		found(d, few ? WARN : OK, "RLIMIT_NOFILE",
			few ? "ulimit -n 65536, LimitNOFILE=65536 in the systemd unit, or -m MIB "
			      "before --"
			    : NULL,
			"%s (hard %s); a primary with all %" PRIu64
			" hugepages needs about %" PRIu64,
			limit_text(r.rlim_cur, soft, sizeof(soft)),
			limit_text(r.rlim_max, hard, sizeof(hard)), pages, pages + others);
	}
	if (getrlimit(RLIMIT_MEMLOCK, &r) == 0) {
		bool little = geteuid() != 0 && r.rlim_cur < (64u << 20);

		found(d, little ? WARN : OK, "RLIMIT_MEMLOCK",
			little ? "ulimit -l unlimited, or LimitMEMLOCK=infinity in the systemd unit"
			       : NULL,
			"%s bytes%s", limit_text(r.rlim_cur, soft, sizeof(soft)),
			geteuid() == 0   ? "; does not bind root"
				: little ? ": vfio-pci and af_xdp cannot pin their memory"
					 : "");
	}
}

void
doctor_host(struct doctor *d)
{
	check_dpdk(d);
	check_rights(d);
	check_pages(d);
	check_mounts(d);
	check_iova(d);
	check_cpus(d);
	check_governor(d);
	check_clock(d);
	check_thp(d);
	check_limits(d);
}
