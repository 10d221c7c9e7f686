/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The state of simulated remote memory, shared by transfers.c (nodes, which drive the shipped
 * lib/rma), transfers_begin.c (which transfers applications begin), transfers_frames.c (frames to
 * be sent), transfers_memory.c (registered memory), transfers_oracle.c (which results are allowed)
 * and transfers_state.c (what all of these need).
 *
 * Memory has addresses as an application's would: there is a piece every 16 MB. Transfers never
 * share a byte, so it is known what each of them must leave behind.
 */
#ifndef PMX_SIM_TRANSFERS_H
#define PMX_SIM_TRANSFERS_H

#include "rma/rma.h"
#include "sims.h"

#define AREAS      3  /* regions of a context: written, read, both */
#define PLACES     16 /* transfers of a context at once */
#define FETCHES    8
#define ROOM       512 /* transfers of a history, without fetches */
#define AREA_BYTES (1u << 18)
#define NOBODY     UINT32_MAX

#define PIECE_SHIFT  24
#define LOCAL_PIECES (1ull << 40) /* addresses of local buffers begin here */
#define PACKED_RUN   16           /* a PACKED push moves every second block of so many bytes */

enum transfer_form { PUSH, PULL, PACKED, PIN, UNPIN, OFFER, FETCH };
enum transfer_state { OPEN, DONE, FAILED, GONE /* it ended with its context */ };

struct sim_piece {
	uint64_t base;
	uint8_t *bytes;
	uint32_t len;
	bool over; /* nothing may write to it any more */
};

/* A region of a context. */
struct area {
	struct sim_piece piece;
	uint32_t number, used; /* used: bytes that transfers have taken */
	uint32_t id;           /* REGION_NO_AREA: it has none */
	uint64_t key;
	uint32_t node;
	uint16_t ctx;
	uint8_t rights;
	bool registered, revoked;
};

struct transfer {
	enum transfer_form form;
	enum transfer_state state;
	uint32_t number;
	uint32_t node, peer; /* the node that began it, and the other side */
	uint16_t ctx, target;
	struct transfer_desc desc;
	struct sim_piece local;
	struct area *area; /* region at the target; NULL: OFFER, FETCH */
	uint32_t at;       /* offset of its bytes in the area */
	uint32_t len;
	int expected;     /* errno expected if no misfortune happens */
	uint32_t partner; /* FETCH: the OFFER; OFFER: the FETCH that got it, or UINT32_MAX */
	uint32_t given;   /* PACKED: bytes that the core has; OFFER: 1 if the core has the
			   * message */
	uint32_t placed;  /* bytes that were put into the area */
	uint32_t events;  /* how often its target's application was told */
	uint32_t refetch; /* OFFER: how often it was fetched */
	uint64_t began;   /* order of submission */
};

/* Byte `at` of a region before any push, and byte `at` of what a transfer moves. */
static inline uint8_t
area_byte(const struct area *a, uint64_t at)
{
	return (uint8_t)(a->number * 29 + at * 7 + (at >> 8) * 13 + 1);
}

static inline uint8_t
transfer_byte(const struct transfer *t, uint64_t at)
{
	return (uint8_t)(t->number * 151 + at * 11 + (at >> 8) * 17 + 3);
}

#define LOCAL_FILL 0xA5 /* content of a buffer into which nothing was placed */

/* The contents of a message, found by its tag. */
struct transfer_sent {
	struct wire_transfer head; /* the head, and the bytes that follow it: */
	uint8_t *bytes;            /* NULL: they are at `from` */
	const uint8_t *from;
	uint32_t len;  /* number of these bytes */
	uint32_t node; /* the sender */
	uint16_t src;  /* endpoint, as on the wire */
	uint32_t dst_node;
	uint16_t dst;
	struct rma_frame *frame; /* frame of the library; NULL: the client sent it */
	uint32_t life;           /* ... in this life of its context */
	uint32_t transfer;       /* ... for this transfer; OFFER: the message is the offer of that
				  * transfer */
};

struct offer {
	uint32_t transfer;
	struct offer *next;
};

struct client {
	enum { CLOSED, OPENED, CLOSING } state;
	bool leaves, reopen, full; /* full: its application does not read its events */
	uint32_t life;
	uint32_t sent;                 /* its client's messages that the core has */
	uint32_t places[PLACES], uses; /* transfer + 1, by place */
	uint32_t waits;                /* area + 1 whose deregistration waits for readers */
	struct area *areas[AREAS];
	struct offer *offers; /* offers that it has not fetched yet */
};

struct later {
	struct later *next;
	uint32_t tag, node;
	uint16_t ctx, peer;
	struct rma_place place;
};

struct sim_lane {
	struct rma *rma;
	void *memory;
	struct wire_transfer *heads;
	uint64_t counters[RMA_COUNTERS];
	struct client *clients;
	struct later *later_head, *later_tail; /* placements that are not done yet */
	bool ticking, pumping;                 /* the timer is pending */
	struct sim_transfers *x;
	uint32_t node;
};

struct sim_transfers {
	struct sim *sim;
	struct sim_lane *lanes;
	struct rma_config cfg;
	size_t rma_bytes;
	uint32_t nodes;
	uint16_t contexts;
	bool late; /* placements are done late */
	bool healed;
	/* does the placements that were put off: transfers.c */
	void (*place_all)(struct sim_transfers *x, struct sim_lane *l);
	uint64_t random;
	struct transfer all[8 * ROOM];
	uint32_t count, open;
	struct area **areas;
	uint32_t area_count;
	struct transfer_sent *sent;
	uint32_t sent_count, sent_cap;
	struct transfers_count counts;
	char wrong[256], disorder[256];
};

/* ---------------------------------------------------------------- transfers_state.c */

/* Report a broken rule; the first one is kept. */
void transfers_wrong(struct sim_transfers *x, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void transfer_wrong(struct sim_transfers *x, const struct transfer *t, int error, const char *what);
uint64_t transfers_draw(struct sim_transfers *x);
uint32_t transfers_below(struct sim_transfers *x, uint32_t n); /* 0..n - 1 */
struct client *client_of(struct sim_transfers *x, uint32_t node, uint16_t ctx);
/* Return the transfer at that place of the context's table, or NULL. */
struct transfer *transfer_of(struct sim_transfers *x, const struct client *c, uint32_t place);
/* Give the node a turn once all that arrived at this time was processed. */
void lane_pump_soon(struct sim_transfers *x, uint32_t node);

/* ---------------------------------------------------------------- transfers_memory.c */

/* Return the bytes at an address; NULL if there is no such memory, which is a broken rule. */
uint8_t *piece_bytes(struct sim_transfers *x, const struct rma_bytes *b, uint64_t at, uint64_t len,
	bool write);
/* Put the bytes of a message in their place. Returns an errno or 0, and how many bytes were
 * placed. */
uint8_t piece_place(struct sim_transfers *x, const struct rma_place *p, const uint8_t *bytes,
	uint32_t len, uint64_t *placed);
/* Take `len` bytes of a context's region that no transfer has used. Returns NULL if that is not
 * possible now. */
struct area *area_take(struct sim_transfers *x, uint32_t node, uint16_t ctx, unsigned slot,
	uint32_t len, uint32_t *at);
/* End the registration of a region; memory: because its memory goes away. */
void area_end(struct sim_transfers *x, struct client *c, unsigned slot, bool memory);
/* Return how often a region is pinned if no misfortune happened. asked: include PINs under way. */
uint32_t area_pins(const struct sim_transfers *x, const struct area *a, bool asked);
/* Let the owner of a region use its memory for something else. */
void area_reused(struct area *a);

/* ---------------------------------------------------------------- transfers_frames.c */

/* Send frames of the library. Returns how many were accepted. */
unsigned lane_send(struct sim_transfers *x, struct sim_lane *l, struct rma_frame **out, unsigned n);
/* Send a message. Returns 0 or the error of sim_send. */
int sent_give(struct sim_transfers *x, const struct transfer_sent *s);
/* Return the bytes behind a message's head; they do not change from now on. */
const uint8_t *sent_bytes(struct transfer_sent *s);
/* Send the message of an offer; send the frames of a packed push, as far as that is possible
 * now. */
void offer_say(struct sim_transfers *x, struct transfer *t);
void packed_send(struct sim_transfers *x, struct sim_lane *l, struct transfer *t);
/* Tell the library that a message of a client was not Acked. */
void client_send_failed(struct sim_transfers *x, const struct transfer *t, uint8_t error);

/* ---------------------------------------------------------------- transfers_begin.c */

/* Keep an offer for a client, to be fetched later; fetch those that a client was offered. */
void offer_keep(struct client *c, uint32_t transfer);
void offers_fetch(struct sim_transfers *x, struct sim_lane *l, uint16_t ctx);

/* ---------------------------------------------------------------- transfers_oracle.c */

/* Set the bytes to what they are before a transfer begins. transfer_fill returns false if there is
 * no memory. */
void area_fill(struct area *a, uint32_t at, uint32_t len);
bool transfer_fill(struct transfer *t);
/* Return whether a transfer moves the byte at that offset: a PULL may ask for only some bytes, and
 * a PACKED push takes only every other run. */
bool transfer_has(const struct transfer *t, uint32_t at);
/* Return the number of bytes that a PUSH or PACKED moves. */
static inline uint32_t
transfer_moves(const struct transfer *t)
{
	uint32_t pair = 2 * PACKED_RUN, rest = t->len % pair;

	return t->form == PUSH
		? t->len
		: t->len / pair * PACKED_RUN + (rest < PACKED_RUN ? rest : PACKED_RUN);
}

/* Judge how a transfer ended, with that errno or 0. Return what is wrong with it, or NULL.
 * *excusable: only something that happened to the network or to a node explains that error. other:
 * the transfer's partner, or NULL. */
const char *transfer_judge(const struct transfer *t, const struct transfer *other, int error,
	bool *excusable);

#endif
