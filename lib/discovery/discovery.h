/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Nodes find each other: each tells its number, name and addresses to one or more seeds, learns
 * from them who else is there, and then greets all of those. Pure: datagrams are bytes, time is
 * milliseconds of the caller's clock, and what is to be sent goes to a callback. Not thread safe.
 *
 * Design notes
 * 1. A stranger gets no answer that is longer than its question, until it has shown by a cookie
 *    that it is where its address says. So nobody is flooded by answers to questions of another,
 *    and no address is learnt that its owner did not use.
 * 2. What others tell of a third node is learnt at once, and answers only to an own question count.
 *    What a node says of itself replaces what others said.
 * 3. A number has one holder. A newcomer with the number of another waits until that one has been
 *    asked whether it still runs. If it does, the newcomer is refused, and told by whom the number
 *    is held; of two that have just begun, the older one has it. From the same address it is a
 *    restart.
 * 4. A node that ends says so. It is asked whether that is true, and forgotten when it does not
 *    answer. One that vanishes stays known, and the protocol core finds out that it is down.
 * 5. Every few seconds two nodes compare a digest of what they know, so that lost datagrams and
 *    networks that were apart for a while leave no gaps.
 */
#ifndef PMX_DISCOVERY_H
#define PMX_DISCOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DISCOVERY_PORT      18514 /* UDP */
#define DISCOVERY_NAME_MAX  64    /* with its 0 */
#define DISCOVERY_LINKS_MAX 4
#define DISCOVERY_BYTES     1200 /* longest datagram */

/* Most seeds of a node: each other node may be one, and some that are gone. */
#define DISCOVERY_SEEDS(nodes_max) ((nodes_max) + 64u)

/* An address and UDP port. IPv4 is mapped: ::ffff:a.b.c.d. */
struct discovery_addr {
	uint8_t ip[16];
	uint16_t port; /* host order */
};

enum discovery_kind {
	DISCOVERY_NO_LINK, /* the node has no such link, or none that an address leads to */
	DISCOVERY_IP,      /* reached by IP address and UDP port */
	DISCOVERY_MAC,     /* reached by an Ethernet address, the first 6 bytes of ip */
	DISCOVERY_KINDS
};

/* All that a node tells of itself. */
struct discovery_record {
	uint16_t number;
	uint32_t generation;      /* of its life: another one after each start; not 0 */
	uint32_t age_ms;          /* since its start, when the record was sent */
	struct discovery_addr at; /* where it answers */
	char name[DISCOVERY_NAME_MAX];
	uint8_t kind[DISCOVERY_LINKS_MAX]; /* enum discovery_kind, by the link's number */
	struct discovery_addr link[DISCOVERY_LINKS_MAX];
};

enum discovery_event {
	DISCOVERY_LEARNT,  /* `node` is known now, or has another address or life */
	DISCOVERY_LEFT,    /* `node` has ended */
	DISCOVERY_REFUSED, /* `node` has this node's number, and ran before it */
	DISCOVERY_CLAIMED, /* `other` wanted the number of `node`, and was refused */
	DISCOVERY_OTHER,   /* the node at `node`->at is of another cluster */
	DISCOVERY_FULL,    /* `node` has a number that is not below nodes_max */
	DISCOVERY_SEED,    /* a seed has answered for the first time: `node`->at */
};

struct discovery_config {
	struct discovery_record self; /* `at` and addresses that are 0 are those that others see */
	char cluster[DISCOVERY_NAME_MAX];
	uint32_t nodes_max;
	uint64_t key[2]; /* secret, for cookies and questions */
	void *arg;       /* of the callbacks, which must not call functions of this file */
	void (*send)(void *arg, const struct discovery_addr *to, const uint8_t *bytes,
		uint32_t len);
	void (*tell)(void *arg, enum discovery_event event, const struct discovery_record *node,
		const struct discovery_record *other);
};

struct discovery;

/* Return the bytes of memory for one of that many nodes. */
size_t discovery_bytes(uint32_t nodes_max);
/* Make one in memory that is all 0 and aligned for 64-bit numbers. */
struct discovery *discovery_init(void *memory, const struct discovery_config *config, uint64_t now);
/* Add where to ask first, if it is not there yet. Own addresses are found out and left alone. */
void discovery_seeds(struct discovery *d, const struct discovery_addr *seeds, uint32_t count,
	uint64_t now);
/* Take what an earlier discovery of this node knew of another one, which is asked whether it is
 * true. */
void discovery_remember(struct discovery *d, const struct discovery_record *r, uint64_t now);
/* Take in a datagram that came from there. */
void discovery_in(struct discovery *d, const struct discovery_addr *from, const uint8_t *bytes,
	uint32_t len, uint64_t now);
/* Send what is due. Return when the next thing is. */
uint64_t discovery_tick(struct discovery *d, uint64_t now);
/* Tell all that this node ends. */
void discovery_leave(struct discovery *d);
/* Return what is known of the node with that number, or NULL. */
const struct discovery_record *discovery_node(const struct discovery *d, uint32_t number);
/* Return how many seeds there are, and how many have answered. */
uint32_t discovery_seeds_known(const struct discovery *d);
uint32_t discovery_seeds_answered(const struct discovery *d);
/* Return how many seeds run, and have not said yet whether this node may have its number. */
uint32_t discovery_seeds_undecided(const struct discovery *d);

bool discovery_same_addr(const struct discovery_addr *a, const struct discovery_addr *b);

#endif
