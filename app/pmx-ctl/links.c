/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The command links: the links of a node, what goes over them now, and which of them reach the
 * peers that have several.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "config/config.h"
#include "ctl.h"

#define MEASURE_S 0.5

/* Return how much a counter of a link has grown per second. */
static double
grown(const json_t *before, const json_t *after, const char *link, const char *counter)
{
	const json_t *a = json_object_get(before, link), *b = json_object_get(after, link);

	return ((double)get_u64(b, counter) - (double)get_u64(a, counter)) / MEASURE_S;
}

/* {"0": {...}} -> [{"link": 0, ..., "rx_frames_s": ...}] */
static json_t *
with_rates(const json_t *before, const json_t *after)
{
	static const char *const counters[] = {"rx_frames", "rx_bytes", "tx_frames", "tx_bytes"};
	json_t *list = json_array(), *value;
	const char *link;

	json_object_foreach((json_t *)after, link, value) {
		json_t *item = json_pack("{s:i}", "link", (int)(link[0] - '0'));

		json_object_update(item, value);
		for (unsigned i = 0; i < 4; i++) {
			char *name = text("%s_s", counters[i]);

			json_object_set_new(item, name,
				json_real(grown(before, after, link, counters[i])));
			free(name);
		}
		json_array_append_new(list, item);
	}
	return list;
}

/* Ask twice for the links' counters, MEASURE_S seconds apart. Return the list of links with their
 * rates, which the caller releases, or NULL with a message in error. */
static json_t *
links_measure(struct ctl_session *s, char *error)
{
	json_t *before = session_ask(s, "/pmx/links", error), *after = NULL, *list = NULL;

	if (before != NULL) {
		sleep_s(MEASURE_S);
		after = session_ask(s, "/pmx/links", error);
	}
	if (after != NULL)
		list = with_rates(before, after);
	json_decref(before);
	json_decref(after);
	return list;
}

static void
print_links(const json_t *links)
{
	struct table t;
	size_t i;
	json_t *l;

	table_begin(&t,
		">link|driver|port|state|>mtu|>rx frames/s|>rx MB/s|>tx frames/s|>tx MB/s|"
		">rx lost|>tx refused");
	json_array_foreach(links, i, l) {
		table_row(&t,
			"%" PRIu64 "\t%s\t%s\t%s\t%" PRIu64 "\t%.0f\t%.1f\t%.0f\t%.1f\t%" PRIu64
			"\t%" PRIu64,
			get_u64(l, "link"), get_text(l, "driver"), get_text(l, "port"),
			get_u64(l, "up") ? "up" : "down", get_u64(l, "mtu"),
			json_real_value(json_object_get(l, "rx_frames_s")),
			json_real_value(json_object_get(l, "rx_bytes_s")) / 1e6,
			json_real_value(json_object_get(l, "tx_frames_s")),
			json_real_value(json_object_get(l, "tx_bytes_s")) / 1e6,
			get_u64(l, "rx_lost"), get_u64(l, "tx_refused"));
	}
	table_end(&t, stdout);
}

const char *
rail_address(const json_t *peer, unsigned link, bool *up)
{
	char *key = text("link%u_address", link);
	const char *address = json_string_value(json_object_get(peer, key));

	free(key);
	key = text("link%u_up", link);
	*up = get_u64(peer, key) != 0;
	free(key);
	return address;
}

static void
print_rails(const json_t *rails)
{
	struct table t;
	size_t i;
	json_t *r;

	if (json_array_size(rails) == 0)
		return;
	printf("\npeers with several links:\n");
	table_begin(&t, ">node|>link|address|state");
	json_array_foreach(rails, i, r) {
		for (unsigned link = 0; link < CONFIG_LINKS_MAX; link++) {
			bool up;
			const char *address = rail_address(r, link, &up);

			if (address != NULL)
				table_row(&t, "%" PRIu64 "\t%u\t%s\t%s", get_u64(r, "node"), link,
					address, up ? "up" : "down");
		}
	}
	table_end(&t, stdout);
}

int
show_links(struct ctl_session *s, const struct ctl_options *o)
{
	char error[CTL_ERROR_MAX];
	json_t *rails = ask_pages(s, "/pmx/rails", "node", error);
	json_t *links = rails != NULL ? links_measure(s, error) : NULL;

	if (links == NULL) {
		json_decref(rails);
		return complain("%s", error);
	}
	if (o->json)
		return print_json(json_pack("{s:o, s:o}", "links", links, "peers", rails));
	print_links(links);
	print_rails(rails);
	json_decref(links);
	json_decref(rails);
	return 0;
}
