/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measurements of distributed shared memory between both sides: the first read of a page whose home
 * is the other side, beside a page that is pulled; its first write; an update under a lock; and
 * barriers with and without changes.
 */
#include <errno.h>
#include <string.h>

#include <rte_cycles.h>

#include "match.h"
#include "pmx/dsm.h"

#define GROUP     2 /* number of the group */
#define AREA      1
#define PAGE      4096ull
#define PAGES     8192 /* that can be touched for the first time, at each side */
#define CHANGED   16   /* pages of the other side that each changes before a barrier */
#define UPDATED   1    /* page that is changed under a lock: not one of those */
#define BATCH     500
#define RESPONDER 1 /* rank */

/* The things that both sides do at once: struct order.depth says which one is next. */
enum { SHARE, BARRIERS, END };

static struct {
	struct pmx_group *group;
	struct pmx_dsm *dsm;
	uint8_t *memory[2]; /* by home */
	void *area;         /* a page to be pulled */
} shared;

/* ------------------------------------------------------------------ both sides */

static void
share_end(struct perf_session *s)
{
	pmx_dsm_close(shared.dsm);
	pmx_group_close(shared.group);
	pmx_free(s->ctx, shared.area);
	memset(&shared, 0, sizeof(shared));
}

static int
share(struct perf_session *s, struct pmx_addr initiator, struct pmx_addr responder)
{
	const struct pmx_dsm_params p = {.size = sizeof(p), .bytes = 2 * PAGES * PAGE};
	struct pmx_remote remote;
	void *memory = NULL;
	int e = perf_group_open(s, GROUP, initiator, responder, &shared.group);

	e = e == 0 ? pmx_alloc(s->ctx, PAGE, &shared.area) : e;
	if (e == 0)
		e = pmx_group_area_register(shared.group, AREA, shared.area, PAGE, PMX_REMOTE_READ,
			&remote);
	e = e == 0 ? pmx_dsm_open(shared.group, &p, 10000000, &shared.dsm) : e;
	for (int home = 0; home < 2 && e == 0; home++) {
		e = pmx_dsm_alloc(shared.dsm, PAGES * PAGE, home, &memory);
		shared.memory[home] = memory;
	}
	return e == 0 ? pmx_dsm_barrier(shared.dsm) : e;
}

/* Enter `count` barriers, and before each change `changed` pages whose home is `home`. h gets how
 * long each but the first took; NULL: nothing is recorded. */
static int
barriers(uint64_t count, unsigned changed, unsigned home, struct hist *h)
{
	int e = 0;

	for (uint64_t i = 0; i < count && e == 0; i++) {
		for (unsigned k = 0; k < changed; k++)
			(*(volatile uint64_t *)(shared.memory[home] + (UPDATED + 1 + k) * PAGE))++;
		uint64_t start = rte_rdtsc();

		e = pmx_dsm_barrier(shared.dsm);
		if (h != NULL && i > 0)
			hist_record(h, (uint64_t)perf_ns(rte_rdtsc() - start));
	}
	return e;
}

/* ------------------------------------------------------------------ responder */

static int
dsm_answer(struct perf_session *s, struct pmx_message *m)
{
	struct order o;
	int e = 0;

	if (*(const uint8_t *)pmx_message_data(m) != KIND_DSM)
		return PERF_NOT_MINE;
	if (m->len != sizeof(o))
		return -EPROTO;
	memcpy(&o, pmx_message_data(m), sizeof(o));
	if (o.depth == SHARE)
		e = share(s, m->source, pmx_context_addr(s->ctx));
	else if (o.depth == BARRIERS)
		e = barriers(o.count, o.size, 0, NULL);
	else
		share_end(s);
	return e == 0 ? PERF_ANSWERED : e;
}

const struct responder dsm_responder = {.answer = dsm_answer, .end = share_end};

/* ------------------------------------------------------------------ initiator */

enum { PULL, READ, WRITE, UPDATE, BARRIER, BARRIER_CHANGED, FIGURES };

static int
order(struct perf_session *s, const struct perf_options *o, uint16_t what, uint64_t count,
	uint32_t changed)
{
	const struct order order = {
		.kind = KIND_DSM,
		.depth = what,
		.count = count,
		.size = changed,
	};

	return order_send(s, o->to, &order);
}

static int
pull_page(struct perf_session *s, const struct perf_options *o)
{
	const struct pmx_transfer t = {
		.peer = o->to,
		.flags = PMX_AREA,
		.key = (uint64_t)GROUP << 32 | AREA,
		.local = shared.area,
		.len = PAGE,
	};
	pmx_transfer_id id;
	int e;

	while ((e = pmx_pull(s->ctx, &t, &id)) == -EAGAIN)
		session_idle(s);
	while (e == 0 && (e = pmx_transfer_done(s->ctx, id)) == 0)
		session_idle(s);
	return e == 1 ? 0 : e;
}

static int
update(void)
{
	int e = pmx_dsm_lock(shared.dsm, RESPONDER, 0);

	if (e != 0)
		return e;
	(*(volatile uint64_t *)(shared.memory[RESPONDER] + UPDATED * PAGE))++;
	return pmx_dsm_unlock(shared.dsm, RESPONDER);
}

/* Measure each operation but barriers once; page `at` is touched for the first time. */
static int
touch(struct perf_session *s, const struct perf_options *o, uint64_t at, struct hist *h)
{
	volatile uint64_t *page = (volatile uint64_t *)(shared.memory[RESPONDER] + at * PAGE);
	uint64_t t[5];
	int e;

	t[0] = rte_rdtsc();
	e = pull_page(s, o);
	t[1] = rte_rdtsc();
	(void)*page;
	t[2] = rte_rdtsc();
	*page = 1;
	t[3] = rte_rdtsc();
	e = e == 0 ? update() : e;
	t[4] = rte_rdtsc();
	for (unsigned i = PULL; i <= UPDATE && h != NULL; i++)
		hist_record(&h[i], (uint64_t)perf_ns(t[i + 1] - t[i]));
	return e;
}

static int
dsm_measure(struct perf_session *s, const struct perf_options *o, struct hist *h)
{
	const uint64_t first = UPDATED + 1 + CHANGED, all = PAGES - first;
	const uint64_t rounds = o->rounds < all - BATCH ? o->rounds : all - BATCH;
	int e = order(s, o, SHARE, 0, 0);

	e = e == 0 ? share(s, pmx_context_addr(s->ctx), o->to) : e;
	for (uint64_t i = 0; i < rounds + BATCH && e == 0; i++)
		e = touch(s, o, first + i, i < BATCH ? NULL : h);
	for (unsigned changed = 0; changed <= CHANGED && e == 0; changed += CHANGED) {
		e = order(s, o, BARRIERS, BATCH, changed);
		e = e == 0 ? barriers(BATCH, changed, RESPONDER,
				     &h[changed ? BARRIER_CHANGED : BARRIER])
			   : e;
	}
	return e == 0 ? order(s, o, END, 0, 0) : e;
}

int
test_dsm(struct perf_session *s, const struct perf_options *o)
{
	static const char *const names[FIGURES] = {"page pulled", "first read", "first write",
		"locked update", "barrier", "barrier"};
	static struct hist h[FIGURES];
	int e;

	for (unsigned i = 0; i < FIGURES; i++)
		hist_init(&h[i]);
	e = dsm_measure(s, o, h);
	share_end(s);
	if (e != 0)
		return e;
	row_head(o);
	for (unsigned i = 0; i < FIGURES; i++) {
		struct perf_row r = {.test = "latency", .size = i <= WRITE ? PAGE : 0};

		if (i == BARRIER_CHANGED)
			r.size = CHANGED * PAGE;
		snprintf(r.what, sizeof(r.what), "%s", names[i]);
		row_latency(&r, &h[i]);
		row_print(o, &r);
	}
	return 0;
}
