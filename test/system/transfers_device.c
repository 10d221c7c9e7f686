/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A port that reads by DMA, in the test of remote memory (transfers.c).
 */
#include <rte_errno.h>

#include "transfers.h"

/* The loop link as a NIC would be: it reads second segments by their bus addresses, only where they
 * were mapped for it, which it refuses now and then, and gives mbufs back late. rte_dev_dma_map and
 * rte_dev_dma_unmap are wrapped by the linker. */
#define MAPS 64
#define LATE 64 /* frames sent and not given back */

static struct device {
	struct {
		uint64_t iova, len;
	} maps[MAPS];
	struct rte_mbuf *sent[LATE];
	uint64_t frames, segments, mapped, not_mapped;
} devices[NODES];
static struct link_ops device_ops;

int __real_rte_dev_dma_map(struct rte_device *dev, void *addr, uint64_t iova, size_t len);
int __wrap_rte_dev_dma_map(struct rte_device *dev, void *addr, uint64_t iova, size_t len);
int __real_rte_dev_dma_unmap(struct rte_device *dev, void *addr, uint64_t iova, size_t len);
int __wrap_rte_dev_dma_unmap(struct rte_device *dev, void *addr, uint64_t iova, size_t len);

int
__wrap_rte_dev_dma_map(struct rte_device *dev, void *addr, uint64_t iova, size_t len)
{
	struct device *d = (struct device *)dev;

	if (ports[0] != NULL)
		return unmapped ? 0 : __real_rte_dev_dma_map(dev, addr, iova, len);
	if (iova != (uintptr_t)addr || iova % 4096 || len % 4096)
		fail("rte_dev_dma_map: %p as %lx, %zu bytes", addr, iova, len);
	for (unsigned i = (d->mapped + d->not_mapped) % 3 == 2 ? MAPS : 0; i < MAPS; i++) {
		if (d->maps[i].len != 0)
			continue;
		d->maps[i].iova = iova;
		d->maps[i].len = len;
		d->mapped++;
		return 0;
	}
	d->not_mapped++;
	rte_errno = ENOSPC;
	return -1;
}

int
__wrap_rte_dev_dma_unmap(struct rte_device *dev, void *addr, uint64_t iova, size_t len)
{
	struct device *d = (struct device *)dev;

	if (ports[0] != NULL)
		return unmapped ? 0 : __real_rte_dev_dma_unmap(dev, addr, iova, len);
	for (unsigned i = 0; i < MAPS; i++) {
		if (d->maps[i].len != len || d->maps[i].iova != iova)
			continue;
		d->maps[i].len = 0;
		return 0;
	}
	fail("rte_dev_dma_unmap: %p, %zu bytes, was not mapped", addr, len);
	return -1;
}

static bool
device_reads(struct device *d, const struct rte_mbuf *m)
{
	uint64_t at = rte_mbuf_data_iova(m);

	d->segments++;
	for (unsigned i = 0; i < MAPS; i++) {
		if (d->maps[i].len != 0 && at >= d->maps[i].iova &&
			at + m->data_len <= d->maps[i].iova + d->maps[i].len)
			return at == rte_pktmbuf_mtod(m, uintptr_t);
	}
	return false;
}

void
device_flush(unsigned n)
{
	for (unsigned i = 0; i < LATE; i++) {
		rte_pktmbuf_free(devices[n].sent[i]);
		devices[n].sent[i] = NULL;
	}
}

static uint16_t
device_tx(struct link *l, uint16_t queue, struct rte_mbuf **bufs, uint16_t n)
{
	struct device *d = &devices[l->node];
	uint16_t taken;

	for (uint16_t i = 0; i < n; i++) {
		if (bufs[i]->next != NULL && !device_reads(d, bufs[i]->next))
			fail("node %u: a frame refers to %p, which is not mapped for the port",
				l->node, rte_pktmbuf_mtod(bufs[i]->next, void *));
		for (struct rte_mbuf *m = bufs[i]; m != NULL; m = m->next)
			rte_mbuf_refcnt_update(m, 1);
	}
	taken = link_loop_ops.tx(l, queue, bufs, n);
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf **late = &d->sent[d->frames % LATE];

		if (i >= taken) { /* the caller's alone again */
			for (struct rte_mbuf *m = bufs[i]; m != NULL; m = m->next)
				rte_mbuf_refcnt_update(m, -1);
			continue;
		}
		rte_pktmbuf_free(*late);
		*late = bufs[i];
		d->frames++;
	}
	return taken;
}

static void
device_close(struct link *l)
{
	device_flush(l->node);
	link_loop_ops.close(l);
}

void
device_become(unsigned n)
{
	struct link *l = &nodes[n]->embedded->links[0];

	device_ops = link_loop_ops;
	device_ops.tx = device_tx;
	device_ops.close = device_close;
	l->ops = &device_ops;
	l->device = (struct rte_device *)&devices[n];
}

void
device_check(unsigned n)
{
	const struct device *d = &devices[n];

	if (d->segments == 0 || d->mapped == 0 || d->not_mapped == 0)
		fail("node %u: the port read %lu pieces of memory, %lu were mapped for it, %lu not",
			n, d->segments, d->mapped, d->not_mapped);
	for (unsigned i = 0; i < MAPS; i++) {
		if (d->maps[i].len != 0)
			fail("node %u: %lu bytes are still mapped for the port", n, d->maps[i].len);
	}
}
