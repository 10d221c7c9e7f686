/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The state of groups, shared by the sources of lib/group. One thread.
 */
#ifndef PMX_GROUP_INTERNAL_H
#define PMX_GROUP_INTERNAL_H

#include <errno.h>
#include <string.h>

#include "base/likely.h"
#include "group/group.h"

#define NO_RANK  UINT16_MAX
#define NO_PLACE UINT16_MAX

/* ------------------------------------------------------------------ sets of numbers */

/* of 32 members each */
#define DIRECTORY_WORDS(members) (((members) + 31) / 32)
#define BITS_WORDS(n)            (((n) + 63) / 64)

static inline void
bit_set(uint64_t *bits, uint32_t n)
{
	bits[n / 64] |= 1ull << n % 64;
}

static inline void
bit_clear(uint64_t *bits, uint32_t n)
{
	bits[n / 64] &= ~(1ull << n % 64);
}

/* Return the least number of the set that is at least `from`, or UINT32_MAX if there is none. */
static inline uint32_t
bit_next(const uint64_t *bits, uint32_t words, uint32_t from)
{
	for (uint32_t w = from / 64; w < words; w++) {
		uint64_t left = bits[w] & (w == from / 64 ? ~0ull << from % 64 : ~0ull);

		if (left != 0)
			return w * 64 + (uint32_t)__builtin_ctzll(left);
	}
	return UINT32_MAX;
}

#define GROUPS_MAX 4096

/* A set of memberships; all of its words are looked at as one. */
struct set {
	uint64_t any; /* words that are not 0 */
	uint64_t words[GROUPS_MAX / 64];
};

static inline void
set_add(struct set *s, uint32_t n)
{
	s->words[n / 64] |= 1ull << n % 64;
	s->any |= 1ull << n / 64;
}

static inline void
set_remove(struct set *s, uint32_t n)
{
	s->words[n / 64] &= ~(1ull << n % 64);
	if (s->words[n / 64] == 0)
		s->any &= ~(1ull << n / 64);
}

/* Return the least number of the set that is at least `from`, or UINT32_MAX if there is none. */
static inline uint32_t
set_next(const struct set *s, uint32_t from)
{
	const uint32_t w = from / 64;

	if (from >= GROUPS_MAX || s->any >> w == 0)
		return UINT32_MAX;
	uint64_t left = s->words[w] & ~0ull << from % 64;

	if (left != 0)
		return w * 64 + (uint32_t)__builtin_ctzll(left);
	const uint64_t above = w < 63 ? s->any & ~0ull << (w + 1) : 0;

	if (above == 0)
		return UINT32_MAX;
	const uint32_t next = (uint32_t)__builtin_ctzll(above);

	return next * 64 + (uint32_t)__builtin_ctzll(s->words[next]);
}

/* ------------------------------------------------------------------ members */

/* These are the messages that are owed to a member, or about it. Of those that are owed at once the
 * lowest bit goes first, here and in the sets below. */
#define OWES_OPEN    0x01u /* rank 0: to it */
#define OWES_GO      0x02u /* rank 0: to it */
#define OWES_GONE    0x04u /* rank 0: to it, the next of `gone` that it was not told of */
#define OWES_DONE    0x08u /* rank 0: to it */
#define OWES_EXPEL   0x10u /* rank 0: to it, that it is a member no more */
#define OWES_LEFT    0x20u /* rank 0: to it, when all others know */
#define OWES_SUSPECT 0x40u /* to rank 0, about it */
#define OWES_ROUND   0x80u /* to it, of the oldest chunk that it has not answered for */

struct member {
	struct group_addr addr;
	uint8_t owes;       /* OWES_* */
	bool joined;        /* rank 0: it has */
	bool gone;          /* it is a member no more */
	bool telling;       /* rank 0: a message about one that has gone is on its way to it */
	bool awaits_left;   /* rank 0: it left, and others do not know yet */
	uint8_t why;        /* gone: errno, 0: it left */
	uint16_t told;      /* rank 0: so many of membership.gone */
	bool asked;         /* rank 0: it is accused (group.c, note 4), and is to say HERE */
	uint64_t answer_by; /* asked: time after which it has gone; 0: of the next tick on */
	uint32_t life;    /* of its node when it was let in; at others than rank 0 of rank 0 alone;
			   * 0: not known */
	uint32_t entered; /* rank 0: number of the last barrier that it entered */
	uint16_t speaker; /* rank 0: who said so */
	uint64_t company; /* rank 0: for which ranks it did, if it is the speaker (barrier.c) */
	uint32_t barrier; /* rank 0, gone: the barrier that may end because of it */
	uint32_t part;    /* gone: what its group_took_part was */
	/* chunks of frames that it sends */
	uint16_t marks;   /* first of those that are not answered, or NO_MARK */
	uint32_t top;     /* highest number that was heard of */
	uint8_t answered; /* bit i: top - i is */
};

/* ------------------------------------------------------------------ locks */

enum lock_state { LOCK_FREE, LOCK_ASKS, LOCK_HELD };

/* what hands on goes before what asks again */
#define OWES_HAND_ON 0x01u /* GRANT to `after` */
#define OWES_MOVED   0x02u
#define OWES_RELEASE 0x04u
#define OWES_LOCK    0x08u
#define OWES_WAITS   0x10u

/* A lock as one member knows it. */
struct lock {
	uint8_t state; /* enum lock_state */
	uint8_t owes;
	bool tries;
	bool tells;      /* its result waits for the client */
	bool hand_dead;  /* flag DEAD of what is owed to `after`, or of RELEASE */
	uint8_t error;   /* of its result */
	bool next_known; /* who comes behind the turn `ticket` */
	uint32_t ticket; /* of the current turn, or of the last one */
	uint32_t ended;  /* MOVED, RELEASE: the ticket of the turn that ended */
	uint16_t next;   /* rank */
	uint32_t next_ticket;
	uint16_t after; /* rank to which the lock is handed on */
	uint32_t after_ticket;
};

#define OWES_GRANT 0x01u
#define OWES_NEXT  0x02u
#define OWES_BUSY  0x04u
#define OWES_QUERY 0x08u

/* The turn of a member at a lock that is managed here. */
struct group_turn {
	uint32_t ticket;
	uint16_t next; /* rank behind it, or NO_RANK */
	uint8_t owes;
	bool queued;
	bool dead; /* its member has gone; queued: the turn before it has not ended */
	bool flag; /* DEAD, of what is owed */
};

struct queue {
	uint16_t head, tail; /* ranks; NO_RANK: nobody holds it or waits */
	uint16_t giver;      /* whose turn was before the head's, and who hands the lock to it;
			      * NO_RANK: the manager did */
	bool dead;           /* one may have died while it held it: the next is told */
};

/* ------------------------------------------------------------------ shared regions */

enum share_state {
	SHARE_OUT,
	SHARE_ASKS,  /* to share it */
	SHARE_READS, /* the caller copies it from the home */
	SHARE_WAITS, /* ... has, and the home has to tell the others */
	SHARE_IN,
	SHARE_LEAVES, /* has asked to share it no more */
};

#define OWES_SUB    0x01u
#define OWES_UNSUB  0x02u
#define OWES_HELD   0x04u
#define OWES_COPIED 0x08u

#define TELLS_SUBSCRIBED   0x01u
#define TELLS_UNSUBSCRIBED 0x02u

/* A region as one member knows it. */
struct group_share {
	uint8_t state; /* enum share_state */
	uint8_t owes;
	uint8_t tells;             /* TELLS_*: the client */
	uint8_t error;             /* of COPIED, and of what is told */
	bool held;                 /* updates may not begin */
	bool notify;               /* the home's application is to be told */
	uint32_t dirty;            /* words of the directory that the client is to be told */
	uint32_t ticket;           /* of HOLD */
	uint32_t copy;             /* number of the one that it waits for */
	uint32_t asked;            /* updates that may not begin yet */
	uint32_t granted, refused; /* of which the client is to be told */
	uint32_t under_way;        /* of which it was told, and which have not ended */
	uint64_t len;              /* bytes */
};

enum share_phase {
	SHARE_QUIET,
	SHARE_HOLDS,  /* sharers are to end their updates */
	SHARE_COPIES, /* the subject copies the region */
};

/* A region whose home is here. */
struct share_home {
	uint8_t phase;    /* enum share_phase */
	uint8_t error;    /* of CHANGED */
	uint16_t subject; /* who comes or goes; or did last */
	uint16_t awaited; /* sharers that have not said HELD */
	uint16_t untold;  /* members to which CHANGED is owed */
	uint16_t wanting; /* members that want something */
	uint16_t came;    /* members of which the application is to be told */
	uint32_t ticket;
	uint32_t word; /* of the directory, next for the subject */
	uint64_t len;  /* bytes */
};

enum share_wants { WANTS_NOTHING, WANTS_IN, WANTS_OUT };

/* what was held goes on before something else begins */
#define OWES_REFUSED 0x01u
#define OWES_HOLD    0x02u
#define OWES_SHARERS 0x04u
#define OWES_COPY    0x08u
#define OWES_CHANGED 0x10u

/* A member at a region whose home is here. */
struct sharer {
	bool in, awaited;
	bool notifies; /* the application here is told when it has come */
	bool came;     /* and is to be told now */
	uint8_t wants; /* enum share_wants */
	uint8_t owes;
	uint8_t error; /* REFUSED */
	uint64_t len;  /* bytes of its copy */
};

/* ------------------------------------------------------------------ multicast */

#define NO_MARK UINT16_MAX
#define MARKS   256

#define OWES_GOT 0x01u

/* A chunk of which frames have arrived here, until it is answered. */
struct mark {
	uint8_t owes;
	bool asked;                /* its last frame, or ROUND, has come */
	uint8_t frames;            /* 0: this mark is free */
	uint16_t membership, rank; /* rank: of its sender */
	uint16_t next;             /* of the same sender, or free */
	uint32_t number;
	uint64_t got;       /* bits */
	uint64_t answer_at; /* asked: when it is answered, even if frames are missing */
};

/* A chunk that is sent. */
struct group_chunk {
	uint8_t frames;         /* 0: this chunk is free */
	uint8_t sent;           /* frames */
	bool lacked;            /* somebody lost a good part of it */
	bool reached;           /* somebody got something of it */
	uint16_t awaited;       /* answers */
	uint32_t number, first; /* first: of the multicast's frames */
	uint64_t round_at;      /* when those who have not answered are asked */
	uint64_t *waits;        /* ranks that have not answered */
	uint64_t *tells;        /* ranks of which the client is to be told */
	uint64_t *lacks;        /* by rank: bits of frames */
};

/* The multicast that a member sends. */
struct cast {
	bool runs;
	bool lost; /* the group has ended meanwhile: it is not known who has what */
	struct group_cast p;
	uint32_t frames, next; /* next: the first one that is in no chunk yet */
	uint32_t window, out;  /* frames that may be under way; that are */
	uint32_t number;       /* of the last chunk */
	struct group_chunk chunks[WIRE_CHUNKS_OPEN]; /* that with number n: n % WIRE_CHUNKS_OPEN */
	uint64_t *set;                               /* receivers' ranks */
};

/* ------------------------------------------------------------------ memberships */

/* The things that may owe a message: a membership itself, or a thing in one of its tables. */
enum owed_by { BY_MEMBERSHIP, BY_MEMBER, BY_LOCK, BY_TURN, BY_SHARE, BY_SHARER, BY_MARK };

enum membership_state {
	MEMBERSHIP_FREE,
	MEMBERSHIP_LISTS, /* its members are being listed */
	MEMBERSHIP_JOINS, /* not all are there yet, or not all have the key */
	MEMBERSHIP_OPEN,
	MEMBERSHIP_FAILED, /* it did not open: to be closed */
	MEMBERSHIP_ENDED,  /* rank 0 has gone: to be closed */
	MEMBERSHIP_LEAVES, /* rank 0 is told, and tells the others */
	MEMBERSHIP_DRAINS, /* the core has messages of it still */
};

#define OWES_JOIN  0x01u
#define OWES_ENTER 0x02u
#define OWES_HERE  0x04u
#define OWES_LEAVE 0x08u

#define TELLS_OPENED  0x01u
#define TELLS_ENDED   0x02u
#define TELLS_BARRIER 0x04u
#define TELLS_CLOSED  0x08u
#define TELLS_CAST    0x10u

/* A context's place in a group. */
struct membership {
	uint8_t state;   /* enum membership_state */
	uint8_t owes;    /* OWES_JOIN and so on: to rank 0 */
	uint8_t tells;   /* TELLS_*: the client */
	uint8_t owed_by; /* bits by enum owed_by: tables in which something may owe, see owe_by() */
	bool silent;     /* the context has ended: it is told nothing */
	bool stopped;    /* groups_stop */
	uint64_t stopped_at;
	bool fails;   /* it did not open */
	bool refused; /* ... by the word of rank 0 */
	bool in_barrier;
	bool waits; /* ... for others of its house, before it is told that it has entered */
	uint16_t ctx, rank, count, listed;
	uint16_t user;   /* of struct group_params */
	uint16_t next;   /* place of another one of this context, or NO_PLACE */
	uint16_t frames; /* that the core has */
	uint32_t id;
	uint64_t key, hash;
	uint32_t part;            /* group_took_part */
	uint64_t give_up, ask_at; /* times */
	/* why it did not open, or has ended */
	uint8_t error;
	uint16_t because; /* rank */
	/* barriers */
	uint32_t barrier;      /* last number that this member entered */
	uint32_t barrier_done; /* last number that has ended */
	uint8_t barrier_error;
	uint16_t barrier_because;
	uint64_t house;          /* ranks from rank & ~63 on that are of this lane, itself too; 0:
				  * not known yet */
	uint64_t company;        /* OWES_ENTER: those of them that it enters for */
	uint16_t enters_because; /* OWES_ENTER: who went meanwhile, or NO_RANK */
	uint8_t own_error;       /* of `barrier`, when it has ended */
	uint16_t own_because;
	uint16_t entered; /* rank 0: so many have entered barrier_done + 1 */
	uint16_t dones;   /* rank 0: members with OWES_DONE, or on whose way it is for a company */
	bool breaks;      /* rank 0: it ends with an error as soon as all know of the last one */
	uint8_t break_error;
	uint16_t break_because;
	/* members */
	uint16_t joined, keyed;         /* rank 0: so many; so many others have the key */
	uint16_t gone_count, gone_told; /* gone_told: to the client */
	uint16_t leavers;               /* rank 0: members with awaits_left */
	struct member *members;         /* by rank */
	uint16_t *by_addr;              /* ranks + 1 by hash of their addresses; 0: none */
	uint16_t *gone;                 /* ranks, in the order in which rank 0 says it */
	uint64_t *accusers; /* rank 0: of each rank, those that cannot reach it, as bits */
	uint64_t *owing;    /* members with owes */
	struct lock *locks; /* by number */
	uint64_t *locks_owing, *locks_telling;
	struct queue *queues;     /* of lock l: l / count, if it is managed here */
	struct group_turn *turns; /* of lock l and rank r: l / count * count + r */
	uint64_t *turns_owing;
	struct group_share *shares; /* by number of the region */
	uint32_t *directories;      /* of each region `words` of 32 ranks: who shares it */
	uint32_t words;
	uint64_t *shares_owing, *shares_telling, *shares_copying;
	struct share_home *homes; /* of region r: r / count, if its home is here */
	struct sharer *sharers;   /* of region r and rank k: r / count * count + k */
	uint64_t *sharers_owing;
	struct cast cast;
	uint64_t marks_owing[BITS_WORDS(MARKS)];
};

struct groups {
	struct groups_config cfg;
	uint32_t used;   /* memberships that are not free */
	uint32_t cursor; /* membership whose turn it is */
	uint32_t copies_made;
	uint64_t tickets; /* drawn */
	struct group_frame *free;
	struct group_frame *frames;
	struct membership *memberships;
	uint16_t *first; /* by context: the place of one of its memberships, or NO_PLACE */
	uint64_t *taken; /* memberships of contexts, bits */
	/* those that may owe something, that may have something to tell, that are timed, that have
	 * regions to copy, that send a multicast */
	struct set work, tell, timed, copies, casting;
	struct mark *marks; /* MARKS of them */
	uint16_t free_marks;
	uint16_t asked_marks; /* that wait for frames to come */
	uint32_t cast_cursor; /* membership whose turn it is to send */
};

/* make.c: empty a membership, and the memory of its tables. It stays in its context's list. */
void membership_clear(struct groups *g, struct membership *m);

static inline uint32_t
place_of(const struct groups *g, const struct membership *m)
{
	return (uint32_t)(m - g->memberships);
}

/* Note that the membership owes a message. */
static inline void
owe(struct groups *g, struct membership *m)
{
	set_add(&g->work, place_of(g, m));
}

/* Note that a thing in one of the membership's tables owes a message: set its bit in the set of
 * that table. */
static inline void
owe_by(struct groups *g, struct membership *m, enum owed_by table, uint64_t *set, uint32_t index)
{
	bit_set(set, index);
	m->owed_by |= (uint8_t)(1u << table);
	owe(g, m);
}

static inline void
owe_member(struct groups *g, struct membership *m, uint16_t rank, uint8_t what)
{
	m->members[rank].owes |= what;
	owe_by(g, m, BY_MEMBER, m->owing, rank);
}

static inline void
owe_lock(struct groups *g, struct membership *m, uint32_t l, uint8_t what)
{
	m->locks[l].owes |= what;
	owe_by(g, m, BY_LOCK, m->locks_owing, l);
}

static inline void
tell(struct groups *g, struct membership *m)
{
	if (!m->silent)
		set_add(&g->tell, place_of(g, m));
}

static inline void
count(struct groups *g, enum group_counter c)
{
	g->cfg.counters[c]++;
}

static inline uint16_t
manager_of(const struct membership *m, uint32_t l)
{
	return (uint16_t)(l % m->count);
}

/* Return the rank because of which a request about the lock or region of that number ended with
 * this error, or NO_RANK if it was because of nobody. */
static inline uint16_t
ended_because(const struct membership *m, uint32_t number, uint8_t error)
{
	if (error == 0 || error == EBUSY || error == EFAULT || error == EOWNERDEAD)
		return NO_RANK;
	return m->state == MEMBERSHIP_ENDED ? m->because : manager_of(m, number);
}

/* Return the rank that a message names as the reason for an error, or NO_RANK if there is no such
 * member. */
static inline uint16_t
because_of(const struct membership *m, const struct wire_group *h)
{
	const uint16_t rank = wire_be16(h->other);

	return rank < m->count ? rank : NO_RANK;
}

/* Return the index of what the manager of thing n keeps of it for that member. Things that members
 * manage (locks, regions) are numbered alike: thing n is managed by rank n modulo the number of
 * members, whose array has a place at this index for each of its things and each member. thing_at()
 * is the way back, at the manager: it returns the number of the thing that an index belongs to. */
static inline uint32_t
index_of(const struct membership *m, uint32_t n, uint16_t rank)
{
	return n / m->count * m->count + rank;
}

static inline uint32_t
thing_at(const struct membership *m, uint32_t index)
{
	return index / m->count * m->count + m->rank;
}

/* Return how many places a manager's array needs for all members at the things (locks, regions)
 * that it manages at most, if there are n things. */
static inline uint32_t
places_of(const struct membership *m, uint32_t n)
{
	return (n + m->count - 1) / m->count * m->count;
}

static inline bool
same_addr(struct group_addr a, struct group_addr b)
{
	return a.node == b.node && a.ctx == b.ctx;
}

/* Return whether a message from that address may be one of the member of that rank. */
static inline bool
is_of(const struct membership *m, uint16_t rank, struct group_addr from)
{
	return rank < m->count && same_addr(m->members[rank].addr, from);
}

/* Return the number of places of the hash table for so many members: a power of two, at least half
 * of them empty. */
static inline uint32_t
places_for(uint32_t count)
{
	return count > 1 ? 4u << (31 - __builtin_clz(count - 1)) : 2;
}

/* Loops over the memberships of a context; the current one may be let go meanwhile. */
#define OF_CONTEXT(g, c, m)                                                                        \
	for (uint16_t next_, at_ = (g)->first[c];                                                  \
		at_ != NO_PLACE && (m = &(g)->memberships[at_], next_ = m->next, true);            \
		at_ = next_)

/* place.c */
/* Return the context's membership in the group of that number, or NULL. */
struct membership *group_find(const struct groups *g, uint16_t ctx, uint32_t id);
/* Return the membership at that place if it is the context's, or NULL. */
struct membership *group_own(struct groups *g, uint16_t ctx, uint32_t place);
/* Return the membership at that place if it is the context's and open or ended, or NULL. */
struct membership *group_at(struct groups *g, uint16_t ctx, uint32_t place);
/* Take a free place for a membership of the context, and return it; NULL if there is none. */
struct membership *group_take_place(struct groups *g, uint16_t ctx);
/* Give the membership's place back: the context has heard that it is in that group no more, or is
 * to hear nothing. */
void group_let_go(struct groups *g, struct membership *m);
/* Return the place where the address is in the table of a group's addresses, or would be. */
uint16_t *group_place_for(const struct membership *m, struct group_addr a);

/* group.c */
/* Note, at rank 0, that one more member has got OPEN (the key, or why the group does not open), and
 * open the group when all others have the key. */
void group_keyed(struct groups *g, struct membership *m);
/* Note that member `rank` cannot be reached. Rank 0 declares it gone; others tell rank 0 that they
 * suspect it, or end the group for themselves if `rank` is 0. */
void group_lost(struct groups *g, struct membership *m, uint16_t rank);
/* Note, at rank 0, that a message about one that has gone has arrived at member `rank`, and owe it
 * the next one. */
void group_told(struct groups *g, struct membership *m, uint16_t rank);
/* Let the membership end: take back all that it owes but LEAVE. */
void group_drain(struct groups *g, struct membership *m);
/* Free the membership if it ends, and it owes nothing, and nothing of it is on its way. */
void group_settle(struct groups *g, struct membership *m);

/* barrier.c */
void barrier_message(struct groups *g, struct membership *m, uint16_t from,
	const struct wire_group *h);
/* End, at rank 0, the barrier that members have entered, if any have, because member `because` has
 * gone. */
void barrier_break(struct groups *g, struct membership *m, uint16_t because);
/* Note, at rank 0, that the core has the message f, by which a member is told that the last barrier
 * has ended. */
void barrier_told(struct groups *g, struct membership *m, const struct group_frame *f);
/* Note, at rank 0, that the core needs that message no more. */
void barrier_heard(struct groups *g, struct membership *m, const struct group_frame *f);
/* Take back the DONE that rank 0 owes to a member that has gone. */
void barrier_untold(struct groups *g, struct membership *m, uint16_t rank);
/* Owe DONE of the last barrier, at rank 0, to each member that was to hear it from member `rank`,
 * which has gone. Note also that the next barrier may end because of it. */
void barrier_speaker_gone(struct groups *g, struct membership *m, uint16_t rank);
/* Return, at rank 0, the ranks that hear from member `rank` how the last barrier has ended, as bits
 * from rank & ~63 on. */
uint64_t barrier_company(const struct membership *m, uint16_t rank);
/* Enter the barrier, with those of the house that wait, if this member waits: it has heard that
 * another one has gone. */
void barrier_member_gone(struct groups *g, struct membership *m, uint16_t rank);
/* Leave to others of its house what this member was to say for them, as it is in the group no
 * more. */
void barrier_unsaid(struct groups *g, struct membership *m);
/* Let those wait again for whom the message h, which has failed, was to say that they enter, and
 * let others of the house enter for them. */
void barrier_enter_failed(struct groups *g, struct membership *m, const struct wire_group *h);
/* Let another member of the house, if one goes on, enter for the company of this one, which is
 * stopped. */
void barrier_stops(struct groups *g, struct membership *m);
/* Let this member, which goes on, enter for the companies of those of its house that are
 * stopped. */
void barrier_starts(struct groups *g, struct membership *m);
/* End the barrier of that number for this member, with the error and the rank that is its
 * reason. */
void barrier_ends(struct groups *g, struct membership *m, uint32_t number, uint8_t error,
	uint16_t because);

/* lock.c */
void lock_message(struct groups *g, struct membership *m, uint16_t from,
	const struct wire_group *h);
/* Go on with all locks without that member, which has gone: end requests if it manages the lock,
 * and mend the queue if this member does. */
void lock_member_gone(struct groups *g, struct membership *m, uint16_t rank);
/* Hand on all locks that this member holds, and end its requests without result, as it leaves. */
void lock_leave(struct groups *g, struct membership *m);
/* End all requests for locks, as the group has ended. */
void lock_group_ended(struct groups *g, struct membership *m);

/* region.c */
void shared_message(struct groups *g, struct membership *m, uint16_t from,
	const struct wire_group *h);
/* Return, at the home, the next word of the region's directory for its subject. */
uint32_t shared_word(const struct membership *m, uint32_t r);
/* Note, at the home, that that word is on its way to m->sharers[index]. */
void shared_word_told(struct membership *m, uint32_t index);
/* Note, at the home, that CHANGED is on its way to m->sharers[index], or is not needed. */
void shared_told(struct groups *g, struct membership *m, uint32_t index);
void shared_member_gone(struct groups *g, struct membership *m, uint16_t rank);
void shared_group_ended(struct groups *g, struct membership *m);
/* Take the next result about a region. Return false if there is none. */
bool shared_result(struct groups *g, struct membership *m, struct group_result *out);

/* Return the bits of all frames of a chunk. */
static inline uint64_t
chunk_bits(uint8_t frames)
{
	return frames < 64 ? (1ull << frames) - 1 : ~0ull;
}

/* cast.c */
void casts_init(struct groups *g);
void cast_message(struct groups *g, struct membership *m, uint16_t from,
	const struct wire_group *h);
/* Go on without that member, which has gone: forget its frames, and await no answers from it. */
void cast_member_gone(struct groups *g, struct membership *m, uint16_t rank);
/* End the multicast that this member sends, if it does, with an error, as the group has ended. */
void cast_group_ended(struct groups *g, struct membership *m);
/* Send and take no frames any more for the membership. */
void cast_over(struct groups *g, struct membership *m);
/* Return the oldest chunk that is sent and that the member has not answered for, or NULL. */
const struct group_chunk *cast_awaits(const struct membership *m, uint16_t rank);
/* Note that the answer for that mark is on its way, or is not needed, and free the mark. */
void cast_answered(struct groups *g, struct membership *m, uint16_t mark);
void casts_tick(struct groups *g, uint64_t now);
uint64_t casts_deadline(const struct groups *g);
/* Take the next result about a multicast. Return false if there is none. */
bool cast_result(struct groups *g, struct membership *m, struct group_result *out);

#endif
