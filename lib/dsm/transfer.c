/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Transfers between the areas of members, in batches that are waited for together.
 */
#include <errno.h>

#include "dsm/dsm.h"

int
dsm_finish(struct pmx_dsm *d)
{
	int result = pmx_sync_wait(d->ctx, DSM_WAIT_US);

	for (unsigned i = 0; i < d->begun && result == 0; i++)
		result = d->status[i];
	d->begun = 0;
	return result;
}

static int
transfer_begin(struct pmx_dsm *d,
	int (*verb)(struct pmx_context *, const struct pmx_transfer *, pmx_transfer_id *),
	uint32_t rank, struct pmx_transfer *t, const struct pmx_part *part)
{
	int result = d->begun == DSM_BATCH ? dsm_finish(d) : 0;

	if (result != 0)
		return result;
	t->flags |= PMX_AREA;
	t->key = d->key;
	t->status = &d->status[d->begun];
	if (part != NULL) {
		d->parts[d->begun] = *part;
		t->part = &d->parts[d->begun];
	}
	pmx_group_member(d->group, rank, &t->peer);
	while ((result = verb(d->ctx, t, NULL)) == -EAGAIN) {
		result = pmx_sync_wait(d->ctx, DSM_WAIT_US);
		if (result != 0)
			return result;
	}
	d->begun += result == 0;
	return result;
}

int
dsm_push(struct pmx_dsm *d, uint32_t rank, uint64_t at, const void *local, uint64_t len,
	const struct pmx_part *part)
{
	struct pmx_transfer t = {.remote = at, .local = (void *)(uintptr_t)local, .len = len};

	return transfer_begin(d, pmx_push, rank, &t, part);
}

int
dsm_pull(struct pmx_dsm *d, uint32_t rank, uint64_t at, void *local, uint64_t len)
{
	/* a page is pulled behind the push that says that it is wanted */
	struct pmx_transfer t = {.flags = PMX_ORDERED, .remote = at, .local = local, .len = len};

	return transfer_begin(d, pmx_pull, rank, &t, NULL);
}
