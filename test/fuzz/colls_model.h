/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The model that fuzz_colls.c compares a lane's collectives with: what was begun with which lists,
 * how far each step is and may go, which bytes lie in scratch, what must still run, and what has
 * ended.
 */
#ifndef PMX_FUZZ_COLLS_MODEL_H
#define PMX_FUZZ_COLLS_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "coll/live.h"
#include "input.h"

#define PLACES    3
#define CTXS      2
#define FIRST_CTX 3
#define MEMBERS   4
#define LIVES     5
#define STEPS     12
#define ACKS      24
#define FLIGHTS   16
#define SHADOW    2048 /* bytes of areas of which it is known what they hold */

/* A message of a collective that is not begun may wait, and was a permit. */
struct early {
	bool is, permits;
	uint32_t number;
};

/* A member, with what the library is known to have heard of it. */
struct member {
	uint32_t heard;
	bool loose;                          /* it is not known what was heard of it */
	struct early early[WIRE_COLL_AHEAD]; /* by number */
};

/* The member that is at a place, and what the library knows of it. */
struct place {
	struct colls_seat of, lib; /* lib: the last one that the library has heard of */
	bool used, seen, left;     /* seen: lib is of; left: lib has */
	bool is_over, is_odd;      /* odd: it is not known from which number on */
	uint32_t next, over;
	struct member members[MEMBERS];
};

/* The record that the caller keeps of the collective at an index. */
struct job {
	bool runs; /* its end has not been told */
	bool ended, made, valid;
	bool huge;  /* it may take for ever */
	bool fails; /* its end cannot be a good one */
	uint16_t place;
	uint32_t number, hash;
	struct coll_list list;
	struct coll_step *steps;
	struct coll_blocks blocks[COLL_BUFFERS];
	uint64_t *ends;
	struct {
		uint64_t done, may; /* bytes that have gone, arrived or been worked; permitted */
	} at[STEPS];
	/* what may go to a member, and how much has gone when one message might */
	bool near[MEMBERS], open[MEMBERS];
	uint8_t unheard[MEMBERS];
	uint32_t shadow[SHADOW]; /* which byte of which RECV is there */
};

/* A message to another member that is here, too. */
struct flight {
	uint64_t key;
	uint16_t from, to;
	uint32_t len;
	struct wire_coll head;
};

/* All of an input. */
struct world {
	struct input in;
	struct colls_config config;
	struct colls *colls;
	struct place places[PLACES];
	struct job jobs[LIVES];
	struct {
		uint16_t place;
		uint64_t key;
	} acks[ACKS];
	unsigned ack_count, flight_count;
	struct flight flights[FLIGHTS];
	uint64_t counters[COLLS_COUNTERS];
	uint64_t now, keys;
	size_t bytes;
	uint8_t *before; /* a copy of all memory */
};

static inline bool
is_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

/* Take the list and the blocks of a collective from the input: sound ones, nearly so, or
 * garbage. */
void take_list(struct input *in, struct job *j, const struct colls_seat *seat);
/* Return how many bytes the blocks have from which a step takes, or into which a RECV puts. */
uint64_t run_of(const struct job *j, const struct coll_step *s);
/* Return the step of an ordinal, or the list's count. */
uint32_t step_of(const struct job *j, uint8_t op, uint16_t peer, uint16_t ordinal);

/* Return what the model knows of a byte of a RECV in scratch; NULL: nothing. The byte must be in
 * the area of its step. */
uint32_t *shadow_of(struct world *w, struct job *j, uint16_t recv, uint64_t offset);
/* Bytes of a RECV come into scratch. Otherwise they are used for the last time, and must be there
 * still. */
void in_scratch(struct world *w, struct job *j, uint16_t recv, uint64_t offset, uint64_t len,
	bool come);

/* Return the job that runs and has that number at a place, or NULL. */
struct job *job_of(struct world *w, uint16_t place, uint32_t number);
/* Those that run as the library says must have been begun. Return how many they are. */
unsigned look(struct world *w);
/* Return how many messages are out of the group that the library knows at a place. */
unsigned count_out(const struct world *w, uint16_t place);
/* A context must have messages out if one of its places has. */
void look_out(const struct world *w);

/* Take all ends, each of which must be right; then what the library says runs is all that does. */
void results(struct world *w);
/* Give an index back, if its collective has ended. */
void gives(struct world *w, unsigned i);
/* From that number on nothing ends well at a place, if it is known which one that is. */
void is_over(struct place *p, uint32_t number);
/* The group says that something is missed at a member. */
void breaks(struct world *w, uint16_t place, uint32_t number);
/* It says so of a job that runs, or of a number to come, as the input has it. */
void breaks_one(struct world *w);
/* Bytes of a job cannot be accessed. */
void fails(struct world *w, unsigned index);
/* Bytes of a job cannot be accessed in one case of 16: return whether this is one. */
bool is_refused(struct world *w, unsigned index);
/* A member leaves its place, and what runs there ends without a word. */
void leaves(struct world *w, uint16_t place);

#endif
