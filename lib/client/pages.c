/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Pages that this process can share with its engine.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"

#define ASK_ABOVE (4u << 20) /* bytes; reading how much there is takes some 50 us */

int
pages_reserve(const char *name, uint64_t *len, void **addr, bool huge)
{
	uint64_t page = huge ? PAGES_HUGE : (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t all = (*len + page - 1) & ~(page - 1);
	int fd = memfd_create(name,
		MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB | MFD_HUGE_2MB : 0));

	STEP();
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)all) != 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0 ||
		(*addr = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) ==
			MAP_FAILED) {
		int error = errno;

		close(fd);
		return -error;
	}
	*len = all;
	STEP();
	return fd;
}

int
pages_make(const char *name, uint64_t *len, void **addr, bool huge)
{
	if (!huge && *len > ASK_ABOVE && *len > available_memory())
		return -ENOMEM;
	int fd = pages_reserve(name, len, addr, huge);

	if (fd >= 0 && madvise(*addr, *len, MADV_POPULATE_WRITE) != 0) {
		int error = errno;

		munmap(*addr, *len);
		close(fd);
		return -error;
	}
	return fd;
}

int
pages_alloc(uint64_t *len, void **addr)
{
	int fd = *len >= PAGES_HUGE / 2 ? pages_make(PAGES_ALLOCATED, len, addr, true) : -ENOMEM;

	return fd < 0 ? pages_make(PAGES_ALLOCATED, len, addr, false) : fd;
}
