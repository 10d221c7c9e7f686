/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of the test of matched messages against a model have in common; see matching.c.
 */
#ifndef PMX_TEST_MATCHING_H
#define PMX_TEST_MATCHING_H

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "client/client.h"
#include "engine/lane.h"
#include "helpers.h"
#include "pmx/pmx.h"

#define NODES     2
#define CONTEXTS  4
#define ENDS      (NODES * CONTEXTS)
#define LONGEST   150000u
/* of memory of pmx_alloc, for each context's sends and receives */
#define SLOTS     8
#define WAIT_MOST 60 /* messages or receives that wait at a context, about */
#define GUARD     0xEE
#define STUCK_S   60

struct message {
	struct message *next; /* of the same sender and receiver, in the order sent; then of
			       * those that wait */
	unsigned from, to;
	uint32_t comm;
	uint64_t tag, len; /* len: bytes of it */
	uint32_t serial;
	bool diff, asked; /* asked: the sender tests its request */
	uint8_t *memory;  /* what is sent, all that it spans */
	uint64_t spans;
	int slot;
	uint8_t *twin, *expect; /* diff: what the receiver's bytes become where they are not
				 * GUARD */
	uint64_t reach;         /* diff: end of the last byte that differs */
	struct pmx_part part;
	uint64_t bits[64];
	struct iovec iov[8];
	pmx_request request;
};

struct receive {
	struct receive *next; /* of those posted */
	unsigned at;
	bool any_source;
	unsigned from;
	uint32_t comm;
	uint64_t tag, ignore;
	uint8_t *memory, *twin; /* all that it spans */
	uint64_t spans, room;   /* room: bytes of a message */
	int slot;
	struct pmx_part part;
	uint64_t bits[64];
	struct iovec iov[8];
	struct pmx_matched m;
	pmx_request request;
	struct message *got; /* by the model */
	bool cancelled;
};

struct end {
	struct pmx_context *ctx;
	const struct inlet *in;
	uint32_t landed; /* entries that the model has seen */
	/* by receiver, that the model has not seen land */
	struct message *sent_head[ENDS], *sent_tail[ENDS];
	struct message *wait_head, *wait_tail; /* unexpected */
	struct receive *posted_head, *posted_tail;
	unsigned waiting, posted;
	struct receive *receives[512]; /* that did not end, in any order */
	struct message *sends[512];    /* whose request did not end */
	unsigned receives_n, sends_n;
	uint8_t *arena;
	bool used[SLOTS];
};

extern struct pmx_node *nodes[NODES];
extern struct end ends[ENDS];
extern uint64_t done, sent, matched, truncated, cancelled, probed, wildcards;
extern bool by_engine;
extern const char *rendezvous;

/* Byte i of a message. */

static inline uint8_t
message_byte(uint32_t serial, uint64_t i)
{
	return (uint8_t)((serial * 2654435761u >> 8) + i * 7 + (i >> 8));
}

/* matching.c */
void nodes_poll(void);
/* matching = engine: what a context asks is done before anything else is asked of its node; so what
 * has landed by then, and nothing else, comes before it. */
void end_done_asking(unsigned at);

/* matching_model.c */
void model_match(struct receive *r, struct message *m);
/* The oldest message that it takes; out of the list if `take`. */
struct message *model_waiting(struct end *e, const struct receive *r, bool take);
/* Take in what landed since, in the order of the ring. Call this before the library looks. */
void model_landed(struct end *e);
void message_check_status(const char *what, const struct pmx_status *s, const struct message *m);
void receive_check(const struct receive *r, int result, const struct pmx_status *status);

/* matching_memory.c */
uint8_t *memory_take(struct end *e, uint64_t len, int *slot);
void memory_put(struct end *e, uint8_t *memory, int slot);
uint64_t size_draw(void);
/* Some way to lie in memory: sets m's data, len, iov or part, *spans, *total. `size` is about what
 * it shall have. */
void spread_choose(struct pmx_matched *m, struct pmx_part *part, uint64_t *bits, struct iovec *iov,
	uint64_t size, uint64_t *spans, uint64_t *total);
void spread_place(struct pmx_matched *m, struct iovec *iov, uint8_t *memory);
/* Is byte `at` of what it spans one of its bytes? */
bool spread_has(const struct pmx_part *p, uint64_t at);
void message_make_diff(struct message *m);

/* matching_operations.c */
void ops_send(unsigned from);
void ops_receive(unsigned at, bool everything);
void ops_probe(unsigned at);
void ops_matched_probe(unsigned at);
void ops_cancel(unsigned at);
void ops_tests(unsigned at);
void receive_test(struct end *e, unsigned i);
void send_test(struct end *e, unsigned i);

#endif
