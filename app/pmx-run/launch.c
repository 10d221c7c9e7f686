/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What an agent is told to run, as bytes: numbers, then strings with their lengths.
 */
#include <stdlib.h>
#include <string.h>

#include "launch.h"

#define NUMBERS 5

static uint32_t
count_of(char *const *strings)
{
	uint32_t n = 0;

	while (strings != NULL && strings[n] != NULL)
		n++;
	return n;
}

static uint8_t *
put_string(uint8_t *at, const char *s)
{
	const uint32_t len = (uint32_t)strlen(s);

	stream_put_u32(at, len);
	memcpy(at + 4, s, len);
	return at + 4 + len;
}

static uint8_t *
put_strings(uint8_t *at, char *const *strings)
{
	const uint32_t n = count_of(strings);

	stream_put_u32(at, n);
	at += 4;
	for (uint32_t i = 0; i < n; i++)
		at = put_string(at, strings[i]);
	return at;
}

static size_t
bytes_of(char *const *strings)
{
	size_t bytes = 4;

	for (uint32_t i = 0, n = count_of(strings); i < n; i++)
		bytes += 4 + strlen(strings[i]);
	return bytes;
}

uint8_t *
launch_write(const struct launch *l, uint32_t *len)
{
	const uint32_t numbers[NUMBERS] = {STREAM_VERSION, l->number, l->size, l->first, l->ranks};
	const size_t bytes = sizeof(numbers) + 4 + strlen(l->directory) + 4 + strlen(l->instance) +
		bytes_of(l->variables) + bytes_of(l->command);
	uint8_t *body = bytes <= STREAM_MAX ? malloc(bytes) : NULL, *at = body;

	if (body == NULL)
		return NULL;
	for (unsigned i = 0; i < NUMBERS; i++, at += 4)
		stream_put_u32(at, numbers[i]);
	at = put_string(at, l->directory);
	at = put_string(at, l->instance);
	at = put_strings(at, l->variables);
	at = put_strings(at, l->command);
	*len = (uint32_t)(at - body);
	return body;
}

/* The bytes that are left to read; good ends with the first thing that is wrong. */
struct launch_reader {
	const uint8_t *at;
	uint32_t left;
	bool good;
};

static uint32_t
take_number(struct launch_reader *r)
{
	if (r->left < 4) {
		r->good = false;
		return 0;
	}
	const uint32_t v = stream_u32(r->at);

	r->at += 4;
	r->left -= 4;
	return v;
}

static char *
take_string(struct launch_reader *r)
{
	const uint32_t len = take_number(r);

	if (!r->good || len > r->left || memchr(r->at, 0, len) != NULL) {
		r->good = false;
		return NULL;
	}
	char *s = strndup((const char *)r->at, len);

	r->good = s != NULL;
	r->at += len;
	r->left -= len;
	return s;
}

static char **
take_strings(struct launch_reader *r)
{
	const uint32_t n = take_number(r);

	/* each takes four bytes at least */
	if (!r->good || n > r->left / 4) {
		r->good = false;
		return NULL;
	}
	char **strings = calloc(n + 1, sizeof(*strings));

	r->good = strings != NULL;
	for (uint32_t i = 0; r->good && i < n; i++)
		strings[i] = take_string(r);
	return strings;
}

bool
launch_read(struct launch *l, const uint8_t *body, uint32_t len)
{
	struct launch_reader r = {body, len, true};
	const uint32_t version = take_number(&r);

	*l = (struct launch){.number = take_number(&r)};
	l->size = take_number(&r);
	l->first = take_number(&r);
	l->ranks = take_number(&r);
	l->directory = take_string(&r);
	l->instance = take_string(&r);
	l->variables = take_strings(&r);
	l->command = take_strings(&r);
	return r.good && version == STREAM_VERSION && l->size <= RANKS_MAX && l->first < l->size &&
		l->ranks <= l->size - l->first && l->command[0] != NULL;
}

static void
free_strings(char **strings)
{
	for (uint32_t i = 0, n = count_of(strings); i < n; i++)
		free(strings[i]);
	free(strings);
}

void
launch_free(struct launch *l)
{
	free(l->directory);
	free(l->instance);
	free_strings(l->variables);
	free_strings(l->command);
	*l = (struct launch){0};
}
