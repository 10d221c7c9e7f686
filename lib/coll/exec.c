/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Running one rank's list of steps; see exec.h. The owner's thread only.
 *
 * A step waits until the steps before it have ended (those that it streams with do not count), then
 * it is active, and in the end done. Active steps wait in three queues: SENDs that have something
 * to send, RECVs that are not permitted to their end, and local work that is ready.
 */
#include <errno.h>
#include <string.h>

#include "coll/exec.h"

enum exec_phase { PHASE_WAITS, PHASE_ACTIVE, PHASE_DONE };

struct state {
	uint64_t len;       /* bytes of the step */
	uint64_t done;      /* sent, arrived, or worked */
	uint64_t permitted; /* up to this byte */
	uint64_t base;      /* RECV to SCRATCH: the bytes of its area that earlier steps used */
	uint64_t due_ns;    /* the next piece or permit, on the timetable */
	uint16_t ordinal;
	uint16_t peer_next;   /* next step of that peer and direction */
	uint16_t dependents;  /* first step that is after this one */
	uint16_t dep_next[2]; /* this step's place in the lists of those that it is after */
	uint16_t queue_next;
	uint16_t consumer;  /* RECV to SCRATCH: the step that empties it */
	uint16_t area_next; /* ... and the next RECV to the same area */
	uint8_t phase;
	bool queued;
	bool empty; /* of no bytes: one empty piece */
};

struct exec_queue {
	uint16_t first, last;
};

struct exec_peer {
	uint16_t send, recv; /* the first step that is not done */
	uint16_t to_go;      /* steps of which pieces or permits go to it still */
	uint16_t next;       /* of those that have steps */
	uint8_t state;       /* enum coll_peer_state */
	bool waits;          /* it is sent something that it has to permit */
};

struct coll_exec {
	struct coll_list list;
	struct state *states;
	struct exec_peer *peers;
	uint16_t first_peer;                           /* that has steps */
	struct exec_queue sends, nears, recvs, locals; /* nears: SENDs within the node */
	uint16_t area_first[COLL_AREAS_MAX]; /* the oldest RECV there that is not all consumed */
	uint64_t outstanding;
	/* times are by the list's own clock, which shows 0 at the beginning */
	uint64_t send_due_ns; /* when the line takes the next piece */
	uint64_t deadline_ns;
	uint64_t real_ns, own_ns; /* when the clock's rate changed, and what it showed then */
	uint32_t share;           /* of coll_exec_share */
	uint64_t window;          /* by it, of the list's */
	bool line_waits;          /* a piece waits for that */
	uint32_t left;            /* steps that are not done */
	uint32_t oldest;          /* no RECV before this step is open */
};

#define ALIGN   16u
/* A piece that has waited for the line's pace, and leaves late by no more than that, delays none
 * after it: a lane cannot look at the time at every moment. More would be queues in front of
 * ports. */
#define LATE_NS 30000

static size_t
exec_rounded(size_t bytes)
{
	return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

uint64_t
coll_run_bytes(const struct coll_blocks *b, uint32_t block, uint32_t blocks)
{
	if (b->ends == NULL || blocks == 0)
		return b->each * blocks;
	const uint64_t before = block ? b->ends[block - 1] : 0;

	if (block + blocks <= b->count)
		return blocks ? b->ends[block + blocks - 1] - before : 0;
	return b->ends[b->count - 1] - before + b->ends[block + blocks - b->count - 1];
}

static bool
streams(const struct coll_step *s, unsigned k)
{
	return s->flags & (k ? COLL_STREAM_1 : COLL_STREAM_0);
}

static uint64_t
paced(uint32_t pace, uint64_t bytes)
{
	return (bytes * pace) >> 16;
}

/* ------------------------------------------------------------------ checking */

/* Return whether `source` of step i is an earlier RECV to SCRATCH of the same run, and step i goes
 * on piece by piece with it, or with a REDUCE to its bytes. */
static bool
scratch_is_good(const struct coll_list *l, uint32_t i, uint16_t source)
{
	const struct coll_step *s = &l->steps[i];

	if (source >= i || l->steps[source].op != COLL_RECV ||
		l->steps[source].to != COLL_SCRATCH || l->steps[source].block != s->block ||
		l->steps[source].blocks != s->blocks)
		return false;
	for (unsigned k = 0; k < 2; k++) {
		if (!streams(s, k))
			continue;
		const struct coll_step *a = &l->steps[s->after[k]];

		if (s->after[k] == source ||
			(a->op == COLL_REDUCE && a->to == COLL_SCRATCH && a->target == source))
			return true;
	}
	return false;
}

static bool
afters_are_good(const struct coll_list *l, uint32_t i)
{
	const struct coll_step *s = &l->steps[i];

	if (s->after[0] == s->after[1] && s->after[0] != COLL_NONE)
		return false;
	for (unsigned k = 0; k < 2; k++) {
		if (s->after[k] == COLL_NONE) {
			if (streams(s, k))
				return false;
			continue;
		}
		if (s->after[k] >= i)
			return false;
		const struct coll_step *a = &l->steps[s->after[k]];

		/* the same bytes, so that an offset means the same in both */
		if (streams(s, k) && (a->block != s->block || a->blocks != s->blocks))
			return false;
	}
	return true;
}

static bool
recv_is_good(const struct coll_list *l, const struct coll_step *s)
{
	if (s->to == COLL_IN ||
		s->flags & (COLL_STREAM_0 | COLL_STREAM_1 | COLL_TURNS | COLL_NEAR) ||
		(s->early && s->after[0] == COLL_NONE))
		return false;
	/* what nobody permitted may come at any time */
	if (s->flags & COLL_EAGER && (s->after[0] != COLL_NONE || s->after[1] != COLL_NONE))
		return false;
	return s->to != COLL_SCRATCH || s->area < l->areas;
}

static bool
step_is_good(const struct coll_list *l, const struct coll_blocks *blocks, uint32_t i)
{
	const struct coll_step *s = &l->steps[i];

	if (s->op >= COLL_OPS || s->flags & ~COLL_FLAGS || s->from >= COLL_BUFFERS ||
		s->to >= COLL_BUFFERS || !afters_are_good(l, i))
		return false;
	const struct coll_blocks *b = &blocks[s->op == COLL_RECV ? s->to : s->from];

	if (s->blocks > b->count || (s->blocks > 0 && s->block >= b->count))
		return false;
	if (s->op == COLL_SEND || s->op == COLL_RECV) {
		if (s->peer >= l->ranks || s->peer == l->rank)
			return false;
	} else if (s->to == COLL_IN || (s->op == COLL_COPY && s->to == COLL_SCRATCH)) {
		return false;
	}
	if (s->op == COLL_RECV)
		return recv_is_good(l, s);
	if (s->early || (s->from == COLL_SCRATCH && !scratch_is_good(l, i, s->source)))
		return false;
	return s->op != COLL_REDUCE || s->to != COLL_SCRATCH || scratch_is_good(l, i, s->target);
}

int
coll_check(const struct coll_list *l, const struct coll_blocks blocks[COLL_BUFFERS], uint32_t *step)
{
	*step = l->count;
	if (l->ranks == 0 || l->ranks > COLL_RANKS_MAX || l->rank >= l->ranks ||
		l->count > COLL_STEPS_MAX || l->piece == 0 || l->areas > COLL_AREAS_MAX ||
		l->load_in > COLL_WHOLE || l->load_out > COLL_WHOLE ||
		(l->areas > 0 && l->area_bytes < l->piece))
		return -EINVAL;
	uint16_t recvs[COLL_AREAS_MAX] = {0};

	for (*step = 0; *step < l->count; ++*step) {
		if (!step_is_good(l, blocks, *step))
			return -EINVAL;
		const struct coll_step *s = &l->steps[*step];

		if (s->op == COLL_RECV && s->to == COLL_SCRATCH)
			recvs[s->area]++;
	}
	/* what nobody permitted needs room for all of it */
	for (*step = 0; *step < l->count; ++*step) {
		const struct coll_step *s = &l->steps[*step];

		if (s->op == COLL_RECV && s->to == COLL_SCRATCH && s->flags & COLL_EAGER &&
			(recvs[s->area] > 1 ||
				coll_run_bytes(&blocks[COLL_SCRATCH], s->block, s->blocks) >
					l->area_bytes))
			return -EINVAL;
	}
	return 0;
}

/* ------------------------------------------------------------------ queues */

static void
queue_push(struct coll_exec *c, struct exec_queue *q, uint16_t i)
{
	struct state *t = &c->states[i];

	if (t->queued)
		return;
	t->queued = true;
	t->queue_next = COLL_NONE;
	if (q->first == COLL_NONE)
		q->first = i;
	else
		c->states[q->last].queue_next = i;
	q->last = i;
}

/* Put a step into a queue, in the list's order. New steps belong near the end. */
static void
queue_insert(struct coll_exec *c, struct exec_queue *q, uint16_t i)
{
	if (q->first == COLL_NONE || c->states[i].queued || q->last < i) {
		queue_push(c, q, i);
		return;
	}
	uint16_t *at = &q->first;

	while (*at < i)
		at = &c->states[*at].queue_next;
	c->states[i].queued = true;
	c->states[i].queue_next = *at;
	*at = i;
}

/* Take out of a queue the step that *at names; before: the one before it, or COLL_NONE. */
static void
queue_take(struct coll_exec *c, struct exec_queue *q, uint16_t *at, uint16_t before)
{
	struct state *t = &c->states[*at];

	if (q->last == *at)
		q->last = before;
	t->queued = false;
	*at = t->queue_next;
}

/* ------------------------------------------------------------------ steps */

/* Return how many bytes of a SEND, REDUCE or COPY its source has. */
static uint64_t
available(const struct coll_exec *c, uint32_t i)
{
	const struct coll_step *s = &c->list.steps[i];
	uint64_t n = c->states[i].len;

	for (unsigned k = 0; k < 2; k++) {
		if (streams(s, k) && c->states[s->after[k]].done < n)
			n = c->states[s->after[k]].done;
	}
	return n;
}

/* Return how many more bytes of a SEND may go. */
static uint64_t
sendable(const struct coll_exec *c, uint32_t i)
{
	const struct state *t = &c->states[i];
	const uint64_t there = available(c, i), most = t->permitted < there ? t->permitted : there;

	return most > t->done ? most - t->done : 0;
}

/* Return whether a step of no bytes may go on: all steps that it streams with have ended. */
static bool
empty_is_ready(const struct coll_exec *c, uint32_t i)
{
	const struct coll_step *s = &c->list.steps[i];

	for (unsigned k = 0; k < 2; k++) {
		if (streams(s, k) && c->states[s->after[k]].phase != PHASE_DONE)
			return false;
	}
	return true;
}

/* Return the queue that a SEND waits in. */
static struct exec_queue *
sends_of(struct coll_exec *c, const struct coll_step *s)
{
	return s->flags & COLL_NEAR ? &c->nears : &c->sends;
}

static void
exec_look(struct coll_exec *c, uint32_t i)
{
	const struct coll_step *s = &c->list.steps[i];
	struct state *t = &c->states[i];

	if (t->phase != PHASE_ACTIVE)
		return;
	switch ((enum coll_op)s->op) {
	case COLL_SEND:
		if (t->empty ? !empty_is_ready(c, i) : sendable(c, i) == 0)
			return;
		if (s->flags & COLL_TURNS)
			queue_push(c, sends_of(c, s), (uint16_t)i);
		else
			queue_insert(c, sends_of(c, s), (uint16_t)i);
		return;
	case COLL_RECV:
		if (t->permitted < t->len)
			queue_insert(c, &c->recvs, (uint16_t)i);
		return;
	case COLL_REDUCE:
	case COLL_COPY:
		if (t->empty ? empty_is_ready(c, i) : available(c, i) > t->done)
			queue_push(c, &c->locals, (uint16_t)i);
		return;
	case COLL_OPS:
		return;
	}
}

/* Return whether the steps that this one waits for have ended, or nearly so. */
static bool
is_ready(const struct coll_exec *c, uint32_t i)
{
	const struct coll_step *s = &c->list.steps[i];

	for (unsigned k = 0; k < 2; k++) {
		if (s->after[k] == COLL_NONE || streams(s, k))
			continue;
		const struct state *t = &c->states[s->after[k]];
		const uint64_t early = k == 0 ? s->early : 0;

		if (t->phase != PHASE_DONE &&
			(t->phase == PHASE_WAITS || early == 0 || t->len - t->done > early))
			return false;
	}
	return true;
}

static void
activate(struct coll_exec *c, uint32_t i)
{
	if (c->states[i].phase == PHASE_WAITS && is_ready(c, i)) {
		c->states[i].phase = PHASE_ACTIVE;
		exec_look(c, i);
	}
}

/* Return the first step, from i on, of this peer and direction that is not done, or COLL_NONE. */
static uint16_t
first_open(const struct coll_exec *c, uint16_t i)
{
	while (i != COLL_NONE && c->states[i].phase == PHASE_DONE)
		i = c->states[i].peer_next;
	return i;
}

static void
end_step(struct coll_exec *c, uint32_t i)
{
	const struct coll_step *s = &c->list.steps[i];

	c->states[i].phase = PHASE_DONE;
	c->left--;
	if (s->op == COLL_SEND)
		c->peers[s->peer].send = first_open(c, c->peers[s->peer].send);
	else if (s->op == COLL_RECV)
		c->peers[s->peer].recv = first_open(c, c->peers[s->peer].recv);
}

/* Take a step on by so many bytes, perhaps to its end, and tell those that are after it. */
static void
advance(struct coll_exec *c, uint32_t i, uint64_t len)
{
	struct state *t = &c->states[i];

	t->done += len;
	if (t->done == t->len)
		end_step(c, i);
	for (uint16_t d = t->dependents, next; d != COLL_NONE; d = next) {
		next = c->states[d].dep_next[c->list.steps[d].after[0] == i ? 0 : 1];
		if (c->states[d].phase == PHASE_WAITS)
			activate(c, d);
		else
			exec_look(c, d);
	}
}

/* ------------------------------------------------------------------ beginning */

size_t
coll_exec_bytes(const struct coll_list *l)
{
	return exec_rounded(sizeof(struct coll_exec)) +
		exec_rounded(l->count * sizeof(struct state)) +
		exec_rounded(l->ranks * sizeof(struct exec_peer));
}

/* Put the steps of each peer and direction into a list, in order, and the peers into another
 * one. */
static void
number_steps(struct coll_exec *c)
{
	for (uint32_t i = c->list.count; i-- > 0;) {
		const struct coll_step *s = &c->list.steps[i];

		if (s->op != COLL_SEND && s->op != COLL_RECV)
			continue;
		struct exec_peer *p = &c->peers[s->peer];
		uint16_t *first = s->op == COLL_SEND ? &p->send : &p->recv;

		if (p->send == COLL_NONE && p->recv == COLL_NONE) {
			p->next = c->first_peer;
			c->first_peer = s->peer;
		}
		c->states[i].peer_next = *first;
		*first = (uint16_t)i;
	}
	for (uint16_t p = c->first_peer; p != COLL_NONE; p = c->peers[p].next) {
		const uint16_t firsts[2] = {c->peers[p].send, c->peers[p].recv};

		for (unsigned k = 0; k < 2; k++) {
			uint16_t ordinal = 0;

			for (uint16_t i = firsts[k]; i != COLL_NONE; i = c->states[i].peer_next)
				c->states[i].ordinal = ordinal++;
		}
	}
}

/* Put each step into the lists of those that it is after. */
static void
link_steps(struct coll_exec *c)
{
	for (uint32_t i = c->list.count; i-- > 0;) {
		for (unsigned k = 0; k < 2; k++) {
			const uint16_t a = c->list.steps[i].after[k];

			if (a == COLL_NONE)
				continue;
			c->states[i].dep_next[k] = c->states[a].dependents;
			c->states[a].dependents = (uint16_t)i;
		}
	}
}

/* Count what goes to the step's peer because of it. */
static void
count_messages(struct coll_exec *c, uint32_t i)
{
	const struct coll_step *s = &c->list.steps[i];
	const bool permits = c->states[i].permitted < c->states[i].len;

	if (s->op == COLL_SEND) {
		c->peers[s->peer].to_go++;
		c->peers[s->peer].waits |= permits;
	} else if (s->op == COLL_RECV) {
		c->peers[s->peer].to_go += permits;
	}
}

/* Set the lengths, areas and times of all steps. Return false if what some RECV puts into scratch
 * is emptied by no step, or by two. */
static bool
measure_steps(struct coll_exec *c, const struct coll_blocks blocks[COLL_BUFFERS])
{
	uint64_t areas[COLL_AREAS_MAX] = {0};
	uint16_t last[COLL_AREAS_MAX];

	for (uint32_t a = 0; a < COLL_AREAS_MAX; a++)
		last[a] = c->area_first[a] = COLL_NONE;

	for (uint32_t i = 0; i < c->list.count; i++) {
		const struct coll_step *s = &c->list.steps[i];
		struct state *t = &c->states[i];

		t->len = coll_run_bytes(&blocks[s->op == COLL_RECV ? s->to : s->from], s->block,
			s->blocks);
		t->empty = t->len == 0;
		t->dependents = t->consumer = COLL_NONE;
		if (s->op == COLL_RECV && s->to == COLL_SCRATCH) {
			t->base = areas[s->area];
			areas[s->area] += t->len;
			t->area_next = COLL_NONE;
			if (last[s->area] == COLL_NONE)
				c->area_first[s->area] = (uint16_t)i;
			else
				c->states[last[s->area]].area_next = (uint16_t)i;
			last[s->area] = (uint16_t)i;
		} else if (s->op != COLL_RECV && s->from == COLL_SCRATCH) {
			if (c->states[s->source].consumer != COLL_NONE)
				return false;
			c->states[s->source].consumer = (uint16_t)i;
		}
		if ((s->flags & COLL_EAGER && s->op != COLL_REDUCE && s->op != COLL_COPY) ||
			t->empty)
			t->permitted = t->len;
		if (s->op == COLL_RECV && s->flags & COLL_EAGER)
			c->outstanding += t->len;
		count_messages(c, i);
		const uint64_t at_ns = s->at_us * 1000ull;

		t->due_ns = at_ns > s->lead_ns ? at_ns - s->lead_ns : 0;
	}
	for (uint32_t a = 0; a < c->list.areas; a++) {
		for (uint16_t i = c->area_first[a]; i != COLL_NONE; i = c->states[i].area_next) {
			if (c->states[i].consumer == COLL_NONE)
				return false;
		}
	}
	return true;
}

void
coll_exec_moved(struct coll_exec *c, const struct coll_step *steps)
{
	uint8_t *at = (uint8_t *)c + exec_rounded(sizeof(*c));

	c->list.steps = steps;
	c->states = (struct state *)at;
	c->peers = (struct exec_peer *)(at + exec_rounded(c->list.count * sizeof(struct state)));
}

void
coll_exec_again(struct coll_exec *c, uint64_t now)
{
	c->real_ns = now;
}

/* Return what the list's clock shows, ns. */
static uint64_t
own_time(const struct coll_exec *c, uint64_t now)
{
	const uint64_t real = now - c->real_ns;

	return c->own_ns + (c->share == COLL_WHOLE ? real : real * COLL_WHOLE / c->share);
}

void
coll_exec_share(struct coll_exec *c, uint32_t share, uint64_t now)
{
	c->own_ns = own_time(c, now);
	c->real_ns = now;
	c->share = share;
	c->window = c->list.window * COLL_WHOLE / share;
	if (c->window == 0 && c->list.window > 0)
		c->window = 1;
}

struct coll_exec *
coll_exec_init(void *memory, const struct coll_list *list,
	const struct coll_blocks blocks[COLL_BUFFERS], uint64_t now)
{
	struct coll_exec *c = memory;

	memset(memory, 0, coll_exec_bytes(list));
	c->list = *list;
	coll_exec_moved(c, list->steps);
	c->sends = c->nears = c->recvs = c->locals = (struct exec_queue){COLL_NONE, COLL_NONE};
	c->first_peer = COLL_NONE;
	c->real_ns = now;
	c->share = COLL_WHOLE;
	c->window = list->window;
	c->deadline_ns = COLL_NEVER;
	c->left = list->count;
	for (uint32_t p = 0; p < list->ranks; p++)
		c->peers[p] = (struct exec_peer){.send = COLL_NONE, .recv = COLL_NONE};
	if (!measure_steps(c, blocks))
		return NULL;
	number_steps(c);
	link_steps(c);
	for (uint32_t i = 0; i < list->count; i++)
		activate(c, i);
	return c;
}

/* ------------------------------------------------------------------ what comes */

static uint16_t
find_step(const struct coll_exec *c, uint16_t first, uint32_t ordinal)
{
	while (first != COLL_NONE && c->states[first].ordinal < ordinal)
		first = c->states[first].peer_next;
	return first != COLL_NONE && c->states[first].ordinal == ordinal ? first : COLL_NONE;
}

int64_t
coll_permitted(struct coll_exec *c, uint32_t peer, uint32_t ordinal, uint64_t bytes)
{
	if (peer >= c->list.ranks)
		return -EPROTO;
	const uint16_t i = find_step(c, c->peers[peer].send, ordinal);

	if (i == COLL_NONE || bytes > c->states[i].len || bytes < c->states[i].permitted)
		return -EPROTO;
	const uint64_t more = bytes - c->states[i].permitted;

	c->states[i].permitted = bytes;
	exec_look(c, i);
	return (int64_t)more;
}

int
coll_heard(const struct coll_exec *c, uint32_t peer, uint32_t ordinal, uint64_t offset,
	uint64_t len)
{
	if (peer >= c->list.ranks)
		return -EPROTO;
	const uint16_t i = find_step(c, c->peers[peer].recv, ordinal);

	if (i == COLL_NONE)
		return -EPROTO;
	const struct state *t = &c->states[i];

	if (t->phase == PHASE_DONE || offset != t->done || len > t->permitted - t->done ||
		(len == 0 && !t->empty))
		return -EPROTO;
	return i;
}

void
coll_arrived(struct coll_exec *c, uint32_t step, uint64_t len)
{
	c->outstanding -= len;
	advance(c, step, len);
}

/* ------------------------------------------------------------------ what goes */

void
coll_peer(struct coll_exec *c, uint32_t peer, enum coll_peer_state state)
{
	if (state != COLL_PEER_ONE || c->peers[peer].state == COLL_PEER_FAR)
		c->peers[peer].state = (uint8_t)state;
}

uint16_t
coll_peer_after(const struct coll_exec *c, uint32_t peer)
{
	return peer == COLL_NONE ? c->first_peer : c->peers[peer].next;
}

bool
coll_waits_for(const struct coll_exec *c, uint32_t peer)
{
	return c->peers[peer].waits;
}

bool
coll_goes_to(const struct coll_exec *c, uint32_t peer)
{
	return c->peers[peer].to_go > 0;
}

static bool
is_silent(const struct coll_exec *c, const struct coll_step *s)
{
	const uint8_t state = c->peers[s->peer].state;

	return state == COLL_PEER_SILENT || state == COLL_PEER_FAR;
}

/* Count a message that goes to the step's peer; last: it is the last one of this step. Return
 * whether more will go to this peer. */
static bool
goes(struct coll_exec *c, const struct coll_step *s, bool last)
{
	struct exec_peer *p = &c->peers[s->peer];

	p->to_go -= last;
	if (p->state == COLL_PEER_ONE)
		p->state = COLL_PEER_SILENT;
	return p->to_go > 0;
}

bool
coll_next_local(struct coll_exec *c, struct coll_out *out)
{
	const uint16_t i = c->locals.first;

	if (i == COLL_NONE)
		return false;
	struct state *t = &c->states[i];
	const uint64_t can = available(c, i) - t->done;
	const uint64_t len = can < c->list.piece ? can : c->list.piece;

	*out = (struct coll_out){
		.go = COLL_GO_LOCAL,
		.step = i,
		.offset = t->done,
		.len = len,
	};
	queue_take(c, &c->locals, &c->locals.first, COLL_NONE);
	t->empty = false;
	advance(c, i, len);
	exec_look(c, i);
	return true;
}

/* Return up to which byte an area is free again. Its bytes count on from its first use, as it is
 * used again and again. Steps empty it in any order, but it is free only up to the oldest byte that
 * is still needed. */
static uint64_t
area_consumed(struct coll_exec *c, uint32_t area)
{
	uint16_t *first = &c->area_first[area];

	/* the RECV that asks is not consumed, so there is one */
	while (c->states[c->states[*first].consumer].phase == PHASE_DONE)
		*first = c->states[*first].area_next;
	return c->states[*first].base + c->states[c->states[*first].consumer].done;
}

/* Return how many more bytes a RECV can permit, as far as room goes. */
static uint64_t
permittable(struct coll_exec *c, uint32_t i)
{
	const struct coll_step *s = &c->list.steps[i];
	const struct state *t = &c->states[i];
	uint64_t n = t->len - t->permitted;

	if (s->to == COLL_SCRATCH) {
		const uint64_t used = t->base + t->permitted - area_consumed(c, s->area);
		const uint64_t room = used < c->list.area_bytes ? c->list.area_bytes - used : 0;

		/* not a permit for each piece that leaves */
		if (room < n && room < c->list.area_bytes / 4)
			return 0;
		n = n < room ? n : room;
	}
	/* all at once if there is neither a pace nor a bound */
	const uint32_t grain = c->list.grain ? c->list.grain : c->list.piece;

	if ((s->pace || c->list.window) && n > grain)
		n = grain;
	return n;
}

static void
note_deadline(struct coll_exec *c, uint64_t at)
{
	if (at < c->deadline_ns)
		c->deadline_ns = at;
}

/* Return whether nothing is on its way to this RECV or to any before it. What these need may have
 * to wait for what this one gets, here or by way of other members, so that the window, which later
 * ones have used up, must not keep it back. */
static bool
is_first_to_get(struct coll_exec *c, uint32_t i)
{
	while (c->oldest < i &&
		(c->list.steps[c->oldest].op != COLL_RECV ||
			c->states[c->oldest].phase == PHASE_DONE))
		c->oldest++;
	for (uint32_t k = c->oldest; k <= i; k++) {
		if (c->list.steps[k].op == COLL_RECV && c->states[k].permitted > c->states[k].done)
			return false;
	}
	return true;
}

static bool
permit_next(struct coll_exec *c, struct coll_out *out, uint64_t now)
{
	uint16_t *at = &c->recvs.first, before = COLL_NONE;

	while (*at != COLL_NONE) {
		const uint16_t i = *at;
		const struct coll_step *s = &c->list.steps[i];
		struct state *t = &c->states[i];
		const uint64_t n = permittable(c, i);

		if (t->due_ns > now) {
			note_deadline(c, t->due_ns);
			if (t->permitted == 0)
				return false; /* so are all after it */
		} else if (is_silent(c, s)) {
			; /* until it is heard of */
		} else if (n > 0 && c->window && c->outstanding > 0 &&
			c->outstanding + n > c->window && !is_first_to_get(c, i)) {
			return false; /* an arrival makes room */
		} else if (n > 0) {
			t->permitted += n;
			c->outstanding += n;
			t->due_ns += paced(s->pace, n);
			if (t->permitted == t->len)
				queue_take(c, &c->recvs, at, before);
			*out = (struct coll_out){
				.go = COLL_GO_PERMIT,
				.step = i,
				.peer = s->peer,
				.ordinal = t->ordinal,
				.more = goes(c, s, t->permitted == t->len),
				.len = t->permitted,
			};
			return true;
		}
		before = i;
		at = &t->queue_next;
	}
	return false;
}

/* Get the next piece of one of the two queues of SENDs. Return false: nothing can go now. */
static bool
send_next(struct coll_exec *c, struct exec_queue *q, struct coll_out *out, uint64_t now)
{
	uint16_t *at = &q->first, before = COLL_NONE;

	for (; *at != COLL_NONE; before = *at, at = &c->states[*at].queue_next) {
		const uint16_t i = *at;
		const struct coll_step *s = &c->list.steps[i];
		struct state *t = &c->states[i];

		if (s->pace && t->due_ns > now) {
			note_deadline(c, t->due_ns);
			if (t->done == 0 && !(s->flags & COLL_TURNS))
				return false; /* so are all after it */
			continue;
		}
		if (is_silent(c, s))
			continue;
		const uint64_t can = sendable(c, i);
		const uint64_t n = can < c->list.piece ? can : c->list.piece;

		*out = (struct coll_out){
			.go = COLL_GO_PIECE,
			.step = i,
			.peer = s->peer,
			.ordinal = t->ordinal,
			.more = goes(c, s, t->done + n == t->len),
			.offset = t->done,
			.len = n,
		};
		if (s->pace) {
			if (t->due_ns + paced(s->pace, c->list.piece) < now)
				t->due_ns = now;
			t->due_ns += paced(s->pace, n);
		}
		const bool takes_the_line = c->list.send_pace > 0 && !(s->flags & COLL_NEAR);

		if (takes_the_line) {
			if (!c->line_waits || c->send_due_ns + LATE_NS < now)
				c->send_due_ns = now;
			c->send_due_ns += paced(c->list.send_pace, n);
		}
		if (can == n || s->flags & COLL_TURNS)
			queue_take(c, q, at, before);
		t->empty = false;
		advance(c, i, n);
		if (can != n && s->flags & COLL_TURNS)
			exec_look(c, i);
		if (takes_the_line)
			c->line_waits = c->sends.first != COLL_NONE;
		return true;
	}
	return false;
}

bool
coll_next(struct coll_exec *c, struct coll_out *out, uint64_t now)
{
	if (coll_next_local(c, out))
		return true;
	now = own_time(c, now);
	c->deadline_ns = COLL_NEVER;
	if (permit_next(c, out, now) || send_next(c, &c->nears, out, now))
		return true;
	if (c->sends.first != COLL_NONE && c->send_due_ns > now) {
		c->line_waits = true;
		note_deadline(c, c->send_due_ns);
		return false;
	}
	return send_next(c, &c->sends, out, now);
}

uint64_t
coll_deadline(const struct coll_exec *c)
{
	if (c->deadline_ns == COLL_NEVER)
		return COLL_NEVER;
	const uint64_t own = c->deadline_ns > c->own_ns ? c->deadline_ns - c->own_ns : 0;

	/* rounded up: then it is time by own_time() */
	return c->real_ns +
		(c->share == COLL_WHOLE ? own : (own * c->share + COLL_WHOLE - 1) / COLL_WHOLE);
}

bool
coll_is_done(const struct coll_exec *c)
{
	return c->left == 0;
}

uint64_t
coll_scratch_place(const struct coll_exec *c, uint32_t recv, uint64_t offset)
{
	uint64_t at = c->states[recv].base + offset;

	if (at >= c->list.area_bytes)
		at %= c->list.area_bytes;
	return c->list.steps[recv].area * c->list.area_bytes + at;
}

uint64_t
coll_outstanding(const struct coll_exec *c)
{
	return c->outstanding;
}
