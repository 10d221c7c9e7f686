/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What libpmx keeps in the application's own memory. A context belongs to one thread at a time;
 * a node is touched only by opening and closing.
 */
#ifndef PMX_CLIENT_H
#define PMX_CLIENT_H

#include "channel/channel.h"
#include "pmx/pmx.h"

struct node;

struct pmx_node {
	struct node *embedded;   /* this process's own engine, or NULL */
	uint16_t number;
	struct pmx_context *contexts; /* open ones, linked */
	bool owns_eal;           /* we started the EAL */
};

/* What is known of a send buffer, by number. */
struct send_note {
	uint32_t uses;   /* completions so far */
	uint16_t next;   /* of the same message while being written */
	uint8_t error;   /* of the last completion */
	uint8_t before;  /* of the one before it */
};

struct pmx_context {
	struct channel_shm *shm;
	struct slot_end sub, com;
	struct lhs_end lhs;
	uint32_t lhs_published;  /* position last told to the engine */
	uint32_t lhs_publish;    /* tell it after this many */
	_Atomic int64_t *send_off;
	struct send_note *notes; /* send_buffers of them */
	uint16_t *free;          /* stack of free buffers */
	uint32_t free_count;
	uint32_t send_buffers, frag_len, max_message;
	uint32_t one_max;        /* longest message of one buffer */
	uint32_t release[SUBMIT_RELEASE_BUFS]; /* bulk to give back, gathered */
	uint32_t release_count, release_most;
	bool engine_may_sleep, selects;
	struct pmx_context_stat stat;
	struct pmx_node *node;
	struct pmx_context *next;
	uint32_t generation;
	uint16_t ctx;
	int event_fd, doorbell;
};

/* context.c: the private side of an opened channel */
int context_make(struct pmx_context **out, struct pmx_node *node, struct channel_shm *shm,
	int event_fd, int doorbell);
void context_free(struct pmx_context *ctx);
/* attach.c: a primary's */
int attach_open(struct pmx_context **out, struct pmx_node *node,
	const struct pmx_context_params *params);
void attach_close(struct pmx_context *ctx);
void attach_end(struct pmx_node *node);
/* embedded.c: this process's */
int embedded_open(struct pmx_context **out, struct pmx_node *node,
	const struct pmx_context_params *params);
void embedded_close(struct pmx_context *ctx);
void embedded_end(struct pmx_node *node);

#endif
