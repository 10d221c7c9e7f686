/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Datagrams of discovery as bytes: a head, and records of nodes. Everything is big-endian. Pure.
 */
#ifndef PMX_DISCOVERY_RECORD_H
#define PMX_DISCOVERY_RECORD_H

#include "discovery/discovery.h"

#define DISCOVERY_MAGIC      0x504D5844u /* "PMXD" */
#define DISCOVERY_VERSION    1
#define DISCOVERY_HEAD_BYTES 32
#define DISCOVERY_RECORD_MAX                                                                       \
	(2 + 4 + 4 + 18 + 1 + DISCOVERY_NAME_MAX + 1 + DISCOVERY_LINKS_MAX * 20)

enum discovery_type {
	DISCOVERY_JOIN = 1, /* a record of the sender: here I am. cookie: the one it was given, or
			     * 0 */
	DISCOVERY_COOKIE,   /* cookie: to be shown in the next JOIN or ASK */
	DISCOVERY_TABLE,    /* records, the sender's first; a page of several */
	DISCOVERY_NO,       /* a record: it holds the number that the JOIN wants */
	DISCOVERY_NOT_HERE, /* the JOIN is of another cluster */
	DISCOVERY_PROBE,    /* do you run? */
	DISCOVERY_ALIVE,    /* a record of the sender; answers PROBE */
	DISCOVERY_DIGEST,   /* cookie: the digest of what the sender knows */
	DISCOVERY_LEAVE,    /* a record of the sender, which ends */
	DISCOVERY_WHO,      /* answers DIGEST: the sender knows no such node, and would like a
			     * JOIN */
	DISCOVERY_TYPES
};

#define DISCOVERY_WANTS 0x01 /* JOIN: all that the receiver knows, not only itself */

struct discovery_head {
	uint8_t type, flags;
	uint64_t nonce; /* of the question; an answer has that of its question */
	uint64_t cookie;
	uint64_t cluster; /* hash of its name */
};

/* A datagram that is being written. */
struct discovery_writer {
	uint8_t bytes[DISCOVERY_BYTES];
	uint32_t len;
};

void discovery_write(struct discovery_writer *w, const struct discovery_head *h);
/* Add a record. Return false if there is no room. */
bool discovery_add(struct discovery_writer *w, const struct discovery_record *r);
/* Read the head. Return false if the datagram is none of discovery's, or of another version. */
bool discovery_read(const uint8_t *bytes, uint32_t len, struct discovery_head *h);
/* Read the record at *at, and move *at behind it. Return false, and leave *r undefined, if there is
 * none, or a malformed one. */
bool discovery_next(const uint8_t *bytes, uint32_t len, uint32_t *at, struct discovery_record *r);

#endif
