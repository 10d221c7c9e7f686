/* SPDX-License-Identifier: BSD-3-Clause
 *
 * An application: patterns of bytes, its words with who started it, its memory and transfers.
 * See remote.c.
 */
#include "remote.h"

/* ------------------------------------------------------------------ patterns */

static inline uint64_t
pattern(unsigned where, uint64_t salt, uint64_t number)
{
	return mix64(
		(number + 1) * 0x9E3779B97F4A7C15u + (salt * PLACES + where) * 0xD1342543DE82EF95u);
}

static inline uint8_t
pattern_byte(unsigned where, uint64_t salt, uint64_t at)
{
	return (uint8_t)(pattern(where, salt, at / 8) >> at % 8 * 8);
}

/* Fill memory with the bytes of the pattern that stand at `at` and behind it. */
void
fill(uint8_t *p, uint64_t len, unsigned where, uint64_t salt, uint64_t at)
{
	uint64_t i = 0;

	for (; i < len && (at + i) % 8 != 0; i++)
		p[i] = pattern_byte(where, salt, at + i);
	for (; len - i >= 8; i += 8) {
		uint64_t word = pattern(where, salt, (at + i) / 8);

		memcpy(p + i, &word, 8);
	}
	for (; i < len; i++)
		p[i] = pattern_byte(where, salt, at + i);
}

/* The first byte that is another, or -1. */
int64_t
differs(const uint8_t *p, uint64_t len, unsigned where, uint64_t salt, uint64_t at)
{
	uint64_t i = 0;

	while (i < len) {
		uint64_t word = pattern(where, salt, (at + i) / 8);

		if ((at + i) % 8 == 0 && len - i >= 8 && memcmp(p + i, &word, 8) == 0)
			i += 8;
		else if (p[i] == pattern_byte(where, salt, at + i))
			i++;
		else
			return (int64_t)i;
	}
	return -1;
}

/* The first byte that has none of the salts 0 and from..to, or -1. */
int64_t
differs_from_all(const uint8_t *p, uint64_t len, unsigned where, uint64_t from, uint64_t to,
	uint64_t at)
{
	uint64_t last = 0;

	for (uint64_t i = 0; i < len;) {
		if (differs(p + i, len - i < 8 ? len - i : 8, where, last, at + i) < 0) {
			i += 8;
			continue;
		}
		bool word = false, byte = p[i] == pattern_byte(where, 0, at + i);

		for (uint64_t salt = to + 1; salt-- >= from && !word;) {
			uint64_t s = salt < from ? 0 : salt; /* all, then 0 */

			byte |= p[i] == pattern_byte(where, s, at + i);
			word = differs(p + i, len - i < 8 ? len - i : 8, where, s, at + i) < 0;
			if (word)
				last = s;
		}
		if (!word && !byte)
			return (int64_t)i;
		i += word ? 8 : 1;
	}
	return -1;
}

/* ------------------------------------------------------------------ an application: its words */

int control = -1;
struct pmx_node *node;
struct pmx_context *ctx;

void
say(const char *fmt, ...)
{
	char word[WORD_MAX];
	va_list args;

	va_start(args, fmt);
	vsnprintf(word, sizeof(word), fmt, args);
	va_end(args);
	if (send(control, word, strlen(word) + 1, MSG_NOSIGNAL) < 0)
		_exit(3);
}

void
app_fails(const char *fmt, ...)
{
	char word[WORD_MAX] = "failed ";
	va_list args;

	va_start(args, fmt);
	vsnprintf(word + 7, sizeof(word) - 7, fmt, args);
	va_end(args);
	say("%s", word);
	_exit(1);
}

bool
word_waits(void)
{
	struct pollfd p = {.fd = control, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

void
next_word(char *word)
{
	ssize_t n = recv(control, word, WORD_MAX - 1, 0);

	if (n <= 0)
		_exit(3);
	word[n] = 0;
}

void
expect_word(const char *wanted)
{
	char word[WORD_MAX];

	next_word(word);
	if (strcmp(word, wanted) != 0)
		app_fails("it was told '%s', not '%s'", word, wanted);
}

void
leave(void)
{
	pmx_node_close(node);
	say("ended");
	_exit(0);
}

/* --------------------------------------------------------- an application: memory and transfers */

uint8_t *memory[PLACES], *local[PLACES];
struct pmx_remote mine[PLACES], theirs[PLACES];

void
attach(unsigned number)
{
	int r = pmx_node_attach(&node, instances[number], NULL);

	if (r != 0)
		app_fails("attaching to %s: %s", instances[number], pmx_strerror(r));
	say("ready");
}

/* The number may have been of a process that just died. */
struct pmx_context *
open_context(uint16_t number)
{
	struct pmx_context *c;
	double end = now_s() + OPEN_S;
	int r;

	while ((r = pmx_context_open(&c, node, number, NULL)) == -EBUSY && now_s() < end)
		usleep(1000);
	if (r != 0)
		app_fails("opening context %u: %s", number, pmx_strerror(r));
	return c;
}

/* Return whether this is a thin client. No engine of such a client reaches memory of malloc, so it
 * is adopted. */
static bool
thin(void)
{
	const char *as = getenv("PMX_ATTACH");

	return as != NULL && strcmp(as, "thin") == 0;
}

unsigned
access_to(unsigned where)
{
	return PMX_REMOTE_READ | PMX_REMOTE_WRITE | (thin() && where == BY_KERNEL ? PMX_ADOPT : 0);
}

void
get_pages(struct pmx_context *c, uint8_t **pages, uint64_t len)
{
	void *p;
	int r = pmx_alloc(c, len, &p);

	if (r != 0)
		app_fails("pmx_alloc of %lu bytes: %s", len, pmx_strerror(r));
	pages[BY_ENGINE] = p;
	/* whole pages, where they are to be adopted */
	pages[BY_KERNEL] = thin() ? aligned_alloc(4096, (len + 4095) & ~4095ul) : malloc(len);
	if (pages[BY_KERNEL] == NULL)
		app_fails("no memory");
}

void
get_memory(uint64_t len)
{
	get_pages(ctx, memory, len);
	for (unsigned w = 0; w < PLACES; w++) {
		fill(memory[w], len, w, 0, 0);
		int r = pmx_register(ctx, memory[w], len, access_to(w), &mine[w]);

		if (r != 0)
			app_fails("registering memory of %s: %s", where_name[w], pmx_strerror(r));
	}
}

/* Wait for the end of a transfer and return how it ended, as pmx_transfer_done; -ETIME: it did
 * not. */
int
wait_for(struct pmx_context *c, pmx_transfer_id id)
{
	double end = now_s() + TRANSFER_S;
	int r;

	while ((r = pmx_transfer_done(c, id)) == 0) {
		if (now_s() > end)
			return -ETIME;
		sched_yield();
	}
	return r;
}

int
issue(struct pmx_context *c, bool pull, const struct pmx_transfer *t, pmx_transfer_id *id)
{
	double end = now_s() + TRANSFER_S;
	int r;

	while ((r = pull ? pmx_pull(c, t, id) : pmx_push(c, t, id)) == -EAGAIN && now_s() < end) {
		pmx_transfers_pending(c);
		sched_yield();
	}
	return r;
}

int
transfer(bool pull, const struct pmx_transfer *t)
{
	pmx_transfer_id id;
	int r = issue(ctx, pull, t, &id);

	return r != 0 ? r : wait_for(ctx, id);
}

/* -------------------------------------------------------- transfers of all sizes, one at a time */

const uint64_t sizes[SIZES] = {1, 7, 8, 63, 64, 1000, 1408, 1409, 4096, 8904, 8905, 65536, 100001,
	1 << 20, 4 << 20};

/* Return where the slice of size k begins. Slices lie at any alignment, with something between
 * them. */
uint64_t
slice_at(unsigned k)
{
	uint64_t at = SMALL_AT;

	for (unsigned i = 0; i < k; i++)
		at += sizes[i] + 4000 + i;
	return at;
}

static void
push_and_pull(unsigned k, unsigned where, unsigned from, uint64_t salt)
{
	uint64_t len = sizes[k], at = slice_at(k);
	struct pmx_transfer t = {
		.peer = theirs[where].owner,
		.key = theirs[where].key,
		.remote = theirs[where].addr + at,
		.local = local[from] + k,
		.len = len,
		.flags = k % 2 ? PMX_ORDERED : 0,
	};

	fill(t.local, len, where, salt, at);
	int r = transfer(false, &t);

	if (r != 1)
		app_fails("a push of %lu bytes from %s to %s: %d %s", len, where_name[from],
			where_name[where], r, pmx_strerror(r));
	t.local = local[!from] + k;
	memset(t.local, 0, len);
	r = transfer(true, &t);
	if (r != 1)
		app_fails("a pull of %lu bytes to %s from %s: %d %s", len, where_name[!from],
			where_name[where], r, pmx_strerror(r));
	int64_t i = differs(t.local, len, where, salt, at);

	if (i >= 0)
		app_fails("a pull of %lu bytes to %s from %s: byte %ld is wrong", len,
			where_name[!from], where_name[where], i);
}

void
all_sizes(uint64_t salt)
{
	for (unsigned k = 0; k < SIZES; k++) {
		for (unsigned w = 0; w < PLACES; w++) {
			push_and_pull(k, w, BY_ENGINE, salt + LONG_SALT / 2);
			push_and_pull(k, w, BY_KERNEL, salt);
		}
	}
	say("done");
}
