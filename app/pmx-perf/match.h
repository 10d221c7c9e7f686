/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the tests of matched messages share: orders to the responder, and isend, irecv and wait
 * within a session.
 */
#ifndef PMX_PERF_MATCH_H
#define PMX_PERF_MATCH_H

#include "perf.h"

#define COMM       1
#define LAST       2 /* communicator of the youngest message */
#define PATIENCE_S 60

/* An order: what the responder shall do. Its first byte is the kind of the message. */
struct order {
	uint8_t kind;
	uint8_t private; /* the responder uses memory of malloc, not of pmx_alloc */
	uint16_t depth;
	uint32_t size; /* bytes of a message */
	uint64_t count;
};

/* Send an order to the responder. Returns 0 or a negative errno. */
int order_send(struct perf_session *s, struct pmx_addr to, const struct order *o);
/* Wait until the responder reports that the order is done. Returns 0 or a negative errno. */
int order_done(struct perf_session *s);

/* pmx_isend(), waiting for room; pmx_irecv(); and waiting for the end of a request, up to
 * PATIENCE_S. They return 0 or a negative errno. */
int perf_isend(struct perf_session *s, struct pmx_addr to, uint32_t comm, uint64_t tag, void *data,
	uint64_t len, pmx_request *r);
int perf_irecv(struct perf_session *s, struct pmx_addr from, uint32_t comm, uint64_t tag,
	void *data, uint64_t len, pmx_request *r);
int request_wait(struct perf_session *s, pmx_request *r);

/* Send one plain message of `size` bytes, 1 to 64, there and back, within PATIENCE_S. Return 0 or a
 * negative errno. */
int perf_trip(struct perf_session *s, struct pmx_addr to, uint32_t size);

struct pmx_group;
/* Join the group of that number, which both sides do, the initiator as rank 0. */
int perf_group_open(struct perf_session *s, uint32_t id, struct pmx_addr initiator,
	struct pmx_addr responder, struct pmx_group **g);

/* Measure batches of round trips; the first batch is not counted. h[0] gets plain messages, h[1]
 * matched ones. They alternate, so that a disturbance affects both. plain = false: only matched
 * ones, for sizes that are too long for plain messages. */
int round_trips(struct perf_session *s, const struct perf_options *o, uint32_t size, bool plain,
	struct hist h[2]);

#endif
