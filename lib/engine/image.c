/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See image.h.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/image.h"

void
image_put(struct image_out *o, const void *data, size_t len)
{
	if (o->len + len > o->room) {
		size_t room = (o->len + len) * 2;
		uint8_t *more = realloc(o->at, room);

		if (more == NULL) {
			o->failed = true;
			return;
		}
		o->at = more;
		o->room = room;
	}
	if (len > 0)
		memcpy(o->at + o->len, data, len);
	o->len += len;
}

const uint8_t *
image_part(struct image_in *in, size_t len)
{
	const uint8_t *at = in->at;

	if ((size_t)(in->end - at) < len)
		return NULL;
	in->at += len;
	return at;
}

bool
image_get(struct image_in *in, void *to, size_t len)
{
	const uint8_t *at = image_part(in, len);

	if (at != NULL)
		memcpy(to, at, len);
	return at != NULL;
}
