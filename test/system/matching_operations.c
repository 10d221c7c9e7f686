/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a context of the test of matched messages (matching.c) may do next: send, receive, probe,
 * cancel and test, each checked against the model.
 */
#include <stdlib.h>

#include "matching.h"

static uint32_t serials;

static struct pmx_addr
addr_of_end(unsigned i)
{
	return (struct pmx_addr){(uint16_t)(i / CONTEXTS), (uint16_t)(i % CONTEXTS)};
}

static uint64_t
some_tag(void)
{
	uint64_t t = draw() % 4;

	return t | t << 40 | (draw() % 3 ? 0 : 1ull << 63);
}

static void
message_free(struct message *m)
{
	memory_put(&ends[m->from], m->memory, m->slot);
	free(m->twin);
	free(m->expect);
	free(m);
}

void
ops_send(unsigned from)
{
	struct end *e = &ends[from];
	struct message *m = must(calloc(1, sizeof(*m)));
	struct pmx_matched s = {.comm = (uint32_t)(draw() % 2), .tag = some_tag()};

	m->from = from;
	m->to = (unsigned)(draw() % ENDS);
	m->comm = s.comm;
	m->tag = s.tag;
	m->serial = serials;
	m->diff = draw() % 16 == 0;
	if (draw() % 8 == 0)
		s.flags = draw() % 2 ? PMX_SYNC : PMX_DELIVERED;
	s.peer = addr_of_end(m->to);
	if (m->diff) {
		m->spans = 1 + (draw() % 4 ? draw() % 3000 : draw() % 60000);
		message_make_diff(m);
		s.len = m->spans;
		s.part = &m->part;
		s.data = m->memory;
	} else {
		spread_choose(&s, &m->part, m->bits, m->iov, size_draw(), &m->spans, &m->len);
		m->memory = memory_take(e, m->spans, &m->slot);
		spread_place(&s, m->iov, m->memory);
		for (uint64_t i = 0, k = 0; i < m->spans; i++)
			m->memory[i] = s.part == NULL || spread_has(s.part, i)
				? message_byte(m->serial, k++)
				: (uint8_t)i;
	}
	m->asked = e->sends_n < 500 &&
		(draw() % 4 || m->spans > 8000 || s.flags || m->diff ||
			strcmp(rendezvous, "auto") != 0);
	int r = e->sends_n < 500 ? pmx_isend(e->ctx, &s, m->asked ? &m->request : NULL) : -EAGAIN;

	if (r == -EAGAIN || r == -ENOBUFS) {
		message_free(m);
		return;
	}
	if (r != 0) {
		fail("pmx_isend of %lu bytes: %s", s.len, pmx_strerror(r));
		return;
	}
	serials++;
	sent++;
	if (m->diff && memcmp(m->twin, m->memory, m->spans) != 0)
		fail("the twin of a diff that was sent did not follow");
	if (m->request != 0) {
		e->sends[e->sends_n++] = m;
	} else if (!m->asked && m->spans <= 8000) {
		memset(m->memory, 0x11, m->spans); /* it was copied */
	}
	if (e->sent_head[m->to] == NULL)
		e->sent_head[m->to] = m;
	else
		e->sent_tail[m->to]->next = m;
	e->sent_tail[m->to] = m;
}

static void
want_something(struct receive *r, unsigned at, bool everything)
{
	r->at = at;
	r->comm = (uint32_t)(draw() % 2);
	r->any_source = everything || draw() % 4 == 0;
	r->from = (unsigned)(draw() % ENDS);
	r->tag = some_tag();
	r->ignore = everything || draw() % 4 == 0 ? PMX_ANY_TAG
		: draw() % 3 == 0                 ? 1ull << (draw() % 2 ? 63 : draw() % 3)
						  : 0;
	/* often what is there, or on its way, by its own key */
	const struct message *m = ends[at].wait_head;

	for (unsigned skip = draw() % 8; m != NULL && m->next != NULL && skip > 0; skip--)
		m = m->next;
	if (!everything && draw() % 2 && (m != NULL || (m = ends[r->from].sent_head[at]) != NULL)) {
		r->comm = m->comm;
		r->from = m->from;
		r->tag = m->tag;
	}
	r->m.peer = r->any_source ? PMX_ANY_SOURCE : addr_of_end(r->from);
	r->m.comm = r->comm;
	r->m.tag = r->tag;
	r->m.ignore = r->ignore;
}

/* Choose where the bytes of a receive shall go, and take the memory for them. */
static void
room_for(struct end *e, struct receive *r)
{
	uint64_t size = draw() % 4 ? LONGEST : size_draw();

	spread_choose(&r->m, &r->part, r->bits, r->iov, size, &r->spans, &r->room);
	r->memory = memory_take(e, r->spans, &r->slot);
	memset(r->memory, GUARD, r->spans);
	spread_place(&r->m, r->iov, r->memory);
	if (r->m.part == NULL && r->m.iov == NULL && draw() % 8 == 0) {
		r->twin = must(malloc(r->spans ? r->spans : 1));
		r->part = (struct pmx_part){.kind = PMX_PART_TWIN, .twin = r->twin};
		r->m.part = &r->part;
	}
}

static void
receive_free(struct receive *r)
{
	memory_put(&ends[r->at], r->memory, r->slot);
	free(r->twin);
	free(r);
}

static struct receive *
receive_make(unsigned at, bool everything)
{
	struct receive *r = must(calloc(1, sizeof(*r)));

	want_something(r, at, everything);
	room_for(&ends[at], r);
	return r;
}

void
ops_receive(unsigned at, bool everything)
{
	struct end *e = &ends[at];

	if (e->receives_n >= 500)
		return;
	struct receive *r = receive_make(at, everything);

	model_landed(e);
	int result = pmx_irecv(e->ctx, &r->m, &r->request);

	if (result != 0) {
		fail("pmx_irecv: %s", pmx_strerror(result));
		return;
	}
	struct message *m = model_waiting(e, r, true);

	e->receives[e->receives_n++] = r;
	if (m != NULL) {
		model_match(r, m);
		return;
	}
	if (e->posted_head == NULL)
		e->posted_head = r;
	else
		e->posted_tail->next = r;
	e->posted_tail = r;
	e->posted++;
}

void
ops_probe(unsigned at)
{
	struct end *e = &ends[at];
	struct receive want = {0};
	struct pmx_status status;

	want_something(&want, at, draw() % 4 == 0);
	model_landed(e);
	int result = pmx_iprobe(e->ctx, &want.m, &status);
	const struct message *m = model_waiting(e, &want, false);

	/* more landed before it was asked: what was asked earlier made room */
	if (by_engine && m == NULL && result == 1) {
		model_landed(e);
		m = model_waiting(e, &want, false);
	}
	probed++;
	if (result != (m != NULL))
		fail("pmx_iprobe says %d, the model %d", result, m != NULL);
	else if (m != NULL)
		message_check_status("pmx_iprobe", &status, m);
}

void
ops_matched_probe(unsigned at)
{
	struct end *e = &ends[at];
	struct pmx_status status;

	if (e->receives_n >= 500)
		return;
	struct receive *r = receive_make(at, draw() % 2);

	model_landed(e);
	int result = pmx_improbe(e->ctx, &r->m, &r->request, &status);
	struct message *m = model_waiting(e, r, true);

	if (by_engine && m == NULL && result == 1) {
		model_landed(e);
		m = model_waiting(e, r, true);
	}
	probed++;
	if (result != (m != NULL)) {
		fail("pmx_improbe says %d, the model %d", result, m != NULL);
		return;
	}
	if (m == NULL) {
		receive_free(r);
		return;
	}
	message_check_status("pmx_improbe", &status, m);
	if (pmx_test(e->ctx, &r->request, NULL) != -EINVAL)
		fail("pmx_test of a message that was probed");
	end_done_asking(at);
	for (unsigned k = draw() % 4; k > 0; k--)
		nodes_poll();
	result = pmx_imrecv(e->ctx, &r->m, &r->request);
	if (result != 0)
		fail("pmx_imrecv: %s", pmx_strerror(result));
	model_match(r, m);
	e->receives[e->receives_n++] = r;
}

void
ops_cancel(unsigned at)
{
	struct end *e = &ends[at];

	if (e->receives_n == 0)
		return;
	/* The engine has looked, the application may not have: a test of what has ended already
	 * does not look, and the model does. */
	if (!by_engine) {
		const struct pmx_matched nobodys = {.peer = PMX_ANY_SOURCE, .comm = 99};

		pmx_iprobe(e->ctx, &nobodys, NULL);
	}
	model_landed(e);
	struct receive *r = e->receives[draw() % e->receives_n];
	int result = pmx_cancel(e->ctx, r->request);

	if (by_engine && result == -EINPROGRESS) /* more landed before it was asked */
		model_landed(e);
	if (result != (r->got != NULL || r->cancelled ? -EINPROGRESS : 0)) {
		fail("pmx_cancel: %s", pmx_strerror(result));
		return;
	}
	if (result != 0)
		return;
	r->cancelled = true;
	cancelled++;
	struct receive **link = &e->posted_head, *before = NULL;

	while (*link != r) {
		before = *link;
		link = &before->next;
	}
	*link = r->next;
	if (e->posted_tail == r)
		e->posted_tail = before;
	e->posted--;
}

/* Free a message if its send has ended and it was received. */
static void
maybe_free(struct message *m)
{
	if (m->request == 0 && m->to == UINT32_MAX)
		message_free(m);
}

void
receive_test(struct end *e, unsigned i)
{
	struct receive *r = e->receives[i];
	struct pmx_status status;

	model_landed(e);
	int result = pmx_test(e->ctx, &r->request, &status);

	if (result == 0)
		return;
	if (r->cancelled ? result != -ECANCELED : false)
		fail("a receive that was cancelled: %s", pmx_strerror(result));
	if (!r->cancelled)
		receive_check(r, result, &status);
	e->receives[i] = e->receives[--e->receives_n];
	if (r->got != NULL) {
		r->got->to = UINT32_MAX;
		maybe_free(r->got);
	}
	receive_free(r);
}

void
send_test(struct end *e, unsigned i)
{
	struct message *m = e->sends[i];

	model_landed(e);
	int result = pmx_test(e->ctx, &m->request, NULL);

	if (result == 0)
		return;
	if (result != 1)
		fail("message %u, sent: %s", m->serial, pmx_strerror(result));
	e->sends[i] = e->sends[--e->sends_n];
	maybe_free(m);
}

void
ops_tests(unsigned at)
{
	struct end *e = &ends[at];

	for (unsigned k = 0; k < 4 && e->receives_n; k++, done++)
		receive_test(e, (unsigned)(draw() % e->receives_n));
	for (unsigned k = 0; k < 2 && e->sends_n; k++, done++)
		send_test(e, (unsigned)(draw() % e->sends_n));
}
