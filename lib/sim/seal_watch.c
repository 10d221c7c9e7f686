/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is allowed where frames are sealed: see seal.h. Each function returns or ends the run.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/mix.h"
#include "sim/seal.h"

/* All is well: so soon a node that has something to say has keys, and its peer opens what it says.
 * Two waits of 5 s, the longest, lie between the last failure and the INIT that succeeds. */
#define KEYS_WITHIN_NS UINT64_C(12000000000)
#define DEAF_NS        UINT64_C(3000000000)

static struct seals *current; /* for ciphers, which have no argument for it */

/* ------------------------------------------------------------------ sets of numbers */

static struct noted *
seal_watch_place_of(const struct notes *n, uint64_t key)
{
	uint32_t at = (uint32_t)key & n->mask;

	while (n->table[at].used && n->table[at].key != key)
		at = (at + 1) & n->mask;
	return &n->table[at];
}

static void
notes_make(struct notes *n, uint32_t size)
{
	*n = (struct notes){.table = calloc(size, sizeof(*n->table)), .mask = size - 1};
	if (n->table == NULL)
		abort();
}

static void
notes_grow(struct notes *n)
{
	const struct notes old = *n;

	notes_make(n, 2 * (old.mask + 1));
	for (uint32_t i = 0; i <= old.mask; i++) {
		if (old.table[i].used)
			*seal_watch_place_of(n, old.table[i].key) = old.table[i];
	}
	n->count = old.count;
	free(old.table);
}

/* Note a number. Return what is known of it; *is_new: nothing was. */
static struct noted *
note(struct notes *n, uint64_t key, bool *is_new)
{
	if (n->count > n->mask / 2)
		notes_grow(n);
	struct noted *at = seal_watch_place_of(n, key);

	*is_new = !at->used;
	if (*is_new) {
		*at = (struct noted){.key = key, .used = true};
		n->count++;
	}
	return at;
}

static uint64_t
hash_of(uint64_t seed, const void *bytes, size_t len)
{
	const uint8_t *b = bytes;
	uint64_t h = seed + len;

	for (size_t i = 0; i < len; i += 8) {
		uint64_t word = 0;

		memcpy(&word, b + i, len - i < 8 ? len - i : 8);
		h = mix64(h ^ word) + 0x9E3779B97F4A7C15u;
	}
	return h;
}

/* ------------------------------------------------------------------ a cipher that watches */

/* A key of it. That of the cipher within follows. */
struct watched_key {
	uint32_t node, life; /* that made it */
	uint8_t secret[CIPHER_KEY_BYTES];
	uint8_t zero[40];
};

static void *
inner_key(void *key)
{
	return (uint8_t *)key + sizeof(struct watched_key);
}

static bool
watched_key_make(void *key, const uint8_t secret[CIPHER_KEY_BYTES])
{
	struct watched_key *k = key;

	k->node = current->acting;
	k->life = current->acting_life;
	memcpy(k->secret, secret, CIPHER_KEY_BYTES);
	current->live_keys++;
	return current->inner->key_make(inner_key(key), secret);
}

static void
watched_key_end(void *key)
{
	current->live_keys--;
	current->inner->key_end(inner_key(key));
	memset(key, 0xEE, sizeof(struct watched_key));
}

static void
watched_seal(void *key, const uint8_t nonce[CIPHER_NONCE_BYTES], const void *aad, uint32_t aad_len,
	const void *from, uint32_t len, void *to, uint8_t tag[CIPHER_TAG_BYTES])
{
	const struct watched_key *k = key;
	bool is_new;

	note(&current->nonces,
		hash_of(hash_of(0, k->secret, CIPHER_KEY_BYTES), nonce, CIPHER_NONCE_BYTES),
		&is_new);
	if (!is_new) {
		fprintf(stderr, "a nonce was used twice with a key\n");
		abort();
	}
	current->inner->seal(inner_key(key), nonce, aad, aad_len, from, len, to, tag);
}

static bool
watched_open(void *key, const uint8_t nonce[CIPHER_NONCE_BYTES], const void *aad, uint32_t aad_len,
	const void *from, uint32_t len, void *to, const uint8_t tag[CIPHER_TAG_BYTES])
{
	const struct watched_key *k = key;

	if (k->node != current->acting || k->life != current->acting_life) {
		fprintf(stderr, "a key of another node or life opens\n");
		abort();
	}
	return current->inner->open(inner_key(key), nonce, aad, aad_len, from, len, to, tag);
}

/* ------------------------------------------------------------------ a cipher that is fast */

static bool
fast_key_make(void *key, const uint8_t secret[CIPHER_KEY_BYTES])
{
	memcpy(key, secret, CIPHER_KEY_BYTES);
	return true;
}

static void
fast_key_end(void *key)
{
	memset(key, 0xEE, CIPHER_KEY_BYTES);
}

static uint64_t
stream_of(const void *key, const uint8_t *nonce)
{
	return hash_of(hash_of(1, key, CIPHER_KEY_BYTES), nonce, CIPHER_NONCE_BYTES);
}

static void
fast_tag(const void *key, const uint8_t *nonce, const void *aad, uint32_t aad_len, const void *text,
	uint32_t len, uint8_t tag[CIPHER_TAG_BYTES])
{
	const uint64_t h = hash_of(hash_of(stream_of(key, nonce), aad, aad_len), text, len);
	const uint64_t words[2] = {h, mix64(h)};

	memcpy(tag, words, sizeof(words));
}

static void
fast_crypt(const void *key, const uint8_t *nonce, const uint8_t *from, uint32_t len, uint8_t *to)
{
	uint64_t word = 0, state = stream_of(key, nonce);

	for (uint32_t i = 0; i < len; i++) {
		if (i % 8 == 0)
			word = mix64_next(&state);
		to[i] = from[i] ^ (uint8_t)(word >> i % 8 * 8);
	}
}

static void
fast_seal(void *key, const uint8_t nonce[CIPHER_NONCE_BYTES], const void *aad, uint32_t aad_len,
	const void *from, uint32_t len, void *to, uint8_t tag[CIPHER_TAG_BYTES])
{
	fast_crypt(key, nonce, from, len, to);
	fast_tag(key, nonce, aad, aad_len, to, len, tag);
}

static bool
fast_open(void *key, const uint8_t nonce[CIPHER_NONCE_BYTES], const void *aad, uint32_t aad_len,
	const void *from, uint32_t len, void *to, const uint8_t tag[CIPHER_TAG_BYTES])
{
	uint8_t own[CIPHER_TAG_BYTES];

	fast_tag(key, nonce, aad, aad_len, from, len, own);
	if (memcmp(own, tag, sizeof(own)) != 0)
		return false;
	fast_crypt(key, nonce, from, len, to);
	return true;
}

static const struct cipher fast_cipher = {
	.name = "none",
	.key_bytes = CIPHER_KEY_BYTES,
	.key_make = fast_key_make,
	.key_end = fast_key_end,
	.seal = fast_seal,
	.open = fast_open,
};

/* ------------------------------------------------------------------ begin and end */

void
watch_enter(struct sim *s)
{
	current = s->seals;
}

void
watch_make(struct seals *x)
{
	x->inner = x->cfg.cipher != NULL ? x->cfg.cipher : &fast_cipher;
	x->cipher = (struct cipher){
		.name = "watched",
		.works = x->inner->works,
		.key_bytes = (uint32_t)sizeof(struct watched_key) + x->inner->key_bytes,
		.key_make = watched_key_make,
		.key_end = watched_key_end,
		.seal = watched_seal,
		.open = watched_open,
	};
	notes_make(&x->nonces, 1024);
	notes_make(&x->frames, 1024);
}

void
watch_free(struct seals *x)
{
	if (x->live_keys != 0) {
		fprintf(stderr, "%lld keys were never freed\n", (long long)x->live_keys);
		abort();
	}
	free(x->nonces.table);
	free(x->frames.table);
}

void
watch_acts(struct seals *x, uint32_t node)
{
	x->acting = node;
	x->acting_life = x->nodes[node].life;
}

/* ------------------------------------------------------------------ frames */

static void
check_age(struct sim *s, uint32_t node, uint32_t peer, const struct keyring_keys *k,
	const char *what)
{
	const int64_t age = (int64_t)(seal_ticks(s, node) - k->made_at);

	if (age >= (int64_t)(KEYRING_DEAD_S * seal_hz(s)))
		sim_violation(s, "node %u %s a frame of node %u with keys that are too old", node,
			what, peer);
}

void
watch_sealing(struct sim *s, uint32_t node, uint32_t peer, const struct keyring_keys *k)
{
	const struct seal_pair *p = seal_pair_of(s, node, peer);

	check_age(s, node, peer, k, "seals");
	if (k == p->answer)
		sim_violation(s, "node %u seals to node %u with keys that it has not used yet",
			node, peer);
	if (k != p->newest)
		sim_violation(s, "node %u seals to node %u with other keys than the newest", node,
			peer);
}

void
watch_sealed(struct sim *s, uint32_t node, uint32_t peer, uint64_t count, const void *frame,
	uint32_t len)
{
	bool is_new;
	struct noted *n = note(&s->seals->frames, hash_of(2, frame, len), &is_new);

	n->src = node;
	n->dst = peer;
	n->count = count;
	s->seals->counts.sealed++;
}

/* Return what is known of a frame that somebody sealed, or NULL. */
static struct noted *
known(struct seals *x, const void *frame, uint32_t len)
{
	struct noted *n = seal_watch_place_of(&x->frames, hash_of(2, frame, len));

	return n->used ? n : NULL;
}

/* Judge a frame that was refused. */
static void
check_refused(struct sim *s, uint32_t node, uint32_t peer, uint64_t highest, enum seal_verdict v,
	const struct noted *n)
{
	struct sim_seal_count *c = &s->seals->counts;

	if (v == SEAL_REPLAYED)
		c->replayed++;
	else
		c->forged++;
	if (n == NULL || n->opened || n->src != peer || n->dst != node)
		return;
	if (v != SEAL_REPLAYED)
		sim_violation(s, "node %u takes a frame of node %u for a forged one", node, peer);
	if (n->count + (SEAL_WINDOW - 64) > highest)
		sim_violation(s,
			"node %u takes frame %llu of node %u for a replayed one, after "
			"%llu",
			node, (unsigned long long)n->count, peer, (unsigned long long)highest);
}

void
watch_opened(struct sim *s, uint32_t node, uint32_t peer, struct keyring_keys *k, uint64_t highest,
	enum seal_verdict v, const void *frame, uint32_t len)
{
	struct noted *n = known(s->seals, frame, len);

	if (v != SEAL_OK) {
		check_refused(s, node, peer, highest, v, n);
		return;
	}
	s->seals->counts.opened++;
	seal_pair_of(s, node, peer)->deaf = SIM_NEVER;
	check_age(s, node, peer, k, "opens");
	if (n == NULL)
		sim_violation(s, "node %u opens a frame that nobody has sealed, as of node %u",
			node, peer);
	if (n->opened)
		sim_violation(s, "node %u opens a frame of node %u twice", node, peer);
	if (n->src != peer || n->dst != node)
		sim_violation(s, "node %u opens, as of node %u, what node %u sealed for node %u",
			node, peer, n->src, n->dst);
	n->opened = true;
}

void
watch_leaves(struct sim *s, uint32_t node, uint32_t packet)
{
	const struct packet *k = &s->packets[packet];
	const struct wire_hdr *h = &s->wires[packet].h;

	if (k->sealed_len == 0)
		sim_violation(s, "a frame leaves node %u without a seal", node);
	if (h->session == 0 && h->type != WIRE_KEYS)
		sim_violation(s, "a frame of type %u leaves node %u without a seal", h->type, node);
	if (h->session != 0 && known(s->seals, h, k->sealed_len) == NULL)
		sim_violation(s, "a frame leaves node %u that nobody has sealed", node);
}

/* ------------------------------------------------------------------ keys in time */

void
watch_starving(struct sim *s, uint32_t node, uint32_t peer)
{
	struct seal_pair *p = seal_pair_of(s, node, peer);
	const uint64_t healed = s->seals->healed_at;

	if (p->starving == SIM_NEVER)
		p->starving = s->now;
	const uint64_t since = p->starving > healed ? p->starving : healed;

	if (healed != SIM_NEVER && s->now - since > KEYS_WITHIN_NS)
		sim_violation(s,
			"node %u has had no keys for node %u for %.3f s, since %.3f ms: "
			"%s",
			node, peer, (double)(s->now - since) / 1e9, (double)since / 1e6,
			handshake_trouble_name(p->handshake.trouble));
}

void
watch_deaf(struct sim *s, uint32_t node, uint32_t peer, const void *frame, uint32_t len)
{
	struct seal_pair *p = seal_pair_of(s, node, peer);
	const uint64_t healed = s->seals->healed_at;
	const struct noted *n = known(s->seals, frame, len);

	if (n == NULL || n->src != peer || n->dst != node)
		return;
	if (p->deaf == SIM_NEVER)
		p->deaf = s->now;
	const uint64_t since = p->deaf > healed ? p->deaf : healed;

	if (healed != SIM_NEVER && s->now - since > DEAF_NS)
		sim_violation(s,
			"node %u has not known the keys of node %u's frames for %.3f s, "
			"since %.3f ms",
			node, peer, (double)(s->now - since) / 1e9, (double)since / 1e6);
}

void
watch_init(struct sim *s, uint32_t node, uint32_t peer, const void *init, bool was_due)
{
	const struct seal_pair *p = seal_pair_of(s, node, peer);
	const uint32_t count = p->cookie_count < COOKIES_NOTED ? p->cookie_count : COOKIES_NOTED;

	for (uint32_t i = 0; i < count; i++) {
		if (handshake_mac2_ok(init, p->cookies[i]))
			return;
	}
	if (!was_due)
		sim_violation(s,
			"node %u lets an INIT of node %u pass that has no cookie of its "
			"own",
			node, peer);
}

void
watch_ring(struct sim *s, uint32_t node, uint32_t peer)
{
	const struct seal_pair *p = seal_pair_of(s, node, peer);
	const struct keyring *r = &p->gate.keys;
	const uint32_t in_use = (r->current != NULL) + (r->previous != NULL) + (r->next != NULL) +
		(r->oldest != NULL);

	if (in_use != p->sets)
		sim_violation(s, "node %u has %u sets of keys for node %u in use, and %u not freed",
			node, in_use, peer, p->sets);
}
