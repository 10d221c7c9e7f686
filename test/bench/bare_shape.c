/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The full shape with bare rings and no protocol: application, primary, memif, primary,
 * application. What remains of pmx's latency above this number is what the protocol costs.
 *
 *	app A (secondary) <- slot rings -> primary A <- memif -> primary B <- slot rings -> app B
 *
 * `bare_shape run` starts the four processes, one role each, single threaded: node A on core 0,
 * node B on core 1; a primary and its application share the core and all yield at the first empty
 * poll. App A measures, app B echoes. `bare_shape primary|app --node a|b ...` is one role by hand.
 *
 * Design notes
 * 1. Slot ring: one producer, one consumer, lines of 64 bytes. A line is full when its sequence
 *    number is its position plus one: consumer and producer share only the line that carries the
 *    message. The consumer publishes its head every RING_LINES / 4 lines; the producer reads the
 *    head only when the ring looks full.
 * 2. A memif peer must not close the link while the other polls it: primaries stop polling on
 *    SIGTERM, which both get at the same time, and close CLOSE_MS later.
 * 3. Applications skip rte_eal_cleanup() unless told by --cleanup: it frees to the shared heap, so
 *    an application killed in it could leave the primary's heap locked. `run` removes the files.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <glob.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_memzone.h>

#include "hist.h"

#define RING_LINES  256
#define LINE_USER   56 /* bytes of a line after its sequence number */
#define BURST       32
#define ZONE_NAME   "bare_shape"
#define ETHERTYPE   0x88b6 /* IEEE 802 local experimental 2 */
#define CLOSE_MS    100
#define READY_MS    20000 /* for one process to come up */
#define LIFE_S      120   /* each role ends by itself then, whatever happened to the others */
#define PING_LOST_S 2

struct line {
	_Atomic uint64_t seq; /* position + 1 once the line is full */
	uint8_t user[LINE_USER];
} __attribute__((aligned(64)));

struct ring_shm {
	struct line lines[RING_LINES];
	_Alignas(64) _Atomic uint64_t head; /* lines before it may be written again */
};

/* One application's memory, both directions. */
struct channel_shm {
	struct ring_shm to_net;
	struct ring_shm to_app;
};

_Static_assert(sizeof(struct line) == 64, "a line is a cache line");

struct producer {
	struct ring_shm *ring;
	uint64_t tail; /* next position to fill */
	uint64_t head; /* consumer's, as last read */
};

struct consumer {
	struct ring_shm *ring;
	uint64_t head; /* next position to take */
};

/* One ping or its echo; the rest of the line is not looked at. */
struct ping {
	uint64_t number;
	uint8_t rest[LINE_USER - sizeof(uint64_t)];
};

struct options {
	char node; /* 'a' or 'b' */
	const char *cpu;
	const char *prefix; /* of EAL: one for each node */
	const char *socket; /* memif's */
	const char *huge_dir;
	uint64_t rounds;
	uint64_t warmup;
	bool json;
	bool cleanup; /* application: rte_eal_cleanup() before the end */
	int ready_fd; /* told when the role is up; -1 = nobody */
};

static volatile sig_atomic_t stop;
static struct hist hist;

/* ---- slot ring ---- */

static inline bool
ring_put(struct producer *p, const void *user)
{
	struct line *l = &p->ring->lines[p->tail % RING_LINES];

	if (p->tail - p->head == RING_LINES) {
		/* Acquire: pairs with the release in ring_take(); the line's old content was
		 * read. */
		p->head = atomic_load_explicit(&p->ring->head, memory_order_acquire);
		if (p->tail - p->head == RING_LINES)
			return false;
	}
	memcpy(l->user, user, LINE_USER);
	/* Release: pairs with the acquire in ring_take(); publishes the content. */
	atomic_store_explicit(&l->seq, ++p->tail, memory_order_release);
	return true;
}

static inline bool
ring_take(struct consumer *c, void *user)
{
	struct line *l = &c->ring->lines[c->head % RING_LINES];

	/* Acquire: pairs with the release in ring_put(). */
	if (atomic_load_explicit(&l->seq, memory_order_acquire) != c->head + 1)
		return false;
	memcpy(user, l->user, LINE_USER);
	c->head++;
	if (c->head % (RING_LINES / 4) == 0)
		/* Release: our reads of these lines are over before they are given back. */
		atomic_store_explicit(&c->ring->head, c->head, memory_order_release);
	return true;
}

/* ---- common to the roles ---- */

static void
on_signal(int signal)
{
	(void)signal;
	stop = 1;
}

static bool
life_over(uint64_t born)
{
	return rte_rdtsc() - born > LIFE_S * rte_get_tsc_hz();
}

static void
tell_ready(const struct options *o)
{
	if (o->ready_fd < 0)
		return;
	if (write(o->ready_fd, "r", 1) != 1)
		fprintf(stderr, "node %c: nobody waits for readiness\n", o->node);
	close(o->ready_fd);
}

static int
eal_start(const struct options *o, bool primary)
{
	char lcores[32], vdev[256];
	char *argv[20] = {"bare_shape", "--no-pci", "--log-level", "error", "--huge-dir",
		(char *)(uintptr_t)o->huge_dir, "--file-prefix", (char *)(uintptr_t)o->prefix,
		"--lcores", lcores};
	int argc = 10;

	/* Ids differ within a node: mempool caches are by lcore id. */
	snprintf(lcores, sizeof(lcores), "%d@%s", primary ? 0 : 1, o->cpu);
	if (primary) {
		snprintf(vdev, sizeof(vdev), "net_memif0,role=%s,id=0,socket=%s,socket-abstract=no",
			o->node == 'a' ? "client" : "server", o->socket);
		argv[argc++] = "-m";
		argv[argc++] = "128";
		argv[argc++] = "--vdev";
		argv[argc++] = vdev;
	} else {
		argv[argc++] = "--proc-type";
		argv[argc++] = "secondary";
	}
	if (rte_eal_init(argc, argv) >= 0)
		return 0;
	fprintf(stderr,
		"node %c: EAL of the %s does not start: %s; are there free huge pages in %s%s?\n",
		o->node, primary ? "primary" : "application", rte_strerror(rte_errno), o->huge_dir,
		primary ? "" : ", is its primary running");
	return -1;
}

/* ---- primary ---- */

static int
port_start(const struct options *o, struct rte_mempool **pool)
{
	struct rte_eth_conf conf = {0};
	struct rte_eth_link link = {0};
	int rc;

	*pool = rte_pktmbuf_pool_create("frames", 4096, 256, 0, RTE_MBUF_DEFAULT_BUF_SIZE, 0);
	if (*pool == NULL) {
		fprintf(stderr, "node %c: no mbuf pool: %s\n", o->node, rte_strerror(rte_errno));
		return -1;
	}
	rc = rte_eth_dev_configure(0, 1, 1, &conf);
	if (rc == 0)
		rc = rte_eth_rx_queue_setup(0, 0, 1024, 0, NULL, *pool);
	if (rc == 0)
		rc = rte_eth_tx_queue_setup(0, 0, 1024, 0, NULL);
	if (rc == 0)
		rc = rte_eth_dev_start(0);
	if (rc != 0) {
		fprintf(stderr, "node %c: memif port: %s; node b starts first\n", o->node,
			rte_strerror(-rc));
		return rc;
	}
	/* The server's link comes up when the client, started later, has connected. */
	for (int ms = 0; o->node == 'a' && ms < READY_MS / 2; ms += 10) {
		if (rte_eth_link_get_nowait(0, &link) == 0 && link.link_status)
			return 0;
		rte_delay_us_sleep(10000);
	}
	if (o->node == 'b')
		return 0;
	fprintf(stderr, "node a: memif link stays down: is node b running at %s?\n", o->socket);
	return -ETIMEDOUT;
}

/* Lines of the application into frames. Returns how many. */
static uint16_t
net_send(struct consumer *from_app, struct rte_mempool *pool)
{
	static const struct rte_ether_hdr ether = {
		.dst_addr.addr_bytes = {0x02, 0, 0, 0, 0, 1},
		.src_addr.addr_bytes = {0x02, 0, 0, 0, 0, 2},
		.ether_type = RTE_BE16(ETHERTYPE),
	};
	struct rte_mbuf *bufs[BURST];
	uint8_t user[LINE_USER];
	uint16_t n = 0, sent;

	while (n < BURST && ring_take(from_app, user)) {
		char *frame;

		bufs[n] = rte_pktmbuf_alloc(pool);
		if (bufs[n] == NULL)
			break;
		frame = rte_pktmbuf_append(bufs[n], sizeof(ether) + sizeof(struct line));
		memcpy(frame, &ether, sizeof(ether));
		memcpy(frame + sizeof(ether), user, LINE_USER);
		n++;
	}
	if (n == 0)
		return 0;
	sent = rte_eth_tx_burst(0, 0, bufs, n);
	/* Lost: with one ping under way this cannot be, and the initiator would say so. */
	rte_pktmbuf_free_bulk(bufs + sent, n - sent);
	return n;
}

/* Frames from the net into lines of the application. Returns how many. */
static uint16_t
net_receive(struct producer *to_app)
{
	struct rte_mbuf *bufs[BURST];
	uint16_t n = rte_eth_rx_burst(0, 0, bufs, BURST);

	for (uint16_t i = 0; i < n; i++) {
		if (bufs[i]->data_len >= RTE_ETHER_HDR_LEN + LINE_USER)
			ring_put(to_app,
				rte_pktmbuf_mtod_offset(bufs[i], void *, RTE_ETHER_HDR_LEN));
	}
	if (n)
		rte_pktmbuf_free_bulk(bufs, n);
	return n;
}

static int
role_primary(const struct options *o)
{
	const struct rte_memzone *zone;
	struct channel_shm *shm;
	struct consumer from_app = {0};
	struct producer to_app = {0};
	struct rte_mempool *pool;
	uint64_t born;
	uint32_t idle = 0;

	if (eal_start(o, true) != 0 || port_start(o, &pool) != 0)
		return 1;
	zone = rte_memzone_reserve_aligned(ZONE_NAME, sizeof(*shm), SOCKET_ID_ANY, 0, 64);
	if (zone == NULL) {
		fprintf(stderr, "node %c: no memzone: %s\n", o->node, rte_strerror(rte_errno));
		return 1;
	}
	shm = zone->addr;
	memset(shm, 0, sizeof(*shm));
	from_app.ring = &shm->to_net;
	to_app.ring = &shm->to_app;
	born = rte_rdtsc();
	tell_ready(o);
	while (!stop) {
		uint16_t moved = net_send(&from_app, pool);

		moved += net_receive(&to_app);
		if (moved)
			continue;
		sched_yield();
		if (++idle % 65536 == 0 && life_over(born))
			break;
	}
	rte_delay_us_sleep(CLOSE_MS * 1000);
	rte_eth_dev_stop(0);
	rte_eth_dev_close(0);
	rte_eal_cleanup();
	return 0;
}

/* ---- application ---- */

static void
print_result(const struct options *o)
{
	uint64_t p50 = hist_percentile(&hist, 500000), p99 = hist_percentile(&hist, 990000);
	uint64_t p999 = hist_percentile(&hist, 999000);

	if (o->json)
		printf("{\"p50_ns\":%lu,\"p99_ns\":%lu,\"p999_ns\":%lu,\"min_ns\":%lu,\"mean_ns\":%"
		       "lu,"
		       "\"max_ns\":%lu,\"rounds\":%lu}\n",
			p50, p99, p999, hist_min(&hist), hist_mean(&hist), hist_max(&hist),
			hist_count(&hist));
	else
		printf("bare shape, 64 B, round trip: p50 %.2f us  p99 %.2f us  p99.9 %.2f us  "
		       "(%lu rounds)\n",
			(double)p50 / 1e3, (double)p99 / 1e3, (double)p999 / 1e3,
			hist_count(&hist));
	fflush(stdout);
}

static int
initiate(const struct options *o, struct producer *to_net, struct consumer *from_net)
{
	const double ns_per_tick = 1e9 / (double)rte_get_tsc_hz();
	struct ping sent = {0}, got;

	hist_init(&hist);
	for (uint64_t i = 0; i < o->warmup + o->rounds && !stop; i++) {
		uint64_t start = rte_rdtsc();

		sent.number = i;
		if (!ring_put(to_net, &sent))
			return 1;
		while (!ring_take(from_net, &got)) {
			sched_yield();
			if (stop)
				return 1;
			if (rte_rdtsc() - start > PING_LOST_S * rte_get_tsc_hz()) {
				fprintf(stderr, "app a: no answer to ping %lu within %d s\n", i,
					PING_LOST_S);
				return 1;
			}
		}
		if (got.number != i) {
			fprintf(stderr, "app a: answer %lu to ping %lu\n", got.number, i);
			return 1;
		}
		if (i >= o->warmup)
			hist_record(&hist, (uint64_t)((double)(rte_rdtsc() - start) * ns_per_tick));
	}
	print_result(o);
	return 0;
}

static int
respond(struct producer *to_net, struct consumer *from_net)
{
	uint64_t born = rte_rdtsc();
	uint32_t idle = 0;
	struct ping got;

	while (!stop) {
		if (ring_take(from_net, &got)) {
			ring_put(to_net, &got);
			continue;
		}
		sched_yield();
		if (++idle % 65536 == 0 && life_over(born))
			return 1;
	}
	return 0;
}

static int
role_app(const struct options *o)
{
	const struct rte_memzone *zone;
	struct producer to_net = {0};
	struct consumer from_net = {0};
	struct channel_shm *shm;
	int rc;

	if (eal_start(o, false) != 0)
		return 1;
	zone = rte_memzone_lookup(ZONE_NAME);
	if (zone == NULL) {
		fprintf(stderr, "app %c: primary %s has no memzone " ZONE_NAME "\n", o->node,
			o->prefix);
		return 1;
	}
	shm = zone->addr;
	to_net.ring = &shm->to_net;
	from_net.ring = &shm->to_app;
	tell_ready(o);
	rc = o->node == 'a' ? initiate(o, &to_net, &from_net) : respond(&to_net, &from_net);
	if (o->cleanup)
		rte_eal_cleanup();
	return rc;
}

/* ---- run ---- */

struct child {
	const char *role;
	char node;
	pid_t pid;
};

/* Start one role as a process of its own and wait until it says that it is up. */
static int
child_start(struct child *c, const struct options *o, const char *prefix)
{
	char node[2] = {c->node, 0}, fd[12], rounds[24], warmup[24];
	char *argv[24] = {"bare_shape", (char *)(uintptr_t)c->role, "--node", node, "--cpu",
		c->node == 'a' ? "0" : "1", "--prefix", (char *)(uintptr_t)prefix, "--socket",
		(char *)(uintptr_t)o->socket, "--huge-dir", (char *)(uintptr_t)o->huge_dir,
		"--ready-fd", fd, "--rounds", rounds, "--warmup", warmup};
	struct pollfd p = {.events = POLLIN};
	int ends[2], argc = 18;
	char byte;

	if (o->json)
		argv[argc++] = "--json";
	if (o->cleanup)
		argv[argc++] = "--cleanup";
	if (pipe(ends) != 0)
		return -errno;
	snprintf(fd, sizeof(fd), "%d", ends[1]);
	snprintf(rounds, sizeof(rounds), "%lu", o->rounds);
	snprintf(warmup, sizeof(warmup), "%lu", o->warmup);
	c->pid = fork();
	if (c->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		close(ends[0]);
		execv("/proc/self/exe", argv);
		_exit(127);
	}
	close(ends[1]);
	p.fd = ends[0];
	/* Readable is a byte or, if the child is dead, the end of the pipe. */
	if (c->pid < 0 || poll(&p, 1, READY_MS) != 1 || read(ends[0], &byte, 1) != 1) {
		fprintf(stderr, "%s %c did not come up\n", c->role, c->node);
		close(ends[0]);
		return -1;
	}
	close(ends[0]);
	return 0;
}

/* Wait for its end, at most `ms`, then kill it. 0 if it ended by itself with status 0. */
static int
child_wait(struct child *c, int ms)
{
	int status = -1;

	if (c->pid <= 0)
		return 0;
	for (; ms > 0; ms -= 10) {
		if (stop) {
			/* We are told to end: so is the child, and it has its time to. */
			stop = 0;
			ms = 5000;
			kill(c->pid, SIGTERM);
		}
		if (waitpid(c->pid, &status, WNOHANG) == c->pid)
			goto ended;
		usleep(10000);
	}
	fprintf(stderr, "%s %c had to be killed\n", c->role, c->node);
	kill(c->pid, SIGKILL);
	waitpid(c->pid, &status, 0);
	status = -1;
ended:
	c->pid = 0;
	if (WIFSIGNALED(status))
		fprintf(stderr, "%s %c died of signal %d\n", c->role, c->node, WTERMSIG(status));
	return status;
}

static void
remove_matching(const char *format, const char *dir, const char *prefix)
{
	char pattern[512];
	glob_t found;

	snprintf(pattern, sizeof(pattern), format, dir, prefix);
	if (glob(pattern, 0, NULL, &found) != 0)
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		remove(found.gl_pathv[i]);
	globfree(&found);
}

/* Remove the files that EAL leaves behind, whichever process of the node died and however it
 * did. */
static void
remove_files(const struct options *o, const char *prefix)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");
	const char *base = geteuid() == 0 ? "/var/run" : xdg ? xdg : "/tmp";

	remove_matching("%s/dpdk/%s/*", base, prefix);
	remove_matching("%s/dpdk/%s", base, prefix);
	remove_matching("%s/%smap_*", o->huge_dir, prefix);
}

static int
role_run(struct options *o)
{
	struct child all[] = {{"primary", 'b', 0}, {"primary", 'a', 0}, {"app", 'b', 0},
		{"app", 'a', 0}};
	char prefix[2][48], socket[64];
	int rc = 0;

	snprintf(socket, sizeof(socket), "/tmp/bare_shape.%d.sock", (int)getpid());
	o->socket = socket;
	for (int i = 0; i < 2; i++)
		snprintf(prefix[i], sizeof(prefix[i]), "bare_shape.%d.%c", (int)getpid(), 'a' + i);
	for (int i = 0; i < 4 && rc == 0; i++)
		rc = child_start(&all[i], o, prefix[all[i].node - 'a']);
	if (rc == 0)
		rc = child_wait(&all[3], LIFE_S * 1000);
	for (int i = 3; i >= 2; i--) {
		if (all[i].pid > 0)
			kill(all[i].pid, SIGTERM);
		rc |= child_wait(&all[i], 5000);
	}
	for (int i = 0; i < 2; i++) {
		if (all[i].pid > 0)
			kill(all[i].pid, SIGTERM);
	}
	for (int i = 0; i < 2; i++)
		rc |= child_wait(&all[i], 5000);
	unlink(socket);
	remove_files(o, prefix[0]);
	remove_files(o, prefix[1]);
	return rc ? 1 : 0;
}

static void
usage(void)
{
	fprintf(stderr,
		"usage: bare_shape run [--rounds N] [--warmup N] [--json] [--huge-dir DIR] "
		"[--cleanup]\n"
		"       bare_shape primary|app --node a|b --cpu N --prefix P [--socket S] "
		"[--cleanup] ...\n"
		"By hand: primary b, primary a, app b, app a, in this order; SIGTERM ends a role.\n"
		"--cleanup: applications call rte_eal_cleanup() at their end, instead of just "
		"exiting.\n");
	exit(2);
}

static void
parse(int argc, char **argv, struct options *o)
{
	static const struct option names[] = {{"node", 1, NULL, 'n'}, {"cpu", 1, NULL, 'c'},
		{"prefix", 1, NULL, 'p'}, {"socket", 1, NULL, 's'}, {"huge-dir", 1, NULL, 'h'},
		{"rounds", 1, NULL, 'r'}, {"warmup", 1, NULL, 'w'}, {"json", 0, NULL, 'j'},
		{"cleanup", 0, NULL, 'x'}, {"ready-fd", 1, NULL, 'f'}, {NULL, 0, NULL, 0}};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 'n':
			o->node = optarg[0];
			break;
		case 'c':
			o->cpu = optarg;
			break;
		case 'p':
			o->prefix = optarg;
			break;
		case 's':
			o->socket = optarg;
			break;
		case 'h':
			o->huge_dir = optarg;
			break;
		case 'r':
			o->rounds = strtoull(optarg, NULL, 10);
			break;
		case 'w':
			o->warmup = strtoull(optarg, NULL, 10);
			break;
		case 'j':
			o->json = true;
			break;
		case 'x':
			o->cleanup = true;
			break;
		case 'f':
			o->ready_fd = atoi(optarg);
			break;
		default:
			usage();
		}
	}
}

int
main(int argc, char **argv)
{
	struct options o = {
		.node = 0,
		.cpu = "0",
		.huge_dir = "/dev/hugepages",
		.rounds = 100000,
		.warmup = 10000,
		.socket = "/tmp/bare_shape.sock",
		.ready_fd = -1,
	};
	/* No SA_RESTART: a wait must see it. */
	struct sigaction action = {.sa_handler = on_signal};

	if (argc < 2)
		usage();
	parse(argc - 1, argv + 1, &o);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	if (strcmp(argv[1], "run") == 0)
		return role_run(&o);
	if ((o.node != 'a' && o.node != 'b') || o.prefix == NULL)
		usage();
	if (strcmp(argv[1], "primary") == 0)
		return role_primary(&o);
	if (strcmp(argv[1], "app") == 0)
		return role_app(&o);
	usage();
}
