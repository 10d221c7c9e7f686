/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The topology file's parser, fed any text: a sentence or a sound tree, nothing else.
 */
#include "coll/topology.h"
#include "input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), error[256] = "";
	struct topology *t = NULL;

	memcpy(text, data, size);
	text[size] = '\0';
	if (topology_parse(text, &t, error, sizeof(error)) != 0) {
		MUST(t == NULL && error[0] != '\0');
	} else {
		for (uint32_t i = 0; i < t->host_count; i++)
			MUST(t->hosts[i] < t->vertex_count);
		topology_free(t);
	}
	free(text);
	return 0;
}
