/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The model of the test of matched messages (matching.c): two plain lists at each context, of
 * receives and of messages that wait, and what a receive must say and hold when it ends.
 */
#include "matching.h"

static bool
accepts(const struct receive *r, const struct message *m)
{
	return r->comm == m->comm && (r->any_source || r->from == m->from) &&
		((r->tag ^ m->tag) & ~r->ignore) == 0;
}

void
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

struct message *
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

void
model_landed(struct end *e)
{
	const struct lhs_end *ring = &e->in->lhs;

	if (ring->pos - e->landed > ring->mask + 1) {
		fail("context %ld: %u messages landed since the model looked, in a ring of %u",
			e - ends, ring->pos - e->landed, ring->mask + 1);
		return;
	}
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

void
message_check_status(const char *what, const struct pmx_status *s, const struct message *m)
{
	if (s->source.node != m->from / CONTEXTS || s->source.context != m->from % CONTEXTS ||
		s->tag != m->tag || (!m->diff && s->len != m->len))
		fail("%s: says %u.%u tag %lx of %lu bytes; it is %u.%u tag %lx of %lu", what,
			s->source.node, s->source.context, s->tag, s->len, m->from / CONTEXTS,
			m->from % CONTEXTS, m->tag, m->len);
}

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

void
receive_check(const struct receive *r, int result, const struct pmx_status *status)
{
	const struct message *m = r->got;

	if (m == NULL) {
		fail("a receive ended that the model gives no message: %s", pmx_strerror(result));
		return;
	}
	message_check_status("a receive", status, m);
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
			bool mine = r->m.part == NULL || spread_has(r->m.part, i);
			uint8_t want = mine && k < m->len ? message_byte(m->serial, k) : GUARD;

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
