/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Matched messages against a model: two embedded nodes in one process, joined by a link that may
 * lose, reorder, double and corrupt frames. Every context runs a random program of pmx_isend,
 * pmx_irecv, probes and cancels, with and without wildcards, of all sizes and layouts. The model
 * knows the order in which messages landed in each context's LHS ring, keeps two plain lists, and
 * says which message each receive gets; the bytes are known by their message's number. matching.sh
 * runs it.
 */
#include <errno.h>
#include <getopt.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include <rte_mempool.h>

#include "client/client.h"
#include "engine/lane.h"
#include "helpers.h"
#include "pmx/pmx.h"

#define NODES     2
#define CONTEXTS  4
#define ENDS      (NODES * CONTEXTS)
#define LONGEST   150000u
/* of memory of pmx_alloc, for each context's sends and receives */
#define SLOTS     8
#define WAIT_MOST 60 /* messages or receives that wait at a context, about */
#define GUARD     0xEE
#define STUCK_S   60

struct message {
	struct message *next; /* of the same sender and receiver, in the order sent; then of
			       * those that wait */
	unsigned from, to;
	uint32_t comm;
	uint64_t tag, len; /* len: bytes of it */
	uint32_t serial;
	bool diff, asked; /* asked: the sender tests its request */
	uint8_t *memory;  /* what is sent, all that it spans */
	uint64_t spans;
	int slot;
	uint8_t *twin, *expect; /* diff: what the receiver's bytes become where they are not
				 * GUARD */
	uint64_t reach;         /* diff: end of the last byte that differs */
	struct pmx_part part;
	uint64_t bits[64];
	struct iovec iov[8];
	pmx_request request;
};

struct receive {
	struct receive *next; /* of those posted */
	unsigned at;
	bool any_source;
	unsigned from;
	uint32_t comm;
	uint64_t tag, ignore;
	uint8_t *memory, *twin; /* all that it spans */
	uint64_t spans, room;   /* room: bytes of a message */
	int slot;
	struct pmx_part part;
	uint64_t bits[64];
	struct iovec iov[8];
	struct pmx_matched m;
	pmx_request request;
	struct message *got; /* by the model */
	bool cancelled;
};

struct end {
	struct pmx_context *ctx;
	const struct inlet *in;
	uint32_t landed; /* entries that the model has seen */
	/* by receiver, that the model has not seen land */
	struct message *sent_head[ENDS], *sent_tail[ENDS];
	struct message *wait_head, *wait_tail; /* unexpected */
	struct receive *posted_head, *posted_tail;
	unsigned waiting, posted;
	struct receive *receives[512]; /* that did not end, in any order */
	struct message *sends[512];    /* whose request did not end */
	unsigned receives_n, sends_n;
	uint8_t *arena;
	bool used[SLOTS];
};

static struct pmx_node *nodes[NODES];
static struct end ends[ENDS];
static unsigned pool_before[NODES];
static uint64_t operations = 200000, done, sent, matched, truncated, cancelled, probed, wildcards;
static uint32_t serials;
static bool by_engine;
static const char *rendezvous = "auto";

static inline uint8_t
byte_of(uint32_t serial, uint64_t i)
{
	return (uint8_t)((serial * 2654435761u >> 8) + i * 7 + (i >> 8));
}

/* matching = engine: what a context asks is done before anything else is asked of its node; so what
 * has landed by then, and nothing else, comes before it. */
static void
done_asking(unsigned at)
{
	struct channel *channels = nodes[at / CONTEXTS]->embedded->channels;

	for (unsigned k = 0; by_engine && k < 100000; k++) {
		bool all = true;

		for (unsigned i = 0; i < CONTEXTS; i++)
			all &= channels[i].sub.pos ==
				ends[at / CONTEXTS * CONTEXTS + i].ctx->sub.pos;
		if (all)
			return;
		pmx_node_poll(nodes[at / CONTEXTS]);
		if (k > 1000)
			pmx_node_poll(nodes[!(at / CONTEXTS)]);
	}
	if (by_engine)
		fail("context %u: its submissions are not taken", at);
}

static void
poll_nodes(void)
{
	pmx_node_poll(nodes[0]);
	pmx_node_poll(nodes[1]);
}

/* ------------------------------------------------------------------ memory */

static uint8_t *
memory_take(struct end *e, uint64_t len, int *slot)
{
	*slot = -1;
	if (len > 4000 && draw() % 2) {
		for (int i = 0; i < SLOTS; i++) {
			if (e->used[i])
				continue;
			e->used[i] = true;
			*slot = i;
			return e->arena + (size_t)i * LONGEST;
		}
	}
	return must(malloc(len ? len : 1));
}

static void
memory_put(struct end *e, uint8_t *memory, int slot)
{
	if (slot >= 0)
		e->used[slot] = false;
	else
		free(memory);
}

/* ------------------------------------------------------------------ the model */

static bool
accepts(const struct receive *r, const struct message *m)
{
	return r->comm == m->comm && (r->any_source || r->from == m->from) &&
		((r->tag ^ m->tag) & ~r->ignore) == 0;
}

static void
model_match(struct receive *r, struct message *m)
{
	r->got = m;
	matched++;
	wildcards += r->any_source || r->ignore != 0;
}

/* The oldest receive that takes it, out of the list; NULL. */
static struct receive *
model_posted(struct end *e, const struct message *m)
{
	struct receive *before = NULL, *r = e->posted_head;

	for (; r != NULL && !accepts(r, m); r = r->next)
		before = r;
	if (r == NULL)
		return NULL;
	if (before == NULL)
		e->posted_head = r->next;
	else
		before->next = r->next;
	if (e->posted_tail == r)
		e->posted_tail = before;
	e->posted--;
	return r;
}

/* The oldest message that it takes; out of the list if `take`. */
static struct message *
model_waiting(struct end *e, const struct receive *r, bool take)
{
	struct message *before = NULL, *m = e->wait_head;

	for (; m != NULL && !accepts(r, m); m = m->next)
		before = m;
	if (m == NULL || !take)
		return m;
	if (before == NULL)
		e->wait_head = m->next;
	else
		before->next = m->next;
	if (e->wait_tail == m)
		e->wait_tail = before;
	e->waiting--;
	return m;
}

/* What landed since, in the order of the ring; called before the library looks. */
static void
model_landed(struct end *e)
{
	const struct lhs_end *ring = &e->in->lhs;

	for (; e->landed != ring->pos; e->landed++) {
		const struct lhs_entry *entry = lhs_at(ring, e->landed);
		unsigned from = entry->src_node * CONTEXTS + entry->src_ctx,
			 to = (unsigned)(e - ends);
		struct message *m = ends[from].sent_head[to];

		if (m == NULL) {
			fail("context %u got a message of %u that it did not send, or twice", to,
				from);
			return;
		}
		ends[from].sent_head[to] = m->next;
		struct receive *r = model_posted(e, m);

		if (r != NULL) {
			model_match(r, m);
			continue;
		}
		m->next = NULL;
		if (e->wait_head == NULL)
			e->wait_head = m;
		else
			e->wait_tail->next = m;
		e->wait_tail = m;
		e->waiting++;
	}
}

/* ------------------------------------------------------------------ layouts */

/* Some way to lie in memory: sets m's data, len, iov or part, *spans, *total. `size` is about what
 * it shall have. */
static void
lay_out(struct pmx_matched *m, struct pmx_part *part, uint64_t *bits, struct iovec *iov,
	uint64_t size, uint64_t *spans, uint64_t *total)
{
	unsigned kind = draw() % 10;

	*spans = *total = size;
	if (kind == 0 && size >= 16 && size <= LONGEST / 3) {
		uint64_t block = 1 + draw() % (size < 24 ? 16 : 24), count = size / block,
			 interval = block + draw() % (block < 24 ? block + 1 : 2);

		*part = (struct pmx_part){
			.kind = PMX_PART_STRIDE,
			.dims = 1,
			.block = block,
			.interval = {interval},
			.count = {count},
		};
		*spans = (count - 1) * interval + block;
		*total = count * block;
		m->part = part;
	} else if (kind == 1 && size >= 64 && size <= LONGEST / 3) {
		uint32_t unit = size > 2000 ? 512 : 4;
		uint64_t units = 2 * size / unit;

		units = units > 64 * 64 ? 64 * 64 : units;
		*total = 0;
		for (uint64_t i = 0; i < (units + 63) / 64; i++)
			bits[i] = draw() & draw();
		for (uint64_t i = 0; i < units; i++)
			*total += bits[i / 64] >> i % 64 & 1 ? unit : 0;
		*spans = units * unit;
		*part = (struct pmx_part){.kind = PMX_PART_BITMAP, .unit = unit, .bits = bits};
		m->part = part;
	} else if (kind == 2) {
		m->iov_count = 1 + draw() % 8;
		m->iov = iov;
		*spans = 0;
		for (unsigned i = 0; i < m->iov_count; i++) {
			uint64_t left = size - *spans,
				 piece = i + 1 == m->iov_count ? left : draw() % (left + 1);

			iov[i].iov_len = piece;
			/* made an address by place_iov */
			iov[i].iov_base = (void *)(uintptr_t)*spans;
			*spans += piece;
		}
	}
	m->len = *spans;
}

static void
place_iov(struct pmx_matched *m, struct iovec *iov, uint8_t *memory)
{
	for (unsigned i = 0; m->iov != NULL && i < m->iov_count; i++)
		iov[i].iov_base = memory + (uintptr_t)iov[i].iov_base;
	m->data = m->iov != NULL ? NULL : memory;
}

/* Is byte `at` of what it spans one of its bytes? */
static bool
is_part(const struct pmx_part *p, uint64_t at)
{
	if (p->kind == PMX_PART_STRIDE) {
		uint64_t i = at / p->interval[0];

		return i < p->count[0] && at - i * p->interval[0] < p->block;
	}
	if (p->kind == PMX_PART_BITMAP)
		return p->bits[at / p->unit / 64] >> at / p->unit % 64 & 1;
	return true;
}

/* ------------------------------------------------------------------ operations */

static struct pmx_addr
addr_of_end(unsigned i)
{
	return (struct pmx_addr){(uint16_t)(i / CONTEXTS), (uint16_t)(i % CONTEXTS)};
}

static uint64_t
some_size(void)
{
	switch (draw() % 8) {
	case 0:
	case 1:
	case 2:
		return draw() % 30;
	case 3:
	case 4:
		return draw() % 1600;
	case 5:
		return draw() % 20000;
	case 6:
		return 16300 + draw() % 300;
	default:
		return draw() % LONGEST;
	}
}

static uint64_t
some_tag(void)
{
	uint64_t t = draw() % 4;

	return t | t << 40 | (draw() % 3 ? 0 : 1ull << 63);
}

static void
make_diff(struct message *m)
{
	m->memory = must(malloc(m->spans ? m->spans : 1));
	m->twin = must(malloc(m->spans ? m->spans : 1));
	m->expect = must(malloc(m->spans ? m->spans : 1));
	m->slot = -1;
	memset(m->expect, GUARD, m->spans);
	for (uint64_t i = 0; i < m->spans; i++) {
		m->memory[i] = m->twin[i] = (uint8_t)(i * 3);
		if (draw() % 16 == 0) {
			m->memory[i] = (uint8_t)~m->twin[i];
			m->expect[i] = m->memory[i];
			m->reach = i + 1;
		}
	}
	m->part = (struct pmx_part){.kind = PMX_PART_DIFF, .twin = m->twin};
}

static void
message_free(struct message *m)
{
	memory_put(&ends[m->from], m->memory, m->slot);
	free(m->twin);
	free(m->expect);
	free(m);
}

static void
do_send(unsigned from)
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
		make_diff(m);
		s.len = m->spans;
		s.part = &m->part;
		s.data = m->memory;
	} else {
		lay_out(&s, &m->part, m->bits, m->iov, some_size(), &m->spans, &m->len);
		m->memory = memory_take(e, m->spans, &m->slot);
		place_iov(&s, m->iov, m->memory);
		for (uint64_t i = 0, k = 0; i < m->spans; i++)
			m->memory[i] = s.part == NULL || is_part(s.part, i)
				? byte_of(m->serial, k++)
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

/* Where it shall go. */
static void
room_for(struct end *e, struct receive *r)
{
	uint64_t size = draw() % 4 ? LONGEST : some_size();

	lay_out(&r->m, &r->part, r->bits, r->iov, size, &r->spans, &r->room);
	r->memory = memory_take(e, r->spans, &r->slot);
	memset(r->memory, GUARD, r->spans);
	place_iov(&r->m, r->iov, r->memory);
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

static void
do_receive(unsigned at, bool everything)
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

static void
check_status(const char *what, const struct pmx_status *s, const struct message *m)
{
	if (s->source.node != m->from / CONTEXTS || s->source.context != m->from % CONTEXTS ||
		s->tag != m->tag || (!m->diff && s->len != m->len))
		fail("%s: says %u.%u tag %lx of %lu bytes; it is %u.%u tag %lx of %lu", what,
			s->source.node, s->source.context, s->tag, s->len, m->from / CONTEXTS,
			m->from % CONTEXTS, m->tag, m->len);
}

static void
do_probe(unsigned at)
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
		check_status("pmx_iprobe", &status, m);
}

static void
do_matched_probe(unsigned at)
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
	check_status("pmx_improbe", &status, m);
	if (pmx_test(e->ctx, &r->request, NULL) != -EINVAL)
		fail("pmx_test of a message that was probed");
	done_asking(at);
	for (unsigned k = draw() % 4; k > 0; k--)
		poll_nodes();
	result = pmx_imrecv(e->ctx, &r->m, &r->request);
	if (result != 0)
		fail("pmx_imrecv: %s", pmx_strerror(result));
	model_match(r, m);
	e->receives[e->receives_n++] = r;
}

static void
do_cancel(unsigned at)
{
	struct end *e = &ends[at];

	if (e->receives_n == 0)
		return;
	if (by_engine) /* it has looked, the application has not */
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

/* What must be where the diff was received. */
static void
check_diff(const struct receive *r, const struct message *m, int result)
{
	bool plain = r->m.iov == NULL && (r->m.part == NULL || r->m.part->kind == PMX_PART_TWIN);

	if (!plain) {
		if (result != -EOPNOTSUPP)
			fail("a diff into parts: %s", pmx_strerror(result));
		return;
	}
	if (result != (m->reach <= r->spans ? 1 : -EMSGSIZE))
		fail("a diff that reaches to %lu into %lu bytes: %s", m->reach, r->spans,
			pmx_strerror(result));
	for (uint64_t i = 0; result == 1 && i < r->spans; i++) {
		uint8_t want = i < m->spans ? m->expect[i] : GUARD;

		if (r->memory[i] != want) {
			fail("message %u, a diff: byte %lu of %lu is %02x, not %02x", m->serial, i,
				r->spans, r->memory[i], want);
			return;
		}
	}
}

static void
check_received(const struct receive *r, int result, const struct pmx_status *status)
{
	const struct message *m = r->got;

	if (m == NULL) {
		fail("a receive ended that the model gives no message: %s", pmx_strerror(result));
		return;
	}
	check_status("a receive", status, m);
	if (m->diff) {
		check_diff(r, m, result);
	} else {
		if (result != (m->len <= r->room ? 1 : -EMSGSIZE)) {
			fail("message %u of %lu bytes into %lu: %s", m->serial, m->len, r->room,
				pmx_strerror(result));
			return;
		}
		truncated += result != 1;
		for (uint64_t i = 0, k = 0; i < r->spans; i++) {
			bool mine = r->m.part == NULL || is_part(r->m.part, i);
			uint8_t want = mine && k < m->len ? byte_of(m->serial, k) : GUARD;

			k += mine;
			if (r->memory[i] != want) {
				fail("message %u of %lu bytes: byte %lu of %lu is %02x, not %02x",
					m->serial, m->len, i, r->spans, r->memory[i], want);
				return;
			}
		}
	}
	if (r->twin != NULL && memcmp(r->twin, r->memory, r->spans) != 0)
		fail("message %u: the twin is another", m->serial);
}

/* Messages whose both ends are done with are freed: the sender's request, and the receive. */
static void
maybe_free(struct message *m)
{
	if (m->request == 0 && m->to == UINT32_MAX)
		message_free(m);
}

static void
test_receive(struct end *e, unsigned i)
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
		check_received(r, result, &status);
	e->receives[i] = e->receives[--e->receives_n];
	if (r->got != NULL) {
		r->got->to = UINT32_MAX;
		maybe_free(r->got);
	}
	receive_free(r);
}

static void
test_send(struct end *e, unsigned i)
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

static void
do_tests(unsigned at)
{
	struct end *e = &ends[at];

	for (unsigned k = 0; k < 4 && e->receives_n; k++, done++)
		test_receive(e, (unsigned)(draw() % e->receives_n));
	for (unsigned k = 0; k < 2 && e->sends_n; k++, done++)
		test_send(e, (unsigned)(draw() % e->sends_n));
}

static void
step(void)
{
	unsigned at = (unsigned)(draw() % ENDS), what = draw() % 100;
	struct end *e = &ends[at];

	done++;
	if (what < 40)
		e->waiting < WAIT_MOST || draw() % 4 == 0 ? do_send(at)
							  : do_receive(at, draw() % 4 == 0);
	else if (what < 70)
		e->posted < WAIT_MOST ? do_receive(at, e->waiting > WAIT_MOST && draw() % 4 == 0)
				      : do_send(at);
	else if (what < 76)
		do_probe(at);
	else if (what < 82)
		do_matched_probe(at);
	else if (what < 86)
		do_cancel(at);
	else
		do_tests(at);
	done_asking(at);
	if (draw() % 3 == 0)
		poll_nodes();
}

/* All that was sent is received, and nothing else ends. */
static void
settle(void)
{
	double give_up = now_s() + STUCK_S;
	bool busy = true;

	while (busy && !failed) {
		busy = false;
		poll_nodes();
		for (unsigned i = 0; i < ENDS && !failed; i++) {
			struct end *e = &ends[i];

			model_landed(e);
			/* would take what is not theirs: out of the way */
			while (e->posted_head != NULL && !failed) {
				struct receive *r = e->posted_head;
				int result = pmx_cancel(e->ctx, r->request);

				if (by_engine && result == -EINPROGRESS) {
					model_landed(e);
					if (r->got == NULL)
						fail("pmx_cancel at the end: too late, but the "
						     "model gives it no message");
					continue;
				}
				if (result != 0)
					fail("pmx_cancel at the end");
				done_asking(i);
				e->posted_head = r->next;
				r->cancelled = true;
			}
			e->posted = 0;
			for (unsigned k = e->receives_n; k-- > 0 && !failed;)
				test_receive(e, k);
			for (unsigned k = e->sends_n; k-- > 0 && !failed;)
				test_send(e, k);
			if (e->wait_head != NULL)
				do_receive(i, true);
			done_asking(i);
			for (unsigned to = 0; to < ENDS; to++)
				busy |= e->sent_head[to] != NULL;
			busy |= e->receives_n != 0 || e->sends_n != 0 || e->wait_head != NULL ||
				pmx_sends_pending(e->ctx) != 0;
		}
		if (now_s() > give_up) {
			for (unsigned i = 0; i < ENDS; i++)
				fprintf(stderr,
					"context %u: %u receives, %u sends, %u wait; transfers "
					"%u\n",
					i, ends[i].receives_n, ends[i].sends_n, ends[i].waiting,
					pmx_transfers_pending(ends[i].ctx));
			fail("some messages never arrived");
		}
	}
}

/* RHiNET's table 1: which verb takes which part; and other arguments that are wrong. */
static void
check_refusals(void)
{
	uint8_t bytes[64] = {0}, twin[64] = {0};
	struct iovec iov = {bytes, sizeof(bytes)};
	struct pmx_part part = {.kind = PMX_PART_TWIN, .twin = twin};
	struct pmx_matched m = {.peer = {1, 0}, .data = bytes, .len = sizeof(bytes), .part = &part};
	pmx_request r = 0, wrong = 77ull << 32 | 5;

	if (pmx_isend(ends[0].ctx, &m, &r) != -EOPNOTSUPP)
		fail("pmx_isend with a twin");
	part.kind = PMX_PART_DIFF;
	if (pmx_irecv(ends[0].ctx, &m, &r) != -EOPNOTSUPP)
		fail("pmx_irecv with a diff");
	part = (struct pmx_part){
		.kind = PMX_PART_STRIDE,
		.dims = 1,
		.block = 8,
		.interval = {16},
		.count = {5},
	};
	if (pmx_irecv(ends[0].ctx, &m, &r) != -EINVAL || pmx_isend(ends[0].ctx, &m, &r) != -EINVAL)
		fail("a stride beyond its message");
	m.iov = &iov;
	m.iov_count = 1;
	part.count[0] = 2;
	if (pmx_irecv(ends[0].ctx, &m, &r) != -EINVAL)
		fail("pieces and parts at once");
	m.part = NULL;
	m.flags = PMX_SYNC;
	if (pmx_irecv(ends[0].ctx, &m, &r) != -EINVAL)
		fail("a receive with a send's flags");
	m.flags = 4;
	if (pmx_isend(ends[0].ctx, &m, &r) != -EINVAL)
		fail("flags that there are none of");
	m.flags = 0;
	m.iov = NULL;
	m.data = NULL;
	if (pmx_irecv(ends[0].ctx, &m, &r) != -EINVAL || pmx_isend(ends[0].ctx, &m, &r) != -EINVAL)
		fail("bytes at NULL");
	m.peer = PMX_ANY_SOURCE;
	m.data = bytes;
	if (pmx_isend(ends[0].ctx, &m, &r) != -EINVAL)
		fail("a send to anyone");
	if (pmx_test(ends[0].ctx, &wrong, NULL) != -EINVAL ||
		pmx_cancel(ends[0].ctx, wrong) != -EINVAL ||
		pmx_imrecv(ends[0].ctx, &m, &wrong) != -EINVAL)
		fail("a request that there is none of");
	r = 0;
	if (pmx_test(ends[0].ctx, &r, NULL) != 1 || pmx_cancel(ends[0].ctx, 0) != -EINPROGRESS)
		fail("a request that has ended");
}

/* ------------------------------------------------------------------ life */

static void
start(unsigned n, const char *link, const char *fault, const char *more)
{
	char text[2048], error[256];
	struct pmx_node_params params = {.config_text = text};

	snprintf(text, sizeof(text),
		"[node]\nid = %u\nname = matching%u\n[engine]\nmatching = %s\nrendezvous = %s\n"
		"[link 0]\n%s\n%s%s\n[nodes]\n0 = auto\n1 = auto\n[limits]\ncontexts = %u\n"
		"mbufs = 16384\n%s\n",
		n, n, by_engine ? "engine" : "client", rendezvous, link, *fault ? "fault = " : "",
		fault, CONTEXTS, more);
	if (pmx_node_start(&nodes[n], &params, error, sizeof(error)) != 0) {
		fprintf(stderr, "matching: %s\n", error);
		exit(2);
	}
}

static void
open_end(unsigned i)
{
	struct end *e = &ends[i];
	const struct pmx_context_params params = {.context = (uint16_t)(i % CONTEXTS)};
	void *p;
	int r = pmx_context_open(&e->ctx, nodes[i / CONTEXTS], &params);

	if (r != 0 || (r = pmx_alloc(e->ctx, (uint64_t)SLOTS * LONGEST, &p)) != 0) {
		fail("a context: %s", pmx_strerror(r));
		return;
	}
	e->arena = p;
	e->in = &nodes[i / CONTEXTS]->embedded->channels[i % CONTEXTS].matched;
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {{"operations", 1, NULL, 'o'}, {"seed", 1, NULL, 's'},
		{"fault", 1, NULL, 'f'}, {"link", 1, NULL, 'l'}, {"memif", 1, NULL, 'm'},
		{"limits", 1, NULL, 'L'}, {"matching", 1, NULL, 'e'}, {"rendezvous", 1, NULL, 'r'},
		{NULL, 0, NULL, 0}};
	const char *fault = "", *more = "", *keys = "", *memif = NULL;
	char vdev[2][256], link[2][256];
	int opt;

	while ((opt = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (opt) {
		case 'o':
			operations = strtoull(optarg, NULL, 0);
			break;
		case 's':
			seed = strtoull(optarg, NULL, 0);
			break;
		case 'f':
			fault = optarg;
			break;
		case 'l':
			keys = optarg;
			break;
		case 'm':
			memif = optarg;
			break;
		case 'L':
			more = optarg;
			break;
		case 'e':
			by_engine = strcmp(optarg, "engine") == 0;
			break;
		case 'r':
			rendezvous = optarg;
			break;
		default:
			fprintf(stderr,
				"usage: matching [--operations N] [--seed N] [--fault F] [--link "
				"KEYS] [--memif SOCKET] [--limits KEYS] [--matching client|engine] "
				"[--rendezvous BYTES]\n");
			return 2;
		}
	}
	for (unsigned n = 0; n < NODES; n++) {
		snprintf(vdev[n], sizeof(vdev[n]),
			"--vdev=net_memif%u,role=%s,id=0,socket=%s,socket-abstract=no,bsize=9216",
			n, n ? "client" : "server", memif ? memif : "");
		if (memif != NULL)
			snprintf(link[n], sizeof(link[n]),
				"driver = ethdev\nport = net_memif%u\n%s", n, keys);
		else
			snprintf(link[n], sizeof(link[n]), "driver = loop\nport = matching\n%s",
				keys);
	}
	char *eal[] = {argv[0], "--no-huge", "--no-pci", "-m", "512", "--no-telemetry",
		"--no-shconf", "--log-level=*:error", vdev[0], vdev[1], NULL};

	if (rte_eal_init((int)(sizeof(eal) / sizeof(eal[0])) - (memif ? 1 : 3), eal) < 0)
		return 2;
	start(0, link[0], fault, more);
	start(1, link[1], fault, more);
	for (unsigned n = 0; n < NODES; n++)
		pool_before[n] = rte_mempool_avail_count(nodes[n]->embedded->pool);
	for (unsigned i = 0; i < ENDS; i++)
		open_end(i);
	double begin_s = now_s();

	check_refusals();
	while (done < operations && !failed)
		step();
	settle();
	double took = now_s() - begin_s;
	struct pmx_match_stat stat, all = {0};

	for (unsigned i = 0; i < ENDS && !failed; i++) {
		pmx_match_stat(ends[i].ctx, &stat);
		if (stat.waiting || stat.posted || stat.malformed || stat.errors)
			fail("context %u: %u wait, %u are posted, %lu malformed, %lu errors", i,
				stat.waiting, stat.posted, stat.malformed, stat.errors);
		all.evacuated += stat.evacuated;
		all.bulk_copied += stat.bulk_copied;
		all.unexpected += stat.unexpected;
		pmx_free(ends[i].ctx, ends[i].arena);
		pmx_context_close(ends[i].ctx);
	}
	for (unsigned k = 0; k < 10000 && !failed; k++)
		poll_nodes();
	for (unsigned n = 0; n < NODES && !failed; n++) {
		unsigned have = rte_mempool_avail_count(nodes[n]->embedded->pool),
			 spare = memif ? 2048 : 32;

		if (have + spare < pool_before[n])
			fail("node %u: %u mbufs of %u", n, have, pool_before[n]);
	}
	const uint64_t *p = proto_counters(nodes[0]->embedded->engines[0].proto);

	printf("# %lu operations, %.1f s: %lu messages, %lu by wildcards, %lu unexpected, %lu cut "
	       "short, %lu cancelled, %lu probes; %lu heads and %lu bodies made room; node 0: %lu "
	       "frames, %lu again, %lu timeouts\n",
		done, took, matched, wildcards, all.unexpected, truncated, cancelled, probed,
		all.evacuated, all.bulk_copied, p[PROTO_tx_frames], p[PROTO_tx_retransmits],
		p[PROTO_timeouts]);
	if (!failed && matched != sent)
		fail("%lu sent, %lu received", sent, matched);
	fflush(stdout);
	if (memif != NULL)
		_exit(failed); /* that PMD may crash when its peer closes */
	if (!failed) {
		pmx_node_close(nodes[0]);
		pmx_node_close(nodes[1]);
	}
	return failed;
}
