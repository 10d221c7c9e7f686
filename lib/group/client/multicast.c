/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Multicast (RHI-MC; RHiNET, 1999, section 2.8) as one request: by a list (B), which is a push to
 * each member of a set; or by the network (A), whose switches copy frames for all whom they reach,
 * and then pushes of what these lack. An update of a shared region is a multicast to those that
 * share it (region.c). Runs in the context's thread.
 *
 * Design notes
 * 1. The engine sends a few frames of each push in turns, so all receivers get piece by piece, and
 *    the bytes of a piece are still in the cache for the next receiver. They are read in place, or
 *    packed here, as of any push.
 * 2. Multicasts leave half of the context's transfers to others, but each has one under way.
 * 3. A multicast is in use until its last push has ended, even if the group is closed before, since
 *    their status words are in it.
 * 4. The engine sends the frames of a multicast by the network, and tells who lacks which ones. One
 *    at a time is under way in a group. A member that has got none of several frames is not reached
 *    by the network, and is served by the list from then on.
 * 5. Of a multicast in parts the frames are packed here, in a bounce buffer. What a member lacks is
 *    pushed as those runs of the part that these frames had. The buffer is the engine's until it
 *    has answered, even if the group is closed meanwhile: otherwise later bytes would be sent as
 *    runs, which say themselves where they go.
 */
#include <errno.h>
#include <stdlib.h>

#include "group/client/group.h"
#include "group/group.h"
#include "rma/region.h"

#define MULTICASTS_MAX 8           /* under way of a group */
#define LACKS_MAX      (64u << 20) /* bytes of notes on who lacks what; more goes by the list */
/* frames of which none arrived: the network does not reach it */
#define MISSED_MOST    4
/* bytes of a multicast in parts, packed; more goes by the list */
#define PACKED_MAX     (16u << 20)

struct pmx_group_set {
	uint32_t count;
	uint16_t ranks[];
};

/* A push. */
struct push {
	uint32_t receiver; /* index in the multicast's ranks */
	int32_t status;    /* 1: it has not ended */
	uint32_t flags;
	uint64_t at, len; /* these bytes of those that the multicast spans */
};

enum by_network {
	NETWORK_NOT,   /* only pushes, from here on */
	NETWORK_ASKED, /* it is to be decided whether it goes by the network at all */
	NETWORK_WAITS, /* to be given to the engine */
	NETWORK_RUNS,
};

struct multicast {
	bool used;
	uint32_t region;                   /* an update of that one, or NO_REGION */
	uint32_t number;                   /* updates: their order */
	bool held;                         /* an update that is not granted yet */
	bool ordered;                      /* begins when those before it have ended */
	uint64_t age;                      /* their order; not of updates */
	uint32_t request;                  /* or NO_REQUEST */
	uint32_t count;                    /* of the receivers */
	uint32_t push_count, begun, ended; /* of the pushes: all; that were begun; the first of
					    * those has not ended, or all have */
	struct pmx_multicast m;
	uint16_t *ranks;     /* of the receivers */
	struct push *pushes; /* at least one for each of the receivers fits */
	/* by the network */
	uint8_t network; /* enum by_network */
	uint32_t word;   /* of 32 ranks: the next to be given to the engine */
	uint32_t unit;   /* bytes of a frame */
	uint32_t frames;
	uint64_t *ends;  /* in parts: where the last run of each frame ends; NULL: all bytes */
	uint64_t packed; /* in parts: bytes of all frames */
	uint64_t *lacks; /* by receiver, `words` for each: bits of frames; NULL: not used */
	uint32_t words;
	uint32_t *receivers; /* by rank: 1 + index of the receiver whom the network may reach, 0:
			      * none */
};

/* Return whether this is an update of which the engine must hear that it has ended. */
static bool
owes_updated(const struct pmx_group *g, const struct multicast *c)
{
	return c->region != NO_REGION && !c->held && g->state == GROUP_IS_OPEN;
}

/* ------------------------------------------------------------------ sets */

int
pmx_group_set_make(struct pmx_group *g, const uint32_t *ranks, uint32_t count,
	struct pmx_group_set **set)
{
	if (count == 0 || count > g->count || ranks == NULL)
		return -EINVAL;
	struct pmx_group_set *s = malloc(sizeof(*s) + count * sizeof(s->ranks[0]));
	uint8_t *seen = calloc(g->count, 1);
	int result = s == NULL || seen == NULL ? -ENOMEM : 0;

	for (uint32_t i = 0; i < count && result == 0; i++) {
		if (ranks[i] >= g->count || seen[ranks[i]]++)
			result = -EINVAL;
		else
			s->ranks[i] = (uint16_t)ranks[i];
	}
	free(seen);
	if (result != 0) {
		free(s);
		return result;
	}
	s->count = count;
	*set = s;
	return 0;
}

void
pmx_group_set_free(struct pmx_group_set *set)
{
	free(set);
}

/* ------------------------------------------------------------------ by the network */

static void
notes_free(struct multicast *c)
{
	free(c->ends);
	free(c->lacks);
	free(c->receivers);
	c->ends = NULL;
	c->lacks = NULL;
	c->receivers = NULL;
}

static bool
lacks(const struct multicast *c, uint32_t receiver, uint32_t frame)
{
	return c->lacks[receiver * c->words + frame / 64] >> frame % 64 & 1;
}

/* Return how many frames from *from on the receiver lacks one after the other, and move *from to
 * the first of them. */
static uint32_t
next_run(const struct multicast *c, uint32_t receiver, uint32_t *from)
{
	uint32_t n = 0;

	while (*from < c->frames && !lacks(c, receiver, *from))
		++*from;
	while (*from + n < c->frames && lacks(c, receiver, *from + n))
		n++;
	return n;
}

static struct push
whole(const struct multicast *c, uint32_t receiver)
{
	return (struct push){receiver, 1, c->m.flags, 0, c->m.len};
}

/* Return where the bytes of that frame and those behind it begin. */
static uint64_t
frame_at(const struct multicast *c, uint32_t frame)
{
	if (c->ends != NULL)
		return frame > 0 ? c->ends[frame - 1] : 0;
	const uint64_t at = (uint64_t)frame * c->unit;

	return at < c->m.len ? at : c->m.len;
}

static uint32_t
pushes_needed(const struct multicast *c, uint32_t receiver)
{
	uint32_t n = 0, run;

	for (uint32_t at = 0; (run = next_run(c, receiver, &at)) > 0; at += run)
		n++;
	return n;
}

/* Plan the pushes for what one receiver lacks. Whoever is to be told is told by the last one. */
static void
plan_rest(struct multicast *c, uint32_t receiver)
{
	uint32_t run, n = 0;

	for (uint32_t at = 0; (run = next_run(c, receiver, &at)) > 0; at += run) {
		const uint64_t begin = frame_at(c, at);

		c->pushes[c->push_count++] = (struct push){receiver, 1, 0, begin,
			frame_at(c, at + run) - begin};
		n++;
	}
	if (!(c->m.flags & PMX_NOTIFY))
		return;
	if (n == 0)
		c->pushes[c->push_count++] = (struct push){receiver, 1, 0, 0, 0};
	c->pushes[c->push_count - 1].flags = c->m.flags | (n > 1 ? PMX_ORDERED : 0);
}

/* Note what the network did for a member. */
static void
multicast_judge(struct pmx_group *g, const struct multicast *c, uint32_t receiver)
{
	struct member_note *m = &g->members[c->ranks[receiver]];
	uint32_t at = 0;

	if (next_run(c, receiver, &at) < c->frames)
		m->missed = 0;
	else if (m->missed < MISSED_MOST)
		m->missed += c->frames < MISSED_MOST ? (uint8_t)c->frames : MISSED_MOST;
}

/* Make the list of pushes. */
static void
plan(struct pmx_group *g, struct multicast *c)
{
	uint32_t room = c->count;

	c->network = NETWORK_NOT;
	for (uint32_t i = 0; c->lacks != NULL && i < c->count; i++) {
		/* nothing is known of what has arrived at who has gone since */
		if (g->members[c->ranks[i]].gone)
			c->receivers[c->ranks[i]] = 0;
		if (c->receivers[c->ranks[i]] == 0)
			continue;
		multicast_judge(g, c, i);
		room += pushes_needed(c, i);
	}
	struct push *more = room > c->count ? malloc(room * sizeof(*more)) : NULL;

	if (more != NULL) {
		free(c->pushes);
		c->pushes = more;
	}
	for (uint32_t i = 0; i < c->count; i++) {
		const bool reached = c->lacks != NULL && c->receivers[c->ranks[i]] != 0;

		if (reached && (more != NULL || room == c->count))
			plan_rest(c, i);
		else
			c->pushes[c->push_count++] = whole(c, i);
	}
	notes_free(c);
}

/* Return whether the network may reach that member. */
static bool
is_reached(const struct pmx_group *g, const struct member_note *m)
{
	return m->reached && !m->gone && (m->missed < MISSED_MOST || g->network_always);
}

/* Return how many frames the runs of the part take; 0: it does not go by the network. */
static uint32_t
frames_of_part(const struct multicast *c)
{
	uint32_t frames = 0;
	struct runs runs;
	uint64_t at;

	if (c->m.len > UINT32_MAX) /* heads of runs have 32 bits for distances */
		return 0;
	runs_begin(&runs, c->m.part, c->m.local, c->m.len, NULL);
	for (; runs_next(&runs, &at); frames++) {
		uint64_t end = 0;

		if (frames == PACKED_MAX / c->unit)
			return 0;
		runs_pack(&runs, NULL, c->unit, &end);
	}
	return frames;
}

/* Fill the frames of a multicast in parts, and note how far each reaches. false: there is no memory
 * for them now, or they are others than were counted. */
static bool
pack(struct pmx_group *g, struct multicast *c)
{
	struct runs runs;
	uint64_t at;

	if (bounce_get(g->ctx, BOUNCE_TRANSFER, (uint64_t)c->frames * c->unit, BOUNCES_MAX / 2,
		    &g->packed) != 0) {
		g->packed = NULL;
		return false;
	}
	c->packed = 0;
	runs_begin(&runs, c->m.part, c->m.local, c->m.len, NULL);
	uint32_t i = 0;

	for (; i < c->frames && runs_next(&runs, &at); i++) {
		uint8_t *to = (uint8_t *)g->packed + (size_t)i * c->unit;

		c->ends[i] = 0;
		const uint32_t used = runs_pack(&runs, to, c->unit, &c->ends[i]);

		memset(to + used, 0, c->unit - used);
		c->packed = (uint64_t)i * c->unit + used;
	}
	c->frames = i; /* the application may have changed what differs */
	return i != 0 && !runs_next(&runs, &at);
}

void
multicasts_unpack(struct pmx_group *g)
{
	if (g->packed != NULL)
		bounce_put(g->ctx, BOUNCE_TRANSFER, g->packed);
	g->packed = NULL;
}

/* Decide whether the network serves some of the receivers, and prepare the notes. */
static bool
goes_by_network(struct pmx_group *g, struct multicast *c)
{
	const uint32_t least = g->network_always ? 1 : 2;
	const uint32_t head = (uint32_t)WIRE_MULTI_HEAD(g->count);
	uint64_t frames;
	uint32_t n = 0;

	for (uint32_t i = 0; i < c->count; i++)
		n += is_reached(g, &g->members[c->ranks[i]]);
	c->unit = g->ctx->shm->frag_len > head ? (g->ctx->shm->frag_len - head) & ~63u : 0;
	if (n < least || c->m.len == 0 || c->unit == 0)
		return false;
	if (c->m.part != NULL) {
		frames = frames_of_part(c);
		c->ends = calloc(frames, sizeof(*c->ends));
		if (frames == 0 || c->ends == NULL)
			return false;
	} else {
		const int64_t memory = piece_of(g->ctx, c->m.local, c->m.len);

		if (memory < 0 || (memory == MEMORY_COPIED && g->ctx->rma->no_kernel))
			return false;
		frames = (c->m.len - 1) / c->unit + 1;
	}
	if (frames > LACKS_MAX || frames / 8 * c->count > LACKS_MAX)
		return false;
	c->frames = (uint32_t)frames;
	c->words = (c->frames + 63) / 64;
	c->lacks = calloc((size_t)c->count * c->words, sizeof(*c->lacks));
	c->receivers = calloc(g->count, sizeof(*c->receivers));
	if (c->lacks == NULL || c->receivers == NULL) {
		notes_free(c);
		return false;
	}
	for (uint32_t i = 0; i < c->count; i++) {
		if (is_reached(g, &g->members[c->ranks[i]]))
			c->receivers[c->ranks[i]] = i + 1;
	}
	return true;
}

/* Give the multicast to the engine. false: not all of it yet. */
static bool
network_submit(struct pmx_group *g, struct multicast *c)
{
	const void *from = c->ends != NULL ? g->packed : c->m.local;
	const uint64_t len = c->ends != NULL ? c->packed : c->m.len;
	struct submission *s;

	for (; c->word * 32 < g->count; c->word++) {
		uint32_t ranks = 0;

		for (uint32_t r = c->word * 32; r < g->count && r < c->word * 32 + 32; r++)
			ranks |= c->receivers[r] != 0 ? 1u << r % 32 : 0;
		if (ranks == 0)
			continue;
		s = ctx_group_begin(g, GROUP_CAST_TO);
		if (s == NULL)
			return false;
		s->group.number = c->word;
		s->group.value = ranks;
		ctx_group_end(g);
	}
	s = ctx_group_begin(g, GROUP_CAST_BEGIN);
	if (s == NULL)
		return false;
	s->group.cast.area = c->m.area;
	s->group.cast.at = c->m.remote;
	s->group.cast.from = (uintptr_t)from;
	s->group.cast.len = len;
	s->group.cast.unit = c->unit;
	s->group.cast.memory = (uint32_t)piece_of(g->ctx, from, len);
	s->group.cast.runs = c->ends != NULL;
	ctx_group_end(g);
	return true;
}

/* Go on with a multicast by the network. Return true when pushes can begin. */
static bool
network_proceed(struct pmx_group *g, struct multicast *c)
{
	if (c->network == NETWORK_ASKED && !goes_by_network(g, c)) {
		plan(g, c);
		return true;
	}
	if (c->network == NETWORK_ASKED)
		c->network = NETWORK_WAITS;
	if (c->network == NETWORK_WAITS && (g->network == NULL || g->network == c)) {
		if (c->ends != NULL && g->packed == NULL && !pack(g, c)) {
			multicasts_unpack(g);
			notes_free(c);
			plan(g, c);
			return true;
		}
		g->network = c;
		if (network_submit(g, c))
			c->network = NETWORK_RUNS;
	}
	return false;
}

void
multicasts_result(struct pmx_group *g, const struct completion *r)
{
	struct multicast *c = g->network;
	const uint32_t rank = r->item[1], first = r->item[2], bits = r->item[3];

	switch ((uint8_t)r->item[0]) {
	case GROUP_REACHES:
		g->network_always = first == MULTICAST_NETWORK;
		for (uint32_t i = 0; i < 32 && rank * 32 + i < g->count; i++)
			g->members[rank * 32 + i].reached |= bits >> i & 1;
		return;
	case GROUP_LACKS:
		if (c == NULL || c->lacks == NULL || rank >= g->count || c->receivers[rank] == 0)
			return;
		for (uint32_t i = 0; i < 32; i++) {
			const uint32_t frame = first + i, at = c->receivers[rank] - 1;

			if (bits >> i & 1 && frame < c->frames)
				c->lacks[at * c->words + frame / 64] |= 1ull << frame % 64;
		}
		return;
	default: /* it has been sent, and answered for */
		for (uint32_t f = first; c != NULL && c->lacks != NULL && f < c->frames; f++) {
			for (uint32_t i = 0; i < c->count; i++)
				c->lacks[i * c->words + f / 64] |= 1ull << f % 64;
		}
		g->network = NULL;
		multicasts_unpack(g);
		if (c != NULL && c->network == NETWORK_RUNS)
			plan(g, c);
	}
}

/* ------------------------------------------------------------------ under way */

/* Begin push i. false: not now. */
static bool
begin_one(struct pmx_group *g, struct multicast *c, uint32_t i)
{
	struct push *p = &c->pushes[i];
	const struct member_note *member = &g->members[c->ranks[p->receiver]];
	const bool in_parts = c->m.part != NULL && p->len != 0;
	const struct part_run within = {p->at, p->len};
	const struct pmx_transfer t = {
		.peer = member->addr,
		.flags = PMX_AREA | TRANSFER_KEEPS_TWIN | p->flags,
		.key = (uint64_t)g->id << 32 | c->m.area,
		.remote = c->m.remote + (in_parts ? 0 : p->at),
		.local = (uint8_t *)c->m.local + (in_parts ? 0 : p->at),
		.len = in_parts ? c->m.len : p->len,
		.immediate = p->flags & PMX_NOTIFY ? c->m.immediate : 0,
		.status = &p->status,
		.part = in_parts ? c->m.part : NULL,
	};
	int result = member_check(member);

	if (result == 0)
		result = transfers_push(g->ctx, &t, in_parts ? &within : NULL, NULL);

	if (result == -EAGAIN)
		return false;
	if (result != 0)
		p->status = result;
	return true;
}

/* Return how many of the pushes that were begun have not ended. */
static uint32_t
under_way(struct multicast *c)
{
	uint32_t n = 0;

	while (c->ended < c->begun && c->pushes[c->ended].status <= 0)
		c->ended++;
	for (uint32_t i = c->ended; i < c->begun; i++)
		n += c->pushes[i].status > 0;
	return n;
}

static void
put_back(struct pmx_group *g, struct multicast *c)
{
	if (g->network == c)
		g->network = NULL;
	notes_free(c);
	free(c->ranks);
	free(c->pushes);
	*c = (struct multicast){.request = NO_REQUEST};
	g->multicasting--;
	g->ctx->unfinished--;
}

/* Return whether another multicast under way is of what differs from the same twin: the last one
 * that ends makes it equal. */
static bool
has_same_twin(const struct pmx_group *g, const struct multicast *c)
{
	for (unsigned i = 0; i < MULTICASTS_MAX; i++) {
		const struct multicast *other = &g->multicasts[i];

		if (other != c && other->used && other->m.part != NULL &&
			other->m.part->kind == PMX_PART_DIFF &&
			other->m.part->twin == c->m.part->twin)
			return true;
	}
	return false;
}

/* End the multicast, as all pushes have ended. */
static void
multicast_finish(struct pmx_group *g, struct multicast *c)
{
	uint64_t *failed = c->request != NO_REQUEST ? c->m.failed : NULL;
	int error = 0;
	uint16_t because = NOBODY;

	for (uint32_t i = 0; failed != NULL && i < (c->count + 63) / 64; i++)
		failed[i] = 0;
	for (uint32_t i = c->push_count; i-- > 0;) {
		const struct push *p = &c->pushes[i];

		if (p->status == 0)
			continue;
		error = p->status;
		because = c->ranks[p->receiver];
		if (failed != NULL)
			failed[p->receiver / 64] |= 1ull << p->receiver % 64;
	}
	if (c->request != NO_REQUEST && c->m.part != NULL && c->m.part->kind == PMX_PART_DIFF &&
		!has_same_twin(g, c))
		memcpy(c->m.part->twin, c->m.local, c->m.len);
	if (owes_updated(g, c))
		ctx_group_submit(g, GROUP_UPDATED, c->region);
	ctx_group_request_ends(g, &c->request, error, because, 0);
	put_back(g, c);
}

/* Return whether a multicast that was begun before this one is under way. */
static bool
has_earlier(const struct pmx_group *g, const struct multicast *c)
{
	for (unsigned i = 0; i < MULTICASTS_MAX; i++) {
		const struct multicast *other = &g->multicasts[i];

		if (other->used && other->region == NO_REGION && other->age < c->age)
			return true;
	}
	return false;
}

static void
proceed(struct pmx_group *g, struct multicast *c)
{
	if (c->held || (c->ordered && has_earlier(g, c)))
		return;
	c->ordered = false;
	if (c->network != NETWORK_NOT && !network_proceed(g, c))
		return;
	uint32_t out = under_way(c);

	while (c->begun < c->push_count &&
		(out == 0 || g->ctx->rma->places_free > g->ctx->rma->transfer_count / 2) &&
		begin_one(g, c, c->begun)) {
		out += c->pushes[c->begun].status > 0;
		c->begun++;
	}
	if (c->begun == c->push_count && under_way(c) == 0 &&
		(!owes_updated(g, c) || slot_room(&g->ctx->sub, 1)))
		multicast_finish(g, c);
}

void
multicasts_proceed(struct pmx_group *g)
{
	if (g->multicasts == NULL || g->proceeding)
		return; /* beginning a push takes completions, and these come here */
	g->proceeding = true;
	for (uint32_t before = 0; before != g->multicasting;) {
		before = g->multicasting;
		for (unsigned i = 0; i < MULTICASTS_MAX; i++) {
			if (g->multicasts[i].used)
				proceed(g, &g->multicasts[i]);
		} /* one that has ended may have been waited for */
	}
	g->proceeding = false;
}

void
multicasts_over(struct pmx_group *g)
{
	/* one that the engine has not got as a whole it will not answer either */
	if (g->network != NULL && g->network->network == NETWORK_WAITS)
		multicasts_unpack(g);
	g->network = NULL;
	for (unsigned i = 0; g->multicasts != NULL && i < MULTICASTS_MAX; i++) {
		struct multicast *c = &g->multicasts[i];

		if (!c->used || c->held || c->network == NETWORK_NOT)
			continue;
		notes_free(c); /* the pushes say for whom it fails */
		plan(g, c);
	}
}

void
multicasts_abandon(struct pmx_group *g, int error)
{
	for (unsigned i = 0; g->multicasts != NULL && i < MULTICASTS_MAX; i++) {
		struct multicast *c = &g->multicasts[i];

		if (!c->used)
			continue;
		ctx_group_request_ends(g, &c->request, error, g->because, 0);
		/* no more are begun */
		c->push_count = c->begun;
		c->network = NETWORK_NOT;
		c->held = false;
		c->region = NO_REGION;
	}
	multicasts_proceed(g);
}

void
multicasts_free(struct pmx_group *g)
{
	for (unsigned i = 0; g->multicasts != NULL && i < MULTICASTS_MAX; i++) {
		if (g->multicasts[i].used)
			put_back(g, &g->multicasts[i]);
	}
	free(g->multicasts);
	multicasts_unpack(g);
}

/* ------------------------------------------------------------------ the verb */

static struct multicast *
multicast_take(struct pmx_group *g)
{
	for (unsigned i = 0; i < MULTICASTS_MAX; i++) {
		if (!g->multicasts[i].used)
			return &g->multicasts[i];
	}
	return NULL;
}

static int
multicast_check(const struct pmx_multicast *m, uint32_t flags)
{
	const struct pmx_transfer t = {
		.flags = PMX_AREA | m->flags,
		.local = m->local,
		.len = m->len,
		.part = m->part,
	};

	return m->flags & ~flags ? -EINVAL : transfers_push_check(&t);
}

/* Make a multicast with places for so many receivers, but none yet. 0, or an error of the verb. */
static int
multicast_make(struct pmx_group *g, const struct pmx_multicast *m, uint32_t room,
	pmx_request *request, struct multicast **made)
{
	if (g->multicasts == NULL)
		g->multicasts = calloc(MULTICASTS_MAX, sizeof(*g->multicasts));
	if (g->multicasts == NULL)
		return -ENOMEM;
	ctx_completions(g->ctx);
	struct multicast *c = multicast_take(g);

	if (c == NULL)
		return -EAGAIN;
	*c = (struct multicast){
		.region = NO_REGION,
		.request = NO_REQUEST,
		.m = *m,
		.network = NETWORK_ASKED,
		.ranks = malloc(room * sizeof(*c->ranks)),
		.pushes = malloc(room * sizeof(*c->pushes)),
	};
	int result = c->ranks == NULL || c->pushes == NULL
		? -ENOMEM
		: lend_request(g->ctx, &c->request, request);

	if (result != 0) {
		free(c->ranks);
		free(c->pushes);
		*c = (struct multicast){0};
		return result;
	}
	c->used = true;
	g->multicasting++;
	g->ctx->unfinished++;
	*made = c;
	return 0;
}

int
pmx_group_multicast(struct pmx_group *g, const struct pmx_multicast *m, pmx_request *request)
{
	struct multicast *c;
	int result = m->set == NULL || m->area == REGION_NO_AREA
		? -EINVAL
		: multicast_check(m, PMX_NOTIFY | PMX_ORDERED);

	result = result == 0 ? ctx_group_check(g) : result;
	if (result == 0 && request == NULL)
		result = -EINVAL;
	if (result == 0)
		result = multicast_make(g, m, m->set->count, request, &c);
	if (result != 0)
		return result;
	c->count = m->set->count;
	memcpy(c->ranks, m->set->ranks, c->count * sizeof(*c->ranks));
	c->ordered = (m->flags & PMX_ORDERED) != 0;
	c->m.flags &= ~PMX_ORDERED;
	c->age = ++g->multicast_age;
	multicasts_proceed(g);
	return 0;
}

/* ------------------------------------------------------------------ updates */

int
multicast_update(struct pmx_group *g, uint32_t region, const struct pmx_multicast *m,
	pmx_request *request)
{
	struct multicast *c;
	int result = multicast_check(m, PMX_NOTIFY);

	result = result == 0 ? ctx_group_check_ask(g, request) : result;
	if (result == 0)
		result = multicast_make(g, m, g->count, request, &c);
	if (result != 0)
		return result;
	c->region = region;
	c->held = true;
	c->number = g->updates++;
	/* there is room: only this thread submits, and making it submits nothing */
	return ctx_group_submit(g, GROUP_UPDATES, region);
}

void
multicast_granted(struct pmx_group *g, uint32_t region, const uint32_t *sharers, int error,
	uint16_t because)
{
	struct multicast *c = NULL;

	for (unsigned i = 0; g->multicasts != NULL && i < MULTICASTS_MAX; i++) {
		struct multicast *other = &g->multicasts[i];

		if (other->used && other->held && other->region == region &&
			(c == NULL || (int32_t)(other->number - c->number) < 0))
			c = other;
	}
	if (c == NULL)
		return;
	c->held = false;
	if (error != 0) {
		c->region = NO_REGION; /* the engine has not begun it */
		ctx_group_request_ends(g, &c->request, error, because, 0);
		put_back(g, c);
		return;
	}
	for (uint32_t rank = 0; rank < g->count; rank++) {
		if (rank != g->rank && sharers[rank / 32] >> rank % 32 & 1)
			c->ranks[c->count++] = (uint16_t)rank;
	}
}
