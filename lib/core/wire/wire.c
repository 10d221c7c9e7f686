/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Checking frames. lib/core/proto calls this for every frame that wire_is_plain does not accept,
 * before it reads any field. Pure functions, any thread.
 */
#include "core/wire/siphash.h"
#include "core/wire/wire.h"

/* type -> fewest payload bytes that its handler reads; and whether more is allowed */
static const struct {
	uint16_t payload_min;
	uint16_t payload_max;
} wire_types[WIRE_TYPE_COUNT] = {
	[0] = {1, 0}, /* no such type */
	[WIRE_DATA] = {0, UINT16_MAX},
	[WIRE_ACK] = {0, 0},
	[WIRE_NACK] = {1, WIRE_HOLES_MAX},
	[WIRE_HELLO] = {sizeof(struct wire_hello), sizeof(struct wire_hello)},
	[WIRE_PING] = {0, UINT16_MAX},
	[WIRE_PONG] = {0, 0},
	[WIRE_RESET] = {0, 0},
	[WIRE_MULTI] = {sizeof(struct wire_multi) + 1, UINT16_MAX},
	[WIRE_LINK] = {0, 0},
	[WIRE_KEYS] = {0, UINT16_MAX},
};

/* The direction of each message of a transfer, and the flags and bytes that may come with it. */
static const struct {
	bool to_target;
	uint8_t flags;
	uint16_t extra_min, extra_max; /* bytes behind the head */
} wire_transfers[WIRE_TRANSFER_OPS] = {
	[WIRE_PUSH] = {true,
		WIRE_T_LAST | WIRE_T_AREA | WIRE_T_NOTIFY | WIRE_T_RUNS | WIRE_T_OFFER |
			WIRE_T_TAKEN,
		0, UINT16_MAX},
	[WIRE_PULL] = {true, WIRE_T_AREA | WIRE_T_STRIDE | WIRE_T_BITMAP | WIRE_T_OFFER, 0,
		sizeof(struct wire_bitmap)},
	[WIRE_ASK] = {true, WIRE_T_OFFER, 0, 0},
	[WIRE_PIN] = {true, WIRE_T_AREA | WIRE_T_HOLD, 0, 0},
	[WIRE_PULLED] = {false, WIRE_T_LAST | WIRE_T_RUNS, 0, UINT16_MAX},
	[WIRE_ENDED] = {false, 0, sizeof(struct wire_ended), UINT16_MAX},
	[WIRE_ACCEPT] = {true, WIRE_T_OFFER, 0, 0},
	[WIRE_UNPIN] = {true, WIRE_T_AREA | WIRE_T_LAST, 0, 0},
	[WIRE_ATOMIC] = {true, WIRE_T_AREA | WIRE_T_FETCH, sizeof(struct wire_atomic),
		sizeof(struct wire_atomic) + 2 * WIRE_ATOMIC_BYTES},
};

enum wire_verdict
wire_transfer_check(const void *payload, uint32_t len, bool to_target)
{
	const struct wire_transfer *t = payload;

	if (len < sizeof(*t))
		return WIRE_TRUNCATED;
	if (t->op == 0 || t->op >= WIRE_TRANSFER_OPS ||
		wire_transfers[t->op].to_target != to_target)
		return WIRE_BAD_TYPE;
	if (t->flags & ~wire_transfers[t->op].flags)
		return WIRE_BAD_FLAGS;
	uint32_t extra = len - (uint32_t)sizeof(*t);

	if (t->zero != 0 || extra < wire_transfers[t->op].extra_min ||
		extra > wire_transfers[t->op].extra_max)
		return WIRE_BAD_FIELD;
	if (t->op == WIRE_PUSH && t->flags & WIRE_T_TAKEN &&
		(extra != 0 ||
			(t->flags & ~WIRE_T_AREA) != (WIRE_T_TAKEN | WIRE_T_LAST | WIRE_T_NOTIFY)))
		return WIRE_BAD_FIELD;
	if (t->op == WIRE_PULL &&
		extra !=
			(t->flags & WIRE_T_STRIDE ? sizeof(struct wire_stride) : 0) +
				(t->flags & WIRE_T_BITMAP ? sizeof(struct wire_bitmap) : 0))
		return WIRE_BAD_FIELD;
	if (t->op == WIRE_ENDED && wire_be64(t->len) * sizeof(struct wire_ended) != extra)
		return WIRE_BAD_FIELD;
	return WIRE_OK;
}

enum wire_verdict
wire_check(const void *frame, uint32_t len, uint32_t payload_max)
{
	const struct wire_hdr *h = frame;

	if (len < WIRE_HDR_BYTES)
		return WIRE_TRUNCATED;
	if (h->version != WIRE_VERSION)
		return WIRE_BAD_VERSION;
	if (h->type >= WIRE_TYPE_COUNT || h->type == 0)
		return WIRE_BAD_TYPE;
	if (h->flags & wire_be16(~WIRE_F_ALL & 0xFFFF))
		return WIRE_BAD_FLAGS;
	uint32_t payload = wire_be16(h->payload_len);
	if (len < WIRE_HDR_BYTES + payload)
		return WIRE_TRUNCATED;
	if (len > WIRE_HDR_BYTES + payload || payload > payload_max)
		return WIRE_OVERSIZED;
	if (payload < wire_types[h->type].payload_min || payload > wire_types[h->type].payload_max)
		return WIRE_BAD_FIELD;
	if (h->type == WIRE_DATA) {
		uint32_t msg_len = wire_be32(h->msg_len), off = wire_be32(h->frag_off);

		if (msg_len > WIRE_MESSAGE_MAX || off > msg_len || payload > msg_len - off ||
			(payload == 0 && msg_len != 0))
			return WIRE_BAD_FIELD;
	}
	return WIRE_OK;
}

uint32_t
wire_session(struct wire_end a, struct wire_end b)
{
	const bool first = a.secret != b.secret ? a.secret < b.secret : a.epoch < b.epoch;
	const struct wire_end low = first ? a : b, high = first ? b : a;
	const uint64_t key[2] = {low.secret, high.secret};
	const uint64_t epochs = (uint64_t)high.epoch << 32 | low.epoch;
	const uint32_t session = (uint32_t)siphash(key, &epochs, 1);

	return session ? session : 1;
}

uint32_t
wire_multi_tag(uint64_t key, const void *head, uint16_t words)
{
	const uint64_t keys[2] = {key, ~key};
	uint64_t all[(sizeof(struct wire_multi) + WIRE_GROUP_MEMBERS_MAX / 8) / 8];
	const uint32_t n = (uint32_t)(sizeof(struct wire_multi) / 8) + words;

	memcpy(all, head, n * sizeof(*all));
	memset((uint8_t *)all + offsetof(struct wire_multi, tag), 0, sizeof(uint32_t));
	return (uint32_t)siphash(keys, all, n);
}
