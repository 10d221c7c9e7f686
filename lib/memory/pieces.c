/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pieces of applications' memory that this process has mapped: they are made, belong to a context,
 * and are unmapped when nothing refers to them.
 *
 * Design notes
 * 1. Accesses to a client's memory must never fail: the descriptor must be a memfd that is sealed
 *    against shrinking and growing, and every page is there before it is used. A client may still
 *    punch holes into it, for which the kernel may find no page: then a page of the primary's own
 *    is mapped there (guard.h), and only that client's bytes are lost. An embedded node, which runs
 *    in its application's process, must not handle signals: instead it seals the memory against
 *    future writes, which forbids holes. A primary cannot do that, since then nobody could map it
 *    for writing any more, not even a primary that takes over.
 * 2. Mapping and unmapping take system calls, for devices some of milliseconds, so lanes do
 *    neither. The thread that answers the client maps. A lane puts what it does not need any more
 *    into a list, and the thread that watches processes unmaps it when ports have given back the
 *    last frame that refers to it, which may be long after its context ended. An embedded node has
 *    no such thread: the one that polls does it.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <rte_eal.h>

#include "memory/devices.h"
#include "memory/guard.h"
#include "memory/memory.h"

#define PIECE_MAX (1ull << 40)

const char *const memory_method_name[MEMORY_METHODS] = {
	[MEMORY_BY_KERNEL] = "kernel",
	[MEMORY_SHARED] = "shared",
	[MEMORY_ADOPTED] = "adopted",
	[MEMORY_SHARED_DMA] = "shared, dma",
	[MEMORY_ADOPTED_DMA] = "adopted, dma",
};

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

	return fstatfs(fd, &fs) == 0 && fs.f_type == HUGETLBFS_MAGIC
		? (uint64_t)fs.f_bsize
		: (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Map a client's descriptor. Return its address, or MAP_FAILED with errno. again: another primary
 * had mapped it, and the client may have punched holes into it since, which harms only itself. */
static void *
map_fd(int fd, uint64_t len, bool again)
{
	const int needed = F_SEAL_SHRINK | F_SEAL_GROW;
	struct stat st;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || (seals & needed) != needed || fstat(fd, &st) != 0 || len == 0 ||
		len > PIECE_MAX || len % page_of_fd(fd) != 0 /* munmap() would fail */ ||
		(uint64_t)st.st_size < len) {
		errno = EINVAL;
		return MAP_FAILED;
	}
	void *base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (base == MAP_FAILED)
		return base;
	/* Check that all pages are there. The client has made them, so this takes no memory and
	 * little time. MADV_POPULATE_WRITE returns an error where a mere access would raise
	 * SIGBUS. */
	if ((guard_is_on() ? !guard_add(base, len, page_of_fd(fd))
			   : !(seals & F_SEAL_FUTURE_WRITE) &&
				    fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) != 0) ||
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
memory_make(struct mappings *x, int fd, uint64_t len, uint64_t client, uint16_t adopted,
	unsigned flags)
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
	m->fd = guard_is_on() ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : 0;
	if (m->fd < 0) {
		int error = errno;

		memory_discard(x, m);
		errno = error;
		return NULL;
	}
	m->watched = adopted && adopted <= REGIONS_WATCHED ? adopted - 1 : REGIONS_WATCHED;
	/* when a hole is punched, the physical address of the page may be given to others, but a
	 * device would go on using it */
	if ((flags & MEMORY_OF_THIN) == 0 || rte_eal_iova_mode() != RTE_IOVA_PA)
		devices_map(x, m, page_of_fd(fd));
	return m;
}

void
memory_discard(struct mappings *x, struct memory *m)
{
	devices_unmap(x, m);
	guard_remove(m->base);
	pthread_mutex_lock(&x->lock);
	munmap(m->base, m->len);
	pthread_mutex_unlock(&x->lock);
	if (m->fd > 0)
		close(m->fd);
	if (m->owner != NULL)
		m->end_owner(m->owner);
	free(m);
}

enum memory_method
memory_method(const struct memory *m)
{
	if (m->watched < REGIONS_WATCHED)
		return m->for_devices ? MEMORY_ADOPTED_DMA : MEMORY_ADOPTED;
	return m->for_devices ? MEMORY_SHARED_DMA : MEMORY_SHARED;
}

int
space_add(struct memory_space *s, struct memory *m)
{
	if (m->len > s->most - s->bytes)
		return -ENOMEM;
	for (int i = 0; i < MEMORIES_MAX; i++) {
		if (s->pieces[i] != NULL)
			continue;
		s->pieces[i] = m;
		s->count++;
		s->bytes += m->len;
		return i;
	}
	return -ENOSPC;
}

struct memory *
space_at(const struct memory_space *s, uint32_t number, uint64_t at, uint64_t len)
{
	struct memory *m = number < MEMORIES_MAX ? s->pieces[number] : NULL;

	if (m == NULL || at < m->client || len > m->len || at - m->client > m->len - len)
		return NULL;
	return m;
}

void
memory_let_go(struct memory *m)
{
	atomic_fetch_sub_explicit(&m->held, 1, memory_order_release);
}

static void
reaper_call(struct mappings *x)
{
	if (x->reaper > 0)
		eventfd_write(x->reaper, 1);
	else
		memory_reap(x);
}

static void
leaving_put(struct mappings *x, struct memory *m)
{
	m->next = atomic_load_explicit(&x->leaving, memory_order_relaxed);
	while (!atomic_compare_exchange_weak(&x->leaving, &m->next, m))
		;
}

void
memory_retire(struct mappings *x, struct memory *m)
{
	leaving_put(x, m);
	reaper_call(x);
}

static void
piece_leaves(struct mappings *x, struct memory_space *s, uint32_t number)
{
	struct memory *m = s->pieces[number];

	s->pieces[number] = NULL;
	s->count--;
	s->bytes -= m->len;
	leaving_put(x, m);
}

void
space_remove(struct mappings *x, struct memory_space *s, uint32_t number)
{
	piece_leaves(x, s, number);
	reaper_call(x);
}

void
space_end(struct mappings *x, struct memory_space *s)
{
	if (s->count == 0)
		return;
	for (uint32_t i = 0; i < MEMORIES_MAX; i++) {
		if (s->pieces[i] != NULL)
			piece_leaves(x, s, i);
	}
	reaper_call(x);
}

bool
memory_reap(struct mappings *x)
{
	struct memory *m = atomic_exchange(&x->leaving, NULL), *next;

	for (; m != NULL; m = next) {
		next = m->next;
		m->next = x->left;
		x->left = m;
	}
	for (struct memory **at = &x->left; (m = *at) != NULL;) {
		/* acquire: reads of ports come before they let go */
		if (atomic_load_explicit(&m->held, memory_order_acquire) != 0) {
			at = &m->next;
			continue;
		}
		*at = m->next;
		memory_discard(x, m);
	}
	return x->left != NULL;
}

void
mappings_init(struct mappings *x, const struct link *links, const unsigned *link_count)
{
	*x = (struct mappings){.links = links, .link_count = link_count};
	pthread_mutex_init(&x->lock, NULL);
}

void
mappings_free(struct mappings *x)
{
	memory_reap(x);
	while (x->left != NULL) {
		struct memory *m = x->left;

		x->left = m->next;
		memory_discard(x, m);
	}
	pthread_mutex_destroy(&x->lock);
}
