/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See watch.h.
 */
#include "engine/watch.h"

#define LOOK_US 10000

/* Return what is known of the node, as a word for channel_shm.watch. */
static uint64_t
word_of(struct engine *e, const struct channel *ch, uint16_t node)
{
	struct proto_path_stat stat = {0};

	if (node == e->node->config.id)
		return WATCH_WORD(node, WATCH_UP, 0);
	if (node >= e->nodes_max || !e->peers[node].known)
		return WATCH_WORD(node, WATCH_DOWN, 0);
	proto_node_wanted(e->proto, ch->ctx, node, e->now + rte_get_tsc_hz(), e->now);
	if (!proto_path_stat(e->proto, node, &stat))
		return WATCH_WORD(node, 0, 0);
	return WATCH_WORD(node,
		stat.established    ? WATCH_UP
			: stat.dead ? WATCH_DOWN
				    : 0,
		stat.peer_epoch);
}

static void
look_at(struct engine *e, struct channel *ch)
{
	struct channel_shm *shm = ch->shm;
	const uint32_t count = atomic_load_explicit(&shm->watches, memory_order_acquire);

	ch->watches = count != 0;
	for (uint32_t i = 0; i < count && i < WATCHES_MAX; i++) {
		const uint16_t node = atomic_load_explicit(&shm->watched[i], memory_order_relaxed);
		const uint64_t word = node != WIRE_NOBODY ? word_of(e, ch, node) : 0;

		if (word == atomic_load_explicit(&shm->watch[i], memory_order_relaxed))
			continue;
		atomic_store_explicit(&shm->watch[i], word, memory_order_release);
		channel_touch(e, ch);
	}
}

void
watch_begin(struct engine *e, struct channel *ch)
{
	ch->watches = true;
	e->watches = true;
	e->watch_at = e->now;
}

void
watch_step(struct engine *e)
{
	e->watches = false;
	e->watch_at = e->now + rte_get_tsc_hz() / 1000000 * LOOK_US;
	for (unsigned i = 0; i < e->open_count; i++) {
		struct channel *ch = e->open[i];

		if (ch->watches && ch->state == CHANNEL_OPEN)
			look_at(e, ch);
		e->watches |= ch->watches;
	}
}
