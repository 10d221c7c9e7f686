/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The state of a lane's collectives, for live.c, live_make.c and live_look.c alone.
 */
#ifndef PMX_COLL_LIVE_STATE_H
#define PMX_COLL_LIVE_STATE_H

#include "coll/live.h"

#define NONE   UINT16_MAX
#define HASHES 64 /* of a group's last collectives, kept */

enum live_state { LIVE_FREE, LIVE_TAKEN, LIVE_RUNS, LIVE_ENDED };

/* A collective of a membership. */
struct live {
	uint8_t state; /* enum live_state */
	uint8_t error;
	bool cannot;   /* its list cannot be run: it waits for the verdict */
	uint16_t rank; /* because of which */
	uint16_t ctx, place;
	uint16_t next;     /* of its place, or of those that have ended, or that are free */
	uint16_t at;       /* in colls.runs; FREE: the one before it in its list, or NONE */
	uint16_t check_to; /* the next rank to be told of its plan */
	uint16_t load_in, load_out; /* of its list */
	uint32_t number, hash;
	uint64_t check_at; /* ns: when that begins */
};

/* A message that came before its collective was begun here. Its bytes are apart, so that memory for
 * these takes pages only where some have come. */
struct early {
	uint8_t op; /* enum wire_coll_op; 0: none */
	uint16_t ordinal;
	uint16_t next; /* of those of the same number: member, or NONE */
	uint32_t len;
	uint32_t number, hash;
	uint64_t at;
};

/* The plan with which a member has begun a collective that is not begun here. */
struct live_claim {
	bool is;
	uint32_t number, hash;
};

/* A membership knows this of another member. */
struct live_peer {
	uint32_t heard; /* it has begun all before this one */
	uint32_t told;  /* it knows, or will, that this side has begun all before this one */
	uint32_t asked; /* it wants to know when any up to this one is begun here */
	uint32_t ask;   /* this side wants to know when it has begun this one */
	bool was_asked; /* `asked` is valid */
	bool owes_begun, owes_ask;
	struct live_claim claims[WIRE_COLL_AHEAD]; /* by number */
};

/* A collective that has ended everywhere, with all later ones, or is to. */
struct live_verdict {
	bool is;
	uint8_t error;
	uint16_t rank; /* because of which */
	uint32_t number;
};

/* This is kept for each struct live of the list that was made for it last. */
struct made {
	bool is;
	uint16_t ranks, rank;
	size_t bytes;
};

struct live_seat {
	struct colls_seat of; /* key 0: nobody's */
	uint32_t next;        /* number of the collective that begins next */
	uint32_t out;         /* messages that have not arrived */
	uint16_t lives;       /* first of them that runs, or NONE */
	uint16_t work_next;
	bool works;   /* it is in colls.work */
	bool stopped; /* colls_stop */
	/* of these numbers, a member whose message came early: also what nobody took, when it is of
	 * one that has ended */
	uint16_t early[WIRE_COLL_AHEAD];
	uint16_t asks;   /* members with was_asked */
	uint32_t claims; /* of all members */
	uint16_t owing;  /* members with owes_begun or owes_ask */
	uint16_t owing_at;
	bool left;
	struct live_verdict over;
	bool owes_fail;
	struct live_verdict fail;
	uint32_t fail_hash;
	uint16_t abort_at; /* rank 0: the next one to be told of `over`; count: all know */
	/* rank 0: what a member said of a collective that is not begun here */
	struct live_verdict doubt;
	uint16_t doubter;
	uint32_t doubt_hash;
	uint32_t hashes[HASHES];
	uint32_t hashes_known; /* of the last ones: HASHES at most */
};

struct colls {
	struct colls_config cfg;
	uint16_t free, ended; /* lists of lives */
	uint16_t ended_last;
	uint16_t work; /* places that owe something, a ring: the last one, or NONE */
	uint32_t running;
	uint32_t cursor;   /* in runs, whose turn it is */
	bool load_changes; /* other ones than at the last look want the node's line */
	uint64_t out;      /* of all places */
	size_t exec_bytes; /* of each live */
	struct live_seat *seats;
	struct live_peer *peers; /* of place p and rank r: p * members_max + r */
	struct early *early;     /* ... times WIRE_COLL_AHEAD */
	uint8_t *early_bytes;    /* WIRE_COLL_EAGER of each */
	struct live *lives;
	uint16_t *runs; /* those that run, in no order: `running` of them */
	struct made *made;
	uint8_t *execs, *images;
};

static inline bool
before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

static inline size_t
rounded(size_t bytes)
{
	return (bytes + 63) / 64 * 64;
}

static inline struct live_peer *
peers_of(const struct colls *c, uint32_t place)
{
	return &c->peers[(size_t)place * c->cfg.members_max];
}

static inline struct early *
early_of(const struct colls *c, uint32_t place, uint32_t rank, uint32_t number)
{
	const size_t peer = (size_t)place * c->cfg.members_max + rank;

	return &c->early[peer * WIRE_COLL_AHEAD + number % WIRE_COLL_AHEAD];
}

static inline uint8_t *
early_bytes_of(const struct colls *c, const struct early *m)
{
	return c->early_bytes + (size_t)(m - c->early) * WIRE_COLL_EAGER;
}

/* Return whether others have yet to be told what has failed here. A member that leaves tells them,
 * too. */
static inline bool
owes_verdict(const struct live_seat *s)
{
	return s->owes_fail || s->abort_at < s->of.count;
}

/* live_make.c: nobody's any more. */
void colls_put_free(struct colls *c, uint16_t index);

#endif
