/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reading a topology: lines become vertices and links, links become edges by vertex, and then the
 * routes are computed: a tree has exactly one from each vertex to each host. See topology.h for the
 * text.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll/text.h"
#include "coll/topology.h"

#define LINE_MAX_BYTES 512
#define WORDS_MAX      128
#define RATE_LEAST     1000
#define MESSAGE_NS_MAX 1000000000u
#define HOST_FORM      "host NAME [message=TIME] [copy=RATE]"
#define LINK_FORM      "link NAME NAME bandwidth=RATE[/RATE] latency=TIME [stream=RATE]"

struct topology_link {
	uint32_t a, b;
	uint64_t bandwidth_bps[2], latency_ns, stream_bps; /* [0]: from a to b */
};

struct topology_reader {
	struct topology *t;
	struct topology_link *links;
	uint32_t *talks; /* vertices of each line that says who may talk, then TOPOLOGY_NONE */
	uint32_t link_count, talk_count;
	uint32_t vertex_cap, link_cap, talk_cap;
	struct coll_text text;
};

static uint32_t
topology_find(const struct topology *t, const char *name)
{
	for (uint32_t i = 0; i < t->vertex_count; i++) {
		if (strcmp(t->vertices[i].name, name) == 0)
			return i;
	}
	return TOPOLOGY_NONE;
}

static void *
grow(void *array, uint32_t count, uint32_t *cap, size_t size)
{
	if (count < *cap)
		return array;
	*cap = *cap ? 2 * *cap : 64;
	return realloc(array, *cap * size);
}

/* Read a number with one of the units of a table {{"K", 1000}, {"M", 1000000}, ...}. Returns false
 * if it is none. */
struct topology_unit {
	const char *name;
	double factor;
};

static bool
number(const char *text, const struct topology_unit *units, uint64_t *out)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || !(v >= 0))
		return false;
	for (; units->name != NULL; units++) {
		if (strcmp(end, units->name) == 0) {
			v *= units->factor;
			if (v > 1e18)
				return false;
			*out = (uint64_t)(v + 0.5);
			return true;
		}
	}
	return false;
}

static const struct topology_unit rates[] = {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9},
	{"T", 1e12}, {NULL, 0}};
static const struct topology_unit sizes[] = {{"", 1}, {"K", 1 << 10}, {"M", 1 << 20},
	{"G", 1 << 30}, {NULL, 0}};
static const struct topology_unit times[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9},
	{NULL, 0}};

bool
topology_size(const char *text, uint64_t *out)
{
	return number(text, sizes, out) && *out <= TOPOLOGY_SIZE_MAX;
}

/* name[first-last]; a plain name stands only for itself */
struct topology_range {
	char stem[TOPOLOGY_NAME_MAX];
	unsigned first, last;
	bool plain;
};

static int
read_range(const struct topology_reader *r, const char *word, struct topology_range *out)
{
	const char *bracket = strchr(word, '[');
	size_t stem = bracket ? (size_t)(bracket - word) : strlen(word);
	int used = 0;

	if (stem == 0 || stem >= TOPOLOGY_NAME_MAX - 6)
		return coll_text_complain(&r->text, "'%s': a name has 1 to %u characters", word,
			TOPOLOGY_NAME_MAX - 7);
	snprintf(out->stem, sizeof(out->stem), "%.*s", (int)stem, word);
	out->first = out->last = 0;
	out->plain = bracket == NULL;
	if (out->plain)
		return 0;
	if (sscanf(bracket, "[%5u-%5u]%n", &out->first, &out->last, &used) != 2 ||
		bracket[used] != '\0' || out->last < out->first ||
		out->last >= TOPOLOGY_VERTICES_MAX)
		return coll_text_complain(&r->text, "'%s': a range is NAME[FIRST-LAST]", word);
	return 0;
}

static void
member(const struct topology_range *range, unsigned i, char *name)
{
	if (range->plain)
		memcpy(name, range->stem, TOPOLOGY_NAME_MAX);
	else /* the stem leaves room for five digits */
		snprintf(name, TOPOLOGY_NAME_MAX, "%.25s%u", range->stem, i);
}

static int
add_vertex(struct topology_reader *r, const char *name, bool host,
	const struct topology_vertex *like)
{
	struct topology *t = r->t;

	if (topology_find(t, name) != TOPOLOGY_NONE)
		return coll_text_complain(&r->text, "'%s' is there already", name);
	if (t->vertex_count == TOPOLOGY_VERTICES_MAX)
		return coll_text_complain(&r->text, "more than %u hosts and switches",
			TOPOLOGY_VERTICES_MAX);
	t->vertices = grow(t->vertices, t->vertex_count, &r->vertex_cap, sizeof(*t->vertices));
	if (t->vertices == NULL)
		return -ENOMEM;
	struct topology_vertex *v = &t->vertices[t->vertex_count++];

	*v = *like;
	v->host = host ? t->host_count++ : TOPOLOGY_NONE;
	snprintf(v->name, sizeof(v->name), "%s", name);
	return 0;
}

/* Read one word after the name. Return false if it is none of those that there are. */
static bool
read_property(const char *word, bool host, struct topology_vertex *out)
{
	if (!host)
		return strncmp(word, "buffer=", 7) == 0 &&
			number(word + 7, sizes, &out->buffer_bytes);
	if (strncmp(word, "message=", 8) == 0)
		return number(word + 8, times, &out->message_ns) &&
			out->message_ns <= MESSAGE_NS_MAX;
	return strncmp(word, "copy=", 5) == 0 && number(word + 5, rates, &out->copy_bps) &&
		out->copy_bps >= RATE_LEAST;
}

static int
read_vertices(struct topology_reader *r, char **words, unsigned n, bool host)
{
	char name[TOPOLOGY_NAME_MAX];
	struct topology_vertex like = {0};
	struct topology_range range;
	int e;

	if (n < 2 || n > (host ? 4u : 3u))
		return coll_text_complain(&r->text, host ? HOST_FORM : "switch NAME [buffer=SIZE]");
	for (unsigned i = 2; i < n; i++) {
		if (!read_property(words[i], host, &like))
			return coll_text_complain(&r->text,
				host ? "'%s': message=TIME with ns, us or ms (1s at most), or "
				       "copy=RATE in bit/s (K, M, G; at least 1K)"
				     : "'%s': buffer=SIZE, in bytes, with K or M",
				words[i]);
	}
	if ((e = read_range(r, words[1], &range)) != 0)
		return e;
	for (unsigned i = range.first; i <= range.last && e == 0; i++) {
		member(&range, i, name);
		e = add_vertex(r, name, host, &like);
	}
	return e;
}

static int
add_link(struct topology_reader *r, const char *a, const char *b, const struct topology_link *like)
{
	struct topology_link l = *like;

	l.a = topology_find(r->t, a);
	l.b = topology_find(r->t, b);
	if (l.a == TOPOLOGY_NONE || l.b == TOPOLOGY_NONE)
		return coll_text_complain(&r->text, "no host or switch is named '%s'",
			l.a == TOPOLOGY_NONE ? a : b);
	if (l.a == l.b)
		return coll_text_complain(&r->text, "'%s' is linked to itself", a);
	r->links = grow(r->links, r->link_count, &r->link_cap, sizeof(*r->links));
	if (r->links == NULL)
		return -ENOMEM;
	r->links[r->link_count++] = l;
	return 0;
}

/* Read a link's bandwidths, there and back. Return false if they are none. */
static bool
bandwidths(char *text, uint64_t out[2])
{
	char *back = strchr(text, '/');

	if (back != NULL)
		*back++ = '\0';
	return number(text, rates, &out[0]) && out[0] >= RATE_LEAST &&
		number(back != NULL ? back : text, rates, &out[1]) && out[1] >= RATE_LEAST;
}

static int
read_link(struct topology_reader *r, char **words, unsigned n)
{
	char name[TOPOLOGY_NAME_MAX];
	struct topology_link l = {0};
	struct topology_range range;
	int e;

	if (n < 5 || n > 6)
		return coll_text_complain(&r->text, LINK_FORM);
	for (unsigned i = 3; i < n; i++) {
		bool ok = strncmp(words[i], "bandwidth=", 10) == 0
			? bandwidths(words[i] + 10, l.bandwidth_bps)
			: strncmp(words[i], "stream=", 7) == 0
			? number(words[i] + 7, rates, &l.stream_bps) && l.stream_bps >= RATE_LEAST
			: strncmp(words[i], "latency=", 8) == 0 &&
				number(words[i] + 8, times, &l.latency_ns);

		if (!ok)
			return coll_text_complain(&r->text,
				"'%s': bandwidth=RATE or RATE/RATE and stream=RATE in bit/s (K, M, "
				"G; at least 1K), and latency=TIME with ns, us, ms or s",
				words[i]);
	}
	if (l.bandwidth_bps[0] == 0)
		return coll_text_complain(&r->text, "the link has no bandwidth");
	if (n != (l.stream_bps > 0 ? 6 : 5)) /* the latency is not there, or something twice */
		return coll_text_complain(&r->text, LINK_FORM);
	if ((e = read_range(r, words[1], &range)) != 0)
		return e;
	for (unsigned i = range.first; i <= range.last && e == 0; i++) {
		member(&range, i, name);
		e = add_link(r, name, words[2], &l);
	}
	return e;
}

static int
add_talk(struct topology_reader *r, uint32_t vertex)
{
	r->talks = grow(r->talks, r->talk_count, &r->talk_cap, sizeof(*r->talks));
	if (r->talks == NULL)
		return -ENOMEM;
	r->talks[r->talk_count++] = vertex;
	return 0;
}

static int
read_talk(struct topology_reader *r, char **words, unsigned n)
{
	char name[TOPOLOGY_NAME_MAX];
	struct topology_range range;
	int e = 0;

	if (n < 2)
		return coll_text_complain(&r->text, "talk NAME...");
	for (unsigned k = 1; k < n && e == 0; k++) {
		e = read_range(r, words[k], &range);
		for (unsigned i = range.first; e == 0 && i <= range.last; i++) {
			member(&range, i, name);
			const uint32_t v = topology_find(r->t, name);

			e = v == TOPOLOGY_NONE ? coll_text_complain(&r->text,
							 "no host or switch is named '%s'", name)
					       : add_talk(r, v);
		}
	}
	return e != 0 ? e : add_talk(r, TOPOLOGY_NONE);
}

static int
read_line(struct topology_reader *r, char *line)
{
	char *words[WORDS_MAX], *save = NULL;
	unsigned n = 0;

	line[strcspn(line, "#")] = '\0';
	for (char *w = strtok_r(line, " \t\r", &save); w != NULL;
		w = strtok_r(NULL, " \t\r", &save)) {
		if (n == WORDS_MAX)
			return coll_text_complain(&r->text, "too many words");
		words[n++] = w;
	}
	if (n == 0)
		return 0;
	if (strcmp(words[0], "switch") == 0 || strcmp(words[0], "host") == 0)
		return read_vertices(r, words, n, words[0][0] == 'h');
	if (strcmp(words[0], "link") == 0)
		return read_link(r, words, n);
	if (strcmp(words[0], "talk") == 0)
		return read_talk(r, words, n);
	return coll_text_complain(&r->text, "'%s': a line begins with switch, host, link or talk",
		words[0]);
}

/* Make two edges of each link, and put those of a vertex next to each other. */
static int
make_edges(struct topology_reader *r)
{
	struct topology *t = r->t;
	uint32_t at = 0;

	t->edge_count = 2 * r->link_count;
	t->edges = calloc(t->edge_count + 1, sizeof(*t->edges));
	/* link -> its first edge + 1 */
	uint32_t *other = calloc(t->edge_count + 1, sizeof(*other));

	if (t->edges == NULL || other == NULL) {
		free(other);
		return -ENOMEM;
	}
	for (uint32_t v = 0; v < t->vertex_count; v++) {
		t->vertices[v].first_edge = at;
		for (uint32_t i = 0; i < r->link_count; i++) {
			const struct topology_link *l = &r->links[i];

			if (l->a != v && l->b != v)
				continue;
			t->edges[at] = (struct topology_edge){
				.from = v,
				.to = l->a == v ? l->b : l->a,
				.bandwidth_bps = l->bandwidth_bps[l->a == v ? 0 : 1],
				.latency_ns = l->latency_ns,
				.stream_bps = l->stream_bps,
			};
			if (other[i]) {
				t->edges[at].reverse = other[i] - 1;
				t->edges[other[i] - 1].reverse = at;
			}
			other[i] = ++at;
		}
		t->vertices[v].edge_count = at - t->vertices[v].first_edge;
	}
	free(other);
	return 0;
}

/* Walk over the tree from the host in breadth-first order: the route from each vertex leads back
 * the way the walk came. Returns how many vertices it reached. */
static uint32_t
make_routes_to(struct topology *t, uint32_t node, uint32_t *queue)
{
	uint32_t head = 0, tail = 0;

	for (uint32_t v = 0; v < t->vertex_count; v++)
		t->routes[(uint64_t)v * t->host_count + node] = TOPOLOGY_NONE;
	queue[tail++] = t->hosts[node];
	while (head < tail) {
		uint32_t v = queue[head++];
		const struct topology_vertex *from = &t->vertices[v];

		for (uint32_t e = from->first_edge; e < from->first_edge + from->edge_count; e++) {
			uint32_t to = t->edges[e].to;
			uint32_t *route = &t->routes[(uint64_t)to * t->host_count + node];

			if (to == t->hosts[node] || *route != TOPOLOGY_NONE)
				continue;
			*route = t->edges[e].reverse;
			queue[tail++] = to;
		}
	}
	return tail;
}

static int
make_routes(struct topology_reader *r)
{
	struct topology *t = r->t;
	uint32_t *queue = calloc(t->vertex_count + 1, sizeof(*queue));
	int e = 0;

	t->hosts = calloc(t->host_count + 1, sizeof(*t->hosts));
	t->routes = calloc((size_t)t->vertex_count * t->host_count + 1, sizeof(*t->routes));
	if (queue == NULL || t->hosts == NULL || t->routes == NULL) {
		free(queue);
		return -ENOMEM;
	}
	for (uint32_t v = 0; v < t->vertex_count; v++) {
		if (t->vertices[v].host != TOPOLOGY_NONE)
			t->hosts[t->vertices[v].host] = v;
	}
	for (uint32_t node = 0; node < t->host_count && e == 0; node++) {
		if (make_routes_to(t, node, queue) != t->vertex_count)
			e = coll_text_complain(&r->text, "not everything is joined to '%s'",
				t->vertices[t->hosts[node]].name);
	}
	free(queue);
	return e;
}

/* Add the vertex's node, or those at the switch, to a row of bits. */
static void
add_nodes(const struct topology *t, uint32_t vertex, uint64_t *nodes)
{
	const struct topology_vertex *v = &t->vertices[vertex];

	if (v->host != TOPOLOGY_NONE)
		nodes[v->host / 64] |= 1ull << v->host % 64;
	for (uint32_t e = v->first_edge;
		v->host == TOPOLOGY_NONE && e < v->first_edge + v->edge_count; e++) {
		const uint32_t host = t->vertices[t->edges[e].to].host;

		if (host != TOPOLOGY_NONE)
			nodes[host / 64] |= 1ull << host % 64;
	}
}

/* Set who may talk to whom, line by line. Return 0 or -ENOMEM. */
static int
make_talks(struct topology_reader *r)
{
	struct topology *t = r->t;
	const uint32_t words = topology_talk_words(t);
	uint64_t *line = calloc(words, sizeof(*line));

	t->talks = calloc((size_t)t->host_count * words, sizeof(*t->talks));
	if (line == NULL || t->talks == NULL) {
		free(line);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < r->talk_count; i++) {
		if (r->talks[i] != TOPOLOGY_NONE) {
			add_nodes(t, r->talks[i], line);
			continue;
		}
		for (uint32_t node = 0; node < t->host_count; node++) {
			for (uint32_t w = 0; line[node / 64] >> node % 64 & 1 && w < words; w++)
				t->talks[(size_t)node * words + w] |= line[w];
		}
		memset(line, 0, words * sizeof(*line));
	}
	free(line);
	return 0;
}

static int
topology_check(struct topology_reader *r)
{
	const struct topology *t = r->t;

	r->text.line = 0;
	if (t->host_count == 0)
		return coll_text_complain(&r->text, "no host");
	for (uint32_t v = 0; v < t->vertex_count; v++) {
		const struct topology_vertex *x = &t->vertices[v];

		if (x->host != TOPOLOGY_NONE && x->edge_count > 1)
			return coll_text_complain(&r->text,
				"host '%s' has %u links: it may have one", x->name, x->edge_count);
	}
	/* a connected graph (make_routes() checks that) with one link less than vertices is a
	 * tree */
	if (r->link_count + 1 > t->vertex_count)
		return coll_text_complain(&r->text,
			"%u links among %u hosts and switches: there is a loop", r->link_count,
			t->vertex_count);
	return 0;
}

static int
read_lines(struct topology_reader *r, const char *text)
{
	char line[LINE_MAX_BYTES];
	int e = 0;

	while (*text != '\0' && e == 0) {
		size_t len = strcspn(text, "\n");

		r->text.line++;
		if (len >= sizeof(line))
			return coll_text_complain(&r->text, "longer than %zu characters",
				sizeof(line) - 1);
		memcpy(line, text, len);
		line[len] = '\0';
		text += len + (text[len] == '\n');
		e = read_line(r, line);
	}
	return e;
}

int
topology_parse(const char *text, struct topology **out, char *error, uint32_t error_len)
{
	struct topology_reader r = {
		.t = calloc(1, sizeof(*r.t)),
		.text = {.error = error, .error_len = error_len},
	};
	int e = r.t ? read_lines(&r, text) : -ENOMEM;

	if (e == 0)
		e = make_edges(&r);
	if (e == 0)
		e = topology_check(&r);
	if (e == 0)
		e = make_routes(&r);
	if (e == 0 && r.talk_count > 0)
		e = make_talks(&r);
	free(r.links);
	free(r.talks);
	if (e != 0) {
		if (e == -ENOMEM)
			snprintf(error, error_len, "no memory");
		topology_free(r.t);
		return e;
	}
	*out = r.t;
	return 0;
}

int
topology_read(const char *path, struct topology **out, char *error, uint32_t error_len)
{
	char *text, why[256];
	int e = coll_text_read(path, &text);

	if (e != 0) {
		snprintf(error, error_len, "%s: %s", path, strerror(-e));
		return e;
	}
	e = topology_parse(text, out, why, sizeof(why));
	if (e != 0)
		snprintf(error, error_len, "%s: %s", path, e == -ENOMEM ? "no memory" : why);
	free(text);
	return e;
}

void
topology_free(struct topology *t)
{
	if (t == NULL)
		return;
	free(t->vertices);
	free(t->edges);
	free(t->hosts);
	free(t->routes);
	free(t->talks);
	free(t);
}
