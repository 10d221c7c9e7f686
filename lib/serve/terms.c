/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which primaries can take over from each other: see takeover.h.
 */
#include "serve/takeover_image.h"
#include "serve/terms.h"

static uint64_t
mix(uint64_t hash, const void *data, size_t len)
{
	const uint8_t *p = data;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ p[i]) * 0x100000001B3u; /* FNV-1a */
	return hash;
}

uint64_t
takeover_terms(const struct node *n)
{
	const struct config *c = &n->config;
	const uint32_t numbers[] = {CHANNEL_ABI, sizeof(struct head), sizeof(struct saved_channel),
		c->id, c->lanes, c->idle == IDLE_ADAPTIVE || c->idle == IDLE_SLEEP, c->contexts,
		c->send_buffers, c->receive_buffers, c->mbufs, c->submissions, c->message_max,
		c->matched_entries, c->matched_buffers, c->transfers, c->requests, c->regions,
		c->transfer_frames, c->events, c->nodes_max, c->cc, n->frag_len};
	uint64_t hash = 0xCBF29CE484222325u, terms[PROTO_CONFIG_TERMS];

	proto_config_terms(&c->proto, terms);
	hash = mix(hash, PMX_VERSION, sizeof(PMX_VERSION));
	hash = mix(hash, numbers, sizeof(numbers));
	for (unsigned i = 0; n->services.list[i] != NULL; i++)
		hash = mix(hash, &n->services.list[i]->image_form,
			sizeof(n->services.list[i]->image_form));
	hash = mix(hash, &n->geometry, sizeof(n->geometry));
	return mix(hash, terms, sizeof(terms));
}
