/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A survey of the network by a group's members: runs the rounds that lib/coll/survey.c plans, one
 * after the other, each behind a barrier, and tells all members' times to it. Goes on by the calls
 * that ask for its end. Runs in the context's thread.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "coll/client/submit.h"

enum survey_step {
	STEP_MEETS,    /* all members, before a round */
	STEP_MEASURES, /* a round */
	STEP_SHARES,   /* what the last rounds took */
};

struct pmx_survey {
	struct pmx_group *g;
	bool closed; /* the group is; g is NULL */
	struct pmx_context *ctx;
	struct survey *survey;
	struct coll_plans *plans; /* of barriers, and of sharing */
	uint32_t ranks, rank;
	enum survey_step step;
	uint32_t round;
	pmx_request request; /* 0: the step has not begun */
	uint64_t began_ns;
	void *memory; /* two blocks: what is sent, what is received */
	uint64_t block;
	uint64_t *took; /* [rounds]: own */
	uint64_t *all;  /* [ranks][rounds] */
};

/* Make room for the rounds up to the next time that times are shared. Return 0 or an error. */
static int
make_room(struct pmx_survey *s)
{
	const uint32_t rounds = survey_rounds(s->survey);

	if (s->memory != NULL)
		pmx_free(s->ctx, s->memory);
	s->memory = NULL;
	free(s->took);
	s->block = (survey_bytes(s->survey) + 63) / 64 * 64;
	s->took = calloc((size_t)rounds * (s->ranks + 1u), sizeof(*s->took));
	s->all = s->took + rounds;
	if (s->took == NULL)
		return -ENOMEM;
	return pmx_alloc(s->ctx, 2 * s->block, &s->memory);
}

void
client_survey_free(struct pmx_survey *s)
{
	if (s == NULL)
		return;
	if (s->g != NULL)
		s->g->survey = NULL;
	if (s->memory != NULL && !s->closed) /* otherwise it is written to until the context ends */
		pmx_free(s->ctx, s->memory);
	free(s->took);
	plans_free(s->plans);
	survey_close(s->survey);
	free(s);
}

int
client_survey_new(struct pmx_survey **out, struct pmx_group *g, struct survey *survey)
{
	struct pmx_survey *s = calloc(1, sizeof(*s));

	if (s == NULL) {
		survey_close(survey);
		return -ENOMEM;
	}
	s->survey = survey;
	s->ctx = g->ctx;
	s->ranks = g->count;
	s->rank = g->rank;
	int e = collectives_plans(g, NULL, &s->plans, NULL, 0);

	if (e == 0)
		e = make_room(s);
	if (e != 0) {
		client_survey_free(s);
		return e;
	}
	s->g = g;
	g->survey = s;
	*out = s;
	return 0;
}

void
client_survey_abandon(struct pmx_group *g)
{
	if (g->survey == NULL)
		return;
	g->survey->closed = true;
	g->survey->g = NULL;
	g->survey = NULL;
}

/* Begin the survey's present step. Return 0; -EAGAIN: later; or an error. */
static int
survey_begin(struct pmx_survey *s)
{
	const uint32_t rounds = survey_rounds(s->survey);
	const struct coll_plan *p;
	struct coll_plan *made;
	int e;

	switch (s->step) {
	case STEP_MEETS:
		e = plans_get(s->plans, COLL_BARRIER, 0, 0, &p);
		return e != 0 ? e : collectives_begin(s->g, p, NULL, NULL, &s->request);
	case STEP_MEASURES:
		e = survey_plan(s->survey, s->round, s->rank, &made);
		if (e != 0)
			return e;
		s->began_ns = coll_clock_ns();
		e = collectives_begin(s->g, made, s->memory, (uint8_t *)s->memory + s->block,
			&s->request);
		coll_plan_free(made);
		return e;
	case STEP_SHARES:
		break;
	}
	e = plans_get(s->plans, COLL_ALLGATHER, 0, rounds * sizeof(*s->took), &p);
	return e != 0 ? e : collectives_begin(s->g, p, s->took, s->all, &s->request);
}

/* Go to the step that comes after one that has ended. Return 0 or an error. */
static int
ended(struct pmx_survey *s)
{
	int e;

	switch (s->step) {
	case STEP_MEETS:
		s->step = STEP_MEASURES;
		break;
	case STEP_MEASURES:
		s->took[s->round++] = coll_clock_ns() - s->began_ns;
		s->step = s->round < survey_rounds(s->survey) ? STEP_MEETS : STEP_SHARES;
		break;
	case STEP_SHARES:
		e = survey_measured(s->survey, s->all);
		if (e == 0 && survey_rounds(s->survey) > 0)
			e = make_room(s);
		s->round = 0;
		s->step = STEP_MEETS;
		return e;
	}
	return 0;
}

int
client_survey_go_on(struct pmx_survey *s, int64_t timeout_us)
{
	int e = 0;

	while (survey_rounds(s->survey) > 0) {
		if (s->request == 0)
			e = s->closed ? -ECANCELED : survey_begin(s);
		if (e == -EAGAIN) {
			ctx_services_progress(s->ctx);
			return 0;
		}
		if (e != 0)
			return e;
		e = pmx_wait(s->ctx, &s->request, NULL, timeout_us);
		if (e == -ETIMEDOUT && s->request != 0)
			return 0;
		e = e == 1 ? ended(s) : e;
		if (e != 0)
			return e;
	}
	return 1;
}

const struct survey *
client_survey_of(const struct pmx_survey *s)
{
	return s->survey;
}

/* ------------------------------------------------------------------ the application's */

int
pmx_coll_survey(struct pmx_group *g, struct pmx_survey **out)
{
	int e = ctx_group_check(g);

	if (e != 0)
		return e;
	if (g->survey != NULL)
		return -EBUSY;
	uint16_t *nodes = malloc(g->count * sizeof(*nodes));
	struct coll_plans *plans = NULL;
	struct survey *survey = NULL;

	e = nodes != NULL ? collectives_plans(g, NULL, &plans, NULL, 0) : -ENOMEM;
	if (e == 0) {
		const struct survey_config c = {
			.ranks = g->count,
			.nodes = nodes,
			.params = plans_params(plans),
		};

		for (uint32_t r = 0; r < g->count; r++)
			nodes[r] = g->members[r].addr.node;
		e = survey_open(&survey, &c);
	}
	plans_free(plans);
	free(nodes);
	return e != 0 ? e : client_survey_new(out, g, survey);
}

/* Go on with a survey, and free it unless this returns 0: not yet. Return 1 and *text when it has
 * ended, or an error. */
static int
test(struct pmx_survey *s, char **text, int64_t timeout_us)
{
	const int e = client_survey_go_on(s, timeout_us);
	const int written = e == 1 ? survey_text(s->survey, text) : 0;

	if (e != 0)
		client_survey_free(s);
	return written != 0 ? written : e;
}

int
pmx_coll_survey_test(struct pmx_survey *s, char **text)
{
	return test(s, text, 0);
}

int
pmx_coll_survey_wait(struct pmx_survey *s, char **text)
{
	struct pmx_context *ctx = s->ctx;
	int e;

	while ((e = test(s, text, -1)) == 0)
		ctx_sleep(ctx, clock_deadline(1000));
	return e;
}
