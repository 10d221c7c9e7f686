/* SPDX-License-Identifier: BSD-3-Clause
 *
 * How the engine reaches memory of an application: pages that both have mapped, or by the kernel.
 *
 * Design notes
 * 1. What the engine maps of a client must never fail under it: the descriptor is a memfd that is sealed
 *    against shrinking and growing, and every page is there before it is used. A client may still punch holes into it, and
 *    the kernel find no page for them: then the page becomes one of the primary's own (SIGBUS), and only that client's bytes
 *    are lost. An embedded node, which is its application's process, takes no signal: it seals the memory against future writes,
 *    which forbids holes. A primary cannot: nobody could map it for writing any more, the one that takes over included.
 * 2. By the kernel means by the client's addresses as they are at that moment: memory that was
 *    unmapped, moved or protected since gives an error, and never old bytes.
 * 3. A process that calls exec, or dies and is followed by another of its number, has other memory at the same
 *    addresses. So before the engine writes by number it asks whether the memory of the open is still there.
 * 4. Mapping and unmapping take system calls, for devices some of milliseconds. Who attaches maps; what a
 *    lane has no use for goes to a list, and the thread that watches processes frees it when the last frame that
 *    a port has of it is gone, which may be long after its context. An embedded node has no such thread: the
 *    one that polls does it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <rte_eal.h>

#include "engine/engine.h"

#define PIECE_MAX (1ull << 40)

const char *const memory_method_name[MEMORY_METHODS] = {
	[MEMORY_BY_KERNEL] = "kernel",
	[MEMORY_SHARED] = "shared",
	[MEMORY_ADOPTED] = "adopted",
	[MEMORY_SHARED_DMA] = "shared, dma",
	[MEMORY_ADOPTED_DMA] = "adopted, dma",
};

/* ------------------------------------------------------------------ by the kernel */

static bool
is_gone(const struct remote *r, uint64_t at)
{
	char byte;

	return r->mm_fd >= 0 && pread(r->mm_fd, &byte, 1, (off_t)at) == 0;
}

static int
kernel_copy(const struct bytes *b, uint64_t offset, void *mine, uint32_t len, bool write)
{
	struct iovec local = {mine, len}, remote = {(void *)(uintptr_t)(b->at + offset), len};
	int pid = b->ch->remote->vm_pid;

	if (write && is_gone(b->ch->remote, b->at + offset))
		return -EFAULT;
	ssize_t n = write ? process_vm_writev(pid, &local, 1, &remote, 1, 0) :
			    process_vm_readv(pid, &local, 1, &remote, 1, 0);

	return n == (ssize_t)len ? 0 : -EFAULT;
}

int
memory_write(const struct bytes *to, uint64_t offset, const void *from, uint32_t len)
{
	if (unlikely(to->memory == NULL))
		return kernel_copy(to, offset, (void *)(uintptr_t)from, len, true);
	memcpy(to->memory->base + (to->at - to->memory->client) + offset, from, len);
	return 0;
}

int
memory_read(const struct bytes *from, uint64_t offset, void *to, uint32_t len)
{
	if (unlikely(from->memory == NULL))
		return kernel_copy(from, offset, to, len, false);
	memcpy(to, from->memory->base + (from->at - from->memory->client) + offset, len);
	return 0;
}

int
memory_gather(const struct bytes *from, uint64_t offset, const struct iovec *pieces, unsigned n, uint64_t all)
{
	struct iovec remote = {(void *)(uintptr_t)(from->at + offset), all};

	return process_vm_readv(from->ch->remote->vm_pid, pieces, n, &remote, 1, 0) == (ssize_t)all ? 0 : -EFAULT;
}

void
scatter_begin(struct scatter *s, const struct bytes *b, bool write)
{
	s->b = b;
	s->write = write;
	s->n = 0;
	s->total = 0;
	s->local = (struct iovec *)s->room;
	s->remote = s->local + SCATTER_MAX;
}

int
scatter_end(struct scatter *s)
{
	int pid = s->b->ch->remote->vm_pid;
	unsigned n = s->n;

	s->n = 0;
	if (n == 0)
		return 0;
	if (s->write && is_gone(s->b->ch->remote, s->b->at))
		return -EFAULT;
	ssize_t done = s->write ? process_vm_writev(pid, s->local, n, s->remote, n, 0) :
				  process_vm_readv(pid, s->local, n, s->remote, n, 0);
	bool all = done == (ssize_t)s->total;

	s->total = 0;
	return all ? 0 : -EFAULT;
}

/* `mine` is used until scatter_end, unless the memory is mapped. */
int
scatter_add(struct scatter *s, uint64_t offset, void *mine, uint32_t len)
{
	if (s->b->memory != NULL)
		return s->write ? memory_write(s->b, offset, mine, len) : memory_read(s->b, offset, mine, len);
	if (s->n == SCATTER_MAX && scatter_end(s) != 0)
		return -EFAULT;
	s->local[s->n] = (struct iovec){mine, len};
	s->remote[s->n++] = (struct iovec){(void *)(uintptr_t)(s->b->at + offset), len};
	s->total += len;
	return 0;
}

uint8_t
memory_place(const struct bytes *to, uint64_t offset, const uint8_t *runs, uint32_t len, uint64_t *placed)
{
	struct wire_runs r = {runs, len, offset, 0, 0};
	const uint8_t *bytes;
	struct scatter s;

	scatter_begin(&s, to, true);
	while ((bytes = wire_run_next(&r)) != NULL) {
		if (r.at > to->len || r.len > to->len - r.at)
			return EPROTO;
		if (scatter_add(&s, r.at, (void *)(uintptr_t)bytes, r.len) != 0)
			return EFAULT;
		*placed += r.len;
	}
	if (r.left != 0)
		return EPROTO;
	return scatter_end(&s) == 0 ? 0 : EFAULT;
}

/* ------------------------------------------------------------------ mapped by both */

static bool
has_pages(int fd, uint64_t len)
{
	struct stat st;

	if (fstat(fd, &st) != 0 || (uint64_t)st.st_blocks * 512 < len) {
		errno = EINVAL;
		return false;
	}
	return true;
}

static uint64_t
page_of_fd(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)fs.f_bsize :
								       (uint64_t)sysconf(_SC_PAGESIZE);
}

#define GUARDED_MAX 8192

static struct {
	bool on;
	struct {
		_Atomic uintptr_t base; /* 0: the place is free */
		size_t len, page;
	} maps[GUARDED_MAX];
} guard;

/* No page could be found for what a client has a hole in. */
static void
on_sigbus(int number, siginfo_t *info, void *context)
{
	uintptr_t at = info->si_code == BUS_ADRERR ? (uintptr_t)info->si_addr : 0; /* a wrong alignment would come again */

	(void)context;
	for (unsigned i = 0; i < GUARDED_MAX; i++) {
		uintptr_t base = atomic_load_explicit(&guard.maps[i].base, memory_order_acquire);

		if (base == 0 || at < base || at - base >= guard.maps[i].len)
			continue;
		void *page = (void *)(at & ~(guard.maps[i].page - 1));

		if (mmap(page, guard.maps[i].page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == page)
			return;
	}
	signal(number, SIG_DFL); /* none of ours: it happens again, and ends us */
}

void
memory_guard(void)
{
	struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};

	guard.on = sigaction(SIGBUS, &action, NULL) == 0;
}

static bool
guard_add(void *base, size_t len, size_t page)
{
	for (unsigned i = 0; i < GUARDED_MAX; i++) {
		uintptr_t none = 0;

		/* 1: taken, and at no address */
		if (atomic_load_explicit(&guard.maps[i].base, memory_order_relaxed) != 0 ||
			!atomic_compare_exchange_strong(&guard.maps[i].base, &none, 1))
			continue;
		guard.maps[i].len = len;
		guard.maps[i].page = page;
		atomic_store_explicit(&guard.maps[i].base, (uintptr_t)base, memory_order_release);
		return true;
	}
	return false;
}

static void
guard_remove(const void *base)
{
	for (unsigned i = 0; i < GUARDED_MAX; i++) {
		if (atomic_load_explicit(&guard.maps[i].base, memory_order_relaxed) == (uintptr_t)base)
			atomic_store_explicit(&guard.maps[i].base, 0, memory_order_release);
	}
}

/* A client's descriptor becomes a mapping, or MAP_FAILED with errno. again: another primary had it, and what the client did to it
 * since is its own affair. */
static void *
map_fd(int fd, uint64_t len, bool again)
{
	const int needed = F_SEAL_SHRINK | F_SEAL_GROW;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & needed) != needed || fstat(fd, &st) != 0 || len == 0 || len > PIECE_MAX ||
		len % page_of_fd(fd) != 0 /* it could not be unmapped */ || (uint64_t)st.st_size < len) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	void *base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (base == MAP_FAILED)
		return base;
	/* are its pages there? The client made them: this takes no memory, and little time. POPULATE_WRITE says what
	 * touching would make a SIGBUS of. */
	if ((guard.on ? !guard_add(base, len, page_of_fd(fd)) :
			!(seals & F_SEAL_FUTURE_WRITE) && fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) ||
		(!again && (!has_pages(fd, len) || madvise(base, len, MADV_POPULATE_WRITE) != 0))) {
		int error = errno;

		guard_remove(base);
		munmap(base, len);
		errno = error;
		return MAP_FAILED;
	}
	return base;
}

struct memory *
memory_make(struct node *n, int fd, uint64_t len, uint64_t client, uint16_t adopted, unsigned flags)
{
	struct memory *m = calloc(1, sizeof(*m));

	if (m == NULL)
		return NULL;
	m->base = map_fd(fd, len, flags & MEMORY_AGAIN);
	m->len = len;
	if (m->base == MAP_FAILED) {
		int error = errno;

		free(m);
		errno = error;
		return NULL;
	}
	m->client = client;
	m->fd = guard.on ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : 0;
	if (m->fd < 0) {
		int error = errno;

		memory_discard(n, m);
		errno = error;
		return NULL;
	}
	m->watched = adopted && adopted <= REGIONS_WATCHED ? adopted - 1 : REGIONS_WATCHED;
	/* physical addresses stay what they are when a page leaves by a hole, and then are somebody else's */
	if ((flags & MEMORY_OF_THIN) == 0 || rte_eal_iova_mode() != RTE_IOVA_PA)
		devices_map(n, m, page_of_fd(fd));
	return m;
}

void
memory_discard(struct node *n, struct memory *m)
{
	devices_unmap(n, m);
	guard_remove(m->base);
	pthread_mutex_lock(&n->regions);
	munmap(m->base, m->len);
	pthread_mutex_unlock(&n->regions);
	if (m->fd > 0)
		close(m->fd);
	if (m->thin != NULL)
		thin_free(m->thin);
	free(m);
}

int
memory_open(struct node *n, struct command *cmd, bool wait, int fd, uint64_t len, uint64_t client, uint16_t adopted)
{
	const struct channel *ch = &n->channels[cmd->ctx];

	/* asked here as well: mapping in vain takes its time, on the thread that attaches others */
	if (ch->thin != NULL && len > ch->shared_most - ch->remote->mapped_bytes)
		return -ENOMEM;
	cmd->op = COMMAND_MEMORY;
	cmd->memory = memory_make(n, fd, len, client, adopted, ch->thin != NULL ? MEMORY_OF_THIN : 0);
	if (cmd->memory == NULL)
		return errno == EINVAL ? -EINVAL : -ENOMEM;
	int result = node_command(n, cmd, wait);

	if (result < 0)
		memory_discard(n, cmd->memory);
	return result;
}

enum memory_method
memory_method(const struct memory *m)
{
	if (m->watched < REGIONS_WATCHED)
		return m->for_devices ? MEMORY_ADOPTED_DMA : MEMORY_ADOPTED;
	return m->for_devices ? MEMORY_SHARED_DMA : MEMORY_SHARED;
}

int
memory_add(struct channel *ch, struct memory *m)
{
	struct remote *r = ch->remote;

	if (ch->thin != NULL && r->mapped_bytes + m->len > ch->shared_most)
		return -ENOMEM;
	for (int i = 0; i < MEMORIES_MAX; i++) {
		if (r->memories[i] != NULL)
			continue;
		r->memories[i] = m;
		r->mapped_pieces++;
		r->mapped_bytes += m->len;
		return i;
	}
	return -ENOSPC;
}

struct memory *
memory_at(struct channel *ch, uint32_t number, uint64_t at, uint64_t len)
{
	struct memory *m = number < MEMORIES_MAX ? ch->remote->memories[number] : NULL;

	if (m == NULL || at < m->client || len > m->len || at - m->client > m->len - len)
		return NULL;
	return m;
}

/* A frame, or a port, no longer refers to it. */
void
memory_let_go(struct memory *m)
{
	atomic_fetch_sub_explicit(&m->held, 1, memory_order_release);
}

/* ------------------------------------------------------------------ what leaves */

static void
call_reaper(struct node *n)
{
	if (n->reaper > 0)
		eventfd_write(n->reaper, 1);
	else
		memory_reap(n);
}

static void
put_leaving(struct node *n, struct memory *m)
{
	m->next = atomic_load_explicit(&n->leaving, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&n->leaving, &m->next, m))
		;
}

void
memory_retire(struct node *n, struct memory *m)
{
	put_leaving(n, m);
	call_reaper(n);
}

static void
leave(struct node *n, struct channel *ch, uint32_t number)
{
	struct remote *r = ch->remote;
	struct memory *m = r->memories[number];

	r->memories[number] = NULL;
	r->mapped_pieces--;
	r->mapped_bytes -= m->len;
	put_leaving(n, m);
}

void
memory_forget(struct engine *e, struct channel *ch, uint32_t number)
{
	struct memory *m = number < MEMORIES_MAX ? ch->remote->memories[number] : NULL;

	if (m == NULL)
		return;
	if (ch->matching != NULL) /* first: what waits for a place would begin with it */
		matching_memory_gone(e, ch, m);
	transfer_memory_gone(e, ch, m);
	target_memory_gone(e, ch, m);
	leave(e->node, ch, number);
	call_reaper(e->node);
}

void
memory_end(struct node *n, struct channel *ch)
{
	if (ch->remote->mapped_pieces == 0)
		return;
	for (uint32_t i = 0; i < MEMORIES_MAX; i++) {
		if (ch->remote->memories[i] != NULL)
			leave(n, ch, i);
	}
	call_reaper(n);
}

bool
memory_reap(struct node *n)
{
	struct memory *m = atomic_exchange(&n->leaving, NULL), *next;

	for (; m != NULL; m = next) {
		next = m->next;
		m->next = n->left;
		n->left = m;
	}
	for (struct memory **at = &n->left; (m = *at) != NULL;) {
		/* acquire: what ports read before they let go */
		if (atomic_load_explicit(&m->held, memory_order_acquire) != 0) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		memory_discard(n, m);
	}
	return n->left != NULL;
}

void
memory_reap_all(struct node *n)
{
	memory_reap(n);
	while (n->left != NULL) {
		struct memory *m = n->left;

		n->left = m->next;
		memory_discard(n, m);
	}
}
