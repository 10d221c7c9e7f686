/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory for secrets, in whole pages: not written to swap, as far as the limit of locked memory
 * allows, and in no core dump and no child of this process. Any thread.
 */
#ifndef PMX_BASE_SECRET_H
#define PMX_BASE_SECRET_H

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

/* Return so many bytes, all 0, or NULL. */
static inline void *
secret_alloc(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return NULL;
	mlock2(at, bytes, MLOCK_ONFAULT);
	madvise(at, bytes, MADV_DONTDUMP);
	madvise(at, bytes, MADV_WIPEONFORK);
	return at;
}

/* Wipe and free it. */
static inline void
secret_free(void *at, size_t bytes)
{
	if (at == NULL)
		return;
	explicit_bzero(at, bytes);
	munmap(at, bytes);
}

#endif
