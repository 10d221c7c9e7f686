/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The window share: how many frames each of a node's senders may have in flight, told to them in
 * every Ack. A sender cannot know how many others send to its receiver (PM/UDP, IPSJ 1999, section
 * 3), and a switch drops what they send in excess together (SWoPP 2008, "gather"). So the receiver
 * counts its senders, estimates how long frames waited on the way, and divides a window among them
 * (ours; the control law is that of FAST TCP, Wei et al., ToN 2006, applied at the receiver instead
 * of the senders). Owner thread only.
 *
 * Design notes
 * 1. All senders together get a window such that frames wait for the last link for share_target_us
 *    plus the time of three frames, so that the link never runs idle. After each round, in which a
 *    window of frames arrived, it is corrected by half the error: (wanted wait - wait) x frames per
 *    second. The wait is the mean of the round's average and its smallest, because frames that
 *    arrive in bursts wait even if the link is idle between the bursts. Losses lower the wanted
 *    wait, because a shallow buffer cannot hold so many frames.
 * 2. A frame's wait is its one-way delay minus the path's smallest one. The delays are differences
 *    of two clocks, whose offset cancels out. Clocks drift (100 ppm are 1 us in 10 ms), so the
 *    smallest delay is that of the last 10 to 20 ms, and after each 10 ms (a "life" below) the
 *    window is halved, so that the queue empties and the smallest delay can be seen.
 * 3. A descheduled host delays only its own frames; a queue delays those of all nodes. So a wait
 *    counts only as far as the last frame of another node had it too. A path's first frame is taken
 *    to have waited as long as the frame before it. The time that frames may have waited for our
 *    own poll is subtracted from the wait, not from the delay; otherwise the smallest delay would
 *    be too small until the end of the period.
 * 4. A share is a whole number: each Ack carries one of the two nearest the true value, chosen at
 *    random. Nobody gets less than one frame. Nobody gets more than twice its last share, because
 *    what a leaving sender frees would otherwise be sent by all the others in one burst.
 * 5. If for a millisecond no frame follows one of another flow, there is at most one sender, and no
 *    share is told.
 * 6. Flows of one node share the window of its path, which that node's congestion control sets, so
 *    there are shares only if two or more nodes send. Only a frame of another flow than the frame
 *    before it is looked at. Divisions are done once a round, never per frame.
 */
#include "core/proto/internal.h"

#define ROUND_MIN (10 * UNITS_PER_US)
/* a round ends after this time even if nobody uses its share up */
#define ROUND_MAX (4000 * UNITS_PER_US)
#define SILENCE   (1000 * UNITS_PER_US)  /* no queue lasts longer: note 5 */
#define LIFE      (10000 * UNITS_PER_US) /* period of smallest delays ... */
#define LIFE_MIN  64                     /* ... and its fewest rounds */
#define ONE       16                     /* a frame, in the unit of share.window */

/* Return how long this frame seems to have waited in queues. */
static uint32_t
wait_of(struct proto *p, struct path *t, const struct wire_hdr *h)
{
	struct proto_share *s = &p->share;
	uint32_t owd = p->stamp - wire_be32(h->tstamp);

	if (unlikely(p->arrivals != NULL && !order_is_first(p, t->node)))
		return s->last;
	if (unlikely(t->owd_life != s->life)) {
		bool fresh = t->owd_life != 0 && (uint16_t)(t->owd_life + 1) == s->life;

		t->owd_base = fresh ? t->owd_next : owd - s->wait;
		t->owd_next = owd;
		t->owd_life = s->life;
	}
	if ((int32_t)(owd - t->owd_next) < 0)
		t->owd_next = owd;
	if ((int32_t)(owd - t->owd_base) < 0)
		t->owd_base = owd;
	uint32_t waited = owd - t->owd_base, gap = gap_of(p);

	return waited > gap ? waited - gap : 0;
}

/* Note 1: correct the window of all senders, after a round of `time` in which `frames` arrived. */
static void
correct(struct proto_share *s, uint32_t least, uint32_t frames, uint32_t time)
{
	if (s->holes)
		s->aim -= s->aim > 2 * UNITS_PER_US ? s->aim / 4 : 0;
	else if (s->aim < s->target && s->rounds % 8 == 0)
		s->aim++;
	int64_t wanted = s->aim + 3 * time / frames, wait = (s->waits / s->samples + s->least) / 2;
	int64_t change = (wanted - wait) * frames * (ONE / 2) / time, most = s->window / 2;

	if (wait < wanted / 4)
		change *= 2; /* the link is about to run idle */
	if (change > 0 && s->asks == 0)
		change = 0; /* nobody would use a larger window */
	s->window += (uint32_t)(change > most ? most : change < -most ? -most : change);
	if (s->window < least)
		s->window = least;
	if (s->window > least * WIRE_WINDOW_MAX)
		s->window = least * WIRE_WINDOW_MAX;
}

/* Note 4 */
static void
divide(struct proto_share *s, uint32_t least)
{
	uint32_t each = s->window / least;

	if (s->each && each >= 2u * s->each) {
		s->each *= 2;
		s->chance = 0;
		return;
	}
	s->each = (uint16_t)each;
	s->chance = (uint16_t)((uint64_t)(s->window % least) * UINT16_MAX / least);
}

/* Tell no share, because at most one node sends. */
static void
share_nothing(struct proto_share *s)
{
	s->each = s->chance = 0;
}

/* Begin a new period, in which the smallest delays are determined anew. */
static void
begin_life(struct proto_share *s, uint32_t now)
{
	s->life_ts = now;
	s->rounds = 0;
	s->life += s->life == UINT16_MAX ? 2 : 1; /* 0 means none */
}

static void
begin_round(struct proto_share *s, uint32_t now, uint32_t frames)
{
	s->senders_before = s->senders;
	s->nodes_before = s->nodes;
	s->nodes = s->senders = s->samples = s->asks = s->holes = 0;
	s->waits = 0;
	s->round_ts = now;
	s->round_frames = frames;
}

static void
end_round(struct proto_share *s, uint32_t now, uint32_t frames, uint32_t time)
{
	uint32_t senders = s->senders > s->senders_before ? s->senders : s->senders_before;

	if (senders < 2)
		senders = 2; /* the first frame of a flow may not have been counted */
	if (s->nodes < 2 && s->nodes_before < 2) {
		share_nothing(s);
	} else if (s->samples && frames) {
		correct(s, senders * ONE, frames, time);
		divide(s, senders * ONE);
	}
	if (++s->rounds >= LIFE_MIN && now - s->life_ts > LIFE) {
		begin_life(s, now);
		if (s->each)
			s->window /= 2;
	}
}

/* Look at a data frame of another flow than the frame before it. p->stamp is the time; f->heard_ts
 * is still that of the flow's previous frame. */
void
share_look(struct proto *p, struct flow *f, const struct wire_hdr *h)
{
	struct proto_share *s = &p->share;
	uint32_t now = p->stamp, time = now - s->round_ts;

	if (now != s->look_ts && time >= ROUND_MIN) {
		uint32_t frames = (uint32_t)(p->counters[PROTO_rx_accepted] -
			p->counters[PROTO_rx_acks] - p->counters[PROTO_rx_nacks]);

		if (now - s->look_ts > SILENCE) {
			s->last = s->before = s->wait = 0;
			share_nothing(s);
			if (now - s->life_ts > LIFE / 2)
				begin_life(s, now);
			begin_round(s, now, frames);
		} else if ((frames - s->round_frames >= s->window / ONE && s->samples >= 2) ||
			time > ROUND_MAX) {
			end_round(s, now, frames - s->round_frames, time);
			begin_round(s, now, frames);
		}
	}
	struct path *t = &p->paths[f->path];
	uint32_t wait = wait_of(p, t, h);

	if (f->path != s->last_path) {
		s->before = s->last;
		s->last_path = f->path;
	}
	s->wait = wait < s->before ? wait : s->before;
	s->last = wait;
	s->look_ts = now;
	s->waits += s->wait;
	if (s->samples == 0 || s->wait < s->least)
		s->least = s->wait;
	s->samples++;
	s->senders += (int32_t)(f->heard_ts - s->round_ts) < 0;
	s->nodes += (int32_t)(t->look_ts - s->round_ts) < 0;
	t->look_ts = now;
}

/* Return the share that the next Ack carries: frames in flight, 0 = no bound. */
uint16_t
share_each(struct proto *p, uint32_t now)
{
	struct proto_share *s = &p->share;

	if (now - s->look_ts > SILENCE) {
		share_nothing(s);
		return 0;
	}
	s->random = s->random * 1664525 + 1013904223;
	return s->each + (s->random >> 16 < s->chance);
}
