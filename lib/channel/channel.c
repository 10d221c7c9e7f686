/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Laying out a channel's region. The engine calls this when a node starts and when a context is
 * opened; the client checks what it found with channel_check.
 */
#include "channel/channel.h"

#define OFFSETS 7

static uint64_t
align64(uint64_t v)
{
	return (v + 63) & ~(uint64_t)63;
}

static uint64_t
place(const struct channel_geometry *g, uint64_t off[OFFSETS])
{
	uint64_t at = align64(sizeof(struct channel_shm));

	off[0] = at;
	at += (uint64_t)g->submissions * SLOT_BYTES;
	off[1] = at;
	at += (uint64_t)g->completions * SLOT_BYTES;
	off[2] = at;
	at += (uint64_t)g->lhs.entries * g->lhs.entry_bytes;
	off[3] = at;
	at += (uint64_t)g->matched.entries * g->matched.entry_bytes;
	off[4] = at;
	at = align64(at + g->send_buffers * sizeof(int64_t));
	off[5] = at;
	at += g->transfers * sizeof(struct transfer_desc);
	off[6] = at;
	return at + (uint64_t)g->events * SLOT_BYTES;
}

uint64_t
channel_bytes(const struct channel_geometry *g)
{
	uint64_t off[OFFSETS];

	return place(g, off);
}

uint64_t
channel_thin_bytes(const struct channel_geometry *g, uint32_t buffers, uint32_t frag_len)
{
	return channel_bytes(g) + (uint64_t)buffers * channel_buffer_bytes(frag_len);
}

void
channel_format(struct channel_shm *shm, const struct channel_geometry *g, uint16_t node,
	uint16_t ctx, uint32_t generation)
{
	uint64_t off[OFFSETS], bytes = place(g, off);

	memset(shm, 0, bytes);
	shm->magic = CHANNEL_MAGIC;
	shm->abi = CHANNEL_ABI;
	shm->bytes = (uint32_t)bytes;
	shm->node = node;
	shm->ctx = ctx;
	shm->generation = generation;
	shm->submissions = g->submissions;
	shm->completions = g->completions;
	shm->lhs = g->lhs;
	shm->matched = g->matched;
	shm->submissions_off = off[0];
	shm->completions_off = off[1];
	shm->lhs_off = off[2];
	shm->matched_off = off[3];
	shm->send_off_off = off[4];
	shm->transfers_off = off[5];
	shm->events_off = off[6];
	shm->transfers = g->transfers;
	shm->events = g->events;
}

const char *
channel_check(const struct channel_shm *shm)
{
	if (shm->magic != CHANNEL_MAGIC)
		return "no channel at this place";
	if (shm->abi != CHANNEL_ABI)
		return "channel of another version";
	if (atomic_load_explicit(&shm->state, memory_order_acquire) != CHANNEL_OPEN)
		return "channel is not open";
	return NULL;
}
