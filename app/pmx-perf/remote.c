/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Measurements of remote memory: push and pull bandwidth, pages, and the cost of pinning (SWoPP
 * 1997, table 2 and figure 4; RHiNET, 1999). The responder provides memory when asked, and then
 * only runs its engine.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "perf.h"
#include "plot/plot.h"
#include "rma/client/pin_cache.h"

#define PAGE       4096u
#define PATIENCE_S 20

struct wish {
	uint8_t kind, private;
	uint8_t pad[6];
	uint64_t len;
};

struct page_wish {
	uint8_t kind;
	uint8_t pad[7];
	uint64_t offset;
};

/* ------------------------------------------------------------------ responder */

static struct {
	void *memory;
	uint64_t key;
	bool private;
} given;

static void
remote_end(struct perf_session *s)
{
	if (given.memory == NULL)
		return;
	pmx_deregister(s->ctx, given.key);
	memory_put(s, given.memory, given.private);
	given.memory = NULL;
}

static int
give(struct perf_session *s, struct pmx_addr to, const struct wish *w)
{
	struct pmx_remote remote = {0};
	int e;

	remote_end(s);
	given.private = w->private;
	given.memory = memory_take(s, w->len, w->private);
	if (given.memory == NULL)
		return -ENOMEM;
	memset(given.memory, 2, w->len);
	e = pmx_register(s->ctx, given.memory, w->len, PMX_REMOTE_READ | PMX_REMOTE_WRITE, &remote);
	if (e != 0)
		return e;
	given.key = remote.key;
	return perf_send(s, to, &remote, sizeof(remote));
}

static int
send_page(struct perf_session *s, struct pmx_addr to, uint64_t offset)
{
	struct pmx_buffer buf;
	int e;

	while ((e = pmx_get_send_buffer(s->ctx, PAGE, &buf)) == -ENOBUFS)
		session_idle(s);
	if (e != 0)
		return e;
	pmx_buffer_write(s->ctx, &buf, 0, (uint8_t *)given.memory + offset, PAGE);
	while ((e = pmx_send(s->ctx, to, &buf, NULL)) == -EAGAIN)
		session_idle(s);
	return e;
}

static int
remote_answer(struct perf_session *s, struct pmx_message *m)
{
	const uint8_t *data = pmx_message_data(m);
	struct page_wish p;
	struct wish w;
	int e;

	if (m->len == sizeof(w) && data[0] == KIND_MEMORY) {
		memcpy(&w, data, sizeof(w));
		e = give(s, m->source, &w);
	} else if (m->len == sizeof(p) && data[0] == KIND_PAGE && given.memory != NULL) {
		memcpy(&p, data, sizeof(p));
		e = send_page(s, m->source, p.offset);
	} else {
		return PERF_NOT_MINE;
	}
	return e == 0 ? PERF_ANSWERED : e;
}

const struct responder remote_responder = {.answer = remote_answer, .end = remote_end};

/* ------------------------------------------------------------------ initiator */

static int
ask_memory(struct perf_session *s, const struct perf_options *o, uint64_t len,
	struct pmx_remote *remote)
{
	const struct wish w = {.kind = KIND_MEMORY, .private = o->remote_private, .len = len};
	struct pmx_message m;
	int e = perf_send(s, o->to, &w, sizeof(w));

	if (e == 0)
		e = perf_receive(s, &m, rte_rdtsc() + PATIENCE_S * perf_hz());
	if (e < 0)
		return e;
	e = m.len == sizeof(*remote) ? pmx_message_read(s->ctx, &m, 0, remote, sizeof(*remote))
				     : -EPROTO;
	pmx_release_receive_buffer(s->ctx, &m);
	return e;
}

struct remote_stream {
	bool push;
	struct pmx_remote remote;
	uint8_t *local;
	uint64_t len; /* bytes of both buffers, a multiple of `size`, rounded up to whole pages */
	uint32_t size;
	pmx_transfer_id ids[64];
	uint64_t begun, ended;
	double misses_due; /* transfers whose memory shall not be pinned */
};

static int
begin_one(struct perf_session *s, const struct perf_options *o, struct remote_stream *x)
{
	uint64_t slices = x->len / x->size, offset = x->begun % slices * x->size;
	const struct pmx_transfer t = {
		.peer = x->remote.owner,
		.key = x->remote.key,
		.remote = x->remote.addr + offset,
		.local = x->local + offset,
		.len = x->size,
	};
	pmx_transfer_id *id = &x->ids[x->begun % o->depth];
	int e;

	x->misses_due += 1 - o->hit_ratio / 100;
	if (x->misses_due >= 1) {
		pmx_invalidate(t.local, t.len);
		x->misses_due -= 1;
	}
	while ((e = x->push ? pmx_push(s->ctx, &t, id) : pmx_pull(s->ctx, &t, id)) == -EAGAIN)
		session_idle(s);
	x->begun += e == 0;
	return e;
}

/* Check the oldest transfer: 1 if it ended, 0 if not yet. */
static int
oldest(struct perf_session *s, const struct perf_options *o, const struct remote_stream *x)
{
	return pmx_transfer_done(s->ctx, x->ids[x->ended % o->depth]);
}

/* Transfer for that many seconds, but make at least one transfer: a process that had no CPU
 * meanwhile has a figure, too. */
static int
transfer_for(struct perf_session *s, const struct perf_options *o, struct remote_stream *x,
	double seconds)
{
	uint64_t end = rte_rdtsc() + (uint64_t)(seconds * (double)perf_hz());
	uint64_t give_up = end + PATIENCE_S * perf_hz(), before = x->begun;
	int e = 0;

	while (e >= 0 && (rte_rdtsc() < end || x->begun == before || x->ended < x->begun)) {
		if ((rte_rdtsc() < end || x->begun == before) && x->begun - x->ended < o->depth) {
			e = begin_one(s, o, x);
			continue;
		}
		e = oldest(s, o, x);
		if (e == 1)
			x->ended++;
		else
			session_idle(s);
		if (rte_rdtsc() > give_up)
			return -ETIMEDOUT;
	}
	return e < 0 ? e : 0;
}

static int
remote_measure(struct perf_session *s, const struct perf_options *o, struct remote_stream *x,
	struct perf_row *r)
{
	int e = transfer_for(s, o, x, o->seconds / 10);
	uint64_t before = x->ended, start = rte_rdtsc();

	if (e == 0)
		e = transfer_for(s, o, x, o->seconds);
	double ns = (double)(rte_rdtsc() - start) * 1e9 / (double)perf_hz();

	r->size = x->size;
	r->per_second = (double)(x->ended - before) * 1e9 / ns;
	r->gbits = r->per_second * x->size * 8 / 1e9;
	return e;
}

static void
measure_memcpy(const struct perf_options *o, const struct remote_stream *x, struct perf_row *r)
{
	uint8_t *to = aligned_alloc(PAGE, x->len);
	uint64_t hz = perf_hz(), n = 0, slices = x->len / x->size;
	uint64_t start = rte_rdtsc(), end = start + (uint64_t)(o->seconds / 4 * (double)hz), now;

	*r = (struct perf_row){.what = "memcpy", .test = "bandwidth", .size = x->size};
	if (to == NULL)
		return;
	memset(to, 0, x->len);
	do {
		for (unsigned i = 0; i < 16; i++, n++)
			memcpy(to + n % slices * x->size, x->local + n % slices * x->size, x->size);
		now = rte_rdtsc();
	} while (now < end);
	r->per_second = (double)n * (double)hz / (double)(now - start);
	r->gbits = r->per_second * x->size * 8 / 1e9;
	free(to);
}

static int
one_size(struct perf_session *s, const struct perf_options *o, uint32_t size, struct perf_row *r,
	struct perf_row *copy)
{
	/* Transfers under way have slices of their own up to 1 MiB in total, because the raw link,
	 * with which they are compared, stays in a core's cache as well. If some are to miss the
	 * pin-down cache, there are many slices, so that these transfers use others. */
	uint64_t slices = o->hit_ratio < 100 && size <= 65536 ? 1024
		: size < 65536                                ? 65536 / size
		: size * (uint64_t)o->depth <= 1u << 20       ? o->depth
							      : 1;
	struct remote_stream x = {.push = strcmp(o->command->name, "push") == 0, .size = size};
	int e;

	if (slices > 4096)
		slices = 4096;
	if (slices * size > 64u << 20)
		slices = size >= 64u << 20 ? 1 : (64u << 20) / size;
	x.len = (slices * size + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	x.local = memory_take(s, x.len, o->local_private);
	if (x.local == NULL)
		return -ENOMEM;
	x.len = slices * size;
	*r = (struct perf_row){.test = "bandwidth"};
	snprintf(r->what, sizeof(r->what), "%s", o->command->name);
	e = ask_memory(s, o, x.len, &x.remote);
	if (e == 0)
		e = remote_measure(s, o, &x, r);
	if (e == 0 && copy != NULL)
		measure_memcpy(o, &x, copy);
	pmx_invalidate(x.local, x.len);
	memory_put(s, x.local, o->local_private);
	return e;
}

static const uint32_t default_sizes[] = {8, 64, 512, 4096, 32768, 262144, 1048576, 8388608,
	67108864};

static int
bandwidth(struct perf_session *s, const struct perf_options *o)
{
	const uint32_t *sizes = o->size_count ? o->sizes : default_sizes;
	unsigned n = o->size_count ? o->size_count
				   : sizeof(default_sizes) / sizeof(default_sizes[0]);
	int e = 0;

	for (unsigned i = 0; i < n && e == 0; i++) {
		struct perf_row r, copy;

		e = one_size(s, o, sizes[i], &r, &copy);
		if (e == 0) {
			row_print(o, &r);
			row_print(o, &copy);
		}
	}
	return e;
}

/* SWoPP 1997, figure 4: bandwidth by size, a curve for each hit ratio. */
static int
figure(struct perf_session *s, const struct perf_options *o)
{
	static const unsigned ratios[] = {0, 25, 50, 75, 100};
	struct plot *p = calloc(1, sizeof(*p));
	struct perf_options with = *o;
	int e = p ? 0 : -ENOMEM;

	with.local_private = true;
	if (p != NULL) {
		*p = (struct plot){
			.name = o->command->name,
			.x_label = "bytes",
			.y_label = "Gb/s",
			.x_log = true,
			.curves = 5,
		};
		snprintf(p->title, sizeof(p->title),
			"%s of memory whose pages are pinned already, in part", o->command->name);
	}
	for (unsigned c = 0; c < 5 && e == 0; c++)
		snprintf(p->label[c], sizeof(p->label[c]), "%u %% hits", ratios[c]);
	for (uint32_t size = 4096; size <= 1u << 20 && e == 0; size *= 2) {
		double *y = plot_row(p, size);

		for (unsigned c = 0; c < 5 && e == 0; c++) {
			struct perf_row r;

			with.hit_ratio = ratios[c];
			e = one_size(s, &with, size, &r, NULL);
			y[c] = r.gbits;
		}
	}
	if (e == 0) {
		plot_print(p);
		e = plot_write(p, o->figure) ? 0 : -EIO;
	}
	free(p);
	return e;
}

/* ------------------------------------------------------------------ pages */

static int
pull_page(struct perf_session *s, const struct pmx_remote *remote, uint8_t *local, uint64_t offset)
{
	const struct pmx_transfer t = {
		.peer = remote->owner,
		.key = remote->key,
		.remote = remote->addr + offset,
		.local = local + offset,
		.len = PAGE,
	};
	pmx_transfer_id id;
	int e = pmx_pull(s->ctx, &t, &id);

	if (e != 0)
		return e;
	while ((e = pmx_transfer_done(s->ctx, id)) == 0)
		session_idle(s);
	return e == 1 ? 0 : e;
}

/* Fetch a page with messages instead of a pull: a request, and the page in a message, which both
 * ends copy. */
static int
message_page(struct perf_session *s, const struct perf_options *o, uint8_t *local, uint64_t offset)
{
	const struct page_wish w = {.kind = KIND_PAGE, .offset = offset};
	struct pmx_message m;
	int e = perf_send(s, o->to, &w, sizeof(w));

	if (e == 0)
		e = perf_receive(s, &m, rte_rdtsc() + PATIENCE_S * perf_hz());
	if (e < 0)
		return e;
	e = m.len == PAGE ? pmx_message_read(s->ctx, &m, 0, local + offset, PAGE) : -EPROTO;
	pmx_release_receive_buffer(s->ctx, &m);
	return e;
}

int
test_page(struct perf_session *s, const struct perf_options *o)
{
	const uint64_t count = 256;
	uint64_t hz = perf_hz();
	struct pmx_remote remote;
	uint8_t *local = memory_take(s, count * PAGE, o->local_private);
	struct hist h[2];
	int e = local ? ask_memory(s, o, count * PAGE, &remote) : -ENOMEM;

	row_head(o);
	hist_init(&h[0]);
	hist_init(&h[1]);
	/* alternating, so that a disturbance affects both */
	for (uint64_t i = 0; i < 2 * (o->rounds + o->warmup) && e == 0; i++) {
		uint64_t offset = i / 2 * 7 % count * PAGE, start = rte_rdtsc();

		e = i % 2 ? message_page(s, o, local, offset)
			  : pull_page(s, &remote, local, offset);
		if (i / 2 >= o->warmup)
			hist_record(&h[i % 2],
				(uint64_t)((double)(rte_rdtsc() - start) * 1e9 / (double)hz));
	}
	for (unsigned i = 0; i < 2 && e == 0; i++) {
		struct perf_row r = {.test = "latency", .size = PAGE};

		snprintf(r.what, sizeof(r.what), "%s", i ? "copied" : "pull");
		row_latency(&r, &h[i]);
		row_print(o, &r);
	}
	if (local != NULL)
		memory_put(s, local, o->local_private);
	return e;
}

/* ------------------------------------------------------------------ what changed */

static int
push_and_wait(struct perf_session *s, const struct pmx_transfer *t)
{
	pmx_transfer_id id;
	int e;

	while ((e = pmx_push(s->ctx, t, &id)) == -EAGAIN)
		session_idle(s);
	while (e == 0 && (e = pmx_transfer_done(s->ctx, id)) == 0)
		session_idle(s);
	return e == 1 ? 0 : e;
}

/* Push all of a region and, alternating, only its changed words, one in a hundred (RHI-PART, twin
 * and diff). */
int
test_diff(struct perf_session *s, const struct perf_options *o)
{
	uint32_t size = o->size_count ? o->sizes[0] : 1u << 20, x = 1;
	uint8_t *local = memory_take(s, size, o->local_private), *twin = malloc(size);
	uint64_t hz = perf_hz(), rounds = o->rounds / 20 + 1;
	struct pmx_remote remote;
	struct hist h[3];
	int e = local && twin ? ask_memory(s, o, size, &remote) : -ENOMEM;

	for (unsigned i = 0; i < 3; i++)
		hist_init(&h[i]);
	if (e == 0) {
		memset(local, 7, size);
		memcpy(twin, local, size);
	}
	/* alternating: all of it; one run of 1 %; 1 % in single words */
	for (uint64_t i = 0; i < 3 * rounds && e == 0; i++) {
		struct pmx_part part = {.kind = PMX_PART_DIFF, .twin = twin};
		const struct pmx_transfer t = {
			.peer = remote.owner,
			.key = remote.key,
			.remote = remote.addr,
			.local = local,
			.len = size,
			.part = i % 3 ? &part : NULL,
		};

		for (uint32_t k = 0; i % 3 == 1 && k < size / 100; k++)
			local[(i * 4096 + k) % size]++;
		for (uint32_t k = 0; i % 3 == 2 && k < size / 400; k++) {
			x = x * 1664525u + 1013904223u;
			((uint32_t *)(void *)local)[(x >> 8) % (size / 4)]++;
		}
		uint64_t start = rte_rdtsc();

		e = push_and_wait(s, &t);
		hist_record(&h[i % 3],
			(uint64_t)((double)(rte_rdtsc() - start) * 1e9 / (double)hz));
	}
	for (unsigned i = 0; i < 3 && e == 0; i++) {
		static const char *const names[] = {"all", "diff-run", "diff-words"};
		struct perf_row r = {.test = "latency", .size = size};

		snprintf(r.what, sizeof(r.what), "%s", names[i]);
		row_latency(&r, &h[i]);
		row_print(o, &r);
	}
	if (local != NULL)
		memory_put(s, local, o->local_private);
	free(twin);
	return e;
}

int
test_transfers(struct perf_session *s, const struct perf_options *o)
{
	row_head(o);
	return o->figure ? figure(s, o) : bandwidth(s, o);
}
