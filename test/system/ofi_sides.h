/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Two libfabric endpoints of one process, for the tests of the provider: opened, introduced to each
 * other, and what one reads of them.
 */
#ifndef PMX_TEST_OFI_SIDES_H
#define PMX_TEST_OFI_SIDES_H

#include <string.h>

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include "helpers.h"

#define LONGEST     (1u << 20)
#define NAME        16 /* bytes of an address */
#define COUNT_OF(a) (sizeof(a) / sizeof((a)[0]))

struct side {
	struct fid_ep *ep;
	struct fid_cq *cq;
	struct fid_av *av;
	struct fid_cntr *sent, *received;
	fi_addr_t peer;
	uint8_t name[NAME];
	struct fi_context contexts[8];
};

extern struct fi_info *info;
extern struct fid_fabric *fabric;
extern struct fid_domain *domain;
extern struct side a, b;
extern uint8_t out[LONGEST], in[LONGEST];
extern bool locked;               /* FI_THREAD_SAFE */
extern enum fi_progress progress; /* to ask for */

void must_be(const char *what, ssize_t result, ssize_t wanted);
/* Prints that the case has passed. */
void done(const char *name);

void side_open(struct side *s, enum fi_wait_obj wait, uint64_t bind_flags);
void side_close(struct side *s);
void introduce(struct side *to, const struct side *other);
void pair_open(enum fi_wait_obj wait, uint64_t bind_flags);
void pair_close(void);
/* The domain of the primary's, with these capabilities and way of naming regions. */
void find(enum fi_threading threading, uint64_t caps, int mr_mode);
void leave(void);

/* The next completion of one side; the other makes progress as well. */
struct fi_cq_tagged_entry next(struct side *s, fi_addr_t *source);
struct fi_cq_err_entry next_error(struct side *s);
/* Nothing ends. */
void is_quiet(struct side *s);
/* Bytes that tell the messages apart. */
void fill(uint8_t *to, size_t len, uint32_t number);
void holds(const uint8_t *have, size_t len, uint32_t number);

#endif
