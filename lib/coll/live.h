/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Collectives of groups, sans-IO: the state that one lane keeps of the collectives that its
 * contexts have begun, and of what others have sent about those that they have not. One
 * `struct colls` belongs to one lane of the engine, and only that thread calls it. What comes in
 * are beginnings, messages and the time; what is to be sent, moved or told is pulled out. The bytes
 * are the caller's: this library says where they go. It reads no clock, and allocates nothing after
 * colls_init.
 *
 * Design notes
 * 1. Collectives of a group are numbered from 0 in the order in which they begin, which must be the
 *    same at all members; several may run at once. Each rank's list is run by exec.h.
 * 2. Members begin when they like. A message about a collective that its receiver has not begun
 *    waits here, in memory that exists from the beginning: each member sends at most one of these
 *    to another one about each of WIRE_COLL_AHEAD collectives, until it hears that the other one
 *    has begun. So nothing is refused, and what waits holds up nobody.
 * 3. Who begins says so (BEGUN) to those whose permits it needs, and to those who have asked.
 * 4. A collective that cannot go on ends at all members with the same error and rank: who notices
 *    tells rank 0 (FAIL), which tells all (ABORT). After that the group has no further collectives.
 *    Members that leave or die are the group's concern (group_broken), and end them likewise.
 * 5. Each message carries a digest of the sender's plan; but plans that differ may wait for each
 *    other without any, so a collective that takes long tells all members its own (BEGUN).
 */
#ifndef PMX_COLL_LIVE_H
#define PMX_COLL_LIVE_H

#include "coll/exec.h"
#include "core/wire/wire.h"

struct colls;

/* Indices of the counters in the caller's array. */
enum colls_counter {
	COLLS_BAD_MESSAGES, /* malformed, or against the protocol */
	COLLS_REFUSED,      /* of who is no member; counted by the caller */
	COLLS_COUNTERS
};

/* All limits are fixed at init. */
struct colls_config {
	uint32_t places_max;  /* memberships: 1..65535 */
	uint32_t members_max; /* of a group: 1..WIRE_GROUP_MEMBERS_MAX */
	uint32_t live_max;    /* collectives that run at once: 1..65535 */
	uint32_t steps_max;   /* of a list: 1..COLL_STEPS_MAX */
	uint64_t *counters;   /* COLLS_COUNTERS of them, the caller's */
};

/* A membership of a group, as the caller knows it. */
struct colls_seat {
	uint16_t place, ctx;
	uint16_t rank, count; /* own; members */
	uint32_t group;       /* its number */
	uint64_t key;         /* another group at that place has another one */
};

/* Return the bytes of memory that such a configuration needs. */
size_t colls_memsize(const struct colls_config *config);
/* Build in `memory` (64-byte aligned, zeroed, colls_memsize bytes, owned by the caller). */
struct colls *colls_init(void *memory, const struct colls_config *config);

/* ------------------------------------------------------------------ beginning */

/* Take an index below live_max at which no collective runs: `like`, if that one is free. Return it,
 * or -EAGAIN if none is free. Begin a collective at it, and give it back after the collective's
 * end. */
int colls_take(struct colls *c, uint32_t like);
void colls_give(struct colls *c, uint32_t index);
/* Begin the group's next collective. list, with its steps, and the ends of blocks must stay until
 * the end; list->ranks and rank are set here. same: they are what they were when this index was
 * last begun, which then is not done again. now: ns, of any beginning. Ends by colls_ended, also
 * if the list cannot be run. After this colls_early is to be called until it returns false. */
void colls_begin(struct colls *c, uint32_t index, const struct colls_seat *seat,
	struct coll_list *list, const struct coll_blocks blocks[COLL_BUFFERS], uint32_t hash,
	bool same, uint64_t now);
/* Fail a collective that cannot go on. error: a positive errno; rank: because of which. Tell all
 * members unless all know. */
void colls_fail(struct colls *c, uint32_t index, uint8_t error, uint16_t rank);
/* Return the number that the next collective to begin will have. */
uint32_t colls_number(struct colls *c, const struct colls_seat *seat);
/* End all collectives of a membership from that number on, also later ones, with that error,
 * because of that rank. The other members know already. */
void colls_break(struct colls *c, uint16_t place, uint32_t number, uint8_t error, uint16_t rank);

/* Takes the next one that has ended. error: 0 or a positive errno; rank: because of which. */
struct colls_end {
	uint32_t index, number;
	uint16_t ctx, place;
	uint16_t rank;
	uint8_t error;
};
bool colls_ended(struct colls *c, struct colls_end *out);

/* ------------------------------------------------------------------ what is to be done */

/* Bytes of a message that have come for a collective: to be put into their place before any other
 * call, as they count as arrived. */
struct colls_place {
	uint32_t index;
	uint16_t step;
	uint64_t offset;
	uint32_t len;
	const void *bytes;
	uint64_t permitted; /* no bytes, but a member has permitted so many more to be sent to it */
};
/* Get the next bytes that came for a collective before it was begun. Return false: nothing more.
 * Permits are not reported. */
bool colls_early(struct colls *c, uint32_t index, struct colls_place *out);
/* Take a message from a member of seat's group. Returns true if bytes are to be placed; otherwise
 * only out->permitted is valid. */
bool colls_message(struct colls *c, const struct colls_seat *seat, uint16_t from,
	const void *message, uint32_t len, struct colls_place *out);

enum colls_what {
	COLLS_SEND,  /* a message: head, then len bytes of the step from offset on */
	COLLS_LOCAL, /* a REDUCE or COPY of those bytes of the step */
};
struct colls_do {
	enum colls_what what;
	uint32_t index; /* if len > 0 */
	uint16_t step;
	uint64_t offset;
	uint32_t len;
	/* SEND */
	uint16_t ctx, place, to; /* to: rank */
	struct wire_coll head;
};
/* Get the next thing to do, which counts as done; each SEND is to be ended by colls_acked.
 * may_send: false: only LOCAL. false: nothing now. */
bool colls_next(struct colls *c, struct colls_do *out, bool may_send, uint64_t now);
/* End a message that has arrived, or cannot. key: of its head. */
void colls_acked(struct colls *c, uint16_t place, uint64_t key);
/* Return when colls_next() may have something by the time alone, ns; or COLL_NEVER. */
uint64_t colls_deadline(const struct colls *c);

/* ------------------------------------------------------------------ looking */

/* Network preemption: until colls_start no piece or permit of the context's collectives is sent;
 * what has arrived is worked on, and what ends is told. Idempotent. */
void colls_stop(struct colls *c, uint16_t ctx);
void colls_start(struct colls *c, uint16_t ctx);
/* Return whether nothing runs, nothing is to be sent, all that was sent has arrived, and all ends
 * were taken. */
bool colls_is_quiet(const struct colls *c);
/* Return whether a membership has messages that have not arrived, or has still to tell others what
 * failed. */
bool colls_is_out(const struct colls *c, uint16_t place);
/* Return whether colls_is_out() is true of any membership of a context. */
bool colls_ctx_is_out(const struct colls *c, uint16_t ctx);
/* Return whether that index has been taken, and not given back. */
bool colls_is_used(const struct colls *c, uint32_t index);
/* Return the number of a membership's first collective that it has not ended, or if it has ended
 * all, of the next one that it will begin. */
uint32_t colls_part(const struct colls *c, uint16_t place);
/* Let a member leave: give back its running collectives, without results. What comes for them is
 * ignored, but what it found to have failed before is still told. Return how many these were. */
uint32_t colls_leave(struct colls *c, uint16_t place);
/* The next running collective: *at is 0 at first. false: there is no further one. */
struct colls_live {
	uint32_t index, number;
	uint16_t ctx, place;
};
bool colls_running(const struct colls *c, uint32_t *at, struct colls_live *out);
/* Return the struct coll_exec of a running collective: what its steps are, and where in the areas
 * something lies (exec.h). */
struct coll_exec *colls_exec(const struct colls *c, uint32_t index);

/* ------------------------------------------------------------------ moving */

/* Another process goes on; nothing is out. Spans of memory as in group.h: *at is 0 at first; the
 * other process copies each one's bytes to its own, and calls colls_adopt before it asks for the
 * next one; then colls_adopted for each running one, whose steps are where it says. */
struct colls_span {
	void *bytes;
	size_t len;
};
bool colls_span(struct colls *c, uint32_t *at, struct colls_span *out);
void colls_adopt(struct colls *c, const struct colls_config *config);
void colls_adopted(struct colls *c, uint32_t index, const struct coll_step *steps);
/* Changed whenever the layout of what the spans hold changes. */
#define COLLS_IMAGE_FORM 7u

#endif
