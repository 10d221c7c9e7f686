/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See reload.h.
 *
 * Design notes
 * 1. All is read and checked first. Then the lanes stand still between two turns, while tables that
 *    they read without locks, and their cores, are changed by this thread. That takes microseconds,
 *    and some for each node that changed.
 * 2. The file of before is kept as it was read, since the node's own copy has what was derived from
 *    it.
 * 3. A shared file is looked at once a second, by its time and number, and not watched: that sees
 *    an editor's rename, a link that changes, and a file of another host.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <rte_cycles.h>

#include "engine/encap.h"
#include "engine/rails.h"
#include "log/log.h"
#include "node/check.h"
#include "node/config_file.h"
#include "node/keeper.h"
#include "node/reload.h"

static struct {
	struct node *node;
	char *path;
	struct config read; /* note 2 */
	struct stat shared; /* of its file of nodes */
	pthread_mutex_t lock;
} running = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void
look_at_shared(struct stat *s)
{
	if (*running.read.node_file == 0 || stat(running.read.node_file, s) != 0)
		memset(s, 0, sizeof(*s));
}

int
reload_begin(struct node *n, const struct config *read, const char *path, char *error,
	uint32_t error_len)
{
	running.path = realpath(path, NULL);
	if (running.path == NULL) {
		snprintf(error, error_len, "%s: %s", path, strerror(errno));
		return -errno;
	}
	running.node = n;
	running.read = *read;
	running.read.peers = NULL;
	look_at_shared(&running.shared);
	return 0;
}

void
reload_end(void)
{
	pthread_mutex_lock(&running.lock);
	if (running.node != NULL)
		config_free(&running.read);
	free(running.path);
	running.path = NULL;
	running.node = NULL;
	pthread_mutex_unlock(&running.lock);
}

static bool
is_same_address(const struct link_addr *a, const struct link_addr *b)
{
	return a->v6 == b->v6 && a->port == b->port && a->ip == b->ip && a->zone == b->zone &&
		memcmp(a->ip6, b->ip6, sizeof(a->ip6)) == 0 &&
		memcmp(&a->mac, &b->mac, sizeof(a->mac)) == 0;
}

static bool
is_same_peer(const struct config_peer *a, const struct config_peer *b)
{
	bool same = a->links == b->links && a->found == b->found && strcmp(a->name, b->name) == 0 &&
		a->has_key == b->has_key && memcmp(a->key, b->key, sizeof(a->key)) == 0;

	for (uint32_t left = a->links; same && left != 0; left &= left - 1) {
		const uint32_t link = (uint32_t)__builtin_ctz(left);

		same = is_same_address(&a->addr[link], &b->addr[link]);
	}
	return same;
}

static void
remove_peer(struct node *n, uint16_t number)
{
	peer_unset(n, number);
	for (uint32_t lane = 0; lane < n->config.lanes; lane++)
		proto_node_gone(n->engines[lane].proto, number);
}

/* Return whether another link can carry what was begun on these. Frames may refer to bytes in an
 * application's memory only if all links of their node can read them. */
static bool
takes_over(const struct node *n, uint32_t before, uint32_t link)
{
	const struct link *l = &n->links[link];
	bool refers = true, by_devices = true;

	for (; before != 0; before &= before - 1) {
		const struct link *b = &n->links[__builtin_ctz(before)];

		refers &= b->segments;
		by_devices &= b->device != NULL;
	}
	return !refers || (l->segments && (l->device == NULL || by_devices));
}

/* Return whether what is on its way to a peer can go on by those links. */
static bool
goes_on(const struct node *n, uint32_t before, uint32_t links)
{
	bool all = links != 0;

	for (uint32_t left = links & ~before; left != 0; left &= left - 1)
		all &= takes_over(n, before, (uint32_t)__builtin_ctz(left));
	return all;
}

/* While the lanes stand still. 0 or -errno. */
static int
change_peer(struct node *n, uint16_t number, const struct config_peer *to,
	struct reload_result *result)
{
	const struct config_peer before = n->config.peers[number];
	int e = 0;

	if (before.links != 0 && !goes_on(n, before.links, to->links))
		remove_peer(n, number);
	n->config.peers[number] = *to;
	if (to->links != 0)
		e = peer_set(n, number, to);
	if (e != 0) {
		n->config.peers[number].links = 0;
		remove_peer(n, number);
	}
	if (to->links == 0)
		result->removed++;
	else if (before.links != 0)
		result->moved++;
	else
		result->added++;
	return e;
}

/* Have the lanes take the peers as they are now. */
static void
begin_again(struct node *n)
{
	for (uint32_t i = 0; i < n->config.lanes; i++) {
		lane_rails_make(&n->engines[i]); /* their memory is there since the start */
		node_tell_strangers(&n->engines[i]);
	}
}

static int
change_all(struct node *n, const struct config *to, struct reload_result *result, char *error,
	uint32_t error_len)
{
	const uint64_t begin = rte_rdtsc();
	int e = node_pause(n), bad = 0;

	if (e != 0) {
		snprintf(error, error_len,
			"a lane does not answer, so nothing has changed: does another process take "
			"its CPU?");
		return e;
	}
	for (uint32_t i = 0; i < n->link_count; i++) /* auto: as the kernel has it now */
		n->links[i].config.gateway = to->links[i].link.gateway;
	for (uint32_t i = 0; i < n->config.nodes_max; i++) {
		const struct config_peer *now = &n->config.peers[i];

		if (!now->found)
			n->config.peers[i].host = to->peers[i].host;
		/* what was found stays, unless the file has it now */
		if (i == n->config.id || is_same_peer(now, &to->peers[i]) ||
			(now->found && to->peers[i].links == 0))
			continue;
		e = change_peer(n, (uint16_t)i, &to->peers[i], result);
		if (e == 0)
			continue;
		snprintf(error, error_len, "[nodes] %u: the link cannot reach it: %s", i,
			strerror(-e));
		bad = e;
	}
	begin_again(n);
	n->config.idle = to->idle;
	n->config.idle_us = to->idle_us;
	node_resume(n);
	result->pause_us = (rte_rdtsc() - begin) / (rte_get_tsc_hz() / 1000000);
	return bad;
}

/* Say that a reload changes nothing. */
static int
refused(const char *error)
{
	log_say(LOG_NODE, RTE_LOG_ERR, "reload FAILED, nothing has changed: %s", error);
	return -EINVAL;
}

static int
reload_now(struct reload_result *result, char *error, uint32_t error_len)
{
	struct config now;

	*result = (struct reload_result){0};
	if (running.node == NULL) {
		snprintf(error, error_len, "this primary does not know its configuration's file");
		return refused(error);
	}
	if (node_config_read(&now, running.path, error, error_len) != 0)
		return refused(error);
	bool may = node_config_may_become(&running.read, &now, error, error_len);

	if (may && now.discovers && !running.read.discovers) {
		snprintf(error, error_len,
			"discovery, for nodes with an IP address on a link with Ethernet "
			"addresses, begins with a primary: start another one (--take-over)");
		may = false;
	}
	may = may && keeper_check(&now, error, error_len) == 0;
	if (!may) {
		config_free(&now);
		return refused(error);
	}
	keeper_lock(running.node);
	int e = change_all(running.node, &now, result, error, error_len);

	/* whatever is wrong with one node's links, keys that are revoked end */
	if (e != -ETIMEDOUT && e != -ESHUTDOWN) {
		char why[256];
		const int keys = keeper_reload(running.node, &now, why, sizeof(why));

		if (e == 0 && keys != 0)
			snprintf(error, error_len, "%s", why);
		e = e != 0 ? e : keys;
	}
	keeper_unlock(running.node);

	if (e == -ETIMEDOUT || e == -ESHUTDOWN) {
		config_free(&now);
		return e;
	}
	config_free(&running.read);
	running.read = now;
	look_at_shared(&running.shared);
	log_say(LOG_NODE, e == 0 ? RTE_LOG_NOTICE : RTE_LOG_ERR,
		"reload%s: %u nodes added, %u removed, %u moved; lanes stood still for %llu us%s%s",
		e == 0 ? "" : " FAILED", result->added, result->removed, result->moved,
		(unsigned long long)result->pause_us, e == 0 ? "" : "; ", e == 0 ? "" : error);
	return e;
}

/* ------------------------------------------------------------------ what discovery has found */

/* Take one found node, or forget one if it has no links. While the lanes stand still. Return 0, or
 * -1 with a sentence. */
static int
take_one(struct node *n, const struct reload_found *f, struct reload_result *result, char *error,
	uint32_t error_len)
{
	struct config_peer *now = &n->config.peers[f->number], to = f->peer;
	struct config_fault fault;

	if (f->number == n->config.id || (now->links != 0 && !now->found))
		return 0; /* [nodes] wins */
	for (uint32_t i = 0; i < n->config.nodes_max && *to.name != 0; i++) {
		if (i != f->number && strcmp(n->config.peers[i].name, to.name) == 0)
			*to.name = 0;
	}
	if (node_config_check_peer(&n->config, f->number, &to, &fault) != 0) {
		snprintf(error, error_len, "node %u %s", f->number, fault.text);
		return -1;
	}
	to.found = to.links != 0;
	if (!to.found)
		to.host = now->found ? (struct link_addr){0} : now->host;
	if (is_same_peer(now, &to)) {
		*now = to;
		return 0;
	}
	const int e = change_peer(n, f->number, &to, result);

	if (e != 0)
		snprintf(error, error_len, "node %u: the link cannot reach it: %s", f->number,
			strerror(-e));
	return e;
}

int
reload_take_found(const struct reload_found *found, uint32_t count, char *error, uint32_t error_len)
{
	struct reload_result result = {0};
	struct node *n = running.node;
	int e, bad = 0;

	pthread_mutex_lock(&running.lock);
	if (n != NULL)
		keeper_lock(n);
	e = n != NULL ? node_pause(n) : -ESHUTDOWN;
	for (uint32_t i = 0; e == 0 && i < count; i++)
		bad |= take_one(n, &found[i], &result, error, error_len);
	if (e == 0) {
		if (result.added + result.removed + result.moved != 0)
			begin_again(n);
		node_resume(n);
	}
	for (uint32_t i = 0; e == 0 && i < count; i++)
		keeper_peer_changed(n, found[i].number);
	if (n != NULL)
		keeper_unlock(n);
	pthread_mutex_unlock(&running.lock);
	return e != 0 ? e : bad != 0 ? -EINVAL : 0;
}

void
reload_each_peer(void (*each)(void *arg, uint32_t number, const struct config_peer *peer),
	void *arg)
{
	pthread_mutex_lock(&running.lock);
	for (uint32_t i = 0; running.node != NULL && i < running.node->config.nodes_max; i++)
		each(arg, i, &running.node->config.peers[i]);
	pthread_mutex_unlock(&running.lock);
}

int
reload(struct reload_result *result, char *error, uint32_t error_len)
{
	pthread_mutex_lock(&running.lock);
	const int e = reload_now(result, error, error_len);

	pthread_mutex_unlock(&running.lock);
	return e;
}

bool
reload_if_changed(int *error_code, struct reload_result *result, char *error, uint32_t error_len)
{
	struct stat now;

	pthread_mutex_lock(&running.lock);
	if (running.node != NULL)
		look_at_shared(&now);
	const bool changed = running.node != NULL && *running.read.node_file != 0 &&
		(now.st_mtim.tv_sec != running.shared.st_mtim.tv_sec ||
			now.st_mtim.tv_nsec != running.shared.st_mtim.tv_nsec ||
			now.st_ino != running.shared.st_ino ||
			now.st_size != running.shared.st_size);

	if (changed) {
		/* once for each change, whatever comes of it */
		running.shared = now;
		*error_code = reload_now(result, error, error_len);
	}
	pthread_mutex_unlock(&running.lock);
	return changed;
}
