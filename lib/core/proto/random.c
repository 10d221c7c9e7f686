/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Random numbers and secrets, by a keyed function whose key nobody else knows.
 */
#include "core/proto/internal.h"
#include "core/wire/siphash.h"

/* Each number is for one of these, so that none for the one purpose tells of another's. */
enum { SECRET, DRAWN };

uint64_t
proto_random(struct proto *p)
{
	const uint64_t drawn[2] = {(uint64_t)p->cfg.lane << 32 | DRAWN, p->random++};

	return siphash(p->cfg.key, drawn, 2);
}

uint64_t
proto_secret(const struct proto *p, uint16_t node)
{
	const uint64_t whose = (uint64_t)node << 32 | SECRET;

	return siphash(p->cfg.key, &whose, 1);
}
