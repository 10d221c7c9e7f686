/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See arguments.h. Called by main before the EAL starts. Changes nothing but the limit of
 * descriptors.
 */
#include <ctype.h>
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_config.h>
#include <rte_ether.h>

#include "arguments.h"
#include "channel/instance.h"
#include "interface.h"
#include "node/sizes.h"

#define NO_HUGE_MIB 64 /* what the EAL allocates without hugepages and without -m */
#define PAGE_BYTES  4096
#define MIB_MAX     (512u << 10) /* the EAL's own limit of -m */

/* ------------------------------------------------------------------ reading */

enum option_number {
	OTHER = 256,
	FILE_PREFIX,
	HUGE_DIR_GIVEN,
	LCORES,
	SOCKET_MEM,
	SOCKET_LIMIT,
	NO_HUGE,
	IN_MEMORY,
	LEGACY_MEM,
	VDEV,
};

/* The options that matter here; the others are needed to recognise abbreviations and arguments of
 * options. */
static const struct option longs[] = {
	{"file-prefix", required_argument, NULL, FILE_PREFIX},
	{"huge-dir", required_argument, NULL, HUGE_DIR_GIVEN},
	{"lcores", required_argument, NULL, LCORES},
	{"socket-mem", required_argument, NULL, SOCKET_MEM},
	{"socket-limit", required_argument, NULL, SOCKET_LIMIT},
	{"no-huge", no_argument, NULL, NO_HUGE},
	{"in-memory", no_argument, NULL, IN_MEMORY},
	{"legacy-mem", no_argument, NULL, LEGACY_MEM},
	{"allow", required_argument, NULL, OTHER},
	{"base-virtaddr", required_argument, NULL, OTHER},
	{"block", required_argument, NULL, OTHER},
	{"create-uio-dev", no_argument, NULL, OTHER},
	{"force-max-simd-bitwidth", required_argument, NULL, OTHER},
	{"huge-unlink", optional_argument, NULL, OTHER},
	{"huge-worker-stack", optional_argument, NULL, OTHER},
	{"iova-mode", required_argument, NULL, OTHER},
	{"log-level", required_argument, NULL, OTHER},
	{"main-lcore", required_argument, NULL, OTHER},
	{"match-allocations", no_argument, NULL, OTHER},
	{"mbuf-pool-ops-name", required_argument, NULL, OTHER},
	{"no-hpet", no_argument, NULL, OTHER},
	{"no-pci", no_argument, NULL, OTHER},
	{"no-shconf", no_argument, NULL, OTHER},
	{"no-telemetry", no_argument, NULL, OTHER},
	{"proc-type", required_argument, NULL, OTHER},
	{"single-file-segments", no_argument, NULL, OTHER},
	{"syslog", required_argument, NULL, OTHER},
	{"telemetry", no_argument, NULL, OTHER},
	{"trace", required_argument, NULL, OTHER},
	{"vdev", required_argument, NULL, VDEV},
	{"vfio-intr", required_argument, NULL, OTHER},
	{"vfio-vf-token", required_argument, NULL, OTHER},
	{"vmware-tsc-map", no_argument, NULL, OTHER},
	{0},
};

void
arguments_read(struct eal_arguments *a, int argc, char **argv)
{
	int opt;

	memset(a, 0, sizeof(*a));
	a->any = argc > 1;
	opterr = 0; /* the EAL reports errors */
	optind = 0; /* start from the beginning */
	/* "-": do not reorder the arguments */
	while ((opt = getopt_long(argc, argv, "-a:b:c:d:hl:m:n:r:s:S:v", longs, NULL)) != -1) {
		switch (opt) {
		case FILE_PREFIX:
			a->file_prefix = optarg;
			break;
		case HUGE_DIR_GIVEN:
			a->huge_dir = optarg;
			break;
		case 'l':
		case LCORES:
			a->lcores = optarg;
			break;
		case 'c':
			a->core_mask = optarg;
			break;
		case 'm':
			a->memory_mib = optarg;
			break;
		case SOCKET_MEM:
			a->socket_mem = optarg;
			break;
		case SOCKET_LIMIT:
			a->socket_limit = optarg;
			break;
		case NO_HUGE:
			a->no_huge = true;
			break;
		case IN_MEMORY:
			a->in_memory = true;
			break;
		case LEGACY_MEM:
			a->legacy_mem = true;
			break;
		case VDEV:
			if (a->vdev_count < sizeof(a->vdevs) / sizeof(a->vdevs[0]))
				a->vdevs[a->vdev_count++] = optarg;
			break;
		default: /* the EAL checks the others */
			break;
		}
	}
	opterr = 1;
}

/* ------------------------------------------------------------------ lcores */

#define NUMBERS 1024 /* limit of CPU numbers; lcore numbers are smaller */

/* Parse NUMBER or NUMBER-NUMBER into a set. Return what follows, or NULL if it is neither. */
static const char *
read_range(const char *s, bool *set)
{
	char *end;

	if (!isdigit((unsigned char)*s))
		return NULL;
	unsigned long first = strtoul(s, &end, 10), last = first;

	if (*end == '-') {
		if (!isdigit((unsigned char)end[1]))
			return NULL;
		last = strtoul(end + 1, &end, 10);
	}
	if (first >= NUMBERS || last >= NUMBERS)
		return NULL;
	for (unsigned long i = first < last ? first : last; i <= (first < last ? last : first); i++)
		set[i] = true;
	return end;
}

/* Parse a range, or several in parentheses, into a set. Return what follows, or NULL if it is
 * neither. */
static const char *
read_set(const char *s, bool *set)
{
	if (*s != '(')
		return read_range(s, set);
	do
		s = read_range(s + 1, set);
	while (s != NULL && *s == ',');
	return s != NULL && *s == ')' ? s + 1 : NULL;
}

/* Parse "0,2-3" or "0@4,(1-2)@(5,6)": lcores, and the CPUs that they run on. Return false if the
 * text is malformed. */
static bool
read_list(const char *s, bool *lcores, bool *cpus)
{
	for (;;) {
		const char *from = s;

		s = read_set(s, lcores);
		if (s == NULL)
			return false;
		s = read_set(*s == '@' ? s + 1 : from, cpus);
		if (s == NULL || (*s != ',' && *s != 0))
			return false;
		if (*s++ == 0)
			return true;
	}
}

static bool
read_mask(const char *s, bool *set)
{
	size_t len;

	s += strncasecmp(s, "0x", 2) == 0 ? 2 : 0;
	len = strspn(s, "0123456789abcdefABCDEF");
	if (len == 0 || s[len] != 0 || len * 4 > NUMBERS)
		return false;
	for (size_t i = 0; i < len; i++) {
		const char digit[2] = {s[len - 1 - i], 0};
		unsigned long bits = strtoul(digit, NULL, 16);

		for (unsigned b = 0; b < 4; b++)
			set[i * 4 + b] = bits >> b & 1;
	}
	return true;
}

/* Return whether there is such a CPU, by the same file that the EAL looks for. */
static bool
has_cpu(unsigned cpu)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%u/topology/core_id", cpu);
	return access(path, F_OK) == 0;
}

static int
count_lcores(const struct eal_arguments *a, const struct config *c, unsigned *count, char *error,
	size_t error_len)
{
	bool lcores[NUMBERS] = {0}, cpus[NUMBERS] = {0};
	const char *given = a->lcores ? a->lcores : a->core_mask;
	bool good = true;

	if (a->lcores != NULL)
		good = read_list(a->lcores, lcores, cpus);
	else if (a->core_mask != NULL)
		good = read_mask(a->core_mask, cpus) && read_mask(a->core_mask, lcores);
	else /* start_eal() gives the EAL one for each lane */
		memset(cpus, true, c->lanes), memset(lcores, true, c->lanes);
	if (!good) {
		snprintf(error, error_len,
			"EAL argument '%s': neither a list of lcores (0,2-3), nor lcores at CPUs "
			"(0@2,1@3), nor with -c a mask",
			given);
		return -EINVAL;
	}
	*count = 0;
	for (unsigned i = 0; i < NUMBERS; i++) {
		if (lcores[i] && i >= RTE_MAX_LCORE) {
			snprintf(error, error_len, "EAL argument '%s': lcores are 0 to %d", given,
				RTE_MAX_LCORE - 1);
			return -EINVAL;
		}
		if (cpus[i] && !has_cpu(i)) {
			snprintf(error, error_len,
				given ? "EAL argument '%s': this host has no CPU %u"
				      : "engine.lanes = %s%u: this host has too few CPUs; name one "
					"for each with -l",
				given ? given : "", given ? i : c->lanes);
			return -EINVAL;
		}
		*count += lcores[i];
	}
	return 0;
}

/* ------------------------------------------------------------------ memory */

/* The hugepages that an EAL with these arguments may use. */
struct pages {
	const struct eal_arguments *a;
	const char *name;  /* name of the instance */
	bool left;         /* files of that name are of a dead instance, and are removed at the
			    * start */
	uint64_t sizes[8]; /* page sizes that were counted */
	unsigned count;
	uint64_t all, free; /* bytes */
	uint64_t smallest;
};

static uint64_t
read_pages(uint64_t page_bytes, const char *which)
{
	char path[128];
	unsigned long long n = 0;

	snprintf(path, sizeof(path), "/sys/kernel/mm/hugepages/hugepages-%llukB/%s",
		(unsigned long long)(page_bytes >> 10), which);
	FILE *f = fopen(path, "r");

	if (f != NULL && fscanf(f, "%llu", &n) != 1)
		n = 0;
	if (f != NULL)
		fclose(f);
	return n * page_bytes;
}

/* Count the pages of a mount of hugepages as the EAL does: only of the mount that has --huge-dir,
 * or of all mounts without that argument. Count each page size once. */
static void
count_mount(void *arg, const char *dir, uint64_t page_bytes)
{
	struct pages *p = arg;
	size_t len = strlen(dir);

	if (p->a->huge_dir != NULL &&
		(strncmp(p->a->huge_dir, dir, len) != 0 ||
			(p->a->huge_dir[len] != 0 && p->a->huge_dir[len] != '/')))
		return;
	for (unsigned i = 0; i < p->count; i++) {
		if (p->sizes[i] == page_bytes)
			return;
	}
	if (p->count == sizeof(p->sizes) / sizeof(p->sizes[0]))
		return;
	p->sizes[p->count++] = page_bytes;
	p->all += read_pages(page_bytes, "nr_hugepages");
	p->free += read_pages(page_bytes, "free_hugepages") -
		read_pages(page_bytes, "resv_hugepages");
	if (p->left)
		p->free += files_that(p->a->huge_dir ? p->a->huge_dir : dir, is_map_of, p->name,
				   false) *
			page_bytes;
	p->smallest = p->smallest == 0 || page_bytes < p->smallest ? page_bytes : p->smallest;
}

/* Return the sum of a list such as "256" or "0,512": the MiB of all sockets. */
static uint64_t
sum_mib(const char *list)
{
	uint64_t sum = 0;
	char *end;

	for (const char *s = list; *s; s = *end == ',' ? end + 1 : "") {
		sum += strtoull(s, &end, 10);
		if (*end != ',' && *end != 0)
			break;
	}
	return sum;
}

static bool
is_mib(const char *s)
{
	char *end;

	errno = 0;
	unsigned long long v = strtoull(s, &end, 10);

	return isdigit((unsigned char)*s) && *end == 0 && errno == 0 && v > 0 && v <= MIB_MAX;
}

/* Explain in error that the EAL arguments ask for more bytes of hugepages than are free. Return
 * -EINVAL if they ask for more than there are, or -EAGAIN if others use them now. */
static int
explain_asked(uint64_t asked, const struct pages *p, const struct config_host *h, char *error,
	size_t error_len)
{
	if (asked > p->all) {
		snprintf(error, error_len,
			"the EAL arguments ask for %llu MiB of hugepages (-m, --socket-mem), there "
			"are %llu. Ask for less, or %s",
			(unsigned long long)asked >> 20, (unsigned long long)p->all >> 20,
			h->memory_more);
		return -EINVAL;
	}
	snprintf(error, error_len,
		"the EAL arguments ask for %llu MiB of hugepages (-m, --socket-mem), of "
		"%llu only %llu are free now",
		(unsigned long long)asked >> 20, (unsigned long long)p->all >> 20,
		(unsigned long long)p->free >> 20);
	return -EAGAIN;
}

static int
find_memory(const struct eal_arguments *a, const struct config *c, bool left, struct config_host *h,
	char *error, size_t error_len)
{
	uint64_t asked = (a->memory_mib                  ? strtoull(a->memory_mib, NULL, 10)
					 : a->socket_mem ? sum_mib(a->socket_mem)
							 : 0)
		<< 20;
	struct pages p = {.a = a, .name = c->name, .left = left};
	struct config_memory need;

	if (a->memory_mib != NULL && !is_mib(a->memory_mib)) {
		snprintf(error, error_len, "EAL argument -m '%s': not a number from 1 to %u (MiB)",
			a->memory_mib, MIB_MAX);
		return -EINVAL;
	}
	if (a->no_huge) {
		h->memory_of = "memory";
		h->memory_more = "give the EAL more with -m";
		h->page_bytes = PAGE_BYTES;
		h->memory_most = h->memory_free = asked ? asked : (uint64_t)NO_HUGE_MIB << 20;
		return 0;
	}
	each_huge_mount(count_mount, &p);
	if (p.count == 0 && a->in_memory) /* --in-memory needs no mount */
		count_mount(&p, a->huge_dir ? a->huge_dir : "", 2u << 20);
	if (p.count == 0 && a->huge_dir != NULL) {
		snprintf(error, error_len,
			"EAL argument --huge-dir %s: no hugepages are mounted there", a->huge_dir);
		return -EINVAL;
	}
	h->memory_of = "hugepages";
	h->memory_more = "reserve more (dpdk-config/hugepages.sh); without hugepages it runs with "
			 "the EAL arguments --no-huge -m MIB";
	h->page_bytes = p.smallest ? p.smallest : 2u << 20;
	h->memory_most = p.all;
	h->memory_free = p.free;
	node_config_memory(c, h->page_bytes, &need);
	h->page_files = (asked > need.all ? asked : need.all) / h->page_bytes;
	if (asked > p.free)
		return explain_asked(asked, &p, h, error, error_len);
	/* without a limit the EAL allocates more when it needs more */
	uint64_t most = a->socket_limit  ? sum_mib(a->socket_limit) << 20
		: a->legacy_mem && asked ? asked
					 : UINT64_MAX;

	if (most < p.all) {
		h->memory_more = a->socket_limit ? "raise --socket-limit"
						 : "give the EAL more with -m";
		h->memory_most = most;
		h->memory_free = most < p.free ? most : p.free;
	}
	return 0;
}

/* ------------------------------------------------------------------ ports */

/* Return the --vdev argument that makes that virtual device, or NULL. */
static const char *
vdev_of(const struct eal_arguments *a, const char *port)
{
	const size_t len = strlen(port);

	for (unsigned i = 0; i < a->vdev_count; i++) {
		const char *v = a->vdevs[i];

		if (strncmp(v, port, len) == 0 && (v[len] == 0 || v[len] == ','))
			return v;
	}
	return NULL;
}

/* Copy the name of the network interface that a virtual device is to use. Return false if it uses
 * none. */
static bool
interface_of(const char *vdev, char *name, size_t size)
{
	const char *at = strstr(vdev, ",iface=");

	/* of others it is the path of a socket, or what they make */
	if (strncmp(vdev, "net_af_", 7) != 0 || at == NULL)
		return false;
	snprintf(name, size, "%.*s", (int)strcspn(at + 7, ","), at + 7);
	return true;
}

/* Say on stderr if peers with the same [nodes] would send to another address than the interface
 * has. */
static void
check_own_address(const struct config *c, unsigned link, const char *interface)
{
	const struct config_peer *own = &c->peers[c->id];
	const struct rte_ether_addr *mac = &own->addr[link].mac;
	char text[RTE_ETHER_ADDR_FMT_SIZE], has[RTE_ETHER_ADDR_FMT_SIZE];
	struct rte_ether_addr made_up, real;
	struct ifreq r;

	config_made_up_mac(c->id, &made_up);
	if (!(own->links >> link & 1) || memcmp(mac, &made_up, sizeof(*mac)) == 0 ||
		rte_is_zero_ether_addr(mac) || !interface_ask(interface, SIOCGIFHWADDR, &r))
		return;
	memcpy(&real, r.ifr_hwaddr.sa_data, sizeof(real));
	rte_ether_format_addr(text, sizeof(text), mac);
	rte_ether_format_addr(has, sizeof(has), &real);
	if (memcmp(mac, &real, sizeof(real)) != 0)
		fprintf(stderr,
			"pmx-dpdk: [nodes] says that node %u is %s, but %s has %s: peers with this "
			"table send to an address that is not here\n",
			c->id, text, interface, has);
}

/* Say on stderr if the kernel has the address of a link with encap = udp: it would answer for
 * it. */
static void
check_kernel_address(const struct config *c, unsigned link, const char *interface)
{
	const struct link_config *l = &c->links[link].link;
	char text[INET_ADDRSTRLEN];
	struct sockaddr_in has;
	struct ifreq r;

	if (l->encap != LINK_ENCAP_UDP || !interface_ask(interface, SIOCGIFADDR, &r))
		return;
	memcpy(&has, &r.ifr_addr, sizeof(has));
	if (ntohl(has.sin_addr.s_addr) == l->net.ip)
		fprintf(stderr,
			"pmx-dpdk: [link %u] ip = %s is the kernel's address on %s too: it answers "
			"what is sent to this node. Take it from the interface, or give the link "
			"another one\n",
			link, inet_ntop(AF_INET, &has.sin_addr, text, sizeof(text)), interface);
}

static int
check_port(const struct eal_arguments *a, const struct config *c, unsigned link, char *error,
	size_t error_len)
{
	const struct link_config *l = &c->links[link].link;
	const char *vdev = vdev_of(a, l->port);
	char interface[IFNAMSIZ];
	struct ifreq r;

	/* without EAL arguments it is the configuration alone that is checked */
	if (a->any && strncmp(l->port, "net_", 4) == 0 && vdev == NULL) {
		snprintf(error, error_len,
			"port '%s' does not exist: no EAL argument --vdev makes it", l->port);
		return -EINVAL;
	}
	if (vdev == NULL || !interface_of(vdev, interface, sizeof(interface)))
		return 0;
	if (!interface_ask(interface, SIOCGIFMTU, &r)) {
		snprintf(error, error_len,
			"--vdev=%s: there is no interface %s here: 'ip link' lists them", vdev,
			interface);
		return -EINVAL;
	}
	if ((uint32_t)r.ifr_mtu < l->mtu && l->encap != LINK_ENCAP_VLAN) {
		snprintf(error, error_len,
			"[link %u] mtu = %u, but %s carries %d: 'ip link set %s mtu %u', or lower "
			"mtu on all nodes",
			link, l->mtu, interface, r.ifr_mtu, interface, l->mtu);
		return -EINVAL;
	}
	check_own_address(c, link, interface);
	check_kernel_address(c, link, interface);
	return 0;
}

static int
check_ports(const struct eal_arguments *a, const struct config *c, char *error, size_t error_len)
{
	int result = 0;

	for (unsigned i = 0; i < CONFIG_LINKS_MAX && result == 0; i++) {
		if (c->links[i].used && link_driver(c->links[i].link.driver)->port)
			result = check_port(a, c, i, error, error_len);
	}
	return result;
}

int
arguments_host(const struct eal_arguments *a, const struct config *c, bool left,
	struct config_host *h, char *error, size_t error_len)
{
	if (a->file_prefix != NULL && strcmp(a->file_prefix, c->name) != 0) {
		snprintf(error, error_len,
			"EAL argument --file-prefix %s: applications and pmx-ctl find a primary by "
			"its node.name, which is %s: give it that name in its configuration, and "
			"leave --file-prefix out",
			a->file_prefix, c->name);
		return -EINVAL;
	}
	if (count_lcores(a, c, &h->lcores, error, error_len) != 0 ||
		check_ports(a, c, error, error_len) != 0)
		return -EINVAL;
	int result = find_memory(a, c, left, h, error, error_len);

	h->descriptors = descriptors_raise(node_config_descriptors(c) + h->page_files);
	return result;
}
