/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Contexts of thin clients, which map their own channel and nothing else. Their send and receive
 * buffers lie behind the channel's region, in the client's own pages, and the engine copies bytes
 * between those and mbufs.
 *
 * Design notes
 * 1. The tables are in the engine's own memory. From the client's pages the engine reads only what
 *    the channel's rules allow, and payloads, which it copies: the client can neither change a
 *    frame that is sent nor see headers.
 * 2. The thread that answers a thin client makes its context, and the thread that reaps memory
 *    frees it; a lane only uses it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/thin.h"

/* Return the number of places for send buffers. How many of those for inline messages are used is
 * decided later, when the context is opened. */
static uint32_t
send_places(const struct quotas *q)
{
	return q->send + channel_inline_sends(q->send);
}

uint64_t
thin_bytes(const struct node *n, const struct quotas *q)
{
	return channel_thin_bytes(&n->geometry, send_places(q) + q->plain + q->matched,
		n->frag_len);
}

static void
thin_free(void *thin)
{
	struct thin *t = thin;

	if (t->event_fd >= 0)
		close(t->event_fd);
	if (t->doorbell >= 0)
		close(t->doorbell);
	free(t->bufs);
	free(t->free);
	free(t->recalled);
	free(t->recalled_slot);
	free(t);
}

struct thin *
thin_make(struct node *n, const struct quotas *q, int fd, uint64_t len, unsigned flags)
{
	uint32_t receive = q->plain + q->matched;
	struct thin *t;

	uint64_t bytes = thin_bytes(n, q);

	/* the needed bytes, rounded up to pages of any size */
	if (len < bytes || len - bytes >= RTE_PGSIZE_2M) {
		errno = EINVAL;
		return NULL;
	}
	t = calloc(1, sizeof(*t));
	if (t == NULL)
		return NULL;
	t->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	t->doorbell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	t->bufs = calloc(receive, sizeof(*t->bufs));
	t->free = calloc(receive, sizeof(*t->free));
	t->recalled = calloc(send_places(q), sizeof(*t->recalled));
	t->recalled_slot = calloc(send_places(q), sizeof(*t->recalled_slot));
	if (t->event_fd >= 0 && t->doorbell >= 0 && t->bufs != NULL && t->free != NULL &&
		t->recalled != NULL && t->recalled_slot != NULL)
		t->memory = memory_make(&n->mappings, fd, len, 0, 0, MEMORY_OF_THIN | flags);
	if (t->memory == NULL) {
		int error = errno ? errno : ENOMEM;

		thin_free(t);
		errno = error;
		return NULL;
	}
	t->memory->owner = t;
	t->memory->end_owner = thin_free;
	t->stride = channel_buffer_bytes(n->frag_len);
	t->send = t->memory->base + channel_bytes(&n->geometry) + CHANNEL_BUFFER_HEAD;
	t->receive = t->send + (uint64_t)send_places(q) * t->stride;
	t->count = t->free_count = receive;
	for (uint32_t i = 0; i < receive; i++) {
		t->bufs[i] = (struct buf_state){.owner = BUF_FREE, .next = UINT32_MAX};
		t->free[i] = receive - 1 - i;
	}
	return t;
}

void
thin_fill(struct channel *ch, const uint16_t *bufs, unsigned count, uint32_t len)
{
	for (unsigned i = 0; i < count; i++) {
		uint32_t n = len < ch->frag_len ? len : ch->frag_len;

		memcpy(send_payload(&ch->slots[bufs[i]]), thin_send(ch->thin, bufs[i]), n);
		len -= n;
	}
}

uint8_t *
thin_keep(struct thin *t, const uint8_t *payload, uint32_t len, uint32_t *number)
{
	/* never empty: the core took room for this payload */
	uint32_t k = t->free[--t->free_count];
	uint8_t *to = t->receive + (uint64_t)k * t->stride;

	memcpy(to, payload, len);
	*number = k;
	return to;
}

uint64_t
thin_frame_keep(struct channel *ch, const uint8_t *payload, uint32_t len)
{
	uint32_t number;

	thin_keep(ch->thin, payload, len, &number);
	/* not the head of a message, so the client cannot give it back */
	ch->thin->bufs[number] = (struct buf_state){.owner = ch->ctx, .next = UINT32_MAX};
	ch->thin->frames_kept++;
	return THIN_FRAME | (uint64_t)ch->ctx << 32 | number;
}

/* Free the buffer of a frame of an unfinished message. */
static void
frame_end(struct thin *t, uint32_t number)
{
	t->bufs[number].owner = BUF_FREE;
	t->free[t->free_count++] = number;
	t->frames_kept--;
}

void
thin_frame_free(struct node *n, uint64_t handle)
{
	const struct channel *ch = &n->channels[(handle & ~THIN_FRAME) >> 32];
	const uint32_t number = (uint32_t)handle;
	struct thin *t = ch->thin;

	/* the context may have ended, and another client may have it by now */
	if (t == NULL || t->frames_kept == 0 || number >= t->count ||
		t->bufs[number].owner != ch->ctx || t->bufs[number].head)
		return;
	frame_end(t, number);
}

void
thin_frame_take(struct channel *ch, uint64_t handle, uint8_t *to, uint32_t len)
{
	const uint32_t number = (uint32_t)handle;
	struct thin *t = ch->thin;

	memcpy(to, t->receive + (uint64_t)number * t->stride, len);
	frame_end(t, number);
}
