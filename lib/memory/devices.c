/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Memory of applications that the links' devices read by themselves: registered with the EAL as
 * external memory, and mapped for each device. Called by the thread that makes or frees the memory,
 * never on a lane that others wait for.
 *
 * Design notes
 * 1. With IOVA as VA the memory is mapped in one piece, in an IOMMU. With IOVA as PA it is mapped
 *    page by page, and only if it is on hugepages, since the kernel may move or swap others; a
 *    device without an IOMMU then needs no mapping.
 * 2. If anything fails here (the IOMMU supports fewer address bits, the tables of the EAL or of the
 *    VFIO container are full, the driver cannot map), the memory stays usable: its bytes are copied
 *    into frames, as for a link that sends only one segment. The log mentions only the first case.
 *    The reason is in the EAL's own log, since its error codes do not tell.
 * 3. Mapping memory in an IOMMU also pins it.
 */
#define ALLOW_EXPERIMENTAL_API /* rte_dev_dma_map */
#include <errno.h>
#include <stdlib.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_memory.h>

#include "link.h"
#include "log/log.h"
#include "memory/devices.h"

#define PAGES_MAX (1u << 20)

static bool
has_devices(const struct mappings *x)
{
	for (unsigned i = 0; i < *x->link_count; i++) {
		if (x->links[i].device != NULL)
			return true;
	}
	return false;
}

static uint64_t
whole_pages(const struct memory *m, uint64_t page)
{
	return (m->len + page - 1) & ~(page - 1);
}

/* Return the bus address of each page in an array, for the caller to free; NULL with errno. */
static rte_iova_t *
find_pages(const struct memory *m, uint64_t page, uint32_t n, bool physical)
{
	rte_iova_t *pages = calloc(n, sizeof(*pages));

	for (uint32_t i = 0; pages != NULL && i < n; i++) {
		uint8_t *at = m->base + i * page;

		pages[i] = physical ? rte_mem_virt2phy(at) : (rte_iova_t)(uintptr_t)at;
		if (pages[i] != RTE_BAD_IOVA)
			continue;
		free(pages);
		errno = EPERM;
		return NULL;
	}
	return pages;
}

/* Return the size of the pieces that are mapped for a device: all of the memory, or a page. */
static uint64_t
piece_bytes(const struct memory *m, uint64_t all)
{
	return m->pages != NULL ? 1ull << m->page_shift : all;
}

static void
unmap_for(struct rte_device *device, const struct memory *m, uint64_t all)
{
	uint64_t piece = piece_bytes(m, all);

	/* ports may share an IOMMU container: for the second, failing is right, since nothing is
	 * mapped */
	for (uint64_t at = 0; at < all; at += piece)
		rte_dev_dma_unmap(device, m->base + at, memory_iova(m, at, 1), piece);
}

/* Map the memory for one device. Return 0, or -EIO with nothing mapped for this device. */
static int
map_for(struct rte_device *device, const struct memory *m, uint64_t all)
{
	uint64_t piece = piece_bytes(m, all);

	for (uint64_t at = 0; at < all; at += piece) {
		if (rte_dev_dma_map(device, m->base + at, memory_iova(m, at, 1), piece) == 0)
			continue;
		if (m->pages != NULL && rte_errno == ENOTSUP && at == 0)
			return 0; /* no IOMMU: it reads by physical addresses */
		unmap_for(device, m, at);
		return -EIO;
	}
	return 0;
}

/* Unmap the memory for the devices of the first `links` links. */
static void
unmap_for_all(const struct mappings *x, const struct memory *m, uint64_t all, unsigned links)
{
	for (unsigned i = 0; i < links; i++) {
		if (x->links[i].device != NULL)
			unmap_for(x->links[i].device, m, all);
	}
}

static int
map_for_all(const struct mappings *x, const struct memory *m, uint64_t all)
{
	for (unsigned i = 0; i < *x->link_count; i++) {
		int result = x->links[i].device != NULL ? map_for(x->links[i].device, m, all) : 0;

		if (result != 0) {
			unmap_for_all(x, m, all, i);
			return result;
		}
	}
	return 0;
}

static int
map(const struct mappings *x, struct memory *m, uint64_t page)
{
	bool physical = rte_eal_iova_mode() == RTE_IOVA_PA;

	if (physical && page < RTE_PGSIZE_2M)
		return -EMEDIUMTYPE;
	if (!physical && page < RTE_PGSIZE_2M &&
		(((uintptr_t)m->base | m->len) & (RTE_PGSIZE_2M - 1)) == 0)
		page = RTE_PGSIZE_2M; /* only the page size for the EAL's table: fewer entries */
	uint64_t all = whole_pages(m, page);

	if (all / page > PAGES_MAX)
		return -E2BIG;
	rte_iova_t *pages = find_pages(m, page, (uint32_t)(all / page), physical);

	if (pages == NULL)
		return -errno;
	int result = rte_extmem_register(m->base, all, pages, (unsigned)(all / page), page) == 0
		? 0
		: -rte_errno;

	m->pages = physical ? pages : NULL;
	m->page_shift = (uint8_t)rte_bsf64(page);
	if (!physical)
		free(pages);
	if (result == 0) {
		result = map_for_all(x, m, all);
		if (result != 0)
			rte_extmem_unregister(m->base, all);
	}
	if (result != 0) {
		free(m->pages);
		m->pages = NULL;
	}
	return result;
}

void
devices_map(const struct mappings *x, struct memory *m, uint64_t page)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;

	if (!has_devices(x))
		return;
	int result = map(x, m, page);

	m->for_devices = result == 0;
	if (result != 0 && !atomic_flag_test_and_set(&said))
		log_say(LOG_LINK, RTE_LOG_NOTICE,
			"%llu bytes of an application are not mapped for the ports' devices (%s); "
			"pushes and pulls from there are copied into frames",
			(unsigned long long)m->len,
			result == -EMEDIUMTYPE   ? "physical addresses need memory of hugepages"
				: result == -EIO ? "the IOMMU refused: see the EAL's lines before"
						 : rte_strerror(-result));
}

void
devices_unmap(const struct mappings *x, struct memory *m)
{
	if (!m->for_devices)
		return;
	uint64_t all = whole_pages(m, 1ull << m->page_shift);

	unmap_for_all(x, m, all, *x->link_count);
	rte_extmem_unregister(m->base, all);
	free(m->pages);
	m->pages = NULL;
	m->for_devices = false;
}
