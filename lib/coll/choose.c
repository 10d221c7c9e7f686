/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The planner: of all generators' plans it takes the one that the evaluator finds fastest. See
 * plan.h.
 *
 * Design notes
 * 1. Planning costs the same for any size. Blocks of many pieces (PIECES_MOST of a plan) are
 *    evaluated at two sizes below that, and time is taken to grow with bytes in a straight line
 *    from there. Where there are so many blocks that each would have but a few pieces, these may
 *    tell of latency alone: then each is evaluated in as few pieces with all its bytes as well,
 *    which forgets that scratch is small, and what takes longer counts.
 * 2. What has more messages than that is worth (n * n of more than 141 ranks) is not evaluated: its
 *    time is guessed from the busiest line and from the ways that come one after the other.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/tour.h"

/* of all messages of a plan; of trees, whose ways are short, 4 times */
#define PIECES_MOST   3000
#define MESSAGES_MOST 10000 /* that are evaluated with several pieces each */
#define PIECES_FEW    8

/* Evaluate what a generator's plan costs for blocks of that size. Return 0 or an error. */
static int
cost_of(enum coll_generator g, const struct coll_task *task, uint64_t bytes, struct coll_cost *out)
{
	struct coll_task t = *task;
	struct coll_plan *p;

	t.bytes = bytes;
	t.only = COLL_NONE;
	int e = coll_plan_make(g, &t, &p);

	if (e != 0)
		return e;
	e = coll_plan_evaluate(p, &t, out);
	coll_plan_free(p);
	return e;
}

/* Return how many messages a plan would have if every block were one message. */
static uint64_t
messages_of(enum coll_generator g, const struct coll_task *task)
{
	const uint64_t n = task->ranks;
	uint64_t log = 1;

	while (1ull << log < n)
		log++;
	switch (g) {
	case COLL_PAPER:
	case COLL_CHAIN:
		return task->kind == COLL_GATHER ? (n * n + 1) / 2 : n;
	case COLL_RING:
	case COLL_PHASES:
		return n * n;
	case COLL_EARLIEST:
		return task->kind == COLL_BCAST || task->kind == COLL_REDUCE_TO ||
				task->kind == COLL_ALLREDUCE || task->kind == COLL_BARRIER
			? n
			: n * n;
	case COLL_AT_ONCE:
		return task->kind == COLL_GATHER || task->kind == COLL_SCATTER ? n : n * n;
	case COLL_BRUCK: /* its runs of blocks are long */
		return task->bytes > task->params.frame_payload ? n * n : n * log;
	case COLL_DOUBLING:
		return n * log;
	case COLL_TWO_TREES:
	case COLL_SPREAD:
		/* runs of blocks are of many pieces */
		return task->kind == COLL_REDUCE_SCATTER ? n * n
			: task->kind == COLL_ALLGATHER
			? 4 * n + n * (n * task->bytes / task->params.frame_payload)
			: n;
	case COLL_IN_TURN:
	case COLL_PERMITS:
	case COLL_BINOMIAL:
	case COLL_TWO_LEVEL:
	case COLL_PAPER_NEAR:
	case COLL_GENERATORS:
		break;
	}
	return n;
}

/* Evaluate what a generator's plan costs for blocks of any size: long ones by two shorter sizes, as
 * note 1 says. Return 0 or an error. */
static int
cost_at_any_size(enum coll_generator g, const struct coll_task *task, struct coll_cost *out)
{
	const bool tree = task->kind == COLL_BCAST || task->kind == COLL_REDUCE_TO;
	const uint64_t most = PIECES_MOST * (tree ? 4 : 1) / messages_of(g, task);
	const uint64_t pieces = most < 2 ? 2 : most;
	struct coll_task t = *task;

	/* a ring of vectors has as many blocks as ranks */
	const uint64_t blocks = task->kind == COLL_ALLREDUCE && g == COLL_RING ? task->ranks : 1;

	const uint32_t piece = coll_piece(task, task->bytes / blocks);

	const uint64_t large = pieces * piece * blocks;

	if (task->bytes <= large)
		return cost_of(g, task, task->bytes, out);
	struct coll_cost half, whole = {0};
	int e = 0;

	if (pieces < PIECES_FEW) {
		t.params.piece = piece * (uint32_t)(task->bytes / blocks / piece / pieces + 1);
		e = cost_of(g, &t, task->bytes, &whole);
		/* pieces of many frames may overtake each other in the evaluator */
		if (e == -EDEADLK) {
			whole.ns = 0;
			e = 0;
		}
	}
	t.params.piece = piece;
	if (e == 0)
		e = cost_of(g, &t, large / 2, &half);
	if (e == 0)
		e = cost_of(g, &t, large, out);
	if (e != 0)
		return e;
	const double each = ((double)out->ns - (double)half.ns) / ((double)large / 2);

	out->ns += (uint64_t)(each * (double)(task->bytes - large));
	out->ns = out->ns > whole.ns ? out->ns : whole.ns;
	return 0;
}

/* Return whether evaluating a plan would take too long. Less time is spent on relays of a gather or
 * a scatter: they lose to permits wherever there are many ranks or blocks are long. */
static bool
is_too_large(enum coll_generator g, const struct coll_task *task)
{
	const uint64_t messages = messages_of(g, task);

	if ((task->kind == COLL_GATHER || task->kind == COLL_SCATTER) &&
		(g == COLL_PAPER || g == COLL_CHAIN || g == COLL_BINOMIAL))
		return messages > PIECES_MOST / 8 ||
			task->bytes / task->params.frame_payload > PIECES_MOST / messages;
	return messages > 2 * MESSAGES_MOST;
}

/* Return whether everyone sends to all others what could go in fewer messages. */
static bool
is_for_all_at_once(enum coll_generator g, enum coll_kind kind)
{
	return g == COLL_AT_ONCE &&
		(kind == COLL_ALLGATHER || kind == COLL_ALLREDUCE || kind == COLL_REDUCE_SCATTER);
}

/* ------------------------------------------------------------------ guesses */

/* The numbers that the guesses for a task are made of, in ns. */
struct choose_ways {
	bool is;        /* made */
	double line;    /* of the busiest line */
	double longest; /* from the root, or to it */
	double hop;     /* the longest between neighbours of the tour */
	double chain;   /* of all clusters, one after the other */
};

static int
ways_make(struct choose_ways *w, const struct coll_task *task)
{
	uint16_t *order = calloc(task->ranks, sizeof(*order));

	if (order == NULL || coll_tour(task, order) != 0) {
		free(order);
		return -ENOMEM;
	}
	for (uint32_t p = 0; p < task->ranks; p++) {
		const uint16_t next = order[p + 1 < task->ranks ? p + 1 : 0];
		const double far = coll_path_between(task, order[p], order[0]).latency_ns;
		const double hop = coll_path_between(task, order[p], next).latency_ns;

		w->longest = far > w->longest ? far : w->longest;
		w->hop = hop > w->hop ? hop : w->hop;
		w->chain += coll_cluster(task, order[p]) != coll_cluster(task, next) ? hop : 0;
	}
	w->line = (double)coll_bound_ns(task) - w->longest;
	w->line = w->line > 0 ? w->line : 0;
	w->is = true;
	free(order);
	return 0;
}

/* About how long it takes. The factors are those of plans that were evaluated. */
static struct coll_cost
guess(enum coll_generator g, const struct coll_task *task, const struct choose_ways *w)
{
	const bool is_short = task->bytes < task->params.frame_payload / 2;
	const double steps = (task->kind == COLL_ALLREDUCE ? 2.0 : 1.0) * (task->ranks - 1);
	struct coll_cost c = {.ns = UINT64_MAX, .backlog_bytes = UINT64_MAX};
	double ns;

	switch (g) {
	case COLL_RING:
		ns = 1.05 * w->line + steps * w->hop;
		break;
	case COLL_PHASES:
		ns = 1.1 * w->line + 4 * w->longest;
		break;
	case COLL_AT_ONCE: /* long ones would not fit the ports */
		if (!is_short || is_for_all_at_once(g, task->kind))
			return c;
		ns = w->line + 2 * w->longest;
		break;
	case COLL_TWO_TREES:
		ns = 1.2 * w->line + 2 * w->chain;
		break;
	case COLL_SPREAD:
		ns = 1.6 * w->line + 4 * w->longest;
		break;
	default:
		return c;
	}
	c.ns = (uint64_t)ns;
	c.fits = true;
	return c;
}

/* ------------------------------------------------------------------ choosing */

/* Return whether cost a is better than cost b. A plan that does not fit loses to all that do, and
 * of two that do not fit the one with the longer queue loses. */
static bool
is_better(const struct coll_cost *a, const struct coll_cost *b)
{
	if (a->fits != b->fits)
		return a->fits;
	return a->fits ? a->ns < b->ns : a->backlog_bytes < b->backlog_bytes;
}

/* Return whether COLL_EARLIEST is worth a look where all may connect. It is for a bcast, reduce,
 * allreduce or barrier with messages so short that they need no permits. */
static bool
is_for_earliest(const struct coll_task *task)
{
	const uint32_t eager = task->params.eager;

	return task->bytes <= (eager ? eager : task->params.frame_payload) &&
		(task->kind == COLL_BCAST || task->kind == COLL_REDUCE_TO ||
			task->kind == COLL_ALLREDUCE || task->kind == COLL_BARRIER);
}

/* Evaluate or guess what a generator's plan costs. open: all ranks may connect. Return 0 or an
 * error; -EOPNOTSUPP: the generator does not do that. */
static int
cost_by_any_means(enum coll_generator g, const struct coll_task *task, bool open,
	struct choose_ways *w, struct coll_cost *out)
{
	/* where not all may connect, no other one is guessed */
	if (!coll_generator_does(g, task->kind) || g == COLL_PAPER_NEAR ||
		(g == COLL_EARLIEST ? open && !is_for_earliest(task)
				    : !open && is_too_large(g, task)))
		return -EOPNOTSUPP;
	if (!is_too_large(g, task)) {
		struct coll_task t = *task;

		/* a flat tree would look better than it is if messages cost its hosts nothing, and
		 * so would everyone's messages to all where there are fewer */
		if ((g == COLL_EARLIEST || is_for_all_at_once(g, task->kind)) &&
			t.params.message_ns == 0)
			t.params.message_ns = COLL_MESSAGE_NS;
		return cost_at_any_size(g, &t, out);
	}
	/* its lists have some ten steps for each rank */
	if (task->kind == COLL_REDUCE_SCATTER && g != COLL_RING &&
		task->ranks > COLL_STEPS_MAX / 10)
		return -EOPNOTSUPP;
	const int e = w->is ? 0 : ways_make(w, task);

	if (e == 0)
		*out = guess(g, task, w);
	return e;
}

int
coll_plan_best(const struct coll_task *task, struct coll_plan **out,
	struct coll_cost costs[COLL_GENERATORS])
{
	enum coll_generator best = COLL_GENERATORS;
	const bool open = coll_may_all_talk(task);
	struct choose_ways ways = {0};
	struct coll_cost least = {0}, c;

	if (costs)
		memset(costs, 0, COLL_GENERATORS * sizeof(*costs));
	for (unsigned g = 0; g < COLL_GENERATORS; g++) {
		const int e = cost_by_any_means(g, task, open, &ways, &c);

		if (e == -EOPNOTSUPP)
			continue;
		if (e != 0)
			return e;
		if (costs && !is_too_large(g, task))
			costs[g] = c;
		if (best == COLL_GENERATORS || is_better(&c, &least)) {
			best = g;
			least = c;
		}
	}
	return best == COLL_GENERATORS ? -EOPNOTSUPP : coll_plan_make(best, task, out);
}
