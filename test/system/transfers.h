/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the files of the test of remote memory against a model have in common; see transfers.c.
 */
#ifndef PMX_TEST_TRANSFERS_H
#define PMX_TEST_TRANSFERS_H

#include <errno.h>
#include <string.h>

#include "client/client.h"
#include "engine/lane.h"
#include "rma/engine/rma.h"
#include "helpers.h"
#include "node/node.h"
#include "pmx/pmx.h"
#include "rma/internal.h"

#define NODES    2
#define CONTEXTS 2
#define ENDS     (NODES * CONTEXTS)
#define TASKS    6 /* transfers of a context under way */
/* bytes of a slot at each target; a margin on both sides stays untouched */
#define SLICE    (160u << 10)
#define MARGIN   64
#define MEMORY   ((uint64_t)ENDS * TASKS * SLICE)
#define STUCK_S  20

enum where { BY_ENGINE, BY_KERNEL, ADOPTED, PLACES }; /* pmx_alloc, malloc, mmap and PMX_ADOPT */

struct task {
	bool busy, pull, refused, notify, event;
	int wanted;             /* how it must end */
	unsigned target, where; /* whose memory */
	uint8_t *local, *twin;  /* SLICE bytes each */
	uint8_t *before;        /* of the target's slice */
	uint64_t off, len;      /* in the slice */
	struct pmx_part part;
	uint64_t bits[SLICE / 4 / 64 + 1];
	uint64_t imm;
	volatile int32_t *status;
	volatile int32_t word;
	pmx_transfer_id id;
};

struct end {
	struct pmx_context *ctx;
	uint8_t *memory[PLACES];
	struct pmx_remote remote[PLACES], read_only;
	uint32_t area;
	uint8_t *local[PLACES];
	struct task tasks[TASKS];
	uint64_t notified, expected; /* sums of immediates */
	uint64_t events, events_wanted;
};

extern struct pmx_node *nodes[NODES];
extern struct end ends[ENDS];
extern uint64_t ended, refusals, lost_events; /* of transfers */
extern bool unmapped;
extern const char *ports[NODES]; /* on a bus; NULL: the loop link */

/* transfers.c */
void nodes_poll(void);
/* Filled, and then private to this process: unless adopted, reached by the kernel. */
uint8_t *memory_mapped(uint64_t len);
/* Return what a context's engine has of the context's remote memory. */
struct rma_context *end_remote_context(const struct end *end);

/* transfers_tasks.c */
void bytes_fill(uint8_t *p, uint64_t len);
void task_begin(struct end *by, struct task *s);
/* Checks what a task has done, if it has ended. */
void task_finish(struct end *by, struct task *s);
void end_take_events(struct end *e);

/* transfers_pins.c */
void result_must_be(int result, int right, const char *what);
void pins_check(void);
void pins_check_hold(struct end *owner);
void pins_check_random(unsigned steps);
void pins_check_full(void);
void pins_leave(void);

/* transfers_parts.c */
void parts_check_two_writers(unsigned rounds);
void parts_check_refused(void);

/* transfers_device.c */
void device_become(unsigned n);
void device_flush(unsigned n);
void device_check(unsigned n);

#endif
