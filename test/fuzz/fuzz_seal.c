/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Sealed frames, fed a program: frames of any length and content are sealed, kept, changed, opened
 * in any order and again, and bytes out of nothing are opened. What was sealed is opened once and
 * is as it was; nothing else is.
 */
#include "input.h"
#include "seal/seal.h"

#define KEPT_MAX  64
#define FRAME_MAX 2100
#define OPS_MAX   400

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct kept {
	uint8_t plain[FRAME_MAX], sealed[FRAME_MAX + SEAL_TRAILER_BYTES];
	uint32_t len;
	uint64_t count;
	bool opened;
};

static struct kept kept[KEPT_MAX];
static uint32_t kept_count;
static const struct cipher *ciphers[2];
static _Alignas(64) uint8_t memory[2][2][8192]; /* keys: of each cipher, to seal and to open */

static void
make_keys(void)
{
	static const uint8_t secret[CIPHER_KEY_BYTES] = {1, 2, 3};

	if (ciphers[0] != NULL)
		return;
	ciphers[0] = &cipher_openssl;
	ciphers[1] = cipher_best();
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < 2; k++) {
			MUST(ciphers[i]->key_bytes <= sizeof(memory[i][k]));
			MUST(ciphers[i]->key_make(memory[i][k], secret));
		}
	}
}

/* Open bytes in memory of their own: a byte beyond them is found. */
static enum seal_verdict
open_copy(const struct cipher *c, struct seal_rx *rx, enum seal_mode mode, const uint8_t *bytes,
	uint32_t len, uint8_t *out)
{
	uint8_t *copy = malloc(len ? len : 1);
	const uint64_t highest = rx->highest;

	memcpy(copy, bytes, len);
	const enum seal_verdict v = seal_open(c, rx, mode, copy, len);

	if (v == SEAL_OK)
		memcpy(out, copy, len - SEAL_TRAILER_BYTES);
	else
		MUST(rx->highest == highest);
	MUST(v != SEAL_SHORT || len < WIRE_HDR_BYTES + SEAL_TRAILER_BYTES);
	free(copy);
	return v;
}

static void
seal_one(struct input *in, const struct cipher *c, struct seal_tx *tx, enum seal_mode mode)
{
	struct kept *k = &kept[kept_count % KEPT_MAX];
	const uint32_t len = WIRE_HDR_BYTES + take16(in) % (FRAME_MAX - WIRE_HDR_BYTES + 1);
	const uint8_t fill = take8(in);

	memset(k->plain, fill, len);
	take(in, k->plain, fill % 2 ? WIRE_HDR_BYTES : 4);
	memset(k->plain + offsetof(struct wire_hdr, crc), 0, 4);
	k->count = tx->count;
	k->len = seal_frame(c, tx, mode, k->plain, len, k->sealed);
	if (k->len == 0) {
		MUST(k->count > SEAL_COUNT_MAX);
		return;
	}
	MUST(k->len == len + SEAL_TRAILER_BYTES && tx->count == k->count + 1);
	k->opened = false;
	kept_count++;
}

/* Open one that is kept, as it is. */
static void
open_one(struct input *in, const struct cipher *c, struct seal_rx *rx, enum seal_mode mode)
{
	struct kept *k = &kept[take8(in) % KEPT_MAX];
	uint8_t out[FRAME_MAX];
	const uint64_t highest = rx->highest;

	if (k->len == 0)
		return;
	const enum seal_verdict v = open_copy(c, rx, mode, k->sealed, k->len, out);

	if (v == SEAL_OK) {
		MUST(!k->opened);
		MUST(memcmp(out, k->plain, k->len - SEAL_TRAILER_BYTES) == 0);
		k->opened = true;
	} else if (!k->opened && k->count < highest + (UINT64_C(1) << 31)) {
		MUST(v == SEAL_REPLAYED && k->count + SEAL_WINDOW - 64 <= highest);
	}
}

/* Open one with bytes changed, or cut off. */
static void
open_changed(struct input *in, const struct cipher *c, struct seal_rx *rx, enum seal_mode mode)
{
	const struct kept *k = &kept[take8(in) % KEPT_MAX];
	uint8_t bytes[FRAME_MAX + SEAL_TRAILER_BYTES], out[FRAME_MAX + SEAL_TRAILER_BYTES];
	uint32_t len = k->len;

	if (len == 0)
		return;
	memcpy(bytes, k->sealed, len);
	bytes[take16(in) % len] ^= take8(in);
	len -= take8(in) % 4 == 0 ? take16(in) % len : 0;
	const bool same = len == k->len && memcmp(bytes, k->sealed, len) == 0;

	if (!same)
		MUST(open_copy(c, rx, mode, bytes, len, out) != SEAL_OK);
}

static void
open_anything(struct input *in, const struct cipher *c, struct seal_rx *rx, enum seal_mode mode)
{
	uint8_t bytes[512], out[512];
	const uint32_t len = take16(in) % sizeof(bytes);

	take(in, bytes, len);
	MUST(open_copy(c, rx, mode, bytes, len, out) != SEAL_OK);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t starts[] = {1, UINT64_C(0xFFFFFFF0), SEAL_COUNT_MAX - 20,
		SEAL_COUNT_SOON - 3};
	struct input in = {data, size};
	const uint8_t first = take8(&in);
	const enum seal_mode mode = first & 1 ? SEAL_SEAL : SEAL_AUTH;
	const unsigned which = first >> 1 & 1;
	const uint64_t start = starts[first >> 2 & 3];

	make_keys();
	memset(kept, 0, sizeof(kept));
	kept_count = 0;
	struct seal_tx tx = {memory[which][0], start, take32(&in)};
	struct seal_rx rx = {.key = memory[which][1], .highest = start - 1};

	for (unsigned i = 0; i < OPS_MAX && in.left > 0; i++) {
		switch (take8(&in) % 8) {
		case 0:
		case 1:
		case 2:
			seal_one(&in, ciphers[which], &tx, mode);
			break;
		case 3:
		case 4:
			open_one(&in, ciphers[which], &rx, mode);
			break;
		case 5:
			open_changed(&in, ciphers[which], &rx, mode);
			break;
		case 6:
			open_anything(&in, ciphers[which], &rx, mode);
			break;
		default: /* frames that are lost */
			if (tx.count < SEAL_COUNT_MAX)
				tx.count += take16(&in) % (SEAL_WINDOW + 128);
			break;
		}
	}
	return 0;
}
