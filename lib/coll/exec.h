/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One rank's part in a collective: a list of steps, and what runs it. Pure: what arrived and the
 * time go in; pieces, permits, local work and the next deadline come out. The same object runs in
 * an engine's lane, in the simulator and in the planner's evaluator (contention-free collectives,
 * SWoPP 2008; the permits are ours).
 *
 * Design notes
 * 1. The k-th SEND from x to y in x's list meets the k-th RECV from x in y's list: k is the
 *    ordinal. The receiver's step says where bytes land, so a peer can write nowhere else.
 * 2. A SEND sends what its receiver has permitted, or everything at once if it is EAGER. So a
 *    permit is readiness, token and credit in one: order at a receiver, and what waits in the last
 *    switch before it, are in the hand of whoever receives.
 * 3. A receiver permits in the order of its list, at most `window` bytes that have not arrived (but
 *    a grain in any case for one to which, and to those before it, nothing is on its way), and
 *    each step not before its time: `at_us` is when its first byte shall arrive, `lead_ns` how long
 *    before that its permit has to leave, `pace` how long a byte takes. So senders near and far,
 *    fast and slow, arrive one right behind the other, and none waits in a switch. Who is late is
 *    waited for by no more than the window; what others missed meanwhile they make up for as fast
 *    as the window lets them, which is what their last switch can hold.
 * 4. A step that relays streams: piece k may leave when piece k of the step before it is there. A
 *    relay has scratch of a fixed size, an area, used as a ring; it permits what fits, so memory is
 *    bounded whatever the size of a message.
 * 5. Every call is O(1) but coll_exec_init, and the look for permits, which is short: it stops at
 *    the first step whose time has not come.
 * 6. A timetable takes the host's line for its own. Where several lists share it, each one's clock
 *    goes slower, so that together they take what the line has; its window is as much smaller. So
 *    nothing else of a list need know of others (several collectives at once, which the paper
 *    excludes).
 */
#ifndef PMX_COLL_EXEC_H
#define PMX_COLL_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COLL_RANKS_MAX 4096
#define COLL_STEPS_MAX 0xFFF0 /* of a rank */
#define COLL_AREAS_MAX 64     /* scratch areas of a rank */
#define COLL_NONE      0xFFFF
#define COLL_NEVER     UINT64_MAX
#define COLL_WHOLE     256u /* of a line's time */

enum coll_op {
	COLL_SEND,
	COLL_RECV,
	COLL_REDUCE, /* combine a run of blocks of `from` into the same run of `to` */
	COLL_COPY,   /* copy a run of blocks of `from` into the same run of `to` */
	COLL_OPS
};

enum coll_buffer {
	COLL_IN,  /* what the application gives */
	COLL_OUT, /* what it gets */
	COLL_SCRATCH,
	COLL_BUFFERS
};

/* flags of a step */
/* goes on piece by piece with after[0]; otherwise it waits for its end */
#define COLL_STREAM_0 0x1
#define COLL_STREAM_1 0x2 /* ... with after[1] */
#define COLL_EAGER    0x4 /* SEND and RECV: without a permit; both sides have it, or neither */
#define COLL_TURNS    0x8 /* SEND: others' turn after each piece; otherwise in the list's order */
/* SEND: to a member of the same node, so it takes nothing of the line */
#define COLL_NEAR     0x10
#define COLL_FLAGS    0x1F

struct coll_step {
	uint8_t op;        /* enum coll_op */
	uint8_t flags;     /* COLL_* */
	uint8_t from;      /* enum coll_buffer: SEND, REDUCE, COPY */
	uint8_t to;        /* enum coll_buffer: RECV, REDUCE, COPY */
	uint16_t peer;     /* rank: SEND, RECV */
	uint16_t after[2]; /* earlier steps of this list, or COLL_NONE */
	uint16_t block;    /* first of a run of blocks, which may go on at block 0 */
	uint16_t blocks;   /* how many */
	uint16_t source;   /* from SCRATCH: the RECV that filled it. This step empties it */
	uint16_t target;   /* REDUCE to SCRATCH: the RECV whose bytes are combined with */
	uint8_t area;      /* RECV to SCRATCH: which one */
	uint8_t reserved[3];
	uint32_t early;   /* RECV: may begin when so many bytes of after[0] are missing */
	uint32_t at_us;   /* RECV: when its first byte shall arrive, from the beginning on; SEND:
			   * when it may leave. In the list, what may go later comes later */
	uint32_t lead_ns; /* RECV: ... and how long before that the permit leaves */
	uint32_t pace;    /* SEND, RECV: ns a byte, times 65536; 0 = as fast as may be */
};

/* Lengths of the blocks of a buffer. */
struct coll_blocks {
	uint32_t count;
	uint64_t each;        /* bytes, if ends is NULL */
	const uint64_t *ends; /* bytes of all blocks up to and with each */
};

/* One rank's list, and what holds for all of it. */
struct coll_list {
	const struct coll_step *steps;
	uint32_t count;
	uint32_t ranks, rank;
	uint32_t piece;      /* most bytes of a message, > 0 */
	uint32_t areas;      /* scratch areas ... */
	uint64_t area_bytes; /* ... of so many bytes each, at least piece */
	uint32_t send_pace;  /* of all SENDs together that are not NEAR, as coll_step.pace */
	uint64_t window;     /* most bytes permitted that have not arrived, and a grain; 0 = no
			      * bound */
	uint32_t grain;      /* most bytes that one permit adds, if there is a pace or a window; 0 =
			      * a piece */
	/* how busy it keeps the host's line, or a link between switches that others' lines share,
	 * while it runs, in COLL_WHOLE; 0 if it has no pace */
	uint16_t load_in, load_out;
};

/* The thing that coll_next() says is to be done. */
enum coll_go {
	COLL_GO_PIECE,  /* send bytes [offset, offset + len) of the step to peer */
	COLL_GO_PERMIT, /* tell peer that it may send its step up to byte `len` */
	COLL_GO_LOCAL,  /* REDUCE or COPY those bytes of the step, now */
};

struct coll_out {
	enum coll_go go;
	uint16_t step;
	uint16_t peer, ordinal;
	bool more; /* PIECE, PERMIT: it is not the last one to this peer */
	uint64_t offset;
	uint64_t len;
};

/* The pieces and permits that may go to a peer. */
enum coll_peer_state {
	COLL_PEER_OPEN, /* all; at the beginning */
	COLL_PEER_FAR,  /* nothing */
	COLL_PEER_ONE,  /* one piece or permit, and then nothing: SILENT */
	COLL_PEER_SILENT,
};

struct coll_exec;

/* Return the bytes of a run of blocks. */
uint64_t coll_run_bytes(const struct coll_blocks *b, uint32_t block, uint32_t blocks);
/* Check a list that somebody else may have written. Returns 0, or -EINVAL with the first bad step
 * in *step (list->count: the numbers beside the steps). blocks: of IN, OUT and SCRATCH. */
int coll_check(const struct coll_list *list, const struct coll_blocks blocks[COLL_BUFFERS],
	uint32_t *step);
/* Return the bytes of memory that a list needs to be run. */
size_t coll_exec_bytes(const struct coll_list *list);
/* Begin. The list was checked; it, and ends of blocks, stay until the end. memory: 16-byte aligned;
 * now: ns. Returns NULL if some scratch is emptied by no step, or by two. */
struct coll_exec *coll_exec_init(void *memory, const struct coll_list *list,
	const struct coll_blocks blocks[COLL_BUFFERS], uint64_t now);

/* Take a permit that came. Return by how many bytes it adds to the last one, or -EPROTO: there is
 * no such SEND, or it permits less than before or more than there is. */
int64_t coll_permitted(struct coll_exec *c, uint32_t peer, uint32_t ordinal, uint64_t bytes);
/* Look up a piece that came. Return the step that it belongs to, or -EPROTO: there is none, it is
 * not the next piece, or it was not permitted. Change nothing: the caller puts the bytes in their
 * place, and then calls coll_arrived(). */
int coll_heard(const struct coll_exec *c, uint32_t peer, uint32_t ordinal, uint64_t offset,
	uint64_t len);
void coll_arrived(struct coll_exec *c, uint32_t step, uint64_t len);
/* Set what may go from now on to a peer, which is of the list's ranks. ONE counts only for a peer
 * that was FAR, as nothing has been sent to it then. */
void coll_peer(struct coll_exec *c, uint32_t peer, enum coll_peer_state state);
/* Return the peer after that one among those that the list has steps with, in no order; after
 * COLL_NONE the first, and after the last COLL_NONE. */
uint16_t coll_peer_after(const struct coll_exec *c, uint32_t peer);
/* Return whether the list sends the peer anything that waits for the peer's permits. */
bool coll_waits_for(const struct coll_exec *c, uint32_t peer);
/* Will any piece or permit go to it? */
bool coll_goes_to(const struct coll_exec *c, uint32_t peer);
/* Begin a list anew. Its memory holds again the bytes that coll_exec_init() made at this place, and
 * that were kept since. now: ns. */
void coll_exec_again(struct coll_exec *c, uint64_t now);
/* From now on the list's clock takes `share` for COLL_WHOLE of the time: at least COLL_WHOLE, at
 * most COLL_SHARE_MAX. */
#define COLL_SHARE_MAX (64 * COLL_WHOLE)
void coll_exec_share(struct coll_exec *c, uint32_t share, uint64_t now);
/* Return the share (coll_exec_share()) of each of the lists that together want so much of a
 * line. */
static inline uint32_t
coll_share(uint32_t load_in, uint32_t load_out)
{
	const uint32_t most = load_in > load_out ? load_in : load_out;

	return most < COLL_WHOLE ? COLL_WHOLE : most < COLL_SHARE_MAX ? most : COLL_SHARE_MAX;
}
/* Tell a list that its steps are at another place now, and so may be what coll_exec_init()
 * built. */
void coll_exec_moved(struct coll_exec *c, const struct coll_step *steps);
/* Get the next thing to do, which counts as done. false: nothing now. */
bool coll_next(struct coll_exec *c, struct coll_out *out, uint64_t now);
/* Get the next local work to do, which counts as done. Return false: nothing now. */
bool coll_next_local(struct coll_exec *c, struct coll_out *out);
/* Return when coll_next() may have something by the time alone, ns; or COLL_NEVER. */
uint64_t coll_deadline(const struct coll_exec *c);
/* Return whether all steps have ended. */
bool coll_is_done(const struct coll_exec *c);
/* Return where byte `offset` of what a RECV put into SCRATCH lies in the whole of the areas, one
 * after the other. What follows it may go on at its area's beginning. */
uint64_t coll_scratch_place(const struct coll_exec *c, uint32_t recv, uint64_t offset);
/* Return how many permitted bytes have not arrived. */
uint64_t coll_outstanding(const struct coll_exec *c);

#endif
