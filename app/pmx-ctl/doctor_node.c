/* SPDX-License-Identifier: BSD-3-Clause
 *
 * doctor, a running primary: checks link, buffers, drops, CPUs and NUMA placement, by its telemetry
 * and its /proc/PID.
 */
#include <glob.h>
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_version.h>

#include "config/config.h"
#include <time.h>

#include "ctl.h"
#include "core/wire/wire.h"

#define NUMA_MAX         64
#define CERTIFICATE_DAYS 7 /* before its end to be told */
#define PEERS_NAMED      8

/* The data that the checks of one primary share. */
struct visit {
	struct doctor *d;
	struct ctl_session *s;
	json_t *info;
	json_t *port; /* ethdev: its /ethdev/info, or NULL */
	bool local;   /* /proc/PID here is the primary, not in another PID namespace */
	cpu_set_t lanes;
};

static void doctor_node_tell(const struct visit *v, enum ctl_verdict verdict, const char *check,
	const char *mend, const char *fmt, ...) PRINTF(5, 6);

/* Add a line to the report like found(), with the instance's name before the check's. */
static void
doctor_node_tell(const struct visit *v, enum ctl_verdict verdict, const char *check,
	const char *mend, const char *fmt, ...)
{
	char *name = text("%s: %s", v->s->name, check), *what;
	va_list args;

	va_start(args, fmt);
	if (vasprintf(&what, fmt, args) >= 0) {
		found(v->d, verdict, name, mend, "%s", what);
		free(what);
	}
	va_end(args);
	free(name);
}

/* ------------------------------------------------------------------ link */

/* Find the port's /ethdev/info by the port's name. Return a reference that the caller releases, or
 * NULL if there is none. */
static json_t *
find_port(struct visit *v)
{
	char error[CTL_ERROR_MAX];
	json_t *list = session_ask(v->s, "/ethdev/list", error), *id, *match = NULL;
	size_t i;

	json_array_foreach(list, i, id) {
		char *question = text("/ethdev/info,%lld", (long long)json_integer_value(id));
		json_t *info = session_ask(v->s, question, error);

		free(question);
		if (match == NULL && info != NULL &&
			strcmp(get_text(info, "name"), get_text(v->info, "port")) == 0)
			match = json_incref(info);
		json_decref(info);
	}
	json_decref(list);
	return match;
}

static void
check_link(struct visit *v)
{
	const char *driver = get_text(v->info, "driver"), *port = get_text(v->info, "port");
	bool up = get_u64(v->info, "link_up");
	const char *mend = "check the address in link.listen";

	if (up)
		mend = NULL;
	else if (get_u64(v->info, "dpdk_port"))
		mend = "check cable or peer: a memif or vhost port is up when both sides run";
	doctor_node_tell(v, up ? OK : FAIL, "link", mend, "driver %s%s%s, %s", driver,
		*port ? ", port " : "", port, up ? "up" : "down");
}

/* memif and af_packet refuse to be configured for long frames, but carry them: see
 * drivers/ethdev.c. */
static bool
carries_more(const char *port)
{
	return strstr(port, "memif") != NULL || strstr(port, "af_packet") != NULL;
}

static void
check_mtu(struct visit *v)
{
	uint64_t mtu = get_u64(v->info, "mtu"), payload = get_u64(v->info, "payload_max");
	uint64_t port_mtu = get_u64(v->port, "mtu");
	const uint64_t encap_most = 28 + 7; /* IPv4 and UDP, and rounding to 8 */

	if (payload == 0 || payload >= mtu)
		doctor_node_tell(v, FAIL, "MTU", "raise link.mtu, the same on all nodes",
			"%" PRIu64 " bytes leave no room for a payload", mtu);
	else if (payload + WIRE_HDR_BYTES + encap_most < mtu)
		doctor_node_tell(v, WARN, "MTU", "give all links the same mtu",
			"%" PRIu64 " bytes on link 0, but payloads of %" PRIu64
			": another link carries less",
			mtu, payload);
	else if (port_mtu && port_mtu < mtu && !carries_more(get_text(v->info, "port")))
		doctor_node_tell(v, WARN, "MTU",
			"lower link.mtu on all nodes, or raise the MTU of the port",
			"%" PRIu64 " bytes, but its port is set to %" PRIu64, mtu, port_mtu);
	else
		doctor_node_tell(v, OK, "MTU", NULL,
			"%" PRIu64 " bytes, payloads up to %" PRIu64 " (%" PRIu64 " %%)", mtu,
			payload, 100 * payload / mtu);
}

/* ------------------------------------------------------------------ buffers, drops */

static void
check_mbufs(struct visit *v)
{
	uint64_t total = get_u64(v->info, "mbufs"), left = get_u64(v->info, "mbufs_free");
	uint64_t unpromised = get_u64(v->info, "mbufs_unpromised");
	enum ctl_verdict verdict = left == 0 ? FAIL : left < total / 10 ? WARN : OK;

	doctor_node_tell(v, verdict, "mbufs",
		verdict == OK ? NULL
			      : "raise limits.mbufs; 'pmx-ctl contexts' tells who holds them",
		"%" PRIu64 " of %" PRIu64 " free", left, total);
	verdict = unpromised < total / 16 ? WARN : OK;
	doctor_node_tell(v, verdict, "mbufs unpromised",
		verdict == OK
			? NULL
			: "raise limits.mbufs, or lower limits.send_buffers or receive_buffers",
		"%" PRIu64 " of %" PRIu64 " not promised to contexts or queues%s", unpromised,
		total, verdict == OK ? "" : ": the next context may be refused");
}

/* The advice for each counter that is not zero. */
static const struct {
	const char *name, *mend;
} mends[] = {
	{"drop_foreign", "harmless; a port or VLAN of its own avoids it"},
	{"drop_setting", "the same proto.checksum on all nodes"},
	{"drop_short", "something else sends to this port or address"},
	{"drop_bad_ip", "check cable and port; something on the way mangles IPv4"},
	{"drop_fragment", "lower link.mtu on all nodes to the path's MTU"},
	{"drop_other_mac",
		"a peer's [nodes] has a wrong mac= for this node: mend it; or a switch floods, "
		"which is harmless"},
	{"drop_segmented", "the same link.mtu on all nodes"},
	{"drop_oversized", "the same link.mtu on all nodes"},
	{"drop_no_checksum", "the same proto.checksum on all nodes"},
	{"drop_sealed", "the same security.mode on all nodes"},
	{"drop_unsealed", "the same security.mode on all nodes; or somebody tries"},
	{"drop_key", "usual after a restart, and when keys are renewed"},
	{"drop_auth", "somebody forges frames, or the network changes them: pmx-ctl capture"},
	{"drop_replay", "the network doubles frames, or somebody repeats them"},
	{"drop_handshake", "somebody asks for keys who has none: 'pmx-ctl peers'"},
	{"tx_no_key", "usual at the first messages to a peer; otherwise see 'pmx-ctl peers'"},
	{"drop_checksum", "check cable and port, or link.fault if it is a test"},
	{"drop_inbox", "fewer engine.lanes, or contexts spread evenly over lanes"},
	{"drop_version", "the same version of pmx-dpdk on all nodes"},
	{"drop_not_mine",
		"the same [nodes] on all nodes; on a switch MAC addresses in it, since it sends "
		"those of auto to everybody"},
	{"drop_no_node", "raise limits.nodes, the same on all nodes"},
	{"drop_stranger", "add that node to [nodes], if it belongs there"},
	{"drop_no_path", "raise limits.peers"},
	{"drop_session", "usual after a restart; otherwise two nodes have the same number"},
	{"drop_absent", "usual while applications start or end"},
	{"drop_domain", "an application sends to another job"},
	{"drop_no_flow", "raise limits.flows"},
	{"drop_old", "usual after losses; many of them: raise proto.rto_min_us"},
	{"drop_beyond", "the same proto.window on all nodes"},
	{"drop_gap", "proto.recovery = selective"},
	{"drop_full", "receive more often, or raise limits.receive_buffers or lhs_entries"},
	{"drop_no_hold", "raise limits.mbufs"},
	{"bad_submissions", "an application writes wrong slots: 'pmx-ctl contexts', column bad"},
	{"bad_releases", "an application releases twice: 'pmx-ctl contexts', column bad"},
	{"bad_positions", "an application's memory is damaged: 'pmx-ctl contexts', column bad"},
	{"rx_no_mbuf", "raise limits.mbufs"},
	{"rx_too_long", "the same link.mtu on all nodes"},
	{"tx_refused", "raise link.tx_descriptors, or lower proto.path_frames"},
	{"tx_no_neighbour", "see 'pmx-ctl peers', and link.gateway if the peer is behind a router"},
	{"tx_stuck", "a link took no frames: 'pmx-ctl links'"},
	{"faults", "take link.fault out, unless it is a test"},
};

static const char *
mend_of(const char *name)
{
	const char *own = name;

	if (strncmp(name, "link", 4) == 0 && strchr(name, '_') != NULL)
		own = strchr(name, '_') + 1;
	for (size_t i = 0; i < sizeof(mends) / sizeof(mends[0]); i++) {
		if (strcmp(mends[i].name, own) == 0)
			return mends[i].mend;
	}
	return "see whether it still grows: pmx-ctl stat --watch 1";
}

static void
check_drops(struct visit *v)
{
	char error[CTL_ERROR_MAX];
	json_t *drops = session_ask(v->s, "/pmx/drops", error), *value;
	const char *name;
	bool any = false;

	if (drops == NULL) {
		doctor_node_tell(v, FAIL, "drops", "try again", "%s", error);
		return;
	}
	json_object_foreach(drops, name, value) {
		struct meaning m = counter_meaning(name);

		if (json_integer_value(value) == 0)
			continue;
		any = true;
		doctor_node_tell(v, WARN, name, mend_of(name), "%" PRIu64 " %s: %s",
			(uint64_t)json_integer_value(value), m.unit, m.help);
	}
	if (!any)
		doctor_node_tell(v, OK, "drops", NULL, "nothing dropped (%zu reasons)",
			json_object_size(drops));
	json_decref(drops);
}

/* ------------------------------------------------------------------ peers */

/* Count the peers in that state, and list the numbers of the first ones as text. */
static unsigned
peers_in(json_t *peers, const char *state, char *names, size_t size)
{
	unsigned n = 0;
	size_t i, used = 0;
	json_t *p;

	*names = 0;
	json_array_foreach(peers, i, p) {
		if (strcmp(get_text(p, "state"), state) != 0)
			continue;
		if (n++ < PEERS_NAMED)
			used += (size_t)snprintf(names + used, size - used, "%s%" PRIu64,
				used ? ", " : "", get_u64(p, "node"));
	}
	if (n > PEERS_NAMED)
		snprintf(names + used, size - used, ", ...");
	return n;
}

/* Report the first thing that a peer says of itself and that does not go together with this node.
 * Return whether there is one. */
static bool
check_terms(struct visit *v, const json_t *p)
{
	char what[512];
	const char *mend;
	const enum ctl_verdict verdict = peer_disagrees(p, get_u64(v->info, "payload_max"), what,
		sizeof(what), &mend);

	if (verdict != OK)
		doctor_node_tell(v, verdict, "peers", mend, "%s", what);
	return verdict != OK;
}

static void
check_peers(struct visit *v)
{
	char error[CTL_ERROR_MAX], asking[96], down[96], unused[96];
	json_t *peers = ask_pages(v->s, "/pmx/peers", "node", error);
	unsigned silent, dead;

	if (peers == NULL) {
		doctor_node_tell(v, FAIL, "peers", "try again", "%s", error);
		return;
	}
	silent = peers_in(peers, "asking", asking, sizeof(asking));
	dead = peers_in(peers, "down", down, sizeof(down));
	if (dead != 0)
		doctor_node_tell(v, WARN, "peers",
			"see whether their hosts and primaries run: 'pmx-ctl doctor' there",
			"%u of %zu did not answer and count as down: node %s", dead,
			json_array_size(peers), down);
	if (silent != 0)
		doctor_node_tell(v, WARN, "peers",
			"see whether their primaries run, whether both [nodes] have the right "
			"addresses, and whether the network passes the frames",
			"%u of %zu are asked and have not answered yet: node %s", silent,
			json_array_size(peers), asking);
	unsigned unlike = 0;
	json_t *p;
	size_t i;

	json_array_foreach(peers, i, p) {
		if (unlike < PEERS_NAMED)
			unlike += check_terms(v, p);
	}
	if (dead + silent + unlike == 0)
		doctor_node_tell(v, OK, "peers", NULL,
			"%zu in [nodes]; %u of them were not spoken to yet", json_array_size(peers),
			peers_in(peers, "unused", unused, sizeof(unused)));
	json_decref(peers);
}

/* Report how frames are protected, and how long this node's certificate lasts. */
static void
check_security(struct visit *v)
{
	const char *mode = get_text(v->info, "security");
	const uint64_t until = get_u64(v->info, "certificate_until");
	const int64_t days = ((int64_t)until - (int64_t)time(NULL)) / 86400;

	if (strcmp(mode, "off") == 0)
		doctor_node_tell(v, OK, "security", NULL,
			"off: who is on the network can read frames, and who reads them can change "
			"them");
	else if (until != 0 && days < CERTIFICATE_DAYS)
		doctor_node_tell(v, WARN, "security", "pmx-ctl key certify, then pmx-ctl reload",
			"%s; this node's certificate ends in %" PRId64 " days", mode, days);
	else if (until != 0)
		doctor_node_tell(v, OK, "security", NULL,
			"%s; this node's certificate ends in %" PRId64 " days", mode, days);
	else
		doctor_node_tell(v, OK, "security", NULL, "%s", mode);
}

/* Report what discovery has found, if the node uses it. */
static void
check_discovery(struct visit *v)
{
	char error[CTL_ERROR_MAX];
	json_t *d = session_ask(v->s, "/pmx/discovery", error);

	if (d == NULL || json_object_get(d, "listen") == NULL) {
		json_decref(d);
		return;
	}
	const uint64_t seeds = get_u64(d, "seeds"), answered = get_u64(d, "answered");
	const char *unknown = get_text(d, "unknown");

	if (*unknown != 0)
		doctor_node_tell(v, WARN, "discovery", "mend discovery.seed, or the resolver",
			"a seed has no address: %s", unknown);
	if (answered < seeds)
		doctor_node_tell(v, WARN, "discovery",
			"see whether their primaries run with [discovery] and the same "
			"discovery.cluster, and whether UDP to their port passes",
			"%" PRIu64 " of %" PRIu64 " seeds have not answered: %s", seeds - answered,
			seeds, get_text(d, "seed"));
	else if (*unknown == 0)
		doctor_node_tell(v, OK, "discovery", NULL,
			"%" PRIu64 " nodes found; all %" PRIu64 " seeds "
			"answer",
			get_u64(d, "found"), seeds);
	json_decref(d);
}

/* Report dead links of peers that have several links. */
static void
check_peer_links(struct visit *v)
{
	char error[CTL_ERROR_MAX];
	json_t *peers = ask_pages(v->s, "/pmx/rails", "node", error), *p;
	unsigned dead = 0;
	size_t i;

	json_array_foreach(peers, i, p) {
		for (unsigned link = 0; link < CONFIG_LINKS_MAX; link++) {
			bool up;

			if (rail_address(p, link, &up) != NULL && !up && dead++ < PEERS_NAMED)
				doctor_node_tell(v, WARN, "links",
					"check cable, switch and the peer's port; 'pmx-ctl links' "
					"shows when it is back",
					"node %" PRIu64 " is not reached by link %u; all goes by "
					"its others",
					get_u64(p, "node"), link);
		}
	}
	if (dead > PEERS_NAMED)
		doctor_node_tell(v, WARN, "links", "the same", "... and %u more",
			dead - PEERS_NAMED);
	else if (dead == 0 && json_array_size(peers) > 0)
		doctor_node_tell(v, OK, "links", NULL, "all links to %zu peers with several work",
			json_array_size(peers));
	json_decref(peers);
}

/* ------------------------------------------------------------------ CPUs, NUMA */

/* Parse a list of CPUs such as "0-3,8" into a set. */
static void
read_list(const char *list, cpu_set_t *set)
{
	CPU_ZERO(set);
	while (*list) {
		char *end;
		unsigned long from = strtoul(list, &end, 10), to = from;

		if (end == list)
			return;
		if (*end == '-')
			to = strtoul(end + 1, &end, 10);
		for (unsigned long c = from; c <= to && c < CPU_SETSIZE; c++)
			CPU_SET(c, set);
		list = *end == ',' ? end + 1 : end;
	}
}

static void
add_thread(struct visit *v, const char *status)
{
	FILE *f = fopen(status, "r");
	char line[512], list[400];
	cpu_set_t set;

	while (f != NULL && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Cpus_allowed_list: %399s", list) != 1)
			continue;
		read_list(list, &set);
		CPU_OR(&v->lanes, &v->lanes, &set);
	}
	if (f != NULL)
		fclose(f);
}

/* Find the CPUs of the lanes: those of the main thread and of the EAL's workers. */
static void
read_lanes(struct visit *v)
{
	char path[128], comm[32];
	glob_t tasks = {0};

	snprintf(path, sizeof(path), "/proc/%d/task/*/comm", v->s->pid);
	if (glob(path, 0, NULL, &tasks) != 0)
		return;
	for (size_t i = 0; i < tasks.gl_pathc; i++) {
		char *name = strrchr(tasks.gl_pathv[i], '/');
		int tid = 0;

		snprintf(path, sizeof(path), "/proc/%d/task/%%d", v->s->pid);
		read_line(tasks.gl_pathv[i], comm, sizeof(comm));
		*name = 0;
		if (sscanf(tasks.gl_pathv[i], path, &tid) != 1)
			continue;
		if (tid != v->s->pid && strstr(comm, "worker") == NULL)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%d/status", v->s->pid, tid);
		add_thread(v, path);
	}
	globfree(&tasks);
}

/* Return whether a lane of an instance checked before has the same CPU as one of this instance.
 * With fewer CPUs than lanes that is unavoidable, and the result is false. Add the CPUs of this
 * instance to those checked. */
static bool
shares_cpu(struct visit *v)
{
	cpu_set_t both;

	CPU_AND(&both, &v->d->polled, &v->lanes);
	CPU_OR(&v->d->polled, &v->d->polled, &v->lanes);
	return CPU_COUNT(&both) > 0 && v->d->lanes <= (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
}

static void
check_lanes(struct visit *v)
{
	uint64_t lanes = get_u64(v->info, "lanes");
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	const char *idle = get_text(v->info, "idle");
	bool busy = strcmp(idle, "spin") == 0 || strcmp(idle, "pause") == 0;

	v->d->lanes += (unsigned)lanes;
	if (busy && v->d->lanes >= (unsigned)online)
		doctor_node_tell(v, WARN, "lanes", "engine.idle = adaptive, or fewer engine.lanes",
			"%" PRIu64
			" with idle = %s; with them no CPU of %ld is left for applications",
			lanes, idle, online);
	else if (v->local && shares_cpu(v))
		doctor_node_tell(v, WARN, "lanes", "start one of them with -l and another CPU",
			"on a CPU that another instance polls as well");
	else if (v->d->lanes > (unsigned)online)
		doctor_node_tell(v, WARN, "lanes", "fewer engine.lanes",
			"%u of all instances on %ld CPUs", v->d->lanes, online);
	else
		doctor_node_tell(v, OK, "lanes", NULL, "%" PRIu64 ", idle = %s, on %ld CPUs", lanes,
			idle, online);
	if (!v->local || !busy)
		return;
	char isolated[256];
	cpu_set_t set, both;

	read_line("/sys/devices/system/cpu/isolated", isolated, sizeof(isolated));
	read_list(isolated, &set);
	CPU_AND(&both, &set, &v->lanes);
	bool all = CPU_EQUAL(&both, &v->lanes);

	doctor_node_tell(v, all ? OK : WARN, "isolation",
		all ? NULL
		    : "isolcpus=LIST nohz_full=LIST rcu_nocbs=LIST on the kernel command line, and "
		      "-l LIST",
		"%d of %d CPUs of lanes are isolated", CPU_COUNT(&both), CPU_COUNT(&v->lanes));
}

/* Count the primary's hugepages on each NUMA node. */
static void
read_pages(const struct visit *v, uint64_t pages[NUMA_MAX])
{
	char path[64], *line = NULL;
	size_t size = 0;

	snprintf(path, sizeof(path), "/proc/%d/numa_maps", v->s->pid);
	FILE *f = fopen(path, "r");

	while (f != NULL && getline(&line, &size, f) > 0) {
		if (strstr(line, " huge ") == NULL)
			continue;
		for (char *s = line; (s = strstr(s, " N")) != NULL; s++) {
			unsigned node;
			unsigned long long n;

			if (sscanf(s, " N%u=%llu", &node, &n) == 2 && node < NUMA_MAX)
				pages[node] += n;
		}
	}
	free(line);
	if (f != NULL)
		fclose(f);
}

static bool
has_lane(const struct visit *v, unsigned node)
{
	char path[96], list[512];
	cpu_set_t set;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%u/cpulist", node);
	if (!read_line(path, list, sizeof(list)))
		return false;
	read_list(list, &set);
	CPU_AND(&set, &set, &v->lanes);
	return CPU_COUNT(&set) > 0;
}

static void
check_numa(struct visit *v)
{
	uint64_t pages[NUMA_MAX] = {0}, remote = 0, all = 0;
	json_t *socket = json_object_get(v->port, "numa_node");
	long long port = socket ? (long long)json_integer_value(socket) : -1;

	if (access("/sys/devices/system/node/node1", F_OK) != 0) {
		doctor_node_tell(v, OK, "NUMA", NULL, "the machine has one node");
		return;
	}
	if (!v->local) {
		doctor_node_tell(v, OK, "NUMA", NULL,
			"not visible: process %d is of another container", v->s->pid);
		return;
	}
	read_pages(v, pages);
	for (unsigned n = 0; n < NUMA_MAX; n++) {
		all += pages[n];
		remote += has_lane(v, n) ? 0 : pages[n];
	}
	if (port >= 0 && port < NUMA_MAX && !has_lane(v, (unsigned)port))
		doctor_node_tell(v, WARN, "NUMA", "-l with CPUs of the port's node",
			"the port is on node %lld, no lane is", port);
	else if (2 * remote > all)
		doctor_node_tell(v, WARN, "NUMA",
			"--socket-mem, or -l with CPUs of the node that has hugepages",
			"%" PRIu64 " of %" PRIu64 " hugepages are on nodes without a lane", remote,
			all);
	else
		doctor_node_tell(v, OK, "NUMA", NULL,
			"%" PRIu64 " of %" PRIu64 " hugepages are on nodes of lanes", all - remote,
			all);
}

/* ------------------------------------------------------------------ all of it */

static void
check_version(const struct visit *v)
{
	const char *own = get_text(v->info, "version");

	/* empty: it is asked over its own socket, which does not tell */
	if (*v->s->version != 0 && strcmp(v->s->version, rte_version()) != 0)
		doctor_node_tell(v, WARN, "version",
			"restart the primary: the library was replaced under it",
			"runs with %s, applications get %s", v->s->version, rte_version());
	else if (strcmp(own, PMX_VERSION) != 0)
		doctor_node_tell(v, WARN, "version", "install the same version of both",
			"pmx-dpdk %s, this pmx-ctl is %s", own, PMX_VERSION);
	else
		doctor_node_tell(v, OK, "version", NULL, "pmx-dpdk %s%s%s, process %d", own,
			*v->s->version ? ", " : "", v->s->version, v->s->pid);
}

static bool
is_local(int pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/numa_maps", pid);
	return pid > 0 && access(path, R_OK) == 0;
}

void
doctor_node(struct doctor *d, const char *name)
{
	char error[CTL_ERROR_MAX];
	struct ctl_session s;
	struct visit v = {.d = d, .s = &s};

	d->live++;
	if (session_open(&s, name, error) != 0) {
		found(d, FAIL, name, "see whether the process still runs", "%s", error);
		return;
	}
	/* a link updates its carrier state only when its counters are read */
	json_decref(session_ask(&s, "/pmx/drops", error));
	v.info = session_ask(&s, "/pmx/info", error);
	if (v.info == NULL) {
		found(d, WARN, name, "nothing, if it is another program that uses DPDK", "%s",
			error);
		session_close(&s);
		return;
	}
	v.local = is_local(s.pid);
	if (v.local)
		read_lanes(&v);
	if (get_u64(v.info, "dpdk_port"))
		v.port = find_port(&v);
	check_version(&v);
	check_link(&v);
	check_mtu(&v);
	check_mbufs(&v);
	check_drops(&v);
	check_peers(&v);
	check_security(&v);
	check_discovery(&v);
	check_peer_links(&v);
	check_lanes(&v);
	check_numa(&v);
	json_decref(v.port);
	json_decref(v.info);
	session_close(&s);
}
