/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See arp.h.
 *
 * Design notes
 * 1. An address that is not confirmed stays in use: a peer that does not answer is found out by the
 *    protocol above, and one that moved says so by a question or an announcement of its own.
 * 2. Any frame of a neighbour updates its entry, a question as well as an answer (RFC 826, "packet
 *    reception"). An address that nothing here sends to makes no entry, so strangers fill nothing.
 */
#include <string.h>

#include "base/bytes.h"
#include "core/arp/arp.h"

#define REQUEST 1
#define REPLY   2

/* Offsets in a frame. */
enum {
	AT_DST = 0,
	AT_SRC = 6,
	AT_ETHERTYPE = 12,
	AT_HEAD = 14, /* types and lengths of both addresses */
	AT_OP = 20,
	AT_SENDER_MAC = 22,
	AT_SENDER_IP = 28,
	AT_TARGET_MAC = 32,
	AT_TARGET_IP = 38,
};

#define BROADCAST 0xFFFFFFFFFFFFu
#define GROUP_BIT (1ull << 40)

/* Ethernet, IPv4, 6 and 4 bytes. */
static const uint8_t head[6] = {0, 1, 8, 0, 6, 4};

/* ------------------------------------------------------------------ the table */

size_t
arp_bytes(uint32_t size)
{
	return size * (sizeof(struct arp_neighbour) + sizeof(uint32_t));
}

void
arp_init(struct arp *a, void *memory, uint32_t size, uint64_t ticks_per_ms)
{
	*a = (struct arp){.all = memory, .size = size, .ticks_per_ms = ticks_per_ms};
	a->order = (uint32_t *)(a->all + size);
}

static uint64_t
key_of(uint8_t link, uint32_t ip)
{
	return (uint64_t)link << 32 | ip;
}

/* Return the place in `order` of the first neighbour whose key is not less. */
static uint32_t
arp_place_of(const struct arp *a, uint64_t key)
{
	uint32_t from = 0, to = a->count;

	while (from < to) {
		const uint32_t middle = from + (to - from) / 2;
		const struct arp_neighbour *n = arp_neighbour(a, a->order[middle]);

		if (key_of(n->link, n->ip) < key)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

/* Return the neighbour with that address, or NULL. */
static struct arp_neighbour *
arp_find(const struct arp *a, uint8_t link, uint32_t ip)
{
	const uint32_t place = arp_place_of(a, key_of(link, ip));

	if (place == a->count)
		return NULL;
	struct arp_neighbour *n = arp_neighbour(a, a->order[place]);

	return n->link == link && n->ip == ip ? n : NULL;
}

uint32_t
arp_use(struct arp *a, uint8_t link, uint32_t ip)
{
	struct arp_neighbour *n = arp_find(a, link, ip);
	uint32_t place, number = 1;

	if (n == NULL) {
		while (number <= a->size && arp_neighbour(a, number)->users != 0)
			number++;
		if (number > a->size)
			return 0;
		place = arp_place_of(a, key_of(link, ip));
		memmove(&a->order[place + 1], &a->order[place],
			(a->count - place) * sizeof(a->order[0]));
		a->order[place] = number;
		a->count++;
		n = arp_neighbour(a, number);
		*n = (struct arp_neighbour){.ip = ip, .link = link};
	}
	n->users++;
	return (uint32_t)(n - a->all) + 1;
}

void
arp_unuse(struct arp *a, uint32_t number)
{
	struct arp_neighbour *n = arp_neighbour(a, number);
	const uint32_t place = arp_place_of(a, key_of(n->link, n->ip));

	if (--n->users != 0)
		return;
	a->count--;
	memmove(&a->order[place], &a->order[place + 1], (a->count - place) * sizeof(a->order[0]));
}

/* ------------------------------------------------------------------ questions and answers */

bool
arp_question_due(const struct arp *a, uint32_t number, uint64_t now)
{
	struct arp_neighbour *n = arp_neighbour(a, number);
	uint64_t asked = atomic_load_explicit(&n->asked, memory_order_relaxed);
	const uint64_t heard = atomic_load_explicit(&n->heard, memory_order_relaxed);
	const bool known = atomic_load_explicit(&n->mac, memory_order_relaxed) != 0;

	if (known && now - heard < ARP_FRESH_MS * a->ticks_per_ms)
		return false;
	if (asked != 0 && now - asked < ARP_AGAIN_MS * a->ticks_per_ms)
		return false;
	return atomic_compare_exchange_strong(&n->asked, &asked, now);
}

static void
put_frame(uint8_t *frame, const struct arp_port *own, unsigned op, uint64_t to, uint64_t target_mac,
	uint32_t target_ip)
{
	put_be(frame + AT_DST, to, 6);
	put_be(frame + AT_SRC, own->mac, 6);
	put_be(frame + AT_ETHERTYPE, ARP_ETHERTYPE, 2);
	memcpy(frame + AT_HEAD, head, sizeof(head));
	put_be(frame + AT_OP, op, 2);
	put_be(frame + AT_SENDER_MAC, own->mac, 6);
	put_be(frame + AT_SENDER_IP, own->ip, 4);
	put_be(frame + AT_TARGET_MAC, target_mac, 6);
	put_be(frame + AT_TARGET_IP, target_ip, 4);
}

void
arp_question(uint8_t frame[ARP_FRAME_BYTES], const struct arp_port *own, uint32_t ip)
{
	put_frame(frame, own, REQUEST, BROADCAST, 0, ip);
}

enum arp_result
arp_in(struct arp *a, const struct arp_port *own, const uint8_t *frame, uint32_t len, uint64_t now,
	uint8_t answer[ARP_FRAME_BYTES], uint64_t *from)
{
	if (len < ARP_FRAME_BYTES || memcmp(frame + AT_HEAD, head, sizeof(head)) != 0)
		return ARP_IGNORED;
	const uint64_t op = get_be(frame + AT_OP, 2), mac = get_be(frame + AT_SENDER_MAC, 6);
	const uint32_t ip = (uint32_t)get_be(frame + AT_SENDER_IP, 4);
	const uint32_t target = (uint32_t)get_be(frame + AT_TARGET_IP, 4);

	if ((op != REQUEST && op != REPLY) || mac == 0 || (mac & GROUP_BIT) || mac == own->mac)
		return ARP_IGNORED;
	*from = mac;
	if (ip == own->ip)
		return ARP_TAKEN;
	struct arp_neighbour *n = arp_find(a, own->link, ip);

	if (n != NULL) {
		atomic_store_explicit(&n->mac, mac, memory_order_relaxed);
		atomic_store_explicit(&n->heard, now, memory_order_relaxed);
	}
	if (op == REQUEST && target == own->ip) {
		put_frame(answer, own, REPLY, mac, mac, ip);
		return ARP_ANSWER;
	}
	return n != NULL ? ARP_LEARNT : ARP_IGNORED;
}
