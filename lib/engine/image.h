/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The state of a lane as bytes, for a primary that takes over: written and read in one order, by
 * one build.
 */
#ifndef PMX_ENGINE_IMAGE_H
#define PMX_ENGINE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_out {
	uint8_t *at; /* of malloc, the caller's to free; NULL at first */
	size_t len, room;
	bool failed; /* there was no memory */
};

struct image_in {
	const uint8_t *at, *end;
};

void image_put(struct image_out *o, const void *data, size_t len);
/* len bytes where they lie; NULL: there are fewer. */
const uint8_t *image_part(struct image_in *in, size_t len);
/* false: there are fewer than len. */
bool image_get(struct image_in *in, void *to, size_t len);

#endif
