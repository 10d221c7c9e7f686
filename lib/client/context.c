/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The life of a context of libpmx: how it is made, continues with another engine, and ends. Its use
 * is in send.c, receive.c and wait.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"
#include "client/told.h"
#include "core/wire/wire.h"

struct pmx_addr
pmx_context_addr(const struct pmx_context *ctx)
{
	return (struct pmx_addr){ctx->node->number, ctx->ctx};
}

uint32_t
pmx_get_mtu(const struct pmx_context *ctx)
{
	return ctx->frag_len;
}

uint32_t
pmx_get_max_message(const struct pmx_context *ctx)
{
	return ctx->max_message;
}

void
pmx_context_read_stat(const struct pmx_context *ctx, struct pmx_context_stat *stat)
{
	*stat = ctx->stat; /* as of the completions taken so far */
	stat->send_buffers = ctx->send_buffers;
	stat->receive_buffers = ctx->receive_buffers;
}

/* Set up the client's side of the channel's rings, and read the channel's parameters. */
static void
join(struct pmx_context *ctx, struct channel_shm *shm, int event_fd, int doorbell)
{
	ctx->shm = shm;
	memcpy(shm->name, ctx->name, sizeof(shm->name));
	ctx->life = BULK_LIFE(1 + ctx->lives++ % 127);
	slot_end_init(&ctx->sub, channel_submissions(shm), shm->submissions, &shm->submissions_pos);
	slot_end_init(&ctx->com, channel_completions(shm), shm->completions, &shm->completions_pos);
	lhs_end_init(&ctx->next_lhs, &shm->lhs, channel_lhs(shm));
	ctx->bytes = shm->bytes;
	ctx->send_off = channel_send_off(shm);
	ctx->inline_sends = ctx->inline_left = shm->inline_sends;
	ctx->inline_done = ctx->inline_failed = 0;
	ctx->frag_len = shm->frag_len;
	/* a message's submission must fit the ring as well */
	uint64_t most = (uint64_t)((shm->submissions - 1) * SUBMIT_MORE_BUFS) * shm->frag_len;

	ctx->max_message = shm->max_message < most ? shm->max_message : (uint32_t)most;
	ctx->one_max = ctx->max_message < ctx->frag_len ? ctx->max_message : ctx->frag_len;
	ctx->release_most = (shm->receive_buffers < shm->matched_buffers ? shm->receive_buffers
									 : shm->matched_buffers) /
		4;
	if (ctx->release_most > SUBMIT_RELEASE_BUFS)
		ctx->release_most = SUBMIT_RELEASE_BUFS;
	ctx->engine_may_sleep = shm->engine_may_sleep;
	ctx->yields = ctx->idle == PMX_IDLE_YIELD || (ctx->idle == PMX_IDLE_AUTO && shm->yields);
	ctx->generation = shm->generation;
	ctx->selects = false;
	ctx->event_fd = event_fd;
	ctx->doorbell = doorbell;
}

/* Make room in the release list for each buffer that messages of this channel may hold. */
static int
make_release_list(struct pmx_context *ctx, const struct channel_shm *shm)
{
	uint32_t room = shm->receive_buffers + shm->matched_buffers;
	uint32_t *list = room > ctx->release_room ? realloc(ctx->release, room * sizeof(*list))
						  : ctx->release;

	if (list == NULL)
		return -ENOMEM;
	ctx->release = list;
	ctx->release_room = room > ctx->release_room ? room : ctx->release_room;
	return 0;
}

void
ctx_reset_sends(struct pmx_context *ctx)
{
	bool *is_free = calloc(ctx->send_buffers, sizeof(*is_free));

	if (is_free == NULL)
		return; /* then the sends of the last life never complete: -EPIPE for ever */
	for (uint32_t i = 0; i < ctx->free_count; i++)
		is_free[ctx->free[i]] = true;
	for (uint32_t i = 0; i < ctx->send_buffers; i++)
		is_free[i] |= ctx->notes[i].told == SEND_TOLD;
	for (uint32_t i = 0; i < ctx->send_buffers; i++) {
		struct send_note *n = &ctx->notes[i];

		if (is_free[i])
			continue;
		outcome_add(&n->ended, ECONNRESET);
		ctx->stat.send_errors += n->next == NO_BUFFER;
		ctx->stat.last_error = -ECONNRESET;
		if (n->told == SEND_TELLS)
			told_ended(ctx, (uint16_t)i);
		else
			ctx->free[ctx->free_count++] = (uint16_t)i;
	}
	free(is_free);
	ctx->stat.send_errors += ctx->inline_sends - ctx->inline_left;
	ctx->inline_left = ctx->inline_sends;
	if (ctx->tracked)
		ctx_services_progress(ctx);
}

int
ctx_rejoin(struct pmx_context *ctx, struct channel_shm *shm, uint64_t mapped, int event_fd,
	int doorbell)
{
	const struct channel_sizes sizes = {CHANNEL_SIZES(shm)};
	struct channel_shm *old = ctx->shm;

	if (memcmp(&sizes, &ctx->sizes, sizeof(sizes)) != 0)
		return -EPROTO;
	if (make_release_list(ctx, shm) != 0)
		return -ENOMEM;
	if (ctx->past != NULL)
		munmap(ctx->past, ctx->past_bytes);
	ctx->past = ctx->mapped ? old : NULL;
	ctx->past_bytes = ctx->mapped;
	ctx->mapped = mapped;
	/* the application may poll the descriptor, so its number must stay */
	dup2(event_fd, ctx->event_fd);
	close(event_fd);
	close(ctx->doorbell);
	if (ctx->alarm >= 0)
		close(ctx->alarm);
	ctx->alarm = -1;
	join(ctx, shm, ctx->event_fd, doorbell);
	/* offsets of kept messages are relative to the channel, which has moved */
	for (uint32_t i = 0; ctx->unread && i <= ctx->lhs.mask; i++)
		lhs_at(&ctx->lhs, i)->bulk_off += (uint8_t *)old - (uint8_t *)shm;
	if (!ctx->unread)
		ctx_take_ring(ctx);
	for (const struct client_service *const *s = ctx->node->services; *s != NULL; s++) {
		int result = (*s)->rejoin != NULL ? (*s)->rejoin(ctx) : 0;

		if (result != 0)
			return result;
	}
	pthread_mutex_lock(&ctx->node->lock);
	ctx->adrift = false;
	if (ctx->node->gone)
		atomic_store(&shm->state, CHANNEL_DEAD);
	pthread_mutex_unlock(&ctx->node->lock);
	for (const struct client_service *const *s = ctx->node->services; *s != NULL; s++) {
		if ((*s)->rejoined != NULL)
			(*s)->rejoined(ctx);
	}
	return 0;
}

int
ctx_idle_policy(const struct pmx_context_params *params)
{
	const char *by_user = getenv("PMX_IDLE");

	if (params->idle != PMX_IDLE_AUTO || by_user == NULL || *by_user == 0)
		return params->idle <= PMX_IDLE_YIELD ? (int)params->idle : -EINVAL;
	return strcmp(by_user, "spin") == 0     ? PMX_IDLE_SPIN
		: strcmp(by_user, "yield") == 0 ? PMX_IDLE_YIELD
						: -EINVAL;
}

int
ctx_make(struct pmx_context **out, struct pmx_node *node, const struct pmx_context_params *params,
	struct channel_shm *shm, int event_fd, int doorbell)
{
	struct pmx_context *ctx = calloc(1, sizeof(*ctx));

	if (ctx == NULL) {
		close(event_fd);
		if (doorbell >= 0)
			close(doorbell);
		return -ENOMEM;
	}
	ctx->event_fd = event_fd;
	ctx->doorbell = doorbell;
	ctx->alarm = -1;
	ctx->pair_node = ctx->near_node = PAIR_NONE;
	ctx->notes = calloc(shm->send_buffers, sizeof(*ctx->notes));
	ctx->free = calloc(shm->send_buffers, sizeof(*ctx->free));
	if (ctx->notes == NULL || ctx->free == NULL || make_release_list(ctx, shm) != 0) {
		ctx_free(ctx);
		return -ENOMEM;
	}
	/* pmx_context_open() has checked it */
	ctx->idle = (enum pmx_idle)ctx_idle_policy(params);
	snprintf(ctx->name, sizeof(ctx->name), "%s",
		params->name != NULL ? params->name : program_invocation_short_name);
	ctx->open_wait_us = params->open_wait_us;
	join(ctx, shm, event_fd, doorbell);
	ctx_take_ring(ctx);
	ctx->send_buffers = shm->send_buffers;
	ctx->receive_buffers = shm->receive_buffers;
	ctx->sizes = (struct channel_sizes){CHANNEL_SIZES(shm)};
	ctx->node = node;
	ctx->ctx = shm->ctx;
	for (uint32_t i = shm->send_buffers; i-- > 0;)
		ctx->free[ctx->free_count++] = (uint16_t)i;
	for (const struct client_service *const *s = node->services; *s != NULL; s++) {
		if ((*s)->open != NULL && (*s)->open(ctx) != 0) {
			ctx_free(ctx);
			return -ENOMEM;
		}
	}
	STEP();
	pthread_mutex_lock(&node->lock);
	ctx->next = node->contexts;
	node->contexts = ctx;
	atomic_fetch_add(&node->context_count, 1);
	if (node->gone) /* the primary ended just now, and its watcher did not see this context */
		atomic_store(&shm->state, CHANNEL_DEAD);
	pthread_mutex_unlock(&node->lock);
	*out = ctx;
	return 0;
}

void
ctx_free(struct pmx_context *ctx)
{
	struct pmx_node *node = ctx->node;
	struct pmx_context **link = node ? &node->contexts : NULL;

	if (node != NULL)
		pthread_mutex_lock(&node->lock);
	while (link != NULL && *link != NULL && *link != ctx)
		link = &(*link)->next;
	if (link != NULL && *link == ctx) {
		*link = ctx->next;
		atomic_fetch_sub(&node->context_count, 1);
	}
	if (node != NULL)
		pthread_mutex_unlock(&node->lock);
	/* only now, since the thread that watches the primary uses them for contexts in the list */
	if (ctx->event_fd >= 0)
		close(ctx->event_fd);
	if (ctx->doorbell >= 0)
		close(ctx->doorbell);
	if (ctx->alarm >= 0)
		close(ctx->alarm);
	/* what services have of a foreign context may be the parent's as well, and stays */
	for (const struct client_service *const *s = node != NULL && !node->foreign ? node->services
										    : NULL;
		s != NULL && *s != NULL; s++) {
		if ((*s)->close != NULL)
			(*s)->close(ctx);
		STEP();
	}
	if (ctx->mapped)
		munmap(ctx->shm, ctx->mapped);
	STEP();
	if (ctx->past != NULL)
		munmap(ctx->past, ctx->past_bytes);
	while (ctx->kept != NULL) {
		struct kept *k = ctx->kept;

		ctx->kept = k->next;
		free(k);
	}
	free(ctx->rma); /* services that close later look at it */
	free(ctx->notes);
	free(ctx->free);
	free(ctx->release);
	free(ctx);
}
