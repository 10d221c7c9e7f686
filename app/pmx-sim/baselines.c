/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the congestion control that ships is compared with.
 */
#include "sims.h"

/* Leave the window as it is configured: this is no congestion control (PM without the windows of
 * section 3). */
static void
fixed_on_ack(struct cc *c, uint32_t acked, uint32_t rtt, uint32_t srtt, uint32_t now)
{
	(void)c, (void)acked, (void)rtt, (void)srtt, (void)now;
}

static bool
fixed_on_nack(struct cc *c, bool many, uint32_t srtt, uint32_t now)
{
	(void)c, (void)many, (void)srtt, (void)now;
	return false;
}

static bool
fixed_on_timeout(struct cc *c, uint32_t now)
{
	(void)c, (void)now;
	return false;
}

const struct cc_ops cc_fixed = {
	.name = "fixed",
	.on_ack = fixed_on_ack,
	.on_nack = fixed_on_nack,
	.on_timeout = fixed_on_timeout,
};

/* TCP as in the gather paper: slow start, halving after a loss, one segment after a timeout
 * (Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988); its minimum timeout is 200 ms. */
static void
tcp_on_ack(struct cc *c, uint32_t acked, uint32_t rtt, uint32_t srtt, uint32_t now)
{
	(void)rtt, (void)srtt, (void)now;
	c->acc += c->window_bytes < c->slow ? c->window_bytes : acked;
	if (c->window_bytes < c->slow) {
		c->window_bytes += acked;
	} else if (c->acc >= c->window_bytes) {
		c->acc = 0;
		c->window_bytes += c->step;
	}
	if (c->window_bytes > c->max_bytes)
		c->window_bytes = c->max_bytes;
}

static bool
tcp_on_nack(struct cc *c, bool many, uint32_t srtt, uint32_t now)
{
	(void)many;
	if (now - c->last_cut < srtt)
		return false;
	c->slow = c->window_bytes / 2 > 2 * c->step ? c->window_bytes / 2 : 2 * c->step;
	c->window_bytes = c->slow;
	c->acc = 0;
	c->last_cut = now;
	return true;
}

static bool
tcp_on_timeout(struct cc *c, uint32_t now)
{
	c->slow = c->window_bytes / 2 > 2 * c->step ? c->window_bytes / 2 : 2 * c->step;
	c->window_bytes = c->step;
	c->acc = 0;
	c->last_cut = now;
	return true;
}

const struct cc_ops cc_tcp = {
	.name = "tcp",
	.on_ack = tcp_on_ack,
	.on_nack = tcp_on_nack,
	.on_timeout = tcp_on_timeout,
	.slow_start = true,
};

void
tcp_apply(struct proto_config *c)
{
	c->recovery = PROTO_SELECTIVE;
	c->cc = &cc_tcp;
	c->rto_min_us = 200000;
	c->probes = 0; /* as TCP was in 2008 */
	c->share_target_us = 0;
	if (c->rto_max_us < 4 * c->rto_min_us)
		c->rto_max_us = 4 * c->rto_min_us;
}

/* DCTCP (Alizadeh et al., SIGCOMM 2010), section 3: the window is cut once a round trip, by half of
 * the part of its frames that found more than K in a queue, as a running mean. Its switches mark
 * those frames; here a frame counts as marked if its round trip was longer by what K takes. */
#define DCTCP_K_UNITS (78u * WIRE_TSTAMP_HZ / 1000000) /* K = 65 frames, at 10 Gb/s 78 us */
#define DCTCP_G_SHIFT 4                                /* a new round trip weighs a sixteenth */
#define DCTCP_ONE     1024u

static void
dctcp_on_ack(struct cc *c, uint32_t acked, uint32_t rtt, uint32_t srtt, uint32_t now)
{
	/* `full` is the running mean; `samples` and `low` count frames of this round trip, all and
	 * marked ones */
	const uint32_t marked = rtt > c->base_rtt + DCTCP_K_UNITS;

	c->samples += rtt != 0;
	c->low += marked;
	if (now - c->last_cut >= srtt && c->samples > 0) {
		c->full += ((c->low * DCTCP_ONE / c->samples) >> DCTCP_G_SHIFT) -
			(c->full >> DCTCP_G_SHIFT);
		if (c->low > 0) {
			c->window_bytes -= c->window_bytes / 2 * c->full / DCTCP_ONE;
			c->slow = c->window_bytes;
		}
		if (c->window_bytes < c->min_bytes)
			c->window_bytes = c->min_bytes;
		c->samples = c->low = 0;
		c->last_cut = now;
	}
	if (!marked)
		tcp_on_ack(c, acked, rtt, srtt, now);
}

const struct cc_ops cc_dctcp = {
	.name = "dctcp",
	.on_ack = dctcp_on_ack,
	.on_nack = tcp_on_nack,
	.on_timeout = tcp_on_timeout,
	.slow_start = true,
};
