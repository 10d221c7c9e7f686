/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Attaching to a primary as a DPDK secondary: the EAL, the handshake over rte_mp, the channels.
 * Called from the application's thread; nothing here is on the data path.
 *
 * Design notes
 * 1. The handshake compares the version of the interface before anything shared is used.
 * 2. A dead primary leaves files to which a secondary can attach "successfully": only an answer to
 *    the handshake proves that it lives.
 * 3. A failure inside rte_eal_init() cannot be retried, so its causes are checked before, over the
 *    primary's socket, which also assigns this process an lcore number of its own. The end of that
 *    connection then shows the end of the primary.
 * 4. Once its EAL runs, a secondary takes no lock that it shares with the primary: if it were
 *    killed, the lock would stay held. So it looks up no memzone, and does not call
 *    rte_eal_cleanup(), which frees on the shared heap: it only removes its own files.
 */
/* rte_vect_get_max_simd_bitwidth is experimental before DPDK 23.11 */
#define ALLOW_EXPERIMENTAL_API
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_memory.h>
#include <rte_mempool.h>
#include <rte_service_component.h>
#include <rte_vect.h>
#include <rte_version.h>

#include "base/clock.h"
#include "channel/instance.h"
#include "client/client.h"
#include "client/inherit.h"
#include "client/signals.h"

#define LOOK_US 20000 /* between checks whether the primary is gone */

static struct {
	bool running;
	bool left;         /* the primary's memory is not mapped any more */
	pid_t pid;         /* whose EAL it is; a child of fork() has none */
	_Atomic int nodes; /* nodes that are attached by this EAL */
	char instance[64];
	char socket[108]; /* path of the primary's socket, if it has one */
} eal;

/* Return whether any of [begin, end) is mapped in this process. */
static bool
is_taken(uint64_t begin, uint64_t end)
{
	FILE *f = fopen("/proc/self/maps", "r");
	uint64_t from, to;
	char line[512];
	bool taken = false;

	while (f != NULL && !taken && fgets(line, sizeof(line), f))
		taken = sscanf(line, "%lx-%lx", &from, &to) == 2 && from < end && to > begin;
	if (f != NULL)
		fclose(f);
	return taken;
}

static bool
has_ops(const char *name, unsigned index)
{
	return index < rte_mempool_ops_table.num_ops &&
		strcmp(rte_mempool_ops_table.ops[index].name, name) == 0;
}

/* Ask over the primary's socket whether rte_eal_init() can succeed. Return 0 and its reply, or
 * -errno. If there is no socket, return 0, and the reply is all 0. */
static int
ask_before(struct pmx_node *node, const char *instance, struct attach_reply *said)
{
	const struct attach_request hello = {
		.abi = CHANNEL_ABI,
		.op = ATTACH_BEFORE,
		.pid = getpid(),
	};
	char path[PATH_MAX], at[108] = "";

	*said = (struct attach_reply){0};
	node->socket = -1;
	snprintf(path, sizeof(path), "%s/dpdk/%s/" ATTACH_LINK, eal_base(), instance);
	if (readlink(path, at, sizeof(at) - 1) <= 0)
		return 0; /* access.socket = off */
	int fd = node->socket = way_thin_connect(at);

	if (fd < 0)
		return fd;
	int result = way_thin_ask(node, &hello, -1, said, NULL);

	if (result != 0)
		return result;
	memcpy(eal.socket, at, sizeof(eal.socket));
	return strcmp(said->dpdk, rte_version()) != 0            ? -EPROTO
		: said->lcore == 0                               ? -EUSERS
		: is_taken(said->memory_begin, said->memory_end) ? -EADDRINUSE
								 : 0;
}

static int
start_eal(struct pmx_node *node, const char *instance, int cpu)
{
	char dir[PATH_MAX], real[PATH_MAX], config[PATH_MAX + 16], prefix[96], lcores[32];
	cpu_set_t before;
	struct attach_reply said;

	node->socket = -1;
	if (eal.running)
		return strcmp(eal.instance, instance) == 0 && !eal.left && eal.pid == getpid()
			? 0
			: -EALREADY;
	snprintf(dir, sizeof(dir), "%s/dpdk/%s", eal_base(), instance);
	int result = ask_before(node, instance, &said);

	if (result != 0)
		return result;
	/* a primary that took over has another file prefix, and the instance's directory is a link
	 * to that of the new prefix */
	const char *own = realpath(dir, real) != NULL ? strrchr(real, '/') + 1 : instance;

	snprintf(prefix, sizeof(prefix), "--file-prefix=%s", own);
	snprintf(lcores, sizeof(lcores), "%u@%d", said.lcore, cpu < 0 ? 0 : cpu);
	char *argv[] = {"pmx", "--proc-type=secondary", prefix, "--no-pci", "--no-telemetry",
		"--lcores", lcores, "--log-level=*:error",
		"--force-max-simd-bitwidth=512" /* width that lib/match/scan.c may use */, NULL};

	STEP();
	CPU_ZERO(&before);
	sched_getaffinity(0, sizeof(before), &before);
	sigset_t signals = signals_block();
	snprintf(config, sizeof(config), "%s/config", dir);
	const int turn = open(config, O_RDONLY | O_CLOEXEC);

	if (turn >= 0)
		instance_turn_take(turn);
	inherit_begin();
	result = rte_eal_init((int)(sizeof(argv) / sizeof(argv[0])) - 1, argv);
	inherit_end();
	if (turn >= 0)
		close(turn);
	signals_restore(signals);
	if (result < 0)
		return rte_errno == EALREADY ? -EALREADY : -ENODEV;
	/* frees 150 KiB of the shared heap that are not used, and would not be freed when this
	 * process ends (note 4) */
	rte_service_finalize();
	if (cpu < 0)
		sched_setaffinity(0, sizeof(before), &before);
	eal.running = true;
	eal.pid = getpid();
	/* mempool drivers are plugins of the EAL, so they are known only now */
	if (*said.mempool_ops && !has_ops(said.mempool_ops, said.mempool_ops_index)) {
		eal.left = true;
		return -EPROTO;
	}
	STEP();
	snprintf(eal.instance, sizeof(eal.instance), "%s", instance);
	return 0;
}

/* The reply to this process's request; there is one at a time. */
static struct {
	pthread_mutex_t asking; /* held for a whole request */
	pthread_mutex_t lock;   /* protects what follows */
	pthread_cond_t here;
	enum { NOT_WANTED, WANTED, RECEIVED, NONE_CAME } state;
	struct rte_mp_msg msg;
} answer = {
	.asking = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.here = PTHREAD_COND_INITIALIZER,
};

/* Called on a thread of the EAL with the reply, or without one after ATTACH_PATIENCE_S. */
static int
answered(const struct rte_mp_msg *request, const struct rte_mp_reply *reply)
{
	(void)request;
	pthread_mutex_lock(&answer.lock);
	bool good = reply->nb_received == 1, wanted = answer.state == WANTED;

	if (good && wanted)
		answer.msg = reply->msgs[0];
	for (int i = 0; good && !wanted && i < reply->msgs[0].num_fds; i++)
		close(reply->msgs[0].fds[i]);
	if (wanted)
		answer.state = good ? RECEIVED : NONE_CAME;
	pthread_cond_signal(&answer.here);
	pthread_mutex_unlock(&answer.lock);
	return 0;
}

/* Wait until the reply is here or the primary is gone, without waiting for the EAL's timeout then.
 * Return whether the reply is here. */
static bool
wait_for_answer(const struct pmx_node *node)
{
	pthread_mutex_lock(&answer.lock);
	while (answer.state == WANTED && !node->gone) {
		const struct timespec until = clock_moment(LOOK_US);

		pthread_cond_clockwait(&answer.here, &answer.lock, CLOCK_MONOTONIC, &until);
	}
	bool here = answer.state == RECEIVED;

	answer.state = NOT_WANTED;
	pthread_mutex_unlock(&answer.lock);
	return here;
}

static int
read_answer(struct attach_reply *reply, int *fds)
{
	const struct rte_mp_msg *m = &answer.msg;
	int result = -EPROTO;

	if (m->len_param == sizeof(*reply)) {
		memcpy(reply, m->param, sizeof(*reply));
		result = reply->abi == CHANNEL_ABI ? reply->result : -EPROTO;
	}
	for (int i = 0; i < m->num_fds; i++) {
		if (fds != NULL && i < 2 && result == 0)
			fds[i] = m->fds[i];
		else
			close(m->fds[i]);
	}
	return result;
}

/* Return whether this process may open n more descriptors. The EAL does not say if a message
 * brought fewer than its sender gave, and the numbers that it tells instead may be those of other
 * descriptors. */
static bool
may_open(unsigned n)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	bool may = fd >= 0 && (n == 1 || may_open(n - 1));

	if (fd >= 0)
		close(fd);
	return may;
}

static int
secondary_ask(struct pmx_node *node, const struct attach_request *request, int give,
	struct attach_reply *reply, int *fds)
{
	struct rte_mp_msg msg = {.len_param = sizeof(*request)};
	struct timespec patience = {.tv_sec = ATTACH_PATIENCE_S};
	int result = -ENOENT;

	if (fds != NULL && !may_open(2))
		return -EMFILE;
	snprintf(msg.name, sizeof(msg.name), "%s", ATTACH_ACTION);
	memcpy(msg.param, request, sizeof(*request));
	msg.fds[0] = give;
	msg.num_fds = give >= 0;
	STEP();
	pthread_mutex_lock(&answer.asking);
	answer.state = WANTED;
	if (!node->gone && rte_mp_request_async(&msg, &patience, answered) == 0 &&
		wait_for_answer(node)) {
		STEP();
		result = read_answer(reply, fds);
	}
	pthread_mutex_unlock(&answer.asking);
	return result;
}

static int
secondary_open_context(struct pmx_context **out, struct pmx_node *node, uint16_t number,
	const struct pmx_context_params *params)
{
	const struct attach_request request = attach_open_request(node, number, params);
	struct attach_reply reply;
	int fds[2] = {-1, -1};
	int result = secondary_ask(node, &request, -1, &reply, fds);

	if (result == -ENOENT)
		return -EPIPE;
	if (result != 0)
		return result;
	struct channel_shm *shm = (struct channel_shm *)(uintptr_t)reply.shm;

	if (channel_check(shm) == NULL) {
		result = ctx_make(out, node, params, shm, fds[0], fds[1]);
	} else {
		result = -EPROTO;
		close(fds[0]);
		close(fds[1]);
	}
	if (result != 0)
		attach_give_back(node, secondary_ask, &reply);
	return result;
}

/* ------------------------------------------------------------------ the primary is gone */

static int
replace(const struct rte_memseg_list *msl, const struct rte_memseg *ms, void *arg)
{
	(void)msl;
	(void)arg;
	/* an application that still reads a message there finds zeros, not other data */
	return mmap(ms->addr, ms->len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) == MAP_FAILED
		? -1
		: 0;
}

static void
let_go(struct pmx_node *node)
{
	if (eal.left || node->let_go)
		return;
	node->let_go = true;
	/* only when all nodes have left their channels, since they share one mapping */
	if (atomic_fetch_sub(&eal.nodes, 1) > 1)
		return;
	eal.left = true;
	rte_memseg_walk_thread_unsafe(replace, NULL);
}

/* Return whether an EAL file is of this process: mp_socket_PID_NUMBER, or fbarray_NAME_PID, which
 * newer EALs give a number too. */
static bool
is_ours(const char *file, const void *unused)
{
	char pid[16];

	(void)unused;
	int n = snprintf(pid, sizeof(pid), "%d", getpid());
	const char *of = strncmp(file, "mp_socket_", 10) == 0 ? file + 9
		: strncmp(file, "fbarray_", 8) == 0           ? strchr(file + 8, '_')
							      : NULL;

	return of != NULL && strncmp(of + 1, pid, (size_t)n) == 0 &&
		(of[n + 1] == '_' || of[n + 1] == 0);
}

/* Detach, and remove what this process's EAL left in the primary's directory. */
static void
secondary_end(struct pmx_node *node)
{
	char dir[PATH_MAX];

	life_end(node);
	close(node->life);
	if (!node->let_go)
		atomic_fetch_sub(&eal.nodes, 1);
	snprintf(dir, sizeof(dir), "%s/dpdk/%s", eal_base(), eal.instance);
	files_that(dir, is_ours, NULL, true);
}

uint64_t
way_dpdk_page(const void *shm)
{
	const struct rte_memseg *ms = rte_mem_virt2memseg(shm, NULL);

	return ms != NULL ? ms->hugepage_sz : (uint64_t)sysconf(_SC_PAGESIZE);
}

static const struct way way_secondary = {secondary_open_context, attach_close, attach_memory,
	secondary_end, rte_vect_get_max_simd_bitwidth, attach_preempt, NULL, way_dpdk_page,
	inherit_forks, secondary_ask, let_go};

int
secondary_attach(struct pmx_node *node, const char *instance, int cpu)
{
	int result = start_eal(node, instance, cpu), pid, fd;

	node->way = &way_secondary;
	if (result == 0)
		result = attach_hello(node, secondary_ask, &pid);
	fd = node->socket >= 0 || result != 0 ? node->socket : (int)syscall(SYS_pidfd_open, pid, 0);
	if (result == 0 && fd < 0)
		result = errno == ESRCH ? -ENOENT : -errno;
	if (result == 0)
		result = life_begin(node, fd, node->socket >= 0 ? POLLRDHUP : POLLIN);
	if (result == 0) {
		atomic_fetch_add(&eal.nodes, 1);
		/* pmx_reattach() finds the next primary at the same socket, even if its path is
		 * configured */
		if (*eal.socket)
			memcpy(node->instance, eal.socket, sizeof(node->instance));
		return 0;
	}
	if (fd >= 0)
		close(fd);
	return result;
}
