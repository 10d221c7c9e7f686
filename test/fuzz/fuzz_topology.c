/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The readers of a topology's and of a plan's text, fed any text: a sentence or a sound tree, a
 * sentence or a plan that is read as it was written; nothing else.
 */
#include "coll/plan.h"
#include "coll/topology.h"
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
