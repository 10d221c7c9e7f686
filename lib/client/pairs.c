/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How pairs begin and end; see pairs.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include "base/clock.h"
#include "base/process.h"
#include "channel/passing.h"
#include "client/pairs.h"

#define PAIRS_MAX       128 /* of a context */
/* messages; a long one counts for as many as it has PAIR_EAGER bytes */
#define ASK_AFTER       32
#define ASK_AGAIN       65535 /* ... after the primary has refused */
#define LOOK_EVERY      256   /* turns, but at most once in ... */
#define LOOK_US         500
#define ANSWER_MOST     16 /* in one look */
#define ANSWER_AGAIN_MS 1000
#define WAKES           8  /* taken from a socket at once */
#define SLEEP_TURNS     32 /* looks that a sleep is worth */
/* offers that only those that are expected may be */
#define EXPECTED        (PAIR_OFFERS / 4)

/* ------------------------------------------------------------------ life */

static void
set_near(struct pmx_context *ctx)
{
	ctx->near_node = ctx->pairs->all != NULL ? ctx->pair_node : PAIR_NONE;
}

static int
pairs_open(struct pmx_context *ctx)
{
	if (ctx->node->way->ask == NULL || !ctx->shm->pairs || ctx->shm->engine_matches)
		return 0;
	ctx->pairs = calloc(1, sizeof(*ctx->pairs));
	if (ctx->pairs == NULL)
		return -ENOMEM;
	for (unsigned i = 0; i < WIRE_CONTEXTS_MAX; i++)
		ctx->pairs->of[i].left = ASK_AFTER;
	ctx->pair_node = ctx->node->number;
	return 0;
}

/* End the requests whose offers nobody will fetch. */
static void
reset_offers(struct pmx_context *ctx, struct pair *p)
{
	for (; p->offered != 0; p->offered &= p->offered - 1) {
		if (ctx->match != NULL)
			ctx->request_ended(ctx, p->requests[__builtin_ctzll(p->offered)],
				ECONNRESET);
	}
}

/* Take the pair away from its peer: nothing more is sent by it, and another may begin. */
static void
detach(struct pmx_context *ctx, struct pair *p)
{
	reset_offers(ctx, p);
	if (ctx->pairs->of[p->ctx].pair != p)
		return;
	ctx->pairs->of[p->ctx].pair = NULL;
	ctx->pairs->of[p->ctx].left = ASK_AFTER;
}

static void
unlink_from(struct pair **at, struct pair *p)
{
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
}

static void
free_pair(struct pair *p)
{
	if (p->shm != NULL)
		munmap(p->shm, sizeof(*p->shm));
	free(p);
}

static void
pairs_release(struct pmx_context *ctx, struct pair *p)
{
	struct pairs *x = ctx->pairs;

	detach(ctx, p);
	if (x->from == p)
		x->from = p->next;
	unlink_from(&x->all, p);
	x->count--;
	set_near(ctx);
	if (p->shm != NULL)
		atomic_store(&p->shm->side[p->side].closed, 1);
	if (p->process >= 0)
		close(p->process);
	close(p->socket);
	if (p->held == 0) {
		free_pair(p);
		return;
	}
	p->state = PAIR_LEFT;
	p->next = x->left;
	x->left = p;
}

void
pairs_free_left(struct pmx_context *ctx, struct pair *p)
{
	unlink_from(&ctx->pairs->left, p);
	free_pair(p);
}

static void
pairs_close(struct pmx_context *ctx)
{
	struct pairs *x = ctx->pairs;

	if (x == NULL)
		return;
	while (x->all != NULL)
		pairs_release(ctx, x->all);
	while (x->left != NULL)
		pairs_free_left(ctx, x->left);
	free(x);
	ctx->pairs = NULL;
}

void
pairs_forget(struct pmx_context *ctx)
{
	/* what messages that were received are read in stays */
	for (struct pair *p = ctx->pairs != NULL ? ctx->pairs->all : NULL; p != NULL; p = p->next) {
		if (p->process >= 0)
			close(p->process);
		close(p->socket);
	}
	ctx->pairs = NULL;
	ctx->pair_node = ctx->near_node = PAIR_NONE;
}

static bool
is_empty(struct pair *p)
{
	uint64_t word;
	const uint8_t *message;
	uint32_t len;

	for (unsigned k = 0; k < PAIR_KINDS && p->shm != NULL; k++) {
		enum pair_found found = pair_peek(&p->flow[k].in, &word, &message, &len);

		if (found == PAIR_FOUND || found == PAIR_FOUND_LONG)
			return false;
	}
	return true;
}

void
pair_is_read(struct pmx_context *ctx, struct pair *p, bool broken)
{
	if (broken || (p->state == PAIR_ENDED && is_empty(p)))
		pairs_release(ctx, p);
}

/* End the pair, whose other side is gone. What that sent before waits to be received; if there is
 * nothing, release the pair at once. */
static void
pairs_end(struct pmx_context *ctx, struct pair *p)
{
	p->state = PAIR_ENDED;
	for (unsigned k = 0; k < PAIR_KINDS; k++)
		p->flow[k].sends = false;
	if (p->shm != NULL)
		pair_fetched(ctx, p);
	detach(ctx, p);
	pair_is_read(ctx, p, false);
}

/* ------------------------------------------------------------------ hello */

static void
attach(struct pair *p, struct pair_shm *shm)
{
	p->shm = shm;
	for (unsigned k = 0; k < PAIR_KINDS; k++) {
		p->flow[k].out = (struct pair_end){
			.ring = shm->ring[p->side][k],
			.taken = &shm->side[!p->side].say[k].taken,
		};
		p->flow[k].in = (struct pair_end){
			.ring = shm->ring[!p->side][k],
			.taken = &shm->side[p->side].say[k].taken,
		};
	}
	p->longs.at = shm->longs[p->side];
	p->longs.given = &shm->side[!p->side].longs;
}

/* Say hello, side 0 with the memory. */
static int
greet(struct pair *p, int memory)
{
	const struct pair_hello hello = {PAIR_MAGIC, CHANNEL_ABI, p->id, (uintptr_t)&p->word,
		p->word};
	int fds[2] = {(int)syscall(SYS_pidfd_open, getpid(), 0), memory};

	if (fds[0] < 0)
		return -errno;
	ssize_t n = passing_send(p->socket, &hello, sizeof(hello), fds, memory >= 0 ? 2 : 1,
		MSG_DONTWAIT);

	close(fds[0]);
	return n == sizeof(hello) ? 0 : -EPIPE;
}

/* Return whether it is what pidfd_open() gives: others could make a look at it wait. */
static bool
is_process(int fd)
{
	static const char pidfd[] = "anon_inode:[pidfd]";
	char path[32], what[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	ssize_t n = readlink(path, what, sizeof(what) - 1);

	return n == (ssize_t)strlen(pidfd) && memcmp(what, pidfd, (size_t)n) == 0;
}

/* Map the other side's memory if it is what it has to be: pages that are there for good. */
static struct pair_shm *
map(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct statfs fs;
	struct stat s;

	if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstatfs(fd, &fs) != 0 ||
		fs.f_type != TMPFS_MAGIC || fstat(fd, &s) != 0 ||
		s.st_size < (off_t)sizeof(struct pair_shm))
		return NULL;
	void *at = mmap(NULL, sizeof(struct pair_shm), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return at != MAP_FAILED ? at : NULL;
}

/* Copy from the memory of another process. 0, or an errno. */
static int
copy_from(int pid, uint64_t at, void *to, uint64_t len)
{
	uint8_t *local = to;

	while (len != 0) {
		struct iovec mine = {local, len}, its = {(void *)(uintptr_t)at, len};
		ssize_t n = process_vm_readv(pid, &mine, 1, &its, 1, 0);

		if (n <= 0)
			return n == 0 ? EFAULT : errno == ESRCH ? ECONNRESET : errno;
		local += n;
		at += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

/* Return whether the other side's memory can be read here. */
static bool
is_readable(const struct pair *p, const struct pair_hello *hello)
{
	uint64_t word = 0;

	return copy_from(p->pid, hello->at, &word, sizeof(word)) == 0 && word == hello->word;
}

/* Read the hello of the other side. false: it is gone, or that is no hello. */
static bool
meet(struct pair *p)
{
	struct pair_hello hello;
	unsigned n;
	int fds[2];
	ssize_t len = passing_receive(p->socket, &hello, sizeof(hello), fds, 2, &n);
	bool good = len == sizeof(hello) && hello.magic == PAIR_MAGIC && hello.abi == CHANNEL_ABI &&
		n == 1u + p->side && is_process(fds[0]);
	struct pair_shm *shm = good && p->side == 1 ? map(fds[1]) : NULL;

	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return true;
	if (n > 1)
		close(fds[1]);
	if (!good || (p->side == 1 && shm == NULL)) {
		if (n > 0)
			close(fds[0]);
		return false;
	}
	p->process = fds[0];
	if (p->side == 1) {
		p->id = hello.id;
		attach(p, shm);
		if (greet(p, -1) != 0)
			return false;
	}
	p->state = PAIR_OPEN;
	p->reads = is_readable(p, &hello);
	p->in_place = p->reads && prctl(PR_GET_DUMPABLE) == 1;
	atomic_store(&p->shm->side[p->side].met, p->reads ? PAIR_READS : PAIR_MEETS);
	return true;
}

/* ------------------------------------------------------------------ beginning */

/* Make the memory, at side 0, and offer it to the other side. 0, or -errno. */
static int
invite(struct pair *p)
{
	uint64_t len = sizeof(struct pair_shm);
	void *at;
	int memory = pages_reserve(PAGES_ALLOCATED, &len, &at, false);

	if (memory < 0)
		return -ENOMEM;
	/* the pages of long messages come with these */
	if (madvise(at, offsetof(struct pair_shm, longs), MADV_POPULATE_WRITE) != 0) {
		munmap(at, len);
		close(memory);
		return -ENOMEM;
	}
	attach(p, at);
	int result = greet(p, memory);

	close(memory);
	return result;
}

/* Have what the other side sends by the socket wake this context. 0, or -errno. */
static int
listen_to(const struct pmx_context *ctx, const struct pair *p)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};

	return epoll_ctl(ctx->event_fd, EPOLL_CTL_ADD, p->socket, &event) == 0 ? 0 : -errno;
}

/* Let go of a pair that has ended, if there is no room for another: one whose marks were lost with
 * their process. Return whether there is room. */
static bool
make_room(struct pmx_context *ctx)
{
	struct pairs *x = ctx->pairs;

	for (struct pair *p = x->all; x->count >= PAIRS_MAX && p != NULL; p = p->next) {
		if (p->state == PAIR_ENDED && !p->flow[PAIR_MATCHED].receives &&
			!p->flow[PAIR_PLAIN].receives) {
			pairs_release(ctx, p);
			break;
		}
	}
	return x->count < PAIRS_MAX;
}

/* Ask the primary for a pair with that context; PAIR_ANY: with any that has asked for one. 0, or
 * -errno. */
static int
pairs_ask(struct pmx_context *ctx, uint64_t peer)
{
	const struct attach_request request = {
		.abi = CHANNEL_ABI,
		.op = ATTACH_PAIR,
		.pid = getpid(),
		.ctx = ctx->ctx,
		.generation = ctx->generation,
		.addr = peer,
	};
	struct pairs *x = ctx->pairs;
	struct attach_reply reply;
	uint64_t numbers[2];
	int fd[2] = {-1, -1};

	if (!make_room(ctx))
		return -ENOSPC;
	int result = ctx->node->way->ask(ctx->node, &request, -1, &reply, fd);

	if (result != 0)
		return result;
	struct pair *p = calloc(1, sizeof(*p));

	if (p == NULL || fd[0] < 0 || reply.ctx >= WIRE_CONTEXTS_MAX ||
		getrandom(numbers, sizeof(numbers), 0) != sizeof(numbers)) {
		free(p);
		if (fd[0] >= 0)
			close(fd[0]);
		return -ENOMEM;
	}
	*p = (struct pair){
		.next = x->all,
		.side = reply.memory != 0,
		.ctx = reply.ctx,
		.socket = fd[0],
		.process = -1,
		.pid = reply.pid,
		.id = numbers[0], /* side 1: until the other has said its own */
		.word = numbers[1],
		.serial = ++x->serial,
	};
	x->all = p;
	x->count++;
	set_near(ctx);
	if (x->of[p->ctx].pair != NULL)
		pairs_end(ctx, x->of[p->ctx].pair); /* that was with one before it */
	x->of[p->ctx].pair = p;
	if (p->side == 0)
		result = invite(p);
	if (result == 0)
		result = listen_to(ctx, p);
	if (result != 0)
		pairs_release(ctx, p);
	return result;
}

/* ------------------------------------------------------------------ looking */

/* Take what the other side sent by the socket: its hello, or bytes that only wake this context. The
 * end of the socket ends the pair, which may be gone afterwards. */
static void
pairs_hear(struct pmx_context *ctx, struct pair *p)
{
	char wake[WAKES];
	ssize_t n;

	if (p->state == PAIR_JOINS) {
		const uint16_t peer = p->ctx;

		if (!meet(p)) {
			pairs_release(ctx, p);
			ctx->pairs->of[peer].left = ASK_AGAIN;
			return;
		}
		if (p->state == PAIR_JOINS)
			return;
	}
	do
		n = recv(p->socket, wake, sizeof(wake), MSG_DONTWAIT);
	while (n > 0);
	if (n == 0 || (errno != EAGAIN && errno != EINTR))
		pairs_end(ctx, p);
}

/* Answer those who ask for a pair. Those that cannot be answered now are again in a second. */
static void
pairs_answer(struct pmx_context *ctx)
{
	struct pairs *x = ctx->pairs;
	const uint32_t asked = atomic_load_explicit(&ctx->shm->pairs_asked, memory_order_relaxed);
	int result = 0;

	if (asked == x->asked || ctx_gone(ctx) || x->heard_at < x->ask_at)
		return;
	for (unsigned i = 0; i < ANSWER_MOST && result == 0; i++)
		result = pairs_ask(ctx, PAIR_ANY);
	if (result == -ENOENT)
		x->asked = asked;
	else if (result != 0)
		x->ask_at = x->heard_at + ANSWER_AGAIN_MS;
}

/* Tell the receiver to read the ring without a mark. */
static void
no_mark_comes(struct pair *p, enum pair_kind kind)
{
	p->flow[kind].marking = false;
	atomic_store(&p->shm->side[p->side].say[kind].engines, 1);
	pair_tell(p);
}

/* See what became of marks. One that ended with an error has reached nobody, and neither did
 * anything that was sent before it and has not. */
static void
look_at_marks(struct pmx_context *ctx, struct pair *p)
{
	for (unsigned k = 0; k < PAIR_KINDS; k++) {
		int result = p->flow[k].marking ? ctx_send_result(ctx, p->flow[k].mark) : 0;

		if (result < 0)
			no_mark_comes(p, k);
		else if (result == 1)
			p->flow[k].marking = false;
	}
}

static void
client_pairs_look(struct pmx_context *ctx)
{
	struct pairs *x = ctx->pairs;
	struct pollfd fds[2 * PAIRS_MAX];
	struct pair *of[PAIRS_MAX];
	unsigned n = 0;

	x->heard_at = clock_coarse_ms();
	pairs_answer(ctx);
	ctx->shm->paired.pairs = x->count;
	for (struct pair *p = x->all, *next; p != NULL; p = next) {
		next = p->next;
		if (p->state == PAIR_ENDED)
			continue;
		look_at_marks(ctx, p);
		fds[2 * n] = (struct pollfd){.fd = p->socket, .events = POLLIN | POLLRDHUP};
		fds[2 * n + 1] = (struct pollfd){.fd = p->process, .events = POLLIN};
		of[n++] = p;
	}
	if (n == 0 || poll(fds, 2 * n, 0) <= 0)
		return;
	for (unsigned i = 0; i < n; i++) {
		if (fds[2 * i + 1].revents != 0)
			pairs_end(ctx, of[i]);
		else if (fds[2 * i].revents != 0)
			pairs_hear(ctx, of[i]);
	}
}

void
pairs_hasten(struct pmx_context *ctx, struct pmx_addr to, uint64_t len)
{
	const uint64_t worth = len / PAIR_EAGER;

	if (to.node != ctx->pair_node)
		return;
	uint16_t *left = &ctx->pairs->of[to.context].left;

	*left = worth < *left ? (uint16_t)(*left - worth) : 0;
}

/* Return the pair with that context, if messages of that kind may be sent by it, or do what leads
 * to one. */
static struct pair *
approach(struct pmx_context *ctx, uint16_t peer, enum pair_kind kind)
{
	struct pairs *x = ctx->pairs;

	if (clock_coarse_ms() - x->heard_at >= PAIRS_STALE_MS && x->all != NULL)
		client_pairs_look(ctx);
	struct pair *p = x->of[peer].pair;

	if (p == NULL) {
		if (peer != ctx->ctx && x->of[peer].left-- == 0)
			x->of[peer].left = pairs_ask(ctx, peer) == 0 ? ASK_AFTER : ASK_AGAIN;
		return NULL;
	}
	const uint32_t met = p->state == PAIR_OPEN ? atomic_load(&p->shm->side[!p->side].met) : 0;

	if (met == 0) {
		pairs_look(ctx); /* who only sends looks too */
		return NULL;
	}
	if (pair_is_closed(p)) { /* and perhaps its context is open again */
		pairs_end(ctx, p);
		return NULL;
	}
	return kind == PAIR_PLAIN || (p->reads && met == PAIR_READS) ? p : NULL;
}

struct pair *
pairs_begin(struct pmx_context *ctx, struct pmx_addr to, enum pair_kind kind, uint64_t first)
{
	struct pair *p = approach(ctx, to.context, kind);

	if (p == NULL || p->flow[kind].sends)
		return p;
	const uint64_t words[2] = {first, wire_be64(p->id)};
	struct pair_flow *f = &p->flow[kind];
	struct pmx_buffer buf;

	if (pmx_get_send_buffer(ctx, sizeof(words), &buf) != 0)
		return NULL;
	memcpy(buf.data, words, sizeof(words));
	if (ctx_submit(ctx, to, &buf, kind == PAIR_PLAIN ? SUBMIT_SEND : SUBMIT_MATCHED,
		    &f->mark) != 0) {
		pmx_discard_buffer(ctx, &buf);
		return NULL;
	}
	ctx->stat.sent--; /* the application did not send it, but it will be counted */
	f->sends = f->marking = true;
	return p;
}

bool
pairs_may_begin(const struct pmx_context *ctx, struct pmx_addr to)
{
	if (to.node != ctx->pair_node || to.context == ctx->ctx)
		return false;
	const struct pair *p = ctx->pairs->of[to.context].pair;

	if (p == NULL)
		return ctx->pairs->of[to.context].left <= ASK_AFTER;
	const uint32_t met = p->shm != NULL ? atomic_load(&p->shm->side[!p->side].met) : 0;

	return p->state == PAIR_JOINS || (p->reads && (met == 0 || met == PAIR_READS));
}

void
pairs_mark(struct pmx_context *ctx, uint16_t peer, uint64_t id, enum pair_kind kind)
{
	if (ctx->pairs == NULL)
		return;
	for (struct pair *p = ctx->pairs->all; p != NULL; p = p->next) {
		if (p->ctx == peer && p->id == id && p->shm != NULL)
			p->flow[kind].receives = true;
	}
	ctx->pairs->turns = LOOK_EVERY; /* its hello may not have been heard yet */
	ctx->pairs->looked_at = 0;
}

void
pairs_look(struct pmx_context *ctx)
{
	struct pairs *x = ctx->pairs;

	if (likely(++x->turns < LOOK_EVERY))
		return;
	const int64_t now = clock_us();

	x->turns = 0;
	if (now - x->looked_at < LOOK_US)
		return;
	x->looked_at = now;
	client_pairs_look(ctx);
}

bool
pairs_landed(const struct pmx_context *ctx)
{
	for (struct pair *p = ctx->pairs != NULL ? ctx->pairs->all : NULL; p != NULL; p = p->next) {
		if (pair_has(ctx, p, PAIR_MATCHED))
			return true;
		if (p->offered != 0 &&
			atomic_load_explicit(&p->shm->side[!p->side].fetched,
				memory_order_acquire) != p->fetched)
			return true;
	}
	return false;
}

/* ------------------------------------------------------------------ offers */

uint32_t
pair_offer(struct pair *p, const void *bytes, uint32_t request, bool expected)
{
	const uint64_t free = ~p->offered;

	if ((uint32_t)__builtin_popcountll(free) <= (expected ? 0 : EXPECTED))
		return PAIR_NONE;
	uint32_t i = (uint32_t)__builtin_ctzll(free);

	p->offered |= 1ull << i;
	p->requests[i] = request;
	atomic_store_explicit(&p->shm->side[!p->side].results[i], 0, memory_order_relaxed);
	/* its head is published after it */
	atomic_store_explicit(&p->shm->side[p->side].offers[i], (uintptr_t)bytes,
		memory_order_relaxed);
	return i;
}

int
pairs_fetch(struct pmx_context *ctx, uint32_t serial, uint32_t offer, void *to, uint64_t len)
{
	struct pair *p = ctx->pairs != NULL ? ctx->pairs->all : NULL;

	while (p != NULL && p->serial != serial)
		p = p->next;
	if (p == NULL || p->state == PAIR_ENDED || pair_is_closed(p))
		return ECONNRESET;
	if (offer >= PAIR_OFFERS)
		return EPROTO;
	struct pair_side *mine = &p->shm->side[p->side];
	int error = copy_from(p->pid,
		atomic_load_explicit(&p->shm->side[!p->side].offers[offer], memory_order_relaxed),
		to, len);

	/* if it still lives, it was not another process of its number that was read */
	if (error == 0 && process_has_ended(p->process))
		error = ECONNRESET;
	atomic_store_explicit(&mine->results[offer], (uint32_t)error + 1, memory_order_release);
	atomic_fetch_add_explicit(&mine->fetched, 1, memory_order_release);
	pair_tell(p);
	return error;
}

void
pair_fetched(struct pmx_context *ctx, struct pair *p)
{
	struct pair_side *other = &p->shm->side[!p->side];
	uint32_t fetched = atomic_load_explicit(&other->fetched, memory_order_acquire);

	if (likely(fetched == p->fetched))
		return;
	p->fetched = fetched;
	for (uint64_t left = p->offered; left != 0; left &= left - 1) {
		uint32_t i = (uint32_t)__builtin_ctzll(left);
		uint32_t result = atomic_load_explicit(&other->results[i], memory_order_acquire);

		if (result == 0)
			continue;
		p->offered &= ~(1ull << i);
		ctx->request_ended(ctx, p->requests[i], (uint8_t)(result - 1));
	}
}

/* ------------------------------------------------------------------ sleeping */

void
pair_wake(struct pair *p)
{
	if (atomic_exchange(&p->shm->side[!p->side].sleeps, 0))
		send(p->socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void
pairs_sleeps(struct pmx_context *ctx, bool sleeps)
{
	if (ctx->pairs == NULL)
		return;
	/* what woke it may be a peer's end, which is told once */
	ctx->pairs->turns = sleeps ? ctx->pairs->turns + SLEEP_TURNS : LOOK_EVERY;
	for (struct pair *p = ctx->pairs->all, *next; p != NULL; p = next) {
		next = p->next;
		if (p->state != PAIR_OPEN)
			continue;
		if (sleeps)
			atomic_store_explicit(&p->shm->side[p->side].sleeps, 1,
				memory_order_relaxed);
		else if (!atomic_exchange(&p->shm->side[p->side].sleeps, 0))
			pairs_hear(ctx, p); /* woken by it */
	}
}

/* ------------------------------------------------------------------ another engine */

/* Go on with another engine: what this context sent by its last engine has come, or never will,
 * marks too. */
static void
pairs_rejoined(struct pmx_context *ctx)
{
	if (ctx->pairs == NULL) {
		pairs_open(ctx); /* without memory for it all goes by the engine */
		return;
	}
	ctx->pair_node = ctx->shm->pairs ? ctx->node->number : PAIR_NONE;
	set_near(ctx);
	ctx->pairs->asked = 0;
	for (struct pair *p = ctx->pairs->all; p != NULL; p = p->next) {
		listen_to(ctx, p);
		for (unsigned k = 0; k < PAIR_KINDS; k++) {
			if (p->flow[k].sends)
				no_mark_comes(p, k);
		}
	}
}

const struct client_service client_pairs = {
	.name = "pairs",
	.open = pairs_open,
	.close = pairs_close,
	.sleeps = pairs_sleeps,
	.rejoined = pairs_rejoined,
};
