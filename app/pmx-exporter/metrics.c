/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Metrics for Prometheus. A metric's samples stand together, so each goes through all primaries.
 * Labels are bounded: primaries of this host, nodes of [nodes], links, open contexts.
 */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "core/proto/proto.h"
#include "engine/lane.h"
#include "exporter.h"
#include "pmx-ctl/ctl.h"

struct writer {
	FILE *out;
	const struct sample *s;
	bool openmetrics;
};

/* Write a value of a label. */
static void
put_label(FILE *out, const char *name, const char *value)
{
	fprintf(out, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\')
			fputc('\\', out);
		if (*value == '\n')
			fputs("\\n", out);
		else
			fputc(*value, out);
	}
	fputc('"', out);
}

/* Write a metric's head. kind: counter, gauge, histogram. */
static void
put_head(const struct writer *w, const char *name, const char *kind, const char *help)
{
	/* OpenMetrics names the family, Prometheus's own format the samples */
	const char *end = strcmp(kind, "counter") == 0 && !w->openmetrics ? "_total" : "";
	const bool sentence = strncmp(help, "... ", 4) == 0;

	fprintf(w->out, "# HELP pmx_%s%s %s\n# TYPE pmx_%s%s %s\n", name, end,
		sentence ? help + 4 : help, name, end, kind);
}

/* Write a sample's name and the labels that all have; the caller goes on with labels that begin
 * with a comma, and with put_value(). */
static void
put_sample(const struct writer *w, const char *name, const char *end, const struct primary *p)
{
	fprintf(w->out, "pmx_%s%s{", name, end);
	put_label(w->out, "primary", p->name);
}

static void
put_value(const struct writer *w, double value)
{
	fprintf(w->out, "} %.17g\n", value);
}

/* Return a label's text for a peer: its name, or none. */
static void
put_peer(const struct writer *w, const json_t *peer)
{
	fprintf(w->out, ",peer=\"%" PRIu64 "\"", get_u64(peer, "node"));
	if (*get_text(peer, "name") != 0) {
		fputc(',', w->out);
		put_label(w->out, "peer_name", get_text(peer, "name"));
	}
}

/* ------------------------------------------------------------------ the node */

static void
put_primaries(const struct writer *w)
{
	put_head(w, "up", "gauge", "1: the primary answers; 0: it is dead, or may not be asked");
	for (unsigned i = 0; i < w->s->count; i++) {
		put_sample(w, "up", "", &w->s->primaries[i]);
		put_value(w, w->s->primaries[i].is_up);
	}
	put_head(w, "primary_info", "gauge", "the primary's version and node number");
	for (unsigned i = 0; i < w->s->count; i++) {
		const struct primary *p = &w->s->primaries[i];

		if (!p->is_up)
			continue;
		put_sample(w, "primary_info", "", p);
		fprintf(w->out, ",node=\"%" PRIu64 "\",", get_u64(p->info, "node"));
		put_label(w->out, "version", get_text(p->info, "version"));
		put_value(w, 1);
	}
}

/* Write a metric of each primary that has it in an object. */
static void
put_member(const struct writer *w, const char *key, const char *kind,
	json_t *const *(*where)(const struct primary *p))
{
	const char *end = strcmp(kind, "counter") == 0 ? "_total" : "";

	put_head(w, key, kind, counter_meaning(key).help);
	for (unsigned i = 0; i < w->s->count; i++) {
		const struct primary *p = &w->s->primaries[i];
		const json_t *value = p->is_up ? json_object_get(*where(p), key) : NULL;

		if (!json_is_integer(value))
			continue;
		put_sample(w, key, end, p);
		put_value(w, (double)(uint64_t)json_integer_value(value));
	}
}

static json_t *const *
info_of(const struct primary *p)
{
	return &p->info;
}

static json_t *const *
stat_of(const struct primary *p)
{
	return &p->stat;
}

static void
put_node(const struct writer *w)
{
	static const char *const gauges[] = {"lanes", "contexts", "mbufs", "mbufs_free",
		"mbufs_unpromised", "flows"};
	json_t *value;
	const char *key;

	for (size_t i = 0; i < sizeof(gauges) / sizeof(gauges[0]); i++)
		put_member(w, gauges[i], "gauge", info_of);
	for (unsigned i = 0; i < w->s->count; i++) {
		/* all primaries of a host have the same counters, but for its version */
		if (!w->s->primaries[i].is_up)
			continue;
		json_object_foreach(w->s->primaries[i].stat, key, value)
			put_member(w, key, "counter", stat_of);
		break;
	}
}

/* ------------------------------------------------------------------ links */

static void
put_links(const struct writer *w)
{
	static const struct {
		const char *key, *kind, *help;
	} metrics[] = {
		{"up", "gauge", "1: the link has a carrier"},
		{"rx_frames", "counter", "frames that came by the link"},
		{"rx_bytes", "counter", "bytes that came by the link"},
		{"tx_frames", "counter", "frames that left by the link"},
		{"tx_bytes", "counter", "bytes that left by the link"},
		{"rx_lost", "counter", "frames that the link lost: no buffer, or too long"},
		{"tx_refused", "counter", "frames that the port did not take; they are sent again"},
	};

	for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++) {
		char name[40];

		snprintf(name, sizeof(name), "link_%s", metrics[m].key);
		put_head(w, name, metrics[m].kind, metrics[m].help);
		for (unsigned i = 0; i < w->s->count; i++) {
			const struct primary *p = &w->s->primaries[i];
			const char *number;
			json_t *link;

			json_object_foreach(p->links, number, link) {
				put_sample(w, name, *metrics[m].kind == 'c' ? "_total" : "", p);
				fputc(',', w->out);
				put_label(w->out, "link", number);
				put_value(w, (double)get_u64(link, metrics[m].key));
			}
		}
	}
}

/* ------------------------------------------------------------------ peers */

static double
peer_up(const json_t *peer)
{
	return strcmp(get_text(peer, "state"), "up") == 0;
}

static double
peer_silence(const json_t *peer)
{
	return (double)get_u64(peer, "silent_ms") / 1e3;
}

static double
peer_smoothed(const json_t *peer)
{
	return (double)get_u64(peer, "rtt_ns") / 1e9;
}

static double
peer_window(const json_t *peer)
{
	return (double)get_u64(peer, "cwnd_bytes");
}

static double
peer_in_flight(const json_t *peer)
{
	return (double)get_u64(peer, "inflight_bytes");
}

static void
put_round_trips(const struct writer *w, const struct primary *p, const json_t *peer)
{
	const json_t *trips = json_object_get(peer, "round_trips");
	uint64_t seen = 0;
	double sum = 0;
	json_t *n;
	size_t i;

	json_array_foreach((json_t *)trips, i, n) {
		const double le = PROTO_ROUND_TRIP_NS * (double)(1ull << i) / 1e9;

		seen += (uint64_t)json_integer_value(n);
		sum += (double)json_integer_value(n) * le * 0.75; /* the middle of the bucket */
		put_sample(w, "peer_round_trip_seconds", "_bucket", p);
		put_peer(w, peer);
		if (i + 1 < PROTO_ROUND_TRIPS)
			fprintf(w->out, ",le=\"%.9g\"", le);
		else
			fputs(",le=\"+Inf\"", w->out);
		put_value(w, (double)seen);
	}
	put_sample(w, "peer_round_trip_seconds", "_count", p);
	put_peer(w, peer);
	put_value(w, (double)seen);
	put_sample(w, "peer_round_trip_seconds", "_sum", p);
	put_peer(w, peer);
	put_value(w, sum);
}

/* Write one metric of all peers. */
static void
put_of_peers(const struct writer *w, const char *name, const char *kind, const char *help,
	const char *key, double (*value)(const json_t *peer))
{
	put_head(w, name, kind, help);
	for (unsigned i = 0; i < w->s->count; i++) {
		const struct primary *p = &w->s->primaries[i];
		json_t *peer;
		size_t k;

		json_array_foreach(p->peers, k, peer) {
			if (key != NULL && json_object_get(peer, key) == NULL)
				continue; /* it was never met */
			if (*kind == 'h') {
				put_round_trips(w, p, peer);
				continue;
			}
			put_sample(w, name, *kind == 'c' ? "_total" : "", p);
			put_peer(w, peer);
			put_value(w, value != NULL ? value(peer) : (double)get_u64(peer, key));
		}
	}
}

static void
put_peer_counter(const struct writer *w, const struct proto_counter_info *c)
{
	char name[64];

	snprintf(name, sizeof(name), "peer_%s", c->name);
	put_of_peers(w, name, "counter", c->help, c->name, NULL);
}

static void
put_peers(const struct writer *w)
{
	put_of_peers(w, "peer_up", "gauge", "1: there is a session with the node", NULL, peer_up);
	put_of_peers(w, "peer_silence_seconds", "gauge", "since its last frame came", "silent_ms",
		peer_silence);
	put_of_peers(w, "peer_smoothed_round_trip_seconds", "gauge",
		"the round trip by which frames are judged lost", NULL, peer_smoothed);
	put_of_peers(w, "peer_window_bytes", "gauge", "what may be in flight to the node", NULL,
		peer_window);
	put_of_peers(w, "peer_in_flight_bytes", "gauge", "what is in flight to the node", NULL,
		peer_in_flight);
	put_of_peers(w, "peer_window_used_ratio", "gauge",
		"1: as much is in flight as may be, so the node is at its bound", NULL,
		peer_window_used);
	for (unsigned i = 0; i < PROTO_PEER_COUNTER_COUNT; i++)
		put_peer_counter(w, &proto_peer_counter_info[i]);
	for (unsigned i = 0; i < SEALED_COUNTER_COUNT; i++)
		put_peer_counter(w, sealed_counter_info[i]);
	put_of_peers(w, "peer_round_trip_seconds", "histogram", "times from a frame to its Ack",
		"round_trips", NULL);
}

/* ------------------------------------------------------------------ contexts */

static void
put_contexts(const struct writer *w)
{
	static const struct {
		const char *name, *key, *kind, *help;
	} metrics[] = {
		{"context_sent", "sent", "counter", "messages sent by the engine"},
		{"context_received", "received", "counter", "messages that came by the engine"},
		{"context_sent_bytes", "sent_bytes", "counter", "bytes of those messages"},
		{"context_received_bytes", "received_bytes", "counter", "bytes of those that came"},
		{"context_paired_sent", "paired_sent", "counter",
			"messages sent past the engine, to contexts of this node"},
		{"context_paired_received", "paired_received", "counter",
			"messages that came past the engine"},
		{"context_bad", "bad", "counter", "submissions that were refused as wrong"},
		{"context_send_buffers", "send_buffers", "gauge", "send buffers that it has"},
		{"context_send_buffers_busy", "send_busy", "gauge", "... that wait for their Acks"},
		{"context_receive_buffers", "receive_buffers", "gauge",
			"receive buffers that it may have"},
		{"context_receive_buffers_held", "receive_held", "gauge",
			"... that it has not given back"},
		{"context_unread", "lhs_waiting", "gauge", "messages that it has not received"},
	};

	for (size_t m = 0; m < sizeof(metrics) / sizeof(metrics[0]); m++) {
		put_head(w, metrics[m].name, metrics[m].kind, metrics[m].help);
		for (unsigned i = 0; i < w->s->count; i++) {
			const struct primary *p = &w->s->primaries[i];
			json_t *c;
			size_t k;

			json_array_foreach(p->contexts, k, c) {
				put_sample(w, metrics[m].name,
					*metrics[m].kind == 'c' ? "_total" : "", p);
				fprintf(w->out, ",context=\"%" PRIu64 "\",", get_u64(c, "context"));
				put_label(w->out, "context_name", get_text(c, "name"));
				put_value(w, (double)get_u64(c, metrics[m].key));
			}
		}
	}
}

void
metrics_write(FILE *out, const struct sample *s, bool openmetrics)
{
	const struct writer w = {out, s, openmetrics};

	put_primaries(&w);
	put_node(&w);
	put_links(&w);
	put_peers(&w);
	put_contexts(&w);
	if (openmetrics)
		fputs("# EOF\n", out);
}
