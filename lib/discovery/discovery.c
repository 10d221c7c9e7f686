/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See discovery.h.
 */
#include <string.h>

#include "base/mix.h"
#include "core/wire/siphash.h"
#include "discovery/record.h"

#define NEVER           UINT64_MAX
#define FIRST_WAIT      50 /* ms until a question is repeated; twice as long each time */
#define LONGEST_WAIT    5000
/* of a node that others told of; it asks by itself when it is there */
#define TRIES           8
#define SEED_AGAIN      5000 /* ms after which a seed that answered is asked again */
/* ms after news, and up to as many more; then twice as long each time */
#define DIGEST_SOON     50
#define DIGEST_EVERY    2000
#define ASK_AGAIN       1000  /* ms between two questions for all that a node knows */
#define COOKIE_SLOT     60000 /* ms; a cookie is good for one to two of them */
#define CLAIMS          16
#define SEEDS_THAT_TELL 8
#define HOLDER_WAIT     150 /* ms between questions whether a holder runs */
#define HOLDER_TRIES    4
#define CLAIM_MS        10000 /* for which the outcome holds */
#define YOUNG_MS        10000
#define SAME_AGE_MS     100
#define SENDS_OF_A_TICK 64

/* A nonce says whose it is, so that an answer finds its question at once: the kind in its highest
 * bits, then the index, then bits that nobody can guess. */
enum nonce_kind {
	NONCE_SEED = 1,
	NONCE_CLAIM,
	NONCE_NODE,
	NONCE_DIGEST,
};
#define NONCE_KIND_SHIFT  61
#define NONCE_INDEX_SHIFT 40

/* Somebody who is asked until he answers. */
struct contact {
	uint64_t nonce, cookie;
	uint32_t tries;
	bool wants; /* all that it knows */
};

struct entry {
	struct discovery_record r;
	struct contact contact;
	uint64_t asked_all;  /* when it was last asked for all that it knows */
	uint32_t left;       /* generation that has ended; 0: none */
	bool known, himself; /* himself: it has told of itself */
};

/* A number with a second node that wants it. */
struct claim {
	struct discovery_record r; /* of the one that wants it; generation 0: the claim is free */
	struct contact contact;    /* asks: of that one; else of the holder */
	uint64_t due, made, until;
	bool asks;    /* others told of it: it has not spoken for itself */
	bool refused; /* the holder has answered */
	bool leaves;  /* r is the holder, who is said to have ended */
};

struct seed {
	struct discovery_addr at;
	struct contact contact;
	uint64_t due;
	bool answered;
};

struct discovery {
	struct discovery_config config;
	struct entry *nodes; /* by number */
	uint64_t *due;       /* of their contacts; NEVER: not asked */
	uint32_t known;
	struct seed *seeds;
	uint32_t seed_count;
	struct claim claims[CLAIMS];
	uint64_t cluster, began, digest_at, digest_every, digest_nonce, nonces, random;
};

bool
discovery_same_addr(const struct discovery_addr *a, const struct discovery_addr *b)
{
	return a->port == b->port && memcmp(a->ip, b->ip, sizeof(a->ip)) == 0;
}

/* Return a number that nobody knows who does not have the key. */
static uint64_t
secret(const struct discovery *d, uint64_t what, const struct discovery_addr *addr)
{
	uint64_t words[4] = {what, 0, 0, 0};

	if (addr != NULL) {
		memcpy(&words[1], addr->ip, sizeof(addr->ip));
		words[3] = addr->port;
	}
	return siphash(d->config.key, words, 4);
}

static uint64_t
cookie_of(const struct discovery *d, const struct discovery_addr *from, uint64_t slot)
{
	return secret(d, slot << 1 | 1, from) | 1; /* never 0 */
}

static bool
cookie_ok(const struct discovery *d, const struct discovery_addr *from, uint64_t cookie,
	uint64_t now)
{
	const uint64_t slot = now / COOKIE_SLOT;

	return cookie == cookie_of(d, from, slot) ||
		(slot > 0 && cookie == cookie_of(d, from, slot - 1));
}

static bool
is_zero(const uint8_t ip[16])
{
	static const uint8_t none[16], any4[16] = {[10] = 0xFF, [11] = 0xFF};

	return memcmp(ip, none, 16) == 0 || memcmp(ip, any4, 16) == 0;
}

/* Complete a record by where it came from: a node need not know its own addresses. */
static void
complete(struct discovery_record *r, const struct discovery_addr *from)
{
	r->at = *from;
	for (unsigned i = 0; i < DISCOVERY_LINKS_MAX; i++) {
		if (r->kind[i] == DISCOVERY_IP && is_zero(r->link[i].ip))
			memcpy(r->link[i].ip, from->ip, sizeof(from->ip));
	}
}

/* ------------------------------------------------------------------ what goes out */

static void
discovery_begin(const struct discovery *d, struct discovery_writer *w, enum discovery_type type,
	uint64_t nonce, uint64_t cookie, uint8_t flags)
{
	const struct discovery_head h = {(uint8_t)type, flags, nonce, cookie, d->cluster};

	discovery_write(w, &h);
}

static void
discovery_send(const struct discovery *d, const struct discovery_addr *to,
	const struct discovery_writer *w)
{
	d->config.send(d->config.arg, to, w->bytes, w->len);
}

static struct discovery_record
self(const struct discovery *d, uint64_t now)
{
	struct discovery_record r = d->config.self;

	const uint64_t age = r.age_ms + (now - d->began);

	r.age_ms = age < INT32_MAX ? (uint32_t)age : INT32_MAX; /* 24 days: longer makes no odds */
	return r;
}

/* Send a datagram with nothing but a head and, unless r is NULL, one record. */
static void
say(const struct discovery *d, const struct discovery_addr *to, enum discovery_type type,
	uint64_t nonce, uint64_t cookie, uint8_t flags, const struct discovery_record *r)
{
	struct discovery_writer w;

	discovery_begin(d, &w, type, nonce, cookie, flags);
	if (r != NULL)
		discovery_add(&w, r);
	discovery_send(d, to, &w);
}

/* Send the own record, and with `all` those of all that are known, in as many pages as it takes. */
static void
send_table(const struct discovery *d, const struct discovery_addr *to, uint64_t nonce, bool all,
	uint64_t now)
{
	const struct discovery_record own = self(d, now);
	struct discovery_writer w;

	discovery_begin(d, &w, DISCOVERY_TABLE, nonce, 0, 0);
	discovery_add(&w, &own);
	for (uint32_t i = 0; all && i < d->config.nodes_max; i++) {
		const struct entry *e = &d->nodes[i];

		if (!e->known || discovery_add(&w, &e->r))
			continue;
		discovery_send(d, to, &w);
		discovery_begin(d, &w, DISCOVERY_TABLE, nonce, 0, 0);
		discovery_add(&w, &own);
		discovery_add(&w, &e->r);
	}
	discovery_send(d, to, &w);
}

static uint64_t
new_nonce(struct discovery *d, enum nonce_kind kind, uint32_t index)
{
	const uint64_t random = secret(d, d->nonces++ << 1, NULL) &
		((1ull << NONCE_INDEX_SHIFT) - 1);

	return (uint64_t)kind << NONCE_KIND_SHIFT | (uint64_t)index << NONCE_INDEX_SHIFT | random;
}

static uint32_t
nonce_index(uint64_t nonce)
{
	return (uint32_t)(nonce >> NONCE_INDEX_SHIFT) &
		((1u << (NONCE_KIND_SHIFT - NONCE_INDEX_SHIFT)) - 1);
}

/* Ask a contact, and return when to ask again. */
static uint64_t
join(struct discovery *d, struct contact *c, enum nonce_kind kind, uint32_t index,
	const struct discovery_addr *to, uint64_t now)
{
	const struct discovery_record own = self(d, now);
	const uint64_t wait = (uint64_t)FIRST_WAIT << (c->tries < 8 ? c->tries : 8);

	if (c->nonce == 0)
		c->nonce = new_nonce(d, kind, index);
	c->tries++;
	say(d, to, DISCOVERY_JOIN, c->nonce, c->cookie, c->wants ? DISCOVERY_WANTS : 0, &own);
	return now + (wait < LONGEST_WAIT ? wait : LONGEST_WAIT);
}

/* ------------------------------------------------------------------ what is known */

static uint64_t
digest(const struct discovery *d)
{
	const struct discovery_record *own = &d->config.self;
	uint64_t sum = mix64((uint64_t)own->number << 32 | own->generation);

	for (uint32_t i = 0; i < d->config.nodes_max; i++) {
		if (d->nodes[i].known)
			sum ^= mix64((uint64_t)i << 32 | d->nodes[i].r.generation);
	}
	return sum;
}

static void
ask_node(struct discovery *d, uint32_t number, bool wants, uint64_t now)
{
	d->nodes[number].contact = (struct contact){.wants = wants};
	d->due[number] = now;
}

/* Take a record as that of its number. himself: the node has told it, so it need not be greeted. */
static void
discovery_take(struct discovery *d, const struct discovery_record *r, bool himself, uint64_t now)
{
	struct entry *e = &d->nodes[r->number];
	const struct discovery_record before = e->r;
	const bool known = e->known;

	if (!known)
		d->known++;
	e->r = *r;
	e->known = true;
	e->himself = himself;
	if (himself && d->due[r->number] != NEVER && !e->contact.wants)
		d->due[r->number] = NEVER; /* it knows this node already */
	else if (!himself)
		ask_node(d, r->number, false, now);
	if (!known || before.generation != r->generation ||
		memcmp(before.kind, r->kind, sizeof(r->kind)) != 0 ||
		memcmp(before.link, r->link, sizeof(r->link)) != 0 ||
		strcmp(before.name, r->name) != 0) {
		d->digest_every = DIGEST_SOON;
		if (d->digest_at > now + 2 * DIGEST_SOON)
			d->digest_at = now + DIGEST_SOON + mix64_next(&d->random) % DIGEST_SOON;
		d->config.tell(d->config.arg, DISCOVERY_LEARNT, &e->r, NULL);
	}
}

static struct claim *
find_claim(struct discovery *d, const struct discovery_record *r)
{
	for (unsigned i = 0; i < CLAIMS; i++) {
		if (d->claims[i].r.generation == r->generation &&
			d->claims[i].r.number == r->number)
			return &d->claims[i];
	}
	return NULL;
}

enum claim_kind {
	CLAIM_OWN,     /* a node wants the number for itself */
	CLAIM_HEARSAY, /* others say that it has it */
	CLAIM_LEAVES,  /* it is said that its holder has ended */
};

/* Begin a claim, unless there are too many: then the next word of that node begins it. */
static void
new_claim(struct discovery *d, const struct discovery_record *r, enum claim_kind kind, uint64_t now)
{
	for (unsigned i = 0; i < CLAIMS; i++) {
		struct claim *c = &d->claims[i];

		if (c->r.generation != 0 && now < c->until)
			continue;
		*c = (struct claim){
			.r = *r,
			.due = now,
			.made = now,
			.until = now + CLAIM_MS,
			.asks = kind == CLAIM_HEARSAY,
			.leaves = kind == CLAIM_LEAVES,
		};
		return;
	}
}

enum claim_verdict {
	ACCEPTED,
	WAITS, /* the holder of the number is asked */
	REFUSED,
};

/* Return whether the holder of a number yields it to another who says that he has run for longer.
 * One that has run for a while does not: anybody can say so. */
static bool
yields(uint32_t holder_ms, uint32_t other_ms)
{
	return holder_ms < YOUNG_MS && other_ms > holder_ms + SAME_AGE_MS;
}

/* Judge what a node tells of itself: whether it has its number. */
static enum claim_verdict
discovery_hear(struct discovery *d, const struct discovery_record *r, uint64_t now)
{
	const struct entry *e = &d->nodes[r->number];
	struct claim *c;

	if (!e->known || e->r.generation == r->generation ||
		discovery_same_addr(&e->r.at, &r->at)) {
		discovery_take(d, r, true, now);
		return ACCEPTED;
	}
	c = find_claim(d, r);
	if (c != NULL && !c->asks && !c->leaves)
		return c->refused ? REFUSED : WAITS;
	if (c != NULL)
		c->r.generation = 0; /* it has spoken for itself now */
	new_claim(d, r, CLAIM_OWN, now);
	return WAITS;
}

/* Note what a node tells of a third one. */
static void
hear_of(struct discovery *d, const struct discovery_record *r, uint64_t now)
{
	if (r->number >= d->config.nodes_max || r->number == d->config.self.number ||
		is_zero(r->at.ip))
		return;
	const struct entry *e = &d->nodes[r->number];

	if (e->left == r->generation || (e->known && e->r.generation == r->generation))
		return;
	if (!e->known)
		discovery_take(d, r, false, now);
	else if (find_claim(d, r) == NULL)
		new_claim(d, r, CLAIM_HEARSAY, now);
}

/* ------------------------------------------------------------------ what comes in */

/* The one that was asked with a nonce. */
struct nonce_asked {
	struct contact *contact; /* NULL: nobody */
	const struct discovery_addr *at;
	uint64_t *due;
	enum nonce_kind kind;
	uint32_t index;
};

static struct nonce_asked
asked(struct discovery *d, uint64_t nonce, const struct discovery_addr *from)
{
	struct nonce_asked a = {
		.kind = (enum nonce_kind)(nonce >> NONCE_KIND_SHIFT),
		.index = nonce_index(nonce),
	};

	if (a.kind == NONCE_SEED && a.index < d->seed_count) {
		struct seed *s = &d->seeds[a.index];

		/* one with several addresses may answer from another one: the nonce tells */
		a.contact = &s->contact;
		a.at = from;
		a.due = &s->due;
	} else if (a.kind == NONCE_CLAIM && a.index < CLAIMS) {
		struct claim *c = &d->claims[a.index];

		a.contact = c->r.generation != 0 && c->asks ? &c->contact : NULL;
		a.at = &c->r.at;
		a.due = &c->due;
	} else if (a.kind == NONCE_NODE && a.index < d->config.nodes_max) {
		struct entry *e = &d->nodes[a.index];

		a.contact = e->known ? &e->contact : NULL;
		a.at = &e->r.at;
		a.due = &d->due[a.index];
	}
	if (a.contact != NULL && (a.contact->nonce != nonce || !discovery_same_addr(a.at, from)))
		a.contact = NULL;
	return a;
}

static void
answered(struct discovery *d, const struct nonce_asked *a, const struct discovery_addr *from,
	uint64_t now)
{
	struct seed *s = a->kind == NONCE_SEED ? &d->seeds[a->index] : NULL;

	*a->due = s != NULL ? now + SEED_AGAIN : NEVER;
	a->contact->tries = 0;
	a->contact->wants = false; /* from now on digests tell whether something is missing */
	if (s == NULL || s->answered)
		return;
	s->answered = true;
	const struct discovery_record at = {.at = *from};

	d->config.tell(d->config.arg, DISCOVERY_SEED, &at, NULL);
}

static void
in_join(struct discovery *d, const struct discovery_head *h, struct discovery_record *r,
	const struct discovery_addr *from, uint64_t now)
{
	const struct discovery_record own = self(d, now);

	if (r->number == own.number && r->generation == own.generation) {
		/* a seed that is this node itself */
		const struct nonce_asked a = asked(d, h->nonce, from);

		if (a.contact != NULL && a.kind == NONCE_SEED) {
			*a.due = NEVER;
			d->seeds[a.index].answered = true;
		}
		return;
	}
	if (h->cluster != d->cluster) {
		say(d, from, DISCOVERY_NOT_HERE, h->nonce, 0, 0, NULL);
		return;
	}
	if (!cookie_ok(d, from, h->cookie, now)) {
		say(d, from, DISCOVERY_COOKIE, h->nonce, cookie_of(d, from, now / COOKIE_SLOT), 0,
			NULL);
		return;
	}
	complete(r, from);
	if (r->number >= d->config.nodes_max) {
		d->config.tell(d->config.arg, DISCOVERY_FULL, r, NULL);
		return;
	}
	if (r->number == own.number) {
		const bool older = yields(own.age_ms, r->age_ms);

		d->config.tell(d->config.arg, older ? DISCOVERY_REFUSED : DISCOVERY_CLAIMED,
			older ? r : &own, older ? NULL : r);
		if (!older)
			say(d, from, DISCOVERY_NO, h->nonce, 0, 0, &own);
		return;
	}
	const enum claim_verdict v = discovery_hear(d, r, now);

	if (v == ACCEPTED)
		send_table(d, from, h->nonce, h->flags & DISCOVERY_WANTS, now);
	else if (v == REFUSED)
		say(d, from, DISCOVERY_NO, h->nonce, 0, 0, &d->nodes[r->number].r);
}

static void
in_table(struct discovery *d, const struct discovery_head *h, struct discovery_record *r,
	const struct discovery_addr *from, const uint8_t *bytes, uint32_t len, uint32_t at,
	uint64_t now)
{
	const struct nonce_asked a = asked(d, h->nonce, from);

	if (a.contact == NULL || r->number >= d->config.nodes_max ||
		r->number == d->config.self.number)
		return;
	answered(d, &a, from, now);
	complete(r, from);
	discovery_hear(d, r, now);
	while (discovery_next(bytes, len, &at, r))
		hear_of(d, r, now);
}

/* Take in that the holder of a number runs, which another node wants, or who is said to have
 * ended. */
static void
in_alive(struct discovery *d, const struct discovery_head *h, const struct discovery_record *r,
	const struct discovery_addr *from, uint64_t now)
{
	struct claim *c = &d->claims[nonce_index(h->nonce) % CLAIMS];

	if (c->r.generation == 0 || c->asks || c->contact.nonce != h->nonce || h->nonce == 0 ||
		c->r.number != r->number || !discovery_same_addr(&d->nodes[r->number].r.at, from))
		return;
	const uint64_t age = c->r.age_ms + (now - c->made);

	if (r->generation != d->nodes[r->number].r.generation)
		ask_node(d, r->number, false, now); /* in a new life, at the same place */
	if (c->leaves) {
		c->r.generation = 0;
	} else if (yields(r->age_ms, age < INT32_MAX ? (uint32_t)age : INT32_MAX)) {
		discovery_take(d, &c->r, true, now);
		c->r.generation = 0;
	} else if (!c->refused) {
		c->refused = true;
		d->config.tell(d->config.arg, DISCOVERY_CLAIMED, &d->nodes[r->number].r, &c->r);
	}
}

/* Return the entry of who has sent this, if it is who it says. */
static struct entry *
member(struct discovery *d, const struct discovery_record *r, const struct discovery_addr *from)
{
	struct entry *e = r->number < d->config.nodes_max ? &d->nodes[r->number] : NULL;

	return e != NULL && e->known && e->r.generation == r->generation &&
			discovery_same_addr(&e->r.at, from)
		? e
		: NULL;
}

static void
in_digest(struct discovery *d, const struct discovery_head *h, const struct discovery_record *r,
	const struct discovery_addr *from, uint64_t now)
{
	struct entry *e = member(d, r, from);

	/* this node may have begun a new life, of which nobody has told the other */
	if (e == NULL) {
		if (r->number != d->config.self.number && h->nonce != 0)
			say(d, from, DISCOVERY_WHO, h->nonce, 0, 0, NULL);
		return;
	}
	const uint64_t own = digest(d);

	if (h->cookie == own || (e->asked_all != 0 && now - e->asked_all < ASK_AGAIN))
		return;
	e->asked_all = now;
	ask_node(d, r->number, true, now);
	if (!(h->flags & DISCOVERY_WANTS)) { /* let it ask as well, once */
		const struct discovery_record me = self(d, now);

		say(d, from, DISCOVERY_DIGEST, 0, own, DISCOVERY_WANTS, &me);
	}
}

/* Greet a node again that does not know this one any more. */
static void
in_who(struct discovery *d, const struct discovery_head *h, const struct discovery_addr *from,
	uint64_t now)
{
	const uint32_t number = nonce_index(h->nonce);

	if (h->nonce == 0 || h->nonce != d->digest_nonce)
		return;
	d->digest_nonce = 0;
	if (d->nodes[number].known && discovery_same_addr(&d->nodes[number].r.at, from))
		ask_node(d, number, true, now);
}

static void
in_leave(struct discovery *d, const struct discovery_record *r, const struct discovery_addr *from,
	uint64_t now)
{
	/* whoever says so may be another: the node is asked, and does not answer if it is true */
	const struct entry *e = member(d, r, from);

	if (e != NULL && find_claim(d, r) == NULL)
		new_claim(d, &e->r, CLAIM_LEAVES, now);
}

/* Forget a node that has ended. */
static void
forget(struct discovery *d, uint32_t number, uint64_t now)
{
	struct entry *e = &d->nodes[number];
	const struct discovery_record gone = e->r;

	*e = (struct entry){.left = gone.generation};
	d->due[number] = NEVER;
	d->known--;
	/* a seed may be back soon */
	for (uint32_t i = 0; i < d->seed_count; i++) {
		if (!discovery_same_addr(&d->seeds[i].at, &gone.at))
			continue;
		d->seeds[i].contact = (struct contact){.wants = true};
		d->seeds[i].due = now + FIRST_WAIT;
	}
	d->config.tell(d->config.arg, DISCOVERY_LEFT, &gone, NULL);
}

/* Take in an answer that has no record of its sender. */
static void
in_short(struct discovery *d, const struct discovery_head *h, const struct discovery_addr *from,
	uint64_t now)
{
	const struct nonce_asked a = asked(d, h->nonce, from);
	const struct discovery_record at = {.at = *from};

	if (a.contact == NULL)
		return;
	if (h->type == DISCOVERY_NOT_HERE) {
		if (a.contact->tries == 1)
			d->config.tell(d->config.arg, DISCOVERY_OTHER, &at, NULL);
		return;
	}
	if (a.contact->cookie == h->cookie)
		return;
	a.contact->cookie = h->cookie;
	*a.due = join(d, a.contact, a.kind, a.index, from, now);
}

void
discovery_in(struct discovery *d, const struct discovery_addr *from, const uint8_t *bytes,
	uint32_t len, uint64_t now)
{
	uint32_t at = DISCOVERY_HEAD_BYTES;
	struct discovery_head h;
	struct discovery_record r;

	if (!discovery_read(bytes, len, &h))
		return;
	if (h.type == DISCOVERY_WHO) {
		in_who(d, &h, from, now);
		return;
	}
	if (h.type == DISCOVERY_COOKIE || h.type == DISCOVERY_NOT_HERE) {
		in_short(d, &h, from, now);
		return;
	}
	if (!discovery_next(bytes, len, &at, &r) ||
		(h.type != DISCOVERY_JOIN && h.cluster != d->cluster))
		return;
	switch ((enum discovery_type)h.type) {
	case DISCOVERY_JOIN:
		in_join(d, &h, &r, from, now);
		break;
	case DISCOVERY_TABLE:
		in_table(d, &h, &r, from, bytes, len, at, now);
		break;
	case DISCOVERY_NO:
		if (asked(d, h.nonce, from).contact != NULL && r.number == d->config.self.number)
			d->config.tell(d->config.arg, DISCOVERY_REFUSED, &r, NULL);
		break;
	case DISCOVERY_PROBE:
		/* no more than was asked, since anybody may ask */
		r = self(d, now);
		r.name[0] = 0;
		memset(r.kind, DISCOVERY_NO_LINK, sizeof(r.kind));
		say(d, from, DISCOVERY_ALIVE, h.nonce, 0, 0, &r);
		break;
	case DISCOVERY_ALIVE:
		in_alive(d, &h, &r, from, now);
		break;
	case DISCOVERY_DIGEST:
		in_digest(d, &h, &r, from, now);
		break;
	case DISCOVERY_LEAVE:
		in_leave(d, &r, from, now);
		break;
	case DISCOVERY_COOKIE:
	case DISCOVERY_NOT_HERE:
	case DISCOVERY_WHO:
	case DISCOVERY_TYPES:
		break;
	}
}

/* ------------------------------------------------------------------ time */

/* Ask the holder of the number that a claim is for, or the one that wants it. */
static void
step_claim(struct discovery *d, struct claim *c, uint64_t now)
{
	const struct discovery_record own = self(d, now);

	if (c->asks) {
		c->due = c->contact.tries < TRIES
			? join(d, &c->contact, NONCE_CLAIM, (uint32_t)(c - d->claims), &c->r.at,
				  now)
			: NEVER;
		return;
	}
	if (c->refused) {
		c->due = NEVER;
		return;
	}
	if (c->contact.tries == HOLDER_TRIES) { /* it does not run any more */
		const struct discovery_record r = c->r;

		c->r.generation = 0;
		if (!c->leaves)
			discovery_take(d, &r, true, now);
		else if (member(d, &r, &r.at) != NULL)
			forget(d, r.number, now);
		return;
	}
	if (c->contact.nonce == 0)
		c->contact.nonce = new_nonce(d, NONCE_CLAIM, (uint32_t)(c - d->claims));
	c->contact.tries++;
	c->due = now + HOLDER_WAIT;
	say(d, &d->nodes[c->r.number].r.at, DISCOVERY_PROBE, c->contact.nonce, 0, 0, &own);
}

/* Compare with a node that is known what both know. */
static void
send_digest(struct discovery *d, uint64_t now)
{
	const struct discovery_record own = self(d, now);
	const uint32_t n = d->config.nodes_max, from = (uint32_t)(mix64_next(&d->random) % n);

	for (uint32_t i = 0; d->known != 0 && i < n; i++) {
		const struct entry *e = &d->nodes[(from + i) % n];

		if (!e->known)
			continue;
		d->digest_nonce = new_nonce(d, NONCE_DIGEST, e->r.number);
		say(d, &e->r.at, DISCOVERY_DIGEST, d->digest_nonce, digest(d), 0, &own);
		break;
	}
	d->digest_at = now + d->digest_every + mix64_next(&d->random) % d->digest_every;
	if (d->digest_every < DIGEST_EVERY)
		d->digest_every *= 2;
}

uint64_t
discovery_tick(struct discovery *d, uint64_t now)
{
	uint64_t next = d->digest_at;
	uint32_t sends = 0;

	for (uint32_t i = 0; i < d->seed_count; i++) {
		struct seed *s = &d->seeds[i];

		if (s->due <= now)
			s->due = join(d, &s->contact, NONCE_SEED, i, &s->at, now);
		next = s->due < next ? s->due : next;
	}
	for (unsigned i = 0; i < CLAIMS; i++) {
		struct claim *c = &d->claims[i];

		if (c->r.generation != 0 && now >= c->until)
			c->r.generation = 0;
		if (c->r.generation == 0)
			continue;
		if (c->due <= now)
			step_claim(d, c, now);
		if (c->r.generation == 0)
			continue;
		next = c->due < next ? c->due : next;
		next = c->until < next ? c->until : next;
	}
	for (uint32_t i = 0; i < d->config.nodes_max; i++) {
		struct entry *e = &d->nodes[i];

		if (d->due[i] <= now && sends < SENDS_OF_A_TICK) {
			sends++;
			d->due[i] = e->contact.tries < TRIES
				? join(d, &e->contact, NONCE_NODE, i, &e->r.at, now)
				: NEVER;
		}
		next = d->due[i] < next ? d->due[i] : next;
	}
	if (now >= d->digest_at) {
		send_digest(d, now);
		next = d->digest_at < next ? d->digest_at : next;
	}
	return next > now ? next : now + 1;
}

void
discovery_leave(struct discovery *d)
{
	const struct discovery_record own = d->config.self;

	for (uint32_t i = 0; i < d->config.nodes_max; i++) {
		if (d->nodes[i].known)
			say(d, &d->nodes[i].r.at, DISCOVERY_LEAVE, 0, 0, 0, &own);
	}
}

/* ------------------------------------------------------------------ made and looked at */

size_t
discovery_bytes(uint32_t nodes_max)
{
	return sizeof(struct discovery) + DISCOVERY_SEEDS(nodes_max) * sizeof(struct seed) +
		nodes_max * (sizeof(struct entry) + sizeof(uint64_t));
}

struct discovery *
discovery_init(void *memory, const struct discovery_config *config, uint64_t now)
{
	struct discovery *d = memory;
	uint64_t words[DISCOVERY_NAME_MAX / 8] = {0};
	static const uint64_t zero[2];

	d->config = *config;
	d->nodes = (struct entry *)(d + 1);
	d->due = (uint64_t *)(d->nodes + config->nodes_max);
	d->seeds = (struct seed *)(d->due + config->nodes_max);
	memcpy(words, config->cluster, strlen(config->cluster));
	d->cluster = siphash(zero, words, DISCOVERY_NAME_MAX / 8);
	d->began = now;
	d->random = config->key[0];
	d->digest_at = now + DIGEST_EVERY;
	d->digest_every = DIGEST_EVERY;
	for (uint32_t i = 0; i < config->nodes_max; i++)
		d->due[i] = NEVER;
	return d;
}

void
discovery_seeds(struct discovery *d, const struct discovery_addr *seeds, uint32_t count,
	uint64_t now)
{
	const uint32_t most = DISCOVERY_SEEDS(d->config.nodes_max);

	for (uint32_t i = 0; i < count && d->seed_count < most; i++) {
		bool known = false;

		for (uint32_t k = 0; k < d->seed_count && !known; k++)
			known = discovery_same_addr(&d->seeds[k].at, &seeds[i]);
		if (known)
			continue;
		/* each tells the same, so not all are asked for all */
		d->seeds[d->seed_count] = (struct seed){
			.at = seeds[i],
			.due = now,
			.contact = {.wants = d->seed_count < SEEDS_THAT_TELL},
		};
		d->seed_count++;
	}
}

void
discovery_remember(struct discovery *d, const struct discovery_record *r, uint64_t now)
{
	if (r->generation != 0)
		hear_of(d, r, now);
}

const struct discovery_record *
discovery_node(const struct discovery *d, uint32_t number)
{
	return number < d->config.nodes_max && d->nodes[number].known ? &d->nodes[number].r : NULL;
}

uint32_t
discovery_seeds_known(const struct discovery *d)
{
	return d->seed_count;
}

uint32_t
discovery_seeds_answered(const struct discovery *d)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < d->seed_count; i++)
		n += d->seeds[i].answered;
	return n;
}

uint32_t
discovery_seeds_undecided(const struct discovery *d)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < d->seed_count; i++)
		n += !d->seeds[i].answered && d->seeds[i].contact.cookie != 0;
	return n;
}
