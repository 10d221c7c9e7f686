/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The readers of a topology's and of a plan's text, fed any text: a sentence or a sound tree, over
 * which plans come to their end; a sentence or a plan that is read as it was written; nothing else.
 */
#include <errno.h>

#include "coll/plan.h"
#include "coll/topology.h"
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* By relays, whoever may connect. The kind and the bytes are those of the text's length. */
static void
earliest(const struct topology *t, size_t len)
{
	const struct coll_task task = {
		.kind = (enum coll_kind)(len % COLL_KINDS),
		.topology = t,
		.ranks = t->host_count,
		.root = (uint32_t)len % t->host_count,
		.bytes = len % COLL_KINDS == COLL_BARRIER ? 0 : len * 7,
		.params = coll_params_of_engines(1408),
		.only = COLL_NONE,
	};
	struct coll_plan *p;
	struct coll_cost cost;
	const int e = coll_plan_make(COLL_EARLIEST, &task, &p);

	MUST(e == 0 || (e == -EHOSTUNREACH && t->talks != NULL));
	if (e != 0)
		return;
	MUST(coll_plan_evaluate(p, &task, &cost) == 0);
	coll_plan_free(p);
}

static void
topology(const char *text)
{
	char error[256] = "";
	struct topology *t = NULL;

	if (topology_parse(text, &t, error, sizeof(error)) != 0) {
		MUST(t == NULL && error[0] != '\0');
		return;
	}
	for (uint32_t i = 0; i < t->host_count; i++)
		MUST(t->hosts[i] < t->vertex_count);
	for (uint32_t i = 0; i < t->host_count && t->host_count <= 64; i++) {
		for (uint32_t k = 0; k < i; k++)
			MUST(topology_may_talk(t, i, k) == topology_may_talk(t, k, i));
	}
	if (t->host_count <= 12)
		earliest(t, strlen(text));
	topology_free(t);
}

static void
plan(const char *text)
{
	char error[256] = "", *written;
	struct coll_plan *p = NULL, *again = NULL;
	size_t len;

	if (coll_plan_read(text, &p, error, sizeof(error)) != 0) {
		MUST(p == NULL && error[0] != '\0');
		return;
	}
	FILE *f = open_memstream(&written, &len);

	MUST(coll_plan_write(p, f) == 0);
	fclose(f);
	MUST(coll_plan_read(written, &again, error, sizeof(error)) == 0);
	MUST(again->hash == p->hash && again->step_count == p->step_count);
	free(written);
	coll_plan_free(p);
	coll_plan_free(again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);

	memcpy(text, data, size);
	text[size] = '\0';
	topology(text);
	plan(text);
	free(text);
	return 0;
}
