/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Plans that follow the network (GAT-6): members note when each long collective begins and ends,
 * and tell each other now and then. If several took longer than predicted, they measure the
 * network's links again (lib/coll/survey.h, note 6), and plan by what they find. lib/coll/adapt.h
 * says when.
 *
 * Design notes
 * 1. What a collective took is from the last member's beginning to the last one's end, so who
 *    begins late makes none slow. Clocks differ between hosts, so times count from the end of the
 *    last time that members told each other.
 * 2. All members decide by the same numbers, at the beginning of the same collective. That waits
 *    until they have told each other, and measured: its verb says -EAGAIN, since others may have to
 *    be served by the same thread.
 * 3. Those that overlap another one, or had not ended yet, say nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/client/submit.h"
#include "client/say.h"
#include "coll/adapt.h"

#define SAMPLES  8
#define LONG_NS  1000000  /* shorter ones are not looked at */
#define TELL_NS  10000000 /* members tell each other after so much, as predicted */
#define NO_VALUE UINT64_MAX

enum adapt_step {
	STEP_WATCHES,
	STEP_TELLS,
	STEP_MEASURES,
};

struct coll_adaptation {
	struct adapt judge;
	enum adapt_step step;
	bool off; /* it has failed, as the group has */
	uint32_t changes;
	uint64_t since_ns; /* when members told each other last */
	uint32_t count;    /* samples */
	uint64_t predicted_ns[SAMPLES], predicted_all_ns;
	struct sample {
		uint64_t begin_ns, end_ns; /* 0: it has not ended */
		bool overlaps;
	} banks[2][SAMPLES], *own; /* in turns, as one may end after the others were told */
	struct times {
		uint64_t begin_ns, end_ns; /* from since_ns on; NO_VALUE: nobody knows */
	} told[SAMPLES], all[SAMPLES];     /* own, the latest ones of all */
	pmx_request request;               /* TELLS; 0: it has not begun */
	struct pmx_survey *survey;
};

int
pmx_coll_adapt(struct pmx_group *g)
{
	if (g->adaptation != NULL)
		return 0;
	g->adaptation = calloc(1, sizeof(*g->adaptation));
	if (g->adaptation == NULL)
		return -ENOMEM;
	g->adaptation->since_ns = coll_clock_ns();
	g->adaptation->own = g->adaptation->banks[0];
	return 0;
}

uint32_t
pmx_coll_adapted(const struct pmx_group *g)
{
	return g->adaptation != NULL ? g->adaptation->changes : 0;
}

void
adaptation_free(struct pmx_group *g)
{
	if (g->adaptation != NULL)
		client_survey_free(g->adaptation->survey);
	free(g->adaptation);
	g->adaptation = NULL;
}

uint64_t *
adaptation_begins(struct pmx_group *g, uint64_t predicted_ns)
{
	struct coll_adaptation *a = g->adaptation;

	if (a == NULL || a->off)
		return NULL;
	struct sample *last = a->count > 0 ? &a->own[a->count - 1] : NULL;
	const bool overlaps = last != NULL && last->end_ns == 0;

	if (overlaps)
		last->overlaps = true;
	if (predicted_ns < LONG_NS || a->count == SAMPLES)
		return NULL;
	a->own[a->count] = (struct sample){.begin_ns = coll_clock_ns(), .overlaps = overlaps};
	a->predicted_ns[a->count++] = predicted_ns;
	a->predicted_all_ns += predicted_ns;
	return &a->own[a->count - 1].end_ns;
}

void
adaptation_has_not_begun(struct pmx_group *g)
{
	struct coll_adaptation *a = g->adaptation;

	a->predicted_all_ns -= a->predicted_ns[--a->count];
}

/* ------------------------------------------------------------------ together */

static void
adapt_watch(struct coll_adaptation *a)
{
	a->step = STEP_WATCHES;
	a->since_ns = coll_clock_ns();
	a->count = 0;
	a->predicted_all_ns = 0;
	a->own = a->banks[a->own == a->banks[0]];
}

/* Tell the other members what the own collectives took, and get the latest times of all. Return 1
 * when that has ended; 0: not yet; or an error. */
static int
adapt_tell(struct pmx_group *g, struct coll_adaptation *a)
{
	const struct coll_plan *p;

	if (a->request == 0) {
		int e = plans_get(g->plans, COLL_ALLREDUCE, 0, sizeof(a->told), &p);

		memset(a->told, 0, sizeof(a->told));
		for (uint32_t i = 0; i < a->count; i++) {
			const struct sample *x = &a->own[i];

			a->told[i].begin_ns = x->begin_ns - a->since_ns;
			a->told[i].end_ns = x->overlaps || x->end_ns == 0 ? NO_VALUE
									  : x->end_ns - a->since_ns;
		}
		if (e == 0)
			e = collectives_begin(g, p, a->told, a->all, &a->request);
		if (e != 0)
			return e == -EAGAIN ? 0 : e;
	}
	return pmx_test(g->ctx, &a->request, NULL);
}

/* Return whether the network is to be measured, by what all members have told. */
static bool
adapt_judge(struct coll_adaptation *a)
{
	bool asked = false;

	for (uint32_t i = 0; i < a->count; i++) {
		const struct times *t = &a->all[i];

		if (t->end_ns != NO_VALUE && t->end_ns > t->begin_ns)
			asked |= adapt_took(&a->judge, a->predicted_ns[i], t->end_ns - t->begin_ns);
	}
	return asked;
}

static int
adapt_measure(struct pmx_group *g, struct coll_adaptation *a)
{
	struct survey *survey;
	const int e = plans_survey(g->plans, &survey);

	return e != 0 ? e : client_survey_new(&a->survey, g, survey);
}

static void
measured(struct pmx_group *g, struct coll_adaptation *a)
{
	const bool changed = plans_measured(g->plans, client_survey_of(a->survey));
	const double ratio = a->judge.last;

	adapt_measured(&a->judge, changed);
	if (!changed)
		return;
	a->changes++;
	if (g->rank == 0)
		client_say(PMX_LOG_NOTICE,
			"group %u: collectives took %.2f of the time predicted, so the "
			"network was measured again; their plans are new (change %u)",
			g->id, ratio, a->changes);
}

int
adaptation_due(struct pmx_group *g)
{
	struct coll_adaptation *a = g->adaptation;
	int e = 1;

	if (a == NULL || a->off || g->plans == NULL)
		return 0;
	if (a->step == STEP_WATCHES) {
		if (a->predicted_all_ns < TELL_NS && a->count < SAMPLES)
			return 0;
		a->step = STEP_TELLS;
	}
	if (a->step == STEP_TELLS) {
		e = adapt_tell(g, a);
		if (e == 1 && !adapt_judge(a)) {
			adapt_watch(a);
			return 0;
		}
		if (e == 1)
			e = adapt_measure(g, a);
		if (e == 0 && a->survey == NULL)
			return -EAGAIN;
		a->step = STEP_MEASURES;
	}
	if (a->survey != NULL)
		e = client_survey_go_on(a->survey, 0);
	if (e == 0)
		return -EAGAIN;
	if (e == 1)
		measured(g, a);
	else
		a->off = true; /* what comes next ends with the same error */
	client_survey_free(a->survey);
	a->survey = NULL;
	adapt_watch(a);
	return 0;
}
