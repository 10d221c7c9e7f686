/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Grants: which of several long messages to this node may send much now. The receiver alone knows
 * of them all, so it decides. The message with least left goes first, which makes the mean time of
 * all least, and what waits in the last port does not grow with their number (Homa, SIGCOMM 2018,
 * sections 3.3 and 3.5; how much is granted: SIRD, NSDI 2025, section 4.1). A grant is no frame of
 * its own: it is the window share that an Ack carries anyway. Owner thread only.
 *
 * Design notes
 * 1. What fills the link is its rate (proto_config.port_bps; without it there are no grants) times
 *    the shortest round trip of the sender's path. That is of a short frame. Full ones are stored
 *    and forwarded on the way, and senders ask for Acks after a quarter of a share, for which a few
 *    more are allowed.
 * 2. Messages that do not fill the link, or of which little is missing, are over before a grant
 *    could reach their senders. They are not in the table.
 * 3. All messages in the table may together have a few more in flight than fill the link, so
 *    that it does not run idle if a sender is busy elsewhere. The one with least left may fill the
 *    link, as far as it has frames left; the next has the rest. All others have one frame, so that
 *    they go on slowly, and no grant that is lost can stop them.
 * 4. None gets more than any other sender that the receiver hears now (window_share.c): else short
 *    messages would pay for the long ones.
 * 5. Whoever hears from its receiver once a round trip only would learn too late that the message
 *    before it ends. So it is told when it may send much more than it knows.
 * 6. What a sender may have in flight is of its message: for the next one in the same flow it is
 *    NEXT_FRAMES, or an equal part, as long as that one is not here. So a message that has ended is
 *    remembered for a while.
 * 7. If one node alone sends, it decides itself which of its messages goes first: send.c, note 1.
 * 8. A host that stands still keeps a grant from nobody: a message counts as long as an Ack was
 *    written for it within the last millisecond. A message that finds the table full comes after
 *    those in it.
 * 9. Frames that are lost show that the port's buffer is shallow, or that senders are many:
 *    window_share.c aims at a shorter queue then, and what is not needed to fill the link is not
 *    granted.
 * 10. If all nodes send to all, a node that several others prefer can serve each with a part of its
 *    link only. So among messages of which nearly as much is missing each node prefers another
 *    one's, the next by number.
 */
#include "core/proto/internal.h"

#define HOP_FRAMES  2                    /* note 1 */
#define SPARE_MAX   16                   /* frames: note 3 */
#define NEXT_FRAMES 10                   /* notes 5, 6 */
#define NEXT_TIGHT  4                    /* note 9 */
#define MEMORY      (50 * UNITS_PER_US)  /* note 6 */
#define ALIKE       32                   /* frames: note 10 */
#define LONGEST     (100 * UNITS_PER_US) /* a host that was away may have measured more */
#define SILENCE     (1000 * UNITS_PER_US)

static inline uint32_t
least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

uint32_t
grant_link_frames(const struct proto *p, const struct path *t)
{
	const uint32_t rtt = least(t->cc.base_rtt ? t->cc.base_rtt : t->hello_rtt, LONGEST);
	const uint32_t link = (uint32_t)((uint64_t)rtt * p->grants.frames_per_unit >> 16);

	return link + HOP_FRAMES + least(link / 4, ASK_SHARE_MAX);
}

/* Return the place of the flow's message in the table; `count` if it has none. */
static uint32_t
place_of(const struct proto_grants *g, uint32_t flow)
{
	uint32_t i = 0;

	while (i < g->count && g->of[i].flow != flow)
		i++;
	return i;
}

void
grant_begin(struct proto *p, const struct flow *f)
{
	struct proto_grants *g = &p->grants;
	const uint32_t flow = flow_index(p, f), i = place_of(g, flow);

	if (g->frames_per_unit == 0 || p->ctxs[f->ctx].permits || i == GRANTS_MAX ||
		f->frags_left <= grant_link_frames(p, &p->paths[f->path]))
		return;
	g->of[i] = (struct grant){
		.flow = flow,
		.path = f->path,
		.left = f->frags_left,
		.at = p->stamp,
		.turn = (uint16_t)(f->node - p->cfg.node),
	};
	g->count += i == g->count;
}

void
grant_end(struct proto *p, const struct flow *f)
{
	struct proto_grants *g = &p->grants;
	const uint32_t i = place_of(g, flow_index(p, f));

	if (i < g->count) {
		g->of[i].left = 0;
		g->of[i].at = p->stamp;
	}
}

static void
forget_ended(struct proto_grants *g, uint32_t now)
{
	for (uint32_t i = g->count; i-- > 0;) {
		if (g->of[i].left == 0 && now - g->of[i].at > MEMORY)
			g->of[i] = g->of[--g->count];
	}
}

static inline bool
is_silent(const struct grant *m, uint32_t now)
{
	return now - m->at > SILENCE;
}

/* Return whether one message goes before the other: note 10. */
static inline bool
is_before(const struct proto_grants *g, uint32_t one, uint32_t other)
{
	const struct grant *a = &g->of[one], *b = &g->of[other];

	if (a->left / ALIKE != b->left / ALIKE)
		return a->left < b->left;
	return a->turn != b->turn ? a->turn < b->turn : one < other;
}

/* Return how many frames the message at place `own` may have in flight: notes 3, 4 and 6. 0: no
 * other node sends anything. */
static uint32_t
allowed(struct proto *p, uint32_t own, uint32_t now)
{
	const struct proto_grants *g = &p->grants;
	const struct grant *mine = &g->of[own];
	const bool is_tight = p->share.aim < p->share.target;
	const uint32_t most = grant_link_frames(p, &p->paths[mine->path]);
	const uint32_t all = most + (is_tight ? 0 : least(most / 16 + 3, SPARE_MAX));
	uint32_t used = 0, next = is_tight ? NEXT_TIGHT : NEXT_FRAMES;
	const uint16_t each = share_each(p, now);
	bool others_send = each != 0;

	for (uint32_t i = 0; i < g->count; i++) {
		if (is_silent(&g->of[i], now))
			continue;
		others_send |= g->of[i].path != mine->path;
		if (is_before(g, i, own))
			used += least(g->of[i].left, most);
	}
	if (!others_send)
		return 0;
	if (!is_tight && all > next * g->count)
		next = all / g->count;
	const uint32_t share = least(used >= all ? 1 : least(all - used, most), mine->left + next);

	return each != 0 ? least(share, each) : share;
}

/* Note 5: consider the message that comes right after the one at place `own`. */
static void
tell_next(struct proto *p, uint32_t own, uint32_t now)
{
	struct proto_grants *g = &p->grants;
	uint32_t next = g->count;

	for (uint32_t i = 0; i < g->count; i++) {
		if (g->of[i].left != 0 && !is_silent(&g->of[i], now) && is_before(g, own, i) &&
			(next == g->count || is_before(g, i, next)))
			next = i;
	}
	if (next < g->count && allowed(p, next, now) >= g->of[next].told + NEXT_FRAMES)
		ack_urgent(p, &p->flows[g->of[next].flow], FLOW_UPDATE);
}

uint16_t
grant_share(struct proto *p, const struct flow *f, uint32_t now)
{
	struct proto_grants *g = &p->grants;

	forget_ended(g, now);
	const uint32_t own = place_of(g, flow_index(p, f));

	if (own == g->count)
		return f->frags_left > SHORT_FRAMES && g->count == GRANTS_MAX ? 1
									      : share_each(p, now);
	if (g->of[own].left != 0) {
		g->of[own].left = f->frags_left;
		g->of[own].at = now;
	}
	g->of[own].told = allowed(p, own, now);
	if (g->count > 1)
		tell_next(p, own, now);
	return (uint16_t)g->of[own].told;
}
