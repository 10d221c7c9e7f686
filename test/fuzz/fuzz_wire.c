/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Wire parsing, fed any bytes: reads nothing beyond them, and a frame that is accepted has its
 * fields within their ranges, is accepted again when it is written anew, and is plain only if it is
 * right.
 */
#include "input.h"
#include "core/wire/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct wire_fields
fields_of(const struct wire_hdr *h)
{
	return (struct wire_fields){
		.type = h->type,
		.flags = wire_be16(h->flags),
		.src_node = wire_be16(h->src_node),
		.dst_node = wire_be16(h->dst_node),
		.src_ctx = wire_be16(h->src_ctx),
		.dst_ctx = wire_be16(h->dst_ctx),
		.payload_len = wire_be16(h->payload_len),
		.credit = wire_be16(h->credit),
		.share = wire_be16(h->share),
		.session = wire_be32(h->session),
		.seq = wire_be32(h->seq),
		.ack = wire_be32(h->ack),
		.tstamp = wire_be32(h->tstamp),
		.echo = wire_be32(h->echo),
		.msg_len = wire_be32(h->msg_len),
		.frag_off = wire_be32(h->frag_off),
	};
}

static void
check_accepted(const struct wire_hdr *h, size_t len, uint32_t payload_max)
{
	struct wire_fields f = fields_of(h);
	struct wire_hdr again;

	MUST(len == (size_t)WIRE_HDR_BYTES + f.payload_len);
	MUST(f.payload_len <= payload_max);
	MUST(h->version == WIRE_VERSION && f.type > 0 && f.type < WIRE_TYPE_COUNT);
	MUST((f.flags & ~WIRE_F_ALL) == 0);
	if (f.type == WIRE_DATA) {
		MUST(f.msg_len <= WIRE_MESSAGE_MAX);
		MUST((uint64_t)f.frag_off + f.payload_len <= f.msg_len);
	}
	wire_put(&again, &f);
	again.crc = h->crc;
	MUST(memcmp(&again, h, sizeof(again)) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	uint32_t payload_max = WIRE_HOLES_MAX +
		take16(&in) % (WIRE_PAYLOAD_MAX - WIRE_HOLES_MAX + 1);
	size_t len = in.left;
	uint8_t *frame = malloc(len ? len : 1); /* its own: a byte beyond it is found */

	memcpy(frame, in.at, len);
	const struct wire_hdr *h = (const struct wire_hdr *)frame;
	enum wire_verdict v = wire_check(frame, (uint32_t)len, payload_max);

	if (v == WIRE_OK)
		check_accepted(h, len, payload_max);
	else
		MUST(v <= WIRE_BAD_FIELD);
	if (len >= WIRE_HDR_BYTES) {
		uint64_t head = wire_head(WIRE_DATA, wire_be16(h->src_node),
			wire_be16(h->dst_node));
		uint32_t ctxs = wire_ctxs(wire_be16(h->src_ctx), wire_be16(h->dst_ctx));

		if (wire_is_plain(h, (uint32_t)len, head, ctxs) &&
			len - WIRE_HDR_BYTES <= payload_max)
			MUST(v == WIRE_OK);
	}
	free(frame);
	return 0;
}
