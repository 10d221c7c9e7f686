/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Golden bytes of every frame type, each verdict of wire_check with its boundaries, sessions, and
 * serial arithmetic. The bytes are written by hand: whoever changes them changes the protocol.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "core/wire/siphash.h"
#include "core/wire/wire.h"

#define PAYLOAD_MAX 1024

/* Fields of a golden frame in host order. */
struct fields {
	uint8_t type;
	uint16_t flags, payload_len, credit, share;
	uint32_t session, seq, ack, tstamp, echo, msg_len, frag_off, crc;
};

static struct wire_hdr
header(const struct fields *f)
{
	return (struct wire_hdr){
		.version = WIRE_VERSION,
		.type = f->type,
		.flags = wire_be16(f->flags),
		.src_node = wire_be16(0x0102),
		.dst_node = wire_be16(0x0304),
		.src_ctx = wire_be16(0x0506),
		.dst_ctx = wire_be16(0x0708),
		.payload_len = wire_be16(f->payload_len),
		.credit = wire_be16(f->credit),
		.share = wire_be16(f->share),
		.session = wire_be32(f->session),
		.seq = wire_be32(f->seq),
		.ack = wire_be32(f->ack),
		.tstamp = wire_be32(f->tstamp),
		.echo = wire_be32(f->echo),
		.msg_len = wire_be32(f->msg_len),
		.frag_off = wire_be32(f->frag_off),
		.crc = wire_be32(f->crc),
	};
}

static void
expect_golden(const struct fields *f, const uint8_t *golden, uint32_t len)
{
	struct wire_hdr h = header(f);

	assert_memory_equal(&h, golden, WIRE_HDR_BYTES);
	assert_int_equal(wire_check(golden, len, PAYLOAD_MAX), WIRE_OK);
}

static void
wire_hdr__golden_data(void **state)
{
	static const uint8_t golden[] = {0x02, 0x01, 0x00, 0x0F, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06,
		0x07, 0x08,                                                 /* who */
		0x00, 0x05, 0x01, 0x00, 0x00, 0x10, 0xDE, 0xAD, 0xBE, 0xEF, /* length .. session */
		0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24,             /* seq, ack */
		0x31, 0x32, 0x33, 0x34, 0x41, 0x42, 0x43, 0x44,             /* tstamp, echo */
		0x00, 0x01, 0x00, 0x05, 0x00, 0x01, 0x00, 0x00,             /* msg_len, frag_off */
		0x51, 0x52, 0x53, 0x54,                                     /* crc */
		'h', 'e', 'l', 'l', 'o'};
	const struct fields f = {
		.type = WIRE_DATA,
		.flags = WIRE_F_FIRST | WIRE_F_ACK | WIRE_F_ECHO | WIRE_F_CRC,
		.payload_len = 5,
		.credit = 256,
		.share = 16,
		.session = 0xDEADBEEF,
		.seq = 0x11121314,
		.ack = 0x21222324,
		.tstamp = 0x31323334,
		.echo = 0x41424344,
		.msg_len = 0x10005,
		.frag_off = 0x10000,
		.crc = 0x51525354,
	};

	(void)state;
	expect_golden(&f, golden, sizeof(golden));
}

static void
wire_hdr__golden_ack(void **state)
{
	static const uint8_t golden[] = {0x02, 0x02, 0x00, 0x06, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06,
		0x07, 0x08, 0x00, 0x00, 0x00, 0x20, 0x00, 0x00, 0x00, 0x00, 0x00, 0x2A, 0x00, 0x00,
		0x00, 0x00, 0xFF, 0xFF, 0xFF, 0xFE, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x06,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
	const struct fields f = {
		.type = WIRE_ACK,
		.flags = WIRE_F_ACK | WIRE_F_ECHO,
		.credit = 32,
		.session = 42,
		.ack = 0xFFFFFFFE,
		.tstamp = 7,
		.echo = 6,
	};

	(void)state;
	expect_golden(&f, golden, sizeof(golden));
}

static void
wire_hdr__golden_nack(void **state)
{
	static const uint8_t golden[] = {
		0x02, 0x03, 0x00, 0x16, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x00, 0x02,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x2A, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x64, 0x00, 0x00, 0x00, 0x09, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x05, 0x80 /* 100, 102, 115 */
	};
	const struct fields f = {
		.type = WIRE_NACK,
		.flags = WIRE_F_ACK | WIRE_F_ECHO | WIRE_F_FULL,
		.payload_len = 2,
		.session = 42,
		.ack = 100,
		.tstamp = 9,
		.echo = 8,
	};

	(void)state;
	expect_golden(&f, golden, sizeof(golden));
}

static void
wire_hdr__golden_hello(void **state)
{
	static const uint8_t golden[] = {0x02, 0x04, 0x00, 0x40, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06,
		0x07, 0x08, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xA0, 0xA1,
		0xA2, 0xA3, 0xB0, 0xB1, 0xB2, 0xB3,             /* epoch, nonce */
		0xC0, 0xC1, 0xC2, 0xC3, 0x20, 0x00, 0x02, 0x00, /* echo, payload_max, window */
		0xD0, 0xD1, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7, /* secret */
		0x00, 0x01, 0x86, 0xA0, 0x02, 0x01, 0x00, 0x00, /* age, lanes, flags */
		0x6E, 0x6F, 0x64, 0x65, 0x00, 0x00, 0x00, 0x00, /* name */
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
	const struct wire_hello hello = {
		.epoch = wire_be32(0xA0A1A2A3),
		.nonce = wire_be32(0xB0B1B2B3),
		.echo = wire_be32(0xC0C1C2C3),
		.payload_max = wire_be16(8192),
		.window = wire_be16(512),
		.secret = wire_be64(0xD0D1D2D3D4D5D6D7),
		.age = wire_be32(100000),
		.lanes = 2,
		.flags = WIRE_H_CHECKSUM,
		.name = "node",
	};
	const struct fields f = {
		.type = WIRE_HELLO,
		.flags = WIRE_F_ASK,
		.payload_len = sizeof(hello),
		.tstamp = 3,
	};

	(void)state;
	expect_golden(&f, golden, sizeof(golden));
	assert_memory_equal(&hello, golden + WIRE_HDR_BYTES, sizeof(hello));
}

static void
wire_hdr__golden_ping_and_pong(void **state)
{
	uint8_t golden[WIRE_HDR_BYTES] = {0x02, 0x05, 0x00, 0x00, 0x01, 0x02, 0x03, 0x04, 0x05,
		0x06, 0x07, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xCA, 0xFE, 0xBA, 0xBE, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
	struct fields f = {.type = WIRE_PING, .session = 0xCAFEBABE, .tstamp = 256};

	(void)state;
	expect_golden(&f, golden, sizeof(golden));
	f.type = WIRE_PONG;
	golden[1] = 0x06;
	expect_golden(&f, golden, sizeof(golden));
}

static void
wire_hdr__golden_reset(void **state)
{
	static const uint8_t golden[] = {0x02, 0x07, 0x00, 0x80, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06,
		0x07, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00,
		0x03, 0xE8, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
	const struct fields f = {
		.type = WIRE_RESET,
		.flags = WIRE_F_SENDER,
		.session = 1,
		.seq = 1000,
		.tstamp = 2,
	};

	(void)state;
	expect_golden(&f, golden, sizeof(golden));
}

static void
wire_hdr__golden_link(void **state)
{
	static const uint8_t golden[] = {0x02, 0x09, 0x00, 0x40, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06,
		0x07, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
	struct fields f = {.type = WIRE_LINK, .flags = WIRE_F_ASK, .seq = 7};
	uint8_t answer[sizeof(golden)];

	(void)state;
	expect_golden(&f, golden, sizeof(golden));
	memcpy(answer, golden, sizeof(golden));
	answer[3] = 0x00;
	f.flags = 0;
	expect_golden(&f, answer, sizeof(answer));
}

/* Check that the payload of a good multicast frame, of one word of ranks and 4 bytes, is refused
 * when it is made a bad one. */
static void
multi_is_checked(const uint8_t *payload, uint32_t len)
{
	assert_int_equal(wire_multi_check(payload, len), WIRE_OK);
	/* no bytes behind the ranks; a frame behind the last one; more ranks than there are */
	assert_int_equal(wire_multi_check(payload, len - 4), WIRE_BAD_FIELD);
	assert_int_equal(wire_multi_check(payload, sizeof(struct wire_multi)), WIRE_TRUNCATED);
	for (unsigned i = 0; i < 4; i++) {
		static const struct {
			uint8_t at, value;
		} bad[] = {{14, 10}, {15, WIRE_CHUNK_MAX}, {21, 2}, {23, 2}};
		uint8_t other[128];

		memcpy(other, payload, len);
		other[bad[i].at] = bad[i].value;
		assert_int_equal(wire_multi_check(other, len), WIRE_BAD_FIELD);
	}
}

static void
wire_hdr__golden_multi(void **state)
{
	static const uint8_t golden[] = {0x02, 0x08, 0x00, 0x00, 0x01, 0x02, 0xFF, 0xFF, 0x40, 0x06,
		0xFF, 0xFF, 0x00, 0x2C, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x07, 0x02, 0xC5, 0xE8, 0xCA, 0x00, 0x00, 0x01, 0x00, 0x00, 0x03, 0x02, 0x09,
		0x00, 0x00, 0x00, 0x05, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x11, 0x22,
		0x33, 0x44, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x16, 0xCA, 0xFE, 0xBA, 0xBE};
	const struct wire_hdr h = {
		.version = WIRE_VERSION,
		.type = WIRE_MULTI,
		.src_node = wire_be16(0x0102),
		.dst_node = wire_be16(WIRE_NOBODY),
		.src_ctx = wire_be16(WIRE_GROUP | 6),
		.dst_ctx = wire_be16(WIRE_NOBODY),
		.payload_len = wire_be16(sizeof(golden) - sizeof(h)),
	};
	struct wire_multi m = {
		.group = wire_be32(7),
		.number = wire_be32(0x100),
		.rank = wire_be16(3),
		.frame = 2,
		.last = 9,
		.area = wire_be32(5),
		.words = wire_be16(1),
		.at = wire_be64(0x11223344),
	};
	const uint64_t ranks = wire_be64(0x16);
	uint8_t frame[sizeof(golden)];

	(void)state;
	assert_int_equal(WIRE_MULTI_HEAD(1), sizeof(m) + sizeof(ranks));
	assert_int_equal(WIRE_MULTI_HEAD(64), sizeof(m) + sizeof(ranks));
	assert_int_equal(WIRE_MULTI_HEAD(65), sizeof(m) + 2 * sizeof(ranks));
	memcpy(frame, golden, sizeof(golden));
	memcpy(frame, &h, sizeof(h));
	memcpy(frame + sizeof(h), &m, sizeof(m));
	memcpy(frame + sizeof(h) + sizeof(m), &ranks, sizeof(ranks));
	m.tag = wire_be32(wire_multi_tag(0x0123456789ABCDEF, frame + sizeof(h), 1));
	memcpy(frame + sizeof(h), &m, sizeof(m));
	assert_memory_equal(frame, golden, sizeof(golden));
	assert_int_equal(wire_check(golden, sizeof(golden), 1000), WIRE_OK);
	multi_is_checked(golden + sizeof(h), sizeof(golden) - sizeof(h));
}

/* The payload of a message to a target: the last frame of a push that tells the application. */
static void
wire_hdr__golden_push(void **state)
{
	static const uint8_t golden[] = {0x01, 0x05, 0x00, 0x00, 0x00, 0x07, 0x00, 0x21, 0x11, 0x22,
		0x33, 0x44, 0x55, 0x66, 0x00, 0x03, 0x00, 0x00, 0x7F, 0x00, 0x00, 0x00, 0x10, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x3F, 0xFF, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x2A, 0xEE};
	const struct wire_transfer t = {
		.op = WIRE_PUSH,
		.flags = WIRE_T_LAST | WIRE_T_NOTIFY,
		.id = wire_be32(0x00070021),
		.key = wire_be64(0x1122334455660003),
		.at = wire_be64(0x7F0000001000),
		.len = wire_be64(16384),
		.offset = wire_be64(16383),
		.imm = wire_be64(42),
	};

	(void)state;
	assert_memory_equal(&t, golden, sizeof(t));
	assert_int_equal(wire_transfer_check(golden, sizeof(golden), true), WIRE_OK);
	assert_int_equal(wire_transfer_check(golden, sizeof(golden), false), WIRE_BAD_TYPE);
}

/* ... a pin that holds, its release, what an initiator says at its end, and the answer to a
 * release. */
static void
wire_hdr__golden_pin(void **state)
{
	static const uint8_t golden[] = {0x04, 0x80, 0x00, 0x00, 0x00, 0x07, 0x00, 0x21, 0x11, 0x22,
		0x33, 0x44, 0x55, 0x66, 0x00, 0x03, 0x00, 0x00, 0x7F, 0x00, 0x00, 0x00, 0x10, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00};
	static const uint8_t ended[] = {0x00, 0x07, 0x00, 0x21, 0x80, 0x00, 0x00, 0x7E};
	struct wire_transfer t = {
		.op = WIRE_PIN,
		.flags = WIRE_T_HOLD,
		.id = wire_be32(0x00070021),
		.key = wire_be64(0x1122334455660003),
		.at = wire_be64(0x7F0000001000),
		.len = wire_be64(16384),
	};
	const struct wire_ended e = {wire_be32(0x00070021), wire_be32(ENOKEY | WIRE_NONE_LEFT)};
	uint8_t changed[sizeof(golden)];

	(void)state;
	assert_memory_equal(&t, golden, sizeof(t));
	assert_int_equal(wire_transfer_check(golden, sizeof(golden), true), WIRE_OK);
	memcpy(changed, golden, sizeof(changed));
	changed[0] = 0x08;
	changed[1] = 0x00;
	t.op = WIRE_UNPIN;
	t.flags = 0;
	assert_memory_equal(&t, changed, sizeof(t));
	assert_int_equal(wire_transfer_check(changed, sizeof(changed), true), WIRE_OK);
	memset(changed + 1, 0, sizeof(changed) - 1);
	changed[1] = 0x01;
	t = (struct wire_transfer){.op = WIRE_UNPIN, .flags = WIRE_T_LAST};
	assert_memory_equal(&t, changed, sizeof(t));
	assert_int_equal(wire_transfer_check(changed, sizeof(changed), true), WIRE_OK);
	assert_int_equal(sizeof(e), sizeof(ended));
	assert_memory_equal(&e, ended, sizeof(e));
}

/* The payload of a message to a matched endpoint: an offer. */
static void
wire_hdr__golden_offer(void **state)
{
	static const uint8_t golden[] = {0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x80, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x00, 0x2A, 0x00, 0x00, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00,
		0x00, 0x07, 0x00, 0x21, 0x00, 0x00, 0x00, 0x00};
	const struct {
		struct wire_match m;
		struct wire_offer o;
	} __attribute__((packed, aligned(2))) message = {
		{.op = WIRE_OFFER, .comm = wire_be32(7), .tag = wire_be64(1ull << 63 | 42)},
		{.len = wire_be64(1 << 20), .id = wire_be32(0x00070021)},
	};

	(void)state;
	assert_memory_equal(&message, golden, sizeof(golden));
	assert_int_equal(wire_match_check(golden, sizeof(golden)), WIRE_OK);
}

static void
wire_match_check__each_verdict(void **state)
{
	struct wire_match m = {.op = WIRE_EAGER};

	(void)state;
	assert_int_equal(wire_match_check(&m, sizeof(m)), WIRE_OK);
	assert_int_equal(wire_match_check(&m, sizeof(m) - 1), WIRE_TRUNCATED);
	m.flags = WIRE_M_RUNS;
	assert_int_equal(wire_match_check(&m, 5000), WIRE_OK);
	m.flags = 0x80;
	assert_int_equal(wire_match_check(&m, 5000), WIRE_BAD_FLAGS);
	m = (struct wire_match){.op = WIRE_EAGER, .label = 1};
	assert_int_equal(wire_match_check(&m, 5000), WIRE_BAD_FIELD);
	m.flags = WIRE_M_IMMEDIATE;
	assert_int_equal(wire_match_check(&m, sizeof(m) + sizeof(struct wire_immediate)), WIRE_OK);
	assert_int_equal(wire_match_check(&m, sizeof(m) + sizeof(struct wire_immediate) - 1),
		WIRE_TRUNCATED);
	m.op = WIRE_OFFER;
	assert_int_equal(wire_match_check(&m, WIRE_MATCH_HEAD_MAX + sizeof(struct wire_offer)),
		WIRE_OK);
	assert_int_equal(wire_match_check(&m, sizeof(m) + sizeof(struct wire_offer)),
		WIRE_BAD_FIELD);
	m = (struct wire_match){.op = WIRE_OFFER};
	assert_int_equal(wire_match_check(&m, sizeof(m) + sizeof(struct wire_offer)), WIRE_OK);
	assert_int_equal(wire_match_check(&m, sizeof(m) + sizeof(struct wire_offer) + 1),
		WIRE_BAD_FIELD);
	m.op = 0;
	assert_int_equal(wire_match_check(&m, sizeof(m)), WIRE_BAD_TYPE);
	m.op = WIRE_MATCH_OPS;
	assert_int_equal(wire_match_check(&m, sizeof(m)), WIRE_BAD_TYPE);
}

static void
wire_transfer_check__each_verdict(void **state)
{
	struct {
		struct wire_transfer t;
		uint8_t extra[sizeof(struct wire_stride) + sizeof(struct wire_bitmap)];
	} __attribute__((packed, aligned(2))) m;
	const uint32_t head = sizeof(m.t), stride = sizeof(struct wire_stride),
		       bitmap = sizeof(struct wire_bitmap);

	(void)state;
	memset(&m, 0, sizeof(m));
	assert_int_equal(wire_transfer_check(&m, head - 1, true), WIRE_TRUNCATED);
	assert_int_equal(wire_transfer_check(&m, head, true), WIRE_BAD_TYPE);
	m.t.op = WIRE_TRANSFER_OPS;
	assert_int_equal(wire_transfer_check(&m, head, true), WIRE_BAD_TYPE);
	for (uint8_t op = WIRE_PUSH; op < WIRE_TRANSFER_OPS; op++) {
		bool to_target = op != WIRE_PULLED && op != WIRE_ENDED;
		uint32_t least = op == WIRE_ENDED || op == WIRE_ATOMIC ? 8 : 0;

		m.t = (struct wire_transfer){.op = op, .len = op == WIRE_ENDED ? wire_be64(1) : 0};
		assert_int_equal(wire_transfer_check(&m, head + least, to_target), WIRE_OK);
		assert_int_equal(wire_transfer_check(&m, head + least, !to_target), WIRE_BAD_TYPE);
		m.t.zero = 1;
		assert_int_equal(wire_transfer_check(&m, head + least, to_target), WIRE_BAD_FIELD);
		m.t.zero = 0;
		m.t.flags = op == WIRE_PIN ? WIRE_T_LAST : WIRE_T_HOLD; /* none has both */
		assert_int_equal(wire_transfer_check(&m, head + least, to_target), WIRE_BAD_FLAGS);
	}
	m.t = (struct wire_transfer){.op = WIRE_ASK};
	assert_int_equal(wire_transfer_check(&m, head + 1, true), WIRE_BAD_FIELD);
	m.t = (struct wire_transfer){.op = WIRE_PULL, .flags = WIRE_T_STRIDE};
	assert_int_equal(wire_transfer_check(&m, head + stride, true), WIRE_OK);
	assert_int_equal(wire_transfer_check(&m, head + stride - 1, true), WIRE_BAD_FIELD);
	m.t.flags = WIRE_T_BITMAP;
	assert_int_equal(wire_transfer_check(&m, head + bitmap, true), WIRE_OK);
	assert_int_equal(wire_transfer_check(&m, head + stride, true), WIRE_BAD_FIELD);
	m.t.flags = WIRE_T_BITMAP | WIRE_T_STRIDE; /* both: there is no such pull */
	assert_int_equal(wire_transfer_check(&m, head + bitmap + stride, true), WIRE_BAD_FIELD);
	m.t = (struct wire_transfer){.op = WIRE_ENDED, .len = wire_be64(2)};
	assert_int_equal(wire_transfer_check(&m, head + 16, false), WIRE_OK);
	assert_int_equal(wire_transfer_check(&m, head + 8, false), WIRE_BAD_FIELD);
	assert_int_equal(wire_transfer_check(&m, head + 17, false), WIRE_BAD_FIELD);
	m.t = (struct wire_transfer){.op = WIRE_ATOMIC, .flags = WIRE_T_FETCH | WIRE_T_AREA};
	assert_int_equal(wire_transfer_check(&m, head + 7, true), WIRE_BAD_FIELD);
	assert_int_equal(wire_transfer_check(&m, head + 8 + 2 * WIRE_ATOMIC_BYTES, true), WIRE_OK);
	assert_int_equal(wire_transfer_check(&m, head + 9 + 2 * WIRE_ATOMIC_BYTES, true),
		WIRE_BAD_FIELD);
}

/* --- verdicts; a frame is a header whose payload wire_check never reads --- */

static enum wire_verdict
check(const struct fields *f, uint32_t len)
{
	struct wire_hdr h = header(f);

	return wire_check(&h, len, PAYLOAD_MAX);
}

static void
wire_check__truncated(void **state)
{
	const struct fields f = {.type = WIRE_DATA, .payload_len = 10, .msg_len = 10};

	(void)state;
	assert_int_equal(wire_check(NULL, 0, PAYLOAD_MAX), WIRE_TRUNCATED);
	assert_int_equal(check(&f, WIRE_HDR_BYTES - 1), WIRE_TRUNCATED);
	assert_int_equal(check(&f, WIRE_HDR_BYTES), WIRE_TRUNCATED);
	assert_int_equal(check(&f, WIRE_HDR_BYTES + 9), WIRE_TRUNCATED);
	assert_int_equal(check(&f, WIRE_HDR_BYTES + 10), WIRE_OK);
}

static void
wire_check__oversized(void **state)
{
	struct fields f = {.type = WIRE_DATA, .payload_len = PAYLOAD_MAX, .msg_len = 5000};

	(void)state;
	assert_int_equal(check(&f, WIRE_HDR_BYTES + PAYLOAD_MAX), WIRE_OK);
	assert_int_equal(check(&f, WIRE_HDR_BYTES + PAYLOAD_MAX + 1), WIRE_OVERSIZED);
	f.payload_len++;
	assert_int_equal(check(&f, WIRE_HDR_BYTES + PAYLOAD_MAX + 1), WIRE_OVERSIZED);
	f.payload_len = 0xFFFF;
	assert_int_equal(check(&f, WIRE_HDR_BYTES + 0xFFFF), WIRE_OVERSIZED);
}

static void
wire_check__bad_version(void **state)
{
	const struct fields f = {.type = WIRE_PING};
	struct wire_hdr h = header(&f);

	(void)state;
	for (unsigned v = 0; v < 256; v++) {
		h.version = (uint8_t)v;
		assert_int_equal(wire_check(&h, sizeof(h), PAYLOAD_MAX),
			v == WIRE_VERSION ? WIRE_OK : WIRE_BAD_VERSION);
	}
}

static void
wire_check__bad_type(void **state)
{
	struct fields f = {.type = 0};

	(void)state;
	assert_int_equal(check(&f, WIRE_HDR_BYTES), WIRE_BAD_TYPE);
	for (unsigned t = WIRE_TYPE_COUNT; t < 256; t++) {
		f.type = (uint8_t)t;
		assert_int_equal(check(&f, WIRE_HDR_BYTES), WIRE_BAD_TYPE);
	}
}

static void
wire_check__bad_flags(void **state)
{
	(void)state;
	for (unsigned bit = 0; bit < 16; bit++) {
		const struct fields f = {.type = WIRE_PONG, .flags = (uint16_t)(1 << bit)};

		assert_int_equal(check(&f, WIRE_HDR_BYTES), bit < 8 ? WIRE_OK : WIRE_BAD_FLAGS);
	}
}

static void
wire_check__payload_of_each_type(void **state)
{
	static const struct {
		uint8_t type;
		uint16_t min, max;
	} rows[] = {
		{WIRE_ACK, 0, 0},
		{WIRE_NACK, 1, 64},
		{WIRE_HELLO, 64, 64},
		{WIRE_PING, 0, UINT16_MAX},
		{WIRE_PONG, 0, 0},
		{WIRE_RESET, 0, 0},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (uint16_t n = 0; n <= 66; n++) {
			const struct fields f = {.type = rows[i].type, .payload_len = n};
			bool good = n >= rows[i].min && n <= rows[i].max;

			assert_int_equal(check(&f, WIRE_HDR_BYTES + n),
				good ? WIRE_OK : WIRE_BAD_FIELD);
		}
	}
}

static enum wire_verdict
check_fragment(uint32_t msg_len, uint32_t off, uint16_t len)
{
	const struct fields f = {
		.type = WIRE_DATA,
		.payload_len = len,
		.msg_len = msg_len,
		.frag_off = off,
	};

	return check(&f, WIRE_HDR_BYTES + len);
}

static void
wire_check__fragment_within_its_message(void **state)
{
	(void)state;
	assert_int_equal(check_fragment(0, 0, 0), WIRE_OK);
	assert_int_equal(check_fragment(0, 1, 0), WIRE_BAD_FIELD);
	assert_int_equal(check_fragment(0, 0, 1), WIRE_BAD_FIELD);
	assert_int_equal(check_fragment(1, 0, 0), WIRE_BAD_FIELD); /* would never end */
	assert_int_equal(check_fragment(1, 0, 1), WIRE_OK);
	assert_int_equal(check_fragment(10, 5, 5), WIRE_OK);
	assert_int_equal(check_fragment(10, 5, 6), WIRE_BAD_FIELD);
	assert_int_equal(check_fragment(10, 10, 1), WIRE_BAD_FIELD);
	assert_int_equal(check_fragment(10, 11, 1), WIRE_BAD_FIELD);
	assert_int_equal(check_fragment(10, UINT32_MAX, 2), WIRE_BAD_FIELD);
	assert_int_equal(check_fragment(WIRE_MESSAGE_MAX, 0, 1024), WIRE_OK);
	assert_int_equal(check_fragment(WIRE_MESSAGE_MAX, WIRE_MESSAGE_MAX - 1, 1), WIRE_OK);
	assert_int_equal(check_fragment(WIRE_MESSAGE_MAX + 1, 0, 1024), WIRE_BAD_FIELD);
	assert_int_equal(check_fragment(UINT32_MAX, 0, 1024), WIRE_BAD_FIELD);
}

static void
wire_session__is_symmetric_and_never_zero(void **state)
{
	uint32_t x = 1;

	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		const struct wire_end a = {x, x = x * 1664525 + 1013904223};
		const struct wire_end b = {x % 2 ? a.secret : x, x = x * 1664525 + 1013904223};

		assert_int_equal(wire_session(a, b), wire_session(b, a));
		assert_int_not_equal(wire_session(a, b), 0);
	}
}

static void
wire_session__changes_with_each_epoch_and_secret(void **state)
{
	(void)state;
	for (uint32_t e = 2; e < 20000; e++) {
		const struct wire_end a = {e, e + 7}, b = {7 * e, 3 * e};
		const uint32_t s = wire_session(a, b);

		assert_int_not_equal(s, wire_session((struct wire_end){e + 1, e + 7}, b));
		assert_int_not_equal(s, wire_session((struct wire_end){e, e + 8}, b));
		assert_int_not_equal(s, wire_session(a, (struct wire_end){7 * e + 1, 3 * e}));
		assert_int_not_equal(s, wire_session(a, (struct wire_end){7 * e, 3 * e + 1}));
	}
}

/* The vectors of the paper's authors: key 00 01 .. 0F, message 00 01 .. */
static void
siphash__reference(void **state)
{
	const uint64_t key[2] = {0x0706050403020100, 0x0F0E0D0C0B0A0908};
	const uint64_t words[2] = {key[0], key[1]};

	(void)state;
	assert_true(siphash(key, words, 0) == 0x726FDB47DD0E0E31);
	assert_true(siphash(key, words, 1) == 0x93F5F5799A932462);
	assert_true(siphash(key, words, 2) == 0x3F2ACC7F57C29BDB);
}

/* A tag is of its own frame only, and of one key. */
static void
wire_multi_tag__changes_with_each_bit(void **state)
{
	uint8_t head[WIRE_MULTI_HEAD(128)] = {0};
	const uint32_t tag = wire_multi_tag(7, head, 2);

	(void)state;
	assert_int_not_equal(wire_multi_tag(8, head, 2), tag);
	assert_int_not_equal(wire_multi_tag(7, head, 1), tag);
	for (unsigned bit = 0; bit < 8 * sizeof(head); bit++) {
		const unsigned at = bit / 8;
		const bool of_tag = at >= offsetof(struct wire_multi, tag) &&
			at < offsetof(struct wire_multi, number);

		head[at] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(wire_multi_tag(7, head, 2) == tag, of_tag);
		head[at] ^= (uint8_t)(1u << bit % 8);
	}
}

/* Check that what the short cut takes, the long way takes too: every bit of the header is flipped
 * in turn, and only echoes, Acks and the like may differ without its noticing. */
static void
wire_is_plain__takes_only_what_wire_check_takes(void **state)
{
	const struct fields f = {
		.type = WIRE_DATA,
		.flags = WIRE_F_ACK,
		.payload_len = 10,
		.msg_len = 10,
		.seq = 5,
		.ack = 6,
		.credit = 7,
		.session = 8,
	};
	const struct wire_hdr good = header(&f);
	const uint64_t head = wire_head(WIRE_DATA, 0x0102, 0x0304);
	const uint32_t ctxs = wire_ctxs(0x0506, 0x0708), len = WIRE_HDR_BYTES + 10;
	unsigned taken = 0;

	(void)state;
	assert_true(wire_is_plain(&good, len, head, ctxs));
	assert_false(wire_is_plain(&good, len - 1, head, ctxs));
	assert_false(wire_is_plain(&good, len + 1, head, ctxs));
	assert_false(wire_is_plain(&good, WIRE_HDR_BYTES - 1, head, ctxs));
	assert_false(wire_is_plain(&good, 0, head, ctxs));
	assert_false(wire_is_plain(&good, len, 0, ctxs)); /* a flow that is free */
	for (unsigned bit = 0; bit < 8 * WIRE_HDR_BYTES; bit++) {
		struct wire_hdr h = good;

		((uint8_t *)&h)[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (!wire_is_plain(&h, len, head, ctxs))
			continue;
		taken++;
		assert_int_equal(wire_check(&h, len, PAYLOAD_MAX), WIRE_OK);
		assert_int_equal(wire_be16(h.payload_len), 10);
		assert_int_equal(wire_be32(h.msg_len), 10);
		assert_int_equal(h.frag_off, 0);
		assert_int_equal(h.src_node, good.src_node);
		assert_int_equal(h.dst_ctx, good.dst_ctx);
		assert_int_equal(wire_be16(h.flags) & ~(WIRE_F_ACK | WIRE_F_ECHO | WIRE_F_CRC), 0);
	}
	/* three flags; credit, share; session, seq, ack, tstamp, echo, crc: judged elsewhere */
	assert_int_equal(taken, 3 + 2 * 16 + 6 * 32);
}

static void
wire_seq_before__wraps(void **state)
{
	(void)state;
	assert_true(wire_seq_before(0, 1));
	assert_false(wire_seq_before(1, 0));
	assert_false(wire_seq_before(5, 5));
	assert_true(wire_seq_before(UINT32_MAX, 0));
	assert_false(wire_seq_before(0, UINT32_MAX));
	assert_true(wire_seq_before(0xFFFFFF00, 0x100));
	assert_true(wire_seq_before(0, 0x7FFFFFFF));
	assert_false(wire_seq_before(0x7FFFFFFF, 0));
}

static void
wire_run_next__walks(void **state)
{
	const uint8_t frame[] = {0, 0, 0, 5, 0, 0, 0, 3, 'a', 'b', 'c', 0, 0, 0, 0, 0, 0, 0, 1,
		'd'};
	struct wire_runs r = {.next = frame, .left = sizeof(frame), .end = 100};
	const uint8_t *bytes = wire_run_next(&r);

	(void)state;
	assert_ptr_equal(bytes, frame + 8);
	assert_int_equal(r.at, 105);
	assert_int_equal(r.len, 3);
	bytes = wire_run_next(&r);
	assert_ptr_equal(bytes, frame + 19);
	assert_int_equal(r.at, 108);
	assert_int_equal(r.len, 1);
	assert_null(wire_run_next(&r));
	assert_int_equal(r.left, 0);
}

static void
wire_run_next__what_does_not_fit(void **state)
{
	const uint8_t empty[] = {0, 0, 0, 0, 0, 0, 0, 0, 1}, beyond[] = {0, 0, 0, 0, 0, 0, 0, 2, 1};
	const uint8_t huge[] = {0, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 1};
	const uint8_t *frames[] = {empty, beyond, huge};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct wire_runs r = {.next = frames[i], .left = 9};

		assert_null(wire_run_next(&r));
		assert_int_equal(r.left, 9);
	}
	for (uint32_t n = 1; n < 8; n++) { /* less than a head */
		struct wire_runs r = {.next = beyond, .left = n};

		assert_null(wire_run_next(&r));
		assert_int_equal(r.left, n);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wire_hdr__golden_data),
		cmocka_unit_test(wire_hdr__golden_ack),
		cmocka_unit_test(wire_hdr__golden_nack),
		cmocka_unit_test(wire_hdr__golden_hello),
		cmocka_unit_test(wire_hdr__golden_ping_and_pong),
		cmocka_unit_test(wire_hdr__golden_reset),
		cmocka_unit_test(wire_hdr__golden_link),
		cmocka_unit_test(wire_hdr__golden_multi),
		cmocka_unit_test(wire_hdr__golden_push),
		cmocka_unit_test(wire_hdr__golden_pin),
		cmocka_unit_test(wire_hdr__golden_offer),
		cmocka_unit_test(wire_match_check__each_verdict),
		cmocka_unit_test(wire_transfer_check__each_verdict),
		cmocka_unit_test(wire_check__truncated),
		cmocka_unit_test(wire_check__oversized),
		cmocka_unit_test(wire_check__bad_version),
		cmocka_unit_test(wire_check__bad_type),
		cmocka_unit_test(wire_check__bad_flags),
		cmocka_unit_test(wire_check__payload_of_each_type),
		cmocka_unit_test(wire_check__fragment_within_its_message),
		cmocka_unit_test(wire_session__is_symmetric_and_never_zero),
		cmocka_unit_test(wire_session__changes_with_each_epoch_and_secret),
		cmocka_unit_test(siphash__reference),
		cmocka_unit_test(wire_multi_tag__changes_with_each_bit),
		cmocka_unit_test(wire_is_plain__takes_only_what_wire_check_takes),
		cmocka_unit_test(wire_seq_before__wraps),
		cmocka_unit_test(wire_run_next__walks),
		cmocka_unit_test(wire_run_next__what_does_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
