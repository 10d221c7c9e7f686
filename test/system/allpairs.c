/* SPDX-License-Identifier: BSD-3-Clause
 *
 * One application of the all-pairs test: a thread a context, each sends messages of random size to
 * random contexts of all nodes, and checks what it receives: bytes, and the sequence number that
 * each pair of contexts has. When time is over it tells every context how many there were; each
 * ends when it has heard that from all, and all it sent is done with. Prints a line a context;
 * allpairs.sh starts the applications and compares them.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"
#include "pmx/pmx.h"

#define NODES_MAX    4
#define CONTEXTS_MAX 64 /* of a node */
#define OUTSTANDING  8  /* messages of a context that are not done with */
#define LEN_MAX      16384
#define SLEEP_US     2000 /* longest sleep while sends are outstanding */
#define STUCK_S      60

enum kind { KIND_DATA = 1, KIND_LAST = 2 };

struct head {
	uint64_t sequence; /* of this pair; LAST: how many there were */
	uint32_t key;      /* of the bytes that follow */
	uint16_t kind;     /* enum kind */
	uint16_t dst;      /* receiving context */
};

struct worker {
	pthread_t thread;
	struct pmx_context *ctx;
	struct pmx_addr own;
	uint64_t next[NODES_MAX][CONTEXTS_MAX];     /* sequence to send */
	uint64_t expected[NODES_MAX][CONTEXTS_MAX]; /* sequence to receive */
	bool ended[NODES_MAX][CONTEXTS_MAX];        /* it said that it sent all */
	unsigned ends;
	pmx_send_id ids[OUTSTANDING];
	unsigned outstanding;
	uint64_t completed, received, bytes, sleeps;
	uint64_t rng;
};

static unsigned nodes, per_node, seconds;
static const char *go_file;

/* Tell at which context of which node something is wrong, and what. */
#define FAIL(w, format, ...) fail("%u:%u " format, (w)->own.node, (w)->own.context, ##__VA_ARGS__)

static uint64_t
random_next(struct worker *w)
{
	return mix64_next(&w->rng);
}

/* ------------------------------------------------------------------ bytes */

static inline uint8_t
byte_at(uint32_t key, uint32_t i)
{
	return (uint8_t)(key + i + (i >> 8));
}

static void
fill(uint8_t *to, uint32_t key, uint32_t off, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		to[i] = byte_at(key, off + i);
}

static bool
same(const uint8_t *from, uint32_t key, uint32_t off, uint32_t len)
{
	unsigned bad = 0;

	for (uint32_t i = 0; i < len; i++)
		bad |= from[i] ^ byte_at(key, off + i);
	return bad == 0;
}

/* ------------------------------------------------------------------ sending */

static void
collect(struct worker *w, bool count)
{
	unsigned keep = 0;

	for (unsigned i = 0; i < w->outstanding; i++) {
		int r = pmx_is_send_done(w->ctx, w->ids[i]);

		if (r == 0)
			w->ids[keep++] = w->ids[i];
		else if (r == 1)
			w->completed += count;
		else
			FAIL(w, "a send ended in: %s", pmx_strerror(r));
	}
	w->outstanding = keep;
}

/* 1: sent, 0: not now */
static int
send_to(struct worker *w, struct pmx_addr to, enum kind kind, uint32_t len)
{
	const struct head h = {
		.sequence = w->next[to.node][to.context],
		.key = (uint32_t)random_next(w),
		.kind = (uint16_t)kind,
		.dst = to.context,
	};
	struct pmx_buffer buf;
	int r = w->outstanding < OUTSTANDING ? pmx_get_send_buffer(w->ctx, len, &buf) : -ENOBUFS;

	if (r == -ENOBUFS)
		return 0;
	if (r != 0) {
		FAIL(w, "a buffer: %s", pmx_strerror(r));
		return 0;
	}
	for (uint32_t i = 0, off = 0, n; i < buf.segments; i++, off += n) {
		uint8_t *at = pmx_buffer_segment(w->ctx, &buf, i, &n);

		fill(at, h.key, off, n);
	}
	memcpy(buf.data, &h, sizeof(h));
	r = pmx_send(w->ctx, to, &buf, &w->ids[w->outstanding]);
	if (r != 0) {
		pmx_discard_buffer(w->ctx, &buf);
		if (r != -EAGAIN)
			FAIL(w, "pmx_send: %s", pmx_strerror(r));
		return 0;
	}
	w->outstanding++;
	w->next[to.node][to.context]++;
	return 1;
}

static int
send_random(struct worker *w)
{
	uint64_t r = random_next(w);
	struct pmx_addr to = {(uint16_t)(r % nodes), (uint16_t)((r >> 8) % per_node)};
	uint32_t top = 64u << (r >> 16) % 9; /* 64 .. 16384 */
	uint32_t len = (uint32_t)sizeof(struct head) +
		(uint32_t)((r >> 24) % (top - sizeof(struct head)));

	return send_to(w, to, KIND_DATA, len);
}

/* ------------------------------------------------------------------ receiving */

static void
take_last(struct worker *w, const struct head *h, struct pmx_addr from)
{
	if (w->ended[from.node][from.context])
		FAIL(w, "%u:%u ended twice", from.node, from.context);
	w->ended[from.node][from.context] = true;
	w->ends++;
	if (h->sequence != w->expected[from.node][from.context])
		FAIL(w, "%u:%u sent %lu messages, %lu came", from.node, from.context, h->sequence,
			w->expected[from.node][from.context]);
}

static void
check(struct worker *w, const struct pmx_message *m)
{
	struct pmx_segment seg = {0};
	struct pmx_addr from = m->source;
	struct head h;
	uint32_t off = 0;
	bool good = true;

	if (m->len < sizeof(h) || from.node >= nodes || from.context >= per_node) {
		FAIL(w, "%u bytes of %u:%u", m->len, from.node, from.context);
		return;
	}
	pmx_message_read(w->ctx, m, 0, &h, sizeof(h));
	while (good && pmx_message_segment(w->ctx, m, &seg)) {
		uint32_t skip = off == 0 ? (uint32_t)sizeof(h) : 0;

		good = same((const uint8_t *)seg.data + skip, h.key, off + skip, seg.len - skip);
		off += seg.len;
	}
	if (!good || off != m->len || h.dst != w->own.context)
		FAIL(w, "a message of %u:%u is damaged: %u of %u bytes, for context %u", from.node,
			from.context, off, m->len, h.dst);
	if (h.kind == KIND_LAST) {
		take_last(w, &h, from);
		return;
	}
	if (h.sequence != w->expected[from.node][from.context])
		FAIL(w, "message %lu of %u:%u came instead of %lu", h.sequence, from.node,
			from.context, w->expected[from.node][from.context]);
	w->expected[from.node][from.context] = h.sequence + 1;
	w->received++;
	w->bytes += m->len;
}

/* Take what is there; with `sleep`, wait for it. */
static unsigned
receive(struct worker *w, bool sleep)
{
	struct pmx_message m;
	unsigned n = 0;
	int r = 0;

	while (n < 32 && (r = pmx_receive(w->ctx, &m)) == 1) {
		check(w, &m);
		pmx_release_receive_buffer(w->ctx, &m);
		n++;
	}
	if (n == 0 && r == 0 && sleep) {
		w->sleeps++;
		r = pmx_receive_wait(w->ctx, &m, SLEEP_US);
		if (r == 1) {
			check(w, &m);
			pmx_release_receive_buffer(w->ctx, &m);
			n++;
		}
	}
	if (r < 0)
		FAIL(w, "pmx_receive: %s", pmx_strerror(r));
	return n;
}

/* ------------------------------------------------------------------ running */

static void
talk(struct worker *w)
{
	double end = now_s() + seconds;

	while (!failed && now_s() < end) {
		unsigned sent = 0;

		collect(w, true);
		while (sent < OUTSTANDING && send_random(w))
			sent++;
		receive(w, sent == 0);
	}
	collect(w, true);
}

static void
finish(struct worker *w)
{
	double end = now_s() + STUCK_S;
	unsigned said = 0, all = nodes * per_node;

	while (!failed && (said < all || w->ends < all || w->outstanding != 0)) {
		struct pmx_addr to = {(uint16_t)(said / per_node), (uint16_t)(said % per_node)};

		collect(w, false);
		if (said < all && send_to(w, to, KIND_LAST, sizeof(struct head))) {
			said++;
			continue;
		}
		receive(w, true);
		if (now_s() > end)
			FAIL(w,
				"%u of %u heard that all was sent, %u said so, %u sends "
				"outstanding",
				said, all, w->ends, w->outstanding);
	}
}

static void *
work(void *arg)
{
	struct worker *w = arg;

	talk(w);
	finish(w);
	return NULL;
}

int
main(int argc, char **argv)
{
	struct pmx_node *node;

	if (argc != 8) {
		fputs("Usage: allpairs INSTANCE FIRST-CONTEXT CONTEXTS NODES CONTEXTS-PER-NODE "
		      "SECONDS GO-FILE\n"
		      "Starts to talk when GO-FILE exists.\n",
			stderr);
		return 2;
	}
	unsigned first = (unsigned)atoi(argv[2]), count = (unsigned)atoi(argv[3]);
	struct worker *workers = calloc(count, sizeof(*workers));

	nodes = (unsigned)atoi(argv[4]);
	per_node = (unsigned)atoi(argv[5]);
	seconds = (unsigned)atoi(argv[6]);
	go_file = argv[7];
	if (nodes > NODES_MAX || per_node > CONTEXTS_MAX || workers == NULL)
		return 2;
	int r = pmx_node_attach(&node, argv[1], NULL);

	if (r != 0)
		die("attaching to %s: %s", argv[1], pmx_strerror(r));
	for (unsigned i = 0; i < count; i++) {
		r = pmx_context_open(&workers[i].ctx, node, first + i, NULL);
		if (r != 0)
			die("context %u: %s", first + i, pmx_strerror(r));
		workers[i].own = pmx_context_addr(workers[i].ctx);
		workers[i].rng = (uint64_t)workers[i].own.node << 32 | (first + i);
	}
	puts("ready");
	fflush(stdout);
	while (access(go_file, F_OK) != 0)
		usleep(10000);
	for (unsigned i = 0; i < count; i++)
		pthread_create(&workers[i].thread, NULL, work, &workers[i]);
	for (unsigned i = 0; i < count; i++) {
		const struct worker *w = &workers[i];

		pthread_join(w->thread, NULL);
		printf("context %u %u completed %lu received %lu bytes %lu sleeps %lu\n",
			w->own.node, w->own.context, w->completed, w->received, w->bytes,
			w->sleeps);
	}
	pmx_node_close(node);
	return failed ? 1 : 0;
}
