/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Laying out a channel's region. The engine calls this when a node starts and when a context is
 * opened; the client checks what it found with channel_check.
 */
#include <stdlib.h>
#include <unistd.h>

#include "channel/channel.h"

static uint64_t
align64(uint64_t v)
{
	return (v + 63) & ~(uint64_t)63;
}

struct channel_layout
channel_layout(const struct channel_geometry *g)
{
	struct channel_layout l;

	l.submissions = align64(sizeof(struct channel_shm));
	l.completions = l.submissions + (uint64_t)g->submissions * SLOT_BYTES;
	l.lhs = l.completions + (uint64_t)g->completions * SLOT_BYTES;
	l.matched = l.lhs + (uint64_t)g->lhs.entries * g->lhs.entry_bytes;
	l.send_off = l.matched + (uint64_t)g->matched.entries * g->matched.entry_bytes;
	l.transfers = align64(l.send_off + g->send_buffers * sizeof(int64_t));
	l.events = l.transfers + g->transfers * sizeof(struct transfer_desc);
	l.bytes = l.events + (uint64_t)g->events * SLOT_BYTES;
	return l;
}

uint64_t
channel_bytes(const struct channel_geometry *g)
{
	return channel_layout(g).bytes;
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
	const struct channel_layout l = channel_layout(g);

	memset(shm, 0, l.bytes);
	shm->magic = CHANNEL_MAGIC;
	shm->abi = CHANNEL_ABI;
	shm->bytes = (uint32_t)l.bytes;
	shm->node = node;
	shm->ctx = ctx;
	shm->generation = generation;
	shm->submissions = g->submissions;
	shm->completions = g->completions;
	shm->lhs = g->lhs;
	shm->matched = g->matched;
	shm->submissions_off = l.submissions;
	shm->completions_off = l.completions;
	shm->lhs_off = l.lhs;
	shm->matched_off = l.matched;
	shm->send_off_off = l.send_off;
	shm->transfers_off = l.transfers;
	shm->events_off = l.events;
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

bool
channel_name_ok(const char *text)
{
	const size_t len = strlen(text);
	bool letter = false;

	for (size_t i = 0; i < len; i++) {
		const char c = text[i];
		const bool alpha = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

		if (!alpha && !(c >= '0' && c <= '9') && c != '.' && c != '-' && c != '_')
			return false;
		letter |= alpha;
	}
	return letter && len < ATTACH_NAME_MAX && text[0] != '.' && text[0] != '-';
}

void
channel_name_hash(const char *name, uint8_t hash[16])
{
	uint64_t h[2] = {0xCBF29CE484222325u, 0x9E3779B97F4A7C15u};

	for (; *name != 0; name++) {
		h[0] = (h[0] ^ (uint8_t)*name) * 0x100000001B3u; /* FNV-1a */
		h[1] = (h[1] ^ (uint8_t)*name) * 0xBF58476D1CE4E5B9u;
		h[1] ^= h[1] >> 31;
	}
	memcpy(hash, h, sizeof(h));
}
