/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See events.h. Called by the threads that watch processes and answer secondaries, and by the starting one; never by a lane.
 *
 * Design notes
 * 1. Peers are looked at once a second, as telemetry looks at them, so that a lane has nothing to do with it. What a peer
 *    does within a second and takes back is not said; counters have it (peer_deaths, peer_restarts). Rejected: a ring of
 *    records from the core, which every poll would have to look at, or which would have to be part of the core's state.
 * 2. Each kind has LINES_MOST lines at once and one more each LINE_MS. The rest is counted, and the count is said.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>

#include <rte_cycles.h>

#include "engine/engine.h"
#include "engine/events.h"

#define LINES_MOST 50
#define LINE_MS    200

RTE_LOG_REGISTER(pmx_log_node, pmx.node, INFO)
RTE_LOG_REGISTER(pmx_log_peer, pmx.peer, INFO)
RTE_LOG_REGISTER(pmx_log_context, pmx.context, INFO)
RTE_LOG_REGISTER(pmx_log_link, pmx.link, INFO)

static const int *const types[EVENTS_KINDS] = {
	[EVENTS_NODE] = &pmx_log_node,
	[EVENTS_PEER] = &pmx_log_peer,
	[EVENTS_CONTEXT] = &pmx_log_context,
	[EVENTS_LINK] = &pmx_log_link,
};

static const char *const names[EVENTS_KINDS] = {"node", "peer", "context", "link"};

/* Of a kind: how many lines it may still say, as of `at`, and how many it did not. */
static struct {
	uint64_t at;
	uint32_t left, out;
} buckets[EVENTS_KINDS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the buckets */

/* With the lock. */
static bool
take_line(enum events_kind kind)
{
	uint64_t now = rte_rdtsc(), each = rte_get_tsc_hz() / 1000 * LINE_MS;

	if (buckets[kind].at == 0) {
		buckets[kind].at = now;
		buckets[kind].left = LINES_MOST;
	}
	while (buckets[kind].left < LINES_MOST && now - buckets[kind].at >= each) {
		buckets[kind].at += each;
		buckets[kind].left++;
	}
	if (buckets[kind].left == LINES_MOST)
		buckets[kind].at = now;
	if (buckets[kind].left == 0)
		return false;
	buckets[kind].left--;
	return true;
}

/* How many lines were left out, if one can be said now. */
static void
say_left_out(enum events_kind kind)
{
	uint32_t out = 0;

	pthread_mutex_lock(&lock);
	if (buckets[kind].out > 0 && take_line(kind)) {
		out = buckets[kind].out;
		buckets[kind].out = 0;
	}
	pthread_mutex_unlock(&lock);
	if (out > 0)
		rte_log(RTE_LOG_NOTICE, (uint32_t)*types[kind], "pmx.%s: %u lines were left out\n", names[kind], out);
}

void
events_say(enum events_kind kind, uint32_t level, const char *fmt, ...)
{
	uint32_t type = (uint32_t)*types[kind];
	char text[512];
	va_list args;

	if (!rte_log_can_log(type, level))
		return;
	say_left_out(kind);
	pthread_mutex_lock(&lock);
	bool said = take_line(kind);

	buckets[kind].out += !said;
	pthread_mutex_unlock(&lock);
	if (!said)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	rte_log(level, type, "pmx.%s: %s\n", names[kind], text);
}

/* ------------------------------------------------------------------ peers and links */

enum seen {
	SEEN_NOTHING, /* never asked */
	SEEN_ASKING,  /* no answer yet */
	SEEN_DOWN,
	SEEN_UP,
};

static struct {
	struct seen_peer {
		uint32_t epoch;
		uint8_t state; /* enum seen */
	} *peers;              /* by node number */
	bool link_up[CONFIG_LINKS_MAX];
} seen;

/* Of all lanes, each of which shakes hands for itself: the best. */
static struct seen_peer
state_of(const struct node *n, uint16_t node)
{
	struct seen_peer now = {0};

	for (unsigned l = 0; l < n->config.lanes && now.state != SEEN_UP; l++) {
		struct proto_path_stat s;

		if (!proto_path_stat(n->engines[l].proto, node, &s))
			continue;
		enum seen here = s.established ? SEEN_UP : s.dead ? SEEN_DOWN : SEEN_ASKING;

		if (here > now.state)
			now = (struct seen_peer){s.peer_epoch, (uint8_t)here};
	}
	return now;
}

static void
look_at_peer(const struct node *n, uint16_t node)
{
	struct seen_peer now = state_of(n, node), *before = &seen.peers[node];

	if (now.state == SEEN_UP && before->state == SEEN_UP && before->epoch != now.epoch)
		events_say(EVENTS_PEER, RTE_LOG_NOTICE, "node %u was restarted: what was on its way to its old life ended with ECONNRESET", node);
	else if (now.state == SEEN_UP && before->state != SEEN_UP)
		events_say(EVENTS_PEER, RTE_LOG_INFO, "node %u is up%s", node, before->epoch != 0 && before->epoch != now.epoch ? ", restarted" : "");
	else if (now.state == SEEN_DOWN && before->state == SEEN_UP)
		events_say(EVENTS_PEER, RTE_LOG_NOTICE, "node %u is down: it answers no longer; what was on its way to it ended with ETIMEDOUT", node);
	else if (now.state == SEEN_DOWN && before->state != SEEN_DOWN)
		events_say(EVENTS_PEER, RTE_LOG_NOTICE, "node %u does not answer: does its primary run, is its address in [nodes] right?", node);
	else if (now.state == SEEN_ASKING && before->state == SEEN_NOTHING)
		events_say(EVENTS_PEER, RTE_LOG_DEBUG, "node %u is asked", node);
	if (now.epoch == 0)
		now.epoch = before->epoch; /* of its last life that was met */
	*before = now;
}

static void
look_at_link(struct node *n, unsigned i)
{
	struct link *l = &n->links[i];
	struct link_stats unused;

	l->ops->stats(l, &unused); /* brings `up` up to date */
	if (l->up == seen.link_up[i])
		return;
	seen.link_up[i] = l->up;
	events_say(EVENTS_LINK, l->up ? RTE_LOG_INFO : RTE_LOG_WARNING, "link %u (%s %s) is %s", i, l->config.driver,
		*l->config.port ? l->config.port : l->config.listen, l->up ? "up" : "down");
}

void
events_look(struct node *n)
{
	for (unsigned i = 0; i < n->link_count; i++)
		look_at_link(n, i);
	for (uint32_t i = 0; i < n->config.nodes_max; i++) {
		if (n->peers[i].known)
			look_at_peer(n, (uint16_t)i);
	}
	for (unsigned i = 0; i < EVENTS_KINDS; i++)
		say_left_out(i);
}

int
events_begin(struct node *n)
{
	seen.peers = calloc(n->config.nodes_max, sizeof(*seen.peers));
	for (unsigned i = 0; i < CONFIG_LINKS_MAX; i++)
		seen.link_up[i] = false;
	return seen.peers != NULL ? 0 : -ENOMEM;
}

void
events_end(void)
{
	free(seen.peers);
	seen.peers = NULL;
}
