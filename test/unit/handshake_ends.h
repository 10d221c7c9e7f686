/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two nodes that agree on keys, whose messages a test carries. One test runs at a time.
 */
#ifndef PMX_TEST_HANDSHAKE_ENDS_H
#define PMX_TEST_HANDSHAKE_ENDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "handshake/gate.h"

#define NOW_S UINT64_C(1800000000)

struct end {
	struct handshake_self self;
	struct handshake_peer peer;
	struct handshake_result r;
};

extern struct end a, b; /* nodes 1 and 2 */
extern struct handshake_time now;
extern uint8_t authority[KEY_BYTES];

/* Write bytes that look random, and are the same in every run. */
void draw(void *arg, void *bytes, size_t len);
/* Give a node a certificate of the authority's. */
void certify_until(struct handshake_self *s, uint16_t node, uint64_t from, uint64_t until);
/* Make two nodes that know each other's key; or by certificates. */
int setup(void **state);
int setup_certified(void **state);
/* Carry what one end has to send to the other. */
void carry(struct end *from, struct end *to);
void wanted(struct end *e);
void assert_agreed(const struct end *initiator, const struct end *responder);
/* Have them agree, and the responder use the keys. */
void agree(struct end *from, struct end *to);

#endif
