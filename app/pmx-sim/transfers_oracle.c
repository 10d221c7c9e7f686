/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which results of transfers, and which contents of memory, are allowed, whatever the network does;
 * see transfers.h.
 *
 * A transfer that succeeded has moved all of its bytes and no others. One that was refused has
 * touched nothing. One that failed has left each byte as it was or as it should be.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "transfers.h"

void
area_fill(struct area *a, uint32_t at, uint32_t len)
{
	for (uint32_t i = at; i < at + len; i++)
		a->piece.bytes[i] = area_byte(a, i);
}

bool
transfer_fill(struct transfer *t)
{
	t->local.len = t->len;
	t->local.bytes = malloc(t->len + 1);
	for (uint32_t i = 0; t->local.bytes != NULL && i < t->len; i++)
		t->local.bytes[i] = t->form == PULL || t->form == FETCH ? LOCAL_FILL
									: transfer_byte(t, i);
	return t->local.bytes != NULL;
}

/* Computed by rows of blocks, independently of lib/rma/part.c. */
static bool
stride_has(const struct transfer_desc *d, uint32_t at)
{
	uint64_t row = d->dims > 1 ? at / d->interval[1] : 0;
	uint64_t in_row = at - row * d->interval[1], column = in_row / d->interval[0];

	return (d->dims == 1 || row < d->count[1]) && column < d->count[0] &&
		in_row - column * d->interval[0] < d->block;
}

bool
transfer_has(const struct transfer *t, uint32_t at)
{
	const struct transfer_desc *d = &t->desc;

	if (t->form == PACKED)
		return at / PACKED_RUN % 2 == 0;
	if (d->flags & TRANSFER_STRIDE)
		return stride_has(d, at);
	if (d->flags & TRANSFER_BITMAP) {
		uint64_t unit = at < d->offset ? TRANSFER_UNITS : (at - d->offset) / d->unit;

		return unit < TRANSFER_UNITS && d->bits[unit / 64] >> unit % 64 & 1;
	}
	return true;
}

enum found { AS_IT_WAS = 1, AS_IT_SHOULD = 2, OTHER = 4 };

/* Return what the memory of a transfer looks like at its end, as a set of enum found. */
static unsigned
look_at_area(const struct transfer *t)
{
	unsigned found = 0;

	for (uint32_t i = 0; i < t->len; i++) {
		uint8_t byte = t->area->piece.bytes[t->at + i];

		if (!transfer_has(t, i))
			found |= byte == area_byte(t->area, t->at + i) ? 0 : OTHER;
		else if (byte == transfer_byte(t, i))
			found |= AS_IT_SHOULD;
		else
			found |= byte == area_byte(t->area, t->at + i) ? AS_IT_WAS : OTHER;
	}
	return found;
}

static unsigned
look_at_local(const struct transfer *t, const struct transfer *offer)
{
	unsigned found = 0;

	for (uint32_t i = 0; i < t->len; i++) {
		uint8_t byte = t->local.bytes[i];

		if (!transfer_has(t, i) || (offer != NULL && i >= offer->len))
			found |= byte == LOCAL_FILL ? 0 : OTHER;
		else if (byte ==
			(offer != NULL ? transfer_byte(offer, i) : area_byte(t->area, t->at + i)))
			found |= AS_IT_SHOULD;
		else
			found |= byte == LOCAL_FILL ? AS_IT_WAS : OTHER;
	}
	return found;
}

/* Return what is wrong with the bytes that a transfer left, or NULL. Bytes before and after it may
 * happen to be equal. */
static const char *
judge_bytes(const struct transfer *t, const struct transfer *offer, int error)
{
	const bool pushes = t->form == PUSH || t->form == PACKED;
	unsigned found = 0;

	if (pushes && !t->area->piece.over)
		found = look_at_area(t);
	else if (t->form == PULL || t->form == FETCH)
		found = look_at_local(t, offer);
	if (found & OTHER)
		return "left bytes that are nobody's";
	if (error == 0 && found & AS_IT_WAS)
		return "ended well, and bytes are missing";
	if (error != 0 && error == t->expected && t->placed != 0)
		return "was refused, and bytes were placed";
	return NULL;
}

/* Return whether the error is explained by what happened to the memory, or by limits. other: the
 * other side of a rendezvous. */
static bool
is_explained(const struct transfer *t, const struct transfer *other, int error)
{
	if (error == t->expected)
		return true;
	switch (error) {
	case ENOKEY:
		return t->area != NULL &&
			(!t->area->registered || t->area->revoked || t->expected != 0);
	case EFAULT:
		return t->local.over;
	case ENOBUFS:
		return t->desc.flags & TRANSFER_NOTIFY;
	case ENOSPC:
		return t->form == PIN;
	case ECONNRESET: /* it was fetched before, or the other side's buffer is gone */
		return other != NULL && (other->local.over || other->refetch + t->refetch > 1);
	}
	return false;
}

const char *
transfer_judge(const struct transfer *t, const struct transfer *other, int error, bool *excusable)
{
	*excusable = !is_explained(t, other, error);
	if (error == 0 && t->expected != 0)
		return "should have been refused, and ended well";
	if (t->events > 1)
		return "was told of twice";
	if (error == 0 && t->desc.flags & TRANSFER_NOTIFY && t->events != 1)
		return "ended well, and its target was not told";
	return judge_bytes(t, t->form == FETCH ? other : NULL, error);
}
