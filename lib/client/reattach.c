/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pmx_reattach(): opens the contexts of a node whose primary has ended again at the next primary.
 * Not on the data path.
 *
 * Design notes
 * 1. Messages that the old engine had Acked must not be lost: those that were not received yet are
 *    copied out of the old memory and are received first. Sends that it had not completed end with
 *    ECONNRESET: they may or may not have arrived.
 * 2. rte_eal_init() cannot be called a second time in a process, and hugepages of the old primary
 *    are not free for the next one while a secondary maps them. So a secondary unmaps them, and
 *    comes back as a thin client.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/client.h"

static uint64_t
reattach_rounded(uint32_t len)
{
	return (len + UINT64_C(63)) & ~UINT64_C(63);
}

/* Iterates over the messages that were not received: those kept before, then the channel's ring. */
struct unread {
	struct lhs_end ends[2];
	unsigned n, at;
	uint8_t *to;
};

/* Return the entry of the next message that was not received, and the message in *m; NULL: there is
 * no more. Leave ctx->lhs at the ring that it is in. */
static const struct lhs_entry *
next_unread(struct pmx_context *ctx, struct unread *u, struct pmx_message *m)
{
	for (; u->at < u->n; u->at++) {
		ctx->lhs = u->ends[u->at];
		if (ctx_peek(ctx, m))
			return lhs_at(&ctx->lhs, u->ends[u->at].pos++);
	}
	return NULL;
}

static struct unread
all_unread(const struct pmx_context *ctx)
{
	return (struct unread){.ends = {ctx->lhs, ctx->next_lhs}, .n = ctx->unread ? 2 : 1};
}

/* Copy messages that landed and were not received to a ring in this process's own memory, which is
 * read first. */
static int
keep_unread(struct pmx_context *ctx)
{
	const struct lhs_end start = ctx->lhs;
	struct unread u = all_unread(ctx);
	const struct lhs_entry *e;
	uint64_t bytes = 0;
	uint32_t n = 0, size = 1;
	struct pmx_message m;

	for (; next_unread(ctx, &u, &m) != NULL; n++)
		bytes += m.bulk == LHS_NO_BULK ? 0 : reattach_rounded(m.len);
	ctx->lhs = start;
	if (n == 0)
		return 0;
	while (size < n)
		size *= 2;
	uint64_t ring_bytes = (uint64_t)size << start.shift;
	struct kept *k = aligned_alloc(64, 64 + ring_bytes + bytes);

	if (k == NULL)
		return -ENOMEM;
	uint8_t *ring = (uint8_t *)k + 64, *to = ring + ring_bytes;

	memset(ring, 0, ring_bytes);
	u = all_unread(ctx);
	for (uint32_t i = 0; (e = next_unread(ctx, &u, &m)) != NULL; i++) {
		struct lhs_entry *mine = (struct lhs_entry *)(ring + ((uint64_t)i << start.shift));

		memcpy(mine, e, (size_t)1 << start.shift);
		atomic_store_explicit(&mine->mark, i + 1, memory_order_relaxed);
		if (m.bulk == LHS_NO_BULK)
			continue;
		pmx_message_read(ctx, &m, 0, to, m.len);
		mine->bulk = BULK_KEPT; /* in one piece now, and never given back to an engine */
		mine->bulk_off = to - (uint8_t *)ctx->shm;
		to += reattach_rounded(m.len);
	}
	k->next = ctx->kept;
	ctx->kept = k;
	ctx->lhs = start;
	ctx->lhs.base = ring;
	ctx->lhs.pos = ctx->lhs_published = 0;
	ctx->lhs.mask = size - 1;
	ctx->lhs_publish = UINT32_MAX; /* no engine needs the position in it */
	/* the end of the channel's ring: all of it has been copied */
	ctx->next_lhs = u.ends[u.n - 1];
	ctx->unread = true;
	return 0;
}

/* End everything that may need the old engine. Return 0, or why it cannot end yet; the call can
 * then be repeated. */
static int
reattach_leave(struct pmx_context *ctx)
{
	int result;

	ctx_completions(ctx);
	for (const struct client_service *const *s = ctx->node->services; *s != NULL; s++) {
		result = (*s)->leave != NULL ? (*s)->leave(ctx) : 0;
		if (result != 0)
			return result;
	}
	if ((result = keep_unread(ctx)) != 0)
		return result;
	ctx_reset_sends(ctx);
	pthread_mutex_lock(&ctx->node->lock);
	ctx->adrift = true;
	ctx->left = ctx->node->attachments;
	pthread_mutex_unlock(&ctx->node->lock);
	ctx->release_count = 0;
	return 0;
}

#define AGAIN_NS    5000000 /* between attempts to find a primary */
/* after this time a primary that ended a context but not itself is taken to live on */
#define LIVES_ON_US 1000000

static int
attach_again(struct pmx_node *node, int64_t deadline)
{
	const struct timespec pause = {.tv_nsec = AGAIN_NS};
	struct pmx_node fresh = {0};
	int result;

	if (node->way->let_go != NULL)
		node->way->let_go(node);
	for (;;) {
		memcpy(fresh.instance, node->instance, sizeof(fresh.instance));
		result = way_thin_attach(&fresh, node->instance);
		if (result != -ENOENT && result != -EPIPE)
			break;
		if (clock_left(deadline) == 0)
			return -ENOENT;
		nanosleep(&pause, NULL);
	}
	if (result != 0)
		return result;
	life_end(node);
	close(node->life);
	node->way = &way_thin;
	node->socket = fresh.socket;
	node->number = fresh.number;
	result = life_begin(node, node->socket, POLLRDHUP);
	if (result == 0)
		node->attachments++;
	else
		node->gone = true; /* nobody watches the primary: the next call tries again */
	return result;
}

/* Wait for the primary to end. One that stops says so in its channels first; one whose take-over
 * was called off has ended only those channels, and goes on. */
static void
wait_for_end(struct pmx_node *node, int64_t deadline)
{
	const struct timespec pause = {.tv_nsec = AGAIN_NS};
	int64_t patience = clock_deadline(LIVES_ON_US);

	while (!node->gone && clock_left(deadline < patience ? deadline : patience) != 0)
		nanosleep(&pause, NULL);
}

/* Make contexts leave their channels: all, or those whose engine is gone. */
static int
leave_channels(struct pmx_node *node, bool all)
{
	int result = 0;

	for (struct pmx_context *ctx = node->contexts; ctx != NULL && result == 0;
		ctx = ctx->next) {
		if (!ctx->adrift && (all || ctx_gone(ctx)))
			result = reattach_leave(ctx);
	}
	return result;
}

int
pmx_reattach(struct pmx_node *node, int64_t timeout_us)
{
	int64_t deadline = clock_deadline(timeout_us);
	int first = 0, result;

	if (node->foreign)
		return -EPIPE;
	if (node->embedded != NULL)
		return -EINVAL;
	bool old = life_is_over(node);

	if ((result = leave_channels(node, false)) != 0)
		return result;
	for (struct pmx_context *ctx = node->contexts; ctx != NULL; ctx = ctx->next)
		old |= ctx->adrift && ctx->left == node->attachments;
	if (old) {
		wait_for_end(node, deadline);
		/* all, since the end of the others may not have been noticed yet */
		if ((result = leave_channels(node, true)) != 0 ||
			(result = attach_again(node, deadline)) != 0)
			return result;
	}
	for (struct pmx_context *ctx = node->contexts; ctx != NULL; ctx = ctx->next) {
		result = ctx->adrift ? way_thin_rejoin(ctx) : 0;
		first = first != 0 ? first : result;
	}
	return first;
}
