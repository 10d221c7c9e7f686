/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the examples of shared memory have in common: joining the others, and ending with an error.
 */
#ifndef CLUSTER_H
#define CLUSTER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <pmx/dsm.h>
#include <pmx/group.h>
#include <pmx/pmx.h>

#define CLUSTER_USAGE                                                                              \
	" INSTANCE RANK NODE:CONTEXT...\n"                                                         \
	"INSTANCE is the primary of this host; the members of the group follow, the same for "     \
	"all,\nand RANK says which of them this process is, from 0.\n"

struct cluster {
	struct pmx_node *node;
	struct pmx_context *ctx;
	struct pmx_group *group;
	struct pmx_dsm *dsm;
	uint32_t rank, size;
};

/* Ends the program if an error has come. */
static inline void
must(const char *what, int error)
{
	if (error >= 0)
		return;
	fprintf(stderr, "%s: %s\n", what, pmx_strerror(error));
	exit(1);
}

static inline double
seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Joins the group that the arguments name, and shares memory with it. */
static inline void
cluster_join(struct cluster *c, int argc, char **argv, const char *usage, uint64_t bytes)
{
	const uint32_t count = argc > 2 ? (uint32_t)argc - 2 : 0;
	struct pmx_addr members[64];
	struct pmx_group_params group = {
		.size = sizeof(group),
		.id = 1,
		.count = count,
		.members = members,
	};
	const struct pmx_dsm_params dsm = {.size = sizeof(dsm), .bytes = bytes};
	pmx_request r;
	unsigned node, context;

	c->rank = count > 0 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
	c->size = count;
	for (uint32_t i = 0; i < count && i < 64; i++) {
		if (sscanf(argv[2 + i], "%u:%u", &node, &context) != 2)
			argc = 0;
		members[i] = (struct pmx_addr){(uint16_t)node, (uint16_t)context};
	}
	if (argc < 3 || count > 64 || c->rank >= count) {
		fprintf(stderr, "Usage: %s" CLUSTER_USAGE, usage);
		exit(2);
	}
	must("attaching", pmx_node_attach(&c->node, argv[0], NULL));
	must("context", pmx_context_open(&c->ctx, c->node, members[c->rank].context, NULL));
	must("group", pmx_group_open(c->ctx, &group, 10000000, &c->group, &r));
	must("group", pmx_wait(c->ctx, &r, NULL, -1));
	must("shared memory", pmx_dsm_open(c->group, &dsm, 10000000, &c->dsm));
}

static inline void
cluster_leave(struct cluster *c)
{
	pmx_dsm_close(c->dsm);
	pmx_group_close(c->group);
	pmx_context_close(c->ctx);
	pmx_node_close(c->node);
}

#endif
