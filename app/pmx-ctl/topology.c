/* SPDX-License-Identifier: BSD-3-Clause
 *
 * topology: what a topology file describes, drawn as a tree on the terminal and as SVG. Hosts with
 * the same link to the same switch are one row. Needs no running primary.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coll/topology.h"
#include "ctl.h"

/* A switch, or hosts that follow each other in the text and have the same link. */
struct topology_row {
	uint32_t vertex; /* of the first host */
	uint32_t edge;   /* from the switch above; TOPOLOGY_NONE: it is the top */
	uint32_t hosts;  /* 0: it is a switch */
	uint32_t above;  /* row */
	uint32_t depth;
	bool last; /* below that switch */
};

struct rows {
	const struct topology *t;
	struct topology_row *all;
	uint32_t count;
};

/* ------------------------------------------------------------------ the tree */

/* Find the latencies from a vertex to all others, in ns. Return the vertex that is farthest. */
static uint32_t
latencies_from(const struct topology *t, uint32_t from, uint64_t *ns, uint32_t *stack)
{
	uint32_t depth = 0, farthest = from;

	for (uint32_t v = 0; v < t->vertex_count; v++)
		ns[v] = UINT64_MAX;
	ns[from] = 0;
	stack[depth++] = from;
	while (depth > 0) {
		const struct topology_vertex *v = &t->vertices[stack[--depth]];

		for (uint32_t i = 0; i < v->edge_count; i++) {
			const struct topology_edge *e = &t->edges[v->first_edge + i];

			if (ns[e->to] != UINT64_MAX)
				continue;
			ns[e->to] = ns[e->from] + e->latency_ns;
			farthest = ns[e->to] > ns[farthest] ? e->to : farthest;
			stack[depth++] = e->to;
		}
	}
	return farthest;
}

/* Return the switch in the middle of the longest way, and that way's latency in *longest_ns. A tree
 * has a middle. If there is no switch, return the first host. */
static uint32_t
middle_of(const struct topology *t, uint64_t *longest_ns)
{
	uint64_t *ns = calloc(2ull * t->vertex_count, sizeof(*ns)), *back = ns + t->vertex_count;
	uint32_t *stack = calloc(t->vertex_count, sizeof(*stack));
	uint32_t middle = TOPOLOGY_NONE;

	if (ns == NULL || stack == NULL) {
		complain("no memory");
		exit(1);
	}
	const uint32_t one = latencies_from(t, t->hosts[0], ns, stack);
	const uint32_t other = latencies_from(t, one, ns, stack);

	latencies_from(t, other, back, stack);
	*longest_ns = ns[other];
	for (uint32_t v = 0; v < t->vertex_count; v++) {
		if (t->vertices[v].host != TOPOLOGY_NONE)
			continue;
		if (middle == TOPOLOGY_NONE ||
			(ns[v] > back[v] ? ns[v] : back[v]) <
				(ns[middle] > back[middle] ? ns[middle] : back[middle]))
			middle = v;
	}
	free(ns);
	free(stack);
	return middle != TOPOLOGY_NONE ? middle : t->hosts[0];
}

static bool
is_alike(const struct topology *t, const struct topology_row *r, const struct topology_edge *e)
{
	const struct topology_edge *first = &t->edges[r->edge];
	const struct topology_vertex *host = &t->vertices[r->vertex], *other = &t->vertices[e->to];

	return r->hosts > 0 && host->message_ns == other->message_ns &&
		host->copy_bps == other->copy_bps &&
		t->vertices[e->to].host == t->vertices[r->vertex].host + r->hosts &&
		e->bandwidth_bps == first->bandwidth_bps && e->latency_ns == first->latency_ns &&
		t->edges[e->reverse].bandwidth_bps == t->edges[first->reverse].bandwidth_bps &&
		e->stream_bps == first->stream_bps;
}

/* Add the rows below a switch, hosts first. */
static void
add_below(struct rows *rows, uint32_t above)
{
	const struct topology *t = rows->t;
	const struct topology_vertex *v = &t->vertices[rows->all[above].vertex];
	uint32_t last = TOPOLOGY_NONE;

	for (unsigned switches = 0; switches < 2; switches++) {
		for (uint32_t i = 0; i < v->edge_count; i++) {
			const uint32_t edge = v->first_edge + i;
			const struct topology_edge *e = &t->edges[edge];

			if ((t->vertices[e->to].host == TOPOLOGY_NONE) != switches ||
				(rows->all[above].edge != TOPOLOGY_NONE &&
					e->reverse == rows->all[above].edge))
				continue;
			if (!switches && last != TOPOLOGY_NONE &&
				is_alike(t, &rows->all[last], e)) {
				rows->all[last].hosts++;
				continue;
			}
			last = rows->count++;
			rows->all[last] = (struct topology_row){
				.vertex = e->to,
				.edge = edge,
				.hosts = !switches,
				.above = above,
				.depth = rows->all[above].depth + 1,
			};
			if (switches)
				add_below(rows, last);
		}
	}
	if (last != TOPOLOGY_NONE)
		rows->all[last].last = true;
}

/* ------------------------------------------------------------------ words */

/* Return a number as text with the largest unit that leaves at least 1, as the text form of a
 * topology has it. */
static char *
with_unit(double v, const char *const *units, double factor)
{
	while (v >= factor && units[1] != NULL) {
		v /= factor;
		units++;
	}
	return text("%.4g%s", v, *units);
}

static char *
rate_of(uint64_t bps)
{
	static const char *const units[] = {" bit/s", "K", "M", "G", "T", NULL};

	return with_unit((double)bps, units, 1e3);
}

/* Return the bandwidth of a link as text: both directions if they differ, and what one flow gets if
 * that is bounded. */
static char *
bandwidth_of(const struct topology *t, const struct topology_edge *e)
{
	const uint64_t bps_back = t->edges[e->reverse].bandwidth_bps;
	char *there = rate_of(e->bandwidth_bps), *back = rate_of(bps_back);
	char *stream = rate_of(e->stream_bps);
	char *both = bps_back == e->bandwidth_bps ? text("%s", there)
						  : text("%s there, %s back", there, back);
	char *all = e->stream_bps == 0 ? text("%s", both) : text("%s, a flow %s", both, stream);

	free(there);
	free(back);
	free(stream);
	free(both);
	return all;
}

static char *
latency_of(uint64_t ns)
{
	static const char *const units[] = {" ns", " us", " ms", " s", NULL};

	return with_unit((double)ns, units, 1e3);
}

/* Return the name of a row's vertex as text. For hosts, add how many they are and their nodes. */
static char *
topology_name_of(const struct topology *t, const struct topology_row *r)
{
	const struct topology_vertex *v = &t->vertices[r->vertex];
	static const char *const units[] = {"", "K", "M", "G", NULL};

	if (r->hosts == 1)
		return text("%s  node %u", v->name, v->host);
	if (r->hosts > 1)
		return text("%s to %s  %u hosts, nodes %u to %u", v->name,
			t->vertices[t->hosts[v->host + r->hosts - 1]].name, r->hosts, v->host,
			v->host + r->hosts - 1);
	if (v->buffer_bytes == 0)
		return text("%s", v->name);
	char *buffer = with_unit((double)v->buffer_bytes, units, 1024);
	char *all = text("%s  ports of %s", v->name, buffer);

	free(buffer);
	return all;
}

/* Return as text what a host's processor takes for a message and for copies; "" for a switch, and
 * if nothing is known. */
static char *
costs_of(const struct topology_vertex *host)
{
	char *message = latency_of(host->message_ns), *copies = rate_of(host->copy_bps);
	char *all = text("%s%s%s%s", host->message_ns > 0 ? ", a message takes " : "",
		host->message_ns > 0 ? message : "", host->copy_bps > 0 ? ", copies at " : "",
		host->copy_bps > 0 ? copies : "");

	free(message);
	free(copies);
	return all;
}

static char *
link_of(const struct topology *t, const struct topology_row *r)
{
	if (r->edge == TOPOLOGY_NONE)
		return text("%s", "");
	char *bandwidth = bandwidth_of(t, &t->edges[r->edge]);
	char *latency = latency_of(t->edges[r->edge].latency_ns);
	char *costs = costs_of(&t->vertices[r->vertex]);
	char *all = text("%s, %s%s", bandwidth, latency, costs);

	free(bandwidth);
	free(latency);
	free(costs);
	return all;
}

/* ------------------------------------------------------------------ output */

/* Draw the lines of the switches above, down to that row. */
static void
draw_lines(const struct rows *rows, uint32_t row)
{
	if (rows->all[row].depth > 1)
		draw_lines(rows, rows->all[row].above);
	printf("%s", rows->all[row].last ? "    " : "|   ");
}

/* Return the number of pairs of hosts that may connect. */
static uint64_t
pairs_of(const struct topology *t)
{
	uint64_t n = 0;

	for (uint32_t a = 0; a < t->host_count; a++) {
		for (uint32_t b = 0; b < a; b++)
			n += topology_may_talk(t, a, b);
	}
	return n;
}

static void
draw_text(const struct rows *rows, uint64_t longest_ns)
{
	const struct topology *t = rows->t;
	char *longest = latency_of(longest_ns);

	for (uint32_t i = 0; i < rows->count; i++) {
		const struct topology_row *r = &rows->all[i];
		char *name = topology_name_of(t, r), *link = link_of(t, r);

		if (r->depth > 1)
			draw_lines(rows, r->above);
		if (r->depth > 0)
			printf("%s", r->last ? "`-- " : "|-- ");
		printf("%s%s%s\n", name, *link ? "  " : "", link);
		free(name);
		free(link);
	}
	const uint32_t switches = t->vertex_count - t->host_count;

	printf("\n%u host%s, %u switch%s; the longest way takes %s\n", t->host_count,
		t->host_count == 1 ? "" : "s", switches, switches == 1 ? "" : "es", longest);
	if (t->talks != NULL)
		printf("%lu of %lu pairs of hosts may connect\n", pairs_of(t),
			(uint64_t)t->host_count * (t->host_count - 1) / 2);
	free(longest);
}

static json_t *
json_row(const struct rows *rows, const struct topology_row *r)
{
	const struct topology *t = rows->t;
	const struct topology_vertex *v = &t->vertices[r->vertex];
	json_t *j = json_pack("{s:s, s:i}", "name", v->name, "hosts", (int)r->hosts);

	if (r->hosts > 0) {
		json_object_set_new(j, "first_node", json_integer(v->host));
		json_object_set_new(j, "message_ns", json_integer((json_int_t)v->message_ns));
		json_object_set_new(j, "copy_bps", json_integer((json_int_t)v->copy_bps));
	} else
		json_object_set_new(j, "buffer_bytes", json_integer((json_int_t)v->buffer_bytes));
	if (r->edge != TOPOLOGY_NONE) {
		const struct topology_edge *e = &t->edges[r->edge];

		json_object_set_new(j, "at", json_string(t->vertices[e->from].name));
		json_object_set_new(j, "bandwidth_bps", json_integer((json_int_t)e->bandwidth_bps));
		json_object_set_new(j, "bandwidth_back_bps",
			json_integer((json_int_t)t->edges[e->reverse].bandwidth_bps));
		json_object_set_new(j, "latency_ns", json_integer((json_int_t)e->latency_ns));
		if (e->stream_bps > 0)
			json_object_set_new(j, "stream_bps",
				json_integer((json_int_t)e->stream_bps));
	}
	return j;
}

static json_t *
json_rows(const struct rows *rows, uint64_t longest_ns)
{
	json_t *list = json_array();

	for (uint32_t i = 0; i < rows->count; i++)
		json_array_append_new(list, json_row(rows, &rows->all[i]));
	return json_pack("{s:i, s:i, s:I, s:I, s:o}", "hosts", (int)rows->t->host_count, "switches",
		(int)(rows->t->vertex_count - rows->t->host_count), "longest_ns",
		(json_int_t)longest_ns, "pairs_may_connect", (json_int_t)pairs_of(rows->t), "tree",
		list);
}

#define STEP_X 150
#define STEP_Y 26
#define TEXT_X 620 /* for the longest label */

/* Return how thick a link is drawn: the more digits its rate has, the thicker. */
static double
width_of(const struct topology_edge *e)
{
	double width = 0.5;

	for (double rate = 1e8; rate <= (double)e->bandwidth_bps; rate *= 10)
		width += 1.2;
	return width;
}

/* Draw the rows of the text as an SVG picture, from left to right. Return the exit code. */
static int
draw_svg(const struct rows *rows, const char *path)
{
	FILE *f = fopen(path, "w");
	uint32_t deepest = 0;

	if (f == NULL)
		return complain("%s: %s", path, strerror(errno));
	for (uint32_t i = 0; i < rows->count; i++)
		deepest = rows->all[i].depth > deepest ? rows->all[i].depth : deepest;
	fprintf(f,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%u\" height=\"%u\" "
		"font-family=\"sans-serif\" font-size=\"13\">\n"
		"<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
		deepest * STEP_X + TEXT_X, (rows->count + 1) * STEP_Y);
	for (uint32_t i = 0; i < rows->count; i++) {
		const struct topology_row *r = &rows->all[i];
		const uint32_t x = r->depth * STEP_X + 20, y = (i + 1) * STEP_Y;
		char *name = topology_name_of(rows->t, r), *link = link_of(rows->t, r);

		if (r->edge != TOPOLOGY_NONE)
			fprintf(f,
				"<path d=\"M%u %u V%u H%u\" fill=\"none\" stroke=\"#888\" "
				"stroke-width=\"%.1f\"/>\n"
				"<text x=\"%u\" y=\"%u\" font-size=\"10\" "
				"fill=\"#555\">%s</text>\n",
				x - STEP_X, (r->above + 1) * STEP_Y, y, x,
				width_of(&rows->t->edges[r->edge]), x - STEP_X + 10, y - 4, link);
		fprintf(f,
			"<circle cx=\"%u\" cy=\"%u\" r=\"6\" fill=\"%s\"/>\n"
			"<text x=\"%u\" y=\"%u\">%s</text>\n",
			x, y, r->hosts ? "#3b7dd8" : "#d8733b", x + 12, y + 4, name);
		free(name);
		free(link);
	}
	fprintf(f, "</svg>\n");
	return fclose(f) == 0 ? 0 : complain("%s: %s", path, strerror(errno));
}

int
show_topology(const struct ctl_options *options)
{
	const struct plan_options *o = &options->plan;
	const bool json = options->json;
	char error[CTL_ERROR_MAX];
	struct topology *t;
	uint64_t longest_ns;
	int result = 0;

	if (o->topology == NULL) {
		complain("topology needs --topology FILE");
		return 2;
	}
	if (topology_read(o->topology, &t, error, sizeof(error)) != 0)
		return complain("%s", error);
	struct rows rows = {t, calloc(t->vertex_count, sizeof(*rows.all)), 1};

	if (rows.all == NULL)
		return complain("no memory");
	rows.all[0] = (struct topology_row){
		.vertex = middle_of(t, &longest_ns),
		.edge = TOPOLOGY_NONE,
	};
	rows.all[0].hosts = t->vertices[rows.all[0].vertex].host != TOPOLOGY_NONE;
	add_below(&rows, 0);
	if (o->svg != NULL)
		result = draw_svg(&rows, o->svg);
	if (result == 0 && json)
		result = print_json(json_rows(&rows, longest_ns));
	else if (result == 0)
		draw_text(&rows, longest_ns);
	free(rows.all);
	topology_free(t);
	return result;
}
