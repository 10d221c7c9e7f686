/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What the evaluator says of collectives as the library plans them: its pieces and what it sends
 * without permits, and EACH ranks on every host, of which pmx-ctl plan knows nothing. Usage:
 *   coll_predict TOPOLOGY EACH KIND BYTES GENERATOR...
 * A line for each: GENERATOR and ms; root is rank 0. Exit code 1: there is no such plan.
 */
#include <stdio.h>
#include <stdlib.h>

#include "coll/plan.h"
#include "core/wire/wire.h"

/* Frames of 1500 bytes as lib/coll/client/coll.c and plans.c count them. */
#define PAYLOAD 1448 /* `payload_max` of pmx-ctl stat */
#define PIECE   ((PAYLOAD - sizeof(struct wire_coll)) & ~63ull)

int
main(int argc, char **argv)
{
	struct topology *t;
	char error[256];
	int bad = 0;

	if (argc < 6) {
		fputs("Usage: coll_predict TOPOLOGY EACH KIND BYTES GENERATOR...\n", stderr);
		return 2;
	}
	if (topology_read(argv[1], &t, error, sizeof(error)) != 0) {
		fprintf(stderr, "%s\n", error);
		return 2;
	}
	const uint32_t each = (uint32_t)atoi(argv[2]), ranks = each * t->host_count;
	uint16_t *nodes = calloc(ranks + 1, sizeof(*nodes));
	const struct coll_task task = {
		.kind = coll_kind_named(argv[3]),
		.topology = t,
		.nodes = nodes,
		.ranks = ranks,
		.bytes = strtoull(argv[4], NULL, 10) / 8 * 8,
		.params =
			{
				.frame_payload = PIECE + sizeof(struct wire_coll),
				.frame_overhead = WIRE_HDR_BYTES + 38,
				.frame_least = 84,
				.message_head = sizeof(struct wire_coll),
				.piece = PIECE,
				.eager = WIRE_COLL_EAGER,
			},
		.only = COLL_NONE,
	};

	for (uint32_t r = 0; nodes != NULL && r < ranks; r++)
		nodes[r] = (uint16_t)(r / each);
	for (int i = 5; i < argc; i++) {
		const enum coll_generator g = coll_generator_named(argv[i]);
		struct coll_plan *p;
		struct coll_cost cost;

		if (nodes == NULL || coll_plan_make(g, &task, &p) != 0) {
			fprintf(stderr, "no plan: %s of %s\n", argv[i], argv[3]);
			bad = 1;
			continue;
		}
		if (coll_plan_evaluate(p, &task, &cost) == 0)
			printf("%s %.3f\n", argv[i], (double)cost.ns / 1e6);
		else
			bad = 1;
		coll_plan_free(p);
	}
	free(nodes);
	topology_free(t);
	return bad;
}
