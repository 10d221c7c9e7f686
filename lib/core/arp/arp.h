/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ARP (RFC 826) of links that make their own IPv4 (encap = udp): a table of the next hops that
 * frames go to, the questions for their Ethernet addresses, and the answers to those of others.
 * Pure: frames are bytes, and time is ticks of the caller's clock.
 *
 * Thread safety: arp_use() and arp_unuse() need that nobody else uses the table; all other
 * functions may run on any number of threads at once.
 */
#ifndef PMX_CORE_ARP_H
#define PMX_CORE_ARP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARP_ETHERTYPE   0x0806
#define ARP_FRAME_BYTES 42  /* with Ethernet's header */
#define ARP_AGAIN_MS    100 /* between questions for an address that is not known */
/* after which an address in use is asked for again; it stays valid */
#define ARP_FRESH_MS    30000

/* An Ethernet address is a number here (base/bytes.h): its 6 bytes. 0: not known. */
struct arp_neighbour {
	_Atomic uint64_t mac;
	_Atomic uint64_t asked, heard; /* ticks of the last question and the last word; 0: never */
	uint32_t ip;                   /* host order */
	uint32_t users;                /* 0: the entry is free */
	uint8_t link;
};

/* The own addresses on a link. */
struct arp_port {
	uint64_t mac;
	uint32_t ip; /* host order; 0: the link does not speak ARP */
	uint8_t link;
};

struct arp {
	struct arp_neighbour *all; /* numbered from 1 on */
	uint32_t *order;           /* numbers of those in use, by link and address */
	uint32_t count;            /* of those in use */
	uint32_t size;
	uint64_t ticks_per_ms;
};

/* Each result of taking in a frame. */
enum arp_result {
	ARP_IGNORED, /* nothing: it is malformed, or between others */
	ARP_LEARNT,  /* a neighbour's address */
	ARP_ANSWER,  /* it asks for the own address: the answer was written */
	ARP_TAKEN,   /* somebody else has the own IP address */
};

/* Return the bytes of memory for a table of that size. */
size_t arp_bytes(uint32_t size);
/* Make a table in memory that is all 0 and aligned for 64-bit numbers. */
void arp_init(struct arp *a, void *memory, uint32_t size, uint64_t ticks_per_ms);

/* Return the number of the neighbour with that address, which is made if need be, or 0 if the table
 * is full. Each call takes one arp_unuse(). */
uint32_t arp_use(struct arp *a, uint8_t link, uint32_t ip);
void arp_unuse(struct arp *a, uint32_t number);

static inline struct arp_neighbour *
arp_neighbour(const struct arp *a, uint32_t number)
{
	return &a->all[number - 1];
}

/* Return whether a question for that neighbour is to be sent now, and note that it is. Of several
 * threads that ask at once, one gets true. */
bool arp_question_due(const struct arp *a, uint32_t number, uint64_t now);
/* Write the question who has that address, to all. For the own address it tells all that it is
 * here (RFC 5227, section 3). */
void arp_question(uint8_t frame[ARP_FRAME_BYTES], const struct arp_port *own, uint32_t ip);
/* Take in a frame of EtherType ARP, with its Ethernet header. *from: the sender's Ethernet address,
 * unless the frame is ignored as malformed. answer is written with ARP_ANSWER only. */
enum arp_result arp_in(struct arp *a, const struct arp_port *own, const uint8_t *frame,
	uint32_t len, uint64_t now, uint8_t answer[ARP_FRAME_BYTES], uint64_t *from);

#endif
