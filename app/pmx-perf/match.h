/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tests of matched messages share: orders to the responder, and isend, irecv and waiting
 * within a session.
 */
#ifndef PMX_PERF_MATCH_H
#define PMX_PERF_MATCH_H

#include "perf.h"

#define COMM       1
#define LAST       2 /* communicator of the youngest message */
#define PATIENCE_S 60

/* What the responder shall do; the message's first byte is its kind. */
struct order {
	uint8_t kind;
	uint8_t private; /* memory of malloc there, not of pmx_alloc */
	uint16_t depth;
	uint32_t size; /* bytes of a message */
	uint64_t count;
};

/* Send an order to the responder. 0 or a negative errno. */
int order_send(struct session *s, struct pmx_addr to, const struct order *o);
/* Wait until the responder says that the order is done. 0 or a negative errno. */
int order_done(struct session *s);

/* pmx_isend(), waiting for room; pmx_irecv(); and the end of a request, within PATIENCE_S. 0 or a
 * negative errno. */
int perf_isend(struct session *s, struct pmx_addr to, uint32_t comm, uint64_t tag, void *data,
	uint64_t len, pmx_request *r);
int perf_irecv(struct session *s, struct pmx_addr from, uint32_t comm, uint64_t tag, void *data,
	uint64_t len, pmx_request *r);
int request_wait(struct session *s, pmx_request *r);

/* Batches of round trips, the first one for nothing; h[0] plain messages, h[1] matched ones, in
 * turns: what disturbs one disturbs the other. Plain messages may be too long for it. */
int round_trips(struct session *s, const struct options *o, uint32_t size, bool plain,
	struct hist h[2]);

#endif
