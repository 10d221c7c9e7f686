/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Multicast by the network (RHI-MC, multicast A; RHiNET, 1999, section 2.8): frames of no flow,
 * which switches copy to all receivers.
 *
 * Design notes
 * 1. MULTI frames promise nothing. Reliability is in the flows: the last frame of each chunk makes
 *    its receivers answer with the bits of the frames that they lack; who is silent is asked by a
 *    message. What lacks is the sender's client's business, which pushes it to that member alone.
 * 2. The answer of a receiver ends the chunk for it: frames that come later are dropped, so none
 *    overwrites what was written since. Numbers of chunks tell the old ones.
 * 3. Frames may be late in two ways: behind the last one of their chunk, so a receiver waits for a
 *    moment before it says that some lack; and on another way than ROUND, which the sender says
 *    only to who has been silent for longer than that.
 * 4. The window, in frames, grows by what arrived at all, and is halved when somebody lost a good
 *    part of a chunk: that is congestion. Single frames that are lost are not: among many receivers
 *    there is always one that lost something. Who got nothing of it is not reached by this way at
 *    all; if nobody did, the rest is not sent.
 */
#include "group/internal.h"

#define WINDOW_LEAST 16
#define WINDOW_FIRST 32
#define LOSS_PART    8 /* more than one of so many frames */
#define WINDOW_MOST  (WIRE_CHUNKS_OPEN * WIRE_CHUNK_MAX)

void
casts_init(struct groups *g)
{
	g->free_marks = 0;
	for (uint16_t i = 0; i < MARKS; i++)
		g->marks[i].next = i + 1 < MARKS ? (uint16_t)(i + 1) : NO_MARK;
}

/* ------------------------------------------------------------------ sending */

static inline struct group_chunk *
chunk_of(struct membership *m, uint32_t number)
{
	return &m->cast.chunks[number % WIRE_CHUNKS_OPEN];
}

int
group_cast_to(struct groups *g, uint16_t ctx, uint32_t place, uint32_t word, uint32_t ranks)
{
	struct membership *m = group_at(g, ctx, place);

	if (m == NULL || m->cast.runs || word >= m->words)
		return -EINVAL;
	const uint32_t members = m->count - word * 32u; /* from that word's first on */

	if (members < 32 && ranks >> members != 0)
		return -EINVAL;
	m->cast.set[word / 2] |= (uint64_t)ranks << word % 2 * 32;
	return 0;
}

uint32_t
group_cast_head(struct groups *g, uint16_t ctx, uint32_t place)
{
	const struct membership *m = group_at(g, ctx, place);

	return m != NULL ? (uint32_t)WIRE_MULTI_HEAD(m->count) : 0;
}

static void
tell_over(struct groups *g, struct membership *m)
{
	m->cast.runs = false;
	memset(m->cast.set, 0, BITS_WORDS(m->count) * sizeof(uint64_t));
	set_remove(&g->casting, place_of(g, m));
	m->tells |= TELLS_CAST;
	tell(g, m);
}

int
group_cast(struct groups *g, uint16_t ctx, uint32_t place, const struct group_cast *c)
{
	struct membership *m = group_at(g, ctx, place);

	if (m == NULL || c->len == 0 || c->unit == 0 || (c->len - 1) / c->unit >= UINT32_MAX)
		return -EINVAL;
	if (m->cast.runs || m->tells & TELLS_CAST)
		return -EBUSY;
	m->cast.runs = true;
	m->cast.lost = false;
	m->cast.p = *c;
	m->cast.frames = (uint32_t)((c->len - 1) / c->unit) + 1;
	m->cast.next = 0;
	if (m->cast.window == 0)
		m->cast.window = WINDOW_FIRST;
	if (m->state == MEMBERSHIP_OPEN) {
		set_add(&g->casting, place_of(g, m));
	} else { /* the group has ended, which the caller does not know yet: nothing is sent */
		cast_group_ended(g, m);
	}
	return 0;
}

/* Return whether nothing of the multicast is under way, and nothing is left to be sent or told. */
static bool
is_done(const struct cast *c)
{
	for (unsigned i = 0; i < WIRE_CHUNKS_OPEN; i++) {
		if (c->chunks[i].frames != 0)
			return false;
	}
	return c->next == c->frames;
}

static void
cast_settle(struct groups *g, struct membership *m)
{
	if (m->cast.runs && is_done(&m->cast))
		tell_over(g, m);
}

/* Begin the next chunk. false: not now. */
static bool
begin_chunk(struct groups *g, struct membership *m)
{
	struct cast *c = &m->cast;
	struct group_chunk *k = chunk_of(m, c->number + 1);
	const uint32_t left = c->frames - c->next, half = c->window / 2;
	const uint32_t words = BITS_WORDS(m->count);
	uint32_t n = half < WIRE_CHUNK_MAX ? half : WIRE_CHUNK_MAX;

	n = left < n ? left : n;
	if (n == 0 || k->frames != 0 || (c->out != 0 && c->out + n > c->window))
		return false;
	*k = (struct group_chunk){
		.frames = (uint8_t)n,
		.number = ++c->number,
		.first = c->next,
		.round_at = UINT64_MAX,
		.waits = k->waits,
		.tells = k->tells,
		.lacks = k->lacks,
	};
	c->next += n;
	for (uint32_t w = 0; w < words; w++) {
		k->waits[w] = c->set[w];
		k->tells[w] = 0;
	}
	bit_clear(k->waits, m->rank);
	for (uint32_t r = bit_next(k->waits, words, 0); r < m->count;
		r = bit_next(k->waits, words, r + 1)) {
		if (m->members[r].gone)
			bit_clear(k->waits, r);
		else
			k->awaited++;
	}
	if (k->awaited == 0) { /* nobody is left, or there never was anybody */
		k->frames = 0;
		c->next = c->frames;
		cast_settle(g, m);
		return false;
	}
	c->out += n;
	return true;
}

/* Return the chunk whose frames are being sent, or NULL. */
static struct group_chunk *
unsent(struct membership *m)
{
	struct group_chunk *k = chunk_of(m, m->cast.number);

	return k->frames != 0 && k->sent < k->frames ? k : NULL;
}

static void
write_head(const struct membership *m, const struct group_chunk *k, struct group_cast_frame *f,
	uint64_t at)
{
	const uint32_t words = BITS_WORDS(m->count);
	struct wire_multi h = {
		.group = wire_be32(m->id),
		.number = wire_be32(k->number),
		.rank = wire_be16(m->rank),
		.frame = k->sent,
		.last = (uint8_t)(k->frames - 1),
		.area = wire_be32(m->cast.p.area),
		.words = wire_be16((uint16_t)words),
		.flags = wire_be16(m->cast.p.runs ? WIRE_MULTI_RUNS : 0),
		.at = wire_be64(at),
	};

	memcpy(f->head, &h, sizeof(h));
	for (uint32_t w = 0; w < words; w++) {
		const uint64_t ranks = wire_be64(m->cast.set[w]);

		memcpy(f->head + sizeof(h) + w * sizeof(ranks), &ranks, sizeof(ranks));
	}
	h.tag = wire_be32(wire_multi_tag(m->key, f->head, (uint16_t)words));
	memcpy(f->head, &h, sizeof(h));
	f->head_len = (uint32_t)WIRE_MULTI_HEAD(m->count);
}

bool
groups_cast_tx(struct groups *g, struct group_cast_frame *out, uint64_t now)
{
	for (unsigned turn = 0; turn < 2; turn++) {
		uint32_t i = set_next(&g->casting, turn == 0 ? g->cast_cursor : 0);

		for (; i != UINT32_MAX; i = set_next(&g->casting, i + 1)) {
			struct membership *m = &g->memberships[i];
			const struct group_cast *p = &m->cast.p;

			if (unsent(m) == NULL && !begin_chunk(g, m))
				continue;
			struct group_chunk *k = unsent(m);
			const uint64_t offset = (uint64_t)(k->first + k->sent) * p->unit;
			const uint64_t left = p->len - offset;

			out->ctx = m->ctx;
			out->id = m->id;
			out->memory = p->memory;
			out->links = p->links;
			out->from = p->from + offset;
			out->len = left < p->unit ? (uint32_t)left : p->unit;
			write_head(m, k, out, p->runs ? p->at : p->at + offset);
			if (++k->sent == k->frames) {
				k->round_at = now + g->cfg.round_ticks;
				g->cast_cursor = i + 1 < g->cfg.groups_max ? i + 1 : 0;
			} else {
				g->cast_cursor = i;
			}
			return true;
		}
	}
	return false;
}

/* End a chunk for which all have answered, or are gone, and set the window by what was lost. */
static void
chunk_ends(struct groups *g, struct membership *m, struct group_chunk *k)
{
	struct cast *c = &m->cast;

	c->out -= k->frames;
	k->sent = k->frames;
	if (!k->reached) /* as little will get through of the rest */
		c->frames = c->next;
	if (k->lacked)
		c->window = c->window / 2 > WINDOW_LEAST ? c->window / 2 : WINDOW_LEAST;
	else
		c->window = c->window + k->frames < WINDOW_MOST ? c->window + k->frames
								: WINDOW_MOST;
	if (bit_next(k->tells, BITS_WORDS(m->count), 0) == UINT32_MAX) {
		k->frames = 0;
		cast_settle(g, m);
	} else {
		tell(g, m);
	}
}

static void
has_answered(struct groups *g, struct membership *m, struct group_chunk *k, uint16_t rank,
	uint64_t lacks)
{
	const uint64_t all = chunk_bits(k->frames);

	bit_clear(k->waits, rank);
	lacks &= all;
	if (lacks != 0) {
		k->lacks[rank] = lacks;
		bit_set(k->tells, rank);
		k->lacked |= lacks != all &&
			(unsigned)__builtin_popcountll(lacks) > k->frames / LOSS_PART;
	}
	k->reached |= lacks != all;
	if (--k->awaited == 0)
		chunk_ends(g, m, k);
}

static inline bool
awaits(const struct group_chunk *k, uint16_t rank)
{
	return k->frames != 0 && k->awaited != 0 && k->waits[rank / 64] >> rank % 64 & 1;
}

const struct group_chunk *
cast_awaits(const struct membership *m, uint16_t rank)
{
	const struct group_chunk *oldest = NULL;

	for (unsigned i = 0; i < WIRE_CHUNKS_OPEN; i++) {
		const struct group_chunk *k = &m->cast.chunks[i];

		if (awaits(k, rank) && k->sent == k->frames &&
			(oldest == NULL || (int32_t)(k->number - oldest->number) < 0))
			oldest = k;
	}
	return oldest;
}

bool
cast_result(struct groups *g, struct membership *m, struct group_result *out)
{
	for (unsigned i = 0; i < WIRE_CHUNKS_OPEN; i++) {
		struct group_chunk *k = &m->cast.chunks[i];

		if (k->frames == 0 || k->awaited != 0)
			continue;
		const uint32_t words = BITS_WORDS(m->count), r = bit_next(k->tells, words, 0);
		const uint32_t low = (uint32_t)k->lacks[r];

		*out = (struct group_result){
			.kind = GROUP_LACKS,
			.place = out->place,
			.user = out->user,
			.rank = (uint16_t)r,
			.number = low != 0 ? k->first : k->first + 32,
			.bits = low != 0 ? low : (uint32_t)(k->lacks[r] >> 32),
		};
		k->lacks[r] = low != 0 ? k->lacks[r] >> 32 << 32 : 0;
		if (k->lacks[r] == 0)
			bit_clear(k->tells, r);
		if (bit_next(k->tells, words, 0) == UINT32_MAX) {
			k->frames = 0;
			cast_settle(g, m);
		}
		return true;
	}
	if (!(m->tells & TELLS_CAST))
		return false;
	m->tells &= (uint8_t)~TELLS_CAST;
	out->kind = GROUP_CAST;
	out->number = m->cast.lost ? 0 : m->cast.frames;
	out->error = m->cast.lost ? ECONNRESET : 0;
	return true;
}

/* ------------------------------------------------------------------ receiving */

static void
mark_free(struct groups *g, struct membership *m, uint16_t i)
{
	struct mark *k = &g->marks[i];
	uint16_t *link = &m->members[k->rank].marks;

	while (*link != i)
		link = &g->marks[*link].next;
	*link = k->next;
	if (k->asked && k->owes == 0)
		g->asked_marks--;
	k->frames = 0;
	k->owes = 0;
	bit_clear(m->marks_owing, i);
	k->next = g->free_marks;
	g->free_marks = i;
}

static void
marks_free(struct groups *g, struct membership *m, uint16_t rank)
{
	while (m->members[rank].marks != NO_MARK)
		mark_free(g, m, m->members[rank].marks);
}

/* Return whether the chunk of that number is known to be answered for. */
static bool
has_got(const struct member *who, uint32_t number)
{
	const uint32_t behind = who->top - number;

	return behind < 8 && who->answered >> behind & 1;
}

/* Return whether the chunk is answered for, or too old. Note that there is one with that number. */
static bool
is_answered(struct groups *g, struct membership *m, uint16_t rank, uint32_t number)
{
	struct member *who = &m->members[rank];
	const int32_t ahead = (int32_t)(number - who->top);

	if (ahead <= -WIRE_CHUNKS_OPEN)
		return true;
	if (ahead <= 0)
		return has_got(who, number);
	who->top = number;
	who->answered = ahead < 8 ? (uint8_t)(who->answered << ahead) : 0;
	/* those that cannot be under way any more, by a sender that keeps to the rules */
	for (uint16_t i = who->marks, next; i != NO_MARK; i = next) {
		next = g->marks[i].next;
		if ((int32_t)(number - g->marks[i].number) >= WIRE_CHUNKS_OPEN)
			mark_free(g, m, i);
	}
	return false;
}

/* Return the mark of a chunk that is not answered for, and make it if there is none; NO_MARK: there
 * is no room, or it had another number of frames before. */
static uint16_t
mark_of(struct groups *g, struct membership *m, uint16_t rank, uint32_t number, uint8_t frames)
{
	struct member *who = &m->members[rank];
	uint16_t i = who->marks;

	while (i != NO_MARK && g->marks[i].number != number)
		i = g->marks[i].next;
	if (i != NO_MARK)
		return g->marks[i].frames == frames ? i : NO_MARK;
	i = g->free_marks;
	if (i == NO_MARK)
		return NO_MARK;
	g->free_marks = g->marks[i].next;
	g->marks[i] = (struct mark){
		.frames = frames,
		.membership = (uint16_t)place_of(g, m),
		.rank = rank,
		.next = who->marks,
		.number = number,
	};
	who->marks = i;
	return i;
}

static void
cast_answer(struct groups *g, struct mark *k)
{
	struct membership *m = &g->memberships[k->membership];

	if (k->owes != 0)
		return;
	if (k->asked)
		g->asked_marks--;
	k->owes = OWES_GOT;
	owe_by(g, m, BY_MARK, m->marks_owing, (uint32_t)(k - g->marks));
}

/* Note that the sender wants an answer: at once if all is here, otherwise at that time; 0: now. */
static void
cast_ask(struct groups *g, struct mark *k, uint64_t at)
{
	if (!k->asked && k->owes == 0) {
		k->asked = true;
		k->answer_at = at;
		g->asked_marks++;
	} else if (at < k->answer_at) {
		k->answer_at = at;
	}
	if (k->got == chunk_bits(k->frames) || at == 0)
		cast_answer(g, k);
}

void
cast_answered(struct groups *g, struct membership *m, uint16_t mark)
{
	struct mark *k = &g->marks[mark];
	struct member *who = &m->members[k->rank];
	const uint32_t behind = who->top - k->number;

	if (behind < 8)
		who->answered |= (uint8_t)(1u << behind);
	mark_free(g, m, mark);
}

/* Return whether the frame is for that rank, too. */
static bool
is_for(const void *payload, uint32_t words, uint16_t rank)
{
	uint64_t ranks;

	if (rank / 64u >= words)
		return false;
	memcpy(&ranks, (const uint8_t *)payload + sizeof(struct wire_multi) + rank / 64 * 8, 8);
	return wire_be64(ranks) >> rank % 64 & 1;
}

/* Take a frame of a chunk for one membership. Return true if its bytes are wanted: *out says
 * where. */
static bool
hears(struct groups *g, struct membership *m, struct group_addr from, const void *payload,
	struct group_cast_place *out, uint64_t now)
{
	struct wire_multi head;
	const struct wire_multi *h = memcpy(&head, payload, sizeof(head));
	const uint16_t rank = wire_be16(h->rank);
	const uint32_t number = wire_be32(h->number);

	if (m->id != wire_be32(h->group) || m->state != MEMBERSHIP_OPEN || rank == m->rank)
		return false;
	if (!is_of(m, rank, from) || m->members[rank].gone ||
		wire_be32(h->tag) != wire_multi_tag(m->key, payload, wire_be16(h->words))) {
		count(g, GROUP_REFUSED);
		return false;
	}
	if (!is_for(payload, wire_be16(h->words), m->rank) || is_answered(g, m, rank, number))
		return false;
	const uint16_t i = mark_of(g, m, rank, number, (uint8_t)(h->last + 1));

	if (i == NO_MARK)
		return false;
	struct mark *k = &g->marks[i];

	if (h->frame == h->last)
		cast_ask(g, k, now + g->cfg.wait_ticks);
	if (k->got >> h->frame & 1)
		return false;
	*out = (struct group_cast_place){
		.ctx = m->ctx,
		.mark = i,
		.frame = h->frame,
		.runs = wire_be16(h->flags) & WIRE_MULTI_RUNS,
		.id = m->id,
		.area = wire_be32(h->area),
		.at = wire_be64(h->at),
		.head_len = (uint32_t)(sizeof(*h) + wire_be16(h->words) * sizeof(uint64_t)),
	};
	return true;
}

bool
groups_cast_heard(struct groups *g, uint32_t *at, struct group_addr from, const void *payload,
	uint32_t len, struct group_cast_place *out, uint64_t now)
{
	const uint32_t words = BITS_WORDS(g->cfg.groups_max);

	if (g->used == 0)
		return false;
	if (wire_multi_check(payload, len) != WIRE_OK) {
		count(g, GROUP_BAD_MESSAGES);
		return false;
	}
	while ((*at = bit_next(g->taken, words, *at)) != UINT32_MAX) {
		if (hears(g, &g->memberships[(*at)++], from, payload, out, now))
			return true;
	}
	return false;
}

void
group_cast_placed(struct groups *g, const struct group_cast_place *p)
{
	struct mark *k = &g->marks[p->mark];

	k->got |= 1ull << p->frame;
	if (k->asked && k->got == chunk_bits(k->frames))
		cast_answer(g, k);
}

/* ------------------------------------------------------------------ messages, time, ends */

void
cast_message(struct groups *g, struct membership *m, uint16_t from, const struct wire_group *h)
{
	const uint32_t number = wire_be32(h->number), frames = wire_be32(h->b);
	struct group_chunk *k = chunk_of(m, number);

	if (h->op == WIRE_G_GOT && from != m->rank && k->number == number && awaits(k, from)) {
		has_answered(g, m, k, from, wire_group_wide(h));
	} else if (h->op == WIRE_G_ROUND && from != m->rank && frames >= 1 &&
		frames <= WIRE_CHUNK_MAX && number != 0) {
		/* of one that is too old nothing is kept: all of it lacks */
		if (m->state != MEMBERSHIP_OPEN ||
			(is_answered(g, m, from, number) && has_got(&m->members[from], number)))
			return;
		const uint16_t i = mark_of(g, m, from, number, (uint8_t)frames);

		if (i != NO_MARK) /* else it asks again */
			cast_ask(g, &g->marks[i], 0);
	} else {
		count(g, GROUP_BAD_MESSAGES);
	}
}

void
cast_member_gone(struct groups *g, struct membership *m, uint16_t rank)
{
	marks_free(g, m, rank);
	for (unsigned i = 0; i < WIRE_CHUNKS_OPEN; i++) {
		if (awaits(&m->cast.chunks[i], rank))
			has_answered(g, m, &m->cast.chunks[i], rank, 0);
	}
}

void
cast_group_ended(struct groups *g, struct membership *m)
{
	if (!m->cast.runs)
		return;
	m->cast.lost = true;
	tell_over(g, m);
}

void
cast_over(struct groups *g, struct membership *m)
{
	set_remove(&g->casting, place_of(g, m));
	m->cast.runs = false;
	for (unsigned i = 0; i < WIRE_CHUNKS_OPEN; i++)
		m->cast.chunks[i].frames = 0;
	for (uint16_t r = 0; r < m->count; r++)
		marks_free(g, m, r);
}

/* Ask those that have not answered for the membership's chunks in time. */
static void
rounds(struct groups *g, struct membership *m, uint64_t now)
{
	for (unsigned i = 0; i < WIRE_CHUNKS_OPEN; i++) {
		struct group_chunk *k = &m->cast.chunks[i];

		if (k->frames == 0 || k->awaited == 0 || now < k->round_at)
			continue;
		k->round_at = now + 4 * g->cfg.round_ticks;
		for (uint32_t r = bit_next(k->waits, BITS_WORDS(m->count), 0); r != UINT32_MAX;
			r = bit_next(k->waits, BITS_WORDS(m->count), r + 1))
			owe_member(g, m, (uint16_t)r, OWES_ROUND);
	}
}

void
casts_tick(struct groups *g, uint64_t now)
{
	for (uint32_t i = set_next(&g->casting, 0); i != UINT32_MAX;
		i = set_next(&g->casting, i + 1))
		rounds(g, &g->memberships[i], now);
	for (uint16_t i = 0; i < MARKS && g->asked_marks > 0; i++) {
		struct mark *k = &g->marks[i];

		if (k->frames != 0 && k->asked && k->owes == 0 && now >= k->answer_at)
			cast_answer(g, k);
	}
}

uint64_t
casts_deadline(const struct groups *g)
{
	uint64_t first = UINT64_MAX;

	for (uint32_t i = set_next(&g->casting, 0); i != UINT32_MAX;
		i = set_next(&g->casting, i + 1)) {
		const struct cast *c = &g->memberships[i].cast;

		for (unsigned j = 0; j < WIRE_CHUNKS_OPEN; j++) {
			const struct group_chunk *k = &c->chunks[j];

			if (k->frames != 0 && k->awaited != 0 && k->round_at < first)
				first = k->round_at;
		}
	}
	for (uint16_t i = 0; i < MARKS && g->asked_marks > 0; i++) {
		const struct mark *k = &g->marks[i];

		if (k->frames != 0 && k->asked && k->owes == 0 && k->answer_at < first)
			first = k->answer_at;
	}
	return first;
}
