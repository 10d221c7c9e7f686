/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the sources of the harness have in common, and its tests do not see: see proto_pair.h.
 */
#ifndef PMX_TEST_PROTO_PAIR_INSIDE_H
#define PMX_TEST_PROTO_PAIR_INSIDE_H

#include <stdlib.h>

#include "proto_pair.h"

#define RX_TAG (1ull << 40)
/* In a handle: its frame is of a parked context, and its payload is out of reach. */
#define PARKED (1ull << 50)

/* The payload of a frame that a node sends; its handle is its number. */
struct net_payload {
	uint32_t message, frag, life;
	uint16_t node;
	bool parked, back;
};

/* A frame that a node received; its handle is RX_TAG and its number. */
struct net_rx {
	uint32_t payload, life; /* payload: number, or NIL for what a test injected */
	uint16_t node;
	bool kept, parked, back;
};

/* Make room for one more element of an array of struct net. */
#define GROW(net, array, count, cap)                                                               \
	do {                                                                                       \
		if ((net)->count == (net)->cap) {                                                  \
			(net)->cap = (net)->cap ? 2 * (net)->cap : 64;                             \
			(net)->array = realloc((net)->array, (net)->cap * sizeof(*(net)->array));  \
		}                                                                                  \
	} while (0)

/* A frame leaves a node: it is judged, logged, and on its way unless it is lost. */
void net_transmit(struct net *net, unsigned src, const struct proto_out *o);
/* Take what a node's core delivers, completes and gives back; how much that was. */
unsigned net_pull(struct net *net, unsigned node);

#endif
