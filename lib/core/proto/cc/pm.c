/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cc = pm: the advance-message control of PM/UDP (IPSJ 1999), section 3: a bounded number of
 * messages and bytes before an Ack; a Nack cuts both at once (by half, at most once a round trip),
 * Acks restore them gradually (a full frame for each window that was Acked). Bytes; time stamps in
 * units of WIRE_TSTAMP_HZ. Called by lib/core/proto on its owner's thread.
 */
#include "core/proto/internal.h"

static void
grow(struct cc *c, uint32_t acked_bytes)
{
	c->acc += acked_bytes;
	if (c->acc < c->window_bytes)
		return;
	c->acc = 0;
	c->window_bytes += c->step;
	if (c->window_bytes > c->max_bytes)
		c->window_bytes = c->max_bytes;
	c->window_frames += c->window_frames / 16 + 1;
	if (c->window_frames > c->max_frames)
		c->window_frames = c->max_frames;
}

static void
pm_cut(struct cc *c, uint32_t now)
{
	c->window_bytes /= 2;
	if (c->window_bytes < c->min_bytes)
		c->window_bytes = c->min_bytes;
	c->window_frames /= 2;
	if (c->window_frames < 2)
		c->window_frames = c->max_frames < 2 ? c->max_frames : 2;
	c->acc = 0;
	c->last_cut = now;
}

static void
pm_on_ack(struct cc *c, uint32_t acked_bytes, uint32_t rtt, uint32_t srtt, uint32_t now)
{
	(void)rtt, (void)srtt, (void)now;
	if (c->window_bytes < c->max_bytes || c->window_frames < c->max_frames)
		grow(c, acked_bytes);
}

static bool
pm_on_nack(struct cc *c, bool many, uint32_t srtt, uint32_t now)
{
	(void)many;
	if (now - c->last_cut < srtt)
		return false;
	pm_cut(c, now);
	return true;
}

static bool
pm_on_timeout(struct cc *c, uint32_t now)
{
	pm_cut(c, now);
	return true;
}

const struct cc_ops cc_pm = {
	.name = "pm",
	.on_ack = pm_on_ack,
	.on_nack = pm_on_nack,
	.on_timeout = pm_on_timeout,
	.full_cuts = true, /* the paper has no credit */
};
