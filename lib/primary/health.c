/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See health.h. Peers are looked at once a second, in the way that telemetry does, which costs
 * lanes nothing. A change that is undone within a second is not logged, only counted (peer_deaths,
 * peer_restarts). Rejected: a ring of records from the core, which every poll would have to check,
 * or which would have to be part of the core's state.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include <rte_ether.h>

#include "base/bytes.h"
#include "engine/rails.h"
#include "log/log.h"
#include "node/keeper.h"
#include "node/node.h"
#include "node/reload.h"
#include "primary/health.h"

enum health_seen {
	SEEN_NOTHING, /* not contacted yet */
	SEEN_ASKING,  /* no answer yet */
	SEEN_DOWN,
	SEEN_UP,
};

static struct {
	struct seen_peer {
		uint32_t epoch;
		uint8_t state; /* enum health_seen */
		uint8_t links; /* dead ones, a bit each */
		bool unlike;   /* its settings are others, which has been said */
		bool wants_keys;
		enum handshake_trouble trouble; /* the last that was said */
		uint32_t back;                  /* struct announced */
	} * peers;                              /* by node number */
	bool link_up[CONFIG_LINKS_MAX];
	uint64_t taken_by[CONFIG_LINKS_MAX]; /* node.address_taken */
	uint32_t looks, twins, twin_epoch;
} seen;

#define SETTLED_MS     10000 /* age of a node that ends for no other with its number */
#define ANNOUNCE_FIRST 3     /* looks, in each of which the number is announced */
#define ANNOUNCE_EVERY 30    /* ... later */
#define SAME_AGE_MS    100

/* Return whether another node with this one's number is older. */
static bool
is_older(const struct twin *t, uint32_t epoch)
{
	const int32_t by = (int32_t)(atomic_load(&t->age_ms) - atomic_load(&t->own_age_ms));

	return by > SAME_AGE_MS || (by >= -SAME_AGE_MS && atomic_load(&t->epoch) > epoch);
}

/* mac: as of struct twin */
static void
write_mac(char text[RTE_ETHER_ADDR_FMT_SIZE], uint64_t mac)
{
	struct rte_ether_addr a;

	put_be(a.addr_bytes, mac, RTE_ETHER_ADDR_LEN);
	rte_ether_format_addr(text, RTE_ETHER_ADDR_FMT_SIZE, &a);
}

static void
end_as_twin(struct node *n)
{
	n->ends_as_twin = true;
	for (unsigned i = 0; i < n->config.lanes; i++) {
		atomic_store(&n->engines[i].stop, true);
		eventfd_write(n->engines[i].doorbell, 1);
	}
}

void
health_end_young(struct node *n)
{
	if (proto_age_ms(n->engines[0].proto) < SETTLED_MS)
		end_as_twin(n);
}

/* Look for another node with this one's number, and announce now and then that this one has it. Two
 * nodes of one number both get what is sent to it. A node that has just begun ends if there is an
 * older one; one that has run for a while does not, since anybody can say that he is older. */
static void
look_for_twin(struct node *n)
{
	const uint32_t times = atomic_load(&n->twin.seen), epoch = atomic_load(&n->twin.epoch);
	const uint64_t mac = atomic_load(&n->twin.mac);
	char its[RTE_ETHER_ADDR_FMT_SIZE], own[RTE_ETHER_ADDR_FMT_SIZE];

	write_mac(its, mac);
	rte_ether_format_addr(own, sizeof(own), &n->links[0].mac);
	if (times != seen.twins && epoch != seen.twin_epoch) {
		const bool ends = atomic_load(&n->twin.own_age_ms) < SETTLED_MS &&
			is_older(&n->twin, n->epoch);

		log_say(LOG_NODE, RTE_LOG_ERR,
			"another node has number %u as well: it is at %s, this one at %s%s. Give "
			"one of them another node.id",
			n->config.id, its, own,
			ends ? ", and ends, since the other one was there before" : "");
		seen.twin_epoch = epoch;
		if (ends)
			end_as_twin(n);
	}
	seen.twins = times;
	if (seen.looks < ANNOUNCE_FIRST || seen.looks % ANNOUNCE_EVERY == 0) {
		struct command cmd = {.op = COMMAND_ANNOUNCE};

		node_command(n, &cmd, true);
	}
	seen.looks++;
}

/* Return the best state of a peer over all lanes, each of which makes its own handshake. */
static struct seen_peer
state_of(const struct node *n, uint16_t node)
{
	struct seen_peer now = {0};

	for (unsigned l = 0; l < n->config.lanes && now.state != SEEN_UP; l++) {
		struct proto_path_stat s;

		if (!proto_path_stat(n->engines[l].proto, node, &s))
			continue;
		enum health_seen here = s.established ? SEEN_UP : s.dead ? SEEN_DOWN : SEEN_ASKING;

		if (here > now.state)
			now = (struct seen_peer){s.peer_epoch, (uint8_t)here, 0, false, 0};
	}
	return now;
}

/* Log which links to a peer are dead, and which work again. */
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
	now.unlike = before->unlike;
	now.back = before->back;
	*before = now;
}

/* Log an error if two nodes both say that they have that number. */
static void
look_at_number(const struct node *n, uint16_t node)
{
	struct seen_peer *p = &seen.peers[node];
	const struct announced *a = &n->announced[node];
	const uint32_t back = atomic_load(&a->back);
	char one[RTE_ETHER_ADDR_FMT_SIZE], other[RTE_ETHER_ADDR_FMT_SIZE];

	if (back == p->back)
		return;
	p->back = back;
	write_mac(one, atomic_load(&a->mac));
	write_mac(other, atomic_load(&a->before));
	log_say(LOG_PEER, RTE_LOG_ERR,
		"two nodes have number %u: at %s and at %s. What is sent to it reaches either, or "
		"both. Give one of them another node.id",
		node, one, other);
}

/* Log once what this node and another do not agree on. */
static void
look_at_terms(const struct node *n, uint16_t node)
{
	const uint32_t payload = config_payload_max(&n->config);
	struct seen_peer *p = &seen.peers[node];
	struct proto_path_stat s;
	bool unlike = false;

	for (unsigned l = 0; l < n->config.lanes && !unlike; l++) {
		if (!proto_path_stat(n->engines[l].proto, node, &s))
			continue;
		unlike = s.unlike || s.other_version != 0 || s.too_long != 0 ||
			(s.established && s.payload_max != payload);
		if (!unlike || p->unlike)
			continue;
		if (s.other_version != 0)
			log_say(LOG_PEER, RTE_LOG_ERR,
				"node %u speaks version %u of the protocol, this one %u: no "
				"message passes. Run one build on both",
				node, s.other_version, WIRE_VERSION);
		else if (s.too_long != 0)
			log_say(LOG_PEER, RTE_LOG_ERR,
				"node %u '%s' is reached, but not by frames with %u bytes of "
				"payload: the network between does not pass them, and what is "
				"longer than a frame of 1200 ends with EMSGSIZE. Give all nodes "
				"a link.mtu that it passes, or raise its own",
				node, s.name, s.too_long);
		else if (s.unlike)
			log_say(LOG_PEER, RTE_LOG_ERR,
				"node %u '%s' has proto.checksum = %s, this one has %s: no message "
				"passes. Give both the same",
				node, s.name, s.checksum ? "on" : "off",
				n->config.checksum ? "on" : "off");
		else
			log_say(LOG_PEER, RTE_LOG_WARNING,
				"node %u '%s' takes %u bytes a frame, this one %u: what is longer "
				"ends with EMSGSIZE. Give both the same link.mtu",
				node, s.name, s.payload_max, payload);
	}
	p->unlike = unlike;
}

/* Log once why there are no keys for a peer, and when there are some after all. */
static void
look_at_keys(const struct node *n, uint16_t node)
{
	struct seen_peer *p = &seen.peers[node];
	struct keeper_view v;
	struct proto_path_stat s = {0};

	if (!keeper_view(n, node, &v)) {
		for (unsigned l = 0; l < n->config.lanes && !s.wants_keys; l++)
			proto_path_stat(n->engines[l].proto, node, &s);
		if (s.wants_keys && !p->wants_keys)
			log_say(LOG_PEER, RTE_LOG_ERR,
				"node %u has security.mode, this one has not: no message passes. "
				"Give both the same",
				node);
		p->wants_keys = s.wants_keys;
		return;
	}
	if (v.trouble == p->trouble)
		return;
	if (v.trouble == HANDSHAKE_FINE)
		log_say(LOG_PEER, RTE_LOG_NOTICE, "node %u has keys now", node);
	else
		log_say(LOG_PEER, v.trouble == HANDSHAKE_CLOCK ? RTE_LOG_WARNING : RTE_LOG_ERR,
			"no keys for node %u: %s: %s", node, handshake_trouble_name(v.trouble),
			handshake_trouble_text(v.trouble));
	p->trouble = v.trouble;
}

/* Log once who else has the IP address of a link with encap = udp. */
static void
look_at_address(struct node *n, unsigned i)
{
	const uint64_t by = atomic_load(&n->address_taken[i]);
	char mac[RTE_ETHER_ADDR_FMT_SIZE];

	if (by == seen.taken_by[i])
		return;
	seen.taken_by[i] = by;
	write_mac(mac, by);
	log_say(LOG_LINK, RTE_LOG_ERR,
		"link %u: another host, at %s, has the IP address of this link as well. What is "
		"sent to it reaches either. Give one of them another address; the kernel must not "
		"have it on this network",
		i, mac);
}

static void
look_at_link(struct node *n, unsigned i)
{
	struct link *l = &n->links[i];
	struct link_stats unused;

	l->ops->stats(l, &unused); /* updates l->up */
	if (!l->up && l->ops->revive != NULL)
		l->ops->revive(l); /* that it is up is seen at the next look */
	if (l->up == seen.link_up[i])
		return;
	seen.link_up[i] = l->up;
	log_say(LOG_LINK, l->up ? RTE_LOG_INFO : RTE_LOG_WARNING, "link %u (%s %s) is %s", i,
		l->config.driver, *l->config.port ? l->config.port : l->config.listen,
		l->up ? "up" : "down");
}

/* Reload the file of nodes that several nodes share if it has changed. Log it if it is wrong. */
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
	for (unsigned i = 0; i < n->link_count; i++) {
		look_at_link(n, i);
		look_at_address(n, i);
	}
	for (uint32_t i = 0; i < n->config.nodes_max; i++) {
		if (!n->peers[i].known)
			continue;
		look_at_peer(n, (uint16_t)i);
		look_at_rails(n, (uint16_t)i);
		look_at_terms(n, (uint16_t)i);
		look_at_keys(n, (uint16_t)i);
		look_at_number(n, (uint16_t)i);
	}
	look_at_nodes();
	look_for_twin(n);
	log_say_left_out();
}

int
health_begin(struct node *n)
{
	seen.peers = calloc(n->config.nodes_max, sizeof(*seen.peers));
	seen.looks = seen.twins = seen.twin_epoch = 0;
	for (unsigned i = 0; i < CONFIG_LINKS_MAX; i++)
		seen.link_up[i] = false, seen.taken_by[i] = 0;
	return seen.peers != NULL ? 0 : -ENOMEM;
}

void
health_end(void)
{
	free(seen.peers);
	seen.peers = NULL;
}
