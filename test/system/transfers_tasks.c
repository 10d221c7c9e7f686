/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Random transfers of the test of remote memory (transfers.c), and what each must do to every byte
 * of its slice and of its own memory.
 */
#include "transfers.h"

void
bytes_fill(uint8_t *p, uint64_t len)
{
	uint64_t x = draw();

	for (uint64_t i = 0; i < len; i += 8, x = x * 6364136223846793005u + 1442695040888963407u)
		memcpy(p + i, &x, len - i < 8 ? len - i : 8);
}

/* ------------------------------------------------------------------ what a transfer must do */

static uint8_t *
slice_of(const struct end *by, const struct task *s)
{
	uint64_t number = (uint64_t)(by - ends) * TASKS + (uint64_t)(s - by->tasks);

	return ends[s->target].memory[s->where] + number * SLICE;
}

/* Does byte i of a transfer move? Written apart from lib/rma/part.c. */
static bool
moves(const struct task *s, uint64_t i)
{
	const struct pmx_part *p = &s->part;
	uint64_t rest = i;

	switch ((int)p->kind) {
	case PMX_PART_BITMAP:
		return s->bits[i / p->unit / 64] >> i / p->unit % 64 & 1;
	case PMX_PART_STRIDE:
		for (int d = (int)p->dims - 1; d >= 0; d--) {
			uint64_t k = rest / p->interval[d];

			if (k >= p->count[d])
				k = p->count[d] - 1;
			rest -= k * p->interval[d];
		}
		return rest < p->block;
	default:
		return true;
	}
}

static void
check_push(const struct end *by, const struct task *s)
{
	const uint8_t *slice = slice_of(by, s);

	for (uint64_t i = 0; i < SLICE; i++) {
		bool inside = i >= s->off && i - s->off < s->len && s->wanted == 0;
		uint8_t want = s->before[i];

		if (inside && s->part.kind == PMX_PART_DIFF) /* twin was the slice's state before */
			want = s->local[i - s->off];
		else if (inside && moves(s, i - s->off))
			want = s->local[i - s->off];
		if (slice[i] != want) {
			fail("a push of %lu bytes at %lu, part %d, to %u by %u: byte %lu is %02x, "
			     "not %02x",
				s->len, s->off, s->part.kind, s->target, s->where, i, slice[i],
				want);
			return;
		}
	}
	if (s->part.kind == PMX_PART_DIFF && s->wanted == 0 &&
		memcmp(s->twin, s->local, s->len) != 0)
		fail("the twin of a push of %lu bytes did not follow", s->len);
}

static void
check_pull(const struct end *by, const struct task *s)
{
	const uint8_t *slice = slice_of(by, s);

	/* `before` is what local held */
	for (uint64_t i = 0; i < SLICE; i++) {
		bool inside = i < s->len && s->wanted == 0 && moves(s, i);
		uint8_t want = inside ? slice[s->off + i] : s->before[i];

		if (s->local[i] != want) {
			fail("a pull of %lu bytes at %lu, part %d, from %u by %u: byte %lu is "
			     "%02x, not %02x",
				s->len, s->off, s->part.kind, s->target, s->where, i, s->local[i],
				want);
			return;
		}
	}
	if (s->part.kind == PMX_PART_TWIN && s->wanted == 0 &&
		memcmp(s->twin, s->local, s->len) != 0)
		fail("the twin of a pull of %lu bytes is another", s->len);
}

/* ------------------------------------------------------------------ making transfers */

static void
choose_part(struct task *s)
{
	struct pmx_part *p = &s->part;
	uint64_t extent;

	memset(p, 0, sizeof(*p));
	if (s->len == 0 || draw() % 2)
		return;
	switch (draw() % 3) {
	case 0:
		p->kind = PMX_PART_STRIDE;
		p->dims = 1 + draw() % 3;
		extent = p->block = 1 + draw() % (s->len < 5000 ? s->len : 5000);
		for (unsigned d = 0; d < p->dims; d++) {
			p->interval[d] = extent + draw() % (extent + 50);
			p->count[d] = 1 + draw() % 12;
			while (extent + (p->count[d] - 1) * p->interval[d] > s->len)
				p->count[d]--;
			extent += (p->count[d] - 1) * p->interval[d];
		}
		break;
	case 1:
		p->kind = PMX_PART_BITMAP;
		p->unit = 4u << draw() % 11;
		p->bits = s->bits;
		memset(s->bits, 0, sizeof(s->bits));
		for (uint64_t u = 0, state = 0, of = 1 + draw() % 40; u * p->unit < s->len; u++) {
			if (draw() % of == 0)
				state = draw() % 2;
			s->bits[u / 64] |= state << u % 64;
		}
		break;
	default:
		p->kind = s->pull ? PMX_PART_TWIN : PMX_PART_DIFF;
		p->twin = s->twin;
	}
}

static uint64_t
choose_len(void)
{
	static const uint64_t edges[] = {0, 1, 7, 8, 1000, 1408, 1409, 4096, 8904, 8905, 65536,
		SLICE - 2 * MARGIN};

	if (draw() % 4 == 0)
		return edges[draw() % (sizeof(edges) / sizeof(edges[0]))];
	return draw() % (1ull << (3 + draw() % 15)) % (SLICE - 2 * MARGIN);
}

/* Ask for something that must be refused. */
static void
spoil(struct pmx_transfer *t, struct task *s)
{
	const struct end *target = &ends[s->target];

	s->refused = true;
	switch (draw() % 4) {
	case 0:
		t->key ^= 1ull << (16 + draw() % 48);
		s->wanted = t->flags & PMX_AREA ? -ENOKEY : -ENOKEY;
		break;
	case 1: /* the last bytes reach beyond the region */
		t->remote = (t->flags & PMX_AREA ? 0 : target->remote[s->where].addr) + MEMORY -
			(s->len ? s->len - 1 : 0) + (s->len ? 0 : 1);
		s->wanted = -ERANGE;
		break;
	case 2: { /* a region that others may only read */
		if (s->pull || s->len > 4096) {
			s->refused = false;
			return;
		}
		t->flags &= ~PMX_AREA;
		t->key = target->read_only.key;
		t->remote = target->read_only.addr;
		s->wanted = -EACCES;
		break;
	}
	default: /* another context's region */
		t->flags &= ~PMX_AREA;
		t->key = target->remote[s->where].key;
		t->remote = target->remote[s->where].addr;
		t->peer.context = 1 - t->peer.context;
		s->wanted = -EPERM;
	}
	refusals++;
}

static void
prepare(struct end *by, struct task *s, struct pmx_transfer *t)
{
	uint8_t *slice = slice_of(by, s);

	memset(t, 0, sizeof(*t));
	s->len = choose_len();
	s->off = MARGIN + draw() % (SLICE - 2 * MARGIN - s->len + 1);
	choose_part(s);
	bytes_fill(s->local, SLICE);
	if (s->pull) {
		bytes_fill(slice, SLICE);
		memcpy(s->before, s->local, SLICE);
	} else {
		memcpy(s->before, slice, SLICE);
		if (s->part.kind == PMX_PART_DIFF) {
			memcpy(s->twin, slice + s->off, s->len);
			/* mostly as it was */
			memcpy(s->local, s->twin, s->len);
			for (uint64_t i = 0, step = 1 + draw() % 5000; i < s->len;
				i += 1 + draw() % step)
				s->local[i] = (uint8_t)draw();
		}
	}
	const struct pmx_remote *r = &ends[s->target].remote[s->where];

	t->peer = r->owner;
	t->key = r->key;
	t->remote = (uintptr_t)slice + s->off;
	t->local = s->local;
	t->len = s->len;
	if (s->where == BY_ENGINE && draw() % 2) {
		t->flags |= PMX_AREA;
		t->key = ends[s->target].area;
		t->remote -= r->addr;
	}
	if (s->part.kind)
		t->part = &s->part;
	if (draw() % 4 == 0)
		t->flags |= PMX_ORDERED;
	s->status = draw() % 2
		? &s->word
		: (volatile int32_t *)(by->local[BY_ENGINE] + MEMORY / ENDS) + (s - by->tasks);
	t->status = s->status;
	s->event = draw() % 8 == 0;
	s->notify = !s->pull && draw() % 4 == 0;
	if (s->event)
		t->flags |= PMX_EVENT;
	if (s->notify) {
		t->flags |= PMX_NOTIFY;
		t->immediate = s->imm = draw();
	}
	s->wanted = 0;
	s->refused = false;
	if (draw() % 16 == 0)
		spoil(t, s);
}

void
task_begin(struct end *by, struct task *s)
{
	struct pmx_transfer t;

	s->pull = draw() % 2;
	s->target = draw() % ENDS;
	s->where = draw() % PLACES;
	s->local = by->local[draw() % PLACES] + (uint64_t)(s - by->tasks) * SLICE;
	prepare(by, s, &t);
	int r = s->pull ? pmx_pull(by->ctx, &t, &s->id) : pmx_push(by->ctx, &t, &s->id);

	if (r == -EAGAIN)
		return; /* another time */
	if (r != 0) {
		fail("a %s of %lu bytes, part %d: %s", s->pull ? "pull" : "push", s->len,
			s->part.kind, pmx_strerror(r));
		return;
	}
	s->busy = true;
	if (s->notify && !s->refused)
		ends[s->target].expected += s->imm;
	by->events_wanted += s->event;
}

void
task_finish(struct end *by, struct task *s)
{
	int32_t status = *s->status;

	if (status == 1)
		return;
	int r = pmx_transfer_done(by->ctx, s->id);

	if (r == 0 && s->status != &s->word)
		return; /* the engine writes the word before the completion */
	if (r == -ENOBUFS && status == r && s->notify && s->wanted == 0) {
		/* the bytes are there, its receiver had too many events */
		ends[s->target].expected -= s->imm;
		lost_events++;
		status = 0;
		r = 1;
	}
	if (status != s->wanted || r != (s->wanted ? s->wanted : 1)) {
		fail("a %s of %lu bytes, part %d, ended with %d (%s), status %d; right is %d",
			s->pull ? "pull" : "push", s->len, s->part.kind, r, pmx_strerror(r), status,
			s->wanted);
		return;
	}
	if (s->pull)
		check_pull(by, s);
	else
		check_push(by, s);
	s->busy = false;
	ended++;
}

void
end_take_events(struct end *e)
{
	struct pmx_event event;
	int r;

	while ((r = pmx_poll_event(e->ctx, &event)) == 1) {
		if (event.kind == PMX_EVENT_PUSHED)
			e->notified += event.immediate;
		else
			e->events++;
	}
	if (r < 0)
		fail("pmx_poll_event: %s", pmx_strerror(r));
}
