/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The state of simulated remote memory, shared by transfers.c (nodes, which feed the shipped
 * lib/rma and hear it), transfers_begin.c (what applications ask for), transfers_frames.c (what
 * goes out), transfers_memory.c (what is registered) and transfers_oracle.c (what may become of
 * it).
 *
 * Memory is addressed as an application's would be: a piece at each 16 MB. Transfers never share a
 * byte, so what each of them left is known.
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
#define PACKED_RUN   16           /* a PACKED push moves every other so many bytes */

enum transfer_form { PUSH, PULL, PACKED, PIN, UNPIN, OFFER, FETCH };
enum transfer_state { OPEN, DONE, FAILED, GONE /* with its context */ };

struct piece {
	uint64_t base;
	uint8_t *bytes;
	uint32_t len;
	bool over; /* nobody may write to it any more */
};

/* A region of a context. */
struct area {
	struct piece piece;
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
	uint32_t node, peer; /* whose, and to whom */
	uint16_t ctx, target;
	struct transfer_desc desc;
	struct piece local;
	struct area *area; /* NULL: OFFER, FETCH */
	uint32_t at;       /* of its bytes in the area */
	uint32_t len;
	int expected;     /* errno, if nothing happens */
	uint32_t partner; /* FETCH: the OFFER; OFFER: the FETCH that got it, or UINT32_MAX */
	uint32_t given;   /* PACKED: bytes that the core has; OFFER: it has the message */
	uint32_t placed;  /* bytes that were put into the area */
	uint32_t events;  /* how often its target's application was told */
	uint32_t refetch; /* OFFER: how often it was fetched */
	uint64_t began;   /* order of submission */
};

/* Byte `at` of a region before anything was pushed there, and of what a transfer brings. */
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

#define LOCAL_FILL 0xA5 /* a buffer that nothing has come into */

/* What a message says, by its tag. */
struct sent {
	struct wire_transfer head; /* and what follows it: */
	uint8_t *bytes;            /* NULL: they are where `from` says */
	const uint8_t *from;
	uint32_t len;  /* of the bytes */
	uint32_t node; /* whose */
	uint16_t src;  /* endpoint, as on the wire */
	uint32_t dst_node;
	uint16_t dst;
	struct rma_frame *frame; /* NULL: the client sent it */
	uint32_t life;           /* ... in this life of its context */
	uint32_t transfer;       /* ... for this one; OFFER: the message says that one */
};

struct offer {
	uint32_t transfer;
	struct offer *next;
};

struct client {
	enum { CLOSED, OPENED, CLOSING } state;
	bool leaves, reopen, full; /* full: its application does not look at what it is told */
	uint32_t life;
	uint32_t sent;                 /* messages of its own with the core */
	uint32_t places[PLACES], uses; /* by place: transfer + 1 */
	uint32_t waits;                /* area + 1 whose deregistration waits for readers */
	struct area *areas[AREAS];
	struct offer *offers; /* not fetched yet */
};

struct later {
	struct later *next;
	uint32_t tag, node;
	uint16_t ctx, peer;
	struct rma_place place;
};

struct lane {
	struct rma *rma;
	void *memory;
	struct wire_transfer *heads;
	uint64_t counters[RMA_COUNTERS];
	struct client *clients;
	struct later *later_head, *later_tail; /* placements that are not done yet */
	bool ticking, pumping;                 /* a timer will come */
	struct transfers *x;
	uint32_t node;
};

struct transfers {
	struct sim *sim;
	struct lane *lanes;
	struct rma_config cfg;
	size_t rma_bytes;
	uint32_t nodes;
	uint16_t contexts;
	bool late; /* placements are done late */
	bool healed;
	uint64_t random;
	struct transfer all[8 * ROOM];
	uint32_t count, open;
	struct area **areas;
	uint32_t area_count;
	struct sent *sent;
	uint32_t sent_count, sent_cap;
	struct transfers_count counts;
	char wrong[256], disorder[256];
};

/* ---------------------------------------------------------------- transfers.c */

/* The first rule that was broken is kept. */
void transfers_wrong(struct transfers *x, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void transfer_wrong(struct transfers *x, const struct transfer *t, int error, const char *what);
uint64_t transfers_draw(struct transfers *x);
uint32_t transfers_below(struct transfers *x, uint32_t n); /* 0..n - 1 */
struct client *client_of(struct transfers *x, uint32_t node, uint16_t ctx);
/* The one that has that place of the context's table; NULL. */
struct transfer *transfer_of(struct transfers *x, const struct client *c, uint32_t place);
/* Placements that were put off are done. */
void lane_place_all(struct transfers *x, struct lane *l);
/* A turn of the node, when all that came in this instant was heard. */
void lane_pump_soon(struct transfers *x, uint32_t node);

/* ---------------------------------------------------------------- transfers_memory.c */

/* Where bytes lie; NULL: they are nobody's, which is wrong. */
uint8_t *piece_bytes(struct transfers *x, const struct rma_bytes *b, uint64_t at, uint64_t len,
	bool write);
/* Put the bytes of a message in their place. Returns an errno, and how many they were. */
uint8_t piece_place(struct transfers *x, const struct rma_place *p, const uint8_t *bytes,
	uint32_t len, uint64_t *placed);
/* `len` bytes of a context's region that no transfer has used. NULL: none now. */
struct area *area_take(struct transfers *x, uint32_t node, uint16_t ctx, unsigned slot,
	uint32_t len, uint32_t *at);
/* Its registration ends; memory: for the memory goes. */
void area_end(struct transfers *x, struct client *c, unsigned slot, bool memory);
/* How often it is pinned, if nothing happened; asked: by what is under way too. */
uint32_t area_pins(const struct transfers *x, const struct area *a, bool asked);
/* Its owner uses the memory for something else. */
void area_reused(struct area *a);

/* ---------------------------------------------------------------- transfers_frames.c */

/* How many of the library's frames went. */
unsigned lane_send(struct transfers *x, struct lane *l, struct rma_frame **out, unsigned n);
/* One message; 0, or what sim_send says. */
int sent_give(struct transfers *x, const struct sent *s);
/* The bytes behind its head, which do not change from now on. */
const uint8_t *sent_bytes(struct sent *s);
/* The message that offers; frames of a packed push, as far as they go. */
void offer_say(struct transfers *x, struct transfer *t);
void packed_send(struct transfers *x, struct lane *l, struct transfer *t);
/* A message of the client's was not Acked. */
void client_send_failed(struct transfers *x, const struct transfer *t, uint8_t error);

/* ---------------------------------------------------------------- transfers_begin.c */

/* What was offered to a client waits to be fetched, and is. */
void offer_keep(struct client *c, uint32_t transfer);
void offers_fetch(struct transfers *x, struct lane *l, uint16_t ctx);

/* ---------------------------------------------------------------- transfers_oracle.c */

/* Bytes as they are before a transfer begins. transfer_fill: false: no memory. */
void area_fill(struct area *a, uint32_t at, uint32_t len);
bool transfer_fill(struct transfer *t);
/* Is that byte of a PULL among those that it asks for? */
bool transfer_has(const struct transfer *t, uint32_t at);
/* Bytes that a PUSH or PACKED brings. */
static inline uint32_t
transfer_moves(const struct transfer *t)
{
	uint32_t pair = 2 * PACKED_RUN, rest = t->len % pair;

	return t->form == PUSH
		? t->len
		: t->len / pair * PACKED_RUN + (rest < PACKED_RUN ? rest : PACKED_RUN);
}

/* NULL, or what is wrong with how it ended: with that errno or 0. *excusable: only something that
 * happened to the network or to a node explains that error. other: its partner, NULL: it has
 * none. */
const char *transfer_judge(const struct transfer *t, const struct transfer *other, int error,
	bool *excusable);

#endif
