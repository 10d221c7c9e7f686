/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What a survey has found, as the text of a topology.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "coll/survey_internal.h"
#include "coll/tour.h"

#define BUFFER "128K" /* of a switch's port: this is not measured */

/* Write a number with three digits. */
static void
write_number(FILE *f, double value, const char *unit)
{
	fprintf(f, "%.*f%s", value >= 100 ? 0 : value >= 10 ? 1 : 2, value, unit);
}

static void
write_link(const struct survey *s, FILE *f, double rate, double up_ns)
{
	const struct coll_task task = {.params = s->params};
	const uint32_t piece = coll_piece(&task, s->bytes);
	const double bits = rate * 8e9 * (double)coll_block_wire(&s->params, piece, s->bytes) /
		(double)s->bytes;

	fprintf(f, " bandwidth=");
	if (bits >= 1e9)
		write_number(f, bits / 1e9, "G");
	else
		write_number(f, bits / 1e6 > 0.01 ? bits / 1e6 : 0.01, "M");
	fprintf(f, " latency=");
	if (up_ns >= 1e6)
		write_number(f, up_ns / 1e6, "ms\n");
	else if (up_ns >= 1e3)
		write_number(f, up_ns / 1e3, "us\n");
	else
		fprintf(f, "%.0fns\n", up_ns);
}

/* n3, or n[3-5]. */
static void
write_hosts(FILE *f, const char *word, uint32_t first, uint32_t last)
{
	if (first == last)
		fprintf(f, "%s n%u", word, first);
	else
		fprintf(f, "%s n[%u-%u]", word, first, last);
}

/* Return the highest switch if it joins two others and nothing else, as one link between these does
 * then; otherwise NONE. */
static uint32_t
mere_joint(const struct survey *s)
{
	uint32_t children = 0, highest = s->hosts;

	for (uint32_t c = 0; c < s->count; c++) {
		if (s->vertices[c].parent == highest) {
			if (c < s->hosts)
				return NONE;
			children++;
		}
	}
	return children == 2 ? highest : NONE;
}

/* Return how a node's host is linked: as it was measured, or, if it has no rank, to the highest
 * switch like the first host. */
static struct vertex
link_of(const struct survey *s, uint32_t node, uint32_t *host, uint32_t highest)
{
	while (*host < s->hosts && s->nodes[*host] < node)
		++*host;
	if (*host < s->hosts && s->nodes[*host] == node)
		return s->vertices[*host];
	return (struct vertex){
		.parent = highest,
		.up_ns = s->vertices[0].up_ns,
		.rate = s->vertices[0].rate,
	};
}

static void
write_host_links(const struct survey *s, FILE *f, uint32_t joint)
{
	uint32_t first = 0, host = 0, highest = s->hosts;

	while (joint != NONE && s->vertices[highest].parent != joint)
		highest++;
	struct vertex v = link_of(s, 0, &host, highest);

	for (uint32_t node = 1; node <= s->nodes[s->hosts - 1] + 1u; node++) {
		struct vertex next = {0};

		if (node <= s->nodes[s->hosts - 1]) {
			next = link_of(s, node, &host, highest);
			if (next.parent == v.parent && next.rate == v.rate && next.up_ns == v.up_ns)
				continue;
		}
		write_hosts(f, "link", first, node - 1);
		fprintf(f, " s%u", v.parent - s->hosts);
		write_link(s, f, v.rate, v.up_ns);
		v = next;
		first = node;
	}
}

static void
write_switch_links(const struct survey *s, FILE *f, uint32_t joint)
{
	const struct vertex *other = NULL;

	for (uint32_t v = s->hosts; v < s->count; v++) {
		const struct vertex *x = &s->vertices[v];

		if (x->is_none || x->parent == NONE)
			continue;
		if (x->parent != joint) {
			fprintf(f, "link s%u s%u", v - s->hosts, x->parent - s->hosts);
			write_link(s, f, x->rate, x->up_ns);
		} else if (other == NULL) {
			other = x;
		} else {
			fprintf(f, "link s%u s%u", v - s->hosts,
				(uint32_t)(other - s->vertices) - s->hosts);
			write_link(s, f, x->rate < other->rate ? x->rate : other->rate,
				x->up_ns + other->up_ns);
		}
	}
}

int
survey_text(const struct survey *s, char **out)
{
	const uint32_t joint = mere_joint(s);
	size_t len;
	FILE *f = open_memstream(out, &len);

	if (f == NULL)
		return -ENOMEM;
	fprintf(f, "# measured between %u nodes, in blocks of %lu bytes\n", s->hosts, s->bytes);
	for (uint32_t v = s->hosts; v < s->count; v++) {
		if (!s->vertices[v].is_none && v != joint)
			fprintf(f, "switch s%u buffer=" BUFFER "\n", v - s->hosts);
	}
	write_hosts(f, "host", 0, s->nodes[s->hosts - 1]);
	fputc('\n', f);
	write_host_links(s, f, joint);
	write_switch_links(s, f, joint);
	return fclose(f) == 0 ? 0 : -ENOMEM;
}
