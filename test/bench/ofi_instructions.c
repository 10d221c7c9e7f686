/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tagged messages of 8 bytes between two libfabric endpoints of one process, for callgrind:
 * ofi_instructions.sh counts what of the instructions is the provider's. Prints how many messages,
 * reads of completions that found one, and reads that found none there were in rounds().
 *
 * Usage: ofi_instructions ROUNDS
 */
#include <stdio.h>
#include <stdlib.h>

#include <rdma/fi_tagged.h>

#include "../system/ofi_sides.h"

static unsigned long empty, found;

static bool
read_one(struct side *s)
{
	struct fi_cq_tagged_entry e;
	ssize_t n = fi_cq_read(s->cq, &e, 1);

	if (n == -FI_EAGAIN) {
		empty++;
		return false;
	}
	must_be("fi_cq_read", n, 1);
	found++;
	return true;
}

/* callgrind collects in here */
static __attribute__((noinline)) void
rounds(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		must_be("fi_trecv",
			fi_trecv(b.ep, in, 8, NULL, FI_ADDR_UNSPEC, i, 0, &b.contexts[0]), 0);
		must_be("fi_tsend", fi_tsend(a.ep, out, 8, NULL, a.peer, i, &a.contexts[0]), 0);
		while (!read_one(&a))
			;
		while (!read_one(&b))
			;
	}
}

/* ... and in here, when that is what is asked for */
static __attribute__((noinline)) void
empty_reads(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		read_one(&b);
}

int
main(int argc, char **argv)
{
	unsigned n = argc == 2 ? (unsigned)atoi(argv[1]) : 0;

	if (n == 0)
		die("usage: ofi_instructions ROUNDS");
	find(FI_THREAD_DOMAIN, FI_TAGGED | FI_SEND | FI_RECV, 0);
	pair_open(FI_WAIT_NONE, 0);
	rounds(100);
	found = empty = 0;
	rounds(n);
	printf("%u %lu %lu\n", n, found, empty);
	empty_reads(n);
	pair_close();
	leave();
	return 0;
}
