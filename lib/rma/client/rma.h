/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Remote memory in the application's process: transfers, the memory that they reach, and the cache
 * of what is pinned. In the context's thread, but for pins_*(), which any may call.
 */
#ifndef PMX_RMA_CLIENT_H
#define PMX_RMA_CLIENT_H

#include "client/client.h"
#include "rma/client/pin_cache.h"
#include "rma/part.h"

/* Memory of pmx_alloc(), or adopted. */
struct rma_piece {
	uint8_t *addr; /* NULL: the place is free */
	uint64_t len;
	int watched; /* adopted memory: index of shm->revoked; otherwise -1 */
};

/* State of a transfer of the application; only note_becomes() in transfer.c changes it. */
enum note_state {
	NOTE_FREE,      /* the place is free */
	NOTE_HELD,      /* it is ordered and must wait for others before it begins, as `kind` */
	NOTE_PACKS,     /* a push: the library still has frames of it to submit */
	NOTE_ASKS,      /* a pull by a long bitmap: the library still has requests of it to
			 * submit */
	NOTE_SUBMITTED, /* the engine has all of it */
	NOTE_ENDED,     /* its event waits for pmx_poll_event() */
};

/* The runs of a part that are still to be packed. */
struct runs {
	const uint8_t *local; /* the region of which they are */
	uint64_t from, until; /* those of these bytes of it */
	struct part_iterator it;
	struct part_run run; /* the rest of the current one */
};

/* State of a transfer, by place. */
struct transfer_note {
	struct outcomes ended;
	uint8_t state;       /* enum note_state */
	uint8_t kind;        /* HELD: enum transfer_kind */
	uint64_t age;        /* order of the calls */
	uint16_t parent;     /* place of the transfer that this is a part of, or NO_PLACE */
	uint16_t left;       /* parts that have not ended */
	uint8_t first_error; /* of its parts */
	uint32_t pin;        /* of the local memory, or PIN_NONE */
	void *home;          /* if t.local is a bounce buffer, or it fetches: where the bytes must
			      * be copied at the end; NULL: nowhere */
	bool bounced;
	bool fetches; /* ATOMIC: what the engine writes to the place's bits is copied to `home` */
	volatile int32_t *status; /* status word that the library must write, or NULL */
	uint64_t cookie;
	uint32_t request; /* request that it belongs to, or NO_REQUEST */
	struct pmx_transfer t;
	struct runs runs; /* HELD, PACKS: those that are not packed yet */
	uint64_t at;      /* ASKS: units asked for */
};
#define NO_PLACE   UINT16_MAX
#define NO_REQUEST UINT32_MAX
/* A registration of memory that is not of pmx_alloc(). */
struct registration {
	struct registration *next;
	uint64_t key;
	int watched;
};

#define BOUNCES_MAX 16 /* of each user */

/* The users of bounce buffers. Each has its own, since what holds those of one may wait for the
 * other. */
enum bounce_user { BOUNCE_TRANSFER, BOUNCE_COLL, BOUNCE_USERS };

/* Memory that both sides map, used in place of the application's. */
struct bounce {
	void *at; /* NULL: none yet */
	uint64_t len;
	bool used;
};

/* Remote memory of a context. */
struct client_rma {
	struct transfer_note *transfers; /* array of shm->transfers */
	uint16_t *places;                /* stack of free ones */
	uint32_t places_free, transfer_count;
	uint64_t transfer_age;
	uint32_t lent;             /* number of requests of groups that have not ended */
	uint32_t events_waiting;   /* own transfers that ended and whose events were not taken */
	uint32_t requested;        /* places of transfers that belong to requests */
	uint32_t transfer_payload; /* most payload bytes of a frame */
	struct slot_end events;
	struct event_slot *kept_events; /* events of the previous life */
	uint32_t kept_events_head, kept_events_tail;
	bool no_kernel; /* the engine can reach only memory that it has mapped */
	struct bounce bounces[BOUNCE_USERS][BOUNCES_MAX];
	struct rma_piece pieces[MEMORIES_MAX];   /* by the engine's number */
	struct rma_piece unshared[MEMORIES_MAX]; /* pieces that the current engine did not map */
	uint32_t pieces_used;                    /* one past the highest */
	bool sweep;                              /* an adopted piece is gone: see pieces_sweep() */
	struct registration *registrations;
	uint32_t ticket; /* ticket of the last registration */
	struct {
		bool here;
		uint32_t ticket, error;
		uint64_t key;
	} answer;
};

extern const struct client_service client_events, client_transfer, client_memory;

/* part.c */
void layout_part(const struct pmx_part *from, const void *local, uint64_t len, struct part *p);
/* Begin with the runs of a part of len bytes; part NULL: all bytes. within: NULL, or those bytes
 * alone. */
void runs_begin(struct runs *r, const struct pmx_part *part, const void *local, uint64_t len,
	const struct part_run *within);
/* Return whether there are more runs, and in *at where the next one begins. DIFF: this compares
 * bytes. */
bool runs_next(struct runs *r, uint64_t *at);
/* Write the next runs, each behind its head, into `room` bytes at `to`; NULL: they are only passed
 * over. *end: where the skip of the first head begins, and afterwards the end of the last run.
 * Returns how many bytes were used: as many as fit, or up to a run more than 4 GiB behind *end. */
uint32_t runs_pack(struct runs *r, uint8_t *to, uint32_t room, uint64_t *end);
/* transfer.c */
/* in pmx_transfer.flags: a diff does not update its twin */
#define TRANSFER_KEEPS_TWIN 0x40000000u
/* pmx_push() of what transfers_push_check() has found good. within: NULL, or the bytes of its
 * part's region that are pushed. */
int transfers_push(struct pmx_context *ctx, const struct pmx_transfer *t,
	const struct part_run *within, pmx_transfer_id *id);
/* Return 0 if a push could be begun, or what is wrong with its arguments. */
int transfers_push_check(const struct pmx_transfer *t);
/* Begin a transfer of a kind that moves no local memory: PIN, UNPIN, ATOMIC, whose operands
 * `atomic` has. Return 0, or errors as of pmx_pull(). */
int transfers_ask(struct pmx_context *ctx, const struct pmx_transfer *t, uint8_t kind,
	const struct pmx_atomic_transfer *atomic, pmx_transfer_id *id);
/* Begin a transfer for a request. kind: enum transfer_kind; t: the other side, the local memory,
 * and the id of the offer as key. Return 0 and the transfer's id; -EAGAIN, -EPIPE, or what is wrong
 * with the local memory. */
int transfers_request(struct pmx_context *ctx, uint8_t kind, const struct pmx_transfer *t,
	uint32_t request, uint32_t *id);
/* Take the end of a transfer whose event waits: 1, or 0 if there is none. */
int transfers_ended(struct pmx_context *ctx, struct pmx_event *event);
/* memory.c */
/* Register a region as pmx_area_register() does: of a group unless `group` is 0; without an ID if
 * `area` is REGION_NO_AREA. */
int ctx_register(struct pmx_context *ctx, uint32_t group, uint32_t area, void *addr, uint64_t len,
	unsigned access, struct pmx_remote *remote);
/* Return the number of the piece that [addr, addr + len) is in; MEMORY_COPIED if it is in none, or
 * only partly in an adopted one; -EFAULT if it is only partly in one of pmx_alloc(). */
int64_t piece_of(struct pmx_context *ctx, const void *addr, uint64_t len);
/* Tell the engine of adopted memory that is gone, after piece_of() has found some. */
void pieces_sweep(struct pmx_context *ctx);
/* Unmap memory of pmx_alloc() in this process only: no engine maps it. */
void piece_unmap(struct pmx_context *ctx, const void *addr);
/* bounce.c: gets len bytes that the engine can reach. 0; -EAGAIN if `most` of the user's are in
 * use, or all; or errors of pmx_alloc() */
int bounce_get(struct pmx_context *ctx, enum bounce_user user, uint64_t len, unsigned most,
	void **at);
void bounce_put(struct pmx_context *ctx, enum bounce_user user, const void *at);
/* Unmap all bounce buffers, when none is in use and no engine has them. */
void bounces_leave(struct pmx_context *ctx);
/* pins.c: the pin-down cache of this process */
int pins_get(struct pmx_context *ctx, const void *addr, uint64_t len, uint32_t *ref);
void pins_put(uint32_t ref);
void pins_stat(struct pin_cache_stat *stat);
/* Watch registered or adopted memory. Return its index in shm->revoked, or -ENOSPC. ref is the
 * reference that keeps it pinned, which passes to the watch; PIN_NONE: there is none. */
int pins_watch(struct pmx_context *ctx, const void *addr, uint64_t len, uint32_t ref);
void pins_unwatch(struct pmx_context *ctx, int place);
/* Have the kernel report when pages that are not pinned are unmapped or moved. Return 0, or
 * -EOPNOTSUPP. */
int pins_tell(struct pmx_context *ctx, const void *addr, uint64_t len);
/* Wait until all that the kernel has reported of watched memory is taken note of. */
void pins_settle(void);

#endif
