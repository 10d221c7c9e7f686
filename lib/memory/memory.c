/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies bytes from and to applications' memory: where it is mapped, or by the kernel. Runs on the
 * lane.
 *
 * Design notes
 * 1. The kernel copies by the client's addresses as they are mapped at that moment: memory that was
 *    unmapped, moved or protected since causes an error, and never yields stale bytes.
 * 2. After exec, or when a process dies and its PID is reused, other memory is at the same
 *    addresses. So before the engine writes by PID it checks whether the memory of the time of the
 *    open still exists.
 */
#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "memory/memory.h"
#include "core/wire/wire.h"

/* ------------------------------------------------------------------ by the kernel */

static bool
is_gone(const struct memory_space *s, uint64_t at)
{
	char byte;

	return s->mm_fd >= 0 && pread(s->mm_fd, &byte, 1, (off_t)at) == 0;
}

static __attribute__((noinline)) int
kernel_copy(const struct bytes *b, uint64_t offset, void *mine, uint32_t len, bool write)
{
	struct iovec local = {mine, len}, remote = {(void *)(uintptr_t)(b->at + offset), len};
	int pid = b->space->pid;

	if (write && is_gone(b->space, b->at + offset))
		return -EFAULT;
	ssize_t n = write ? process_vm_writev(pid, &local, 1, &remote, 1, 0)
			  : process_vm_readv(pid, &local, 1, &remote, 1, 0);

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

/* ------------------------------------------------------------------ several ranges at once */

void
scatter_begin(struct scatter *s, struct memory_space *space, bool write)
{
	s->space = space;
	s->write = write;
	s->mine_count = s->theirs_count = 0;
	s->total = 0;
}

int
scatter_end(struct scatter *s)
{
	const int pid = s->space->pid;
	const unsigned n = s->mine_count, k = s->theirs_count;
	const uint64_t total = s->total;

	scatter_begin(s, s->space, s->write);
	if (n == 0)
		return 0;
	if (s->write && is_gone(s->space, (uintptr_t)s->theirs[0].iov_base))
		return -EFAULT;
	ssize_t done = s->write ? process_vm_writev(pid, s->mine, n, s->theirs, k, 0)
				: process_vm_readv(pid, s->mine, n, s->theirs, k, 0);

	return done == (ssize_t)total ? 0 : -EFAULT;
}

int
scatter_add(struct scatter *s, uint64_t at, void *mine, uint32_t len)
{
	if (s->mine_count == SCATTER_MAX && scatter_end(s) != 0)
		return -EFAULT;
	struct iovec *last = s->theirs + s->theirs_count;

	s->mine[s->mine_count++] = (struct iovec){mine, len};
	s->total += len;
	if (s->theirs_count != 0 && (uintptr_t)last[-1].iov_base + last[-1].iov_len == at)
		last[-1].iov_len += len;
	else
		s->theirs[s->theirs_count++] = (struct iovec){(void *)(uintptr_t)at, len};
	return 0;
}

/* Add a range as scatter_add() does, but copy it at once if it is mapped. */
static int
add(struct scatter *s, const struct bytes *b, uint64_t offset, void *mine, uint32_t len)
{
	if (b->memory == NULL)
		return scatter_add(s, b->at + offset, mine, len);
	return s->write ? memory_write(b, offset, mine, len) : memory_read(b, offset, mine, len);
}

int
memory_fill(const struct bytes *from, uint64_t offset, uint8_t *runs, uint32_t len)
{
	struct wire_runs r = {runs, len, offset, 0, 0};
	const uint8_t *bytes;
	struct scatter s;

	scatter_begin(&s, from->space, false);
	while ((bytes = wire_run_next(&r)) != NULL) {
		if (add(&s, from, r.at, (void *)(uintptr_t)bytes, r.len) != 0)
			return -EFAULT;
	}
	return scatter_end(&s);
}

uint8_t
memory_place(const struct bytes *to, uint64_t offset, const uint8_t *runs, uint32_t len,
	uint64_t *placed)
{
	struct wire_runs r = {runs, len, offset, 0, 0};
	const uint8_t *bytes;
	struct scatter s;

	scatter_begin(&s, to->space, true);
	while ((bytes = wire_run_next(&r)) != NULL) {
		if (r.at > to->len || r.len > to->len - r.at)
			return EPROTO;
		if (add(&s, to, r.at, (void *)(uintptr_t)bytes, r.len) != 0)
			return EFAULT;
		*placed += r.len;
	}
	if (r.left != 0)
		return EPROTO;
	return scatter_end(&s) == 0 ? 0 : EFAULT;
}
