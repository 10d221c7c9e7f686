/* SPDX-License-Identifier: BSD-3-Clause */
#include "members.h"

#include <errno.h>
#include <string.h>

#include <rte_cycles.h>

/* Open the contexts of this side; their addresses go to `out`. The first one is the session's. */
static int
contexts_open(struct members *m, struct perf_session *s, unsigned count, struct pmx_addr *out)
{
	const struct pmx_context_params params = {
		.size = sizeof(params),
		.idle = s->idle == PERF_SPIN ? PMX_IDLE_SPIN : PMX_IDLE_AUTO,
	};

	for (unsigned k = 0; k < count; k++) {
		int e = 0;

		if (k == 0)
			m->contexts[k] = s->ctx;
		else
			e = pmx_context_open(&m->contexts[k], s->node, PMX_ANY_CONTEXT, &params);
		if (e != 0)
			return e;
		m->here = k + 1;
		out[k] = pmx_context_addr(m->contexts[k]);
	}
	return 0;
}

static int
groups_open(struct members *m, struct perf_session *s, uint32_t id)
{
	const struct pmx_group_params p = {
		.size = sizeof(p),
		.id = id,
		.count = 2 * m->here,
		.members = m->all,
	};
	pmx_request r[MEMBERS_A_SIDE];
	int e = 0;

	for (unsigned k = 0; k < m->here && e == 0; k++)
		e = pmx_group_open(m->contexts[k], &p, 10000000, &m->groups[k], &r[k]);
	return e == 0 ? members_wait(m, s, r) : e;
}

int
members_open(struct members *m, struct perf_session *s, struct pmx_addr to, const struct order *o)
{
	struct {
		struct order order;
		struct pmx_addr from[MEMBERS_A_SIDE];
	} __attribute__((packed)) ask = {.order = *o};
	const uint32_t each = o->size;
	struct pmx_message answer;
	struct pmx_addr from[MEMBERS_A_SIDE];
	int e = contexts_open(m, s, each, from);

	if (e != 0)
		return e;
	memcpy(m->all, from, each * sizeof(from[0]));
	memcpy(ask.from, from, each * sizeof(from[0]));
	e = perf_send(s, to, &ask, (uint32_t)(sizeof(ask.order) + each * sizeof(from[0])));
	if (e == 0)
		e = perf_receive(s, &answer, rte_rdtsc() + PATIENCE_S * perf_hz());
	if (e < 0)
		return e;
	if (answer.len == each * sizeof(from[0])) {
		memcpy(m->all + each, pmx_message_data(&answer), answer.len);
		e = 0;
	} else {
		e = -EPROTO;
	}
	pmx_release_receive_buffer(s->ctx, &answer);
	return e == 0 ? groups_open(m, s, (uint32_t)o->count) : e;
}

int
members_join(struct members *m, struct perf_session *s, struct pmx_message *asked)
{
	struct order o;
	struct pmx_addr own[MEMBERS_A_SIDE];
	int e;

	memcpy(&o, pmx_message_data(asked), sizeof(o));
	if (o.size == 0 || o.size > MEMBERS_A_SIDE ||
		asked->len != sizeof(o) + o.size * sizeof(own[0]))
		return -EPROTO;
	memcpy(m->all, (const uint8_t *)pmx_message_data(asked) + sizeof(o),
		o.size * sizeof(own[0]));
	e = contexts_open(m, s, o.size, own);
	if (e == 0) {
		memcpy(m->all + o.size, own, o.size * sizeof(own[0]));
		e = perf_send(s, asked->source, own, (uint32_t)(o.size * sizeof(own[0])));
	}
	return e == 0 ? groups_open(m, s, (uint32_t)o.count) : e;
}

int
members_wait(struct members *m, struct perf_session *s, pmx_request r[])
{
	const uint64_t end = rte_rdtsc() + PATIENCE_S * perf_hz();
	unsigned left = m->here;
	bool over[MEMBERS_A_SIDE] = {false};

	for (unsigned i = 1; left > 0; i++) {
		for (unsigned k = 0; k < m->here; k++) {
			const int e = over[k] ? 0 : pmx_test(m->contexts[k], &r[k], NULL);

			if (e < 0)
				return e;
			over[k] |= e == 1;
			left -= (unsigned)e;
		}
		session_polled(s);
		if (i % 1024 == 0 && rte_rdtsc() > end)
			return -ETIMEDOUT;
	}
	return 0;
}

void
members_close(struct members *m)
{
	for (unsigned k = 0; k < m->here; k++)
		pmx_group_close(m->groups[k]);
	for (unsigned k = 1; k < m->here; k++)
		pmx_context_close(m->contexts[k]);
	memset(m, 0, sizeof(*m));
}
