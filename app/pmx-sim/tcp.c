/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Congestion control as TCP has it, for comparisons.
 */
#include "sims.h"

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
