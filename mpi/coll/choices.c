/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Which collectives are taken, and how many were.
 */
#include "coll_pmx.h"

#include <opal/util/output.h>

#include <stdlib.h>
#include <string.h>

static uint64_t taken[KINDS], given[KINDS];

/* Blocks of so many bytes are taken: those with which a step of a program, the collective and what
 * has to wait for its end, takes less time (test/mpi/loops.c; doc/performance.md). The bytes of v
 * forms are not known to all: they are taken if ANY_BYTES is. */
static struct {
	const char *name;
	uint64_t least, most; /* most < least: none */
} kinds[KINDS] = {
	[KIND_BARRIER] = {"barrier", 0, ANY_BYTES},
	[KIND_BCAST] = {"bcast", 0, 4096},
	[KIND_GATHER] = {"gather", 0, 16384},
	[KIND_SCATTER] = {"scatter", 0, 16384},
	[KIND_ALLGATHER] = {"allgather", 0, ANY_BYTES},
	[KIND_ALLTOALL] = {"alltoall", 0, 4096},
	[KIND_REDUCE] = {"reduce", 0, 32768},
	[KIND_ALLREDUCE] = {"allreduce", 0, 32768},
	[KIND_REDUCE_SCATTER] = {"reduce_scatter", 32768, ANY_BYTES},
	[KIND_GATHERV] = {"gatherv", 1, 0},
	[KIND_SCATTERV] = {"scatterv", 1, 0},
	[KIND_ALLGATHERV] = {"allgatherv", 1, 0},
	[KIND_ALLTOALLV] = {"alltoallv", 1, 0},
};

/* LEAST-MOST, all or off. false: none of these. */
static bool
read_range(const char *text, unsigned kind)
{
	char *end;

	if (strcmp(text, "off") == 0 || strcmp(text, "all") == 0) {
		kinds[kind].least = text[0] == 'o';
		kinds[kind].most = text[0] == 'o' ? 0 : ANY_BYTES;
		return true;
	}
	kinds[kind].least = strtoull(text, &end, 10);
	if (end == text || *end != '-')
		return false;
	text = end + 1;
	kinds[kind].most = strtoull(text, &end, 10);
	return end != text && *end == '\0';
}

void
choices_read(const char *choices)
{
	char *copy = strdup(choices), *save = NULL;

	for (char *w = copy ? strtok_r(copy, ",", &save) : NULL; w;
		w = strtok_r(NULL, ",", &save)) {
		char *value = strchr(w, '=');
		unsigned k = 0;

		if (value == NULL && read_range(w, k)) {
			while (++k < KINDS)
				read_range(w, k);
			continue;
		}
		if (value != NULL)
			*value++ = '\0';
		while (k < KINDS && strcmp(kinds[k].name, w) != 0)
			k++;
		if (k == KINDS || value == NULL || !read_range(value, k))
			opal_output(0,
				"coll_pmx_take: %s%s%s: neither off nor all nor a list of "
				"KIND=LEAST-MOST, KIND=all, KIND=off",
				w, value ? "=" : "", value ? value : "");
	}
	free(copy);
}

bool
choices_take(enum call_kind kind, uint64_t bytes)
{
	const bool takes = bytes >= kinds[kind].least && bytes <= kinds[kind].most;

	taken[kind] += takes;
	given[kind] += !takes;
	return takes;
}

void
choices_give_back(enum call_kind kind)
{
	taken[kind]--;
	given[kind]++;
}

int64_t
choices_hash(void)
{
	uint64_t h = 0;

	for (unsigned k = 0; k < KINDS; k++)
		h = ((h ^ kinds[k].least) * 0x9E3779B97F4A7C15u ^ kinds[k].most) *
			0x9E3779B97F4A7C15u;
	return (int64_t)(h >> 2);
}

void
choices_say(void)
{
	for (unsigned k = 0; k < KINDS; k++) {
		if (taken[k] + given[k] > 0)
			opal_output(0, "coll/pmx: %-14s %8lu by pmx, %8lu by others", kinds[k].name,
				(unsigned long)taken[k], (unsigned long)given[k]);
	}
}
