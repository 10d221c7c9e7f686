/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Copies from frames into the memory of applications by a DMA device (rte_dmadev), where the
 * configuration names one for the lane. Runs on the lane; made and closed with it.
 *
 * Design notes
 * 1. The device completes its copies in order, and so does this file: what must not be reported
 *    before the bytes are there (the end of a push) is queued behind them, as a job without a copy.
 * 2. A frame's mbuf, its entry of the target's room, and the memory are held until its copy is
 *    done.
 * 3. Devices work on bus addresses. With IOVA as virtual addresses those are the engine's own; for
 *    a device behind an IOMMU the memory must be mapped by rte_dev_dma_map, which happens when the
 *    engine maps it.
 * 4. A copy that the device reports as failed is done by the CPU.
 */
#define ALLOW_EXPERIMENTAL_API /* rte_dmadev is experimental in DPDK 22.11 */
#include <errno.h>
#include <string.h>

#include <rte_dmadev.h>
#include <rte_pause.h>

#include "rma/engine/dma.h"

/* Write the i-th name of a comma-separated list. Return false if there is none. */
static bool
dma_name_of(const char *list, unsigned i, char *out, size_t size)
{
	for (; i > 0; i--) {
		list = strchr(list, ',');
		if (list == NULL)
			return false;
		list++;
	}
	size_t len = strcspn(list, ",");

	snprintf(out, size, "%.*s", (int)len, list);
	return len > 0;
}

int
dma_open(struct engine *e, char *error, size_t error_len)
{
	struct dma *d = &rma_lane(e)->dma;
	const struct rte_dma_conf conf = {.nb_vchans = 1};
	struct rte_dma_vchan_conf queue = {
		.direction = RTE_DMA_DIR_MEM_TO_MEM,
		.nb_desc = DMA_COPIES,
	};
	struct rte_dma_info info;
	char name[64];

	d->device = -1;
	if (!dma_name_of(e->node->config.dma, e->lane, name, sizeof(name)))
		return 0;
	int device = rte_dma_get_dev_id_by_name(name);

	if (device < 0 || rte_dma_info_get((int16_t)device, &info) != 0) {
		snprintf(error, error_len,
			"engine.dma: there is no DMA device '%s': give the EAL one, e.g. "
			"--vdev=dma_skeleton",
			name);
		return -ENODEV;
	}
	if (queue.nb_desc > info.max_desc)
		queue.nb_desc = info.max_desc;
	if (queue.nb_desc < info.min_desc)
		queue.nb_desc = info.min_desc;
	int result = rte_dma_configure((int16_t)device, &conf);

	if (result == 0)
		result = rte_dma_vchan_setup((int16_t)device, 0, &queue);
	if (result == 0)
		result = rte_dma_start((int16_t)device);
	if (result != 0) {
		snprintf(error, error_len, "engine.dma: the DMA device '%s' does not start: %s",
			name, strerror(-result));
		return result;
	}
	d->device = device;
	return 0;
}

void
dma_close(struct engine *e)
{
	struct dma *d = &rma_lane(e)->dma;

	if (d->device < 0 || e->node == NULL || e->node->config.dma[0] == 0)
		return;
	rte_dma_stop((int16_t)d->device);
	for (; d->head != d->tail; d->head++)
		rte_pktmbuf_free(d->jobs[d->head % DMA_COPIES].m);
}

bool
dma_copy_begin(struct engine *e, struct channel *ch, const struct arrival *a, struct memory *memory,
	uint8_t *to)
{
	struct dma *d = &rma_lane(e)->dma;

	if (a->m == NULL || a->msg.len < DMA_MIN || d->tail - d->head == DMA_COPIES)
		return false;
	if (rte_dma_copy((int16_t)d->device, 0, (rte_iova_t)(uintptr_t)a->msg.bytes,
		    (rte_iova_t)(uintptr_t)to, a->msg.len, RTE_DMA_OP_FLAG_SUBMIT) < 0)
		return false;
	atomic_fetch_add_explicit(&memory->held, 1, memory_order_relaxed);
	d->jobs[d->tail++ % DMA_COPIES] = (struct dma_job){
		.m = a->m,
		.memory = memory,
		.to = to,
		.generation = ch->generation,
		.ctx = ch->ctx,
		.a = *a,
		.copies = true,
	};
	d->begun++;
	service_busy(e, RMA_SERVICE);
	return true;
}

bool
dma_queue(struct engine *e, struct channel *ch, const struct arrival *a)
{
	struct dma *d = &rma_lane(e)->dma;

	if (a->m == NULL || d->tail - d->head == DMA_COPIES)
		return false;
	d->jobs[d->tail++ % DMA_COPIES] =
		(struct dma_job){.m = a->m, .generation = ch->generation, .ctx = ch->ctx, .a = *a};
	return true;
}

static void
dma_finish(struct engine *e, struct dma_job *j)
{
	struct channel *ch = &e->node->channels[j->ctx];

	if (j->memory != NULL)
		memory_let_go(j->memory);
	if (ch->state == CHANNEL_OPEN && ch->generation == j->generation)
		rma_lane(e)->dma.placed(e, ch, &j->a);
	rte_pktmbuf_free(j->m);
}

unsigned
dma_poll(struct engine *e)
{
	struct dma *d = &rma_lane(e)->dma;
	enum rte_dma_status_code status[32];
	unsigned work = 0;
	uint16_t n, last;

	if (d->head == d->tail)
		return 0;
	n = rte_dma_completed_status((int16_t)d->device, 0, 32, &last, status);
	for (uint16_t i = 0; i < n || (d->head != d->tail && !d->jobs[d->head % DMA_COPIES].copies);
		work++) {
		struct dma_job *j = &d->jobs[d->head++ % DMA_COPIES];

		if (j->copies && status[i++] != RTE_DMA_STATUS_SUCCESSFUL)
			memcpy(j->to, j->a.msg.bytes, j->a.msg.len);
		dma_finish(e, j);
	}
	return work;
}

/* Wait until all copies that were begun are done. */
void
dma_drain(struct engine *e)
{
	struct dma *d = &rma_lane(e)->dma;

	while (unlikely(d->head != d->tail)) {
		if (dma_poll(e) == 0)
			rte_pause();
	}
}
