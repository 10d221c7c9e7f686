/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A cluster's network as a tree of switches and hosts, read from a small text: the simulator builds
 * it, and collectives are planned by it (contention-free gather, SWoPP 2008, section 4). A topology
 * is built once and then only read, by any thread.
 *
 * Each line of the text is one of these; # begins a comment:
 *
 *   switch NAME [buffer=SIZE]
 *       SIZE is the bytes of queue at each port (K, M, G); without it there is no bound
 *   host NAME [message=TIME] [copy=RATE]
 *       hosts are nodes 0, 1, 2 ... in the order of the text. Their processors take TIME for each
 *       message that they send or get, and for each byte what it takes at RATE; without these,
 *       nothing
 *   link NAME NAME bandwidth=RATE[/RATE] latency=TIME [stream=RATE]
 *       RATE in bit/s (K, M, G, T), TIME with ns, us, ms or s. The second bandwidth is that from
 *       the second name to the first, if it is another one. stream: most that what one host sends
 *       to one other gets of the link, as where tunnels or providers shape flows
 *   talk NAME...
 *       these may connect to each other; a switch stands for the hosts at it. Without such a line
 *       all may; with one, two hosts may if some line names both (an overlay: firewalls, gateways)
 *
 * h[0-47] stands for h0, h1 ... h47: in a host, switch or talk line for so many of them, in a link
 * line (first name) for so many links.
 */
#ifndef PMX_COLL_TOPOLOGY_H
#define PMX_COLL_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#define TOPOLOGY_NAME_MAX     32
#define TOPOLOGY_VERTICES_MAX 8192 /* routes take up to 256 MiB */
#define TOPOLOGY_NONE         UINT32_MAX

struct topology_vertex {
	char name[TOPOLOGY_NAME_MAX];
	uint32_t host;         /* node number; TOPOLOGY_NONE: it is a switch */
	uint64_t buffer_bytes; /* switch: queue of each port; 0 = no bound */
	uint64_t message_ns;   /* host: of each message that it sends or gets */
	uint64_t copy_bps;     /* ... and at this rate its bytes; 0 = no bound */
	uint32_t first_edge;   /* its edges are edges[first_edge .. first_edge + edge_count) */
	uint32_t edge_count;
};

/* One direction of a link. */
struct topology_edge {
	uint32_t from, to; /* vertices */
	uint32_t reverse;  /* the edge of the other direction */
	uint64_t bandwidth_bps, latency_ns;
	uint64_t stream_bps; /* of one host to one other; 0 = no bound */
};

struct topology {
	uint32_t vertex_count, edge_count, host_count;
	struct topology_vertex *vertices;
	struct topology_edge *edges; /* by vertex */
	uint32_t *hosts;             /* node number -> vertex */
	uint32_t *routes;            /* vertex * host_count + node -> first edge of the route;
				      * TOPOLOGY_NONE at the node itself */
	/* a row of bits for each node, of those that it may connect to; NULL: all may */
	uint64_t *talks;
};

/* Read a text. Returns 0 and *out, to be freed with topology_free; or -EINVAL or -ENOMEM, with a
 * sentence in error that names the line and what is wrong: an unknown word, a duplicate or unknown
 * name, a number out of range, a host with several links, a loop, or parts that are not
 * connected. */
int topology_parse(const char *text, struct topology **out, char *error, uint32_t error_len);
/* Read a text from a file, as topology_parse() does. Return -errno if it cannot be opened. The
 * sentence begins with the file's name. */
int topology_read(const char *path, struct topology **out, char *error, uint32_t error_len);
/* A size in bytes as in a text, with K, M or G of 1024. false: it is none, or above the maximum. */
#define TOPOLOGY_SIZE_MAX 1000000000000u
bool topology_size(const char *text, uint64_t *out);
void topology_free(struct topology *t);

/* Return the edge that leads from a vertex towards a node; TOPOLOGY_NONE at the node itself. */
static inline uint32_t
topology_route(const struct topology *t, uint32_t vertex, uint32_t node)
{
	return t->routes[(uint64_t)vertex * t->host_count + node];
}

/* Return what a node's processor takes to copy so many bytes, ns. topology_message_ns() returns
 * what it takes for a message of so many. */
static inline double
topology_copy_ns(const struct topology *t, uint32_t node, uint64_t bytes)
{
	const uint64_t bps = t->vertices[t->hosts[node]].copy_bps;

	return bps > 0 ? 8e9 * (double)bytes / (double)bps : 0;
}

static inline double
topology_message_ns(const struct topology *t, uint32_t node, uint64_t bytes)
{
	return (double)t->vertices[t->hosts[node]].message_ns + topology_copy_ns(t, node, bytes);
}

/* Return how many words a row of talks has. */
static inline uint32_t
topology_talk_words(const struct topology *t)
{
	return (t->host_count + 63) / 64;
}

/* Return whether a node may connect to another one; to itself it always may. */
static inline bool
topology_may_talk(const struct topology *t, uint32_t node, uint32_t other)
{
	return t->talks == NULL || node == other ||
		t->talks[(uint64_t)node * topology_talk_words(t) + other / 64] >> other % 64 & 1;
}

#endif
