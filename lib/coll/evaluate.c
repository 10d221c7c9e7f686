/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The evaluator: all ranks' lists, run by the executor that engines use, over the links of the
 * topology. See plan.h.
 *
 * Design notes
 * 1. A message crosses an edge in one event. Its head may leave a switch when its first frame is
 *    there, its end not before its end was there, and both not before the line is free. So a
 *    message of several frames is in several switches at once, as its frames would be.
 * 2. What waits in a port is what its line still has to send, as in the simulator: a number.
 * 3. A host's processor takes its time for one message after the other, those that it sends and
 *    those that come; what it adds up or copies takes it too, but delays only what comes after.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/tour.h"

#define QUEUE_SLOTS 8 /* senders of one destination that are told apart in a port */

struct evaluated_message {
	double head_ns, tail_ns; /* at the end of its edge */
	double wire;
	uint32_t edge; /* TOPOLOGY_NONE: within a host */
	uint16_t from, to, ordinal;
	bool permit, eager;
	bool taken;           /* by the receiver's processor */
	uint64_t offset, len; /* permit: len is how far */
	uint32_t next;        /* in the list of free ones */
};

/* A port: when its line is free, and the last messages that wait for it. */
struct port {
	double free_ns;
	double *pair_free_ns; /* [from * ranks + to], if the link lets no flow have all of it */
	struct {
		double until_ns;
		uint16_t from, to;
	} waiting[QUEUE_SLOTS];
	uint32_t next;
	/* what came without permits, of how many senders */
	double eager;
	uint16_t eager_from;
	bool eager_several;
};

struct evaluated_event {
	double at;
	uint32_t what; /* a message; or a rank's deadline, above RANKS */
	uint32_t order;
};

#define RANKS 0x80000000u

struct evaluated_rank {
	struct coll_exec *exec;
	double due_ns;        /* its deadline's event; 0: none */
	double local_free_ns; /* when it can give its host the next message */
	bool done;
};

struct network {
	const struct coll_plan *plan;
	const struct coll_task *task;
	struct evaluated_rank *ranks;
	struct port *ports;
	double *host_free_ns; /* by node */
	struct evaluated_message *messages;
	uint32_t message_count, message_cap, message_free;
	struct evaluated_event *heap;
	uint32_t heap_count, heap_cap, order;
	double now, frame;
	uint32_t left; /* ranks that are not done */
	bool failed, broken;
	struct coll_cost cost;
};

/* ------------------------------------------------------------------ events */

static bool
before(const struct evaluated_event *a, const struct evaluated_event *b)
{
	return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void
push(struct network *w, double at, uint32_t what)
{
	if (w->heap_count == w->heap_cap) {
		const uint32_t cap = w->heap_cap ? 2 * w->heap_cap : 1024;
		struct evaluated_event *grown = realloc(w->heap, cap * sizeof(*grown));

		if (grown == NULL) {
			w->failed = true;
			return;
		}
		w->heap = grown;
		w->heap_cap = cap;
	}
	const struct evaluated_event e = {at, what, w->order++};
	uint32_t i = w->heap_count++;

	for (; i > 0 && before(&e, &w->heap[(i - 1) / 4]); i = (i - 1) / 4)
		w->heap[i] = w->heap[(i - 1) / 4];
	w->heap[i] = e;
}

static struct evaluated_event
pop(struct network *w)
{
	const struct evaluated_event top = w->heap[0], last = w->heap[--w->heap_count];
	uint32_t i = 0;

	for (;;) {
		uint32_t best = 4 * i + 1;

		if (best >= w->heap_count)
			break;
		for (uint32_t k = best + 1; k < 4 * i + 5 && k < w->heap_count; k++) {
			if (before(&w->heap[k], &w->heap[best]))
				best = k;
		}
		if (!before(&w->heap[best], &last))
			break;
		w->heap[i] = w->heap[best];
		i = best;
	}
	w->heap[i] = last;
	return top;
}

static uint32_t
new_message(struct network *w)
{
	if (w->message_free != TOPOLOGY_NONE) {
		const uint32_t i = w->message_free;

		w->message_free = w->messages[i].next;
		return i;
	}
	if (w->message_count == w->message_cap) {
		const uint32_t cap = w->message_cap ? 2 * w->message_cap : 1024;
		struct evaluated_message *grown = realloc(w->messages, cap * sizeof(*grown));

		if (grown == NULL) {
			w->failed = true;
			return TOPOLOGY_NONE;
		}
		w->messages = grown;
		w->message_cap = cap;
	}
	return w->message_count++;
}

/* ------------------------------------------------------------------ links */

/* Return how many senders of this message's destination have something in the port, with this
 * message, which comes now and leaves at `end`, and add it to the port. A last frame that is on the
 * line does not count. */
static uint32_t
senders_in(struct port *p, const struct evaluated_message *m, double now, double end)
{
	uint16_t seen[QUEUE_SLOTS];
	uint32_t n = 0;

	for (uint32_t i = 0; i < QUEUE_SLOTS; i++) {
		const bool counts = p->waiting[i].until_ns > now && p->waiting[i].to == m->to &&
			p->waiting[i].from != m->from;
		uint32_t k = 0;

		while (counts && k < n && seen[k] != p->waiting[i].from)
			k++;
		if (counts && k == n)
			seen[n++] = p->waiting[i].from;
	}
	p->waiting[p->next].from = m->from;
	p->waiting[p->next].to = m->to;
	p->waiting[p->next].until_ns = end;
	p->next = (p->next + 1) % QUEUE_SLOTS;
	return n + 1;
}

/* Count in a port a message that goes without a permit. What several senders send that way may come
 * all at once, however well it went here, so the plan does not fit if the port cannot hold it
 * all. */
static void
count_eager(struct network *w, struct port *p, const struct evaluated_message *m, uint64_t buffer)
{
	p->eager_several |= p->eager > 0 && p->eager_from != m->from;
	p->eager_from = m->from;
	p->eager += m->wire;
	if (buffer && p->eager_several && p->eager > (double)buffer)
		w->cost.fits = false;
}

/* Return by how much a message that crosses an edge from begin to end is late, ns, because its flow
 * gets no more of the edge. */
static double
shape(const struct network *w, struct port *p, const struct evaluated_message *m,
	const struct topology_edge *e, double begin, double end)
{
	double *free_ns = &p->pair_free_ns[(size_t)m->from * w->plan->ranks + m->to];

	*free_ns = (*free_ns > begin ? *free_ns : begin) + m->wire * 8e9 / (double)e->stream_bps;
	return *free_ns > end ? *free_ns - end : 0;
}

/* Put the message onto an edge: its head is there at head_ns, its end at tail_ns. */
static void
enter(struct network *w, uint32_t i, uint32_t edge)
{
	struct evaluated_message *m = &w->messages[i];
	const struct topology *t = w->task->topology;
	const struct topology_edge *e = &t->edges[edge];
	struct port *p = &w->ports[edge];
	const double each = coll_edge_ns_per_byte(t, edge);
	const double frame = m->wire < w->frame ? m->wire : w->frame;
	const double begin = m->head_ns > p->free_ns ? m->head_ns : p->free_ns;
	/* while a message comes in slowly, others' frames go in between */
	const double free_ns = begin + m->wire * each;
	double end = free_ns;

	/* its last frame cannot go before it is there */
	if (end < m->tail_ns + frame * each)
		end = m->tail_ns + frame * each;
	const bool in_switch = t->vertices[e->from].host == TOPOLOGY_NONE;
	const uint64_t buffer = t->vertices[e->from].buffer_bytes;

	if (in_switch && p->free_ns > m->head_ns) {
		const double waits = (p->free_ns - m->head_ns) / each + frame;

		if (waits > (double)w->cost.backlog_bytes) {
			w->cost.backlog_bytes = (uint64_t)waits;
			w->cost.backlog_edge = edge;
		}
		if (buffer && waits > (double)buffer)
			w->cost.fits = false;
	}
	p->free_ns = free_ns;
	/* a short last piece does not overtake the one before it */
	for (uint32_t k = 0; k < QUEUE_SLOTS && !m->permit; k++) {
		if (p->waiting[k].from == m->from && p->waiting[k].to == m->to &&
			p->waiting[k].until_ns > end)
			end = p->waiting[k].until_ns;
	}
	if (in_switch && m->eager)
		count_eager(w, p, m, buffer);
	if (!m->permit) {
		const uint32_t n = senders_in(p, m, m->head_ns + w->frame * each, end);

		if (in_switch && n > w->cost.senders_most)
			w->cost.senders_most = n;
	}
	const double shaped_ns = p->pair_free_ns != NULL ? shape(w, p, m, e, begin, end) : 0;

	m->edge = edge;
	m->head_ns = begin + frame * each + shaped_ns + (double)e->latency_ns;
	m->tail_ns = end + shaped_ns + (double)e->latency_ns;
	push(w, m->head_ns, i);
}

/* Keep a node's processor busy for so long, when it has done all before. Return until when. */
static double
host_works(struct network *w, uint32_t node, double ns)
{
	double *free_ns = &w->host_free_ns[node];

	*free_ns = (*free_ns > w->now ? *free_ns : w->now) + ns;
	return *free_ns;
}

static void
evaluate_send(struct network *w, uint32_t from, const struct coll_out *o)
{
	const struct topology *t = w->task->topology;
	const uint32_t i = new_message(w);

	if (i == TOPOLOGY_NONE)
		return;
	const bool permit = o->go == COLL_GO_PERMIT;
	const uint32_t node = coll_node(w->task, from);
	const double leaves = host_works(w, node,
		coll_message_ns(t, node, permit ? 0 : o->len, w->task->params.message_ns));
	struct evaluated_message *m = &w->messages[i];

	*m = (struct evaluated_message){
		.head_ns = leaves,
		.tail_ns = leaves,
		.wire = (double)coll_wire_bytes(&w->task->params, permit ? 0 : o->len),
		.from = (uint16_t)from,
		.to = o->peer,
		.ordinal = o->ordinal,
		.permit = permit,
		.eager = !permit && w->plan->lists[from].steps[o->step].flags & COLL_EAGER,
		.offset = o->offset,
		.len = o->len,
	};
	const uint32_t edge = topology_route(t, t->hosts[node], coll_node(w->task, o->peer));

	if (edge != TOPOLOGY_NONE) {
		enter(w, i, edge);
		return;
	}
	/* within a host, one after the other */
	double *free_ns = &w->ranks[from].local_free_ns;

	*free_ns = (*free_ns > leaves ? *free_ns : leaves) + m->wire * COLL_LOCAL_NS_PER_BYTE;
	m->edge = TOPOLOGY_NONE;
	m->tail_ns = m->head_ns = *free_ns + COLL_LOCAL_NS;
	push(w, m->tail_ns, i);
}

/* ------------------------------------------------------------------ ranks */

static void
pump(struct network *w, uint32_t rank)
{
	struct evaluated_rank *r = &w->ranks[rank];
	const uint32_t node = coll_node(w->task, rank);
	struct coll_out o;

	while (coll_next(r->exec, &o, (uint64_t)w->now)) {
		if (o.go != COLL_GO_LOCAL)
			evaluate_send(w, rank, &o);
		else
			host_works(w, node, topology_copy_ns(w->task->topology, node, o.len));
	}
	if (!r->done && coll_is_done(r->exec)) {
		r->done = true;
		w->left--;
	}
	const uint64_t at = coll_deadline(r->exec);

	if (at != COLL_NEVER && (r->due_ns <= w->now || (double)at < r->due_ns)) {
		r->due_ns = (double)at > w->now ? (double)at : w->now + 1;
		push(w, r->due_ns, RANKS | rank);
	}
}

/* Take a message that is at its receiver: its processor may have to work on it first. */
static void
heard(struct network *w, uint32_t i)
{
	const struct evaluated_message m = w->messages[i];
	const uint32_t node = coll_node(w->task, m.to);
	const double works = coll_message_ns(w->task->topology, node, m.permit ? 0 : m.len,
		w->task->params.message_ns);

	if (works > 0 && !m.taken) {
		w->messages[i].taken = true;
		push(w, host_works(w, node, works), i);
		return;
	}
	struct coll_exec *c = w->ranks[m.to].exec;

	w->messages[i].next = w->message_free;
	w->message_free = i;
	if (m.permit) {
		w->broken |= coll_permitted(c, m.from, m.ordinal, m.len) < 0;
	} else {
		const int step = coll_heard(c, m.from, m.ordinal, m.offset, m.len);

		w->broken |= step < 0;
		if (step >= 0)
			coll_arrived(c, (uint32_t)step, m.len);
	}
	pump(w, m.to);
}

/* Take a message whose head, or in the end all of it, is at the end of its edge: it goes on to the
 * next edge, or is at its receiver. */
static void
arrive(struct network *w, uint32_t i)
{
	struct evaluated_message *m = &w->messages[i];
	const struct topology *t = w->task->topology;

	if (m->edge == TOPOLOGY_NONE) {
		heard(w, i);
		return;
	}
	const uint32_t next = topology_route(t, t->edges[m->edge].to, coll_node(w->task, m->to));

	if (next != TOPOLOGY_NONE) {
		enter(w, i, next);
		return;
	}
	/* the application's message is complete with its last frame */
	m->edge = TOPOLOGY_NONE;
	if (m->tail_ns > w->now)
		push(w, m->tail_ns, i);
	else
		heard(w, i);
}

static void
evaluate_run(struct network *w)
{
	for (uint32_t r = 0; r < w->plan->ranks; r++)
		pump(w, r);
	while (w->left > 0 && w->heap_count > 0 && !w->failed && !w->broken) {
		const struct evaluated_event e = pop(w);

		w->now = e.at;
		if (!(e.what & RANKS)) {
			arrive(w, e.what);
		} else if (w->ranks[e.what & ~RANKS].due_ns == e.at) {
			w->ranks[e.what & ~RANKS].due_ns = 0;
			pump(w, e.what & ~RANKS);
		}
	}
	w->cost.ns = (uint64_t)w->now;
}

/* ------------------------------------------------------------------ a plan */

int
coll_plan_evaluate(const struct coll_plan *p, const struct coll_task *task, struct coll_cost *out)
{
	struct network w = {
		.plan = p,
		.task = task,
		.ranks = calloc(p->ranks, sizeof(*w.ranks)),
		.ports = calloc(task->topology->edge_count + 1, sizeof(*w.ports)),
		.host_free_ns = calloc(task->topology->host_count, sizeof(*w.host_free_ns)),
		.message_free = TOPOLOGY_NONE,
		.frame = task->params.frame_payload + task->params.frame_overhead,
		.left = p->ranks,
		.cost = {.fits = true},
	};
	struct coll_blocks blocks[COLL_BUFFERS];
	int e = -ENOMEM;

	coll_plan_blocks(p, blocks);
	if (w.ranks == NULL || w.ports == NULL || w.host_free_ns == NULL)
		goto out;
	for (uint32_t i = 0; i < task->topology->edge_count; i++) {
		if (task->topology->edges[i].stream_bps == 0)
			continue;
		w.ports[i].pair_free_ns = calloc((size_t)p->ranks * p->ranks, sizeof(double));
		if (w.ports[i].pair_free_ns == NULL)
			goto out;
	}
	for (uint32_t r = 0; r < p->ranks; r++) {
		void *memory = aligned_alloc(16, coll_exec_bytes(&p->lists[r]));

		if (memory == NULL)
			goto out;
		w.ranks[r].exec = coll_exec_init(memory, &p->lists[r], blocks, 0);
		if (w.ranks[r].exec == NULL) {
			free(memory);
			e = -EINVAL;
			goto out;
		}
	}
	evaluate_run(&w);
	e = w.failed ? -ENOMEM : w.left > 0 || w.broken ? -EDEADLK : 0;
	*out = w.cost;
out:
	for (uint32_t r = 0; w.ranks && r < p->ranks; r++)
		free(w.ranks[r].exec);
	free(w.ranks);
	for (uint32_t i = 0; w.ports != NULL && i < task->topology->edge_count; i++)
		free(w.ports[i].pair_free_ns);
	free(w.ports);
	free(w.host_free_ns);
	free(w.messages);
	free(w.heap);
	return e;
}
