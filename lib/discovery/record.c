/* SPDX-License-Identifier: BSD-3-Clause
 *
 * See record.h.
 */
#include <string.h>

#include "base/bytes.h"
#include "discovery/record.h"

void
discovery_write(struct discovery_writer *w, const struct discovery_head *h)
{
	memset(w->bytes, 0, DISCOVERY_HEAD_BYTES);
	put_be(w->bytes, DISCOVERY_MAGIC, 4);
	w->bytes[4] = DISCOVERY_VERSION;
	w->bytes[5] = h->type;
	w->bytes[6] = h->flags;
	put_be(w->bytes + 8, h->nonce, 8);
	put_be(w->bytes + 16, h->cookie, 8);
	put_be(w->bytes + 24, h->cluster, 8);
	w->len = DISCOVERY_HEAD_BYTES;
}

bool
discovery_read(const uint8_t *bytes, uint32_t len, struct discovery_head *h)
{
	if (len < DISCOVERY_HEAD_BYTES || len > DISCOVERY_BYTES ||
		get_be(bytes, 4) != DISCOVERY_MAGIC || bytes[4] != DISCOVERY_VERSION ||
		bytes[5] == 0 || bytes[5] >= DISCOVERY_TYPES)
		return false;
	*h = (struct discovery_head){bytes[5], bytes[6], get_be(bytes + 8, 8),
		get_be(bytes + 16, 8), get_be(bytes + 24, 8)};
	return true;
}

static uint8_t *
put_addr(uint8_t *at, const struct discovery_addr *a)
{
	memcpy(at, a->ip, sizeof(a->ip));
	put_be(at + sizeof(a->ip), a->port, 2);
	return at + sizeof(a->ip) + 2;
}

static const uint8_t *
get_addr(const uint8_t *at, struct discovery_addr *a)
{
	memcpy(a->ip, at, sizeof(a->ip));
	a->port = (uint16_t)get_be(at + sizeof(a->ip), 2);
	return at + sizeof(a->ip) + 2;
}

bool
discovery_add(struct discovery_writer *w, const struct discovery_record *r)
{
	uint8_t *const begin = w->bytes + w->len, *at = begin, *count;
	const size_t name = strlen(r->name);

	if (w->len + DISCOVERY_RECORD_MAX > DISCOVERY_BYTES)
		return false;
	put_be(at, r->number, 2);
	put_be(at + 2, r->generation, 4);
	put_be(at + 6, r->age_ms, 4);
	at = put_addr(at + 10, &r->at);
	*at++ = (uint8_t)name;
	memcpy(at, r->name, name);
	at += name;
	count = at++;
	*count = 0;
	for (unsigned i = 0; i < DISCOVERY_LINKS_MAX; i++) {
		if (r->kind[i] == DISCOVERY_NO_LINK)
			continue;
		at[0] = (uint8_t)i;
		at[1] = r->kind[i];
		at = put_addr(at + 2, &r->link[i]);
		++*count;
	}
	w->len += (uint32_t)(at - begin);
	return true;
}

/* Return whether a name is one that a node may have: what others are told of it is printed, and
 * written into files. */
static bool
is_name(const uint8_t *at, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++) {
		const uint8_t c = at[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			    c == '.' || c == '-' || c == '_'))
			return false;
	}
	return true;
}

bool
discovery_next(const uint8_t *bytes, uint32_t len, uint32_t *at, struct discovery_record *r)
{
	const uint8_t *from = bytes + *at, *const end = bytes + len;

	if (end - from < 2 + 4 + 4 + 18 + 1)
		return false;
	memset(r, 0, sizeof(*r));
	r->number = (uint16_t)get_be(from, 2);
	r->generation = (uint32_t)get_be(from + 2, 4);
	r->age_ms = (uint32_t)get_be(from + 6, 4);
	from = get_addr(from + 10, &r->at);
	const uint32_t name = *from++;

	if (r->number == UINT16_MAX || r->generation == 0 || name >= DISCOVERY_NAME_MAX ||
		end - from < (ptrdiff_t)name + 1 || !is_name(from, name))
		return false;
	memcpy(r->name, from, name);
	from += name;
	for (unsigned left = *from++; left > 0; left--) {
		if (end - from < 20 || from[0] >= DISCOVERY_LINKS_MAX || from[1] == 0 ||
			from[1] >= DISCOVERY_KINDS || r->kind[from[0]] != DISCOVERY_NO_LINK)
			return false;
		r->kind[from[0]] = from[1];
		from = get_addr(from + 2, &r->link[from[0]]);
	}
	*at = (uint32_t)(from - bytes);
	return true;
}
