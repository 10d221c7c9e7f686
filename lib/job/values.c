/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Values by rank and key, and the exchange of a job of one, which has no more than these.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "job/exchange.h"
#include "job/stream.h"
#include "pmx/job.h"

#define RECORD_HEAD 9

struct value {
	struct value *next;
	char *key;
	uint32_t len;
	uint8_t bytes[];
};

int
values_init(struct values *v, uint32_t size)
{
	v->of = calloc(size, sizeof(*v->of));
	v->size = size;
	return v->of != NULL ? 0 : -ENOMEM;
}

static void
value_free(struct value *x)
{
	free(x->key);
	free(x);
}

/* Return the place of a key, where its value is or would be. */
static struct value **
values_place_of(const struct values *v, uint32_t rank, const char *key)
{
	struct value **at = &v->of[rank];

	while (*at != NULL && strcmp((*at)->key, key) != 0)
		at = &(*at)->next;
	return at;
}

static int
values_put(struct values *v, uint32_t rank, const char *key, const void *value, uint32_t len)
{
	if (rank >= v->size)
		return -EINVAL;
	struct value *x = malloc(sizeof(*x) + len), **at = values_place_of(v, rank, key);

	if (x == NULL || (x->key = strdup(key)) == NULL) {
		free(x);
		return -ENOMEM;
	}
	x->len = len;
	if (len != 0)
		memcpy(x->bytes, value, len);
	x->next = *at != NULL ? (*at)->next : NULL;
	if (*at != NULL)
		value_free(*at);
	*at = x;
	return 0;
}

int64_t
values_get(const struct values *v, uint32_t rank, const char *key, void *value, uint32_t len)
{
	if (rank >= v->size)
		return -EINVAL;
	const struct value *x = *values_place_of(v, rank, key);

	if (x == NULL)
		return -ENOENT;
	if (len != 0 && x->len != 0)
		memcpy(value, x->bytes, len < x->len ? len : x->len);
	return x->len;
}

void
values_free(struct values *v)
{
	for (uint32_t i = 0; v->of != NULL && i < v->size; i++) {
		while (v->of[i] != NULL) {
			struct value *x = v->of[i];

			v->of[i] = x->next;
			value_free(x);
		}
	}
	free(v->of);
	*v = (struct values){NULL, 0};
}

int
values_take(struct values *v, const uint8_t *records, size_t len)
{
	for (size_t at = 0; at < len;) {
		const uint8_t *b = records + at;
		char key[VALUES_KEY_MAX + 1];

		if (len - at < RECORD_HEAD)
			return -EPROTO;
		const uint32_t rank = stream_u32(b), bytes = stream_u32(b + 4), key_len = b[8];

		at += RECORD_HEAD;
		if (rank >= v->size || key_len > VALUES_KEY_MAX || len - at < key_len ||
			len - at - key_len < bytes)
			return -EPROTO;
		memcpy(key, records + at, key_len);
		key[key_len] = 0;
		const int error = values_put(v, rank, key, records + at + key_len, bytes);

		if (error != 0)
			return error;
		at += key_len + bytes;
	}
	return 0;
}

int
records_add(struct records *r, uint32_t rank, const char *key, uint32_t key_len, const void *value,
	uint32_t len)
{
	const size_t more = RECORD_HEAD + (size_t)key_len + len;

	if (r->len + more > r->room) {
		const size_t room = 2 * r->room + more;
		uint8_t *bytes = realloc(r->bytes, room);

		if (bytes == NULL)
			return -ENOMEM;
		r->bytes = bytes;
		r->room = room;
	}
	uint8_t *at = r->bytes + r->len;

	stream_put_u32(at, rank);
	stream_put_u32(at + 4, len);
	at[8] = (uint8_t)key_len;
	memcpy(at + RECORD_HEAD, key, key_len);
	if (len != 0)
		memcpy(at + RECORD_HEAD + key_len, value, len);
	r->len += more;
	return 0;
}

void
records_free(struct records *r)
{
	free(r->bytes);
	*r = (struct records){NULL, 0, 0};
}

/* ------------------------------------------------------------------ a job of one */

static bool
alone_is_here(void)
{
	return true;
}

static int
alone_begin(struct exchange *x, char *error, size_t error_len)
{
	(void)error, (void)error_len;
	struct values *v = x->state = calloc(1, sizeof(*v));

	x->rank = 0;
	x->size = 1;
	return v != NULL ? values_init(v, 1) : -ENOMEM;
}

static int
alone_put(struct exchange *x, const char *key, const void *value, uint32_t len)
{
	return values_put(x->state, 0, key, value, len);
}

static int
alone_fence(struct exchange *x, int64_t timeout_us)
{
	(void)x, (void)timeout_us;
	return 0;
}

static int64_t
alone_get(struct exchange *x, uint32_t rank, const char *key, void *value, uint32_t len)
{
	return values_get(x->state, rank, key, value, len);
}

static void
alone_end(struct exchange *x)
{
	if (x->state != NULL)
		values_free(x->state);
	free(x->state);
}

const struct exchange_ops exchange_alone = {
	alone_is_here,
	alone_begin,
	alone_put,
	alone_fence,
	alone_get,
	alone_end,
};
