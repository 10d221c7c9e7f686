/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See seal.h.
 */
#include "base/likely.h"
#include "seal/seal.h"

static void
write_nonce(uint8_t nonce[CIPHER_NONCE_BYTES], uint32_t session_be, uint64_t count)
{
	memcpy(nonce, &session_be, sizeof(session_be));
	wire_put64(nonce + 4, count);
}

/* Return how many of the frame's last bytes are encrypted; all are authenticated. */
static inline uint32_t
secret_bytes(enum seal_mode mode, uint32_t len)
{
	return mode == SEAL_SEAL ? len - WIRE_HDR_BYTES : 0;
}

uint32_t
seal_frame(const struct cipher *c, struct seal_tx *tx, enum seal_mode mode, const void *frame,
	uint32_t len, void *to)
{
	struct wire_hdr *h = to;
	uint8_t nonce[CIPHER_NONCE_BYTES], *out = to;
	const uint32_t secret = secret_bytes(mode, len), open = len - secret;

	if (unlikely(tx->count > SEAL_COUNT_MAX))
		return 0;
	const uint64_t count = tx->count++;
	const uint32_t session = ((const struct wire_hdr *)frame)->session;

	memmove(out, frame, open);
	h->session = wire_be32(tx->index);
	h->crc = wire_be32((uint32_t)count);
	memcpy(out + len, &session, sizeof(session));
	write_nonce(nonce, session, count);
	c->seal(tx->key, nonce, out, open, (const uint8_t *)frame + open, secret, out + open,
		out + len + sizeof(session));
	return len + SEAL_TRAILER_BYTES;
}

/* Return the whole count of a frame from its low half: note 2. */
static uint64_t
whole_count(uint64_t highest, uint32_t low)
{
	const uint64_t half = UINT64_C(1) << 31, count = (highest & ~UINT64_C(0xFFFFFFFF)) | low;

	if (count + half < highest)
		return count + 2 * half;
	if (count > highest + half && count >= 2 * half)
		return count - 2 * half;
	return count;
}

static bool
was_received(const struct seal_rx *rx, uint64_t count)
{
	if (count > rx->highest)
		return false;
	if (rx->highest - count >= SEAL_WINDOW - 64)
		return true;
	return rx->ring[count / 64 % (SEAL_WINDOW / 64)] >> (count % 64) & 1;
}

static void
note_received(struct seal_rx *rx, uint64_t count)
{
	const uint64_t words = SEAL_WINDOW / 64;

	if (count > rx->highest) {
		uint64_t from = rx->highest / 64 + 1;

		if (count / 64 >= words && from < count / 64 - words + 1)
			from = count / 64 - words + 1;
		for (uint64_t word = from; word <= count / 64; word++)
			rx->ring[word % words] = 0;
		rx->highest = count;
	}
	rx->ring[count / 64 % words] |= UINT64_C(1) << (count % 64);
}

enum seal_verdict
seal_open(const struct cipher *c, struct seal_rx *rx, enum seal_mode mode, void *frame,
	uint32_t len)
{
	struct wire_hdr *h = frame;
	uint8_t nonce[CIPHER_NONCE_BYTES], *at = frame;
	uint32_t session;

	if (unlikely(len < WIRE_HDR_BYTES + SEAL_TRAILER_BYTES))
		return SEAL_SHORT;
	len -= SEAL_TRAILER_BYTES;
	const uint64_t count = whole_count(rx->highest, wire_be32(h->crc));

	if (unlikely(count == 0 || was_received(rx, count)))
		return SEAL_REPLAYED;
	memcpy(&session, at + len, sizeof(session));
	write_nonce(nonce, session, count);
	const uint32_t secret = secret_bytes(mode, len), open = len - secret;

	if (unlikely(!c->open(rx->key, nonce, at, open, at + open, secret, at + open,
		    at + len + sizeof(session))))
		return SEAL_FORGED;
	note_received(rx, count);
	h->session = session;
	h->crc = 0;
	return SEAL_OK;
}
