/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The lives of nodes whose frames are sealed, and what happens to them: see seal.h.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mix.h"
#include "sim/seal.h"

/* ------------------------------------------------------------------ lives */

/* Forget what a node has of all others, as its process ends. */
static void
forget_pairs(struct sim *s, uint32_t node)
{
	struct seal_node *n = &s->seals->nodes[node];

	for (uint32_t i = 0; i < s->node_count; i++) {
		if (n->pairs[i] == NULL)
			continue;
		seal_give_up(s, node, i, true);
		free(n->pairs[i]);
		n->pairs[i] = NULL;
	}
}

void
seal_begin(struct sim *s, uint32_t node, bool restart)
{
	struct seals *x = s->seals;
	struct seal_node *n = &x->nodes[node];

	forget_pairs(s, node);
	n->life++;
	n->self.epoch = s->nodes[node].cfg.epoch;
	n->works = false;
	n->written = n->read = n->asking_count = 0;
	if (restart) {
		n->boot = mix64_next(&x->random) >> 16;
		n->wall = UINT64_C(1800000000) * NS_PER_SEC +
			(x->cfg.clocks_ns ? mix64_next(&x->random) % x->cfg.clocks_ns : 0);
	}
	keeper_begin(s, node);
}

void
seals_make(struct sim *s)
{
	struct seals *x = s->seals = calloc(1, sizeof(*x));

	if (x == NULL || (x->nodes = calloc(s->node_count, sizeof(*x->nodes))) == NULL)
		sim_violation(s, "out of memory");
	s->wrapping = &seal_wrapping;
	x->cfg = *s->cfg.seal;
	x->random = s->cfg.seed ^ 0x5EA1;
	x->healed_at = SIM_NEVER;
	x->node_count = s->node_count;
	watch_make(x);
	watch_enter(s);
	seal_random(x, x->authority_secret, KEY_BYTES);
	key_public(KEY_AUTHORITY, x->authority_secret, x->authority);
	if (x->cfg.cluster)
		seal_random(x, x->cluster, KEY_BYTES);
	for (uint32_t i = 0; i < s->node_count; i++) {
		x->nodes[i].pairs = calloc(s->node_count, sizeof(*x->nodes[i].pairs));
		x->nodes[i].asking = calloc(s->node_count, sizeof(*x->nodes[i].asking));
		if (x->nodes[i].pairs == NULL || x->nodes[i].asking == NULL)
			sim_violation(s, "out of memory");
		keeper_make_self(s, i);
	}
	for (uint32_t i = 0; i < s->node_count; i++)
		seal_begin(s, i, true);
}

void
seals_free(struct sim *s)
{
	struct seals *x = s->seals;

	if (x == NULL)
		return;
	for (uint32_t i = 0; x->nodes != NULL && i < s->node_count; i++) {
		struct seal_node *n = &x->nodes[i];

		for (uint32_t k = 0; n->pairs != NULL && k < s->node_count; k++) {
			struct keyring_keys *old[KEYRING_OLD_MAX];

			if (n->pairs[k] == NULL)
				continue;
			keyring_take(&n->pairs[k]->gate.keys, true, 0, 1, old);
			seal_free_old(n->pairs[k], old);
			free(n->pairs[k]);
		}
		free(n->pairs);
		free(n->asking);
	}
	free(x->nodes);
	watch_free(x);
	free(s->wires);
	free(x);
}

/* ------------------------------------------------------------------ what happens to nodes */

/* Lose a long row of frames: their counts are used up. */
static void
burst(struct sim *s, uint32_t node, uint32_t peer)
{
	struct seals *x = s->seals;
	struct seal_pair *p = seal_pair_of(s, node, peer);
	static const uint64_t rows[] = {1, SEAL_WINDOW - 128, SEAL_WINDOW, UINT64_C(1) << 24,
		UINT64_C(1) << 27};
	bool wants;
	struct keyring_keys *k = keyring_sealing(&p->gate.keys, seal_ticks(s, node), seal_hz(s),
		&wants);

	if (k != NULL)
		k->tx[0].count += rows[mix64_next(&x->random) % 5] + mix64_next(&x->random) % 128;
}

void
seal_act(struct sim *s, uint32_t node, uint32_t peer, enum sim_seal_act what)
{
	switch (what) {
	case SIM_TAKE_OVER:
		seal_begin(s, node, false);
		break;
	case SIM_REKEY:
		keeper_rekey(s, node, peer);
		break;
	case SIM_NEW_KEY:
		keeper_new_key(s, node);
		break;
	case SIM_LEARN:
		keeper_learn(s, node);
		break;
	case SIM_THIEF:
		thief_acts(s, node, peer);
		break;
	case SIM_BURST:
		burst(s, node, peer);
		break;
	case SIM_HEALED:
		s->seals->healed_at = s->now;
		break;
	}
}

struct sim_seal_count
sim_seal_counts(const struct sim *s)
{
	return s->seals->counts;
}

bool
sim_is_sealed(const struct sim *s, uint32_t node, uint32_t peer)
{
	const struct seal_pair *p = s->seals->nodes[node].pairs[peer];
	bool wants;

	return p != NULL &&
		keyring_sealing(&p->gate.keys, seal_ticks(s, node), seal_hz(s), &wants) != NULL;
}
