/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See plans.h. Which generator is taken is decided once for a kind, a root, and all sizes up
 * to the next power of two; a plan is made for each size, and the last ones are kept.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/client/plans.h"
#include "coll/text.h"
#include "core/wire/wire.h"

#define PLANS   32 /* kept */
#define CHOICES 256
#define EACH    (64u << 10) /* bytes of a block for which lists of any lengths are made */
#define ANY     UINT64_MAX

/* The network that is assumed where nobody has described one. Its lines are as fast as an engine
 * moves bytes, so that of several plans the one that is fastest on fast lines is taken (measured:
 * allreduce, bcast and reduce of 64 KiB and more; doc/performance.md). Nothing waits because of
 * these rates: lists then have no timetable, and have windows that fill lines of some 10 Gb/s at a
 * host's reaction times. */
#define ONE_SWITCH "switch s buffer=128K\nhost h[0-%u]\nlink h[0-%u] s bandwidth=60G latency=1us\n"

#define WINDOW (256u << 10)
#define GRAIN  (32u << 10)
#define AREA   (128u << 10)

struct plans_kept {
	struct coll_plan *plan;
	enum coll_kind kind;
	uint32_t root;
	uint64_t bytes; /* or ANY */
	uint64_t used;  /* when it was used last */
};

struct choice {
	bool is;
	uint8_t kind, class, generator;
	uint32_t root;
	uint64_t ns; /* of the class's largest size */
};

struct coll_plans {
	struct topology *topology;
	uint16_t *nodes; /* of the topology, by rank */
	uint32_t count, rank, piece;
	bool is_known;                             /* the topology */
	enum coll_generator asked_for[COLL_KINDS]; /* COLL_GENERATORS: none */
	uint64_t uses;
	struct plans_kept *last; /* that was used */
	struct plans_kept kept[PLANS];
	struct choice choices[CHOICES];
	struct coll_plan **loaded; /* from files */
	uint32_t loaded_count;
};

static int
by_number(const void *a, const void *b)
{
	return *(const uint16_t *)a - *(const uint16_t *)b;
}

/* Make a topology in which all nodes are at one switch. Its hosts are the members' nodes in the
 * order of their numbers, and p->nodes becomes the numbers of these hosts. */
static int
one_switch(struct coll_plans *p, char *error, uint32_t error_len)
{
	uint16_t *sorted = malloc(p->count * sizeof(*sorted));
	uint32_t hosts = 0;
	char text[sizeof(ONE_SWITCH) + 32];

	if (sorted == NULL)
		return -ENOMEM;
	memcpy(sorted, p->nodes, p->count * sizeof(*sorted));
	qsort(sorted, p->count, sizeof(*sorted), by_number);
	for (uint32_t i = 0; i < p->count; i++) {
		if (hosts == 0 || sorted[hosts - 1] != sorted[i])
			sorted[hosts++] = sorted[i];
	}
	for (uint32_t r = 0; r < p->count; r++) {
		const uint16_t *at = bsearch(&p->nodes[r], sorted, hosts, sizeof(*sorted),
			by_number);

		p->nodes[r] = (uint16_t)(at - sorted);
	}
	free(sorted);
	snprintf(text, sizeof(text), ONE_SWITCH, hosts - 1, hosts - 1);
	return topology_parse(text, &p->topology, error, error_len);
}

int
plans_open(struct coll_plans **out, const struct pmx_addr *members, uint32_t count, uint32_t rank,
	uint32_t piece, struct topology *topology, char *error, uint32_t error_len)
{
	struct coll_plans *p = calloc(1, sizeof(*p));
	int e = -ENOMEM;

	if (p == NULL) {
		topology_free(topology);
		return -ENOMEM;
	}
	p->topology = topology;
	p->nodes = calloc(count, sizeof(*p->nodes));
	if (p->nodes == NULL)
		goto fail;
	p->count = count;
	p->rank = rank;
	p->piece = piece;
	p->is_known = topology != NULL;
	for (uint32_t kind = 0; kind < COLL_KINDS; kind++)
		p->asked_for[kind] = COLL_GENERATORS;
	for (uint32_t r = 0; r < count; r++)
		p->nodes[r] = members[r].node;
	e = topology == NULL ? one_switch(p, error, error_len) : 0;
	for (uint32_t r = 0; e == 0 && r < count; r++) {
		if (p->nodes[r] < p->topology->host_count)
			continue;
		if (error_len > 0)
			snprintf(error, error_len,
				"the topology has hosts for nodes 0 to %u, and a member is at "
				"node %u",
				p->topology->host_count - 1, p->nodes[r]);
		e = -EINVAL;
	}
	if (e != 0)
		goto fail;
	*out = p;
	return 0;
fail:
	plans_free(p);
	return e;
}

void
plans_free(struct coll_plans *p)
{
	if (p == NULL)
		return;
	for (uint32_t i = 0; i < PLANS; i++)
		coll_plan_free(p->kept[i].plan);
	for (uint32_t i = 0; i < p->loaded_count; i++)
		coll_plan_free(p->loaded[i]);
	free(p->loaded);
	topology_free(p->topology);
	free(p->nodes);
	free(p);
}

struct coll_params
plans_params(const struct coll_plans *p)
{
	return coll_params_of_engines(p->piece);
}

static struct coll_task
task_for(const struct coll_plans *p, enum coll_kind kind, uint32_t root, uint64_t bytes)
{
	return (struct coll_task){
		.kind = kind,
		.topology = p->topology,
		.nodes = p->nodes,
		.ranks = p->count,
		.root = root,
		.bytes = bytes,
		.params = plans_params(p),
		.only = COLL_NONE,
	};
}

/* Return the class of a size. All sizes of a class have the same generator; *top is the largest. */
static uint8_t
class_of(uint64_t bytes, uint64_t *top)
{
	uint8_t class = 0;

	for (*top = 8; *top < bytes; *top *= 2)
		class ++;
	return class;
}

static uint32_t
choice_of(enum coll_kind kind, uint32_t root, uint8_t class)
{
	return (root * 31 + class * 7u + (uint32_t)kind * 131) % CHOICES;
}

static bool
is_choice(const struct choice *c, enum coll_kind kind, uint32_t root, uint8_t class)
{
	return c->is && c->kind == (uint8_t)kind && c->root == root && c->class == class;
}

static int
choose(struct coll_plans *p, enum coll_kind kind, uint32_t root, uint64_t bytes,
	enum coll_generator *generator)
{
	uint64_t top;
	const uint8_t class = class_of(bytes, &top);
	struct choice *c = &p->choices[choice_of(kind, root, class)];

	if (!is_choice(c, kind, root, class)) {
		const struct coll_task task = task_for(p, kind, root, top);
		struct coll_cost costs[COLL_GENERATORS];
		struct coll_plan *best;
		const int e = coll_plan_best(&task, &best, costs);

		if (e != 0)
			return e;
		*c = (struct choice){true, (uint8_t)kind, class, (uint8_t)best->generator, root,
			costs[best->generator].ns};
		coll_plan_free(best);
	}
	*generator = (enum coll_generator)c->generator;
	return 0;
}

/* Note what one KIND=GENERATOR asks for. Return false if the word is none, or no such plan can be
 * made. */
static bool
is_asked_for(struct coll_plans *p, char *word)
{
	char *generator = strchr(word, '=');
	struct coll_plan *made;

	if (generator == NULL)
		return false;
	*generator = 0;
	const enum coll_kind kind = coll_kind_named(word);
	const enum coll_generator g = coll_generator_named(generator + 1);

	*generator = '=';
	if (kind == COLL_KINDS || g == COLL_GENERATORS)
		return false;
	const struct coll_task task = task_for(p, kind, 0, kind == COLL_BARRIER ? 0 : 1);

	if (coll_plan_make(g, &task, &made) != 0)
		return false;
	coll_plan_free(made);
	p->asked_for[kind] = g;
	return true;
}

int
plans_ask_for(struct coll_plans *p, const char *generators, char *error, uint32_t error_len)
{
	char *words = strdup(generators), *save = NULL;
	int e = words != NULL ? 0 : -ENOMEM;

	for (char *w = e == 0 ? strtok_r(words, ",", &save) : NULL; w != NULL && e == 0;
		w = strtok_r(NULL, ",", &save)) {
		if (is_asked_for(p, w))
			continue;
		snprintf(error, error_len,
			"PMX_COLL_GENERATORS: \"%s\" is no KIND=GENERATOR (pmx-ctl plan --kind "
			"KIND shows which there are)",
			w);
		e = -EINVAL;
	}
	free(words);
	return e;
}

/* Check whether this group's frames and its receivers can take a plan from a file: otherwise it is
 * not used. Return 0, or -EINVAL with a sentence in error. */
static int
suits(const struct coll_plans *p, const struct coll_plan *plan, char *error, uint32_t error_len)
{
	const struct coll_list *l = &plan->lists[p->rank];
	struct coll_blocks blocks[COLL_BUFFERS];

	if (plan->ranks != p->count)
		snprintf(error, error_len, "a plan of %u ranks, but the group has %u", plan->ranks,
			p->count);
	else if (l->piece > p->piece)
		snprintf(error, error_len, "pieces of %u bytes, but frames take %u here", l->piece,
			p->piece);
	else {
		coll_plan_blocks(plan, blocks);
		for (uint32_t i = 0; i < l->count; i++) {
			const struct coll_step *s = &l->steps[i];

			if ((s->op != COLL_SEND && s->op != COLL_RECV) ||
				!(s->flags & COLL_EAGER) ||
				coll_run_bytes(&blocks[COLL_IN], s->block, s->blocks) <=
					WIRE_COLL_EAGER)
				continue;
			snprintf(error, error_len, "step %u sends more than %u bytes unasked", i,
				WIRE_COLL_EAGER);
			return -EINVAL;
		}
		return 0;
	}
	return -EINVAL;
}

int
plans_load(struct coll_plans *p, const char *paths, char *error, uint32_t error_len)
{
	char *copy = strdup(paths), *save = NULL, why[200] = "";
	int e = copy != NULL ? 0 : -ENOMEM;

	for (char *path = e == 0 ? strtok_r(copy, ":", &save) : NULL; path != NULL && e == 0;
		path = strtok_r(NULL, ":", &save)) {
		struct coll_plan **more = realloc(p->loaded,
			(p->loaded_count + 1) * sizeof(*p->loaded));
		struct coll_plan *plan = NULL;
		char *text = NULL;

		if (more != NULL)
			p->loaded = more;
		e = more != NULL ? coll_text_read(path, &text) : -ENOMEM;
		if (e == 0)
			e = coll_plan_read(text, &plan, why, sizeof(why));
		if (e == 0)
			e = suits(p, plan, why, sizeof(why));
		free(text);
		if (e == 0)
			p->loaded[p->loaded_count++] = plan;
		else
			coll_plan_free(plan);
		if (e != 0 && e != -ENOMEM) {
			snprintf(error, error_len, "PMX_COLL_PLANS: %s: %s", path,
				why[0] != 0 ? why : strerror(-e));
			e = -EINVAL;
		}
	}
	free(copy);
	return e;
}

static bool
is_kept(const struct plans_kept *k, enum coll_kind kind, uint32_t root, uint64_t bytes)
{
	return k != NULL && k->plan != NULL && k->kind == kind && k->root == root &&
		k->bytes == bytes;
}

/* Return the place of a plan: the one where it is kept, or the one that was not used for longest,
 * emptied for it. */
static struct plans_kept *
plans_find(struct coll_plans *p, enum coll_kind kind, uint32_t root, uint64_t bytes)
{
	struct plans_kept *oldest = &p->kept[0];

	for (uint32_t i = 0; i < PLANS; i++) {
		struct plans_kept *k = &p->kept[i];

		if (is_kept(k, kind, root, bytes))
			return k;
		if (k->used < oldest->used)
			oldest = k;
	}
	coll_plan_free(oldest->plan);
	*oldest = (struct plans_kept){.kind = kind, .root = root, .bytes = bytes};
	return oldest;
}

/* Return whether no message of a list waits for another one. Of other lists, few messages are under
 * way at a time anyhow, and a window would only cut them into grains. */
static bool
is_independent(const struct coll_list *l)
{
	for (uint32_t i = 0; i < l->count; i++) {
		const struct coll_step *s = &l->steps[i];

		if ((s->op == COLL_SEND || s->op == COLL_RECV) && s->after[0] != COLL_NONE)
			return false;
	}
	return true;
}

static void
without_times(struct coll_plan *plan, uint32_t rank)
{
	struct coll_list *l = &plan->lists[rank];

	for (uint64_t i = 0; i < plan->step_count; i++)
		plan->steps[i].at_us = plan->steps[i].lead_ns = plan->steps[i].pace = 0;
	l->send_pace = 0;
	l->load_in = l->load_out = 0;
	l->window = is_independent(l) ? WINDOW : 0;
	l->grain = GRAIN;
	if (l->area_bytes > l->piece && l->area_bytes < AREA)
		l->area_bytes = AREA; /* areas of a piece are for what needs no permits */
}

static int
plans_make(struct coll_plans *p, struct plans_kept *k, enum coll_generator generator,
	uint64_t bytes)
{
	struct coll_task task = task_for(p, k->kind, k->root, bytes);

	task.only = p->rank;
	const int e = coll_plan_make(generator, &task, &k->plan);

	if (e == 0 && (!p->is_known || k->bytes == ANY))
		without_times(k->plan, p->rank);
	return e;
}

static const struct coll_plan *
use(struct coll_plans *p, struct plans_kept *k)
{
	k->used = ++p->uses;
	p->last = k;
	return k->plan;
}

/* Return the plan of such a collective that was read from a file, or NULL: no file has it. */
static const struct coll_plan *
loaded_one(const struct coll_plans *p, enum coll_kind kind, uint32_t root, uint64_t bytes)
{
	for (uint32_t i = 0; i < p->loaded_count; i++) {
		const struct coll_plan *l = p->loaded[i];

		if (l->kind == kind && l->root == root && l->bytes == bytes)
			return l;
	}
	return NULL;
}

int
plans_get(struct coll_plans *p, enum coll_kind kind, uint32_t root, uint64_t bytes,
	const struct coll_plan **out)
{
	if (is_kept(p->last, kind, root, bytes)) {
		*out = use(p, p->last);
		return 0;
	}
	*out = loaded_one(p, kind, root, bytes);
	if (*out != NULL)
		return 0;
	struct plans_kept *k = plans_find(p, kind, root, bytes);
	enum coll_generator generator = p->asked_for[kind];

	if (k->plan == NULL) {
		int e = generator != COLL_GENERATORS ? plans_make(p, k, generator, bytes)
						     : -EOPNOTSUPP;

		/* what it cannot do at that length goes as if nobody had asked for it */
		if (e == -EOPNOTSUPP)
			e = choose(p, kind, root, bytes, &generator);
		if (e == 0 && k->plan == NULL)
			e = plans_make(p, k, generator, bytes);
		if (e != 0)
			return e;
	}
	*out = use(p, k);
	return 0;
}

int
plans_get_any(struct coll_plans *p, enum coll_kind kind, uint32_t root,
	const struct coll_plan **out)
{
	static const enum coll_generator by[COLL_KINDS] = {
		[COLL_GATHER] = COLL_PERMITS,
		[COLL_SCATTER] = COLL_PERMITS,
		[COLL_ALLGATHER] = COLL_RING,
		[COLL_ALLTOALL] = COLL_PHASES,
	};
	struct plans_kept *k = is_kept(p->last, kind, root, ANY) ? p->last
								 : plans_find(p, kind, root, ANY);

	if (k->plan == NULL) {
		const int e = plans_make(p, k, by[kind], EACH);

		if (e != 0)
			return e;
		k->plan->hash = ~k->plan->hash;
	}
	*out = use(p, k);
	return 0;
}

/* ------------------------------------------------------------------ a network that changes */

/* Within a class, time grows with bytes. */
uint64_t
plans_predicted(const struct coll_plans *p, enum coll_kind kind, uint32_t root, uint64_t bytes)
{
	uint64_t top;
	const uint8_t class = class_of(bytes, &top);
	const struct choice *c = &p->choices[choice_of(kind, root, class)];

	if (!p->is_known || !is_choice(c, kind, root, class))
		return 0;
	return (uint64_t)((double)c->ns * (double)bytes / (double)top);
}

int
plans_survey(const struct coll_plans *p, struct survey **out)
{
	const struct survey_config c = {
		.ranks = p->count,
		.nodes = p->nodes,
		.params = plans_params(p),
	};

	return survey_again(out, &c, p->topology);
}

bool
plans_measured(struct coll_plans *p, const struct survey *s)
{
	if (!survey_rates(s, p->topology))
		return false;
	for (uint32_t i = 0; i < PLANS; i++) {
		coll_plan_free(p->kept[i].plan);
		p->kept[i] = (struct plans_kept){0};
	}
	p->last = NULL;
	memset(p->choices, 0, sizeof(p->choices));
	return true;
}
