/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What attached and embedded nodes have in common: opening and closing contexts, texts of errors.
 * Called from the application's threads, not on the data path.
 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/params.h"
#include "channel/instance.h"
#include "client/client.h"
#include "client/say.h"

#define EAL_WORDS 64

/* Move the calling thread to a CPU. Return false if this process may not use it, or there is no
 * such CPU. */
static bool
move_to(int cpu)
{
	cpu_set_t one;

	if (cpu >= CPU_SETSIZE)
		return false;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	return sched_setaffinity(0, sizeof(one), &one) == 0;
}

/* Return whether this process may use a CPU. It is checked first because the EAL of a secondary
 * prints its usage if it may not. */
static bool
may_use(int cpu)
{
	cpu_set_t now;
	bool may = sched_getaffinity(0, sizeof(now), &now) == 0 && move_to(cpu);

	if (may)
		sched_setaffinity(0, sizeof(now), &now);
	return may;
}

static int
as_thin(struct pmx_node *node, const char *instance, int cpu)
{
	int result = way_thin_attach(node, instance);

	if (result == 0 && (result = life_begin(node, node->socket, POLLRDHUP)) != 0)
		close(node->socket);
	if (result == 0 && cpu >= 0)
		move_to(cpu);
	return result;
}

/* The node of PMX_ATTACH=embedded, of which a process has one: whoever attaches in addition shares
 * it, as a library beside the program that uses it. */
static struct {
	pthread_mutex_t lock;
	struct pmx_node *node;
	unsigned users;
} embedded = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Start an engine in this process, by PMX_CONFIG and PMX_EAL. */
static int
start_embedded(struct pmx_node **node)
{
	char *words = getenv("PMX_EAL") ? strdup(getenv("PMX_EAL")) : NULL, *save = NULL,
	     error[512] = "";
	char *argv[EAL_WORDS + 2] = {(char *)(uintptr_t) "pmx"};
	struct pmx_node_params params = {
		.size = sizeof(params),
		.config_file = getenv("PMX_CONFIG"),
		.eal_argc = 1,
		.eal_argv = argv,
	};

	if (params.config_file == NULL)
		return -EINVAL;
	for (char *w = words ? strtok_r(words, " ", &save) : NULL;
		w && params.eal_argc <= EAL_WORDS; w = strtok_r(NULL, " ", &save))
		argv[params.eal_argc++] = w;
	int result = pmx_node_start(node, &params, error, sizeof(error));

	if (result == 0)
		(*node)->polls = true;
	else
		client_say(PMX_LOG_ERROR, "PMX_ATTACH=embedded: %s", error);
	return result; /* words is not freed: the EAL keeps pointers into it */
}

static int
as_embedded(struct pmx_node **node)
{
	int result = 0;

	pthread_mutex_lock(&embedded.lock);
	if (embedded.users == 0)
		result = start_embedded(&embedded.node);
	else if (embedded.node->foreign)
		result = -EALREADY; /* the EAL of this process's parent */
	if (result == 0) {
		embedded.users++;
		*node = embedded.node;
	}
	pthread_mutex_unlock(&embedded.lock);
	return result;
}

/* End one use of the embedded node. Return whether others still use it; false for other nodes,
 * which nobody shares. */
static bool
is_shared(const struct pmx_node *node)
{
	bool shared = false;

	pthread_mutex_lock(&embedded.lock);
	if (embedded.users > 0 && node == embedded.node)
		shared = --embedded.users > 0;
	pthread_mutex_unlock(&embedded.lock);
	return shared;
}

/* Return how to attach, by the parameters or else by the environment: enum pmx_attach, or
 * -EINVAL. */
static int
attach_policy(const struct pmx_attach_params *params)
{
	static const char *const names[] = {NULL, "secondary", "thin", "embedded"};
	const char *by_user = getenv("PMX_ATTACH");

	if (params->how > PMX_ATTACH_EMBEDDED)
		return -EINVAL;
	if (params->how != PMX_ATTACH_AUTO || by_user == NULL)
		return (int)params->how;
	for (int how = PMX_ATTACH_SECONDARY; how <= PMX_ATTACH_EMBEDDED; how++) {
		if (strcmp(by_user, names[how]) == 0)
			return how;
	}
	return -EINVAL;
}

/* Attach by a name; a path is -EINVAL. DPDK is opened only where this user has such a primary. */
static int
as_secondary(struct pmx_node *node, const char *instance, int cpu)
{
	const struct dpdk_part *part;
	char path[PATH_MAX], error[512];

	if (strchr(instance, '/') != NULL)
		return -EINVAL;
	snprintf(path, sizeof(path), "%s/dpdk/%s/config", eal_base(), instance);
	if (access(path, F_OK) != 0)
		return -ENOENT;
	part = dpdk_open(error, sizeof(error));
	return part != NULL ? part->attach(node, instance, cpu) : -ENOTSUP;
}

/* Attach in the way `how`, which is not embedded. */
static int
attach_as(struct pmx_node *node, int how, const char *instance, int cpu)
{
	/* prefer a secondary, which sends and receives bulk without a copy; if that is not
	 * possible, attach as a thin client */
	int result = how == PMX_ATTACH_THIN ? -EINVAL : as_secondary(node, instance, cpu);

	if (how == PMX_ATTACH_SECONDARY || result == 0 || result == -EPROTO || result == -ENOMEM)
		return result;
	int thin = as_thin(node, instance, cpu);

	/* -EINVAL, -ENOTSUP: one way only was tried */
	return thin == -ENOENT && result != -EINVAL && result != -ENOTSUP ? result : thin;
}

static struct pmx_node *
make_node(void)
{
	struct pmx_node *n = calloc(1, sizeof(*n));

	if (n == NULL)
		return NULL;
	n->services = features_client;
	n->job = attach_job();
	pthread_mutex_init(&n->lock, NULL);
	pthread_mutex_init(&n->asking, NULL);
	return n;
}

/* Give the caller the node that was made, or free it if the result of attaching or starting it is
 * an error. Return the result. */
static int
give_node(struct pmx_node **node, struct pmx_node *n, int result)
{
	if (result != 0) {
		free(n);
		return result;
	}
	fork_adds(n);
	*node = n;
	return 0;
}

int
pmx_node_attach(struct pmx_node **node, const char *instance,
	const struct pmx_attach_params *params)
{
	struct pmx_attach_params p;
	struct pmx_found found;
	int result = params_read(&p, sizeof(p), params), how = attach_policy(&p);
	const int cpu = p.pin ? p.cpu : -1;

	if (result != 0)
		return result;
	if (how < 0 || (p.pin && !may_use(cpu)))
		return -EINVAL;
	if (how == PMX_ATTACH_EMBEDDED) {
		result = as_embedded(node);
		if (result == 0 && p.pin)
			move_to(cpu);
		return result;
	}
	if (instance == NULL)
		instance = getenv("PMX_INSTANCE");
	if (instance == NULL && pmx_node_find(&found, 1) == 1)
		instance = found.instance;
	if (instance == NULL)
		return -ENOENT;
	/* a name, which becomes part of paths, or, with a '/', the path of a socket */
	if (strchr(instance, '/') == NULL && !instance_name_ok(instance))
		return -EINVAL;
	if (strlen(instance) >= sizeof((*node)->instance))
		return -ENAMETOOLONG;
	struct pmx_node *n = make_node();

	if (n == NULL)
		return -ENOMEM;
	strcpy(n->instance, instance);
	return give_node(node, n, attach_as(n, how, instance, cpu));
}

int
pmx_node_start(struct pmx_node **node, const struct pmx_node_params *given, char *error,
	uint32_t error_len)
{
	const struct dpdk_part *part;
	struct pmx_node_params params;
	char unused[1];

	if (error == NULL) {
		error = unused;
		error_len = sizeof(unused);
	}
	int result = params_read(&params, sizeof(params), given);

	if (result != 0) {
		snprintf(error, error_len,
			result == -E2BIG
				? "struct pmx_node_params of a later version sets what this "
				  "library does not know"
				: "struct pmx_node_params: its size is not set");
		return result;
	}
	if ((part = dpdk_open(error, error_len)) == NULL)
		return -ENOTSUP;
	struct pmx_node *n = make_node();

	if (n == NULL)
		return -ENOMEM;
	return give_node(node, n, part->start(n, &params, error, error_len));
}

unsigned
pmx_node_poll(struct pmx_node *node)
{
	return node->way->poll != NULL ? node->way->poll(node) : 0;
}

/* The longest time for which the context number of a process that has just ended may stay in use:
 * until its end is noticed, and what it sent is delivered. */
#define CLOSING_US       500000
#define CLOSING_AGAIN_NS 5000000

int
pmx_context_open(struct pmx_context **ctx, struct pmx_node *node, unsigned number,
	const struct pmx_context_params *params)
{
	struct pmx_context_params p;
	const struct timespec pause = {.tv_nsec = CLOSING_AGAIN_NS};
	const int64_t deadline = clock_deadline(CLOSING_US);
	int result = params_read(&p, sizeof(p), params);

	if (result != 0)
		return result;
	if (node->foreign)
		return -EPIPE;
	if (number > PMX_ANY_CONTEXT || ctx_idle_policy(&p) < 0 ||
		p.open_wait_us > PMX_OPEN_WAIT_MAX)
		return -EINVAL;
	while ((result = node->way->open(ctx, node, (uint16_t)number, &p)) == -EBUSY &&
		number != PMX_ANY_CONTEXT && node->embedded == NULL && clock_left(deadline) != 0)
		nanosleep(&pause, NULL);
	return result;
}

void
pmx_context_close(struct pmx_context *ctx)
{
	if (ctx == NULL)
		return;
	if (!ctx->node->foreign)
		ctx->node->way->close(ctx);
	ctx_free(ctx);
}

void
pmx_node_close(struct pmx_node *node)
{
	if (node == NULL || is_shared(node))
		return;
	while (node->contexts != NULL)
		pmx_context_close(node->contexts);
	fork_drops(node);
	if (!node->foreign)
		node->way->end(node);
	free(node);
}

const char *
pmx_version(void)
{
	return PMX_VERSION;
}

void
pmx_node_set_domain(struct pmx_node *node, uint32_t domain)
{
	node->domain = domain;
}

uint16_t
pmx_node_number(const struct pmx_node *node)
{
	return node->number;
}

static const struct {
	int error;
	const char *text;
} texts[] = {
	{0, "success"},
	{E2BIG,
		"more members, nodes or steps than such a collective can have: see coll.h; or "
		"parameters (struct pmx_*_params) of a later version of the library"},
	{EACCES,
		"you may not: who may attach and open which context says the primary's "
		"configuration (access.mode, owner, group, [contexts]); or that memory was "
		"registered without this right"},
	{EADDRINUSE,
		"the primary's memory must be mapped at its addresses, and this process uses some "
		"of them: start the primary with another EAL argument --base-virtaddr, or attach "
		"thin (PMX_ATTACH)"},
	{EAGAIN,
		"no room now: the submission ring is full, or limits.receives requests or "
		"limits.transfers transfers are under way: receive or poll, then try again"},
	{EALREADY,
		"this process already runs the DPDK EAL of another primary: attach before "
		"rte_eal_init, or use one primary"},
	{EBUSY,
		"in use: of a context, its number is: choose another, or PMX_ANY_CONTEXT; of "
		"memory, others have it pinned: try again, they release it or end; of a lock with "
		"PMX_TRY, another one has it; of a group's call, the one before has not ended"},
	{ECANCELED, "pmx_cancel() took it back"},
	{ECONNABORTED,
		"the other members of the group have no way to this one, and went on without it"},
	{ECONNREFUSED,
		"no context of that number is open at the destination: start the receiving "
		"application, check the number"},
	{ECONNRESET,
		"the receiver was restarted or closed while the message was on its way: it may or "
		"may not have arrived; of a group or its calls: a member has left or died"},
	{EDEADLK, "this member has that lock already, or waits for it: unlock it first"},
	{EDQUOT,
		"this user has as many contexts as one may have: close some, or raise "
		"access.user_contexts or limits.contexts"},
	{EEXIST,
		"that number or address is taken: by an area, a group or a shared region of this "
		"context, or by another mapping"},
	{EFAULT,
		"that memory is not mapped, may not be accessed so, has been given up, or begins "
		"or ends in memory of pmx_alloc() without being all in it"},
	{EHOSTDOWN,
		"the member on whose node this lock or region lives has gone: nobody can have it "
		"any more in this group"},
	{EHOSTUNREACH,
		"that node is not in [nodes] of the configuration, or never answered: check "
		"its number and that its primary runs"},
	{EINPROGRESS, "too late: a message has matched that receive, or it is a send"},
	{EINVAL, "an argument is out of range: the header says of each call which may be"},
	{EMFILE,
		"this process has too many open descriptors: raise `ulimit -n`, or open fewer "
		"contexts"},
	{EMSGSIZE,
		"the message is longer than pmx_get_max_message(), or than the receiving node "
		"takes: raise limits.send_buffers, receive_buffers or message_max, and give all "
		"nodes the same link.mtu (pmx-ctl doctor names those that differ); or than the "
		"receive that took it, which has its first bytes"},
	{ENAMETOOLONG, "the path of the primary's socket is longer than a Unix socket can have"},
	{ENOBUFS,
		"all send buffers wait for their Acks, or limits.unexpected matched messages wait: "
		"receive or poll, then try again; of a transfer with PMX_NOTIFY: the bytes are "
		"there, but its receiver takes no events"},
	{ENODEV, "the DPDK EAL did not start: see its messages; pmx-ctl doctor helps"},
	{ENOENT,
		"there is none: of pmx_node_attach(), no pmx-dpdk primary of that name runs for "
		"this user: start one, check node.name; of pmx_test_any() and pmx_wait_any(), no "
		"request was given that is under way; otherwise nobody has what was asked for"},
	{ENOKEY,
		"no region of that key or area is registered there, or no longer: its owner "
		"registers it again after pmx_reattach(), and tells the new key; or that memory is "
		"not pinned by this context"},
	{ENOMEM, "out of memory"},
	{ENOSPC,
		"the node has too few free mbufs for these quotas, or limits.resident contexts "
		"have theirs: ask for less, park or end others, or raise "
		"limits.mbufs; or no room for more regions or pins: limits.regions, or pins at 64 "
		"other contexts"},
	{ENOTCONN, "not a member of that group there: it has ended, or one of the two has left it"},
	{EOPNOTSUPP,
		"not supported: a thin client registers memory of pmx_alloc() or with PMX_ADOPT; "
		"without libpmx-dpdk.so (package libpmx-dpdk) processes attach thin only; such "
		"parts the verb does not take"},
	{EOWNERDEAD,
		"you have the lock, but a member that had it died or left with it: what it guards "
		"may be half done"},
	{EPERM, "that region is another context's, or this member does not have that lock"},
	{EPIPE,
		"the engine is gone: the primary stopped, or the context was closed; "
		"pmx_reattach() goes on with the next primary"},
	{EPROTO,
		"the two do not agree: of a primary, it is of another version: run applications "
		"and primary of one build; of a group, a member has given other parameters"},
	{ERANGE, "it reaches beyond the region that was registered there"},
	{ESTALE,
		"that result is no longer known, since a later one in its place failed: ask "
		"sooner, or look at pmx_context_read_stat()"},
	{ESRCH, "the process that attached has ended: its child attaches anew"},
	{ETIMEDOUT, "no answer in time"},
	{EUSERS, "no lcore number is left for another secondary: attach thin (PMX_ATTACH)"},
};

const char *
pmx_strerror(int error)
{
	if (error < 0)
		error = -error;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (texts[i].error == error)
			return texts[i].text;
	}
	return strerror(error);
}
