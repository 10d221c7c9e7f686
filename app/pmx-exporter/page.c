/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The status page: one page of HTML without scripts and without anything from elsewhere, which its
 * reader's browser asks for again every few seconds.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/proto/proto.h"
#include "exporter.h"
#include "pmx-ctl/ctl.h"

static const char head[] =
	"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
	"<meta http-equiv=\"refresh\" content=\"5\">\n"
	"<meta name=\"viewport\" content=\"width=device-width\">\n"
	"<title>pmx-dpdk</title>\n<link rel=\"icon\" href=\"data:,\">\n<style>\n"
	"body{font:14px/1.4 system-ui,sans-serif;margin:1.5em;color:#1c2530;background:#f6f7f9}\n"
	"h1{font-size:20px}h2{font-size:17px;margin:0}h3{font-size:14px;margin:1em 0 .3em}\n"
	"section{background:#fff;border:1px solid #d8dde3;border-radius:6px;padding:1em;"
	"margin:0 0 1em}\n"
	"table{border-collapse:collapse;font-variant-numeric:tabular-nums}\n"
	"th,td{padding:.15em .7em;text-align:right;border-bottom:1px solid #edf0f3;"
	"white-space:nowrap}\n"
	"th{color:#5b6672;font-weight:500}th:first-child,td:first-child,.t{text-align:left}\n"
	".up{color:#11703a;font-weight:600}.down,.dead{color:#b3201c;font-weight:600}\n"
	".asking,.unused{color:#8a5a00}.facts{color:#5b6672;margin:.2em 0}\n"
	".heat td{padding:0;width:26px;min-width:26px;height:22px;border:1px solid #fff;"
	"text-align:center;font-size:11px}.heat td:first-child{padding:0 .7em 0 0;width:auto}\n"
	".heat th{font-size:11px;padding:0 2px;font-weight:400}\n"
	"</style></head><body>\n";

/* Write text with what HTML reads otherwise escaped. */
static void
put(FILE *out, const char *s)
{
	for (; *s; s++) {
		switch (*s) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		default:
			fputc(*s, out);
		}
	}
}

/* ------------------------------------------------------------------ parts */

static void
put_node(FILE *out, const struct primary *p, const struct primary *before, double seconds)
{
	const struct span stat = {before ? before->stat : NULL, p->stat, seconds};

	fprintf(out,
		"<p class=\"facts\">node %" PRIu64 ", version %s; lanes: %" PRIu64
		", %s; buffers free: %" PRIu64 " of %" PRIu64 "; flows: %" PRIu64
		"; frames a second: %s in, %s out, %s dropped</p>\n",
		get_u64(p->info, "node"), get_text(p->info, "version"), get_u64(p->info, "lanes"),
		get_text(p->info, "idle"), get_u64(p->info, "mbufs_free"),
		get_u64(p->info, "mbufs"), get_u64(p->info, "flows"),
		rate_text(span_rate(&stat, "proto_rx_frames")),
		rate_text(span_rate(&stat, "proto_tx_frames")),
		rate_text(fmax(0,
			span_rate(&stat, "proto_rx_frames") -
				span_rate(&stat, "proto_rx_accepted"))));
}

static void
put_links(FILE *out, const struct primary *p, const struct primary *before, double seconds)
{
	const char *number;
	json_t *link;

	fputs("<h3>Links</h3>\n<table><tr><th>link<th class=t>driver<th class=t>port<th "
	      "class=t>state<th>MTU<th>bits/s in<th>bits/s out<th>frames/s in<th>frames/s out"
	      "<th>lost</tr>\n",
		out);
	json_object_foreach(p->links, number, link) {
		const struct span s = {before ? json_object_get(before->links, number) : NULL, link,
			seconds};
		const bool up = get_u64(link, "up") != 0;

		fprintf(out, "<tr><td>%s<td class=t>", number);
		put(out, get_text(link, "driver"));
		fputs("<td class=t>", out);
		put(out, get_text(link, "port"));
		fprintf(out,
			"<td class=\"t %s\">%s<td>%" PRIu64 "<td>%s<td>%s<td>%s<td>%s<td>%" PRIu64
			"</tr>\n",
			up ? "up" : "down", up ? "up" : "down", get_u64(link, "mtu"),
			rate_text(8 * span_rate(&s, "rx_bytes")),
			rate_text(8 * span_rate(&s, "tx_bytes")),
			rate_text(span_rate(&s, "rx_frames")),
			rate_text(span_rate(&s, "tx_frames")), get_u64(link, "rx_lost"));
	}
	fputs("</table>\n", out);
}

static void
put_peers(FILE *out, const struct primary *p, const struct primary *before, double seconds)
{
	json_t *peer;
	size_t i;

	fputs("<h3>Peers</h3>\n<table><tr><th>node<th class=t>name<th class=t>address<th "
	      "class=t>state<th>round trip<th>bits/s in<th>bits/s out<th>sent again/s"
	      "<th>dropped/s<th>window used<th>silent</tr>\n",
		out);
	json_array_foreach(p->peers, i, peer) {
		const struct span s = span_of(before ? before->peers : NULL, peer, "node", seconds);

		fprintf(out, "<tr><td>%" PRIu64 "<td class=t>", get_u64(peer, "node"));
		put(out, get_text(peer, "name"));
		fputs("<td class=t>", out);
		put(out, get_text(peer, "address"));
		fprintf(out,
			"<td class=\"t %s\">%s<td>%s<td>%s<td>%s<td>%s<td>%s<td>%.0f %%<td>%s"
			"</tr>\n",
			get_text(peer, "state"), get_text(peer, "state"),
			time_text(get_u64(peer, "rtt_ns")),
			rate_text(8 * span_rate(&s, "rx_bytes")),
			rate_text(8 * span_rate(&s, "tx_bytes")),
			rate_text(span_rate(&s, "tx_retransmits")), rate_text(span_drops(&s)),
			100 * peer_window_used(peer),
			time_text(get_u64(peer, "silent_ms") * 1000000));
	}
	fputs("</table>\n", out);
}

/* Write one row of the heat map: how the round trips of the span spread over the buckets. */
static void
put_heat_row(FILE *out, const json_t *peer, const json_t *before)
{
	const json_t *now = json_object_get(peer, "round_trips");
	const json_t *then = json_object_get(before, "round_trips");
	uint64_t counts[PROTO_ROUND_TRIPS];
	const uint64_t all = round_trips_since(then, now, counts);

	if (all == 0)
		return;
	fprintf(out, "<tr><td>%" PRIu64 " ", get_u64(peer, "node"));
	put(out, get_text(peer, "name"));
	for (unsigned i = 0; i < PROTO_ROUND_TRIPS; i++) {
		const double share = (double)counts[i] / (double)all;
		/* so that one in ten thousand is seen */
		const double depth = share > 0 ? fmax(0.08, 1 + log10(share) / 4) : 0;

		fprintf(out, "<td style=\"background:rgba(196,56,23,%.2f)\"", depth);
		if (share > 0)
			fprintf(out, " title=\"%" PRIu64 " of %" PRIu64 "\">%s", counts[i], all,
				share >= 0.01 ? "" : "&middot;");
		else
			fputc('>', out);
	}
	fputs("</tr>\n", out);
}

static void
put_heat(FILE *out, const struct primary *p, const struct primary *oldest, double seconds)
{
	json_t *peer;
	size_t i;

	fprintf(out,
		"<h3>Round trips by peer, of the last %.0f s</h3>\n<table class=heat><tr><th>node",
		seconds);
	for (unsigned k = 0; k < PROTO_ROUND_TRIPS; k++) {
		const double us = PROTO_ROUND_TRIP_NS * (double)(1ull << k) / 1e3;

		if (k % 2 != 0)
			fputs("<th>", out);
		else if (us < 1000)
			fprintf(out, "<th>%.*f us", us < 1 ? 2 : 0, us);
		else
			fprintf(out, "<th>%.0f ms", us / 1e3);
	}
	fputs("</tr>\n", out);
	json_array_foreach(p->peers, i, peer)
		put_heat_row(out, peer,
			oldest != NULL
				? sample_numbered(oldest->peers, "node", get_u64(peer, "node"))
				: NULL);
	fputs("</table>\n", out);
}

static void
put_contexts(FILE *out, const struct primary *p, const struct primary *before, double seconds)
{
	json_t *c;
	size_t i;

	if (json_array_size(p->contexts) == 0) {
		fputs("<h3>Contexts</h3>\n<p class=facts>none is open</p>\n", out);
		return;
	}
	fputs("<h3>Contexts</h3>\n"
	      "<table><tr><th>context<th class=t>who<th class=t>state<th>process<th "
	      "class=t>attached<th>sent/s<th>received/s<th>send buffers busy<th>receive buffers "
	      "held<th>unread</tr>\n",
		out);
	json_array_foreach(p->contexts, i, c) {
		const struct span s = span_of(before ? before->contexts : NULL, c, "context",
			seconds);

		fprintf(out, "<tr><td>%" PRIu64 "<td class=t>", get_u64(c, "context"));
		put(out, get_text(c, "name"));
		fprintf(out,
			"<td class=t>%s<td>%" PRIu64 "<td class=t>%s<td>%s<td>%s<td>%" PRIu64
			" of %" PRIu64 "<td>%" PRIu64 " of %" PRIu64 "<td>%" PRIu64 "</tr>\n",
			get_text(c, "state"), get_u64(c, "pid"), get_text(c, "attached"),
			rate_text(span_rate(&s, "sent") + span_rate(&s, "paired_sent")),
			rate_text(span_rate(&s, "received") + span_rate(&s, "paired_received")),
			get_u64(c, "send_busy"), get_u64(c, "send_buffers"),
			get_u64(c, "receive_held"), get_u64(c, "receive_buffers"),
			get_u64(c, "lhs_waiting"));
	}
	fputs("</table>\n", out);
}

void
page_write(FILE *out, struct sample *const *samples, unsigned n)
{
	const struct sample *now = samples[0], *before = n > 1 ? samples[1] : NULL;
	const struct sample *oldest = n > 1 ? samples[n - 1] : NULL;
	const double seconds = before ? (double)(now->at_ms - before->at_ms) / 1e3 : 0;

	fputs(head, out);
	fprintf(out, "<h1>pmx-dpdk: %u primar%s on this host</h1>\n", now->count,
		now->count == 1 ? "y" : "ies");
	for (unsigned i = 0; i < now->count; i++) {
		const struct primary *p = &now->primaries[i];
		const struct primary *was = sample_primary(before, p->name);
		const char *state = p->is_up ? "up" : p->is_dead ? "dead" : "asking";

		fputs("<section><h2>", out);
		put(out, p->name);
		fprintf(out, " <span class=%s>%s</span></h2>\n", state,
			p->is_up             ? "up"
				: p->is_dead ? "dead"
					     : "not known");
		if (p->is_up) {
			put_node(out, p, was, seconds);
			put_links(out, p, was, seconds);
			put_peers(out, p, was, seconds);
			put_heat(out, p, sample_primary(oldest, p->name),
				oldest ? (double)(now->at_ms - oldest->at_ms) / 1e3 : 0);
			put_contexts(out, p, was, seconds);
		} else {
			fputs("<p class=facts>", out);
			put(out, p->error != NULL ? p->error : "");
			fputs("</p>\n", out);
		}
		fputs("</section>\n", out);
	}
	fputs("<p class=facts>Counters for machines: <a href=\"metrics\">/metrics</a></p>\n"
	      "</body></html>\n",
		out);
}
