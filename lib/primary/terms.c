/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which primaries can take over from each other: see takeover.h.
 */
#include "node/config_file.h"
#include "node/sizes.h"
#include "primary/takeover_image.h"
#include "primary/terms.h"

static void
mix(void *hash, const void *data, size_t len)
{
	const uint8_t *p = data;
	uint64_t *h = hash;

	for (size_t i = 0; i < len; i++)
		*h = (*h ^ p[i]) * 0x100000001B3u; /* FNV-1a */
}

uint64_t
takeover_terms(const struct node *n)
{
	const struct config *c = &n->config;
	const uint32_t forms[] = {CHANNEL_ABI, sizeof(struct head), sizeof(struct saved_channel),
		idle_shares(c->idle), n->frag_len, proto_form(), node_config_core(c).links};
	uint64_t hash = 0xCBF29CE484222325u;

	mix(&hash, PMX_VERSION, sizeof(PMX_VERSION));
	mix(&hash, forms, sizeof(forms));
	SERVICE_FOREACH(ops, &n->services)
		mix(&hash, &ops->image_form, sizeof(ops->image_form));
	mix(&hash, &n->geometry, sizeof(n->geometry));
	node_config_agreed(c, mix, &hash);
	return hash;
}
