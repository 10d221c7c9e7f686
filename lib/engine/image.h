/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The state of a lane as bytes, for a primary that takes over. It is read in the order in which it
 * was written, and only by the same build.
 */
#ifndef PMX_ENGINE_IMAGE_H
#define PMX_ENGINE_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct image_out {
	uint8_t *at; /* malloc()ed, for the caller to free; NULL at first */
	size_t len, room;
	bool failed; /* out of memory */
};

struct image_in {
	const uint8_t *at, *end;
};

void image_put(struct image_out *o, const void *data, size_t len);
/* Return a pointer to the next len bytes, and skip them. Return NULL if fewer are left. */
const uint8_t *image_part(struct image_in *in, size_t len);
/* Copy the next len bytes, and skip them. Return false if fewer are left. */
bool image_get(struct image_in *in, void *to, size_t len);

#endif
