/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cc = delay: the window follows the measured delay, after Swift (Kumar et al., SIGCOMM 2020,
 * section 3.1): additive increase while the round trip is below a target, multiplicative decrease
 * in proportion to the excess, at most once a round trip. The target is the smallest round trip
 * seen plus proto.cc_target_us, and never so near that fewer than six frames may wait. Bytes;
 * times in units of WIRE_TSTAMP_HZ (62.5 ns). Called by lib/core/proto on its owner's thread.
 *
 * Design notes
 * 1. The increase is one full frame for each window that was Acked, by an accumulator: no division.
 * 2. A queue in the network delays every frame, a descheduled host only some. So the cut is
 *    computed from the smallest of at least 8 samples (ours).
 * 3. All divisions are in the decrease, which runs at most once a round trip.
 * 4. After a timeout the window starts at its floor and doubles each round trip up to half of what
 *    it was: one lost burst must not cost a thousand round trips of additive increase.
 * 5. A loss while frames queue shows the depth of the buffer: the target is lowered to half of it,
 *    and rises back to the configured one by a 64th per window (ours), so shallow buffers need no
 *    setting of their own. A few losses with an empty queue, or with one well below that depth, are
 *    transmission errors and cause no cut.
 * 6. On a slow link a frame takes longer than the target. Each switch holds a full frame until all
 *    of it has come, which the smallest round trip, of a short frame, does not have; and a link
 *    whose queue may not hold a few frames runs idle between two Acks. So a few frames may always
 *    wait. How many bytes do follows from the window and from the part of the round trip that is
 *    queue, as in TCP Vegas (Brakmo and Peterson, JSAC 1995).
 * 7. The number of frames is bounded by the configuration only; bytes are what fill queues.
 */
#include "core/proto/internal.h"

#define SAMPLES_MIN    8
#define DECREASE_SHIFT 8 /* factors are in 1/256 */
/* the window is at most halved in one step (Swift: max_mdf = 0.5) */
#define DECREASE_MAX   128
#define FRAMES_MIN     6            /* that may wait on any link */
#define NOISE          UNITS_PER_US /* 1 us: jitter of clocks and cables */

static void
set_window(struct cc *c, uint32_t bytes)
{
	c->window_bytes = bytes < c->min_bytes ? c->min_bytes
		: bytes > c->max_bytes         ? c->max_bytes
					       : bytes;
}

/* Return whether so long a round trip shows no more queue than is accepted: c->target, or
 * FRAMES_MIN frames, which is more on a slow link. */
static inline bool
is_accepted(const struct cc *c, uint32_t rtt)
{
	return rtt < c->base_rtt + c->target ||
		(uint64_t)c->window_bytes * (rtt - c->base_rtt) <
		(uint64_t)FRAMES_MIN * c->step * rtt;
}

static void
delay_on_ack(struct cc *c, uint32_t acked_bytes, uint32_t rtt, uint32_t srtt, uint32_t now)
{
	if (rtt == 0) {
		rtt = srtt; /* the Ack has no echo: use the average */
	} else {
		c->low = c->samples++ == 0 || rtt < c->low ? rtt : c->low;
	}
	if (rtt == 0 || is_accepted(c, rtt)) {
		if (c->window_bytes < c->slow) {
			set_window(c, c->window_bytes + acked_bytes);
			return;
		}
		c->acc += acked_bytes;
		if (c->acc >= c->window_bytes) {
			c->acc = 0;
			set_window(c, c->window_bytes + c->step);
			if (c->target < c->target_max)
				c->target += c->target / 64 + 1;
			c->full += c->full / 64;
		}
		return;
	}
	if (now - c->last_cut < srtt || c->samples < SAMPLES_MIN)
		return;
	uint32_t low = c->low;

	c->samples = 0;
	if (is_accepted(c, low))
		return;
	uint32_t frames = (uint32_t)((uint64_t)FRAMES_MIN * c->step * low / c->window_bytes);
	uint32_t excess = low - c->base_rtt - (frames > c->target ? frames : c->target);
	uint32_t factor = (uint32_t)(((uint64_t)excess << DECREASE_SHIFT) / low);

	if (factor > DECREASE_MAX)
		factor = DECREASE_MAX;
	set_window(c,
		c->window_bytes -
			(uint32_t)(((uint64_t)c->window_bytes * factor) >> DECREASE_SHIFT));
	c->slow = c->window_bytes;
	c->acc = 0;
	c->last_cut = now;
}

static bool
delay_on_nack(struct cc *c, bool many, uint32_t srtt, uint32_t now)
{
	uint32_t excess = c->last_rtt > c->base_rtt ? c->last_rtt - c->base_rtt : 0;
	/* the frames of a window that is sent in one burst wait up to a round trip in the port of
	 * their own host */
	uint32_t least = c->base_rtt + NOISE;

	if (now - c->last_cut < srtt)
		return false;
	if (!many && c->last_rtt && (excess < least || excess < c->full / 4 * 3))
		return false;
	c->full = excess > least ? excess : least;
	if (c->full / 2 < c->target && least < c->target)
		c->target = c->full / 2 > least ? c->full / 2 : least;
	set_window(c, c->window_bytes - c->window_bytes / 4);
	c->slow = c->window_bytes;
	c->acc = 0;
	c->last_cut = now;
	return true;
}

static bool
delay_on_timeout(struct cc *c, uint32_t now)
{
	c->slow = c->window_bytes / 2;
	set_window(c, c->min_bytes);
	c->acc = 0;
	c->last_cut = now;
	return true;
}

const struct cc_ops cc_delay = {
	.name = "delay",
	.on_ack = delay_on_ack,
	.on_nack = delay_on_nack,
	.on_timeout = delay_on_timeout,
	.slow_start = true,
};
