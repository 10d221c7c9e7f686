/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See health.h. Peers are looked at once a second, in the way that telemetry does, which costs
 * lanes nothing. A change that is undone within a second is not logged, only counted (peer_deaths,
 * peer_restarts). Rejected: a ring of records from the core, which every poll would have to check,
 * or which would have to be part of the core's state.
 */
#include <errno.h>
#include <stdlib.h>

#include "engine/rails.h"
#include "log/log.h"
#include "node/reload.h"
#include "serve/health.h"

enum seen {
	SEEN_NOTHING, /* not contacted yet */
	SEEN_ASKING,  /* no answer yet */
	SEEN_DOWN,
	SEEN_UP,
};

static struct {
	struct seen_peer {
		uint32_t epoch;
		uint8_t state; /* enum seen */
		uint8_t links; /* dead ones, a bit each */
	} * peers;             /* by node number */
	bool link_up[CONFIG_LINKS_MAX];
} seen;

/* The best state over all lanes, each of which makes its own handshake. */
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
			now = (struct seen_peer){s.peer_epoch, (uint8_t)here, 0};
	}
	return now;
}

/* Which links to a peer are dead. */
static void
look_at_rails(const struct node *n, uint16_t node)
{
	struct seen_peer *p = &seen.peers[node];
	const uint32_t dead = n->config.peers[node].links & ~lane_rails_all_up(n, node);

	for (uint32_t left = dead ^ p->links; left != 0; left &= left - 1) {
		const unsigned link = (unsigned)__builtin_ctz(left);

		if (dead >> link & 1)
			log_say(LOG_LINK, RTE_LOG_WARNING,
				"node %u is not reached by link %u any more; what is on its way "
				"goes by the others",
				node, link);
		else
			log_say(LOG_LINK, RTE_LOG_NOTICE, "node %u is reached by link %u again",
				node, link);
	}
	p->links = (uint8_t)dead;
}

static void
look_at_peer(const struct node *n, uint16_t node)
{
	struct seen_peer now = state_of(n, node), *before = &seen.peers[node];

	if (now.state == SEEN_UP && before->state == SEEN_UP && before->epoch != now.epoch)
		log_say(LOG_PEER, RTE_LOG_NOTICE,
			"node %u was restarted: what was on its way to its old life ended with "
			"ECONNRESET",
			node);
	else if (now.state == SEEN_UP && before->state != SEEN_UP)
		log_say(LOG_PEER, RTE_LOG_INFO, "node %u is up%s", node,
			before->epoch != 0 && before->epoch != now.epoch ? ", restarted" : "");
	else if (now.state == SEEN_DOWN && before->state == SEEN_UP)
		log_say(LOG_PEER, RTE_LOG_NOTICE,
			"node %u is down: it answers no longer; what was on its way to it ended "
			"with ETIMEDOUT",
			node);
	else if (now.state == SEEN_DOWN && before->state != SEEN_DOWN)
		log_say(LOG_PEER, RTE_LOG_NOTICE,
			"node %u does not answer: does its primary run, is its address in [nodes] "
			"right?",
			node);
	else if (now.state == SEEN_ASKING && before->state == SEEN_NOTHING)
		log_say(LOG_PEER, RTE_LOG_DEBUG, "node %u is asked", node);
	if (now.epoch == 0)
		now.epoch = before->epoch; /* keep that of its last known life */
	now.links = before->links;
	*before = now;
}

static void
look_at_link(struct node *n, unsigned i)
{
	struct link *l = &n->links[i];
	struct link_stats unused;

	l->ops->stats(l, &unused); /* updates l->up */
	if (l->up == seen.link_up[i])
		return;
	seen.link_up[i] = l->up;
	log_say(LOG_LINK, l->up ? RTE_LOG_INFO : RTE_LOG_WARNING, "link %u (%s %s) is %s", i,
		l->config.driver, *l->config.port ? l->config.port : l->config.listen,
		l->up ? "up" : "down");
}

/* The file of nodes that several nodes share. */
static void
look_at_nodes(void)
{
	struct reload_result r;
	char error[512] = "";
	int e;

	if (reload_if_changed(&e, &r, error, sizeof(error)) && e == -EINVAL)
		log_say(LOG_NODE, RTE_LOG_ERR, "the file of nodes changed, and is not taken: %s",
			error);
}

void
health_look(struct node *n)
{
	for (unsigned i = 0; i < n->link_count; i++)
		look_at_link(n, i);
	for (uint32_t i = 0; i < n->config.nodes_max; i++) {
		if (!n->peers[i].known)
			continue;
		look_at_peer(n, (uint16_t)i);
		look_at_rails(n, (uint16_t)i);
	}
	look_at_nodes();
	log_say_left_out();
}

int
health_begin(struct node *n)
{
	seen.peers = calloc(n->config.nodes_max, sizeof(*seen.peers));
	for (unsigned i = 0; i < CONFIG_LINKS_MAX; i++)
		seen.link_up[i] = false;
	return seen.peers != NULL ? 0 : -ENOMEM;
}

void
health_end(void)
{
	free(seen.peers);
	seen.peers = NULL;
}
