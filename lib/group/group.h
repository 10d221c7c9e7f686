/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Groups, sans-IO (RHI-GRP, RHI-LOCK, RHI-BAR, RHI-SUB; RHiNET, 1999, section 2): the state that
 * one lane keeps of the groups in which its contexts are members. One `struct groups` belongs to
 * one lane of the engine (or to one simulated node), and only that thread calls it. The caller
 * passes in commands, messages, acknowledgements and the time, and pulls messages and results. The
 * library reads no clock, allocates nothing after groups_init, and calls nothing but mem*.
 *
 * Design notes
 * 1. A message never waits for room to answer it: what is owed to whom is a few bits of the member,
 *    lock or turn that it is about, and groups_tx makes the message from these when the core takes
 *    it. So the endpoints' room is given back at once, and no circle of nodes can block itself.
 * 2. Rank 0 manages the group: who is in it, and its barriers. All know of a member's end by it, in
 *    the same order. If rank 0 ends, the group does. Messages to the own rank go the same way as
 *    all others (the caller passes them back), so rank 0 is a member like any other.
 * 3. Lock l is managed by rank l modulo the number of members, in a queue of turns (lock.c).
 * 4. The home of a shared region is a rank in the same way (region.c). Its bytes are the caller's:
 *    this library says when they may be copied or written, and to whom.
 * 5. Multicast by the network: frames that no flow carries, and that promise nothing; members
 *    answer for each chunk of them by messages (cast.c). The bytes are the caller's, too.
 * 6. All messages are checked: the group is known here, the key is right, the sender's address is
 *    that of its rank. Only rank 0 knows the key at first, and OPEN tells it.
 */
#ifndef PMX_GROUP_H
#define PMX_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/wire/wire.h"

struct groups;

/* Indices of the counters in the caller's array. */
enum group_counter {
	GROUP_BAD_MESSAGES, /* malformed, or against the protocol */
	GROUP_REFUSED,      /* of who is no member, or has not the key */
	GROUP_COUNTERS
};

/* All limits are fixed at init. */
struct groups_config {
	uint32_t groups_max;  /* memberships of all contexts of the lane: 1..4096 */
	uint32_t members_max; /* of a group: 1..WIRE_GROUP_MEMBERS_MAX */
	uint32_t locks_max;   /* of a group, which are 0..locks_max - 1: 0..WIRE_GROUP_LOCKS_MAX */
	uint32_t regions_max; /* of a group, which are 0..regions_max - 1:
			       * 0..WIRE_GROUP_REGIONS_MAX */
	uint32_t frames_max;  /* messages that the core may have at once: 1.. */
	uint64_t join_ticks;  /* of time, after which a member asks again to be let in: 1.. */
	uint64_t wait_ticks;  /* how long frames of a multicast may arrive after the last one */
	uint64_t round_ticks; /* after which those are asked that have not answered for a chunk:
			       * 1.. */
	uint64_t key[2];      /* random, and known to nobody else: tickets follow from it */
	uint64_t *counters;   /* GROUP_COUNTERS of them, the caller's */
};

struct group_addr {
	uint16_t node, ctx;
};

/* A message, in use from groups_tx until groups_acked. */
struct group_frame {
	struct wire_group message;
	void *user;   /* the caller's */
	uint16_t ctx; /* own context */
	struct group_addr to;
	/* the library's */
	uint16_t membership, rank; /* rank: to which it goes */
	uint8_t table, what;       /* of what was owed: enum owed_by, and which of its bits */
	uint32_t index;
	struct group_frame *next;
};

enum group_kind {
	GROUP_OPENED,  /* all are there; or error, and the rank because of which */
	GROUP_GONE,    /* member `rank` left (error 0) or died */
	GROUP_ENDED,   /* rank 0 has gone, or the others have no way to this member (own rank) */
	GROUP_BARRIER, /* number; all have entered; or error, and the rank that died */
	GROUP_LOCKED,  /* number; error: 0, EOWNERDEAD (held, but a member may have died while it
			* held it), EBUSY (tried), EHOSTDOWN (its manager died) or ECONNRESET (the
			* group has ended) */
	GROUP_CLOSED,  /* its place is free again */
	/* of region `number` */
	GROUP_SUBSCRIBED,   /* error: 0, EPROTO (its home has another length), EHOSTDOWN (it has
			     * gone), ECONNRESET (the group has ended), or as the copy failed */
	GROUP_SHARERS,      /* bits: which of the ranks from `rank` * 32 on share it; before UPDATE,
			     * and only what has changed */
	GROUP_UPDATE,       /* an update may begin, or error: EHOSTDOWN, ECONNRESET */
	GROUP_UNSUBSCRIBED, /* error: 0; or EBUSY: its home is here, and others share it */
	GROUP_SHARER,       /* its home is here: member `rank` shares it now, and wanted that
			     * told */
	/* of the multicast by the network that is under way */
	GROUP_LACKS, /* member `rank` has not got these of its frames: bits, from frame `number`
		      * on */
	GROUP_CAST,  /* all have answered, or are gone: the next one may begin. number: of the
		      * frames that were sent: nobody has those from there on. error: ECONNRESET:
		      * the group has ended: any member may have any frame, and number is 0 */
	/* not of this library, but of its caller: bits: which of the ranks from `rank` * 32 on can
	 * be reached by the network. number: enum multicast_by */
	GROUP_REACHES,
};

struct group_result {
	uint8_t kind;  /* enum group_kind */
	uint8_t error; /* 0 or an errno */
	uint16_t place, user, rank;
	uint32_t number, bits;
};

struct group_params {
	uint32_t id;      /* of the group: not 0, the same at all members, and no other's of this
			   * context */
	uint16_t rank;    /* own */
	uint16_t count;   /* of members */
	uint16_t user;    /* the caller's, returned with results */
	uint64_t random;  /* rank 0: the key */
	uint64_t give_up; /* time at which it ends with ETIMEDOUT unless all are there */
};

/* Return the bytes of memory that groups of this configuration need; 0 if it is invalid. */
size_t groups_memsize(const struct groups_config *config);
/* Build in `memory` (64-byte aligned, zeroed, groups_memsize bytes, owned by the caller). NULL if
 * the configuration is invalid. */
struct groups *groups_init(void *memory, const struct groups_config *config);

/* Another process goes on with the groups. While a frame is out (groups_out) they cannot move.
 * Their state is in spans of memory: *at is 0 at first, one span a call, false: there is no further
 * one. The other process has made groups of the same configuration. It copies each span's bytes
 * into its own one and calls groups_adopt before it asks for the next one, because the first span
 * says which others there are; after the last one these groups go on there. config is its own,
 * whose limits are the same. */
struct group_span {
	void *bytes;
	size_t len;
};
bool groups_out(const struct groups *g);
bool groups_span(struct groups *g, uint32_t *at, struct group_span *out);
void groups_adopt(struct groups *g, const struct groups_config *config);
/* Changed whenever the layout of what the spans hold changes. */
#define GROUPS_IMAGE_FORM 5u

/* ------------------------------------------------------------------ commands of a context */

/* Join a group. Returns its place, whose members are then to be listed by group_list; -EINVAL;
 * -EEXIST: the context is in that group already; -ENOSPC. */
int group_open(struct groups *g, uint16_t ctx, const struct group_params *p);
/* Append n members to the list, in the order of their ranks. With the last one the group begins to
 * open, which ends with GROUP_OPENED. 0; -EINVAL: there is no such place, too many members, twice
 * the same, or the own rank is not this context. After that its place is to be closed. */
int group_list(struct groups *g, uint16_t ctx, uint32_t place, const struct group_addr *own,
	const struct group_addr *members, uint32_t n, uint64_t now);
/* Leave it. Ends with GROUP_CLOSED when the others know. Held locks are released as if the member
 * had died. 0 or -EINVAL. */
int group_close(struct groups *g, uint16_t ctx, uint32_t place);
/* Leave all groups of the context, without results: it has ended. */
void groups_leave(struct groups *g, uint16_t ctx);
/* Return whether the context is in no group any more, and the core has no message of it. */
bool groups_left(const struct groups *g, uint16_t ctx);

/* Enter the next barrier; they are numbered from 1. Ends with GROUP_BARRIER. Returns its number;
 * -EBUSY: the last one has not ended; -EINVAL. */
int64_t group_barrier(struct groups *g, uint16_t ctx, uint32_t place);
/* Ask for a lock. Ends with GROUP_LOCKED. 0; -EDEADLK: it is held, or asked for, already;
 * -EINVAL. */
int group_lock(struct groups *g, uint16_t ctx, uint32_t place, uint32_t lock, bool tries);
/* Release a lock. 0; -EPERM: it is not held; -EHOSTDOWN: its manager died while it was held, or the
 * group has ended, and the lock is nobody's now; -EINVAL. */
int group_unlock(struct groups *g, uint16_t ctx, uint32_t place, uint32_t lock);

/* Share a region of len bytes; 0: there are none, EFAULT. notify: the home has a GROUP_SHARER. Ends
 * with GROUP_SUBSCRIBED, which groups_copy may come before. 0; -EEXIST: it is shared, or being;
 * -EINVAL. */
int group_subscribe(struct groups *g, uint16_t ctx, uint32_t place, uint32_t region, uint64_t len,
	bool notify);
/* Share it no more. Ends with GROUP_UNSUBSCRIBED. 0 or -EINVAL. */
int group_unsubscribe(struct groups *g, uint16_t ctx, uint32_t place, uint32_t region);
/* Ask for an update to begin. Ends with GROUP_UPDATE, after which all that share the region are to
 * be written to, and group_updated called. 0 or -EINVAL. */
int group_update(struct groups *g, uint16_t ctx, uint32_t place, uint32_t region);
/* End an update: all that share the region have it. 0 or -EINVAL. */
int group_updated(struct groups *g, uint16_t ctx, uint32_t place, uint32_t region);

#define GROUP_COPY_NUMBERS 512

/* The bytes of a region that are to be copied from its home before this member shares it. */
struct group_copy {
	uint16_t ctx, place;
	uint32_t id, region; /* id: the group's */
	uint32_t number;     /* by which its end is told: below GROUP_COPY_NUMBERS */
	uint64_t len;
	struct group_addr home;
};
/* Return the next copy that is to begin, the same one until group_copying is called. false: there
 * is none. */
bool groups_copy(struct groups *g, struct group_copy *out);
/* Note that the copy has begun. */
void group_copying(struct groups *g, const struct group_copy *c);
/* Note that a copy has ended. number: of struct group_copy. error: 0 or an errno. A copy that is
 * not waited for any more is ignored. */
void group_copied(struct groups *g, uint16_t ctx, uint32_t place, uint32_t region, uint32_t number,
	uint8_t error);

/* ------------------------------------------------------------------ multicast by the network */

/* The bytes of one, as a member sends them. */
struct group_cast {
	uint32_t area;          /* ID of an area of the group at each receiver */
	uint64_t at;            /* offset in it */
	uint64_t from, len;     /* the sender's bytes: 1.. */
	uint32_t unit;          /* bytes of a frame: 1.. */
	uint32_t memory, links; /* the caller's */
	bool runs;              /* each frame's bytes are runs, whose first skip begins at `at` */
};
/* Add those ranks of the 32 from word * 32 on to the receivers of the next multicast. 0 or
 * -EINVAL. */
int group_cast_to(struct groups *g, uint16_t ctx, uint32_t place, uint32_t word, uint32_t ranks);
/* Return how many bytes stand before those of the multicast in each frame; 0: there is no such
 * membership. */
uint32_t group_cast_head(struct groups *g, uint16_t ctx, uint32_t place);
/* Begin it. Ends with GROUP_CAST. 0; -EBUSY: one is under way; -EINVAL. */
int group_cast(struct groups *g, uint16_t ctx, uint32_t place, const struct group_cast *c);

/* A frame to send: head_len bytes of head, then len bytes of the sender's from `from` on. */
struct group_cast_frame {
	uint8_t head[WIRE_MULTI_HEAD(WIRE_GROUP_MEMBERS_MAX)];
	uint32_t head_len;
	uint16_t ctx;
	uint32_t id; /* the group's */
	uint32_t memory, links;
	uint64_t from;
	uint32_t len;
};
/* Make the next frame; it does not matter to the library whether it is really sent. false: none may
 * be sent now. */
bool groups_cast_tx(struct groups *g, struct group_cast_frame *out, uint64_t now);

/* The place to which the bytes of a frame that arrived go. */
struct group_cast_place {
	uint16_t ctx, mark;
	uint8_t frame;
	bool runs;         /* the bytes are runs: WIRE_MULTI_RUNS */
	uint32_t id, area; /* id: the group's */
	uint64_t at;
	uint32_t head_len; /* the bytes are behind so many of the payload */
};
/* Take the payload of a MULTI frame, and find the memberships that want its bytes, one a call: *at
 * is 0 at first. false: there is no further one. Call group_cast_placed for each before the next
 * call. */
bool groups_cast_heard(struct groups *g, uint32_t *at, struct group_addr from, const void *payload,
	uint32_t len, struct group_cast_place *out, uint64_t now);
/* Note that the bytes are in their place. */
void group_cast_placed(struct groups *g, const struct group_cast_place *p);

/* ------------------------------------------------------------------ messages */

/* Return the next message to send, or NULL: nothing is owed, or all frames are in use. The caller
 * gives it to the core, and calls groups_sent before it calls any other function of these groups.
 * If the message's `to` is of this node, the caller passes it to groups_message of that context's
 * lane instead, and then to groups_acked. */
struct group_frame *groups_tx(struct groups *g);
/* Note whether the core has taken the message. error: 0; EAGAIN: it cannot be sent now (it will be
 * pulled again); otherwise what is wrong with the destination. */
void groups_sent(struct groups *g, struct group_frame *f, uint8_t error);
/* Note that the core needs the message no more. error: 0, or the errno with which it failed. */
void groups_acked(struct groups *g, struct group_frame *f, uint8_t error);
/* Take a message of a context's endpoint. life: of the sender's node, a number that changes when
 * the node restarts; 0: this node, or not known. The endpoint's room can be given back at once. */
void groups_message(struct groups *g, uint16_t ctx, struct group_addr from, uint32_t life,
	const void *message, uint32_t len);
/* Note that the node is in this life: members that were let in while it was in another one have
 * gone. life 0: all paths to it are dead, and all its members have gone. */
void groups_node_gone(struct groups *g, uint16_t node, uint32_t life);
/* Network preemption: until groups_start the context's members send nothing, and their timers stand
 * still. What others say to them is taken in. settled: none of its messages is on its way.
 * Idempotent; a context that closes is to be started first. */
void groups_stop(struct groups *g, uint16_t ctx, uint64_t now);
void groups_start(struct groups *g, uint16_t ctx, uint64_t now);
bool groups_are_settled(const struct groups *g, uint16_t ctx);
/* Run the timers; to be called at groups_deadline, which is UINT64_MAX if nothing waits. */
void groups_tick(struct groups *g, uint64_t now);
uint64_t groups_deadline(const struct groups *g);

/* ------------------------------------------------------------------ results, looking */

/* Find the contexts that have results, one a call, some of them more than once: *at is 0 at first.
 * false: there is no further one. */
bool groups_tells(const struct groups *g, uint32_t *at, uint16_t *ctx);
/* Return whether no context is in any group. */
bool groups_is_quiet(const struct groups *g);
/* Take the next result of a context. false: there is none. */
bool group_result(struct groups *g, uint16_t ctx, struct group_result *out);
/* Return whether the context is in that group, the group is open, and `who` is a member of it
 * still. */
bool groups_has(const struct groups *g, uint16_t ctx, uint32_t id, struct group_addr who);
/* Write the address of a member to *out, if the group is open or has ended. false: there is no such
 * member. */
bool group_member_at(const struct groups *g, uint16_t ctx, uint32_t place, uint32_t rank,
	struct group_addr *out);
/* Return the group's key, which its members put into transfers, or 0 if the group is not open. */
uint64_t group_key(const struct groups *g, uint16_t ctx, uint32_t place);

/* The membership to which a message of a group's member goes, and the ranks of both. */
struct group_seat {
	uint16_t place;
	uint16_t rank, count; /* own; members */
	uint16_t from;        /* rank of who sent it */
	uint32_t id;          /* the group's */
	uint64_t key;
};
/* Find the membership of a message from `who`. The group may not be open here yet when it is open
 * there already. false: there is no such membership, the key is another one, or `who` is no member
 * of it. */
bool group_seat(const struct groups *g, uint16_t ctx, uint32_t id, uint64_t key,
	struct group_addr who, struct group_seat *out);
/* Find the membership at a place, of a group that is open or has ended; from: own rank. false:
 * there is none. */
bool group_seat_at(const struct groups *g, uint16_t ctx, uint32_t place, struct group_seat *out);
/* Note that this member has done its part of all that has a number below `number`, of the things
 * that members do one after the other, numbered from 0 on (lib/coll). The others are told so when
 * this member leaves. */
void group_took_part(struct groups *g, uint16_t ctx, uint32_t place, uint32_t number);
/* Note that a message to that member has been lost for good: the group goes on without it, as rank
 * 0, which hears so from this member, tells all. */
void group_unreachable(struct groups *g, uint16_t ctx, uint32_t place, uint16_t rank);
/* Return 0 if what has that number (see group_took_part) can come to its end; otherwise return a
 * positive errno, and in *rank because of which rank it cannot. All members get the same answer, if
 * they ask again when they have heard of a member that has gone. EINVAL: the group is not open. */
uint8_t group_broken(const struct groups *g, uint16_t ctx, uint32_t place, uint32_t number,
	uint16_t *rank);

/* A membership, for people. */
struct group_stat {
	uint32_t id;
	uint16_t ctx, rank, count, gone; /* gone: members that have */
	const char *state;
	uint32_t barrier; /* number of the last one that it entered */
	bool in_barrier;  /* ... and which has not ended */
	uint16_t held;    /* locks that it has */
};
/* Return the number of places of these groups. For any thread. */
uint32_t groups_places(const struct groups *g);
/* Describe what is at a place. false: nothing. For any thread: it may see values of slightly
 * different moments. */
bool group_stat(const struct groups *g, uint32_t place, struct group_stat *out);
/* Return how many have or wait for that lock, and write their ranks in the order of their turns to
 * `ranks` (at most n of them), if it is managed by that membership; otherwise return 0. For any
 * thread, as group_stat. */
uint32_t group_queue(const struct groups *g, uint32_t place, uint32_t lock, uint16_t *ranks,
	uint32_t n);

/* Return how many share that region, and write their ranks to `ranks` (at most n of them), if its
 * home is that membership; otherwise return 0. For any thread, as group_stat. */
uint32_t group_sharers(const struct groups *g, uint32_t place, uint32_t region, uint16_t *ranks,
	uint32_t n);

/* Return whether the group is open, and that rank a member still. */
bool group_has_member(const struct groups *g, uint16_t ctx, uint32_t place, uint16_t rank);

#endif
