/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See quotas.h.
 */
#include <errno.h>

#include "engine/quotas.h"

static bool
are_copied(const struct node *n, const struct quotas *q, bool thin)
{
	return thin && q->plain + q->matched <= n->assembly_frames;
}

/* Return how many mbufs a context with these quotas may hold at once. */
static uint32_t
quotas_promise(const struct node *n, const struct quotas *q, bool thin)
{
	return quotas_buffers(q) - (are_copied(n, q, thin) ? q->plain + q->matched : 0);
}

/* Return how many contexts may still have mbufs beside one more. */
static int64_t
others_left(const struct node *n)
{
	int64_t others = (int64_t)config_residents(&n->config) -
		atomic_load(&n->contexts_promised) - 1;

	return others > 0 ? others : 0;
}

/* Return how many mbufs one more context may have, without those kept back for the others. */
static uint64_t
buffers_left(const struct node *n)
{
	int64_t left = atomic_load(&n->mbufs_left) - others_left(n) * n->context_least;

	return left > 0 ? (uint64_t)left : 0;
}

/* Reduce the default quotas to what `have` mbufs suffice for. Return whether that was necessary. */
static bool
shrink(const struct node *n, struct quotas *q, bool thin, uint64_t have)
{
	const struct quotas least = QUOTAS_LEAST;
	uint32_t want = quotas_promise(n, q, thin);

	if (have >= want)
		return false;
	/* a thin context needs no mbufs of its own to receive, as long as its quotas fit the frames
	 * that all thin contexts share */
	if (thin && n->assembly_frames >= least.plain + least.matched) {
		q->matched = RTE_MIN(q->matched, n->assembly_frames / 3);
		q->plain = RTE_MIN(q->plain, n->assembly_frames - q->matched);
		want = quotas_promise(n, q, thin);
		if (have >= want)
			return true;
	}
	q->send = RTE_MAX((uint32_t)(q->send * have / want), RTE_MIN(least.send, q->send));
	if (thin)
		return true;
	q->plain = RTE_MAX((uint32_t)(q->plain * have / want), RTE_MIN(least.plain, q->plain));
	q->matched = RTE_MAX((uint32_t)(q->matched * have / want),
		RTE_MIN(least.matched, q->matched));
	return true;
}

/* Set the number of mbufs for inline messages. These mbufs only make messages faster, so nobody is
 * refused for want of them. A context that was reduced has all that is left: it gives some of its
 * send buffers. Any other gets what is left of `have`. */
static void
set_inlined(const struct node *n, struct quotas *q, bool thin, bool reduced, int64_t have)
{
	const struct quotas least = QUOTAS_LEAST;
	uint32_t most = channel_inline_sends(q->send);

	if (reduced) {
		q->inlined = q->send > least.send ? RTE_MIN(most, (q->send - least.send) / 4) : 0;
		q->send -= q->inlined;
		return;
	}
	int64_t left = have - quotas_promise(n, q, thin);

	q->inlined = left <= 0 ? 0 : left < most ? (uint32_t)left : most;
}

int
quotas_of(const struct node *n, uint16_t ctx, uint32_t send_buffers, uint32_t receive_buffers,
	bool thin, bool parked, struct quotas *q)
{
	const struct quotas least = QUOTAS_LEAST;
	const struct config *c = &n->config;
	const struct config_range *g = config_range(c, ctx);
	uint32_t send_most = g && g->send_buffers ? g->send_buffers : c->send_buffers;
	uint32_t receive_most = g && g->receive_buffers ? g->receive_buffers : n->bufs_count;
	uint32_t receive = g && g->receive_buffers ? g->receive_buffers : c->receive_buffers;

	q->send = send_buffers ? send_buffers : send_most;
	q->plain = receive_buffers ? receive_buffers : receive;
	/* whoever asks for few plain buffers gets few matched ones as well */
	uint32_t half = q->plain / 2 + 1;
	bool reduced = false;

	q->matched = c->matched_buffers < half ? c->matched_buffers : half;
	if (q->send > send_most || q->plain > receive_most)
		return -EINVAL;
	q->inlined = 0;
	if (send_buffers == 0 && receive_buffers == 0 &&
		(g == NULL || (g->send_buffers == 0 && g->receive_buffers == 0)))
		reduced = shrink(n, q, thin, parked ? n->context_fair : buffers_left(n));
	set_inlined(n, q, thin, reduced,
		parked ? n->context_fair
		       : atomic_load(&n->mbufs_left) - others_left(n) * 2 * quotas_buffers(&least));
	return 0;
}

static struct quotas
quotas_had(const struct channel *ch)
{
	return (struct quotas){ch->send_buffers, ch->plain.bulk_quota, ch->matched.bulk_quota,
		ch->inline_sends};
}

void
quotas_set(struct channel *ch, const struct quotas *q)
{
	ch->send_buffers = q->send;
	ch->inline_sends = q->inlined;
	ch->plain.bulk_quota = q->plain;
	ch->matched.bulk_quota = q->matched;
	ch->promised = 0;
	ch->resident = false;
}

bool
quotas_are_copied(const struct node *n, const struct channel *ch)
{
	const struct quotas q = quotas_had(ch);

	return are_copied(n, &q, ch->thin != NULL);
}

bool
quotas_exceed(const struct node *n, const struct channel *ch)
{
	const struct quotas q = quotas_had(ch);

	return quotas_promise(n, &q, ch->thin != NULL) > n->context_fair;
}

int
quotas_take(struct node *n, struct channel *ch)
{
	const struct quotas q = quotas_had(ch);
	uint32_t all = quotas_promise(n, &q, ch->thin != NULL);

	if (atomic_load(&n->contexts_promised) >= config_residents(&n->config) ||
		buffers_left(n) + ch->promised < all)
		return -ENOSPC;
	atomic_fetch_add(&n->contexts_promised, 1);
	atomic_fetch_sub(&n->mbufs_left, (int64_t)all - ch->promised);
	ch->promised = all;
	ch->resident = true;
	return 0;
}

void
quotas_give(struct node *n, struct channel *ch, uint32_t kept)
{
	atomic_fetch_add(&n->mbufs_left, (int64_t)ch->promised - kept);
	ch->promised = kept;
	if (ch->resident)
		atomic_fetch_sub(&n->contexts_promised, 1);
	ch->resident = false;
}
