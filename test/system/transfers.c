/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory against a model: two embedded nodes in one process, joined by a link that may lose,
 * reorder, double and corrupt frames. Every context pushes to and pulls from contexts of both
 * nodes: any length, any alignment, whole and in parts, by key and by area ID, to and from memory
 * of pmx_alloc and of malloc. Each transfer has a slice of its target's memory to itself, so what
 * every byte must be is known; between the slices nothing may change. Others ask for what they may
 * not have, and must get the right refusal. At the end: nothing is under way, all frames, requests,
 * mbufs and pins are back. transfers.sh runs it, nic.sh with two ports of a bus.
 */
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_errno.h>
#include <rte_mempool.h>

#include "client/client.h"
#include "engine/lane.h"
#include "engine/service/rma/rma.h"
#include "rma/internal.h"
#include "node/node.h"
#include "helpers.h"
#include "pmx/pmx.h"

#define NODES    2
#define CONTEXTS 2
#define ENDS     (NODES * CONTEXTS)
#define TASKS    6 /* transfers of a context under way */
/* bytes of a slot at each target; a margin on both sides stays untouched */
#define SLICE    (160u << 10)
#define MARGIN   64
#define MEMORY   ((uint64_t)ENDS * TASKS * SLICE)
#define STUCK_S  20

enum where { BY_ENGINE, BY_KERNEL, ADOPTED, PLACES }; /* pmx_alloc, malloc, mmap and PMX_ADOPT */

struct task {
	bool busy, pull, refused, notify, event;
	int wanted;             /* how it must end */
	unsigned target, where; /* whose memory */
	uint8_t *local, *twin;  /* SLICE bytes each */
	uint8_t *before;        /* of the target's slice */
	uint64_t off, len;      /* in the slice */
	struct pmx_part part;
	uint64_t bits[SLICE / 4 / 64 + 1];
	uint64_t imm;
	volatile int32_t *status;
	volatile int32_t word;
	pmx_transfer_id id;
};

struct end {
	struct pmx_context *ctx;
	uint8_t *memory[PLACES];
	struct pmx_remote remote[PLACES], read_only;
	uint32_t area;
	uint8_t *local[PLACES];
	struct task tasks[TASKS];
	uint64_t notified, expected; /* sums of immediates */
	uint64_t events, events_wanted;
};

static struct pmx_node *nodes[NODES];
static struct end ends[ENDS];
static unsigned pool_before[NODES];
static uint64_t transfers = 20000, ended, refusals, lost_events;
static unsigned adopt = PMX_ADOPT;
static bool use_dma, use_device, unmapped, copied;
static const char *ports[NODES]; /* on a bus; NULL: the loop link */

static void
fill(uint8_t *p, uint64_t len)
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
	fill(s->local, SLICE);
	if (s->pull) {
		fill(slice, SLICE);
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

static void
begin(struct end *by, struct task *s)
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

static void
finish(struct end *by, struct task *s)
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

static void
take_events(struct end *e)
{
	struct pmx_event event;
	int r;

	while ((r = pmx_event(e->ctx, &event)) == 1) {
		if (event.kind == PMX_EVENT_PUSHED)
			e->notified += event.immediate;
		else
			e->events++;
	}
	if (r < 0)
		fail("pmx_event: %s", pmx_strerror(r));
}

/* What its engine has of a context's remote memory. */
static struct context *
remote_context(const struct end *end)
{
	const struct channel *ch = &end->ctx->node->embedded->channels[end->ctx->ctx];

	return rma_channel(ch)->rma->contexts[ch->ctx];
}

/* What is under way, for who wants to know why it goes on no more. */
static void
print_state(void)
{
	for (unsigned n = 0; n < NODES; n++) {
		const struct engine *e = &nodes[n]->embedded->engines[0];
		const struct rma_lane *lane = rma_lane(e);
		const struct rma *x = lane->rma;

		fprintf(stderr,
			"# node %u: %u of %u frames free, %u transfers wait, %u frames within the "
			"node, requests:",
			n, x->frames_free, x->cfg.frames_max, x->waiting, lane->local_waiting);
		for (const struct request *r = x->requests.head; r != NULL; r = r->next)
			fprintf(stderr, " [kind %u of %u:%u to %u, %lu bytes sent]", r->kind,
				r->node, r->peer, r->c->ctx, r->sent);
		fprintf(stderr, "\n");
		for (unsigned c = 0; c < CONTEXTS; c++) {
			const struct context *r = x->contexts[c];

			fprintf(stderr, "# context %u:%u: %u frames, %u held, %u events wait;", n,
				c, r->frames, r->held, r->events_waiting);
			for (uint32_t i = 0; i < r->ops_max; i++) {
				if (r->ops[i].state)
					fprintf(stderr,
						" [state %u kind %u to %u:%u, %lu of %lu sent]",
						r->ops[i].state, r->ops[i].d.kind, r->ops[i].d.node,
						r->ops[i].d.ctx, r->ops[i].sent, r->ops[i].d.len);
			}
			fprintf(stderr, "\n");
		}
	}
}

static void
run(void)
{
	uint64_t seen = 0, turn = 0;
	double since = now_s();

	while (!failed && ended < transfers) {
		for (unsigned i = 0; i < ENDS; i++) {
			for (unsigned k = 0; k < TASKS; k++) {
				if (ends[i].tasks[k].busy)
					finish(&ends[i], &ends[i].tasks[k]);
				else
					begin(&ends[i], &ends[i].tasks[k]);
			}
			take_events(&ends[i]);
			pmx_transfers_pending(ends[i].ctx);
		}
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
		if (++turn % 1024 == 0) {
			if (ended != seen) {
				seen = ended;
				since = now_s();
			} else if (now_s() - since > STUCK_S) {
				fail("no transfer ended for %d s: %lu of %lu did", STUCK_S, ended,
					transfers);
				print_state();
			}
		}
	}
}

/* ------------------------------------------------------------------ life */

static bool
busy(void)
{
	bool any = false;

	for (unsigned i = 0; i < ENDS; i++) {
		for (unsigned k = 0; k < TASKS; k++) {
			if (ends[i].tasks[k].busy)
				finish(&ends[i], &ends[i].tasks[k]);
			any |= ends[i].tasks[k].busy;
		}
		take_events(&ends[i]);
		any |= pmx_transfers_pending(ends[i].ctx) != 0 ||
			pmx_sends_pending(ends[i].ctx) != 0;
		any |= remote_context(&ends[i])->frames != 0;
		any |= ends[i].notified != ends[i].expected;
	}
	return any;
}

static void
settle(void)
{
	double end = now_s() + STUCK_S;

	while (!failed && busy()) {
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
		if (now_s() > end)
			fail("something is still under way");
	}
	for (unsigned i = 0; i < ENDS && !failed; i++) {
		if (ends[i].notified != ends[i].expected || ends[i].events != ends[i].events_wanted)
			fail("context %u: notifications add up to %lu, not %lu; %lu events, not "
			     "%lu",
				i, ends[i].notified, ends[i].expected, ends[i].events,
				ends[i].events_wanted);
	}
}

static void
check_engine(unsigned n)
{
	const struct engine *e = &nodes[n]->embedded->engines[0];
	const struct rma_lane *lane = rma_lane(e);
	const struct rma *x = lane->rma;

	if (use_dma && lane->dma.begun == 0)
		fail("node %u: the DMA device was not used", n);
	if ((use_device || ports[n] != NULL) && (e->counters[ENGINE_tx_in_place] == 0) != copied)
		fail("node %u: the port was given %lu frames in an application's memory", n,
			e->counters[ENGINE_tx_in_place]);
	if (x->frames_free != x->cfg.frames_max || x->waiting != 0 || x->requests.head != NULL ||
		lane->local_waiting)
		fail("node %u: %u of %u frames, %u transfers wait, requests %s", n, x->frames_free,
			x->cfg.frames_max, x->waiting, x->requests.head ? "left" : "none");
	for (unsigned c = 0; c < CONTEXTS; c++) {
		const struct memory_space *space = &e->node->channels[c].space;
		const struct context *r = x->contexts[c];
		uint32_t requests = 0;

		for (const struct request *q = r->free_requests; q != NULL; q = q->next)
			requests++;
		if (requests != e->node->config.requests || r->ops_used || r->frames || r->held)
			fail("node %u context %u: %u of %u requests free, %u transfers, %u frames",
				n, c, requests, e->node->config.requests, r->ops_used, r->frames);
		for (unsigned i = 0; i < MEMORIES_MAX; i++) {
			/* a port of a bus gives back what it has sent when it sends more */
			if (space->pieces[i] != NULL && space->pieces[i]->held && ports[n] == NULL)
				fail("node %u context %u: memory %u is held %u times", n, c, i,
					space->pieces[i]->held);
		}
	}
	if (e->counters[ENGINE_bad_submissions] || e->counters[ENGINE_bad_transfers])
		fail("node %u: %lu bad submissions, %lu bad transfers", n,
			e->counters[ENGINE_bad_submissions], e->counters[ENGINE_bad_transfers]);
}

/* Filled, and then private to this process: unless adopted, reached by the kernel. */
static uint8_t *
mapped(uint64_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED) {
		fail("no memory");
		exit(1);
	}
	fill(p, len);
	return p;
}

static void
open_end(unsigned i)
{
	struct end *e = &ends[i];
	const struct pmx_context_params params = {.context = (uint16_t)(i % CONTEXTS)};
	uint64_t locals = MEMORY / ENDS + 4096;
	struct pmx_remote unused;
	void *p;
	int r = pmx_context_open(&e->ctx, nodes[i / CONTEXTS], &params);

	if (r != 0) {
		fail("a context: %s", pmx_strerror(r));
		return;
	}
	e->area = 7 + i;
	if ((r = pmx_alloc(e->ctx, MEMORY, &p)) != 0 ||
		(r = pmx_area_register(e->ctx, e->area, p, MEMORY,
			 PMX_REMOTE_READ | PMX_REMOTE_WRITE, &e->remote[BY_ENGINE])) != 0)
		fail("pmx_alloc: %s", pmx_strerror(r));
	e->memory[BY_ENGINE] = p;
	e->memory[BY_KERNEL] = must(aligned_alloc(64, MEMORY));
	fill(e->memory[BY_KERNEL], MEMORY);
	if ((r = pmx_register(e->ctx, e->memory[BY_KERNEL], MEMORY,
		     PMX_REMOTE_READ | PMX_REMOTE_WRITE, &e->remote[BY_KERNEL])) != 0 ||
		(r = pmx_register(e->ctx, e->memory[BY_ENGINE], 4096, PMX_REMOTE_READ,
			 &e->read_only)) != 0)
		fail("pmx_register: %s", pmx_strerror(r));
	e->memory[ADOPTED] = mapped(MEMORY);
	if ((r = pmx_register(e->ctx, e->memory[ADOPTED], MEMORY,
		     adopt | PMX_REMOTE_READ | PMX_REMOTE_WRITE, &e->remote[ADOPTED])) != 0)
		fail("pmx_register with PMX_ADOPT: %s", pmx_strerror(r));
	e->local[ADOPTED] = mapped(locals);
	if (adopt && (r = pmx_register(e->ctx, e->local[ADOPTED], locals, adopt, &unused)) != 0)
		fail("pmx_register with PMX_ADOPT alone: %s", pmx_strerror(r));
	if ((r = pmx_alloc(e->ctx, locals, &p)) != 0)
		fail("pmx_alloc: %s", pmx_strerror(r));
	e->local[BY_ENGINE] = p;
	e->local[BY_KERNEL] = must(malloc(locals));
	for (unsigned k = 0; k < TASKS; k++) {
		e->tasks[k].twin = must(malloc(SLICE));
		e->tasks[k].before = must(malloc(SLICE));
	}
}

static void
poll_both(void)
{
	pmx_node_poll(nodes[0]);
	pmx_node_poll(nodes[1]);
}

typedef int (*verb)(struct pmx_context *, const struct pmx_transfer *, pmx_transfer_id *);

/* A pin or its release, to its end; told of in every way there is. */
static int
ask(struct end *by, verb verb, const struct pmx_remote *r, uint64_t len, uint32_t flags)
{
	volatile int32_t status = 77;
	const struct pmx_transfer t = {
		.peer = r->owner,
		.key = r->key,
		.remote = flags & PMX_AREA ? 0 : r->addr,
		.len = len,
		.cookie = 12345,
		.flags = flags,
		.status = &status,
	};
	struct pmx_event event = {0};
	pmx_transfer_id id;
	double end = now_s() + STUCK_S;
	int e = verb(by->ctx, &t, &id);

	if (e == 0 && status != 1)
		fail("the status of a pin under way is %d", status);
	while (e == 0 && now_s() < end) {
		poll_both();
		e = pmx_transfer_done(by->ctx, id);
	}
	if (status != (e == 1 ? 0 : e))
		fail("a pin that ended with %d has the status %d", e, status);
	if (flags & PMX_EVENT &&
		(pmx_event(by->ctx, &event) != 1 || event.kind != PMX_EVENT_ENDED ||
			event.immediate != 12345 || event.error != status ||
			event.peer.context != r->owner.context))
		fail("a pin that ended with %d has no such event", e);
	/* the other node polls nowhere else */
	while (pmx_sync_wait(by->ctx, 0) != 0) {
		poll_both();
		if (now_s() > end) {
			fail("pmx_sync_wait");
			break;
		}
	}
	return e;
}

static int
ask_pin(struct end *by, const struct pmx_remote *r, uint64_t len)
{
	return ask(by, pmx_remote_pin, r, len, draw() % 2 ? PMX_EVENT : 0);
}

static int
ask_unpin(struct end *by, const struct pmx_remote *r)
{
	return ask(by, pmx_remote_unpin, r, 0, draw() % 2 ? PMX_EVENT : 0);
}

static void
must_be(int result, int right, const char *what)
{
	if (result != right)
		fail("%s: %d (%s), right is %d", what, result,
			pmx_strerror(result < 0 ? result : 0), right);
}

/* Can it be reached? Asked without touching it. */
static void
check_pin(void)
{
	struct pmx_remote wrong = ends[2].remote[BY_KERNEL];

	wrong.key ^= 1ull << 40;
	must_be(ask_pin(&ends[0], &ends[2].remote[BY_KERNEL], MEMORY), 1, "a pin");
	must_be(ask_pin(&ends[0], &ends[2].read_only, 4096), 1, "a pin of what may only be read");
	must_be(ask_pin(&ends[0], &ends[2].read_only, 4097), -ERANGE, "a pin beyond the region");
	must_be(ask_pin(&ends[0], &wrong, 1), -ENOKEY, "a pin of what is not there");
	wrong = ends[2].remote[BY_KERNEL];
	wrong.owner.context = 1;
	must_be(ask_pin(&ends[0], &wrong, 1), -EPERM, "a pin of what is another's");
	must_be(ask_unpin(&ends[0], &wrong), -ENOKEY, "the release of what another has");
	must_be(ask_unpin(&ends[0], &ends[2].remote[BY_KERNEL]), 1, "a release");
	must_be(ask_unpin(&ends[0], &ends[2].remote[BY_KERNEL]), -ENOKEY, "a second release");
	must_be(ask_unpin(&ends[3], &ends[2].read_only), -ENOKEY, "the release of another's pin");
	must_be(ask_unpin(&ends[0], &ends[2].read_only), 1, "a release");
	if (remote_context(&ends[0])->kept.pin_places[RMA_PLACES - 1].held)
		fail("the asker's engine believes that it has pins");
}

static uint64_t
locked_bytes(void)
{
	FILE *f = must(fopen("/proc/self/status", "r"));
	unsigned long kb = 0;
	char line[128];

	while (fgets(line, sizeof(line), f) != NULL)
		sscanf(line, "VmLck: %lu", &kb);
	fclose(f);
	return (uint64_t)kb << 10;
}

#define PINNED 65536u

/* While others have it pinned a region stays, and its pages locked; not longer. */
static void
check_pin_holds(struct end *owner)
{
	const uint32_t id = 1000;
	uint8_t *memory = mapped(PINNED);
	struct pmx_remote r, area, gone;
	uint64_t before = locked_bytes();
	void *p;

	/* with address sanitizers nothing is ever locked */
	mlock(memory, PINNED);
	const uint64_t locked = locked_bytes() - before;

	munlock(memory, PINNED);

	must_be(pmx_register(owner->ctx, memory, PINNED, PMX_REMOTE_WRITE, &r), 0, "pmx_register");
	must_be(pmx_area_register(owner->ctx, id, memory, 4096, PMX_REMOTE_READ, &area), 0,
		"pmx_area_register");
	const uint64_t area_key = area.key;

	area.key = id;                        /* which others name it by */
	for (unsigned i = 0; i < ENDS; i++) { /* the owner itself among them */
		struct end *by = &ends[i];
		const uint64_t key = r.key;

		must_be(ask_pin(by, &r, PINNED), 1, "a pin");
		must_be(pmx_deregister(owner->ctx, key), -EBUSY,
			"pmx_deregister of what is pinned");
		must_be(ask_pin(by, &r, 1), 1, "a second pin");
		must_be(ask(by, pmx_remote_pin, &area, 4096, PMX_AREA), 1, "a pin of an area");
		must_be(ask_unpin(by, &r), 1, "the release of the second");
		must_be(pmx_deregister(owner->ctx, key), -EBUSY,
			"pmx_deregister of what is still pinned once");
		pmx_invalidate(memory, PINNED);
		if (locked_bytes() < before + locked)
			fail("%lu bytes are locked, with pinned memory among them it should be %lu",
				locked_bytes(), before + locked);
		must_be(ask_unpin(by, &r), 1, "the release of the first");
		must_be(ask_unpin(by, &r), -ENOKEY, "a release too many");
		must_be(pmx_deregister(owner->ctx, key), 0,
			"pmx_deregister of what is no longer pinned");
		must_be(ask_unpin(by, &r), -ENOKEY, "the release of what is gone");
		must_be(ask(by, pmx_remote_unpin, &area, 0, PMX_AREA), 1, "the release of an area");
		must_be(pmx_register(owner->ctx, memory, PINNED, PMX_REMOTE_WRITE, &r), 0,
			"pmx_register");
	}
	must_be(pmx_deregister(owner->ctx, r.key), 0, "pmx_deregister");
	must_be(pmx_deregister(owner->ctx, area_key), 0, "pmx_deregister of an area");
	pmx_invalidate(memory, PINNED);
	if (locked_bytes() != before)
		fail("%lu bytes are locked, %lu were before", locked_bytes(), before);
	/* who gives memory up asks nobody */
	must_be(pmx_alloc(owner->ctx, PINNED, &p), 0, "pmx_alloc");
	must_be(pmx_register(owner->ctx, p, PINNED, PMX_REMOTE_READ, &gone), 0, "pmx_register");
	must_be(ask_pin(&ends[0], &gone, PINNED), 1, "a pin");
	pmx_free(owner->ctx, p);
	must_be(pmx_deregister(owner->ctx, gone.key), -ENOKEY,
		"pmx_deregister of memory that was freed");
	must_be(ask_pin(&ends[0], &gone, PINNED), -ENOKEY, "a pin of memory that was freed");
	must_be(ask_unpin(&ends[0], &gone), -ENOKEY, "the release of memory that was freed");
	munmap(memory, PINNED);
}

/* ------------------------------------------------------------------ pins at random */

#define REGIONS 3

/* Any context pins and releases any of some regions; their owners try to end them. */
static void
check_random_pins(unsigned steps)
{
	struct pmx_remote r[NODES][REGIONS];
	uint32_t pins[ENDS][NODES][REGIONS] = {0};
	uint8_t *memory = mapped(REGIONS * PINNED);

	for (unsigned n = 0; n < NODES; n++) {
		for (unsigned k = 0; k < REGIONS; k++)
			must_be(pmx_register(ends[n * CONTEXTS].ctx, memory + k * PINNED, PINNED,
					PMX_REMOTE_READ, &r[n][k]),
				0, "pmx_register");
	}
	for (unsigned i = 0; i < steps && !failed; i++) {
		unsigned by = draw() % ENDS, n = draw() % NODES, k = draw() % REGIONS;
		uint32_t *mine = &pins[by][n][k], all = 0, records = 0;

		for (unsigned e = 0; e < ENDS; e++) {
			all += pins[e][n][k];
			for (unsigned of = 0; of < REGIONS; of++)
				records += pins[e][n][of] != 0;
		}
		bool room = *mine != 0 || records < (nodes[n]->embedded->config.regions + 1) / 2;

		switch (draw() % 4) {
		case 0:
			must_be(ask_pin(&ends[by], &r[n][k], PINNED), room ? 1 : -ENOSPC, "a pin");
			*mine += room;
			break;
		case 1:
		case 2:
			must_be(ask_unpin(&ends[by], &r[n][k]), *mine ? 1 : -ENOKEY, "a release");
			*mine -= *mine != 0;
			break;
		default:
			must_be(pmx_deregister(ends[n * CONTEXTS].ctx, r[n][k].key),
				all ? -EBUSY : 0, "pmx_deregister");
			if (all == 0)
				must_be(pmx_register(ends[n * CONTEXTS].ctx, memory + k * PINNED,
						PINNED, PMX_REMOTE_READ, &r[n][k]),
					0, "pmx_register");
		}
	}
	for (unsigned n = 0; n < NODES; n++) {
		for (unsigned k = 0; k < REGIONS; k++) {
			for (unsigned by = 0; by < ENDS; by++) {
				for (; pins[by][n][k] && !failed; pins[by][n][k]--)
					must_be(ask_unpin(&ends[by], &r[n][k]), 1, "a release");
			}
			must_be(pmx_deregister(ends[n * CONTEXTS].ctx, r[n][k].key), 0,
				"pmx_deregister");
		}
	}
	for (unsigned n = 0; n < NODES; n++) {
		const struct engine *e = &nodes[n]->embedded->engines[0];

		if (rma_lane(e)->rma->pins_used != 0 ||
			e->counters[ENGINE_pins_granted] != e->counters[ENGINE_pins_released])
			fail("node %u: %u pins are left, %lu were granted, %lu released", n,
				rma_lane(e)->rma->pins_used, e->counters[ENGINE_pins_granted],
				e->counters[ENGINE_pins_released]);
		for (unsigned c = 0; c < CONTEXTS; c++) {
			const struct context *remote = rma_lane(e)->rma->contexts[c];

			if (remote->pins != 0 || pinning_any(remote))
				fail("node %u context %u: pins are left", n, c);
		}
	}
	munmap(memory, REGIONS * PINNED);
}

/* No room for more, at their owner and at who asks. */
static void
check_pins_full(void)
{
	struct end *owner = &ends[2], *by = &ends[0];
	struct context *remote = remote_context(by);
	uint32_t most = (owner->ctx->node->embedded->config.regions + 1) / 2, n = 0;
	struct pmx_remote r[ENDS * 4];
	struct end *asker[ENDS * 4];

	for (unsigned i = 0; i < RMA_PLACES; i++)
		remote->kept.pin_places[i] =
			(struct pin_place){.node = 9, .ctx = (uint16_t)i, .held = true};
	must_be(ask_pin(by, &owner->read_only, 1), -ENOSPC, "a pin at one context too many");
	remote->kept.pin_places[7].held = false;
	must_be(ask_pin(by, &owner->read_only, 1), 1, "a pin in the last place");
	must_be(ask_unpin(by, &owner->read_only), 1, "a release");
	memset(remote->kept.pin_places, 0, sizeof(remote->kept.pin_places));
	for (unsigned i = 0; i < ENDS; i++) {
		for (unsigned k = 0; k < PLACES + 1; k++, n++) {
			r[n] = k < PLACES ? owner->remote[k] : owner->read_only;
			asker[n] = &ends[i];
			must_be(ask_pin(asker[n], &r[n], 1), n < most ? 1 : -ENOSPC,
				"a pin among many");
		}
	}
	if (n > most) { /* who has one already may have it twice, and one that goes makes room */
		must_be(ask_pin(asker[0], &r[0], 1), 1, "a second pin");
		must_be(ask_unpin(asker[0], &r[0]), 1, "its release");
		must_be(ask_unpin(asker[1], &r[1]), 1, "a release");
		must_be(ask_pin(asker[most], &r[most], 1), 1, "a pin in its place");
		must_be(ask_pin(asker[1], &r[1], 1), -ENOSPC, "a pin among many");
		must_be(ask_unpin(asker[most], &r[most]), 1, "a release");
		must_be(ask_pin(asker[1], &r[1], 1), 1, "a pin in its place");
	}
	for (unsigned i = 0; i < n && i < most; i++)
		must_be(ask_unpin(asker[i], &r[i]), 1, "a release");
}

/* ends[0] and ends[3] close, and release nothing of what they have pinned at the others. */
static void
pin_and_leave(void)
{
	for (unsigned i = 0; i < ENDS; i++) {
		if (i != 3) /* which is the first to go */
			must_be(ask_pin(&ends[0], &ends[i].read_only, 1), 1, "a pin");
		must_be(ask_pin(&ends[3], &ends[i].read_only, 1), 1, "a pin");
		must_be(pmx_deregister(ends[i].ctx, ends[i].read_only.key), -EBUSY,
			"pmx_deregister of what is pinned");
	}
}

#define PAGE 4096u

/* A writer's page, as it is and as it was. */
struct writer {
	struct pmx_context *ctx;
	uint8_t *now, *twin;
	pmx_transfer_id id;
};

static bool
writer_pushes(struct writer *w, uint8_t *home, const struct pmx_remote *r)
{
	const struct pmx_part part = {.kind = PMX_PART_DIFF, .twin = w->twin};
	const struct pmx_transfer t = {
		.peer = r->owner,
		.key = r->key,
		.remote = (uintptr_t)home,
		.local = w->now,
		.len = PAGE,
		.part = &part,
	};
	double end = now_s() + STUCK_S;
	int e;

	while ((e = pmx_push(w->ctx, &t, &w->id)) == -EAGAIN && now_s() < end) {
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
	}
	if (e != 0)
		fail("two writers: %s", pmx_strerror(e));
	return e == 0;
}

/* RHiNET, section 2.7: two nodes change different bytes of one page at once; their diffs leave all
 * changes in it. */
static void
check_two_writers(unsigned rounds)
{
	const struct pmx_remote *r = &ends[3].remote[BY_ENGINE];
	uint8_t *home = ends[3].memory[BY_ENGINE], model[PAGE];
	struct writer w[2] = {{.ctx = ends[0].ctx}, {.ctx = ends[2].ctx}};

	fill(home, PAGE);
	memcpy(model, home, PAGE);
	for (unsigned i = 0; i < 2; i++) {
		w[i].now = must(malloc(PAGE));
		w[i].twin = must(malloc(PAGE));
	}
	for (unsigned k = 0; k < rounds && !failed; k++) {
		double end = now_s() + STUCK_S;
		int e[2] = {0, 0};

		for (unsigned i = 0; i < 2; i++) {
			memcpy(w[i].now, model, PAGE);
			memcpy(w[i].twin, model, PAGE);
		}
		/* each byte has one writer at most, the neighbour of one's may be the other's */
		for (unsigned n = draw() % 200, at = 0; n > 0 && (at += 1 + draw() % 40) < PAGE;
			n--)
			model[at] = w[draw() % 2].now[at] = (uint8_t)draw();
		if (!writer_pushes(&w[0], home, r) || !writer_pushes(&w[1], home, r))
			break;
		while ((e[0] == 0 || e[1] == 0) && now_s() < end) {
			pmx_node_poll(nodes[0]);
			pmx_node_poll(nodes[1]);
			for (unsigned i = 0; i < 2; i++)
				e[i] = e[i] ? e[i] : pmx_transfer_done(w[i].ctx, w[i].id);
		}
		if (e[0] != 1 || e[1] != 1)
			fail("two writers, round %u: %d %d", k, e[0], e[1]);
		else if (memcmp(home, model, PAGE) != 0)
			fail("two writers, round %u: the page is another", k);
	}
	for (unsigned i = 0; i < 2; i++) {
		free(w[i].now);
		free(w[i].twin);
	}
}

/* RHiNET's table 1: which verb takes which part. */
static void
check_refused_parts(void)
{
	const struct pmx_remote *r = &ends[2].remote[BY_ENGINE];
	struct pmx_part part = {.twin = ends[0].tasks[0].twin};
	struct pmx_transfer t = {
		.peer = r->owner,
		.key = r->key,
		.remote = r->addr,
		.local = ends[0].local[BY_ENGINE],
		.len = 64,
		.part = &part,
	};

	part.kind = PMX_PART_TWIN;
	if (pmx_push(ends[0].ctx, &t, NULL) != -EOPNOTSUPP)
		fail("a push with a twin");
	part.kind = PMX_PART_DIFF;
	if (pmx_pull(ends[0].ctx, &t, NULL) != -EOPNOTSUPP)
		fail("a pull with a diff");
	part.kind = 9;
	if (pmx_push(ends[0].ctx, &t, NULL) != -EINVAL || pmx_part_problem(&part, 64) == NULL)
		fail("a part of no kind");
	part = (struct pmx_part){
		.kind = PMX_PART_STRIDE,
		.dims = 1,
		.block = 8,
		.interval = {16},
		.count = {5},
	};
	if (pmx_pull(ends[0].ctx, &t, NULL) != -EINVAL || pmx_part_problem(&part, 64) == NULL)
		fail("a stride beyond its transfer");
	t.part = NULL;
	t.flags = PMX_NOTIFY;
	if (pmx_pull(ends[0].ctx, &t, NULL) != -EINVAL)
		fail("a pull with a notification");
}

static atomic_bool closed;

static void *
closes(void *arg)
{
	pmx_context_close(arg);
	atomic_store(&closed, true);
	return NULL;
}

/* It polls its own node until all is seen off, and the other one must answer meanwhile. */
static void
close_context(struct pmx_context *ctx)
{
	struct pmx_node *other = nodes[ctx->node == nodes[0]];
	pthread_t thread;

	atomic_store(&closed, false);
	if (pthread_create(&thread, NULL, closes, ctx) != 0) {
		fail("no thread");
		return;
	}
	while (!atomic_load(&closed))
		pmx_node_poll(other);
	pthread_join(thread, NULL);
}

static void
close_end(struct end *e)
{
	double since = now_s();
	int r;

	/* the ends that pinned it are closed, or this is the first */
	while ((r = pmx_deregister(e->ctx, e->read_only.key)) == -EBUSY && e != &ends[0] &&
		e != &ends[3] && now_s() - since < STUCK_S)
		poll_both();
	must_be(r, e == &ends[0] || e == &ends[3] ? -EBUSY : 0, "pmx_deregister");
	if (r == 0 && pmx_deregister(e->ctx, e->read_only.key) != -ENOKEY)
		fail("a key ended twice");
	pmx_free(e->ctx, e->local[BY_ENGINE]);
	close_context(e->ctx);
	for (uint64_t i = 0; i < MEMORY; i += 4096) /* what was adopted is ours as before */
		e->memory[ADOPTED][i]++;
	munmap(e->memory[ADOPTED], MEMORY);
	munmap(e->local[ADOPTED], MEMORY / ENDS + 4096);
	free(e->memory[BY_KERNEL]);
	free(e->local[BY_KERNEL]);
	for (unsigned k = 0; k < TASKS; k++) {
		free(e->tasks[k].twin);
		free(e->tasks[k].before);
	}
}

/* ------------------------------------------------------------------ a port that reads by DMA */

/* The loop link as a NIC would be: it reads second segments by their bus addresses, only where they
 * were mapped for it, which it refuses now and then, and gives mbufs back late. rte_dev_dma_map and
 * rte_dev_dma_unmap are wrapped by the linker. */
#define MAPS 64
#define LATE 64 /* frames sent and not given back */

static struct device {
	struct {
		uint64_t iova, len;
	} maps[MAPS];
	struct rte_mbuf *sent[LATE];
	uint64_t frames, segments, mapped, not_mapped;
} devices[NODES];
static struct link_ops device_ops;

int __real_rte_dev_dma_map(struct rte_device *dev, void *addr, uint64_t iova, size_t len);
int __wrap_rte_dev_dma_map(struct rte_device *dev, void *addr, uint64_t iova, size_t len);
int __real_rte_dev_dma_unmap(struct rte_device *dev, void *addr, uint64_t iova, size_t len);
int __wrap_rte_dev_dma_unmap(struct rte_device *dev, void *addr, uint64_t iova, size_t len);

int
__wrap_rte_dev_dma_map(struct rte_device *dev, void *addr, uint64_t iova, size_t len)
{
	struct device *d = (struct device *)dev;

	if (ports[0] != NULL)
		return unmapped ? 0 : __real_rte_dev_dma_map(dev, addr, iova, len);
	if (iova != (uintptr_t)addr || iova % 4096 || len % 4096)
		fail("rte_dev_dma_map: %p as %lx, %zu bytes", addr, iova, len);
	for (unsigned i = (d->mapped + d->not_mapped) % 3 == 2 ? MAPS : 0; i < MAPS; i++) {
		if (d->maps[i].len != 0)
			continue;
		d->maps[i].iova = iova;
		d->maps[i].len = len;
		d->mapped++;
		return 0;
	}
	d->not_mapped++;
	rte_errno = ENOSPC;
	return -1;
}

int
__wrap_rte_dev_dma_unmap(struct rte_device *dev, void *addr, uint64_t iova, size_t len)
{
	struct device *d = (struct device *)dev;

	if (ports[0] != NULL)
		return unmapped ? 0 : __real_rte_dev_dma_unmap(dev, addr, iova, len);
	for (unsigned i = 0; i < MAPS; i++) {
		if (d->maps[i].len != len || d->maps[i].iova != iova)
			continue;
		d->maps[i].len = 0;
		return 0;
	}
	fail("rte_dev_dma_unmap: %p, %zu bytes, was not mapped", addr, len);
	return -1;
}

static bool
device_reads(struct device *d, const struct rte_mbuf *m)
{
	uint64_t at = rte_mbuf_data_iova(m);

	d->segments++;
	for (unsigned i = 0; i < MAPS; i++) {
		if (d->maps[i].len != 0 && at >= d->maps[i].iova &&
			at + m->data_len <= d->maps[i].iova + d->maps[i].len)
			return at == rte_pktmbuf_mtod(m, uintptr_t);
	}
	return false;
}

static void
device_flush(unsigned n)
{
	for (unsigned i = 0; i < LATE; i++) {
		rte_pktmbuf_free(devices[n].sent[i]);
		devices[n].sent[i] = NULL;
	}
}

static uint16_t
device_tx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	struct device *d = &devices[l->node];
	uint16_t taken;

	for (uint16_t i = 0; i < n; i++) {
		if (bufs[i]->next != NULL && !device_reads(d, bufs[i]->next))
			fail("node %u: a frame refers to %p, which is not mapped for the port",
				l->node, rte_pktmbuf_mtod(bufs[i]->next, void *));
		for (struct rte_mbuf *m = bufs[i]; m != NULL; m = m->next)
			rte_mbuf_refcnt_update(m, 1);
	}
	taken = link_loop_ops.tx(l, queue, bufs, n);
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf **late = &d->sent[d->frames % LATE];

		if (i >= taken) { /* the caller's alone again */
			for (struct rte_mbuf *m = bufs[i]; m != NULL; m = m->next)
				rte_mbuf_refcnt_update(m, -1);
			continue;
		}
		rte_pktmbuf_free(*late);
		*late = bufs[i];
		d->frames++;
	}
	return taken;
}

static void
device_close(struct link *l)
{
	device_flush(l->node);
	link_loop_ops.close(l);
}

static void
become_device(unsigned n)
{
	struct link *l = &nodes[n]->embedded->links[0];

	device_ops = link_loop_ops;
	device_ops.tx = device_tx;
	device_ops.close = device_close;
	l->ops = &device_ops;
	l->device = (struct rte_device *)&devices[n];
}

static void
check_device(unsigned n)
{
	const struct device *d = &devices[n];

	if (d->segments == 0 || d->mapped == 0 || d->not_mapped == 0)
		fail("node %u: the port read %lu pieces of memory, %lu were mapped for it, %lu not",
			n, d->segments, d->mapped, d->not_mapped);
	for (unsigned i = 0; i < MAPS; i++) {
		if (d->maps[i].len != 0)
			fail("node %u: %lu bytes are still mapped for the port", n, d->maps[i].len);
	}
}

/* ------------------------------------------------------------------ start and end */

static void
start(unsigned n, const char *link, const char *fault, const char *more)
{
	char text[1024], error[256], dma[64] = "",
				     port[96] = "driver = loop\nport = t\n"
						"encap = none";

	if (ports[n] != NULL)
		snprintf(port, sizeof(port), "driver = ethdev\nport = %s", ports[n]);
	if (use_dma)
		snprintf(dma, sizeof(dma), "[engine]\ndma = dma_skeleton%u\n", n);
	snprintf(text, sizeof(text),
		"[node]\nid = %u\nname = transfers%u\n%s[link 0]\n%s\n%s\n%s%s\n[limits]\n"
		"contexts = %u\nmbufs = 16384\n%s\n[nodes]\n0 = auto\n1 = auto\n",
		n, n, dma, port, link, fault[0] ? "fault = " : "", fault, CONTEXTS, more);
	struct pmx_node_params params = {.config_text = text};
	int r = pmx_node_start(&nodes[n], &params, error, sizeof(error));

	if (r != 0) {
		fprintf(stderr, "transfers: node %u: %s\n", n, error);
		exit(2);
	}
}

static void
split_ports(char *both)
{
	ports[0] = both;
	ports[1] = strchr(both, ',');
	if (ports[1] == NULL)
		exit(2);
	*strchr(both, ',') = 0;
	ports[1]++;
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {{"transfers", 1, NULL, 't'}, {"seed", 1, NULL, 's'},
		{"fault", 1, NULL, 'f'}, {"link", 1, NULL, 'l'}, {"limits", 1, NULL, 'm'},
		{"dma", 0, NULL, 'd'}, {"device", 0, NULL, 'D'}, {"ports", 1, NULL, 'p'},
		{"unmapped", 0, NULL, 'u'}, {"copied", 0, NULL, 'c'}, {NULL, 0, NULL, 0}};
	char *eal[] = {argv[0], "--no-huge", "--no-pci", "-m", "512", "--no-telemetry",
		"--no-shconf", "--log-level=*:error", "--vdev=dma_skeleton0",
		"--vdev=dma_skeleton1", NULL};
	const char *fault = "", *link = "", *more = "";
	int opt;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (opt) {
		case 't':
			transfers = strtoull(optarg, NULL, 0);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'f':
			fault = optarg;
			break;
		case 'l':
			link = optarg;
			break;
		case 'm':
			more = optarg;
			break;
		case 'd':
			use_dma = true;
			break;
		case 'D':
			use_device = true;
			break;
		case 'p':
			split_ports(optarg);
			break;
		case 'c':
			copied = true;
			break; /* the IOMMU cannot reach that far */
		/* say that it was done, and do not: the IOMMU must notice */
		case 'u':
			unmapped = true;
			break;
		default:
			fprintf(stderr,
				"usage: transfers [--transfers N] [--seed N] [--fault F] [--link "
				"KEYS] [--limits KEYS] [--dma] [--device] [--ports A,B [--unmapped "
				"| --copied]]\n");
			return 2;
		}
	}
	char *nic_eal[] = {argv[0], "--in-memory", "-m", "128", "--no-telemetry",
		"--log-level=*:error", "-l", "0", "-a", (char *)(uintptr_t)ports[0], "-a",
		(char *)(uintptr_t)ports[1], NULL};

	if (ports[0] != NULL ? rte_eal_init(12, nic_eal) < 0
			     : rte_eal_init((int)(sizeof(eal) / sizeof(eal[0])) - (use_dma ? 1 : 3),
				       eal) < 0)
		return 2;
	/* without events of the kernel nothing is adopted: then it is memory as any other */
	if (geteuid() != 0)
		adopt = 0;
	start(0, link, fault, more);
	start(1, link, fault, more);
	for (unsigned n = 0; n < NODES && use_device; n++)
		become_device(n);
	for (unsigned n = 0; n < NODES; n++)
		pool_before[n] = rte_mempool_avail_count(nodes[n]->embedded->pool);
	for (unsigned i = 0; i < ENDS; i++)
		open_end(i);
	double begin_s = now_s();

	if (!failed)
		run();
	settle();
	if (!failed) {
		check_pin();
		check_pin_holds(&ends[2]);
		check_random_pins((unsigned)(transfers < 3000 ? transfers / 5 : 600));
		check_pins_full();
		check_refused_parts();
	}
	settle();
	if (!failed)
		check_two_writers((unsigned)(transfers < 10000 ? transfers : 10000));
	settle();
	double took = now_s() - begin_s;

	for (unsigned n = 0; n < NODES && !failed; n++)
		check_engine(n);
	if (!failed)
		pin_and_leave();
	settle(); /* what is on its way to a context that closes is tried for long */
	for (unsigned i = 0; i < ENDS && !failed; i++)
		close_end(&ends[(i + 3) % ENDS]); /* 3, 0, 1, 2 */
	for (unsigned k = 0; k < 10000 && !failed; k++) {
		pmx_node_poll(nodes[0]);
		pmx_node_poll(nodes[1]);
	}
	for (unsigned n = 0; n < NODES && use_device; n++)
		device_flush(n);
	for (unsigned n = 0; n < NODES && !failed; n++) {
		unsigned have = rte_mempool_avail_count(nodes[n]->embedded->pool);
		unsigned with_port = ports[n] != NULL
			? nodes[n]->embedded->config.links[0].link.tx_descriptors
			: 32;

		if (have + with_port < pool_before[n])
			fail("node %u: %u mbufs of %u", n, have, pool_before[n]);
	}
	const uint64_t *p = proto_counters(nodes[0]->embedded->engines[0].proto);

	printf("# %lu transfers, %lu refused as they must be, %lu notifications lost as told, %.1f "
	       "s; node 0: %lu frames, %lu again, %lu timeouts, %lu in place\n",
		ended, refusals, lost_events, took, p[PROTO_tx_frames], p[PROTO_tx_retransmits],
		p[PROTO_timeouts], nodes[0]->embedded->engines[0].counters[ENGINE_tx_in_place]);
	if (!failed) {
		pmx_node_close(nodes[0]);
		pmx_node_close(nodes[1]);
	}
	for (unsigned n = 0; n < NODES && !failed && use_device; n++)
		check_device(n);
	return failed;
}
