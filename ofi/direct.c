/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Long messages between processes of one host (PM-MPI: one copy): the receiver copies them from the
 * sender's memory to its own, by process_vm_readv(). Where that cannot be, they go by the engine.
 *
 * Design notes
 * 1. Which process a context belongs to is asked of the primary, which knows it from the kernel,
 *    and is not what the sender says: nobody can have a receiver read a third process. Whether it
 *    is that process also here, in another PID namespace for example, and still, is seen by its
 *    endpoint's name, which is read with the bytes.
 * 2. The kernel decides who may read whom: the same user, and, where Yama restricts that
 *    (kernel.yama.ptrace_scope), root alone.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "provider.h"

/* Shorter messages, and one alone, are faster by the engine, which moves them in fewer steps; where
 * several longer ones are under way, their one copy is several times as fast as its three. */
#define DIRECT_MIN 65536

void
direct_enable(struct endpoint *ep)
{
	const struct pmx_addr own = pmx_context_addr(ep->ctx);
	size_t least = DIRECT_MIN;

	fi_param_get_size_t(&ofi_provider, "direct", &least);
	if (least != 0 && pmx_context_process(ep->domain->node, own.context) == getpid())
		ep->direct = least > OFI_INJECT_MAX ? least : OFI_INJECT_MAX + 1;
}

void
direct_describe(const struct endpoint *ep, const struct pmx_matched *m, struct direct_offer *offer)
{
	memset(offer, 0, sizeof(*offer));
	if (ep->direct == 0 || m->peer.node != ep->name.node)
		return;
	offer->name = (uintptr_t)&ep->name;
	offer->pieces = m->iov != NULL ? m->iov_count : 1;
	if (m->iov != NULL)
		memcpy(offer->iov, m->iov, m->iov_count * sizeof(*m->iov));
	else
		offer->iov[0] = (struct iovec){m->data, m->len};
}

/* Return the number of the process to which another endpoint of this node belongs, or 0 if its
 * memory cannot be read. The primary is asked again only if the context has another incarnation. */
static int
process_of(struct endpoint *ep, struct pmx_addr peer, uint32_t incarnation)
{
	struct domain *d = ep->domain;

	if (ep->direct == 0 || peer.node != ep->name.node || peer.context >= 1024)
		return 0;
	if (d->life_of[peer.context] != incarnation) {
		int pid = pmx_context_process(d->node, peer.context);

		d->life_of[peer.context] = incarnation;
		d->process_of[peer.context] = pid > 0 ? pid : 0;
	}
	return d->process_of[peer.context];
}

/* Cut the pieces so that they have `len` bytes together. Return how many pieces are left. */
static unsigned
direct_cut(struct iovec *iov, unsigned n, uint64_t len)
{
	for (unsigned i = 0; i < n; i++) {
		if (iov[i].iov_len >= len) {
			iov[i].iov_len = len;
			return i + 1;
		}
		len -= iov[i].iov_len;
	}
	return n;
}

bool
direct_read(struct endpoint *ep, const struct ofi_op *op, struct pmx_addr from,
	uint32_t incarnation, uint64_t len, const struct direct_offer *offer)
{
	const struct address wanted = {from.node, from.context, incarnation, 0};
	struct address name = {.zero = 1};
	struct iovec to[1 + OFI_IOV_MAX] = {{&name, sizeof(name)}, {op->buf, op->len}};
	struct iovec there[1 + OFI_IOV_MAX] = {{(void *)(uintptr_t)offer->name, sizeof(name)}};
	unsigned to_count = op->pieces ? op->pieces : 1, count = (unsigned)offer->pieces;
	uint64_t left = len < op->len ? len : op->len, bytes = 0;
	int pid = offer->pieces != 0 && offer->pieces <= OFI_IOV_MAX
		? process_of(ep, from, incarnation)
		: 0;

	if (pid == 0)
		return false;
	if (op->pieces)
		memcpy(to + 1, op->iov, op->pieces * sizeof(*to));
	memcpy(there + 1, offer->iov, count * sizeof(*there));
	for (unsigned i = 1; i <= count; i++)
		bytes += there[i].iov_len;
	if (bytes != len)
		return false;
	to_count = direct_cut(to + 1, to_count, left);
	count = direct_cut(there + 1, count, left);
	/* what the kernel does not copy in one piece, 2 GiB for example, goes by the engine */
	return process_vm_readv(pid, to, 1 + to_count, there, 1 + count, 0) ==
		(ssize_t)(sizeof(name) + left) &&
		memcmp(&name, &wanted, sizeof(name)) == 0;
}
