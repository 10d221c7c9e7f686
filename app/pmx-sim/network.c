/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The networks of experiments and histories, and time that passes in them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "coll/topology.h"
#include "sims.h"

struct topology *
parsed(const char *text)
{
	char error[256];
	struct topology *t;

	if (topology_parse(text, &t, error, sizeof(error)) != 0) {
		fprintf(stderr, "pmx-sim: %s\n", error);
		exit(1);
	}
	return t;
}

struct topology *
star(unsigned hosts, const char *bandwidth, const char *latency, const char *buffer)
{
	char text[512];

	snprintf(text, sizeof(text),
		"switch s buffer=%s\nhost h[0-%u]\nlink h[0-%u] s bandwidth=%s latency=%s\n",
		buffer, hosts - 1, hosts - 1, bandwidth, latency);
	return parsed(text);
}

void
must_run(struct sim *s, uint64_t until)
{
	if (sim_run(s, until))
		return;
	fprintf(stderr, "pmx-sim: at %.6f s: %s\n", (double)sim_now(s) / 1e9, sim_error(s));
	exit(1);
}
