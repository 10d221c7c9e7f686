/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of the application that the engine, and through it other nodes, may access: allocates it
 * in pages that both map, and registers it. Called from the context's thread, not on the data path.
 *
 * Design notes
 * 1. pmx_alloc makes a memfd, of hugepages if some are free, seals its size, and hands the
 *    descriptor to the engine, which maps the same pages and seals them against holes
 *    (lib/memory/pieces.c). This process keeps no descriptor.
 * 2. Adopted memory lies in such a memfd as well. The application, or malloc after a free(), may
 *    unmap it; the kernel reports that (pins.c), and what the engine has mapped is not used any
 *    more.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rma/client/rma.h"
#include "rma/region.h"

#define ADOPTED "pmx-adopted" /* name of memfds, as /proc shows them */

/* ------------------------------------------------------------------ pieces */

/* Wait for a free submission slot. Return NULL if the engine is gone. */
static struct submission *
submission_slot(struct pmx_context *ctx)
{
	while (!slot_room(&ctx->sub, 1)) {
		if (ctx_gone(ctx))
			return NULL;
		ctx_wait(ctx);
	}
	return (struct submission *)slot_at(&ctx->sub, ctx->sub.pos)->body;
}

static void
memory_submit(struct pmx_context *ctx)
{
	slot_publish(&ctx->sub, ctx->sub.pos++);
	ctx_doorbell(ctx);
}

/* Have the engine unmap a piece, and remove it from the table. */
static void
forget_piece(struct pmx_context *ctx, uint32_t number)
{
	struct client_rma *rma = ctx->rma;
	struct submission *s = submission_slot(ctx);

	if (s != NULL) {
		s->op = SUBMIT_FORGET;
		s->forget = number;
		memory_submit(ctx);
	}
	if (rma->pieces[number].watched >= 0)
		pins_unwatch(ctx, rma->pieces[number].watched);
	rma->pieces[number].addr = NULL;
}

/* Return whether a piece is adopted memory that was unmapped or moved since. */
static bool
is_gone(const struct pmx_context *ctx, const struct rma_piece *p)
{
	if (p->watched < 0)
		return false;
	pins_settle();
	return atomic_load_explicit(&ctx->shm->revoked[p->watched], memory_order_relaxed);
}

void
pieces_sweep(struct pmx_context *ctx)
{
	struct client_rma *rma = ctx->rma;

	rma->sweep = false;
	for (uint32_t i = 0; i < rma->pieces_used; i++) {
		if (rma->pieces[i].addr == NULL || !is_gone(ctx, &rma->pieces[i]))
			continue;
		if (!slot_room(&ctx->sub, 1)) {
			rma->sweep = true; /* next time, so that transfers do not wait for this */
			return;
		}
		forget_piece(ctx, i);
	}
}

int64_t
piece_of(struct pmx_context *ctx, const void *addr, uint64_t len)
{
	struct client_rma *rma = ctx->rma;
	const uint8_t *a = addr;

	for (uint32_t i = 0; i < rma->pieces_used; i++) {
		const struct rma_piece *p = &rma->pieces[i];

		if (p->addr == NULL || a >= p->addr + p->len ||
			(a < p->addr && len <= (uint64_t)(p->addr - a)))
			continue;
		if (is_gone(ctx, p)) {
			/* the engine is not told here, since callers rely on free slots that they
			 * have counted */
			rma->sweep = true;
			continue;
		}
		if (a >= p->addr && len <= p->len - (uint64_t)(a - p->addr))
			return i;
		/* partly in adopted memory: the kernel can reach all of it */
		return p->watched >= 0 ? (int64_t)MEMORY_COPIED : -EFAULT;
	}
	return MEMORY_COPIED;
}

/* Have the engine map fd's memory, which this process has mapped at `at`. */
static int
share(struct pmx_context *ctx, int fd, void *at, uint64_t len, int watched)
{
	struct client_rma *rma = ctx->rma;
	uint32_t number = MEMORIES_MAX;

	if (ctx_gone(ctx))
		return -EPIPE;
	int result = ctx->node->way->memory(ctx, fd, at, len, watched, &number);

	if (result == 0 && (number >= MEMORIES_MAX || rma->pieces[number].addr != NULL))
		result = -EPROTO;
	if (result != 0)
		return result;
	STEP();
	rma->pieces[number] = (struct rma_piece){at, len, watched};
	if (number >= rma->pieces_used)
		rma->pieces_used = number + 1;
	return 0;
}

int
pmx_alloc_file(struct pmx_context *ctx, uint64_t len, void **addr, int *file)
{
	uint64_t all = len;
	void *at;

	if (len == 0 || len > REGION_BYTES_MAX)
		return -EINVAL;
	int fd = file != NULL ? pages_make(PAGES_ALLOCATED, &all, &at, false)
			      : pages_alloc(&all, &at);

	if (fd < 0)
		return fd == -EMFILE ? fd : -ENOMEM;
	int result = share(ctx, fd, at, all, -1);

	if (result != 0 || file == NULL)
		close(fd);
	if (result != 0) {
		munmap(at, all);
		return result;
	}
	if (file != NULL)
		*file = fd;
	*addr = at;
	return 0;
}

int
pmx_alloc(struct pmx_context *ctx, uint64_t len, void **addr)
{
	return pmx_alloc_file(ctx, len, addr, NULL);
}

void
pmx_free(struct pmx_context *ctx, void *addr)
{
	struct client_rma *rma = ctx->rma;

	for (uint32_t i = 0; addr != NULL && i < rma->pieces_used; i++) {
		const struct rma_piece p = rma->pieces[i];

		if (p.addr != addr || p.watched >= 0)
			continue;
		for (const struct client_service *const *s = ctx->node->services; *s != NULL; s++) {
			if ((*s)->forget != NULL)
				(*s)->forget(ctx, addr, p.len);
		}
		forget_piece(ctx, i);
		munmap(addr, p.len);
		return;
	}
	if (addr != NULL)
		piece_unmap(ctx, addr);
}

/* Unmap a piece if it is in that table, and remove it. Return false if it is not there. */
static bool
unmap_from(struct rma_piece *pieces, const void *addr)
{
	for (uint32_t i = 0; i < MEMORIES_MAX; i++) {
		if (pieces[i].addr != addr || pieces[i].watched >= 0)
			continue;
		munmap(pieces[i].addr, pieces[i].len);
		pieces[i].addr = NULL;
		return true;
	}
	return false;
}

void
piece_unmap(struct pmx_context *ctx, const void *addr)
{
	struct client_rma *rma = ctx->rma;

	if (!unmap_from(rma->pieces, addr))
		unmap_from(rma->unshared, addr);
}

/* ------------------------------------------------------------------ adoption */

/* Check in /proc/self/maps that all of [at, at + len) is writable, and either private and anonymous
 * or adopted before (by a context that is closed now, or freed and allocated again since). Return 0
 * or -errno. */
static int
check_private(uint64_t at, uint64_t len)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], rights[8];
	uint64_t begin, end, inode, next = at;
	int name;

	if (f == NULL)
		return -errno;
	while (next < at + len && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx %7s %*s %*s %lu %n", &begin, &end, rights, &inode,
			    &name) != 4 ||
			end <= next)
			continue;
		bool adopted = strncmp(line + name, "/memfd:" ADOPTED " ",
				       sizeof("/memfd:" ADOPTED)) == 0;

		if (begin > next || memcmp(rights, "rw", 2) != 0 ||
			(!adopted && (rights[3] != 'p' || inode != 0)))
			break;
		next = end;
	}
	fclose(f);
	return next >= at + len ? 0 : -EINVAL;
}

/* Copy the pages into a memfd, map that in their place, and share it. */
static int
adopt_pages(struct pmx_context *ctx, uint64_t at, uint64_t len)
{
	int watched = -ENOSPC, result, fd;
	void *pages;

	fd = pages_make(ADOPTED, &len, &pages, false);
	if (fd < 0)
		return fd;
	memcpy(pages, (void *)(uintptr_t)at, len);
	STEP();
	if (mremap(pages, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)(uintptr_t)at) ==
		MAP_FAILED) {
		result = -errno;
		munmap(pages, len);
		close(fd);
		return result;
	}
	/* from here on the application has its bytes where they were, even if the rest fails */
	STEP();
	result = pins_tell(ctx, (void *)(uintptr_t)at, len);
	if (result == 0)
		result = watched = pins_watch(ctx, (void *)(uintptr_t)at, len, PIN_NONE);
	if (result >= 0)
		result = share(ctx, fd, (void *)(uintptr_t)at, len, watched);
	if (result != 0 && watched >= 0)
		pins_unwatch(ctx, watched);
	close(fd);
	return result;
}

/* Replace a piece by new pages, huge or not, and share them. Return whether they are shared. */
static bool
copy_and_share(struct pmx_context *ctx, const struct rma_piece *p, bool huge)
{
	uint64_t len = p->len;
	void *pages;
	int fd = pages_make(PAGES_ALLOCATED, &len, &pages, huge);

	if (fd < 0)
		return false;
	memcpy(pages, p->addr, p->len);
	bool here = mremap(pages, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, p->addr) != MAP_FAILED;

	if (!here)
		munmap(pages, len);
	bool shared = here && share(ctx, fd, p->addr, len, -1) == 0;

	close(fd);
	return shared;
}

/* Share a piece of the previous engine with the new one. Its pages are copied, since this process
 * kept no descriptor of them. If that fails, the piece is the application's alone until the next
 * time. */
static void
share_again(struct pmx_context *ctx, const struct rma_piece *p)
{
	struct client_rma *rma = ctx->rma;
	bool huge = (((uintptr_t)p->addr | p->len) & (PAGES_HUGE - 1)) == 0;

	if (p->watched >= 0) {
		if (pins_tell(ctx, p->addr, p->len) == 0)
			adopt_pages(ctx, (uintptr_t)p->addr, p->len);
		return;
	}
	if ((huge && copy_and_share(ctx, p, true)) || copy_and_share(ctx, p, false))
		return;
	for (uint32_t i = 0; i < MEMORIES_MAX; i++) {
		if (rma->unshared[i].addr == NULL) {
			rma->unshared[i] = *p;
			return;
		}
	}
}

static void
memory_rejoin(struct pmx_context *ctx)
{
	struct client_rma *rma = ctx->rma;
	struct rma_piece before[2 * MEMORIES_MAX];

	memcpy(before, rma->pieces, sizeof(rma->pieces));
	memcpy(before + MEMORIES_MAX, rma->unshared, sizeof(rma->unshared));
	memset(rma->pieces, 0, sizeof(rma->pieces));
	memset(rma->unshared, 0, sizeof(rma->unshared));
	rma->pieces_used = 0;
	for (uint32_t i = 0; i < 2 * MEMORIES_MAX; i++) {
		if (before[i].addr != NULL)
			share_again(ctx, &before[i]);
	}
}

static int
adopt(struct pmx_context *ctx, const void *addr, uint64_t len)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)addr & ~(page - 1);
	int64_t memory = piece_of(ctx, addr, len);

	if (memory != MEMORY_COPIED)
		return memory < 0 ? (int)memory : 0; /* already shared */
	len = (((uintptr_t)addr + len + page - 1) & ~(page - 1)) - at;
	int result = check_private(at, len);

	if (result == 0) /* before anything is changed */
		result = pins_tell(ctx, (void *)(uintptr_t)at, len);
	if (result != 0)
		return result;
	pmx_invalidate((void *)(uintptr_t)at, len);
	return adopt_pages(ctx, at, len);
}

/* ------------------------------------------------------------------ regions */

/* Submit a request about a region, and wait for the engine's answer. */
static int
memory_ask(struct pmx_context *ctx, const struct submission *question, uint64_t *key)
{
	struct client_rma *rma = ctx->rma;
	struct submission *s = submission_slot(ctx);

	if (s == NULL)
		return -EPIPE;
	memcpy(s, question, sizeof(*s));
	s->region.ticket = ++rma->ticket;
	rma->answer.here = false;
	memory_submit(ctx);
	while (!rma->answer.here || rma->answer.ticket != rma->ticket) {
		if (ctx_gone(ctx))
			return -EPIPE;
		ctx_wait(ctx);
		ctx_completions(ctx);
	}
	*key = rma->answer.key;
	return -(int)rma->answer.error;
}

/* Pin and watch memory that is not of pmx_alloc() while it is registered. */
static int
memory_hold(struct pmx_context *ctx, const void *addr, uint64_t len, struct registration **out)
{
	struct registration *r = calloc(1, sizeof(*r));
	uint32_t pin;
	int result = r ? pins_get(ctx, addr, len, &pin) : -ENOMEM;

	if (result == 0) {
		result = r->watched = pins_watch(ctx, addr, len, pin);
		if (result >= 0) {
			*out = r;
			return 0;
		}
		pins_put(pin);
	}
	free(r);
	return result;
}

static void
let_go(struct pmx_context *ctx, struct registration *r)
{
	pins_unwatch(ctx, r->watched);
	free(r);
}

static bool
access_ok(unsigned access)
{
	const unsigned remote = PMX_REMOTE_READ | PMX_REMOTE_WRITE;

	return access != 0 && (access & ~(remote | PMX_ADOPT | PMX_ANYONE)) == 0 &&
		(!(access & PMX_ANYONE) || access & remote);
}

static uint8_t
rights_of(unsigned access)
{
	return (access & PMX_REMOTE_READ ? REGION_READ : 0) |
		(access & PMX_REMOTE_WRITE ? REGION_WRITE : 0) |
		(access & PMX_ANYONE ? REGION_ANYONE : 0);
}

int
ctx_register(struct pmx_context *ctx, uint32_t group, uint32_t area, void *addr, uint64_t len,
	unsigned access, struct pmx_remote *remote)
{
	struct client_rma *rma = ctx->rma;
	struct registration *r = NULL;
	uint64_t key;
	int result = 0;

	if (rma->sweep)
		pieces_sweep(ctx);
	if (len == 0 || len > REGION_BYTES_MAX || !access_ok(access))
		return -EINVAL;
	if (access & PMX_ADOPT)
		result = adopt(ctx, addr, len);
	if (result != 0)
		return result;
	*remote = (struct pmx_remote){
		.owner = pmx_context_addr(ctx),
		.addr = (uintptr_t)addr,
		.len = len,
	};
	if (access == PMX_ADOPT)
		return 0;
	int64_t memory = piece_of(ctx, addr, len);

	if (memory < 0)
		return (int)memory;
	if (memory == MEMORY_COPIED && rma->no_kernel)
		return -EOPNOTSUPP;
	result = memory == MEMORY_COPIED ? memory_hold(ctx, addr, len, &r) : 0;

	if (result != 0)
		return result;
	const struct submission question = {
		.op = SUBMIT_REGISTER,
		.region =
			{
				.addr = (uintptr_t)addr,
				.len = len,
				.memory = (uint32_t)memory,
				.area = area,
				.group = group,
				.watched = r ? (uint32_t)r->watched : REGIONS_WATCHED,
				.rights = rights_of(access),
			},
	};
	result = memory_ask(ctx, &question, &key);
	if (result != 0) {
		if (r != NULL)
			let_go(ctx, r);
		return result;
	}
	if (r != NULL) {
		r->key = key;
		r->next = rma->registrations;
		rma->registrations = r;
	}
	remote->key = key;
	return 0;
}

int
pmx_register(struct pmx_context *ctx, void *addr, uint64_t len, unsigned access,
	struct pmx_remote *remote)
{
	/* whoever has the key is meant by it, so nobody needs to be named */
	return access & PMX_ANYONE
		? -EINVAL
		: ctx_register(ctx, 0, REGION_NO_AREA, addr, len, access, remote);
}

int
pmx_area_register(struct pmx_context *ctx, uint32_t id, void *addr, uint64_t len, unsigned access,
	struct pmx_remote *remote)
{
	return id == REGION_NO_AREA ? -EINVAL : ctx_register(ctx, 0, id, addr, len, access, remote);
}

int
pmx_deregister(struct pmx_context *ctx, uint64_t key)
{
	const struct submission question = {.op = SUBMIT_DEREGISTER, .region = {.key = key}};
	uint64_t unused;
	int result = memory_ask(ctx, &question, &unused);

	if (result == -EBUSY) /* others have it pinned, so it stays registered */
		return result;
	for (struct registration **link = &ctx->rma->registrations; *link != NULL;
		link = &(*link)->next) {
		struct registration *r = *link;

		if (r->key != key)
			continue;
		*link = r->next;
		let_go(ctx, r);
		break;
	}
	return result;
}

static int
memory_leave(struct pmx_context *ctx)
{
	struct client_rma *rma = ctx->rma;

	while (rma->registrations != NULL) {
		struct registration *r = rma->registrations;

		rma->registrations = r->next;
		let_go(ctx, r);
	}
	for (uint32_t i = 0; i < rma->pieces_used; i++) {
		const struct rma_piece *p = &rma->pieces[i];

		if (p->addr != NULL && p->watched >= 0)
			/* the memory itself stays with the application */
			pins_unwatch(ctx, p->watched);
	}
	return 0;
}

static void
memory_close(struct pmx_context *ctx)
{
	struct client_rma *rma = ctx->rma;

	if (rma == NULL)
		return;
	memory_leave(ctx);
	for (uint32_t i = 0; i < rma->pieces_used; i++) {
		const struct rma_piece *p = &rma->pieces[i];

		if (p->addr != NULL && p->watched < 0)
			munmap(p->addr, p->len);
	}
	free(rma->kept_events);
	free(rma->transfers);
	free(rma->places);
	*rma = (struct client_rma){0};
}

const struct client_service client_memory = {
	.name = "memory",
	.close = memory_close,
	.leave = memory_leave,
	.rejoined = memory_rejoin,
};
